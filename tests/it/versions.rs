//! Which revision a request is served under, and how a wrong one is refused.

use serde_json::json;
use waterwheel::Version;

use crate::support::{Request, Scene, assert_response, message};

/// The revisions with a handshake, newest first.
const CLASSIC: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[test]
fn inv75_b047_the_handshake_echoes_what_is_served_and_offers_its_newest_otherwise() {
    let mut scene = Scene::new();
    for version in CLASSIC {
        let response = scene.ask_apart(&Request::initialize(version));
        assert_response!(response, 200);
        assert_eq!(response.result()["protocolVersion"], version);
    }
    for strange in ["2099-01-01", "2026-07-28", "1.0", "", "2025-11-26"] {
        let response = scene.ask_apart(&Request::initialize(strange));
        assert_response!(response, 200);
        assert_eq!(response.result()["protocolVersion"], "2025-11-25", "{strange}");
    }
    let named = Request::initialize("2099-01-01").field("MCP-Protocol-Version", "2099-01-01");
    let response = scene.ask_apart(&named);
    assert_response!(response, 200);
    assert_eq!(response.result()["protocolVersion"], "2025-11-25");

    let mut old = Scene::tuned(|server| server.versions([Version::V2025_03_26]));
    let response = old.ask_apart(&Request::initialize("2025-11-25"));
    assert_eq!(response.result()["protocolVersion"], "2025-03-26");
}

#[test]
fn b048_a_handshake_that_names_two_versions_is_refused() {
    let mut scene = Scene::new();
    for (field, body) in [("2025-06-18", "2025-11-25"), ("2025-11-25", "2025-06-18")] {
        let request = Request::initialize(body).field("MCP-Protocol-Version", field);
        let response = scene.ask_apart(&request);
        assert_response!(response, 400, error = -32600, id = 1);
        assert_eq!(response.field("mcp-session-id"), None);
    }
    for broken in ["", " "] {
        let request = Request::initialize("2025-11-25").field("MCP-Protocol-Version", broken);
        assert_response!(scene.ask_apart(&request), 400);
    }
    assert_eq!(scene.engine.sessions(), 0);
}

#[test]
fn inv76_d7_a_version_that_contradicts_the_session_is_refused() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-06-18");
    let ping = session.request(1, "ping", json!({}));
    let delete = session.delete();
    let other = |request: &Request| request.clone().set("MCP-Protocol-Version", "2025-11-25");
    assert_response!(scene.ask(client, &other(&ping)), 400, error = -32600, id = 1);
    assert_response!(scene.ask(client, &other(&delete)), 400, error = -32600, id = none);
    for bad in ["2020-01-01", "", "nonsense"] {
        let with = |request: &Request| request.clone().set("MCP-Protocol-Version", bad);
        assert_response!(scene.ask(client, &with(&ping)), 400);
        assert_response!(scene.ask(client, &with(&delete)), 400);
    }
    let doubled = |request: &Request| request.clone().field("MCP-Protocol-Version", "2025-06-18");
    assert_response!(scene.ask(client, &doubled(&ping)), 400);
    assert_response!(scene.ask(client, &doubled(&delete)), 400);
    assert_eq!(scene.engine.sessions(), 1, "none of it ended the session");
    // Without the field the session's own version holds.
    let silent = session.call(1, "caller", json!({})).without("MCP-Protocol-Version");
    let result = scene.ask(client, &silent).result();
    assert_eq!(result["structuredContent"]["version"], "2025-06-18");
    assert_response!(scene.ask(client, &delete.without("MCP-Protocol-Version")), 204);
}

#[test]
fn a_classic_version_that_is_not_served_is_refused_with_those_that_are() {
    let mut scene = Scene::tuned(|server| {
        server.versions([Version::V2025_06_18, Version::V2025_11_25, Version::V2025_06_18])
    });
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let request = session.request("r", "ping", json!({}));
    let response = scene.ask(client, &request.set("MCP-Protocol-Version", "2025-03-26"));
    assert_response!(response, 400, error = -32022, id = "r");
    let data = &response.error()["data"];
    assert_eq!(data["supported"], json!(["2025-11-25", "2025-06-18"]), "newest first, each once");
    assert_eq!(data["requested"], "2025-03-26");
}

#[test]
fn b050_inv101_an_unserved_modern_version_is_refused_with_what_is_served() {
    let mut scene = Scene::new();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2099-01-01" });
    let request = Request::modern("f", "tools/list", json!({ "_meta": meta }))
        .set("MCP-Protocol-Version", "2099-01-01");
    let response = scene.ask_apart(&request);
    assert_response!(response, 400, error = -32022, id = "f");
    let data = &response.error()["data"];
    assert_eq!(data["requested"], "2099-01-01");
    let mut expected = vec!["2026-07-28"];
    expected.extend(CLASSIC);
    assert_eq!(data["supported"], json!(expected));
}

#[test]
fn b051_d8_version_field_and_meta_must_both_be_there_and_agree() {
    let mut scene = Scene::new();
    let modern = Request::modern(1, "tools/list", json!({}));
    let older = json!({ "io.modelcontextprotocol/protocolVersion": "2025-11-25" });
    let disagreeing = Request::modern(1, "tools/list", json!({ "_meta": older }));
    assert_response!(scene.ask_apart(&disagreeing), 400, error = -32020, id = 1);
    let without_meta = Request::post(message(1, "tools/list", json!({}))).mirror("tools/list");
    assert_response!(scene.ask_apart(&without_meta), 400, error = -32602, id = 1);
    let empty_meta = json!({ "_meta": {} });
    let without_meta = Request::post(message(1, "tools/list", empty_meta)).mirror("tools/list");
    assert_response!(scene.ask_apart(&without_meta), 400, error = -32602, id = 1);
    let without_field = modern.clone().without("MCP-Protocol-Version");
    assert_response!(scene.ask_apart(&without_field), 400, error = -32020, id = 1);
    let doubled = modern.clone().field("MCP-Protocol-Version", "2026-07-28");
    assert_response!(scene.ask_apart(&doubled), 400, error = -32020, id = 1);
    let empty = modern.clone().set("MCP-Protocol-Version", "");
    assert_response!(scene.ask_apart(&empty), 400, error = -32020, id = 1);
    let padded = modern.set("MCP-Protocol-Version", "  2026-07-28\t");
    assert_response!(scene.ask_apart(&padded), 200);
}

#[test]
fn b060_every_request_is_judged_on_its_own() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let discover = Request::modern(1, "server/discover", json!({}));
    let unserved = json!({ "io.modelcontextprotocol/protocolVersion": "2099-01-01" });
    let failing = Request::modern(1, "server/discover", json!({ "_meta": unserved }))
        .set("MCP-Protocol-Version", "2099-01-01");
    assert_response!(scene.ask(client, &failing), 400, error = -32022);
    assert_response!(scene.ask(client, &discover), 200);
    let session = scene.initialize(client, "2025-11-25");
    let listed = scene.ask(client, &session.request(2, "tools/list", json!({}))).result();
    assert_eq!(listed.get("resultType"), None);
    let listed = scene.ask(client, &Request::modern(3, "tools/list", json!({}))).result();
    assert_eq!(listed["resultType"], "complete");
    assert_response!(scene.ask(client, &failing), 400);
    assert_response!(scene.ask(client, &session.request(4, "ping", json!({}))), 200);
}

#[test]
fn inv105_without_the_modern_revision_nothing_modern_is_served_or_advertised() {
    let mut scene = Scene::tuned(|server| {
        server.versions(Version::ALL.into_iter().filter(|version| !version.is_modern()))
    });
    let response = scene.ask_apart(&Request::modern(1, "tools/list", json!({})));
    assert_response!(response, 400, error = -32022, id = 1);
    assert_eq!(response.error()["data"]["supported"], json!(CLASSIC));
    let discover = Request::post(message(1, "server/discover", json!({})));
    let result = scene.ask_apart(&discover).result();
    assert_eq!(result["supportedVersions"], json!(CLASSIC));
}

#[test]
fn without_a_classic_revision_nothing_classic_is_served() {
    let mut scene = Scene::tuned(|server| server.versions([Version::V2026_07_28]));
    let response = scene.ask_apart(&Request::initialize("2025-11-25"));
    let told = response.error().to_string();
    assert!(told.contains("2026-07-28"), "it says what it speaks instead: {told}");
    assert_eq!(response.field("mcp-session-id"), None);
    let ping = Request::post(message(1, "ping", json!({})));
    let response = scene.ask_apart(&ping.field("MCP-Protocol-Version", "2025-11-25"));
    assert_response!(response, 400, error = -32022, id = 1);
    assert_eq!(response.error()["data"]["supported"], json!(["2026-07-28"]));
    let response = scene.ask_apart(&Request::new("DELETE", "/mcp"));
    assert_response!(response, 405);
    assert_eq!(response.field("allow"), Some("OPTIONS, POST"));
}

#[test]
fn each_session_is_spoken_to_in_its_own_revision() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for (version, knows_structure) in [("2025-03-26", false), ("2025-06-18", true)] {
        let session = scene.initialize(client, version);
        let arguments = json!({ "how": "right" });
        let result = scene.ask(client, &session.call(1, "typed", arguments)).result();
        assert_eq!(result.get("structuredContent").is_some(), knows_structure, "{version}");
        let tools = scene.ask(client, &session.request(2, "tools/list", json!({}))).result();
        let tools = tools["tools"].as_array().expect("a list").clone();
        let typed = tools.iter().find(|tool| tool["name"] == "typed").expect("it is listed");
        assert_eq!(typed.get("outputSchema").is_some(), knows_structure, "{version}");
    }
}
