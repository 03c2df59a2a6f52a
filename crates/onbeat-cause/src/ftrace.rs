//! Conversion of a window to the text of the kernel's `trace` file, and back.
//!
//! `trace-cmd report` prints the same fields; Perfetto and other viewers open such a file directly.
//! Run files keep windows in this form too, with nine digits of time where the kernel prints six;
//! the reader accepts both.
//!
//! ```
//! use onbeat_cause::ftrace;
//!
//! let line = "          dd-7       [001] .....    12.000345: irq_handler_exit: irq=36 ret=handled";
//! let window = ftrace::read(line)?;
//! assert_eq!(window.cpu(1).map(|cpu| cpu.events.len()), Some(1));
//! # Ok::<(), ftrace::TextError>(())
//! ```

mod event_text;
mod kvm_text;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use onbeat_rt::Instant;

use self::event_text::{read_what, write_what};
use super::event::{KernelEvent, Label, LostEvents, Thread, TraceEvent};
use super::window::{CpuWindow, Window};

/// The text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {number} is not a line of a kernel trace: \"{line}\"; the file may be truncated or edited"
)]
pub struct TextError {
    /// Line number, from 1.
    pub number: usize,
    pub line: String,
}

/// Packed text cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is not valid base64.
    #[error("event data of a spike is not valid base64: {0}; the run file may have been edited")]
    Base64(#[from] base64::DecodeError),
    /// It is not deflated text, or exceeds the limit of a run file.
    #[error("event data of a spike cannot be unpacked: {0}; the run file may have been edited")]
    Deflate(#[from] std::io::Error),
    /// It is not a trace.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Maximum size of an unpacked window, in bytes.
const LONGEST_TEXT: u64 = 64 << 20;

/// Returns the window's text, deflated and base64-encoded, for a note of a run file. Takes about 6
/// bytes per event.
#[must_use]
pub fn pack(window: &Window) -> String {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = packed.write_all(write(window).as_bytes());
    BASE64.encode(packed.finish().unwrap_or_default())
}

/// Unpacks a window packed by [`pack`].
///
/// # Errors
/// [`UnpackError`].
pub fn unpack(packed: &str) -> Result<Window, UnpackError> {
    let bytes = BASE64.decode(packed)?;
    let mut text = String::new();
    DeflateDecoder::new(&bytes[..]).take(LONGEST_TEXT).read_to_string(&mut text)?;
    Ok(read(&text)?)
}

/// Returns the window as text that [`read`] converts back without loss: with nanoseconds, gaps and
/// addresses of functions.
#[must_use]
pub fn write(window: &Window) -> String {
    let mut text = String::from("# tracer: nop\n#\n");
    let _ = writeln!(text, "# window: {} {}", window.from.as_ns(), window.to.as_ns());
    let cpus: Vec<String> = window.cpus.iter().map(|cpu| cpu.cpu.to_string()).collect();
    let _ = writeln!(text, "# cpus: {}", cpus.join(" "));
    for (address, name) in &window.functions {
        let name = Label::from(name.as_str());
        let _ = writeln!(text, "# function: {address:x} {name}");
    }

    for lost in &window.lost {
        let count = lost.count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let _ = writeln!(
            text,
            "# lost: {} {} {} {count}",
            lost.cpu,
            lost.from.as_ns(),
            lost.to.as_ns()
        );
    }

    text.push_str("#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n");
    let names = names(window);
    for event in window.in_order() {
        write_line(&mut text, event, &names, window, |at| format!("{:09}", at.as_ns() % SECOND_NS));
    }

    text
}

/// Returns the window in the form of the kernel's `trace` file: its header, six digits of time, a
/// line for each gap.
#[must_use]
pub fn write_as_kernel(window: &Window) -> String {
    let events = window.in_order();
    let lost: u64 = window.lost.iter().filter_map(|lost| lost.count).sum();
    let kept = events.len() as u64;
    let cpus = window.cpus.len();
    let mut text = format!(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: {kept}/{}   #P:{cpus}\n",
        kept + lost
    );
    text.push_str(KERNELS_HEADER);
    let names = names(window);
    let mut losses = window.lost.clone();
    for event in events {
        losses.retain(|lost| {
            let is_due = lost.cpu == event.cpu && lost.to <= event.at;
            if is_due {
                let count = lost
                    .count
                    .map_or_else(|| "EVENTS".to_owned(), |count| format!("{count} EVENTS"));
                let _ = writeln!(text, "CPU:{} [LOST {count}]", lost.cpu);
            }
            !is_due
        });
        write_line(&mut text, event, &names, window, |at| {
            format!("{:06}", at.as_ns() % SECOND_NS / 1000)
        });
    }

    text
}

/// The header printed by `kernel/trace/trace.c`.
const KERNELS_HEADER: &str = "#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";
const SECOND_NS: u64 = 1_000_000_000;

fn names(window: &Window) -> BTreeMap<u32, Label> {
    let mut names: BTreeMap<u32, Label> = BTreeMap::new();
    for event in window.in_order() {
        for thread in threads(&event.what) {
            names.entry(thread.tid).or_insert(thread.name);
        }
    }

    names
}

/// Context flags are not recorded; dots mean that none is set.
fn write_line(
    text: &mut String,
    event: &TraceEvent,
    names: &BTreeMap<u32, Label>,
    window: &Window,
    fraction: impl Fn(Instant) -> String,
) {
    let name = match (event.tid, names.get(&event.tid)) {
        (0, _) => "<idle>".to_owned(),
        (_, Some(name)) => name.to_string(),
        (_, None) => "<...>".to_owned(),
    };

    let seconds = event.at.as_ns() / SECOND_NS;
    let fraction = fraction(event.at);
    let _ = write!(
        text,
        "{name:>16}-{:<7} [{:03}] ..... {seconds:>5}.{fraction}: ",
        event.tid, event.cpu
    );
    write_what(text, event, window);
    text.push('\n');
}

fn threads(what: &KernelEvent) -> Vec<Thread> {
    match what {
        KernelEvent::Switch { prev, next, .. } => vec![*prev, *next],
        KernelEvent::Waking { thread, .. }
        | KernelEvent::Wakeup { thread, .. }
        | KernelEvent::Migrate { thread, .. } => vec![*thread],
        _ => Vec::new(),
    }
}

/// Parses a trace. Lines of unknown events are ignored.
///
/// # Errors
/// [`TextError`] at the first line that is neither a comment nor an event.
pub fn read(text: &str) -> Result<Window, TextError> {
    let mut reader = TextReader::default();
    for (index, line) in text.lines().enumerate() {
        let fault = || TextError { number: index + 1, line: line.to_owned() };
        match line.strip_prefix('#') {
            Some(comment) => reader.comment(comment.trim()),
            None if line.is_empty() || line.starts_with("CPU:") => {}
            None => reader.event(line).ok_or_else(fault)?,
        }
    }

    Ok(reader.window())
}

#[derive(Default)]
struct TextReader {
    cpus: BTreeMap<u32, Vec<TraceEvent>>,
    functions: BTreeMap<String, u64>,
    lost: Vec<LostEvents>,
    span: Option<(Instant, Instant)>,
}

impl TextReader {
    fn comment(&mut self, comment: &str) {
        let mut words = comment.split(' ');
        let key = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match key {
            Some("window:") => {
                self.span = number().zip(number()).map(|(from, to)| (at(from), at(to)));
            }
            Some("cpus:") => {
                while let Some(cpu) = number() {
                    self.cpus.entry(cpu as u32).or_default();
                }
            }
            Some("lost:") => {
                if let (Some(cpu), Some(from), Some(to)) = (number(), number(), number()) {
                    self.lost.push(LostEvents {
                        cpu: cpu as u32,
                        from: at(from),
                        to: at(to),
                        count: number(),
                    });
                }
            }
            Some("function:") => {
                let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
                if let (Some(address), Some(name)) = (address, words.next()) {
                    self.functions.insert(name.to_owned(), address);
                }
            }
            _ => {}
        }
    }

    /// `comm-pid [cpu] flags seconds.fraction: event: fields`; the flags may be missing.
    fn event(&mut self, line: &str) -> Option<()> {
        // A thread's name may contain blanks and brackets.
        let (tid, cpu, rest) =
            line.match_indices(" [").find_map(|(at, _)| head(&line[..at], &line[at + 2..]))?;
        let (head, rest) = rest.split_once(": ")?;
        let at = instant(head.split_ascii_whitespace().last()?)?;
        let (name, fields) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
        let events = self.cpus.entry(cpu).or_default();

        if let Some(what) = read_what(name, fields, &mut self.functions) {
            events.push(TraceEvent { at, cpu, tid, what });
        }

        Some(())
    }

    fn window(self) -> Window {
        let all = || self.cpus.values().flatten().map(|event| event.at);
        let (from, to) =
            self.span.unwrap_or((all().min().unwrap_or_default(), all().max().unwrap_or_default()));
        let functions =
            self.functions.iter().map(|(name, address)| (*address, name.clone())).collect();
        let cpus = self.cpus.into_iter().map(|(cpu, events)| CpuWindow { cpu, events }).collect();
        Window { from, to, cpus, lost: self.lost, functions, ..Window::default() }
    }
}

/// Returns the thread number before a bracket, the CPU in it, and the rest of the line.
fn head<'l>(before: &str, after: &'l str) -> Option<(u32, u32, &'l str)> {
    let tid = before.trim_end().rsplit_once('-')?.1.trim().parse().ok()?;
    let (cpu, rest) = after.split_once(']')?;
    Some((tid, cpu.parse().ok()?, rest))
}

const fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

fn instant(text: &str) -> Option<Instant> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 9)?;
    let ns = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits);
    Some(at(seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)?))
}
