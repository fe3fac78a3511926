//! Requests of the server to its clients, and who waits for their answers.
//!
//! A waiter is registered before its request is sent, taken out before it is told, and told exactly
//! once: the answer, the client's error, that the time is up, or that nobody will answer.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Instant;

use serde_json::value::RawValue;

use crate::key::{ExchangeId, Hasher, SessionId};
use crate::rpc::{self, ErrorObject, Id};

/// Why a request to a client has no answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AskError {
    /// There is no such session, or it has ended.
    NoSession,
    /// The client has not declared that it can answer this.
    NotDeclared,
    /// As many requests as the limits allow wait for answers already.
    TooMany,
    /// The call's own client reads no stream, or has left it.
    NoStream,
    /// The client did not answer in time.
    TimedOut,
    /// The client answered with an error.
    Refused(ErrorObject),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSession => f.write_str("the session has ended"),
            Self::NotDeclared => f.write_str("the client has not declared that it answers this"),
            Self::TooMany => f.write_str("too many requests wait for answers of clients"),
            Self::NoStream => f.write_str("the client has no stream on which it can be asked"),
            Self::TimedOut => f.write_str("the client did not answer in time"),
            Self::Refused(error) => write!(f, "the client refused: {error}"),
        }
    }
}

impl std::error::Error for AskError {}

/// What a client sends back.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) id: Option<Id>,
    pub(crate) outcome: Result<Box<RawValue>, Box<RawValue>>,
}

impl From<rpc::Response<'_>> for ClientResponse {
    fn from(response: rpc::Response<'_>) -> Self {
        let outcome = response.outcome.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
        Self { id: response.id, outcome }
    }
}

/// What a client made of a request.
pub(crate) type Outcome = Result<Box<RawValue>, AskError>;

/// Who wants to know.
pub(crate) enum Waiter {
    /// A call that asked this under a name of its own.
    Call { exchange: ExchangeId, name: String },
    /// Somebody outside.
    Told(Box<dyn FnOnce(Outcome) + Send>),
}

/// All requests that wait for an answer.
#[derive(Debug)]
pub(crate) struct Asks {
    waiting: HashMap<u64, Waiting, Hasher>,
    last: u64,
    max: usize,
}

struct Waiting {
    session: SessionId,
    waiter: Waiter,
    deadline: Instant,
}

impl Asks {
    pub(crate) fn new(max: usize) -> Self {
        Self { waiting: HashMap::default(), last: 0, max }
    }

    /// Registers a waiter; the number its request must carry. Gives the waiter back if there are
    /// too many.
    pub(crate) fn add(
        &mut self,
        session: SessionId,
        waiter: Waiter,
        deadline: Instant,
    ) -> Result<u64, Waiter> {
        if self.waiting.len() >= self.max {
            return Err(waiter);
        }
        self.last += 1;
        self.waiting.insert(self.last, Waiting { session, waiter, deadline });
        Ok(self.last)
    }

    /// Takes out who waits for the answer with this number. An answer from another session is
    /// nobody's.
    pub(crate) fn answered(&mut self, session: SessionId, number: u64) -> Option<Waiter> {
        let waiting = self.waiting.get(&number)?;
        if waiting.session != session {
            return None;
        }
        self.take(number)
    }

    /// Takes out a waiter whose time is up.
    pub(crate) fn expired(&mut self, number: u64, now: Instant) -> Option<(SessionId, Waiter)> {
        let waiting = self.waiting.get(&number)?;
        let session = waiting.session;
        if waiting.deadline > now {
            return None;
        }
        Some((session, self.take(number)?))
    }

    /// Takes a waiter out.
    pub(crate) fn take(&mut self, number: u64) -> Option<Waiter> {
        self.waiting.remove(&number).map(|waiting| waiting.waiter)
    }

    /// Takes out everybody who waits for a session that has ended.
    pub(crate) fn of_sessions(&mut self, sessions: &HashSet<SessionId>) -> Vec<Waiter> {
        let ours = self.waiting.extract_if(|_, waiting| sessions.contains(&waiting.session));
        let mut ours: Vec<(u64, Waiting)> = ours.collect();
        ours.sort_unstable_by_key(|(number, _)| *number);
        ours.into_iter().map(|(_, waiting)| waiting.waiter).collect()
    }

    pub(crate) fn is_waiting(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("waiter", &self.waiter).finish_non_exhaustive()
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { exchange, name } => write!(f, "Call({exchange}, {name:?})"),
            Self::Told(_) => f.write_str("Told"),
        }
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

    fn session(byte: u8) -> SessionId {
        SessionId::from_random([byte; 16])
    }

    fn waiter() -> Waiter {
        Waiter::Call { exchange: ExchangeId(1), name: "q".to_owned() }
    }

    #[test]
    fn inv70_a_waiter_is_taken_out_once_whatever_comes_first() {
        let mut asks = Asks::new(8);
        let start = epoch();
        let later = start + Duration::from_secs(30);
        let first = asks.add(session(1), waiter(), later).unwrap();
        let second = asks.add(session(1), waiter(), later).unwrap();
        assert!(asks.answered(session(2), first).is_none(), "an answer of somebody else");
        assert!(asks.answered(session(1), first).is_some());
        assert!(asks.answered(session(1), first).is_none());
        assert!(asks.expired(first, later).is_none());
        assert!(asks.expired(second, start).is_none(), "its time is not up");
        assert!(asks.expired(second, later).is_some());
        assert!(asks.answered(session(1), second).is_none());
        let third = asks.add(session(1), waiter(), later).unwrap();
        asks.add(session(2), waiter(), later).unwrap();
        assert_eq!(asks.of_sessions(&HashSet::from([session(1)])).len(), 1);
        assert!(!asks.is_waiting(third));
        assert_eq!(asks.len(), 1);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut asks = Asks::new(1);
        asks.add(session(1), waiter(), epoch()).unwrap();
        assert!(asks.add(session(1), waiter(), epoch()).is_err());
    }
}
