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

/// A program of the guest's that measures: it prints what cyclictest has printed elsewhere.
const CYCLICTEST: &str = "#!/bin/sh\nexec /bin/busybox cat /bin/cyclictest.txt\n";
const PRINTED: &[u8] = include_bytes!("../../../onbeat/tests/import_files/cyclictest-h.txt");

fn small_guest(lab: &TestLab, directory: &Path) -> PathBuf {
    let kernel = lab.kernel(RT);
    let mut archive = Archive::new();
    archive.program("init", INIT.into());
    archive.program("second", SECOND.into());
    archive.program("cyclictest", CYCLICTEST.into());
    archive.file("cyclictest.txt", PRINTED.into());
    archive.program("bin/busybox", fs::read(BUSYBOX).expect("busybox"));
    let mut order = String::new();
    for module in kernel.modules(&["virtio_pci", "virtio_blk"]).expect("modules") {
        let _ = writeln!(order, "{}.ko", module.name);
        archive.file(&format!("lib/{}.ko", module.name), module.content);
    }
    archive.file("lib/order", order.into());

    fs::write(directory.join("initrd"), archive.to_bytes()).expect("an initrd");
    fs::write(directory.join("disk.img"), vec![7; 1 << 20]).expect("a disk");
    let script = format!(
        "#!/bin/sh\nDISK=disk.img\nexec qemu-system-x86_64 -M q35,accel=kvm -m 512 -smp 2 \\\n \
         -kernel {} -initrd initrd -append 'quiet' -drive file=$DISK,format=raw,if=virtio -nographic \"$@\"\n",
        kernel.vmlinux().display()
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

/// A Debian guest with systemd and a kernel of each kind.
struct DebianGuest {
    directory: PathBuf,
    kernels: Vec<String>,
}

const PACKAGES: &str = "linux-image-amd64,linux-image-rt-amd64,systemd,systemd-sysv,kmod";

impl DebianGuest {
    /// `None`, with the reason on standard output, where it cannot be made.
    fn open(lab: &TestLab) -> Option<Self> {
        let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !has("mmdebstrap") || !has("mke2fs") {
            println!("skipped: mmdebstrap and mke2fs are not both installed");
            return None;
        }
        let directory = lab.work.path().join("debian").join(versions());
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
    versions.collect::<Vec<_>>().join("_").replace(['/', ':'], "-")
}

fn make(directory: &Path) {
    let partial = directory.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).expect("a directory");
    let root = partial.join("root");
    let include = format!("--include={PACKAGES}");
    let made = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", &include, "bookworm"])
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

/// Runs `onbeat vm` with these words, and returns its output and its messages.
fn onbeat(lab: &TestLab, words: &[&str], directory: &Path) -> String {
    let output = Command::new(&lab.onbeat)
        .arg("vm")
        .args(words)
        .arg("--work")
        .arg(lab.work.path())
        .arg("--onbeat")
        .arg(&lab.onbeat)
        .current_dir(directory)
        .output()
        .expect("onbeat");
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .join("\n");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {text}", output.status);
    text
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
    if !onbeat_tune::HostFiles::is_root(&onbeat_tune::LiveHost::new()) {
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
