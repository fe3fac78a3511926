//! One call through one handler, whichever way that handler answers.

use std::sync::Arc;

use super::{Circuit, Desk, Identity, Made, Output, busy, write_result};
use crate::engine::handler::{AsContext, Handler, Kind, ToolCall, Tools};
use crate::exchange::{Caller, Notifier, Outlet, Purpose, Responder, Ticket, Verify};
use crate::guard::guarded;
use crate::http::Status;
use crate::mcp::model::{Outcome, Stamped};
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
                let returned = guarded(|| code(&mut call));
                let context = call.context();
                let result = match returned {
                    Ok(result) => result.or_else(K::failure),
                    Err(_) => Err(ErrorObject::internal()),
                };
                let said = context.notifier.take_buffered();
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
                    let job = move || match code(&mut call).or_else(K::failure) {
                        Ok(result) => responder.finish(result),
                        Err(error) => responder.fail(error),
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
        desk.body.clear();
        let ending = write_result(desk.body, id, &stamped);
        Made::Answered { ending, said: Vec::new(), session: None }
    }
}
