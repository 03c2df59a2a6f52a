//! Finds devices that are not in OP or do not answer, and recovers them, with acyclic frames.
//!
//! Nothing is sent while all devices are in OP. When a cycle reports a problem (missing device,
//! other AL state, wrong working counter), the AL state of each device is read. Devices that do not
//! answer at their station address are searched for by position. Devices not in OP are recovered
//! while the others keep exchanging process data.

use onbeat_rt::frame::{self, LONGEST, Writer, word};

use super::acyclic::{AcyclicFrame, AcyclicQuery, MAX_QUERIES, QueryPurpose};
use super::addresses::BusAddresses;
use super::cyclic::{ACYCLIC, CycleReply, FrameClass};
use super::device::{BusDevice, DeviceStage};
use super::emergency::ReceivedEmergency;
use super::event_queue::EventWriter;
use super::known_device::KnownDevice;
use super::link_error_reads::LinkErrorReads;
use super::optional_groups::OptionalGroups;
use super::position_scan::{PlaceReading, PositionScan, UnknownDevice, identical_devices};
use super::recovery::{Recovery, RecoveryProgress};
use super::register_query::QueryReply;
use super::transfer::{BusTransfer, TransferKind};
use onbeat_control::RequestFailure;
use onbeat_ethercat::al::OP;
use onbeat_ethercat::al_codes::WATCHDOG;
use onbeat_ethercat::event::{EventKind, EventValues};
use onbeat_ethercat::link_errors::LinkErrors;
use onbeat_ethercat::registers::MAILBOX_FULL;

/// Number of cycles in which AL states are read after the last problem.
// One read may meet a change half done; a changed status is believed when it was read twice.
const STATE_READ_CYCLES: u32 = 4;
/// Number of cycles for which a device that refused, or was rejected, is left alone.
// A device that refuses is asked again after a while: somebody may have mended what was wrong with
// it.
const PAUSE_CYCLES: u64 = 500;
/// AL status bits: state and error.
const STATE_AND_ERROR: u8 = 0x1f;
/// Number of cycles with a wrong working counter, all devices in OP, after which FMMUs are checked.
// All devices answer and are in OP, and yet the working counter is wrong. Then somebody changed
// what they map.
const FMMU_CHECK_AFTER: u32 = 200;
/// Maximum age of a late reply, in acyclic frames.
const MOST_AGE: u16 = 1_000;
/// Number of devices from which on a common change of state is one event.
const MANY: usize = 4;
/// Time after the start in which clocks may still converge, in ns.
// Drift compensation pulls the clocks together over seconds after a start; alarms before that would
// be the rule.
const CONVERGES_WITHIN_NS: u64 = 10_000_000_000;
/// Clock difference beyond which a clock is not synchronised, in ns.
const APART_NS: u32 = 20_000;

/// State of all devices, and the acyclic frame.
#[derive(Clone, Debug)]
pub(super) struct Diagnostics {
    devices: Vec<BusDevice>,
    groups: OptionalGroups,
    reference: Option<usize>,
    buffer: Box<[u8; LONGEST]>,
    length: usize,
    queries: Vec<AcyclicQuery>,
    number: u16,
    /// Number of the last answered acyclic frame.
    answered_number: Option<u16>,
    /// Number of cycles for which AL states are still read.
    state_read_cycles: u32,
    reads_clocks: bool,
    /// Number of devices that processed the last cyclic frame.
    counted: u16,
    /// Search for devices by position.
    position_scan: PositionScan,
    addresses: BusAddresses,
    /// Accepts any device at a position; for tests that must detect the difference.
    skips_identity_check: bool,
    /// A surplus device was reported.
    surplus_reported: bool,
    /// Consecutive cycles with a wrong working counter that no AL state explains.
    unexplained: u32,
    /// Replies to the present round of AL state reads, and whether the pending frame completes it.
    answered_states: usize,
    completes_round: bool,
    /// First device of the next AL state reads.
    first: usize,
    was_up: bool,
    /// Some mailbox is full; their status is to be read.
    reads_mailboxes: bool,
    transfer: Option<Box<BusTransfer>>,
    /// First device of the next start-up mails.
    mails_from: usize,
    link_error_reads: LinkErrorReads,
    departures: Departures,
    /// Number of cycles in which clocks may still converge.
    converges_until: u64,
}

/// Devices that left OP, until their number is known.
#[derive(Clone, Debug)]
struct Departures {
    /// Positions of those that left with the same states and code.
    places: Vec<usize>,
    /// AL state and error, AL status code.
    left: (u8, u16),
    /// The last pause of the loop that exceeded the watchdog, in ns, and the cycle after it.
    pause: Option<(u64, u64)>,
    watchdog_ns: u64,
    /// Devices that left together and are not in OP again, their number, and the cycle in which
    /// they left.
    away: (usize, usize, u64),
}

impl Diagnostics {
    /// Creates the state of devices in SAFEOP, to be taken to OP, and of `absent` ones, which follow
    /// them. `reference` is the device with the reference clock; `period_ns` is the distance of
    /// cycles, `watchdog_ns` the shortest watchdog of the devices.
    pub(super) fn new(
        devices: Vec<KnownDevice>,
        (absent, groups): (Vec<BusDevice>, OptionalGroups),
        reference: Option<usize>,
        addresses: BusAddresses,
        (period_ns, watchdog_ns): (u64, u64),
    ) -> Self {
        let counted = devices.len() as u16;
        let mut devices: Vec<BusDevice> = devices.into_iter().map(BusDevice::new).collect();
        devices.extend(absent);
        let count = devices.len();
        for place in 0..count {
            let has_identical = identical_devices(&devices, place).next().is_some();
            devices[place].known.has_identical = has_identical;
        }

        Self {
            devices,
            groups,
            reference,
            buffer: Box::new([0; LONGEST]),
            length: 0,
            queries: Vec::with_capacity(MAX_QUERIES),
            number: 0,
            answered_number: None,
            state_read_cycles: STATE_READ_CYCLES,
            reads_clocks: false,
            counted,
            position_scan: PositionScan::new(),
            addresses,
            skips_identity_check: false,
            surplus_reported: false,
            unexplained: 0,
            answered_states: 0,
            completes_round: false,
            first: 0,
            was_up: false,
            reads_mailboxes: false,
            transfer: None,
            mails_from: 0,
            link_error_reads: LinkErrorReads::new(period_ns),
            departures: Departures {
                places: Vec::with_capacity(count),
                left: (0, 0),
                pause: None,
                watchdog_ns,
                away: (0, 0, 0),
            },
            converges_until: CONVERGES_WITHIN_NS / period_ns.max(1),
        }
    }

    /// Records that nothing was sent for a time; of interest if it exceeds the watchdog.
    pub(super) fn note_pause(&mut self, pause_ns: u64, cycle: u64) {
        if pause_ns > self.departures.watchdog_ns {
            self.departures.pause = Some((pause_ns, cycle));
        }
    }

    /// Disables the identity check.
    pub(super) fn skip_identity_check(&mut self) {
        self.skips_identity_check = true;
    }

    /// Returns the station address of the reference clock.
    pub(super) fn reference_station(&self) -> Option<u16> {
        self.reference.map(|device| self.devices[device].known.station)
    }

    /// Returns the number of devices in OP, without those of optional groups.
    pub(super) fn in_op(&self) -> usize {
        self.always_there().filter(|device| matches!(device.stage, DeviceStage::InOp)).count()
    }

    fn always_there(&self) -> impl Iterator<Item = &BusDevice> {
        self.devices.iter().filter(|device| device.group.is_none())
    }

    fn is_up(&self) -> bool {
        self.always_there().all(|device| matches!(device.stage, DeviceStage::InOp))
    }

    /// Returns whether all devices of an optional group are in OP.
    pub(super) fn is_group_there(&self, group: usize) -> bool {
        self.groups.is_there(group)
    }

    /// Returns whether all devices have been in OP once.
    pub(super) fn was_up(&self) -> bool {
        self.was_up
    }

    /// Returns AL status and AL status code as last read; `None` for a device that does not answer.
    pub(super) fn status(&self, device: usize) -> Option<(u8, u16)> {
        let device = self.devices.get(device)?;
        (!matches!(device.stage, DeviceStage::NoAnswer))
            .then_some((device.al_status, device.al_code))
    }

    /// Returns the errors that a device has counted since the bus came up; `None` before its first
    /// reading.
    pub(super) fn link_errors(&self, device: usize) -> Option<LinkErrors> {
        self.devices.get(device)?.link_errors.totals()
    }

    /// Evaluates the replies of a cycle.
    /// `groups` are the working counters of the optional groups, each with that of the whole group.
    pub(super) fn observe(&mut self, answer: &CycleReply, expected: u16, groups: &[(u16, u16)]) {
        if !answer.complete {
            return;
        }

        self.counted = answer.counted;
        let on_cable = self.devices.iter().filter(|device| device.is_expected()).count();
        let all = usize::from(answer.counted) == on_cable;
        let is_group_right = |(group, (counter, full)): (usize, &(u16, u16))| {
            !self.groups.is_there(group) || counter == full
        };
        let is_right =
            answer.working_counter == expected && groups.iter().enumerate().all(is_group_right);
        // The broadcast says that something is wrong and not where. Single devices are read then,
        // and only then.
        if !all || answer.state & STATE_AND_ERROR != OP || !is_right {
            self.state_read_cycles = STATE_READ_CYCLES;
        }

        let is_unexplained = all && self.was_up && !is_right && self.are_all_settled();
        self.unexplained = if is_unexplained { self.unexplained + 1 } else { 0 };
        self.reads_clocks = answer.apart_ns > APART_NS && self.was_up;
        if answer.apart_ns <= APART_NS && self.was_up {
            let in_op = |device: &&mut BusDevice| matches!(device.stage, DeviceStage::InOp);
            let in_op = self.devices.iter_mut().filter(in_op);
            in_op.for_each(|device| device.clock_converged = true);
        }
        self.reads_mailboxes = answer.has_mail;
    }

    /// Returns whether an acyclic frame is needed.
    fn has_queries(&self, cycle: u64) -> bool {
        self.state_read_cycles > 0
            || self.reads_clocks
            || self.reads_mailboxes
            || self.transfer.is_some()
            || !self.are_all_settled()
            || self.reads_link_errors(cycle)
    }

    fn reads_link_errors(&self, cycle: u64) -> bool {
        self.was_up && self.link_error_reads.is_due(cycle)
    }

    fn are_all_settled(&self) -> bool {
        self.devices.iter().all(BusDevice::is_settled)
    }

    /// Has the FMMU of each device checked once the working counter has been wrong for long enough
    /// although all devices are in OP.
    fn check_fmmus_if_due(&mut self, cycle: u64) {
        if self.unexplained < FMMU_CHECK_AFTER {
            return;
        }

        self.unexplained = 0;
        for device in self.devices.iter_mut().filter(|device| device.is_expected()) {
            device.stage = DeviceStage::Recovering(Recovery::in_state(&device.known, OP, cycle));
        }
    }

    /// Writes the acyclic frame, if one is needed.
    pub(super) fn frame(&mut self, cycle: u64) -> Option<&[u8]> {
        // A frame that was not answered gives way to the next: it would otherwise block all
        // diagnosis with one lost frame.
        let is_answered = self.queries.is_empty();
        self.answered_number = is_answered.then_some(self.number).or(self.answered_number);
        self.queries.clear();
        if !self.has_queries(cycle) {
            return None;
        }

        self.number = self.number.wrapping_add(1);
        self.check_fmmus_if_due(cycle);
        let reads_states = self.state_read_cycles > 0 || !self.are_all_settled();
        let reads_link_errors = self.reads_link_errors(cycle);
        let reference = self.reference_station();
        let mut writer = Writer::new(&mut self.buffer[..], ACYCLIC);
        let mut frame_writer = AcyclicFrame { writer: &mut writer, queries: &mut self.queries };

        frame_writer.push_startup_mails(&mut self.devices, &mut self.mails_from, cycle);
        for place in 0..self.devices.len() {
            self.devices[place].resume_if_due(cycle);
            let needs_station =
                self.devices[place].identification().is_some_and(|it| it.needs_station());
            // Not used on this bus for as long as there are others: a late reply to an old address
            // cannot prove anything about this device.
            let is_taken = |station| self.devices.iter().any(|device| device.has_station(station));
            let station = needs_station.then(|| self.addresses.next_station(is_taken));
            let device = &mut self.devices[place];
            if let Some(identification) = device.identification() {
                identification.station = station.unwrap_or(identification.station);
                if identification.needs_proof() {
                    self.position_scan.request();
                }
            }

            frame_writer.push_recovery(place, device, reference);
        }

        self.position_scan.push_queries(&mut frame_writer, self.counted);
        match self.transfer.as_deref_mut() {
            Some(BusTransfer(TransferKind::Sdo(transfer))) => {
                frame_writer.push_transfer(transfer, &mut self.devices, cycle);
            }
            Some(BusTransfer(TransferKind::Register(transfer))) => {
                transfer.push(&mut frame_writer, &self.devices, cycle);
            }
            Some(BusTransfer(TransferKind::Rescan(transfer))) => transfer.wait(cycle),
            None => {}
        }

        if self.reads_mailboxes {
            for (place, device) in self.devices.iter_mut().enumerate() {
                frame_writer.push_mailbox_read(place, device);
            }
        }

        if reads_states {
            let first_left = frame_writer.push_state_reads(&self.devices, self.first);
            self.completes_round = first_left.is_none();
            self.first = first_left.unwrap_or(0);
        }

        // A round may take several frames where there are many devices.
        self.state_read_cycles = self.state_read_cycles.saturating_sub(1);
        if self.reads_clocks {
            frame_writer.push_clock_reads(&self.devices);
        }
        if reads_link_errors {
            self.link_error_reads.push(&mut frame_writer, &mut self.devices, cycle);
        }

        if writer.is_empty() {
            return None;
        }

        self.length = writer.finish();
        frame::number(&mut self.buffer[..self.length], self.number);
        Some(&self.buffer[..self.length])
    }

    /// Begins a transfer; returns it if another one is in progress.
    pub(super) fn begin(&mut self, transfer: Box<BusTransfer>) -> Result<(), Box<BusTransfer>> {
        // The caller keeps it and tries again.
        if self.transfer.is_some() {
            return Err(transfer);
        }
        if matches!(transfer.0, TransferKind::Rescan(_)) {
            self.position_scan.restart();
            self.devices.iter_mut().for_each(BusDevice::resume);
        }

        self.transfer = Some(transfer);
        Ok(())
    }

    /// Returns the ended transfer.
    pub(super) fn ended(&mut self) -> Option<Box<BusTransfer>> {
        self.transfer.take_if(|transfer| transfer.has_ended())
    }

    /// Returns the device whose mailbox did not reply to an ended transfer, with index and subindex
    /// of the object. A device that does not answer at all is reported otherwise.
    pub(super) fn mute_in(&self, transfer: &BusTransfer) -> Option<(usize, u16, u8)> {
        let TransferKind::Sdo(transfer) = &transfer.0 else { return None };
        let place = transfer.device();
        let device = self.devices.get(place)?;
        let is_mute = matches!(transfer.written(), Some(Err(RequestFailure::NoReply)));
        // A device that answers registers and not mails: its mailbox is mute, and the cable is
        // well.
        let answers = !matches!(device.stage, DeviceStage::NoAnswer) && device.unanswered == 0;
        let (index, entry) = transfer.object();
        (is_mute && answers).then_some((place, index, entry))
    }

    /// Reports the emergencies that are in no event yet.
    pub(super) fn report_rest(&mut self, events: &mut EventWriter<'_>) {
        for (place, device) in self.devices.iter_mut().enumerate() {
            if let Some(values) = device.emergencies.rest() {
                events.write(EventKind::Emergency, Some(place), values);
            }
        }
    }

    /// Returns the number of devices that processed the last answered frame.
    pub(super) fn counted(&self) -> u16 {
        self.counted
    }

    /// Returns whether a reply to an acyclic frame is pending.
    pub(super) fn awaits_reply(&self) -> bool {
        !self.queries.is_empty()
    }

    /// Classifies a reply to an earlier acyclic frame.
    pub(super) fn older(&self, reply: &[u8]) -> FrameClass {
        let age = self.number.wrapping_sub(frame::number_of(reply));
        let is_the_last = self.length > 0 && frame::is_reply_to(reply, &self.buffer[..self.length]);
        match age {
            // A second copy is said to be one: calling it lost or foreign would send somebody
            // looking for a fault that is not there.
            0 if is_the_last => FrameClass::Duplicate,
            _ if self.answered_number == Some(frame::number_of(reply)) => FrameClass::Duplicate,
            1..=MOST_AGE => FrameClass::Late,
            _ => FrameClass::Unknown,
        }
    }

    /// Processes a reply to the pending acyclic frame; returns `false` for any other frame.
    pub(super) fn take(&mut self, reply: &[u8], events: &mut EventWriter<'_>) -> bool {
        if self.queries.is_empty() || !frame::is_reply_to(reply, &self.buffer[..self.length]) {
            return false;
        }

        let queries = std::mem::take(&mut self.queries);
        for (number, query) in queries.iter().enumerate() {
            let own = query.reply(reply);
            let QueryReply { data, counter } = own;

            match query.purpose {
                QueryPurpose::State(place) => {
                    self.answered_states += usize::from(counter > 0);
                    self.take_state(place, own, events);
                }
                QueryPurpose::DeviceId(place) if counter > 0 => {
                    self.position_scan.take_status(place, data[0], word(data, 4));
                }
                // A request has no answer of its own, a second reading was taken with its first one,
                // and a device that does not answer any more is missed at its place.
                QueryPurpose::DeviceId(_)
                | QueryPurpose::DeviceIdRequest
                | QueryPurpose::Second => {}
                QueryPurpose::Station(place) => {
                    let [station, alias] = [word(data, 0), word(data, 2)];
                    let reading = PlaceReading { station, alias, device_id: 0 };
                    self.position_scan
                        .take(place, if counter > 0 { reading } else { PlaceReading::NO_ANSWER });
                }
                QueryPurpose::Recovery(place) => {
                    let second = queries
                        .get(number + 1)
                        .filter(|query| query.purpose == QueryPurpose::Second);
                    let second = second.map(|second| second.reply(reply).data);
                    self.take_recovery(place, own, second, events);
                }
                QueryPurpose::ClockDifference(place) => {
                    self.take_clock_difference(place, own, events);
                }
                QueryPurpose::MailboxStatus(place) => {
                    self.devices[place].has_mail = counter > 0 && data[0] & MAILBOX_FULL != 0;
                }
                QueryPurpose::MailSent => {
                    if let Some(BusTransfer(TransferKind::Sdo(transfer))) =
                        self.transfer.as_deref_mut().filter(|_| counter > 0)
                    {
                        transfer.was_sent();
                    }
                }
                QueryPurpose::Register => {
                    if let Some(BusTransfer(TransferKind::Register(transfer))) =
                        self.transfer.as_deref_mut()
                    {
                        transfer.take(own);
                    }
                }
                QueryPurpose::StartupMailSent(place) => {
                    if let Some(transfer) =
                        self.devices[place].startup_transfer().filter(|_| counter > 0)
                    {
                        transfer.was_sent();
                    }
                }
                QueryPurpose::Mail(place) => self.take_mail(place, own, events),
                QueryPurpose::LinkErrors(place) => {
                    self.link_error_reads.take((place, &mut self.devices[place]), own, events);
                }
            }
        }

        if self.position_scan.is_certain(&self.devices, &mut self.groups) {
            self.prove_places();
            self.identify_unknown(events);
            if let Some(BusTransfer(TransferKind::Rescan(transfer))) = self.transfer.as_deref_mut()
            {
                transfer.found(self.position_scan.positions());
            }
        }

        self.report_departures(events);
        self.groups.report(&self.devices, self.completes_round, events);
        self.compare_with_counted();
        self.queries = queries;
        self.queries.clear();
        self.report_bus_up(events);
        true
    }

    /// After all AL states were read: more devices on the cable than replies means that some have
    /// lost their station addresses.
    fn compare_with_counted(&mut self) {
        if !std::mem::take(&mut self.completes_round) {
            return;
        }

        let not_read =
            self.devices.iter().filter(|device| device.is_recovering_or_paused()).count();
        // More answers than devices that are known: one came, or one is in another's place.
        let unknown_devices = usize::from(self.counted) > self.answered_states + not_read;
        let is_silent = |device: &BusDevice| matches!(device.stage, DeviceStage::NoAnswer);
        if unknown_devices && (!self.surplus_reported || self.devices.iter().any(is_silent)) {
            self.position_scan.request();
        }

        self.answered_states = 0;
    }

    fn report_bus_up(&mut self, events: &mut EventWriter<'_>) {
        if !self.was_up && self.is_up() {
            self.was_up = true;
            let count = self.always_there().count();
            events.write(EventKind::BusUp, None, EventValues::from_code(count as u32));
        }
    }

    fn take_state(
        &mut self,
        place: usize,
        QueryReply { data, counter }: QueryReply<'_>,
        events: &mut EventWriter<'_>,
    ) {
        let device = &mut self.devices[place];
        if counter == 0 {
            device.unanswered = device.unanswered.saturating_add(1);
            // Twice: one lost frame takes no device out.
            if device.unanswered >= 2 && !matches!(device.stage, DeviceStage::NoAnswer) {
                device.mark_lost(place, events);
            }
            return;
        }

        device.unanswered = 0;
        let before = device.al_status;
        let status = data[0] & STATE_AND_ERROR;
        // A changed status counts when it is read twice, so a bit error takes no device out of OP.
        if status != before && device.last_reply_status != status {
            device.last_reply_status = status;
            self.state_read_cycles = STATE_READ_CYCLES;
            return;
        }

        device.last_reply_status = status;
        (device.al_status, device.al_code) = (status, word(data, 4));
        match device.stage {
            DeviceStage::NoAnswer => {
                device.mark_found(place, events);
                if device.group.is_some() {
                    // Where it is now.
                    self.position_scan.request();
                }
                device.stage = DeviceStage::Recovering(Recovery::in_state(
                    &device.known,
                    status,
                    events.cycle,
                ));
            }
            DeviceStage::InOp if status != OP => {
                device.fell_to_state = Some(status & 0x0f);
                let left = (status, device.al_code);
                device.stage = DeviceStage::Recovering(Recovery::in_state(
                    &device.known,
                    status,
                    events.cycle,
                ));
                // Devices that left for the same reason make one event; another reason is another
                // event.
                if left != self.departures.left {
                    self.write_departures(events);
                }
                self.departures.left = left;
                self.departures.places.push(place);
            }
            _ => {}
        }
    }

    /// Reports the devices that left OP, once the states of all devices were read.
    fn report_departures(&mut self, events: &mut EventWriter<'_>) {
        if self.completes_round {
            self.write_departures(events);
        }
    }

    fn write_departures(&mut self, events: &mut EventWriter<'_>) {
        let Departures { places, left: (status, code), pause, watchdog_ns, away } =
            &mut self.departures;
        let (status, code) = (*status, *code);
        if places.is_empty() {
            return;
        }

        let ms = |ns: u64| u16::try_from(ns / 1_000_000).unwrap_or(u16::MAX);
        let is_recent =
            |&(_, cycle): &(u64, u64)| events.cycle.saturating_sub(cycle) <= PAUSE_CYCLES;
        // Both together: an own pause and the watchdog's code. Either alone has other reasons.
        let pause = pause.filter(|pause| code == WATCHDOG && is_recent(pause));
        let (paused, watchdog) = pause.map_or((0, 0), |(ns, _)| (ms(ns), ms(*watchdog_ns)));
        let word = u32::from(code) << 16 | u32::from(paused);
        // A single device is named; from four on it is not the device's doing, and one event says
        // so.
        if places.len() >= MANY {
            let values = EventValues::from_change(places.len() as u16, watchdog).with_code(word);
            events.write(EventKind::DevicesLeftOp, None, values);
            let (first, together, since) = *away;
            let begins = if first == 0 { events.cycle } else { since };
            *away =
                (first + places.len(), together * usize::from(first > 0) + places.len(), begins);
            for place in places.iter().copied() {
                self.devices[place].left_with_others = true;
                let change = EventValues::from_change(OP.into(), status.into());
                let values = change.with_code(code.into());
                events.write(EventKind::LeftOpWithOthers, Some(place), values);
            }
        } else {
            for place in places.iter().copied() {
                if pause.is_some() {
                    let values = EventValues::from_change(1, watchdog).with_code(word);
                    events.write(EventKind::DevicesLeftOp, Some(place), values);
                } else {
                    let change = EventValues::from_change(OP.into(), status.into());
                    let values = change.with_code(code.into());
                    events.write(EventKind::StateChanged, Some(place), values);
                }
            }
        }

        self.departures.places.clear();
    }

    /// Counts a device that is in OP again; the last of those that left together is reported.
    fn count_return(&mut self, place: usize, events: &mut EventWriter<'_>) {
        let device = &mut self.devices[place];
        if !std::mem::take(&mut device.left_with_others) {
            return;
        }

        let (away, together, since) = &mut self.departures.away;
        *away = away.saturating_sub(1);
        if *away == 0 {
            let gone_us = (events.cycle - *since) * events.period_ns / 1_000;
            let values = EventValues::from_change(*together as u16, OP.into());
            let code = u32::try_from(gone_us).unwrap_or(u32::MAX);
            events.write(EventKind::DevicesBackInOp, None, values.with_code(code));
        }
    }

    fn take_recovery(
        &mut self,
        place: usize,
        answer: QueryReply<'_>,
        second: Option<&[u8]>,
        events: &mut EventWriter<'_>,
    ) {
        let device = &mut self.devices[place];
        let DeviceStage::Recovering(recovery) = &mut device.stage else { return };

        match recovery.answer(&mut device.known, answer, second, events.cycle) {
            RecoveryProgress::InProgress => {}
            RecoveryProgress::Assigned(before, station) => {
                self.follow_station(place, before, station);
            }
            RecoveryProgress::Done => {
                (device.stage, device.al_status, device.al_code) = (DeviceStage::InOp, OP, 0);
                device.mark_in_op(place, events);
                self.count_return(place, events);
            }
            RecoveryProgress::Identified => device.mark_found(place, events),
            RecoveryProgress::Rejected(why) => {
                let is_missing =
                    |other: &usize| !matches!(self.devices[*other].stage, DeviceStage::InOp);
                let missing =
                    1 + identical_devices(&self.devices, place).filter(is_missing).count();
                let device = &mut self.devices[place];
                device.reject(place, why, missing, events);
                // Put into INIT and left alone: a device that cannot be told apart must not get
                // anybody's outputs.
                device.stage = DeviceStage::Paused(events.cycle + PAUSE_CYCLES);
            }
            RecoveryProgress::StateRefused(state, code) => {
                let values = EventValues::from_change(0, u16::from(state)).with_code(code.into());
                events.write(EventKind::StateRefused, Some(place), values);
                device.stage = DeviceStage::Paused(events.cycle + PAUSE_CYCLES);
            }
            RecoveryProgress::SdoRefused(line, failure) => {
                let (index, entry) = device.known.object(line);
                let code = if let RequestFailure::Abort(code) = failure { code } else { 0 };
                let values = EventValues::from_change(index, entry.into()).with_code(code);
                events.write(EventKind::SdoRefused, Some(place), values);
                device.stage = DeviceStage::Paused(events.cycle + PAUSE_CYCLES);
            }
            RecoveryProgress::NoAnswer => device.mark_lost(place, events),
        }
    }

    /// Follows a known device that got a new station address: the cable changed after its positions
    /// were read, and it was at the position of the one that is looked for. Its process data do not
    /// depend on the address.
    fn follow_station(&mut self, place: usize, before: u16, station: u16) {
        let had_it = |(other, device): (usize, &BusDevice)| {
            other != place && device.identifying_station().unwrap_or(device.known.station) == before
        };
        let Some(other) = self.devices.iter().enumerate().position(had_it) else { return };
        self.devices[place].stage = DeviceStage::NoAnswer;
        let other = &mut self.devices[other];
        if other.identifying_station().is_some() {
            other.stage = DeviceStage::NoAnswer;
        } else {
            other.known.station = station;
        }
        self.position_scan.restart();
    }

    fn take_clock_difference(
        &mut self,
        place: usize,
        QueryReply { data, counter }: QueryReply<'_>,
        events: &mut EventWriter<'_>,
    ) {
        let device = &mut self.devices[place];
        if device.group.is_some() && !matches!(device.stage, DeviceStage::InOp) {
            return;
        }
        // Sign and magnitude, register 0x092c.
        let difference = u32::from_le_bytes([data[0], data[1], data[2], data[3] & 0x7f]);
        let is_off = counter > 0 && difference > APART_NS;
        device.clock_converged |= counter > 0 && !is_off || events.cycle > self.converges_until;
        if !device.clock_converged {
            return;
        }
        // At the change only: a clock that stays off would fill the ring.
        if is_off && !device.clock_was_off && self.was_up {
            events.write(EventKind::ClockUnlocked, Some(place), EventValues::from_code(difference));
        }
        device.clock_was_off = is_off;
    }

    fn take_mail(
        &mut self,
        place: usize,
        QueryReply { data: mail, counter }: QueryReply<'_>,
        events: &mut EventWriter<'_>,
    ) {
        if counter == 0 {
            return;
        }
        // Emergencies come between the mails of a transfer and belong to none.
        if let Some(emergency) = ReceivedEmergency::of_mail(place as u16, mail) {
            let limit = &mut self.devices[place].emergencies;
            if let Some(values) = limit.record(emergency, events.cycle) {
                events.write(EventKind::Emergency, Some(place), values);
            }
        }

        if let Some(transfer) = self.devices[place].startup_transfer() {
            transfer.answer(mail, events.cycle);
        } else if let Some(transfer) =
            self.transfer.as_mut().and_then(|transfer| transfer.sdo_with(place))
        {
            transfer.answer(mail, events.cycle);
        }
    }

    /// Confirms identities that follow from the positions.
    fn prove_places(&mut self) {
        for place in 0..self.devices.len() {
            let needs_proof = self.devices[place]
                .identification()
                .is_some_and(|identification| identification.needs_proof());
            let is_proven =
                needs_proof && self.position_scan.proves(place, &self.devices, &self.groups);
            if let Some(identification) = self.devices[place].identification().filter(|_| is_proven)
            {
                identification.prove();
            }
        }
    }

    /// Identifies unknown devices at the positions of missing ones, and reports a surplus device
    /// once.
    fn identify_unknown(&mut self, events: &mut EventWriter<'_>) {
        let mut surplus = None;
        for &(position, unknown) in self.position_scan.unknown_devices() {
            match unknown {
                UnknownDevice::Surplus => surplus = surplus.or(Some(position)),
                UnknownDevice::InPlaceOf(place)
                    if matches!(self.devices[place].stage, DeviceStage::NoAnswer) =>
                {
                    let recovery =
                        Recovery::at_place(position, self.skips_identity_check, events.cycle);
                    self.devices[place].stage = DeviceStage::Recovering(recovery);
                }
                UnknownDevice::InPlaceOf(_) => {}
            }
        }

        if let Some(position) = surplus.filter(|_| !self.surplus_reported) {
            let values = EventValues::from_change(0, position).with_code(self.counted.into());
            events.write(EventKind::SurplusDevice, None, values);
        }

        self.surplus_reported = surplus.is_some();
    }
}
