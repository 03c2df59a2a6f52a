//! Loads as users type them: `idle`, `paper`, `cpu=50%+disk`, `run:make -j4`.
//!
//! `Display` and `FromStr` (in `parse`) of [`Load`] are inverse. `run:` takes the rest of the text,
//! so it must be last.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::near_word::did_you_mean;
use onbeat_record::fingerprint;

/// A load: nothing, or one or more different parts that run at the same time.
///
/// Serialised as the text that users type.
///
/// ```
/// use onbeat::load::{Load, LoadPart};
///
/// let load: Load = "cpu=50%+disk".parse()?;
/// assert_eq!(load.parts(), [LoadPart::Cpu { percent: 50 }, LoadPart::Disk]);
/// assert!("cpu=150%".parse::<Load>().is_err());
/// # Ok::<(), onbeat::load::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Load {
    parts: Vec<LoadPart>,
}

/// One part of a load.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoadPart {
    /// The stress mix of Yoon, Song and Lee (2009), Figure 5: disk writer, hackbench, ping flood,
    /// walk of the file system.
    Paper,
    /// Keeps each CPU busy for this share of every 10 ms, in percent: 1 to 100.
    Cpu {
        /// Percent of each CPU's time.
        percent: u8,
    },
    /// Groups of 20 senders and 20 receivers that wake each other over sockets: 1 to 1000 groups.
    Sched {
        /// Number of groups.
        groups: u16,
    },
    /// Writes one file of limited size repeatedly.
    Disk,
    /// Floods the loopback with small UDP packets.
    Network,
    /// Streams through more memory than the last-level cache holds, and maps and unmaps pages.
    Memory,
    /// Reads the metadata of every file of the root's file system repeatedly.
    Walk,
    /// Runs `stress-ng` with these arguments: words separated by blanks, without quoting and
    /// without `+`.
    StressNg(String),
    /// Runs a command of the user with `sh -c`.
    Run(String),
}

/// An entry of the list of loads, for `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The syntax.
    pub typed: &'static str,
    /// What it does, in one sentence.
    pub does: &'static str,
}

impl CatalogueEntry {
    /// Returns its name, without the value that it takes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.typed.split(['[', ':']).next().unwrap_or(self.typed)
    }
}

/// All loads, for `--help`.
pub const CATALOGUE: [CatalogueEntry; 10] = [
    entry("idle", "No added load."),
    entry(
        "paper",
        "The stress mix of Yoon, Song and Lee (2009), Figure 5: disk writer, hackbench, ping flood, file walk.",
    ),
    entry("cpu[=50%]", "Keeps every CPU busy for this share of each 10 ms (100% when not given)."),
    entry(
        "sched[=GROUPS]",
        "Groups of 20 senders and 20 receivers wake each other over sockets (10 when not given).",
    ),
    entry("disk", "Repeatedly writes one file of at most 1 GB, or a tenth of the free space."),
    entry("network", "Floods the loopback with UDP packets of 10 bytes."),
    entry(
        "memory",
        "Streams through more memory than the last-level cache holds, and maps and unmaps pages.",
    ),
    entry(
        "walk",
        "Repeatedly reads the metadata of every file on the root's file system, like du.",
    ),
    entry(
        "stress-ng:ARGS",
        "Runs stress-ng with these arguments, for example stress-ng:--cpu 2 --io 1.",
    ),
    entry(
        "run:COMMAND",
        "Runs a command with sh -c; takes the rest of the text, so it must be last.",
    ),
];

const fn entry(typed: &'static str, does: &'static str) -> CatalogueEntry {
    CatalogueEntry { typed, does }
}

pub(super) const DEFAULT_GROUPS: u16 = 10;
pub(super) const MOST_GROUPS: u16 = 1000;

/// The text is not a valid load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No load of this name exists.
    #[error("unknown load \"{typed}\"{}; known loads: idle, paper, cpu[=50%], sched[=GROUPS], disk, network, memory, walk, \
             stress-ng:ARGS and run:COMMAND, combined with +", did_you_mean(.nearest.as_deref()))]
    Unknown {
        /// What was typed.
        typed: String,
        /// The name nearest to it, when one is near.
        nearest: Option<String>,
    },
    /// The share is not 1% to 100%.
    #[error(
        "\"{0}\" is not a valid share of a CPU: write a whole number from 1% to 100%, for example cpu=50%"
    )]
    Share(String),
    /// The number of groups is not 1 to 1000.
    #[error(
        "\"{0}\" is not a valid number of groups: write a whole number from 1 to 1000, for example sched=20"
    )]
    Groups(String),
    /// The load takes no value.
    #[error("{name} takes no value, but \"{value}\" was given; write {name} alone")]
    TakesNoValue {
        /// The load.
        name: String,
        /// The given value.
        value: String,
    },
    /// `stress-ng:` or `run:` without arguments.
    #[error("{name}: needs a command or arguments after the colon, for example {name}:{example}")]
    Nothing {
        /// The load.
        name: &'static str,
        /// An example that works.
        example: &'static str,
    },
    /// The arguments of stress-ng contain a `+`, which would begin another part.
    #[error(
        "the arguments \"{0}\" of stress-ng contain a +, which begins the next part; write run:stress-ng {0}"
    )]
    Plus(String),
    /// The same part occurs twice.
    #[error("{0} occurs twice; name each part once, for example cpu=50%+disk")]
    Twice(&'static str),
    /// `idle` is combined with another part.
    #[error("idle cannot be combined with other loads: remove it, or the others")]
    IdleNotAlone,
    /// The text is empty, or has nothing between two `+`.
    #[error("a load is missing in \"{0}\"; write idle for none")]
    Empty(String),
}

impl Load {
    /// No added load.
    pub const IDLE: Self = Self { parts: Vec::new() };

    /// Makes a load of these parts; without parts, it is [`Load::IDLE`].
    ///
    /// # Errors
    /// [`LoadError`] if a part occurs twice, or has a value outside its range.
    pub fn from_parts(parts: Vec<LoadPart>) -> Result<Self, LoadError> {
        for (index, part) in parts.iter().enumerate() {
            part.check()?;
            if parts[..index].iter().any(|earlier| earlier.name() == part.name()) {
                return Err(LoadError::Twice(part.name()));
            }
        }

        // `run:` takes the rest of the text, so it must be last.
        let (run, mut ordered): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| matches!(part, LoadPart::Run(_)));
        ordered.extend(run);
        Ok(Self { parts: ordered })
    }

    /// Returns the parts; none for `idle`.
    #[must_use]
    pub fn parts(&self) -> &[LoadPart] {
        &self.parts
    }

    /// Whether the load is empty.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns what it does: one sentence for each part.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.is_idle() {
            return CATALOGUE[0].does.to_owned();
        }
        self.parts.iter().map(LoadPart::describe).collect::<Vec<_>>().join(" ")
    }

    /// Returns a name for files: letters, digits and hyphens, at most 48 characters, different for
    /// different loads.
    #[must_use]
    pub fn file_name(&self) -> String {
        let typed = self.to_string();
        let mut name = String::new();
        for letter in typed.chars() {
            match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(letter),
                '%' => {}
                _ if name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }

        let plain =
            self.parts.iter().all(|part| !matches!(part, LoadPart::StressNg(_) | LoadPart::Run(_)));
        if plain && name.len() <= 48 {
            return name;
        }

        name.truncate(39);
        format!("{}-{:08x}", name.trim_end_matches('-'), fingerprint(&typed))
    }
}

impl LoadPart {
    /// Returns the name, as typed before `=` or `:`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Cpu { .. } => "cpu",
            Self::Sched { .. } => "sched",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Memory => "memory",
            Self::Walk => "walk",
            Self::StressNg(_) => "stress-ng",
            Self::Run(_) => "run",
        }
    }

    /// What it does, in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Cpu { percent } => format!("Keeps every CPU busy for {percent} % of each 10 ms."),
            Self::Sched { groups } => {
                format!(
                    "{groups} groups of 20 senders and 20 receivers wake each other over sockets."
                )
            }
            Self::StressNg(arguments) => format!("Runs stress-ng {arguments}."),
            Self::Run(command) => format!("Runs sh -c '{command}'."),
            _ => CATALOGUE
                .iter()
                .find(|entry| entry.typed == self.name())
                .map_or("", |entry| entry.does)
                .to_owned(),
        }
    }

    fn check(&self) -> Result<(), LoadError> {
        match self {
            Self::Cpu { percent } if !(1..=100).contains(percent) => {
                Err(LoadError::Share(format!("{percent}%")))
            }
            Self::Sched { groups } if !(1..=MOST_GROUPS).contains(groups) => {
                Err(LoadError::Groups(groups.to_string()))
            }
            Self::StressNg(arguments) if arguments.trim() != arguments || arguments.is_empty() => {
                Err(LoadError::Nothing { name: self.name(), example: "--cpu 2 --io 1" })
            }
            Self::StressNg(arguments) if arguments.contains('+') => {
                Err(LoadError::Plus(arguments.clone()))
            }
            Self::Run(command) if command.trim() != command || command.is_empty() => {
                Err(LoadError::Nothing { name: self.name(), example: "make -j4" })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for LoadPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { percent: 100 } | Self::Sched { groups: DEFAULT_GROUPS } => {
                f.write_str(self.name())
            }
            Self::Cpu { percent } => write!(f, "cpu={percent}%"),
            Self::Sched { groups } => write!(f, "sched={groups}"),
            Self::StressNg(arguments) => write!(f, "stress-ng:{arguments}"),
            Self::Run(command) => write!(f, "run:{command}"),
            _ => f.write_str(self.name()),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_idle() {
            return f.write_str("idle");
        }

        let parts: Vec<String> = self.parts.iter().map(LoadPart::to_string).collect();
        f.write_str(&parts.join("+"))
    }
}

impl TryFrom<String> for Load {
    type Error = LoadError;

    fn try_from(text: String) -> Result<Self, LoadError> {
        text.parse()
    }
}

impl From<Load> for String {
    fn from(load: Load) -> Self {
        load.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_part() -> impl Strategy<Value = LoadPart> {
        let text = "[!-~]([ -~]{0,20}[!-~])?";
        prop_oneof![
            Just(LoadPart::Paper),
            Just(LoadPart::Disk),
            Just(LoadPart::Network),
            Just(LoadPart::Memory),
            Just(LoadPart::Walk),
            (1..=100_u8).prop_map(|percent| LoadPart::Cpu { percent }),
            (1..=MOST_GROUPS).prop_map(|groups| LoadPart::Sched { groups }),
            text.prop_map(|text| LoadPart::StressNg(text.replace('+', "p"))),
            text.prop_map(LoadPart::Run),
        ]
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back_as_the_same_load(parts in proptest::collection::vec(any_part(), 0..6)) {
            if let Ok(load) = Load::from_parts(parts) {
                prop_assert_eq!(load.to_string().parse::<Load>().unwrap(), load.clone());
                let json = serde_json::to_string(&load).unwrap();
                prop_assert_eq!(serde_json::from_str::<Load>(&json).unwrap(), load.clone());
                let name = load.file_name();
                prop_assert!(name.len() <= 48 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
            }
        }
    }

    #[test]
    fn the_canonical_form_leaves_out_what_is_the_default() {
        for (typed, canonical) in [
            (" cpu=100% + disk ", "cpu+disk"),
            ("sched=10", "sched"),
            ("cpu=050%", "cpu=50%"),
            ("run:echo 1+1", "run:echo 1+1"),
            ("disk+run:a && b+c", "disk+run:a && b+c"),
            ("idle", "idle"),
        ] {
            assert_eq!(typed.parse::<Load>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn every_load_that_exists_is_listed_and_described() {
        let names = ["idle", "paper", "cpu", "sched", "disk", "network", "memory", "walk"];
        let names = names.into_iter().chain(["stress-ng", "run"]);
        assert!(names.eq(CATALOGUE.iter().map(CatalogueEntry::name)));
        for typed in [
            "idle",
            "paper",
            "cpu=30%+sched=2+disk",
            "network+memory+walk",
            "stress-ng:--cpu 1",
            "run:true",
        ] {
            let load: Load = typed.parse().unwrap();
            assert!(
                load.describe().matches('.').count() >= load.parts().len().max(1),
                "{}",
                load.describe()
            );
        }
    }

    #[test]
    fn different_commands_have_different_file_names() {
        let name = |typed: &str| typed.parse::<Load>().unwrap().file_name();
        assert_eq!(name("cpu=50%+disk"), "cpu-50-disk");
        assert_ne!(name("run:a b"), name("run:a/b"));
        assert_eq!(name("idle"), "idle");
    }
}
