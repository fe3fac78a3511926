//! Answers on their way out: framing, and what the mailbox brings.

use std::time::Instant;

use super::body::Body;
use super::handler::Paused;
use super::streams::milliseconds;
use super::{Engine, Phase};
use crate::exchange::{Batch, Exchange, Purpose, Recorded};
use crate::filter::endpoint::GetStream;
use crate::filter::{Chain, Cx, Facts, Filter, Report, Response};
use crate::guard::guarded;
use crate::http::{AfterReply, Reply, ResponseHead, ResponseWriter, Status, StreamStart};
use crate::key::{ConnKey, EventId, ExchangeId, Principal, SessionId};
use crate::mcp::model::{Ending, NeedInput};
use crate::mcp::version::Version;
use crate::rpc;

/// What the application made of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A response that is complete in itself.
    Whole(Response),
    /// A page about the server, which is yet to be filled in.
    Report(Report),
    /// JSON-RPC, in the engine's scratch body.
    Rpc(RpcAnswer),
    /// A handler took the request away and owes the answer.
    Pending { id: ExchangeId, stream_now: bool },
    /// A handler asks its caller first.
    Asking(Box<Asked>),
    /// A stream for a session, or what it has missed of one.
    Stream(GetStream),
    /// A subscription, which begins with its acknowledgement.
    Listen { id: ExchangeId, acknowledgement: Vec<u8>, hears: bool },
    /// Something of the transport with two connections.
    Legacy(Box<LegacyAnswer>),
}

/// What the application made of what came over the legacy transport.
#[derive(Debug)]
pub(crate) enum LegacyAnswer {
    /// A stream for this caller, who is to post to this address.
    Open { principal: Option<Principal>, address: String },
    /// An answer that goes out on this stream.
    Through { stream: ExchangeId, answer: Answer },
}

/// A call that asks, and what it said before.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: ExchangeId,
    pub(crate) paused: Box<Paused>,
    pub(crate) need: NeedInput,
    pub(crate) said: Vec<Vec<u8>>,
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
    /// The session that may ask for the events again, should the answer be a stream.
    pub(crate) record: Option<(SessionId, Version)>,
}

impl RpcAnswer {
    /// Nothing but the answer itself.
    pub(crate) fn plain(status: Status) -> Self {
        Self { status, said: Vec::new(), stream_only: false, session: None, record: None }
    }
}

/// The HTTP status of a JSON-RPC answer: the classic era says everything with 200, the modern one
/// repeats some errors outside the body.
pub(crate) fn status_of(version: Version, ending: Ending) -> Status {
    match ending {
        Ending::Error(code) if version.is_modern() => match code {
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
            Answer::Report(report) => {
                let page = self.report(report, now);
                self.answer_now(key, reply, page, now);
            }
            Answer::Rpc(answer) => self.answer_rpc(key, reply, &answer, now),
            Answer::Pending { id, stream_now } => {
                if let Some(conn) = self.conn(key) {
                    conn.busy = Some(id);
                }
                if stream_now {
                    self.open_stream(id, None, now);
                } else {
                    self.arm_keep_alive(id, now);
                }
            }
            Answer::Asking(asked) => {
                let Asked { id, paused, need, said } = *asked;
                if let Some(conn) = self.conn(key) {
                    conn.busy = Some(id);
                }
                for message in said {
                    self.say(id, &message, now);
                }
                self.on_need(id, paused, need, now);
            }
            Answer::Listen { id, acknowledgement, hears } => {
                if let Some(conn) = self.conn(key) {
                    conn.busy = Some(id);
                }
                self.begin_subscription(id, &acknowledgement, hears, now);
            }
            Answer::Stream(get) => self.open_get(key, reply, get, now),
            Answer::Legacy(answer) => self.settle_legacy(key, reply, *answer, now),
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
        self.write_unary(key, reply, &head, content_type.as_deref(), [&body, &[]]);
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
        let mut body = std::mem::take(&mut self.scratch);
        let mut head = self.begin_head(key, answer.status, now);
        if let Some(session) = answer.session {
            head.field(crate::filter::header::SESSION_ID, session.as_str());
        }
        if answer.stream_only || !answer.said.is_empty() {
            let id = self.open_short_record(answer.record);
            self.write_short_stream(key, reply, &head, id, &answer.said, Some(body.whole()), now);
        } else {
            self.write_unary(key, reply, &head, Some(JSON), body.parts());
        }
        self.return_head(key, head);
        self.return_scratch(body);
    }

    pub(super) fn return_scratch(&mut self, mut scratch: Body) {
        scratch.clear(SCRATCH_KEPT_BYTES);
        self.scratch = scratch;
    }

    /// The head that the filters have prepared for the request in hand, after they saw its status.
    pub(super) fn begin_head(
        &mut self,
        key: ConnKey,
        status: Status,
        now: Instant,
    ) -> ResponseHead {
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
            facts: Facts::of(&request),
            passage: &mut conn.passage,
            catalog,
            sessions,
            health: *health,
        };
        respond(chain, &mut head, &mut cx);
        head
    }

    pub(super) fn return_head(&mut self, key: ConnKey, mut head: ResponseHead) {
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
        body: [&[u8]; 2],
    ) {
        self.pool_output(key);
        let reply = self.closing_in_shutdown(reply);
        let Self { conns, date, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return;
        };
        let mut writer = ResponseWriter::new(reply);
        let length = body.iter().map(|part| part.len()).sum();
        let wanted = writer.unary_head(&mut conn.output, head, content_type, length, date);
        debug_assert!(wanted.is_ok(), "a fresh writer takes one response");
        if wanted.is_ok_and(|wanted| wanted > 0) {
            body.iter().for_each(|part| conn.output.push(part));
        }
        self.end_response(key, writer.after_reply());
    }

    /// Begins the record of a stream that is over as soon as it begins.
    fn open_short_record(&mut self, record: Option<(SessionId, Version)>) -> Option<ShortRecord> {
        let (session, version) = record?;
        let id = self.exchanges.mint();
        let opened = self.detached.open(id, session, Recorded::Answer);
        opened.then_some(ShortRecord { id, primed: version.rules().priming_event })
    }

    #[expect(clippy::too_many_arguments, reason = "they are the parts of one response")]
    fn write_short_stream(
        &mut self,
        key: ConnKey,
        reply: Reply,
        head: &ResponseHead,
        record: Option<ShortRecord>,
        said: &[Vec<u8>],
        answer: Option<&[u8]>,
        now: Instant,
    ) {
        self.pool_output(key);
        let reply = self.closing_in_shutdown(reply);
        let Self { conns, date, http10, detached, timeouts, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return;
        };
        let mut writer = ResponseWriter::new(reply);
        let out = &mut conn.output;
        if writer.start_stream(out, head, *http10, date) == StreamStart::Streaming {
            if let Some(record) = record.as_ref().filter(|record| record.primed) {
                let place = EventId { exchange: record.id, seq: 0 }.to_string();
                let reconnect = milliseconds(timeouts.reconnect);
                let written = writer.priming(out, &place, Some(reconnect));
                debug_assert!(written.is_ok(), "the stream was just opened");
            }
            for event in said.iter().map(Vec::as_slice).chain(answer) {
                let id = record.as_ref().and_then(|record| detached.record(record.id, event));
                let id = id.map(|id| id.to_string());
                let written = writer.event(out, event, id.as_deref());
                debug_assert!(written.is_ok(), "the stream was just opened");
            }
        }
        let after = writer.finish(out);
        if let Some(record) = record {
            self.end_record(record.id, now);
        }
        self.end_response(key, after);
    }

    /// While draining, an answer is the last of its connection.
    pub(super) fn closing_in_shutdown(&self, reply: Reply) -> Reply {
        if self.shutdown_at.is_some() { reply.closing() } else { reply }
    }

    pub(super) fn end_response(&mut self, key: ConnKey, after: AfterReply) {
        // A stream that was open before the shutdown has promised nothing else in its head.
        let last = after == AfterReply::Close || self.shutdown_at.is_some();
        if let Some(conn) = self.conn(key).filter(|_| last) {
            conn.phase = Phase::Finishing;
        }
        self.make_dirty(key);
    }

    /// Frames the answer of an exchange that is closed already.
    pub(super) fn answer_exchange(
        &mut self,
        key: ConnKey,
        id: ExchangeId,
        exchange: &Exchange,
        message: &[u8],
        ending: Ending,
        now: Instant,
    ) {
        let event = self.detached.record(id, message).map(|event| event.to_string());
        self.end_record(id, now);
        let Some(conn) = self.conn(key) else { return };
        conn.busy = None;
        match conn.stream.take() {
            Some(mut writer) => {
                let written = writer.event(&mut conn.output, message, event.as_deref());
                debug_assert!(written.is_ok(), "the stream is open");
                let after = writer.finish(&mut conn.output);
                self.end_response(key, after);
            }
            None => {
                let status = status_of(exchange.version, ending);
                let head = self.exchange_head(key, exchange, status, now);
                self.write_unary(key, exchange.reply, &head, Some(JSON), [message, &[]]);
            }
        }
        self.gate_opened(key, now);
    }

    /// The connection may serve its next request, which may have been waiting here.
    pub(super) fn gate_opened(&mut self, key: ConnKey, now: Instant) {
        if self.conn(key).is_some_and(|conn| !conn.input.is_empty()) {
            self.make_ready(key);
        }
        self.set_clock(key, now);
    }

    /// Nothing is sent for a cancelled call, but its HTTP response must end.
    pub(super) fn end_cancelled(&mut self, key: ConnKey, exchange: &Exchange, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        conn.busy = None;
        if let Some(mut writer) = conn.stream.take() {
            let after = writer.finish(&mut conn.output);
            self.end_response(key, after);
        } else if exchange.accepts.stream && !matches!(exchange.purpose, Purpose::Batch(_)) {
            let head = self.exchange_head(key, exchange, Status::OK, now);
            self.write_short_stream(key, exchange.reply, &head, None, &[], None, now);
        } else {
            let head = self.exchange_head(key, exchange, Status::ACCEPTED, now);
            self.write_unary(key, exchange.reply, &head, None, [&[], &[]]);
        }
        self.gate_opened(key, now);
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
        let facts = Facts::new(exchange.facts.0, &exchange.facts.1);
        self.filter_head(key, facts, &mut head, now);
        head
    }

    pub(super) fn filter_head(
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
}

/// The record of a stream that is written in one piece.
#[derive(Debug)]
struct ShortRecord {
    id: ExchangeId,
    primed: bool,
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
