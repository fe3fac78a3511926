//! JSON-RPC over HTTP: what counts as a message, and under which id it is answered.

use serde_json::{Value, json};

use crate::support::{Request, Scene, assert_response, message};

#[test]
fn inv65_b027_what_is_no_message_is_a_400_without_an_id() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let ping = message(1, "ping", json!({}));
    for (body, code) in [
        ("", -32700),
        ("not json", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#, -32700),
        (&format!("{ping}{ping}"), -32700),
        (&format!("{ping} trailing"), -32700),
        ("5", -32600),
        ("null", -32600),
        (r#""text""#, -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0"}"#, -32600),
        (r#"{"jsonrpc":"1.0","method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
    ] {
        let response = scene.ask(client, &session.post(body));
        assert_response!(response, 400, error = code, id = none);
        assert!(!response.closes(), "the framing is whole: {body}");
    }
    let not_utf8 = session.post(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"[..]);
    assert_response!(scene.ask(client, &not_utf8), 400, error = -32700, id = none);
}

#[test]
fn d2_a_refusal_carries_the_id_wherever_one_could_be_read() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for (body, status, code, id) in [
        (r#"{"id":"x"}"#, 400, -32600, json!("x")),
        (r#"{"jsonrpc":"2.0","id":7}"#, 400, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, 400, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, 400, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"nope"}"#, 200, -32601, json!(7)),
    ] {
        let response = scene.ask(client, &session.post(body));
        assert_response!(response, status, error = code, id = id);
    }
    // The session and the version are refused under the request's own id too.
    let response = scene.ask(client, &Request::post(message("q", "ping", json!({}))));
    assert_response!(response, 400, error = -32600, id = "q");
    let unknown = session.request("q", "ping", json!({})).set("Mcp-Session-Id", "0");
    assert_response!(scene.ask(client, &unknown), 404, error = -32600, id = "q");
    let version = session.request("q", "ping", json!({})).set("MCP-Protocol-Version", "2020-01-01");
    assert_response!(scene.ask(client, &version), 400, error = -32022, id = "q");
}

#[test]
fn b023_ids_are_echoed_with_type_and_value() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for id in ["\"1\"", "1", "0", "-7", "\"req-abc\"", "\"\"", "9007199254740993", "\"\\u00e9\""] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let response = scene.ask(client, &session.post(body));
        let expected: Value = serde_json::from_str(id).expect("is JSON");
        assert_eq!(response.message(), json!({ "jsonrpc": "2.0", "id": expected, "result": {} }));
    }
    let text = String::from_utf8(
        scene
            .ask(
                client,
                &session.post(r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#),
            )
            .body,
    )
    .expect("text");
    assert!(text.contains(r#""id":9007199254740993,"#), "{text}");
}

#[test]
fn b023_inv44_a_number_and_its_text_are_two_calls() {
    let mut scene = Scene::new();
    let first = scene.connect();
    let session = scene.initialize(first, "2025-11-25");
    let second = scene.connect();
    scene.send(first, session.call(42, "slow", json!({})).bytes());
    scene.send(second, session.call("42", "slow", json!({})).bytes());
    let (number, text) = (scene.take_call(), scene.take_call());
    text.finish("text");
    number.finish("number");
    scene.settle();
    for (client, id, answer) in [(first, json!(42), "number"), (second, json!("42"), "text")] {
        let response = scene.response(client);
        assert_eq!(response.message()["id"], id);
        assert_eq!(response.text(), answer);
    }
}

#[test]
fn b026_inv67_notifications_are_accepted_in_silence() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for (method, params) in [
        ("notifications/initialized", json!({})),
        ("notifications/cancelled", json!({ "requestId": 99 })),
        ("notifications/cancelled", json!({})),
        ("notifications/cancelled", json!({ "requestId": { "not": "an id" } })),
        ("notifications/roots/list_changed", json!({})),
        ("notifications/nope", json!({ "name": 5, "_meta": 7 })),
        // Without an id even a call is a notification, which nobody may answer or run.
        ("tools/call", json!({ "name": "echo" })),
    ] {
        let response = scene.ask(client, &session.notify(method, params));
        assert_response!(response, 202);
        assert!(response.body.is_empty(), "{method}");
    }
    assert_eq!(scene.held.runs(), 0);
}

#[test]
fn b028_members_are_told_apart_by_case_and_must_not_come_twice() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let variants = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call",
        "params":{"Name":"b"},"PARAMS":{"name":"echo"}}"#;
    let response = scene.ask(client, &session.post(variants));
    assert!(response.result()["tools"].is_array());
    for doubled in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#,
    ] {
        assert_response!(scene.ask(client, &session.post(doubled)), 400, error = -32600, id = 1);
    }
    let ids = r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#;
    assert_response!(scene.ask(client, &session.post(ids)), 400, error = -32600, id = none);
    let names = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call",
        "params":{"name":"echo","name":"panics"}}"#;
    assert_response!(scene.ask(client, &session.post(names)), 200, error = -32602, id = 1);
    assert_eq!(scene.held.runs(), 0);
}

#[test]
fn b029_numbers_come_back_to_the_digit() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let arguments = r#"{"n":9007199254740993,"m":18446744073709551615,"z":-0,"t":1.10}"#;
    let call = |arguments: &str| {
        let params = format!(r#"{{"name":"echo","arguments":{arguments}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
    };
    assert_eq!(scene.ask(client, &session.post(call(arguments))).text(), arguments);
    // What no number can hold is an error or comes back as it is, but is never changed.
    let huge = r#"{"f":1e400}"#;
    let result = scene.ask(client, &session.post(call(huge))).result();
    assert!(result["isError"] == true || result["content"][0]["text"] == huge, "{result}");
    let added = session.post(call(r#"{"a":1e400,"b":1}"#).replace("echo", "add"));
    assert_eq!(scene.ask(client, &added).result()["isError"], true);
}

#[test]
fn b020_a_byte_order_mark_before_the_body_is_ignored() {
    let mut scene = Scene::new();
    let body = [b"\xef\xbb\xbf", message(1, "initialize", json!({})).as_bytes()].concat();
    let response = scene.ask_apart(&Request::post(body));
    assert_response!(response, 200, error = -32602, id = 1);
    assert!(response.body.starts_with(b"{"), "ours has none");
}

#[test]
fn b031_d12_a_call_that_goes_wrong_is_answered_under_its_id() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for tool in ["panics", "panics_late", "gives_up"] {
        let response = scene.ask(client, &session.call("x-1", tool, json!({})));
        assert_response!(response, 200, error = -32603, id = "x-1");
        let modern = scene.ask(client, &Request::modern_call("x-1", tool, json!({})));
        assert_eq!(modern.error()["code"], -32603);
        assert!(!modern.error()["message"].as_str().unwrap_or("").contains("expected by"));
    }
    // The loop goes on, and so does the connection.
    assert_eq!(scene.ask(client, &session.call(2, "echo", json!({}))).text(), "{}");
}

#[test]
fn b032_every_answer_has_either_a_result_or_an_error() {
    let mut bare = Scene::of(waterwheel::Server::builder("bare", "1"), Default::default());
    let mut full = Scene::new();
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        for scene in [&mut bare, &mut full] {
            let message = scene.ask_apart(&Request::modern(1, method, json!({}))).message();
            assert_eq!(message["id"], 1);
            assert!(message.get("result").is_some() ^ message.get("error").is_some(), "{message}");
        }
    }
}

#[test]
fn b079_inv68_an_answer_nobody_asked_for_is_accepted_and_dropped() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
    ] {
        let response = scene.ask(client, &session.post(body));
        assert_response!(response, 202);
        assert!(response.body.is_empty(), "an error is never answered: {body}");
    }
}

#[test]
fn parameters_must_be_an_object_and_of_the_right_types() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for params in ["[]", "5", "\"x\"", r#"{"name":5}"#, r#"{"_meta":5}"#, r#"{"_meta":[]}"#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let response = scene.ask(client, &session.post(body));
        assert_eq!(response.error()["code"], -32602, "{params}");
        assert_eq!(response.message()["id"], 1);
    }
}

#[test]
fn fractional_progress_tokens_are_refused_like_fractional_ids() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let long = format!("\"{}\"", "t".repeat(1023));
    for token in ["1.5", "1.0", &long] {
        let params = format!(r#"{{"name":"echo","_meta":{{"progressToken":{token}}}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let response = scene.ask(client, &session.post(body));
        assert_eq!(response.error()["code"], -32600, "{token}");
    }
    assert_eq!(scene.held.runs(), 0);
}
