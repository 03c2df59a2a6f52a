//! Figures as people read them: rounded to three digits, with their unit.

use super::vocabulary::PHRASES_OF_LOADS;

/// Which letters a text may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Letters {
    /// `us`, for sentences in JSON and terminals without UTF-8.
    #[default]
    Ascii,
    /// `µs`.
    Unicode,
}

impl Letters {
    /// The name of a microsecond.
    #[must_use]
    pub const fn microseconds(self) -> &'static str {
        match self {
            Self::Ascii => "us",
            Self::Unicode => "µs",
        }
    }
}

/// A text with `µs` for `us` behind a number, where the letters allow it.
///
/// ```
/// use onbeat_figures::{Letters, units::in_letters};
///
/// let text = in_letters("after 5 us, of 3 users that use us", Letters::Unicode);
/// assert_eq!(text, "after 5 µs, of 3 users that use us");
/// ```
#[must_use]
pub fn in_letters(text: &str, letters: Letters) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" us").filter(|_| letters == Letters::Unicode) {
        let (before, behind) = (&rest[..at], &rest[at + " us".len()..]);
        let is_unit = before.ends_with(|c: char| c.is_ascii_digit())
            && !behind.starts_with(|c: char| c.is_alphanumeric());
        written.push_str(before);
        written.push_str(if is_unit { " µs" } else { " us" });
        rest = behind;
    }
    written + rest
}

/// A time in nanoseconds with three significant digits: `17.1 us`, `1.07 ms`, `346 ms`, `2.3 s`.
/// Whole nanoseconds are the smallest unit.
///
/// ```
/// use onbeat_figures::{Letters, units::time};
///
/// assert_eq!(time(17_100.0, Letters::Ascii), "17.1 us");
/// assert_eq!(time(1_070_000.0, Letters::Unicode), "1.07 ms");
/// ```
#[must_use]
pub fn time(ns: f64, letters: Letters) -> String {
    let units = [(1.0, "ns"), (1e3, letters.microseconds()), (1e6, "ms"), (1e9, "s")];
    let mut chosen = units[0];
    for unit in units {
        // A figure that would be rounded to 1,000 of one unit is shown in the next.
        if ns / unit.0 >= 0.9995 {
            chosen = unit;
        }
    }

    let value = ns / chosen.0;
    let text = if chosen.0 == 1.0 { fixed(value, 0) } else { three_digits(value) };
    format!("{text} {}", chosen.1)
}

/// The same for whole nanoseconds.
#[must_use]
pub fn time_ns(ns: u64, letters: Letters) -> String {
    time(ns as f64, letters)
}

/// A duration as people say it: `5 min 18 s`, `15.0 s`, `70 ms`. Above a minute in two units, below
/// a second with three digits.
///
/// ```
/// use onbeat_figures::units::spoken;
///
/// assert_eq!([spoken(318.0), spoken(115_243_740.0)], ["5 min 18 s", "32,012 h 9 min"]);
/// assert_eq!([spoken(0.0), spoken(0.07)], ["0.0 s", "70 ms"]);
/// ```
#[must_use]
pub fn spoken(seconds: f64) -> String {
    if seconds < 59.95 {
        return if seconds >= 1.0 || seconds == 0.0 {
            format!("{seconds:.1} s")
        } else {
            time(seconds * 1e9, Letters::Ascii)
        };
    }

    let whole = seconds.round() as u64;
    let parts = [(whole / 3600, "h"), (whole % 3600 / 60, "min"), (whole % 60, "s")];
    let parts_shown: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .take(2)
        .map(|(n, unit)| format!("{} {unit}", count(*n)))
        .collect();
    parts_shown.join(" ")
}

/// A figure with so many decimals, a half of its decimal digits away from zero: as the page and people
/// round. (The standard library rounds what the figure is in binary, and an exact half to the even
/// digit: 100.5 to 100, 17.25 to 17.2 and 12.35 to 12.3.) Its thousands are apart, as in [`count`].
///
/// ```
/// use onbeat_figures::units::fixed;
///
/// assert_eq!([fixed(100.5, 0), fixed(17.25, 1), fixed(12.35, 1)], ["101", "17.3", "12.4"]);
/// assert_eq!(fixed(-1234.56, 1), "-1,234.6");
/// ```
#[must_use]
pub fn fixed(value: f64, decimals: usize) -> String {
    let shortest = value.to_string();
    let is_half = shortest
        .split_once('.')
        .is_some_and(|(_, digits)| digits.len() == decimals + 1 && digits.ends_with('5'));
    let value = match is_half {
        true if value > 0.0 => value.next_up(),
        true => value.next_down(),
        false => value,
    };
    let text = format!("{value:.decimals$}");
    let unsigned = text.trim_start_matches('-');
    let whole = unsigned.find('.').unwrap_or(unsigned.len());
    let sign = &text[..text.len() - unsigned.len()];
    format!("{sign}{}{}", apart(&unsigned[..whole]), &unsigned[whole..])
}

/// A figure of at least 0.001 with three significant digits and no zeros at its end: `17.1`,
/// `0.064`, `1,234`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = fixed(value, decimals);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A ratio: two decimals or digits below ten, whole above.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        v if v >= 10.0 => fixed(v, 0),
        v if v >= 0.1 => fixed(v, 2),
        v => {
            let decimals = (1 - v.max(1e-9).log10().floor() as i32).clamp(2, 9) as usize;
            fixed(v, decimals)
        }
    }
}

/// A rate (0 to 1) in percent: `0.0129 %`.
#[must_use]
pub fn percent(rate: f64) -> String {
    format!("{} %", three_digits(rate * 100.0))
}

/// A count with its thousands apart: `60,000`.
#[must_use]
pub fn count(n: u64) -> String {
    apart(&n.to_string())
}

fn apart(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }

    text
}

/// Formats a number of things, with their noun in one or in many.
///
/// ```
/// # use onbeat_figures::units::counted;
/// assert_eq!((counted(1, "kernel"), counted(1_200, "frame")), ("1 kernel".to_owned(), "1,200 frames".to_owned()));
/// ```
#[must_use]
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// The words with their first letter in upper case.
#[must_use]
pub fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A load with its preposition: `with no added load`, `under cpu=50%`.
#[must_use]
pub fn under(load: &str) -> String {
    let own = PHRASES_OF_LOADS.iter().find(|(name, _)| *name == load);
    own.map_or_else(|| format!("under {load}"), |(_, phrase)| (*phrase).to_owned())
}

/// A cell by its tuning and load: `PMCS with no added load`.
#[must_use]
pub fn cell_name(tuning: &str, load: &str) -> String {
    format!("{tuning} {}", under(load))
}

/// Words in a row: `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
