//! The usual shape of a message, read without the detours of a general reader.
//!
//! It takes objects apart and reads plain strings and integers itself; every other value is
//! serde_json's. Where it gives up, which is a `None` without a reason, a general reader has to
//! judge. It never reads what a general reader would refuse, nor reads it differently.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
#[cfg(feature = "schema")]
use serde_json::Number;
use serde_json::value::RawValue;

use super::{Id, Text, json};

/// A place in a JSON text.
#[derive(Debug)]
pub(crate) struct Skimmer<'a> {
    text: &'a str,
    at: usize,
}

/// What can be read from the members of an object.
pub(crate) trait Members<'a>: Default {
    /// Reads the value of one member, or gives up.
    fn member(&mut self, name: &'a str, json: &mut Skimmer<'a>) -> Option<()>;
}

/// What can be read from a value.
pub(crate) trait Skim<'a>: Sized {
    /// Reads the value, or gives up.
    fn skim(json: &mut Skimmer<'a>) -> Option<Self>;
}

impl<'a> Skimmer<'a> {
    /// At the beginning of a text.
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Reads an object member by member.
    #[inline]
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.expect(b'"')?;
            let name = self.plain()?;
            self.expect(b':')?;
            member(self, name)?;
            let next = self.peek()?;
            self.at += 1;
            match next {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads an array item by item.
    #[cfg(feature = "schema")]
    #[inline]
    pub(crate) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            item(self)?;
            let next = self.peek()?;
            self.at += 1;
            match next {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads `true` or `false`, or `null`, which is neither.
    pub(crate) fn word(&mut self) -> Option<Option<bool>> {
        match self.peek()? {
            b't' => self.literal(b"true").map(|()| Some(true)),
            b'f' => self.literal(b"false").map(|()| Some(false)),
            _ => self.literal(b"null").map(|()| None),
        }
    }

    /// Reads a value into a slot that is still empty.
    #[inline]
    pub(crate) fn set<T: Skim<'a>>(&mut self, slot: &mut Option<T>) -> Option<()> {
        if slot.is_some() {
            return None;
        }
        *slot = Some(T::skim(self)?);
        Some(())
    }

    /// The same where null may stand for no value.
    #[inline]
    pub(crate) fn fill<T: Skim<'a>>(&mut self, slot: &mut Option<T>) -> Option<()> {
        if slot.is_none() && self.peek()? == b'n' { self.literal(b"null") } else { self.set(slot) }
    }

    /// Reads past a value of any kind that does not nest beyond reason.
    pub(crate) fn skip(&mut self) -> Option<()> {
        // A bit for every object or array that is open, and one above them all.
        let mut open = OUTERMOST;
        loop {
            let byte = self.peek()?;
            match byte {
                b'"' => {
                    self.at += 1;
                    self.skip_string()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    let is_object = byte == b'{';
                    if self.peek()? != byte + BRACKET_GAP {
                        if open.leading_zeros() == 0 {
                            return None;
                        }
                        open = open << 1 | u64::from(is_object);
                        if is_object {
                            self.skip_name()?;
                        }
                        continue;
                    }
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.skip_number()?,
                _ => _ = self.word()?,
            }
            loop {
                if open == OUTERMOST {
                    return Some(());
                }
                let is_object = open & 1 == 1;
                let next = self.peek()?;
                self.at += 1;
                match next {
                    b',' if is_object => self.skip_name()?,
                    b',' => {}
                    b'}' if is_object => {
                        open >>= 1;
                        continue;
                    }
                    b']' if !is_object => {
                        open >>= 1;
                        continue;
                    }
                    _ => return None,
                }
                break;
            }
        }
    }

    /// Reads past the white space that may follow a text.
    pub(crate) fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// Reads an integer of a usual size.
    pub(crate) fn integer(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        let rest = self.rest().get(usize::from(negative)..)?;
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &rest[..len];
        let is_canonical = match digits {
            [] => false,
            // What is minus zero to one reader is zero to another.
            [b'0'] => !negative,
            [first, ..] => *first != b'0' && len <= INTEGER_DIGITS_MAX,
        };
        if !is_canonical || matches!(rest.get(len), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        let size = digits.iter().fold(0, |size, digit| size * 10 + i64::from(digit - b'0'));
        self.at += usize::from(negative) + len;
        Some(if negative { -size } else { size })
    }

    /// Reads any number.
    #[cfg(feature = "schema")]
    pub(crate) fn number(&mut self) -> Option<Number> {
        self.integer().map_or_else(|| self.general(), |integer| Some(integer.into()))
    }

    /// Whether a number comes next.
    pub(crate) fn is_at_number(&mut self) -> bool {
        self.peek().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit())
    }

    /// Leaves a value to serde_json.
    fn general<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let rest = self.text.get(self.at..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }

    /// Reads the rest of a string, which is to have no escapes.
    #[inline]
    fn plain(&mut self) -> Option<&'a str> {
        let start = self.at;
        let end = start + plain_len(self.rest());
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.text.get(start..end)
    }

    /// Reads past the rest of a string, escapes and all.
    fn skip_string(&mut self) -> Option<()> {
        loop {
            self.at += plain_len(self.rest());
            match self.rest() {
                [b'"', ..] => {
                    self.at += 1;
                    return Some(());
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
                [b'\\', b'u', digits @ ..] => {
                    let digits = digits.first_chunk::<4>()?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    self.at += 6;
                }
                _ => return None,
            }
        }
    }

    /// Reads past the name of a member and its colon.
    fn skip_name(&mut self) -> Option<()> {
        self.expect(b'"')?;
        self.skip_string()?;
        self.expect(b':')
    }

    /// Reads past a number.
    fn skip_number(&mut self) -> Option<()> {
        self.at += usize::from(self.peek()? == b'-');
        let starts_with_zero = self.rest().first() == Some(&b'0');
        let digits = self.skip_digits()?;
        if starts_with_zero && digits > 1 {
            return None;
        }
        if self.rest().first() == Some(&b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if let [b'e' | b'E', rest @ ..] = self.rest() {
            self.at += 1 + usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            self.skip_digits()?;
        }
        Some(())
    }

    /// Reads past at least one digit, and says how many they were.
    fn skip_digits(&mut self) -> Option<usize> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(digits)
    }

    /// Reads past a word.
    fn literal(&mut self, word: &[u8]) -> Option<()> {
        let is_here = self.rest().starts_with(word);
        self.at += if is_here { word.len() } else { 0 };
        is_here.then_some(())
    }

    /// Takes this byte, which is to be the next one.
    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_next = self.peek()? == byte;
        self.at += usize::from(is_next);
        is_next.then_some(())
    }

    /// The next byte that is not white space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            // Nearly always there is no white space.
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// So many digits surely fit.
const INTEGER_DIGITS_MAX: usize = 18;
/// No object or array is open.
const OUTERMOST: u64 = 1;
/// How far a closing bracket is from its opening one.
const BRACKET_GAP: u8 = b'}' - b'{';

impl<'a> Skim<'a> for Text<'a> {
    #[inline]
    fn skim(json: &mut Skimmer<'a>) -> Option<Self> {
        let before = json.at;
        json.expect(b'"')?;
        if let Some(plain) = json.plain() {
            return Some(Self(Cow::Borrowed(plain)));
        }
        json.at = before;
        json.general()
    }
}

impl<'a> Skim<'a> for Id {
    #[inline]
    fn skim(json: &mut Skimmer<'a>) -> Option<Self> {
        if json.is_at_number() {
            return json.integer().map(Self::from);
        }
        Text::skim(json).map(|text| Self::String(text.0.into()))
    }
}

impl<'a> Skim<'a> for Snippet<'a> {
    fn skim(json: &mut Skimmer<'a>) -> Option<Self> {
        json.peek()?;
        let start = json.at;
        json.skip()?;
        json.text.get(start..json.at).map(Self)
    }
}

/// A JSON value as it was written: well-formed, borrowed, and not looked into.
///
/// What serde_json's `RawValue` is, but it can be cut out of a text without being read again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snippet<'a>(&'a str);

impl<'a> Snippet<'a> {
    /// An object without members.
    pub(crate) const EMPTY_OBJECT: Self = Self("{}");

    /// The text of the value, without white space around it.
    pub(crate) const fn get(self) -> &'a str {
        self.0
    }

    /// The same in serde_json's terms.
    pub(crate) fn to_raw(self) -> &'a RawValue {
        serde_json::from_str(self.0).expect("a snippet is well-formed")
    }

    /// Whether it is an object.
    pub(crate) fn is_object(self) -> bool {
        self.0.starts_with('{')
    }
}

impl<'a> From<&'a RawValue> for Snippet<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Snippet<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::from)
    }
}

/// How many bytes come before the first that ends a string or is not plain text in one.
#[inline]
fn plain_len(text: &[u8]) -> usize {
    // Most strings end within their first words.
    let (words, _) = text.as_chunks();
    for (at, &word) in words.iter().take(SHORT_WORDS).enumerate() {
        let stops = stops_in(word);
        if stops != 0 {
            return at * WORD + stops.trailing_zeros() as usize / 8;
        }
    }
    long_plain_len(text)
}

/// The same for what is longer than a few words, or less than one.
#[inline(never)]
fn long_plain_len(text: &[u8]) -> usize {
    let mut len = json::clean_strides_len(text);
    while let Some(&word) = text[len..].first_chunk() {
        let stops = stops_in(word);
        if stops != 0 {
            return len + stops.trailing_zeros() as usize / 8;
        }
        len += WORD;
    }
    let is_stop = |&byte: &u8| byte < b' ' || byte == b'"' || byte == b'\\';
    let rest = &text[len..];
    len + rest.iter().position(is_stop).unwrap_or(rest.len())
}

/// A string that is longer than so many words is a long one.
const SHORT_WORDS: usize = 3;

/// How many bytes are looked at in one go.
const WORD: usize = size_of::<u64>();

/// Marks with its top bit the first byte that is not plain text, and perhaps later ones.
///
/// A subtraction borrows from a byte exactly if it is too small, or if one below it already was.
#[inline]
const fn stops_in(word: [u8; WORD]) -> u64 {
    const fn splat(byte: u8) -> u64 {
        u64::from_le_bytes([byte; WORD])
    }
    let word = u64::from_le_bytes(word);
    let (quotes, backslashes) = (word ^ splat(b'"'), word ^ splat(b'\\'));
    let controls = word.wrapping_sub(splat(b' ')) & !word;
    let quotes = quotes.wrapping_sub(splat(1)) & !quotes;
    let backslashes = backslashes.wrapping_sub(splat(1)) & !backslashes;
    (controls | quotes | backslashes) & splat(0x80)
}
