//! Wall-clock time as text.

/// Seconds since 1970 as `2026-11-21 08:10:02 UTC`.
pub(crate) fn utc(unix_s: u64) -> String {
    let days = unix_s / 86_400;
    let second_of_day = unix_s % 86_400;
    // Years of 365.2425 days from 1 March 0000, so that the leap day is the last of its year
    // (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let hour = second_of_day / 3_600;
    let minute = second_of_day / 60 % 60;
    let second = second_of_day % 60;

    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_since_1970_read_as_a_date() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_248_602), "2026-11-21 08:10:02 UTC");
    }
}
