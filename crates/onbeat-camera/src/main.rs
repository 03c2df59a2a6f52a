//! The program `onbeat-camera`, which `onbeat camera` starts.
//!
//! Results are on standard output, everything else on standard error; exit status 2 when it could not run.

// Not a published library: a name that says all needs no sentence beside it.
#![allow(missing_docs)]

mod bench;
mod list;
mod recorder;
mod small_pictures;
mod watch;

use std::cell::RefCell;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Parser, Subcommand, ValueEnum};
use onbeat_camera::camera::{CameraAccount, CameraError, CameraSettings, News, run};
use onbeat_camera::compressed::TOPIC;
use onbeat_camera::source::{Address, SourceError};
use onbeat_control::frames::{FrameError, PixelLayout};
use onbeat_host::program::{advise, asked_to_end_once, say, survive_file_limit, unwritten};
use recorder::Log;

const EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat camera run test:1920x1080@30 --name left
      generated pictures, with number and time painted on them
  onbeat camera run rtsp://admin:PASSWORD@10.0.0.5/stream --name left
      H.264, H.265 or MJPEG of an IP camera; opened again when it was lost
  onbeat camera run /dev/video0@1280x720@30+mjpeg --name right --gray
      a USB camera, gray
  onbeat camera run rtsp://10.0.0.5/stream --log walk.mcap --beside walker/cycle
      the pictures as they came, beside the cycles of a robot
  onbeat camera watch left --for 10s
      age, order and losses of the pictures, as a reader sees them";

/// Longest address on standard input, in bytes.
const MOST_ADDRESS: u64 = 4096;

/// Pass pictures of a camera to Octave, MATLAB, Python, Java and C.
#[derive(Debug, Parser)]
#[command(name = "onbeat-camera", bin_name = "onbeat camera", version, before_help = EXAMPLES)]
#[command(disable_help_subcommand = true, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Publish the pictures of a source in shared memory
    Run(RunOptions),
    /// List running cameras and video devices
    List(list::ListOptions),
    /// Read a running camera and print age, order and losses of its pictures
    Watch(watch::WatchOptions),
    /// Measure what a picture costs: conversion beside memcpy, by size and instructions
    Bench(bench::BenchOptions),
    /// Small pictures of a log, for the page of a report: reads what onbeat-gateway writes
    #[command(hide = true)]
    Thumbnails(small_pictures::ThumbnailOptions),
}

#[derive(Debug, Args)]
struct RunOptions {
    /// rtsp://HOST/PATH, http://HOST/PATH, /dev/videoN[@WIDTHxHEIGHT[@RATE]][+FORMAT],
    /// test:WIDTHxHEIGHT@RATE, a file, or - for a line of standard input
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Name by which readers open the pictures
    #[arg(long, value_name = "NAME", default_value = "camera")]
    name: String,
    /// Order of the pixels
    #[arg(long, value_enum, default_value_t = Layout::Columns, value_name = "LAYOUT")]
    layout: Layout,
    /// Publish gray pictures
    #[arg(long)]
    gray: bool,
    /// Pictures kept in memory, 4 to 64
    #[arg(long, default_value_t = 4, value_name = "COUNT")]
    slots: u64,
    /// Publish the pictures on the channel NAME/image too, as they came
    ///
    /// JPEG, H.264 and H.265 stay compressed; `onbeat message` records, plays and sends the channel.
    #[arg(long)]
    channel: bool,
    /// MCAP log to create, with the pictures as they came
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Channel to record beside them, such as walker/cycle
    #[arg(long, value_name = "CHANNEL", requires = "log")]
    beside: Vec<String>,
    /// End after this number of pictures; 0: never
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    frames: u64,
    /// Print the account as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    /// Column by column, a plane for each colour: MATLAB, Octave, Fortran
    Columns,
    /// Row by row, the colours of a pixel side by side: OpenCV, PIL
    Rows,
    /// As decoded: I420
    Decoded,
}

/// Why the program ends with exit status 2.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Camera(#[from] CameraError),
    #[error(transparent)]
    Frames(#[from] FrameError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("cannot write to standard output: {0}; the result is incomplete")]
    Output(&'static io::Error),
    #[error("cannot watch for Ctrl-C: {0}")]
    Signals(std::io::Error),
    #[error("{0}")]
    Words(String),
}

fn main() -> ExitCode {
    survive_file_limit();
    // Where the system refuses it, a truncated ring ends this process, as it ends others.
    let _ = onbeat_control::truncation::install();
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Run(options) => run_camera(options),
        Command::List(options) => list::list(options),
        Command::Watch(options) => watch::watch(options),
        Command::Bench(options) => bench::bench(options),
        Command::Thumbnails(options) => small_pictures::thumbnails(options),
    };
    match done.and_then(|()| all_written()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            advise(&format!("error: {why}"));
            ExitCode::from(2)
        }
    }
}

/// Whether all results were written.
fn all_written() -> Result<(), Failure> {
    unwritten().map_or(Ok(()), |why| Err(Failure::Output(why)))
}

fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    asked_to_end_once().map_err(Failure::Signals)
}

fn run_camera(options: &RunOptions) -> Result<(), Failure> {
    let layout = match options.layout {
        Layout::Columns => PixelLayout::ColumnPlanes,
        Layout::Rows => PixelLayout::RowInterleaved,
        Layout::Decoded => PixelLayout::Yuv420,
    };
    let settings = CameraSettings {
        name: options.name.clone(),
        source: address(&options.source)?.parse::<Address>()?,
        layout,
        channels: if options.gray { 1 } else { 3 },
        slots: options.slots,
        frames: options.frames,
        has_channel: options.channel || options.log.is_some(),
    };
    let name = &options.name;
    let log =
        options.log.as_deref().map(|file| Log::new(file, name, &options.beside)).transpose()?;
    let log = RefCell::new(log);
    let stop = interruption()?;
    let account = run(
        &settings,
        |news| match news {
            News::Begun { source, format, instructions } => {
                advise(&format!(
                    "{name}: {} x {} {} from {}; {}; converted with {instructions}",
                    format.width,
                    format.height,
                    if format.channels == 1 { "gray" } else { "colour" },
                    source.address,
                    source.decoder,
                ));
                let begun = log.borrow_mut().as_mut().map(Log::begin);
                if let Some(Err(why)) = begun {
                    advise(&format!("{name}: the log does not begin: {why}"));
                }
            }
            News::Trouble(sentence) => advise(&format!("{name}: {sentence}")),
            News::Recovered { after } => {
                advise(&format!("{name}: pictures again after {:.1} s", after.as_secs_f64()));
            }
        },
        || {
            if log.borrow_mut().as_mut().is_some_and(Log::has_failed) {
                advise(&format!("{name}: the log has ended; capture continues"));
            }
            stop.load(Ordering::Relaxed)
        },
    );
    let ended = log.into_inner().map_or(Ok(()), Log::end);
    let account = account?;

    print_account(options, &account);
    ended
}

/// The address as typed, or the first line of standard input for `-`: arguments, and a password in them, are in the list of
/// processes.
fn address(typed: &str) -> Result<String, Failure> {
    if typed != "-" {
        return Ok(typed.to_owned());
    }
    let mut line = String::new();
    let read = io::stdin().lock().take(MOST_ADDRESS).read_line(&mut line);
    read.map_err(|why| {
        Failure::Words(format!("cannot read an address from standard input: {why}"))
    })?;
    Ok(line.trim().to_owned())
}

fn print_account(options: &RunOptions, account: &CameraAccount) {
    let name = &options.name;
    if options.json {
        say(&serde_json::to_string(account).unwrap_or_default());
        return;
    }
    let [p50, p99, max] = account.delay_ns.map(|ns| ns as f64 / 1e6);
    let delays = if account.published > 0 {
        format!("; capture to published p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms")
    } else {
        String::new()
    };
    say(&format!(
        "{name}: {} frames published, {} dropped before, {} reconnections{delays}",
        account.published, account.dropped, account.reconnections
    ));
    if let Some(channel) = account.channel.filter(|it| it.left_out > 0) {
        say(&format!(
            "{name}/{TOPIC}: {} pictures published, {} left out",
            channel.published, channel.left_out
        ));
    }
}
