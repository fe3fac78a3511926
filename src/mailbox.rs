//! The way in from other threads: the only cross-thread structure, and its sleep handshake.
//!
//! A poster must not pay for a wake-up the loop does not need, and the loop must not sleep over a
//! message that is already here. Both follow from one order of steps: the loop announces that it
//! is about to sleep and then looks for mail; a poster leaves its mail and then looks for a
//! sleeper.

#[cfg(loom)]
use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use std::collections::VecDeque;
use std::fmt;
#[cfg(not(loom))]
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

/// A queue that any thread may post to and one loop empties.
pub(crate) struct Mailbox<M> {
    shared: Arc<Shared<M>>,
}

struct Shared<M> {
    queue: Mutex<VecDeque<M>>,
    /// Length of the queue, readable without the lock: the loop asks every turn.
    waiting: AtomicUsize,
    /// True from the loop's decision to sleep until somebody wakes it or it wakes by itself.
    asleep: AtomicBool,
    /// Ends the loop's sleep. Set once, before any other thread can hold the mailbox.
    wake: Mutex<Option<Wake>>,
}

type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

impl<M> Mailbox<M> {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                queue: Mutex::new(VecDeque::new()),
                waiting: AtomicUsize::new(0),
                asleep: AtomicBool::new(false),
                wake: Mutex::new(None),
            }),
        }
    }

    /// Sets what ends the loop's sleep. Without it mail waits for the next turn.
    pub(crate) fn wake_with(&self, wake: impl Fn() + Send + Sync + 'static) {
        *self.shared.wake.lock().expect("no holder of this lock panics") =
            Some(std::sync::Arc::new(wake));
    }

    /// Leaves a message, and wakes the loop if it sleeps.
    pub(crate) fn post(&self, message: M) {
        {
            let mut queue = self.shared.queue.lock().expect("no holder of this lock panics");
            queue.push_back(message);
            self.shared.waiting.store(queue.len(), SeqCst);
        }
        if self.shared.asleep.swap(false, SeqCst) {
            let wake = self.shared.wake.lock().expect("no holder of this lock panics").clone();
            if let Some(wake) = wake {
                wake();
            }
        }
    }

    /// Number of messages waiting.
    pub(crate) fn len(&self) -> usize {
        self.shared.waiting.load(SeqCst)
    }

    /// Moves up to `max` of the messages that are here now into `into`, oldest first.
    pub(crate) fn take(&self, into: &mut Vec<M>, max: usize) {
        if self.len() == 0 {
            return;
        }
        let mut queue = self.shared.queue.lock().expect("no holder of this lock panics");
        let count = queue.len().min(max);
        into.extend(queue.drain(..count));
        self.shared.waiting.store(queue.len(), SeqCst);
    }

    /// Announces sleep; false if there is mail, and then the loop must not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        // A swap, like the poster's: whichever of the two comes second has seen what the other did
        // before its own.
        self.shared.asleep.swap(true, SeqCst);
        if self.len() == 0 {
            return true;
        }
        self.wake_up();
        false
    }

    /// Ends the announced sleep. Called as soon as the poll returns, so that mail posted while the
    /// loop works costs its sender no wake-up.
    pub(crate) fn wake_up(&self) {
        self.shared.asleep.store(false, SeqCst);
    }
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn counting_mailbox() -> (Mailbox<u8>, std::sync::Arc<AtomicUsize>) {
        let mailbox = Mailbox::new();
        let wakes = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = std::sync::Arc::clone(&wakes);
        mailbox.wake_with(move || {
            counter.fetch_add(1, SeqCst);
        });
        (mailbox, wakes)
    }

    #[test]
    fn mail_comes_out_in_order_and_bounded() {
        let (mailbox, _) = counting_mailbox();
        for message in 0..5 {
            mailbox.post(message);
        }
        let mut out = Vec::new();
        mailbox.take(&mut out, 3);
        assert_eq!(out, [0, 1, 2]);
        assert_eq!(mailbox.len(), 2);
    }

    #[test]
    fn only_a_sleeping_loop_is_woken_and_only_once() {
        let (mailbox, wakes) = counting_mailbox();
        mailbox.post(1);
        assert_eq!(wakes.load(SeqCst), 0);
        assert!(!mailbox.fall_asleep(), "there is mail");
        mailbox.take(&mut Vec::new(), 8);
        assert!(mailbox.fall_asleep());
        mailbox.post(2);
        mailbox.post(3);
        assert_eq!(wakes.load(SeqCst), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Notify;

    #[test]
    fn the_loop_never_sleeps_over_mail() {
        loom::model(|| {
            let mailbox: Mailbox<u8> = Mailbox::new();
            let bell = Arc::new(Notify::new());
            let ring = std::sync::Mutex::new(Arc::clone(&bell));
            mailbox.wake_with(move || ring.lock().unwrap().notify());
            let poster = mailbox.clone();
            let thread = loom::thread::spawn(move || poster.post(1));
            let mut got = Vec::new();
            while got.is_empty() {
                if mailbox.fall_asleep() {
                    bell.wait();
                }
                mailbox.wake_up();
                mailbox.take(&mut got, 8);
            }
            thread.join().unwrap();
        });
    }
}
