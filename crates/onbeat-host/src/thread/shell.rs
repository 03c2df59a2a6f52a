//! Quoting of words for a shell.

/// Quotes a word for a POSIX shell: unchanged if it has plain characters only, otherwise in single
/// quotes.
///
/// ```
/// use onbeat_host::thread::shell_word;
/// assert_eq!(shell_word("--load=cpu=50%"), "--load=cpu=50%");
/// assert_eq!(shell_word("run:make -j4"), "'run:make -j4'");
/// ```
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@%=".contains(c);
    // Some shells expand a word that begins with `=` to the path of a program.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Joins a command's words to a shell command line.
///
/// ```
/// use onbeat_host::thread::shell_line;
///
/// let words = ["sudo", "my robot", "--for=10s"].map(str::to_owned);
/// assert_eq!(shell_line(&words), "sudo 'my robot' --for=10s");
/// ```
#[must_use]
pub fn shell_line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn read_back(line: &str) -> Vec<u8> {
        let output =
            Command::new("sh").args(["-c", &format!("printf '%s\\0' {line}")]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    #[test]
    fn a_shell_reads_back_the_words_that_were_typed() {
        let words = [
            "onbeat",
            "run:make -j4",
            "it's",
            "$HOME `id`; rm x & #",
            "",
            "=ls",
            "~",
            "a\nb",
            "*",
            "\"\\",
            "µ",
        ];
        let words = words.map(str::to_owned);
        let expected = words.iter().map(|word| format!("{word}\0")).collect::<String>();
        assert_eq!(read_back(&shell_line(&words)), expected.as_bytes());
    }

    #[test]
    fn plain_words_stay_plain() {
        let words = ["onbeat", "bench", "--loads", "idle,cpu=50%", "--at", "99.99", "/usr/bin/x"]
            .map(str::to_owned);
        assert_eq!(shell_line(&words), "onbeat bench --loads idle,cpu=50% --at 99.99 /usr/bin/x");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_word_is_read_back(word in "[^\u{0}]{0,20}") {
            prop_assert_eq!(read_back(&shell_word(&word)), format!("{word}\0").into_bytes());
        }
    }
}
