//! Calls of tools, what their handlers do with them, and who hears of it.

use serde_json::{Value, json};
use waterwheel::mcp::model::{FormSchema, TextField};
use waterwheel::rpc::ErrorObject;
use waterwheel::{CallToolResult, InputRequest, LogLevel, NeedInput, Progress, ServerHandle};

use super::Swarm;
use super::lines::{Due, Reading, Waits};
use super::model::{Batch, Call, Purpose, Said, State, Subject};
use super::time::PATIENCE_OF_USERS;
use crate::support::{Request, Session, message};

/// How often a call may ask.
const ROUNDS_MAX: usize = 16;

/// A tool, and what its caller reads.
struct Choice {
    tool: &'static str,
    accept: &'static str,
}

impl Choice {
    fn must_stream(&self) -> bool {
        matches!(self.tool, "slow_stream" | "must_stream")
    }

    fn is_mute(&self) -> bool {
        matches!(self.tool, "plain_slow" | "plain_steps")
    }

    fn is_direct(&self) -> bool {
        self.tool.ends_with("steps") || self.tool == "must_stream"
    }
}

impl Swarm {
    fn choose(&mut self) -> Choice {
        let tools = ["slow", "slow", "slow_stream", "plain_slow", "steps", "must_stream"];
        let tool = tools[self.random.below(tools.len())];
        let both = "application/json, text/event-stream";
        let accepts = [both, both, both, both, "text/event-stream", "application/json"];
        let choice = Choice { tool, accept: accepts[self.random.below(accepts.len())] };
        if choice.must_stream() { Choice { accept: both, ..choice } } else { choice }
    }

    /// A client calls a tool.
    pub(super) fn call(&mut self) {
        let member = if self.random.below(4) == 0 { None } else { self.any_member() };
        let Choice { tool, accept } = self.choose();
        let id = self.next() as u64;
        let mut params = json!({ "name": tool, "arguments": { "n": id } });
        let (hears, follows) = (member.is_some() || self.random.flips(), self.random.flips());
        let mut meta = json!({});
        if follows {
            meta["progressToken"] = json!(id);
        }
        let request = match member {
            Some(member) => {
                params["_meta"] = meta;
                self.members[member].session.request(id, "tools/call", params)
            }
            None => {
                if hears {
                    meta["io.modelcontextprotocol/logLevel"] = json!("info");
                }
                meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
                params["_meta"] = meta;
                Request::modern(id, "tools/call", params)
            }
        };
        let at = self.free_line();
        self.send(at, &request.set("Accept", accept));
        if let Some(member) = member {
            self.touch(member);
        }
        let choice = Choice { tool, accept };
        let (json, stream) = (accept.contains("json"), accept.contains("event-stream"));
        let call = Call {
            id,
            member,
            batch: None,
            reads_json: json,
            reads_streams: stream && !(choice.is_mute() && json),
            hears: hears && stream && !choice.is_mute(),
            follows: follows && stream && !choice.is_mute(),
            line: Some(at),
            stream: None,
            since: self.scene.now(),
            state: State::Held,
            rounds: 0,
        };
        if choice.is_direct() {
            return self.answered_at_once(at, &call, choice.must_stream());
        }
        self.line(at).waits = Some(Waits::Call(self.calls.len()));
        let stream_now = choice.must_stream() && member.is_some();
        let call = self.begin(call);
        if stream_now {
            self.commit(call);
        }
    }

    fn begin(&mut self, call: Call) -> usize {
        let at = self.calls.len();
        let (id, line, member) = (call.id, call.line, call.member);
        self.note(|_| format!("  call {at} with id {id} on {line:?} of {member:?}"));
        if let Some(member) = call.member {
            self.members[member].running += 1;
        }
        self.calls.push(call);
        self.running.push(at);
        at
    }

    /// What the tools do that say everything before they return.
    fn answered_at_once(&mut self, at: usize, call: &Call, must_stream: bool) {
        let mut said = Vec::new();
        if call.follows {
            said.extend([1, 3, 5].map(|value| format!("progress {value}")));
        }
        if call.hears {
            said.push("log null".to_owned());
        }
        let stream_now = must_stream && call.member.is_some();
        if said.is_empty() && call.reads_json && !stream_now {
            return self.line(at).due.push_back(Due::Answer(call.id));
        }
        let stream = self.new_stream(Purpose::Short, call.member);
        said.push(format!("answer {}", call.id));
        self.streams[stream].said = said.into_iter().map(Said::new).collect();
        let until = Some(self.streams[stream].said.len());
        self.line(at).due.push_back(Due::Stream(Reading { until, ..Reading::of(stream, 0) }));
        self.end_record(stream);
    }

    /// A client calls several tools at once.
    pub(super) fn call_batch(&mut self) {
        let Some(member) = self.any_member() else { return };
        if self.members[member].session.version != "2025-03-26" {
            return;
        }
        let ids = [self.next() as u64, self.next() as u64];
        let calls = ids.map(|id| {
            message(id, "tools/call", json!({ "name": "slow", "arguments": { "n": id } }))
        });
        let request = self.members[member].session.post(format!("[{},{}]", calls[0], calls[1]));
        let at = self.free_line();
        self.send(at, &request);
        self.touch(member);
        let batch = self.batches.len();
        let (awaited, answered) = (ids.len(), Vec::new());
        self.batches.push(Batch { member, line: Some(at), awaited, answered });
        self.line(at).waits = Some(Waits::Batch(batch));
        for id in ids {
            self.begin(Call {
                id,
                member: Some(member),
                batch: Some(batch),
                reads_json: true,
                reads_streams: true,
                hears: false,
                follows: false,
                line: None,
                stream: None,
                since: self.scene.now(),
                state: State::Held,
                rounds: 0,
            });
        }
    }

    /// Takes the calls that handlers have been given.
    pub(super) fn collect_calls(&mut self) {
        while self.scene.held.len() > 0 {
            let held = self.scene.take_call();
            let arguments = held.call.raw_arguments().expect("all calls have arguments");
            let arguments: Value = serde_json::from_str(arguments.get()).expect("they are JSON");
            let id = arguments["n"].as_u64().expect("each has its number");
            let call = self.running.iter().copied().find(|call| self.calls[*call].id == id);
            let call = call.unwrap_or_else(|| panic!("call {id} is not to be run"));
            assert!(matches!(self.calls[call].state, State::Held), "call {id} waits for answers");
            if let Some(member) = self.calls[call].member {
                self.members[member].id = held.call.session_id();
            }
            assert!(self.held.insert(call, held).is_none(), "call {id} is run once");
        }
    }

    /// Every call that is not over and waits for nothing is with its handler, who was told nothing.
    pub(super) fn check_calls(&self) {
        let with_handlers =
            self.running.iter().filter(|call| matches!(self.calls[**call].state, State::Held));
        assert_eq!(self.held.len(), with_handlers.count());
        for (call, held) in &self.held {
            assert!(!held.responder.is_cancelled(), "call {call} is not cancelled");
        }
    }

    /// A call that a handler has.
    pub(super) fn any_held(&mut self) -> Option<usize> {
        let held: Vec<usize> = self.held.keys().copied().collect();
        (!held.is_empty()).then(|| held[self.random.below(held.len())])
    }

    fn seat_of(&self, call: usize) -> Option<usize> {
        match self.calls[call].stream {
            Some(stream) => self.streams[stream].line,
            None => self.calls[call].line,
        }
    }

    /// Makes the answer to a call a stream; whether anything said on it may still be heard.
    pub(super) fn commit(&mut self, at: usize) -> bool {
        let call = &self.calls[at];
        if let Some(stream) = call.stream {
            let stream = &self.streams[stream];
            return stream.line.is_some() || stream.recorded;
        }
        let Some(line) = call.line.filter(|_| call.reads_streams) else { return false };
        let member = call.member;
        let stream = self.new_stream(Purpose::Call(at), member);
        self.streams[stream].line = Some(line);
        self.calls[at].stream = Some(stream);
        self.line(line).waits = None;
        self.line(line).due.push_back(Due::Stream(Reading::of(stream, 0)));
        self.note(|_| format!("  call {at} is answered with stream {stream}"));
        true
    }

    fn speak(&mut self, call: usize, said: Said) -> bool {
        let heard = self.commit(call);
        if let Some(stream) = self.calls[call].stream.filter(|_| heard) {
            self.say(stream, said);
        }
        heard
    }

    /// A handler says something before it answers.
    pub(super) fn handler_speaks(&mut self) {
        let Some(call) = self.any_held() else { return };
        let bytes = [1, 10, 100, 2000][self.random.below(4)];
        for _ in 0..=self.random.below(3) {
            let n = self.next();
            let held = self.held.get_mut(&call).expect("the call is held");
            if self.random.below(3) > 0 {
                let data = json!({ "n": n, "pad": "x".repeat(bytes) });
                let _ = held.responder.log(LogLevel::Error, None, &data);
                if self.calls[call].hears {
                    self.speak(call, Said::new(format!("log {n}")));
                }
            } else {
                let _ = held.responder.progress(&Progress::new(n as f64));
                if self.calls[call].follows {
                    self.speak(call, Said::new(format!("progress {n}")));
                }
            }
        }
        self.scene.settle();
    }

    /// A handler is done, in one way or another.
    pub(super) fn handler_ends(&mut self) {
        let Some(call) = self.any_held() else { return };
        let held = self.held.remove(&call).expect("the call is held");
        match self.random.below(6) {
            0 => held.responder.fail(ErrorObject::new(-32050, "not today")),
            1 => drop(held),
            _ => held.responder.finish(CallToolResult::text("done")),
        }
        self.scene.settle();
        self.answered(call);
    }

    /// The answer of a call has come.
    pub(super) fn answered(&mut self, at: usize) {
        self.is_over(at);
        let call = &self.calls[at];
        let (id, member, batch, reads_json) = (call.id, call.member, call.batch, call.reads_json);
        self.stir(member);
        if let Some(batch) = batch {
            self.batches[batch].answered.push(id);
            return self.part_over(batch);
        }
        if !reads_json {
            self.commit(at);
        }
        match self.calls[at].stream {
            Some(stream) => {
                let heard = self.streams[stream].line.is_some() || self.streams[stream].recorded;
                if heard {
                    self.say(stream, Said::new(format!("answer {id}")));
                }
                self.end_response(stream);
                self.end_record(stream);
            }
            None => {
                if let Some(line) = self.calls[at].line.take() {
                    self.whole_answer(line, Due::Answer(id));
                }
            }
        }
    }

    fn whole_answer(&mut self, line: usize, due: Due) {
        self.line(line).waits = None;
        self.line(line).due.push_back(due);
        self.open_gate(line);
    }

    fn is_over(&mut self, call: usize) {
        self.note(|_| format!("  call {call} is over"));
        self.calls[call].state = State::Over;
        self.running.retain(|running| *running != call);
        if let Some(member) = self.calls[call].member {
            self.members[member].running -= 1;
        }
    }

    /// One call of a batch is over.
    fn part_over(&mut self, batch: usize) {
        let batch = &mut self.batches[batch];
        batch.awaited -= 1;
        if batch.awaited > 0 {
            return;
        }
        let answered = std::mem::take(&mut batch.answered);
        let Some(line) = batch.line.take() else { return };
        let due = match answered.is_empty() {
            true => Due::Status(202),
            false => Due::Answers(answered),
        };
        self.whole_answer(line, due);
    }

    /// A handler asks its caller first.
    pub(super) fn handler_asks(&mut self) {
        let Some(call) = self.any_held() else { return };
        let held = self.held.remove(&call).expect("the call is held");
        let count = 1 + self.random.below(2);
        let mut need = NeedInput::new();
        for name in &["first", "second"][..count] {
            let form = FormSchema::new().field("name", TextField::new());
            need = need.ask(*name, InputRequest::elicit("Who are you?", form));
        }
        held.responder.ask(held.call, need);
        self.scene.settle();
        let it = &mut self.calls[call];
        it.rounds += 1;
        let able = it.member.is_some_and(|member| {
            let member = &self.members[member];
            member.elicits && member.session.version >= "2025-06-18"
        });
        if !able || it.rounds > ROUNDS_MAX || it.batch.is_some() {
            return self.answered(call);
        }
        let first = it.rounds * 10;
        let mut asked = Vec::new();
        for tag in first..first + count {
            if self.speak(call, Said::new("question").about(Subject::Call(call, tag))) {
                asked.push(tag);
            }
        }
        if asked.is_empty() {
            return self.answered(call);
        }
        let until = self.scene.now() + PATIENCE_OF_USERS;
        self.calls[call].state = State::Asking { until, asked_in: self.step, waits_for: asked };
    }

    /// Withdraws the questions of a call.
    pub(super) fn withdraw(&mut self, call: usize) {
        let State::Asking { waits_for, .. } = &mut self.calls[call].state else { return };
        for _ in std::mem::take(waits_for) {
            self.speak(call, Said::new("cancelled"));
        }
    }

    /// A client answers something that it was asked, or was asked once, or was never asked.
    pub(super) fn reply(&mut self) {
        let Some(member) = self.any_member() else { return };
        let asked = &self.members[member].asked;
        let recent = asked.len().min(4);
        if recent == 0 {
            let unasked = json!({ "jsonrpc": "2.0", "id": 999_999, "result": {} });
            return self.post(member, &unasked, 202);
        }
        let number = asked[asked.len() - 1 - self.random.below(recent)];
        let refuses = self.random.below(5) == 0;
        let mut body = json!({ "jsonrpc": "2.0", "id": number });
        if refuses {
            body["error"] = json!({ "code": -1, "message": "I'd rather not" });
        } else {
            body["result"] = json!({ "action": "accept", "content": { "name": "Ada" } });
        }
        let stranger = if self.random.below(8) == 0 { self.any_member() } else { None };
        self.post(stranger.unwrap_or(member), &body, 202);
        if stranger.is_some_and(|stranger| stranger != member) {
            return;
        }
        match self.numbers[&number] {
            Subject::Ping(ping) => self.ping_answered(ping, refuses),
            Subject::Call(call, tag) => self.question_answered(call, tag, refuses),
        }
    }

    fn post(&mut self, member: usize, body: &Value, status: u16) {
        let request = self.members[member].session.post(body.to_string());
        self.touch(member);
        self.ask(&request, Due::Status(status));
    }

    fn question_answered(&mut self, call: usize, tag: usize, refuses: bool) {
        let State::Asking { waits_for, .. } = &mut self.calls[call].state else { return };
        let Some(at) = waits_for.iter().position(|waits_for| *waits_for == tag) else { return };
        waits_for.remove(at);
        if refuses {
            self.withdraw(call);
            self.answered(call);
        } else if waits_for.is_empty() {
            self.calls[call].state = State::Held;
        }
    }

    /// A handler lets the connection of its caller go.
    pub(super) fn handler_releases(&mut self) {
        let Some(call) = self.any_held() else { return };
        let held = self.held.get(&call).expect("the call is held");
        held.responder.release_connection(std::time::Duration::from_millis(500));
        self.scene.settle();
        let newest = |member: usize| self.members[member].session.version == "2025-11-25";
        let resumes = self.calls[call].member.is_some_and(newest);
        if !resumes || self.seat_of(call).is_none() || !self.commit(call) {
            return;
        }
        if let Some(stream) = self.calls[call].stream
            && self.streams[stream].recorded
        {
            self.end_response(stream);
        }
    }

    /// A client gives up on a call, and leaves no doubt about it.
    pub(super) fn cancel(&mut self) {
        let Some(member) = self.any_member() else { return };
        let mine = |call: &&usize| self.calls[**call].member == Some(member);
        let calls: Vec<usize> = self.running.iter().filter(mine).copied().collect();
        let call = calls.get(self.random.below(calls.len() + 1)).copied();
        let id = call.map_or(0, |call| self.calls[call].id);
        let request = self.members[member].session.cancel(id);
        self.touch(member);
        self.ask(&request, Due::Status(202));
        if let Some(call) = call {
            self.cancelled(call);
        }
    }

    /// A call is cancelled: its response ends and nothing is kept of it.
    pub(super) fn cancelled(&mut self, at: usize) {
        self.withdraw(at);
        if let Some(held) = self.held.remove(&at) {
            assert!(held.responder.is_cancelled(), "its handler hears of it");
        }
        self.is_over(at);
        let call = &self.calls[at];
        let reads_streams = call.reads_streams;
        if let Some(batch) = call.batch {
            return self.part_over(batch);
        }
        match (call.stream, self.calls[at].line.take()) {
            (Some(stream), _) => {
                self.end_response(stream);
                self.forget_record(stream);
            }
            (None, Some(line)) if reads_streams => {
                let empty = self.new_stream(Purpose::Short, None);
                let reading = Reading { until: Some(0), ..Reading::of(empty, 0) };
                self.whole_answer(line, Due::Stream(reading));
            }
            (None, Some(line)) => self.whole_answer(line, Due::Status(202)),
            (None, None) => {}
        }
    }

    /// The caller of a call has left.
    pub(super) fn unseat_call(&mut self, call: usize) {
        if self.calls[call].member.is_none() {
            self.cancelled(call);
        }
    }

    /// The server asks whether a client is there.
    pub(super) fn ping(&mut self) {
        let Some(member) = self.any_member() else { return };
        let Some(id) = self.members[member].id else { return };
        let handle = ServerHandle::of(&self.scene.engine);
        for _ in 0..=self.random.below(3) {
            let at = self.new_ping(member, &handle, id);
            self.tell(member, Said::new("ping").about(Subject::Ping(at)));
        }
        self.scene.settle();
    }

    /// A client sends a request behind one that is in work.
    pub(super) fn pipeline(&mut self) {
        let Some(at) = self.any_line() else { return };
        let line = &self.lines[&at];
        let member = match (line.waits, line.due.back()) {
            (Some(Waits::Call(call)), _) => self.calls[call].member,
            (Some(Waits::Batch(batch)), _) => Some(self.batches[batch].member),
            (None, Some(Due::Stream(it))) if it.until.is_none() => self.streams[it.stream].member,
            _ => return,
        };
        let id = self.next() as u64;
        let request = match member {
            Some(member) => ping_of(&self.members[member].session, id),
            None => Request::modern(id, "tools/list", json!({})),
        };
        self.line(at).behind.push((member, id));
        self.send(at, &request);
    }

    /// A client makes sure that its session is there.
    pub(super) fn use_session(&mut self) {
        let Some(member) = self.any_member() else { return };
        let id = self.next() as u64;
        let request = ping_of(&self.members[member].session, id);
        self.touch(member);
        self.ask(&request, Due::Answer(id));
    }
}

fn ping_of(session: &Session, id: u64) -> Request {
    session.request(id, "ping", json!({}))
}
