//! The datagrams of a received frame.

use onbeat_rt::frame::word;

/// A datagram of a frame.
pub(super) struct DatagramView<'f> {
    pub(super) header: &'f [u8],
    pub(super) data: &'f [u8],
    pub(super) counter: u16,
}

/// Returns the complete datagrams of an Ethernet frame.
pub(super) fn datagrams(frame: &[u8]) -> impl Iterator<Item = DatagramView<'_>> {
    let mut rest = frame.get(16..).unwrap_or_default();
    let mut more = true;
    std::iter::from_fn(move || {
        if !more || rest.len() < 12 {
            return None;
        }

        let (header, behind) = rest.split_at(10);
        let length = usize::from(word(header, 6) & 0x07ff);
        let data = behind.get(..length)?;
        let counter = behind.get(length..length + 2)?;
        more = word(header, 6) & 0x8000 != 0;
        rest = &behind[length + 2..];
        Some(DatagramView { header, data, counter: word(counter, 0) })
    })
}
