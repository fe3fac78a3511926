//! The codec as a whole: requests cut at every byte, limits at their edge, ambiguous framing,
//! noise.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::buf::ByteQueue;
use crate::limits::HttpLimits;

use super::{Decoded, HttpVersion, Phase, Request, ServerCodec};

/// What a connection's input came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Seen {
    /// One line per request, see [`line_of`].
    requests: Vec<String>,
    /// Code of the error that ended the input.
    error: Option<u16>,
    /// Bytes that were not consumed.
    left: Vec<u8>,
}

/// A request as `METHOD target 1.1+ name=value … |body`, where `+` stands for keep-alive.
fn line_of(request: &Request<'_>) -> String {
    let version = if request.version() == HttpVersion::Http10 { "1.0" } else { "1.1" };
    let mut line = format!("{} {} {version}", request.method_str(), request.target());
    line.push(if request.keep_alive() { '+' } else { '-' });
    for (name, value) in request.fields() {
        write!(line, " {name}={}", String::from_utf8_lossy(value)).expect("strings take all");
    }
    write!(line, " |{}", String::from_utf8_lossy(request.body())).expect("strings take all");
    line
}

/// Feeds `pieces` to a codec as a connection would, finishing every request at once.
fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &HttpLimits) -> Seen {
    let (mut codec, mut input) = (ServerCodec::new(), ByteQueue::new());
    let mut seen = Seen::default();
    for piece in pieces {
        input.push(piece);
        loop {
            match codec.decode(&mut input, limits) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Head) => assert!(codec.request(&input).body().is_empty()),
                Ok(Decoded::Whole) => {
                    seen.requests.push(line_of(&codec.request(&input)));
                    codec.finish(&mut input);
                }
                Err(error) => {
                    assert_eq!(codec.decode(&mut input, limits), Err(error), "failed for good");
                    assert_eq!(codec.phase(), Phase::Failed);
                    seen.error = Some(error.status.code());
                    return seen;
                }
            }
        }
    }
    seen.left = input.data().to_vec();
    seen
}

/// What `bytes` come to, after checking that no way of cutting them in two, nor into single bytes,
/// makes a difference.
fn outcome(bytes: &[u8], limits: &HttpLimits) -> Seen {
    let whole = feed([bytes], limits);
    for cut in 0..=bytes.len() {
        let (before, after) = bytes.split_at(cut);
        let pieces = feed([before, after], limits);
        assert_eq!(pieces, whole, "cut at {cut}: {}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(feed(bytes.chunks(1), limits), whole, "{}", String::from_utf8_lossy(bytes));
    whole
}

fn requests(bytes: &[u8]) -> Vec<String> {
    let seen = outcome(bytes, &HttpLimits::default());
    assert_eq!((seen.error, &seen.left[..]), (None, &b""[..]));
    seen.requests
}

fn error(bytes: &[u8], limits: &HttpLimits) -> Option<u16> {
    outcome(bytes, limits).error
}

#[test]
fn plain_requests_are_read_as_sent() {
    let table: [(&[u8], &str); 8] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 1.1+ Host=a |"),
        (b"GET /?q HTTP/1.0\r\n\r\n", "GET /?q 1.0- |"),
        (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0+ Connection=Keep-Alive |"),
        (
            b"GET / HTTP/1.1\r\nhost: a\r\nConnection: foo , CLOSE\r\n\r\n",
            "GET / 1.1- host=a Connection=foo , CLOSE |",
        ),
        (
            b"POST /mcp HTTP/1.1\r\nHost:a\r\nContent-Length: 2\r\n\r\n{}",
            "POST /mcp 1.1+ Host=a Content-Length=2 |{}",
        ),
        (b"PURGE /x HTTP/1.1\r\nHost: a\r\nX: \t b c \t\r\n\r\n", "PURGE /x 1.1+ Host=a X=b c |"),
        (
            b"DELETE /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            "DELETE /mcp 1.1+ Host=a Content-Length=3 |abc",
        ),
        (b"GET / HTTP/1.1\r\nHost:\r\nEmpty:\r\n\r\n", "GET / 1.1+ Host= Empty= |"),
    ];
    for (bytes, line) in table {
        assert_eq!(requests(bytes), [line]);
    }
}

#[test]
fn b001_chunked_request_body() {
    let head = "POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bodies = [
        "5\r\n{\"jso\r\n8\r\nn\":true}\r\n0\r\n\r\n",
        "5;x=1\r\n{\"jso\r\n08 ;y=\"z\";w\r\nn\":true}\r\n0;last\r\n\r\n",
        "5\r\n{\"jso\r\n8\r\nn\":true}\r\n000\r\nDigest: x\r\nEmpty:\r\n\r\n",
        "1\r\n{\r\n1\r\n\"\r\nb\r\njson\":true}\r\n0\r\n\r\n",
        "D\r\n{\"json\":true}\r\n0\r\n\r\n",
    ];
    for body in bodies {
        let bytes = format!("{head}{body}GET /next HTTP/1.1\r\nHost: b\r\n\r\n");
        let expected = [
            "POST /mcp 1.1+ Host=a Transfer-Encoding=chunked |{\"json\":true}",
            "GET /next 1.1+ Host=b |",
        ];
        assert_eq!(requests(bytes.as_bytes()), expected, "{body}");
    }
    let empty = format!("{head}0\r\n\r\n");
    assert_eq!(requests(empty.as_bytes()), ["POST /mcp 1.1+ Host=a Transfer-Encoding=chunked |"]);
}

#[test]
fn b004_body_length_is_counted_in_bytes() {
    let body = r#"{"jsonrpc":"2.0","id":1,"x/y":"Καλημέρα 中文 😀"}"#;
    let bytes =
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let seen = requests(bytes.as_bytes());
    assert!(seen[0].ends_with(&format!("|{body}")), "{seen:?}");
}

#[test]
fn b009_http_1_0_requests_need_no_host_and_close() {
    let with = b"POST /mcp HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    let without = b"POST /mcp HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(requests(with), ["POST /mcp 1.0- Host=a Content-Length=2 |{}"]);
    assert_eq!(requests(without), ["POST /mcp 1.0- Content-Length=2 |{}"]);
}

#[test]
fn b009_http_1_0_connections_stay_only_when_asked_to() {
    let kept = |connection: &str| {
        let bytes = format!("GET / HTTP/1.0\r\nConnection: {connection}\r\n\r\n");
        requests(bytes.as_bytes())[0].starts_with("GET / 1.0+")
    };
    assert!(kept("keep-alive") && kept("x, KEEP-ALIVE"));
    assert!(!kept("close") && !kept("keep-alive, close") && !kept("keep-alivex") && !kept(""));
}

#[test]
fn b010_pipelined_requests_are_all_read_in_order() {
    let one = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    let two =
        "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\ny\r\n0\r\n\r\n";
    let three = "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n";
    let bytes = format!("{one}\r\n{two}\r\n\r\n{three}{three}");
    let seen = requests(bytes.as_bytes());
    let starts: Vec<_> = seen.iter().map(|line| &line[..7]).collect();
    assert_eq!(starts, ["POST /1", "POST /2", "GET /3 ", "GET /3 "]);
}

/// Input, and the requests it may come to before the error with this code.
type Hostile = (&'static str, usize, u16);

/// Request line and host of a POST, for the rows of the tables below.
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Heads behind [`POST`] that two readers could take for different messages.
const AMBIGUOUS_FRAMING: &[Hostile] = &[
    ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", 0, 400),
    ("Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 0, 400),
    ("Content-Length: 3, 4\r\n\r\nabcd", 0, 400),
    ("Content-Length: 3,\r\n\r\nabc", 0, 400),
    ("Content-Length: ,3\r\n\r\nabc", 0, 400),
    ("Content-Length: \r\n\r\nabc", 0, 400),
    ("Content-Length:\r\n\r\nabc", 0, 400),
    ("Content-Length: +3\r\n\r\nabc", 0, 400),
    ("Content-Length: -3\r\n\r\nabc", 0, 400),
    ("Content-Length: 0x3\r\n\r\nabc", 0, 400),
    ("Content-Length: 3.0\r\n\r\nabc", 0, 400),
    ("Content-Length: 3 3\r\n\r\nabc", 0, 400),
    ("Content-Length: \"3\"\r\n\r\nabc", 0, 400),
    ("Content-Length: 3;x\r\n\r\nabc", 0, 400),
    ("Content-Length: ٣\r\n\r\nabc", 0, 400),
    ("Content-Length: 18446744073709551619\r\n\r\nabc", 0, 413),
    ("Content-Length: 99999999999999999999999999\r\n\r\nabc", 0, 413),
    ("Transfer-Encoding: \r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: identity\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 0, 501),
    ("Transfer-Encoding: \u{b}chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding: chunked\u{b}\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    (" Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("X: y\r\n\tContent-Length: 3\r\n\r\nabc", 0, 400),
    ("X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("X: y\r\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("X: y\0\r\n\r\n", 0, 400),
    ("X: y\u{7f}\r\n\r\n", 0, 400),
    ("X\0: y\r\n\r\n", 0, 400),
    ("X(: y\r\n\r\n", 0, 400),
    ("É: y\r\n\r\n", 0, 400),
    (": y\r\n\r\n", 0, 400),
    ("no colon\r\n\r\n", 0, 400),
    ("X: y\n\r\n", 0, 400),
    ("X: y\r\n\n", 0, 400),
    ("Host: a\r\n\r\n", 0, 400),
    ("Host: b\r\n\r\n", 0, 400),
    ("Expect: 100-continue, x\r\n\r\n", 0, 417),
    ("Expect: 200-ok\r\n\r\n", 0, 417),
];

/// Chunked bodies behind [`POST`] and its transfer coding.
const BROKEN_CHUNKS: &[Hostile] = &[
    ("\r\n", 0, 400),
    ("g\r\n", 0, 400),
    ("-1\r\n", 0, 400),
    ("+1\r\nx\r\n0\r\n\r\n", 0, 400),
    ("0x1\r\nx\r\n0\r\n\r\n", 0, 400),
    (" 1\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1 \r\nx\r\n0\r\n\r\n", 0, 400),
    ("1 x\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1_0\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1,2\r\nx\r\n0\r\n\r\n", 0, 400),
    (";x\r\n0\r\n\r\n", 0, 400),
    ("1\nx\r\n0\r\n\r\n", 0, 400),
    ("1\r\nx\n0\r\n\r\n", 0, 400),
    ("1\r\nx0\r\n\r\n", 0, 400),
    ("1\r\nxy\r\n0\r\n\r\n", 0, 400),
    ("2\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1;a\rb\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1;a\nb\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1;\0\r\nx\r\n0\r\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\nnot a field\r\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\nGET / HTTP/1.1\r\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\n: y\r\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\n folded: y\r\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\nA: b\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\nA: \u{1}\r\n\r\n", 0, 400),
    ("1\r\nx\r\n0\r\n\n", 0, 400),
    ("10000000000000000\r\nx", 0, 400),
    ("ffffffffffffffffffffffff\r\nx", 0, 400),
    ("ffffffffffffffff\r\nx", 0, 413),
    ("7fffffffffffffff\r\nx", 0, 413),
    ("1\r\nx\r\nfffffffffffffffe\r\nx", 0, 413),
    ("1\r\nx\r\n0\r\n\r\n\n", 1, 400),
    ("1\r\nx\r\n0\r\n\r\n0\r\n\r\n", 1, 400),
];

/// Whole inputs that are no request, or one nobody serves.
const NO_REQUEST: &[Hostile] = &[
    ("\x16\x03\x01\x02\0\x01", 0, 400),
    ("\0", 0, 400),
    (" GET / HTTP/1.1\r\n", 0, 400),
    ("\nGET / HTTP/1.1\r\n", 0, 400),
    ("\r\r\n", 0, 400),
    ("\rGET", 0, 400),
    ("GET\r\n", 0, 400),
    ("GET /\r\n", 0, 400),
    ("GET\t/ HTTP/1.1\r\n", 0, 400),
    ("G@T / HTTP/1.1\r\n", 0, 400),
    ("GET / HTTP/1.1\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTP/1.1\r\nHost: a\n\n", 0, 400),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 0, 400),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET http:// HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTP/11\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTP/1,1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", 0, 400),
    ("GET / HTTP/0.9\r\n", 0, 505),
    ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 0, 505),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 0, 505),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, 505),
    ("GET / HTTP/1.1\r\n\r\n", 0, 400),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 0, 400),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 0, 400),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 0, 400),
    ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 0, 400),
    ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 0, 400),
    ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 400),
    ("AVERYLONGMETHODTHATNOBODYHASREGISTERED", 0, 501),
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\r\n\r\n", 1, 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nabc / HTTP/3.0\r\n", 1, 505),
];

fn check_hostile(prefix: &str, table: &[Hostile]) {
    for &(text, served, code) in table {
        let seen = outcome(format!("{prefix}{text}").as_bytes(), &HttpLimits::default());
        assert_eq!((seen.requests.len(), seen.error), (served, Some(code)), "{text:?}");
    }
}

#[test]
fn ambiguous_framing_is_refused() {
    check_hostile(POST, AMBIGUOUS_FRAMING);
}

#[test]
fn broken_chunks_are_refused() {
    check_hostile(&format!("{POST}Transfer-Encoding: chunked\r\n\r\n"), BROKEN_CHUNKS);
}

#[test]
fn what_is_no_request_is_refused() {
    check_hostile("", NO_REQUEST);
}

#[test]
fn odd_but_unambiguous_framing_is_served() {
    let table = [
        ("Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "abc"),
        ("Content-Length: 3, 3\r\n\r\nabc", "abc"),
        ("Content-Length: 0003\r\n\r\nabc", "abc"),
        ("content-LENGTH:3\r\n\r\nabc", "abc"),
        ("Content-Length: 0\r\n\r\n", ""),
        ("Transfer-Encoding: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n", "x"),
        ("Transfer-Encoding:\t chunked \t\r\n\r\n1\r\nx\r\n0\r\n\r\n", "x"),
        ("Transfer_Encoding: chunked\r\n\r\n", ""),
        ("TE: gzip\r\nTrailer: X\r\nUpgrade: h2c\r\n\r\n", ""),
        ("Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", "x"),
    ];
    for (text, body) in table {
        let seen = requests(format!("{POST}{text}").as_bytes());
        assert_eq!(seen.len(), 1, "{text:?}");
        assert!(seen[0].ends_with(&format!("|{body}")), "{text:?} {seen:?}");
    }
}

#[test]
fn garbage_is_refused_at_its_first_byte() {
    let limits = HttpLimits::default();
    for byte in (0..=u8::MAX).filter(|&byte| !super::is_token_byte(byte) && byte != b'\r') {
        assert_eq!(feed([&[byte][..]], &limits).error, Some(400), "{byte}");
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped_up_to_a_bound() {
    let text = |count: usize| format!("{}GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\r\n".repeat(count));
    for count in 0..=8 {
        assert_eq!(requests(text(count).as_bytes()).len(), 1);
    }
    assert_eq!(error(text(9).as_bytes(), &HttpLimits::default()), Some(400));
}

/// Small bounds, so that every cut around them can be tried.
fn small_limits() -> HttpLimits {
    HttpLimits {
        head_bytes_max: 80,
        target_bytes_max: 20,
        fields_max: 3,
        body_bytes_max: 10,
        drain_bytes_max: 20,
        chunk_line_bytes_max: 8,
        trailer_bytes_max: 12,
        sse_event_bytes_max: 0,
    }
}

/// `n` is served within `limits`, `n + 1` is answered with `code`.
fn check_limit(n: usize, code: u16, request: impl Fn(usize) -> String) {
    let limits = small_limits();
    let (within, over) = (request(n), request(n + 1));
    assert_eq!(error(within.as_bytes(), &limits), None, "{within:?}");
    assert_eq!(outcome(within.as_bytes(), &limits).requests.len(), 1);
    let seen = outcome(over.as_bytes(), &limits);
    assert_eq!((seen.requests.len(), seen.error), (0, Some(code)), "{over:?}");
}

#[test]
fn the_target_limit_is_exact() {
    check_limit(20, 414, |n| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(n - 1)));
    check_limit(20, 414, |n| format!("GET /{} HTTP/1.0\r\n\r\n", "?".repeat(n - 1)));
}

#[test]
fn the_head_limit_is_exact() {
    let rest = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
    check_limit(80, 431, |n| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(n - rest))
    });
}

#[test]
fn a_head_is_refused_as_soon_as_its_limit_is_reached() {
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(80));
    assert_eq!(feed([&bytes.as_bytes()[..79]], &small_limits()).error, None);
    assert_eq!(feed([&bytes.as_bytes()[..80]], &small_limits()).error, Some(431));
}

#[test]
fn the_field_limit_is_exact() {
    check_limit(3, 431, |n| {
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(n - 1))
    });
}

#[test]
fn b151_the_body_limit_is_exact() {
    check_limit(10, 413, |n| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\n\r\n{}", "x".repeat(n))
    });
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    check_limit(10, 413, |n| format!("{head}{n:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(n)));
    check_limit(10, 413, |n| format!("{head}{}0\r\n\r\n", "1\r\nx\r\n".repeat(n)));
}

#[test]
fn b152_nothing_is_without_a_limit() {
    let limits = HttpLimits::default();
    let fields = |text: String| format!("POST / HTTP/1.1\r\nHost: a\r\n{text}");
    let chunked = |text: String| fields(format!("Transfer-Encoding: chunked\r\n\r\n{text}"));
    let table = [
        (fields("Content-Length: 10000000000\r\n\r\n".into()), 413),
        (chunked(format!("1000000\r\n{}\r\n1\r\n", "x".repeat(1 << 24))), 413),
        (fields(format!("X: {}", "x".repeat(1_000_000))), 431),
        (fields("X: y\r\n".repeat(10_000)), 431),
        (format!("GET /{}", "x".repeat(1_000_000)), 414),
        (chunked(format!("1;{}", "x".repeat(5000))), 400),
        (chunked(format!("1;{}\r\nx\r\n", "x".repeat(4000)).repeat(5)), 400),
        (chunked(format!("0\r\n{}", "X: y\r\n".repeat(2000))), 400),
    ];
    for (text, code) in table {
        let seen = feed(text.as_bytes().chunks(4000), &limits);
        assert_eq!((seen.requests.len(), seen.error), (0, Some(code)));
    }
}

#[test]
fn the_chunk_line_limit_is_exact() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    check_limit(8, 400, |n| format!("{head}1;{}\r\nx\r\n0\r\n\r\n", "y".repeat(n - 4)));
    check_limit(8, 400, |n| format!("{head}{}1\r\nx\r\n0\r\n\r\n", "0".repeat(n - 3)));
    // Four full lines of extensions are read, and not a byte more.
    let extensions = format!("{}2;\r\nxy\r\n1;\r\nx\r\n", "1;yyyy\r\nx\r\n".repeat(6));
    check_limit(32, 400, |n| {
        format!("{head}{extensions}{}0\r\n\r\n", if n == 32 { "" } else { "1;\r\nx\r\n" })
    });
}

#[test]
fn the_trailer_limit_is_exact() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    check_limit(12, 400, |n| format!("{head}A: {}\r\n\r\n", "b".repeat(n - 7)));
    check_limit(12, 400, |n| format!("{head}A: \r\nB:{}\r\n\r\n", "b".repeat(n - 11)));
}

#[test]
fn more_fields_than_the_parser_has_room_for_are_refused_whatever_the_limit() {
    let limits = HttpLimits { fields_max: usize::MAX, ..HttpLimits::default() };
    let text = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(n - 1));
    assert_eq!(feed([text(256).as_bytes()], &limits).requests.len(), 1);
    assert_eq!(feed([text(257).as_bytes()], &limits).error, Some(431));
}

/// Feeds noise in pieces, finishing or refusing requests as `choices` say, and checks after every
/// step that the codec holds no more than its limits allow.
fn check_bounds(bytes: &[u8], piece: usize, refuse: bool, limits: &HttpLimits) {
    let (mut codec, mut input) = (ServerCodec::new(), ByteQueue::new());
    let held_max = limits.head_bytes_max
        + limits.body_bytes_max
        + limits.chunk_line_bytes_max.max(limits.trailer_bytes_max);
    for piece in bytes.chunks(piece) {
        input.push(piece);
        for step in 0.. {
            assert!(step <= 3 * bytes.len() + 3, "the codec loops");
            let before = input.len();
            match codec.decode(&mut input, limits) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Head) if refuse => codec.discard_body(&mut input),
                Ok(Decoded::Head) => {
                    let due = codec.take_continue(&input);
                    assert!(!(due && codec.take_continue(&input)), "asked for only once");
                }
                Ok(Decoded::Whole) => {
                    let request = codec.request(&input);
                    assert!(request.body().len() <= limits.body_bytes_max);
                    assert!(request.target().len() <= limits.target_bytes_max);
                    assert!(request.fields().len() <= limits.fields_max);
                    codec.finish(&mut input);
                }
                Err(_) => return,
            }
            assert!(input.len() <= before);
        }
        assert!(input.len() <= held_max, "{} bytes held", input.len());
        // Behind the largest chunk there is still its line end to come.
        assert!(codec.body_needed(&input) <= limits.body_bytes_max + 2);
    }
}

/// Pieces from which noise is made that gets past the first line more often than bytes alone would.
const PIECES: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "POST /x HTTP/1.0\r\n",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 11\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "\r\n",
    "\r",
    "\n",
    "5\r\n",
    "0\r\n",
    "a;x\r\n",
    "hello",
    "X: y\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n",
    "\0",
    "é",
    " ",
    ":",
    "GET ",
];

fn noise() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec());
    let random = prop::collection::vec(any::<u8>(), 0..6);
    let piece = prop_oneof![9 => known, 1 => random];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Few cases in an ordinary run, many when `WATERWHEEL_LONG` asks for them; a number there is the
/// seed, to repeat a run.
fn cases() -> ProptestConfig {
    let long = std::env::var("WATERWHEEL_LONG").ok();
    let seed = long.as_ref().and_then(|seed| seed.parse().ok());
    ProptestConfig {
        cases: if long.is_some() { 200_000 } else { 500 },
        rng_seed: seed.map_or(RngSeed::Random, RngSeed::Fixed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn noise_neither_breaks_the_codec_nor_makes_it_hold_more_than_its_limits(
        bytes in noise(), piece in 1_usize..40, refuse: bool
    ) {
        check_bounds(&bytes, piece, refuse, &small_limits());
        check_bounds(&bytes, piece, refuse, &HttpLimits::default());
    }

    #[test]
    fn cutting_noise_makes_no_difference(bytes in noise(), piece in 1_usize..40) {
        for limits in [small_limits(), HttpLimits::default()] {
            let (whole, cut) = (feed([&bytes[..]], &limits), feed(bytes.chunks(piece), &limits));
            prop_assert_eq!(&whole.requests, &cut.requests);
            prop_assert_eq!(whole.error.is_some(), cut.error.is_some());
            prop_assert_eq!(whole.error.is_some() || whole.left == cut.left, true);
        }
    }

    #[test]
    fn a_body_is_the_same_however_it_is_chunked(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..12),
        piece in 1_usize..200,
    ) {
        let mut bytes = format!("{POST}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        for chunk in &chunks {
            bytes.extend(format!("{:X}\r\n", chunk.len()).bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\nGET /");
        let (mut codec, mut input) = (ServerCodec::new(), ByteQueue::new());
        for piece in bytes.chunks(piece) {
            input.push(piece);
            while !matches!(
                codec.decode(&mut input, &HttpLimits::default()),
                Ok(Decoded::Incomplete | Decoded::Whole)
            ) {}
        }
        prop_assert_eq!(codec.request(&input).body(), chunks.concat());
        codec.finish(&mut input);
        prop_assert_eq!(input.data(), b"GET /");
    }
}
