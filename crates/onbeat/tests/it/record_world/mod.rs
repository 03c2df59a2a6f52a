//! A recorder of a loop with a period of a millisecond: what the tests of run files share.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;

use onbeat::host::Host;
use onbeat::record::{Header, Recorder, Recording, RunWriter, SpikeLimit};
pub use onbeat_rt::time::SECOND_NS;
use onbeat_rt::{End, Instant, Outcome};

pub const MS: u64 = 1_000_000;

/// The header of a run that this command began.
pub fn header(command: &[&str]) -> Header {
    Header {
        schema: Header::SCHEMA.into(),
        version: "0.0.0".into(),
        id: String::new(),
        machine: String::new(),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        probe: "timer".into(),
        series: Vec::new(),
        started_unix_s: 1_763_712_000.25,
        host: Host::default(),
        cell: None,
        timing: None,
        grants: Vec::new(),
        limit: None,
        looks: 0,
        most_alarms: None,
        findings: Vec::new(),
        task: None,
    }
}

pub const fn recording() -> Recording {
    Recording {
        period_ns: MS,
        work_ns: 0,
        interval_ns: SECOND_NS,
        spike_limit: SpikeLimit::TenTimesMedian,
    }
}

/// A recorder whose times begin with its clock.
pub fn recorder(path: &Path, header: &Header, recording: Recording) -> Recorder {
    Recorder::new(RunWriter::create(path, header).unwrap(), Instant::from_ns(0), recording)
}

/// A complete block whose last release was served.
pub fn outcome(from: Instant, slots: u64, cycles: u64) -> Outcome {
    Outcome {
        end: End::Complete,
        slots,
        cycles,
        skipped: slots - cycles,
        skipped_at_end: 0,
        last_end: from.plus_ns(slots * MS),
    }
}
