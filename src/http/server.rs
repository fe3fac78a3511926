//! The pull parser of a connection's requests. It reads the input queue in place and copies nothing
//! out of it.

use crate::buf::ByteQueue;
use crate::limits::HttpLimits;

use super::scan::HeadScan;
use super::{BodyDecoder, Framing, Head, HttpError, Piece, Request, Status};

/// Bounds of the read size suggested for a body, see [`ServerCodec::body_needed`].
const READ_HINT_BYTES_MIN: usize = 64 * 1024;
const READ_HINT_BYTES_MAX: usize = 1024 * 1024;
/// How many times what has come is asked for next: enough that a large body is moved few times,
/// little enough that its sender has to send a fifth of what we set aside.
const READ_HINT_GROWTH: usize = 4;

/// What a call of [`ServerCodec::decode`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// More bytes are needed.
    Incomplete,
    /// A head has been read: the request can be judged, its body is not there yet.
    Head,
    /// The request is complete, body included.
    Whole,
}

/// How far the current request has come; what a connection's clocks depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing of a request has come.
    Idle,
    /// Part of a head has come.
    Head,
    /// The head is there and the body is not.
    Body,
    /// The request is complete and not finished yet.
    Whole,
    /// The rest of a refused body is being dropped.
    Draining,
    /// The framing is lost; the connection has to close.
    Failed,
}

/// Finds requests in a connection's input, one at a time.
///
/// The request stays where it is: its head at the front of the queue and its body right behind. A
/// chunked body is put together in place, so that the request is contiguous when it is whole and
/// whatever follows it is left alone.
///
/// ```text
///            head read        body read         finish
///   Idle/Head ───────► Body ───────────► Whole ────────► Idle
///        ▲              │ discard_body
///        └── Draining ◄─┘              any error ──► Failed
/// ```
#[derive(Debug)]
pub struct ServerCodec {
    state: State,
    scan: HeadScan,
    /// Empty except between the end of a head and the end of its request.
    head: Head,
    body: BodyDecoder,
    /// Body bytes in place behind the head.
    body_len: usize,
    /// Where the bytes that nobody has looked at begin. Not before the end of the body.
    raw_at: usize,
    /// Bytes dropped of the body being drained.
    drained: usize,
    /// The client waits for `100 Continue` and has not been told.
    continue_due: bool,
    /// The failure was found in a body that was being dropped.
    failed_discarding: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body,
    Whole,
    Draining,
    Failed(HttpError),
}

impl ServerCodec {
    /// A codec before its first request.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Head,
            scan: HeadScan::default(),
            head: Head::default(),
            body: BodyDecoder::default(),
            body_len: 0,
            raw_at: 0,
            drained: 0,
            continue_due: false,
            failed_discarding: false,
        }
    }

    /// Goes on reading `input`, up to the next thing worth telling.
    ///
    /// Every request is told twice: as [`Decoded::Head`], and as [`Decoded::Whole`] by a later
    /// call. A whole request is told again until [`ServerCodec::finish`].
    ///
    /// # Errors
    ///
    /// The status to answer with before closing. A codec that has failed keeps failing.
    pub fn decode(
        &mut self,
        input: &mut ByteQueue,
        limits: &HttpLimits,
    ) -> Result<Decoded, HttpError> {
        let decoded = match self.state {
            State::Failed(error) => Err(error),
            State::Head => self.decode_head(input, limits),
            State::Body => self.collect_body(input, limits),
            State::Whole => Ok(Decoded::Whole),
            State::Draining => self.drain(input, limits),
        };
        if let Err(error) = decoded {
            self.failed_discarding |= self.state == State::Draining;
            self.state = State::Failed(error);
        }
        decoded
    }

    /// The current request. Its body is empty until it is whole.
    ///
    /// Without a head, see [`ServerCodec::has_head`], it is a request with nothing in it.
    #[must_use]
    pub fn request<'a>(&'a self, input: &'a ByteQueue) -> Request<'a> {
        let (head, rest) = input.data().split_at_checked(self.head.len()).unwrap_or_default();
        let body_len = if self.state == State::Whole { self.body_len } else { 0 };
        Request::new(&self.head, head, rest.get(..body_len).unwrap_or_default())
    }

    /// Whether a head has been read of the current request, even of one that failed later: its
    /// error can then be answered in the request's own terms.
    #[must_use]
    pub const fn has_head(&self) -> bool {
        !self.head.is_empty()
    }

    /// Drops the current request from `input` and is ready for the next.
    ///
    /// A request that is not whole yet is refused by it, as by [`ServerCodec::discard_body`].
    pub fn finish(&mut self, input: &mut ByteQueue) {
        if self.state != State::Whole {
            return self.discard_body(input);
        }
        input.consume(self.raw_at);
        self.reset();
    }

    /// Drops what has come of the current request; the rest of its body is dropped as it comes, and
    /// [`ServerCodec::decode`] then goes on to the next request by itself.
    ///
    /// For a request refused at its head on a connection that stays. Does nothing without a head.
    pub fn discard_body(&mut self, input: &mut ByteQueue) {
        match self.state {
            State::Whole => self.finish(input),
            State::Body => {
                input.consume(self.raw_at);
                self.head.clear();
                self.continue_due = false;
                self.drained = 0;
                self.state = State::Draining;
            }
            State::Head | State::Draining | State::Failed(_) => {}
        }
    }

    /// Whether a refusal now may keep the connection.
    ///
    /// Not when the rest of the body is known to be more than we are willing to drop, nor when the
    /// client waits for `100 Continue`: after a refusal some send the body and some the next
    /// request.
    #[must_use]
    pub fn can_discard(&self, limits: &HttpLimits) -> bool {
        match self.state {
            State::Body => !self.continue_due && self.body.announced() <= limits.drain_bytes_max,
            State::Failed(_) => false,
            State::Head | State::Whole | State::Draining => true,
        }
    }

    /// Whether what comes belongs to a request that was refused and answered at its head, even if
    /// it broke its framing since.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.state == State::Draining || self.failed_discarding
    }

    /// How far the current request has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Head if self.scan.is_idle() => Phase::Idle,
            State::Head => Phase::Head,
            State::Body => Phase::Body,
            State::Whole => Phase::Whole,
            State::Draining => Phase::Draining,
            State::Failed(_) => Phase::Failed,
        }
    }

    /// True once for a request whose client waits for `100 Continue` before it sends the body,
    /// unless the body has begun to come anyway.
    #[must_use]
    pub fn take_continue(&mut self, input: &ByteQueue) -> bool {
        let due = std::mem::take(&mut self.continue_due);
        due && self.state == State::Body && input.len() <= self.head.len()
    }

    /// A good size for the next read while a body is coming, zero when nothing is known.
    ///
    /// It grows with what has come already: a client cannot make us reserve memory by a number in a
    /// header.
    #[must_use]
    pub fn body_needed(&self, input: &ByteQueue) -> usize {
        if self.state != State::Body {
            return 0;
        }
        let here = input.len().saturating_sub(self.raw_at);
        let hint_max =
            (input.len() * READ_HINT_GROWTH).clamp(READ_HINT_BYTES_MIN, READ_HINT_BYTES_MAX);
        self.body.announced().saturating_sub(here).min(hint_max)
    }

    fn decode_head(
        &mut self,
        input: &mut ByteQueue,
        limits: &HttpLimits,
    ) -> Result<Decoded, HttpError> {
        if input.is_empty() {
            return Ok(Decoded::Incomplete);
        }
        self.scan.skip_blank_lines(input)?;
        let end = if self.scan.is_idle() && self.head.parse_usual(input.data(), limits) {
            self.head.len()
        } else {
            let Some(end) = self.scan.find_end(input.data(), limits)? else {
                return Ok(Decoded::Incomplete);
            };
            self.head.parse(&input.data()[..end], limits)?;
            end
        };
        if matches!(self.head.framing(), Framing::Length(length) if length > limits.body_bytes_max)
        {
            return Err(HttpError::new(Status::CONTENT_TOO_LARGE, "body too large"));
        }
        self.body = BodyDecoder::new(self.head.framing());
        self.body_len = 0;
        self.raw_at = end;
        self.continue_due = self.head.expects_continue();
        self.state = State::Body;
        Ok(Decoded::Head)
    }

    fn collect_body(
        &mut self,
        input: &mut ByteQueue,
        limits: &HttpLimits,
    ) -> Result<Decoded, HttpError> {
        loop {
            let raw = &input.data()[self.raw_at..];
            match self.body.next(raw, limits.body_bytes_max, limits)? {
                Piece::Data(count) => self.keep(input, count),
                Piece::Framing(count) => self.raw_at += count,
                Piece::More => {
                    self.close_gap(input);
                    return Ok(Decoded::Incomplete);
                }
                Piece::End => {
                    self.state = State::Whole;
                    return Ok(Decoded::Whole);
                }
            }
        }
    }

    /// Adds the next `count` raw bytes to the body.
    fn keep(&mut self, input: &mut ByteQueue, count: usize) {
        let body_end = self.head.len() + self.body_len;
        if body_end != self.raw_at {
            input.data_mut().copy_within(self.raw_at..self.raw_at + count, body_end);
        }
        self.body_len += count;
        self.raw_at += count;
    }

    /// Removes the delimiters between the body so far and the raw bytes behind it, of which few are
    /// left when the decoder asks for more. The queue then never holds more than the body and a
    /// line.
    fn close_gap(&mut self, input: &mut ByteQueue) {
        let body_end = self.head.len() + self.body_len;
        let gap = self.raw_at - body_end;
        if gap == 0 {
            return;
        }
        let len = input.len();
        input.data_mut().copy_within(self.raw_at..len, body_end);
        input.truncate_to(len - gap);
        self.raw_at = body_end;
    }

    fn drain(&mut self, input: &mut ByteQueue, limits: &HttpLimits) -> Result<Decoded, HttpError> {
        let too_long = HttpError::new(Status::CONTENT_TOO_LARGE, "refused body too long");
        loop {
            if self.drained.saturating_add(self.body.announced()) > limits.drain_bytes_max {
                return Err(too_long);
            }
            match self.body.next(input.data(), usize::MAX, limits)? {
                Piece::Data(count) | Piece::Framing(count) => {
                    input.consume(count);
                    self.drained += count;
                }
                Piece::More => return Ok(Decoded::Incomplete),
                Piece::End => {
                    self.reset();
                    return self.decode_head(input, limits);
                }
            }
        }
    }

    fn reset(&mut self) {
        self.state = State::Head;
        self.scan = HeadScan::default();
        self.head.clear();
        self.body_len = 0;
        self.raw_at = 0;
        self.continue_due = false;
    }
}

impl Default for ServerCodec {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;

    /// A codec and its input, with default limits.
    #[derive(Default)]
    struct Server {
        codec: ServerCodec,
        input: ByteQueue,
        limits: HttpLimits,
    }

    impl Server {
        /// A server whose next request is `text` and has been decoded as far as its head.
        fn at_head(text: &str) -> Self {
            let mut server = Self::default();
            assert_eq!(server.feed(text), Ok(Decoded::Head));
            server
        }

        fn feed(&mut self, text: &str) -> Result<Decoded, u16> {
            self.input.push(text.as_bytes());
            self.decode()
        }

        fn decode(&mut self) -> Result<Decoded, u16> {
            let decoded = self.codec.decode(&mut self.input, &self.limits);
            decoded.map_err(|error| error.status.code())
        }

        fn request(&self) -> Request<'_> {
            self.codec.request(&self.input)
        }
    }

    const EXPECTING: &str =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n\r\n";

    #[test]
    fn a_request_is_told_at_its_head_and_when_it_is_whole() {
        let mut server =
            Server::at_head("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab");
        assert_eq!((server.request().path(), server.request().body()), ("/x", &b""[..]));
        assert_eq!(server.decode(), Ok(Decoded::Incomplete));
        assert_eq!(server.request().body(), b"");
        assert_eq!(server.feed("cGET"), Ok(Decoded::Whole));
        assert_eq!(server.decode(), Ok(Decoded::Whole));
        assert_eq!(server.request().body(), b"abc");
        server.codec.finish(&mut server.input);
        assert_eq!(server.input.data(), b"GET");
        assert_eq!(server.request().method(), Method::Other);
    }

    #[test]
    fn phases_follow_the_bytes() {
        let mut server = Server::default();
        let phases = [
            ("", Phase::Idle),
            ("\r\n\r", Phase::Idle),
            ("\nPOST /", Phase::Head),
            (" HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", Phase::Body),
            ("x", Phase::Body),
            ("y", Phase::Whole),
        ];
        for (text, phase) in phases {
            assert!(server.feed(text).is_ok());
            assert_eq!(server.codec.phase(), phase, "{text:?}");
        }
        server.codec.finish(&mut server.input);
        assert_eq!(server.codec.phase(), Phase::Idle);
        assert_eq!(server.feed("\0"), Err(400));
        assert_eq!(server.codec.phase(), Phase::Failed);
    }

    #[test]
    fn b003_expect_continue_is_due_once_and_before_the_body() {
        let mut server = Server::at_head(EXPECTING);
        assert!(server.codec.take_continue(&server.input));
        assert!(!server.codec.take_continue(&server.input));
        assert_eq!(server.feed("x"), Ok(Decoded::Incomplete));
    }

    #[test]
    fn b003_expect_continue_over_the_limit_is_refused_at_once() {
        let mut server = Server::default();
        server.limits.body_bytes_max = 1_999_999;
        assert_eq!(server.feed(EXPECTING), Err(413));
        assert!(!server.codec.take_continue(&server.input));
        assert!(server.codec.has_head(), "the refusal can look at the request");
        assert_eq!(server.request().method(), Method::Post);
    }

    #[test]
    fn b003_expect_continue_is_moot_when_the_body_is_there() {
        let mut server = Server::at_head(&format!("{EXPECTING}x"));
        assert!(!server.codec.take_continue(&server.input));
        let none = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n";
        let mut server = Server::at_head(none);
        assert!(!server.codec.take_continue(&server.input), "no body to wait for");
        let old = "POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
        let mut server = Server::at_head(old);
        assert!(!server.codec.take_continue(&server.input), "1.0 knows no interim response");
    }

    #[test]
    fn a_refused_body_is_dropped_and_the_next_request_is_read() {
        let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
        let bodies = [
            "Content-Length: 5\r\n\r\nhello",
            "Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nA: b\r\n\r\n",
            "Content-Length: 0\r\n\r\n",
        ];
        for body in bodies {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{body}{next}");
            let head_len = text.find("\r\n\r\n").expect("has a head") + 4;
            for cut in head_len..text.len() {
                let mut server = Server::at_head(&text[..cut]);
                assert!(server.codec.can_discard(&server.limits));
                server.codec.discard_body(&mut server.input);
                assert_eq!(server.codec.phase(), Phase::Draining);
                let early = server.decode();
                let decoded = if early == Ok(Decoded::Incomplete) {
                    server.feed(&text[cut..])
                } else {
                    early
                };
                assert_eq!(decoded, Ok(Decoded::Head), "{body:?} cut at {cut}");
                assert_eq!(server.request().path(), "/next");
            }
        }
    }

    #[test]
    fn a_body_refused_half_way_is_dropped_too() {
        let mut server =
            Server::at_head("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
        assert_eq!(server.decode(), Ok(Decoded::Incomplete));
        server.codec.discard_body(&mut server.input);
        assert!(server.input.is_empty());
        assert_eq!(server.feed("lloGET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(Decoded::Head));
    }

    #[test]
    fn finishing_a_request_that_is_not_whole_refuses_it() {
        let mut server = Server::at_head("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
        server.codec.finish(&mut server.input);
        assert_eq!(server.codec.phase(), Phase::Draining);
        let mut idle = Server::default();
        idle.codec.finish(&mut idle.input);
        idle.codec.discard_body(&mut idle.input);
        assert_eq!(idle.codec.phase(), Phase::Idle);
    }

    #[test]
    fn the_drain_limit_is_exact() {
        let refused = |length: usize| {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            let mut server = Server::at_head(&head);
            server.limits.drain_bytes_max = 10;
            let promised = server.codec.can_discard(&server.limits);
            server.codec.discard_body(&mut server.input);
            (promised, server.feed(&"x".repeat(length)))
        };
        assert_eq!(refused(10), (true, Ok(Decoded::Incomplete)));
        assert_eq!(refused(11), (false, Err(413)));
    }

    #[test]
    fn an_endless_refused_chunked_body_closes() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut server = Server::at_head(head);
        server.limits.drain_bytes_max = 1000;
        server.codec.discard_body(&mut server.input);
        let fed = (0..1000).map(|_| server.feed("1\r\nx\r\n")).take_while(Result::is_ok).count();
        assert_eq!(fed, 1000 / 6);
    }

    #[test]
    fn a_refusal_keeps_no_connection_whose_client_waits_to_continue() {
        let mut server = Server::at_head(EXPECTING);
        server.limits.drain_bytes_max = usize::MAX;
        assert!(!server.codec.can_discard(&server.limits));
        assert!(server.codec.take_continue(&server.input));
        assert!(server.codec.can_discard(&server.limits), "it was told to send the body");
    }

    #[test]
    fn the_read_hint_grows_with_what_came_and_not_with_what_is_promised() {
        let mut server =
            Server::at_head("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
        assert_eq!(server.codec.body_needed(&server.input), READ_HINT_BYTES_MIN);
        assert_eq!(server.feed(&"x".repeat(100_000)), Ok(Decoded::Incomplete));
        let here = server.input.len();
        assert_eq!(server.codec.body_needed(&server.input), here * READ_HINT_GROWTH);
        assert_eq!(server.feed(&"x".repeat(8_899_000)), Ok(Decoded::Incomplete));
        assert_eq!(server.codec.body_needed(&server.input), 1000);
        assert_eq!(server.feed(&"x".repeat(1000)), Ok(Decoded::Whole));
        assert_eq!(server.codec.body_needed(&server.input), 0);
    }

    #[test]
    fn delimiters_of_tiny_chunks_are_not_kept() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut server = Server::at_head(head);
        for count in 1..=1000 {
            assert_eq!(server.feed("1;x=y\r\nx\r\n"), Ok(Decoded::Incomplete));
            assert_eq!(server.input.len(), head.len() + count);
        }
        assert_eq!(server.feed("0\r\n\r\n"), Ok(Decoded::Whole));
        assert_eq!(server.request().body(), "x".repeat(1000).as_bytes());
    }

    #[test]
    fn a_steady_client_costs_no_memory_per_request() {
        let mut server = Server::default();
        let text =
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let mut capacity = 0;
        for round in 0..100 {
            assert_eq!(server.feed(text), Ok(Decoded::Head));
            assert_eq!(server.decode(), Ok(Decoded::Whole));
            server.codec.finish(&mut server.input);
            capacity = if round == 0 { server.input.capacity() } else { capacity };
            assert_eq!(server.input.capacity(), capacity);
        }
    }
}
