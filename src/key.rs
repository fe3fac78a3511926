//! Names for table entries: small, copyable, meaningless without the table.
//!
//! Every cross-reference in the crate is one of these, resolved at the moment of use. A stale key
//! resolves to nothing.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// Names one connection: a slot and the tenant the slot had when the key was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnKey {
    index: u32,
    generation: u32,
}

impl ConnKey {
    pub(crate) fn new(index: usize, generation: u32) -> Self {
        let index = u32::try_from(index).expect("the slab is bounded far below 2^32 slots");
        Self { index, generation }
    }

    /// The slot this key points at.
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }

    /// The tenant of the slot this key means.
    pub(crate) fn generation(self) -> u32 {
        self.generation
    }

    /// Packs the key into a reactor token.
    #[must_use]
    pub fn to_token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Reads a key back out of a reactor token.
    #[must_use]
    pub fn from_token(token: u64) -> Self {
        Self { index: token as u32, generation: (token >> 32) as u32 }
    }
}

/// Names one exchange; never reused within an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(pub(crate) u64);

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange {}", self.0)
    }
}

/// Names one event of a stream that can be resumed: what an `id:` line carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub(crate) exchange: ExchangeId,
    /// Counts from one; zero is the place before the first event.
    pub(crate) seq: u32,
}

impl EventId {
    /// Reads an id that a client gives back. What this server cannot have written is `None`.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (stream, seq) = std::str::from_utf8(value).ok()?.rsplit_once(':')?;
        let exchange = ExchangeId(u64::from_str_radix(stream, 16).ok()?);
        let id = Self { exchange, seq: seq.parse().ok()? };
        // The parsers are laxer than what was written.
        (id.to_string().as_bytes() == value).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{}", self.exchange.0, self.seq)
    }
}

/// The id of a classic session: 128 random bits as 32 lower-case hexadecimal digits.
///
/// It names a session and proves nothing: it is not a credential. `Debug` hides it, since whoever
/// reads a log could otherwise take the session over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; 32]);

impl SessionId {
    /// Renders sixteen random bytes as an id.
    pub(crate) fn from_random(bytes: [u8; 16]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(text)
    }

    /// Reads an id from a header value. What does not even have the shape of an id is `None`; the
    /// rest is for the table of sessions to know or not to know.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let text: [u8; 32] = value.try_into().ok()?;
        text.is_ascii().then_some(Self(text))
    }

    /// The id as it travels in a header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only ASCII gets in")
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(..)")
    }
}

/// How the tables of this crate hash: seeded per process like the standard library's, and several
/// times as fast on the short keys used here.
pub(crate) type Hasher = foldhash::fast::RandomState;

/// Who a request comes from, and what they were granted, as whoever checks credentials said.
///
/// Cheap to clone. Two principals are the same caller exactly when their names are equal, whatever
/// their scopes: a session goes on when its owner comes back with another token.
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

#[derive(Clone)]
struct Identity {
    name: Box<str>,
    scopes: Vec<String>,
}

impl Principal {
    /// Names a caller, who was granted no scopes. The name ends up in logs: use an account id,
    /// never a credential.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Identity { name: name.into(), scopes: Vec::new() }))
    }

    /// The same caller, granted these scopes and no others.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let scopes = scopes.into_iter().map(Into::into).collect();
        Arc::make_mut(&mut self.0).scopes = scopes;
        self
    }

    /// The name of the caller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the caller was granted, in no particular order.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Whether the caller was granted this scope. Scopes are compared to the byte.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|granted| granted == scope)
    }

    /// Whether two are one caller, nobody included. Takes a time that depends on the lengths only,
    /// so that a name cannot be guessed bytewise.
    pub(crate) fn same(owner: Option<&Self>, caller: Option<&Self>) -> bool {
        let (owner, caller) = (owner.map_or("", Self::name), caller.map_or("", Self::name));
        let differing = owner.bytes().zip(caller.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b));
        owner.len() == caller.len() && differing == 0
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Principal").field(&self.0.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_token() {
        let key = ConnKey::new(7, u32::MAX);
        assert_eq!(ConnKey::from_token(key.to_token()), key);
    }

    #[test]
    fn a_session_id_reads_back_and_foreign_text_does_not() {
        let id = SessionId::from_random([0xa5; 16]);
        assert_eq!(id.as_str(), "a5".repeat(16));
        assert_eq!(SessionId::parse(id.as_str().as_bytes()), Some(id));
        for foreign in ["", "00000000-dead", &"\u{e9}".repeat(16), &"a5".repeat(17)] {
            assert_eq!(SessionId::parse(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn an_event_id_reads_back_and_foreign_text_does_not() {
        let id = EventId { exchange: ExchangeId(0xfeed), seq: 10 };
        assert_eq!(id.to_string(), "feed:10");
        assert_eq!(EventId::parse(b"feed:10"), Some(id));
        for foreign in ["", ":", "feed", "feed:", ":1", "feed:-1", "feed:01", "x:1", "1:2:3", "1:a"]
        {
            assert_eq!(EventId::parse(foreign.as_bytes()), None, "{foreign}");
        }
        assert_eq!(EventId::parse(b"\xff:1"), None);
    }

    #[test]
    fn debug_does_not_show_a_session_id() {
        let id = SessionId::from_random([1; 16]);
        assert!(!format!("{id:?}").contains("01"));
    }

    #[test]
    fn a_principal_is_who_it_is_whatever_it_may_do() {
        let (reader, writer) = (
            Principal::new("alice").with_scopes(["read"]),
            Principal::new("alice").with_scopes(["read", "write"]),
        );
        assert_eq!(reader, writer);
        assert_ne!(reader, Principal::new("bob").with_scopes(["read"]));
        assert!(writer.has_scope("write") && !reader.has_scope("write"));
        assert!(!reader.has_scope("rea") && Principal::new("alice").scopes().is_empty());
    }
}
