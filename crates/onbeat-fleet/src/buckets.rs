//! Every bucket of every interval of a run as one Parquet file: `onbeat export --parquet`.

use std::io::Write;
use std::path::Path;

use onbeat_record::run_dir::{RunDirError, read_cells};
use onbeat_report::export;
use parquet::errors::ParquetError;

use crate::parquet_file::TableWriter;
use crate::table::ColumnType::{Real, Text, Whole};
use crate::table::{Table, TableShape, Value};

/// Rows that are held before they are written; bounds memory at some 30 MB.
const ROWS_AT_ONCE: usize = 500_000;

/// The columns of the file; `block` is −1 where blocks are not noted, and `cpu` but where each of several has a loop.
pub static BUCKETS: TableShape = TableShape {
    name: "buckets",
    columns: &[
        ("tuning", Text),
        ("load", Text),
        ("series", Text),
        ("block", Whole),
        ("t_s", Real),
        ("length_s", Real),
        ("low_ns", Whole),
        ("high_ns", Whole),
        ("count", Whole),
        ("cpu", Whole),
    ],
    sorted_by: &[],
};

/// A run could not be written as one file.
#[derive(Debug, thiserror::Error)]
pub enum BucketsError {
    /// Its files cannot be read.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The file cannot be written.
    #[error("cannot write the buckets of a run: {0}")]
    Parquet(#[from] ParquetError),
}

/// Writes the buckets of a run; returns how many rows.
///
/// # Errors
/// [`BucketsError`].
pub fn write(run: &Path, to: impl Write + Send) -> Result<usize, BucketsError> {
    let mut writer = TableWriter::begin(to, &BUCKETS)?;
    let mut table = Table::new(&BUCKETS);
    let mut written = 0;
    for file in read_cells(run)? {
        let cell = export::cell(&file);
        for row in export::rows(&file, &cell) {
            let values: [Value<'_>; 10] = [
                row.tuning.into(),
                row.load.into(),
                row.series.tag().into(),
                row.block.map_or(-1, i64::from).into(),
                row.t.into(),
                row.length.into(),
                row.bucket.low_ns.into(),
                row.bucket.high_ns().into(),
                row.bucket.count.into(),
                cell.cpu.map_or(-1, i64::from).into(),
            ];
            table.push(values);
            if table.rows() == ROWS_AT_ONCE {
                writer.append(&std::mem::replace(&mut table, Table::new(&BUCKETS)))?;
                written += ROWS_AT_ONCE;
            }
        }
    }
    writer.append(&table)?;
    writer.finish()?.flush().map_err(ParquetError::from)?;
    Ok(written + table.rows())
}
