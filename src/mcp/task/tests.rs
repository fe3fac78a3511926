//! Tasks from their beginning to their end, and who may know of them.

use super::super::model::{FormSchema, TextField};
use super::super::model::{Implementation, InputRequest, Meta, Outcome, Stamp, Stamped};
use super::*;
use serde_json::{Value, json};

/// 2025-11-25T10:30:00Z.
const START: u64 = 1_764_066_600;
const HOUR: Duration = Duration::from_secs(3600);
const LIMITS: TaskLimits = TaskLimits { tasks_max: 4, per_caller_max: 3, bytes_max: 16 * 1024 };

fn epoch() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
    Instant::now()
}

fn new_task(owner: Option<&str>) -> NewTask {
    NewTask {
        owner: owner.map(Principal::new),
        version: Version::V2026_07_28,
        ttl: Some(HOUR),
        poll_interval: Some(Duration::from_secs(1)),
    }
}

/// A table with one task that has just begun.
fn begun() -> (Tasks, TaskId) {
    let mut tasks = Tasks::new(LIMITS);
    let id = tasks.create(new_task(None), START, epoch()).unwrap();
    (tasks, id)
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn questions(names: &[&str]) -> InputRequests {
    let form = FormSchema::new().field("f", TextField::new());
    let mut requests = InputRequests::new();
    for name in names {
        requests.set(*name, InputRequest::elicit("m", form.clone()));
    }
    requests
}

fn answers(names: &[&str]) -> Answers {
    let mut answers = Answers::new();
    for name in names {
        answers.insert(name, raw(r#"{"action":"accept"}"#));
    }
    answers
}

fn names(answers: &Answers) -> Vec<&str> {
    answers.iter().map(|(name, _)| name).collect()
}

fn written(result: &impl Outcome) -> Value {
    let stamp = Stamp::new(&Implementation::new("s", "1"));
    let stamped = Stamped::new(result, Version::V2026_07_28, &stamp);
    let mut value = serde_json::to_value(stamped).unwrap();
    value.as_object_mut().unwrap().remove("_meta");
    value
}

fn seen(tasks: &Tasks, id: TaskId) -> Value {
    written(&GetTaskResult(tasks.get(id).unwrap()))
}

/// What is seen of a task beside what is seen of every task.
fn outcome(tasks: &Tasks, id: TaskId) -> Value {
    let mut value = seen(tasks, id);
    let members = value.as_object_mut().unwrap();
    for member in ["taskId", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"] {
        members.remove(member).unwrap();
    }
    assert_eq!(members.remove("resultType").unwrap(), "complete");
    value
}

#[test]
fn a_new_task_is_answered_flat_and_under_a_kind_of_its_own() {
    let (tasks, id) = begun();
    assert_eq!(
        written(&CreateTaskResult(tasks.get(id).unwrap())),
        json!({
            "resultType": "task",
            "taskId": id.to_string(),
            "status": "working",
            "createdAt": "2025-11-25T10:30:00Z",
            "lastUpdatedAt": "2025-11-25T10:30:00Z",
            "ttlMs": 3_600_000,
            "pollIntervalMs": 1000,
        })
    );
}

#[test]
fn a_task_may_last_and_name_no_interval() {
    let mut tasks = Tasks::new(LIMITS);
    let new = NewTask { ttl: None, poll_interval: None, ..new_task(None) };
    let id = tasks.create(new, START, epoch()).unwrap();
    let value = seen(&tasks, id);
    assert_eq!((&value["ttlMs"], value.get("pollIntervalMs")), (&Value::Null, None));
    assert_eq!(tasks.next_deadline(), None);

    let short = Duration::from_micros(1);
    let new = NewTask { ttl: Some(short), poll_interval: Some(short), ..new_task(None) };
    let id = tasks.create(new, START, epoch()).unwrap();
    let value = seen(&tasks, id);
    assert_eq!((&value["ttlMs"], &value["pollIntervalMs"]), (&json!(1), &json!(1)));
}

#[test]
fn a_task_tells_how_it_is_doing_and_when_that_was() {
    let (mut tasks, id) = begun();
    assert!(tasks.tell(id, "half way", START + 60));
    let value = seen(&tasks, id);
    assert_eq!(value["statusMessage"], "half way");
    assert_eq!(value["createdAt"], "2025-11-25T10:30:00Z");
    assert_eq!(value["lastUpdatedAt"], "2025-11-25T10:31:00Z");

    let long = "é".repeat(TASK_STATUS_BYTES_MAX);
    assert!(tasks.tell(id, &long, START));
    let value = seen(&tasks, id);
    assert_eq!(value["statusMessage"].as_str().unwrap().len(), TASK_STATUS_BYTES_MAX);
    assert_eq!(value["lastUpdatedAt"], "2025-11-25T10:31:00Z");
}

#[test]
fn a_result_and_an_error_are_kept_as_they_would_have_been_answered() {
    let (mut tasks, id) = begun();
    tasks.tell(id, "half way", START);
    assert!(tasks.complete(id, raw(r#"{"content":[],"isError":true}"#), START));
    assert_eq!(
        outcome(&tasks, id),
        json!({"status": "completed", "result": {"content": [], "isError": true}})
    );

    let (mut tasks, id) = begun();
    assert!(tasks.fail(id, &ErrorObject::new(-32000, "no luck"), START));
    assert_eq!(
        outcome(&tasks, id),
        json!({
            "status": "failed",
            "statusMessage": "no luck",
            "error": {"code": -32000, "message": "no luck"},
        })
    );

    let (mut tasks, id) = begun();
    assert!(tasks.cancel(id, START));
    assert_eq!(outcome(&tasks, id), json!({"status": "cancelled"}));
}

#[test]
fn inv149_a_task_that_has_ended_does_not_change() {
    let ends: [fn(&mut Tasks, TaskId, u64) -> bool; 3] = [
        |tasks, id, secs| tasks.complete(id, raw(r#"{"content":[]}"#), secs),
        |tasks, id, secs| tasks.fail(id, &ErrorObject::internal(), secs),
        |tasks, id, secs| tasks.cancel(id, secs),
    ];
    for end in ends {
        let (mut tasks, id) = begun();
        assert!(end(&mut tasks, id, START + 1));
        let (before, bytes) = (seen(&tasks, id), tasks.bytes());
        for end in ends {
            assert!(!end(&mut tasks, id, START + 2));
        }
        assert!(!tasks.tell(id, "still here", START + 2));
        assert_eq!(tasks.ask(id, &questions(&["a"]), START + 2), Err(NotAsked::Ended));
        let answered = tasks.answer(id, answers(&["a"]), START + 2);
        assert!(matches!(answered, Answered::Unchanged));
        assert_eq!((seen(&tasks, id), tasks.bytes()), (before, bytes));
    }
}

#[test]
fn inv149_a_foreign_task_looks_like_one_that_does_not_exist() {
    let mut tasks = Tasks::new(LIMITS);
    let (alice, bob, nobody) =
        (Principal::new("alice"), Principal::new("bob"), Principal::new("nobody"));
    let hers = tasks.create(new_task(Some("alice")), START, epoch()).unwrap().to_string();
    let open = tasks.create(new_task(None), START, epoch()).unwrap().to_string();
    assert!(tasks.find(&hers, Some(&alice)).is_some());
    assert!(tasks.find(&open, None).is_some());
    for (id, caller) in [
        (&*hers, Some(&bob)),
        (&hers, None),
        (&open, Some(&alice)),
        (&hers.to_uppercase(), Some(&alice)),
        (&hers[1..], Some(&alice)),
        (&format!("{hers} "), Some(&alice)),
        (&"0".repeat(32), Some(&nobody)),
        ("+1234567890123456789012345678901", None),
        ("gate-test", None),
        ("", None),
    ] {
        assert_eq!(tasks.find(id, caller), None, "{id}");
    }
}

#[test]
fn a_task_asks_and_goes_on_when_all_is_answered() {
    let (mut tasks, id) = begun();
    tasks.ask(id, &questions(&["one", "two"]), START).unwrap();
    let value = outcome(&tasks, id);
    assert_eq!(value["status"], "input_required");
    assert_eq!(value["inputRequests"]["two"]["method"], "elicitation/create");
    assert_eq!(value["inputRequests"]["two"]["params"]["mode"], "form");
    assert!(written(&CreateTaskResult(tasks.get(id).unwrap())).get("inputRequests").is_none());

    assert!(matches!(tasks.answer(id, answers(&["other"]), START + 5), Answered::Unchanged));
    assert_eq!(seen(&tasks, id)["lastUpdatedAt"], "2025-11-25T10:30:00Z");
    assert!(matches!(tasks.answer(id, answers(&["two", "other"]), START + 5), Answered::Partly));
    let value = seen(&tasks, id);
    assert_eq!(value["lastUpdatedAt"], "2025-11-25T10:30:05Z");
    assert_eq!(value["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["one"]);

    // A question is answered once.
    assert!(matches!(tasks.answer(id, answers(&["two"]), START), Answered::Unchanged));
    let Answered::All(all) = tasks.answer(id, answers(&["one", "two"]), START) else {
        panic!("all is answered")
    };
    assert_eq!(names(&all), ["one", "two"]);
    assert_eq!(outcome(&tasks, id), json!({"status": "working"}));
    assert!(matches!(tasks.answer(id, answers(&["one"]), START), Answered::Unchanged));
}

#[test]
fn what_is_no_object_answers_nothing() {
    let (mut tasks, id) = begun();
    tasks.ask(id, &questions(&["a"]), START).unwrap();
    let nothing = Answers::read(&raw(r#"{"a":12345}"#));
    assert!(matches!(tasks.answer(id, nothing, START), Answered::Unchanged));
    assert_eq!(outcome(&tasks, id)["status"], "input_required");
}

#[test]
fn a_question_added_later_is_waited_for_too() {
    let (mut tasks, id) = begun();
    tasks.ask(id, &questions(&["a"]), START).unwrap();
    tasks.ask(id, &questions(&["b"]), START).unwrap();
    assert!(matches!(tasks.answer(id, answers(&["a"]), START), Answered::Partly));
    assert!(
        matches!(tasks.answer(id, answers(&["b"]), START), Answered::All(all) if all.len() == 2)
    );
}

#[test]
fn a_name_is_used_for_one_question_only() {
    let (mut tasks, id) = begun();
    tasks.ask(id, &questions(&["a"]), START).unwrap();
    assert_eq!(tasks.ask(id, &questions(&["b", "a"]), START), Err(NotAsked::NameUsed));
    let value = outcome(&tasks, id);
    assert_eq!(value["inputRequests"].as_object().unwrap().len(), 1);
    tasks.answer(id, answers(&["a"]), START);
    assert_eq!(tasks.ask(id, &questions(&["a"]), START), Err(NotAsked::NameUsed));
    assert_eq!(tasks.ask(id, &questions(&[]), START), Err(NotAsked::Nothing));
    assert_eq!(outcome(&tasks, id)["status"], "working");
}

#[test]
fn a_task_asks_so_many_questions_and_no_more() {
    let mut tasks = Tasks::new(TaskLimits { bytes_max: usize::MAX, ..LIMITS });
    let id = tasks.create(new_task(None), START, epoch()).unwrap();
    for number in 0..TASK_QUESTIONS_MAX {
        tasks.ask(id, &questions(&[&number.to_string()]), START).unwrap();
    }
    assert_eq!(tasks.ask(id, &questions(&["more"]), START), Err(NotAsked::TooMany));
}

#[test]
fn ending_a_task_takes_its_questions_away() {
    let (mut tasks, id) = begun();
    let empty = tasks.bytes();
    tasks.ask(id, &questions(&["a", "b"]), START).unwrap();
    tasks.answer(id, answers(&["a"]), START);
    assert!(tasks.bytes() > empty);
    assert!(tasks.cancel(id, START));
    assert_eq!(outcome(&tasks, id), json!({"status": "cancelled"}));
    assert_eq!(tasks.bytes(), empty);
}

#[test]
fn those_who_listen_hear_what_they_would_be_answered() {
    let (mut tasks, id) = begun();
    tasks.complete(id, raw(r#"{"content":[]}"#), START);
    let task = tasks.get(id).unwrap();
    let mut expected = seen(&tasks, id);
    expected.as_object_mut().unwrap().remove("resultType");
    let told = |meta: &Meta| serde_json::to_value(TaskStatus { task, meta }).unwrap();
    assert_eq!(told(&Meta::new()), expected);
    expected["_meta"] = json!({"k": 1});
    assert_eq!(told(&Meta::new().with("k", 1)), expected);
}

#[test]
fn tasks_are_forgotten_when_their_time_is_up() {
    let mut tasks = Tasks::new(LIMITS);
    let start = epoch();
    let first = tasks.create(new_task(Some("alice")), START, start).unwrap();
    let later = start + Duration::from_secs(60);
    let second = tasks.create(new_task(Some("alice")), START + 60, later).unwrap();
    tasks.complete(first, raw("{}"), START);
    assert_eq!(tasks.next_deadline(), Some(start + HOUR));
    assert_eq!(tasks.poll_expired(start + HOUR - Duration::from_millis(1)), None);
    let expired = tasks.poll_expired(start + HOUR);
    assert_eq!(expired, Some(Expired { id: first, was_running: false }));
    assert_eq!(tasks.poll_expired(start + HOUR), None);
    assert!(tasks.find(&first.to_string(), Some(&Principal::new("alice"))).is_none());
    let expired = tasks.poll_expired(later + HOUR);
    assert_eq!(expired, Some(Expired { id: second, was_running: true }));
    assert_eq!((tasks.len(), tasks.bytes(), tasks.next_deadline()), (0, 0, None));
    assert!(!tasks.complete(second, raw("{}"), START));
}

#[test]
fn callers_and_servers_have_so_many_tasks_and_no_more() {
    let mut tasks = Tasks::new(LIMITS);
    let start = epoch();
    let mut begin = |owner| tasks.create(new_task(owner), START, start);
    for _ in 0..3 {
        begin(Some("alice")).unwrap();
    }
    assert_eq!(begin(Some("alice")), Err(NoTask::CallerFull));
    begin(Some("bob")).unwrap();
    assert_eq!(begin(None), Err(NoTask::Full));
    while tasks.poll_expired(start + HOUR).is_some() {}
    for _ in 0..3 {
        tasks.create(new_task(Some("alice")), START, start).unwrap();
    }
}

#[test]
fn what_there_is_no_room_for_is_not_kept() {
    let bytes_max = TASK_BYTES + 500;
    let mut tasks = Tasks::new(TaskLimits { bytes_max, ..LIMITS });
    let id = tasks.create(new_task(None), START, epoch()).unwrap();
    let long = "x".repeat(1025);
    assert_eq!(tasks.ask(id, &questions(&[&long]), START), Err(NotAsked::Full));
    tasks.ask(id, &questions(&["a", "b"]), START).unwrap();
    let mut large = Answers::new();
    large.insert("a", raw(&json!({"content": long}).to_string()));
    assert!(matches!(tasks.answer(id, large.clone(), START), Answered::Full));
    assert_eq!(outcome(&tasks, id)["inputRequests"].as_object().unwrap().len(), 2);
    // Nothing is kept of answers that are handed over at once.
    large.insert("b", raw("{}"));
    assert!(matches!(tasks.answer(id, large, START), Answered::All(_)));

    assert_eq!(tasks.create(new_task(None), START, epoch()), Err(NoTask::Full));
    assert!(tasks.complete(id, raw(&format!("{long:?}")), START));
    let value = outcome(&tasks, id);
    assert_eq!((&value["status"], &value["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert!(tasks.bytes() <= bytes_max);
}

#[test]
fn a_result_may_take_the_room_of_the_questions_before_it() {
    let mut tasks = Tasks::new(TaskLimits { bytes_max: TASK_BYTES + 300, ..LIMITS });
    let id = tasks.create(new_task(None), START, epoch()).unwrap();
    tasks.ask(id, &questions(&["a"]), START).unwrap();
    let result = format!("{:?}", "x".repeat(280));
    assert!(tasks.complete(id, raw(&result), START));
    assert_eq!(outcome(&tasks, id)["status"], "completed");
}

#[test]
fn a_failing_random_source_begins_no_task() {
    let mut tasks = Tasks::new(LIMITS);
    tasks.draw_ids_from(|| None);
    assert_eq!(tasks.create(new_task(None), START, epoch()), Err(NoTask::NoRandom));
    tasks.draw_ids_from(|| Some([1; 16]));
    let id = tasks.create(new_task(None), START, epoch()).unwrap();
    assert_eq!(id.to_string(), "01".repeat(16));
    assert_eq!(tasks.create(new_task(None), START, epoch()), Err(NoTask::NoRandom));
    assert_eq!(tasks.len(), 1);
}

#[test]
fn ids_are_drawn_at_random_and_not_shown_in_logs() {
    let (tasks, id) = begun();
    let (_, other) = begun();
    assert_ne!(id, other);
    assert!(!format!("{id:?}{tasks:?}").contains(&id.to_string()));
}

#[test]
fn undeclared_and_unknown_have_their_errors() {
    assert_eq!(task_not_found().code, -32602);
    let error = tasks_required();
    assert_eq!(error.code, -32021);
    assert_eq!(
        error.data.unwrap().get(),
        r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#
    );
}
