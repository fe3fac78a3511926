//! The state a handler leaves with a modern client, sealed so that nobody but this server can make
//! or change it, and nobody can use it elsewhere, for another request, or later than it is good
//! for. It is not encrypted, and within its time it can be used more than once.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::error::BuildError;
use crate::key::Principal;
use crate::limits::REQUEST_STATE_BYTES_MAX;
use crate::rpc::ErrorObject;

mod canonical;

/// A secret that seals states, under an id by which it is found again.
///
/// Servers that answer for one another share their keys; one that stands alone needs none, since
/// it draws a key of its own when it starts.
#[derive(Clone)]
pub struct StateKey {
    id: String,
    secret: Box<[u8]>,
}

/// A shorter secret could be guessed before the seal is.
const SECRET_BYTES_MIN: usize = 32;

/// As long as an id may be whose length is one byte, with room to spare.
const ID_BYTES_MAX: usize = 64;

impl StateKey {
    /// A key by its id, of 1 to 64 letters, digits, `-` and `_`, and its secret of at least 32
    /// bytes. The id travels with every state, the secret with none.
    ///
    /// # Errors
    ///
    /// When id or secret are not as they must be.
    pub fn new(id: impl Into<String>, secret: impl AsRef<[u8]>) -> Result<Self, BuildError> {
        let (id, secret) = (id.into(), secret.as_ref());
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let reason = if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(is_usual) {
            format!("the id must be 1 to {ID_BYTES_MAX} letters, digits, '-' and '_'")
        } else if secret.len() < SECRET_BYTES_MIN {
            format!("the secret must have {SECRET_BYTES_MIN} bytes or more")
        } else {
            return Ok(Self { id, secret: secret.into() });
        };
        Err(BuildError::Invalid { kind: "state key", name: id, reason })
    }

    /// The seal over everything a state depends on.
    fn mac_of(&self, scope: &Scope<'_>, payload: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(LABEL);
        // Each part says how long it is, so that no two scopes read the same; no principal is
        // another one than a principal without a name.
        mac.update(&[u8::from(scope.principal.is_some())]);
        let principal = scope.principal.map_or("", Principal::name);
        for part in [principal.as_bytes(), scope.method.as_bytes(), &scope.params, payload] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for StateKey {
    /// Shows which key it is, not the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What the seal is over besides the state, so that a key used for something else by mistake still
/// seals nothing here.
const LABEL: &[u8] = b"waterwheel request state\0";

/// The shape of what is sealed here; another shape would get another number.
const SHAPE: u8 = 1;

/// How many bytes a seal has.
const TAG_BYTES: usize = 32;

/// All that a token holds beside key id and state: shape, two lengths, the hour, the seal.
const FRAME_BYTES: usize = 1 + 1 + 8 + 4 + TAG_BYTES;

/// How long a state is good for unless it is said otherwise: long enough to fill in a form, short
/// enough that a stolen one is soon worthless.
const LIFETIME: Duration = Duration::from_secs(300);

/// The keys of a server: the first one seals, and all of them are tried when a state comes back.
///
/// To change the key, put the new one in front of the old one, and drop the old one when the states
/// it has sealed are too old anyway.
#[derive(Clone, Debug)]
pub struct StateKeys {
    keys: Vec<StateKey>,
    lifetime: Duration,
}

impl StateKeys {
    /// Keys of which this one seals.
    pub fn new(key: StateKey) -> Self {
        Self { keys: vec![key], lifetime: LIFETIME }
    }

    /// A key that nobody else has and that ends with the process.
    ///
    /// # Errors
    ///
    /// When the system's random source fails.
    pub fn random() -> Result<Self, BuildError> {
        let mut secret = [0; SECRET_BYTES_MIN];
        getrandom::fill(&mut secret).map_err(|error| BuildError::Random(error.to_string()))?;
        StateKey::new("0", secret).map(Self::new)
    }

    /// One more key to try, for states sealed before the key was changed.
    pub fn and(mut self, key: StateKey) -> Self {
        self.keys.push(key);
        self
    }

    /// How long a state is good for, in whole seconds; 300 by default.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Seals a state at a time given in seconds since 1970.
    ///
    /// # Errors
    ///
    /// When the state is longer than a state may be.
    pub fn seal(
        &self,
        state: &str,
        scope: &Scope<'_>,
        now_secs: u64,
    ) -> Result<String, StateTooLong> {
        if state.len() > REQUEST_STATE_BYTES_MAX {
            return Err(StateTooLong { bytes: state.len() });
        }
        let key = &self.keys[0];
        let expiry = now_secs.saturating_add(self.lifetime.as_secs());
        let expiry = i64::try_from(expiry).unwrap_or(i64::MAX);
        let length = state.len() as u32;
        let mut token = Vec::with_capacity(FRAME_BYTES + key.id.len() + state.len());
        token.extend_from_slice(&[SHAPE, key.id.len() as u8]);
        token.extend_from_slice(key.id.as_bytes());
        token.extend_from_slice(&expiry.to_be_bytes());
        token.extend_from_slice(&length.to_be_bytes());
        token.extend_from_slice(state.as_bytes());
        let tag = key.mac_of(scope, &token).finalize().into_bytes();
        token.extend_from_slice(&tag);
        Ok(URL_SAFE_NO_PAD.encode(token))
    }

    /// The state in what came back, if this server sealed it, for this caller and this request, and
    /// not too long ago. Nothing of it is looked at before the seal has been found to be good.
    pub fn open(&self, token: &str, scope: &Scope<'_>, now_secs: u64) -> Result<String, BadState> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(BadState::Malformed);
        }
        let token = URL_SAFE_NO_PAD.decode(token).map_err(|_| BadState::Malformed)?;
        let sealed = Sealed::read(&token).ok_or(BadState::Malformed)?;
        let mut known =
            self.keys.iter().filter(|key| key.id.as_bytes() == sealed.key_id).peekable();
        known.peek().ok_or(BadState::UnknownKey)?;
        // The comparison takes the same time wherever the first difference is.
        let is_good =
            |key: &StateKey| key.mac_of(scope, sealed.payload).verify_slice(sealed.tag).is_ok();
        if !known.any(is_good) {
            return Err(BadState::Forged);
        }
        if i64::try_from(now_secs).unwrap_or(i64::MAX) >= sealed.expiry {
            return Err(BadState::Expired);
        }
        String::from_utf8(sealed.state.to_owned()).map_err(|_| BadState::Malformed)
    }
}

/// The most bytes a token of this server can have.
const TOKEN_BYTES_MAX: usize =
    (FRAME_BYTES + ID_BYTES_MAX + REQUEST_STATE_BYTES_MAX).div_ceil(3) * 4;

/// The parts of a token, unverified.
struct Sealed<'a> {
    key_id: &'a [u8],
    expiry: i64,
    state: &'a [u8],
    /// All that comes before the seal.
    payload: &'a [u8],
    tag: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// Takes a token apart; none unless it is all there and nothing else is.
    fn read(token: &'a [u8]) -> Option<Self> {
        let (payload, tag) = token.split_at(token.len().checked_sub(TAG_BYTES)?);
        let (&[shape, id_length], rest) = payload.split_first_chunk()?;
        let (key_id, rest) = rest.split_at_checked(id_length.into())?;
        let (expiry, rest) = rest.split_first_chunk()?;
        let (length, state) = rest.split_first_chunk()?;
        let is_whole = shape == SHAPE && u32::from_be_bytes(*length) as usize == state.len();
        let expiry = i64::from_be_bytes(*expiry);
        is_whole.then_some(Self { key_id, expiry, state, payload, tag })
    }
}

/// Whom and what a state is for.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    principal: Option<&'a Principal>,
    method: &'a str,
    params: [u8; 32],
}

/// Members of the parameters that another round has and this one had not, or had otherwise.
const UNBOUND_MEMBERS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

impl<'a> Scope<'a> {
    /// The scope of a request. Its parameters count by what they say: neither the order of their
    /// members nor blanks or escapes matter, and what changes from round to round is left out.
    pub fn new(
        principal: Option<&'a Principal>,
        method: &'a str,
        params: Option<&RawValue>,
    ) -> Self {
        let text = canonical::text(params.map_or("{}", RawValue::get), &UNBOUND_MEMBERS);
        Self { principal, method, params: Sha256::digest(text).into() }
    }
}

/// A state that is longer than a state may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTooLong {
    bytes: usize,
}

impl fmt::Display for StateTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(f, "the state has {bytes} bytes, more than {REQUEST_STATE_BYTES_MAX}")
    }
}

impl std::error::Error for StateTooLong {}

/// Why a state was refused: for the log, not for the one who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadState {
    /// It has not the shape of a state of this server.
    Malformed,
    /// No key of this server has its id.
    UnknownKey,
    /// It was changed, or sealed for another caller or another request.
    Forged,
    /// It was good once.
    Expired,
}

impl BadState {
    /// What the one who sent it is told: nothing that would help to make a better one.
    pub fn into_error(self) -> ErrorObject {
        ErrorObject::invalid_params("Invalid params: `requestState` is not valid for this request")
    }
}

impl fmt::Display for BadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the request state is malformed",
            Self::UnknownKey => "the request state was sealed with an unknown key",
            Self::Forged => "the request state does not match its seal, caller or request",
            Self::Expired => "the request state has expired",
        })
    }
}

impl std::error::Error for BadState {}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const METHOD: &str = "tools/call";
    const PARAMS: &str = r#"{"name":"t","arguments":{"a":1,"b":[true,"x"]}}"#;

    fn key(id: &str, byte: u8) -> StateKey {
        StateKey::new(id, [byte; 32]).unwrap()
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn scope(params: &str) -> Scope<'static> {
        Scope::new(None, METHOD, Some(&raw(params)))
    }

    fn keys() -> StateKeys {
        StateKeys::new(key("k1", 1))
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        for state in ["", "S", "\u{e9} +/=\0", &"x".repeat(REQUEST_STATE_BYTES_MAX)] {
            let token = keys().seal(state, &scope(PARAMS), NOW).unwrap();
            assert_eq!(keys().open(&token, &scope(PARAMS), NOW).as_deref(), Ok(state));
        }
        let long = "x".repeat(REQUEST_STATE_BYTES_MAX + 1);
        assert!(keys().seal(&long, &scope(PARAMS), NOW).is_err());
    }

    #[test]
    fn a_token_is_laid_out_as_described() {
        let token = keys().seal("S", &scope(PARAMS), NOW).unwrap();
        let token = URL_SAFE_NO_PAD.decode(token).unwrap();
        let expiry = (NOW as i64 + 300).to_be_bytes();
        let expected = [&[1, 2], &b"k1"[..], &expiry, &[0, 0, 0, 1], b"S"].concat();
        assert_eq!(token[..token.len() - 32], expected);
    }

    #[test]
    fn b093_a_no_bit_may_be_flipped() {
        let token = keys().seal("a state", &scope(PARAMS), NOW).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let token = URL_SAFE_NO_PAD.encode(bytes);
            assert!(keys().open(&token, &scope(PARAMS), NOW).is_err(), "bit {bit}");
        }
        for bit in 0..token.len() * 8 {
            let mut text = token.clone().into_bytes();
            text[bit / 8] ^= 1 << (bit % 8);
            // What is no text does not get this far.
            let Ok(text) = String::from_utf8(text) else { continue };
            assert!(keys().open(&text, &scope(PARAMS), NOW).is_err(), "bit {bit} of the text");
        }
    }

    #[test]
    fn b093_a_a_token_is_whole_and_canonical() {
        let token = keys().seal("s", &scope(PARAMS), NOW).unwrap();
        for end in 0..token.len() {
            assert!(keys().open(&token[..end], &scope(PARAMS), NOW).is_err(), "{end}");
        }
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for end in 0..bytes.len() {
            let token = URL_SAFE_NO_PAD.encode(&bytes[..end]);
            assert!(keys().open(&token, &scope(PARAMS), NOW).is_err(), "{end} bytes");
        }
        let padded = format!("{token}=");
        let longer = format!("{token}AAAA");
        let tampered = format!("{token}-TAMPERED");
        let spaced = format!("{token} ");
        for token in [&padded, &longer, &tampered, &spaced, "", "garbage", "=", "é"] {
            let opened = keys().open(token, &scope(PARAMS), NOW);
            assert!(opened.is_err(), "{token}");
        }
        let huge = "A".repeat(TOKEN_BYTES_MAX + 1);
        assert_eq!(keys().open(&huge, &scope(PARAMS), NOW), Err(BadState::Malformed));
    }

    #[test]
    fn b093_b_a_state_is_its_caller_s_alone() {
        let params = raw(PARAMS);
        let (alice, bob, nobody) =
            (Principal::new("alice"), Principal::new("bob"), Principal::new(""));
        let callers = [Some(&alice), Some(&bob), Some(&nobody), None];
        for owner in callers {
            let owned = Scope::new(owner, METHOD, Some(&params));
            let token = keys().seal("s", &owned, NOW).unwrap();
            for caller in callers {
                let opened = keys().open(&token, &Scope::new(caller, METHOD, Some(&params)), NOW);
                assert_eq!(opened.is_ok(), owner == caller, "{owner:?} {caller:?}");
            }
        }
    }

    #[test]
    fn b093_c_a_state_expires() {
        let token = keys().seal("s", &scope(PARAMS), NOW).unwrap();
        assert!(keys().open(&token, &scope(PARAMS), NOW + 299).is_ok());
        let expired = keys().open(&token, &scope(PARAMS), NOW + 300);
        assert_eq!(expired, Err(BadState::Expired));
        assert_eq!(keys().open(&token, &scope("{}"), NOW + 300), Err(BadState::Forged));

        let brief = keys().lifetime(Duration::from_secs(1));
        let token = brief.seal("s", &scope(PARAMS), NOW).unwrap();
        assert!(brief.open(&token, &scope(PARAMS), NOW).is_ok());
        assert!(brief.open(&token, &scope(PARAMS), NOW + 1).is_err());
        let endless = keys().lifetime(Duration::MAX);
        let token = endless.seal("s", &scope(PARAMS), NOW).unwrap();
        assert!(endless.open(&token, &scope(PARAMS), NOW).is_ok());
    }

    #[test]
    fn b093_d_a_state_is_for_its_request_alone() {
        let token = keys().seal("s", &scope(PARAMS), NOW).unwrap();
        for other in [
            r#"{"name":"u","arguments":{"a":1,"b":[true,"x"]}}"#,
            r#"{"name":"t","arguments":{"a":2,"b":[true,"x"]}}"#,
            r#"{"name":"t","arguments":{"a":"1","b":[true,"x"]}}"#,
            r#"{"name":"t","arguments":{"a":1,"b":["x",true]}}"#,
            r#"{"name":"t","arguments":{"a":1,"b":[true,"x"],"c":null}}"#,
            r#"{"name":"t","arguments":{"a":1}}"#,
            r#"{"name":"t"}"#,
            "{}",
        ] {
            let opened = keys().open(&token, &scope(other), NOW);
            assert_eq!(opened, Err(BadState::Forged), "{other}");
        }
        let other = Scope::new(None, "prompts/get", Some(&raw(PARAMS)));
        assert_eq!(keys().open(&token, &other, NOW), Err(BadState::Forged));
    }

    #[test]
    fn the_next_round_may_be_written_otherwise() {
        let token = keys().seal("s", &scope(PARAMS), NOW).unwrap();
        let next = r#" { "requestState" : "x", "arguments": {"b":[ true ,"\u0078"], "a":1 },
            "_meta":{"any":1}, "inputResponses":{}, "\u006eame":"t" } "#;
        assert!(keys().open(&token, &scope(next), NOW).is_ok());
        let none = keys().seal("s", &Scope::new(None, METHOD, None), NOW).unwrap();
        assert!(keys().open(&none, &scope(r#"{"_meta":{}}"#), NOW).is_ok());
    }

    #[test]
    fn the_first_key_seals_and_all_keys_open() {
        let old = StateKeys::new(key("2026-a", 1));
        let both = StateKeys::new(key("2026-b", 2)).and(key("2026-a", 1));
        let new = StateKeys::new(key("2026-b", 2));
        let scope = scope(PARAMS);
        let before = old.seal("s", &scope, NOW).unwrap();
        let after = both.seal("s", &scope, NOW).unwrap();
        assert!(both.open(&before, &scope, NOW).is_ok());
        assert!(new.open(&after, &scope, NOW).is_ok());
        assert_eq!(old.open(&after, &scope, NOW), Err(BadState::UnknownKey));
        assert_eq!(new.open(&before, &scope, NOW), Err(BadState::UnknownKey));
        let same_id = StateKeys::new(key("2026-a", 3));
        assert_eq!(same_id.open(&before, &scope, NOW), Err(BadState::Forged));
        let same_ids = same_id.and(key("2026-a", 1));
        assert!(same_ids.open(&before, &scope, NOW).is_ok());
    }

    #[test]
    fn weak_keys_are_not_made() {
        assert!(StateKey::new("k", [0; 31]).is_err());
        assert!(StateKey::new("k", [0; 33]).is_ok());
        assert!(StateKey::new("a".repeat(64), [0; 32]).is_ok());
        for id in ["", &"a".repeat(65), "a b", "a.b", "\u{e9}"] {
            assert!(StateKey::new(id, [0; 32]).is_err(), "{id}");
        }
    }

    #[test]
    fn a_server_that_stands_alone_has_a_key_of_its_own() {
        let (one, other) = (StateKeys::random().unwrap(), StateKeys::random().unwrap());
        let token = one.seal("s", &scope(PARAMS), NOW).unwrap();
        assert!(one.open(&token, &scope(PARAMS), NOW).is_ok());
        assert_eq!(other.open(&token, &scope(PARAMS), NOW), Err(BadState::Forged));
    }

    #[test]
    fn neither_secret_nor_reason_is_shown() {
        assert_eq!(format!("{:?}", key("k1", 9)), r#"StateKey { id: "k1", .. }"#);
        assert_eq!(BadState::Expired.into_error().message, BadState::Forged.into_error().message);
    }
}
