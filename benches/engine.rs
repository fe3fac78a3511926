//! What one request costs in time, in memory and on one thread: no sockets and no kernel.
//!
//! The answers are dropped unread, as fast as a peer could read them at best.

#[allow(dead_code, reason = "the benchmark of counts uses the rest")]
mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use support::{Bench, builder, request_of, text_schema};
use waterwheel::{
    CallToolResult, ConnKey, Limits, Progress, Responder, ServerBuilder, Streaming, Tool, ToolCall,
};

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    targets = requests, closing_refusal, timers, fan_out
}
criterion_main!(benches);

/// Every way a request can go on a connection that stays, alone and beside idle connections.
fn requests(c: &mut Criterion) {
    const WORKS: [&str; 6] = [
        "classic echo",
        "modern echo",
        "deferred echo",
        "streamed events",
        "unknown session",
        "unknown path",
    ];
    let mut group = c.benchmark_group("request");
    group.throughput(Throughput::Elements(1));
    for name in WORKS {
        for idle in [0, 1_000, 10_000] {
            let mut bench = Bench::with(streaming(), name).beside(idle);
            group.bench_function(BenchmarkId::new(name, idle), |b| b.iter(|| bench.once()));
        }
    }
    group.finish();
}

/// The usual server and a tool whose answer is a stream of three events and the result.
fn streaming() -> ServerBuilder {
    let tool = Tool::new("events").input_schema(text_schema()).streaming(Streaming::Allowed);
    builder(true).tool(tool, |call: &mut ToolCall| {
        for done in 1..=3 {
            call.progress(&Progress::new(f64::from(done)).total(3.0));
        }
        Ok(CallToolResult::text("done"))
    })
}

/// A web page's request is refused with the end of its connection, so that a new connection is part
/// of it. Time goes on here: the timer entries of closed connections would only pile up otherwise,
/// and connections beside it would time out.
fn closing_refusal(c: &mut Criterion) {
    const STEP: Duration = Duration::from_millis(100);
    let mut bench = Bench::new("foreign origin");
    let mut group = c.benchmark_group("request");
    group.throughput(Throughput::Elements(1));
    group.bench_function("foreign origin, and a new connection", |b| {
        b.iter(|| {
            bench.now += STEP;
            bench.once()
        });
    });
    group.finish();
}

/// Requests on many connections in turn, while time stands still and while every request comes with
/// a timer entry that fires early and is armed again.
fn timers(c: &mut Criterion) {
    let mut group = c.benchmark_group("timers");
    group.throughput(Throughput::Elements(1));
    for count in [10_000_u32, 100_000] {
        for (name, round) in [("still", Duration::ZERO), ("re-armed", ROUND)] {
            let mut turns = Turns::new(count, round);
            group.bench_function(BenchmarkId::new(name, count), |b| b.iter(|| turns.next()));
        }
    }
    group.finish();
}

/// Shorter than the idle timeout, so that no connection is closed, and longer than the write
/// timeout, so that each has one entry, which fires once a round.
const ROUND: Duration = Duration::from_secs(100);

/// Connections that ask one after the other.
struct Turns {
    bench: Bench,
    keys: Vec<ConnKey>,
    at: usize,
    step: Duration,
}

impl Turns {
    /// So many connections, each of which asks once in `round`. They came as they ask, and each has
    /// asked once.
    fn new(count: u32, round: Duration) -> Self {
        let step = round / count;
        let count = usize::try_from(count).expect("a number of connections");
        let limits = Limits { conns_max: count, ..Limits::default() };
        let mut bench = Bench::with(builder(true).limits(limits), "classic echo");
        let mut keys = vec![bench.key];
        while keys.len() < count {
            bench.now += step;
            keys.push(bench.connect());
        }
        let mut turns = Self { bench, keys, at: 0, step };
        for _ in 0..count {
            turns.next();
        }
        turns
    }

    fn next(&mut self) {
        self.bench.now += self.step;
        self.bench.ask(self.keys[self.at]);
        self.at = (self.at + 1) % self.keys.len();
    }
}

/// One event on each of many open streams: the whole of it, and the loop's part alone.
fn fan_out(c: &mut Criterion) {
    const STREAMS: u32 = 1_000;
    let mut group = c.benchmark_group("fan-out");
    group.throughput(Throughput::Elements(STREAMS.into()));
    let mut streams = Streams::open(STREAMS);
    group.bench_function(BenchmarkId::new("posted and sent", STREAMS), |b| {
        b.iter(|| {
            streams.post();
            streams.send();
        });
    });
    group.bench_function(BenchmarkId::new("sent", STREAMS), |b| {
        b.iter_custom(|count| (0..count).map(|_| streams.timed()).sum());
    });
    group.finish();
}

/// Calls that are answered with a stream and stay open.
struct Streams {
    bench: Bench,
    responders: Vec<Responder<CallToolResult>>,
    /// Events so far.
    events: f64,
}

impl Streams {
    fn open(count: u32) -> Self {
        let (sender, receiver) = channel();
        let mut bench = Bench::with(watched(sender), "modern echo");
        bench.request = request_of("watch", "");
        let responders = (0..count).map(|_| Self::open_one(&mut bench, &receiver)).collect();
        let mut streams = Self { bench, responders, events: 0.0 };
        streams.post();
        assert_eq!(streams.send(), count, "the first event opens each stream");
        streams
    }

    fn open_one(
        bench: &mut Bench,
        receiver: &Receiver<Responder<CallToolResult>>,
    ) -> Responder<CallToolResult> {
        let key = bench.connect();
        bench.send(key);
        receiver.try_recv().expect("the handler has been called")
    }

    /// What handlers do: one report each.
    fn post(&mut self) {
        self.events += 1.0;
        let progress = Progress::new(self.events);
        for responder in &mut self.responders {
            responder.progress(&progress);
        }
    }

    /// What the loop does about it in one turn; how many streams had something to send.
    fn send(&mut self) -> u32 {
        self.bench.engine.run(self.bench.now);
        let mut sent = 0;
        while let Some(key) = self.bench.engine.poll_dirty() {
            self.bench.write(key);
            sent += 1;
        }
        sent
    }

    /// The loop's part of one event on each stream.
    fn timed(&mut self) -> Duration {
        self.post();
        let start = WallTime.start();
        self.send();
        WallTime.end(start)
    }
}

/// A server with a tool that leaves its calls to the bench.
fn watched(calls: Sender<Responder<CallToolResult>>) -> ServerBuilder {
    builder(true).tool_deferred(
        Tool::new("watch").streaming(Streaming::Allowed),
        move |_: ToolCall, responder: Responder<CallToolResult>| {
            calls.send(responder).expect("the bench waits for it");
        },
    )
}
