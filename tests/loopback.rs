//! The whole server over real sockets: what only the operating system can show.
//!
//! Every wait is a blocking read or receive with a timeout; nothing here counts on timing.

#[path = "it/support"]
mod support {
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod request;
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod response;
    #[expect(dead_code, reason = "the other tests on sockets use more of it")]
    pub(crate) mod running;
}

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::json;
use support::request::Request;
use support::running::{Client, PATIENCE, Running, call, echo};
use waterwheel::filter::bearer::{BearerAuth, TokenVerdict};
use waterwheel::{
    CallError, CallToolResult, Limits, LogLevel, Principal, Responder, Server, ServerBuilder,
    Streaming, Timeouts, Tool, ToolCall,
};

/// A tool that gives its responder to the test.
fn with_held(server: ServerBuilder, held: Sender<Responder<CallToolResult>>) -> ServerBuilder {
    let tool = Tool::new("held").streaming(Streaming::Allowed);
    server.tool_deferred(tool, move |_, responder| {
        held.send(responder).expect("the test listens");
    })
}

/// A tool that blocks its thread until the test lets it go.
fn with_blocking(server: ServerBuilder, gate: Receiver<()>, entered: Sender<()>) -> ServerBuilder {
    let both = Mutex::new((gate, entered));
    server.tool_blocking(Tool::new("blocks"), move |_: &mut ToolCall<'static>| {
        let (gate, entered) = &*both.lock().expect("no holder of this lock panics");
        entered.send(()).expect("the test listens");
        gate.recv_timeout(PATIENCE).expect("the test opens the gate");
        Ok(CallToolResult::text("released"))
    })
}

#[test]
fn one_connection_serves_many_requests() {
    let server = Running::start(|server| server);
    let mut client = server.connect();
    for id in 0..3 {
        let response = client.ask(&call(id, "echo"));
        assert_eq!((response.status, response.message()["id"].as_u64()), (200, Some(id)));
        assert!(response.field("date").is_some_and(|date| date.ends_with(" GMT")));
    }
    client.send(&[call(8, "echo").bytes(), call(9, "echo").bytes()].concat());
    assert_eq!(client.response().message()["id"], 8);
    assert_eq!(client.response().message()["id"], 9);
    server.stop();
    client.expect_end();
}

#[test]
fn a_megabyte_goes_there_and_back() {
    let server = Running::start(|server| server);
    let mut client = server.connect();
    let text = "é".repeat(512 * 1024);
    let request = Request::modern_call(1, "echo", json!({ "text": text }));
    for request in [request.clone(), request.chunked(10_000)] {
        assert_eq!(client.ask(&request).text(), json!({ "text": text }).to_string());
    }
    server.stop();
}

#[test]
fn b151_a_client_that_is_still_sending_can_read_its_refusal() {
    let server = Running::start(|server| server);
    let mut client = server.connect();
    client.send(Request::post("x").set("Content-Length", "30000000").head().as_bytes());
    // The server may stop reading at some point; whatever is sent, the answer must arrive.
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

#[test]
fn two_hundred_connections_are_served_side_by_side() {
    let server = Running::start(|server| server);
    let mut clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
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
fn a_client_that_disconnects_cancels_its_modern_call() {
    let (hold, held) = channel();
    let server = Running::start(move |server| with_held(server, hold));
    for resets in [false, true] {
        let mut client = server.connect();
        client.send(&call(1, "held").bytes());
        let responder = held.recv_timeout(PATIENCE).expect("the tool is called");
        let (cancel, cancelled) = channel();
        responder.on_cancel(move || cancel.send(()).expect("the test listens"));
        if resets {
            // Closing with unread input resets the connection.
            client.send(&call(2, "echo").bytes()[..5]);
        }
        drop(client);
        cancelled.recv_timeout(PATIENCE).expect("the call is cancelled");
        assert!(responder.is_cancelled());
    }
    server.stop();
}

#[test]
fn an_answer_from_another_thread_wakes_the_loop() {
    let (hold, held) = channel();
    let server = Running::start(move |server| with_held(server, hold));
    let mut client = server.connect();
    for id in 0..100 {
        client.send(&call(id, "held").bytes());
        let responder = held.recv_timeout(PATIENCE).expect("the tool is called");
        responder.finish(CallToolResult::text(id));
        assert_eq!(client.response().text(), id.to_string());
    }
    server.stop();
}

#[test]
fn a_request_whose_token_is_checked_elsewhere_goes_on_where_it_stopped() {
    let (check, checks) = channel();
    let server = Running::start(move |server| {
        let protection = BearerAuth::new("http://127.0.0.1/mcp")
            .authorization_server("https://login.example")
            .check_deferred(move |_, decision| {
                check.send(decision).expect("the test waits for it");
            });
        server.bearer_auth(protection)
    });
    let text = "x".repeat(200_000);
    let call = Request::modern_call(1, "echo", json!({ "text": text }));
    let mut held = server.connect();
    held.send(&call.field("Authorization", "Bearer t").bytes());
    let decision = checks.recv_timeout(PATIENCE).expect("the token is checked");
    // By the second answer the loop has been round and read of the other all that it would.
    for _ in 0..2 {
        assert_eq!(server.connect().ask(&Request::new("GET", "/health")).status, 200);
    }
    decision.decide(TokenVerdict::valid(Principal::new("alice")));
    let response = held.response();
    assert_eq!(response.status, 200);
    assert!(response.text().contains(&text));
    server.stop();
}

#[test]
fn a_blocking_tool_stalls_nobody_else() {
    let (open, gate) = channel();
    let (enter, entered) = channel();
    let server = Running::start(move |server| with_blocking(server, gate, enter));
    let (mut blocked, mut other) = (server.connect(), server.connect());
    blocked.send(&call(1, "blocks").bytes());
    entered.recv_timeout(PATIENCE).expect("the tool runs");
    for id in 0..10 {
        assert_eq!(other.ask(&call(id, "echo")).status, 200);
    }
    open.send(()).expect("the tool waits");
    assert_eq!(blocked.response().text(), "released");
    server.stop();
}

#[test]
fn one_blocking_call_too_many_is_refused_and_a_panic_costs_no_worker() {
    let (open, gate) = channel();
    let (enter, entered) = channel();
    let limits = Limits { blocking_threads: 1, blocking_queue_max: 1, ..Limits::default() };
    let server = Running::start(move |server| {
        with_blocking(server, gate, enter)
            .tool_blocking(Tool::new("panics"), |_| -> Result<CallToolResult, CallError> {
                panic!("expected by the test")
            })
            .limits(limits)
    });
    let (mut runs, mut waits, mut refused) = (server.connect(), server.connect(), server.connect());
    runs.send(&call(0, "blocks").bytes());
    entered.recv_timeout(PATIENCE).expect("the first runs");
    waits.send(&call(1, "panics").bytes());
    // When this is answered, what was sent before it has been read.
    assert_eq!(refused.ask(&call(2, "echo")).status, 200);
    assert_eq!(refused.ask(&call(3, "blocks")).error()["code"], -32603);
    open.send(()).expect("the tool waits");
    assert_eq!(runs.response().text(), "released");
    assert_eq!(waits.response().error()["code"], -32603);
    open.send(()).expect("the tool waits");
    assert_eq!(runs.ask(&call(4, "blocks")).text(), "released");
    server.stop();
}

#[test]
fn d19_a_reader_that_does_not_read_is_cut() {
    let (cancel, cancelled) = channel();
    let server = Running::start(move |server| {
        let tool = Tool::new("floods").streaming(Streaming::Allowed);
        server.tool_deferred(tool, move |_, mut responder| {
            let cancel = cancel.clone();
            responder.on_cancel(move || cancel.send(()).expect("the test listens"));
            std::thread::spawn(move || {
                while !responder.is_cancelled() {
                    let _ = responder.log(LogLevel::Error, None, &"x".repeat(10_000));
                    std::thread::yield_now();
                }
            });
        })
    });
    let (mut stuck, mut healthy) = (server.connect(), server.connect());
    let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let request = Request::modern(1, "tools/call", json!({ "name": "floods", "_meta": meta }));
    stuck.send(&request.bytes());
    assert_eq!(healthy.ask(&call(1, "echo")).status, 200);
    cancelled.recv_timeout(PATIENCE).expect("the reader is cut off");
    assert_eq!(healthy.ask(&call(2, "echo")).status, 200);
    server.stop();
}

#[test]
fn a_reader_that_has_stalled_is_cut_although_comments_go_out() {
    let timeouts = Timeouts {
        keep_alive: Duration::from_millis(50),
        write: Duration::from_millis(500),
        ..Timeouts::default()
    };
    let limits = Limits { output_bytes_max: 1 << 30, ..Limits::default() };
    let (hold, held) = channel();
    let server =
        Running::start(move |server| with_held(server, hold).timeouts(timeouts).limits(limits));
    let mut client = server.connect();
    let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let request = Request::modern(1, "tools/call", json!({ "name": "held", "_meta": meta }));
    client.send(&request.bytes());
    let mut responder = held.recv_timeout(PATIENCE).expect("the tool is called");
    let (cancel, cancelled) = channel();
    responder.on_cancel(move || cancel.send(()).expect("the test listens"));
    // More than the sockets in between can hold.
    for _ in 0..32 {
        let _ = responder.log(LogLevel::Error, None, &"x".repeat(1 << 20));
    }
    cancelled.recv_timeout(Duration::from_secs(5)).expect("no byte was taken for seconds");
    drop(responder);
    server.stop();
}

#[test]
fn d22_shutdown_finishes_a_running_call_and_closes_the_rest_at_once() {
    let (hold, held) = channel();
    let mut server = Running::start(move |server| with_held(server, hold));
    let (mut running, mut idle) = (server.connect(), server.connect());
    assert_eq!(idle.ask(&call(1, "echo")).status, 200);
    running.send(&call(2, "held").bytes());
    let responder = held.recv_timeout(PATIENCE).expect("the tool is called");
    server.handle.shut_down();
    idle.expect_end();
    // The listener is closed in the same turn as the idle connections.
    assert!(TcpStream::connect(server.addresses[0]).is_err(), "nobody listens any more");
    responder.finish(CallToolResult::text("done"));
    let response = running.response();
    assert_eq!(response.text(), "done");
    assert!(response.closes());
    running.expect_end();
    drop(running);
    server.wait_for_end();
}

#[test]
fn inv30_b032_tools_come_and_go_while_the_server_runs() {
    let server = Running::start(|server| server);
    let mut client = server.connect();
    let properties = json!({ "zone": { "type": "string", "x-mcp-header": "Zone" } });
    let schema = json!({ "type": "object", "properties": properties });
    let preflight = Request::new("OPTIONS", "/mcp").field("Origin", "http://localhost");
    let allowed = |client: &mut Client| {
        let response = client.ask(&preflight);
        response.field("access-control-allow-headers").unwrap_or("").contains("Mcp-Param-Zone")
    };
    // What a handle asks for is done by the end of the turn that serves the first request after
    // it, so the answer to the second one shows it.
    let listed = |client: &mut Client| {
        client.ask(&call(1, "nobody"));
        let listing = client.ask(&Request::modern(2, "tools/list", json!({}))).result();
        let tools = listing["tools"].as_array().expect("an empty list is a list").clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    assert!(!allowed(&mut client));
    server.handle.add_tool(Tool::new("late").input_schema(schema), echo).expect("it is sound");
    assert_eq!(listed(&mut client), ["echo", "late"]);
    let zoned = Request::modern_call(1, "late", json!({ "zone": "a" }));
    assert_eq!(client.ask(&zoned).error()["code"], -32020);
    assert_eq!(client.ask(&zoned.field("Mcp-Param-Zone", "a")).text(), r#"{"zone":"a"}"#);
    assert!(allowed(&mut client));
    server.handle.remove_tool("late");
    server.handle.remove_tool("never was");
    assert_eq!(listed(&mut client), ["echo"]);
    assert_eq!(client.ask(&call(3, "late")).error()["code"], -32602);
    assert!(!allowed(&mut client));
    server.handle.remove_tool("echo");
    assert_eq!(listed(&mut client), [""; 0]);
    server.stop();
}

#[test]
fn b148_a_port_that_is_taken_is_an_error_that_names_it() {
    let server = Running::start(|server| server);
    let taken = server.addresses[0].to_string();
    let error = Server::builder("second", "1").bind(&taken).expect_err("the port is taken");
    let shown = error.to_string();
    assert!(shown.contains(&taken) && !shown.contains('\n'), "{shown}");
    server.stop();
    assert!(Server::builder("third", "1").bind(&taken).is_ok(), "it is free again at once");
}

#[test]
fn b149_localhost_is_every_loopback_address_there_is() {
    let server = Running::start_on("localhost:0", |server| server);
    let has_v6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    assert_eq!(server.addresses.len(), if has_v6 { 2 } else { 1 });
    for address in &server.addresses {
        let mut client = Client::connect(*address);
        let request = call(1, "echo").set("Host", &address.to_string());
        assert_eq!(client.ask(&request).status, 200);
    }
    server.stop();
}

#[test]
fn a_client_that_closes_its_sending_side_still_gets_what_was_ready() {
    let server = Running::start(|server| server);
    let mut client = server.connect();
    client.send(&call(1, "echo").bytes());
    client.stream.shutdown(Shutdown::Write).expect("our side can be closed");
    assert_eq!(client.response().status, 200);
    client.expect_end();
    server.stop();
}
