//! `onbeat tune apply`, killed, interrupted and undone from another process. The settings are
//! files of the test; `apply` asks for root all the same.
//!
//! A named pipe among the settings stops an apply between two steps: reading the old value blocks
//! until the test writes it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use onbeat::host::online_cpus;
use onbeat_tune::change::Kind;
use onbeat_tune::plan::{PLAN_SCHEMA, Plan, PlanStep, StepTarget};
use onbeat_tune::{HostFiles, LiveHost};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const OLD: &str = "60";
const NEW: &str = "10";

/// A plan of two steps, the second of which blocks.
struct Bench {
    dir: TempDir,
}

impl Bench {
    /// `None` where this machine or user cannot apply a plan; the reason is printed.
    fn prepared() -> Option<Self> {
        if !LiveHost::new().is_root() {
            println!("skipped: only root can apply a plan");
            return None;
        }
        if online_cpus().len() < 2 {
            println!("skipped: this machine has one CPU, and a loop needs one of its own");
            return None;
        }

        let bench = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(bench.setting(), OLD).unwrap();
        mknodat(CWD, bench.pipe(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        bench.write_plan("one.toml", &[bench.setting()]);
        bench.write_plan("two.toml", &[bench.setting(), bench.pipe()]);
        Some(bench)
    }

    fn setting(&self) -> PathBuf {
        self.dir.path().join("setting")
    }

    fn pipe(&self) -> PathBuf {
        self.dir.path().join("pipe")
    }

    fn write_plan(&self, name: &str, files: &[PathBuf]) {
        // Changes of one tuning are recorded together; the pipe is to be read after the first was
        // made.
        let id = |file: &PathBuf| {
            if *file == self.pipe() { "mem.min_free" } else { "mem.swappiness" }.to_owned()
        };

        let step = |file: &PathBuf| PlanStep {
            id: id(file),
            target: StepTarget::File { path: file.display().to_string(), compare: Kind::Text },
            old: OLD.to_owned(),
            new: NEW.to_owned(),
            shell: format!("echo {NEW} > {}", file.display()),
            takes: "now".to_owned(),
            risk: "none: a file of the test".to_owned(),
        };

        let plan = Plan {
            schema: PLAN_SCHEMA.to_owned(),
            profile: None,
            cpus: online_cpus().iter().max().unwrap().to_string(),
            cpus_because: "named by the test".to_owned(),
            task: None,
            task_start_ticks: None,
            steps: files.iter().map(step).collect(),
            left_out: Vec::new(),
        };

        fs::write(self.dir.path().join(name), plan.to_text()).unwrap();
    }

    fn onbeat(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(words.split(' ')).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("ONBEAT_STATE_DIR", self.dir.path().join("state")).env("LC_ALL", "C");
        command
    }

    /// Status, standard output and standard error.
    fn run(&self, words: &str) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.onbeat(words).output().unwrap();
        // Where lines are folded does not matter here.
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        (status.code().unwrap(), text(&stdout), text(&stderr))
    }

    fn value(&self) -> String {
        fs::read_to_string(self.setting()).unwrap().trim().to_owned()
    }

    /// Starts an apply, and returns when it reads the second setting: its first step is done.
    fn started_up_to_its_second_step(&self) -> (Child, File) {
        let mut command = self.onbeat("tune apply ./two.toml --yes --ignore-owners");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        loop {
            // Refused while nobody reads.
            if let Ok(pipe) = options.open(self.pipe()) {
                return (child, pipe);
            }
            if child.try_wait().unwrap().is_some() {
                let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                panic!("ended before its second step: {}{}", text(&stdout), text(&stderr));
            }
            std::thread::yield_now();
        }
    }
}

/// The process that undoes what a run has changed when the run is killed.
fn guard_of(run: u32) -> Pid {
    let wanted = format!("guard\0{run}\0");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&words).contains(&wanted).then(|| Pid::from_raw(pid))?
    });
    found.into_iter().next().unwrap_or_else(|| panic!("{run} changes the host without a guard"))
}

#[test]
fn an_apply_that_was_killed_between_two_steps_is_undone_by_another_process_live() {
    let Some(bench) = Bench::prepared() else { return };
    let (mut child, pipe) = bench.started_up_to_its_second_step();
    // Its guard first, which would undo the step.
    kill_process(guard_of(child.id()), Signal::KILL).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    drop(pipe);
    assert_eq!(bench.value(), NEW, "the first step was made");

    let (status, json, _) = bench.run("tune status --json");
    assert_eq!(status, 0);
    assert!(json.starts_with(r#"{"schema":"onbeat.tune-status/1""#), "{json}");
    assert!(json.contains(r#""state":"interrupted""#) && json.contains(r#""old":"60""#), "{json}");
    let (_, would, _) = bench.run("tune undo --dry-run");
    assert!(would.contains("would undo `onbeat tune apply ./two.toml"), "{would}");
    assert!(would.contains("setting: 10 -> 60"), "{would}");
    assert_eq!(bench.value(), NEW, "a dry run changes nothing");

    let (status, undone, _) = bench.run("tune undo");
    assert_eq!(status, 0, "{undone}");
    assert!(undone.contains("1 of 1 change restored (1 file)"), "{undone}");
    assert_eq!(bench.value(), OLD);
    assert!(bench.run("tune undo").1.contains("nothing to undo"));
}

/// Interrupts an apply of two steps after its first. Returns what it says afterwards.
fn interrupted_after_its_first_step(bench: &Bench) -> String {
    let (mut child, mut pipe) = bench.started_up_to_its_second_step();
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    kill_process(pid, Signal::INT).unwrap();
    // SIGUSR1 is answered, and in each round signals are handled by their numbers: the second
    // answer comes after Ctrl-C was seen.
    for _ in 0..2 {
        kill_process(pid, Signal::USR1).unwrap();
        let mut answer = String::new();
        // A machine that stalls lets it say before that what it still waits for.
        while !answer.contains("this command continues") {
            answer.clear();
            assert!(said.read_line(&mut answer).unwrap() > 0, "it ended");
        }
    }

    // The second setting has its value already.
    pipe.write_all(NEW.as_bytes()).unwrap();
    drop(pipe);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest}");
    rest
}

#[test]
fn ctrl_c_undoes_what_an_apply_has_changed_live() {
    let Some(bench) = Bench::prepared() else { return };
    let said = interrupted_after_its_first_step(&bench);
    assert!(said.contains("interrupted: all changes of this command were undone"), "{said}");
    assert_eq!(bench.value(), OLD);
}

#[test]
fn ctrl_c_leaves_the_changes_of_earlier_commands_in_effect_and_on_record_live() {
    const EARLIER: &str = "30";
    let Some(bench) = Bench::prepared() else { return };
    let plan = fs::read_to_string(bench.dir.path().join("one.toml")).unwrap();
    let plan = Plan::from_text(&plan).unwrap();
    let step = PlanStep { new: EARLIER.to_owned(), ..plan.steps[0].clone() };
    let earlier = Plan { steps: vec![step], ..plan };
    fs::write(bench.dir.path().join("earlier.toml"), earlier.to_text()).unwrap();
    assert_eq!(bench.run("tune apply ./earlier.toml --yes --ignore-owners").0, 0);

    let said = interrupted_after_its_first_step(&bench);
    assert!(said.contains("interrupted: all changes of this command were undone"), "{said}");
    assert_eq!(bench.value(), EARLIER);
    let (_, json, _) = bench.run("tune status --json");
    assert_eq!(json.matches(r#""state":"applied""#).count(), 1, "{json}");
    assert!(json.contains("earlier.toml") && !json.contains("two.toml"), "{json}");

    assert_eq!(bench.run("tune undo").0, 0);
    assert_eq!(bench.value(), OLD);
}

#[test]
fn repair_leaves_what_was_applied_on_purpose_and_undo_reports_what_others_changed_live() {
    let Some(bench) = Bench::prepared() else { return };
    let (status, applied, said) = bench.run("tune apply ./one.toml --yes --ignore-owners");
    assert_eq!(status, 0, "{applied}{said}");
    assert!(applied.contains("applied 1 step: 1 setting changed and read back"), "{applied}");
    assert!(applied.contains("undo sudo onbeat tune undo"), "{applied}");

    let (status, repaired, _) = bench.run("repair");
    assert_eq!(status, 0);
    assert!(
        repaired.contains("1 change made by `onbeat tune apply` stays in effect"),
        "{repaired}"
    );
    assert_eq!(bench.value(), NEW);

    fs::write(bench.setting(), "33").unwrap();
    let (_, shown, _) = bench.run("tune status");
    assert!(shown.contains("changed since to 33; onbeat had set 10, before it was 60"), "{shown}");
    let (status, undone, _) = bench.run("tune undo");
    assert_eq!(status, 2, "{undone}");
    assert!(undone.contains("`onbeat tune undo --force` restores that"), "{undone}");
    assert_eq!(bench.value(), "33");
    let (status, forced, _) = bench.run("tune undo --force");
    assert_eq!((status, bench.value().as_str()), (0, OLD), "{forced}");
}

#[test]
fn an_apply_that_fails_at_its_second_step_undoes_the_first_live() {
    let Some(bench) = Bench::prepared() else { return };
    bench.write_plan("bad.toml", &[bench.setting(), Path::new("/proc/version").to_owned()]);
    let (status, _, said) = bench.run("tune apply ./bad.toml --yes --ignore-owners");
    assert_eq!(status, 2);
    assert!(said.contains("mem.swappiness: cannot set /proc/version to \"10\""), "{said}");
    assert!(said.contains("Undone: 1 change of this plan"), "{said}");
    assert_eq!(bench.value(), OLD);

    let (status, json, said) =
        bench.run("tune apply ./bad.toml --yes --ignore-owners --keep-going --json");
    assert_eq!(status, 0, "{said}");
    assert!(json.starts_with(r#"{"schema":"onbeat.tune-apply/1","journal":"/"#), "{json}");
    assert!(json.contains(r#""outcome":"refused""#), "{json}");
    assert_eq!(bench.run("tune undo").0, 0);
    assert_eq!(bench.value(), OLD);
}
