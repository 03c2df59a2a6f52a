//! The format of a file, by its content.

use super::format::Format;
use super::{csv, hlog};

impl Format {
    /// The format of a file by its beginning; `None` when it looks like none of them.
    #[must_use]
    pub fn detect(beginning: &str) -> Option<Self> {
        let has = |text: &str| beginning.contains(text);
        let first = || {
            beginning.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
        };
        if beginning.trim_start().starts_with('{') {
            let of_oslat =
                has("\"freq\"") || has("\"cmdline:\": \"oslat") || has("\"cmdline\": \"oslat");
            return Some(if of_oslat { Self::OslatJson } else { Self::CyclictestJson });
        }

        if has("#[Histogram log format")
            || has("\"StartTimestamp\"")
            || first().is_some_and(hlog::is_interval_line)
        {
            return Some(Self::Hlog);
        }
        if has("RTLA timerlat histogram") || has("RTLA osnoise histogram") {
            return Some(Self::Rtla);
        }
        if has("stress-ng: ") || has("stress-ng-version") {
            return Some(Self::StressNg);
        }

        if has("1/(1-Percentile)") {
            return Some(Self::Hgrm);
        }
        if has("# Histogram") || has("# Min Latencies:") {
            return Some(Self::Cyclictest);
        }

        first().is_some_and(csv::is_samples).then_some(Self::Csv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_from_their_content() {
        let cases = [
            ("{\n  \"cmdline:\": \"cyclictest -D 2\",", Some(Format::CyclictestJson)),
            ("{ \"cmdline:\": \"oslat -D 2\" }", Some(Format::OslatJson)),
            (
                "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000001",
                Some(Format::Cyclictest),
            ),
            ("# RTLA timerlat histogram\nIndex IRQ-000", Some(Format::Rtla)),
            ("stress-ng: info:  [1] cyclic: sched", Some(Format::StressNg)),
            ("#[Histogram log format version 1.2]\n", Some(Format::Hlog)),
            ("0.127,1.007,2.769,HISTFAAAAEV42pNp\n", Some(Format::Hlog)),
            ("       Value     Percentile TotalCount 1/(1-Percentile)\n", Some(Format::Hgrm)),
            ("time_s,latency_us\n0.1,20\n", Some(Format::Csv)),
            ("17\n18\n", Some(Format::Csv)),
            ("Dear reader, this is a letter.\n", None),
        ];
        for (text, format) in cases {
            assert_eq!(Format::detect(text), format, "{text}");
        }
    }
}
