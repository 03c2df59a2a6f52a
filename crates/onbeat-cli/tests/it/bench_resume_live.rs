//! A bench that is killed at drawn moments, or ended by Ctrl-C, and resumed: the same schedule,
//! every block once, every slot in one place.

use crate::outputs::stderr_of;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat::bench::schedule::{CellOrder, Pace, plan};
use onbeat::record::{Cell, EndReason, RunFile, Series};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TUNINGS: [&str; 2] = ["none", "PMC"];
const LOADS: [&str; 2] = ["idle", "cpu=20%"];
const KILLS: u32 = 3;

/// A shield takes its CPU from a loop of another test that is bound to it.
static SHIELD: Mutex<()> = Mutex::new(());

fn without_another_shield() -> MutexGuard<'static, ()> {
    SHIELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ONBEAT_KILLS` is the number of kills of each command.
fn kills() -> u32 {
    std::env::var("ONBEAT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// Time that is not measured to its end before the last kill.
fn seconds() -> u64 {
    u64::from(kills() * 4).max(12)
}

fn bench(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["bench", "--json", "--no-causes", "--out"]).arg(out.join("runs")).args(more);
    command.env("ONBEAT_STATE_DIR", out.join("state")).env("LC_ALL", "C");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn directories(out: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(out.join("runs")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()).collect()
}

/// Waits until a cell has begun its first block; a bench that ends before that fails the test with
/// its words.
fn wait_for_first_block(out: &Path, bench: &mut Child) {
    let has_block =
        |file: &Path| fs::read_to_string(file).is_ok_and(|text| text.contains("{\"block\""));
    loop {
        let files = directories(out)
            .into_iter()
            .flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
        if files.map(|entry| entry.path()).any(|file| has_block(&file)) {
            return;
        }
        assert!(bench.try_wait().unwrap().is_none(), "the bench has ended before its first block");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The blocks of all cells in the order in which they ran.
fn blocks_in_order(cells: &[(Cell, RunFile)]) -> Vec<Cell> {
    let blocks = cells
        .iter()
        .flat_map(|(cell, run)| run.blocks.iter().map(move |block| (block.t, cell.clone())));
    let mut blocks: Vec<(f64, Cell)> = blocks.collect();
    blocks.sort_by(|a, b| a.0.total_cmp(&b.0));
    blocks.into_iter().map(|(_, cell)| cell).collect()
}

/// The blocks that the seed plans, without the cells that are not permitted here.
fn planned(runs: impl Fn(&Cell) -> bool) -> Vec<Cell> {
    let (pace, time) = (Pace::new(&[false, true]), Duration::from_secs(seconds()));
    let whole = plan(2, &pace, time, CellOrder::Interleaved, 7).unwrap();
    let cell = |load: usize, tuning: usize| Cell::new(TUNINGS[tuning], LOADS[load]);
    let blocks =
        whole.turns.iter().flat_map(|turn| turn.blocks.iter().map(move |at| cell(turn.load, *at)));
    blocks.filter(runs).collect()
}

fn every_slot_is_in_one_place(run: &RunFile) {
    let path = run.path.display();
    let end = run.end.clone().unwrap_or_else(|| panic!("{path} has no closing line"));
    assert_eq!(
        end.slots,
        run.blocks.iter().map(|block| block.releases.unwrap()).sum::<u64>(),
        "{path}"
    );

    assert_eq!(end.slots, end.cycles + end.skipped + end.lost, "{path}");
    let kept = [Series::WakeupLatency, Series::SkippedLatency]
        .map(|series| run.distribution(series).count());

    assert_eq!(end.slots, kept[0] + kept[1] + end.lost + end.warmup + end.excluded, "{path}");
    let indices: Vec<u32> = run.blocks.iter().map(|block| block.index).collect();
    assert_eq!(indices, (0..run.blocks.len() as u32).collect::<Vec<_>>(), "{path}");
    assert!(
        run.entries.is_sorted_by_key(|entry| entry.t)
            && run.blocks.is_sorted_by_key(|block| block.t),
        "{path}"
    );
}

#[test]
fn a_bench_killed_at_drawn_moments_has_every_block_once_in_the_end() {
    let _alone = without_another_shield();
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let time = format!("{}s", seconds());
    let loads = LOADS.join(",");
    let tunings = TUNINGS.join(",");
    let options =
        ["--for", &time, "--tunings", &tunings, "--loads", &loads, "--seed", "7", "--resume"];

    for moment in 0..=kills() {
        let mut running = bench(out, &options).spawn().unwrap();
        wait_for_first_block(out, &mut running);
        // From the preparation of a resumed bench to the middle of a later block.
        thread::sleep(Duration::from_millis(rng.u64(0..2_200)));
        // The last time it is asked to end, and ends in good order.
        let signal = if moment == kills() { Signal::INT } else { Signal::KILL };
        kill_process(Pid::from_child(&running), signal).unwrap();
        let ended = running.wait_with_output().unwrap();
        println!("{signal:?}: {}", stderr_of(&ended));
    }

    let ended = bench(out, &["--resume"]).output().unwrap();
    let said = stderr_of(&ended);
    assert!(said.contains("resuming ") && said.contains("left: "), "{said}");
    let summary: Value =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    assert_eq!(directories(out).len(), 1, "one bench in one directory");
    the_bench_is_whole(&directories(out)[0], &summary);
}

fn the_bench_is_whole(dir: &Path, summary: &Value) {
    let bench = RunFile::read(&dir.join("bench.onbeat.hlog")).unwrap();
    assert_eq!(bench.end.as_ref().unwrap().reason, EndReason::Complete);
    // A process that was killed while it prepared its cells has noted nothing.
    assert!((1..=kills() as usize + 1).contains(&bench.resumes.len()), "{:?}", bench.resumes);
    let refused = &bench.bench.as_ref().unwrap().not_permitted;
    for cell in refused {
        println!("not permitted here: {}/{}: {}", cell.cell.tuning, cell.cell.load, cell.why_not);
    }

    let is_permitted = |cell: &Cell| refused.iter().all(|refused| refused.cell != *cell);
    let planned = planned(is_permitted);
    let mut names = planned.clone();
    names.sort();
    names.dedup();
    let cells: Vec<(Cell, RunFile)> = names
        .into_iter()
        .map(|cell| (cell.clone(), RunFile::read(&dir.join(cell.file_name())).unwrap()))
        .collect();

    cells.iter().for_each(|(_, run)| every_slot_is_in_one_place(run));
    assert_eq!(
        blocks_in_order(&cells),
        planned,
        "the schedule of the seed, as if nothing had happened"
    );
    let notes = summary["cells"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|cell| cell["notes"].as_array().unwrap());
    assert!(
        notes
            .filter_map(Value::as_str)
            .any(|note| note.contains("was resumed at") && note.contains("not measured")),
        "{summary}"
    );
}

#[test]
fn another_option_is_refused_by_name_and_changes_nothing() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let options = ["--for", "1h", "--tunings", "none,S", "--loads", "idle"];
    let mut running = bench(out, &options).spawn().unwrap();
    wait_for_first_block(out, &mut running);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    running.wait_with_output().unwrap();
    let dir = directories(out).remove(0);
    let contents = || fs::read(dir.join("none-idle.onbeat.hlog")).unwrap();
    let before = contents();

    for (more, option) in [(["--for", "2h"], "--for 2h"), (["--period", "2ms"], "--period 2ms")] {
        let refused = bench(out, &["--resume"]).args(more).output().unwrap();
        let said = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("cannot be resumed with {option}; leave out {}", more[0])),
            "{said}"
        );
        assert_eq!(contents(), before);
    }
}

#[test]
fn a_bench_is_resumed_by_its_plan_and_without_one_refused_in_one_sentence() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let options = ["--for", "1h", "--tunings", "none", "--loads", "idle"];
    let mut running = bench(out, &options).spawn().unwrap();
    wait_for_first_block(out, &mut running);
    kill_process(Pid::from_child(&running), Signal::KILL).unwrap();
    running.wait_with_output().unwrap();
    let dir = directories(out).remove(0);
    let plan = dir.join("plan.json");
    let whole = fs::read_to_string(&plan).unwrap();
    let cell = || fs::read(dir.join("none-idle.onbeat.hlog")).unwrap();
    let before = cell();

    let refused = |why: &str| {
        let ended = bench(out, &["--resume"]).output().unwrap();
        let said = stderr_of(&ended);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && said.contains("without --resume"), "{said}");
        assert_eq!(said.matches("cannot be resumed").count(), 1, "{said}");
        assert_eq!(cell(), before);
    };
    fs::write(&plan, &whole[..whole.len() / 2]).unwrap();
    refused("its plan.json is not a plan of this version of onbeat (EOF");
    // As it is where the plan was lost, and as a version left it that kept none.
    fs::remove_file(&plan).unwrap();
    refused("no plan.json beside its run files");

    // A plan of another kind is passed over.
    fs::write(&plan, whole.replace("\"kind\": \"bench\"", "\"kind\": \"tune measure\"")).unwrap();
    let ended = bench(out, &["--resume", "--for", "5s", "--tunings", "none", "--loads", "idle"])
        .output()
        .unwrap();
    let said = stderr_of(&ended);
    assert!(said.contains("no unfinished bench in"), "{said}");
    assert_eq!((directories(out).len(), cell()), (2, before));
}

#[test]
fn a_measurement_of_a_tuning_killed_at_drawn_moments_has_all_its_pairs_in_the_end() {
    let _alone = without_another_shield();
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let measure = |spin: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(["tune", "measure", "proc.spin", "--load", "idle", "--json", "--for"]);
        command.arg(format!("{}s", seconds()));
        command.args(["--resume", "--spin", spin, "--out"]).arg(out.join("runs"));
        command.env("ONBEAT_STATE_DIR", out.join("state")).env("LC_ALL", "C");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for _ in 0..kills() {
        let mut running = measure("50us").spawn().unwrap();
        wait_for_first_block(out, &mut running);
        thread::sleep(Duration::from_millis(rng.u64(0..2_200)));
        kill_process(Pid::from_child(&running), Signal::KILL).unwrap();
        running.wait_with_output().unwrap();
    }
    let ended = measure("50us").output().unwrap();
    let said = stderr_of(&ended);
    let printed: Value =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let dirs = directories(out);
    assert_eq!(dirs.len(), 1, "one measurement in one directory: {said}");
    let blocks = RunFile::read(&dirs[0].join("bench.onbeat.hlog")).unwrap().bench.unwrap().blocks;
    let worth = printed.get("worth").unwrap_or(&printed);
    assert_eq!(worth["pairs"].as_u64(), Some(u64::from(blocks)), "{printed}");

    // Complete: the next one begins anew.
    let mut next = measure("50us").spawn().unwrap();
    while directories(out).len() == 1 {
        assert!(next.try_wait().unwrap().is_none(), "a second measurement begins");
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&next), Signal::INT).unwrap();
    next.wait_with_output().unwrap();
}
