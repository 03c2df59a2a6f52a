//! Gaps that the hardware made: text of `hwlatdetect`, and the trace of the kernel's tracer hwlat.
//!
//! Both record only samples beyond a threshold: two readings of a clock in a loop with interrupts
//! off (`inner`), and the time between two such pairs (`outer`). The larger of both is the gap.

use std::io::{BufRead, Seek};

use super::error::Error;
use super::format::{Format, SourceOptions};
use super::lines::{Damage, Line, PassedOver, begins_with, each_line};
use super::samples::{Extent, Sample, SampleCounter};
use super::stream::Stream;
use crate::{Resolution, Series};

const FORMAT: Format = Format::Hwlat;

/// One line with a sample.
struct HwlatSample {
    sample: Sample,
    /// How many samples the line stands for.
    count: u64,
}

impl HwlatSample {
    fn parse(line: &str) -> Option<Self> {
        let figure = |key: &str| {
            let rest = line.split_once(key)?.1.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<i64>().ok()
        };
        let stamp = line.split_once("ts:")?.1.trim_start();
        let stamp = stamp.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
        let t_s = stamp.parse::<f64>().ok().filter(|t| *t < 1e12)?;
        let (inner, outer) = match line.split_once("inner/outer(us):") {
            Some((_, rest)) => {
                let (inner, outer) = rest.trim_start().split_once('/')?;
                let outer = outer.split(|c: char| !c.is_ascii_digit()).next()?;
                (inner.trim().parse().ok()?, outer.parse().ok()?)
            }
            None => (figure("inner:")?, figure("outer:")?),
        };
        let count = figure(" count:").and_then(|count| u64::try_from(count).ok()).unwrap_or(1);
        let ns = inner.max(outer).checked_mul(1_000)?;
        Some(Self { sample: Sample { ns, t_s: Some(t_s) }, count: count.max(1) })
    }
}

#[derive(Default)]
struct HwlatText {
    extent: Extent,
    largest_ns: i64,
    counted: u64,
    threshold: Option<String>,
    stated_max_us: Option<i64>,
    stated_samples: Option<u64>,
    smis: u64,
    passed_over: PassedOver,
    damage: Damage,
}

/// One stream.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = HwlatText { damage: Damage::new(asked), ..HwlatText::default() };
    each_line(file, |line| text.line(line))?;
    if text.extent.samples == 0 {
        if let Some(stated @ 1..) = text.stated_samples {
            let reason = format!(
                "hwlatdetect states {stated} samples, none is in the text; import the file of its --report"
            );
            return Err(Error::nothing(FORMAT, reason));
        }
        let beyond = text.threshold.as_deref().map_or(String::new(), |of| format!(" of {of}"));
        let reason = format!(
            "no gap exceeded the threshold{beyond}: there is no sample to import, and the report would be empty"
        );
        return Err(Error::nothing(FORMAT, reason));
    }

    let counter = SampleCounter::new(Series::Gap, Resolution::even(1_000), text.extent, None);
    let mut stream = counter.count_all(file, |line| {
        HwlatSample::parse(line.text).filter(|_| line.has_end).map(|of| of.sample)
    })?;
    stream.lost_lines(&text.damage);
    text.describe(&mut stream);
    stream.remarks.extend(text.passed_over.sentence("hwlat"));
    Ok(vec![stream])
}

impl HwlatText {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        match HwlatSample::parse(text) {
            // Both kinds of lines end with figures: one without its end may be cut within them.
            Some(_) if !line.has_end => self.damage.cut(line.number, format!("`{text}`")),
            Some(of) => {
                self.extent.take_in(&of.sample);
                self.largest_ns = self.largest_ns.max(of.sample.ns);
                self.counted = self.counted.saturating_add(of.count);
            }
            None if text.contains("inner:") || text.contains("inner/outer") => {
                let reason = format!("`{text}` is not a sample: ts, inner, outer");
                self.damage.unread(line, reason, (FORMAT, self.extent.samples, "samples"))?;
            }
            None => self.other(text, line),
        }

        Ok(())
    }

    fn other(&mut self, text: &str, line: &Line<'_>) {
        let Some((name, value)) = text.split_once(':') else {
            let known = ["#", "Starting test", "test finished", "interrupted", "report saved to "];
            if !(begins_with(text, &known) || text.contains(" SMIs occured on cpu ")) {
                self.passed_over.count(line);
            }
            return;
        };
        let value = value.trim();
        match name {
            "Latency threshold" => self.threshold = Some(value.to_owned()),
            "Max Latency" => self.stated_max_us = value.trim_end_matches("us").parse().ok(),
            "Samples recorded" => self.stated_samples = value.parse().ok(),
            "hwlatdetect"
            | "detector"
            | "parameters"
            | "Sample window"
            | "Sample width"
            | "Non-sampling period"
            | "Output File"
            | "CPU list"
            | "Samples exceeding threshold" => {}
            "SMIs during run" => self.smis = value.parse().unwrap_or(0),
            name if name.starts_with('#') => {}
            _ => self.passed_over.count(line),
        }
    }

    fn describe(&self, stream: &mut Stream) {
        let threshold = self.threshold.as_deref().unwrap_or("the tracer");
        stream.missing.push(format!(
            "gaps below the threshold of {threshold}, and how many there were: percentiles are those of the gaps beyond it"
        ));
        stream.lacks("the machine, and what ran: the text does not hold them");
        if self.counted > self.extent.samples {
            stream.missing.push(format!(
                "{} of {} gaps: the tracer counts several in a window and records the largest",
                self.counted - self.extent.samples,
                self.counted
            ));
        }

        if let Some(max_us) =
            self.stated_max_us.filter(|us| us.checked_mul(1_000) != Some(self.largest_ns))
        {
            stream.remarks.push(format!(
                "hwlatdetect states a maximum of {max_us} us, the largest sample in the text is {} us",
                self.largest_ns / 1_000
            ));
        }
        if self.smis > 0 {
            stream.remarks.push(format!("hwlatdetect states {} SMIs during the run", self.smis));
        }
        if let Some(stated) = self.stated_samples.filter(|n| *n != self.extent.samples) {
            // Damaged lines are among them.
            stream.lost = stream.lost.max(stated.saturating_sub(self.extent.samples));
            stream.remarks.push(format!(
                "hwlatdetect states {stated} samples, {} are in the text",
                self.extent.samples
            ));
        }
    }
}
