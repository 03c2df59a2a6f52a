//! The distributed clock of one device: a local clock that drifts, and the loop that makes it follow the reference.

/// Sampling the reference once a millisecond, an offset is worked off in some sixteen samples.
const GAIN_PPB_PER_NS: f64 = 60.0;
/// Of an offset, the part that a single sample may work off at most, however rare the samples are.
const LARGEST_STEP: f64 = 0.25;
/// Samples further apart than this are rare.
const RARE_NS: u64 = (LARGEST_STEP * 1e9 / GAIN_PPB_PER_NS) as u64;
/// The part of the proportional gain that learns the drift.
const DRIFT_SHARE: f64 = 1.0 / 32.0;
/// No quartz is further off than this; a correction beyond it would be an error of the network.
const LARGEST_CORRECTION_PPB: f64 = 500_000.0;

/// Local clock, system time and its control loop. All arithmetic is on the simulation's own nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
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
    /// Of a new difference, the part that is taken into the filtered one.
    filter: f64,
    /// When the reference passed by last; `u64::MAX`: never.
    sampled_ns: u64,
}

impl Clock {
    /// A clock that shows `local_ns` at instant 0 and runs `drift_ppb` too fast.
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

    /// Local time at `now_ns`, and what is left below a nanosecond.
    #[inline]
    fn read(&self, now_ns: u64) -> (u64, f64) {
        let elapsed = now_ns.saturating_sub(self.since_ns);
        let gained = self.fraction_ns + in_f64(elapsed) * ((self.drift_ppb + self.correction_ppb) * 1e-9);
        let (whole, left) = split(gained);
        (self.local_ns.wrapping_add(elapsed).wrapping_add_signed(whole), left)
    }

    /// Local time, in ns since power-on.
    #[inline]
    pub(crate) fn local(&self, now_ns: u64) -> u64 {
        self.read(now_ns).0
    }

    /// The device's copy of the system time.
    #[inline]
    pub(crate) fn system(&self, now_ns: u64) -> u64 {
        self.local(now_ns).wrapping_add(self.offset_ns)
    }

    /// The instant at which the system time will be `system_ns`, to the next whole ns; `now_ns` when that has passed. A time in the upper
    /// half of all numbers has not passed: it is centuries ahead.
    pub(crate) fn when(&self, system_ns: u64, now_ns: u64) -> u64 {
        let ahead = system_ns.saturating_sub(self.system(now_ns));
        let rate = 1.0 + (self.drift_ppb + self.correction_ppb) * 1e-9;
        now_ns.saturating_add((ahead as f64 / rate).ceil() as u64)
    }

    #[inline]
    fn rebase(&mut self, now_ns: u64) {
        (self.local_ns, self.fraction_ns) = self.read(now_ns);
        self.since_ns = now_ns;
    }

    /// The time of the reference clock passes by at `now_ns`: the local clock is slowed down or sped up.
    #[inline]
    pub(crate) fn follow(&mut self, reference_ns: u64, now_ns: u64) {
        let expected = reference_ns.wrapping_add(u64::from(self.delay_ns));
        self.rebase(now_ns);
        let error = self.local_ns.wrapping_add(self.offset_ns).wrapping_sub(expected) as i64 as f64 + self.fraction_ns;
        self.difference_ns += (error - self.difference_ns) * self.filter;
        let elapsed = now_ns.saturating_sub(self.sampled_ns);
        self.sampled_ns = now_ns;
        let gain = if elapsed > RARE_NS { LARGEST_STEP * 1e9 / in_f64(elapsed) } else { GAIN_PPB_PER_NS };
        let bound = |ppb: f64| ppb.clamp(-LARGEST_CORRECTION_PPB, LARGEST_CORRECTION_PPB);
        self.learnt_ppb = bound(self.learnt_ppb - error * gain * DRIFT_SHARE * (in_f64(elapsed) * 1e-6).min(1.0));
        self.correction_ppb = bound(self.learnt_ppb - error * gain);
    }

    /// Sets how deep the difference is filtered: a new one is taken in by the part 1 / 2^depth.
    pub(crate) fn set_filter_depth(&mut self, depth: u8) {
        self.filter = f64::from(1u32 << depth.min(15)).recip();
    }

    /// Forgets the filtered difference and what was done about it, as a write to the speed counter's start does: the clock runs at
    /// its quartz's rate again.
    pub(crate) fn restart_filter(&mut self, now_ns: u64) {
        self.rebase(now_ns);
        self.correction_ppb = 0.0;
        self.difference_ns = 0.0;
        self.sampled_ns = u64::MAX;
        self.learnt_ppb = 0.0;
    }

    /// Local minus received system time as register 0x092C has it: sign in bit 31, magnitude below.
    pub(crate) fn difference(&self) -> u32 {
        let magnitude = self.difference_ns.abs().min(f64::from(i32::MAX)) as u32;
        magnitude | if self.difference_ns < 0.0 { 0 } else { 1 << 31 }
    }

    /// Steps the local clock: a fault.
    pub(crate) fn step(&mut self, by_ns: i64, now_ns: u64) {
        self.rebase(now_ns);
        self.local_ns = self.local_ns.wrapping_add_signed(by_ns);
    }

    /// Changes how fast the quartz is by `ppb`: a fault.
    pub(crate) fn bend(&mut self, ppb: f64, now_ns: u64) {
        self.rebase(now_ns);
        self.drift_ppb += ppb;
    }
}

/// A time of less than 292 years; processors convert numbers with a sign in one instruction.
#[inline]
fn in_f64(ns: u64) -> f64 {
    ns as i64 as f64
}

/// The whole number at or below a value, and what is left: [`f64::floor`] without the call that it is on the oldest processors.
#[inline]
fn split(value: f64) -> (i64, f64) {
    /// Numbers near this one have no bits for less than 1: adding it rounds, and the whole number then stands in the low bits.
    const ROUNDING: f64 = (3u64 << 51) as f64;
    const MOST: f64 = (1u64 << 51) as f64;
    if value.abs() >= MOST {
        return (value.floor() as i64, value - value.floor());
    }

    let shifted = value + ROUNDING;
    // Exact, and so is the whole number. Half of all quartzes are slow: a branch here would be guessed wrong.
    let left = value - (shifted - ROUNDING);
    let below = u8::from(left < 0.0);
    ((shifted.to_bits().wrapping_sub(ROUNDING.to_bits()) as i64) - i64::from(below), left + f64::from(below))
}

/// Pulses SYNC0 of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sync0 {
    /// System time of the next pulse.
    pub(crate) next_ns: u64,
    /// 0 for a single pulse.
    pub(crate) cycle_ns: u32,
}

impl Sync0 {
    /// Pulses closer together are not made.
    pub(crate) const SHORTEST_CYCLE_NS: u32 = 10_000;

    /// Pulses from `start_ns` on, as activated at system time `system_ns`.
    ///
    /// A start in the past never comes (it would after 584 years): the trap that a MainDevice must know of.
    pub(crate) fn activated(start_ns: u64, cycle_ns: u32, system_ns: u64) -> Option<Self> {
        let in_time = start_ns >= system_ns;
        (in_time && (cycle_ns == 0 || cycle_ns >= Self::SHORTEST_CYCLE_NS))
            .then_some(Self { next_ns: start_ns, cycle_ns })
    }

    /// The same pulses, without those more than `most_ns` before `system_ns`: after a long pause nobody lives through all of them.
    pub(crate) fn caught_up(self, system_ns: u64, most_ns: u64) -> Self {
        let behind = system_ns.saturating_sub(self.next_ns);
        if behind <= most_ns || self.cycle_ns == 0 {
            return self;
        }
        let cycle = u64::from(self.cycle_ns);
        Self { next_ns: self.next_ns + (behind - most_ns).div_ceil(cycle) * cycle, ..self }
    }

    /// The pulse after this one; `None` after a single pulse.
    pub(crate) fn following(self) -> Option<Self> {
        (self.cycle_ns > 0).then(|| Self { next_ns: self.next_ns + u64::from(self.cycle_ns), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_quartz_gains_its_parts_per_billion() {
        let clock = Clock::new(100, 50_000.0);
        assert_eq!(clock.local(0), 100);
        assert_eq!(clock.local(1_000_000_000), 1_000_000_100 + 50_000);
        assert_eq!(clock.local(1_000), 1_100);
    }

    #[test]
    fn values_are_split_as_the_standard_library_does() {
        for value in
            [0.0_f64, 0.5, 1e-20, 1.0, 1.5, 2.999_999, 1e9 + 0.25, 1e9 + 0.75, 2.2e15, 2.3e15, 4.6e15, 1e18, 1e300]
        {
            for value in [value, -value] {
                let whole = value.floor();
                assert_eq!(split(value), (whole as i64, value - whole), "{value}");
            }
        }
    }

    #[test]
    fn the_system_time_is_local_time_and_offset_in_64_bits() {
        let mut clock = Clock::new(5_000, 0.0);
        clock.offset_ns = (-4_000i64) as u64;
        assert_eq!(clock.system(10), 1_010);
    }

    #[test]
    fn an_instant_is_found_from_the_system_time() {
        let mut clock = Clock::new(7, -31_000.0);
        clock.offset_ns = 1 << 40;
        let when = clock.when((1 << 40) + 1_000_000, 500);
        assert!(clock.system(when) >= (1 << 40) + 1_000_000);
        assert!(clock.system(when - 2) < (1 << 40) + 1_000_000);
    }

    #[test]
    fn a_clock_that_follows_is_within_a_hundred_nanoseconds_after_a_second() {
        for drift_ppb in [-50_000.0, -3.0, 50_000.0] {
            let reference = Clock::new(0, 0.0);
            let mut clock = Clock::new(20_000, drift_ppb);
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
    fn samples_far_apart_do_not_make_the_loop_swing() {
        let mut clock = Clock::new(1_000, 20_000.0);
        for cycle in 1..=500u64 {
            let now = cycle * 20_000_000;
            clock.follow(now, now);
        }

        let error = clock.system(10_000_000_000) as i64 - 10_000_000_000;
        assert!(error.abs() < 1_000, "{error}");
    }

    #[test]
    fn the_difference_has_its_sign_in_bit_31() {
        let mut clock = Clock::new(0, 0.0);
        clock.set_filter_depth(0);
        clock.follow(1_300, 1_000);
        assert_eq!(clock.difference(), 300);
        let mut clock = Clock::new(0, 0.0);
        clock.set_filter_depth(0);
        clock.follow(700, 1_000);

        assert_eq!(clock.difference(), 300 | 1 << 31);
    }

    #[test]
    fn a_start_in_the_past_never_comes() {
        assert_eq!(Sync0::activated(999, 50_000, 1_000), None);
        let pulse = Sync0::activated(2_000, 50_000, 1_000).unwrap();
        assert_eq!(pulse.following().unwrap().next_ns, 52_000);
        assert_eq!(Sync0::activated(2_000, 9_999, 1_000), None, "pulses too close together");
    }

    #[test]
    fn after_a_long_pause_the_pulses_go_on_on_their_grid() {
        let pulse = Sync0 { next_ns: 2_000, cycle_ns: 50_000 };
        assert_eq!(pulse.caught_up(90_000, 100_000), pulse);
        let later = pulse.caught_up(10_000_000, 100_000).next_ns;
        assert_eq!((later - 2_000) % 50_000, 0);
        assert!((9_900_000..9_950_000).contains(&later), "{later}");
    }

    #[test]
    fn a_single_pulse_has_none_behind_it() {
        assert_eq!(Sync0 { next_ns: 1, cycle_ns: 0 }.following(), None);
    }
}
