//! Which built-in parts and programs a load is made of, and what stands in when one of them is missing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::builtin::BuiltIn;
use super::cpu::CpuLoad;
use super::disk::DiskLoad;
use super::external::{Recipe, Repeat};
use super::memory::MemoryLoad;
use super::network::NetworkLoad;
use super::run::Options;
use super::sched::{SchedLoad, hackbench_groups};
use super::spec::{Load, LoadPart};
use super::walk::WalkLoad;

/// Groups of the paper's `hackbench 20`.
const PAPER_GROUPS: u16 = 20;
/// The paper's `killall hackbench; sleep 5`.
const PAPER_KILL: Duration = Duration::from_secs(5);
/// The paper asks ping for 100000 packets in flight; today's ping takes at most this many.
const PAPER_PRELOAD: &str = "65536";

/// One line of work: the best way to do it, and those that stand in for it.
pub(super) struct PlannedPart {
    pub(super) name: &'static str,
    pub(super) ways: VecDeque<Implementation>,
    /// Whether the load goes on without it: so for the paper's four, each of which says when it is missing.
    pub(super) dispensable: bool,
}

/// A way to do it.
pub(super) enum Implementation {
    /// By threads of ours.
    BuiltIn(LoadPart),
    /// By a program.
    Program(Recipe),
}

/// The lines of work of a load.
pub(super) fn lines(load: &Load, options: &Options) -> Vec<PlannedPart> {
    load.parts()
        .iter()
        .flat_map(|part| match part {
            LoadPart::Paper => paper(),
            LoadPart::StressNg(arguments) => {
                vec![asked_for("stress-ng", Implementation::Program(stress_ng(arguments, options)))]
            }
            LoadPart::Run(command) => vec![asked_for("run", Implementation::Program(shell(command)))],
            part => vec![asked_for(part.name(), Implementation::BuiltIn(part.clone()))],
        })
        .collect()
}

fn asked_for(name: &'static str, way: Implementation) -> PlannedPart {
    PlannedPart { name, ways: [way].into(), dispensable: false }
}

/// Figure 5 of Yoon, Song and Lee (2009), line by line.
fn paper() -> Vec<PlannedPart> {
    let groups = hackbench_groups(PAPER_GROUPS);
    // hackbench of rt-tests takes the number of groups after -g; it passes over a bare number without a word.
    let hackbench = program("rt-tests", &["hackbench", "-g", &groups.to_string()], Repeat::KilledEvery(PAPER_KILL));
    let mut ping =
        program("iputils-ping", &["ping", "-q", "-l", PAPER_PRELOAD, "-s", "10", "-f", "localhost"], Repeat::Once);
    (ping.ending, ping.figures) = (Signal::INT, true);
    let line = |name, ways: Vec<Implementation>| PlannedPart { name, ways: ways.into(), dispensable: true };
    vec![
        line("disk", vec![Implementation::BuiltIn(LoadPart::Disk)]),
        line(
            "hackbench",
            vec![Implementation::Program(hackbench), Implementation::BuiltIn(LoadPart::Sched { groups })],
        ),
        line("ping", vec![Implementation::Program(ping), Implementation::BuiltIn(LoadPart::Network)]),
        line("walk", vec![Implementation::BuiltIn(LoadPart::Walk)]),
    ]
}

fn program(package: &'static str, words: &[&str], repeat: Repeat) -> Recipe {
    Recipe {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: None,
        package,
        repeat,
        ending: if repeat == Repeat::Once { Signal::TERM } else { Signal::KILL },
        figures: false,
    }
}

/// stress-ng leaves its files where it runs, so it runs where the disk part would write.
fn stress_ng(arguments: &str, options: &Options) -> Recipe {
    let words: Vec<&str> = ["stress-ng"].into_iter().chain(arguments.split_whitespace()).collect();
    Recipe { directory: Some(options.directory.clone()), ..program("stress-ng", &words, Repeat::Once) }
}

fn shell(command: &str) -> Recipe {
    program("dash", &["sh", "-c", command], Repeat::Once)
}

/// The threads of a built-in part, or why they cannot start.
pub(super) fn built_in(part: &LoadPart, options: &Options) -> Result<Arc<dyn BuiltIn>, String> {
    let words = |error: std::io::Error| error.to_string();
    Ok(match part {
        LoadPart::Cpu { percent } => Arc::new(CpuLoad::new(*percent)),
        LoadPart::Sched { groups } => Arc::new(SchedLoad::new(*groups).map_err(words)?),
        LoadPart::Disk => {
            Arc::new(DiskLoad::open(&options.directory, options.largest_file_bytes).map_err(|error| error.to_string())?)
        }
        LoadPart::Network => Arc::new(NetworkLoad::new().map_err(words)?),
        LoadPart::Memory => Arc::new(MemoryLoad::new()),
        LoadPart::Walk => Arc::new(WalkLoad::new(options.walk_from.clone()).map_err(words)?),
        LoadPart::Paper | LoadPart::StressNg(_) | LoadPart::Run(_) => {
            return Err("it is made of other parts".to_owned());
        }
    })
}
