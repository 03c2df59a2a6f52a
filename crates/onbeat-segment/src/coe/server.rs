//! SDO server: expedited, normal and segmented transfers, single values and whole objects.

use super::{Dictionary, Entry, abort, access, details, information};

/// First byte of requests and replies, without their flags.
const DOWNLOAD_SEGMENT: u8 = 0;
const DOWNLOAD: u8 = 1;
const UPLOAD: u8 = 2;
const UPLOAD_SEGMENT: u8 = 3;
const ABORT: u8 = 4;

/// Types of CoE messages.
const SDO_REQUEST: u16 = 2;
const SDO_RESPONSE: u16 = 3;
const SDO_INFORMATION: u16 = 8;
/// Largest object that can be transferred, in bytes.
const LARGEST_OBJECT: usize = 4096;

/// AL states in which a value may be read and written, as bit numbers above the access flags.
const PREOP: u8 = 2;
const SAFEOP: u8 = 4;

/// What a request led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing is sent back.
    Nothing,
    Reply,
    /// A reply, and this object was written.
    Written(u16),
    /// The mail is no request of CoE: an error of the mailbox, with this detail.
    Refused(u16),
}

/// Details of mailbox errors (ETG.1000.6, table 29).
pub(crate) const UNSUPPORTED_SERVICE: u16 = 4;
pub(crate) const TOO_SHORT: u16 = 6;
/// Least bytes of an SDO request behind the CoE header, and of one for SDO information.
const SDO_BYTES: usize = 8;
const INFORMATION_BYTES: usize = 4;

/// A transfer that takes several mails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transfer {
    None,
    Upload { sent: usize, toggle: u8 },
    Download { index: u16, sub: u8, whole: bool, size: usize, toggle: u8 },
}

/// The state of one device's server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    transfer: Transfer,
    /// The object in transfer.
    stage: Vec<u8>,
    listing: information::Listing,
    /// The next SDO request is aborted with this code: a fault.
    pub(crate) abort_next: Option<u32>,
    /// Bytes of a mail behind its header.
    room: usize,
    /// What the device tells of its CoE.
    details: u8,
}

impl Server {
    /// `room`: bytes that a mail to the MainDevice has behind its header. `details`: what the EEPROM tells of CoE, see [`details`].
    /// `objects`: how many there are.
    pub(crate) fn new(room: usize, details: u8, objects: usize) -> Self {
        Self {
            transfer: Transfer::None,
            stage: Vec::with_capacity(LARGEST_OBJECT),
            listing: information::Listing::new(objects),
            abort_next: None,
            room,
            details,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.transfer = Transfer::None;
        self.listing.end();
    }

    /// Answers a request; `reply` gets what goes behind the mailbox header.
    pub(crate) fn answer(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Answer {
        reply.clear();
        let Some(header) = request.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes)) else {
            return Answer::Refused(TOO_SHORT);
        };
        let bytes = request.len() - 2;
        match header >> 12 {
            SDO_INFORMATION if self.details & details::INFORMATION == 0 => Answer::Refused(UNSUPPORTED_SERVICE),
            SDO_REQUEST if bytes < SDO_BYTES => Answer::Refused(TOO_SHORT),
            SDO_INFORMATION if bytes < INFORMATION_BYTES => Answer::Refused(TOO_SHORT),
            SDO_REQUEST => self.sdo(objects, state, &request[2..], reply),
            SDO_INFORMATION => {
                self.listing.answer(objects, &request[2..], self.room, reply);
                Answer::Reply
            }
            _ => Answer::Refused(UNSUPPORTED_SERVICE),
        }
    }

    /// The next mail of a list that does not fit one; `false` when there is none.
    pub(crate) fn continues(&mut self, reply: &mut Vec<u8>) -> bool {
        self.listing.continues(self.room, reply)
    }

    fn sdo(&mut self, objects: &mut Dictionary, state: u8, request: &[u8], reply: &mut Vec<u8>) -> Answer {
        let Some(&head) = request.first_chunk::<8>() else { return Answer::Nothing };
        let (index, sub) = (u16::from_le_bytes([head[1], head[2]]), head[3]);
        let done = match self.abort_next.take() {
            Some(code) => Err(code),
            // The flag of whole objects stands there in both directions.
            None if self.details & details::COMPLETE_ACCESS == 0
                && head[0] & 0x10 != 0
                && matches!(head[0] >> 5, DOWNLOAD | UPLOAD) =>
            {
                Err(abort::UNSUPPORTED_ACCESS)
            }
            None => match head[0] >> 5 {
                DOWNLOAD => self.download(objects, state, request, reply),
                UPLOAD => self.upload(objects, state, &head, reply),
                DOWNLOAD_SEGMENT => self.download_segment(objects, request, reply),
                UPLOAD_SEGMENT => self.upload_segment(head[0], reply),
                ABORT => {
                    self.transfer = Transfer::None;
                    return Answer::Nothing;
                }
                _ => Err(abort::COMMAND),
            },
        };

        done.unwrap_or_else(|code| {
            self.transfer = Transfer::None;
            begin(reply, SDO_REQUEST, ABORT << 5, index, sub);
            reply.extend_from_slice(&code.to_le_bytes());
            Answer::Reply
        })
    }

    // ---- from the device

    fn upload(&mut self, objects: &Dictionary, state: u8, head: &[u8; 8], reply: &mut Vec<u8>) -> Result<Answer, u32> {
        let (index, sub, whole) = (u16::from_le_bytes([head[1], head[2]]), head[3], head[0] & 0x10 != 0);
        self.stage.clear();
        if whole {
            self.gather(objects, state, index, sub)?;
        } else {
            let entry = objects.lookup(index, sub)?;
            may(entry, access::READ, state, abort::WRITE_ONLY)?;
            self.stage.extend_from_slice(objects.bytes(entry));
        }

        let whole_flag = head[0] & 0x10;
        let size = self.stage.len();
        if size <= 4 && size > 0 {
            begin(reply, SDO_RESPONSE, UPLOAD << 5 | whole_flag | (4 - size as u8) << 2 | 0x03, index, sub);
            reply.extend_from_slice(&self.stage);
            reply.resize(10, 0);
        } else {
            begin(reply, SDO_RESPONSE, UPLOAD << 5 | whole_flag | 0x01, index, sub);
            reply.extend_from_slice(&(size as u32).to_le_bytes());
            let now = size.min(self.room - 10);
            reply.extend_from_slice(&self.stage[..now]);
            self.transfer = if now < size { Transfer::Upload { sent: now, toggle: 0 } } else { Transfer::None };
        }

        Ok(Answer::Reply)
    }

    fn upload_segment(&mut self, head: u8, reply: &mut Vec<u8>) -> Result<Answer, u32> {
        let Transfer::Upload { sent, toggle } = self.transfer else { return Err(abort::COMMAND) };
        if head & 0x10 != toggle {
            return Err(abort::TOGGLE);
        }

        let now = (self.stage.len() - sent).min(self.room - 3);
        let last = sent + now == self.stage.len();
        let unused = 7usize.saturating_sub(now) as u8;
        header(reply, SDO_RESPONSE);
        reply.push(toggle | unused << 1 | u8::from(last));
        reply.extend_from_slice(&self.stage[sent..sent + now]);
        reply.resize(reply.len().max(10), 0);
        self.transfer =
            if last { Transfer::None } else { Transfer::Upload { sent: sent + now, toggle: toggle ^ 0x10 } };

        Ok(Answer::Reply)
    }

    /// A whole object, from entry 0 or 1 on. Its number of entries takes two bytes there.
    fn gather(&mut self, objects: &Dictionary, state: u8, index: u16, from: u8) -> Result<(), u32> {
        for entry in whole_object(objects, index, from)? {
            may(entry, access::READ, state, abort::WRITE_ONLY)?;
            self.stage.extend_from_slice(objects.bytes(entry));
            if entry.sub == 0 {
                self.stage.push(0);
            }
        }
        Ok(())
    }

    // ---- to the device

    fn download(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Answer, u32> {
        let head = request[0];
        let (index, sub, whole) = (u16::from_le_bytes([request[1], request[2]]), request[3], head & 0x10 != 0);
        if whole {
            for entry in whole_object(objects, index, sub)?.iter().filter(|entry| entry.sub > 0) {
                may(entry, access::WRITE, state, abort::READ_ONLY)?;
            }
        } else {
            may(objects.lookup(index, sub)?, access::WRITE, state, abort::READ_ONLY)?;
        }

        self.stage.clear();
        let size = if head & 0x02 != 0 {
            let unused = if head & 0x01 != 0 { usize::from(head >> 2 & 3) } else { 0 };
            self.stage.extend_from_slice(&request[4..8 - unused]);
            4 - unused
        } else {
            let size = u32::from_le_bytes([request[4], request[5], request[6], request[7]]) as usize;
            self.stage.extend_from_slice(&request[8..request.len().min(8usize.saturating_add(size))]);
            size
        };

        if size > LARGEST_OBJECT {
            return Err(abort::TOO_LONG);
        }

        let complete = self.stage.len() >= size;
        let written = if complete { self.store(objects, index, sub, whole)? } else { Answer::Reply };
        self.transfer =
            if complete { Transfer::None } else { Transfer::Download { index, sub, whole, size, toggle: 0 } };
        begin(reply, SDO_RESPONSE, UPLOAD_SEGMENT << 5, index, sub);
        reply.resize(10, 0);
        Ok(written)
    }

    fn download_segment(
        &mut self,
        objects: &mut Dictionary,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Answer, u32> {
        let Transfer::Download { index, sub, whole, size, toggle } = self.transfer else { return Err(abort::COMMAND) };
        let head = request[0];
        if head & 0x10 != toggle {
            return Err(abort::TOGGLE);
        }

        // Seven bytes are the least a segment has; fewer are told by the count of unused ones.
        let unused = if request.len() == 8 { usize::from(head >> 1 & 7) } else { 0 };
        let data = &request[1..request.len() - unused];
        if self.stage.len() + data.len() > LARGEST_OBJECT {
            return Err(abort::TOO_LONG);
        }

        self.stage.extend_from_slice(data);
        let last = head & 0x01 != 0;
        let mut written = Answer::Reply;
        if last {
            if self.stage.len() != size {
                return Err(abort::LENGTH);
            }
            written = self.store(objects, index, sub, whole)?;
        }

        self.transfer =
            if last { Transfer::None } else { Transfer::Download { index, sub, whole, size, toggle: toggle ^ 0x10 } };
        header(reply, SDO_RESPONSE);
        reply.push(1 << 5 | toggle);
        reply.resize(10, 0);
        Ok(written)
    }

    /// Puts what was received in its place.
    fn store(&mut self, objects: &mut Dictionary, index: u16, sub: u8, whole: bool) -> Result<Answer, u32> {
        if !whole {
            let entry = objects.lookup(index, sub)?;
            let (slot, bytes) = (entry.slot, entry.kind.bytes());
            if self.stage.len() != bytes {
                return Err(abort::LENGTH);
            }
            if !objects.takes(index, &self.stage) {
                return Err(abort::VALUE_RANGE);
            }

            objects.raw_mut(slot, bytes).copy_from_slice(&self.stage);
            return Ok(Answer::Written(index));
        }

        let entries = objects.find(index).ok_or(abort::NO_OBJECT)?.entries;
        let mut rest = self.stage.as_slice();
        for place in usize::from(sub)..entries {
            let entry = objects.find(index).and_then(|object| objects.entries_of(object).get(place));
            let entry = entry.ok_or(abort::NO_ENTRY)?;
            let (slot, bytes, writable) = (entry.slot, entry.kind.bytes(), entry.access & access::WRITE != 0);
            // What is not sent stays as it is: objects with a variable number of entries are sent up to their last one.
            let Some((value, after)) = rest.split_at_checked(bytes) else { break };
            if writable {
                objects.raw_mut(slot, bytes).copy_from_slice(value);
            }

            rest = if place == 0 { after.get(1..).unwrap_or_default() } else { after };
        }

        if rest.is_empty() { Ok(Answer::Written(index)) } else { Err(abort::LENGTH) }
    }
}

/// Entries of a whole object, up to the number that its entry 0 tells.
fn whole_object(objects: &Dictionary, index: u16, from: u8) -> Result<&[Entry], u32> {
    let object = objects.find(index).ok_or(abort::NO_OBJECT)?;
    if from > 1 || object.entries < 2 {
        return Err(abort::UNSUPPORTED_ACCESS);
    }

    let entries = objects.entries_of(object);
    let told = if entries[0].access & access::WRITE == 0 {
        entries.len()
    } else {
        let highest = objects.u8(entries[0].slot);
        entries.partition_point(|entry| entry.sub <= highest)
    };

    Ok(&entries[usize::from(from)..told.clamp(usize::from(from), entries.len())])
}

/// Whether an entry may be read or written in this AL state.
fn may(entry: &Entry, right: u16, state: u8, never: u32) -> Result<(), u32> {
    let granted = entry.access & right;
    let lowest = right & right.wrapping_neg();
    let now = match state {
        PREOP => lowest,
        SAFEOP => lowest << 1,
        _ => lowest << 2,
    };

    match granted {
        0 => Err(never),
        granted if granted & now == 0 => Err(abort::STATE),
        _ => Ok(()),
    }
}

fn header(reply: &mut Vec<u8>, kind: u16) {
    reply.clear();
    reply.extend_from_slice(&(kind << 12).to_le_bytes());
}

fn begin(reply: &mut Vec<u8>, kind: u16, command: u8, index: u16, sub: u8) {
    header(reply, kind);
    reply.push(command);
    reply.extend_from_slice(&index.to_le_bytes());
    reply.push(sub);
}
