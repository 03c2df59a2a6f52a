//! Bring-up of all devices in lock-step, although ethercrab configures one after the other with one
//! datagram per frame.
//!
//! ```text
//! a write               ──▶ queued and answered; sent, in its order, before the next frame that waits for a reply
//! a request for PREOP   ──▶ queued and answered; then all devices are awaited, before what each does in PREOP
//! a request for SAFEOP  ──▶ the same
//! a read of a register  ──▶ read from all devices at once; their reads are answered from what came
//! a read of the mapping ──▶ mails to all devices at once; their reads are answered with the devices' own mails
//! ```
//!
//! Each device sees ethercrab's writes in ethercrab's order, and each reply is one that the device
//! gave. What ethercrab asks for and is not listed here is sent as it is.

mod mapping_mails;
mod mapping_reads;
mod read_ahead;
mod write_queue;

use std::time::Duration;

use onbeat_ethercat::al::{ERROR, PREOP, SAFEOP, STATE};
use onbeat_ethercat::registers::{
    AL_CONTROL, AL_STATUS, PROCESS_MEMORY, SII_CONTROL, SII_DATA, STATION,
};
use onbeat_ethercat::ring::RingState;
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::{Command, word};

use super::datagram_view::datagrams;
use super::error::{BusError, Unready};
use super::frame_exchange::{FrameExchange, push_reads};
use super::single_datagram::SingleDatagram;
use mapping_mails::MappingMails;
pub(super) use mapping_reads::{MappedDevice, MappingReads};
use read_ahead::ReadAhead;
pub(super) use read_ahead::RegisterRange;
use write_queue::WriteQueue;

/// Source address of these frames.
const PURPOSE: u8 = 0x42;
/// Bytes of AL status and AL status code.
const STATUS: usize = 6;
/// Time for a change of state, in ns: 5 s from INIT to PREOP on most devices, 10 s to SAFEOP
/// (ETG.1020, 7).
const PREOP_WITHIN_NS: u64 = 5_000_000_000;
const SAFEOP_WITHIN_NS: u64 = 10_000_000_000;

/// Returns the pause after a number of reads of the AL states: most devices change at once, and one
/// that never does costs a few hundred frames.
// Devices change their state within a millisecond, or within seconds. Asking slows down in between:
// hundreds of frames, not a million.
const fn pause_after(reads: u32) -> Duration {
    match reads {
        0..100 => Duration::from_micros(100),
        100..200 => Duration::from_millis(1),
        _ => Duration::from_millis(50),
    }
}

/// Action for a frame that ethercrab sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockStepAction {
    /// Send it, after what is queued.
    Send,
    /// It was turned into its own reply.
    Answered,
    /// Read this register from this device and those behind it, then intercept the frame again.
    ReadAhead(u16, RegisterRange),
    /// Read the mappings of all devices, then intercept the frame again.
    ReadMappings,
}

/// A device that does not follow: its station address, and why.
pub(super) type OutOfStep = (u16, Unready);

/// A device on its way to PREOP or SAFEOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AwaitedState {
    station: u16,
    state: u8,
}

/// What is queued, awaited and known of all devices.
#[derive(Debug, Default)]
pub(super) struct LockStep {
    /// Assigned station addresses, by position.
    stations: Vec<u16>,
    writes: WriteQueue,
    /// Devices on their way to a state.
    awaited: Vec<AwaitedState>,
    /// Writes to these devices, for afterwards.
    held: WriteQueue,
    ahead: ReadAhead,
    mappings: MappingMails,
}

impl LockStep {
    /// Decides what happens to a frame that ethercrab sends.
    pub(super) fn intercept(&mut self, frame: &mut [u8]) -> LockStepAction {
        let Some(datagram) = SingleDatagram::in_frame(frame) else { return LockStepAction::Send };
        let Some(command) = Command::from_wire(datagram.command) else {
            return LockStepAction::Send;
        };

        let is_register = usize::from(datagram.register) < PROCESS_MEMORY;
        let is_eeprom = (SII_CONTROL..SII_DATA + 8).contains(&datagram.register);
        match command {
            // Writes of configuration are answered here and sent together with those of all other
            // devices: 59 devices in the frames that one would take.
            Command::Bwr | Command::Apwr | Command::Fpwr if is_register && !is_eeprom => {
                self.queue(command, datagram, frame);
                datagram.accept(frame, 1);
                LockStepAction::Answered
            }
            Command::Fpwr if !is_register => self.mappings.request(datagram, frame),
            Command::Fprd => self.read(datagram, frame),
            _ => LockStepAction::Send,
        }
    }

    fn queue(&mut self, command: Command, write: SingleDatagram, frame: &[u8]) {
        if command == Command::Apwr && write.register == STATION && write.length >= 2 {
            self.stations.push(word(write.data(frame), 0));
        }

        // What was read before a write may be changed by it.
        self.ahead.invalidate(command, write);
        // After a request for a state the device's next write must not overtake it.
        if command == Command::Fpwr && self.awaited(write.station).is_some() {
            return self.held.push(command, write, frame);
        }

        self.writes.push(command, write, frame);
        if command != Command::Fpwr || write.register != AL_CONTROL {
            return;
        }
        if let Some(&state @ (PREOP | SAFEOP)) = write.data(frame).first() {
            self.awaited.push(AwaitedState { station: write.station, state });
        }
    }

    /// Returns the state that a device is on its way to.
    fn awaited(&self, station: u16) -> Option<u8> {
        self.awaited.iter().find(|awaited| awaited.station == station).map(|awaited| awaited.state)
    }

    fn read(&mut self, read: SingleDatagram, frame: &mut [u8]) -> LockStepAction {
        if read.register == AL_STATUS
            && let Some(state) = self.awaited(read.station)
        {
            // It is awaited together with the others, before anything else happens to it.
            // The library hears that the state is reached, and its next step is held back until it
            // is true of all.
            read.answer(frame, &[state], 1);
            return LockStepAction::Answered;
        }

        let Some(range) = ReadAhead::range(read) else { return self.mappings.read(read, frame) };
        if self.ahead.answer(read, range, frame) {
            LockStepAction::Answered
        // A device that the library has not addressed yet cannot be read ahead.
        } else if self.stations.contains(&read.station) {
            LockStepAction::ReadAhead(read.station, range)
        } else {
            LockStepAction::Send
        }
    }

    /// Sends what is queued, awaits the devices on their way to a state, and sends what was kept
    /// until they are there.
    pub(super) fn settle<W: Wire>(
        &mut self,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<Option<OutOfStep>, BusError> {
        // First what was written, then the states that depend on it.
        if let Some(untaken) = self.send_queued(exchange)? {
            return Ok(Some(untaken));
        }
        if self.awaited.is_empty() {
            return Ok(None);
        }

        if let Some(late) = self.await_states(exchange)? {
            return Ok(Some(late));
        }

        self.writes.append(&mut self.held);
        self.send_queued(exchange)
    }

    fn send_queued<W: Wire>(
        &mut self,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<Option<OutOfStep>, BusError> {
        while !self.writes.is_empty() {
            let count = exchange.ask(PURPOSE, |writer| self.writes.write(writer))?;
            let untaken = self.writes.confirm(count, exchange.reply());
            if untaken.is_some() {
                return Ok(untaken);
            }
        }

        Ok(None)
    }

    fn await_states<W: Wire>(
        &mut self,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<Option<OutOfStep>, BusError> {
        // SAFEOP takes longest: drives load their parameters on the way (ETG.1020 allows ten
        // seconds).
        let is_safeop = self.awaited.iter().any(|awaited| awaited.state == SAFEOP);
        let within_ns = if is_safeop { SAFEOP_WITHIN_NS } else { PREOP_WITHIN_NS };
        let until = exchange.wire.now().plus_ns(within_ns);
        for reads in 0.. {
            // Before the look: this process may be stopped between both.
            let is_over = exchange.wire.now() >= until;
            let (missing, refused) = self.read_states(exchange)?;
            // A refusal does not get better by waiting.
            if refused.is_some() {
                return Ok(refused);
            }
            if missing.is_none() {
                self.awaited.clear();
                return Ok(None);
            }
            if is_over {
                return Ok(missing);
            }

            exchange.wait(pause_after(reads));
        }

        Ok(None)
    }

    /// Reads the AL states of the awaited devices. Returns the first that has not reached its
    /// state, and the first that refuses it.
    fn read_states<W: Wire>(
        &self,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<(Option<OutOfStep>, Option<OutOfStep>), BusError> {
        let mut missing = None;
        let mut refused = None;
        let mut rest = &self.awaited[..];
        while !rest.is_empty() {
            let stations = rest.iter().map(|awaited| awaited.station);
            let count =
                exchange.ask(PURPOSE, |writer| push_reads(writer, stations, AL_STATUS, STATUS))?;

            let replies = datagrams(exchange.reply());
            for (datagram, &AwaitedState { station, state }) in replies.zip(rest) {
                let status = word(datagram.data, 0);
                // Without an answer the bytes are those that were sent.
                if datagram.counter != 0 && status & u16::from(ERROR) != 0 {
                    let code = word(datagram.data, 4);
                    refused.get_or_insert((station, Unready::Refused { state, code }));
                } else if datagram.counter == 0 || status & u16::from(STATE) != u16::from(state) {
                    missing.get_or_insert((station, Unready::Late { state, status }));
                }
            }

            rest = &rest[count..];
        }

        Ok((missing, refused))
    }

    /// Reads a register from the device `first` and those behind it.
    pub(super) fn read_ahead<W: Wire>(
        &mut self,
        first: u16,
        range: RegisterRange,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<(), BusError> {
        let mut rest = self.ahead.missing(&self.stations, first, range);
        while !rest.is_empty() {
            let stations = rest.iter().copied();
            let count = exchange.ask(PURPOSE, |writer| {
                push_reads(writer, stations, range.register, range.length)
            })?;
            self.ahead.take(range, exchange.reply());
            rest.drain(..count);
        }
        if let Some(RingState::Cut(left)) = exchange.wire.ring() {
            self.ahead.close_ring(&self.stations, left);
        }

        Ok(())
    }

    /// Returns the assigned station addresses, by position.
    pub(super) fn stations(&self) -> &[u16] {
        &self.stations
    }

    /// Stores the devices' mails about their mappings.
    pub(super) fn keep_mappings(&mut self, reads: MappingReads) {
        self.mappings = reads.into_mails();
    }
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::registers::{DL_STATUS, SII_OWNER, SYNC_MANAGER};
    use onbeat_rt::frame::{LONGEST, Writer, position, register};

    use super::*;
    use crate::bus::single_datagram::frame;

    const FIRST: u16 = 0x4000;
    const SECOND: u16 = 0x4001;

    fn write(step: &mut LockStep, station: u16, at: u16, data: &[u8]) -> LockStepAction {
        step.intercept(&mut frame(Command::Fpwr, register(station, at), data))
    }

    fn read(step: &mut LockStep, station: u16, at: u16) -> (LockStepAction, u8) {
        let mut frame = frame(Command::Fprd, register(station, at), &[0; 2]);
        let action = step.intercept(&mut frame);
        (action, SingleDatagram::in_frame(&frame).unwrap().data(&frame)[0])
    }

    /// Station address and register of each write in the next frame.
    fn queued(queue: &WriteQueue) -> Vec<(u16, u16)> {
        let mut buffer = [0; LONGEST];
        let mut writer = Writer::new(&mut buffer, PURPOSE);
        queue.write(&mut writer);
        let length = writer.finish();
        let address = |header: &[u8]| (word(header, 2), word(header, 4));
        datagrams(&buffer[..length]).map(|datagram| address(datagram.header)).collect()
    }

    /// Two devices with station addresses.
    fn two() -> LockStep {
        let mut step = LockStep::default();
        for (place, station) in [FIRST, SECOND].into_iter().enumerate() {
            let address = register(position(place as u16), STATION);
            let mut given = frame(Command::Apwr, address, &station.to_le_bytes());
            assert_eq!(step.intercept(&mut given), LockStepAction::Answered);
        }

        assert_eq!(queued(&step.writes).len(), 2);
        step.writes = WriteQueue::default();
        step
    }

    #[test]
    fn writes_are_answered_and_go_out_in_their_order() {
        let mut step = two();
        for (station, at) in [(FIRST, SII_OWNER), (SECOND, SII_OWNER), (FIRST, SYNC_MANAGER)] {
            assert_eq!(write(&mut step, station, at, &[1; 8]), LockStepAction::Answered);
        }

        let expected = [(FIRST, SII_OWNER), (SECOND, SII_OWNER), (FIRST, SYNC_MANAGER)];
        assert_eq!(queued(&step.writes), expected);
    }

    #[test]
    fn mails_and_eeprom_requests_are_sent() {
        let mut step = two();

        assert_eq!(write(&mut step, FIRST, 0x1000, &[0; 32]), LockStepAction::Send);
        assert_eq!(write(&mut step, FIRST, SII_CONTROL, &[0; 6]), LockStepAction::Send);
    }

    #[test]
    fn writes_after_the_request_for_preop_wait_until_the_device_is_there() {
        let mut step = two();
        write(&mut step, FIRST, AL_CONTROL, &[PREOP, 0]);
        write(&mut step, FIRST, SII_OWNER, &[0; 2]);
        write(&mut step, SECOND, SII_OWNER, &[1; 2]);

        assert_eq!(queued(&step.writes), [(FIRST, AL_CONTROL), (SECOND, SII_OWNER)]);
        assert_eq!(queued(&step.held), [(FIRST, SII_OWNER)]);
        assert_eq!(read(&mut step, FIRST, AL_STATUS), (LockStepAction::Answered, PREOP));
        let awaited = AwaitedState { station: FIRST, state: PREOP };
        assert_eq!(step.awaited, [awaited], "settle awaits it");
        let range = RegisterRange { register: AL_STATUS, length: 2 };
        let ahead = LockStepAction::ReadAhead(SECOND, range);
        assert_eq!(read(&mut step, SECOND, AL_STATUS), (ahead, 0));
    }

    #[test]
    fn a_value_read_ahead_answers_one_read() {
        let mut step = two();
        let range = RegisterRange { register: DL_STATUS, length: 2 };
        assert_eq!(read(&mut step, FIRST, DL_STATUS).0, LockStepAction::ReadAhead(FIRST, range));
        take_ahead(&mut step, range);

        assert_eq!(read(&mut step, FIRST, DL_STATUS), (LockStepAction::Answered, 0x55));
        assert_eq!(read(&mut step, FIRST, DL_STATUS).0, LockStepAction::ReadAhead(FIRST, range));
        assert_eq!(
            step.ahead.missing(&step.stations, FIRST, range),
            [FIRST],
            "the second is there"
        );
        assert_eq!(read(&mut step, SECOND, DL_STATUS), (LockStepAction::Answered, 0x55));
    }

    #[test]
    fn a_state_read_ahead_is_gone_when_a_state_is_requested() {
        let range = RegisterRange { register: AL_STATUS, length: 2 };
        let mut step = two();
        take_ahead(&mut step, range);
        write(&mut step, SECOND, AL_CONTROL, &[8, 0]);
        assert_eq!(read(&mut step, FIRST, AL_STATUS).0, LockStepAction::Answered);
        assert_eq!(read(&mut step, SECOND, AL_STATUS).0, LockStepAction::ReadAhead(SECOND, range));

        take_ahead(&mut step, range);
        step.intercept(&mut frame(Command::Bwr, register(0, AL_CONTROL), &[1, 0]));
        assert_eq!(read(&mut step, FIRST, AL_STATUS).0, LockStepAction::ReadAhead(FIRST, range));
    }

    /// As if both devices had returned 0x55.
    fn take_ahead(step: &mut LockStep, range: RegisterRange) {
        let mut buffer = [0; LONGEST];
        let mut writer = Writer::new(&mut buffer, PURPOSE);
        for station in [FIRST, SECOND] {
            writer.push_data(Command::Fprd, register(station, range.register), &[0x55; 2]);
        }
        let length = writer.finish();
        step.ahead.take(range, &buffer[..length]);
    }

    #[test]
    fn a_write_that_no_device_took_is_named_unless_it_is_for_all_or_for_a_clock() {
        let mut step = two();
        step.intercept(&mut frame(Command::Bwr, register(0, SYNC_MANAGER), &[0; 8]));
        write(&mut step, FIRST, onbeat_ethercat::registers::TIME_DELAY, &[0; 4]);
        write(&mut step, SECOND, SYNC_MANAGER, &[0; 8]);
        let mut reply = [0; LONGEST];
        let mut writer = Writer::new(&mut reply, PURPOSE);
        let count = step.writes.write(&mut writer);
        let length = writer.finish();

        let untaken = step.writes.confirm(count, &reply[..length]);

        assert_eq!(untaken, Some((SECOND, Unready::Untaken { register: SYNC_MANAGER })));
        assert!(step.writes.is_empty());
    }
}
