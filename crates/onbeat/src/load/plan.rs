//! Chooses the built-in parts and programs of a load, and the substitutes for missing ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::builtin::BuiltIn;
use super::cpu::CpuLoad;
use super::disk::DiskLoad;
use super::external::LoadRecipe;
use super::memory::MemoryLoad;
use super::network::NetworkLoad;
use super::options::Options;
use super::sched::{SchedLoad, hackbench_groups};
use super::spec::{Load, LoadPart};
use super::walk::WalkLoad;

/// Number of groups in the paper's `hackbench 20`.
const PAPER_GROUPS: u16 = 20;
/// Interval of the paper's `killall hackbench; sleep 5`.
const PAPER_KILL: Duration = Duration::from_secs(5);
/// The paper uses 100000 packets in flight; today's ping accepts at most this number.
const PAPER_PRELOAD: &str = "65536";

/// A planned part: the preferred implementation, and its substitutes.
pub(super) struct PlannedPart {
    pub(super) name: &'static str,
    pub(super) implementations: VecDeque<Implementation>,
    /// Whether the load continues without it: true for the four parts of `paper`, each of which
    /// reports that it is missing.
    pub(super) dispensable: bool,
}

/// An implementation of a part.
pub(super) enum Implementation {
    /// Threads of this process.
    BuiltIn(LoadPart),
    /// An external program.
    Program(LoadRecipe),
}

/// Returns the planned parts of a load.
pub(super) fn planned_parts(load: &Load, options: &Options) -> Vec<PlannedPart> {
    load.parts()
        .iter()
        .flat_map(|part| match part {
            LoadPart::Paper => paper(),
            LoadPart::StressNg(arguments) => {
                vec![asked_for("stress-ng", Implementation::Program(stress_ng(arguments, options)))]
            }
            LoadPart::Run(command) => {
                vec![asked_for("run", Implementation::Program(shell(command)))]
            }
            part => vec![asked_for(part.name(), Implementation::BuiltIn(part.clone()))],
        })
        .collect()
}

fn asked_for(name: &'static str, implementation: Implementation) -> PlannedPart {
    PlannedPart { name, implementations: [implementation].into(), dispensable: false }
}

/// Returns the parts of Figure 5 of Yoon, Song and Lee (2009).
fn paper() -> Vec<PlannedPart> {
    let groups = hackbench_groups(PAPER_GROUPS);
    // hackbench of rt-tests takes the number of groups after -g, and silently ignores a bare
    // number.
    let hackbench = LoadRecipe {
        kill_every: Some(PAPER_KILL),
        ending: Signal::KILL,
        ..program("rt-tests", &["hackbench", "-g", &groups.to_string()])
    };

    let ping = ["ping", "-q", "-l", PAPER_PRELOAD, "-s", "10", "-f", "localhost"];
    let ping = LoadRecipe { ending: Signal::INT, figures: true, ..program("iputils-ping", &ping) };

    let line = |name, implementations: Vec<Implementation>| PlannedPart {
        name,
        implementations: implementations.into(),
        dispensable: true,
    };

    vec![
        line("disk", vec![Implementation::BuiltIn(LoadPart::Disk)]),
        line(
            "hackbench",
            vec![
                Implementation::Program(hackbench),
                Implementation::BuiltIn(LoadPart::Sched { groups }),
            ],
        ),
        line(
            "ping",
            vec![Implementation::Program(ping), Implementation::BuiltIn(LoadPart::Network)],
        ),
        line("walk", vec![Implementation::BuiltIn(LoadPart::Walk)]),
    ]
}

fn program(package: &'static str, words: &[&str]) -> LoadRecipe {
    LoadRecipe {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: None,
        package,
        kill_every: None,
        ending: Signal::TERM,
        figures: false,
    }
}

/// stress-ng writes files to its working directory, so it runs where the disk part would write.
fn stress_ng(arguments: &str, options: &Options) -> LoadRecipe {
    let words: Vec<&str> = ["stress-ng"].into_iter().chain(arguments.split_whitespace()).collect();
    LoadRecipe { directory: Some(options.directory.clone()), ..program("stress-ng", &words) }
}

fn shell(command: &str) -> LoadRecipe {
    program("dash", &["sh", "-c", command])
}

/// Returns the built-in part, or the reason why it cannot start.
pub(super) fn built_in(part: &LoadPart, options: &Options) -> Result<Arc<dyn BuiltIn>, String> {
    let words = |error: std::io::Error| error.to_string();
    Ok(match part {
        LoadPart::Cpu { percent } => Arc::new(CpuLoad::new(*percent)),
        LoadPart::Sched { groups } => Arc::new(SchedLoad::new(*groups).map_err(words)?),
        LoadPart::Disk => Arc::new(
            DiskLoad::open(&options.directory, options.largest_file_bytes)
                .map_err(|error| error.to_string())?,
        ),
        LoadPart::Network => Arc::new(NetworkLoad::new().map_err(words)?),
        LoadPart::Memory => Arc::new(MemoryLoad::new()),
        LoadPart::Walk => Arc::new(WalkLoad::new(options.walk_from.clone()).map_err(words)?),
        LoadPart::Paper | LoadPart::StressNg(_) | LoadPart::Run(_) => {
            return Err("it is made of other parts".to_owned());
        }
    })
}
