//! Responses counted by their status.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Cx, Filter, Flow, Refusal};
use crate::http::{Request, ResponseHead, Status};

/// How many responses had which status. Shared between the filter that counts and whoever reads;
/// both are on the loop's thread.
#[derive(Debug)]
pub(crate) struct Statuses([AtomicU64; CODES]);

const FIRST: u16 = 100;
const CODES: usize = 500;

impl Default for Statuses {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Statuses {
    fn note(&self, status: Status) {
        let index = usize::from(status.code() - FIRST);
        // Nobody else writes, so that a read and a write do, at the cost of an integer.
        let count = self.0[index].load(Ordering::Relaxed);
        self.0[index].store(count + 1, Ordering::Relaxed);
    }

    /// The statuses that there were, and how often.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Status, u64)> {
        (FIRST..).zip(&self.0).filter_map(|(code, count)| {
            let count = count.load(Ordering::Relaxed);
            Status::from_code(code).filter(|_| count > 0).map(|status| (status, count))
        })
    }
}

/// The filter that counts; it stands in front of all others.
#[derive(Debug)]
pub(crate) struct StatusCount(pub(crate) Arc<Statuses>);

impl Filter for StatusCount {
    fn on_head(&mut self, _request: &Request<'_>, _cx: &mut Cx<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, head: &mut ResponseHead, _cx: &mut Cx<'_>) {
        self.0.note(head.status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own_count() {
        let statuses = Statuses::default();
        let [first, last] = [100, 599].map(|code| Status::from_code(code).expect("in range"));
        for status in [first, Status::OK, last, Status::OK] {
            statuses.note(status);
        }
        let counts: Vec<_> = statuses.counts().collect();
        assert_eq!(counts, [(first, 1), (Status::OK, 2), (last, 1)]);
    }
}
