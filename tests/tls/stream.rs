//! Bytes on their way: records cut and joined, slow peers, and peers that speak something else.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustls::ClientConnection;
use serde_json::json;
use waterwheel::{
    CallToolResult, Limits, LogLevel, Streaming, Timeouts, Tool, ToolCall, TurnLimits,
};

use crate::certificates::Authority;
use crate::support::request::Request;
use crate::support::running::{Client, PATIENCE, Running, call};
use crate::{Secure, connect, session};

/// A connected client with its handshake behind it.
fn open(server: &Running, authority: &Authority) -> Secure {
    let mut client = connect(server, &authority.client());
    assert_eq!(client.ask(&call(0, "echo")).status, 200);
    client
}

/// What a session would send now.
fn encrypted(session: &mut ClientConnection, plain: &[u8]) -> Vec<u8> {
    session.writer().write_all(plain).expect("it is buffered");
    let mut wire = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut wire).expect("writing to memory cannot fail");
    }
    wire
}

#[test]
fn calls_are_served_by_either_version_and_the_end_is_announced() {
    let authority = Authority::new("calls");
    let tls = authority.tls();
    let mut server = Running::start(move |server| server.tls(tls));
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let mut clients = Vec::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut client = connect(&server, &authority.client_of(None, &[version]));
        for id in 0..3 {
            let response = client.ask(&call(id, "echo"));
            assert_eq!((response.status, response.message()["id"].as_u64()), (200, Some(id)));
        }
        assert_eq!(client.stream.conn.protocol_version(), Some(version.version));
        clients.push(client);
    }
    // A client fails that reads an end without a close_notify.
    let response = clients[0].ask(&call(4, "echo").field("Connection", "close"));
    assert!(response.closes());
    clients[0].expect_end();
    server.handle.shut_down();
    clients[1].expect_end();
    server.wait_for_end();
}

#[test]
fn a_megabyte_goes_there_and_back() {
    let authority = Authority::new("megabyte");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let mut client = connect(&server, &authority.client());
    let text = "é".repeat(512 * 1024);
    let request = Request::modern_call(1, "echo", json!({ "text": text }));
    for request in [request.clone(), request.chunked(10_000)] {
        assert_eq!(client.ask(&request).text(), json!({ "text": text }).to_string());
    }
    server.stop();
}

#[test]
fn what_is_decrypted_and_not_served_yet_is_not_forgotten() {
    let authority = Authority::new("backlog");
    let tls = authority.tls();
    let turn = TurnLimits { read_bytes_max: 1, requests_max: 1, ..TurnLimits::default() };
    let limits = Limits { turn, ..Limits::default() };
    let server = Running::start(move |server| server.tls(tls).limits(limits));
    let mut client = open(&server, &authority);
    // One record with many requests, longer than one read, and nothing behind it.
    let requests: Vec<u8> = (0..30).flat_map(|id| call(id, "echo").bytes()).collect();
    assert!((8192..16384).contains(&requests.len()), "{}", requests.len());
    client.send(&requests);
    for id in 0..30 {
        assert_eq!(client.response().message()["id"], id);
    }
    // The same in a record for each request, together in what the socket gives at once.
    let session = &mut client.stream.conn;
    let records: Vec<u8> =
        (0..30).flat_map(|id| encrypted(session, &call(id, "echo").bytes())).collect();
    client.stream.sock.write_all(&records).expect("the server reads");
    for id in 0..30 {
        assert_eq!(client.response().message()["id"], id);
    }
    server.stop();
}

#[test]
fn a_record_that_comes_in_pieces_stalls_nobody() {
    let authority = Authority::new("pieces");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let (mut slow, mut other) = (open(&server, &authority), open(&server, &authority));
    let record = encrypted(&mut slow.stream.conn, &call(1, "echo").bytes());
    for piece in record.chunks(record.len() / 4) {
        slow.stream.sock.write_all(piece).expect("the server reads");
        assert_eq!(other.ask(&call(2, "echo")).status, 200);
    }
    assert_eq!(slow.response().message()["id"], 1);
    // One that is never finished ends with its connection.
    let record = encrypted(&mut slow.stream.conn, &call(1, "echo").bytes());
    slow.stream.sock.write_all(&record[..record.len() / 2]).expect("the server reads");
    slow.stream.sock.shutdown(Shutdown::Write).expect("our side can be closed");
    slow.expect_end();
    assert_eq!(other.ask(&call(3, "echo")).status, 200);
    server.stop();
}

#[test]
fn a_broken_record_ends_its_connection_with_an_alert() {
    let authority = Authority::new("broken");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let (mut broken, mut other) = (open(&server, &authority), open(&server, &authority));
    let mut record = encrypted(&mut broken.stream.conn, &call(1, "echo").bytes());
    let last = record.len() - 1;
    record[last] ^= 1;
    broken.stream.sock.write_all(&record).expect("the server reads");
    let error = broken.stream.read(&mut [0; 1]).expect_err("there is no answer").to_string();
    assert!(error.contains("BadRecordMac"), "{error}");
    assert_eq!(other.ask(&call(2, "echo")).status, 200);
    server.stop();
}

#[test]
fn a_client_that_ends_its_stream_gets_what_was_ready_and_an_end() {
    let authority = Authority::new("ends");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    for announces in [true, false] {
        let mut client = connect(&server, &authority.client());
        client.send(&call(1, "echo").bytes());
        if announces {
            // In one go with the request, and the socket stays open.
            client.stream.conn.send_close_notify();
            client.stream.flush().expect("the server reads");
        } else {
            client.stream.sock.shutdown(Shutdown::Write).expect("our side can be closed");
        }
        assert_eq!(client.response().status, 200);
        client.expect_end();
    }
    server.stop();
}

#[test]
fn b145_plain_http_on_a_tls_port_is_told_so_and_closed() {
    let authority = Authority::new("plain");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let mut other = open(&server, &authority);
    let large = Request::post(vec![b'x'; 300_000]).bytes();
    for bytes in [&call(1, "echo").bytes()[..], &large, b"G", &[0x80, 0x2e, 1, 3, 1]] {
        let mut plain = server.connect();
        plain.send(bytes);
        let response = plain.response();
        assert_eq!((response.status, response.closes()), (400, true));
        let message = response.error()["message"].to_string();
        assert!(message.contains("https"), "{message}");
        plain.expect_end();
        assert_eq!(other.ask(&call(2, "echo")).status, 200);
    }
    server.stop();
}

#[test]
fn b145_tls_on_a_plain_port_is_refused_at_once() {
    let authority = Authority::new("plain-port");
    let server = Running::start(|server| server);
    let mut other = server.connect();
    let mut client = server.connect();
    let hello = encrypted(&mut session(&authority.client()), b"");
    assert_eq!(hello[..2], [0x16, 0x03]);
    client.send(&hello);
    let response = client.response();
    assert_eq!((response.status, response.closes()), (400, true));
    client.expect_end();
    assert_eq!(other.ask(&call(1, "echo")).status, 200);
    server.stop();
}

#[test]
fn b145_a_handshake_that_does_not_get_on_is_given_up() {
    let authority = Authority::new("slow");
    let tls = authority.tls();
    let timeouts = Timeouts { head: Duration::from_millis(300), ..Timeouts::default() };
    let server = Running::start(move |server| server.tls(tls).timeouts(timeouts));
    let mut other = open(&server, &authority);
    let hello = encrypted(&mut session(&authority.client()), b"");
    let mut starts: Vec<Client> = Vec::new();
    for bytes in [&b""[..], &hello[..1], &hello[..hello.len() / 2], &hello[..hello.len() - 1]] {
        let mut client = server.connect();
        client.send(bytes);
        starts.push(client);
    }
    // One that has had the server's answer and never finishes.
    let mut halfway = server.connect();
    halfway.send(&hello);
    assert!(halfway.read() > 0, "the server has answered");
    assert_eq!(other.ask(&call(2, "echo")).status, 200);
    starts.iter_mut().for_each(Client::expect_end);
    while halfway.read() > 0 {}
    // It is the handshake that has this clock, not the connection.
    assert_eq!(other.ask(&call(3, "echo")).status, 200);
    server.stop();
}

#[test]
fn a_burst_of_handshakes_is_worked_off_in_several_turns() {
    let authority = Authority::new("burst");
    let tls = authority.tls();
    let turn = TurnLimits { handshakes_max: 1, ..TurnLimits::default() };
    let limits = Limits { turn, ..Limits::default() };
    let server = Running::start(move |server| server.tls(tls).limits(limits));
    let config = authority.client();
    let mut clients: Vec<Secure> = (0..30).map(|_| connect(&server, &config)).collect();
    for client in &mut clients {
        client.stream.conn.write_tls(&mut client.stream.sock).expect("the server reads");
    }
    for (id, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&call(id as u64, "echo")).message()["id"], id);
    }
    server.stop();
}

/// Large enough that the sockets in between cannot hold it.
const LARGE_BYTES: usize = 24 * 1024 * 1024;

#[test]
fn an_answer_larger_than_the_sockets_hold_arrives_whole() {
    let authority = Authority::new("large");
    let tls = authority.tls();
    let server = Running::start(move |server| {
        server.tls(tls).tool(Tool::new("large"), |_: &mut ToolCall<'_>| {
            Ok(CallToolResult::text("0123456789abcdef".repeat(LARGE_BYTES / 16)))
        })
    });
    let (mut slow, mut other) = (open(&server, &authority), open(&server, &authority));
    slow.send(&call(1, "large").bytes());
    // While its answer waits for it, the others are served.
    for id in 0..20 {
        assert_eq!(other.ask(&call(id, "echo")).status, 200);
    }
    let response = slow.response();
    let is_whole = response.text() == "0123456789abcdef".repeat(LARGE_BYTES / 16);
    assert!(is_whole, "{} bytes", response.text().len());
    assert_eq!(slow.ask(&call(2, "echo")).status, 200);
    // The last answer of a connection is whole as well, before its end.
    slow.send(&call(3, "large").field("Connection", "close").bytes());
    assert_eq!(slow.response().text().len(), LARGE_BYTES);
    slow.expect_end();
    server.stop();
}

#[test]
fn a_reader_that_has_stalled_is_cut() {
    let authority = Authority::new("stalled");
    let tls = authority.tls();
    let timeouts = Timeouts { write: Duration::from_millis(500), ..Timeouts::default() };
    let limits = Limits { output_bytes_max: 1 << 30, ..Limits::default() };
    let (hold, held) = channel();
    let server = Running::start(move |server| {
        let tool = Tool::new("held").streaming(Streaming::Allowed);
        let server = server.tool_deferred(tool, move |_, responder| {
            hold.send(responder).expect("the test listens");
        });
        server.tls(tls).timeouts(timeouts).limits(limits)
    });
    let mut client = open(&server, &authority);
    let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let request = Request::modern(1, "tools/call", json!({ "name": "held", "_meta": meta }));
    client.send(&request.bytes());
    let mut responder = held.recv_timeout(PATIENCE).expect("the tool is called");
    let (cancel, cancelled) = channel();
    responder.on_cancel(move || cancel.send(()).expect("the test listens"));
    for _ in 0..LARGE_BYTES >> 20 {
        let _ = responder.log(LogLevel::Error, None, &"x".repeat(1 << 20));
    }
    cancelled.recv_timeout(PATIENCE).expect("no byte was taken for half a second");
    drop(responder);
    server.stop();
}

#[test]
fn records_without_content_do_not_go_on_for_ever() {
    let authority = Authority::new("silent");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let mut client = open(&server, &authority);
    let mut other = open(&server, &authority);
    // Each announces new keys and says nothing else; the server may close in the middle.
    let mut refused = false;
    for _ in 0..1000 {
        if client.stream.conn.refresh_traffic_keys().is_err() || client.stream.flush().is_err() {
            refused = true;
            break;
        }
    }
    let ended = refused || !matches!(client.stream.read(&mut [0; 1]), Ok(1..));
    assert!(ended, "the connection is closed");
    assert_eq!(other.ask(&call(1, "echo")).status, 200);
    server.stop();
}

#[test]
fn two_hundred_connections_are_served_side_by_side() {
    let authority = Authority::new("many");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let config = authority.client();
    let mut clients: Vec<Secure> = (0..200).map(|_| connect(&server, &config)).collect();
    for round in 0..2 {
        for (id, client) in clients.iter_mut().enumerate() {
            client.send(&call(id as u64 + round, "echo").bytes());
        }
        for (id, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response().message()["id"], id as u64 + round);
        }
    }
    server.stop();
    clients.iter_mut().for_each(Client::expect_end);
}

#[test]
fn a_client_that_is_still_sending_can_read_its_refusal() {
    let authority = Authority::new("sending");
    let tls = authority.tls();
    let server = Running::start(move |server| server.tls(tls));
    let mut client = connect(&server, &authority.client());
    client.send(Request::post("x").set("Content-Length", "30000000").head().as_bytes());
    for _ in 0..30 {
        if client.stream.write_all(&[b'x'; 100_000]).is_err() {
            break;
        }
    }
    let response = client.response();
    assert_eq!(response.status, 413);
    assert!(response.closes());
    server.stop();
}
