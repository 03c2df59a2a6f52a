//! Quantities as people type them: `1ms`, `50us`, `2m`, `1.5s`.

/// A quantity that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("`{0}` has no unit; write one of ns, us, ms, s, m, h, d, such as 1ms or 50us")]
    NoUnit(String),
    #[error(
        "`{0}` is not a time; write a number and one of ns, us, ms, s, m, h, d, such as 1ms or 50us"
    )]
    NotATime(String),
    #[error("`{0}` is longer than 10,000 hours")]
    TooLong(String),
    #[error("`{0}` is shorter than 1 us, the shortest period of a loop")]
    ShortPeriod(String),
    #[error("`{0}` leaves no time, and every release is late; write a time such as 100us")]
    NoTime(String),
    #[error("`{0}` is not a period; write a time such as 1ms")]
    NoPeriod(String),
}

/// In nanoseconds; 0 needs no unit.
const UNITS: [(&str, f64); 11] = [
    ("", 1.0),
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
];
const LONGEST_NS: f64 = 10_000.0 * 3_600e9;

/// Parses a time with its unit, rounded to whole nanoseconds; `1m30s` and `2 min 35 s`, as onbeat
/// prints it, are sums whose units get smaller.
pub fn time_ns(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let not_a_time = || UnitError::NotATime(text.to_owned());
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let (mut sum, mut above, mut rest) = (0.0_f64, f64::INFINITY, text);
    loop {
        let (number, behind) =
            rest.split_at(rest.find(|c: char| !is_digit(c)).unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| not_a_time())?;
        let (unit, next) = behind.split_at(behind.find(is_digit).unwrap_or(behind.len()));
        let unit = unit.trim();
        if unit.is_empty() && (number != 0.0 || rest != text) {
            return Err(UnitError::NoUnit(text.to_owned()));
        }

        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(not_a_time)?;
        if *factor >= above {
            return Err(not_a_time());
        }
        (sum, above, rest) = (sum + number * factor, *factor, next);
        if rest.is_empty() {
            break;
        }
    }

    let ns = sum.round();
    if ns > LONGEST_NS { Err(UnitError::TooLong(text.to_owned())) } else { Ok(ns as u64) }
}

/// Parses a limit or deadline, in nanoseconds: something is on time.
pub fn limit_ns(text: &str) -> Result<u64, UnitError> {
    match time_ns(text)? {
        0 => Err(UnitError::NoTime(text.to_owned())),
        ns => Ok(ns),
    }
}

/// Shortest period of a loop; below it, reading the clock takes longer than a period.
const SHORTEST_PERIOD_NS: u64 = 1_000;

/// Parses a loop's period in nanoseconds; the plan of the loop refuses 0.
pub fn loop_period_ns(text: &str) -> Result<u64, UnitError> {
    match time_ns(text)? {
        1..SHORTEST_PERIOD_NS => Err(UnitError::ShortPeriod(text.to_owned())),
        ns => Ok(ns),
    }
}

/// Parses the period of a loop that is not run, or of edges, in nanoseconds.
pub fn other_period_ns(text: &str) -> Result<u64, UnitError> {
    period_ns(text).and_then(|_| loop_period_ns(text))
}

/// Parses the period of imported samples, in nanoseconds.
pub fn period_ns(text: &str) -> Result<u64, UnitError> {
    match time_ns(text)? {
        0 => Err(UnitError::NoPeriod(text.to_owned())),
        ns => Ok(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_type_numbers_with_units() {
        let typed = [
            ("1ms", 1_000_000),
            ("50us", 50_000),
            ("2m", 120_000_000_000),
            ("0.5 s", 500_000_000),
            ("3d", 259_200_000_000_000),
            ("1m30s", 90_000_000_000),
            ("2 min 35 s", 155_000_000_000),
            ("1ms 500us", 1_500_000),
            ("0", 0),
        ];
        for (text, ns) in typed {
            assert_eq!(time_ns(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn a_period_has_a_length() {
        assert_eq!(loop_period_ns("1us"), Ok(1000));
        assert_eq!(loop_period_ns("0"), Ok(0), "refused later, with its own message");
        assert_eq!(loop_period_ns("999ns"), Err(UnitError::ShortPeriod("999ns".into())));
        assert_eq!(period_ns("0s"), Err(UnitError::NoPeriod("0s".into())));
        assert_eq!(other_period_ns("0"), Err(UnitError::NoPeriod("0".into())));
        assert_eq!(other_period_ns("1us"), Ok(1000));
        assert_eq!(period_ns("1ns"), Ok(1));
        assert_eq!(limit_ns("0"), Err(UnitError::NoTime("0".into())));
        assert_eq!(limit_ns("0.1ns"), Err(UnitError::NoTime("0.1ns".into())));
        assert_eq!(limit_ns("1ns"), Ok(1));
    }

    #[test]
    fn an_invalid_time_is_refused_with_its_text() {
        assert_eq!(time_ns("10"), Err(UnitError::NoUnit("10".into())));
        assert_eq!(time_ns("fast"), Err(UnitError::NotATime("fast".into())));
        assert_eq!(time_ns("1 fortnight"), Err(UnitError::NotATime("1 fortnight".into())));
        assert_eq!(time_ns("99999h"), Err(UnitError::TooLong("99999h".into())));
        assert_eq!(time_ns("1m30"), Err(UnitError::NoUnit("1m30".into())));
        for sum in ["30s 1m", "1s 1s", "0 1s", "1m,30s", "1m-30s"] {
            assert_eq!(time_ns(sum), Err(UnitError::NotATime(sum.into())), "{sum}");
        }
        assert!(time_ns("-1ms").is_err());
    }
}
