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
use super::{BLOCK, InstructionSet, STRIP, streaming};

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
        InstructionSet::Neon => unsafe {
            by_blocks::<super::vector::arm::Neon>(picture, strip, to)
        },
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
// SAFETY: memory and instructions are the caller's to know.
unsafe fn by_ssse3(picture: &Picture<'_>, strip: Strip, to: &mut [u8]) -> (usize, usize) {
    // SAFETY: the caller's.
    unsafe { by_blocks::<super::vector::x86::Ssse3>(picture, strip, to) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
// SAFETY: memory and instructions are the caller's to know.
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
unsafe fn by_blocks<V: Vector>(
    picture: &Picture<'_>,
    strip: Strip,
    to: &mut [u8],
) -> (usize, usize) {
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
///
/// Without closures: one that is not inlined would be compiled without the instructions of `V`.
#[inline(always)]
// SAFETY: memory and instructions are the caller's to know.
unsafe fn block<V: Vector>(
    picture: &Picture<'_>,
    (x, y): (usize, usize),
    channels: usize,
    out: (*mut u8, usize),
) {
    // SAFETY: the caller's.
    unsafe {
        let mut planes = [[V::splat(0); BLOCK]; 3];
        match *picture {
            Picture::Rgb { width, pixels, .. } => {
                let from = pixels.as_ptr().add(3 * (y * width + x));
                for row in 0..BLOCK {
                    read_ahead::<V>(from, row, 3 * width);
                    let levels = split_row::<V>(from.add(row * 3 * width), 3 * width);
                    if channels == 1 {
                        planes[0][row] = gray::<V>(levels);
                    } else {
                        set(&mut planes, row, levels);
                    }
                }
            }
            Picture::Gray { width, pixels, .. } => {
                let from = pixels.as_ptr().add(y * width + x);
                for row in 0..BLOCK {
                    read_ahead::<V>(from, row, width);
                    let level = V::load(from.add(row * width), BLOCK * width);
                    set(&mut planes, row, [level; 3]);
                }
            }
            Picture::Yuv { width, luma, blue, red, rows, colours, .. } => {
                let from = luma.as_ptr().add(y * width + x);
                let by = Factors::<V>::of(&Coefficients::of(colours));
                let shift = usize::from(matches!(rows, ChromaRows::Half));
                let half = width.div_ceil(2);
                let at = (y >> shift) * half + x / 2;
                let (blue, red) = (blue.as_ptr().add(at), red.as_ptr().add(at));
                let apart = (BLOCK >> shift) * half;
                for row in 0..BLOCK {
                    read_ahead::<V>(from, row, width);
                }
                for pair in 0..BLOCK / 2 {
                    let row = 2 * pair;
                    let levels = [
                        V::load(from.add(row * width), BLOCK * width),
                        V::load(from.add((row + 1) * width), BLOCK * width),
                    ];
                    if channels == 1 {
                        planes[0][row] = by.gray(levels[0]);
                        planes[0][row + 1] = by.gray(levels[1]);
                        continue;
                    }
                    let at = (row >> shift) * half;
                    let first = by.chroma(
                        V::load_half(blue.add(at), apart),
                        V::load_half(red.add(at), apart),
                    );
                    set(&mut planes, row, by.rgb(levels[0], &first));
                    // With half the rows, chroma is that of two rows of luma.
                    let second = if shift == 1 {
                        first
                    } else {
                        let at = at + half;
                        by.chroma(
                            V::load_half(blue.add(at), apart),
                            V::load_half(red.add(at), apart),
                        )
                    };
                    set(&mut planes, row + 1, by.rgb(levels[1], &second));
                }
            }
        }
        put::<V>(&planes[0], out, 0);
        if channels == 3 {
            put::<V>(&planes[1], out, 1);
            put::<V>(&planes[2], out, 2);
        }
    }
}

/// Has the processor read a row of the block below, in each lane: it is in another page, where no processor looks by itself.
#[inline(always)]
fn read_ahead<V: Vector>(from: *const u8, row: usize, row_bytes: usize) {
    for lane in 0..V::LANES {
        streaming::read_ahead(from.wrapping_add((BLOCK * (V::LANES + lane) + row) * row_bytes));
    }
}

#[inline(always)]
fn set<V: Vector>(planes: &mut [[V; BLOCK]; 3], row: usize, levels: [V; 3]) {
    planes[0][row] = levels[0];
    planes[1][row] = levels[1];
    planes[2][row] = levels[2];
}

#[inline(always)]
// SAFETY: memory and instructions are the caller's to know.
unsafe fn split_row<V: Vector>(from: *const u8, row_bytes: usize) -> [V; 3] {
    // SAFETY: the caller's: 48 bytes in each of the rows.
    unsafe {
        let apart = BLOCK * row_bytes;
        V::split([V::load(from, apart), V::load(from.add(16), apart), V::load(from.add(32), apart)])
    }
}

#[inline(always)]
// SAFETY: memory and instructions are the caller's to know.
unsafe fn gray<V: Vector>([red, green, blue]: [V; 3]) -> V {
    // SAFETY: the caller's.
    unsafe {
        let zero = V::splat(0);
        let low = weighted(red.low(zero), green.low(zero), blue.low(zero));
        let high = weighted(red.high(zero), green.high(zero), blue.high(zero));
        low.pack(high)
    }
}

#[inline(always)]
// SAFETY: memory and instructions are the caller's to know.
unsafe fn weighted<V: Vector>(red: V, green: V, blue: V) -> V {
    // SAFETY: the caller's.
    unsafe {
        let two = red.mul_low(V::splat(GRAY[0])).add_wrapped(green.mul_low(V::splat(GRAY[1])));
        let all = two.add_wrapped(blue.mul_low(V::splat(GRAY[2])));
        all.add_wrapped(V::splat(128)).right_8()
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
    // SAFETY: memory and instructions are the caller's to know.
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

    /// Scaled luma of eight pixels of each lane.
    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know.
    unsafe fn scaled(&self, words: V) -> V {
        // SAFETY: the caller's.
        unsafe { words.add_wrapped(self.black).left_7().mul_high(self.luma).add(self.round) }
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know.
    unsafe fn gray(&self, luma: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let low = self.scaled(luma.low(self.zero)).right_6();
            low.pack(self.scaled(luma.high(self.zero)).right_6())
        }
    }

    /// What eight chroma of each lane add to 16 pixels.
    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know.
    unsafe fn chroma(&self, blue: V, red: V) -> [Chroma<V>; 2] {
        // SAFETY: the caller's.
        unsafe {
            let (u, v) = (blue.xor(self.sign), red.xor(self.sign));
            let (u, v) = (u.low(u), v.low(v));
            [
                self.parts(self.zero.low(u), self.zero.low(v)),
                self.parts(self.zero.high(u), self.zero.high(v)),
            ]
        }
    }

    /// Of eight pixels of each lane. Nothing is saturated here, so that the order of additions is free.
    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know.
    unsafe fn parts(&self, u: V, v: V) -> Chroma<V> {
        // SAFETY: the caller's.
        unsafe {
            Chroma {
                red: v.mul_high(self.red_of_red),
                green: u.mul_high(self.green_of_blue).add(v.mul_high(self.green_of_red)),
                blue: u.mul_high(self.blue_of_blue),
            }
        }
    }

    /// 16 pixels of each lane, of 16 luma each.
    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know.
    unsafe fn rgb(&self, luma: V, [low, high]: &[Chroma<V>; 2]) -> [V; 3] {
        // SAFETY: the caller's.
        unsafe {
            let y = self.scaled(luma.low(self.zero));
            let z = self.scaled(luma.high(self.zero));
            [
                y.add(low.red).right_6().pack(z.add(high.red).right_6()),
                y.add(low.green).right_6().pack(z.add(high.green).right_6()),
                y.add(low.blue).right_6().pack(z.add(high.blue).right_6()),
            ]
        }
    }
}

/// What chroma adds to luma, as words.
#[derive(Clone, Copy)]
struct Chroma<V> {
    red: V,
    green: V,
    blue: V,
}

/// Transposes 16 rows and stores them as columns of a channel.
#[inline(always)]
// SAFETY: memory and instructions are the caller's to know.
unsafe fn put<V: Vector>(rows: &[V; BLOCK], (out, apart): (*mut u8, usize), channel: usize) {
    // SAFETY: the caller's: 16 columns with room for 16 bytes a lane.
    unsafe {
        let out = out.add(channel * STRIP * apart);
        let mut columns = *rows;
        for _ in 0..4 {
            columns = interleaved(&columns);
        }
        for (column, bytes) in columns.iter().enumerate() {
            bytes.store(out.add(column * apart));
        }
    }
}

/// A quarter of the transposition.
#[inline(always)]
// SAFETY: memory and instructions are the caller's to know.
unsafe fn interleaved<V: Vector>(rows: &[V; BLOCK]) -> [V; BLOCK] {
    let mut to = *rows;
    for i in 0..BLOCK / 2 {
        // SAFETY: the caller's.
        unsafe {
            to[2 * i] = rows[i].low(rows[i + BLOCK / 2]);
            to[2 * i + 1] = rows[i].high(rows[i + BLOCK / 2]);
        }
    }
    to
}
