//! Describing what a server offers: tools, resources, prompts, completions.

use std::sync::Arc;

use super::ServerBuilder;
use crate::engine::handler::{
    CallError, CompleteCall, Completions, Handler, PromptCall, Prompts, ResourceCall, Resources,
    ToolCall, Tools,
};
use crate::engine::register;
use crate::exchange::Responder;
use crate::mcp::model::{
    CallToolResult, CompleteResult, GetPromptResult, ListCapability, Prompt, ReadResourceResult,
    Reply, Resource, ResourceTemplate, ResourcesCapability, Tool,
};

impl ServerBuilder {
    /// Adds a tool with a direct handler: it runs on the loop and returns its result. The fast
    /// path; everything else on this server waits while it runs.
    pub fn tool<F, R>(self, tool: Tool, mut handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut ToolCall<'a>) -> Result<R, CallError> + 'static,
        R: Into<Reply<CallToolResult>>,
    {
        self.add_tool(
            tool,
            Handler::Direct(Box::new(move |call: &mut ToolCall<'_>| handler(call).map(Into::into))),
        )
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
    /// [`Limits::blocking_threads`](crate::Limits::blocking_threads).
    pub fn tool_blocking<F, R>(self, tool: Tool, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut ToolCall<'static>) -> Result<R, CallError> + Send + Sync + 'static,
        R: Into<Reply<CallToolResult>>,
    {
        self.add_tool(
            tool,
            Handler::Blocking(Arc::new(move |call: &mut ToolCall<'static>| {
                handler(call).map(Into::into)
            })),
        )
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
    pub fn resource<F, R>(self, resource: Resource, mut handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut ResourceCall<'a>) -> Result<R, CallError> + 'static,
        R: Into<Reply<ReadResourceResult>>,
    {
        self.add_resource(
            resource,
            Handler::Direct(Box::new(move |call: &mut ResourceCall<'_>| {
                handler(call).map(Into::into)
            })),
        )
    }

    /// Adds a resource whose handler answers through a [`Responder`].
    pub fn resource_deferred<F>(self, resource: Resource, handler: F) -> Self
    where
        F: FnMut(ResourceCall<'static>, Responder<ReadResourceResult>) + 'static,
    {
        self.add_resource(resource, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a resource whose handler may block.
    pub fn resource_blocking<F, R>(self, resource: Resource, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut ResourceCall<'static>) -> Result<R, CallError>
            + Send
            + Sync
            + 'static,
        R: Into<Reply<ReadResourceResult>>,
    {
        self.add_resource(
            resource,
            Handler::Blocking(Arc::new(move |call: &mut ResourceCall<'static>| {
                handler(call).map(Into::into)
            })),
        )
    }

    fn add_resource(mut self, resource: Resource, handler: Handler<Resources>) -> Self {
        self.declare_resources();
        let added = register::add_resource(&mut self.catalog, &mut self.app, resource, handler);
        self.note(added)
    }

    /// Adds a family of resources: every URI that matches the template and is no resource of its
    /// own. Placeholders are `{name}` for one segment and `{+name}` for any text.
    pub fn resource_template<F, R>(self, template: ResourceTemplate, mut handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut ResourceCall<'a>) -> Result<R, CallError> + 'static,
        R: Into<Reply<ReadResourceResult>>,
    {
        self.add_template(
            template,
            Handler::Direct(Box::new(move |call: &mut ResourceCall<'_>| {
                handler(call).map(Into::into)
            })),
        )
    }

    /// Adds a family of resources whose handler answers through a [`Responder`].
    pub fn resource_template_deferred<F>(self, template: ResourceTemplate, handler: F) -> Self
    where
        F: FnMut(ResourceCall<'static>, Responder<ReadResourceResult>) + 'static,
    {
        self.add_template(template, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a family of resources whose handler may block.
    pub fn resource_template_blocking<F, R>(self, template: ResourceTemplate, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut ResourceCall<'static>) -> Result<R, CallError>
            + Send
            + Sync
            + 'static,
        R: Into<Reply<ReadResourceResult>>,
    {
        self.add_template(
            template,
            Handler::Blocking(Arc::new(move |call: &mut ResourceCall<'static>| {
                handler(call).map(Into::into)
            })),
        )
    }

    fn add_template(mut self, template: ResourceTemplate, handler: Handler<Resources>) -> Self {
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
    pub fn prompt<F, R>(self, prompt: Prompt, mut handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut PromptCall<'a>) -> Result<R, CallError> + 'static,
        R: Into<Reply<GetPromptResult>>,
    {
        self.add_prompt(
            prompt,
            Handler::Direct(Box::new(move |call: &mut PromptCall<'_>| {
                handler(call).map(Into::into)
            })),
        )
    }

    /// Adds a prompt whose handler answers through a [`Responder`].
    pub fn prompt_deferred<F>(self, prompt: Prompt, handler: F) -> Self
    where
        F: FnMut(PromptCall<'static>, Responder<GetPromptResult>) + 'static,
    {
        self.add_prompt(prompt, Handler::Deferred(Box::new(handler)))
    }

    /// Adds a prompt whose handler may block.
    pub fn prompt_blocking<F, R>(self, prompt: Prompt, handler: F) -> Self
    where
        F: for<'c> Fn(&'c mut PromptCall<'static>) -> Result<R, CallError> + Send + Sync + 'static,
        R: Into<Reply<GetPromptResult>>,
    {
        self.add_prompt(
            prompt,
            Handler::Blocking(Arc::new(move |call: &mut PromptCall<'static>| {
                handler(call).map(Into::into)
            })),
        )
    }

    fn add_prompt(mut self, prompt: Prompt, handler: Handler<Prompts>) -> Self {
        self.app.identity.capabilities.prompts.get_or_insert_with(ListCapability::default);
        let added = register::add_prompt(&mut self.catalog, &mut self.app, prompt, handler);
        self.note(added)
    }

    /// Completes arguments of prompts and placeholders of templates; without it the server does not
    /// declare completions.
    pub fn completion<F>(self, mut handler: F) -> Self
    where
        F: for<'c, 'a> FnMut(&'c mut CompleteCall<'a>) -> Result<CompleteResult, CallError>
            + 'static,
    {
        self.set_completion(Handler::Direct(Box::new(move |call: &mut CompleteCall<'_>| {
            handler(call).map(Reply::Done)
        })))
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
        self.set_completion(Handler::Blocking(Arc::new(move |call: &mut CompleteCall<'static>| {
            handler(call).map(Reply::Done)
        })))
    }

    fn set_completion(mut self, handler: Handler<Completions>) -> Self {
        self.app.identity.capabilities.completions = true;
        self.app.completions = Some(handler);
        self
    }
}
