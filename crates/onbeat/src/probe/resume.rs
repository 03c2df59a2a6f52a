//! A run that is resumed in its file: at which time it continues, and whether it is still the same
//! run.
//!
//! Times in a run file are seconds since its start. `CLOCK_MONOTONIC` restarts with the machine, so
//! only the wall clock knows for how long nothing was measured; its reading is used when it is
//! plausible.

use serde::{Deserialize, Serialize};

use super::start::Origin;
use onbeat_host::thread::Privilege;
use onbeat_record::{EndReason, Header, Past, Resume, Timing};

/// The longest plausible pause by the wall clock, in seconds, a little over a year: beyond it, the
/// clock was not set at one of the two times.
const LONGEST_PAUSE_S: f64 = 400.0 * 86_400.0;

/// The parts of one run would differ in what must not differ.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} cannot be resumed under other conditions than it began with: {}; start a new run without --resume",
    differences.join(", ")
)]
pub struct OtherRun {
    /// The run file.
    pub path: String,
    /// What differs, each with both values.
    pub differences: Vec<String>,
}

impl OtherRun {
    /// Refuses to resume a run as one that would have the header `now`.
    pub(crate) fn check(past: &Past, now: &Header) -> Result<(), Self> {
        let differences = differences(&past.header, now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Self { path: past.path.display().to_string(), differences })
    }
}

/// The instant and the time of its file at which a run is resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumePoint {
    /// The instant, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The time of the file at that instant.
    pub time: ResumeTime,
}

impl ResumePoint {
    /// Returns the point for a run that began at `started_unix_s` and whose file ends at `last_t`,
    /// when it is resumed now.
    #[must_use]
    pub fn now(started_unix_s: f64, last_t: f64) -> Self {
        let Origin { at, unix_s } = Origin::now();
        Self { at_ns: at.as_ns(), time: ResumeTime::new(started_unix_s, last_t, unix_s) }
    }
}

/// The time of its file at which a run is resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumeTime {
    /// Nanoseconds since the file's start.
    pub from_ns: u64,
    /// How long nothing was measured, in seconds, as far as is known.
    pub unmeasured_s: f64,
    /// What is wrong with the wall clock, as a sentence.
    pub doubt: Option<String>,
}

impl ResumeTime {
    /// Computes the time for a run that began at `started_unix_s` and whose file ends at `last_t`,
    /// when the wall clock reads `now_unix_s`.
    #[must_use]
    pub fn new(started_unix_s: f64, last_t: f64, now_unix_s: f64) -> Self {
        let t = now_unix_s - started_unix_s;
        let paused_s = t - last_t;
        let doubt = if paused_s < 0.0 {
            Some(format!(
                "the wall clock is {:.1} s before the last instant of the run file: how long nothing was measured is not known, \
                 and times continue where they ended",
                -paused_s
            ))
        } else if paused_s > LONGEST_PAUSE_S {
            Some(format!(
                "by the wall clock nothing was measured for {:.0} days, which means that the clock was not set: times continue \
                 where they ended",
                paused_s / 86_400.0
            ))
        } else {
            None
        };

        let (t, unmeasured_s) = if doubt.is_some() { (last_t, 0.0) } else { (t, paused_s) };
        // The file's times have milliseconds: rounded up, so that none comes before the last one.
        Self { from_ns: (t * 1e3).ceil() as u64 * 1_000_000, unmeasured_s, doubt }
    }

    /// Returns the note of the run file, for a part before it that ended for the reason `after`.
    #[must_use]
    pub const fn note(&self, after: Option<EndReason>) -> Resume {
        Resume { t: self.from_ns as f64 / 1e9, unmeasured_s: self.unmeasured_s, after, phase_ns: 0 }
    }
}

/// Returns what differs between the run as it began and as it would be resumed: machine, timing of
/// the loop, grants. The phase of the releases may differ, since the clock restarts with the
/// machine.
fn differences(then: &Header, now: &Header) -> Vec<String> {
    const FACTS: [&str; 3] = ["kernel", "processor", "CPUs online"];
    let mut found = Vec::new();
    for fact in FACTS {
        let of = |header: &Header| header.host.fact(fact).unwrap_or("unknown").to_owned();
        compare(&mut found, fact, &of(then), &of(now));
    }

    let before = then.timing.as_ref();
    let after = now.timing.as_ref();
    for (what, of) in TIMING {
        let of = |timing: Option<&Timing>| timing.map_or_else(|| "unknown".to_owned(), of);
        compare(&mut found, what, &of(before), &of(after));
    }

    for grant in &then.grants {
        let same = now.grants.iter().find(|other| other.what == grant.what);
        let words = |granted| if granted { "granted".to_owned() } else { "not granted".to_owned() };
        if let Some(other) =
            same.filter(|_| grant.privilege().is_some_and(Privilege::changes_the_loop))
        {
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
    ("CPU of the loop", |timing| {
        timing.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())
    }),
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
    use onbeat_host::machine::Host;

    #[test]
    fn times_continue_by_the_wall_clock() {
        let resume_time = ResumeTime::new(1_000.0, 20.5, 1_090.0);
        assert_eq!(
            (resume_time.from_ns, resume_time.unmeasured_s, resume_time.doubt),
            (90_000_000_000, 69.5, None)
        );
    }

    #[test]
    fn a_wall_clock_that_cannot_be_right_is_reported_and_times_continue_where_they_ended() {
        for now in [1_010.0, 2_000_000_000.0] {
            let resume_time = ResumeTime::new(1_000.0, 20.5, now);
            assert_eq!((resume_time.from_ns, resume_time.unmeasured_s), (20_500_000_000, 0.0));
            assert!(
                resume_time.doubt.is_some_and(|sentence| sentence.ends_with("where they ended"))
            );
        }
    }

    fn header(kernel: &str, period_ns: u64, phase_ns: u64) -> Header {
        let mut header = super::super::header(&[], "timer", super::super::timer::TIMER.series, 0.0);
        header.host = Host::from_facts([("kernel", Some(kernel.to_owned()))]);
        header.timing = Some(Timing {
            period_ns,
            phase_ns,
            avoids_tick: false,
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
        assert_eq!(
            differences(&header("6.1", 1_000, 1), &header("6.1", 1_000, 700)),
            [] as [String; 0]
        );
    }

    #[test]
    fn another_kernel_or_period_is_another_run() {
        assert_eq!(
            differences(&header("6.1", 1_000, 1), &header("6.2", 2_000, 1)),
            ["kernel was 6.1 and is 6.2", "period was 1000 ns and is 2000 ns"]
        );
    }
}
