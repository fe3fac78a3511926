//! Connections whose transport has to agree on its keys before the first request: TLS. What a
//! handshake is the engine does not know; it knows that one is under way and for how long.

use std::time::Instant;

use super::{Engine, Phase};
use crate::filter::{ClientCertificate, Response};
use crate::http::Status;
use crate::key::ConnKey;
use crate::rpc::ErrorObject;

impl<T> Engine<T> {
    /// Says that the handshake of a new connection begins. Nothing is served until
    /// [`end_handshake`](Self::end_handshake); without that the connection is closed after
    /// [`Timeouts::head`](crate::Timeouts::head), however much its peer says meanwhile.
    pub fn begin_handshake(&mut self, key: ConnKey, now: Instant) {
        if let Some(conn) = self.conn(key).filter(|conn| conn.phase == Phase::Open) {
            conn.phase = Phase::Handshaking;
            self.set_clock(key, now);
        }
    }

    /// Says that the handshake has come to its end: requests are served from now on.
    pub fn end_handshake(&mut self, key: ConnKey, now: Instant) {
        if let Some(conn) = self.conn(key).filter(|conn| conn.phase == Phase::Handshaking) {
            conn.phase = Phase::Open;
            self.set_clock(key, now);
        }
    }

    /// Says that the client has shown this certificate. For drivers that speak TLS themselves; it
    /// holds until the connection ends.
    pub fn set_client_certificate(&mut self, key: ConnKey, certificate: ClientCertificate) {
        if let Some(conn) = self.conn(key) {
            conn.peer.certificate = Some(Box::new(certificate));
        }
    }

    /// Gives up a handshake that has failed. The driver is asked to close the sending side, behind
    /// whatever the transport still has to say (an alert), and the peer has the time it has after a
    /// last answer to read that.
    pub fn fail_handshake(&mut self, key: ConnKey) {
        if self.conn(key).is_some_and(|conn| conn.phase == Phase::Handshaking) {
            self.give_up(key);
        }
    }

    /// Refuses a peer that has sent something else than a handshake: with a 400 that says
    /// `message`, to be written in plain, and then as by [`fail_handshake`](Self::fail_handshake).
    pub fn refuse_handshake(&mut self, key: ConnKey, message: &'static str, now: Instant) {
        if self.conn(key).is_none_or(|conn| conn.phase != Phase::Handshaking) {
            return;
        }
        let error = ErrorObject::invalid_request(message);
        self.answer_garbage(key, Response::rpc_error(Status::BAD_REQUEST, None, &error), now);
        self.set_clock(key, now);
    }
}
