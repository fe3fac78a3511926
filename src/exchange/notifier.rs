//! How a handler speaks before it answers, and hears that nobody listens any more.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::caller::Caller;
use super::mail::Mail;
use crate::guard::guarded;
use crate::key::{ExchangeId, Principal};
use crate::mailbox::Mailbox;
use crate::mcp::model::{LogLevel, Progress, ProgressToken};
use crate::mcp::notification;
use crate::rpc::encode;

/// Whether the caller keeps up with the messages it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flowing {
    /// There is room for more.
    Freely,
    /// The caller or the loop is behind; a considerate handler reports less often.
    Slow,
}

/// What an exchange shares with the handler that works on it.
#[derive(Default)]
pub(crate) struct Flags {
    cancelled: AtomicBool,
    slow: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
    /// The last progress value, whoever of the handler's parts reported it.
    progress: Mutex<Option<f64>>,
    /// The caller has left, and what is said before the answer reaches nobody.
    unheard: AtomicBool,
    /// Bytes of messages that are posted and not framed yet.
    in_flight: AtomicUsize,
}

type Hook = Box<dyn FnOnce() + Send>;

impl Flags {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Fires the token. Every hook runs once, however often this is called.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Taken out first: a hook may add another one.
        let hooks = std::mem::take(&mut *self.hooks.lock().expect("no holder of this lock panics"));
        for hook in hooks {
            if guarded(hook).is_err() {
                log::error!("a cancellation hook panicked");
            }
        }
    }

    /// Adds a hook; one that comes too late runs at once.
    pub(crate) fn on_cancel(&self, hook: Hook) {
        {
            let mut hooks = self.hooks.lock().expect("no holder of this lock panics");
            hooks.push(hook);
        }
        if self.is_cancelled() {
            self.cancel();
        }
    }

    /// Notes a progress value; false if it does not exceed the one before.
    fn advance(&self, progress: f64) -> bool {
        let mut last = self.progress.lock().expect("no holder of this lock panics");
        let rises = last.is_none_or(|last| progress > last);
        if rises {
            *last = Some(progress);
        }
        rises
    }

    /// Takes a message out of those in flight.
    pub(crate) fn arrived(&self, bytes: usize) {
        self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_unheard(&self) {
        self.unheard.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }

    fn flowing(&self) -> Flowing {
        if self.slow.load(Ordering::Relaxed) { Flowing::Slow } else { Flowing::Freely }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flags").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

/// Where the messages of a running request go.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// A direct handler: they are framed when it returns.
    Buffer(Vec<Vec<u8>>),
    /// A handler that may be on another thread.
    Post(Poster),
}

/// The way from a handler's thread to its exchange.
#[derive(Debug, Clone)]
pub(crate) struct Poster {
    pub(crate) exchange: ExchangeId,
    pub(crate) mailbox: Mailbox<Mail>,
    pub(crate) flags: Arc<Flags>,
    pub(crate) mail_max: usize,
    /// Bytes of one request's messages that may be in flight.
    pub(crate) bytes_max: usize,
}

/// Turns progress and log calls into notifications, and drops those nobody may hear.
#[derive(Debug)]
pub(crate) struct Notifier {
    outlet: Outlet,
    /// The caller cannot be told anything before the answer.
    mute: bool,
    token: Option<ProgressToken>,
    level: Option<LogLevel>,
    last: Option<f64>,
}

impl Notifier {
    pub(crate) fn new(caller: &Caller<'_>, outlet: Outlet) -> Self {
        let mute = !caller.accepts.stream;
        Self {
            outlet,
            mute,
            token: caller.progress_token.clone(),
            level: caller.log_level,
            last: None,
        }
    }

    /// Takes what a direct handler said.
    pub(crate) fn take_buffered(&mut self) -> Vec<Vec<u8>> {
        match &mut self.outlet {
            Outlet::Buffer(messages) => std::mem::take(messages),
            Outlet::Post(_) => Vec::new(),
        }
    }

    pub(crate) fn progress(&mut self, progress: &Progress) -> Flowing {
        let Some(token) = &self.token else {
            return Flowing::Freely;
        };
        // The protocol wants every value to exceed the one before; NaN exceeds nothing.
        let value = progress.progress;
        let rises = value.is_finite()
            && self.is_open()
            && match &self.outlet {
                Outlet::Buffer(_) => self.last.is_none_or(|last| value > last),
                Outlet::Post(poster) => poster.flags.advance(value),
            };
        if !rises {
            return self.flowing();
        }
        let mut message = Vec::new();
        let params = ProgressParams { progress_token: token, progress };
        if !encode::write_notification(&mut message, notification::PROGRESS, &params) {
            return self.flowing();
        }
        self.last = Some(value);
        self.send(message)
    }

    pub(crate) fn log(
        &mut self,
        level: LogLevel,
        logger: Option<&str>,
        data: &impl Serialize,
    ) -> Flowing {
        let wanted = self.level.is_some_and(|threshold| level >= threshold);
        if !wanted || !self.is_open() {
            return self.flowing();
        }
        let mut message = Vec::new();
        let params = LogParams { level, logger, data };
        if !encode::write_notification(&mut message, notification::MESSAGE, &params) {
            log::error!("a log message has no JSON form and is not sent");
            return self.flowing();
        }
        self.send(message)
    }

    /// Asks the loop to make a task of the call; false where no loop would hear it.
    pub(crate) fn post_task(&self, owner: Option<Principal>) -> bool {
        let Outlet::Post(poster) = &self.outlet else { return false };
        poster.mailbox.post(Mail::Task { id: poster.exchange, owner });
        true
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        match &self.outlet {
            Outlet::Post(poster) => poster.flags.is_cancelled(),
            Outlet::Buffer(_) => false,
        }
    }

    /// Whether a message is worth writing.
    fn is_open(&self) -> bool {
        let open = match &self.outlet {
            Outlet::Buffer(_) => true,
            Outlet::Post(poster) => poster.is_open(),
        };
        open && !self.mute
    }

    fn send(&mut self, message: Vec<u8>) -> Flowing {
        match &mut self.outlet {
            Outlet::Buffer(messages) => {
                messages.push(message);
                Flowing::Freely
            }
            Outlet::Post(poster) => poster.post(message),
        }
    }

    fn flowing(&self) -> Flowing {
        match &self.outlet {
            Outlet::Post(poster) if poster.is_open() => poster.flags.flowing(),
            Outlet::Post(poster) if poster.flags.is_cancelled() => Flowing::Freely,
            Outlet::Post(_) => Flowing::Slow,
            Outlet::Buffer(_) => Flowing::Freely,
        }
    }
}

impl Poster {
    /// Whether a message would be taken: somebody listens, and not too many are on their way.
    fn is_open(&self) -> bool {
        // A single message may be large; a pile of them may not.
        let piled = self.flags.in_flight.load(Ordering::Relaxed) > self.bytes_max;
        !piled
            && self.mailbox.len() < self.mail_max
            && !self.flags.is_cancelled()
            && !self.flags.unheard.load(Ordering::Relaxed)
    }

    fn post(&self, message: Vec<u8>) -> Flowing {
        self.flags.in_flight.fetch_add(message.len(), Ordering::Relaxed);
        self.mailbox.post(Mail::Event { id: self.exchange, message });
        self.flags.flowing()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    progress_token: &'a ProgressToken,
    #[serde(flatten)]
    progress: &'a Progress,
}

#[derive(Serialize)]
struct LogParams<'a, D> {
    level: LogLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    logger: Option<&'a str>,
    data: &'a D,
}
