//! The harness: an engine, a virtual clock and the peers of its connections, without sockets.
//!
//! A [`Scene`] plays the shell's part by the contract of `Engine`. When it goes out of scope it
//! hangs everybody up and checks that nothing is left: no connection, no exchange, and no byte that
//! the test has not looked at.

mod check;
mod fixture;
mod pipe;
mod request;
mod response;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(crate) use check::assert_response;
pub(crate) use fixture::{Held, HeldCall, server};
pub(crate) use pipe::FaultyPipe;
pub(crate) use request::{Request, Session, message, notification};
pub(crate) use response::{Block, Response};
use waterwheel::{AfterFlush, CloseReason, ConnKey, Engine, ServerBuilder};

/// More than any scenario needs; an engine that is still busy then never comes to rest.
const STEPS_MAX: usize = 10_000;

/// An engine and everybody who talks to it.
pub(crate) struct Scene {
    pub(crate) engine: Engine<usize>,
    pub(crate) held: Held,
    now: Instant,
    /// Everybody who ever connected.
    peers: Vec<Peer>,
    /// Those whose connection has not been reaped.
    live: Vec<usize>,
    /// Connections that the engine has closed so far.
    closed: usize,
}

/// One connection, as its test names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(usize);

/// The far end of a connection.
struct Peer {
    key: ConnKey,
    received: Vec<u8>,
    /// Sent, but the engine does not want it yet.
    waiting: VecDeque<u8>,
    /// How much it takes of each write: everything, a little, nothing at all.
    reads_max: usize,
    /// How much it takes before it stops reading.
    room: usize,
    /// The engine has closed its sending side.
    half_closed: bool,
    /// The engine has closed the connection; how many it had closed before.
    closed: Option<usize>,
}

impl Scene {
    /// The fixture server as it is.
    pub(crate) fn new() -> Self {
        Self::tuned(|server| server)
    }

    /// The fixture server with other settings.
    pub(crate) fn tuned(tune: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let held = Held::default();
        let builder = tune(server(&held));
        Self::of(builder, held)
    }

    /// Any server.
    pub(crate) fn of(builder: ServerBuilder, held: Held) -> Self {
        let engine = builder.build_engine().expect("the description has no mistake");
        let mut scene =
            Self { engine, held, now: epoch(), peers: Vec::new(), live: Vec::new(), closed: 0 };
        scene.engine.start(scene.now);
        scene
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// A new connection.
    #[track_caller]
    pub(crate) fn connect(&mut self) -> Client {
        self.try_connect().expect("there is room for another connection")
    }

    pub(crate) fn try_connect(&mut self) -> Option<Client> {
        let index = self.peers.len();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 40_000));
        let key = self.engine.connect(index, Some(address), self.now).ok()?;
        self.peers.push(Peer {
            key,
            received: Vec::new(),
            waiting: VecDeque::new(),
            reads_max: usize::MAX,
            room: usize::MAX,
            half_closed: false,
            closed: None,
        });
        self.live.push(index);
        Some(Client(index))
    }

    pub(crate) fn key(&self, client: Client) -> ConnKey {
        self.peers[client.0].key
    }

    /// Sends bytes and lets the engine do all it can do about them.
    pub(crate) fn send(&mut self, client: Client, bytes: impl AsRef<[u8]>) {
        self.peers[client.0].waiting.extend(bytes.as_ref());
        self.settle();
    }

    /// Appends bytes to the input without telling the engine: they coalesce with what follows.
    pub(crate) fn put(&mut self, client: Client, bytes: &[u8]) {
        self.peers[client.0].waiting.extend(bytes);
    }

    /// Sends a request and takes its complete response, the only thing that may have come.
    #[track_caller]
    pub(crate) fn ask(&mut self, client: Client, request: &Request) -> Response {
        self.send(client, request.bytes());
        self.response_to(client, request.is_head())
    }

    /// Asks on a connection of its own.
    #[track_caller]
    pub(crate) fn ask_apart(&mut self, request: &Request) -> Response {
        let client = self.connect();
        let response = self.ask(client, request);
        self.hang_up(client);
        response
    }

    /// The next complete response.
    #[track_caller]
    pub(crate) fn response(&mut self, client: Client) -> Response {
        self.response_to(client, false)
    }

    #[track_caller]
    fn response_to(&mut self, client: Client, is_head: bool) -> Response {
        self.take_response(client, is_head).unwrap_or_else(|| {
            panic!("no complete response in {:?}", String::from_utf8_lossy(self.received(client)))
        })
    }

    /// The next complete response, if there is one.
    #[track_caller]
    pub(crate) fn try_response(&mut self, client: Client) -> Option<Response> {
        self.take_response(client, false)
    }

    #[track_caller]
    fn take_response(&mut self, client: Client, is_head: bool) -> Option<Response> {
        let peer = &mut self.peers[client.0];
        let at_end = peer.half_closed || peer.closed.is_some();
        let (response, taken) = Response::parse(&peer.received, is_head, at_end)?;
        peer.received.drain(..taken);
        Some(response)
    }

    /// The head of a stream that is still open.
    #[track_caller]
    pub(crate) fn stream(&mut self, client: Client) -> Response {
        self.try_stream(client).expect("a stream has begun")
    }

    /// The head of a stream that is still open, if that is here.
    #[track_caller]
    pub(crate) fn try_stream(&mut self, client: Client) -> Option<Response> {
        let peer = &mut self.peers[client.0];
        let (head, taken) = Response::parse_head(&peer.received)?;
        head.check_stream();
        peer.received.drain(..taken);
        Some(head)
    }

    /// What came on an open stream since the last look.
    #[track_caller]
    pub(crate) fn blocks(&mut self, client: Client) -> Vec<Block> {
        let peer = &mut self.peers[client.0];
        let (blocks, taken) = response::parse_chunks(&peer.received);
        peer.received.drain(..taken);
        blocks
    }

    /// Takes the end of a stream.
    #[track_caller]
    pub(crate) fn end_of_stream(&mut self, client: Client) {
        let peer = &mut self.peers[client.0];
        let shown = String::from_utf8_lossy(&peer.received).into_owned();
        assert!(peer.received.starts_with(b"0\r\n\r\n"), "the stream has not ended: {shown:?}");
        peer.received.drain(..5);
    }

    pub(crate) fn received(&self, client: Client) -> &[u8] {
        &self.peers[client.0].received
    }

    /// Takes whatever came.
    pub(crate) fn take_received(&mut self, client: Client) -> Vec<u8> {
        std::mem::take(&mut self.peers[client.0].received)
    }

    /// Opens a classic session.
    #[track_caller]
    pub(crate) fn initialize(&mut self, client: Client, version: &'static str) -> Session {
        self.initialize_with(client, version, |request| request)
    }

    #[track_caller]
    pub(crate) fn initialize_with(
        &mut self,
        client: Client,
        version: &'static str,
        tune: impl FnOnce(Request) -> Request,
    ) -> Session {
        let response = self.ask(client, &tune(Request::initialize(version)));
        assert_response!(response, 200);
        let id = response.field("mcp-session-id").expect("initialize opens a session");
        Session::new(id, version)
    }

    /// The oldest call that a deferred tool of the fixture has been given.
    #[track_caller]
    pub(crate) fn take_call(&self) -> HeldCall {
        self.held.take()
    }

    /// Lets time pass, every deadline on the way included.
    pub(crate) fn advance(&mut self, time: Duration) {
        let target = self.now + time;
        for _ in 0..STEPS_MAX {
            match self.engine.next_deadline().filter(|at| *at <= target) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            self.settle();
        }
        self.now = target;
        self.settle();
    }

    /// Does everything that can be done without time passing.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            let delivered = self.deliver();
            self.engine.run(self.now);
            let written = self.flush();
            self.reap();
            let idle = !delivered && !written && !self.engine.has_work();
            if idle && !self.has_undelivered() {
                return;
            }
        }
        panic!("the engine does not come to rest");
    }

    fn deliver(&mut self) -> bool {
        let mut delivered = false;
        for index in &self.live {
            let peer = &mut self.peers[*index];
            if peer.waiting.is_empty() || !self.engine.wants_input(peer.key) {
                continue;
            }
            if let Some((_, input)) = self.engine.reading(peer.key) {
                input.push(peer.waiting.make_contiguous());
                peer.waiting.clear();
                self.engine.receive(peer.key, self.now);
                delivered = true;
            }
        }
        delivered
    }

    /// Whether a peer's bytes wait that the engine has come to want.
    fn has_undelivered(&mut self) -> bool {
        let Self { engine, peers, live, .. } = self;
        live.iter().any(|index| {
            let peer = &peers[*index];
            !peer.waiting.is_empty() && engine.wants_input(peer.key)
        })
    }

    /// Bytes a peer has sent that the engine does not want yet.
    pub(crate) fn undelivered(&self, client: Client) -> usize {
        self.peers[client.0].waiting.len()
    }

    /// Writes for every connection with new output and for every peer that takes more.
    fn flush(&mut self) -> bool {
        let dirty: Vec<ConnKey> = std::iter::from_fn(|| self.engine.poll_dirty()).collect();
        let mut written = false;
        for index in &self.live {
            let peer = &mut self.peers[*index];
            let Some((_, output)) = self.engine.writing(peer.key) else { continue };
            let count = output.len().min(peer.reads_max).min(peer.room);
            if count == 0 && !dirty.contains(&peer.key) {
                continue;
            }
            peer.received.extend_from_slice(&output.data()[..count]);
            output.consume(count);
            peer.room -= if peer.room == usize::MAX { 0 } else { count };
            written |= count > 0;
            peer.half_closed |= self.engine.wrote(peer.key, self.now) == AfterFlush::CloseSending;
        }
        written
    }

    fn reap(&mut self) {
        let dead: Vec<usize> = std::iter::from_fn(|| self.engine.poll_dead()).collect();
        // The last to be closed is given back first.
        for index in dead.into_iter().rev() {
            self.peers[index].closed = Some(self.closed);
            self.closed += 1;
            self.peers[index].waiting.clear();
            self.live.retain(|live| *live != index);
        }
    }

    /// From now on the peer takes at most so much of each write.
    pub(crate) fn read_at_most(&mut self, client: Client, bytes_max: usize) {
        self.peers[client.0].reads_max = bytes_max;
    }

    /// The peer takes so many more bytes and then stops reading.
    pub(crate) fn read_only(&mut self, client: Client, bytes: usize) {
        self.peers[client.0].room = bytes;
    }

    /// From now on the peer takes whatever comes.
    pub(crate) fn read_all(&mut self, client: Client) {
        self.peers[client.0].reads_max = usize::MAX;
        self.peers[client.0].room = usize::MAX;
    }

    /// The peer closes its side.
    pub(crate) fn hang_up(&mut self, client: Client) {
        self.engine.receive_end(self.key(client));
        self.settle();
    }

    /// The transport fails.
    pub(crate) fn cut(&mut self, client: Client) {
        self.engine.close(self.key(client), CloseReason::TransportFailed);
        self.settle();
    }

    /// Whether another request would be read from this connection.
    pub(crate) fn is_open(&self, client: Client) -> bool {
        let peer = &self.peers[client.0];
        peer.closed.is_none() && !peer.half_closed
    }

    pub(crate) fn is_half_closed(&self, client: Client) -> bool {
        self.peers[client.0].half_closed
    }

    pub(crate) fn is_closed(&self, client: Client) -> bool {
        self.peers[client.0].closed.is_some()
    }

    /// How many connections had been closed before this one, if it is closed.
    pub(crate) fn closed_after(&self, client: Client) -> Option<usize> {
        self.peers[client.0].closed
    }

    /// Bytes the peer has sent that are still in the engine.
    pub(crate) fn buffered_input(&mut self, client: Client) -> usize {
        let key = self.key(client);
        self.engine.reading(key).map_or(0, |(_, input)| input.len())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.held.clear();
        for index in self.live.clone() {
            self.hang_up(Client(index));
        }
        self.settle();
        assert_eq!(self.engine.connections(), 0, "every connection is gone");
        assert_eq!(self.engine.exchanges(), 0, "no exchange outlives its handler");
        assert_eq!(self.engine.subscriptions(), 0, "no subscription outlives its stream");
        // Longer than any record is kept.
        self.advance(seconds(3600));
        let (streams, events) = (self.engine.retained_streams(), self.engine.retained_events());
        assert_eq!((streams, events, self.engine.retained_bytes()), (0, 0, 0));
        for peer in &self.peers {
            let left = String::from_utf8_lossy(&peer.received);
            assert!(left.is_empty(), "nobody looked at {left:?}");
        }
    }
}

/// The one instant the tests count from.
fn epoch() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "virtual time needs one instant to count from")]
    Instant::now()
}

/// So many seconds.
pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
