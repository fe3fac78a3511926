//! Changes of the server, told to everybody who wants to hear of them.
//!
//! A burst of changes is told once: the first one starts a short clock, and what has changed by
//! the time it is up goes out together. Modern callers hear of it on their subscriptions, classic
//! sessions on their stream.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use super::{Due, Engine};
use crate::key::ExchangeId;
use crate::mcp::subscription::Change;

/// What has changed and is not told yet.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Each with its place in the order in which they came.
    changes: HashMap<Change, usize>,
    resources: usize,
    armed: bool,
}

impl<T> Engine<T> {
    /// Notes a change; it is told when the clock is up.
    pub(super) fn on_change(&mut self, change: Change, now: Instant) {
        if !self.app.identity.capabilities.announces(&change) {
            return log::debug!("{} is not declared and not announced", change.method());
        }
        let is_resource = matches!(change, Change::Resource(_));
        let place = self.announced.changes.len();
        if let Entry::Vacant(entry) = self.announced.changes.entry(change) {
            entry.insert(place);
            self.announced.resources += usize::from(is_resource);
        }
        let full = self.announced.resources > self.limits.announced_resources_max;
        if full || self.timeouts.announce == Duration::ZERO {
            return self.announce(now);
        }
        if !std::mem::replace(&mut self.announced.armed, true) {
            self.timers.arm(now + self.timeouts.announce, Due::Announce);
        }
    }

    /// Tells what has changed.
    pub(super) fn announce(&mut self, now: Instant) {
        let Announced { changes, .. } = std::mem::take(&mut self.announced);
        let mut changes: Vec<(Change, usize)> = changes.into_iter().collect();
        changes.sort_unstable_by_key(|(_, place)| *place);
        for (change, _) in changes {
            for (stream, message) in self.subscriptions.tell(&change) {
                self.say(stream, &message, now);
            }
            self.announce_to_sessions(&change, now);
        }
    }

    fn announce_to_sessions(&mut self, change: &Change, now: Instant) {
        let mut message = Vec::new();
        change.write(&mut message, None);
        for session in self.sessions.concerned(change) {
            self.tell_session(session, &message, now);
        }
    }

    /// Ends every subscription, each with the answer to the request that opened it.
    pub(super) fn end_subscriptions(&mut self, now: Instant) {
        for stream in self.subscriptions.streams() {
            self.end_stream(stream, now);
        }
    }

    /// Says what of a new subscription's wishes is honoured. One that can hear of nothing is over.
    pub(super) fn begin_subscription(
        &mut self,
        id: ExchangeId,
        acknowledgement: &[u8],
        hears: bool,
        now: Instant,
    ) {
        self.say(id, acknowledgement, now);
        if !hears {
            self.end_stream(id, now);
        }
    }
}
