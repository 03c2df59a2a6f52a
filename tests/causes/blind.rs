//! The blind variant: fault, length, phase, CPU and load are drawn at random from a seed.
//!
//! A draw is one loop with [`EACH`] injections of one fault. The draws depend on the machine only
//! by its CPUs, and are printed. They are executed load by load, so that each load is started once.

use std::collections::BTreeMap;

use onbeat::host::online_cpus;
use onbeat::inject::Fault;
use onbeat::probe::disturbed::Disturbance;
use onbeat_report::units::{Letters, time_ns};
use onbeat_rt::cycle::Phase;

use crate::condition::{Background, BackgroundLoad, Class, Condition};
use crate::matrix::{detail, of_sum};
use crate::planted::{Judgement, Ordinary, Planted, in_a_thread, judged, ordinary};
use crate::seed::Random;
use crate::tally::{Tally, percent, percent_with_interval};
use crate::{Arguments, Failure, MS, PLACEBOS};

/// Injections of one draw.
const EACH: usize = 5;
/// Lengths are drawn from this range, in nanoseconds, as far as the fault allows them.
const LEAST_NS: u64 = 150_000;
const MOST_NS: u64 = 5 * MS;

/// One draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Draw {
    fault: Fault,
    condition: Condition,
    cpu: u32,
    /// Release phase within a millisecond, in nanoseconds.
    phase_ns: u64,
    dose_ns: u64,
    count: usize,
}

/// Returns the draws of a seed for `spikes` injections.
fn draws(seed: u64, spikes: usize, cpus: &[u32], asked: &Arguments) -> Vec<Draw> {
    let mut random = Random::new(seed);
    let mut draws = Vec::new();
    let mut left = spikes;
    // If no requested combination fits, no draw is accepted.
    for _ in 0..spikes.saturating_mul(100) {
        if left == 0 {
            break;
        }

        let Some(draw) = one(&mut random, cpus, asked) else { continue };
        let count = draw.count.min(left);
        left -= count;
        draws.push(Draw { count, ..draw });
    }

    draws
}

/// Draws once; `None` if the drawn values do not fit together.
fn one(random: &mut Random, cpus: &[u32], asked: &Arguments) -> Option<Draw> {
    let fault = random.one_of(&asked.faults)?;
    let (class, load) = (random.one_of(&asked.classes)?, random.one_of(&asked.loads)?);
    let (cpu, phase_ns) = (random.one_of(cpus)?, random.below(MS));
    let condition = Condition { class, load };
    let usual_ns = condition.dose_ns(fault);
    let is_given = matches!(
        fault,
        Fault::RtThrottling | Fault::FairServer | Fault::DeepIdle | Fault::CpuQuota
    );
    let least_ns = if usual_ns > MOST_NS { usual_ns / 2 } else { LEAST_NS };
    let drawn_ns = random.scaled(least_ns, MOST_NS.max(usual_ns).min(fault.longest_ns()));
    let dose_ns = if is_given { usual_ns } else { drawn_ns };
    let count = if fault.least_every_ns() > 1000 * MS { 1 } else { EACH };

    condition.unfit(fault).is_none().then_some(Draw {
        fault,
        condition,
        cpu,
        phase_ns,
        dose_ns,
        count,
    })
}

/// Draws, plants, judges and prints.
pub(crate) fn run(seed: u64, spikes: usize, asked: &Arguments) -> Result<(), Failure> {
    let cpus = online_cpus();
    let draws = draws(seed, spikes, &cpus, asked);
    println!(
        "Blind: seed {seed}, {spikes} injections in {} draws on CPUs {cpus:?}.\n",
        draws.len()
    );
    println!(
        "| draw | planted | loop, load | CPU | phase | dose | planted | missed | named |\n|--:|---|---|--:|--:|--:|--:|--:|---|"
    );
    let mut carried = Results::default();
    for load in Background::ALL
        .into_iter()
        .filter(|load| draws.iter().any(|draw| draw.condition.load == *load))
    {
        let _loaded = BackgroundLoad::start(load)?;
        let here = draws.iter().enumerate().filter(|(_, draw)| draw.condition.load == load);
        for (number, draw) in here {
            carried.out(number, draw)?;
        }
    }

    carried.print(asked.details);
    Ok(())
}

/// Results of the draws so far.
#[derive(Default)]
struct Results {
    ordinary: BTreeMap<(Condition, u32), Ordinary>,
    by_fault: BTreeMap<&'static str, Tally>,
    sum: Tally,
    details: String,
}

impl Results {
    fn out(&mut self, number: usize, draw: &Draw) -> Result<(), Failure> {
        let Draw { fault, condition, cpu, phase_ns, dose_ns, count } = *draw;
        self.learn(condition, cpu)?;
        let every_ns = fault.least_every_ns().max(100 * MS);
        let asked = Disturbance { fault, every_ns, for_ns: dose_ns, count, placebo: false };
        let planted = in_a_thread(&condition.setting(fault, cpu, Phase::At(phase_ns)), &asked)?;
        let ordinary = self.ordinary.get(&(condition, cpu)).cloned().unwrap_or_default();
        let (planted, missed, named) = match planted {
            Planted::Not(reason) => (0, 0, format!("not possible here: {reason}")),
            Planted::Done(done) => {
                let mut tally = Tally::default();
                for felt in &done.felt {
                    let judged = judged(felt, &ordinary);
                    tally.add(judged);
                    if !matches!(judged, Judgement::First | Judgement::Right) {
                        self.details.push_str(&detail(felt, &format!("draw {number}: {judged:?}")));
                    }
                }

                self.by_fault.entry(fault.word()).or_default().join(&tally);
                self.sum.join(&tally);
                (done.felt.len(), done.missed, words(&tally))
            }
        };

        let (phase, dose) =
            (time_ns(phase_ns, Letters::Unicode), time_ns(dose_ns, Letters::Unicode));
        let condition = condition.words();
        println!(
            "| {number} | `{fault}` | {condition} | {cpu} | {phase} | {dose} | {planted} | {missed} | {named} |"
        );
        Ok(())
    }

    /// Measures the causes of a cycle without an injection, once for each condition and CPU.
    fn learn(&mut self, condition: Condition, cpu: u32) -> Result<(), Failure> {
        if self.ordinary.contains_key(&(condition, cpu)) {
            return Ok(());
        }

        let fault = Fault::OwnOverrun;
        let asked =
            Disturbance { fault, every_ns: 50 * MS, for_ns: MS, count: PLACEBOS, placebo: true };
        if let Planted::Done(done) =
            in_a_thread(&condition.setting(fault, cpu, Phase::AvoidTick), &asked)?
        {
            self.ordinary.insert((condition, cpu), ordinary(&done.felt));
        }

        Ok(())
    }

    fn print(&self, details: bool) {
        println!(
            "\n| planted | judged | first | right | wrong | unexplained | named wrongly | swamped |"
        );
        println!("|---|--:|--:|--:|--:|--:|---|--:|");
        for (fault, tally) in &self.by_fault {
            let all = tally.all();
            println!(
                "| `{fault}` | {all} | {} | {} | {} | {} | {} | {} |",
                percent(tally.first, all),
                percent_with_interval(tally.first + tally.right, all),
                percent(tally.wrong_ones(), all),
                tally.unexplained + tally.nothing,
                tally.wrong_words(),
                tally.swamped
            );
        }

        println!("\n{}", of_sum(&self.sum));
        if details {
            println!("## Named otherwise\n\n{}", self.details);
        }
    }
}

fn words(tally: &Tally) -> String {
    let parts = [
        (tally.first, "first"),
        (tally.right, "right"),
        (tally.unexplained, "unexplained"),
        (tally.nothing, "nothing"),
        (tally.swamped, "swamped"),
    ];
    let parts = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"));
    let wrong = tally.wrong.iter().map(|(kind, count)| format!("{count} wrong: {}", kind.words()));

    parts.chain(wrong).collect::<Vec<_>>().join(", ")
}

/// Checks that a seed always gives the same draws, that another seed gives others, and that all of
/// them fit.
pub(crate) fn check() {
    let asked = Arguments {
        faults: Fault::ALL.to_vec(),
        classes: Class::ALL.to_vec(),
        loads: Background::ALL.to_vec(),
        count: 1,
        details: false,
        blind: None,
        require: None,
        longer: 1,
    };

    let of = |seed| draws(seed, 500, &[0, 1], &asked);
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    assert_eq!(of(7).iter().map(|draw| draw.count).sum::<usize>(), 500);
    for draw in of(7) {
        let Draw { fault, condition, dose_ns, phase_ns, .. } = draw;
        assert!(condition.unfit(fault).is_none() && phase_ns < MS, "{draw:?}");
        assert!(dose_ns > 0 && dose_ns <= fault.longest_ns(), "{draw:?}");
    }

    let nothing_fits =
        Arguments { faults: vec![Fault::RtThrottling], classes: vec![Class::Ordinary], ..asked };
    assert_eq!(draws(7, 500, &[0], &nothing_fits), []);
}
