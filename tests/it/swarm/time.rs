//! What time does, and what must be left when it has done it.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use waterwheel::{AskError, ServerHandle, SessionId};

use super::Swarm;
use super::model::{Change, Heard, Ping, State};

/// The timeouts of the server, which are those it has by itself.
pub(super) const RETENTION: Duration = Duration::from_secs(60);
pub(super) const UNCONFIRMED: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(300);
/// How much longer a session may live than it has to.
const SWEEP: Duration = Duration::from_secs(15);
const DEBOUNCE: Duration = Duration::from_millis(100);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
pub(super) const PATIENCE_OF_USERS: Duration = Duration::from_secs(300);
const PATIENCE_OF_CLIENTS: Duration = Duration::from_secs(30);

impl Swarm {
    /// Lets time pass, from one deadline to the next.
    pub(super) fn pass(&mut self, time: Duration) {
        let target = self.scene.now() + time;
        while self.scene.now() < target {
            let now = self.scene.now();
            let next = self.scene.engine.next_deadline().filter(|at| *at < target);
            let next = next.map_or(target, |at| at.max(now));
            self.scene.advance(next - now);
            self.tick();
            self.check();
        }
    }

    /// Does what is due.
    fn tick(&mut self) {
        let now = self.scene.now();
        for member in 0..self.members.len() {
            let it = &self.members[member];
            let patience = if it.confirmed { IDLE } else { UNCONFIRMED };
            let busy = it.running > 0 || !it.open.is_empty();
            if it.gone.is_none() && !busy && now - it.active >= patience {
                self.outlive(member);
            }
        }
        if self.announce_at.take_if(|at| *at <= now).is_some() {
            self.announce();
        }
        let mut running = self.running.clone();
        running.sort_by_key(|call| match self.calls[*call].state {
            State::Asking { asked_in, .. } => Some(asked_in),
            _ => None,
        });
        for call in running {
            self.tick_call(call);
        }
        for ping in &mut self.pings {
            if ping.until <= now {
                ping.expected.get_or_insert(Heard::TimeUp);
            }
        }
        while let Some(oldest) = self.ended.front().copied()
            && self.streams[oldest].until.is_some_and(|until| until <= now)
        {
            self.forget_record(oldest);
        }
    }

    fn tick_call(&mut self, at: usize) {
        let now = self.scene.now();
        let call = &self.calls[at];
        match &call.state {
            State::Asking { until, .. } if *until <= now => {
                self.withdraw(at);
                self.answered(at);
            }
            // An answer that is slow in coming becomes a stream, to be kept alive.
            _ if call.line.is_some() && now - call.since >= KEEP_ALIVE => {
                self.commit(at);
            }
            _ => {}
        }
    }

    pub(super) fn note_change(&mut self, change: Change) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
        let now = self.scene.now();
        self.announce_at.get_or_insert_with(|| now + DEBOUNCE);
    }

    /// A session has ended by its age, which the server sees when it looks the next time.
    fn outlive(&mut self, member: usize) {
        let now = self.scene.now();
        self.is_gone(member);
        for ping in self.pings.iter_mut().filter(|ping| ping.member == member) {
            ping.ends_by = Some(now + SWEEP);
        }
    }

    fn is_gone(&mut self, member: usize) {
        self.members[member].gone = Some(self.scene.now());
        self.members[member].pending.clear();
    }

    /// A session has been ended by its client.
    pub(super) fn end_member(&mut self, member: usize) {
        self.is_gone(member);
        for ping in self.pings.iter_mut().filter(|ping| ping.member == member) {
            ping.expected.get_or_insert(Heard::Ended);
        }
    }

    pub(super) fn new_ping(
        &mut self,
        member: usize,
        handle: &ServerHandle,
        id: SessionId,
    ) -> usize {
        let (tell, told) = channel();
        handle.ping(id, move |outcome| {
            let heard = match outcome {
                Ok(()) => Heard::Answer,
                Err(AskError::Refused(_)) => Heard::Refusal,
                Err(AskError::TimedOut) => Heard::TimeUp,
                Err(AskError::NoSession) => Heard::Ended,
                Err(other) => panic!("{other}"),
            };
            // The receiver is gone once it has heard what it waited for.
            let _ = tell.send(heard);
        });
        let until = self.scene.now() + PATIENCE_OF_CLIENTS;
        self.pings.push(Ping {
            at: self.pinged,
            member,
            until,
            told,
            expected: None,
            ends_by: None,
        });
        self.pinged += 1;
        self.pinged - 1
    }

    pub(super) fn ping_answered(&mut self, ping: usize, refuses: bool) {
        let heard = if refuses { Heard::Refusal } else { Heard::Answer };
        if let Some(ping) = self.pings.iter_mut().find(|it| it.at == ping) {
            ping.expected.get_or_insert(heard);
        }
    }

    /// Whoever asked has been told once, and nobody else.
    fn check_pings(&mut self) {
        let now = self.scene.now();
        self.pings.retain(|ping| match (ping.told.try_recv(), ping.expected) {
            (Err(TryRecvError::Empty), None) => {
                assert!(ping.ends_by.is_none_or(|end| now <= end), "a ping outlives its session");
                true
            }
            (Ok(heard), expected) if expected.is_some() || ping.ends_by.is_some() => {
                assert_eq!(heard, expected.unwrap_or(Heard::Ended));
                assert_eq!(ping.told.try_recv(), Err(TryRecvError::Disconnected), "told twice");
                false
            }
            other => panic!("{other:?} of ping {}", ping.at),
        });
    }

    /// Compares the numbers the server keeps about itself with those of the model.
    pub(super) fn check_gauges(&mut self) {
        self.check_pings();
        let engine = &self.scene.engine;
        let batches = self.batches.iter().filter(|batch| batch.awaited > 0).count();
        let open: usize = self.members.iter().map(|member| member.open.len()).sum();
        let questions = self.running.iter().map(|call| match &self.calls[*call].state {
            State::Asking { waits_for, .. } => waits_for.len(),
            _ => 0,
        });
        let exchanges = self.running.len() + batches + open + self.listens.len();
        assert_eq!(engine.connections(), self.lines.len());
        assert_eq!(engine.exchanges(), exchanges);
        assert_eq!(engine.subscriptions(), self.listens.len());
        assert_eq!(engine.asks(), questions.sum::<usize>() + self.pings.len());
        assert_eq!(engine.retained_streams(), self.records.len());
        let events: usize = self.records.iter().map(|stream| self.kept(*stream)).sum();
        assert_eq!(engine.retained_events(), events);
        let now = self.scene.now();
        let known = self.members.iter().filter(|member| member.gone.is_none()).count();
        let fading = |at: std::time::Instant| now - at <= SWEEP;
        let late = self.members.iter().filter(|member| member.gone.is_some_and(fading)).count();
        assert!((known..=known + late).contains(&engine.sessions()), "{}", engine.sessions());
    }

    /// Lets everybody come to an end and collect what is there for them.
    pub(super) fn wind_down(&mut self) {
        for line in self.lines.values_mut() {
            line.stalled = false;
            self.scene.read_all(line.client);
        }
        self.scene.settle();
        self.check();
        while !self.held.is_empty() {
            self.handler_ends();
            self.check();
        }
        for member in 0..self.members.len() {
            for stream in self.members[member].known.clone() {
                let lost = self.streams[stream].line.is_none() && self.records.contains(&stream);
                if let Some(cursor) = self.cursor(stream).filter(|_| lost) {
                    assert!(self.members[member].gone.is_none(), "records end with their session");
                    self.get(member, Some(&cursor));
                    self.check();
                }
            }
            if self.members[member].gone.is_none() {
                self.get(member, None);
                self.check();
            }
        }
        for at in self.lines.keys().copied().collect::<Vec<_>>() {
            self.lose(at);
            self.check();
        }
        self.pass(Duration::from_secs(1000));
        let engine = &self.scene.engine;
        assert_eq!((engine.connections(), engine.exchanges(), engine.subscriptions()), (0, 0, 0));
        assert_eq!((engine.sessions(), engine.asks()), (0, 0));
        let kept = (engine.retained_streams(), engine.retained_events(), engine.retained_bytes());
        assert_eq!(kept, (0, 0, 0));
    }
}
