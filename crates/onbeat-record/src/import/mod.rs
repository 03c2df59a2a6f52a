//! Files of other tools become run files, so that the same report, comparison and gate serve them.
//!
//! A format is detected from its content ([`Format::detect`]); [`read`] takes the file apart into
//! streams (a thread, a CPU, a tag), and [`write`](fn@write) puts each into a run file of its own.
//!
//! | file | format |
//! |---|---|
//! | [`rt_tests`] | JSON of cyclictest, oslat, signaltest and others of rt-tests |
//! | [`rt_text`] | text of signaltest and others of rt-tests |
//! | [`cyclictest`] | text of cyclictest: histograms, status lines, every sample |
//! | [`oslat`] | text of oslat |
//! | [`jitterdebugger`] | jitterdebugger's JSON and status lines, and the samples of jittersamples |
//! | [`xenomai`] | text of the latency tests of Xenomai and RTAI |
//! | [`hwlat`] | hwlatdetect's text, the trace of the tracer hwlat |
//! | [`rtla`], [`rtla_top`] | text of `rtla timerlat hist`, `rtla osnoise hist`, `rtla timerlat top` |
//! | [`timerlat`] | the trace of the tracer timerlat |
//! | [`ftrace`] | traces as text: from wake-up to switch |
//! | [`performance_test`] | the log of `performance_test` for ROS 2 |
//! | [`ping`] | ping |
//! | [`sockperf`] | the client of sockperf |
//! | [`stress_ng`] | the log of `stress-ng --cyclic` |
//! | [`hlog`], with [`crate::payload`] | HdrHistogram interval logs, jHiccup's among them, of all versions |
//! | [`hgrm`] | HdrHistogram's percentile text |
//! | [`csv`] | one value per line, with or without its time |
//! | [`stream`] | what all of them become, and its run file |
//!
//! What is damaged is refused with its line, or counted with
//! [`skip_damaged`](SourceOptions::skip_damaged); a last line that is cut off costs that line alone.
//! Lines that are not the tool's, such as a shell's prompt, are counted and named.
//!
//! A histogram does not record when its samples were taken, nor in which order, nor how long those
//! were that lie beyond its end. Nothing of this is made up: the run file keeps the source's cells
//! ([`crate::Resolution`]) and says in sentences what is missing
//! ([`crate::Import`]).
//!
//! ```
//! use std::io::Cursor;
//!
//! use onbeat_record::import::{self, Format, SourceOptions};
//!
//! let text = "time_s,latency_us\n0.1,20\n0.2,35\n";
//! assert_eq!(Format::detect(text), Some(Format::Csv));
//!
//! let streams = import::read(&mut Cursor::new(text), &SourceOptions::default())?;
//! assert_eq!(streams[0].parts.iter().map(|part| part.samples()).sum::<u64>(), 2);
//! # Ok::<(), import::Error>(())
//! ```
//!
//! Absent on purpose: files and names of files (the command line's), and any figure that the source
//! does not have.

pub mod csv;
pub mod cyclictest;
pub mod date;
mod detect;
mod encoding;
mod error;
mod format;
pub mod ftrace;
pub mod hgrm;
pub mod hlog;
pub mod hwlat;
pub mod jitterdebugger;
mod lines;
mod number;
pub mod oslat;
pub mod performance_test;
pub mod ping;
mod prefix;
pub mod rt_tests;
pub mod rt_text;
pub mod rtla;
pub mod rtla_top;
mod samples;
pub mod sockperf;
mod stated;
pub mod stream;
pub mod stress_ng;
pub mod timerlat;
mod vocabulary;
pub mod xenomai;

use std::io::{BufRead, Cursor, Read, Seek, SeekFrom};

use encoding::Encoding;
use error::LARGEST;
use prefix::Prefix;

pub use error::Error;
pub use format::{Format, SourceOptions};
pub use stream::{Stream, StreamPart, TrendSteps, write};

/// How much of a file shows what it is.
const SHOWN: u64 = 64 * 1024;
/// How the first note of a run file begins.
const RUN_NOTE: &str = "#[onbeat: {\"run\"";

/// Reads a file into its streams. gzip and UTF-16 are read too, up to 64 MiB of text.
///
/// Memory is bounded by the number of different values and of intervals kept (about 300), not by
/// the file's length, except for the formats that are read whole, up to 64 MiB: JSON, `hgrm`,
/// `rtla` and `stress-ng`.
///
/// # Errors
/// [`Error`], with the line where there is one.
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let beginning = beginning(file)?;
    // gzip and UTF-16 (a PowerShell redirection) are undone first, so that each reader sees plain
    // text.
    match Encoding::from_beginning(&beginning)? {
        Encoding::Plain => read_unpacked(file, &beginning, asked),
        encoding => {
            let text = encoding.decode(file)?;
            let beginning = &text[..text.len().min(SHOWN as usize)];
            read_unpacked(&mut Cursor::new(&text), beginning, asked)
        }
    }
}

/// Reads a tool's text without what a log puts in front of its lines.
fn read_unpacked(
    file: &mut (impl BufRead + Seek),
    beginning: &[u8],
    asked: &SourceOptions,
) -> Result<Vec<Stream>, Error> {
    let found = Prefix::of(&String::from_utf8_lossy(beginning));
    let is_asked = |of: Format| asked.format.is_none_or(|asked| asked == of);
    let Some((prefix, format)) = found.filter(|(_, format)| is_asked(*format)) else {
        return read_text(file, beginning, asked);
    };
    // What can be read with it is not refused for its length.
    let text = match whole(file, format) {
        Ok(text) => prefix.strip(&text),
        Err(_) if Format::detect(&String::from_utf8_lossy(beginning)) == Some(format) => {
            file.seek(SeekFrom::Start(0))?;
            return read_text(file, beginning, asked);
        }
        Err(why) => return Err(why),
    };
    let beginning = &text.as_bytes()[..text.len().min(SHOWN as usize)];
    let mut streams = read_text(&mut Cursor::new(text.as_bytes()), beginning, asked)?;
    for stream in &mut streams {
        let what = prefix.words();
        stream.remarks.push(format!("{what}, in front of each line: passed over"));
    }
    Ok(streams)
}

/// Returns the format of a file that [`read`] reads; `None` for a run file and for what it does not know.
///
/// # Errors
/// [`Error`]: unreadable, or compressed in another way.
pub fn format_of(file: &mut (impl BufRead + Seek)) -> Result<Option<Format>, Error> {
    let beginning = beginning(file)?;
    let text = match Encoding::from_beginning(&beginning)? {
        Encoding::Plain => beginning,
        encoding => encoding.decode(file)?,
    };
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN as usize)]);

    let by_prefix = || Prefix::of(&shown).map(|(_, format)| format);
    let detected = || Format::detect(&shown).or_else(by_prefix);
    Ok(if shown.contains(RUN_NOTE) { None } else { detected() })
}

/// What a format is shows within the first lines; a log may have gigabytes.
fn beginning(file: &mut (impl BufRead + Seek)) -> Result<Vec<u8>, Error> {
    let mut beginning = Vec::new();
    file.by_ref().take(SHOWN).read_to_end(&mut beginning)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(beginning)
}

fn read_text(
    file: &mut (impl BufRead + Seek),
    beginning: &[u8],
    asked: &SourceOptions,
) -> Result<Vec<Stream>, Error> {
    let beginning = String::from_utf8_lossy(beginning);
    // A run of onbeat is valid HdrHistogram and would be imported as one, without its account, its
    // spikes and its header.
    if beginning.contains(RUN_NOTE) {
        return Err(Error::RunFile);
    }

    // What the user says stands above what is detected: a file of two tools' lines is theirs to
    // name.
    let format =
        asked.format.or_else(|| Format::detect(&beginning)).ok_or_else(|| unknown(&beginning))?;
    let mut streams = match format {
        Format::Hlog => hlog::read(file, asked)?,
        Format::Csv => csv::read(file, asked)?,
        Format::CyclictestJson => rt_tests::cyclictest(&whole(file, format)?)?,
        Format::RtTestsJson => rt_tests::others(&whole(file, format)?, asked)?,
        Format::RtTests => rt_text::read(file, asked)?,
        Format::OslatJson => rt_tests::oslat(&whole(file, format)?)?,
        Format::Oslat => oslat::read(file)?,
        Format::Cyclictest => cyclictest::read(file, asked)?,
        Format::Jitterdebugger if jitterdebugger::has_results(&beginning) => {
            jitterdebugger::results(&whole(file, format)?)?
        }
        Format::Jitterdebugger => jitterdebugger::read(file, asked)?,
        Format::Xenomai | Format::Rtai => xenomai::read(file, (format, asked))?,
        Format::Hwlat => hwlat::read(file, asked)?,
        Format::Rtla if rtla_top::is_top(&beginning) => rtla_top::read(&whole(file, format)?)?,
        Format::Rtla => rtla::read(&whole(file, format)?)?,
        Format::Timerlat => timerlat::read(file)?,
        Format::Ftrace => ftrace::read(file, asked)?,
        Format::Ros2Perf => performance_test::read(file, asked)?,
        Format::Ping => ping::read(file, asked)?,
        Format::Sockperf => sockperf::read(file, asked)?,
        Format::StressNg => stress_ng::read(&whole(file, format)?)?,
        Format::Hgrm => hgrm::read(&whole(file, format)?, asked)?,
    };

    for stream in &mut streams {
        stream.format = Some(format);
        stream.period_ns = asked.period_ns.or(stream.period_ns);
    }
    if !streams.iter().all(Stream::is_in_range) {
        return Err(Error::nothing(format, OUT_OF_RANGE));
    }

    Ok(streams)
}

const OUT_OF_RANGE: &str = "a figure is out of range: at most 2^53 samples, values of 2,500 hours and times of 10^12 s; is the file damaged, or --unit wrong?";

const BPF_ADVICE: &str = "each of its buckets is twice as wide as the one before; import what `perf sched script` prints, which has every wake-up";

const IPERF_ADVICE: &str = "its jitter is a mean of differences (RFC 3550) and no latency; import what ping or sockperf prints";

const ROS2_ADVICE: &str =
    "each line is of samples of the one before as well; import a CSV with one value in each row";

const CLOCKS_ADVICE: &str = "offsets of a clock are not latencies; import a CSV of their absolute values where their size is of interest";

const FIO_ADVICE: &str =
    "import the log of --write_lat_log, with --column 2 --unit ns, which has every request";

/// What stands in outputs that hold no latencies, or fewer than another output of the tool.
const OTHER_OUTPUTS: [(&str, &str, &str); 25] = [
    (
        "{\"schema\":\"onbeat.",
        "onbeat report --json",
        "it has been summed up; report, compare, gate and export read the directory of its run",
    ),
    ("\"iperf 3", "iperf3", IPERF_ADVICE),
    (" Lost/Total ", "iperf", IPERF_ADVICE),
    (
        "sch delay",
        "perf sched timehist",
        "import what `perf sched script` prints, which has priorities",
    ),
    (
        " delay ms ",
        "perf sched latency",
        "it has averages and maxima alone; import what `perf sched script` prints",
    ),
    (" groups using ", "hackbench", "how long a load took; it measures no latency"),
    (
        "tracer: osnoise",
        "the tracer osnoise",
        "it has sums of a second; import what `rtla osnoise hist` prints",
    ),
    (
        " latency trace v",
        "a latency tracer of the kernel",
        "it has the longest latency alone; import a trace of the events sched_wakeup and sched_switch",
    ),
    (" : count    ", "a tool of bcc", BPF_ADVICE),
    ("|@@@@@@@@", "bpftrace", BPF_ADVICE),
    (
        "# event histogram",
        "a histogram trigger of the kernel",
        "import a trace of the events sched_wakeup and sched_switch",
    ),
    ("average rate: ", "ros2 topic hz", ROS2_ADVICE),
    ("average delay: ", "ros2 topic delay", ROS2_ADVICE),
    ("Message size mean: ", "ros2 topic bw", "bytes per second; it measures no latency"),
    ("ptp4l[", "ptp4l", CLOCKS_ADVICE),
    ("phc2sys[", "phc2sys", CLOCKS_ADVICE),
    ("Last offset     : ", "chronyc tracking", CLOCKS_ADVICE),
    (
        "int_n_per_sec:",
        "sysjitter",
        "it has a few percentiles of each core; import what `oslat --json` writes, which counts every gap",
    ),
    (" ipdv=", "irtt", "import a CSV of the round trips in its JSON (irtt client -o)"),
    // Windows' ping ends in `(100% loss)` too.
    (" avg, 0% loss)", "fping", "its lines are not read; import what `ping -D` prints"),
    ("xmt/rcv/%loss", "fping", "its lines are not read; import what `ping -D` prints"),
    ("one-way delay min/median/max", "owping", "import a CSV of the delays of `owping -v`"),
    (
        "REQUEST/RESPONSE TEST",
        "netperf",
        "it has a few percentiles and no count; import what sockperf prints",
    ),
    (" clat percentiles (", "fio", FIO_ADVICE),
    ("\"fio version\"", "fio", FIO_ADVICE),
];

fn unknown(beginning: &str) -> Error {
    if let Some(&(_, by, advice)) = OTHER_OUTPUTS.iter().find(|(mark, ..)| beginning.contains(mark))
    {
        return Error::OtherOutput { by, advice };
    }
    if beginning.lines().any(is_of_candump) {
        let advice = "it has frames and their times; import a CSV with the period of one identifier in each row";
        return Error::OtherOutput { by: "candump", advice };
    }
    if beginning.trim().is_empty() {
        let advice = "its tool may have ended before it wrote";
        return Error::OtherKind { what: "an empty file", advice };
    }
    if beginning.contains('\0') {
        let advice = "text is imported, in UTF-16 with its byte order mark and packed by gzip too";
        return Error::OtherKind { what: "binary data of no known kind", advice };
    }
    // Shown back, so that one sees which line was not understood; cleaned of control characters,
    // since it is printed in a terminal.
    let mut lines = beginning.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let comment = lines.clone().next();
    let first_line = lines.find(|(line, _)| !line.starts_with('#')).or(comment);
    let (begins, line) = first_line.unwrap_or(("", 1));
    Error::Unknown { line, begins: begins.chars().filter(|c| !c.is_control()).take(40).collect() }
}

/// Whether a line is a frame: `(1627304563.123456) can0 123#1122` of a log, or
/// `vcan1  123   [2]  11 22` of a terminal.
fn is_of_candump(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with('('));
    let (Some(interface), Some(frame)) = (words.next(), words.next()) else { return false };
    let (id, has_data) = match frame.split_once('#') {
        Some((id, _)) => (id, true),
        None => (frame, words.next().is_some_and(|n| n.starts_with('[') && n.ends_with(']'))),
    };
    let is_id = [3, 8].contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    interface.contains("can") && is_id && has_data
}

fn whole(file: &mut impl BufRead, format: Format) -> Result<String, Error> {
    let mut bytes = Vec::new();
    // One more than is allowed: a file of exactly the limit is told apart from a longer one.
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::TooLong { format });
    }
    // PowerShell and editors of Windows write a byte order mark.
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }

    String::from_utf8(bytes).map_err(|why| {
        let good = why.utf8_error().valid_up_to();
        let line = why.as_bytes()[..good].iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::line(format, line, "not UTF-8 text")
    })
}
