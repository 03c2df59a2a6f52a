//! The memory of a ring of frames: header, stamps, pixels. `include/onbeat_frames.h` specifies it.

use crate::ring_file::{HeaderWords, MOST_BYTES};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ONBEATFR");
/// Version of the layout; changes with every change of it.
pub(super) const VERSION: u64 = 1;
/// Largest width and height, in pixels.
pub const MOST_SIDE: u32 = 16_384;
/// Maximum number of pictures kept.
pub const MOST_SLOTS: u64 = 64;
/// With fewer, a reader of the newest one would have less than two periods for it.
pub(super) const LEAST_SLOTS: u64 = 4;
/// Where the pixels of a slot begin: at a multiple of this, the size of a huge page.
pub(super) const PIXELS_ALIGN: u64 = 2 << 20;
/// Offset of the stamp of slot 0, and bytes of a stamp: two cache lines.
pub(super) const STAMPS_AT: usize = 4096;
pub(super) const STAMP_BYTES: usize = 128;
/// Offset and longest length of the texts, in bytes.
pub(super) const STATUS_AT: usize = 528;
pub(super) const MOST_STATUS: usize = 496;
pub(super) const DESCRIPTION_AT: usize = 1024;
pub(super) const MOST_DESCRIPTION: usize = 3072;

/// Words of the header; the first eight are those of a ring of messages.
pub(super) mod word {
    pub(crate) use crate::ring_object::word::{
        GENERATION, MAGIC, SLOT_BYTES, SLOTS, STATE, TOTAL_BYTES, VERSION, WRITER,
    };
    pub(crate) const PIXELS_AT: usize = 8;
    pub(crate) const STAMPS_AT: usize = 9;
    pub(crate) const WIDTH: usize = 10;
    pub(crate) const HEIGHT: usize = 11;
    pub(crate) const CHANNELS: usize = 12;
    pub(crate) const LAYOUT: usize = 13;
    pub(crate) const FRAME_BYTES: usize = 14;
    pub(crate) const CREATED_NS: usize = 15;
    pub(crate) const UTC_OFFSET_NS: usize = 16;
    pub(crate) const DESCRIPTION_BYTES: usize = 17;
    /// The number of the frame before the first one of this ring.
    pub(crate) const FIRST: usize = 18;
    /// In a cache line of its own.
    pub(crate) const NEWEST: usize = 40;
    pub(crate) const DROPPED: usize = 48;
    pub(crate) const RECONNECTIONS: usize = 49;
    pub(crate) const STATUS_SEQUENCE: usize = 64;
    pub(crate) const STATUS_BYTES: usize = 65;
}

/// How the pixels of a frame are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PixelLayout {
    /// Planes of red, green and blue, each column by column: a height × width × channels matrix of MATLAB,
    /// Octave, Fortran and Julia.
    #[default]
    ColumnPlanes = 1,
    /// Row by row, the channels of a pixel side by side: red, green, blue. As most image libraries.
    RowInterleaved,
    /// Row by row as decoders give it: the plane of luma, then those of blue and red chroma with half the
    /// width and half the height, rounded up (I420); luma alone with one channel.
    Yuv420,
}

impl PixelLayout {
    const ALL: [Self; 3] = [Self::ColumnPlanes, Self::RowInterleaved, Self::Yuv420];

    fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| *layout as u64 == number)
    }
}

/// What the pictures of a ring look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFormat {
    /// Width in pixels, 1 to [`MOST_SIDE`].
    pub width: u32,
    /// Height in pixels, 1 to [`MOST_SIDE`].
    pub height: u32,
    /// 1 for gray, 3 for colour.
    pub channels: u32,
    /// Order of the pixels.
    pub layout: PixelLayout,
}

impl FrameFormat {
    /// Returns the bytes of a picture; `None` for a format that cannot be kept.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        let sides = 1..=MOST_SIDE;
        if !sides.contains(&self.width)
            || !sides.contains(&self.height)
            || ![1, 3].contains(&self.channels)
        {
            return None;
        }
        let (width, height) = (self.width as usize, self.height as usize);
        Some(match (self.layout, self.channels) {
            (PixelLayout::Yuv420, 3) => width * height + 2 * width.div_ceil(2) * height.div_ceil(2),
            (_, channels) => width * height * channels as usize,
        })
    }
}

/// Where the parts of a ring of frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameOffsets {
    pub(super) format: FrameFormat,
    pub(super) slots: usize,
    pub(super) slot_bytes: usize,
    pub(super) pixels_at: usize,
    pub(super) frame_bytes: usize,
    pub(super) total: usize,
}

impl FrameOffsets {
    pub(super) fn new(format: FrameFormat, slots: u64) -> Option<Self> {
        let frame_bytes = format.bytes()?;
        if !(LEAST_SLOTS..=MOST_SLOTS).contains(&slots) {
            return None;
        }
        let slot_bytes = (frame_bytes as u64).next_multiple_of(PIXELS_ALIGN);
        let total = PIXELS_ALIGN + slots * slot_bytes;
        if total > MOST_BYTES {
            return None;
        }
        Some(Self {
            format,
            slots: usize::try_from(slots).ok()?,
            slot_bytes: usize::try_from(slot_bytes).ok()?,
            pixels_at: usize::try_from(PIXELS_ALIGN).ok()?,
            frame_bytes,
            total: usize::try_from(total).ok()?,
        })
    }

    /// Reads the offsets from a header and checks them; `None` when they contradict each other.
    pub(super) fn from_header(header: &HeaderWords) -> Option<Self> {
        let side = |word| u32::try_from(header.load(word)).ok();
        let format = FrameFormat {
            width: side(word::WIDTH)?,
            height: side(word::HEIGHT)?,
            channels: side(word::CHANNELS)?,
            layout: PixelLayout::from_number(header.load(word::LAYOUT))?,
        };
        let own = Self::new(format, header.load(word::SLOTS))?;
        let stated = [word::SLOT_BYTES, word::PIXELS_AT, word::FRAME_BYTES, word::TOTAL_BYTES];
        let right = [own.slot_bytes, own.pixels_at, own.frame_bytes, own.total];
        let agrees = stated.iter().zip(right).all(|(at, it)| header.load(*at) == it as u64);
        let texts = header.load(word::DESCRIPTION_BYTES) <= MOST_DESCRIPTION as u64;
        (agrees && texts && header.load(word::STAMPS_AT) == STAMPS_AT as u64).then_some(own)
    }

    /// Returns the slot of a frame.
    pub(super) const fn slot(&self, number: u64) -> usize {
        (number % self.slots as u64) as usize
    }

    pub(super) const fn stamp_at(&self, number: u64) -> usize {
        STAMPS_AT + self.slot(number) * STAMP_BYTES
    }

    pub(super) const fn pixels_of(&self, number: u64) -> usize {
        self.pixels_at + self.slot(number) * self.slot_bytes
    }
}
