//! `onbeat camera bench`: what a conversion costs, and what a picture costs programs that read it, beside memcpy
//! of the same bytes in the same run.

mod clients;

use std::time::Instant;

use clap::Args;
use clients::{Client, ClientRow};
use onbeat_camera::convert::{Colours, Converter, InstructionSet, Picture, format_of};
use onbeat_control::frames::PixelLayout;
use onbeat_host::thread::thread_cpu_ns;
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
    print_table("picture", 38, rows.iter().map(|row| (row.name.clone(), row.figures())));
    if !of_clients.is_empty() {
        say("");
        say(
            "what a picture costs the thread that asks for it, the conversion being another process's",
        );
        let lines = of_clients.iter().map(|row| (row.name(), row.figures()));
        print_table("program, way, picture", 46, lines);
    }
    say(
        "x memcpy: CPU time relative to a memcpy of the same bytes between the same buffers, measured in turns",
    );
    say(
        "class: share of the 33.3 ms of a frame: green < 10 %, yellow < 50 %, orange < 100 %, red above",
    );
    Ok(())
}

/// A table with a line for each name and its figures.
fn print_table(of: &str, width: usize, rows: impl Iterator<Item = (String, [f64; 3])>) {
    let [p50, max, ratio, class] = ["p50 ms", "max ms", "x memcpy", "class"];
    say(&format!("{of:<width$} {p50:>8} {max:>8} {ratio:>9} {class:>7}"));
    for (name, [p50, max, ratio]) in rows {
        let class = class_of(p50);
        say(&format!("{name:<width$} {p50:>8.2} {max:>8.2} {ratio:>9.2} {class:>7}"));
    }
}

/// Median and maximum of times in ms, and the ratio of what they cost to memcpy, of medians.
fn figures(times_ms: &[f64], costs_ms: &[f64], copies_ms: &[f64]) -> [f64; 3] {
    let max = times_ms.iter().copied().fold(0.0, f64::max);
    [median(times_ms), max, median(costs_ms) / median(copies_ms).max(1e-9)]
}

/// Time and CPU time of this thread that `work` takes, in ms.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let (began, began_cpu) = (Instant::now(), thread_cpu_ns());
    work();
    let cpu_ms = (thread_cpu_ns() - began_cpu) as f64 / 1e6;
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
    let format = format_of((width, height), channels, PixelLayout::ColumnPlanes);
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
    /// The ratio is that of CPU times.
    fn figures(&self) -> [f64; 3] {
        figures(&self.times_ms, &self.cpu_ms, &self.copies_ms)
    }

    fn json(&self) -> serde_json::Value {
        let [median, max, ratio] = self.figures();
        json!({ "picture": self.name, "p50_ms": median, "max_ms": max, "times_memcpy": ratio })
    }
}
