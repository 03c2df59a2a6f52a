//! The options of QEMU that a script would start, with the script's own variables filled in.
//!
//! ```text
//! DIR=/srv/guests                     NAME=VALUE           a variable
//! MEM=${MEM:-2048}                    its default          no environment is read
//! exec qemu-system-x86_64 -m $MEM \
//!   -drive file=$DIR/a.img,if=virtio  → -m 2048, -drive file=/srv/guests/a.img,if=virtio
//!   "$@"                              → left out: the script's own arguments
//! ```
//!
//! What only a shell could tell, such as `$(nproc)`, is an error with its place: a line that was
//! guessed would be another guest. Absent on purpose: running the script.

use std::collections::BTreeMap;

use super::correction::line_and_column;
use super::qemu_command::QemuCommand;
pub use super::qemu_command::mebibytes;
use super::shell_words::{self, ShellWord};
use super::{LintError, qemu_command};

/// An option of QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuLineOption {
    /// Without dashes.
    pub name: String,
    /// Its argument, if it has one.
    pub argument: Option<String>,
}

/// Why a script's command is not known from its text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QemuLineError {
    /// The script cannot be split into words.
    #[error(transparent)]
    Script(#[from] LintError),
    /// No command starts QEMU.
    #[error("no command in it starts QEMU")]
    NoQemu,
    /// QEMU for another processor.
    #[error("it starts {program}; guests of x86-64 are run (qemu-system-x86_64, qemu-kvm, kvm)")]
    OtherProcessor {
        /// Its name.
        program: String,
    },
    /// A word that a shell would replace.
    #[error(
        "line {line}: only a shell knows what {text} is; write its value into the script, or set the variable there"
    )]
    NotInTheText {
        /// Line of the script, from 1.
        line: usize,
        /// The expansion.
        text: String,
    },
}

/// Returns the options of the first command of `script` that starts QEMU.
///
/// # Errors
/// [`QemuLineError`].
pub fn qemu_line(script: &str) -> Result<Vec<QemuLineOption>, QemuLineError> {
    let commands = shell_words::commands(script)?;
    let found = qemu_command::find(script).ok_or(QemuLineError::NoQemu)?;
    let begins = found.start();
    let mut variables = BTreeMap::new();
    for command in commands.iter().filter(|command| command[0].bytes.start < begins) {
        assign(&mut variables, command, script)?;
    }

    if let Some(word) = found.unset.first() {
        let (line, _) = line_and_column(script, word.bytes.start);
        return Err(QemuLineError::NotInTheText { line, text: word.text.clone() });
    }
    let QemuCommand { program, options, .. } = found;
    if let Some(program) = program {
        let name = expanded(&program, &variables, script)?.unwrap_or_default();
        if name.contains("qemu-system") && !name.ends_with("x86_64") {
            return Err(QemuLineError::OtherProcessor { program: name });
        }
    }
    let filled_in = |option: qemu_command::QemuOption| {
        let argument = match &option.argument {
            None => None,
            Some(word) => expanded(word, &variables, script)?,
        };
        Ok(QemuLineOption { name: option.name, argument })
    };
    options.into_iter().map(filled_in).collect()
}

/// Takes `NAME=VALUE`, also behind `export`, `readonly` and `local`.
fn assign(
    variables: &mut BTreeMap<String, String>,
    command: &[ShellWord],
    script: &str,
) -> Result<(), QemuLineError> {
    for word in command {
        if ["export", "readonly", "local", "then", "else", "do"].contains(&word.text.as_str()) {
            continue;
        }
        let Some((name, _)) = word.text.split_once('=') else { return Ok(()) };
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(());
        }
        // What is not known is an error only where the command needs it.
        match expanded(word, variables, script) {
            Ok(Some(text)) => {
                let value = text[name.len() + 1..].to_owned();
                variables.insert(name.to_owned(), value);
            }
            Ok(None) | Err(_) => drop(variables.remove(name)),
        }
    }
    Ok(())
}

/// The word with its variables filled in; `None` for the script's own arguments.
fn expanded(
    word: &ShellWord,
    variables: &BTreeMap<String, String>,
    script: &str,
) -> Result<Option<String>, QemuLineError> {
    if ["$@", "$*", "${@}"].contains(&word.text.as_str()) {
        return Ok(None);
    }
    // Single quotes keep a dollar sign as it is.
    if !word.text.contains('$') || script[word.bytes.clone()].contains('\'') {
        return Ok(Some(word.text.clone()));
    }

    let mut text = String::new();
    let mut rest = word.text.as_str();
    while let Some((before, behind)) = rest.split_once('$') {
        text += before;
        let unknown = |piece: &str| {
            let (line, _) = line_and_column(script, word.bytes.start);
            QemuLineError::NotInTheText { line, text: format!("${piece}") }
        };
        let (piece, after) = piece_of(behind);
        let inner = piece.strip_prefix('{').and_then(|piece| piece.strip_suffix('}'));
        let (name, default) = match inner.unwrap_or(piece).split_once('-') {
            Some((name, default)) if inner.is_some() => (name.trim_end_matches(':'), Some(default)),
            _ => (inner.unwrap_or(piece), None),
        };
        let known = variables.get(name).map(String::as_str).or(default);
        text += known.ok_or_else(|| unknown(piece))?;
        rest = after;
    }
    Ok(Some(text + rest))
}

/// Splits what follows a dollar sign into the expansion and the rest.
fn piece_of(behind: &str) -> (&str, &str) {
    let end = match behind.chars().next() {
        Some('{') => behind.find('}').map_or(behind.len(), |at| at + 1),
        Some('(') => behind.rfind(')').map_or(behind.len(), |at| at + 1),
        Some(c) if c.is_ascii_alphabetic() || c == '_' => {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            behind.find(|c| !is_of_name(c)).unwrap_or(behind.len())
        }
        Some(c) => c.len_utf8(),
        None => 0,
    };
    behind.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(script: &str) -> Result<String, QemuLineError> {
        let words = |option: QemuLineOption| match option.argument {
            None => format!("-{}", option.name),
            Some(argument) => format!("-{} {argument}", option.name),
        };
        Ok(qemu_line(script)?.into_iter().map(words).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_scripts_own_variables_and_defaults_are_filled_in() {
        let script = "#!/bin/sh\nset -e\nDIR=/srv/guests\nexport MEM=\"${MEM:-2048}\"\nIMG=$DIR/a.img\n\
             exec taskset -c 2 qemu-system-x86_64 -m $MEM -smp \"${CPUS-2}\" \\\n -drive \"file=${IMG},if=virtio\" -nographic \"$@\"\n";
        let expected = "-m 2048 -smp 2 -drive file=/srv/guests/a.img,if=virtio -nographic";
        assert_eq!(line(script).unwrap(), expected);
    }

    #[test]
    fn what_only_a_shell_knows_is_an_error_with_its_line() {
        let refused = |script: &str| line(script).unwrap_err().to_string();
        let nproc = refused("CPUS=$(nproc)\nkvm -smp $CPUS\n");
        assert!(nproc.starts_with("line 2: only a shell knows what $CPUS is"), "{nproc}");
        assert!(refused("kvm -smp $(nproc)").contains("$(nproc)"));
        assert!(refused("kvm -m $1").contains("$1"));
        assert!(refused("kvm -m 1G $MORE").contains("what $MORE is"));
        // A variable that the command does not need may be anything.
        assert_eq!(line("X=$(date)\nkvm -m 1G").unwrap(), "-m 1G");
    }

    #[test]
    fn options_in_arrays_are_of_the_guest() {
        let script = "A=(-m 2G\n  -smp 2)\nO='-nographic'\nkvm \"${A[@]}\" $O -cpu host\n";
        assert_eq!(line(script).unwrap(), "-m 2G -smp 2 -nographic -cpu host");
    }

    #[test]
    fn a_dollar_sign_in_single_quotes_stays() {
        assert_eq!(line("kvm -append 'a=$b'").unwrap(), "-append a=$b");
    }

    #[test]
    fn other_processors_and_other_scripts_are_refused() {
        let other = line("qemu-system-aarch64 -m 1G").unwrap_err();
        assert!(matches!(other, QemuLineError::OtherProcessor { .. }));
        assert_eq!(line("echo kvm\n"), Err(QemuLineError::NoQemu));
    }
}
