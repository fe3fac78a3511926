//! One queue of deadlines. No handles, no cancelling: the owner keeps its deadline, and a stale
//! entry fires into nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Keys ordered by when they are due; equal instants fire in the order they were armed.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    heap: BinaryHeap<Reverse<(Instant, u64, K)>>,
    armed: u64,
}

impl<K: Ord + Copy> Timers<K> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), armed: 0 }
    }

    /// Adds an entry. Arming again does not move the earlier entry; both will fire.
    pub(crate) fn arm(&mut self, at: Instant, key: K) {
        self.armed += 1;
        self.heap.push(Reverse((at, self.armed, key)));
    }

    /// When the next entry is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes one entry that is due at `now`, with the instant it was armed for.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, K)> {
        if self.next_deadline()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, key))| (at, key))
    }

    /// Drops the entries that `is_live` says nobody needs any more.
    pub(crate) fn retain(&mut self, mut is_live: impl FnMut(Instant, K) -> bool) {
        self.heap.retain(|Reverse((at, _, key))| is_live(*at, *key));
    }

    /// Number of entries, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn epoch() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        Instant::now()
    }

    #[test]
    fn entries_fire_by_deadline_then_by_arming_order() {
        let start = epoch();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = Timers::new();
        timers.arm(at(20), 'c');
        timers.arm(at(10), 'a');
        timers.arm(at(10), 'b');
        assert_eq!(timers.next_deadline(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        let fired: Vec<char> =
            std::iter::from_fn(|| timers.pop_due(at(20)).map(|(_, key)| key)).collect();
        assert_eq!(fired, ['a', 'b', 'c']);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn entries_nobody_needs_can_be_dropped() {
        let start = epoch();
        let mut timers = Timers::new();
        for key in 0..10 {
            timers.arm(start, key);
        }
        timers.retain(|_, key| key % 2 == 0);
        assert_eq!(timers.len(), 5);
        assert_eq!(timers.pop_due(start), Some((start, 0)));
    }
}
