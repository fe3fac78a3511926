//! Event streams: opening, speaking, recording what is said, resuming.
//!
//! A stream belongs to an exchange, not to a connection. What is said on one that can be resumed
//! is on record before it is written, so that a lost connection loses nothing.

use std::time::{Duration, Instant};

use super::{CloseReason, Conn, Engine};
use crate::exchange::{Accepts, Committed, Exchange, Flags, Purpose, Recorded, Replay, Seat};
use crate::filter::endpoint::GetStream;
use crate::filter::{Facts, Response};
use crate::http::{Method, Reply, ResponseHead, ResponseWriter, Status, StreamStart};
use crate::key::{ConnKey, EventId, ExchangeId, SessionId};
use crate::mcp::model::{Ending, Stamped};
use crate::mcp::session::Transport;
use crate::mcp::subscription::ListenResult;
use crate::mcp::version::Version;
use crate::rpc::{ErrorObject, encode};

impl<T> Engine<T> {
    /// Sends a message on an exchange's own stream, or keeps it for the client to resume; false if
    /// nobody will ever read it.
    pub(super) fn say(&mut self, id: ExchangeId, message: &[u8], now: Instant) -> bool {
        let Some(exchange) = self.exchanges.find(id) else { return false };
        let name = match exchange.purpose {
            // Its clients look for the name that the others' take for granted.
            Purpose::Legacy { .. } => Some("message"),
            _ => None,
        };
        match exchange.seat {
            Seat::Attached(key) => {
                if !self.open_stream(id, None, now) {
                    return false;
                }
                let event = self.detached.record(id, message);
                let slow = self.write_event(key, name, message, event);
                if let Some(exchange) = self.exchanges.find(id) {
                    exchange.flags.set_slow(slow);
                }
                self.set_clock(key, now);
                true
            }
            Seat::Working if exchange.committed == Committed::Record => {
                self.detached.record(id, message).is_some()
            }
            Seat::Through(stream) => self.say_through(id, stream, message, now),
            Seat::Working | Seat::Part(_) | Seat::Task(_) => false,
        }
    }

    /// Writes an event to an open stream; true if its reader is behind.
    fn write_event(
        &mut self,
        key: ConnKey,
        name: Option<&str>,
        message: &[u8],
        event: Option<EventId>,
    ) -> bool {
        let Self { conns, pool, limits, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else { return false };
        pool.equip_for(&mut conn.output, message.len() + FRAMING_BYTES);
        conn.largest = conn.largest.max(message.len());
        if let Some(writer) = &conn.stream {
            let id = event.map(|event| event.to_string());
            let written = writer.named_event(&mut conn.output, name, message, id.as_deref());
            debug_assert!(written.is_ok(), "the stream is open");
        }
        let slow = conn.output.len() > limits.output_bytes_high;
        self.make_dirty(key);
        slow
    }

    /// Commits an exchange to a stream, once; false when its caller cannot be given one.
    pub(super) fn open_stream(
        &mut self,
        id: ExchangeId,
        reconnect: Option<Duration>,
        now: Instant,
    ) -> bool {
        let Some(exchange) = self.exchanges.find(id) else {
            return false;
        };
        let Seat::Attached(key) = exchange.seat else {
            return false;
        };
        if exchange.committed != Committed::Nothing {
            return true;
        }
        if !exchange.accepts.stream || matches!(exchange.purpose, Purpose::Batch(_)) {
            return false;
        }
        let rules = exchange.version.rules();
        let kind = match exchange.purpose {
            Purpose::Stream | Purpose::Legacy { .. } => Recorded::Session,
            Purpose::Call(_) | Purpose::Batch(_) | Purpose::Listen(_) => Recorded::Answer,
        };
        let session = exchange.session.filter(|_| rules.resumable);
        let recorded = session.is_some_and(|session| self.detached.open(id, session, kind));
        exchange.committed = if recorded { Committed::Record } else { Committed::Stream };
        if !self.start_stream(key, id, now) {
            return false;
        }
        let reconnect = reconnect.unwrap_or(self.timeouts.reconnect);
        let Some(conn) = self.conn(key) else { return false };
        let Some(writer) = &conn.stream else { return false };
        if recorded && rules.priming_event {
            let place = EventId { exchange: id, seq: 0 }.to_string();
            let written = writer.priming(&mut conn.output, &place, Some(milliseconds(reconnect)));
            debug_assert!(written.is_ok(), "the stream was just opened");
        } else if kind == Recorded::Session {
            // Proxies and clients take a stream without a byte for a dead one.
            let written = writer.comment(&mut conn.output, "open");
            debug_assert!(written.is_ok(), "the stream was just opened");
        }
        true
    }

    /// Writes the head of an exchange's stream to the connection that it now has.
    pub(super) fn start_stream(&mut self, key: ConnKey, id: ExchangeId, now: Instant) -> bool {
        let Some(exchange) = self.exchanges.find(id) else { return false };
        let mut head = std::mem::replace(&mut exchange.head, ResponseHead::new(Status::OK));
        let (method, path) = (exchange.facts.0, exchange.facts.1.clone());
        let reply = exchange.reply;
        self.filter_head(key, Facts::new(method, &path), &mut head, now);
        self.pool_output(key);
        let reply = self.closing_in_shutdown(reply);
        let Self { conns, date, http10, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return false;
        };
        let mut writer = ResponseWriter::new(reply);
        let started = writer.start_stream(&mut conn.output, &head, *http10, date);
        debug_assert!(
            started == StreamStart::Streaming,
            "callers without streams do not accept any"
        );
        conn.stream = Some(writer);
        self.make_dirty(key);
        self.arm_keep_alive(id, now);
        started == StreamStart::Streaming
    }

    /// Opens the stream a classic client asks for: a fresh one, or the one it had.
    pub(super) fn open_get(&mut self, key: ConnKey, reply: Reply, get: GetStream, now: Instant) {
        let resumed = get.after.and_then(|after| {
            let replay = self.detached.find(after, get.session)?;
            let live = self.exchanges.find(after.exchange).is_some();
            // A stream that was left in this very turn has not been marked so yet.
            let replay = if replay == Replay::Open && !live { Replay::Left } else { replay };
            Some((after, replay))
        });
        match resumed {
            Some((after, Replay::Answered)) => self.replay_answer(key, reply, after, now),
            Some((after, Replay::Open)) => self.take_over(key, reply, after, now),
            Some((after, Replay::Left)) => {
                self.open_session_stream(key, reply, get, Some(after), now)
            }
            None => self.open_session_stream(key, reply, get, None, now),
        }
    }

    /// What followed the last event the client saw, the answer included.
    fn replay_answer(&mut self, key: ConnKey, reply: Reply, after: EventId, now: Instant) {
        let head = self.begin_head(key, Status::OK, now);
        self.pool_output(key);
        let reply = self.closing_in_shutdown(reply);
        let Self { conns, date, http10, detached, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else { return };
        let mut writer = ResponseWriter::new(reply);
        let started = writer.start_stream(&mut conn.output, &head, *http10, date);
        if started == StreamStart::Streaming {
            for (event, data) in detached.replay(after) {
                let written = writer.event(&mut conn.output, data, Some(&event.to_string()));
                debug_assert!(written.is_ok(), "the stream was just opened");
            }
        }
        let last = writer.finish(&mut conn.output);
        self.end_response(key, last);
        self.return_head(key, head);
    }

    /// Moves a running stream to the connection on which its client came back. The old one may
    /// still look open; its client is gone.
    fn take_over(&mut self, key: ConnKey, reply: Reply, after: EventId, now: Instant) {
        let id = after.exchange;
        let Some(exchange) = self.exchanges.find(id) else { return };
        let old = std::mem::replace(&mut exchange.seat, Seat::Attached(key));
        exchange.reply = reply;
        exchange.facts.0 = Method::Get;
        let session = exchange.session.filter(|_| matches!(exchange.purpose, Purpose::Stream));
        if let Seat::Attached(old) = old
            && let Some(conn) = self.conn(old)
        {
            conn.busy = None;
            self.close(old, CloseReason::TakenOver);
        }
        let Some(conn) = self.conn(key) else { return };
        conn.busy = Some(id);
        let head = std::mem::replace(&mut conn.passage.head, ResponseHead::new(Status::OK));
        if let Some(exchange) = self.exchanges.find(id) {
            exchange.head = head;
        }
        self.start_stream(key, id, now);
        self.replay_on(key, after);
        // Of this stream alone it is known that somebody reads it.
        if let Some(session) = session.and_then(|session| self.sessions.find(session)) {
            session.streams.retain(|open| *open != id);
            session.streams.push(id);
        }
    }

    fn replay_on(&mut self, key: ConnKey, after: EventId) {
        let Self { conns, detached, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else { return };
        let Conn { output, stream: Some(writer), largest, .. } = conn else { return };
        let before = output.len();
        for (event, data) in detached.replay(after) {
            let written = writer.event(output, data, Some(&event.to_string()));
            debug_assert!(written.is_ok(), "the stream is open");
        }
        *largest = output.len() - before;
    }

    /// Opens a stream for whatever the server has to say to a session; under its old name if the
    /// client comes back to one it left.
    fn open_session_stream(
        &mut self,
        key: ConnKey,
        reply: Reply,
        get: GetStream,
        after: Option<EventId>,
        now: Instant,
    ) {
        let streams_max = self.limits.get_streams_max;
        let open = self.sessions.find(get.session).map_or(0, |session| session.streams.len());
        if open >= streams_max {
            let message = "too many streams are open in this session; close one first";
            return self.refuse_stream(key, reply, Status::TOO_MANY_REQUESTS, message, now);
        }
        let Some(mut exchange) = self.stream_exchange(key, reply, get.session, get.version) else {
            return;
        };
        if after.is_some() {
            exchange.committed = Committed::Record;
        }
        let opened = match after {
            Some(after) => self.exchanges.reopen(after.exchange, exchange).map(|()| after.exchange),
            None => self.exchanges.open(exchange),
        };
        let Ok(id) = opened else {
            let message = "too many calls and streams are open; try again later";
            return self.refuse_stream(key, reply, Status::UNAVAILABLE, message, now);
        };
        if let Some(conn) = self.conn(key) {
            conn.busy = Some(id);
        }
        match after {
            Some(after) => {
                self.detached.reopen(id);
                self.start_stream(key, id, now);
                self.replay_on(key, after);
            }
            None => {
                self.open_stream(id, None, now);
            }
        }
        let Some(session) = self.sessions.find(get.session) else { return };
        session.left.retain(|left| *left != id);
        session.streams.push(id);
        for message in session.take_pending() {
            self.say(id, &message, now);
        }
    }

    /// What a stream is opened with on the connection that asks for it.
    pub(super) fn stream_exchange(
        &mut self,
        key: ConnKey,
        reply: Reply,
        session: SessionId,
        version: Version,
    ) -> Option<Exchange> {
        let conn = self.conn(key)?;
        let path = conn.codec.request(&conn.input).path().into();
        Some(Exchange {
            seat: Seat::Attached(key),
            purpose: Purpose::Stream,
            version,
            session: Some(session),
            accepts: Accepts { json: false, stream: true },
            committed: Committed::Nothing,
            on_disconnect: version.rules().on_disconnect,
            flags: std::sync::Arc::new(Flags::default()),
            reply,
            head: std::mem::replace(&mut conn.passage.head, ResponseHead::new(Status::OK)),
            facts: (Method::Get, path),
            keep_alive: None,
            watch: None,
        })
    }

    pub(super) fn refuse_stream(
        &mut self,
        key: ConnKey,
        reply: Reply,
        status: Status,
        message: &'static str,
        now: Instant,
    ) {
        let error = ErrorObject::invalid_request(message);
        let response = Response::rpc_error(status, None, &error).field("Retry-After", "1");
        self.answer_now(key, reply, response, now);
    }

    /// Tells a session something that belongs to none of its requests: on exactly one stream, the
    /// newest, or later if none is open.
    pub(super) fn tell_session(&mut self, session: SessionId, message: &[u8], now: Instant) {
        let limits = &self.limits;
        let Some(found) = self.sessions.find(session) else { return };
        match found.streams.last().copied() {
            Some(stream) => {
                self.say(stream, message, now);
            }
            None => {
                found.keep(message, limits.pending_messages_max, limits.pending_bytes_max);
            }
        }
    }

    /// Lets the connection of a running call go, at the wish of its handler; the client comes back
    /// for the rest. Only where clients know that they should, and where they still can.
    pub(super) fn on_pause(&mut self, id: ExchangeId, reconnect: Duration, now: Instant) {
        if self.shutdown_at.is_some() {
            return;
        }
        let Some(exchange) = self.exchanges.find(id) else { return };
        let Seat::Attached(key) = exchange.seat else { return };
        if !exchange.version.rules().priming_event || exchange.session.is_none() {
            return;
        }
        let was_open = exchange.committed != Committed::Nothing;
        if !self.open_stream(id, Some(reconnect), now) {
            return;
        }
        let Some(exchange) = self.exchanges.find(id) else { return };
        if exchange.committed != Committed::Record {
            return;
        }
        exchange.seat = Seat::Working;
        let Some(conn) = self.conn(key) else { return };
        conn.busy = None;
        if let Some(mut writer) = conn.stream.take() {
            if was_open {
                let written = writer.retry(&mut conn.output, milliseconds(reconnect));
                debug_assert!(written.is_ok(), "the stream is open");
            }
            let after = writer.finish(&mut conn.output);
            self.end_response(key, after);
        }
        self.gate_opened(key, now);
    }

    /// The connection that waits for this exchange.
    pub(super) fn attached(&mut self, id: ExchangeId) -> Option<ConnKey> {
        match self.exchanges.find(id)?.seat {
            Seat::Attached(key) => Some(key),
            Seat::Part(_) | Seat::Through(_) | Seat::Task(_) | Seat::Working => None,
        }
    }

    /// Takes a stream out of its session, which then has one less to be told on. A legacy session
    /// has no other, and nobody could be answered in it any more.
    pub(super) fn leave_session(&mut self, id: ExchangeId, session: Option<SessionId>) {
        let Some(key) = session else { return };
        match self.sessions.find(key) {
            Some(session) if session.transport == Transport::Legacy => {
                self.sessions.end(key);
            }
            Some(session) => session.streams.retain(|open| *open != id),
            None => {}
        }
    }

    /// Starts the clocks of streams whose clients have left since the last look.
    pub(super) fn settle_left(&mut self, now: Instant) {
        for (id, session) in std::mem::take(&mut self.left) {
            if self.exchanges.find(id).is_some() {
                continue;
            }
            if let Some(session) = session {
                self.sessions.touch(session, now);
            }
            let session = session.and_then(|session| self.sessions.find(session));
            let Some(session) = session.filter(|_| !self.detached.is_empty(id)) else {
                self.detached.forget(id);
                continue;
            };
            if session.left.contains(&id) {
                continue;
            }
            session.left.push_back(id);
            let surplus = session.left.len().saturating_sub(self.limits.get_streams_max);
            for oldest in session.left.drain(..surplus) {
                self.detached.forget(oldest);
            }
            self.end_record(id, now);
        }
    }

    /// Starts the clock of a record to which nothing will be added.
    pub(super) fn end_record(&mut self, id: ExchangeId, now: Instant) {
        self.detached.end(id, now);
        self.arm_retention();
    }

    /// Arms one timer for the record that is given up next.
    pub(super) fn arm_retention(&mut self) {
        let due = self.detached.next_deadline();
        if let Some(due) = due.filter(|due| self.retention_armed.is_none_or(|armed| armed > *due)) {
            self.retention_armed = Some(due);
            self.timers.arm(due, super::Due::Retention);
        }
    }

    /// Ends what sessions that are over still have running, waiting and on record.
    pub(super) fn clear_ended_sessions(&mut self, now: Instant) {
        let ended = self.sessions.take_ended();
        if ended.is_empty() {
            return;
        }
        self.end_asks(&ended);
        for id in self.exchanges.of_sessions(&ended) {
            self.cancel_call(id, now);
        }
        self.detached.forget_sessions(&ended);
    }

    /// Ends a stream that is there for as long as the server wants; false if this is none. A
    /// subscription is answered as it ends, and a legacy stream stays for what is still owed on it.
    pub(super) fn end_stream(&mut self, id: ExchangeId, now: Instant) -> bool {
        match self.exchanges.find(id).map(|open| &open.purpose) {
            Some(Purpose::Stream | Purpose::Listen(_)) => {}
            Some(Purpose::Legacy { .. }) => {
                if self.answers_wait_for(id) {
                    return true;
                }
            }
            Some(Purpose::Call(_) | Purpose::Batch(_)) | None => return false,
        }
        if let Some(message) = self.last_words(id) {
            self.say(id, &message, now);
        }
        let key = self.attached(id);
        let Some(mut exchange) = self.exchanges.close(id) else { return true };
        if let Some(watch) = exchange.watch.take() {
            self.app.on_end(*watch, Ending::Result, now);
        }
        self.subscriptions.remove(id);
        self.leave_session(id, exchange.session);
        self.detached.forget(id);
        if let Some(key) = key
            && let Some(conn) = self.conn(key)
        {
            conn.busy = None;
            if let Some(mut writer) = conn.stream.take() {
                let after = writer.finish(&mut conn.output);
                self.end_response(key, after);
            }
            self.gate_opened(key, now);
        }
        true
    }

    /// The answer to the request that opened a subscription.
    fn last_words(&mut self, id: ExchangeId) -> Option<Vec<u8>> {
        let exchange = self.exchanges.find(id)?;
        let Purpose::Listen(call) = &exchange.purpose else { return None };
        let result = ListenResult::new(call);
        let stamped = Stamped::new(&result, exchange.version, &self.app.identity.stamp);
        let mut message = Vec::new();
        encode::write_result(&mut message, call, &stamped);
        Some(message)
    }
}

/// More than an event needs beside its message.
const FRAMING_BYTES: usize = 64;

/// As the `retry:` field has it.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
