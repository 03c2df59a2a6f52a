//! Long runs of made-up latencies, through the recorder, the run file and its reader.
#![allow(unreachable_pub, dead_code)]

use onbeat::host::Host;
use onbeat::record::{
    Account, Header, Recorder, Recording, RunFile, RunWriter, SpikeLimit, Timing, Trend, Watch,
    interval_ns_for,
};
use onbeat_rt::{End, Instant, Outcome, Sample};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// So many of what is drawn; with `ONBEAT_LONG=1` (`make test-long`) as many as there are.
pub fn drawn(few: u64, all: u64) -> u64 {
    if std::env::var_os("ONBEAT_LONG").is_some_and(|word| word == "1") { all } else { few }
}

/// A run in the making.
pub struct Day {
    period_ns: u64,
    seconds: u64,
    seed: u64,
    /// Cycles between two outages, and the releases that each skips.
    skips: Option<(u64, u64)>,
    watches: Vec<Watch>,
}

/// A draw per step (SplitMix64; Steele, Lea and Flood, 2014).
#[derive(Clone)]
pub struct Draws(pub u64);

impl Draws {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Above 0 and below 1.
    pub fn share(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// Latencies with a heavy tail: half of them within a sixth of 25 µs, one in ten thousand up to 4
/// ms.
#[derive(Clone)]
pub struct Noise {
    draws: Draws,
    bulk_ns: Vec<u64>,
}

impl Noise {
    pub fn seeded(seed: u64) -> Self {
        let quantile = |step: u32| {
            let share = (f64::from(step) + 0.5) / 4096.0;
            (25_000.0 * (share / (1.0 - share)).powf(0.14)) as u64
        };
        Self { draws: Draws(seed.wrapping_mul(7919)), bulk_ns: (0..4096).map(quantile).collect() }
    }

    pub fn next_ns(&mut self) -> u64 {
        let drawn = self.draws.next();
        let bulk_ns = self.bulk_ns[(drawn % 4096) as usize] + (drawn >> 12) % 128;
        if (drawn >> 20).is_multiple_of(10_000) {
            200_000 + (drawn >> 34) % 3_800_000
        } else {
            bulk_ns
        }
    }
}

impl Day {
    pub fn at(period_ns: u64) -> Self {
        Self { period_ns, seconds: 60, seed: 0, skips: None, watches: Vec::new() }
    }

    pub fn hours(self, hours: u64) -> Self {
        self.seconds(hours * 3600)
    }

    pub fn seconds(self, seconds: u64) -> Self {
        Self { seconds, ..self }
    }

    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Joins late releases into outages.
    pub fn watching(self, watches: Vec<Watch>) -> Self {
        Self { watches, ..self }
    }

    /// Skips `releases` after every `cycles` cycles.
    pub fn skipping(self, releases: u64, cycles: u64) -> Self {
        Self { skips: Some((releases, cycles)), ..self }
    }

    pub fn header(&self) -> Header {
        let timing = Timing {
            period_ns: self.period_ns,
            phase_ns: 0,
            avoids_tick: false,
            deadline_ns: self.period_ns,
            work_ns: 0,
            wait: "sleep".into(),
            on_overrun: "skip".into(),
            cpu: None,
            priority: 0,
            delay_ns: 0,
        };
        Header {
            schema: Header::SCHEMA.into(),
            version: "0.0.0".into(),
            id: String::new(),
            machine: String::new(),
            command: vec!["onbeat".into()],
            probe: "timer".into(),
            series: Vec::new(),
            started_unix_s: 1_763_712_000.0,
            host: Host::default(),
            cell: None,
            timing: Some(timing),
            grants: Vec::new(),
            limit: None,
            looks: 0,
            most_alarms: None,
            findings: Vec::new(),
            task: None,
        }
    }

    /// Records noise with what `more` adds: of the second of a release and the number of its cycle,
    /// nanoseconds.
    pub fn recorded(&self, more: impl Fn(f64, u64) -> u64) -> RunFile {
        let mut noise = Noise::seeded(self.seed);
        self.recorded_as(|second, cycle| noise.next_ns() + more(second, cycle))
    }

    /// Records latencies as given.
    pub fn recorded_as(&self, mut latency_ns: impl FnMut(f64, u64) -> u64) -> RunFile {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("day.onbeat.hlog");
        let recording = Recording {
            period_ns: self.period_ns,
            work_ns: 0,
            interval_ns: interval_ns_for(self.seconds * SECOND),
            spike_limit: SpikeLimit::TenTimesMedian,
        };

        let origin = Instant::from_ns(SECOND);
        let mut recorder =
            Recorder::new(RunWriter::create(&path, &self.header()).unwrap(), origin, recording);
        recorder.watch(&self.watches);
        recorder.begin_block(0, origin, "idle", 0).unwrap();
        let slots = self.seconds * SECOND / self.period_ns;
        let (mut index, mut cycles, mut skipped, mut served) = (0, 0, 0, 0);
        while index < slots {
            let release = origin.plus_ns(index * self.period_ns);
            let wakeup_latency_ns = latency_ns((index * self.period_ns) as f64 / 1e9, cycles);
            let sample = Sample {
                index,
                release,
                wakeup_latency_ns,
                execution_time_ns: 7_000,
                sleep_latency_ns: wakeup_latency_ns,
                skipped,
                ..Sample::default()
            };

            recorder.sample(&sample, None).unwrap();
            cycles += 1;
            served = index + 1;
            skipped = self
                .skips
                .filter(|(_, every)| cycles % every == 0)
                .map_or(0, |(releases, _)| releases);
            index += 1 + skipped;
        }

        let last_end = origin.plus_ns(slots * self.period_ns);
        let outcome = Outcome {
            end: End::Complete,
            slots,
            cycles,
            skipped: slots - cycles,
            skipped_at_end: slots - served,
            last_end,
        };
        recorder.end_block(&outcome).unwrap();
        recorder.close(&Account::default()).unwrap();
        if let Ok(keep) = std::env::var("KEEP_DAY") {
            std::fs::copy(&path, keep).unwrap();
        }

        RunFile::read(&path).unwrap()
    }
}

/// Puts the steps of a run's trend into another order: the same figures, and nothing that comes
/// back.
pub fn shuffled(run: &mut RunFile, seed: u64) {
    let parts = |text: &str, digits: usize| -> Vec<String> {
        text.as_bytes()
            .chunks(digits)
            .map(|part| String::from_utf8(part.to_vec()).unwrap())
            .collect()
    };
    let fields = |trend: &Trend| -> Vec<[String; 5]> {
        let columns = [
            (&trend.min, 2),
            (&trend.p50, 3),
            (&trend.p90, 3),
            (&trend.max, 2),
            (&trend.worst_at, 2),
        ];
        let columns = columns.map(|(text, digits)| parts(text, digits));
        (0..columns[0].len()).map(|i| std::array::from_fn(|c| columns[c][i].clone())).collect()
    };

    let mut steps: Vec<[String; 5]> = run.trends.iter().flat_map(fields).collect();
    let mut draws = Draws(seed + 1000);
    for i in (1..steps.len()).rev() {
        steps.swap(i, (draws.next() % (i as u64 + 1)) as usize);
    }

    let mut steps = steps.into_iter();
    for trend in &mut run.trends {
        let n = trend.max.len() / 2;
        let mine: Vec<[String; 5]> = steps.by_ref().take(n).collect();
        let column = |c: usize| mine.iter().map(|step| step[c].as_str()).collect::<String>();
        (trend.min, trend.p50, trend.p90, trend.max, trend.worst_at) =
            (column(0), column(1), column(2), column(3), column(4));
    }
}
