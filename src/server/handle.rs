//! The server as other threads see it.

use std::any::Any;

use crate::engine::Engine;
use crate::engine::command::{Command, NewTool};
use crate::engine::handler::{CallError, Handler, ToolCall};
use crate::engine::register;
use crate::error::BuildError;
use crate::exchange::Mail;
use crate::mailbox::Mailbox;
use crate::mcp::model::{CallToolResult, Tool};

/// Changes a running server from any thread. Cheap to clone; everything is done by the loop, in
/// the order of the calls, at its next turn.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    mailbox: Mailbox<Mail>,
}

impl ServerHandle {
    pub(crate) fn new(mailbox: Mailbox<Mail>) -> Self {
        Self { mailbox }
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
    pub fn add_tool<F>(&self, tool: Tool, handler: F) -> Result<(), BuildError>
    where
        F: for<'c, 'a> FnMut(&'c mut ToolCall<'a>) -> Result<CallToolResult, CallError>
            + Send
            + 'static,
    {
        let (entry, schemas) = register::check_tool(tool)?;
        let code = Box::new(move || schemas.with(Handler::Direct(Box::new(handler))));
        self.post(Command::AddTool(Box::new(NewTool { entry, code })));
        Ok(())
    }

    /// Removes a tool. Calls that are running finish; a name nobody has is logged.
    pub fn remove_tool(&self, name: &str) {
        self.post(Command::RemoveTool(name.to_owned()));
    }

    fn post(&self, command: Command) {
        let command: Box<dyn Any + Send> = Box::new(command);
        self.mailbox.post(Mail::Command(command));
    }
}
