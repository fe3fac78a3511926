//! Tasks as callers see them.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{State, Task};
use crate::calendar::iso_utc;
use crate::mcp::model::{Members, Meta, Outcome};
use crate::mcp::version::Version;
use crate::mcp::{TASKS_EXTENSION, missing_capability};
use crate::rpc::ErrorObject;

/// There is no such task, or none for this caller: which of the two, nobody is told.
pub(crate) fn task_not_found() -> ErrorObject {
    ErrorObject::invalid_params("Task not found")
}

/// The request is about tasks, and its client did not declare that it knows them.
pub(crate) fn tasks_required() -> ErrorObject {
    let extensions = Members::new().with(TASKS_EXTENSION, Members::new());
    missing_capability(Members::new().with("extensions", extensions))
}

impl Task {
    /// Writes what is known of a task that has only begun.
    fn outline<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("taskId", &format_args!("{}", self.id))?;
        map.serialize_entry("status", self.state.name())?;
        if let Some(message) = &self.message {
            map.serialize_entry("statusMessage", message)?;
        }
        map.serialize_entry("createdAt", &iso_utc(self.created_secs))?;
        map.serialize_entry("lastUpdatedAt", &iso_utc(self.updated_secs))?;
        map.serialize_entry("ttlMs", &self.ttl.map(millis))?;
        if let Some(interval) = self.poll_interval {
            map.serialize_entry("pollIntervalMs", &millis(interval))?;
        }
        Ok(())
    }

    /// Writes all that is known of a task.
    fn details<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.outline(map)?;
        match &self.state {
            State::Working | State::Cancelled => Ok(()),
            State::InputRequired { outstanding, .. } => {
                map.serialize_entry("inputRequests", &Outstanding(outstanding))
            }
            State::Completed(result) => map.serialize_entry("result", result),
            State::Failed(error) => map.serialize_entry("error", error),
        }
    }
}

/// Milliseconds, of which there is at least one: zero is no time to live and none to wait.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl State {
    /// The word on the wire.
    fn name(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired { .. } => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Questions not answered yet.
struct Outstanding<'a>(&'a [(Box<str>, Box<serde_json::value::RawValue>)]);

impl Serialize for Outstanding<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, request)| (name, request)))
    }
}

/// The kind of a result that says that the real one comes later.
const TASK: &str = "task";

/// The answer to a call that has become a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateTaskResult<'a>(pub(crate) &'a Task);

impl Outcome for CreateTaskResult<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M, _version: Version) -> Result<(), M::Error> {
        self.0.outline(map)
    }

    fn meta(&self) -> Option<&Meta> {
        None
    }

    fn result_type(&self) -> Option<&str> {
        Some(TASK)
    }
}

/// The answer to the question how a task is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GetTaskResult<'a>(pub(crate) &'a Task);

impl Outcome for GetTaskResult<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M, _version: Version) -> Result<(), M::Error> {
        self.0.details(map)
    }

    fn meta(&self) -> Option<&Meta> {
        None
    }
}

/// How a task is doing, as those hear it who listen: what they would be answered if they asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskStatus<'a> {
    /// The task.
    pub(crate) task: &'a Task,
    /// By what the listener tells the subscription.
    pub(crate) meta: &'a Meta,
}

impl Serialize for TaskStatus<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.task.details(&mut map)?;
        if !self.meta.is_empty() {
            map.serialize_entry("_meta", self.meta)?;
        }
        map.end()
    }
}
