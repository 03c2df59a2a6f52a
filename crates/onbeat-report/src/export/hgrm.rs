//! HdrHistogram's percentile text (`.hgrm`) of one series: value, percentile, count up to it, 1/(1
//! − percentile), five lines per halving of the distance to 100 %, values in milliseconds or
//! another unit; as `outputPercentileDistribution` prints it.

use std::io::{self, Write};

use crate::statistics::Statistics;
use onbeat_record::{Distribution, Moments};

/// Lines for each halving of the distance to 100 %.
const TICKS_PER_HALF: f64 = 5.0;

/// Writes the percentiles of a distribution, in units of `unit_ns` nanoseconds. Nothing when it
/// holds no sample.
///
/// # Errors
/// The error of the writer.
pub fn write(
    distribution: &Distribution,
    moments: &Moments,
    unit_ns: f64,
    to: &mut dyn Write,
) -> io::Result<()> {
    let Some(figures) = Statistics::new(distribution, moments) else { return Ok(()) };
    let total = figures.count;
    writeln!(
        to,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut reach = 0.0_f64;
    let mut up_to = 0;
    for bucket in distribution.buckets() {
        up_to += bucket.count;
        let value = bucket.high_ns().min(figures.max_ns) as f64 / unit_ns;
        // In percent throughout, so that rounding goes the way of the reference.
        let percent = 100.0 * up_to as f64 / total as f64;
        // A bucket may reach over several ticks: they all have its value.
        while reach <= percent && reach < 100.0 {
            let share = reach / 100.0;
            let inverse = 1.0 / (1.0 - reach / 100.0);
            writeln!(to, "{value:12.3} {share:2.12} {up_to:10} {inverse:14.2}")?;
            reach = next_tick(reach, total);
        }
    }

    let last = figures.max_ns as f64 / unit_ns;
    writeln!(to, "{last:12.3} {:2.12} {total:10}", 1.0)?;
    let mean = figures.mean_ns / unit_ns;
    let sd = figures.sd_ns / unit_ns;
    writeln!(to, "#[Mean    = {mean:12.3}, StdDeviation   = {sd:12.3}]")?;
    writeln!(to, "#[Max     = {last:12.3}, Total count    = {total:12}]")?;
    writeln!(to, "#[Buckets = {:12}, SubBuckets     = {:12}]", distribution.buckets().len(), 2048)
}

/// The next percentage to print; 100 when no sample lies above it any more.
fn next_tick(reach: f64, total: u64) -> f64 {
    let halvings = (100.0 / (100.0 - reach)).log2().floor();
    let next = reach + 100.0 / (TICKS_PER_HALF * (halvings + 1.0).exp2());
    if (100.0 - next) * (total as f64) < 50.0 { 100.0 } else { next }
}
