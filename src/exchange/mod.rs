//! Requests whose answer is still owed, in a table above the connections.
//!
//! An exchange is opened when a handler takes a request away with it and closed when the answer
//! has been framed. In between the connection may die: whether that cancels the work or merely
//! unseats it is the exchange's own policy, chosen from the request's revision. This module knows
//! the table and the answers' way back; it does not frame, and it never touches a connection.
//!
//! ```text
//!            answer                     answer (recorded)
//! Attached ----------> closed      .--> Kept ----------> closed
//!    |                             |          expiry
//!    | disconnect, Detach: Working-'
//!    | disconnect, Cancel: closed, its token fired
//! ```

mod call;
mod mail;
mod notifier;
mod responder;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

pub use call::{Accepts, RequestContext};
pub use notifier::Flowing;
pub use responder::Responder;

pub(crate) use call::{Caller, Fragment, Source, default_log_level};
pub(crate) use mail::Mail;
pub(crate) use notifier::{Flags, Notifier, Outlet, Poster};
pub(crate) use responder::{Ticket, Verify};

use crate::http::Reply;
use crate::http::ResponseHead;
use crate::key::{ConnKey, ExchangeId, Hasher, SessionId};
use crate::mcp::version::{OnDisconnect, Version};
use crate::rpc;

/// A request that a handler is working on.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) seat: Seat,
    /// The id the answer must carry.
    pub(crate) call: rpc::Id,
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
    /// Some while this is the answer to a batch: what it still waits for.
    pub(crate) batch: Option<Batch>,
}

/// Where an exchange's answer would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    /// A connection waits for it.
    Attached(ConnKey),
    /// It is one part of a batch; the batch has the seat.
    Part(ExchangeId),
    /// The connection is gone and the work goes on. Never reaped: work ends by itself.
    Working,
    /// The answer is recorded and waits to be collected.
    #[expect(dead_code, reason = "the store of recorded answers is not built yet")]
    Kept {
        /// When it is given up.
        until: Instant,
    },
}

/// What the response has been committed to by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    Nothing,
    Stream,
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
    next: u64,
    max: usize,
}

impl ExchangeRegistry {
    pub(crate) fn new(max: usize) -> Self {
        Self { live: HashMap::default(), calls: HashMap::default(), next: 0, max }
    }

    /// Adds an exchange, unless the table is full.
    pub(crate) fn open(&mut self, exchange: Exchange) -> Result<ExchangeId, Busy> {
        if self.is_full() {
            return Err(Busy);
        }
        self.next += 1;
        let id = ExchangeId(self.next);
        // A batch has no id of its own by which it could be cancelled.
        if let Some(session) = exchange.session.filter(|_| exchange.batch.is_none()) {
            self.calls.insert((session, exchange.call.clone()), id);
        }
        self.live.insert(id, exchange);
        Ok(id)
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

    /// The open calls of a session.
    pub(crate) fn calls_of(&self, session: SessionId) -> Vec<ExchangeId> {
        let ours = self.live.iter().filter(|(_, exchange)| exchange.session == Some(session));
        ours.map(|(id, _)| *id).collect()
    }

    /// The sessions that have open calls.
    pub(crate) fn busy_sessions(&self) -> HashSet<SessionId> {
        self.live.values().filter_map(|exchange| exchange.session).collect()
    }

    /// Tells an exchange that its connection is gone, and does what its policy says.
    pub(crate) fn disconnect(&mut self, id: ExchangeId) -> Option<Fate> {
        let exchange = self.live.get_mut(&id)?;
        match exchange.on_disconnect {
            OnDisconnect::Detach => {
                exchange.seat = Seat::Working;
                exchange.flags.set_unheard();
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
        let exchange = self.close(id)?;
        exchange.flags.cancel();
        if exchange.batch.is_some() {
            self.cancel_parts(id);
        }
        Some(exchange)
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
        if let Some(session) = exchange.session {
            let key = (session, exchange.call.clone());
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HttpVersion, Method, Status};
    use std::sync::Arc;

    fn exchange(on_disconnect: OnDisconnect, call: rpc::Id) -> Exchange {
        Exchange {
            seat: Seat::Attached(ConnKey::new(0, 0)),
            call,
            version: Version::V2025_11_25,
            session: Some(session()),
            accepts: Accepts::both(),
            committed: Committed::Nothing,
            on_disconnect,
            flags: Arc::new(Flags::default()),
            reply: Reply { version: HttpVersion::Http11, keep_alive: true, head_only: false },
            head: ResponseHead::new(Status::OK),
            facts: (Method::Post, "/mcp".into()),
            batch: None,
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
        whole.batch = Some(Batch::default());
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
