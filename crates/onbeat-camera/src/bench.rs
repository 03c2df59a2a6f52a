//! `onbeat camera bench`: what a conversion costs, and what a picture costs programs that read it, beside memcpy
//! of the same bytes in the same run.

mod clients;

use std::time::Instant;

use clap::Args;
use clients::{Client, ClientRow};
use onbeat_camera::convert::{Colours, Converter, InstructionSet, Picture};
use onbeat_control::frames::{FrameFormat, PixelLayout};
use serde_json::json;

use crate::{Failure, say};

/// Time of a frame at 30 pictures a second, in ms, of which the classes are shares.
const FRAME_MS: f64 = 1000.0 / 30.0;

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Repetitions of each row
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=10_000), value_name = "COUNT")]
    rounds: u32,
    /// Programs to measure as well: the five ways of the article of 2017
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    from: Vec<Client>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Sizes, with their names.
const SIZES: [(&str, usize, usize); 3] =
    [("480p", 640, 480), ("1080p", 1920, 1080), ("4K", 3840, 2160)];

struct Row {
    name: String,
    times_ms: Vec<f64>,
    /// CPU time of the thread, which other programs lengthen less.
    cpu_ms: Vec<f64>,
    copies_ms: Vec<f64>,
}

/// Measures all rows, in turns with memcpy.
pub(crate) fn bench(options: &BenchOptions) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (of, width, height) in SIZES {
        for channels in [3, 1] {
            rows.extend(rows_of(of, (width, height), channels, options.rounds)?);
        }
    }
    let of_clients = if options.from.is_empty() {
        Vec::new()
    } else {
        clients::rows(&options.from, options.rounds)?
    };
    if options.json {
        let clients = of_clients.iter().map(ClientRow::json);
        let all: Vec<_> = rows.iter().map(Row::json).chain(clients).collect();
        say(&json!(all).to_string());
        return Ok(());
    }
    say(&format!(
        "conversion to MATLAB's layout by one thread, {} rounds in turns with memcpy",
        options.rounds
    ));
    say(&format!(
        "{:<38} {:>8} {:>8} {:>9} {:>7}",
        "picture", "p50 ms", "max ms", "x memcpy", "class"
    ));
    for row in &rows {
        let (median, max, ratio) = row.figures();
        say(&format!(
            "{:<38} {median:>8.2} {max:>8.2} {ratio:>9.2} {:>7}",
            row.name,
            class_of(median)
        ));
    }
    print_clients(&of_clients);
    say(
        "x memcpy: CPU time relative to a memcpy of the same bytes between the same buffers, measured in turns",
    );
    say(
        "class: share of the 33.3 ms of a frame: green < 10 %, yellow < 50 %, orange < 100 %, red above",
    );
    Ok(())
}

/// A line for each way of a client and each size it was measured for.
fn print_clients(rows: &[ClientRow]) {
    if rows.is_empty() {
        return;
    }
    say("");
    say("what a picture costs the thread that asks for it, the conversion being another process's");
    say(&format!(
        "{:<46} {:>8} {:>8} {:>9} {:>7}",
        "program, way, picture", "p50 ms", "max ms", "x memcpy", "class"
    ));
    for row in rows {
        let (median, max, ratio) = row.figures();
        say(&format!(
            "{:<46} {median:>8.2} {max:>8.2} {ratio:>9.2} {:>7}",
            row.name(),
            class_of(median)
        ));
    }
}

/// Time and CPU time of this thread that `work` takes, in ms.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let cpu = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
    };
    let (began, began_cpu) = (Instant::now(), cpu());
    work();
    let cpu_ms = cpu() - began_cpu;
    (began.elapsed().as_secs_f64() * 1e3, cpu_ms)
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn class_of(ms: f64) -> &'static str {
    match ms / FRAME_MS {
        share if share < 0.1 => "green",
        share if share < 0.5 => "yellow",
        share if share < 1.0 => "orange",
        _ => "red",
    }
}

fn rows_of(
    of: &str,
    (width, height): (usize, usize),
    channels: u32,
    rounds: u32,
) -> Result<Vec<Row>, Failure> {
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let layout = PixelLayout::ColumnPlanes;
    let format = FrameFormat { width: side(width), height: side(height), channels, layout };
    let bytes =
        format.bytes().ok_or_else(|| Failure::Words("a size that cannot be kept".to_owned()))?;
    let pixels: Vec<u8> = (0..3 * width * height).map(|at| (at * 7 + at / 91) as u8).collect();
    let yuv = &pixels[..width * height * 3 / 2];
    let sources = [
        ("RGB", Some(Picture::Rgb { width, height, pixels: &pixels })),
        ("I420", Picture::i420(width, height, yuv, Colours::default())),
    ];
    let mut to = vec![1; bytes];
    let mut rows = Vec::new();
    let kind = if channels == 1 { "gray" } else { "colour" };
    for (name, picture) in sources {
        let Some(picture) = picture else { continue };
        for set in InstructionSet::all() {
            let mut converter = Converter::with_set(set);
            let name = format!("{of} {kind}, {name}, {}", set.name());
            let mut row =
                Row { name, times_ms: Vec::new(), cpu_ms: Vec::new(), copies_ms: Vec::new() };
            for round in 0..=rounds {
                let (converted, converted_cpu) =
                    timed(|| converter.convert(&picture, format, &mut to));
                // From and to the same memory, so that neither finds warmer caches.
                let (_, copied_cpu) =
                    timed(|| to.copy_from_slice(std::hint::black_box(&pixels[..bytes])));
                std::hint::black_box(&to);
                // The first round makes the memory.
                if round > 0 {
                    row.times_ms.push(converted);
                    row.cpu_ms.push(converted_cpu);
                    row.copies_ms.push(copied_cpu);
                }
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

impl Row {
    /// Median and maximum in ms, and the ratio of CPU times to memcpy, of medians.
    fn figures(&self) -> (f64, f64, f64) {
        let max = self.times_ms.iter().copied().fold(0.0, f64::max);
        let own = median(&self.times_ms);
        (own, max, median(&self.cpu_ms) / median(&self.copies_ms).max(1e-9))
    }

    fn json(&self) -> serde_json::Value {
        let (median, max, ratio) = self.figures();
        json!({ "picture": self.name, "p50_ms": median, "max_ms": max, "times_memcpy": ratio })
    }
}
