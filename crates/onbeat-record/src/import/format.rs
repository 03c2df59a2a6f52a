//! The formats, and what a file of one may leave open.

use crate::Series;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `cyclictest --json`, with a histogram (`-h`) or without.
    CyclictestJson,
    /// Text of cyclictest: status lines, every sample (`-v`), histograms (`-h`, `-H`, `--histfile`).
    Cyclictest,
    /// `--json` of signaltest, ptsematest, pmqtest, svsematest, sigwaittest and cyclicdeadline.
    RtTestsJson,
    /// Text of signaltest, ptsematest, pmqtest, svsematest, sigwaittest and cyclicdeadline.
    RtTests,
    /// `oslat --json`.
    OslatJson,
    /// Text of oslat.
    Oslat,
    /// The JSON of jitterdebugger, and its status lines.
    Jitterdebugger,
    /// Text of Xenomai's `latency`, and its file for gnuplot (`-g`).
    Xenomai,
    /// Text of RTAI's latency test.
    Rtai,
    /// Text of `hwlatdetect`, and the trace of the kernel's tracer hwlat.
    Hwlat,
    /// Text of `rtla timerlat hist`, `rtla osnoise hist` and `rtla timerlat top`.
    Rtla,
    /// Text of a trace with `sched_wakeup` and `sched_switch`.
    Ftrace,
    /// Text of ping, with times (`-D`) and without.
    Ping,
    /// The log of `stress-ng --cyclic`.
    StressNg,
    /// An HdrHistogram interval log.
    Hlog,
    /// HdrHistogram's percentile text.
    Hgrm,
    /// One value per line, with or without its time.
    Csv,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::CyclictestJson,
        Self::Cyclictest,
        Self::RtTestsJson,
        Self::RtTests,
        Self::OslatJson,
        Self::Oslat,
        Self::Jitterdebugger,
        Self::Xenomai,
        Self::Rtai,
        Self::Hwlat,
        Self::Rtla,
        Self::Ftrace,
        Self::Ping,
        Self::StressNg,
        Self::Hlog,
        Self::Hgrm,
        Self::Csv,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::CyclictestJson => "cyclictest-json",
            Self::Cyclictest => "cyclictest",
            Self::RtTestsJson => "rt-tests-json",
            Self::RtTests => "rt-tests",
            Self::OslatJson => "oslat-json",
            Self::Oslat => "oslat",
            Self::Jitterdebugger => "jitterdebugger",
            Self::Xenomai => "xenomai",
            Self::Rtai => "rtai",
            Self::Hwlat => "hwlat",
            Self::Rtla => "rtla",
            Self::Ftrace => "ftrace",
            Self::Ping => "ping",
            Self::StressNg => "stress-ng",
            Self::Hlog => "hlog",
            Self::Hgrm => "hgrm",
            Self::Csv => "csv",
        }
    }

    /// The program that writes it; the run file's `probe`.
    #[must_use]
    pub const fn tool(self) -> &'static str {
        match self {
            Self::CyclictestJson | Self::Cyclictest => "cyclictest",
            Self::RtTestsJson | Self::RtTests => "rt-tests",
            Self::OslatJson | Self::Oslat => "oslat",
            Self::Jitterdebugger => "jitterdebugger",
            Self::Xenomai => "xenomai",
            Self::Rtai => "rtai",
            Self::Hwlat => "hwlat",
            Self::Rtla => "rtla",
            Self::Ftrace => "ftrace",
            Self::Ping => "ping",
            Self::StressNg => "stress-ng",
            Self::Hlog | Self::Hgrm => "HdrHistogram",
            Self::Csv => "CSV",
        }
    }
}

/// The options of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceOptions {
    /// The format, when its content is not to decide.
    pub format: Option<Format>,
    /// Nanoseconds per unit of the values, where the file does not say.
    pub unit_ns: Option<f64>,
    /// What the values are, where the file does not say.
    pub series: Option<Series>,
    /// The loop's period, where the file does not say.
    pub period_ns: Option<u64>,
    /// The column of values in a CSV file: its name, or its number from 1.
    pub column: Option<String>,
    /// Whether damaged lines are passed over and counted, where a format's lines stand for
    /// themselves; otherwise the first one is an error.
    pub skip_damaged: bool,
}

/// A number in units, as whole nanoseconds, rounded to the nearest; `None` when it is below 0 or
/// beyond 10,000 hours.
pub(crate) fn to_ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    (0.0..=3.6e16).contains(&ns).then_some(ns as u64)
}
