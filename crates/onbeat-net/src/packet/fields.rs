//! Numbers of a message: little-endian, at offsets.

/// Little-endian numbers at offsets; the length was checked.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'m>(pub(crate) &'m [u8]);

impl Fields<'_> {
    pub(crate) fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub(crate) fn f32(self, at: usize) -> f32 {
        f32::from_le_bytes(self.array(at))
    }

    pub(crate) fn f32s<const N: usize>(self, at: usize) -> [f32; N] {
        std::array::from_fn(|place| self.f32(at + 4 * place))
    }

    pub(crate) fn f64(self, at: usize) -> f64 {
        f64::from_le_bytes(self.array(at))
    }
}

/// Bytes written one after another, up to the end.
pub(super) struct Writing<'m> {
    pub(super) bytes: &'m mut [u8],
    pub(super) at: usize,
}

impl Writing<'_> {
    pub(super) fn put(&mut self, from: &[u8]) {
        let room = &mut self.bytes[self.at..];
        let length = from.len().min(room.len());
        room[..length].copy_from_slice(&from[..length]);
        self.at += length;
    }

    pub(super) fn f32s(&mut self, values: &[f32]) {
        for value in values {
            self.put(&value.to_le_bytes());
        }
    }
}
