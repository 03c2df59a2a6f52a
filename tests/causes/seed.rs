//! Random numbers from a seed, the same on every machine.

/// `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`. For the small numbers of a draw the bias of the remainder is
    /// below one in 10^15.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % if end == 0 { 1 } else { end }
    }

    /// Returns one of `all`.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len() as u64);
        all.get(at as usize).copied()
    }

    /// Returns a number from `least` to `most`, uniform on a logarithmic scale.
    pub(crate) fn scaled(&mut self, least: u64, most: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let ratio = most as f64 / least.max(1) as f64;
        ((least as f64 * ratio.powf(part)) as u64).clamp(least, most.max(least))
    }
}

/// Checks the generator's published first numbers, and the bounds of draws.
pub(crate) fn check() {
    let mut random = Random::new(1_234_567);
    let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
    assert_eq!(
        first,
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
    );
    for _ in 0..1000 {
        assert!((100..=3000).contains(&random.scaled(100, 3000)));
        assert!(random.below(7) < 7);
    }

    assert_eq!(random.one_of::<u8>(&[]), None);
}
