//! What the swarm expects of the server: its tables, as far as clients can see them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use waterwheel::SessionId;

use crate::support::Session;

/// What may change: the list of tools, of prompts or of resources, or a resource with this URI.
pub(super) type Change = &'static str;

pub(super) const LISTS: [Change; 3] = ["tools", "prompts", "resources"];
pub(super) const RESOURCES: [Change; 3] = ["a:1", "a:2", "a:3"];

/// The limits of the server, small enough to be reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Streams on record.
    pub(super) records: usize,
    /// Events kept of one stream.
    pub(super) events: usize,
    /// Open streams of a session; as many may be left and resumed.
    pub(super) streams: usize,
    /// Messages that wait for a stream.
    pub(super) pending: usize,
    /// Unsent output of a connection.
    pub(super) output_bytes: usize,
}

/// One classic session and its client.
pub(super) struct Member {
    pub(super) session: Session,
    /// The session as the server names it to handlers, known with the first call.
    pub(super) id: Option<SessionId>,
    /// Its client can ask its user.
    pub(super) elicits: bool,
    pub(super) confirmed: bool,
    /// Since when it has ended, or may have.
    pub(super) gone: Option<Instant>,
    pub(super) active: Instant,
    /// Calls that run.
    pub(super) running: usize,
    /// Its open streams, the newest last.
    pub(super) open: Vec<usize>,
    /// Streams that were left and can be resumed, in that order.
    pub(super) left: VecDeque<usize>,
    pub(super) pending: VecDeque<Said>,
    pub(super) followed: BTreeSet<Change>,
    /// Streams whose names the client has learnt.
    pub(super) known: Vec<usize>,
    /// Requests of the server that the client has seen.
    pub(super) asked: Vec<u64>,
}

/// A stream of events.
pub(super) struct Stream {
    pub(super) purpose: Purpose,
    pub(super) member: Option<usize>,
    /// What its ids begin with, once a client has seen one.
    pub(super) name: Option<String>,
    pub(super) said: Vec<Said>,
    /// Where it goes now.
    pub(super) line: Option<usize>,
    /// Its events carry ids.
    pub(super) recorded: bool,
    /// It begins with a place to resume from.
    pub(super) primed: bool,
    /// When its record is given up, once nothing is added to it.
    pub(super) until: Option<Instant>,
    /// It was left, and the server has had no turn since.
    pub(super) loose: bool,
    /// How far any of its readers came.
    pub(super) seen: usize,
}

pub(super) enum Purpose {
    /// Whatever concerns a session.
    Session,
    /// The answer to a call.
    Call(usize),
    /// A subscription: its id and what it wants to hear of.
    Listen(u64, Vec<Change>),
    /// Over as soon as it begins.
    Short,
}

/// One event.
#[derive(Clone)]
pub(super) struct Said {
    pub(super) what: String,
    /// Some if it is a question.
    pub(super) subject: Option<Subject>,
    /// Its text, once somebody has seen it.
    pub(super) wire: Option<String>,
}

impl Said {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), subject: None, wire: None }
    }

    pub(super) fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }
}

/// What a request of the server is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Subject {
    /// A call wants to know; which of its questions it is.
    Call(usize, usize),
    /// The server wants to know whether the client is there.
    Ping(usize),
}

/// A call of a tool whose answer comes later.
pub(super) struct Call {
    pub(super) id: u64,
    /// None of a modern caller.
    pub(super) member: Option<usize>,
    pub(super) batch: Option<usize>,
    pub(super) reads_json: bool,
    pub(super) reads_streams: bool,
    /// Log messages reach its caller.
    pub(super) hears: bool,
    /// Progress reaches its caller.
    pub(super) follows: bool,
    /// Who waits, as long as no stream has begun.
    pub(super) line: Option<usize>,
    pub(super) stream: Option<usize>,
    pub(super) since: Instant,
    pub(super) state: State,
    pub(super) rounds: usize,
}

pub(super) enum State {
    /// Its handler has it.
    Held,
    /// It waits for answers to these of its questions.
    Asking {
        until: Instant,
        /// The step in which it asked: of two that are due, the first to ask is given up first.
        asked_in: usize,
        waits_for: Vec<usize>,
    },
    Over,
}

/// Calls that are answered together.
pub(super) struct Batch {
    pub(super) member: usize,
    pub(super) line: Option<usize>,
    pub(super) awaited: usize,
    pub(super) answered: Vec<u64>,
}

/// Somebody outside wants to know whether a client is there.
pub(super) struct Ping {
    /// How many were sent before it.
    pub(super) at: usize,
    pub(super) member: usize,
    pub(super) until: Instant,
    pub(super) told: Receiver<Heard>,
    pub(super) expected: Option<Heard>,
    /// Its session has grown too old: by then it hears of that, unless its own time is up before.
    pub(super) ends_by: Option<Instant>,
}

/// What somebody was told who asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Heard {
    Answer,
    Refusal,
    TimeUp,
    Ended,
}
