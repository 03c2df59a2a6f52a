//! Runs for other programs: one file per format, each a pure function to a writer.
//!
//! | file | format |
//! |---|---|
//! | [`csv`] | every bucket of every interval as a line |
//! | [`hgrm`] | HdrHistogram's percentile text of one series |
//! | [`openmetrics`] | [metrics](exposition) for Prometheus and its like, as text |
//! | [`protobuf`] | the same as Prometheus' protobuf, with native histograms |
//! | [`otlp`] | the same for a collector of OpenTelemetry |
//!
//! A run keeps no single samples but the worst ones, its histograms' buckets: these are what is
//! exported, and as Parquet by the program `onbeat-fleet`. Lower ends, upper ends and counts are all that is known of a sample.

pub mod csv;
pub mod exponential;
pub mod exposition;
pub mod form;
pub mod hgrm;
pub mod openmetrics;
pub mod otlp;
pub mod protobuf;

use onbeat_record::{Bucket, Cell, Entry, RunFile, Series};

pub use super::file_facts::cell_of as cell;

/// One bucket of one interval, with where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketRow<'r> {
    /// `none`, letters of P, M, C, S, or the name of an imported stream.
    pub tuning: &'r str,
    /// The load that ran.
    pub load: &'r str,
    /// Which series.
    pub series: Series,
    /// The block it belongs to, when blocks are noted.
    pub block: Option<u32>,
    /// Start of the interval, in seconds since the file's start.
    pub t: f64,
    /// Its length in seconds; 0 where the source of an imported run does not say.
    pub length: f64,
    pub bucket: Bucket,
}

/// Every bucket of every interval of a run.
pub fn rows<'r>(run: &'r RunFile, cell: &'r Cell) -> impl Iterator<Item = BucketRow<'r>> {
    run.entries.iter().flat_map(move |entry: &Entry| {
        entry.counts.buckets().iter().map(move |&bucket| BucketRow {
            tuning: &cell.tuning,
            load: &cell.load,
            series: entry.series,
            block: entry.block,
            t: entry.t,
            length: entry.length,
            bucket,
        })
    })
}
