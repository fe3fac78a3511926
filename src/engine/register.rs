//! Registration: everything that can be wrong with a tool, resource or prompt is found here, once.

use std::sync::Arc;

use super::app::{App, Circuit, ToolCode};
use super::handler::{Handler, Prompts, Resources, Tools};
use crate::error::BuildError;
use crate::filter::bearer::is_scope;
use crate::mcp::catalog::{Catalog, TemplateEntry, ToolEntry};
use crate::mcp::designation::Designations;
use crate::mcp::model::{Prompt, Resource, ResourceTemplate, TaskSupport, Tool};
use crate::mcp::name_warning;
use crate::mcp::schema::Schema;
use crate::mcp::template::Pattern;

/// A tool's compiled schemas, beside its catalog entry.
#[derive(Debug)]
pub(crate) struct Schemas {
    input: Schema,
    output: Option<Arc<Schema>>,
}

impl Schemas {
    pub(crate) fn with(self, handler: Handler<Tools>) -> ToolCode {
        ToolCode { handler, input: self.input, output: self.output, circuit: None }
    }
}

/// Checks a tool: its schemas compile and its designations can be served.
pub(crate) fn check_tool(tool: Tool) -> Result<(ToolEntry, Schemas), BuildError> {
    let invalid =
        |reason: String| BuildError::Invalid { kind: "tool", name: tool.name.clone(), reason };
    if let Some(warning) = name_warning(&tool.name) {
        log::warn!("tool {:?}: {warning}", tool.name);
    }
    if !tool.takes_object() {
        return Err(invalid("the input schema must be of type object".into()));
    }
    if let Some(scope) = tool.scopes.iter().find(|scope| !is_scope(scope)) {
        return Err(invalid(format!("{scope:?} is no scope: it must be one word in ASCII")));
    }
    let designations = Designations::read(&tool.input_schema).map_err(invalid)?;
    let input = Schema::compile(&tool.input_schema)
        .map_err(|reason| invalid(format!("input schema: {reason}")))?;
    let output = tool.output_schema.as_deref().map(Schema::compile).transpose();
    let output = output.map_err(|reason| invalid(format!("output schema: {reason}")))?;
    let schemas = Schemas { input, output: output.map(Arc::new) };
    Ok((ToolEntry { tool, designations }, schemas))
}

/// Puts a checked tool where it is found.
pub(crate) fn shelve_tool(
    catalog: &mut Catalog,
    app: &mut App,
    entry: ToolEntry,
    mut code: ToolCode,
) -> Result<(), BuildError> {
    let name = entry.tool.name.clone();
    let breaker = entry.tool.breaker.or(app.breaker);
    if !entry.tool.scopes.is_empty() {
        catalog.permissions.engage();
    }
    if entry.tool.tasks != TaskSupport::Never && matches!(code.handler, Handler::Direct(_)) {
        let reason = "a direct handler answers at once; tasks need a deferred or blocking one";
        return Err(BuildError::Invalid { kind: "tool", name, reason: reason.to_owned() });
    }
    let seq = catalog.tools.add(&name, entry).ok_or_else(|| duplicate("tool", &name))?;
    code.circuit = breaker.map(|breaker| Box::new(Circuit::new(&name, seq, breaker)));
    app.tools.insert(seq, code);
    Ok(())
}

/// Gives the tools that have no breaker of their own the one that was named for all.
pub(crate) fn install_breakers(catalog: &Catalog, app: &mut App) {
    let Some(breaker) = app.breaker else { return };
    for (seq, entry) in catalog.tools.iter() {
        if let Some(code) = app.tools.get_mut(&seq) {
            let circuit = || Box::new(Circuit::new(&entry.tool.name, seq, breaker));
            code.circuit.get_or_insert_with(circuit);
        }
    }
}

pub(crate) fn add_resource(
    catalog: &mut Catalog,
    app: &mut App,
    resource: Resource,
    handler: Handler<Resources>,
) -> Result<(), BuildError> {
    let uri = resource.uri.clone();
    let seq = catalog.resources.add(&uri, resource).ok_or_else(|| duplicate("resource", &uri))?;
    app.resources.insert(seq, handler);
    Ok(())
}

pub(crate) fn add_template(
    catalog: &mut Catalog,
    app: &mut App,
    template: ResourceTemplate,
    handler: Handler<Resources>,
) -> Result<(), BuildError> {
    let text = template.uri_template.clone();
    let pattern = Pattern::parse(&text).map_err(|reason| BuildError::Invalid {
        kind: "resource template",
        name: text.clone(),
        reason,
    })?;
    let entry = TemplateEntry { template, pattern };
    let added = catalog.templates.add(&text, entry);
    let seq = added.ok_or_else(|| duplicate("resource template", &text))?;
    app.templates.insert(seq, handler);
    Ok(())
}

pub(crate) fn add_prompt(
    catalog: &mut Catalog,
    app: &mut App,
    prompt: Prompt,
    handler: Handler<Prompts>,
) -> Result<(), BuildError> {
    let name = prompt.name.clone();
    let seq = catalog.prompts.add(&name, prompt).ok_or_else(|| duplicate("prompt", &name))?;
    app.prompts.insert(seq, handler);
    Ok(())
}

fn duplicate(kind: &'static str, name: &str) -> BuildError {
    BuildError::Duplicate { kind, name: name.to_owned() }
}
