//! Body framing: tells which of the bytes behind a head are body and which only delimit it. It
//! keeps no bytes itself.

use crate::limits::HttpLimits;

use super::{HttpError, Status, is_token, is_value_byte};

/// Chunk extensions of one body may take this many full chunk lines altogether. They mean nothing
/// to anybody, and a sender could otherwise hide a thousand bytes of work behind each byte of body.
const EXTENSION_LINES_MAX: usize = 4;

/// How a message says where its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// No body.
    #[default]
    None,
    /// Exactly this many bytes, never zero.
    Length(usize),
    /// Chunks, ended by an empty one.
    Chunked,
}

/// What the next bytes of a body are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes of content.
    Data(usize),
    /// So many bytes that only delimit.
    Framing(usize),
    /// Not enough has come to tell.
    More,
    /// The body is over; what follows belongs to the next message.
    End,
}

/// Reads the framing of one body, piece by piece.
///
/// ```text
///   Length ────────────────────────────────────────► End
///   ChunkLine ─► ChunkData ─► ChunkEnd ─► ChunkLine   ▲
///       └─ size 0 ─► Trailer ─────────────────────────┘
/// ```
#[derive(Debug, Default)]
pub struct BodyDecoder {
    state: State,
    /// Bytes of an unfinished line that are known to hold no line feed.
    scanned: usize,
    /// Content announced so far by chunk sizes.
    chunked_bytes: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    End,
    Length(usize),
    ChunkLine,
    ChunkData(usize),
    ChunkEnd,
    Trailer,
}

impl BodyDecoder {
    /// A decoder at the start of a body with this framing.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None => State::End,
            Framing::Length(left) => State::Length(left),
            Framing::Chunked => State::ChunkLine,
        };
        Self { state, ..Self::default() }
    }

    /// Says what `raw`, the bytes not yet accounted for, begins with.
    ///
    /// The answer has to be acted upon before the next call: `raw` then starts behind the piece. A
    /// chunked body past `body_bytes_max` is refused at the line that announces the excess.
    ///
    /// # Errors
    ///
    /// 400 for malformed chunks and for lines over their limits, 413 past `body_bytes_max`.
    pub fn next(
        &mut self,
        raw: &[u8],
        body_bytes_max: usize,
        limits: &HttpLimits,
    ) -> Result<Piece, HttpError> {
        match self.state {
            State::End => Ok(Piece::End),
            State::Length(left) => Ok(self.data(raw, left, State::Length, State::End)),
            State::ChunkData(left) => Ok(self.data(raw, left, State::ChunkData, State::ChunkEnd)),
            State::ChunkEnd => self.chunk_end(raw),
            State::ChunkLine => self.chunk_line(raw, body_bytes_max, limits),
            State::Trailer => self.trailer(raw, limits),
        }
    }

    /// How many bytes are sure to come before anything else can: content and its delimiter.
    #[must_use]
    pub const fn announced(&self) -> usize {
        match self.state {
            State::Length(left) => left,
            State::ChunkData(left) => left.saturating_add(2),
            _ => 0,
        }
    }

    /// Whether the whole body has been accounted for.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.state == State::End
    }

    fn data(&mut self, raw: &[u8], left: usize, same: fn(usize) -> State, next: State) -> Piece {
        let here = left.min(raw.len());
        self.state = if here == left { next } else { same(left - here) };
        if here == 0 { Piece::More } else { Piece::Data(here) }
    }

    fn chunk_end(&mut self, raw: &[u8]) -> Result<Piece, HttpError> {
        match raw {
            [b'\r', b'\n', ..] => {
                self.state = State::ChunkLine;
                Ok(Piece::Framing(2))
            }
            [] | [b'\r'] => Ok(Piece::More),
            _ => Err(HttpError::bad("chunk is longer than its size")),
        }
    }

    fn chunk_line(
        &mut self,
        raw: &[u8],
        body_bytes_max: usize,
        limits: &HttpLimits,
    ) -> Result<Piece, HttpError> {
        let too_long = HttpError::bad("chunk line too long");
        let Some(line) = self.line(raw, limits.chunk_line_bytes_max, too_long)? else {
            return Ok(Piece::More);
        };
        let (size, extension) = parse_chunk_line(line)?;
        self.extension_bytes += extension;
        if self.extension_bytes > limits.chunk_line_bytes_max.saturating_mul(EXTENSION_LINES_MAX) {
            return Err(HttpError::bad("too many chunk extensions"));
        }
        self.state = self.announce(size, body_bytes_max)?;
        Ok(Piece::Framing(line.len() + 2))
    }

    /// Takes note of a chunk of `size` bytes.
    fn announce(&mut self, size: u64, body_bytes_max: usize) -> Result<State, HttpError> {
        if size == 0 {
            return Ok(State::Trailer);
        }
        let fits = usize::try_from(size)
            .ok()
            .filter(|&size| size <= body_bytes_max.saturating_sub(self.chunked_bytes));
        let Some(size) = fits else {
            return Err(HttpError::new(Status::CONTENT_TOO_LARGE, "body too large"));
        };
        self.chunked_bytes += size;
        Ok(State::ChunkData(size))
    }

    fn trailer(&mut self, raw: &[u8], limits: &HttpLimits) -> Result<Piece, HttpError> {
        let too_long = HttpError::bad("trailers too long");
        let left = limits.trailer_bytes_max.saturating_sub(self.trailer_bytes);
        let Some(line) = self.line(raw, left, too_long)? else {
            return Ok(Piece::More);
        };
        self.trailer_bytes += line.len() + 2;
        if line.is_empty() {
            self.state = State::End;
        } else {
            check_trailer(line)?;
        }
        Ok(Piece::Framing(line.len() + 2))
    }

    /// The line `raw` begins with, without its CRLF, once all of it is here. With the CRLF it may
    /// be `bytes_max` long.
    fn line<'a>(
        &mut self,
        raw: &'a [u8],
        bytes_max: usize,
        too_long: HttpError,
    ) -> Result<Option<&'a [u8]>, HttpError> {
        let seen = &raw[..raw.len().min(bytes_max)];
        let scanned = self.scanned.min(seen.len());
        let Some(found) = memchr::memchr(b'\n', &seen[scanned..]) else {
            self.scanned = seen.len();
            return if raw.len() < bytes_max { Ok(None) } else { Err(too_long) };
        };
        self.scanned = 0;
        match &seen[..scanned + found] {
            [line @ .., b'\r'] => Ok(Some(line)),
            _ => Err(HttpError::bad("line feed without carriage return")),
        }
    }
}

/// Size announced by a chunk line, and how many bytes its extension takes.
fn parse_chunk_line(line: &[u8]) -> Result<(u64, usize), HttpError> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, extension) = line.split_at(digits);
    check_extension(extension)?;
    Ok((parse_hex(size)?, extension.len()))
}

fn parse_hex(digits: &[u8]) -> Result<u64, HttpError> {
    if digits.is_empty() {
        return Err(HttpError::bad("chunk size is not a number"));
    }
    digits.iter().try_fold(0_u64, |size, &digit| {
        let digit = char::from(digit).to_digit(16).map_or(0, u64::from);
        size.checked_mul(16)
            .map(|size| size | digit)
            .ok_or(HttpError::bad("chunk size is not a number"))
    })
}

/// Nothing, or a semicolon (perhaps behind white space) and visible text.
fn check_extension(extension: &[u8]) -> Result<(), HttpError> {
    let starts_well = extension.is_empty() || super::trim_ows(extension).starts_with(b";");
    if starts_well && extension.iter().copied().all(is_value_byte) {
        Ok(())
    } else {
        Err(HttpError::bad("malformed chunk line"))
    }
}

/// Trailers are dropped, but a line that is no field at all is a sign of lost framing.
fn check_trailer(line: &[u8]) -> Result<(), HttpError> {
    let colon = memchr::memchr(b':', line).unwrap_or(0);
    if is_token(&line[..colon]) && line[colon..].iter().copied().all(is_value_byte) {
        Ok(())
    } else {
        Err(HttpError::bad("malformed trailer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces of `raw`, up to the first that cannot be acted upon.
    fn pieces(framing: Framing, mut raw: &[u8]) -> Vec<Result<Piece, u16>> {
        let mut decoder = BodyDecoder::new(framing);
        let mut pieces = Vec::new();
        loop {
            let piece = decoder.next(raw, 100, &HttpLimits::default());
            pieces.push(piece.map_err(|error| error.status.code()));
            match piece {
                Ok(Piece::Data(count) | Piece::Framing(count)) => raw = &raw[count..],
                _ => return pieces,
            }
        }
    }

    #[test]
    fn a_message_without_body_ends_at_once() {
        assert_eq!(pieces(Framing::None, b"GET /"), [Ok(Piece::End)]);
    }

    #[test]
    fn a_length_takes_exactly_its_bytes() {
        assert_eq!(pieces(Framing::Length(3), b"abcdef"), [Ok(Piece::Data(3)), Ok(Piece::End)]);
        assert_eq!(pieces(Framing::Length(3), b"ab"), [Ok(Piece::Data(2)), Ok(Piece::More)]);
        assert_eq!(pieces(Framing::Length(3), b""), [Ok(Piece::More)]);
    }

    #[test]
    fn chunks_are_told_apart_from_their_delimiters() {
        let data = [Piece::Framing(3), Piece::Data(2), Piece::Framing(2)];
        let end = [Piece::Framing(3), Piece::Framing(6), Piece::Framing(2), Piece::End];
        let expected: Vec<_> = data.into_iter().chain(end).map(Ok).collect();
        assert_eq!(pieces(Framing::Chunked, b"2\r\nab\r\n0\r\nA: b\r\n\r\nGET"), expected);
        assert_eq!(pieces(Framing::Chunked, b"2\r"), [Ok(Piece::More)]);
        assert_eq!(pieces(Framing::Chunked, b"2\n"), [Err(400)]);
    }

    #[test]
    fn what_is_announced_is_known_before_it_comes() {
        let mut decoder = BodyDecoder::new(Framing::Length(9));
        assert_eq!(decoder.announced(), 9);
        let _ = decoder.next(b"abc", 100, &HttpLimits::default());
        assert_eq!((decoder.announced(), decoder.is_end()), (6, false));
        let _ = decoder.next(b"defghi", 100, &HttpLimits::default());
        assert_eq!((decoder.announced(), decoder.is_end()), (0, true));

        let mut decoder = BodyDecoder::new(Framing::Chunked);
        assert_eq!(decoder.announced(), 0);
        let _ = decoder.next(b"a\r\n", 100, &HttpLimits::default());
        assert_eq!(decoder.announced(), 12, "the chunk and its line end");
    }

    #[test]
    fn a_chunk_over_the_limit_is_refused_before_it_comes() {
        assert_eq!(pieces(Framing::Chunked, b"64\r\n"), [Ok(Piece::Framing(4)), Ok(Piece::More)]);
        assert_eq!(pieces(Framing::Chunked, b"65\r\n"), [Err(413)]);
    }
}
