//! Status codes and their one table of reasons.

use std::fmt::{self, Write as _};

/// A response status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

/// Declares the named constants and the reason of every registered code in one place.
macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal)*) => {
        impl Status {
            $(
                #[doc = concat!("`", $code, " ", $reason, "`.")]
                pub const $name: Self = Self($code);
            )*

            /// The reason phrase. A code outside the registry gets the name of its class.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    100..=199 => "Informational",
                    200..=299 => "Success",
                    300..=399 => "Redirection",
                    400..=499 => "Client Error",
                    _ => "Server Error",
                }
            }
        }

        #[cfg(test)]
        const REGISTERED: &[u16] = &[$($code),*];
    };
}

statuses! {
    100 CONTINUE "Continue"
    101 SWITCHING_PROTOCOLS "Switching Protocols"
    102 PROCESSING "Processing"
    103 EARLY_HINTS "Early Hints"
    104 UPLOAD_RESUMPTION_SUPPORTED "Upload Resumption Supported"
    200 OK "OK"
    201 CREATED "Created"
    202 ACCEPTED "Accepted"
    203 NON_AUTHORITATIVE "Non-Authoritative Information"
    204 NO_CONTENT "No Content"
    205 RESET_CONTENT "Reset Content"
    206 PARTIAL_CONTENT "Partial Content"
    207 MULTI_STATUS "Multi-Status"
    208 ALREADY_REPORTED "Already Reported"
    226 IM_USED "IM Used"
    300 MULTIPLE_CHOICES "Multiple Choices"
    301 MOVED_PERMANENTLY "Moved Permanently"
    302 FOUND "Found"
    303 SEE_OTHER "See Other"
    304 NOT_MODIFIED "Not Modified"
    305 USE_PROXY "Use Proxy"
    307 TEMPORARY_REDIRECT "Temporary Redirect"
    308 PERMANENT_REDIRECT "Permanent Redirect"
    400 BAD_REQUEST "Bad Request"
    401 UNAUTHORIZED "Unauthorized"
    402 PAYMENT_REQUIRED "Payment Required"
    403 FORBIDDEN "Forbidden"
    404 NOT_FOUND "Not Found"
    405 METHOD_NOT_ALLOWED "Method Not Allowed"
    406 NOT_ACCEPTABLE "Not Acceptable"
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required"
    408 REQUEST_TIMEOUT "Request Timeout"
    409 CONFLICT "Conflict"
    410 GONE "Gone"
    411 LENGTH_REQUIRED "Length Required"
    412 PRECONDITION_FAILED "Precondition Failed"
    413 CONTENT_TOO_LARGE "Content Too Large"
    414 URI_TOO_LONG "URI Too Long"
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type"
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable"
    417 EXPECTATION_FAILED "Expectation Failed"
    421 MISDIRECTED "Misdirected Request"
    422 UNPROCESSABLE "Unprocessable Content"
    423 LOCKED "Locked"
    424 FAILED_DEPENDENCY "Failed Dependency"
    425 TOO_EARLY "Too Early"
    426 UPGRADE_REQUIRED "Upgrade Required"
    428 PRECONDITION_REQUIRED "Precondition Required"
    429 TOO_MANY_REQUESTS "Too Many Requests"
    431 HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large"
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons"
    500 INTERNAL "Internal Server Error"
    501 NOT_IMPLEMENTED "Not Implemented"
    502 BAD_GATEWAY "Bad Gateway"
    503 UNAVAILABLE "Service Unavailable"
    504 GATEWAY_TIMEOUT "Gateway Timeout"
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported"
    506 VARIANT_ALSO_NEGOTIATES "Variant Also Negotiates"
    507 INSUFFICIENT_STORAGE "Insufficient Storage"
    508 LOOP_DETECTED "Loop Detected"
    510 NOT_EXTENDED "Not Extended"
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required"
}

impl Status {
    /// The status with this code, when it is one of the five classes (100 to 599).
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        if code >= 100 && code <= 599 { Some(Self(code)) } else { None }
    }

    /// The three-digit code.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The reason as an identifier, `not_found` for 404: what an error body carries.
    #[must_use]
    pub const fn slug(self) -> Slug {
        Slug(self.reason())
    }

    /// Whether a response with this status never has a body, whatever its fields say.
    #[must_use]
    pub const fn is_bodyless(self) -> bool {
        self.0 < 200 || matches!(self.0, 204 | 304)
    }

    /// Whether the request was served (2xx).
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 >= 200 && self.0 < 300
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}

/// A reason in lower case with `_` between its words; made by [`Status::slug`] and printed by
/// `Display`, so that it costs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slug(&'static str);

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            'a'..='z' | '0'..='9' => f.write_char(letter),
            'A'..='Z' => f.write_char(letter.to_ascii_lowercase()),
            _ => f.write_char('_'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_code_has_its_own_reason() {
        let classes = ["Informational", "Success", "Redirection", "Client Error", "Server Error"];
        for &code in REGISTERED {
            let status = Status::from_code(code).expect("registered codes are valid");
            assert!(!classes.contains(&status.reason()), "{code}");
        }
        assert!(REGISTERED.is_sorted(), "in the order of the registry");
    }

    #[test]
    fn no_code_is_called_unknown() {
        for code in 100..=599 {
            let reason = Status::from_code(code).expect("in range").reason();
            assert!(!reason.is_empty() && !reason.contains("Unknown"), "{code} {reason}");
        }
    }

    #[test]
    fn codes_outside_the_classes_are_no_status() {
        assert_eq!([0, 99, 600, u16::MAX].map(Status::from_code), [None; 4]);
    }

    #[test]
    fn slugs_are_identifiers() {
        let slug = |status: Status| status.slug().to_string();
        assert_eq!(slug(Status::NOT_FOUND), "not_found");
        assert_eq!(slug(Status::OK), "ok");
        assert_eq!(slug(Status::NON_AUTHORITATIVE), "non_authoritative_information");
        assert_eq!(slug(Status::URI_TOO_LONG), "uri_too_long");
        assert_eq!(slug(Status::HEADER_FIELDS_TOO_LARGE), "request_header_fields_too_large");
    }

    #[test]
    fn bodyless_statuses_are_those_of_the_protocol() {
        let bodyless = (100..=599).filter(|&code| Status(code).is_bodyless());
        assert!(bodyless.eq((100..=199).chain([204, 304])));
    }

    #[test]
    fn display_is_code_and_reason() {
        assert_eq!(Status::TOO_MANY_REQUESTS.to_string(), "429 Too Many Requests");
    }
}
