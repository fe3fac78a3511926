//! A small pool for handlers that block, so that the loop does not.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::guard::guarded;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs on a fixed number of threads, which start with the first job and end with the pool.
pub(crate) struct Workers {
    threads: usize,
    queue_max: usize,
    queue: Option<SyncSender<Job>>,
}

/// Every worker is occupied and the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Saturated;

impl Workers {
    pub(crate) fn new(threads: usize, queue_max: usize) -> Self {
        Self { threads: threads.max(1), queue_max: queue_max.max(1), queue: None }
    }

    /// Queues a job. On a full queue the job is dropped, and with it whatever it owes.
    pub(crate) fn run(&mut self, job: impl FnOnce() + Send + 'static) -> Result<(), Saturated> {
        let (threads, queue_max) = (self.threads, self.queue_max);
        let queue = self.queue.get_or_insert_with(|| start(threads, queue_max));
        match queue.try_send(Box::new(job)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Saturated),
        }
    }
}

fn start(threads: usize, queue_max: usize) -> SyncSender<Job> {
    let (queue, jobs) = sync_channel(queue_max);
    let jobs = Arc::new(Mutex::new(jobs));
    for number in 0..threads {
        let jobs = Arc::clone(&jobs);
        let started = thread::Builder::new()
            .name(format!("waterwheel-worker-{number}"))
            .spawn(move || work(&jobs));
        if let Err(error) = started {
            log::error!("a worker thread could not be started: {error}");
        }
    }
    queue
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().expect("no holder of this lock panics").recv();
        let Ok(job) = job else { return };
        if guarded(job).is_err() {
            log::error!("a blocking handler panicked");
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("threads", &self.threads)
            .field("started", &self.queue.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_panicking_job_does_not_cost_a_worker() {
        let mut workers = Workers::new(1, 4);
        let (done, wait) = channel();
        workers.run(|| panic!("expected by the test")).unwrap();
        workers.run(move || done.send(7).unwrap()).unwrap();
        assert_eq!(wait.recv(), Ok(7));
    }

    #[test]
    fn a_full_queue_refuses() {
        let mut workers = Workers::new(1, 1);
        let (started, has_started) = channel();
        let (release, released) = channel::<()>();
        workers
            .run(move || {
                started.send(()).unwrap();
                let _ = released.recv();
            })
            .unwrap();
        has_started.recv().unwrap();
        workers.run(|| ()).unwrap();
        assert_eq!(workers.run(|| ()), Err(Saturated));
        drop(release);
    }
}
