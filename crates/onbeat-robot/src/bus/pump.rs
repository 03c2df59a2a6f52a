//! Carries frames between ethercrab and a wire, in one thread: polls a future, sends the frames it
//! queues, and passes replies to it.
//!
//! The pump hides from ethercrab what would end a bring-up: lost frames are sent again, late and
//! damaged frames are dropped, and an emergency becomes an event, after which the mailbox is read
//! again. EEPROM reads go through [`super::sii_cache`].

use std::future::Future;
use std::task::{Context, Poll, Waker};

use ethercrab::{PduRx, PduTx};
use onbeat_rt::frame::{self, Command, LONGEST, Writer, word};
use onbeat_rt::time::Instant;

use super::addresses::{self, BusAddresses};
use super::config_record::{ConfigRecord, datagrams};
use super::cyclic::ACYCLIC;
use super::error::BusError;
use super::sii_cache::{FrameAction, SiiCache};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::wire::Wire;

/// Time after which a frame is sent again, in ns.
const REPLY_WITHIN_NS: u64 = 5_000_000;
/// Maximum number of attempts.
const MOST_TRIES: u32 = 20;
/// Time after which a mailbox that held an emergency is read again, in ns.
const AGAIN_AFTER_NS: u64 = 200_000;
/// Maximum number of such reads.
const MOST_AGAIN: u32 = 2_000;
/// Maximum number of polls without a frame in flight before the library counts as hung.
const MOST_IDLE: u32 = 200_000;
/// Time after which slow EEPROMs are left to ethercrab, in ns; a read usually takes 0.2 to 0.5 ms.
const READ_WITHIN_NS: u64 = 20_000_000;
/// Maximum number of polls for EEPROM data.
const MOST_LOOKS: u32 = 1_000;
/// Start of the mailbox memory.
const MEMORY: u16 = 0x1000;

/// A frame in flight.
struct InFlight {
    bytes: Box<[u8; LONGEST]>,
    length: usize,
    until: Instant,
    tries: u32,
    /// Whether its reply held an emergency; an empty mailbox is not a valid reply then.
    took_mail: bool,
}

pub(super) struct Pump<'w, 's, W> {
    pub(super) wire: &'w mut W,
    tx: PduTx<'s>,
    rx: PduRx<'s>,
    in_flight: Vec<InFlight>,
    pub(super) config_record: ConfigRecord,
    sii_cache: SiiCache,
    pub(super) addresses: BusAddresses,
    pub(super) events: Vec<Event>,
    pub(super) frames: u64,
    pub(super) again: u64,
}

impl<'w, 's, W: Wire> Pump<'w, 's, W> {
    pub(super) fn new(wire: &'w mut W, (tx, rx): (PduTx<'s>, PduRx<'s>)) -> Self {
        let addresses = BusAddresses::from_time_ns(wire.now().as_ns());

        Self {
            wire,
            tx,
            rx,
            in_flight: Vec::new(),
            config_record: ConfigRecord::default(),
            sii_cache: SiiCache::default(),
            addresses,
            events: Vec::new(),
            frames: 0,
            again: 0,
        }
    }

    /// Runs a future of ethercrab to completion. `set_time` receives the wire's time before each
    /// poll.
    pub(super) fn run<T>(
        &mut self,
        future: impl Future<Output = Result<T, ethercrab::error::Error>>,
        set_time: impl Fn(u64),
    ) -> Result<T, BusError> {
        // On the heap: the future holds the descriptions of all devices.
        let mut future = Box::pin(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut idle = 0;
        loop {
            set_time(self.wire.now().as_ns());
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                self.in_flight.clear();
                return done.map_err(|error| self.failed(&format!("{error}")));
            }

            let sent = self.send_all()?;
            if self.in_flight.is_empty() {
                idle += u32::from(!sent);
                if idle > MOST_IDLE {
                    return Err(self.failed("it is waiting without a frame in flight"));
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

            self.addresses.rewrite_frame(&mut bytes[..length]);
            if taken.is_ok() && !self.answer_from_cache(&mut bytes[..length])? {
                self.config_record.record(&bytes[..length]);
                self.wire.send(&bytes[..length]);
                self.frames += 1;
                let until = self.wire.now().plus_ns(REPLY_WITHIN_NS);
                self.in_flight.push(InFlight { bytes, length, until, tries: 1, took_mail: false });
            }

            any = true;
        }

        Ok(any)
    }

    /// Answers an EEPROM read from the cache. Returns whether it did.
    fn answer_from_cache(&mut self, frame: &mut [u8]) -> Result<bool, BusError> {
        let mut action = self.sii_cache.intercept(frame);
        if let FrameAction::Fetch(word_address) = action {
            self.fetch(word_address)?;
            action = self.sii_cache.intercept(frame);
        }

        if action == FrameAction::Answered {
            let _ = self.rx.receive_frame(frame);
        }

        Ok(action == FrameAction::Answered)
    }

    /// Fetches a word from all EEPROMs.
    fn fetch(&mut self, word_address: u16) -> Result<(), BusError> {
        let mut frame = Box::new([0; LONGEST]);
        let mut reply = Box::new([0; LONGEST + 1]);
        let length = SiiCache::request(word_address, &mut frame[..]);
        self.exchange(&mut frame[..length], &mut reply[..])?;
        let mut waiting = self.sii_cache.stations();
        let until = self.wire.now().plus_ns(READ_WITHIN_NS);
        for _ in 0..MOST_LOOKS {
            let mut rest = std::mem::take(&mut waiting);
            while !rest.is_empty() {
                let (count, length) = SiiCache::fetch_frame(&rest, &mut frame[..]);
                let came = self.exchange(&mut frame[..length], &mut reply[..])?;
                self.sii_cache.take(word_address, &reply[..came], &mut waiting);
                rest.drain(..count);
            }

            if waiting.is_empty() || self.wire.now() >= until {
                break;
            }
        }

        self.sii_cache.exclude(&waiting);
        Ok(())
    }

    /// Reads the station addresses at the first `places` positions.
    pub(super) fn stations(&mut self, places: usize) -> Result<Vec<u16>, BusError> {
        let mut frame = Box::new([0; LONGEST]);
        let mut reply = Box::new([0; LONGEST + 1]);
        let mut stations = Vec::with_capacity(places);
        while stations.len() < places {
            let mut writer = Writer::new(&mut frame[..], ACYCLIC);
            for place in stations.len()..places {
                let (command, address) = addresses::station_query(place as u16);
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

    /// Sends a frame and waits for its reply; returns the reply's length.
    fn exchange(&mut self, frame: &mut [u8], reply: &mut [u8]) -> Result<usize, BusError> {
        for tries in 0..MOST_TRIES {
            frame::number(frame, self.frames as u16);
            self.wire.send(frame);
            self.frames += 1;
            self.again += u64::from(tries > 0);
            let until = self.wire.now().plus_ns(REPLY_WITHIN_NS);
            while let Some(length) = self.wire.receive(reply, until) {
                self.wire.rest();
                if frame::purpose_of(reply).is_some() && frame::is_reply_to(&reply[..length], frame)
                {
                    return Ok(length);
                }
                self.take(&reply[..length.min(LONGEST)]);
            }

            self.wire.rest();
        }
        Err(BusError::NoAnswer(MOST_TRIES))
    }

    fn receive_one(&mut self) -> Result<(), BusError> {
        let until = self.in_flight.iter().map(|frame| frame.until).min().unwrap_or_default();
        let mut buffer = [0; LONGEST + 1];
        match self.wire.receive(&mut buffer, until) {
            Some(length) => self.take(&buffer[..length.min(LONGEST)]),
            None => self.resend_overdue()?,
        }

        self.wire.rest();
        Ok(())
    }

    fn take(&mut self, reply: &[u8]) {
        let Some(place) =
            self.in_flight.iter().position(|sent| is_reply(reply, &sent.bytes[..sent.length]))
        else {
            return;
        };
        let emergency = emergency_in(reply, &self.addresses);
        let sent = &mut self.in_flight[place];
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

        self.in_flight.swap_remove(place);
        // If ethercrab does not accept it, it runs into its own timeout.
        let _ = self.rx.receive_frame(reply);
    }

    /// Sends overdue frames again.
    fn resend_overdue(&mut self) -> Result<(), BusError> {
        let now = self.wire.now();
        for sent in self.in_flight.iter_mut().filter(|sent| sent.until <= now) {
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

/// Returns whether `reply` belongs to `sent`: processed by a device, with the same commands,
/// indices and lengths.
fn is_reply(reply: &[u8], sent: &[u8]) -> bool {
    let passed_on =
        reply.len() >= sent.len().min(60) && reply.get(6).is_some_and(|byte| byte & 2 != 0);
    if !passed_on || reply.len() < 28 || reply[7..16] != sent[7..16] {
        return false;
    }

    let shape = |frame: &[u8]| -> Vec<(u8, u8, u16, u16)> {
        let of = |header: &[u8]| (header[0], header[1], word(header, 4), word(header, 6) & !0x4000);
        datagrams(frame).map(|datagram| of(datagram.header)).collect()
    };

    shape(reply) == shape(sent)
}

/// Returns an emergency in a reply: device, error code, error register (ETG.1000.6, 5.6.4).
fn emergency_in(reply: &[u8], addresses: &BusAddresses) -> Option<(u16, u16, u16)> {
    datagrams(reply).find_map(|datagram| {
        let is_mail =
            datagram.header[0] == Command::Fprd as u8 && word(datagram.header, 4) >= MEMORY;
        if !is_mail || datagram.counter == 0 {
            return None;
        }

        emergency_of_mail(datagram.data).map(|(code, register)| {
            let place = addresses.place_of(word(datagram.header, 2));
            (place.unwrap_or(NO_DEVICE), code, register)
        })
    })
}

/// Returns error code and register if a mail is an emergency.
pub(super) fn emergency_of_mail(mail: &[u8]) -> Option<(u16, u16)> {
    let is_coe = mail.len() >= 16 && mail[5] & 0x0f == 3;
    (is_coe && word(mail, 6) >> 12 == 1).then(|| (word(mail, 8), u16::from(mail[10])))
}
