//! Days and seconds as people count them, from the seconds since 1970 that clocks count. Nothing
//! here asks for the time.

/// Seconds in a day.
pub(crate) const DAY: u64 = 86_400;
/// 9999-12-31T23:59:59Z, the last second a four-digit year can name.
pub(crate) const SECOND_MAX: u64 = 253_402_300_799;

/// A second the way ISO 8601 writes it, `1994-11-06T08:49:37Z`; one past the year 9999 is written
/// as the last one of that year.
pub(crate) fn iso_utc(unix_seconds: u64) -> String {
    let second = unix_seconds.min(SECOND_MAX);
    let (days, clock) = (second / DAY, second % DAY);
    let (year, month, day) = civil_from_days(days);
    let (hours, minutes, seconds) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z", month + 1)
}

/// Year, month (from 0) and day of the month (from 1) of the day `days` after 1970-01-01.
///
/// The calendar is counted from 0000-03-01, so that the leap day is the last of its year and the
/// lengths of the months before it follow one formula.
pub(crate) const fn civil_from_days(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + (month < 2) as u64;
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_as_iso_8601_does() {
        for (second, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (784_111_777, "1994-11-06T08:49:37Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_764_066_600, "2025-11-25T10:30:00Z"),
            (SECOND_MAX, "9999-12-31T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso_utc(second), expected);
        }
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let lengths = |year: u64| {
            let leap =
                year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let (mut year, mut month, mut day) = (1970, 0, 1);
        for days in 0..292_194 {
            assert_eq!(civil_from_days(days), (year, month, day));
            day += 1;
            if day > lengths(year)[month as usize] {
                (month, day) = (month + 1, 1);
            }
            if month == 12 {
                (year, month) = (year + 1, 0);
            }
        }
    }
}
