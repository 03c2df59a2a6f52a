//! A robot's run and the log of its camera share one page: every picture at its time on the clock of the loop.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use equipment::{Robot, camera_program, done, trial};
use flate2::read::GzDecoder;
use libtest_mimic::Trial;
use onbeat_control::frames::cameras;
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = vec![trial(
        "pictures_in_a_page::pictures_stand_on_the_clock_of_the_loop",
        equipped,
        |()| on_one_clock(),
    )];
    tests
}

/// The programs beside this one that read logs and decode pictures.
fn equipped() -> Result<(), String> {
    camera_program();
    let gateway = Path::new(env!("CARGO_BIN_EXE_onbeat")).with_file_name("onbeat-gateway");
    if !gateway.is_file() {
        return Err("onbeat-gateway is not built beside onbeat; `make test` builds it".to_owned());
    }
    Ok(())
}

fn onbeat(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A camera that ends with the test.
struct Camera(Child);

impl Camera {
    fn start(name: &str, words: &[&str]) -> Self {
        let mut command = Command::new(camera_program());
        command.args(["run", "test:320x240@15", "--name", name, "--json"]).args(words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = std::time::Instant::now();
        while !cameras().unwrap().0.iter().any(|camera| camera.name == name) {
            assert!(began.elapsed().as_secs() < 60, "the camera {name} does not begin");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self(child)
    }

    /// Ends it, so that its log is complete.
    fn end(mut self) {
        done(Command::new("kill").args(["-TERM", &self.0.id().to_string()]));
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The notes `frames` of a page.
fn frames_in(page: &Path) -> Vec<Value> {
    let html = std::fs::read_to_string(page).unwrap();
    let tag = html.split_once("type=\"application/x-onbeat; gzip; base64\">").unwrap().1;
    let packed = STANDARD.decode(tag.split_once('<').unwrap().0).unwrap();
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let notes = text.lines().filter_map(|line| {
        let note = line.strip_prefix("#[onbeat: ")?.strip_suffix(']')?;
        let note: Value = serde_json::from_str(note).unwrap();
        note.get("frames").cloned()
    });
    notes.collect()
}

fn numbers(of: &Value) -> Vec<i64> {
    of.as_array().unwrap().iter().map(|it| it.as_i64().unwrap()).collect()
}

fn on_one_clock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robot.toml");
    std::fs::write(&file, include_str!("two_joints.toml")).unwrap();
    let options = ["--trajectory", "hold", "--for", "8s", "--period", "4ms"];
    let mut robot = Robot::new(file.to_str().unwrap(), &options);
    robot.wait_until_published();

    // Both cameras see the same time; the log of one has the robot's cycles beside its pictures.
    let (with, without) = (folder.path().join("with.mcap"), folder.path().join("without.mcap"));
    let [left, right] = ["left", "right"].map(|side| format!("{side}-{}", std::process::id()));
    let channel = robot.channel();
    let beside = ["--log", with.to_str().unwrap(), "--beside", &channel];
    let first = Camera::start(&left, &beside);
    let second = Camera::start(&right, &["--log", without.to_str().unwrap()]);
    let run = robot.folder.path().join("latest");
    let mut said = String::new();
    robot.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    robot.child.wait().unwrap();
    first.end();
    second.end();

    let page = folder.path().join("page.html");
    let report = |log: &Path, pictures: &str| {
        let words = ["--camera", log.to_str().unwrap(), "--pictures", pictures, "--html"];
        let mut command = onbeat(&["report", run.to_str().unwrap()]);
        let output = command.args(words).arg(&page).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // 1 is the verdict of a loop that came late.
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{said}");
        let mut found = frames_in(&page);
        assert_eq!(found.len(), 1, "{said}");
        let all = found.remove(0).as_array().unwrap().clone();
        assert_eq!(all.len(), 1, "one camera");
        (all[0].clone(), said)
    };

    let (by_cycles, said) = report(&with, "8");
    assert_eq!(by_cycles["clock"], "cycles", "{said}");
    assert!(!said.contains("wall clock"), "{said}");
    let shown = numbers(&by_cycles["numbers"]);
    let times = numbers(&by_cycles["t_us"]);
    assert!(shown.len() > 30, "{} pictures in the time of the run: {said}", shown.len());
    assert!(shown.windows(2).all(|two| two[1] == two[0] + 1), "no picture is left out: {shown:?}");
    assert!(times.windows(2).all(|two| two[1] > two[0]), "{times:?}");
    let pictures = by_cycles["pictures"].as_array().unwrap();
    assert!((2..=8).contains(&pictures.len()), "{} pictures are kept", pictures.len());
    for picture in pictures {
        let jpeg = STANDARD.decode(picture["jpeg"].as_str().unwrap()).unwrap();
        assert!(jpeg.starts_with(&[0xff, 0xd8]) && jpeg.len() < 24_000);
        assert_eq!(
            (&picture["of"], &picture["size"][0]),
            (&serde_json::json!([320, 240]), &256.into())
        );
    }

    let (by_wall_clock, said) = report(&without, "0");
    assert_eq!(by_wall_clock["clock"], "wall_clock");
    assert!(said.contains("placed by the wall clock"), "{said}");
    assert!(by_wall_clock["pictures"].as_array().unwrap().is_empty());
    // Both began before the robot ended; the one that began first has the earlier first picture, by either clock.
    let second_times = numbers(&by_wall_clock["t_us"]);
    assert!(times[0] < second_times[0], "{} {}", times[0], second_times[0]);
    assert!(second_times[0] < *times.last().unwrap(), "the same stretch of time");

    let mut refused = onbeat(&["report", run.to_str().unwrap(), "--camera", "nothing.mcap"]);
    let output = refused.arg("--html").arg(&page).output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("nothing.mcap") && why.trim().lines().count() == 1, "{why}");
}
