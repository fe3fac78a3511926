//! What a handler learns about its request and its caller, and how it speaks before it answers.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::responder::Mail;
use crate::guard::guarded;
use crate::key::{ExchangeId, Principal, SessionId};
use crate::mailbox::Mailbox;
use crate::mcp::designation::member;
use crate::mcp::model::{
    ClientCapabilities, Implementation, LogLevel, Members, Progress, ProgressToken,
};
use crate::mcp::version::{Era, Version};
use crate::mcp::{missing_capability, notification};
use crate::rpc::{self, ErrorObject, encode};

/// Which kinds of answer the caller can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// A single JSON document.
    pub json: bool,
    /// An event stream.
    pub stream: bool,
}

impl Accepts {
    /// A caller that reads either kind.
    #[must_use]
    pub fn both() -> Self {
        Self { json: true, stream: true }
    }
}

/// A JSON fragment that is borrowed from the request or shared with a session.
#[derive(Debug, Clone)]
pub(crate) enum Fragment<'a> {
    Borrowed(&'a RawValue),
    Shared(Arc<RawValue>),
}

impl Fragment<'_> {
    pub(crate) fn into_shared(self) -> Fragment<'static> {
        Fragment::Shared(match self {
            Fragment::Borrowed(raw) => Arc::from(raw.to_owned()),
            Fragment::Shared(raw) => raw,
        })
    }
}

impl Deref for Fragment<'_> {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        match self {
            Fragment::Borrowed(raw) => raw,
            Fragment::Shared(raw) => raw,
        }
    }
}

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
    fn params(&self) -> Option<&RawValue> {
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

/// What a request said about the one who sent it.
#[derive(Debug, Clone)]
pub(crate) struct Caller<'a> {
    pub(crate) version: Version,
    pub(crate) session: Option<SessionId>,
    pub(crate) principal: Option<Principal>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) accepts: Accepts,
    pub(crate) client_info: Option<Fragment<'a>>,
    pub(crate) capabilities: Option<Fragment<'a>>,
    /// Messages below it are not wanted; none means that no message is.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) progress_token: Option<ProgressToken>,
}

impl Caller<'_> {
    pub(crate) fn into_shared(self) -> Caller<'static> {
        Caller {
            client_info: self.client_info.map(Fragment::into_shared),
            capabilities: self.capabilities.map(Fragment::into_shared),
            ..Caller {
                version: self.version,
                session: self.session,
                principal: self.principal,
                peer: self.peer,
                accepts: self.accepts,
                client_info: None,
                capabilities: None,
                log_level: self.log_level,
                progress_token: self.progress_token,
            }
        }
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
}

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
        }
    }
}

/// Whether the caller keeps up with the messages it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flowing {
    /// There is room for more.
    Freely,
    /// The caller or the loop is behind; a considerate handler reports less often.
    Slow,
}

/// What an exchange shares with the handler that works on it.
#[derive(Default)]
pub(crate) struct Flags {
    cancelled: AtomicBool,
    slow: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
    /// The last progress value, whoever of the handler's parts reported it.
    progress: Mutex<Option<f64>>,
    /// Bytes of messages that are posted and not framed yet.
    in_flight: AtomicUsize,
}

type Hook = Box<dyn FnOnce() + Send>;

impl Flags {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Fires the token. Every hook runs once, however often this is called.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Taken out first: a hook may add another one.
        let hooks = std::mem::take(&mut *self.hooks.lock().expect("no holder of this lock panics"));
        for hook in hooks {
            if guarded(hook).is_err() {
                log::error!("a cancellation hook panicked");
            }
        }
    }

    /// Adds a hook; one that comes too late runs at once.
    pub(crate) fn on_cancel(&self, hook: Hook) {
        {
            let mut hooks = self.hooks.lock().expect("no holder of this lock panics");
            hooks.push(hook);
        }
        if self.is_cancelled() {
            self.cancel();
        }
    }

    /// Notes a progress value; false if it does not exceed the one before.
    fn advance(&self, progress: f64) -> bool {
        let mut last = self.progress.lock().expect("no holder of this lock panics");
        let rises = last.is_none_or(|last| progress > last);
        if rises {
            *last = Some(progress);
        }
        rises
    }

    /// Takes a message out of those in flight.
    pub(crate) fn arrived(&self, bytes: usize) {
        self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }

    fn flowing(&self) -> Flowing {
        if self.slow.load(Ordering::Relaxed) { Flowing::Slow } else { Flowing::Freely }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flags").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

/// Where the messages of a running request go.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// A direct handler: they are framed when it returns.
    Buffer(Vec<Vec<u8>>),
    /// A handler that may be on another thread.
    Post(Poster),
}

/// The way from a handler's thread to its exchange.
#[derive(Debug, Clone)]
pub(crate) struct Poster {
    pub(crate) exchange: ExchangeId,
    pub(crate) mailbox: Mailbox<Mail>,
    pub(crate) flags: Arc<Flags>,
    pub(crate) mail_max: usize,
    /// Bytes of one request's messages that may be in flight.
    pub(crate) bytes_max: usize,
}

/// Turns progress and log calls into notifications, and drops those nobody may hear.
#[derive(Debug)]
pub(crate) struct Notifier {
    outlet: Outlet,
    /// The caller cannot be told anything before the answer.
    mute: bool,
    token: Option<ProgressToken>,
    level: Option<LogLevel>,
    last: Option<f64>,
}

impl Notifier {
    pub(crate) fn new(caller: &Caller<'_>, outlet: Outlet) -> Self {
        let mute = !caller.accepts.stream;
        Self {
            outlet,
            mute,
            token: caller.progress_token.clone(),
            level: caller.log_level,
            last: None,
        }
    }

    /// Takes what a direct handler said.
    pub(crate) fn take_buffered(&mut self) -> Vec<Vec<u8>> {
        match &mut self.outlet {
            Outlet::Buffer(messages) => std::mem::take(messages),
            Outlet::Post(_) => Vec::new(),
        }
    }

    pub(crate) fn progress(&mut self, progress: &Progress) -> Flowing {
        let Some(token) = &self.token else {
            return Flowing::Freely;
        };
        // The protocol wants every value to exceed the one before; NaN exceeds nothing.
        let value = progress.progress;
        let rises = value.is_finite()
            && !self.mute
            && match &self.outlet {
                Outlet::Buffer(_) => self.last.is_none_or(|last| value > last),
                Outlet::Post(poster) => poster.flags.advance(value),
            };
        if !rises {
            return self.flowing();
        }
        let mut message = Vec::new();
        let params = ProgressParams { progress_token: token, progress };
        if !encode::write_notification(&mut message, notification::PROGRESS, &params) {
            return self.flowing();
        }
        self.last = Some(value);
        self.send(message)
    }

    pub(crate) fn log(
        &mut self,
        level: LogLevel,
        logger: Option<&str>,
        data: &impl Serialize,
    ) -> Flowing {
        let wanted = self.level.is_some_and(|threshold| level >= threshold);
        if !wanted || self.mute {
            return self.flowing();
        }
        let mut message = Vec::new();
        let params = LogParams { level, logger, data };
        if !encode::write_notification(&mut message, notification::MESSAGE, &params) {
            log::error!("a log message has no JSON form and is not sent");
            return self.flowing();
        }
        self.send(message)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        match &self.outlet {
            Outlet::Post(poster) => poster.flags.is_cancelled(),
            Outlet::Buffer(_) => false,
        }
    }

    fn send(&mut self, message: Vec<u8>) -> Flowing {
        match &mut self.outlet {
            Outlet::Buffer(messages) => {
                messages.push(message);
                Flowing::Freely
            }
            Outlet::Post(poster) => poster.post(message),
        }
    }

    fn flowing(&self) -> Flowing {
        match &self.outlet {
            Outlet::Post(poster) => poster.flags.flowing(),
            Outlet::Buffer(_) => Flowing::Freely,
        }
    }
}

impl Poster {
    /// Posts a notification, unless the loop is so far behind that it would only pile up.
    fn post(&self, message: Vec<u8>) -> Flowing {
        if self.flags.is_cancelled() {
            return Flowing::Freely;
        }
        // A single message may be large; a pile of them may not.
        let piled = self.flags.in_flight.load(Ordering::Relaxed) > self.bytes_max;
        if piled || self.mailbox.len() >= self.mail_max {
            return Flowing::Slow;
        }
        self.flags.in_flight.fetch_add(message.len(), Ordering::Relaxed);
        self.mailbox.post(Mail::Event { id: self.exchange, message });
        self.flags.flowing()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    progress_token: &'a ProgressToken,
    #[serde(flatten)]
    progress: &'a Progress,
}

#[derive(Serialize)]
struct LogParams<'a, D> {
    level: LogLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    logger: Option<&'a str>,
    data: &'a D,
}

/// The level from which messages are sent to a caller that never chose one: a classic session
/// hears what is worth knowing, a modern request hears nothing it did not ask for.
pub(crate) fn default_log_level(version: Version) -> Option<LogLevel> {
    match version.rules().era {
        Era::Classic => Some(LogLevel::Info),
        Era::Modern => None,
    }
}
