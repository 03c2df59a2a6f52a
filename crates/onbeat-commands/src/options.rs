//! Groups of options that several commands share, and the parsers of their values.

use std::fmt;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use onbeat::record::Series;
use onbeat_rt::cycle::Phase;
use onbeat_rt::{OnOverrun, Wait};

use crate::complete;
use crate::units::{limit_ns, loop_period_ns, time_ns};

/// Returns the parser of one of several values, each with its word and, where it has one, its help.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    of: fn(T) -> (&'static str, &'static str),
) -> impl TypedValueParser<Value = T> {
    let shown = |one: &T| match of(*one) {
        (word, "") => PossibleValue::new(word),
        (word, help) => PossibleValue::new(word).help(help),
    };
    let words = PossibleValuesParser::new(all.iter().map(shown));
    words.try_map(move |typed| {
        all.iter().copied().find(|one| of(*one).0 == typed).ok_or("unknown word")
    })
}

/// Options of the loop.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The loop")]
pub struct LoopArguments {
    /// Loop period
    #[arg(long, default_value = "1ms", value_parser = loop_period_ns, value_name = "TIME")]
    pub period: u64,
    /// Busy time per cycle, as a controller would compute
    #[arg(long, default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub work: u64,
    /// Latest end of a cycle after its release [default: the period]
    #[arg(long, value_parser = limit_ns, value_name = "TIME")]
    pub deadline: Option<u64>,
    /// Reaction to a cycle that ends after the next release
    ///
    /// `skip` skips the releases that passed and counts them, `catch-up=N` runs at most N of them
    /// at once, `stop` ends the run.
    #[arg(long, default_value = "skip", value_parser = overrun, value_name = "POLICY")]
    #[arg(add = ArgValueCandidates::new(complete::overruns))]
    pub on_overrun: OnOverrun,
    /// Release phase relative to the kernel tick
    ///
    /// `avoid-tick` keeps releases clear of the kernel's periodic tick, whose interrupt would delay
    /// them. A time such as 0us or 250us sets the phase in each period of the clock.
    #[arg(long, default_value = "avoid-tick", value_parser = phase, value_name = "PHASE")]
    #[arg(add = ArgValueCandidates::new(complete::phases))]
    pub phase: Phase,
    /// Spike threshold [default: 10 times the median wake-up latency, at least 50us]
    ///
    /// A cycle counts by its lateness: late start, plus execution time beyond --work. The median of
    /// this excess is added to the default. Medians are those of the interval before.
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub spikes_over: Option<u64>,
    /// Limit C-states by exit latency, machine-wide, during the run
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub dma_latency: Option<u64>,
    /// Kill the process on any system call except sleep and clock
    #[arg(long)]
    pub lockdown: bool,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The verdict")]
pub struct LimitOptions {
    /// Latency limit for the primary series; see --limit-on
    #[arg(long, value_parser = limit_ns, value_name = "TIME")]
    pub limit: Option<u64>,
    /// Percentage of releases that must meet the limit
    #[arg(long, default_value = "99.99", value_parser = percent, value_name = "PERCENT", requires = "limit")]
    pub at: f64,
    /// Series that the limit applies to, or number of alarms allowed
    ///
    /// `main` is the primary series of the run; `release`, `period` and `response` name a series.
    /// `events=N` allows at most N alarms of bus and robot, and needs no --limit.
    #[arg(long, value_delimiter = ',', value_parser = limit_on, value_name = "SERIES|events=N")]
    #[arg(requires_ifs = [("main", "limit"), ("release", "limit"), ("wakeup", "limit"), ("period", "limit"), ("response", "limit")])]
    #[arg(add = ArgValueCandidates::new(complete::limits_on))]
    pub limit_on: Vec<LimitOn>,
}

/// When a run with a limit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// As soon as the verdict is PASS or FAIL, at the latest after --for.
    Decided,
    /// After --for.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOn {
    /// The primary series: release latency, or what the probe measures.
    Main,
    Series(Series),
    /// Number of alarms of bus and robot allowed.
    Events(u64),
}

impl fmt::Display for LimitOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => f.write_str("main"),
            Self::Series(Series::ObservedPeriod) => f.write_str("period"),
            Self::Series(Series::ResponseTime) => f.write_str("response"),
            Self::Series(_) => f.write_str("release"),
            Self::Events(most) => write!(f, "events={most}"),
        }
    }
}

fn limit_on(text: &str) -> Result<LimitOn, String> {
    match text {
        "main" => Ok(LimitOn::Main),
        "release" | "wakeup" => Ok(LimitOn::Series(Series::ReleaseLatency)),
        "period" => Ok(LimitOn::Series(Series::ObservedPeriod)),
        "response" => Ok(LimitOn::Series(Series::ResponseTime)),
        _ => most_alarms(text).map(LimitOn::Events),
    }
}

/// `events=0`.
pub fn most_alarms(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("events=").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("`{text}` is none of main, release, period, response, events=N"))
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Directory for run directories and the link `latest`
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR")]
    pub out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    /// Print all conclusions as sentences
    #[arg(long)]
    pub verbose: bool,
}

/// Whether figures are drawn while a run is in progress.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct ScreenOptions {
    /// Show worst, p99.9, distribution and latest causes while it runs
    ///
    /// Needs a terminal. A separate process reads the figures from the run's files.
    #[arg(long, conflicts_with = "json")]
    pub screen: bool,
}

pub fn wait(text: &str) -> Result<Wait, String> {
    let (kind, time) = match text.split_once('=') {
        Some((kind, time)) => (kind, Some(time_ns(time).map_err(|why| why.to_string())?)),
        None => (text, None),
    };
    match (kind, time) {
        ("sleep", None) => Ok(Wait::Sleep),
        ("spin", margin) => Ok(Wait::SleepThenSpin { margin_ns: margin.unwrap_or(50_000) }),
        ("adaptive", cap) => Ok(Wait::Adaptive { cap_ns: cap.unwrap_or(300_000) }),
        ("relative", None) => Ok(Wait::Relative { margin_ns: 0 }),
        ("relative-spin", margin) => Ok(Wait::Relative { margin_ns: margin.unwrap_or(50_000) }),
        _ => {
            Err("waits are sleep, spin[=50us], adaptive[=300us], relative and relative-spin[=50us]"
                .to_owned())
        }
    }
}

/// The waits of a robot's loop, which must keep its grid.
pub fn wait_on_the_grid(text: &str) -> Result<Wait, String> {
    match wait(text) {
        Ok(wait) if wait.is_relative() => {
            Err("a relative sleep drifts, and a robot must keep its grid; waits are sleep, \
                 spin[=50us] and adaptive[=300us]"
                .to_owned())
        }
        parsed => parsed,
    }
}

fn overrun(text: &str) -> Result<OnOverrun, String> {
    match text.split_once('=') {
        None if text == "skip" => Ok(OnOverrun::SkipKeepPhase),
        None if text == "stop" => Ok(OnOverrun::Stop),
        Some(("catch-up", cycles)) => cycles
            .parse()
            .map(|at_most| OnOverrun::CatchUp { at_most })
            .map_err(|_| format!("`{cycles}` is not a number of cycles; write catch-up=3")),
        _ => Err("policies are skip, catch-up=N and stop".to_owned()),
    }
}

fn phase(text: &str) -> Result<Phase, String> {
    if text == "avoid-tick" {
        return Ok(Phase::AvoidTick);
    }
    time_ns(text).map(Phase::At).map_err(|why| format!("{why}; or avoid-tick"))
}

pub fn percent(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.trim_end_matches('%').parse().map_err(|_| format!("`{text}` is not a percentage"))?;
    if number > 0.0 && number < 1.0 {
        let meant = format!("{:.6}", number * 100.0);
        let meant = meant.trim_end_matches('0').trim_end_matches('.');
        Err(format!("{number} is a share and not a percentage; did you mean {meant}?"))
    } else if (1.0..=100.0).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{number} % is not a percentage from 1 to 100"))
    }
}

/// Parses the tag of a series.
pub fn series(text: &str) -> Result<Series, String> {
    Series::from_tag(&text.replace('-', "_")).ok_or_else(|| {
        let tags = Series::ALL.map(Series::tag).join(", ");
        format!("`{text}` is not a series; the series are {tags}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_policies_and_phases_are_parsed() {
        assert_eq!(wait("spin"), Ok(Wait::SleepThenSpin { margin_ns: 50_000 }));
        assert!(
            wait_on_the_grid("relative-spin=20us").is_err_and(|why| why.contains("keep its grid"))
        );
        assert_eq!(wait_on_the_grid("spin"), wait("spin"));
        assert_eq!(wait("relative"), Ok(Wait::Relative { margin_ns: 0 }));
        assert_eq!(wait("relative-spin"), Ok(Wait::Relative { margin_ns: 50_000 }));
        assert_eq!(wait("adaptive=100us"), Ok(Wait::Adaptive { cap_ns: 100_000 }));
        assert_eq!(overrun("catch-up=3"), Ok(OnOverrun::CatchUp { at_most: 3 }));
        assert_eq!(phase("250us"), Ok(Phase::At(250_000)));
        assert!(
            wait("nap").is_err()
                && overrun("ignore").is_err()
                && percent("0").is_err()
                && percent("101").is_err()
        );
        for on in ["main", "release", "period", "response", "events=3"] {
            assert_eq!(limit_on(on).map(|on| on.to_string()), Ok(on.to_owned()));
        }
        assert_eq!((percent("99.99"), percent("1")), (Ok(99.99), Ok(1.0)));
        for (share, meant) in [("0.9999", "99.99?"), ("0.999", "99.9?"), ("0.5", "50?")] {
            assert!(percent(share).is_err_and(|why| why.ends_with(meant)), "{share}");
        }
    }
}
