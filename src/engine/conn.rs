//! One connection as the engine sees it: queues, codec, the request in hand. No socket is known
//! here; `T` is whatever the shell needs to keep beside it.

use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use crate::buf::ByteQueue;
use crate::filter::{Passage, Peer};
use crate::http::{ResponseWriter, ServerCodec};
use crate::key::ExchangeId;

/// A connection and what the shell keeps with it. From every phase it may be closed at once.
///
/// ```text
/// Handshaking ---> Open <--> Held
///      '------------'----------'---> Finishing ---> Lingering ---> Dead
/// ```
pub struct Conn<T> {
    /// What the shell put here: a transport, or nothing at all.
    pub io: T,
    pub(crate) generation: u32,
    pub(crate) peer: Peer,
    pub(crate) input: ByteQueue,
    pub(crate) output: ByteQueue,
    pub(crate) codec: ServerCodec,
    pub(crate) passage: Passage,
    pub(crate) phase: Phase,
    /// Some while a handler owes this connection an answer. Nothing more is decoded until then:
    /// HTTP/1.1 answers in order.
    pub(crate) busy: Option<ExchangeId>,
    /// Some while an event stream is open.
    pub(crate) stream: Option<ResponseWriter>,
    pub(crate) clock: Clock,
    /// When the running clock is up.
    pub(crate) deadline: Option<Instant>,
    /// The earliest timer entry that is out for this connection.
    pub(crate) armed: Option<Instant>,
    /// Output when it was last offered to the shell.
    pub(crate) offered: usize,
    /// The largest piece of a stream since the output was last empty. A reader is slow only for
    /// what comes on top of it: one message may be larger than all that a reader may leave.
    pub(crate) largest: usize,
    /// Output is waiting and the key is queued for flushing.
    pub(crate) dirty: bool,
    /// The key is queued to be served again.
    pub(crate) queued: bool,
}

/// How far the end of a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The transport has yet to agree on its keys; no request is taken.
    Handshaking,
    /// Serving.
    Open,
    /// The request in hand waits at its head for a decision; nothing more is decoded until then.
    Held,
    /// The last answer is being written; no more requests are taken.
    Finishing,
    /// All is written and our side is closed; input is thrown away until the peer closes too.
    Lingering,
    /// Closed; the slot waits to be reaped.
    Dead,
}

/// Which clock runs for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The transport has yet to agree on its keys.
    Handshake,
    /// Waiting for a request.
    Idle,
    /// In the middle of a head.
    Head,
    /// In the middle of a body.
    Body,
    /// The peer has all it is owed for now and owes nothing itself.
    Work,
    /// A decision about the request is awaited.
    Held,
    /// Output is waiting for the peer.
    Write,
    /// After the last answer.
    Linger,
}

impl<T> Conn<T> {
    pub(crate) fn new(io: T, generation: u32, peer: Option<SocketAddr>) -> Self {
        Self {
            io,
            generation,
            peer: Peer { address: peer, certificate: None },
            input: ByteQueue::new(),
            output: ByteQueue::new(),
            codec: ServerCodec::new(),
            passage: Passage::new(),
            phase: Phase::Open,
            busy: None,
            stream: None,
            clock: Clock::Idle,
            deadline: None,
            armed: None,
            offered: 0,
            largest: 0,
            dirty: false,
            queued: false,
        }
    }

    /// Which clock ought to run now.
    pub(crate) fn due_clock(&self) -> Clock {
        use crate::http::Phase as Request;
        match (self.phase, self.codec.phase()) {
            (Phase::Lingering | Phase::Dead, _) => Clock::Linger,
            (Phase::Handshaking, _) => Clock::Handshake,
            _ if !self.output.is_empty() => Clock::Write,
            (Phase::Finishing, _) => Clock::Write,
            _ if self.busy.is_some() => Clock::Work,
            (Phase::Open, Request::Head) => Clock::Head,
            (Phase::Open, Request::Body | Request::Draining) => Clock::Body,
            (Phase::Open, _) => Clock::Idle,
            (Phase::Held, _) => Clock::Held,
        }
    }
}

impl<T> fmt::Debug for Conn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn")
            .field("peer", &self.peer.address)
            .field("phase", &self.phase)
            .field("clock", &self.clock)
            .field("busy", &self.busy)
            .field("input_bytes", &self.input.len())
            .field("output_bytes", &self.output.len())
            .finish_non_exhaustive()
    }
}

/// Why a connection was closed. Not an error: most connections end for one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed its side.
    PeerClosed,
    /// The transport failed.
    TransportFailed,
    /// The last answer said that the connection closes.
    AnsweredAndClosed,
    /// No request came for too long.
    Idle,
    /// The handshake did not come to its end in time.
    HandshakeTooSlow,
    /// The rest of a request did not come in time.
    RequestTooSlow,
    /// The peer does not read what it asked for.
    ReaderTooSlow,
    /// More was sent behind an unanswered request than may wait.
    GateOverflow,
    /// Its client resumed the stream on another connection.
    TakenOver,
    /// The server is going away.
    Shutdown,
}

impl CloseReason {
    /// Every reason, in their order.
    pub const ALL: [Self; 10] = [
        Self::PeerClosed,
        Self::TransportFailed,
        Self::AnsweredAndClosed,
        Self::Idle,
        Self::HandshakeTooSlow,
        Self::RequestTooSlow,
        Self::ReaderTooSlow,
        Self::GateOverflow,
        Self::TakenOver,
        Self::Shutdown,
    ];

    /// The reason as an identifier, for counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PeerClosed => "peer_closed",
            Self::TransportFailed => "transport_failed",
            Self::AnsweredAndClosed => "answered_and_closed",
            Self::Idle => "idle",
            Self::HandshakeTooSlow => "handshake_too_slow",
            Self::RequestTooSlow => "request_too_slow",
            Self::ReaderTooSlow => "reader_too_slow",
            Self::GateOverflow => "gate_overflow",
            Self::TakenOver => "taken_over",
            Self::Shutdown => "shutdown",
        }
    }

    /// One line for the log.
    #[must_use]
    pub fn explain(self) -> &'static str {
        match self {
            Self::PeerClosed => "the peer closed the connection",
            Self::TransportFailed => "the transport failed",
            Self::AnsweredAndClosed => "closed after the answer",
            Self::Idle => "no request for too long",
            Self::HandshakeTooSlow => "the handshake did not come to its end in time",
            Self::RequestTooSlow => "the rest of a request did not come in time",
            Self::ReaderTooSlow => "the peer does not read its answers",
            Self::GateOverflow => "too many bytes behind an unanswered request",
            Self::TakenOver => "its client resumed the stream on another connection",
            Self::Shutdown => "the server is shutting down",
        }
    }
}

// The list of all reasons has the last one where it belongs, so none is missing.
const _: () = assert!(CloseReason::Shutdown as usize + 1 == CloseReason::ALL.len());
