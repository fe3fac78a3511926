//! Requests to hear of changes, of both eras.

use super::{App, Desk, Made, busy, missing};
use crate::engine::answer::{Answer, status_of};
use crate::exchange::{Caller, Purpose};
use crate::filter::Response;
use crate::filter::endpoint::Ask;
use crate::http::Status;
use crate::mcp::method_not_found;
use crate::mcp::model::{
    EmptyResult, Ending, SubscriptionFilter, SubscriptionsListenParams, read_params,
};
use crate::mcp::permissions::Viewer;
use crate::mcp::subscription::{Change, acknowledge};
use crate::rpc::ErrorObject;

impl App {
    /// Opens a subscription, with all that stands around its method.
    pub(super) fn listen_around(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Answer {
        let refuse =
            |status, error| Answer::Whole(Response::rpc_error(status, Some(&ask.id), error));
        let visit = match self.enter(caller, ask, desk.now) {
            Ok(visit) => visit,
            Err(error) => {
                let status = status_of(caller.version, Ending::Error(error.code));
                return refuse(status, &error);
            }
        };
        match self.listen(caller, ask, desk) {
            Ok(answer) => {
                if let Answer::Listen { id, .. } = &answer {
                    desk.watch(*id, visit);
                }
                answer
            }
            Err((status, error)) => {
                self.leave(visit, Ending::Error(error.code), desk.now);
                refuse(status, &error)
            }
        }
    }

    /// Opens a subscription (revision 2026-07-28, Subscriptions).
    fn listen(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Answer, (Status, ErrorObject)> {
        let params: SubscriptionsListenParams =
            read_params(ask.source.params()).map_err(|error| (Status::OK, error))?;
        let mut filter = self.honoured(params.notifications);
        let principal = caller.principal.as_ref();
        filter.task_ids.retain(|id| desk.tasks.find(id, principal).is_some());
        let followed = filter.resource_subscriptions.len() + filter.task_ids.len();
        if followed > desk.limits.followed_resources_max {
            let error = ErrorObject::invalid_params("too many resources in one subscription");
            return Err((Status::OK, error));
        }
        if desk.subscriptions.check(caller.principal.as_ref(), &ask.id).is_err() {
            let message = "you have an open subscription under this id; choose another";
            return Err((Status::BAD_REQUEST, ErrorObject::invalid_request(message)));
        }
        let opened = desk.open(caller, Purpose::Listen(ask.id.clone()));
        let id = opened.map_err(|_| (Status::UNAVAILABLE, busy()))?;
        let mut acknowledgement = Vec::new();
        acknowledge(&mut acknowledgement, &ask.id, &filter);
        let hears = filter != SubscriptionFilter::default();
        // What the caller does not see is promised like what is not there: nobody hears of it.
        let viewer = Viewer::new(caller.principal.as_ref(), caller.version);
        filter.resource_subscriptions.retain(|uri| !desk.catalog.hides(uri, &viewer));
        desk.subscriptions.add(id, ask.id.clone(), caller.principal.clone(), filter);
        Ok(Answer::Listen { id, acknowledgement, hears })
    }

    /// What of a filter this server can honour: what it declares.
    fn honoured(&self, wanted: SubscriptionFilter) -> SubscriptionFilter {
        let declared = &self.identity.capabilities;
        let follows = declared.resources.is_some_and(|resources| resources.subscribe);
        let followed = if follows { wanted.resource_subscriptions } else { Vec::new() };
        SubscriptionFilter {
            tools_list_changed: wanted.tools_list_changed && declared.announces(&Change::Tools),
            prompts_list_changed: wanted.prompts_list_changed
                && declared.announces(&Change::Prompts),
            resources_list_changed: wanted.resources_list_changed
                && declared.announces(&Change::Resources),
            resource_subscriptions: followed,
            task_ids: wanted.task_ids,
        }
    }

    /// Lets a session follow a resource (revision 2025-11-25, Resources, Subscriptions).
    pub(super) fn subscribe(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        let uri = self.followed(ask)?;
        let followed_max = desk.limits.followed_resources_max;
        let session = caller.session.and_then(|id| desk.sessions.find(id));
        let Some(session) = session else {
            return Err(ErrorObject::invalid_request("following a resource needs a session"));
        };
        if session.followed.len() >= followed_max && !session.followed.contains(uri) {
            return Err(ErrorObject::invalid_params("this session follows too many resources"));
        }
        let viewer = Viewer::new(caller.principal.as_ref(), caller.version);
        if !desk.catalog.hides(uri, &viewer) {
            session.followed.insert(uri.into());
        }
        Ok(self.answer(caller, &ask.id, &EmptyResult::default(), desk))
    }

    /// Lets a session follow a resource no longer. One that it never followed is no mistake.
    pub(super) fn unsubscribe(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        let uri = self.followed(ask)?;
        if let Some(session) = caller.session.and_then(|id| desk.sessions.find(id)) {
            session.followed.remove(uri);
        }
        Ok(self.answer(caller, &ask.id, &EmptyResult::default(), desk))
    }

    fn followed<'a>(&self, ask: &'a Ask<'_>) -> Result<&'a str, ErrorObject> {
        if !self.identity.capabilities.resources.is_some_and(|declared| declared.subscribe) {
            return Err(method_not_found(&ask.method));
        }
        ask.params.uri.as_ref().map(|uri| uri.as_str()).ok_or_else(|| missing("uri"))
    }
}
