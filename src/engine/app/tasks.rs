//! Questions about tasks (extension `io.modelcontextprotocol/tasks`).

use super::{App, Desk, Made};
use crate::exchange::Caller;
use crate::filter::endpoint::Ask;
use crate::mcp::model::{Answers, ClientCapabilities, EmptyResult};
use crate::mcp::task::{Answered, GetTaskResult, TaskId, task_not_found, tasks_required};
use crate::mcp::{Method, TASKS_EXTENSION, method_not_found};
use crate::rpc::ErrorObject;

/// What a request about a task has the engine do.
#[derive(Debug)]
pub(crate) enum TaskOrder {
    /// The task has been cancelled, and the call it was with it.
    Cancelled(TaskId),
    /// All that the task asked is answered.
    GoOn(TaskId, Answers),
}

/// Whether a caller has declared that it knows tasks.
pub(super) fn knows_tasks(caller: &Caller<'_>) -> bool {
    if !caller.version.rules().extensions {
        return false;
    }
    let declared: Option<ClientCapabilities> =
        caller.capabilities.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    declared.is_some_and(|declared| declared.extension(TASKS_EXTENSION).is_some())
}

impl App {
    /// `tasks/get`, `tasks/update`, `tasks/cancel`. Whether the task exists is looked at last, so
    /// that nobody learns of it who could do nothing with it.
    pub(super) fn task(
        &self,
        method: Method,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        if self.identity.capabilities.extensions.get(TASKS_EXTENSION).is_none() {
            return Err(method_not_found(&ask.method));
        }
        if !knows_tasks(caller) {
            return Err(tasks_required());
        }
        let named = ask.params.task_id.as_ref().ok_or_else(|| super::missing("taskId"))?;
        let principal = caller.principal.as_ref();
        let id = desk.tasks.find(named.as_str(), principal).ok_or_else(task_not_found)?;
        match method {
            Method::TasksCancel => {
                if desk.tasks.cancel(id, desk.now_secs) {
                    desk.orders.push(TaskOrder::Cancelled(id));
                }
            }
            Method::TasksUpdate => {
                let responses = ask.params.input_responses;
                let responses = responses.ok_or_else(|| super::missing("inputResponses"))?;
                let answers = super::need::read_answers(responses)?;
                match desk.tasks.answer(id, answers, desk.now_secs) {
                    Answered::All(answers) => desk.orders.push(TaskOrder::GoOn(id, answers)),
                    Answered::Full => {
                        let message = "too many bytes wait for tasks; answer all at once";
                        return Err(ErrorObject::new(crate::rpc::INTERNAL_ERROR, message));
                    }
                    Answered::Partly | Answered::Unchanged => {}
                }
            }
            _ => {
                let tasks = &*desk.tasks;
                let task = tasks.get(id).ok_or_else(task_not_found)?;
                let result = GetTaskResult(task);
                return Ok(self.identity.answer(caller, &ask.id, &result, desk.body));
            }
        }
        Ok(self.answer(caller, &ask.id, &EmptyResult::default(), desk))
    }
}
