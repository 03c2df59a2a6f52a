//! The range of numbers in notes, whatever the note.
//!
//! Reports add, multiply and divide what a file says. A whole number beyond 2^53 is not exact in the
//! browser's and MATLAB's readers of the same file, and no figure of a run comes near it. Instants of the
//! monotonic clock pass it after 104 days of uptime, and a difference of two clocks can be as large as the
//! time since 1970 in nanoseconds.

use std::ops::RangeInclusive;

use super::note::Note;

/// Largest whole number, and largest instant or difference of clocks.
const MOST: u64 = 1 << 53;
const MOST_OF_CLOCKS: u64 = 1 << 62;
/// What the whole numbers of a file may add up to, so that the sums of several files do not overflow.
const MOST_IN_ALL: u64 = 1 << 60;
/// Largest other number: the sum of as many squares of as large whole numbers is one.
pub(super) const MOST_FLOAT: f64 = 1e48;
/// Parts of the keys of differences of clocks (one that was never set is 1.8e18 ns behind), and the keys
/// of instants.
const OF_CLOCKS: [&[u8]; 2] = [b"offset", b"rms_ns"];
const INSTANTS: [&[u8]; 5] = [b"release_ns", b"expiry_ns", b"start_ns", b"end_ns", b"at_ns"];
/// Steps of trends and of largest values, in seconds.
pub const EVERY_SECONDS: RangeInclusive<f64> = 1e-9..=1e9;

/// The numbers of a file's notes, note by note.
#[derive(Default)]
pub(super) struct NoteNumbers {
    /// Sum of the whole ones so far.
    sum: u64,
}

impl NoteNumbers {
    /// Returns why a note is refused for a number; the note is valid JSON.
    pub(super) fn refusal(&mut self, note: &Note, json: &str) -> Option<String> {
        match whole_sum(json) {
            Err(number) => return Some(format!("a note with the number {number}, out of range")),
            Ok(more) => self.sum = self.sum.saturating_add(more),
        }
        if self.sum > MOST_IN_ALL {
            let reason =
                "the whole numbers of notes up to here add up to more than 2^60, out of range";
            return Some(reason.to_owned());
        }
        let every_s = match note {
            Note::Trend(trend) => trend.every,
            Note::Maxima(maxima) => maxima.every,
            _ => return None,
        };
        let is_in_range = EVERY_SECONDS.contains(&every_s);
        (!is_in_range).then(|| format!("a note with steps of {every_s} s, out of range"))
    }
}

/// Returns the sum of the whole numbers that count something, or the first number that is out of range.
fn whole_sum(json: &str) -> Result<u64, &str> {
    let bytes = json.as_bytes();
    let mut key = &bytes[..0];
    let (mut at, mut sum) = (0, 0_u64);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_text(bytes, at + 1);
                key = &bytes[at + 1..end];
                at = end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let more = bytes[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                let number = &json[at..at + more];
                sum = sum.saturating_add(counted(number, key).ok_or(number)?);
                at += more;
            }
            _ => at += 1,
        }
    }
    Ok(sum)
}

const fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// What a number adds to the sum; `None` for one that is out of range.
fn counted(number: &str, key: &[u8]) -> Option<u64> {
    if number.contains(['.', 'e', 'E']) {
        return number.parse::<f64>().is_ok_and(|number| number.abs() <= MOST_FLOAT).then_some(0);
    }

    let whole = number.trim_start_matches('-').parse::<u64>().ok()?;
    let is_difference = |name: &&[u8]| key.windows(name.len()).any(|part| part == *name);
    if INSTANTS.contains(&key) || OF_CLOCKS.iter().any(is_difference) {
        (whole <= MOST_OF_CLOCKS).then_some(0)
    } else {
        (whole <= MOST).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_end_at_2_53_and_those_of_clocks_later() {
        for (json, expected) in [
            (
                r#"{"n":9007199254740992,"m2":1.2e21,"text":"99999999999999999999"}"#,
                Ok(9_007_199_254_740_992),
            ),
            (r#"{"n":[1,9007199254740993]}"#, Err("9007199254740993")),
            (r#"{"n":18446744073709551615}"#, Err("18446744073709551615")),
            (r#"{"n":-18446744073709551615}"#, Err("-18446744073709551615")),
            (r#"{"n":[1,-2,0.5],"m":{"n":3}}"#, Ok(6)),
            (r#"{"offset_ns":-1800000000000000000}"#, Ok(0)),
            (r#"{"ptp":{"rms_ns":1612345047363283513}}"#, Ok(0)),
            // Up for 200 days.
            (r#"{"release_ns":17281034163352562,"index":7,"at_ns":17281034163352562}"#, Ok(7)),
            (r#"{"end_ns":4611686018427387905}"#, Err("4611686018427387905")),
            (r#"{"a\"offset":1,"cpu_ns":1800000000000000000}"#, Err("1800000000000000000")),
            (r#"{"every":1e308}"#, Err("1e308")),
            (r#"{"every":1e-300}"#, Ok(0)),
        ] {
            assert_eq!(whole_sum(json), expected, "{json}");
        }
    }
}
