//! The shield on a fake host: what it keeps off, what it reports, and that it leaves no change,
//! wherever it is interrupted.

use crate::tune_fake;

use std::fs;
use std::path::Path;

use onbeat_tune::{
    Free, Journal, Mechanism, Purpose, Report, Scope, Shield, ShieldRequest, TuneError, UndoMode,
    repair,
};
use rustix::io::Errno;
use tune_fake::fake_files::Moment;
use tune_fake::{Cgroups, Fake, LOOP, OWN, World, cpus, directory_in_memory};

const KINDS: [Cgroups; 3] = [Cgroups::V1, Cgroups::V2, Cgroups::None];

fn purpose() -> Purpose {
    Purpose::new("bench", "onbeat bench --tuning C --cpu 3")
}

fn begin(directory: &Path, host: &Fake) -> Journal {
    Journal::begin(directory, host, &purpose()).unwrap()
}

/// Every kind of host that the laws below must hold on.
fn worlds() -> Vec<(String, World)> {
    let mut worlds = Vec::new();
    for cgroups in KINDS {
        for remembers_user_masks in [true, false] {
            for partitions in [vec!["isolated", "root"], vec!["root"], vec![]] {
                if cgroups == Cgroups::V2 || partitions.is_empty() {
                    let name = format!(
                        "{cgroups:?}, user masks {remembers_user_masks}, partitions {partitions:?}"
                    );
                    let world = World::new(cgroups).with(|world| {
                        (world.remembers_user_masks, world.partitions) =
                            (remembers_user_masks, partitions);
                    });
                    if cgroups == Cgroups::V2 {
                        worlds.push((
                            format!("{name}, no cpusets in use"),
                            world.clone().without_cpusets(),
                        ));
                        let lenient = world.clone().with(|world| world.keeps_a_list = false);
                        worlds.push((format!("{name}, lists can be emptied"), lenient));
                    }

                    worlds.push((name, world));
                }
            }
        }
    }

    worlds
}

fn frees() -> [Vec<Free>; 2] {
    [vec![Free::Thread(LOOP)], vec![Free::Process(OWN)]]
}

/// The part of a bench that concerns the shield: up and down, tasks forked in between, everything
/// undone.
fn bench(host: &Fake, directory: &Path, free: &[Free]) -> Result<(), TuneError> {
    let mut journal = begin(directory, host);
    if let Some(watched) = &mut *host.watched.borrow_mut() {
        *watched = journal.path().to_owned();
    }

    let worked = (|| {
        let mut shield = Shield::prepare(host, &mut journal, &cpus("3"), free)?;
        shield.raise(host, &mut journal)?;
        host.world.borrow_mut().fork(100);
        shield.raise(host, &mut journal)?;
        shield.lower(host, &mut journal)?;
        host.world.borrow_mut().fork(100);
        shield.raise(host, &mut journal)?;
        let undone = shield.dismantle(host, &mut journal)?;
        let settled = undone.iter().all(|one| one.outcome.is_settled());

        assert!(settled || host.fails_at.get().is_some(), "{undone:?}");
        Ok(())
    })();
    journal.undo_all(host, UndoMode::Careful)?;
    journal.close()?;

    worked
}

fn raised(host: &Fake, free: &[Free]) -> Report {
    let directory = directory_in_memory();
    let mut journal = begin(directory.path(), host);
    let mut shield = Shield::prepare(host, &mut journal, &cpus("3"), free).unwrap();
    shield.raise(host, &mut journal).unwrap()
}

#[test]
fn a_bench_leaves_no_setting_changed() {
    for (name, world) in worlds() {
        for free in frees() {
            let host = Fake::new(world.clone());
            let before = host.settings();
            let directory = directory_in_memory();
            bench(&host, directory.path(), &free).unwrap();
            assert_eq!(host.settings(), before, "{name}, {free:?}");
            for child in [1_001, 1_002] {
                assert_eq!(
                    cpus(&host.mask(child)).and(&cpus("0-3")),
                    cpus("0-3"),
                    "{name}: child {child} is confined"
                );
            }

            assert_eq!(
                fs::read_dir(directory.path()).unwrap().count(),
                1,
                "only the lock file is left"
            );
        }
    }
}

#[test]
fn while_it_is_up_only_the_loop_and_bound_threads_may_use_the_cpu() {
    for (name, world) in worlds() {
        let host = Fake::new(world);
        let report = raised(&host, &[Free::Thread(LOOP)]);
        assert_eq!(
            report.left.iter().map(|left| left.comm.as_str()).collect::<Vec<_>>(),
            left_by_wish(&host),
            "{name}"
        );
        let mut expected = vec!["ksoftirqd/3", "onbeat:loop"];
        expected.extend(left_by_wish(&host));
        expected.sort_unstable();
        let mut on_cpu = host.on_cpu(3);
        on_cpu.sort();

        assert_eq!(on_cpu, expected, "{name}");
        assert_eq!(report.bound, ["ksoftirqd/3"], "{name}");
    }
}

/// A cpuset that has only the shielded CPU leaves its task no other.
fn left_by_wish(host: &Fake) -> Vec<&'static str> {
    if host.on_cpu(3).iter().any(|comm| comm == "its own CPU") {
        vec!["its own CPU"]
    } else {
        vec![]
    }
}

#[test]
fn what_is_forked_while_it_is_up_is_kept_off_from_the_start() {
    for (name, world) in worlds() {
        let host = Fake::new(world);
        raised(&host, &[Free::Thread(LOOP)]);
        for parent in [1, 100, 110, OWN] {
            let child = host.world.borrow_mut().fork(parent);
            assert!(
                !cpus(&host.mask(child)).contains(3),
                "{name}: child of {parent} may use {}",
                host.mask(child)
            );
        }
    }
}

#[test]
fn a_loop_of_a_whole_process_gets_the_partition_the_kernel_agrees_to() {
    for (partitions, note) in [
        (vec!["isolated", "root"], "isolated partition"),
        (vec!["root"], "root partition"),
        (
            vec![],
            "no partition: isolated invalid (Cpu list not exclusive); root invalid (Cpu list not exclusive)",
        ),
    ] {
        let host = Fake::new(World::new(Cgroups::V2).with(|world| world.partitions = partitions));
        let report = raised(&host, &[Free::Process(OWN)]);
        assert_eq!(
            (report.mechanism, report.partition.to_string().as_str()),
            (Mechanism::CpusetV2, note)
        );
        assert_eq!(host.mask(LOOP), "3");
    }
}

#[test]
fn a_populated_cgroup_without_a_list_of_cpus_is_never_given_one() {
    // That could not be undone: kernels up to 6.12 refuse an empty list with ENOSPC while the group
    // has tasks.
    for (name, world) in worlds() {
        for free in frees() {
            let host = Fake::new(world.clone());
            let before: Vec<String> =
                host.settings().into_iter().filter(|line| line.contains("CpuList({})")).collect();
            raised(&host, &free);
            let after = host.settings();
            assert!(
                before.iter().all(|line| after.contains(line)),
                "{name}, {free:?}: {before:#?} {after:#?}"
            );
        }
    }
}

#[test]
fn the_mechanism_follows_what_is_mounted() {
    let of = |cgroups| raised(&Fake::new(World::new(cgroups)), &[Free::Thread(LOOP)]).mechanism;
    assert_eq!(KINDS.map(of), [Mechanism::CpusetV1, Mechanism::CpusetV2, Mechanism::AffinityOnly]);
}

#[test]
fn without_a_writable_cgroup_tree_affinities_are_used_and_reported() {
    let host = Fake::new(World::new(Cgroups::V1).with(|world| world.read_only_cgroups = true));
    let report = raised(&host, &[Free::Thread(LOOP)]);
    assert_eq!(report.mechanism, Mechanism::AffinityOnly);
    assert!(report.notes[0].contains("cpusets cannot be used here"), "{:?}", report.notes);
    assert_eq!(host.mask(100), "0-2");
}

#[test]
fn interrupts_are_moved_and_managed_ones_are_reported_with_their_counts() {
    let host = Fake::new(World::new(Cgroups::V1));
    let report = raised(&host, &[Free::Thread(LOOP)]);
    assert_eq!(
        report.irqs_moved, 2,
        "eth0 and uart; rtc0 was not there, and the first has no handler"
    );
    let refused = &report.irqs_refused[0];

    assert_eq!(
        (refused.number, refused.count, refused.count_on_rt, report.irqs_refused.len()),
        (25, 98, 80, 1)
    );
    assert!(
        report.sentences().join("\n").contains("IRQ 25 (nvme0q4) not moved (kernel-managed)"),
        "{:?}",
        report.sentences()
    );
    let settings = host.settings().join("\n");

    assert!(
        settings.contains("default_smp_affinity: f7") && settings.contains("workqueue/cpumask: f7"),
        "{settings}"
    );
}

#[test]
fn other_cpusets_are_narrowed_inner_ones_first_and_one_without_another_cpu_is_left() {
    let host = Fake::new(World::new(Cgroups::V1));
    let report = raised(&host, &[Free::Thread(LOOP)]);
    assert_eq!((host.mask(120), host.mask(121)), ("1-2".to_owned(), "3".to_owned()));
    assert!(
        report.notes.iter().any(|note| note.contains("/dedicated has no CPU other than 3")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_scope_leaves_the_tasks_outside_it_as_they_are() {
    for cgroups in KINDS {
        let host = Fake::new(World::new(cgroups));
        let before = [1, 100, 110, 120].map(|tid| host.mask(tid));
        let inside = host.world.borrow_mut().fork(OWN);
        let directory = directory_in_memory();
        let mut journal = begin(directory.path(), &host);
        let wish = ShieldRequest {
            rt: cpus("3"),
            free: vec![Free::Thread(LOOP)],
            scope: Scope::Under(OWN),
        };
        let mut shield = Shield::prepare_as(&host, &mut journal, &wish).unwrap();
        let report = shield.raise(&host, &mut journal).unwrap();

        assert_eq!([1, 100, 110, 120].map(|tid| host.mask(tid)), before, "{cgroups:?}");
        assert!(
            !cpus(&host.mask(inside)).contains(3) && !cpus(&host.mask(16)).contains(3),
            "{cgroups:?}"
        );
        assert_eq!((report.left.len(), report.outside > 0), (0, true), "{:?}", report.left);
    }
}

#[test]
fn a_thread_admitted_later_may_use_the_cpu() {
    for (name, world) in worlds() {
        let host = Fake::new(world);
        let directory = directory_in_memory();
        let mut journal = begin(directory.path(), &host);
        let mut shield = Shield::prepare(&host, &mut journal, &cpus("3"), &[]).unwrap();
        shield.raise(&host, &mut journal).unwrap();

        assert!(!cpus(&host.mask(LOOP)).contains(3), "{name}");
        shield.admit(&host, &mut journal, Free::Thread(LOOP)).unwrap();
        assert!(cpus(&host.mask(LOOP)).contains(3) && !cpus(&host.mask(OWN)).contains(3), "{name}");
        let undone = shield.dismantle(&host, &mut journal).unwrap();
        assert!(undone.iter().all(|one| one.outcome.is_settled()), "{name}: {undone:?}");
        journal.close().unwrap();
    }
}

#[test]
fn cpusets_that_another_program_disables_are_enabled_again() {
    // systemd does so when it starts a unit and no unit uses the controller.
    for free in frees() {
        let host = Fake::new(World::new(Cgroups::V2).without_cpusets());
        let before = host.settings();
        let directory = directory_in_memory();
        let mut journal = begin(directory.path(), &host);
        let mut shield = Shield::prepare(&host, &mut journal, &cpus("3"), &free).unwrap();
        shield.raise(&host, &mut journal).unwrap();
        let switch_off = || {
            onbeat_tune::HostFiles::write(
                &host,
                "/sys/fs/cgroup/cgroup.subtree_control",
                "-cpuset",
            )
            .unwrap();
        };
        switch_off();
        shield.lower(&host, &mut journal).unwrap();
        let report = shield.raise(&host, &mut journal).unwrap();

        assert_eq!((report.left, host.mask(100)), (vec![], "0-2".to_owned()), "{free:?}");
        switch_off();
        let undone = shield.dismantle(&host, &mut journal).unwrap();
        assert!(undone.iter().all(|one| one.outcome.is_settled()), "{free:?}: {undone:?}");
        journal.close().unwrap();

        assert_eq!(host.settings(), before, "{free:?}");
    }
}

#[test]
fn a_root_cgroup_with_tasks_cannot_enable_cpusets_and_affinities_are_used() {
    for refusal in [Errno::BUSY, Errno::OPNOTSUPP] {
        let host = Fake::new(
            World::new(Cgroups::V2)
                .without_cpusets()
                .with(|world| world.refuses_controllers = Some(refusal)),
        );
        let report = raised(&host, &[Free::Process(OWN)]);
        assert_eq!((report.mechanism, report.left), (Mechanism::AffinityOnly, vec![]), "{refusal}");
        assert!(report.notes[0].contains("cpusets cannot be used here"), "{:?}", report.notes);
    }
}

#[test]
fn changes_by_others_while_it_is_up_are_kept_and_reported() {
    let host = Fake::new(World::new(Cgroups::V1));
    let directory = directory_in_memory();
    let mut journal = begin(directory.path(), &host);
    let mut shield =
        Shield::prepare(&host, &mut journal, &cpus("3"), &[Free::Thread(LOOP)]).unwrap();
    shield.raise(&host, &mut journal).unwrap();
    onbeat_tune::HostFiles::write(&host, "/proc/irq/24/smp_affinity_list", "1").unwrap();
    let undone = shield.dismantle(&host, &mut journal).unwrap();
    let left: Vec<String> = undone
        .iter()
        .filter(|one| !one.outcome.is_settled())
        .map(|one| one.intent.key.name())
        .collect();

    assert_eq!(left, ["interrupt 24 (eth0)"]);
    assert!(matches!(journal.close(), Err(TuneError::NotAllUndone { left: 1, .. })));
    host.world.borrow_mut().kill_owner();
    let repaired = repair(directory.path(), &host).unwrap();
    let sentence = repaired[0].sentences().join("\n");

    assert!(
        sentence.contains("interrupt 24 (eth0) not restored: its value is now \"1\"")
            && sentence.contains("\"0-3\""),
        "{sentence}"
    );
    onbeat_tune::repair::undo(directory.path(), &host, UndoMode::Force).unwrap();

    assert!(
        host.settings()
            .iter()
            .any(|line| line.starts_with("24:") && line.contains("mask: CpuList({0, 1, 2, 3})"))
    );
    assert!(repair(directory.path(), &host).unwrap().is_empty());
}

#[test]
fn a_task_that_chooses_its_cpus_while_the_shield_is_up_keeps_its_choice() {
    for (name, world) in worlds() {
        let host = Fake::new(world);
        let directory = directory_in_memory();
        let mut journal = begin(directory.path(), &host);
        let mut shield =
            Shield::prepare(&host, &mut journal, &cpus("3"), &[Free::Thread(LOOP)]).unwrap();
        shield.raise(&host, &mut journal).unwrap();
        onbeat_tune::HostFiles::set_affinity(&host, 100, &cpus("1")).unwrap();
        shield.lower(&host, &mut journal).unwrap();

        assert_eq!(host.mask(100), "1", "{name}");
        shield.raise(&host, &mut journal).unwrap();
        shield.dismantle(&host, &mut journal).unwrap();
        assert_eq!(host.mask(100), "1", "{name}");
    }
}

#[test]
fn nothing_is_touched_when_the_shield_is_refused() {
    let host = Fake::new(World::new(Cgroups::V1));
    let before = host.settings();
    let directory = directory_in_memory();
    let mut journal = begin(directory.path(), &host);
    let mut refusal = |rt: &str, free: &[Free]| {
        Shield::prepare(&host, &mut journal, &cpus(rt), free).map(|_| ()).unwrap_err().to_string()
    };

    assert!(refusal("0-3", &[]).contains("leaves none of 0-3"), "all CPUs");
    assert!(refusal("", &[]).contains("no CPU to shield is given"));
    assert!(refusal("5", &[]).contains("only 0-3 are online"));
    assert!(
        refusal("3", &[Free::Thread(9_999)])
            .contains("task 9999, which may use the shielded CPUs, does not exist")
    );
    host.world.borrow_mut().root = false;

    assert!(refusal("3", &[]).contains("sudo onbeat bench --tuning C --cpu 3"));
    assert_eq!((host.settings(), host.changes.get()), (before, 0));
}

#[test]
fn a_machine_of_one_cpu_has_nothing_to_shield() {
    let mut world = World::new(Cgroups::None);
    world.files.insert("/sys/devices/system/cpu/online".to_owned(), "0\n".to_owned());
    let host = Fake::new(world);
    let directory = directory_in_memory();
    let mut journal = begin(directory.path(), &host);
    let refused = Shield::prepare(&host, &mut journal, &cpus("0"), &[]).map(|_| ());
    assert!(matches!(refused, Err(TuneError::NoHousekeeping { .. })));
}

#[test]
fn an_error_at_any_single_change_leaves_no_change() {
    for (name, world) in worlds() {
        for free in frees() {
            for change in 0.. {
                let host = Fake::new(world.clone());
                let before = host.settings();
                let directory = directory_in_memory();
                host.fails_at.set(Some(change));
                // Whether the bench ends well depends on what failed; the host must be as before,
                // perhaps after a repair.
                let outcome = bench(&host, directory.path(), &free);
                host.fails_at.set(None);
                host.world.borrow_mut().kill_owner();
                repair(directory.path(), &host).unwrap();

                assert_eq!(
                    wishes(&host.settings()),
                    wishes(&before),
                    "{name}, {free:?}, change {change}: {outcome:?}"
                );
                if host.changes.get() < change {
                    break;
                }
            }
        }
    }
}

/// The settings without what the machine made of them: when leading an interrupt home is what
/// failed, its mask still is as before.
fn wishes(settings: &[String]) -> Vec<&str> {
    let follower = |line: &&String| line.contains("irq/26-uart");
    settings
        .iter()
        .filter(|line| !follower(line))
        .map(|line| line.split(", effective:").next().unwrap())
        .collect()
}

/// The moments before each change of a whole bench, and the journal as it was at the end.
fn moments(world: &World, free: &[Free]) -> (Vec<Moment>, Vec<u8>) {
    let host = Fake::new(world.clone());
    let directory = directory_in_memory();
    *host.watched.borrow_mut() = Some(directory.path().to_owned());
    bench(&host, directory.path(), free).unwrap();
    let moments = host.moments.into_inner();
    let journal = moments.iter().map(|moment| moment.journal.clone()).max_by_key(Vec::len).unwrap();
    (moments, journal)
}

/// What a start after a crash finds and does: the host as it was then, a journal with these bytes,
/// a dead owner.
fn repaired_after(world: &World, journal: &[u8]) -> Vec<String> {
    let directory = directory_in_memory();
    fs::write(directory.path().join("20261121T081002Z-500-01.journal"), journal).unwrap();
    let host = Fake::new(world.clone());
    host.world.borrow_mut().kill_owner();
    let first = repair(directory.path(), &host).unwrap();

    assert!(first.iter().all(onbeat_tune::Repaired::is_settled), "{first:?}");
    let after = host.settings();
    assert!(
        repair(directory.path(), &host).unwrap().is_empty(),
        "a second repair has nothing to do"
    );
    assert_eq!(host.settings(), after);
    after
}

#[test]
fn a_crash_before_any_change_is_repaired_exactly() {
    for (name, world) in worlds() {
        for free in frees() {
            let before = world.settings();
            let (moments, _) = moments(&world, &free);
            assert!(moments.len() > 30, "{name}: {} changes", moments.len());
            for (change, moment) in moments.iter().enumerate() {
                let after = repaired_after(&moment.world, &moment.journal);
                assert_eq!(after, before, "{name}, {free:?}, change {change}");
            }
        }
    }
}

#[test]
fn a_journal_cut_at_any_byte_is_repaired_exactly() {
    for cgroups in [Cgroups::V1, Cgroups::V2] {
        let world =
            World::new(cgroups).with(|world| world.remembers_user_masks = cgroups == Cgroups::V2);
        let before = world.settings();
        let (moments, journal) = moments(&world, &[Free::Thread(LOOP)]);
        // How much of the journal is known to be on disk before a change: up to its last intent.
        // Notes may be lost.
        let synced: Vec<usize> =
            moments.iter().map(|moment| end_of_last_intent(&moment.journal)).collect();
        for cut in 0..=journal.len() {
            let last = synced.iter().rposition(|on_disk| *on_disk <= cut).unwrap_or(0);
            let after = repaired_after(&moments[last].world, &journal[..cut]);
            assert_eq!(
                after,
                before,
                "{cgroups:?}: cut at byte {cut} of {}, before change {last}",
                journal.len()
            );
        }
    }
}

fn end_of_last_intent(journal: &[u8]) -> usize {
    let text = std::str::from_utf8(journal).unwrap();
    let mut end = 0;
    let mut last = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if last == 0 || line.starts_with("{\"intent\"") {
            last = end;
        }
    }

    last
}
