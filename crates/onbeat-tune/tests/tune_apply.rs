//! Random plans on a fake host, with refusals and crashes.
//!
//! The property: for every plan, every single refused change, and a crash before or after every
//! write to the host or in the middle of every write to the journal, one undo from another process
//! leaves each setting as it was before the apply.
#![allow(missing_docs, clippy::unwrap_used)]

mod tune_fake;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use onbeat_tune::UndoMode;
use onbeat_tune::apply::{ApplyError, ApplyRequest, OnRefusal, StepOutcome, apply, status, undo};
use onbeat_tune::change::Kind;
use onbeat_tune::plan::{PLAN_SCHEMA, Plan, PlanError, PlanStep, StepTarget, ThreadGroup};
use tune_fake::{Cgroups, Fake, World};

/// Where the fake host's clock and process put the first journal.
const JOURNAL: &str = "20261121T081002Z-500-01.journal";
const PLANS: u64 = 1_000;
const FILES: [(&str, &str, &str, Kind); 6] = [
    ("/proc/sys/vm/swappiness", "60", "10", Kind::Text),
    ("/proc/sys/kernel/printk", "7 4 1 7", "3 4 1 7", Kind::Words),
    ("/proc/sys/vm/dirty_ratio", "20", "10", Kind::Text),
    ("/proc/irq/default_smp_affinity", "ff", "7", Kind::Mask),
    ("/sys/devices/virtual/workqueue/cpumask", "ff", "7", Kind::Mask),
    ("/proc/sys/kernel/watchdog_cpumask", "0-3", "0-2", Kind::List),
];

/// A small generator of numbers (xorshift): the same plans in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn world() -> World {
    World::new(Cgroups::None).with(|world| {
        world.files.extend(FILES.map(|(path, old, _, _)| (path.to_owned(), format!("{old}\n"))));
    })
}

fn step(target: StepTarget, new: &str) -> PlanStep {
    let text = String::new;
    PlanStep {
        id: "a.b".to_owned(),
        target,
        old: text(),
        new: new.to_owned(),
        shell: text(),
        takes: text(),
        risk: text(),
    }
}

fn all_steps() -> Vec<PlanStep> {
    let file = |(path, _, new, kind): (&str, &str, &str, Kind)| {
        step(StepTarget::File { path: path.to_owned(), compare: kind }, new)
    };
    let irq = |number, handlers: &[&str]| {
        let handlers = handlers.iter().map(|name| (*name).to_owned()).collect();
        step(StepTarget::Interrupt { number, handlers }, "0-2")
    };
    let mut steps = FILES.map(file).to_vec();
    steps.extend([irq(24, &["eth0"]), irq(25, &["nvme0q4"]), irq(26, &["uart", "usb1"])]);
    steps.push(step(StepTarget::Affinity { threads: ThreadGroup::User }, "0-2"));
    steps.push(step(StepTarget::Affinity { threads: ThreadGroup::UnboundKernel }, "0-2"));
    steps
}

fn plan(steps: Vec<PlanStep>) -> Plan {
    let schema = PLAN_SCHEMA.to_owned();
    Plan {
        schema,
        profile: None,
        cpus: "3".to_owned(),
        cpus_because: String::new(),
        task: None,
        steps,
        left_out: vec![],
    }
}

fn random_plan(dice: &mut Dice) -> Plan {
    let mut open = all_steps();
    let wanted = 1 + dice.below(open.len());
    plan((0..wanted).map(|_| open.remove(dice.below(open.len()))).collect())
}

fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Undoes on a copy of the host as a crash has left it, from another process. The first attempt may
/// be refused once.
#[track_caller]
fn assert_undone(world: &World, journal: &[u8], before: &[String], fails_at: Option<usize>) {
    let mut world = world.clone();
    world.kill_owner();
    let host = Fake::new(world);
    let directory = directory();
    let path = directory.path().join(JOURNAL);
    if !journal.is_empty() {
        fs::write(&path, journal).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    host.fails_at.set(fails_at);
    undo(&host, directory.path(), UndoMode::Careful).unwrap();
    undo(&host, directory.path(), UndoMode::Careful).unwrap();
    assert_eq!(host.settings(), before);
    assert!(!path.exists(), "nothing is left on record");
}

#[test]
fn after_any_refusal_and_any_crash_one_undo_restores_everything() {
    for seed in 1..=PLANS {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let plan = random_plan(&mut dice);
        let host = Fake::new(world());
        let before = host.settings();
        let directory = directory();
        let journal = directory.path().join(JOURNAL);
        *host.watched.borrow_mut() = Some(journal.clone());
        let is_refused = dice.below(2) == 0;
        host.fails_at.set(is_refused.then(|| dice.below(30)));

        let mut request = ApplyRequest::new("onbeat tune apply");
        request.on_refusal =
            if dice.below(3) == 0 { OnRefusal::LeaveOut } else { OnRefusal::RollBack };
        let applied = apply(&host, directory.path(), &plan, &request);
        if applied.is_err() {
            assert_eq!(host.settings(), before, "seed {seed}: {applied:?}");
            assert!(!journal.exists(), "seed {seed}: {applied:?}");
        }

        let end = (host.world.borrow().clone(), fs::read(&journal).unwrap_or_default());
        let moments: Vec<_> = host
            .moments
            .borrow()
            .iter()
            .map(|moment| (moment.world.clone(), moment.journal.clone()))
            .collect();
        let next = moments.iter().skip(1).chain([&end]);
        for ((here, written), (there, later)) in moments.iter().zip(next) {
            let fails_at = (dice.below(4) == 0).then(|| dice.below(6));
            assert_undone(here, written, &before, fails_at);
            // After the change, before the journal has anything more, and in the middle of what it
            // gets.
            assert_undone(there, written, &before, None);
            if later.len() > written.len() {
                let cut = written.len() + dice.below(later.len() - written.len());
                assert_undone(there, &later[..cut], &before, fails_at);
            }
        }
        assert_undone(&end.0, &end.1, &before, None);
    }
}

#[test]
fn a_change_is_read_back_reported_and_listed_until_it_is_undone() {
    let host = Fake::new(world());
    let directory = directory();
    let before = host.settings();
    let plan = plan(all_steps());
    let applied =
        apply(&host, directory.path(), &plan, &ApplyRequest::new("onbeat tune apply")).unwrap();

    let managed = &applied.steps[7].outcome;
    assert!(
        matches!(managed, StepOutcome::Refused { .. }),
        "a managed interrupt is no failure: {managed:?}"
    );
    assert_eq!(applied.steps[0].outcome, StepOutcome::Changed { settings: 1, refused: vec![] });
    let listed = status(&host, directory.path()).unwrap();
    assert!(listed[0].is_kept && listed[0].changes.len() > plan.steps.len());
    assert_eq!(
        (listed[0].changes[0].old.as_str(), listed[0].changes[0].new.as_str()),
        ("60", "10")
    );

    undo(&host, directory.path(), UndoMode::Careful).unwrap();
    assert_eq!((host.settings(), status(&host, directory.path()).unwrap()), (before, vec![]));
}

#[test]
fn a_plan_without_housekeeping_and_one_that_irqbalance_would_overwrite_are_refused() {
    let host = Fake::new(world());
    let directory = directory();
    let request = ApplyRequest::new("onbeat tune apply");
    let greedy = Plan { cpus: "0-3".to_owned(), ..plan(all_steps()) };
    let refused = apply(&host, directory.path(), &greedy, &request).unwrap_err();
    assert!(matches!(refused, ApplyError::Plan(PlanError::NoHousekeeping { .. })), "{refused}");

    host.world.borrow_mut().tasks.get_mut(&110).unwrap().comm = "irqbalance".to_owned();
    let refused =
        apply(&host, directory.path(), &plan(all_steps()), &request).unwrap_err().to_string();
    assert!(
        refused.starts_with("irqbalance (pid 110) is running and would overwrite a.b. Stop it"),
        "{refused}"
    );
    assert_eq!(host.changes.get(), 0);
}
