//! A chain through a whole bus: an input of a simulated device changes, and an output of the same device follows.
//!
//! The controller copies the inputs of the first digital device to its outputs. What is counted goes by the device's own sight: from the
//! change at its pins, at any phase of the loop, to the change of its output, however many cycles lie between.

use std::sync::mpsc::{Receiver, Sender, channel};

use onbeat_rt::{Flow, Instant, Sample};

use super::bus::{self, Exchanges};
use super::description::{Beside, Given, Parts, ProbeError};
use super::devices::World;
use super::run::Setting;
use crate::ethercat::layout::{DeviceKind, Layout};
use crate::ethercat::sim::Link;
use crate::ethercat::step::{BusCycle, Controller};
use crate::record::{Figures, Recorder, Series};

/// Objects of a digital device: inputs and outputs, one entry for each channel.
const INPUTS: u16 = 0x6000;
const OUTPUTS: u16 = 0x7000;
/// A change that nothing follows within so many periods is given up.
const MOST_PERIODS: u64 = 1_000;

/// Makes ready a loop whose reactions are counted, `count` of them (0 for no end).
pub(super) fn open(setting: &Setting, given: &Given, count: u64) -> Result<Parts, ProbeError> {
    let layout = Layout::of(&bus::described(given)?)?;
    let Some(device) = layout.devices.iter().position(|device| device.kind == DeviceKind::Digital) else {
        return Err(ProbeError::Unfit {
            place: "the segment".to_owned(),
            what: "a chain",
            why: "it has no digital device, whose input could change and whose output could follow",
        });
    };
    let name = layout.devices[device].name.clone();
    let (tell, told) = channel();
    let pins = Pins {
        name,
        device: None,
        count,
        period_ns: setting.period_ns,
        state: State::Resting(None),
        level: 0,
        random: fastrand::Rng::new(),
        tell: Some(tell),
    };
    let (input, output) = (layout.devices[device].inputs.start, layout.devices[device].outputs.start);
    let mut parts = bus::open(setting, given, Some(Box::new(Mirror { input, output })), pins)?;
    parts.figures = Box::new(Reactions(Exchanges));
    parts.beside = Box::new(Counting { inner: parts.beside, told, is_over: false });
    Ok(parts)
}

/// Those of the bus, and reactions that the pins tell.
#[derive(Clone, Copy, Debug)]
struct Reactions(Exchanges);

impl Figures for Reactions {
    fn series(&self) -> &'static [Series] {
        &[Series::Chain, Series::RoundTrip, Series::DeviceInterval]
    }

    fn of(&mut self, sample: &Sample, before: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        self.0.of(sample, before, count);
    }
}

/// Copies inputs to outputs.
struct Mirror {
    input: usize,
    output: usize,
}

impl Controller for Mirror {
    fn step(&mut self, _: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        outputs[self.output] = inputs[self.input];
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Until then; `None` before the devices are in OP.
    Resting(Option<Instant>),
    /// Since then the output has to follow.
    Changed(Instant),
}

/// Whoever is at the device's pins.
struct Pins {
    name: String,
    device: Option<usize>,
    count: u64,
    period_ns: u64,
    state: State,
    level: u8,
    random: fastrand::Rng,
    /// Gone when all are done.
    tell: Option<Sender<Option<u64>>>,
}

impl Pins {
    /// Seven to eight periods later, at any phase.
    fn rest_from(&mut self, now: Instant) {
        self.state = State::Resting(Some(now.plus_ns(7 * self.period_ns + self.random.u64(..self.period_ns))));
    }

    fn done(&mut self, ns: Option<u64>, now: Instant) {
        let heard = self.tell.as_ref().is_some_and(|tell| tell.send(ns).is_ok());
        self.count = self.count.saturating_sub(1);
        if self.count == 0 || !heard {
            self.tell = None;
        }
        self.rest_from(now);
    }
}

impl World for Pins {
    fn next(&self) -> Option<Instant> {
        match self.state {
            State::Resting(until) if self.tell.is_some() => until,
            _ => None,
        }
    }

    fn look(&mut self, link: &mut Link, now: Instant) {
        if self.tell.is_none() {
            return;
        }
        let segment = link.segment_mut();
        let Some(device) = self.device.or_else(|| segment.find(&self.name)) else { return };
        self.device = Some(device);
        match self.state {
            State::Resting(None) if segment.status(device).is_some_and(|status| status.al_state == 8) => {
                self.rest_from(now);
            }
            State::Resting(Some(until)) if until <= now => {
                self.level ^= 1;
                segment.set_value(device, INPUTS, 1, &[self.level]);
                self.state = State::Changed(now);
            }
            State::Changed(since) if segment.value(device, OUTPUTS, 1) == Some(&[self.level]) => {
                self.done(Some(now.ns_since(since)), now);
            }
            State::Changed(since) if now.ns_since(since) > MOST_PERIODS * self.period_ns => self.done(None, now),
            _ => {}
        }
    }
}

/// Counts what the pins tell.
struct Counting {
    inner: Box<dyn Beside>,
    told: Receiver<Option<u64>>,
    is_over: bool,
}

impl Beside for Counting {
    fn start(&mut self) -> Result<(), ProbeError> {
        self.inner.start()
    }

    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        loop {
            match self.told.try_recv() {
                Ok(Some(ns)) => recorder.count(Series::Chain, ns),
                Ok(None) => {}
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    self.is_over = true;
                    break;
                }
            }
        }
        if self.is_over { Flow::Stop } else { self.inner.look(recorder) }
    }

    fn end(&mut self) -> Vec<String> {
        self.inner.end()
    }
}
