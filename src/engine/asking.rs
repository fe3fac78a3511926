//! Questions of running calls: to a modern caller with the answer, to a classic one with requests
//! of our own on the call's stream, while the call waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::app::{Desk, Made};
use super::handler::Paused;
use super::{Due, Engine};
use crate::exchange::{AskError, ClientResponse, Input, Outcome, Seat, Waiter};
use crate::filter::{Facts, Passage};
use crate::http::Method;
use crate::key::{ExchangeId, SessionId};
use crate::mcp::model::{
    Answers, At, ClientCapabilities, Ending, InputRequest, Members, NeedInput, Stamped,
};
use crate::mcp::{ask, notification};
use crate::rpc::{ErrorObject, Id, encode};

/// A question from outside any call; a ping if there is none.
pub(crate) struct OutsideAsk {
    pub(crate) session: SessionId,
    pub(crate) request: Option<InputRequest>,
    pub(crate) tell: Box<dyn FnOnce(Outcome) + Send>,
}

/// A call that waits for answers.
#[derive(Debug)]
pub(super) struct Asking {
    paused: Box<Paused>,
    answers: Answers,
    state: Option<String>,
    rounds: usize,
    /// Requests that are out.
    numbers: HashSet<u64>,
}

impl Asking {
    pub(super) fn new(paused: Box<Paused>, state: Option<String>, rounds: usize) -> Self {
        Self { paused, answers: Answers::new(), state, rounds, numbers: HashSet::new() }
    }

    /// Takes all answers at once.
    pub(super) fn answer(&mut self, answers: Answers) {
        self.answers = answers;
    }
}

impl<T> Engine<T> {
    /// Asks what a call needs to know before it can go on.
    pub(super) fn on_need(
        &mut self,
        id: ExchangeId,
        mut paused: Box<Paused>,
        need: NeedInput,
        now: Instant,
    ) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        let (seat, version) = (exchange.seat, exchange.version);
        let context = paused.context();
        let rounds = context.input.as_ref().map_or(0, |input| input.rounds) + 1;
        if let Err(error) = self.app.identity.check_need(&context.caller, &need) {
            return self.fail_call(id, &error, now);
        }
        if rounds > self.limits.ask_rounds_max {
            log::error!("a call has asked too many times and is given up");
            return self.fail_call(id, &ErrorObject::internal(), now);
        }
        if let Seat::Task(task) = seat {
            return self.ask_in_task(task, id, paused, need, rounds, now);
        }
        if version.is_modern() {
            let method = paused.method();
            let mut message = Vec::new();
            let secs = self.unix_secs(now);
            let context = paused.context();
            let ending = self.app.identity.write_need(context, method, &need, secs, &mut message);
            return self.on_answer(id, message, ending, now);
        }
        self.ask_classic(id, paused, need, rounds, now);
    }

    fn ask_classic(
        &mut self,
        id: ExchangeId,
        paused: Box<Paused>,
        need: NeedInput,
        rounds: usize,
        now: Instant,
    ) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        let (session, version) = (exchange.session, exchange.version);
        let Some(session) = session.filter(|_| !matches!(exchange.seat, Seat::Part(_))) else {
            let message = "the client cannot be asked: that needs a session and a single request";
            return self.fail_paused(id, &paused, message, now);
        };
        let (requests, state) = need.into_parts();
        let asking = Asking::new(paused, state, rounds);
        self.asking.insert(id, asking);
        for (name, request) in requests.iter() {
            let waiter = Waiter::Call { exchange: id, name: name.to_owned() };
            let patience = self.patience(request.method());
            let Ok(number) = self.asks.add(session, waiter, now + patience) else {
                return self.fail_asking(id, &AskError::TooMany, now);
            };
            self.timers.arm(now + patience, Due::Ask(number));
            if let Some(asking) = self.asking.get_mut(&id) {
                asking.numbers.insert(number);
            }
            let mut message = Vec::new();
            let params = At(&request.params(), version);
            encode::write_request(&mut message, &Id::from(number), request.method(), &params);
            if !self.say(id, &message, now) {
                return self.fail_asking(id, &AskError::NoStream, now);
            }
        }
        if requests.is_empty() {
            self.run_on(id, now);
        }
    }

    /// How long a client may take: people think, programs do not.
    fn patience(&self, method: &str) -> Duration {
        match method {
            ask::ROOTS | ask::PING => self.timeouts.ask_client,
            _ => self.timeouts.ask_user,
        }
    }

    /// Asks a session something that belongs to none of its calls.
    pub(super) fn on_outside_ask(&mut self, ask: OutsideAsk, now: Instant) {
        let OutsideAsk { session, request, tell } = ask;
        let Some(found) = self.sessions.find(session) else {
            return tell(Err(AskError::NoSession));
        };
        let (version, declared) = (found.version, declared(found.capabilities.as_deref()));
        let able = |asked: &InputRequest| asked.exists_in(version) && asked.is_declared(&declared);
        if request.as_ref().is_some_and(|asked| !able(asked)) {
            return tell(Err(AskError::NotDeclared));
        }
        let method = request.as_ref().map_or(ask::PING, InputRequest::method);
        let deadline = now + self.patience(method);
        let number = match self.asks.add(session, Waiter::Told(tell), deadline) {
            Ok(number) => number,
            Err(Waiter::Told(tell)) => return tell(Err(AskError::TooMany)),
            Err(Waiter::Call { .. }) => return,
        };
        self.timers.arm(deadline, Due::Ask(number));
        let id = Id::from(number);
        let mut message = Vec::new();
        match &request {
            Some(asked) => {
                let params = At(&asked.params(), version);
                encode::write_request(&mut message, &id, method, &params);
            }
            None => {
                encode::write_request(&mut message, &id, method, &Members::new());
            }
        }
        self.tell_session(session, &message, now);
    }

    /// Takes a client's answer to a request of ours.
    pub(super) fn on_client_response(
        &mut self,
        session: Option<SessionId>,
        response: ClientResponse,
        now: Instant,
    ) {
        let number = match response.id {
            Some(Id::Number(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        let waiter = session
            .zip(number)
            .and_then(|(session, number)| Some((number, self.asks.answered(session, number)?)));
        let Some((number, waiter)) = waiter else {
            self.app.unasked += 1;
            return log::warn!("a client answered what nobody waits for");
        };
        let outcome = response.outcome.map_err(|raw| {
            AskError::Refused(serde_json::from_str(raw.get()).unwrap_or_else(|_| {
                ErrorObject::invalid_request("the client's error has no readable form")
            }))
        });
        match waiter {
            Waiter::Call { exchange, name } => {
                self.on_outcome(exchange, &name, number, outcome, now)
            }
            Waiter::Told(tell) => tell(outcome),
        }
    }

    fn on_outcome(
        &mut self,
        id: ExchangeId,
        name: &str,
        number: u64,
        outcome: Outcome,
        now: Instant,
    ) {
        let answer: Arc<RawValue> = match outcome {
            Ok(answer) => Arc::from(answer),
            Err(error) => return self.fail_asking(id, &error, now),
        };
        let Some(asking) = self.asking.get_mut(&id) else { return };
        asking.numbers.remove(&number);
        asking.answers.insert(name, answer);
        if asking.numbers.is_empty() {
            self.run_on(id, now);
        }
    }

    /// Runs a call again, with the answers it waited for.
    pub(super) fn run_on(&mut self, id: ExchangeId, now: Instant) {
        let Some(asking) = self.asking.remove(&id) else { return };
        let Asking { mut paused, answers, state, rounds, .. } = asking;
        paused.context().input = Some(Box::new(Input { answers, state, rounds }));
        let now_secs = self.unix_secs(now);
        let Self {
            exchanges,
            sessions,
            subscriptions,
            tasks,
            catalog,
            mailbox,
            limits,
            scratch,
            app,
            ..
        } = self;
        let Some(exchange) = exchanges.find(id) else { return };
        let (seat, reply) = (exchange.seat, exchange.reply);
        let mut passage = Passage::new();
        let mut desk = Desk {
            now,
            now_secs,
            seat,
            again: Some(id),
            reply,
            passage: &mut passage,
            facts: Facts::new(Method::Post, ""),
            exchanges,
            sessions,
            subscriptions,
            tasks,
            orders: Vec::new(),
            catalog,
            mailbox,
            limits,
            body: scratch,
        };
        let made = app.run_again(*paused, &mut desk);
        let body = std::mem::take(&mut self.scratch).into_whole();
        match made {
            Made::Answered { ending, said, .. } => {
                for message in said {
                    self.say(id, &message, now);
                }
                self.on_answer(id, body, ending, now);
            }
            Made::Refused(_) => self.on_answer(id, body, BUSY, now),
            Made::Asking { paused, need, said, .. } => {
                for message in said {
                    self.say(id, &message, now);
                }
                self.on_need(id, paused, need, now);
            }
            Made::Pending(_) => {}
        }
    }

    /// Gives up on the answers a call waits for, and on the call.
    pub(super) fn fail_asking(&mut self, id: ExchangeId, error: &AskError, now: Instant) {
        if let Some(paused) = self.forget_asking(id, now) {
            self.fail_paused(id, &paused, &error.to_string(), now);
        }
    }

    /// Withdraws the questions of a call.
    pub(super) fn forget_asking(&mut self, id: ExchangeId, now: Instant) -> Option<Box<Paused>> {
        let asking = self.asking.remove(&id)?;
        for number in asking.numbers {
            if self.asks.take(number).is_some() {
                self.withdraw(id, number, now);
            }
        }
        Some(asking.paused)
    }

    /// Tells a client that its answer is no longer wanted.
    fn withdraw(&mut self, id: ExchangeId, number: u64, now: Instant) {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_id: u64,
        }
        let mut message = Vec::new();
        let params = Params { request_id: number };
        encode::write_notification(&mut message, notification::CANCELLED, &params);
        self.say(id, &message, now);
    }

    fn fail_paused(&mut self, id: ExchangeId, paused: &Paused, message: &str, now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        match paused.failure(message.to_owned()) {
            Ok(result) => {
                let call = exchange.call().cloned();
                let stamped = Stamped::new(&result, exchange.version, &self.app.identity.stamp);
                let mut body = Vec::new();
                if let Some(call) = call {
                    encode::write_result(&mut body, &call, &stamped);
                    self.on_answer(id, body, Ending::Failure, now);
                }
            }
            Err(error) => self.fail_call(id, &error, now),
        }
    }

    pub(super) fn fail_call(&mut self, id: ExchangeId, error: &ErrorObject, now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        let mut body = Vec::new();
        encode::write_error(&mut body, exchange.call(), error);
        self.on_answer(id, body, Ending::Error(error.code), now);
    }

    /// The time of a request of ours is up.
    pub(super) fn on_ask_timer(&mut self, number: u64, now: Instant) {
        match self.asks.expired(number, now) {
            Some((_, Waiter::Call { exchange, .. })) => {
                if let Some(asking) = self.asking.get_mut(&exchange) {
                    asking.numbers.remove(&number);
                }
                self.withdraw(exchange, number, now);
                self.fail_asking(exchange, &AskError::TimedOut, now);
            }
            Some((_, Waiter::Told(tell))) => tell(Err(AskError::TimedOut)),
            None => {}
        }
    }

    /// Tells everybody who waits for sessions that have ended.
    pub(super) fn end_asks(&mut self, sessions: &HashSet<SessionId>) {
        for waiter in self.asks.of_sessions(sessions) {
            if let Waiter::Told(tell) = waiter {
                tell(Err(AskError::NoSession));
            }
        }
    }
}

/// There was no room for the call.
const BUSY: Ending = Ending::Error(crate::rpc::INTERNAL_ERROR);

fn declared(raw: Option<&RawValue>) -> ClientCapabilities {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
