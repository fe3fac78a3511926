//! Calls of tools, reads of resources, prompts, completions: from parameters to a handler.

use std::borrow::Cow;
use std::sync::Arc;

use super::run::Run;
use super::tasks::knows_tasks;
use super::{App, Desk, Made, context, missing};
use crate::engine::handler::{CompleteCall, Paused, PromptCall, ResourceCall, ToolCall, Tools};
use crate::exchange::Caller;
use crate::filter::endpoint::Ask;
use crate::mcp::catalog::Catalog;
use crate::mcp::model::{
    CallToolResult, CompleteParams, CompletionReference, ResourceTemplate, Streaming, TaskSupport,
    read_params,
};
use crate::mcp::permissions::{Item, Viewer};
use crate::mcp::task::tasks_required;
use crate::mcp::{method_not_found, resource_not_found};
use crate::rpc::ErrorObject;
use crate::rpc::skim::Snippet;

impl App {
    /// Runs a tool (revision 2026-07-28, Tools).
    pub(super) fn call_tool(
        &mut self,
        mut caller: Caller<'_>,
        ask: Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Made {
        let input = match self.identity.carried(&caller, &ask, desk.now_secs) {
            Ok(input) => input,
            Err(error) => return desk.fail(&ask.id, &error),
        };
        let Some(name) = ask.params.name else {
            return desk.fail(&ask.id, &missing("name"));
        };
        let entry = ask.tool.and_then(|seq| desk.catalog.tools.get(seq));
        if entry.is_some_and(|entry| entry.tool.streaming == Streaming::Never) {
            caller.progress_token = None;
            caller.log_level = None;
            caller.accepts.stream &= !caller.accepts.json;
        }
        let tasks = entry.map_or(TaskSupport::Never, |entry| entry.tool.tasks);
        if tasks != TaskSupport::Never {
            let knows = knows_tasks(&caller);
            if tasks == TaskSupport::Required && !knows {
                return desk.fail(&ask.id, &tasks_required());
            }
            caller.tasks = if knows { tasks } else { TaskSupport::Never };
        }
        let Some(code) = ask.tool.and_then(|seq| self.tools.get_mut(&seq)) else {
            return desk.fail(&ask.id, &unknown("tool", name.as_str()));
        };
        let arguments = ask.params.arguments;
        if arguments.is_some_and(|arguments| !arguments.is_object()) {
            let error = ErrorObject::invalid_params("params.arguments must be an object");
            return desk.fail(&ask.id, &error);
        }
        let run = Run {
            identity: &self.identity,
            workers: &mut self.workers,
            output: code.output.as_ref().map(Arc::clone),
        };
        let given = arguments.unwrap_or(Snippet::EMPTY_OBJECT);
        if let Err(reason) = code.input.check(given.get()) {
            // A model can mend its arguments, so it gets to read what is wrong with them.
            let result = CallToolResult::error(reason);
            return run.write::<Tools>(&caller, &ask.id, &result, desk);
        }
        let mut context = context(caller, ask.id, ask.source);
        context.input = input;
        let call = ToolCall { name: name.0, arguments, context };
        match &mut code.circuit {
            None => run.run(&mut code.handler, call, desk),
            Some(circuit) => run.run_behind(circuit, &mut code.handler, call, desk),
        }
    }

    /// Runs a call again that asked before. What it calls may be gone by now.
    pub(crate) fn run_again(&mut self, paused: Paused, desk: &mut Desk<'_>) -> Made {
        let identity = &self.identity;
        let workers = &mut self.workers;
        let catalog = desk.catalog;
        match paused {
            Paused::Tool(call) => {
                let found = catalog.tools.find(call.name()).map(|(seq, _)| seq);
                let Some(code) = found.and_then(|seq| self.tools.get_mut(&seq)) else {
                    return desk.fail(&call.context.id, &unknown("tool", &call.name));
                };
                let output = code.output.as_ref().map(Arc::clone);
                Run { identity, workers, output }.run(&mut code.handler, call, desk)
            }
            Paused::Resource(call) => {
                let own = catalog.resources.find(call.uri()).map(|(seq, _)| seq);
                let found = match own {
                    Some(seq) => self.resources.get_mut(&seq),
                    None => matching(catalog, call.uri(), |_| true)
                        .and_then(|(seq, _)| self.templates.get_mut(&seq)),
                };
                let Some(handler) = found else {
                    let error = resource_not_found(call.version(), call.uri());
                    return desk.fail(&call.context.id, &error);
                };
                Run { identity, workers, output: None }.run(handler, call, desk)
            }
            Paused::Prompt(call) => {
                let found = catalog.prompts.find(call.name()).map(|(seq, _)| seq);
                let Some(handler) = found.and_then(|seq| self.prompts.get_mut(&seq)) else {
                    return desk.fail(&call.context.id, &unknown("prompt", &call.name));
                };
                Run { identity, workers, output: None }.run(handler, call, desk)
            }
        }
    }

    /// Reads a resource, by its own URI first and by template otherwise.
    pub(super) fn read_resource(
        &mut self,
        caller: Caller<'_>,
        ask: Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Made {
        if self.identity.capabilities.resources.is_none() {
            return desk.fail(&ask.id, &method_not_found(&ask.method));
        }
        let input = match self.identity.carried(&caller, &ask, desk.now_secs) {
            Ok(input) => input,
            Err(error) => return desk.fail(&ask.id, &error),
        };
        let Some(uri) = ask.params.uri else {
            return desk.fail(&ask.id, &missing("uri"));
        };
        let catalog = desk.catalog;
        let viewer = Viewer::new(caller.principal.as_ref(), caller.version);
        let shows = |item| catalog.permissions.shows(item, &viewer);
        let direct = catalog.resources.find(uri.as_str());
        let direct = direct.filter(|(_, resource)| shows(Item::Resource(resource)));
        let direct = direct.map(|(seq, _)| seq);
        let mut variables = Vec::new();
        let handler = match direct {
            Some(seq) => self.resources.get_mut(&seq),
            None => {
                let shows = |template: &ResourceTemplate| {
                    catalog.permissions.shows(Item::ResourceTemplate(template), &viewer)
                };
                matching(catalog, uri.as_str(), shows).and_then(|(seq, found)| {
                    variables = found;
                    self.templates.get_mut(&seq)
                })
            }
        };
        let Some(handler) = handler else {
            let error = resource_not_found(caller.version, uri.as_str());
            return desk.fail(&ask.id, &error);
        };
        let run = Run { identity: &self.identity, workers: &mut self.workers, output: None };
        let mut context = context(caller, ask.id, ask.source);
        context.input = input;
        run.run(handler, ResourceCall { uri: uri.0, variables, context }, desk)
    }

    /// Renders a prompt.
    pub(super) fn get_prompt(
        &mut self,
        caller: Caller<'_>,
        ask: Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Made {
        if self.identity.capabilities.prompts.is_none() {
            return desk.fail(&ask.id, &method_not_found(&ask.method));
        }
        let input = match self.identity.carried(&caller, &ask, desk.now_secs) {
            Ok(input) => input,
            Err(error) => return desk.fail(&ask.id, &error),
        };
        let Some(name) = ask.params.name else {
            return desk.fail(&ask.id, &missing("name"));
        };
        let viewer = Viewer::new(caller.principal.as_ref(), caller.version);
        let shows = |prompt| desk.catalog.permissions.shows(Item::Prompt(prompt), &viewer);
        let found = desk.catalog.prompts.find(name.as_str()).filter(|(_, prompt)| shows(prompt));
        let Some((seq, prompt)) = found else {
            return desk.fail(&ask.id, &unknown("prompt", name.as_str()));
        };
        let arguments = match prompt_arguments(ask.params.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return desk.fail(&ask.id, &error),
        };
        let given = |wanted: &str| arguments.iter().any(|(name, _)| name == wanted);
        if let Some(absent) = prompt.missing_argument(given) {
            let message = format!("the prompt needs the argument {absent:?}");
            return desk.fail(&ask.id, &ErrorObject::invalid_params(message));
        }
        let Some(handler) = self.prompts.get_mut(&seq) else {
            return desk.fail(&ask.id, &ErrorObject::internal());
        };
        let run = Run { identity: &self.identity, workers: &mut self.workers, output: None };
        let mut context = context(caller, ask.id, ask.source);
        context.input = input;
        run.run(handler, PromptCall { name: name.0, arguments, context }, desk)
    }

    /// Completes an argument.
    pub(super) fn complete(
        &mut self,
        caller: Caller<'_>,
        ask: Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Made {
        let Some(handler) = &mut self.completions else {
            return desk.fail(&ask.id, &method_not_found(&ask.method));
        };
        let context = context(caller, ask.id, ask.source);
        let params: CompleteParams<'_> = match read_params(context.params()) {
            Ok(params) => params,
            Err(error) => return desk.fail(&context.id, &error),
        };
        let caller = &context.caller;
        let viewer = Viewer::new(caller.principal.as_ref(), caller.version);
        let known = is_visible(&params.r#ref, desk.catalog, &viewer);
        if !known {
            let error = ErrorObject::invalid_params("params.ref names nothing that is here");
            return desk.fail(&context.id, &error);
        }
        let argument = (params.argument.name.0.into_owned(), params.argument.value.0.into_owned());
        let (reference, settled) = (params.r#ref, params.context.arguments);
        let call = CompleteCall { reference, argument, settled, context };
        let run = Run { identity: &self.identity, workers: &mut self.workers, output: None };
        run.run(handler, call, desk)
    }
}

/// Whether the caller sees what it wants an argument of completed.
fn is_visible(reference: &CompletionReference, catalog: &Catalog, viewer: &Viewer<'_>) -> bool {
    let shows = |item| catalog.permissions.shows(item, viewer);
    match reference {
        CompletionReference::Prompt { name, .. } => {
            catalog.prompts.find(name).is_some_and(|(_, prompt)| shows(Item::Prompt(prompt)))
        }
        CompletionReference::Resource { uri, .. } => {
            let template = catalog.templates.find(uri).map(|(_, entry)| &entry.template);
            let resource = catalog.resources.find(uri).map(|(_, resource)| resource);
            template.is_some_and(|template| shows(Item::ResourceTemplate(template)))
                || resource.is_some_and(|resource| shows(Item::Resource(resource)))
        }
    }
}

/// The first template that a URI fits, and what it has in the template's placeholders.
fn matching(
    catalog: &Catalog,
    uri: &str,
    shows: impl Fn(&ResourceTemplate) -> bool,
) -> Option<(u64, Vec<(String, String)>)> {
    let (seq, found) = catalog.templates.iter().find_map(|(seq, entry)| {
        let found = entry.pattern.matches(uri)?;
        shows(&entry.template).then_some((seq, found))
    })?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Some((seq, found.into_iter().map(owned).collect()))
}

/// The error for a name that nobody has.
fn unknown(kind: &str, name: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("there is no {kind} {:?}", crate::rpc::excerpt(name)))
}

type PromptArguments<'r> = Vec<(Cow<'r, str>, Cow<'r, str>)>;

/// Prompt arguments are strings by the protocol's own definition.
fn prompt_arguments(raw: Option<Snippet<'_>>) -> Result<PromptArguments<'_>, ErrorObject> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    let texts: std::collections::BTreeMap<crate::rpc::Text<'_>, crate::rpc::Text<'_>> =
        serde_json::from_str(raw.get()).map_err(|_| {
            ErrorObject::invalid_params("params.arguments must be an object of strings")
        })?;
    Ok(texts.into_iter().map(|(name, value)| (name.0, value.0)).collect())
}
