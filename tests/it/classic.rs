//! Revisions up to 2025-11-25: the handshake, methods, and how errors are told.

use serde_json::json;
use waterwheel::mcp::model::{Icon, Implementation};

use crate::support::{Request, Scene, assert_response, message};

#[test]
fn the_handshake_says_who_the_server_is_and_what_it_offers() {
    let mut scene = Scene::new();
    let result = scene.ask_apart(&Request::initialize("2025-11-25")).result();
    assert_eq!(result["serverInfo"], json!({ "name": "fixture", "version": "1.2.3" }));
    assert_eq!(result["instructions"], "Call echo.");
    assert_eq!(result["protocolVersion"], "2025-11-25");
    for capability in ["tools", "resources", "prompts", "completions", "logging"] {
        assert!(result["capabilities"][capability].is_object(), "{capability}");
    }
    let bare = waterwheel::Server::builder("bare", "1");
    let mut scene = Scene::of(bare, Default::default());
    let result = scene.ask_apart(&Request::initialize("2025-11-25")).result();
    assert_eq!(result["capabilities"], json!({ "logging": {} }));
    assert_eq!(result.get("instructions"), None);
}

#[test]
fn what_a_revision_does_not_know_is_left_out_of_its_handshake() {
    let mut scene = Scene::tuned(|server| {
        let info = Implementation::new("fixture", "1")
            .title("Fixture")
            .description("A fixture")
            .website_url("https://example.com")
            .icon(Icon::new("data:,"));
        server.implementation(info)
    });
    for (version, title, icons) in [
        ("2024-11-05", false, false),
        ("2025-03-26", false, false),
        ("2025-06-18", true, false),
        ("2025-11-25", true, true),
    ] {
        let result = scene.ask_apart(&Request::initialize(version)).result();
        let info = &result["serverInfo"];
        assert_eq!(info.get("title").is_some(), title, "{version}");
        assert_eq!(info.get("icons").is_some(), icons, "{version}");
        let completions = result["capabilities"].get("completions");
        assert_eq!(completions.is_some(), version != "2024-11-05", "{version}");
    }
}

#[test]
fn b057_unknown_methods_are_200_with_an_error_and_ping_is_served() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = scene.initialize(client, version);
        let ping = session.request("p", "ping", json!({}));
        let expected = json!({ "jsonrpc": "2.0", "id": "p", "result": {} });
        assert_eq!(scene.ask(client, &ping).message(), expected);
        for method in ["nope/x", "subscriptions/listen", "tasks/get", "PING"] {
            let response = scene.ask(client, &session.request(2, method, json!({})));
            assert_response!(response, 200, error = -32601, id = 2);
        }
        // Without parameters at all.
        let bare = session.post(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
        assert_response!(scene.ask(client, &bare), 200);
    }
}

#[test]
fn errors_of_calls_are_told_with_200() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for (method, params, code) in [
        ("tools/call", json!({ "name": "nope" }), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({ "name": "refuses" }), -32050),
        ("prompts/get", json!({ "name": "nope" }), -32602),
        ("resources/read", json!({}), -32602),
        ("completion/complete", json!({}), -32602),
        ("tools/list", json!({ "cursor": "nope" }), -32602),
    ] {
        let response = scene.ask(client, &session.request("e", method, params));
        assert_response!(response, 200, error = code, id = "e");
    }
}

#[test]
fn b050_b064_a_refused_classic_request_names_no_credentials_scheme() {
    let mut scene = Scene::new();
    let unknown = Request::post(message(1, "tools/list", json!({})))
        .field("Mcp-Session-Id", "00000000-dead")
        .field("Authorization", "Bearer good");
    let response = scene.ask_apart(&unknown);
    assert_response!(response, 404);
    assert_eq!(response.field("www-authenticate"), None, "the session is stale, not the token");
}

#[test]
fn two_sessions_do_not_hear_each_other() {
    let mut scene = Scene::new();
    let (one, two) = (scene.connect(), scene.connect());
    let first = scene.initialize(one, "2025-11-25");
    let second = scene.initialize(two, "2025-06-18");
    assert_ne!(first.id, second.id);
    scene.send(one, first.call(1, "slow", json!({})).bytes());
    scene.send(two, second.call(1, "slow", json!({})).bytes());
    let (mine, theirs) = (scene.take_call(), scene.take_call());
    theirs.finish("theirs");
    scene.settle();
    assert_eq!(scene.received(one), b"");
    assert_eq!(scene.response(two).text(), "theirs");
    mine.finish("mine");
    scene.settle();
    assert_eq!(scene.response(one).text(), "mine");
}
