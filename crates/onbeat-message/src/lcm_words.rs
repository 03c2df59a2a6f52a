//! The words of a file in LCM's language.

/// A word or a sign, with its line from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LcmWord<'t> {
    pub(super) text: &'t str,
    pub(super) line: usize,
}

/// Splits a text into words and signs, without its comments.
pub(super) fn words(text: &str) -> Vec<LcmWord<'_>> {
    let mut words = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let is_part = |letter: char| letter.is_alphanumeric() || "_.+-".contains(letter);
            let word = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            let length = word.max(first.len_utf8());
            words.push(LcmWord { text: &rest[..length], line });
            length
        };

        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_words_and_lines_are_counted() {
        let found = words("a.b /* x\n y */ c[3]; // d\n-1e3 /*");
        let shown: Vec<_> = found.iter().map(|word| (word.text, word.line)).collect();
        assert_eq!(
            shown,
            [("a.b", 1), ("c", 2), ("[", 2), ("3", 2), ("]", 2), (";", 2), ("-1e3", 3)]
        );
    }
}
