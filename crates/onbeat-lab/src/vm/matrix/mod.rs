//! A laboratory: kernels × command lines × tunings × loads × seeds, an experiment each.
//!
//! [`Matrix`] is the file, [`Laboratory`] runs its experiments in parallel and keeps what they send,
//! [`LabResults`] has the figures. In virtual time an experiment sends the same bytes again, so a
//! stored one is not run again, and [`Laboratory::again`] checks that.

mod conduct;
mod file;
mod results;
mod store;
mod tuning;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat::campaign::product;
use onbeat::load::Load;
use serde::{Deserialize, Serialize};

pub use conduct::{Laboratory, Shard};
pub use results::{CellFigures, LabResults};
pub use store::StoredExperiment;

use tuning::LabTuning;

use crate::toml_file::{self, TomlFileError};

use super::{
    GuestPlan, GuestWiring, Job, Kernel, LatencyTest, OwnGuest, PackageSource, VmError,
    WorkDirectory,
};

/// Delay of an experiment's start per seed, in microseconds. No usual period is a multiple of it,
/// so seeds shift load and loop against each other.
const DELAY_PER_SEED_US: u32 = 137;

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
    /// Its name in tables.
    pub name: String,
    origin: KernelOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KernelOrigin {
    Package(String),
    Image {
        image: PathBuf,
        modules: Option<PathBuf>,
    },
    /// A user's guest, by a script that starts QEMU.
    Script(PathBuf, LabLogin),
    /// The same, by a libvirt definition.
    Domain(PathBuf, LabLogin),
}

/// Who logs in at a user's guest, and the file of the password.
type LabLogin = Option<(String, Option<PathBuf>)>;

/// What a kernel of a laboratory is.
#[derive(Clone, Debug)]
pub enum LabGuest {
    /// A kernel for a guest of onbeat's own.
    Kernel(Kernel),
    /// A user's guest.
    Own(Box<OwnGuest>),
}

impl KernelChoice {
    /// Whether it is a user's guest.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        matches!(self.origin, KernelOrigin::Script(..) | KernelOrigin::Domain(..))
    }

    /// Returns the kernel, unpacked on first use, or the user's guest.
    ///
    /// # Errors
    /// As [`Kernel::from_package`], [`Kernel::from_image`], [`OwnGuest::from_script`] and
    /// [`OwnGuest::from_domain`].
    pub fn open(&self, work: &WorkDirectory, source: &PackageSource) -> Result<LabGuest, VmError> {
        Ok(match &self.origin {
            KernelOrigin::Package(package) => {
                LabGuest::Kernel(Kernel::from_package(work, package, source)?)
            }
            KernelOrigin::Image { image, modules } => {
                LabGuest::Kernel(Kernel::from_image(work, image, modules.as_deref())?)
            }
            KernelOrigin::Script(script, login) => {
                LabGuest::Own(OwnGuest::from_script(script)?.with_login_of(login.as_ref())?.into())
            }
            KernelOrigin::Domain(domain, login) => {
                LabGuest::Own(OwnGuest::from_domain(domain)?.with_login_of(login.as_ref())?.into())
            }
        })
    }
}

/// An entry of a list with its name in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedEntry<T> {
    name: String,
    value: T,
}

/// A cell of a laboratory, by the names of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabCell {
    pub kernel: String,
    pub command_line: String,
    pub tuning: String,
    pub load: String,
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LabCell { kernel, command_line, tuning, load } = &self.cell;
        write!(f, "{kernel}, {command_line}, {tuning}, {load}, seed {}", self.seed)
    }
}

/// An experiment: a cell with a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    pub cell: LabCell,
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
/// # Ok::<(), onbeat_lab::TomlFileError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// The clock of all its guests.
    pub clock: ClockChoice,
    /// Its kernels, in the order of the file.
    pub kernels: Vec<KernelChoice>,
    command_lines: Vec<NamedEntry<Vec<String>>>,
    tunings: Vec<NamedEntry<LabTuning>>,
    loads: Vec<NamedEntry<Load>>,
    seeds: Vec<u32>,
    memory_mib: u32,
    limit: Duration,
    /// The measurement, without tuning and load.
    test: LatencyTest,
    /// What its guests are wired with.
    pub wiring: GuestWiring,
    /// By tuning and load, where guests measure by plans; without them by words, which the whole
    /// program takes.
    pub plans: Option<Vec<Vec<GuestPlan>>>,
}

impl Matrix {
    /// Reads a file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// When it cannot be read or is not valid.
    pub fn read(path: &Path) -> Result<Self, TomlFileError> {
        Self::from_toml(&toml_file::read(path)?, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads the text of a file. Paths in it are relative to `directory`.
    ///
    /// # Errors
    /// When it is not valid.
    pub fn from_toml(text: &str, directory: &Path) -> Result<Self, TomlFileError> {
        file::parse(text, directory)
    }

    /// Its first user's guest, if it has one: such a guest does not send the same bytes again.
    #[must_use]
    pub fn own_guest(&self) -> Option<&KernelChoice> {
        self.kernels.iter().find(|kernel| kernel.is_own())
    }

    /// Has guests measure by plans, which `plan` makes of a command's words: they need the agent alone then. `false` where one of
    /// them takes the whole program.
    ///
    /// # Errors
    /// What `plan` says against the words.
    pub fn plan_by(
        &mut self,
        plan: impl Fn(&[String]) -> Result<Option<GuestPlan>, String>,
    ) -> Result<bool, String> {
        let mut plans = Vec::new();
        for tuning in &self.tunings {
            let of_load = |load: &NamedEntry<Load>| plan(&self.test(&tuning.value, load).words());
            plans.push(self.loads.iter().map(of_load).collect::<Result<Option<Vec<_>>, _>>()?);
        }
        let is_more = |tuning: &NamedEntry<LabTuning>| !tuning.value.applied.is_empty();
        let takes_all = self.wiring == GuestWiring::TwoBoards || self.tunings.iter().any(is_more);
        self.plans = plans.into_iter().collect::<Option<_>>().filter(|_| !takes_all);
        Ok(self.plans.is_some())
    }

    /// The measurement with a tuning under a load.
    fn test(&self, tuning: &LabTuning, load: &NamedEntry<Load>) -> LatencyTest {
        let options = self.test.options.iter().chain(&tuning.options).cloned().collect();
        LatencyTest { load: load.value.to_string(), options, ..self.test.clone() }
    }

    /// Lengths of the lists, those of seeds last.
    const fn axes(&self) -> [usize; 5] {
        let Self { kernels, command_lines, tunings, loads, seeds, .. } = self;
        [kernels.len(), command_lines.len(), tunings.len(), loads.len(), seeds.len()]
    }

    /// Number of experiments; saturates.
    fn experiment_count(&self) -> usize {
        self.axes().into_iter().fold(1, usize::saturating_mul)
    }

    /// All experiments in the order of the lists, the seeds of a cell one after the other.
    #[must_use]
    pub fn experiments(&self) -> Vec<Experiment> {
        let experiment = |[kernel, line, tuning, load, seed]: [usize; 5]| Experiment {
            cell: LabCell {
                kernel: self.kernels[kernel].name.clone(),
                command_line: self.command_lines[line].name.clone(),
                tuning: self.tunings[tuning].name.clone(),
                load: self.loads[load].name.clone(),
            },
            seed: self.seeds[seed],
            indexes: [kernel, line, tuning, load],
        };
        product(self.axes()).map(experiment).collect()
    }

    /// The words that an experiment adds to the kernel's command line.
    fn kernel_arguments(&self, experiment: &Experiment) -> Vec<String> {
        let [_, line, tuning, _] = experiment.indexes;
        let of_tuning = &self.tunings[tuning].value.kernel_arguments;
        self.command_lines[line].value.iter().chain(of_tuning).cloned().collect()
    }

    /// The job of an experiment: its tuning, a delay by its seed, then the measurement.
    fn job(&self, experiment: &Experiment) -> Job {
        let [_, _, tuning_index, load] = experiment.indexes;
        let tuning = &self.tunings[tuning_index].value;
        let delay_us = u64::from(experiment.seed) * u64::from(DELAY_PER_SEED_US);

        let mut job = Job::new();
        let period = format!("{}ns", self.test.period.as_nanos());
        for id in &tuning.applied {
            job.apply_tuning(id, &["--period".to_owned(), period.clone()]);
        }

        if self.wiring == GuestWiring::TwoBoards {
            job.second_board(&tuning.options);
        }
        job.command(["usleep".to_owned(), delay_us.to_string()]);
        match &self.plans {
            Some(plans) => job.measurement(&plans[tuning_index][load]),
            None => job.latency(&self.test(tuning, &self.loads[load])),
        }
        job
    }
}

#[cfg(test)]
mod tests;
