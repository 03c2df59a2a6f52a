//! A command line of QEMU: the words in front of it, its options, and their keys.

use std::ops::Range;

use super::shell_words::{self, ShellWord};

/// Options that take no argument.
const WITHOUT_ARGUMENT: [&str; 20] = [
    "nographic",
    "no-reboot",
    "no-shutdown",
    "mem-prealloc",
    "no-hpet",
    "no-acpi",
    "enable-kvm",
    "nodefaults",
    "no-user-config",
    "daemonize",
    "snapshot",
    "S",
    "s",
    "usb",
    "full-screen",
    "only-migratable",
    "preconfig",
    "no-quit",
    "no-fd-bootchk",
    "help",
];

#[derive(Clone, Debug)]
pub(super) struct QemuOption {
    /// Without dashes.
    pub(super) name: String,
    /// Its argument, if it has one.
    pub(super) argument: Option<ShellWord>,
    /// The option and its argument in the text.
    pub(super) bytes: Range<usize>,
}

impl QemuOption {
    /// The argument's text; empty without one.
    pub(super) fn value(&self) -> &str {
        self.argument.as_ref().map_or("", |word| word.text.as_str())
    }

    /// Whether the argument is an object of JSON, as libvirt writes devices and objects.
    pub(super) fn is_json(&self) -> bool {
        self.value().starts_with('{')
    }

    /// The first piece of the argument, where it has no key: the type of a device.
    pub(super) fn head(&self) -> &str {
        if self.is_json() {
            let names = ["qom-type", "driver", "type"];
            let found = names.iter().find_map(|name| json_value(self.value(), name));
            return found.unwrap_or("");
        }
        keys(self.value()).first().map_or("", |(key, value)| if value.is_none() { key } else { "" })
    }

    /// The value of a key; empty for a key alone.
    pub(super) fn key(&self, name: &str) -> Option<&str> {
        if self.is_json() {
            return json_value(self.value(), name);
        }
        let found = keys(self.value()).into_iter().rfind(|(key, _)| *key == name)?;
        Some(found.1.unwrap_or(""))
    }
}

/// The value of a key in an object of JSON, as other arguments have it: `on` for true.
fn json_value<'o>(object: &'o str, key: &str) -> Option<&'o str> {
    let (_, rest) = object.split_once(&format!("\"{key}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let text = match rest.strip_prefix('"') {
        Some(text) => text.split('"').next()?,
        None => rest.split([',', '}']).next()?.trim(),
    };
    Some(match text {
        "true" => "on",
        "false" => "off",
        text => text,
    })
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
}

impl QemuCommand {
    /// A command from its words; the program is the word at `program`.
    pub(super) fn new(words: &[ShellWord], program: Option<usize>) -> Self {
        let before = words[..program.unwrap_or(0)].to_vec();
        let arguments = &words[program.map_or(0, |at| at + 1)..];
        let mut options = Vec::new();
        let mut rest = arguments.iter().peekable();
        while let Some(word) = rest.next() {
            let Some(name) = word.text.strip_prefix('-') else { continue };
            let name = name.trim_start_matches('-').to_owned();
            let takes = !WITHOUT_ARGUMENT.contains(&name.as_str());
            let argument = rest
                .next_if(|next| takes && (!next.text.starts_with('-') || next.text.len() == 1))
                .cloned();
            let end = argument.as_ref().map_or(word.bytes.end, |argument| argument.bytes.end);
            options.push(QemuOption { name, argument, bytes: word.bytes.start..end });
        }

        Self { before, program: program.map(|at| words[at].clone()), options }
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

    /// The byte at which the command begins.
    pub(super) fn start(&self) -> usize {
        let words = self.before.iter().chain(&self.program);
        let first = words
            .map(|word| word.bytes.start)
            .chain(self.options.iter().map(|option| option.bytes.start));
        first.min().unwrap_or(0)
    }
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

/// Returns the first command of a script that starts QEMU; `None` also for a script that cannot be
/// split.
pub(super) fn find(script: &str) -> Option<QemuCommand> {
    let commands = shell_words::commands(script).ok()?;
    commands.iter().find_map(|words| {
        let program = words.iter().position(|word| is_qemu(&word.text))?;
        // A path in a test or a copy is not a start: options follow a start.
        let has_options = words[program + 1..].iter().any(|word| word.text.starts_with('-'));
        has_options.then(|| QemuCommand::new(words, Some(program)))
    })
}

/// A size as QEMU reads it, in MiB: `2048`, `2G`, `4096M`.
pub(super) fn mebibytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "M" | "MB" | "MIB" => Some(number),
        "G" | "GB" | "GIB" => number.checked_mul(1024),
        "T" => number.checked_mul(1024 * 1024),
        "K" => Some(number / 1024),
        _ => None,
    }
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

    #[test]
    fn sizes_are_in_mebibytes_without_a_unit() {
        assert_eq!(
            [mebibytes("2048"), mebibytes("4G"), mebibytes("x")],
            [Some(2048), Some(4096), None]
        );
    }
}
