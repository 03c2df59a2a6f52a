//! `--screen`: the figures of a run in progress in the terminal, for `measure`, `watch` and `bench`.
//!
//! A process of its own reads the run's files and draws, so that the measuring process neither reads
//! nor grows. It redraws lines in place and changes no mode of the terminal, so that nothing is to be
//! restored, however either process ends. When the measuring process ends, the pipe between the two
//! is closed and the lines are removed.

mod frame;

use std::fs;
use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use onbeat::record::Recorder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{ExitVerdict, Failure, runs};
use crate::term::{Live, Tone, advise, columns, letters};
use frame::FrameSize;

/// Between two frames.
const EVERY: Duration = Duration::from_secs(1);
/// A run is written out, and drawn, at most once in this part of its time so far: otherwise that of
/// a long run would have an interval for every second.
const PART_OF_RUN: u32 = 200;

/// The measuring side of a screen; without one it does nothing.
pub(crate) struct Screen {
    drawing: Option<Child>,
    begun: Instant,
    written: Instant,
    /// What was to be said meanwhile.
    held: Vec<(Tone, String)>,
}

impl Screen {
    /// Starts to draw the run file or run directory `run`, if it is wanted and standard output is a
    /// terminal.
    pub(crate) fn begin(run: &Path, is_wanted: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let drawing =
            if is_wanted && stdout().is_terminal() && !is_dumb { start(run) } else { None };
        let now = Instant::now();
        Self { drawing, begun: now, written: now, held: Vec::new() }
    }

    /// Whether figures are drawn, and no line of progress is needed.
    pub(crate) const fn is_on(&self) -> bool {
        self.drawing.is_some()
    }

    /// Writes out what was measured since, for the next frame.
    pub(crate) fn look(&mut self, recorder: &mut Recorder) {
        let since = self.written.elapsed();
        if self.is_on() && since >= EVERY.max(self.begun.elapsed() / PART_OF_RUN) {
            self.written = Instant::now();
            // A file that cannot be written any more ends the run by itself.
            let _ = recorder.write_out();
        }
    }

    /// Says something now, or where figures are drawn after them.
    pub(crate) fn advise(&mut self, tone: Tone, words: &str) {
        if self.is_on() {
            self.held.push((tone, words.to_owned()));
        } else {
            advise(tone, words);
        }
    }

    /// Removes the figures, and says what was held back.
    pub(crate) fn end(&mut self) {
        if let Some(mut child) = self.drawing.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
        self.held.drain(..).for_each(|(tone, words)| advise(tone, &words));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end();
    }
}

/// A screen that cannot be started is left out: the run goes on.
fn start(run: &Path) -> Option<Child> {
    let started = std::env::current_exe().and_then(|myself| {
        Command::new(myself).arg("screen").arg(run).stdin(Stdio::piped()).spawn()
    });
    started
        .inspect_err(|why| {
            advise(Tone::Careful, &format!("--screen: cannot start onbeat again: {why}"));
        })
        .ok()
}

/// Draws the figures of a run until standard input ends.
pub(crate) fn run(path: &Path) -> Result<ExitVerdict, Failure> {
    // Ctrl-C is for the measuring process, whose end is then the end of this one.
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let _ = signal_hook::flag::register(signal, Arc::clone(&is_stopped));
    }

    let mut live = Live::new(true);
    let mut drawn = None;
    while !is_stopped.load(Ordering::Relaxed) && !is_over(EVERY) {
        let now = (state_of(path), FrameSize::of_terminal());
        if drawn.as_ref() == Some(&now) {
            continue;
        }
        // A file in the making may not be readable yet.
        if let Ok(judged) = runs::judged(path, None) {
            live.draw(&frame::frame(&judged, now.1, letters()));
            let _ = stdout().flush();
        }
        drawn = Some(now);
    }
    live.clear();
    Ok(ExitVerdict::Pass)
}

/// Waits, and returns whether the other side has ended meanwhile.
fn is_over(most: Duration) -> bool {
    let limit = Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: 0 };
    let input = stdin();
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    let is_ready = poll(&mut asked, Some(&limit)).is_ok_and(|ready| ready > 0);
    is_ready && matches!(input.lock().read(&mut [0; 16]), Ok(0) | Err(_))
}

/// Lengths and times of a run's files: without a change there is nothing to draw.
fn state_of(path: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let of = |path: PathBuf| {
        let known = fs::metadata(&path).ok()?;
        Some((path, known.len(), known.modified().ok()))
    };
    if !path.is_dir() {
        return of(path.to_owned()).into_iter().collect();
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    let mut files: Vec<_> = entries.filter_map(|entry| of(entry.ok()?.path())).collect();
    files.sort();
    files
}

impl FrameSize {
    fn of_terminal() -> Self {
        let size = rustix::termios::tcgetwinsize(stdout());
        let rows = size.ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
        Self { columns: columns(), rows: rows.unwrap_or(24) }
    }
}
