//! Server-sent events: the encoder for streams we send and the decoder for streams we read. It
//! knows the event stream format and nothing of what the events carry.

use std::fmt;

use crate::buf::ByteQueue;

/// Appends one event: `event`, `id` and `data` fields and the empty line that ends it.
///
/// An empty or absent value makes no field, and an event without fields makes no bytes. Data with
/// several lines becomes one `data` field per line; a line end at its very end adds none. A name or
/// id that contains a line end or NUL is left out with an error log.
pub fn encode_event(out: &mut ByteQueue, event: Option<&str>, id: Option<&str>, data: &[u8]) {
    let encoder = Encoder::new(event, id, data);
    if encoder.len > 0 {
        encoder.write(out);
    }
}

/// How many bytes [`encode_event`] appends for the same arguments.
#[must_use]
pub fn encoded_len(event: Option<&str>, id: Option<&str>, data: &[u8]) -> usize {
    Encoder::new(event, id, data).len
}

/// Appends an event that carries an id and empty data: it gives the reader a place to resume from
/// and delivers nothing. `retry_ms` adds the reconnection delay.
pub fn encode_priming(out: &mut ByteQueue, id: &str, retry_ms: Option<u64>) {
    push_field(out, b"id: ", checked("id", Some(id)));
    if let Some(retry_ms) = retry_ms {
        push_retry(out, retry_ms);
    }
    out.push(b"data: \n\n");
}

/// Appends a comment, which readers ignore; several lines become several comments in one block.
pub fn encode_comment(out: &mut ByteQueue, text: &str) {
    if text.is_empty() {
        out.push(b":\n");
    }
    for line in lines(text.as_bytes()) {
        out.push(b": ");
        out.push(line);
        out.push_byte(b'\n');
    }
    out.push_byte(b'\n');
}

/// Appends a block that tells the reader to wait `retry_ms` before it reconnects.
pub fn encode_retry(out: &mut ByteQueue, retry_ms: u64) {
    push_retry(out, retry_ms);
    out.push_byte(b'\n');
}

/// An event whose encoded length is known before it is written, so that it can be framed as one
/// chunk.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    event: &'a str,
    id: &'a str,
    data: &'a [u8],
    /// Encoded length; zero for an event without fields.
    pub(super) len: usize,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(event: Option<&'a str>, id: Option<&'a str>, data: &'a [u8]) -> Self {
        let (event, id) = (checked("event", event), checked("id", id));
        let data = without_line_end(data);
        let fields = field_len("event: ", event) + field_len("id: ", id) + data_len(data);
        let len = if fields == 0 { 0 } else { fields + 1 };
        Self { event, id, data, len }
    }

    /// Appends exactly `len` bytes.
    pub(super) fn write(&self, out: &mut ByteQueue) {
        push_field(out, b"event: ", self.event);
        push_field(out, b"id: ", self.id);
        for line in lines(self.data) {
            out.push(b"data: ");
            out.push(line);
            out.push_byte(b'\n');
        }
        out.push_byte(b'\n');
    }
}

/// The value, or nothing when it would break out of its line.
fn checked<'a>(name: &str, value: Option<&'a str>) -> &'a str {
    let value = value.unwrap_or_default();
    if memchr::memchr3(b'\r', b'\n', 0, value.as_bytes()).is_some() {
        log::error!("event stream field {name} with a line end or NUL was left out");
        return "";
    }
    value
}

fn field_len(prefix: &str, value: &str) -> usize {
    if value.is_empty() { 0 } else { prefix.len() + value.len() + 1 }
}

fn data_len(data: &[u8]) -> usize {
    if data.is_empty() {
        return 0;
    }
    // Text without line ends, which is nearly all there is, needs no walk over its lines.
    if memchr::memchr2(b'\r', b'\n', data).is_none() {
        return b"data: \n".len() + data.len();
    }
    lines(data).map(|line| b"data: \n".len() + line.len()).sum()
}

fn push_field(out: &mut ByteQueue, prefix: &[u8], value: &str) {
    if !value.is_empty() {
        out.push(prefix);
        out.push(value.as_bytes());
        out.push_byte(b'\n');
    }
}

fn push_retry(out: &mut ByteQueue, retry_ms: u64) {
    out.push(b"retry: ");
    out.push(itoa::Buffer::new().format(retry_ms).as_bytes());
    out.push_byte(b'\n');
}

/// `data` without one line end at its end.
fn without_line_end(data: &[u8]) -> &[u8] {
    match data {
        [line @ .., b'\r', b'\n'] | [line @ .., b'\r' | b'\n'] => line,
        _ => data,
    }
}

/// The lines of `data`, ended by CRLF, LF or CR. No lines when it is empty.
fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data).filter(|data| !data.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = memchr::memchr2(b'\r', b'\n', text) else {
            rest = None;
            return Some(text);
        };
        let skip = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = Some(&text[end + skip..]);
        Some(&text[..end])
    })
}

/// An event read from a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event's name, `message` when it has none.
    pub name: &'a str,
    /// The lines of its data joined by line feeds; never empty. Not checked to be UTF-8.
    pub data: &'a [u8],
    /// The last id the stream has given, by this event or an earlier one; empty when none was.
    pub id: &'a str,
}

/// An event was larger than the decoder's limit; the stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge;

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("event in the stream is too large")
    }
}

impl std::error::Error for EventTooLarge {}

/// Reads an event stream, however its bytes are cut into reads.
///
/// It follows the WHATWG rules with one exception: an event whose data is empty is not delivered.
/// Its id and delay are taken, which is all such an event is for.
#[derive(Debug)]
pub struct SseDecoder {
    /// Start of a line whose end has not come.
    line: Vec<u8>,
    /// Data of the event so far; a line feed behind each line.
    data: Vec<u8>,
    name: String,
    /// Takes effect at the end of the event.
    next_id: Option<String>,
    last_id: String,
    retry_ms: Option<u64>,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_cr: bool,
    /// No line has been read yet, so a byte order mark may come.
    at_start: bool,
    event_bytes_max: usize,
    failed: bool,
}

impl SseDecoder {
    /// A decoder at the start of a stream. An event, or a line outside of one, may take
    /// `event_bytes_max` bytes.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            name: String::new(),
            next_id: None,
            last_id: String::new(),
            retry_ms: None,
            after_cr: false,
            at_start: true,
            event_bytes_max,
            failed: false,
        }
    }

    /// Reads on, and hands each event that ends within `bytes` to `deliver`.
    ///
    /// # Errors
    ///
    /// When an event is too large; every later call fails too.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut deliver: impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        while !self.failed && !bytes.is_empty() {
            bytes = self.skip_line_feed(bytes);
            let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) else {
                self.hold(bytes);
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            self.end_line(&bytes[..end], &mut deliver);
            bytes = &bytes[end + 1..];
        }
        if self.failed { Err(EventTooLarge) } else { Ok(()) }
    }

    /// The last id given by an event that has ended; empty when there was none.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// The delay before reconnecting that the stream has asked for.
    #[must_use]
    pub const fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Whether an event has begun and not ended. When the stream ends now, that event is lost.
    #[must_use]
    pub const fn is_mid_event(&self) -> bool {
        !self.line.is_empty() || !self.data.is_empty() || self.next_id.is_some()
    }

    fn skip_line_feed<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if std::mem::take(&mut self.after_cr) {
            bytes.strip_prefix(b"\n").unwrap_or(bytes)
        } else {
            bytes
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.line.extend_from_slice(bytes);
        }
    }

    /// Whether `more` bytes may be added to the event; it has failed otherwise.
    fn fits(&mut self, more: usize) -> bool {
        let held = self.line.len() + self.data.len() + self.name.len();
        let held = held + self.next_id.as_ref().map_or(0, String::len);
        self.failed |= held.saturating_add(more) > self.event_bytes_max;
        !self.failed
    }

    fn end_line(&mut self, tail: &[u8], deliver: &mut impl FnMut(Event<'_>)) {
        if !self.fits(tail.len()) {
            return;
        }
        if self.line.is_empty() {
            return self.take_line(tail, deliver);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(tail);
        self.take_line(&line, deliver);
        line.clear();
        self.line = line;
    }

    fn take_line(&mut self, mut line: &[u8], deliver: &mut impl FnMut(Event<'_>)) {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event(deliver);
        }
        let colon = memchr::memchr(b':', line);
        let (name, value) = colon.map_or((line, &[][..]), |at| (&line[..at], &line[at + 1..]));
        self.take_field(name, value.strip_prefix(b" ").unwrap_or(value));
    }

    fn take_field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.next_id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => self.retry_ms = parse_retry(value).or(self.retry_ms),
            _ => {}
        }
    }

    fn end_event(&mut self, deliver: &mut impl FnMut(Event<'_>)) {
        if let Some(id) = self.next_id.take() {
            self.last_id = id;
        }
        self.data.pop();
        if !self.data.is_empty() {
            let name = if self.name.is_empty() { "message" } else { &self.name };
            deliver(Event { name, data: &self.data, id: &self.last_id });
        }
        self.data.clear();
        self.name.clear();
    }
}

fn parse_retry(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a stream came to: events as `name/id/data`, then last id and delay.
    #[derive(Debug, PartialEq, Eq)]
    struct Read {
        events: Vec<String>,
        last_id: String,
        retry_ms: Option<u64>,
        mid_event: bool,
    }

    fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
        let mut decoder = SseDecoder::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            let fed = decoder.feed(piece, |event| {
                let data = String::from_utf8_lossy(event.data);
                events.push(format!("{}/{}/{data}", event.name, event.id));
            });
            assert_eq!(fed, Ok(()));
        }
        Read {
            events,
            last_id: decoder.last_event_id().to_owned(),
            retry_ms: decoder.retry_ms(),
            mid_event: decoder.is_mid_event(),
        }
    }

    /// Reads `bytes` whole, cut in two everywhere, and byte by byte: always the same.
    fn read(bytes: impl AsRef<[u8]>) -> Read {
        let bytes = bytes.as_ref();
        let whole = read_pieces([bytes]);
        for cut in 0..=bytes.len() {
            let (before, after) = bytes.split_at(cut);
            assert_eq!(read_pieces([before, after]), whole, "cut at {cut}");
        }
        assert_eq!(read_pieces(bytes.chunks(1)), whole);
        whole
    }

    fn events(bytes: impl AsRef<[u8]>) -> Vec<String> {
        read(bytes).events
    }

    fn encoded(event: Option<&str>, id: Option<&str>, data: &str) -> String {
        let mut out = ByteQueue::new();
        encode_event(&mut out, event, id, data.as_bytes());
        assert_eq!(encoded_len(event, id, data.as_bytes()), out.len());
        String::from_utf8(out.data().to_vec()).expect("was given text")
    }

    fn block(encode: impl FnOnce(&mut ByteQueue)) -> String {
        let mut out = ByteQueue::new();
        encode(&mut out);
        String::from_utf8(out.data().to_vec()).expect("was given text")
    }

    #[test]
    fn b013_all_line_ends_make_one_event() {
        let stream = "event: message\ndata: {\"id\":1}\n\n";
        for end in ["\n", "\r\n", "\r"] {
            assert_eq!(events(stream.replace('\n', end)), ["message//{\"id\":1}"], "{end:?}");
        }
        assert_eq!(events("event: a\rdata: b\n\r\ndata: c\r\n\r"), ["a//b", "message//c"]);
    }

    #[test]
    fn b014_a_line_end_cut_in_two_is_one_line_end() {
        let pieces = ["data: {\"a\":\r", "\ndata: 1}\r", "\n\r", "\n"];
        let whole = read_pieces(pieces.map(str::as_bytes));
        assert_eq!(whole.events, ["message//{\"a\":\n1}"]);
        assert_eq!(read(pieces.concat()), whole);
    }

    #[test]
    fn b015_a_character_cut_in_two_stays_whole() {
        assert_eq!(events("data: {\"t\":\"日本😀\"}\n\n"), ["message//{\"t\":\"日本😀\"}"]);
    }

    #[test]
    fn b016_data_lines_are_joined() {
        let stream = "data:{\ndata:  \"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n";
        let data = "{\n \"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}";
        assert_eq!(events(stream), [format!("message//{data}")]);
    }

    #[test]
    fn b017_an_event_without_data_gives_its_id_and_delay_only() {
        let primed = read("id: s1-0\nretry: 1500\ndata: \n\n");
        assert_eq!((primed.events.len(), &*primed.last_id), (0, "s1-0"));
        assert_eq!(primed.retry_ms, Some(1500));
        let stream = "id: s1-0\nretry: 1500\ndata: \n\nid: s1-1\ndata: {\"id\":1}\n\n";
        assert_eq!(events(stream), ["message/s1-1/{\"id\":1}"]);
    }

    #[test]
    fn b020_a_byte_order_mark_is_dropped_at_the_start_alone() {
        assert_eq!(events("\u{feff}data: x\n\n"), ["message//x"]);
        assert_eq!(events("\u{feff}\u{feff}data: x\n\n"), [""; 0]);
        assert_eq!(events("data: x\n\n\u{feff}data: y\n\n"), ["message//x"]);
        assert_eq!(events("data: \u{feff}x\n\n"), ["message//\u{feff}x"]);
    }

    #[test]
    fn fields_follow_the_event_stream_rules() {
        let table: [(&str, &[&str]); 14] = [
            ("", &[]),
            ("\n\n\n", &[]),
            (": comment\n\ndata: x\n\n", &["message//x"]),
            (":\n:x\ndata: x\n:y\n\n", &["message//x"]),
            ("data\n\n", &[]),
            ("data\ndata\n\n", &["message//\n"]),
            ("data:x\n\n", &["message//x"]),
            ("data:  x\n\n", &["message// x"]),
            ("data : x\nDATA: y\nunknown: z\n\n", &[]),
            ("event: a\n\ndata: x\n\n", &["message//x"]),
            ("event: a\nevent: b\ndata: x\n\n", &["b//x"]),
            ("id: 1\ndata: x\n\ndata: y\n\n", &["message/1/x", "message/1/y"]),
            ("id: 1\ndata: x\n\nid\ndata: y\n\n", &["message/1/x", "message//y"]),
            ("id: 1\ndata: x\n\nid: a\0b\ndata: y\n\n", &["message/1/x", "message/1/y"]),
        ];
        for (stream, expected) in table {
            assert_eq!(events(stream), expected, "{stream:?}");
        }
    }

    #[test]
    fn only_digits_are_a_delay() {
        for (value, retry_ms) in [
            ("0", Some(0)),
            ("1500", Some(1500)),
            ("+1", None),
            ("1s", None),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(read(format!("retry: {value}\n")).retry_ms, retry_ms, "{value}");
        }
        assert_eq!(read("retry: 7\nretry: 99999999999999999999\nretry: x\n").retry_ms, Some(7));
    }

    #[test]
    fn b021_an_event_that_never_ends_is_not_delivered() {
        let read = read("id: 7\ndata: x\n");
        assert_eq!((read.events.len(), &*read.last_id, read.mid_event), (0, "", true));
        assert!(!self::read("id: 7\ndata: x\n\n").mid_event);
    }

    #[test]
    fn the_event_limit_is_exact() {
        let fed = |stream: &str, piece: usize| {
            let mut decoder = SseDecoder::new(20);
            let mut pieces = stream.as_bytes().chunks(piece);
            let fed = pieces.try_for_each(|piece| decoder.feed(piece, |_| {}));
            assert_eq!(decoder.feed(b"\n", |_| {}).is_err(), fed.is_err(), "failed for good");
            fed
        };
        for (before, fits) in [("data: ", 14), (":", 19), ("data: 12345\ndata: ", 8)] {
            let stream = |count: usize| format!("{before}{}\n\n", "x".repeat(count));
            for piece in 1..40 {
                assert_eq!(fed(&stream(fits), piece), Ok(()), "{before}");
                assert_eq!(fed(&stream(fits + 1), piece), Err(EventTooLarge), "{before}");
            }
        }
        let endless = "data: x\n".repeat(20);
        assert_eq!((1..99).map(|piece| fed(&endless, piece)).find(Result::is_ok), None);
        let many = "data: 12345\n\n".repeat(20);
        assert_eq!(fed(&many, 7), Ok(()), "the limit is for one event");
    }

    #[test]
    fn events_are_written_in_a_fixed_order_of_fields() {
        assert_eq!(encoded(Some("a"), Some("1"), "x"), "event: a\nid: 1\ndata: x\n\n");
        assert_eq!(encoded(None, None, "{}"), "data: {}\n\n");
    }

    #[test]
    fn inv16_empty_values_make_no_field_and_lines_make_several() {
        let table = [
            (Some(""), Some(""), "", ""),
            (Some(""), None, "x", "data: x\n\n"),
            (None, Some("1"), "", "id: 1\n\n"),
            (None, None, "\n", ""),
            (None, None, "x\n", "data: x\n\n"),
            (None, None, "x\r\n", "data: x\n\n"),
            (None, None, "x\ny", "data: x\ndata: y\n\n"),
            (None, None, "x\ry\r\nz", "data: x\ndata: y\ndata: z\n\n"),
            (None, None, "x\n\ny\n", "data: x\ndata: \ndata: y\n\n"),
            (None, None, "\nx", "data: \ndata: x\n\n"),
        ];
        for (event, id, data, text) in table {
            assert_eq!(encoded(event, id, data), text, "{data:?}");
        }
    }

    #[test]
    fn names_and_ids_cannot_break_out_of_their_line() {
        for bad in ["a\nb", "a\rb", "a\0b", "\n"] {
            assert_eq!(encoded(Some(bad), Some(bad), "x"), "data: x\n\n", "{bad:?}");
        }
        assert_eq!(block(|out| encode_priming(out, "1\n\ndata: y", None)), "data: \n\n");
    }

    #[test]
    fn blocks_without_an_event_deliver_nothing() {
        let comment = block(|out| encode_comment(out, "keep-alive\n\ndata: x"));
        assert_eq!(comment, ": keep-alive\n: \n: data: x\n\n");
        assert_eq!(block(|out| encode_comment(out, "")), ":\n\n");
        assert_eq!(block(|out| encode_retry(out, 250)), "retry: 250\n\n");
        let priming = block(|out| encode_priming(out, "s-0", Some(9)));
        assert_eq!(priming, "id: s-0\nretry: 9\ndata: \n\n");
        let read = read(format!("{comment}{priming}"));
        assert_eq!((read.events.len(), &*read.last_id, read.retry_ms), (0, "s-0", Some(9)));
    }

    const NOISE: &[u8] = b"data:i \r\n\0\xef\xbb\xbfx";

    proptest! {
        #[test]
        fn inv15_what_is_encoded_is_decoded_to_the_same(
            events in prop::collection::vec(
                ("[a-z]{0,3}", "[ -~é]{0,5}", "([ -~é😀]|\\n|\\r){0,20}"), 0..6),
            piece in 1_usize..30,
        ) {
            let mut out = ByteQueue::new();
            let mut expected = Vec::new();
            let mut last_id = "";
            for (name, id, data) in &events {
                let before = out.len();
                encode_event(&mut out, Some(name), Some(id), data.as_bytes());
                prop_assert_eq!(
                    out.len() - before,
                    encoded_len(Some(name), Some(id), data.as_bytes())
                );
                last_id = if id.is_empty() { last_id } else { id };
                let lines: Vec<_> = lines(without_line_end(data.as_bytes())).collect();
                let name = if name.is_empty() { "message" } else { name };
                let data = String::from_utf8(lines.join(&b"\n"[..])).expect("was text");
                if !data.is_empty() {
                    expected.push(format!("{name}/{last_id}/{data}"));
                }
            }
            prop_assert_eq!(read_pieces(out.data().chunks(piece)).events, expected);
        }

        #[test]
        fn noise_does_not_break_the_decoder(
            bytes in prop::collection::vec(prop::sample::select(NOISE), 0..80),
            piece in 1_usize..20,
        ) {
            prop_assert_eq!(read_pieces(bytes.chunks(piece)), read_pieces([&bytes[..]]));
        }
    }
}
