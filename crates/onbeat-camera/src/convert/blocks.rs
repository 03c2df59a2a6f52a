//! Blocks of 16 columns, converted and transposed in registers.
//!
//! ```text
//!   rows of the picture           16 vectors, one a row         transposed: one a column      strip
//!   y0  p00 p01 … p15             r0  p00 … p15                 c0  p00 p10 … p150            column x+0: c0
//!   y1  p10 p11 …         ───▶    r1  p10 …             ───▶    c1  p01 p11 …         ───▶    column x+1: c1
//!   …                             …                             …                             …
//! ```
//!
//! Interleaving row i with row i + 8, four times, is the transposition of 16 × 16 bytes.
#![allow(unsafe_code)]

use super::colour::{Coefficients, GRAY, ROUND};
use super::picture::{ChromaRows, Picture};
use super::vector::{Plain, Vector};
use super::{BLOCK, InstructionSet, STRIP};

/// Columns of a picture that are converted together, and the channels wanted: 1 or 3.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) from: usize,
    /// 1 to [`STRIP`].
    pub(super) columns: usize,
    pub(super) channels: usize,
}

/// Fills a strip: channel c begins at `c * STRIP * height`, its columns follow each other.
///
/// The picture was checked by `assert_whole`.
pub(super) fn fill_strip(set: InstructionSet, picture: &Picture<'_>, strip: Strip, to: &mut [u8]) {
    let (width, height) = picture.size();
    assert!(to.len() >= 3 * STRIP * height && strip.columns <= STRIP);
    assert!(strip.from + strip.columns <= width);
    let covered = match set {
        // SAFETY: the sizes were checked above and by `assert_whole`; an instruction set is chosen only
        // if the processor has it (`Converter::with_set`).
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Ssse3 => unsafe { by_ssse3(picture, strip, to) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        InstructionSet::Avx2 => unsafe { by_avx2(picture, strip, to) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        InstructionSet::Neon => unsafe { by_blocks::<super::vector::arm::Neon>(picture, strip, to) },
        // SAFETY: as above; no instructions beyond those of the target.
        _ => unsafe { by_blocks::<Plain>(picture, strip, to) },
    };
    by_pixels(picture, strip, covered, to);
}

/// What the blocks have left: columns and rows beyond `covered`.
fn by_pixels(picture: &Picture<'_>, strip: Strip, covered: (usize, usize), to: &mut [u8]) {
    let (_, height) = picture.size();
    if covered == (strip.columns, height) {
        return;
    }
    for y in 0..height {
        let line = picture.line(y);
        let first = if y < covered.1 { covered.0 } else { 0 };
        for column in first..strip.columns {
            let at = column * height + y;
            if strip.channels == 1 {
                to[at] = line.gray(strip.from + column);
            } else {
                let rgb = line.rgb(strip.from + column);
                for (channel, level) in rgb.into_iter().enumerate() {
                    to[channel * STRIP * height + at] = level;
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
unsafe fn by_ssse3(picture: &Picture<'_>, strip: Strip, to: &mut [u8]) -> (usize, usize) {
    // SAFETY: the caller's.
    unsafe { by_blocks::<super::vector::x86::Ssse3>(picture, strip, to) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn by_avx2(picture: &Picture<'_>, strip: Strip, to: &mut [u8]) -> (usize, usize) {
    // SAFETY: the caller's.
    unsafe { by_blocks::<super::vector::x86::Avx2>(picture, strip, to) }
}

/// Returns where blocks begin that cover `length` from 0: in steps, and a last one that overlaps the one
/// before. All begin at even places, as chroma has half the columns and rows; so one column or row of an
/// odd length can be left.
fn starts(length: usize, step: usize) -> impl Iterator<Item = usize> {
    let last = length.checked_sub(step).map(|last| last & !1);
    let whole = if last.is_some() { length / step } else { 0 };
    let rest = last.filter(|last| last + step > whole * step);
    (0..whole).map(move |i| i * step).chain(rest)
}

fn covered_by(length: usize, step: usize) -> usize {
    starts(length, step).last().map_or(0, |start| start + step)
}

/// Converts all whole blocks; returns the columns and rows that they cover.
///
/// # Safety
/// The picture is whole, the strip inside it, `to` long enough for it; the processor has the instructions.
#[inline(always)]
unsafe fn by_blocks<V: Vector>(picture: &Picture<'_>, strip: Strip, to: &mut [u8]) -> (usize, usize) {
    let (_, height) = picture.size();
    let rows = BLOCK * V::LANES;
    if height < rows || strip.columns < BLOCK {
        return (0, 0);
    }
    for y in starts(height, rows) {
        for column in starts(strip.columns, BLOCK) {
            let x = strip.from + column;
            // SAFETY: x + 16 <= width and y + rows <= height, so the block is inside the picture; its
            // columns are inside the strip, whose channels have STRIP * height bytes each.
            unsafe {
                let out = to.as_mut_ptr().add(column * height + y);
                block::<V>(picture, (x, y), strip.channels, (out, height));
            }
        }
    }
    (covered_by(strip.columns, BLOCK), covered_by(height, rows))
}

/// Converts one block; `out` is its first column, and the distance of columns.
#[inline(always)]
unsafe fn block<V: Vector>(
    picture: &Picture<'_>,
    (x, y): (usize, usize),
    channels: usize,
    out: (*mut u8, usize),
) {
    // SAFETY: the caller's.
    unsafe {
        match *picture {
            Picture::Rgb { width, pixels, .. } => {
                let from = pixels.as_ptr().add(3 * (y * width + x));
                let split = |row: usize| split_row::<V>(from.add(row * 3 * width), 3 * width);
                if channels == 1 {
                    put::<V>(std::array::from_fn(|row| gray::<V>(split(row))), out, 0);
                } else {
                    put_three::<V>(std::array::from_fn(split), out);
                }
            }
            Picture::Gray { width, pixels, .. } => {
                let from = pixels.as_ptr().add(y * width + x);
                let rows = std::array::from_fn(|row| V::load(from.add(row * width), BLOCK * width));
                for channel in 0..channels {
                    put::<V>(rows, out, channel);
                }
            }
            Picture::Yuv { width, luma, blue, red, rows, colours, .. } => {
                let from = luma.as_ptr().add(y * width + x);
                let by = Factors::<V>::of(&Coefficients::of(colours));
                let line = |row: usize| V::load(from.add(row * width), BLOCK * width);
                if channels == 1 {
                    put::<V>(std::array::from_fn(|row| by.gray(line(row))), out, 0);
                    return;
                }
                let shift = usize::from(rows == ChromaRows::Half);
                let half = width.div_ceil(2);
                let at = (y >> shift) * half + x / 2;
                let (blue, red) = (blue.as_ptr().add(at), red.as_ptr().add(at));
                put_three::<V>(
                    std::array::from_fn(|row| {
                        let chroma = (row >> shift) * half;
                        let apart = (BLOCK >> shift) * half;
                        let u = V::load_half(blue.add(chroma), apart);
                        let v = V::load_half(red.add(chroma), apart);
                        by.rgb(line(row), u, v)
                    }),
                    out,
                );
            }
        }
    }
}

#[inline(always)]
unsafe fn split_row<V: Vector>(from: *const u8, row_bytes: usize) -> [V; 3] {
    // SAFETY: the caller's: 48 bytes in each of the rows.
    unsafe {
        let apart = BLOCK * row_bytes;
        let at = |offset: usize| V::load(from.add(offset), apart);
        V::split([at(0), at(16), at(32)])
    }
}

#[inline(always)]
unsafe fn gray<V: Vector>([red, green, blue]: [V; 3]) -> V {
    // SAFETY: the caller's.
    unsafe {
        let zero = V::splat(0);
        let sum = |half: fn(V, V) -> V| {
            let of = |level: V, weight: i16| half(level, zero).mul_low(V::splat(weight));
            let two = of(red, GRAY[0]).add_wrapped(of(green, GRAY[1]));
            two.add_wrapped(of(blue, GRAY[2])).add_wrapped(V::splat(128)).right_8()
        };
        sum(|a, b| a.low(b)).pack(sum(|a, b| a.high(b)))
    }
}

/// The factors of [`Coefficients`] as vectors.
struct Factors<V> {
    black: V,
    luma: V,
    round: V,
    red_of_red: V,
    green_of_blue: V,
    green_of_red: V,
    blue_of_blue: V,
    sign: V,
    zero: V,
}

impl<V: Vector> Factors<V> {
    #[inline(always)]
    unsafe fn of(by: &Coefficients) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Self {
                black: V::splat(-by.black),
                luma: V::splat(by.luma),
                round: V::splat(ROUND),
                red_of_red: V::splat(by.red_of_red),
                green_of_blue: V::splat(by.green_of_blue),
                green_of_red: V::splat(by.green_of_red),
                blue_of_blue: V::splat(by.blue_of_blue),
                sign: V::splat(i16::from_ne_bytes([0x80, 0x80])),
                zero: V::splat(0),
            }
        }
    }

    /// Scaled luma of the lower and upper eight pixels of each lane.
    #[inline(always)]
    unsafe fn scaled(&self, luma: V) -> [V; 2] {
        // SAFETY: the caller's.
        unsafe {
            [luma.low(self.zero), luma.high(self.zero)]
                .map(|it| it.add_wrapped(self.black).left_7().mul_high(self.luma).add(self.round))
        }
    }

    #[inline(always)]
    unsafe fn gray(&self, luma: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = self.scaled(luma);
            low.right_6().pack(high.right_6())
        }
    }

    /// 16 pixels of each lane, of 16 luma and 8 chroma each.
    #[inline(always)]
    unsafe fn rgb(&self, luma: V, blue: V, red: V) -> [V; 3] {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = self.scaled(luma);
            let twice = |chroma: V| {
                let signed = chroma.xor(self.sign);
                let both = signed.low(signed);
                [self.zero.low(both), self.zero.high(both)]
            };
            let ([u_low, u_high], [v_low, v_high]) = (twice(blue), twice(red));
            let level = |y: V, chroma: V, by: V| y.add(chroma.mul_high(by)).right_6();
            let green = |y: V, u: V, v: V| {
                y.add(u.mul_high(self.green_of_blue)).add(v.mul_high(self.green_of_red)).right_6()
            };
            [
                level(low, v_low, self.red_of_red).pack(level(high, v_high, self.red_of_red)),
                green(low, u_low, v_low).pack(green(high, u_high, v_high)),
                level(low, u_low, self.blue_of_blue).pack(level(high, u_high, self.blue_of_blue)),
            ]
        }
    }
}

#[inline(always)]
unsafe fn put_three<V: Vector>(rows: [[V; 3]; BLOCK], out: (*mut u8, usize)) {
    for channel in 0..3 {
        // SAFETY: the caller's.
        unsafe { put::<V>(std::array::from_fn(|row| rows[row][channel]), out, channel) };
    }
}

/// Transposes 16 rows and stores them as columns of a channel.
#[inline(always)]
unsafe fn put<V: Vector>(rows: [V; BLOCK], (out, apart): (*mut u8, usize), channel: usize) {
    // SAFETY: the caller's: 16 columns with room for 16 bytes a lane.
    unsafe {
        let columns = transposed(transposed(transposed(transposed(rows))));
        let out = out.add(channel * STRIP * apart);
        for (column, bytes) in columns.into_iter().enumerate() {
            bytes.store(out.add(column * apart));
        }
    }
}

/// A quarter of the transposition.
#[inline(always)]
unsafe fn transposed<V: Vector>(rows: [V; BLOCK]) -> [V; BLOCK] {
    std::array::from_fn(|i| {
        let (one, other) = (rows[i / 2], rows[i / 2 + BLOCK / 2]);
        // SAFETY: the caller's.
        unsafe { if i % 2 == 0 { one.low(other) } else { one.high(other) } }
    })
}
