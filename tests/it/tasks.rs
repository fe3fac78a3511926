//! Calls that become tasks: answered at once, asked about later.

use serde_json::{Value, json};
use waterwheel::mcp::model::{BooleanField, FormSchema, InputRequest, NeedInput};
use waterwheel::rpc::ErrorObject;
use waterwheel::{
    BuildError, CallToolResult, Limits, Principal, Responder, ServerBuilder, TaskLimits,
    TaskSupport, Tool, ToolCall,
};

use crate::support::{Held, Request, Scene, assert_response, seconds};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn able() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {}, "extensions": { EXTENSION: {} },
        },
    })
}

fn request(method: &str, mut params: Value) -> Request {
    if params.get("_meta").is_none() {
        params["_meta"] = able();
    }
    Request::modern(1, method, params)
}

fn call(tool: &str) -> Request {
    request("tools/call", json!({ "name": tool, "arguments": {} }))
}

fn about(method: &str, task: &str) -> Request {
    request(method, json!({ "taskId": task }))
}

/// A tool that is always a task, one that becomes one, and one that asks.
fn with_tools(builder: ServerBuilder, held: &Held) -> ServerBuilder {
    let (always, becomes) = (held.clone(), held.clone());
    let confirm = || {
        let form = FormSchema::new().field("ok", BooleanField::new());
        InputRequest::elicit("Really?", form)
    };
    builder
        .tool_deferred(
            Tool::new("job").tasks(TaskSupport::Required),
            move |call: ToolCall, responder| always.hold(call, responder),
        )
        .tool_deferred(
            Tool::new("maybe").tasks(TaskSupport::Allowed),
            move |mut call: ToolCall, responder| {
                call.become_task();
                becomes.hold(call, responder);
            },
        )
        .tool_deferred(
            Tool::new("fails").tasks(TaskSupport::Required),
            |_: ToolCall, responder: Responder<CallToolResult>| {
                responder.fail(ErrorObject::new(-32050, "not today"));
            },
        )
        .tool_deferred(
            Tool::new("asks").tasks(TaskSupport::Required),
            move |call: ToolCall, responder: Responder<CallToolResult>| {
                if call.answers().len() < 2 {
                    let need = NeedInput::new().ask("a", confirm()).ask("b", confirm());
                    return responder.ask(call, need);
                }
                responder.finish(CallToolResult::text("both"));
            },
        )
}

fn scene() -> Scene {
    let held = Held::default();
    let builder = with_tools(builder(), &held);
    Scene::of(builder, held)
}

fn builder() -> ServerBuilder {
    waterwheel::Server::builder("tasks", "1")
}

/// Starts a task; its id.
#[track_caller]
fn started(scene: &mut Scene, tool: &str) -> String {
    let result = scene.ask_apart(&call(tool)).result();
    assert_eq!(result["resultType"], "task", "{result}");
    assert!(result["createdAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{result}");
    assert_eq!((&result["ttlMs"], &result["pollIntervalMs"]), (&json!(3_600_000), &json!(1000)));
    for absent in ["result", "error", "inputRequests", "requestState", "content"] {
        assert!(result.get(absent).is_none(), "{absent}: {result}");
    }
    result["taskId"].as_str().expect("a task has an id").to_owned()
}

#[track_caller]
fn state(scene: &mut Scene, task: &str) -> Value {
    let result = scene.ask_apart(&about("tasks/get", task)).result();
    assert_eq!((&result["resultType"], &result["taskId"]), (&json!("complete"), &json!(task)));
    result
}

#[test]
fn a_call_becomes_a_task_and_its_result_is_collected() {
    for tool in ["job", "maybe"] {
        let mut scene = scene();
        let task = started(&mut scene, tool);
        assert_eq!(state(&mut scene, &task)["status"], "working");
        assert_eq!(scene.engine.exchanges(), 1);
        scene.take_call().finish("done");
        scene.settle();
        let result = state(&mut scene, &task);
        assert_eq!(result["status"], "completed");
        assert_eq!(result["result"]["content"][0]["text"], "done");
        assert_eq!(scene.engine.exchanges(), 0);
        scene.advance(seconds(3601));
        assert_response!(scene.ask_apart(&about("tasks/get", &task)), 200, error = -32602);
        assert_eq!((scene.engine.tasks(), scene.engine.task_bytes()), (0, 0));
    }
}

#[test]
fn a_caller_that_does_not_know_tasks_waits_or_is_refused() {
    let mut scene = scene();
    let client = scene.connect();
    scene.send(client, Request::modern_call(1, "maybe", json!({})).bytes());
    scene.take_call().finish("waited for");
    scene.settle();
    assert_eq!(scene.response(client).text(), "waited for");
    let refused = scene.ask(client, &Request::modern_call(2, "job", json!({})));
    assert_response!(refused, 400, error = -32021);
    let required = &refused.error()["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(required, &json!({ EXTENSION: {} }));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": "none", "_meta": meta });
        assert_response!(scene.ask(client, &request(method, params)), 400, error = -32021);
    }
    let session = scene.initialize(client, "2025-11-25");
    let classic = session.request(3, "tasks/get", json!({ "taskId": "none" }));
    assert_response!(scene.ask(client, &classic), 200, error = -32601);
}

#[test]
fn inv149_what_a_task_came_to_is_final_and_a_stranger_s_task_does_not_exist() {
    let held = Held::default();
    let builder = with_tools(builder(), &held).authenticate(|request| {
        let name = request.field_str("badge").unwrap_or("nobody");
        waterwheel::filter::security::Verdict::Allow(Principal::new(name))
    });
    let mut scene = Scene::of(builder, held);
    let failed = started(&mut scene, "fails");
    let result = state(&mut scene, &failed);
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!(-32050)));
    assert!(result.get("result").is_none());

    let task = started(&mut scene, "job");
    let foreign = scene.ask_apart(&about("tasks/get", &task).field("Badge", "eve"));
    let missing = scene.ask_apart(&about("tasks/get", "0".repeat(32).as_str()));
    assert_response!(foreign, 200, error = -32602);
    assert_eq!(foreign.body, missing.body, "which of the two, nobody is told");
    assert_response!(
        scene.ask_apart(&about("tasks/cancel", &task).field("Badge", "eve")),
        200,
        error = -32602
    );
    let call = scene.take_call();
    let cancelled = scene.ask_apart(&about("tasks/cancel", &task)).result();
    assert!(cancelled.get("status").is_none() && cancelled.get("taskId").is_none());
    assert!(call.responder.is_cancelled());
    call.finish("too late");
    scene.settle();
    assert_eq!(state(&mut scene, &task)["status"], "cancelled");
    for task in [&task, &failed] {
        assert_response!(scene.ask_apart(&about("tasks/cancel", task)), 200);
    }
    assert_eq!(state(&mut scene, &failed)["status"], "failed");
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn questions_of_a_task_are_answered_one_by_one_and_once() {
    let mut scene = scene();
    let task = started(&mut scene, "asks");
    let asked = state(&mut scene, &task);
    assert_eq!(asked["status"], "input_required");
    assert_eq!(asked["inputRequests"].as_object().map(serde_json::Map::len), Some(2), "{asked}");
    let accept = json!({ "action": "accept", "content": { "ok": true } });
    let update = |answers: Value| {
        request("tasks/update", json!({ "taskId": task, "inputResponses": answers }))
    };
    assert_response!(scene.ask_apart(&update(json!({ "a": accept, "z": accept }))), 200);
    let asked = state(&mut scene, &task);
    assert_eq!(asked["status"], "input_required");
    assert!(asked["inputRequests"].get("a").is_none() && asked["inputRequests"].get("b").is_some());
    assert_response!(scene.ask_apart(&update(json!({ "b": accept }))), 200);
    scene.settle();
    let done = state(&mut scene, &task);
    assert_eq!(
        (&done["status"], &done["result"]["content"][0]["text"]),
        (&json!("completed"), &json!("both"))
    );
    let missing = request("tasks/update", json!({ "taskId": task }));
    assert_response!(scene.ask_apart(&missing), 200, error = -32602);
    assert_response!(scene.ask_apart(&update(json!(7))), 200, error = -32602);
}

#[test]
fn who_listens_hears_how_its_own_tasks_are_doing() {
    let mut scene = scene();
    let task = started(&mut scene, "job");
    let filter = json!({ "notifications": { "taskIds": [task, "somebody-else-s"] } });
    let client = scene.connect();
    scene.send(client, request("subscriptions/listen", filter).bytes());
    scene.stream(client);
    let promised = scene.blocks(client)[0].data()["params"]["notifications"].clone();
    assert_eq!(promised, json!({ "taskIds": [task] }));
    scene.take_call().finish("done");
    scene.settle();
    let told = scene.blocks(client)[0].data().clone();
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks"), &json!("completed"))
    );
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
}

#[test]
fn tasks_are_bounded_and_one_that_runs_too_long_is_cancelled() {
    let held = Held::default();
    let tasks = TaskLimits { per_caller_max: 1, ..TaskLimits::default() };
    let limits = Limits { tasks, ..Limits::default() };
    let mut scene = Scene::of(with_tools(builder().limits(limits), &held), held);
    let task = started(&mut scene, "job");
    let running = scene.take_call();
    let client = scene.connect();
    scene.send(client, call("maybe").bytes());
    scene.take_call().finish("no room for a task");
    scene.settle();
    assert_eq!(scene.response(client).text(), "no room for a task");
    scene.hang_up(client);
    scene.advance(seconds(3600));
    assert!(running.responder.is_cancelled());
    assert_response!(scene.ask_apart(&about("tasks/get", &task)), 200, error = -32602);
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn a_direct_handler_cannot_be_a_task() {
    let tool = Tool::new("direct").tasks(TaskSupport::Allowed);
    let builder = builder().tool(tool, |_: &mut ToolCall<'_>| Ok(CallToolResult::text("at once")));
    let error = builder.build_engine::<()>().expect_err("the description has a mistake");
    assert!(matches!(error, BuildError::Invalid { kind: "tool", .. }), "{error}");
}

#[test]
fn a_task_is_begun_by_those_who_may_call_its_tool_and_asked_about_by_whoever_began_it() {
    let held = Held::default();
    let jobs = held.clone();
    let tool = |name: &str| Tool::new(name).tasks(TaskSupport::Required);
    let builder = builder()
        .authenticate(|request| {
            let scopes = request.field_str("scopes").unwrap_or_default().split(' ');
            waterwheel::filter::security::Verdict::Allow(
                Principal::new("alice").with_scopes(scopes),
            )
        })
        .tool_deferred(tool("job").scopes(["run"]), move |call: ToolCall, responder| {
            jobs.hold(call, responder);
        })
        .tool_deferred(tool("secret"), |_: ToolCall, _: Responder<CallToolResult>| {
            panic!("nobody who does not see it can call it");
        })
        .visible(|item, caller| match item {
            waterwheel::Item::Tool(tool) => tool.name != "secret" || caller.has_scope("see"),
            _ => true,
        });
    let mut scene = Scene::of(builder, held);
    assert_response!(scene.ask_apart(&call("job")), 403);
    let hidden = scene.ask_apart(&call("secret")).error();
    let absent = scene.ask_apart(&call("absent")).error();
    assert_eq!(hidden["code"], absent["code"]);
    assert_eq!((scene.engine.tasks(), scene.engine.exchanges()), (0, 0));

    let begun = scene.ask_apart(&call("job").field("Scopes", "run")).result();
    let task = begun["taskId"].as_str().expect("a task has an id").to_owned();
    scene.take_call().finish("done");
    scene.settle();
    assert_eq!(state(&mut scene, &task)["status"], "completed", "with another token of alice");
}
