//! The noise probe: what takes a CPU from a thread that does nothing but read the clock.
//!
//! A thread polls the clock for a share of each period and sleeps for the rest, as the kernel's
//! hwlat and osnoise tracers and oslat do. Each step of the clock over the threshold is a gap; the
//! flight recorder's events in it say who had the CPU ([`onbeat_cause::noise`]).

mod companion;
mod polling;
mod shared;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use onbeat_rt::Sample;
use onbeat_rt::ring::{Ring, Slot, split};

use self::companion::{NoiseCompanion, PollingEnds};
use self::polling::{PollRecord, PollingBody, Totals, median_step_ns};
use super::description::{Defaults, Description, Given, Parts};
use super::error::ProbeError;
use super::option::{OptionKind, ProbeOption};
use super::setting::Setting;
use onbeat_host::machine;
use onbeat_record::{Figures, NoiseAccount, Series, SpikeLimit};
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;

/// The description of the probe.
pub const NOISE: Description = Description {
    name: "noise",
    sentence: "From one clock reading of a polling thread to the next: what interrupts, threads, hardware or a hypervisor take",
    examples: "  onbeat measure noise --for 30s --cpu 1
  onbeat measure noise --limit 20us --at 99 --for 5m --load paper
      at most one window in a hundred has a longer gap
  onbeat measure noise --cpus 1-3 --for 1m
      each of several CPUs at once
  onbeat measure noise --period 1s --busy 95% --threshold 5us --for 1h
      as osnoise polls",
    series: &[Series::WorstGap, Series::Gap],
    defaults: Defaults { period: "10ms", priority: "90", duration: "10s" },
    choices: &[
        ProbeOption {
            name: "busy",
            help: "Share of each period in which to poll",
            default: Some("90%"),
            kind: OptionKind::Percent,
        },
        ProbeOption {
            name: "threshold",
            help: "Shortest gap that counts\nAt least twice the time between two clock readings on this machine.",
            default: Some("1us"),
            kind: OptionKind::Time,
        },
    ],
    line_a_second: false,
    open,
};

/// Records that wait for the companion, which looks every 20 ms.
const RECORDS: usize = 1 << 15;
/// Largest share of a period that can be polled, in hundredths of a percent: the thread must sleep.
const MOST_BUSY: u64 = 9_900;

fn open(setting: &mut Setting, given: &Given) -> Result<Parts, ProbeError> {
    if setting.work_ns > 0 {
        return Err(ProbeError::NoMeaning {
            option: "--work",
            why: "a polling thread has no other work; --busy is the share of its polling",
        });
    }
    let busy = given.hundredths_of_percent("busy");
    admit(busy, setting.thread.fifo)?;
    let cpu = setting.thread.cpu.unwrap_or_else(|| loop_cpu(&HostTree::live()).cpu);
    setting.thread.cpu = Some(cpu);
    // Of a gap the companion says the cause, with a recorder of its own; and no cycle is a spike
    // because it polls.
    let is_recorded = std::mem::replace(&mut setting.causes, false);
    setting.spike_limit = SpikeLimit::Above(u64::MAX);
    setting.warmup = 0;

    let step_ns = median_step_ns();
    let asked_ns = given.time_ns("threshold");
    let threshold_ns = asked_ns.max(2 * step_ns);
    let slots = (0..RECORDS).map(|_| Slot::empty()).collect::<Vec<Slot<PollRecord>>>();
    // For the rest of the process: both ends outlive this function, and a process opens few probes.
    #[allow(clippy::expect_used)] // A power of two, above.
    let ring = Box::leak(Box::new(Ring::over(slots.leak()).expect("a power of two")));
    let (records, taken) = split(ring);
    let tid = Arc::new(AtomicU32::new(0));
    let ended = Arc::new(Mutex::new(Totals::default()));
    let window_ns = setting.period_ns.saturating_mul(busy) / 10_000;

    let account = NoiseAccount {
        cpu,
        threshold_ns,
        step_ns,
        is_guest: machine::is_guest(),
        not_recorded: (!is_recorded).then(|| "--no-causes".to_owned()),
        ..NoiseAccount::default()
    };
    let raised = (threshold_ns > asked_ns).then_some(asked_ns);
    Ok(Parts {
        body: Box::new(PollingBody {
            records,
            threshold_ns,
            window_ns,
            tid: Arc::clone(&tid),
            totals: Totals::default(),
            ended: Arc::clone(&ended),
        }),
        figures: Box::new(LargestGaps),
        companion: Box::new(NoiseCompanion::new(
            account,
            PollingEnds { taken, tid, ended },
            raised,
        )),
    })
}

/// What real-time threads that poll at the same time leave to everything else, those that record
/// them among it, in hundredths of a percent of a CPU.
const LEAST_LEFT: u64 = 5_000;

/// Refuses to poll on `loops` CPUs of `usable` ones at once where nothing would be left to the rest of
/// the machine. Ordinary threads share with others and leave enough.
///
/// # Errors
/// [`ProbeError::NothingLeft`].
pub fn admit_at_once(
    (loops, usable): (u64, u64),
    given: &Given,
    fifo: Option<u32>,
) -> Result<(), ProbeError> {
    let busy = given.hundredths_of_percent("busy");
    let left = (usable * 10_000).saturating_sub(loops * busy);
    if fifo.is_none() || left >= LEAST_LEFT {
        return Ok(());
    }
    let most = (usable * 10_000).saturating_sub(LEAST_LEFT) / loops.max(1) / 100;
    let percent = |hundredths: u64| hundredths as f64 / 100.0;
    Err(ProbeError::NothingLeft {
        percent: percent(busy),
        loops,
        left: percent(left),
        least: percent(LEAST_LEFT),
        most,
    })
}

/// Refuses a share that the kernel would not give, and 0.
fn admit(busy: u64, fifo: Option<u32>) -> Result<(), ProbeError> {
    let percent = busy as f64 / 100.0;
    if busy == 0 || busy > MOST_BUSY {
        return Err(ProbeError::Share { percent, most: MOST_BUSY as f64 / 100.0 });
    }
    let Some((priority, (runtime_us, period_us))) = fifo.zip(machine::real_time_limit_us()) else {
        return Ok(());
    };
    if u128::from(busy) * u128::from(period_us) > u128::from(runtime_us) * 10_000 {
        return Err(ProbeError::Throttled { percent, priority, runtime_us, period_us });
    }
    Ok(())
}

/// The largest gap of each window.
#[derive(Clone, Copy, Debug)]
struct LargestGaps;

impl Figures for LargestGaps {
    fn series(&self) -> &'static [Series] {
        NOISE.series
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        count(Series::WorstGap, sample.note.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::SettingValue;

    #[test]
    fn polling_on_all_cpus_leaves_half_of_one_to_everything_else() {
        let of = |busy: u64| Given(vec![("busy", SettingValue::Percent(busy))]);
        let words = |why: ProbeError| why.to_string();
        let refused = words(admit_at_once((2, 2), &of(90_00), Some(90)).unwrap_err());
        assert!(
            refused.contains("leaves 20 % of a CPU") && refused.contains("--busy 75%"),
            "{refused}"
        );
        assert!(admit_at_once((2, 2), &of(75_00), Some(90)).is_ok(), "what the refusal proposes");
        assert!(admit_at_once((2, 2), &of(90_00), None).is_ok(), "ordinary threads share");
        assert!(admit_at_once((3, 4), &of(90_00), Some(90)).is_ok(), "a CPU is left");
        assert!(admit_at_once((8, 8), &of(90_00), Some(90)).is_ok(), "a tenth of each of eight");
    }

    #[test]
    fn a_share_that_the_kernel_does_not_give_is_refused() {
        assert!(admit(90_00, None).is_ok());
        assert!(admit(0, None).is_err());
        let words = admit(99_50, None).unwrap_err().to_string();
        assert!(words.contains("99.5%") && words.contains("99 %"), "{words}");

        if let Some((runtime_us, period_us)) = machine::real_time_limit_us() {
            let given = runtime_us * 10_000 / period_us;
            assert!(admit(given.min(MOST_BUSY), Some(90)).is_ok());
            if given < MOST_BUSY {
                let words = admit(given + 1, Some(90)).unwrap_err().to_string();
                assert!(words.contains("sched_rt_runtime_us"), "{words}");
                assert!(admit(given + 1, None).is_ok(), "an ordinary thread is not throttled");
            }
        }
    }
}
