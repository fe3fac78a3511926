//! A blocking client for what is not measured: handshakes, and a first look at an answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::response::Reader;
use super::work::{Era, Target, Work};

/// One keep-alive connection that is used for one exchange after another.
#[derive(Debug)]
pub(crate) struct Probe {
    target: Target,
    socket: TcpStream,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    session: Option<String>,
}

/// A session that a server gave us; none if it has no sessions.
pub(crate) type Session = Option<String>;

/// Whether a server knows sessions, so that the classic era's requests can carry one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// They are opened and closed.
    Opened,
    /// It takes any for good, and no handshake.
    Pretended,
}

impl Sessions {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Opened, Self::Pretended];

    /// The word for it in options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Pretended => "pretended",
        }
    }
}

/// Longer than the slowest server takes.
const PATIENCE: Duration = Duration::from_secs(20);

impl Probe {
    /// Connects.
    pub(crate) fn open(target: &Target) -> io::Result<Self> {
        let socket = TcpStream::connect(target.addr)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { target: target.clone(), socket })
    }

    /// Sends a request and waits for the whole response.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.socket.write_all(request)?;
        let mut reader = Reader::keeping(usize::MAX);
        let mut scratch = vec![0; 64 * 1024];
        let mut session = None;
        loop {
            let read = self.socket.read(&mut scratch)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            session = session.or_else(|| session_id(&scratch[..read]));
            if reader.receive(&scratch[..read])?.is_some() {
                let body = String::from_utf8_lossy(reader.body()).into_owned();
                return Ok(Reply { status: reader.status(), body, session });
            }
        }
    }

    /// Shakes hands the classic way.
    pub(crate) fn open_session(&mut self) -> io::Result<Session> {
        let reply = self.exchange(&self.target.initialize())?;
        result(&reply)?;
        let session = reply.session;
        let reply = self.exchange(&self.target.initialized(session.as_deref()))?;
        match reply.status {
            200 | 202 | 204 => Ok(session),
            _ => Err(refused(&reply)),
        }
    }

    /// Sends a request and waits for its result.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<String> {
        let reply = self.exchange(request)?;
        result(&reply)
    }

    /// The result of a workload's request, as JSON text, once it is what it should be.
    pub(crate) fn capture(&mut self, era: Era, work: Work) -> io::Result<String> {
        let sessions = self.open_sessions(era, Sessions::Opened, 1)?;
        let request = self.target.request(era, work, 1, sessions[0].as_deref());
        let reply = self.exchange(&request)?;
        let result = result(&reply)?;
        self.close_sessions(Sessions::Opened, &sessions)?;
        match work.is_answered_by(&result) {
            true => Ok(result),
            false => Err(refused(&reply)),
        }
    }

    /// One session for each connection, where the era has them.
    pub(crate) fn open_sessions(
        &mut self,
        era: Era,
        sessions: Sessions,
        count: usize,
    ) -> io::Result<Vec<Session>> {
        match (era, sessions) {
            (Era::Modern, _) => Ok(vec![None; count]),
            (Era::Classic, Sessions::Opened) => (0..count).map(|_| self.open_session()).collect(),
            (Era::Classic, Sessions::Pretended) => Ok(vec![Some("0".repeat(32)); count]),
        }
    }

    /// Ends sessions that were opened; a server that refuses keeps them.
    pub(crate) fn close_sessions(&mut self, how: Sessions, opened: &[Session]) -> io::Result<()> {
        for id in opened.iter().flatten().filter(|_| how == Sessions::Opened) {
            self.exchange(&self.target.delete(id))?;
        }
        Ok(())
    }
}

/// The session id in a response's head, if these bytes begin with one.
fn session_id(bytes: &[u8]) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    head.parse(bytes).ok()?;
    let header = head.headers.iter().find(|h| h.name.eq_ignore_ascii_case("mcp-session-id"))?;
    Some(String::from_utf8_lossy(header.value).into_owned())
}

/// A JSON-RPC response, as far as it is good.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The result in a response, whether it is plain or in an event.
fn result(reply: &Reply) -> io::Result<String> {
    let events = reply.body.lines().filter_map(|line| line.strip_prefix("data:"));
    let found = std::iter::once(reply.body.as_str())
        .chain(events)
        .find_map(|text| serde_json::from_str::<Envelope<'_>>(text).ok());
    match found {
        Some(envelope) if reply.status == 200 => Ok(envelope.result.get().to_owned()),
        _ => Err(refused(reply)),
    }
}

/// The error that shows what a server said instead.
fn refused(reply: &Reply) -> io::Error {
    let start: String = reply.body.chars().take(300).collect();
    io::Error::other(format!("status {}: {start}", reply.status))
}
