//! Tools that need something of the user, the model or the client before they answer. Each has one
//! handler for both eras: it says what it needs, and is run again with the answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Deserialize;
use serde_json::json;
use waterwheel::filter::{Cx, Response};
use waterwheel::http::{Method, Request, Status};
use waterwheel::{
    BooleanField, CallError, CallToolResult, ChoiceField, CreateMessage, FormSchema, InputRequest,
    NeedInput, NumberField, Reply, Responder, ServerBuilder, TextField, Tool, ToolCall,
};

use crate::tools::object;

type Asked = Result<Reply<CallToolResult>, CallError>;

pub(crate) fn add_to(server: ServerBuilder, desk: &Desk) -> ServerBuilder {
    let (reception, door) = (desk.clone(), desk.clone());
    let prompt = object(json!({ "prompt": { "type": "string" } }));
    server
        .tool(
            Tool::new("book_table").description("Asks the user for the details by a form"),
            book_table,
        )
        .tool(
            Tool::new("sign_in").description("Sends the user to a page of this server"),
            move |call: &mut ToolCall<'_>| sign_in(call, &reception),
        )
        .tool_blocking(
            Tool::new("ask_model")
                .description("Puts the prompt to the model of the client")
                .input_schema(prompt),
            ask_model,
        )
        .tool_deferred(
            Tool::new("list_folders").description("Lists the folders the client works in"),
            list_folders,
        )
        .route(Method::Get, CONFIRM_PATH, move |request: &Request<'_>, _: &mut Cx<'_>| {
            confirm(request, &door)
        })
}

/// Answers are what a client claims, so the form is checked as arguments are: by reading it as a
/// type.
#[derive(Deserialize)]
struct Booking {
    name: String,
    guests: u32,
    kitchen: String,
    outside: bool,
}

fn book_table(call: &mut ToolCall<'_>) -> Asked {
    let Some(answer) = call.answers().elicited("booking") else {
        let form = FormSchema::new()
            .field("name", TextField::new().title("Your name").min_length(1).required())
            .field("guests", NumberField::integer().minimum(1).maximum(12).required())
            .field("kitchen", ChoiceField::new(["thai", "greek"]).default("thai").required())
            .field("outside", BooleanField::new().default(false).required());
        let ask = InputRequest::elicit("When you come, how many will you be?", form);
        return Ok(NeedInput::new().ask("booking", ask).into());
    };
    let Some(booking) = answer.content::<Booking>() else {
        return Ok(CallToolResult::text("No table was booked.").into());
    };
    let Booking { name, guests, kitchen, outside } = booking;
    let place = if outside { "outside" } else { "inside" };
    let text = format!("A {kitchen} table {place} for {guests} is booked for {name}.");
    Ok(CallToolResult::text(text).into())
}

fn ask_model(call: &mut ToolCall<'static>) -> Asked {
    #[derive(Deserialize)]
    struct AskModel {
        prompt: String,
    }
    let Some(answer) = call.answers().sampled("model") else {
        let AskModel { prompt } = call.arguments()?;
        let ask = CreateMessage::new(prompt, 100).system_prompt("Be brief.");
        return Ok(NeedInput::new().ask("model", InputRequest::sample(ask)).into());
    };
    let said = answer.text().unwrap_or("nothing that is text");
    Ok(CallToolResult::text(format!("The model says: {said}")).into())
}

/// A deferred handler gives the call back together with what it needs.
fn list_folders(call: ToolCall<'static>, responder: Responder<CallToolResult>) {
    let Some(roots) = call.answers().roots("folders") else {
        let need = NeedInput::new().ask("folders", InputRequest::roots());
        return responder.ask(call, need);
    };
    let uris: Vec<String> = roots.into_iter().map(|root| root.uri).collect();
    responder.finish(CallToolResult::text(uris.join("\n")));
}

/// A page of this server, where the client sees nothing of what the user does.
pub(crate) const CONFIRM_PATH: &str = "/confirm";

/// The ticket travels as the state of the call, sealed against changes by the client.
fn sign_in(call: &ToolCall<'_>, desk: &Desk) -> Asked {
    let (Some(ticket), Some(answer)) = (call.state(), call.answers().elicited("visit")) else {
        let (ticket, url) = desk.issue()?;
        let ask = InputRequest::elicit_url("Please confirm that it is you", url, &ticket);
        return Ok(NeedInput::new().ask("visit", ask).state(ticket).into());
    };
    // That the user agreed to go there does not mean that it went.
    Ok(match answer.is_accepted() && desk.redeem(ticket) {
        true => CallToolResult::text("You are signed in.").into(),
        false => CallToolResult::text("You are not signed in.").into(),
    })
}

fn confirm(request: &Request<'_>, desk: &Desk) -> Response {
    let ticket = request.query().and_then(|query| query.strip_prefix("ticket="));
    match ticket.is_some_and(|ticket| desk.visit(ticket)) {
        true => page(Status::OK, "Thank you. You may close this page.\n"),
        false => page(Status::NOT_FOUND, "There is nothing to confirm here.\n"),
    }
}

fn page(status: Status, text: &'static str) -> Response {
    Response::new(status, "text/plain; charset=utf-8", text.as_bytes())
}

/// Tickets of users who are on their way, the newest last.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<Tickets>>);

#[derive(Default)]
struct Tickets {
    address: Option<SocketAddr>,
    issued: VecDeque<(String, bool)>,
}

/// Users on their way; over it the oldest has to ask again.
const TICKETS_MAX: usize = 64;

impl Desk {
    /// The address is known once the server is bound, which is after its tools are described.
    pub(crate) fn open_at(&self, addresses: &[SocketAddr]) {
        self.tickets().address = addresses.first().copied();
    }

    /// A new ticket that nobody can guess, and where to confirm it.
    fn issue(&self) -> Result<(String, String), CallError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(CallError::new)?;
        let ticket = format!("{:032x}", u128::from_be_bytes(random));
        let mut tickets = self.tickets();
        let address = tickets.address.ok_or_else(|| CallError::new("the desk is closed"))?;
        if tickets.issued.len() >= TICKETS_MAX {
            tickets.issued.pop_front();
        }
        tickets.issued.push_back((ticket.clone(), false));
        let url = format!("http://{address}{CONFIRM_PATH}?ticket={ticket}");
        Ok((ticket, url))
    }

    fn visit(&self, ticket: &str) -> bool {
        let mut tickets = self.tickets();
        let found = tickets.issued.iter_mut().find(|(issued, _)| issued == ticket);
        found.map(|(_, is_visited)| *is_visited = true).is_some()
    }

    /// Whether the page was visited; a ticket is good for one question.
    fn redeem(&self, ticket: &str) -> bool {
        let mut tickets = self.tickets();
        let at = tickets.issued.iter().position(|(issued, _)| issued == ticket);
        at.and_then(|at| tickets.issued.remove(at)).is_some_and(|(_, is_visited)| is_visited)
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.0.lock().unwrap_or_else(|held| held.into_inner())
    }
}
