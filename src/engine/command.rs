//! What a handle may ask of a running server.

use std::any::Any;
use std::time::Instant;

use super::Engine;
use super::app::ToolCode;
use super::asking::OutsideAsk;
use super::register;
use crate::mcp::catalog::ToolEntry;
use crate::mcp::subscription::Change;

/// Posted by a handle, performed on the loop.
pub(crate) enum Command {
    AddTool(Box<NewTool>),
    RemoveTool(String),
    Announce(Change),
    EndSubscriptions,
    Ask(OutsideAsk),
    ShutDown,
}

/// A tool that has been checked on its owner's thread and may cross to the loop.
pub(crate) struct NewTool {
    pub(crate) entry: ToolEntry,
    /// Makes the code on the loop's thread: handlers themselves need not be `Send` there.
    pub(crate) code: Box<dyn FnOnce() -> ToolCode + Send>,
}

impl<T> Engine<T> {
    pub(super) fn on_command(&mut self, command: Box<dyn Any + Send>, now: Instant) {
        match command.downcast::<Command>().map(|command| *command) {
            Ok(Command::AddTool(new)) => {
                let name = new.entry.tool.name.clone();
                let code = (new.code)();
                if let Err(error) =
                    register::shelve_tool(&mut self.catalog, &mut self.app, new.entry, code)
                {
                    return log::error!("{name:?} was not added: {error}");
                }
                self.on_change(Change::Tools, now);
            }
            Ok(Command::RemoveTool(name)) => match self.catalog.tools.remove(&name) {
                Some((seq, _)) => {
                    self.app.tools.remove(&seq);
                    self.on_change(Change::Tools, now);
                }
                None => log::warn!("there is no tool {name:?} to remove"),
            },
            Ok(Command::Announce(change)) => self.on_change(change, now),
            Ok(Command::Ask(ask)) => self.on_outside_ask(ask, now),
            Ok(Command::EndSubscriptions) => self.end_subscriptions(now),
            Ok(Command::ShutDown) => self.shut_down(now),
            Err(_) => debug_assert!(false, "only handles post commands"),
        }
    }
}
