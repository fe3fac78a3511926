//! Who wants to know how a request has ended.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Instant;

use super::call::Source;
use super::caller::Caller;
use crate::key::{Principal, SessionId};
use crate::mcp;
use crate::mcp::designation::member;
use crate::mcp::model::Implementation;
use crate::mcp::trace::TraceContext;
use crate::mcp::version::Version;
use crate::rpc;

/// A note on an exchange: whom to tell how it ended. Nearly all exchanges have none.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The tool whose breaker let the call through, and with which pass.
    pub(crate) circuit: Option<(u64, Pass)>,
    /// The request as those around all methods have seen it.
    pub(crate) visit: Option<Visit<'static>>,
}

/// What a breaker recognises a call by which it let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass(pub(crate) u32);

/// A request between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    /// None for one that the protocol does not have.
    pub(crate) method: Option<mcp::Method>,
    pub(crate) began: Instant,
    /// How many of the middlewares have let it pass.
    pub(crate) passed: usize,
    /// Some if there are any.
    pub(crate) call: Option<MethodCall<'a>>,
}

impl Visit<'_> {
    pub(crate) fn into_owned(self) -> Visit<'static> {
        let Visit { method, began, passed, call } = self;
        Visit { method, began, passed, call: call.map(MethodCall::into_owned) }
    }
}

/// A request as a [`Middleware`](crate::Middleware) sees it: what is called, and who calls.
#[derive(Debug)]
pub struct MethodCall<'a> {
    pub(crate) serial: u64,
    pub(crate) method: Cow<'a, str>,
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) id: rpc::Id,
    pub(crate) caller: Caller<'a>,
    pub(crate) trace: Trace<'a>,
}

/// Where the trace of a request is to be found.
#[derive(Debug)]
pub(crate) enum Trace<'a> {
    /// Among its parameters.
    In(Source<'a>),
    /// Here; the parameters are gone.
    Read(Option<TraceContext>),
}

impl MethodCall<'_> {
    /// A number that no other request to this server has: for finding in
    /// [`after`](crate::Middleware::after) what was kept in [`before`](crate::Middleware::before).
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The method, as the caller wrote it: the server may not have it.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The name of the tool or prompt, or the URI of the resource, that the caller asks for;
    /// whether or not it exists.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The request's JSON-RPC id. Two callers may use the same.
    #[must_use]
    pub fn id(&self) -> &rpc::Id {
        &self.id
    }

    /// The protocol revision the request is served under.
    #[must_use]
    pub fn version(&self) -> Version {
        self.caller.version
    }

    /// Who the caller is, if an authentication hook is installed.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.caller.principal.as_ref()
    }

    /// The address of the connection; none when the engine runs without sockets.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.caller.peer
    }

    /// The caller's classic session; none in the modern era and on a server without sessions.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        self.caller.session
    }

    /// What the client says it is. Self-reported: for display and logs, never for decisions.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        serde_json::from_str(self.caller.client_info.as_ref()?.get()).ok()
    }

    /// The trace the request belongs to, if its `_meta` names a valid one. Read from the request
    /// each time.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        match &self.trace {
            Trace::In(source) => TraceContext::read(member(source.params()?, "_meta")?),
            Trace::Read(trace) => trace.clone(),
        }
    }

    fn into_owned(self) -> MethodCall<'static> {
        let trace = Trace::Read(self.trace());
        MethodCall {
            serial: self.serial,
            method: Cow::Owned(self.method.into_owned()),
            name: self.name.map(|name| Cow::Owned(name.into_owned())),
            id: self.id,
            caller: self.caller.into_shared(),
            trace,
        }
    }
}
