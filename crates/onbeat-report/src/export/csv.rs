//! Every bucket of every interval as a line of CSV (RFC 4180), with units in the header.

use std::io::{self, Write};

use onbeat_record::{Cell, RunFile};

/// The header: names with their units. Where each of several CPUs has a loop, `,cpu` follows.
pub const HEADER: &str = "tuning,load,series,block,t_s,length_s,low_ns,high_ns,count";

/// Writes the buckets of runs, one line each.
///
/// # Errors
/// The error of the writer.
pub fn write<'r>(
    runs: impl IntoIterator<Item = &'r RunFile>,
    to: &mut dyn Write,
) -> io::Result<()> {
    let runs: Vec<(Cell, &RunFile)> = runs.into_iter().map(|run| (super::cell(run), run)).collect();
    let has_cpus = runs.iter().any(|(cell, _)| cell.cpu.is_some());
    write!(to, "{HEADER}{}\r\n", if has_cpus { ",cpu" } else { "" })?;
    for (cell, run) in runs {
        let cpu = cell.cpu.map_or(String::new(), |cpu| format!(",{cpu}"));
        let tuning = quoted(&cell.tuning);
        let load = quoted(&cell.load);
        for row in super::rows(run, &cell) {
            let block = row.block.map(|block| block.to_string()).unwrap_or_default();
            let series = row.series.tag();
            let bucket = row.bucket;
            let low = bucket.low_ns;
            let high = bucket.high_ns();
            let count = bucket.count;
            write!(
                to,
                "{tuning},{load},{series},{block},{:.3},{:.3},{low},{high},{count}{cpu}\r\n",
                row.t, row.length
            )?;
        }
    }

    Ok(())
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
