//! The words of a file in LCM's language or in IDL, one after the other.

use super::error::MessageError;

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Lcm,
    /// With lines of the preprocessor, texts in quotation marks, and `::`.
    Idl,
}

/// A word or a sign, with its line from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word<'t> {
    text: &'t str,
    line: usize,
}

/// The words of a file, and the place of the next one.
pub(super) struct Words<'t> {
    all: Vec<Word<'t>>,
    pub(super) at: usize,
}

impl<'t> Words<'t> {
    /// Splits a text into words and signs, without its comments.
    pub(super) fn new(text: &'t str, language: Language) -> Self {
        let is_idl = language == Language::Idl;
        let (mut all, mut line, mut rest) = (Vec::new(), 1, text);
        while let Some(first) = rest.chars().next() {
            let (length, is_word) = if rest.starts_with("//") || is_idl && first == '#' {
                (rest.find('\n').unwrap_or(rest.len()), false)
            } else if rest.starts_with("/*") {
                (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
            } else if first.is_whitespace() {
                (first.len_utf8(), false)
            } else if is_idl && (first == '"' || first == '\'') {
                let mut is_escaped = false;
                let end = rest.char_indices().skip(1).find(|(_, letter)| {
                    let is_end = *letter == first && !is_escaped;
                    is_escaped = *letter == '\\' && !is_escaped;
                    is_end
                });
                (end.map_or(rest.len(), |(at, _)| at + 1), true)
            } else if is_idl && rest.starts_with("::") {
                (2, true)
            } else {
                // In IDL, a sign is an operator, but in an exponent.
                let is_decimal =
                    first == '.' || first.is_ascii_digit() && !rest[1..].starts_with(['x', 'X']);
                let mut before = ' ';
                let end = rest.find(|letter: char| {
                    let before = std::mem::replace(&mut before, letter);
                    let is_sign = !is_idl || is_decimal && "eE".contains(before);
                    let is_part = letter.is_alphanumeric() || "_.".contains(letter);
                    !(is_part || is_sign && "+-".contains(letter))
                });
                (end.unwrap_or(rest.len()).max(first.len_utf8()), true)
            };
            if is_word {
                all.push(Word { text: &rest[..length], line });
            }
            line += rest[..length].matches('\n').count();
            rest = &rest[length..];
        }
        Self { all, at: 0 }
    }

    pub(super) fn are_over(&self) -> bool {
        self.at >= self.all.len()
    }

    /// The next word; an empty text at the end.
    pub(super) fn peek(&self) -> &'t str {
        self.all.get(self.at).map_or("", |word| word.text)
    }

    /// Takes the next word.
    pub(super) fn next(&mut self) -> &'t str {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// All words from a place on.
    pub(super) fn since(&self, begin: usize) -> impl Iterator<Item = &'t str> + Clone {
        self.all.iter().skip(begin).map(|word| word.text)
    }

    /// The line of the word that was taken last.
    pub(super) fn line(&self) -> usize {
        let last = self.all.get(self.at.saturating_sub(1)).or(self.all.last());
        last.map_or(1, |word| word.line)
    }

    /// The error at that word.
    pub(super) fn failed(&self, file: &str, text: &str, why: &'static str) -> MessageError {
        let line = self.line();
        let shown = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        MessageError::Line { type_name: file.to_owned(), line, text: shown, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_words_and_lines_are_counted() {
        let found = Words::new("a.b /* x\n y */ c[3]; // d\n-1e3 /*", Language::Lcm).all;
        let shown: Vec<_> = found.iter().map(|word| (word.text, word.line)).collect();
        assert_eq!(
            shown,
            [("a.b", 1), ("c", 2), ("[", 2), ("3", 2), ("]", 2), (";", 2), ("-1e3", 3)]
        );
        let found = Words::new("-1e-3 0xE-1 N+2", Language::Idl).all;
        let shown: Vec<_> = found.iter().map(|word| word.text).collect();
        assert_eq!(shown, ["-", "1e-3", "0xE", "-", "1", "N", "+", "2"]);
    }
}
