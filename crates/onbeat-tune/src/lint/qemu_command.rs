//! A command line of QEMU: the words in front of it, its options, and their keys.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use super::LintError;
use super::settings;
use super::shell_words::{self, ShellCommand, ShellWord};

#[derive(Clone, Debug)]
pub(super) struct QemuOption {
    /// Without dashes.
    pub(super) name: String,
    /// Its argument, if it has one.
    pub(super) argument: Option<ShellWord>,
    /// The option and its argument in the text.
    pub(super) bytes: Range<usize>,
    /// The keys of an argument that is an object of JSON, as libvirt writes devices and objects.
    json: Option<BTreeMap<String, String>>,
}

impl QemuOption {
    /// The argument's text; empty without one.
    pub(super) fn value(&self) -> &str {
        self.argument.as_ref().map_or("", |word| word.text.as_str())
    }

    /// Whether the argument is an object of JSON.
    pub(super) const fn is_json(&self) -> bool {
        self.json.is_some()
    }

    /// The first piece of the argument, where it has no key: the type of a device.
    pub(super) fn head(&self) -> &str {
        if let Some(keys) = &self.json {
            let names = ["qom-type", "driver", "type"];
            return names.iter().find_map(|name| keys.get(*name)).map_or("", String::as_str);
        }
        keys(self.value()).first().map_or("", |(key, value)| if value.is_none() { key } else { "" })
    }

    /// The value of a key; empty for a key alone. Other words of QEMU for `on` and `off` are these.
    pub(super) fn key(&self, name: &str) -> Option<&str> {
        if let Some(keys) = &self.json {
            return keys.get(name).map(String::as_str);
        }
        let found = keys(self.value()).into_iter().rfind(|(key, _)| *key == name)?;
        Some(match found.1.unwrap_or("") {
            "yes" | "true" => "on",
            "no" | "false" => "off",
            value => value,
        })
    }
}

/// The keys of an object of JSON with their values as other arguments have them: `on` for true, and
/// `cache.direct` for a key of an object in it. None are known of one that a shell completes.
fn json_keys(argument: &str) -> Option<BTreeMap<String, String>> {
    let object: Map<String, Value> =
        argument.starts_with('{').then(|| serde_json::from_str(argument).unwrap_or_default())?;
    let mut keys = BTreeMap::new();
    insert_keys(&mut keys, "", &object);
    Some(keys)
}

fn insert_keys(keys: &mut BTreeMap<String, String>, before: &str, object: &Map<String, Value>) {
    for (name, value) in object {
        let name = format!("{before}{name}");
        let text = match value {
            Value::Object(inner) => {
                insert_keys(keys, &format!("{name}."), inner);
                continue;
            }
            Value::Bool(true) => "on".to_owned(),
            Value::Bool(false) => "off".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        keys.insert(name, text);
    }
}

/// The pieces of an argument: `host,pmu=off`.
fn keys(argument: &str) -> Vec<(&str, Option<&str>)> {
    let pieces = argument.split(',').filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| piece.split_once('=').map_or((piece, None), |(key, value)| (key, Some(value))))
        .collect()
}

/// A command that starts QEMU.
#[derive(Clone, Debug)]
pub(super) struct QemuCommand {
    /// The words in front of QEMU's name: `exec taskset -c 4 chrt -f 99`.
    pub(super) before: Vec<ShellWord>,
    /// QEMU's name; `None` for arguments alone.
    pub(super) program: Option<ShellWord>,
    /// The options in their order.
    pub(super) options: Vec<QemuOption>,
    /// Variables in place of options, which the text does not set: what is in them is not known.
    pub(super) unset: Vec<ShellWord>,
}

impl QemuCommand {
    /// A command from its words; the program is the word at `program`.
    pub(super) fn new(words: &[ShellWord], program: Option<usize>) -> Self {
        let before = words[..program.unwrap_or(0)].to_vec();
        let arguments = &words[program.map_or(0, |at| at + 1)..];
        let mut options = Vec::new();
        let mut unset = Vec::new();
        let mut rest = arguments.iter().peekable();
        while let Some(word) = rest.next() {
            let Some(name) = word.text.strip_prefix('-') else {
                unset.extend(Some(word).filter(|word| is_variable(&word.text)).cloned());
                continue;
            };
            let name = name.trim_start_matches('-').to_owned();
            let takes = !settings::is_flag("qemu", &name);
            // What an array holds may lie in front of the option.
            let is_argument = |next: &&ShellWord| {
                (!next.text.starts_with('-') || next.text.len() == 1)
                    && next.bytes.start >= word.bytes.end
            };
            let argument = rest.next_if(|next| takes && is_argument(next)).cloned();
            let end = argument.as_ref().map_or(word.bytes.end, |argument| argument.bytes.end);
            let json = argument.as_ref().and_then(|word| json_keys(&word.text));
            options.push(QemuOption { name, argument, bytes: word.bytes.start..end, json });
        }

        Self { before, program: program.map(|at| words[at].clone()), options, unset }
    }

    /// The options of one of these names.
    pub(super) fn all<'c>(
        &'c self,
        names: &'c [&str],
    ) -> impl DoubleEndedIterator<Item = &'c QemuOption> {
        self.options.iter().filter(move |option| names.contains(&option.name.as_str()))
    }

    /// The last option of one of these names.
    pub(super) fn last(&self, names: &[&str]) -> Option<&QemuOption> {
        self.options.iter().rfind(|option| names.contains(&option.name.as_str()))
    }

    /// The value of a key in any option of these names; of several the last one.
    pub(super) fn key(&self, names: &[&str], key: &str) -> Option<&str> {
        self.options
            .iter()
            .rev()
            .filter(|option| names.contains(&option.name.as_str()))
            .find_map(|o| o.key(key))
    }

    /// The processor that QEMU's name states: `aarch64` of `qemu-system-aarch64`. Without one it is
    /// that of most hosts.
    pub(super) fn architecture(&self) -> &str {
        let program = self.program.as_ref().map_or("", |word| word.text.as_str());
        program.split_once("qemu-system-").map_or("x86_64", |(_, name)| name)
    }

    pub(super) fn is_x86(&self) -> bool {
        ["x86_64", "i386"].iter().any(|name| self.architecture().starts_with(name))
    }

    /// The byte behind the last option, or behind the program.
    pub(super) fn end(&self) -> usize {
        let program = self.program.as_ref().map_or(0, |word| word.bytes.end);
        self.options.last().map_or(program, |option| option.bytes.end)
    }

    /// The byte at which the command begins; options of an array may lie in front of it.
    pub(super) fn start(&self) -> usize {
        let words = self.before.iter().chain(&self.program);
        let mut places = words
            .map(|word| word.bytes.start)
            .chain(self.options.iter().map(|option| option.bytes.start));
        places.next().unwrap_or(0)
    }
}

/// Whether a word is a variable, and not one of the script's own arguments.
fn is_variable(word: &str) -> bool {
    let name = word.strip_prefix('$').map(|name| name.trim_start_matches('{'));
    name.is_some_and(|name| !name.starts_with(|c: char| c.is_ascii_digit() || "@*#?!".contains(c)))
}

/// Whether a word names QEMU: `qemu-system-x86_64`, `/usr/libexec/qemu-kvm`, `kvm`, `$QEMU`.
fn is_qemu(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word).trim_matches(['$', '{', '}', '"']);
    let name = name.to_ascii_lowercase();
    name == "kvm"
        || name == "qemu"
        || name == "qemu-kvm"
        || name.contains("qemu-system")
        || name == "qemu_bin"
}

/// Whether a word is an option of QEMU whose argument may be what QEMU is called: `-accel kvm`.
fn is_named(word: &ShellWord) -> bool {
    matches!(word.text.as_str(), "-accel" | "--accel" | "-name" | "--name")
}

/// Returns the first command of a script that starts QEMU, with the options that the script keeps in
/// arrays and variables; `None` also for a script that cannot be split.
pub(super) fn find(script: &str) -> Option<QemuCommand> {
    let commands = shell_words::commands(script).ok()?;
    commands.iter().enumerate().find_map(|(at, words)| {
        let program = (0..words.len()).find(|place| {
            let after_option = place.checked_sub(1).is_some_and(|before| is_named(&words[before]));
            is_qemu(&words[*place].text) && !after_option
        })?;
        let before = &commands[..at];
        let mut all = words[..=program].to_vec();
        all.extend(shell_words::spliced(&words[program + 1..], before));
        // A whole command in an array may be added to.
        let array = words[0].text.strip_suffix('=').unwrap_or_default();
        let added = format!("{array}+=");
        let is_added = |more: &&ShellCommand| !array.is_empty() && more[0].text == added;
        let later = commands[at + 1..].iter().filter(is_added);
        all.extend(later.flat_map(|more| more[1..].to_vec()));

        // A path in a test or a copy is not a start: options follow a start.
        let has_options = all[program + 1..].iter().any(|word| word.text.starts_with('-'));
        let mut command = has_options.then(|| QemuCommand::new(&all, Some(program)))?;
        command.unset.retain(|word| shell_words::assigned(word, before).is_none());
        Some(command)
    })
}

/// Returns the command of arguments alone, perhaps with the program in front.
pub(super) fn of_arguments(text: &str) -> Result<QemuCommand, LintError> {
    let words = shell_words::arguments(text)?;
    let starts_with_program = words.first().is_some_and(|word| !word.text.starts_with('-'));
    Ok(QemuCommand::new(&words, starts_with_program.then_some(0)))
}

/// A size as `-m` of QEMU reads it, in MiB: `2048`, `2G`, `4096M`; `None` for anything else.
#[must_use]
pub fn mebibytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = is_number.then(|| digits.parse().ok())??;
    let mib = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "B" => number / f64::from(1 << 20),
        "K" => number / 1024.0,
        "" | "M" | "MB" | "MIB" => number,
        "G" | "GB" | "GIB" => number * 1024.0,
        "T" => number * f64::from(1 << 20),
        _ => return None,
    };
    Some(mib as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_found_with_its_prefix_options_and_keys() {
        let script = "[ -f /opt/qemu ] || exit\nexec taskset -c 4 qemu-system-x86_64 -M pc,accel=kvm -nographic -m 2G";
        let command = find(script).unwrap();
        let before: Vec<_> = command.before.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(before, ["exec", "taskset", "-c", "4"]);
        assert_eq!(command.key(&["M", "machine"], "accel"), Some("kvm"));
        assert_eq!(command.last(&["M"]).unwrap().head(), "pc");
        assert_eq!(command.last(&["m"]).unwrap().value(), "2G");
        assert_eq!(&script[command.last(&["nographic"]).unwrap().bytes.clone()], "-nographic");
    }

    /// The usual ways in which a script collects options.
    #[test]
    fn options_in_arrays_and_variables_of_the_script_are_found() {
        let script = "A=(\n  -m 4G # memory\n  -cpu host\n)\nA+=(-smp 2)\nN=\"-netdev user,id=n\"\nN=\"$N -device e1000\"\n\
                      qemu-system-x86_64 \"${A[@]}\" $N -drive file=$D/a $X \"$@\"\n";
        let command = find(script).unwrap();
        let options: Vec<_> =
            command.options.iter().map(|o| format!("{} {}", o.name, o.value())).collect();
        let expected =
            ["m 4G", "cpu host", "smp 2", "netdev user,id=n", "device e1000", "drive file=$D/a"];
        assert_eq!(options, expected);
        assert_eq!(&script[command.last(&["device"]).unwrap().bytes.clone()], "-device e1000");
        let unset: Vec<_> = command.unset.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(unset, ["$X"]);

        let whole = find("C=(qemu-system-x86_64 -m 1G)\nC+=(-smp 2)\n\"${C[@]}\"\n").unwrap();
        assert_eq!(whole.last(&["smp"]).unwrap().value(), "2");
    }

    #[test]
    fn keys_of_json_are_read_with_their_quotes_and_objects() {
        let command = find(
            r#"kvm -blockdev '{"filename":"/a \"driver\": x","driver":"file","cache":{"direct":true},"size":8}'"#,
        );
        let command = command.unwrap();
        let option = command.last(&["blockdev"]).unwrap();
        assert_eq!(option.head(), "file");
        let keys = ["cache.direct", "size", "filename", "x"].map(|name| option.key(name));
        assert_eq!(keys, [Some("on"), Some("8"), Some("/a \"driver\": x"), None]);
        let command =
            find("kvm -object memory-backend-file,id=m,prealloc=yes,share=false").unwrap();
        let option = command.last(&["object"]).unwrap();
        assert_eq!(["prealloc", "share"].map(|name| option.key(name)), [Some("on"), Some("off")]);
    }

    #[test]
    fn sizes_are_in_mebibytes_without_a_unit() {
        assert_eq!(
            ["2048", "4G", "1.5G", "1024K", "x", "-1G", "1.2.3"].map(mebibytes),
            [Some(2048), Some(4096), Some(1536), Some(1), None, None, None]
        );
    }
}
