//! The `Date` field, rendered once a second. It is told the time and never asks for it.

use std::fmt;

use crate::calendar::{DAY, SECOND_MAX, civil_from_days};

/// How most responses begin; the time in it is rendered anew once a second.
const START: &[u8; 54] = b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
/// Where the time is in it.
const TEXT_AT: usize = 23;
const TEXT_LEN: usize = 29;

/// The current time in the form HTTP wants, `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Unix second that `start` shows; `u64::MAX` while the time is unknown.
    second: u64,
    /// Status line and date of a response with the status 200, ready to be copied.
    start: [u8; START.len()],
}

impl Date {
    /// A date nobody has set; responses then carry none.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { second: u64::MAX, start: *START }
    }

    /// Shows `unix_seconds` from now on. Costs nothing while the second stays the same.
    ///
    /// A time past the year 9999 makes the date unknown.
    pub fn update(&mut self, unix_seconds: u64) {
        if self.second == unix_seconds {
            return;
        }
        if unix_seconds > SECOND_MAX {
            *self = Self::unknown();
            return;
        }
        self.second = unix_seconds;
        self.render();
    }

    /// The text, or nothing while the time is unknown.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.ok_start().map(|start| &start[TEXT_AT..TEXT_AT + TEXT_LEN])
    }

    /// How a response with the status 200 begins, its date included; none while the time is
    /// unknown.
    pub(super) const fn ok_start(&self) -> Option<&[u8; START.len()]> {
        if self.second == u64::MAX { None } else { Some(&self.start) }
    }

    fn render(&mut self) {
        let (days, clock) = (self.second / DAY, self.second % DAY);
        let (year, month, day) = civil_from_days(days);
        self.text()[..3].copy_from_slice(WEEKDAYS[(days % 7) as usize]);
        self.text()[8..11].copy_from_slice(MONTHS[month as usize]);
        self.digits(5, day);
        self.digits(12, year / 100);
        self.digits(14, year % 100);
        self.digits(17, clock / 3600);
        self.digits(20, clock / 60 % 60);
        self.digits(23, clock % 60);
    }

    /// Writes `value`, which is below 100, as two digits.
    fn digits(&mut self, at: usize, value: u64) {
        self.text()[at] = b'0' + (value / 10) as u8;
        self.text()[at + 1] = b'0' + (value % 10) as u8;
    }

    fn text(&mut self) -> &mut [u8] {
        &mut self.start[TEXT_AT..TEXT_AT + TEXT_LEN]
    }
}

impl Default for Date {
    fn default() -> Self {
        Self::unknown()
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_bytes() {
            Some(text) => write!(f, "Date({})", String::from_utf8_lossy(text)),
            None => f.write_str("Date(unknown)"),
        }
    }
}

/// Day 0 was a Thursday.
const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(second: u64) -> String {
        let mut date = Date::unknown();
        date.update(second);
        String::from_utf8(date.as_bytes().expect("was set").to_vec()).expect("is ASCII")
    }

    #[test]
    fn known_instants_render_as_http_dates() {
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_709_164_799, "Wed, 28 Feb 2024 23:59:59 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (1_785_196_800, "Tue, 28 Jul 2026 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (SECOND_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (second, text) in table {
            assert_eq!(shown(second), text);
        }
    }

    #[test]
    fn a_date_nobody_set_is_absent() {
        assert_eq!(Date::unknown().as_bytes(), None);
        assert_eq!(format!("{:?}", Date::default()), "Date(unknown)");
    }

    #[test]
    fn a_time_beyond_four_digit_years_is_unknown() {
        let mut date = Date::unknown();
        date.update(1);
        date.update(SECOND_MAX + 1);
        assert_eq!(date.as_bytes(), None);
        date.update(u64::MAX);
        assert_eq!(date.as_bytes(), None);
    }

    #[test]
    fn an_update_within_the_same_second_renders_nothing() {
        let mut date = Date::unknown();
        date.update(5);
        date.text()[0] = b'X';
        date.update(5);
        assert_eq!(date.as_bytes().expect("was set")[0], b'X');
        date.update(6);
        assert_eq!(date.as_bytes().expect("was set")[0], b'T');
    }
}
