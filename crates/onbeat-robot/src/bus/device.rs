//! State of one device: configuration, AL state and recovery.

use super::emergency::EmergencyRateLimit;
use super::event_queue::EventWriter;
use super::identification::{Identification, RejectReason};
use super::known_device::KnownDevice;
use super::link_error_readings::LinkErrorReadings;
use super::mailbox_layout::MailboxLayout;
use super::recovery::Recovery;
use super::sdo::SdoTransfer;
use onbeat_ethercat::al::OP;
use onbeat_ethercat::event::{EventKind, EventValues};

#[derive(Clone, Debug)]
pub(super) enum DeviceStage {
    InOp,
    /// The device does not answer at its station address.
    NoAnswer,
    Recovering(Recovery),
    /// The device refused a state or was rejected; retried in this cycle.
    Paused(u64),
}

#[derive(Clone, Debug)]
pub(super) struct BusDevice {
    pub(super) known: KnownDevice,
    pub(super) stage: DeviceStage,
    /// Its optional group.
    pub(super) group: Option<usize>,
    /// Cycle in which the device was lost.
    pub(super) lost: Option<u64>,
    /// The device answers again and is not yet in OP.
    pub(super) found: bool,
    /// The reason of the last reported rejection; each reason is one event.
    pub(super) rejected: Option<RejectReason>,
    pub(super) unanswered: u8,
    pub(super) al_status: u8,
    pub(super) al_code: u16,
    /// AL status of its last reply.
    pub(super) last_reply_status: u8,
    pub(super) clock_was_off: bool,
    /// AL state to which the device fell back without being lost.
    pub(super) fell_to_state: Option<u8>,
    /// It left OP together with others, which is one event.
    pub(super) left_with_others: bool,
    /// Its clock was within the limit since it was configured.
    pub(super) clock_converged: bool,
    pub(super) mailbox: Option<MailboxLayout>,
    pub(super) has_mail: bool,
    /// Counter of the last mail sent, 1 to 7.
    pub(super) mail_counter: u8,
    pub(super) emergencies: EmergencyRateLimit,
    pub(super) link_errors: LinkErrorReadings,
    /// Its error counters are to be read once more.
    pub(super) confirms_errors: bool,
}

impl BusDevice {
    /// Creates a device in SAFEOP, on its way to OP.
    pub(super) fn new(known: KnownDevice) -> Self {
        Self {
            stage: DeviceStage::Recovering(Recovery::in_safeop(0)),
            group: None,
            lost: None,
            found: false,
            rejected: None,
            unanswered: 0,
            al_status: 4,
            al_code: 0,
            last_reply_status: 4,
            clock_was_off: false,
            fell_to_state: None,
            left_with_others: false,
            clock_converged: false,
            mailbox: MailboxLayout::in_script(&known.script),
            has_mail: false,
            mail_counter: known.last_mail_counter,
            emergencies: EmergencyRateLimit::default(),
            link_errors: LinkErrorReadings::default(),
            confirms_errors: false,
            known,
        }
    }

    /// Creates a device of an optional group, which is away until it is found.
    pub(super) fn absent(known: KnownDevice, group: usize) -> Self {
        Self {
            stage: DeviceStage::NoAnswer,
            group: Some(group),
            al_status: 0,
            last_reply_status: 0,
            ..Self::new(known)
        }
    }

    /// Returns whether it is in OP, or away and may be.
    pub(super) fn is_settled(&self) -> bool {
        match self.stage {
            DeviceStage::InOp => true,
            DeviceStage::NoAnswer => self.group.is_some(),
            DeviceStage::Recovering(_) | DeviceStage::Paused(_) => false,
        }
    }

    /// Returns whether it is expected on the cable: always there, or there now.
    pub(super) fn is_expected(&self) -> bool {
        self.group.is_none() || !matches!(self.stage, DeviceStage::NoAnswer)
    }

    /// Returns the start-up transfer of the current recovery step.
    pub(super) fn startup_transfer(&mut self) -> Option<&mut SdoTransfer> {
        let DeviceStage::Recovering(recovery) = &self.stage else { return None };
        recovery.transfer(&mut self.known)
    }

    /// Returns the identification, while it is running.
    pub(super) fn identification(&mut self) -> Option<&mut Identification> {
        let DeviceStage::Recovering(recovery) = &mut self.stage else { return None };
        recovery.identification()
    }

    pub(super) fn mark_lost(&mut self, place: usize, events: &mut EventWriter<'_>) {
        self.stage = DeviceStage::NoAnswer;
        self.found = false;
        self.clock_converged = false;
        self.fell_to_state = None;
        if self.group.is_some() {
            // Its group is one event.
            self.al_status = 0;
            return;
        }
        if self.lost.is_none() {
            events.write(
                EventKind::DeviceLost,
                Some(place),
                EventValues { old: u16::from(self.al_status), ..EventValues::NONE },
            );
        }

        self.lost.get_or_insert(events.cycle);
        self.al_status = 0;
    }

    pub(super) fn mark_found(&mut self, place: usize, events: &mut EventWriter<'_>) {
        if !self.found && self.lost.is_some() {
            events.write(EventKind::DeviceFound, Some(place), EventValues::NONE);
        }
        self.found = true;
        self.unanswered = 0;
    }

    /// Returns the station address used for the identification.
    pub(super) fn identifying_station(&self) -> Option<u16> {
        if let DeviceStage::Recovering(recovery) = &self.stage {
            recovery.identifying_station()
        } else {
            None
        }
    }

    /// Returns whether it has this station address, or is being identified with it.
    pub(super) fn has_station(&self, station: u16) -> bool {
        self.known.station == station || self.identifying_station() == Some(station)
    }

    /// Reports a rejection; `missing` is the number of devices of this type not in OP, including
    /// this one.
    pub(super) fn reject(
        &mut self,
        place: usize,
        why: RejectReason,
        missing: usize,
        events: &mut EventWriter<'_>,
    ) {
        if self.rejected.replace(why) == Some(why) {
            return;
        }
        match why {
            RejectReason::Other(what, value) => {
                events.write(
                    EventKind::WrongDevice,
                    Some(place),
                    EventValues::from_change(0, what).with_code(value),
                );
            }
            RejectReason::InDoubt => {
                events.write(
                    EventKind::PlaceInDoubt,
                    Some(place),
                    EventValues::from_code(missing as u32),
                );
            }
        }
    }

    pub(super) fn mark_in_op(&mut self, place: usize, events: &mut EventWriter<'_>) {
        self.found = false;
        self.rejected = None;
        if let Some(fell_to) = self.fell_to_state.take().filter(|_| !self.left_with_others) {
            events.write(
                EventKind::StateChanged,
                Some(place),
                EventValues::from_change(u16::from(fell_to), u16::from(OP)),
            );
        }

        if let Some(lost) = self.lost.take() {
            let gone_us = (events.cycle - lost) * events.period_ns / 1_000;
            events.write(
                EventKind::DeviceBack,
                Some(place),
                EventValues::from_change(0, u16::from(OP))
                    .with_code(u32::try_from(gone_us).unwrap_or(u32::MAX)),
            );
        }
    }

    /// Returns whether its AL state is not read by the diagnostics.
    pub(super) fn is_recovering_or_paused(&self) -> bool {
        matches!(self.stage, DeviceStage::Recovering(_) | DeviceStage::Paused(_))
    }

    /// Ends a pause, if there is one.
    pub(super) fn resume(&mut self) {
        if matches!(self.stage, DeviceStage::Paused(_)) {
            self.stage = DeviceStage::NoAnswer;
            self.unanswered = 0;
        }
    }

    /// Ends a pause when it is over.
    pub(super) fn resume_if_due(&mut self, cycle: u64) {
        if matches!(self.stage, DeviceStage::Paused(until) if cycle >= until) {
            self.resume();
        }
    }
}
