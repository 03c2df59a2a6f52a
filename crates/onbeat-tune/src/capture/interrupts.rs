//! Interrupts in a capture: how many came on each CPU, and handlers without names that people chose.

use std::collections::BTreeMap;

use crate::capture_archive::accesses::Accesses;

/// Counts of interrupts since boot; a plan chooses CPUs by them.
const COUNTS: &str = "/proc/interrupts";
const INTERFACES: &str = "/sys/class/net";
/// Prefixes of interface names that the kernel or systemd gives.
const USUAL_INTERFACES: [&str; 7] = ["lo", "eth", "en", "wl", "ww", "can", "ib"];

/// Interfaces whose names a person chose or that hold an address, and what a capture calls them.
/// Drivers name interrupts after interfaces: `i40e-NAME-TxRx-0`.
#[derive(Debug, Default)]
pub(super) struct RenamedInterfaces(Vec<(String, String)>);

impl RenamedInterfaces {
    pub(super) fn from_accesses(accesses: &Accesses) -> Self {
        let Some(Ok(interfaces)) = accesses.lists.get(INTERFACES) else { return Self::default() };
        let renamed = interfaces.iter().filter(|name| !is_usual(name)).enumerate();
        Self(renamed.map(|(number, name)| (name.clone(), format!("other{number}"))).collect())
    }

    /// Beginnings of paths that change, with what they become.
    pub(super) fn paths(&self, accesses: &Accesses) -> BTreeMap<String, String> {
        let mut new = BTreeMap::new();
        for (name, other) in &self.0 {
            for directory in [INTERFACES, "/proc/sys/net/ipv6/conf"] {
                new.insert(format!("{directory}/{name}"), format!("{directory}/{other}"));
            }
        }

        for path in accesses.lists.keys() {
            let below = path.strip_prefix("/proc/irq/").and_then(|rest| rest.split_once('/'));
            if let Some((number, handler)) = below {
                new.insert(path.clone(), format!("/proc/irq/{number}/{}", self.in_text(handler)));
            }
        }
        new.retain(|path, renamed| path != renamed);
        new
    }

    /// Replaces the names in the names of handlers.
    pub(super) fn rename_handlers(&self, accesses: &mut Accesses) {
        let names_handlers = |path: &str| path == COUNTS || path.starts_with("/sys/kernel/irq/");
        for (path, text) in &mut accesses.reads {
            if let Ok(bytes) = text
                && names_handlers(path)
            {
                *bytes = self.in_text(&String::from_utf8_lossy(bytes)).into_bytes();
            }
        }
    }

    fn in_text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, other)| replaced(&text, name, other))
    }
}

/// Replaces a name where it is not part of a longer word.
fn replaced(text: &str, name: &str, other: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let before = &rest[..at];
        let after = &rest[at + name.len()..];
        let is_part =
            before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        new.push_str(before);
        new.push_str(if is_part { name } else { other });
        rest = after;
    }

    new + rest
}

/// Whether the name says nothing: a number, or what the kernel and systemd give, but for `enx`,
/// which is followed by an address.
fn is_usual(name: &str) -> bool {
    let is_given = !name.starts_with("enx")
        && name.len() <= 12
        && USUAL_INTERFACES.iter().any(|usual| name.starts_with(usual));
    is_given || name.chars().all(|c| c.is_ascii_digit())
}

/// The CPUs, and the rows of devices without their blanks: a machine with many CPUs has mostly
/// those.
pub(super) fn counts(text: &str) -> String {
    let is_of_device = |line: &str| {
        line.split_once(':').is_some_and(|(number, _)| number.trim().parse::<u32>().is_ok())
    };
    let kept = text.lines().enumerate().filter(|(at, line)| *at == 0 || is_of_device(line));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    kept.map(|(_, line)| words(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_devices_are_kept_without_blanks() {
        let text = "      CPU0  CPU1\n 24:    1     20  PCI-MSI  0-edge  eth0\nLOC:  9  9  timer\n";
        assert_eq!(counts(text), "CPU0 CPU1\n24: 1 20 PCI-MSI 0-edge eth0\n");
    }

    #[test]
    fn a_name_is_replaced_where_it_is_a_word() {
        assert_eq!(
            replaced("i40e-acme-TxRx-0,acme", "acme", "other0"),
            "i40e-other0-TxRx-0,other0"
        );
        assert_eq!(replaced("acme2 pacme", "acme", "other0"), "acme2 pacme");
    }
}
