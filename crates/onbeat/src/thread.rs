//! What a loop's thread asks of the system: policy and priority, a CPU, locked memory. Wanted, granted, why not.
//!
//! A refusal is never an error and never silent: it becomes a [`Grant`] that says what it costs and which line would
//! change it, and stands in the run file and in the report.
//!
//! Absent on purpose: changing the system's settings. Priority, affinity and memory locks belong to the thread and
//! go with it; everything that stays is [`onbeat_tune`]'s, with a journal.

mod lockdown;
mod memory;
mod pasted;
mod privilege;
mod scheduling;
mod usage;

use std::fs::File;
use std::io::Write;

use serde::{Deserialize, Serialize};

pub use lockdown::{LockdownError, Ports, lockdown};
pub use pasted::{shell_line, shell_word};
pub use privilege::Privilege;
pub(crate) use scheduling::run_by_deadline;
pub use scheduling::{AheadOfLoad, run_as_ordinary, stay_off_cpu};
pub use usage::{Usage, run_delay_ns};

/// One thing that was asked of the system: a rung of the capability ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What it is: `real-time priority`, `locked memory`, `CPU affinity`, `CPU shield`.
    pub what: String,
    /// What was asked for.
    pub wanted: String,
    /// Whether the system gave it.
    pub granted: bool,
    /// Why not.
    pub why_not: Option<String>,
    /// What going without costs.
    pub costs: Option<String>,
    /// The line that would grant it, as a shell takes it; what else there is to say stands behind a `#`.
    pub remedy: Option<String>,
}

impl Grant {
    /// Something the system gave.
    #[must_use]
    pub fn given(what: &str, wanted: impl Into<String>) -> Self {
        Self { what: what.to_owned(), wanted: wanted.into(), granted: true, why_not: None, costs: None, remedy: None }
    }

    /// Something it did not give.
    #[must_use]
    pub fn refused(what: &str, wanted: impl Into<String>, refusal: Refusal) -> Self {
        let Refusal { why_not, costs, remedy } = refusal;
        Self {
            what: what.to_owned(),
            wanted: wanted.into(),
            granted: false,
            why_not: Some(why_not),
            costs: Some(costs.to_owned()),
            remedy: Some(remedy),
        }
    }
}

/// This program as it would be typed, for remedies that work when they are pasted; quoted where a shell needs that.
#[must_use]
pub fn this_program() -> String {
    let path = std::fs::read_link("/proc/self/exe");
    path.map_or_else(|_| "onbeat".to_owned(), |path| shell_word(&path.display().to_string()))
}

/// Why something was not granted, what that costs, and what would change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why not, with the numbers.
    pub why_not: String,
    /// What going without costs.
    pub costs: &'static str,
    /// A line that would grant it.
    pub remedy: String,
}

/// What a loop's thread shall have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// `SCHED_FIFO` at this priority (1 to 99); `None` for an ordinary thread.
    pub fifo: Option<u32>,
    /// The CPU to stay on.
    pub cpu: Option<u32>,
    /// All memory of the process present and staying so, stack and heap touched beforehand.
    pub lock_memory: bool,
    /// Keep CPUs out of idle states whose exit takes longer than this many microseconds. Changes the whole machine while
    /// it is held, so it is off unless asked for.
    pub dma_latency_us: Option<i32>,
}

/// What belongs to the process, held as long as this lives.
#[derive(Debug)]
pub struct ProcessGrants {
    /// What was granted.
    pub grants: Vec<Grant>,
    _dma_latency: Option<File>,
}

impl Wanted {
    /// Asks for what belongs to the whole process: locked memory, the idle-state bound. Call before threads are
    /// started, so that their stacks are locked too.
    #[must_use]
    pub fn prepare_process(&self) -> ProcessGrants {
        let mut grants = Vec::new();
        if self.lock_memory {
            grants.push(memory::lock());
        }

        let held = self.dma_latency_us.map(hold_dma_latency);
        let (dma_latency, grant) = held.map_or((None, None), |(file, grant)| (file, Some(grant)));
        grants.extend(grant);
        ProcessGrants { grants, _dma_latency: dma_latency }
    }

    /// Asks for what belongs to the calling thread: affinity, policy, a touched stack. Call in the loop's thread.
    #[must_use]
    pub fn prepare_thread(&self) -> Vec<Grant> {
        scheduling::block_signals();
        let mut grants = Vec::new();
        grants.extend(self.cpu.map(scheduling::bind));
        if self.lock_memory {
            memory::touch_stack();
        }

        match self.fifo {
            Some(priority) => grants.push(scheduling::fifo(priority)),
            None => run_as_ordinary(),
        }

        grants
    }
}

fn hold_dma_latency(microseconds: i32) -> (Option<File>, Grant) {
    const PATH: &str = "/dev/cpu_dma_latency";
    let wanted = format!("at most {microseconds} us");
    let held = File::options().write(true).open(PATH).and_then(|mut file| {
        file.write_all(&microseconds.to_ne_bytes())?;
        Ok(file)
    });

    match held {
        Ok(file) => (Some(file), Grant::given("idle-state bound", wanted)),
        Err(why) => {
            let refusal = Refusal {
                why_not: format!("{PATH}: {why}"),
                costs: "CPUs may sleep deeply; waking up can take over 100 us",
                remedy: format!("sudo chgrp \"$(id -gn)\" {PATH} && sudo chmod g+w {PATH}"),
            };
            (None, Grant::refused("idle-state bound", wanted, refusal))
        }
    }
}
