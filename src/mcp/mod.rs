//! What MCP messages mean: the methods, the error codes, the keys of `_meta`, and in the modules
//! below the revisions, the types, and the rules that join them. Knows no sockets and no HTTP.

use crate::rpc::ErrorObject;

pub(crate) mod catalog;
pub mod cursor;
pub mod designation;
pub mod model;
pub(crate) mod params;
pub mod permissions;
pub mod schema;
pub mod seal;
pub(crate) mod session;
pub(crate) mod subscription;
pub(crate) mod task;
pub(crate) mod template;
pub mod trace;
pub mod version;

use version::Version;

/// Whether a method is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call that is answered.
    Request,
    /// A statement that is not.
    Notification,
}

/// What is known about a method before anyone serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodFacts {
    /// The name on the wire.
    pub name: &'static str,
    /// Whether it is answered.
    pub kind: Kind,
    /// Exists for callers of revisions up to 2025-11-25.
    pub classic: bool,
    /// Exists for callers of 2026-07-28 and later.
    pub modern: bool,
    /// The parameter a modern caller repeats outside the body.
    pub mirrored_name: Option<&'static str>,
    /// Its results carry cache hints for modern callers.
    pub cacheable: bool,
    /// A classic caller must have a session to use it.
    pub needs_session: bool,
    /// A modern answer to it may be a question.
    pub may_ask: bool,
}

impl MethodFacts {
    /// A request both eras know, with nothing special about it.
    const fn request(name: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Request,
            classic: true,
            modern: true,
            mirrored_name: None,
            cacheable: false,
            needs_session: true,
            may_ask: false,
        }
    }

    /// A notification both eras know.
    const fn notification(name: &'static str) -> Self {
        Self { kind: Kind::Notification, ..Self::request(name) }
    }

    /// The same, unknown to modern callers.
    const fn classic_only(self) -> Self {
        Self { modern: false, ..self }
    }

    /// The same, unknown to classic callers.
    const fn modern_only(self) -> Self {
        Self { classic: false, ..self }
    }

    /// The same, repeating `parameter` outside the body.
    const fn mirrored(self, parameter: &'static str) -> Self {
        Self { mirrored_name: Some(parameter), ..self }
    }

    /// The same, with cache hints on its results.
    const fn cacheable(self) -> Self {
        Self { cacheable: true, ..self }
    }

    /// The same, open to callers without a session.
    const fn sessionless(self) -> Self {
        Self { needs_session: false, ..self }
    }

    /// The same, answerable with a question.
    const fn may_ask(self) -> Self {
        Self { may_ask: true, ..self }
    }
}

/// Turns the one list of methods into the enum, the parser and the table of facts.
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $name:literal, $make:ident $(, $modifier:ident($($argument:expr)?))*;
    )*) => {
        /// A method this side receives.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Method {
            $($(#[$doc])* $variant,)*
        }

        impl Method {
            /// Every method, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The method of this exact name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// All that is known about the method.
            pub const fn facts(self) -> &'static MethodFacts {
                match self {
                    $(Self::$variant => const {
                        &MethodFacts::$make($name)$(.$modifier($($argument)?))*
                    },)*
                }
            }
        }
    };
}

methods! {
    /// Opens a classic conversation.
    Initialize = "initialize", request, classic_only(), sessionless();
    /// The client has taken note of the answer to `initialize`.
    Initialized = "notifications/initialized", notification, classic_only();
    /// Asks whether anyone is there.
    Ping = "ping", request, classic_only();
    /// Asks what the server speaks and offers.
    Discover = "server/discover", request, cacheable(), sessionless();
    /// Lists the tools.
    ToolsList = "tools/list", request, cacheable();
    /// Calls a tool.
    ToolsCall = "tools/call", request, mirrored("name"), may_ask();
    /// Lists the resources.
    ResourcesList = "resources/list", request, cacheable();
    /// Lists the templates of resources.
    ResourcesTemplatesList = "resources/templates/list", request, cacheable();
    /// Reads a resource.
    ResourcesRead = "resources/read", request, mirrored("uri"), cacheable(), may_ask();
    /// Asks to hear of changes to a resource.
    ResourcesSubscribe = "resources/subscribe", request, classic_only();
    /// Asks to hear no more of them.
    ResourcesUnsubscribe = "resources/unsubscribe", request, classic_only();
    /// Lists the prompts.
    PromptsList = "prompts/list", request, cacheable();
    /// Fills in a prompt.
    PromptsGet = "prompts/get", request, mirrored("name"), may_ask();
    /// Completes an argument being typed.
    Complete = "completion/complete", request;
    /// Sets how much of the log a session hears.
    LoggingSetLevel = "logging/setLevel", request, classic_only();
    /// Opens a stream of the changes asked for.
    SubscriptionsListen = "subscriptions/listen", request, modern_only();
    /// Asks how a task is doing.
    TasksGet = "tasks/get", request, modern_only(), mirrored("taskId");
    /// Answers what a task asked.
    TasksUpdate = "tasks/update", request, modern_only(), mirrored("taskId");
    /// Gives up on a task.
    TasksCancel = "tasks/cancel", request, modern_only(), mirrored("taskId");
    /// Gives up on a request.
    Cancelled = "notifications/cancelled", notification;
    /// Tells how a request of ours is doing.
    Progress = "notifications/progress", notification, classic_only();
    /// The client's roots are others now.
    RootsListChanged = "notifications/roots/list_changed", notification, classic_only();
}

impl Method {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Whether a caller of this revision may know of the method.
    pub fn exists_in(self, version: Version) -> bool {
        match version.rules().era {
            version::Era::Classic => self.facts().classic,
            version::Era::Modern => self.facts().modern,
        }
    }
}

/// Names of the notifications this side sends.
pub mod notification {
    /// A line of the log.
    pub const MESSAGE: &str = "notifications/message";
    /// How a request is doing.
    pub const PROGRESS: &str = "notifications/progress";
    /// A request of ours no longer matters.
    pub const CANCELLED: &str = "notifications/cancelled";
    /// The tools are others now.
    pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
    /// The prompts are others now.
    pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
    /// The resources are others now.
    pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
    /// One resource has changed.
    pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
    /// What a subscription will hear.
    pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    /// A URL the user was sent to has been dealt with.
    pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
    /// A task has changed its state.
    pub const TASKS: &str = "notifications/tasks";
}

/// Names of the requests this side asks of a client.
pub mod ask {
    /// Asks the client's model.
    pub const SAMPLING: &str = "sampling/createMessage";
    /// Asks the user.
    pub const ELICITATION: &str = "elicitation/create";
    /// Asks which folders the client works in.
    pub const ROOTS: &str = "roots/list";
    /// Asks whether the client is there.
    pub const PING: &str = "ping";

    /// The capability a client declares to be asked this.
    pub fn capability(method: &str) -> Option<&'static str> {
        match method {
            SAMPLING => Some("sampling"),
            ELICITATION => Some("elicitation"),
            ROOTS => Some("roots"),
            _ => None,
        }
    }
}

/// Keys inside `_meta`.
pub mod meta_key {
    /// The revision a modern request is written in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Who asks.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// What the asker can do.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The least level of log lines the asker wants with its answer.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Who answers.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Which subscription a message belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// What progress about this request is to carry.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The parent span of a trace.
    pub const TRACEPARENT: &str = "traceparent";
    /// What vendors add to a trace.
    pub const TRACESTATE: &str = "tracestate";
    /// What the application adds to a trace.
    pub const BAGGAGE: &str = "baggage";
}

/// The extension under which tool calls may become tasks.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What is repeated outside the body differs from the body, or is missing.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs something its client did not declare.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The revision named is not served.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// There is no such resource, as revisions up to 2025-11-25 say it.
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// Nobody serves `method`, or not for callers of this revision.
pub fn method_not_found(method: &str) -> ErrorObject {
    ErrorObject::method_not_found(method)
}

/// What is repeated outside the body disagrees with it; `detail` says which and how.
pub fn header_mismatch(detail: impl std::fmt::Display) -> ErrorObject {
    ErrorObject::new(HEADER_MISMATCH, format!("Header mismatch: {detail}"))
}

/// The revision `requested` is none of `supported`.
pub fn unsupported_version(supported: &[Version], requested: &str) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        supported: &'a [Version],
        requested: &'a str,
    }
    let requested = crate::rpc::excerpt(requested);
    ErrorObject::new(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version")
        .with_data(Data { supported, requested })
}

/// The request needs capabilities its client did not declare, each as the client would declare it.
///
/// `required` is shaped like declared capabilities, such as `{"elicitation":{"url":{}}}`.
pub fn missing_capability(required: impl serde::Serialize) -> ErrorObject {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<T> {
        required_capabilities: T,
    }
    ErrorObject::new(MISSING_CLIENT_CAPABILITY, "Missing required client capability")
        .with_data(Data { required_capabilities: required })
}

/// There is no resource `uri`, in the words of `version`.
pub fn resource_not_found(version: Version, uri: &str) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    ErrorObject::new(version.rules().resource_not_found_code, "Resource not found")
        .with_data(Data { uri: crate::rpc::excerpt(uri) })
}

/// The longest tool name the specification recommends.
const TOOL_NAME_BYTES_MAX: usize = 128;

/// Why clients may stumble over a tool of this name; such names are served all the same.
pub fn name_warning(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX {
        return Some(format!("a tool name should have 1 to {TOOL_NAME_BYTES_MAX} characters"));
    }
    let is_usual = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let unusual = name.chars().find(|c| !is_usual(c))?;
    Some(format!("{unusual:?} is not among the letters, digits, '_', '-' and '.' of tool names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_name_only() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.as_str()), Some(*method));
            assert_eq!(Method::parse(&method.as_str().to_uppercase()), None);
            let is_notification = method.as_str().starts_with("notifications/");
            assert_eq!(method.facts().kind == Kind::Notification, is_notification);
        }
        assert_eq!(Method::parse("nope/x"), None);
    }

    #[test]
    fn b057_methods_exist_in_their_era_only() {
        let exists = |name: &str, version: Version| Method::parse(name).unwrap().exists_in(version);
        for name in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
            assert!(exists(name, Version::V2025_11_25), "{name}");
            assert!(!exists(name, Version::V2026_07_28), "{name}");
        }
        for name in ["subscriptions/listen", "tasks/get"] {
            assert!(!exists(name, Version::V2025_11_25), "{name}");
            assert!(exists(name, Version::V2026_07_28), "{name}");
        }
        assert!(exists("server/discover", Version::V2024_11_05));
    }

    #[test]
    fn b062_a_missing_resource_has_the_code_of_its_era() {
        let code = |version| resource_not_found(version, "file:///none").code;
        assert_eq!(code(Version::V2025_11_25), -32002);
        assert_eq!(code(Version::V2026_07_28), -32602);
    }

    #[test]
    fn b050_an_unserved_revision_is_answered_with_those_that_are() {
        let error = unsupported_version(&Version::ALL[..2], "2099-01-01");
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            concat!(
                r#"{"code":-32022,"message":"Unsupported protocol version","data":"#,
                r#"{"supported":["2026-07-28","2025-11-25"],"requested":"2099-01-01"}}"#
            )
        );
    }

    #[test]
    fn b058_a_missing_capability_is_shaped_as_it_would_be_declared() {
        let error = missing_capability(serde_json::json!({"elicitation": {"url": {}}}));
        assert_eq!(error.code, -32021);
        assert_eq!(
            error.data.unwrap().get(),
            r#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#
        );
    }

    #[test]
    fn b134_unusual_tool_names_are_warned_about() {
        for name in ["admin.tools.list", "getUser", "GETUSER", "a_b-c", &"a".repeat(128)] {
            assert_eq!(name_warning(name), None, "{name}");
        }
        for name in ["a/b", "My Tool", "ツール", "a\n", "", &"a".repeat(129)] {
            assert!(name_warning(name).is_some(), "{name}");
        }
    }
}
