//! Assertions that say what they saw.

/// Checks a response: its status, then as far as named the code of its JSON-RPC error and the id
/// the message carries (`none` when there must be no `id` member).
macro_rules! assert_response {
    ($response:expr, $status:expr) => {{
        let response = &$response;
        assert_eq!(response.status, $status, "{response:?}");
    }};
    ($response:expr, $status:expr, error = $code:expr) => {{
        let response = &$response;
        assert_eq!(response.status, $status, "{response:?}");
        assert_eq!(response.error()["code"], $code, "{response:?}");
    }};
    ($response:expr, $status:expr, error = $code:expr, id = none) => {{
        let response = &$response;
        $crate::support::assert_response!(response, $status, error = $code);
        assert_eq!(response.message().get("id"), None, "{response:?}");
    }};
    ($response:expr, $status:expr, error = $code:expr, id = $id:expr) => {{
        let response = &$response;
        $crate::support::assert_response!(response, $status, error = $code);
        assert_eq!(response.message()["id"], serde_json::json!($id), "{response:?}");
    }};
}
pub(crate) use assert_response;
