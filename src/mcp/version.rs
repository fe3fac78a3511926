//! The revisions of the protocol, and in one row each all that differs between them. Whoever must
//! behave differently by revision asks the row, never the date.

use serde::{Serialize, Serializer};

/// A revision this crate knows, in the order of their dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// The first one, with two connections per client.
    V2024_11_05,
    /// One endpoint, sessions, batches.
    V2025_03_26,
    /// No batches any more; structured results, questions to the user.
    V2025_06_18,
    /// Streams the server may interrupt; icons; questions by URL.
    V2025_11_25,
    /// Every request stands alone.
    V2026_07_28,
}

/// The two generations of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// A handshake, then requests within a session.
    Classic,
    /// Requests that carry all they need.
    Modern,
}

/// What the loss of a connection means to a request being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnDisconnect {
    /// Nobody wants the answer any more.
    Cancel,
    /// The caller may come back for the answer.
    Detach,
}

/// What `structuredContent` may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StructuredContent {
    /// The member does not exist.
    Absent,
    /// An object and nothing else.
    Object,
    /// Any value.
    Any,
}

/// How a server may ask the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elicitation {
    /// Not at all.
    Absent,
    /// With a form.
    Form,
    /// With a form or by sending the user to a URL.
    FormAndUrl,
}

/// What one revision does differently from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which generation the revision belongs to.
    pub era: Era,
    /// A session begins with `initialize`.
    pub sessions: bool,
    /// A client may hold a stream open for what nobody asked.
    pub get_stream: bool,
    /// A severed stream may be taken up again.
    pub resumable: bool,
    /// A resumable stream opens with an empty event, so that there is an id to come back with.
    pub priming_event: bool,
    /// A body may hold several messages.
    pub batches: bool,
    /// Requests after the handshake repeat the revision outside the body.
    pub version_header_required: bool,
    /// What a lost connection means.
    pub on_disconnect: OnDisconnect,
    /// Server-to-client requests exist; otherwise questions travel as results.
    pub server_requests: bool,
    /// Results say what kind they are.
    pub result_type: bool,
    /// Results of listings and reads say how long they keep.
    pub cache_hints: bool,
    /// Method, name and designated arguments are repeated outside the body.
    pub mirrored_headers: bool,
    /// An unknown method is an unknown address, too.
    pub unknown_method_is_404: bool,
    /// The error code for a resource that does not exist.
    pub resource_not_found_code: i64,
    /// Content may be sound.
    pub audio: bool,
    /// Tools may hint at what they do.
    pub tool_annotations: bool,
    /// Servers declare that they complete arguments.
    pub completions_capability: bool,
    /// Things have titles, a `_meta` of their own and a date of change.
    pub titles: bool,
    /// What `structuredContent` may hold, and output schemas describe.
    pub structured_content: StructuredContent,
    /// Content may be a link to a resource.
    pub resource_links: bool,
    /// How a server may ask the user.
    pub elicitation: Elicitation,
    /// Questions by URL have an id.
    pub elicitation_id: bool,
    /// A client's model may use tools, and say several things at once.
    pub sampling_tools: bool,
    /// Things have icons, implementations a description and a web site.
    pub icons: bool,
    /// Both sides declare extensions.
    pub extensions: bool,
}

/// The first revision; each later row says what it changed.
const RULES_2024_11_05: Rules = Rules {
    era: Era::Classic,
    sessions: true,
    get_stream: true,
    resumable: true,
    priming_event: false,
    batches: false,
    version_header_required: false,
    on_disconnect: OnDisconnect::Detach,
    server_requests: true,
    result_type: false,
    cache_hints: false,
    mirrored_headers: false,
    unknown_method_is_404: false,
    resource_not_found_code: super::RESOURCE_NOT_FOUND,
    audio: false,
    tool_annotations: false,
    completions_capability: false,
    titles: false,
    structured_content: StructuredContent::Absent,
    resource_links: false,
    elicitation: Elicitation::Absent,
    elicitation_id: false,
    sampling_tools: false,
    icons: false,
    extensions: false,
};

const RULES_2025_03_26: Rules = Rules {
    batches: true,
    audio: true,
    tool_annotations: true,
    completions_capability: true,
    ..RULES_2024_11_05
};

const RULES_2025_06_18: Rules = Rules {
    batches: false,
    version_header_required: true,
    titles: true,
    structured_content: StructuredContent::Object,
    resource_links: true,
    elicitation: Elicitation::Form,
    ..RULES_2025_03_26
};

const RULES_2025_11_25: Rules = Rules {
    priming_event: true,
    elicitation: Elicitation::FormAndUrl,
    elicitation_id: true,
    sampling_tools: true,
    icons: true,
    ..RULES_2025_06_18
};

const RULES_2026_07_28: Rules = Rules {
    era: Era::Modern,
    sessions: false,
    get_stream: false,
    resumable: false,
    priming_event: false,
    on_disconnect: OnDisconnect::Cancel,
    server_requests: false,
    result_type: true,
    cache_hints: true,
    mirrored_headers: true,
    unknown_method_is_404: true,
    resource_not_found_code: crate::rpc::INVALID_PARAMS,
    structured_content: StructuredContent::Any,
    elicitation_id: false,
    extensions: true,
    ..RULES_2025_11_25
};

impl Version {
    /// Every revision, newest first.
    pub const ALL: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// What a classic request that does not say its revision is taken for.
    pub const ASSUMED_WITHOUT_HEADER: Self = Self::V2025_03_26;

    /// The newest revision.
    pub const NEWEST: Self = Self::V2026_07_28;

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of this exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == name)
    }

    /// What the revision does differently.
    pub const fn rules(self) -> &'static Rules {
        match self {
            Self::V2024_11_05 => &RULES_2024_11_05,
            Self::V2025_03_26 => &RULES_2025_03_26,
            Self::V2025_06_18 => &RULES_2025_06_18,
            Self::V2025_11_25 => &RULES_2025_11_25,
            Self::V2026_07_28 => &RULES_2026_07_28,
        }
    }

    /// Which generation the revision belongs to.
    pub const fn era(self) -> Era {
        self.rules().era
    }

    /// Whether every request stands alone.
    pub const fn is_modern(self) -> bool {
        matches!(self.rules().era, Era::Modern)
    }

    /// Whether the revision is `other` or later.
    pub fn at_least(self, other: Self) -> bool {
        self >= other
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Whether a caller that names this revision is to be refused or served by modern rules.
///
/// Names that are no dates are nobody's rules; they are simply unsupported.
pub fn is_modern_str(name: &str) -> bool {
    // Dates of this shape order as strings just as they do in the calendar.
    is_date(name) && name >= Version::V2026_07_28.as_str()
}

/// Whether a name has the shape of every revision's name, `2026-07-28`.
fn is_date(name: &str) -> bool {
    name.len() == 10
        && name.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// The revisions a server serves, newest first and each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions(Vec<Version>);

impl Default for Versions {
    /// All of them but the first, whose transport is another one.
    fn default() -> Self {
        Self::new(Version::ALL.into_iter().filter(|version| *version > Version::V2024_11_05))
    }
}

impl Versions {
    /// The set of these revisions, in whatever order they come.
    pub fn new(versions: impl IntoIterator<Item = Version>) -> Self {
        let mut versions = Vec::from_iter(versions);
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.dedup();
        Self(versions)
    }

    /// The revisions, newest first.
    pub fn as_slice(&self) -> &[Version] {
        &self.0
    }

    /// Whether this revision is served.
    pub fn contains(&self, version: Version) -> bool {
        self.0.contains(&version)
    }

    /// The served revision of this name.
    pub fn find(&self, name: &str) -> Option<Version> {
        Version::parse(name).filter(|version| self.contains(*version))
    }

    /// Whether any modern revision is served.
    pub fn any_modern(&self) -> bool {
        self.0.first().is_some_and(|version| version.is_modern())
    }

    /// The newest revision that begins with a handshake.
    pub fn newest_classic(&self) -> Option<Version> {
        self.0.iter().copied().find(|version| !version.is_modern())
    }

    /// What `initialize` agrees on: the requested revision or else the newest one with a handshake.
    ///
    /// None when no served revision has a handshake.
    pub fn negotiate(&self, requested: &str) -> Option<Version> {
        negotiate(requested, &self.0)
    }
}

/// What `initialize` agrees on among `served`, which may be in any order.
pub fn negotiate(requested: &str, served: &[Version]) -> Option<Version> {
    let classic = || served.iter().copied().filter(|version| !version.is_modern());
    classic().find(|version| version.as_str() == requested).or_else(|| classic().max())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_order_as_their_revisions_do() {
        assert!(Version::ALL.is_sorted_by(|a, b| a > b && a.as_str() > b.as_str()));
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(version));
            assert_eq!(version.is_modern(), is_modern_str(version.as_str()));
        }
    }

    #[test]
    fn names_that_are_no_modern_dates_have_no_modern_rules() {
        for (name, expected) in [
            ("2026-07-28", true),
            ("2099-01-01", true),
            ("2026-07-27", false),
            ("2025-11-25", false),
            ("v999.0.0", false),
            ("9999", false),
            ("2099-1-01", false),
            ("2099-01-01 ", false),
            ("DRAFT-2026", false),
            ("", false),
        ] {
            assert_eq!(is_modern_str(name), expected, "{name}");
        }
    }

    #[test]
    fn a_served_revision_is_agreed_on_and_any_other_gets_the_newest_with_a_handshake() {
        use Version::{V2025_03_26, V2025_11_25, V2026_07_28};
        let served = Versions::new([V2025_03_26, V2026_07_28, V2025_11_25, V2025_03_26]);
        assert_eq!(served.as_slice(), [V2026_07_28, V2025_11_25, V2025_03_26]);
        for (requested, expected) in [
            ("2025-03-26", V2025_03_26),
            ("2025-11-25", V2025_11_25),
            ("2025-06-18", V2025_11_25),
            ("2026-07-28", V2025_11_25),
            ("1.0", V2025_11_25),
            ("", V2025_11_25),
        ] {
            assert_eq!(served.negotiate(requested), Some(expected), "{requested}");
        }
        assert_eq!(Versions::new([V2026_07_28]).negotiate("2025-11-25"), None);
    }

    #[test]
    fn rows_differ_where_the_revisions_do() {
        let row = |version: Version| {
            let rules = version.rules();
            (rules.batches, rules.version_header_required, rules.priming_event, rules.resumable)
        };
        assert_eq!(row(Version::V2024_11_05), (false, false, false, true));
        assert_eq!(row(Version::V2025_03_26), (true, false, false, true));
        assert_eq!(row(Version::V2025_06_18), (false, true, false, true));
        assert_eq!(row(Version::V2025_11_25), (false, true, true, true));
        assert_eq!(row(Version::V2026_07_28), (false, true, false, false));
    }
}
