//! A tool whose call may become a task: its caller is answered at once, and collects the result
//! when it likes.

use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use waterwheel::{
    BooleanField, CallError, CallToolResult, FormSchema, InputRequest, NeedInput, Progress, Reply,
    ServerBuilder, TaskSupport, Tool, ToolCall,
};

use crate::tools::object;

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    let tool = Tool::new("bake_cake")
        .description("Bakes for some seconds, then asks about the icing; a task for who knows them")
        .input_schema(object(json!({
            "seconds": { "type": "number", "minimum": 0, "maximum": 60 },
        })))
        .tasks(TaskSupport::Allowed);
    server.tool_blocking(tool, bake_cake)
}

#[derive(Deserialize)]
struct BakeCake {
    seconds: f64,
}

#[derive(Deserialize)]
struct Icing {
    icing: bool,
}

/// What the call keeps for itself while it asks: that the cake is in the oven no more.
const BAKED: &str = "baked";

fn bake_cake(call: &mut ToolCall<'static>) -> Result<Reply<CallToolResult>, CallError> {
    if call.state() != Some(BAKED) {
        let BakeCake { seconds } = call.arguments()?;
        // Callers who know no tasks wait, and so does whoever comes when there are too many.
        call.become_task();
        bake(call, seconds)?;
        let form = FormSchema::new().field("icing", BooleanField::new().default(true).required());
        let ask = InputRequest::elicit("It is done. Would you like icing?", form);
        if ask.is_declared(&call.client_capabilities()) {
            return Ok(NeedInput::new().ask("icing", ask).state(BAKED).into());
        }
    }
    let answer = call.answers().elicited("icing");
    let Icing { icing } =
        answer.and_then(|answer| answer.content()).unwrap_or(Icing { icing: false });
    let cake = if icing { "a cake with icing" } else { "a plain cake" };
    Ok(CallToolResult::text(cake).into())
}

/// In small pieces, so that a task which is cancelled ends soon.
fn bake(call: &mut ToolCall<'static>, seconds: f64) -> Result<(), CallError> {
    const PIECES: u32 = 20;
    for piece in 1..=PIECES {
        #[expect(clippy::disallowed_methods, reason = "this is a worker thread, not the loop")]
        thread::sleep(Duration::from_secs_f64(seconds) / PIECES);
        if call.is_cancelled() {
            return Err(CallError::new("nobody wants the cake any more"));
        }
        call.progress(&Progress::new(piece.into()).total(PIECES.into()).message("baking"));
    }
    Ok(())
}
