//! Every bucket of every interval as a line of CSV (RFC 4180), with units in the header.

use std::io::{self, Write};

use onbeat_record::RunFile;

/// The header: names with their units.
pub const HEADER: &str = "tuning,load,series,block,t_s,length_s,low_ns,high_ns,count";

/// Writes the buckets of runs, one line each.
///
/// # Errors
/// The error of the writer.
pub fn write<'r>(
    runs: impl IntoIterator<Item = &'r RunFile>,
    to: &mut dyn Write,
) -> io::Result<()> {
    write!(to, "{HEADER}\r\n")?;
    for run in runs {
        let cell = super::cell(run);
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
                "{tuning},{load},{series},{block},{:.3},{:.3},{low},{high},{count}\r\n",
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
