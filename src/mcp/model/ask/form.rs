//! Forms for the user to fill in: flat objects of a few plain kinds of fields.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::super::{At, Members, Render, entry_list, raw, serialize_newest};
use crate::mcp::version::{Elicitation, Version};

/// The schema of a form.
///
/// Field by field, in the order in which clients are to show them. Clients fill in defaults where
/// they know them.
///
/// ```
/// use waterwheel::{ChoiceField, FormSchema, NumberField, TextField, TextFormat};
///
/// let form = FormSchema::new()
///     .field("email", TextField::new().title("Mail").format(TextFormat::Email).required())
///     .field("age", NumberField::integer().minimum(18).default(30))
///     .field("size", ChoiceField::titled([("s", "Small"), ("l", "Large")]));
/// # let _ = form;
/// ```
#[derive(Clone, Debug, Default)]
pub struct FormSchema(Vec<(String, FormField)>);

impl FormSchema {
    /// A form without fields, so far.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One more field, which replaces one of the same name.
    pub fn field(mut self, name: impl Into<String>, field: impl Into<FormField>) -> Self {
        let (name, field) = (name.into(), field.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = field,
            None => self.0.push((name, field)),
        }
        self
    }

    /// Whether there is a field of several values, which older revisions have not.
    fn needs_lists(&self) -> bool {
        self.0.iter().any(|(_, field)| field.kind == "array")
    }
}

serialize_newest!(FormSchema);

impl Render for FormSchema {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        struct Fields<'a>(&'a FormSchema, Version);
        impl Serialize for Fields<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let fields = self.0.0.iter();
                serializer.collect_map(fields.map(|(name, field)| (name, At(field, self.1))))
            }
        }
        let required = self.0.iter().filter(|(_, field)| field.is_required).map(|(name, _)| name);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &Fields(self, version))?;
        entry_list(&mut map, "required", &required.collect::<Vec<_>>())?;
        map.end()
    }
}

/// The schema of a form, built or written by hand.
///
/// One that is written by hand is sent as it is. It must be an object of `type` `object` whose
/// `properties` are of the kinds [`FormSchema`] has; clients refuse others.
#[derive(Clone, Debug)]
pub struct RequestedSchema(Written);

#[derive(Clone, Debug)]
enum Written {
    Built(FormSchema),
    ByHand(Box<RawValue>),
}

impl From<FormSchema> for RequestedSchema {
    fn from(schema: FormSchema) -> Self {
        Self(Written::Built(schema))
    }
}

impl From<serde_json::Value> for RequestedSchema {
    fn from(schema: serde_json::Value) -> Self {
        Self(Written::ByHand(raw(&schema)))
    }
}

impl From<Box<RawValue>> for RequestedSchema {
    fn from(schema: Box<RawValue>) -> Self {
        Self(Written::ByHand(schema))
    }
}

impl RequestedSchema {
    /// Whether it is known to ask for what older revisions have not.
    pub(super) fn needs_lists(&self) -> bool {
        match &self.0 {
            Written::Built(schema) => schema.needs_lists(),
            Written::ByHand(_) => false,
        }
    }
}

impl Render for RequestedSchema {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Written::Built(schema) => schema.render(version, serializer),
            Written::ByHand(schema) => schema.serialize(serializer),
        }
    }
}

/// A field of a form, of any kind: each kind converts into it.
#[derive(Clone, Debug)]
pub struct FormField {
    kind: &'static str,
    choices: Option<Choices>,
    members: Members,
    is_required: bool,
}

/// What can be chosen, and how it is written.
#[derive(Clone, Debug)]
enum Choices {
    Plain(Vec<String>),
    Titled(Vec<(String, String)>),
    /// As before 2025-11-25, which later revisions put up with.
    Named(Vec<(String, String)>),
}

impl FormField {
    fn new(kind: &'static str, choices: Option<Choices>) -> Self {
        Self { kind, choices, members: Members::new(), is_required: false }
    }
}

impl Render for FormField {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind)?;
        if let Some(choices) = &self.choices {
            if self.kind == "array" {
                map.serialize_entry("items", &Items(choices))?;
            } else {
                choices.fields(&mut map, version)?;
            }
        }
        self.members.entries(&mut map, &[])?;
        map.end()
    }
}

impl Choices {
    /// Writes them as members of a field with one value.
    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        // Titles within the schema came together with questions by URL.
        let has_titles = version.rules().elicitation == Elicitation::FormAndUrl;
        match self {
            Self::Plain(values) => map.serialize_entry("enum", values),
            Self::Titled(choices) if has_titles => {
                map.serialize_entry("oneOf", &titled_values(choices))
            }
            Self::Titled(choices) | Self::Named(choices) => {
                let (values, names): (Vec<_>, Vec<_>) =
                    choices.iter().map(|(value, name)| (value, name)).unzip();
                map.serialize_entry("enum", &values)?;
                map.serialize_entry("enumNames", &names)
            }
        }
    }
}

/// What the values of a list can be.
struct Items<'a>(&'a Choices);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            Choices::Plain(values) => {
                map.serialize_entry("type", "string")?;
                map.serialize_entry("enum", values)?;
            }
            Choices::Titled(choices) | Choices::Named(choices) => {
                map.serialize_entry("anyOf", &titled_values(choices))?;
            }
        }
        map.end()
    }
}

/// A value and what people call it.
#[derive(Serialize)]
struct TitledValue<'a> {
    r#const: &'a str,
    title: &'a str,
}

fn titled_values(choices: &[(String, String)]) -> Vec<TitledValue<'_>> {
    choices.iter().map(|(value, title)| TitledValue { r#const: value, title }).collect()
}

fn pairs<V: Into<String>, T: Into<String>>(
    choices: impl IntoIterator<Item = (V, T)>,
) -> Vec<(String, String)> {
    choices.into_iter().map(|(value, title)| (value.into(), title.into())).collect()
}

/// Gives the kinds of fields what all of them have.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(FormField);

        impl $name {
            /// What people call the field.
            pub fn title(self, title: impl Into<String>) -> Self {
                self.with("title", title.into())
            }

            /// What to fill in.
            pub fn description(self, description: impl Into<String>) -> Self {
                self.with("description", description.into())
            }

            /// The same field, which may not be left out.
            pub fn required(mut self) -> Self {
                self.0.is_required = true;
                self
            }

            fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
                self.0.members.set(name, value);
                self
            }
        }

        impl From<$name> for FormField {
            fn from(field: $name) -> Self {
                field.0
            }
        }
    )*};
}

fields! {
    /// A field for a text.
    TextField;
    /// A field for a number.
    NumberField;
    /// A field for a yes or a no.
    BooleanField;
    /// A field for one of several texts.
    ChoiceField;
    /// A field for some of several texts; revisions before 2025-11-25 do not have it.
    ChoicesField;
}

/// What kind of text a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextFormat {
    /// A mail address.
    Email,
    /// An address of any scheme.
    Uri,
    /// A day, such as `2026-07-28`.
    Date,
    /// A moment, such as `2026-07-28T12:00:00Z`.
    DateTime,
}

impl TextField {
    /// Any text.
    pub fn new() -> Self {
        Self(FormField::new("string", None))
    }

    /// What kind of text it is for.
    pub fn format(self, format: TextFormat) -> Self {
        self.with("format", format)
    }

    /// The fewest characters it may have.
    pub fn min_length(self, characters: u32) -> Self {
        self.with("minLength", characters)
    }

    /// The most characters it may have.
    pub fn max_length(self, characters: u32) -> Self {
        self.with("maxLength", characters)
    }

    /// What it holds unless the user says otherwise.
    pub fn default(self, text: impl Into<String>) -> Self {
        self.with("default", text.into())
    }
}

impl Default for TextField {
    fn default() -> Self {
        Self::new()
    }
}

impl NumberField {
    /// A number with or without a fraction.
    pub fn number() -> Self {
        Self(FormField::new("number", None))
    }

    /// A number without a fraction.
    pub fn integer() -> Self {
        Self(FormField::new("integer", None))
    }

    /// The least it may be.
    pub fn minimum(self, number: impl Into<serde_json::Number>) -> Self {
        self.with("minimum", number.into())
    }

    /// The most it may be.
    pub fn maximum(self, number: impl Into<serde_json::Number>) -> Self {
        self.with("maximum", number.into())
    }

    /// What it holds unless the user says otherwise.
    pub fn default(self, number: impl Into<serde_json::Number>) -> Self {
        self.with("default", number.into())
    }
}

impl BooleanField {
    /// A yes or a no.
    pub fn new() -> Self {
        Self(FormField::new("boolean", None))
    }

    /// What it holds unless the user says otherwise.
    pub fn default(self, is_on: bool) -> Self {
        self.with("default", is_on)
    }
}

impl Default for BooleanField {
    fn default() -> Self {
        Self::new()
    }
}

impl ChoiceField {
    /// One of these texts.
    pub fn new<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(V::into).collect();
        Self(FormField::new("string", Some(Choices::Plain(values))))
    }

    /// One of these texts, each with what people call it.
    pub fn titled<V: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (V, T)>,
    ) -> Self {
        Self(FormField::new("string", Some(Choices::Titled(pairs(choices)))))
    }

    /// The same in the way of revision 2025-06-18, `enumNames`, for clients that know no other.
    pub fn named<V: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (V, T)>,
    ) -> Self {
        Self(FormField::new("string", Some(Choices::Named(pairs(choices)))))
    }

    /// What it holds unless the user says otherwise.
    pub fn default(self, value: impl Into<String>) -> Self {
        self.with("default", value.into())
    }
}

impl ChoicesField {
    /// Some of these texts.
    pub fn new<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(V::into).collect();
        Self(FormField::new("array", Some(Choices::Plain(values))))
    }

    /// Some of these texts, each with what people call it.
    pub fn titled<V: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (V, T)>,
    ) -> Self {
        Self(FormField::new("array", Some(Choices::Titled(pairs(choices)))))
    }

    /// The fewest that may be chosen.
    pub fn min_items(self, count: u32) -> Self {
        self.with("minItems", count)
    }

    /// The most that may be chosen.
    pub fn max_items(self, count: u32) -> Self {
        self.with("maxItems", count)
    }

    /// What it holds unless the user says otherwise.
    pub fn default<V: Into<String>>(self, values: impl IntoIterator<Item = V>) -> Self {
        self.with("default", values.into_iter().map(V::into).collect::<Vec<String>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Number, Value, json};

    fn written(schema: &FormSchema, version: Version) -> Value {
        serde_json::to_value(At(schema, version)).unwrap()
    }

    fn field(field: impl Into<FormField>, version: Version) -> Value {
        let schema = FormSchema::new().field("f", field);
        written(&schema, version)["properties"]["f"].take()
    }

    #[test]
    fn every_kind_of_field_may_have_a_default() {
        let form = FormSchema::new()
            .field("name", TextField::new().default("John Doe"))
            .field("age", NumberField::integer().default(30))
            .field("score", NumberField::number().default(Number::from_f64(95.5).unwrap()))
            .field("status", ChoiceField::new(["active", "inactive"]).default("active"))
            .field("verified", BooleanField::new().default(true))
            .field("tags", ChoicesField::new(["a", "b"]).default(["b"]));
        let expected = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
            "tags": {
                "type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"]
            },
        }});
        assert_eq!(written(&form, Version::V2025_11_25), expected);
        assert_eq!(serde_json::to_value(&form).unwrap(), expected);
    }

    #[test]
    fn choices_are_written_in_the_five_ways_of_the_specification() {
        let choices = [("v1", "One"), ("v2", "Two")];
        let titled = json!([{"const": "v1", "title": "One"}, {"const": "v2", "title": "Two"}]);
        for (made, expected) in [
            (ChoiceField::new(["v1"]).into(), json!({"type": "string", "enum": ["v1"]})),
            (ChoiceField::titled(choices).into(), json!({"type": "string", "oneOf": titled})),
            (
                ChoiceField::named(choices).into(),
                json!({"type": "string", "enum": ["v1", "v2"], "enumNames": ["One", "Two"]}),
            ),
            (
                ChoicesField::new(["v1"]).min_items(1).max_items(2).into(),
                json!({
                    "type": "array", "items": {"type": "string", "enum": ["v1"]},
                    "minItems": 1, "maxItems": 2
                }),
            ),
            (
                ChoicesField::titled(choices).into(),
                json!({"type": "array", "items": {"anyOf": titled}}),
            ),
        ] {
            let made: FormField = made;
            assert_eq!(field(made.clone(), Version::V2025_11_25), expected);
            assert_eq!(field(made, Version::V2026_07_28), expected);
        }
    }

    #[test]
    fn titled_choices_are_named_where_titles_do_not_exist() {
        let choice = ChoiceField::titled([("v1", "One")]).title("Which?");
        assert_eq!(
            field(choice, Version::V2025_06_18),
            json!({"type": "string", "enum": ["v1"], "enumNames": ["One"], "title": "Which?"})
        );
    }

    #[test]
    fn required_fields_are_listed_in_their_order() {
        let form = FormSchema::new()
            .field("z", TextField::new().required())
            .field("m", TextField::new())
            .field("a", NumberField::integer().minimum(18).maximum(99).required());
        let text = serde_json::to_string(&form).unwrap();
        assert!(text.ends_with(r#""required":["z","a"]}"#), "{text}");
        assert!(text.contains(r#""a":{"type":"integer","minimum":18,"maximum":99}"#), "{text}");
    }

    #[test]
    fn text_may_be_bounded_and_of_a_kind() {
        let text = TextField::new().format(TextFormat::DateTime).min_length(3).max_length(9);
        assert_eq!(
            field(text.description("when"), Version::V2025_06_18),
            json!({
                "type": "string", "format": "date-time", "minLength": 3, "maxLength": 9,
                "description": "when"
            })
        );
    }

    #[test]
    fn a_schema_written_by_hand_is_sent_as_it_is() {
        let text = r#"{"type":"object", "properties":{"b":{"type":"string"},"a":{}}}"#;
        let schema = RequestedSchema::from(RawValue::from_string(text.to_owned()).unwrap());
        let at = At(&schema, Version::V2025_06_18);
        assert_eq!(serde_json::to_string(&at).unwrap(), text);
    }
}
