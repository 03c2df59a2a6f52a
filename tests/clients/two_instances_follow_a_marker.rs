//! Two instances of Octave: one tracks a marker in the pictures of a camera, the other one turns a robot's head after it
//! (`examples/follow_marker.sh`).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;

use std::path::PathBuf;
use std::process::Command;

use equipment::{camera_program, done, octave, root, trial};
use libtest_mimic::Trial;
use onbeat_control::frames::cameras;
use onbeat_ethercat::description::Description;

pub(crate) fn trials() -> Vec<Trial> {
    let test =
        trial("two_instances_follow_a_marker::the_head_follows_the_marker", equipped, |camera| {
            follows(&camera);
        });
    vec![test]
}

/// Octave, and the program of cameras beside this one.
fn equipped() -> Result<PathBuf, String> {
    octave()?;
    Ok(camera_program())
}

/// The number before `words` in a text.
fn number_before(text: &str, words: &str) -> f64 {
    let before = text.split(words).next().unwrap();
    let number = before.rsplit([' ', '\n']).next().unwrap();
    number.parse().unwrap_or_else(|why| panic!("{words}: {why}: {text}"))
}

fn follows(program: &std::path::Path) {
    assert!(program.is_file());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("humanoid.toml");
    // No late cycle of a loaded machine stops it; the loss of its commander does. Without a soft start,
    // in which a target is only a growing part of what the marker asks, however late the commander comes.
    let text = Description::HUMANOID
        .replacen("[segment]\n", "[segment]\nwatchdog_ms = 6000\n", 1)
        .replacen("[robot]\n", "[robot]\nfollowing_ms = 60000\nsoft_start_ms = 0\n", 1);
    let ladder =
        "[robot.ladder]\ndegrade_at = 1000000\nstop_at = 1000000\n[robot.goal]\nlost_ms = 4000\n";
    std::fs::write(&file, format!("{text}\n{ladder}")).unwrap();

    let name = format!("follow-{}", std::process::id());
    let log = folder.path().join("follow.mcap");
    let mut script = Command::new(root().join("examples/follow_marker.sh"));
    script.arg("8").arg(&log).env("NAME", &name).env("ROBOT", &file);
    script.env("ROBOT_OPTIONS", "--period 8ms --priority 0");
    script.env("CLASSES", root().join("target/clients-java"));
    script.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    let said = String::from_utf8(done(&mut script).stdout).unwrap();

    // The marker is in every picture, and each record of it was a command, but for those that a newer one overtook.
    assert!(number_before(&said, " pictures with a marker") > 40.0, "{said}");
    assert!(number_before(&said, " without") == 0.0, "{said}");
    assert!(number_before(&said, " commands") > 20.0, "{said}");

    let summary = joined(&log, &name);
    assert!(summary[0] > 20.0 && summary[1] > 100.0, "{summary:?}: {said}");
    // The head does what the marker did, in the same order, up to its last seconds: at a turn, the marker
    // is within the tolerance for a second, of which the first instant counts.
    assert!(summary[2] > 0.2, "the marker moved by {} of the width", summary[2]);
    assert!(summary[3] > 0.6, "the head left the marker's path: {summary:?}: {said}");
    assert!(summary[4] > 0.1, "the head turned by {} rad: {said}", summary[4]);
    let (running, _) = cameras().unwrap();
    assert!(
        running.iter().all(|camera| camera.name != name),
        "the camera has ended with the script"
    );
}

/// Numbers of markers and cycles in a log, how far the marker moved, the part of the marker's path that
/// the head was asked to go, and how far the head turned.
///
/// A stall delays pictures, commands and cycles by any time, so that no delay joins the two curves. But the
/// target of a head that turns to the newest marker which it has been told is always somewhere on the path
/// that the marker has gone, and never goes back on it. (The head itself swings beyond a target that a stall
/// made jump.)
///
/// ```text
/// marker   0 -- 1 -- 2 -- 3 -- 4 -- 3 -- 2      published so far
/// target   0    1    1    1    2    3    3      3: of the way up, until it turns to 2
/// ```
fn joined(log: &std::path::Path, name: &str) -> Vec<f64> {
    let mut command = octave().unwrap();
    let program = format!(
        "javaaddpath ('{}'); addpath ('{}'); log = onbeat.load ('{}'); names = fieldnames (log); \
         of = @(topic) log.(names{{~cellfun (@isempty, regexp (names, [topic '$']))}}); \
         m = of ('_marker'); c = of ('_cycle'); [part, turned] = deal (0); \
         steps = 1:0.1:numel (m.at); known = m.published_s(ceil (steps)); \
         path = interp1 (1:numel (m.at), -1.2 * m.x, steps); \
         for k = 1:columns (c.target_rad), i = 0; a = c.target_rad(:, k); \
           for n = 1:numel (a), from = max (i, 1); \
             on = find (abs (path(from:end)(:) - a(n)) < 0.03 & known(from:end)(:) <= c.at(n), 1); \
             if ! isempty (on), i = from + on - 1; elseif i > 0, i = 0; break; end; end; \
           if i / numel (path) > part, part = i / numel (path); \
             turned = max (c.actual_rad(:, k)) - min (c.actual_rad(:, k)); end; end; \
         printf ('%.6f ', numel (m.at), numel (c.at), max (m.x) - min (m.x), part, turned);",
        root().join("target/clients-java").display(),
        root().join("octave").display(),
        log.display(),
    );
    let said = String::from_utf8(done(command.args(["--eval", &program])).stdout).unwrap();
    let numbers: Vec<f64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 5, "{name}: {said}");
    numbers
}
