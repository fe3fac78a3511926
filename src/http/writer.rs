//! Response framing: status line, fields, bodies with a length, event streams in chunks. It appends
//! to an output queue and decides nothing about content.

use std::fmt;

use crate::buf::ByteQueue;

use super::response::{STREAM_NAMES, is_sendable};
use super::sse::{self, Encoder};
use super::{Date, HttpVersion, Reply, ResponseHead, Status};

/// Body of the answer to a client that cannot be given a stream.
const NO_STREAM_BODY: &[u8] = br#"{"error":"event_stream_requires_http_1_1"}"#;

/// The fields of every stream: proxies must neither store, nor compress, nor collect it.
const STREAM_FIELDS: &[u8] = b"Content-Type: text/event-stream\r\n\
    Cache-Control: no-cache, no-transform\r\n\
    X-Accel-Buffering: no\r\n";

/// The usual type of content, and the line that says so.
const JSON: &str = "application/json";
const JSON_LINE: &[u8] = b"Content-Type: application/json\r\n";

/// Whether HTTP/1.0 clients, which know no chunks, may be given a stream that ends with the
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Http10Streams {
    /// They get a 406.
    #[default]
    Refuse,
    /// They get it.
    Allow,
}

/// What a request for a stream came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum StreamStart {
    /// The stream is open.
    Streaming,
    /// The client cannot be given one; a complete refusal was written and the connection closes.
    RefusedUnary,
    /// A response had been started before; nothing was written.
    Rejected,
}

/// What becomes of the connection when the response is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AfterReply {
    /// It may serve another request.
    KeepOpen,
    /// It has to close once everything is written.
    Close,
}

/// The writer was asked for something its response does not allow; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected;

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response does not allow this now")
    }
}

impl std::error::Error for Rejected {}

/// Writes one response.
///
/// ```text
///   Idle ── unary ────────► Finished
///     └──── start_stream ─► Stream ── finish ─► Finished
/// ```
#[derive(Debug)]
pub struct ResponseWriter {
    mode: Mode,
    reply: Reply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Idle,
    Stream(StreamFraming),
    Finished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamFraming {
    Chunked,
    UntilClose,
    /// A HEAD was answered: the stream has a head and nothing else.
    Suppressed,
}

impl ResponseWriter {
    /// A writer for the answer to one request.
    #[must_use]
    pub const fn new(reply: Reply) -> Self {
        Self { mode: Mode::Idle, reply }
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mode == Mode::Idle
    }

    /// Whether a stream is open.
    #[must_use]
    pub const fn is_streaming(&self) -> bool {
        matches!(self.mode, Mode::Stream(_))
    }

    /// Whether the response is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.mode == Mode::Finished
    }

    /// What the request asked for.
    #[must_use]
    pub const fn reply(&self) -> Reply {
        self.reply
    }

    /// Makes the connection close behind this response. Too late once its head is written: the
    /// client then learns it from the close alone.
    pub const fn close_after(&mut self) {
        self.reply.keep_alive = false;
    }

    /// What becomes of the connection behind this response.
    pub const fn after_reply(&self) -> AfterReply {
        if self.reply.keep_alive { AfterReply::KeepOpen } else { AfterReply::Close }
    }

    /// Writes a complete response.
    ///
    /// # Errors
    ///
    /// When a response was started before.
    pub fn unary(
        &mut self,
        out: &mut ByteQueue,
        head: &ResponseHead,
        content_type: Option<&str>,
        body: &[u8],
        date: &Date,
    ) -> Result<(), Rejected> {
        let wanted = self.unary_head(out, head, content_type, body.len(), date)?;
        out.push(&body[..wanted]);
        Ok(())
    }

    /// Writes everything but the body of a complete response, and says how many body bytes the
    /// caller has to append: `content_length`, or none when the response must not have a body.
    ///
    /// # Errors
    ///
    /// When a response was started before.
    pub fn unary_head(
        &mut self,
        out: &mut ByteQueue,
        head: &ResponseHead,
        content_type: Option<&str>,
        content_length: usize,
        date: &Date,
    ) -> Result<usize, Rejected> {
        if self.mode != Mode::Idle {
            return Err(Rejected);
        }
        self.mode = Mode::Finished;
        let has_length = !head.status.is_bodyless();
        let content_type = content_type
            .filter(|_| has_length && content_length > 0)
            .filter(|value| *value == JSON || is_sendable("Content-Type", value));
        write_start(out, head.status, date);
        head.write_lines(out, if content_type.is_some() { &["content-type"] } else { &[] });
        match content_type {
            Some(JSON) => out.push(JSON_LINE),
            Some(content_type) => write_field(out, b"Content-Type: ", content_type.as_bytes()),
            None => {}
        }
        if has_length {
            let mut digits = itoa::Buffer::new();
            write_field(out, b"Content-Length: ", digits.format(content_length).as_bytes());
        }
        self.write_end(out);
        Ok(if has_length && !self.reply.head_only { content_length } else { 0 })
    }

    /// Opens an event stream, or writes the refusal for a client that cannot read one.
    pub fn start_stream(
        &mut self,
        out: &mut ByteQueue,
        head: &ResponseHead,
        http10_streams: Http10Streams,
        date: &Date,
    ) -> StreamStart {
        if self.mode != Mode::Idle {
            return StreamStart::Rejected;
        }
        match (self.reply.version, http10_streams) {
            (HttpVersion::Http10, Http10Streams::Refuse) => {
                return self.refuse_stream(out, head, date);
            }
            (HttpVersion::Http10, Http10Streams::Allow) => {
                self.close_after();
                self.mode = Mode::Stream(StreamFraming::UntilClose);
            }
            (HttpVersion::Http11, _) => self.mode = Mode::Stream(StreamFraming::Chunked),
        }
        write_start(out, head.status, date);
        head.write_lines(out, &STREAM_NAMES);
        out.push(STREAM_FIELDS);
        if self.mode == Mode::Stream(StreamFraming::Chunked) {
            out.push(b"Transfer-Encoding: chunked\r\n");
        }
        self.write_end(out);
        if self.reply.head_only {
            self.mode = Mode::Stream(StreamFraming::Suppressed);
        }
        StreamStart::Streaming
    }

    /// Writes an event as one chunk.
    ///
    /// Nothing is written for an event without id and data: an empty chunk would end the stream.
    ///
    /// # Errors
    ///
    /// When no stream is open.
    pub fn event(
        &self,
        out: &mut ByteQueue,
        data: &[u8],
        id: Option<&str>,
    ) -> Result<(), Rejected> {
        self.named_event(out, None, data, id)
    }

    /// Writes an event that has a name as one chunk.
    ///
    /// # Errors
    ///
    /// When no stream is open.
    pub fn named_event(
        &self,
        out: &mut ByteQueue,
        name: Option<&str>,
        data: &[u8],
        id: Option<&str>,
    ) -> Result<(), Rejected> {
        let Mode::Stream(framing) = self.mode else {
            return Err(Rejected);
        };
        let event = Encoder::new(name, id, data);
        if event.len == 0 || framing == StreamFraming::Suppressed {
            return Ok(());
        }
        if framing == StreamFraming::UntilClose {
            event.write(out);
            return Ok(());
        }
        write_chunk_size(out, event.len);
        let before = out.len();
        event.write(out);
        debug_assert_eq!(out.len() - before, event.len, "an event is as long as announced");
        out.push(b"\r\n");
        Ok(())
    }

    /// Writes an event with an id and no data, which gives the client a place to resume from.
    ///
    /// # Errors
    ///
    /// When no stream is open.
    pub fn priming(
        &self,
        out: &mut ByteQueue,
        id: &str,
        retry_ms: Option<u64>,
    ) -> Result<(), Rejected> {
        self.small(out, |block| sse::encode_priming(block, id, retry_ms))
    }

    /// Writes a comment, which clients ignore and which keeps the connection from looking idle.
    ///
    /// # Errors
    ///
    /// When no stream is open.
    pub fn comment(&self, out: &mut ByteQueue, text: &str) -> Result<(), Rejected> {
        self.small(out, |block| sse::encode_comment(block, text))
    }

    /// Tells the client how long to wait before it reconnects.
    ///
    /// # Errors
    ///
    /// When no stream is open.
    pub fn retry(&self, out: &mut ByteQueue, retry_ms: u64) -> Result<(), Rejected> {
        self.small(out, |block| sse::encode_retry(block, retry_ms))
    }

    /// Ends the response. Only the first call writes.
    ///
    /// A response that was never started is finished without a byte, and the connection has to
    /// close, since the client still waits.
    pub fn finish(&mut self, out: &mut ByteQueue) -> AfterReply {
        match self.mode {
            Mode::Idle => self.close_after(),
            Mode::Stream(StreamFraming::Chunked) => out.push(b"0\r\n\r\n"),
            Mode::Stream(_) | Mode::Finished => {}
        }
        self.mode = Mode::Finished;
        self.after_reply()
    }

    /// Writes a block as one chunk whose size is filled in afterwards.
    fn small(
        &self,
        out: &mut ByteQueue,
        encode: impl FnOnce(&mut ByteQueue),
    ) -> Result<(), Rejected> {
        let Mode::Stream(framing) = self.mode else {
            return Err(Rejected);
        };
        match framing {
            StreamFraming::Suppressed => {}
            StreamFraming::UntilClose => encode(out),
            StreamFraming::Chunked => {
                let size_at = out.len();
                out.push(b"00000000\r\n");
                let before = out.len();
                encode(out);
                let size = hex8(out.len() - before);
                out.patch(size_at, &size);
                out.push(b"\r\n");
            }
        }
        Ok(())
    }

    fn refuse_stream(
        &mut self,
        out: &mut ByteQueue,
        head: &ResponseHead,
        date: &Date,
    ) -> StreamStart {
        self.close_after();
        let mut refusal = head.clone();
        refusal.status = Status::NOT_ACCEPTABLE;
        let written = self.unary(out, &refusal, Some("application/json"), NO_STREAM_BODY, date);
        debug_assert_eq!(written, Ok(()), "the writer was idle");
        StreamStart::RefusedUnary
    }

    /// Ends the head, and says what becomes of the connection where that is not the version's
    /// default.
    fn write_end(&self, out: &mut ByteQueue) {
        out.push(if !self.reply.keep_alive {
            b"Connection: close\r\n\r\n"
        } else if self.reply.version == HttpVersion::Http10 {
            b"Connection: keep-alive\r\n\r\n"
        } else {
            b"\r\n"
        });
    }
}

/// Appends the interim response that asks for the body.
pub fn write_continue(out: &mut ByteQueue) {
    out.push(b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// Appends the status line and the date.
fn write_start(out: &mut ByteQueue, status: Status, date: &Date) {
    if status == Status::OK
        && let Some(start) = date.ok_start()
    {
        return out.push(start);
    }
    out.push(b"HTTP/1.1 ");
    out.push(itoa::Buffer::new().format(status.code()).as_bytes());
    out.push_byte(b' ');
    write_field(out, status.reason().as_bytes(), b"");
    if let Some(date) = date.as_bytes() {
        write_field(out, b"Date: ", date);
    }
}

/// Appends one line made of two parts.
fn write_field(out: &mut ByteQueue, prefix: &[u8], value: &[u8]) {
    out.push(prefix);
    out.push(value);
    out.push(b"\r\n");
}

/// Appends the line that announces a chunk.
fn write_chunk_size(out: &mut ByteQueue, size: usize) {
    let digits = hex8(size);
    let leading = digits.iter().take_while(|&&digit| digit == b'0').count().min(digits.len() - 1);
    write_field(out, &digits[leading..], b"");
}

/// `size` in eight hexadecimal digits. No chunk of ours reaches 4 GiB: events live in memory whole
/// and under far lower limits.
fn hex8(size: usize) -> [u8; 8] {
    debug_assert!(u32::try_from(size).is_ok());
    std::array::from_fn(|at| b"0123456789abcdef"[(size >> (28 - 4 * at)) & 15])
}

#[cfg(test)]
mod tests {
    use super::super::sse::SseDecoder;
    use super::super::{Head, Request};
    use super::*;

    const PLAIN: Reply = Reply { version: HttpVersion::Http11, keep_alive: true, head_only: false };
    const OLD: Reply = Reply { version: HttpVersion::Http10, keep_alive: false, head_only: false };
    const OLD_KEPT: Reply = Reply { keep_alive: true, ..OLD };
    const HEAD: Reply = Reply { head_only: true, ..PLAIN };
    const JSON: Option<&str> = Some("application/json");

    /// A writer, its output, and a date that is unknown until it is set.
    struct Response {
        writer: ResponseWriter,
        out: ByteQueue,
        date: Date,
    }

    impl Response {
        fn to(reply: Reply) -> Self {
            let writer = ResponseWriter::new(reply);
            Self { writer, out: ByteQueue::new(), date: Date::unknown() }
        }

        /// An open stream whose head has been taken from the output.
        fn streaming(reply: Reply) -> Self {
            let mut response = Self::to(reply);
            assert_eq!(response.start(&ResponseHead::new(Status::OK)), StreamStart::Streaming);
            response.out.clear();
            response
        }

        fn unary(&mut self, head: &ResponseHead, body: &str) -> Result<(), Rejected> {
            self.writer.unary(&mut self.out, head, JSON, body.as_bytes(), &self.date)
        }

        fn start(&mut self, head: &ResponseHead) -> StreamStart {
            self.writer.start_stream(&mut self.out, head, Http10Streams::Allow, &self.date)
        }

        fn event(&mut self, data: &str) -> Result<(), Rejected> {
            self.writer.event(&mut self.out, data.as_bytes(), None)
        }

        fn finish(&mut self) -> AfterReply {
            self.writer.finish(&mut self.out)
        }

        fn text(&self) -> &str {
            std::str::from_utf8(self.out.data()).expect("responses here are text")
        }
    }

    fn unary(reply: Reply, status: Status, body: &str) -> String {
        let mut response = Response::to(reply);
        assert_eq!(response.unary(&ResponseHead::new(status), body), Ok(()));
        response.text().to_owned()
    }

    fn stream_head(reply: Reply, head: &ResponseHead) -> String {
        let mut response = Response::to(reply);
        assert_eq!(response.start(head), StreamStart::Streaming);
        response.text().to_owned()
    }

    /// Takes chunked framing apart; the last chunk is the empty one when there is a terminator.
    fn chunks(mut text: &str) -> Vec<&str> {
        let mut chunks = Vec::new();
        while let Some((size, rest)) = text.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).expect("a chunk starts with its size");
            assert_eq!(&rest[size..size + 2], "\r\n", "the size is what it says");
            chunks.push(&rest[..size]);
            text = &rest[size + 2..];
        }
        assert_eq!(text, "");
        chunks
    }

    #[test]
    fn a_plain_answer_is_exactly_this() {
        let mut response = Response::to(PLAIN);
        response.date.update(784_111_777);
        assert_eq!(response.unary(&ResponseHead::new(Status::OK), "{}"), Ok(()));
        assert_eq!(
            response.text(),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        );
        assert_eq!(response.finish(), AfterReply::KeepOpen);
        assert!(response.text().ends_with("\r\n\r\n{}"), "finishing adds nothing");
    }

    #[test]
    fn inv1_every_unary_answer_has_a_length_but_the_bodyless() {
        assert_eq!(
            unary(PLAIN, Status::ACCEPTED, ""),
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        );
        assert_eq!(unary(PLAIN, Status::NO_CONTENT, ""), "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(unary(PLAIN, Status::NO_CONTENT, "x"), "HTTP/1.1 204 No Content\r\n\r\n");
        assert!(unary(PLAIN, Status::NOT_FOUND, "{}").contains("\r\nContent-Length: 2\r\n"));
    }

    #[test]
    fn inv2_inv3_every_stream_declares_its_framing_and_no_length() {
        let chunked = stream_head(PLAIN, &ResponseHead::new(Status::OK));
        assert!(chunked.contains("\r\nTransfer-Encoding: chunked\r\n"));
        let closed = stream_head(OLD, &ResponseHead::new(Status::OK));
        assert!(closed.contains("\r\nConnection: close\r\n") && !closed.contains("chunked"));
        for head in [chunked, closed] {
            assert!(!head.contains("Content-Length"));
        }
        assert!(!unary(PLAIN, Status::OK, "{}").contains("Transfer-Encoding"));
    }

    #[test]
    fn b012_streams_tell_proxies_to_pass_them_on() {
        for reply in [PLAIN, OLD, HEAD] {
            let head = stream_head(reply, &ResponseHead::new(Status::OK));
            assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"));
            assert!(head.contains("\r\nCache-Control: no-cache, no-transform\r\n"));
            assert!(head.contains("\r\nX-Accel-Buffering: no\r\n"));
        }
    }

    #[test]
    fn inv4_each_event_is_one_chunk() {
        let mut response = Response::streaming(PLAIN);
        let long = "x".repeat(70_000);
        assert_eq!(response.event("{}"), Ok(()));
        assert_eq!(response.event(&long), Ok(()));
        assert_eq!(response.event("a\nb"), Ok(()));
        assert_eq!(response.writer.comment(&mut response.out, "hi"), Ok(()));
        assert_eq!(response.writer.priming(&mut response.out, "7", Some(5)), Ok(()));
        assert_eq!(response.writer.retry(&mut response.out, 5), Ok(()));
        let named = response.writer.named_event(&mut response.out, Some("endpoint"), b"/m", None);
        assert_eq!(named, Ok(()));
        assert_eq!(response.finish(), AfterReply::KeepOpen);
        let long = format!("data: {long}\n\n");
        assert_eq!(
            chunks(response.text()),
            [
                "data: {}\n\n",
                &long,
                "data: a\ndata: b\n\n",
                ": hi\n\n",
                "id: 7\nretry: 5\ndata: \n\n",
                "retry: 5\n\n",
                "event: endpoint\ndata: /m\n\n",
                "",
            ]
        );
    }

    #[test]
    fn chunk_sizes_are_right_at_every_length() {
        for len in (1..600).chain([4080, 4088, 4089, 65_520, 65_528, 1 << 20]) {
            let mut response = Response::streaming(PLAIN);
            assert_eq!(response.event(&"y".repeat(len)), Ok(()));
            assert_eq!(chunks(response.text())[0].len(), len + "data: \n\n".len());
        }
    }

    #[test]
    fn inv5_an_empty_payload_is_no_chunk() {
        let mut response = Response::streaming(PLAIN);
        assert_eq!(response.event(""), Ok(()));
        assert_eq!(response.event("\n"), Ok(()));
        assert_eq!(response.text(), "");
        assert_eq!(response.writer.comment(&mut response.out, ""), Ok(()));
        assert_eq!(chunks(response.text()), [":\n\n"]);
    }

    #[test]
    fn inv6_finishing_twice_writes_one_terminator() {
        let mut response = Response::streaming(PLAIN);
        assert_eq!(response.finish(), AfterReply::KeepOpen);
        assert_eq!(response.finish(), AfterReply::KeepOpen);
        assert_eq!(response.text(), "0\r\n\r\n");
        assert_eq!(response.event("late"), Err(Rejected));
        assert_eq!(response.writer.comment(&mut response.out, "late"), Err(Rejected));
        assert_eq!(response.text(), "0\r\n\r\n");
    }

    #[test]
    fn inv7_a_second_response_is_rejected_and_writes_nothing() {
        let head = ResponseHead::new(Status::OK);
        let mut streaming = Response::streaming(PLAIN);
        let mut answered = Response::to(PLAIN);
        assert_eq!(answered.unary(&head, "{}"), Ok(()));
        answered.out.clear();
        for response in [&mut streaming, &mut answered] {
            assert_eq!(response.unary(&head, "{}"), Err(Rejected));
            assert_eq!(response.start(&head), StreamStart::Rejected);
            assert_eq!(response.text(), "");
        }
        assert_eq!(answered.event("x"), Err(Rejected));
        assert!(streaming.writer.is_streaming() && answered.writer.is_finished());
    }

    #[test]
    fn inv8_b009_http_1_0_is_refused_a_stream_with_a_complete_406() {
        for reply in [OLD, OLD_KEPT] {
            let mut head = ResponseHead::new(Status::OK);
            head.field("Access-Control-Allow-Origin", "http://localhost");
            head.field("Content-Type", "text/html");
            let mut response = Response::to(reply);
            let refuse = Http10Streams::Refuse;
            let start =
                response.writer.start_stream(&mut response.out, &head, refuse, &response.date);
            assert_eq!(start, StreamStart::RefusedUnary);
            assert_eq!(
                response.text(),
                "HTTP/1.1 406 Not Acceptable\r\n\
                 Access-Control-Allow-Origin: http://localhost\r\n\
                 Content-Type: application/json\r\nContent-Length: 42\r\nConnection: close\r\n\r\n\
                 {\"error\":\"event_stream_requires_http_1_1\"}"
            );
            assert_eq!(response.finish(), AfterReply::Close);
            assert_eq!(response.event("x"), Err(Rejected));
        }
    }

    #[test]
    fn inv9_b009_http_1_0_streams_end_with_the_connection() {
        for reply in [OLD, OLD_KEPT] {
            let mut response = Response::streaming(reply);
            assert_eq!(response.event("{}"), Ok(()));
            assert_eq!(response.writer.comment(&mut response.out, "c"), Ok(()));
            assert_eq!(response.finish(), AfterReply::Close);
            assert_eq!(response.text(), "data: {}\n\n: c\n\n", "no chunk syntax");
        }
    }

    #[test]
    fn b009_plain_answers_to_http_1_0_are_never_chunked_and_close_unless_asked() {
        let closing = unary(OLD, Status::OK, "{}");
        assert!(closing.contains("\r\nConnection: close\r\n"), "{closing}");
        let kept = unary(OLD_KEPT, Status::OK, "{}");
        assert!(kept.contains("\r\nConnection: keep-alive\r\n"), "{kept}");
        assert!(!unary(PLAIN, Status::OK, "{}").contains("Connection"));
    }

    #[test]
    fn inv10_framing_fields_of_the_caller_never_reach_the_wire() {
        let mut head = ResponseHead::new(Status::OK);
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Date"] {
            head.field(name, "bogus");
        }
        head.field("content-type", "bogus").field("Cache-Control", "bogus");
        head.field("x-accel-buffering", "bogus").field("Vary", "Origin");
        let stream = stream_head(PLAIN, &head);
        assert!(!stream.contains("bogus") && stream.contains("\r\nVary: Origin\r\n"), "{stream}");
        let mut response = Response::to(PLAIN);
        assert_eq!(response.unary(&head, "{}"), Ok(()));
        let text = response.text();
        assert_eq!(text.matches("bogus").count(), 2, "only what a stream owns: {text}");
        assert_eq!(text.to_lowercase().matches("content-type").count(), 1);
        assert_eq!(text.to_lowercase().matches("content-length").count(), 1);
    }

    #[test]
    fn fields_that_would_split_the_response_are_dropped() {
        let mut head = ResponseHead::new(Status::OK);
        for (name, value) in [
            ("X", "a\r\nSet-Cookie: b"),
            ("X", "a\nb"),
            ("X", "a\rb"),
            ("X", "a\0b"),
            ("X\r\nY", "a"),
            ("X Y", "a"),
            ("X:", "a"),
            ("", "a"),
        ] {
            head.field(name, value);
        }
        head.field("Good", "é\tx");
        assert_eq!((head.value("good"), head.value("x")), (Some("é\tx"), None));
        let mut response = Response::to(PLAIN);
        let bad_type = Some("text/plain\r\nX: y");
        let written =
            response.writer.unary(&mut response.out, &head, bad_type, b"x", &response.date);
        assert_eq!(written, Ok(()));
        assert_eq!(response.text(), "HTTP/1.1 200 OK\r\nGood: é\tx\r\nContent-Length: 1\r\n\r\nx");
    }

    #[test]
    fn a_head_can_be_used_again() {
        let mut head = ResponseHead::new(Status::OK);
        head.field("Vary", "Origin").field("Vary", "Accept");
        head.reset(Status::ACCEPTED);
        assert_eq!((head.status, head.value("vary")), (Status::ACCEPTED, None));
    }

    #[test]
    fn inv11_json_that_looks_like_an_event_is_still_json() {
        let text = unary(PLAIN, Status::OK, "{\"x\":\"event: a\\ndata: b\"}");
        assert!(text.contains("Content-Type: application/json\r\nContent-Length: 25\r\n"));
    }

    #[test]
    fn inv12_the_reply_is_that_of_the_request_answered() {
        let mut heads = [Head::default(), Head::default()];
        let limits = crate::limits::HttpLimits::default();
        let texts = [&b"HEAD / HTTP/1.0\r\n\r\n"[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"];
        let [first, second] = std::array::from_fn(|at| {
            heads[at].parse(texts[at], &limits).expect("is well-formed");
            Reply::to(&Request::new(&heads[at], texts[at], b""))
        });
        assert_eq!(first, Reply { head_only: true, ..OLD });
        assert_eq!(second, PLAIN);
        assert_eq!(second.closing(), Reply { keep_alive: false, ..PLAIN });
        assert!(unary(first, Status::OK, "{}").ends_with("Connection: close\r\n\r\n"));
    }

    #[test]
    fn inv13_two_answers_on_one_connection_are_both_delimited() {
        let mut out = ByteQueue::new();
        for status in [Status::OK, Status::ACCEPTED] {
            let mut writer = ResponseWriter::new(PLAIN);
            let head = ResponseHead::new(status);
            assert_eq!(writer.unary(&mut out, &head, JSON, b"{}", &Date::unknown()), Ok(()));
            assert_eq!(writer.after_reply(), AfterReply::KeepOpen);
        }
        let text = String::from_utf8_lossy(out.data()).into_owned();
        assert!(text.contains("\r\n\r\n{}HTTP/1.1 202 Accepted\r\n"), "{text}");
    }

    #[test]
    fn inv14_status_lines_have_their_reason() {
        for (code, reason) in
            [(406, "Not Acceptable"), (429, "Too Many Requests"), (503, "Service Unavailable")]
        {
            let status = Status::from_code(code).expect("is a status");
            assert!(unary(PLAIN, status, "").starts_with(&format!("HTTP/1.1 {code} {reason}\r\n")));
        }
    }

    #[test]
    fn inv15_the_decoder_reads_what_the_writer_writes() {
        let sent = ["{\"id\":1}", "two\nlines", "é😀"];
        let mut response = Response::streaming(PLAIN);
        for data in sent {
            assert_eq!(response.event(data), Ok(()));
        }
        let mut received = Vec::new();
        let mut decoder = SseDecoder::new(1000);
        for chunk in chunks(response.text()) {
            let fed = decoder.feed(chunk.as_bytes(), |event| received.push(event.data.to_vec()));
            assert_eq!(fed, Ok(()));
        }
        assert_eq!(received, sent.map(|data| data.as_bytes().to_vec()));
    }

    #[test]
    fn a_head_request_gets_the_fields_and_no_body() {
        let text = unary(HEAD, Status::OK, "{}");
        assert!(text.ends_with("\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"));
        let mut response = Response::streaming(HEAD);
        assert_eq!(response.event("x"), Ok(()));
        assert_eq!(response.writer.comment(&mut response.out, "x"), Ok(()));
        assert_eq!(response.finish(), AfterReply::KeepOpen);
        assert_eq!(response.text(), "");
    }

    #[test]
    fn the_caller_is_told_how_much_body_to_append() {
        let wanted = |reply, status| {
            let mut out = ByteQueue::new();
            let head = ResponseHead::new(status);
            ResponseWriter::new(reply).unary_head(&mut out, &head, JSON, 9, &Date::unknown())
        };
        assert_eq!(wanted(PLAIN, Status::OK), Ok(9));
        assert_eq!(wanted(HEAD, Status::OK), Ok(0));
        assert_eq!(wanted(PLAIN, Status::NO_CONTENT), Ok(0));
    }

    #[test]
    fn a_closing_stream_announces_it() {
        let head = stream_head(PLAIN.closing(), &ResponseHead::new(Status::OK));
        assert!(head.contains("chunked\r\nConnection: close\r\n"));
        let mut response = Response::streaming(PLAIN);
        response.writer.close_after();
        assert_eq!(response.finish(), AfterReply::Close);
        assert_eq!(response.text(), "0\r\n\r\n");
    }

    #[test]
    fn an_answer_that_never_came_closes() {
        let mut response = Response::to(PLAIN);
        assert!(response.writer.is_idle());
        assert_eq!(response.finish(), AfterReply::Close);
        assert_eq!(response.text(), "");
    }

    #[test]
    fn b003_the_interim_response_has_no_length() {
        let mut out = ByteQueue::new();
        write_continue(&mut out);
        assert_eq!(out.data(), b"HTTP/1.1 100 Continue\r\n\r\n");
    }
}
