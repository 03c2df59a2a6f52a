//! RTSP: H.264 and H.265, decoded by the machine's ffmpeg; MJPEG, decoded here.
//!
//! The client is `retina`: an access unit is complete with the packet that is marked as its last one, where
//! ffmpeg's own client waits for the first packet of the next. Packets come over the connection of RTSP
//! itself (interleaved TCP).

use std::collections::VecDeque;
use std::io;
use std::process::{ChildStdin, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use onbeat_control::frames::{FrameTimes, TimeSource};
use retina::client::{Credentials, PlayOptions, Session, SessionOptions, SetupOptions, Transport};
use retina::codec::{CodecItem, ParametersRef, VideoFrame};
use url::Url;

use super::address::{credentials, without_password};
use super::clock_fit::ClockFit;
use super::error::SourceError;
use super::ffmpeg::{Decoder, Input, TimesInside, ffmpeg_version, give};
use super::jpeg::Jpegs;
use super::mailbox::{Mailbox, locked};
use super::{
    Captured, Description, MOST_COMPRESSED, MOST_SILENCE, Source, matroska, now_ns, ns_of,
};
use crate::compressed::{Coding, PictureChannel, parameter_sets};

/// Longest time for an answer until a session plays, and between two looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest step between the stamps of two pictures, in ms: a clock was set.
const MOST_STEP_MS: u64 = 10_000;
/// Time at which the first picture is shown, in ms: others can be shown before it.
const FIRST_MS: u64 = 2 * MOST_STEP_MS;
/// Stamps begin again after 2 to this power of ticks: six years at the rate of video.
const MOST_TICKS: u32 = 44;
/// Pictures that may wait for the decoder; beyond, it goes on with the next key frame.
const MOST_WAITING: usize = 8;

/// What the receiving thread found in the description of the session.
struct Found {
    encoding: String,
    private: Vec<u8>,
    size: (u32, u32),
}

/// A compressed picture.
struct Unit {
    bytes: Vec<u8>,
    is_key: bool,
    times: FrameTimes,
}

/// Opens a session.
pub(super) fn open(
    url: &Url,
    is_gray: bool,
    log: Option<PictureChannel>,
) -> Result<Box<dyn Source>, SourceError> {
    let place = without_password(url);
    // Known by the time that the session has begun.
    thread::spawn(ffmpeg_version);
    let units: Units = Units::default();
    let begun: Mailbox<Found, SourceError> = Mailbox::new();
    let (url, of, to, first) = (url.clone(), place.clone(), units.clone(), begun.clone());
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let ended = match runtime {
            Ok(runtime) => runtime.block_on(receive(url, &of, &to, (&first, log))),
            Err(source) => Err(SourceError::Unreachable { place: of.clone(), source }),
        };
        let over =
            || SourceError::Disconnected { place: of.clone(), why: "the session is over".into() };
        let why = ended.err().unwrap_or_else(over);
        // What follows is told as the end of the connection anyway.
        to.end(match &why {
            SourceError::Disconnected { why, .. } => why.clone(),
            other => other.to_string(),
        });
        first.end(why);
    });
    let found = match begun.take(2 * PATIENCE) {
        Ok(Some((found, _))) => found,
        Ok(None) => {
            units.leave();
            let (seconds, seen) = (6.0, "the session did not begin".to_owned());
            return Err(SourceError::Silent { place, seconds, seen });
        }
        Err(why) => return Err(why),
    };
    match found.encoding.as_str() {
        "jpeg" => Ok(Box::new(RtspJpeg { units, jpegs: Jpegs::new(is_gray), place, dropped: 0 })),
        _ => Ok(Box::new(RtspVideo::begin(&found, units, place)?)),
    }
}

/// Compressed pictures between the receiver and the decoder.
#[derive(Clone, Default)]
struct Units(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Default)]
struct Waiting {
    units: VecDeque<Unit>,
    dropped: u64,
    received: u64,
    awaits_key: bool,
    is_left: bool,
    end: Option<String>,
}

impl Units {
    fn state(&self) -> std::sync::MutexGuard<'_, Waiting> {
        locked(&self.0.0)
    }

    /// Puts a picture behind the others. When too many wait, they are dropped up to the next key frame.
    fn put(&self, mut unit: Unit) {
        let mut state = self.state();
        state.received += 1;
        if state.units.len() >= MOST_WAITING {
            state.dropped +=
                state.units.drain(..).map(|it| 1 + it.times.dropped_before).sum::<u64>();
            state.awaits_key = true;
        }
        if state.awaits_key && !unit.is_key {
            state.dropped += 1 + unit.times.dropped_before;
            return;
        }
        state.awaits_key = false;
        unit.times.dropped_before += std::mem::take(&mut state.dropped);
        state.units.push_back(unit);
        self.0.1.notify_one();
    }

    fn take(&self, patience: Duration) -> Result<Option<Unit>, String> {
        let state = self.state();
        let waits = |it: &mut Waiting| it.units.is_empty() && it.end.is_none() && !it.is_left;
        let waited = self.0.1.wait_timeout_while(state, patience, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match (state.units.pop_front(), &state.end) {
            (Some(unit), _) => Ok(Some(unit)),
            (None, Some(why)) => Err(why.clone()),
            (None, None) => Ok(None),
        }
    }

    fn end(&self, why: String) {
        self.state().end = Some(why);
        self.0.1.notify_all();
    }

    fn leave(&self) {
        self.state().is_left = true;
        self.0.1.notify_all();
    }

    fn is_left(&self) -> bool {
        self.state().is_left
    }

    fn seen(&self) -> String {
        match self.state().received {
            0 => "no RTP packet of a picture was received".to_owned(),
            pictures => {
                format!("{pictures} compressed pictures were received, none was decoded lately")
            }
        }
    }
}

async fn receive(
    url: Url,
    place: &str,
    units: &Units,
    (begun, log): (&Mailbox<Found, SourceError>, Option<PictureChannel>),
) -> Result<(), SourceError> {
    let place_of = || place.to_owned();
    let failed = |why: retina::Error| match why.status_code() {
        Some(401 | 403) => SourceError::Password { place: place_of() },
        // Of an answer that is one, but has no description of a stream.
        Some(200..300) => {
            SourceError::NoStream { place: place_of(), why: first_line(&why.to_string()) }
        }
        Some(status) => SourceError::NoStream {
            place: place_of(),
            why: format!("its answer has status {status}"),
        },
        None => disconnected(place, &why.to_string()),
    };
    let late = |_| SourceError::Silent {
        place: place_of(),
        seconds: PATIENCE.as_secs_f64(),
        seen: "no answer was received".to_owned(),
    };
    let creds = credentials(&url).map(|(username, password)| Credentials { username, password });
    let mut plain = url;
    let _ = plain.set_username("");
    let _ = plain.set_password(None);

    let options = SessionOptions::default().creds(creds).user_agent("onbeat".to_owned());
    let described = tokio::time::timeout(PATIENCE, Session::describe(plain, options));
    let mut session = described.await.map_err(late)?.map_err(failed)?;
    let index = video_of(session.streams(), place)?;
    let encoding = session.streams()[index].encoding_name().to_owned();
    let setup = SetupOptions::default().transport(Transport::Tcp(Default::default()));
    let set_up = tokio::time::timeout(PATIENCE, session.setup(index, setup));
    set_up.await.map_err(late)?.map_err(failed)?;
    let playing = tokio::time::timeout(PATIENCE, session.play(PlayOptions::default()));
    let mut session = playing.await.map_err(late)?.map_err(failed)?.demuxed().map_err(failed)?;

    let mut found = None;
    if encoding == "jpeg" {
        found = Some(((0, 0), Vec::new()));
        let (size, private) = ((0, 0), Vec::new());
        begun.put(Found { encoding: encoding.clone(), private, size });
    }
    let mut fit = ClockFit::default();
    while !units.is_left() {
        let mut silent = Duration::ZERO;
        let item = loop {
            match tokio::time::timeout(PATIENCE, session.next()).await {
                Ok(item) => break item,
                Err(why) if units.is_left() || silent >= MOST_SILENCE => return Err(late(why)),
                Err(_) => silent += PATIENCE,
            }
        };
        let frame = match item {
            None => return Ok(()),
            Some(Err(why)) => return Err(failed(why)),
            Some(Ok(CodecItem::VideoFrame(frame))) => frame,
            Some(Ok(_)) => continue,
        };
        let parameters = match session.streams()[index].parameters() {
            Some(ParametersRef::Video(it)) => {
                Some((it.pixel_dimensions(), it.extra_data().to_vec()))
            }
            _ => None,
        };
        match (&found, parameters) {
            (None, Some((size, private))) => {
                found = Some((size, private.clone()));
                begun.put(Found { encoding: encoding.clone(), private, size });
            }
            (Some(before), Some(now)) if encoding != "jpeg" && *before != now => {
                let why = "it sends another size or other parameters".to_owned();
                return Err(SourceError::Disconnected { place: place_of(), why });
            }
            _ => {}
        }
        let unit = unit_of(frame, &mut fit, place)?;
        if let (Some(log), Some((_, private))) = (&log, &found) {
            let coding = coding_of(&encoding, private, unit.is_key);
            log.put(&coding, unit.times.capture_ns, &unit.bytes);
        }
        units.put(unit);
    }
    Ok(())
}

/// How a picture of this encoding is coded; `private` is its decoder configuration record.
fn coding_of(encoding: &str, private: &[u8], is_key: bool) -> Coding {
    let format = match encoding {
        "jpeg" => return Coding::Jpeg,
        "h264" => "h264",
        _ => "h265",
    };
    let parameters = if is_key { parameter_sets(format, private) } else { Vec::new() };
    Coding::Video { format, parameters, is_key }
}

/// Returns the place of the first stream that can be read.
fn video_of(streams: &[retina::client::Stream], place: &str) -> Result<usize, SourceError> {
    let known = ["h264", "h265", "jpeg"];
    let found =
        streams.iter().position(|it| it.media() == "video" && known.contains(&it.encoding_name()));
    found.ok_or_else(|| {
        let words = |it: &retina::client::Stream| format!("{} {}", it.media(), it.encoding_name());
        let all: Vec<String> = streams.iter().map(words).collect();
        let why = format!("it offers {}; H.264, H.265 and JPEG are read", all.join(", "));
        SourceError::NoStream { place: place.to_owned(), why }
    })
}

fn unit_of(frame: VideoFrame, fit: &mut ClockFit, place: &str) -> Result<Unit, SourceError> {
    let (given, most) = (frame.data().len() as u64, MOST_COMPRESSED as u64);
    if given > most {
        let place = place.to_owned();
        return Err(SourceError::TooLong { place, what: "a picture", given, most });
    }
    let stamp = frame.timestamp();
    let source_ns = source_ns(stamp.timestamp(), stamp.clock_rate().get());
    let began_ns = ns_of(frame.start_ctx().received());
    let times = FrameTimes {
        capture_ns: fit.at(source_ns, began_ns),
        received_ns: ns_of(frame.end_ctx().received()),
        source_ns,
        time_source: TimeSource::Fitted,
        // At least one picture is damaged or missing where packets are.
        dropped_before: u64::from(frame.loss() > 0),
        ..FrameTimes::default()
    };
    let is_key = frame.is_random_access_point();
    Ok(Unit { bytes: frame.into_data(), is_key, times })
}

/// A stamp in ns. One of a clock that was set back can be below 0, and is far ahead then.
fn source_ns(ticks: i64, per_second: u32) -> u64 {
    let ticks = ticks.rem_euclid(1 << MOST_TICKS);
    (ticks as f64 / f64::from(per_second) * 1e9) as u64
}

/// A sentence of retina without its context, which is in further lines.
fn first_line(why: &str) -> String {
    why.lines().next().unwrap_or_default().trim().to_owned()
}

fn disconnected(place: &str, why: &str) -> SourceError {
    let why = first_line(why);
    let place = place.to_owned();
    match why.strip_prefix("Unable to connect to RTSP server: ") {
        Some(reason) => SourceError::Unreachable { place, source: io::Error::other(reason) },
        None => SourceError::Disconnected { place, why },
    }
}

/// H.264 or H.265.
struct RtspVideo {
    units: Units,
    decoder: Decoder,
    place: String,
}

impl RtspVideo {
    fn begin(found: &Found, units: Units, place: String) -> Result<Self, SourceError> {
        // A decoder of H.264 begins by itself where it can, also in a stream without further key frames (intra refresh, open
        // groups); one of H.265 shows what it cannot decode.
        let (codec, name, awaits_key) = match found.encoding.as_str() {
            "h264" => ("V_MPEG4/ISO/AVC", "H.264", false),
            _ => ("V_MPEGH/ISO/HEVC", "H.265", true),
        };
        let inside = TimesInside::default();
        let arguments = ["-f", "matroska", "-i", "pipe:0"].map(str::to_owned).to_vec();
        let input = Input::of(arguments, Stdio::piped(), &place, name);
        let started = Decoder::start(Input { inside: Some(inside.clone()), ..input });
        let mut decoder = started.inspect_err(|_| units.leave())?;
        if let Some(mut stdin) = decoder.take_stdin() {
            let from = units.clone();
            let head = matroska::head(codec, &found.private, found.size);
            thread::spawn(move || {
                if give(&mut stdin, &head) {
                    feed(&from, &mut stdin, &inside, awaits_key);
                }
            });
        }
        Ok(Self { units, decoder, place })
    }
}

/// Gives each picture the time at which it is shown, in ms, by its stamp: the order of these times is not that in
/// which pictures come where some are predicted from later ones (B pictures).
#[derive(Debug, Default)]
struct ShownTimes {
    /// The last stamp in ms, and the time given for it.
    last: Option<(u64, u64)>,
}

impl ShownTimes {
    fn of(&mut self, source_ns: u64) -> u64 {
        let stamp_ms = source_ns / 1_000_000;
        let shown_ms = match self.last {
            None => FIRST_MS,
            // The clocks of some cameras stand still.
            Some((before_ms, shown_ms)) if stamp_ms == before_ms => shown_ms + 1,
            Some((before_ms, shown_ms)) if stamp_ms.abs_diff(before_ms) <= MOST_STEP_MS => {
                (shown_ms + stamp_ms).saturating_sub(before_ms)
            }
            Some((_, shown_ms)) => shown_ms + MOST_STEP_MS,
        };
        self.last = Some((stamp_ms, shown_ms));
        shown_ms
    }
}

fn feed(from: &Units, to: &mut ChildStdin, inside: &TimesInside, awaits_key: bool) {
    let mut shown_times = ShownTimes::default();
    let mut has_begun = !awaits_key;
    while !from.is_left() {
        match from.take(Duration::from_millis(200)) {
            Err(_) => return,
            Ok(None) => {}
            Ok(Some(unit)) => {
                has_begun |= unit.is_key;
                if !has_begun {
                    continue;
                }
                let shown_ms = shown_times.of(unit.times.source_ns);
                inside.put(shown_ms, unit.times);
                if !give(to, &matroska::picture(shown_ms, unit.is_key, &unit.bytes)) {
                    return;
                }
            }
        }
    }
}

impl Drop for RtspVideo {
    fn drop(&mut self) {
        self.units.leave();
    }
}

impl Source for RtspVideo {
    fn next(&mut self, patience: Duration) -> Result<Option<Captured<'_>>, SourceError> {
        let end = self.units.state().end.clone();
        if let Some(why) = end {
            return Err(SourceError::Disconnected { place: self.place.clone(), why });
        }
        self.decoder.next(patience)
    }

    fn description(&self) -> Description {
        self.decoder.description()
    }

    fn seen(&self) -> String {
        self.units.seen()
    }
}

/// MJPEG.
struct RtspJpeg {
    units: Units,
    jpegs: Jpegs,
    place: String,
    dropped: u64,
}

impl Drop for RtspJpeg {
    fn drop(&mut self) {
        self.units.leave();
    }
}

impl Source for RtspJpeg {
    fn next(&mut self, patience: Duration) -> Result<Option<Captured<'_>>, SourceError> {
        let lost = |why| SourceError::Disconnected { place: self.place.clone(), why };
        let Some(unit) = self.units.take(patience).map_err(lost)? else { return Ok(None) };
        self.dropped += unit.times.dropped_before;
        if self.jpegs.decode(&unit.bytes).is_err() {
            self.dropped += 1;
            return Ok(None);
        }
        let dropped_before = std::mem::take(&mut self.dropped);
        let times = FrameTimes { decoded_ns: now_ns(), dropped_before, ..unit.times };
        Ok(Some(Captured { picture: self.jpegs.picture(), times }))
    }

    fn description(&self) -> Description {
        let decoder = "MJPEG, decoded in this process by zune-jpeg".to_owned();
        Description { address: self.place.clone(), decoder }
    }

    fn seen(&self) -> String {
        self.units.seen()
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_below_zero_go_on() {
        assert_eq!(source_ns(90_000, 90_000), 1_000_000_000);
        let step_ns = source_ns(-1_000, 90_000) - source_ns(-4_600, 90_000);
        assert!((39_999_900..=40_000_100).contains(&step_ns), "{step_ns}");
    }

    #[test]
    fn a_camera_that_is_not_there_has_not_ended_a_connection() {
        let said =
            "Unable to connect to RTSP server: Connection refused (os error 111)\n\nconn: ...";
        let found = disconnected("rtsp://h/x", said).to_string();
        assert_eq!(found, "cannot connect to rtsp://h/x: Connection refused (os error 111)");
        let found = disconnected("rtsp://h/x", "EOF while reading\n").to_string();
        assert_eq!(found, "rtsp://h/x has ended the connection: EOF while reading");
    }

    #[test]
    fn pictures_are_shown_by_their_stamps_also_of_clocks_that_stand_still_or_are_set() {
        let mut times = ShownTimes::default();
        let stamps_ms = [50_000, 50_120, 50_040, 50_080, 50_080, 50_120, 900, 940];
        let shown_ms = stamps_ms.map(|it| times.of(it * 1_000_000));
        let expected = [20_000, 20_120, 20_040, 20_080, 20_081, 20_121, 30_121, 30_161];
        assert_eq!(shown_ms, expected);
    }
}
