//! What a picture costs the thread that asks for it, in Octave, the JVM and Python: the five ways of the
//! article of 2017, measured by those programs themselves.

use std::fs::canonicalize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use onbeat_camera::convert::format_of;
use onbeat_control::frames::{FrameTimes, FrameWriter, PixelLayout};

use super::{SIZES, figures, median, timed};
use crate::{Failure, advise};

/// Distance of the pictures that are offered.
const EVERY: Duration = Duration::from_millis(30);
/// A row whose picture took longer is not measured for larger ones: it grows with the pixels.
const MOST_MS: f64 = 1000.0;

const WAYS: [(&str, &str); 7] = [
    ("array", "default array of arrays"),
    ("jpeg", "JPEG in memory, decoded"),
    ("rows", "rows, one array"),
    ("columns", "MATLAB's layout, copied"),
    ("shared", "shared memory"),
    ("onbeat", "onbeat.frame, jar"),
    ("compiled", "onbeat.frame, compiled"),
];

/// A program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    /// GNU Octave with the jar
    Octave,
    /// The Java virtual machine
    Java,
    /// Python with numpy
    Python,
}

/// A way of a client, for a size.
pub(super) struct ClientRow {
    pub(super) client: &'static str,
    pub(super) way: String,
    pub(super) of: &'static str,
    pub(super) channels: u32,
    pub(super) times_ms: Vec<f64>,
    /// memcpy of the same bytes, before and after, in ms.
    pub(super) copies_ms: Vec<f64>,
}

impl ClientRow {
    pub(super) fn name(&self) -> String {
        let kind = if self.channels == 1 { "gray" } else { "colour" };
        format!("{}, {}, {} {kind}", self.client, self.way, self.of)
    }

    /// The ratio is that of the times themselves.
    pub(super) fn figures(&self) -> [f64; 3] {
        figures(&self.times_ms, &self.times_ms, &self.copies_ms)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let [median, max, ratio] = self.figures();
        serde_json::json!({
            "client": self.client, "way": self.way, "picture": self.of, "channels": self.channels,
            "p50_ms": median, "max_ms": max, "times_memcpy": ratio,
        })
    }
}

/// Measures all ways of these clients; those that are not installed are said.
pub(super) fn rows(clients: &[Client], rounds: u32) -> Result<Vec<ClientRow>, Failure> {
    let folder = folder()?;
    let mut found = Vec::new();
    for client in clients {
        let Some(client) = Equipped::new(*client, &folder) else { continue };
        for channels in [3, 1] {
            let mut has_arrays = true;
            for (of, width, height) in SIZES {
                let wanted = Wanted { of, width, height, channels, rounds, has_arrays };
                let rows = client.measure(&wanted)?;
                let arrays = rows.iter().find(|row| row.way == WAYS[0].1);
                has_arrays &= arrays.is_some_and(|row| median(&row.times_ms) < MOST_MS);
                found.extend(rows);
            }
        }
    }
    Ok(found)
}

/// The folder with the clients: that of the package, or this repository.
fn folder() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().and_then(canonicalize).unwrap_or_default();
    let near = |up: usize| own.ancestors().nth(up).map(Path::to_owned);
    let share = near(2).map(|prefix| prefix.join("share/onbeat"));
    let has = |folder: &PathBuf| folder.join("octave/+onbeat/frame.m").is_file();
    let found = [share, Some(".".into()), near(3)].into_iter().flatten().find(has);
    found.ok_or_else(|| {
        let words = "the clients are neither in share/onbeat of this program's installation nor in this directory";
        Failure::Words(words.to_owned())
    })
}

struct Equipped {
    client: Client,
    folder: PathBuf,
    java_home: Option<PathBuf>,
}

struct Wanted {
    of: &'static str,
    width: usize,
    height: usize,
    channels: u32,
    rounds: u32,
    has_arrays: bool,
}

impl Equipped {
    /// `None`, with a sentence, if something is not installed.
    fn new(client: Client, folder: &Path) -> Option<Self> {
        let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
        let java = canonicalize("/usr/bin/java").ok();
        let has_jar = jar(folder).is_file();
        let missing = match client {
            Client::Octave if !runs("octave-cli") => Some("octave-cli (package octave)"),
            Client::Octave | Client::Java if java.is_none() => Some("java (package default-jre)"),
            Client::Octave | Client::Java if !has_jar => Some("onbeat.jar (mvn package in java/)"),
            Client::Python if !has_numpy() => Some("Python with numpy (package python3-numpy)"),
            _ => None,
        };
        if let Some(what) = missing {
            advise(&format!("{}: not measured, {what} is not installed", client.name()));
            return None;
        }
        let java_home = java.and_then(|path| path.ancestors().nth(2).map(Path::to_owned));
        Some(Self { client, folder: folder.to_owned(), java_home })
    }

    fn measure(&self, wanted: &Wanted) -> Result<Vec<ClientRow>, Failure> {
        let size = (wanted.width, wanted.height);
        let format = format_of(size, wanted.channels, PixelLayout::ColumnPlanes);
        let name = format!("bench-{}", std::process::id());
        let mut writer = FrameWriter::create(&name, format, 4, "{}")?;
        let pixels = vec![7; writer.pixels().len()];
        let is_done = AtomicBool::new(false);
        let mut copies_ms = copies(&pixels);
        let said = scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    writer.pixels().copy_from_slice(&pixels);
                    let capture_ns = onbeat_camera::camera::now_ns();
                    writer.publish(&FrameTimes { capture_ns, ..FrameTimes::default() });
                    sleep(EVERY);
                }
            });
            let said = self.command(&name, wanted).stdin(Stdio::null()).output();
            is_done.store(true, Ordering::Relaxed);
            said
        });
        copies_ms.extend(copies(&pixels));
        let said = said.map_err(|why| Failure::Words(format!("{}: {why}", self.client.name())))?;
        let errors = String::from_utf8_lossy(&said.stderr);
        if !said.status.success() {
            // Octave's first error is the reason; what follows is said while it ends.
            let first = errors.lines().find(|line| line.starts_with("error:"));
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            let last = first.or(last).unwrap_or_default();
            return Err(Failure::Words(format!("{} has ended: {last}", self.client.name())));
        }
        if wanted.of == SIZES[0].0 && wanted.channels == 3 {
            errors.lines().filter(|line| line.contains("not installed")).for_each(advise);
        }
        let text = String::from_utf8_lossy(&said.stdout);
        let row = |(way, times_ms)| ClientRow {
            client: self.client.name(),
            way,
            of: wanted.of,
            channels: wanted.channels,
            times_ms,
            copies_ms: copies_ms.clone(),
        };
        Ok(text.lines().filter_map(times_of).map(row).collect())
    }

    fn command(&self, name: &str, wanted: &Wanted) -> Command {
        let Wanted { width, height, channels, rounds, has_arrays, .. } = wanted;
        let numbers = [*width, *height, *channels as usize, *rounds as usize];
        let mut command = match self.client {
            Client::Octave => {
                let mut command = Command::new("octave-cli");
                command.args(["--quiet", "--no-init-file", "--eval", include_str!("ways.m")]);
                let numbers = numbers.map(|number| number.to_string()).join("\n");
                let folder = self.folder.display();
                let words = format!("{name}\n{folder}\n{numbers}\n{}", u8::from(*has_arrays));
                command
                    .env("ONBEAT_BENCH", words)
                    .envs(self.java_home.iter().map(|home| ("JAVA_HOME", home)));
                return command;
            }
            Client::Java => {
                let mut command = Command::new("java");
                command.arg("-cp").arg(jar(&self.folder)).args(["onbeat.PictureWays", name]);
                command
            }
            Client::Python => {
                let mut command = Command::new("python3");
                command.args(["-c", include_str!("ways.py"), name]).arg(&self.folder);
                command
            }
        };
        command.args(numbers.map(|number| number.to_string()));
        command.arg(if *has_arrays { "1" } else { "0" });
        command
    }
}

impl Client {
    const fn name(self) -> &'static str {
        match self {
            Self::Octave => "Octave",
            Self::Java => "JVM",
            Self::Python => "Python",
        }
    }
}

fn jar(folder: &Path) -> PathBuf {
    let installed = folder.join("onbeat.jar");
    if installed.is_file() { installed } else { folder.join("java/target/onbeat.jar") }
}

fn has_numpy() -> bool {
    let tried = Command::new("python3").args(["-c", "import numpy"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|it| it.success())
}

/// A line of a client: the way's word, and times in ms.
fn times_of(line: &str) -> Option<(String, Vec<f64>)> {
    let mut words = line.split_whitespace();
    let word = words.next()?;
    let (_, way) = WAYS.iter().find(|(own, _)| *own == word)?;
    let times: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    (!times.is_empty()).then(|| ((*way).to_owned(), times))
}

/// memcpy of these bytes into memory that is there, CPU time in ms.
fn copies(pixels: &[u8]) -> Vec<f64> {
    let mut to = vec![1; pixels.len()];
    let once = |_| {
        let (_, cpu_ms) = timed(|| to.copy_from_slice(std::hint::black_box(pixels)));
        std::hint::black_box(&to);
        cpu_ms
    };
    (0..10).map(once).collect()
}
