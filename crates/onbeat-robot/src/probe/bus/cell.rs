//! The bus and the robot in a cell of a bench, from block to block.
//!
//! Between two blocks of a cell others run, and no frame goes out: the devices' watchdogs take the
//! power, and the devices leave OP. Each block has a lead-in on its own thread, whose cycles are in
//! no figure: the devices come back to OP, and the robot is enabled where it stands. Trajectory
//! time and soft start go on from the block before ([`MotionController::resume`]).
//!
//! Real devices are shared by the cells of a bench: each cell opens the interface for its blocks
//! only, and brings the robot to rest at their end.

use std::sync::atomic::AtomicBool;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Instant, OnOverrun, Plan};

use super::options::{DEVICE_DELAY, DEVICES, EXCHANGE, INTERFACE, SPIN, WIRE};
use super::{BusSetup, NoMotion, Rig, in_charge};
use crate::bus::{Bus, BusError, Packets};
use crate::motion::{
    MotionAccount, MotionController, RobotPhase, WindowRecorder, exchange, run_unrecorded,
};
use crate::probe::devices::{Environment, Undisturbed};
use onbeat::bench::cell_start::BusCell;
use onbeat::probe::Setting;
use onbeat::probe::description::{Given, Parts, ProbeError, SettingValue};
use onbeat::record::{Note, Recorder};
use onbeat::thread::Grant;
use onbeat_ethercat::carrier::{Interface, WireMethod};
use onbeat_ethercat::step::{BusCycle, Controller};

/// Time in which all devices come back to OP, in ns: simulated ones, and real ones.
const TO_OP_NS: u64 = 80_000_000;
const REAL_TO_OP_NS: u64 = 500_000_000;
/// Longest lead-in and lead-out, in ns.
const LONGEST_LEAD_IN_NS: u64 = 3_000_000_000;
const LONGEST_LEAD_OUT_NS: u64 = 10_000_000_000;
/// Time to poll for a reply before sleeping, in ns.
const SPIN_NS: u64 = 100_000;

/// The robot of a cell, and the account of what it did.
pub struct CellMotion {
    /// Moves the joints.
    pub controller: MotionController,
    /// What it did in the present block.
    pub account: MotionAccount,
    /// Writes what its joints did, step by step; taken by the recorder's side.
    pub windows: Option<WindowRecorder>,
}

/// What a cell keeps from block to block.
pub(super) struct CellRobot {
    /// `None` for a segment without joints.
    pub(super) motion: Option<CellMotion>,
    /// The interface of real devices, closed between blocks.
    interface: Option<String>,
    /// How its frames pass.
    method: WireMethod,
}

impl CellRobot {
    /// Returns the length of a lead-in, in ns.
    pub(super) fn lead_in_ns(&self) -> u64 {
        let to_op_ns = if self.interface.is_some() { REAL_TO_OP_NS } else { TO_OP_NS };
        let enabling_ns = self.motion.as_ref().map_or(0, |motion| motion.controller.enabling_ns());
        (to_op_ns + enabling_ns).min(LONGEST_LEAD_IN_NS)
    }

    /// Counts the last cycle of a block.
    pub(super) fn count(&mut self) {
        if let Some(CellMotion { controller, account, .. }) = &mut self.motion {
            account.add(controller);
        }
    }

    /// Writes what the robot did in a block, of its joints the one that followed worst. A run file
    /// that cannot be written ends the run by itself.
    pub(super) fn write_note(&mut self, recorder: &mut Recorder) {
        let Some(CellMotion { account, .. }) = &mut self.motion else { return };
        let mut note = account.take_note();
        let worst = note.worst_joint().cloned();
        note.joints = worst.into_iter().collect();
        if note.cycles > 0 {
            let _ = recorder.writer().note(&Note::Motion(Box::new(note)));
        }
    }

    /// Takes the recorder of what the joints do, which runs beside the loop.
    pub(super) fn take_windows(&mut self) -> Option<WindowRecorder> {
        self.motion.as_mut()?.windows.take()
    }

    fn resume(&mut self) {
        if let Some(CellMotion { controller, .. }) = &mut self.motion {
            controller.resume();
        }
    }

    /// Enables the robot once more where it has stopped during the lead-in.
    fn resume_at_rest(&mut self) {
        if let Some(CellMotion { controller, .. }) = &mut self.motion
            && controller.status().phase == RobotPhase::AtRest
        {
            controller.resume();
        }
    }
}

/// Prepares the loop of a bench's cell, and returns it with a note on the bus. Without `motion` the
/// outputs stay 0.
///
/// # Errors
/// [`ProbeError`] if the bus does not come up.
pub fn parts_of_cell(
    setting: &Setting,
    wanted: &BusCell,
    motion: Option<CellMotion>,
) -> Result<(Parts, Grant), ProbeError> {
    let world = CellWorld { controller: Box::new(NoMotion), environment: Undisturbed, motion };
    parts_in(setting, wanted, world)
}

/// What moves the outputs of a cell, and what its devices meet from outside.
pub(in crate::probe) struct CellWorld<E> {
    /// In charge without `motion`.
    pub(in crate::probe) controller: Box<dyn Controller + Send>,
    pub(in crate::probe) environment: E,
    pub(in crate::probe) motion: Option<CellMotion>,
}

/// As [`parts_of_cell`], with more of the world.
pub(in crate::probe) fn parts_in(
    setting: &Setting,
    wanted: &BusCell,
    world: CellWorld<impl Environment + 'static>,
) -> Result<(Parts, Grant), ProbeError> {
    let setup = BusSetup::new(setting, &given(wanted))?;
    let mut rig = Rig::bring_up(&setup, world.controller, world.environment)?;
    let method = setup.cable.method();
    let cell = CellRobot { motion: world.motion, interface: wanted.interface.clone(), method };
    if cell.interface.is_some() {
        park(&mut rig.bus)?;
    }

    let devices = rig.bus.layout().devices.len();
    let kind = if cell.interface.is_some() { "" } else { "simulated " };
    let note = Grant::given(
        "bus",
        format!("{devices} {kind}SubDevices exchange process data in each cycle; {}", rig.wire),
    );
    rig.cell = Some(cell);
    Ok((super::parts(rig, None), note))
}

/// The options of the bus probe that a cell has.
pub(in crate::probe) fn given(wanted: &BusCell) -> Given {
    let BusCell { file, interface, exchange, device_delay_ns, wire, .. } = wanted;
    let mut given = vec![
        (DEVICES.name, SettingValue::Name(file.clone())),
        (EXCHANGE.name, SettingValue::Word(exchange.clone())),
        (SPIN.name, SettingValue::Time(SPIN_NS)),
    ];
    given.extend(interface.clone().map(|name| (INTERFACE.name, SettingValue::Name(name))));
    given.extend(wire.clone().map(|word| (WIRE.name, SettingValue::Word(word))));
    given.extend(device_delay_ns.map(|ns| (DEVICE_DELAY.name, SettingValue::Time(ns))));
    Given(given)
}

/// Closes the interface of a bus until its next block.
fn park(bus: &mut Bus<Packets>) -> Result<(), ProbeError> {
    let (end, _) = Interface::pair().map_err(|why| ProbeError::from(BusError::Wire(why)))?;
    *bus.wire_mut() = Packets::new(end);
    Ok(())
}

/// Opens the interface of real devices again. Where that fails, the cycles have no replies, which
/// is reported.
pub(super) fn reopen(bus: &mut Bus<Packets>, cell: Option<&CellRobot>) {
    let opened = cell.and_then(|cell| Packets::open_by(cell.interface.as_ref()?, cell.method).ok());
    if let Some(wire) = opened {
        *bus.wire_mut() = wire.spinning_ns(SPIN_NS);
    }
}

/// Runs the cycles before the first release of a block: devices to OP, joints enabled. Returns
/// whether all devices are in OP.
pub(super) fn lead_in(rig: &mut Rig, plan: &Plan, stop: &AtomicBool) -> bool {
    let Rig { bus, cell, .. } = rig;
    let Some(robot) = cell else { return false };
    robot.resume();
    reopen(bus, Some(robot));

    let releases = plan.first_release.ns_since(Monotonic.now()) / plan.period_ns.max(1);
    let lead_ns = releases * plan.period_ns;
    let first_release = Instant::from_ns(plan.first_release.as_ns().saturating_sub(lead_ns));
    let lead = Plan { first_release, releases, on_overrun: OnOverrun::SkipKeepPhase, ..*plan };
    let mut is_up = false;
    unrecorded(rig, &lead, stop, &mut |rig, seen| {
        is_up = seen.in_op == seen.devices;
        rig.cell.iter_mut().for_each(CellRobot::resume_at_rest);
        Flow::Continue
    });

    if let Some(CellMotion { controller, account, .. }) =
        rig.cell.as_mut().and_then(|cell| cell.motion.as_mut())
    {
        account.skip(controller);
    }

    is_up
}

/// Brings a robot on real devices to rest after a block, and closes the interface. Simulated
/// devices stop by their watchdogs.
pub(super) fn lead_out(rig: &mut Rig, plan: &Plan) {
    let is_real = rig.cell.as_ref().is_some_and(|cell| cell.interface.is_some());
    if !is_real {
        return;
    }

    let first_release = Monotonic.now().plus_ns(plan.period_ns);
    let releases = LONGEST_LEAD_OUT_NS / plan.period_ns.max(1);
    let lead = Plan { first_release, releases, on_overrun: OnOverrun::SkipKeepPhase, ..*plan };
    rig.stopping = true;
    unrecorded(rig, &lead, &AtomicBool::new(false), &mut |rig, _| {
        let motion = rig.cell.as_ref().and_then(|cell| cell.motion.as_ref());
        let phase = motion.map_or(RobotPhase::AtRest, |motion| motion.controller.status().phase);
        if phase == RobotPhase::AtRest { Flow::Stop } else { Flow::Continue }
    });
    rig.stopping = false;

    // What was sent before is on its way; a wire that cannot be parked stays open.
    let _ = park(&mut rig.bus);
}

/// Runs cycles that are in no figure and whose events are not recorded, until `after_each` ends
/// them.
fn unrecorded(
    rig: &mut Rig,
    plan: &Plan,
    stop: &AtomicBool,
    after_each: &mut dyn FnMut(&mut Rig, &BusCycle) -> Flow,
) {
    let mut task = |cycle: &Cycle| {
        let Rig { bus, controller, cell, stopping, .. } = &mut *rig;
        let controller = in_charge(controller, cell);
        let (seen, _) = exchange(bus, controller, cycle, *stopping);
        while bus.next_event().is_some() || controller.take_event().is_some() {}
        after_each(rig, &seen)
    };
    run_unrecorded(plan, &mut task, stop);
}
