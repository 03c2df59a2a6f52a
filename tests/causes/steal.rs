//! Steal that explanations name, beside the kernel's own account of it.

use onbeat::cause::CauseKind;

use crate::planted::{Row, explanation};

/// `USER_HZ` is 100 on every architecture Linux runs on today.
const TICK_NS: u64 = 10_000_000;

/// What the hypervisor has taken from a CPU, by `/proc/stat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stolen {
    cpu: u32,
    ticks: u64,
}

impl Stolen {
    pub(crate) fn now(cpu: u32) -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
        let ticks = line.and_then(|line| line.split_ascii_whitespace().nth(7)?.parse().ok());
        Self { cpu, ticks: ticks.unwrap_or(0) }
    }

    pub(crate) fn since(self, earlier: &Self) -> Self {
        Self { ticks: self.ticks - earlier.ticks, ..self }
    }

    /// The sentence. Time stolen while the loop was not late is in no explanation, so explanations may only name less.
    pub(crate) fn beside<'r>(self, rows: impl Iterator<Item = &'r Row>) -> String {
        let explanations = rows.filter_map(Row::done).flat_map(|done| {
            let others = done.others.iter().filter_map(|late| late.explanation.as_ref());
            done.felt.iter().filter_map(explanation).chain(others)
        });
        let causes = explanations.flat_map(|explanation| &explanation.causes);
        let named: u64 = causes.filter(|cause| cause.kind == CauseKind::HypervisorSteal).map(|cause| cause.ns).sum();
        format!(
            "\n## Steal\n\nExplanations name {:.1} ms of steal; /proc/stat counts {:.0} ms on CPU {} over all runs, late cycles \
             or not, in ticks of 10 ms.\n",
            named as f64 / 1e6,
            (self.ticks * TICK_NS) as f64 / 1e6,
            self.cpu
        )
    }
}
