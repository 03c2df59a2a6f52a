//! Every instruction set gives the same pictures, bit by bit, and they are those of the formulas.

use onbeat_camera::convert::{
    ChromaRows, Colours, Converter, InstructionSet, Matrix, Picture, Range,
};
use onbeat_control::frames::{FrameFormat, PixelLayout};

const SIZES: [(usize, usize); 16] = [
    (1, 1),
    (2, 3),
    (15, 40),
    (16, 16),
    (16, 32),
    (17, 33),
    (31, 31),
    (33, 65),
    (48, 47),
    (63, 64),
    (64, 33),
    (65, 31),
    (80, 18),
    (129, 50),
    (130, 97),
    (200, 120),
];

fn random_bytes(length: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    // Extremes more often than chance would have them.
    (0..length)
        .map(|_| {
            if random.u8(..) < 60 {
                [0, 1, 16, 128, 235, 255][random.usize(..6)]
            } else {
                random.u8(..)
            }
        })
        .collect()
}

fn converted(
    set: InstructionSet,
    picture: &Picture<'_>,
    channels: u32,
    layout: PixelLayout,
) -> Vec<u8> {
    let (width, height) = picture.size();
    let format = FrameFormat { width: width as u32, height: height as u32, channels, layout };
    // What is not written is seen.
    let mut to = vec![0xa5; format.bytes().unwrap()];
    Converter::with_set(set).convert(picture, format, &mut to);
    to
}

/// Column planes from rows, one pixel at a time.
fn transposed(rows: &[u8], (width, height): (usize, usize), channels: usize) -> Vec<u8> {
    let mut to = vec![0; rows.len()];
    for y in 0..height {
        for x in 0..width {
            for c in 0..channels {
                to[(c * width + x) * height + y] = rows[(y * width + x) * channels + c];
            }
        }
    }
    to
}

fn pictures_of<'p>((width, height): (usize, usize), bytes: &'p [u8]) -> Vec<Picture<'p>> {
    let mut all = vec![
        Picture::Rgb { width, height, pixels: &bytes[..3 * width * height] },
        Picture::Gray { width, height, pixels: &bytes[..width * height] },
    ];
    for matrix in [Matrix::Bt601, Matrix::Bt709] {
        for range in [Range::Limited, Range::Full] {
            for rows in [ChromaRows::Half, ChromaRows::Full] {
                let lines = if rows == ChromaRows::Half { height.div_ceil(2) } else { height };
                let chroma = width.div_ceil(2) * lines;
                let (luma, rest) = bytes.split_at(width * height);
                let (blue, rest) = rest.split_at(chroma);
                let red = &rest[..chroma];
                let colours = Colours { matrix, range };
                all.push(Picture::Yuv { width, height, luma, blue, red, rows, colours });
            }
        }
    }
    all
}

#[test]
fn all_instruction_sets_give_the_same_pictures_as_one_pixel_at_a_time() {
    let sets = InstructionSet::all();
    println!("instruction sets of this processor: {sets:?}");
    let mut random = fastrand::Rng::with_seed(11);
    for size in SIZES {
        let bytes = random_bytes(4 * (size.0 + 1) * (size.1 + 1), &mut random);
        for picture in pictures_of(size, &bytes) {
            for channels in [1, 3] {
                let rows = converted(sets[0], &picture, channels, PixelLayout::RowInterleaved);
                let right = transposed(&rows, size, channels as usize);
                for set in &sets {
                    let found = converted(*set, &picture, channels, PixelLayout::ColumnPlanes);
                    let differs = found.iter().zip(&right).position(|(one, other)| one != other);
                    assert_eq!(differs, None, "{set:?} {size:?} {channels} {picture:.0?}");
                }
            }
        }
    }
}

#[test]
fn colours_are_within_one_level_of_the_exact_formula() {
    for (matrix, red, blue) in [(Matrix::Bt601, 0.299, 0.114), (Matrix::Bt709, 0.2126, 0.0722)] {
        for range in [Range::Limited, Range::Full] {
            let (black, luma, chroma) = match range {
                Range::Limited => (16.0, 219.0, 224.0),
                Range::Full => (0.0, 255.0, 255.0),
            };
            let mut worst = 0.0_f64;
            for all in 0..64_u32 * 64 * 64 {
                let level = |shift: u32| (((all >> shift) & 63) * 255 / 63) as u8;
                let (y, u, v) = (level(0), level(6), level(12));
                let colours = Colours { matrix, range };
                let bytes = [y, u, v];
                let picture = Picture::i420(1, 1, &bytes, colours).unwrap();
                let found =
                    converted(InstructionSet::Plain, &picture, 3, PixelLayout::RowInterleaved);
                let scaled = |value: u8, middle: f64, steps: f64| {
                    (f64::from(value) - middle) / steps * 255.0
                };
                let (y, u, v) =
                    (scaled(y, black, luma), scaled(u, 128.0, chroma), scaled(v, 128.0, chroma));
                let exact_red = y + 2.0 * (1.0 - red) * v;
                let exact_blue = y + 2.0 * (1.0 - blue) * u;
                let exact_green = (y - red * exact_red - blue * exact_blue) / (1.0 - red - blue);
                for (found, exact) in found.iter().zip([exact_red, exact_green, exact_blue]) {
                    worst = worst.max((f64::from(*found) - exact.clamp(0.0, 255.0)).abs());
                }
            }
            assert!(worst <= 1.0, "{matrix:?} {range:?}: {worst}");
        }
    }
}

#[test]
fn a_decoded_picture_is_passed_on_as_it_is() {
    let bytes: Vec<u8> = (0..6 * 4 * 3 / 2).map(|at| at as u8).collect();
    let picture = Picture::i420(6, 4, &bytes, Colours::default()).unwrap();
    assert_eq!(converted(InstructionSet::Plain, &picture, 3, PixelLayout::Yuv420), bytes);
    assert_eq!(converted(InstructionSet::Plain, &picture, 1, PixelLayout::Yuv420), bytes[..24]);
    assert!(Picture::i420(6, 4, &bytes[1..], Colours::default()).is_none());
}

/// Written past the caches.
#[test]
fn pictures_larger_than_the_caches_are_the_same_by_every_instruction_set() {
    let mut random = fastrand::Rng::with_seed(41);
    let (width, height) = (2603, 2169);
    let pixels: Vec<u8> =
        std::iter::repeat_with(|| random.u8(..)).take(3 * width * height).collect();
    let picture = Picture::Rgb { width, height, pixels: &pixels };
    let expected = transposed(&pixels, (width, height), 3);
    assert!(expected.len() > 16 << 20);
    for set in InstructionSet::all() {
        let found = converted(set, &picture, 3, PixelLayout::ColumnPlanes);
        assert!(found == expected, "{}", set.name());
    }
}
