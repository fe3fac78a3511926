//! The sans-IO whole: tables, filters, application, timers. Bytes, keys and instants go in; bytes,
//! keys and deadlines come out.
//!
//! `Engine<T>` knows nothing of `T`, so it cannot touch a socket even by mistake, and nobody tells
//! it the time but its caller. The contract of whoever drives it is one loop:
//!
//! 1. append what a peer sent to [`reading`](Engine::reading), then call
//!    [`receive`](Engine::receive);
//! 2. call [`run`](Engine::run), which fires due timers and handles mail;
//! 3. write the output of every key from [`poll_dirty`](Engine::poll_dirty) and report it with
//!    [`wrote`](Engine::wrote);
//! 4. drop what [`poll_dead`](Engine::poll_dead) yields;
//! 5. wait for input, mail or [`next_deadline`](Engine::next_deadline), whichever is first.

mod announce;
mod answer;
pub(crate) mod app;
pub(crate) mod asking;
mod body;
mod clocks;
pub(crate) mod command;
mod conn;
mod gauges;
pub(crate) mod handler;
mod hold;
mod legacy;
mod mail;
mod pool;
pub(crate) mod register;
mod report;
mod secure;
mod serve;
pub(crate) mod streams;
mod tasks;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use slab::Slab;

pub(crate) use conn::{Clock, Phase};
pub use conn::{CloseReason, Conn};
pub use gauges::Gauges;

use crate::buf::ByteQueue;
use crate::exchange::{Asks, DetachedStore, ExchangeRegistry, Fate, Mail};
use crate::filter::{Chain, Health};
use crate::http::{Date, Http10Streams};
use crate::key::{ConnKey, ExchangeId, Hasher, SessionId};
use crate::limits::{Limits, Timeouts};
use crate::mailbox::Mailbox;
use crate::mcp::catalog::Catalog;
use crate::mcp::session::Sessions;
use crate::mcp::subscription::Subscriptions;
use crate::mcp::task::{TaskId, Tasks};
use crate::timers::Timers;
use announce::Announced;
use app::App;
use asking::Asking;
use body::Body;
use gauges::Tally;
use pool::Pool;

/// A whole MCP server without sockets and without a clock.
///
/// Made by [`ServerBuilder::build_engine`](crate::ServerBuilder::build_engine). The contract of
/// whoever drives it stands first in the documentation of the crate.
pub struct Engine<T> {
    conns: Slab<Conn<T>>,
    /// Tenants so far; the next one's generation.
    generations: u32,
    exchanges: ExchangeRegistry,
    detached: DetachedStore,
    /// Calls that wait for answers of their callers.
    asking: HashMap<ExchangeId, Asking, Hasher>,
    tasks: Tasks,
    /// The calls that are tasks and still run.
    task_calls: HashMap<TaskId, ExchangeId, Hasher>,
    /// The timer that is out for the next task to forget.
    tasks_armed: Option<Instant>,
    /// Requests of ours that are out.
    asks: Asks,
    /// Streams of sessions whose clients have left, until the next look.
    left: Vec<(ExchangeId, Option<SessionId>)>,
    /// The timer that is out for the records of streams.
    retention_armed: Option<Instant>,
    sessions: Sessions,
    subscriptions: Subscriptions,
    announced: Announced,
    catalog: Catalog,
    app: App,
    chain: Chain,
    timers: Timers<Due>,
    mailbox: Mailbox<Mail>,
    /// Connections with output that nobody has written yet.
    dirty: Vec<ConnKey>,
    /// Connections whose gate opened or whose budget ran out while there was input.
    ready: Vec<ConnKey>,
    dead: Vec<ConnKey>,
    pool: Pool,
    /// Where an answer is serialized before its length is known.
    scratch: Body,
    mail: Vec<Mail>,
    date: Date,
    unix_secs: Option<u64>,
    started: Option<Instant>,
    health: Health,
    limits: Limits,
    timeouts: Timeouts,
    http10: Http10Streams,
    /// Input and output held by all connections when last counted.
    buffered: usize,
    shutdown_at: Option<Instant>,
    tally: Tally,
}

/// What a timer entry is about. The owner of the deadline decides whether it still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Conn(ConnKey),
    KeepAlive(ExchangeId),
    Sessions,
    Retention,
    Tasks,
    Announce,
    Ask(u64),
    Grace,
}

/// The parts a builder puts together.
pub(crate) struct Parts {
    pub(crate) app: App,
    pub(crate) catalog: Catalog,
    pub(crate) chain: Chain,
    pub(crate) mailbox: Mailbox<Mail>,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) http10: Http10Streams,
    pub(crate) measures_turns: bool,
}

/// What the shell does with a connection once its output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AfterFlush {
    /// Nothing: it stays open.
    Keep,
    /// Close the sending side; the peer may still be sending.
    CloseSending,
}

impl<T> Engine<T> {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { app, catalog, chain, mailbox, limits, timeouts, http10, measures_turns } =
            parts;
        Self {
            conns: Slab::new(),
            generations: 0,
            exchanges: ExchangeRegistry::new(limits.exchanges_max),
            detached: DetachedStore::new(limits.replay.clone(), timeouts.retention),
            asking: HashMap::default(),
            tasks: Tasks::new(limits.tasks.clone()),
            task_calls: HashMap::default(),
            tasks_armed: None,
            asks: Asks::new(limits.asks_max),
            left: Vec::new(),
            retention_armed: None,
            sessions: Sessions::new(
                limits.sessions_max,
                timeouts.session_idle,
                timeouts.session_unconfirmed,
            ),
            subscriptions: Subscriptions::default(),
            announced: Announced::default(),
            catalog,
            app,
            chain,
            timers: Timers::new(),
            mailbox,
            dirty: Vec::new(),
            ready: Vec::new(),
            dead: Vec::new(),
            pool: Pool::default(),
            scratch: Body::default(),
            mail: Vec::new(),
            date: Date::unknown(),
            unix_secs: None,
            started: None,
            health: Health::Starting,
            limits,
            timeouts,
            http10,
            buffered: 0,
            shutdown_at: None,
            tally: Tally::new(measures_turns),
        }
    }

    /// Tells the readiness probe that requests are served from now on.
    pub fn start(&mut self, now: Instant) {
        self.health = Health::Serving;
        self.started = Some(now);
        self.timers.arm(now + self.sessions.sweep_interval(), Due::Sessions);
    }

    /// Sets what ends the driver's wait when another thread leaves mail: an answer, a report of
    /// progress, an order of a [`ServerHandle`](crate::ServerHandle).
    pub fn wake_with(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.mailbox.wake_with(wake);
    }

    /// Tells the engine the calendar time, in seconds since 1970, for the `Date` field. Without it
    /// responses carry none.
    pub fn set_calendar(&mut self, unix_seconds: u64) {
        self.date.update(unix_seconds);
        self.unix_secs = Some(unix_seconds);
    }

    /// Seconds since 1970; since the first start if nobody has told the date.
    fn unix_secs(&self, now: Instant) -> u64 {
        let since_start = self.started.map_or(0, |start| now.duration_since(start).as_secs());
        self.unix_secs.unwrap_or(since_start)
    }

    /// Takes a new connection in.
    ///
    /// # Errors
    ///
    /// Gives `io` back when as many connections as the limits allow are open, or the server is
    /// shutting down.
    pub fn connect(&mut self, io: T, peer: Option<SocketAddr>, now: Instant) -> Result<ConnKey, T> {
        if self.conns.len() >= self.limits.conns_max || self.health == Health::Draining {
            self.tally.turned_away += 1;
            return Err(io);
        }
        self.tally.accepted += 1;
        self.generations = self.generations.wrapping_add(1);
        let index = self.conns.insert(Conn::new(io, self.generations, peer));
        let key = ConnKey::new(index, self.generations);
        self.set_clock(key, now);
        Ok(key)
    }

    /// The connection of this key, unless it is closed.
    pub fn conn(&mut self, key: ConnKey) -> Option<&mut Conn<T>> {
        self.conns
            .get_mut(key.index())
            .filter(|conn| conn.generation == key.generation() && conn.phase != Phase::Dead)
    }

    /// Where the shell appends what the peer sent, with what it keeps beside the connection.
    pub fn reading(&mut self, key: ConnKey) -> Option<(&mut T, &mut ByteQueue)> {
        let conn = self
            .conns
            .get_mut(key.index())
            .filter(|conn| conn.generation == key.generation() && conn.phase != Phase::Dead)?;
        self.pool.equip(&mut conn.input);
        Some((&mut conn.io, &mut conn.input))
    }

    /// What waits to be written to the peer.
    pub fn writing(&mut self, key: ConnKey) -> Option<(&mut T, &mut ByteQueue)> {
        let conn = self.conn(key)?;
        conn.offered = conn.output.len();
        Some((&mut conn.io, &mut conn.output))
    }

    /// How much the shell may usefully read at once: the rest of a body on its way, or nothing
    /// known.
    pub fn read_hint(&mut self, key: ConnKey) -> usize {
        let Some(conn) = self.conn(key) else { return 0 };
        let needed = conn.codec.body_needed(&conn.input);
        // Nobody knows yet whether the body of a held request is wanted.
        if needed > 0 && conn.phase == Phase::Held { 0 } else { needed }
    }

    /// Whether the connection takes more input now. Over the output's watermark it does not: what
    /// it asks for next could not be sent either. Nor does one whose request is
    /// [held](crate::filter::AfterRefusal::Hold) take more behind it than may wait. Ask again once
    /// [`poll_dirty`](Self::poll_dirty) has named it.
    pub fn wants_input(&mut self, key: ConnKey) -> bool {
        let (high, gated) = (self.limits.output_bytes_high, self.limits.gated_bytes_max);
        self.conn(key).is_some_and(|conn| {
            (conn.busy.is_some() || conn.output.len() <= high)
                && (conn.phase != Phase::Held || conn.input.len() <= gated)
        })
    }

    /// Says that output was taken from [`writing`](Self::writing), and the queue consumed by as
    /// much.
    pub fn wrote(&mut self, key: ConnKey, now: Instant) -> AfterFlush {
        let (budget, max) = (self.limits.turn.write_bytes_max, self.limits.output_bytes_max);
        let Some(conn) = self.conn(key) else {
            return AfterFlush::Keep;
        };
        // What was left although the budget allowed more is what the peer does not read.
        let taken = conn.offered.saturating_sub(conn.output.len());
        let stuck = if taken < budget { conn.output.len() } else { 0 };
        let conn = if conn.stream.is_some() && stuck > max {
            let (busy, largest) = (conn.busy, conn.largest);
            if stuck - max > self.answers_of(busy).unwrap_or(largest) {
                self.close(key, CloseReason::ReaderTooSlow);
                return AfterFlush::Keep;
            }
            let Some(conn) = self.conn(key) else { return AfterFlush::Keep };
            conn
        } else {
            conn
        };
        if !conn.output.is_empty() {
            if taken > 0 {
                // Progress: the clock of a slow reader starts again.
                conn.clock = Clock::Work;
            }
            self.set_clock(key, now);
            return AfterFlush::Keep;
        }
        conn.largest = 0;
        let finished = conn.phase == Phase::Finishing;
        if finished {
            conn.phase = Phase::Lingering;
        } else if conn.phase == Phase::Open && conn.busy.is_none() && !conn.input.is_empty() {
            self.make_ready(key);
        }
        self.release(key);
        self.set_clock(key, now);
        if finished { AfterFlush::CloseSending } else { AfterFlush::Keep }
    }

    /// Whether this connection has unwritten output; clears the mark.
    pub fn take_dirty(&mut self, key: ConnKey) -> bool {
        self.conn(key).is_some_and(|conn| std::mem::take(&mut conn.dirty))
    }

    /// The next connection with output that was not written when it arose.
    pub fn poll_dirty(&mut self) -> Option<ConnKey> {
        while let Some(key) = self.dirty.pop() {
            if self.take_dirty(key) {
                return Some(key);
            }
        }
        None
    }

    /// The next connection to drop: deregister and close what comes out. Its key is stale already.
    pub fn poll_dead(&mut self) -> Option<T> {
        let key = self.dead.pop()?;
        let conn = self.conns.remove(key.index());
        Some(conn.io)
    }

    /// Ends a connection. What is still unwritten is lost; a running request is cancelled or goes
    /// on without it, as its revision says.
    pub fn close(&mut self, key: ConnKey, why: CloseReason) {
        let Some(conn) = self.conn(key) else { return };
        log::debug!("closing {key:?} of {:?}: {}", conn.peer.address, why.explain());
        conn.phase = Phase::Dead;
        conn.input = ByteQueue::new();
        conn.output = ByteQueue::new();
        let busy = conn.busy.take();
        self.dead.push(key);
        self.tally.close(why);
        if let Some(id) = busy {
            let session = self.exchanges.find(id).and_then(|exchange| exchange.session);
            match self.exchanges.disconnect(id) {
                Some(Fate::Closed) => {
                    self.leave_session(id, session);
                    self.left.push((id, session));
                }
                Some(Fate::Cancelled) => {
                    self.subscriptions.remove(id);
                }
                Some(Fate::WorksOn) | None => {}
            }
        }
    }

    /// When [`run`](Self::run) must be called at the latest; none while nothing is timed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Whether work is left that no input and no deadline will announce: call
    /// [`run`](Self::run) again without waiting.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let waiting = !self.ready.is_empty() || !self.left.is_empty();
        waiting || self.sessions.has_ended() || self.mailbox.len() > 0
    }

    /// Begins to end: idle connections are closed, running calls may finish within the grace
    /// period, new connections and requests are refused.
    pub fn shut_down(&mut self, now: Instant) {
        if self.health == Health::Draining {
            return;
        }
        self.health = Health::Draining;
        let at = now + self.timeouts.grace;
        self.shutdown_at = Some(at);
        self.timers.arm(at, Due::Grace);
        for key in self.keys() {
            let Some(conn) = self.conn(key) else { continue };
            let (busy, phase) = (conn.busy, conn.phase);
            if busy.is_some_and(|id| self.end_stream(id, now)) {
                continue;
            }
            let Some(conn) = self.conn(key) else { continue };
            match (busy, phase) {
                (_, Phase::Held) => self.refuse_held(key, serve::going_away(), now),
                (None, _) if conn.output.is_empty() => self.close(key, CloseReason::Shutdown),
                (None, Phase::Open) => conn.phase = Phase::Finishing,
                _ => {}
            }
        }
    }

    /// Cuts everything off at once.
    pub fn abort(&mut self) {
        for key in self.keys() {
            self.close(key, CloseReason::Shutdown);
        }
    }

    /// Whether a shutdown has come to its end: nothing is owed to anybody.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.health == Health::Draining && self.conns.len() == self.dead.len()
    }

    /// Whether the server is going away.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.health == Health::Draining
    }

    pub(crate) fn mailbox(&self) -> &Mailbox<Mail> {
        &self.mailbox
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn keys(&self) -> Vec<ConnKey> {
        self.conns
            .iter()
            .filter(|(_, conn)| conn.phase != Phase::Dead)
            .map(|(index, conn)| ConnKey::new(index, conn.generation))
            .collect()
    }

    fn make_ready(&mut self, key: ConnKey) {
        if let Some(conn) = self.conn(key)
            && !std::mem::replace(&mut conn.queued, true)
        {
            self.ready.push(key);
        }
    }

    fn make_dirty(&mut self, key: ConnKey) {
        if let Some(conn) = self.conn(key)
            && !std::mem::replace(&mut conn.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    /// Takes the memory of a connection that does not need it for now.
    pub(crate) fn release(&mut self, key: ConnKey) {
        let Some(conn) =
            self.conns.get_mut(key.index()).filter(|conn| conn.generation == key.generation())
        else {
            return;
        };
        self.pool.collect(&mut conn.input);
        self.pool.collect(&mut conn.output);
    }
}

impl<T> fmt::Debug for Engine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("connections", &self.conns.len())
            .field("exchanges", &self.exchanges.len())
            .field("sessions", &self.sessions.len())
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}
