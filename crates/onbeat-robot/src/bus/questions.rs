//! The frame beside the cycle: what is asked in it, and of whom.

use onbeat_rt::frame::{Command, LONGEST, Writer, register};

use super::device::{Device, Mailbox, Stage};
use super::memory::{AL_STATUS, SYNC_MANAGER};
use super::sdo::{Transfer, Turn};
use onbeat_control::SdoFailure;

/// Questions in a frame at most.
pub(super) const MOST_QUESTIONS: usize = 96;

/// What mails of devices on their way may take of a frame, but for the first of them, in bytes: the others' states want to be asked too.
const MOST_MAIL: usize = LONGEST / 2;

/// What a question in the frame beside the cycle was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    State(usize),
    Station(u16),
    Way(usize),
    /// The second question of the one before.
    Second,
    Apart(usize),
    Mailbox(usize),
    Mail(usize),
    /// A mail of the transfer was sent.
    Sent,
    /// A mail of a device's own way was sent.
    Told(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) about: About,
    pub(super) at: usize,
    pub(super) length: usize,
}

/// A frame beside the cycle that is being written.
pub(super) struct Page<'w, 'b> {
    pub(super) writer: &'w mut Writer<'b>,
    pub(super) asked: &'w mut Vec<Asked>,
}

impl Page<'_, '_> {
    pub(super) fn ask(&mut self, about: About, command: Command, address: u32, length: usize) -> bool {
        if self.asked.len() == MOST_QUESTIONS {
            return false;
        }
        let Some(at) = self.writer.push(command, address, length) else { return false };
        self.asked.push(Asked { about, at, length });
        true
    }

    /// The transfer's next mail, or the answer to it. A device that is told its script has no ear for others.
    pub(super) fn ask_for_transfer(&mut self, transfer: &mut Transfer, devices: &mut [Device], cycle: u64) {
        transfer.wait(cycle);
        let place = transfer.device();
        let device = devices.get_mut(place).filter(|device| !matches!(device.stage, Stage::Silent));
        let Some((device, mailbox)) = device.and_then(|device| device.mailbox.map(|mailbox| (device, mailbox))) else {
            return transfer.end(Err(SdoFailure::NoMailbox));
        };

        if device.own_transfer().is_some() {
            return;
        }

        let station = device.known.station;
        self.ask_by_mail(transfer, (place, station, mailbox), &mut device.mail_counter, About::Sent);
        if transfer.turn() == Turn::Fetch {
            device.has_mail = false;
        }
    }

    /// The next mails of devices on their way, beginning with the device `from`, which becomes the first that found no room.
    pub(super) fn ask_for_own_transfers(&mut self, devices: &mut [Device], from: &mut usize, cycle: u64) {
        let mut taken = 0;
        let first = *from;
        for place in (first..devices.len()).chain(0..first.min(devices.len())) {
            let Device { stage: Stage::OnItsWay(way), known, mailbox, mail_counter, .. } = &mut devices[place] else {
                continue;
            };
            let station = known.station;
            let Some(transfer) = way.transfer(known) else { continue };
            let Some(mailbox) = *mailbox else {
                transfer.end(Err(SdoFailure::NoMailbox));
                continue;
            };
            let bytes = usize::from(mailbox.to_bytes.max(mailbox.bytes));

            if taken > 0 && taken + bytes > MOST_MAIL {
                *from = place;
                return;
            }

            taken += bytes;
            transfer.wait(cycle);
            self.ask_by_mail(transfer, (place, station, mailbox), mail_counter, About::Told(place));
        }
    }

    fn ask_by_mail(
        &mut self,
        transfer: &mut Transfer,
        (place, station, mailbox): (usize, u16, Mailbox),
        counter: &mut u8,
        sent: About,
    ) {
        match transfer.turn() {
            Turn::Send => {
                let length = usize::from(mailbox.to_bytes);
                if self.asked.len() == MOST_QUESTIONS {
                    return;
                }

                if let Some(at) = self.writer.push(Command::Fpwr, register(station, mailbox.to), length) {
                    *counter = *counter % 7 + 1;
                    transfer.write(self.writer.data_mut(at, length), *counter);
                    self.asked.push(Asked { about: sent, at, length });
                }
            }
            Turn::Fetch => {
                let address = register(station, mailbox.from);
                self.ask(About::Mail(place), Command::Fprd, address, usize::from(mailbox.bytes));
            }
            Turn::Done => {}
        }
    }

    /// Its mail, when it is known to have one, and whether it has one otherwise.
    pub(super) fn ask_for_mail(&mut self, place: usize, device: &mut Device) {
        let Some(mailbox) = device.mailbox else { return };
        let station = device.known.station;
        if std::mem::take(&mut device.has_mail) {
            self.ask(About::Mail(place), Command::Fprd, register(station, mailbox.from), usize::from(mailbox.bytes));
        } else {
            self.ask(About::Mailbox(place), Command::Fprd, register(station, SYNC_MANAGER + 8 + 5), 1);
        }
    }

    /// Of devices on their way, the AL state is their own business.
    pub(super) fn ask_state(&mut self, place: usize, device: &Device) -> bool {
        match device.stage {
            Stage::InOp | Stage::Silent => {
                self.ask(About::State(place), Command::Fprd, register(device.known.station, AL_STATUS), 6)
            }
            Stage::OnItsWay(_) | Stage::LeftAlone(_) => true,
        }
    }

    pub(super) fn ask_on_its_way(&mut self, place: usize, device: &Device, reference: Option<u16>) {
        let Stage::OnItsWay(way) = &device.stage else { return };
        let Some((first, second)) = way.question(&device.known, reference) else { return };
        let bytes = first.length + second.map_or(0, |second| second.length + 12);
        if self.asked.len() + 2 > MOST_QUESTIONS || !self.writer.has_room(bytes) {
            return;
        }

        let both = [(About::Way(place), Some(first)), (About::Second, second)];
        for (about, question) in both.into_iter().filter_map(|(about, question)| Some((about, question?))) {
            if let Some(at) =
                self.writer.push_data(question.command, question.address, &question.bytes[..question.length])
            {
                self.asked.push(Asked { about, at, length: question.length });
            }
        }
    }
}
