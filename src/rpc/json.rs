//! Values to JSON, byte for byte as serde_json writes them without whitespace. What differs is the
//! speed of strings: they are searched for something to escape in strides, not byte by byte, and
//! copied in runs.

mod scalars;
mod text;

use std::fmt::{self, Display, Write as _};

use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

/// Appends `value` to `out`, which after an error ends in the middle of it.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
    value.serialize(Json { out })
}

use scalars::{Key, Raw};
use text::write_escaped;
pub(crate) use text::{clean_strides_len, write_str};

/// The place of one value.
struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Json<'a> {
    /// Opens the object around the value of a variant.
    #[inline]
    fn open_variant(&mut self, variant: &str) {
        self.out.push(b'{');
        write_str(self.out, variant);
        self.out.push(b':');
    }

    /// Opens an array or an object.
    #[inline]
    fn open(self, bracket: u8) -> Items<'a> {
        self.out.push(bracket);
        Items { out: self.out, is_first: true }
    }
}

/// Writes integers as their digits.
macro_rules! write_integers {
    ($($method:ident($type:ty),)*) => {$(
        #[inline]
        fn $method(self, number: $type) -> Result<(), Error> {
            self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            Ok(())
        }
    )*};
}

impl<'a> Serializer for Json<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Items<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Items<'a>;

    write_integers! {
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_i128(i128), serialize_u128(u128),
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        let text: &[u8] = if value { b"true" } else { b"false" };
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        serde_json::to_writer(self.out, &number)
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        serde_json::to_writer(self.out, &number)
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Result<(), Error> {
        write_str(self.out, text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    #[inline]
    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.open_variant(variant);
        write(self.out, value)?;
        self.out.push(b'}');
        Ok(())
    }

    #[inline]
    fn serialize_seq(self, _len: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(self.open(b'['))
    }

    #[inline]
    fn serialize_tuple(self, _len: usize) -> Result<Items<'a>, Error> {
        Ok(self.open(b'['))
    }

    #[inline]
    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Items<'a>, Error> {
        Ok(self.open(b'['))
    }

    #[inline]
    fn serialize_tuple_variant(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items<'a>, Error> {
        self.open_variant(variant);
        Ok(self.open(b'['))
    }

    #[inline]
    fn serialize_map(self, _len: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(self.open(b'{'))
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Fields<'a>, Error> {
        Ok(match name {
            RAW_VALUE | RAW_NUMBER => Fields::Raw(self.out),
            _ => Fields::Plain(self.open(b'{')),
        })
    }

    #[inline]
    fn serialize_struct_variant(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items<'a>, Error> {
        self.open_variant(variant);
        Ok(self.open(b'{'))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.out.push(b'"');
        write!(Escaped { out: self.out }, "{value}").map_err(Error::custom)?;
        self.out.push(b'"');
        Ok(())
    }
}

/// The inside of a string that comes in pieces.
struct Escaped<'a> {
    out: &'a mut Vec<u8>,
}

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(self.out, text.as_bytes());
        Ok(())
    }
}

/// An open array or object.
struct Items<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl Items<'_> {
    /// Sets the next item apart from the one before.
    #[inline]
    fn separate(&mut self) {
        if !self.is_first {
            self.out.push(b',');
        }
        self.is_first = false;
    }

    /// Writes an item of an array.
    #[inline]
    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.separate();
        write(self.out, value)
    }

    /// Writes a member whose name is known to be a string.
    #[inline]
    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.separate();
        write_str(self.out, name);
        self.out.push(b':');
        write(self.out, value)
    }

    /// Closes all that was opened.
    #[inline]
    fn close(self, brackets: &[u8]) -> Result<(), Error> {
        self.out.extend_from_slice(brackets);
        Ok(())
    }
}

/// Writes the items of an array.
macro_rules! write_elements {
    ($($trait:ident::$method:ident, $brackets:literal;)*) => {$(
        impl $trait for Items<'_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close($brackets)
            }
        }
    )*};
}

write_elements! {
    SerializeSeq::serialize_element, b"]";
    SerializeTuple::serialize_element, b"]";
    SerializeTupleStruct::serialize_field, b"]";
    SerializeTupleVariant::serialize_field, b"]}";
}

impl SerializeMap for Items<'_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.separate();
        key.serialize(Key { out: self.out })
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        write(self.out, value)
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        self.close(b"}")
    }
}

impl SerializeStructVariant for Items<'_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.field(name, value)
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        self.close(b"}}")
    }
}

/// How serde_json's `RawValue` names itself and its only field.
const RAW_VALUE: &str = "$serde_json::private::RawValue";
/// The same for its `Number`, if anything in the program turns on its `arbitrary_precision`.
const RAW_NUMBER: &str = "$serde_json::private::Number";

/// An open struct.
enum Fields<'a> {
    /// One that is an object.
    Plain(Items<'a>),
    /// One whose only field is JSON already.
    Raw(&'a mut Vec<u8>),
}

impl SerializeStruct for Fields<'_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        match self {
            Self::Plain(items) => items.field(name, value),
            Self::Raw(out) => value.serialize(Raw { out }),
        }
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        match self {
            Self::Plain(items) => items.close(b"}"),
            Self::Raw(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text::STRIDE;
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn written(value: &(impl Serialize + ?Sized)) -> Result<String, String> {
        let mut out = b"before;".to_vec();
        write(&mut out, value).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap().strip_prefix("before;").unwrap().to_owned())
    }

    /// The text of a value, after it has been compared with what serde_json makes of it.
    #[track_caller]
    fn same(value: impl Serialize) -> Result<String, String> {
        let expected = serde_json::to_string(&value).map_err(|error| error.to_string());
        let ours = written(&value);
        assert_eq!(ours, expected);
        ours
    }

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Newtype<T>(T);

    #[derive(Serialize)]
    struct Tuple(u8, &'static str);

    #[derive(Serialize)]
    struct Empty {}

    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    enum Kind {
        Unit,
        #[serde(rename = "new \"type\"")]
        Newtype(Option<u8>),
        Tuple(u8, bool),
        None(),
        Struct {
            a: u8,
            b: (),
        },
    }

    #[derive(Serialize)]
    struct Flat {
        a: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        b: Option<u8>,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
        #[serde(flatten)]
        kind: Kind,
        #[serde(rename = "\n")]
        line: char,
    }

    #[derive(Serialize)]
    #[serde(tag = "type")]
    enum Inside {
        A { x: u8 },
        B,
    }

    #[derive(Serialize)]
    #[serde(tag = "type", content = "of")]
    enum Beside {
        A(u8, u8),
        B,
    }

    #[derive(Serialize)]
    #[serde(untagged)]
    enum Untagged {
        A(u8),
        B { x: u8 },
        C,
    }

    struct Bytes(&'static [u8]);

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }

    /// Comes in as many pieces as it has parts.
    struct Shown([&'static str; 3]);

    impl Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.iter().try_for_each(|part| f.write_str(part))
        }
    }

    impl Serialize for Shown {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    /// A map of one entry, whatever the key.
    struct Entry<K>(K);

    impl<K: Serialize> Serialize for Entry<K> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([(&self.0, 1)])
        }
    }

    #[test]
    fn scalars_are_written_as_serde_json_does() {
        same((true, false, (), Unit, None::<u8>, Some(Some(1)))).unwrap();
        same((i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN, -1, 0)).unwrap();
        same((u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX, usize::MAX)).unwrap();
        same([0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e17, -1e-7, 5e-324, f64::MAX, f64::EPSILON])
            .unwrap();
        same([0.1f32, 1e16, f32::MIN_POSITIVE, f32::MAX]).unwrap();
        assert_eq!(same((f64::NAN, f64::INFINITY, f32::NEG_INFINITY)).unwrap(), "[null,null,null]");
        same(('a', '"', '\\', '\u{0}', 'é', '\u{2028}', '🦀')).unwrap();
        assert_eq!(same([Bytes(b""), Bytes(b"\0\x7f\xff")]).unwrap(), "[[],[0,127,255]]");
        same([Shown(["", "", ""]), Shown(["a\"", "\n", "\\é"])]).unwrap();
    }

    #[test]
    fn compounds_are_written_as_serde_json_does() {
        same(json!({"": [], "a": {}, "b": [[1, [2]], {"c": {"d": null}}]})).unwrap();
        same((Newtype("x"), Newtype(Newtype(1)), Tuple(1, "y"), Empty {}, [(); 0])).unwrap();
        same([Kind::Unit, Kind::Newtype(None), Kind::Tuple(1, true), Kind::None()]).unwrap();
        assert_eq!(same(Kind::Struct { a: 1, b: () }).unwrap(), r#"{"Struct":{"a":1,"b":null}}"#);
        same((Inside::A { x: 1 }, Inside::B, Beside::A(1, 2), Beside::B)).unwrap();
        same((Untagged::A(1), Untagged::B { x: 2 }, Untagged::C)).unwrap();
        let rest = BTreeMap::from([("k\"".to_owned(), json!([1])), ("l".to_owned(), json!({}))]);
        let flat = Flat { a: 1, b: None, rest, kind: Kind::Tuple(2, false), line: '\n' };
        assert_eq!(same(flat).unwrap(), r#"{"a":1,"k\"":[1],"l":{},"Tuple":[2,false],"\n":"\n"}"#);
        // Nobody has to say beforehand how much there will be.
        same(Entry(Kind::Unit)).unwrap();
        struct Unsized;
        impl Serialize for Unsized {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq((0..9).filter(|number| number % 2 == 0))
            }
        }
        same(Unsized).unwrap();
    }

    #[test]
    fn keys_are_strings_or_become_strings() {
        same((Entry("a\n"), Entry('"'), Entry(true), Entry(Kind::Unit))).unwrap();
        same((Entry(i8::MIN), Entry(i16::MIN), Entry(i32::MIN), Entry(i64::MIN))).unwrap();
        same((Entry(u8::MAX), Entry(u16::MAX), Entry(u32::MAX), Entry(u64::MAX))).unwrap();
        same((Entry(i128::MIN), Entry(u128::MAX), Entry(1.5), Entry(0.1f32))).unwrap();
        same((Entry(Newtype(Newtype(7))), Entry(Some("x")), Entry(Shown(["\"", "\t", ""]))))
            .unwrap();
        assert_eq!(same(BTreeMap::from([(-1, 'a'), (10, 'b')])).unwrap(), r#"{"-1":"a","10":"b"}"#);
    }

    #[test]
    fn other_keys_are_refused() {
        let raw = RawValue::from_string("1".to_owned()).unwrap();
        for refused in [
            same(Entry(())),
            same(Entry(Unit)),
            same(Entry(None::<u8>)),
            same(Entry(Bytes(b"a"))),
            same(Entry([1])),
            same(Entry(vec![1])),
            same(Entry(Tuple(1, ""))),
            same(Entry(Empty {})),
            same(Entry(Entry(1))),
            same(Entry(Kind::Newtype(None))),
            same(Entry(Kind::Tuple(1, true))),
            same(Entry(Kind::Struct { a: 1, b: () })),
            same(Entry(raw)),
        ] {
            assert_eq!(refused, Err("key must be a string".to_owned()));
        }
        for number in [f64::NAN, f64::INFINITY] {
            assert!(written(&Entry(number)).is_err() && written(&Entry(number as f32)).is_err());
        }
    }

    #[test]
    fn json_that_is_json_already_is_copied() {
        let raw = RawValue::from_string(r#"{ "a" : [1.0e2,"\u0041\/"] }"#.to_owned()).unwrap();
        let text = same(BTreeMap::from([("x", [&*raw, RawValue::NULL])])).unwrap();
        assert_eq!(text, r#"{"x":[{ "a" : [1.0e2,"\u0041\/"] },null]}"#);
        #[derive(Serialize)]
        #[serde(rename = "$serde_json::private::RawValue")]
        struct Impostor<T> {
            #[serde(rename = "$serde_json::private::RawValue")]
            json: T,
        }
        same(Impostor { json: "[1]" }).unwrap();
        assert!(same(Impostor { json: 1 }).is_err());
        assert!(same(Impostor { json: Some("1") }).is_err());
        assert!(same(Impostor { json: Kind::Unit }).is_err());
        assert!(same(Impostor { json: [1] }).is_err());
    }

    #[test]
    fn an_error_of_the_value_is_passed_on() {
        struct Failing;
        impl Serialize for Failing {
            fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
                Err(S::Error::custom("not today"))
            }
        }
        assert_eq!(same((1, [Newtype(Failing)])), Err("not today".to_owned()));
        struct Unshown;
        impl Display for Unshown {
            fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        let mut out = Vec::new();
        assert!(Json { out: &mut out }.collect_str(&Unshown).is_err());
    }

    #[test]
    fn every_character_is_escaped_wherever_it_stands() {
        let beyond = ['\u{80}', '\u{a2}', 'é', '\u{2028}', '🦀'];
        let special = (0..=0x7f).map(char::from).chain(beyond);
        for special in special {
            for before in (0..10).chain(STRIDE - 9..STRIDE + 10).chain([2 * STRIDE - 1, 300]) {
                for after in [0, 1, 3, 4, 7, 8, STRIDE - 1, STRIDE, STRIDE + 5] {
                    let text = format!("{}{special}{}", "~".repeat(before), "\u{7f}".repeat(after));
                    assert_eq!(written(&text), Ok(serde_json::to_string(&text).unwrap()));
                }
            }
            let crowd = special.to_string().repeat(3 * STRIDE + 1);
            for from in (0..STRIDE).filter(|&from| crowd.is_char_boundary(from)) {
                same(&crowd[from..]).unwrap();
            }
        }
    }

    #[test]
    fn long_texts_are_copied() {
        for len in [1000, 4096, 100_000] {
            let quoted = format!("{}\"", "y".repeat(len));
            for text in ["x".repeat(len), "aé€🦀".repeat(len), quoted] {
                same(&text).unwrap();
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// Mostly clean runs, with everything that could stand between them.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            (0..200usize).prop_map(|len| "z".repeat(len)),
            prop::collection::vec(0..0x80u8, 0..40)
                .prop_map(|bytes| bytes.into_iter().map(char::from).collect()),
            any::<String>(),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_value_is_written_as_serde_json_does(value in values()) {
            prop_assert_eq!(written(&value), Ok(serde_json::to_string(&value).unwrap()));
        }

        #[test]
        fn any_text_is_written_as_serde_json_does(text in texts()) {
            let expected = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(written(&text), Ok(expected.clone()));
            prop_assert_eq!(written(&Entry(&text)), Ok(format!("{{{expected}:1}}")));
            let twice = serde_json::to_string(&text.repeat(2)).unwrap();
            prop_assert_eq!(written(&format_args!("{text}{text}")), Ok(twice));
        }

        #[test]
        fn any_float_is_written_as_serde_json_does(number: f64, small: f32) {
            let expected = serde_json::to_string(&(number, small)).unwrap();
            prop_assert_eq!(written(&(number, small)), Ok(expected));
        }
    }
}
