//! Cursors of long listings. A cursor names the last item a page held, by its sequence number, so
//! that items coming and going shift nothing; it is sealed, so that a client cannot make one up.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The secret that seals cursors; one per server process is enough.
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

/// A cursor that this server did not give out for this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a cursor of this list")
    }
}

impl std::error::Error for BadCursor {}

impl fmt::Debug for CursorKey {
    /// Shows that there is a key, not which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CursorKey").finish_non_exhaustive()
    }
}

/// The shape of the cursors written here; another shape would get another name.
const SHAPE: &str = "c2";

/// How much of the seal travels: 128 bits, far beyond guessing.
const MAC_BYTES: usize = 16;

impl CursorKey {
    /// A key from random bytes.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The cursor that goes on behind item number `after` of `list`, a name without dots.
    pub fn seal(&self, list: &str, after: u64) -> String {
        let payload = format!("{SHAPE}.{list}.{after:x}");
        let mac = self.mac_of(&payload).finalize().into_bytes();
        format!("{payload}.{}", hex_of(&mac[..MAC_BYTES]))
    }

    /// The item number a cursor of `list` goes on behind.
    pub fn open(&self, list: &str, cursor: &str) -> Result<u64, BadCursor> {
        let (payload, mac) = cursor.rsplit_once('.').ok_or(BadCursor)?;
        let mac = bytes_of_hex(mac).ok_or(BadCursor)?;
        self.mac_of(payload).verify_truncated_left(&mac).map_err(|_| BadCursor)?;
        let rest = payload.strip_prefix(SHAPE).and_then(|rest| rest.strip_prefix('.'));
        let (named, after) = rest.and_then(|rest| rest.rsplit_once('.')).ok_or(BadCursor)?;
        if named != list {
            return Err(BadCursor);
        }
        u64::from_str_radix(after, 16).map_err(|_| BadCursor)
    }

    /// The seal over a payload.
    fn mac_of(&self, payload: &str) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(payload.as_bytes());
        mac
    }
}

/// Lower-case hexadecimal digits.
fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of exactly as many lower-case digits as a seal has.
fn bytes_of_hex(digits: &str) -> Option<[u8; MAC_BYTES]> {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * MAC_BYTES || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; MAC_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_the_item_it_was_sealed_for() {
        let key = CursorKey::new([7; 32]);
        for after in [0, 1, 255, u64::MAX] {
            assert_eq!(key.open("tools", &key.seal("tools", after)), Ok(after));
        }
        assert!(key.seal("tools", 255).starts_with("c2.tools.ff."));
    }

    #[test]
    fn cursors_that_were_not_given_out_are_refused() {
        let key = CursorKey::new([7; 32]);
        let cursor = key.seal("tools", 16);
        let mac = cursor.rsplit_once('.').unwrap().1;
        let forged = [
            String::new(),
            "garbage".to_owned(),
            "c2.tools.10".to_owned(),
            "c2.tools.10.".to_owned(),
            cursor.to_uppercase(),
            cursor[..cursor.len() - 2].to_owned(),
            format!("{cursor}0"),
            format!("{cursor} "),
            format!("c2.tools.11.{mac}"),
            format!("c2.tools.010.{mac}"),
            format!("c2.prompts.10.{mac}"),
            CursorKey::new([8; 32]).seal("tools", 16),
            key.seal("prompts", 16),
        ];
        for cursor in forged {
            assert_eq!(key.open("tools", &cursor), Err(BadCursor), "{cursor}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", CursorKey::new([7; 32])), "CursorKey { .. }");
    }
}
