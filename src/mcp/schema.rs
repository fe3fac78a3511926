//! JSON Schemas of tools: compiled once at registration, checked on every call. Nothing is ever
//! fetched: a schema that refers to another document is refused. Without the feature `schema` the
//! same names exist, but only the outermost shape is checked.

use serde_json::value::RawValue;

/// The largest schema text accepted; hand-written and generated ones stay far below it.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Checks what both builds demand of a schema: a JSON object of bounded size.
fn check_shape(schema: &RawValue) -> Result<(), String> {
    let text = schema.get();
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(format!("the schema is longer than {SCHEMA_BYTES_MAX} bytes"));
    }
    if !text.starts_with('{') {
        return Err("the schema is not a JSON object".to_owned());
    }
    Ok(())
}

#[cfg(feature = "schema")]
mod borrowed;

#[cfg(feature = "schema")]
mod agreement;

#[cfg(feature = "schema")]
mod compiled {
    use std::fmt::Write;
    use std::sync::OnceLock;

    use jsonschema::json::Json;
    use jsonschema::{Draft, ValidationError, Validator};
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::borrowed::{Borrowed, BorrowedJson, NUMBERS_ARE_TEXT};

    /// A schema ready to check values.
    #[derive(Debug)]
    pub struct Schema {
        /// Says whether a value conforms, without copying it.
        quick: Validator<BorrowedJson>,
        /// Says what is wrong with a value; made of `text` for the first value it is asked about.
        thorough: OnceLock<Result<Validator, String>>,
        /// The schema as it was written.
        text: Box<str>,
        /// It asks for an object and nothing else, which the first byte of a value tells.
        takes_any_object: bool,
    }

    /// How many complaints one answer holds: enough to act upon, too few to drown a model in.
    const COMPLAINTS_MAX: usize = 5;

    /// The longest single complaint, as it quotes the value it is about.
    const COMPLAINT_BYTES_MAX: usize = 300;

    impl Schema {
        /// Compiles a schema of 2020-12, or of the dialect its `$schema` names.
        ///
        /// Fails on unknown dialects, keywords used wrongly and references that lead outside.
        pub fn compile(schema: &RawValue) -> Result<Self, String> {
            super::check_shape(schema)?;
            let text = schema.get();
            // The parser bounds how deeply the schema nests.
            let schema: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
            Ok(Self {
                quick: build(&schema)?,
                thorough: OnceLock::new(),
                text: text.into(),
                takes_any_object: takes_any_object(&schema),
            })
        }

        /// Checks a value as it was written; the complaint is fit for the model that wrote it.
        pub fn check(&self, text: &str) -> Result<(), String> {
            if self.takes_any_object && text.starts_with('{') {
                return Ok(());
            }
            if NUMBERS_ARE_TEXT {
                let value = serde_json::from_str(text).map_err(|e| e.to_string())?;
                return self.check_value(&value);
            }
            let value = Borrowed::read(text).map_err(|e| e.to_string())?;
            // Most values are right, and saying so is much cheaper than looking for what is wrong.
            if self.quick.is_valid(&value) {
                return Ok(());
            }
            self.check_value(&value.to_owned_value())
        }

        /// Checks a value that has been parsed already.
        pub fn check_value(&self, value: &Value) -> Result<(), String> {
            let validator = self.thorough.get_or_init(|| self.build_thorough());
            let validator = validator.as_ref().map_err(Clone::clone)?;
            if validator.is_valid(value) {
                return Ok(());
            }
            Err(complaints(validator, value))
        }

        /// Compiles the schema again; what compiled once does so every time.
        #[cold]
        fn build_thorough(&self) -> Result<Validator, String> {
            let schema = serde_json::from_str(&self.text).map_err(|e| e.to_string())?;
            build(&schema)
        }
    }

    /// A validator for values in the form `F`.
    fn build<F: Json>(schema: &Value) -> Result<Validator<F>, String> {
        jsonschema::options_for::<F>()
            .with_draft(dialect_of(schema)?)
            .offline()
            .build(schema)
            .map_err(|error| complaint(&error))
    }

    /// The first few things wrong with a value, one a line.
    fn complaints(validator: &Validator, value: &Value) -> String {
        let mut errors = validator.iter_errors(value);
        let mut text = String::new();
        for error in errors.by_ref().take(COMPLAINTS_MAX) {
            let separator = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{separator}{}", complaint(&error));
        }
        if errors.next().is_some() {
            text.push_str("\nand more");
        }
        text
    }

    /// Whether every object conforms: the usual schema of a tool without parameters.
    fn takes_any_object(schema: &Value) -> bool {
        let Some(members) = schema.as_object() else { return false };
        members.iter().all(|(keyword, value)| match keyword.as_str() {
            "type" => value == "object",
            "properties" => value.as_object().is_some_and(serde_json::Map::is_empty),
            "$schema" | "title" | "description" | "$comment" => true,
            _ => false,
        }) && members.contains_key("type")
    }

    /// The dialect a schema asks for.
    fn dialect_of(schema: &Value) -> Result<Draft, String> {
        let Some(named) = schema.get("$schema") else {
            return Ok(Draft::Draft202012);
        };
        let named = named.as_str().ok_or("$schema is not a string")?;
        match Draft::from_schema_uri(named) {
            Draft::Unknown => Err(format!("unknown dialect {named:?}")),
            known => Ok(known),
        }
    }

    /// One complaint: where, then what.
    fn complaint(error: &ValidationError<'_>) -> String {
        let place = error.instance_path().as_str();
        let place = if place.is_empty() { "at the top" } else { place };
        let mut text = format!("{place}: {error}");
        if text.len() > COMPLAINT_BYTES_MAX {
            text.truncate(crate::rpc::excerpt_to(&text, COMPLAINT_BYTES_MAX).len());
            text.push_str("...");
        }
        text
    }
}

#[cfg(not(feature = "schema"))]
mod compiled {
    use serde_json::Value;
    use serde_json::value::RawValue;

    /// A schema that accepts every value, as this build does not check schemas.
    #[derive(Debug)]
    pub struct Schema(());

    impl Schema {
        /// Accepts any JSON object of bounded size as a schema.
        pub fn compile(schema: &RawValue) -> Result<Self, String> {
            super::check_shape(schema).map(Self)
        }

        /// Accepts the value.
        pub fn check(&self, _text: &str) -> Result<(), String> {
            Ok(())
        }

        /// Accepts the value.
        pub fn check_value(&self, _value: &Value) -> Result<(), String> {
            Ok(())
        }
    }
}

pub use compiled::Schema;

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(schema: &str) -> Result<Schema, String> {
        Schema::compile(&RawValue::from_string(schema.to_owned()).unwrap())
    }

    #[test]
    fn a_schema_is_an_object_of_bounded_size() {
        for schema in ["true", "[]", "1", "null"] {
            assert!(compile(schema).is_err(), "{schema}");
        }
        let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        assert!(compile(&large).is_err());
        assert!(compile("{}").is_ok());
    }
}

#[cfg(all(test, feature = "schema"))]
mod checking_tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn compile(schema: &str) -> Result<Schema, String> {
        Schema::compile(&raw(schema))
    }

    fn check(schema: &str, value: &str) -> Result<(), String> {
        compile(schema).unwrap().check(value)
    }

    #[test]
    fn b061_complaints_say_where_and_what() {
        let schema = r#"{"type":"object","required":["a"],"properties":{
            "a":{"type":"integer"},"list":{"items":{"type":"string"}}}}"#;
        assert_eq!(check(schema, r#"{"a":1}"#), Ok(()));
        for (value, expected) in [
            ("{}", "at the top: \"a\" is a required property"),
            (r#"{"a":"x"}"#, "/a: \"x\" is not of type \"integer\""),
            (r#"{"a":1,"list":["x",2]}"#, "/list/1: 2 is not of type \"string\""),
        ] {
            assert_eq!(check(schema, value).unwrap_err(), expected);
        }
    }

    #[test]
    fn complaints_are_few_and_short() {
        let schema = r#"{"items":{"type":"string"}}"#;
        let value = format!("[{}]", vec!["[1,2,3,4,5,6,7,8,9]"; 100].join(","));
        let complaints = check(schema, &value).unwrap_err();
        assert_eq!(complaints.lines().count(), 6);
        assert!(complaints.ends_with("and more"));
        let long = format!("[[\"{}\"]]", "é".repeat(10_000));
        assert!(check(schema, &long).unwrap_err().len() < 400);
    }

    #[test]
    fn the_dialect_is_2020_12_or_the_one_named() {
        let prefix = r#"{"prefixItems":[{"type":"string"}]}"#;
        assert!(check(prefix, "[1]").is_err());
        let older = r#"{"$schema":"http://json-schema.org/draft-07/schema#",
            "prefixItems":[{"type":"string"}]}"#;
        assert_eq!(check(older, "[1]"), Ok(()));
        for schema in [
            r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}"#,
            r#"{"$schema":"https://json-schema.org/draft/2019-09/schema#","type":"object"}"#,
        ] {
            compile(schema).unwrap();
        }
        for schema in [r#"{"$schema":"https://example.com/mine"}"#, r#"{"$schema":5}"#] {
            assert!(compile(schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn references_lead_nowhere_but_inside() {
        let inside = r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}"##;
        assert!(check(inside, "1").is_err());
        for schema in [
            r#"{"$ref":"https://example.com/schema.json"}"#,
            r#"{"$ref":"http://127.0.0.1:1/x"}"#,
            r#"{"$ref":"file:///etc/passwd"}"#,
            r#"{"$ref":"other.json"}"#,
            r#"{"properties":{"a":{"$ref":"https://example.com/schema.json"}}}"#,
            r##"{"$ref":"#/$defs/missing"}"##,
        ] {
            assert!(compile(schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn keywords_used_wrongly_are_refused() {
        for schema in [
            r#"{"type":"strin"}"#,
            r#"{"type":5}"#,
            r#"{"pattern":"("}"#,
            r#"{"required":"a"}"#,
            r#"{"minLength":-1}"#,
        ] {
            assert!(compile(schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn b029_numbers_beyond_doubles_are_complaints() {
        assert_eq!(check("{}", r#"{"n":9007199254740993,"m":18446744073709551615}"#), Ok(()));
        assert!(check("{}", r#"{"f":1e400}"#).is_err());
    }

    #[test]
    fn a_doubled_name_is_a_complaint() {
        let schema = r#"{"properties":{"a":{"type":"integer"}}}"#;
        let complaint = check(schema, r#"{"a":"x","a":1}"#).unwrap_err();
        assert!(complaint.starts_with("\"a\" is given twice in one object"), "{complaint}");
    }

    #[test]
    fn parsed_values_are_checked_alike() {
        let schema = compile(r#"{"required":["a"]}"#).unwrap();
        for (value, verdict) in [(r#"{"a":1}"#, true), ("{}", false), ("[]", true)] {
            let parsed = serde_json::from_str(value).unwrap();
            assert_eq!(schema.check_value(&parsed), schema.check(value));
            assert_eq!(schema.check_value(&parsed).is_ok(), verdict, "{value}");
        }
    }

    #[test]
    fn recursive_schemas_compile_and_end() {
        let schema = r##"{"properties":{"next":{"$ref":"#"}},"required":["v"]}"##;
        assert!(check(schema, r#"{"v":1,"next":{"v":1,"next":{"v":2}}}"#).is_ok());
        assert!(check(schema, r#"{"v":1,"next":{"v":1,"next":{}}}"#).is_err());
    }
}
