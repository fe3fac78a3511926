//! What comes back to questions, and is never more than what a client claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::{Members, Meta, Root, is_object};
use super::CreateMessageResult;

/// Answers by the names of their questions, as the client wrote them.
///
/// Whether a question was answered is for the handler to see: a client may leave some out, add
/// others, or write what fits no question. What is no object counts as not answered.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<Box<str>, Arc<RawValue>>);

impl Answers {
    /// No answers.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The answers in an object of them; what is no object holds none.
    pub fn read(responses: &RawValue) -> Self {
        let responses: Members = serde_json::from_str(responses.get()).unwrap_or_default();
        let mut answers = Self::new();
        for (name, answer) in responses.iter() {
            answers.insert(name, answer.to_owned());
        }
        answers
    }

    /// Adds an answer, or replaces the one of the same name; what is no object is none.
    pub fn insert(&mut self, name: &str, answer: impl Into<Arc<RawValue>>) {
        let answer = answer.into();
        if is_object(&answer) {
            self.0.insert(name.into(), answer);
        }
    }

    /// The answer of this name as it was written.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(|answer| &**answer)
    }

    /// Takes the answer of this name out.
    pub fn remove(&mut self, name: &str) -> Option<Arc<RawValue>> {
        self.0.remove(name)
    }

    /// What the user said; none if there is no answer of this name or it is not the user's.
    pub fn elicited(&self, name: &str) -> Option<ElicitResult> {
        self.read_as(name)
    }

    /// What the model said; none if there is no answer of this name or it is not the model's.
    pub fn sampled(&self, name: &str) -> Option<CreateMessageResult> {
        self.read_as(name)
    }

    /// The client's folders; none if there is no answer of this name or it is no list of folders.
    pub fn roots(&self, name: &str) -> Option<Vec<Root>> {
        self.read_as::<ListRootsResult>(name).map(|result| result.roots)
    }

    /// All answers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, answer)| (&**name, &**answer))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read_as<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }
}

/// What a user does about a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Answers it, or agrees to go where the server sends it.
    Accept,
    /// Says no.
    Decline,
    /// Closes it without a choice.
    Cancel,
}

/// What a user said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ElicitResult {
    /// What the user did.
    pub action: ElicitAction,
    /// The form as it was filled in; clients are to check it against its schema, but need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<RawValue>>,
    /// The result's own `_meta`.
    #[serde(default, rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

impl ElicitResult {
    /// Whether the user answered, or agreed to go where the server sent it.
    pub fn is_accepted(&self) -> bool {
        self.action == ElicitAction::Accept
    }

    /// The form as a type of yours; none if the user did not accept or the form does not fit.
    pub fn content<'s, T: Deserialize<'s>>(&'s self) -> Option<T> {
        let content = self.content.as_ref().filter(|_| self.is_accepted())?;
        serde_json::from_str(content.get()).ok()
    }
}

/// The folders a client works in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The folders.
    pub roots: Vec<Root>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(text: &str) -> Answers {
        Answers::read(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Form {
        name: String,
    }

    #[test]
    fn b093_a_user_accepts_declines_or_turns_away() {
        let answers = answers(
            r#"{"a":{"action":"accept","content":{"name":"Alice"}},
                "b":{"action":"decline","content":{"name":"Alice"}},
                "c":{"action":"cancel"},"d":{"action":"accept","content":{"name":5}},
                "e":{"action":"perhaps"},"f":{"content":{}}}"#,
        );
        let elicited = |name| answers.elicited(name).unwrap();
        assert_eq!(elicited("a").content(), Some(Form { name: "Alice".to_owned() }));
        assert_eq!(elicited("b").action, ElicitAction::Decline);
        assert_eq!(elicited("b").content::<Form>(), None);
        assert_eq!(elicited("c").action, ElicitAction::Cancel);
        assert!(elicited("d").is_accepted() && elicited("d").content::<Form>().is_none());
        assert!(answers.elicited("e").is_none() && answers.elicited("f").is_none());
        assert!(answers.elicited("z").is_none());
    }

    #[test]
    fn what_is_no_object_is_no_answer() {
        let found = answers(r#"{"a":12345,"b":null,"c":"x","d":[{}],"e":{},"f":true}"#);
        assert_eq!(found.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["e"]);
        for text in ["null", "[]", "5", r#""x""#, "{}"] {
            assert!(answers(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn of_an_answer_given_twice_the_last_counts() {
        let answers = answers(r#"{"a":{"action":"accept"},"a":{"action":"decline"}}"#);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers.elicited("a").unwrap().action, ElicitAction::Decline);
    }

    #[test]
    fn folders_have_addresses() {
        let answers = answers(
            r#"{"a":{"roots":[{"uri":"file:///test/root","name":"Test Root"}]},
                "b":{"roots":[{"name":"x"}]}}"#,
        );
        assert_eq!(answers.roots("a").unwrap()[0].uri, "file:///test/root");
        assert!(answers.roots("b").is_none());
    }
}
