//! Subscriptions of modern callers.

use serde_json::{Value, json};
use waterwheel::ServerHandle;

use crate::support::{Block, Client, Request, Scene, assert_response, seconds};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: impl Into<Value>, notifications: &Value) -> Request {
    Request::modern(id, "subscriptions/listen", json!({ "notifications": notifications }))
}

/// Opens a subscription; what it was promised.
#[track_caller]
fn opened(scene: &mut Scene, id: impl Into<Value>, wanted: &Value) -> (Client, Value) {
    let id = id.into();
    let client = scene.connect();
    scene.send(client, listen(id.clone(), wanted).bytes());
    assert_response!(scene.stream(client), 200);
    let blocks = scene.blocks(client);
    let acknowledged = blocks[0].data();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][ID], id);
    (client, acknowledged["params"]["notifications"].clone())
}

fn change_everything(scene: &mut Scene) {
    let handle = ServerHandle::of(&scene.engine);
    handle.tools_changed();
    handle.prompts_changed();
    handle.resources_changed();
    handle.resource_updated("a:1");
    handle.resource_updated("a:2");
    scene.settle();
    scene.advance(seconds(1));
}

#[test]
fn b091_inv113_inv114_inv115_a_subscription_hears_what_it_asked_for_and_nothing_else() {
    let mut scene = Scene::new();
    let wanted = json!({ "promptsListChanged": true, "resourceSubscriptions": ["a:2"] });
    let (client, promised) = opened(&mut scene, "L", &wanted);
    assert_eq!(promised, wanted);
    change_everything(&mut scene);
    let blocks = scene.blocks(client);
    let mut heard: Vec<&str> =
        blocks.iter().map(|block| block.data()["method"].as_str().unwrap()).collect();
    heard.sort_unstable();
    assert_eq!(heard, ["notifications/prompts/list_changed", "notifications/resources/updated"]);
    assert!(blocks.iter().all(|block| block.data()["params"]["_meta"][ID] == "L"));
    assert!(blocks.iter().any(|block| block.data()["params"]["uri"] == "a:2"));
}

#[test]
fn a_burst_of_changes_is_told_once() {
    let mut scene = Scene::new();
    let (client, _) = opened(&mut scene, 1, &json!({ "toolsListChanged": true }));
    let handle = ServerHandle::of(&scene.engine);
    for _ in 0..100 {
        handle.tools_changed();
        scene.settle();
    }
    assert_eq!(scene.received(client), b"");
    scene.advance(std::time::Duration::from_millis(100));
    assert_eq!(scene.blocks(client).len(), 1);
}

#[test]
fn b090_a_subscription_that_can_hear_of_nothing_is_acknowledged_and_over() {
    let mut scene = Scene::tuned(|server| server.without_announcements());
    for wanted in [json!({ "toolsListChanged": true }), json!({})] {
        let response = scene.ask_apart(&listen(5, &wanted));
        let blocks = response.blocks.as_ref().unwrap();
        assert_eq!(blocks.len(), 2, "{blocks:?}");
        assert_eq!(blocks[0].data()["params"]["notifications"], json!({}));
        assert_eq!(response.result()["resultType"], "complete");
        assert_eq!(response.result()["_meta"][ID], 5);
    }
}

#[test]
fn b092_inv117_a_subscription_that_the_server_ends_is_answered() {
    let mut scene = Scene::new();
    let wanted = json!({ "toolsListChanged": true });
    let (first, _) = opened(&mut scene, 1, &wanted);
    let (second, _) = opened(&mut scene, "L", &wanted);
    ServerHandle::of(&scene.engine).end_subscriptions();
    scene.settle();
    for (client, id) in [(first, json!(1)), (second, json!("L"))] {
        let blocks = scene.blocks(client);
        let answer = blocks[0].data();
        assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&id, &json!("complete")));
        assert_eq!(answer["result"]["_meta"][ID], id);
        scene.end_of_stream(client);
        assert_response!(scene.ask(client, &Request::modern(2, "tools/list", json!({}))), 200);
    }
    let (third, _) = opened(&mut scene, 1, &wanted);
    scene.engine.shut_down(scene.now());
    scene.settle();
    assert_eq!(scene.blocks(third)[0].data()["result"]["resultType"], "complete");
    scene.end_of_stream(third);
    assert!(!scene.is_open(third));
}

#[test]
fn inv111_inv116_a_client_that_leaves_ends_its_own_subscription_alone() {
    let mut scene = Scene::new();
    let wanted = json!({ "toolsListChanged": true });
    let (first, _) = opened(&mut scene, 1, &wanted);
    let (second, _) = opened(&mut scene, 1, &wanted);
    scene.hang_up(first);
    assert_eq!(scene.engine.subscriptions(), 1);
    change_everything(&mut scene);
    assert_eq!(scene.blocks(second).len(), 1);
}

#[test]
fn inv106_a_subscription_needs_a_stream_and_exists_for_modern_callers_only() {
    let mut scene = Scene::new();
    let wanted = json!({ "toolsListChanged": true });
    let json_only = listen(1, &wanted).set("Accept", "application/json");
    assert_response!(scene.ask_apart(&json_only), 406, error = -32600, id = 1);
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let classic = session.request(2, "subscriptions/listen", json!({ "notifications": wanted }));
    assert_response!(scene.ask(client, &classic), 200, error = -32601);
    let modern = Request::modern(3, "resources/subscribe", json!({ "uri": "a:1" }));
    assert_response!(scene.ask(client, &modern), 404, error = -32601);
}

#[test]
fn b077_an_idle_subscription_is_kept_alive_by_comments() {
    let mut scene = Scene::new();
    let (client, _) = opened(&mut scene, 1, &json!({ "toolsListChanged": true }));
    scene.advance(seconds(300));
    let blocks = scene.blocks(client);
    assert!(blocks.len() == 10 && blocks.iter().all(Block::is_comment), "{blocks:?}");
}

#[test]
fn changes_are_told_in_the_order_in_which_they_came() {
    let mut scene = Scene::new();
    let uris: Vec<String> = (0..20).map(|number| format!("a:{number}")).collect();
    let (client, _) = opened(&mut scene, 1, &json!({ "resourceSubscriptions": uris }));
    let handle = ServerHandle::of(&scene.engine);
    for uri in uris.iter().rev().chain(&uris) {
        handle.resource_updated(uri);
    }
    scene.settle();
    scene.advance(seconds(1));
    let blocks = scene.blocks(client);
    let told = blocks.iter().map(|block| block.data()["params"]["uri"].as_str().unwrap());
    assert_eq!(told.collect::<Vec<_>>(), uris.iter().rev().collect::<Vec<_>>());
}
