//! The way an answer comes back from a handler that took its request away.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::caller::Caller;
use super::mail::Mail;
use super::notifier::{Flowing, Notifier, Outlet, Poster};
use crate::mcp::model::{
    CacheHint, Ending, LogLevel, NeedInput, Outcome, Progress, Stamp, Stamped,
};
use crate::mcp::version::Version;
use crate::rpc::{self, ErrorObject, encode};

/// What an answer must look like and where it goes.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) poster: Poster,
    pub(crate) call: rpc::Id,
    pub(crate) version: Version,
    pub(crate) stamp: Arc<Stamp>,
    /// The configured hint for results that may be cached.
    pub(crate) cache: CacheHint,
}

/// Owes the answer to one request, and may be moved to another thread.
///
/// Exactly one of [`finish`](Self::finish) and [`fail`](Self::fail) ends it; both consume it, so a
/// second answer does not compile. Dropping it answers with an internal error, so a caller is
/// never left waiting. The answer is serialized on the thread that gives it.
#[must_use = "dropping a responder answers with an internal error"]
pub struct Responder<R: Outcome> {
    ticket: Option<Ticket>,
    notifier: Notifier,
    verify: Option<Verify<R>>,
    result: PhantomData<fn(R)>,
}

/// A call that can be run again with the answers to what it asked: a tool call, a read of a
/// resource, a prompt.
pub trait Resumable: Pause {
    /// What such a call is answered with.
    type Result: Outcome;
}

/// Keeps a call until its answers are here.
pub trait Pause: Send {
    /// The call, for the loop, which knows its type.
    #[doc(hidden)]
    fn pause(self) -> Box<dyn Any + Send>;
}

/// Judges a result before it is sent; the text is for the log.
pub(crate) type Verify<R> = Box<dyn Fn(&R) -> Result<(), String> + Send>;

impl<R: Outcome> Responder<R> {
    pub(crate) fn new(ticket: Ticket, caller: &Caller<'_>, verify: Option<Verify<R>>) -> Self {
        let outlet = Outlet::Post(ticket.poster.clone());
        let notifier = Notifier::new(caller, outlet);
        Self { ticket: Some(ticket), notifier, verify, result: PhantomData }
    }

    /// Answers the request.
    ///
    /// A result that breaks the tool's own output schema is answered as an internal error instead,
    /// and logged: a caller must be able to rely on the schema.
    pub fn finish(mut self, result: R) {
        if let Some(Err(reason)) = self.verify.as_ref().map(|verify| verify(&result)) {
            log::error!("a result was withheld: {reason}");
            return self.fail(ErrorObject::internal());
        }
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let mut message = Vec::new();
        let mut stamped = Stamped::new(&result, ticket.version, &ticket.stamp);
        if R::CACHEABLE {
            stamped = stamped.cache(ticket.cache);
        }
        let ending = if encode::write_result(&mut message, &ticket.call, &stamped) {
            Ending::of(&result)
        } else {
            log::error!("a result has no JSON form and is answered as an internal error");
            Ending::Error(rpc::INTERNAL_ERROR)
        };
        ticket.answer(message, ending);
    }

    /// Answers the request with an error.
    pub fn fail(mut self, error: ErrorObject) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let mut message = Vec::new();
        encode::write_error(&mut message, Some(&ticket.call), &error);
        ticket.answer(message, Ending::Error(error.code));
    }

    /// Asks the caller's user, model or client first, and gives the call back to be run again with
    /// the answers.
    ///
    /// One way for both eras: a modern caller is answered with the questions and calls again
    /// (revision 2026-07-28, Multi Round-Trip Requests), a classic one is asked on the call's own
    /// stream. What the client has not declared that it can answer, the call fails for.
    pub fn ask<C: Resumable<Result = R>>(self, call: C, need: NeedInput) {
        self.ask_kept(call.pause(), need);
    }

    pub(crate) fn ask_kept(mut self, call: Box<dyn Any + Send>, need: NeedInput) {
        if let Some(ticket) = self.ticket.take() {
            let id = ticket.poster.exchange;
            ticket.poster.mailbox.post(Mail::Need { id, call, need });
        }
    }

    /// Reports progress; see [`RequestContext::progress`](super::RequestContext::progress).
    pub fn progress(&mut self, progress: &Progress) -> Flowing {
        self.notifier.progress(progress)
    }

    /// Sends a log message; see [`RequestContext::log`](super::RequestContext::log).
    pub fn log(&mut self, level: LogLevel, logger: Option<&str>, data: &impl Serialize) -> Flowing {
        self.notifier.log(level, logger, data)
    }

    /// Lets the caller's connection go while the work goes on: the caller comes back after
    /// `reconnect` and gets what it missed, the answer included.
    ///
    /// For work so long that a held connection is a burden. Does something for callers of revision
    /// 2025-11-25 with a session only (Streamable HTTP, Resumability and Redelivery); everybody
    /// else goes on waiting.
    pub fn release_connection(&self, reconnect: Duration) {
        if let Some(ticket) = &self.ticket {
            let id = ticket.poster.exchange;
            ticket.poster.mailbox.post(Mail::Pause { id, reconnect });
        }
    }

    /// True once nobody waits for the answer any more; long work should stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.notifier.is_cancelled()
    }

    /// Runs `hook` once when the request is cancelled, on the loop's thread; at once if it is
    /// already. It must be quick: the loop waits for it.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        if let Some(ticket) = &self.ticket {
            ticket.poster.flags.on_cancel(Box::new(hook));
        }
    }
}

impl<R: Outcome> Drop for Responder<R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let id = ticket.poster.exchange;
            ticket.poster.mailbox.post(Mail::Abandoned { id });
        }
    }
}

impl<R: Outcome> fmt::Debug for Responder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl Ticket {
    fn answer(self, message: Vec<u8>, ending: Ending) {
        let id = self.poster.exchange;
        self.poster.mailbox.post(Mail::Answer { id, message, ending });
    }
}
