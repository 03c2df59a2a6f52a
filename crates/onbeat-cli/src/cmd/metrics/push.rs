//! Metrics handed to a collector: OTLP over HTTP, as protobuf.
//!
//! A collector that is away costs the run nothing: each request has all figures since the start, so that the next one makes up
//! for those that were not taken.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat_report::export::exposition::Family;
use onbeat_report::export::otlp::{self, OfRun};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use ureq::Agent;
use ureq::http::Uri;

use crate::term::{Tone, advise};

/// Time between two requests.
pub(super) const EVERY: Duration = Duration::from_secs(10);
/// A collector answers within this time.
const WITHIN: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const LONGEST_ANSWER: u64 = 64 * 1024;
/// Where OTLP takes metrics, by its specification.
const PATH: &str = "/v1/metrics";

/// The URL of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectorUrl(Uri);

impl FromStr for CollectorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("\"{text}\" is not a collector's URL: {why}; write http://127.0.0.1:4318")
        };
        if text.starts_with("https://") {
            return Err(format!(
                "\"{text}\" needs TLS, which onbeat does not have; send to a collector on this machine, http://127.0.0.1:4318, which passes it on"
            ));
        }
        let uri: Uri = text.parse().map_err(|_| wrong("it cannot be parsed"))?;
        let host = uri.host().unwrap_or_default();
        match uri.authority() {
            _ if uri.scheme_str() != Some("http") => {
                return Err(wrong("it does not begin with http://"));
            }
            Some(authority) if authority.as_str().contains('@') => {
                return Err(wrong("it has a user name"));
            }
            _ if host.is_empty() => return Err(wrong("it has no host")),
            Some(authority) if is_port_wrong(authority.as_str()) => {
                return Err(wrong("its port is not one of 1 to 65535"));
            }
            _ if uri.query().is_some() => return Err(wrong("it has a query")),
            _ => {}
        }
        let base = text.trim_end_matches('/');
        let path = if uri.path().trim_end_matches('/').is_empty() { PATH } else { "" };
        format!("{base}{path}").parse().map(Self).map_err(|_| wrong("it cannot be parsed"))
    }
}

/// The parser of URIs takes any digits for a port.
fn is_port_wrong(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0))
}

impl Display for CollectorUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
enum PushFailure {
    #[error(transparent)]
    Sent(#[from] ureq::Error),
    #[error("it answered {0}")]
    Status(u16),
}

/// The connection to a collector.
pub(super) struct Pusher {
    to: CollectorUrl,
    agent: Agent,
    is_away: bool,
    is_partial: bool,
}

impl Pusher {
    pub(super) fn new(to: CollectorUrl) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(WITHIN))
            // The figures go where the command line says, and nowhere else.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("onbeat/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { to, agent: config.into(), is_away: false, is_partial: false }
    }

    /// Hands the figures over. Says when the collector does not take them, and when it does so again; returns whether it took them.
    pub(super) fn push(&mut self, families: &[Family], of: &OfRun) -> bool {
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let request = otlp::request(families, of, now_ns as u64).encode_to_vec();
        let sent = self.send(&request);
        let to = &self.to;
        match &sent {
            Err(why) if !self.is_away => advise(
                Tone::Careful,
                &format!(
                    "{to} does not take the metrics: {why}; the run continues, and the next try, every {} s, has all figures since its start",
                    EVERY.as_secs()
                ),
            ),
            Ok(_) if self.is_away => advise(Tone::Plain, &format!("{to} takes the metrics again")),
            _ => {}
        }
        self.is_away = sent.is_err();
        let rejected = sent.as_ref().ok().and_then(|answer| answer.partial_success.as_ref());
        if let Some(rejected) = rejected.filter(|part| part.rejected_data_points > 0)
            && !std::mem::replace(&mut self.is_partial, true)
        {
            let (points, why) =
                (rejected.rejected_data_points, rejected.error_message.escape_debug());
            advise(Tone::Careful, &format!("{to} rejected {points} figures: {why}"));
        }
        sent.is_ok()
    }

    fn send(&self, request: &[u8]) -> Result<ExportMetricsServiceResponse, PushFailure> {
        let post = self.agent.post(&self.to.0).content_type("application/x-protobuf");
        let mut answer = post.send(request)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(PushFailure::Status(status.as_u16()));
        }
        let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec()?;
        // Whoever takes metrics need not say more than that.
        Ok(ExportMetricsServiceResponse::decode(&body[..]).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_specification_is_added_where_there_is_none() {
        for (typed, is) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://collector:4318/", "http://collector:4318/v1/metrics"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
            (
                "http://prometheus:9090/api/v1/otlp/v1/metrics",
                "http://prometheus:9090/api/v1/otlp/v1/metrics",
            ),
        ] {
            assert_eq!(typed.parse::<CollectorUrl>().map(|url| url.to_string()), Ok(is.to_owned()));
        }
        for (wrong, why) in [
            ("https://collector:4318", "needs TLS"),
            ("ftp://collector", "does not begin with http://"),
            ("http://", "is not a collector's URL"),
            ("http://a b", "cannot be parsed"),
            ("http://me:secret@collector:4318", "user name"),
            ("http://collector:4318/?x=1", "has a query"),
            ("http://collector:99999", "its port is not"),
            ("http://[::1]:0", "its port is not"),
        ] {
            let said = wrong.parse::<CollectorUrl>().map(|url| url.to_string());
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{wrong}: {said:?}");
        }
    }
}
