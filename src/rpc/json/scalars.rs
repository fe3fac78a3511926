//! The two places that take only scalars: the key of a map, and a value that is JSON already.

use std::fmt::Display;

use serde::Serialize;
use serde::ser::{Error as _, Impossible, Serializer};
use serde_json::Error;

use super::{Json, write_str};

/// Refuses values without parts.
macro_rules! refuse {
    ($refusal:ident: $($method:ident($type:ty),)*) => {$(
        fn $method(self, _value: $type) -> Result<(), Error> {
            Err($refusal())
        }
    )*};
}

/// Refuses whatever is neither a scalar nor as good as one.
macro_rules! refuse_structure {
    ($refusal:ident) => {
        type Ok = ();
        type Error = Error;
        type SerializeSeq = Impossible<(), Error>;
        type SerializeTuple = Impossible<(), Error>;
        type SerializeTupleStruct = Impossible<(), Error>;
        type SerializeTupleVariant = Impossible<(), Error>;
        type SerializeMap = Impossible<(), Error>;
        type SerializeStruct = Impossible<(), Error>;
        type SerializeStructVariant = Impossible<(), Error>;

        refuse! { $refusal: serialize_bytes(&[u8]), serialize_unit_struct(&'static str), }

        fn serialize_none(self) -> Result<(), Error> {
            Err($refusal())
        }

        fn serialize_unit(self) -> Result<(), Error> {
            Err($refusal())
        }

        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _name: &'static str,
            _index: u32,
            _variant: &'static str,
            _value: &T,
        ) -> Result<(), Error> {
            Err($refusal())
        }

        fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, Error> {
            Err($refusal())
        }

        fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, Error> {
            Err($refusal())
        }

        fn serialize_tuple_struct(
            self,
            _name: &'static str,
            _len: usize,
        ) -> Result<Self::SerializeTupleStruct, Error> {
            Err($refusal())
        }

        fn serialize_tuple_variant(
            self,
            _name: &'static str,
            _index: u32,
            _variant: &'static str,
            _len: usize,
        ) -> Result<Self::SerializeTupleVariant, Error> {
            Err($refusal())
        }

        fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, Error> {
            Err($refusal())
        }

        fn serialize_struct(
            self,
            _name: &'static str,
            _len: usize,
        ) -> Result<Self::SerializeStruct, Error> {
            Err($refusal())
        }

        fn serialize_struct_variant(
            self,
            _name: &'static str,
            _index: u32,
            _variant: &'static str,
            _len: usize,
        ) -> Result<Self::SerializeStructVariant, Error> {
            Err($refusal())
        }
    };
}

/// The place of a key, which is a string or can be made one by quotes around it.
pub(super) struct Key<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

impl Key<'_> {
    /// Writes a scalar in quotes.
    #[inline]
    fn quote(self, value: impl Serialize) -> Result<(), Error> {
        self.out.push(b'"');
        super::write(self.out, &value)?;
        self.out.push(b'"');
        Ok(())
    }
}

#[cold]
fn key_refusal() -> Error {
    Error::custom("key must be a string")
}

/// Writes scalars in quotes.
macro_rules! quote {
    ($($method:ident($type:ty),)*) => {$(
        fn $method(self, value: $type) -> Result<(), Error> {
            self.quote(value)
        }
    )*};
}

impl Serializer for Key<'_> {
    refuse_structure!(key_refusal);

    quote! {
        serialize_bool(bool),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_i128(i128), serialize_u128(u128),
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        if number.is_finite() { self.quote(number) } else { Err(key_refusal()) }
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        if number.is_finite() { self.quote(number) } else { Err(key_refusal()) }
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        Json { out: self.out }.serialize_char(value)
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Result<(), Error> {
        write_str(self.out, text);
        Ok(())
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
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

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        Json { out: self.out }.collect_str(value)
    }
}

/// The place of a value whose JSON comes as a string.
pub(super) struct Raw<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

#[cold]
fn raw_refusal() -> Error {
    Error::custom("expected RawValue")
}

impl Serializer for Raw<'_> {
    refuse_structure!(raw_refusal);

    refuse! {
        raw_refusal:
        serialize_bool(bool), serialize_char(char),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_i128(i128), serialize_u128(u128), serialize_f32(f32), serialize_f64(f64),
    }

    #[inline]
    fn serialize_str(self, json: &str) -> Result<(), Error> {
        self.out.extend_from_slice(json.as_bytes());
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _value: &T) -> Result<(), Error> {
        Err(raw_refusal())
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
    ) -> Result<(), Error> {
        Err(raw_refusal())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _value: &T,
    ) -> Result<(), Error> {
        Err(raw_refusal())
    }
}
