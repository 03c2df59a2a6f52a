//! Elements of an ESI file, accessed by name; every error has the line.

use roxmltree::Node;

use super::EsiError;

/// Where the lines of a file end. Counting them anew for each element would take the square of the
/// file's length: half a minute for 10 MB.
#[derive(Clone, Debug)]
pub(crate) struct LineEnds(Vec<usize>);

impl LineEnds {
    pub(crate) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    /// Returns the line of a byte, from 1.
    fn line(&self, at: usize) -> u32 {
        u32::try_from(self.0.partition_point(|end| *end < at) + 1).unwrap_or(u32::MAX)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'d>(Node<'d, 'd>, &'d LineEnds);

impl<'d> Element<'d> {
    pub(crate) fn new(node: Node<'d, 'd>, lines: &'d LineEnds) -> Self {
        Self(node, lines)
    }

    pub(crate) fn name(self) -> &'d str {
        self.0.tag_name().name()
    }

    /// Returns the line in the file, from 1.
    pub(crate) fn line(self) -> u32 {
        self.1.line(self.0.range().start)
    }

    pub(crate) fn elements(self) -> impl Iterator<Item = Self> {
        self.0.children().filter(Node::is_element).map(move |node| Self(node, self.1))
    }

    /// Returns the child elements with this name.
    pub(crate) fn all(self, name: &'static str) -> impl Iterator<Item = Self> {
        self.elements().filter(move |element| element.name() == name)
    }

    pub(crate) fn first(self, name: &'static str) -> Option<Self> {
        self.all(name).next()
    }

    /// Follows a path of first child elements.
    pub(crate) fn at(self, path: &[&'static str]) -> Option<Self> {
        path.iter().try_fold(self, |element, name| element.first(name))
    }

    pub(crate) fn needs(self, name: &'static str) -> Result<Self, EsiError> {
        self.first(name).ok_or_else(|| self.lacks(format!("<{name}>")))
    }

    pub(crate) fn lacks(self, wanted: String) -> EsiError {
        EsiError::Missing { line: self.line(), element: self.name().to_owned(), wanted }
    }

    /// Returns the trimmed text; a comment may come before it.
    pub(crate) fn text(self) -> &'d str {
        let texts = self.0.children().filter(Node::is_text).filter_map(|node| node.text());
        texts.map(str::trim).find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Returns the text of a child element that can be given in several languages, in English if
    /// available.
    pub(crate) fn localized(self, name: &'static str) -> &'d str {
        let english = self
            .all(name)
            .find(|element| element.attribute("LcId").is_none_or(|lcid| lcid == "1033"));
        english.or_else(|| self.first(name)).map(Self::text).unwrap_or_default()
    }

    /// Returns the text of a child element; empty without it.
    pub(crate) fn text_at(self, name: &'static str) -> &'d str {
        self.first(name).map(Self::text).unwrap_or_default()
    }

    /// Parses the text of a child element as a number up to `most`; 0 without it, or without text, as
    /// one that has attributes only.
    pub(crate) fn number_at(self, name: &'static str, most: u32) -> Result<u32, EsiError> {
        let given = self.first(name).filter(|element| !element.text().is_empty());
        given.map_or(Ok(0), |element| element.number(most))
    }

    pub(crate) fn attribute(self, name: &str) -> Option<&'d str> {
        self.0.attribute(name).map(str::trim)
    }

    /// Returns a boolean attribute; false by default.
    pub(crate) fn flag(self, name: &str) -> bool {
        self.attribute(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// Returns whether an attribute that is on by default is on: neither 0 nor false.
    pub(crate) fn is_on(self, name: &str) -> bool {
        self.attribute(name).is_none_or(|value| {
            number(value).map_or(!value.eq_ignore_ascii_case("false"), |value| value != 0)
        })
    }

    /// Parses the text as a number up to `most`.
    pub(crate) fn number(self, most: u32) -> Result<u32, EsiError> {
        self.read(self.text(), self.name().to_owned(), most)
    }

    /// Parses an attribute as a number up to `most`; an empty one is none.
    pub(crate) fn numbered(self, name: &str, most: u32) -> Result<Option<u32>, EsiError> {
        self.attribute(name)
            .filter(|text| !text.is_empty())
            .map(|text| self.read(text, format!("{} {name}", self.name()), most))
            .transpose()
    }

    fn read(self, text: &str, element: String, most: u32) -> Result<u32, EsiError> {
        number(text)
            .and_then(|value| u32::try_from(value).ok())
            .filter(|&value| value <= most)
            .ok_or_else(|| EsiError::Value {
                line: self.line(),
                element,
                text: text.to_owned(),
                wanted: format!("a number up to {most}, as 16 or #x10"),
            })
    }

    /// Parses the text as hexadecimal bytes.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, EsiError> {
        let digits: Option<Vec<u8>> = self
            .text()
            .chars()
            .filter(|letter| !letter.is_whitespace())
            .map(|letter| letter.to_digit(16).map(|digit| digit as u8))
            .collect();
        let pairs = digits.as_deref().map(|digits| digits.as_chunks::<2>());

        match pairs {
            Some((pairs, [])) => Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()),
            _ => Err(EsiError::Value {
                line: self.line(),
                element: self.name().to_owned(),
                text: self.text().chars().take(40).collect(),
                wanted: "pairs of hexadecimal digits".to_owned(),
            }),
        }
    }

    /// Returns an error for something that is not supported.
    pub(crate) fn not_simulated(self, what: String) -> EsiError {
        EsiError::NotSimulated { line: self.line(), element: self.name().to_owned(), what }
    }
}

/// Returns a name as one line: it is printed, and written into lines of files.
pub(crate) fn one_line(text: &str) -> String {
    let parts = text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty());
    if text.contains(char::is_control) {
        parts.collect::<Vec<_>>().join(" ")
    } else {
        text.to_owned()
    }
}

/// Parses a number in the notation of ESI files: `4096`, `-1`, `#x1000`; some files have `0x1000`,
/// and some both prefixes.
pub(crate) fn number(text: &str) -> Option<i64> {
    const PREFIXES: [&str; 4] = ["#x", "#X", "0x", "0X"];
    let stripped = |text| PREFIXES.iter().find_map(|prefix| str::strip_prefix(text, *prefix));
    match stripped(text).map(|digits| stripped(digits).unwrap_or(digits)) {
        Some(digits) if digits.starts_with(['+', '-']) => None,
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_several_lines_is_one() {
        assert_eq!(one_line("Servo\r\n      drive \u{9b}2J"), "Servo drive 2J");
        assert_eq!(one_line("two  blanks"), "two  blanks");
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        let numbers = [
            ("#x1000", Some(4096)),
            ("4096", Some(4096)),
            ("0xfF", Some(255)),
            ("-1", Some(-1)),
            ("#x0x6041", Some(0x6041)),
        ];
        for (text, value) in
            numbers.into_iter().chain([("#x", None), ("", None), ("#x-1", None), ("1000h", None)])
        {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
