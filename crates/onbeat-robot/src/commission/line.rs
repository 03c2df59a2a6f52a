//! Registers of devices by position.

use onbeat_ethercat::al;
use onbeat_ethercat::registers::{AL_STATUS, AL_STATUS_CODE, DL_STATUS, STATION};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::{Command, MOST_DATA, position, register, word, working_counter};

use super::error::CommissionError;
use crate::bus::{BusError, FrameExchange, PortLinks, RunningBus, SCAN};

/// The devices on a wire, one addressed at a time.
///
/// ```
/// use onbeat_robot::commission::Line;
/// use onbeat_robot::bus::InProcess;
/// use onbeat_rt::time::{Instant, MockClock};
/// use onbeat_segment::{Link, Segment};
///
/// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0).ns_per_reading(100);
/// let mut wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID)?, clock);
/// let mut line = Line::open(&mut wire, "the simulated segment")?;
/// assert_eq!(line.devices(), 59);
/// assert_eq!(line.state(0)?, (1, 0), "INIT, no AL status code");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Line<'w, W> {
    pub(super) exchange: FrameExchange<'w, W>,
    on: String,
    devices: u16,
    /// Counters of the last mails, by position.
    pub(super) counters: std::collections::BTreeMap<u16, u8>,
    /// First mail to a device, which may have the counter of the last mail that an earlier process
    /// sent, and is ignored then: type and body.
    pub(super) first_mail: Option<(u8, Vec<u8>)>,
}

/// Registers of a device that show its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRegisters {
    /// Kind and revision of its controller (ESC), registers 0x0000 and 0x0001.
    pub controller: (u8, u8),
    /// Number of FMMUs and SyncManagers.
    pub channels: (u8, u8),
    /// Process memory in KiB.
    pub memory_kib: u8,
    /// Features, register 0x0008.
    pub features: u16,
    /// Station address and alias.
    pub station: (u16, u16),
    /// AL status with error bit, AL status code.
    pub state: (u8, u16),
    /// Links of its ports.
    pub links: PortLinks,
}

impl<'w, W: Wire> Line<'w, W> {
    /// Counts the devices, after listening for another MainDevice. `on` names the wire in messages.
    ///
    /// # Errors
    /// [`BusError::RunningLine`] if frames of another MainDevice are received; [`BusError::NoDevices`].
    pub fn open(wire: &'w mut W, on: &str) -> Result<Self, CommissionError> {
        let mut exchange = FrameExchange::new(wire);
        // Late replies to an earlier command of this tool are no running bus.
        let foreign = exchange.listen(Some(SCAN));
        if foreign > 0 {
            return Err(BusError::RunningLine(RunningBus::Foreign(on.to_owned(), foreign)).into());
        }

        let mut line = Self {
            exchange,
            on: on.to_owned(),
            devices: 0,
            counters: std::collections::BTreeMap::new(),
            first_mail: None,
        };
        let counted = line.access(Command::Brd, register(0, AL_STATUS), &[0; 2]);
        match counted {
            Ok((_, 0)) | Err(CommissionError::Bus(BusError::NoAnswer(_))) => {
                Err(BusError::NoDevices(on.to_owned()).into())
            }
            Ok((_, devices)) => Ok(Self { devices, ..line }),
            Err(why) => Err(why),
        }
    }

    /// Continues on a wire that is in use already, with one device whose last mail had this counter.
    pub(crate) fn beside(wire: &'w mut W, devices: u16, place: u16, counter: u8) -> Self {
        Self {
            exchange: FrameExchange::new(wire),
            on: String::new(),
            devices,
            counters: std::iter::once((place, counter)).collect(),
            first_mail: None,
        }
    }

    /// Ends the use: returns the number of frames, and the counter of the last mail.
    pub(crate) fn end(self, place: u16) -> (u64, u8) {
        let counter = self.counters.get(&place).copied().unwrap_or_default();
        (self.exchange.frames, counter)
    }

    /// Returns the number of devices.
    #[must_use]
    pub const fn devices(&self) -> u16 {
        self.devices
    }

    /// Returns the name of the wire.
    #[must_use]
    pub fn on(&self) -> &str {
        &self.on
    }

    /// Sends one datagram; returns its data and working counter.
    fn access(
        &mut self,
        command: Command,
        address: u32,
        data: &[u8],
    ) -> Result<(Vec<u8>, u16), CommissionError> {
        if data.len() > MOST_DATA {
            return Err(CommissionError::TooLong { bytes: data.len(), most: MOST_DATA });
        }

        let at = self.exchange.ask(SCAN, |writer| writer.push_data(command, address, data))?;
        let (at, reply) = (at.unwrap_or_default(), self.exchange.reply());
        Ok((reply[at..at + data.len()].to_vec(), working_counter(reply, at, data.len())))
    }

    /// Checks a position.
    ///
    /// # Errors
    /// [`CommissionError::NoDevice`].
    pub fn check(&self, place: u16) -> Result<(), CommissionError> {
        if place < self.devices {
            return Ok(());
        }
        Err(CommissionError::NoDevice { place, devices: self.devices })
    }

    /// Reads registers; `None` when the device does not take the access.
    pub(super) fn try_read(
        &mut self,
        place: u16,
        at: u16,
        bytes: usize,
    ) -> Result<Option<Vec<u8>>, CommissionError> {
        self.check(place)?;
        let address = register(position(place), at);
        let (data, counter) = self.access(Command::Aprd, address, &vec![0; bytes])?;
        // Without an answer the bytes are those that were sent, zeros, and would read as a value.
        Ok((counter > 0).then_some(data))
    }

    /// Writes registers; returns whether the device took them.
    pub(super) fn try_write(
        &mut self,
        place: u16,
        at: u16,
        data: &[u8],
    ) -> Result<bool, CommissionError> {
        self.check(place)?;
        let (_, counter) = self.access(Command::Apwr, register(position(place), at), data)?;
        Ok(counter > 0)
    }

    /// Reads up to 1,486 bytes of registers or memory of a device.
    ///
    /// # Errors
    /// [`CommissionError::Register`] if it does not take the access; [`CommissionError::TooLong`].
    pub fn read(&mut self, place: u16, at: u16, bytes: usize) -> Result<Vec<u8>, CommissionError> {
        self.try_read(place, at, bytes)?.ok_or(CommissionError::Register {
            place,
            register: at,
            bytes,
        })
    }

    /// Writes up to 1,486 bytes of registers or memory of a device.
    ///
    /// # Errors
    /// [`CommissionError::Register`] if it does not take the access; [`CommissionError::TooLong`].
    pub fn write(&mut self, place: u16, at: u16, data: &[u8]) -> Result<(), CommissionError> {
        if self.try_write(place, at, data)? {
            return Ok(());
        }
        Err(CommissionError::Register { place, register: at, bytes: data.len() })
    }

    pub(super) fn word(&mut self, place: u16, at: u16) -> Result<u16, CommissionError> {
        Ok(word(&self.read(place, at, 2)?, 0))
    }

    /// Returns AL status (state and error bit) and AL status code.
    ///
    /// # Errors
    /// [`CommissionError::Register`], [`CommissionError::Bus`].
    pub fn state(&mut self, place: u16) -> Result<(u8, u16), CommissionError> {
        let status = self.read(place, AL_STATUS, usize::from(AL_STATUS_CODE - AL_STATUS) + 2)?;
        Ok((status[0] & (al::STATE | al::ERROR), word(&status, 4)))
    }

    /// Reads the registers that show the state of a device.
    ///
    /// # Errors
    /// As [`Line::state`].
    pub fn registers(&mut self, place: u16) -> Result<DeviceRegisters, CommissionError> {
        let device = self.read(place, 0, 10)?;
        let station = self.read(place, STATION, 4)?;
        Ok(DeviceRegisters {
            controller: (device[0], device[1]),
            channels: (device[4], device[5]),
            memory_kib: device[6],
            features: word(&device, 8),
            station: (word(&station, 0), word(&station, 2)),
            state: self.state(place)?,
            links: PortLinks::from_status(self.word(place, DL_STATUS)?),
        })
    }

    /// Reads the links of all devices, in the order of the cable.
    ///
    /// # Errors
    /// As [`Line::state`].
    pub fn links(&mut self) -> Result<Vec<PortLinks>, CommissionError> {
        (0..self.devices)
            .map(|place| Ok(PortLinks::from_status(self.word(place, DL_STATUS)?)))
            .collect()
    }
}
