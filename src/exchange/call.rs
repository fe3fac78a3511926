//! What a handler learns about its request and its caller, and how it speaks before it answers.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::caller::Caller;
use super::notifier::{Flowing, Notifier};
use crate::key::{Principal, SessionId};
use crate::mcp::designation::member;
use crate::mcp::missing_capability;
use crate::mcp::model::{
    Answers, ClientCapabilities, Implementation, LogLevel, Members, Progress, ProgressToken,
    TaskSupport,
};
use crate::mcp::trace::TraceContext;
use crate::mcp::version::{Era, Version};
use crate::rpc::{self, ErrorObject};

/// Where a request's parameters can be read in full.
#[derive(Debug, Clone)]
pub(crate) enum Source<'a> {
    /// Somewhere in this message.
    Message(&'a str),
    /// Here, if there are any.
    Params(Option<&'a RawValue>),
    /// Here, on their own.
    Shared(Option<Arc<RawValue>>),
}

impl Source<'_> {
    pub(crate) fn params(&self) -> Option<&RawValue> {
        match self {
            Self::Message(text) => member(serde_json::from_str(text).ok()?, "params"),
            Self::Params(raw) => *raw,
            Self::Shared(raw) => raw.as_deref(),
        }
    }

    fn into_shared(self) -> Source<'static> {
        Source::Shared(match self {
            Source::Shared(raw) => raw,
            other => other.params().map(|raw| Arc::from(raw.to_owned())),
        })
    }
}

/// Everything about a request that is not its own parameters: the caller, the metadata, and the
/// way to report progress and log messages before the answer.
///
/// Every kind of call dereferences to it.
#[derive(Debug)]
pub struct RequestContext<'a> {
    pub(crate) caller: Caller<'a>,
    pub(crate) id: rpc::Id,
    pub(crate) source: Source<'a>,
    pub(crate) notifier: Notifier,
    /// What came back to what the call asked before; nothing at its first run.
    pub(crate) input: Option<Box<Input>>,
}

/// What a call is run again with.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) answers: Answers,
    pub(crate) state: Option<String>,
    /// How many times the call has asked while its caller waits.
    pub(crate) rounds: usize,
}

const NO_ANSWERS: &Answers = &Answers::new();

impl<'a> RequestContext<'a> {
    /// The protocol revision this request is served under.
    #[must_use]
    pub fn version(&self) -> Version {
        self.caller.version
    }

    /// The request's JSON-RPC id.
    #[must_use]
    pub fn id(&self) -> &rpc::Id {
        &self.id
    }

    /// The caller's classic session; none in the modern era and on a server without sessions.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        self.caller.session
    }

    /// Who the caller is, if an authentication hook is installed.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.caller.principal.as_ref()
    }

    /// What the caller was granted; nothing when nobody said who it is.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        self.caller.principal.as_ref().map_or(&[], Principal::scopes)
    }

    /// Whether the caller was granted this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.caller.principal.as_ref().is_some_and(|principal| principal.has_scope(scope))
    }

    /// The address of the connection; none when the engine runs without sockets.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.caller.peer
    }

    /// What the client says it is. Self-reported: for display and logs, never for decisions.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        serde_json::from_str(self.caller.client_info.as_ref()?.get()).ok()
    }

    /// What the client declared it can do; nothing when it declared nothing readable.
    #[must_use]
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.caller
            .capabilities
            .as_ref()
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }

    /// Insists on something the client must be able to do, for example `sampling`.
    ///
    /// # Errors
    ///
    /// The error that tells the client what it would have to declare (-32021). Return it with `?`.
    pub fn require_capability(&self, name: &str) -> Result<(), ErrorObject> {
        if self.client_capabilities().has(name) {
            return Ok(());
        }
        let mut required = Members::new();
        required.set(name.to_owned(), Members::new());
        Err(missing_capability(required))
    }

    /// The answers to what this call asked last; empty at its first run.
    ///
    /// Answers are what a client claims. Any of them may be missing, and there may be some that
    /// nobody asked for.
    #[must_use]
    pub fn answers(&self) -> &Answers {
        self.input.as_ref().map_or(NO_ANSWERS, |input| &input.answers)
    }

    /// What the call kept for itself when it asked last; none at its first run.
    ///
    /// It comes back as it was written: what a modern caller carried for the server has been
    /// sealed, and a seal that is broken, too old, or of another caller or request is refused
    /// before the handler runs.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.input.as_ref().and_then(|input| input.state.as_deref())
    }

    /// The request's `_meta` object as it came, unknown keys included.
    #[must_use]
    pub fn meta(&self) -> Option<&RawValue> {
        member(self.params()?, "_meta")
    }

    /// One value of the request's `_meta`; none if it is absent or not of this type.
    #[must_use]
    pub fn meta_value<T: for<'de> Deserialize<'de>>(&self, key: &str) -> Option<T> {
        serde_json::from_str(member(self.meta()?, key)?.get()).ok()
    }

    /// The trace the request belongs to, if its `_meta` names a valid one; the rest is dropped.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::read(self.meta()?)
    }

    /// The request's whole `params` as they came, unknown members included.
    #[must_use]
    pub fn params(&self) -> Option<&RawValue> {
        self.source.params()
    }

    /// The token under which the caller wants to hear of progress, if it does.
    #[must_use]
    pub fn progress_token(&self) -> Option<&ProgressToken> {
        self.caller.progress_token.as_ref()
    }

    /// Reports progress; see [`Progress`]. Dropped when the caller did not ask for it, cannot read
    /// a stream, or the value does not exceed the one before.
    pub fn progress(&mut self, progress: &Progress) -> Flowing {
        self.notifier.progress(progress)
    }

    /// Sends a log message to the caller; dropped below the level the caller asked for.
    ///
    /// Must not carry credentials or personal data.
    pub fn log(&mut self, level: LogLevel, logger: Option<&str>, data: &impl Serialize) -> Flowing {
        self.notifier.log(level, logger, data)
    }

    /// Makes a task of the call: its caller is answered at once, and collects the result later
    /// (extension `io.modelcontextprotocol/tasks`).
    ///
    /// False, and nothing happens, for a caller that does not know tasks, a tool that does not
    /// allow them, and in a direct handler; the caller then waits for the result. It waits as well
    /// when the limits of tasks are reached.
    pub fn become_task(&mut self) -> bool {
        self.caller.tasks != TaskSupport::Never
            && self.notifier.post_task(self.caller.principal.clone())
    }

    /// True once nobody waits for the answer any more; long work should stop.
    ///
    /// Always false in a direct handler: the loop hears of nothing while that runs.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.notifier.is_cancelled()
    }

    pub(crate) fn into_shared(self) -> RequestContext<'static> {
        RequestContext {
            caller: self.caller.into_shared(),
            id: self.id,
            source: self.source.into_shared(),
            notifier: self.notifier,
            input: self.input,
        }
    }
}

/// The level from which messages are sent to a caller that never chose one: a classic session
/// hears what is worth knowing, a modern request hears nothing it did not ask for.
pub(crate) fn default_log_level(version: Version) -> Option<LogLevel> {
    match version.rules().era {
        Era::Classic => Some(LogLevel::Info),
        Era::Modern => None,
    }
}
