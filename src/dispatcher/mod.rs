//! The shell: sockets, the reactor and the clock. It decides nothing; it carries bytes between
//! transports and an [`Engine`] and tells it the time.
//!
//! One turn has six phases: sleep until something is due; poll; visit connections that have input,
//! and write their answers a batch of visits at a time; let the engine run its timers and mail;
//! flush what that produced; reap what was closed. Nothing is freed and no socket is closed before
//! the last phase, so no phase can meet the remains of another.

mod drain;
mod listener;
#[cfg(feature = "tls")]
mod tls;
mod transport;

use std::collections::HashSet;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_mio::v1_0::Signals;

pub(crate) use listener::{BindPolicy, bind};
#[cfg(feature = "tls")]
pub use tls::Tls;
#[cfg(feature = "tls")]
pub(crate) use tls::TlsSource;
pub(crate) use transport::Transport;

use crate::buf::ByteQueue;
use crate::engine::{AfterFlush, CloseReason, Engine};
use crate::key::ConnKey;
use drain::Drain;
use listener::Listener;

/// Runs an [`Engine`] on real sockets.
///
/// Single-threaded; it is driven by calling [`turn`](Self::turn) in a loop. Most programs let
/// [`Server::run`](crate::Server::run) do that.
pub(crate) struct Dispatcher {
    poll: Poll,
    events: Events,
    listeners: Vec<Listener>,
    signals: Option<Signals>,
    /// Connections with input or output left when their budget ran out; no event will come for
    /// them.
    backlog: Vec<ConnKey>,
    /// Connections that were visited and may have output: written together, see [`FLUSH_BATCH`].
    visited: Vec<ConnKey>,
    /// Connections whose input waits until they have read their answers.
    parked: HashSet<ConnKey>,
    #[cfg(feature = "tls")]
    tls: tls::Handshakes,
    /// The instant of the current turn.
    now: Instant,
    /// When the calendar is looked at again.
    calendar_at: Instant,
}

/// What waits for an event, as the reactor names it.
const WAKER: Token = Token(usize::MAX);
const SIGNALS: Token = Token(usize::MAX - 1);
const FIRST_LISTENER: usize = usize::MAX - 64;

/// As many as one poll can report; what is left is reported by the next.
const EVENTS: usize = 1024;
/// So many connections are served before their answers are written. Writing each at once wakes the
/// client for every answer; writing all at the end of a long turn lets the first ones wait. With 64
/// connections on loopback a batch took a seventh off the CPU time of a call.
const FLUSH_BATCH: usize = 32;
/// The least worth asking a socket for: nearly every request fits.
const READ_BYTES_MIN: usize = 4 * 1024;

impl Dispatcher {
    /// A dispatcher without listeners.
    ///
    /// # Errors
    ///
    /// When the operating system gives no reactor.
    pub(crate) fn new<T>(engine: &Engine<T>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        engine.wake_with(move || {
            if let Err(error) = waker.wake() {
                log::error!("the loop could not be woken: {error}");
            }
        });
        let now = read_clock();
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            listeners: Vec::new(),
            signals: None,
            backlog: Vec::new(),
            visited: Vec::with_capacity(FLUSH_BATCH),
            parked: HashSet::new(),
            #[cfg(feature = "tls")]
            tls: tls::Handshakes::default(),
            now,
            calendar_at: now,
        })
    }

    /// Serves what a bound socket accepts.
    ///
    /// # Errors
    ///
    /// When the socket cannot be registered with the reactor.
    pub(crate) fn serve(&mut self, socket: std::net::TcpListener) -> io::Result<SocketAddr> {
        let address = socket.local_addr()?;
        let mut listener = Listener::new(socket);
        let token = Token(FIRST_LISTENER + self.listeners.len());
        self.poll.registry().register(listener.source(), token, Interest::READABLE)?;
        self.listeners.push(listener);
        Ok(address)
    }

    /// Ends the loop on SIGINT and SIGTERM: the first one gracefully, the second at once.
    ///
    /// # Errors
    ///
    /// When the handlers cannot be installed.
    pub(crate) fn handle_signals(&mut self) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        self.poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        self.signals = Some(signals);
        Ok(())
    }

    /// The instant of the last turn.
    #[must_use]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Sleeps until something is due, but no longer than `limit`, and does it.
    ///
    /// # Errors
    ///
    /// When the reactor fails, which nothing can be served without. Errors of one connection close
    /// that connection and are not reported here.
    pub(crate) fn turn(
        &mut self,
        engine: &mut Engine<Transport>,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        self.sleep(engine, limit)?;
        self.now = read_clock();
        engine.mailbox().wake_up();
        if self.now >= self.calendar_at {
            self.calendar_at = self.now + Duration::from_secs(1) - read_calendar(engine);
        }
        #[cfg(feature = "tls")]
        self.visit_handshakes(engine);
        self.visit_backlog(engine);
        self.handle_events(engine)?;
        engine.run(self.now);
        while let Some(key) = engine.poll_dirty() {
            self.flush(engine, key);
        }
        self.reap(engine);
        if engine.measures_turns() {
            let now = read_clock();
            engine.record_turn(now.saturating_duration_since(self.now), now);
        }
        Ok(())
    }

    fn sleep(&mut self, engine: &Engine<Transport>, limit: Option<Duration>) -> io::Result<()> {
        let awake = self.has_backlog()
            || self.listeners.iter().any(Listener::has_more)
            || engine.has_work()
            || !engine.mailbox().fall_asleep();
        let timeout = if awake { Some(Duration::ZERO) } else { self.patience(engine, limit) };
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.events.clear();
                Ok(())
            }
            other => other,
        }
    }

    fn has_backlog(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.has_waiting() {
            return true;
        }
        !self.backlog.is_empty()
    }

    fn patience(&self, engine: &Engine<Transport>, limit: Option<Duration>) -> Option<Duration> {
        let paused = self.listeners.iter().filter_map(Listener::resumes_at);
        let due = engine.next_deadline().into_iter().chain(paused).min();
        let until_due = due.map(|due| due.saturating_duration_since(self.now));
        until_due.into_iter().chain(limit).min()
    }

    fn visit_backlog(&mut self, engine: &mut Engine<Transport>) {
        for key in std::mem::take(&mut self.backlog) {
            self.flush(engine, key);
            self.read(engine, key, Drain::UntilBlocked);
        }
    }

    fn handle_events(&mut self, engine: &mut Engine<Transport>) -> io::Result<()> {
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            match event.token() {
                WAKER => {}
                SIGNALS => self.on_signal(engine),
                Token(token) if token >= FIRST_LISTENER => {
                    if let Some(listener) = self.listeners.get_mut(token - FIRST_LISTENER) {
                        listener.announce();
                    }
                }
                Token(token) => self.visit(engine, ConnKey::from_token(token as u64), event),
            }
            if self.visited.len() >= FLUSH_BATCH {
                self.flush_visited(engine);
            }
        }
        self.events = events;
        self.flush_visited(engine);
        self.accept(engine)
    }

    /// Writes what came of the last visits.
    fn flush_visited(&mut self, engine: &mut Engine<Transport>) {
        let mut visited = std::mem::take(&mut self.visited);
        for key in visited.drain(..) {
            self.flush_if_waiting(engine, key);
        }
        self.visited = visited;
    }

    fn visit(&mut self, engine: &mut Engine<Transport>, key: ConnKey, event: &Event) {
        if event.is_writable() {
            self.flush_if_waiting(engine, key);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            let at_end = event.is_read_closed() || event.is_error();
            self.read(engine, key, Drain::of_event(at_end));
        }
    }

    /// Reads what is there within the turn's budget and lets the engine serve it, then writes what
    /// came of it.
    fn read(&mut self, engine: &mut Engine<Transport>, key: ConnKey, drain: Drain) {
        let mut budget = engine.limits().turn.read_bytes_max;
        loop {
            if !engine.wants_input(key) {
                self.parked.insert(key);
                return;
            }
            let hint = engine.read_hint(key).max(READ_BYTES_MIN);
            let Some((transport, input)) = engine.reading(key) else {
                return;
            };
            #[cfg(feature = "tls")]
            if transport.is_handshaking() {
                if self.shake_hands(engine, key) {
                    continue;
                }
                return engine.release(key);
            }
            let space = input.space(hint);
            let asked = space.len();
            match transport.read(space) {
                Ok(0) => {
                    // It may only have closed its sending side, and what is ready is owed to it.
                    self.flush_if_waiting(engine, key);
                    return engine.receive_end(key);
                }
                Ok(count) => {
                    input.filled(count);
                    let drained = count < asked && transport.is_drained();
                    engine.receive(key, self.now);
                    self.visited.push(key);
                    if drained && drain == Drain::UntilShort {
                        return;
                    }
                    if count >= budget {
                        return self.backlog.push(key);
                    }
                    budget -= count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return engine.release(key);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    log::debug!("reading from {key:?} failed: {error}");
                    return engine.close(key, CloseReason::TransportFailed);
                }
            }
        }
    }

    fn flush_if_waiting(&mut self, engine: &mut Engine<Transport>, key: ConnKey) {
        let waits = |(transport, output): (&mut Transport, &mut ByteQueue)| {
            !output.is_empty() || transport.has_unsent()
        };
        if engine.writing(key).is_some_and(waits) {
            engine.take_dirty(key);
            self.flush(engine, key);
        }
    }

    /// Writes what waits for one connection within the turn's budget.
    fn flush(&mut self, engine: &mut Engine<Transport>, key: ConnKey) {
        let mut budget = engine.limits().turn.write_bytes_max;
        let Some((transport, output)) = engine.writing(key) else {
            return;
        };
        if output.is_empty()
            && transport.has_unsent()
            && let Err(error) = transport.flush()
        {
            log::debug!("writing to {key:?} failed: {error}");
            return engine.close(key, CloseReason::TransportFailed);
        }
        while !output.is_empty() && budget > 0 {
            let piece = &output.data()[..output.len().min(budget)];
            match transport.write(piece) {
                Ok(count) => {
                    output.consume(count);
                    budget -= count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    log::debug!("writing to {key:?} failed: {error}");
                    return engine.close(key, CloseReason::TransportFailed);
                }
            }
        }
        let (drained, out_of_budget) = (output.is_empty(), budget == 0);
        if engine.wrote(key, self.now) == AfterFlush::CloseSending {
            close_sending(engine, key);
        }
        if out_of_budget || (drained && self.parked.remove(&key)) {
            self.backlog.push(key);
        }
    }

    fn accept(&mut self, engine: &mut Engine<Transport>) -> io::Result<()> {
        let budget = engine.limits().turn.accepts_max;
        let pause = engine.timeouts().accept_pause;
        let mut listeners = std::mem::take(&mut self.listeners);
        for listener in &mut listeners {
            for (stream, peer) in listener.accept(budget, self.now, pause) {
                let Some(transport) = self.transport(stream) else { continue };
                let Ok(key) = engine.connect(transport, Some(peer), self.now) else {
                    log::warn!("no room for another connection; closed the one from {peer}");
                    continue;
                };
                let Some(conn) = engine.conn(key) else {
                    continue;
                };
                let is_handshaking = conn.io.is_handshaking();
                let token = Token(usize::try_from(key.to_token()).unwrap_or(usize::MAX));
                let interest = Interest::READABLE | Interest::WRITABLE;
                if let Err(error) = self.poll.registry().register(&mut conn.io, token, interest) {
                    log::error!("a connection could not be registered: {error}");
                    engine.close(key, CloseReason::TransportFailed);
                } else if is_handshaking {
                    engine.begin_handshake(key, self.now);
                }
            }
        }
        self.listeners = listeners;
        Ok(())
    }

    /// What an accepted connection is spoken to by.
    fn transport(&self, stream: TcpStream) -> Option<Transport> {
        #[cfg(feature = "tls")]
        if let Some(source) = &self.tls.source {
            let transport = Transport::tls(stream, source);
            return transport
                .inspect_err(|error| log::error!("TLS cannot be spoken: {error}"))
                .ok();
        }
        Some(Transport::tcp(stream))
    }

    fn on_signal(&mut self, engine: &mut Engine<Transport>) {
        let Some(signals) = &mut self.signals else {
            return;
        };
        for _ in signals.pending() {
            if engine.is_shutting_down() {
                log::warn!("second signal: closing everything at once");
                engine.abort();
            } else {
                log::info!("shutting down; running calls may finish");
                engine.shut_down(self.now);
            }
        }
    }

    /// Closes the listeners at once, so that another process may take the address.
    pub(crate) fn stop_listening(&mut self) {
        for mut listener in self.listeners.drain(..) {
            if let Err(error) = self.poll.registry().deregister(listener.source()) {
                log::debug!("a listener could not be deregistered: {error}");
            }
        }
    }

    fn reap(&mut self, engine: &mut Engine<Transport>) {
        if engine.is_shutting_down() && !self.listeners.is_empty() {
            self.stop_listening();
        }
        while let Some(mut transport) = engine.poll_dead() {
            if let Err(error) = self.poll.registry().deregister(&mut transport) {
                log::debug!("a connection could not be deregistered: {error}");
            }
        }
        if !self.parked.is_empty() {
            self.parked.retain(|key| engine.conn(*key).is_some());
        }
    }
}

fn close_sending(engine: &mut Engine<Transport>, key: ConnKey) {
    let Some(conn) = engine.conn(key) else { return };
    if let Err(error) = conn.io.close_sending() {
        log::debug!("closing our side of {key:?} failed: {error}");
        engine.close(key, CloseReason::TransportFailed);
    }
}

fn read_clock() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the dispatcher is who reads the clock")]
    Instant::now()
}

/// Tells the engine the calendar time; how far into the current second it is.
fn read_calendar(engine: &mut Engine<Transport>) -> Duration {
    let since_epoch = since_epoch();
    engine.set_calendar(since_epoch.as_secs());
    Duration::from_nanos(u64::from(since_epoch.subsec_nanos()))
}

/// The calendar time, since 1970.
fn since_epoch() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the dispatcher is who reads the clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("listeners", &self.listeners.len())
            .field("backlog", &self.backlog.len())
            .finish_non_exhaustive()
    }
}
