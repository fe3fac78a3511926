//! Many clients of both eras do at random whatever may be done, over connections that fail in every
//! way. A model says what each of them must be told: every event that it is, in its place, under
//! its id, on one stream and no other, and nothing else. Nothing is left of any of it in the end.
//!
//! `WATERWHEEL_SEED=7 cargo test --test it swarm` repeats one run and says what was done in it;
//! `WATERWHEEL_LONG=1` tries thousands of longer ones.

mod calls;
mod lines;
mod model;
mod streams;
mod time;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use waterwheel::{Limits, ReplayLimits};

use crate::support::{FaultyPipe, HeldCall, Scene};
use lines::Line;
use model::{Batch, Bounds, Call, Change, Member, Ping, Stream, Subject};

/// A server, its clients, and what they expect of each other.
struct Swarm {
    seed: u64,
    step: usize,
    /// What has been done, for whoever repeats a run.
    trace: Option<Vec<String>>,
    scene: Scene,
    random: FaultyPipe,
    bounds: Bounds,
    /// Numbers so far: each names one thing.
    last: usize,
    lines: BTreeMap<usize, Line>,
    members: Vec<Member>,
    streams: Vec<Stream>,
    /// Streams by the names that clients have seen.
    names: HashMap<String, usize>,
    /// Streams on record, and those of them to which nothing is added, in the order of their end.
    records: BTreeSet<usize>,
    ended: VecDeque<usize>,
    /// Open subscriptions.
    listens: Vec<usize>,
    calls: Vec<Call>,
    batches: Vec<Batch>,
    /// Calls that are not over.
    running: Vec<usize>,
    /// Calls that wait for their handlers.
    held: BTreeMap<usize, HeldCall>,
    /// What the requests of the server are about, by their numbers.
    numbers: HashMap<u64, Subject>,
    pings: Vec<Ping>,
    pinged: usize,
    /// What has changed and is not announced yet.
    changes: Vec<Change>,
    announce_at: Option<Instant>,
}

/// What may happen, and how often it does in comparison.
type Action = fn(&mut Swarm);
const ACTIONS: [(usize, &str, Action); 22] = [
    (3, "join", Swarm::join),
    (8, "listen", |swarm| {
        if let Some(member) = swarm.any_member() {
            swarm.get(member, None);
        }
    }),
    (12, "call", Swarm::call),
    (2, "call a batch", Swarm::call_batch),
    (24, "speak", Swarm::handler_speaks),
    (8, "end", Swarm::handler_ends),
    (6, "ask", Swarm::handler_asks),
    (3, "release", Swarm::handler_releases),
    (6, "lose", |swarm| {
        if let Some(at) = swarm.any_line() {
            swarm.lose(at);
        }
    }),
    (5, "come back at once", Swarm::come_back_at_once),
    (6, "stall", Swarm::stall),
    (5, "read on", Swarm::read_on),
    (14, "resume", Swarm::resume),
    (3, "cancel", Swarm::cancel),
    (1, "delete", Swarm::delete),
    (5, "change", Swarm::change),
    (4, "follow", Swarm::follow),
    (4, "subscribe", Swarm::subscribe),
    (4, "ping", Swarm::ping),
    (8, "reply", Swarm::reply),
    (5, "pipeline", Swarm::pipeline),
    (16, "wait", Swarm::wait),
];

impl Swarm {
    fn new(seed: u64) -> Self {
        let mut random = FaultyPipe::new(seed);
        let bounds = Bounds {
            records: [16_384, 16_384, 16_384, 6, 0][random.below(5)],
            events: [256, 16, 4][random.below(3)],
            streams: [4, 4, 1][random.below(3)],
            pending: [256, 3][random.below(2)],
            output_bytes: [1 << 20, 8 << 10][random.below(2)],
        };
        let limits = limits(bounds);
        Self {
            seed,
            step: 0,
            trace: None,
            scene: Scene::tuned(|server| server.limits(limits)),
            random,
            bounds,
            last: 0,
            lines: BTreeMap::new(),
            members: Vec::new(),
            streams: Vec::new(),
            names: HashMap::new(),
            records: BTreeSet::new(),
            ended: VecDeque::new(),
            listens: Vec::new(),
            calls: Vec::new(),
            batches: Vec::new(),
            running: Vec::new(),
            held: BTreeMap::new(),
            numbers: HashMap::new(),
            pings: Vec::new(),
            pinged: 0,
            changes: Vec::new(),
            announce_at: None,
        }
    }

    /// Says what is done, if anybody wants to know.
    fn note(&mut self, say: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = say(self);
            self.trace.get_or_insert_default().push(line);
        }
    }

    fn next(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    fn any_line(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.lines.keys().copied().collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len())])
    }

    /// One of the things that may happen, and its name.
    fn choose_action(&mut self) -> (&'static str, Action) {
        let sum = ACTIONS.iter().map(|(weight, ..)| weight).sum();
        let mut at = self.random.below(sum);
        for (weight, name, action) in ACTIONS {
            if at < weight {
                return (name, action);
            }
            at -= weight;
        }
        unreachable!("the number is below the sum of the weights")
    }

    /// A client stops reading, at once or after some more bytes.
    fn stall(&mut self) {
        let Some(at) = self.any_line() else { return };
        let bytes = [0, 0, 1, 100, 1000][self.random.below(5)];
        self.line(at).stalled = true;
        let client = self.line(at).client;
        self.scene.read_only(client, bytes);
        self.scene.settle();
    }

    /// A client reads again.
    fn read_on(&mut self) {
        let stalled = self.lines.iter().filter(|(_, line)| line.stalled).map(|(at, _)| *at);
        let stalled: Vec<usize> = stalled.collect();
        for at in stalled {
            if self.random.flips() {
                self.line(at).stalled = false;
                let client = self.line(at).client;
                self.scene.read_all(client);
            }
        }
        self.scene.settle();
    }

    fn subscribe(&mut self) {
        match self.random.below(8) {
            0 => self.end_listens(),
            _ => self.listen(),
        }
    }

    /// Time passes; how much is never quite the same, so that no two things are due at once.
    fn wait(&mut self) {
        let millis = [20, 20, 20, 150, 150, 2000, 2000, 20_000, 70_000, 400_000];
        let patience = if self.random.below(8) == 0 { millis.len() } else { 7 };
        let millis = millis[self.random.below(patience)];
        let nanos = self.random.below(1_000_000) as u64;
        self.pass(Duration::from_millis(millis) + Duration::from_nanos(nanos));
        if self.random.flips() {
            self.use_session();
        }
    }
}

fn limits(bounds: Bounds) -> Limits {
    Limits {
        get_streams_max: bounds.streams,
        pending_messages_max: bounds.pending,
        output_bytes_max: bounds.output_bytes,
        replay: ReplayLimits {
            streams_max: bounds.records,
            events_max: bounds.events,
            ..ReplayLimits::default()
        },
        ..Limits::default()
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.trace.iter().flatten() {
                eprintln!("{line}");
            }
            let Self { seed, step, .. } = self;
            eprintln!("in step {step}; repeat with WATERWHEEL_SEED={seed} besides");
        }
    }
}

fn run(seed: u64, steps: usize, traces: bool) {
    let mut swarm = Swarm::new(seed);
    swarm.trace = traces.then(Vec::new);
    swarm.note(|swarm| format!("{:?}", swarm.bounds));
    for step in 0..steps {
        swarm.step = step;
        let (name, action) = swarm.choose_action();
        swarm.note(|_| format!("{step}: {name}"));
        action(&mut swarm);
        swarm.check();
    }
    swarm.wind_down();
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whatever_clients_do_each_is_told_what_it_must_be_and_nothing_is_left() {
    let (seeds, steps) = match setting("WATERWHEEL_LONG") {
        Some(_) => (5000, 5000),
        None => (16, 1000),
    };
    if let Some(seed) = setting("WATERWHEEL_SEED") {
        return run(seed, steps, true);
    }
    for seed in 0..seeds {
        run(seed, steps, false);
    }
}
