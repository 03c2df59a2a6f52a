//! Guests of the user's, from a script or a libvirt definition: `make test-vm-own`.
//!
//! A small one has an initrd made here, which changes to a root in memory. The other one is Debian with
//! systemd, made by mmdebstrap once and kept for the versions of its packages. The study of it needs root. What
//! is missing is printed, and the test skipped.

use crate::test_lab;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use onbeat::import::Format;
use onbeat::record::RunFile;
use onbeat_lab::vm::{
    Archive, ForeignProbe, Free, Guest, GuestResult, Job, OwnGuest, RealTimeMachine, main_series,
};
use onbeat_tune::{HostFiles, LiveHost};
use test_lab::{BUSYBOX, RT, TestLab};

/// The first process of the small guest: it changes to a root in memory, as an initrd does.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /dev /new
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do insmod /lib/$module; done < /lib/order
mount -t tmpfs tmpfs /new
mkdir -p /new/bin /new/proc /new/dev
cp /bin/busybox /new/bin/
cp /bin/onbeat-guest /new/bin/ 2> /dev/null
cp /second /new/second
cp /cyclictest /cyclictest.txt /new/bin/
ln -s busybox /new/bin/sh
umount /proc
mount -o move /dev /new/dev
exec switch_root /new /second
";
/// What it becomes: a process that has started all it wants to, and waits.
const SECOND: &str = "#!/bin/busybox sh
echo yes > /booted
while :; do /bin/busybox sleep 1; done
";

/// What it becomes when a shell is on its console, as of a board without users.
const SHELL_ON_CONSOLE: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mkdir -p /sys
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox --install -s /bin
while :; do /bin/busybox setsid /bin/busybox sh -c 'exec sh -i < /dev/ttyS0 > /dev/ttyS0 2>&1'; done
";

/// A program of the guest's that measures: it prints what cyclictest has printed elsewhere.
const CYCLICTEST: &str = "#!/bin/sh\nexec /bin/busybox cat /bin/cyclictest.txt\n";
const PRINTED: &[u8] = include_bytes!("../../../onbeat/tests/import_files/cyclictest-h.txt");

/// The small guest, and what it has.
struct SmallGuest<'s> {
    /// What it becomes.
    second: &'s str,
    drivers: &'s [&'s str],
    /// Further words of its QEMU.
    line: &'s str,
    /// A program in its PATH.
    program: Option<&'s Path>,
}

impl SmallGuest<'_> {
    const DISK: Self =
        Self { second: SECOND, drivers: &["virtio_pci", "virtio_blk"], line: "", program: None };
    const WITH_SHELL: Self = Self { second: SHELL_ON_CONSOLE, ..Self::DISK };
}

fn small_guest(lab: &TestLab, directory: &Path) -> PathBuf {
    guest_with(lab, directory, &SmallGuest::DISK)
}

fn guest_with(lab: &TestLab, directory: &Path, has: &SmallGuest<'_>) -> PathBuf {
    let kernel = lab.kernel(RT);
    let mut archive = Archive::new();
    archive.program("init", INIT.into());
    archive.program("second", has.second.into());
    archive.program("cyclictest", CYCLICTEST.into());
    archive.file("cyclictest.txt", PRINTED.into());
    archive.program("bin/busybox", fs::read(BUSYBOX).expect("busybox"));
    if let Some(program) = has.program {
        let name = program.file_name().expect("a name").to_string_lossy().into_owned();
        archive.program(&format!("bin/{name}"), fs::read(program).expect("a program"));
    }
    let mut order = String::new();
    for module in kernel.modules(has.drivers).expect("modules") {
        let _ = writeln!(order, "{}.ko", module.name);
        archive.file(&format!("lib/{}.ko", module.name), module.content);
    }
    archive.file("lib/order", order.into());

    fs::write(directory.join("initrd"), archive.to_bytes()).expect("an initrd");
    fs::write(directory.join("disk.img"), vec![7; 1 << 20]).expect("a disk");
    let script = format!(
        "#!/bin/sh\nDISK=disk.img\nexec qemu-system-x86_64 -M q35,accel=kvm -m 512 -smp 2 \\\n \
         -kernel {} -initrd initrd -append 'quiet console=ttyS0' -drive file=$DISK,format=raw,if=virtio {} -nographic \"$@\"\n",
        kernel.vmlinux.display(),
        has.line
    );
    let path = directory.join("start.sh");
    fs::write(&path, script).expect("a script");
    path
}

fn ran(lab: &TestLab, own: &OwnGuest, job: &Job) -> GuestResult<Free> {
    let boot = own.boot(&lab.work, &lab.onbeat, Path::new(BUSYBOX)).expect("a boot image");
    let mut guest = Guest::new(boot, Free);
    guest.cpus = own.machine.cpus;
    guest.limit = std::time::Duration::from_secs(280);
    lab.run(&guest, job)
}

#[test]
fn a_job_runs_beside_the_guests_own_first_process_and_its_disk_stays_as_it_is() {
    let Some(lab) = TestLab::open() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let own = OwnGuest::from_script(&small_guest(&lab, directory.path())).expect("a guest");
    assert_eq!((own.machine.cpus, own.machine.memory_mib), (2, 512));

    let mut job = Job::new();
    let seen = "cat /proc/1/root/booted; nproc; head -c 1 /dev/vda | od -An -tu1; dd if=/dev/zero of=/dev/vda bs=512 count=1 \
         conv=fsync && head -c 1 /dev/vda | od -An -tu1; ls /proc/1/root";
    job.command(["sh", "-c", seen]);
    let result = ran(&lab, &own, &job);
    let output = String::from_utf8_lossy(result.file("output").expect("its output")).into_owned();
    let words: Vec<&str> = output.split_whitespace().collect();
    assert_eq!(words[..4], ["yes", "2", "7", "0"], "{output}");
    assert!(!output.contains("onbeat"), "nothing of the agent is in the guest's root: {output}");

    let disk = fs::read(directory.path().join("disk.img")).expect("the disk");
    assert!(disk == vec![7; 1 << 20], "the guest has written to it, and it is as it was");
}

#[test]
fn a_run_of_onbeat_in_the_guest_comes_back_with_its_run_file() {
    let Some(lab) = TestLab::open() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let own = OwnGuest::from_script(&small_guest(&lab, directory.path())).expect("a guest");
    let words = ["measure", "latency", "--for", "500ms", "--no-causes"];
    let result = ran(&lab, &own, &Job::recorded(words));
    let file = result.run_files().next().expect("a run file");
    assert!(file.content.len() > 1000, "{} bytes", file.content.len());
}

#[test]
fn a_program_of_the_guest_measures_and_the_importer_reads_its_output() {
    let Some(lab) = TestLab::open() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let own = OwnGuest::from_script(&small_guest(&lab, directory.path())).expect("a guest");
    let words = ["cyclictest", "-h", "60"].map(str::to_owned).to_vec();
    let probe = ForeignProbe { words, format: Format::Cyclictest };
    let mut result = ran(&lab, &own, &probe.job(true));
    result.import(&probe).expect("run files");

    let figures: Vec<(u64, u64)> = result
        .run_files()
        .map(|file| RunFile::parse(Path::new(&file.path), &file.content).expect("a run file"))
        .map(|run| run.moments(main_series(&run)))
        .map(|moments| (moments.n, moments.max_ns))
        .collect();
    assert_eq!(figures, [(2_000, 896_000), (1_993, 770_000)], "as `onbeat import` reads them");

    // From the command line, which prints no latency by the free clock.
    let words = "run --qemu start.sh --clock free --as cyclictest -- cyclictest -h 60";
    let words: Vec<&str> = words.split(' ').collect();
    let text = onbeat(&lab, &words, directory.path());
    assert!(text.contains("No latencies"), "{text}");
}

#[test]
fn a_shell_on_the_serial_console_starts_the_agent_from_a_disk_of_its_own() {
    let Some(lab) = TestLab::open() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let script = guest_with(&lab, directory.path(), &SmallGuest::WITH_SHELL);
    let login = Some(("root".to_owned(), None));
    let own = OwnGuest::from_script(&script).expect("a guest");
    let own = own.with_login_of(login.as_ref()).expect("no password");

    let mut job = Job::new();
    let seen = "grep -o rdinit /proc/cmdline; echo $ONBEAT_CLOCK; head -c 1 /dev/vda | od -An -tu1; ls /proc/1/root/run";
    job.command(["sh", "-c", seen]);
    job.command([
        "onbeat",
        "measure",
        "latency",
        "--for",
        "300ms",
        "--no-causes",
        "--out",
        "/tmp/runs",
    ]);
    job.collect("/tmp/runs");
    let result = ran(&lab, &own, &job);
    result.succeeded().expect("the job");
    let output = String::from_utf8_lossy(result.file("output").expect("its output")).into_owned();
    let first: Vec<&str> = output.split_whitespace().take(3).collect();
    assert_eq!(first, ["free", "7", "onbeat"], "its disks keep their names: {output}");
    let file = result.run_files().next().expect("a run file");
    let run = RunFile::parse(Path::new(&file.path), &file.content).expect("a run file");
    assert_eq!(run.header.host.fact("clock"), Some("free"));
}

#[test]
fn a_guest_without_a_driver_for_that_disk_gets_the_agent_by_what_it_has() {
    let Some(lab) = TestLab::open() else { return };
    let agent = lab.onbeat.with_file_name("onbeat-guest");
    if !agent.exists() {
        println!(
            "skipped: no agent at {}: the whole program takes minutes by a console",
            agent.display()
        );
        return;
    }
    let shell = || SmallGuest { drivers: &[], ..SmallGuest::WITH_SHELL };
    let share = "-virtfs local,path=.,mount_tag=mine,security_model=none";
    let guests = [
        (
            SmallGuest { drivers: &["virtio_pci", "9pnet_virtio", "9p"], line: share, ..shell() },
            "onbeat: agent",
        ),
        (SmallGuest { drivers: &["virtio_pci", "virtio_console"], ..shell() }, "onbeat: by port"),
        (SmallGuest { program: Some(&agent), ..shell() }, "onbeat: by console onbeat-guest"),
        (shell(), "onbeat: by console\n"),
    ];
    for (has, said) in guests {
        let directory = tempfile::tempdir().expect("a directory");
        guest_with(&lab, directory.path(), &has);
        let (before, behind) = (
            "run --qemu start.sh --login root --clock free --out o --onbeat",
            "-- measure latency --for 300ms --period 3ms --no-causes",
        );
        let named = agent.display().to_string();
        let words = before.split(' ').chain([named.as_str()]).chain(behind.split(' '));
        let text = onbeat(&lab, &words.collect::<Vec<_>>(), directory.path());
        assert!(text.contains("exit status 0"), "{said}: {text}");
        let kept = fs::read_dir(directory.path().join("o")).expect("a directory").flatten().next();
        let console = kept.expect("what the guest left").path().join("console.log");
        let console = fs::read_to_string(console).expect("the console").replace('\r', "");
        assert!(console.contains(said), "{said}: {console}");
        let is_by_console = console.contains("onbeat+");
        assert_eq!(is_by_console, said.contains("console"), "{said}: {console}");
    }
}

#[test]
fn a_laboratory_and_a_trace_take_the_guest_too() {
    let Some(lab) = TestLab::open() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    small_guest(&lab, directory.path());
    let file = "kernels = [{ name = \"mine\", qemu = \"start.sh\" }]\nclock = \"free\"\ntunings = [\"none\", \"P\"]\n\
         duration_ms = 300\n";
    fs::write(directory.path().join("lab.toml"), file).expect("a file");
    let text = onbeat(&lab, &["lab", "lab.toml"], directory.path());
    assert!(text.contains("2 guests to run") && text.contains("mine"), "{text}");
    let text = onbeat(&lab, &["lab", "lab.toml"], directory.path());
    assert!(text.contains("0 guests to run, 2 experiments are stored"), "{text}");

    let virtual_time = file.replace("free", "virtual");
    fs::write(directory.path().join("virtual.toml"), virtual_time).expect("a file");
    let refused = status_of(&lab, &["lab", "virtual.toml", "--verify"], directory.path());
    assert!(refused.1.contains("it sends other bytes each time"), "{}", refused.1);
    assert_eq!(refused.0, Some(2));

    if !LiveHost::new().is_root() {
        println!("skipped: recording the host takes root");
        return;
    }
    let words = "trace --qemu start.sh --clock free --events all --out t --json -- measure latency --period 5ms --for 1s";
    let words: Vec<&str> = words.split(' ').collect();
    let text = onbeat(&lab, &words, directory.path());
    let object = &text[..=text.rfind('}').expect("an object")];
    let object: serde_json::Value = serde_json::from_str(object).expect("JSON");
    // A loop of 200 cycles has a switch to it and one away, each.
    assert!(object["guest_events"].as_u64() > Some(400), "{text}");
    assert_eq!(object["events_off_cpu"], 0, "{text}");
    assert_eq!(object["contradicted_exchanges"], 0, "{text}");
}

/// A Debian guest with systemd and a kernel of each kind.
struct DebianGuest {
    directory: PathBuf,
    kernels: Vec<String>,
}

/// Of its root.
const PASSWORD: &str = "only for tests";
const PACKAGES: &str = "linux-image-amd64,linux-image-rt-amd64,systemd,systemd-sysv,kmod";

impl DebianGuest {
    /// `None`, with the reason on standard output, where it cannot be made.
    fn open(lab: &TestLab) -> Option<Self> {
        let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !has("mmdebstrap") || !has("mke2fs") {
            println!("skipped: mmdebstrap and mke2fs are not both installed");
            return None;
        }
        let directory = lab.work.path.join("debian").join(versions());
        if !directory.join("disk.img").is_file() {
            make(&directory);
        }
        let boot = fs::read_dir(directory.join("boot")).expect("kernels").flatten();
        let names = boot.filter_map(|entry| entry.file_name().into_string().ok());
        let kernels = names.filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_owned()));
        Some(Self { kernels: kernels.collect(), directory })
    }

    fn line(&self, release: &str) -> [String; 3] {
        let at = |name: String| self.directory.join(name).display().to_string();
        [
            at(format!("boot/vmlinuz-{release}")),
            at(format!("boot/initrd.img-{release}")),
            at("disk.img".into()),
        ]
    }

    fn script(&self, release: &str, into: &Path) {
        let [kernel, initrd, disk] = self.line(release);
        let script = format!(
            "#!/bin/sh\nexec taskset -c 1 qemu-system-x86_64 -M q35,accel=kvm -cpu host -smp 2 -m 1024 -kernel {kernel} -initrd {initrd} \\\n\
             -drive file={disk},if=virtio,format=raw -netdev user,id=n -device virtio-net-pci,netdev=n \\\n\
             -append 'root=/dev/vda rw console=ttyS0' -nographic\n"
        );
        fs::write(into, script).expect("a script");
    }

    fn domain(&self, release: &str, into: &Path) {
        let [kernel, initrd, disk] = self.line(release);
        let xml = format!(
            "<domain type='kvm'><name>robot</name><memory unit='MiB'>1024</memory><vcpu>2</vcpu><os><type arch='x86_64' \
             machine='q35'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd><cmdline>root=/dev/vda rw</cmdline></os>\
             <devices><disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{disk}'/><target dev='vda' \
             bus='virtio'/></disk><interface type='user'><model type='virtio'/></interface></devices></domain>"
        );
        fs::write(into, xml).expect("a definition");
    }

    /// A disc whose boot loader starts this kernel; `false` where none can be made.
    fn boot_disc(&self, release: &str, into: &Path) -> bool {
        let tree = into.join("disc");
        let loader = tree.join("isolinux");
        fs::create_dir_all(&loader).expect("a directory");
        let [kernel, initrd, _] = self.line(release);
        fs::copy(kernel, tree.join("vmlinuz")).expect("a kernel");
        fs::copy(initrd, tree.join("initrd")).expect("an initrd");
        let parts =
            ["/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"];
        for part in parts.map(Path::new) {
            if fs::copy(part, loader.join(part.file_name().expect("a name"))).is_err() {
                return false;
            }
        }
        let menu = "DEFAULT linux\nLABEL linux\n KERNEL /vmlinuz\n INITRD /initrd\n APPEND root=/dev/vda rw console=ttyS0\n";
        fs::write(loader.join("isolinux.cfg"), menu).expect("a menu");
        let line = "-as mkisofs -quiet -o boot.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 \
             -boot-info-table disc";
        let made = Command::new("xorriso").args(line.split_whitespace()).current_dir(into).status();
        made.is_ok_and(|status| status.success())
    }

    fn disk(&self) -> String {
        let output = Command::new("sha256sum").arg(self.directory.join("disk.img")).output();
        String::from_utf8(output.expect("sha256sum").stdout).expect("a checksum")
    }
}

/// The versions that would be installed, as a name.
fn versions() -> String {
    let output = Command::new("apt-cache").arg("policy").args(PACKAGES.split(',')).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let versions = text.lines().filter_map(|line| line.trim().strip_prefix("Candidate: "));
    versions.chain(["with-password"]).collect::<Vec<_>>().join("_").replace(['/', ':'], "-")
}

fn make(directory: &Path) {
    let partial = directory.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).expect("a directory");
    let root = partial.join("root");
    let include = format!("--include={PACKAGES}");
    let made = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", &include])
        .arg(format!("--customize-hook=echo 'root:{PASSWORD}' | chroot \"$1\" chpasswd"))
        .arg("bookworm")
        .arg(&root)
        .status();
    assert!(made.expect("mmdebstrap").success(), "a root of Debian");
    let copied = Command::new("cp").arg("-R").arg(root.join("boot")).arg(&partial).status();
    assert!(copied.expect("cp").success(), "its kernels");
    let disk = partial.join("disk.img");
    let filled = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-d"])
        .arg(&root)
        .arg(&disk)
        .arg("2500M")
        .status();
    assert!(filled.expect("mke2fs").success(), "a file system");
    fs::remove_dir_all(&root).expect("room");
    fs::rename(&partial, directory).expect("a guest");
}

/// Runs `onbeat vm` with these words, the agent in its guests where it lies beside the program, and returns its output and its messages.
fn onbeat(lab: &TestLab, words: &[&str], directory: &Path) -> String {
    let (status, text) = status_of(lab, words, directory);
    assert!(matches!(status, Some(0 | 3)), "{status:?}: {text}");
    text
}

fn status_of(lab: &TestLab, words: &[&str], directory: &Path) -> (Option<i32>, String) {
    let output = Command::new(&lab.onbeat)
        .args(["vm", words[0]])
        .arg("--work")
        .arg(&lab.work.path)
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .expect("onbeat");
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .join("\n");
    (output.status.code(), text)
}

const STUDY: &str = "runs = 1\nduration_s = 2\nprice_settings = false\ncommands = 20\nclock = \"free\"\n\
     loads = [{ name = \"idle\" }]\n";

#[test]
fn a_definition_written_from_a_script_is_valid_and_boots() {
    let Some(lab) = TestLab::open() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let script = small_guest(&lab, directory.path());
    let own = OwnGuest::from_script(&script).expect("a guest");
    let cpus = "1".parse().expect("a list");
    let machine = RealTimeMachine::tuned(2, 512, &cpus, &"0".parse().expect("a list"));
    let xml = machine.expect("a machine").to_libvirt_xml(Some(&own));
    for element in ["<kernel>", "<disk type='file'", "<console", "<rng", "<locked/>", "<vcpupin"] {
        assert!(xml.contains(element), "{element}: {xml}");
    }
    let path = directory.path().join("robot.xml");
    fs::write(&path, &xml).expect("a definition");
    match Command::new("virt-xml-validate").arg(&path).arg("domain").output() {
        Ok(output) => {
            assert!(output.status.success(), "{}{xml}", String::from_utf8_lossy(&output.stderr));
        }
        Err(_) => println!("skipped in part: virt-xml-validate is not installed (libvirt-clients)"),
    }

    let mut job = Job::new();
    job.command(["sh", "-c", "cat /proc/1/root/booted; head -c 1 /dev/vda | od -An -tu1"]);
    let result = ran(&lab, &OwnGuest::from_domain(&path).expect("a guest"), &job);
    let output = String::from_utf8_lossy(result.file("output").expect("its output")).into_owned();
    assert_eq!(output.split_whitespace().collect::<Vec<_>>(), ["yes", "7"]);
}

#[test]
fn debian_with_either_kernel_goes_through_a_study_from_a_script_and_from_a_definition() {
    let Some(lab) = TestLab::open() else { return };
    let Some(debian) = DebianGuest::open(&lab) else { return };
    if !LiveHost::new().is_root() {
        println!("skipped: a study needs root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("study.toml"), STUDY).expect("a study");
    let disk = debian.disk();
    assert_eq!(debian.kernels.len(), 2, "{:?}", debian.kernels);
    for release in &debian.kernels {
        debian.script(release, &directory.path().join("start.sh"));
        debian.domain(release, &directory.path().join("robot.xml"));
        for (option, file) in [("--qemu", "start.sh"), ("--domain", "robot.xml")] {
            let out = format!("{release}{option}");
            let words = ["study", "study.toml", option, file, "--out", &out];
            let text = onbeat(&lab, &words, directory.path());
            for row in ["guest, untuned", "guest, after host", "guest, after qemu"] {
                let ended = text.lines().any(|line| line.starts_with(row) && line.ends_with('1'));
                let answered =
                    text.lines().any(|line| line.starts_with(row) && line.ends_with("20/20"));
                assert!(ended && answered, "{release} {option} {row}: {text}");
            }
        }
    }
    assert_eq!(debian.disk(), disk, "the image is byte by byte as before");
}

#[test]
fn a_guest_that_its_boot_loader_starts_is_measured_after_a_login() {
    let Some(lab) = TestLab::open() else { return };
    let Some(debian) = DebianGuest::open(&lab) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let Some(release) = debian.kernels.iter().find(|release| !release.contains("rt")) else {
        panic!("no kernel without PREEMPT_RT among {:?}", debian.kernels);
    };
    if !debian.boot_disc(release, directory.path()) {
        println!("skipped: isolinux and xorriso are not both installed");
        return;
    }
    let [_, _, disk] = debian.line(release);
    let script = format!(
        "exec qemu-system-x86_64 -M q35,accel=kvm -cpu host -smp 2 -m 1024 -cdrom boot.iso -boot d \\\n\
         -drive file={disk},if=virtio,format=raw -netdev user,id=n -device virtio-net-pci,netdev=n -nographic\n"
    );
    fs::write(at("start.sh"), script).expect("a script");
    fs::write(at("right"), format!("{PASSWORD}\n")).expect("a file");
    fs::write(at("wrong"), "another\n").expect("a file");

    let line = |file: &str| {
        format!(
            "run --qemu start.sh --login root --password-file {file} --clock free -- cat /proc/cmdline"
        )
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let said = |line: &str| {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        status_of(&lab, &words, directory.path())
    };
    let (status, text) = said(&line("right"));
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("BOOT_IMAGE=/vmlinuz root=/dev/vda") && !text.contains("rdinit"),
        "{text}"
    );
    let (status, text) = said(&line("wrong"));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("the guest refused the login of root"), "{text}");
    let (status, text) = said("run --qemu start.sh --clock free -- true");
    assert!(status == Some(2) && text.contains("--login root"), "{text}");
}
