//! Settings persisted below a root directory, removed without a trace, and confirmed after a
//! reboot.

use crate::check_tree;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use check_tree::{CapturedMachine, LOOP_CPU};
use onbeat_tune::UndoMode;
use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{LoopSetup, catalogue};
use onbeat_tune::persist::{
    ApplyAtBoot, BootLoader, BootSettings, ConfirmedState, FollowUp, PersistError, PersistRecord,
    RemovalOutcome, confirm, persist, remove,
};
use tempfile::TempDir;

/// A root directory with these files.
fn root(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        put(root.path(), path, text);
    }
    root
}

fn put(root: &Path, path: &str, text: &str) {
    let place = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, text).unwrap();
}

fn text(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path.trim_start_matches('/'))).unwrap_or_default()
}

/// Each path below a root with its kind, mode and content.
fn snapshot(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let content = match found.file_type() {
                kind if kind.is_symlink() => {
                    format!("-> {}", fs::read_link(&path).unwrap().display())
                }
                kind if kind.is_dir() => {
                    open.push(path.clone());
                    "directory".to_owned()
                }
                _ => fs::read_to_string(&path).unwrap(),
            };
            let name = path.strip_prefix(root).unwrap().display().to_string();
            all.insert(name, format!("{:o} {content}", found.permissions().mode()));
        }
    }
    all
}

fn settings() -> BootSettings {
    let mut settings = BootSettings {
        service_cpus: Some("0-2".parse().unwrap()),
        apply: Some(ApplyAtBoot {
            program: "/usr/bin/onbeat".to_owned(),
            plan: "schema = \"plan\"\n".to_owned(),
        }),
        ..BootSettings::default()
    };
    settings.add_parameter("isolcpus=managed_irq,domain,3");
    settings.add_parameter("skew_tick=1");
    settings.sysctls.insert("kernel.timer_migration".to_owned(), "0".to_owned());
    settings
        .sysfs
        .insert("/sys/kernel/mm/transparent_hugepage/enabled".to_owned(), "never".to_owned());
    settings
}

const DEBIAN: [(&str, &str); 3] = [
    (
        "/etc/default/grub",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=1\"\nGRUB_CMDLINE_LINUX=\"skew-tick=0 rw\"\n",
    ),
    ("/etc/debian_version", "13\n"),
    ("/proc/sys/kernel/random/boot_id", "first\n"),
];

/// The machines: what starts the kernel, with the files that show it.
fn machines() -> Vec<(BootLoader, Vec<(&'static str, &'static str)>)> {
    let cmdline = "/boot/firmware/cmdline.txt";
    vec![
        (BootLoader::GrubDropIn, DEBIAN.to_vec()),
        (
            BootLoader::RaspberryPi { path: cmdline.to_owned() },
            vec![
                (cmdline, "console=tty1 root=/dev/mmcblk0p2 isolcpus=1 rootwait\n"),
                ("/boot/firmware/config.txt", ""),
            ],
        ),
        (
            BootLoader::KernelInstall,
            vec![
                ("/etc/kernel/cmdline", "root=UUID=1 rw quiet\n"),
                ("/efi/loader/entries/a.conf", "title a\n"),
                ("/etc/mkinitcpio.d/linux.preset", "#default_uki=\"/efi/EFI/Linux/a.efi\"\n"),
            ],
        ),
        (
            BootLoader::KernelInstall,
            vec![
                ("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda2 rw\n"),
                ("/efi/loader/entries/1-6.12.conf", "title a\nmachine-id 1\n"),
            ],
        ),
        (
            BootLoader::Grubby,
            vec![
                ("/etc/default/grub", ""),
                ("/etc/default/grub.d/mine.cfg", ""),
                ("/usr/sbin/grubby", ""),
                ("/boot/loader/entries/a.conf", ""),
            ],
        ),
        (BootLoader::GrubFile, vec![("/etc/default/grub", ""), ("/boot/grub/grub.cfg", "")]),
        (BootLoader::Ostree, vec![("/run/ostree-booted", "")]),
        (BootLoader::Unknown, vec![]),
        (
            BootLoader::Kernelstub,
            vec![
                ("/etc/debian_version", ""),
                ("/etc/kernelstub/configuration", "{}\n"),
                ("/boot/efi/loader/entries/Pop_OS-current.conf", ""),
            ],
        ),
        (
            BootLoader::ByHand { path: "/boot/extlinux/extlinux.conf".to_owned() },
            vec![("/boot/extlinux/extlinux.conf", "LABEL a\n"), ("/etc/debian_version", "")],
        ),
        (
            BootLoader::ByHand { path: "/etc/NIXOS".to_owned() },
            vec![("/etc/NIXOS", ""), ("/boot/loader/entries/nixos.conf", "")],
        ),
        (
            BootLoader::ByHand { path: "/boot/loader/entries".to_owned() },
            vec![("/boot/loader/entries/arch.conf", "title Arch\nlinux /vmlinuz-linux-rt\n")],
        ),
        (
            BootLoader::Mkinitcpio,
            vec![
                ("/etc/kernel/cmdline", "root=UUID=1 rw\nisolcpus=1\n"),
                ("/etc/mkinitcpio.d/linux-rt.preset", "default_uki=\"/efi/EFI/Linux/a.efi\"\n"),
            ],
        ),
        (
            BootLoader::KernelInstall,
            vec![
                ("/proc/cmdline", "root=/dev/sda2 rw\n"),
                (
                    "/boot/loader/entries/gentoo.conf",
                    "# File created by /usr/lib/kernel/install.d/90-loaderentry.install\ntitle a\n",
                ),
            ],
        ),
    ]
}

#[test]
fn what_was_persisted_is_removed_without_a_trace_on_every_kind_of_machine() {
    for (loader, files) in machines() {
        let root = root(&files);
        let before = snapshot(root.path());
        let persisted = persist(root.path(), &settings()).unwrap();
        assert_eq!(PersistRecord::read(root.path()).unwrap().unwrap().loader, loader);
        assert!(persisted.files.len() >= 6, "{loader:?}: {:?}", persisted.files);
        assert_ne!(snapshot(root.path()), before);

        let removed = remove(root.path(), UndoMode::Careful).unwrap();
        assert_eq!(removed.files.len(), persisted.files.len());
        assert_eq!(snapshot(root.path()), before, "{loader:?}");
        // A second removal has nothing to do.
        assert!(remove(root.path(), UndoMode::Careful).unwrap().files.is_empty());
    }
}

#[test]
fn commands_are_returned_and_never_run() {
    let lines = |files: &[(&str, &str)]| {
        let root = root(files);
        let persisted = persist(root.path(), &settings()).unwrap();
        let lines: Vec<_> = persisted.follow_ups.iter().map(FollowUp::line).collect();
        (lines, persisted.by_hand)
    };
    let machines = machines();
    let parameters = "isolcpus=managed_irq,domain,3 skew_tick=1";

    let (debian, by_hand) = lines(&machines[0].1);
    assert_eq!(debian, ["update-grub", "systemctl daemon-reexec", "systemctl daemon-reload"]);
    assert_eq!(by_hand, None);
    assert!(BootLoader::GrubDropIn.fallback().unwrap().contains("recovery"));
    assert_eq!(
        lines(&machines[4].1).0[0],
        format!("grubby --update-kernel=ALL '--args={parameters}'")
    );
    assert!(
        lines(&machines[6].1).0[0].starts_with("rpm-ostree kargs --append-if-missing=isolcpus=")
    );
    assert!(lines(&machines[7].1).1.unwrap().contains(parameters));
    assert_eq!(lines(&machines[8].1).0[0], format!("kernelstub '--add-options={parameters}'"));
    let jetson = lines(&machines[9].1).1.unwrap();
    assert!(jetson.contains("APPEND") && jetson.ends_with(parameters), "{jetson}");
    assert!(lines(&machines[10].1).1.unwrap().contains("boot.kernelParams"));
    assert_eq!(lines(&machines[12].1).0[0], "mkinitcpio -P");
    let arch = lines(&machines[11].1).1.unwrap();
    assert!(arch.contains("options line") && arch.ends_with(parameters), "{arch}");
}

/// Of two isolcpus= the kernel keeps the first one, which would be that of the user.
#[test]
fn commands_replace_parameters_of_others_and_bring_them_back() {
    let root = root(&[("/run/ostree-booted", "")]);
    put(root.path(), "/proc/cmdline", "root=/dev/sda isolcpus=1 skew_tick=1 -- isolcpus=0\n");
    let first = |commands: &[FollowUp]| commands[0].line();
    let kargs = "rpm-ostree kargs --delete-if-present=isolcpus=";
    let own = "isolcpus=managed_irq,domain,3";
    let persisted = persist(root.path(), &settings()).unwrap();
    let expected = format!("{kargs}1 --append-if-missing={own} --append-if-missing=skew_tick=1");
    assert_eq!(first(&persisted.follow_ups), expected);

    // Persisted again after a restart: the earlier parameters go first.
    put(root.path(), "/proc/cmdline", &format!("root=/dev/sda {own} skew_tick=1\n"));
    let mut other = BootSettings::default();
    other.add_parameter("isolcpus=2");
    let persisted = persist(root.path(), &other).unwrap();
    let lines: Vec<_> = persisted.follow_ups.iter().map(FollowUp::line).collect();
    assert_eq!(lines[0], format!("{kargs}managed_irq,domain,3 --append-if-missing=isolcpus=1"));
    let last = format!("{kargs}1 --append-if-missing=isolcpus=2");
    assert_eq!(lines.last(), Some(&last), "{lines:?}");
    let removed = remove(root.path(), UndoMode::Careful).unwrap();
    assert_eq!(first(&removed.follow_ups), format!("{kargs}2 --append-if-missing=isolcpus=1"));
}

/// What the running kernel has may be what onbeat wrote and has removed since.
#[test]
fn parameters_of_others_are_those_of_the_next_boot() {
    let grubby = [("/etc/default/grub", ""), ("/usr/sbin/grubby", "")];
    let entry = "title a\noptions root=/dev/sda isolcpus=2 isolcpus=1 $tuned_params\n";
    let stub = "{\"user\": {\"kernel_options\": [\"quiet\", \"isolcpus=2\", \"isolcpus=1\"]}}";
    let of_fedora = [("/boot/loader/entries/1-6.12.1.conf", entry)];
    let of_pop = [("/etc/kernelstub/configuration", stub)];
    let mut settings = BootSettings::default();
    settings.add_parameter("isolcpus=3");
    for (files, expected) in [
        (
            [&grubby[..], &of_fedora].concat(),
            "grubby --update-kernel=ALL '--remove-args=isolcpus=2 isolcpus=1' --args=isolcpus=3",
        ),
        (
            of_pop.to_vec(),
            "kernelstub '--delete-options=isolcpus=2 isolcpus=1' --add-options=isolcpus=3",
        ),
        // Without an entry, the running kernel's.
        (
            grubby.to_vec(),
            "grubby --update-kernel=ALL --remove-args=isolcpus=domain,3 --args=isolcpus=3",
        ),
    ] {
        let root = root(&files);
        put(root.path(), "/proc/sys/kernel/osrelease", "6.12.1\n");
        put(root.path(), "/proc/cmdline", "root=/dev/sda isolcpus=domain,3\n");
        assert_eq!(persist(root.path(), &settings).unwrap().follow_ups[0].line(), expected);
    }
}

#[test]
fn parameters_that_a_person_has_added_are_named_when_they_go() {
    let root = root(&[("/boot/loader/entries/arch.conf", "title Arch\n")]);
    let with = |words: [&str; 2]| {
        let mut settings = BootSettings::default();
        words.into_iter().for_each(|word| settings.add_parameter(word));
        persist(root.path(), &settings).unwrap().by_hand.unwrap()
    };
    assert!(with(["isolcpus=3", "nohz_full=3"]).starts_with("Add to the options line"));
    let again = with(["isolcpus=3", "nohz_full=2"]);
    assert!(again.starts_with("Delete these kernel parameters where you added them"), "{again}");
    assert!(again.contains(": nohz_full=3. Add to ") && again.ends_with("nohz_full=2"), "{again}");
    let removed = remove(root.path(), UndoMode::Careful).unwrap().by_hand.unwrap();
    assert!(removed.ends_with("by hand: isolcpus=3 nohz_full=2"), "{removed}");
}

/// One that a person has set since an earlier call counts.
#[test]
fn a_parameter_that_was_set_since_takes_the_place_of_the_replaced_one() {
    let root = root(&[("/run/ostree-booted", ""), ("/proc/cmdline", "isolcpus=1 nohz_full=1\n")]);
    let mut settings = BootSettings::default();
    settings.add_parameter("isolcpus=3");
    settings.add_parameter("nohz_full=3");
    persist(root.path(), &settings).unwrap();
    put(root.path(), "/proc/cmdline", "isolcpus=2 nohz_full=3\n");
    persist(root.path(), &settings).unwrap();
    let record = PersistRecord::read(root.path()).unwrap().unwrap();
    assert_eq!(record.replaced, ["isolcpus=2", "nohz_full=1"]);
}

#[test]
fn the_commands_of_earlier_settings_stay_on_record_where_later_ones_fail() {
    let root = root(&[("/run/ostree-booted", ""), ("/proc/cmdline", "isolcpus=1\n")]);
    let before = snapshot(root.path());
    let mut earlier = BootSettings::default();
    earlier.add_parameter("isolcpus=2");
    persist(root.path(), &earlier).unwrap();
    put(root.path(), "/etc/sysctl.d/90-onbeat.conf", "vm.swappiness = 1\n");
    assert!(matches!(persist(root.path(), &settings()), Err(PersistError::ForeignFile { .. })));

    fs::remove_dir_all(root.path().join("etc")).unwrap();
    let removed = remove(root.path(), UndoMode::Careful).unwrap();
    let command = "rpm-ostree kargs --delete-if-present=isolcpus=2 --append-if-missing=isolcpus=1";
    assert_eq!(removed.follow_ups[0].line(), command);
    assert_eq!(snapshot(root.path()), before);
}

/// grub-mkconfig reads the user's file and then the drop-ins by a shell.
#[test]
fn the_drop_in_for_grub_replaces_parameters_by_name() {
    let root = root(&DEBIAN);
    persist(root.path(), &settings()).unwrap();

    let script = ". ./etc/default/grub; . ./etc/default/grub.d/90-onbeat.cfg; \
        printf '%s|%s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"";
    let output =
        Command::new("sh").args(["-euc", script]).current_dir(root.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines, "rw |quiet isolcpus=managed_irq,domain,3 skew_tick=1");
}

#[test]
fn a_line_without_drop_ins_is_merged_between_markers() {
    let (_, files) = &machines()[1];
    let root = root(files);
    persist(root.path(), &settings()).unwrap();
    let line = "console=tty1 root=/dev/mmcblk0p2 rootwait onbeat.begin isolcpus=managed_irq,domain,3 skew_tick=1 onbeat.end\n";
    assert_eq!(text(root.path(), "/boot/firmware/cmdline.txt"), line);

    // A person adds a parameter; it stays.
    put(root.path(), "/boot/firmware/cmdline.txt", &line.replace("rootwait", "rootwait nosmt"));
    let removed = remove(root.path(), UndoMode::Careful).unwrap();
    assert!(
        removed
            .files
            .contains(&("/boot/firmware/cmdline.txt".to_owned(), RemovalOutcome::PartRemoved))
    );
    let rest = "console=tty1 root=/dev/mmcblk0p2 rootwait nosmt isolcpus=1\n";
    assert_eq!(text(root.path(), "/boot/firmware/cmdline.txt"), rest);
}

#[test]
fn the_files_hold_what_their_readers_expect() {
    let root = root(&DEBIAN);
    persist(root.path(), &settings()).unwrap();
    let has = |path: &str, line: &str| {
        let text = text(root.path(), path);
        assert!(text.lines().any(|found| found == line), "{path}: {line} is not in {text}");
    };

    has("/etc/sysctl.d/90-onbeat.conf", "kernel.timer_migration = 0");
    has(
        "/etc/tmpfiles.d/90-onbeat.conf",
        "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never",
    );

    has("/etc/systemd/system.conf.d/90-onbeat.conf", "CPUAffinity=0-2");
    has(
        "/etc/systemd/system/onbeat-apply.service",
        "ExecStart=/usr/bin/onbeat tune apply --yes /etc/onbeat/boot-plan.toml",
    );

    let link = root.path().join("etc/systemd/system/multi-user.target.wants/onbeat-apply.service");
    assert_eq!(
        fs::read_link(link).unwrap().to_str(),
        Some("/etc/systemd/system/onbeat-apply.service")
    );
}

#[test]
fn a_program_whose_path_has_blanks_is_one_word_of_its_unit() {
    let root = root(&DEBIAN);
    let mut settings = settings();
    settings.apply.as_mut().unwrap().program = "/opt/Müllers tools 5%/onbeat".to_owned();
    persist(root.path(), &settings).unwrap();
    let unit = text(root.path(), "/etc/systemd/system/onbeat-apply.service");
    let program = "\"/opt/Müllers tools 5%%/onbeat\"";
    assert!(unit.contains(&format!("ExecStart={program} tune apply --yes /etc/onbeat/")), "{unit}");
    assert!(unit.contains(&format!("ExecStop={program} tune undo\n")), "{unit}");
    // A unit whose program was removed is passed over, and has not failed.
    let condition = "ConditionFileIsExecutable=/opt/Müllers tools 5%%/onbeat\n";
    assert!(unit.contains(condition), "{unit}");
}

#[test]
fn settings_persisted_again_replace_the_earlier_ones() {
    let root = root(&DEBIAN);
    let before = snapshot(root.path());
    persist(root.path(), &settings()).unwrap();
    let mut other = BootSettings::default();
    other.sysctls.insert("vm.swappiness".to_owned(), "10".to_owned());
    let persisted = persist(root.path(), &other).unwrap();

    assert_eq!(persisted.files, ["/etc/sysctl.d/90-onbeat.conf"]);
    assert!(!root.path().join("etc/default/grub.d").exists());
    remove(root.path(), UndoMode::Careful).unwrap();
    assert_eq!(snapshot(root.path()), before);
}

/// The record is on disk first: whatever part of the files was written, removal leaves the original
/// tree.
#[test]
fn an_interrupted_persist_is_removed_at_every_step() {
    let (_, files) = &machines()[1];
    let whole = root(files);
    let before = snapshot(whole.path());
    let paths = persist(whole.path(), &settings()).unwrap().files;

    for written in 0..=paths.len() {
        let root = root(files);
        persist(root.path(), &settings()).unwrap();
        // As if it had been killed before the rest was written, in the middle of a write.
        for path in &paths[written..] {
            let place = root.path().join(path.trim_start_matches('/'));
            match files.iter().find(|(known, _)| known == path) {
                Some((_, original)) => fs::write(&place, original).unwrap(),
                None => fs::remove_file(&place).unwrap(),
            }
        }
        if let Some(path) = paths.get(written).filter(|path| !path.contains(".wants/")) {
            let place = root.path().join(path.trim_start_matches('/'));
            let name = format!(".{}.onbeat-new", place.file_name().unwrap().to_string_lossy());
            fs::write(place.with_file_name(name), "half").unwrap();
        }

        remove(root.path(), UndoMode::Careful).unwrap();
        assert_eq!(snapshot(root.path()), before, "{written} files written");
    }
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let root = root(&DEBIAN);
    // A file where a directory is needed.
    put(root.path(), "/etc/tmpfiles.d", "");
    let before = snapshot(root.path());
    assert!(persist(root.path(), &settings()).is_err());
    assert_eq!(snapshot(root.path()), before);
}

#[test]
fn files_that_others_wrote_or_changed_are_kept() {
    let root = root(&DEBIAN);
    put(root.path(), "/etc/sysctl.d/90-onbeat.conf", "vm.swappiness = 1\n");
    assert!(matches!(persist(root.path(), &settings()), Err(PersistError::ForeignFile { .. })));
    fs::remove_file(root.path().join("etc/sysctl.d/90-onbeat.conf")).unwrap();

    persist(root.path(), &settings()).unwrap();
    put(root.path(), "/etc/sysctl.d/90-onbeat.conf", "kernel.timer_migration = 1\n");
    let removed = remove(root.path(), UndoMode::Careful).unwrap();
    let changed = ("/etc/sysctl.d/90-onbeat.conf".to_owned(), RemovalOutcome::ChangedSince);
    assert!(removed.files.contains(&changed), "{removed:?}");
    assert_eq!(text(root.path(), "/etc/sysctl.d/90-onbeat.conf"), "kernel.timer_migration = 1\n");
    assert_eq!(PersistRecord::read(root.path()).unwrap().unwrap().files.len(), 1);
    assert!(matches!(persist(root.path(), &settings()), Err(PersistError::ChangedSince { .. })));

    let forced = remove(root.path(), UndoMode::Force).unwrap();
    assert_eq!(
        forced.files,
        [("/etc/sysctl.d/90-onbeat.conf".to_owned(), RemovalOutcome::Removed)]
    );
    assert_eq!(PersistRecord::read(root.path()).unwrap(), None);
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let outside = tempfile::tempdir().unwrap();
    let root = root(&DEBIAN);
    std::os::unix::fs::symlink(outside.path(), root.path().join("etc/sysctl.d")).unwrap();
    assert!(matches!(persist(root.path(), &settings()), Err(PersistError::OutsideRoot { .. })));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn texts_with_another_meaning_are_refused() {
    let with = |change: fn(&mut BootSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings.validate().unwrap_err()
    };

    let bad = [
        with(|settings| settings.add_parameter("quiet\"; reboot #")),
        with(|settings| settings.add_parameter("a=$(reboot)")),
        with(|settings| drop(settings.sysctls.insert("kernel.x\ny".to_owned(), "1".to_owned()))),
        with(|settings| {
            drop(settings.sysctls.insert("kernel.x".to_owned(), "1\ny = 2".to_owned()));
        }),
        with(|settings| drop(settings.sysfs.insert("/etc/passwd".to_owned(), "x".to_owned()))),
        with(|settings| {
            drop(settings.sysfs.insert("/sys/../etc/passwd".to_owned(), "x".to_owned()));
        }),
        with(|settings| settings.apply.as_mut().unwrap().program = "onbeat".to_owned()),
        with(|settings| settings.apply.as_mut().unwrap().program = "/bin/o\"nbeat".to_owned()),
        with(|settings| settings.apply.as_mut().unwrap().program = "/bin/onbeat (deleted)".into()),
    ];

    for error in bad {
        assert!(matches!(error, PersistError::BadText { .. }), "{error}");
    }

    assert!(matches!(BootSettings::default().validate(), Err(PersistError::Nothing)));
}

#[test]
fn later_files_that_set_the_same_value_are_named() {
    let root = root(&DEBIAN);
    put(
        root.path(),
        "/etc/sysctl.d/99-local.conf",
        "# own\nkernel.timer_migration=1\nvm.swappiness=1\n",
    );
    // Read before, hidden by the file of the same name in /etc, and not read at all.
    for path in
        ["lib/sysctl.d/50-default.conf", "lib/sysctl.d/99-local.conf", "lib/sysctl.d/99.bak"]
    {
        put(root.path(), &format!("/usr/{path}"), "kernel.timer_migration=1\n");
    }
    let persisted = persist(root.path(), &settings()).unwrap();
    assert_eq!(persisted.overridden, ["/etc/sysctl.d/99-local.conf: kernel.timer_migration=1"]);
}

#[test]
fn after_a_reboot_each_value_is_confirmed() {
    let root = root(&DEBIAN);
    put(root.path(), "/proc/cmdline", "root=/dev/sda quiet\n");
    put(root.path(), "/proc/sys/kernel/timer_migration", "1\n");
    put(root.path(), "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    put(root.path(), "/proc/1/status", "Name:\tsystemd\nCpus_allowed_list:\t0-3\n");
    let states = |root: &Path| {
        let states = confirm(root).unwrap().into_iter();
        states.map(|value| (value.name, value.state)).collect::<BTreeMap<_, _>>()
    };
    assert!(states(root.path()).is_empty());

    persist(root.path(), &settings()).unwrap();
    assert!(states(root.path()).values().all(|state| *state == ConfirmedState::AwaitsReboot));

    let disk = self::root(&DEBIAN);
    fs::remove_file(disk.path().join("proc/sys/kernel/random/boot_id")).unwrap();
    put(disk.path(), "/proc/cmdline", "quiet\n");
    persist(disk.path(), &settings()).unwrap();
    assert_eq!(states(disk.path())["skew_tick"], ConfirmedState::AwaitsReboot);

    put(root.path(), "/proc/sys/kernel/random/boot_id", "second\n");
    // Of two lists the kernel keeps the first, of other parameters the last.
    let line =
        "quiet skew_tick=1 isolcpus=managed_irq,domain,3 isolcpus=2 skew_tick=0 -- skew_tick=1\n";
    put(root.path(), "/proc/cmdline", line);
    put(root.path(), "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    put(root.path(), "/proc/1/status", "Name:\tsystemd\nCpus_allowed_list:\t0-2\n");
    fs::remove_file(root.path().join("proc/sys/kernel/timer_migration")).unwrap();
    let states = states(root.path());
    assert_eq!(states["isolcpus"], ConfirmedState::Holds);
    assert_eq!(states["skew_tick"], ConfirmedState::Differs);
    assert_eq!(states["CPUAffinity"], ConfirmedState::Holds);
    assert_eq!(states["kernel.timer_migration"], ConfirmedState::Unknown);
    assert_eq!(states["/sys/kernel/mm/transparent_hugepage/enabled"], ConfirmedState::Holds);
}

#[test]
fn records_of_a_profile_become_settings_and_the_rest_is_named_with_its_reason() {
    let machine = CapturedMachine::hardware();
    let tree = machine.tree();
    let setup = LoopSetup::on(LOOP_CPU.parse().unwrap());
    let survey = Survey::new(&tree, &setup);
    let (settings, rest) = BootSettings::from_records(&catalogue().profile("busy-poll"), &survey);

    settings.validate().unwrap();
    assert!(
        settings.kernel_parameters.contains(&"isolcpus=managed_irq,domain,3".to_owned()),
        "{settings:?}"
    );
    assert_eq!(settings.sysctls["kernel.timer_migration"], "0");
    assert_eq!(settings.sysfs["/sys/kernel/mm/transparent_hugepage/enabled"], "never");
    assert_eq!(
        settings.sysfs["/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"],
        "performance"
    );
    let why = |id: &str| rest.iter().find(|left| left.id == id).map(|left| left.why.as_str());
    assert_eq!(why("irq.affinity"), Some("needs a plan that is applied at boot"));

    let affinity = catalogue().get("shield.systemd_affinity").unwrap();
    let (settings, _) = BootSettings::from_records(&[affinity], &survey);
    assert_eq!(settings.service_cpus, Some("0-2".parse().unwrap()));
    assert!(settings.kernel_parameters.is_empty());
}
