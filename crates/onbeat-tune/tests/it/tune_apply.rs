//! Random plans on a fake host, with refusals and crashes.
//!
//! The property: for every plan, a refused change, and a crash of the apply or of an undo, before
//! or after every write to the host, after every line of the journal or within it, one undo from
//! another process leaves each setting as it was before the apply, even when the host refuses one
//! of its writes once. What it refuses for longer stays on record, and an undo after that restores
//! it. Steps of one tuning go on record together, so crashes between two changes of such a group
//! are among them.

use crate::tune_fake;

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use onbeat_tune::apply::{
    ApplyError, ApplyRequest, OnRefusal, StepOutcome, apply, status, undo, undo_one,
};
use onbeat_tune::change::Kind;
use onbeat_tune::plan::{PLAN_SCHEMA, Plan, PlanError, PlanStep, StepTarget, ThreadGroup};
use onbeat_tune::{CpuList, HostFiles, Repaired, UndoMode};
use rustix::io::Errno;
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
        task_start_ticks: None,
        steps,
        left_out: vec![],
    }
}

/// A step that sets swappiness.
fn swappiness(new: &str) -> PlanStep {
    let (path, _, _, compare) = FILES[0];
    step(StepTarget::File { path: path.to_owned(), compare }, new)
}

/// Some of the steps in any order, of one, two or more tunings; people who edit a plan may set a
/// file twice.
fn random_plan(dice: &mut Dice) -> Plan {
    let mut open = all_steps();
    open.push(swappiness("30"));
    open.push(step(StepTarget::Interrupt { number: 24, handlers: vec!["eth0".to_owned()] }, "0"));

    let wanted = 1 + dice.below(open.len());
    let mut steps: Vec<_> = (0..wanted).map(|_| open.remove(dice.below(open.len()))).collect();
    let mut tuning = 0;
    for step in &mut steps {
        tuning += usize::from(dice.below(4) == 0);
        step.id = format!("a.b{tuning}");
    }
    plan(steps)
}

fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// What a crash has left: the host, and the bytes of the journal on disk.
struct Wreck<'w> {
    world: &'w World,
    journal: &'w [u8],
}

impl Wreck<'_> {
    /// The host and the directory of journals, as another process finds them.
    fn found(&self) -> (Fake, tempfile::TempDir) {
        let mut world = self.world.clone();
        world.kill_owner();
        let directory = directory();
        if !self.journal.is_empty() {
            let path = directory.path().join(JOURNAL);
            fs::write(&path, self.journal).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        (Fake::new(world), directory)
    }

    /// One undo from another process, in which one change is refused once.
    #[track_caller]
    fn assert_undone(&self, before: &[String], fails_at: Option<usize>) {
        let (host, directory) = self.found();
        host.fails_at.set(fails_at);
        undo(directory.path(), &host, UndoMode::Careful).unwrap();

        assert_eq!(host.settings(), before);
        assert!(!directory.path().join(JOURNAL).exists(), "nothing is left on record");
    }
}

/// Every state in which a kill -9 can leave the host and the journal while a process changes the
/// host: before and after each change, and with the journal cut after each line and within one.
fn wrecks(host: &Fake, journal: &Path, dice: &mut Dice) -> Vec<(World, Vec<u8>)> {
    let mut moments: Vec<(World, Vec<u8>)> =
        host.moments.take().into_iter().map(|moment| (moment.world, moment.journal)).collect();
    moments.push((host.world.borrow().clone(), fs::read(journal).unwrap_or_default()));

    let mut wrecks = Vec::new();
    for pair in moments.windows(2) {
        let [(_, written), (there, later)] = pair else { continue };
        wrecks.push((there.clone(), written.clone()));
        if later.len() <= written.len() {
            continue;
        }

        let added = written.len()..later.len();
        let ends = added.clone().filter(|at| later[*at] == b'\n').map(|at| at + 1);
        let torn = added.start + dice.below(added.len());
        let cuts = ends.filter(|at| *at < later.len()).chain([torn]);
        wrecks.extend(cuts.map(|cut| (there.clone(), later[..cut].to_vec())));
    }
    wrecks.extend(moments);
    wrecks
}

/// Applies a random plan, in half of the cases with a refusal. Returns what a crash may leave.
fn crashes_of_apply(seed: u64, dice: &mut Dice, before: &[String]) -> Vec<(World, Vec<u8>)> {
    let plan = random_plan(dice);
    let host = Fake::new(world());
    let directory = directory();
    let journal = directory.path().join(JOURNAL);
    *host.watched.borrow_mut() = Some(journal.clone());
    let is_refused = dice.below(2) == 0;
    host.fails_at.set(is_refused.then(|| dice.below(30)));

    let mut request = ApplyRequest::new("onbeat tune apply");
    if dice.below(3) == 0 {
        request.on_refusal = OnRefusal::LeaveOut;
    }
    let applied = apply(&host, directory.path(), &plan, &request);
    if applied.is_err() {
        assert_eq!(host.settings(), before, "seed {seed}: {applied:?}");
        assert!(!journal.exists(), "seed {seed}: {applied:?}");
    }
    wrecks(&host, &journal, dice)
}

/// Undoes from another process. Returns what a crash of that process may leave.
fn crashes_of_undo(wreck: &Wreck<'_>, dice: &mut Dice) -> Vec<(World, Vec<u8>)> {
    let (host, directory) = wreck.found();
    let journal = directory.path().join(JOURNAL);
    *host.watched.borrow_mut() = Some(journal.clone());
    host.fails_at.set((dice.below(2) == 0).then(|| dice.below(30)));
    undo(directory.path(), &host, UndoMode::Careful).unwrap();
    wrecks(&host, &journal, dice)
}

#[test]
fn after_any_crash_of_apply_or_undo_one_undo_restores_everything_even_if_a_change_is_refused_once()
{
    let (mut applies, mut undos) = (0, 0);
    for seed in 1..=PLANS {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let before = Fake::new(world()).settings();
        let crashes = crashes_of_apply(seed, &mut dice, &before);
        for (world, journal) in &crashes {
            let fails_at = (dice.below(2) == 0).then(|| dice.below(30));
            Wreck { world, journal }.assert_undone(&before, fails_at);
        }
        applies += crashes.len();

        let (world, journal) = &crashes[dice.below(crashes.len())];
        let crashes = crashes_of_undo(&Wreck { world, journal }, &mut dice);
        for (world, journal) in &crashes {
            Wreck { world, journal }.assert_undone(&before, None);
        }
        undos += crashes.len();
    }
    println!("{PLANS} plans, {applies} crashes of apply and {undos} of undo, all undone");
}

/// The number of lines of a journal that are of this kind.
fn lines_of(kind: &str, journal: &[u8]) -> usize {
    let start = format!("{{\"{kind}\"");
    String::from_utf8_lossy(journal).lines().filter(|line| line.starts_with(&start)).count()
}

#[test]
fn the_changes_of_one_tuning_are_on_record_before_the_first_of_them_and_undone_from_between_them() {
    let host = Fake::new(world());
    let directory = directory();
    let before = host.settings();
    *host.watched.borrow_mut() = Some(directory.path().join(JOURNAL));
    let mut steps = all_steps();
    steps.retain(|step| matches!(step.target, StepTarget::File { .. }));
    apply(&host, directory.path(), &plan(steps), &ApplyRequest::new("onbeat tune apply")).unwrap();

    let moments = host.moments.take();
    assert_eq!(moments.len(), FILES.len());
    for (made, moment) in moments.iter().enumerate() {
        let journal = moment.journal.as_slice();
        assert_eq!((lines_of("intent", journal), lines_of("done", journal)), (FILES.len(), made));
        Wreck { world: &moment.world, journal }.assert_undone(&before, None);
    }
}

#[test]
fn a_setting_that_one_tuning_sets_twice_gets_the_second_value_and_its_own_back() {
    for second in ["30", "60"] {
        let host = Fake::new(world());
        let directory = directory();
        let before = host.settings();
        let plan = plan(vec![swappiness("10"), swappiness(second)]);
        apply(&host, directory.path(), &plan, &ApplyRequest::new("onbeat tune apply")).unwrap();
        assert_eq!(host.read(FILES[0].0).unwrap().trim(), second);

        undo(directory.path(), &host, UndoMode::Careful).unwrap();
        assert_eq!((host.settings(), status(&host, directory.path()).unwrap()), (before, vec![]));
    }
}

#[test]
fn one_apply_is_undone_without_those_before_it() {
    let host = Fake::new(world());
    let directory = directory();
    let before = host.settings();
    let request = ApplyRequest::new("onbeat tune apply");
    let earlier = plan(vec![swappiness("30")]);
    let first = apply(&host, directory.path(), &earlier, &request).unwrap().journal.unwrap();
    let between = host.settings();
    let second = apply(&host, directory.path(), &plan(all_steps()), &request).unwrap();
    let second = second.journal.unwrap();

    let undone = undo_one(&second, &host, UndoMode::Careful).unwrap().unwrap();
    assert!(undone.is_settled(), "{undone:#?}");
    assert_eq!(host.settings(), between);
    let left: Vec<_> = status(&host, directory.path()).unwrap();
    assert_eq!(left.iter().map(|one| &one.path).collect::<Vec<_>>(), [&first]);
    assert_eq!(undo_one(&second, &host, UndoMode::Careful).unwrap(), None, "it is off the record");

    undo(directory.path(), &host, UndoMode::Careful).unwrap();
    assert_eq!((host.settings(), status(&host, directory.path()).unwrap()), (before, vec![]));
}

/// A host that refuses every change from the one with the number `from` on, until that is over.
struct Refusing<'f> {
    fake: &'f Fake,
    from: usize,
    error: Errno,
    is_over: Cell<bool>,
}

impl Refusing<'_> {
    fn allows(&self) -> io::Result<&Fake> {
        let is_refused = !self.is_over.get() && self.fake.changes.get() >= self.from;
        if is_refused { Err(self.error.into()) } else { Ok(self.fake) }
    }
}

impl HostFiles for Refusing<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        self.fake.read(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.allows()?.write(path, text)
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        self.fake.directories(path)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.allows()?.create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.allows()?.remove_dir(path)
    }

    fn set_affinity(&self, tid: i32, cpus: &CpuList) -> io::Result<()> {
        self.allows()?.set_affinity(tid, cpus)
    }

    fn kill_session(&self, sid: i32, start_ticks: u64) -> io::Result<usize> {
        self.allows()?.kill_session(sid, start_ticks)
    }

    fn is_root(&self) -> bool {
        self.fake.is_root()
    }

    fn own_pid(&self) -> i32 {
        self.fake.own_pid()
    }

    fn unix_seconds(&self) -> u64 {
        self.fake.unix_seconds()
    }

    fn pause(&self) {}
}

#[test]
fn what_stays_refused_during_an_undo_stays_on_record_and_the_next_undo_restores_it() {
    for seed in 1..=PLANS / 4 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let before = Fake::new(world()).settings();
        let crashes = crashes_of_apply(seed, &mut dice, &before);
        let (world, journal) = &crashes[dice.below(crashes.len())];
        let (fake, directory) = Wreck { world, journal }.found();
        let error = [Errno::IO, Errno::PERM, Errno::BUSY, Errno::ROFS, Errno::NOMEM][dice.below(5)];
        let host = Refusing { fake: &fake, from: dice.below(20), error, is_over: Cell::new(false) };

        let first = undo(directory.path(), &host, UndoMode::Careful).unwrap();
        let is_restored = fake.settings() == before;
        let is_settled = first.iter().all(Repaired::is_settled);
        assert_eq!(is_settled, is_restored, "seed {seed}: {first:#?}");
        assert_eq!(status(&host, directory.path()).unwrap().is_empty(), is_settled, "seed {seed}");

        host.is_over.set(true);
        undo(directory.path(), &host, UndoMode::Careful).unwrap();
        assert_eq!(fake.settings(), before, "seed {seed}");
        assert_eq!(status(&host, directory.path()).unwrap(), []);
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
        "a managed interrupt does not fail the plan: {managed:?}"
    );
    assert_eq!(applied.steps[0].outcome, StepOutcome::Changed { settings: 1, refused: vec![] });
    let listed = status(&host, directory.path()).unwrap();
    assert!(listed[0].is_kept && listed[0].changes.len() > plan.steps.len());
    assert_eq!(
        (listed[0].changes[0].old.as_str(), listed[0].changes[0].new.as_str()),
        ("60", "10")
    );

    undo(directory.path(), &host, UndoMode::Careful).unwrap();
    assert_eq!((host.settings(), status(&host, directory.path()).unwrap()), (before, vec![]));
}

#[test]
fn on_a_machine_with_one_cpu_only_what_names_no_cpus_is_applied() {
    let host = Fake::new(world());
    host.world
        .borrow_mut()
        .files
        .insert("/sys/devices/system/cpu/online".to_owned(), "0\n".to_owned());
    let directory = directory();
    let request = ApplyRequest::new("onbeat tune apply");
    let on_0 = |steps| Plan { cpus: "0".to_owned(), ..plan(steps) };

    let affinity = step(StepTarget::Affinity { threads: ThreadGroup::User }, "0");
    let moving = on_0(vec![swappiness("10"), affinity]);
    let refused = apply(&host, directory.path(), &moving, &request).unwrap_err();
    assert!(matches!(refused, ApplyError::Plan(PlanError::NoHousekeeping { .. })), "{refused}");

    let applied = apply(&host, directory.path(), &on_0(vec![swappiness("10")]), &request).unwrap();
    assert!(applied.journal.is_some());
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
