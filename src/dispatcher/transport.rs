//! What bytes travel over.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

#[cfg(feature = "tls")]
use super::tls::TlsStream;

/// The byte stream of one connection.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Transport {
    /// A TCP connection.
    Tcp(TcpStream),
    /// TLS over a TCP connection. Boxed because its state is some hundred times as large.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream>),
}

impl Transport {
    /// An accepted connection that begins with a request.
    pub(super) fn tcp(stream: TcpStream) -> Self {
        without_delay(&stream);
        Self::Tcp(stream)
    }

    /// Whether keys have to be agreed on before anything is read or written.
    pub(super) fn is_handshaking(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_handshaking(),
        }
    }

    /// Whether a read that was short took everything: what comes later raises an event.
    pub(super) fn is_drained(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_drained(),
        }
    }

    /// Whether something waits to be flushed beside what the engine has to write.
    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.has_unsent(),
        }
    }

    /// Closes our side behind everything that was written.
    pub(super) fn close_sending(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.close_sending(),
        }
    }

    fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.socket(),
        }
    }
}

/// Switches Nagle's algorithm off: a streamed answer would otherwise wait for the peer's delayed
/// acknowledgement.
pub(super) fn without_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        log::debug!("TCP_NODELAY could not be set: {error}");
    }
}

impl Read for Transport {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(space),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(space),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes what waits beside the engine's output, without waiting for the socket.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Source for Transport {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.socket().register(registry, token, interest)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.socket().reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket().deregister(registry)
    }
}
