//! Tools, resources, prompts and completions as a caller meets them.

use serde_json::{Value, json};
use waterwheel::rpc::ErrorObject;
use waterwheel::{
    BuildError, CallToolResult, Limits, Resource, ResourceTemplate, Server, ServerBuilder, Tool,
    ToolCall,
};

use crate::support::{Request, Scene, assert_response};

fn nothing(_: &mut ToolCall<'_>) -> Result<CallToolResult, waterwheel::CallError> {
    Ok(CallToolResult::new())
}

fn call(tool: &str, arguments: Value) -> Request {
    Request::modern_call(1, tool, arguments)
}

/// The names on all pages of a listing, and how many pages there were.
#[track_caller]
fn all_pages(scene: &mut Scene, method: &str, list: &str, name: &str) -> (Vec<String>, usize) {
    let (mut names, mut pages, mut params) = (Vec::new(), 0, json!({}));
    loop {
        let result = scene.ask_apart(&Request::modern(1, method, params)).result();
        let items = result[list].as_array().expect("a list").iter();
        names.extend(items.map(|item| item[name].as_str().unwrap_or("").to_owned()));
        pages += 1;
        match result.get("nextCursor") {
            None => return (names, pages),
            Some(cursor) => params = json!({ "cursor": cursor }),
        }
        assert!(pages < 100, "the listing ends");
    }
}

#[test]
fn listings_keep_the_order_of_registration_over_all_pages() {
    let mut whole =
        Scene::tuned(|server| server.limits(Limits { page_items: 0, ..Limits::default() }));
    let mut paged =
        Scene::tuned(|server| server.limits(Limits { page_items: 4, ..Limits::default() }));
    let (expected, pages) = all_pages(&mut whole, "tools/list", "tools", "name");
    assert_eq!((pages, expected[0].as_str(), expected.len()), (1, "echo", 17));
    assert_eq!(all_pages(&mut paged, "tools/list", "tools", "name"), (expected, 5));
    let resources = all_pages(&mut paged, "resources/list", "resources", "uri");
    assert_eq!(resources, (vec!["file:///a.txt".to_owned(), "file:///δ.txt".to_owned()], 1));
    assert_eq!(all_pages(&mut paged, "prompts/list", "prompts", "name").0, ["greet"]);
    let templates = all_pages(&mut paged, "resources/templates/list", "resourceTemplates", "name");
    assert_eq!(templates.0, ["data"]);
}

#[test]
fn inv150_a_cursor_is_good_for_its_own_list_and_server_only() {
    let tune = |server: ServerBuilder| server.limits(Limits { page_items: 1, ..Limits::default() });
    let (mut scene, mut other) = (Scene::tuned(tune), Scene::tuned(tune));
    let first = |scene: &mut Scene, method: &str| {
        let result = scene.ask_apart(&Request::modern(1, method, json!({}))).result();
        result["nextCursor"].as_str().expect("there is more").to_owned()
    };
    let tools = first(&mut scene, "tools/list");
    let resources = first(&mut scene, "resources/list");
    let foreign = first(&mut other, "tools/list");
    let forged = tools.replace(".1.", ".2.");
    let garbage = "nope".to_owned();
    for cursor in [resources, foreign, forged, garbage, tools.to_uppercase()] {
        let request = Request::modern(1, "tools/list", json!({ "cursor": cursor }));
        assert_response!(scene.ask_apart(&request), 200, error = -32602, id = 1);
    }
    for (cursor, name) in [(tools.as_str(), "add"), ("", "echo")] {
        let request = Request::modern(1, "tools/list", json!({ "cursor": cursor }));
        assert_eq!(scene.ask_apart(&request).result()["tools"][0]["name"], name);
    }
}

#[test]
fn b061_what_is_wrong_with_a_call_is_told_where_its_reader_can_act() {
    let mut scene = Scene::new();
    let unknown = scene.ask_apart(&call("nope", json!({})));
    assert_response!(unknown, 200, error = -32602, id = 1);
    for arguments in [json!([]), json!("x"), json!(5)] {
        let response = scene.ask_apart(&call("echo", arguments));
        assert_response!(response, 200, error = -32602, id = 1);
    }
    let absent = Request::modern(1, "tools/call", json!({ "name": "echo" }));
    assert_eq!(scene.ask_apart(&absent).text(), "{}");
    let null = call("echo", json!(null));
    assert_eq!(scene.ask_apart(&null).text(), "{}");
    assert_eq!(scene.held.runs(), 2);
    assert_eq!(scene.ask_apart(&call("add", json!({ "a": 1.5, "b": 2 }))).text(), "3.5");
    let failed = scene.ask_apart(&call("fails", json!({}))).result();
    assert_eq!(
        (&failed["isError"], &failed["content"][0]["text"]),
        (&json!(true), &json!("it broke"))
    );
    // What the handler itself cannot read is for the model too, with or without schemas.
    let mismatch = scene.ask_apart(&call("add", json!({ "a": "one", "b": 2 }))).result();
    assert_eq!(mismatch["isError"], true);
}

#[cfg(feature = "schema")]
#[test]
fn b061_arguments_against_the_schema_are_an_error_the_model_can_read() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let missing = json!({ "a": 1 });
    for request in [call("add", missing.clone()), session.call(1, "add", missing)] {
        let result = scene.ask(client, &request).result();
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("\"b\""), "{text}");
    }
}

#[test]
fn b097_a_failure_carries_no_structured_content_and_a_success_must() {
    let mut scene = Scene::new();
    let how = |how: &str| call("typed", json!({ "how": how }));
    let right = scene.ask_apart(&how("right")).result();
    assert_eq!(right["structuredContent"], json!({ "ok": true }));
    assert_eq!(right["content"][0]["text"], r#"{"ok":true}"#);
    let failed = scene.ask_apart(&how("fail")).result();
    assert_eq!(failed["isError"], true);
    assert_eq!(failed.get("structuredContent"), None);
    #[cfg(feature = "schema")]
    for broken in ["wrong", "absent"] {
        let response = scene.ask_apart(&how(broken));
        assert_response!(response, 200, error = -32603, id = 1);
    }
}

#[test]
fn b062_d13_a_resource_that_is_not_there_has_the_code_of_its_era() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for uri in ["file:///none", "test://none/data", "test://a/b/data", ""] {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let session = scene.initialize(client, version);
            let read = session.request(1, "resources/read", json!({ "uri": uri }));
            let response = scene.ask(client, &read);
            assert_response!(response, 200, error = -32002, id = 1);
            assert_eq!(response.error()["data"]["uri"], uri);
        }
        let read = Request::modern(1, "resources/read", json!({ "uri": uri }));
        assert_response!(scene.ask(client, &read), 200, error = -32602, id = 1);
    }
}

#[test]
fn resources_are_read_by_uri_before_template() {
    let mut scene = Scene::tuned(|server| {
        let contents = |text: &'static str| {
            move |call: &mut waterwheel::ResourceCall<'_>| {
                let part = waterwheel::ResourceContents::text(call.uri(), text);
                Ok(waterwheel::ReadResourceResult::new([part]))
            }
        };
        server
            .resource(Resource::new("test://7/data", "seven"), contents("the very one"))
            .resource_template(ResourceTemplate::new("any:{+rest}", "any"), contents("any"))
    });
    for (uri, text) in [
        ("file:///a.txt", "contents of a"),
        ("test://7/data", "the very one"),
        ("test://8/data", "8"),
        ("any:a/b?c", "any"),
    ] {
        let read = Request::modern(1, "resources/read", json!({ "uri": uri }));
        let result = scene.ask_apart(&read).result();
        assert_eq!(result["contents"], json!([{ "uri": uri, "text": text }]));
    }
}

#[test]
fn prompts_are_rendered_and_need_their_arguments() {
    let mut scene = Scene::new();
    let get = |params: Value| Request::modern(1, "prompts/get", params);
    let result = scene.ask_apart(&get(json!({ "name": "greet", "arguments": { "who": "you" } })));
    let message = json!({ "role": "user", "content": { "type": "text", "text": "Greet you." } });
    assert_eq!(result.result()["messages"], json!([message]));
    for params in [
        json!({ "name": "nope" }),
        json!({ "name": "greet" }),
        json!({ "name": "greet", "arguments": {} }),
        json!({ "name": "greet", "arguments": { "who": 5 } }),
        json!({ "name": "greet", "arguments": [] }),
    ] {
        assert_response!(scene.ask_apart(&get(params)), 200, error = -32602, id = 1);
    }
    let listed = scene.ask_apart(&Request::modern(1, "prompts/list", json!({}))).result();
    let argument = json!({ "name": "who", "required": true });
    assert_eq!(listed["prompts"], json!([{ "name": "greet", "arguments": [argument] }]));
}

#[test]
fn completions_of_what_is_not_there_are_refused() {
    let mut scene = Scene::new();
    for reference in [
        json!({ "type": "ref/prompt", "name": "nowhere" }),
        json!({ "type": "ref/resource", "uri": "no://{thing}" }),
    ] {
        let params = json!({ "ref": reference, "argument": { "name": "a", "value": "" } });
        let response = scene.ask_apart(&Request::modern(1, "completion/complete", params));
        assert_eq!(response.error()["code"], -32602, "{reference}");
    }
}

#[test]
fn completions_go_on_from_what_was_typed() {
    let mut scene = Scene::new();
    let complete = |value: &str| {
        let params = json!({
            "ref": { "type": "ref/prompt", "name": "greet" },
            "argument": { "name": "who", "value": value },
        });
        Request::modern(1, "completion/complete", params)
    };
    let values = scene.ask_apart(&complete("p")).result()["completion"]["values"].clone();
    assert_eq!(values, json!(["paris", "porto"]));
    let values = scene.ask_apart(&complete("x")).result()["completion"]["values"].clone();
    assert_eq!(values, json!([]));
    for params in [
        json!({}),
        json!({ "ref": { "type": "ref/nothing" }, "argument": { "name": "a", "value": "" } }),
        json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "a" } }),
    ] {
        let response = scene.ask_apart(&Request::modern(1, "completion/complete", params));
        assert_response!(response, 200, error = -32602, id = 1);
    }
}

#[test]
fn every_kind_of_request_may_be_answered_later() {
    let server = Server::builder("later", "1")
        .resource_deferred(Resource::new("a:b", "ab"), |call, responder| {
            let part = waterwheel::ResourceContents::text(call.uri(), "late");
            responder.finish(waterwheel::ReadResourceResult::new([part]));
        })
        .resource_template_deferred(ResourceTemplate::new("t:{x}", "t"), |call, responder| {
            match call.variable("x") {
                Some("none") => responder.fail(ErrorObject::invalid_params("no such thing")),
                _ => drop(responder),
            }
        })
        .prompt_deferred(waterwheel::Prompt::new("p"), |call, responder| {
            let text = waterwheel::Content::text(call.name());
            let said = waterwheel::PromptMessage::assistant(text);
            responder.finish(waterwheel::GetPromptResult::new([said]));
        })
        .completion_deferred(|call, responder| {
            responder.finish(waterwheel::CompleteResult::new([call.argument_name()]));
        });
    let mut scene = Scene::of(server, Default::default());
    let read = |uri: &str| Request::modern(1, "resources/read", json!({ "uri": uri }));
    let result = scene.ask_apart(&read("a:b")).result();
    assert_eq!(result["contents"][0]["text"], "late");
    assert_eq!(result["ttlMs"], 0, "hints are there whenever the answer comes");
    assert_response!(scene.ask_apart(&read("t:none")), 200, error = -32602, id = 1);
    assert_response!(scene.ask_apart(&read("t:x")), 200, error = -32603, id = 1);
    let get = Request::modern(1, "prompts/get", json!({ "name": "p" }));
    let result = scene.ask_apart(&get).result();
    assert_eq!(result["messages"][0]["role"], "assistant");
    let params = json!({
        "ref": { "type": "ref/resource", "uri": "t:{x}" },
        "argument": { "name": "x", "value": "" },
    });
    let result = scene.ask_apart(&Request::modern(1, "completion/complete", params)).result();
    assert_eq!(result["completion"]["values"], json!(["x"]));
}

#[cfg(feature = "schema")]
#[test]
fn b097_a_deferred_result_is_held_to_its_schema_too() {
    let schema = json!({ "type": "object", "required": ["ok"] });
    let tool = Tool::new("late").output_schema(schema);
    let server = Server::builder("later", "1").tool_deferred(tool, |call, responder| {
        let value: Value = call.arguments().unwrap_or_default();
        responder.finish(CallToolResult::structured(value));
    });
    let mut scene = Scene::of(server, Default::default());
    let good = scene.ask_apart(&call("late", json!({ "ok": 1 }))).result();
    assert_eq!(good["structuredContent"], json!({ "ok": 1 }));
    assert_response!(scene.ask_apart(&call("late", json!({}))), 200, error = -32603, id = 1);
}

#[test]
fn what_a_server_does_not_offer_is_an_unknown_method() {
    let server = Server::builder("bare", "1").tool(Tool::new("only"), nothing);
    let mut scene = Scene::of(server, Default::default());
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for (method, params) in [
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "x" })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "x" })),
        ("completion/complete", json!({})),
    ] {
        let modern = scene.ask(client, &Request::modern(1, method, params.clone()));
        assert_response!(modern, 404, error = -32601, id = 1);
        let classic = scene.ask(client, &session.request(1, method, params));
        assert_response!(classic, 200, error = -32601, id = 1);
    }
}

#[test]
fn a_mistake_in_the_description_is_reported_and_names_its_place() {
    let tool = |name: &str, schema: Value| {
        Server::builder("s", "1").tool(Tool::new(name).input_schema(schema), nothing)
    };
    let object = json!({ "type": "object" });
    let mistakes = [
        tool("twice", object).tool(Tool::new("twice"), nothing),
        tool("text", json!({ "type": "string" })),
        tool("true", json!(true)),
        tool("header", json!({ "type": "object", "x-mcp-header": "A" })),
        Server::builder("s", "1").resource_template(ResourceTemplate::new("x://{", "x"), |_| {
            Ok(waterwheel::ReadResourceResult::default())
        }),
        Server::builder("s", "1").extension("audit", json!({})),
        Server::builder("s", "1").extension("com.example/audit", true),
    ];
    for builder in mistakes {
        let mistake = builder.build_engine::<usize>().expect_err("it has a mistake");
        assert!(matches!(mistake, BuildError::Duplicate { .. } | BuildError::Invalid { .. }));
        assert!(!mistake.to_string().contains('\n'), "{mistake}");
    }
    // The first mistake is the one that is told.
    let two = tool("text", json!({ "type": "string" })).tool(Tool::new("text"), nothing);
    let two = two.tool(Tool::new("text"), nothing);
    let told = two.build_engine::<usize>().expect_err("it has two").to_string();
    assert!(told.contains("type object"), "{told}");
}

#[test]
fn extensions_are_declared_to_modern_callers() {
    let mut scene = Scene::tuned(|server| {
        server
            .extension("com.example/audit", json!({ "level": 2 }))
            .extension("com.example/other", json!({}))
    });
    let discovery = scene.ask_apart(&Request::modern(1, "server/discover", json!({}))).result();
    let expected = json!({ "com.example/audit": { "level": 2 }, "com.example/other": {} });
    assert_eq!(discovery["capabilities"]["extensions"], expected);
    let handshake = scene.ask_apart(&Request::initialize("2025-11-25")).result();
    assert_eq!(handshake["capabilities"].get("extensions"), None);
}

#[test]
fn inv153_a_handler_sees_the_trace_of_its_request_if_that_is_valid() {
    let told = |call: &mut ToolCall<'_>| {
        let trace = call.trace();
        let parts = trace.iter().flat_map(waterwheel::TraceContext::parts);
        Ok(CallToolResult::text(
            parts.map(|(name, value)| format!("{name}={value};")).collect::<String>(),
        ))
    };
    let mut scene = Scene::tuned(|server| server.tool(Tool::new("trace"), told));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    for (meta, expected) in [
        (json!({}), String::new()),
        (json!({ "traceparent": parent }), format!("traceparent={parent};")),
        (
            json!({ "traceparent": parent, "tracestate": "a=1", "baggage": "k=v" }),
            format!("traceparent={parent};tracestate=a=1;baggage=k=v;"),
        ),
        (json!({ "traceparent": "00-0-0-01", "tracestate": "a=1" }), String::new()),
        (json!({ "traceparent": parent, "tracestate": "A" }), format!("traceparent={parent};")),
        (json!({ "traceparent": 5, "baggage": ["k=v"] }), String::new()),
    ] {
        let params = json!({ "name": "trace", "arguments": {}, "_meta": meta });
        let answer = scene.ask_apart(&Request::modern(1, "tools/call", params)).result();
        assert_eq!(answer["content"][0]["text"], expected, "{meta}");
    }
}
