//! What stands around all methods: middleware.

use std::fmt;
use std::time::{Duration, Instant};

#[cfg(feature = "metrics")]
use super::meter::Meter;
use super::{App, Desk, Made};
use crate::exchange::{Caller, MethodCall, Trace, Visit};
use crate::filter::endpoint::Ask;
use crate::guard::guarded;
use crate::key::ExchangeId;
use crate::mcp::model::Ending;
use crate::rpc::{self, ErrorObject};

/// Stands around every request that reaches a method: sees it before it is served, may refuse it,
/// and hears how it ended.
///
/// That is the place for policies by method and tool, for audit logs and for spans of traces. A
/// [`Filter`](crate::filter::Filter) sees HTTP requests, of which one may be a batch of these; a
/// middleware sees nothing of notifications and of requests that were turned away before anybody
/// knew their method.
///
/// It runs on the loop: keep it quick. The first one that is installed is the outermost. A panic
/// in `before` refuses the request with an internal error, one in `after` is logged.
///
/// ```
/// use std::time::Duration;
/// use waterwheel::rpc::ErrorObject;
/// use waterwheel::{Ending, MethodCall, Middleware, Server};
///
/// /// Keeps a dangerous tool from all but one, and writes down who uses which.
/// struct Audit;
///
/// impl Middleware for Audit {
///     fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
///         let caller = call.principal().map(|principal| principal.name());
///         if call.name() == Some("erase") && caller != Some("root") {
///             return Err(ErrorObject::new(-32001, "this tool is not for you"));
///         }
///         Ok(())
///     }
///
///     fn after(&mut self, call: &MethodCall<'_>, ending: Ending, took: Duration) {
///         log::info!("{} {:?}: {ending:?} in {took:?}", call.method(), call.name());
///     }
/// }
///
/// let server = Server::builder("careful", "1.0.0").middleware(Audit);
/// ```
pub trait Middleware {
    /// A request is about to be served.
    ///
    /// # Errors
    ///
    /// The error to answer with: neither the method nor a middleware further inside sees the
    /// request.
    fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
        let _ = call;
        Ok(())
    }

    /// A request that this middleware has let pass has ended: its answer is about to be written,
    /// or there will be none.
    ///
    /// Time passes from turn to turn of the loop, so that a request which is answered in the turn
    /// in which it came `took` no time. An answer that comes later, on the loop or from another
    /// thread, has its end when it arrives.
    fn after(&mut self, call: &MethodCall<'_>, ending: Ending, took: Duration) {
        let _ = (call, ending, took);
    }
}

/// All that stands around the methods.
#[derive(Default)]
pub(crate) struct Around {
    layers: Vec<Box<dyn Middleware>>,
    /// Some if requests are counted.
    #[cfg(feature = "metrics")]
    meter: Option<Box<Meter>>,
    /// Requests so far.
    serial: u64,
}

impl Around {
    /// Adds a middleware inside of those that are here.
    pub(crate) fn push(&mut self, middleware: Box<dyn Middleware>) {
        self.layers.push(middleware);
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn count_by(&mut self, meter: Meter) {
        self.meter = Some(Box::new(meter));
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.meter.as_deref()
    }

    /// Lets a request in, unless a middleware refuses it.
    fn enter<'a>(
        &mut self,
        caller: &Caller<'a>,
        ask: &Ask<'a>,
        now: Instant,
    ) -> Result<Visit<'a>, ErrorObject> {
        let mut visit = Visit { method: ask.known, began: now, passed: 0, call: None };
        if self.layers.is_empty() {
            return Ok(visit);
        }
        self.serial += 1;
        let call = visit.call.insert(method_call(self.serial, caller, ask));
        for layer in &mut self.layers {
            match guarded(|| layer.before(call)) {
                Ok(Ok(())) => visit.passed += 1,
                Ok(Err(error)) => return Err(self.turn_away(&visit, error, now)),
                Err(_) => {
                    log::error!("a middleware panicked over a call of {:?}", visit.method);
                    return Err(self.turn_away(&visit, ErrorObject::internal(), now));
                }
            }
        }
        Ok(visit)
    }

    fn turn_away(&mut self, visit: &Visit<'_>, error: ErrorObject, now: Instant) -> ErrorObject {
        self.leave(visit, Ending::Error(error.code), now);
        error
    }

    /// Counts a request that has ended, and tells those who let it in, from the inside out.
    fn leave(&mut self, visit: &Visit<'_>, ending: Ending, now: Instant) {
        let took = now.saturating_duration_since(visit.began);
        #[cfg(feature = "metrics")]
        if let Some(meter) = &mut self.meter {
            meter.note(visit.method, ending, took);
        }
        let Some(call) = &visit.call else { return };
        for layer in self.layers[..visit.passed].iter_mut().rev() {
            if guarded(|| layer.after(call, ending, took)).is_err() {
                log::error!("a middleware panicked after a call of {:?}", visit.method);
            }
        }
    }
}

fn method_call<'a>(serial: u64, caller: &Caller<'a>, ask: &Ask<'a>) -> MethodCall<'a> {
    let name = ask.params.name.as_ref().or(ask.params.uri.as_ref());
    MethodCall {
        serial,
        method: ask.method.clone(),
        name: name.map(|name| name.0.clone()),
        id: ask.id.clone(),
        caller: caller.clone(),
        trace: Trace::In(ask.source.clone()),
    }
}

impl App {
    /// Lets a request in; the error to answer with if it is refused. None when nobody stands in
    /// its way, nor wants to hear of its end.
    pub(super) fn enter<'a>(
        &mut self,
        caller: &Caller<'a>,
        ask: &Ask<'a>,
        now: Instant,
    ) -> Result<Option<Visit<'a>>, ErrorObject> {
        self.around.as_mut().map(|around| around.enter(caller, ask, now)).transpose()
    }

    /// Serves a request with all that stands around its method.
    pub(super) fn ask_around(
        &mut self,
        caller: Caller<'_>,
        ask: Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Made {
        let visit = match self.enter(&caller, &ask, desk.now) {
            Ok(visit) => visit,
            Err(error) => return desk.fail(&ask.id, &error),
        };
        let made = self.serve(caller, ask, desk);
        match &made {
            Made::Answered { ending, .. } => self.leave(visit, *ending, desk.now),
            Made::Refused(_) => self.leave(visit, Ending::Error(rpc::INTERNAL_ERROR), desk.now),
            Made::Pending(id) | Made::Asking { id, .. } => desk.watch(*id, visit),
        }
        made
    }

    /// Tells those who let a request in how it ended.
    pub(super) fn leave(&mut self, visit: Option<Visit<'_>>, ending: Ending, now: Instant) {
        if let (Some(around), Some(visit)) = (&mut self.around, visit) {
            around.leave(&visit, ending, now);
        }
    }
}

impl Desk<'_> {
    /// Keeps a visit until its exchange has ended.
    pub(super) fn watch(&mut self, id: ExchangeId, visit: Option<Visit<'_>>) {
        if let (Some(visit), Some(exchange)) = (visit, self.exchanges.find(id)) {
            exchange.watch.get_or_insert_default().visit = Some(visit.into_owned());
        }
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Around({} middlewares)", self.layers.len())
    }
}
