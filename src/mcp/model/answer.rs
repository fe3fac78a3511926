//! Results, and the last touch they get on the way out: what the revision of the caller wants to
//! see on every result is added here, in one pass and without building the result twice.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Implementation, Members, Meta, raw};
use crate::mcp::meta_key;
use crate::mcp::version::Version;

/// A result that can be written for any revision.
pub trait Outcome {
    /// Whether the revisions with cache hints want them on every result of this type.
    const CACHEABLE: bool = false;

    /// Writes the members that are the result's own, all but `_meta`, `resultType` and cache hints.
    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error>;

    /// The result's own `_meta`.
    fn meta(&self) -> Option<&Meta>;

    /// How long the result keeps, if it knows better than the configuration.
    fn cache(&self) -> Option<CacheHint> {
        None
    }

    /// The kind of the result, when it is none of the finished ones.
    fn result_type(&self) -> Option<&str> {
        None
    }

    /// Whether the result says that what was asked for could not be done.
    fn is_failure(&self) -> bool {
        false
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a result.
    Result,
    /// With a result that says that a tool failed (`isError`).
    Failure,
    /// With a JSON-RPC error of this code.
    Error(i64),
    /// Without an answer: the caller cancelled it, or has left and nobody else may have the answer.
    Cancelled,
}

impl Ending {
    /// The ending of a request that is answered with this result.
    pub(crate) fn of(result: &impl Outcome) -> Self {
        if result.is_failure() { Self::Failure } else { Self::Result }
    }

    /// The code of the error, if it was one.
    #[must_use]
    pub fn code(self) -> Option<i64> {
        match self {
            Self::Error(code) => Some(code),
            Self::Result | Self::Failure | Self::Cancelled => None,
        }
    }
}

/// Who may keep a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CacheScope {
    /// The caller alone.
    #[default]
    Private,
    /// Anyone between caller and server, for anyone.
    Public,
}

/// How long a result keeps and for whom; by default not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheHint {
    /// For how many milliseconds the result may be taken for fresh.
    pub ttl_ms: u64,
    /// Who may keep it.
    pub scope: CacheScope,
}

/// What every modern result says about the server, written once and copied.
#[derive(Clone, Debug)]
pub struct Stamp {
    server_info: Arc<RawValue>,
}

impl Stamp {
    /// The stamp of a server.
    pub fn new(server: &Implementation) -> Self {
        Self { server_info: Arc::from(raw(server)) }
    }

    /// The server as it is written in results.
    pub fn server_info(&self) -> &RawValue {
        &self.server_info
    }
}

/// A result about to be written for a caller.
#[derive(Clone, Copy, Debug)]
pub struct Stamped<'a, R> {
    /// What is answered.
    pub result: &'a R,
    /// The revision of the caller.
    pub version: Version,
    /// What modern results say about the server.
    pub stamp: Option<&'a Stamp>,
    /// The configured cache hint of the method; the result's own one wins.
    pub cache: Option<CacheHint>,
}

impl<'a, R: Outcome> Stamped<'a, R> {
    /// A result for a caller of `version`, without a configured cache hint.
    pub fn new(result: &'a R, version: Version, stamp: &'a Stamp) -> Self {
        Self { result, version, stamp: Some(stamp), cache: None }
    }

    /// The same with the configured cache hint of the method.
    pub fn cache(self, hint: CacheHint) -> Self {
        Self { cache: Some(hint), ..self }
    }
}

/// The kind of a finished result.
const COMPLETE: &str = "complete";

impl<R: Outcome> Serialize for Stamped<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rules = self.version.rules();
        let mut map = serializer.serialize_map(None)?;
        self.result.fields(&mut map, self.version)?;
        let result_type = self.result.result_type().unwrap_or(COMPLETE);
        if rules.result_type {
            map.serialize_entry("resultType", result_type)?;
        }
        // A question keeps no longer than it takes to answer it.
        if rules.cache_hints && result_type == COMPLETE {
            self.cache_hint(&mut map)?;
        }
        let meta = StampedMeta {
            own: self.result.meta(),
            stamp: self.stamp.filter(|_| self.version.is_modern()),
        };
        if !meta.is_empty() {
            map.serialize_entry("_meta", &meta)?;
        }
        map.end()
    }
}

impl<R: Outcome> Stamped<'_, R> {
    /// Writes the cache hint, if the result has one or must have one.
    fn cache_hint<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let required = R::CACHEABLE.then(CacheHint::default);
        let Some(hint) = self.result.cache().or(self.cache).or(required) else {
            return Ok(());
        };
        map.serialize_entry("ttlMs", &hint.ttl_ms)?;
        map.serialize_entry("cacheScope", &hint.scope)
    }
}

/// A result's own `_meta` and the server's name, which the result may have written itself.
struct StampedMeta<'a> {
    own: Option<&'a Meta>,
    stamp: Option<&'a Stamp>,
}

impl StampedMeta<'_> {
    /// Whether there is nothing to say.
    fn is_empty(&self) -> bool {
        self.stamp.is_none() && self.own.is_none_or(Meta::is_empty)
    }
}

impl Serialize for StampedMeta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let names_server = self.own.is_some_and(|own| own.get(meta_key::SERVER_INFO).is_some());
        if let Some(own) = self.own {
            own.entries(&mut map, &[])?;
        }
        if let Some(stamp) = self.stamp.filter(|_| !names_server) {
            map.serialize_entry(meta_key::SERVER_INFO, stamp.server_info())?;
        }
        map.end()
    }
}

/// A result that says no more than that it is done.
#[derive(Clone, Debug, Default)]
pub struct EmptyResult {
    /// The result's own `_meta`.
    pub meta: Meta,
}

impl EmptyResult {
    /// An empty result with `_meta`.
    pub fn with_meta(meta: Meta) -> Self {
        Self { meta }
    }
}

impl Outcome for EmptyResult {
    fn fields<M: SerializeMap>(&self, _map: &mut M, _version: Version) -> Result<(), M::Error> {
        Ok(())
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }
}

/// A result the application wrote itself, member by member.
#[derive(Clone, Debug, Default)]
pub struct RawResult {
    members: Members,
    meta: Meta,
    result_type: Option<String>,
}

impl RawResult {
    /// Takes the members of a JSON object apart; fails for anything but an object.
    pub fn new(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::from_raw(&serde_json::value::to_raw_value(value)?)
    }

    /// Takes the members of a JSON object apart that is written already.
    pub fn from_raw(value: &RawValue) -> Result<Self, serde_json::Error> {
        let mut members: Members = serde_json::from_str(value.get())?;
        let meta = members.remove("_meta").map(|meta| serde_json::from_str(meta.get()));
        let result_type = members.remove("resultType").map(|kind| serde_json::from_str(kind.get()));
        Ok(Self {
            members,
            meta: meta.transpose()?.unwrap_or_default(),
            result_type: result_type.transpose()?,
        })
    }
}

impl Outcome for RawResult {
    fn fields<M: SerializeMap>(&self, map: &mut M, _version: Version) -> Result<(), M::Error> {
        // Its own hint is written where hints exist, and then only once, by way of `cache`.
        self.members.entries(map, &HINTS)
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }

    fn cache(&self) -> Option<CacheHint> {
        let ttl_ms = self.members.get(HINTS[0])?.get().parse().ok()?;
        let is_public = self.members.get(HINTS[1]).is_some_and(|it| it.get() == "\"public\"");
        let scope = if is_public { CacheScope::Public } else { CacheScope::Private };
        Some(CacheHint { ttl_ms, scope })
    }

    fn result_type(&self) -> Option<&str> {
        self.result_type.as_deref()
    }
}

/// The members a cache hint consists of.
const HINTS: [&str; 2] = ["ttlMs", "cacheScope"];

#[cfg(test)]
mod tests {
    use super::super::{CallToolResult, ReadResourceResult, ResourceContents};
    use super::*;

    const CLASSIC: Version = Version::V2025_11_25;
    const MODERN: Version = Version::V2026_07_28;
    const HINT: CacheHint = CacheHint { ttl_ms: 5, scope: CacheScope::Public };

    fn written(result: &impl Outcome, version: Version, cache: Option<CacheHint>) -> String {
        let stamp = Stamp::new(&Implementation::new("s", "1"));
        let stamped = Stamped { cache, ..Stamped::new(result, version, &stamp) };
        serde_json::to_string(&stamped).unwrap()
    }

    fn raw_result(text: &str) -> RawResult {
        RawResult::from_raw(&RawValue::from_string(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn only_modern_results_are_stamped() {
        let result = EmptyResult::default();
        assert_eq!(written(&result, CLASSIC, None), "{}");
        let expected = concat!(
            r#"{"resultType":"complete","_meta":"#,
            r#"{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#
        );
        assert_eq!(written(&result, MODERN, None), expected);
    }

    #[test]
    fn a_meta_of_its_own_is_kept_and_added_to() {
        let result = EmptyResult::with_meta(Meta::new().with("a", 1));
        assert_eq!(written(&result, CLASSIC, None), r#"{"_meta":{"a":1}}"#);
        assert!(written(&result, MODERN, None).contains(r#""_meta":{"a":1,"io."#));
        let own = EmptyResult::with_meta(Meta::new().with(meta_key::SERVER_INFO, "me"));
        let text = written(&own, MODERN, None);
        assert!(text.contains(r#"serverInfo":"me""#) && text.matches("serverInfo").count() == 1);
    }

    #[test]
    fn a_kind_of_its_own_is_kept_and_written_for_modern_callers_only() {
        let result = raw_result(r#"{"resultType":"input_required","requestState":"s"}"#);
        let text = written(&result, MODERN, Some(HINT));
        assert!(text.starts_with(r#"{"requestState":"s","resultType":"input_required","_meta""#));
        assert_eq!(written(&result, CLASSIC, None), r#"{"requestState":"s"}"#);
    }

    #[test]
    fn cache_hints_come_from_the_result_then_from_the_configuration() {
        let hints = |result: &ReadResourceResult, version, cache| {
            let text = written(result, version, cache);
            text.split_once(r#""ttlMs":"#)
                .map(|(_, rest)| rest.split('"').next().unwrap().to_owned())
        };
        let plain = ReadResourceResult::new([ResourceContents::text("a:b", "x")]);
        let own = plain.clone().cache(CacheHint { ttl_ms: 9, scope: CacheScope::Private });
        assert_eq!(hints(&plain, MODERN, None).as_deref(), Some("0,"));
        assert_eq!(hints(&plain, MODERN, Some(HINT)).as_deref(), Some("5,"));
        assert_eq!(hints(&own, MODERN, Some(HINT)).as_deref(), Some("9,"));
        assert_eq!(hints(&own, CLASSIC, Some(HINT)), None);
        assert!(!written(&CallToolResult::text("x"), MODERN, None).contains("ttlMs"));
    }

    #[test]
    fn members_of_a_written_result_are_never_doubled() {
        let result = raw_result(r#"{"tools":[],"ttlMs":7,"cacheScope":"public","_meta":{"a":1}}"#);
        let text = written(&result, MODERN, Some(HINT));
        for member in ["resultType", "_meta", "ttlMs", "cacheScope"] {
            assert_eq!(text.matches(member).count(), 1, "{member} in {text}");
        }
        assert!(text.contains(r#""ttlMs":7,"cacheScope":"public""#));
        assert_eq!(written(&result, CLASSIC, None), r#"{"tools":[],"_meta":{"a":1}}"#);
        assert!(RawResult::new(&[1]).is_err());
    }
}
