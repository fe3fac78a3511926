//! Requests that wait at their head for a decision which is made on another thread.

use std::any::Any;
use std::time::Instant;

use super::serve::Step;
use super::{Conn, Engine, Phase};
use crate::filter::{Cx, Facts, Refusal, Response};
use crate::guard::guarded;
use crate::key::ConnKey;

impl<T> Engine<T> {
    /// Lets a request wait. What its sender goes on to send stays where it is.
    pub(super) fn hold(&mut self, key: ConnKey, otherwise: Response) -> Step {
        if let Some(conn) = self.conn(key) {
            conn.phase = Phase::Held;
            conn.passage.hold.get_or_insert_default().otherwise = Some(otherwise);
        }
        Step::Rest
    }

    /// Takes a decision to the filter that waits for it, and the request on from there. One that
    /// comes too late is for a request that is gone, even if its connection is not.
    pub(super) fn on_resume(
        &mut self,
        key: ConnKey,
        ticket: u64,
        told: Box<dyn Any + Send>,
        now: Instant,
    ) {
        let Some(conn) = self.conn(key) else { return };
        match &mut conn.passage.hold {
            Some(hold) if hold.ticket == ticket => hold.told = Some(told),
            _ => return,
        }
        conn.phase = Phase::Open;
        let decided = self.on_head_again(key, now);
        if let Some(conn) = self.conn(key) {
            conn.passage.hold = None;
        }
        if let Err(refusal) = decided {
            self.refuse_head(key, refusal, now);
        }
        self.go_on(key, now);
    }

    /// Shows the head to the filter that held it, and to those behind it.
    fn on_head_again(&mut self, key: ConnKey, now: Instant) -> Result<(), Refusal> {
        let Self { conns, chain, catalog, sessions, health, .. } = self;
        let Some(Conn { input, codec, passage, peer, .. }) = conns.get_mut(key.index()) else {
            return Ok(());
        };
        let request = codec.request(input);
        let first = passage.stopped_at;
        let mut cx = Cx {
            now,
            conn: key,
            peer,
            facts: Facts::of(&request),
            passage,
            catalog,
            sessions,
            health: *health,
        };
        guarded(|| chain.on_head_from(first, &request, &mut cx))
            .unwrap_or_else(|_| Err(super::serve::panicked()))
    }

    /// Nobody has decided in time.
    pub(super) fn on_hold_expired(&mut self, key: ConnKey, now: Instant) {
        let Some(hold) = self.conn(key).and_then(|conn| conn.passage.hold.take()) else { return };
        log::warn!("nobody decided about the credentials of a request in time");
        if let Some(otherwise) = hold.otherwise {
            self.refuse_held(key, Refusal::drain(otherwise), now);
        }
    }

    /// Ends a wait without its decision.
    pub(super) fn refuse_held(&mut self, key: ConnKey, refusal: Refusal, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        conn.phase = Phase::Open;
        conn.passage.hold = None;
        self.refuse_head(key, refusal, now);
        self.go_on(key, now);
    }

    /// Serves what has come meanwhile in the next pass over connections that are ready. The mark
    /// makes the driver look at the connection, whose input it may have left unread.
    fn go_on(&mut self, key: ConnKey, now: Instant) {
        self.make_ready(key);
        self.make_dirty(key);
        self.set_clock(key, now);
    }
}
