//! Which request reaches what: paths, methods, `Accept`, `Content-Type`, probes, filters.

use std::sync::{Arc, Mutex};

use serde_json::json;
use waterwheel::filter::{AfterRefusal, Cx, Filter, Flow, Refusal, Response as Reply, on_head};
use waterwheel::http::{Method, Request as Parsed, ResponseHead, Status};

use crate::support::{Request, Scene, assert_response, message};

/// A POST that a modern server answers with 200.
fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

/// The methods in an `Allow` field.
fn allowed(response: &crate::support::Response) -> Vec<String> {
    let allow = response.field("allow").expect("a 405 says what is allowed");
    allow.split(", ").map(str::to_owned).collect()
}

#[test]
fn b040_inv17_inv18_inv19_a_405_lists_what_would_be_served() {
    let mut scene = Scene::new();
    let mut stateless = Scene::tuned(|server| server.stateless());
    for method in ["PUT", "PATCH", "TRACE", "FOO", "HEAD", "post"] {
        let request = Request::new(method, "/mcp").field("Accept", "text/event-stream");
        let response = scene.ask_apart(&request);
        assert_response!(response, 405);
        assert_eq!(allowed(&response), ["DELETE", "GET", "OPTIONS", "POST"], "{method}");
        assert_eq!(allowed(&stateless.ask_apart(&request)), ["OPTIONS", "POST"], "{method}");
    }
    for method in ["GET", "DELETE"] {
        let request = Request::new(method, "/mcp").field("Accept", "text/event-stream");
        let response = stateless.ask_apart(&request);
        assert_response!(response, 405);
        assert_eq!(allowed(&response), ["OPTIONS", "POST"]);
    }
    for target in ["/health", "/ready"] {
        let response = scene.ask_apart(&Request::post("{}").target(target));
        assert_response!(response, 405);
        assert_eq!(allowed(&response), ["GET", "HEAD", "OPTIONS"], "{target}");
    }
}

#[test]
fn inv104_a_modern_caller_is_offered_post_alone() {
    let mut scene = Scene::new();
    for method in ["GET", "DELETE"] {
        let request = Request::new(method, "/mcp").field("MCP-Protocol-Version", "2026-07-28");
        let response = scene.ask_apart(&request);
        assert_response!(response, 405);
        assert_eq!(allowed(&response), ["POST"]);
        assert_eq!(response.json(), json!({ "error": "method_not_allowed" }));
    }
}

#[test]
fn b037_a_plain_get_opens_nothing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for (accept, status) in [("text/html,application/xhtml+xml", 406), ("*/*", 400)] {
        for _ in 0..1000 {
            let request = Request::new("GET", "/mcp").field("Accept", accept);
            assert_response!(scene.ask(client, &request), status);
        }
    }
    assert_eq!((scene.engine.sessions(), scene.engine.exchanges()), (0, 0));
    assert_eq!(scene.engine.connections(), 1);
}

#[test]
fn inv20_unknown_paths_are_a_definite_404() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for (method, target) in [
        ("GET", "/"),
        ("POST", "/"),
        ("GET", "/mcp/x"),
        ("DELETE", "/x"),
        ("GET", "/MCP"),
        ("GET", "//mcp"),
        ("GET", "/%6dcp"),
        ("GET", "/messages/x"),
        ("GET", "/metrics"),
    ] {
        let response = scene.ask(client, &Request::new(method, target));
        assert_response!(response, 404);
        assert_eq!(response.json(), json!({ "error": "not_found" }));
    }
}

#[test]
fn b039_d14_a_trailing_slash_is_the_same_path_and_never_a_redirect() {
    let mut plain = Scene::new();
    let mut slashed = Scene::tuned(|server| server.path("/mcp/"));
    for scene in [&mut plain, &mut slashed] {
        for target in ["/mcp", "/mcp/"] {
            assert_response!(scene.ask_apart(&list().target(target)), 200);
            assert_response!(scene.ask_apart(&Request::new("HEAD", target)), 405);
        }
        assert_response!(scene.ask_apart(&list().target("/mcp//")), 404);
    }
}

#[test]
fn inv23_inv24_a_configured_path_replaces_the_default_and_the_alias_stays() {
    let mut scene = Scene::tuned(|server| server.path("/tools/v1"));
    assert_response!(scene.ask_apart(&list().target("/tools/v1")), 200);
    assert_response!(scene.ask_apart(&list()), 404);
    assert_response!(scene.ask_apart(&list().target("/rpc")), 200);
    let response = scene.ask_apart(&Request::new("PUT", "/tools/v1"));
    assert_eq!(allowed(&response), ["DELETE", "GET", "OPTIONS", "POST"]);
    let preflight = Request::new("OPTIONS", "/tools/v1").field("Origin", "http://localhost");
    assert_response!(scene.ask_apart(&preflight), 204);
}

#[test]
fn inv25_a_query_does_not_affect_the_path() {
    let mut scene = Scene::new();
    for target in ["/mcp?x=1", "/mcp?", "/mcp/?a=/b", "http://127.0.0.1/mcp?x"] {
        assert_response!(scene.ask_apart(&list().target(target)), 200);
    }
    assert_response!(scene.ask_apart(&Request::new("GET", "/health?verbose")), 200);
}

#[test]
fn inv21_a_refused_body_is_read_away_and_the_next_request_is_answered() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let refused = Request::post(vec![b'x'; 100_000]).target("/nowhere");
    for request in [refused.clone(), refused.chunked(1000)] {
        scene.send(client, [request.bytes(), list().bytes()].concat());
        assert_response!(scene.response(client), 404);
        assert_response!(scene.response(client), 200);
    }
}

#[test]
fn inv22_what_one_request_settled_is_gone_with_the_next() {
    let mut scene = Scene::tuned(|server| {
        server.filter(on_head(|request, cx| {
            if request.field("mark").is_some() {
                cx.response_field("X-Marked", "yes");
            }
            Ok(())
        }))
    });
    let client = scene.connect();
    // Refused half-way, its body still coming.
    let marked = Request::post("12345").target("/nowhere").field("Mark", "1");
    scene.send(client, marked.head());
    assert_eq!(scene.response(client).field("x-marked"), Some("yes"));
    scene.send(client, "12345");
    assert_eq!(scene.ask(client, &list()).field("x-marked"), None);
    assert_eq!(scene.ask(client, &list().field("Mark", "1")).field("x-marked"), Some("yes"));
    assert_eq!(scene.ask(client, &list()).field("x-marked"), None);
}

#[test]
fn b034_d3_legal_spellings_of_accept_are_served() {
    let mut scene = Scene::new();
    for accept in [
        "*/*",
        "application/*, text/*",
        "text/event-stream;q=0.9, application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
    ] {
        let response = scene.ask_apart(&list().set("Accept", accept));
        assert_response!(response, 200);
        assert!(response.blocks.is_none(), "{accept}");
    }
    assert_response!(scene.ask_apart(&list().without("Accept")), 200);
    let two_lines = list().without("Accept").field("ACCEPT", "text/html");
    assert_response!(scene.ask_apart(&two_lines.field("accept", "application/json")), 200);
    for stream_only in ["application/json;q=0, text/event-stream", "text/event-stream"] {
        let response = scene.ask_apart(&list().set("Accept", stream_only));
        assert_response!(response, 200);
        assert!(response.blocks.is_some(), "{stream_only}");
    }
}

#[test]
fn b033_types_that_only_look_alike_are_not_acceptable() {
    let mut scene = Scene::new();
    for accept in [
        "application/jsonx, text/event-stream-bogus",
        "text/html",
        "application/json;q=0",
        "*/*;q=0.0",
        "json",
        "application",
    ] {
        let response = scene.ask_apart(&list().set("Accept", accept));
        assert_response!(response, 406, error = -32600, id = 1);
        assert!(!response.closes(), "{accept}");
    }
}

#[test]
fn b035_inv71_json_alone_is_enough_unless_the_answer_must_stream() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let params = |tool| json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": 1 } });
    for (tool, status) in [("echo", 200), ("steps", 200), ("must_stream", 406)] {
        let classic = session.request(1, "tools/call", params(tool));
        let modern = Request::modern(1, "tools/call", params(tool));
        for request in [classic, modern] {
            let response = scene.ask(client, &request.set("Accept", "application/json"));
            assert_response!(response, status);
            assert!(response.blocks.is_none(), "{tool}");
        }
    }
    let deferred = session.request(1, "tools/call", params("slow"));
    scene.send(client, deferred.set("Accept", "application/json").bytes());
    let mut call = scene.take_call();
    call.progress(1.0);
    call.finish("done");
    scene.settle();
    let response = scene.response(client);
    assert_eq!(response.text(), "done");
    assert!(response.blocks.is_none(), "progress is dropped for who cannot read a stream");
}

#[test]
fn b036_d3_the_accept_of_a_notification_is_not_judged() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for accept in ["application/json", "text/html", "application/json;q=0"] {
        let note = session.notify("notifications/initialized", json!({})).set("Accept", accept);
        assert_response!(scene.ask(client, &note), 202);
    }
}

#[test]
fn b005_d16_only_json_in_utf_8_and_uncompressed_is_read() {
    let mut scene = Scene::new();
    for good in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=\"UTF-8\"",
        "application/json ; charset=utf-8",
        "application/json;profile=x",
    ] {
        assert_response!(scene.ask_apart(&list().set("Content-Type", good)), 200);
    }
    for bad in
        ["text/plain", "application/jsonx", "application/json; charset=utf-16", "application", ""]
    {
        let response = scene.ask_apart(&list().set("Content-Type", bad));
        assert_response!(response, 415, error = -32600, id = none);
    }
    assert_response!(scene.ask_apart(&list().without("Content-Type")), 415);
    assert_response!(scene.ask_apart(&list().field("Content-Encoding", "identity")), 200);
    for coding in ["gzip", "br", "identity, gzip"] {
        assert_response!(scene.ask_apart(&list().field("Content-Encoding", coding)), 415);
    }
}

#[test]
fn b046_d21_probes_need_nothing_and_tell_nothing() {
    let builder = waterwheel::Server::builder("probed", "1");
    let mut engine = builder.build_engine::<usize>().expect("no mistake");
    let now = Scene::new().now();
    let mut ask = |target: &str| {
        let key = engine.connect(0, None, now).expect("room");
        let (_, input) = engine.reading(key).expect("open");
        input.push(format!("GET {target} HTTP/1.0\r\n\r\n").as_bytes());
        engine.receive(key, now);
        let (_, output) = engine.writing(key).expect("open");
        String::from_utf8(output.data().to_vec()).expect("text")
    };
    assert!(ask("/health").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(ask("/ready").starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "still starting");

    let deny = |_: &Parsed<'_>| {
        let denial = waterwheel::filter::security::Denial::unauthorized("no");
        waterwheel::filter::security::Verdict::Deny(denial)
    };
    let mut scene = Scene::tuned(|server| server.authenticate(deny));
    for (target, word) in
        [("/health", "alive"), ("/healthz", "alive"), ("/ready", "ready"), ("/readyz", "ready")]
    {
        let response = scene.ask_apart(&Request::new("GET", target));
        assert_response!(response, 200);
        assert_eq!(response.json(), json!({ "status": word }));
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert!(!response.has_field_like("mcp-"));
    }
    assert_response!(scene.ask_apart(&list()), 401);
}

#[test]
fn routes_of_the_user_win_and_are_protected_like_the_endpoint() {
    let mut scene = Scene::tuned(|server| {
        server
            .route(Method::Get, "/health/", |_, _| Reply::json(Status::OK, &b"{\"mine\":1}"[..]))
            .route(Method::Post, "/hook", |request, cx| {
                cx.response_field("X-Method", cx.method().as_str().to_owned().as_str());
                Reply::new(Status::CREATED, "text/plain", request.body().to_vec())
            })
    });
    let response = scene.ask_apart(&Request::new("GET", "/health"));
    assert_eq!(response.json(), json!({ "mine": 1 }));
    let response = scene.ask_apart(&Request::post("body").target("/hook?x"));
    assert_response!(response, 201);
    assert_eq!(response.body, b"body");
    let foreign = Request::post("body").target("/hook").field("Origin", "http://evil.example");
    assert_response!(scene.ask_apart(&foreign), 403);
    let response = scene.ask_apart(&Request::new("GET", "/hook"));
    assert_response!(response, 405);
    assert_eq!(allowed(&response), ["OPTIONS", "POST"]);
}

/// A filter that writes down when it is asked.
struct Recorder {
    name: &'static str,
    seen: Arc<Mutex<Vec<String>>>,
    refuses: bool,
}

impl Recorder {
    fn note(&self, moment: &str) {
        let mut seen = self.seen.lock().expect("no holder of this lock panics");
        seen.push(format!("{} {moment}", self.name));
    }
}

impl Filter for Recorder {
    fn on_head(&mut self, _request: &Parsed<'_>, _cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.note("head");
        if self.refuses {
            let response = Reply::plain_error(Status::FORBIDDEN);
            return Err(Refusal { response, then: AfterRefusal::Drain });
        }
        Ok(())
    }

    fn on_request<'r>(&mut self, _request: &Parsed<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        self.note("request");
        Flow::Next
    }

    fn on_response(&mut self, head: &mut ResponseHead, cx: &mut Cx<'_>) {
        self.note(&format!("response {} {}", head.status.code(), cx.path()));
        head.field("X-Seen-By", self.name);
    }
}

#[test]
fn filters_see_requests_in_order_and_responses_in_reverse() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let filter = |name, refuses| Recorder { name, seen: Arc::clone(&seen), refuses };
    let mut scene =
        Scene::tuned(|server| server.filter(filter("a", false)).filter(filter("b", false)));
    assert_response!(scene.ask_apart(&list()), 200);
    let taken = || std::mem::take(&mut *seen.lock().expect("no holder of this lock panics"));
    let expected = [
        "a head",
        "b head",
        "a request",
        "b request",
        "b response 200 /mcp",
        "a response 200 /mcp",
    ];
    assert_eq!(taken(), expected);
    // A later filter's refusal is seen by the outer ones.
    assert_response!(scene.ask_apart(&list().target("/x")), 404);
    assert_eq!(taken(), ["a head", "b head", "b response 404 /x", "a response 404 /x"]);
    // A deferred answer passes them when it starts.
    let client = scene.connect();
    scene.send(client, Request::modern_call(1, "slow", json!({})).bytes());
    assert_eq!(taken().len(), 4);
    scene.take_call().finish("done");
    scene.settle();
    let response = scene.response(client);
    assert_eq!(taken(), ["b response 200 /mcp", "a response 200 /mcp"]);
    assert!(response.has_field_like("x-seen-by"));

    let mut scene =
        Scene::tuned(|server| server.filter(filter("c", true)).filter(filter("d", true)));
    assert_response!(scene.ask_apart(&list()), 403);
    assert_eq!(taken(), ["c head", "d response 403 /mcp", "c response 403 /mcp"]);
}

#[test]
fn a_body_in_the_wrong_place_does_not_break_the_framing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let get = Request::post(message(1, "ping", json!({}))).method("GET").target("/health");
    assert_response!(scene.ask(client, &get), 200);
    assert_response!(scene.ask(client, &get.target("/mcp")), 400);
    assert_response!(scene.ask(client, &list()), 200);
}
