//! Connections: what is sent on them, what must come back, how they end.

use std::collections::VecDeque;

use serde_json::{Value, json};
use waterwheel::CloseReason;

use super::Swarm;
use super::model::{Purpose, Said};
use crate::support::{Block, Client, Request};

/// More of them would only make the swarm slow.
const LINES_MAX: usize = 24;
const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// One connection.
pub(super) struct Line {
    pub(super) client: Client,
    /// What must come, in this order.
    pub(super) due: VecDeque<Due>,
    /// The server has not decided yet what this will be.
    pub(super) waits: Option<Waits>,
    /// Its client does not read, or not everything.
    pub(super) stalled: bool,
    /// Requests behind the one in work, each with its session if it has one.
    pub(super) behind: Vec<(Option<usize>, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Waits {
    Call(usize),
    Batch(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Due {
    /// The answer to this request.
    Answer(u64),
    /// The answers of a batch.
    Answers(Vec<u64>),
    Status(u16),
    Stream(Reading),
}

/// A stream on its way to a reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) stream: usize,
    /// Index of the next event.
    pub(super) next: usize,
    /// Where the response ends, if it does.
    pub(super) until: Option<usize>,
    /// Its head has come.
    pub(super) begun: bool,
}

impl Reading {
    pub(super) fn of(stream: usize, next: usize) -> Self {
        Self { stream, next, until: None, begun: false }
    }
}

impl Line {
    /// Whether a request may be sent on it and is answered at once.
    pub(super) fn is_free(&self) -> bool {
        self.due.is_empty() && self.waits.is_none() && !self.stalled
    }
}

impl Swarm {
    pub(super) fn connect(&mut self) -> usize {
        let client = self.scene.connect();
        let at = self.next();
        let (due, waits, behind) = (VecDeque::new(), None, Vec::new());
        self.lines.insert(at, Line { client, due, waits, stalled: false, behind });
        at
    }

    /// A connection on which nothing is awaited.
    pub(super) fn free_line(&mut self) -> usize {
        let free: Vec<usize> =
            self.lines.iter().filter(|(_, line)| line.is_free()).map(|(at, _)| *at).collect();
        let crowded = self.lines.len() >= LINES_MAX;
        if !free.is_empty() && (crowded || self.random.below(3) > 0) {
            return free[self.random.below(free.len())];
        }
        if crowded {
            let all: Vec<usize> = self.lines.keys().copied().collect();
            let unlucky = all[self.random.below(all.len())];
            self.lose(unlucky);
        }
        self.connect()
    }

    pub(super) fn line(&mut self, at: usize) -> &mut Line {
        self.lines.get_mut(&at).expect("the line is open")
    }

    /// Sends a request, now and then in pieces.
    pub(super) fn send(&mut self, at: usize, request: &Request) {
        let (client, bytes) = (self.line(at).client, request.bytes());
        if self.random.below(10) > 0 {
            return self.scene.send(client, bytes);
        }
        for piece in self.random.cut(&bytes) {
            self.scene.send(client, piece);
        }
    }

    /// Sends a request that is answered at once.
    pub(super) fn ask(&mut self, request: &Request, due: Due) {
        let at = self.free_line();
        self.send(at, request);
        self.line(at).due.push_back(due);
    }

    /// Reads what has come and compares it with what had to come.
    pub(super) fn read(&mut self, at: usize) {
        while let Some(due) = self.line(at).due.front().cloned() {
            let done = match due {
                Due::Stream(reading) => self.read_stream(at, reading),
                whole => self.read_whole(at, &whole),
            };
            if !done {
                return;
            }
            self.line(at).due.pop_front();
        }
    }

    fn read_whole(&mut self, at: usize, due: &Due) -> bool {
        let client = self.line(at).client;
        let Some(response) = self.scene.try_response(client) else { return false };
        match due {
            Due::Answer(id) => {
                assert_eq!((response.status, &response.message()["id"]), (200, &json!(id)));
            }
            Due::Status(status) => assert_eq!(response.status, *status, "{response:?}"),
            Due::Answers(ids) => {
                let answers = response.json();
                let answers = answers.as_array().expect("a batch is answered with an array");
                let mut found: Vec<u64> =
                    answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
                found.sort_unstable();
                let mut ids = ids.clone();
                ids.sort_unstable();
                assert_eq!(found, ids);
            }
            Due::Stream(_) => unreachable!("streams are read as they come"),
        }
        true
    }

    fn read_stream(&mut self, at: usize, mut reading: Reading) -> bool {
        let client = self.line(at).client;
        if !reading.begun {
            let Some(head) = self.scene.try_stream(client) else { return false };
            assert_eq!(head.status, 200);
            reading.begun = true;
        }
        for block in self.scene.blocks(client) {
            match block {
                Block::Comment(_) | Block::Retry(_) => {}
                Block::Endpoint(at) => panic!("{at} is told to clients of another transport only"),
                Block::Primer { id, .. } => {
                    let stream = &self.streams[reading.stream];
                    assert!(stream.primed && reading.next == 0, "{id} comes from nowhere");
                    self.learn(reading.stream, &id, 0);
                }
                Block::Event { data, id } => {
                    assert!(reading.until != Some(reading.next), "{data} comes behind the end");
                    self.hear(reading.stream, reading.next, &data, id.as_deref());
                    reading.next += 1;
                }
            }
        }
        self.line(at).due[0] = Due::Stream(reading);
        let all_read = reading.until == Some(reading.next);
        let ended = all_read && self.scene.received(client).starts_with(b"0\r\n\r\n");
        if ended {
            self.scene.end_of_stream(client);
        }
        ended
    }

    /// An event has come: it must be the one whose turn it is.
    fn hear(&mut self, stream: usize, index: usize, data: &Value, id: Option<&str>) {
        let recorded = self.streams[stream].recorded;
        assert_eq!(recorded, id.is_some(), "an id is a promise of replay: {data}");
        if let Some(id) = id {
            self.learn(stream, id, index + 1);
        }
        let Some(said) = self.streams[stream].said.get_mut(index) else {
            panic!("nobody has said {data} on stream {stream}");
        };
        assert_eq!(describe(data), said.what, "event {index} of stream {stream}");
        let text = data.to_string();
        if let Some(wire) = &said.wire {
            return assert_eq!(*wire, text, "an event stays what it is");
        }
        said.wire = Some(text);
        let subject = said.subject;
        let stream = &mut self.streams[stream];
        stream.seen = stream.seen.max(index + 1);
        if let (Some(subject), Some(member)) = (subject, stream.member) {
            let number = data["id"].as_u64().expect("questions have numbers");
            assert_eq!(self.numbers.insert(number, subject), None, "a number is used once");
            self.members[member].asked.push(number);
        }
    }

    /// An id has come: it must belong to this place of this stream and to no other.
    fn learn(&mut self, at: usize, id: &str, place: usize) {
        let (name, number) = id.rsplit_once(':').expect("an id has two parts");
        assert_eq!(number.parse(), Ok(place), "{id}");
        let stream = &mut self.streams[at];
        match &stream.name {
            Some(known) => assert_eq!(known, name, "a stream keeps its name"),
            None => {
                stream.name = Some(name.to_owned());
                assert_eq!(self.names.insert(name.to_owned(), at), None, "names are used once");
                if let Some(member) = stream.member {
                    self.members[member].known.push(at);
                }
            }
        }
    }

    /// A client goes away, one way or another, and the server hears of it.
    pub(super) fn lose(&mut self, at: usize) {
        let client = self.line(at).client;
        if self.random.flips() {
            self.scene.cut(client);
        } else {
            self.scene.hang_up(client);
        }
        let left = self.forget_line(at);
        if let Some(stream) = left {
            self.settle_left(stream);
        }
    }

    /// A connection breaks, and the server has no turn before something else happens.
    pub(super) fn break_off(&mut self, at: usize) -> Option<usize> {
        let key = self.scene.key(self.lines[&at].client);
        self.scene.engine.close(key, CloseReason::TransportFailed);
        self.forget_line(at)
    }

    /// Takes a line away that is closed. A stream of a session that it had is loose then.
    pub(super) fn forget_line(&mut self, at: usize) -> Option<usize> {
        self.read(at);
        let line = self.lines.remove(&at).expect("the line is open");
        self.note(|_| format!("  line {at} is gone: {:?}, {:?}", line.waits, line.due));
        self.scene.take_received(line.client);
        match line.waits {
            Some(Waits::Call(call)) => {
                self.calls[call].line = None;
                self.unseat_call(call);
            }
            Some(Waits::Batch(batch)) => self.batches[batch].line = None,
            None => {}
        }
        match line.due.back() {
            Some(Due::Stream(reading)) if reading.until.is_none() => {
                self.unseat_stream(reading.stream, at)
            }
            _ => None,
        }
    }

    /// A stream has lost its reader, unless that had been given up for another one.
    fn unseat_stream(&mut self, at: usize, line: usize) -> Option<usize> {
        let stream = &mut self.streams[at];
        if stream.line != Some(line) {
            return None;
        }
        stream.line = None;
        match stream.purpose {
            Purpose::Session => {
                stream.loose = true;
                let member = stream.member.expect("the stream is a session's");
                self.members[member].open.retain(|open| *open != at);
                return Some(at);
            }
            Purpose::Call(call) => self.unseat_call(call),
            Purpose::Listen(..) => self.listens.retain(|open| *open != at),
            Purpose::Short => {}
        }
        None
    }

    /// Looks at every connection, and at the numbers the server keeps about itself.
    pub(super) fn check(&mut self) {
        self.collect_calls();
        self.forget_closed_lines();
        for at in self.lines.keys().copied().collect::<Vec<_>>() {
            self.read(at);
            self.check_line(at);
        }
        self.check_calls();
        self.check_gauges();
    }

    /// Takes away what the server has closed, in the order in which it did.
    fn forget_closed_lines(&mut self) {
        let closed = |(at, line): (&usize, &Line)| {
            let after = self.scene.closed_after(line.client)?;
            Some((after, *at))
        };
        let mut closed: Vec<(usize, usize)> = self.lines.iter().filter_map(closed).collect();
        closed.sort_unstable();
        for (_, at) in closed {
            let line = &self.lines[&at];
            assert!(line.stalled || line.is_free(), "line {at} was closed: {:?}", line.due);
            if let Some(stream) = self.forget_line(at) {
                self.settle_left(stream);
            }
        }
    }

    /// A client that reads must have been told everything by now.
    fn check_line(&self, at: usize) {
        let line = &self.lines[&at];
        if line.stalled {
            return;
        }
        let received = String::from_utf8_lossy(self.scene.received(line.client));
        assert!(received.is_empty(), "{received:?} on line {at}, {:?}", line.due);
        match line.due.front() {
            None => {}
            Some(Due::Stream(reading)) => {
                let said = self.streams[reading.stream].said.len();
                let all = reading.begun && reading.until.is_none() && reading.next == said;
                assert!(all, "line {at} misses some of {said} events: {reading:?}");
            }
            Some(due) => panic!("line {at} misses {due:?}"),
        }
    }
}

/// What an event says, in the words of the model.
fn describe(data: &Value) -> String {
    let params = &data["params"];
    let told = match data["method"].as_str() {
        None => return format!("answer {}", data["id"]),
        Some("notifications/message") => return format!("log {}", params["data"]["n"]),
        Some("notifications/progress") => return format!("progress {}", params["progress"]),
        Some("notifications/cancelled") => return "cancelled".to_owned(),
        Some("elicitation/create") => return "question".to_owned(),
        Some("ping") => return "ping".to_owned(),
        Some("notifications/subscriptions/acknowledged") => "acknowledged",
        Some("notifications/tools/list_changed") => "tools",
        Some("notifications/prompts/list_changed") => "prompts",
        Some("notifications/resources/list_changed") => "resources",
        Some("notifications/resources/updated") => params["uri"].as_str().expect("a URI"),
        Some(other) => panic!("unknown to the model: {other}"),
    };
    match params["_meta"].get(ID) {
        Some(id) => format!("{told} for {id}"),
        None => told.to_owned(),
    }
}

/// What the server says of a change.
pub(super) fn told(change: &str, subscription: Option<u64>) -> Said {
    Said::new(match subscription {
        Some(id) => format!("{change} for {id}"),
        None => change.to_owned(),
    })
}
