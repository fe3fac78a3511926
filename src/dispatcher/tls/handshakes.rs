//! Handshakes and the loop: how many steps they get in a turn, and which of them wait.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Handshake, TlsSource, TlsStream};
use crate::dispatcher::{Dispatcher, Drain, Transport};
use crate::engine::Engine;
use crate::key::ConnKey;

/// What the loop knows of handshakes.
#[derive(Debug, Default)]
pub(in crate::dispatcher) struct Handshakes {
    /// Some when connections begin with a handshake.
    pub(in crate::dispatcher) source: Option<Arc<TlsSource>>,
    /// Taken in the current turn.
    steps: usize,
    /// Those for which no step was left, each once, in the order in which they came.
    waiting: VecDeque<ConnKey>,
}

impl Handshakes {
    /// Whether there are steps to take that no event will announce.
    pub(in crate::dispatcher) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Dispatcher {
    /// Accepts connections that begin with a handshake, from now on.
    pub(crate) fn speak_tls(&mut self, source: Arc<TlsSource>) {
        self.tls.source = Some(source);
    }

    /// Begins a turn: those that have waited longest come first.
    pub(in crate::dispatcher) fn visit_handshakes(&mut self, engine: &mut Engine<Transport>) {
        self.tls.steps = 0;
        while self.tls.steps < steps_max(engine)
            && let Some(key) = self.tls.waiting.pop_front()
        {
            if let Some(stream) = stream(engine, key) {
                stream.is_waiting = false;
                self.read(engine, key, Drain::UntilBlocked);
            }
        }
    }

    /// Goes on with a handshake; true once it is done and there may be requests.
    pub(in crate::dispatcher) fn shake_hands(
        &mut self,
        engine: &mut Engine<Transport>,
        key: ConnKey,
    ) -> bool {
        let is_spent = self.tls.steps >= steps_max(engine);
        let Some(stream) = stream(engine, key) else {
            return false;
        };
        if is_spent || stream.is_waiting {
            if !std::mem::replace(&mut stream.is_waiting, true) {
                self.tls.waiting.push_back(key);
            }
            return false;
        }
        self.tls.steps += 1;
        match stream.handshake() {
            Handshake::Pending => return false,
            Handshake::Gone => engine.receive_end(key),
            Handshake::Foreign => {
                log::debug!("{key:?} does not speak TLS");
                engine.refuse_handshake(key, "this port speaks TLS: use https", self.now);
            }
            Handshake::Failed(error) => {
                let peer = engine.conn(key).and_then(|conn| conn.peer.address);
                let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
                log::info!("the TLS handshake of {peer} failed: {error}");
                engine.fail_handshake(key);
            }
            Handshake::Done(certificate) => {
                engine.end_handshake(key, self.now);
                if let Some(certificate) = certificate {
                    engine.set_client_certificate(key, certificate);
                }
                return true;
            }
        }
        false
    }
}

fn stream(engine: &mut Engine<Transport>, key: ConnKey) -> Option<&mut TlsStream> {
    match &mut engine.conn(key)?.io {
        Transport::Tls(stream) => Some(stream),
        Transport::Tcp(_) => None,
    }
}

/// Without a single step nobody would ever be served.
fn steps_max(engine: &Engine<Transport>) -> usize {
    engine.limits().turn.handshakes_max.max(1)
}
