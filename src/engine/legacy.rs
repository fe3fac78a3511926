//! The transport of revision 2024-11-05: a client hears everything on one stream, and what it posts
//! elsewhere is only acknowledged there.
//!
//! The stream is an exchange that lasts as long as its connection; a call that came with a POST is
//! one that has its seat on the stream. The session is there for the stream's sake and ends with
//! it, since nobody could be answered any more.

use std::time::Instant;

use super::Engine;
use super::answer::{Answer, Asked, LegacyAnswer};
use crate::exchange::{Committed, Purpose};
use crate::filter::Response;
use crate::filter::legacy::SESSION;
use crate::http::{Reply, Status};
use crate::key::{ConnKey, ExchangeId, Principal};
use crate::limits::LEGACY_ANSWERS_BYTES_MAX;
use crate::mcp::session::{NewSession, Transport};
use crate::mcp::version::Version;

impl<T> Engine<T> {
    pub(super) fn settle_legacy(
        &mut self,
        key: ConnKey,
        reply: Reply,
        answer: LegacyAnswer,
        now: Instant,
    ) {
        match answer {
            LegacyAnswer::Open { principal, address } => {
                self.open_legacy(key, reply, principal, &address, now);
            }
            LegacyAnswer::Through { stream, answer } => {
                self.settle_through(key, reply, stream, answer, now);
            }
        }
    }

    /// Opens a stream and the session that goes with it.
    fn open_legacy(
        &mut self,
        key: ConnKey,
        reply: Reply,
        principal: Option<Principal>,
        address: &str,
        now: Instant,
    ) {
        let version = Version::V2024_11_05;
        let new = NewSession {
            transport: Transport::Legacy,
            version,
            capabilities: None,
            client_info: None,
            log_level: None,
            principal,
        };
        // Looked at first, so that no session is opened in vain.
        let room = !self.exchanges.is_full();
        let session = room.then(|| self.sessions.open(new, now).ok()).flatten();
        let opened = session.and_then(|session| {
            let mut exchange = self.stream_exchange(key, reply, session, version)?;
            exchange.purpose = Purpose::Legacy { answers: 0 };
            exchange.committed = Committed::Stream;
            Some((session, self.exchanges.open(exchange).ok()?))
        });
        let Some((session, id)) = opened else {
            let message = "too many sessions and streams are open; try again later";
            return self.refuse_stream(key, reply, Status::UNAVAILABLE, message, now);
        };
        if let Some(conn) = self.conn(key) {
            conn.busy = Some(id);
        }
        if let Some(session) = self.sessions.find(session) {
            session.streams.push(id);
        }
        self.start_stream(key, id, now);
        let Some(conn) = self.conn(key) else { return };
        if let Some(writer) = &conn.stream {
            let uri = format!("{address}?{SESSION}={}", session.as_str());
            let out = &mut conn.output;
            let written = writer.named_event(out, Some("endpoint"), uri.as_bytes(), None);
            debug_assert!(written.is_ok(), "the stream was just opened");
        }
    }

    /// Acknowledges a POST and sends what came of it on the stream.
    fn settle_through(
        &mut self,
        key: ConnKey,
        reply: Reply,
        stream: ExchangeId,
        answer: Answer,
        now: Instant,
    ) {
        // A status other than that of an answer is about the POST itself.
        let answer = match answer {
            Answer::Whole(response) if response.status != Status::OK => {
                return self.answer_now(key, reply, response, now);
            }
            answer => answer,
        };
        self.answer_now(key, reply, Response::empty(Status::ACCEPTED), now);
        match answer {
            Answer::Whole(response) => self.answer_through(stream, &response.body, now),
            Answer::Rpc(answer) => {
                let mut body = std::mem::take(&mut self.scratch);
                for message in answer.said {
                    self.say(stream, &message, now);
                }
                self.answer_through(stream, body.whole(), now);
                self.return_scratch(body);
            }
            Answer::Asking(asked) => {
                let Asked { id, paused, need, said } = *asked;
                for message in said {
                    self.say(id, &message, now);
                }
                self.on_need(id, paused, need, now);
            }
            Answer::Pending { .. } => {}
            Answer::Stream(_) | Answer::Listen { .. } | Answer::Legacy(_) | Answer::Report(_) => {
                debug_assert!(false, "no message of this transport opens a stream or a page");
            }
        }
    }

    /// Sends an answer on the stream of its caller, should that still be open.
    pub(super) fn answer_through(&mut self, stream: ExchangeId, message: &[u8], now: Instant) {
        if let Some(key) = self.attached(stream)
            && let Some(conn) = self.conn(key)
        {
            let behind = !conn.output.is_empty();
            if let Some(exchange) = self.exchanges.find(stream)
                && let Purpose::Legacy { answers } = &mut exchange.purpose
            {
                let before = if behind { *answers } else { 0 };
                let bytes = message.len();
                *answers = (before + bytes).min(LEGACY_ANSWERS_BYTES_MAX).max(bytes);
            }
            self.say(stream, message, now);
        }
        if self.shutdown_at.is_some() {
            self.end_stream(stream, now);
        }
    }

    /// Sends what a call says before its answer on the stream of its caller.
    pub(super) fn say_through(
        &mut self,
        id: ExchangeId,
        stream: ExchangeId,
        message: &[u8],
        now: Instant,
    ) -> bool {
        let heard = self.say(stream, message, now);
        let high = self.limits.output_bytes_high;
        let key = self.attached(stream);
        let conn = key.and_then(|key| self.conn(key));
        let slow = conn.is_some_and(|conn| conn.output.len() > high);
        if let Some(exchange) = self.exchanges.find(id) {
            exchange.flags.set_slow(slow);
        }
        heard
    }

    /// How much of a stream's unsent output is owed, so that its reader may take its time.
    pub(super) fn answers_of(&mut self, stream: Option<ExchangeId>) -> Option<usize> {
        match stream.and_then(|id| self.exchanges.find(id)).map(|open| &open.purpose) {
            Some(Purpose::Legacy { answers }) => Some(*answers),
            _ => None,
        }
    }

    /// Whether calls are running whose answers go out on this stream.
    pub(super) fn answers_wait_for(&mut self, stream: ExchangeId) -> bool {
        let session = self.exchanges.find(stream).and_then(|open| open.session);
        session.is_some_and(|session| self.exchanges.has_others(session, stream))
    }
}
