//! Checking without copies must come to the verdicts that checking `serde_json` values does, and
//! complain in its words, whatever the schema and the value.

#![cfg(test)]

use std::fmt::Write;

use jsonschema::{Draft, Validator};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Schema;
use super::borrowed::{Borrowed, BorrowedJson};

/// One schema in the three forms that must agree.
struct Forms {
    schema: Value,
    quick: Validator<BorrowedJson>,
    reference: Validator,
    whole: Schema,
}

impl Forms {
    fn new(schema: &Value) -> Self {
        let draft = Draft::Draft202012;
        let quick = jsonschema::options_for().with_draft(draft).offline().build(schema);
        let reference = jsonschema::options().with_draft(draft).offline().build(schema);
        let whole = Schema::compile(&RawValue::from_string(schema.to_string()).unwrap());
        Self {
            schema: schema.clone(),
            quick: quick.unwrap(),
            reference: reference.unwrap(),
            whole: whole.unwrap(),
        }
    }

    /// Asserts that all forms say the same of a value and returns what that is.
    fn verdict(&self, text: &str) -> bool {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let whole = self.whole.check(raw.get());
        let place = format!("{text} against {}", self.schema);
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                assert_eq!(whole, Err(error.to_string()), "{place}");
                return false;
            }
        };
        let borrowed: Borrowed<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(borrowed.to_owned_value(), value, "{place}");
        assert_eq!(Borrowed::read(text).ok().as_ref(), Some(&borrowed), "{place}");
        let expected = self.reference.is_valid(&value);
        assert_eq!(self.quick.is_valid(&borrowed), expected, "{place}");
        // The same errors in the same order, or else the complaints would differ too.
        let errors = |errors: Vec<String>| errors.join("\n");
        let found = self.quick.iter_errors(&borrowed).map(|error| error.to_string());
        let wanted = self.reference.iter_errors(&value).map(|error| error.to_string());
        assert_eq!(errors(found.collect()), errors(wanted.collect()), "{place}");
        assert_eq!(whole, self.whole.check_value(&value), "{place}");
        assert_eq!(whole.is_ok(), expected, "{place}");
        expected
    }
}

/// Names that the schemas below mention, and some that they do not.
const NAMES: &[&str] = &["a", "b", "c", "list", "next", "é", "x-1", "kind", ""];

/// Texts whose lengths in bytes, UTF-16 units and characters differ.
const TEXTS: &[&str] =
    &["", "a", "b", "abc", "é", "ééé", "日本語", "🦀🦀", "2024-01-01", "\"\\\n\t"];

/// Numbers as one may write them: around the limits of the integers, of the doubles and of both.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "0.0",
    "-0.0",
    "1",
    "1.0",
    "10e-1",
    "-1",
    "2",
    "3",
    "0.1",
    "0.3",
    "1.5",
    "7.5",
    "1e2",
    "100",
    "9007199254740992",
    "9007199254740993",
    "9007199254740993.0",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "1e300",
    "5e-324",
    "1e-400",
];

/// A string as JSON, with every character escaped that `escaped` hits.
fn quoted(text: &str, escaped: u8) -> String {
    let mut quoted = String::from("\"");
    for (index, character) in text.chars().enumerate() {
        let must = matches!(character, '"' | '\\' | '\0'..' ');
        if must || escaped >> (index % 8) & 1 == 1 {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(quoted, "\\u{unit:04x}");
            }
        } else {
            quoted.push(character);
        }
    }
    quoted.push('"');
    quoted
}

fn scalars() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        4 => prop::sample::select(TEXTS).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop_oneof![
        1 => prop::sample::select(&["null", "true", "false"]).prop_map(str::to_owned),
        4 => prop::sample::select(NUMBERS).prop_map(str::to_owned),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        4 => (text, prop_oneof![2 => Just(0), 1 => any::<u8>()])
            .prop_map(|(text, escaped)| quoted(&text, escaped)),
    ]
}

/// Values as texts, no name twice in one object.
fn values() -> impl Strategy<Value = String> {
    scalars().prop_recursive(4, 48, 8, |inner| {
        let name = prop_oneof![
            9 => prop::sample::select(NAMES).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        let members = prop::collection::btree_map(name, (any::<u8>(), inner.clone()), 0..12);
        let members = members.prop_map(|members| members.into_iter().collect::<Vec<_>>());
        let object = members.prop_shuffle().prop_map(object_of);
        let list = prop::collection::vec(inner, 0..20).prop_map(|items| items.join(" , "));
        prop_oneof![3 => object, 2 => list.prop_map(|items| format!("[ {items} ]"))]
    })
}

/// The text of an object of these members, in this order.
fn object_of(members: Vec<(String, (u8, String))>) -> String {
    let member = |(name, (escaped, value)): (String, (u8, String))| {
        format!("{}:{value}", quoted(&name, if escaped < 200 { 0 } else { escaped }))
    };
    let members: Vec<String> = members.into_iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// One keyword that needs no other schema, with its value.
fn plain_keywords() -> impl Strategy<Value = (String, Value)> {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"]
        .map(|name| json!(name));
    let number = || prop::sample::select(NUMBERS).prop_map(value_of);
    let name = || prop::sample::select(NAMES).prop_map(str::to_owned);
    let names = || prop::collection::btree_set(name(), 0..3);
    let steps = ["1", "2", "0.1", "1.5", "0.01", "3", "9007199254740993", "1e300"];
    let patterns = ["^a", "^\\p{L}+$", "b|c", "^.{2}$", "\\d", "^(?!a)"];
    let enums = prop::collection::vec(values(), 1..14)
        .prop_map(|items| items.iter().map(|item| value_of(item)).collect::<Value>());
    let limit = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let count =
        ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    let keyword = |name: &'static str| move |value: Value| (name.to_owned(), value);
    prop_oneof![
        prop::sample::select(types.to_vec()).prop_map(keyword("type")),
        prop::sample::subsequence(types.to_vec(), 1..4)
            .prop_map(|types| ("type".to_owned(), json!(types))),
        enums.prop_map(keyword("enum")),
        values().prop_map(|value| ("const".to_owned(), value_of(&value))),
        prop::sample::select(steps.to_vec())
            .prop_map(|step| ("multipleOf".to_owned(), value_of(step))),
        (prop::sample::select(limit.to_vec()), number())
            .prop_map(|(name, number)| (name.to_owned(), number)),
        (prop::sample::select(count.to_vec()), 0..5_u32)
            .prop_map(|(name, count)| (name.to_owned(), json!(count))),
        prop::sample::select(patterns.to_vec())
            .prop_map(|pattern| ("pattern".to_owned(), json!(pattern))),
        Just(("uniqueItems".to_owned(), json!(true))),
        Just(("format".to_owned(), json!("date"))),
        names().prop_map(|names| ("required".to_owned(), json!(names))),
        (name(), names())
            .prop_map(|(name, names)| ("dependentRequired".to_owned(), json!({ name: names }))),
    ]
}

/// One keyword that holds other schemas.
fn nesting_keywords(inner: BoxedStrategy<Value>) -> impl Strategy<Value = (String, Value)> {
    let name = prop::sample::select(NAMES).prop_map(str::to_owned);
    let map = prop::collection::btree_map(name, inner.clone(), 0..4);
    let maps = ["properties", "dependentSchemas"];
    let singles = [
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "items",
        "contains",
        "not",
        "if",
        "then",
        "else",
    ];
    let lists = ["allOf", "anyOf", "oneOf", "prefixItems"];
    let pattern = prop::sample::select(&["^a", "é", "^x-", "."]);
    prop_oneof![
        3 => (prop::sample::select(maps.to_vec()), map)
            .prop_map(|(name, map)| (name.to_owned(), json!(map))),
        5 => (prop::sample::select(singles.to_vec()), inner.clone())
            .prop_map(|(name, schema)| (name.to_owned(), schema)),
        2 => (prop::sample::select(lists.to_vec()), prop::collection::vec(inner.clone(), 1..4))
            .prop_map(|(name, schemas)| (name.to_owned(), json!(schemas))),
        1 => (pattern, inner).prop_map(|(pattern, schema)| {
            ("patternProperties".to_owned(), json!({ pattern: schema }))
        }),
    ]
}

/// Schemas whose parts refer to `#/$defs/one` and to the whole.
fn schemas() -> impl Strategy<Value = Value> {
    let object = |keywords: Vec<(String, Value)>| Value::Object(keywords.into_iter().collect());
    let leaf = prop_oneof![
        6 => prop::collection::vec(plain_keywords(), 1..3).prop_map(object),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => prop::sample::select(&["#", "#/$defs/one"])
            .prop_map(|place| json!({ "$ref": place })),
    ];
    let schema = leaf.prop_recursive(3, 24, 4, move |inner| {
        let plain = prop::collection::vec(plain_keywords(), 0..2);
        let nesting = prop::collection::vec(nesting_keywords(inner), 1..4);
        (plain, nesting).prop_map(move |(plain, nesting)| object([plain, nesting].concat()))
    });
    (schema.clone(), schema).prop_map(|(mut whole, one)| {
        if let Some(members) = whole.as_object_mut() {
            members.insert("$defs".to_owned(), json!({ "one": one }));
            return whole;
        }
        json!({ "$ref": "#/$defs/one", "$defs": { "one": one } })
    })
}

/// Schemas by hand, one for every keyword that reads values in its own way, each with values.
const BY_HAND: &[(&str, &[&str])] = &[
    (
        r#"{"type":"object","properties":{"a":{"type":"object","required":["b"]}}}"#,
        &[r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, r#"{"a":1}"#, "[]"],
    ),
    (
        r#"{"uniqueItems":true}"#,
        &["[1,1.0]", "[0,-0.0]", r#"["a","\u0061"]"#, r#"[{"a":1,"b":2},{"b":2,"a":1}]"#, "[1,2]"],
    ),
    (
        r#"{"uniqueItems":true}"#,
        &[
            "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
            "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,16.0]",
            "[9007199254740992,9007199254740993,[],{},0,1,2,3,4,5,6,7,8,9,10,11]",
        ],
    ),
    (r#"{"const":1}"#, &["1", "1.0", "10e-1", "2", "true"]),
    (
        r#"{"const":9007199254740993}"#,
        &["9007199254740993", "9007199254740992", "9007199254740993.0"],
    ),
    (r#"{"enum":[1.0,"x",null,[1],{"a":[2.0]}]}"#, &["1", "[1.0]", r#"{"a":[2]}"#, "{}", "[[1]]"]),
    (
        r#"{"enum":[1,2,18446744073709551615]}"#,
        &["1.0", "18446744073709551615", "18446744073709551616"],
    ),
    (r#"{"type":"integer"}"#, &["1.0", "1.5", "1e300", "9223372036854775808", "-0"]),
    (r#"{"multipleOf":0.1}"#, &["0.3", "0.35", "1", "1e300", "9007199254740993"]),
    (r#"{"multipleOf":3}"#, &["9223372036854775809", "18446744073709551615", "-9", "4.5"]),
    (r#"{"maximum":9223372036854775807}"#, &["9223372036854775807", "9223372036854775808"]),
    (r#"{"exclusiveMinimum":9007199254740992}"#, &["9007199254740993", "9007199254740992"]),
    (
        r#"{"minLength":2,"maxLength":3}"#,
        &[r#""é""#, r#""日本語""#, r#""🦀🦀🦀🦀""#, r#""\ud83e\udd80b""#],
    ),
    (r#"{"pattern":"^\\p{L}\\n"}"#, &[r#""é\n""#, r#""\u00e9\u000a""#, r#""1\n""#]),
    (
        r#"{"properties":{"a":true},"patternProperties":{"^x-":{"type":"string"}},
            "additionalProperties":false}"#,
        &[r#"{"a":1,"x-1":"s"}"#, r#"{"x-1":1}"#, r#"{"b":1}"#, r#"{"\u0061":1}"#],
    ),
    (
        r#"{"propertyNames":{"maxLength":1,"enum":["é","a"]}}"#,
        &[r#"{"é":1}"#, r#"{"\u00e9":1,"b":1}"#],
    ),
    (
        r##"{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","required":["v"],
            "properties":{"next":{"$ref":"#/$defs/tree"}}}}}"##,
        &[r#"{"v":1,"next":{"v":1}}"#, r#"{"v":1,"next":{"v":1,"next":{}}}"#],
    ),
    (
        r#"{"if":{"properties":{"kind":{"const":"a"}},"required":["kind"]},
            "then":{"required":["a"]},"else":{"required":["b"]}}"#,
        &[r#"{"kind":"a","a":1}"#, r#"{"kind":"a","b":1}"#, r#"{"b":1}"#, "{}"],
    ),
    (
        r#"{"allOf":[{"properties":{"a":true}}],"anyOf":[{"properties":{"b":{"const":1}},
            "required":["b"]},{}],"unevaluatedProperties":false}"#,
        &[r#"{"a":1,"b":1.0}"#, r#"{"a":1,"b":2}"#, r#"{"c":1}"#],
    ),
    (
        r#"{"prefixItems":[true],"contains":{"const":2},"unevaluatedItems":false}"#,
        &["[1,2.0]", "[1,3]"],
    ),
    (r#"{"dependentRequired":{"a":["b","é"]}}"#, &[r#"{"a":1,"b":1}"#, r#"{"b":1,"é":1,"a":1}"#]),
    (
        r#"{"contains":{"type":"integer"},"minContains":2,"maxContains":3}"#,
        &["[1]", "[1,2.0]", "[1,2,3,4]"],
    ),
    (
        r#"{"required":["a","b","c","d","e","f","g","h","i","j"]}"#,
        &[
            r#"{"j":1,"i":1,"h":1,"g":1,"f":1,"e":1,"d":1,"c":1,"b":1,"a":1}"#,
            r#"{"j":1,"i":1,"h":1,"g":1,"f":1,"e":1,"d":1,"c":1,"b":1,"k":1}"#,
        ],
    ),
    ("{}", &["1e400", r#"{"a":-1e999}"#, r#"{"a":"\ud800"}"#, "1"]),
];

#[test]
fn values_by_hand_are_judged_alike() {
    let (mut right, mut wrong) = (0, 0);
    for (schema, values) in BY_HAND {
        let forms = Forms::new(&value_of(schema));
        for value in *values {
            *(if forms.verdict(value) { &mut right } else { &mut wrong }) += 1;
        }
    }
    assert!(right > 30 && wrong > 30, "{right} right, {wrong} wrong");
}

/// Some hundred cases in an ordinary run, many when `WATERWHEEL_LONG` asks for them.
fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("WATERWHEEL_LONG").is_some() { 4000 } else { 200 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_value_is_judged_alike_by_any_schema(
        schema in schemas(), values in prop::collection::vec(values(), 4)
    ) {
        let forms = Forms::new(&schema);
        for value in values {
            forms.verdict(&value);
        }
    }
}
