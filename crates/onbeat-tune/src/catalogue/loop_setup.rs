//! The loop that a machine is checked for.

use std::fmt;

use crate::cpu_list::CpuList;

/// What the loop is like, and what it is given.
///
/// ```
/// use onbeat_tune::catalogue::LoopSetup;
///
/// let setup = LoopSetup { period_us: 250, ..LoopSetup::on("3".parse()?) };
/// assert_eq!(setup.loop_priority, 80);
/// # Ok::<(), onbeat_tune::TuneError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoopSetup {
    /// The CPUs given to the loop. Empty: none was chosen yet, and what depends on them is unknown.
    pub cpus: CpuList,
    /// The loop's thread, where it runs already.
    pub task: Option<i32>,
    /// The network interfaces of the fieldbus or of control traffic.
    pub interfaces: Vec<String>,
    /// The loop's period, in microseconds.
    pub period_us: i64,
    /// The longest exit latency of an idle state that the loop can bear, in microseconds.
    pub idle_exit_us: i64,
    /// The loop's `SCHED_FIFO` priority, 1 to 99.
    pub loop_priority: i64,
    /// Whether the loop polls without ever sleeping.
    pub polls: bool,
    /// Whether this machine runs virtual machines that are real-time themselves.
    pub runs_guests: bool,
}

impl Default for LoopSetup {
    /// A loop of 1 kHz at priority 80 that sleeps in each cycle and bears 20 µs of idle exit,
    /// without CPUs.
    fn default() -> Self {
        Self {
            cpus: CpuList::default(),
            task: None,
            interfaces: Vec::new(),
            period_us: 1000,
            idle_exit_us: 20,
            loop_priority: 80,
            polls: false,
            runs_guests: false,
        }
    }
}

impl LoopSetup {
    /// The default loop on these CPUs.
    #[must_use]
    pub fn on(cpus: CpuList) -> Self {
        Self { cpus, ..Self::default() }
    }

    /// Returns a figure of the loop.
    #[must_use]
    pub const fn number(&self, variable: LoopNumber) -> i64 {
        match variable {
            LoopNumber::PeriodUs => self.period_us,
            LoopNumber::IdleExitUs => self.idle_exit_us,
            LoopNumber::LoopPriority => self.loop_priority,
        }
    }
}

/// Figures of a loop that expressions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopNumber {
    /// `period_us`.
    PeriodUs,
    /// `idle_exit_us`.
    IdleExitUs,
    /// `loop_priority`.
    LoopPriority,
}

impl LoopNumber {
    /// Returns the variable of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "period_us" => Some(Self::PeriodUs),
            "idle_exit_us" => Some(Self::IdleExitUs),
            "loop_priority" => Some(Self::LoopPriority),
            _ => None,
        }
    }
}

/// Sets of CPUs that expressions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuSetVariable {
    /// `loop`: the CPUs given to the loop.
    Loop,
    /// `housekeeping`: the online CPUs that are not the loop's.
    Housekeeping,
    /// `online`.
    Online,
    /// `boot`: CPU 0.
    Boot,
    /// `interface_node`: the CPUs of the NUMA node of the loop's network interfaces.
    InterfaceNode,
}

impl CpuSetVariable {
    const NAMES: [(&'static str, Self); 5] = [
        ("loop", Self::Loop),
        ("housekeeping", Self::Housekeeping),
        ("online", Self::Online),
        ("boot", Self::Boot),
        ("interface_node", Self::InterfaceNode),
    ];

    /// Returns the variable of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable)
    }
}

impl fmt::Display for CpuSetVariable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            Self::NAMES.iter().find(|(_, variable)| variable == self).map_or("", |(name, _)| name);
        out.write_str(name)
    }
}
