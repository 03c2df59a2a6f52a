//! `onbeat camera watch`: a running camera as its readers see it.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use onbeat_camera::camera::{now_ns, quantiles};
use onbeat_camera::source::painted;
use onbeat_control::frames::{Frame, FrameError, FrameFormat, FrameReader, PixelLayout, Want};
use serde_json::json;

use crate::{Failure, advise, interruption, say};

const LOOK_EVERY: Duration = Duration::from_micros(200);
const CHECK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// Name of the camera
    #[arg(value_name = "NAME")]
    name: String,
    /// Time to watch
    #[arg(long = "for", default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    duration: Duration,
    /// Take each frame in order, not the newest one
    #[arg(long)]
    each: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default)]
struct Seen {
    ages_ns: Vec<u64>,
    painted_ns: Vec<u64>,
    out_of_order: u64,
    unreadable: u64,
    last: u64,
}

/// Reads a camera for a time.
pub(crate) fn watch(options: &WatchOptions) -> Result<(), Failure> {
    let stop = interruption()?;
    let mut reader = FrameReader::open(&options.name)?;
    let want = if options.each { Want::Each } else { Want::Newest };
    let (began, mut checked) = (Instant::now(), Instant::now());
    let mut seen = Seen::default();
    let (mut received, mut passed_over, mut rings) = (0, 0, 1_u64);
    while began.elapsed() < options.duration && !stop.load(Ordering::Relaxed) {
        let format = reader.format();
        match reader.take(want) {
            Some(frame) => seen.take(&frame, format),
            None => sleep(LOOK_EVERY),
        }
        if checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            match reader.check_alive() {
                Ok(()) => {}
                Err(FrameError::Replaced { .. }) => {
                    received += reader.received();
                    passed_over += reader.passed_over();
                    rings += 1;
                    reader = FrameReader::open(&options.name)?;
                }
                Err(why) => return Err(why.into()),
            }
        }
    }
    received += reader.received();
    passed_over += reader.passed_over();
    if !reader.status().is_empty() {
        advise(&format!("{}: {}", options.name, reader.status()));
    }
    seen.print(options, &reader, [received, passed_over, rings]);
    Ok(())
}

impl Seen {
    fn take(&mut self, frame: &Frame<'_>, format: FrameFormat) {
        let now = now_ns();
        self.ages_ns.push(now.saturating_sub(frame.times.capture_ns));
        self.out_of_order += u64::from(frame.number <= self.last);
        self.last = frame.number;
        match painted_of(frame.pixels, format) {
            Some(found) => {
                let now_us = (now / 1000) & ((1 << 48) - 1);
                self.painted_ns.push(now_us.saturating_sub(found.at_us) * 1000);
            }
            None => self.unreadable += 1,
        }
    }

    fn print(&mut self, options: &WatchOptions, reader: &FrameReader, counts: [u64; 3]) {
        let [received, passed_over, rings] = counts;
        let ages = quantiles(&mut self.ages_ns);
        let is_test = !self.painted_ns.is_empty();
        let painted = quantiles(&mut self.painted_ns);
        if options.json {
            say(&json!({
                "received": received, "passed_over": passed_over, "dropped": reader.dropped(),
                "out_of_order": self.out_of_order, "reconnections": reader.reconnections(), "rings": rings,
                "capture_to_user_ns": ages, "painted_to_user_ns": is_test.then_some(painted),
                "without_painting": self.unreadable,
            })
            .to_string());
            return;
        }
        let words = |of: [u64; 3]| {
            let [p50, p99, max] = of.map(|ns| ns as f64 / 1e6);
            format!("p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms")
        };
        let passed = if options.each { "lost" } else { "skipped" };
        say(&format!(
            "{}: {received} frames read, {passed_over} {passed}, {} dropped before publication, {} out of order, \
             {} reconnections",
            options.name,
            reader.dropped(),
            self.out_of_order,
            reader.reconnections(),
        ));
        say(&format!("capture to user: {}", words(ages)));
        if is_test {
            say(&format!(
                "painted to user: {}; {} pictures without a readable stamp",
                words(painted),
                self.unreadable
            ));
        }
    }
}

/// Reads what a test picture says about itself.
fn painted_of(pixels: &[u8], format: FrameFormat) -> Option<painted::Painted> {
    let (width, height) = (format.width as usize, format.height as usize);
    painted::read(width, height, |x, y| match (format.layout, format.channels) {
        (PixelLayout::ColumnPlanes, _) => pixels[x * height + y],
        (PixelLayout::RowInterleaved, channels) => pixels[channels as usize * (y * width + x)],
        (PixelLayout::Yuv420, _) => pixels[y * width + x],
    })
}
