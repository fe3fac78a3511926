//! Tools and prompts that need something of the client before they answer, for both eras.

use serde_json::{Value, json};
use waterwheel::mcp::model::{
    Answers, BooleanField, ChoiceField, ChoicesField, CreateMessage, ElicitResult, FormSchema,
    InputRequest, NeedInput, NumberField, Reply, TextField,
};
use waterwheel::{
    CallError, CallToolResult, Content, GetPromptResult, Prompt, PromptCall, PromptMessage,
    ServerBuilder, Tool, ToolCall,
};

use crate::tool;

type Asked<R> = Result<Reply<R>, CallError>;

/// Tools that were there before the modern era, and ask in either.
pub(crate) fn classic(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(with_text("test_sampling", "Asks the client's model", "prompt"), |call| {
            let Some(answer) = call.answers().sampled("sample") else {
                let prompt = text_argument(call, "prompt")?;
                return asks("sample", InputRequest::sample(CreateMessage::new(prompt, 100)));
            };
            let said = answer.text().unwrap_or_default();
            Ok(CallToolResult::text(format!("LLM response: {said}")).into())
        })
        .tool(with_text("test_elicitation", "Asks the user", "message"), |call| {
            let Some(answer) = call.answers().elicited("user") else {
                let form = FormSchema::new()
                    .field("username", TextField::new().description("Your name").required())
                    .field("email", TextField::new().description("Your address").required());
                let message = text_argument(call, "message")?;
                return asks("user", InputRequest::elicit(message, form));
            };
            Ok(CallToolResult::text(format!("User response: {}", told(&answer))).into())
        })
        .tool(tool("test_elicitation_sep1034_defaults", "Asks with defaults"), |call| {
            asks_or_tells(call, defaults_form())
        })
        .tool(tool("test_elicitation_sep1330_enums", "Asks for choices"), |call| {
            asks_or_tells(call, choices_form())
        })
}

fn defaults_form() -> FormSchema {
    FormSchema::new()
        .field("name", TextField::new().default("John Doe"))
        .field("age", NumberField::integer().default(30))
        .field("score", NumberField::number().default(number(95.5)))
        .field("status", ChoiceField::new(["active", "inactive", "pending"]).default("active"))
        .field("verified", BooleanField::new().default(true))
}

fn number(value: f64) -> serde_json::Number {
    serde_json::Number::from_f64(value).expect("the number is finite")
}

fn choices_form() -> FormSchema {
    let plain = ["option1", "option2", "option3"];
    let titled = [("value1", "First Option"), ("value2", "Second Option")];
    FormSchema::new()
        .field("untitledSingle", ChoiceField::new(plain))
        .field("titledSingle", ChoiceField::titled(titled))
        .field("legacyEnum", ChoiceField::named([("opt1", "Option One"), ("opt2", "Option Two")]))
        .field("untitledMulti", ChoicesField::new(plain))
        .field("titledMulti", ChoicesField::titled(titled))
}

fn asks_or_tells(call: &ToolCall<'_>, form: FormSchema) -> Asked<CallToolResult> {
    match call.answers().elicited("form") {
        None => asks("form", InputRequest::elicit("Please fill in the form", form)),
        Some(answer) => {
            Ok(CallToolResult::text(format!("Elicitation completed: {}", told(&answer))).into())
        }
    }
}

fn told(answer: &ElicitResult) -> String {
    let action = json!(answer.action);
    let content = answer.content.as_ref().map_or("{}", |content| content.get());
    format!("action={}, content={content}", action.as_str().unwrap_or_default())
}

fn with_text(name: &str, description: &str, argument: &str) -> Tool {
    Tool::new(name).description(description).input_schema(json!({
        "type": "object",
        "properties": { argument: { "type": "string" } },
        "required": [argument],
    }))
}

fn text_argument(call: &ToolCall<'_>, name: &str) -> Result<String, CallError> {
    let arguments: Value = call.arguments()?;
    Ok(arguments[name].as_str().unwrap_or_default().to_owned())
}

fn asks<R>(name: &str, request: InputRequest) -> Asked<R> {
    Ok(NeedInput::new().ask(name, request).into())
}

/// Tools and a prompt of the modern scenarios.
pub(crate) fn modern(builder: ServerBuilder) -> ServerBuilder {
    several(single(builder)).prompt(
        Prompt::new("test_input_required_result_prompt").description("Needs some context"),
        |call: &mut PromptCall| {
            let Some(context) = given(call.answers(), "user_context", "context") else {
                let form = FormSchema::new().field("context", TextField::new().required());
                return asks("user_context", InputRequest::elicit("What is it about?", form));
            };
            let text = format!("Use this context: {context}");
            Ok(GetPromptResult::new([PromptMessage::user(Content::text(text))]).into())
        },
    )
}

/// What a form has in a field; none without an accepted form that has it.
fn given(answers: &Answers, name: &str, field: &str) -> Option<String> {
    let content: Value = answers.elicited(name)?.content()?;
    Some(content[field].as_str()?.to_owned())
}

fn name_form() -> InputRequest {
    let form = FormSchema::new().field("name", TextField::new().required());
    InputRequest::elicit("What is your name?", form)
}

fn confirm_form() -> InputRequest {
    let form = FormSchema::new().field("ok", BooleanField::new().required());
    InputRequest::elicit("Is this all right?", form)
}

fn capital_question() -> InputRequest {
    InputRequest::sample(CreateMessage::new("What is the capital of France?", 100))
}

/// Tools that ask one thing.
fn single(builder: ServerBuilder) -> ServerBuilder {
    let asks_name = |call: &mut ToolCall<'_>| match given(call.answers(), "user_name", "name") {
        None => asks("user_name", name_form()),
        Some(name) => Ok(CallToolResult::text(format!("Hello, {name}!")).into()),
    };
    builder
        .tool(tool("test_input_required_result_elicitation", "Asks for a name"), asks_name)
        .tool(tool("test_streaming_elicitation", "Asks for a name"), asks_name)
        .tool(tool("test_input_required_result_sampling", "Asks the model"), |call| {
            match call.answers().sampled("capital_question") {
                None => asks("capital_question", capital_question()),
                Some(answer) => {
                    let said = answer.text().unwrap_or_default();
                    Ok(CallToolResult::text(format!("The model says: {said}")).into())
                }
            }
        })
        .tool(tool("test_input_required_result_list_roots", "Asks for roots"), |call| {
            match call.answers().roots("client_roots") {
                None => asks("client_roots", InputRequest::roots()),
                Some(roots) => Ok(CallToolResult::text(format!("{} roots", roots.len())).into()),
            }
        })
        .tool(tool("test_input_required_result_request_state", "Keeps a state"), confirms)
        .tool(tool("test_input_required_result_tampered_state", "Keeps a state"), confirms)
}

fn confirms(call: &mut ToolCall<'_>) -> Asked<CallToolResult> {
    match (call.state(), call.answers().elicited("confirm")) {
        (Some(state), Some(answer)) => {
            let text = format!("state-ok: {state}, {}", told(&answer));
            Ok(CallToolResult::text(text).into())
        }
        _ => Ok(NeedInput::new().ask("confirm", confirm_form()).state("round-1").into()),
    }
}

/// Tools that ask several things, at once or in turn.
fn several(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("test_input_required_result_multiple_inputs", "Asks everything"), |call| {
            let answers = call.answers();
            let name = given(answers, "user_name", "name");
            match (name, answers.sampled("capital_question"), answers.roots("client_roots")) {
                (Some(name), Some(_), Some(_)) => {
                    Ok(Reply::Done(CallToolResult::text(format!("All is known, {name}"))))
                }
                _ => Ok(Reply::NeedInput(
                    NeedInput::new()
                        .ask("user_name", name_form())
                        .ask("capital_question", capital_question())
                        .ask("client_roots", InputRequest::roots())
                        .state("all"),
                )),
            }
        })
        .tool(tool("test_input_required_result_multi_round", "Asks twice"), |call| {
            let first = given(call.answers(), "step1", "name");
            let second = given(call.answers(), "step2", "color");
            match (call.state(), first, second) {
                (Some("step1"), Some(name), _) => {
                    let state = format!("step2:{name}");
                    let form = FormSchema::new().field("color", TextField::new().required());
                    let request = InputRequest::elicit("Which colour do you like?", form);
                    let need = NeedInput::new().ask("step2", request).state(state);
                    Ok(Reply::NeedInput(need))
                }
                (Some(state), _, Some(name)) if state.starts_with("step2:") => {
                    Ok(Reply::Done(CallToolResult::text(format!("{state}, {name}"))))
                }
                _ => {
                    let need = NeedInput::new().ask("step1", name_form()).state("step1");
                    Ok(Reply::NeedInput(need))
                }
            }
        })
        .tool(tool("test_input_required_result_capabilities", "Asks what it can"), |call| {
            let able = call.client_capabilities();
            let mut need = NeedInput::new();
            for (name, request) in
                [("capital_question", capital_question()), ("user_name", name_form())]
            {
                if request.is_declared(&able) {
                    need = need.ask(name, request);
                }
            }
            if need.is_empty() || !call.answers().is_empty() {
                return Ok(Reply::Done(CallToolResult::text("There is nothing left to ask")));
            }
            Ok(Reply::NeedInput(need))
        })
}
