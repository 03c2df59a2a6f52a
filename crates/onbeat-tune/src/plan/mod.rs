//! Plans: what would be changed on a machine for a loop, in order, as a file that people read and
//! edit.
//!
//! | file | contents |
//! |---|---|
//! | [`make`] | [`plan`]: from the findings of a check to steps |
//! | [`cpus`] | the choice of the loop's CPUs |
//! | [`steps`] | the steps of one record |
//! | [`recipes`] | steps of records that name no value to write |
//! | [`target`] | what a step changes: [`StepTarget`] |
//! | [`text`] | the file: TOML, read and written |
//!
//! ```no_run
//! use onbeat_tune::catalogue::HostTree;
//! use onbeat_tune::plan::{Plan, PlanProfile, PlanRequest, plan};
//!
//! let plan = plan(&HostTree::live(), &PlanRequest::profile(PlanProfile::Robot1k))?;
//! let text = plan.to_text();
//! assert_eq!(Plan::from_text(&text)?, plan);
//! # Ok::<(), onbeat_tune::plan::PlanError>(())
//! ```
//!
//! Absent on purpose: changes. A plan is made by reading alone, without root where the machine
//! allows it; [`crate::apply`] changes.

pub mod cpus;
pub mod make;
mod partition;
pub mod recipes;
pub mod steps;
pub mod target;
pub mod text;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::catalogue::{LoopSetup, catalogue};
use crate::cpu_list::CpuList;
pub use cpus::CpuChoice;
pub use make::plan;
pub use target::{StepTarget, ThreadGroup};

/// The schema of a plan file.
pub const PLAN_SCHEMA: &str = "onbeat.plan/1";

/// What would be changed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// The profile that the steps come from; absent where ids were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The CPUs of the loop, as `2-3`.
    pub cpus: String,
    /// Why these CPUs.
    pub cpus_because: String,
    /// The loop's thread; absent where it does not run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<i32>,
    /// When that thread started, in clock ticks since boot: its number may be that of another one
    /// when the plan is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_start_ticks: Option<u64>,
    /// The changes, in the order in which they are made.
    #[serde(default, rename = "step")]
    pub steps: Vec<PlanStep>,
    /// Tunings that are not as wanted and have no step, with the reason.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// The tuning it belongs to.
    pub id: String,
    /// What is changed.
    pub target: StepTarget,
    /// The value when the plan was made; for people. Undo restores what is found when the plan is
    /// applied.
    pub old: String,
    /// The value after.
    pub new: String,
    /// What a person would type instead.
    pub shell: String,
    /// What it takes until the change has an effect: `now`, `reboot`, ...
    pub takes: String,
    /// What it may break: level and sentence.
    pub risk: String,
}

/// A tuning without a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// The tuning.
    pub id: String,
    /// Why it has no step, or what a person does instead.
    pub because: String,
}

impl Plan {
    /// Returns the loop's CPUs.
    ///
    /// # Errors
    /// [`PlanError::Cpus`] where the text is not a list of CPUs.
    pub fn loop_cpus(&self) -> Result<CpuList, PlanError> {
        CpuList::parse_list(&self.cpus).map_err(|_| PlanError::Cpus { text: self.cpus.clone() })
    }

    /// Returns the kernel parameters of the plan's steps, which hold after a reboot, in order.
    pub fn boot_parameters(&self) -> impl Iterator<Item = &PlanStep> {
        self.steps.iter().filter(|step| matches!(step.target, StepTarget::Boot {}))
    }
}

/// A set of tunings for a kind of machine and loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanProfile {
    /// Reversible within a session, no service stopped.
    Bench,
    /// 1 ms at p99.9; a desktop stays usable.
    RobotSoft,
    /// 1 kHz with a budget of 100 µs.
    Robot1k,
    /// A loop that polls without sleeping.
    BusyPoll,
    /// The host of real-time guests.
    VmHost,
    /// A real-time guest.
    VmGuest,
}

impl PlanProfile {
    /// All of them, with the names that users type; the catalogue's profiles have the same names.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Bench, "bench"),
        (Self::RobotSoft, "robot-soft"),
        (Self::Robot1k, "robot-1k"),
        (Self::BusyPoll, "busy-poll"),
        (Self::VmHost, "vm-host"),
        (Self::VmGuest, "vm-guest"),
    ];

    /// Returns its name, here and in the catalogue.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(profile, _)| *profile == self).map_or("", |(_, name)| name)
    }

    /// Returns a loop's set-up with what the profile implies.
    #[must_use]
    pub fn fit(self, setup: &LoopSetup) -> LoopSetup {
        let polls = setup.polls || self == Self::BusyPoll;
        let runs_guests = setup.runs_guests || self == Self::VmHost;
        LoopSetup { polls, runs_guests, ..setup.clone() }
    }
}

impl fmt::Display for PlanProfile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for PlanProfile {
    type Err = PlanError;

    fn from_str(name: &str) -> Result<Self, PlanError> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name).map(|(profile, _)| *profile);
        found.ok_or_else(|| PlanError::Profile { name: name.to_owned() })
    }
}

/// Which tunings a plan is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tunings {
    /// Those of a profile.
    Profile(PlanProfile),
    /// These ids or aliases.
    Ids(Vec<String>),
}

/// What a plan is made for.
///
/// ```
/// use onbeat_tune::plan::{CpuChoice, PlanError, PlanProfile, PlanRequest};
///
/// let chosen = PlanRequest::profile(PlanProfile::Robot1k);
/// let given = PlanRequest { cpus: CpuChoice::List("3".parse().unwrap()), ..chosen };
/// assert!(matches!(given.cpus, CpuChoice::List(_)));
/// assert!(matches!(PlanRequest::ids(["no.such"]), Err(PlanError::UnknownId { .. })));
/// ```
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// Which tunings.
    pub tunings: Tunings,
    /// How the loop's CPUs are chosen.
    pub cpus: CpuChoice,
    /// The loop; its CPUs are replaced by the choice.
    pub setup: LoopSetup,
}

impl PlanRequest {
    /// A profile for the default loop, on CPUs that are chosen.
    #[must_use]
    pub fn profile(profile: PlanProfile) -> Self {
        Self {
            tunings: Tunings::Profile(profile),
            cpus: CpuChoice::Auto,
            setup: LoopSetup::default(),
        }
    }

    /// These ids for the default loop, on CPUs that are chosen.
    ///
    /// # Errors
    /// [`PlanError::UnknownId`] with the first that is neither an id nor an alias.
    pub fn ids<'i>(ids: impl IntoIterator<Item = &'i str>) -> Result<Self, PlanError> {
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        match ids.iter().find(|id| catalogue().resolve(id).is_empty()) {
            Some(id) => Err(PlanError::UnknownId { id: id.clone() }),
            None => Ok(Self {
                tunings: Tunings::Ids(ids),
                cpus: CpuChoice::Auto,
                setup: LoopSetup::default(),
            }),
        }
    }
}

/// The reason why a plan could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// The name of a profile is not known.
    #[error(
        "\"{name}\" is not a profile. Choose one of bench, robot-soft, robot-1k, busy-poll, vm-host, vm-guest"
    )]
    Profile {
        /// What was given.
        name: String,
    },
    /// An id is not in the catalogue.
    #[error("\"{id}\" is not a tuning. `onbeat tune check` lists all of them")]
    UnknownId {
        /// What was given.
        id: String,
    },
    /// A text is not a list of CPUs.
    #[error("\"{text}\" is not a list of CPUs. Write for example 2-3")]
    Cpus {
        /// What was given.
        text: String,
    },
    /// The machine has a single CPU, or cannot say which it has.
    #[error(
        "no CPU can be given to the loop: CPUs {online} are online, and one must remain for everything else"
    )]
    NoCpu { online: CpuList },
    /// A CPU is not online.
    #[error("CPU {cpus} cannot be given to the loop: only {online} are online")]
    NotOnline {
        /// The CPUs that were asked for.
        cpus: CpuList,
        online: CpuList,
    },
    /// The choice leaves nothing for the rest of the machine.
    #[error("CPUs {cpus} for the loop leave none of {online} for everything else. Give it fewer")]
    NoHousekeeping {
        /// The CPUs that were asked for.
        cpus: CpuList,
        online: CpuList,
    },
    /// A fact that every plan needs cannot be read.
    #[error("cannot plan: {why}")]
    Machine {
        /// The reason.
        why: String,
    },
    /// The file is not a valid plan.
    #[error("the plan is not valid: {problem}")]
    Text {
        /// The parser's sentence, with line and column.
        problem: String,
    },
    /// The file has another schema.
    #[error("the plan has the schema \"{found}\"; this onbeat reads \"{PLAN_SCHEMA}\"")]
    Schema {
        /// What the file says.
        found: String,
    },
}
