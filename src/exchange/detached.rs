//! What was said on streams that can be resumed, above the connections.
//!
//! A client that lost its connection asks for what followed the last event it saw, and events
//! written into a socket that then died count as unseen. So a resumable stream is recorded from
//! its first event, not from the loss. Work is never reaped, answers are: the clock of a record
//! starts when nothing more will be added to it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::key::{EventId, ExchangeId, Hasher, SessionId};
use crate::limits::ReplayLimits;

/// The records of all streams.
#[derive(Debug)]
pub(crate) struct DetachedStore {
    records: HashMap<ExchangeId, Record, Hasher>,
    /// Ended records in the order in which they are given up. An entry whose record has other
    /// plans by now is passed over.
    ended: VecDeque<(End, ExchangeId)>,
    /// Ends so far: each has a number.
    ends: u64,
    events: usize,
    bytes: usize,
    limits: ReplayLimits,
    retention: Duration,
}

/// The events of one stream that may still be asked for.
#[derive(Debug)]
struct Record {
    session: SessionId,
    kind: Recorded,
    events: VecDeque<Box<[u8]>>,
    /// Events so far, dropped ones included: the number of the newest.
    said: u32,
    bytes: usize,
    /// Some once nothing more will be said.
    end: Option<End>,
}

/// That nothing is said on a stream any more. A stream may end, go on and end again within an
/// instant; the number tells such ends apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    number: u64,
    /// When the record is given up.
    due: Instant,
}

impl Record {
    /// The number of the oldest event that is still here.
    fn first(&self) -> u32 {
        self.said - u32::try_from(self.events.len()).unwrap_or(u32::MAX) + 1
    }
}

/// What a record can still give to a client that resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Everything after the event; more may follow.
    Open,
    /// Everything after the event, the answer included, and that is all there will be.
    Answered,
    /// Everything after the event; the stream was left and may go on.
    Left,
}

/// What a recorded stream is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The answer to a request.
    Answer,
    /// Whatever the server has to say to a session.
    Session,
}

/// The cost of an event beside its bytes, so that many tiny events are bounded as well.
const EVENT_COST: usize = 32;
/// Fewer stale entries than this are not worth a look.
const STALE_MIN: usize = 1024;

impl DetachedStore {
    pub(crate) fn new(limits: ReplayLimits, retention: Duration) -> Self {
        Self {
            records: HashMap::default(),
            ended: VecDeque::new(),
            ends: 0,
            events: 0,
            bytes: 0,
            limits,
            retention,
        }
    }

    /// Begins the record of a stream; false if there is no room for one, and then its events have
    /// no ids: an id is a promise of replay.
    pub(crate) fn open(&mut self, id: ExchangeId, session: SessionId, kind: Recorded) -> bool {
        if self.limits.streams_max == 0 {
            return false;
        }
        while self.records.len() >= self.limits.streams_max {
            if !self.drop_oldest_ended() {
                return false;
            }
        }
        let record =
            Record { session, kind, events: VecDeque::new(), said: 0, bytes: 0, end: None };
        self.records.insert(id, record);
        true
    }

    /// Adds an event; its id, if the stream is on record.
    pub(crate) fn record(&mut self, id: ExchangeId, data: &[u8]) -> Option<EventId> {
        let cost = data.len() + EVENT_COST;
        let record = self.records.get_mut(&id)?;
        record.said += 1;
        let seq = record.said;
        record.events.push_back(data.into());
        record.bytes += cost;
        self.events += 1;
        self.bytes += cost;
        let events_max = self.limits.events_max;
        if record.events.len() > events_max || record.bytes > self.limits.stream_bytes_max {
            self.trim(id);
        }
        while self.bytes > self.limits.bytes_max && self.drop_oldest_ended() {}
        if self.bytes > self.limits.bytes_max {
            self.shorten(id, 1);
        }
        Some(EventId { exchange: id, seq })
    }

    fn trim(&mut self, id: ExchangeId) {
        let Some(record) = self.records.get(&id) else { return };
        let mut keep = record.events.len().min(self.limits.events_max.max(1));
        let mut bytes = record.bytes;
        let surplus = record.events.len() - keep;
        bytes -=
            record.events.iter().take(surplus).map(|event| event.len() + EVENT_COST).sum::<usize>();
        for event in record.events.iter().skip(surplus) {
            if bytes <= self.limits.stream_bytes_max || keep == 1 {
                break;
            }
            bytes -= event.len() + EVENT_COST;
            keep -= 1;
        }
        self.shorten(id, keep);
    }

    /// Drops the oldest events of a record beyond so many.
    fn shorten(&mut self, id: ExchangeId, keep: usize) {
        let Some(record) = self.records.get_mut(&id) else { return };
        while record.events.len() > keep {
            let Some(event) = record.events.pop_front() else { return };
            let cost = event.len() + EVENT_COST;
            record.bytes -= cost;
            self.bytes -= cost;
            self.events -= 1;
        }
    }

    /// Says that nothing more comes; the record is kept for the time of retention.
    pub(crate) fn end(&mut self, id: ExchangeId, now: Instant) {
        let end = End { number: self.ends, due: now + self.retention };
        if let Some(record) = self.records.get_mut(&id) {
            record.end = Some(end);
            self.ends += 1;
            self.ended.push_back((end, id));
            self.drop_stale_entries();
        }
    }

    /// Forgets entries that stand for nothing once they are most of the queue: a client that comes
    /// back over and over again leaves one each time.
    fn drop_stale_entries(&mut self) {
        let Self { ended, records, .. } = self;
        if ended.len() > STALE_MIN + records.len() * 2 {
            ended.retain(|(end, id)| records.get(id).is_some_and(|it| it.end == Some(*end)));
        }
    }

    /// Says that an ended stream goes on: its client has come back.
    pub(crate) fn reopen(&mut self, id: ExchangeId) {
        if let Some(record) = self.records.get_mut(&id) {
            record.end = None;
        }
    }

    /// Whether anything was said on a stream.
    pub(crate) fn is_empty(&self, id: ExchangeId) -> bool {
        self.records.get(&id).is_none_or(|record| record.events.is_empty())
    }

    /// What a client of this session can have after this event. None for an event that is unknown,
    /// of somebody else's stream, or followed by one that is no longer here.
    pub(crate) fn find(&self, after: EventId, session: SessionId) -> Option<Replay> {
        let record = self.records.get(&after.exchange)?;
        let known = record.session == session
            && after.seq <= record.said
            && after.seq + 1 >= record.first();
        known.then_some(match (record.end, record.kind) {
            (None, _) => Replay::Open,
            (Some(_), Recorded::Answer) => Replay::Answered,
            (Some(_), Recorded::Session) => Replay::Left,
        })
    }

    /// The events after this one, oldest first.
    pub(crate) fn replay(&self, after: EventId) -> impl Iterator<Item = (EventId, &[u8])> {
        let record = self.records.get(&after.exchange);
        let events = record.into_iter().flat_map(|record| (record.first()..).zip(&record.events));
        events
            .filter(move |(seq, _)| *seq > after.seq)
            .map(move |(seq, data)| (EventId { seq, ..after }, &**data))
    }

    /// Gives a record up.
    pub(crate) fn forget(&mut self, id: ExchangeId) {
        if let Some(record) = self.records.remove(&id) {
            self.events -= record.events.len();
            self.bytes -= record.bytes;
        }
    }

    /// Gives up the records of sessions that have ended.
    pub(crate) fn forget_sessions(&mut self, sessions: &HashSet<SessionId>) {
        let theirs = |record: &Record| sessions.contains(&record.session);
        let ids: Vec<ExchangeId> =
            self.records.iter().filter(|(_, record)| theirs(record)).map(|(id, _)| *id).collect();
        for id in ids {
            self.forget(id);
        }
    }

    /// Gives up what is due.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(entry) = self.ended.front().copied().filter(|(end, _)| end.due <= now) {
            self.ended.pop_front();
            self.give_up(entry);
        }
    }

    /// When the next record is given up.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.ended.front().map(|(end, _)| end.due)
    }

    /// Gives up the record that ended first; false if none has ended.
    fn drop_oldest_ended(&mut self) -> bool {
        while let Some(entry) = self.ended.pop_front() {
            if self.give_up(entry) {
                return true;
            }
        }
        false
    }

    /// Gives up the record that an entry is about; false if that has other plans by now.
    fn give_up(&mut self, (end, id): (End, ExchangeId)) -> bool {
        let stands = self.records.get(&id).is_some_and(|record| record.end == Some(end));
        if stands {
            self.forget(id);
        }
        stands
    }

    /// Number of events on record.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// What the events on record take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of streams on record.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        Instant::now()
    }

    fn session(byte: u8) -> SessionId {
        SessionId::from_random([byte; 16])
    }

    fn store(streams_max: usize, events_max: usize) -> DetachedStore {
        let limits =
            ReplayLimits { streams_max, events_max, stream_bytes_max: 1000, bytes_max: 2000 };
        DetachedStore::new(limits, Duration::from_secs(60))
    }

    fn replayed(store: &DetachedStore, exchange: u64, seq: u32) -> Vec<(u32, Vec<u8>)> {
        let after = EventId { exchange: ExchangeId(exchange), seq };
        store.replay(after).map(|(id, data)| (id.seq, data.to_vec())).collect()
    }

    fn find(store: &DetachedStore, exchange: u64, seq: u32, owner: u8) -> Option<Replay> {
        store.find(EventId { exchange: ExchangeId(exchange), seq }, session(owner))
    }

    #[test]
    fn what_was_missed_is_replayed_under_its_ids_and_only_to_its_owner() {
        let mut store = store(4, 16);
        assert!(store.open(ExchangeId(1), session(1), Recorded::Answer));
        for text in ["a", "b", "c"] {
            store.record(ExchangeId(1), text.as_bytes()).unwrap();
        }
        assert_eq!(replayed(&store, 1, 1), [(2, b"b".to_vec()), (3, b"c".to_vec())]);
        assert_eq!(replayed(&store, 1, 0).len(), 3);
        assert_eq!(find(&store, 1, 3, 1), Some(Replay::Open));
        assert_eq!(find(&store, 1, 4, 1), None, "it was never said");
        assert_eq!(find(&store, 1, 1, 2), None, "it is somebody else's");
        assert_eq!(find(&store, 9, 0, 1), None);
        assert_eq!(store.record(ExchangeId(9), b"x"), None);
    }

    #[test]
    fn a_record_is_given_up_by_its_last_end_although_all_were_in_one_instant() {
        let mut store = store(2, 16);
        let now = epoch();
        for exchange in [1, 2] {
            store.open(ExchangeId(exchange), session(1), Recorded::Session);
            store.record(ExchangeId(exchange), b"x");
        }
        store.end(ExchangeId(1), now);
        store.reopen(ExchangeId(1));
        store.end(ExchangeId(2), now);
        store.end(ExchangeId(1), now);
        assert!(store.open(ExchangeId(3), session(1), Recorded::Session));
        assert_eq!(find(&store, 2, 1, 1), None, "it ended first");
        assert_eq!(find(&store, 1, 1, 1), Some(Replay::Left));
    }

    #[test]
    fn the_oldest_events_go_first_and_a_cursor_before_them_is_unknown() {
        let mut store = store(4, 2);
        store.open(ExchangeId(1), session(1), Recorded::Answer);
        for text in ["a", "b", "c"] {
            store.record(ExchangeId(1), text.as_bytes());
        }
        assert_eq!(find(&store, 1, 0, 1), None, "the first event is gone");
        assert_eq!(find(&store, 1, 1, 1), Some(Replay::Open));
        assert_eq!(replayed(&store, 1, 1), [(2, b"b".to_vec()), (3, b"c".to_vec())]);
        assert_eq!(store.events(), 2);

        store.record(ExchangeId(1), &[0; 5000]);
        assert_eq!(store.events(), 1, "the newest event stays, however large");
        store.forget(ExchangeId(1));
        assert_eq!((store.events(), store.bytes(), store.len()), (0, 0, 0));
    }

    #[test]
    fn only_ended_records_are_given_up_and_each_in_its_time() {
        let mut store = store(8, 16);
        let start = epoch();
        let at = |secs| start + Duration::from_secs(secs);
        for id in 1..=3 {
            store.open(ExchangeId(id), session(1), Recorded::Answer);
            store.record(ExchangeId(id), b"x");
        }
        store.end(ExchangeId(1), start);
        assert_eq!(find(&store, 1, 0, 1), Some(Replay::Answered));
        store.end(ExchangeId(2), at(30));
        assert_eq!(store.next_deadline(), Some(at(60)), "a newcomer postpones nothing");
        store.reopen(ExchangeId(2));
        store.expire(at(59));
        assert_eq!(store.len(), 3);
        store.expire(at(600));
        assert_eq!(store.len(), 2, "one came back and one never ended");
        assert_eq!(store.next_deadline(), None);
    }

    #[test]
    fn inv61_what_came_back_takes_nobody_with_it_when_its_old_time_is_up() {
        let mut store = store(8, 16);
        let start = epoch();
        let at = |secs| start + Duration::from_secs(secs);
        for id in 1..=2 {
            store.open(ExchangeId(id), session(1), Recorded::Session);
            store.record(ExchangeId(id), b"x");
        }
        store.end(ExchangeId(1), start);
        store.reopen(ExchangeId(1));
        store.end(ExchangeId(2), at(50));
        store.expire(at(60));
        assert_eq!(store.len(), 2, "the second has fifty seconds left");
        store.end(ExchangeId(1), at(70));
        store.expire(at(110));
        assert_eq!(find(&store, 1, 1, 1), Some(Replay::Left));
        assert_eq!(find(&store, 2, 1, 1), None);
    }

    #[test]
    fn a_stream_that_is_left_over_and_over_again_costs_one_entry() {
        let mut store = store(8, 16);
        store.open(ExchangeId(1), session(1), Recorded::Session);
        store.record(ExchangeId(1), b"x");
        for nanos in 0..10_000 {
            store.reopen(ExchangeId(1));
            store.end(ExchangeId(1), epoch() + Duration::from_nanos(nanos));
        }
        assert!(store.ended.len() <= STALE_MIN + 3, "{}", store.ended.len());
    }

    #[test]
    fn room_is_made_by_what_has_ended_and_by_nothing_else() {
        let mut store = store(2, 16);
        store.open(ExchangeId(1), session(1), Recorded::Answer);
        store.open(ExchangeId(2), session(1), Recorded::Answer);
        assert!(!store.open(ExchangeId(3), session(1), Recorded::Answer));
        store.end(ExchangeId(2), epoch());
        assert!(store.open(ExchangeId(3), session(1), Recorded::Answer));
        assert!(store.record(ExchangeId(2), b"x").is_none());

        store.record(ExchangeId(1), &[0; 900]);
        store.end(ExchangeId(1), epoch());
        store.record(ExchangeId(3), &[0; 900]);
        store.record(ExchangeId(3), &[0; 900]);
        assert_eq!(store.len(), 2, "one stream may hold {} bytes of its own", 1000);
        assert_eq!(store.events(), 2);
        let mut gone = HashSet::new();
        gone.insert(session(1));
        store.forget_sessions(&gone);
        assert_eq!((store.events(), store.bytes(), store.len()), (0, 0, 0));
    }
}
