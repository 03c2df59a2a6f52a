//! Mails between MainDevice and device: their headers, counters and queue.

use super::coe::{Answer, Dictionary, Server};
use super::controller::{Controller, event};
use super::registers::word;

/// Length, address, channel, and type with counter.
const HEADER: usize = 6;
const ERROR: u8 = 0;
const COE: u8 = 3;
/// Mails that wait for the MainDevice at most; an emergency beyond them is dropped, as in a device.
const QUEUE: usize = 8;
const UNSUPPORTED_PROTOCOL: u16 = 2;
const INVALID_SIZE: u16 = 8;

/// Both mailboxes of a device.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    pub(crate) server: Server,
    has_coe: bool,
    /// Mails to send, in a ring.
    queue: Vec<Vec<u8>>,
    first: usize,
    waiting: usize,
    last_sent: Vec<u8>,
    request: Vec<u8>,
    scratch: Vec<u8>,
    counter: u8,
    heard: u8,
    /// Faults of this mailbox.
    pub(crate) faults: MailFaults,
}

/// What is wrong with a mailbox.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MailFaults {
    /// Requests are taken and never answered.
    pub(crate) mute: bool,
    /// So many of the next mails go out with a counter that is not theirs.
    pub(crate) wrong_counters: u32,
    /// So many of the next replies are lost in the device.
    pub(crate) lost_replies: u32,
}

impl Mailbox {
    /// `length`: bytes of the mailbox to the MainDevice. `details`: what the device can do with CoE. `objects`: how many it has.
    pub(crate) fn new(length: usize, details: u8, objects: usize) -> Self {
        Self {
            server: Server::new(length - HEADER - 2, details, objects),
            has_coe: details != 0,
            queue: (0..QUEUE).map(|_| Vec::with_capacity(length)).collect(),
            first: 0,
            waiting: 0,
            last_sent: Vec::with_capacity(length),
            request: Vec::with_capacity(2048),
            scratch: Vec::with_capacity(length),
            counter: 0,
            heard: 0,
            faults: MailFaults::default(),
        }
    }

    /// Forgets all mail, as at the way from INIT to PREOP.
    pub(crate) fn reset(&mut self) {
        self.server.reset();
        self.waiting = 0;
        self.counter = 0;
        self.heard = 0;
    }

    /// Serves what arrived and sends what waits. The object that was written, if one was.
    pub(crate) fn run(&mut self, controller: &mut Controller, objects: &mut Dictionary, state: u8) -> Option<u16> {
        let mut written = None;
        if controller.events & event::MAIL_ARRIVED != 0 {
            let inbox = &mut controller.sync_managers[0];
            inbox.full = false;
            let (start, length) = (inbox.start, inbox.length);
            self.request.clear();
            self.request.extend_from_slice(controller.area(start, length));
            if !self.faults.mute {
                written = self.serve(objects, state);
            }
        }

        if controller.events & event::REPEAT != 0 {
            self.repeat(controller);
        }

        self.send(controller);
        written
    }

    fn serve(&mut self, objects: &mut Dictionary, state: u8) -> Option<u16> {
        if self.request.len() < HEADER {
            return None;
        }

        let length = usize::from(word(&self.request, 0));
        let (kind, counter) = (self.request[5] & 0x0f, self.request[5] >> 4 & 7);
        // The same counter twice is the same request twice; 0 does not take part in this.
        if counter != 0 && counter == self.heard {
            return None;
        }

        self.heard = counter;
        if HEADER + length > self.request.len() {
            self.refuse(INVALID_SIZE);
            return None;
        }

        if kind != COE || !self.has_coe {
            self.refuse(UNSUPPORTED_PROTOCOL);
            return None;
        }

        let mut reply = std::mem::take(&mut self.scratch);
        let answer = self.server.answer(objects, state, &self.request[HEADER..HEADER + length], &mut reply);
        if let Answer::Refused(detail) = answer {
            self.refuse(detail);
        } else if answer != Answer::Nothing {
            if self.faults.lost_replies > 0 {
                self.faults.lost_replies -= 1;
            } else {
                self.post(COE, &reply);
            }
        }

        self.scratch = reply;
        match answer {
            Answer::Written(index) => Some(index),
            _ => None,
        }
    }

    fn refuse(&mut self, detail: u16) {
        let [low, high] = detail.to_le_bytes();
        self.post(ERROR, &[1, 0, low, high]);
    }

    /// Queues an emergency. `false` when the queue is full.
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

        let mail = &mut self.queue[(self.first + self.waiting) % QUEUE];
        mail.clear();
        mail.extend_from_slice(&(body.len() as u16).to_le_bytes());
        mail.extend_from_slice(&[0, 0, 0, kind | counter << 4]);
        mail.extend_from_slice(body);
        self.waiting += 1;
        true
    }

    fn send(&mut self, controller: &mut Controller) {
        if self.waiting == 0 {
            let mut more = std::mem::take(&mut self.scratch);
            if self.server.continues(&mut more) {
                self.post(COE, &more);
            }
            self.scratch = more;
        }

        let outbox = &controller.sync_managers[1];
        if self.waiting == 0 || outbox.full || !outbox.enabled {
            return;
        }

        std::mem::swap(&mut self.last_sent, &mut self.queue[self.first]);
        self.first = (self.first + 1) % QUEUE;
        self.waiting -= 1;
        self.put(controller);
    }

    fn put(&self, controller: &mut Controller) {
        let outbox = &mut controller.sync_managers[1];
        outbox.full = true;
        let (start, length) = (outbox.start, outbox.length);
        let area = controller.area_mut(start, length);
        let bytes = self.last_sent.len().min(area.len());
        area[..bytes].copy_from_slice(&self.last_sent[..bytes]);
        area[bytes..].fill(0);
    }

    /// Puts the last mail back, for a MainDevice that did not get it.
    fn repeat(&self, controller: &mut Controller) {
        let outbox = &mut controller.sync_managers[1];
        outbox.repeat_done = outbox.repeat_request;
        if !self.last_sent.is_empty() {
            self.put(controller);
        }
    }
}
