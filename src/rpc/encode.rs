//! Messages to bytes. Every writer appends one JSON text without a line break of its own, so that
//! it may stand in an event stream as it is. A value without a JSON form never leaves half a
//! message behind.

use serde::Serialize;

use super::{ErrorObject, Id, json};

/// Writes the response that carries `result`; false if an internal error had to take its place.
///
/// Whoever waits under this id is answered either way.
pub fn write_result(out: &mut Vec<u8>, id: &Id, result: &impl Serialize) -> bool {
    let start = out.len();
    open_result(out, id);
    let is_written = write_json(out, result);
    if is_written {
        out.push(b'}');
    } else {
        out.truncate(start);
        write_error(out, Some(id), &ErrorObject::internal());
    }
    is_written
}

/// Writes the response whose result is JSON already.
pub fn write_result_raw(out: &mut Vec<u8>, id: &Id, result: &[u8]) {
    open_result(out, id);
    out.extend_from_slice(result);
    out.extend_from_slice(RESULT_END);
}

/// Writes a response as far as its result, behind which is to come [`RESULT_END`].
pub fn open_result(out: &mut Vec<u8>, id: &Id) {
    open(out, Some(id));
    out.extend_from_slice(b",\"result\":");
}

/// What ends a response behind its result.
pub const RESULT_END: &[u8] = b"}";

/// Writes an error response; the id member is left out when there is none, never null.
pub fn write_error(out: &mut Vec<u8>, id: Option<&Id>, error: &ErrorObject) {
    open(out, id);
    out.extend_from_slice(b",\"error\":");
    write_json(out, error);
    out.push(b'}');
}

/// Writes a notification; false, and nothing written, if the parameters have no JSON form.
pub fn write_notification(out: &mut Vec<u8>, method: &str, params: &impl Serialize) -> bool {
    write_call(out, None, method, params)
}

/// Writes a request of our own; false, and nothing written, if the parameters have no JSON form.
pub fn write_request(out: &mut Vec<u8>, id: &Id, method: &str, params: &impl Serialize) -> bool {
    write_call(out, Some(id), method, params)
}

/// Writes a request or, without an id, a notification.
fn write_call(out: &mut Vec<u8>, id: Option<&Id>, method: &str, params: &impl Serialize) -> bool {
    let start = out.len();
    open(out, id);
    out.extend_from_slice(b",\"method\":");
    json::write_str(out, method);
    out.extend_from_slice(b",\"params\":");
    let is_written = write_json(out, params);
    if is_written {
        out.push(b'}');
    } else {
        out.truncate(start);
    }
    is_written
}

/// Writes the members every message begins with.
fn open(out: &mut Vec<u8>, id: Option<&Id>) {
    out.reserve(MESSAGE_BYTES);
    let Some(id) = id else { return out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"") };
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        // Nearly all numbers are of the size that is faster to write.
        Id::Number(number) => match i64::try_from(*number) {
            Ok(number) => write_digits(out, number),
            Err(_) => write_digits(out, *number),
        },
        Id::String(text) => json::write_str(out, text),
    }
}

/// Room for a small message, so that it does not outgrow an empty buffer time and again.
const MESSAGE_BYTES: usize = 128;

/// Writes an integer.
fn write_digits(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes any value; false if it has no JSON form, and `out` then ends in the middle of it.
fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> bool {
    json::write(out, value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before;".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap().strip_prefix("before;").unwrap().to_owned()
    }

    /// A map whose keys have no JSON form.
    fn unwritable() -> BTreeMap<Vec<u8>, u8> {
        BTreeMap::from([(vec![1], 1)])
    }

    #[test]
    fn b023_ids_are_echoed_as_they_came() {
        for text in
            ["1", "0", "-7", "18446744073709551615", "-9223372036854775808", "\"\"", "\"5\""]
        {
            let id = Id::from_json(text).unwrap();
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{text},"result":1}}"#);
            assert_eq!(written(|out| _ = write_result(out, &id, &1)), expected);
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
            assert_eq!(serde_json::from_str::<Id>(text).unwrap(), id);
        }
    }

    #[test]
    fn b027_an_error_about_nobody_has_no_id() {
        let error = ErrorObject::parse_error("Parse error").with_data("why");
        assert_eq!(
            written(|out| write_error(out, None, &error)),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error","data":"why"}}"#
        );
    }

    #[test]
    fn b031_a_result_without_json_form_becomes_an_error_under_the_same_id() {
        let id = Id::from("x-1");
        let mut is_written = true;
        let text = written(|out| is_written = write_result(out, &id, &unwritable()));
        assert!(!is_written);
        let expected =
            r#"{"jsonrpc":"2.0","id":"x-1","error":{"code":-32603,"message":"Internal error"}}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn calls_have_method_and_params() {
        let params = RawValue::from_string("{\"a\":1}".to_owned()).unwrap();
        assert_eq!(
            written(|out| _ = write_notification(out, "n/\"x\"", &params)),
            r#"{"jsonrpc":"2.0","method":"n/\"x\"","params":{"a":1}}"#
        );
        assert_eq!(
            written(|out| _ = write_request(out, &3i64.into(), "roots/list", &params)),
            r#"{"jsonrpc":"2.0","id":3,"method":"roots/list","params":{"a":1}}"#
        );
        assert_eq!(written(|out| assert!(!write_notification(out, "n", &unwritable()))), "");
    }

    #[test]
    fn a_raw_result_is_copied() {
        let text = written(|out| write_result_raw(out, &1i64.into(), b"{\"ok\":true}"));
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#);
    }
}
