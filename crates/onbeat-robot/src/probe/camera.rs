//! From the capture of a picture to the program that reads it, for every picture that was due.
//!
//! A loop looks at the ring of a running camera at each release, as a program that has other work does,
//! and takes every picture in order. Its own lateness, with the causes, is the run's release latency; what
//! a picture waited is counted apart ([`FrameCount`]): a picture that was dropped by source, network or
//! decoder, or overwritten before it was read, waited until the next one came, so that no percentile
//! leaves it out.
//!
//! ```text
//! capture       received   decoded   published          read
//!    |------------ camera's program ------|----- ring -----|
//!    |-------- capture_to_published ------|published_to_user|
//!    |------------------- capture_to_user ------------------|
//! ```
//!
//! Absent on purpose: the camera, which is a program of its own; the exposure and the camera's own
//! encoding, which no stamp covers.

mod count;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onbeat::probe::description::{
    Body, Companion, Defaults, Description, OptionKind, Parts, ProbeError, ProbeOption,
};
use onbeat::probe::{Given, Setting};
use onbeat::record::{Figures, Recorder, Series};
use onbeat_control::frames::{FrameError, FrameReader, Want};
use onbeat_net::hand_over::{HandOverReceiver, HandOverSender, hand_over};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Outcome, Plan, Producer, Sample, Task};

pub use count::{Counted, FrameAccount, FrameCount, SeenPicture};

/// Pictures that may wait for the recorder, which looks every 20 ms.
const ROOM: usize = 4096;
/// How long the end of a block waits for the recorder to take the last pictures.
const LAST_PICTURES_NS: u64 = 1_000_000_000;
const PAUSE_NS: u64 = 1_000_000;
/// Distance of two looks at the camera's process.
const CHECK_EVERY: Duration = Duration::from_millis(100);

const NAME: ProbeOption = ProbeOption {
    name: "name",
    help: "Name of the running camera",
    default: Some("camera"),
    kind: OptionKind::Name,
};
const COPY: ProbeOption = ProbeOption {
    name: "copy",
    help: "Copy each picture, as a reader without views does\n\
           The copy is part of the latency; it must fit into --period.",
    default: None,
    kind: OptionKind::Switch,
};

/// The description of the probe.
pub const CAMERA: Description = Description {
    name: "camera",
    sentence: "From the capture of a picture to the program that reads it, with every dropped picture",
    examples: "  onbeat camera run rtsp://10.0.0.5/stream --name left
      in another terminal
  onbeat measure camera --name left --for 1m
      a program that looks for pictures every millisecond
  sudo onbeat measure camera --name left --limit 50ms --at 99.9 --load paper",
    series: &[Series::CaptureToUser, Series::CaptureToPublished, Series::PublishedToUser],
    defaults: Defaults::LOOP,
    choices: &[NAME, COPY],
    line_a_second: false,
    open: |setting, given| open(setting, given).map_err(|why| ProbeError::Own(Box::new(why))),
};

fn open(_: &mut Setting, given: &Given) -> Result<Parts, FrameError> {
    let name = given.name(NAME.name).unwrap_or("camera");
    let reader = FrameReader::open(name)?;
    // Without a writer, no picture would be due.
    reader.check_alive()?;
    let watched = FrameReader::open(name)?;
    let (sender, receiver) = hand_over(ROOM);
    let unrecorded = Arc::new(AtomicU64::new(0));
    let begun = Arc::new(AtomicU64::new(0));
    let task = PictureTask {
        reader,
        copies: given.is_set(COPY.name),
        sender,
        unrecorded: Arc::clone(&unrecorded),
        begun: Arc::clone(&begun),
        is_first: true,
    };
    let companion = PictureCompanion {
        name: name.to_owned(),
        dropped: Dropped::default(),
        watched,
        pictures: receiver,
        count: FrameCount::default(),
        unrecorded,
        begun,
        checked: Instant::now(),
        ended: None,
    };
    Ok(Parts {
        body: Box::new(PictureBody(task)),
        figures: Box::new(PictureFigures),
        companion: Box::new(companion),
    })
}

/// Takes the pictures that are there at each release.
struct PictureTask {
    reader: FrameReader,
    copies: bool,
    sender: HandOverSender<SeenPicture>,
    /// Pictures for which there was no room.
    unrecorded: Arc<AtomicU64>,
    /// Capture time of the last picture before this block: those after it are due.
    begun: Arc<AtomicU64>,
    is_first: bool,
}

impl Task for PictureTask {
    fn cycle(&mut self, _: &Cycle) -> Flow {
        if std::mem::take(&mut self.is_first) {
            let before = self.reader.skip_to_newest();
            let at_ns = before.map_or_else(|| Monotonic.now().as_ns(), |times| times.capture_ns);
            self.begun.store(at_ns, Ordering::Release);
        }
        loop {
            let seen = if self.copies {
                self.reader.take(Want::Each).map(|it| (it.passed_over, it.times))
            } else {
                self.reader.see(Want::Each).map(|it| (it.passed_over, it.times))
            };
            let Some((passed_over, times)) = seen else { break };
            let picture = SeenPicture {
                capture_ns: times.capture_ns,
                published_ns: times.published_ns,
                seen_ns: Monotonic.now().as_ns(),
                dropped_before: times.dropped_before,
                passed_over,
            };
            if self.sender.put(picture).is_err() {
                self.unrecorded.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.sender.flush();
        Flow::Continue
    }
}

/// The loop around the task: after its last cycle it waits for the recorder.
struct PictureBody(PictureTask);

impl Body for PictureBody {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        self.0.is_first = true;
        let outcome = onbeat_rt::cycle::run(&Monotonic, plan, &mut self.0, hot, stop);
        let ended = Monotonic.now();
        while !self.0.sender.flush() && Monotonic.now().ns_since(ended) < LAST_PICTURES_NS {
            let _ = Monotonic.sleep_for(PAUSE_NS);
        }
        // A recorder that waits for its disk for so long does not take them any more.
        let left = self.0.sender.give_up().count() as u64;
        self.0.unrecorded.fetch_add(left, Ordering::Relaxed);
        outcome
    }
}

/// The series of the pictures; the companion counts them.
#[derive(Clone, Copy, Debug)]
struct PictureFigures;

impl Figures for PictureFigures {
    fn series(&self) -> &'static [Series] {
        CAMERA.series
    }

    fn of(&mut self, _: &Sample, _: Option<&Sample>, _: &mut dyn FnMut(Series, u64)) {}
}

/// What a camera is, in a sentence.
fn source_words(name: &str, reader: &FrameReader) -> String {
    let described: serde_json::Value =
        serde_json::from_str(&reader.description()).unwrap_or_default();
    let text = |field: &str| described[field].as_str().unwrap_or("unknown").to_owned();
    let format = reader.format();
    let kind = if format.channels == 1 { "gray" } else { "colour" };
    let (width, height) = (format.width, format.height);
    format!("camera {name}: {width} x {height} {kind} from {}; {}", text("source"), text("decoder"))
}

/// The camera's own counter of dropped pictures, within blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    begun: u64,
    sum: u64,
}

/// Counts what the loop has seen, and watches the camera's process.
struct PictureCompanion {
    name: String,
    /// The same camera, for its words and its process.
    watched: FrameReader,
    dropped: Dropped,
    pictures: HandOverReceiver<SeenPicture>,
    count: FrameCount,
    unrecorded: Arc<AtomicU64>,
    begun: Arc<AtomicU64>,
    checked: Instant,
    /// Why the camera gave no further pictures.
    ended: Option<FrameError>,
}

impl PictureCompanion {
    fn record(&mut self, recorder: &mut Recorder) {
        let Self { pictures, begun, count, dropped, watched, .. } = self;
        // In this order: the loop says that a block begins before it passes on the first picture.
        let pictures = pictures.take();
        let begun = begun.swap(0, Ordering::Acquire);
        if begun > 0 {
            count.begin(begun);
            dropped.begun = watched.dropped();
        }
        for picture in pictures {
            count.picture(*picture, |counted| count_one(recorder, counted));
        }
    }
}

fn count_one(recorder: &mut Recorder, counted: Counted) {
    match counted {
        Counted::Seen { waited_ns, published_ns, read_ns } => {
            recorder.count(Series::CaptureToUser, waited_ns);
            recorder.count(Series::CaptureToPublished, published_ns);
            recorder.count(Series::PublishedToUser, read_ns);
        }
        Counted::Missing { waited_ns } => recorder.count(Series::CaptureToUser, waited_ns),
    }
}

impl Companion for PictureCompanion {
    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        self.record(recorder);
        if self.checked.elapsed() < CHECK_EVERY {
            return Flow::Continue;
        }
        self.checked = Instant::now();
        match self.watched.check_alive() {
            Ok(()) => Flow::Continue,
            // What it had published is counted; nothing more is due.
            Err(why) => {
                self.ended.get_or_insert(why);
                Flow::Stop
            }
        }
    }

    fn after_block(&mut self, recorder: &mut Recorder) {
        self.record(recorder);
        self.dropped.sum += self.watched.dropped().saturating_sub(self.dropped.begun);
        self.dropped.begun = self.watched.dropped();
        if self.ended.is_none() {
            let now_ns = Monotonic.now().as_ns();
            self.count.end(now_ns, |counted| count_one(recorder, counted));
        }
        // A file that cannot be written ends the run by itself.
        let _ = recorder.write_out();
    }

    fn end(&mut self) -> Vec<String> {
        let mut remarks =
            vec![source_words(&self.name, &self.watched), self.count.account().words()];
        let dropped = self.dropped.sum;
        if dropped > self.count.account().dropped {
            remarks.push(format!(
                "by the camera's own counter {dropped} pictures were dropped; those before an overwritten picture are not in the series"
            ));
        }
        let unrecorded = self.unrecorded.load(Ordering::Relaxed);
        if unrecorded > 0 {
            remarks.push(format!(
                "{unrecorded} pictures are in no series: the queue to the recorder was full"
            ));
        }
        if let Some(why) = &self.ended {
            remarks.push(format!("the run ended early: {why}"));
        }
        if !self.watched.status().is_empty() {
            remarks.push(format!("camera {}: {}", self.name, self.watched.status()));
        }
        remarks
    }
}
