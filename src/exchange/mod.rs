//! Requests whose answer is still owed, in a table above the connections.
//!
//! An exchange is opened when a handler takes a request away with it and closed when the answer
//! has been framed. In between the connection may die: whether that cancels the work or merely
//! unseats it is the exchange's own policy, chosen from the request's revision. This module knows
//! the table and the answers' way back; it does not frame, and it never touches a connection.
//!
//! ```text
//!            answer                  resume
//! Attached ----------> closed    .-------------> Attached
//!    |                           |  answer
//!    | disconnect, Detach: Working ------------> closed; the record has the answer
//!    | disconnect, Cancel: closed, its token fired
//! ```

mod asks;
mod call;
mod caller;
mod detached;
mod mail;
mod notifier;
mod responder;
mod watch;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

pub use asks::AskError;
pub use call::RequestContext;
pub use caller::Accepts;
pub use notifier::Flowing;
pub use responder::{Pause, Responder, Resumable};
pub use watch::MethodCall;

pub(crate) use asks::{Asks, ClientResponse, Outcome, Waiter};
pub(crate) use call::{Input, Source, default_log_level};
pub(crate) use caller::{Caller, Fragment};
pub(crate) use detached::{DetachedStore, Recorded, Replay};
pub(crate) use mail::Mail;
pub(crate) use notifier::{Flags, Notifier, Outlet, Poster};
pub(crate) use responder::{Ticket, Verify};
pub(crate) use watch::{Pass, Trace, Visit, Watch};

use crate::http::Reply;
use crate::http::ResponseHead;
use crate::key::{ConnKey, ExchangeId, Hasher, SessionId};
use crate::mcp::task::TaskId;
use crate::mcp::version::{OnDisconnect, Version};
use crate::rpc;

/// A request that a handler is working on, or a stream that a client holds open.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) seat: Seat,
    pub(crate) purpose: Purpose,
    pub(crate) version: Version,
    /// Some for a caller of the classic era; cancellation finds the exchange through it.
    pub(crate) session: Option<SessionId>,
    pub(crate) accepts: Accepts,
    pub(crate) committed: Committed,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) flags: std::sync::Arc<Flags>,
    /// How the response must be framed, captured from the request.
    pub(crate) reply: Reply,
    /// Fields the filters want on the response, whenever it starts.
    pub(crate) head: ResponseHead,
    /// Method and path of the HTTP request, for filters that see the response.
    pub(crate) facts: (crate::http::Method, Box<str>),
    /// When its stream is next kept alive by a comment.
    pub(crate) keep_alive: Option<Instant>,
    /// Some if anybody wants to know how it ends.
    pub(crate) watch: Option<Box<Watch>>,
}

/// What an exchange is there for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// A handler owes the answer that carries this id.
    Call(rpc::Id),
    /// The answer to a batch: what it still waits for. It has no id of its own.
    Batch(Batch),
    /// A classic session's stream for what nobody asked for. It has no id and no answer.
    Stream,
    /// A modern subscription; its request has this id.
    Listen(rpc::Id),
    /// All that a client of the legacy transport is told. Of its unsent output so many bytes are
    /// answers, which are owed and no sign of a handler that talks too much.
    Legacy { answers: usize },
}

impl Exchange {
    /// The id of the call; none of what has none.
    pub(crate) fn call(&self) -> Option<&rpc::Id> {
        match &self.purpose {
            Purpose::Call(id) | Purpose::Listen(id) => Some(id),
            Purpose::Batch(_) | Purpose::Stream | Purpose::Legacy { .. } => None,
        }
    }

    /// The answers of a batch so far.
    pub(crate) fn batch(&mut self) -> Option<&mut Batch> {
        match &mut self.purpose {
            Purpose::Batch(batch) => Some(batch),
            Purpose::Call(_) | Purpose::Stream | Purpose::Listen(_) | Purpose::Legacy { .. } => {
                None
            }
        }
    }
}

/// Where an exchange's answer would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    /// A connection waits for it.
    Attached(ConnKey),
    /// It is one part of a batch; the batch has the seat.
    Part(ExchangeId),
    /// Its caller has been told that it is a task, and asks about that.
    Task(TaskId),
    /// The stream of its client, which is an exchange of its own.
    Through(ExchangeId),
    /// The connection is gone and the work goes on. Never reaped: work ends by itself.
    Working,
}

/// How many requests have which seat.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    pub(crate) attached: usize,
    pub(crate) working: usize,
    pub(crate) part: usize,
    pub(crate) task: usize,
}

/// What the response has been committed to by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    Nothing,
    Stream,
    /// A stream whose events are recorded and carry ids.
    Record,
}

/// The answers of a batch that are here already, and how many are still to come.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) answers: Vec<Vec<u8>>,
    pub(crate) awaited: usize,
}

/// What became of an exchange when its connection went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was cancelled and is closed.
    Cancelled,
    /// The work goes on without a seat.
    WorksOn,
    /// It was there for the connection only and is closed.
    Closed,
}

/// The table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// All open exchanges.
#[derive(Debug)]
pub(crate) struct ExchangeRegistry {
    live: HashMap<ExchangeId, Exchange, Hasher>,
    /// Open calls of sessions, so that a cancellation finds its call.
    calls: HashMap<(SessionId, rpc::Id), ExchangeId, Hasher>,
    /// Watches of exchanges that ended without an answer.
    unanswered: Vec<Watch>,
    next: u64,
    max: usize,
}

impl ExchangeRegistry {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            live: HashMap::default(),
            calls: HashMap::default(),
            unanswered: Vec::new(),
            next: 0,
            max,
        }
    }

    /// Adds an exchange, unless the table is full.
    pub(crate) fn open(&mut self, exchange: Exchange) -> Result<ExchangeId, Busy> {
        if self.is_full() {
            return Err(Busy);
        }
        let id = self.mint();
        if let (Some(session), Some(call)) = (exchange.session, exchange.call()) {
            self.calls.insert((session, call.clone()), id);
        }
        self.live.insert(id, exchange);
        Ok(id)
    }

    /// A name that no exchange has or will have, for a stream that is over as soon as it begins.
    pub(crate) fn mint(&mut self) -> ExchangeId {
        self.next += 1;
        ExchangeId(self.next)
    }

    /// Opens a stream again under the name it had.
    pub(crate) fn reopen(&mut self, id: ExchangeId, exchange: Exchange) -> Result<(), Busy> {
        if self.is_full() || self.live.contains_key(&id) {
            return Err(Busy);
        }
        self.live.insert(id, exchange);
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.live.len() >= self.max
    }

    pub(crate) fn find(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.live.get_mut(&id)
    }

    /// The open call with this id in this session. `5` and `"5"` are two calls.
    pub(crate) fn find_call(&self, session: SessionId, call: &rpc::Id) -> Option<ExchangeId> {
        self.calls.get(&(session, call.clone())).copied()
    }

    /// What is open in any of these sessions, the newest first: the calls of a batch before the
    /// batch, which then still tells what had been answered.
    pub(crate) fn of_sessions(&self, sessions: &HashSet<SessionId>) -> Vec<ExchangeId> {
        let theirs =
            |exchange: &Exchange| exchange.session.is_some_and(|id| sessions.contains(&id));
        let mut ids: Vec<ExchangeId> =
            self.live.iter().filter(|(_, open)| theirs(open)).map(|(id, _)| *id).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }

    /// Whether anything but this is open in a session.
    pub(crate) fn has_others(&self, session: SessionId, than: ExchangeId) -> bool {
        self.live.iter().any(|(id, open)| *id != than && open.session == Some(session))
    }

    /// The sessions that have open calls or streams.
    pub(crate) fn busy_sessions(&self) -> HashSet<SessionId> {
        self.live.values().filter_map(|exchange| exchange.session).collect()
    }

    /// Tells an exchange that its connection is gone, and does what its policy says.
    pub(crate) fn disconnect(&mut self, id: ExchangeId) -> Option<Fate> {
        let exchange = self.live.get_mut(&id)?;
        if matches!(exchange.purpose, Purpose::Stream | Purpose::Legacy { .. }) {
            self.close(id);
            return Some(Fate::Closed);
        }
        match exchange.on_disconnect {
            OnDisconnect::Detach => {
                exchange.seat = Seat::Working;
                // What is recorded may still be collected; the rest reaches nobody.
                if exchange.committed != Committed::Record {
                    exchange.flags.set_unheard();
                }
                Some(Fate::WorksOn)
            }
            OnDisconnect::Cancel => {
                self.cancel(id);
                Some(Fate::Cancelled)
            }
        }
    }

    /// Closes an exchange and fires its token; parts of a batch go with their batch.
    pub(crate) fn cancel(&mut self, id: ExchangeId) -> Option<Exchange> {
        let mut exchange = self.close(id)?;
        exchange.flags.cancel();
        self.unanswered.extend(exchange.watch.take().map(|watch| *watch));
        if matches!(exchange.purpose, Purpose::Batch(_)) {
            self.cancel_parts(id);
        }
        Some(exchange)
    }

    /// The watch of an exchange that was cancelled since the last call.
    pub(crate) fn poll_unanswered(&mut self) -> Option<Watch> {
        self.unanswered.pop()
    }

    fn cancel_parts(&mut self, whole: ExchangeId) {
        let parts: Vec<ExchangeId> = self
            .live
            .iter()
            .filter(|(_, part)| part.seat == Seat::Part(whole))
            .map(|(id, _)| *id)
            .collect();
        for part in parts {
            self.cancel(part);
        }
    }

    /// Removes an exchange; its answer, should one still come, finds nothing.
    pub(crate) fn close(&mut self, id: ExchangeId) -> Option<Exchange> {
        let exchange = self.live.remove(&id)?;
        if let (Some(session), Some(call)) = (exchange.session, exchange.call()) {
            let key = (session, call.clone());
            // A later call may have reused the id; its entry is not ours to remove.
            if self.calls.get(&key) == Some(&id) {
                self.calls.remove(&key);
            }
        }
        Some(exchange)
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// How many requests have which seat; streams that nobody's answer waits for are not counted.
    pub(crate) fn seats(&self) -> Seats {
        let mut seats = Seats::default();
        for open in self.live.values() {
            match (&open.purpose, open.seat) {
                (Purpose::Stream | Purpose::Listen(_) | Purpose::Legacy { .. }, _) => {}
                (_, Seat::Attached(_) | Seat::Through(_)) => seats.attached += 1,
                (_, Seat::Task(_)) => seats.task += 1,
                (_, Seat::Working) => seats.working += 1,
                (_, Seat::Part(_)) => seats.part += 1,
            }
        }
        seats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HttpVersion, Method, Status};
    use std::sync::Arc;

    fn exchange(on_disconnect: OnDisconnect, call: rpc::Id) -> Exchange {
        Exchange {
            seat: Seat::Attached(ConnKey::new(0, 0)),
            purpose: Purpose::Call(call),
            version: Version::V2025_11_25,
            session: Some(session()),
            accepts: Accepts::both(),
            committed: Committed::Nothing,
            on_disconnect,
            flags: Arc::new(Flags::default()),
            reply: Reply { version: HttpVersion::Http11, keep_alive: true, head_only: false },
            head: ResponseHead::new(Status::OK),
            facts: (Method::Post, "/mcp".into()),
            keep_alive: None,
            watch: None,
        }
    }

    fn session() -> SessionId {
        SessionId::from_random([7; 16])
    }

    #[test]
    fn a_number_and_a_string_are_two_calls() {
        let mut registry = ExchangeRegistry::new(8);
        let number = registry.open(exchange(OnDisconnect::Detach, rpc::Id::Number(5))).unwrap();
        assert_eq!(registry.find_call(session(), &rpc::Id::String("5".into())), None);
        assert_eq!(registry.find_call(session(), &rpc::Id::Number(5)), Some(number));
    }

    #[test]
    fn a_full_table_refuses_and_an_empty_place_is_used_again() {
        let mut registry = ExchangeRegistry::new(1);
        let first = registry.open(exchange(OnDisconnect::Cancel, rpc::Id::Number(1))).unwrap();
        assert_eq!(registry.open(exchange(OnDisconnect::Cancel, rpc::Id::Number(2))), Err(Busy));
        registry.close(first);
        let second = registry.open(exchange(OnDisconnect::Cancel, rpc::Id::Number(2))).unwrap();
        assert_ne!(first, second, "ids are never used again");
    }

    #[test]
    fn a_disconnect_does_what_the_policy_says() {
        let mut registry = ExchangeRegistry::new(8);
        let modern = registry.open(exchange(OnDisconnect::Cancel, rpc::Id::Number(1))).unwrap();
        let flags = Arc::clone(&registry.find(modern).unwrap().flags);
        assert_eq!(registry.disconnect(modern), Some(Fate::Cancelled));
        assert!(flags.is_cancelled());
        assert_eq!(registry.len(), 0);

        let classic = registry.open(exchange(OnDisconnect::Detach, rpc::Id::Number(1))).unwrap();
        assert_eq!(registry.disconnect(classic), Some(Fate::WorksOn));
        let survivor = registry.find(classic).unwrap();
        assert_eq!(survivor.seat, Seat::Working);
        assert!(!survivor.flags.is_cancelled());
    }

    #[test]
    fn cancelling_a_batch_cancels_its_parts() {
        let mut registry = ExchangeRegistry::new(8);
        let mut whole = exchange(OnDisconnect::Cancel, rpc::Id::Number(1));
        whole.purpose = Purpose::Batch(Batch::default());
        let whole = registry.open(whole).unwrap();
        let mut part = exchange(OnDisconnect::Cancel, rpc::Id::Number(2));
        part.seat = Seat::Part(whole);
        let flags = Arc::clone(&part.flags);
        registry.open(part).unwrap();
        registry.cancel(whole);
        assert!(flags.is_cancelled());
        assert_eq!(registry.len(), 0);
        assert!(registry.calls.is_empty());
    }
}
