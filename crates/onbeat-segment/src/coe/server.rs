//! SDO server: expedited, normal and segmented transfers of single entries, and complete access.

use super::message::{SDO_INFORMATION, SDO_REQUEST, SDO_RESPONSE};
use super::{Dictionary, ObjectEntry, abort, access, details, information};
use crate::registers::put_bit;
use onbeat_ethercat::al;

/// Command specifiers of requests and replies.
const DOWNLOAD_SEGMENT: u8 = 0;
const DOWNLOAD: u8 = 1;
const UPLOAD: u8 = 2;
const UPLOAD_SEGMENT: u8 = 3;
const ABORT: u8 = 4;
/// Largest object that can be transferred, in bytes.
const LARGEST_OBJECT: usize = 4096;

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdoOutcome {
    /// No reply.
    Nothing,
    Reply,
    /// A reply; the object with this index was written.
    Written(u16),
    /// A mailbox error with this detail: the mail is not a supported CoE request.
    Refused(u16),
}

/// Details of mailbox errors (ETG.1000.6, table 29).
pub(crate) const UNSUPPORTED_SERVICE: u16 = 4;
pub(crate) const TOO_SHORT: u16 = 6;
/// Smallest SDO and SDO information requests after the CoE header, in bytes.
const SDO_BYTES: usize = 8;
const INFORMATION_BYTES: usize = 4;

/// A transfer with several mails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerTransfer {
    None,
    Upload { sent: usize, toggle: u8 },
    Download { index: u16, subindex: u8, complete: bool, size: usize, toggle: u8 },
}

/// SDO server of one device.
#[derive(Clone, Debug)]
pub(crate) struct SdoServer {
    transfer: ServerTransfer,
    /// Data of the current transfer.
    buffer: Vec<u8>,
    object_list: information::ObjectList,
    /// Fault: the next SDO request is aborted with this code.
    pub(crate) abort_next: Option<u32>,
    /// Capacity of a mail after its header, in bytes.
    room: usize,
    /// CoE details of the device.
    details: u8,
}

impl SdoServer {
    /// Creates a server. `room`: capacity of a mail to the MainDevice after its header, in bytes.
    /// `details`: CoE details, see [`details`]. `objects`: number of objects.
    pub(crate) fn new(room: usize, details: u8, objects: usize) -> Self {
        Self {
            transfer: ServerTransfer::None,
            buffer: Vec::with_capacity(LARGEST_OBJECT),
            object_list: information::ObjectList::new(objects),
            abort_next: None,
            room,
            details,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.transfer = ServerTransfer::None;
        self.object_list.clear();
    }

    /// Serves a request and writes the reply after the mailbox header to `reply`.
    pub(crate) fn serve(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> SdoOutcome {
        reply.clear();
        let Some(header) = request.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes))
        else {
            return SdoOutcome::Refused(TOO_SHORT);
        };

        let bytes = request.len() - 2;
        match header >> 12 {
            SDO_INFORMATION if self.details & details::INFORMATION == 0 => {
                SdoOutcome::Refused(UNSUPPORTED_SERVICE)
            }
            SDO_REQUEST if bytes < SDO_BYTES => SdoOutcome::Refused(TOO_SHORT),
            SDO_INFORMATION if bytes < INFORMATION_BYTES => SdoOutcome::Refused(TOO_SHORT),
            SDO_REQUEST => self.sdo(objects, state, &request[2..], reply),
            SDO_INFORMATION => {
                self.object_list.serve(objects, &request[2..], self.room, reply);
                SdoOutcome::Reply
            }
            _ => SdoOutcome::Refused(UNSUPPORTED_SERVICE),
        }
    }

    /// Writes the next mail of a list to `reply`. Returns `false` when there is none.
    pub(crate) fn next_mail(&mut self, reply: &mut Vec<u8>) -> bool {
        self.object_list.next_mail(self.room, reply)
    }

    fn sdo(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> SdoOutcome {
        let Some(&head) = request.first_chunk::<8>() else { return SdoOutcome::Nothing };
        let index = u16::from_le_bytes([head[1], head[2]]);
        let subindex = head[3];
        let done = match self.abort_next.take() {
            Some(code) => Err(code),
            // Uploads and downloads have the complete access flag in the same bit.
            None if self.details & details::COMPLETE_ACCESS == 0
                && head[0] & 0x10 != 0
                && matches!(head[0] >> 5, DOWNLOAD | UPLOAD) =>
            {
                Err(abort::UNSUPPORTED_ACCESS)
            }
            None => match head[0] >> 5 {
                DOWNLOAD => self.download(objects, state, request, reply),
                UPLOAD => self.upload(objects, state, &head, reply),
                DOWNLOAD_SEGMENT => self.download_segment(objects, state, request, reply),
                UPLOAD_SEGMENT => self.upload_segment(head[0], reply),
                ABORT => {
                    self.transfer = ServerTransfer::None;
                    return SdoOutcome::Nothing;
                }
                _ => Err(abort::COMMAND),
            },
        };

        done.unwrap_or_else(|code| {
            self.transfer = ServerTransfer::None;
            begin(reply, SDO_REQUEST, ABORT << 5, index, subindex);
            reply.extend_from_slice(&code.to_le_bytes());
            SdoOutcome::Reply
        })
    }

    // ---- upload: from the device

    fn upload(
        &mut self,
        objects: &Dictionary,
        state: u8,
        head: &[u8; 8],
        reply: &mut Vec<u8>,
    ) -> Result<SdoOutcome, u32> {
        let index = u16::from_le_bytes([head[1], head[2]]);
        let subindex = head[3];
        let complete_flag = head[0] & 0x10;
        self.buffer.clear();
        if complete_flag != 0 {
            self.gather(objects, state, index, subindex)?;
        } else {
            let entry = objects.lookup(index, subindex)?;
            check_access(entry, access::READ, state, abort::WRITE_ONLY)?;
            self.buffer.extend_from_slice(objects.bytes(entry));
        }

        let size = self.buffer.len();
        if size <= 4 && size > 0 {
            let command = UPLOAD << 5 | complete_flag | (4 - size as u8) << 2 | 0x03;
            begin(reply, SDO_RESPONSE, command, index, subindex);
            reply.extend_from_slice(&self.buffer);
            reply.resize(10, 0);
        } else {
            begin(reply, SDO_RESPONSE, UPLOAD << 5 | complete_flag | 0x01, index, subindex);
            reply.extend_from_slice(&(size as u32).to_le_bytes());
            let now = size.min(self.room - 10);
            reply.extend_from_slice(&self.buffer[..now]);
            self.transfer = if now < size {
                ServerTransfer::Upload { sent: now, toggle: 0 }
            } else {
                ServerTransfer::None
            };
        }

        Ok(SdoOutcome::Reply)
    }

    fn upload_segment(&mut self, head: u8, reply: &mut Vec<u8>) -> Result<SdoOutcome, u32> {
        let ServerTransfer::Upload { sent, toggle } = self.transfer else {
            return Err(abort::COMMAND);
        };
        if head & 0x10 != toggle {
            return Err(abort::TOGGLE);
        }

        let now = (self.buffer.len() - sent).min(self.room - 3);
        let last = sent + now == self.buffer.len();
        let unused = 7usize.saturating_sub(now) as u8;
        header(reply, SDO_RESPONSE);
        reply.push(toggle | unused << 1 | u8::from(last));
        reply.extend_from_slice(&self.buffer[sent..sent + now]);
        reply.resize(reply.len().max(10), 0);
        self.transfer = if last {
            ServerTransfer::None
        } else {
            ServerTransfer::Upload { sent: sent + now, toggle: toggle ^ 0x10 }
        };

        Ok(SdoOutcome::Reply)
    }

    /// Collects a whole object, from entry 0 or 1 on.
    fn gather(&mut self, objects: &Dictionary, state: u8, index: u16, from: u8) -> Result<(), u32> {
        let entries = whole_object(objects, index, from)?;
        check_any(entries, access::READ, state, abort::WRITE_ONLY)?;
        for entry in entries {
            let bits = entry.bits_from(from);
            self.buffer.resize(bits.end.div_ceil(8), 0);
            if check_access(entry, access::READ, state, abort::WRITE_ONLY).is_ok() {
                let to = self.buffer.as_mut_slice();
                copy_bits((to, bits.start), (objects.bytes(entry), 0), bits.len());
            }
        }
        Ok(())
    }

    // ---- download: to the device

    fn download(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<SdoOutcome, u32> {
        let head = request[0];
        let index = u16::from_le_bytes([request[1], request[2]]);
        let subindex = request[3];
        let complete = head & 0x10 != 0;
        if complete {
            let entries = whole_object(objects, index, subindex)?;
            check_any(entries, access::WRITE, state, abort::READ_ONLY)?;
        } else {
            check_access(objects.lookup(index, subindex)?, access::WRITE, state, abort::READ_ONLY)?;
        }

        self.buffer.clear();
        let size = if head & 0x02 != 0 {
            let unused = if head & 0x01 != 0 { usize::from(head >> 2 & 3) } else { 0 };
            self.buffer.extend_from_slice(&request[4..8 - unused]);
            4 - unused
        } else {
            let size =
                u32::from_le_bytes([request[4], request[5], request[6], request[7]]) as usize;
            self.buffer
                .extend_from_slice(&request[8..request.len().min(8usize.saturating_add(size))]);
            size
        };

        if size > LARGEST_OBJECT {
            return Err(abort::TOO_LONG);
        }

        let outcome = if self.buffer.len() >= size {
            self.transfer = ServerTransfer::None;
            self.store(objects, state, (index, subindex), complete)?
        } else {
            self.transfer = ServerTransfer::Download { index, subindex, complete, size, toggle: 0 };
            SdoOutcome::Reply
        };
        begin(reply, SDO_RESPONSE, UPLOAD_SEGMENT << 5, index, subindex);
        reply.resize(10, 0);
        Ok(outcome)
    }

    fn download_segment(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<SdoOutcome, u32> {
        let ServerTransfer::Download { index, subindex, complete, size, toggle } = self.transfer
        else {
            return Err(abort::COMMAND);
        };
        let head = request[0];
        if head & 0x10 != toggle {
            return Err(abort::TOGGLE);
        }

        // A segment has at least seven bytes; shorter data use the count of unused bytes.
        let unused = if request.len() == 8 { usize::from(head >> 1 & 7) } else { 0 };
        let data = &request[1..request.len() - unused];
        if self.buffer.len() + data.len() > LARGEST_OBJECT {
            return Err(abort::TOO_LONG);
        }

        self.buffer.extend_from_slice(data);
        let outcome = if head & 0x01 != 0 {
            if self.buffer.len() != size {
                return Err(abort::LENGTH);
            }
            self.transfer = ServerTransfer::None;
            self.store(objects, state, (index, subindex), complete)?
        } else {
            let toggle = toggle ^ 0x10;
            self.transfer = ServerTransfer::Download { index, subindex, complete, size, toggle };
            SdoOutcome::Reply
        };
        header(reply, SDO_RESPONSE);
        reply.push(1 << 5 | toggle);
        reply.resize(10, 0);
        Ok(outcome)
    }

    /// Stores the received data in the dictionary.
    fn store(
        &mut self,
        objects: &mut Dictionary,
        state: u8,
        (index, subindex): (u16, u8),
        complete: bool,
    ) -> Result<SdoOutcome, u32> {
        if !complete {
            let entry = objects.lookup(index, subindex)?;
            let slot = entry.slot;
            let bytes = entry.kind.bytes();
            if self.buffer.len() != bytes {
                return Err(abort::LENGTH);
            }
            if !objects.accepts(index, &self.buffer) {
                return Err(abort::VALUE_RANGE);
            }

            objects.check_mapping(index, subindex, &self.buffer)?;
            objects.check_cleared(objects.lookup(index, subindex)?, &self.buffer)?;
            objects.raw_mut(slot, bytes).copy_from_slice(&self.buffer);
            return Ok(SdoOutcome::Written(index));
        }

        let entries = objects.find(index).ok_or(abort::NO_OBJECT)?.entries;
        self.check_whole_mapping(objects, index, subindex)?;
        let given = 8 * self.buffer.len();
        let mut most = 0;
        for position in usize::from(subindex)..entries {
            let entry =
                objects.find(index).and_then(|object| objects.entries_of(object).get(position));
            let entry = entry.ok_or(abort::NO_ENTRY)?;
            let slot = entry.slot;
            let bytes = entry.kind.bytes();
            let writable = check_access(entry, access::WRITE, state, abort::READ_ONLY).is_ok();
            let bits = entry.bits_from(subindex);
            // Entries that are not sent keep their values: objects with a variable number of
            // entries are sent up to the last one.
            if bits.end > given {
                most = bits.start;
                break;
            }
            most = bits.end.next_multiple_of(8);
            if writable {
                let value = objects.raw_mut(slot, bytes);
                copy_bits((value, 0), (self.buffer.as_slice(), bits.start), bits.len());
            }
        }

        if given <= most { Ok(SdoOutcome::Written(index)) } else { Err(abort::LENGTH) }
    }

    /// Checks all entries of a mapping or an assignment that is written at once, before the first
    /// is stored.
    fn check_whole_mapping(&self, objects: &Dictionary, index: u16, from: u8) -> Result<(), u32> {
        let mut rest = self.buffer.as_slice();
        let Some(object) = objects.find(index) else { return Ok(()) };
        for entry in objects.entries_of(object).iter().skip(usize::from(from)) {
            let Some((value, after)) = rest.split_at_checked(entry.kind.bytes()) else { break };
            if entry.subindex > 0 {
                objects.check_mapping(index, entry.subindex, value)?;
            }
            rest = if entry.subindex == 0 { after.get(1..).unwrap_or_default() } else { after };
        }
        Ok(())
    }
}

/// Returns the entries of a whole object, up to the subindex in a writable entry 0.
fn whole_object(objects: &Dictionary, index: u16, from: u8) -> Result<&[ObjectEntry], u32> {
    let object = objects.find(index).ok_or(abort::NO_OBJECT)?;
    if from > 1 || object.entries < 2 {
        return Err(abort::UNSUPPORTED_ACCESS);
    }

    let entries = objects.entries_of(object);
    let count = if entries[0].access & access::WRITE == 0 {
        entries.len()
    } else {
        let highest = objects.u8(entries[0].slot);
        entries.partition_point(|entry| entry.subindex <= highest)
    };

    Ok(&entries[usize::from(from)..count.clamp(usize::from(from), entries.len())])
}

/// Copies bits, each side from its position on, as far as both have them.
fn copy_bits((to, to_bit): (&mut [u8], usize), (from, from_bit): (&[u8], usize), count: usize) {
    for bit in 0..count.min(8 * to.len() - to_bit).min(8 * from.len() - from_bit) {
        let at = from_bit + bit;
        put_bit(to, to_bit + bit, from[at / 8] >> (at % 8) & 1 != 0);
    }
}

/// Checks that at least one entry can be read or written in this AL state, as [`check_access`].
/// Complete access reads zeros of the others, and ignores what is written to them.
fn check_any(entries: &[ObjectEntry], right: u16, state: u8, never: u32) -> Result<(), u32> {
    let mut refused = None;
    for entry in entries {
        match check_access(entry, right, state, never) {
            Ok(()) => return Ok(()),
            // Another state is more than never.
            Err(code) => refused = refused.max(Some(code)),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Checks that an entry can be read or written in this AL state; `never` is the abort code when it
/// cannot in any state.
fn check_access(entry: &ObjectEntry, right: u16, state: u8, never: u32) -> Result<(), u32> {
    let granted = entry.access & right;
    let lowest = right & right.wrapping_neg();
    let now = match state {
        al::PREOP => lowest,
        al::SAFEOP => lowest << 1,
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

fn begin(reply: &mut Vec<u8>, kind: u16, command: u8, index: u16, subindex: u8) {
    header(reply, kind);
    reply.push(command);
    reply.extend_from_slice(&index.to_le_bytes());
    reply.push(subindex);
}
