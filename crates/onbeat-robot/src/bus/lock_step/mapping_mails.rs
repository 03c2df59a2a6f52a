//! Answers of ethercrab's reads of a mapping, from the mails that the devices sent before.

use std::collections::BTreeMap;

use onbeat_ethercat::coe::MAIL;
use onbeat_ethercat::coe::message::SDO_REQUEST;
use onbeat_ethercat::registers::{MAILBOX_FULL, SYNC_MANAGER};
use onbeat_rt::frame::word;

use super::LockStepAction;
use crate::bus::mailbox_layout::MailboxLayout;
use crate::bus::single_datagram::SingleDatagram;

/// Status of the SyncManagers of the mailboxes, to and from the device.
const TO_STATUS: u16 = SYNC_MANAGER + 5;
const FROM_STATUS: u16 = SYNC_MANAGER + 8 + 5;
/// Command byte of an SDO upload request, without complete access (ETG.1000.6, 5.6.2).
const UPLOAD: u8 = 0x40;

/// Index and subindex of an object.
pub(super) type ObjectAddress = (u16, u8);

#[derive(Debug)]
pub(super) struct DeviceMails {
    mailbox: MailboxLayout,
    mails: BTreeMap<ObjectAddress, Box<[u8]>>,
    requested: Option<ObjectAddress>,
}

impl DeviceMails {
    pub(super) fn new(mailbox: MailboxLayout, mails: BTreeMap<ObjectAddress, Box<[u8]>>) -> Self {
        Self { mailbox, mails, requested: None }
    }
}

/// Mails of all devices about their mappings.
#[derive(Debug, Default)]
pub(super) struct MappingMails {
    were_read: bool,
    of_station: BTreeMap<u16, DeviceMails>,
}

impl MappingMails {
    /// Mails by station address.
    pub(super) fn new(of_station: BTreeMap<u16, DeviceMails>) -> Self {
        Self { were_read: true, of_station }
    }

    /// Decides what happens to a read of a mailbox or of its status.
    pub(super) fn read(&mut self, read: SingleDatagram, frame: &mut [u8]) -> LockStepAction {
        let is_status = matches!(read.register, TO_STATUS | FROM_STATUS) && read.length == 1;
        if is_status && !self.were_read {
            return LockStepAction::ReadMappings;
        }

        let Some(device) = self.of_station.get_mut(&read.station) else {
            return LockStepAction::Send;
        };
        if is_status {
            // The mailbox to the device always reads as empty, so that ethercrab writes its request
            // without waiting.
            let is_full = read.register == FROM_STATUS && device.requested.is_some();
            read.answer(frame, &[if is_full { MAILBOX_FULL } else { 0 }], 1);
            return LockStepAction::Answered;
        }

        let mail = device
            .requested
            .filter(|_| read.register == device.mailbox.from)
            .and_then(|object| device.mails.get(&object));
        let Some(mail) = mail else { return LockStepAction::Send };
        read.answer(frame, mail, 1);
        // Once: an answer that is read twice would serve the next request too.
        device.requested = None;
        LockStepAction::Answered
    }

    /// Decides what happens to a mail to a device. After a mail that is sent, the device answers
    /// for itself.
    pub(super) fn request(&mut self, write: SingleDatagram, frame: &mut [u8]) -> LockStepAction {
        let Some(device) = self.of_station.get_mut(&write.station) else {
            return LockStepAction::Send;
        };
        let object = (write.register == device.mailbox.to)
            .then(|| upload(write.data(frame)))
            .flatten()
            .filter(|object| device.mails.contains_key(object));
        if object.is_none() {
            self.of_station.remove(&write.station);
            return LockStepAction::Send;
        }

        device.requested = object;
        write.accept(frame, 1);
        LockStepAction::Answered
    }
}

/// Returns the object that a mail requests, if it is the upload of one entry.
fn upload(mail: &[u8]) -> Option<ObjectAddress> {
    let is_upload = mail.len() >= 12
        && mail[5] & 0x0f == MAIL
        && word(mail, 6) >> 12 == SDO_REQUEST
        && mail[8] == UPLOAD;
    is_upload.then(|| (word(mail, 9), mail[11]))
}

#[cfg(test)]
mod tests {
    use onbeat_rt::frame::{Command, register};

    use super::*;
    use crate::bus::single_datagram::frame;

    const STATION: u16 = 0x4001;
    const MAILBOX: MailboxLayout =
        MailboxLayout { to: 0x1000, to_bytes: 32, from: 0x1080, bytes: 32 };
    const ASSIGNMENT: ObjectAddress = (0x1c12, 0);

    fn request_of(object: ObjectAddress) -> Vec<u8> {
        let mut mail = [0; 32];
        (mail[0], mail[5], mail[7], mail[8]) = (10, MAIL, 0x20, UPLOAD);
        mail[9..11].copy_from_slice(&object.0.to_le_bytes());
        mail[11] = object.1;
        frame(Command::Fpwr, register(STATION, MAILBOX.to), &mail)
    }

    fn read(mails: &mut MappingMails, at: u16, length: usize) -> (LockStepAction, u8) {
        let mut frame = frame(Command::Fprd, register(STATION, at), &vec![0; length]);
        let datagram = SingleDatagram::in_frame(&frame).unwrap();
        let action = mails.read(datagram, &mut frame);
        (action, datagram.data(&frame)[0])
    }

    fn send(mails: &mut MappingMails, object: ObjectAddress) -> LockStepAction {
        let mut frame = request_of(object);
        let datagram = SingleDatagram::in_frame(&frame).unwrap();
        mails.request(datagram, &mut frame)
    }

    fn one_mail() -> MappingMails {
        let mail: Box<[u8]> = [0x77; 32].into();
        let device = DeviceMails::new(MAILBOX, [(ASSIGNMENT, mail)].into());
        MappingMails::new([(STATION, device)].into())
    }

    #[test]
    fn an_upload_is_answered_with_the_mail_of_the_device() {
        let mut mails = one_mail();
        assert_eq!(read(&mut mails, FROM_STATUS, 1), (LockStepAction::Answered, 0), "empty");
        assert_eq!(read(&mut mails, TO_STATUS, 1), (LockStepAction::Answered, 0));

        assert_eq!(send(&mut mails, ASSIGNMENT), LockStepAction::Answered);
        let full = (LockStepAction::Answered, MAILBOX_FULL);
        assert_eq!(read(&mut mails, FROM_STATUS, 1), full);
        assert_eq!(read(&mut mails, MAILBOX.from, 32), (LockStepAction::Answered, 0x77));
        assert_eq!(read(&mut mails, FROM_STATUS, 1), (LockStepAction::Answered, 0), "once");
    }

    #[test]
    fn after_an_object_that_was_not_read_the_device_answers_for_itself() {
        let mut mails = one_mail();

        assert_eq!(send(&mut mails, (0x1c13, 0)), LockStepAction::Send);
        assert_eq!(read(&mut mails, FROM_STATUS, 1).0, LockStepAction::Send);
        assert_eq!(read(&mut mails, MAILBOX.from, 32).0, LockStepAction::Send);
        assert_eq!(send(&mut mails, ASSIGNMENT), LockStepAction::Send);
    }

    #[test]
    fn mappings_are_read_once_before_the_first_status() {
        let mut mails = MappingMails::default();
        assert_eq!(read(&mut mails, FROM_STATUS, 1).0, LockStepAction::ReadMappings);
        let mut without_devices = MappingMails::new(BTreeMap::new());
        assert_eq!(read(&mut without_devices, FROM_STATUS, 1).0, LockStepAction::Send);
    }
}
