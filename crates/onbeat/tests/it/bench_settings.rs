//! Settings of the host in a bench: resolved or refused with a reason, made before a block and
//! undone after it, whatever fails and whenever onbeat is killed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use onbeat::bench::CellTuning;
use onbeat::bench::host_settings::{
    HostSetting, SettingError, SettingRefusal, SettingRequest, make, resolve, undo,
};
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::{PlanProfile, PlanRequest, plan};
use onbeat_tune::{CpuList, HostFiles, Journal, Purpose, TuneError, repair};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const INTERVAL: &str = "/proc/sys/vm/stat_interval";

/// A machine of four CPUs whose settings are files.
struct FakeMachine {
    files: RefCell<BTreeMap<String, String>>,
    root: bool,
    /// The process that makes the changes; another one is the next start of onbeat.
    pid: Cell<i32>,
    /// Writes until one is refused; none is when it is negative.
    until_refusal: Cell<i32>,
}

impl FakeMachine {
    fn new() -> Self {
        let files = [
            ("/sys/devices/system/cpu/online", "0-3\n"),
            ("/proc/sys/kernel/random/boot_id", "6b1f0b1e-7f64-4f0a-9d3c-000000000001\n"),
            ("/proc/cmdline", "quiet\n"),
            ("/proc/version", "Linux version 6.12.0 (a@b) #1 SMP PREEMPT_DYNAMIC\n"),
            ("/proc/500/status", "Tgid:\t500\n"),
            ("/proc/500/stat", "500 (onbeat) R 1 500 500 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 77 0\n"),
            (SWAPPINESS, "60\n"),
            (INTERVAL, "1\n"),
        ];
        Self {
            files: RefCell::new(
                files.map(|(path, text)| (path.to_owned(), text.to_owned())).into(),
            ),
            root: true,
            pid: Cell::new(500),
            until_refusal: Cell::new(-1),
        }
    }

    fn value(&self, path: &str) -> String {
        self.read(path).unwrap().trim().to_owned()
    }

    fn settings(&self) -> [String; 2] {
        [self.value(SWAPPINESS), self.value(INTERVAL)]
    }

    /// The same machine as a tree that a check reads.
    fn tree(&self, dir: &Path) -> HostTree {
        for (path, text) in self.files.borrow().iter() {
            let file = dir.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        HostTree::captured(dir).unwrap()
    }

    fn journal(&self, dir: &Path) -> Journal {
        Journal::begin(dir, self, &Purpose::new("bench", "onbeat tune measure")).unwrap()
    }
}

impl HostFiles for FakeMachine {
    fn read(&self, path: &str) -> io::Result<String> {
        // Only the first process is alive once another one has started.
        let is_dead = path.starts_with("/proc/500/") && self.pid.get() != 500;
        let path = path.replace(&format!("/proc/{}/", self.pid.get()), "/proc/500/");
        let text = self.files.borrow().get(&path).filter(|_| !is_dead).cloned();
        text.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let left = self.until_refusal.get();
        self.until_refusal.set(left - 1);
        if left == 0 {
            return Err(io::Error::from_raw_os_error(22));
        }
        let mut files = self.files.borrow_mut();
        let file = files.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        *file = format!("{}\n", text.trim());
        Ok(())
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        Ok(if path == "/proc" { vec![self.pid.get().to_string()] } else { Vec::new() })
    }

    fn create_dir(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove_dir(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_affinity(&self, _: i32, _: &CpuList) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn kill_session(&self, _: i32, _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn own_pid(&self) -> i32 {
        self.pid.get()
    }

    fn unix_seconds(&self) -> u64 {
        1_795_000_000
    }

    fn pause(&self) {}
}

fn request<'r>(
    tree: &'r HostTree,
    host: &'r FakeMachine,
    plan_file: Option<&'r Path>,
) -> SettingRequest<'r> {
    SettingRequest { tree, host, setup: LoopSetup::on("3".parse().unwrap()), plan_file }
}

fn resolved(name: &str, machine: &FakeMachine) -> Result<HostSetting, SettingRefusal> {
    let dir = tempfile::tempdir().unwrap();
    resolve(name, &request(&machine.tree(dir.path()), machine, None))
}

#[test]
fn an_id_is_made_before_a_block_and_undone_after_it_block_by_block() {
    let (machine, dir) = (FakeMachine::new(), tempfile::tempdir().unwrap());
    let settings = ["mem.swappiness", "timer.vmstat"].map(|id| resolved(id, &machine).unwrap());
    let journal_dir = dir.path().join("journal");
    let mut journal = machine.journal(&journal_dir);

    for _ in 0..8 {
        let mut made = Vec::new();
        for setting in &settings {
            make(&machine, &mut journal, setting, &mut made).unwrap();
        }
        assert_eq!(machine.settings(), ["10", "10"], "while the block runs");
        undo(&machine, &mut journal, &made).unwrap();
        assert_eq!(machine.settings(), ["60", "1"], "after the block");
    }

    journal.close().unwrap();
}

#[test]
fn a_refused_change_leaves_what_was_made_before_to_the_undo_of_the_block() {
    let (machine, dir) = (FakeMachine::new(), tempfile::tempdir().unwrap());
    let settings = ["mem.swappiness", "timer.vmstat"].map(|id| resolved(id, &machine).unwrap());
    let mut journal = machine.journal(&dir.path().join("journal"));
    let mut made = Vec::new();

    machine.until_refusal.set(1);
    make(&machine, &mut journal, &settings[0], &mut made).unwrap();
    let why = make(&machine, &mut journal, &settings[1], &mut made).unwrap_err();
    assert!(
        why.to_string().starts_with(
            "timer.vmstat: cannot set /proc/sys/vm/stat_interval to \"10\": Invalid argument"
        ),
        "{why}"
    );

    undo(&machine, &mut journal, &made).unwrap();
    assert_eq!(machine.settings(), ["60", "1"]);
    journal.close().unwrap();
}

#[test]
fn after_a_kill_in_a_block_the_next_start_undoes_the_setting() {
    let (machine, dir) = (FakeMachine::new(), tempfile::tempdir().unwrap());
    let journal_dir = dir.path().join("journal");
    let setting = resolved("mem.swappiness", &machine).unwrap();
    let mut journal = machine.journal(&journal_dir);
    make(&machine, &mut journal, &setting, &mut Vec::new()).unwrap();

    // The end of the process closes its files and drops its lock.
    drop(journal);
    machine.pid.set(600);
    assert_eq!(machine.value(SWAPPINESS), "10");
    let repaired = repair(&journal_dir, &machine).unwrap();
    assert_eq!((repaired.len(), machine.settings()), (1, ["60".to_owned(), "1".to_owned()]));
}

#[test]
fn a_value_that_another_program_has_set_in_a_block_is_kept_and_reported() {
    let (machine, dir) = (FakeMachine::new(), tempfile::tempdir().unwrap());
    let setting = resolved("mem.swappiness", &machine).unwrap();
    let mut journal = machine.journal(&dir.path().join("journal"));
    let mut made = Vec::new();
    make(&machine, &mut journal, &setting, &mut made).unwrap();

    machine.write(SWAPPINESS, "33").unwrap();
    let why = undo(&machine, &mut journal, &made).unwrap_err();
    assert!(matches!(why, SettingError::Left { left: 1, .. }), "{why}");
    assert!(why.to_string().contains("run `onbeat repair`"), "{why}");
    assert_eq!(machine.value(SWAPPINESS), "33");
    assert!(matches!(journal.close(), Err(TuneError::NotAllUndone { left: 1, .. })));
}

#[test]
fn a_placebo_writes_the_value_that_is_there() {
    let (machine, dir) = (FakeMachine::new(), tempfile::tempdir().unwrap());
    let placebo = resolved("placebo", &machine).unwrap();
    assert_eq!(placebo.plan.steps.len(), 1);
    let mut journal = machine.journal(&dir.path().join("journal"));
    let mut made = Vec::new();

    machine.until_refusal.set(9);
    make(&machine, &mut journal, &placebo, &mut made).unwrap();
    assert_eq!((machine.until_refusal.get(), machine.value(SWAPPINESS).as_str()), (8, "60"));
    undo(&machine, &mut journal, &made).unwrap();
    journal.close().unwrap();

    let ordinary = FakeMachine { root: false, ..FakeMachine::new() };
    assert!(resolved("placebo", &ordinary).unwrap().plan.steps.is_empty(), "without root, nothing");
}

#[test]
fn what_cannot_take_turns_is_refused_in_a_sentence_with_the_reason() {
    let machine = FakeMachine::new();
    machine.write(SWAPPINESS, "5").unwrap();
    let why = |name: &str| resolved(name, &machine).unwrap_err();

    let as_wanted = why("mem.swappiness").to_string();
    assert!(as_wanted.starts_with("mem.swappiness is as wanted already ("), "{as_wanted}");

    let reboot = why("kern.threadirqs").to_string();
    assert!(reboot.starts_with("kern.threadirqs takes a reboot and cannot take turns"), "{reboot}");
    assert!(reboot.contains("onbeat tune persist kern.threadirqs"), "{reboot}");

    let not_here = why("freq.governor").to_string();
    assert!(not_here.starts_with("freq.governor cannot be measured here, since it"), "{not_here}");

    let no_plan = why("plan").to_string();
    assert!(no_plan.contains("needs --plan FILE"), "{no_plan}");
    let no_file = why("./no-such-plan.toml").to_string();
    assert!(no_file.starts_with("cannot read the plan ./no-such-plan.toml"), "{no_file}");
}

#[test]
fn a_plan_brings_its_steps_and_the_options_of_its_profile_for_the_loop() {
    let (machine, dir) = (FakeMachine::new(), tempfile::tempdir().unwrap());
    let tree = machine.tree(&dir.path().join("tree"));
    let profile: PlanProfile = "robot-1k".parse().unwrap();
    let request_of_plan = PlanRequest {
        cpus: onbeat_tune::plan::CpuChoice::List("3".parse().unwrap()),
        ..PlanRequest::profile(profile)
    };
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, plan(&tree, &request_of_plan).unwrap().to_text()).unwrap();

    let setting = resolve("plan", &request(&tree, &machine, Some(&path))).unwrap();
    let ids: Vec<&str> = setting.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert!(ids.contains(&"mem.swappiness") && ids.contains(&"timer.vmstat"), "{ids:?}");
    let letters = setting.implies.letters;
    assert!(letters.priority && letters.memory && !letters.shield && setting.implies.bound);
    assert!(setting.changes_in_words().any(|words| words.contains("60 -> 10")));

    let tuning: CellTuning = "none+plan".parse().unwrap();
    assert_eq!((tuning.to_string().as_str(), tuning.host_names().count()), ("plan", 1));
}
