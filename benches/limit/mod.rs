//! The yardstick: the least that a correct server of JSON-RPC over HTTP must do, and nothing else.
//!
//! It finds the request, parses the envelope, echoes the id and answers what it was given. It knows
//! no method, session, version or limit: a ratio to it tells what those cost.

use std::io::{self, Read, Write};
use std::net;

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use serde::Deserialize;
use serde_json::value::RawValue;
use slab::Slab;

/// What the server answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This JSON text as the result, whatever was asked.
    Fixed(Vec<u8>),
    /// A tool's text result that repeats `arguments.text` as it was written.
    Echo,
}

/// Answers every request on `listener` until a system call fails.
pub(crate) fn serve(listener: net::TcpListener, answer: &Answer) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    let mut conns = Slab::new();
    let mut output = Vec::new();
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        }
        for event in &events {
            match event.token() {
                LISTENER => accept(&listener, &mut conns, poll.registry())?,
                _ => visit(event, &mut conns, answer, &mut output),
            }
        }
    }
}

const LISTENER: Token = Token(usize::MAX);

/// Room for a head and a small body; a larger request makes its connection's buffer grow.
const INPUT_BYTES: usize = 4096;

/// One keep-alive connection.
struct Conn {
    socket: TcpStream,
    input: Vec<u8>,
    filled: usize,
    /// Bytes of the request being received, once its head tells; zero before.
    wanted: usize,
    /// The rest of an answer that the socket did not take whole.
    unsent: Vec<u8>,
    sent: usize,
}

/// Takes every connection that waits.
fn accept(listener: &TcpListener, conns: &mut Slab<Conn>, registry: &Registry) -> io::Result<()> {
    loop {
        let mut socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        socket.set_nodelay(true)?;
        let entry = conns.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, Token(entry.key()), interest)?;
        entry.insert(Conn::new(socket));
    }
}

/// Serves one connection's event; a connection that fails or ends is dropped.
fn visit(event: &Event, conns: &mut Slab<Conn>, answer: &Answer, output: &mut Vec<u8>) {
    let key = event.token().0;
    let conn = &mut conns[key];
    let has_work = event.is_readable() || conn.is_blocked();
    if has_work && conn.serve(answer, output).is_err() {
        conns.remove(key);
    }
}

impl Conn {
    /// A connection that has said nothing yet.
    fn new(socket: TcpStream) -> Self {
        let input = vec![0; INPUT_BYTES];
        Self { socket, input, filled: 0, wanted: 0, unsent: Vec::new(), sent: 0 }
    }

    /// True while an answer waits for the socket, and with it everything else.
    fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Answers and reads until a short read tells that the socket is empty.
    fn serve(&mut self, answer: &Answer, output: &mut Vec<u8>) -> io::Result<()> {
        self.flush()?;
        let mut is_drained = false;
        loop {
            self.answer_all(answer, output)?;
            if is_drained || self.is_blocked() {
                return Ok(());
            }
            let room = self.input.len() - self.filled;
            let read = match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.filled += read;
            is_drained = read < room;
        }
    }

    /// Answers each whole request in the buffer and makes room for the one that is not whole.
    fn answer_all(&mut self, answer: &Answer, output: &mut Vec<u8>) -> io::Result<()> {
        let mut start = 0;
        while !self.is_blocked() && self.filled - start >= self.wanted.max(1) {
            let Some((head, body)) = measure(&self.input[start..self.filled])? else {
                break;
            };
            self.wanted = head + body;
            if self.filled - start < self.wanted {
                break;
            }
            let end = start + self.wanted;
            render(&self.input[start + head..end], answer, output)?;
            (start, self.wanted) = (end, 0);
            self.send(output)?;
        }
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        if self.wanted >= self.input.len() {
            // A little more than wanted, so that the last read is a short one.
            self.input.resize(self.wanted + INPUT_BYTES, 0);
        }
        Ok(())
    }

    /// Writes an answer at once and keeps what the socket does not take.
    fn send(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        std::mem::swap(output, &mut self.unsent);
        self.sent = 0;
        self.flush()?;
        if !self.is_blocked() {
            std::mem::swap(output, &mut self.unsent);
        }
        Ok(())
    }

    /// Writes what is left of an answer.
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.unsent.len() {
            match self.socket.write(&self.unsent[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.unsent.clear();
        Ok(())
    }
}

/// The bytes of a request's head and body, once the head is whole.
fn measure(input: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 24];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(input).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let length = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|h| str::from_utf8(h.value).ok()?.parse().ok());
    let body = length.ok_or_else(|| io::Error::other("no content-length"))?;
    Ok(Some((head, body)))
}

/// A JSON-RPC request, borrowed where it lies.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

/// The part of a tool call's params that an echo needs.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    arguments: Echo<'a>,
}

/// The echo tool's argument.
#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

/// Renders the whole response, head and body, into `output`.
fn render(body: &[u8], answer: &Answer, output: &mut Vec<u8>) -> io::Result<()> {
    let envelope: Envelope<'_> = serde_json::from_slice(body)?;
    if envelope.jsonrpc != "2.0" || envelope.method.is_empty() {
        return Err(io::Error::other("not a request"));
    }
    let id = envelope.id.get().as_bytes();
    match answer {
        Answer::Fixed(result) => frame(&[OPEN, id, RESULT, result, b"}"], output),
        Answer::Echo => {
            let call: Call<'_> = serde_json::from_str(envelope.params.get())?;
            let text = call.arguments.text.get().as_bytes();
            frame(&[OPEN, id, RESULT, TEXT, text, b"}]}}"], output);
        }
    }
    Ok(())
}

const OPEN: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const RESULT: &[u8] = br#","result":"#;
const TEXT: &[u8] = br#"{"content":[{"type":"text","text":"#;

/// Frames a body that comes in pieces as one response.
fn frame(body: &[&[u8]], output: &mut Vec<u8>) {
    let length: usize = body.iter().map(|piece| piece.len()).sum();
    output.clear();
    output.reserve(HEAD.len() + 32 + length);
    output.extend_from_slice(HEAD);
    output.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    output.extend_from_slice(b"\r\n\r\n");
    for piece in body {
        output.extend_from_slice(piece);
    }
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
