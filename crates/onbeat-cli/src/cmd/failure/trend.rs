//! Why there is no trend.

use onbeat_report::statistics::Share;

/// There is no trend.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrendFailure {
    #[error("no percentile {at} in the figures of runs; they have {}", known())]
    Percentile { at: f64 },
    #[error(
        "none of {runs} readable runs has samples of that cell and series; `onbeat report RUN` shows what a run has"
    )]
    NoSamples { runs: usize },
}

fn known() -> String {
    let shares = Share::PERCENTILES.map(|share| share.percent().to_string());
    shares.join(", ")
}
