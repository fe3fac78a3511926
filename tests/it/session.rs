//! Sessions of the classic era: who gets one, who may use it, when it ends.

use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use serde_json::json;
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::mcp::model::{FormSchema, TextField};
use waterwheel::{
    AskError, CallError, CallToolResult, InputRequest, Limits, Principal, ServerBuilder,
    ServerHandle, Timeouts, Tool, ToolCall,
};

use crate::support::{Request, Scene, Session, assert_response, message, seconds};

/// The caller is whoever the field `User` says.
fn with_users(server: ServerBuilder) -> ServerBuilder {
    server.authenticate(|request| match request.field_str("user") {
        Some(name) => Verdict::Allow(Principal::new(name)),
        None => Verdict::Deny(Denial::unauthorized("who are you?")),
    })
}

/// Everything one can do with a session.
fn uses(session: &Session) -> [Request; 4] {
    [
        session.request(1, "tools/list", json!({})),
        session.notify("notifications/initialized", json!({})),
        session.post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        session.delete(),
    ]
}

#[test]
fn inv80_only_the_answer_to_initialize_names_the_session() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    assert_eq!(session.id.len(), 32);
    assert!(session.id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    for request in uses(&session) {
        assert_eq!(scene.ask(client, &request).field("mcp-session-id"), None);
    }
    let streamed = Request::initialize("2025-11-25").set("Accept", "text/event-stream");
    let response = scene.ask(client, &streamed);
    assert!(response.blocks.is_some() && response.field("mcp-session-id").is_some());
}

#[test]
fn inv79_a_failed_handshake_leaves_no_session() {
    let mut scene = Scene::new();
    for params in [
        json!({}),
        json!({ "protocolVersion": "2025-11-25" }),
        json!({ "protocolVersion": 5, "capabilities": {}, "clientInfo": { "name": "c" } }),
        json!({ "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }),
    ] {
        let response = scene.ask_apart(&Request::post(message(1, "initialize", params)));
        assert_response!(response, 200, error = -32602, id = 1);
        assert_eq!(response.field("mcp-session-id"), None);
    }
    assert_eq!(scene.engine.sessions(), 0);
}

#[test]
fn b063_inv81_inv84_a_session_is_needed_and_must_be_known() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let unknown = "0123456789abcdef0123456789abcdef";
    for id in ["00000000-dead", "", unknown, &unknown.to_uppercase()] {
        for request in uses(&Session::new(id, "2025-11-25")) {
            let response = scene.ask(client, &request);
            assert_eq!(response.status, 404, "{id:?}: {response:?}");
            assert_eq!(response.error()["code"], -32600);
            assert!(response.error()["message"].as_str().unwrap_or("").contains("initialize"));
        }
    }
    for request in uses(&Session::new("x", "2025-11-25")) {
        assert_response!(scene.ask(client, &request.without("Mcp-Session-Id")), 400);
    }
    let session = scene.initialize(client, "2025-11-25");
    for request in uses(&session) {
        let doubled = request.field("Mcp-Session-Id", &session.id);
        assert_response!(scene.ask(client, &doubled), 400, error = -32600);
    }
    assert_eq!(scene.engine.sessions(), 1);
}

#[test]
fn b072_inv83_a_session_is_deleted_once() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let other = scene.initialize(client, "2025-11-25");
    assert_response!(scene.ask(client, &session.delete()), 204);
    assert_response!(scene.ask(client, &session.delete()), 404, error = -32600, id = none);
    assert_response!(scene.ask(client, &session.request(1, "ping", json!({}))), 404);
    assert_response!(scene.ask(client, &session.delete().without("Mcp-Session-Id")), 400);
    assert_response!(scene.ask(client, &other.request(1, "ping", json!({}))), 200);
    let with_body = other.post("{}").method("DELETE");
    assert_response!(scene.ask(client, &with_body), 204);
    assert_eq!(scene.engine.sessions(), 0);
}

#[test]
fn b065_inv82_d5_a_session_of_somebody_else_does_not_exist() {
    let mut scene = Scene::tuned(with_users);
    let client = scene.connect();
    let alice = |request: Request| request.field("User", "alice");
    let bob = |request: Request| request.field("User", "bob");
    let session = scene.initialize_with(client, "2025-11-25", alice);
    let unknown = Session::new(&"0".repeat(32), "2025-11-25");
    for (mine, theirs) in uses(&unknown).into_iter().zip(uses(&session)) {
        let expected = scene.ask(client, &bob(mine));
        assert_eq!(expected.status, 404);
        assert_eq!(scene.ask(client, &bob(theirs)), expected, "word for word");
    }
    let again = Request::initialize("2025-11-25").field("Mcp-Session-Id", &session.id);
    assert_response!(scene.ask(client, &bob(again)), 404, error = -32600, id = 1);
    assert_eq!(scene.engine.sessions(), 1);
    assert_response!(scene.ask(client, &alice(session.request(1, "ping", json!({})))), 200);

    // What bob does is no activity of alice.
    let idle = Timeouts::default().session_idle;
    for _ in 0..4 {
        scene.advance(idle / 4);
        assert_response!(scene.ask_apart(&bob(session.request(1, "ping", json!({})))), 404);
    }
    scene.advance(seconds(20));
    let late = alice(session.request(1, "ping", json!({})));
    assert_response!(scene.ask_apart(&late), 404);
}

#[test]
fn a_known_session_on_initialize_mints_no_second_one_and_a_stale_one_is_ignored() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let again = Request::initialize("2025-11-25").field("Mcp-Session-Id", &session.id);
    let response = scene.ask(client, &again);
    assert_response!(response, 200);
    assert_eq!(response.field("mcp-session-id"), None);
    assert_eq!(scene.engine.sessions(), 1);
    for stale in [&"0".repeat(32), "nonsense", ""] {
        let request = Request::initialize("2025-11-25").field("Mcp-Session-Id", stale);
        let minted = scene.ask(client, &request).field("mcp-session-id").map(str::to_owned);
        assert!(minted.is_some_and(|id| id != *stale), "{stale}");
    }
}

#[test]
fn a_session_keeps_its_revision_whatever_a_second_handshake_asks_for() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let again = Request::initialize("2025-03-26").field("Mcp-Session-Id", &session.id);
    let result = scene.ask(client, &again).result();
    assert_eq!(result["protocolVersion"], "2025-11-25", "{result}");
    let ping = session.request(2, "ping", json!({}));
    assert_response!(scene.ask(client, &ping), 200);
    assert_response!(scene.ask(client, &ping.set("MCP-Protocol-Version", "2025-03-26")), 400);
}

#[test]
fn an_idle_session_ends_and_a_used_one_does_not() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let used = scene.initialize(client, "2025-11-25");
    let idle = scene.initialize(client, "2025-11-25");
    let ping = |session: &Session| session.request(1, "ping", json!({}));
    assert_response!(scene.ask(client, &ping(&idle)), 200);
    for _ in 0..10 {
        assert_response!(scene.ask(client, &ping(&used)), 200);
        scene.advance(seconds(60));
    }
    assert_response!(scene.ask(client, &ping(&used)), 200);
    assert_response!(scene.ask(client, &ping(&idle)), 404);
    assert_eq!(scene.engine.sessions(), 1);
}

#[test]
fn a_deleted_session_takes_its_running_calls_with_it() {
    let mut scene = Scene::new();
    let (client, gone) = (scene.connect(), scene.connect());
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(7, "slow", json!({})).bytes());
    let waited_for = scene.take_call();
    scene.send(gone, session.call(8, "slow", json!({})).bytes());
    let left_behind = scene.take_call();
    scene.cut(gone);
    scene.settle();
    assert!(!left_behind.responder.is_cancelled(), "a lost connection cancels nothing");
    assert_response!(scene.ask_apart(&session.delete()), 204);
    assert!(waited_for.responder.is_cancelled() && left_behind.responder.is_cancelled());
    assert_eq!(scene.response(client).blocks.map(|blocks| blocks.len()), Some(0));
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn a_session_with_a_call_running_is_not_idle() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let call = session.call(7, "slow", json!({})).set("Accept", "application/json");
    scene.send(client, call.bytes());
    let call = scene.take_call();
    scene.advance(seconds(1200));
    call.finish("at last");
    scene.settle();
    assert_eq!(scene.response(client).text(), "at last");
    assert_response!(scene.ask(client, &session.request(8, "ping", json!({}))), 200);
    scene.advance(seconds(600));
    assert_eq!(scene.engine.sessions(), 0);
}

#[test]
fn b067_probes_and_failed_handshakes_leave_nothing_behind() {
    let mut scene = Scene::new();
    for _ in 0..1000 {
        let client = scene.connect();
        scene.read_at_most(client, 0);
        scene.send(client, Request::initialize("2025-11-25").bytes());
        scene.cut(client);
        let failing = Request::post(message(1, "initialize", json!({})));
        assert_response!(scene.ask_apart(&failing), 200, error = -32602);
    }
    assert_eq!(scene.engine.sessions(), 1000);
    scene.advance(seconds(60));
    assert_eq!((scene.engine.sessions(), scene.engine.connections()), (0, 0));
}

#[test]
fn inv93_a_server_without_sessions_mints_none_and_ignores_what_is_offered() {
    let mut scene = Scene::tuned(|server| server.stateless());
    let client = scene.connect();
    let response = scene.ask(client, &Request::initialize("2025-11-25"));
    assert_response!(response, 200);
    assert_eq!(response.field("mcp-session-id"), None);
    for id in ["x", "", &"0".repeat(32)] {
        let session = Session::new(id, "2025-11-25");
        let result = scene.ask(client, &session.call(1, "caller", json!({}))).result();
        assert_eq!(result["structuredContent"]["session"], json!(null));
        assert_response!(scene.ask(client, &session.delete()), 405);
    }
    let bare = Request::post(message(1, "ping", json!({})));
    assert_response!(scene.ask(client, &bare), 200);
    assert_eq!(scene.engine.sessions(), 0);
}

#[test]
fn the_number_of_sessions_is_limited() {
    let limits = Limits { sessions_max: 2, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let client = scene.connect();
    let first = scene.initialize(client, "2025-11-25");
    scene.initialize(client, "2025-11-25");
    let response = scene.ask(client, &Request::initialize("2025-11-25"));
    assert_response!(response, 503, error = -32603, id = 1);
    assert_eq!(response.field("mcp-session-id"), None);
    assert_response!(scene.ask(client, &first.delete()), 204);
    scene.initialize(client, "2025-11-25");
}

#[test]
fn a_handler_learns_what_the_session_settled() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "inspector", "version": "9" },
    });
    let response = scene.ask(client, &Request::post(message(1, "initialize", params)));
    let id = response.field("mcp-session-id").expect("a session").to_owned();
    let session = Session::new(&id, "2025-06-18");
    let result = scene.ask(client, &session.call(1, "caller", json!({}))).result();
    let seen = &result["structuredContent"];
    assert_eq!(seen["client"], "inspector");
    assert_eq!(seen["elicits"], true);
    assert_eq!(seen["session"], json!(id));
    assert_eq!(seen["principal"], json!(null));
}

#[test]
fn a_session_outlives_the_connections_it_is_used_from() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.cut(client);
    for _ in 0..3 {
        assert_response!(scene.ask_apart(&session.request(1, "ping", json!({}))), 200);
        scene.advance(Duration::from_secs(1));
    }
}

#[test]
fn b074_a_session_of_another_process_is_unknown_and_nothing_worse() {
    let (mut one, mut other) = (Scene::new(), Scene::new());
    let client = one.connect();
    let session = one.initialize(client, "2025-11-25");
    let stream = session.listen();
    for request in uses(&session).into_iter().chain([stream]) {
        assert_response!(other.ask_apart(&request), 404, error = -32600);
    }
    let again = other.connect();
    let session = other.initialize(again, "2025-11-25");
    assert_response!(other.ask(again, &session.request(1, "tools/list", json!({}))), 200);

    let stateless = || Scene::tuned(|server| server.stateless());
    let mut both = [stateless(), stateless()];
    for which in [0, 1, 0] {
        let request = session.request(1, "tools/list", json!({}));
        assert_response!(both[which].ask_apart(&request), 200);
    }
}

#[test]
fn inv97_a_session_that_expires_hears_of_nothing_and_whoever_asks_it_is_told_once() {
    let (found, finds) = std::sync::mpsc::channel();
    let whoami = move |call: &mut ToolCall<'_>| -> Result<CallToolResult, CallError> {
        found.send(call.session_id().unwrap()).unwrap();
        Ok(CallToolResult::text(""))
    };
    let mut scene = Scene::tuned(|server| server.tool(Tool::new("whoami"), whoami));
    let client = scene.connect();
    let able = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "c", "version": "0" },
    });
    let response = scene.ask(client, &Request::post(message(1, "initialize", able)));
    let session = Session::new(response.field("mcp-session-id").unwrap(), "2025-11-25");
    let followed = session.request(2, "resources/subscribe", json!({ "uri": "a:1" }));
    assert_response!(scene.ask(client, &followed), 200);
    assert_response!(scene.ask(client, &session.call(3, "whoami", json!({}))), 200);
    let id = finds.recv().unwrap();
    let handle = ServerHandle::of(&scene.engine);
    let (told, tells) = std::sync::mpsc::channel();
    scene.advance(seconds(250));
    let form = FormSchema::new().field("name", TextField::new());
    handle.ask(id, InputRequest::elicit("Are you there?", form), move |outcome| {
        told.send(matches!(outcome, Err(AskError::NoSession))).unwrap();
    });
    scene.settle();
    assert_eq!((scene.engine.asks(), tells.try_recv()), (1, Err(TryRecvError::Empty)));
    scene.advance(seconds(70));
    assert_eq!(scene.engine.sessions(), 0);
    assert_eq!((scene.engine.asks(), tells.try_recv()), (0, Ok(true)));
    assert_eq!(tells.try_recv(), Err(TryRecvError::Disconnected), "it is told once");
    handle.resource_updated("a:1");
    scene.settle();
    scene.advance(seconds(1));
    assert_response!(scene.ask_apart(&session.listen()), 404);
}
