//! What was not as wanted when a run began, for its file and its page.

use onbeat::record::FindingNote;
use onbeat_tune::CpuList;
use onbeat_tune::catalogue::{CheckVerdict, HostTree, LoopSetup, catalogue, check};
use onbeat_tune::plan::CpuChoice;

use super::checked::{self, CheckedTuning, takes_word};
use super::machine;

/// Returns the bad findings for a loop with this period, the most harmful first. Without a CPU it
/// is the one that a plan would choose; where none can be chosen there are no findings.
pub(crate) fn findings(cpu: Option<u32>, period_ns: u64) -> Vec<FindingNote> {
    of_loop(None, cpu, period_ns)
}

/// The same for a running loop, whose own settings are among them.
pub(crate) fn of_loop(task: Option<i32>, cpu: Option<u32>, period_ns: u64) -> Vec<FindingNote> {
    let tree = HostTree::live();
    let period_us = machine::whole_us(period_ns);
    let usual = LoopSetup { period_us, task, ..LoopSetup::default() };
    let choice = cpu.map_or(CpuChoice::Auto, |cpu| CpuChoice::List(CpuList::from_iter([cpu])));
    let Ok(chosen) = machine::chosen(&tree, &usual, &choice) else { return Vec::new() };
    let setup = LoopSetup { cpus: chosen.cpus, ..usual };

    let records = catalogue().records.iter();
    let all = records.zip(check(&tree, &setup));
    let mut bad: Vec<CheckedTuning> = all
        .filter(|(_, finding)| finding.verdict == CheckVerdict::Bad)
        .map(|(record, finding)| CheckedTuning::new(record, finding, None))
        .collect();
    checked::sort(&mut bad);
    bad.into_iter().map(note).collect()
}

fn note(CheckedTuning { record, finding, .. }: CheckedTuning) -> FindingNote {
    let takes: Vec<&str> = record.takes_effect.iter().map(|takes| takes_word(*takes)).collect();
    FindingNote {
        id: record.id.clone(),
        title: record.title.clone(),
        effect: record.effect,
        current: finding.current,
        wanted: finding.wanted,
        takes: takes.join(", "),
        mends: record.mends.clone(),
    }
}
