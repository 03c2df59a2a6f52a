//! Metrics in OpenTelemetry's protocol (OTLP 1), by the types of its own crate.
//!
//! All figures are cumulative since the run's start: what a collector misses is in the next request. Names and units
//! are such that Prometheus' translation gives the names that it scrapes: `onbeat.release_latency` in `s` is
//! `onbeat_release_latency_seconds` there.

use super::exponential::{Exponential, ZERO_S};
use super::exposition::{Family, FamilyKind, Point, PointValue, TimeHistogram};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// What all metrics of a run have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfRun {
    /// Salted number of the machine, of its run file; empty where that has none.
    pub machine: String,
    /// Random number of the run.
    pub run: String,
    /// Version of onbeat that measures.
    pub version: String,
    /// Start of the run, in nanoseconds since 1970.
    pub started_ns: u64,
}

/// The request that hands metrics over, as they are at `now_ns` since 1970.
pub fn request(families: &[Family], of: &OfRun, now_ns: u64) -> ExportMetricsServiceRequest {
    let span = Span { started_ns: of.started_ns, now_ns };
    let known = [
        ("service.name", "onbeat"),
        ("service.version", of.version.as_str()),
        ("service.instance.id", of.run.as_str()),
        ("host.id", of.machine.as_str()),
    ];
    let known = known.into_iter().filter(|(_, value)| !value.is_empty());
    let resource = Resource {
        attributes: known.map(|(key, value)| attribute(key, value)).collect(),
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "onbeat".to_owned(),
        version: of.version.clone(),
        ..InstrumentationScope::default()
    };
    let metrics = families.iter().map(|family| span.metric(family)).collect();
    let scope_metrics = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![scope_metrics],
            ..ResourceMetrics::default()
        }],
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn attributes(point: &Point) -> Vec<KeyValue> {
    point.labels.iter().map(|(key, value)| attribute(key, value)).collect()
}

/// The time that all figures are about.
#[derive(Clone, Copy)]
struct Span {
    started_ns: u64,
    now_ns: u64,
}

impl Span {
    fn metric(self, of: &Family) -> Metric {
        let data = match of.kind {
            FamilyKind::Histogram => Data::ExponentialHistogram(ExponentialHistogram {
                data_points: of.points.iter().filter_map(|point| self.histogram(point)).collect(),
                aggregation_temporality: CUMULATIVE,
            }),
            FamilyKind::Gauge => Data::Gauge(Gauge { data_points: self.numbers(of) }),
            FamilyKind::Counter => Data::Sum(Sum {
                data_points: self.numbers(of),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
        };
        Metric {
            name: format!("onbeat.{}", of.stem),
            description: of.help.clone(),
            unit: if of.is_of_time() { "s".to_owned() } else { String::new() },
            data: Some(data),
            ..Metric::default()
        }
    }

    fn numbers(self, of: &Family) -> Vec<NumberDataPoint> {
        let number = |point: &Point| {
            let value = match point.value {
                // A run file has at most 2^53 samples.
                PointValue::Count(count) => number_data_point::Value::AsInt(count.cast_signed()),
                PointValue::Time(ns) => number_data_point::Value::AsDouble(ns as f64 / 1e9),
                PointValue::Histogram(_) => return None,
            };
            Some(NumberDataPoint {
                attributes: attributes(point),
                start_time_unix_nano: self.started_ns,
                time_unix_nano: self.now_ns,
                value: Some(value),
                ..NumberDataPoint::default()
            })
        };
        of.points.iter().filter_map(number).collect()
    }

    fn histogram(self, point: &Point) -> Option<ExponentialHistogramDataPoint> {
        let PointValue::Histogram(of) = &point.value else { return None };
        let TimeHistogram { samples, sum_s, range_ns: (min_ns, max_ns), .. } = of;
        let counted = Exponential::with_narrow_span(samples);
        let s = |ns: &u64| Some(*ns as f64 / 1e9);
        Some(ExponentialHistogramDataPoint {
            attributes: attributes(point),
            start_time_unix_nano: self.started_ns,
            time_unix_nano: self.now_ns,
            count: samples.count(),
            sum: Some(*sum_s),
            scale: counted.scale,
            zero_count: counted.zeros,
            positive: Some(dense(&counted)),
            min: s(min_ns),
            max: s(max_ns),
            zero_threshold: ZERO_S,
            ..ExponentialHistogramDataPoint::default()
        })
    }
}

/// Counts from the first bucket with samples to the last one. The offset is the index of the first: here a bucket is named by its lower
/// end, one less than by its upper one.
fn dense(counted: &Exponential) -> Buckets {
    let ends = counted.counts.first_key_value().zip(counted.counts.last_key_value());
    let Some(((&first, _), (&last, _))) = ends else { return Buckets::default() };
    let counts = (first..=last).map(|index| counted.counts.get(&index).copied().unwrap_or(0));
    Buckets { offset: first - 1, bucket_counts: counts.collect() }
}
