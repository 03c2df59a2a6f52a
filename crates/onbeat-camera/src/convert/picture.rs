//! Pictures as decoders give them.

use super::colour::{Coefficients, Colours, gray_of, gray_of_luma, rgb_of};

/// How many rows of chroma a picture has. Chroma has half the columns in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChromaRows {
    /// One for two rows of luma (4:2:0).
    Half,
    /// One for each (4:2:2).
    Full,
}

/// A picture, row by row without gaps.
#[derive(Clone, Copy, Debug)]
pub enum Picture<'p> {
    /// Red, green and blue side by side.
    Rgb {
        width: usize,
        height: usize,
        /// Three bytes a pixel.
        pixels: &'p [u8],
    },
    /// Gray in the full range.
    Gray {
        width: usize,
        height: usize,
        /// One byte a pixel.
        pixels: &'p [u8],
    },
    /// Planes of luma and chroma.
    Yuv {
        /// Columns of luma.
        width: usize,
        /// Rows of luma.
        height: usize,
        /// Plane of luma.
        luma: &'p [u8],
        /// Plane of blue chroma; its width is half that of luma, rounded up.
        blue: &'p [u8],
        /// Plane of red chroma.
        red: &'p [u8],
        rows: ChromaRows,
        /// How they are to be read.
        colours: Colours,
    },
}

impl<'p> Picture<'p> {
    /// An I420 picture in one piece; `None` if it has not the right length.
    #[must_use]
    pub fn i420(width: usize, height: usize, bytes: &'p [u8], colours: Colours) -> Option<Self> {
        let chroma = width.div_ceil(2) * height.div_ceil(2);
        if bytes.len() != width * height + 2 * chroma {
            return None;
        }
        let (luma, rest) = bytes.split_at(width * height);
        let (blue, red) = rest.split_at(chroma);
        Some(Self::Yuv { width, height, luma, blue, red, rows: ChromaRows::Half, colours })
    }

    /// Returns columns and rows.
    #[must_use]
    pub const fn size(&self) -> (usize, usize) {
        match self {
            Self::Rgb { width, height, .. }
            | Self::Gray { width, height, .. }
            | Self::Yuv { width, height, .. } => (*width, *height),
        }
    }

    /// Panics if a plane is too short: the blocks read without further checks.
    pub(super) fn assert_whole(&self) {
        let (width, height) = self.size();
        match self {
            Self::Rgb { pixels, .. } => assert!(pixels.len() >= 3 * width * height),
            Self::Gray { pixels, .. } => assert!(pixels.len() >= width * height),
            Self::Yuv { luma, blue, red, rows, .. } => {
                let lines = if *rows == ChromaRows::Half { height.div_ceil(2) } else { height };
                let chroma = width.div_ceil(2) * lines;
                assert!(luma.len() >= width * height && blue.len().min(red.len()) >= chroma);
            }
        }
    }

    /// Returns a row.
    pub(super) fn line(&self, y: usize) -> Line<'p> {
        match *self {
            Self::Rgb { width, pixels, .. } => Line::Rgb(&pixels[3 * width * y..][..3 * width]),
            Self::Gray { width, pixels, .. } => Line::Gray(&pixels[width * y..][..width]),
            Self::Yuv { width, luma, blue, red, rows, colours, .. } => {
                let half = width.div_ceil(2);
                let at = half * if rows == ChromaRows::Half { y / 2 } else { y };
                let luma = &luma[width * y..][..width];
                let by = Coefficients::of(colours);
                Line::Yuv { luma, blue: &blue[at..][..half], red: &red[at..][..half], by }
            }
        }
    }
}

/// A row of a picture.
pub(super) enum Line<'p> {
    Rgb(&'p [u8]),
    Gray(&'p [u8]),
    Yuv { luma: &'p [u8], blue: &'p [u8], red: &'p [u8], by: Coefficients },
}

impl Line<'_> {
    pub(super) fn rgb(&self, x: usize) -> [u8; 3] {
        match self {
            Self::Rgb(pixels) => [pixels[3 * x], pixels[3 * x + 1], pixels[3 * x + 2]],
            Self::Gray(pixels) => [pixels[x]; 3],
            Self::Yuv { luma, blue, red, by } => rgb_of(luma[x], blue[x / 2], red[x / 2], by),
        }
    }

    pub(super) fn gray(&self, x: usize) -> u8 {
        match self {
            Self::Rgb(_) => gray_of(self.rgb(x)),
            Self::Gray(pixels) => pixels[x],
            Self::Yuv { luma, by, .. } => gray_of_luma(luma[x], by),
        }
    }
}
