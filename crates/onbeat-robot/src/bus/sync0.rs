//! SYNC0 of one device: deactivated, and activated again with a start time in the future
//! (ETG.1000.4, 6.4; registers 0x0980 to 0x09A7). SYNC1 is activated with it where it is wanted.
//!
//! ```text
//! clock synchronised ──▶ deactivate ──▶ read time ──▶ period ──▶ start time ──▶ activate, and read time
//!                            ▲                                                        │
//!                            └───────────────── the start time has passed ◀───────────┘
//! ```
//!
//! A device never generates SYNC0 if its start time has passed, so the system time is read in the
//! frame that activates SYNC0, after the activation. ethercrab's SYNC0 configuration does not fit:
//! it has one period and no shift for all devices, and checks neither clocks nor start time.

use onbeat_ethercat::registers::{SYNC_CYCLE, SYNC_START, SYNC_UNIT, SYSTEM_TIME, TIME_DIFFERENCE};

use super::register_query::RegisterQuery;

/// SYNC unit and activation registers: off.
const OFF: [u8; 2] = [0, 0];

/// A clock is synchronised when its difference from the reference is below this for [`CLOSE_TIMES`]
/// consecutive reads.
const CLOSE_NS: u32 = 1_000;
const CLOSE_TIMES: u8 = 20;
/// Minimum time from reading the system time to the first pulse, in ns and in bus periods.
const AHEAD_NS: u64 = 20_000_000;
const AHEAD_PERIODS: u64 = 20;

/// Configured timing of SYNC0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sync0Timing {
    pub(super) period_ns: u32,
    /// Time from SYNC0 to SYNC1, in ns.
    pub(super) sync1_ns: u32,
    /// Registers 0x0980 and 0x0981 once the pulses are activated.
    activation: u16,
    /// Offset from multiples of the period, in ns.
    pub(super) shift_ns: u64,
    ahead_ns: u64,
}

impl Sync0Timing {
    /// Takes the timing from the file, for a bus with this period.
    pub(super) fn new(wanted: onbeat_ethercat::setup::Sync0, bus_period_ns: u64) -> Self {
        let period_ns = wanted.period_on_bus_ns(bus_period_ns);
        // Frames pass near multiples of the period. Half a period from them, a device does not
        // take its outputs while they are being written.
        let shift_ns = wanted.shift_on_bus_ns(bus_period_ns);
        let shift_ns = shift_ns.unwrap_or(i64::from(period_ns / 2));
        Self {
            period_ns,
            sync1_ns: wanted.sync1_delay_ns(bus_period_ns),
            activation: wanted.activation,
            shift_ns: shift_ns.rem_euclid(i64::from(period_ns)).unsigned_abs(),
            ahead_ns: (AHEAD_PERIODS * bus_period_ns).max(AHEAD_NS),
        }
    }

    /// Returns the values of registers 0x09A0 and 0x09A4.
    fn periods(self) -> [u8; 8] {
        (u64::from(self.sync1_ns) << 32 | u64::from(self.period_ns)).to_le_bytes()
    }

    /// Returns the system time of the first pulse when the current system time is `now_ns`.
    fn start_ns(self, now_ns: u64) -> u64 {
        (now_ns + self.ahead_ns).next_multiple_of(u64::from(self.period_ns)) + self.shift_ns
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync0Step {
    /// Number of consecutive reads in sync.
    AwaitClock(u8),
    Deactivate,
    ReadTime,
    WritePeriod,
    WriteStart,
    Activate,
}

/// State of the SYNC0 configuration of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sync0Setup {
    step: Sync0Step,
    start_ns: u64,
}

impl Sync0Setup {
    /// Returns the initial state.
    pub(super) fn begin() -> Self {
        Self { step: Sync0Step::AwaitClock(0), start_ns: 0 }
    }

    /// Returns the next query, and a second one for the same frame.
    pub(super) fn query(
        &self,
        station: u16,
        wanted: Sync0Timing,
    ) -> (RegisterQuery, Option<RegisterQuery>) {
        let time = RegisterQuery::read(station, SYSTEM_TIME, 8);
        match self.step {
            Sync0Step::AwaitClock(_) => (RegisterQuery::read(station, TIME_DIFFERENCE, 4), None),
            Sync0Step::Deactivate => (RegisterQuery::write(station, SYNC_UNIT, &OFF), None),
            Sync0Step::ReadTime => (time, None),
            Sync0Step::WritePeriod => {
                (RegisterQuery::write(station, SYNC_CYCLE, &wanted.periods()), None)
            }
            Sync0Step::WriteStart => {
                (RegisterQuery::write(station, SYNC_START, &self.start_ns.to_le_bytes()), None)
            }
            Sync0Step::Activate => {
                let activation = wanted.activation.to_le_bytes();
                (RegisterQuery::write(station, SYNC_UNIT, &activation), Some(time))
            }
        }
    }

    /// Processes the replies to both queries. Returns whether SYNC0 is active with a start time in
    /// the future.
    pub(super) fn answer(
        &mut self,
        wanted: Sync0Timing,
        data: &[u8],
        second: Option<&[u8]>,
    ) -> bool {
        self.step = match self.step {
            Sync0Step::AwaitClock(times) => {
                // Bit 31 of register 0x092C is the sign of the difference, the rest is its size.
                let is_close =
                    u32::from_le_bytes([data[0], data[1], data[2], data[3] & 0x7f]) < CLOSE_NS;
                match (is_close, times + 1) {
                    // From the start: a clock that still swings passes through 0 too.
                    (false, _) => Sync0Step::AwaitClock(0),
                    (true, CLOSE_TIMES..) => Sync0Step::Deactivate,
                    (true, times) => Sync0Step::AwaitClock(times),
                }
            }
            Sync0Step::Deactivate => Sync0Step::ReadTime,
            Sync0Step::ReadTime => {
                self.start_ns = wanted.start_ns(long(data));
                Sync0Step::WritePeriod
            }
            Sync0Step::WritePeriod => Sync0Step::WriteStart,
            Sync0Step::WriteStart => Sync0Step::Activate,
            Sync0Step::Activate if second.is_some_and(|time| long(time) < self.start_ns) => {
                return true;
            }
            Sync0Step::Activate => Sync0Step::Deactivate,
        };
        false
    }
}

/// Reads eight bytes, little endian.
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
    fn sync0_starts_on_multiples_of_its_period_plus_the_shift() {
        let half = Sync0Timing::new(Sync0::default(), 1_000_000);
        assert_eq!((half.period_ns, half.shift_ns), (1_000_000, 500_000), "far from the frames");
        assert_eq!(half.start_ns(3_000_001), 24_500_000);
        let early = Sync0Timing::new(
            Sync0 { period_ns: Some(250_000), shift_ns: Some(-10_000), ..Sync0::default() },
            1_000_000,
        );
        assert_eq!((early.start_ns(1) % 250_000, early.start_ns(1) > 20_000_000), (240_000, true));
    }

    #[test]
    fn a_start_time_that_passed_before_activation_is_replaced() {
        let wanted = Sync0Timing::new(Sync0::default(), 1_000_000);
        let mut setup = Sync0Setup { step: Sync0Step::ReadTime, start_ns: 0 };
        let now = 7_000_000_u64.to_le_bytes();
        assert!(!setup.answer(wanted, &now, None));
        assert!(!setup.answer(wanted, &[], None) && !setup.answer(wanted, &[], None));
        assert_eq!(setup.step, Sync0Step::Activate);
        let late = 90_000_000_u64.to_le_bytes();

        assert!(!setup.answer(wanted, &[0, 3], Some(&late)));
        assert_eq!(setup.step, Sync0Step::Deactivate);
        setup = Sync0Setup { step: Sync0Step::Activate, start_ns: 90_500_000 };
        assert!(setup.answer(wanted, &[0, 3], Some(&late)));
    }
}
