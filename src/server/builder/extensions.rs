//! Declaring what a server can do beyond the protocol.

use serde::Serialize;

use super::ServerBuilder;

impl ServerBuilder {
    /// Declares an extension, with an object of the settings it has: callers of 2026-07-28 and
    /// later find it among the capabilities. What the extension does is up to filters, routes and
    /// handlers of yours; what a caller knows of it is in
    /// [`ClientCapabilities::extension`](crate::mcp::model::ClientCapabilities::extension).
    ///
    /// The name is a domain of yours backwards, a slash and a name, such as `com.example/audit`.
    /// Another name, one that is declared already, or settings that are no object are a mistake in
    /// the description.
    pub fn extension(mut self, name: &str, settings: impl Serialize) -> Self {
        let declared = self.app.identity.capabilities.declare_extension(name, settings);
        self.note(declared)
    }
}
