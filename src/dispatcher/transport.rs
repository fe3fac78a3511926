//! What bytes travel over.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

/// The byte stream of one connection.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Transport {
    /// A TCP connection.
    Tcp(TcpStream),
}

impl Transport {
    /// An accepted connection, with Nagle's algorithm off: a streamed answer would otherwise wait
    /// for the peer's delayed acknowledgement.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!("TCP_NODELAY could not be set: {error}");
        }
        Self::Tcp(stream)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
        }
    }
}

impl Read for Transport {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(space),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Transport {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interest),
        }
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
        }
    }
}
