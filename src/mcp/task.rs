//! Calls that go on after they have been answered: the table of tasks, which says how each is doing
//! to those who may know. It knows neither what works on a task nor who listens, and is told the
//! time.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::model::{Answers, At, InputRequests, raw};
use super::version::Version;
use crate::key::{Hasher, Principal};
use crate::limits::{TASK_QUESTIONS_MAX, TASK_STATUS_BYTES_MAX, TaskLimits};
use crate::rpc::{ErrorObject, excerpt_to};
use crate::timers::Timers;

mod id;
mod wire;

pub(crate) use id::TaskId;
pub(crate) use wire::{
    CreateTaskResult, GetTaskResult, TaskStatus, task_not_found, tasks_required,
};

/// How a task is doing.
///
/// ```text
///             ask                     complete
///  Working ─────────▶ InputRequired ────────────▶ Completed
///     ▲                  │                  fail
///     └──────────────────┘  (either one) ───────▶ Failed
///       all are answered                   cancel
///                                       ────────▶ Cancelled
/// ```
///
/// A task that has come to one of the states on the right stays there until it is forgotten.
#[derive(Debug)]
enum State {
    Working,
    InputRequired {
        /// Questions not answered yet, as they are asked; never empty.
        outstanding: Vec<(Box<str>, Box<RawValue>)>,
        /// Answers that wait for the others.
        collected: Answers,
    },
    /// With what the call would have been answered.
    Completed(Box<RawValue>),
    /// With the error the call would have been answered with.
    Failed(Box<RawValue>),
    Cancelled,
}

impl State {
    fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }

    /// What of it counts against the bytes of all tasks.
    fn bytes(&self) -> usize {
        match self {
            Self::Working | Self::Cancelled => 0,
            Self::Completed(value) | Self::Failed(value) => value.get().len(),
            Self::InputRequired { outstanding, collected } => {
                let asked = outstanding.iter().map(|(name, value)| name.len() + value.get().len());
                let given = collected.iter().map(|(name, value)| name.len() + value.get().len());
                asked.chain(given).sum()
            }
        }
    }
}

/// A call that goes on after it has been answered.
#[derive(Debug)]
pub(crate) struct Task {
    id: TaskId,
    owner: Option<Principal>,
    version: Version,
    state: State,
    message: Option<String>,
    created_secs: u64,
    updated_secs: u64,
    ttl: Option<Duration>,
    poll_interval: Option<Duration>,
    /// Every name a question ever had: a name that was used for another one would make clients
    /// answer the wrong question.
    names: HashSet<Box<str>>,
    /// What the task counted for the last time that was looked at.
    bytes: usize,
}

impl Task {
    /// What the task counts for now.
    fn size(&self) -> usize {
        let names = self.names.iter().map(|name| name.len()).sum::<usize>();
        TASK_BYTES + self.message.as_ref().map_or(0, String::len) + names + self.state.bytes()
    }
}

/// What a task without contents counts for; a little more than it takes.
const TASK_BYTES: usize = 512;

/// What is known of a task before it begins.
#[derive(Clone, Debug)]
pub(crate) struct NewTask {
    /// Whose it is; nobody but they will find it.
    pub(crate) owner: Option<Principal>,
    /// The revision in which its questions are asked.
    pub(crate) version: Version,
    /// How long after its beginning it is forgotten, finished or not; never, if there is none.
    pub(crate) ttl: Option<Duration>,
    /// How long callers are asked to wait before they ask again.
    pub(crate) poll_interval: Option<Duration>,
}

/// Why no task was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTask {
    /// As many as the limits allow are there, or as many bytes.
    Full,
    /// As many of this caller's as the limits allow are there.
    CallerFull,
    /// The random source failed. There is no weaker source to fall back to: a task whose id can be
    /// guessed is worse than none.
    NoRandom,
}

/// Why a question was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAsked {
    /// The task has ended or been forgotten.
    Ended,
    /// There is no question, and so nothing that could be answered.
    Nothing,
    /// A question had the same name before.
    NameUsed,
    /// The task has asked too much already.
    TooMany,
    /// All tasks together hold as many bytes as the limits allow.
    Full,
}

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the task has ended",
            Self::Nothing => "nothing is asked",
            Self::NameUsed => "a question of the task had this name before",
            Self::TooMany => "the task has asked too many questions",
            Self::Full => "the tasks of this server hold too many bytes",
        })
    }
}

impl std::error::Error for NotAsked {}

/// What came of answers to a task.
#[derive(Clone, Debug)]
pub(crate) enum Answered {
    /// None of them was asked for.
    Unchanged,
    /// Some were, and others are still to come.
    Partly,
    /// These are all that were asked for; the task goes on with them.
    All(Answers),
    /// All tasks together hold as many bytes as the limits allow, so that none was taken.
    Full,
}

/// A task that was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Which one.
    pub(crate) id: TaskId,
    /// Whether somebody may still work on it, in vain from here on.
    pub(crate) was_running: bool,
}

/// All tasks of one server.
pub(crate) struct Tasks {
    table: HashMap<TaskId, Task, Hasher>,
    /// How many tasks each caller has; those who are not told apart are one.
    per_caller: HashMap<Option<Principal>, usize, Hasher>,
    /// When tasks are to be forgotten. One entry each, since that moment never moves.
    timers: Timers<TaskId>,
    random: Random,
    limits: TaskLimits,
    bytes: usize,
}

/// Where ids come from; none when the source fails.
type Random = Box<dyn FnMut() -> Option<[u8; 16]>>;

/// A collision of 128 random bits means that the source is broken, not unlucky.
const DRAWS_MAX: usize = 4;

impl Tasks {
    pub(crate) fn new(limits: TaskLimits) -> Self {
        Self {
            table: HashMap::default(),
            per_caller: HashMap::default(),
            timers: Timers::new(),
            random: Box::new(system_random),
            limits,
            bytes: 0,
        }
    }

    /// Replaces the random source, for tests of what happens when it fails.
    #[cfg(test)]
    pub(crate) fn draw_ids_from(&mut self, random: impl FnMut() -> Option<[u8; 16]> + 'static) {
        self.random = Box::new(random);
    }

    /// Begins a task. It can be found from now on, so that its caller may be told of it.
    pub(crate) fn create(
        &mut self,
        new: NewTask,
        unix_secs: u64,
        now: Instant,
    ) -> Result<TaskId, NoTask> {
        if self.table.len() >= self.limits.tasks_max || self.room() < TASK_BYTES {
            return Err(NoTask::Full);
        }
        let of_caller = self.per_caller.get(&new.owner).copied().unwrap_or(0);
        if of_caller >= self.limits.per_caller_max {
            return Err(NoTask::CallerFull);
        }
        let id = self.draw().ok_or(NoTask::NoRandom)?;
        if let Some(end) = new.ttl.and_then(|ttl| now.checked_add(ttl)) {
            self.timers.arm(end, id);
        }
        self.per_caller.insert(new.owner.clone(), of_caller + 1);
        let task = Task {
            id,
            owner: new.owner,
            version: new.version,
            state: State::Working,
            message: None,
            created_secs: unix_secs,
            updated_secs: unix_secs,
            ttl: new.ttl,
            poll_interval: new.poll_interval,
            names: HashSet::new(),
            bytes: TASK_BYTES,
        };
        self.bytes += task.bytes;
        self.table.insert(id, task);
        Ok(id)
    }

    fn draw(&mut self) -> Option<TaskId> {
        for _ in 0..DRAWS_MAX {
            let id = TaskId::from_random((self.random)()?);
            if !self.table.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// How many more bytes tasks may hold.
    fn room(&self) -> usize {
        self.limits.bytes_max.saturating_sub(self.bytes)
    }

    /// The task of this name, if it is this caller's. Somebody else's is answered like one that
    /// does not exist.
    pub(crate) fn find(&self, id: &str, caller: Option<&Principal>) -> Option<TaskId> {
        let task = self.table.get(&TaskId::parse(id)?)?;
        Principal::same(task.owner.as_ref(), caller).then_some(task.id)
    }

    /// A task, whosever it is.
    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.table.get(&id)
    }

    /// A task that has not ended.
    fn running(&mut self, id: TaskId) -> Option<&mut Task> {
        self.table.get_mut(&id).filter(|task| !task.state.is_terminal())
    }

    /// Counts anew what a task holds, after a change at this time.
    fn settle(&mut self, id: TaskId, unix_secs: u64) {
        let Some(task) = self.table.get_mut(&id) else { return };
        let before = task.bytes;
        task.bytes = task.size();
        // A clock that was set back does not make a task older than it is.
        task.updated_secs = unix_secs.max(task.updated_secs);
        self.bytes = self.bytes - before + task.bytes;
    }

    /// Says in words how a task is doing, if it has not ended; what is too long is cut off.
    pub(crate) fn tell(&mut self, id: TaskId, message: &str, unix_secs: u64) -> bool {
        let Some(task) = self.running(id) else { return false };
        task.message = Some(excerpt_to(message, TASK_STATUS_BYTES_MAX).to_owned());
        self.settle(id, unix_secs);
        true
    }

    /// Asks the caller of a task, all of it or nothing. Whether the caller has declared that it can
    /// be asked is for others to see to.
    pub(crate) fn ask(
        &mut self,
        id: TaskId,
        requests: &InputRequests,
        unix_secs: u64,
    ) -> Result<(), NotAsked> {
        let room = self.room();
        let task = self.running(id).ok_or(NotAsked::Ended)?;
        if requests.is_empty() {
            return Err(NotAsked::Nothing);
        }
        if task.names.len() + requests.len() > TASK_QUESTIONS_MAX {
            return Err(NotAsked::TooMany);
        }
        if requests.iter().any(|(name, _)| task.names.contains(name)) {
            return Err(NotAsked::NameUsed);
        }
        let version = task.version;
        let written = |(name, request)| (Box::from(name), raw(&At(request, version)));
        let asked: Vec<(Box<str>, Box<RawValue>)> = requests.iter().map(written).collect();
        let bytes = asked.iter().map(|(name, text)| 2 * name.len() + text.get().len());
        if bytes.sum::<usize>() > room {
            return Err(NotAsked::Full);
        }
        task.names.extend(asked.iter().map(|(name, _)| name.clone()));
        match &mut task.state {
            State::InputRequired { outstanding, .. } => outstanding.extend(asked),
            state => {
                *state = State::InputRequired { outstanding: asked, collected: Answers::new() };
            }
        }
        self.settle(id, unix_secs);
        Ok(())
    }

    /// Takes those answers that were asked for and not given yet. Once there is one to every
    /// question, all are handed over and the task works on.
    pub(crate) fn answer(&mut self, id: TaskId, mut answers: Answers, unix_secs: u64) -> Answered {
        let room = self.room();
        let Some(task) = self.running(id) else { return Answered::Unchanged };
        let State::InputRequired { outstanding, collected } = &mut task.state else {
            return Answered::Unchanged;
        };
        let taken = outstanding
            .iter()
            .filter_map(|(name, _)| answers.remove(name).map(|answer| (name.clone(), answer)));
        let taken: Vec<(Box<str>, Arc<RawValue>)> = taken.collect();
        if taken.is_empty() {
            return Answered::Unchanged;
        }
        let is_whole = taken.len() == outstanding.len();
        let bytes = taken.iter().map(|(name, answer)| name.len() + answer.get().len());
        // What is handed over at once is not held.
        if !is_whole && bytes.sum::<usize>() > room {
            return Answered::Full;
        }
        for (name, answer) in taken {
            outstanding.retain(|(asked, _)| *asked != name);
            collected.insert(&name, answer);
        }
        let answered = if is_whole {
            let collected = std::mem::take(collected);
            task.state = State::Working;
            Answered::All(collected)
        } else {
            Answered::Partly
        };
        self.settle(id, unix_secs);
        answered
    }

    /// Ends a task with the result of its call; false if it had ended before.
    ///
    /// A result for which there is no room makes the task fail: a caller that is told so can call
    /// again, one that is told nothing would wait for ever.
    pub(crate) fn complete(&mut self, id: TaskId, result: Box<RawValue>, unix_secs: u64) -> bool {
        let room = self.room();
        let Some(task) = self.running(id) else { return false };
        if result.get().len() > room + task.state.bytes() {
            log::warn!("a task fails since its result of {} bytes is not kept", result.get().len());
            let message = "The result is too large to be kept";
            return self.fail(
                id,
                &ErrorObject::new(crate::rpc::INTERNAL_ERROR, message),
                unix_secs,
            );
        }
        self.end(id, State::Completed(result), None, unix_secs)
    }

    /// Ends a task with the error its call would have been answered with; false if it had ended
    /// before. A result that only says that a tool failed is a result.
    pub(crate) fn fail(&mut self, id: TaskId, error: &ErrorObject, unix_secs: u64) -> bool {
        let message = excerpt_to(&error.message, TASK_STATUS_BYTES_MAX).to_owned();
        let mut written = raw(error);
        if written.get().len() > self.room() {
            written = raw(&ErrorObject::internal());
        }
        self.end(id, State::Failed(written), Some(message), unix_secs)
    }

    /// Ends a task because nobody wants it any more; false if it had ended before.
    pub(crate) fn cancel(&mut self, id: TaskId, unix_secs: u64) -> bool {
        self.end(id, State::Cancelled, None, unix_secs)
    }

    fn end(&mut self, id: TaskId, state: State, message: Option<String>, unix_secs: u64) -> bool {
        let Some(task) = self.running(id) else { return false };
        task.state = state;
        task.message = message;
        task.names = HashSet::new();
        self.settle(id, unix_secs);
        true
    }

    /// When the next task is to be forgotten.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Forgets a task whose time is up, and says which.
    pub(crate) fn poll_expired(&mut self, now: Instant) -> Option<Expired> {
        let (_, id) = self.timers.pop_due(now)?;
        let task = self.table.remove(&id).expect("a task goes by its one timer only");
        self.bytes -= task.bytes;
        if let Some(count) = self.per_caller.get_mut(&task.owner) {
            *count -= 1;
            if *count == 0 {
                self.per_caller.remove(&task.owner);
            }
        }
        Some(Expired { id, was_running: !task.state.is_terminal() })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many bytes they hold together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn system_random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Some(bytes),
        Err(error) => {
            log::error!("the system's random source failed, so no task is begun: {error}");
            None
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, bytes) = (self.table.len(), self.bytes);
        f.debug_struct("Tasks")
            .field("tasks", &tasks)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
