//! The server as other threads see it.

use std::any::Any;

use serde_json::value::RawValue;

use crate::engine::Engine;
use crate::engine::asking::OutsideAsk;
use crate::engine::command::{Command, NewTool};
use crate::engine::handler::{CallError, Handler, ToolCall};
use crate::engine::register;
use crate::error::BuildError;
use crate::exchange::{AskError, Mail};
use crate::key::SessionId;
use crate::mailbox::Mailbox;
use crate::mcp::model::{CallToolResult, InputRequest, Reply, Tool};
use crate::mcp::subscription::Change;

/// Changes a running server from any thread. Cheap to clone; everything is done by the loop, in
/// the order of the calls, at its next turn.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    mailbox: Mailbox<Mail>,
    /// Some when the server speaks TLS.
    #[cfg(feature = "tls")]
    tls: Option<std::sync::Arc<crate::dispatcher::TlsSource>>,
}

impl ServerHandle {
    pub(crate) fn new(mailbox: Mailbox<Mail>) -> Self {
        Self {
            mailbox,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// A handle of an engine that is driven by a loop of your own.
    #[must_use]
    pub fn of<T>(engine: &Engine<T>) -> Self {
        Self::new(engine.mailbox().clone())
    }

    /// Ends the server: no new connections, running calls may finish within the grace period.
    pub fn shut_down(&self) {
        self.post(Command::ShutDown);
    }

    /// Adds a tool with a direct handler. A name that is taken is logged and changes nothing.
    ///
    /// # Errors
    ///
    /// When a schema does not compile or a header designation cannot be served.
    pub fn add_tool<F, R>(&self, tool: Tool, mut handler: F) -> Result<(), BuildError>
    where
        F: for<'c, 'a> FnMut(&'c mut ToolCall<'a>) -> Result<R, CallError> + Send + 'static,
        R: Into<Reply<CallToolResult>>,
    {
        let (entry, schemas) = register::check_tool(tool)?;
        let code = Box::new(move || {
            schemas.with(Handler::Direct(Box::new(move |call: &mut ToolCall<'_>| {
                handler(call).map(Into::into)
            })))
        });
        self.post(Command::AddTool(Box::new(NewTool { entry, code })));
        Ok(())
    }

    /// Removes a tool. Calls that are running finish; a name nobody has is logged.
    pub fn remove_tool(&self, name: &str) {
        self.post(Command::RemoveTool(name.to_owned()));
    }

    /// Announces that the list of tools is another one now. Adding and removing tools through a
    /// handle does so by itself.
    ///
    /// Changes that come in quick succession are announced once, see
    /// [`Timeouts::announce`](crate::Timeouts::announce). Modern callers hear of them on the
    /// subscriptions that asked (revision 2026-07-28, Subscriptions), classic sessions on their
    /// stream or when they next open one.
    pub fn tools_changed(&self) {
        self.post(Command::Announce(Change::Tools));
    }

    /// Announces that the list of prompts is another one now; see
    /// [`tools_changed`](Self::tools_changed).
    pub fn prompts_changed(&self) {
        self.post(Command::Announce(Change::Prompts));
    }

    /// Announces that the list of resources is another one now; see
    /// [`tools_changed`](Self::tools_changed).
    pub fn resources_changed(&self) {
        self.post(Command::Announce(Change::Resources));
    }

    /// Announces that a resource reads differently now, to those who follow this very URI.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.post(Command::Announce(Change::Resource(uri.into())));
    }

    /// Asks a classic session something that belongs to none of its calls; a call asks for itself,
    /// see [`Responder::ask`](crate::Responder::ask) and [`Reply`].
    ///
    /// The question goes out on the session's own stream, or when it opens one. `tell` runs on the
    /// loop, exactly once: with the client's result as it came, or with the reason why there is
    /// none. It must be quick. Modern callers have no sessions and cannot be asked this way.
    pub fn ask<F>(&self, session: SessionId, request: InputRequest, tell: F)
    where
        F: FnOnce(Result<Box<RawValue>, AskError>) + Send + 'static,
    {
        let request = Some(request);
        self.post(Command::Ask(OutsideAsk { session, request, tell: Box::new(tell) }));
    }

    /// Asks whether the client of a classic session is there (revision 2025-11-25, Ping).
    pub fn ping<F>(&self, session: SessionId, tell: F)
    where
        F: FnOnce(Result<(), AskError>) + Send + 'static,
    {
        let tell = Box::new(|outcome: Result<Box<RawValue>, AskError>| tell(outcome.map(drop)));
        self.post(Command::Ask(OutsideAsk { session, request: None, tell }));
    }

    /// Ends every modern subscription, each with an answer that says so. The server goes on, and
    /// clients may subscribe again.
    pub fn end_subscriptions(&self) {
        self.post(Command::EndSubscriptions);
    }

    /// Reads the files of the server's [`Tls`](crate::Tls) again and shows the new certificate, and
    /// asks for clients of the new authorities, on connections that are accepted from now on. What
    /// is open stays as it is. Unlike the rest this is done on the calling thread, which waits for
    /// the files.
    ///
    /// # Errors
    ///
    /// When a file cannot be used, which is also logged, or the server does not speak TLS. It then
    /// goes on with what it has.
    #[cfg(feature = "tls")]
    pub fn reload_tls(&self) -> Result<(), BuildError> {
        let Some(source) = &self.tls else {
            let reason = "it does not speak TLS".to_owned();
            return Err(BuildError::Invalid { kind: "server", name: "reload".to_owned(), reason });
        };
        source.reload().inspect_err(|error| {
            log::error!("the server goes on with the certificate it has: {error}");
        })
    }

    #[cfg(feature = "tls")]
    pub(super) fn with_tls(
        mut self,
        tls: Option<std::sync::Arc<crate::dispatcher::TlsSource>>,
    ) -> Self {
        self.tls = tls;
        self
    }

    fn post(&self, command: Command) {
        let command: Box<dyn Any + Send> = Box::new(command);
        self.mailbox.post(Mail::Command(command));
    }
}
