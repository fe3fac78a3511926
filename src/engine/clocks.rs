//! What time does: every deadline of the engine.

use std::time::{Duration, Instant};

use super::{Clock, CloseReason, Due, Engine};
use crate::filter::Response;
use crate::http::Status;
use crate::key::{ConnKey, ExchangeId};
use crate::rpc::ErrorObject;

impl<T> Engine<T> {
    /// Starts the clock that ought to run for a connection, unless it runs already. An idle one
    /// starts again with every request: that is a field store, and the timer entry that is out
    /// re-arms itself when it fires early.
    pub(super) fn set_clock(&mut self, key: ConnKey, now: Instant) {
        let timeouts = &self.timeouts;
        let Some(conn) =
            self.conns.get_mut(key.index()).filter(|conn| conn.generation == key.generation())
        else {
            return;
        };
        let due = conn.due_clock();
        if due == conn.clock && due != Clock::Idle && conn.deadline.is_some() {
            return;
        }
        conn.clock = due;
        conn.deadline = duration(timeouts, due).map(|patience| now + patience);
        if let Some(deadline) = conn.deadline
            && conn.armed.is_none_or(|armed| armed > deadline)
        {
            conn.armed = Some(deadline);
            self.timers.arm(deadline, Due::Conn(key));
            self.drop_stale_timers();
        }
    }

    /// Forgets the entries of connections and calls that are gone, once they are most of the
    /// queue. They would fire into nothing, but not before their time, and short-lived ones leave
    /// many.
    fn drop_stale_timers(&mut self) {
        let needed = self.conns.len() + self.exchanges.len();
        if self.timers.len() <= STALE_MIN + needed * 4 {
            return;
        }
        let Self { timers, conns, exchanges, asks, .. } = self;
        timers.retain(|at, due| match due {
            Due::Conn(key) => conns
                .get(key.index())
                .is_some_and(|conn| conn.generation == key.generation() && conn.armed == Some(at)),
            Due::KeepAlive(id) => {
                exchanges.find(id).is_some_and(|exchange| exchange.keep_alive == Some(at))
            }
            Due::Ask(number) => asks.is_waiting(number),
            Due::Sessions | Due::Tasks | Due::Retention | Due::Announce | Due::Grace => true,
        });
    }

    /// Fires what is due at `now`. A timer armed by a timer waits for its own time.
    pub(super) fn fire_timers(&mut self, now: Instant) {
        while let Some((armed, due)) = self.timers.pop_due(now) {
            match due {
                Due::Conn(key) => self.on_conn_timer(key, armed, now),
                Due::KeepAlive(id) => self.on_keep_alive(id, armed, now),
                Due::Sessions => self.on_sessions_timer(now),
                Due::Retention => self.on_retention(now),
                Due::Ask(number) => self.on_ask_timer(number, now),
                Due::Tasks => self.expire_tasks(now),
                Due::Announce => self.announce(now),
                Due::Grace => self.abort(),
            }
        }
    }

    fn on_conn_timer(&mut self, key: ConnKey, armed: Instant, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        if conn.armed != Some(armed) {
            return;
        }
        conn.armed = None;
        match conn.deadline {
            Some(deadline) if deadline <= now => self.on_time_up(key, now),
            Some(deadline) => {
                conn.armed = Some(deadline);
                self.timers.arm(deadline, Due::Conn(key));
            }
            None => {}
        }
    }

    fn on_time_up(&mut self, key: ConnKey, now: Instant) {
        let Some(conn) = self.conn(key) else { return };
        conn.deadline = None;
        match conn.clock {
            Clock::Idle => self.close(key, CloseReason::Idle),
            Clock::Handshake => self.close(key, CloseReason::HandshakeTooSlow),
            Clock::Head | Clock::Body => self.refuse_slow_request(key, now),
            Clock::Held => self.on_hold_expired(key, now),
            Clock::Write => self.close(key, CloseReason::ReaderTooSlow),
            Clock::Linger => self.close(key, CloseReason::AnsweredAndClosed),
            Clock::Work => {}
        }
    }

    fn refuse_slow_request(&mut self, key: ConnKey, now: Instant) {
        if self.conn(key).is_some_and(|conn| conn.codec.is_discarding()) {
            self.give_up(key);
            return self.set_clock(key, now);
        }
        let error = ErrorObject::invalid_request("the request did not come in time");
        let response = Response::rpc_error(Status::REQUEST_TIMEOUT, None, &error);
        self.answer_garbage(key, response, now);
        self.set_clock(key, now);
    }

    /// A comment on a silent stream, so that nothing between here and the reader cuts it. An
    /// answer that is slow in coming becomes a stream for it.
    fn on_keep_alive(&mut self, id: ExchangeId, armed: Instant, now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        if exchange.keep_alive != Some(armed) {
            return;
        }
        exchange.keep_alive = None;
        let Some(key) = self.attached(id) else { return };
        if !self.open_stream(id, None, now) {
            return;
        }
        self.pool_output(key);
        if let Some(conn) = self.conn(key)
            && let Some(writer) = &conn.stream
        {
            // A failing comment means that the stream has ended, and so has its need for one.
            if writer.comment(&mut conn.output, "keep-alive").is_err() {
                return;
            }
        }
        self.make_dirty(key);
        self.set_clock(key, now);
        self.arm_keep_alive(id, now);
    }

    pub(super) fn arm_keep_alive(&mut self, id: ExchangeId, now: Instant) {
        let interval = self.timeouts.keep_alive;
        let Some(exchange) = self.exchanges.find(id).filter(|_| interval > Duration::ZERO) else {
            return;
        };
        let at = now + interval;
        // The entry for an earlier time stands for nothing from now on.
        exchange.keep_alive = Some(at);
        self.timers.arm(at, Due::KeepAlive(id));
        self.drop_stale_timers();
    }

    fn on_retention(&mut self, now: Instant) {
        self.retention_armed = None;
        self.detached.expire(now);
        self.arm_retention();
    }

    fn on_sessions_timer(&mut self, now: Instant) {
        let busy = self.exchanges.busy_sessions();
        let ended = self.sessions.sweep(now, |session| busy.contains(&session));
        if ended > 0 {
            log::debug!("{ended} idle sessions ended");
        }
        self.timers.arm(now + self.sessions.sweep_interval(), Due::Sessions);
    }
}

/// Fewer stale entries than this are not worth a look.
const STALE_MIN: usize = 4096;

fn duration(timeouts: &crate::limits::Timeouts, clock: Clock) -> Option<Duration> {
    match clock {
        Clock::Idle => Some(timeouts.idle),
        Clock::Handshake | Clock::Head => Some(timeouts.head),
        Clock::Body => Some(timeouts.body),
        Clock::Held => Some(timeouts.auth),
        Clock::Write => Some(timeouts.write),
        Clock::Linger => Some(timeouts.linger),
        Clock::Work => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[test]
    fn short_lived_connections_do_not_pile_up_timers() {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        let now = Instant::now();
        let mut engine: Engine<()> = Server::builder("test", "1").build_engine().unwrap();
        engine.start(now);
        for _ in 0..STALE_MIN * 3 {
            let key = engine.connect((), None, now).unwrap();
            engine.receive_end(key);
            while engine.poll_dead().is_some() {}
        }
        assert!(engine.timers.len() <= STALE_MIN + 2, "{}", engine.timers.len());
        assert!(engine.next_deadline().is_some(), "the sweep of sessions is still due");
    }
}
