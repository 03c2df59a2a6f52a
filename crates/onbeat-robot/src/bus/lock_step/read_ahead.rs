//! Registers that ethercrab reads from one device after the other, read from all at once.
//!
//! Each value answers one read. A write that may change it removes it.

use std::collections::BTreeMap;

use onbeat_ethercat::registers::{
    AL_CONTROL, AL_STATUS, ALIAS, DEVICE, DL_STATUS, PORT_TIMES, RECEIVE_TIME,
};
use onbeat_rt::frame::{Command, word};

use crate::bus::addresses::{FMMU, FMMU_BYTES};
use crate::bus::datagram_view::datagrams;
use crate::bus::single_datagram::SingleDatagram;

/// Features of the controller, behind its type and revision.
const FEATURES: u16 = DEVICE + 8;

/// A register of all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::bus) struct RegisterRange {
    pub(in crate::bus) register: u16,
    /// In bytes.
    pub(in crate::bus) length: usize,
}

/// What a device returned.
#[derive(Clone, Debug)]
struct ReadValue {
    data: Box<[u8]>,
    /// Working counter.
    counter: u16,
}

/// Values read ahead, by station address and register.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    values: BTreeMap<(u16, RegisterRange), ReadValue>,
}

impl ReadAhead {
    /// Returns the register that a datagram reads, if ethercrab reads it from each device.
    pub(super) fn range(read: SingleDatagram) -> Option<RegisterRange> {
        let SingleDatagram { register, length, .. } = read;
        let is_of_each = matches!(
            register,
            FEATURES | ALIAS | DL_STATUS | AL_STATUS | PORT_TIMES | RECEIVE_TIME
        ) || FMMU.contains(&register) && length == FMMU_BYTES;
        (is_of_each && length <= FMMU_BYTES).then_some(RegisterRange { register, length })
    }

    /// Turns a frame that reads this register into its reply, if the value was read ahead.
    pub(super) fn answer(
        &mut self,
        read: SingleDatagram,
        range: RegisterRange,
        frame: &mut [u8],
    ) -> bool {
        let Some(value) = self.values.remove(&(read.station, range)) else { return false };
        read.answer(frame, &value.data, value.counter);
        true
    }

    /// Removes what a write to one device, or to all, may change.
    pub(super) fn invalidate(&mut self, command: Command, write: SingleDatagram) {
        if command != Command::Fpwr {
            return self.values.clear();
        }

        let first = usize::from(write.register);
        let end = first + write.length;
        self.values.retain(|(station, range), _| {
            let begin = usize::from(range.register);
            let is_overwritten = begin < end && first < begin + range.length;
            let is_state = range.register == AL_STATUS && write.register == AL_CONTROL;
            *station != write.station || !(is_overwritten || is_state)
        });
    }

    /// Returns the devices from `first` on whose value is not there, in their order.
    pub(super) fn missing(&self, stations: &[u16], first: u16, range: RegisterRange) -> Vec<u16> {
        let rest = stations.iter().copied().skip_while(|station| *station != first);
        rest.filter(|station| !self.values.contains_key(&(*station, range))).collect()
    }

    /// Shows a ring that is cut behind the first `left` devices as if it were closed: both parts are
    /// reached, and ethercrab looks for each device behind the one before it.
    pub(super) fn close_ring(&mut self, stations: &[u16], left: u16) {
        /// Ports of a ring: the next device is behind port 1 of the one before, at its port 0.
        const TO_NEXT: u16 = 1;
        const FROM_BEFORE: u16 = 0;
        let left = usize::from(left);
        let Some(behind) = stations.get(left) else { return };
        let before = left.checked_sub(1).and_then(|place| stations.get(place));
        let ends =
            before.map(|station| (station, TO_NEXT)).into_iter().chain([(behind, FROM_BEFORE)]);
        for (station, port) in ends {
            let values = self.values.iter_mut();
            let of_port = values
                .filter(|((of, range), _)| of == station && range.register == DL_STATUS)
                .filter(|(_, value)| value.data.len() >= 2);
            for (_, value) in of_port {
                let status = word(&value.data, 0) & !(1 << (8 + 2 * port));
                let status = status | 1 << (4 + port) | 1 << (9 + 2 * port);
                value.data[..2].copy_from_slice(&status.to_le_bytes());
            }
        }
    }

    /// Stores the values in the reply to such a frame.
    pub(super) fn take(&mut self, range: RegisterRange, reply: &[u8]) {
        for datagram in datagrams(reply) {
            let station = word(datagram.header, 2);
            let value = ReadValue { data: datagram.data.into(), counter: datagram.counter };
            self.values.insert((station, range), value);
        }
    }
}
