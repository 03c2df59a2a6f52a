//! The bus probe: a loop that exchanges process data with the devices of an EtherCAT segment once a
//! cycle.
//!
//! Without hardware the devices are simulated ([`super::devices`]), by default 59 of them. Their
//! outputs stay 0: no drive is enabled, and nothing moves.

mod cell;
mod options;

pub use cell::{CellMotion, parts_of_cell};

pub(super) use options::{
    CLOCK, DEVICE_DELAY, DEVICES, EXCHANGE, SPIN, WIRE, described, is_same_cycle, text_of,
};

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Outcome, Plan, Producer, Sample, Task};

use self::cell::CellRobot;
pub(super) use self::cell::{CellWorld, given, parts_in};
use self::options::{GROUP, INTERFACE, SERVE, SHARING, wire_of};
use super::devices::{Environment, SimulatedDevices, Undisturbed, WireKind};
use super::error::BusProbeError;
use super::event_channel::{EventReceiver, EventSender, event_channel};
use crate::bus::{Bus, BusCounts, BusError, BusOptions, ExchangeMode, InProcess, Packets, Wire};
use crate::cycle_messages::CycleMessages;
use crate::image_service::{BackgroundService, CycleService, CycleTimes, serve};
use crate::motion::WindowRecorder;
use onbeat::probe::Setting;
use onbeat::probe::description::{self, Body, Companion, Defaults, Given, Parts, ProbeError};
use onbeat::probe::timer::work;
use onbeat::record::{Figures, Note, Recorder, Remark, Series};
use onbeat_control::{Counter, Image, ImageSettings, Sharing, group_id};
use onbeat_ethercat::event::Event;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_segment::{Description, Link};

/// Maximum number of bus events passed on in one cycle; further ones wait for the next.
// A bound on the time that a cycle spends on events, whatever happens on the cable.
const EVENTS_PER_CYCLE: usize = 16;

/// A cell of a bench reports missing replies when fewer than 99 of 100 cycles had theirs in time.
const REPORTED_BELOW: (u64, u64) = (99, 100);

/// The bus probe.
pub const BUS: description::Description = description::Description {
    name: "bus",
    sentence: "From a release to the end of a cycle that exchanges process data with the devices of an EtherCAT segment",
    examples: "  sudo onbeat measure bus --for 30s
      59 simulated devices, a frame each millisecond
  sudo onbeat measure bus --exchange same-cycle --cpu 1
      how long frame and reply take
  sudo onbeat measure bus --interface eth1 --devices robot.toml --clock reference",
    series: &[Series::ResponseTime, Series::RoundTrip, Series::DeviceInterval],
    defaults: Defaults::LOOP,
    choices: &[
        DEVICES,
        INTERFACE,
        EXCHANGE,
        SPIN,
        WIRE,
        CLOCK,
        DEVICE_DELAY,
        SERVE,
        GROUP,
        SHARING,
    ],
    line_a_second: false,
    open: |setting, given| open(setting, given, None, Undisturbed),
};

/// Controller that leaves all outputs unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMotion;

impl Controller for NoMotion {
    fn step(&mut self, _: &BusCycle, _: &[u8], _: &mut [u8]) {}
}

/// Prepares bus, devices and loop.
pub(super) fn open(
    setting: &Setting,
    given: &Given,
    controller: Option<Box<dyn Controller + Send>>,
    world: impl Environment + 'static,
) -> Result<Parts, ProbeError> {
    let wanted = BusSetup::new(setting, given)?;
    let Some(name) = given.name(SERVE.name) else {
        let controller = controller.unwrap_or_else(|| Box::new(NoMotion));
        return Ok(parts(Rig::bring_up(&wanted, controller, world)?, None));
    };
    let sharing: Sharing =
        given.word(SHARING.name).and_then(|word| word.parse().ok()).unwrap_or_default();
    let layout = Layout::from_description(&wanted.description).map_err(BusProbeError::from)?;
    let group = given.name(GROUP.name).map(group_id).transpose().map_err(BusProbeError::from)?;
    let lock_wait = Duration::from_nanos(setting.period_ns);
    let settings = ImageSettings { group, lock_wait, ..sharing.into() };
    let mut image = Image::create(name, &layout, settings).map_err(BusProbeError::from)?;
    // With a controller of its own nobody else may write outputs: two writers would fight over a
    // drive.
    if controller.is_some() {
        image.keep_outputs().map_err(BusProbeError::from)?;
    }

    if wanted.interface.is_none() {
        // Said to every reader: what it shows is no hardware.
        image.count(Counter::SimulatedDevices, layout.devices.len() as u64);
    }

    let messages = CycleMessages::create(name, &layout, &[], setting.period_ns)
        .map_err(BusProbeError::from)?;
    let (controller, serving, background) = serve(image, controller, Some(messages));
    let mut rig = Rig::bring_up(&wanted, controller, world)?;
    rig.serving = Some(serving);
    Ok(parts(rig, Some(background)))
}

/// The loop of a bus, with what serves its image where other processes share it.
fn parts(mut rig: Rig, background: Option<BackgroundService>) -> Parts {
    let (event_sender, event_receiver) = event_channel(rig.bus.layout());
    rig.event_sender = Some(event_sender);
    let windows = rig.cell.as_mut().and_then(CellRobot::take_windows);
    let rig = Arc::new(Mutex::new(rig));
    Parts {
        body: Box::new(OnBus { rig: rig.clone() }),
        figures: Box::new(BusFigures),
        companion: Box::new(AfterBus { background, rig, event_receiver, windows }),
    }
}

/// Configuration of a bus.
struct BusSetup {
    description: Description,
    interface: Option<String>,
    cable: WireKind,
    options: BusOptions,
    spin_ns: u64,
    work_ns: u64,
    cpu: Option<u32>,
}

impl BusSetup {
    fn new(setting: &Setting, given: &Given) -> Result<Self, ProbeError> {
        let description = described(given)?;
        let delay_ns = given.time_ns(DEVICE_DELAY.name);
        // A device slower than the loop never answers in time, and every figure would be of that.
        if delay_ns >= setting.period_ns {
            let us = |ns: u64| ns as f64 / 1e3;
            return Err(BusProbeError::DeviceDelay {
                delay_us: us(delay_ns),
                period_us: us(setting.period_ns),
            }
            .into());
        }

        let mode = if is_same_cycle(given) {
            ExchangeMode::SameCycle { reply_within_ns: setting.period_ns / 2 }
        } else {
            ExchangeMode::Pipelined
        };

        let follow_clock = given.word(CLOCK.name) == Some("reference");
        if follow_clock && setting.wait.is_relative() {
            let why = "releases with --wait relative have no grid that could follow a clock";
            return Err(ProbeError::NoMeaning { option: "--clock reference", why });
        }

        Ok(Self {
            description,
            interface: given.name(INTERFACE.name).map(str::to_owned),
            cable: wire_of(given)?,
            options: BusOptions { mode, period_ns: setting.period_ns, follow_clock },
            spin_ns: given.time_ns(SPIN.name),
            work_ns: setting.work_ns,
            cpu: setting.thread.cpu,
        })
    }
}

/// Controller with the busy work of `--work`.
struct Working<'c> {
    controller: &'c mut dyn Controller,
    work_ns: u64,
}

impl Controller for Working<'_> {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        if self.work_ns > 0 {
            work(Monotonic.now(), self.work_ns);
        }
        self.controller.step(cycle, inputs, outputs);
    }
}

/// A running bus with its controller, and its devices if they are simulated.
struct Rig {
    bus: Bus<Packets>,
    controller: Box<dyn Controller + Send>,
    /// What a cell of a bench keeps from block to block.
    cell: Option<CellRobot>,
    /// The controller brings the robot to rest.
    stopping: bool,
    /// The devices answer as long as this lives.
    _devices: Option<SimulatedDevices>,
    wire: String,
    is_same_cycle: bool,
    /// Busy work per cycle, in ns.
    work_ns: u64,
    follows_clock: bool,
    serving: Option<CycleService>,
    /// Events for the recorder.
    event_sender: Option<EventSender>,
    /// Whether all devices have been in OP.
    was_up: bool,
}

impl Rig {
    fn bring_up(
        wanted: &BusSetup,
        controller: Box<dyn Controller + Send>,
        world: impl Environment + 'static,
    ) -> Result<Self, ProbeError> {
        let layout = Layout::from_description(&wanted.description).map_err(BusProbeError::from)?;
        let (bus, devices, wire) = match &wanted.interface {
            Some(name) => {
                let packets =
                    Packets::open_by(name, wanted.cable.method()).map_err(BusError::from)?;
                let packets = packets.spinning_ns(wanted.spin_ns);
                let over = packets.words();
                let bus = Bus::bring_up(packets, Some(&layout), wanted.options, name)?;
                (bus, None, format!("frames passed the network interface {name} and {over}"))
            }
            None => {
                // In one thread, bring-up is ten times faster; devices keep their configuration.
                let link = InProcess::on_clock(
                    Link::from_description(&wanted.description).map_err(BusProbeError::from)?,
                    Monotonic,
                );
                let bus =
                    Bus::bring_up(link, Some(&layout), wanted.options, "the simulated segment")?;
                let mut running = None;
                // The devices keep their state while the wire below the bus is exchanged: from a
                // call to a packet socket.
                let bus = bus.rewired(|wire| {
                    let (devices, end, words) =
                        SimulatedDevices::start(wire.into_link(), wanted.cable, wanted.cpu, world)?;
                    running = Some((devices, words));
                    Ok::<_, ProbeError>(Packets::new(end).spinning_ns(wanted.spin_ns))
                })?;

                let (devices, words) = running.unzip();
                (bus, devices, words.unwrap_or_default())
            }
        };

        Ok(Self {
            bus,
            controller,
            cell: None,
            stopping: false,
            _devices: devices,
            wire,
            is_same_cycle: wanted.options.mode != ExchangeMode::Pipelined,
            work_ns: wanted.work_ns,
            follows_clock: wanted.options.follow_clock,
            serving: None,
            event_sender: None,
            was_up: false,
        })
    }
}

/// Runs the cycles of the bus on the loop's thread.
struct OnBus {
    /// Locked by the loop while it runs.
    rig: Arc<Mutex<Rig>>,
}

impl Body for OnBus {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        let mut rig = self.rig.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the first release of the block: enabling drives takes seconds, and is no latency.
        let is_up = cell::lead_in(&mut rig, plan, stop);
        let mut cycles = Cycles { rig: &mut rig, reference: None, is_up };
        let outcome = onbeat_rt::cycle::run(&Monotonic, plan, &mut cycles, hot, stop);
        cycles.publish_rest();

        cell::lead_out(&mut rig, plan);
        outcome
    }

    fn lead_in_ns(&self) -> u64 {
        let rig = self.rig.lock().unwrap_or_else(PoisonError::into_inner);
        rig.cell.as_ref().map_or(0, CellRobot::lead_in_ns)
    }

    fn has_ports(&self) -> bool {
        true
    }
}

/// The controller of the bus: that of the cell's robot, where there is one.
fn in_charge<'r>(
    controller: &'r mut Box<dyn Controller + Send>,
    cell: &'r mut Option<CellRobot>,
) -> &'r mut dyn Controller {
    match cell.as_mut().and_then(|cell| cell.motion.as_mut()) {
        Some(motion) => &mut motion.controller,
        None => controller.as_mut(),
    }
}

struct Cycles<'r> {
    rig: &'r mut Rig,
    /// Cycle and reference time of the last reply.
    reference: Option<(u64, u64)>,
    /// Whether all devices have been in OP in this block.
    is_up: bool,
}

impl Cycles<'_> {
    /// Passes events to other processes and to the recorder. Between blocks of a bench, watchdogs
    /// take the devices out of OP as intended; their recovery is not recorded.
    fn publish(&mut self, cycle: &Cycle, bus_cycle: &BusCycle) {
        let Rig { bus, controller, serving, event_sender, cell, .. } = &mut *self.rig;
        let records = self.is_up || cell.is_none();
        let controller = in_charge(controller, cell);
        let mut keep = |event| record(event_sender, records, event);
        match serving {
            Some(serving) => {
                let took_ns = Monotonic.now().ns_since(cycle.start);
                let wakeup_latency_ns = cycle.start.ns_since(cycle.release);
                let times = CycleTimes { wakeup_latency_ns, execution_time_ns: took_ns };
                serving.after_cycle(bus, bus_cycle, times, &mut keep);
            }
            None => (0..EVENTS_PER_CYCLE).map_while(|_| bus.next_event()).for_each(&mut keep),
        }

        while let Some(event) = controller.take_event() {
            keep(event);
        }

        event_sender.iter_mut().for_each(EventSender::flush);
        self.is_up |= bus_cycle.in_op == bus_cycle.devices;
    }

    /// Passes on the events that the last cycle has left for another one.
    fn publish_rest(&mut self) {
        let Rig { bus, serving, event_sender, cell, .. } = &mut *self.rig;
        let records = self.is_up || cell.is_none();
        bus.report_rest();
        let keep = |event| record(event_sender, records, event);
        match serving {
            Some(serving) => serving.after_last_cycle(bus, keep),
            None => std::iter::from_fn(|| bus.next_event()).for_each(keep),
        }

        event_sender.iter_mut().for_each(EventSender::flush);
    }
}

/// Passes an event to the recorder, if it is to be recorded.
fn record(event_sender: &mut Option<EventSender>, records: bool, event: Event) {
    event_sender.iter_mut().filter(|_| records).for_each(|sender| sender.put(event));
}

impl Task for Cycles<'_> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let work_ns = self.rig.work_ns;
        let Rig { bus, controller, cell, is_same_cycle, was_up, .. } = &mut *self.rig;
        let mut working = Working { controller: in_charge(controller, cell), work_ns };
        let bus_cycle = bus.cycle(cycle.release, cycle.dt_ns(), &mut working);
        cell.iter_mut().for_each(CellRobot::count);
        cycle.steer(bus.steering_ns());
        // Kept over all blocks: a bench whose devices never came up must say so.
        *was_up |= bus_cycle.in_op == bus_cycle.devices;
        if *is_same_cycle && bus_cycle.round_trip_ns > 0 {
            cycle.note(bus_cycle.round_trip_ns);
        }

        if bus_cycle.reference_ns > 0 {
            let before = self.reference.replace((cycle.index, bus_cycle.reference_ns));
            // Over a lost frame the difference would be of two periods.
            let before = before.filter(|(index, _)| index + 1 == cycle.index);
            let interval_ns =
                before.map_or(0, |(_, before_ns)| bus_cycle.reference_ns.saturating_sub(before_ns));
            cycle.note_too(u32::try_from(interval_ns).unwrap_or(u32::MAX));
        }

        self.publish(cycle, &bus_cycle);
        Flow::Continue
    }
}

/// Figures of round trips, and of intervals at the reference clock.
#[derive(Clone, Copy, Debug)]
pub struct BusFigures;

impl Figures for BusFigures {
    fn series(&self) -> &'static [Series] {
        &[Series::RoundTrip, Series::DeviceInterval]
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        let figures = [(Series::RoundTrip, sample.note), (Series::DeviceInterval, sample.note_too)];
        for (series, ns) in figures.into_iter().filter(|(_, ns)| *ns > 0) {
            count(series, u64::from(ns));
        }
    }
}

/// Serves the image beside the loop, takes the bus down after it, and summarises it.
struct AfterBus {
    background: Option<BackgroundService>,
    rig: Arc<Mutex<Rig>>,
    event_receiver: EventReceiver,
    /// What the joints of a cell do.
    windows: Option<WindowRecorder>,
}

impl Companion for AfterBus {
    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        if let Some(background) = &mut self.background {
            background.run_once();
            if let Some(sentence) = background.ring_fault() {
                let _ = recorder.writer().note(&Note::Remark(Remark { sentence }));
            }
        }
        self.event_receiver.record(recorder);
        self.windows.iter_mut().for_each(|windows| windows.record(recorder));
        Flow::Continue
    }

    fn after_block(&mut self, recorder: &mut Recorder) {
        let mut rig = self.rig.lock().unwrap_or_else(PoisonError::into_inner);
        // What was passed on last makes room for what the loop could not pass on any more.
        self.event_receiver.record(recorder);
        rig.event_sender.iter_mut().for_each(EventSender::flush);
        self.event_receiver.record(recorder);
        self.windows.iter_mut().for_each(|windows| windows.record(recorder));
        rig.cell.iter_mut().for_each(|cell| cell.write_note(recorder));
        self.windows.iter_mut().for_each(|windows| windows.end_block(recorder));
    }

    fn end(&mut self) -> Vec<String> {
        let mut rig = self.rig.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_bench = rig.cell.is_some();
        let Rig { bus, wire, was_up, follows_clock, cell, .. } = &mut *rig;
        let frames = bus.bring_up_frames();
        let counts = bus.counts();
        let mut sentences = Vec::new();
        if !is_of_bench {
            sentences.push(std::mem::take(wire));
        }

        // In a bench, cells report only exceptions.
        if !is_of_bench || counts.answered * REPORTED_BELOW.1 < counts.cycles * REPORTED_BELOW.0 {
            let BusCounts { cycles, answered, lost, .. } = counts;
            sentences.push(format!(
                "{} SubDevices were brought to SAFEOP with {frames} frames; {cycles} cycles: {answered} with all \
                 frames back in time, {lost} without ({:.3} %), {} still in flight, {} with an unexpected working \
                 counter; {} frames late, {} duplicate, {} damaged or unknown",
                bus.layout().devices.len(),
                100.0 * lost as f64 / cycles.max(1) as f64,
                cycles.saturating_sub(answered + lost),
                counts.counter_off,
                counts.late,
                counts.duplicate,
                counts.unknown
            ));
        }

        if counts.repeated > 0 {
            sentences.push(format!(
                "{} frames were sent once more, because a cable of the ring was cut or mended while they passed, or a reply was late",
                counts.repeated
            ));
        }

        if counts.foreign > 0 {
            sentences.push(format!(
                "another MainDevice uses the same interface, {} of its frames came back here; end one of the two",
                counts.foreign
            ));
        }

        if let Some(ns) = bus.silent_ns() {
            let trouble = bus.wire().trouble();
            let why = trouble.map_or_else(String::new, |trouble| {
                format!(": the network interface {}", trouble.words())
            });
            sentences.push(format!("no reply for the last {:.1} s{why}", ns as f64 / 1e9));
        }

        if !*was_up {
            sentences.push("not all SubDevices reached OP".to_owned());
        }

        let with_pulses =
            bus.layout().devices.iter().filter(|device| device.setup.sync0.is_some()).count();
        if with_pulses > 0 && !*follows_clock {
            sentences.push(format!(
                "the releases followed this computer's clock and drifted past the SYNC0 of {with_pulses} SubDevices; use --clock reference"
            ));
        }

        // Whoever ran last, devices are left in INIT.
        cell::reopen(bus, cell.as_ref());
        bus.take_down();
        sentences
    }
}
