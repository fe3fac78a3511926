//! The codecs by themselves, in bytes per second: heads, chunks, event streams, envelopes.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use waterwheel::buf::ByteQueue;
use waterwheel::http::sse::{SseDecoder, encode_event};
use waterwheel::http::{Decoded, ServerCodec};
use waterwheel::{HttpLimits, Limits, rpc};

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    targets = heads, chunks, sse_encode, sse_decode, envelopes
}
criterion_main!(benches);

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A head as a common client sends it: a request line and ten fields.
const HEAD: &str = "POST /mcp HTTP/1.1\r\n\
    Host: 127.0.0.1:8080\r\n\
    Connection: keep-alive\r\n\
    Content-Type: application/json\r\n\
    Accept: application/json, text/event-stream\r\n\
    Accept-Language: *\r\n\
    Accept-Encoding: gzip, deflate\r\n\
    User-Agent: node\r\n\
    Mcp-Session-Id: 6f2c1d9e0b7a48d3a5e4c7b1908f3d62\r\n\
    MCP-Protocol-Version: 2025-11-25\r\n\
    Content-Length: 0\r\n\r\n";

/// A request from its first byte to the next request, with nothing in it but a head.
fn heads(c: &mut Criterion) {
    let limits = HttpLimits::default();
    let (mut codec, mut input) = (ServerCodec::new(), ByteQueue::new());
    let mut group = c.benchmark_group("head");
    group.throughput(bytes(HEAD.len()));
    group.bench_function("10 fields", |b| {
        b.iter(|| {
            input.push(HEAD.as_bytes());
            assert_eq!(codec.decode(&mut input, &limits), Ok(Decoded::Head));
            assert_eq!(codec.decode(&mut input, &limits), Ok(Decoded::Whole));
            codec.finish(&mut input);
        });
    });
    group.finish();
}

/// A chunked body that is here at once, and one that comes read by read. The copying that a read is
/// belongs to both figures.
fn chunks(c: &mut Criterion) {
    /// About what one read brings.
    const READ_BYTES: usize = 16 * KIB;
    let request = chunked(MIB, 4 * KIB);
    let (mut codec, mut input) = (ServerCodec::new(), ByteQueue::new());
    let mut group = c.benchmark_group("chunked body");
    group.throughput(bytes(MIB));
    for (name, read_bytes) in [("at once", request.len()), ("in reads", READ_BYTES)] {
        group.bench_function(BenchmarkId::new(name, "1 MiB of 4 KiB chunks"), |b| {
            b.iter(|| read_body(&mut codec, &mut input, request.chunks(read_bytes)));
        });
    }
    group.finish();
}

/// Decodes a request that comes in pieces.
fn read_body<'a>(
    codec: &mut ServerCodec,
    input: &mut ByteQueue,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    let limits = HttpLimits::default();
    for piece in pieces {
        input.push(piece);
        while codec.decode(input, &limits) == Ok(Decoded::Head) {}
    }
    assert_eq!(codec.request(input).body().len(), MIB);
    codec.finish(input);
}

/// A request with `len` bytes of body in chunks of `chunk_bytes`.
fn chunked(len: usize, chunk_bytes: usize) -> Vec<u8> {
    let head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut request = head.as_bytes().to_vec();
    for chunk in vec![b'x'; len].chunks(chunk_bytes) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

/// Events of these sizes are encoded and decoded.
const EVENT_BYTES: [(&str, usize); 2] = [("200 B", 200), ("64 KiB", 64 * KIB)];

fn sse_encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("sse encode");
    for (name, len) in EVENT_BYTES {
        let data = call(len);
        let mut out = ByteQueue::new();
        group.throughput(bytes(len));
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                encode_event(&mut out, None, None, black_box(&data));
            });
        });
    }
    group.finish();
}

/// A stream of events, as a reader gets it.
fn sse_decode(c: &mut Criterion) {
    const READ_BYTES: usize = 16 * KIB;
    let mut group = c.benchmark_group("sse decode");
    for (name, len) in EVENT_BYTES {
        let stream = events(len, MIB);
        let mut decoder = SseDecoder::new(HttpLimits::default().sse_event_bytes_max);
        group.throughput(bytes(stream.len()));
        group.bench_function(name, |b| {
            b.iter(|| read_stream(&mut decoder, &stream, READ_BYTES));
        });
    }
    group.finish();
}

fn read_stream(decoder: &mut SseDecoder, stream: &[u8], read_bytes: usize) {
    for piece in stream.chunks(read_bytes) {
        let fed = decoder.feed(piece, |event| {
            black_box(event);
        });
        assert_eq!(fed, Ok(()));
    }
}

/// So many events of `len` bytes that their data is `total` bytes.
fn events(len: usize, total: usize) -> Vec<u8> {
    let (data, mut out) = (call(len), ByteQueue::new());
    for _ in 0..total / len {
        encode_event(&mut out, None, None, &data);
    }
    out.data().to_vec()
}

/// Bodies from bytes to messages. A large one is one long string, as a file is sent, or many small
/// values, which take longer to skip.
fn envelopes(c: &mut Criterion) {
    let mut group = c.benchmark_group("envelope");
    read_envelope(&mut group, "200 B", &call(200));
    read_envelope(&mut group, "1 MiB, one string", &call(MIB));
    read_envelope(&mut group, "1 MiB, small values", &table(MIB));
    group.finish();
}

fn read_envelope(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, body: &[u8]) {
    let depth_max = Limits::default().json_depth_max;
    assert!(rpc::decode(body, depth_max).is_ok(), "an error is no measure");
    group.throughput(bytes(body.len()));
    group.bench_function(name, |b| b.iter(|| rpc::decode(black_box(body), depth_max).is_ok()));
}

/// A call that is `len` bytes long, most of them one string.
fn call(len: usize) -> Vec<u8> {
    let with = |text: &str| with_arguments(&format!(r#"{{"text":"{text}"}}"#));
    let text = "x".repeat(len - with("").len());
    with(&text)
}

/// A call of about `len` bytes, most of them rows of small values.
fn table(len: usize) -> Vec<u8> {
    const ROW: &str = r#"{"id":1042,"name":"bolt, M8","price":0.25,"tags":["steel","zinc"]}"#;
    let rows = vec![ROW; len / (ROW.len() + 1)];
    with_arguments(&format!(r#"{{"rows":[{}]}}"#, rows.join(",")))
}

fn with_arguments(arguments: &str) -> Vec<u8> {
    let (open, close) = (r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":"#, "}}");
    format!(r#"{open}{{"name":"echo","arguments":{arguments}{close}"#).into_bytes()
}

/// What a figure is divided by.
fn bytes(len: usize) -> Throughput {
    Throughput::Bytes(len as u64)
}
