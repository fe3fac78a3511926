//! A load generator on one thread: keep-alive connections, one request outstanding on each.
//!
//! It must cost less than any server it measures, so it takes one read, one write and one look at
//! the clock for an answer, and looks at no more of it than tells that it is whole and good.

pub(crate) mod probe;
mod response;
pub(crate) mod work;

use std::io::{self, Read, Write};
use std::net::{self, SocketAddr};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use response::{Reader, Verdict};

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// No request starts later than this after the run's start.
    Elapsed(Duration),
    /// No more requests than this start.
    Answered(u64),
}

/// What a run saw.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Requests answered as they should be.
    pub(crate) requests: u64,
    /// Requests that were not.
    pub(crate) errors: u64,
    /// From the first request's start to the last answer.
    pub(crate) elapsed: Duration,
    /// Nanoseconds from a request's first write to its answer's last byte.
    pub(crate) latencies: Histogram<u64>,
    /// What the first connection that failed died of.
    pub(crate) first_error: Option<String>,
}

/// Connections to one server, each with the request that it repeats.
#[derive(Debug)]
pub(crate) struct Load {
    poll: Poll,
    events: Events,
    conns: Vec<Conn>,
    scratch: Vec<u8>,
    /// Whether it looks for answers without end.
    awake: bool,
}

/// Longer than any answer takes; a server silent for so long has lost the requests.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Large enough that a small answer is a short read, and a large one takes few.
const SCRATCH_BYTES: usize = 256 * 1024;

impl Load {
    /// Connects once for each of these requests.
    pub(crate) fn open(target: SocketAddr, requests: Vec<Vec<u8>>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut conns = Vec::with_capacity(requests.len());
        for (key, request) in requests.into_iter().enumerate() {
            let mut conn = Conn::open(target, request)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut conn.socket, Token(key), interest)?;
            conns.push(conn);
        }
        let events = Events::with_capacity(1024);
        Ok(Self { poll, events, conns, scratch: vec![0; SCRATCH_BYTES], awake: false })
    }

    /// Looks for answers without end from now on, rather than sleep until a server wakes it: that
    /// takes the server CPU time, the more often the faster the load is in comparison.
    pub(crate) fn stay_awake(&mut self) {
        self.awake = true;
    }

    /// Repeats the requests and returns when the last one is answered.
    ///
    /// A connection that fails is an error and stays closed: one more error in each later run.
    /// Requests that a silent server keeps are errors too.
    pub(crate) fn run(&mut self, until: Until) -> io::Result<Outcome> {
        let now = Instant::now();
        let mut tally = Tally::new(until, now);
        for conn in &mut self.conns {
            conn.start(&mut tally, now);
        }
        let patience = if self.awake { Duration::ZERO } else { SILENCE_MAX };
        let mut silent_since = None;
        while tally.outstanding > 0 {
            match self.poll.poll(&mut self.events, Some(patience)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            if self.events.is_empty() {
                let since = *silent_since.get_or_insert_with(Instant::now);
                if !self.awake || since.elapsed() > SILENCE_MAX {
                    tally.give_up();
                    break;
                }
                continue;
            }
            silent_since = None;
            for event in &self.events {
                self.conns[event.token().0].advance(&mut tally, &mut self.scratch);
            }
        }
        Ok(tally.finish())
    }
}

/// One connection of the load.
#[derive(Debug)]
struct Conn {
    socket: TcpStream,
    request: Vec<u8>,
    sent: usize,
    reader: Reader,
    phase: Phase,
}

/// What a connection is about.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    Waiting { since: Instant },
    Closed,
}

impl Conn {
    /// Connects, and blocks for as long as that takes.
    fn open(target: SocketAddr, request: Vec<u8>) -> io::Result<Self> {
        let socket = net::TcpStream::connect(target)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let socket = TcpStream::from_std(socket);
        Ok(Self { socket, request, sent: 0, reader: Reader::judging(), phase: Phase::Idle })
    }

    /// Sends the request once more, if the run may still start one.
    fn start(&mut self, tally: &mut Tally, now: Instant) {
        if !tally.starts(now) {
            return;
        }
        if matches!(self.phase, Phase::Closed) {
            tally.fails(&io::ErrorKind::NotConnected.into());
            return;
        }
        self.phase = Phase::Waiting { since: now };
        self.sent = 0;
        if let Err(error) = self.flush() {
            self.close(tally, &error);
        }
    }

    /// Goes on with an unanswered request, and after its answer with the next.
    fn advance(&mut self, tally: &mut Tally, scratch: &mut [u8]) {
        let Phase::Waiting { since } = self.phase else {
            return;
        };
        match self.flush().and_then(|()| self.receive(scratch)) {
            Ok(None) => {}
            Ok(Some(verdict)) => {
                let now = Instant::now();
                self.phase = Phase::Idle;
                tally.ends(verdict, now - since);
                self.start(tally, now);
            }
            Err(error) => self.close(tally, &error),
        }
    }

    /// Writes what is left of the request.
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.request.len() {
            match self.socket.write(&self.request[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until a short read tells that the socket is empty, or the answer is whole.
    fn receive(&mut self, scratch: &mut [u8]) -> io::Result<Option<Verdict>> {
        loop {
            let read = match self.socket.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let verdict = self.reader.receive(&scratch[..read])?;
            if verdict.is_some() || read < scratch.len() {
                return Ok(verdict);
            }
        }
    }

    /// Gives the connection up, and its request with it.
    fn close(&mut self, tally: &mut Tally, why: &io::Error) {
        self.phase = Phase::Closed;
        tally.fails(why);
    }
}

/// Longer latencies count as this one.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// The account of a run.
struct Tally {
    started: Instant,
    until: Until,
    issued: u64,
    outstanding: u64,
    outcome: Outcome,
}

impl Tally {
    /// The account of a run that starts now.
    fn new(until: Until, now: Instant) -> Self {
        let outcome = Outcome {
            requests: 0,
            errors: 0,
            elapsed: Duration::ZERO,
            latencies: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
                .expect("the bounds are apart"),
            first_error: None,
        };
        Self { started: now, until, issued: 0, outstanding: 0, outcome }
    }

    /// Counts a request, unless the run is over.
    fn starts(&mut self, now: Instant) -> bool {
        let is_over = match self.until {
            Until::Elapsed(limit) => now - self.started >= limit,
            Until::Answered(limit) => self.issued >= limit,
        };
        if !is_over {
            self.issued += 1;
            self.outstanding += 1;
        }
        !is_over
    }

    /// Counts an answer.
    fn ends(&mut self, verdict: Verdict, latency: Duration) {
        self.outstanding -= 1;
        match verdict {
            Verdict::Good => self.outcome.requests += 1,
            Verdict::Bad => self.outcome.errors += 1,
        }
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.outcome.latencies.saturating_record(nanoseconds);
    }

    /// Counts a request whose connection failed.
    fn fails(&mut self, why: &io::Error) {
        self.outstanding -= 1;
        self.outcome.errors += 1;
        self.outcome.first_error.get_or_insert_with(|| why.to_string());
    }

    /// Counts what a silent server keeps.
    fn give_up(&mut self) {
        self.outcome.errors += self.outstanding;
        self.outcome.first_error.get_or_insert_with(|| "no answer".to_owned());
    }

    /// Stops the clock.
    fn finish(mut self) -> Outcome {
        self.outcome.elapsed = self.started.elapsed();
        self.outcome
    }
}
