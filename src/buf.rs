//! The byte queue that every connection reads into and writes from. It knows nothing of what the
//! bytes mean.

use std::fmt;
use std::io;

/// Smallest buffer ever allocated: below this the allocator's own overhead dominates.
const CAPACITY_MIN: usize = 512;

/// A queue of bytes: appended at the end, consumed from the front, contiguous at all times.
///
/// Consuming moves a cursor and not the bytes, so a large output that drains in many small writes
/// is never shifted. The backing buffer is zeroed once when it is allocated and stays initialised,
/// so a socket can read straight into [`ByteQueue::space`].
#[derive(Default, Clone)]
pub struct ByteQueue {
    /// Fully initialised; its length is the capacity.
    bytes: Vec<u8>,
    /// First live byte. Zero when the queue is empty.
    start: usize,
    /// One past the last live byte. `start <= end <= bytes.len()`.
    end: usize,
}

impl ByteQueue {
    /// An empty queue, which allocates nothing until the first byte comes.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0 }
    }

    /// An empty queue with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], start: 0, end: 0 }
    }

    /// How many bytes wait in the queue.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing waits in the queue.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many bytes the backing buffer holds in all, live or free.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The waiting bytes, oldest first.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The waiting bytes, to be rewritten in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// All free bytes behind the data, at least `min` of them.
    ///
    /// What is written there becomes data only by [`ByteQueue::filled`]. The content is whatever an
    /// earlier use left.
    #[must_use]
    pub fn space(&mut self, min: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < min {
            self.make_room(min);
        }
        &mut self.bytes[self.end..]
    }

    /// Declares the first `count` bytes of the last [`ByteQueue::space`] to be data.
    ///
    /// # Panics
    ///
    /// When `count` is more than the free space.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "filled more than the free space");
        self.end += count;
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends one byte.
    pub fn push_byte(&mut self, byte: u8) {
        self.space(1)[0] = byte;
        self.end += 1;
    }

    /// Drops the first `count` bytes.
    ///
    /// # Panics
    ///
    /// When fewer bytes wait.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "consumed more than the queue holds");
        self.start += count;
        if self.start == self.end {
            self.clear();
        }
    }

    /// Drops everything; the buffer is kept.
    pub const fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Drops everything behind the first `len` bytes; does nothing when the queue is shorter.
    pub fn truncate_to(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
        if self.start == self.end {
            self.clear();
        }
    }

    /// Overwrites data from the offset `at` on.
    ///
    /// # Panics
    ///
    /// When `bytes` would reach past the end of the data.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.data_mut()[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Gives memory back: the buffer is replaced by one of the data's size when it is larger than
    /// `capacity_max` and less than half full.
    ///
    /// For the moment when a connection becomes idle, so that one large message does not pin its
    /// buffer for the connection's life.
    pub fn shrink(&mut self, capacity_max: usize) {
        if self.capacity() <= capacity_max || self.len() > self.capacity() / 2 {
            return;
        }
        self.bytes = self.data().to_vec();
        self.end -= self.start;
        self.start = 0;
    }

    /// Moves the data to the front when that is cheap and enough, and grows otherwise.
    #[cold]
    fn make_room(&mut self, min: usize) {
        let len = self.len();
        // Moving more than twice what was consumed would cost a memmove per write for a reader that
        // consumes little at a time; a larger buffer makes the next move pay for itself.
        if self.bytes.len() - len >= min && len <= self.start * 2 {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            let capacity = (len + min).max(self.bytes.len() * 2).max(CAPACITY_MIN);
            let mut grown = vec![0; capacity];
            grown[..len].copy_from_slice(self.data());
            self.bytes = grown;
        }
        self.start = 0;
        self.end = len;
    }
}

impl fmt::Debug for ByteQueue {
    /// Leaves out the bytes: they are many, and some are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

impl io::Write for ByteQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.push(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn queue(bytes: &[u8]) -> ByteQueue {
        let mut queue = ByteQueue::new();
        queue.push(bytes);
        queue
    }

    #[test]
    fn a_new_queue_owns_no_memory() {
        assert_eq!(ByteQueue::new().capacity(), 0);
        assert!(ByteQueue::new().is_empty());
        assert_eq!(ByteQueue::with_capacity(7).capacity(), 7);
    }

    #[test]
    fn bytes_leave_in_the_order_they_came() {
        let mut queue = queue(b"hello");
        queue.push_byte(b' ');
        queue.write_all(b"world").expect("writing to memory cannot fail");
        queue.consume(3);
        assert_eq!(queue.data(), b"lo world");
        assert_eq!(queue.len(), 8);
    }

    #[test]
    fn an_emptied_queue_starts_over_at_its_front() {
        let mut queue = queue(b"abc");
        let capacity = queue.capacity();
        queue.consume(3);
        assert_eq!(queue.space(capacity).len(), capacity);
        assert_eq!(queue.capacity(), capacity);
    }

    #[test]
    fn space_is_everything_free_and_at_least_what_was_asked() {
        let mut queue = ByteQueue::with_capacity(16);
        assert_eq!(queue.space(1).len(), 16);
        queue.space(4)[..4].copy_from_slice(b"data");
        queue.filled(4);
        assert_eq!(queue.data(), b"data");
        assert_eq!(queue.space(0).len(), 12);
        assert!(queue.space(13).len() >= 13);
        assert_eq!(queue.data(), b"data");
    }

    #[test]
    fn room_is_made_by_moving_when_little_is_left_to_move() {
        let mut queue = queue(&[7; CAPACITY_MIN]);
        queue.consume(CAPACITY_MIN - 10);
        assert_eq!(queue.space(100).len(), CAPACITY_MIN - 10);
        assert_eq!((queue.capacity(), queue.data()), (CAPACITY_MIN, &[7; 10][..]));
    }

    #[test]
    fn room_is_made_by_growing_when_much_would_have_to_move() {
        let mut queue = queue(&[7; CAPACITY_MIN]);
        queue.consume(10);
        assert!(queue.space(10).len() >= 10);
        assert_eq!(queue.capacity(), 2 * CAPACITY_MIN);
        assert_eq!(queue.data(), &[7; CAPACITY_MIN - 10]);
    }

    #[test]
    fn a_slow_reader_does_not_make_every_write_move_the_backlog() {
        let mut queue = queue(&[0; 100_000]);
        let mut grown = 0;
        for _ in 0..100_000 {
            let before = queue.capacity();
            queue.consume(8);
            queue.push(&[1; 8]);
            grown += usize::from(queue.capacity() != before);
        }
        assert!(grown <= 2 && queue.capacity() <= 400_000, "{grown} {}", queue.capacity());
    }

    #[test]
    fn truncating_drops_the_end_and_patching_rewrites_in_place() {
        let mut queue = queue(b"0123456789");
        queue.consume(2);
        queue.truncate_to(100);
        queue.truncate_to(4);
        queue.patch(1, b"xy");
        assert_eq!(queue.data(), b"2xy5");
        queue.data_mut()[0] = b'z';
        assert_eq!(queue.data(), b"zxy5");
        queue.truncate_to(0);
        assert!(queue.is_empty());
    }

    #[test]
    fn shrinking_gives_back_what_a_large_message_took() {
        let mut queue = queue(&[1; 100_000]);
        queue.shrink(4096);
        assert!(queue.capacity() >= 100_000, "a full buffer is kept");
        queue.consume(99_990);
        queue.shrink(4096);
        assert_eq!((queue.capacity(), queue.data()), (10, &[1; 10][..]));
        queue.consume(10);
        queue.shrink(4096);
        assert_eq!(queue.capacity(), 10, "a small buffer is kept");
        queue.shrink(0);
        assert_eq!(queue.capacity(), 0);
    }

    #[test]
    #[should_panic(expected = "consumed more")]
    fn consuming_more_than_there_is_panics() {
        queue(b"ab").consume(3);
    }

    #[test]
    #[should_panic(expected = "filled more")]
    fn filling_more_than_the_space_panics() {
        ByteQueue::with_capacity(2).filled(3);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_vector(
            ops in prop::collection::vec((0_u8..6, 0_usize..3000), 0..60)
        ) {
            let (mut queue, mut model) = (ByteQueue::new(), Vec::new());
            for (op, size) in ops {
                let part = size.min(model.len());
                match op {
                    0 | 1 => {
                        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                        queue.push(&bytes);
                        model.extend(bytes);
                    }
                    2 => {
                        queue.space(size)[..size].fill(9);
                        queue.filled(size);
                        model.resize(model.len() + size, 9);
                    }
                    3 => {
                        queue.consume(part);
                        model.drain(..part);
                    }
                    4 => {
                        queue.truncate_to(part);
                        model.truncate(part);
                    }
                    _ => queue.shrink(size),
                }
                prop_assert_eq!(queue.data(), &model[..]);
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
