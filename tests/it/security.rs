//! Who may ask at all: `Origin`, `Host`, cross-origin answers, credentials.

use serde_json::json;
use waterwheel::filter::ClientCertificate;
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::{Principal, ServerBuilder, Tool};

use crate::support::{Request, Response, Scene, assert_response};

fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

/// Knows two callers by their tokens.
fn with_tokens(server: ServerBuilder) -> ServerBuilder {
    server.authenticate(|request| match request.field_str("AUTHORIZATION") {
        Some("Bearer alice") => Verdict::Allow(Principal::new("alice")),
        Some("Bearer bob") => Verdict::Allow(Principal::new("bob")),
        _ => Verdict::Deny(
            Denial::unauthorized("a token is needed").field("WWW-Authenticate", "Bearer"),
        ),
    })
}

fn has_cors(response: &Response) -> bool {
    response.has_field_like("access-control-")
}

#[test]
fn b044_inv28_d23_a_foreign_page_is_refused_everywhere() {
    let mut scene = Scene::new();
    let requests = [
        list(),
        list().target("/rpc"),
        Request::new("GET", "/mcp"),
        Request::new("DELETE", "/mcp"),
        Request::new("OPTIONS", "/mcp").field("Access-Control-Request-Method", "POST"),
        Request::new("GET", "/health"),
        Request::new("GET", "/nowhere"),
    ];
    for origin in ["http://evil.example", "null", "http://localhost.evil.example", ""] {
        for request in &requests {
            let client = scene.connect();
            let response = scene.ask(client, &request.clone().field("Origin", origin));
            assert_response!(response, 403, error = -32600, id = none);
            assert!(!has_cors(&response) && response.field("vary").is_none(), "{origin}");
            assert!(response.closes() && scene.is_half_closed(client), "{origin}");
        }
    }
    let doubled = list().field("Origin", "http://localhost").field("Origin", "http://evil.example");
    assert_response!(scene.ask_apart(&doubled), 403);
}

#[test]
fn inv29_pages_of_this_machine_are_welcome_at_any_port_and_nobody_who_looks_like_them() {
    let mut scene = Scene::new();
    let local = [
        "http://localhost",
        "http://localhost:6274",
        "https://localhost:443",
        "http://127.0.0.1:3000",
        "http://[::1]",
        "http://[::1]:65535",
    ];
    for origin in local {
        let response = scene.ask_apart(&list().field("Origin", origin));
        assert_response!(response, 200);
        assert_eq!(response.field("access-control-allow-origin"), Some(origin));
    }
    let foreign = [
        "null",
        "http://localhost.evil.example",
        "http://evil.example#localhost",
        "http://localhost@evil.example",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.10",
        "http://192.168.0.1",
        "http://[::1].evil.example",
        "http://localhost:80:80",
        "http://localhost/",
        "ftp://localhost",
        "localhost",
    ];
    for origin in foreign {
        assert_response!(scene.ask_apart(&list().field("Origin", origin)), 403);
    }
}

#[test]
fn inv28_the_body_of_a_foreign_page_reaches_nothing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let call = Request::modern_call(1, "echo", json!({})).field("Origin", "http://evil.example");
    scene.send(client, call.head());
    assert_response!(scene.response(client), 403);
    scene.send(client, call.bytes());
    assert_eq!((scene.received(client), scene.held.runs()), (&b""[..], 0));
    assert_eq!(scene.buffered_input(client), 0);
}

#[test]
fn inv27_inv31_an_allowed_page_is_reflected_and_may_read_the_session() {
    let mut scene = Scene::new();
    for origin in [
        "http://localhost:3000",
        "https://localhost",
        "http://127.0.0.1:9999",
        "http://[::1]:1",
        "HTTP://LOCALHOST",
    ] {
        let response = scene.ask_apart(&list().field("Origin", origin));
        assert_response!(response, 200);
        assert_eq!(response.field("access-control-allow-origin"), Some(origin));
        assert_eq!(response.field("vary"), Some("Origin"));
        let exposed = response.field("access-control-expose-headers").unwrap_or("");
        assert!(exposed.split(", ").any(|name| name == "Mcp-Session-Id"), "{exposed}");
    }
}

#[test]
fn inv26_who_is_no_page_gets_no_cors_fields() {
    let mut scene = Scene::tuned(with_tokens);
    for request in [
        list(),
        list().field("Authorization", "Bearer bob"),
        Request::new("GET", "/health"),
        Request::new("GET", "/nowhere").field("Authorization", "Bearer bob"),
        Request::new("OPTIONS", "/mcp"),
    ] {
        assert!(!has_cors(&scene.ask_apart(&request)), "{request:?}");
    }
}

#[test]
fn a_configured_origin_replaces_the_local_default() {
    let mut scene = Scene::tuned(|server| server.allow_origin("https://app.example"));
    assert_response!(scene.ask_apart(&list().field("Origin", "https://APP.example")), 200);
    assert_response!(scene.ask_apart(&list().field("Origin", "http://localhost")), 403);
    assert_response!(scene.ask_apart(&list().field("Origin", "https://app.example:8443")), 403);
    let mut scene = Scene::tuned(|server| server.allow_origin("*"));
    let response = scene.ask_apart(&list().field("Origin", "https://any.example"));
    let reflected = response.field("access-control-allow-origin");
    assert_eq!(reflected, Some("https://any.example"), "never a bare star");
}

#[test]
fn cors_fields_are_on_every_kind_of_answer() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let origin = "http://localhost";
    let session = scene.initialize(client, "2025-11-25");
    for request in [
        Request::initialize("2025-11-25"),
        session.notify("notifications/initialized", json!({})),
        session.call(1, "must_stream", json!({})),
        session.call(1, "gives_up", json!({})),
        session.call(1, "panics", json!({})),
        session.post("not json"),
        session.request(1, "nope", json!({})),
        Request::post("x").target("/nowhere"),
        Request::new("GET", "/mcp"),
        Request::new("GET", "/health"),
        list().set("Accept", "text/html"),
        list().set("Content-Type", "text/html"),
        list().set("Mcp-Method", "x"),
    ] {
        let response = scene.ask(client, &request.field("Origin", origin));
        assert_eq!(response.field("access-control-allow-origin"), Some(origin), "{response:?}");
    }
    // A stream that opens long after its request, and a call that is cancelled.
    for finishes in [true, false] {
        scene.send(client, session.call(7, "slow", json!({})).field("Origin", origin).bytes());
        let mut call = scene.take_call();
        if finishes {
            let _ = call.responder.log(waterwheel::LogLevel::Error, None, &"x");
            call.finish("done");
            scene.settle();
        } else {
            assert_response!(scene.ask_apart(&session.cancel(7)), 202);
        }
        let response = scene.response(client);
        assert_eq!(response.field("access-control-allow-origin"), Some(origin));
    }
}

#[test]
fn cors_fields_are_on_the_answer_of_a_batch() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let origin = "http://localhost";
    let session = scene.initialize(client, "2025-03-26");
    let ping = crate::support::message(1, "ping", json!({}));
    let note = crate::support::notification("notifications/initialized", json!({}));
    for (body, status) in [(format!("[{ping}]"), 200), (format!("[{note}]"), 202)] {
        let response = scene.ask(client, &session.post(body).field("Origin", origin));
        assert_response!(response, status);
        assert_eq!(response.field("access-control-allow-origin"), Some(origin), "{status}");
    }
}

#[test]
fn cors_fields_are_on_the_refusal_of_one_call_too_many() {
    let mut scene = Scene::tuned(|server| {
        server.limits(waterwheel::Limits { exchanges_max: 0, ..Default::default() })
    });
    let call = Request::modern_call(1, "slow", json!({})).field("Origin", "http://localhost");
    let response = scene.ask_apart(&call);
    assert_response!(response, 503);
    assert_eq!(response.field("access-control-allow-origin"), Some("http://localhost"));
}

#[test]
fn b042_inv30_a_preflight_needs_no_credentials_and_allows_what_the_page_will_send() {
    let mut scene = Scene::tuned(|server| with_tokens(server).allow_origin("https://app.example"));
    let wanted = "content-type,authorization,mcp-protocol-version,mcp-session-id,mcp-method,\
                  mcp-name,mcp-param-region,mcp-param-elsewhere,last-event-id";
    for target in ["/mcp", "/rpc"] {
        let preflight = Request::new("OPTIONS", target)
            .field("Origin", "https://app.example")
            .field("Access-Control-Request-Method", "POST")
            .field("Access-Control-Request-Headers", wanted);
        let response = scene.ask_apart(&preflight);
        assert_response!(response, 204);
        assert_eq!(response.field("access-control-allow-origin"), Some("https://app.example"));
        assert_eq!(response.field("vary"), Some("Origin"));
        assert_eq!(response.field("access-control-max-age"), Some("86400"));
        let served = Some("DELETE, GET, OPTIONS, POST");
        assert_eq!(response.field("access-control-allow-methods"), served);
        assert_eq!(response.field("allow"), served);
        let allowed = response.field("access-control-allow-headers").unwrap_or("").to_lowercase();
        let allowed: Vec<&str> = allowed.split(", ").collect();
        for name in wanted.split(',').chain(["accept", "mcp-param-n", "mcp-param-zone"]) {
            assert_eq!(allowed.iter().filter(|known| **known == name).count(), 1, "{name}");
        }
    }
}

#[test]
fn a_preflight_echoes_no_list_a_page_made_up() {
    let mut scene = Scene::new();
    let preflight = Request::new("OPTIONS", "/mcp")
        .field("Origin", "http://localhost")
        .field("Access-Control-Request-Headers", "x-evil, mcp-param-, mcp-param-a b, mcp-param");
    let response = scene.ask_apart(&preflight);
    let allowed = response.field("access-control-allow-headers").unwrap_or("").to_lowercase();
    for name in ["evil", "a b"] {
        assert!(!allowed.contains(name), "{allowed}");
    }
    assert!(!allowed.ends_with("mcp-param-"), "{allowed}");
}

#[test]
fn inv32_a_denial_keeps_the_cors_fields_and_the_connection() {
    let mut scene = Scene::tuned(with_tokens);
    let client = scene.connect();
    let denied = list().field("Origin", "http://localhost");
    let response = scene.ask(client, &denied);
    assert_response!(response, 401, error = -32600, id = none);
    assert_eq!(response.field("www-authenticate"), Some("Bearer"));
    assert_eq!(response.field("access-control-allow-origin"), Some("http://localhost"));
    assert!(!response.closes());
    let response = scene.ask(client, &denied.field("Authorization", "Bearer bob"));
    assert_response!(response, 200);
}

#[test]
fn inv33_the_hook_reads_fields_in_any_case_and_names_the_caller() {
    let mut scene = Scene::tuned(with_tokens);
    let client = scene.connect();
    let call = Request::modern_call(1, "caller", json!({}));
    for (name, token, principal) in
        [("authorization", "Bearer alice", "alice"), ("AUTHORIZATION", "Bearer bob", "bob")]
    {
        let response = scene.ask(client, &call.clone().field(name, token));
        assert_eq!(response.result()["structuredContent"]["principal"], principal);
    }
    let denied = list().target("/rpc");
    assert_response!(scene.ask(client, &denied), 401);
    assert_response!(scene.ask(client, &Request::new("DELETE", "/mcp")), 401);
}

#[test]
fn credentials_are_checked_before_a_body_is_kept() {
    let mut scene = Scene::tuned(with_tokens);
    let client = scene.connect();
    let large = Request::post(vec![b'x'; 900_000]);
    let (head, all) = (large.head(), large.bytes());
    scene.send(client, &head);
    assert_response!(scene.response(client), 401);
    for piece in all[head.len()..].chunks(100_000) {
        scene.send(client, piece);
        assert_eq!(scene.buffered_input(client), 0);
    }
    assert_response!(scene.ask(client, &list().field("Authorization", "Bearer bob")), 200);
}

#[test]
fn b045_d15_the_server_answers_to_its_own_names_only() {
    let mut scene = Scene::tuned(|server| server.allow_host("mcp.example.com"));
    for host in [
        "127.0.0.1",
        "127.0.0.1:8080",
        "localhost:8080",
        "[::1]:8080",
        "LOCALHOST",
        "mcp.example.com",
        "MCP.example.com:443",
    ] {
        assert_response!(scene.ask_apart(&list().set("Host", host)), 200);
    }
    for host in ["evil.example", "localhost.evil.example", "192.168.1.7", "mcp.example.com.evil"] {
        for request in [list(), list().target("/rpc"), Request::new("GET", "/health")] {
            let client = scene.connect();
            let response = scene.ask(client, &request.set("Host", host));
            assert_response!(response, 403, error = -32600, id = none);
            assert!(response.closes() && scene.is_half_closed(client), "{host}");
        }
    }
    // The authority of an absolute target outranks the field.
    let absolute = list().target("http://evil.example/mcp");
    assert_response!(scene.ask_apart(&absolute), 403);
    let absolute = list().target("http://localhost:8080/mcp").set("Host", "evil.example");
    assert_response!(scene.ask_apart(&absolute), 200);
    for broken in ["", "a b", "user@localhost", "localhost,evil.example", "localhost/x"] {
        let response = scene.ask_apart(&list().set("Host", broken));
        assert!([400, 403].contains(&response.status), "{broken:?}: {response:?}");
    }
    assert_response!(scene.ask_apart(&list().field("Host", "127.0.0.1")), 400);
}

#[test]
fn inv34_a_public_address_is_refused_unless_allowed() {
    let bind = |server: ServerBuilder| server.bind("0.0.0.0:0").map(|server| server.url());
    let refusal = bind(waterwheel::Server::builder("s", "1")).expect_err("it is public");
    assert!(refusal.to_string().contains("0.0.0.0:0"), "{refusal}");
    assert!(bind(waterwheel::Server::builder("s", "1").allow_public_bind()).is_ok());
}

#[test]
fn a_public_server_without_names_answers_to_addresses_only() {
    let mut scene = Scene::tuned(|server| server.allow_public_bind());
    for (host, status) in [("192.168.1.7:80", 200), ("[2001:db8::1]", 200), ("evil.example", 403)] {
        assert_response!(scene.ask_apart(&list().set("Host", host)), status);
    }
    let mut scene = Scene::tuned(|server| server.allow_public_bind().allow_host("mcp.example"));
    for (host, status) in [("192.168.1.7", 403), ("mcp.example", 200), ("localhost", 200)] {
        assert_response!(scene.ask_apart(&list().set("Host", host)), status);
    }
}

#[test]
fn inv121_a_bad_designation_costs_its_tool_and_is_named() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "number", "x-mcp-header": "A" } },
    });
    let tool = Tool::new("bad").input_schema(schema);
    let builder = waterwheel::Server::builder("s", "1")
        .tool(tool, |_: &mut waterwheel::ToolCall<'_>| Ok(waterwheel::CallToolResult::new()));
    let mistake = builder.build_engine::<usize>().expect_err("it cannot be served").to_string();
    assert!(mistake.contains("bad") && mistake.contains("x-mcp-header"), "{mistake}");
}

#[test]
fn a_client_certificate_names_the_caller_and_goes_with_its_connection() {
    let mut scene = Scene::tuned(|server| {
        server.authenticate_with(|_, cx| match cx.client_certificate() {
            Some(certificate) => Verdict::Allow(Principal::new(certificate.subject())),
            None => Verdict::Deny(Denial::forbidden("a certificate is needed")),
        })
    });
    let call = Request::modern_call(1, "caller", json!({}));
    let (known, unknown) = (scene.connect(), scene.connect());
    let key = scene.key(known);
    let certificate = ClientCertificate::new(vec![1], "CN=alice".into(), Vec::new());
    scene.engine.set_client_certificate(key, certificate);
    for _ in 0..2 {
        let result = scene.ask(known, &call).result();
        assert_eq!(result["structuredContent"]["principal"], "CN=alice");
    }
    assert_response!(scene.ask(unknown, &call), 403);
    scene.hang_up(known);
    let next = scene.connect();
    assert_response!(scene.ask(next, &call), 403);
}
