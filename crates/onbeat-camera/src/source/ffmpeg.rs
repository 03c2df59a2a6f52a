//! The machine's `ffmpeg` as a decoder: a process of its own, whose pictures come through a pipe.
//!
//! It prints lines about each picture before it writes the picture (the filter `showinfo`): index, size,
//! range and matrix. So pictures keep their times, and one of another size is known as such.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onbeat_control::frames::{FrameTimes, MOST_SIDE, TimeSource};
use onbeat_host::foreign;
use url::Url;

use super::address::VideoDevice;
use super::error::SourceError;
use super::mailbox::{Buffers, Mailbox, locked};
use super::{Captured, Description, Source, now_ns};
use crate::convert::{Colours, Matrix, Picture, Range};

const PROGRAM: &str = "ffmpeg";
/// Major number of video devices (Documentation/admin-guide/devices.txt of the kernel).
const VIDEO_MAJOR: u32 = 81;
/// Longest line that is kept of what it prints.
const MOST_LINE: u64 = 4096;
/// Pictures whose times are remembered while they are in the decoder.
const MOST_INSIDE: usize = 256;
/// Size of the pipe of pictures: one of 4K in I420.
const MOST_PIPE: usize = 16 << 20;
/// Age up to which a stamp of a driver is taken for one of `CLOCK_MONOTONIC`: others are of another clock.
const MOST_AGE_NS: u64 = 10_000_000_000;
/// First version of ffmpeg that is known to print the matrix of each picture.
const STATES_MATRIX: (u32, u32) = (5, 1);
/// Longest silence of a stream of the network, in µs.
const TIMEOUT_US: &str = "3000000";
/// Options for an address that comes in a list through standard input.
const BY_LIST: &str =
    "-f concat -safe 0 -protocol_whitelist pipe,http,tcp,https,tls,crypto,data -i pipe:0";
/// First version of ffmpeg whose lists have options for what is listed, and those that make it begin early.
const LIST_OPTIONS: (u32, u32) = (5, 0);
const LIST_EARLY: &str =
    "option probesize 500000\noption analyzeduration 1\noption fpsprobesize 0\n";
/// Beginnings of formats of red, green and blue where ffmpeg describes a stream; it makes luma and chroma of them by BT.601.
const RGB_FORMATS: [&str; 7] = [", rgb", ", bgr", ", gbr", ", argb", ", abgr", ", 0rgb", ", pal8"];
/// Rows from which video without a statement is taken as high definition, as players do.
const HD_ROWS: usize = 720;

/// Times of pictures that were given to the decoder, by the time at which they are shown, in ms.
#[derive(Clone, Debug, Default)]
pub(super) struct TimesInside(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    given: VecDeque<(u64, FrameTimes)>,
    /// Whether a picture came out.
    has_begun: bool,
}

impl TimesInside {
    pub(super) fn put(&self, shown_ms: u64, times: FrameTimes) {
        let mut inside = locked(&self.0);
        inside.given.push_back((shown_ms, times));
        if inside.given.len() > MOST_INSIDE {
            inside.given.pop_front();
        }
    }

    /// Takes the times of a picture, with the drops of those that never came out: they were given before it, and are shown
    /// before it. A picture that others are predicted backwards from (B pictures) is given before them, and shown after them. A
    /// stream that had begun has pictures before the first one that can be decoded: they are not drops.
    fn take(&self, shown_ms: u64) -> Option<FrameTimes> {
        let mut inside = locked(&self.0);
        let Inside { given, has_begun } = &mut *inside;
        let place = given.iter().position(|(of, _)| *of == shown_ms)?;
        let (_, times) = given.remove(place)?;
        let are_drops = std::mem::replace(has_begun, true);
        let mut dropped = times.dropped_before;
        let mut index = 0;
        given.retain(|(of, before)| {
            let is_over = index < place && *of < shown_ms;
            index += 1;
            if is_over && are_drops {
                dropped += 1 + before.dropped_before;
            }
            !is_over
        });
        Some(FrameTimes { dropped_before: dropped, ..times })
    }
}

/// What is printed about a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Announced {
    index: u64,
    /// Its time, in the unit of its stream.
    ticks: u64,
    /// The same with the six digits that are printed.
    seconds: f64,
    width: usize,
    height: usize,
    range: Range,
    /// As the stream states it.
    matrix: Option<Matrix>,
}

/// A picture in the format of the decoder.
#[derive(Debug, Default)]
struct Decoded {
    bytes: Vec<u8>,
    size: (usize, usize),
    colours: Colours,
    times: FrameTimes,
}

/// A running decoder; killed on drop.
#[derive(Debug)]
pub(super) struct Decoder {
    child: Child,
    mailbox: Mailbox<Decoded, SourceError>,
    spare: Buffers,
    current: Decoded,
    description: Description,
}

/// Whether the source goes on while nobody takes its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Live,
    Waits,
}

/// What a decoder reads.
#[derive(Debug)]
pub(super) struct Input<'i> {
    /// Options before `-i`, and the input.
    pub(super) arguments: Vec<String>,
    pub(super) stdin: Stdio,
    /// Address for sentences.
    pub(super) place: &'i str,
    /// What is decoded.
    pub(super) coding: String,
    /// Times of what is given through a pipe; without them, the arrival of the picture.
    pub(super) inside: Option<TimesInside>,
    /// An address with a password, which sentences of the program may have.
    pub(super) secret: Option<String>,
}

impl<'i> Input<'i> {
    pub(super) fn of(arguments: Vec<String>, stdin: Stdio, place: &'i str, coding: &str) -> Self {
        Self { arguments, stdin, place, coding: coding.to_owned(), inside: None, secret: None }
    }
}

/// Version of ffmpeg: its first two numbers, and the text.
type Version = ((u32, u32), String);

/// Returns the version of the machine's ffmpeg: its first two numbers, and the text. Asking takes as long as a start of the program,
/// so it is asked once.
#[must_use]
pub fn ffmpeg_version() -> Option<Version> {
    static FOUND: Mutex<Option<Version>> = Mutex::new(None);
    let mut found = locked(&FOUND);
    if found.is_none() {
        *found = asked_version();
    }
    found.clone()
}

fn asked_version() -> Option<Version> {
    let output = Command::new(PROGRAM).arg("-version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = text.strip_prefix("ffmpeg version ")?.split_whitespace().next()?.to_owned();
    let mut numbers = word.trim_start_matches('n').split(['.', '-']).map(|it| it.parse().ok());
    // A build from the repository has a hash in the place of a version: it is a new one.
    let major = numbers.next().flatten().unwrap_or(99);
    Some(((major, numbers.next().flatten().unwrap_or(0)), word))
}

/// A recording, at its own rate.
pub(super) fn of_file(path: &Path) -> Result<Decoder, SourceError> {
    let failed = |source: io::Error| {
        let path = path.to_owned();
        // Such as the address of a camera alone.
        if source.kind() == io::ErrorKind::NotFound && path.is_relative() {
            let why = "there is no such file; a camera of the network is rtsp://HOST/PATH or \
                       http://HOST/PATH";
            return SourceError::NotACamera { path, why: why.to_owned() };
        }
        SourceError::Device { what: "open", path, source }
    };
    let file: File = foreign::open(path).map_err(failed)?;
    let place = path.display().to_string();
    let words = ["-protocol_whitelist", "file", "-re", "-i", "file:/proc/self/fd/0"];
    let arguments = words.map(str::to_owned).to_vec();
    Decoder::start(Input::of(arguments, file.into(), &place, "a file"))
}

/// A video device of the kernel, by the format, size and rate that are asked for.
pub(super) fn of_device(device: &VideoDevice) -> Result<Decoder, SourceError> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let path = device.path.as_path();
    let failed = |source| SourceError::Device { what: "open", path: path.to_owned(), source };
    let found = std::fs::metadata(path).map_err(failed)?;
    let is_video = rustix::fs::major(found.rdev()) == VIDEO_MAJOR;
    if !found.file_type().is_char_device() || !is_video {
        let why = "it is not a video device".to_owned();
        return Err(SourceError::NotACamera { path: path.to_owned(), why });
    }
    let place = device.to_string();
    Decoder::start(Input::of(device_arguments(device), Stdio::null(), &place, "a video device"))
}

/// A stream of the network. An address with a password goes through a pipe: arguments are in the list of processes.
pub(super) fn of_url(url: &Url, place: &str, coding: &str) -> Result<Decoder, SourceError> {
    let secret = (url.as_str() != place).then(|| url.as_str().to_owned());
    let (arguments, stdin) = match &secret {
        Some(_) => (BY_LIST.split(' ').map(str::to_owned).collect(), Stdio::piped()),
        None => {
            let arguments = ["-rw_timeout", TIMEOUT_US, "-i", url.as_str()];
            (arguments.map(str::to_owned).to_vec(), Stdio::null())
        }
    };
    let has_options = ffmpeg_version().is_some_and(|(version, _)| version >= LIST_OPTIONS);
    let list = secret.as_deref().map(|url| list_of(url, has_options));
    let input = Input { secret, ..Input::of(arguments, stdin, place, coding) };
    let mut decoder = Decoder::start(input)?;
    if let (Some(list), Some(mut stdin)) = (list, decoder.take_stdin()) {
        // Where it is not read, the program has ended, and says why.
        give(&mut stdin, list.as_bytes());
    }
    Ok(decoder)
}

/// A list of one address, as ffmpeg's demuxer `concat` reads it.
fn list_of(url: &str, has_options: bool) -> String {
    let quoted = url.replace('\'', "'\\''");
    let options = if has_options {
        format!("option rw_timeout {TIMEOUT_US}\n{LIST_EARLY}")
    } else {
        String::new()
    };
    format!("ffconcat version 1.0\nfile '{quoted}'\n{options}")
}

fn device_arguments(device: &VideoDevice) -> Vec<String> {
    let mut arguments = ["-f", "v4l2"].map(str::to_owned).to_vec();
    let asked = [
        ("-input_format", device.format.clone()),
        ("-video_size", device.size.map(|(width, height)| format!("{width}x{height}"))),
        ("-framerate", device.rate.map(|rate| rate.to_string())),
    ];
    for (option, value) in asked {
        arguments.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
    }
    arguments.extend(["-i".to_owned(), device.path.display().to_string()]);
    arguments
}

impl Decoder {
    /// Starts the program.
    pub(super) fn start(input: Input<'_>) -> Result<Self, SourceError> {
        let place = input.place.to_owned();
        let missing =
            || SourceError::NoDecoder { place: place.clone(), what: input.coding.clone() };
        let ((major, minor), version) = ffmpeg_version().ok_or_else(missing)?;
        let rate = if (major, minor) >= (5, 1) { "-fps_mode" } else { "-vsync" };
        // Otherwise each 0.1 s a byte of the file is a key, and `q` ends the program.
        let early = "-nostdin -hide_banner -nostats -loglevel info -flags low_delay -threads 1 \
                     -probesize 500000 -analyzeduration 1 -fpsprobesize 0";
        let pace =
            if input.arguments.iter().any(|it| it == "-re") { Pace::Waits } else { Pace::Live };
        // Of a recording, whose parts may be hours apart, they would be waited for.
        let stamps = (pace == Pace::Live).then_some("-copyts");
        // Its encoder of raw pictures has a thread for each CPU, and keeps as many pictures back as it has threads, less one.
        // Up to version 6.1, `-autoscale 0` is the same; later ones take the 0 for an output.
        let late = "-an -sn -dn -vf format=pix_fmts=yuv420p|yuvj420p,showinfo=checksum=0 -noautoscale \
                    -threads 1";
        let mut command = Command::new(PROGRAM);
        command.args(early.split_whitespace()).args(stamps).args(&input.arguments);
        command.args(late.split_whitespace()).args([rate, "passthrough", "-f", "rawvideo"]);
        // Without, the end of a picture stays in its buffer until the next one comes.
        command.args(["-flush_packets", "1", "pipe:1"]);
        // Ctrl-C ends this process, and with it the decoder.
        use std::os::unix::process::CommandExt;
        command.stdin(input.stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let failed = |source| SourceError::Device { what: "start", path: PROGRAM.into(), source };
        let mut child = command.spawn().map_err(failed)?;

        let mailbox = Mailbox::new();
        let spare = Buffers::default();
        if let (Some(pictures), Some(lines)) = (child.stdout.take(), child.stderr.take()) {
            let (announce, announced) = channel();
            let lines_to = mailbox.clone();
            let said: Arc<Mutex<String>> = Arc::default();
            let saying = Arc::clone(&said);
            let states_matrix = (major, minor) >= STATES_MATRIX;
            // Its sentences name the input as it was given, with its password.
            let given = input.secret.into_iter().chain(input.arguments.last().cloned());
            let (given, shown): (Vec<String>, _) = (given.collect(), place.clone());
            thread::spawn(move || {
                let said = |line: String| {
                    let line = given.iter().fold(line, |line, given| line.replace(given, &shown));
                    lines_to.saw(|| format!("ffmpeg says: {line}"));
                    *locked(&saying) = line;
                };
                announce_all(lines_of(BufReader::new(lines)), states_matrix, &announce, &said);
            });
            let reader = PictureReader {
                pictures,
                announced,
                mailbox: mailbox.clone(),
                spare: spare.clone(),
                inside: input.inside.clone(),
                place: place.clone(),
                said,
                pace,
                is_device: input.arguments.iter().any(|it| it == "v4l2"),
            };
            thread::spawn(move || reader.run());
        }
        let decoder = format!(
            "{}, decoded by ffmpeg {version} in a process of its own (one copy through a pipe)",
            input.coding
        );
        let description = Description { address: place, decoder };
        Ok(Self { child, mailbox, spare, current: Decoded::default(), description })
    }

    /// Takes the end of the pipe through which compressed pictures are given.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        self.mailbox.leave();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Source for Decoder {
    fn next(&mut self, patience: Duration) -> Result<Option<Captured<'_>>, SourceError> {
        let Some((decoded, dropped)) = self.mailbox.take(patience)? else { return Ok(None) };
        let before = std::mem::replace(&mut self.current, decoded);
        if before.bytes.capacity() > 0 {
            self.spare.put(before.bytes);
        }
        let Decoded { bytes, size: (width, height), colours, times } = &self.current;
        let dropped_before = times.dropped_before + dropped;
        let times = FrameTimes { dropped_before, ..*times };
        Ok(Picture::i420(*width, *height, bytes, *colours)
            .map(|picture| Captured { picture, times }))
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn seen(&self) -> String {
        self.mailbox.seen()
    }
}

/// The thread that reads pictures.
struct PictureReader {
    pictures: ChildStdout,
    announced: Receiver<Announced>,
    mailbox: Mailbox<Decoded, SourceError>,
    spare: Buffers,
    inside: Option<TimesInside>,
    place: String,
    said: Arc<Mutex<String>>,
    pace: Pace,
    /// Whether its times are those of a driver.
    is_device: bool,
}

impl PictureReader {
    fn run(mut self) {
        // Each filling of the pipe is a turn of two processes. Root can have one of a whole picture.
        let sizes = [MOST_PIPE, 1 << 20];
        let _ =
            sizes.iter().find(|it| rustix::pipe::fcntl_setpipe_size(&self.pictures, **it).is_ok());
        let mut frames = 0;
        while let Ok(announced) = self.announced.recv() {
            match self.picture(announced) {
                Ok(decoded) => {
                    frames += 1;
                    if self.pace == Pace::Waits && !self.mailbox.wait_until_taken() {
                        return;
                    }
                    if let Some(before) = self.mailbox.put(decoded) {
                        self.spare.put(before.bytes);
                    }
                }
                Err(why) => return self.mailbox.end(why),
            }
            if self.mailbox.is_left() {
                return;
            }
        }

        let said = locked(&self.said).clone();
        let place = self.place.clone();
        self.mailbox.end(if self.pace == Pace::Waits && frames > 0 {
            SourceError::Ended { place, frames }
        } else {
            SourceError::DecoderEnded { place, status: format!("{frames} pictures"), said }
        });
    }

    fn picture(&mut self, announced: Announced) -> Result<Decoded, SourceError> {
        let Announced { width, height, range, .. } = announced;
        let most = MOST_SIDE as usize;
        let length = width * height + 2 * width.div_ceil(2) * height.div_ceil(2);
        if width == 0 || height == 0 || width.max(height) > most {
            let given = length as u64;
            let place = self.place.clone();
            let most = (most * most) as u64;
            return Err(SourceError::TooLong { place, what: "a picture", given, most });
        }
        let mut bytes = self.spare.take();
        bytes.resize(length, 0);
        let read = self.pictures.read_exact(&mut bytes);
        read.map_err(|why| SourceError::DecoderEnded {
            place: self.place.clone(),
            status: why.to_string(),
            said: locked(&self.said).clone(),
        })?;
        let decoded_ns = now_ns();
        let source_ns = (announced.seconds.max(0.0) * 1e9) as u64;
        let stamped_ns = stamp_of(announced.ticks, decoded_ns).filter(|_| self.is_device);
        let arrived = FrameTimes {
            capture_ns: stamped_ns.unwrap_or(decoded_ns),
            received_ns: decoded_ns,
            source_ns,
            time_source: stamped_ns.map_or(TimeSource::Arrival, |_| TimeSource::Device),
            ..FrameTimes::default()
        };
        // What is given through a pipe has a unit of 1 ms.
        let inside = self.inside.as_ref().and_then(|inside| inside.take(announced.ticks));
        let times = inside.unwrap_or(arrived);
        let usual = if range == Range::Limited && height >= HD_ROWS {
            Matrix::Bt709
        } else {
            Matrix::Bt601
        };
        let colours = Colours { matrix: announced.matrix.unwrap_or(usual), range };
        Ok(Decoded {
            bytes,
            size: (width, height),
            colours,
            times: FrameTimes { decoded_ns, ..times },
        })
    }
}

/// The stamp of a driver, in ns, from ffmpeg's ticks of 1 µs; `None` for one of another clock than `CLOCK_MONOTONIC`.
fn stamp_of(ticks: u64, now_ns: u64) -> Option<u64> {
    let stamped_ns = ticks.saturating_mul(1_000);
    (now_ns.saturating_sub(MOST_AGE_NS)..=now_ns).contains(&stamped_ns).then_some(stamped_ns)
}

/// Passes on what lines say about pictures, with the matrix and range that the line after it states; hands all others to `said`.
fn announce_all(
    lines: impl Iterator<Item = String>,
    states_matrix: bool,
    announce: &Sender<Announced>,
    said: &dyn Fn(String),
) {
    let mut waiting: Option<Announced> = None;
    let mut made = None;
    for line in lines {
        if line.contains(" Video: ") && RGB_FORMATS.iter().any(|it| line.contains(it)) {
            made = Some(Matrix::Bt601);
        }
        let known = match (announced_by(&line), colours_by(&line)) {
            (Some(picture), _) if states_matrix => waiting.replace(picture),
            (Some(picture), _) => Some(picture),
            (None, Some((range, stated))) => waiting.take().map(|it| Announced {
                matrix: stated.or(made),
                range: range.unwrap_or(it.range),
                ..it
            }),
            (None, None) => {
                if !line.contains("showinfo") {
                    said(line);
                }
                None
            }
        };
        if known.is_some_and(|picture| announce.send(picture).is_err()) {
            return;
        }
    }
}

/// Lines of text, each cut to a bound.
fn lines_of(mut from: impl BufRead) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = from.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).ok()?;
        (read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
    })
}

/// Reads a line of `showinfo`, such as `[Parsed_showinfo_1 @ 0x5] n:   0 pts:      0 pts_time:0 … fmt:yuv420p
/// sar:1/1 s:1920x1080 …`.
fn announced_by(line: &str) -> Option<Announced> {
    let words = line.split_once("] n:")?.1;
    let value = |key: &str| {
        let from = words.find(key)? + key.len();
        words[from..].split_whitespace().next()
    };
    let (width, height) = value(" s:")?.split_once('x')?;
    Some(Announced {
        index: words.split_whitespace().next()?.parse().ok()?,
        ticks: value(" pts:")?.parse().unwrap_or(0),
        seconds: value(" pts_time:")?.parse().unwrap_or(0.0),
        width: width.parse().ok()?,
        height: height.parse().ok()?,
        range: if value(" fmt:")? == "yuvj420p" { Range::Full } else { Range::Limited },
        matrix: None,
    })
}

/// Reads the line after it, such as `[Parsed_showinfo_1 @ 0x5] color_range:pc color_space:bt709 …`.
fn colours_by(line: &str) -> Option<(Option<Range>, Option<Matrix>)> {
    let colours = line.split_once("] color_range:")?.1;
    // H.264 has a format of its own for it, yuvj420p, which is in the line before; VP9 and AV1 have not.
    let range = colours.starts_with("pc ").then_some(Range::Full);
    let space = colours.split_once("color_space:")?.1.split_whitespace().next()?;
    Some((range, matrix_of(space)))
}

/// The matrix of a space as FFmpeg names it; none of an unknown one, and of one that is not known here.
fn matrix_of(space: &str) -> Option<Matrix> {
    match space {
        "bt709" => Some(Matrix::Bt709),
        "bt470bg" | "smpte170m" => Some(Matrix::Bt601),
        _ => None,
    }
}

/// Writes compressed pictures to a decoder.
pub(super) fn give(to: &mut ChildStdin, bytes: &[u8]) -> bool {
    to.write_all(bytes).and_then(|()| to.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Address;

    #[test]
    fn lines_about_pictures_are_read_in_the_forms_of_several_versions() {
        let old = "[Parsed_showinfo_1 @ 0x5581] n:   7 pts:     70 pts_time:0.07    pos:     1234 fmt:yuv420p sar:1/1 s:1920x1080 i:P iskey:1 type:I";
        let new = "[Parsed_showinfo_1 @ 0x5581] n:  12 pts:    120 pts_time:0.12    duration:      1 duration_time:0.001 fmt:yuvj420p cl:left sar:0/1 s:64x48 i:P iskey:0 type:P";
        let found = announced_by(old).unwrap();
        assert_eq!(
            (found.index, found.width, found.height, found.range),
            (7, 1920, 1080, Range::Limited)
        );
        let found = announced_by(new).unwrap();
        assert_eq!(
            (found.index, found.width, found.height, found.range),
            (12, 64, 48, Range::Full)
        );
        let after_hours = "[Parsed_showinfo_1 @ 0x5581] n:1000001 pts:10000010 pts_time:10000   pos:     1234 fmt:yuv420p sar:1/1 s:64x48 i:P iskey:0 type:P";
        assert_eq!(announced_by(after_hours).map(|it| it.ticks), Some(10_000_010));
        for other in ["", "[h264 @ 0x1] error while decoding MB 3 4", "[x] n: s:1x1", "n: 1 s:axb"]
        {
            assert_eq!(announced_by(other), None, "{other}");
        }
    }

    #[test]
    fn an_address_in_a_list_is_quoted() {
        let found = list_of("http://u:it's@h/x", true);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[..2], ["ffconcat version 1.0", "file 'http://u:it'\\''s@h/x'"]);
        assert_eq!((lines[2], lines.len()), ("option rw_timeout 3000000", 6));
        assert_eq!(list_of("http://h/x", false).lines().count(), 2);
    }

    #[test]
    fn a_device_is_asked_for_what_its_address_says() {
        let arguments = |text: &str| match text.parse::<Address>() {
            Ok(Address::Device(device)) => device_arguments(&device).join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(arguments("/dev/video0"), "-f v4l2 -i /dev/video0");
        assert_eq!(
            arguments("/dev/video0@1280x720@29.97+mjpeg"),
            "-f v4l2 -input_format mjpeg -video_size 1280x720 -framerate 29.97 -i /dev/video0"
        );
    }

    #[test]
    fn the_matrix_is_the_one_that_the_line_after_a_picture_states() {
        let picture = "[Parsed_showinfo_1 @ 0x5581] n:   7 pts:     70 pts_time:0.07 fmt:yuvj420p s:1280x720 i:P";
        for (space, matrix) in [
            ("bt709", Some(Matrix::Bt709)),
            ("smpte170m", Some(Matrix::Bt601)),
            ("bt470bg", Some(Matrix::Bt601)),
            ("unknown", None),
        ] {
            let colours = format!(
                "[Parsed_showinfo_1 @ 0x5581] color_range:pc color_space:{space} color_primaries:bt709 color_trc:bt709"
            );
            let (announce, announced) = channel();
            let lines = [picture.to_owned(), "[h264 @ 0x1] concealing".to_owned(), colours];
            let said: Mutex<Vec<String>> = Mutex::default();
            announce_all(lines.into_iter(), true, &announce, &|line| {
                said.lock().unwrap().push(line);
            });
            let found: Announced = announced.try_recv().unwrap();
            assert_eq!((found.matrix, found.range), (matrix, Range::Full), "{space}");
            assert_eq!(*said.lock().unwrap(), ["[h264 @ 0x1] concealing"]);
        }

        let lines = [
            "  Stream #0:0: Video: png, rgb24(pc), 1280x720, 25 fps, 25 tbr, 25 tbn",
            picture,
            "[Parsed_showinfo_1 @ 0x5581] color_range:tv color_space:unknown color_primaries:unknown",
        ];
        let (announce, announced) = channel();
        announce_all(lines.into_iter().map(str::to_owned), true, &announce, &|_| {});
        assert_eq!(announced.try_recv().unwrap().matrix, Some(Matrix::Bt601));

        // VP9: ffmpeg 5.1.
        let lines = [
            "[Parsed_showinfo_1 @ 0x5581] n:   0 pts:      0 pts_time:0       pos:      534 fmt:yuv420p sar:1/1 s:64x48 i:P iskey:1 type:I ",
            "[Parsed_showinfo_1 @ 0x5581] color_range:pc color_space:unknown color_primaries:unknown color_trc:unknown",
        ];
        let (announce, announced) = channel();
        announce_all(lines.into_iter().map(str::to_owned), true, &announce, &|_| {});
        assert_eq!(announced.try_recv().unwrap().range, Range::Full);
    }

    #[test]
    fn the_stamp_of_a_driver_is_one_of_the_clock_of_all_stamps() {
        let now_ns = 123_456_789_000;
        assert_eq!(stamp_of(123_450_000, now_ns), Some(123_450_000_000));
        // From the beginning of the stream, by the wall clock, and later than now.
        for ticks in [0, 33_333, 1_796_000_000_000_000, 123_456_790, u64::MAX] {
            assert_eq!(stamp_of(ticks, now_ns), None, "{ticks}");
        }
    }

    #[test]
    fn pictures_keep_their_times_and_those_that_never_come_out_are_counted() {
        let inside = TimesInside::default();
        for index in 0..5 {
            inside.put(index, FrameTimes { capture_ns: index, ..FrameTimes::default() });
        }
        assert_eq!(inside.take(0).map(|it| (it.capture_ns, it.dropped_before)), Some((0, 0)));
        assert_eq!(inside.take(3).map(|it| (it.capture_ns, it.dropped_before)), Some((3, 2)));
        assert_eq!(inside.take(2), None);
        assert_eq!(inside.take(4).map(|it| it.capture_ns), Some(4));

        let begun_before = TimesInside::default();
        for index in 0..5 {
            begun_before.put(index, FrameTimes::default());
        }
        let taken = [3, 4].map(|index| begun_before.take(index).map(|it| it.dropped_before));
        assert_eq!(taken, [Some(0), Some(0)]);
    }

    #[test]
    fn pictures_that_are_shown_in_another_order_than_given_keep_their_times() {
        let inside = TimesInside::default();
        // I P B B P B B; the second B is damaged.
        for shown in [0, 120, 40, 80, 240, 160, 200] {
            inside.put(shown, FrameTimes { capture_ns: shown, ..FrameTimes::default() });
        }
        let found = [0, 40, 120, 160, 200, 240].map(|shown| {
            let times = inside.take(shown);
            times.map(|it| (it.capture_ns, it.dropped_before))
        });
        let expected = [(0, 0), (40, 0), (120, 0), (160, 1), (200, 0), (240, 0)];
        assert_eq!(found, expected.map(Some));
    }
}
