//! The route table: method and path to what serves them. Few routes and exact paths, so a scan
//! beats a tree and reads better.

use std::fmt;

use super::header::names_modern_revision;
use super::{Cx, Facts, Filter, Flow, Health, Refusal, Report, Response, normal};
use crate::http::{Method, Request, ResponseHead, Status};

/// Answers what has a route of its own, turns away what has none, and lets the rest pass.
#[derive(Default)]
pub(crate) struct Router {
    routes: Vec<Route>,
}

struct Route {
    method: Method,
    path: String,
    action: Action,
}

/// A user's handler of one route.
pub(crate) type RouteHandler = Box<dyn FnMut(&Request<'_>, &mut Cx<'_>) -> Response>;

/// What happens on a route.
pub(crate) enum Action {
    /// Run this and answer with what it returns.
    Handle(RouteHandler),
    /// Answer with this page about the server.
    Report(Report),
    /// A later filter serves it.
    Pass,
    /// A later filter serves it for callers of the classic era; to others it does not exist.
    PassClassic,
}

/// What the table knows about a request.
enum Lookup {
    Found(usize),
    WrongMethod(String),
    Missing,
}

impl Router {
    /// Adds a route, in place of the one that was there for this method and path.
    pub(crate) fn add(&mut self, method: Method, path: &str, action: Action) {
        let path = normal(path).to_owned();
        self.routes.retain(|route| route.method != method || route.path != path);
        self.routes.push(Route { method, path, action });
    }

    /// Routes of the probes. No session, no credentials, and nothing in them worth reading.
    pub(crate) fn add_probes(&mut self) {
        for method in [Method::Get, Method::Head] {
            for path in ALIVE_PATHS {
                self.add(method, path, Action::Handle(Box::new(|_, _| probe(true, "alive"))));
            }
            for path in READY_PATHS {
                self.add(method, path, Action::Handle(Box::new(|_, cx| ready(cx.health))));
            }
        }
    }

    /// Routes of the pages about the server.
    pub(crate) fn add_reports(&mut self, reports: &[Report]) {
        for report in reports {
            for method in [Method::Get, Method::Head] {
                self.add(method, report.path(), Action::Report(*report));
            }
        }
    }

    /// Every path with the methods that are served on it, for the classic era, which has the most.
    pub(crate) fn served(&self) -> Vec<(String, String)> {
        let mut paths: Vec<&str> = self.routes.iter().map(|route| route.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
            .into_iter()
            .map(|path| (path.to_owned(), self.allow(path, Some(Method::Options), |_| true)))
            .collect()
    }

    /// The methods of a path whose routes pass, as an `Allow` field lists them.
    fn allow(&self, path: &str, extra: Option<Method>, passes: impl Fn(&Route) -> bool) -> String {
        let ours = self.routes.iter().filter(|route| route.path == path && passes(route));
        let mut methods: Vec<&str> = ours.map(|route| route.method.as_str()).collect();
        if !methods.is_empty() {
            methods.extend(extra.map(Method::as_str));
        }
        methods.sort_unstable();
        methods.join(", ")
    }

    /// Whether anything is routed on a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.routes.iter().any(|route| route.path == path)
    }

    /// Takes over another table's routes, which win over those that are here.
    pub(crate) fn adopt(&mut self, other: Self) {
        for route in other.routes {
            self.add(route.method, &route.path, route.action);
        }
    }

    fn find(&self, request: &Request<'_>, facts: &Facts<'_>) -> Lookup {
        let ours = |route: &Route| route.method == facts.method && facts.is_at(&route.path);
        if let Some(index) = self.routes.iter().position(ours)
            && !matches!(self.routes[index].action, Action::PassClassic)
        {
            return Lookup::Found(index);
        }
        let modern = names_modern_revision(request);
        let serves = |route: &Route| match route.action {
            Action::Handle(_) | Action::Report(_) | Action::Pass => true,
            Action::PassClassic => !modern,
        };
        if let Some(index) = self.routes.iter().position(|route| ours(route) && serves(route)) {
            return Lookup::Found(index);
        }
        // A modern caller has no use for methods that only exist for others.
        let extra = (!modern).then_some(Method::Options);
        match self.allow(normal(facts.path()), extra, serves) {
            allow if allow.is_empty() => Lookup::Missing,
            allow => Lookup::WrongMethod(allow),
        }
    }
}

impl Filter for Router {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        match self.find(request, &cx.facts) {
            Lookup::Found(index) => {
                cx.passage.route = Some(index);
                Ok(())
            }
            Lookup::WrongMethod(allow) => {
                let response = Response::plain_error(Status::METHOD_NOT_ALLOWED);
                Err(Refusal::drain(response.field("Allow", allow)))
            }
            Lookup::Missing => Err(Refusal::drain(Response::plain_error(Status::NOT_FOUND))),
        }
    }

    fn on_request<'r>(&mut self, request: &Request<'r>, cx: &mut Cx<'_>) -> Flow<'r> {
        let route = cx.passage.route.and_then(|index| self.routes.get_mut(index));
        match route.map(|route| &mut route.action) {
            Some(Action::Handle(handler)) => Flow::Reply(handler(request, cx)),
            Some(Action::Report(report)) => Flow::Report(*report),
            Some(Action::Pass | Action::PassClassic) | None => Flow::Next,
        }
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

/// Paths of the liveness probe.
pub(crate) const ALIVE_PATHS: [&str; 2] = ["/health", "/healthz"];
/// Paths of the readiness probe.
pub(crate) const READY_PATHS: [&str; 2] = ["/ready", "/readyz"];

fn ready(health: Health) -> Response {
    match health {
        Health::Starting => probe(false, "starting"),
        Health::Serving => probe(true, "ready"),
        Health::Draining => probe(false, "draining"),
    }
}

fn probe(good: bool, word: &str) -> Response {
    let status = if good { Status::OK } else { Status::UNAVAILABLE };
    Response::json(status, format!("{{\"status\":\"{word}\"}}").into_bytes())
        .field("Cache-Control", "no-store")
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = self.routes.iter().map(|route| (route.method, &route.path));
        f.debug_list().entries(routes).finish()
    }
}
