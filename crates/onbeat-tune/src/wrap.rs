//! Breaks texts into lines, for people.

/// Breaks a text at blanks. A word that is longer than a line has one of its own.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_break_at_blanks_and_long_words_stay_whole() {
        assert_eq!(wrap("a bb ccc dddddddd e", 6), ["a bb", "ccc", "dddddddd", "e"]);
        assert!(wrap("", 6).is_empty());
    }
}
