//! What is said beside requests and answers: log lines, progress, roots.

use std::fmt;
use std::str::FromStr;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::{Meta, entry};
use crate::rpc::Id;

/// How bad a log line is, by the levels of syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth noting.
    Notice,
    /// Something is odd.
    Warning,
    /// Something failed.
    Error,
    /// A part failed.
    Critical,
    /// Somebody must act now.
    Alert,
    /// Nothing works.
    Emergency,
}

/// A word that is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLogLevel;

impl fmt::Display for UnknownLogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a log level")
    }
}

impl std::error::Error for UnknownLogLevel {}

impl LogLevel {
    /// Every level, from the mildest on.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(word: &str) -> Result<Self, UnknownLogLevel> {
        Self::ALL.into_iter().find(|level| level.as_str() == word).ok_or(UnknownLogLevel)
    }
}

/// What a caller gave to recognize progress by.
pub type ProgressToken = Id;

/// How far a request has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How much is done; each report must say more than the one before.
    pub progress: f64,
    /// How much there is to do, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

impl Progress {
    /// So much is done.
    pub fn new(progress: f64) -> Self {
        Self { progress, ..Self::default() }
    }

    /// How much there is to do.
    pub fn total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// What is being done.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Whether the report may follow one that said `last`; what is no number never may.
    pub fn advances(&self, last: Option<f64>) -> bool {
        self.progress.is_finite() && last.is_none_or(|last| self.progress > last)
    }
}

impl Serialize for Progress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let total = self.total.filter(|total| total.is_finite());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("progress", &Number(self.progress))?;
        entry(&mut map, "total", total.map(Number))?;
        entry(&mut map, "message", self.message.as_ref())?;
        map.end()
    }
}

/// A number written without a fraction where it has none.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Up to here a double and an integer are the same thing.
        const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
        if self.0.fract() == 0.0 && self.0.abs() <= WHOLE_MAX {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// A folder a client works in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Root {
    /// Where it is; a `file:` address.
    pub uri: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The root's own `_meta`.
    #[serde(default, rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named_in_lower_case() {
        assert!(LogLevel::ALL.is_sorted());
        for level in LogLevel::ALL {
            assert_eq!(level.as_str().parse(), Ok(level));
            assert_eq!(serde_json::to_string(&level).unwrap(), format!("{:?}", level.as_str()));
        }
        for word in ["", "INFO", "warn", "trace"] {
            assert_eq!(word.parse::<LogLevel>(), Err(UnknownLogLevel), "{word}");
        }
    }

    #[test]
    fn b082_progress_only_rises() {
        let reports = [1.0, 1.0, 3.0, 2.0, f64::NAN, f64::INFINITY, 5.0];
        let mut sent = Vec::new();
        for report in reports {
            if Progress::new(report).advances(sent.last().copied()) {
                sent.push(report);
            }
        }
        assert_eq!(sent, [1.0, 3.0, 5.0]);
    }

    #[test]
    fn whole_progress_is_written_whole() {
        for (progress, expected) in [
            (Progress::new(3.0), r#"{"progress":3}"#),
            (Progress::new(0.5).total(4.0), r#"{"progress":0.5,"total":4}"#),
            (Progress::new(1e300), r#"{"progress":1e+300}"#),
            (Progress::new(0.0).total(f64::NAN), r#"{"progress":0}"#),
            (Progress::new(1.0).message("m"), r#"{"progress":1,"message":"m"}"#),
        ] {
            assert_eq!(serde_json::to_string(&progress).unwrap(), expected);
        }
    }

    #[test]
    fn b080_tokens_are_what_the_caller_gave() {
        for text in ["0", "\"\"", "\"p-1\""] {
            let token: ProgressToken = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&token).unwrap(), text);
        }
    }
}
