//! Calls that ask first: one handler, asked of modern callers with the answer and of classic ones
//! on the call's own stream.

use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use waterwheel::mcp::model::{FormSchema, InputRequest, NeedInput, Reply, TextField};
use waterwheel::rpc::ErrorObject;
use waterwheel::{
    AskError, CallError, CallToolResult, Principal, Responder, ServerBuilder, ServerHandle,
    SessionId, Tool, ToolCall,
};

use crate::support::{Block, Client, Request, Scene, Session, assert_response, seconds};

fn name_form() -> InputRequest {
    InputRequest::elicit("Who are you?", FormSchema::new().field("name", TextField::new()))
}

/// Greets by a name it asks for, and then by a surname, with the name as its state.
fn greet(call: &mut ToolCall<'_>) -> Result<Reply<CallToolResult>, CallError> {
    let given = |key: &str| -> Option<String> {
        let answer = call.answers().elicited(key)?;
        let content: Value = answer.content()?;
        Some(content["name"].as_str()?.to_owned())
    };
    match (call.state(), given("first"), given("last")) {
        (None, None, _) => Ok(NeedInput::new().ask("first", name_form()).into()),
        (None, Some(first), _) => Ok(NeedInput::new().ask("last", name_form()).state(first).into()),
        (Some(first), _, Some(last)) => {
            Ok(CallToolResult::text(format!("Hello, {first} {last}!")).into())
        }
        (Some(first), _, None) => Ok(NeedInput::new().ask("last", name_form()).state(first).into()),
    }
}

fn with_tools(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(Tool::new("greet"), greet)
        .tool_deferred(
            Tool::new("greet_later"),
            |mut call: ToolCall<'static>, responder: Responder<CallToolResult>| match greet(
                &mut call,
            ) {
                Ok(Reply::Done(result)) => responder.finish(result),
                Ok(Reply::NeedInput(need)) => responder.ask(call, need),
                Err(_) => responder.fail(ErrorObject::internal()),
            },
        )
        .tool(Tool::new("asks_nothing"), |_: &mut ToolCall| {
            Ok::<Reply<CallToolResult>, _>(NeedInput::new().into())
        })
        .tool(Tool::new("asks_on"), |_: &mut ToolCall| {
            Ok::<Reply<CallToolResult>, _>(NeedInput::new().ask("q", name_form()).into())
        })
}

fn scene() -> Scene {
    Scene::tuned(with_tools)
}

fn able() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    })
}

fn call(id: u64, tool: &str, more: Value) -> Request {
    let mut params = json!({ "name": tool, "arguments": {}, "_meta": able() });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    Request::modern(id, "tools/call", params)
}

fn accept(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

#[test]
fn inv131_a_modern_caller_is_asked_with_the_answer_and_calls_again() {
    for tool in ["greet", "greet_later"] {
        let mut scene = scene();
        let client = scene.connect();
        let first = scene.ask(client, &call(1, tool, json!({}))).result();
        assert_eq!(first["resultType"], "input_required");
        assert_eq!(first["inputRequests"]["first"]["method"], "elicitation/create");
        assert_eq!(first.get("requestState"), None);
        assert!(first.get("ttlMs").is_none(), "a question is not cached: {first}");
        let answers = json!({ "inputResponses": { "first": accept("Ada"), "extra": {} } });
        let second = scene.ask(client, &call(2, tool, answers)).result();
        assert_eq!(second["resultType"], "input_required");
        let state = second["requestState"].as_str().unwrap();
        assert!(!state.contains("Ada"), "it is no plain text: {state}");
        let answers = json!({
            "inputResponses": { "last": accept("Lovelace") },
            "requestState": state,
        });
        let third = scene.ask(client, &call(3, tool, answers));
        assert_eq!(third.text(), "Hello, Ada Lovelace!");
    }
}

#[test]
fn b093_inv151_a_state_is_good_for_its_caller_request_and_time_only() {
    let mut scene = Scene::tuned(|server| {
        with_tools(server).authenticate(|request| {
            let name = request.field_str("badge").unwrap_or("nobody");
            waterwheel::filter::security::Verdict::Allow(Principal::new(name))
        })
    });
    let client = scene.connect();
    let answers = json!({ "inputResponses": { "first": accept("Ada") } });
    let asked = scene.ask(client, &call(1, "greet", answers).field("Badge", "ada")).result();
    let state = asked["requestState"].as_str().unwrap().to_owned();
    let retry = |tool: &str, state: &str| {
        let last = json!({ "last": accept("L") });
        call(2, tool, json!({ "inputResponses": last, "requestState": state }))
    };
    let mut flipped = state.clone();
    let other = if state.as_bytes()[20] == b'A' { "B" } else { "A" };
    flipped.replace_range(20..21, other);
    for (what, request) in [
        ("changed", retry("greet", &flipped).field("Badge", "ada")),
        ("cut", retry("greet", &state[1..]).field("Badge", "ada")),
        ("empty", retry("greet", "").field("Badge", "ada")),
        ("somebody else's", retry("greet", &state).field("Badge", "eve")),
        ("of another tool", retry("greet_later", &state).field("Badge", "ada")),
    ] {
        let response = scene.ask(client, &request);
        assert_eq!(response.error()["code"], -32602, "{what}");
    }
    let good = retry("greet", &state).field("Badge", "ada");
    assert_eq!(scene.ask(client, &good).text(), "Hello, Ada L!");
    scene.advance(seconds(301));
    let client = scene.connect();
    assert_eq!(scene.ask(client, &good).error()["code"], -32602, "expired");
}

#[test]
fn b093_answers_that_are_missing_or_no_answers_are_asked_for_again() {
    let mut scene = scene();
    let client = scene.connect();
    for responses in [
        json!({ "wrong": accept("Ada") }),
        json!({ "first": 12345 }),
        json!({ "first": { "action": "decline" } }),
        json!(null),
    ] {
        let request = call(1, "greet", json!({ "inputResponses": responses }));
        let result = scene.ask(client, &request).result();
        assert!(result["inputRequests"].get("first").is_some(), "{responses}: {result}");
    }
    for responses in [json!([1]), json!(7), json!("first")] {
        let request = call(1, "greet", json!({ "inputResponses": responses }));
        assert_response!(scene.ask(client, &request), 200, error = -32602);
    }
}

#[test]
fn b058_inv109_inv110_what_a_client_has_not_declared_is_not_asked() {
    let mut scene = scene();
    let client = scene.connect();
    for declared in [json!({}), json!({ "elicitation": "yes" }), json!({ "sampling": {} })] {
        for tool in ["greet", "greet_later"] {
            let mut meta = able();
            meta["io.modelcontextprotocol/clientCapabilities"] = declared.clone();
            let response = scene.ask(client, &call(1, tool, json!({ "_meta": meta })));
            assert_response!(response, 400, error = -32021, id = 1);
            let required = &response.error()["data"]["requiredCapabilities"];
            assert_eq!(required, &json!({ "elicitation": {} }));
        }
    }
}

#[test]
fn b094_a_question_without_anything_in_it_is_a_fault_of_the_server() {
    let mut scene = scene();
    let response = scene.ask_apart(&call(1, "asks_nothing", json!({})));
    assert_eq!(response.error()["code"], -32603);
}

/// A classic session whose client fills in forms.
fn session(scene: &mut Scene, client: Client) -> Session {
    let able = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {}, "roots": {} },
        "clientInfo": { "name": "c", "version": "0" },
    });
    let initialize = Request::post(crate::support::message(1, "initialize", able));
    let response = scene.ask(client, &initialize);
    Session::new(response.field("mcp-session-id").unwrap(), "2025-11-25")
}

/// The question that came, and the id its answer must have.
#[track_caller]
fn question(scene: &mut Scene, client: Client) -> (Value, Value) {
    let blocks = scene.blocks(client);
    let asked =
        blocks.iter().find(|block| block.is_event()).unwrap_or_else(|| panic!("{blocks:?}"));
    (asked.data()["id"].clone(), asked.data().clone())
}

#[track_caller]
fn reply(scene: &mut Scene, session: &Session, id: &Value, result: &Value) {
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    assert_response!(scene.ask_apart(&session.post(answer.to_string())), 202);
}

#[test]
fn d20_inv70_a_classic_caller_is_asked_on_the_stream_of_its_call() {
    for tool in ["greet", "greet_later"] {
        let mut scene = scene();
        let client = scene.connect();
        let session = session(&mut scene, client);
        scene.send(client, session.call(7, tool, json!({})).bytes());
        assert_response!(scene.stream(client), 200);
        let (id, asked) = question(&mut scene, client);
        assert_eq!(asked["method"], "elicitation/create");
        assert_eq!(asked["params"]["message"], "Who are you?");
        let stranger = scene.connect();
        let other = self::session(&mut scene, stranger);
        reply(&mut scene, &other, &id, &accept("Mallory"));
        reply(&mut scene, &session, &id, &accept("Ada"));
        reply(&mut scene, &session, &id, &accept("Ada again"));
        let (id, _) = question(&mut scene, client);
        reply(&mut scene, &session, &id, &accept("Lovelace"));
        let blocks = scene.blocks(client);
        assert_eq!(blocks[0].data()["result"]["content"][0]["text"], "Hello, Ada Lovelace!");
        assert_eq!(blocks[0].data()["id"], 7);
        scene.end_of_stream(client);
        assert_eq!((scene.engine.asks(), scene.engine.exchanges()), (0, 0));
    }
}

#[test]
fn inv70_a_question_ends_with_an_error_with_time_with_its_call_and_with_its_session() {
    let mut scene = scene();
    let client = scene.connect();
    let session = session(&mut scene, client);
    for end in ["error", "time", "cancel", "delete"] {
        scene.send(client, session.call(7, "greet", json!({})).bytes());
        scene.stream(client);
        let (id, _) = question(&mut scene, client);
        match end {
            "error" => {
                let error = json!({ "code": -1, "message": "I'd rather not" });
                let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                assert_response!(scene.ask_apart(&session.post(answer.to_string())), 202);
                let answer = scene.blocks(client)[0].data().clone();
                assert_eq!(answer["result"]["isError"], true, "{answer}");
            }
            "time" => {
                scene.advance(seconds(300));
                let mut blocks = scene.blocks(client);
                blocks.retain(Block::is_event);
                assert_eq!(blocks[0].data()["method"], "notifications/cancelled");
                assert_eq!(blocks[0].data()["params"]["requestId"], id);
                assert_eq!(blocks[1].data()["result"]["isError"], true);
            }
            "cancel" => {
                assert_response!(scene.ask_apart(&session.cancel(7)), 202);
                assert_eq!(scene.blocks(client)[0].data()["method"], "notifications/cancelled");
            }
            _ => {
                assert_response!(scene.ask_apart(&session.delete()), 204);
                scene.blocks(client);
            }
        }
        scene.end_of_stream(client);
        assert_eq!((scene.engine.asks(), scene.engine.exchanges()), (0, 0), "{end}");
    }
}

#[test]
fn a_question_whose_connection_was_lost_is_asked_again_and_its_answer_counts() {
    let mut scene = scene();
    let client = scene.connect();
    let session = session(&mut scene, client);
    scene.send(client, session.call(7, "greet", json!({})).bytes());
    scene.stream(client);
    let blocks = scene.blocks(client);
    let place = blocks[0].id().to_owned();
    scene.cut(client);
    let again = scene.connect();
    scene.send(again, session.resume(&place).bytes());
    scene.stream(again);
    let (id, _) = question(&mut scene, again);
    reply(&mut scene, &session, &id, &accept("Ada"));
    let (id, _) = question(&mut scene, again);
    reply(&mut scene, &session, &id, &accept("Lovelace"));
    assert_eq!(scene.blocks(again)[0].data()["id"], 7);
    scene.end_of_stream(again);
}

#[test]
fn a_call_that_asks_without_end_is_given_up() {
    let mut scene = scene();
    let client = scene.connect();
    let session = session(&mut scene, client);
    scene.send(client, session.call(7, "asks_on", json!({})).bytes());
    scene.stream(client);
    for _ in 0..16 {
        let (id, _) = question(&mut scene, client);
        reply(&mut scene, &session, &id, &accept("x"));
    }
    assert_eq!(scene.blocks(client)[0].data()["error"]["code"], -32603);
    scene.end_of_stream(client);
}

#[test]
fn a_caller_that_cannot_be_asked_is_told_so() {
    let mut scene = scene();
    let client = scene.connect();
    let session = session(&mut scene, client);
    let json_only = session.call(7, "greet", json!({})).set("Accept", "application/json");
    assert_eq!(scene.ask(client, &json_only).result()["isError"], true);
    let mut stateless = Scene::tuned(|server| with_tools(server).stateless());
    let call = json!({ "name": "greet", "arguments": {} });
    let request = Request::post(crate::support::message(1, "tools/call", call));
    assert_eq!(stateless.ask_apart(&request).error()["code"], -32021);
}

/// A session, and its id as handlers know it.
fn known_session() -> (Scene, Session, SessionId) {
    let (known, knows) = channel();
    let whoami = move |call: &mut ToolCall<'_>| -> Result<CallToolResult, CallError> {
        known.send(call.session_id().unwrap()).unwrap();
        Ok(CallToolResult::text(""))
    };
    let mut scene = Scene::tuned(|server| server.tool(Tool::new("whoami"), whoami));
    let client = scene.connect();
    let session = session(&mut scene, client);
    assert_response!(scene.ask(client, &session.call(1, "whoami", json!({}))), 200);
    let id = knows.recv().unwrap();
    (scene, session, id)
}

#[test]
fn a_session_is_asked_from_outside_and_whoever_asked_is_told_once() {
    let (mut scene, session, id) = known_session();
    let handle = ServerHandle::of(&scene.engine);
    let ping = |handle: &ServerHandle| -> Receiver<Result<(), String>> {
        let (told, tells) = channel();
        handle.ping(id, move |outcome| {
            told.send(outcome.map_err(|error| error.to_string())).unwrap();
        });
        tells
    };
    let first = ping(&handle);
    scene.settle();
    assert!(first.try_recv().is_err(), "the client has not heard of it");
    let stream = scene.connect();
    scene.send(stream, session.listen().bytes());
    scene.stream(stream);
    let (number, asked) = question(&mut scene, stream);
    assert_eq!(asked["method"], "ping");
    reply(&mut scene, &session, &number, &json!({}));
    assert_eq!(first.try_recv(), Ok(Ok(())));
    assert!(first.try_recv().is_err());

    let late = ping(&handle);
    scene.settle();
    scene.advance(seconds(30));
    assert!(late.try_recv().unwrap().unwrap_err().contains("in time"));
    let (told, tells) = channel();
    let sampling = waterwheel::mcp::model::CreateMessage::new("hello", 10);
    handle.ask(id, InputRequest::sample(sampling), move |outcome| {
        told.send(matches!(outcome, Err(AskError::NotDeclared))).unwrap();
    });
    scene.settle();
    assert_eq!(tells.try_recv(), Ok(true));
    let ended = ping(&handle);
    scene.settle();
    scene.blocks(stream);
    assert_response!(scene.ask_apart(&session.delete()), 204);
    scene.end_of_stream(stream);
    assert!(ended.try_recv().unwrap().unwrap_err().contains("ended"));
}

#[test]
fn inv69_whoever_is_told_may_ask_again_at_once() {
    let (mut scene, session, id) = known_session();
    let stream = scene.connect();
    scene.send(stream, session.listen().bytes());
    scene.stream(stream);
    scene.blocks(stream);
    let handle = ServerHandle::of(&scene.engine);
    let (told, tells) = channel();
    let again = handle.clone();
    handle.ping(id, move |first| {
        let told = told.clone();
        again.ping(id, move |second| told.send((first.is_ok(), second.is_ok())).unwrap());
    });
    scene.settle();
    let (first, _) = question(&mut scene, stream);
    reply(&mut scene, &session, &first, &json!({}));
    let (second, _) = question(&mut scene, stream);
    assert_ne!(first, second);
    assert!(tells.try_recv().is_err());
    reply(&mut scene, &session, &second, &json!({}));
    assert_eq!(tells.try_recv(), Ok((true, true)));
}

#[test]
fn inv152_hints_for_caches_are_on_neither_questions_nor_errors_nor_classic_answers() {
    let hinted = |answer: &Value| {
        let found = answer.get("result").or_else(|| answer.get("error")).unwrap();
        found.get("ttlMs").is_some() || found.get("cacheScope").is_some()
    };
    let mut scene = scene();
    let client = scene.connect();
    let list = scene.ask(client, &Request::modern(1, "tools/list", json!({})));
    assert!(hinted(&list.message()), "there would be something to leave out");
    let read = |uri: &str| Request::modern(2, "resources/read", json!({ "uri": uri }));
    assert!(hinted(&scene.ask(client, &read("file:///a.txt")).message()));
    assert!(!hinted(&scene.ask(client, &read("file:///none.txt")).message()));
    assert!(!hinted(&scene.ask(client, &call(3, "greet", json!({}))).message()));
    let session = session(&mut scene, client);
    for method in ["tools/list", "resources/list"] {
        let classic = session.request(4, method, json!({}));
        assert!(!hinted(&scene.ask(client, &classic).message()));
    }
}

#[test]
fn the_number_of_questions_that_wait_is_limited() {
    let limits = waterwheel::Limits { asks_max: 1, ..waterwheel::Limits::default() };
    let mut scene = Scene::tuned(|server| with_tools(server).limits(limits));
    let client = scene.connect();
    let session = session(&mut scene, client);
    scene.send(client, session.call(7, "greet", json!({})).bytes());
    scene.stream(client);
    let (id, _) = question(&mut scene, client);
    let other = scene.connect();
    let refused = scene.ask(other, &session.call(8, "greet", json!({})));
    assert_eq!(refused.result()["isError"], true);
    assert_eq!(scene.engine.asks(), 1);
    reply(&mut scene, &session, &id, &accept("Ada"));
    let (id, _) = question(&mut scene, client);
    reply(&mut scene, &session, &id, &accept("Lovelace"));
    assert_eq!(scene.blocks(client)[0].data()["id"], 7);
    scene.end_of_stream(client);
}
