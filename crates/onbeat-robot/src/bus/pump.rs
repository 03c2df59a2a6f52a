//! Carries frames between ethercrab and a wire, in one thread: a future is polled, what it wants sent is sent, what comes back is given
//! to it.
//!
//! ethercrab is kept from what would end it: a frame that got lost is sent again here, one that comes back late or damaged is dropped,
//! and an emergency in a mailbox becomes an event; the mailbox is asked again until it holds what was asked for. What it wants to know of
//! EEPROMs is read of all devices at once.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use ethercrab::{PduRx, PduTx};
use onbeat_rt::frame::{self, Command, LONGEST, Writer, word};
use onbeat_rt::time::Instant;

use super::Wire;
use super::eeproms::{Eeproms, Way};
use super::error::BusError;
use super::exchange::ASIDE;
use super::memory::{Memory, datagrams};
use super::numbers::{self, Numbers};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};

/// A frame that has not come back by then is sent again.
const REPLY_WITHIN_NS: u64 = 5_000_000;
/// So many times in all.
const MOST_TRIES: u32 = 20;
/// A mailbox that held an emergency is asked again after this time.
const AGAIN_AFTER_NS: u64 = 200_000;
/// And so often.
const MOST_AGAIN: u32 = 2_000;
/// Polls without anything on its way, before the library counts as hung.
const MOST_IDLE: u32 = 200_000;
/// EEPROMs that have not read eight bytes by then are left to ethercrab. What they take is some 0.2 to 0.5 ms.
const READ_WITHIN_NS: u64 = 20_000_000;
/// They are looked at so often at most.
const MOST_LOOKS: u32 = 1_000;
/// Where mailboxes begin.
const MEMORY: u16 = 0x1000;

/// A frame on its way.
struct OnItsWay {
    bytes: Box<[u8; LONGEST]>,
    length: usize,
    until: Instant,
    tries: u32,
    /// Whether an emergency was taken from its reply: an empty mailbox is no answer any more.
    took_mail: bool,
}

pub(super) struct Pump<'w, 's, W> {
    pub(super) wire: &'w mut W,
    tx: PduTx<'s>,
    rx: PduRx<'s>,
    on_its_way: Vec<OnItsWay>,
    pub(super) memory: Memory,
    eeproms: Eeproms,
    pub(super) numbers: Numbers,
    pub(super) events: Vec<Event>,
    pub(super) frames: u64,
    pub(super) again: u64,
}

impl<'w, 's, W: Wire> Pump<'w, 's, W> {
    pub(super) fn new(wire: &'w mut W, (tx, rx): (PduTx<'s>, PduRx<'s>)) -> Self {
        let (memory, eeproms, numbers) = (Memory::default(), Eeproms::default(), Numbers::of(wire.now().as_ns()));
        Self { wire, tx, rx, on_its_way: Vec::new(), memory, eeproms, numbers, events: Vec::new(), frames: 0, again: 0 }
    }

    /// Runs a future of ethercrab's to its end. `tell` is given the wire's time before each poll.
    pub(super) fn run<T>(
        &mut self,
        future: impl Future<Output = Result<T, ethercrab::error::Error>>,
        tell: impl Fn(u64),
    ) -> Result<T, BusError> {
        // On the heap: the future holds every device's description.
        let mut future = Box::pin(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut idle = 0;
        loop {
            tell(self.wire.now().as_ns());
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                self.on_its_way.clear();
                return done.map_err(|error| self.failed(&format!("{error}")));
            }

            let sent = self.send_all()?;
            if self.on_its_way.is_empty() {
                idle += u32::from(!sent);
                if idle > MOST_IDLE {
                    return Err(self.failed("it waits for something that does not come"));
                }
                std::thread::yield_now();
            } else {
                idle = 0;
                self.receive_one()?;
            }
        }
    }

    fn failed(&self, what: &str) -> BusError {
        BusError::Library { what: what.to_owned(), frames: self.frames, again: self.again }
    }

    fn send_all(&mut self) -> Result<bool, BusError> {
        let mut any = false;
        while let Some(frame) = self.tx.next_sendable_frame() {
            let mut bytes = Box::new([0; LONGEST]);
            let mut length = 0;
            let taken = frame.send_blocking(|frame| {
                length = frame.len().min(LONGEST);
                bytes[..length].copy_from_slice(&frame[..length]);
                Ok(frame.len())
            });

            self.numbers.put_into(&mut bytes[..length]);
            if taken.is_ok() && !self.is_answered_here(&mut bytes[..length])? {
                self.memory.see(&bytes[..length]);
                self.wire.send(&bytes[..length]);
                self.frames += 1;
                let until = self.wire.now().plus_ns(REPLY_WITHIN_NS);
                self.on_its_way.push(OnItsWay { bytes, length, until, tries: 1, took_mail: false });
            }

            any = true;
        }

        Ok(any)
    }

    /// Whether a frame asked for what is known of an EEPROM, and has got it.
    fn is_answered_here(&mut self, frame: &mut [u8]) -> Result<bool, BusError> {
        let mut way = self.eeproms.look(frame);
        if let Way::Fetch(asked) = way {
            self.fetch(asked)?;
            way = self.eeproms.look(frame);
        }

        if way == Way::Answered {
            let _ = self.rx.receive_frame(frame);
        }

        Ok(way == Way::Answered)
    }

    /// Fetches a word of all EEPROMs.
    fn fetch(&mut self, asked: u16) -> Result<(), BusError> {
        let (mut frame, mut reply) = (Box::new([0; LONGEST]), Box::new([0; LONGEST + 1]));
        let length = Eeproms::request(asked, &mut frame[..]);
        self.exchange(&mut frame[..length], &mut reply[..])?;
        let mut waiting = self.eeproms.stations();
        let until = self.wire.now().plus_ns(READ_WITHIN_NS);
        for _ in 0..MOST_LOOKS {
            let mut rest = std::mem::take(&mut waiting);
            while !rest.is_empty() {
                let (count, length) = Eeproms::question(&rest, &mut frame[..]);
                let came = self.exchange(&mut frame[..length], &mut reply[..])?;
                self.eeproms.take(asked, &reply[..came], &mut waiting);
                rest.drain(..count);
            }

            if waiting.is_empty() || self.wire.now() >= until {
                break;
            }
        }

        self.eeproms.leave(&waiting);
        Ok(())
    }

    /// Stations of the devices at the first `places` places, read by position.
    pub(super) fn stations(&mut self, places: usize) -> Result<Vec<u16>, BusError> {
        let (mut frame, mut reply) = (Box::new([0; LONGEST]), Box::new([0; LONGEST + 1]));
        let mut stations = Vec::with_capacity(places);
        while stations.len() < places {
            let mut writer = Writer::new(&mut frame[..], ASIDE);
            for place in stations.len()..places {
                let (command, address) = numbers::station_of(place as u16);
                if writer.push(command, address, 2).is_none() {
                    break;
                }
            }

            let length = writer.finish();
            let came = self.exchange(&mut frame[..length], &mut reply[..])?;
            stations.extend(datagrams(&reply[..came]).map(|datagram| word(datagram.data, 0)));
        }

        Ok(stations)
    }

    /// Sends a frame of our own and waits for its reply: its length.
    fn exchange(&mut self, frame: &mut [u8], reply: &mut [u8]) -> Result<usize, BusError> {
        for tries in 0..MOST_TRIES {
            frame::number(frame, self.frames as u16);
            self.wire.send(frame);
            self.frames += 1;
            self.again += u64::from(tries > 0);
            let until = self.wire.now().plus_ns(REPLY_WITHIN_NS);
            while let Some(length) = self.wire.receive(reply, until) {
                self.wire.rest();
                if frame::purpose_of(reply).is_some() && frame::is_reply_to(&reply[..length], frame) {
                    return Ok(length);
                }
                self.take(&reply[..length.min(LONGEST)]);
            }

            self.wire.rest();
        }
        Err(BusError::NoAnswer(MOST_TRIES))
    }

    fn receive_one(&mut self) -> Result<(), BusError> {
        let until = self.on_its_way.iter().map(|frame| frame.until).min().unwrap_or_default();
        let mut buffer = [0; LONGEST + 1];
        match self.wire.receive(&mut buffer, until) {
            Some(length) => self.take(&buffer[..length.min(LONGEST)]),
            None => self.send_again()?,
        }

        self.wire.rest();
        Ok(())
    }

    fn take(&mut self, reply: &[u8]) {
        let Some(place) = self.on_its_way.iter().position(|sent| is_reply(reply, &sent.bytes[..sent.length])) else {
            return;
        };
        let emergency = emergency_in(reply, &self.numbers);
        let sent = &mut self.on_its_way[place];
        let empty = sent.took_mail && datagrams(reply).all(|datagram| datagram.counter == 0);

        if (emergency.is_some() || empty) && sent.tries < MOST_AGAIN {
            sent.took_mail = true;
            sent.until = self.wire.now().plus_ns(AGAIN_AFTER_NS);
            self.events.extend(emergency.map(|(device, code, register)| Event {
                at_ns: self.wire.now().as_ns(),
                cycle: 0,
                kind: EventKind::Emergency,
                device,
                old: 0,
                new: register,
                code: u32::from(code),
            }));
            return;
        }

        self.on_its_way.swap_remove(place);
        // One that ethercrab does not take is as good as lost, and ethercrab says so in its own time.
        let _ = self.rx.receive_frame(reply);
    }

    /// Sends again what has waited long enough.
    fn send_again(&mut self) -> Result<(), BusError> {
        let now = self.wire.now();
        for sent in self.on_its_way.iter_mut().filter(|sent| sent.until <= now) {
            let most = if sent.took_mail { MOST_AGAIN } else { MOST_TRIES };
            if sent.tries >= most {
                return Err(BusError::NoAnswer(sent.tries));
            }

            sent.tries += 1;
            let wait_ns = if sent.took_mail { AGAIN_AFTER_NS } else { REPLY_WITHIN_NS };
            sent.until = now.plus_ns(wait_ns);
            self.wire.send(&sent.bytes[..sent.length]);
            self.again += 1;
            self.frames += 1;
        }

        Ok(())
    }
}

/// Whether this came back for that: passed on by a device, and the same in commands, indices and lengths.
fn is_reply(reply: &[u8], sent: &[u8]) -> bool {
    let passed_on = reply.len() >= sent.len().min(60) && reply.get(6).is_some_and(|byte| byte & 2 != 0);
    if !passed_on || reply.len() < 28 || reply[7..16] != sent[7..16] {
        return false;
    }

    let shape = |frame: &[u8]| -> Vec<(u8, u8, u16, u16)> {
        let of = |header: &[u8]| (header[0], header[1], word(header, 4), word(header, 6) & !0x4000);
        datagrams(frame).map(|datagram| of(datagram.header)).collect()
    };

    shape(reply) == shape(sent)
}

/// The emergency in a reply that holds a mail: station, error code, error register (ETG.1000.6, 5.6.4).
fn emergency_in(reply: &[u8], numbers: &Numbers) -> Option<(u16, u16, u16)> {
    datagrams(reply).find_map(|datagram| {
        let is_mail = datagram.header[0] == Command::Fprd as u8 && word(datagram.header, 4) >= MEMORY;
        if !is_mail || datagram.counter == 0 {
            return None;
        }

        emergency_of_mail(datagram.data).map(|(code, register)| {
            let place = numbers.place_of(word(datagram.header, 2));
            (place.unwrap_or(NO_DEVICE), code, register)
        })
    })
}

/// Error code and register, if a mail is an emergency.
pub(super) fn emergency_of_mail(mail: &[u8]) -> Option<(u16, u16)> {
    let is_coe = mail.len() >= 16 && mail[5] & 0x0f == 3;
    (is_coe && word(mail, 6) >> 12 == 1).then(|| (word(mail, 8), u16::from(mail[10])))
}
