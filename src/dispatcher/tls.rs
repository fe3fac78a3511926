//! TLS over a socket: rustls does the cryptography, this moves its bytes and never blocks.

mod certificate;
mod files;
mod handshakes;

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

pub use files::Tls;
pub(crate) use files::TlsSource;
pub(super) use handshakes::Handshakes;

use super::Transport;
use super::transport::without_delay;
use crate::filter::ClientCertificate;
use crate::limits::TLS_OUTPUT_BYTES_MAX;

/// One connection that speaks TLS.
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
    stage: Stage,
    /// Decrypted and not read yet: no event will announce it.
    plaintext: usize,
    /// The last read of the socket took all there was.
    is_socket_empty: bool,
    /// The peer has said that nothing more comes.
    has_peer_ended: bool,
    /// It waits for a step of its handshake in a later turn.
    is_waiting: bool,
    /// Nothing has been read yet: the next byte shows whether the peer speaks TLS at all.
    is_first_read: bool,
    /// Plaintext that is encrypted already and not reported as written. Zero, or less than what
    /// the caller holds: it offers the same bytes again.
    owed: usize,
    /// Bytes the socket took since the last of these reports.
    sent: usize,
    /// Our side is to be closed as soon as everything is written.
    is_closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Handshaking,
    Open,
    /// The handshake has failed, or the peer does not speak TLS: what comes is read as it is, and
    /// nobody looks at it.
    Over,
}

/// What came of going on with a handshake.
enum Handshake {
    /// More has to come from the peer.
    Pending,
    /// There may be requests from now on.
    Done(Option<ClientCertificate>),
    /// The peer has closed its side.
    Gone,
    /// The peer has sent something that is no TLS.
    Foreign,
    Failed(io::Error),
}

impl TlsStream {
    fn new(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Ok(Self {
            socket,
            session,
            stage: Stage::Handshaking,
            plaintext: 0,
            is_socket_empty: false,
            has_peer_ended: false,
            is_waiting: false,
            is_first_read: true,
            owed: 0,
            sent: 0,
            is_closing: false,
        })
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.stage == Stage::Handshaking
    }

    /// Whether all that has come is read: what comes later raises an event of its own.
    pub(super) fn is_drained(&self) -> bool {
        let is_empty = self.is_socket_empty && self.plaintext == 0 && !self.has_peer_ended;
        is_empty || self.stage == Stage::Over
    }

    /// Whether something of the session's own waits to be written.
    pub(super) fn has_unsent(&self) -> bool {
        self.session.wants_write() || self.is_closing
    }

    fn handshake(&mut self) -> Handshake {
        while self.session.is_handshaking() {
            match self.pull() {
                Ok(0) => return Handshake::Gone,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Handshake::Pending,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.stage = Stage::Over;
                    let is_foreign = error.get_ref().is_some_and(|inner| inner.is::<Foreign>());
                    return if is_foreign { Handshake::Foreign } else { Handshake::Failed(error) };
                }
            }
        }
        let shown = self.session.peer_certificates().and_then(<[_]>::first);
        match shown.map(certificate::client_certificate).transpose() {
            Ok(certificate) => {
                self.stage = Stage::Open;
                Handshake::Done(certificate)
            }
            // Served without it, the client could be taken for one that has none.
            Err(error) => {
                self.stage = Stage::Over;
                Handshake::Failed(io::Error::new(ErrorKind::InvalidData, error))
            }
        }
    }

    /// Takes what the socket has, though not all of it, through the session.
    fn pull(&mut self) -> io::Result<usize> {
        let mut wire = Wire {
            socket: &mut self.socket,
            is_empty: &mut self.is_socket_empty,
            is_first: &mut self.is_first_read,
        };
        let count = self.session.read_tls(&mut wire)?;
        match self.session.process_new_packets() {
            Ok(state) => {
                self.plaintext = state.plaintext_bytes_to_read();
                self.has_peer_ended = state.peer_has_closed();
            }
            Err(error) => {
                // The alert that says why. If it cannot be sent now there is no later.
                let _ = self.push();
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        self.push()?;
        Ok(count)
    }

    /// Writes what the session has ready, as far as the socket takes it, and then closes our side
    /// if that is due.
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if std::mem::take(&mut self.is_closing) {
            self.socket.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// Tells the peer that nothing more comes, and closes our side behind that.
    pub(super) fn close_sending(&mut self) -> io::Result<()> {
        self.announce_end();
        self.is_closing = true;
        self.push()
    }

    fn announce_end(&mut self) {
        if self.stage == Stage::Open {
            self.session.send_close_notify();
        }
    }
}

impl Read for TlsStream {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if self.stage == Stage::Over {
            return self.socket.read(space);
        }
        loop {
            match self.session.reader().read(space) {
                Ok(count) => {
                    self.plaintext -= count.min(self.plaintext);
                    return Ok(count);
                }
                // A stream that ends without a close_notify has been cut off. What was sent says
                // by itself where it ends, so that nothing cut is taken for whole.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.pull()?;
        }
    }
}

impl Write for TlsStream {
    /// Encrypts as many bytes as may be buffered and reports them as the socket takes them, so
    /// that what the caller holds is what the peer has not taken. The last of them is reported
    /// when everything is gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.owed == 0 {
            self.push()?;
            if self.session.wants_write() {
                return Err(ErrorKind::WouldBlock.into());
            }
            if self.stage == Stage::Over {
                return self.socket.write(bytes);
            }
            self.owed = self.session.writer().write(bytes)?;
            self.sent = 0;
        }
        self.push()?;
        let is_gone = !self.session.wants_write();
        let taken = if is_gone { self.owed } else { self.sent.min(self.owed.saturating_sub(1)) };
        let taken = taken.min(bytes.len());
        if taken == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.owed -= taken;
        self.sent = self.sent.saturating_sub(taken);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

impl Drop for TlsStream {
    /// Tells the peer that nothing more comes, as far as that can be said without waiting.
    fn drop(&mut self) {
        self.announce_end();
        if let Err(error) = self.push() {
            log::debug!("the end of a connection could not be announced: {error}");
        }
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream")
            .field("stage", &self.stage)
            .field("plaintext", &self.plaintext)
            .field("owed", &self.owed)
            .finish_non_exhaustive()
    }
}

/// The socket as a session reads it, noting what the session cannot know.
struct Wire<'a> {
    socket: &'a mut TcpStream,
    is_empty: &'a mut bool,
    is_first: &'a mut bool,
}

impl Read for Wire<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read(space)?;
        *self.is_empty = count < space.len();
        if count > 0 && std::mem::take(self.is_first) && space[0] != HANDSHAKE_RECORD {
            return Err(io::Error::new(ErrorKind::InvalidData, Foreign));
        }
        Ok(count)
    }
}

/// The first byte of every TLS connection (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 0x16;

/// The peer does not speak TLS.
#[derive(Debug)]
struct Foreign;

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not begin with a TLS handshake")
    }
}

impl std::error::Error for Foreign {}

impl Transport {
    /// An accepted connection that begins with a handshake.
    pub(super) fn tls(stream: TcpStream, source: &TlsSource) -> Result<Self, rustls::Error> {
        without_delay(&stream);
        let stream = TlsStream::new(stream, source.current())?;
        Ok(Self::Tls(Box::new(stream)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as Blocking};
    use std::time::Duration;

    use rustls::crypto::ring;
    use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use socket2::SockRef;

    use super::*;

    /// Both ends of a connection whose socket holds little, with their handshake behind them.
    fn pair() -> (TlsStream, ClientConnection, Blocking) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = Blocking::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        SockRef::from(&accepted).set_send_buffer_size(8 * 1024).unwrap();
        accepted.set_nonblocking(true).unwrap();
        let mut stream = TlsStream::new(TcpStream::from_std(accepted), Arc::new(config)).unwrap();
        let shaking = std::thread::spawn(move || {
            client.complete_io(&mut socket).unwrap();
            (client, socket)
        });
        while !matches!(stream.handshake(), Handshake::Done(None)) {
            std::thread::yield_now();
        }
        let (client, socket) = shaking.join().unwrap();
        (stream, client, socket)
    }

    /// Writes until nobody takes any more, and how much was reported as taken.
    fn fill(stream: &mut TlsStream) -> usize {
        let bytes = [b'x'; 1024 * 1024];
        let mut reported = 0;
        loop {
            match stream.write(&bytes) {
                Ok(count) => reported += count,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    return reported;
                }
            }
        }
    }

    #[test]
    fn what_is_reported_as_written_is_on_the_wire() {
        let (mut stream, _, mut socket) = pair();
        let reported = fill(&mut stream);
        drop(stream);
        let mut wire = Vec::new();
        socket.read_to_end(&mut wire).unwrap();
        assert!(reported > 0 && reported <= wire.len(), "{reported} of {}", wire.len());
    }

    #[test]
    fn our_side_is_closed_behind_what_the_socket_did_not_take_yet() {
        let (mut stream, mut client, mut socket) = pair();
        let reported = fill(&mut stream);
        stream.close_sending().unwrap();
        assert!(stream.has_unsent());
        let reading = std::thread::spawn(move || {
            let mut received = Vec::new();
            let mut tls = rustls::Stream::new(&mut client, &mut socket);
            tls.read_to_end(&mut received).map(|_| received.len())
        });
        while stream.has_unsent() {
            stream.flush().unwrap();
            std::thread::yield_now();
        }
        // It would be an error if the end were not announced.
        let received = reading.join().unwrap().unwrap();
        assert_eq!(received, reported + stream.owed);
    }
}
