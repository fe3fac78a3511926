//! What travels from other threads to the loop.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::key::{ConnKey, ExchangeId, Principal};
use crate::mcp::model::{Ending, NeedInput};

/// What reaches the loop from handlers and handles.
pub(crate) enum Mail {
    /// A notification that belongs to a running request.
    Event { id: ExchangeId, message: Vec<u8> },
    /// The answer of a request: a whole JSON-RPC response.
    Answer { id: ExchangeId, message: Vec<u8>, ending: Ending },
    /// The handler gave its responder up without an answer.
    Abandoned { id: ExchangeId },
    /// The handler lets its caller's connection go; the caller comes back for the answer.
    Pause { id: ExchangeId, reconnect: Duration },
    /// The decision for which a request waits at its head.
    Resume { conn: ConnKey, ticket: u64, told: Box<dyn Any + Send> },
    /// The handler wants its caller answered now, and asked about the result later.
    Task { id: ExchangeId, owner: Option<Principal> },
    /// The handler asks its caller first, and gives the call back.
    Need { id: ExchangeId, call: Box<dyn Any + Send>, need: NeedInput },
    /// Something for the engine's owner, which knows its type.
    Command(Box<dyn Any + Send>),
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { id, .. } => write!(f, "Event({id})"),
            Self::Answer { id, .. } => write!(f, "Answer({id})"),
            Self::Abandoned { id } => write!(f, "Abandoned({id})"),
            Self::Pause { id, .. } => write!(f, "Pause({id})"),
            Self::Resume { conn, ticket, .. } => write!(f, "Resume({conn:?}, {ticket})"),
            Self::Task { id, .. } => write!(f, "Task({id})"),
            Self::Need { id, .. } => write!(f, "Need({id})"),
            Self::Command(_) => f.write_str("Command"),
        }
    }
}
