//! Describing a server before it runs.

mod assembly;
mod auth;
mod extensions;
mod ops;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::dispatcher::BindPolicy;
use crate::engine::app::{App, Identity};
use crate::engine::handler::{
    CallError, CompleteCall, Completions, Handler, PromptCall, ResourceCall, ToolCall, Tools,
};
use crate::engine::register;
use crate::error::BuildError;
use crate::exchange::{Mail, Responder};
use crate::filter::bearer::BearerAuth;
use crate::filter::routing::{Action, Router};
use crate::filter::security::{AuthHook, Hosts, Origins, Verdict};
use crate::filter::{Chain, Cx, Filter, Response, normal};
use crate::http::{Http10Streams, Method, PublicUrl, Request};
use crate::limits::{Limits, Timeouts};
use crate::mailbox::Mailbox;
use crate::mcp::catalog::Catalog;
use crate::mcp::cursor::CursorKey;
use crate::mcp::model::{
    CacheHint, CallToolResult, CompleteResult, GetPromptResult, Implementation, ListCapability,
    Prompt, ReadResourceResult, Resource, ResourceTemplate, ResourcesCapability,
    ServerCapabilities, Stamp, Tool,
};
use crate::mcp::version::Version;
use crate::server::ServerHandle;
use crate::workers::Workers;
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
    versions: Vec<Version>,
    bind_policy: BindPolicy,
    /// Whether changes are declared, and so announced.
    announces: bool,
    mailbox: Mailbox<Mail>,
    http10: Http10Streams,
    limits: Limits,
    timeouts: Timeouts,
    ops: Ops,
    /// The first mistake in the description.
    mistake: Option<BuildError>,
}

impl ServerBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        let info = Implementation::new(name, version);
        let limits = Limits::default();
        let identity = Identity {
            stamp: Arc::new(Stamp::new(&info)),
            info,
            instructions: None,
            capabilities: ServerCapabilities { logging: true, ..ServerCapabilities::default() },
            served: Vec::new(),
            cache: CacheHint::default(),
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
            versions: Version::ALL.to_vec(),
            bind_policy: BindPolicy::Loopback,
            announces: true,
            mailbox: Mailbox::new(),
            http10: Http10Streams::Refuse,
            limits,
            timeouts: Timeouts::default(),
            ops: Ops::default(),
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

    /// Adds a tool with a direct handler: it runs on the loop and returns its result. The fast
    /// path; everything else on this server waits while it runs.
    pub fn tool<F>(self, tool: Tool, handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut ToolCall<'a>) -> Result<CallToolResult, CallError> + 'static,
    {
        self.add_tool(tool, Handler::Direct(Box::new(handler)))
    }

    /// Adds a tool whose handler takes the call away and answers through the [`Responder`], from
    /// any thread and as late as it likes.
    pub fn tool_deferred<F>(self, tool: Tool, handler: F) -> Self
    where
        F: FnMut(ToolCall<'static>, Responder<CallToolResult>) + 'static,
    {
        self.add_tool(tool, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a tool whose handler may block: it runs on one of a few worker threads, see
    /// [`Limits::blocking_threads`].
    pub fn tool_blocking<F>(self, tool: Tool, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut ToolCall<'static>) -> Result<CallToolResult, CallError>
            + Send
            + Sync
            + 'static,
    {
        self.add_tool(tool, Handler::Blocking(Arc::new(handler)))
    }

    fn add_tool(mut self, tool: Tool, handler: Handler<Tools>) -> Self {
        self.app.identity.capabilities.tools.get_or_insert_with(ListCapability::default);
        let added = register::check_tool(tool).and_then(|(entry, schemas)| {
            let code = schemas.with(handler);
            register::shelve_tool(&mut self.catalog, &mut self.app, entry, code)
        });
        self.note(added)
    }

    /// Adds a resource that a direct handler reads.
    pub fn resource<F>(self, resource: Resource, handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut ResourceCall<'a>) -> Result<ReadResourceResult, CallError>
            + 'static,
    {
        self.add_resource(resource, Handler::Direct(Box::new(handler)))
    }

    /// Adds a resource whose handler answers through a [`Responder`].
    pub fn resource_deferred<F>(self, resource: Resource, handler: F) -> Self
    where
        F: FnMut(ResourceCall<'static>, Responder<ReadResourceResult>) + 'static,
    {
        self.add_resource(resource, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a resource whose handler may block.
    pub fn resource_blocking<F>(self, resource: Resource, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut ResourceCall<'static>) -> Result<ReadResourceResult, CallError>
            + Send
            + Sync
            + 'static,
    {
        self.add_resource(resource, Handler::Blocking(Arc::new(handler)))
    }

    fn add_resource(
        mut self,
        resource: Resource,
        handler: Handler<crate::engine::handler::Resources>,
    ) -> Self {
        self.declare_resources();
        let added = register::add_resource(&mut self.catalog, &mut self.app, resource, handler);
        self.note(added)
    }

    /// Adds a family of resources: every URI that matches the template and is no resource of its
    /// own. Placeholders are `{name}` for one segment and `{+name}` for any text.
    pub fn resource_template<F>(self, template: ResourceTemplate, handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut ResourceCall<'a>) -> Result<ReadResourceResult, CallError>
            + 'static,
    {
        self.add_template(template, Handler::Direct(Box::new(handler)))
    }

    /// Adds a family of resources whose handler answers through a [`Responder`].
    pub fn resource_template_deferred<F>(self, template: ResourceTemplate, handler: F) -> Self
    where
        F: FnMut(ResourceCall<'static>, Responder<ReadResourceResult>) + 'static,
    {
        self.add_template(template, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a family of resources whose handler may block.
    pub fn resource_template_blocking<F>(self, template: ResourceTemplate, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut ResourceCall<'static>) -> Result<ReadResourceResult, CallError>
            + Send
            + Sync
            + 'static,
    {
        self.add_template(template, Handler::Blocking(Arc::new(handler)))
    }

    fn add_template(
        mut self,
        template: ResourceTemplate,
        handler: Handler<crate::engine::handler::Resources>,
    ) -> Self {
        self.declare_resources();
        let added = register::add_template(&mut self.catalog, &mut self.app, template, handler);
        self.note(added)
    }

    fn declare_resources(&mut self) {
        let resources = &mut self.app.identity.capabilities.resources;
        resources.get_or_insert_with(ResourcesCapability::default);
    }

    /// Adds a prompt that a direct handler renders. Calls without a required argument are refused
    /// before the handler sees them.
    pub fn prompt<F>(self, prompt: Prompt, handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut PromptCall<'a>) -> Result<GetPromptResult, CallError>
            + 'static,
    {
        self.add_prompt(prompt, Handler::Direct(Box::new(handler)))
    }

    /// Adds a prompt whose handler answers through a [`Responder`].
    pub fn prompt_deferred<F>(self, prompt: Prompt, handler: F) -> Self
    where
        F: FnMut(PromptCall<'static>, Responder<GetPromptResult>) + 'static,
    {
        self.add_prompt(prompt, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a prompt whose handler may block.
    pub fn prompt_blocking<F>(self, prompt: Prompt, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut PromptCall<'static>) -> Result<GetPromptResult, CallError>
            + Send
            + Sync
            + 'static,
    {
        self.add_prompt(prompt, Handler::Blocking(Arc::new(handler)))
    }

    fn add_prompt(
        mut self,
        prompt: Prompt,
        handler: Handler<crate::engine::handler::Prompts>,
    ) -> Self {
        self.app.identity.capabilities.prompts.get_or_insert_with(ListCapability::default);
        let added = register::add_prompt(&mut self.catalog, &mut self.app, prompt, handler);
        self.note(added)
    }

    /// Completes arguments of prompts and placeholders of templates; without it the server does not
    /// declare completions.
    pub fn completion<F>(self, handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut CompleteCall<'a>) -> Result<CompleteResult, CallError>
            + 'static,
    {
        self.set_completion(Handler::Direct(Box::new(handler)))
    }

    /// Completes arguments through a [`Responder`].
    pub fn completion_deferred<F>(self, handler: F) -> Self
    where
        F: FnMut(CompleteCall<'static>, Responder<CompleteResult>) + 'static,
    {
        self.set_completion(Handler::Deferred(Box::new(handler)))
    }

    /// Completes arguments with a handler that may block.
    pub fn completion_blocking<F>(self, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut CompleteCall<'static>) -> Result<CompleteResult, CallError>
            + Send
            + Sync
            + 'static,
    {
        self.set_completion(Handler::Blocking(Arc::new(handler)))
    }

    fn set_completion(mut self, handler: Handler<Completions>) -> Self {
        self.app.identity.capabilities.completions = true;
        self.app.completions = Some(handler);
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
        let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#');
        if self.path.starts_with('/') && self.path.bytes().all(plain) {
            return self;
        }
        let reason = "it must begin with a slash and have neither spaces nor a query".to_owned();
        let name = self.path.clone();
        self.note(Err(BuildError::Invalid { kind: "path", name, reason }))
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

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("name", &self.app.identity.info.name)
            .field("path", &self.path)
            .field("mistake", &self.mistake)
            .finish_non_exhaustive()
    }
}
