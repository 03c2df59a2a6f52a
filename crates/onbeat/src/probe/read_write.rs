//! The read-write probe: how long a reaction takes, from an edge at an input to the output that
//! answers it.
//!
//! After Mossige, Sampath and Rao (2007), 4.1.2: an edge arrives, the thread takes it up, sleeps
//! for a set delay, and writes the output. Their t_rw is the mean of the whole minus the delay, t_w
//! the mean time from the end of the delay to the end of the write, and t_r = t_rw − t_w the mean
//! time from the edge to the thread. All three are means of series of the same cycles here, so that
//! the difference holds exactly.

use onbeat_rt::{Cycle, Flow, Sample, Task};

use super::description::{
    Defaults, Description, OnEdges, OptionKind, Parts, ProbeError, ProbeOption,
};
use super::ports::{Failures, Generator, OUTPUT, Output, PortAddress, PortCompanion};
use super::setting::Setting;
use super::timer::work;
use onbeat_record::{Figures, Series};

/// The source of edges.
pub const INPUT: ProbeOption = ProbeOption {
    name: "input",
    help: "Source of edges\n\
           generator: a thread on another CPU, every period; gpio:CHIP/LINE: rising edges with the kernel's \
           time stamps; with --stimulus also serial:DEVICE, file:FIFO, udp:HOST:PORT.",
    default: Some("generator"),
    kind: OptionKind::Place,
};
/// Where a generator writes to.
pub const STIMULUS: ProbeOption = ProbeOption {
    name: "stimulus",
    help: "PortAddress that the generator writes to\n\
           Needed when the input is at the other end of a cable, a FIFO or a socket.",
    default: None,
    kind: OptionKind::Place,
};
/// The chosen delay.
pub const DELAY: ProbeOption = ProbeOption {
    name: "delay",
    help: "Delay from reading an edge to writing the answer",
    default: Some("200us"),
    kind: OptionKind::Time,
};

/// The description of the probe.
pub const READ_WRITE: Description = Description {
    name: "read-write",
    sentence: "From an edge at an input to the end of the write that answers it after a set delay",
    examples: "  onbeat measure read-write --for 30s
      500 edges a second from a generator of its own, answered after 200 us
  sudo onbeat measure read-write --input gpio:gpiochip0/17 --output gpio:gpiochip0/27
  onbeat measure read-write --input udp:127.0.0.1:7001 --stimulus udp:127.0.0.1:7001 --output udp:127.0.0.1:7002",
    series: &[Series::ReadWrite, Series::ReadLatency, Series::ResponseTime],
    defaults: Defaults { period: "2ms", ..Defaults::LOOP },
    choices: &[INPUT, OUTPUT, STIMULUS, DELAY],
    line_a_second: false,
    open: |setting, given| {
        let delay_ns = given.time_ns(DELAY.name);
        check_delay(setting, delay_ns)?;
        setting.delay_ns = delay_ns;

        let output = given.place(OUTPUT.name).unwrap_or(&PortAddress::Pipe);
        let (output, watching) = PortCompanion::for_output(output)?;
        let input = given.place(INPUT.name).unwrap_or(&PortAddress::Generator);
        let (edges, generator) = Generator::feeding(input, given.place(STIMULUS.name), setting)?;
        let failures = Failures::default();
        let task = EdgeAnswer { output, failures: failures.clone(), work_ns: setting.work_ns };

        let made = generator.as_ref().map(Generator::made);
        Ok(Parts {
            body: Box::new(OnEdges { edges, task, delay_ns, made }),
            figures: Box::new(EdgeReactions { delay_ns }),
            companion: Box::new(watching.counting(failures).fed_by(generator)),
        })
    },
};

/// Checks that a delay leaves time until the next edge.
///
/// # Errors
/// [`ProbeError::DelayTooLong`].
pub fn check_delay(setting: &Setting, delay_ns: u64) -> Result<(), ProbeError> {
    if delay_ns.saturating_add(setting.work_ns).saturating_mul(10)
        <= setting.period_ns.saturating_mul(9)
    {
        return Ok(());
    }
    let us = |ns: u64| ns as f64 / 1e3;
    let delay_us = us(delay_ns);
    let work_us = us(setting.work_ns);
    Err(ProbeError::DelayTooLong { delay_us, work_us, period_us: us(setting.period_ns) })
}

/// Answers each edge with a write.
#[derive(Debug)]
struct EdgeAnswer {
    output: Output,
    failures: Failures,
    work_ns: u64,
}

impl Task for EdgeAnswer {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        work(cycle.start, self.work_ns);
        self.failures.count(self.output.set(cycle.index as u8));
        Flow::Continue
    }
}

/// Counts the time from edge to loop and from edge to output.
#[derive(Clone, Copy, Debug)]
pub struct EdgeReactions {
    /// The chosen delay, in nanoseconds.
    pub delay_ns: u64,
}

impl Figures for EdgeReactions {
    fn series(&self) -> &'static [Series] {
        &[Series::ReadWrite, Series::ReadLatency]
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        let read_ns = u64::from(sample.note);
        count(Series::ReadLatency, read_ns);
        count(Series::ReadWrite, read_ns + self.delay_ns + sample.response_time_ns());
    }
}
