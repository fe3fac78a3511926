//! Who listens to which change (revision 2026-07-28, Subscriptions).
//!
//! A subscription is its stream: it begins with the request that opens the stream and ends with
//! it. What has changed is told in the words of the protocol, one message for each subscription,
//! since each carries the id of its own.

use std::collections::HashMap;

use serde::Serialize;

use super::model::{Meta, Outcome, SubscriptionFilter};
use super::{meta_key, notification};
use crate::key::{ExchangeId, Hasher, Principal};
use crate::mcp::task::{Task, TaskId, TaskStatus};
use crate::mcp::version::Version;
use crate::rpc::{Id, encode};

/// Something about the server that is different now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// The contents of the resource with this URI.
    Resource(String),
}

impl Change {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Tools => notification::TOOLS_LIST_CHANGED,
            Self::Prompts => notification::PROMPTS_LIST_CHANGED,
            Self::Resources => notification::RESOURCES_LIST_CHANGED,
            Self::Resource(_) => notification::RESOURCES_UPDATED,
        }
    }

    fn uri(&self) -> Option<&str> {
        match self {
            Self::Resource(uri) => Some(uri),
            Self::Tools | Self::Prompts | Self::Resources => None,
        }
    }

    /// The notification, for a subscription or for a session that has none.
    pub(crate) fn write(&self, out: &mut Vec<u8>, subscription: Option<&Id>) {
        let meta = subscription.map(|subscription_id| Tag { subscription_id });
        let params = ChangeParams { meta, uri: self.uri() };
        encode::write_notification(out, self.method(), &params);
    }

    fn is_wanted(&self, filter: &SubscriptionFilter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed,
            Self::Prompts => filter.prompts_list_changed,
            Self::Resources => filter.resources_list_changed,
            Self::Resource(uri) => filter.resource_subscriptions.iter().any(|known| known == uri),
        }
    }
}

/// All open subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    open: HashMap<ExchangeId, Subscription, Hasher>,
    /// Subscriptions of callers who are known by name, by the id each gave its own.
    named: HashMap<(Principal, Id), ExchangeId, Hasher>,
}

#[derive(Debug)]
struct Subscription {
    id: Id,
    caller: Option<Principal>,
    filter: SubscriptionFilter,
}

/// The caller has a subscription under this id already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken;

impl Subscriptions {
    /// Whether a caller may open a subscription under this id. Callers without a name are
    /// strangers to each other, so that their ids never meet.
    pub(crate) fn check(&self, caller: Option<&Principal>, id: &Id) -> Result<(), Taken> {
        let key = caller.map(|caller| (caller.clone(), id.clone()));
        if key.is_some_and(|key| self.named.contains_key(&key)) { Err(Taken) } else { Ok(()) }
    }

    pub(crate) fn add(
        &mut self,
        stream: ExchangeId,
        id: Id,
        caller: Option<Principal>,
        filter: SubscriptionFilter,
    ) {
        if let Some(caller) = &caller {
            self.named.insert((caller.clone(), id.clone()), stream);
        }
        self.open.insert(stream, Subscription { id, caller, filter });
    }

    /// Ends a subscription; the id under which it was opened.
    pub(crate) fn remove(&mut self, stream: ExchangeId) -> Option<Id> {
        let Subscription { id, caller, .. } = self.open.remove(&stream)?;
        if let Some(caller) = caller {
            self.named.remove(&(caller, id.clone()));
        }
        Some(id)
    }

    /// The streams that want to hear of a change, each with the message it is told.
    pub(crate) fn tell(&self, change: &Change) -> Vec<(ExchangeId, Vec<u8>)> {
        let concerned = self.open.iter().filter(|(_, open)| change.is_wanted(&open.filter));
        concerned
            .map(|(stream, open)| {
                let mut message = Vec::new();
                change.write(&mut message, Some(&open.id));
                (*stream, message)
            })
            .collect()
    }

    /// The streams that want to hear of a task, each with the message it is told.
    pub(crate) fn tell_task(&self, id: TaskId, task: &Task) -> Vec<(ExchangeId, Vec<u8>)> {
        let name = id.to_string();
        let concerned = self.open.iter().filter(|(_, open)| open.filter.task_ids.contains(&name));
        concerned
            .map(|(stream, open)| {
                let mut meta = Meta::new();
                meta.set(meta_key::SUBSCRIPTION_ID, &open.id);
                let mut message = Vec::new();
                let params = TaskStatus { task, meta: &meta };
                encode::write_notification(&mut message, notification::TASKS, &params);
                (*stream, message)
            })
            .collect()
    }

    /// Every open subscription's stream.
    pub(crate) fn streams(&self) -> Vec<ExchangeId> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

/// The first message of a subscription: what of its wishes will be honoured.
pub(crate) fn acknowledge(out: &mut Vec<u8>, id: &Id, filter: &SubscriptionFilter) {
    let params = Acknowledged { meta: Tag { subscription_id: id }, notifications: filter };
    encode::write_notification(out, notification::SUBSCRIPTIONS_ACKNOWLEDGED, &params);
}

/// The last message of a subscription that the server ends.
#[derive(Debug)]
pub(crate) struct ListenResult(Meta);

impl ListenResult {
    pub(crate) fn new(id: &Id) -> Self {
        let mut meta = Meta::new();
        meta.set(meta_key::SUBSCRIPTION_ID, id);
        Self(meta)
    }
}

impl Outcome for ListenResult {
    fn fields<M: serde::ser::SerializeMap>(&self, _: &mut M, _: Version) -> Result<(), M::Error> {
        Ok(())
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.0)
    }
}

/// Which subscription a message belongs to.
#[derive(Serialize)]
struct Tag<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription_id: &'a Id,
}

#[derive(Serialize)]
struct ChangeParams<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Tag<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

#[derive(Serialize)]
struct Acknowledged<'a> {
    #[serde(rename = "_meta")]
    meta: Tag<'a>,
    notifications: &'a SubscriptionFilter,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(tools: bool, uris: &[&str]) -> SubscriptionFilter {
        SubscriptionFilter {
            tools_list_changed: tools,
            resource_subscriptions: uris.iter().map(|uri| (*uri).to_owned()).collect(),
            ..SubscriptionFilter::default()
        }
    }

    fn told(subscriptions: &Subscriptions, change: &Change) -> Vec<(u64, String)> {
        let mut told: Vec<(u64, String)> = subscriptions
            .tell(change)
            .into_iter()
            .map(|(stream, message)| (stream.0, String::from_utf8(message).unwrap()))
            .collect();
        told.sort();
        told
    }

    #[test]
    fn inv114_inv115_each_hears_what_it_asked_for_under_its_own_id() {
        assert_eq!(meta_key::SUBSCRIPTION_ID, "io.modelcontextprotocol/subscriptionId");
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(ExchangeId(1), Id::Number(7), None, filter(true, &[]));
        subscriptions.add(ExchangeId(2), Id::from("7"), None, filter(false, &["a:b"]));
        subscriptions.add(ExchangeId(3), Id::Number(8), None, filter(false, &[]));
        let tools = concat!(
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":"#,
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#
        );
        assert_eq!(told(&subscriptions, &Change::Tools), [(1, tools.to_owned())]);
        let updated = concat!(
            r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":"#,
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"a:b"}}"#
        );
        let change = Change::Resource("a:b".to_owned());
        assert_eq!(told(&subscriptions, &change), [(2, updated.to_owned())]);
        assert_eq!(told(&subscriptions, &Change::Prompts), []);
    }

    #[test]
    fn inv111_inv112_an_id_is_taken_for_its_caller_only() {
        let alice = Principal::new("alice");
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(ExchangeId(1), Id::Number(1), Some(alice.clone()), filter(true, &[]));
        let id = Id::Number(1);
        assert_eq!(subscriptions.check(Some(&alice), &id), Err(Taken));
        assert_eq!(subscriptions.check(Some(&alice), &Id::from("1")), Ok(()));
        assert_eq!(subscriptions.check(Some(&Principal::new("bob")), &id), Ok(()));
        assert_eq!(subscriptions.check(None, &id), Ok(()));
        assert_eq!(subscriptions.remove(ExchangeId(1)), Some(Id::Number(1)));
        assert_eq!(subscriptions.check(Some(&alice), &id), Ok(()));
        assert_eq!(subscriptions.remove(ExchangeId(1)), None);
        assert_eq!(subscriptions.len(), 0);
    }
}
