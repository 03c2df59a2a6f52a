//! A run that goes on in its file: at which time, and whether it still is the same run.
//!
//! Times in a run file are seconds since its start. `CLOCK_MONOTONIC` begins anew with the machine, so that only the wall
//! clock can tell for how long nothing was measured; what it tells is used when it can be true.

use crate::record::{Header, Timing};
use crate::thread::Privilege;

/// A run is not gone on with after a longer pause by the wall clock's word, in seconds: that clock was not set then, or is
/// not now. A little over a year.
const LONGEST_PAUSE_S: f64 = 400.0 * 86_400.0;

/// What may not differ between the parts of one run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} cannot be gone on with, since it would be a run of two kinds: {}; start a new run without --resume",
    differences.join(", ")
)]
pub struct OtherRun {
    /// The run file.
    pub path: String,
    /// What differs, each with both values.
    pub differences: Vec<String>,
}

/// Seconds since the file's start at which a run goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Onset {
    /// In nanoseconds.
    pub from_ns: u64,
    /// For how long nothing was measured, in seconds, as far as is known.
    pub unmeasured_s: f64,
    /// What is wrong with the wall clock, in words.
    pub doubt: Option<String>,
}

impl Onset {
    /// Of a run that began at `started_unix_s` and whose file goes up to `last_t`, by a wall clock that says `now_unix_s`.
    #[must_use]
    pub fn of(started_unix_s: f64, last_t: f64, now_unix_s: f64) -> Self {
        let t = now_unix_s - started_unix_s;
        let paused_s = t - last_t;
        let doubt = if paused_s < 0.0 {
            Some(format!(
                "the wall clock stands {:.1} s before the last instant of the run file: for how long nothing was measured is \
                 not known, and times go on where they had ended",
                -paused_s
            ))
        } else if paused_s > LONGEST_PAUSE_S {
            Some(format!(
                "by the wall clock nothing was measured for {:.0} days, which is taken for a clock that was not set: times go \
                 on where they had ended",
                paused_s / 86_400.0
            ))
        } else {
            None
        };

        let (t, unmeasured_s) = if doubt.is_some() { (last_t, 0.0) } else { (t, paused_s) };
        // The file's times have milliseconds: up, so that none comes before the last one.
        Self { from_ns: (t * 1e3).ceil() as u64 * 1_000_000, unmeasured_s, doubt }
    }
}

/// What differs between the run as it was begun and as it would go on: the machine, the loop's timing, what was granted.
/// Where the releases lie in each period does not matter: the clock began anew.
#[must_use]
pub fn differences(then: &Header, now: &Header) -> Vec<String> {
    const FACTS: [&str; 3] = ["kernel", "processor", "CPUs online"];
    let mut found = Vec::new();
    for fact in FACTS {
        let of = |header: &Header| header.host.fact(fact).unwrap_or("unknown").to_owned();
        compare(&mut found, fact, &of(then), &of(now));
    }

    let (before, after) = (then.timing.as_ref(), now.timing.as_ref());
    for (what, of) in TIMING {
        let of = |timing: Option<&Timing>| timing.map_or_else(|| "unknown".to_owned(), of);
        compare(&mut found, what, &of(before), &of(after));
    }

    for grant in &then.grants {
        let same = now.grants.iter().find(|other| other.what == grant.what);
        let words = |granted| if granted { "granted".to_owned() } else { "not granted".to_owned() };
        if let Some(other) = same.filter(|_| grant.privilege().is_some_and(Privilege::changes_the_loop)) {
            compare(&mut found, &grant.what, &words(grant.granted), &words(other.granted));
        }
    }

    found
}

type OfTiming = fn(&Timing) -> String;

const TIMING: [(&str, OfTiming); 8] = [
    ("period", |timing| ns(timing.period_ns)),
    ("deadline", |timing| ns(timing.deadline_ns)),
    ("work", |timing| ns(timing.work_ns)),
    ("delay", |timing| ns(timing.delay_ns)),
    ("wait", |timing| timing.wait.clone()),
    ("overrun policy", |timing| timing.on_overrun.clone()),
    ("CPU of the loop", |timing| timing.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())),
    ("priority", |timing| timing.priority.to_string()),
];

fn ns(ns: u64) -> String {
    format!("{ns} ns")
}

fn compare(found: &mut Vec<String>, what: &str, then: &str, now: &str) {
    if then != now {
        found.push(format!("{what} was {then} and is {now}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    #[test]
    fn times_go_on_by_the_wall_clock() {
        let onset = Onset::of(1_000.0, 20.5, 1_090.0);
        assert_eq!((onset.from_ns, onset.unmeasured_s, onset.doubt), (90_000_000_000, 69.5, None));
    }

    #[test]
    fn a_wall_clock_that_cannot_be_right_is_told_and_times_go_on_where_they_ended() {
        for now in [1_010.0, 2_000_000_000.0] {
            let onset = Onset::of(1_000.0, 20.5, now);
            assert_eq!((onset.from_ns, onset.unmeasured_s), (20_500_000_000, 0.0));
            assert!(onset.doubt.is_some_and(|sentence| sentence.ends_with("where they had ended")));
        }
    }

    fn header(kernel: &str, period_ns: u64, phase_ns: u64) -> Header {
        let mut header = super::super::header(&[], "timer", super::super::timer::TIMER.series, 0.0);
        header.host = Host::told([("kernel", Some(kernel.to_owned()))]);
        header.timing = Some(Timing {
            period_ns,
            phase_ns,
            deadline_ns: 1,
            work_ns: 0,
            wait: "sleep".into(),
            on_overrun: "skip".into(),
            cpu: None,
            priority: 90,
            delay_ns: 0,
        });

        header
    }

    #[test]
    fn the_same_machine_and_timing_are_the_same_run_at_any_phase() {
        assert_eq!(differences(&header("6.1", 1_000, 1), &header("6.1", 1_000, 700)), [] as [String; 0]);
    }

    #[test]
    fn another_kernel_or_period_is_another_run() {
        assert_eq!(
            differences(&header("6.1", 1_000, 1), &header("6.2", 2_000, 1)),
            ["kernel was 6.1 and is 6.2", "period was 1000 ns and is 2000 ns"]
        );
    }
}
