//! Runs in virtual time: late releases drawn by a law, as stretches of late ones in a row.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use onbeat::record::{Joining, gap};
use onbeat_report::verdict::{BATCHES, Outages, Rule, Side};

/// How late releases come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Independently of each other.
    Single,
    /// In rows of geometric length with this mean.
    Bursts(f64),
    /// In rows whose length has a Pareto tail of this index.
    Pareto(f64),
    /// In bursts of 20 on average, of which every second release is on time.
    Holes,
    /// In rows of one length, equally far apart.
    Periodic(u64),
    /// Independently, at a rate that doubles from half to one and a half of its mean.
    Trend,
    /// Independently, at a fifth of the mean or five times of it, with this mean dwell in releases.
    Levels(f64),
}

/// Late releases in a row: place of the first, and how many.
pub type Row = (u64, u64);

/// `ONBEAT_LONG=1` asks for the whole table.
pub fn is_long() -> bool {
    std::env::var_os("ONBEAT_LONG").is_some_and(|word| word == "1")
}

pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Shares of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    pub pass: f64,
    pub fail: f64,
}

impl Rates {
    pub fn of(sides: impl Iterator<Item = Side>) -> Self {
        let (mut all, mut pass, mut fail) = (0.0, 0.0, 0.0);
        for side in sides {
            all += 1.0;
            pass += f64::from(u8::from(side == Side::Within));
            fail += f64::from(u8::from(side == Side::Beyond));
        }
        Self { pass: pass / all, fail: fail / all }
    }

    pub fn words(&self) -> String {
        format!("{:.1}/{:.1}", self.pass * 100.0, self.fail * 100.0)
    }
}

/// For each law, length and allowed rate, the verdicts at each multiple of that rate; on all CPUs,
/// the same on any number of them.
pub fn rates(cells: &[(Law, u64, f64)], multiples: &[f64], runs: usize) -> Vec<Vec<Rates>> {
    let found = Mutex::new(vec![Vec::new(); cells.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(law, releases, allowed)) = cells.get(place) else { return };
            let rule = Rule::new(allowed);
            let at = |&times: &f64| {
                let seen = runs_of(law, releases, allowed * times, runs);
                Rates::of(seen.map(|run| rule.side(&seen_until(&run, releases, allowed))))
            };
            let of_cell = multiples.iter().map(at).collect();
            found.lock().unwrap()[place] = of_cell;
        }
    };

    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap()
}

/// What of a run its first `releases` show.
pub fn seen_until(run: &[Row], releases: u64, allowed: f64) -> Outages {
    let mut joining = Joining::new(gap(allowed));
    let mut batches = vec![0.0; BATCHES];
    for &(from, late) in run.iter().take_while(|(from, _)| *from < releases) {
        let late = late.min(releases - from);
        joining.late(from, late);
        // Rows are short beside a batch; one that is not is divided.
        let mut place = from;
        while place < from + late {
            let batch = place * BATCHES as u64 / releases;
            let ends = ((batch + 1) * releases).div_ceil(BATCHES as u64).min(from + late);
            batches[batch as usize] += (ends - place) as f64;
            place = ends;
        }
    }
    joining.part();
    Outages { releases, sums: joining.take(), batches }
}

/// Runs whose late releases have this rate; the same each time.
pub fn runs_of(law: Law, releases: u64, rate: f64, runs: usize) -> impl Iterator<Item = Vec<Row>> {
    let named = format!("{law:?} {releases} {rate}");
    let seed = named.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut random = fastrand::Rng::with_seed(seed);
    (0..runs).map(move |_| drawn(law, releases, rate, &mut random))
}

fn drawn(law: Law, releases: u64, rate: f64, random: &mut fastrand::Rng) -> Vec<Row> {
    match law {
        Law::Single => thinned(releases, rate, random, |_| 1.0),
        Law::Trend => {
            let of = |place: u64| 0.5 + place as f64 / releases as f64;
            thinned(releases, 1.5 * rate, random, |place| of(place) / 1.5)
        }
        Law::Bursts(mean) => {
            renewed(releases, mean, rate, random, |random| geometric(mean, random))
        }
        Law::Pareto(index) => renewed(releases, zeta(index), rate, random, |random| {
            (1.0 - random.f64()).powf(-1.0 / index).min(1e12) as u64
        }),
        Law::Holes => with_holes(releases, rate, random),
        Law::Periodic(size) => {
            let period = size as f64 / rate;
            let first = random.f64() * period;
            let count = (releases as f64 / period) as u64 + 1;
            let place = |i: u64| (first + i as f64 * period) as u64;
            (0..count).map(|i| (place(i), size)).filter(|(from, _)| *from < releases).collect()
        }
        Law::Levels(dwell) => levels(releases, rate, dwell, random),
    }
}

/// ζ(index), the mean of the whole part of a Pareto variable (Euler and Maclaurin from 10 on).
fn zeta(index: f64) -> f64 {
    let below: f64 = (1..10).map(|k| f64::from(k).powf(-index)).sum();
    let ten = 10_f64.powf(-index);
    below + 10.0 * ten / (index - 1.0) + ten / 2.0 + index * ten / 120.0
}

fn geometric(mean: f64, random: &mut fastrand::Rng) -> u64 {
    if mean <= 1.0 {
        return 1;
    }
    1 + ((1.0 - random.f64()).ln() / (-1.0 / mean).ln_1p()) as u64
}

/// Independent late releases at up to `most`, each kept with the probability of its place.
fn thinned(
    releases: u64,
    most: f64,
    random: &mut fastrand::Rng,
    keep: impl Fn(u64) -> f64,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut place = geometric(1.0 / most, random) - 1;
    while place < releases {
        if random.f64() < keep(place) {
            rows.push((place, 1));
        }
        place += geometric(1.0 / most, random);
    }
    rows
}

/// Rows with geometric gaps between them, in the middle of a process that began long before.
fn renewed(
    releases: u64,
    mean: f64,
    rate: f64,
    random: &mut fastrand::Rng,
    size: impl Fn(&mut fastrand::Rng) -> u64,
) -> Vec<Row> {
    let gap = mean * (1.0 - rate) / rate;
    let before = (20.0 * (mean + gap)) as u64;
    let mut rows = Vec::new();
    let mut place = geometric(gap, random);
    while place < before + releases {
        let length = size(random);
        let (from, to) = (place.max(before), (place + length).min(before + releases));
        if from < to {
            rows.push((from - before, to - from));
        }
        place += length + geometric(gap, random);
    }
    rows
}

fn with_holes(releases: u64, rate: f64, random: &mut fastrand::Rng) -> Vec<Row> {
    const LATE: f64 = 20.0;
    // Every second release of a burst is late, so that it is twice as long.
    let gap = (LATE / rate - 2.0 * LATE).max(1.0);
    let before = (20.0 * LATE / rate) as u64;
    let mut rows = Vec::new();
    let mut place = geometric(gap, random);
    while place < before + releases {
        for _ in 0..geometric(LATE, random) {
            if (before..before + releases).contains(&place) {
                rows.push((place - before, 1));
            }
            place += geometric(2.0, random);
        }
        place += geometric(gap, random);
    }
    rows
}

fn levels(releases: u64, rate: f64, dwell: f64, random: &mut fastrand::Rng) -> Vec<Row> {
    // A sixth of the time at five times the rate, the rest at a fifth of it.
    const SHARE: f64 = 1.0 / 6.0;
    let exponential = |mean: f64, random: &mut fastrand::Rng| -mean * (1.0 - random.f64()).ln();
    let mut is_high = random.f64() < SHARE;
    let mut until = 0.0;
    let mut rows = Vec::new();
    let mut from = 0.0;
    while from < releases as f64 {
        let mean = if is_high { dwell * SHARE / (1.0 - SHARE) } else { dwell };
        until += exponential(mean, random);
        let of_level = rate * if is_high { 5.0 } else { 0.2 };
        let end = until.min(releases as f64) as u64;
        let mut place = from as u64 + geometric(1.0 / of_level, random) - 1;
        while place < end {
            rows.push((place, 1));
            place += geometric(1.0 / of_level, random);
        }
        from = until;
        is_high = !is_high;
    }
    rows
}
