//! What those who run a server switch on: everything here is off unless asked for.

use super::ServerBuilder;

/// The choices of this file.
#[derive(Debug, Default)]
pub(super) struct Ops {
    pub(super) access_log: bool,
}

impl ServerBuilder {
    /// Writes a line for every response to the log, see [`AccessLog`](crate::filter::AccessLog).
    /// It is in front of all filters, so that it sees what the callers see.
    pub fn access_log(mut self) -> Self {
        self.ops.access_log = true;
        self
    }
}
