//! Numbers and columns as spreadsheets of any locale write them.

/// What parts the columns of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    Semicolon,
    Tab,
    /// Any number of blanks.
    Blank,
    /// There is one column.
    #[default]
    None,
}

impl Separator {
    /// By the first two lines: a comma parts columns only where the names have it too.
    pub(super) fn of(first: &str, second: Option<&str>) -> Self {
        if first.contains(';') {
            return Self::Semicolon;
        }
        if first.contains('\t') {
            return Self::Tab;
        }

        let has_digits = first.contains(|c: char| c.is_ascii_digit());
        if first.contains(',') {
            // `0,001 12,5`: two numbers with decimal commas.
            let is_blank = has_digits
                && !first.contains(['"', '(', ':'])
                && first.contains(' ')
                && !first.contains(", ")
                && first.split_whitespace().all(|word| word.matches(',').count() <= 1);
            return if is_blank { Self::Blank } else { Self::Comma };
        }

        let words = first.split_whitespace().count();
        let words_below = second.map(|line| line.split_whitespace().count());
        // `latency (us)`, and not `seq latency(us)` above as many figures.
        let is_one_name = first.starts_with('"')
            || first.contains('(') && (first.contains(" (") || words_below != Some(words));
        if is_one_name || words == 1 || (!has_digits && words_below.is_some_and(|n| n == 1)) {
            Self::None
        } else {
            Self::Blank
        }
    }

    /// The fields of a line, without quotes.
    pub(super) fn fields(self, line: &str) -> Vec<&str> {
        let separator = match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
            Self::None => return vec![unquoted(line)],
            Self::Blank => return blank_fields(line),
        };
        let mut is_quoted = false;
        line.split(|c: char| {
            is_quoted ^= c == '"';
            c == separator && !is_quoted
        })
        .map(unquoted)
        .collect()
    }

    /// Whether a line with one comma may as well be one number with a decimal comma.
    pub(super) fn is_doubtful(self, line: &str) -> bool {
        self == Self::Comma
            && !line.contains(['.', '"', ' ', ':'])
            && line.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
    }
}

/// Fields between blanks; a date and its clock are one.
fn blank_fields(line: &str) -> Vec<&str> {
    let line = line.trim();
    let mut words = line.split_whitespace();
    let (date, clock) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let is_date = date.len() >= 8
        && clock.contains(':')
        && date.bytes().all(|byte| byte.is_ascii_digit() || b"-./".contains(&byte));
    if !is_date {
        return line.split_whitespace().collect();
    }

    let end = line.find(clock).map_or(line.len(), |at| at + clock.len());
    std::iter::once(&line[..end]).chain(words).collect()
}

fn unquoted(field: &str) -> &str {
    field.trim().trim_matches('"').trim()
}

/// A decimal mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Comma,
    Point,
}

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) figure: f64,
    /// Digits after its decimal mark, at most 9.
    pub(super) decimals: u32,
    /// `None` where it has none.
    pub(super) mark: Option<Mark>,
    /// Whether the mark may as well stand between thousands: `1,234`.
    pub(super) is_grouped: bool,
}

impl Number {
    /// A finite number; `None` for everything else, NaN among it.
    pub(super) fn parse(field: &str, separator: Separator) -> Option<Self> {
        let (mark, thousands) = marks(field, separator);
        let mut plain = String::with_capacity(field.len());
        let whole =
            mark.map_or(field, |mark| field.rsplit_once(mark.char()).map_or("", |(w, _)| w));
        without_thousands(whole, thousands, &mut plain)?;
        let mut decimals = 0;
        if let Some(mark) = mark {
            let after = field.rsplit_once(mark.char()).map_or("", |(_, after)| after);
            decimals = if after.contains(['e', 'E']) { 9 } else { after.len() };
            plain.push('.');
            plain.push_str(after);
        } else if field.contains(['e', 'E']) {
            decimals = 9;
        }

        // `inf` and `nan` are words to the parser.
        if !plain.contains(|c: char| c.is_ascii_digit())
            || plain.contains(|c: char| c.is_alphabetic() && !matches!(c, 'e' | 'E'))
        {
            return None;
        }
        let figure = plain.parse::<f64>().ok().filter(|figure| figure.is_finite())?;
        let is_grouped = mark.is_some_and(|mark| is_grouped(field, mark.char()));
        let decimals = u32::try_from(decimals).unwrap_or(9).min(9);
        Some(Self { figure, decimals, mark, is_grouped })
    }
}

impl Mark {
    const fn char(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Point => '.',
        }
    }
}

/// The decimal mark of a field, and the mark between its thousands.
fn marks(field: &str, separator: Separator) -> (Option<Mark>, Option<char>) {
    let (commas, points) = (field.matches(',').count(), field.matches('.').count());
    let blank = field.chars().find(|c| matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\'' | '’'));
    match (commas, points) {
        (0, 0) => (None, blank),
        (0, 1) => (Some(Mark::Point), blank),
        (0, _) => (None, Some('.')),
        (1, 0) if separator == Separator::Comma && is_grouped(field, ',') => (None, Some(',')),
        (1, 0) => (Some(Mark::Comma), blank),
        (_, 0) => (None, Some(',')),
        // The last one of both is the decimal mark.
        _ if field.rfind(',') > field.rfind('.') => (Some(Mark::Comma), Some('.')),
        _ => (Some(Mark::Point), Some(',')),
    }
}

/// Whether all groups after the first have three digits, and the first one has one to three and is
/// not 0.
fn is_grouped(whole: &str, mark: char) -> bool {
    let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let mut groups = digits.split(mark);
    let are_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next().unwrap_or("");
    let is_first = (1..=3).contains(&first.len()) && are_digits(first) && !first.starts_with('0');
    is_first && groups.all(|group| group.len() == 3 && are_digits(group))
}

fn without_thousands(whole: &str, mark: Option<char>, plain: &mut String) -> Option<()> {
    match mark {
        Some(mark) if whole.contains(mark) => {
            is_grouped(whole, mark).then_some(())?;
            plain.extend(whole.chars().filter(|c| *c != mark));
        }
        _ => plain.push_str(whole),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_locales_are_read_and_what_is_none_is_not() {
        let of = |field: &str, separator| {
            Number::parse(field, separator).map(|n| (n.figure, n.decimals, n.mark))
        };
        let cases = [
            ("12", Separator::Comma, Some((12.0, 0, None))),
            ("12.5", Separator::Comma, Some((12.5, 1, Some(Mark::Point)))),
            ("-0.513", Separator::None, Some((-0.513, 3, Some(Mark::Point)))),
            ("12,5", Separator::Semicolon, Some((12.5, 1, Some(Mark::Comma)))),
            ("0,512", Separator::Comma, Some((0.512, 3, Some(Mark::Comma)))),
            ("1,234", Separator::Comma, Some((1234.0, 0, None))),
            ("1,234", Separator::Semicolon, Some((1.234, 3, Some(Mark::Comma)))),
            ("1.234,5", Separator::Semicolon, Some((1234.5, 1, Some(Mark::Comma)))),
            ("1,234.5", Separator::Comma, Some((1234.5, 1, Some(Mark::Point)))),
            ("1 234,5", Separator::Semicolon, Some((1234.5, 1, Some(Mark::Comma)))),
            ("1.234.567", Separator::Semicolon, Some((1_234_567.0, 0, None))),
            ("1e-3", Separator::None, Some((0.001, 9, None))),
            ("NaN", Separator::None, None),
            ("-inf", Separator::None, None),
            ("12 5", Separator::Semicolon, None),
            ("1,2.3,4", Separator::Semicolon, None),
            ("", Separator::None, None),
            ("late", Separator::None, None),
        ];
        for (field, separator, expected) in cases {
            assert_eq!(of(field, separator), expected, "{field} with {separator:?}");
        }
    }

    #[test]
    fn columns_are_parted_as_their_names_are() {
        let of = |first: &str, second: &str| Separator::of(first, Some(second));
        assert_eq!(of("time;latency_us", "0,001;12,5"), Separator::Semicolon);
        assert_eq!(of("latency_us", "12,5"), Separator::None);
        assert_eq!(of("0,001 12,5", "0,002 13,1"), Separator::Blank);
        assert_eq!(of("0.1, 20", "0.2, 21"), Separator::Comma);
        assert_eq!(of("latency (us)", "20"), Separator::None);
        assert_eq!(of("seq latency(us)", "1 20"), Separator::Blank);
        assert_eq!(
            Separator::Blank.fields("2024-06-06 14:26:46.373 0.012"),
            ["2024-06-06 14:26:46.373", "0.012"]
        );
        assert_eq!(Separator::Comma.fields("\"1,234.5\",\"0,5\""), ["1,234.5", "0,5"]);
    }
}
