//! Streams: what is said on them, what is kept of it, who comes back for it.

use serde_json::json;
use waterwheel::ServerHandle;

use super::Swarm;
use super::lines::{Due, Reading, told};
use super::model::{Change, LISTS, Member, Purpose, RESOURCES, Said, State, Stream};
use super::time::{RETENTION, UNCONFIRMED};
use crate::support::{Request, Session, message};

const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

impl Swarm {
    /// A client opens a session, and comes back or does not.
    pub(super) fn join(&mut self) {
        let version = VERSIONS[self.random.below(VERSIONS.len())];
        let elicits = self.random.flips();
        let able = if elicits { json!({ "elicitation": {} }) } else { json!({}) };
        let client = json!({ "name": "c", "version": "0" });
        let params =
            json!({ "protocolVersion": version, "capabilities": able, "clientInfo": client });
        let at = self.free_line();
        let request = Request::post(message(1, "initialize", params));
        let response = self.scene.ask(self.lines[&at].client, &request);
        let id = response.field("mcp-session-id").expect("a session is opened");
        self.members.push(Member {
            session: Session::new(id, version),
            id: None,
            elicits,
            confirmed: false,
            gone: None,
            active: self.scene.now(),
            running: 0,
            open: Vec::new(),
            left: Default::default(),
            pending: Default::default(),
            followed: Default::default(),
            known: Vec::new(),
            asked: Vec::new(),
        });
        if self.random.below(10) > 0 {
            let member = self.members.len() - 1;
            let note = self.members[member].session.notify("notifications/initialized", json!({}));
            self.touch(member);
            self.ask(&note, Due::Status(202));
        }
    }

    /// A session that its client may use.
    pub(super) fn any_member(&mut self) -> Option<usize> {
        let now = self.scene.now();
        let usable = |member: &&usize| !self.members[**member].is_over(now);
        let all: Vec<usize> = (0..self.members.len()).collect();
        let usable: Vec<usize> = all.iter().filter(usable).copied().collect();
        (!usable.is_empty()).then(|| usable[self.random.below(usable.len())])
    }

    /// A request has come for a session.
    pub(super) fn touch(&mut self, member: usize) {
        let now = self.scene.now();
        let member = &mut self.members[member];
        member.active = now;
        member.confirmed = true;
    }

    /// The server does something for a session.
    pub(super) fn stir(&mut self, member: Option<usize>) {
        let now = self.scene.now();
        if let Some(member) = member {
            self.members[member].active = now;
        }
    }

    pub(super) fn new_stream(&mut self, purpose: Purpose, member: Option<usize>) -> usize {
        let at = self.streams.len();
        let may = member.is_some() && !matches!(purpose, Purpose::Listen(..));
        let recorded = may && self.open_record(at);
        let version = member.map(|member| self.members[member].session.version);
        self.streams.push(Stream {
            purpose,
            member,
            name: None,
            said: Vec::new(),
            line: None,
            recorded,
            primed: recorded && version == Some("2025-11-25"),
            until: None,
            loose: false,
            seen: 0,
        });
        at
    }

    fn open_record(&mut self, at: usize) -> bool {
        if self.bounds.records == 0 {
            return false;
        }
        while self.records.len() >= self.bounds.records {
            let Some(oldest) = self.ended.front().copied() else { return false };
            self.forget_record(oldest);
        }
        self.records.insert(at)
    }

    pub(super) fn forget_record(&mut self, at: usize) {
        self.note(|it| format!("  the record of stream {at} is given up; ended: {:?}", it.ended));
        self.records.remove(&at);
        self.ended.retain(|ended| *ended != at);
    }

    /// Nothing is added to a record any more.
    pub(super) fn end_record(&mut self, at: usize) {
        if self.records.contains(&at) {
            self.ended.push_back(at);
            self.note(|it| format!("  the record of stream {at} has ended: {:?}", it.ended));
            self.streams[at].until = Some(self.scene.now() + RETENTION);
        }
    }

    /// How many of a stream's events are kept.
    pub(super) fn kept(&self, at: usize) -> usize {
        self.streams[at].said.len().min(self.bounds.events)
    }

    pub(super) fn say(&mut self, at: usize, said: Said) {
        let stream = &mut self.streams[at];
        assert!(stream.line.is_some() || stream.recorded, "somebody can hear it");
        stream.said.push(said.clone());
        self.note(|it| format!("  stream {at} on {:?}: {}", it.streams[at].line, said.what));
    }

    /// The response on which a stream goes out ends here.
    pub(super) fn end_response(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let said = stream.said.len();
        let Some(line) = stream.line.take() else { return };
        let Some(Due::Stream(reading)) = self.line(line).due.back_mut() else {
            panic!("the stream is the last that is due on its line");
        };
        assert_eq!(reading.stream, at);
        reading.until = Some(said);
        self.note(|_| format!("  stream {at} ends on {line}"));
        self.open_gate(line);
    }

    /// What waited behind a request is served.
    pub(super) fn open_gate(&mut self, at: usize) {
        for (member, id) in std::mem::take(&mut self.line(at).behind) {
            let ended = member.is_some_and(|member| self.members[member].gone.is_some());
            self.line(at).due.push_back(if ended { Due::Status(404) } else { Due::Answer(id) });
            if let Some(member) = member.filter(|_| !ended) {
                self.touch(member);
            }
        }
    }

    /// Tells a session something that belongs to none of its calls.
    pub(super) fn tell(&mut self, member: usize, said: Said) {
        if let Some(newest) = self.members[member].open.last().copied() {
            return self.say(newest, said);
        }
        let pending_max = self.bounds.pending;
        let member = &mut self.members[member];
        let news = said.subject.is_some() || member.pending.iter().all(|it| it.what != said.what);
        if news {
            member.pending.push_back(said);
            if member.pending.len() > pending_max {
                member.pending.pop_front();
            }
        }
    }

    /// The server has had a turn since a stream was left.
    pub(super) fn settle_left(&mut self, at: usize) {
        if !std::mem::take(&mut self.streams[at].loose) {
            return;
        }
        let member = self.streams[at].member.expect("the stream is a session's");
        self.stir(Some(member));
        if self.streams[at].said.is_empty() || !self.streams[at].recorded {
            return self.forget_record(at);
        }
        self.members[member].left.push_back(at);
        if self.members[member].left.len() > self.bounds.streams {
            let oldest = self.members[member].left.pop_front().expect("there are some");
            self.forget_record(oldest);
        }
        self.end_record(at);
    }

    /// A client asks for a stream, whatever it gives as the last event it saw.
    pub(super) fn get(&mut self, member: usize, after: Option<&str>) {
        let at = self.free_line();
        let session = &self.members[member].session;
        let request = match after {
            Some(after) => session.resume(after),
            None => session.listen(),
        };
        self.send(at, &request);
        self.got(at, member, after);
    }

    /// The server has been asked for a stream.
    fn got(&mut self, at: usize, member: usize, after: Option<&str>) {
        self.touch(member);
        let place = after.and_then(|after| self.place(member, after));
        self.note(|_| format!("  member {member} on {at}: after {after:?}, at {place:?}"));
        match place {
            Some((stream, seen)) => self.resumed(at, member, stream, seen),
            None => self.opened(at, member),
        }
    }

    /// What a cursor stands for, if the server can still go on from there.
    fn place(&self, member: usize, after: &str) -> Option<(usize, usize)> {
        let (name, number) = after.rsplit_once(':')?;
        let (stream, number): (usize, usize) = (*self.names.get(name)?, number.parse().ok()?);
        let said = self.streams[stream].said.len();
        // What the server would not have written is none of its cursors.
        let known = after == format!("{name}:{number}")
            && self.streams[stream].member == Some(member)
            && self.records.contains(&stream)
            && number <= said
            && said <= number + self.kept(stream);
        known.then_some((stream, number))
    }

    fn opened(&mut self, at: usize, member: usize) {
        if self.members[member].open.len() >= self.bounds.streams {
            return self.line(at).due.push_back(Due::Status(429));
        }
        let stream = self.new_stream(Purpose::Session, Some(member));
        self.seat(stream, at, 0);
        self.members[member].open.push(stream);
        self.tell_pending(member);
    }

    fn tell_pending(&mut self, member: usize) {
        for said in std::mem::take(&mut self.members[member].pending) {
            self.tell(member, said);
        }
    }

    /// From now on a stream goes out on this line, after so many events.
    fn seat(&mut self, stream: usize, at: usize, seen: usize) {
        self.streams[stream].line = Some(at);
        self.streams[stream].loose = false;
        self.line(at).due.push_back(Due::Stream(Reading::of(stream, seen)));
    }

    fn resumed(&mut self, at: usize, member: usize, stream: usize, seen: usize) {
        let is_session = matches!(self.streams[stream].purpose, Purpose::Session);
        if self.streams[stream].until.is_some() && !is_session {
            // All of it has been said.
            self.line(at).due.push_back(Due::Stream(Reading::of(stream, seen)));
            let said = self.streams[stream].said.len();
            if let Some(Due::Stream(reading)) = self.line(at).due.back_mut() {
                reading.until = Some(said);
            }
            return;
        }
        let old = self.streams[stream].line.take();
        if is_session {
            self.members[member].open.retain(|open| *open != stream);
            if old.is_none() && self.members[member].open.len() >= self.bounds.streams {
                return self.line(at).due.push_back(Due::Status(429));
            }
        }
        self.seat(stream, at, seen);
        if let Some(old) = old {
            assert!(self.scene.is_closed(self.lines[&old].client), "two lines for one stream");
            self.forget_line(old);
        }
        if is_session {
            self.members[member].left.retain(|left| *left != stream);
            self.ended.retain(|ended| *ended != stream);
            self.streams[stream].until = None;
            self.members[member].open.push(stream);
            self.tell_pending(member);
        }
    }

    /// A client comes back for something, or tries to.
    pub(super) fn resume(&mut self) {
        let Some(member) = self.any_member() else { return };
        let known = &self.members[member].known;
        let recent = known.len().min(6);
        if recent == 0 {
            return self.get(member, Some("ffffffff:0"));
        }
        let stream = known[known.len() - 1 - self.random.below(recent)];
        let Some(name) = self.streams[stream].name.clone() else { return };
        let seen = self.streams[stream].seen;
        let after = match self.random.below(12) {
            0 => format!("{name}:{}", self.random.below(seen + 1)),
            1 => format!("{name}:{}", seen + 1 + self.random.below(5)),
            2 => format!("{name}:0{seen}"),
            3 => name,
            _ => format!("{name}:{seen}"),
        };
        let whose = if self.random.below(12) == 0 { self.any_member() } else { None };
        self.get(whose.unwrap_or(member), Some(&after));
    }

    /// A connection breaks and its client is back before the server has noticed.
    pub(super) fn come_back_at_once(&mut self) {
        let Some(at) = self.any_line() else { return };
        let stream = match self.line(at).due.back() {
            Some(Due::Stream(reading)) if reading.until.is_none() => Some(reading.stream),
            _ => None,
        };
        self.break_off(at);
        let cursor = stream.and_then(|stream| self.cursor(stream));
        let member = stream.and_then(|stream| self.streams[stream].member);
        if let (Some(member), Some(cursor)) = (member, cursor) {
            let again = self.connect();
            let request = self.members[member].session.resume(&cursor);
            self.scene.send(self.lines[&again].client, request.bytes());
            self.got(again, member, Some(&cursor));
        } else {
            self.scene.settle();
        }
        if let Some(stream) = stream {
            self.settle_left(stream);
        }
    }

    /// The last event that a client has seen of a stream.
    pub(super) fn cursor(&self, stream: usize) -> Option<String> {
        let stream = &self.streams[stream];
        Some(format!("{}:{}", stream.name.as_ref()?, stream.seen))
    }

    /// Something changes.
    pub(super) fn change(&mut self) {
        let handle = ServerHandle::of(&self.scene.engine);
        for _ in 0..=self.random.below(3) {
            let all = [LISTS, RESOURCES].concat();
            let change: Change = all[self.random.below(all.len())];
            match change {
                "tools" => handle.tools_changed(),
                "prompts" => handle.prompts_changed(),
                "resources" => handle.resources_changed(),
                uri => handle.resource_updated(uri),
            }
            self.note_change(change);
        }
        self.scene.settle();
    }

    /// Everybody is told what has changed.
    pub(super) fn announce(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            for stream in self.listens.clone() {
                let Purpose::Listen(id, wants) = &self.streams[stream].purpose else { continue };
                if wants.contains(&change) {
                    let id = *id;
                    self.say(stream, told(change, Some(id)));
                }
            }
            for member in 0..self.members.len() {
                let it = &self.members[member];
                let cares = if LISTS.contains(&change) { it.confirmed } else { it.follows(change) };
                if cares && it.gone.is_none() {
                    self.tell(member, told(change, None));
                }
            }
        }
    }

    /// A client begins or ceases to follow a resource.
    pub(super) fn follow(&mut self) {
        let Some(member) = self.any_member() else { return };
        let uri = RESOURCES[self.random.below(RESOURCES.len())];
        let it = &mut self.members[member];
        let method = if it.followed.remove(uri) {
            "resources/unsubscribe"
        } else {
            it.followed.insert(uri);
            "resources/subscribe"
        };
        let id = self.next() as u64;
        let request = self.members[member].session.request(id, method, json!({ "uri": uri }));
        self.touch(member);
        self.ask(&request, Due::Answer(id));
    }

    /// A modern client subscribes.
    pub(super) fn listen(&mut self) {
        let id = self.next() as u64;
        let mut wants: Vec<Change> = Vec::new();
        for change in [LISTS, RESOURCES].concat() {
            if self.random.below(3) == 0 {
                wants.push(change);
            }
        }
        let uris: Vec<&str> = wants.iter().copied().filter(|it| !LISTS.contains(it)).collect();
        let notifications = json!({
            "toolsListChanged": wants.contains(&"tools"),
            "promptsListChanged": wants.contains(&"prompts"),
            "resourcesListChanged": wants.contains(&"resources"),
            "resourceSubscriptions": uris,
        });
        let params = json!({ "notifications": notifications });
        let at = self.free_line();
        self.send(at, &Request::modern(id, "subscriptions/listen", params));
        let hears = !wants.is_empty();
        let stream = self.new_stream(Purpose::Listen(id, wants), None);
        self.seat(stream, at, 0);
        self.say(stream, told("acknowledged", Some(id)));
        self.listens.push(stream);
        if !hears {
            self.end_listen(stream);
        }
    }

    fn end_listen(&mut self, stream: usize) {
        let Purpose::Listen(id, _) = self.streams[stream].purpose else { return };
        self.listens.retain(|open| *open != stream);
        self.say(stream, Said::new(format!("answer {id}")));
        self.end_response(stream);
    }

    /// The server ends all subscriptions.
    pub(super) fn end_listens(&mut self) {
        ServerHandle::of(&self.scene.engine).end_subscriptions();
        self.scene.settle();
        for stream in self.listens.clone() {
            self.end_listen(stream);
        }
    }

    /// A client ends its session.
    pub(super) fn delete(&mut self) {
        let Some(member) = self.any_member() else { return };
        let request = self.members[member].session.delete();
        let at = self.free_line();
        self.send(at, &request);
        self.line(at).due.push_back(Due::Status(204));
        self.end_member(member);
        for stream in std::mem::take(&mut self.members[member].open) {
            self.end_response(stream);
        }
        for call in self.running.clone() {
            if self.calls[call].member == Some(member) {
                if let State::Asking { waits_for, .. } = &mut self.calls[call].state {
                    // Nobody is left to whom it could be said that they are withdrawn.
                    waits_for.clear();
                }
                self.cancelled(call);
            }
        }
        let theirs = |stream: &&usize| self.streams[**stream].member == Some(member);
        for stream in self.records.iter().filter(theirs).copied().collect::<Vec<_>>() {
            self.forget_record(stream);
        }
    }
}

impl Member {
    /// Whether its time is up or may be by now.
    pub(super) fn is_over(&self, now: std::time::Instant) -> bool {
        let early = !self.confirmed && now.duration_since(self.active) >= UNCONFIRMED;
        self.gone.is_some() || early
    }

    fn follows(&self, change: Change) -> bool {
        self.followed.contains(change)
    }
}
