//! Buffers between their uses: an idle connection holds none.

use crate::buf::ByteQueue;

/// Empty buffers that are ready for use, so that a request costs no allocation and an idle
/// connection no memory.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<ByteQueue>,
    /// Capacity of all free buffers.
    bytes: usize,
}

/// Enough for most requests; larger ones grow.
const FRESH_BYTES: usize = 16 * 1024;
/// What all free buffers may hold together: a few large messages follow each other without asking
/// the system for memory each time, and no burst of them pins more than this.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// As many as the busiest turns need at once; the rest would only sit here.
const KEPT_MAX: usize = 64;

impl Pool {
    /// Gives the queue memory if it has none.
    pub(crate) fn equip(&mut self, queue: &mut ByteQueue) {
        if queue.capacity() > 0 {
            return;
        }
        *queue = match self.free.pop() {
            Some(used) => {
                self.bytes -= used.capacity();
                used
            }
            None => ByteQueue::with_capacity(FRESH_BYTES),
        };
    }

    /// Gives the queue memory for one message if it has none. A message that goes out to thousands
    /// of idle streams at once must not cost thousands of full buffers.
    pub(crate) fn equip_for(&mut self, queue: &mut ByteQueue, bytes: usize) {
        if queue.capacity() == 0 && self.free.is_empty() {
            *queue = ByteQueue::with_capacity(bytes);
        } else {
            self.equip(queue);
        }
    }

    /// Takes the memory of an empty queue back.
    pub(crate) fn collect(&mut self, queue: &mut ByteQueue) {
        if !queue.is_empty() || queue.capacity() == 0 {
            return;
        }
        let freed = std::mem::replace(queue, ByteQueue::new());
        let bytes = self.bytes + freed.capacity();
        let useful = freed.capacity() >= FRESH_BYTES;
        if useful && bytes <= KEPT_BYTES_MAX && self.free.len() < KEPT_MAX {
            self.bytes = bytes;
            self.free.push(freed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_round_within_its_bounds() {
        let mut pool = Pool::default();
        let mut queue = ByteQueue::new();
        pool.equip(&mut queue);
        queue.push(b"x");
        pool.collect(&mut queue);
        assert!(queue.capacity() > 0, "a queue in use keeps its memory");
        queue.consume(1);
        pool.collect(&mut queue);
        assert_eq!((queue.capacity(), pool.free.len()), (0, 1));

        for bytes in [KEPT_BYTES_MAX + 1, 1] {
            let mut unfit = ByteQueue::with_capacity(bytes);
            pool.collect(&mut unfit);
            assert_eq!((unfit.capacity(), pool.free.len()), (0, 1), "{bytes}");
        }
    }

    #[test]
    fn a_single_message_does_not_take_a_full_buffer() {
        let mut pool = Pool::default();
        let mut queue = ByteQueue::new();
        pool.equip_for(&mut queue, 100);
        assert!((100..FRESH_BYTES).contains(&queue.capacity()));
        pool.collect(&mut ByteQueue::with_capacity(FRESH_BYTES));
        let mut second = ByteQueue::new();
        pool.equip_for(&mut second, 100);
        assert_eq!((second.capacity(), pool.free.len()), (FRESH_BYTES, 0), "one was lying there");
    }
}
