//! Revision 2026-07-28: every request stands alone and repeats itself in its fields.

use serde_json::{Value, json};
use waterwheel::mcp::designation::{decode_value, encode_value};
use waterwheel::{CacheHint, CacheScope};

use crate::support::{Request, Scene, assert_response, message, notification};

/// A request whose `_meta` is exactly this.
fn with_meta(method: &str, meta: Value) -> Request {
    Request::post(message(1, method, json!({ "_meta": meta }))).mirror(method)
}

/// A call of the tool with designated arguments, under these fields.
fn region(arguments: Value, fields: &[(&str, &str)]) -> Request {
    let request = Request::modern_call(1, "region", arguments);
    fields.iter().fold(request, |request, (name, value)| request.field(name, value))
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[test]
fn b058_inv100_capabilities_must_be_declared_and_may_be_empty() {
    let mut scene = Scene::new();
    let absent = with_meta("tools/list", json!({ VERSION: "2026-07-28" }));
    assert_response!(scene.ask_apart(&absent), 400, error = -32602, id = 1);
    for (capabilities, status) in [
        (json!({}), 200),
        (json!({ "elicitation": {} }), 200),
        (json!(null), 400),
        (json!([]), 400),
        (json!(true), 400),
        (json!("{}"), 400),
    ] {
        let meta = json!({ VERSION: "2026-07-28", CAPABILITIES: capabilities });
        assert_response!(scene.ask_apart(&with_meta("tools/list", meta)), status);
    }
    let no_version = with_meta("tools/list", json!({ CAPABILITIES: {} }));
    assert_response!(scene.ask_apart(&no_version), 400, error = -32602, id = 1);
    let not_text = with_meta("tools/list", json!({ VERSION: 20260728, CAPABILITIES: {} }));
    assert_response!(scene.ask_apart(&not_text), 400, error = -32602, id = 1);
}

#[test]
fn inv109_only_an_object_or_true_declares_a_capability() {
    let mut scene = Scene::new();
    for (value, declares) in [
        (json!({}), true),
        (json!(true), true),
        (json!("false"), false),
        (json!("no"), false),
        (json!(1), false),
        (json!([]), false),
        (json!(false), false),
        (json!(null), false),
    ] {
        let meta = json!({ CAPABILITIES: { "elicitation": value } });
        let params = json!({ "name": "caller", "_meta": meta });
        let result = scene.ask_apart(&Request::modern(1, "tools/call", params)).result();
        assert_eq!(result["structuredContent"]["elicits"], declares, "{value}");
    }
}

#[test]
fn b052_inv99_a_field_that_disagrees_with_the_body_is_refused_and_nothing_runs() {
    let mut scene = Scene::new();
    let call = Request::modern_call("c", "echo", json!({}));
    for request in [
        call.clone().set("Mcp-Name", "safe"),
        call.clone().set("Mcp-Name", "ECHO"),
        call.clone().without("Mcp-Name"),
        call.clone().field("Mcp-Name", "echo"),
        call.clone().set("Mcp-Method", "tools/list"),
        call.clone().set("Mcp-Method", "TOOLS/CALL"),
        call.clone().without("Mcp-Method"),
        call.clone().field("Mcp-Method", "tools/call"),
        call.clone().set("Mcp-Method", ""),
        call.clone().set("Mcp-Name", ""),
    ] {
        assert_response!(scene.ask_apart(&request), 400, error = -32020, id = "c");
    }
    assert_eq!(scene.held.runs(), 0);
    let spaced = call.without("Mcp-Name").field("MCP-NAME", "  echo\t");
    let spaced = spaced.without("Mcp-Method").field("mcp-method", " tools/call ");
    assert_response!(scene.ask_apart(&spaced), 200);
    // A name where the method has none to mirror disagrees with nothing.
    let extra = Request::modern(1, "tools/list", json!({})).field("Mcp-Name", "anything");
    assert_response!(scene.ask_apart(&extra), 200);
}

#[test]
fn b054_inv119_a_wrapped_name_is_unwrapped_once_and_strictly() {
    let mut scene = Scene::new();
    let params = json!({ "uri": "file:///δ.txt" });
    let read = Request::modern(1, "resources/read", params).without("Mcp-Name");
    let good = read.clone().field("Mcp-Name", "=?base64?ZmlsZTovLy/OtC50eHQ=?=");
    let result = scene.ask_apart(&good).result();
    assert_eq!(result["contents"][0]["text"], "Δ");
    for bad in [
        "=?base64?***?=",
        "=?base64??=",
        "=?base64?ZmlsZTovLy/OtC50eHQ?=",
        "=?BASE64?ZmlsZTovLy/OtC50eHQ=?=",
        "=?base64?ZmlsZTovLy9hLnR4dA==?=",
        "file:///d.txt",
    ] {
        let response = scene.ask_apart(&read.clone().field("Mcp-Name", bad));
        assert_response!(response, 400, error = -32020, id = 1);
    }
    // A raw field of bytes beyond ASCII is not what the specification lets a client send.
    let raw = read.field("Mcp-Name", "file:///δ.txt");
    assert_response!(scene.ask_apart(&raw), 400, error = -32020, id = 1);
}

#[test]
fn inv118_values_that_need_wrapping_survive_the_journey() {
    for value in
        ["plain", "", "Hello, 世界", " padded ", "a\nb", "tab\tinside", "=?base64?dGVzdA==?=", "é"]
    {
        let encoded = encode_value(value);
        assert!(encoded.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')), "{encoded}");
        assert_eq!(encoded.trim(), encoded);
        assert_eq!(decode_value(encoded.as_bytes()).as_deref(), Ok(value));
    }
}

#[test]
fn b056_designated_arguments_must_be_repeated_and_agree() {
    let mut scene = Scene::new();
    let both = json!({ "region": "us-west1", "n": 42 });
    for (arguments, fields, status) in [
        (both.clone(), &[][..], 400),
        (both.clone(), &[("Mcp-Param-Region", "us-west1")][..], 400),
        (both.clone(), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-N", "42")], 400),
        (both.clone(), &[("Mcp-Param-Region", "us-west1"), ("Mcp-Param-N", "42")], 200),
        (both.clone(), &[("mcp-param-REGION", "us-west1"), ("MCP-Param-n", "42.0")], 200),
        (both, &[("Mcp-Param-Region", "us-west1"), ("Mcp-Param-N", "43")], 400),
        (json!({}), &[], 200),
        (json!({}), &[("Mcp-Param-N", "42")], 400),
        (json!({ "n": null }), &[("Mcp-Param-N", "42")], 400),
        (json!({ "n": 1 }), &[("Mcp-Param-N", "1"), ("Mcp-Param-N", "1")], 400),
        (json!({ "n": 1 }), &[("Mcp-Param-N", "1"), ("Mcp-Param-Zzz", "1")], 200),
        (json!({ "n": 1 }), &[("Mcp-Param-N", "one")], 400),
        (json!({ "dry": true }), &[("Mcp-Param-Dry", "true")], 200),
        (json!({ "dry": true }), &[("Mcp-Param-Dry", "True")], 400),
        (json!({ "where": { "zone": "a" } }), &[("Mcp-Param-Zone", "a")], 200),
        (json!({ "where": { "zone": "a" } }), &[], 400),
        (json!({ "region": "δ" }), &[("Mcp-Param-Region", "=?base64?zrQ=?=")], 200),
        (json!({ "region": "" }), &[("Mcp-Param-Region", "")], 200),
    ] {
        let response = scene.ask_apart(&region(arguments.clone(), fields));
        assert_eq!(response.status, status, "{arguments} {fields:?}: {response:?}");
        if status == 400 {
            assert_response!(response, 400, error = -32020, id = 1);
        }
    }
    // Other tools designate nothing, and classic callers repeat nothing.
    let foreign = Request::modern_call(1, "echo", json!({ "region": "eu" }));
    assert_response!(scene.ask_apart(&foreign.field("Mcp-Param-Region", "us")), 200);
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let classic = session.call(1, "region", json!({ "region": "eu", "n": 1 }));
    assert_response!(scene.ask(client, &classic), 200);
}

#[test]
fn inv120_integers_compare_exactly_beyond_what_a_double_holds() {
    let mut scene = Scene::new();
    for (argument, field, status) in [
        ("9007199254740993", "9007199254740993", 200),
        ("9007199254740993", "9007199254740992", 400),
        ("9007199254740993", "9007199254740993.0", 200),
        ("18446744073709551615", "18446744073709551614", 400),
        ("-7", "-7", 200),
        ("-7", "7", 400),
        ("100", "1e2", 200),
    ] {
        let arguments: Value = serde_json::from_str(&format!(r#"{{"n":{argument}}}"#)).unwrap();
        let response = scene.ask_apart(&region(arguments, &[("Mcp-Param-N", field)]));
        assert_eq!(response.status, status, "{argument} {field}: {response:?}");
    }
}

#[test]
fn b057_inv102_inv106_methods_of_the_other_era_are_404() {
    let mut scene = Scene::new();
    for method in [
        "nope/x",
        "ping",
        "logging/setLevel",
        "initialize",
        "resources/subscribe",
        "resources/unsubscribe",
        "Tools/List",
        "",
    ] {
        let response = scene.ask_apart(&Request::modern("m", method, json!({})));
        assert_response!(response, 404, error = -32601, id = "m");
    }
}

#[test]
fn inv103_sessions_do_not_exist_and_offered_ones_are_ignored() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let modern = Request::modern_call(1, "caller", json!({}));
    for id in [session.id.as_str(), "nonsense", ""] {
        let request = modern.clone().field("Mcp-Session-Id", id).field("Last-Event-ID", "1:1");
        let response = scene.ask(client, &request);
        assert_eq!(response.result()["structuredContent"]["session"], json!(null));
        assert_eq!(response.field("mcp-session-id"), None);
    }
    assert_eq!(scene.engine.sessions(), 1);
}

#[test]
fn inv107_results_are_stamped_for_modern_callers_only() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let listed = scene.ask(client, &Request::modern(1, "tools/list", json!({}))).result();
    let called = scene.ask(client, &Request::modern_call(1, "echo", json!({}))).result();
    let deferred = scene.ask(client, &Request::modern_call(1, "prompt_answer", json!({}))).result();
    for result in [listed, called, deferred] {
        assert_eq!(result["resultType"], "complete");
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server, &json!({ "name": "fixture", "version": "1.2.3" }));
    }
    for request in [
        session.request(1, "tools/list", json!({})),
        session.call(1, "echo", json!({})),
        session.call(1, "prompt_answer", json!({})),
        session.request(1, "ping", json!({})),
    ] {
        let result = scene.ask(client, &request).result();
        for member in ["resultType", "_meta", "ttlMs", "cacheScope"] {
            assert_eq!(result.get(member), None, "{result}");
        }
    }
    let error = scene.ask(client, &Request::modern_call(1, "refuses", json!({})));
    assert_response!(error, 200, error = -32050, id = 1);
}

#[test]
fn b096_results_that_may_be_kept_say_for_how_long() {
    let hint = CacheHint { ttl_ms: 5000, scope: CacheScope::Public };
    let mut plain = Scene::new();
    let mut hinted = Scene::tuned(|server| {
        let limits = waterwheel::Limits { page_items: 2, ..Default::default() };
        server.cache(hint).limits(limits)
    });
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "file:///a.txt" })),
    ] {
        let request = Request::modern(1, method, params);
        let result = plain.ask_apart(&request).result();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        let result = hinted.ask_apart(&request).result();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(5000), &json!("public")));
    }
    let first = hinted.ask_apart(&Request::modern(1, "tools/list", json!({}))).result();
    let next = Request::modern(1, "tools/list", json!({ "cursor": first["nextCursor"] }));
    assert_eq!(hinted.ask_apart(&next).result()["cacheScope"], "public", "on every page");
    let prompt = json!({ "name": "greet", "arguments": { "who": "you" } });
    for request in
        [Request::modern_call(1, "echo", json!({})), Request::modern(1, "prompts/get", prompt)]
    {
        let result = hinted.ask_apart(&request).result();
        assert!(result.get("ttlMs").is_none() && result.get("cacheScope").is_none(), "{result}");
    }
    let missing = Request::modern(1, "resources/read", json!({ "uri": "file:///none" }));
    let error = hinted.ask_apart(&missing).error();
    assert!(error.get("ttlMs").is_none());
}

#[test]
fn discovery_says_what_the_server_speaks_and_offers_in_every_era() {
    let mut scene = Scene::new();
    let modern = scene.ask_apart(&Request::modern(1, "server/discover", json!({}))).result();
    assert_eq!(modern["supportedVersions"][0], "2026-07-28");
    assert_eq!(modern["supportedVersions"].as_array().map(Vec::len), Some(5));
    assert_eq!(modern["instructions"], "Call echo.");
    for capability in ["tools", "resources", "prompts", "completions", "logging"] {
        assert!(modern["capabilities"][capability].is_object(), "{capability}");
    }
    let classic = Request::post(message(1, "server/discover", json!({})));
    let classic = scene.ask_apart(&classic).result();
    assert_eq!(classic["supportedVersions"], modern["supportedVersions"]);
    assert_eq!(classic.get("resultType"), None);
    assert_eq!(scene.engine.sessions(), 0);
}

#[test]
fn notifications_are_accepted_with_or_without_mirrored_fields() {
    let mut scene = Scene::new();
    let note = notification("notifications/cancelled", json!({ "requestId": 1 }));
    let bare = Request::post(note.clone()).field("MCP-Protocol-Version", "2026-07-28");
    let mirrored = bare.clone().field("Mcp-Method", "notifications/cancelled");
    let odd = bare.clone().field("Mcp-Method", "something/else");
    for request in [bare, mirrored, odd] {
        let response = scene.ask_apart(&request);
        assert_response!(response, 202);
        assert!(response.body.is_empty());
    }
    let future = Request::post(note).field("MCP-Protocol-Version", "2099-01-01");
    assert_response!(scene.ask_apart(&future), 400, error = -32022, id = none);
}

#[test]
fn an_answer_from_the_client_has_no_place_in_this_era() {
    let mut scene = Scene::new();
    let answer = Request::post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let response = scene.ask_apart(&answer.mirror("x"));
    assert_eq!(response.status, 400, "{response:?}");
    assert!(response.error()["code"].is_i64());
}

#[test]
fn the_caller_and_its_meta_reach_the_handler() {
    let mut scene = Scene::new();
    let meta = json!({
        "io.modelcontextprotocol/clientInfo": { "name": "inspector", "version": "1" },
        "example.com/trace": "t-1",
    });
    let params = json!({ "name": "caller", "_meta": meta });
    let result = scene.ask_apart(&Request::modern(1, "tools/call", params)).result();
    let seen = &result["structuredContent"];
    assert_eq!((&seen["version"], &seen["modern"]), (&json!("2026-07-28"), &json!(true)));
    assert_eq!(seen["client"], "inspector");
    assert_eq!(seen["meta"]["example.com/trace"], "t-1");
}
