//! Policy, priority, CPU and locked memory for a loop's thread: what is requested, what is granted,
//! and why not.
//!
//! A refusal is neither an error nor silent: it becomes a [`Grant`] that says what it costs and
//! which command would change it. It is stored in the run file and shown in the report.
//!
//! Absent on purpose: changing the system's settings. Priority, affinity and memory locks belong to
//! the thread and end with it; `onbeat-tune` makes permanent changes, with a journal.

mod lockdown;
mod memory;
mod privilege;
mod scheduling;
mod shell;
mod usage;

use std::fs::File;
use std::io::Write;

use serde::{Deserialize, Serialize};

pub use lockdown::{LockdownError, LoopPorts, lockdown};
pub use memory::give_back_freed_memory;
pub use privilege::Privilege;
pub use scheduling::{AheadOfLoad, may_run_on, run_as_ordinary, run_by_deadline, stay_off_cpu};
pub use shell::{shell_line, shell_word};
pub use usage::{Usage, run_delay_ns, thread_cpu_ns};

/// The result of a request to the system, granted or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The kind of request: `real-time priority`, `locked memory`, `CPU affinity`, `CPU shield`.
    pub what: String,
    /// The requested operation.
    pub wanted: String,
    /// Whether it was granted.
    pub granted: bool,
    /// Reason of a refusal; `None` when granted.
    pub why_not: Option<String>,
    /// Consequence of a refusal; `None` when granted.
    pub costs: Option<String>,
    /// Shell command that would grant it; remarks follow a `#`. `None` when granted.
    pub remedy: Option<String>,
}

impl Grant {
    /// Makes a granted grant.
    #[must_use]
    pub fn given(what: &str, wanted: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            wanted: wanted.into(),
            granted: true,
            why_not: None,
            costs: None,
            remedy: None,
        }
    }

    /// Makes a refused grant.
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

/// Returns the path of this program, quoted for a shell if necessary, for remedies that work when
/// pasted.
#[must_use]
pub fn this_program() -> String {
    let path = std::fs::read_link("/proc/self/exe");
    path.map_or_else(|_| "onbeat".to_owned(), |path| shell_word(&path.display().to_string()))
}

/// Sets the OOM score of this process, -1000 (never a victim) to 1000; it ends with the process, and
/// processes that it starts later inherit it.
///
/// # Errors
/// The kernel's: a smaller score than before takes `CAP_SYS_RESOURCE`.
pub fn set_oom_score(score: i32) -> std::io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", format!("{score}\n"))
}

/// Reason, cost and remedy of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, with the numbers.
    pub why_not: String,
    /// The cost of a refusal.
    pub costs: &'static str,
    /// The command that would grant it.
    pub remedy: String,
}

/// The settings requested for a loop's thread and its process.
///
/// ```no_run
/// use onbeat_host::thread::ThreadRequest;
///
/// let request = ThreadRequest { fifo: Some(80), cpu: Some(1), lock_memory: true, ..ThreadRequest::default() };
/// let process = request.prepare_process();
/// let body = std::thread::spawn(move || request.prepare_thread());
/// let thread = body.join().unwrap_or_default();
/// for grant in process.grants.iter().chain(&thread).filter(|grant| !grant.granted) {
///     println!("{} refused: {:?}", grant.what, grant.why_not);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRequest {
    /// `SCHED_FIFO` at this priority (1 to 99); `None` for an ordinary thread.
    pub fifo: Option<u32>,
    /// The CPU to bind the thread to.
    pub cpu: Option<u32>,
    /// Whether to lock all memory of the process, with stack and heap touched beforehand.
    pub lock_memory: bool,
    /// Maximum exit latency of idle states, in microseconds. Affects the whole machine while it is
    /// held, so it is off by default.
    pub dma_latency_us: Option<i32>,
}

/// Grants for the whole process, held until this is dropped.
#[derive(Debug)]
pub struct ProcessGrants {
    pub grants: Vec<Grant>,
    _dma_latency: Option<File>,
}

impl ThreadRequest {
    /// Requests what applies to the whole process: locked memory, the idle-state limit. Call it
    /// before threads are started, so that their stacks are locked too.
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

    /// Requests what applies to the calling thread: affinity, policy, a touched stack. Call it in
    /// the loop's thread.
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
