//! The metadata of a protected resource: where its tokens come from (RFC 9728).

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use super::super::routing::{Action, Router};
use super::super::{Cx, Response, normal};
use crate::http::{Method, PublicUrl, Request, Status};

/// The name under which clients look for the document.
pub(crate) const WELL_KNOWN: &str = "oauth-protected-resource";

/// How long anybody may keep the document, in seconds. It changes when the configuration does, and
/// an hour is how long a client may then be wrong.
const MAX_AGE: &str = "public, max-age=3600";

/// The document, and where it is served.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    document: Arc<[u8]>,
    /// Without trailing slashes, each once.
    pub(crate) paths: Vec<String>,
}

/// The document as RFC 9728 section 2 has it.
#[derive(Serialize)]
struct Document<'a> {
    resource: &'a str,
    authorization_servers: Vec<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes_supported: &'a [String],
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'a str,
}

impl Metadata {
    /// The metadata of a resource whose endpoint is at `path` of this server.
    pub(super) fn new(
        resource: &PublicUrl,
        issuers: &[PublicUrl],
        scopes: &[String],
        name: &str,
        path: &str,
    ) -> Self {
        let document = Document {
            resource: resource.as_str(),
            authorization_servers: issuers.iter().map(PublicUrl::as_str).collect(),
            scopes_supported: scopes,
            bearer_methods_supported: ["header"],
            resource_name: name,
        };
        let document = serde_json::to_vec(&document).expect("texts and lists of them have JSON");
        // A proxy may forward the path as its clients see it, or as this server does; and some
        // clients look at the root only.
        let mut paths = vec![format!("/.well-known/{WELL_KNOWN}")];
        for path in [resource.path(), path] {
            let path = normal(&format!("{}{path}", paths[0])).to_owned();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Self { document: document.into(), paths }
    }

    /// Adds the routes. The document is for everybody, so it is served to pages of any origin; it
    /// says so to those who send none, too, because caches may keep it.
    pub(crate) fn add_routes(&self, router: &mut Router) {
        for path in &self.paths {
            for method in [Method::Get, Method::Head] {
                let document = Arc::clone(&self.document);
                let serve = move |request: &Request<'_>, _: &mut Cx<'_>| {
                    let body: Cow<'static, [u8]> = Cow::Owned(document.to_vec());
                    let response = Response::json(Status::OK, body).field("Cache-Control", MAX_AGE);
                    match request.field("origin") {
                        Some(_) => response,
                        None => response.field("Access-Control-Allow-Origin", "*"),
                    }
                };
                router.add(method, path, Action::Handle(Box::new(serve)));
            }
        }
    }
}
