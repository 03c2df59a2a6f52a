//! Reaction through a whole bus: an input of a simulated device changes, and a drive's set-point
//! follows.
//!
//! The input passes the bus to the loop and its motion controller, and returns as a set-point to a
//! drive. Times are taken at the devices: from the change at the sensor's pins, at any phase of the
//! loop, to the cycle of the drive that applies a new target position. On a segment without drives
//! an output of the sensor's device follows.
//!
//! The number of cycles follows from exchange mode and device delay ([`Prediction`]). Yoon, Song
//! and Lee (2009) report 3 to 4 cycles for devices that take half a cycle, which this probe
//! reproduces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use onbeat_rt::{Flow, Instant, Sample};

use super::bus::{self, BusFigures, CellWorld};
use super::devices::Environment;
use super::error::BusProbeError;
use super::prediction::{Prediction, ReactionTimes};
use crate::motion::{DownReason, MotionController, Robot, RobotPhase, Trajectory};
use onbeat::bench::cell_start::BusCell;
use onbeat::probe::Setting;
use onbeat::probe::description::{Alone, Companion, Given, Parts, ProbeError};
use onbeat::record::{ChainNote, Figures, Note, Recorder, Series};
use onbeat::thread::Grant;
use onbeat_ethercat::al::OP;
use onbeat_ethercat::event::Event;
use onbeat_ethercat::layout::{DeviceKind, Layout};
use onbeat_ethercat::step::{BusCycle, Controller, RobotState};
use onbeat_segment::{Link, Segment};

/// Objects of a digital device: inputs and outputs, one subindex per channel.
const INPUTS: u16 = 0x6000;
const OUTPUTS: u16 = 0x7000;
/// Objects of a drive (CiA 402): statusword and target position.
const STATUSWORD: u16 = 0x6041;
const TARGET: u16 = 0x607a;
/// Statusword of "operation enabled", and its mask.
const ENABLED: (u8, u8) = (0x27, 0x6f);
/// Number of periods after which a missing reaction is given up.
// A reaction that does not come within a thousand cycles is given up, and counts with the time it
// was waited for.
const MOST_PERIODS: u64 = 1_000;
/// Step of the set-point, in increments of the drive.
// Larger than any rounding on the way, and small enough for every joint to follow within a cycle.
const STEP_INCREMENTS: f64 = 16.0;

/// Prepares a loop whose reactions are measured; `count` of them, 0: without a limit.
pub(super) fn open(setting: &Setting, given: &Given, count: u64) -> Result<Parts, ProbeError> {
    let chain = chain(setting, given, count)?;
    let mut parts = bus::open(setting, given, Some(chain.controller), chain.pins)?;
    chain.counter.watch(&mut parts);
    Ok(parts)
}

/// Prepares the loop of a bench's cell whose reactions are measured in each of its blocks, and
/// returns it with a note on the bus.
///
/// # Errors
/// [`ProbeError`] if the segment has no digital device, or the bus does not come up.
pub fn parts_of_cell(setting: &Setting, wanted: &BusCell) -> Result<(Parts, Grant), ProbeError> {
    let chain = chain(setting, &bus::given(wanted), 0)?;
    chain.counter.in_block.store(false, Ordering::Relaxed);
    let world = CellWorld { controller: chain.controller, environment: chain.pins, motion: None };
    let (mut parts, note) = bus::parts_in(setting, wanted, world)?;
    chain.counter.watch(&mut parts);
    Ok((parts, note))
}

/// The parts of a chain that are not the bus.
struct Chain {
    controller: Box<dyn Controller + Send>,
    pins: Pins,
    counter: ReactionCounter,
}

/// Prepares sensor, controller and actor of a chain.
fn chain(setting: &Setting, given: &Given, count: u64) -> Result<Chain, ProbeError> {
    let description = bus::described(given)?;
    let layout = Layout::from_description(&description).map_err(BusProbeError::from)?;
    let Some(sensor) = layout.devices.iter().position(|device| device.kind == DeviceKind::Digital)
    else {
        return Err(ProbeError::Unfit {
            place: "the segment".to_owned(),
            what: "a chain",
            why: "it has no digital device with an input",
        });
    };
    let has_drive = layout.devices.iter().any(|device| device.kind == DeviceKind::Drive);
    let input = layout.devices[sensor].inputs.start;
    let (controller, actor): (Box<dyn Controller + Send>, _) = if has_drive {
        let (reflex, name) = Reflex::new(&bus::text_of(given)?, &layout, input, setting)?;
        (Box::new(reflex), name)
    } else {
        let output = layout.devices[sensor].outputs.start;
        (Box::new(Mirror { input, output }), layout.devices[sensor].name.clone())
    };

    let sensor = layout.devices[sensor].name.clone();
    let (is_same_cycle, period_ns) = (bus::is_same_cycle(given), setting.period_ns);
    let prediction = Prediction::new(&description, (&sensor, &actor), is_same_cycle, period_ns);
    let sentence = if has_drive {
        format!(
            "an input of {sensor} changes; the set-point of {actor} follows through the motion controller"
        )
    } else {
        format!(
            "an input of {sensor} changes, and an output of it follows: the segment has no drive"
        )
    };

    let note = ChainNote {
        sensor: sensor.clone(),
        actor: actor.clone(),
        exchange: if is_same_cycle { "same-cycle" } else { "pipelined" }.to_owned(),
        predicted: prediction.as_ref().map(Prediction::note),
    };
    let (sender, results) = channel();
    let in_block = Arc::new(AtomicBool::new(true));
    let pins = Pins {
        sensor: (sensor, None),
        actor: (actor, None),
        is_drive: has_drive,
        // 0: without a limit.
        count: if count == 0 { u64::MAX } else { count },
        in_block: Arc::clone(&in_block),
        period_ns,
        state: PinState::Resting(None),
        level: 0,
        random: fastrand::Rng::new(),
        sender: Some(sender),
    };
    let counter = ReactionCounter {
        inner: Box::new(Alone),
        results,
        is_over: false,
        sentence,
        note: Some(note),
        measured: ReactionTimes::new(period_ns, prediction),
        in_block,
    };
    Ok(Chain { controller, pins, counter })
}

/// Figures of the bus; reactions are reported by the pins.
#[derive(Clone, Copy, Debug)]
struct ReactionFigures(BusFigures);

impl Figures for ReactionFigures {
    fn series(&self) -> &'static [Series] {
        &[Series::Chain, Series::RoundTrip, Series::DeviceInterval]
    }

    fn of(&mut self, sample: &Sample, before: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        self.0.of(sample, before, count);
    }
}

/// Controller that copies an input to an output.
struct Mirror {
    input: usize,
    output: usize,
}

impl Controller for Mirror {
    fn step(&mut self, _: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        outputs[self.output] = inputs[self.input];
    }
}

/// Motion controller with one joint, moved by an input between two positions.
struct Reflex {
    motion: MotionController,
    input: usize,
    level: Arc<AtomicBool>,
}

impl Reflex {
    /// Takes the first joint of the file; returns its name too.
    fn new(
        text: &str,
        layout: &Layout,
        input: usize,
        setting: &Setting,
    ) -> Result<(Self, String), ProbeError> {
        let mut robot = Robot::from_toml(text, layout, setting.period_ns)?;
        // One joint is enough to measure a path; the others would only take time from the cycle.
        robot.joints.truncate(1);
        let joint = &mut robot.joints[0];
        let step_rad = STEP_INCREMENTS / joint.increments_per_rad.abs();
        let period_s = setting.period_ns as f64 * 1e-9;

        // High limits, so the first set-point after the change is visible: the probe measures the
        // path, not the ramp.
        joint.limits.velocity = joint.limits.velocity.max(10.0 * step_rad / period_s);
        joint.limits.acceleration =
            joint.limits.acceleration.max(100.0 * step_rad / (period_s * period_s));
        joint.limits.jerk = None;

        // Upwards or downwards, wherever the travel has room.
        let low = joint.limits.low;
        let high = joint.limits.high;
        let name = joint.name.clone();
        let settings = &mut robot.settings;
        // A ramp at the start would stretch the first reactions.
        settings.soft_start_ns = 0;

        // Missed cycles lengthen the reaction and are part of the result; they must not end the
        // run.
        (settings.thresholds.degrade_at, settings.thresholds.stop_at) = (u32::MAX, u32::MAX);

        let level = Arc::new(AtomicBool::new(false));
        let followed = Arc::clone(&level);
        let mut home = None;
        let law = Trajectory::law(move |_, wanted| {
            let home = *home.get_or_insert(wanted[0]);
            // A joint may stand at an end of its travel.
            let step =
                if home + step_rad <= high || home - step_rad < low { step_rad } else { -step_rad };
            wanted[0] = if followed.load(Ordering::Relaxed) { home + step } else { home };
        });

        Ok((Self { motion: MotionController::new(&robot, law), input, level }, name))
    }
}

impl Controller for Reflex {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        let status = self.motion.status();
        let is_down = status.joints().iter().any(|joint| joint.reason != DownReason::None);
        let rests = is_down || status.phase == RobotPhase::AtRest;
        // After a break, as between the blocks of a bench.
        if rests && cycle.in_op == cycle.devices {
            self.motion.resume();
        }

        self.level.store(inputs[self.input] & 1 != 0, Ordering::Relaxed);
        self.motion.step(cycle, inputs, outputs);
    }

    fn stop(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> bool {
        self.motion.stop(cycle, inputs, outputs)
    }

    fn take_event(&mut self) -> Option<Event> {
        self.motion.take_event()
    }

    fn robot(&self) -> Option<RobotState> {
        self.motion.robot()
    }
}

#[derive(Clone, Copy, Debug)]
enum PinState {
    /// Waiting until this time; `None` before the devices are ready.
    Resting(Option<Instant>),
    /// The input changed at this time, when the actor's value was this.
    Changed(Instant, [u8; 4]),
}

/// Result of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// The actor followed after this time, in ns.
    Followed(u64),
    /// No reaction within this time, in ns.
    GivenUp(u64),
}

/// Changes the sensor's input, and observes the actor.
struct Pins {
    sensor: (String, Option<usize>),
    actor: (String, Option<usize>),
    /// The actor is a drive; otherwise it is the sensor's device.
    is_drive: bool,
    count: u64,
    period_ns: u64,
    state: PinState,
    level: u8,
    random: fastrand::Rng,
    /// `None` when all changes are done.
    sender: Option<Sender<Reaction>>,
    /// Whether the loop runs a block; nothing is changed between blocks.
    in_block: Arc<AtomicBool>,
}

impl Pins {
    /// Waits this number of periods plus a random fraction of one.
    fn rest_from(&mut self, now: Instant, periods: u64) {
        // At a random phase of the cycle: an input that always changes right after the frame would
        // measure the best or the worst case alone.
        let until = now.plus_ns(periods * self.period_ns + self.random.u64(..self.period_ns));
        self.state = PinState::Resting(Some(until));
    }

    fn done(&mut self, outcome: Reaction, now: Instant) {
        let is_received = self.sender.as_ref().is_some_and(|sender| sender.send(outcome).is_ok());
        self.count = self.count.saturating_sub(1);
        if self.count == 0 || !is_received {
            self.sender = None;
        }
        // The actor comes back to its home before the next change.
        self.rest_from(now, 7);
    }

    /// Returns whether both devices are in operation.
    fn is_ready(&self, segment: &Segment, sensor: usize, actor: usize) -> bool {
        let in_op = |device| segment.status(device).is_some_and(|status| status.al_state == OP);
        let (enabled, bits) = ENABLED;
        let is_enabled = || {
            segment
                .value(actor, STATUSWORD, 0)
                .is_some_and(|word| word.first().is_some_and(|low| low & bits == enabled))
        };

        in_op(sensor) && in_op(actor) && (!self.is_drive || is_enabled())
    }

    /// Returns the value that the actor applied last.
    fn taken(&self, segment: &Segment, actor: usize) -> [u8; 4] {
        // What the device has taken over, and not what the frame carried.
        let (index, entry) = if self.is_drive { (TARGET, 0) } else { (OUTPUTS, 1) };
        let mut taken = [0; 4];
        let value = segment.value(actor, index, entry).unwrap_or(&[]);
        taken.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        taken
    }
}

impl Environment for Pins {
    fn next(&self, link: &Link) -> Option<Instant> {
        match self.state {
            _ if self.sender.is_none() => None,
            PinState::Resting(until) => until,
            // The reaction may come with the actor's next cycle.
            PinState::Changed(..) => Some(link.segment().next_due()),
        }
    }

    fn look(&mut self, link: &mut Link, now: Instant) {
        if self.sender.is_none() {
            return;
        }
        if !self.in_block.load(Ordering::Relaxed) {
            // A reaction that the end of a block cut off is not one.
            self.state = PinState::Resting(None);
            return;
        }

        let segment = link.segment_mut();
        let find = |(name, place): &(String, Option<usize>)| place.or_else(|| segment.find(name));
        let (Some(sensor), Some(actor)) = (find(&self.sensor), find(&self.actor)) else { return };
        (self.sensor.1, self.actor.1) = (Some(sensor), Some(actor));
        match self.state {
            // Long enough for the controller to take over the drive's position.
            PinState::Resting(None) if self.is_ready(segment, sensor, actor) => {
                self.rest_from(now, 50);
            }
            PinState::Resting(Some(until)) if until <= now => {
                let before = self.taken(segment, actor);
                self.level ^= 1;
                segment.set_value(sensor, INPUTS, 1, &[self.level]);
                self.state = PinState::Changed(now, before);
            }
            PinState::Changed(since, before) if self.taken(segment, actor) != before => {
                self.done(Reaction::Followed(now.ns_since(since)), now);
            }
            PinState::Changed(since, _) if now.ns_since(since) > MOST_PERIODS * self.period_ns => {
                self.done(Reaction::GivenUp(now.ns_since(since)), now);
            }
            _ => {}
        }
    }
}

/// Counts the results reported by the pins.
struct ReactionCounter {
    inner: Box<dyn Companion>,
    results: Receiver<Reaction>,
    is_over: bool,
    sentence: String,
    /// Written before the first reaction.
    note: Option<ChainNote>,
    measured: ReactionTimes,
    /// Whether the loop runs a block.
    in_block: Arc<AtomicBool>,
}

impl ReactionCounter {
    /// Has the companion of a loop record the reactions too.
    fn watch(mut self, parts: &mut Parts) {
        parts.figures = Box::new(ReactionFigures(BusFigures));
        self.inner = std::mem::replace(&mut parts.companion, Box::new(Alone));
        parts.companion = Box::new(self);
    }

    /// Counts what the pins have reported; returns how many reactions that were.
    fn count_results(&mut self, recorder: &mut Recorder) -> usize {
        let mut count = 0;
        loop {
            match self.results.try_recv() {
                Ok(Reaction::Followed(ns)) => {
                    self.measured.add(ns);
                    recorder.count(Series::Chain, ns);
                }
                // The true reaction takes at least this long, so a limit must see it.
                Ok(Reaction::GivenUp(ns)) => {
                    self.measured.given_up += 1;
                    recorder.count(Series::Chain, ns);
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return count,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    self.is_over = true;
                    return count;
                }
            }
            count += 1;
        }
    }
}

impl Companion for ReactionCounter {
    fn start(&mut self) -> Result<(), ProbeError> {
        self.inner.start()
    }

    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        self.in_block.store(true, Ordering::Relaxed);
        if let Some(note) = self.note.take() {
            // A run file that cannot be written ends the run by itself.
            let _ = recorder.writer().note(&Note::Chain(Box::new(note)));
        }
        self.count_results(recorder);
        if self.is_over { Flow::Stop } else { self.inner.look(recorder) }
    }

    fn after_block(&mut self, recorder: &mut Recorder) {
        self.in_block.store(false, Ordering::Relaxed);
        // Those since the last look, after which the disk may have kept this thread for long.
        if self.count_results(recorder) > 0 {
            // A file that cannot be written ends the run by itself.
            let _ = recorder.write_out();
        }
        self.inner.after_block(recorder);
    }

    fn end(&mut self) -> Vec<String> {
        let mut sentences = vec![self.sentence.clone()];
        sentences.extend(self.measured.words());
        sentences.extend(self.inner.end());
        sentences
    }
}
