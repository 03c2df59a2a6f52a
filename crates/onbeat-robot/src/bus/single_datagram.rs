//! Frames of ethercrab with one datagram, and their replies when onbeat knows them.

use onbeat_rt::frame::word;

use super::datagram_view::datagrams;

/// Byte and bit of the frame that a device sets.
const PASSED_ON: (usize, u8) = (6, 0x02);
/// Offset of the first datagram's data.
pub(super) const DATA: usize = 26;

/// The datagram in a frame that has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SingleDatagram {
    /// Number of the command.
    pub(super) command: u8,
    /// Station address, or position.
    pub(super) station: u16,
    pub(super) register: u16,
    /// Length of the data, in bytes.
    pub(super) length: usize,
}

impl SingleDatagram {
    /// Returns the datagram of a frame; `None` with more than one, or none.
    pub(super) fn in_frame(frame: &[u8]) -> Option<Self> {
        let mut all = datagrams(frame);
        let datagram = all.next()?;
        all.next().is_none().then(|| Self {
            command: datagram.header[0],
            station: word(datagram.header, 2),
            register: word(datagram.header, 4),
            length: datagram.data.len(),
        })
    }

    /// Returns the data of the frame in which it was found.
    pub(super) fn data(self, frame: &[u8]) -> &[u8] {
        &frame[DATA..DATA + self.length]
    }

    /// Turns the frame in which it was found into its reply: these data, zeros after them, and this
    /// working counter.
    pub(super) fn answer(self, frame: &mut [u8], data: &[u8], counter: u16) {
        let kept = data.len().min(self.length);
        frame[DATA..DATA + kept].copy_from_slice(&data[..kept]);
        frame[DATA + kept..DATA + self.length].fill(0);
        self.accept(frame, counter);
    }

    /// Turns the frame in which it was found into its reply, with the data as sent.
    pub(super) fn accept(self, frame: &mut [u8], counter: u16) {
        frame[PASSED_ON.0] |= PASSED_ON.1;
        let end = DATA + self.length;
        frame[end..end + 2].copy_from_slice(&counter.to_le_bytes());
    }
}

/// Returns a frame with one datagram.
#[cfg(test)]
pub(super) fn frame(command: onbeat_rt::frame::Command, address: u32, data: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; onbeat_rt::frame::LONGEST];
    let mut writer = onbeat_rt::frame::Writer::new(&mut buffer, 0);
    writer.push_data(command, address, data);
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}
