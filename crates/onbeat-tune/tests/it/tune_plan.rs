//! Plans: the choice of CPUs, the order of steps, the file, and which ids can be applied.

use std::fs;
use std::path::Path;

use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{CheckVerdict, HostTree, LoopSetup, catalogue, load};
use onbeat_tune::check;
use onbeat_tune::plan::cpus::{choose, loop_cpu};
use onbeat_tune::plan::recipes::{RECIPES, appliable};
use onbeat_tune::plan::{CpuChoice, Plan, PlanError, PlanProfile, PlanRequest, plan};

fn file(root: &Path, path: &str, text: &str) {
    let place = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, text).unwrap();
}

/// Cores of two threads: 0-1, 2-3, ...
fn machine(online: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    file(directory.path(), "/sys/devices/system/cpu/online", online);
    for cpu in 0..8_u32 {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        file(directory.path(), &path, &format!("{}-{}\n", cpu & !1, cpu | 1));
    }
    directory
}

fn chosen(root: &Path, choice: &CpuChoice) -> Result<String, PlanError> {
    let tree = HostTree::captured(root).unwrap();
    let setup = LoopSetup::default();
    choose(&Survey::new(&tree, &setup), choice).map(|chosen| chosen.cpus.to_string())
}

#[test]
fn the_loop_gets_a_core_without_cpu_0_and_without_interrupts_that_stay() {
    let directory = machine("0-7\n");
    assert_eq!(chosen(directory.path(), &CpuChoice::Auto).unwrap(), "6-7");

    let heads = "  CPU0 CPU1 CPU2 CPU3 CPU4 CPU5 CPU6 CPU7";
    file(
        directory.path(),
        "/proc/interrupts",
        &format!("{heads}\n 30: 0 0 0 0 0 0 0 9 PCI-MSI nvme0q7\n"),
    );
    assert_eq!(chosen(directory.path(), &CpuChoice::Auto).unwrap(), "4-5");
    file(
        directory.path(),
        "/proc/interrupts",
        &format!("{heads}\n 30: 0 0 0 0 0 9 0 0 ITS-MSI 4194320 Edge hisi_sas_v3_hw cq\n"),
    );
    assert_eq!(chosen(directory.path(), &CpuChoice::Auto).unwrap(), "6-7");
    file(directory.path(), "/sys/devices/system/cpu/isolated", "2-3\n");
    assert_eq!(chosen(directory.path(), &CpuChoice::Auto).unwrap(), "2-3");
}

/// P cores of 5.1 GHz and E cores of 3.9 GHz (Intel), Cortex-A53 and A72 (i.MX 8QM): by file, one
/// number for each core of two threads.
#[test]
fn the_loop_gets_one_of_the_fastest_cores() {
    let kinds = [
        ("cpufreq/cpuinfo_max_freq", [5_100_000, 5_100_000, 3_900_000, 3_900_000], "2-3"),
        ("cpu_capacity", [445, 445, 1024, 445], "4-5"),
        // A favoured core is of the same kind: then the highest number counts.
        ("cpufreq/cpuinfo_max_freq", [4_900_000, 5_000_000, 4_900_000, 4_900_000], "6-7"),
    ];
    for (name, speeds, expected) in kinds {
        let directory = machine("0-7\n");
        for cpu in 0..8_usize {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/{name}");
            file(directory.path(), &path, &format!("{}\n", speeds[cpu / 2]));
        }
        assert_eq!(chosen(directory.path(), &CpuChoice::Auto).unwrap(), expected, "{speeds:?}");

        // What was isolated at boot comes first, whatever its kind, which is then named.
        file(directory.path(), "/sys/devices/system/cpu/isolated", "6-7\n");
        let tree = HostTree::captured(directory.path()).unwrap();
        let setup = LoopSetup::default();
        let isolated = choose(&Survey::new(&tree, &setup), &CpuChoice::Auto).unwrap();
        let is_slower = isolated.because.contains("isolated at boot, of a slower kind");
        assert_eq!((isolated.cpus.to_string().as_str(), is_slower), ("6-7", expected != "6-7"));
    }
}

/// A bench, a robot and a plan take the same CPU of a machine: never CPU 0 where there is another.
#[test]
fn a_loop_of_one_thread_takes_the_first_cpu_that_a_plan_names() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let archives = fs::read_dir(machines).unwrap().map(|entry| entry.unwrap().path());
    let archives = archives.filter(|path| path.extension().is_some_and(|end| end == "gz"));
    let mut captured = 0;
    for path in archives {
        let tree = HostTree::from_capture(fs::File::open(&path).unwrap()).unwrap();
        let found = loop_cpu(&tree);
        let planned = plan(&tree, &PlanRequest::ids(["wq.unbound"]).unwrap()).unwrap();
        let first = planned.loop_cpus().unwrap().iter().next();
        assert_eq!(Some(found.cpu), first, "{}", path.display());
        assert_eq!(found.because, planned.cpus_because);
        assert_ne!(found.cpu, 0, "{}", path.display());
        captured += 1;
    }
    assert!(captured >= 10, "{captured} captured machines");

    let alone = loop_cpu(&HostTree::captured(machine("0\n").path()).unwrap());
    assert_eq!((alone.cpu, &*alone.because), (0, "the machine has, or shows, no other CPU"));
}

/// The captured machines, each as a loop of a robot has it.
fn captured_machines() -> Vec<(String, HostTree)> {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let archives = fs::read_dir(machines).unwrap().map(|entry| entry.unwrap().path());
    let archives = archives.filter(|path| path.extension().is_some_and(|end| end == "gz"));
    let tree = |path: &Path| HostTree::from_capture(fs::File::open(path).unwrap()).unwrap();
    archives.map(|path| (path.file_name().unwrap().to_string_lossy().into(), tree(&path))).collect()
}

/// Bad findings of the plan's own loop that have neither a step nor a sentence, or an empty one.
fn without_an_answer(tree: &HostTree, planned: &Plan, setup: &LoopSetup) -> Vec<String> {
    let setup = LoopSetup { cpus: planned.loop_cpus().unwrap(), ..setup.clone() };
    let bad = check(tree, &setup).into_iter().filter(|one| one.verdict == CheckVerdict::Bad);
    let is_answered = |id: &str| {
        let sentences = planned.left_out.iter().filter(|left| left.id == id);
        planned.steps.iter().any(|step| step.id == id)
            || sentences.map(|left| left.because.trim()).any(|because| !because.is_empty())
    };
    bad.map(|finding| finding.id).filter(|id| !is_answered(id)).collect()
}

#[test]
fn a_plan_answers_every_bad_finding_by_a_step_or_a_sentence() {
    let mut answered = 0;
    for (name, tree) in captured_machines() {
        let task = (name == "service.tar.gz").then_some(812);
        for (profile, profile_name) in PlanProfile::ALL {
            let mut request = PlanRequest::profile(profile);
            request.setup.interfaces = vec!["eth0".to_owned()];
            request.setup.task = task;
            let planned = plan(&tree, &request).unwrap();
            let missing = without_an_answer(&tree, &planned, &profile.fit(&request.setup));
            assert!(missing.is_empty(), "{name}, {profile_name}: {missing:?}");
            answered += planned.steps.len() + planned.left_out.len();
        }
    }
    assert!(answered > 1000, "{answered} steps and sentences");
}

#[test]
fn a_plan_of_named_ids_answers_each_of_them() {
    for (name, tree) in captured_machines() {
        let setup = LoopSetup { interfaces: vec!["eth0".to_owned()], ..LoopSetup::default() };
        let cpus = loop_cpu(&tree).cpu;
        let bad: Vec<String> =
            check(&tree, &LoopSetup { cpus: [cpus].into_iter().collect(), ..setup.clone() })
                .into_iter()
                .filter(|finding| finding.verdict == CheckVerdict::Bad)
                .map(|finding| finding.id)
                .collect();
        let mut request = PlanRequest::ids(bad.iter().map(String::as_str)).unwrap();
        request.setup = setup.clone();
        request.cpus = CpuChoice::List([cpus].into_iter().collect());
        let planned = plan(&tree, &request).unwrap();
        let missing = without_an_answer(&tree, &planned, &setup);
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
fn a_housekeeping_cpu_always_remains() {
    let list = |text: &str| CpuChoice::List(text.parse().unwrap());
    assert_eq!(
        chosen(machine("0-1\n").path(), &CpuChoice::Auto).unwrap(),
        "1",
        "a single core is shared"
    );

    assert!(matches!(
        chosen(machine("0\n").path(), &CpuChoice::Auto),
        Err(PlanError::NoCpu { .. })
    ));

    assert_eq!(chosen(machine("0\n").path(), &list("0")).unwrap(), "0", "named, not chosen");

    assert!(matches!(
        chosen(machine("0-1\n").path(), &list("0-1")),
        Err(PlanError::NoHousekeeping { .. })
    ));

    assert!(matches!(
        chosen(machine("0-1\n").path(), &list("2")),
        Err(PlanError::NotOnline { .. })
    ));
}

#[test]
fn at_least_80_ids_can_be_applied_and_each_recipe_is_for_a_record_without_a_value() {
    assert!(appliable().len() >= 80, "{}", appliable().len());
    for (id, _) in &RECIPES {
        let record = catalogue().get(id).unwrap();
        let has_value = record.probe.iter().any(|spec| spec.probe().set().is_some());
        assert!(!record.is_check_only() && !has_value, "{id}");
    }
}

#[test]
fn the_profiles_of_plans_are_those_of_the_catalogue() {
    for (profile, name) in PlanProfile::ALL {
        assert_eq!((profile.name(), name.parse()), (name, Ok(profile)));
        assert!(catalogue().profiles.iter().any(|known| known.name == name), "{name}");
    }
}

#[test]
fn a_plan_of_this_machine_is_ordered_and_survives_its_file() {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        return println!("skipped: this machine has one CPU");
    }

    let order = load::order(catalogue()).unwrap();
    for (profile, name) in PlanProfile::ALL {
        let made = plan(&HostTree::live(), &PlanRequest::profile(profile)).unwrap();
        let places: Vec<_> =
            made.steps.iter().map(|step| order.iter().position(|id| *id == step.id)).collect();
        assert!(places.is_sorted(), "{name}");

        let text = made.to_text();
        assert_eq!(Plan::from_text(&text).unwrap(), made, "{name}");
        assert_eq!(Plan::from_text(&text).unwrap().to_text(), text, "{name}");
    }
}
