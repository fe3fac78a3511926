//! Listening sockets: where they may be bound, and accepting without starving or spinning.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Socket, Type};

use crate::error::BuildError;

/// A listening socket and what is known of its queue.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    /// There may be connections to accept; the reactor will not say so again.
    more: bool,
    /// The process ran out of descriptors: no use trying before this.
    paused_until: Option<Instant>,
}

impl Listener {
    pub(super) fn new(socket: std::net::TcpListener) -> Self {
        Self { socket: TcpListener::from_std(socket), more: false, paused_until: None }
    }

    pub(super) fn source(&mut self) -> &mut TcpListener {
        &mut self.socket
    }

    pub(super) fn announce(&mut self) {
        self.more = true;
    }

    /// Whether there is something to accept right now.
    pub(super) fn has_more(&self) -> bool {
        self.more && self.paused_until.is_none()
    }

    /// When accepting is tried again after a shortage.
    pub(super) fn resumes_at(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Accepts up to `budget` connections.
    pub(super) fn accept(
        &mut self,
        budget: usize,
        now: Instant,
        pause: Duration,
    ) -> Vec<(TcpStream, SocketAddr)> {
        let mut accepted = Vec::new();
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
        }
        while self.has_more() && accepted.len() < budget {
            match self.socket.accept() {
                Ok(connection) => accepted.push(connection),
                Err(error) => self.on_error(&error, now, pause),
            }
        }
        accepted
    }

    fn on_error(&mut self, error: &io::Error, now: Instant, pause: Duration) {
        match error.kind() {
            ErrorKind::WouldBlock => self.more = false,
            // The peer gave up while it waited; the next one may not have.
            ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted => {}
            // Out of descriptors or memory: the waiting connections stay in the queue, and trying
            // again at once would only spin.
            _ => {
                log::error!("cannot accept connections for now: {error}");
                self.paused_until = Some(now + pause);
            }
        }
    }
}

/// Where a server may listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BindPolicy {
    /// On this machine's loopback only.
    Loopback,
    /// Anywhere.
    Public,
}

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 8080;
/// Connections that may wait to be accepted: as many as Linux allows unless it is told otherwise.
/// One too many in a burst is only tried again after a second.
const BACKLOG: i32 = 4096;

/// Opens the listening sockets for `HOST:PORT`. No host means 127.0.0.1, no port 8080, and
/// `localhost` both loopback addresses. Names are not resolved: what a name server says must not
/// decide where a server can be reached.
pub(crate) fn bind(
    address: &str,
    policy: BindPolicy,
) -> Result<Vec<std::net::TcpListener>, BuildError> {
    let refused = |reason: &str| BuildError::Address {
        address: address.to_owned(),
        reason: reason.to_owned(),
    };
    let (host, port) = split(address).ok_or_else(|| refused("it is not HOST:PORT"))?;
    if host.eq_ignore_ascii_case("localhost") {
        return bind_localhost(port);
    }
    let ip: IpAddr = match host.trim_start_matches('[').trim_end_matches(']') {
        "" => Ipv4Addr::LOCALHOST.into(),
        literal => {
            literal.parse().map_err(|_| refused("the host must be an IP address or localhost"))?
        }
    };
    if policy == BindPolicy::Loopback && !ip.is_loopback() {
        return Err(refused("it can be reached from other machines; allow that explicitly"));
    }
    listen(SocketAddr::new(ip, port)).map(|socket| vec![socket])
}

fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let end = rest.find(']')? + 2;
        (address.get(..end)?, address.get(end..)?.strip_prefix(':'))
    } else if address.parse::<Ipv6Addr>().is_ok() {
        (address, None)
    } else {
        match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        }
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => DEFAULT_PORT,
    };
    Some((host, port))
}

/// Both loopback addresses on one port. A machine without one family serves the other, but a port
/// that is taken on either would leave clients talking to somebody else.
fn bind_localhost(port: u16) -> Result<Vec<std::net::TcpListener>, BuildError> {
    let first = listen(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    let port = match &first {
        Ok(socket) => socket.local_addr().map_or(port, |address| address.port()),
        Err(error) if is_missing_family(error) => port,
        Err(_) => return first.map(|socket| vec![socket]),
    };
    let second = listen(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port));
    match (first, second) {
        (Ok(first), Ok(second)) => Ok(vec![first, second]),
        (Ok(only), Err(error)) if is_missing_family(&error) => Ok(vec![only]),
        (Err(_), Ok(only)) => Ok(vec![only]),
        (_, Err(error)) => Err(error),
    }
}

fn is_missing_family(error: &BuildError) -> bool {
    let BuildError::Bind { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), ErrorKind::AddrNotAvailable | ErrorKind::Unsupported)
        || source.raw_os_error() == Some(EAFNOSUPPORT)
}

/// Not among the kinds of the standard library.
const EAFNOSUPPORT: i32 = 97;

fn listen(address: SocketAddr) -> Result<std::net::TcpListener, BuildError> {
    open(address).map_err(|source| BuildError::Bind { address, source })
}

fn open(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // A restart must not wait for connections of the last run to time out.
    socket.set_reuse_address(true)?;
    if let SocketAddr::V6(v6) = address {
        socket.set_only_v6(!v6.ip().is_unspecified())?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_split_into_host_and_port() {
        for (text, expected) in [
            ("127.0.0.1:9", Some(("127.0.0.1", 9))),
            ("127.0.0.1", Some(("127.0.0.1", 8080))),
            (":9", Some(("", 9))),
            ("[::1]:9", Some(("[::1]", 9))),
            ("[::1]", Some(("[::1]", 8080))),
            ("::1", Some(("::1", 8080))),
            ("localhost:0", Some(("localhost", 0))),
            ("a:b", None),
            ("a:99999", None),
            ("[::1", None),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn a_public_address_needs_permission_and_a_name_is_no_address() {
        for refused in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "x"] {
            let error = bind(refused, BindPolicy::Loopback).unwrap_err();
            assert!(matches!(error, BuildError::Address { .. }), "{refused}: {error}");
        }
    }

    #[test]
    fn b148_a_taken_port_is_one_line_with_address_and_reason() {
        let first = bind("127.0.0.1:0", BindPolicy::Loopback).unwrap();
        let taken = first[0].local_addr().unwrap().to_string();
        let error = bind(&taken, BindPolicy::Loopback).unwrap_err().to_string();
        assert!(error.contains(&taken) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn b149_localhost_serves_both_loopbacks_on_one_port() {
        let sockets = bind("localhost:0", BindPolicy::Loopback).unwrap();
        let ports: Vec<u16> =
            sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0]));
        let taken = format!("localhost:{}", ports[0]);
        assert!(bind(&taken, BindPolicy::Loopback).is_err());
    }
}
