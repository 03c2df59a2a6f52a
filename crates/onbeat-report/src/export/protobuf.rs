//! Metrics as Prometheus' protobuf, `io.prometheus.client.MetricFamily`: the only form that has native histograms.
//!
//! No maintained crate has these messages with native histograms; the parts that are used are declared here as in
//! `metrics.proto` of prometheus/client_model.

use super::exponential::{Exponential, ZERO_S};
use super::exposition::{Family, FamilyKind, Point, PointValue, TimeHistogram};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(enumeration = "MetricType", tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Single>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Single>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Single {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<ClassicBucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ClassicBucket {
    #[prost(uint64, tag = "1")]
    cumulative: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    /// Buckets without samples since the span before; of the first one, its index.
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// Each family behind its length.
pub fn delimited(families: &[Family]) -> Vec<u8> {
    families.iter().flat_map(|of| family(of).encode_length_delimited_to_vec()).collect()
}

fn family(of: &Family) -> MetricFamily {
    let (kind, suffix) = match of.kind {
        FamilyKind::Histogram => (MetricType::Histogram, ""),
        FamilyKind::Gauge => (MetricType::Gauge, ""),
        FamilyKind::Counter => (MetricType::Counter, "_total"),
    };
    MetricFamily {
        name: of.prometheus_name() + suffix,
        help: of.help.clone(),
        kind: kind.into(),
        metrics: of.points.iter().map(|point| metric(point, kind)).collect(),
    }
}

fn metric(point: &Point, kind: MetricType) -> Metric {
    let label =
        |(name, value): &(&str, String)| Label { name: (*name).to_owned(), value: value.clone() };
    let mut metric =
        Metric { labels: point.labels.iter().map(label).collect(), ..Metric::default() };
    let value = match &point.value {
        PointValue::Histogram(of) => {
            metric.histogram = Some(histogram(of));
            return metric;
        }
        PointValue::Count(count) => *count as f64,
        PointValue::Time(ns) => *ns as f64 / 1e9,
    };
    let single = if kind == MetricType::Counter { &mut metric.counter } else { &mut metric.gauge };
    *single = Some(Single { value });
    metric
}

/// Classic buckets and native ones side by side: a Prometheus takes those that it is set to.
fn histogram(of: &TimeHistogram) -> Histogram {
    let count = of.samples.count();
    let bounds = of.cumulative().into_iter().map(|(bound_ns, cumulative)| ClassicBucket {
        cumulative,
        upper_bound: bound_ns as f64 / 1e9,
    });
    let all = ClassicBucket { cumulative: count, upper_bound: f64::INFINITY };
    let native = Exponential::with_few_filled(&of.samples);
    let (spans, deltas) = spans(&native);
    Histogram {
        count,
        sum: of.sum_s,
        buckets: bounds.chain([all]).collect(),
        schema: native.scale,
        zero_threshold: ZERO_S,
        zero_count: native.zeros,
        spans,
        deltas,
    }
}

/// Counts as runs of neighbouring buckets, and as differences from each to the next.
fn spans(native: &Exponential) -> (Vec<Span>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<Span>::new(), Vec::new());
    let (mut next, mut before) = (0, 0_i64);
    for (&index, &count) in &native.counts {
        match spans.last_mut() {
            Some(span) if index == next => span.length += 1,
            _ => spans.push(Span { offset: index - next, length: 1 }),
        }
        next = index + 1;
        // A run file has at most 2^53 samples.
        let count = count.cast_signed();
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn spans_and_differences_give_the_counts_back() {
        let counts = BTreeMap::from([(-700, 5), (-699, 1), (-650, 9), (-649, 9), (3, 2)]);
        let (spans, deltas) = spans(&Exponential { scale: 5, zeros: 0, counts: counts.clone() });
        assert_eq!(spans.len(), 3);
        let (mut index, mut count, mut deltas) = (0, 0, deltas.into_iter());
        let mut back = BTreeMap::new();
        for span in spans {
            index += span.offset;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                back.insert(index, count.cast_unsigned());
                index += 1;
            }
        }
        assert_eq!(back, counts);
        assert_eq!(deltas.next(), None);
    }
}
