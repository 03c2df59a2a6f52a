//! A bench with a loop on each CPU at once: every loop bound to its CPU, loops of a cell at the same
//! time, one verdict on the worst; killed and resumed as any other bench.

use crate::outputs::{json_of, stderr_of};

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat::host::online_cpus;
use onbeat::record::{Cell, EndReason, RunFile, Series};
use onbeat_host::thread::may_run_on;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A shield takes its CPUs from the loops of another test.
static SHIELD: Mutex<()> = Mutex::new(());

fn without_another_shield() -> MutexGuard<'static, ()> {
    SHIELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bench(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.arg("bench").args(more).arg("--out").arg(out.join("runs"));
    command.env("ONBEAT_STATE_DIR", out.join("state")).env("LC_ALL", "C");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The CPUs that a loop of this test may use; `None`, said, where there is but one.
fn several_cpus() -> Option<Vec<u32>> {
    let cpus: Vec<u32> = online_cpus().into_iter().filter(|cpu| may_run_on(*cpu)).collect();
    if cpus.len() < 2 {
        println!("skipped: this process may use one CPU, and a loop on each of several takes two");
        return None;
    }
    Some(cpus)
}

fn directories(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out.join("runs")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()).collect()
}

/// The run files of the loops, by their cells.
fn loops(dir: &Path) -> BTreeMap<Cell, RunFile> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let runs = files.filter(|path| path.to_string_lossy().ends_with(".onbeat.hlog"));
    runs.filter_map(|path| {
        let run = RunFile::read(&path).ok()?;
        Some((run.header.cell.clone()?, run))
    })
    .collect()
}

fn every_slot_is_in_one_place(cell: &Cell, run: &RunFile) {
    let end = run.end.clone().unwrap_or_else(|| panic!("{cell} has no closing line"));
    let planned: u64 = run.blocks.iter().map(|block| block.releases.unwrap()).sum();
    assert_eq!((end.slots, end.reason), (planned, EndReason::Complete), "{cell}");
    assert_eq!(end.slots, end.cycles + end.skipped + end.lost, "{cell}");
    let kept = [Series::WakeupLatency, Series::SkippedLatency]
        .map(|series| run.distribution(series).count());
    assert_eq!(end.slots, kept[0] + kept[1] + end.lost + end.warmup + end.excluded, "{cell}");
}

#[test]
fn every_loop_has_its_cpu_and_those_of_a_cell_run_at_the_same_time() {
    let Some(cpus) = several_cpus() else { return };
    let _alone = without_another_shield();
    let out = tempfile::tempdir().unwrap();
    // Blocks longer than most stalls, also where the preparation has taken some of their time.
    let words = ["--cpus", "all", "--tunings", "none,PC", "--loads", "idle", "--for", "14s"];
    let ran = bench(out.path(), &words).output().unwrap();
    let said = stderr_of(&ran);
    assert!(
        said.contains("Causes are not recorded: the flight recorder follows one loop"),
        "{said}"
    );
    let of_shield = format!("leaves CPU {} to all other programs", cpus[0]);
    assert!(said.contains(&of_shield), "{said}");
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(shown.lines().any(|line| line.starts_with("worst    CPU ")), "{shown}");

    let dir = directories(out.path()).remove(0);
    let note = RunFile::read(&dir.join("bench.onbeat.hlog")).unwrap().bench.unwrap();
    assert_eq!(note.cpus, cpus);
    let refused: Vec<&Cell> = note.not_permitted.iter().map(|of| &of.cell).collect();
    refused.iter().for_each(|cell| println!("not permitted here: {cell}"));

    let loops = loops(&dir);
    assert_eq!(loops.len() + refused.len(), 2 * cpus.len());
    for (cell, run) in &loops {
        every_slot_is_in_one_place(cell, run);
        let timing = run.header.timing.as_ref().unwrap();
        assert_eq!(timing.cpu, cell.cpu, "{cell} is bound in every tuning");
        assert_eq!(
            format!("{}-idle-cpu{}.onbeat.hlog", cell.tuning, cell.cpu.unwrap()),
            cell.file_name()
        );
        // The first loop of its cell has the same blocks. On a busy machine one may begin late; most
        // begin before the other ends.
        let (_, first) = loops.iter().find(|(other, _)| other.tuning == cell.tuning).unwrap();
        assert_eq!(run.blocks.len(), first.blocks.len(), "{cell}");
        let overlap = run.blocks.iter().zip(&first.blocks).filter(|(own, other)| {
            let length_s = own.releases.unwrap() as f64 * timing.period_ns as f64 / 1e9;
            (own.t - other.t).abs() < length_s
        });
        assert!(2 * overlap.count() > run.blocks.len(), "{cell} beside {}", first.path.display());
    }

    // All CPUs are listed: the shield leaves the first one out.
    let left = Cell { cpu: Some(cpus[0]), ..Cell::new("PC", "idle") };
    assert!(refused.contains(&&left) && !dir.join(left.file_name()).exists());
    let why = &note.not_permitted.iter().find(|of| of.cell == left).unwrap().why_not;
    assert!(why.contains(&of_shield), "{why}");

    let mut report = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    let summary = json_of(&report.args(["report", "--json"]).arg(&dir).output().unwrap());
    let cells = summary["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2, "one for a tuning and a load: {summary}");
    for cell in cells.iter().filter(|cell| cell["file"].is_string()) {
        let of: Vec<u64> =
            cell["cpus"].as_array().unwrap().iter().filter_map(|of| of["cpu"].as_u64()).collect();
        assert_eq!(of, cpus.iter().copied().map(u64::from).collect::<Vec<_>>());
        assert!(of.contains(&cell["cpu"].as_u64().unwrap()), "{cell}");
    }
    let worst = format!("worst on CPU {}", summary["verdict"]["best"]["cpu"]);
    assert!(summary["verdict"]["sentence"].as_str().unwrap().contains(&worst), "{summary}");
}

/// Waits until a loop has begun its first block in this process's part of the files.
fn wait_for_first_block(out: &Path, bench: &mut Child) {
    loop {
        let begun = directories(out)
            .iter()
            .any(|dir| loops(dir).values().any(|run| !run.blocks.is_empty()));
        if begun {
            return;
        }
        assert!(bench.try_wait().unwrap().is_none(), "the bench has ended before its first block");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_bench_on_several_cpus_killed_at_drawn_moments_is_whole_in_the_end() {
    let Some(cpus) = several_cpus() else { return };
    let _alone = without_another_shield();
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let options =
        ["--cpus", "all", "--tunings", "none,P", "--loads", "idle,cpu=20%", "--for", "10s"];
    const KILLS: usize = 2;
    for _ in 0..KILLS {
        let mut running = bench(out, &[&options[..], &["--resume"]].concat()).spawn().unwrap();
        wait_for_first_block(out, &mut running);
        thread::sleep(Duration::from_millis(rng.u64(0..1_500)));
        kill_process(Pid::from_child(&running), Signal::KILL).unwrap();
        println!("killed: {}", stderr_of(&running.wait_with_output().unwrap()));
    }

    let ended = bench(out, &["--resume", "--json"]).output().unwrap();
    let said = stderr_of(&ended);
    assert!(said.contains("resuming ") && said.contains("left: "), "{said}");
    assert_eq!(directories(out).len(), 1, "one bench in one directory");
    let dir = directories(out).remove(0);
    let bench = RunFile::read(&dir.join("bench.onbeat.hlog")).unwrap();
    assert_eq!(bench.end.as_ref().unwrap().reason, EndReason::Complete);
    let note = bench.bench.unwrap();
    assert_eq!(note.cpus, cpus);
    let loops = loops(&dir);
    assert_eq!(loops.len() + note.not_permitted.len(), 4 * cpus.len());
    for (cell, run) in &loops {
        every_slot_is_in_one_place(cell, run);
        // A kill between the ends of two loops leaves one of them a block more.
        let blocks = run.blocks.len();
        let planned = note.blocks as usize;
        assert!((planned..=planned + KILLS).contains(&blocks), "{cell}: {blocks} of {planned}");
        let indices: Vec<u32> = run.blocks.iter().map(|block| block.index).collect();
        assert_eq!(indices, (0..blocks as u32).collect::<Vec<_>>(), "{cell}");
    }
    assert_eq!(json_of(&ended)["cells"].as_array().unwrap().len(), 4);
}

#[test]
fn one_cpu_is_a_bench_of_one_loop_and_what_cannot_be_is_refused() {
    let Some(cpus) = several_cpus() else { return };
    let out = tempfile::tempdir().unwrap();
    let last = cpus[cpus.len() - 1].to_string();
    let words = ["--cpus", &last, "--tunings", "none", "--loads", "idle", "--for", "4s", "--json"];
    let ran = bench(out.path(), &words).output().unwrap();
    let summary = json_of(&ran);
    assert_eq!(
        (&summary["cells"][0]["cpu"], &summary["cells"][0]["cpus"]),
        (&Value::Null, &Value::Null)
    );
    assert!(directories(out.path())[0].join("none-idle.onbeat.hlog").exists());

    let out = tempfile::tempdir().unwrap();
    for (words, why) in [
        (&["--cpus", "60000"][..], "this machine has no CPU 60000; it has CPUs"),
        (&["--cpus", "3-1"][..], "is not a list of CPUs"),
        (&["--cpus", "all", "--cpu", "0"][..], "cannot be used with"),
        (&["--cpus", "all", "--with", "bus"][..], "cannot be used with"),
        (&["--cpus", "all", "--command", "./controller"][..], "cannot be used with"),
    ] {
        let refused = bench(out.path(), words).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(stderr_of(&refused).contains(why), "{words:?}: {}", stderr_of(&refused));
    }
    assert!(!out.path().join("runs").exists(), "a refused bench leaves no directory");
}
