//! A running camera: from its source into its ring, again and again.

use std::time::{Duration, Instant};

use onbeat_control::RingError;
use onbeat_control::frames::{
    FrameError, FrameFormat, FrameTimes, FrameWriter, PixelLayout, cameras,
};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use serde::Serialize;

use crate::compressed::{ChannelAccount, PictureChannel};
use crate::convert::{Converter, format_of};
use crate::source::{self, Address, Description, Source, SourceError};

/// Longest wait for a picture between two looks at the end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Silence that is reported, and silence after which the source is opened again.
const SILENT: Duration = Duration::from_secs(1);
const LOST: Duration = Duration::from_secs(3);
/// The same for the first picture of a file: its decoder is a program that is read from the disk first, and ends by itself.
const FILE_LOST: Duration = Duration::from_secs(30);
/// Pause between two attempts to open a source.
const REOPEN_EVERY: Duration = Duration::from_millis(300);
/// Distance of two checks of the ring's file.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Delays that are kept for the account: the worst ones are in it in any case.
const MOST_DELAYS: usize = 1 << 20;

/// What a camera is started with.
#[derive(Clone, Debug)]
pub struct CameraSettings {
    pub name: String,
    pub source: Address,
    /// Layout of its pictures.
    pub layout: PixelLayout,
    /// 1 for gray, 3 for colour.
    pub channels: u32,
    /// Pictures kept.
    pub slots: u64,
    /// Pictures after which it ends; 0 for never.
    pub frames: u64,
    /// Whether pictures are published for logs too, as they came ([`PictureChannel`]).
    pub has_channel: bool,
}

/// Why a camera ended.
#[derive(Debug, thiserror::Error)]
pub enum CameraError {
    /// Its ring.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// Its source, at the start.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Its channel for logs.
    #[error(transparent)]
    Channel(#[from] RingError),
}

/// What a camera reports while it runs.
#[derive(Debug)]
pub enum News<'n> {
    /// The first picture, or one of another size, is published.
    Begun {
        /// What the source is.
        source: &'n Description,
        /// What the pictures look like.
        format: FrameFormat,
        /// Instructions of the conversion.
        instructions: &'static str,
    },
    /// No pictures come, in one sentence.
    Trouble(&'n str),
    /// Pictures come again.
    Recovered {
        /// Time without pictures.
        after: Duration,
    },
}

/// The account of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CameraAccount {
    /// Pictures published.
    pub published: u64,
    /// Pictures known to have been dropped by source, network or decoder, or for their size.
    pub dropped: u64,
    /// How often the source was opened again.
    pub reconnections: u64,
    /// From capture to publication: median, 99 %, maximum, in ns.
    pub delay_ns: [u64; 3],
    /// Pictures of the channel for logs, if there is one.
    pub channel: Option<ChannelAccount>,
}

/// Runs a camera until `is_stopped`, its source's end, or its number of pictures.
///
/// # Errors
/// [`CameraError`]: the name is taken, there is no room, or the source cannot be opened and time alone does
/// not cure it. After the first picture, the source is opened again whatever happens to it.
pub fn run(
    settings: &CameraSettings,
    mut news: impl FnMut(News<'_>),
    is_stopped: impl Fn() -> bool,
) -> Result<CameraAccount, CameraError> {
    check_free(&settings.name)?;
    let mut camera = Running::new(settings);
    while !camera.is_done() && !is_stopped() {
        let opened =
            source::open(&settings.source, settings.channels == 1, camera.channel.as_ref());
        let ended = opened.and_then(|mut source| {
            let ended = camera.follow(&mut *source, &mut news, &is_stopped);
            // Of those that no picture has followed, nobody else knows.
            camera.dropped += source.take_dropped();
            ended
        });
        match ended {
            Ok(Followed::Stopped) => break,
            Ok(Followed::Failed(why)) => return Err(why),
            Err(SourceError::Ended { .. }) if camera.account.published > 0 => break,
            Err(why) => {
                if camera.writer.is_none() && !why.may_pass() {
                    return Err(why.into());
                }
                camera.trouble(&why.to_string(), &mut news);
                camera.count_reconnection();
                pause(REOPEN_EVERY, &is_stopped);
            }
        }
    }
    Ok(camera.account())
}

/// A second camera of a name is refused before its source is opened.
fn check_free(name: &str) -> Result<(), FrameError> {
    let (found, _) = cameras()?;
    match found.into_iter().find(|it| it.name == name && it.is_alive) {
        Some(it) => {
            Err(FrameError::Taken { name: it.name, pid: it.writer.0, process: it.writer.1 })
        }
        None => Ok(()),
    }
}

fn pause(time: Duration, is_stopped: &impl Fn() -> bool) {
    let until = Instant::now() + time;
    while !is_stopped() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

enum Followed {
    Stopped,
    Failed(CameraError),
}

struct Running<'s> {
    settings: &'s CameraSettings,
    converter: Converter,
    writer: Option<FrameWriter>,
    channel: Option<PictureChannel>,
    /// The size that could not be kept, reported once.
    refused: Option<FrameFormat>,
    account: CameraAccount,
    delays_ns: Vec<u64>,
    last_picture: Instant,
    trouble_since: Option<Instant>,
    said: String,
    dropped: u64,
}

impl<'s> Running<'s> {
    fn new(settings: &'s CameraSettings) -> Self {
        Self {
            settings,
            converter: Converter::default(),
            writer: None,
            channel: settings.has_channel.then(|| PictureChannel::new(&settings.name)),
            refused: None,
            account: CameraAccount::default(),
            delays_ns: Vec::new(),
            last_picture: Instant::now(),
            trouble_since: None,
            said: String::new(),
            dropped: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.settings.frames > 0 && self.account.published >= self.settings.frames
    }

    /// Publishes what a source gives until it fails.
    fn follow(
        &mut self,
        source: &mut dyn Source,
        news: &mut impl FnMut(News<'_>),
        is_stopped: &impl Fn() -> bool,
    ) -> Result<Followed, SourceError> {
        let opened = Instant::now();
        let description = source.description();
        let mut is_new = true;
        let mut checked = Instant::now();
        let mut period = Duration::ZERO;
        loop {
            if self.is_done() || is_stopped() {
                return Ok(Followed::Stopped);
            }
            let captured = source.next(LOOK_EVERY)?;
            let Some(captured) = captured else {
                let silent = self.last_picture.max(opened).elapsed();
                // A decoder of a file is a process that begins; what ails it is said once, when it ends.
                let begins = self.account.published == 0 && self.is_file();
                let (reported, lost) = if begins { (FILE_LOST, FILE_LOST) } else { (SILENT, LOST) };
                // A source of a picture every ten seconds is not silent after one.
                let lost = lost.max(period * 3);
                // A recording can have pauses; opened again, it would begin again.
                let can_be_lost = begins || !self.is_file();
                if silent >= reported.max(period * 3) {
                    let why = SourceError::Silent {
                        place: description.address.clone(),
                        seconds: silent.as_secs_f64(),
                        seen: source.seen(),
                    };
                    if silent >= lost && can_be_lost {
                        return Err(why);
                    }
                    self.trouble(&why.to_string(), news);
                }
                continue;
            };

            period = period.max(self.last_picture.elapsed().min(Duration::from_secs(60)));
            let CameraSettings { layout, channels, .. } = *self.settings;
            let format = format_of(captured.picture.size(), channels, layout);
            let begins = self.writer.as_ref().is_none_or(|it| it.format() != format);
            if let Err(why) = self.begin(format, &description) {
                return Ok(Followed::Failed(why.into()));
            }
            if self.refused == Some(format) {
                self.dropped += 1;
                let why = FrameError::BadFormat { format, slots: self.settings.slots };
                self.trouble(&why.to_string(), news);
                continue;
            }
            let captured_ns = captured.times.capture_ns;
            self.publish(&captured.picture, captured.times);
            let logged = self.channel.as_ref().map(|it| it.decoded(&captured.picture, captured_ns));
            if let Some(Err(why)) = logged {
                return Ok(Followed::Failed(why.into()));
            }
            self.recover(news);
            if begins || is_new {
                let instructions = self.converter.set().name();
                news(News::Begun { source: &description, format, instructions });
                is_new = false;
            }
            if checked.elapsed() >= CHECK_EVERY {
                checked = Instant::now();
                if let Some(Err(why)) = self.writer.as_ref().map(FrameWriter::check) {
                    return Ok(Followed::Failed(why.into()));
                }
            }
        }
    }

    fn is_file(&self) -> bool {
        matches!(self.settings.source, Address::File(_))
    }

    /// Makes the ring, or another one for another size. An error ends the camera; a size that cannot be kept
    /// does so only if it is the first one.
    fn begin(&mut self, format: FrameFormat, of: &Description) -> Result<(), FrameError> {
        let Some(writer) = &mut self.writer else {
            let text =
                serde_json::json!({ "source": of.address, "decoder": of.decoder }).to_string();
            let CameraSettings { name, slots, .. } = self.settings;
            self.writer = Some(FrameWriter::create(name, format, *slots, &text)?);
            return Ok(());
        };
        self.refused = None;
        if writer.format() != format && writer.change_format(format).is_err() {
            self.refused = Some(format);
        }
        Ok(())
    }

    fn publish(&mut self, picture: &crate::convert::Picture<'_>, mut times: FrameTimes) {
        let Some(writer) = &mut self.writer else { return };
        let format = writer.format();
        self.converter.convert(picture, format, writer.pixels());
        times.dropped_before += std::mem::take(&mut self.dropped);
        let (_, published_ns) = writer.publish(&times);
        self.account.published += 1;
        self.account.dropped += times.dropped_before;
        let delay = published_ns.saturating_sub(times.capture_ns);
        self.account.delay_ns[2] = self.account.delay_ns[2].max(delay);
        if self.delays_ns.len() < MOST_DELAYS {
            self.delays_ns.push(delay);
        }
        self.last_picture = Instant::now();
    }

    fn recover(&mut self, news: &mut impl FnMut(News<'_>)) {
        if let Some(since) = self.trouble_since.take() {
            self.said.clear();
            if let Some(writer) = &mut self.writer {
                writer.set_status("");
            }
            news(News::Recovered { after: since.elapsed() });
        }
    }

    /// Reports a trouble, once as long as its words are the same but for numbers.
    fn trouble(&mut self, sentence: &str, news: &mut impl FnMut(News<'_>)) {
        self.trouble_since.get_or_insert_with(Instant::now);
        if let Some(writer) = &mut self.writer {
            writer.set_status(sentence);
        }
        let words: String = sentence.chars().filter(|it| !it.is_ascii_digit()).collect();
        if words != self.said {
            news(News::Trouble(sentence));
            self.said = words;
        }
    }

    fn count_reconnection(&mut self) {
        self.account.reconnections += 1;
        if let Some(writer) = &mut self.writer {
            writer.count_reconnection();
        }
    }

    fn account(mut self) -> CameraAccount {
        self.account.dropped += self.dropped;
        self.account.channel = self.channel.as_ref().map(PictureChannel::account);
        let [p50, p99, _] = quantiles(&mut self.delays_ns);
        (self.account.delay_ns[0], self.account.delay_ns[1]) = (p50, p99);
        self.account
    }
}

/// Returns median, 99 % and maximum, of what it sorts; 0 of nothing.
#[must_use]
pub fn quantiles(of: &mut [u64]) -> [u64; 3] {
    of.sort_unstable();
    let last = of.len().saturating_sub(1);
    [0.5, 0.99, 1.0].map(|part| of.get((last as f64 * part).round() as usize).copied().unwrap_or(0))
}

/// Returns the time of `CLOCK_MONOTONIC`, in ns: that of all stamps.
#[must_use]
pub fn now_ns() -> u64 {
    Monotonic.now().as_ns()
}
