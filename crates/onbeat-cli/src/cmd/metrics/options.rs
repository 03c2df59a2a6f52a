//! Options of `onbeat metrics`, and `--metrics` of the commands that measure.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use super::push::CollectorUrl;
use crate::complete;

pub(crate) const METRICS_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat metrics
      serve the figures of the run in progress to Prometheus, at 127.0.0.1:9464
  onbeat bench --metrics 0.0.0.0:9464
      the same for a bench, to other machines
  onbeat bench --metrics http://127.0.0.1:4318
      send the figures of a bench to an OpenTelemetry collector";

/// Where metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetricsTo {
    /// To whoever asks at this address.
    Scraper(SocketAddr),
    Collector(CollectorUrl),
}

/// An address, or a URL.
pub(crate) fn metrics_to(text: &str) -> Result<MetricsTo, String> {
    if text.contains("://") {
        return text.parse().map(MetricsTo::Collector);
    }
    address(text).map(MetricsTo::Scraper)
}

/// Options of `onbeat metrics`.
#[derive(Debug, Args)]
pub(crate) struct MetricsOptions {
    /// Run directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: PathBuf,
    /// Address and port to listen on
    #[arg(long, default_value = "127.0.0.1:9464", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Send to this OpenTelemetry collector instead, by OTLP over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "listen")]
    pub(crate) push: Option<CollectorUrl>,
    /// CPU of the loop, which the server avoids
    #[arg(long, value_name = "N")]
    pub(crate) avoid_cpu: Option<u32>,
}

/// An address with its port; a port alone is one of 127.0.0.1.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>().ok();
    let local = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    local.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!("\"{text}\" is not an address and port, such as 127.0.0.1:9464 or [::1]:9464")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let found = ["9464", ":9464", "0.0.0.0:1", "[::1]:2"]
            .map(|text| address(text).unwrap().to_string());
        assert_eq!(found, ["127.0.0.1:9464", "127.0.0.1:9464", "0.0.0.0:1", "[::1]:2"]);
        for text in ["", "localhost", "1.2.3.4", "70000", "::1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
