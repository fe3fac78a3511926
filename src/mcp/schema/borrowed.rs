//! A JSON value that borrows the text it was read from, in the form the validator walks. One per
//! call is read, checked and dropped, so strings are copied only where they hold escapes.

use std::borrow::Cow;
use std::fmt;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, cmp};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::rpc::Text;
use crate::rpc::skim::{Skim, Skimmer};

/// Whether some crate of the build turned on `serde_json/arbitrary_precision`, which makes a
/// number a string inside and has it read as an object that only `serde_json` itself understands.
pub(super) const NUMBERS_ARE_TEXT: bool = size_of::<Number>() == size_of::<String>();

/// The name by which `serde_json` smuggles a [`RawValue`](serde_json::value::RawValue) through
/// serde. A reader of a [`Value`] takes an object that begins with it for the JSON in its string.
const RAW_VALUE_NAME: &str = "$serde_json::private::RawValue";

/// Values that nest deeper are left to the general reader, which bounds the depth as well.
const SKIMMED_DEPTH_MAX: usize = 32;

/// Room for so many members at once is less work than to make room when the first one comes.
const MEMBERS_USUAL: usize = 4;

/// Objects up to this size are searched from the front, as most names differ in their length.
const SCANNED_MEMBERS_MAX: usize = 8;

/// A JSON value; whatever can be is a piece of the text it was read from.
#[derive(Debug, PartialEq)]
pub(super) enum Borrowed<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number: exact if it is an integer of 64 bits, otherwise the nearest double.
    Number(Number),
    /// A string without its escapes.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Self>),
    /// Members in the order of their names, each of which is there once.
    Object(Vec<Member<'a>>),
}

/// A member of an object: its name and its value.
pub(super) type Member<'a> = (Cow<'a, str>, Borrowed<'a>);

impl<'a> Borrowed<'a> {
    /// Reads a value from its text.
    pub(super) fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut json = Skimmer::new(text);
        let skimmed = Self::skim(&mut json, SKIMMED_DEPTH_MAX);
        // What is wrong with a value the general reader can tell, as well as it can read the rest.
        skimmed.filter(|_| json.end().is_some()).map_or_else(|| serde_json::from_str(text), Ok)
    }

    /// Reads a usual value.
    fn skim(json: &mut Skimmer<'a>, depth_left: usize) -> Option<Self> {
        match json.peek()? {
            b'"' => Text::skim(json).map(|text| Self::String(text.0)),
            b'{' => {
                let depth_left = depth_left.checked_sub(1)?;
                let mut members = Vec::with_capacity(MEMBERS_USUAL);
                json.object(|json, name| {
                    if name == RAW_VALUE_NAME {
                        return None;
                    }
                    members.push((Cow::Borrowed(name), Self::skim(json, depth_left)?));
                    Some(())
                })?;
                sorted(members).ok().map(Self::Object)
            }
            b'[' => {
                let depth_left = depth_left.checked_sub(1)?;
                let mut items = Vec::new();
                json.array(|json| {
                    items.push(Self::skim(json, depth_left)?);
                    Some(())
                })?;
                Some(Self::Array(items))
            }
            b'-' | b'0'..=b'9' => json.number().map(Self::Number),
            _ => json.word().map(|word| word.map_or(Self::Null, Self::Bool)),
        }
    }

    /// The same value in the common form, for the complaints.
    pub(super) fn to_owned_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(boolean) => Value::Bool(*boolean),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(string) => Value::String(string.clone().into_owned()),
            Self::Array(items) => items.iter().map(Self::to_owned_value).collect(),
            Self::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone().into_owned(), value.to_owned_value()))
                .collect(),
        }
    }

    /// Equality as JSON Schema has it: numbers by what they amount to, members in any order.
    fn equals(&self, expected: &Value) -> bool {
        match (self, expected) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(boolean), Value::Bool(expected)) => boolean == expected,
            (Self::Number(number), Value::Number(_)) => {
                cmp::equal(&Value::Number(number.clone()), expected)
            }
            (Self::String(string), Value::String(expected)) => string == expected,
            (Self::Array(items), Value::Array(expected)) => {
                items.len() == expected.len()
                    && items.iter().zip(expected).all(|(item, expected)| item.equals(expected))
            }
            (Self::Object(members), Value::Object(expected)) => {
                members.len() == expected.len()
                    && members.iter().all(|(name, value)| {
                        expected.get(&**name).is_some_and(|expected| value.equals(expected))
                    })
            }
            _ => false,
        }
    }
}

/// The name of a member, borrowed where it holds no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a member")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

impl<'de> Deserialize<'de> for Borrowed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BorrowedVisitor)
    }
}

/// Builds a [`Borrowed`]; how deeply values nest is bounded by the reader that drives it.
struct BorrowedVisitor;

impl<'de> Visitor<'de> for BorrowedVisitor {
    type Value = Borrowed<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Borrowed::Null)
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Self::Value, E> {
        Ok(Borrowed::Bool(boolean))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Borrowed::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Borrowed::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        let number = Number::from_f64(number);
        number.map(Borrowed::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_borrowed_str<E>(self, string: &'de str) -> Result<Self::Value, E> {
        Ok(Borrowed::String(Cow::Borrowed(string)))
    }

    fn visit_str<E>(self, string: &str) -> Result<Self::Value, E> {
        Ok(Borrowed::String(Cow::Owned(string.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = elements.next_element()? {
            items.push(item);
        }
        Ok(Borrowed::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Name(name)) = entries.next_key()? {
            if name == RAW_VALUE_NAME {
                return Err(A::Error::custom(format_args!("the name {name:?} is reserved")));
            }
            members.push((name, entries.next_value()?));
        }
        sorted(members).map(Borrowed::Object).map_err(|doubled| {
            let name = crate::rpc::excerpt(&doubled);
            A::Error::custom(format_args!("{name:?} is given twice in one object"))
        })
    }
}

/// Members in the order of their names, or a name that is there twice.
fn sorted(mut members: Vec<Member<'_>>) -> Result<Vec<Member<'_>>, Cow<'_, str>> {
    members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    match members.windows(2).position(|pair| pair[0].0 == pair[1].0) {
        Some(at) => Err(members.swap_remove(at).0),
        None => Ok(members),
    }
}

/// Tells the validator to walk [`Borrowed`] values.
#[derive(Debug)]
pub(super) struct BorrowedJson;

impl Json for BorrowedJson {
    type Node<'a> = &'a Borrowed<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    // Going over a few members costs about as much as finding one or two of them.
    const KEYS_PER_LOOKUP: usize = 2;
    const ACYCLIC: bool = true;

    fn prepare_key(key: &str) -> Self::PreparedKey {
        key.into()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(Self::Node<'_>) -> T) -> T {
        f(&Borrowed::String(Cow::Borrowed(string)))
    }
}

impl<'a> Node<'a, BorrowedJson> for &'a Borrowed<'a> {
    type Object = &'a [Member<'a>];
    type Array = &'a [Borrowed<'a>];
    type Number = &'a Number;

    fn as_object(&self) -> Option<Self::Object> {
        if let Borrowed::Object(members) = self { Some(members) } else { None }
    }

    fn as_array(&self) -> Option<Self::Array> {
        if let Borrowed::Array(items) = self { Some(items) } else { None }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        if let Borrowed::String(string) = self { Some(Cow::Borrowed(string)) } else { None }
    }

    fn as_number(&self) -> Option<Self::Number> {
        if let Borrowed::Number(number) = self { Some(number) } else { None }
    }

    fn as_boolean(&self) -> Option<bool> {
        if let Borrowed::Bool(boolean) = self { Some(*boolean) } else { None }
    }

    fn is_null(&self) -> bool {
        matches!(self, Borrowed::Null)
    }

    fn json_type(&self) -> JsonType {
        match self {
            Borrowed::Null => JsonType::Null,
            Borrowed::Bool(_) => JsonType::Boolean,
            Borrowed::Number(_) => JsonType::Number,
            Borrowed::String(_) => JsonType::String,
            Borrowed::Array(_) => JsonType::Array,
            Borrowed::Object(_) => JsonType::Object,
        }
    }

    fn string_length_within(&self, min: u64, max: u64) -> Option<bool> {
        let Borrowed::String(string) = self else { return None };
        // A character takes one to four bytes, which often settles it without counting.
        let most = string.len() as u64;
        let fewest = most.div_ceil(4);
        if most < min || fewest > max {
            return Some(false);
        }
        if min <= fewest && most <= max {
            return Some(true);
        }
        Some((min..=max).contains(&(string.chars().count() as u64)))
    }

    fn equals_value(&self, expected: &Value) -> bool {
        self.equals(expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(self.to_owned_value())
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref::<Borrowed<'_>>(self).addr()))
    }
}

impl<'a> Object<'a, BorrowedJson> for &'a [Member<'a>] {
    type Node = &'a Borrowed<'a>;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn get(&self, key: &Box<str>) -> Option<Self::Node> {
        if <[_]>::len(self) <= SCANNED_MEMBERS_MAX {
            return self.iter().find(|(name, _)| **name == **key).map(|(_, value)| value);
        }
        let found = self.binary_search_by(|(name, _)| (**name).cmp(key));
        found.ok().map(|index| &self[index].1)
    }

    fn members(&self) -> Self::MembersIter {
        Members(self.iter())
    }
}

/// The members of an object, by their names.
#[derive(Debug)]
pub(super) struct Members<'a>(std::slice::Iter<'a, Member<'a>>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a Borrowed<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (&**name, value))
    }
}

impl<'a> Array<'a, BorrowedJson> for &'a [Borrowed<'a>] {
    type Node = &'a Borrowed<'a>;
    type ElementsIter = std::slice::Iter<'a, Borrowed<'a>>;

    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn elements(&self) -> Self::ElementsIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Borrowed<'_>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn strings_and_names_without_escapes_are_not_copied() {
        let text = r#"{"näme":"välue","n\u0061":["x\ny"]}"#;
        let Borrowed::Object(members) = read(text).unwrap() else { panic!("no object") };
        let [(escaped, list), (name, value)] = &members[..] else { panic!("{members:?}") };
        assert!(matches!(name, Cow::Borrowed("näme")));
        assert!(matches!(value, Borrowed::String(Cow::Borrowed("välue"))));
        assert!(matches!(escaped, Cow::Owned(name) if name == "na"));
        assert_eq!(list, &Borrowed::Array(vec![Borrowed::String("x\ny".into())]));
    }

    #[test]
    fn a_doubled_or_reserved_name_is_refused() {
        for (text, expected) in [
            (r#"{"a":1,"b":2,"a":1}"#, "\"a\" is given twice in one object at line 1 column 19"),
            (r#"{"a":1,"\u0061":2}"#, "\"a\" is given twice in one object at line 1 column 18"),
            (r#"[{"b":{"":1,"":2}}]"#, "\"\" is given twice in one object at line 1 column 17"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected);
        }
        let long = "é".repeat(1000);
        assert!(read(&format!(r#"{{"{long}":1,"{long}":1}}"#)).unwrap_err().len() < 200);
        let smuggled = format!(r#"{{"a":{{"{RAW_VALUE_NAME}":"1"}}}}"#);
        assert!(read(&smuggled).unwrap_err().contains("is reserved"));
        assert!(read(r#"{"a":{"b":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        for text in ["0", "-1", "9007199254740993", "18446744073709551615", "-9223372036854775808"]
        {
            assert_eq!(read(text).unwrap().to_owned_value().to_string(), text);
        }
        for text in ["1e400", "-1e400", "[1e999]"] {
            let expected = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(read(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn depth_is_bounded_as_it_is_for_common_values() {
        for depth in [1, 100, 126, 127, 128, 129, 10_000] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                let expected = serde_json::from_str::<Value>(&text).map_err(|e| e.to_string());
                assert_eq!(read(&text).map(|value| value.to_owned_value()), expected, "{depth}");
                assert_eq!(expected.is_ok(), depth < 128);
            }
        }
    }

    #[test]
    fn members_are_found_in_objects_of_any_size() {
        for size in [0, 1, SCANNED_MEMBERS_MAX, SCANNED_MEMBERS_MAX + 1, 100] {
            let members: Vec<_> = (0..size).rev().map(|i| format!(r#""k{i}":{i}"#)).collect();
            let text = format!("{{{}}}", members.join(","));
            let value = read(&text).unwrap();
            let object = (&value).as_object().unwrap();
            let find = |name: &str| Object::get(&object, &BorrowedJson::prepare_key(name));
            for i in 0..size {
                assert_eq!(find(&format!("k{i}")), Some(&Borrowed::Number(i.into())));
            }
            for missing in ["", "k", "k100", "l0"] {
                assert_eq!(find(missing), None);
            }
        }
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        for text in ["", "ab", "héllo", "🦀🦀", "日本語"] {
            let (count, value) = (text.chars().count() as u64, Borrowed::String(text.into()));
            for (min, max) in [(0, 0), (0, 2), (2, 2), (3, 9), (5, 5), (6, u64::MAX), (4, 3)] {
                let expected = (min..=max).contains(&count);
                assert_eq!((&value).string_length_within(min, max), Some(expected), "{text}");
            }
        }
        assert_eq!((&Borrowed::Null).string_length_within(0, 1), None);
    }
}
