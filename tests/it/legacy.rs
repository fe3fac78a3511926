//! The transport of revision 2024-11-05: everything is heard on one stream and posted elsewhere.

use serde_json::{Value, json};
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::{
    BuildError, CallError, CallToolResult, Limits, LogLevel, NeedInput, Principal, Reply, Server,
    ServerBuilder, ServerHandle, Tool, ToolCall, Version,
};

use crate::support::{
    Block, Client, Request, Response, Scene, Session, assert_response, message, notification,
    seconds,
};

/// A client of the old transport.
#[derive(Clone)]
struct Old {
    stream: Client,
    address: String,
}

fn get() -> Request {
    Request::new("GET", "/sse").field("Accept", "text/event-stream")
}

impl Old {
    /// Opens a stream and takes what it begins with.
    #[track_caller]
    fn open(scene: &mut Scene) -> Self {
        Self::open_with(scene, &get())
    }

    #[track_caller]
    fn open_with(scene: &mut Scene, request: &Request) -> Self {
        let stream = scene.connect();
        scene.send(stream, request.bytes());
        assert_response!(scene.stream(stream), 200);
        let blocks = scene.blocks(stream);
        let [Block::Endpoint(address)] = &blocks[..] else { panic!("{blocks:?}") };
        Self { stream, address: address.clone() }
    }

    /// The same, with the handshake done.
    #[track_caller]
    fn ready(scene: &mut Scene, version: &str) -> Self {
        let old = Self::open(scene);
        let answer = old.ask(scene, 0, "initialize", handshake(version));
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        old.tell(scene, notification("notifications/initialized", json!({})));
        old
    }

    fn session(&self) -> &str {
        self.address.rsplit('=').next().unwrap()
    }

    fn post(&self, body: impl Into<Vec<u8>>) -> Request {
        Request::post(body).target(&self.address)
    }

    fn call(&self, id: u64, tool: &str, arguments: Value) -> Request {
        let params = json!({ "name": tool, "arguments": arguments });
        self.post(message(id, "tools/call", params))
    }

    /// Posts what is only acknowledged.
    #[track_caller]
    fn tell(&self, scene: &mut Scene, body: impl Into<Vec<u8>>) {
        acknowledged(&scene.ask_apart(&self.post(body)));
    }

    /// Posts a request and takes its answer, the only thing that may have come.
    #[track_caller]
    fn ask(&self, scene: &mut Scene, id: u64, method: &str, params: Value) -> Value {
        self.tell(scene, message(id, method, params));
        self.heard(scene)
    }

    #[track_caller]
    fn heard(&self, scene: &mut Scene) -> Value {
        let blocks = scene.blocks(self.stream);
        let [block] = &blocks[..] else { panic!("{blocks:?}") };
        block.data().clone()
    }
}

fn handshake(version: &str) -> Value {
    let client = json!({ "name": "old", "version": "0" });
    json!({
        "protocolVersion": version,
        "capabilities": { "elicitation": {} },
        "clientInfo": client,
    })
}

#[track_caller]
fn acknowledged(response: &Response) {
    assert_response!(response, 202);
    assert_eq!(response.body, b"");
    assert_eq!(response.field("mcp-session-id"), None);
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The caller is whoever the field `User` says.
fn with_users(server: ServerBuilder) -> ServerBuilder {
    server.authenticate(|request| match request.field_str("user") {
        Some(name) => Verdict::Allow(Principal::new(name)),
        None => Verdict::Deny(Denial::unauthorized("who are you?")),
    })
}

#[test]
fn b076_a_stream_begins_at_once_with_the_address_to_post_to() {
    let mut scene = Scene::new();
    let stream = scene.connect();
    scene.send(stream, get().without("Accept").bytes());
    let head = scene.stream(stream);
    assert_eq!(head.field("mcp-session-id"), None);
    let shown = String::from_utf8(scene.take_received(stream)).unwrap();
    let id = shown.split("sessionId=").nth(1).unwrap()[..32].to_owned();
    let event = format!("event: endpoint\ndata: /messages?sessionId={id}\n\n");
    assert_eq!(shown, format!("{:x}\r\n{event}\r\n", event.len()));
    assert!(id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert_eq!((scene.engine.sessions(), scene.engine.exchanges()), (1, 1));
}

#[test]
fn what_is_posted_is_acknowledged_and_answered_as_a_message_on_the_stream() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    let client = scene.connect();
    acknowledged(&scene.ask(client, &old.call(7, "echo", json!({ "a": 1 }))));
    let shown = String::from_utf8(scene.received(old.stream).to_vec()).unwrap();
    assert!(shown.contains("\r\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,"), "{shown}");
    let answer = old.heard(&mut scene);
    assert_eq!(text(&answer), r#"{"a":1}"#);
    // The connection of a POST is free for the next one, in whatever order answers come.
    for id in 1..=20 {
        scene.put(client, &old.call(id, "echo", json!({})).bytes());
    }
    scene.settle();
    for _ in 1..=20 {
        acknowledged(&scene.response(client));
    }
    let ids: Vec<u64> =
        scene.blocks(old.stream).iter().map(|it| it.data()["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=20).collect::<Vec<u64>>());
}

#[test]
fn each_classic_revision_can_be_negotiated_and_governs_what_follows() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut scene = Scene::new();
        let old = Old::ready(&mut scene, version);
        let params = json!({ "name": "caller", "arguments": {} });
        let answer = old.ask(&mut scene, 1, "tools/call", params);
        let seen: Value = match &answer["result"]["structuredContent"] {
            Value::Null => serde_json::from_str(text(&answer)).unwrap(),
            structured => structured.clone(),
        };
        assert_eq!(seen["version"], version);
        assert_eq!((&seen["client"], &seen["elicits"]), (&json!("old"), &json!(true)));
        assert_eq!(seen["session"], old.session());
    }
    let mut scene = Scene::new();
    let old = Old::open(&mut scene);
    let answer = old.ask(&mut scene, 1, "initialize", handshake("2026-07-28"));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn nothing_but_a_handshake_and_a_ping_is_served_before_the_handshake() {
    let mut scene = Scene::new();
    let old = Old::open(&mut scene);
    let answer = old.ask(&mut scene, 1, "tools/list", json!({}));
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(1)));
    assert_eq!(old.ask(&mut scene, 2, "ping", json!({}))["result"], json!({}));
    ServerHandle::of(&scene.engine).tools_changed();
    scene.settle();
    scene.advance(seconds(1));
    assert_eq!(scene.received(old.stream), b"", "it has not said that it wants to hear anything");
    let answer = old.ask(&mut scene, 3, "initialize", json!({ "protocolVersion": "2024-11-05" }));
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(old.ask(&mut scene, 4, "tools/list", json!({}))["error"]["code"], -32600);
}

#[test]
fn errors_of_messages_are_said_on_the_stream_and_those_of_bodies_to_the_post() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("subscriptions/listen", json!({ "notifications": {} }), -32601),
        ("tools/call", json!({ "name": "no such" }), -32602),
        ("tools/call", json!({ "name": "refuses" }), -32050),
        ("tools/call", json!({ "name": 5 }), -32602),
        ("tools/call", json!({ "name": "echo", "_meta": { "progressToken": [] } }), -32600),
    ] {
        let answer = old.ask(&mut scene, 5, method, params);
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &json!(5)),
            "{method}"
        );
    }
    old.tell(&mut scene, r#"{"jsonrpc":"1.0","id":6,"method":"ping"}"#);
    let answer = old.heard(&mut scene);
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(6)));
    for (body, code) in [("{", -32700), (r#"{"id":1,"#, -32700), ("17", -32600)] {
        assert_response!(scene.ask_apart(&old.post(body)), 400, error = code);
    }
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert_response!(scene.ask_apart(&old.post(deep)), 400, error = -32700);
    let plain = old.post("{}").set("Content-Type", "text/plain");
    assert_response!(scene.ask_apart(&plain), 415, error = -32600);
    assert_response!(scene.ask_apart(&old.post("{}").method("GET")), 405);
    assert_response!(scene.ask_apart(&get().method("POST")), 405);
    let html = get().set("Accept", "text/html");
    assert_response!(scene.ask_apart(&html), 406, error = -32600);
    assert_eq!(scene.ask_apart(&get().http10()).status, 406);
    assert_eq!(scene.engine.sessions(), 1);
    assert_eq!(scene.received(old.stream), b"");
}

#[test]
fn a_deferred_call_speaks_and_answers_on_the_stream() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    let client = scene.connect();
    let params = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": "p" } });
    acknowledged(&scene.ask(client, &old.post(message(7, "tools/call", params))));
    let mut call = scene.take_call();
    let quick = old.ask(&mut scene, 8, "ping", json!({}));
    assert_eq!(quick["id"], 8, "others are not held up");
    call.progress(1.0);
    let _ = call.responder.log(LogLevel::Error, None, &"loud");
    scene.settle();
    let blocks = scene.blocks(old.stream);
    assert_eq!(blocks[0].data()["params"]["progressToken"], "p");
    assert_eq!(blocks[1].data()["params"]["data"], "loud");
    scene.hang_up(client);
    call.finish("done");
    scene.settle();
    let answer = old.heard(&mut scene);
    assert_eq!((&answer["id"], text(&answer)), (&json!(7), "done"));
    assert_eq!(scene.engine.exchanges(), 1, "the stream is still there");
}

#[test]
fn what_a_direct_handler_says_comes_before_its_answer() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    let level = old.ask(&mut scene, 1, "logging/setLevel", json!({ "level": "debug" }));
    assert_eq!(level["result"], json!({}));
    for tool in ["steps", "must_stream"] {
        let params = json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": 1 } });
        old.tell(&mut scene, message(7, "tools/call", params));
        let blocks = scene.blocks(old.stream);
        let methods: Vec<&str> =
            blocks.iter().filter_map(|block| block.data()["method"].as_str()).collect();
        let (progress, log) = ("notifications/progress", "notifications/message");
        assert_eq!(methods, [progress, progress, progress, log, log]);
        assert_eq!(blocks[5].data()["id"], 7);
    }
}

#[test]
fn a_call_is_cancelled_without_an_answer() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    acknowledged(&scene.ask_apart(&old.call(7, "slow", json!({}))));
    let call = scene.take_call();
    let params = json!({ "requestId": 7 });
    old.tell(&mut scene, notification("notifications/cancelled", params));
    assert!(call.responder.is_cancelled());
    call.finish("too late");
    scene.settle();
    assert_eq!(scene.received(old.stream), b"");
    assert_eq!(scene.engine.exchanges(), 1);
}

#[test]
fn d6_a_session_is_looked_up_before_anything_else_and_a_foreign_one_does_not_exist() {
    let mut scene = Scene::tuned(with_users);
    let alice = |request: Request| request.field("User", "alice");
    let bob = |request: Request| request.field("User", "bob");
    let old = Old::open_with(&mut scene, &alice(get()));
    let at = |target: &str| Request::post("{").target(target).set("Content-Type", "text/plain");
    let unknown = at(&format!("/messages?sessionId={}", "0".repeat(32)));
    let expected = scene.ask_apart(&alice(unknown));
    assert_response!(expected, 404, error = -32600, id = none);
    assert_eq!(scene.ask_apart(&bob(at(&old.address))), expected, "word for word");
    assert_eq!(scene.ask_apart(&alice(at("/messages?sessionId="))), expected);
    for target in ["/messages", "/messages?sessionid=x", "/messages?sessionId=a&sessionId=b"] {
        assert_response!(scene.ask_apart(&alice(at(target))), 400, error = -32600);
    }
    assert_response!(scene.ask_apart(&old.post("{}")), 401);
    assert_response!(scene.ask_apart(&get()), 401);
    // Its body is never read.
    let client = scene.connect();
    scene.send(client, bob(old.post("x".repeat(1000))).head());
    assert_eq!(scene.response(client), expected);
    acknowledged(&scene.ask_apart(&alice(old.post(message(1, "ping", json!({}))))));
    assert_eq!(old.heard(&mut scene)["id"], 1);
}

#[test]
fn a_session_of_one_transport_is_worth_nothing_on_the_other() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2025-11-25");
    let client = scene.connect();
    let streamable = scene.initialize(client, "2025-11-25");
    let borrowed = Session::new(old.session(), "2025-11-25");
    for request in [
        borrowed.request(1, "ping", json!({})),
        borrowed.listen(),
        borrowed.delete(),
        Request::initialize("2025-11-25").field("Mcp-Session-Id", old.session()),
    ] {
        assert_response!(scene.ask(client, &request), 404, error = -32600);
    }
    let target = format!("/messages?sessionId={}", streamable.id);
    let request = Request::post(message(1, "ping", json!({}))).target(&target);
    assert_response!(scene.ask(client, &request), 404, error = -32600);
    assert_eq!(old.ask(&mut scene, 1, "ping", json!({}))["id"], 1);
}

#[test]
fn a_session_lives_as_long_as_its_stream_and_its_calls_end_with_it() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    acknowledged(&scene.ask_apart(&old.call(7, "slow", json!({}))));
    let call = scene.take_call();
    scene.advance(seconds(3600));
    assert!(scene.blocks(old.stream).iter().all(Block::is_comment), "it is only kept alive");
    assert_eq!(old.ask(&mut scene, 8, "ping", json!({}))["id"], 8);
    scene.cut(old.stream);
    assert!(call.responder.is_cancelled(), "nobody can be answered any more");
    assert_response!(scene.ask_apart(&old.post(message(9, "ping", json!({})))), 404);
    call.finish("too late");
    scene.settle();
    assert_eq!((scene.engine.sessions(), scene.engine.exchanges()), (0, 0));
}

#[test]
fn b067_a_thousand_streams_that_are_left_at_once_leave_nothing() {
    let mut scene = Scene::new();
    for _ in 0..1000 {
        let stream = scene.connect();
        scene.send(stream, get().bytes());
        scene.take_received(stream);
        scene.cut(stream);
    }
    assert_eq!((scene.engine.sessions(), scene.engine.exchanges()), (0, 0));
    assert_eq!(scene.engine.connections(), 0);
}

#[test]
fn b099_equal_ids_of_two_clients_are_two_calls() {
    let mut scene = Scene::new();
    let first = Old::ready(&mut scene, "2024-11-05");
    let second = Old::ready(&mut scene, "2024-11-05");
    let client = scene.connect();
    for old in [&first, &second] {
        acknowledged(&scene.ask(client, &old.call(1, "slow", json!({}))));
    }
    let (one, two) = (scene.take_call(), scene.take_call());
    two.finish("second");
    scene.settle();
    assert_eq!(scene.received(first.stream), b"");
    assert_eq!(text(&second.heard(&mut scene)), "second");
    scene.cut(first.stream);
    one.finish("first");
    scene.settle();
    assert_eq!(scene.received(second.stream), b"");
    assert_eq!(text(&call_echo(&mut scene, &second)), "{}");
}

#[track_caller]
fn call_echo(scene: &mut Scene, old: &Old) -> Value {
    old.ask(scene, 2, "tools/call", json!({ "name": "echo", "arguments": {} }))
}

#[test]
fn b155_both_paths_are_protected_like_the_endpoint_and_share_its_tools() {
    let mut scene = Scene::tuned(with_users);
    let alice = |request: Request| request.field("User", "alice");
    let old = Old::open_with(&mut scene, &alice(get()));
    let ping = || alice(old.post(message(1, "ping", json!({}))));
    for request in [alice(get()), ping()] {
        for origin in ["http://evil.example", "null"] {
            let evil = request.clone().field("Origin", origin);
            assert_response!(scene.ask_apart(&evil), 403, error = -32600);
        }
        let rebound = request.clone().set("Host", "evil.example");
        assert_response!(scene.ask_apart(&rebound), 403, error = -32600);
    }
    let page = ping().field("Origin", "http://localhost:3000");
    let response = scene.ask_apart(&page);
    acknowledged(&response);
    let shown = response.field("access-control-allow-origin");
    assert_eq!(shown, Some("http://localhost:3000"));
    assert_eq!(old.heard(&mut scene)["id"], 1);
    for (target, methods) in [("/sse", "GET, OPTIONS"), ("/messages", "OPTIONS, POST")] {
        let preflight = Request::new("OPTIONS", target).field("Origin", "http://localhost");
        let response = scene.ask_apart(&preflight);
        assert_eq!(response.field("access-control-allow-methods"), Some(methods), "{response:?}");
    }
    assert_eq!(scene.engine.sessions(), 1);
}

#[test]
fn a_deferred_call_leaves_the_fields_of_its_post_to_its_post() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    let page = old.call(7, "slow", json!({})).field("Origin", "http://localhost:3000");
    let response = scene.ask_apart(&page);
    acknowledged(&response);
    assert!(response.field("access-control-allow-origin").is_some(), "{response:?}");
    scene.take_call().finish("done");
    scene.settle();
    assert_eq!(text(&old.heard(&mut scene)), "done");
}

#[test]
fn b154_the_address_is_one_behind_the_public_url() {
    let mut scene = Scene::tuned(|server| {
        server.public_url("https://p.example/app/").legacy_paths("/old/sse/", "/old/say")
    });
    let request = get().target("/old/sse").set("Host", "p.example");
    let old = Old::open_with(&mut scene, &request);
    let path = old.address.strip_prefix("/app").expect("where its clients see the server");
    assert!(path.starts_with("/old/say?sessionId="), "{path}");
    let request = old.post(message(1, "ping", json!({}))).target(path);
    acknowledged(&scene.ask_apart(&request));
    assert_eq!(old.heard(&mut scene)["id"], 1);
    assert_response!(scene.ask_apart(&get()), 404);
}

#[test]
fn the_paths_are_there_where_the_revision_and_sessions_are_unless_switched_off() {
    let without: [fn(ServerBuilder) -> ServerBuilder; 4] = [
        ServerBuilder::without_legacy,
        ServerBuilder::stateless,
        |server| server.versions([Version::V2025_11_25, Version::V2026_07_28]),
        |server| server.path("/sse"),
    ];
    for tune in without {
        let mut scene = Scene::tuned(tune);
        let request = Request::post("{}").target("/messages?sessionId=x");
        assert_response!(scene.ask_apart(&request), 404);
        assert!(scene.ask_apart(&get()).status >= 400);
    }
    for (stream, messages) in [("/mcp", "/m"), ("/s", "/rpc"), ("/s", "/s/"), ("s", "/m")] {
        let builder = Server::builder("s", "1").legacy_paths(stream, messages);
        let built = builder.build_engine::<()>();
        assert!(matches!(built, Err(BuildError::Invalid { .. })), "{stream} {messages}");
    }
}

#[test]
fn batches_are_answered_in_one_message_where_the_revision_has_them() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2025-03-26");
    let items = [
        message(1, "ping", json!({})),
        message(2, "tools/call", json!({ "name": "slow", "arguments": {} })),
        notification("notifications/initialized", json!({})),
    ];
    old.tell(&mut scene, format!("[{}]", items.join(",")));
    assert_eq!(scene.received(old.stream), b"");
    scene.take_call().finish("done");
    scene.settle();
    let answers = old.heard(&mut scene);
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(1), &json!(2)), "{answers}");
    old.tell(&mut scene, format!("[{}]", items[0]));
    assert_eq!(old.heard(&mut scene)[0]["id"], 1);
    old.tell(&mut scene, format!("[{}]", items[2]));
    assert_response!(scene.ask_apart(&old.post("[]")), 400, error = -32600);
    let with_handshake = format!("[{}]", message(3, "initialize", handshake("2025-03-26")));
    assert_response!(scene.ask_apart(&old.post(with_handshake)), 400, error = -32600);
    let later = Old::ready(&mut scene, "2025-06-18");
    let request = later.post(format!("[{}]", items[0]));
    assert_response!(scene.ask_apart(&request), 400, error = -32600);
    assert_eq!(scene.received(old.stream), b"");
}

#[test]
fn changes_and_updates_are_told_on_the_stream() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    let followed = json!({ "uri": "file:///a.txt" });
    assert_eq!(old.ask(&mut scene, 1, "resources/subscribe", followed)["result"], json!({}));
    let handle = ServerHandle::of(&scene.engine);
    handle.resource_updated("file:///a.txt");
    handle.resource_updated("file:///b.txt");
    scene.settle();
    scene.advance(seconds(1));
    assert_eq!(old.heard(&mut scene)["params"]["uri"], "file:///a.txt");
    handle.tools_changed();
    scene.settle();
    scene.advance(seconds(1));
    assert_eq!(old.heard(&mut scene)["method"], "notifications/tools/list_changed");
}

/// Greets by a name it asks for.
fn greet(call: &mut ToolCall<'_>) -> Result<Reply<CallToolResult>, CallError> {
    use waterwheel::{FormSchema, InputRequest, TextField};
    let answer = call.answers().elicited("who");
    match answer.and_then(|answer| answer.content::<Value>()) {
        Some(content) => {
            Ok(CallToolResult::text(content["name"].as_str().unwrap_or("nobody")).into())
        }
        None => {
            let form = FormSchema::new().field("name", TextField::new());
            Ok(NeedInput::new().ask("who", InputRequest::elicit("Who?", form)).into())
        }
    }
}

#[test]
fn a_call_asks_its_user_on_the_stream() {
    let mut scene = Scene::tuned(|server| server.tool(Tool::new("greet"), greet));
    let old = Old::ready(&mut scene, "2025-06-18");
    acknowledged(&scene.ask_apart(&old.call(7, "greet", json!({}))));
    let asked = old.heard(&mut scene);
    assert_eq!(asked["method"], "elicitation/create");
    let result = json!({ "action": "accept", "content": { "name": "Ada" } });
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string();
    let stranger = Old::ready(&mut scene, "2025-06-18");
    stranger.tell(&mut scene, answer.clone());
    assert_eq!(scene.received(old.stream), b"", "an answer of somebody else is none");
    old.tell(&mut scene, answer);
    assert_eq!(text(&old.heard(&mut scene)), "Ada");

    acknowledged(&scene.ask_apart(&old.call(8, "greet", json!({}))));
    scene.blocks(old.stream);
    scene.cut(old.stream);
    assert_eq!((scene.engine.asks(), scene.engine.exchanges()), (0, 1));
}

#[test]
fn a_reader_that_is_too_slow_is_cut_off_and_its_session_is_over() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    acknowledged(&scene.ask_apart(&old.call(7, "slow", json!({}))));
    let mut call = scene.take_call();
    scene.read_at_most(old.stream, 0);
    let mut flowing = waterwheel::Flowing::Freely;
    for _ in 0..8 {
        assert!(scene.is_open(old.stream));
        flowing = call.responder.log(LogLevel::Error, None, &"x".repeat(128 * 1024));
        scene.settle();
    }
    assert_eq!(flowing, waterwheel::Flowing::Slow);
    assert!(scene.is_closed(old.stream) && call.responder.is_cancelled());
    assert_response!(scene.ask_apart(&old.post(message(9, "ping", json!({})))), 404);
    scene.take_received(old.stream);
}

#[test]
fn answers_may_be_large_but_do_not_pile_up_without_end() {
    let mut scene = Scene::new();
    let old = Old::ready(&mut scene, "2024-11-05");
    let large = old.call(7, "echo", json!({ "a": "x".repeat(4 << 20) }));
    scene.read_at_most(old.stream, 64 * 1024);
    acknowledged(&scene.ask_apart(&large));
    assert_eq!(scene.blocks(old.stream).len(), 1);
    scene.read_at_most(old.stream, 0);
    for _ in 0..4 {
        acknowledged(&scene.ask_apart(&large));
        assert!(scene.is_open(old.stream));
    }
    acknowledged(&scene.ask_apart(&large));
    assert!(scene.is_closed(old.stream));
    scene.take_received(old.stream);
}

#[test]
fn there_is_room_for_so_many_sessions_and_streams() {
    for limits in [
        Limits { sessions_max: 2, ..Limits::default() },
        Limits { exchanges_max: 2, ..Limits::default() },
    ] {
        let mut scene = Scene::tuned(|server| server.limits(limits));
        let first = Old::open(&mut scene);
        Old::open(&mut scene);
        let response = scene.ask_apart(&get());
        assert_response!(response, 503, error = -32600);
        assert!(response.field("retry-after").is_some());
        assert_eq!(scene.engine.sessions(), 2, "a refused stream leaves no session");
        scene.cut(first.stream);
        Old::open(&mut scene);
    }
    let limits = Limits { exchanges_max: 1, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let old = Old::ready(&mut scene, "2025-03-26");
    let params = json!({ "name": "slow", "arguments": {} });
    let answer = old.ask(&mut scene, 7, "tools/call", params);
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32603), &json!(7)));
    let batch = old.post(format!("[{}]", message(1, "ping", json!({}))));
    assert_response!(scene.ask_apart(&batch), 503, error = -32603);
}

#[test]
fn d22_a_shutdown_ends_the_stream_behind_the_answers_that_are_owed() {
    let mut scene = Scene::new();
    let idle = Old::ready(&mut scene, "2024-11-05");
    let busy = Old::ready(&mut scene, "2024-11-05");
    for id in [7, 8] {
        acknowledged(&scene.ask_apart(&busy.call(id, "slow", json!({}))));
    }
    let now = scene.now();
    scene.engine.shut_down(now);
    scene.settle();
    scene.end_of_stream(idle.stream);
    assert!(!scene.is_open(idle.stream) && scene.is_open(busy.stream));
    scene.take_call().finish("first");
    scene.settle();
    assert_eq!(text(&busy.heard(&mut scene)), "first");
    scene.take_call().finish("last");
    scene.settle();
    assert_eq!(text(&busy.heard(&mut scene)), "last");
    scene.end_of_stream(busy.stream);
    assert!(!scene.is_open(busy.stream));
    scene.hang_up(idle.stream);
    scene.hang_up(busy.stream);
    assert!(scene.engine.is_drained());
    assert_eq!((scene.engine.sessions(), scene.engine.exchanges()), (0, 0));
}
