//! Answers on their way out: framing, and what the mailbox brings.

use std::time::Instant;

use super::{Engine, Phase};
use crate::exchange::{Batch, Committed, Exchange, Mail, Seat};
use crate::filter::{Chain, Cx, Facts, Filter, Response};
use crate::guard::guarded;
use crate::http::{AfterReply, Reply, ResponseHead, ResponseWriter, Status, StreamStart};
use crate::key::{ConnKey, ExchangeId, SessionId};
use crate::mcp::version::Version;
use crate::rpc::{self, ErrorObject, encode};

/// What the application made of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A response that is complete in itself.
    Whole(Response),
    /// JSON-RPC, serialized into the engine's scratch buffer.
    Rpc(RpcAnswer),
    /// A handler took the request away and owes the answer.
    Pending { id: ExchangeId, stream_now: bool },
}

/// How a serialized answer is framed.
#[derive(Debug)]
pub(crate) struct RpcAnswer {
    pub(crate) status: Status,
    /// What a direct handler said before it answered.
    pub(crate) said: Vec<Vec<u8>>,
    /// The caller reads event streams only.
    pub(crate) stream_only: bool,
    /// A session this answer tells the caller about.
    pub(crate) session: Option<SessionId>,
}

/// The HTTP status of a JSON-RPC answer: the classic era says everything with 200, the modern one
/// repeats some errors outside the body.
pub(crate) fn status_of(version: Version, error: Option<i64>) -> Status {
    match error {
        Some(code) if version.is_modern() => match code {
            crate::mcp::HEADER_MISMATCH
            | crate::mcp::MISSING_CLIENT_CAPABILITY
            | crate::mcp::UNSUPPORTED_PROTOCOL_VERSION => Status::BAD_REQUEST,
            rpc::METHOD_NOT_FOUND => Status::NOT_FOUND,
            _ => Status::OK,
        },
        _ => Status::OK,
    }
}

const JSON: &str = "application/json";

impl<T> Engine<T> {
    /// Frames what a request came to, or remembers who owes its answer.
    pub(super) fn settle(&mut self, key: ConnKey, reply: Reply, answer: Answer, now: Instant) {
        match answer {
            Answer::Whole(response) => self.answer_now(key, reply, response, now),
            Answer::Rpc(answer) => self.answer_rpc(key, reply, &answer, now),
            Answer::Pending { id, stream_now } => {
                if let Some(conn) = self.conn(key) {
                    conn.busy = Some(id);
                }
                if stream_now {
                    self.open_stream(id, now);
                }
            }
        }
    }

    /// Frames a complete response to the request in hand.
    pub(super) fn answer_now(
        &mut self,
        key: ConnKey,
        reply: Reply,
        response: Response,
        now: Instant,
    ) {
        let Response { status, content_type, fields, body, close } = response;
        let reply = if close { reply.closing() } else { reply };
        let mut head = self.begin_head(key, status, now);
        for (name, value) in &fields {
            head.field(name, value);
        }
        self.write_unary(key, reply, &head, content_type.as_deref(), &body);
        self.return_head(key, head);
    }

    /// Answers bytes that were no request, or one that will never be whole, and closes.
    pub(super) fn answer_garbage(&mut self, key: ConnKey, response: Response, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        let reply = if conn.codec.has_head() {
            Reply::to(&conn.codec.request(&conn.input)).closing()
        } else {
            conn.passage.clear();
            Reply::to_garbage()
        };
        self.answer_now(key, reply, response, now);
    }

    fn answer_rpc(&mut self, key: ConnKey, reply: Reply, answer: &RpcAnswer, now: Instant) {
        let body = std::mem::take(&mut self.scratch);
        let mut head = self.begin_head(key, answer.status, now);
        if let Some(session) = answer.session {
            head.field(crate::filter::endpoint::header::SESSION_ID, session.as_str());
        }
        if answer.stream_only || !answer.said.is_empty() {
            self.write_short_stream(key, reply, &head, &answer.said, Some(&body));
        } else {
            self.write_unary(key, reply, &head, Some(JSON), &body);
        }
        self.return_head(key, head);
        self.scratch = body;
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_KEPT_BYTES);
    }

    /// The head that the filters have prepared for the request in hand, after they saw its status.
    fn begin_head(&mut self, key: ConnKey, status: Status, now: Instant) -> ResponseHead {
        let Self { conns, chain, catalog, sessions, health, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return ResponseHead::new(status);
        };
        let mut head = std::mem::replace(&mut conn.passage.head, ResponseHead::new(status));
        head.status = status;
        let request = conn.codec.request(&conn.input);
        let mut cx = Cx {
            now,
            conn: key,
            peer: &conn.peer,
            facts: Facts { method: request.method(), path: request.path() },
            passage: &mut conn.passage,
            catalog,
            sessions,
            health: *health,
        };
        respond(chain, &mut head, &mut cx);
        head
    }

    fn return_head(&mut self, key: ConnKey, mut head: ResponseHead) {
        if let Some(conn) = self.conn(key) {
            head.reset(Status::OK);
            conn.passage.head = head;
        }
    }

    fn write_unary(
        &mut self,
        key: ConnKey,
        reply: Reply,
        head: &ResponseHead,
        content_type: Option<&str>,
        body: &[u8],
    ) {
        self.pool_output(key);
        let reply = self.closing_in_shutdown(reply);
        let Self { conns, date, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return;
        };
        let mut writer = ResponseWriter::new(reply);
        let written = writer.unary(&mut conn.output, head, content_type, body, date);
        debug_assert!(written.is_ok(), "a fresh writer takes one response");
        self.end_response(key, writer.after_reply());
    }

    fn write_short_stream(
        &mut self,
        key: ConnKey,
        reply: Reply,
        head: &ResponseHead,
        said: &[Vec<u8>],
        answer: Option<&[u8]>,
    ) {
        self.pool_output(key);
        let reply = self.closing_in_shutdown(reply);
        let Self { conns, date, http10, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return;
        };
        let mut writer = ResponseWriter::new(reply);
        let out = &mut conn.output;
        if writer.start_stream(out, head, *http10, date) == StreamStart::Streaming {
            for event in said.iter().map(Vec::as_slice).chain(answer) {
                let written = writer.event(out, event, None);
                debug_assert!(written.is_ok(), "the stream was just opened");
            }
        }
        let after = writer.finish(out);
        self.end_response(key, after);
    }

    /// While draining, an answer is the last of its connection.
    fn closing_in_shutdown(&self, reply: Reply) -> Reply {
        if self.shutdown_at.is_some() { reply.closing() } else { reply }
    }

    fn end_response(&mut self, key: ConnKey, after: AfterReply) {
        // A stream that was open before the shutdown has promised nothing else in its head.
        let last = after == AfterReply::Close || self.shutdown_at.is_some();
        if let Some(conn) = self.conn(key).filter(|_| last) {
            conn.phase = Phase::Finishing;
        }
        self.make_dirty(key);
    }

    /// Handles the mail that is here now; what is posted meanwhile waits for the next turn.
    pub(super) fn handle_mail(&mut self, now: Instant) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail, self.limits.turn.mail_max);
        for message in mail.drain(..) {
            match message {
                Mail::Event { id, message } => self.on_event(id, &message, now),
                Mail::Answer { id, message, error } => self.on_answer(id, message, error, now),
                Mail::Abandoned { id } => self.on_abandoned(id, now),
                Mail::Command(command) => self.on_command(command, now),
            }
        }
        self.mail = mail;
    }

    fn on_event(&mut self, id: ExchangeId, message: &[u8], now: Instant) {
        if let Some(exchange) = self.exchanges.find(id) {
            exchange.flags.arrived(message.len());
        }
        let Some(key) = self.attached(id) else { return };
        if !self.open_stream(id, now) {
            return;
        }
        self.pool_output(key);
        let high = self.limits.output_bytes_high;
        let Some(conn) = self.conn(key) else { return };
        let Some(writer) = &mut conn.stream else {
            return;
        };
        let written = writer.event(&mut conn.output, message, None);
        debug_assert!(written.is_ok(), "the stream is open");
        let waiting = conn.output.len();
        if let Some(exchange) = self.exchanges.find(id) {
            exchange.flags.set_slow(waiting > high);
        }
        self.make_dirty(key);
        self.set_clock(key, now);
    }

    fn on_abandoned(&mut self, id: ExchangeId, now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else {
            return;
        };
        log::error!("the handler of {id} gave up without an answer");
        let error = ErrorObject::internal();
        let mut message = Vec::new();
        encode::write_error(&mut message, Some(&exchange.call), &error);
        self.on_answer(id, message, Some(error.code), now);
    }

    fn on_answer(&mut self, id: ExchangeId, message: Vec<u8>, error: Option<i64>, now: Instant) {
        let Some(exchange) = self.exchanges.close(id) else {
            return;
        };
        match exchange.seat {
            Seat::Attached(key) => self.answer_exchange(key, &exchange, &message, error, now),
            Seat::Part(whole) => self.on_part(whole, Some(message), now),
            Seat::Working | Seat::Kept { .. } => {
                log::debug!("{id} finished after its caller had left");
            }
        }
    }

    /// One more answer of a batch, or none for a call that was cancelled; the last one sends all.
    fn on_part(&mut self, whole: ExchangeId, answer: Option<Vec<u8>>, now: Instant) {
        let Some(batch) = self.exchanges.find(whole).and_then(|whole| whole.batch.as_mut()) else {
            return;
        };
        batch.answers.extend(answer);
        batch.awaited = batch.awaited.saturating_sub(1);
        if batch.awaited > 0 {
            return;
        }
        if batch.answers.is_empty() {
            // Every call of it was cancelled.
            return self.cancel_call(whole, now);
        }
        let message = join(batch);
        self.on_answer(whole, message, None, now);
    }

    /// Cancels a running call, as its caller asked: nothing is sent for it.
    pub(super) fn cancel_call(&mut self, id: ExchangeId, now: Instant) {
        let Some(exchange) = self.exchanges.cancel(id) else { return };
        match exchange.seat {
            Seat::Attached(key) => self.end_cancelled(key, &exchange, now),
            Seat::Part(whole) => self.on_part(whole, None, now),
            Seat::Working | Seat::Kept { .. } => {}
        }
    }

    fn answer_exchange(
        &mut self,
        key: ConnKey,
        exchange: &Exchange,
        message: &[u8],
        error: Option<i64>,
        now: Instant,
    ) {
        let Some(conn) = self.conn(key) else { return };
        conn.busy = None;
        match (exchange.committed, conn.stream.take()) {
            (Committed::Stream, Some(mut writer)) => {
                let written = writer.event(&mut conn.output, message, None);
                debug_assert!(written.is_ok(), "the stream is open");
                let after = writer.finish(&mut conn.output);
                self.end_response(key, after);
            }
            _ => {
                let status = status_of(exchange.version, error);
                let head = self.exchange_head(key, exchange, status, now);
                if exchange.accepts.json {
                    self.write_unary(key, exchange.reply, &head, Some(JSON), message);
                } else {
                    self.write_short_stream(key, exchange.reply, &head, &[], Some(message));
                }
            }
        }
        self.gate_opened(key, now);
    }

    /// The connection may serve its next request, which may have been waiting here.
    fn gate_opened(&mut self, key: ConnKey, now: Instant) {
        if self.conn(key).is_some_and(|conn| !conn.input.is_empty()) {
            self.make_ready(key);
        }
        self.set_clock(key, now);
    }

    /// Nothing is sent for a cancelled call, but its HTTP response must end.
    fn end_cancelled(&mut self, key: ConnKey, exchange: &Exchange, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        conn.busy = None;
        if let Some(mut writer) = conn.stream.take() {
            let after = writer.finish(&mut conn.output);
            self.end_response(key, after);
        } else if exchange.accepts.stream && exchange.batch.is_none() {
            let head = self.exchange_head(key, exchange, Status::OK, now);
            self.write_short_stream(key, exchange.reply, &head, &[], None);
        } else {
            let head = self.exchange_head(key, exchange, Status::ACCEPTED, now);
            self.write_unary(key, exchange.reply, &head, None, &[]);
        }
        self.gate_opened(key, now);
    }

    /// Commits an exchange to a stream, once; false when its caller cannot be given one.
    fn open_stream(&mut self, id: ExchangeId, now: Instant) -> bool {
        let Some(exchange) = self.exchanges.find(id) else {
            return false;
        };
        let Seat::Attached(key) = exchange.seat else {
            return false;
        };
        if exchange.committed == Committed::Stream {
            return true;
        }
        if !exchange.accepts.stream {
            return false;
        }
        exchange.committed = Committed::Stream;
        let mut head = std::mem::replace(&mut exchange.head, ResponseHead::new(Status::OK));
        let (method, path) = (exchange.facts.0, exchange.facts.1.clone());
        let reply = exchange.reply;
        self.filter_head(key, Facts { method, path: &path }, &mut head, now);
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

    fn exchange_head(
        &mut self,
        key: ConnKey,
        exchange: &Exchange,
        status: Status,
        now: Instant,
    ) -> ResponseHead {
        let mut head = exchange.head.clone();
        head.status = status;
        let facts = Facts { method: exchange.facts.0, path: &exchange.facts.1 };
        self.filter_head(key, facts, &mut head, now);
        head
    }

    fn filter_head(
        &mut self,
        key: ConnKey,
        facts: Facts<'_>,
        head: &mut ResponseHead,
        now: Instant,
    ) {
        let Self { conns, chain, catalog, sessions, health, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return;
        };
        let mut cx = Cx {
            now,
            conn: key,
            peer: &conn.peer,
            facts,
            passage: &mut conn.passage,
            catalog,
            sessions,
            health: *health,
        };
        respond(chain, head, &mut cx);
    }

    /// The connection that waits for this exchange.
    pub(super) fn attached(&mut self, id: ExchangeId) -> Option<ConnKey> {
        match self.exchanges.find(id)?.seat {
            Seat::Attached(key) => Some(key),
            Seat::Part(_) | Seat::Working | Seat::Kept { .. } => None,
        }
    }
}

/// One huge answer must not pin its memory for the life of the server.
const SCRATCH_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Lets the filters see a response. One that panics has had its look.
fn respond(chain: &mut Chain, head: &mut ResponseHead, cx: &mut Cx<'_>) {
    if guarded(|| chain.on_response(head, cx)).is_err() {
        log::error!("a filter panicked over a response");
    }
}

/// The answers of a batch as one JSON array.
pub(crate) fn join(batch: &Batch) -> Vec<u8> {
    let mut joined = vec![b'['];
    for (index, answer) in batch.answers.iter().enumerate() {
        if index > 0 {
            joined.push(b',');
        }
        joined.extend_from_slice(answer);
    }
    joined.push(b']');
    joined
}
