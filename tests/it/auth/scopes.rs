//! What a caller was granted, and what it is told when that is not enough.

use serde_json::json;
use waterwheel::filter::bearer::{BearerAuth, TokenVerdict};
use waterwheel::filter::security::Verdict;
use waterwheel::{CallToolResult, Principal, Server, ServerBuilder, ServerHandle, Tool, ToolCall};

use super::{INTRO, bearing, challenge, list, mistake, protection};
use crate::support::{Request, Scene, assert_response, message};

/// A token is the list of its scopes, with a plus between them and dots for colons.
fn by_scopes(protection: BearerAuth) -> BearerAuth {
    protection.check(|token| {
        let scopes = token.as_str().replace('.', ":");
        let scopes = scopes.split('+');
        TokenVerdict::valid(Principal::new("alice").with_scopes(scopes))
    })
}

fn with_tools(server: ServerBuilder) -> ServerBuilder {
    let scopes = |call: &mut ToolCall<'_>| {
        assert_eq!(call.has_scope("none"), call.scopes().iter().any(|scope| scope == "none"));
        Ok(CallToolResult::text(call.scopes().join(" ")))
    };
    server
        .tool(Tool::new("scopes"), scopes)
        .tool(Tool::new("write").scopes(["notes:write"]), scopes)
        .tool(Tool::new("erase").scopes(["notes:write", "notes:erase"]), scopes)
}

fn scene(tune: impl FnOnce(BearerAuth) -> BearerAuth) -> Scene {
    let protection = by_scopes(tune(protection()));
    Scene::tuned(|server| with_tools(server.bearer_auth(protection)))
}

fn call(tool: &str, token: &str) -> Request {
    bearing(Request::modern_call(7, tool, json!({})), token)
}

fn insufficient(scopes: &str) -> String {
    let reason = "the token lacks a scope that this needs";
    format!(
        "{INTRO}, scope=\"{scopes}\", error=\"insufficient_scope\", error_description=\"{reason}\""
    )
}

#[test]
fn handlers_see_what_their_caller_was_granted() {
    let mut scene = scene(|protection| protection);
    assert_eq!(scene.ask_apart(&call("scopes", "a+none")).text(), "a none");
}

#[test]
fn required_scopes_are_told_with_every_challenge_and_needed_for_every_request() {
    let mut scene = scene(|protection| protection.required_scopes(["notes:read", "base"]));
    let client = scene.connect();
    let scopes = "scope=\"notes:read base\"";
    let response = scene.ask(client, &list());
    assert_response!(response, 401);
    assert_eq!(challenge(&response), format!("{INTRO}, {scopes}"));
    let response = scene.ask(client, &bearing(list(), "="));
    assert_response!(response, 401);
    assert!(challenge(&response).starts_with(&format!("{INTRO}, {scopes}, error=")));
    for token in ["notes.read", "base", "x", "Base+notes.read", "base+notes.rea"] {
        for request in [list(), Request::new("DELETE", "/mcp"), Request::new("GET", "/nowhere")] {
            let response = scene.ask(client, &bearing(request, token));
            assert_response!(response, 403, error = -32600, id = none);
            assert_eq!(challenge(&response), insufficient("notes:read base"));
            assert!(!response.closes());
        }
    }
    assert_response!(scene.ask(client, &bearing(list(), "base+notes.read")), 200);
}

#[test]
fn a_tool_that_needs_more_asks_for_all_of_it_before_its_handler_runs() {
    let mut scene = scene(|protection| protection.required_scopes(["base"]));
    let client = scene.connect();
    for (tool, token, needed) in [
        ("write", "base", Some("base notes:write")),
        ("write", "base+notes.writ", Some("base notes:write")),
        ("erase", "base", Some("base notes:write notes:erase")),
        ("erase", "base+notes.erase", Some("base notes:write notes:erase")),
        ("write", "base+notes.write", None),
        ("erase", "notes.erase+base+notes.write", None),
        ("scopes", "base", None),
    ] {
        let response = scene.ask(client, &call(tool, token));
        match needed {
            None => assert_response!(response, 200),
            Some(needed) => {
                assert_response!(response, 403, error = -32600, id = 7);
                assert_eq!(challenge(&response), insufficient(needed));
            }
        }
        assert!(!response.closes());
    }
}

#[test]
fn a_classic_caller_steps_up_within_its_session() {
    let mut scene = scene(|protection| protection);
    let client = scene.connect();
    let session = scene.initialize_with(client, "2025-11-25", |request| bearing(request, "base"));
    let write = session.call(2, "write", json!({}));
    let response = scene.ask(client, &bearing(write.clone(), "base"));
    assert_response!(response, 403, error = -32600, id = 2);
    assert_eq!(challenge(&response), insufficient("notes:write"));
    let response = scene.ask(client, &bearing(write, "base+notes.write"));
    assert_eq!(response.text(), "base notes:write");
}

#[test]
fn of_a_batch_with_a_call_that_needs_more_nothing_runs() {
    let mut scene = scene(|protection| protection);
    let client = scene.connect();
    let session = scene.initialize_with(client, "2025-03-26", |request| bearing(request, "base"));
    let part =
        |id: u32, tool: &str| message(id, "tools/call", json!({ "name": tool, "arguments": {} }));
    let batch = session.post(format!("[{},{}]", part(1, "echo"), part(2, "write")));
    let response = scene.ask(client, &bearing(batch.clone(), "base"));
    assert_response!(response, 403, error = -32600, id = none);
    assert_eq!(challenge(&response), insufficient("notes:write"));
    assert_eq!(scene.held.runs(), 0);
    let response = scene.ask(client, &bearing(batch, "notes.write"));
    assert_response!(response, 200);
    assert_eq!(scene.held.runs(), 1);
}

#[test]
fn a_method_needs_what_it_is_said_to_need() {
    let mut scene = scene(|protection| {
        protection
            .method_scopes("resources/read", ["files:read"])
            .method_scopes("tools/call", ["call"])
    });
    let read = Request::modern(7, "resources/read", json!({ "uri": "file:///a.txt" }));
    for (request, token, needed) in [
        (read.clone(), "call", Some("files:read")),
        (read, "files.read", None),
        (list(), "x", None),
        (Request::modern_call(7, "scopes", json!({})), "x", Some("call")),
        (Request::modern_call(7, "write", json!({})), "call", Some("call notes:write")),
        (Request::modern_call(7, "scopes", json!({})), "call", None),
    ] {
        let response = scene.ask_apart(&bearing(request, token));
        match needed {
            None => assert_response!(response, 200),
            Some(needed) => {
                assert_response!(response, 403, error = -32600, id = 7);
                assert_eq!(challenge(&response), insufficient(needed));
            }
        }
    }
}

#[test]
fn a_broader_scope_is_as_good_as_those_it_includes() {
    let mut scene = scene(|protection| {
        protection
            .required_scopes(["notes:read"])
            .scope_includes("admin", ["notes:write"])
            .scope_includes("notes:write", ["notes:read"])
    });
    for (tool, token, status) in [
        ("write", "admin", 200),
        ("write", "notes.write", 200),
        ("scopes", "notes.write", 200),
        ("write", "notes.read", 403),
        ("erase", "admin", 403),
        ("scopes", "files.write", 403),
    ] {
        assert_response!(scene.ask_apart(&call(tool, token)), status);
    }
    assert_eq!(scene.ask_apart(&call("scopes", "admin")).text(), "admin notes:write notes:read");
}

#[test]
fn a_tool_that_comes_later_needs_its_scopes_too() {
    let protection = by_scopes(protection());
    let mut scene = Scene::tuned(|server| server.bearer_auth(protection));
    let handle = ServerHandle::of(&scene.engine);
    let late = Tool::new("late").scopes(["later"]);
    let answer = |_: &mut ToolCall<'_>| Ok(CallToolResult::text("done"));
    handle.add_tool(late, answer).expect("it has no mistake");
    scene.settle();
    assert_response!(scene.ask_apart(&call("late", "x")), 403);
    assert_response!(scene.ask_apart(&call("late", "later")), 200);
    let bad = Tool::new("bad").scopes(["two words"]);
    assert!(handle.add_tool(bad, answer).is_err());
}

#[test]
fn scopes_do_not_need_bearer_tokens() {
    let mut scene = Scene::tuned(|server| {
        with_tools(server.authenticate(|request| {
            let scopes = request.field_str("scopes").unwrap_or_default().split(' ');
            Verdict::Allow(Principal::new("alice").with_scopes(scopes))
        }))
    });
    let write = Request::modern_call(7, "write", json!({}));
    let response = scene.ask_apart(&write);
    assert_response!(response, 403, error = -32600, id = 7);
    assert!(challenge(&response).starts_with("Bearer scope=\"notes:write\", error="));
    assert_response!(scene.ask_apart(&write.field("Scopes", "notes:write")), 200);
}

#[test]
fn whoever_is_nobody_is_asked_who_it_is() {
    let mut scene = Scene::tuned(with_tools);
    let response = scene.ask_apart(&Request::modern_call(7, "write", json!({})));
    assert_response!(response, 401, error = -32600, id = 7);
    assert_eq!(challenge(&response), "Bearer scope=\"notes:write\"");
}

#[test]
fn listings_do_not_tell_what_a_tool_needs() {
    let mut scene = scene(|protection| protection);
    let response = scene.ask_apart(&bearing(list(), "x"));
    assert!(!String::from_utf8_lossy(&response.body).contains("notes:"), "{response:?}");
}

#[test]
fn a_method_that_does_not_exist_is_a_mistake() {
    let described = by_scopes(protection().method_scopes("tools/lists", ["a"]));
    let mistake = mistake(Server::builder("s", "1").bearer_auth(described));
    assert!(mistake.contains("tools/lists"), "{mistake}");
}
