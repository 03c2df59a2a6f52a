//! The range of numbers in notes, whatever the note.
//!
//! Reports add, multiply and divide what a file says. A whole number beyond 2^53 is not exact in the
//! browser's and MATLAB's readers of the same file, and no figure of a run comes near it; a difference of
//! two clocks alone can be as large as the time since 1970 in nanoseconds.

use std::ops::RangeInclusive;

use super::note::Note;

/// Largest whole number, and largest difference of clocks.
const MOST: u64 = 1 << 53;
const MOST_OFFSET: u64 = 1 << 62;
/// Largest other number, such as a sum of squared nanoseconds.
const MOST_FLOAT: f64 = 1e30;
/// Parts of the keys of differences of clocks: one that was never set is 1.8e18 ns behind.
const OF_CLOCKS: [&[u8]; 2] = [b"offset", b"rms_ns"];
/// Steps of trends and of largest values, in seconds.
pub const EVERY_SECONDS: RangeInclusive<f64> = 1e-9..=1e9;

/// Returns why a note is refused for a number; the note is valid JSON.
pub(super) fn refusal(note: &Note, json: &str) -> Option<String> {
    if let Some(number) = out_of_range(json) {
        return Some(format!("a note with the number {number}, out of range"));
    }
    let every_s = match note {
        Note::Trend(trend) => trend.every,
        Note::Maxima(maxima) => maxima.every,
        _ => return None,
    };
    let is_in_range = EVERY_SECONDS.contains(&every_s);
    (!is_in_range).then(|| format!("a note with steps of {every_s} s, out of range"))
}

/// Returns the first number that is out of range.
fn out_of_range(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut key = &bytes[..0];
    let mut at = 0;
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
                if !is_in_range(number, key) {
                    return Some(number);
                }
                at += more;
            }
            _ => at += 1,
        }
    }
    None
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

fn is_in_range(number: &str, key: &[u8]) -> bool {
    // Most numbers are short.
    if number.len() < 16 && !number.contains(['e', 'E']) {
        return true;
    }
    if number.contains(['.', 'e', 'E']) {
        return number.parse::<f64>().is_ok_and(|number| number.abs() <= MOST_FLOAT);
    }
    let is_offset = OF_CLOCKS.iter().any(|name| key.windows(name.len()).any(|part| part == *name));
    let most = if is_offset { MOST_OFFSET } else { MOST };
    number.trim_start_matches('-').parse::<u64>().is_ok_and(|number| number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_end_at_2_53_and_differences_of_clocks_later() {
        for (json, expected) in [
            (r#"{"n":9007199254740992,"m2":1.2e21,"text":"99999999999999999999"}"#, None),
            (r#"{"n":[1,9007199254740993]}"#, Some("9007199254740993")),
            (r#"{"n":18446744073709551615}"#, Some("18446744073709551615")),
            (r#"{"n":-18446744073709551615}"#, Some("-18446744073709551615")),
            (r#"{"offset_ns":-1800000000000000000}"#, None),
            (r#"{"ptp":{"rms_ns":1612345047363283513}}"#, None),
            (r#"{"a\"offset":1,"at_ns":1800000000000000000}"#, Some("1800000000000000000")),
            (r#"{"every":1e308}"#, Some("1e308")),
            (r#"{"every":1e-300}"#, None),
        ] {
            assert_eq!(out_of_range(json), expected, "{json}");
        }
    }
}
