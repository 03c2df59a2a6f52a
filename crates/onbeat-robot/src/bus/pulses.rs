//! SYNC0 of one device: stopped, and started again at an instant that is yet to come (ETG.1000.4, 6.4; registers 0x0980 to 0x09A3).
//!
//! ```text
//! clock in step with the reference ──▶ pulses off ──▶ what time is it? ──▶ period ──▶ start ──▶ pulses on, and what time is it?
//!                                          ▲                                                        │
//!                                          └──────────────── the start has passed ◀─────────────────┘
//! ```
//!
//! A start that has passed never comes, so the clock is read in the frame that switches the pulses on, behind it. ethercrab's own
//! configuration of SYNC0 does not fit: it knows one period and no shift for all devices, and looks neither at the clocks nor at the
//! start.

use onbeat_ethercat::registers::{SYNC_CYCLE, SYNC_START, SYNC_UNIT};

use super::memory::{SYSTEM_TIME, TIME_DIFFERENCE};
use super::recovery::Question;

/// What is written to the unit of the pulses and their activation.
const OFF: [u8; 2] = [0, 0];
/// The MainDevice has the unit; it works, and makes SYNC0.
const SYNC0: [u8; 2] = [0, 0x03];

/// A clock that is this close to the reference, so many times running, is in step.
const CLOSE_NS: u32 = 1_000;
const CLOSE_TIMES: u8 = 20;
/// The first pulse comes this much later than the question after the time, and so many periods of the bus at least.
const AHEAD_NS: u64 = 20_000_000;
const AHEAD_PERIODS: u64 = 20;

/// What a device's pulses should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pulses {
    pub(super) period_ns: u32,
    /// Behind the multiples of the period.
    pub(super) shift_ns: u64,
    ahead_ns: u64,
}

impl Pulses {
    /// As the file wants them, on a bus with this period.
    pub(super) fn of(wanted: onbeat_ethercat::setup::Sync0, bus_period_ns: u64) -> Self {
        let period_ns = wanted.period_ns.unwrap_or(u32::try_from(bus_period_ns).unwrap_or(u32::MAX)).max(1);
        let shift_ns = wanted.shift_ns.unwrap_or(i64::from(period_ns / 2));
        Self {
            period_ns,
            shift_ns: shift_ns.rem_euclid(i64::from(period_ns)).unsigned_abs(),
            ahead_ns: (AHEAD_PERIODS * bus_period_ns).max(AHEAD_NS),
        }
    }

    /// System time of the first pulse, when it is now `now_ns`.
    fn start_ns(self, now_ns: u64) -> u64 {
        (now_ns + self.ahead_ns).next_multiple_of(u64::from(self.period_ns)) + self.shift_ns
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// How often its clock was in step already.
    Settle(u8),
    Stop,
    Look,
    Period,
    Start,
    Switch,
}

/// A device whose pulses are being set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    phase: Phase,
    start_ns: u64,
}

impl Setting {
    /// From the beginning.
    pub(super) fn begin() -> Self {
        Self { phase: Phase::Settle(0), start_ns: 0 }
    }

    /// What to ask the device at this station now.
    pub(super) fn question(&self, station: u16, wanted: Pulses) -> (Question, Option<Question>) {
        let time = Question::read(station, SYSTEM_TIME, 8);
        match self.phase {
            Phase::Settle(_) => (Question::read(station, TIME_DIFFERENCE, 4), None),
            Phase::Stop => (Question::write(station, SYNC_UNIT, &OFF), None),
            Phase::Look => (time, None),
            Phase::Period => (Question::write(station, SYNC_CYCLE, &wanted.period_ns.to_le_bytes()), None),
            Phase::Start => (Question::write(station, SYNC_START, &self.start_ns.to_le_bytes()), None),
            Phase::Switch => (Question::write(station, SYNC_UNIT, &SYNC0), Some(time)),
        }
    }

    /// Takes the answer, and that to the second question. Whether the pulses will come.
    pub(super) fn answer(&mut self, wanted: Pulses, data: &[u8], second: Option<&[u8]>) -> bool {
        self.phase = match self.phase {
            Phase::Settle(times) => {
                let is_close = u32::from_le_bytes([data[0], data[1], data[2], data[3] & 0x7f]) < CLOSE_NS;
                match (is_close, times + 1) {
                    (false, _) => Phase::Settle(0),
                    (true, CLOSE_TIMES..) => Phase::Stop,
                    (true, times) => Phase::Settle(times),
                }
            }
            Phase::Stop => Phase::Look,
            Phase::Look => {
                self.start_ns = wanted.start_ns(long(data));
                Phase::Period
            }
            Phase::Period => Phase::Start,
            Phase::Start => Phase::Switch,
            Phase::Switch if second.is_some_and(|time| long(time) < self.start_ns) => return true,
            Phase::Switch => Phase::Stop,
        };
        false
    }
}

/// Eight bytes, little endian.
pub(super) fn long(bytes: &[u8]) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::setup::Sync0;

    #[test]
    fn pulses_begin_on_the_grid_of_their_period_and_the_shift_behind_it() {
        let half = Pulses::of(Sync0::default(), 1_000_000);
        assert_eq!((half.period_ns, half.shift_ns), (1_000_000, 500_000), "far from the frames");
        assert_eq!(half.start_ns(3_000_001), 24_500_000);
        let early = Pulses::of(Sync0 { period_ns: Some(250_000), shift_ns: Some(-10_000) }, 1_000_000);
        assert_eq!((early.start_ns(1) % 250_000, early.start_ns(1) > 20_000_000), (240_000, true));
    }

    #[test]
    fn a_start_that_passed_before_the_pulses_were_switched_on_is_chosen_anew() {
        let wanted = Pulses::of(Sync0::default(), 1_000_000);
        let mut setting = Setting { phase: Phase::Look, start_ns: 0 };
        let now = 7_000_000_u64.to_le_bytes();
        assert!(!setting.answer(wanted, &now, None));
        assert!(!setting.answer(wanted, &[], None) && !setting.answer(wanted, &[], None));
        assert_eq!(setting.phase, Phase::Switch);
        let late = 90_000_000_u64.to_le_bytes();

        assert!(!setting.answer(wanted, &[0, 3], Some(&late)));
        assert_eq!(setting.phase, Phase::Stop);
        setting = Setting { phase: Phase::Switch, start_ns: 90_500_000 };
        assert!(setting.answer(wanted, &[0, 3], Some(&late)));
    }
}
