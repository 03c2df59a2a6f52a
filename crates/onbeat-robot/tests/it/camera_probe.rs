//! The camera probe beside a ring whose writer is in this process: every picture that was due is counted once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::probe::description::Parts;
use onbeat::probe::{
    self, BlockPlan, Description, Destination, Given, Interruptions, Origin, Run, Setting,
    SettingValue,
};
use onbeat::record::RunFile;
use onbeat_control::frames::{FrameFormat, FrameTimes, FrameWriter, PixelLayout};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

const PERIOD_NS: u64 = 5_000_000;
/// Five seconds: a machine that stops the loop for one of them skips its releases.
const RELEASES: u64 = 1_000;
/// For a run that the end of its camera ends.
const RELEASES_OF_A_MINUTE: u64 = 12_000;
/// Pictures that are dropped before every tenth one.
const DROPPED: u64 = 3;
const FORMAT: FrameFormat =
    FrameFormat { width: 16, height: 8, channels: 1, layout: PixelLayout::ColumnPlanes };

fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn probe_of_cameras() -> &'static Description {
    onbeat_robot::probe::ALL.into_iter().find(|probe| probe.name == "camera").unwrap()
}

fn given(name: &str) -> Given {
    Given(vec![("name", SettingValue::Name(name.to_owned()))])
}

/// Opens the probe on a camera that runs.
fn opened(name: &str) -> (Setting, Parts) {
    let mut setting = Setting::new(PERIOD_NS);
    let parts = (probe_of_cameras().open)(&mut setting, &given(name)).expect("opened");
    (setting, parts)
}

fn measure((setting, mut parts): (Setting, Parts), path: &Path, releases: u64) {
    let origin = Origin::now();
    let header = probe::header(
        &["test".to_owned()],
        probe_of_cameras().name,
        probe_of_cameras().series,
        origin.unix_s,
    );
    let mut run = Run::open(Destination { path, header, origin: origin.at }, setting).expect("run");
    let block = BlockPlan { index: 0, load: "idle", releases };
    run.single_block(&block, &mut parts, &Interruptions::default(), &mut |_| {}).expect("ran");
    run.close().expect("closed");
}

/// The number before the first of these words.
fn number_before(words: &str, what: &str) -> u64 {
    let (before, _) = words.split_once(what).unwrap_or_else(|| panic!("{what:?}"));
    let digits = before.rsplit(|letter: char| !letter.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// Publishes a picture every 10 ms until `stop`; every tenth one states that some were dropped before it.
fn publish(writer: &mut FrameWriter, stop: &AtomicBool, published: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let number = published.fetch_add(1, Ordering::Relaxed) + 1;
        writer.pixels().fill(number as u8);
        let dropped_before = if number.is_multiple_of(10) { DROPPED } else { 0 };
        let capture_ns = Monotonic.now().as_ns();
        writer.publish(&FrameTimes { capture_ns, dropped_before, ..FrameTimes::default() });
        thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a thread also where an assertion fails beside it: a scope waits for its threads.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_picture_that_was_due_is_in_the_series_and_the_parts_are_of_those_that_came() {
    let name = name("due");
    let mut writer = FrameWriter::create(&name, FORMAT, 64, r#"{"source":"test"}"#).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("camera.onbeat.hlog");
    let (stop, published) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|threads| {
        let _ends = Ends(&stop);
        threads.spawn(|| publish(&mut writer, &stop, &published));
        measure(opened(&name), &path, RELEASES);
    });

    let file = RunFile::read(&path).unwrap();
    let counts = probe_of_cameras().series.iter().map(|series| file.distribution(*series).count());
    let [due, of_camera, read] = counts.collect::<Vec<_>>()[..] else { panic!("three series") };
    assert_eq!(of_camera, read);
    assert!(read > 10 && read <= published.into_inner(), "{read} pictures");
    let words = std::fs::read_to_string(&path).unwrap();
    let (_, account) = words.split_once(" pictures were due: ").expect("the account");
    assert_eq!(number_before(&words, " pictures were due: "), due);
    assert_eq!(number_before(account, " read, "), read);
    // Where the loop has no CPU for longer than the ring lasts, pictures are overwritten; where the
    // camera has none for a second, it is silent.
    let dropped = number_before(account, " dropped before publication");
    let overwritten = number_before(account, " overwritten before");
    let silent = number_before(account, " missing while the camera was silent");
    assert_eq!(due, read + dropped + overwritten + silent);
    // Of ten pictures that follow each other, one states three dropped ones; it may be overwritten.
    let tenths = (read + overwritten) / 10;
    let least = DROPPED * tenths.saturating_sub(overwritten);
    assert!(dropped >= least && dropped <= DROPPED * (tenths + 1), "{due} {read} {overwritten}");
    assert_eq!(dropped % DROPPED, 0);
    assert!(words.contains("16 x 8 gray from test"));
    assert_eq!(file.account().slots, RELEASES);
}

#[test]
fn a_camera_that_ends_ends_the_run_with_its_reason() {
    let name = name("ends");
    let mut writer = FrameWriter::create(&name, FORMAT, 4, "{}").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("camera.onbeat.hlog");
    // Before its camera can end.
    let probe = opened(&name);
    thread::scope(|threads| {
        threads.spawn(move || {
            for _ in 0..20 {
                let capture_ns = Monotonic.now().as_ns();
                writer.publish(&FrameTimes { capture_ns, ..FrameTimes::default() });
                thread::sleep(Duration::from_millis(10));
            }
            drop(writer);
        });
        measure(probe, &path, RELEASES_OF_A_MINUTE);
    });
    let words = std::fs::read_to_string(&path).unwrap();
    assert!(words.contains("the run ended early: camera"), "{words}");
}

#[test]
fn a_camera_that_does_not_run_is_refused_by_name() {
    let why =
        (probe_of_cameras().open)(&mut Setting::new(PERIOD_NS), &given("nobody")).err().unwrap();
    assert!(why.to_string().contains("camera nobody is not running"), "{why}");
}
