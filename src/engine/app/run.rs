//! One call through one handler, whichever way that handler answers.

use std::sync::Arc;

use super::need::may_not_ask;
use super::{Circuit, Desk, Identity, Made, Output, busy, write_result};
use crate::engine::handler::{AsContext, Handler, Kind, ToolCall, Tools};
use crate::exchange::{Caller, Notifier, Outlet, Purpose, Responder, Seat, Ticket, Verify};
use crate::guard::guarded;
use crate::http::Status;
use crate::mcp::model::{NeedInput, Outcome, Reply, Stamped, TaskSupport};
use crate::mcp::schema::Schema;
use crate::rpc::{ErrorObject, Id};
use crate::workers::Workers;

/// What running a call needs of the application, beside the handler itself.
pub(super) struct Run<'a> {
    pub(super) identity: &'a Identity,
    pub(super) workers: &'a mut Workers,
    /// What a result's structured content must conform to.
    pub(super) output: Option<Arc<Schema>>,
}

impl Run<'_> {
    pub(super) fn run<'c, K: Kind>(
        self,
        handler: &mut Handler<K>,
        mut call: K::Call<'c>,
        desk: &mut Desk<'_>,
    ) -> Made {
        match handler {
            Handler::Direct(code) => {
                if desk.again.is_some() {
                    let context = call.context();
                    context.notifier = Notifier::new(&context.caller, Outlet::Buffer(Vec::new()));
                }
                let returned = guarded(|| code(&mut call));
                let context = call.context();
                let said = context.notifier.take_buffered();
                let result = match returned {
                    Ok(Ok(Reply::Done(result))) => Ok(result),
                    Ok(Ok(Reply::NeedInput(need))) => {
                        return self.need::<K>(call, need, said, desk);
                    }
                    Ok(Err(error)) => K::failure(error),
                    Err(_) => Err(ErrorObject::internal()),
                };
                let made = match &result {
                    Ok(result) => self.write::<K>(&context.caller, &context.id, result, desk),
                    Err(error) => desk.fail(&context.id, error),
                };
                match made {
                    Made::Answered { ending, session, .. } => {
                        Made::Answered { ending, said, session }
                    }
                    other => other,
                }
            }
            Handler::Deferred(code) => {
                self.defer::<K>(call, desk, |call, responder, _| {
                    // A panic drops the responder on its way out, and that answers.
                    if guarded(|| code(call, responder)).is_err() {
                        log::error!("a deferred handler panicked");
                    }
                })
            }
            Handler::Blocking(code) => {
                let code = Arc::clone(code);
                self.defer::<K>(call, desk, |mut call, responder, workers| {
                    let job = move || match code(&mut call) {
                        Ok(Reply::Done(result)) => responder.finish(result),
                        Ok(Reply::NeedInput(need)) => match K::pause(call) {
                            Some(paused) => responder.ask_kept(Box::new(paused), need),
                            None => responder.fail(may_not_ask()),
                        },
                        Err(error) => match K::failure(error) {
                            Ok(result) => responder.finish(result),
                            Err(error) => responder.fail(error),
                        },
                    };
                    if workers.run(job).is_err() {
                        log::warn!("all workers are occupied; a blocking call was refused");
                    }
                })
            }
        }
    }

    /// Runs a tool that has a breaker, unless that is open.
    pub(super) fn run_behind(
        self,
        circuit: &mut Circuit,
        handler: &mut Handler<Tools>,
        mut call: ToolCall<'_>,
        desk: &mut Desk<'_>,
    ) -> Made {
        match circuit.admit(desk.now) {
            Err(wait) => {
                let context = call.context();
                let refusal = circuit.refusal(wait);
                self.write::<Tools>(&context.caller, &context.id, &refusal, desk)
            }
            Ok(pass) => {
                let made = self.run(handler, call, desk);
                circuit.follow(pass, &made, desk);
                made
            }
        }
    }

    /// A direct handler asks first: the caller is answered with the questions, or asked while the
    /// call waits, as its revision has it.
    fn need<K: Kind>(
        self,
        mut call: K::Call<'_>,
        need: NeedInput,
        said: Vec<Vec<u8>>,
        desk: &mut Desk<'_>,
    ) -> Made {
        let context = call.context();
        let id = context.id.clone();
        if !K::METHOD.facts().may_ask {
            return desk.fail(&id, &may_not_ask());
        }
        if matches!(desk.seat, Seat::Part(_)) {
            let error = ErrorObject::invalid_request("a call in a batch cannot ask for input");
            return desk.fail(&id, &error);
        }
        if let Err(error) = self.identity.check_need(&context.caller, &need) {
            return desk.fail(&id, &error);
        }
        if context.caller.version.is_modern() && desk.again.is_none() {
            let method = K::METHOD.as_str();
            let secs = desk.now_secs;
            let ending = self.identity.write_need(context, method, &need, secs, desk.body.anew());
            return Made::Answered { ending, said, session: None };
        }
        let Ok(exchange) = desk.open(&context.caller, Purpose::Call(id.clone())) else {
            return desk.refuse(Status::UNAVAILABLE, &id, &busy());
        };
        match K::pause(K::detach(call)) {
            Some(paused) => Made::Asking { id: exchange, paused: Box::new(paused), need, said },
            None => desk.fail(&id, &may_not_ask()),
        }
    }

    /// Gives the call away, with the duty to answer it.
    fn defer<'c, K: Kind>(
        self,
        mut call: K::Call<'c>,
        desk: &mut Desk<'_>,
        start: impl FnOnce(K::Call<'static>, Responder<Output<K>>, &mut Workers),
    ) -> Made {
        let context = call.context();
        let id = context.id.clone();
        let Ok(exchange) = desk.open(&context.caller, Purpose::Call(id.clone())) else {
            return desk.refuse(Status::UNAVAILABLE, &id, &busy());
        };
        let poster = desk.poster(exchange);
        context.notifier = Notifier::new(&context.caller, Outlet::Post(poster.clone()));
        if context.caller.tasks == TaskSupport::Required && desk.again.is_none() {
            // Before the handler can answer: its caller is to hear of the task first.
            context.become_task();
        }
        let ticket = Ticket {
            poster,
            call: id,
            version: context.caller.version,
            stamp: Arc::clone(&self.identity.stamp),
            cache: self.identity.cache,
        };
        let responder = Responder::new(ticket, &context.caller, self.verification::<K>());
        start(K::detach(call), responder, self.workers);
        Made::Pending(exchange)
    }

    fn verification<K: Kind>(&self) -> Option<Verify<Output<K>>> {
        let schema = self.output.as_ref().map(Arc::clone)?;
        Some(Box::new(move |result| K::verify(&schema, result)))
    }

    /// A result into the desk's body, unless it breaks the promise of its schema.
    pub(super) fn write<K: Kind>(
        &self,
        caller: &Caller<'_>,
        id: &Id,
        result: &Output<K>,
        desk: &mut Desk<'_>,
    ) -> Made {
        if let Some(Err(reason)) = self.output.as_ref().map(|schema| K::verify(schema, result)) {
            log::error!("a result was withheld: {reason}");
            return desk.fail(id, &ErrorObject::internal());
        }
        let mut stamped = Stamped::new(result, caller.version, &self.identity.stamp);
        if Output::<K>::CACHEABLE {
            stamped = stamped.cache(self.identity.cache);
        }
        let ending = write_result(desk.body.anew(), id, &stamped);
        Made::Answered { ending, said: Vec::new(), session: None }
    }
}
