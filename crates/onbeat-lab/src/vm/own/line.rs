//! A user's options of QEMU, and what becomes of each.

use std::io::Read;
use std::path::{Path, PathBuf};

use onbeat_host::foreign;
use onbeat_tune::lint::qemu_line::{QemuLineOption, mebibytes};

use super::super::libvirt::escaped;
use super::super::qemu::in_option;
use super::{OwnCard, OwnDisk, OwnGuest, OwnGuestError, OwnMachine};

/// Options that a run replaces: screen, consoles, monitors, and how QEMU itself runs.
const REPLACED: &str = "nographic display sdl gtk vnc spice curses full-screen serial parallel \
    monitor mon qmp qmp-pretty daemonize pidfile name D d S s gdb snapshot no-reboot no-shutdown \
    action icount rtc seed runas chroot sandbox incoming loadvm msg trace";
/// Options whose whole argument is a file.
const FILES: [&str; 11] =
    ["hda", "hdb", "hdc", "hdd", "cdrom", "fda", "fdb", "pflash", "mtdblock", "bios", "sd"];
/// Options with a file under one of these keys.
const WITH_FILES: [(&str, &[&str]); 4] = [
    ("drive", &["file", "file.filename"]),
    ("fsdev", &["path"]),
    ("virtfs", &["path"]),
    ("object", &["mem-path"]),
];
/// Why an option is refused that can say `snapshot=off`.
const BEFORE_SNAPSHOT: &str = "it can take a disk out of QEMU's -snapshot, so that the guest writes \
    to the disk; write its settings as -drive and others";
/// Options whose meaning a libvirt definition has, in elements of its own or by itself.
const DEFINED: &str = "smp m drive hda hdb hdc hdd cdrom netdev nic device bios boot k nodefaults \
    no-user-config no-hpet vga usb mem-prealloc mem-path overcommit";
/// Devices that libvirt adds by itself, or that a real-time guest is without.
const USUAL_DEVICES: [&str; 5] = ["virtio-scsi", "virtio-rng", "virtio-balloon", "pci", "ioh3420"];
/// The bus of a disk by the model of its device.
const BUSES: [(&str, &str); 3] = [("virtio-blk", "virtio"), ("scsi-", "scsi"), ("ide-", "ide")];
/// What QEMU's own format begins with.
const QCOW2: [u8; 4] = *b"QFI\xfb";
/// Keys of `-machine` that only KVM has.
const OF_KVM: [&str; 3] = ["accel", "kernel_irqchip", "kernel-irqchip"];
/// QEMU's own default.
const DEFAULT_MEMORY_MIB: u32 = 128;

/// A user's guest from the options of its script or domain at `path`.
pub(super) fn own_guest(
    options: Vec<QemuLineOption>,
    path: &Path,
) -> Result<OwnGuest, OwnGuestError> {
    let machine = OwnMachine { cpus: 1, memory_mib: DEFAULT_MEMORY_MIB, ..OwnMachine::default() };
    let mut reader = LineReader {
        directory: path.parent().map(Path::to_owned).unwrap_or_default(),
        own: OwnGuest { machine, path: path.to_owned(), ..OwnGuest::default() },
        ..LineReader::default()
    };
    for option in options {
        reader.take(option)?;
    }
    for disk in &mut reader.own.disks {
        let device = disk.id.as_deref().and_then(|id| device_of(&reader.devices, id));
        let Some(device) = device else { continue };
        disk.interface = bus_of(device).unwrap_or(&disk.interface).to_owned();
        disk.is_cdrom |= model_of(device).ends_with("-cd");
    }
    let undefined = reader.undefined();
    Ok(OwnGuest { changes: reader.changes(), cards: reader.cards(), undefined, ..reader.own })
}

#[derive(Default)]
struct LineReader {
    /// That of the script.
    directory: PathBuf,
    /// Without its changes and cards.
    own: OwnGuest,
    replaced: Vec<String>,
    read_only: bool,
    has_disk: bool,
    has_memory_file: bool,
    /// Arguments of `-device`.
    devices: Vec<String>,
    /// Arguments of `-netdev` and `-nic`.
    networks: Vec<String>,
    /// Options without a counterpart in a libvirt definition.
    others: Vec<String>,
}

impl LineReader {
    fn take(&mut self, option: QemuLineOption) -> Result<(), OwnGuestError> {
        let QemuLineOption { name, argument } = option;
        let value = argument.clone().unwrap_or_default();
        match name.as_str() {
            "kernel" => self.own.kernel = Some(self.file("-kernel", &value)?),
            // Several archives are separated by commas only for multiboot kernels.
            "initrd" => self.own.initrd = Some(self.file("-initrd", &value)?),
            "append" => self.own.machine.append = value,
            "accel" | "enable-kvm" | "cpu" => self.processor(&name, argument),
            "M" | "machine" => self.machine_type(&value),
            "blockdev" => {
                let why = "QEMU's -snapshot does not cover it; write -drive file=…,format=…,if=…";
                return Err(OwnGuestError::Option { option: format!("-blockdev {value}"), why });
            }
            _ if name == "readconfig" || name == "set" && value.starts_with("drive.") => {
                let option = format!("-{name} {value}");
                return Err(OwnGuestError::Option { option, why: BEFORE_SNAPSHOT });
            }
            _ if REPLACED.split(' ').any(|known| known == name) => {
                self.replaced.push(format!("-{name}"));
            }
            _ => {
                self.count(&name, &value);
                let value = self.with_files(&name, &value)?;
                self.note(&name, &value);
                if !DEFINED.split(' ').any(|known| known == name) {
                    self.others.push(format!("-{name} {value}").trim_end().to_owned());
                }
                self.own.machine.words.push(format!("-{name}"));
                self.own.machine.words.extend(argument.map(|_| value));
            }
        }
        Ok(())
    }

    fn processor(&mut self, name: &str, argument: Option<String>) {
        self.own.machine.processor.push(format!("-{name}"));
        self.own.machine.processor.extend(argument);
    }

    /// `-machine q35,accel=kvm`: the accelerator is the clock's.
    fn machine_type(&mut self, value: &str) {
        let is_of_kvm =
            |piece: &&str| piece.split_once('=').is_some_and(|(key, _)| OF_KVM.contains(&key));
        let (of_kvm, rest): (Vec<&str>, Vec<&str>) = value.split(',').partition(is_of_kvm);
        let is_other = |piece: &&&str| {
            (!piece.contains('=') || piece.starts_with("type=")) && !piece.contains("q35")
        };
        if let Some(model) = rest.iter().find(is_other) {
            self.others.push(format!("-machine {model} (q35 instead)"));
        }
        if !rest.is_empty() {
            self.own.machine.words.extend(["-machine".to_owned(), rest.join(",")]);
        }
        if !of_kvm.is_empty() {
            self.processor("machine", Some(of_kvm.join(",")));
        }
    }

    /// Takes the numbers of `-smp` and `-m`, which stay as they are.
    fn count(&mut self, name: &str, value: &str) {
        match name {
            "smp" => self.own.machine.cpus = cpus(value).unwrap_or(1),
            "m" => {
                let size = value.split(',').find_map(|piece| match piece.split_once('=') {
                    None => mebibytes(piece),
                    Some(("size", size)) => mebibytes(size),
                    Some(_) => None,
                });
                let size = size.and_then(|mib| u32::try_from(mib).ok());
                self.own.machine.memory_mib = size.unwrap_or(DEFAULT_MEMORY_MIB);
            }
            _ => {}
        }
    }

    /// The argument with its files found, and a shared directory read-only.
    fn with_files(&mut self, name: &str, value: &str) -> Result<String, OwnGuestError> {
        let option = format!("-{name}");
        if FILES.contains(&name) {
            self.has_disk |= name != "bios";
            return Ok(self.file(&option, value)?.display().to_string());
        }
        let Some((_, keys)) = WITH_FILES.iter().find(|(of, _)| *of == name) else {
            return Ok(value.to_owned());
        };

        let mut pieces = Vec::new();
        for piece in pieces_of(value) {
            pieces.push(match piece.split_once('=') {
                Some((key, file)) if keys.contains(&key) => {
                    let file = self.file(&option, &file.replace(",,", ","))?;
                    format!("{key}={}", in_option(&file))
                }
                _ => piece.to_owned(),
            });
        }
        if name == "drive" {
            self.has_disk = true;
            // `snapshot=off` would go before -snapshot, and the guest would write to the disk.
            pieces.retain(|piece| !piece.starts_with("snapshot=") && piece != "nosnapshot");
        }
        if ["fsdev", "virtfs"].contains(&name) {
            pieces.retain(|piece| !piece.starts_with("readonly"));
            pieces.push("readonly=on".to_owned());
            self.read_only = true;
        }
        // Such as an NVDIMM, which -snapshot does not cover either; what is in /dev/shm is exchanged
        // with other programs.
        let is_kept = |path: &str| !path.starts_with("/dev/shm/") && Path::new(path).is_file();
        let memory = pieces.iter().find_map(|piece| piece.strip_prefix("mem-path="));
        if name == "object" && memory.is_some_and(|path| is_kept(&path.replace(",,", ","))) {
            pieces.retain(|piece| !piece.starts_with("share="));
            pieces.push("share=off".to_owned());
            self.has_memory_file = true;
        }
        Ok(pieces.join(","))
    }

    /// A file by its absolute path; what QEMU opens by a protocol stays as it is.
    fn file(&mut self, option: &str, file: &str) -> Result<PathBuf, OwnGuestError> {
        let is_protocol = file
            .split_once(':')
            .is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
        if is_protocol && !Path::new(file).exists() {
            return Ok(file.into());
        }
        let here = std::env::current_dir().unwrap_or_default();
        let places = [here.join(file), here.join(&self.directory).join(file)];
        let found = places.into_iter().find(|path| path.exists());
        self.own.machine.files.extend(found.clone());
        found.ok_or_else(|| OwnGuestError::NoFile {
            option: option.to_owned(),
            file: file.to_owned(),
            directory: here.join(&self.directory),
        })
    }

    /// Notes what a libvirt definition says in elements of its own.
    fn note(&mut self, name: &str, value: &str) {
        match name {
            "drive" => {
                let key = |wanted: &str| value_of(value, wanted).map(str::to_owned);
                let Some(file) = key("file").or_else(|| key("file.filename")) else { return };
                let file = PathBuf::from(file.replace(",,", ","));
                if key("if").as_deref() == Some("pflash") {
                    let (open, close) = match self.own.loader.len() {
                        0 => ("loader readonly='yes' type='pflash'", "loader"),
                        _ => ("nvram", "nvram"),
                    };
                    self.load(open, &file, close);
                    return;
                }
                self.own.disks.push(OwnDisk {
                    format: key("format")
                        .or_else(|| key("driver"))
                        .unwrap_or_else(|| probed_format(&file)),
                    file,
                    interface: key("if").unwrap_or_else(|| "ide".to_owned()),
                    is_cdrom: key("media").as_deref() == Some("cdrom"),
                    id: key("id"),
                });
            }
            "bios" => self.load("loader type='rom'", Path::new(value), "loader"),
            "hda" | "hdb" | "hdc" | "hdd" | "cdrom" => self.own.disks.push(OwnDisk {
                file: value.into(),
                format: probed_format(Path::new(value)),
                interface: "ide".to_owned(),
                is_cdrom: name == "cdrom",
                id: None,
            }),
            "device" => self.devices.push(value.to_owned()),
            "netdev" | "nic" => self.networks.push(value.to_owned()),
            _ => {}
        }
    }

    /// Notes a file of the firmware as an element of `<os>`.
    fn load(&mut self, open: &str, file: &Path, close: &str) {
        let file = escaped(&file.display().to_string());
        self.own.loader.push(format!("<{open}>{file}</{close}>"));
    }

    /// What a libvirt definition of the guest does not have.
    fn undefined(&self) -> Vec<String> {
        let is_undefined = |device: &&String| {
            let model = model_of(device);
            let is_disk = value_of(device, "drive").is_some() && bus_of(device).is_some();
            let is_card = value_of(device, "netdev").is_some();
            !is_disk && !is_card && !USUAL_DEVICES.iter().any(|usual| model.starts_with(usual))
        };
        let devices = self.devices.iter().filter(is_undefined);
        let is_other = |network: &&String| {
            !["user", "bridge", "none"].iter().any(|known| network.starts_with(known))
        };
        let networks = self.networks.iter().filter(is_other);
        devices
            .map(|device| format!("-device {device}"))
            .chain(networks.map(|network| format!("{network} (user networking instead)")))
            .chain(self.others.iter().cloned())
            .collect()
    }

    /// The network cards: a `-device` for each `-netdev`, or `-nic` with both.
    fn cards(&self) -> Vec<OwnCard> {
        let card = |network: &String| {
            let id = value_of(network, "id");
            let is_of = |device: &&String| id.is_some() && value_of(device, "netdev") == id;
            let device =
                self.devices.iter().find(is_of).and_then(|device| device.split(',').next());
            let model = device.or_else(|| value_of(network, "model")).unwrap_or("e1000");
            let bridge = network.starts_with("bridge").then(|| value_of(network, "br"));
            OwnCard {
                model: model.to_owned(),
                bridge: bridge.map(|bridge| bridge.unwrap_or("br0").to_owned()),
            }
        };
        self.networks.iter().filter(|network| *network != "none").map(card).collect()
    }

    fn changes(&self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.has_disk {
            changes.push("disks: by -snapshot; what the guest writes is gone with it".to_owned());
        }
        if self.has_memory_file {
            changes.push("memory in files: share=off; what the guest writes is gone".to_owned());
        }
        if self.read_only {
            changes.push("shared directories: readonly=on".to_owned());
        }
        if !self.replaced.is_empty() {
            let replaced = self.replaced.join(" ");
            changes.push(format!("replaced by files of this run: {replaced}"));
        }
        changes
    }
}

/// The device that has a drive.
fn device_of<'d>(devices: &'d [String], drive: &str) -> Option<&'d str> {
    devices.iter().find(|device| value_of(device, "drive") == Some(drive)).map(String::as_str)
}

/// The model of a device, such as `scsi-cd`.
fn model_of(device: &str) -> &str {
    device.split(',').next().unwrap_or_default()
}

/// The bus of a disk's device.
fn bus_of(device: &str) -> Option<&'static str> {
    BUSES.iter().find(|(model, _)| device.starts_with(model)).map(|(_, bus)| *bus)
}

/// The format of a disk that names none, as QEMU finds it out.
fn probed_format(file: &Path) -> String {
    let mut begins = [0; 4];
    let is_read = foreign::open(file).and_then(|mut file| file.read_exact(&mut begins)).is_ok();
    let format = if is_read && begins == QCOW2 { "qcow2" } else { "raw" };
    format.to_owned()
}

/// The value of a key in `a=1,b=2`.
fn value_of<'v>(argument: &'v str, key: &str) -> Option<&'v str> {
    let mut pieces = pieces_of(argument).into_iter().filter_map(|piece| piece.split_once('='));
    pieces.find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// What stands between the commas of an argument; within a value a comma is doubled.
fn pieces_of(argument: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while let Some(comma) = argument[at..].find(',').map(|found| at + found) {
        let is_doubled = argument[comma + 1..].starts_with(',');
        if !is_doubled {
            pieces.push(&argument[begin..comma]);
            begin = comma + 1;
        }
        at = comma + 1 + usize::from(is_doubled);
    }
    pieces.push(&argument[begin..]);
    pieces
}

/// The number of `-smp 2`, `-smp cpus=2` or `-smp sockets=1,cores=2,threads=1`. Without `cpus`, QEMU
/// has all of `maxcpus`.
fn cpus(value: &str) -> Option<u32> {
    let number = |key: &str| value_of(value, key).and_then(|number| number.parse::<u32>().ok());
    let first = value.split(',').next().and_then(|piece| piece.parse().ok());
    let product = || {
        let all = ["sockets", "dies", "clusters", "cores", "threads"].map(number);
        all.iter().any(Option::is_some).then(|| all.into_iter().flatten().product())
    };
    first.or_else(|| number("cpus")).or_else(|| number("maxcpus")).or_else(product)
}

#[cfg(test)]
mod tests {
    use onbeat_tune::lint::qemu_line::qemu_line;

    use super::*;

    fn guest(options: &str) -> Result<OwnGuest, OwnGuestError> {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["bzImage", "initrd.img", "a.img", "a,b.img"] {
            std::fs::write(directory.path().join(name), "").expect("a file");
        }
        std::fs::write(directory.path().join("b.qcow2"), b"QFI\xfb\0\0\0\x03").expect("a file");
        std::fs::create_dir(directory.path().join("share")).expect("a directory");
        let line = qemu_line(&format!("qemu-system-x86_64 {options}")).expect("a line");
        own_guest(line, &directory.path().join("start.sh"))
    }

    fn words(options: &str) -> String {
        let words = guest(&format!("-kernel bzImage {options}")).expect("a guest").machine.words;
        let names = words.iter().map(|word| match word.split_once("/tmp/") {
            Some((before, path)) => format!("{before}…/{}", path.rsplit('/').next().unwrap_or("")),
            None => word.clone(),
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_machine_stays_and_what_a_run_needs_is_replaced() {
        let line = "-M pc,accel=kvm,smm=off -m 2G -smp 2,sockets=1 -drive file=a.img,format=raw,if=virtio \
             -nographic -netdev user,id=n -device e1000,netdev=n -cpu host -serial mon:stdio -enable-kvm";
        assert_eq!(
            words(line),
            "-machine pc,smm=off -m 2G -smp 2,sockets=1 -drive file=…/a.img,format=raw,if=virtio \
             -netdev user,id=n -device e1000,netdev=n"
        );
        let own = guest(&format!("-kernel bzImage {line}")).expect("a guest");
        assert_eq!((own.machine.cpus, own.machine.memory_mib), (2, 2048));
        assert_eq!(own.machine.processor.join(" "), "-machine accel=kvm -cpu host -enable-kvm");
        assert_eq!(
            own.changes,
            [
                "disks: by -snapshot; what the guest writes is gone with it",
                "replaced by files of this run: -nographic -serial"
            ]
        );
    }

    #[test]
    fn shared_directories_are_read_only() {
        let line = "-fsdev local,security_model=none,id=f,path=share,readonly=off";
        assert!(words(line).ends_with("id=f,path=…/share,readonly=on"), "{}", words(line));
        let named = "-fsdev fsdriver=local,id=f,path=share";
        assert!(words(named).ends_with("path=…/share,readonly=on"), "{}", words(named));
    }

    #[test]
    fn no_disk_is_left_out_of_the_snapshot() {
        for off in ["snapshot=off", "nosnapshot"] {
            let line = format!("-drive file=a.img,{off},if=virtio");
            assert_eq!(words(&line), "-drive file=…/a.img,if=virtio");
        }
        for option in ["-set drive.hd.snapshot=off", "-readconfig a.img"] {
            let why = guest(&format!("-kernel bzImage {option}")).expect_err(option).to_string();
            assert!(why.starts_with(option) && why.contains("-snapshot"), "{why}");
        }
        let nvdimm = "-object memory-backend-file,share=on,id=m,size=1M,mem-path=a.img";
        assert!(words(nvdimm).ends_with("mem-path=…/a.img,share=off"), "{}", words(nvdimm));
        let of_device = "-set device.net0.x-speed=1";
        assert_eq!(words(of_device), of_device);
    }

    #[test]
    fn a_comma_in_the_name_of_a_file_is_doubled() {
        let line = "-drive format=raw,file=a,,b.img,if=virtio";
        assert_eq!(words(line), "-drive format=raw,file=…/a,,b.img,if=virtio");
        let own = guest(&format!("-kernel bzImage {line}")).expect("a guest");
        assert!(own.disks[0].file.ends_with("a,b.img"), "{:?}", own.disks);

        let line = "-drive driver=qcow2,file.driver=file,file.filename=a,,b.img";
        assert_eq!(words(line), "-drive driver=qcow2,file.driver=file,file.filename=…/a,,b.img");
        let own = guest(&format!("-kernel bzImage {line}")).expect("a guest");
        assert_eq!(own.disks[0].format, "qcow2");
    }

    #[test]
    fn a_definition_has_the_bus_of_a_disks_device_and_names_what_it_leaves_out() {
        let line = "-kernel bzImage -M pc -drive file=a.img,if=none,id=hd -device virtio-blk-pci,drive=hd \
             -drive if=pflash,format=raw,file=b.qcow2 -hda b.qcow2 -device vfio-pci,host=01:00.0 \
             -netdev tap,id=n,ifname=tap0 -device e1000,netdev=n -device virtio-rng-pci -fsdev local,id=f,path=share";
        let own = guest(line).expect("a guest");
        let disks: Vec<[&str; 2]> =
            own.disks.iter().map(|disk| [&*disk.interface, &*disk.format]).collect();
        assert_eq!(disks, [["virtio", "raw"], ["ide", "qcow2"]]);
        assert!(own.loader[0].starts_with("<loader readonly='yes' type='pflash'>/"), "{own:?}");
        let [vfio, tap, machine, share] = own.undefined.as_slice() else { panic!("{own:?}") };
        assert_eq!(vfio, "-device vfio-pci,host=01:00.0");
        assert_eq!(tap, "tap,id=n,ifname=tap0 (user networking instead)");
        assert_eq!(machine, "-machine pc (q35 instead)");
        assert!(share.starts_with("-fsdev local,id=f,path=/"), "{share}");

        let scsi = "-m 1G -device virtio-scsi-pci -drive file=a.img,if=none,id=s \
             -device scsi-hd,drive=s -drive file=b.qcow2,if=none,id=c -device scsi-cd,drive=c";
        let lines = guest(scsi).expect("a guest").device_lines();
        assert!(lines[0].contains("model='virtio-scsi'"), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("dev='sda' bus='scsi'")), "{lines:?}");
        assert!(lines.contains(&"<disk type='file' device='cdrom'>".to_owned()), "{lines:?}");
    }

    #[test]
    fn what_cannot_be_run_is_one_sentence() {
        let refused = |line: &str| guest(line).expect_err(line).to_string();
        assert!(guest("-m 1G -hda a.img").is_ok(), "it boots from its disk");
        assert!(refused("-kernel vmlinuz").starts_with("-kernel: no file vmlinuz in /"));
        assert!(refused("-kernel bzImage -drive file=b.img").contains("no file b.img"));
        assert!(refused("-kernel bzImage -blockdev driver=raw").contains("write -drive"));
    }

    #[test]
    fn processors_are_counted_as_qemu_does() {
        let found = ["4", "cpus=3", "sockets=2,cores=2,threads=1", "cores=2,maxcpus=8", "x"];
        assert_eq!(found.map(cpus), [Some(4), Some(3), Some(4), Some(8), None]);
    }
}
