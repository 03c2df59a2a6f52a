//! `onbeat measure PROBE --cpus 1-3`: a loop on each of several CPUs at the same time, a run file
//! each.

use std::fs;
use std::str::FromStr;
use std::sync::atomic::Ordering;

use onbeat::bench::at_once::{AtOnceConditions, AtOnceEvent, AtOncePlan, conduct};
use onbeat::probe::Interruptions;
use onbeat::record::run_dir::NewRunDir;
use onbeat_host::machine::online_cpus;
use onbeat_host::thread::may_run_on;
use onbeat_report::units::{Letters, count, time_ns};
use onbeat_tune::CpuList;

use super::life::Life;
use super::open_probe::{open_probe, planned_setting, releases};
use super::options::Measure;
use crate::cmd::carrier::carrier;
use crate::cmd::failure::cpus::CpusFailure;
use crate::cmd::looping::{limit, most_alarms};
use crate::cmd::so_far::SoFar;
use crate::cmd::view::BesideView;
use crate::cmd::{Common, ExitVerdict, Failure, findings, runs, show, typed};
use crate::term::{ProgressLine, Tone, advise, wrapped};

/// Probes whose loop needs no device, so that each CPU can have one.
const PER_CPU: [&str; 3] = ["timer", "hiccup", "latency"];

/// The CPUs asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CpuChoice {
    /// Every CPU that this process may use.
    All,
    Listed(CpuList),
}

impl FromStr for CpuChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => Ok(Self::All),
            "" => Err("no CPU is listed; write 1-3, 0,2 or all".to_owned()),
            list => list
                .parse()
                .map(Self::Listed)
                .map_err(|why: onbeat_tune::CpuListError| format!("{why}, or all")),
        }
    }
}

/// Which CPUs there are, and which of them this process may use.
struct MachineCpus<'m> {
    present: CpuList,
    online: CpuList,
    may_use: &'m dyn Fn(u32) -> bool,
}

impl MachineCpus<'_> {
    fn read() -> Self {
        let online: CpuList = online_cpus().into_iter().collect();
        let present = fs::read_to_string("/sys/devices/system/cpu/present").ok();
        let present = present.and_then(|text| text.parse().ok());
        Self { present: present.unwrap_or_else(|| online.clone()), online, may_use: &may_run_on }
    }

    fn chosen(&self, choice: &CpuChoice) -> Result<Vec<u32>, CpusFailure> {
        let allowed = || self.online.iter().filter(|cpu| (self.may_use)(*cpu)).collect::<CpuList>();
        let CpuChoice::Listed(list) = choice else {
            let all: Vec<u32> = allowed().iter().collect();
            return if all.is_empty() { Err(CpusFailure::NoneAllowed) } else { Ok(all) };
        };

        let listed = |cpus: CpuList| (!cpus.is_empty()).then(|| cpus.to_string());
        if let Some(cpus) = listed(list.minus(&self.present)) {
            return Err(CpusFailure::NotThere { cpus, present: self.present.to_string() });
        }
        if let Some(cpus) = listed(list.minus(&self.online)) {
            return Err(CpusFailure::Offline { cpus, online: self.online.to_string() });
        }
        if let Some(cpus) = listed(list.iter().filter(|cpu| !(self.may_use)(*cpu)).collect()) {
            return Err(CpusFailure::NotAllowed { cpus, allowed: allowed().to_string() });
        }
        Ok(list.iter().collect())
    }
}

pub(crate) fn run(
    measure: &Measure,
    choice: &CpuChoice,
    life: Option<Life>,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let Measure { probe, options, given } = measure;
    if !PER_CPU.contains(&probe.name) {
        return Err(CpusFailure::OneLoop { probe: probe.name }.into());
    }
    if most_alarms(&options.limit).is_some() {
        let what = format!("measure {}", probe.name);
        return Err(Common::NoEvents { what, instead: "measure the probe `bus`" }.into());
    }
    let cpus = MachineCpus::read().chosen(choice)?;

    // What cannot run leaves no directory behind.
    let (setting, _) = open_probe(measure, planned_setting(measure, options.duration, None))?;
    let plan = AtOncePlan {
        probe,
        given: given.clone(),
        setting,
        cpus: &cpus,
        load: &options.load,
        releases: releases(options.duration, &options.looping),
        limit: limit(&options.limit, probe.series[0]),
        findings: findings::findings(None, options.looping.period),
        command: typed(),
    };
    let carrier = carrier(&options.load, options.load_dir.as_deref())?;
    let new = NewRunDir::create(&options.output.out)?;
    let dir = new.path().to_owned();

    let progress = ProgressLine::new(options.duration as f64 / 1e9, options.output.json);
    let mut summary = SoFar::new(dir.clone(), &interruptions.summary);
    let mut view = BesideView::new(&options.beside_view, None);
    let mut life = life;
    let mut report = |event: AtOnceEvent<'_>| match event {
        AtOnceEvent::Warned(words) => {
            progress.above(|| advise(Tone::Careful, &wrapped(words, 80)));
        }
        AtOnceEvent::Running { elapsed_s, cycles, worst } => {
            runs::begin(&new);
            view.begin(&dir);
            if !summary.look_written() {
                progress.show(elapsed_s, &so_far(cycles, worst));
            }
            if life.as_mut().is_some_and(Life::is_over) {
                interruptions.stop.store(true, Ordering::Relaxed);
            }
        }
    };
    let conditions = AtOnceConditions { dir: &dir, carrier, interruptions, report: &mut report };
    let conducted = conduct(&plan, conditions).map_err(Failure::from);
    progress.finish();
    summary.end();
    view.end();
    runs::keep_if_begun(&new, conducted)?;
    show::made(&dir, &options.output)
}

/// `12,000 cycles, worst 34 us on CPU 3`.
fn so_far(cycles: u64, (cpu, worst_ns): (u32, u64)) -> String {
    let worst = time_ns(worst_ns, Letters::Ascii);
    format!("{} cycles, worst {worst} on CPU {cpu}", count(cycles))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn chosen(choice: &str, online: &str, allowed: &str) -> Result<Vec<u32>, String> {
        let allowed = list(allowed);
        let machine = MachineCpus {
            present: list("0-7"),
            online: list(online),
            may_use: &|cpu| allowed.contains(cpu),
        };
        machine.chosen(&choice.parse()?).map_err(|why| why.to_string())
    }

    #[test]
    fn a_list_or_all_become_the_cpus_of_the_loops() {
        assert_eq!(chosen("1-3,5", "0-7", "0-7"), Ok(vec![1, 2, 3, 5]));
        assert_eq!(chosen("3,3,1", "0-7", "0-7"), Ok(vec![1, 3]));
        assert_eq!(chosen("all", "0-5", "2-7"), Ok(vec![2, 3, 4, 5]));
    }

    #[test]
    fn what_cannot_be_used_is_refused_in_a_sentence_that_names_it() {
        let refused = |choice, online, allowed| chosen(choice, online, allowed).unwrap_err();
        assert_eq!(refused("6-9", "0-7", "0-7"), "this machine has no CPU 8-9; it has CPUs 0-7");
        assert_eq!(
            refused("0,6-7", "0-5", "0-5"),
            "CPU 6-7 is offline; CPUs online: 0-5 (echo 1 | sudo tee /sys/devices/system/cpu/cpuN/online brings one back)"
        );
        assert!(
            refused("0-3", "0-7", "0,2,5")
                .starts_with("this process may not use CPU 1,3: its cpuset allows 0,2,5")
        );
        for none in ["", " "] {
            assert_eq!(refused(none, "0-7", "0-7"), "no CPU is listed; write 1-3, 0,2 or all");
        }
        for wrong in ["3-1", "a", "1,,2", "-1", "0x3", "1-2-3", "ALL", "70000"] {
            assert!(refused(wrong, "0-7", "0-7").ends_with(", or all"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_choice_is_met_in_full_or_refused(
            wanted in proptest::collection::btree_set(0_u32..12, 1..6),
            online in proptest::collection::btree_set(0_u32..8, 1..8),
            allowed in proptest::collection::btree_set(0_u32..8, 1..8),
        ) {
            let of = |set: &std::collections::BTreeSet<u32>| set.iter().copied().collect::<CpuList>();
            let usable = of(&online).and(&of(&allowed));
            let got = chosen(&of(&wanted).to_string(), &of(&online).to_string(), &of(&allowed).to_string());
            prop_assert_eq!(got.is_ok(), of(&wanted).is_within(&usable));
            if let Ok(cpus) = got {
                prop_assert_eq!(cpus, wanted.into_iter().collect::<Vec<_>>());
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = CpuChoice::from_str(&text);
        }
    }
}
