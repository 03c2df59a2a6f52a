//! What sockperf's client prints of `ping-pong` and `under-load`: percentiles, their number of
//! observations, extremes, mean and standard deviation, a block per server.
//!
//! Without `--full-rtt` its latency is half of a round trip.

use std::io::BufRead;

use super::error::Error;
use super::format::{Format, SourceOptions, to_ns};
use super::lines::{Line, PassedOver, begins_with, each_line};
use super::stated;
use super::stream::{SourceFigures, Stream};
use crate::Series;
use onbeat_host::machine::Host;

const FORMAT: Format = Format::Sockperf;
const PREFIX: &str = "sockperf: ";
const US: f64 = 1e3;

/// Whether a line states how many observations the percentiles are of.
#[must_use]
pub fn is_total(line: &str) -> bool {
    line.starts_with(PREFIX) && line.contains(" observations; each percentile contains ")
}

/// What is printed of one server.
#[derive(Default)]
struct Server {
    all: Option<u64>,
    /// Shares in percent and their values.
    percentiles: Vec<(f64, u64)>,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    mean_ns: Option<f64>,
    sd_ns: f64,
    is_round_trip: bool,
    dropped: u64,
}

#[derive(Default)]
struct SockperfText {
    servers: Vec<Server>,
    version: Option<String>,
    passed_over: PassedOver,
}

/// One stream per server.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut impl BufRead, asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = SockperfText::default();
    each_line(file, |line| {
        text.line(line);
        Ok(())
    })?;
    let several = text.servers.len() > 1;
    let mut streams = Vec::new();
    for (server, number) in text.servers.iter().zip(0..) {
        if let Some(mut stream) = server.stream(asked.series) {
            stream.label = if several { format!("server {number}") } else { String::new() };
            stream.host = Host::from_facts([("measured with", text.version.clone())]);
            stream.remarks.extend(text.passed_over.sentence("sockperf"));
            streams.push(stream);
        }
    }

    if streams.is_empty() {
        let reason = "it states no observations with their percentiles and maximum";
        return Err(Error::nothing(FORMAT, reason));
    }
    Ok(streams)
}

impl SockperfText {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text.trim();
        let Some(says) = text.strip_prefix(PREFIX) else {
            if !begins_with(text, &["sockperf[", "[ "]) {
                self.passed_over.count(line);
            }
            return;
        };
        if let Some(version) = says.strip_prefix("== version #") {
            self.version = version.split_whitespace().next().map(|of| format!("sockperf {of}"));
        }
        let is_next = says.contains("Printing statistics for Server No")
            && self.servers.last().is_some_and(|server| server.all.is_some());
        if is_next || self.servers.is_empty() {
            self.servers.push(Server::default());
        }
        if let Some(server) = self.servers.last_mut() {
            server.line(says);
        }
    }
}

impl Server {
    fn line(&mut self, says: &str) {
        let number = |word: &str| {
            let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
            word[..end].parse::<f64>().ok()
        };
        let after = |key: &str| number(says.split_once(key)?.1.trim_start());
        self.is_round_trip |= says.starts_with("Summary: Round trip ");
        if let Some(rest) = says.strip_prefix("Total ") {
            self.all = number(rest).map(|all| all as u64).filter(|all| *all > 0);
        } else if let Some(rest) = says.strip_prefix("---> ") {
            let value_ns = after("=").and_then(|us| to_ns(us, US));
            if rest.contains("MAX") {
                self.max_ns = value_ns;
            } else if rest.contains("MIN") {
                self.min_ns = value_ns;
            } else if let Some(rest) = rest.strip_prefix("percentile ") {
                self.percentiles.extend(number(rest).zip(value_ns));
            }
        } else if let Some((_, rest)) = says.split_once("> avg-") {
            let mean = rest.split_once('=').and_then(|(_, us)| number(us));
            self.mean_ns = mean.filter(|us| *us < 1e13).map(|us| us * US);
            self.sd_ns = after("std-dev=").filter(|us| *us < 1e13).unwrap_or(0.0) * US;
        } else if says.starts_with("# dropped messages") {
            self.dropped = after("=").map_or(0, |dropped| dropped as u64);
        }
    }

    fn stream(&self, asked: Option<Series>) -> Option<Stream> {
        let (all, min_ns, max_ns) = (self.all?, self.min_ns?, self.max_ns?);
        let mut percentiles = self.percentiles.clone();
        percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        let cells = stated::parted(all, &percentiles, max_ns)?;
        let usual = if self.is_round_trip { Series::RoundTrip } else { Series::Recorded };
        let (resolution, mut part) = stated::uneven(asked.unwrap_or(usual), &cells);
        part.moments = self.mean_ns.map(|mean_ns| {
            part.moments_with_sd(SourceFigures { min_ns, max_ns, mean_ns }, self.sd_ns)
        });
        let mut stream = Stream {
            missing: vec![
                "order and times of the samples: no figures over time and no intervals".to_owned(),
                "values between two of its percentiles: percentiles there are given as the larger one"
                    .to_owned(),
            ],
            resolution: [(part.series, resolution)].into(),
            parts: vec![part],
            ..Stream::default()
        };
        if !self.is_round_trip {
            stream
                .remarks
                .push("latency is half of a round trip, as sockperf states it".to_owned());
        }
        if self.dropped > 0 {
            let dropped = self.dropped;
            stream.lost = dropped;
            stream.remarks.push(format!("{dropped} messages were dropped and are in no figure"));
        }
        Some(stream)
    }
}
