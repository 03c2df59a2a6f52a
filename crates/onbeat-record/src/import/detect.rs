//! The format of a file, by its content.

use super::format::Format;
use super::{
    csv, cyclictest, hlog, jitterdebugger, performance_test, ping, rt_text, rtla_top, sockperf,
    timerlat,
};

impl Format {
    /// The format of a file by its beginning; `None` when it looks like none of them.
    #[must_use]
    pub fn detect(beginning: &str) -> Option<Self> {
        let beginning = beginning.trim_start_matches('\u{feff}');
        if beginning.trim_start().starts_with('{') {
            return of_json(beginning);
        }

        let has = |text: &str| beginning.contains(text);
        if has("#[Histogram log format")
            || has("\"StartTimestamp\"")
            || first(beginning).is_some_and(hlog::is_interval_line)
        {
            return Some(Self::Hlog);
        }
        if has("RTLA timerlat histogram")
            || has("RTLA osnoise histogram")
            || rtla_top::is_top(beginning)
        {
            return Some(Self::Rtla);
        }
        if has("stress-ng: ") || has("stress-ng-version") {
            return Some(Self::StressNg);
        }

        if has("1/(1-Percentile)") {
            return Some(Self::Hgrm);
        }

        of_tools_text(beginning).or_else(|| csv::is_samples(beginning).then_some(Self::Csv))
    }
}

/// The first line that is neither empty nor a comment.
fn first(beginning: &str) -> Option<&str> {
    beginning.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
}

fn of_json(beginning: &str) -> Option<Format> {
    let has = |text: &str| beginning.contains(text);
    // It has senders and receivers as well.
    if has("\"iperf 3") {
        return None;
    }
    let is_by = |tool: &str| {
        has(&format!("\"cmdline:\": \"{tool}")) || has(&format!("\"cmdline\": \"{tool}"))
    };
    if has("\"freq\"") || is_by("oslat") {
        Some(Format::OslatJson)
    } else if rt_text::TOOLS.iter().any(|tool| is_by(tool)) || has("\"receiver\"") {
        Some(Format::RtTestsJson)
    } else if is_by("cyclictest") || has("\"thread\"") {
        Some(Format::CyclictestJson)
    } else if has("\"cpu\"") {
        Some(Format::Jitterdebugger)
    } else {
        None
    }
}

/// By lines that only one tool writes; what stands around them does not count.
fn of_tools_text(beginning: &str) -> Option<Format> {
    let has = |text: &str| beginning.contains(text);
    let has_line = |is: fn(&str) -> bool| beginning.split(['\n', '\r']).any(is);
    if has("oslat V ") || has("Counter Freq:") {
        Some(Format::Oslat)
    } else if has_line(|line| line.contains("RTH|") && line.contains("ovl min")) {
        Some(Format::Rtai)
    } else if has("----lat min|")
        || has("# libevl version: ")
        || has_line(|line| line.starts_with("HSD|"))
    {
        Some(Format::Xenomai)
    } else if has("hwlatdetect:")
        || has("tracer: hwlat")
        || has("inner/outer(us):")
        || has_line(|line| line.starts_with("ts: ") && line.contains(", inner:"))
    {
        Some(Format::Hwlat)
    } else if has_line(timerlat::is_activation) {
        // It may have scheduling events as well: those of rtla -e.
        Some(Format::Timerlat)
    } else if has("sched_switch: ") {
        Some(Format::Ftrace)
    } else if has_line(sockperf::is_total) {
        Some(Format::Sockperf)
    } else if has_line(performance_test::is_heading) {
        Some(Format::Ros2Perf)
    } else if has_line(ping::is_answer) || has_line(ping::is_summary) {
        Some(Format::Ping)
    } else if has_line(jitterdebugger::is_status_line)
        || jitterdebugger::has_results(beginning)
        // A CSV may have such lines below the names of its columns.
        || first(beginning).is_some_and(jitterdebugger::is_sample_line)
        || has("jittersamples ") && has_line(jitterdebugger::is_sample_line)
    {
        Some(Format::Jitterdebugger)
    } else if has_line(rt_text::is_pair_line) || has_line(rt_text::is_status_line) {
        Some(Format::RtTests)
    } else if has("# Histogram")
        || has("# Min Latencies:")
        || has_line(cyclictest::is_status_line)
        || has_line(cyclictest::is_sample_line)
        || has_line(cyclictest::is_histogram_row)
    {
        Some(Format::Cyclictest)
    } else {
        None
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
            ("0;1114.936950838;9\n", Some(Format::Jitterdebugger)),
            ("$ jittersamples raw\n0;1114.936950838;9\n", Some(Format::Jitterdebugger)),
            ("cpu;t_s;latency_ns\n0;1114.936950838;1200\n", Some(Format::Csv)),
            ("0;0.9;9\n", Some(Format::Csv)),
            ("000000\t000000\n000001\t000012\n", Some(Format::Cyclictest)),
            ("0 12\n1 18\n", Some(Format::Csv)),
            ("Dear reader, this is a letter.\n", None),
        ];
        for (text, format) in cases {
            assert_eq!(Format::detect(text), format, "{text}");
        }
    }
}
