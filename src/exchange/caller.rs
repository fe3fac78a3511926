//! Who sent a request, as far as the request says.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::key::{Principal, SessionId};
use crate::mcp::model::{LogLevel, ProgressToken, TaskSupport};
use crate::mcp::version::Version;
use crate::rpc::skim::Snippet;

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
    Borrowed(Snippet<'a>),
    Shared(Arc<RawValue>),
}

impl Fragment<'_> {
    /// The text of the fragment.
    pub(crate) fn get(&self) -> &str {
        match self {
            Fragment::Borrowed(json) => json.get(),
            Fragment::Shared(raw) => raw.get(),
        }
    }

    pub(crate) fn into_shared(self) -> Fragment<'static> {
        Fragment::Shared(match self {
            Fragment::Borrowed(json) => Arc::from(json.to_raw().to_owned()),
            Fragment::Shared(raw) => raw,
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
    /// Whether the call may become a task, or must.
    pub(crate) tasks: TaskSupport,
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
                tasks: self.tasks,
            }
        }
    }
}
