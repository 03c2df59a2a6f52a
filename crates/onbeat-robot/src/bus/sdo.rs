//! One SDO transfer in acyclic frames: mails to and from a device, one per frame (ETG.1000.6,
//! 5.6.2).
//!
//! ```text
//! upload    request ──▶ ◀── expedited, or size and first bytes;   while bytes are missing: segment ──▶ ◀── bytes
//! download  request with bytes ──▶ ◀── accepted;                  while bytes are left:    segment ──▶ ◀── accepted
//! ```
//!
//! A transfer is created outside the loop with all the memory it needs.

use onbeat_rt::frame::word;

use onbeat_control::{RequestFailure, SdoAction, SdoRequest};
use onbeat_ethercat::coe::MAIL;
use onbeat_ethercat::coe::message::{SDO_REQUEST, SDO_RESPONSE};
use onbeat_ethercat::setup::ObjectValue;

/// Maximum length of a value, in bytes.
const LONGEST: usize = 1024;
/// Bytes before the value: mailbox header, CoE header, command, object and subindex, optionally the
/// size.
const HEADERS: usize = 12;
const WITH_SIZE: usize = HEADERS + 4;
/// In a segment, the value follows the command byte.
const IN_SEGMENT: usize = 9;
/// Cycles to wait for a response.
// Writing a parameter into a drive's flash takes seconds.
const TIMEOUT_CYCLES: u64 = 2_000;
/// Cycles to wait for a start-up value, which is written again because the mail may have been lost.
const STARTUP_TIMEOUT_CYCLES: u64 = 500;

/// Next action of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailboxStep {
    /// Send a mail.
    Send,
    /// Read the response.
    Receive,
    /// None: the transfer has ended.
    Done,
}

#[derive(Clone, Debug)]
pub(crate) struct SdoTransfer {
    request: SdoRequest,
    /// Bytes read so far, or the bytes to write.
    value: Vec<u8>,
    /// Size of the value to read, once known.
    size: usize,
    /// Bytes transferred.
    done: usize,
    /// Bytes in the last mail.
    sent: usize,
    toggle: bool,
    in_segments: bool,
    step: MailboxStep,
    since: u64,
    patience: u64,
    outcome: Option<Result<(), RequestFailure>>,
}

impl SdoTransfer {
    /// Creates a transfer that has not begun.
    pub(crate) fn new(request: SdoRequest) -> Self {
        let value = match &request.action {
            SdoAction::Read => Vec::with_capacity(LONGEST),
            SdoAction::Write(bytes) => bytes[..bytes.len().min(LONGEST)].to_vec(),
        };
        Self {
            request,
            value,
            size: 0,
            done: 0,
            sent: 0,
            toggle: false,
            in_segments: false,
            step: MailboxStep::Send,
            since: 0,
            patience: TIMEOUT_CYCLES,
            outcome: None,
        }
    }

    /// Creates the write of a start-up value of the device at this position.
    pub(super) fn startup_value(device: u16, value: &ObjectValue) -> Self {
        let index = value.index;
        let entry = value.entry;
        let complete = value.complete;
        let request = SdoRequest {
            device,
            index,
            entry,
            complete,
            action: SdoAction::Write(value.bytes.clone()),
        };
        Self { patience: STARTUP_TIMEOUT_CYCLES, ..Self::new(request) }
    }

    /// Restarts a write, whatever its state.
    pub(super) fn restart(&mut self) {
        // From the beginning: a device that has lost its mailbox has lost the transfer as well.
        (self.done, self.sent, self.toggle, self.in_segments) = (0, 0, false, false);
        (self.step, self.since, self.outcome) = (MailboxStep::Send, 0, None);
    }

    /// Returns index and subindex.
    pub(super) fn object(&self) -> (u16, u8) {
        (self.request.index, self.request.entry)
    }

    /// Returns the result of a write; `None` while in progress.
    pub(super) fn written(&self) -> Option<Result<(), RequestFailure>> {
        self.outcome
    }

    /// Returns the result; `None` while in progress.
    pub(crate) fn outcome(&self) -> Option<Result<Vec<u8>, RequestFailure>> {
        let read = || if self.is_upload() { self.value.clone() } else { Vec::new() };
        self.outcome.map(|outcome| outcome.map(|()| read()))
    }

    /// Returns the position of the device.
    pub(super) fn device(&self) -> usize {
        usize::from(self.request.device)
    }

    fn is_upload(&self) -> bool {
        self.request.action == SdoAction::Read
    }

    pub(crate) fn next_step(&self) -> MailboxStep {
        self.step
    }

    /// Ends the transfer with this result.
    pub(super) fn end(&mut self, outcome: Result<(), RequestFailure>) {
        self.outcome = Some(outcome);
        self.step = MailboxStep::Done;
    }

    /// Ends the transfer on timeout. `cycle` is the current cycle.
    pub(super) fn wait(&mut self, cycle: u64) {
        // Time counts from the first cycle that carries it, not from the request: another transfer
        // may have been before it.
        if self.since == 0 {
            self.since = cycle;
        }
        if self.step != MailboxStep::Done && cycle - self.since > self.patience {
            self.end(Err(RequestFailure::NoReply));
        }
    }

    /// Records that the device accepted the mail.
    pub(crate) fn was_sent(&mut self) {
        self.step = MailboxStep::Receive;
    }

    /// Writes the next mail into `mail`, which has the length of the mailbox. `counter`: 1 to 7.
    pub(crate) fn write(&mut self, mail: &mut [u8], counter: u8) {
        // The whole mailbox is written, and the rest of an earlier mail must not follow this one.
        mail.fill(0);
        let length = if self.in_segments { self.segment(mail) } else { self.first(mail) };
        mail[..2].copy_from_slice(&((length - 6) as u16).to_le_bytes());
        mail[5] = MAIL | counter << 4;
        mail[6..8].copy_from_slice(&(SDO_REQUEST << 12).to_le_bytes());
    }

    fn first(&mut self, mail: &mut [u8]) -> usize {
        let complete = if self.request.complete { 0x10 } else { 0 };
        mail[9..11].copy_from_slice(&self.request.index.to_le_bytes());
        mail[11] = self.request.entry;
        if self.is_upload() {
            mail[8] = 0x40 | complete;
            return WITH_SIZE;
        }

        let size = self.value.len();
        // Expedited: the value is in the place of its size (ETG.1000.6, SDO download).
        if (1..=4).contains(&size) {
            mail[8] = 0x23 | ((4 - size) as u8) << 2 | complete;
            mail[HEADERS..HEADERS + size].copy_from_slice(&self.value);
            self.sent = size;
            return WITH_SIZE;
        }

        mail[8] = 0x21 | complete;
        mail[HEADERS..WITH_SIZE].copy_from_slice(&(size as u32).to_le_bytes());
        self.sent = size.min(mail.len() - WITH_SIZE);
        mail[WITH_SIZE..WITH_SIZE + self.sent].copy_from_slice(&self.value[..self.sent]);
        WITH_SIZE + self.sent
    }

    fn segment(&mut self, mail: &mut [u8]) -> usize {
        let toggle = if self.toggle { 0x10 } else { 0 };
        if self.is_upload() {
            mail[8] = 0x60 | toggle;
            return WITH_SIZE;
        }

        let left = &self.value[self.done..];
        self.sent = left.len().min(mail.len() - IN_SEGMENT);
        let last = u8::from(self.sent == left.len());
        mail[IN_SEGMENT..IN_SEGMENT + self.sent].copy_from_slice(&left[..self.sent]);
        // A segment has at least seven bytes; the command byte holds the number of unused ones.
        let unused = 7usize.saturating_sub(self.sent);
        mail[8] = toggle | (unused as u8) << 1 | last;

        IN_SEGMENT + self.sent + unused
    }

    /// Processes a mail of the device; returns `false` if it does not belong to this transfer.
    pub(crate) fn answer(&mut self, mail: &[u8], cycle: u64) -> bool {
        if self.step != MailboxStep::Receive || mail.len() < WITH_SIZE || mail[5] & 0x0f != MAIL {
            return false;
        }

        let service = word(mail, 6) >> 12;
        let command = mail[8];
        // A device aborts with the service code of a request.
        let is_abort = service == SDO_REQUEST && command & 0xe0 == 0x80;
        if service != SDO_RESPONSE && !is_abort {
            return false;
        }

        // Segments carry no index. Outside of them an answer to an earlier request, which came
        // late, is not taken for this one.
        let is_about_it = self.in_segments && command & 0xe0 != 0x80
            || (word(mail, 9), mail[11]) == self.object();
        if !is_about_it {
            return false;
        }

        self.since = cycle;
        if command & 0xe0 == 0x80 {
            let code = [mail[12], mail[13], mail[14], mail[15]];
            self.end(Err(RequestFailure::Abort(u32::from_le_bytes(code))));
        } else if self.is_upload() {
            self.take_bytes(mail, command);
        } else {
            self.acknowledge(command);
        }

        true
    }

    fn take_bytes(&mut self, mail: &[u8], command: u8) {
        let end = (6 + usize::from(word(mail, 0))).min(mail.len());
        if !self.in_segments && command & 0x02 != 0 {
            let unused = if command & 1 != 0 { usize::from(command >> 2 & 3) } else { 0 };
            return self.keep(&mail[HEADERS..WITH_SIZE - unused], true);
        }

        if !self.in_segments {
            self.size = u32::from_le_bytes([mail[12], mail[13], mail[14], mail[15]]) as usize;
            if self.size > LONGEST {
                return self.end(Err(RequestFailure::TooLong));
            }

            let bytes = &mail[WITH_SIZE..end.max(WITH_SIZE)];
            let bytes = &bytes[..bytes.len().min(self.size)];
            return self.keep(bytes, bytes.len() == self.size);
        }

        let unused = if end <= WITH_SIZE { usize::from(command >> 1 & 7) } else { 0 };
        let bytes = &mail[IN_SEGMENT..end.saturating_sub(unused).max(IN_SEGMENT)];
        self.toggle = !self.toggle;
        self.keep(bytes, command & 1 != 0);
    }

    fn keep(&mut self, bytes: &[u8], is_last: bool) {
        if self.value.len() + bytes.len() > LONGEST {
            return self.end(Err(RequestFailure::TooLong));
        }

        self.value.extend_from_slice(bytes);
        self.in_segments = true;
        self.step = MailboxStep::Send;
        if is_last {
            self.end(Ok(()));
        }
    }

    fn acknowledge(&mut self, command: u8) {
        // Only a confirmed segment turns it; the answer to the first part has none.
        self.toggle = if command & 0xe0 == 0x20 { !self.toggle } else { self.toggle };
        self.done += self.sent;
        self.in_segments = true;
        self.step = MailboxStep::Send;
        if self.done >= self.value.len() {
            self.end(Ok(()));
        }
    }
}
