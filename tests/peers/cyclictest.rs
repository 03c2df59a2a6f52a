//! `cyclictest` of rt-tests: started as people start it, its JSON read.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::running::{CpuShare, Running};
use crate::timer::IdleStates;
use crate::turns::quantile;

/// One second, in its microseconds: what the histogram holds at most. What is later is counted as
/// an overflow.
const HISTOGRAM_US: u32 = 1_000_000;

/// What to run it with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cyclictest {
    pub(crate) interval_us: u64,
    /// It takes whole seconds only.
    pub(crate) seconds: u64,
    pub(crate) cpu: u32,
    pub(crate) idle: IdleStates,
}

/// What it said.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) cycles: u64,
    /// Whole microseconds, rounded down, and how many.
    histogram: Vec<(u64, u64)>,
    pub(crate) max_us: u64,
    pub(crate) cpu: Option<CpuShare>,
}

impl Answer {
    /// Nanoseconds, the middle of the microsecond that a cycle was counted in; overflows stand
    /// above all else.
    pub(crate) fn quantile_ns(&self, q: f64) -> f64 {
        quantile(
            self.histogram.iter().map(|&(us, count)| ((us as f64 + 0.5) * 1e3, count)),
            self.cycles,
            q,
        )
    }

    pub(crate) fn overflows(&self) -> u64 {
        self.cycles - self.histogram.iter().map(|(_, count)| count).sum::<u64>()
    }
}

/// Its version line, when it is installed.
pub(crate) fn version() -> Option<String> {
    let help = Command::new("cyclictest").arg("--help").output().ok()?;
    let said = [help.stdout, help.stderr].concat();
    let first = String::from_utf8_lossy(&said).lines().next().map(str::to_owned);
    first.filter(|line| line.starts_with("cyclictest"))
}

impl Cyclictest {
    /// Runs it for its time; `meanwhile` does to it what the benchmark wants done.
    pub(crate) fn run(
        self,
        dir: &Path,
        meanwhile: impl FnOnce(&Running) -> Result<Option<CpuShare>, Failure>,
    ) -> Result<Answer, Failure> {
        let json = dir.join("cyclictest.json");
        let mut command = Command::new("cyclictest");
        command.args([
            "-q",
            "-m",
            "-p90",
            &format!("-a{}", self.cpu),
            &format!("-i{}", self.interval_us),
        ]);
        command.args((self.idle == IdleStates::Left).then_some("--default-system"));
        command.args(["-D", &self.seconds.to_string(), "-h", &HISTOGRAM_US.to_string()]);
        command.arg(format!("--json={}", json.display()));
        let running = Running::start_looping(command)?;
        let cpu = meanwhile(&running)?;
        running.finish()?;

        read(&json, cpu)
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

fn read(path: &Path, cpu: Option<CpuShare>) -> Result<Answer, Failure> {
    let unreadable =
        |why: String| Failure::Unreadable { path: path.to_owned(), program: "cyclictest", why };
    let text = std::fs::read_to_string(path).map_err(|why| unreadable(why.to_string()))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|why| unreadable(why.to_string()))?;
    let thread = &json["thread"]["0"];
    let number =
        |key: &str| thread[key].as_u64().ok_or_else(|| unreadable(format!("no {key} of thread 0")));
    let counts =
        thread["histogram"].as_object().ok_or_else(|| unreadable("no histogram".to_owned()))?;
    let mut histogram: Vec<(u64, u64)> =
        counts.iter().filter_map(|(us, count)| Some((us.parse().ok()?, count.as_u64()?))).collect();
    histogram.sort_unstable();

    Ok(Answer { cycles: number("cycles")?, histogram, max_us: number("max")?, cpu })
}
