//! The write probe: how regular an output is that a loop writes every period.
//!
//! After Mossige, Sampath and Rao (2007), 4.1.1: a thread sleeps for a set interval and writes to a
//! digital output; the interval between writes is what counts. Here it runs from the return of one
//! write to the return of the next. Their t_w, the mean interval of a sleeping loop minus its
//! sleep, is the mean time from a release to the return of its write: the response time of these
//! cycles.

use onbeat_rt::{Cycle, Flow, Sample, Task};

use super::description::{Defaults, Description, OnGrid, Parts};
use super::ports::{Failures, OUTPUT, Output, PortAddress, PortCompanion};
use super::timer::work;
use onbeat_record::{Figures, Series};

/// The description of the probe.
pub const WRITE: Description = Description {
    name: "write",
    sentence: "From the end of one write to an output to the end of the next",
    examples: "  onbeat measure write --for 30s
      every 500 us to a pipe
  sudo onbeat measure write --output gpio:gpiochip0/17 --cpu 1 --load cpu=80%
  onbeat measure write --load-sweep 0..100/10 --for 2m
      spread of the interval over the CPU's load",
    series: &[Series::WriteInterval, Series::ResponseTime],
    defaults: Defaults { period: "500us", ..Defaults::LOOP },
    choices: &[OUTPUT],
    line_a_second: false,
    open: |setting, given| {
        let place = given.place(OUTPUT.name).unwrap_or(&PortAddress::Pipe);
        let (output, watching) = PortCompanion::for_output(place)?;
        let failures = Failures::default();
        let task =
            OutputWriter { output, failures: failures.clone(), mark: 0, work_ns: setting.work_ns };
        Ok(Parts {
            body: Box::new(OnGrid { task, has_ports: true }),
            figures: Box::new(Intervals),
            companion: Box::new(watching.counting(failures)),
        })
    },
};

/// Writes once per cycle.
#[derive(Debug)]
struct OutputWriter {
    output: Output,
    failures: Failures,
    mark: u8,
    work_ns: u64,
}

impl Task for OutputWriter {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        work(cycle.start, self.work_ns);
        self.mark = self.mark.wrapping_add(1);
        self.failures.count(self.output.set(self.mark));
        Flow::Continue
    }
}

/// Counts the time from the end of one cycle to the end of the next.
#[derive(Clone, Copy, Debug)]
pub struct Intervals;

impl Figures for Intervals {
    fn series(&self) -> &'static [Series] {
        &[Series::WriteInterval]
    }

    fn of(&mut self, sample: &Sample, before: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        let end = |sample: &Sample| sample.release.plus_ns(sample.response_time_ns());
        if let Some(before) = before {
            count(Series::WriteInterval, end(sample).ns_since(end(before)));
        }
    }
}
