//! The wall clock as other tools print it.

/// Seconds since 1970 of a date such as `Sat, 21 Nov 2026 11:57:50 +0000` (RFC 5322, section 3.3);
/// `None` when it is none.
#[must_use]
pub fn unix_s(text: &str) -> Option<f64> {
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let mut words = text.split_whitespace();
    let day: i64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let year: i64 = words.next()?.parse().ok()?;
    let time = words.next()?;
    let zone = words.next().unwrap_or("+0000");
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = i64::try_from(months.iter().position(|name| *name == month)?).ok()? + 1;

    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }

    let seconds = clock_s(time)? - zone_s(zone)?;
    Some((days_since_1970(year, month, day) * 86_400 + seconds) as f64)
}

/// Seconds since 1970 of a date-time such as `2024-06-06 14:26:46.373`, with `T`, a zone, dots or
/// slashes as well, or seconds since midnight of a clock alone; UTC where it names no zone. `None`
/// when it is none of these.
#[must_use]
pub fn stamp_s(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (Some(date), clock.trim()),
        None if text.contains(':') => (None, text),
        None => return None,
    };
    let days = date.map_or(Some(0), day_of)?;
    let zone_at = clock.find(['+', '-', 'Z']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    let zone_s = match zone {
        "" | "Z" => 0,
        zone => zone_s(&zone.replace(':', ""))?,
    };

    let (whole, fraction) = clock.trim().split_once(['.', ',']).unwrap_or((clock.trim(), ""));
    if whole.matches(':').count() != 2 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let below_s = format!("0.{fraction}0").parse::<f64>().ok()?;
    Some((days * 86_400 + clock_s(whole)? - zone_s) as f64 + below_s)
}

/// Whether a date-time or a clock names its zone.
pub(super) fn has_zone(text: &str) -> bool {
    let clock = text.trim().split_once(['T', ' ']).map_or(text, |(_, clock)| clock);
    clock.contains(['+', '-', 'Z'])
}

/// Days since 1970 of `2024-06-06`, `2024/06/06` or `06.06.2024`.
fn day_of(date: &str) -> Option<i64> {
    let parts: Vec<i64> =
        date.split(['-', '/', '.']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [first, month, last] = parts.as_slice() else { return None };
    let (year, day) = if date.contains('.') { (last, first) } else { (first, last) };
    let is_possible =
        (1970..=9999).contains(year) && (1..=12).contains(month) && (1..=31).contains(day);
    is_possible.then(|| days_since_1970(*year, *month, *day))
}

/// Seconds of `11:57:50`.
pub(crate) fn clock_s(text: &str) -> Option<i64> {
    let mut all = 0;
    if text.matches(':').count() > 3 {
        return None;
    }
    for part in text.split(':') {
        let part: i64 = part.parse().ok()?;
        all = all * 60 + (0..=59).contains(&part).then_some(part)?;
    }
    Some(all)
}

fn zone_s(text: &str) -> Option<i64> {
    let (hours, minutes) = text.get(1..)?.split_at_checked(2)?;
    let minutes: u16 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
    let seconds = hours.parse::<i64>().ok()? * 3600 + i64::from(minutes) * 60;
    match text.as_bytes().first()? {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// Days of the Gregorian calendar, counted in years that begin in March so that the leap day comes
/// last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let months = (month + 9) % 12;
    year * 365 + year / 4 - year / 100 + year / 400 + (months * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_seconds_since_1970() {
        assert_eq!(unix_s("Thu, 01 Jan 1970 00:00:00 +0000"), Some(0.0));
        assert_eq!(unix_s("Sat, 21 Nov 2026 11:57:50 +0000"), Some(1_795_262_270.0));
        assert_eq!(unix_s("Tue, 29 Feb 2000 23:00:00 -0130"), Some(951_870_600.0));
    }

    #[test]
    fn a_date_time_is_seconds_since_1970_and_a_clock_those_since_midnight() {
        for text in [
            "2026-11-21 11:57:50.25",
            "2026-11-21T11:57:50,25Z",
            "2026/11/21 13:57:50.25+02:00",
            "21.11.2026 11:57:50.25",
        ] {
            assert_eq!(stamp_s(text), Some(1_795_262_270.25), "{text}");
        }
        assert_eq!(stamp_s("00:01:02.5"), Some(62.5));
        for text in ["", "12.5", "12:30", "2026-13-21 11:57:50", "11/21/2026 11:57:50", "T::"] {
            assert_eq!(stamp_s(text), None, "{text}");
        }
    }

    #[test]
    fn an_invalid_date_is_none() {
        for text in [
            "",
            "21 Nov",
            "1 Nov 2026 11:5x:50 +0000",
            "1 Nov 2026 11:50:50 é0000",
            "99 Nov 2026 11:00:00 +0000",
        ] {
            assert_eq!(unix_s(text), None, "{text}");
        }
    }
}
