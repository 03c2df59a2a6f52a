//! Writes the configuration of the file to all devices in PREOP: watchdog, start-up values, SYNC0.
//! The devices are configured concurrently, with one frame per millisecond, using the same steps as
//! [`super::recovery`].

use onbeat_rt::frame::{self, Command, LONGEST, Writer, register};

use super::acyclic::{AcyclicFrame, AcyclicQuery, MAX_QUERIES, QueryPurpose};
use super::config_record::ConfigStep;
use super::cyclic::ACYCLIC;
use super::device::{BusDevice, DeviceStage};
use super::emergency::ReceivedEmergency;
use super::error::BusError;
use super::known_device::KnownDevice;
use super::recovery::{Recovery, RecoveryProgress};
use super::register_query::QueryReply;
use super::sync0::Sync0Timing;
use onbeat_ethercat::event::Event;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::registers::{SYSTEM_TIME, WATCHDOG_DIVIDER, WATCHDOG_TIME};
use onbeat_ethercat::wire::Wire;

/// Interval between frames, in ns.
const EVERY_NS: u64 = 1_000_000;
/// Maximum number of consecutive lost frames: a second in all, as before PREOP.
const MOST_LOST: u32 = 1_000;
/// Watchdog divider after power-on: units of (2498 + 2) · 40 ns.
const DIVIDER: u16 = 2_498;
const UNIT_NS: u64 = 100_000;

/// Returns the steps before the mapping is read: watchdog and start-up values of the device at this
/// position.
pub(super) fn before_mapping(layout: &Layout, place: usize) -> Vec<ConfigStep> {
    let Some(device) = layout.devices.get(place) else { return Vec::new() };
    // At least 1: a watchdog time of 0 switches the watchdog off.
    let time = |ns: u64| u16::try_from(ns.div_ceil(UNIT_NS)).unwrap_or(u16::MAX).max(1);
    // The watchdog supervises writes of outputs: without any it would expire at once.
    let has_outputs = !device.outputs.is_empty();
    let watchdog = layout.watchdog_ns.filter(|_| has_outputs).map(|ns| {
        [
            ConfigStep::register(WATCHDOG_DIVIDER, DIVIDER),
            ConfigStep::register(WATCHDOG_TIME, time(ns)),
        ]
    });
    let objects = device.setup.startup.iter().map(|value| ConfigStep::object(place, value));

    watchdog.into_iter().flatten().chain(objects).collect()
}

/// Returns the SYNC0 step of the device at this position, to be done after mapping.
pub(super) fn before_safeop(layout: &Layout, place: usize, period_ns: u64) -> Option<ConfigStep> {
    let wanted = layout.devices.get(place)?.setup.sync0?;
    Some(ConfigStep::Sync0(Sync0Timing::new(wanted, period_ns)))
}

/// A configuration run over several devices.
pub(super) struct PreopSetup<'w, W> {
    wire: &'w mut W,
    devices: Vec<BusDevice>,
    queries: Vec<AcyclicQuery>,
    mails_from: usize,
    cycle: u64,
    lost: u32,
    pub(super) frames: u64,
    pub(super) events: Vec<Event>,
}

impl<'w, W: Wire> PreopSetup<'w, W> {
    /// Prepares to run the configuration of each device from the given step on.
    pub(super) fn new(wire: &'w mut W, known: Vec<(KnownDevice, usize)>) -> Self {
        let devices = known.into_iter().map(|(mut known, line)| {
            let recovery = Recovery::from_line(&mut known, line, 0);
            BusDevice { stage: DeviceStage::Recovering(recovery), ..BusDevice::new(known) }
        });
        let devices = devices.collect();
        let queries = Vec::with_capacity(MAX_QUERIES);
        Self {
            wire,
            devices,
            queries,
            mails_from: 0,
            cycle: 0,
            lost: 0,
            frames: 0,
            events: Vec::new(),
        }
    }

    /// Returns the devices.
    pub(super) fn into_known(self) -> impl Iterator<Item = KnownDevice> {
        self.devices
            .into_iter()
            .map(|device| KnownDevice { last_mail_counter: device.mail_counter, ..device.known })
    }

    /// Configures all devices. `reference` is the station address of the reference clock,
    /// distributed with each frame.
    pub(super) fn run(&mut self, layout: &Layout, reference: Option<u16>) -> Result<(), BusError> {
        let mut sent = [0; LONGEST];
        let mut reply = [0; LONGEST + 1];
        while self.devices.iter().any(|device| !is_complete(device)) {
            self.cycle += 1;
            let next = self.wire.now().plus_ns(EVERY_NS);
            let length = self.write(&mut sent, reference);
            self.wire.send(&sent[..length]);
            self.frames += 1;
            self.lost += 1;

            // To the end of the interval, also behind the reply: a late reply of an earlier frame is
            // taken out here and cannot stand for that of the next one.
            while let Some(received) = self.wire.receive(&mut reply, next) {
                let reply = &reply[..received.min(LONGEST)];
                if frame::purpose_of(reply) == Some(ACYCLIC)
                    && frame::is_reply_to(reply, &sent[..length])
                {
                    self.take(reply, layout)?;
                    self.queries.clear();
                    self.lost = 0;
                }
            }

            self.wire.rest();
            if self.lost > MOST_LOST {
                return Err(BusError::NoAnswer(self.lost));
            }
        }

        Ok(())
    }

    fn write(&mut self, sent: &mut [u8; LONGEST], reference: Option<u16>) -> usize {
        self.queries.clear();
        let mut writer = Writer::new(&mut sent[..], ACYCLIC);
        // Clocks go on being distributed: SYNC0 waits until its device is in step.
        if let Some(station) = reference {
            writer.push(Command::Frmw, register(station, SYSTEM_TIME), 8);
        }

        let mut frame_writer = AcyclicFrame { writer: &mut writer, queries: &mut self.queries };
        frame_writer.push_startup_mails(&mut self.devices, &mut self.mails_from, self.cycle);
        for (place, device) in self.devices.iter().enumerate() {
            frame_writer.push_recovery(place, device, reference);
        }

        let length = writer.finish();
        frame::number(&mut sent[..length], self.cycle as u16);
        length
    }

    fn take(&mut self, reply: &[u8], layout: &Layout) -> Result<(), BusError> {
        for number in 0..self.queries.len() {
            let query = self.queries[number];
            let own = query.reply(reply);
            let QueryReply { data, counter } = own;

            match query.purpose {
                QueryPurpose::Recovery(place) => {
                    let second = self
                        .queries
                        .get(number + 1)
                        .filter(|query| query.purpose == QueryPurpose::Second);
                    let second = second.map(|second| second.reply(reply).data);
                    self.take_recovery(place, own, second, layout)?;
                }
                // Only a counted write was taken: a full mailbox refuses it, and the mail is sent again.
                QueryPurpose::StartupMailSent(place) if counter > 0 => {
                    if let Some(transfer) = self.devices[place].startup_transfer() {
                        transfer.was_sent();
                    }
                }
                QueryPurpose::Mail(place) if counter > 0 => self.take_mail(place, data),
                _ => {}
            }
        }

        Ok(())
    }

    fn take_recovery(
        &mut self,
        place: usize,
        answer: QueryReply<'_>,
        second: Option<&[u8]>,
        layout: &Layout,
    ) -> Result<(), BusError> {
        let device = &mut self.devices[place];
        let DeviceStage::Recovering(recovery) = &mut device.stage else { return Ok(()) };
        let name =
            || layout.devices.get(place).map_or_else(String::new, |device| device.name.clone());
        let is_at_sync0 = recovery.is_at_sync0();

        match recovery.answer(&mut device.known, answer, second, self.cycle) {
            RecoveryProgress::InProgress => Ok(()),
            RecoveryProgress::Done => {
                device.stage = DeviceStage::InOp;
                Ok(())
            }
            RecoveryProgress::SdoRefused(line, why) => {
                let (index, entry) = device.known.object(line);
                Err(BusError::StartupRefused { name: name(), index, entry, why })
            }
            RecoveryProgress::StateRefused(..) if is_at_sync0 => Err(BusError::NotInStep(name())),
            RecoveryProgress::StateRefused(_, code) => {
                Err(BusError::FellInPreop { name: name(), code })
            }
            RecoveryProgress::NoAnswer
            | RecoveryProgress::Assigned(..)
            | RecoveryProgress::Identified
            | RecoveryProgress::Rejected(_) => Err(BusError::NoAnswer(self.lost)),
        }
    }

    fn take_mail(&mut self, place: usize, mail: &[u8]) {
        let at_ns = self.wire.now().as_ns();
        let emergency = ReceivedEmergency::of_mail(place as u16, mail);
        self.events.extend(emergency.map(|emergency| emergency.event(at_ns)));
        if let Some(transfer) = self.devices[place].startup_transfer() {
            transfer.answer(mail, self.cycle);
        }
    }
}

/// Returns whether the device has completed its steps; a device without steps has.
fn is_complete(device: &BusDevice) -> bool {
    match &device.stage {
        DeviceStage::Recovering(recovery) => recovery.is_done(),
        _ => true,
    }
}
