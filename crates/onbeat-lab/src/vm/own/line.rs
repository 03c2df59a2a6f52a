//! A user's options of QEMU, and what becomes of each.

use std::path::{Path, PathBuf};

use onbeat_tune::lint::qemu_line::{QemuLineOption, mebibytes};

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
const WITH_FILES: [(&str, &[&str]); 4] =
    [("drive", &["file"]), ("fsdev", &["path"]), ("virtfs", &["path"]), ("object", &["mem-path"])];
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
    Ok(OwnGuest { changes: reader.changes(), cards: reader.cards(), ..reader.own })
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
    /// Arguments of `-device`.
    devices: Vec<String>,
    /// Arguments of `-netdev` and `-nic`.
    networks: Vec<String>,
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
            _ if REPLACED.split(' ').any(|known| known == name) => {
                self.replaced.push(format!("-{name}"));
            }
            _ => {
                self.count(&name, &value);
                let value = self.with_files(&name, &value)?;
                self.note(&name, &value);
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
            pieces.retain(|piece| !piece.starts_with("snapshot="));
        }
        if ["fsdev", "virtfs"].contains(&name) && value.starts_with("local") {
            pieces.retain(|piece| !piece.starts_with("readonly"));
            pieces.push("readonly=on".to_owned());
            self.read_only = true;
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
                let Some(file) = key("file") else { return };
                self.own.disks.push(OwnDisk {
                    file: file.replace(",,", ",").into(),
                    format: key("format").unwrap_or_else(|| "raw".to_owned()),
                    interface: key("if").unwrap_or_else(|| "ide".to_owned()),
                    is_cdrom: key("media").as_deref() == Some("cdrom"),
                });
            }
            "hda" | "hdb" | "hdc" | "hdd" | "cdrom" => self.own.disks.push(OwnDisk {
                file: value.into(),
                format: "raw".to_owned(),
                interface: "ide".to_owned(),
                is_cdrom: name == "cdrom",
            }),
            "device" => self.devices.push(value.to_owned()),
            "netdev" | "nic" => self.networks.push(value.to_owned()),
            _ => {}
        }
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

/// The number of `-smp 2`, `-smp cpus=2` or `-smp sockets=1,cores=2,threads=1`.
fn cpus(value: &str) -> Option<u32> {
    let number = |key: &str| value_of(value, key).and_then(|number| number.parse::<u32>().ok());
    let first = value.split(',').next().and_then(|piece| piece.parse().ok());
    let product = || {
        let all = ["sockets", "dies", "clusters", "cores", "threads"].map(number);
        all.iter().any(Option::is_some).then(|| all.into_iter().flatten().product())
    };
    first.or_else(|| number("cpus")).or_else(product)
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
    }

    #[test]
    fn no_disk_is_left_out_of_the_snapshot() {
        let line = "-drive file=a.img,snapshot=off,if=virtio";
        assert_eq!(words(line), "-drive file=…/a.img,if=virtio");
    }

    #[test]
    fn a_comma_in_the_name_of_a_file_is_doubled() {
        let line = "-drive format=raw,file=a,,b.img,if=virtio";
        assert_eq!(words(line), "-drive format=raw,file=…/a,,b.img,if=virtio");
        let own = guest(&format!("-kernel bzImage {line}")).expect("a guest");
        assert!(own.disks[0].file.ends_with("a,b.img"), "{:?}", own.disks);
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
        let found = ["4", "cpus=3", "sockets=2,cores=2,threads=1", "x"].map(cpus);
        assert_eq!(found, [Some(4), Some(3), Some(4), None]);
    }
}
