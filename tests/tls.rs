//! TLS over real sockets, against certificates made for each test.
//!
//! Every wait is a blocking read or receive with a timeout; nothing here counts on timing.

#![cfg(feature = "tls")]

#[path = "it/support"]
mod support {
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod request;
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod response;
    #[expect(dead_code, reason = "the other tests on sockets use more of it")]
    pub(crate) mod running;
}
#[path = "tls/certificates.rs"]
mod certificates;
#[path = "tls/files.rs"]
mod files;
#[path = "tls/identity.rs"]
mod identity;
#[path = "tls/stream.rs"]
mod stream;

use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use support::running::{Client, Running};

/// A client that speaks TLS.
type Secure = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Connects to a server; the handshake happens with the first byte that is sent or read.
fn connect(server: &Running, config: &Arc<ClientConfig>) -> Secure {
    let socket = server.connect().stream;
    Client::over(StreamOwned::new(session(config), socket))
}

fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("it is a name");
    ClientConnection::new(Arc::clone(config), name).expect("the configuration is sound")
}
