//! How much of everything there is right now.

use super::Engine;

impl<T> Engine<T> {
    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Number of requests whose answer is owed by a handler.
    #[must_use]
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    /// Number of tasks that can be asked about, ended or not.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// What those tasks hold, in bytes.
    #[must_use]
    pub fn task_bytes(&self) -> usize {
        self.tasks.bytes()
    }

    /// Number of requests to clients that wait for an answer.
    #[must_use]
    pub fn asks(&self) -> usize {
        self.asks.len()
    }

    /// Number of open modern subscriptions.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Number of events that clients who lost their connection may still ask for.
    #[must_use]
    pub fn retained_events(&self) -> usize {
        self.detached.events()
    }

    /// Number of streams those events belong to.
    #[must_use]
    pub fn retained_streams(&self) -> usize {
        self.detached.len()
    }

    /// What those events take, in bytes.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.detached.bytes()
    }

    /// Number of open classic sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}
