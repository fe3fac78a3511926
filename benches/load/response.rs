//! Reads responses piece by piece, keeping no more of their bodies than asked.

use std::io;

use memchr::memmem;

/// What a response turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Status 200 and a JSON-RPC result.
    Good,
    /// Another status, or no result where the body begins.
    Bad,
}

/// A reader of one response after another on one connection.
///
/// ```text
/// Head --- content-length ---> Length --+
///   |  \-- chunked ----------> Chunk ---+--> verdict, Head again
/// ```
#[derive(Debug)]
pub(crate) struct Reader {
    state: State,
    /// A head that has not come whole.
    partial: Vec<u8>,
    status: u16,
    body: Vec<u8>,
    body_bytes_max: usize,
}

/// Where in a response the reader is.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Before the end of the head.
    Head,
    /// In a body of which so many bytes are to come.
    Length(usize),
    /// In a chunked body.
    Chunk(Chunk),
}

/// Where in a chunked body the reader is.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    /// In the digits of a size.
    Size(usize),
    /// Behind the digits, before the line ends.
    SizeEnd(usize),
    /// In data of which so many bytes are to come.
    Data(usize),
    /// Behind data, before the line ends.
    DataEnd,
    /// Behind the last chunk, where a line begins.
    Trailer,
    /// In a trailer field.
    TrailerField,
}

impl Reader {
    /// A reader that keeps just enough to see a result's name behind a stream's first event.
    pub(crate) fn judging() -> Self {
        Self::keeping(1024)
    }

    /// A reader that keeps the first so many bytes of a body.
    pub(crate) fn keeping(body_bytes_max: usize) -> Self {
        let (partial, body) = (Vec::new(), Vec::new());
        Self { state: State::Head, partial, status: 0, body, body_bytes_max }
    }

    /// The status of the last response.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// What was kept of the last response's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Takes what the socket gave; the verdict comes with a response's last byte.
    ///
    /// Bytes behind that are an error, since nobody asked for them.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) -> io::Result<Option<Verdict>> {
        while !bytes.is_empty() {
            let used = self.step(bytes)?;
            bytes = &bytes[used..];
            if matches!(self.state, State::Length(0)) {
                self.state = State::Head;
                return match bytes.is_empty() {
                    true => Ok(Some(self.judge())),
                    false => Err(io::Error::other("bytes behind the response")),
                };
            }
        }
        Ok(None)
    }

    /// Goes from one state to the next and returns how many bytes that took.
    fn step(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.state {
            State::Head => self.read_head(bytes),
            State::Length(left) => {
                let used = self.keep(bytes, left);
                self.state = State::Length(left - used);
                Ok(used)
            }
            State::Chunk(Chunk::Data(left)) => {
                let used = self.keep(bytes, left);
                let is_whole = used == left;
                let next = if is_whole { Chunk::DataEnd } else { Chunk::Data(left - used) };
                self.state = State::Chunk(next);
                Ok(used)
            }
            State::Chunk(chunk) => {
                self.state = after_byte(chunk, bytes[0])?;
                Ok(1)
            }
        }
    }

    /// Parses a head, or keeps it until there is more.
    fn read_head(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.partial.len();
        let parsed = if before == 0 {
            parse(bytes)?
        } else {
            self.partial.extend_from_slice(bytes);
            parse(&self.partial)?
        };
        let Some(head) = parsed else {
            if before == 0 {
                self.partial.extend_from_slice(bytes);
            }
            return Ok(bytes.len());
        };
        self.partial.clear();
        self.body.clear();
        self.status = head.status;
        self.state = head.body;
        Ok(head.bytes - before)
    }

    /// Takes body bytes of which `left` are to come, and keeps the first.
    fn keep(&mut self, bytes: &[u8], left: usize) -> usize {
        let used = left.min(bytes.len());
        let room = self.body_bytes_max - self.body.len();
        self.body.extend_from_slice(&bytes[..used.min(room)]);
        used
    }

    /// Judges a whole response.
    fn judge(&self) -> Verdict {
        let has_result = memmem::find(&self.body, b"\"result\"").is_some();
        if self.status == 200 && has_result { Verdict::Good } else { Verdict::Bad }
    }
}

/// A parsed head.
struct Head {
    status: u16,
    /// The state behind the head.
    body: State,
    bytes: usize,
}

/// Parses a head once it is whole.
fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(io::Error::other)?;
    let httparse::Status::Complete(bytes) = parsed else {
        return Ok(None);
    };
    let status = response.code.unwrap_or(0);
    let body = match status {
        204 => Some(State::Length(0)),
        _ => response.headers.iter().find_map(framing),
    };
    let body = body.ok_or_else(|| io::Error::other("neither length nor chunks"))?;
    Ok(Some(Head { status, body, bytes }))
}

/// The body that this header announces, if it is about that.
fn framing(header: &httparse::Header<'_>) -> Option<State> {
    if header.name.eq_ignore_ascii_case("content-length") {
        return Some(State::Length(str::from_utf8(header.value).ok()?.trim().parse().ok()?));
    }
    let is_chunked = header.name.eq_ignore_ascii_case("transfer-encoding")
        && header.value.eq_ignore_ascii_case(b"chunked");
    is_chunked.then_some(State::Chunk(Chunk::Size(0)))
}

/// The state behind a byte of a chunked body that is not data.
fn after_byte(chunk: Chunk, byte: u8) -> io::Result<State> {
    let next = match (chunk, byte) {
        (Chunk::Size(0) | Chunk::SizeEnd(0), b'\n') => Chunk::Trailer,
        (Chunk::Size(size) | Chunk::SizeEnd(size), b'\n') => Chunk::Data(size),
        (Chunk::Size(size), b'\r' | b';' | b' ') => Chunk::SizeEnd(size),
        (Chunk::Size(size), _) => Chunk::Size(size * 16 + digit(byte)?),
        (Chunk::DataEnd, b'\n') => Chunk::Size(0),
        (Chunk::Trailer, b'\n') => return Ok(State::Length(0)),
        (Chunk::TrailerField, b'\n') => Chunk::Trailer,
        (Chunk::Trailer, b'\r') => Chunk::Trailer,
        (Chunk::Trailer, _) => Chunk::TrailerField,
        (same, _) => same,
    };
    Ok(State::Chunk(next))
}

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> io::Result<usize> {
    let digit = char::from(byte).to_digit(16);
    digit.map(|digit| digit as usize).ok_or_else(|| io::Error::other("no chunk size"))
}
