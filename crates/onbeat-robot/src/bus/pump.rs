//! Carries frames between ethercrab and a wire, in one thread: polls a future, sends the frames it
//! queues, and passes replies to it.
//!
//! The pump hides from ethercrab what would end a bring-up: lost frames are sent again, late and
//! damaged frames are dropped, and an emergency becomes an event, after which the mailbox is read
//! again. EEPROM reads go through [`super::sii_cache`], and what all devices take part in through
//! [`super::lock_step`].

use std::collections::BTreeMap;
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ethercrab::{PduRx, PduTx};
use onbeat_rt::frame::{Command, LONGEST, position, register, word};
use onbeat_rt::time::Instant;

use super::addresses::BusAddresses;
use super::config_record::ConfigRecord;
use super::cyclic::ACYCLIC;
use super::datagram_view::datagrams;
use super::emergency::ReceivedEmergency;
use super::error::{BusError, Unready};
use super::frame_exchange::{FrameExchange, MOST_TRIES, REPLY_WITHIN_NS};
use super::lock_step::{LockStep, LockStepAction, MappedDevice, MappingReads};
use super::mailbox_layout::MailboxLayout;
use super::mapped_objects::MappedEntries;
use super::sii_cache::{FrameAction, SiiCache, VENDOR};
use super::single_datagram::{DATA, SingleDatagram};
use onbeat_ethercat::event::{Event, NO_DEVICE};
use onbeat_ethercat::wire::Wire;

/// Time after which a mailbox that held an emergency is read again, in ns.
// The answer that was waited for stands behind the emergency; asking without a pause would fill
// the cable.
const AGAIN_AFTER_NS: u64 = 200_000;
/// Maximum number of such reads.
const MOST_AGAIN: u32 = 2_000;
/// Maximum number of polls without a frame in flight before the library counts as hung.
const MOST_IDLE: u32 = 200_000;
/// Time after which slow EEPROMs are left to ethercrab, in ns; a read usually takes 0.2 to 0.5 ms.
const READ_WITHIN_NS: u64 = 20_000_000;
/// Time after which an EEPROM counts as stuck, and interval of the reads until then.
const STUCK_AFTER_NS: u64 = 1_000_000_000;
const SLOW_EVERY: Duration = Duration::from_millis(10);
/// Number of polls for EEPROM data without a pause, and the pause of later ones.
const PROMPT_LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(200);
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
    pub(super) exchange: FrameExchange<'w, W>,
    tx: PduTx<'s>,
    rx: PduRx<'s>,
    in_flight: Vec<InFlight>,
    pub(super) config_record: ConfigRecord,
    sii_cache: SiiCache,
    lock_step: LockStep,
    /// What devices with CoE map, by station address.
    pub(super) mapped: BTreeMap<u16, MappedEntries>,
    pub(super) addresses: BusAddresses,
    pub(super) events: Vec<Event>,
}

impl<'w, 's, W: Wire> Pump<'w, 's, W> {
    pub(super) fn new(wire: &'w mut W, (tx, rx): (PduTx<'s>, PduRx<'s>)) -> Self {
        let addresses = BusAddresses::from_time_ns(wire.now().as_ns());

        Self {
            exchange: FrameExchange::new(wire),
            tx,
            rx,
            in_flight: Vec::new(),
            config_record: ConfigRecord::default(),
            sii_cache: SiiCache::default(),
            lock_step: LockStep::default(),
            mapped: BTreeMap::new(),
            addresses,
            events: Vec::new(),
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
        // ethercrab is written for an executor. Here the same thread polls it and moves its frames,
        // so that nothing of the bring-up depends on when a scheduler runs a task, and virtual time
        // works.
        let mut future = Box::pin(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut idle = 0;
        loop {
            // ethercrab's time-outs run on the wire's clock: a segment in virtual time must not be
            // waited for by the wall clock.
            set_time(self.exchange.wire.now().as_ns());
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                // What it no longer waits for would be sent again, and answered to nobody.
                self.in_flight.clear();
                let done = done.map_err(|error| self.failed(&format!("{error}")))?;
                self.settle()?;
                return Ok(done);
            }

            let sent = self.send_all()?;
            if self.in_flight.is_empty() {
                if !sent {
                    // Whatever ethercrab is waiting for may depend on it.
                    self.settle()?;
                }
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
        BusError::Library {
            what: what.to_owned(),
            frames: self.exchange.frames,
            again: self.exchange.again,
        }
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

            // Station addresses that are different at every start: a reply from a run before cannot
            // pass for one of this.
            self.addresses.rewrite_frame(&mut bytes[..length]);
            // Frames that a cache can answer never reach the cable: 59 devices would otherwise be
            // read one after the other, in a million frames.
            if taken.is_ok() && !self.answer(&mut bytes[..length])? {
                self.settle()?;
                self.number_mail(&mut bytes[..length]);
                self.exchange.wire.send(&bytes[..length]);
                self.exchange.frames += 1;
                let until = self.exchange.wire.now().plus_ns(REPLY_WITHIN_NS);
                self.in_flight.push(InFlight { bytes, length, until, tries: 1, took_mail: false });
            }

            any = true;
        }

        Ok(any)
    }

    /// Answers a frame of ethercrab without sending it. Returns whether it did.
    fn answer(&mut self, frame: &mut [u8]) -> Result<bool, BusError> {
        let is_answered = self.answer_from_cache(frame)? || self.answer_in_step(frame)?;
        if is_answered {
            let _ = self.rx.receive_frame(frame);
        }

        Ok(is_answered)
    }

    /// Answers an EEPROM read from the cache.
    fn answer_from_cache(&mut self, frame: &mut [u8]) -> Result<bool, BusError> {
        let mut action = self.sii_cache.intercept(frame);
        if let FrameAction::Fetch(word_address) = action {
            self.settle()?;
            self.fetch(word_address)?;
            action = self.sii_cache.intercept(frame);
        }

        Ok(action == FrameAction::Answered)
    }

    /// Answers a frame that all devices take part in.
    fn answer_in_step(&mut self, frame: &mut [u8]) -> Result<bool, BusError> {
        self.config_record.record(frame);
        let mut action = self.lock_step.intercept(frame);
        match action {
            LockStepAction::ReadAhead(station, range) => {
                self.settle()?;
                self.lock_step.read_ahead(station, range, &mut self.exchange)?;
                action = self.lock_step.intercept(frame);
            }
            LockStepAction::ReadMappings => {
                self.settle()?;
                self.read_mappings()?;
                action = self.lock_step.intercept(frame);
            }
            LockStepAction::Send | LockStepAction::Answered => {}
        }

        Ok(action == LockStepAction::Answered)
    }

    /// Numbers a mail of ethercrab after the last mail to its device, which ethercrab may not know.
    fn number_mail(&mut self, frame: &mut [u8]) {
        /// Counter of a mail, in its upper bits.
        const COUNTER: usize = DATA + 5;
        let Some(write) = SingleDatagram::in_frame(frame) else { return };
        let mailbox = MailboxLayout::in_script(self.config_record.steps(write.station));
        let is_mail = write.command == Command::Fpwr as u8
            && mailbox.is_some_and(|mailbox| mailbox.to == write.register);
        if is_mail {
            // 1 to 7, 0 is without a counter (ETG.1000.4, mailbox header). A device drops a mail
            // with the counter of the one before as a repetition.
            let counter = self.config_record.last_mail_counter(write.station) % 7 + 1;
            frame[COUNTER] = frame[COUNTER] & 0x0f | counter << 4;
            self.config_record.set_mail_counter(write.station, counter);
        }
    }

    /// Sends what is queued, and waits for the states that were requested.
    fn settle(&mut self) -> Result<(), BusError> {
        match self.lock_step.settle(&mut self.exchange)? {
            None => Ok(()),
            Some((station, trouble)) => Err(self.unready(station, trouble)),
        }
    }

    /// Reads the mappings of all devices with CoE.
    fn read_mappings(&mut self) -> Result<(), BusError> {
        let stations = self.lock_step.stations().iter().copied().zip(0..);
        // A device without CoE has no objects; asking would end in its time-out.
        let with_coe = stations.filter(|(station, _)| self.sii_cache.supports_coe(*station));
        let devices = with_coe.filter_map(|(station, place)| {
            let mailbox = MailboxLayout::in_script(self.config_record.steps(station))?;
            let mail_counter = self.config_record.last_mail_counter(station);
            Some(MappedDevice { place, station, mailbox, mail_counter })
        });

        let mut reads = MappingReads::new(devices.collect());
        reads.run(&mut self.exchange)?;
        let at_ns = self.exchange.wire.now().as_ns();
        let emergencies = reads.emergencies.iter();
        self.events.extend(emergencies.map(|emergency| emergency.event(at_ns)));
        for (station, counter) in reads.mail_counters() {
            self.config_record.set_mail_counter(station, counter);
        }

        // Named with its place: "a mailbox does not answer" would send the user along the whole
        // cable.
        if let Some(station) = reads.mute() {
            return Err(self.unready(station, Unready::MuteMailbox));
        }

        self.mapped = reads.mapped();
        self.lock_step.keep_mappings(reads);
        Ok(())
    }

    /// Fetches a word from all EEPROMs.
    fn fetch(&mut self, word_address: u16) -> Result<(), BusError> {
        SiiCache::request(word_address, &mut self.exchange)?;
        let mut waiting = self.sii_cache.stations();
        let began = self.exchange.wire.now();
        for look in 0..MOST_LOOKS {
            if look > PROMPT_LOOKS {
                self.exchange.wait(PAUSE);
            }
            self.sii_cache.look(word_address, &mut waiting, &mut self.exchange)?;
            if waiting.is_empty() || self.exchange.wire.now() >= began.plus_ns(READ_WITHIN_NS) {
                break;
            }
        }

        // One slow EEPROM must not slow down all others: it is read by itself from here on.
        let slow = waiting.clone();
        while !waiting.is_empty() {
            // Before the look: where this process was stopped for so long, it has not seen what the
            // EEPROMs did meanwhile.
            let is_over = self.exchange.wire.now() >= began.plus_ns(STUCK_AFTER_NS);
            self.exchange.wait(SLOW_EVERY);
            self.sii_cache.look(word_address, &mut waiting, &mut self.exchange)?;
            if is_over && !waiting.is_empty() {
                return Err(self.unready(waiting[0], Unready::EepromBusy));
            }
        }

        // The first read of each EEPROM tells whether it holds anything.
        if word_address == VENDOR {
            if let Some(station) = self.sii_cache.blank(VENDOR) {
                return Err(self.unready(station, Unready::EepromBlank));
            }
            if let Some(station) = self.sii_cache.damaged() {
                return Err(self.unready(station, Unready::EepromChecksum));
            }
        }
        self.sii_cache.exclude(&slow);
        Ok(())
    }

    pub(super) fn unready(&self, station: u16, trouble: Unready) -> BusError {
        let place = self.addresses.place_of(station).unwrap_or_default();
        let frames = self.exchange.frames;
        let name = format!("the SubDevice at place {place}");
        BusError::Unready { place, name, at: String::new(), trouble, frames }
    }

    fn receive_one(&mut self) -> Result<(), BusError> {
        // The earliest time-out of all frames in flight: waiting longer would miss it.
        let until = self.in_flight.iter().map(|frame| frame.until).min().unwrap_or_default();
        let mut buffer = [0; LONGEST + 1];
        match self.exchange.wire.receive(&mut buffer, until) {
            Some(length) => self.take(&buffer[..length.min(LONGEST)]),
            None => self.resend_overdue()?,
        }

        self.exchange.wire.rest();
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
        // An emergency was taken from the mailbox, in the place of the answer that ethercrab waits
        // for. The frame is sent again until the answer comes.
        let empty = sent.took_mail && datagrams(reply).all(|datagram| datagram.counter == 0);

        if (emergency.is_some() || empty) && sent.tries < MOST_AGAIN {
            sent.took_mail = true;
            let now = self.exchange.wire.now();
            sent.until = now.plus_ns(AGAIN_AFTER_NS);
            self.events.extend(emergency.map(|emergency| emergency.event(now.as_ns())));
            return;
        }

        // The order of frames in flight has no meaning: replies are matched by their content.
        self.in_flight.swap_remove(place);
        // If ethercrab does not accept it, it runs into its own timeout.
        let _ = self.rx.receive_frame(reply);
    }

    /// Sends overdue frames again.
    fn resend_overdue(&mut self) -> Result<(), BusError> {
        let now = self.exchange.wire.now();
        for sent in self.in_flight.iter_mut().filter(|sent| sent.until <= now) {
            let most = if sent.took_mail { MOST_AGAIN } else { MOST_TRIES };
            if sent.tries >= most {
                return Err(BusError::NoAnswer(sent.tries));
            }

            sent.tries += 1;
            let wait_ns = if sent.took_mail { AGAIN_AFTER_NS } else { REPLY_WITHIN_NS };
            sent.until = now.plus_ns(wait_ns);
            self.exchange.wire.send(&sent.bytes[..sent.length]);
            self.exchange.again += 1;
            self.exchange.frames += 1;
        }

        Ok(())
    }
}

/// Reads a register of two bytes at the first `places` positions.
pub(super) fn read_words<W: Wire>(
    exchange: &mut FrameExchange<'_, W>,
    at: u16,
    places: usize,
) -> Result<Vec<u16>, BusError> {
    let mut words = Vec::with_capacity(places);
    while words.len() < places {
        exchange.ask(ACYCLIC, |writer| {
            for place in words.len()..places {
                if writer.push(Command::Aprd, register(position(place as u16), at), 2).is_none() {
                    break;
                }
            }
        })?;
        words.extend(datagrams(exchange.reply()).map(|datagram| word(datagram.data, 0)));
    }

    Ok(words)
}

/// Returns whether `reply` belongs to `sent`: processed by a device, with the same commands,
/// indices and lengths.
fn is_reply(reply: &[u8], sent: &[u8]) -> bool {
    // The first device sets the second bit of the source address (ETG.1000.4): what still lacks it
    // is our own frame, seen on its way out.
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

/// Returns an emergency in a reply.
fn emergency_in(reply: &[u8], addresses: &BusAddresses) -> Option<ReceivedEmergency> {
    datagrams(reply).find_map(|datagram| {
        let is_mail =
            datagram.header[0] == Command::Fprd as u8 && word(datagram.header, 4) >= MEMORY;
        if !is_mail || datagram.counter == 0 {
            return None;
        }

        let place = addresses.place_of(word(datagram.header, 2));
        ReceivedEmergency::of_mail(place.unwrap_or(NO_DEVICE), datagram.data)
    })
}
