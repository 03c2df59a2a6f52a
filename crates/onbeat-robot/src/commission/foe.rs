//! Files of one device: FoE, file access over EtherCAT (ETG.1000.6, 5.8).

use std::time::Duration;

use onbeat_ethercat::al::{BOOT, STATE};
use onbeat_ethercat::sii::stated_text;
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::word;

use super::error::CommissionError;
use super::line::Line;
use super::mail::{FOE, HEADER};
use crate::bus::MailboxLayout;

/// Operation codes.
const READ: u8 = 1;
const WRITE: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;
const ERROR: u8 = 5;
const BUSY: u8 = 6;
/// Bytes of the FoE header: code, reserved, and a number.
const HEAD: usize = 6;
/// Largest file, in bytes.
pub const FILE_BYTES: usize = 256 * 1024 * 1024;
/// Bit of the mailbox protocols in the EEPROM.
const PROTOCOL: u16 = 0x08;
/// Most times that a device may be busy with one packet, and the pause before it is asked again.
const MOST_BUSY: u32 = 600;
const BUSY_PAUSE: Duration = Duration::from_millis(100);

fn mail(code: u8, number: u32, data: &[u8]) -> Vec<u8> {
    let mut body = vec![code, 0];
    body.extend_from_slice(&number.to_le_bytes());
    body.extend_from_slice(data);
    body
}

/// Refuses a name that does not fit into one mail.
fn check_name(place: u16, boxes: MailboxLayout, name: &str) -> Result<(), CommissionError> {
    let (bytes, most) = (name.len(), usize::from(boxes.to_bytes) - HEADER - HEAD);
    if bytes > most {
        return Err(CommissionError::LongName { place, bytes, most });
    }
    Ok(())
}

/// A reply: its code, its number, and its data.
struct Reply {
    code: u8,
    number: u32,
    data: Vec<u8>,
}

impl<W: Wire> Line<'_, W> {
    /// Reads a file; `password` is 0 for none. Calls `progress` with the number of bytes so far.
    ///
    /// # Errors
    /// [`CommissionError::Unsupported`] without FoE; [`CommissionError::LongName`];
    /// [`CommissionError::File`] with the device's reason.
    pub fn read_file(
        &mut self,
        place: u16,
        name: &str,
        password: u32,
        mut progress: impl FnMut(usize),
    ) -> Result<Vec<u8>, CommissionError> {
        self.check_foe(place)?;
        let boxes = self.boxes(place)?;
        check_name(place, boxes, name)?;
        let most = usize::from(boxes.bytes) - HEADER - HEAD;
        self.send_mail(place, boxes, FOE, &mail(READ, password, name.as_bytes()))?;
        let mut file = Vec::new();
        for packet in 1.. {
            let reply = self.foe_reply(place, boxes)?;
            if reply.code != DATA || reply.number != packet {
                return Err(CommissionError::Reply { place, what: "another FoE packet" });
            }
            file.extend_from_slice(&reply.data);
            progress(file.len());
            self.send_mail(place, boxes, FOE, &mail(ACK, packet, &[]))?;
            if reply.data.len() < most {
                break;
            }
            if file.len() > FILE_BYTES {
                return Err(CommissionError::Reply { place, what: "with a file beyond 256 MiB" });
            }
        }
        Ok(file)
    }

    /// Writes a file; `password` is 0 for none. Calls `progress` with the number of bytes so far.
    ///
    /// # Errors
    /// As [`Line::read_file`].
    pub fn write_file(
        &mut self,
        place: u16,
        (name, password): (&str, u32),
        file: &[u8],
        mut progress: impl FnMut(usize),
    ) -> Result<(), CommissionError> {
        self.check_foe(place)?;
        let boxes = self.boxes(place)?;
        check_name(place, boxes, name)?;
        let most = usize::from(boxes.to_bytes) - HEADER - HEAD;
        self.send_mail(place, boxes, FOE, &mail(WRITE, password, name.as_bytes()))?;
        self.await_ack((place, boxes), 0, None)?;
        // A packet that is not full ends the file: an empty one, if the others are full.
        let packets = file.len() / most + 1;
        for packet in 0..packets {
            let from = packet * most;
            let data = &file[from..file.len().min(from + most)];
            let number = packet as u32 + 1;
            let body = mail(DATA, number, data);
            self.send_mail(place, boxes, FOE, &body)?;
            self.await_ack((place, boxes), number, Some(&body))?;
            progress(from + data.len());
        }
        Ok(())
    }

    /// Waits for the acknowledgement of a packet, which is sent again when the device was busy.
    fn await_ack(
        &mut self,
        (place, boxes): (u16, MailboxLayout),
        packet: u32,
        again: Option<&[u8]>,
    ) -> Result<(), CommissionError> {
        for _ in 0..MOST_BUSY {
            let reply = self.foe_reply(place, boxes)?;
            match (reply.code, again) {
                (ACK, _) if reply.number == packet => return Ok(()),
                (BUSY, Some(body)) => {
                    self.exchange.wait(BUSY_PAUSE);
                    self.send_mail(place, boxes, FOE, body)?;
                }
                (BUSY, None) => {}
                _ => return Err(CommissionError::Reply { place, what: "another FoE packet" }),
            }
        }
        Err(CommissionError::Mute { place, ms: 100 * u64::from(MOST_BUSY) })
    }

    fn foe_reply(&mut self, place: u16, boxes: MailboxLayout) -> Result<Reply, CommissionError> {
        let body = self.receive_mail(place, boxes, FOE, |body| body.len() >= HEAD)?;
        let number = u32::from(word(&body, 2)) | u32::from(word(&body, 4)) << 16;
        if body[0] == ERROR {
            let text = &body[HEAD..];
            let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let text = stated_text(&text[..end]);
            return Err(CommissionError::File { place, code: number, text });
        }
        Ok(Reply { code: body[0], number, data: body[HEAD..].to_vec() })
    }

    fn check_foe(&mut self, place: u16) -> Result<(), CommissionError> {
        let (is, _) = self.state(place)?;
        if is & STATE == BOOT || self.sii(place)?.protocols & PROTOCOL != 0 {
            return Ok(());
        }
        Err(CommissionError::Unsupported { place, what: "FoE" })
    }
}
