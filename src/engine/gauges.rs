//! What an engine holds and has done, in numbers.
//!
//! What can be counted when somebody asks is counted then. The rest are integers that grow with
//! connections, never with requests.

use std::time::{Duration, Instant};

use super::{CloseReason, Engine};
use crate::exchange::Seats;

/// What has been counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(super) accepted: u64,
    pub(super) turned_away: u64,
    closed: [u64; CloseReason::ALL.len()],
    turns: Turns,
    measures_turns: bool,
}

impl Tally {
    pub(super) fn new(measures_turns: bool) -> Self {
        Self { measures_turns, ..Self::default() }
    }

    pub(super) fn close(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }
}

/// The longest turn of late, in two spans of time, so that a bad one is seen for a while and then
/// forgotten, however often somebody looks.
#[derive(Debug, Default)]
struct Turns {
    /// When the present span began; none before the first turn.
    began: Option<Instant>,
    longest: Duration,
    longest_before: Duration,
}

/// Half of the time for which a long turn is remembered: longer than between two scrapes.
const SPAN: Duration = Duration::from_secs(60);

impl Turns {
    fn record(&mut self, took: Duration, now: Instant) {
        (self.longest, self.longest_before) = self.spans(now);
        let age = self.begun_before(now);
        if age.is_none_or(|age| age >= SPAN) {
            self.began = Some(now);
        }
        self.longest = self.longest.max(took);
    }

    fn begun_before(&self, now: Instant) -> Option<Duration> {
        self.began.map(|began| now.saturating_duration_since(began))
    }

    /// The longest turn of the span that is running at `now`, and of the one before.
    fn spans(&self, now: Instant) -> (Duration, Duration) {
        match self.begun_before(now) {
            Some(age) if age < SPAN => (self.longest, self.longest_before),
            Some(age) if age < SPAN * 2 => (Duration::ZERO, self.longest),
            Some(_) | None => (Duration::ZERO, Duration::ZERO),
        }
    }

    fn longest(&self, now: Instant) -> Duration {
        let (longest, longest_before) = self.spans(now);
        longest.max(longest_before)
    }
}

/// What an engine holds and has done, at one instant. Nothing in it names anybody.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Gauges {
    /// How long the engine has been serving.
    pub uptime: Duration,
    /// Connections that are open.
    pub connections_open: usize,
    /// Connections that were taken in, ever.
    pub connections_accepted: u64,
    /// Connections for which there was no room, ever.
    pub connections_turned_away: u64,
    /// Connections that were closed, ever, by the reason for it.
    pub connections_closed: [(CloseReason, u64); CloseReason::ALL.len()],
    /// Requests whose answer a handler owes to an open connection.
    pub exchanges_attached: usize,
    /// Requests on which a handler works although their connection is gone.
    pub exchanges_working: usize,
    /// Requests that are a part of a batch and wait for its other parts, or the others for them.
    pub exchanges_part: usize,
    /// Requests that were answered with a task and are worked on.
    pub exchanges_task: usize,
    /// Event streams that are open on connections, of whatever kind.
    pub streams_open: usize,
    /// Requests to clients that wait for their answer.
    pub asks: usize,
    /// Modern subscriptions that are open.
    pub subscriptions: usize,
    /// Classic sessions that are open.
    pub sessions: usize,
    /// Streams of which events are kept for clients that lost their connection.
    pub retained_streams: usize,
    /// Those events.
    pub retained_events: usize,
    /// What they take, in bytes.
    pub retained_bytes: usize,
    /// Messages of other threads that wait for the loop.
    pub mail_waiting: usize,
    /// Tools that are not called for now because they keep failing.
    pub breakers_open: usize,
    /// The longest turn of the last one or two minutes; zero unless turns are measured.
    pub longest_turn: Duration,
}

impl<T> Engine<T> {
    /// What the engine holds and has done. Looks at every connection and every open request: not
    /// for every turn.
    #[must_use]
    pub fn gauges(&self, now: Instant) -> Gauges {
        let tally = &self.tally;
        let Seats { attached, working, part, task } = self.exchanges.seats();
        let uptime = self.started.map(|started| now.saturating_duration_since(started));
        Gauges {
            uptime: uptime.unwrap_or_default(),
            connections_open: self.conns.len() - self.dead.len(),
            connections_accepted: tally.accepted,
            connections_turned_away: tally.turned_away,
            connections_closed: CloseReason::ALL.map(|why| (why, tally.closed[why as usize])),
            exchanges_attached: attached,
            exchanges_working: working,
            exchanges_part: part,
            exchanges_task: task,
            streams_open: self.conns.iter().filter(|(_, conn)| conn.stream.is_some()).count(),
            asks: self.asks(),
            subscriptions: self.subscriptions(),
            sessions: self.sessions(),
            retained_streams: self.retained_streams(),
            retained_events: self.retained_events(),
            retained_bytes: self.retained_bytes(),
            mail_waiting: self.mailbox.len(),
            breakers_open: self.app.breakers_open(now),
            longest_turn: tally.turns.longest(now),
        }
    }

    /// Whether anybody will be shown how long turns take; if not,
    /// [`record_turn`](Self::record_turn) is not worth a look at the clock.
    #[must_use]
    pub fn measures_turns(&self) -> bool {
        self.tally.measures_turns
    }

    /// Says how long a turn took, for [`Gauges::longest_turn`]. For whoever drives the engine and
    /// reads a clock; the engine itself knows one instant in each turn.
    pub fn record_turn(&mut self, took: Duration, now: Instant) {
        self.tally.turns.record(took, now);
    }

    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Number of requests whose answer is owed by a handler.
    #[must_use]
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    /// Number of tasks that can be asked about, ended or not.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// What those tasks hold, in bytes.
    #[must_use]
    pub fn task_bytes(&self) -> usize {
        self.tasks.bytes()
    }

    /// Number of requests to clients that wait for an answer.
    #[must_use]
    pub fn asks(&self) -> usize {
        self.asks.len()
    }

    /// Number of open modern subscriptions.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Number of events that clients who lost their connection may still ask for.
    #[must_use]
    pub fn retained_events(&self) -> usize {
        self.detached.events()
    }

    /// Number of streams those events belong to.
    #[must_use]
    pub fn retained_streams(&self) -> usize {
        self.detached.len()
    }

    /// What those events take, in bytes.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.detached.bytes()
    }

    /// Number of open classic sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_counted_under_its_own_name() {
        let mut tally = Tally::default();
        for (count, reason) in CloseReason::ALL.into_iter().enumerate() {
            (0..=count).for_each(|_| tally.close(reason));
        }
        let in_order: Vec<u64> = (1..=CloseReason::ALL.len() as u64).collect();
        assert_eq!(tally.closed[..], in_order);
    }

    #[test]
    fn a_long_turn_is_remembered_for_a_while() {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut turns = Turns::default();
        assert_eq!(turns.longest(start), Duration::ZERO);
        turns.record(ms(5), start);
        turns.record(ms(50), start + SPAN / 2);
        turns.record(ms(2), start + SPAN / 2);
        assert_eq!(turns.longest(start + SPAN / 2), ms(50));
        turns.record(ms(3), start + SPAN);
        assert_eq!(turns.longest(start + SPAN * 2 - ms(1)), ms(50));
        turns.record(ms(1), start + SPAN * 2);
        assert_eq!(turns.longest(start + SPAN * 2), ms(3));
        assert_eq!(turns.longest(start + SPAN * 4), Duration::ZERO, "an idle loop forgets, too");
        turns.record(ms(1), start + SPAN * 9);
        assert_eq!(turns.longest(start + SPAN * 9), ms(1));
    }
}
