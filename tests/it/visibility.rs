//! What of a server each caller sees: the rest is not there for it, however it asks.

use serde_json::{Value, json};
use waterwheel::filter::security::Verdict;
use waterwheel::{
    CacheHint, CacheScope, CallToolResult, Item, Limits, Principal, Prompt, PromptCall,
    ReadResourceResult, Resource, ResourceCall, ResourceContents, ResourceTemplate, Server,
    ServerBuilder, Streaming, Tool, ToolCall, Version, Viewer,
};

use crate::support::{Request, Response, Scene, assert_response, message};

/// Whoever the field `User` says, granted what the field `Scopes` says.
fn with_users(server: ServerBuilder) -> ServerBuilder {
    server.authenticate(|request| {
        let user = request.field_str("user").unwrap_or("nobody");
        let scopes = request.field_str("scopes").unwrap_or_default().split(' ');
        Verdict::Allow(Principal::new(user).with_scopes(scopes))
    })
}

/// A server of pairs: one of each for everybody, and a secret one for those with the scope.
fn server() -> ServerBuilder {
    let answer = |_: &mut ToolCall<'_>| Ok(CallToolResult::text("done"));
    let read = |call: &mut ResourceCall<'_>| {
        Ok(ReadResourceResult::new([ResourceContents::text(call.uri(), "text")]))
    };
    let render = |_: &mut PromptCall<'_>| Ok(waterwheel::GetPromptResult::new([]));
    let designated = json!({
        "type": "object",
        "properties": { "a": { "type": "string", "x-mcp-header": "A" } },
    });
    let secret_tool = Tool::new("secret_tool")
        .input_schema(designated)
        .scopes(["more"])
        .streaming(Streaming::Required);
    with_users(Server::builder("s", "1"))
        .tool(Tool::new("open_tool"), answer)
        .tool(secret_tool, answer)
        .prompt(Prompt::new("open_prompt"), render)
        .prompt(Prompt::new("secret_prompt"), render)
        .resource(Resource::new("test://open", "open"), read)
        .resource(Resource::new("test://secret", "secret"), read)
        .resource_template(ResourceTemplate::new("open://{id}", "open"), read)
        .resource_template(ResourceTemplate::new("secret://{id}", "secret"), read)
        .completion(|_| Ok(waterwheel::CompleteResult::new(["x"])))
}

fn is_shown(item: Item<'_>, caller: &Viewer<'_>) -> bool {
    let name = match item {
        Item::Tool(tool) => &tool.name,
        Item::Prompt(prompt) => &prompt.name,
        Item::Resource(resource) => &resource.name,
        Item::ResourceTemplate(template) => &template.name,
        _ => return false,
    };
    !name.contains("secret") || caller.has_scope("see")
}

fn scene_of(server: ServerBuilder) -> Scene {
    Scene::of(server, crate::support::Held::default())
}

fn insider(request: Request) -> Request {
    request.field("User", "alice").field("Scopes", "see more")
}

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

/// The names on a page.
fn names(result: &Value, list: &str, member: &str) -> Vec<String> {
    let items = result[list].as_array().expect("a list");
    items.iter().map(|item| item[member].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_listing_has_what_its_caller_sees_and_nothing_of_anybody_else_s() {
    let mut scene = scene_of(server().visible(is_shown));
    for (method, list, member) in LISTS {
        let ask = Request::modern(1, method, json!({}));
        // The order matters: what one caller was shown must not be kept for the next.
        for (request, count) in
            [(ask.clone(), 1), (insider(ask.clone()), 2), (ask.clone(), 1), (insider(ask), 2)]
        {
            let result = scene.ask_apart(&request).result();
            let names = names(&result, list, member);
            assert_eq!(names.len(), count, "{method}: {names:?}");
            assert!(names[0].contains("open"), "{names:?}");
            assert_eq!(result["cacheScope"], "private");
        }
    }
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let result = scene.ask(client, &session.request(1, "tools/list", json!({}))).result();
    assert_eq!(names(&result, "tools", "name"), ["open_tool"]);
}

/// The same answer but for the name that was asked for.
#[track_caller]
fn assert_alike(hidden: &Response, unknown: &Response, name: &str, stand_in: &str) {
    assert_eq!(hidden.status, unknown.status, "{hidden:?}");
    let hidden = String::from_utf8(hidden.body.clone()).expect("text");
    let unknown = String::from_utf8(unknown.body.clone()).expect("text");
    assert!(!hidden.is_empty());
    assert_eq!(hidden.replace(name, stand_in), unknown);
}

#[test]
fn what_is_hidden_is_answered_like_what_is_not_there() {
    let mut scene = scene_of(server().visible(is_shown));
    let tool = |name: &str| Request::modern_call(1, name, json!({ "a": "x" }));
    let prompt = |name: &str| Request::modern(1, "prompts/get", json!({ "name": name }));
    let resource = |uri: &str| Request::modern(1, "resources/read", json!({ "uri": uri }));
    let complete = |reference: Value| {
        let argument = json!({ "name": "id", "value": "" });
        Request::modern(1, "completion/complete", json!({ "ref": reference, "argument": argument }))
    };
    let of_prompt = |name: &str| complete(json!({ "type": "ref/prompt", "name": name }));
    let of_template = |uri: &str| complete(json!({ "type": "ref/resource", "uri": uri }));
    let names = [
        ("secret_tool", "absent_tool", tool as fn(&str) -> Request),
        ("secret_prompt", "absent_prompt", prompt),
        ("test://secret", "test://absent", resource),
        ("secret://7", "absent://7", resource),
    ];
    for (hidden, absent, ask) in names {
        // Neither its need of a stream nor its header fields or scopes give it away.
        for accept in ["application/json", "application/json, text/event-stream"] {
            let ask = |name: &str| ask(name).set("Accept", accept);
            let (secret, unknown) = (scene.ask_apart(&ask(hidden)), scene.ask_apart(&ask(absent)));
            assert!(secret.error()["code"].is_i64());
            assert_alike(&secret, &unknown, hidden, absent);
        }
    }
    for (secret, unknown) in [
        (of_prompt("secret_prompt"), of_prompt("absent_prompt")),
        (of_template("secret://{id}"), of_template("absent://{id}")),
        (of_template("test://secret"), of_template("test://absent")),
    ] {
        let (secret_answer, unknown) = (scene.ask_apart(&secret), scene.ask_apart(&unknown));
        assert_response!(secret_answer, 200, error = -32602, id = 1);
        assert_alike(&secret_answer, &unknown, "", "");
        assert_eq!(scene.ask_apart(&insider(secret)).result()["completion"]["values"][0], "x");
    }
    for (hidden, _, ask) in names {
        let request = insider(ask(hidden)).field("Mcp-Param-A", "x");
        assert_response!(scene.ask_apart(&request), 200);
    }
}

#[test]
fn what_is_hidden_leaves_no_gap_in_the_pages() {
    let answer = |_: &mut ToolCall<'_>| Ok(CallToolResult::text("done"));
    let mut builder = with_users(Server::builder("s", "1"))
        .limits(Limits { page_items: 2, ..Limits::default() })
        .visible(is_shown);
    // Secret ones at the beginning, in between and at the end.
    for name in ["secret1", "a", "secret2", "secret3", "b", "c", "d", "secret4", "secret5"] {
        builder = builder.tool(Tool::new(name), answer);
    }
    let mut scene = scene_of(builder);
    let mut pages = |asking: fn(Request) -> Request| {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let result =
                scene.ask_apart(&asking(Request::modern(1, "tools/list", params))).result();
            pages.push(names(&result, "tools", "name").join(" "));
            cursor = result["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return pages;
            }
        }
    };
    assert_eq!(pages(|request| request), ["a b", "c d"]);
    assert_eq!(pages(insider), ["secret1 a", "secret2 secret3", "b c", "d secret4", "secret5"]);
}

#[test]
fn b096_what_callers_see_differently_is_private_whatever_the_configuration_says() {
    let public = CacheHint { ttl_ms: 5, scope: CacheScope::Public };
    for (hook, scope) in [(true, "private"), (false, "public")] {
        let server = server().cache(public);
        let server = if hook { server.visible(is_shown) } else { server };
        let mut scene = scene_of(server);
        let read = Request::modern(1, "resources/read", json!({ "uri": "test://open" }));
        let list = Request::modern(1, "resources/list", json!({}));
        for request in [read, list] {
            let result = scene.ask_apart(&request).result();
            assert_eq!((&result["cacheScope"], &result["ttlMs"]), (&json!(scope), &json!(5)));
        }
    }
}

#[test]
fn the_hook_knows_the_revision_and_the_caller() {
    let server = server().visible(|_, caller| {
        caller.version() == Version::V2025_06_18
            && caller.principal().is_some_and(|principal| principal.name() == "alice")
    });
    let mut scene = scene_of(server);
    let client = scene.connect();
    for (version, user, count) in
        [("2025-06-18", "alice", 2), ("2025-06-18", "bob", 0), ("2025-11-25", "alice", 0)]
    {
        let as_user = |request: Request| request.field("User", user);
        let session = scene.initialize_with(client, version, as_user);
        let list = as_user(session.request(1, "tools/list", json!({})));
        let result = scene.ask(client, &list).result();
        assert_eq!(names(&result, "tools", "name").len(), count, "{version} {user}");
        let call = as_user(session.call(2, "open_tool", json!({})));
        assert_eq!(scene.ask(client, &call).message().get("error").is_none(), count > 0);
    }
}

#[test]
fn a_hidden_tool_is_unknown_within_a_batch() {
    let mut scene = scene_of(server().visible(is_shown));
    let client = scene.connect();
    let session = scene.initialize(client, "2025-03-26");
    let call =
        |id: u32, tool: &str| message(id, "tools/call", json!({ "name": tool, "arguments": {} }));
    let batch = format!("[{},{}]", call(1, "open_tool"), call(2, "secret_tool"));
    let response = scene.ask(client, &session.post(batch));
    assert_response!(response, 200);
    let answers = response.json();
    assert_eq!(answers[0]["result"]["content"][0]["text"], "done");
    assert_eq!(answers[1]["error"]["code"], -32602);
}

#[test]
fn a_hidden_resource_does_not_shadow_a_template() {
    let read = |text: &'static str| {
        move |call: &mut ResourceCall<'_>| {
            Ok(ReadResourceResult::new([ResourceContents::text(call.uri(), text)]))
        }
    };
    let server = with_users(Server::builder("s", "1"))
        .resource(Resource::new("test://x", "secret"), read("its own"))
        .resource_template(ResourceTemplate::new("test://{id}", "hidden secret"), read("hidden"))
        .resource_template(ResourceTemplate::new("test://{+id}", "open"), read("template"))
        .visible(is_shown);
    let mut scene = scene_of(server);
    let ask = Request::modern(1, "resources/read", json!({ "uri": "test://x" }));
    for (request, text) in [(ask.clone(), "template"), (insider(ask), "its own")] {
        assert_eq!(scene.ask_apart(&request).result()["contents"][0]["text"], text);
    }
}

#[test]
fn a_hook_that_panics_hides_the_item_and_costs_nothing_else() {
    let server = server().visible(|item, _| match item {
        Item::Tool(tool) if tool.name == "secret_tool" => panic!("expected by the test"),
        _ => true,
    });
    let mut scene = scene_of(server);
    let list = insider(Request::modern(1, "tools/list", json!({})));
    assert_eq!(names(&scene.ask_apart(&list).result(), "tools", "name"), ["open_tool"]);
    let call = insider(Request::modern_call(1, "secret_tool", json!({})));
    assert_response!(scene.ask_apart(&call), 200, error = -32602, id = 1);
}

#[test]
fn nobody_hears_of_changes_to_what_it_does_not_see() {
    let mut scene = scene_of(server().visible(is_shown));
    let uris = ["test://secret", "secret://7", "test://open", "open://7", "test://absent"];
    let changes = |scene: &mut Scene| {
        for uri in uris {
            waterwheel::ServerHandle::of(&scene.engine).resource_updated(uri);
        }
        scene.settle();
        scene.advance(crate::support::seconds(1));
    };
    let heard = |scene: &mut Scene, client| -> Vec<String> {
        let blocks = scene.blocks(client);
        let events =
            blocks.iter().filter(|block| block.is_event()).map(crate::support::Block::data);
        let uris = events.filter_map(|data| data["params"]["uri"].as_str().map(str::to_owned));
        let mut uris: Vec<String> = uris.collect();
        uris.sort_unstable();
        uris
    };
    let seen = ["open://7", "test://absent", "test://open"];
    let all = ["open://7", "secret://7", "test://absent", "test://open", "test://secret"];
    for (asking, expected) in
        [((|request| request) as fn(Request) -> Request, &seen[..]), (insider, &all[..])]
    {
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        let client = scene.connect();
        scene.send(client, asking(Request::modern(1, "subscriptions/listen", wanted)).bytes());
        assert_response!(scene.stream(client), 200);
        let promised = scene.blocks(client)[0].data()["params"]["notifications"].clone();
        assert_eq!(promised["resourceSubscriptions"], json!(uris));
        changes(&mut scene);
        assert_eq!(heard(&mut scene, client), expected);
        scene.hang_up(client);

        let client = scene.connect();
        let session = scene.initialize_with(client, "2025-11-25", asking);
        for uri in uris {
            let follow = session.request(1, "resources/subscribe", json!({ "uri": uri }));
            assert_response!(scene.ask(client, &asking(follow)), 200);
        }
        let stream = asking(session.listen());
        scene.send(client, stream.bytes());
        assert_response!(scene.stream(client), 200);
        changes(&mut scene);
        assert_eq!(heard(&mut scene, client), expected);
        scene.hang_up(client);
    }
}
