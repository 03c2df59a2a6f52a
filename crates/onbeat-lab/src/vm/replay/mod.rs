//! An experiment again, traced from outside the guest: a plugin of QEMU counts the instructions of
//! each function, and the guest sends the same bytes as without it.

mod path;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

pub use path::{CriticalPath, PathPart};
use path::{KernelSymbols, critical_path, stretches};

use super::clock::Virtual;
use super::qemu::in_option;
use super::work_directory::hex_digest;
use super::{Guest, Job, VmError, WorkDirectory, process};

const SOURCE: &str = include_str!("onbeat_path.c");
const NAME: &str = "onbeat_path";
/// Part of a latency by which its path may differ: the loop reads its clock in user mode.
const LARGEST_DIFFERENCE: u64 = 10;
/// Files of a replay, in its directory.
const SYMBOLS: &str = "symbols";
const TRACE: &str = "trace";

/// An experiment that was run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The wake-up latency that the path is of, as the guest has recorded it, in nanoseconds.
    pub latency_ns: u64,
    /// What the CPU did meanwhile.
    pub path: CriticalPath,
    /// Whether the traced guest has sent the bytes that are stored.
    pub is_same: bool,
}

/// An experiment that is run again, and what its replay is compared with.
#[derive(Clone, Debug)]
pub(super) struct ReplayTarget<'e> {
    pub(super) guest: &'e Guest<Virtual>,
    pub(super) job: &'e Job,
    /// The largest wake-up latency, in nanoseconds.
    pub(super) latency_ns: u64,
    /// Digest of what the guest has sent.
    pub(super) digest: &'e str,
}

/// Runs a guest again and finds the critical path of its largest wake-up latency. `directory` is
/// created, and removed at the end.
pub(super) fn replay(
    work: &WorkDirectory,
    directory: &Path,
    recorded: &ReplayTarget<'_>,
    stop: &AtomicBool,
) -> Result<Replay, VmError> {
    let ReplayTarget { guest, job, latency_ns, digest } = *recorded;
    let plugin = plugin(work)?;
    let symbols = symbols(work, guest, stop)?;
    fs::create_dir_all(directory).map_err(VmError::writing(directory))?;
    let directory = fs::canonicalize(directory).map_err(VmError::reading(directory))?;
    let [symbols_path, trace_path] = [SYMBOLS, TRACE].map(|name| directory.join(name));
    fs::write(&symbols_path, symbols.to_plugin()).map_err(VmError::writing(&symbols_path))?;

    let mut watched = guest.clone();
    let argument = format!(
        "file={},symbols={},trace={}",
        in_option(&plugin),
        in_option(&symbols_path),
        in_option(&trace_path)
    );
    watched.observers = vec!["-plugin".to_owned(), argument];
    let result = watched.run(work, job, stop)?;
    result.succeeded()?;

    let bytes = fs::read(&trace_path).map_err(VmError::reading(&trace_path))?;
    let trace: Vec<_> = stretches(&bytes).collect();
    let path = critical_path(&trace, &symbols, guest.clock.shift, latency_ns)
        .ok_or(VmError::NoWakeUp { stretches: trace.len() })?;
    let nearest_ns = path.length_ns;
    if latency_ns.abs_diff(nearest_ns) > latency_ns / LARGEST_DIFFERENCE {
        return Err(VmError::NoMatchingPath { latency_ns, nearest_ns });
    }

    let is_same = result.digest() == digest;
    result.remove_directory()?;
    fs::remove_dir_all(&directory).map_err(VmError::writing(&directory))?;
    Ok(Replay { latency_ns, path, is_same })
}

/// The functions of the guest's kernel; it is not relocated in virtual time.
fn symbols(
    work: &WorkDirectory,
    guest: &Guest<Virtual>,
    stop: &AtomicBool,
) -> Result<KernelSymbols, VmError> {
    let mut job = Job::new();
    job.command(["cat", "/proc/kallsyms"]);
    let result = guest.run(work, &job, stop)?;
    result.succeeded()?;

    let text = String::from_utf8_lossy(result.file("output").unwrap_or_default()).into_owned();
    result.remove_directory()?;
    let symbols = KernelSymbols::from_kallsyms(&text);
    if symbols.is_empty() {
        return Err(VmError::NoSymbols { release: result.release });
    }
    Ok(symbols)
}

/// Returns the plugin, built on first use.
fn plugin(work: &WorkDirectory) -> Result<PathBuf, VmError> {
    let built = work.path.join(format!("path-{}", &hex_digest(SOURCE.as_bytes())[..8]));
    let file = format!("{NAME}.so");
    work.create_whole(&built, |directory| {
        let source = directory.join(format!("{NAME}.c"));
        fs::write(&source, SOURCE).map_err(VmError::writing(&source))?;
        let mut command = Command::new("gcc");
        command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(directory.join(&file)).arg(source);
        let failed = |message| VmError::PluginBuild { message };
        process::run(&mut command, "build-essential", failed)
    })?;

    let path = built.join(file);
    fs::canonicalize(&path).map_err(VmError::reading(&path))
}
