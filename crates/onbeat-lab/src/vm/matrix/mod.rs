//! A laboratory: kernels × command lines × tunings × loads × seeds, an experiment each.
//!
//! [`Matrix`] is the file, [`Laboratory`] runs its experiments in parallel and keeps what they send,
//! [`LabResults`] has the figures. In virtual time an experiment sends the same bytes again, so a
//! stored one is not run again, and [`Repetition::Compare`] checks that.

mod conduct;
mod file;
mod results;
mod store;
mod tuning;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat::bench::CellTuningError;
use onbeat::load::{Load, LoadError};
use serde::{Deserialize, Serialize};

pub use conduct::{LabEvent, Laboratory, Repetition};
pub use results::{CellFigures, LabResults};
pub use store::StoredExperiment;

use tuning::LabTuning;

use super::{Job, Kernel, LatencyTest, PackageSource, VmError, WorkDirectory};

/// Delay of an experiment's start per seed, in microseconds. No usual period is a multiple of it,
/// so seeds shift load and loop against each other.
const DELAY_PER_SEED_US: u32 = 137;

/// An error in a laboratory's file; the caller names the file.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The file cannot be read.
    #[error("cannot be read: {source}")]
    Read {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file is not valid TOML, or has an unknown key or value.
    #[error("line {line}, column {column}: {why}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Message of the parser.
        why: String,
    },
    /// A list is empty.
    #[error("`{list}` is empty; list at least one")]
    Empty {
        /// Its key.
        list: &'static str,
    },
    /// A name is in a list twice.
    #[error("`{list}` has \"{name}\" twice; names in a list must differ")]
    Twice {
        /// Key of the list.
        list: &'static str,
        /// The name.
        name: String,
    },
    /// A number is 0.
    #[error("`{key}` is 0; it must be above 0")]
    Zero {
        /// Its key.
        key: &'static str,
    },
    /// The time of an instruction is out of range.
    #[error("`shift` is {shift}, at most {largest}: an instruction takes 2^shift ns")]
    Shift {
        /// The value.
        shift: u8,
        /// The largest.
        largest: u8,
    },
    /// The time of an instruction is set for a clock that counts none.
    #[error("`shift` is for clock = \"virtual\" only; leave it out")]
    ShiftOfOtherClock,
    /// A kernel has neither a package nor an image, or both.
    #[error("kernel \"{name}\" needs either `package`, or `image` with optional `modules`")]
    KernelOrigin {
        /// Its name.
        name: String,
    },
    /// A word is not a valid tuning.
    #[error(transparent)]
    Tuning {
        /// Why.
        source: Box<CellTuningError>,
    },
    /// A tuning that no guest of a laboratory can have.
    #[error("tuning `{tuning}`: {reason}")]
    NotInGuest {
        /// The tuning.
        tuning: String,
        /// Why.
        reason: &'static str,
    },
    /// A word is not a valid load.
    #[error(transparent)]
    Load {
        /// Why.
        source: Box<LoadError>,
    },
    /// The lists multiply to too many experiments.
    #[error("the lists multiply to {experiments} experiments, at most {limit} are allowed")]
    TooMany {
        /// Their number.
        experiments: usize,
        /// The largest number.
        limit: usize,
    },
}

/// The clock that a laboratory's guests run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChoice {
    /// See [`Real`](super::Real).
    Real,
    /// See [`Virtual`](super::Virtual).
    Virtual {
        /// Binary logarithm of the nanoseconds per instruction.
        shift: u8,
    },
    /// See [`Free`](super::Free).
    Free,
}

/// A kernel of a laboratory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelChoice {
    name: String,
    origin: KernelOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KernelOrigin {
    Package(String),
    Image { image: PathBuf, modules: Option<PathBuf> },
}

impl KernelChoice {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kernel, unpacked on first use.
    ///
    /// # Errors
    /// As [`Kernel::from_package`] and [`Kernel::from_image`].
    pub fn open(&self, work: &WorkDirectory, source: &PackageSource) -> Result<Kernel, VmError> {
        match &self.origin {
            KernelOrigin::Package(package) => Kernel::from_package(work, package, source),
            KernelOrigin::Image { image, modules } => {
                Kernel::from_image(work, image, modules.as_deref())
            }
        }
    }
}

/// An entry of a list with its name in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named<T> {
    name: String,
    value: T,
}

/// A cell of a laboratory, by the names of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Kernel.
    pub kernel: String,
    /// Command line.
    pub command_line: String,
    /// Tuning.
    pub tuning: String,
    /// Load.
    pub load: String,
}

/// An experiment: a cell with a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The cell.
    pub cell: Cell,
    /// The seed, of QEMU's random numbers and of the delay before the measurement.
    pub seed: u32,
    /// Indexes of kernel, command line, tuning and load in their lists.
    indexes: [usize; 4],
}

/// The content of a laboratory's file.
///
/// ```
/// use onbeat_lab::vm::Matrix;
///
/// let text = r#"
///     kernels = ["linux-image-rt-amd64", { name = "stock", package = "linux-image-cloud-amd64" }]
///     loads = ["idle", { name = "writer", load = "run:while :; do dd if=/dev/zero of=/tmp/load bs=1M count=16; done" }]
///     seeds = 10
/// "#;
/// let matrix = Matrix::from_toml(text, ".".as_ref())?;
/// assert_eq!(matrix.experiments().len(), 2 * 2 * 10);
/// # Ok::<(), onbeat_lab::vm::MatrixError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    clock: ClockChoice,
    kernels: Vec<KernelChoice>,
    command_lines: Vec<Named<Vec<String>>>,
    tunings: Vec<Named<LabTuning>>,
    loads: Vec<Named<Load>>,
    seeds: Vec<u32>,
    duration: Duration,
    period: Duration,
    causes: bool,
    memory_mib: u32,
    limit: Duration,
}

impl Matrix {
    /// Reads a file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// When it cannot be read or is not valid.
    pub fn read(path: &Path) -> Result<Self, MatrixError> {
        let text = fs::read_to_string(path).map_err(|source| MatrixError::Read { source })?;
        Self::from_toml(&text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads the text of a file. Paths in it are relative to `directory`.
    ///
    /// # Errors
    /// When it is not valid.
    pub fn from_toml(text: &str, directory: &Path) -> Result<Self, MatrixError> {
        file::parse(text, directory)
    }

    /// The clock of all its guests.
    #[must_use]
    pub const fn clock(&self) -> ClockChoice {
        self.clock
    }

    /// Its kernels, in the order of the file.
    #[must_use]
    pub fn kernels(&self) -> &[KernelChoice] {
        &self.kernels
    }

    /// Number of cells; saturates.
    fn cell_count(&self) -> usize {
        let lists = [self.command_lines.len(), self.tunings.len(), self.loads.len()];
        lists.into_iter().fold(self.kernels.len(), usize::saturating_mul)
    }

    /// Number of experiments; saturates.
    fn experiment_count(&self) -> usize {
        self.cell_count().saturating_mul(self.seeds.len())
    }

    /// All experiments in the order of the lists, the seeds of a cell one after the other.
    #[must_use]
    pub fn experiments(&self) -> Vec<Experiment> {
        let of_cell = |number| {
            let (indexes, cell) = self.cell(number);
            let with_seed = move |&seed: &u32| Experiment { cell: cell.clone(), seed, indexes };
            self.seeds.iter().map(with_seed)
        };
        (0..self.cell_count()).flat_map(of_cell).collect()
    }

    /// A cell by its number, with the indexes of its parts: the load varies first, the kernel last.
    fn cell(&self, number: usize) -> ([usize; 4], Cell) {
        let (rest, load) = (number / self.loads.len(), number % self.loads.len());
        let (rest, tuning) = (rest / self.tunings.len(), rest % self.tunings.len());
        let (kernel, line) = (rest / self.command_lines.len(), rest % self.command_lines.len());

        let cell = Cell {
            kernel: self.kernels[kernel].name.clone(),
            command_line: self.command_lines[line].name.clone(),
            tuning: self.tunings[tuning].name.clone(),
            load: self.loads[load].name.clone(),
        };
        ([kernel, line, tuning, load], cell)
    }

    /// The words that an experiment adds to the kernel's command line.
    fn kernel_arguments(&self, experiment: &Experiment) -> Vec<String> {
        self.command_lines[experiment.indexes[1]].value.clone()
    }

    /// The job of an experiment: a delay by its seed, then the measurement with its tuning.
    fn job(&self, experiment: &Experiment) -> Job {
        let [_, _, tuning, load] = experiment.indexes;
        let tuning = &self.tunings[tuning].value;
        let delay_us = u64::from(experiment.seed) * u64::from(DELAY_PER_SEED_US);

        let mut job = Job::new();
        job.command(["usleep".to_owned(), delay_us.to_string()]);
        job.latency(&LatencyTest {
            duration: self.duration,
            period: self.period,
            load: self.loads[load].value.to_string(),
            causes: self.causes,
            options: tuning.options.clone(),
        });
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(text: &str) -> Result<Matrix, MatrixError> {
        Matrix::from_toml(text, Path::new("/lab"))
    }

    fn refused(text: &str) -> String {
        matrix(text).expect_err(text).to_string()
    }

    #[test]
    fn the_lists_multiply_with_the_seeds_of_a_cell_together() {
        let text = r#"
            kernels = ["a", "b"]
            command_lines = [{ name = "plain", words = "" }, "preempt=full  threadirqs"]
            tunings = ["none", "PM"]
            loads = ["idle", { name = "busy", load = "cpu=50%" }]
            seeds = [7, 3, 5]
        "#;
        let matrix = matrix(text).expect("a file");
        let all = matrix.experiments();
        assert_eq!(all.len(), 2 * 2 * 2 * 2 * 3);
        assert_eq!(all.len(), matrix.experiment_count());

        let seeds: Vec<u32> = all.iter().take(4).map(|experiment| experiment.seed).collect();
        assert_eq!(seeds, [7, 3, 5, 7]);
        assert_eq!(all[0].cell, all[2].cell);
        assert_eq!((&*all[3].cell.load, &*all[6].cell.tuning), ("busy", "PM"));
        let last = all.last().expect("experiments");
        assert_eq!(last.cell.command_line, "preempt=full  threadirqs");
        assert_eq!(matrix.kernel_arguments(last), ["preempt=full", "threadirqs"]);
    }

    #[test]
    fn a_file_with_kernels_alone_is_one_idle_experiment_per_kernel() {
        let matrix = matrix("kernels = [\"linux-image-rt-amd64\"]").expect("a file");
        assert_eq!(matrix.clock(), ClockChoice::Virtual { shift: 3 });
        let all = matrix.experiments();
        assert_eq!((all.len(), &*all[0].cell.load, all[0].seed), (1, "idle", 1));
        let script = matrix.job(&all[0]).script();
        assert!(script.contains("'usleep' '137' || return"), "{script}");
        assert!(script.contains("'--for' '2000000000ns' '--period' '1000000ns'"), "{script}");
        assert!(script.contains("'--priority' '98'"), "{script}");
        assert!(!script.contains("--no-lock-memory"), "{script}");
    }

    #[test]
    fn a_tuning_becomes_options_of_the_measurement() {
        let matrix = matrix("kernels = [\"k\"]\ntunings = [\"none\", \"S\"]").expect("a file");
        let all = matrix.experiments();
        let none = matrix.job(&all[0]).script();
        assert!(none.contains("'--priority' '0' '--no-lock-memory'"), "{none}");
        assert!(!none.contains("spin"), "{none}");
        let spins = matrix.job(&all[1]).script();
        assert!(spins.contains("'--wait' 'spin'"), "{spins}");
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let text =
            "kernels = [{ name = \"own\", image = \"vmlinuz\", modules = \"/lib/modules/6\" }]";
        let origin = matrix(text).expect("a file").kernels()[0].origin.clone();
        let image = PathBuf::from("/lab/vmlinuz");
        assert_eq!(origin, KernelOrigin::Image { image, modules: Some("/lib/modules/6".into()) });
    }

    #[test]
    fn what_a_file_gets_wrong_is_named_with_its_place() {
        let wrong = "kernels = [\"k\"]\nseed = 3\n";
        assert!(
            refused(wrong).starts_with("line 2, column 1: unknown field `seed`"),
            "{}",
            refused(wrong)
        );
        assert_eq!(refused(""), "`kernels` is empty; list at least one");
        assert_eq!(
            refused("kernels = [\"k\", \"k\"]"),
            "`kernels` has \"k\" twice; names in a list must differ"
        );
        assert_eq!(
            refused("kernels = [\"k\"]\nshift = 20"),
            "`shift` is 20, at most 10: an instruction takes 2^shift ns"
        );
        assert_eq!(
            refused("kernels = [\"k\"]\nclock = \"free\"\nshift = 3"),
            "`shift` is for clock = \"virtual\" only; leave it out"
        );
        assert_eq!(
            refused("kernels = [{ name = \"k\" }]"),
            "kernel \"k\" needs either `package`, or `image` with optional `modules`"
        );
        assert_eq!(
            refused("kernels = [\"k\"]\ntunings = [\"PMC\"]"),
            "tuning `PMC`: C shields a CPU, and these guests have one"
        );
        let host = refused("kernels = [\"k\"]\ntunings = [\"PM+mem.swappiness\"]");
        assert!(host.starts_with("tuning `PM+mem.swappiness`: `onbeat tune` applies"), "{host}");
        assert_eq!(
            refused("kernels = [\"k\"]\nseeds = 20000"),
            "the lists multiply to 20000 experiments, at most 10000 are allowed"
        );
        assert_eq!(refused("kernels = [\"k\"]\nseeds = 0"), "`seeds` is empty; list at least one");
        assert_eq!(
            refused("kernels = [\"k\"]\nperiod_us = 0"),
            "`period_us` is 0; it must be above 0"
        );
        assert!(refused("kernels = [3]").contains("a kernel is the name of a package"));
        assert!(refused("kernels = [\"k\"]\nloads = [\"idel\"]").contains("unknown load \"idel\""));
        assert!(
            refused("kernels = [\"k\"]\ntunings = [\"X\"]").contains("`X` is not a valid tuning")
        );
    }
}
