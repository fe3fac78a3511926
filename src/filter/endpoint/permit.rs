//! What a caller may not see or do, settled before anything else is said about its request.

use super::Ask;
use crate::filter::bearer::Challenge;
use crate::filter::{Cx, Response};
use crate::mcp::permissions::{Item, Viewer};
use crate::mcp::version::Version;
use crate::rpc::Id;

/// The scopes that a request needs and its caller was not all granted.
#[derive(Debug)]
pub(in crate::filter) struct Lacking(Vec<String>);

/// Hides a tool that the caller does not see, which is then as unknown as one that is not
/// there, and refuses what takes more than the caller was granted.
pub(in crate::filter) fn permit(
    ask: &mut Ask<'_>,
    version: Version,
    cx: &Cx<'_>,
) -> Result<(), Lacking> {
    let permissions = &cx.catalog.permissions;
    if !permissions.is_engaged() {
        return Ok(());
    }
    let viewer = Viewer::new(cx.passage.principal.as_ref(), version);
    let tool = ask.tool.and_then(|seq| cx.catalog.tools.get(seq)).map(|entry| &entry.tool);
    let tool = tool.filter(|tool| permissions.shows(Item::Tool(tool), &viewer));
    ask.tool = ask.tool.filter(|_| tool.is_some());

    let of_method = ask.known.into_iter().flat_map(|method| permissions.scopes_of(method));
    let of_tool = tool.into_iter().flat_map(|tool| &tool.scopes).map(String::as_str);
    let needed: Vec<&str> = of_method.chain(of_tool).collect();
    if needed.iter().all(|scope| viewer.has_scope(scope)) {
        return Ok(());
    }
    Err(Lacking(needed.into_iter().map(str::to_owned).collect()))
}

/// The refusal of a request: 403 to a caller who was not granted enough, 401 to one of whom
/// nobody knows who it is.
pub(in crate::filter) fn deny(
    challenge: &Challenge,
    id: Option<&Id>,
    lacking: &Lacking,
    cx: &Cx<'_>,
) -> Response {
    let needed: Vec<&str> = lacking.0.iter().map(String::as_str).collect();
    match cx.passage.principal {
        Some(_) => challenge.insufficient(id, &needed),
        None => challenge.unauthorized(id, &needed),
    }
}
