//! `onbeat measure timer`, as people start it, its run file read.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use onbeat::record::{RunFile, Series};

use crate::failure::Failure;
use crate::running::{CpuShare, Running};
use crate::turns::quantile;

/// What to run it with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) period_us: u64,
    /// `None` is until it is asked to end.
    pub(crate) duration: Option<Duration>,
    pub(crate) wait: &'static str,
    pub(crate) cpu: u32,
    pub(crate) causes: bool,
    pub(crate) idle: IdleStates,
}

/// What a contestant does to the idle states of the machine while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleStates {
    /// Holds `/dev/cpu_dma_latency` at 0, which is what `cyclictest` does unasked.
    Held,
    /// Leaves them as they are, which is what onbeat does unasked.
    Left,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) run: RunFile,
    pub(crate) cpu: Option<CpuShare>,
}

impl Answer {
    /// Of the wake-up latency, in nanoseconds, over cycles; releases that were skipped are left
    /// out, as `cyclictest` leaves them out.
    pub(crate) fn quantile_ns(&self, q: f64) -> f64 {
        let all = self.run.distribution(Series::WakeupLatency);
        quantile(
            all.buckets().iter().map(|bucket| (bucket.middle_ns(), bucket.count)),
            all.count(),
            q,
        )
    }

    /// What was refused to the loop, in words.
    pub(crate) fn refused(&self) -> Vec<String> {
        let refused = self.run.header.grants.iter().filter(|grant| !grant.granted);
        refused
            .map(|grant| format!("onbeat was refused {} ({})", grant.what, grant.wanted))
            .collect()
    }
}

impl Timer {
    /// Runs it at the same priority as `cyclictest`, on the same CPU, with the same bound on idle
    /// states.
    pub(crate) fn run(
        self,
        dir: &Path,
        meanwhile: impl FnOnce(&Running) -> Result<Option<CpuShare>, Failure>,
    ) -> Result<Answer, Failure> {
        let seconds = self.duration.map_or(0.0, |duration| duration.as_secs_f64());
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(["measure", "timer", "--json", "--priority=90"]);
        command.args((self.idle == IdleStates::Held).then_some("--dma-latency=0"));
        command.arg(format!("--period={}us", self.period_us)).arg(format!("--for={seconds}s"));
        command
            .arg(format!("--wait={}", self.wait))
            .arg(format!("--cpu={}", self.cpu))
            .arg("--out")
            .arg(dir);
        command.args((!self.causes).then_some("--no-causes"));
        command.env("ONBEAT_STATE_DIR", dir.join("state"));
        let running = Running::start_looping(command)?;
        let cpu = meanwhile(&running)?;
        running.finish()?;
        let run = RunFile::read(&dir.join("latest/timer.onbeat.hlog"))?;

        Ok(Answer { run, cpu })
    }
}
