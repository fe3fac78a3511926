//! Bearer tokens: who gets in, what the others are told, where tokens come from.

mod deferred;
mod scopes;

use serde_json::json;
use waterwheel::filter::bearer::{BearerAuth, Token, TokenVerdict};
use waterwheel::{BuildError, Principal, Server, ServerBuilder};

use crate::support::{Request, Response, Scene, assert_response};

const METADATA: &str = "/.well-known/oauth-protected-resource";
/// How every challenge of the fixture begins.
const INTRO: &str = "Bearer resource_metadata=\
    \"https://p.example/.well-known/oauth-protected-resource/app/mcp\"";

fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

fn bearing(request: Request, token: &str) -> Request {
    request.field("Authorization", &format!("Bearer {token}"))
}

/// A protection that is complete but for its check.
fn protection() -> BearerAuth {
    BearerAuth::new("https://p.example/app/mcp")
        .authorization_server("https://login.example/tenant/")
        .scopes(["notes:read"])
}

/// Knows two callers by tokens that are their names, and one whose time is up.
fn check(token: &Token<'_>) -> TokenVerdict {
    match token.as_str() {
        name @ ("alice" | "bob") => TokenVerdict::valid(Principal::new(name)),
        "expired" => TokenVerdict::invalid("expired \"yesterday\"\r\nX-Evil: 1"),
        "nobody-knows" => TokenVerdict::unavailable("the database is away"),
        "panics" => panic!("expected by the test"),
        _ => TokenVerdict::invalid("unknown"),
    }
}

fn protected(server: ServerBuilder) -> ServerBuilder {
    server.bearer_auth(protection().check(check))
}

fn challenge(response: &Response) -> &str {
    response.field("www-authenticate").expect("a challenge")
}

#[test]
fn b136_a_caller_without_a_good_token_is_told_where_to_get_one() {
    let mut scene = Scene::tuned(protected);
    let client = scene.connect();
    let absent = INTRO.to_owned();
    let invalid =
        |reason: &str| format!("{INTRO}, error=\"invalid_token\", error_description=\"{reason}\"");
    for (request, expected) in [
        (list(), absent.clone()),
        (list().field("Authorization", "Basic eA=="), absent.clone()),
        (list().target("/mcp?access_token=alice"), absent.clone()),
        (bearing(list(), "stranger"), invalid("unknown")),
        (bearing(list(), "a b"), invalid("it is not in the form of a bearer token")),
        (Request::new("DELETE", "/mcp"), absent.clone()),
        (Request::new("GET", "/nowhere"), absent.clone()),
        (list().target("/rpc"), absent),
    ] {
        let response = scene.ask(client, &request);
        assert_response!(response, 401, error = -32600, id = none);
        assert_eq!(challenge(&response), expected, "{request:?}");
        assert!(!response.closes());
    }
    let doubled = bearing(bearing(list(), "alice"), "alice");
    let response = scene.ask(client, &doubled);
    assert_response!(response, 400, error = -32600, id = none);
    assert!(challenge(&response).contains("error=\"invalid_request\""));
    assert_eq!(scene.held.runs(), 0);
}

#[test]
fn b136_inv33_a_good_token_is_read_in_any_case_and_names_the_caller() {
    let mut scene = Scene::tuned(protected);
    let client = scene.connect();
    for (name, value, caller) in [
        ("Authorization", "Bearer alice", "alice"),
        ("authorization", "bearer bob", "bob"),
        ("AUTHORIZATION", "BEARER  alice", "alice"),
    ] {
        let call = Request::modern_call(1, "caller", json!({})).field(name, value);
        let response = scene.ask(client, &call);
        assert_eq!(response.result()["structuredContent"]["principal"], caller);
        assert_eq!(response.field("www-authenticate"), None);
    }
    assert_response!(scene.ask(client, &Request::new("GET", "/health")), 200);
}

#[test]
fn b142_a_reason_stays_within_its_quotes() {
    let mut scene = Scene::tuned(protected);
    let response = scene.ask_apart(&bearing(list(), "expired"));
    assert_response!(response, 401);
    let told = "error_description=\"expired 'yesterday'??X-Evil: 1\"";
    assert!(challenge(&response).ends_with(told), "{response:?}");
    assert_eq!(response.field("x-evil"), None);
}

#[test]
fn a_check_that_cannot_say_or_breaks_is_not_the_token_s_fault() {
    let mut scene = Scene::tuned(protected);
    let response = scene.ask_apart(&bearing(list(), "nobody-knows"));
    assert_response!(response, 503, error = -32600, id = none);
    assert_eq!(response.field("retry-after"), Some("1"));
    assert_eq!(response.field("www-authenticate"), None);
    assert!(!String::from_utf8_lossy(&response.body).contains("database"));
    assert_response!(scene.ask_apart(&bearing(list(), "panics")), 500);
}

#[test]
fn inv32_a_refusal_keeps_the_cors_fields_and_the_connection() {
    let mut scene = Scene::tuned(protected);
    let client = scene.connect();
    let refused = bearing(list(), "stranger").field("Origin", "http://localhost");
    let response = scene.ask(client, &refused);
    assert_response!(response, 401);
    assert_eq!(response.field("access-control-allow-origin"), Some("http://localhost"));
    let exposed = response.field("access-control-expose-headers").unwrap_or("");
    assert!(exposed.contains("WWW-Authenticate"), "{exposed}");
    assert_response!(scene.ask(client, &bearing(list(), "alice")), 200);
    // A page is judged before its token is.
    let foreign = bearing(list(), "alice").field("Origin", "http://evil.example");
    assert_response!(scene.ask(client, &foreign), 403);
}

#[test]
fn b138_the_metadata_is_for_everybody_at_every_place_clients_look() {
    let mut scene = Scene::tuned(protected);
    let client = scene.connect();
    let expected = json!({
        "resource": "https://p.example/app/mcp",
        "authorization_servers": ["https://login.example/tenant/"],
        "scopes_supported": ["notes:read"],
        "bearer_methods_supported": ["header"],
        "resource_name": "fixture",
    });
    for suffix in ["", "/", "/mcp", "/mcp/", "/app/mcp"] {
        let target = format!("{METADATA}{suffix}");
        for origin in [None, Some("http://evil.example"), Some("null"), Some("http://localhost")] {
            let with_origin = |request: Request| match origin {
                Some(origin) => request.field("Origin", origin),
                None => request,
            };
            let response = scene.ask(client, &with_origin(Request::new("GET", &target)));
            assert_response!(response, 200);
            assert_eq!(response.json(), expected);
            assert_eq!(response.field("access-control-allow-origin"), Some("*"));
            assert_eq!(response.field("cache-control"), Some("public, max-age=3600"));
            let head = scene.ask(client, &with_origin(Request::new("HEAD", &target)));
            assert_response!(head, 200);
            assert_eq!(head.field("content-length"), response.field("content-length"));
        }
        let preflight = Request::new("OPTIONS", &target)
            .field("Origin", "http://evil.example")
            .field("Access-Control-Request-Method", "GET")
            .field("Access-Control-Request-Headers", "mcp-protocol-version");
        let response = scene.ask(client, &preflight);
        assert_response!(response, 204);
        assert_eq!(response.field("access-control-allow-origin"), Some("*"));
        let methods = Some("GET, HEAD, OPTIONS");
        assert_eq!(response.field("access-control-allow-methods"), methods);
        let allowed = response.field("access-control-allow-headers").unwrap_or("");
        assert!(allowed.contains("MCP-Protocol-Version"), "{allowed}");
        assert_response!(scene.ask(client, &Request::post("{}").target(&target)), 405);
    }
    let elsewhere = Request::new("GET", &format!("{METADATA}/other"));
    assert_response!(scene.ask(client, &elsewhere), 401);
}

#[test]
fn a_server_without_tokens_has_no_metadata() {
    let mut scene = Scene::new();
    assert_response!(scene.ask_apart(&Request::new("GET", METADATA)), 404);
}

#[test]
fn a_route_of_the_user_in_place_of_the_metadata_is_the_user_s_to_open() {
    let mut scene = Scene::tuned(|server| {
        protected(server).route(waterwheel::http::Method::Get, METADATA, |_, _| {
            let status = waterwheel::http::Status::OK;
            waterwheel::filter::Response::json(status, &b"{\"mine\":1}"[..])
        })
    });
    let mine = Request::new("GET", METADATA);
    assert_response!(scene.ask_apart(&mine), 401);
    assert_eq!(scene.ask_apart(&bearing(mine, "alice")).json(), json!({ "mine": 1 }));
    let ours = Request::new("GET", &format!("{METADATA}/mcp"));
    assert_response!(scene.ask_apart(&ours), 200);
}

#[test]
fn b143_nothing_is_made_from_what_a_request_says() {
    let mut scene = Scene::tuned(protected);
    let expected = scene.ask_apart(&Request::new("GET", METADATA)).json();
    for host in ["evil.example", "localhost.evil.example", ""] {
        let request = Request::new("GET", METADATA).set("Host", host);
        assert_response!(scene.ask_apart(&request), 403);
    }
    let forwarded = |request: Request| {
        request
            .field("X-Forwarded-Host", "evil.example")
            .field("X-Forwarded-Proto", "http")
            .field("Forwarded", "host=evil.example;proto=http")
    };
    let response = scene.ask_apart(&forwarded(Request::new("GET", METADATA)));
    assert_eq!(response.json(), expected);
    assert_eq!(challenge(&scene.ask_apart(&forwarded(list()))), INTRO);
}

#[test]
fn b143_only_a_trusted_proxy_is_asked_which_host_was_meant() {
    let proxy = std::net::IpAddr::from([127, 0, 0, 1]);
    let stranger = std::net::IpAddr::from([10, 0, 0, 1]);
    let trusting = |address| {
        Scene::tuned(move |server: ServerBuilder| {
            server.public_url("https://mcp.example.com").trust_proxy([address])
        })
    };
    let forwarded = |host: &str| list().field("X-Forwarded-Host", host);
    let mut scene = trusting(proxy);
    for (request, status) in [
        (list(), 200),
        (forwarded("mcp.example.com"), 200),
        (forwarded("mcp.example.com").set("Host", "internal-7"), 200),
        (forwarded("evil.example, MCP.example.com:443").set("Host", "internal-7"), 200),
        (forwarded("evil.example"), 403),
        (forwarded("mcp.example.com, evil.example"), 403),
        (forwarded("mcp.example.com").field("X-Forwarded-Host", "evil.example"), 403),
        (forwarded(""), 403),
        (forwarded("user@mcp.example.com"), 403),
        (list().set("Host", "internal-7"), 403),
        (list(), 200),
    ] {
        assert_response!(scene.ask_apart(&request), status);
    }
    // What the same fields mean when they come from somebody else: nothing.
    let mut scene = trusting(stranger);
    assert_response!(scene.ask_apart(&forwarded("evil.example")), 200);
    let internal = forwarded("mcp.example.com").set("Host", "internal-7");
    assert_response!(scene.ask_apart(&internal), 403);
}

#[test]
fn b154_behind_a_path_of_a_proxy_everything_names_the_public_url() {
    let mut scene = Scene::tuned(|server| protected(server).public_url("https://p.example/app"));
    for host in ["p.example", "P.EXAMPLE:443", "127.0.0.1:8080"] {
        let response = scene.ask_apart(&list().set("Host", host));
        assert_response!(response, 401);
        assert_eq!(challenge(&response), INTRO);
        // As the proxy forwards the address in the challenge, and with its own path cut off.
        for suffix in ["/app/mcp", "/mcp"] {
            let metadata = Request::new("GET", &format!("{METADATA}{suffix}")).set("Host", host);
            let document = scene.ask_apart(&metadata).json();
            assert_eq!(document["resource"], "https://p.example/app/mcp");
        }
    }
    assert_response!(scene.ask_apart(&list().set("Host", "q.example")), 403);
    let mut elsewhere = Scene::tuned(|server| {
        let url = "https://p.example/app/.well-known/oauth-protected-resource/mcp";
        server.bearer_auth(protection().metadata_url(url).check(check))
    });
    let response = elsewhere.ask_apart(&list());
    let told = "Bearer resource_metadata=\
        \"https://p.example/app/.well-known/oauth-protected-resource/mcp\"";
    assert_eq!(challenge(&response), told);
}

#[test]
fn b154_a_public_url_is_enough_for_the_host_check() {
    let mut scene = Scene::tuned(|server| server.public_url("https://p.example:8443/app/"));
    assert_response!(scene.ask_apart(&list().set("Host", "p.example")), 200);
    assert_response!(scene.ask_apart(&list().set("Host", "p.example.evil")), 403);
    let mut scene = Scene::new();
    assert_response!(scene.ask_apart(&list().set("Host", "p.example")), 403);
}

#[test]
fn the_empty_host_is_nobody_s() {
    assert_response!(Scene::new().ask_apart(&list().set("Host", "")), 403);
}

fn mistake(builder: ServerBuilder) -> String {
    let mistake = builder.build_engine::<usize>().expect_err("it cannot be served");
    assert!(matches!(mistake, BuildError::Invalid { .. }), "{mistake:?}");
    mistake.to_string()
}

#[test]
fn b142_what_cannot_stand_in_a_challenge_is_refused_before_the_server_runs() {
    let server = || Server::builder("s", "1");
    let with = |protection: BearerAuth| mistake(server().bearer_auth(protection.check(check)));
    let on = |resource: &str| BearerAuth::new(resource).authorization_server("https://as.example");
    let evil = "https://p.example/\r\nX-Evil: 1";
    for resource in [evil, "https://p.example/\"", "https://p.example/\\", "p.example", ""] {
        assert!(with(on(resource)).starts_with("bearer auth"), "{resource}");
    }
    for issuer in [evil, "http://as.example", "as.example", "https://as.example/?x"] {
        let described = BearerAuth::new("https://p.example").authorization_server(issuer);
        assert!(with(described).contains("authorization server"), "{issuer}");
    }
    for scope in ["a b", "a\r\nX-Evil: 1", "a\"", "a\\", "\u{e9}", ""] {
        for described in [
            protection().scopes([scope]),
            protection().required_scopes([scope]),
            protection().method_scopes("tools/list", [scope]),
        ] {
            assert!(with(described).contains("is no scope"), "{scope:?}");
        }
        let tool = waterwheel::Tool::new("t").scopes([scope]);
        let answer = |_: &mut waterwheel::ToolCall<'_>| Ok(waterwheel::CallToolResult::new());
        assert!(mistake(server().tool(tool, answer)).contains("is no scope"), "{scope:?}");
    }
    assert!(with(protection().metadata_url(evil)).contains("character"));
    assert!(with(protection().method_scopes("tools/lists", ["a"])).contains("tools/lists"));
    assert!(with(BearerAuth::new("https://p.example")).contains("authorization server"));
    assert!(mistake(server().bearer_auth(protection())).contains("check"));
    assert!(mistake(server().public_url(evil)).starts_with("public URL"));
}

#[test]
fn a_resource_that_clients_would_not_recognise_is_refused() {
    let at = |public_url: &str| {
        Server::builder("s", "1").public_url(public_url).bearer_auth(protection().check(check))
    };
    for public_url in
        ["https://q.example/app", "https://p.example", "https://p.example/application"]
    {
        assert!(mistake(at(public_url)).contains("within"), "{public_url}");
    }
    assert!(at("HTTPS://P.example/app").build_engine::<usize>().is_ok());
    let both = at("https://p.example/app").authenticate(|_| unreachable!());
    assert!(mistake(both).contains("authenticate"));
}

#[test]
fn b064_a_stale_session_is_not_the_token_s_fault() {
    let mut scene = Scene::tuned(protected);
    let stale = Request::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .field("Mcp-Session-Id", &"0".repeat(32));
    let response = scene.ask_apart(&bearing(stale.clone(), "alice"));
    assert_response!(response, 404);
    assert_eq!(response.field("www-authenticate"), None);
    let response = scene.ask_apart(&bearing(stale, "stranger"));
    assert_response!(response, 401);
    assert!(challenge(&response).contains("invalid_token"));
}

#[test]
fn b065_a_session_is_its_owner_s_whichever_token_the_owner_has() {
    let mut scene = Scene::tuned(|server| {
        server.bearer_auth(protection().check(|token| match token.as_str() {
            "alice-1" => TokenVerdict::valid(Principal::new("alice").with_scopes(["a"])),
            "alice-2" => TokenVerdict::valid(Principal::new("alice")),
            _ => TokenVerdict::valid(Principal::new("bob")),
        }))
    });
    let client = scene.connect();
    let session =
        scene.initialize_with(client, "2025-11-25", |request| bearing(request, "alice-1"));
    let unknown = session.clone();
    let unknown = crate::support::Session::new(&"0".repeat(32), unknown.version);
    for (theirs, nobody_s) in [
        (session.request(1, "tools/list", json!({})), unknown.request(1, "tools/list", json!({}))),
        (session.delete(), unknown.delete()),
    ] {
        let response = scene.ask(client, &bearing(theirs, "bob"));
        assert_response!(response, 404);
        assert_eq!(response, scene.ask(client, &bearing(nobody_s, "bob")));
    }
    let mine = session.request(1, "tools/list", json!({}));
    assert_response!(scene.ask(client, &bearing(mine, "alice-2")), 200);
}

#[test]
fn how_often_somebody_may_ask_is_counted_by_caller_and_by_refusals() {
    let mut scene = Scene::tuned(|server| {
        protected(server).rate_limit(waterwheel::filter::RateLimit::per_minute(2))
    });
    for (request, status) in [
        (bearing(list(), "alice"), 200),
        (bearing(list(), "bob"), 200),
        (bearing(list(), "alice"), 200),
        (bearing(list(), "alice"), 429),
        (bearing(list(), "bob"), 200),
        (Request::new("GET", METADATA), 200),
        (bearing(list(), "nobody-knows"), 503),
        (bearing(list(), "stranger"), 401),
        (list(), 401),
        (bearing(list(), "stranger"), 429),
        (Request::new("GET", METADATA), 200),
    ] {
        assert_response!(scene.ask_apart(&request), status);
    }
}
