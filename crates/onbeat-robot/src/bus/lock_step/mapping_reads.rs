//! Reads the mappings of all devices at once: each device has one mail on its way.
//!
//! ```text
//! 0x1C12:0, 0x1C13:0 ──▶ PDOs assigned: 0x1C12:1.. ──▶ entries of each PDO: 0x1600:0, 0x1600:1..
//! ```
//!
//! The objects are those of ETG.1000.6, 5.6.7.4 (assignment) and 5.6.7.3 (mapping). A device that
//! does not answer in time, or not in one mail, is left to ethercrab from there on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use onbeat_control::{SdoAction, SdoRequest};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::{Command, Writer, register};

use super::PURPOSE;
use super::mapping_mails::{DeviceMails, MappingMails, ObjectAddress};
use crate::bus::datagram_view::datagrams;
use crate::bus::emergency::ReceivedEmergency;
use crate::bus::error::BusError;
use crate::bus::frame_exchange::FrameExchange;
use crate::bus::mailbox_layout::MailboxLayout;
use crate::bus::mapped_objects::MappedEntries;
use crate::bus::sdo::{MailboxStep, SdoTransfer};

/// Assigned PDOs of the SyncManagers of outputs and inputs.
const ASSIGNMENTS: [u16; 2] = [0x1c12, 0x1c13];
/// Interval between frames while no device has anything to say.
const PAUSE: Duration = Duration::from_micros(200);
/// The same after [`QUIET_ROUNDS`] such frames: a device that answers late, or never.
const LONG_PAUSE: Duration = Duration::from_millis(1);
const QUIET_ROUNDS: u32 = 50;
/// The same after [`SILENT_ROUNDS`].
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
const SILENT_ROUNDS: u32 = 150;
/// Time for the response to a mail, after which it is sent again, in ns.
// Drives that read a value from their flash take some tenths of a second. A second request before
// the first was answered would only delay them more.
const RESPONSE_WITHIN_NS: u64 = 500_000_000;
/// Maximum number of times a mail is sent.
const MOST_TRIES: u32 = 3;

/// A device whose mapping is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::bus) struct MappedDevice {
    /// Position on the cable.
    pub(in crate::bus) place: u16,
    /// Station address.
    pub(in crate::bus) station: u16,
    pub(in crate::bus) mailbox: MailboxLayout,
    /// Counter of the last mail sent to it.
    pub(in crate::bus) mail_counter: u8,
}

/// The mapping of one device being read.
#[derive(Debug)]
struct MappingRead {
    device: MappedDevice,
    /// Objects to read next.
    objects: VecDeque<ObjectAddress>,
    /// The object being read.
    transfer: Option<SdoTransfer>,
    tries: u32,
    sent_at_ns: u64,
    has_answered: bool,
    mails: BTreeMap<ObjectAddress, Box<[u8]>>,
    /// Values of the objects that were read.
    values: BTreeMap<ObjectAddress, u32>,
}

/// The mappings of all devices being read.
#[derive(Debug)]
pub(in crate::bus) struct MappingReads {
    reads: Vec<MappingRead>,
    /// Emergencies that arrived.
    pub(in crate::bus) emergencies: Vec<ReceivedEmergency>,
}

/// A part of a frame: the number of the read, and what is done.
type Turn = (usize, MailboxStep);

impl MappingReads {
    pub(in crate::bus) fn new(devices: Vec<MappedDevice>) -> Self {
        let reads = devices.into_iter().map(MappingRead::new).collect();
        Self { reads, emergencies: Vec::new() }
    }

    /// Reads until no device has an object left.
    pub(in crate::bus) fn run<W: Wire>(
        &mut self,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<(), BusError> {
        let mut quiet = 0;
        loop {
            let now_ns = exchange.wire.now().as_ns();
            let mut rest: VecDeque<usize> = (0..self.reads.len())
                .filter(|number| self.reads[*number].begin_next(now_ns))
                .collect();
            if rest.is_empty() {
                return Ok(());
            }

            let mut progress = false;
            while !rest.is_empty() {
                let turns = exchange.ask(PURPOSE, |writer| self.write(&mut rest, writer))?;
                let now_ns = exchange.wire.now().as_ns();
                for ((number, step), datagram) in turns.into_iter().zip(datagrams(exchange.reply()))
                {
                    progress |= datagram.counter != 0;
                    if datagram.counter != 0 {
                        self.take(number, step, datagram.data, now_ns);
                    }
                }
            }

            quiet = if progress { 0 } else { quiet + 1 };
            match quiet {
                0 => {}
                quiet if quiet <= QUIET_ROUNDS => exchange.wait(PAUSE),
                quiet if quiet <= SILENT_ROUNDS => exchange.wait(LONG_PAUSE),
                _ => exchange.wait(LONGEST_PAUSE),
            }
        }
    }

    /// Appends the next steps of the first reads in `rest`, and removes these.
    fn write(&mut self, rest: &mut VecDeque<usize>, writer: &mut Writer<'_>) -> Vec<Turn> {
        let mut turns = Vec::new();
        while let Some(number) = rest.front().copied() {
            let Some(step) = self.reads[number].write(writer) else { break };
            turns.push((number, step));
            rest.pop_front();
        }
        turns
    }

    fn take(&mut self, number: usize, step: MailboxStep, data: &[u8], now_ns: u64) {
        let read = &mut self.reads[number];
        if step == MailboxStep::Send {
            read.was_sent(now_ns);
        } else if let Some(emergency) = ReceivedEmergency::of_mail(read.device.place, data) {
            self.emergencies.push(emergency);
        } else {
            read.has_answered = true;
            read.answer(data);
        }
    }

    /// Returns station address and counter of the last mail of each device.
    pub(in crate::bus) fn mail_counters(&self) -> impl Iterator<Item = (u16, u8)> {
        self.reads.iter().map(|read| (read.device.station, read.device.mail_counter))
    }

    /// Returns the station address of the first device that answered no mail at all.
    pub(in crate::bus) fn mute(&self) -> Option<u16> {
        self.reads.iter().find(|read| !read.has_answered).map(|read| read.device.station)
    }

    /// Returns what each device maps, by its station address.
    pub(in crate::bus) fn mapped(&self) -> BTreeMap<u16, MappedEntries> {
        self.reads.iter().map(|read| (read.device.station, read.mapped())).collect()
    }

    pub(super) fn into_mails(self) -> MappingMails {
        let of_station = self
            .reads
            .into_iter()
            .map(|read| (read.device.station, DeviceMails::new(read.device.mailbox, read.mails)));
        MappingMails::new(of_station.collect())
    }
}

impl MappingRead {
    fn new(device: MappedDevice) -> Self {
        let objects = ASSIGNMENTS.map(|index| (index, 0)).into();
        let mails = BTreeMap::new();
        Self {
            device,
            objects,
            transfer: None,
            tries: 0,
            sent_at_ns: 0,
            has_answered: false,
            mails,
            values: BTreeMap::new(),
        }
    }

    /// Returns the entries of outputs and inputs; a device may have its SyncManagers the other way
    /// round, and its TxPDOs from 0x1A00 on show it.
    fn mapped(&self) -> MappedEntries {
        let mut mapped: MappedEntries = [None, None];
        for (usual, assignment) in ASSIGNMENTS.into_iter().enumerate() {
            let first = self.values.get(&(assignment, 1)).copied();
            let side = first.map_or(usual, |pdo| usize::from(pdo >= 0x1a00));
            mapped[side] = self.entries_of(assignment);
        }
        mapped
    }

    /// Returns the entries of the PDOs of an assignment, in order; `None` unless all were read.
    fn entries_of(&self, assignment: u16) -> Option<Vec<u32>> {
        let value = |index: u16, entry: u32| self.values.get(&(index, entry as u8)).copied();
        let mut entries = Vec::new();
        for place in 1..=value(assignment, 0)?.min(254) {
            let pdo = value(assignment, place)? as u16;
            let count = if pdo == 0 { 0 } else { value(pdo, 0)?.min(254) };
            for entry in 1..=count {
                entries.push(value(pdo, entry)?);
            }
        }
        Some(entries)
    }

    /// Begins the next object if none is being read, or sends the request again when its response
    /// is overdue. Returns whether anything is left to do.
    fn begin_next(&mut self, now_ns: u64) -> bool {
        let is_overdue =
            self.transfer.is_some() && now_ns.saturating_sub(self.sent_at_ns) > RESPONSE_WITHIN_NS;
        if is_overdue && self.tries == MOST_TRIES {
            self.transfer = None;
            self.objects.clear();
        } else if is_overdue {
            let object = self.transfer.as_ref().map(SdoTransfer::object);
            self.transfer = object.map(|object| self.upload(object));
            self.tries += 1;
            self.sent_at_ns = now_ns;
        }

        if self.transfer.is_none()
            && let Some(object) = self.objects.pop_front()
        {
            self.transfer = Some(self.upload(object));
            self.tries = 1;
            self.sent_at_ns = now_ns;
        }

        self.transfer.is_some()
    }

    fn upload(&self, (index, entry): ObjectAddress) -> SdoTransfer {
        SdoTransfer::new(SdoRequest {
            device: self.device.place,
            index,
            entry,
            complete: false,
            action: SdoAction::Read,
        })
    }

    /// Appends the next step; `None` when it does not fit.
    fn write(&mut self, writer: &mut Writer<'_>) -> Option<MailboxStep> {
        let mailbox = self.device.mailbox;
        let transfer = self.transfer.as_mut()?;
        let step = transfer.next_step();
        if step == MailboxStep::Receive {
            let address = register(self.device.station, mailbox.from);
            writer.push(Command::Fprd, address, usize::from(mailbox.bytes))?;
            return Some(step);
        }

        let length = usize::from(mailbox.to_bytes);
        let address = register(self.device.station, mailbox.to);
        let at = writer.push(Command::Fpwr, address, length)?;
        // A device ignores a mail with the counter of the one before. One that was not taken, as
        // the mailbox is full, is written again with the same.
        let counter = self.device.mail_counter % 7 + 1;
        transfer.write(writer.data_mut(at, length), counter);
        Some(step)
    }

    fn was_sent(&mut self, now_ns: u64) {
        self.device.mail_counter = self.device.mail_counter % 7 + 1;
        self.sent_at_ns = now_ns;
        if let Some(transfer) = &mut self.transfer {
            transfer.was_sent();
        }
    }

    fn answer(&mut self, mail: &[u8]) {
        let Some(transfer) = &mut self.transfer else { return };
        if !transfer.answer(mail, 0) {
            return;
        }

        let object = transfer.object();
        let outcome = transfer.outcome();
        self.transfer = None;
        match outcome {
            Some(Ok(value)) => {
                self.mails.insert(object, mail.into());
                let number = |all: u32, byte: &u8| all << 8 | u32::from(*byte);
                self.values.insert(object, value.iter().rev().fold(0, number));
                self.objects.extend(objects_after(object, &value));
            }
            // The device has no such object: ethercrab reads the same mail.
            Some(Err(_)) => {
                self.mails.insert(object, mail.into());
            }
            // A value in several mails: an assignment or a mapping has none.
            None => self.objects.clear(),
        }
    }
}

/// Returns the objects to read after this value of a mapping.
fn objects_after((index, entry): ObjectAddress, value: &[u8]) -> Vec<ObjectAddress> {
    let is_assignment = ASSIGNMENTS.contains(&index);
    match (value, entry) {
        ([count, ..], 0) => (1..=*count).map(|entry| (index, entry)).collect(),
        ([low, high, ..], 1..) if is_assignment => vec![(u16::from_le_bytes([*low, *high]), 0)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_leads_to_its_pdos_and_these_to_their_entries() {
        assert_eq!(objects_after((0x1c12, 0), &[2]), [(0x1c12, 1), (0x1c12, 2)]);
        assert_eq!(objects_after((0x1c12, 2), &[0x02, 0x16]), [(0x1602, 0)]);
        assert_eq!(objects_after((0x1602, 0), &[1]), [(0x1602, 1)]);
        assert_eq!(objects_after((0x1602, 1), &[16, 0, 0x40, 0x60]), []);
        assert_eq!(objects_after((0x1c13, 0), &[0]), [], "nothing is assigned");
        assert_eq!(objects_after((0x1c13, 0), &[]), [], "an empty value");
    }
}
