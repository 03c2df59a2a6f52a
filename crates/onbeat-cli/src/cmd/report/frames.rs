//! Pictures of a log in the page of a robot's run.
//!
//! Two programs in a row, so that decoders of strangers' pictures stay out of this one: `onbeat-gateway` reads the log,
//! `onbeat-camera` makes small pictures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use onbeat_report::frames::{LoggedFrames, RobotClock, RunFrames, placed};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cmd::Failure;
use crate::cmd::failure::gateway::{GatewayFailure, PROGRAM};
use crate::cmd::gateway::installed;
use crate::cmd::runs::ReportedRun;
use crate::term::{Tone, advise};

const CAMERA_PROGRAM: &str = "onbeat-camera";
/// Longer side of a small picture, and its bytes at most.
const SIDE: usize = 256;
const BYTES: usize = 24_000;
/// Memory for one record of the log and messages out of order, each.
const MOST_MEMORY: u64 = 256 << 20;
/// Damaged places that are named.
const MOST_NAMED: usize = 3;

/// Why a page has no pictures of a log.
#[derive(Debug, thiserror::Error)]
enum FramesFailure {
    #[error(
        "{dir} has {robots} recordings with a robot; --camera adds pictures to the one of an `onbeat robot run`"
    )]
    NotOneRobot { dir: PathBuf, robots: usize },
    #[error(
        "{log} has no pictures of the time of the run; its channels are: {channels}; pictures are sensor_msgs/Image, \
         sensor_msgs/CompressedImage or foxglove_msgs/CompressedVideo in CDR"
    )]
    NoPictures { log: PathBuf, channels: String },
    #[error("no pictures of {log}: {why}")]
    NoAnswer { log: PathBuf, why: String },
}

/// What `onbeat-camera thumbnails` prints.
#[derive(Debug, Deserialize)]
struct Answer {
    channels: Vec<LoggedFrames>,
    more_channels: u64,
    account: GatewayAccount,
}

#[derive(Debug, Default, Deserialize)]
struct GatewayAccount {
    #[serde(default)]
    channels: Vec<String>,
    #[serde(default)]
    cycles: BTreeMap<String, Vec<(u64, u64)>>,
    #[serde(default)]
    cut: String,
    #[serde(default)]
    damage: Vec<String>,
}

/// Adds the pictures that a log has of the time of the run.
pub(super) fn add(kept: &mut ReportedRun, log: &Path, pictures: u16) -> Result<(), Failure> {
    let [(place, run)] = kept.robots() else {
        let robots = kept.robots().len();
        return Err(FramesFailure::NotOneRobot { dir: kept.dir.clone(), robots }.into());
    };
    let place = *place;
    let answer = pictures_of(log, run, pictures)?;
    let mut frames = Vec::new();
    for channel in answer.channels {
        frames.push(placed(run, channel, &answer.account.cycles));
    }
    frames.retain(|of| !of.numbers.is_empty());
    if frames.is_empty() {
        let channels = answer.account.channels.join(", ");
        return Err(FramesFailure::NoPictures { log: log.to_owned(), channels }.into());
    }

    frames.iter().for_each(say_doubts);
    if answer.more_channels > 0 {
        let more = answer.more_channels;
        advise(Tone::Careful, &format!("pictures of further cameras are left out: {more}"));
    }
    let GatewayAccount { cut, damage, .. } = answer.account;
    if !cut.is_empty() {
        advise(Tone::Careful, &format!("{}: {cut}", log.display()));
    }
    for why in damage.iter().take(MOST_NAMED) {
        advise(Tone::Careful, &format!("{}: {why}", log.display()));
    }
    kept.add_note(place, "frames", &serde_json::to_value(&frames)?);
    Ok(())
}

/// Says what is not in the page, or not exact.
fn say_doubts(of: &RunFrames) {
    let RunFrames { channel, clock, more, undecoded, .. } = of;
    if *clock == "wall_clock" {
        let what = "the log has no cycles of this run, so that its pictures are placed by the wall clock; `--log FILE \
                    --beside NAME/cycle` of the camera records both";
        advise(Tone::Careful, &format!("{channel}: {what}"));
    }
    for (why, count) in undecoded {
        advise(Tone::Careful, &format!("{channel}: {count} pictures are not shown: {why}"));
    }
    if *more > 0 {
        advise(Tone::Careful, &format!("{channel}: {more} further pictures are not in the page"));
    }
}

/// The pictures of a log around the time of a run.
fn pictures_of(log: &Path, run: &RobotClock, pictures: u16) -> Result<Answer, Failure> {
    let (from_ns, to_ns) = run.time_ns();
    let order = json!({
        "log": log,
        "from_ns": from_ns,
        "to_ns": to_ns,
        "most_pictures": pictures,
        "cycles": run.joining_cycles(),
        "most_memory": MOST_MEMORY,
    });
    let gateway = installed(PROGRAM)?;
    let camera = installed(CAMERA_PROGRAM)?;
    let mut reader = Running::start(
        &gateway,
        Command::new(&gateway).args(["pictures", &order.to_string()]).stdin(Stdio::null()),
    )?;
    let Some(stream) = reader.0.stdout.take() else {
        return Err(GatewayFailure::Refused(format!("{PROGRAM} has no output")).into());
    };
    let apart_ns = (to_ns - from_ns) / u64::from(pictures.max(1));
    let limits = [
        ("--pictures", u64::from(pictures)),
        ("--side", SIDE as u64),
        ("--bytes", BYTES as u64),
        ("--apart-ns", apart_ns),
    ];
    let mut command = Command::new(&camera);
    command.arg("thumbnails").stdin(stream);
    for (option, value) in limits {
        command.args([option, &value.to_string()]);
    }
    let made = command.output();
    drop(reader);
    let output = made.map_err(|source| GatewayFailure::Start { program: camera, source })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.trim().trim_start_matches("error: ").to_owned();
        let why = if why.is_empty() { output.status.to_string() } else { why };
        return Err(FramesFailure::NoAnswer { log: log.to_owned(), why }.into());
    }
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    Ok(serde_json::from_value(answer)?)
}

/// A program that is ended with this one's interest in it.
struct Running(Child);

impl Running {
    fn start(program: &Path, command: &mut Command) -> Result<Self, Failure> {
        let started = command.stdout(Stdio::piped()).spawn();
        let program: PathBuf = program.to_owned();
        Ok(Self(started.map_err(|source| GatewayFailure::Start { program, source })?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
