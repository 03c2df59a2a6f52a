//! A small JPEG picture of a picture: the mean of the pixels that a small one stands for.

use std::io::Write;
use std::process::{Command, Stdio};

use jpeg_encoder::{ColorType, Encoder};
use onbeat_control::frames::MOST_SIDE;

use super::message::LoggedPicture;
use crate::convert::{self, ChromaRows, Colours, Picture};
use crate::source::jpeg::Jpegs;

/// Qualities that are tried, until a picture is short enough.
const QUALITIES: [u8; 3] = [72, 45, 20];

/// A small picture, with the size of what it was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Small {
    pub(super) of: [usize; 2],
    pub(super) size: [usize; 2],
    pub(super) jpeg: Vec<u8>,
}

impl Small {
    /// Makes one of at most `side` columns and rows and `most` bytes; `None` for a picture of a video that
    /// needs those before it.
    pub(super) fn of(
        from: &LoggedPicture<'_>,
        side: usize,
        most: usize,
    ) -> Result<Option<Self>, String> {
        match *from {
            LoggedPicture::Video { format, data } if !begins_a_video(format, data)? => Ok(None),
            LoggedPicture::Video { format, data } => {
                let picture = decoded_by_ffmpeg(format, data)?;
                Self::of_jpeg(&picture, side, most).map(Some)
            }
            LoggedPicture::Compressed { data, .. } if data.starts_with(&[0xff, 0xd8]) => {
                Self::of_jpeg(data, side, most).map(Some)
            }
            LoggedPicture::Compressed { format, .. } => {
                Err(format!("pictures of the format \"{}\" are not decoded", cut(format)))
            }
            LoggedPicture::Raw { width, height, encoding, step, data } => {
                let rgb = rows_of((width, height), encoding, step, data)?;
                Self::of_rgb((width, height), &rgb, side, most).map(Some)
            }
        }
    }

    fn of_jpeg(data: &[u8], side: usize, most: usize) -> Result<Self, String> {
        let mut decoder = Jpegs::new(false);
        decoder.decode(data).map_err(|_| "JPEG pictures that cannot be decoded".to_owned())?;
        let (picture, mut rgb) = (decoder.picture(), Vec::new());
        convert::rows_of(&picture, 3, &mut rgb);
        Self::of_rgb(picture.size(), &rgb, side, most)
    }

    fn of_rgb(
        (width, height): (usize, usize),
        rgb: &[u8],
        side: usize,
        most: usize,
    ) -> Result<Self, String> {
        let longest = width.max(height);
        let less = |length: usize| {
            if longest <= side { length } else { (length * side / longest).max(1) }
        };
        let size = [less(width), less(height)];
        let pixels = shrunk((width, height), rgb, size);
        for quality in QUALITIES {
            let mut jpeg = Vec::new();
            // Sides are at most `side`, and that is a small number.
            let sides = size.map(|side| u16::try_from(side).unwrap_or(u16::MAX));
            Encoder::new(&mut jpeg, quality)
                .encode(&pixels, sides[0], sides[1], ColorType::Rgb)
                .map_err(|why| format!("a small picture cannot be encoded: {why}"))?;
            if jpeg.len() <= most {
                return Ok(Self { of: [width, height], size, jpeg });
            }
        }
        Err(format!("small pictures of more than {most} bytes"))
    }
}

/// The mean of the pixels that each small one stands for.
fn shrunk((width, height): (usize, usize), rgb: &[u8], size: [usize; 2]) -> Vec<u8> {
    let [columns, rows] = size;
    let mut to = Vec::with_capacity(3 * columns * rows);
    for row in 0..rows {
        let ys = row * height / rows..(row + 1) * height / rows;
        for column in 0..columns {
            let xs = column * width / columns..(column + 1) * width / columns;
            let mut sums = [0_u64; 3];
            for y in ys.clone() {
                let (pixels, _) =
                    rgb[3 * (y * width + xs.start)..][..3 * xs.len()].as_chunks::<3>();
                for pixel in pixels {
                    sums.iter_mut().zip(pixel).for_each(|(sum, level)| *sum += u64::from(*level));
                }
            }
            let count = (ys.len() * xs.len()) as u64;
            to.extend(sums.map(|sum| ((sum + count / 2) / count) as u8));
        }
    }
    to
}

/// Red, green and blue of pixels of an encoding of ROS (`sensor_msgs/image_encodings.hpp`). The four
/// pixels of a cell of a Bayer sensor have the same: a small picture needs no more.
fn rows_of(
    (width, height): (usize, usize),
    encoding: &str,
    step: usize,
    data: &[u8],
) -> Result<Vec<u8>, String> {
    // Sides of a cell, bytes of a pixel, and where a cell has the colours: its row, and the byte there.
    let (cell, bytes, places): (usize, usize, [(usize, usize); 3]) = match encoding {
        "rgb8" | "8UC3" => (1, 3, [(0, 0), (0, 1), (0, 2)]),
        "bgr8" => (1, 3, [(0, 2), (0, 1), (0, 0)]),
        "rgba8" => (1, 4, [(0, 0), (0, 1), (0, 2)]),
        "bgra8" | "8UC4" => (1, 4, [(0, 2), (0, 1), (0, 0)]),
        "mono8" | "8UC1" => (1, 1, [(0, 0); 3]),
        "bayer_rggb8" => (2, 1, [(0, 0), (0, 1), (1, 1)]),
        "bayer_bggr8" => (2, 1, [(1, 1), (0, 1), (0, 0)]),
        "bayer_gbrg8" => (2, 1, [(1, 0), (0, 0), (0, 1)]),
        "bayer_grbg8" => (2, 1, [(0, 1), (0, 0), (1, 0)]),
        // Luma of each pixel, chroma of two, from blue on.
        "yuv422" | "uyvy" => (1, 2, [(0, 1), (0, 0), (0, 2)]),
        "yuv422_yuy2" | "yuyv" => (1, 2, [(0, 0), (0, 1), (0, 3)]),
        other => {
            return Err(format!("pictures of the encoding \"{}\" are not decoded", cut(other)));
        }
    };
    let most = MOST_SIDE as usize;
    let is_yuv = bytes == 2;
    if width.min(height) < cell || width.max(height) > most || is_yuv && !width.is_multiple_of(2) {
        return Err(format!("a size of {width} x {height}"));
    }
    let is_whole = step >= width * bytes
        && step.checked_mul(height - 1).is_some_and(|before| data.len() >= before + width * bytes);
    if !is_whole {
        return Err("pixels are missing".to_owned());
    }
    if is_yuv {
        return Ok(rows_of_pairs((width, height), places.map(|(_, byte)| byte), step, data));
    }
    let mut to = Vec::with_capacity(3 * width * height);
    // At an odd side, the last pixels belong to the cell before.
    let begin = |at: usize, side: usize| (at / cell).min(side / cell - 1) * cell;
    for y in 0..height {
        let top = begin(y, height);
        for x in 0..width {
            let left = begin(x, width) * bytes;
            to.extend(places.map(|(row, byte)| data[(top + row) * step + left + byte]));
        }
    }
    Ok(to)
}

/// The same of pairs of pixels with their own luma and common chroma, at these places of a pair.
fn rows_of_pairs(
    (width, height): (usize, usize),
    [luma, blue, red]: [usize; 3],
    step: usize,
    data: &[u8],
) -> Vec<u8> {
    let (mut lumas, mut blues, mut reds) = (Vec::new(), Vec::new(), Vec::new());
    for row in data.chunks(step).take(height) {
        let (pairs, _) = row[..2 * width].as_chunks::<4>();
        for pair in pairs {
            lumas.extend([pair[luma], pair[luma + 2]]);
            blues.push(pair[blue]);
            reds.push(pair[red]);
        }
    }
    let picture = Picture::Yuv {
        width,
        height,
        luma: &lumas,
        blue: &blues,
        red: &reds,
        rows: ChromaRows::Full,
        colours: Colours::default(),
    };
    let mut rgb = Vec::new();
    convert::rows_of(&picture, 3, &mut rgb);
    rgb
}

/// Whether decoding can begin with an access unit, by the types of its units (ITU-T H.264, table 7-1; H.265, table 7-1).
fn begins_a_video(format: &str, data: &[u8]) -> Result<bool, String> {
    let kinds = data.windows(4).filter(|it| it[..3] == [0, 0, 1]).map(|it| it[3]);
    match format {
        "h264" => Ok({ kinds }.any(|first| first & 0x1f == 5)),
        "h265" => Ok({ kinds }.any(|first| (16..=21).contains(&(first >> 1 & 0x3f)))),
        other => Err(format!("video of the format \"{}\" is not decoded", cut(other))),
    }
}

/// A key frame as a JPEG picture of its own size, by the machine's `ffmpeg`.
fn decoded_by_ffmpeg(format: &str, data: &[u8]) -> Result<Vec<u8>, String> {
    let demuxer = if format == "h265" { "hevc" } else { "h264" };
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-threads", "1", "-f", demuxer]);
    command.args(["-i", "pipe:0", "-frames:v", "1", "-c:v", "mjpeg", "-q:v", "3"]);
    command.args(["-pix_fmt", "yuvj420p", "-f", "image2pipe", "pipe:1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let missing = |_| "video needs ffmpeg, which is not installed".to_owned();
    let mut child = command.spawn().map_err(missing)?;
    let stdin = child.stdin.take();
    let (written, output) = std::thread::scope(|scope| {
        // Both ends of both pipes are served, whatever it reads first.
        let writer = scope.spawn(move || stdin.map(|mut to| to.write_all(data)));
        let output = child.wait_with_output();
        (writer.join(), output)
    });
    // It may have enough before the end.
    drop(written);
    match output {
        Ok(output) if output.stdout.starts_with(&[0xff, 0xd8]) => Ok(output.stdout),
        _ => Err(format!("key frames of {format} that ffmpeg cannot decode")),
    }
}

/// A word of a stranger, as short as a sentence can bear.
fn cut(word: &str) -> String {
    word.chars().filter(|it| !it.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_pixel_is_the_mean_of_those_it_stands_for() {
        let rgb = [0, 10, 20, 100, 30, 20, 50, 0, 40, 50, 0, 40];
        assert_eq!(shrunk((2, 2), &rgb, [1, 1]), [50, 10, 30]);
        assert_eq!(shrunk((2, 2), &rgb, [2, 1]), [25, 5, 30, 75, 15, 30]);
        let wide: Vec<u8> = (0..3 * 7 * 5).map(|at| at as u8).collect();
        assert_eq!(shrunk((7, 5), &wide, [7, 5]), wide);
        assert_eq!(shrunk((7, 5), &wide, [3, 2]).len(), 18);
    }

    #[test]
    fn pixels_of_several_encodings_are_the_same_colours() {
        let same = [1, 2, 3, 4, 5, 6];
        let of = |encoding, step, data: &[u8]| rows_of((2, 1), encoding, step, data);
        assert_eq!(of("rgb8", 6, &same).unwrap(), same);
        assert_eq!(of("bgr8", 7, &[3, 2, 1, 6, 5, 4, 9]).unwrap(), same);
        assert_eq!(of("bgra8", 8, &[3, 2, 1, 0, 6, 5, 4, 0]).unwrap(), same);
        assert_eq!(of("mono8", 2, &[7, 8]).unwrap(), [7, 7, 7, 8, 8, 8]);
        let levels = |pixel: [u8; 3]| pixel.repeat(9);
        for (encoding, [first, second, third, fourth]) in [
            ("bayer_rggb8", [1, 2, 2, 3]),
            ("bayer_bggr8", [3, 2, 2, 1]),
            ("bayer_gbrg8", [2, 3, 1, 2]),
            ("bayer_grbg8", [2, 1, 3, 2]),
        ] {
            let above = [first, second, first, 0];
            let data = [above, [third, fourth, third, 0], above].concat();
            assert_eq!(rows_of((3, 3), encoding, 4, &data).unwrap(), levels([1, 2, 3]));
        }
        // Black and white, and two pixels of the red that BT.601 has at these levels.
        assert_eq!(of("yuyv", 4, &[16, 128, 235, 128]).unwrap(), [0, 0, 0, 255, 255, 255]);
        let red = of("yuv422_yuy2", 4, &[81, 90, 81, 240]).unwrap();
        assert!(red[0] > 250 && red[1].max(red[2]) < 5 && red[..3] == red[3..], "{red:?}");
        assert_eq!(of("uyvy", 4, &[90, 81, 240, 81]).unwrap(), red);
        assert_eq!(rows_of((3, 1), "uyvy", 6, &[0; 6]).unwrap_err(), "a size of 3 x 1");
        assert_eq!(rows_of((1, 2), "bayer_rggb8", 1, &[0; 2]).unwrap_err(), "a size of 1 x 2");
        assert!(of("16UC1", 4, &[0; 4]).unwrap_err().contains("16UC1"));
        assert_eq!(of("rgb8", 6, &same[..5]).unwrap_err(), "pixels are missing");
        assert!(rows_of((1 << 40, 1), "rgb8", 0, &[]).is_err());
        assert!(rows_of((2, 1 << 14), "rgb8", usize::MAX, &[0; 64]).is_err());
    }

    #[test]
    fn no_small_picture_is_longer_than_its_bound() {
        let mut random = fastrand::Rng::with_seed(7);
        let rgb: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(3 * 300 * 200).collect();
        let small = Small::of_rgb((300, 200), &rgb, 240, 30_000).unwrap();
        assert_eq!((small.of, small.size), ([300, 200], [240, 160]));
        assert!(small.jpeg.len() <= 30_000);
        assert!(Small::of_rgb((300, 200), &rgb, 240, 600).is_err());
    }
}
