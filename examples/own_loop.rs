//! A server in a loop of one's own: the engine decides, and everything about sockets and time is
//! here. It serves what `Server` serves, in the plainest way there is; signals end it at once.
//!
//! `cargo run --example own_loop`, then the line it prints.

mod support;

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use waterwheel::{
    AfterFlush, CallToolResult, CloseReason, ConnKey, Engine, Server, Tool, ToolCall,
};

const LISTENER: Token = Token(usize::MAX);
const MAIL: Token = Token(usize::MAX - 1);

/// What the engine keeps for us beside each connection.
struct Socket {
    stream: TcpStream,
    token: Token,
}

struct Loop {
    poll: Poll,
    listener: TcpListener,
    keys: HashMap<Token, ConnKey>,
    connections: usize,
}

fn main() -> support::Outcome {
    env_logger::init();
    let options = support::Options::from_args("own_loop", "127.0.0.1:8080");
    let mut engine = Server::builder("own-loop", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("hello").description("Says hello"), |_: &mut ToolCall| {
            Ok(CallToolResult::text("hello"))
        })
        .build_engine::<Socket>()?;
    let mut shell = Loop::new(&options.bind)?;
    let waker = Arc::new(Waker::new(shell.poll.registry(), MAIL)?);
    engine.wake_with(move || waker.wake().unwrap_or_else(|error| eprintln!("no wake-up: {error}")));
    engine.start(clock());
    let url = format!("http://{}/mcp", shell.listener.local_addr()?);
    println!("listening on {url}");
    println!("try: curl -i {url} {TRY}");
    let mut events = Events::with_capacity(256);
    loop {
        shell.turn(&mut engine, &mut events)?;
    }
}

/// What can be asked first.
const TRY: &str = "-H 'Content-Type: application/json' -H 'MCP-Protocol-Version: 2026-07-28' \
    -H 'Mcp-Method: server/discover' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\
    \"method\":\"server/discover\",\"params\":{\"_meta\":{\
    \"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
    \"io.modelcontextprotocol/clientCapabilities\":{}}}}'";

/// The one place that reads the clock: the engine is told the time.
fn clock() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "whoever drives an engine reads the clock")]
    Instant::now()
}

/// Seconds since 1970.
fn calendar() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "whoever drives an engine reads the clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Loop {
    fn new(address: &str) -> Result<Self, support::Failure> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address.parse()?)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { poll, listener, keys: HashMap::new(), connections: 0 })
    }

    /// Waits for something to do and does it.
    fn turn(&mut self, engine: &mut Engine<Socket>, events: &mut Events) -> io::Result<()> {
        let now = clock();
        let due = engine.next_deadline().map(|at| at.saturating_duration_since(now));
        let patience = if engine.has_work() { Some(Default::default()) } else { due };
        match self.poll.poll(events, patience) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let now = clock();
        engine.set_calendar(calendar());
        for event in events.iter() {
            match event.token() {
                LISTENER => self.accept(engine, now)?,
                MAIL => {}
                token => {
                    if let Some(key) = self.keys.get(&token).copied() {
                        read(engine, key, now);
                        write(engine, key, now);
                    }
                }
            }
        }
        engine.run(now);
        while let Some(key) = engine.poll_dirty() {
            write(engine, key, now);
        }
        while let Some(mut dead) = engine.poll_dead() {
            self.keys.remove(&dead.token);
            self.poll.registry().deregister(&mut dead.stream)?;
        }
        Ok(())
    }

    fn accept(&mut self, engine: &mut Engine<Socket>, now: Instant) -> io::Result<()> {
        loop {
            let (mut stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let token = Token(self.connections);
            self.connections += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, token, interest)?;
            // A full engine gives the socket back, and dropping it closes it.
            if let Ok(key) = engine.connect(Socket { stream, token }, Some(peer), now) {
                self.keys.insert(token, key);
            }
        }
    }
}

/// Reads all there is; mio tells of what comes later only if nothing was left.
fn read(engine: &mut Engine<Socket>, key: ConnKey, now: Instant) {
    loop {
        let Some((socket, input)) = engine.reading(key) else { return };
        match socket.stream.read(input.space(16 * 1024)) {
            Ok(0) => return engine.receive_end(key),
            Ok(count) => {
                input.filled(count);
                engine.receive(key, now);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => return engine.close(key, CloseReason::TransportFailed),
        }
    }
}

/// Writes what the socket takes; the rest waits until it is writable again.
fn write(engine: &mut Engine<Socket>, key: ConnKey, now: Instant) {
    let Some((socket, output)) = engine.writing(key) else { return };
    while !output.is_empty() {
        match socket.stream.write(output.data()) {
            Ok(count) => output.consume(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return engine.close(key, CloseReason::TransportFailed),
        }
    }
    if engine.wrote(key, now) == AfterFlush::CloseSending
        && let Some(conn) = engine.conn(key)
        && conn.io.stream.shutdown(Shutdown::Write).is_err()
    {
        engine.close(key, CloseReason::TransportFailed);
    }
}
