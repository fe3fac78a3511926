//! Sessions of the revisions up to 2025-11-25: who they belong to, what they negotiated, when they
//! end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::model::LogLevel;
use super::subscription::Change;
use super::version::Version;
use crate::key::{ExchangeId, Hasher, Principal, SessionId};

/// By which transport a session's clients reach it. Its id is worth nothing on the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// One path, any number of streams.
    Streamable,
    /// One stream, on which the client hears everything, and which the session ends with.
    Legacy,
}

/// One classic session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) transport: Transport,
    /// False while `initialize` is still to come: a legacy session is there before it.
    pub(crate) negotiated: bool,
    pub(crate) version: Version,
    pub(crate) capabilities: Option<Arc<RawValue>>,
    pub(crate) client_info: Option<Arc<RawValue>>,
    pub(crate) log_level: Option<LogLevel>,
    /// Open GET streams, in the order in which they were opened.
    pub(crate) streams: Vec<ExchangeId>,
    /// Streams that were left and can be resumed, in the order in which they were left.
    pub(crate) left: VecDeque<ExchangeId>,
    /// Resources the client wants to hear of.
    pub(crate) followed: HashSet<Box<str>>,
    /// What was said while no stream was open.
    pending: VecDeque<Box<[u8]>>,
    pending_bytes: usize,
    principal: Option<Principal>,
    last_active: Instant,
    /// False until the client comes back after `initialize`; a probe never does.
    confirmed: bool,
}

/// What `initialize` settles about a session.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) transport: Transport,
    pub(crate) version: Version,
    pub(crate) capabilities: Option<Arc<RawValue>>,
    pub(crate) client_info: Option<Arc<RawValue>>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) principal: Option<Principal>,
}

impl Session {
    /// Takes what `initialize` says in a session that was there before it; the revision that holds
    /// from then on. A streamable one keeps the revision that it was opened with.
    pub(crate) fn settle(&mut self, new: NewSession) -> Version {
        if self.transport == Transport::Legacy {
            self.negotiated = true;
            self.version = new.version;
            self.log_level = new.log_level;
        }
        self.capabilities = new.capabilities;
        self.client_info = new.client_info;
        self.version
    }

    /// Keeps a message until a stream is opened. The oldest goes when there are too many, and a
    /// message that waits already is not kept twice: it says the same.
    pub(crate) fn keep(&mut self, message: &[u8], messages_max: usize, bytes_max: usize) {
        if self.pending.iter().any(|waiting| **waiting == *message) {
            return;
        }
        self.pending_bytes += message.len();
        self.pending.push_back(message.into());
        while self.pending.len() > messages_max || self.pending_bytes > bytes_max {
            let Some(dropped) = self.pending.pop_front() else { return };
            self.pending_bytes -= dropped.len();
            log::warn!("a message for a session without a stream was dropped");
        }
    }

    /// What waits for a stream, oldest first, and forgets it.
    pub(crate) fn take_pending(&mut self) -> VecDeque<Box<[u8]>> {
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }
}

/// All sessions of one server.
pub(crate) struct Sessions {
    table: HashMap<SessionId, Session, Hasher>,
    random: Random,
    max: usize,
    idle: Duration,
    unconfirmed: Duration,
    /// Sessions that ended and whose running calls nobody has ended yet.
    ended: Vec<SessionId>,
}

/// Where ids come from; none when the source fails.
type Random = Box<dyn FnMut() -> Option<[u8; 16]>>;

/// Why no session was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSession {
    /// As many as the limits allow are open.
    Full,
    /// The random source failed. There is no weaker source to fall back to: a session whose id can
    /// be guessed is worse than none.
    NoRandom,
}

/// A collision of 128 random bits means that the source is broken, not unlucky.
const DRAWS_MAX: usize = 4;

impl Sessions {
    pub(crate) fn new(max: usize, idle: Duration, unconfirmed: Duration) -> Self {
        Self {
            table: HashMap::default(),
            random: Box::new(system_random),
            max,
            idle,
            unconfirmed,
            ended: Vec::new(),
        }
    }

    /// Replaces the random source, for tests of what happens when it fails.
    #[cfg(test)]
    pub(crate) fn draw_ids_from(&mut self, random: impl FnMut() -> Option<[u8; 16]> + 'static) {
        self.random = Box::new(random);
    }

    /// Opens a session under a fresh id.
    pub(crate) fn open(&mut self, new: NewSession, now: Instant) -> Result<SessionId, NoSession> {
        if self.table.len() >= self.max {
            return Err(NoSession::Full);
        }
        let id = self.draw().ok_or(NoSession::NoRandom)?;
        let session = Session {
            transport: new.transport,
            negotiated: new.transport == Transport::Streamable,
            version: new.version,
            capabilities: new.capabilities,
            client_info: new.client_info,
            log_level: new.log_level,
            streams: Vec::new(),
            left: VecDeque::new(),
            followed: HashSet::new(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            principal: new.principal,
            last_active: now,
            confirmed: false,
        };
        self.table.insert(id, session);
        Ok(id)
    }

    fn draw(&mut self) -> Option<SessionId> {
        for _ in 0..DRAWS_MAX {
            let id = SessionId::from_random((self.random)()?);
            if !self.table.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// The session if it exists and is this caller's, its idle clock set back. Somebody else's
    /// session is answered like one that does not exist and does not notice.
    pub(crate) fn judge(
        &mut self,
        id: SessionId,
        principal: Option<&Principal>,
        now: Instant,
    ) -> Option<&mut Session> {
        self.judge_on(Transport::Streamable, id, principal, now)
    }

    /// The same, for a session that is reached by this transport.
    pub(crate) fn judge_on(
        &mut self,
        transport: Transport,
        id: SessionId,
        principal: Option<&Principal>,
        now: Instant,
    ) -> Option<&mut Session> {
        let session = self.table.get_mut(&id)?;
        if session.transport != transport || !Principal::same(session.principal.as_ref(), principal)
        {
            return None;
        }
        session.last_active = now;
        session.confirmed = session.negotiated;
        Some(session)
    }

    pub(crate) fn find(&mut self, id: SessionId) -> Option<&mut Session> {
        self.table.get_mut(&id)
    }

    /// Notes that something went on in a session.
    pub(crate) fn touch(&mut self, id: SessionId, now: Instant) {
        if let Some(session) = self.table.get_mut(&id) {
            session.last_active = now;
        }
    }

    /// Ends a session; false if there was none.
    pub(crate) fn end(&mut self, id: SessionId) -> bool {
        let ended = self.table.remove(&id).is_some();
        if ended {
            self.ended.push(id);
        }
        ended
    }

    /// The sessions that have ended since the last look: what they have running and waiting is to
    /// end with them.
    pub(crate) fn take_ended(&mut self) -> HashSet<SessionId> {
        self.ended.drain(..).collect()
    }

    /// Whether a session has ended that nobody has cleared up after.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The sessions that want to hear of a change.
    pub(crate) fn concerned(&self, change: &Change) -> Vec<SessionId> {
        let concerned = |session: &Session| match change {
            Change::Resource(uri) => session.followed.contains(uri.as_str()),
            Change::Tools | Change::Prompts | Change::Resources => session.confirmed,
        };
        self.table.iter().filter(|(_, it)| concerned(it)).map(|(id, _)| *id).collect()
    }

    /// Ends the sessions whose time is up and says how many they were. One that has a call running
    /// is not idle, however long the call takes.
    pub(crate) fn sweep(&mut self, now: Instant, is_busy: impl Fn(SessionId) -> bool) -> usize {
        let before = self.table.len();
        let Self { table, ended, .. } = self;
        let (idle, unconfirmed) = (self.idle, self.unconfirmed);
        table.retain(|id, session| {
            let patience = if session.confirmed { idle } else { unconfirmed };
            if now.saturating_duration_since(session.last_active) < patience {
                return true;
            }
            let busy = is_busy(*id);
            if busy {
                session.last_active = now;
            } else {
                ended.push(*id);
            }
            busy
        });
        before - self.table.len()
    }

    /// How often sweeping is worth it: often enough that a session outlives its time by a half at
    /// most.
    pub(crate) fn sweep_interval(&self) -> Duration {
        (self.idle.min(self.unconfirmed) / 2).max(Duration::from_millis(10))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

fn system_random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Some(bytes),
        Err(error) => {
            log::error!("the system's random source failed, so no session is opened: {error}");
            None
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("open", &self.table.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn epoch() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        Instant::now()
    }

    fn sessions() -> Sessions {
        Sessions::new(3, Duration::from_secs(300), Duration::from_secs(30))
    }

    fn new_session(principal: Option<&str>) -> NewSession {
        NewSession {
            transport: Transport::Streamable,
            version: Version::V2025_11_25,
            capabilities: None,
            client_info: None,
            log_level: None,
            principal: principal.map(Principal::new),
        }
    }

    #[test]
    fn b073_ten_thousand_ids_are_unique_and_visible_ascii() {
        let mut sessions = Sessions::new(10_000, Duration::from_secs(1), Duration::from_secs(1));
        let now = epoch();
        let ids: HashSet<String> = (0..10_000)
            .map(|_| sessions.open(new_session(None), now).unwrap().as_str().to_owned())
            .collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.bytes().all(|b| (0x21..=0x7e).contains(&b))));
    }

    #[test]
    fn inv78_a_failing_random_source_makes_no_session() {
        let mut sessions = sessions();
        sessions.draw_ids_from(|| None);
        assert_eq!(sessions.open(new_session(None), epoch()), Err(NoSession::NoRandom));
        sessions.draw_ids_from(|| Some([1; 16]));
        sessions.open(new_session(None), epoch()).unwrap();
        assert_eq!(sessions.open(new_session(None), epoch()), Err(NoSession::NoRandom));
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn a_foreign_session_looks_unknown_and_does_not_notice() {
        let mut sessions = sessions();
        let start = epoch();
        let id = sessions.open(new_session(Some("alice")), start).unwrap();
        let alice = Principal::new("alice");
        let bob = Principal::new("bob");
        assert!(sessions.judge(id, Some(&alice), start).is_some());
        let late = start + Duration::from_secs(299);
        assert!(sessions.judge(id, Some(&bob), late).is_none());
        assert!(sessions.judge(id, None, late).is_none());
        assert_eq!(sessions.sweep(start + Duration::from_secs(300), |_| false), 1);
    }

    #[test]
    fn a_session_is_known_on_its_own_transport_only() {
        let mut sessions = sessions();
        let now = epoch();
        let legacy = NewSession { transport: Transport::Legacy, ..new_session(None) };
        let (legacy, other) = (sessions.open(legacy, now), sessions.open(new_session(None), now));
        let (legacy, other) = (legacy.unwrap(), other.unwrap());
        assert!(sessions.judge(legacy, None, now).is_none());
        assert!(sessions.judge_on(Transport::Legacy, other, None, now).is_none());
        assert!(sessions.judge_on(Transport::Legacy, legacy, None, now).is_some());
        let tools = sessions.concerned(&Change::Tools);
        assert!(tools.is_empty(), "nothing is negotiated in it");
        sessions.find(legacy).unwrap().settle(new_session(None));
        sessions.judge_on(Transport::Legacy, legacy, None, now);
        assert_eq!(sessions.concerned(&Change::Tools), [legacy]);
        assert_eq!(sessions.find(legacy).unwrap().version, Version::V2025_11_25);
    }

    #[test]
    fn b067_a_session_whose_client_never_came_back_ends_early() {
        let mut sessions = sessions();
        let start = epoch();
        let probe = sessions.open(new_session(None), start).unwrap();
        let used = sessions.open(new_session(None), start).unwrap();
        sessions.judge(used, None, start);
        assert_eq!(sessions.sweep(start + Duration::from_secs(29), |_| false), 0);
        assert_eq!(sessions.sweep(start + Duration::from_secs(30), |_| false), 1);
        assert!(sessions.find(probe).is_none());
        assert!(sessions.find(used).is_some());
    }

    #[test]
    fn the_table_is_bounded() {
        let mut sessions = sessions();
        let now = epoch();
        for _ in 0..3 {
            sessions.open(new_session(None), now).unwrap();
        }
        assert_eq!(sessions.open(new_session(None), now), Err(NoSession::Full));
    }
}
