//! Input to requests to answers, one connection at a time.

use std::time::Instant;

use super::answer::Answer;
use super::app::{Aftermath, Desk};
use super::{CloseReason, Conn, Engine, Phase};
use crate::exchange::Seat;
use crate::filter::{AfterRefusal, Cx, Facts, Filter, Flow, Health, Inbound, Refusal, Response};
use crate::guard::guarded;
use crate::http::{Decoded, HttpError, Reply, Status, write_continue};
use crate::key::ConnKey;
use crate::mcp::model::Ending;
use crate::rpc::ErrorObject;

/// What a step of serving left to do.
pub(super) enum Step {
    /// Decode on: another request may be here.
    Next,
    /// Nothing more for now.
    Rest,
}

impl<T> Engine<T> {
    /// Serves what has been read: decodes requests, runs filters and handlers, appends answers.
    /// Call it after every read. Never blocks and never writes to the transport.
    pub fn receive(&mut self, key: ConnKey, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        if conn.phase != Phase::Open {
            if conn.phase != Phase::Held {
                conn.input.clear();
            }
            return self.release(key);
        }
        let mut requests = 0;
        while let Step::Next = self.step(key, now) {
            requests += 1;
            if requests == self.limits.turn.requests_max * STEPS_PER_REQUEST {
                self.make_ready(key);
                break;
            }
        }
        self.release(key);
        self.set_clock(key, now);
    }

    /// Says that the peer closed its side. An end of input is the only sign there is that a reader
    /// left, so half-closed counts as gone.
    pub fn receive_end(&mut self, key: ConnKey) {
        let Some(conn) = self.conn(key) else { return };
        let answered = matches!(conn.phase, Phase::Finishing | Phase::Lingering);
        let reason =
            if answered { CloseReason::AnsweredAndClosed } else { CloseReason::PeerClosed };
        self.close(key, reason);
    }

    /// Fires due timers, handles mail posted before this call, and serves connections whose gate
    /// has opened.
    pub fn run(&mut self, now: Instant) {
        self.settle_left(now);
        self.fire_timers(now);
        self.handle_mail(now);
        self.clear_ended_sessions(now);
        let ready = std::mem::take(&mut self.ready);
        for key in ready {
            if let Some(conn) = self.conn(key) {
                conn.queued = false;
                self.receive(key, now);
            }
        }
        while let Some(watch) = self.exchanges.poll_unanswered() {
            self.app.on_end(watch, Ending::Cancelled, now);
        }
    }

    fn step(&mut self, key: ConnKey, now: Instant) -> Step {
        let limits = &self.limits;
        let Some(conn) = self
            .conns
            .get_mut(key.index())
            .filter(|conn| conn.generation == key.generation() && conn.phase == Phase::Open)
        else {
            return Step::Rest;
        };
        if conn.busy.is_some() {
            if conn.input.len() > limits.gated_bytes_max {
                self.close(key, CloseReason::GateOverflow);
            }
            return Step::Rest;
        }
        if conn.output.len() > limits.output_bytes_high {
            return Step::Rest;
        }
        match conn.codec.decode(&mut conn.input, &limits.http) {
            Ok(Decoded::Head) => self.on_head(key, now),
            Ok(Decoded::Whole) => self.on_request(key, now),
            Ok(Decoded::Incomplete) => self.on_incomplete(key, now),
            Err(error) => self.on_garbage(key, error, now),
        }
    }

    fn on_incomplete(&mut self, key: ConnKey, now: Instant) -> Step {
        let Some(conn) = self.conn(key) else {
            return Step::Rest;
        };
        if conn.codec.take_continue(&conn.input) {
            self.pool_output(key);
            if let Some(conn) = self.conn(key) {
                write_continue(&mut conn.output);
            }
            self.make_dirty(key);
        }
        self.check_memory(key, now);
        Step::Rest
    }

    /// Large bodies of many connections together may not exhaust the process.
    fn check_memory(&mut self, key: ConnKey, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        if conn.input.len() <= LARGE_BYTES {
            return;
        }
        self.buffered =
            self.conns.iter().map(|(_, conn)| conn.input.capacity() + conn.output.capacity()).sum();
        if self.buffered > self.limits.buffered_bytes_max {
            let error = ErrorObject::invalid_request("the server is short of memory; try later");
            let response = Response::rpc_error(Status::UNAVAILABLE, None, &error);
            self.answer_garbage(key, response.field("Retry-After", "1"), now);
        }
    }

    fn on_garbage(&mut self, key: ConnKey, error: HttpError, now: Instant) -> Step {
        if self.conn(key).is_some_and(|conn| conn.codec.is_discarding()) {
            return self.give_up(key);
        }
        let object = ErrorObject::invalid_request(error.message);
        self.answer_garbage(key, Response::rpc_error(error.status, None, &object), now);
        Step::Rest
    }

    /// Ends a connection whose request has had its answer already.
    pub(super) fn give_up(&mut self, key: ConnKey) -> Step {
        if let Some(conn) = self.conn(key) {
            conn.phase = Phase::Finishing;
        }
        self.make_dirty(key);
        Step::Rest
    }

    fn on_head(&mut self, key: ConnKey, now: Instant) -> Step {
        let Self { conns, chain, catalog, sessions, health, .. } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return Step::Rest;
        };
        let Conn { input, codec, passage, peer, .. } = conn;
        passage.clear();
        passage.began = Some(now);
        let request = codec.request(input);
        let mut cx = Cx {
            now,
            conn: key,
            peer,
            facts: Facts::of(&request),
            passage,
            catalog,
            sessions,
            health: *health,
        };
        let refusal = if *health == Health::Draining && !is_probe(request.path()) {
            Err(going_away())
        } else {
            guarded(|| chain.on_head(&request, &mut cx)).unwrap_or_else(|_| Err(panicked()))
        };
        let Err(refusal) = refusal else {
            return Step::Next;
        };
        self.refuse_head(key, refusal, now)
    }

    /// Answers a request that is refused at its head, or lets it wait.
    pub(super) fn refuse_head(&mut self, key: ConnKey, refusal: Refusal, now: Instant) -> Step {
        if refusal.then == AfterRefusal::Hold {
            return self.hold(key, refusal.response);
        }
        let Self { conns, limits, .. } = self;
        let Some(Conn { input, codec, .. }) = conns.get_mut(key.index()) else {
            return Step::Rest;
        };
        let keep = refusal.then == AfterRefusal::Drain && codec.can_discard(&limits.http);
        let reply = Reply::to(&codec.request(input));
        let reply = if keep { reply } else { reply.closing() };
        self.answer_now(key, reply, refusal.response, now);
        let Some(conn) = self.conn(key) else {
            return Step::Rest;
        };
        conn.codec.discard_body(&mut conn.input);
        Step::Next
    }

    fn on_request(&mut self, key: ConnKey, now: Instant) -> Step {
        let now_secs = self.unix_secs(now);
        let Self {
            conns,
            chain,
            catalog,
            sessions,
            subscriptions,
            tasks,
            health,
            exchanges,
            app,
            mailbox,
            limits,
            scratch,
            ..
        } = self;
        let Some(conn) = conns.get_mut(key.index()) else {
            return Step::Rest;
        };
        let Conn { input, codec, passage, peer, .. } = conn;
        let request = codec.request(input);
        let reply = Reply::to(&request);
        let facts = Facts::of(&request);
        let mut cx =
            Cx { now, conn: key, peer, facts, passage, catalog, sessions, health: *health };
        let flow = guarded(|| chain.on_request(&request, &mut cx))
            .unwrap_or_else(|_| Flow::Reply(broken().closing()));
        let mut after = Aftermath::default();
        let answer = match flow {
            Flow::Next => Answer::Whole(Response::plain_error(Status::NOT_FOUND)),
            Flow::Reply(response) => Answer::Whole(response),
            Flow::Report(report) => Answer::Report(report),
            Flow::Dispatch(inbound) => {
                let Inbound { caller, work } = inbound;
                let mut desk = Desk {
                    now,
                    now_secs,
                    seat: Seat::Attached(key),
                    again: None,
                    reply,
                    passage,
                    facts,
                    exchanges,
                    sessions,
                    subscriptions,
                    tasks,
                    orders: Vec::new(),
                    catalog,
                    mailbox,
                    limits,
                    body: scratch,
                };
                let worked = app.work(caller, work, &mut desk);
                after = worked.after;
                worked.answer
            }
        };
        self.settle(key, reply, answer, now);
        self.follow_up(after, now);
        let Some(conn) = self.conn(key) else {
            return Step::Rest;
        };
        conn.codec.finish(&mut conn.input);
        Step::Next
    }

    /// Does what a request has brought for others than its own answer.
    pub(super) fn follow_up(&mut self, after: Aftermath, now: Instant) {
        for response in after.responses {
            self.on_client_response(after.session, response, now);
        }
        self.follow_orders(after.orders, now);
        for id in after.cancelled {
            self.cancel_call(id, now);
        }
        if self.sessions.has_ended() {
            self.clear_ended_sessions(now);
        }
    }

    /// Gives the output memory before something is appended to it.
    pub(super) fn pool_output(&mut self, key: ConnKey) {
        if let Some(conn) =
            self.conns.get_mut(key.index()).filter(|conn| conn.generation == key.generation())
        {
            self.pool.equip(&mut conn.output);
        }
    }
}

/// Each request takes one step for its head and one for the whole of it.
const STEPS_PER_REQUEST: usize = 2;
/// Below this a connection is not worth counting.
const LARGE_BYTES: usize = 256 * 1024;

fn is_probe(path: &str) -> bool {
    use crate::filter::normal;
    use crate::filter::routing::{ALIVE_PATHS, READY_PATHS};
    let path = normal(path);
    ALIVE_PATHS.contains(&path) || READY_PATHS.contains(&path)
}

/// The answer to a request over which a filter, a route or the authentication hook panicked.
fn broken() -> Response {
    log::error!("a filter or route panicked");
    Response::rpc_error(Status::INTERNAL, None, &ErrorObject::internal())
}

/// Turns away a request over whose head a filter panicked.
pub(super) fn panicked() -> Refusal {
    Refusal::close(broken())
}

pub(super) fn going_away() -> Refusal {
    let error = ErrorObject::invalid_request("the server is shutting down");
    Refusal::close(Response::rpc_error(Status::UNAVAILABLE, None, &error))
}
