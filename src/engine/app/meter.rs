//! Requests counted by method, ending and time.

use std::sync::Arc;
use std::time::Duration;

use crate::filter::Statuses;
use crate::mcp::Method;
use crate::mcp::model::Ending;

/// What is counted of every request and response, for those who asked for it.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) statuses: Arc<Statuses>,
    /// By the number of the method; those the protocol does not have come last.
    lanes: Box<[Lane]>,
}

/// What is counted of one method.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lane {
    /// By [`ENDINGS`].
    pub(crate) endings: [u64; ENDINGS.len()],
    /// Requests that took no longer than the bound of this number, and longer than the one before.
    pub(crate) within: [u64; BOUNDS.len()],
    pub(crate) took: Duration,
}

/// How requests end, by name.
pub(crate) const ENDINGS: [&str; 4] = ["result", "failure", "error", "cancelled"];

/// Bounds of the times that are told apart, in milliseconds. What is answered in the turn in which
/// it came is in the first; the last is about how long people wait for a tool.
pub(crate) const BOUNDS: [u64; 15] =
    [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

impl Meter {
    pub(crate) fn new(statuses: Arc<Statuses>) -> Self {
        Self { statuses, lanes: vec![Lane::default(); Method::ALL.len() + 1].into() }
    }

    /// Takes note of a request that has ended.
    pub(super) fn note(&mut self, method: Option<Method>, ending: Ending, took: Duration) {
        let index = method.map_or(Method::ALL.len(), |method| method as usize);
        let Some(lane) = self.lanes.get_mut(index) else { return };
        lane.endings[match ending {
            Ending::Result => 0,
            Ending::Failure => 1,
            Ending::Error(_) => 2,
            Ending::Cancelled => 3,
        }] += 1;
        lane.took += took;
        let fits = |bound: &u64| took <= Duration::from_millis(*bound);
        if let Some(bound) = BOUNDS.iter().position(fits) {
            lane.within[bound] += 1;
        }
    }

    /// The methods that were called, and what was counted of each.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&'static str, &Lane)> {
        let names = Method::ALL.iter().map(|method| method.as_str()).chain(["other"]);
        names.zip(&self.lanes).filter(|(_, lane)| lane.count() > 0)
    }
}

impl Lane {
    pub(crate) fn count(&self) -> u64 {
        self.endings.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_counted_under_its_own_name() {
        let mut meter = Meter::new(Arc::default());
        for method in Method::ALL {
            meter.note(Some(*method), Ending::Result, Duration::ZERO);
        }
        meter.note(None, Ending::Error(-32601), Duration::ZERO);
        let names: Vec<&str> = meter.lanes().map(|(name, _)| name).collect();
        let expected = Method::ALL.iter().map(|method| method.as_str()).chain(["other"]);
        assert!(names.into_iter().eq(expected));
    }

    #[test]
    fn a_time_is_counted_once_under_the_first_bound_that_holds_it() {
        let mut meter = Meter::new(Arc::default());
        for ms in [0, 1, 2, 300_000, 300_001] {
            meter.note(None, Ending::Cancelled, Duration::from_millis(ms));
        }
        let (_, lane) = meter.lanes().next().expect("one method was called");
        assert_eq!((lane.within[0], lane.within[1], lane.within[14]), (2, 1, 1));
        assert_eq!((lane.within.iter().sum::<u64>(), lane.count()), (4, 5));
        assert_eq!((lane.endings, lane.took), ([0, 0, 0, 5], Duration::from_millis(600_004)));
    }
}
