//! Describing a server before it runs.

mod assembly;
mod auth;
mod extensions;
mod features;
mod legacy;
mod ops;
#[cfg(feature = "tls")]
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::dispatcher::BindPolicy;
use crate::engine::app::{App, Identity};
use crate::error::BuildError;
use crate::exchange::Mail;
use crate::filter::bearer::BearerAuth;
use crate::filter::routing::{Action, Router};
use crate::filter::security::{AuthHook, Hosts, Origins, Verdict};
use crate::filter::{Chain, Cx, Filter, Response, normal};
use crate::http::{Http10Streams, Method, PublicUrl, Request};
use crate::limits::{Limits, Timeouts};
use crate::mailbox::Mailbox;
use crate::mcp::catalog::Catalog;
use crate::mcp::cursor::CursorKey;
use crate::mcp::model::{CacheHint, Implementation, ServerCapabilities, Stamp};
use crate::mcp::seal::{StateKey, StateKeys};
use crate::mcp::version::Version;
use crate::server::ServerHandle;
use crate::workers::Workers;
use legacy::LegacyPaths;
use ops::Ops;

/// Describes a server; [`bind`](Self::bind) makes it.
///
/// A mistake in a description (a name used twice, a schema that does not compile) is kept and
/// reported by `bind` or [`build_engine`](Self::build_engine), so that the chain reads in one
/// piece.
#[must_use = "a description does nothing until it is bound"]
pub struct ServerBuilder {
    app: App,
    catalog: Catalog,
    filters: Chain,
    router: Router,
    auth: Option<AuthHook>,
    origins: Origins,
    hosts: Hosts,
    public_url: Option<PublicUrl>,
    bearer: Option<BearerAuth>,
    path: String,
    legacy: LegacyPaths,
    versions: Vec<Version>,
    bind_policy: BindPolicy,
    states: Option<StateKeys>,
    /// Whether changes are declared, and so announced.
    announces: bool,
    mailbox: Mailbox<Mail>,
    http10: Http10Streams,
    limits: Limits,
    timeouts: Timeouts,
    ops: Ops,
    #[cfg(feature = "tls")]
    tls: Option<crate::dispatcher::Tls>,
    /// The first mistake in the description.
    mistake: Option<BuildError>,
}

impl ServerBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        let info = Implementation::new(name, version);
        let limits = Limits::default();
        let unset = StateKey::new("unset", [0; 32]).expect("id and secret are long enough");
        let identity = Identity {
            stamp: Arc::new(Stamp::new(&info)),
            info,
            instructions: None,
            capabilities: ServerCapabilities { logging: true, ..ServerCapabilities::default() },
            served: Vec::new(),
            cache: CacheHint::default(),
            states: StateKeys::new(unset),
            cursors: CursorKey::new([0; 32]),
            page_items: limits.page_items,
        };
        Self {
            app: App {
                identity,
                tools: HashMap::default(),
                resources: HashMap::default(),
                templates: HashMap::default(),
                prompts: HashMap::default(),
                completions: None,
                workers: Workers::new(1, 1),
                listings: Default::default(),
                sessions: true,
                unasked: 0,
                breaker: None,
                around: None,
            },
            catalog: Catalog::default(),
            filters: Chain::new(),
            router: Router::default(),
            auth: None,
            origins: Origins::default(),
            hosts: Hosts::default(),
            public_url: None,
            bearer: None,
            path: "/mcp".to_owned(),
            legacy: LegacyPaths::default(),
            versions: Version::ALL.to_vec(),
            bind_policy: BindPolicy::Loopback,
            states: None,
            announces: true,
            mailbox: Mailbox::new(),
            http10: Http10Streams::Refuse,
            limits,
            timeouts: Timeouts::default(),
            ops: Ops::default(),
            #[cfg(feature = "tls")]
            tls: None,
            mistake: None,
        }
    }

    /// Replaces what the server says about itself beyond name and version: title, description,
    /// web site, icons.
    pub fn implementation(mut self, info: Implementation) -> Self {
        self.app.identity.stamp = Arc::new(Stamp::new(&info));
        self.app.identity.info = info;
        self
    }

    /// Guidance for models on how to use the server; sent with the handshake and discovery.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.app.identity.instructions = Some(text.into());
        self
    }

    /// Adds a filter in front of everything else. The first one added is the outermost: it sees a
    /// request first and its response last.
    pub fn filter(mut self, filter: impl Filter + 'static) -> Self {
        self.filters.push(filter);
        self
    }

    /// Serves a path beside the MCP endpoint. Protected like the endpoint: origin, host,
    /// credentials. Replaces a route that is there, the probes included.
    pub fn route<F>(mut self, method: Method, path: &str, handler: F) -> Self
    where
        F: FnMut(&Request<'_>, &mut Cx<'_>) -> Response + 'static,
    {
        self.router.add(method, path, Action::Handle(Box::new(handler)));
        self
    }

    /// Asks this hook about every request but probes and preflights, at the head, before any body
    /// is kept. Header names compare without case. It runs on the loop: keep it quick.
    pub fn authenticate(self, mut hook: impl FnMut(&Request<'_>) -> Verdict + 'static) -> Self {
        self.authenticate_with(move |request, _| hook(request))
    }

    /// Like [`authenticate`](Self::authenticate), for a hook that also looks at the connection: its
    /// address, or the certificate that the client has shown in [`Cx::client_certificate`].
    pub fn authenticate_with(
        mut self,
        hook: impl FnMut(&Request<'_>, &Cx<'_>) -> Verdict + 'static,
    ) -> Self {
        self.auth = Some(Box::new(hook));
        self
    }

    /// Allows pages of this origin to call, `*` those of any. The first call replaces the default,
    /// which is pages of this machine. Requests without an `Origin` are not from a page and pass.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.allowed.push(origin.into());
        self
    }

    /// Answers for this host name (without port) beside the loopback names.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.allowed.push(host.into());
        self
    }

    /// Permits [`bind`](Self::bind) to addresses that other machines can reach. Unless host names
    /// are allowed by [`allow_host`](Self::allow_host), requests must then name the server by an IP
    /// address: a name is what DNS rebinding needs.
    pub fn allow_public_bind(mut self) -> Self {
        self.bind_policy = BindPolicy::Public;
        self
    }

    /// The endpoint's path; `/mcp` unless set. With or without a trailing slash is the same.
    pub fn path(mut self, path: &str) -> Self {
        self.path = normal(path).to_owned();
        let checked = check_path(path);
        self.note(checked)
    }

    /// The revisions to serve; all of them unless set.
    pub fn versions(mut self, versions: impl IntoIterator<Item = Version>) -> Self {
        self.versions = versions.into_iter().collect();
        self
    }

    /// Serves classic callers without sessions: no id is minted, offered ids are ignored.
    pub fn stateless(mut self) -> Self {
        self.app.sessions = false;
        self
    }

    /// Declares that nothing about this server changes while it runs, so that clients need not
    /// hold streams open to hear of it. What a [`ServerHandle`] says has changed is then not
    /// announced.
    pub fn without_announcements(mut self) -> Self {
        self.announces = false;
        self
    }

    /// A handle for handlers of the server that is being described. What it is told before the
    /// server runs is done when it does.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::new(self.mailbox.clone())
    }

    /// What seals the states that handlers leave with modern callers. Servers that answer for one
    /// another must have the same keys; one alone draws its own when it is built.
    pub fn state_keys(mut self, keys: StateKeys) -> Self {
        self.states = Some(keys);
        self
    }

    /// How long and by whom listings and reads may be cached, for callers whose revision has such
    /// hints. Not at all unless set.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.app.identity.cache = hint;
        self
    }

    /// Gives HTTP/1.0 clients streams that end with their connection, instead of a 406.
    pub fn allow_sse_to_http_1_0(mut self) -> Self {
        self.http10 = Http10Streams::Allow;
        self
    }

    /// Replaces the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Replaces the clocks.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    fn note(mut self, result: Result<(), BuildError>) -> Self {
        if let Err(mistake) = result {
            self.mistake.get_or_insert(mistake);
        }
        self
    }
}

/// What a path must look like that clients are to ask for.
fn check_path(path: &str) -> Result<(), BuildError> {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#');
    if path.starts_with('/') && path.bytes().all(plain) {
        return Ok(());
    }
    let reason = "it must begin with a slash and have neither spaces nor a query".to_owned();
    Err(BuildError::Invalid { kind: "path", name: path.to_owned(), reason })
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("name", &self.app.identity.info.name)
            .field("path", &self.path)
            .field("mistake", &self.mistake)
            .finish_non_exhaustive()
    }
}
