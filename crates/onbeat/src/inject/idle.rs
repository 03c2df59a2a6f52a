//! `deep_idle`: releases that wake the CPU from a deep idle state.
//!
//! No disturbance is needed: the CPU of a loop with a long period enters deep idle states by itself
//! when it has no other work. So this disturber only observes, and logs the releases at which a
//! deep state was left.

use std::fs;
use std::path::{Path, PathBuf};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::actor::{Disturb, other_cpu, sleep_until};
use super::error::Error;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::thread::ThreadRequest;

/// States with a lower exit latency are not deep, in nanoseconds.
const DEEP_NS: u64 = 10_000;

/// An idle state, read from `/sys/devices/system/cpu/cpuN/cpuidle/stateM`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdleStateFiles {
    number: u64,
    name: String,
    exit_ns: u64,
    residency_ns: u64,
    dir: PathBuf,
}

impl IdleStateFiles {
    fn read(dir: PathBuf) -> Option<Self> {
        let number = dir.file_name()?.to_str()?.strip_prefix("state")?.parse().ok()?;
        let us = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
        let name = fs::read_to_string(dir.join("name")).ok()?.trim().to_owned();
        Some(Self {
            number,
            name,
            exit_ns: us("latency")? * 1000,
            residency_ns: us("residency")? * 1000,
            dir,
        })
    }

    fn entries(&self) -> u64 {
        fs::read_to_string(self.dir.join("usage"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    }
}

fn states(cpu_dir: &Path) -> Vec<IdleStateFiles> {
    let entries = fs::read_dir(cpu_dir.join("cpuidle")).into_iter().flatten().flatten();
    let mut states: Vec<IdleStateFiles> =
        entries.filter_map(|entry| IdleStateFiles::read(entry.path())).collect();
    states.sort_by_key(|state| state.number);
    states
}

/// The disturber.
pub(super) struct DeepIdle {
    cpu_dir: PathBuf,
    deep: Vec<IdleStateFiles>,
}

impl DeepIdle {
    pub(super) fn new(plan: &InjectionPlan) -> Self {
        Self::under(Path::new("/sys/devices/system/cpu"), plan.target.cpu)
    }

    fn under(cpus: &Path, cpu: u32) -> Self {
        Self { cpu_dir: cpus.join(format!("cpu{cpu}")), deep: Vec::new() }
    }
}

impl Disturb for DeepIdle {
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        ThreadRequest { cpu: other_cpu(plan.target.cpu), ..ThreadRequest::default() }
    }

    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let all = states(&self.cpu_dir);
        let words: Vec<String> =
            all.iter().map(|state| format!("{} {} ns", state.name, state.exit_ns)).collect();
        let deep = all.into_iter().filter(|state| state.exit_ns >= DEEP_NS);
        let (fit, long): (Vec<IdleStateFiles>, Vec<IdleStateFiles>) =
            deep.partition(|state| state.residency_ns + state.exit_ns < plan.grid.period_ns);
        if let ([], [first, ..]) = (fit.as_slice(), long.as_slice()) {
            return Err(plan.impossible(format!(
                "the shallowest deep state, {}, is entered for {} ns or more, and the period is {} ns; lengthen the period",
                first.name, first.residency_ns, plan.grid.period_ns
            )));
        }

        if fit.is_empty() {
            let known = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
            return Err(plan.impossible(format!(
                "CPU {} has no idle state that takes {DEEP_NS} ns or more to leave (known here: {known}); a guest's deep \
                 sleep is its host's",
                plan.target.cpu
            )));
        }

        self.deep = fit;
        Ok(())
    }

    fn disturb(&mut self, plan: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let before: Vec<u64> = self.deep.iter().map(IdleStateFiles::entries).collect();
        // A state's counter is incremented when the state is left.
        sleep_until(aim.wake_up.plus_ns(plan.lead_ns()));
        let left = self.deep.iter().zip(before).filter(|(state, before)| state.entries() > *before);
        let deepest = left.map(|(state, _)| state).max_by_key(|state| state.exit_ns)?;
        debug_assert!(Monotonic.now() >= aim.wake_up);

        Some(DisturbanceRecord {
            at: aim.wake_up,
            ns: deepest.exit_ns,
            figures: [deepest.number, deepest.exit_ns],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::{Fault, InjectionTarget, ReleaseGrid};
    use onbeat_rt::Instant;
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Duration;

    fn machine(states: &[(&str, u64, u64)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (number, (name, latency, residency)) in states.iter().enumerate() {
            let state = dir.path().join(format!("cpu3/cpuidle/state{number}"));
            fs::create_dir_all(&state).unwrap();
            for (file, text) in [
                ("name", (*name).to_owned()),
                ("latency", latency.to_string()),
                ("residency", residency.to_string()),
            ] {
                fs::write(state.join(file), text + "\n").unwrap();
            }

            fs::write(state.join("usage"), "41\n").unwrap();
        }

        dir
    }

    fn plan(period_ns: u64) -> InjectionPlan {
        InjectionPlan {
            fault: Fault::DeepIdle,
            every_ns: 100_000_000,
            for_ns: 1,
            count: 5,
            target: InjectionTarget { pid: 1, tid: 1, cpu: 3, priority: 0 },
            grid: ReleaseGrid { first_release: Instant::from_ns(0), period_ns, spin_ns: 0 },
        }
    }

    const REAL: [(&str, u64, u64); 3] = [("POLL", 0, 0), ("C1", 2, 2), ("C6", 133, 600)];

    #[test]
    fn a_guest_without_deep_states_says_so_and_names_those_it_has() {
        let dir = machine(&[("POLL", 0, 0), ("haltpoll idle", 1, 1)]);
        let refusal =
            DeepIdle::under(dir.path(), 3).prepare(&plan(10_000_000)).unwrap_err().to_string();
        assert!(refusal.contains("POLL 0 ns, haltpoll idle 1000 ns"), "{refusal}");
    }

    #[test]
    fn a_period_too_short_for_the_state_is_refused_with_both_numbers() {
        let dir = machine(&REAL);
        let refusal =
            DeepIdle::under(dir.path(), 3).prepare(&plan(500_000)).unwrap_err().to_string();
        assert!(refusal.contains("600000 ns") && refusal.contains("500000 ns"), "{refusal}");
    }

    #[test]
    fn a_release_is_logged_when_the_states_counter_moved_and_missed_when_not() {
        let dir = machine(&REAL);
        let mut idle = DeepIdle::under(dir.path(), 3);
        let plan = plan(10_000_000);
        idle.prepare(&plan).unwrap();
        let aim = plan.aim(Monotonic.now());

        assert_eq!(idle.disturb(&plan, &aim), None);
        // The counter moves all the time: whenever it is first read, it has moved at the release.
        let state = dir.path().join("cpu3/cpuidle/state2");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let mover = std::thread::spawn(move || {
            for usage in 42.. {
                fs::write(state.join("next"), format!("{usage}\n")).unwrap();
                fs::rename(state.join("next"), state.join("usage")).unwrap();
                if stopped.recv_timeout(Duration::from_millis(1)) != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
            }
        });

        // Again where this thread or the mover got no CPU before the release.
        let (aim, done) = (0..150)
            .find_map(|_| {
                let aim = plan.aim(Monotonic.now().plus_ns(200_000_000));
                idle.disturb(&plan, &aim).map(|done| (aim, done))
            })
            .unwrap();
        drop(stop);
        mover.join().unwrap();
        assert_eq!((done.at, done.ns, done.figures), (aim.wake_up, 133_000, [2, 133_000]));
    }
}
