//! Mailbox of a device: headers, counters and queue of mails.

use super::coe::{Dictionary, SdoOutcome, SdoServer};
use super::esc::{Esc, event};
use super::firmware::{BOOT, Mailboxes};
use super::foe::{self, FileServer};
use super::registers::word;
use onbeat_ethercat::coe::MAIL as COE;

/// Mailbox header: length, address, channel, and type with counter.
const HEADER: usize = 6;
const ERROR: u8 = 0;
const FOE: u8 = 4;
/// Most mails that wait for the MainDevice; further emergencies are dropped, as in a real device.
const QUEUE: usize = 8;
const UNSUPPORTED_PROTOCOL: u16 = 2;
const INVALID_SIZE: u16 = 8;

/// Receive and send mailbox of a device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMailbox {
    pub(crate) server: SdoServer,
    has_coe: bool,
    /// Files, if the device serves them.
    files: Option<FileServer>,
    /// Lengths of the mailboxes, to the device first: usual ones, and those in BOOT.
    lengths: [(u16, u16); 2],
    /// Ring of mails to send.
    queue: Vec<Vec<u8>>,
    first: usize,
    waiting: usize,
    last_sent: Vec<u8>,
    request: Vec<u8>,
    scratch: Vec<u8>,
    counter: u8,
    last_counter: u8,
    /// The current instant, and the one at which a delayed reply is sent.
    now_ns: u64,
    ready_ns: u64,
    /// Injected faults.
    pub(crate) faults: MailboxFaults,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MailboxFaults {
    /// Requests are accepted but never served.
    pub(crate) mute: bool,
    /// Time from a request to its reply, in ns.
    pub(crate) slow_ns: u64,
    /// Number of next mails sent with a wrong counter.
    pub(crate) wrong_counters: u32,
    /// Number of next replies that are lost.
    pub(crate) lost_replies: u32,
    /// Number of next replies that are sent twice.
    pub(crate) repeated_replies: u32,
}

impl DeviceMailbox {
    /// Creates the mailbox of a device with this number of objects.
    pub(crate) fn new(boxes: &Mailboxes, objects: usize) -> Self {
        let length = usize::from(boxes.to_main.1);
        let [to, from] = boxes.bootstrap;
        Self {
            server: SdoServer::new(length - HEADER - 2, boxes.coe, objects),
            has_coe: boxes.coe != 0,
            files: boxes.foe.then(FileServer::new),
            lengths: [(boxes.to_device.1, boxes.to_main.1), (to.1, from.1)],
            queue: (0..QUEUE).map(|_| Vec::with_capacity(length)).collect(),
            first: 0,
            waiting: 0,
            last_sent: Vec::with_capacity(length),
            request: Vec::with_capacity(2048),
            scratch: Vec::with_capacity(length),
            counter: 0,
            last_counter: 0,
            now_ns: 0,
            ready_ns: 0,
            faults: MailboxFaults::default(),
        }
    }

    /// Discards all mail, as in the transition from INIT to PREOP; there is none to repeat.
    pub(crate) fn reset(&mut self, esc: &mut Esc) {
        let outbox = &mut esc.sync_managers[1];
        outbox.repeat_done = outbox.repeat_request;
        self.last_sent.clear();
        self.server.reset();
        if let Some(files) = &mut self.files {
            files.reset();
        }
        self.waiting = 0;
        self.counter = 0;
        self.last_counter = 0;
        self.ready_ns = 0;
    }

    /// Returns the time at which a delayed reply is sent; `u64::MAX` for none.
    pub(crate) fn due_ns(&self) -> u64 {
        let is_delayed = self.waiting > 0 && self.ready_ns > self.now_ns;
        if is_delayed { self.ready_ns } else { u64::MAX }
    }

    /// Serves a received mail and sends a waiting one. Returns the index of the object that was
    /// written, if any.
    pub(crate) fn run(
        &mut self,
        esc: &mut Esc,
        objects: &mut Dictionary,
        state: u8,
        now_ns: u64,
    ) -> Option<u16> {
        self.now_ns = now_ns;
        let mut written = None;
        if esc.events & event::MAIL_ARRIVED != 0 {
            let inbox = &mut esc.sync_managers[0];
            inbox.full = false;
            let start = inbox.start;
            let length = inbox.length;
            self.request.clear();
            self.request.extend_from_slice(esc.area(start, length));
            if !self.faults.mute {
                written = self.serve(objects, state);
            }
        }

        if esc.events & event::REPEAT != 0 {
            self.repeat(esc);
        }

        self.send(esc);
        written
    }

    fn serve(&mut self, objects: &mut Dictionary, state: u8) -> Option<u16> {
        if self.request.len() < HEADER {
            return None;
        }

        let length = usize::from(word(&self.request, 0));
        let kind = self.request[5] & 0x0f;
        let counter = self.request[5] >> 4 & 7;
        // A repeated counter is a repeated request; counter 0 is not checked.
        if counter != 0 && counter == self.last_counter {
            return None;
        }

        self.last_counter = counter;
        if HEADER + length > self.request.len() {
            self.refuse(INVALID_SIZE);
            return None;
        }

        if kind == FOE && self.files.is_some() {
            self.serve_file(length, state == BOOT);
            return None;
        }
        if kind != COE || !self.has_coe || state == BOOT {
            self.refuse(UNSUPPORTED_PROTOCOL);
            return None;
        }

        let mut reply = std::mem::take(&mut self.scratch);
        let outcome =
            self.server.serve(objects, state, &self.request[HEADER..HEADER + length], &mut reply);
        if let SdoOutcome::Refused(detail) = outcome {
            self.refuse(detail);
        } else if outcome != SdoOutcome::Nothing {
            if self.faults.lost_replies > 0 {
                self.faults.lost_replies -= 1;
            } else {
                self.post(COE, &reply);
                if self.faults.repeated_replies > 0 {
                    self.faults.repeated_replies -= 1;
                    self.post(COE, &reply);
                }
            }
        }

        self.scratch = reply;
        match outcome {
            SdoOutcome::Written(index) => Some(index),
            _ => None,
        }
    }

    fn serve_file(&mut self, length: usize, is_boot: bool) {
        let Some(files) = &mut self.files else { return };
        let (to, from) = self.lengths[usize::from(is_boot)];
        let room = |bytes: u16| usize::from(bytes).saturating_sub(HEADER + foe::HEAD);
        let mut reply = std::mem::take(&mut self.scratch);
        let request = &self.request[HEADER..HEADER + length];
        if files.serve(request, (room(to), room(from)), is_boot, &mut reply) {
            self.post(FOE, &reply);
        }
        self.scratch = reply;
    }

    fn refuse(&mut self, detail: u16) {
        let [low, high] = detail.to_le_bytes();
        self.post(ERROR, &[1, 0, low, high]);
    }

    /// Queues an emergency. Returns `false` when the queue is full.
    pub(crate) fn emergency(&mut self, code: u16, register: u8, detail: [u8; 5]) -> bool {
        let [low, high] = code.to_le_bytes();
        let [a, b, c, d, e] = detail;
        self.post(COE, &[0x00, 0x10, low, high, register, a, b, c, d, e])
    }

    fn post(&mut self, kind: u8, body: &[u8]) -> bool {
        if self.waiting == QUEUE {
            return false;
        }

        self.counter = self.counter % 7 + 1;
        let mut counter = self.counter;
        if self.faults.wrong_counters > 0 {
            self.faults.wrong_counters -= 1;
            counter = (counter + 2) % 7 + 1;
        }

        if self.waiting == 0 && self.faults.slow_ns > 0 {
            self.ready_ns = self.now_ns.saturating_add(self.faults.slow_ns);
        }
        let mail = &mut self.queue[(self.first + self.waiting) % QUEUE];
        mail.clear();
        mail.extend_from_slice(&(body.len() as u16).to_le_bytes());
        mail.extend_from_slice(&[0, 0, 0, kind | counter << 4]);
        mail.extend_from_slice(body);
        self.waiting += 1;
        true
    }

    fn send(&mut self, esc: &mut Esc) {
        if self.waiting == 0 {
            let mut more = std::mem::take(&mut self.scratch);
            if self.server.next_mail(&mut more) {
                self.post(COE, &more);
            }
            self.scratch = more;
        }

        let outbox = &esc.sync_managers[1];
        if self.waiting == 0 || outbox.full || !outbox.enabled || self.now_ns < self.ready_ns {
            return;
        }

        std::mem::swap(&mut self.last_sent, &mut self.queue[self.first]);
        self.first = (self.first + 1) % QUEUE;
        self.waiting -= 1;
        self.put(esc);
    }

    fn put(&self, esc: &mut Esc) {
        let outbox = &mut esc.sync_managers[1];
        outbox.full = true;
        let start = outbox.start;
        let length = outbox.length;
        let area = esc.area_mut(start, length);
        let bytes = self.last_sent.len().min(area.len());
        area[..bytes].copy_from_slice(&self.last_sent[..bytes]);
        area[bytes..].fill(0);
    }

    /// Sends the last mail again.
    fn repeat(&self, esc: &mut Esc) {
        let outbox = &mut esc.sync_managers[1];
        outbox.repeat_done = outbox.repeat_request;
        if !self.last_sent.is_empty() {
            self.put(esc);
        }
    }
}
