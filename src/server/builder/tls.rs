//! Describing a server that speaks TLS.

use super::ServerBuilder;
use crate::dispatcher::Tls;

impl ServerBuilder {
    /// Makes the server speak HTTPS, and nothing else: a client that sends plain HTTP is told so
    /// and closed. The files are read by [`bind`](Self::bind); an engine without sockets has no
    /// use for them. For a host name in the URL see [`allow_host`](Self::allow_host).
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }
}
