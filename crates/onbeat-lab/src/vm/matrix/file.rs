//! The file of a laboratory, as TOML: lists of kernels, command lines, tunings, loads and seeds.
//!
//! An entry of a list is a string, which is also its name in tables, or a table with a name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat::bench::CellTuning;
use onbeat::load::Load;
use serde::Deserialize;

use crate::toml_file::{self, TomlFileError, wrong};

use super::tuning::LabTuning;
use super::{ClockChoice, KernelChoice, KernelOrigin, Matrix, NamedEntry};
use crate::vm::{GuestWiring, LatencyTest};

/// Largest number of experiments of a file.
const MOST_EXPERIMENTS: usize = 10_000;
/// Binary logarithm of the longest time of an instruction: about a microsecond.
const LARGEST_SHIFT: u8 = 10;
/// The shift of [`Virtual`](crate::vm::Virtual).
const USUAL_SHIFT: u8 = 3;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LabTable {
    clock: ClockWord,
    shift: Option<u8>,
    duration_ms: u64,
    period_us: u64,
    memory_mib: u32,
    limit_s: u64,
    causes: bool,
    measure: String,
    gpio: bool,
    boards: bool,
    kernels: Vec<KernelEntry>,
    command_lines: Vec<CommandLineEntry>,
    tunings: Vec<String>,
    loads: Vec<LoadEntry>,
    seeds: Seeds,
}

impl Default for LabTable {
    fn default() -> Self {
        Self {
            clock: ClockWord::Virtual,
            shift: None,
            duration_ms: 2000,
            period_us: 1000,
            memory_mib: 512,
            limit_s: 300,
            causes: false,
            measure: "latency".to_owned(),
            gpio: false,
            boards: false,
            kernels: Vec::new(),
            command_lines: vec![CommandLineEntry::Named {
                name: "default".to_owned(),
                words: String::new(),
            }],
            tunings: vec!["PM".to_owned()],
            loads: vec![LoadEntry::Load("idle".to_owned())],
            seeds: Seeds::Number(1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClockWord {
    Real,
    Virtual,
    Free,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a kernel is the name of a package, or { name, package }, { name, image, modules }, { name, qemu } or { name, domain }"
)]
enum KernelEntry {
    Package(String),
    Named(KernelTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelTable {
    name: String,
    package: Option<String>,
    image: Option<PathBuf>,
    modules: Option<PathBuf>,
    qemu: Option<PathBuf>,
    domain: Option<PathBuf>,
    login: Option<String>,
    password_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a command line is a string, or { name, words }")]
enum CommandLineEntry {
    Words(String),
    Named { name: String, words: String },
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a load is a string, or { name, load }")]
enum LoadEntry {
    Load(String),
    Named { name: String, load: String },
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "seeds is a number of seeds, or a list of seeds")]
enum Seeds {
    Number(u32),
    List(Vec<u32>),
}

/// Reads the text of a file. Paths in it are relative to `directory`.
pub(super) fn parse(text: &str, directory: &Path) -> Result<Matrix, TomlFileError> {
    let table: LabTable = toml_file::parse(text)?;
    let clock = clock(&table)?;
    let kernels = table.kernels.iter().map(|entry| kernel(entry, directory));
    let kernels: Vec<KernelChoice> = kernels.collect::<Result<_, _>>()?;
    let tunings: Vec<NamedEntry<LabTuning>> =
        table.tunings.iter().map(|word| tuning(word)).collect::<Result<_, _>>()?;
    let loads: Vec<NamedEntry<Load>> = table.loads.iter().map(load).collect::<Result<_, _>>()?;
    let command_lines: Vec<NamedEntry<Vec<String>>> =
        table.command_lines.iter().map(command_line).collect();
    let seeds = seeds(table.seeds)?;
    let own = kernels.iter().find(|kernel| kernel.is_own());
    if let Some(own) = own.filter(|_| table.gpio || table.boards) {
        return wrong(format!(
            "kernel \"{}\" is a guest of your own: `gpio` and `boards` need onbeat's guests",
            own.name
        ));
    }
    let mut measure = table.measure.split_whitespace().map(str::to_owned);
    let probe = measure.next().map_or_else(|| empty("measure"), Ok)?;

    distinct("kernels", kernels.iter().map(|kernel| &kernel.name))?;
    distinct("command_lines", command_lines.iter().map(|line| &line.name))?;
    distinct("tunings", tunings.iter().map(|tuning| &tuning.name))?;
    distinct("loads", loads.iter().map(|load| &load.name))?;
    distinct("seeds", seeds.iter())?;
    above_zero("duration_ms", table.duration_ms)?;
    above_zero("period_us", table.period_us)?;
    above_zero("memory_mib", table.memory_mib.into())?;
    above_zero("limit_s", table.limit_s)?;

    let matrix = Matrix {
        clock,
        kernels,
        command_lines,
        tunings,
        loads,
        seeds,
        memory_mib: table.memory_mib,
        limit: Duration::from_secs(table.limit_s),
        test: LatencyTest {
            probe,
            duration: Duration::from_millis(table.duration_ms),
            period: Duration::from_micros(table.period_us),
            causes: table.causes,
            options: measure.collect(),
            ..LatencyTest::default()
        },
        plans: None,
        wiring: match (table.boards, table.gpio) {
            (true, _) => GuestWiring::TwoBoards,
            (false, true) => GuestWiring::Gpio,
            (false, false) => GuestWiring::None,
        },
    };

    match matrix.experiment_count() {
        0..=MOST_EXPERIMENTS => Ok(matrix),
        experiments => too_many(experiments),
    }
}

fn too_many<T>(experiments: usize) -> Result<T, TomlFileError> {
    wrong(format!(
        "the lists multiply to {experiments} experiments, at most {MOST_EXPERIMENTS} are allowed"
    ))
}

fn empty<T>(list: &str) -> Result<T, TomlFileError> {
    wrong(format!("`{list}` is empty; list at least one"))
}

fn clock(table: &LabTable) -> Result<ClockChoice, TomlFileError> {
    match (table.clock, table.shift) {
        (ClockWord::Virtual, shift) => match shift.unwrap_or(USUAL_SHIFT) {
            shift @ 0..=LARGEST_SHIFT => Ok(ClockChoice::Virtual { shift }),
            shift => wrong(format!(
                "`shift` is {shift}, at most {LARGEST_SHIFT}: an instruction takes 2^shift ns"
            )),
        },
        (_, Some(_)) => wrong("`shift` is for clock = \"virtual\" only; leave it out"),
        (ClockWord::Real, None) => Ok(ClockChoice::Real),
        (ClockWord::Free, None) => Ok(ClockChoice::Free),
    }
}

fn seeds(seeds: Seeds) -> Result<Vec<u32>, TomlFileError> {
    match seeds {
        Seeds::List(seeds) => Ok(seeds),
        Seeds::Number(number) if number as usize > MOST_EXPERIMENTS => too_many(number as usize),
        Seeds::Number(number) => Ok((1..=number).collect()),
    }
}

fn kernel(entry: &KernelEntry, directory: &Path) -> Result<KernelChoice, TomlFileError> {
    let table = match entry {
        KernelEntry::Package(package) => {
            let origin = KernelOrigin::Package(package.clone());
            return Ok(KernelChoice { name: package.clone(), origin });
        }
        KernelEntry::Named(table) => table,
    };

    let KernelTable { name, package, image, modules, qemu, domain, login, password_file } = table;
    let is_own = qemu.is_some() || domain.is_some();
    if login.is_some() && !is_own || password_file.is_some() && login.is_none() {
        return wrong(format!(
            "kernel \"{name}\": `login` is for a guest of your own (`qemu` or `domain`), `password_file` for its `login`"
        ));
    }
    let password_file = password_file.as_ref().map(|path| directory.join(path));
    let login = login.as_ref().map(|user| (user.clone(), password_file));
    let origin = match (package, image, modules, qemu, domain) {
        (Some(package), None, None, None, None) => KernelOrigin::Package(package.clone()),
        (None, Some(image), modules, None, None) => KernelOrigin::Image {
            image: directory.join(image),
            modules: modules.as_ref().map(|modules| directory.join(modules)),
        },
        (None, None, None, Some(script), None) => {
            KernelOrigin::Script(directory.join(script), login)
        }
        (None, None, None, None, Some(domain)) => {
            KernelOrigin::Domain(directory.join(domain), login)
        }
        _ => {
            return wrong(format!(
                "kernel \"{name}\" needs one of `package`, `image` with optional `modules`, `qemu` or `domain`"
            ));
        }
    };
    Ok(KernelChoice { name: name.clone(), origin })
}

fn command_line(entry: &CommandLineEntry) -> NamedEntry<Vec<String>> {
    let (name, words) = match entry {
        CommandLineEntry::Words(words) => (words, words),
        CommandLineEntry::Named { name, words } => (name, words),
    };
    let words = words.split_whitespace().map(str::to_owned).collect();
    NamedEntry { name: name.clone(), value: words }
}

fn tuning(word: &str) -> Result<NamedEntry<LabTuning>, TomlFileError> {
    match word.parse::<CellTuning>().map(|tuning| LabTuning::new(&tuning)) {
        Ok(Ok(value)) => Ok(NamedEntry { name: word.to_owned(), value }),
        Ok(Err(reason)) => wrong(format!("tuning `{word}`: {reason}")),
        Err(why) => wrong(why.to_string()),
    }
}

fn load(entry: &LoadEntry) -> Result<NamedEntry<Load>, TomlFileError> {
    let (name, load) = match entry {
        LoadEntry::Load(load) => (load, load),
        LoadEntry::Named { name, load } => (name, load),
    };
    match load.parse::<Load>() {
        Ok(value) => Ok(NamedEntry { name: name.clone(), value }),
        Err(why) => wrong(why.to_string()),
    }
}

/// Refuses a list that is empty or has a name twice.
fn distinct<N: Ord + ToString>(
    list: &'static str,
    names: impl Iterator<Item = N>,
) -> Result<(), TomlFileError> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return empty(list);
    }
    toml_file::check_distinct(list, names)
}

fn above_zero(key: &str, value: u64) -> Result<(), TomlFileError> {
    if value == 0 { wrong(format!("`{key}` is 0; it must be above 0")) } else { Ok(()) }
}
