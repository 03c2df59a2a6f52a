//! The acyclic frame: register reads, mails and recovery queries sent beside the cyclic frames.

use onbeat_rt::frame::{Command, LONGEST, Writer, register, working_counter};

use super::device::{BusDevice, DeviceStage};
use super::mailbox_layout::MailboxLayout;
use super::register_query::QueryReply;
use super::sdo::{MailboxStep, SdoTransfer};
use onbeat_control::RequestFailure;
use onbeat_ethercat::registers::{AL_STATUS, SYNC_MANAGER, TIME_DIFFERENCE};

/// Maximum number of queries in a frame.
pub(super) const MAX_QUERIES: usize = 96;

/// Maximum bytes of start-up mails in a frame, except the first; the rest is for AL states and
/// recovery.
// Mails are long. Half of the frame stays for everything else that recovery needs in the same
// cycle.
const MOST_MAIL: usize = LONGEST / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryPurpose {
    State(usize),
    Station(u16),
    DeviceIdRequest,
    /// AL status and code of the device at this position, which was asked for its device ID.
    DeviceId(u16),
    Recovery(usize),
    /// The second query of the recovery before it.
    Second,
    ClockDifference(usize),
    MailboxStatus(usize),
    Mail(usize),
    /// A mail of the user's transfer.
    MailSent,
    /// The user's access to registers.
    Register,
    /// The error counters of this device.
    LinkErrors(usize),
    /// A mail with a start-up value of this device.
    StartupMailSent(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AcyclicQuery {
    pub(super) purpose: QueryPurpose,
    pub(super) at: usize,
    pub(super) length: usize,
}

impl AcyclicQuery {
    /// This query's part of the reply to its frame.
    pub(super) fn reply<'r>(&self, frame: &'r [u8]) -> QueryReply<'r> {
        QueryReply {
            data: &frame[self.at..self.at + self.length],
            counter: working_counter(frame, self.at, self.length),
        }
    }
}

/// A device whose mailbox is written or read.
#[derive(Clone, Copy, Debug)]
struct MailAddress {
    place: usize,
    station: u16,
    mailbox: MailboxLayout,
}

/// An acyclic frame being written.
pub(super) struct AcyclicFrame<'w, 'b> {
    pub(super) writer: &'w mut Writer<'b>,
    pub(super) queries: &'w mut Vec<AcyclicQuery>,
}

impl AcyclicFrame<'_, '_> {
    pub(super) fn push(
        &mut self,
        purpose: QueryPurpose,
        command: Command,
        address: u32,
        length: usize,
    ) -> bool {
        if self.queries.len() == MAX_QUERIES {
            return false;
        }
        let Some(at) = self.writer.push(command, address, length) else { return false };
        self.queries.push(AcyclicQuery { purpose, at, length });
        true
    }

    /// Appends a datagram with data.
    pub(super) fn push_data(
        &mut self,
        purpose: QueryPurpose,
        command: Command,
        address: u32,
        data: &[u8],
    ) -> bool {
        if self.queries.len() == MAX_QUERIES {
            return false;
        }
        let Some(at) = self.writer.push_data(command, address, data) else { return false };
        self.queries.push(AcyclicQuery { purpose, at, length: data.len() });
        true
    }

    /// Appends the next mail of the transfer, or the read of its response. The mailbox of a device
    /// that receives start-up values accepts no other transfer.
    pub(super) fn push_transfer(
        &mut self,
        transfer: &mut SdoTransfer,
        devices: &mut [BusDevice],
        cycle: u64,
    ) {
        transfer.wait(cycle);
        let place = transfer.device();
        let device =
            devices.get_mut(place).filter(|device| !matches!(device.stage, DeviceStage::NoAnswer));
        let Some((device, mailbox)) =
            device.and_then(|device| device.mailbox.map(|mailbox| (device, mailbox)))
        else {
            return transfer.end(Err(RequestFailure::NoMailbox));
        };

        // A mailbox holds one conversation. Start-up values are the older one. And what answers at the
        // station address of a device that is being identified may be another one.
        if device.startup_transfer().is_some() || device.identification().is_some() {
            return;
        }

        let station = device.known.station;
        self.push_mail(
            transfer,
            MailAddress { place, station, mailbox },
            &mut device.mail_counter,
            QueryPurpose::MailSent,
        );
        if transfer.next_step() == MailboxStep::Receive {
            device.has_mail = false;
        }
    }

    /// Appends the next start-up mails, beginning with device `from`; sets `from` to the first one
    /// that did not fit.
    pub(super) fn push_startup_mails(
        &mut self,
        devices: &mut [BusDevice],
        from: &mut usize,
        cycle: u64,
    ) {
        let mut taken = 0;
        let first = *from;
        // From where the last frame ended, round and round: devices at the end of the cable get
        // their turn.
        for place in (first..devices.len()).chain(0..first.min(devices.len())) {
            let BusDevice {
                stage: DeviceStage::Recovering(recovery),
                known,
                mailbox,
                mail_counter,
                ..
            } = &mut devices[place]
            else {
                continue;
            };
            let station = known.station;
            let Some(transfer) = recovery.transfer(known) else { continue };
            let Some(mailbox) = *mailbox else {
                transfer.end(Err(RequestFailure::NoMailbox));
                continue;
            };
            let bytes = usize::from(mailbox.to_bytes.max(mailbox.bytes));

            if taken > 0 && taken + bytes > MOST_MAIL {
                *from = place;
                return;
            }

            taken += bytes;
            transfer.wait(cycle);
            self.push_mail(
                transfer,
                MailAddress { place, station, mailbox },
                mail_counter,
                QueryPurpose::StartupMailSent(place),
            );
        }
    }

    fn push_mail(
        &mut self,
        transfer: &mut SdoTransfer,
        to: MailAddress,
        counter: &mut u8,
        sent: QueryPurpose,
    ) {
        let MailAddress { place, station, mailbox } = to;
        match transfer.next_step() {
            MailboxStep::Send => {
                let length = usize::from(mailbox.to_bytes);
                if self.queries.len() == MAX_QUERIES {
                    return;
                }

                if let Some(at) =
                    self.writer.push(Command::Fpwr, register(station, mailbox.to), length)
                {
                    // Counted when the mail is really in a frame: a number that was skipped would
                    // look like a lost mail to the device.
                    *counter = *counter % 7 + 1;
                    transfer.write(self.writer.data_mut(at, length), *counter);
                    self.queries.push(AcyclicQuery { purpose: sent, at, length });
                }
            }
            MailboxStep::Receive => {
                let address = register(station, mailbox.from);
                self.push(
                    QueryPurpose::Mail(place),
                    Command::Fprd,
                    address,
                    usize::from(mailbox.bytes),
                );
            }
            MailboxStep::Done => {}
        }
    }

    /// Appends a read of the device's mail if its mailbox is known to be full, or else of the
    /// mailbox status.
    pub(super) fn push_mailbox_read(&mut self, place: usize, device: &mut BusDevice) {
        let Some(mailbox) = device.mailbox else { return };
        let station = device.known.station;
        // A mailbox that is full is emptied whole: reading its last byte is what frees it
        // (ETG.1000.4, SyncManager in mailbox mode).
        if std::mem::take(&mut device.has_mail) {
            self.push(
                QueryPurpose::Mail(place),
                Command::Fprd,
                register(station, mailbox.from),
                usize::from(mailbox.bytes),
            );
        } else {
            self.push(
                QueryPurpose::MailboxStatus(place),
                Command::Fprd,
                register(station, SYNC_MANAGER + 8 + 5),
                1,
            );
        }
    }

    /// Appends reads of the AL states from device `from` on. Returns the first device whose read did
    /// not fit.
    pub(super) fn push_state_reads(&mut self, devices: &[BusDevice], from: usize) -> Option<usize> {
        let mut rest = devices.iter().enumerate().skip(from);
        rest.find(|(place, device)| !self.push_state_read(*place, device)).map(|(place, _)| place)
    }

    /// Appends a read of the AL state, except for devices in recovery, which read their own.
    fn push_state_read(&mut self, place: usize, device: &BusDevice) -> bool {
        match device.stage {
            DeviceStage::InOp | DeviceStage::NoAnswer => self.push(
                QueryPurpose::State(place),
                Command::Fprd,
                register(device.known.station, AL_STATUS),
                6,
            ),
            // Recovery reads what it needs itself.
            DeviceStage::Recovering(_) | DeviceStage::Paused(_) => true,
        }
    }

    /// Appends reads of the clocks' differences from the system time.
    pub(super) fn push_clock_reads(&mut self, devices: &[BusDevice]) {
        let with_clock = devices.iter().enumerate().filter(|(_, device)| device.known.has_clock);
        for (place, device) in with_clock {
            let address = register(device.known.station, TIME_DIFFERENCE);
            self.push(QueryPurpose::ClockDifference(place), Command::Fprd, address, 4);
        }
    }

    pub(super) fn push_recovery(
        &mut self,
        place: usize,
        device: &BusDevice,
        reference: Option<u16>,
    ) {
        let DeviceStage::Recovering(recovery) = &device.stage else { return };
        let Some((first, second)) = recovery.query(&device.known, reference) else { return };
        let bytes = first.length + second.map_or(0, |second| second.length + 12);
        // Both or none: the second datagram is only understood together with the first.
        if self.queries.len() + 2 > MAX_QUERIES || !self.writer.has_room(bytes) {
            return;
        }

        let both = [(QueryPurpose::Recovery(place), Some(first)), (QueryPurpose::Second, second)];
        for (purpose, question) in
            both.into_iter().filter_map(|(purpose, question)| Some((purpose, question?)))
        {
            if let Some(at) = self.writer.push_data(
                question.command,
                question.address,
                &question.bytes[..question.length],
            ) {
                self.queries.push(AcyclicQuery { purpose, at, length: question.length });
            }
        }
    }
}
