//! The chain probe: time from a command to its effect, through a whole control loop.
//!
//! An ordinary thread issues a command at any phase of the loop; the loop takes the latest command
//! in its next cycle and writes it to its output; an observer sees the output change. The time from
//! the first to the last includes up to one period of waiting for the next cycle.

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Sample, Task};

use super::bus;
use super::prediction::Prediction;
use super::reaction;
pub use super::reaction::parts_of_cell;
use onbeat::probe::Setting;
use onbeat::probe::description::{
    Defaults, Description, Given, OnGrid, OptionKind, Parts, ProbeError, ProbeOption,
};
use onbeat::probe::ports::{
    CommandMarks, Commands, Failures, Inbox, Marks, OUTPUT, Output, PortAddress, PortCompanion,
};
use onbeat::probe::read_write::{DELAY, STIMULUS};
use onbeat::probe::timer::work;
use onbeat::record::{Figures, PredictedChain, Series};
use onbeat_ethercat::description;
use onbeat_net::boards::{self, EdgeRoute};

/// Maximum `SCHED_FIFO` priority.
const HIGHEST_PRIORITY: u32 = 99;

const COUNT: ProbeOption = ProbeOption {
    name: "count",
    help: "Number of commands; 0: until --for ends\n\
           One command every seven to eight periods.",
    default: Some("1000"),
    kind: OptionKind::Count,
};
const OBSERVE: ProbeOption = ProbeOption {
    name: "observe",
    help: "Where the output's effect is observed\n\
           gpio:CHIP/LINE with the kernel's time stamps, udp:HOST:PORT, serial:DEVICE or file:FIFO [default: \
           the other end of the pipe; for another output the return of the write].",
    default: None,
    kind: OptionKind::Place,
};

const WITH: ProbeOption = ProbeOption {
    name: "with",
    help: "Output of the loop: a place, or a simulated bus\n\
           With a bus an input changes, and the set-point of a drive follows through the motion controller \
           (without a drive, an output of the same device); then --devices, --exchange, --wire, --clock and \
           --device-delay as of `measure bus`.",
    default: Some("output"),
    kind: OptionKind::Word(&["output", "bus"]),
};

const INPUT: ProbeOption = ProbeOption {
    name: "input",
    help: "With --via, source of edges [default: generator]\n\
           As of `measure read-write`.",
    default: None,
    kind: OptionKind::Place,
};
const VIA: ProbeOption = ProbeOption {
    name: "via",
    help: "Second board, which writes the output: udp:HOST:PORT\n\
           An edge at the input of this board is sent there after --delay, and written after the same delay; \
           `onbeat net board --output PLACE` runs there. --count is the number of edges.",
    default: None,
    kind: OptionKind::Place,
};
const PTP: ProbeOption = ProbeOption {
    name: "ptp",
    help: "With --via, network interface on which ptp4l compares the clocks\n\
           With software time stamps; no clock is set. `onbeat net board --ptp` is its time transmitter.",
    default: None,
    kind: OptionKind::Name,
};

const ONE_CLOCK: ProbeOption = ProbeOption {
    name: "one-clock",
    help: "With --via, both boards share one clock; do not estimate its offset\n\
           For a board in another network namespace of this machine. If the other board \
           has a clock of its own, no one-way figures are reported.",
    default: None,
    kind: OptionKind::Switch,
};

/// Predicts how long a chain takes from a sensor of a segment to an actor, on a bus without latency;
/// `None` if SYNC0 or a vendor's file determines the cycles of the devices.
#[must_use]
pub fn predicted(
    description: &description::Description,
    (sensor, actor): (&str, &str),
    is_same_cycle: bool,
    period_ns: u64,
) -> Option<PredictedChain> {
    Prediction::new(description, (sensor, actor), is_same_cycle, period_ns).map(|it| it.note())
}

/// The chain probe.
pub const CHAIN: Description = Description {
    name: "chain",
    sentence: "From a command, issued at any phase of the loop, to its effect at the output",
    examples: "  onbeat measure chain
      1,000 commands through a loop of 1 ms, seen at the other end of a pipe
  sudo onbeat measure chain --with bus
      1,000 changes at a sensor's input, through bus and motion controller, to a drive's set-point
  sudo onbeat measure chain --with bus --device-delay 500us
      the same with devices that take half a cycle: 3 to 4 cycles, as the humanoid of 2009
  sudo onbeat measure chain --input gpio:gpiochip0/17 --via udp:192.168.7.3:7471 --period 2ms --count 0 --for 24h
      500 edges a second of this board become outputs of another one, with t_r, t_n and t_w
  sudo onbeat measure chain --period 2ms --output gpio:gpiochip0/27 --observe gpio:gpiochip0/17 --cpu 1",
    series: &[Series::Chain, Series::Pickup],
    defaults: Defaults { duration: "0", ..Defaults::LOOP },
    choices: &[
        OUTPUT,
        OBSERVE,
        COUNT,
        INPUT,
        STIMULUS,
        DELAY,
        VIA,
        PTP,
        ONE_CLOCK,
        WITH,
        bus::DEVICES,
        bus::EXCHANGE,
        bus::SPIN,
        bus::WIRE,
        bus::CLOCK,
        bus::DEVICE_DELAY,
    ],
    line_a_second: false,
    open: |setting, given| {
        if let Some(via) = given.place(VIA.name) {
            return open_boards(setting, given, via);
        }
        let options = [
            (INPUT.name, "--input"),
            (STIMULUS.name, "--stimulus"),
            (PTP.name, "--ptp"),
            (ONE_CLOCK.name, "--one-clock"),
        ];
        for (name, option) in options {
            if given.has(name) {
                let why = "commands come from a thread of onbeat's own; edges are for --via";
                return Err(ProbeError::NoMeaning { option, why });
            }
        }
        if given.word(WITH.name) == Some("bus") {
            return reaction::open(setting, given, given.count(COUNT.name));
        }

        let marks = CommandMarks::default();
        let inbox = Inbox::default();
        let place = given.place(OUTPUT.name).unwrap_or(&PortAddress::Pipe);
        // One above the loop, so the observer does not wait for the loop.
        // HIGHEST_PRIORITY is the kernel's: at 99 both are equal, and the loop gives way to nobody.
        let fifo = setting.thread.fifo.map(|priority| (priority + 1).min(HIGHEST_PRIORITY));
        let (output, watching) =
            PortCompanion::seeing(place, given.place(OBSERVE.name), &marks, fifo)?;
        let is_seen = watching.sees();

        // Commands come from a thread and not from the loop, at any phase, as those of a planner
        // do.
        let commands = Commands::new(given.count(COUNT.name), setting, marks.issued, inbox.clone());
        let failures = Failures::default();
        let written = marks.written;
        let work_ns = setting.work_ns;
        let replaced = Failures::default();
        let task = CommandTask {
            inbox,
            cold_cycles: setting.warmup,
            served: 0,
            output,
            failures: failures.clone(),
            replaced: replaced.clone(),
            written,
            work_ns,
        };

        Ok(Parts {
            body: Box::new(OnGrid { task, has_ports: true }),
            figures: Box::new(ChainFigures { is_seen, every_ns: commands.every_ns() }),
            companion: Box::new(
                watching.counting(failures).passing_over(replaced).commanded_by(commands),
            ),
        })
    },
};

/// Prepares the first of two boards.
fn open_boards(
    setting: &mut Setting,
    given: &Given,
    via: &PortAddress,
) -> Result<Parts, ProbeError> {
    if given.place(OUTPUT.name).is_some_and(|place| *place != PortAddress::Pipe) {
        let why = "the output is the second board's: `onbeat net board --output PLACE` there";
        return Err(ProbeError::NoMeaning { option: "--output with --via", why });
    }
    if given.has(OBSERVE.name) || given.word(WITH.name) == Some("bus") {
        let why = "the second board reports its writes";
        return Err(ProbeError::NoMeaning { option: "--observe or --with bus with --via", why });
    }

    let route = EdgeRoute {
        input: given.place(INPUT.name).unwrap_or(&PortAddress::Generator),
        stimulus: given.place(STIMULUS.name),
        via,
        delay_ns: given.time_ns(DELAY.name),
        count: given.count(COUNT.name),
        ptp: given.name(PTP.name),
        one_clock: given.has(ONE_CLOCK.name),
    };
    boards::open(setting, &route)
}

/// Writes the latest command to the output.
#[derive(Debug)]
struct CommandTask {
    inbox: Inbox,
    /// Remaining warm-up cycles, which are in no series.
    cold_cycles: u64,
    served: u64,
    output: Output,
    failures: Failures,
    /// Commands replaced by a later one before they were served.
    replaced: Failures,
    /// Start of the write of each command.
    written: Marks,
    work_ns: u64,
}

impl Task for CommandTask {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let (number, at_ns) = self.inbox.latest();
        match self.cold_cycles.checked_sub(1) {
            Some(left) => self.cold_cycles = left,
            None => self.inbox.open(),
        }

        // A cycle reads its input at its start, and writes its output after its work.
        work(cycle.start, self.work_ns);
        // A command issued after the start of this cycle belongs to the next.
        if number > self.served && at_ns <= cycle.start.as_ns() {
            let lost = number - self.served - 1;
            self.served = number;
            (0..lost).for_each(|_| self.replaced.count(false));
            cycle.note_too(u32::try_from(lost).unwrap_or(u32::MAX));
            self.written.set(number - 1, Monotonic.now());
            self.failures.count(self.output.set((number - 1) as u8));
            let waited_ns = cycle.start.as_ns() - at_ns;
            cycle.note(u32::try_from(waited_ns).unwrap_or(u32::MAX).max(1));
        }

        Flow::Continue
    }
}

/// Figures: from command to cycle; from command to the end of the write without an observer.
#[derive(Clone, Copy, Debug)]
pub struct ChainFigures {
    /// Whether an observer reports changes of the output.
    pub is_seen: bool,
    /// Interval of commands, in ns.
    pub every_ns: u64,
}

impl Figures for ChainFigures {
    fn series(&self) -> &'static [Series] {
        CHAIN.series
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        let waited_ns = u64::from(sample.note);
        if waited_ns == 0 {
            return;
        }

        count(Series::Pickup, waited_ns);
        if !self.is_seen {
            // Replaced commands never had an effect of their own; they count until the effect of
            // this one at least.
            for earlier in 0..=u64::from(sample.note_too) {
                count(
                    Series::Chain,
                    waited_ns + sample.execution_time_ns + earlier * self.every_ns,
                );
            }
        }
    }
}
