//! Calls that have become tasks: answered at once, worked on without a connection, asked about
//! until they are forgotten.

use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::app::tasks::TaskOrder;
use super::asking::Asking;
use super::handler::Paused;
use super::{Due, Engine};
use crate::exchange::{Committed, Exchange, Seat};
use crate::key::{ExchangeId, Principal};
use crate::mcp::model::{Ending, NeedInput, Stamped};
use crate::mcp::notification;
use crate::mcp::task::{CreateTaskResult, NewTask, TaskId};
use crate::rpc::{self, ErrorObject, encode};

impl<T> Engine<T> {
    /// Makes a task of a running call, at the wish of its handler or its tool: the caller is
    /// answered with the task.
    pub(super) fn on_task(&mut self, id: ExchangeId, owner: Option<Principal>, now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        let Seat::Attached(key) = exchange.seat else { return };
        let new = NewTask {
            owner,
            version: exchange.version,
            ttl: Some(self.timeouts.task_ttl),
            poll_interval: Some(self.timeouts.task_poll),
        };
        let secs = self.unix_secs(now);
        let task = match self.tasks.create(new, secs, now) {
            Ok(task) => task,
            Err(reason) => return log::warn!("{id} does not become a task: {reason:?}"),
        };
        let Some(mut exchange) = self.exchanges.close(id) else { return };
        let message = self.created(task, &exchange);
        self.answer_exchange(key, id, &exchange, &message, Ending::Result, now);
        exchange.seat = Seat::Task(task);
        exchange.committed = Committed::Nothing;
        if self.exchanges.reopen(id, exchange).is_ok() {
            self.task_calls.insert(task, id);
        }
        self.arm_tasks();
    }

    fn created(&self, task: TaskId, exchange: &Exchange) -> Vec<u8> {
        let mut message = Vec::new();
        if let (Some(call), Some(task)) = (exchange.call(), self.tasks.get(task)) {
            let result = CreateTaskResult(task);
            let stamped = Stamped::new(&result, exchange.version, &self.app.identity.stamp);
            encode::write_result(&mut message, call, &stamped);
        }
        message
    }

    /// The call of a task has its answer, which ends the task.
    pub(super) fn end_task(&mut self, task: TaskId, message: &[u8], now: Instant) {
        #[derive(Deserialize)]
        struct Answer {
            result: Option<Box<RawValue>>,
            error: Option<ErrorObject>,
        }
        self.task_calls.remove(&task);
        let secs = self.unix_secs(now);
        let answer: Answer =
            serde_json::from_slice(message).unwrap_or(Answer { result: None, error: None });
        let changed = match (answer.result, answer.error) {
            (Some(result), _) => self.tasks.complete(task, result, secs),
            (None, error) => {
                let error = error.unwrap_or_else(ErrorObject::internal);
                self.tasks.fail(task, &error, secs)
            }
        };
        if changed {
            self.tell_task(task, now);
        }
    }

    /// The call of a task asks its caller first.
    pub(super) fn ask_in_task(
        &mut self,
        task: TaskId,
        id: ExchangeId,
        paused: Box<Paused>,
        need: NeedInput,
        rounds: usize,
        now: Instant,
    ) {
        let (requests, state) = need.into_parts();
        self.asking.insert(id, Asking::new(paused, state, rounds));
        if requests.is_empty() {
            return self.run_on(id, now);
        }
        let secs = self.unix_secs(now);
        if let Err(reason) = self.tasks.ask(task, &requests, secs) {
            log::error!("the questions of a task were not asked: {reason}");
            self.asking.remove(&id);
            let error = ErrorObject::new(rpc::INTERNAL_ERROR, reason.to_string());
            return self.fail_call(id, &error, now);
        }
        self.tell_task(task, now);
    }

    /// Does what requests about tasks have brought.
    pub(super) fn follow_orders(&mut self, orders: Vec<TaskOrder>, now: Instant) {
        for order in orders {
            match order {
                TaskOrder::Cancelled(task) => {
                    if let Some(id) = self.task_calls.remove(&task) {
                        self.cancel_call(id, now);
                    }
                    self.tell_task(task, now);
                }
                TaskOrder::GoOn(task, answers) => {
                    self.tell_task(task, now);
                    let Some(id) = self.task_calls.get(&task).copied() else { continue };
                    if let Some(asking) = self.asking.get_mut(&id) {
                        asking.answer(answers);
                        self.run_on(id, now);
                    }
                }
            }
        }
    }

    /// What a task reports of its progress in words is what is told of it.
    pub(super) fn note_progress(&mut self, task: TaskId, message: &[u8], now: Instant) {
        #[derive(Deserialize)]
        struct Report {
            method: String,
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            message: Option<String>,
        }
        let Ok(Report { method, params }) = serde_json::from_slice(message) else { return };
        let Some(words) = params.message.filter(|_| method == notification::PROGRESS) else {
            return;
        };
        let secs = self.unix_secs(now);
        if self.tasks.tell(task, &words, secs) {
            self.tell_task(task, now);
        }
    }

    /// Tells those who listen how a task is doing.
    fn tell_task(&mut self, id: TaskId, now: Instant) {
        let Some(task) = self.tasks.get(id) else { return };
        for (stream, message) in self.subscriptions.tell_task(id, task) {
            self.say(stream, &message, now);
        }
    }

    /// Forgets tasks whose time is up.
    pub(super) fn expire_tasks(&mut self, now: Instant) {
        self.tasks_armed = None;
        while self.tasks.next_deadline().is_some_and(|due| due <= now) {
            let Some(expired) = self.tasks.poll_expired(now) else { break };
            if let Some(id) = self.task_calls.remove(&expired.id) {
                log::warn!("a task ran longer than it can be asked about, and is cancelled");
                self.cancel_call(id, now);
            }
        }
        self.arm_tasks();
    }

    fn arm_tasks(&mut self) {
        let due = self.tasks.next_deadline();
        if let Some(due) = due.filter(|due| self.tasks_armed.is_none_or(|armed| armed > *due)) {
            self.tasks_armed = Some(due);
            self.timers.arm(due, Due::Tasks);
        }
    }
}
