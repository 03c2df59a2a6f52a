//! The form of an answer, by the field `Accept` of the request.

use super::exposition::Family;
use super::openmetrics::{self, ExpositionFormat};
use super::protobuf;

/// Forms that Prometheus scrapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    OpenMetrics,
    Protobuf,
}

impl Form {
    /// The form that the client prefers; of several, the one that has most.
    #[must_use]
    pub fn preferred(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            if let Some((form, weight)) = offered(range)
                && weight > 0.0
                && (weight, form as u8) > (best.0, best.1 as u8)
            {
                best = (weight, form);
            }
        }
        best.1
    }

    /// The field `Content-Type` of the answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The metrics in this form.
    #[must_use]
    pub fn body(self, families: &[Family]) -> Vec<u8> {
        let format = match self {
            Self::Text => ExpositionFormat::Text,
            Self::OpenMetrics => ExpositionFormat::OpenMetrics,
            Self::Protobuf => return protobuf::delimited(families),
        };
        let mut text = Vec::new();
        // Memory takes whatever is written.
        let _ = openmetrics::write_as(families, format, &mut text);
        text
    }
}

/// The form that a range of `Accept` names, with its weight.
fn offered(range: &str) -> Option<(Form, f64)> {
    let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
    let kind = parts.next()?;
    let parts: Vec<String> = parts.collect();
    let value = |name: &str| {
        let pairs = parts.iter().filter_map(|part| part.split_once('='));
        let mut found = pairs.filter(|(of, _)| of.trim() == name);
        found.next().map(|(_, value)| value.trim().trim_matches('"').to_owned())
    };
    let form = match kind.as_str() {
        "text/plain" => Form::Text,
        "application/openmetrics-text" => Form::OpenMetrics,
        "application/vnd.google.protobuf"
            if value("proto").is_none_or(|proto| proto == "io.prometheus.client.metricfamily")
                && value("encoding").as_deref() == Some("delimited") =>
        {
            Form::Protobuf
        }
        _ => return None,
    };
    Some((form, value("q").map_or(1.0, |weight| weight.parse().unwrap_or(0.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_the_client_prefers() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, form) in [
            // Prometheus 2.42 with native histograms, and without.
            (
                format!("{protobuf},application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
                Form::Protobuf,
            ),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1".to_owned(),
                Form::OpenMetrics,
            ),
            (format!("text/plain;version=0.0.4;q=0.5, {protobuf}; q=0.4"), Form::Text),
            (format!("{protobuf};q=0"), Form::Text),
            (format!("{protobuf};q=x"), Form::Text),
            (protobuf.replace("delimited", "text"), Form::Text),
            (protobuf.replace("client.Metric", "other.Metric"), Form::Text),
            (protobuf.replace("io.prometheus.client.MetricFamily", "\"io.prometheus.client.MetricFamily\""), Form::Protobuf),
            ("text/plain;q=0.1,application/openmetrics-text;version=1.0.0".to_owned(), Form::OpenMetrics),
            ("text/html,*/*".to_owned(), Form::Text),
            (String::new(), Form::Text),
        ] {
            assert_eq!(Form::preferred(&accept), form, "{accept}");
        }
    }

    #[test]
    fn before_the_first_figures_each_form_is_valid() {
        let bodies = [Form::Text, Form::OpenMetrics, Form::Protobuf].map(|form| form.body(&[]));
        assert_eq!(bodies, [b"".to_vec(), b"# EOF\n".to_vec(), b"".to_vec()]);
    }
}
