//! Number and time of a test picture, painted so that they can be read after compression.
//!
//! The upper left corner has three rows of 32 square cells, white for 1 and black for 0, the highest bit
//! first: 32 bits of the picture's number, 48 bits of its time in µs (`CLOCK_MONOTONIC`), and 16 bits of a
//! check sum: the sum of the ten bytes before, each times its place from 1, modulo 65,521. A cell has an
//! even number of pixels, a fortieth of the width, 4 to 32. Pictures narrower than 160 pixels or lower than
//! 12 have no room for it.

/// Cells in a row, and rows.
const COLUMNS: usize = 32;
const ROWS: usize = 3;
const BYTES: usize = COLUMNS * ROWS / 8;
const MODULUS: u32 = 65_521;

/// What a picture says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Painted {
    /// Its number, modulo 2^32.
    pub number: u32,
    /// When it was painted, `CLOCK_MONOTONIC` in µs, modulo 2^48.
    pub at_us: u64,
}

/// Returns the pixels of a side of a cell; `None` where there is no room.
#[must_use]
pub fn cell_side(width: usize, height: usize) -> Option<usize> {
    let side = ((width / 40) & !1).clamp(4, 32);
    (COLUMNS * side <= width && ROWS * side <= height).then_some(side)
}

fn bytes_of(painted: Painted) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&painted.number.to_be_bytes());
    bytes[4..10].copy_from_slice(&painted.at_us.to_be_bytes()[2..]);
    let sum = check_sum(&bytes[..10]);
    bytes[10..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn check_sum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.iter().zip(1..).map(|(byte, place)| u32::from(*byte) * place).sum();
    (sum % MODULUS) as u16
}

/// Paints into a picture, by a function that sets pixels in row `y` from column `x` on to a level:
/// `set(x, y, length, level)`.
pub fn paint(
    width: usize,
    height: usize,
    painted: Painted,
    mut set: impl FnMut(usize, usize, usize, u8),
) {
    let Some(side) = cell_side(width, height) else { return };
    let bytes = bytes_of(painted);
    for y in 0..ROWS * side {
        for column in 0..COLUMNS {
            let bit = y / side * COLUMNS + column;
            let is_set = bytes[bit / 8] & (0x80 >> (bit % 8)) != 0;
            set(column * side, y, side, if is_set { 255 } else { 0 });
        }
    }
}

/// Reads what was painted, by a function that returns the level of a pixel: `level(x, y)`. `None` if the
/// check sum does not agree.
#[must_use]
pub fn read(width: usize, height: usize, level: impl Fn(usize, usize) -> u8) -> Option<Painted> {
    let side = cell_side(width, height)?;
    let mut bytes = [0; BYTES];
    for bit in 0..8 * BYTES {
        let (x, y) = (bit % COLUMNS * side + side / 2, bit / COLUMNS * side + side / 2);
        let sum: u32 = [(0, 0), (1, 0), (0, 1), (1, 1)]
            .iter()
            .map(|(right, below)| u32::from(level(x - right, y - below)))
            .sum();
        if sum >= 4 * 128 {
            bytes[bit / 8] |= 0x80 >> (bit % 8);
        }
    }
    let (number, at_us) = (&bytes[..4], &bytes[4..10]);
    let painted = Painted {
        number: number.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)),
        at_us: at_us.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    };
    (bytes_of(painted) == bytes).then_some(painted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_painted_is_read_again_and_a_changed_bit_is_noticed() {
        let mut random = fastrand::Rng::with_seed(7);
        for (width, height) in [(160, 12), (641, 480), (1920, 1080), (3840, 2160)] {
            let mut picture = vec![128; width * height];
            let painted = Painted { number: random.u32(..), at_us: random.u64(..1 << 48) };
            paint(width, height, painted, |x, y, length, level| {
                picture[y * width + x..][..length].fill(level);
            });
            let side = cell_side(width, height).unwrap();
            assert_eq!(read(width, height, |x, y| picture[y * width + x]), Some(painted));
            for y in 0..side {
                picture[y * width..][..side].iter_mut().for_each(|level| *level = 255 - *level);
            }
            assert_eq!(read(width, height, |x, y| picture[y * width + x]), None);
        }
        assert_eq!(read(100, 100, |_, _| 0), None);
    }
}
