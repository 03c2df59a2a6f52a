//! Words of a shell script, each with its place in the text.
//!
//! Reads what scripts that start QEMU or a container consist of: quotes, backslashes, comments, lines
//! that continue. Expansions (`$NAME`, `$(...)`) stay as they are written, but for options that the
//! script itself keeps in arrays and variables ([`spliced`]). Absent on purpose: everything else that a
//! shell does with words.

use std::ops::Range;

use super::LintError;
use super::correction::line_and_column;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    /// Without quotes and backslashes.
    pub(super) text: String,
    /// For each byte of `text`, and for its end, the byte of the script.
    pub(super) offsets: Vec<usize>,
    /// The whole word in the script, with its quotes.
    pub(super) bytes: Range<usize>,
}

impl ShellWord {
    fn push(&mut self, at: usize, c: char) {
        self.text.push(c);
        self.offsets.extend((0..c.len_utf8()).map(|byte| at + byte));
    }
}

/// A simple command: its words up to the end of the line, `;`, `&` or `|`. `NAME=(a b)` is one as
/// well, on any number of lines: `NAME=` and the words between its brackets.
pub(super) type ShellCommand = Vec<ShellWord>;

/// Splits a script into commands.
///
/// # Errors
/// [`LintError::OpenQuote`].
pub(super) fn commands(script: &str) -> Result<Vec<ShellCommand>, LintError> {
    let mut reader = WordReader { script, chars: script.char_indices().peekable(), word: None };
    let mut commands = Vec::new();
    let mut command = ShellCommand::new();
    let mut is_array = false;
    while let Some((at, c)) = reader.chars.next() {
        match c {
            ' ' | '\t' | '\r' => reader.end_word(at, &mut command),
            '\n' if is_array => reader.end_word(at, &mut command),
            '(' if reader.is_assignment() => {
                reader.end_word(at, &mut command);
                is_array = true;
            }
            '\n' | ';' | '&' | '|' | '(' | ')' => {
                reader.end_word(at, &mut command);
                commands.push(std::mem::take(&mut command));
                is_array = false;
            }
            '#' if reader.word.is_none() => reader.skip_comment(),
            _ => reader.read(at, c)?,
        }
    }

    reader.end_word(script.len(), &mut command);
    commands.push(command);
    commands.retain(|command| !command.is_empty());
    Ok(commands)
}

/// Splits arguments without a shell around them: at NUL where there is one, else as a shell would,
/// on any number of lines.
///
/// # Errors
/// [`LintError::OpenQuote`].
pub(super) fn arguments(text: &str) -> Result<ShellCommand, LintError> {
    if !text.contains('\0') {
        let mut all = ShellCommand::new();
        // A comma or a brace in an argument is not special, and a line's end only separates.
        for command in commands(text)? {
            all.extend(command);
        }
        return Ok(all);
    }

    let mut at = 0;
    let mut words = ShellCommand::new();
    for piece in text.split('\0') {
        let bytes = at..at + piece.len();
        at = bytes.end + 1;
        if !piece.is_empty() {
            words.push(ShellWord {
                text: piece.to_owned(),
                offsets: (bytes.start..=bytes.end).collect(),
                bytes,
            });
        }
    }

    Ok(words)
}

/// The name in `$NAME`, `${NAME}` and `${NAME[@]}`.
fn variable_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('$')?;
    let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    Some(inner.strip_suffix("[@]").or_else(|| inner.strip_suffix("[*]")).unwrap_or(inner))
}

/// The words that the commands in front of a variable put into it; `None` where none does.
pub(super) fn assigned(variable: &ShellWord, before: &[ShellCommand]) -> Option<Vec<ShellWord>> {
    let name = variable_name(&variable.text)?;
    let mut assigned: Option<Vec<ShellWord>> = None;
    for command in before {
        for (at, word) in command.iter().enumerate() {
            let Some(rest) = word.text.strip_prefix(name) else { continue };
            let Some(value) = rest.strip_prefix('+').unwrap_or(rest).strip_prefix('=') else {
                continue;
            };
            let earlier = assigned.take().unwrap_or_default();
            let mut words = if rest.starts_with('+') { earlier.clone() } else { Vec::new() };
            let pieces = match command.get(at + 1..).filter(|_| value.is_empty()) {
                Some(elements) => elements.to_vec(),
                None => pieces(word, word.text.len() - value.len()),
            };
            for piece in pieces {
                match variable_name(&piece.text) == Some(name) {
                    true => words.extend(earlier.iter().cloned()),
                    false => words.push(piece),
                }
            }
            assigned = Some(words);
            break;
        }
    }
    assigned
}

/// Words with the options that the commands in front of them keep in arrays and variables.
pub(super) fn spliced(words: &[ShellWord], before: &[ShellCommand]) -> Vec<ShellWord> {
    let is_option = |word: &ShellWord| word.text.starts_with('-');
    let options = |word: &ShellWord| {
        assigned(word, before).filter(|options| options.first().is_some_and(is_option))
    };
    words.iter().flat_map(|word| options(word).unwrap_or_else(|| vec![word.clone()])).collect()
}

/// The value of a variable that a script sets once in front of a word, with its place.
pub(super) fn value_of(script: &str, word: &ShellWord) -> Option<ShellWord> {
    let start = format!("{}=", variable_name(&word.text)?);
    let commands = commands(script).ok()?;
    let before = commands.iter().flatten().filter(|other| other.bytes.start < word.bytes.start);
    let mut assignments = before.filter(|other| other.text.starts_with(&start));
    let (assignment, None) = (assignments.next()?, assignments.next()) else { return None };
    let offsets = assignment.offsets[start.len()..].to_vec();
    let text = assignment.text[start.len()..].to_owned();
    Some(ShellWord { bytes: *offsets.first()?..*offsets.last()?, text, offsets })
}

/// The words of a value that begins at a byte of its assignment.
fn pieces(assignment: &ShellWord, from: usize) -> Vec<ShellWord> {
    let mut words = Vec::new();
    let mut at = from;
    for piece in assignment.text[from..].split(|c: char| c.is_ascii_whitespace()) {
        let offsets = assignment.offsets[at..=at + piece.len()].to_vec();
        at += piece.len() + 1;
        if let (false, Some(start)) = (piece.is_empty(), offsets.first()) {
            let end = offsets[piece.len() - 1] + 1;
            words.push(ShellWord { text: piece.to_owned(), bytes: *start..end, offsets });
        }
    }
    words
}

struct WordReader<'s> {
    script: &'s str,
    chars: std::iter::Peekable<std::str::CharIndices<'s>>,
    word: Option<ShellWord>,
}

impl WordReader<'_> {
    fn begin_word(&mut self, at: usize) -> &mut ShellWord {
        self.word.get_or_insert_with(|| ShellWord { bytes: at..at, ..ShellWord::default() })
    }

    fn end_word(&mut self, at: usize, command: &mut ShellCommand) {
        if let Some(mut word) = self.word.take() {
            word.bytes.end = at;
            // What is inserted at the end of a quoted text goes in front of the quote.
            let is_quoted = self.script[..at].ends_with(['"', '\'']) && at > word.bytes.start + 1;
            word.offsets.push(if is_quoted { at - 1 } else { at });
            command.push(word);
        }
    }

    /// Whether the word so far is `NAME=`.
    fn is_assignment(&self) -> bool {
        self.word.as_ref().is_some_and(|word| word.text.ends_with('='))
    }

    fn skip_comment(&mut self) {
        while self.chars.next_if(|(_, c)| *c != '\n').is_some() {}
    }

    /// Takes the end of a line behind the carriage return of a file from Windows.
    fn takes_newline(&mut self) -> bool {
        self.chars.next_if(|(_, c)| *c == '\n').is_some()
    }

    fn read(&mut self, at: usize, c: char) -> Result<(), LintError> {
        match c {
            '\\' => match self.chars.next() {
                // A line that continues.
                Some((_, '\n')) | None => {}
                Some((_, '\r')) if self.takes_newline() => {}
                Some((escaped_at, escaped)) => self.begin_word(at).push(escaped_at, escaped),
            },
            '\'' | '"' => {
                self.begin_word(at);
                self.read_quoted(at, c)?;
            }
            '$' if self.chars.peek().is_some_and(|(_, next)| *next == '(') => {
                self.read_substitution(at);
            }
            _ => self.begin_word(at).push(at, c),
        }

        Ok(())
    }

    /// `$(...)` is one piece of a word.
    fn read_substitution(&mut self, at: usize) {
        self.begin_word(at).push(at, '$');
        let mut depth = 0;
        while let Some((at, c)) = self.chars.next() {
            self.begin_word(at).push(at, c);
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => return,
                ')' => depth -= 1,
                _ => {}
            }
        }
    }

    fn read_quoted(&mut self, opened: usize, quote: char) -> Result<(), LintError> {
        let (line, column) = line_and_column(self.script, opened);
        let open = LintError::OpenQuote { line, column, quote };
        loop {
            let Some((at, c)) = self.chars.next() else { return Err(open) };
            match c {
                _ if c == quote => return Ok(()),
                '\\' if quote == '"' => match self.chars.next() {
                    Some((_, '\n')) => {}
                    Some((_, '\r')) if self.takes_newline() => {}
                    Some((escaped_at, escaped)) => self.begin_word(at).push(escaped_at, escaped),
                    None => return Err(open),
                },
                _ => self.begin_word(at).push(at, c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<Vec<String>> {
        let commands = commands(script).unwrap();
        commands
            .into_iter()
            .map(|command| command.into_iter().map(|word| word.text).collect())
            .collect()
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        let script = "#!/bin/sh\nexec a -b \\\n  'c d' \"e $F\" g\\ h # rest\nif x; then y|z; fi\n";
        let expected: [&[&str]; 5] = [
            &["exec", "a", "-b", "c d", "e $F", "g h"],
            &["if", "x"],
            &["then", "y"],
            &["z"],
            &["fi"],
        ];
        assert_eq!(texts(script), expected);
        assert_eq!(
            texts("a -b \\\r\n  'c'\r\n\"d\\\r\ne\"\r\n"),
            [vec!["a", "-b", "c"], vec!["de"]]
        );
        assert_eq!(texts("a $(b $(c d); e)f g"), [["a", "$(b $(c d); e)f", "g"]]);
    }

    #[test]
    fn an_array_is_one_command_on_any_number_of_lines() {
        let script = "A=(\n  -m 4G # (size)\n  'b c'\n)\nlocal -a B+=(x)\nf() { y; }\n";
        let expected: [&[&str]; 5] =
            [&["A=", "-m", "4G", "b c"], &["local", "-a", "B+=", "x"], &["f"], &["{", "y"], &["}"]];
        assert_eq!(texts(script), expected);
    }

    #[test]
    fn each_byte_of_a_word_has_its_place_in_the_script() {
        let script = "x -append \"a \\\n b\"";
        let command = &commands(script).unwrap()[0];
        let word = &command[2];
        assert_eq!(word.text, "a  b");
        assert_eq!(&script[word.offsets[3]..=word.offsets[3]], "b");
        assert_eq!(&script[word.offsets[4]..], "\"");
        assert_eq!(&script[word.bytes.clone()], "\"a \\\n b\"");
    }

    #[test]
    fn arguments_are_separated_by_nul_or_by_blanks_on_any_line() {
        let texts = |text: &str| {
            arguments(text).unwrap().into_iter().map(|word| word.text).collect::<Vec<_>>()
        };
        assert_eq!(texts("-m\x002G\x00-append\0a b\0"), ["-m", "2G", "-append", "a b"]);
        assert_eq!(texts("-m 2G\n-append 'a b'\n"), ["-m", "2G", "-append", "a b"]);
    }

    #[test]
    fn an_open_quote_is_an_error_with_its_place() {
        assert_eq!(
            commands("a\n b 'c"),
            Err(LintError::OpenQuote { line: 2, column: 4, quote: '\'' })
        );
    }
}
