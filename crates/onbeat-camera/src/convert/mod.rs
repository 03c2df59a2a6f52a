//! From the format of a decoder to the layout of a reader, in one pass.
//!
//! A picture is converted in strips of 64 columns: in the layout of MATLAB they are one run of memory for
//! each channel, so a strip is built in a buffer that stays in the second-level cache, in blocks of
//! 16 × 16 pixels that are converted and transposed in registers, and then copied as a whole, past the caches if the
//! picture is larger than they are. Each row of a strip is in another page, so the rows of the next blocks are asked for ahead. The
//! instruction set is chosen when the converter is made; all give the same pictures, bit by bit.
//!
//! Colours are computed with 16 bits, six of them behind the point: each channel is within one level of the
//! exact value. Chroma of half the size is repeated, as FFmpeg does.
//!
//! Absent on purpose: scaling, cropping, threads.

mod blocks;
mod colour;
mod picture;
mod streaming;
mod vector;

use onbeat_control::frames::{FrameFormat, PixelLayout};

pub use colour::{Colours, Matrix, Range};
pub use picture::{ChromaRows, Picture};

use blocks::{Strip, fill_strip};
use colour::luma_of;

/// Columns of a strip.
const STRIP: usize = 64;
/// Columns and rows of a block.
const BLOCK: usize = 16;

/// Bytes of a picture from which on it is written past the caches: they would not keep it until it is read, and without
/// it each line is read from memory before it is written.
const STREAMED_BYTES: usize = 16 << 20;

/// Instructions that a converter uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// None but those that every processor of the target has.
    Plain,
    /// SSSE3, 16 bytes at a time.
    Ssse3,
    /// AVX2, 32 bytes at a time.
    Avx2,
    /// NEON, 16 bytes at a time.
    Neon,
}

impl InstructionSet {
    /// Returns the sets that this processor has, the fastest one last.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            let found = [
                (Self::Ssse3, std::arch::is_x86_feature_detected!("ssse3")),
                (Self::Avx2, std::arch::is_x86_feature_detected!("avx2")),
            ];
            all.extend(found.into_iter().filter(|(_, has)| *has).map(|(set, _)| set));
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Self::Neon);
        all
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Ssse3 => "SSSE3",
            Self::Avx2 => "AVX2",
            Self::Neon => "NEON",
        }
    }
}

/// Converts pictures; keeps the memory that it needs.
#[derive(Debug)]
pub struct Converter {
    set: InstructionSet,
    strip: Vec<u8>,
}

impl Default for Converter {
    fn default() -> Self {
        Self::with_set(InstructionSet::all().pop().unwrap_or(InstructionSet::Plain))
    }
}

impl Converter {
    /// Makes a converter with one of the sets of [`InstructionSet::all`]; another one is replaced by the
    /// plain one.
    #[must_use]
    pub fn with_set(set: InstructionSet) -> Self {
        let has = InstructionSet::all().contains(&set);
        Self { set: if has { set } else { InstructionSet::Plain }, strip: Vec::new() }
    }

    /// Returns the set that is used.
    #[must_use]
    pub const fn set(&self) -> InstructionSet {
        self.set
    }

    /// Converts a picture into the layout of `format`, whose width and height are those of the picture.
    ///
    /// # Panics
    /// If `to` has not the length of the format, or the sizes differ: defects of the caller.
    pub fn convert(&mut self, picture: &Picture<'_>, format: FrameFormat, to: &mut [u8]) {
        let (width, height) = picture.size();
        assert_eq!((width, height), (format.width as usize, format.height as usize));
        assert_eq!(Some(to.len()), format.bytes());
        picture.assert_whole();
        let channels = format.channels as usize;
        match format.layout {
            PixelLayout::ColumnPlanes => self.columns(picture, channels, to),
            PixelLayout::RowInterleaved => rows(picture, channels, to),
            PixelLayout::Yuv420 => yuv(picture, channels, to),
        }
    }

    fn columns(&mut self, picture: &Picture<'_>, channels: usize, to: &mut [u8]) {
        let (width, height) = picture.size();
        let plane = width * height;
        self.strip.resize(3 * STRIP * height, 0);
        let is_streamed = to.len() >= STREAMED_BYTES;
        let mut begin = 0;
        while begin < width {
            // A last strip that is narrower than a block begins further left, in an even column.
            let last = width.saturating_sub(BLOCK) & !1;
            let from = if width - begin < BLOCK { begin.min(last) } else { begin };
            let strip = Strip { from, columns: (width - from).min(STRIP), channels };
            fill_strip(self.set, picture, strip, &mut self.strip);
            for channel in 0..channels {
                let length = strip.columns * height;
                let target = &mut to[channel * plane + from * height..][..length];
                let made = &self.strip[channel * STRIP * height..][..length];
                if is_streamed {
                    streaming::copy(made, target);
                } else {
                    target.copy_from_slice(made);
                }
            }
            begin = from + strip.columns;
        }
        if is_streamed {
            streaming::complete();
        }
    }
}

/// Returns the format of pictures of a size.
#[must_use]
pub fn format_of(
    (width, height): (usize, usize),
    channels: u32,
    layout: PixelLayout,
) -> FrameFormat {
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    FrameFormat { width: side(width), height: side(height), channels, layout }
}

/// Converts to rows with the colours of a pixel side by side.
pub(crate) fn rows_of(picture: &Picture<'_>, channels: u32, to: &mut Vec<u8>) {
    let (width, height) = picture.size();
    to.resize(width * height * channels as usize, 0);
    let format = format_of((width, height), channels, PixelLayout::RowInterleaved);
    Converter::default().convert(picture, format, to);
}

/// Row by row, channels side by side.
fn rows(picture: &Picture<'_>, channels: usize, to: &mut [u8]) {
    let (width, height) = picture.size();
    match *picture {
        Picture::Rgb { pixels, .. } if channels == 3 => to.copy_from_slice(&pixels[..to.len()]),
        _ => {
            for y in 0..height {
                let row = &mut to[y * width * channels..][..width * channels];
                let line = picture.line(y);
                if channels == 1 {
                    row.iter_mut().enumerate().for_each(|(x, to)| *to = line.gray(x));
                } else {
                    let (pixels, _) = row.as_chunks_mut::<3>();
                    pixels.iter_mut().enumerate().for_each(|(x, to)| *to = line.rgb(x));
                }
            }
        }
    }
}

/// I420, or luma alone: as decoders give it.
fn yuv(picture: &Picture<'_>, channels: usize, to: &mut [u8]) {
    let (width, height) = picture.size();
    let (luma, chroma) = to.split_at_mut(width * height);
    let half = (width.div_ceil(2), height.div_ceil(2));
    let (blue, red) = chroma.split_at_mut(chroma.len() / 2);
    if let Picture::Yuv { luma: from, blue: blues, red: reds, rows, .. } = *picture {
        luma.copy_from_slice(&from[..luma.len()]);
        let step = if rows == ChromaRows::Full { 2 } else { 1 };
        for y in 0..if channels == 3 { half.1 } else { 0 } {
            let (at, from) = (y * half.0, y * step * half.0);
            blue[at..][..half.0].copy_from_slice(&blues[from..][..half.0]);
            red[at..][..half.0].copy_from_slice(&reds[from..][..half.0]);
        }
        return;
    }

    for y in 0..height {
        let line = picture.line(y);
        for x in 0..width {
            luma[y * width + x] = luma_of(line.rgb(x));
        }
    }
    for at in 0..if channels == 3 { half.0 * half.1 } else { 0 } {
        let (x, y) = (2 * (at % half.0), 2 * (at / half.0));
        [blue[at], red[at]] = colour::chroma_of(picture.line(y).rgb(x));
    }
}
