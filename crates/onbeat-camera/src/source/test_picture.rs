//! Generated pictures: gradients that move, with number and time painted on them.
//!
//! Every pixel follows from the picture's number: a reader can check that it sees one picture and not two
//! halves ([`level_at`]). With a marker, the gradients are dark and a white disc moves over them
//! ([`marker_at`]).

use std::thread::sleep;
use std::time::Duration;

use onbeat_control::frames::{FrameTimes, TimeSource};

use super::address::{Address, TestPicture};
use super::error::SourceError;
use super::painted::{Painted, paint};
use super::{Captured, Description, Source, now_ns};
use crate::convert::Picture;

/// How much darker the gradients are behind a marker.
const MARKER_CONTRAST: u8 = 4;
/// Rows with the same pixels.
const BAND: usize = 16;

/// Returns red, green and blue of a pixel of picture `number`, where nothing is painted over it.
#[must_use]
pub fn level_at(x: usize, y: usize, number: u64) -> [u8; 3] {
    let moved = |place: usize| (place as u64).wrapping_add(number) & 0xff;
    // Up and down again: an edge at the wrap would be hard to compress.
    let wave = |phase: u64| if phase < 128 { 2 * phase } else { 511 - 2 * phase } as u8;
    [wave(moved(x)), wave(moved(2 * (y / BAND * BAND))), wave(moved(x / 2 + 64))]
}

/// Returns the centre of the marker in parts of width and height, at a time in s since picture 0. It crosses
/// the picture once in 8 s, and stays below what is painted in the corner.
#[must_use]
pub fn marker_at(seconds: f64) -> [f64; 2] {
    let turn = std::f64::consts::TAU * seconds;
    [0.5 + 0.35 * (turn / 8.0).sin(), 0.6 + 0.2 * (turn / 5.0).sin()]
}

/// A source of generated pictures at a rate.
#[derive(Debug)]
pub(super) struct TestSource {
    test: TestPicture,
    pixels: Vec<u8>,
    number: u64,
    first_ns: u64,
    period: u64,
}

impl TestSource {
    pub(super) fn new(test: TestPicture) -> Self {
        let pixels = vec![0; 3 * test.width as usize * test.height as usize];
        Self { test, pixels, number: 0, first_ns: now_ns(), period: 0 }
    }

    fn draw(&mut self, at_ns: u64) {
        let (width, height) = (self.test.width as usize, self.test.height as usize);
        for band in self.pixels.chunks_mut(3 * width * BAND).enumerate() {
            let (y, rows) = (band.0 * BAND, band.1);
            let (first, others) = rows.split_at_mut(3 * width);
            let (pixels, _) = first.as_chunks_mut::<3>();
            for (x, pixel) in pixels.iter_mut().enumerate() {
                *pixel = level_at(x, y, self.number);
            }
            others.chunks_exact_mut(3 * width).for_each(|row| row.copy_from_slice(first));
        }
        if self.test.has_marker {
            self.draw_marker();
        }
        let painted =
            Painted { number: self.number as u32, at_us: (at_ns / 1000) & ((1 << 48) - 1) };
        paint(width, height, painted, |x, y, length, level| {
            self.pixels[3 * (y * width + x)..][..3 * length].fill(level);
        });
    }

    fn draw_marker(&mut self) {
        let (width, height) = (self.test.width as usize, self.test.height as usize);
        self.pixels.iter_mut().for_each(|level| *level /= MARKER_CONTRAST);
        let seconds = self.number as f64 * self.test.period_ns as f64 / 1e9;
        let [x, y] = marker_at(seconds);
        let (x, y) = (x * width as f64, y * height as f64);
        let radius = (width.min(height) as f64 / 16.0).max(1.0);
        for row in 0..height {
            let off = row as f64 + 0.5 - y;
            let half = (radius * radius - off * off).max(0.0).sqrt();
            // Pixels whose centres are within the circle.
            let first = (x - half - 0.5).ceil().max(0.0) as usize;
            let end = ((x + half - 0.5).floor() + 1.0).clamp(0.0, width as f64) as usize;
            if half > 0.0 && first < end {
                self.pixels[3 * (row * width + first)..3 * (row * width + end)].fill(255);
            }
        }
    }
}

impl Source for TestSource {
    fn next(&mut self, patience: Duration) -> Result<Option<Captured<'_>>, SourceError> {
        let due = self.first_ns + self.period * self.test.period_ns;
        let now = now_ns();
        if let Some(wait) = due.checked_sub(now) {
            sleep(Duration::from_nanos(wait).min(patience));
            if Duration::from_nanos(wait) > patience {
                return Ok(None);
            }
        }

        // Pictures that are due already but one were not made in time.
        let capture_ns = now_ns();
        let dropped_before = (capture_ns - due.min(capture_ns)) / self.test.period_ns;
        self.period += 1 + dropped_before;
        self.number += 1 + dropped_before;
        self.draw(capture_ns);
        let received_ns = now_ns();
        let times = FrameTimes {
            capture_ns,
            received_ns,
            decoded_ns: received_ns,
            source_ns: due,
            time_source: TimeSource::Device,
            dropped_before,
            ..FrameTimes::default()
        };
        let (width, height) = (self.test.width as usize, self.test.height as usize);
        Ok(Some(Captured { picture: Picture::Rgb { width, height, pixels: &self.pixels }, times }))
    }

    fn description(&self) -> Description {
        Description {
            address: Address::Test(self.test).to_string(),
            decoder: "generated, nothing to decode".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brightest_pixels_of_a_picture_with_a_marker_are_centred_where_it_is() {
        for (width, height) in [(320, 240), (641, 401)] {
            let test = TestPicture { width, height, period_ns: 40_000_000, has_marker: true };
            let mut source = TestSource::new(test);
            for number in [0, 31, 77, 200] {
                source.number = number;
                source.draw(0);
                let (width, height) = (width as usize, height as usize);
                let below = 3 * super::super::painted::cell_side(width, height).unwrap();
                let [mut x, mut y, mut pixels] = [0.0; 3];
                for (at, pixel) in source.pixels.chunks_exact(3).enumerate() {
                    if at / width >= below && pixel[0] > 128 {
                        x += (at % width) as f64 + 0.5;
                        y += (at / width) as f64 + 0.5;
                        pixels += 1.0;
                    }
                }
                let [right_x, right_y] = marker_at(number as f64 * 0.04);
                assert!((x / pixels - right_x * width as f64).abs() < 0.5, "{number}");
                assert!((y / pixels - right_y * height as f64).abs() < 0.5, "{number}");
            }
        }
    }
}
