//! `onbeat tune` on captured machines: the same text everywhere, without root.
//!
//! `ONBEAT_BLESS` rebuilds the golden files in `tests/golden/tune`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use onbeat_tune::plan::Plan;

/// Name of the golden file, and the command.
const PRINTED: [(&str, &str); 7] = [
    ("check-board", "tune check --from board.tar.gz"),
    ("plan-board", "tune plan --from board.tar.gz"),
    ("plan-laptop-full", "tune plan --from laptop.tar.gz --full"),
    ("plan-server-ids", "tune plan --from server.tar.gz mem.swappiness irq.affinity fw.smi"),
    ("explain-rt_pc", "tune explain irq.affinity --from rt_pc.tar.gz"),
    ("lint-pamuk-grub", "tune lint ../published/pamuk-2024.grub"),
    ("lint-pamuk-script", "tune lint ../published/pamuk-2024.sh"),
];

fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../onbeat-tune/tests/machines")
}

fn onbeat(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(words.split(' ')).current_dir(machines()).stdin(Stdio::null());
    command.env("LC_ALL", "C").env("COLUMNS", "80");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that succeeds.
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

#[test]
fn plans_and_findings_of_captured_machines_are_as_agreed_on() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tune");
    for (name, words) in PRINTED {
        let Output { stdout, stderr, .. } = onbeat(words).output().unwrap();
        assert!(stderr.is_empty(), "onbeat {words}: {}", text(&stderr));
        let printed = text(&stdout);
        let file = folder.join(format!("{name}.txt"));
        if std::env::var_os("ONBEAT_BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &printed).unwrap();
        }

        let agreed = fs::read_to_string(&file).unwrap_or_default();
        let file = file.display();
        assert!(agreed == printed, "onbeat {words} does not print {file}:\n{printed}");
    }
}

/// Lines for a shell are pasted and so are not broken; nor is a corrected text.
#[test]
fn plans_fit_a_terminal_except_for_lines_to_paste() {
    for (_, words) in PRINTED.into_iter().filter(|(name, _)| !name.starts_with("lint")) {
        let printed = succeeds(&mut onbeat(words));
        let is_pasted = |line: &&str| line.trim_start().starts_with("# ");
        let wide = printed.lines().filter(|line| line.chars().count() > 80);
        // A word that is longer than a line cannot be broken either.
        let wide = wide.filter(|line| line.trim_start().contains(' '));
        let wide: Vec<_> = wide.filter(|line| !is_pasted(line)).collect();
        assert!(wide.is_empty(), "onbeat {words}: {wide:#?}");
    }
}

#[test]
fn a_plan_in_a_file_is_the_plan_in_json_and_is_not_replaced_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plan.toml");
    let plan = || {
        let mut command = onbeat("tune plan --from rt_pc.tar.gz --json --out");
        command.arg(&file);
        command
    };

    let json: Plan = serde_json::from_str(&succeeds(&mut plan())).unwrap();
    let written = Plan::from_text(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(json, written);

    let again = plan().output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    let said = text(&again.stderr);
    assert!(
        said.contains("plan.toml exists; name another file, or replace it by --force"),
        "{said}"
    );
    succeeds(plan().arg("--force"));
}

/// Each path below a root with its mode and content.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            let found = path.symlink_metadata().unwrap();
            if found.is_dir() {
                open.push(path.clone());
            }
            all.insert(
                path.clone(),
                (found.permissions().mode(), fs::read(&path).unwrap_or_default()),
            );
        }
    }
    all
}

#[test]
fn what_is_persisted_below_a_root_directory_is_removed_without_a_trace() {
    let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(root.path().join("etc/default/grub.d")).unwrap();
    fs::write(root.path().join("etc/default/grub"), "GRUB_CMDLINE_LINUX=\"quiet\"\n").unwrap();
    let before = snapshot(root.path());
    let plan = dir.path().join("plan.toml");
    succeeds(onbeat("tune plan --from laptop.tar.gz --out").arg(&plan));
    let persist = |words: &str| {
        let mut command = onbeat("tune persist --root");
        command.arg(root.path()).args(words.split(' ').filter(|word| !word.is_empty()));
        command
    };

    let unasked = persist("").arg(&plan).output().unwrap();
    assert_eq!(unasked.status.code(), Some(2));
    assert!(text(&unasked.stderr).contains("add --yes"), "{}", text(&unasked.stderr));
    assert_eq!(snapshot(root.path()), before);

    let printed = succeeds(persist("--yes").arg(&plan));
    assert!(printed.contains("  /etc/default/grub.d/90-onbeat.cfg\n"), "{printed}");
    assert!(printed.contains("  update-grub\n"), "{printed}");
    let sysctls = fs::read_to_string(root.path().join("etc/sysctl.d/90-onbeat.conf")).unwrap();
    let written = Plan::from_text(&fs::read_to_string(&plan).unwrap()).unwrap();
    let step = written.steps.iter().find(|step| step.id == "mem.swappiness").unwrap();
    assert!(sysctls.contains(&format!("vm.swappiness = {}\n", step.new)), "{sysctls}");
    assert!(succeeds(&mut persist("")).contains("vm.swappiness: "));

    let removed = succeeds(&mut persist("--remove --json"));
    assert!(removed.starts_with(r#"{"schema":"onbeat.tune-persist-removal/1""#), "{removed}");
    assert_eq!(snapshot(root.path()), before);
    assert!(succeeds(&mut persist("--remove")).contains("nothing to remove"));
}

#[test]
fn tunings_are_persisted_with_the_values_of_the_catalogue() {
    let root = tempfile::tempdir().unwrap();
    for directory in ["proc/sys/vm", "sys/devices/system/cpu", "etc/sysctl.d"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    fs::write(root.path().join("sys/devices/system/cpu/online"), "0-3\n").unwrap();
    fs::write(root.path().join("proc/sys/vm/swappiness"), "10\n").unwrap();

    let mut command = onbeat("tune persist mem.swappiness --yes --json --root");
    let printed = succeeds(command.arg(root.path()));
    assert!(printed.contains(r#""files":["/etc/sysctl.d/90-onbeat.conf"]"#), "{printed}");
}

/// Where a command edits the boot entries, there may be no file to remove.
#[test]
fn the_commands_of_a_removal_without_files_are_printed() {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("proc/cmdline", "root=/dev/sda isolcpus=1\n"),
        ("run/ostree-booted", ""),
    ] {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }
    succeeds(onbeat("tune persist shield.isolcpus --cpus 3 --yes --root").arg(root.path()));
    let printed = succeeds(onbeat("tune persist --remove --root").arg(root.path()));
    assert!(printed.contains("--append-if-missing=isolcpus=1\n"), "{printed}");
}

#[test]
fn a_capture_of_this_machine_can_be_checked_and_planned_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("this.tar");
    let printed = succeeds(onbeat("tune capture --json").arg(&file));
    assert!(printed.starts_with(r#"{"schema":"onbeat.tune-capture/1""#), "{printed}");

    let checked = succeeds(onbeat("tune check --cpus 0 --json --from").arg(&file));
    assert!(checked.contains(r#""schema":"onbeat.tune-check/1""#), "{checked}");
    let again = onbeat("tune capture").arg(&file).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "an existing file is not replaced");

    let other = dir.path().join("other.tar");
    fs::write(&other, "not an archive of anything").unwrap();
    let refused = onbeat("tune check --from").arg(&other).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("other.tar as a capture of a machine: "), "{said}");
}
