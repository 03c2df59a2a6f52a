//! The distributed clock (DC) of one device: a drifting local clock, and the control loop that
//! synchronises it with the reference.

/// Proportional gain: with one sample per millisecond, an offset is corrected in about sixteen
/// samples.
const GAIN_PPB_PER_NS: f64 = 60.0;
/// Largest fraction of an offset that one sample corrects, however rare the samples are.
const LARGEST_STEP: f64 = 0.25;
/// Samples with a larger distance than this use `LARGEST_STEP`.
const RARE_NS: u64 = (LARGEST_STEP * 1e9 / GAIN_PPB_PER_NS) as u64;
/// Integral gain, which learns the drift, as a fraction of the proportional gain.
const DRIFT_SHARE: f64 = 1.0 / 32.0;
/// Largest correction: above the error of any quartz.
const LARGEST_CORRECTION_PPB: f64 = 500_000.0;

/// Local clock, system time and control loop. All arithmetic is in nanoseconds of simulated time.
#[derive(Clone, Debug)]
pub(crate) struct DistributedClock {
    since_ns: u64,
    local_ns: u64,
    fraction_ns: f64,
    drift_ppb: f64,
    correction_ppb: f64,
    learnt_ppb: f64,
    /// System time minus local time, as the MainDevice wrote it.
    pub(crate) offset_ns: u64,
    /// Travel time from the reference clock, as the MainDevice wrote it.
    pub(crate) delay_ns: u32,
    difference_ns: f64,
    /// Weight of a new difference in the filtered one.
    filter: f64,
    /// Time of the last reference sample; `u64::MAX`: none.
    sampled_ns: u64,
}

impl DistributedClock {
    /// Creates a clock that reads `local_ns` at instant 0 and runs `drift_ppb` too fast.
    pub(crate) fn new(local_ns: u64, drift_ppb: f64) -> Self {
        Self {
            since_ns: 0,
            local_ns,
            fraction_ns: 0.0,
            drift_ppb,
            correction_ppb: 0.0,
            learnt_ppb: 0.0,
            offset_ns: 0,
            delay_ns: 0,
            difference_ns: 0.0,
            filter: 1.0 / 16.0,
            sampled_ns: u64::MAX,
        }
    }

    /// Power-on: counts from 0 at `now_ns`, with the same quartz.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        *self = Self { since_ns: now_ns, ..Self::new(0, self.drift_ppb) };
    }

    /// Returns the local time at `now_ns` and its fraction of a nanosecond.
    #[inline]
    fn read(&self, now_ns: u64) -> (u64, f64) {
        let elapsed = now_ns.saturating_sub(self.since_ns);
        let gained =
            self.fraction_ns + in_f64(elapsed) * ((self.drift_ppb + self.correction_ppb) * 1e-9);
        let (whole, left) = split(gained);
        (self.local_ns.wrapping_add(elapsed).wrapping_add_signed(whole), left)
    }

    /// Returns the local time, in ns since power-on.
    #[inline]
    pub(crate) fn local(&self, now_ns: u64) -> u64 {
        self.read(now_ns).0
    }

    /// Returns the device's copy of the system time.
    #[inline]
    pub(crate) fn system(&self, now_ns: u64) -> u64 {
        self.local(now_ns).wrapping_add(self.offset_ns)
    }

    /// Returns the instant at which the system time is `system_ns`, rounded up to a whole ns;
    /// `now_ns` when that has passed. A time in the upper half of the range has not passed: it is
    /// centuries ahead.
    pub(crate) fn when(&self, system_ns: u64, now_ns: u64) -> u64 {
        let ahead = system_ns.saturating_sub(self.system(now_ns));
        let rate = 1.0 + (self.drift_ppb + self.correction_ppb) * 1e-9;
        now_ns.saturating_add((ahead as f64 / rate).ceil() as u64)
    }

    #[inline]
    fn rebase(&mut self, now_ns: u64) {
        let (local_ns, fraction_ns) = self.read(now_ns);
        self.local_ns = local_ns;
        self.fraction_ns = fraction_ns;
        self.since_ns = now_ns;
    }

    /// Receives the time of the reference clock at `now_ns` and adjusts the rate of the local
    /// clock.
    #[inline]
    pub(crate) fn follow(&mut self, reference_ns: u64, now_ns: u64) {
        let expected = reference_ns.wrapping_add(u64::from(self.delay_ns));
        self.rebase(now_ns);
        let error = self.local_ns.wrapping_add(self.offset_ns).wrapping_sub(expected) as i64 as f64
            + self.fraction_ns;
        self.difference_ns += (error - self.difference_ns) * self.filter;
        let elapsed = now_ns.saturating_sub(self.sampled_ns);
        self.sampled_ns = now_ns;
        let gain =
            if elapsed > RARE_NS { LARGEST_STEP * 1e9 / in_f64(elapsed) } else { GAIN_PPB_PER_NS };
        let bound = |ppb: f64| ppb.clamp(-LARGEST_CORRECTION_PPB, LARGEST_CORRECTION_PPB);
        self.learnt_ppb =
            bound(self.learnt_ppb - error * gain * DRIFT_SHARE * (in_f64(elapsed) * 1e-6).min(1.0));
        self.correction_ppb = bound(self.learnt_ppb - error * gain);
    }

    /// Sets the filter depth of the difference: a new value has the weight 1 / 2^depth.
    pub(crate) fn set_filter_depth(&mut self, depth: u8) {
        self.filter = f64::from(1u32 << depth.min(15)).recip();
    }

    /// Resets the filtered difference and the rate correction, as a write to the speed counter
    /// start does: the clock runs at the rate of its quartz again.
    pub(crate) fn restart_filter(&mut self, now_ns: u64) {
        self.rebase(now_ns);
        self.correction_ppb = 0.0;
        self.difference_ns = 0.0;
        self.sampled_ns = u64::MAX;
        self.learnt_ppb = 0.0;
    }

    /// Returns the system time difference in the format of register 0x092C: sign in bit 31,
    /// magnitude below.
    pub(crate) fn difference(&self) -> u32 {
        let magnitude = self.difference_ns.abs().min(f64::from(i32::MAX)) as u32;
        magnitude | if self.difference_ns < 0.0 { 0 } else { 1 << 31 }
    }

    /// Injects a fault: steps the local clock.
    pub(crate) fn step(&mut self, by_ns: i64, now_ns: u64) {
        self.rebase(now_ns);
        self.local_ns = self.local_ns.wrapping_add_signed(by_ns);
    }

    /// Injects a fault: changes the rate of the quartz by `ppb`.
    pub(crate) fn change_drift(&mut self, ppb: f64, now_ns: u64) {
        self.rebase(now_ns);
        self.drift_ppb += ppb;
    }
}

/// Converts a time of less than 292 years; processors convert signed numbers in one instruction.
#[inline]
fn in_f64(ns: u64) -> f64 {
    ns as i64 as f64
}

/// Splits a value into its floor and the rest, without the function call that [`f64::floor`] is on
/// baseline x86-64.
#[inline]
fn split(value: f64) -> (i64, f64) {
    /// Numbers of this size have no fractional bits: adding it rounds, and the low bits then hold
    /// the integer.
    const ROUNDING: f64 = (3u64 << 51) as f64;
    const MOST: f64 = (1u64 << 51) as f64;
    if value.abs() >= MOST {
        return (value.floor() as i64, value - value.floor());
    }

    let shifted = value + ROUNDING;
    // Both parts are exact. The sign is random between devices, so a branch would be mispredicted.
    let left = value - (shifted - ROUNDING);
    let below = u8::from(left < 0.0);
    (
        (shifted.to_bits().wrapping_sub(ROUNDING.to_bits()) as i64) - i64::from(below),
        left + f64::from(below),
    )
}

/// SYNC0 or SYNC1 pulses of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncPulses {
    /// System time of the next pulse.
    pub(crate) next_ns: u64,
    /// 0 for a single pulse.
    pub(crate) cycle_ns: u32,
}

impl SyncPulses {
    /// Shorter cycle times generate no pulses.
    pub(crate) const SHORTEST_CYCLE_NS: u32 = 10_000;

    /// Returns the pulses from `start_ns` on, activated at system time `system_ns`.
    ///
    /// A start time in the past is not reached for 584 years, as in hardware; a MainDevice must set
    /// it in the future.
    pub(crate) fn activated(start_ns: u64, cycle_ns: u32, system_ns: u64) -> Option<Self> {
        let in_time = start_ns >= system_ns;
        (in_time && (cycle_ns == 0 || cycle_ns >= Self::SHORTEST_CYCLE_NS))
            .then_some(Self { next_ns: start_ns, cycle_ns })
    }

    /// Skips pulses more than `most_ns` before `system_ns`: after a long pause, not all of them are
    /// simulated.
    pub(crate) fn caught_up(self, system_ns: u64, most_ns: u64) -> Self {
        let behind = system_ns.saturating_sub(self.next_ns);
        if behind <= most_ns || self.cycle_ns == 0 {
            return self;
        }
        let cycle = u64::from(self.cycle_ns);
        Self { next_ns: self.next_ns + (behind - most_ns).div_ceil(cycle) * cycle, ..self }
    }

    /// Returns the SYNC1 pulses to these SYNC0 pulses: each follows a SYNC0 pulse by `delay_ns`, and
    /// the first SYNC0 pulse after it begins the next delay.
    pub(crate) fn with_delay(self, delay_ns: u32) -> Self {
        let sync0 = u64::from(self.cycle_ns);
        let cycles = u64::from(delay_ns).checked_div(sync0).map_or(0, |whole| whole + 1);
        Self {
            next_ns: self.next_ns + u64::from(delay_ns),
            cycle_ns: u32::try_from(cycles * sync0).unwrap_or(u32::MAX),
        }
    }

    /// Returns the pulses from the first one after `system_ns` on; the same ones if their next pulse
    /// is to come, or a single one has passed.
    pub(crate) fn after(self, system_ns: u64) -> Self {
        if system_ns < self.next_ns || self.cycle_ns == 0 {
            return self;
        }
        let cycle = u64::from(self.cycle_ns);
        let passed = (system_ns - self.next_ns) / cycle + 1;
        Self { next_ns: self.next_ns + passed * cycle, ..self }
    }

    /// Returns the pulses after the next one; `None` after a single pulse.
    pub(crate) fn following(self) -> Option<Self> {
        (self.cycle_ns > 0)
            .then(|| Self { next_ns: self.next_ns + u64::from(self.cycle_ns), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_quartz_gains_its_parts_per_billion() {
        let clock = DistributedClock::new(100, 50_000.0);
        assert_eq!(clock.local(0), 100);
        assert_eq!(clock.local(1_000_000_000), 1_000_000_100 + 50_000);
        assert_eq!(clock.local(1_000), 1_100);
    }

    #[test]
    fn split_agrees_with_floor() {
        for value in [
            0.0_f64,
            0.5,
            1e-20,
            1.0,
            1.5,
            2.999_999,
            1e9 + 0.25,
            1e9 + 0.75,
            2.2e15,
            2.3e15,
            4.6e15,
            1e18,
            1e300,
        ] {
            for value in [value, -value] {
                let whole = value.floor();
                assert_eq!(split(value), (whole as i64, value - whole), "{value}");
            }
        }
    }

    #[test]
    fn the_system_time_is_local_time_and_offset_in_64_bits() {
        let mut clock = DistributedClock::new(5_000, 0.0);
        clock.offset_ns = (-4_000i64) as u64;
        assert_eq!(clock.system(10), 1_010);
    }

    #[test]
    fn the_instant_of_a_system_time_is_found() {
        let mut clock = DistributedClock::new(7, -31_000.0);
        clock.offset_ns = 1 << 40;
        let when = clock.when((1 << 40) + 1_000_000, 500);
        assert!(clock.system(when) >= (1 << 40) + 1_000_000);
        assert!(clock.system(when - 2) < (1 << 40) + 1_000_000);
    }

    #[test]
    fn a_synchronised_clock_is_within_a_hundred_nanoseconds_after_a_second() {
        for drift_ppb in [-50_000.0, -3.0, 50_000.0] {
            let reference = DistributedClock::new(0, 0.0);
            let mut clock = DistributedClock::new(20_000, drift_ppb);
            clock.delay_ns = 700;
            clock.offset_ns = (-19_000i64) as u64;
            for cycle in 1..=1_000u64 {
                let now = cycle * 1_000_000;
                clock.follow(reference.system(now), now + 700);
            }

            let end = 1_000_000_700;
            let error = clock.system(end) as i64 - reference.system(end) as i64;
            assert!(error.abs() <= 100, "{drift_ppb} ppb: {error} ns");
            assert!(clock.difference() & 0x7fff_ffff <= 100, "{}", clock.difference());
        }
    }

    #[test]
    fn rare_samples_do_not_make_the_control_loop_oscillate() {
        let mut clock = DistributedClock::new(1_000, 20_000.0);
        for cycle in 1..=500u64 {
            let now = cycle * 20_000_000;
            clock.follow(now, now);
        }

        let error = clock.system(10_000_000_000) as i64 - 10_000_000_000;
        assert!(error.abs() < 1_000, "{error}");
    }

    #[test]
    fn the_difference_has_its_sign_in_bit_31() {
        let mut clock = DistributedClock::new(0, 0.0);
        clock.set_filter_depth(0);
        clock.follow(1_300, 1_000);
        assert_eq!(clock.difference(), 300);
        let mut clock = DistributedClock::new(0, 0.0);
        clock.set_filter_depth(0);
        clock.follow(700, 1_000);

        assert_eq!(clock.difference(), 300 | 1 << 31);
    }

    #[test]
    fn a_start_time_in_the_past_generates_no_pulses() {
        assert_eq!(SyncPulses::activated(999, 50_000, 1_000), None);
        let pulse = SyncPulses::activated(2_000, 50_000, 1_000).unwrap();
        assert_eq!(pulse.following().unwrap().next_ns, 52_000);
        assert_eq!(SyncPulses::activated(2_000, 9_999, 1_000), None, "pulses too close together");
    }

    #[test]
    fn after_a_long_pause_the_pulses_keep_their_grid() {
        let pulse = SyncPulses { next_ns: 2_000, cycle_ns: 50_000 };
        assert_eq!(pulse.caught_up(90_000, 100_000), pulse);
        let later = pulse.caught_up(10_000_000, 100_000).next_ns;
        assert_eq!((later - 2_000) % 50_000, 0);
        assert!((9_900_000..9_950_000).contains(&later), "{later}");
    }

    #[test]
    fn sync1_follows_a_sync0_pulse_and_starts_again_with_the_next() {
        let sync0 = SyncPulses::activated(2_000_000, 250_000, 1_000).unwrap();
        let close = sync0.with_delay(30_000);
        assert_eq!((close.next_ns, close.cycle_ns), (2_030_000, 250_000));
        let fourth = sync0.with_delay(750_000);
        assert_eq!((fourth.next_ns, fourth.cycle_ns), (2_750_000, 1_000_000));
        assert_eq!(sync0.with_delay(0), sync0);
        assert_eq!(fourth.after(2_750_000).next_ns, 3_750_000);
        assert_eq!(fourth.after(9_000_000).next_ns, 9_750_000);
        assert_eq!(fourth.after(5), fourth);
    }

    #[test]
    fn a_single_pulse_has_no_successor() {
        assert_eq!(SyncPulses { next_ns: 1, cycle_ns: 0 }.following(), None);
    }
}
