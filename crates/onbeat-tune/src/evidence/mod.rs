//! What the kernel counted while a machine was watched: evidence for the findings of a check.
//!
//! Two [`HostCounters`] some seconds apart give an [`Evidence`]; its [`Evidence::about`] says
//! whether the counters that a record names have moved on the CPUs of the loop.
//!
//! | file | contents |
//! |---|---|
//! | `counters` | [`HostCounters`]: one reading of all counters |
//! | `tables` | the kernel's tables of numbers by CPU |
//! | `words` | sentences such as "interrupt 24 (virtio-net) fired 1,204 times on CPU 1" |
//!
//! [`Clue`] is what a record names of them.
//!
//! ```
//! use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
//! use onbeat_tune::evidence::{Evidence, HostCounters};
//!
//! let (host, setup) = (HostTree::live(), LoopSetup::default());
//! let before = HostCounters::read(&host, &setup);
//! let evidence = Evidence::between(&before, &HostCounters::read(&host, &setup), 0.1);
//! let mut records = catalogue().records.iter();
//! let record = records.find(|record| !record.evidence.is_empty()).expect("some name counters");
//! assert!(evidence.about(record, &setup.cpus).is_some());
//! ```
//!
//! Absent on purpose: measuring a loop, and any right that a user does not have. A counter that
//! cannot be read is listed in [`Evidence::unread`] with the reason.

mod counters;
pub(crate) mod tables;
mod words;

use serde::Serialize;

pub use crate::catalogue::clue::{Clue, CounterGroup, CounterName};
pub use counters::{HostCounters, UnreadCounter};

use crate::catalogue::{CheckVerdict, Finding, TuningRecord};
use crate::cpu_list::CpuList;

/// How far one counter has moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterDelta {
    /// Which counter.
    #[serde(flatten)]
    pub counter: CounterName,
    /// By how much; never 0.
    pub count: u64,
}

/// What has moved between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Time between the readings, in seconds.
    pub seconds: f64,
    /// The counters that have moved, largest first within a group.
    pub counters: Vec<CounterDelta>,
    /// Counters that could not be read.
    pub unread: Vec<UnreadCounter>,
    /// Timer slack of the loop's thread, or of this process where no loop runs, in nanoseconds;
    /// `None` where it cannot be read.
    pub timer_slack_ns: Option<u64>,
}

/// What the evidence says about one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordEvidence {
    /// Counters have moved: sentences, largest first.
    Moved(Vec<String>),
    /// No counter has moved.
    Still,
    /// The counters could not be read, because.
    Unread(String),
}

impl Evidence {
    /// Subtracts two readings that were taken `seconds` apart. A counter that fell was set back,
    /// and is left out.
    #[must_use]
    pub fn between(before: &HostCounters, after: &HostCounters, seconds: f64) -> Self {
        let moved = |(name, value): (&CounterName, &u64)| {
            let count = value.checked_sub(*before.values.get(name)?).filter(|count| *count > 0)?;
            Some(CounterDelta { counter: name.clone(), count })
        };
        let mut counters: Vec<_> = after.values.iter().filter_map(moved).collect();
        counters.sort_by_key(|delta| (delta.counter.group, std::cmp::Reverse(delta.count)));

        let HostCounters { unread, timer_slack_ns, .. } = after.clone();
        Self { seconds, counters, unread, timer_slack_ns }
    }

    /// Takes switches to a thread of the measurement itself out of those of its CPU.
    #[must_use]
    pub fn without_switches(mut self, cpu: u32, own: u64) -> Self {
        for delta in &mut self.counters {
            let name = &delta.counter;
            if name.group == CounterGroup::ContextSwitches && name.cpu.is_none_or(|of| of == cpu) {
                delta.count = delta.count.saturating_sub(own);
            }
        }

        self.counters.retain(|delta| delta.count > 0);
        self
    }

    /// Returns what the counters of a record say, on the CPUs of a loop; on all CPUs where none is
    /// given. `None` for a record that no counter concerns.
    #[must_use]
    pub fn about(&self, record: &TuningRecord, cpus: &CpuList) -> Option<RecordEvidence> {
        if record.evidence.is_empty() {
            return None;
        }

        let on_loop = |delta: &&CounterDelta| {
            delta.counter.cpu.is_none_or(|cpu| cpus.is_empty() || cpus.contains(cpu))
        };
        let is_meant =
            |delta: &&CounterDelta| record.evidence.iter().any(|clue| clue.fits(&delta.counter));
        let mut moved: Vec<_> =
            self.counters.iter().filter(on_loop).filter(is_meant).cloned().collect();
        if !moved.is_empty() {
            moved.sort_by_key(|delta| std::cmp::Reverse(delta.count));
            return Some(RecordEvidence::Moved(words::sentences(&moved)));
        }

        let unread =
            self.unread.iter().find(|of| record.evidence.iter().any(|clue| clue.group == of.group));
        Some(match unread {
            Some(unread) => RecordEvidence::Unread(unread.reason.clone()),
            None => RecordEvidence::Still,
        })
    }

    /// Judges a finding that needs two readings: bad where counters have moved. Counters that stood
    /// still leave it unknown, since what is rarer than the watched time is not seen.
    #[must_use]
    pub fn judged(&self, record: &TuningRecord, finding: Finding, cpus: &CpuList) -> Finding {
        let needs_watching = record.probe.iter().all(|spec| spec.kind() == "watch");
        if !needs_watching || !matches!(finding.verdict, CheckVerdict::Unknown(_)) {
            return finding;
        }

        match self.about(record, cpus) {
            Some(RecordEvidence::Moved(sentences)) => Finding {
                verdict: CheckVerdict::Bad,
                current: sentences.join("; "),
                wanted: "none".to_owned(),
                ..finding
            },
            Some(RecordEvidence::Still) => {
                let reason = format!("none in {} s, which excludes nothing rarer", self.seconds);
                Finding { verdict: CheckVerdict::Unknown(reason), ..finding }
            }
            Some(RecordEvidence::Unread(reason)) => {
                Finding { verdict: CheckVerdict::Unknown(reason), ..finding }
            }
            None => finding,
        }
    }
}
