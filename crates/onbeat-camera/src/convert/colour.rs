//! Colours: from luma and chroma to red, green and blue, one pixel at a time. The blocks do the same with
//! vectors.
//!
//! Formulas: ITU-R BT.601-7 and BT.709-6, section 3, with the ranges of 8 bits; JFIF uses BT.601 and the
//! full range.

use super::vector::mul_high;

/// Weights of red and blue in luma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Matrix {
    /// Standard definition and JPEG: 0.299 and 0.114.
    #[default]
    Bt601,
    /// High definition: 0.2126 and 0.0722.
    Bt709,
}

/// Levels of black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Range {
    /// 16 to 235, chroma 16 to 240: video.
    #[default]
    Limited,
    /// 0 to 255: JPEG.
    Full,
}

/// How luma and chroma are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Colours {
    pub matrix: Matrix,
    pub range: Range,
}

/// Factors as words of 16 bits. Luma is (y − black) << 7, chroma (u − 128) << 8; products have six bits
/// behind the point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficients {
    pub(super) black: i16,
    pub(super) luma: i16,
    pub(super) red_of_red: i16,
    pub(super) green_of_blue: i16,
    pub(super) green_of_red: i16,
    pub(super) blue_of_blue: i16,
}

impl Coefficients {
    pub(super) fn of(colours: Colours) -> Self {
        let (red, blue) = match colours.matrix {
            Matrix::Bt601 => (0.299, 0.114),
            Matrix::Bt709 => (0.2126, 0.0722),
        };
        let green = 1.0 - red - blue;
        let (luma, chroma, black) = match colours.range {
            Range::Limited => (255.0 / 219.0, 255.0 / 224.0, 16),
            Range::Full => (1.0, 1.0, 0),
        };
        // mul_high divides by 2^15: (y << 7) · k / 2^15 is y · factor · 2^6 for k = factor · 2^14, and
        // with << 8 for k = factor · 2^13.
        let of_luma = |factor: f64| (factor * 16384.0).round() as i16;
        let of_chroma = |factor: f64| (factor * chroma * 8192.0).round() as i16;
        Self {
            black,
            luma: of_luma(luma),
            red_of_red: of_chroma(2.0 * (1.0 - red)),
            green_of_blue: of_chroma(-2.0 * (1.0 - blue) * blue / green),
            green_of_red: of_chroma(-2.0 * (1.0 - red) * red / green),
            blue_of_blue: of_chroma(2.0 * (1.0 - blue)),
        }
    }
}

/// Half of the last bit behind the point.
pub(super) const ROUND: i16 = 32;
/// Weights of red, green and blue in gray, of 256.
pub(super) const GRAY: [i16; 3] = [77, 150, 29];

/// Red, green and blue of one pixel.
pub(super) fn rgb_of(luma: u8, blue: u8, red: u8, by: &Coefficients) -> [u8; 3] {
    let y = mul_high((i16::from(luma) - by.black) << 7, by.luma).saturating_add(ROUND);
    let of = |chroma: u8| i16::from_be_bytes([chroma ^ 0x80, 0]);
    let (u, v) = (of(blue), of(red));
    let level = |sum: i16| (sum >> 6).clamp(0, 255) as u8;
    let green = y.saturating_add(mul_high(u, by.green_of_blue));
    [
        level(y.saturating_add(mul_high(v, by.red_of_red))),
        level(green.saturating_add(mul_high(v, by.green_of_red))),
        level(y.saturating_add(mul_high(u, by.blue_of_blue))),
    ]
}

/// The gray of luma, in the full range.
pub(super) fn gray_of_luma(luma: u8, by: &Coefficients) -> u8 {
    let y = mul_high((i16::from(luma) - by.black) << 7, by.luma).saturating_add(ROUND);
    (y >> 6).clamp(0, 255) as u8
}

/// The gray of red, green and blue: BT.601, as MATLAB's `rgb2gray`.
pub(super) fn gray_of([red, green, blue]: [u8; 3]) -> u8 {
    let of = |level: u8, weight: i16| u32::from(level) * u32::from(weight.cast_unsigned());
    ((of(red, GRAY[0]) + of(green, GRAY[1]) + of(blue, GRAY[2]) + 128) >> 8) as u8
}

/// Luma of the limited range, BT.601.
pub(super) fn luma_of([red, green, blue]: [u8; 3]) -> u8 {
    let of = |level: u8, weight: u32| u32::from(level) * weight;
    (16 + ((of(red, 66) + of(green, 129) + of(blue, 25) + 128) >> 8)) as u8
}

/// Blue and red chroma of the limited range, BT.601.
pub(super) fn chroma_of([red, green, blue]: [u8; 3]) -> [u8; 2] {
    let of = |level: u8, weight: i32| i32::from(level) * weight;
    let blues = (of(red, -38) + of(green, -74) + of(blue, 112) + 128) >> 8;
    let reds = (of(red, 112) + of(green, -94) + of(blue, -18) + 128) >> 8;
    [(128 + blues) as u8, (128 + reds) as u8]
}
