//! A libvirt domain definition as options of QEMU: what a guest's timing and boot depend on.
//!
//! | element | option |
//! |---|---|
//! | `memory`, `vcpu` | `-m`, `-smp` |
//! | `os`: `type machine=`, `kernel`, `initrd`, `cmdline`, `loader` | `-machine`, `-kernel`, `-initrd`, `-append`, `-bios` |
//! | `cpu mode='host-passthrough'`, `host-model`, their features, `pmu`, `kvm` | `-cpu host` with its properties |
//! | `disk` of a file or a block device | `-drive` with the same bus and format; of SCSI with its controller |
//! | `interface` of `type='user'`, `bridge`, `network` | `-netdev user` or `bridge` with the same model |
//! | `rng` | `-device virtio-rng-pci` |
//!
//! What else the definition holds is left out, by name. Pinning and priorities are not QEMU's: a
//! study sets them, and `onbeat vm pin` does.

use std::path::Path;

use onbeat_tune::lint::qemu_line::QemuLineOption;
use roxmltree::{Document, Node};

use super::super::qemu::in_option;

/// Why a domain definition cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// It is not XML.
    #[error("not an XML file: {0}")]
    Xml(#[from] roxmltree::Error),
    /// Its root element is another one.
    #[error("<{0}> is not a libvirt domain")]
    NotADomain(String),
    /// A number is missing or not a number.
    #[error("line {line}: <{element}> is \"{text}\", not a number")]
    Number {
        /// The element.
        element: &'static str,
        /// Its text.
        text: String,
        /// Its line.
        line: u32,
    },
    /// A size has a unit that libvirt does not have.
    #[error(
        "line {line}: unit='{unit}' of <memory> is not one of libvirt's; write KiB, MiB or GiB"
    )]
    Unit {
        /// As written.
        unit: String,
        /// Its line.
        line: u32,
    },
    /// A guest for another processor.
    #[error("line {line}: its processor is {arch}; guests of x86-64 are run")]
    OtherProcessor {
        /// As libvirt names it.
        arch: String,
        /// Its line.
        line: u32,
    },
    /// A disk that this program cannot put under an overlay.
    #[error("line {line}: a disk of type \"{kind}\" is not run; file and block are")]
    Disk {
        /// Its type.
        kind: String,
        /// Its line.
        line: u32,
    },
}

/// A definition in QEMU's words.
pub(super) struct DomainOptions {
    pub(super) options: Vec<QemuLineOption>,
    /// What has no counterpart here, as a sentence.
    pub(super) left_out: Option<String>,
}

/// Elements of `devices` that concern screens, consoles and what libvirt itself needs.
const WITHOUT_EFFECT: &str = "emulator controller serial console channel input graphics video \
    memballoon audio watchdog sound panic";
/// Elements of `features` that every guest has, or that Windows asks for.
const USUAL_FEATURES: &str = "acpi apic pae vmport smm";
/// Features of processors that libvirt knows and does not pass to QEMU.
const NOT_FOR_QEMU: [&str; 5] = ["cmt", "mbm_total", "mbm_local", "osxsave", "ospke"];
/// Controllers of SCSI disks: libvirt's model, and QEMU's device.
const SCSI_CONTROLLERS: [(&str, &str); 4] = [
    ("lsilogic", "lsi53c895a"),
    ("lsisas1068", "mptsas1068"),
    ("lsisas1078", "megasas"),
    ("vmpvscsi", "pvscsi"),
];
/// Elements of the definition that a study sets, or that say nothing about the machine.
const OF_THE_HOST: &str = "name uuid metadata currentMemory memoryBacking cputune numatune \
    resource on_poweroff on_reboot on_crash pm title description";

/// Reads a definition.
pub(super) fn options(text: &str) -> Result<DomainOptions, DomainError> {
    let document = Document::parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "domain" {
        return Err(DomainError::NotADomain(root.tag_name().name().to_owned()));
    }

    let mut reader = DomainReader::default();
    for node in elements(root) {
        match node.tag_name().name() {
            "memory" => {
                let kib = memory_kib(node)?;
                reader.add("m", &format!("{}M", kib.div_ceil(1024)));
            }
            "vcpu" => reader.vcpus(node)?,
            "os" => reader.os(node)?,
            "cpu" => reader.cpu(node, child(root, "features")),
            "devices" => reader.devices(node)?,
            "features" => reader.features(node, child(root, "cpu").is_some()),
            "clock" => reader.clock(node),
            name if OF_THE_HOST.split(' ').any(|known| known == name) => {}
            name => reader.left_out.push(format!("<{name}>")),
        }
    }

    let names = reader.left_out.join(", ");
    let left_out = (!names.is_empty()).then(|| format!("left out of the definition: {names}"));
    Ok(DomainOptions { options: reader.options, left_out })
}

#[derive(Default)]
struct DomainReader {
    options: Vec<QemuLineOption>,
    left_out: Vec<String>,
    disks: u32,
    cards: u32,
}

impl DomainReader {
    fn add(&mut self, name: &str, argument: &str) {
        let argument = Some(argument.to_owned());
        self.options.push(QemuLineOption { name: name.to_owned(), argument });
    }

    /// Those that are plugged in, and as many as may be.
    fn vcpus(&mut self, vcpu: Node<'_, '_>) -> Result<(), DomainError> {
        let most = number(vcpu, "vcpu")?;
        let current = vcpu.attribute("current").and_then(|now| now.parse::<u64>().ok());
        let argument = match current.filter(|now| *now != most) {
            Some(now) => format!("{now},maxcpus={most}"),
            None => most.to_string(),
        };
        self.add("smp", &argument);
        Ok(())
    }

    /// Names what has no counterpart; what the processor has is among its properties.
    fn features(&mut self, features: Node<'_, '_>, has_processor: bool) {
        for node in elements(features) {
            let name = node.tag_name().name();
            let is_of_processor = has_processor && ["kvm", "pmu"].contains(&name);
            if !is_of_processor && !USUAL_FEATURES.split(' ').any(|known| known == name) {
                self.left_out.push(format!("<features><{name}>"));
            }
        }
    }

    /// Names the timers that Linux may take its time from.
    fn clock(&mut self, clock: Node<'_, '_>) {
        let timers = elements(clock).filter_map(|node| node.attribute("name"));
        let named = timers.filter(|name| !["rtc", "pit"].contains(name));
        self.left_out.extend(named.map(|name| format!("<timer name='{name}'>")));
    }

    fn os(&mut self, os: Node<'_, '_>) -> Result<(), DomainError> {
        // libvirt chooses the loader at the first start; QEMU's own firmware is a BIOS.
        let has_loader = child(os, "loader").is_some();
        if let Some(firmware) = os.attribute("firmware").filter(|_| !has_loader) {
            self.left_out.push(format!("<os firmware='{firmware}'>"));
        }
        for node in elements(os) {
            let text = node.text().unwrap_or_default().trim();
            match node.tag_name().name() {
                "type" => {
                    let other = |arch: &&str| !["x86_64", "i686"].contains(arch);
                    if let Some(arch) = node.attribute("arch").filter(other) {
                        let (arch, line) = (arch.to_owned(), line_of(node));
                        return Err(DomainError::OtherProcessor { arch, line });
                    }
                    if let Some(machine) = node.attribute("machine") {
                        self.add("machine", machine);
                    }
                }
                "kernel" => self.add("kernel", text),
                "initrd" => self.add("initrd", text),
                "cmdline" => self.add("append", text),
                "loader" => self.add("bios", text),
                "boot" | "bootmenu" => {}
                name => self.left_out.push(format!("<os><{name}>")),
            }
        }
        Ok(())
    }

    fn cpu(&mut self, cpu: Node<'_, '_>, features: Option<Node<'_, '_>>) {
        let is_host = ["host-passthrough", "host-model", "maximum"];
        let model = match (cpu.attribute("mode"), child(cpu, "model").and_then(|node| node.text()))
        {
            (Some(mode), _) if is_host.contains(&mode) => Some("host"),
            (_, model) => model.map(str::trim),
        };
        let properties = self.properties(cpu, features);
        match model {
            Some(model) => {
                let words: Vec<String> = [model.to_owned()].into_iter().chain(properties).collect();
                self.add("cpu", &words.join(","));
            }
            None if properties.is_empty() => {}
            None => {
                self.left_out.push(format!("{} of a <cpu> without a model", properties.join(",")));
            }
        }
        if let Some(topology) = child(cpu, "topology") {
            let of = |name: &str| topology.attribute(name).unwrap_or("1").to_owned();
            // Some machines of QEMU have no dies or clusters: one of each is the same as none.
            let is_given = |name: &&str| !["dies", "clusters"].contains(name) || of(name) != "1";
            let names = ["sockets", "dies", "clusters", "cores", "threads"].into_iter();
            let words: Vec<String> =
                names.filter(is_given).map(|name| format!("{name}={}", of(name))).collect();
            let words = words.join(",");
            match self.options.iter_mut().find(|option| option.name == "smp") {
                Some(QemuLineOption { argument: Some(cpus), .. }) => *cpus += &format!(",{words}"),
                _ => self.add("smp", &words),
            }
        }
    }

    /// The properties of a processor, of which some stand among the features of the guest.
    fn properties(&mut self, cpu: Node<'_, '_>, features: Option<Node<'_, '_>>) -> Vec<String> {
        let on_off = |is_on: bool| if is_on { "on" } else { "off" };
        let mut properties: Vec<String> = cpu
            .attribute("migratable")
            .map(|word| format!("migratable={word}"))
            .into_iter()
            .collect();
        for feature in elements(cpu).filter(|node| node.tag_name().name() == "feature") {
            let name = feature.attribute("name").unwrap_or_default();
            let policy = feature.attribute("policy").unwrap_or("require");
            // An optional one is there where the processor has it.
            if policy != "optional" && !NOT_FOR_QEMU.contains(&name) {
                let is_on = !["disable", "forbid"].contains(&policy);
                properties.push(format!("{name}={}", on_off(is_on)));
            }
        }

        let state = |node: Node<'_, '_>| node.attribute("state") != Some("off");
        if let Some(pmu) = features.and_then(|features| child(features, "pmu")) {
            properties.push(format!("pmu={}", on_off(state(pmu))));
        }
        let kvm = features.and_then(|features| child(features, "kvm"));
        for node in kvm.into_iter().flat_map(elements) {
            match node.tag_name().name() {
                name @ ("hint-dedicated" | "poll-control") => {
                    properties.push(format!("kvm-{name}={}", on_off(state(node))));
                }
                "hidden" => properties.push(format!("kvm={}", on_off(!state(node)))),
                name => self.left_out.push(format!("<features><kvm><{name}>")),
            }
        }
        properties
    }

    fn devices(&mut self, devices: Node<'_, '_>) -> Result<(), DomainError> {
        for node in elements(devices) {
            match node.tag_name().name() {
                "disk" => self.disk(node)?,
                "interface" => self.card(node),
                "rng" => self.add("device", "virtio-rng-pci"),
                name if WITHOUT_EFFECT.split(' ').any(|known| known == name) => {}
                name => self.left_out.push(format!("<{name}>")),
            }
        }
        Ok(())
    }

    fn disk(&mut self, disk: Node<'_, '_>) -> Result<(), DomainError> {
        let source = child(disk, "source");
        let file = source.and_then(|node| node.attribute("file").or_else(|| node.attribute("dev")));
        let kind = disk.attribute("type").unwrap_or("file");
        let Some(file) = file else {
            // A drive without a medium.
            if source.is_none() && disk.attribute("device") == Some("cdrom") {
                return Ok(());
            }
            return Err(DomainError::Disk { kind: kind.to_owned(), line: line_of(disk) });
        };

        let driver = of_child(disk, "driver", "type").unwrap_or("raw");
        // SATA is QEMU's IDE on q35.
        let interface = match of_child(disk, "target", "bus") {
            Some("virtio") => "virtio",
            // A PC of QEMU has no SCSI of its own.
            Some("scsi") => "none",
            Some("fdc") => "floppy",
            None | Some("ide" | "sata") => "ide",
            Some(other) => {
                self.left_out.push(format!("<target bus='{other}'> (ide instead)"));
                "ide"
            }
        };
        let media = disk.attribute("device").filter(|device| *device == "cdrom");
        let media = media.map_or(String::new(), |media| format!(",media={media}"));
        let index = self.disks;
        self.disks += 1;
        let file = in_option(Path::new(file));
        let place = if interface == "none" { "id=scsi-disk" } else { "index=" };
        self.add(
            "drive",
            &format!("file={file},format={driver},if={interface},{place}{index}{media}"),
        );
        if interface == "none" {
            self.scsi(disk, index);
        }
        Ok(())
    }

    /// A SCSI disk as a device of the guest's controller.
    fn scsi(&mut self, disk: Node<'_, '_>, index: u32) {
        if !self.options.iter().any(|option| option.name == "device" && is_scsi(option)) {
            let mut controllers = disk.parent().into_iter().flat_map(elements);
            let model = controllers
                .find(|node| {
                    node.tag_name().name() == "controller" && node.attribute("type") == Some("scsi")
                })
                .and_then(|node| node.attribute("model"));
            let known = SCSI_CONTROLLERS.iter().find(|(of, _)| model == Some(*of));
            let device = known.map_or("virtio-scsi-pci", |(_, device)| device);
            self.add("device", &format!("{device},id=scsi0"));
        }
        let kind = if disk.attribute("device") == Some("cdrom") { "scsi-cd" } else { "scsi-hd" };
        self.add("device", &format!("{kind},drive=scsi-disk{index},bus=scsi0.0"));
    }

    fn card(&mut self, card: Node<'_, '_>) {
        let model = of_child(card, "model", "type").unwrap_or("virtio");
        let device = if model == "virtio" { "virtio-net-pci" } else { model };
        let bridge = of_child(card, "source", "bridge");
        let id = format!("net{}", self.cards);
        self.cards += 1;
        match (card.attribute("type"), bridge) {
            (Some("bridge"), Some(bridge)) => {
                self.add("netdev", &format!("bridge,id={id},br={bridge}"));
            }
            (kind, _) => {
                if kind != Some("user") {
                    let kind = kind.unwrap_or("?");
                    self.left_out
                        .push(format!("<interface type='{kind}'> (user networking instead)"));
                }
                self.add("netdev", &format!("user,id={id}"));
            }
        }
        let address = of_child(card, "mac", "address");
        let address = address.map_or(String::new(), |mac| format!(",mac={mac}"));
        self.add("device", &format!("{device},netdev={id}{address}"));
    }
}

fn is_scsi(option: &QemuLineOption) -> bool {
    option.argument.as_deref().is_some_and(|argument| argument.ends_with(",id=scsi0"))
}

fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    elements(node).find(|child| child.tag_name().name() == name)
}

/// An attribute of a child.
fn of_child<'a>(node: Node<'a, '_>, name: &str, attribute: &str) -> Option<&'a str> {
    child(node, name)?.attribute(attribute)
}

fn line_of(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

fn number(node: Node<'_, '_>, element: &'static str) -> Result<u64, DomainError> {
    let text = node.text().unwrap_or_default().trim();
    text.parse().map_err(|_| DomainError::Number {
        element,
        text: text.to_owned(),
        line: line_of(node),
    })
}

/// `memory` in KiB, by libvirt's units: without one it is KiB.
fn memory_kib(node: Node<'_, '_>) -> Result<u64, DomainError> {
    let number = number(node, "memory")?;
    let unit = node.attribute("unit").unwrap_or("KiB");
    let bytes = unit_bytes(unit)
        .ok_or_else(|| DomainError::Unit { unit: unit.to_owned(), line: line_of(node) })?;
    Ok(number.saturating_mul(bytes).div_ceil(1024))
}

/// The bytes of one of libvirt's units, in any case: `b`, `bytes`; `k`, `KiB` and `KB`, to `E`.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if ["b", "byte", "bytes"].contains(&unit.as_str()) {
        return Some(1);
    }
    let (letter, rest) = unit.split_at_checked(1)?;
    let power = "kmgtpe".find(letter)? as u32 + 1;
    match rest {
        "" | "ib" => Some(1 << (10 * power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = "<domain type='kvm'><name>robot</name><memory unit='GiB'>1</memory><vcpu placement='static'>2</vcpu>
        <os><type arch='x86_64' machine='q35'>hvm</type><kernel>/b/k</kernel><initrd>/b/i</initrd><cmdline>root=/dev/vda rw</cmdline></os>
        <cpu mode='host-passthrough'/><cputune><vcpupin vcpu='0' cpuset='3'/></cputune>
        <devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/b/a,b.qcow2'/><target dev='vda' bus='virtio'/></disk>
        <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
        <interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/><model type='virtio'/></interface>
        <rng model='virtio'/><tpm model='tpm-crb'/><console type='pty'/></devices></domain>";

    fn line(text: &str) -> Result<String, DomainError> {
        let words = options(text)?.options.into_iter();
        let words = words.map(|one| format!("-{} {}", one.name, one.argument.unwrap_or_default()));
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_definition_becomes_options_and_what_is_left_out_is_named() {
        assert_eq!(
            line(DOMAIN).unwrap(),
            "-m 1024M -smp 2 -machine q35 -kernel /b/k -initrd /b/i -append root=/dev/vda rw -cpu host \
             -drive file=/b/a,,b.qcow2,format=qcow2,if=virtio,index=0 -netdev user,id=net0 \
             -device virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01 -device virtio-rng-pci"
        );
        assert_eq!(
            options(DOMAIN).unwrap().left_out.as_deref(),
            Some(
                "left out of the definition: <interface type='network'> (user networking instead), <tpm>"
            )
        );
    }

    #[test]
    fn a_firmware_that_libvirt_would_choose_is_named() {
        let text = "<domain><os firmware='efi'><type machine='q35'>hvm</type></os></domain>";
        let left_out = options(text).unwrap().left_out;
        assert_eq!(left_out.as_deref(), Some("left out of the definition: <os firmware='efi'>"));
    }

    #[test]
    fn the_dies_of_a_topology_are_counted() {
        let topology = "<topology sockets='1' dies='2' clusters='1' cores='4' threads='1'/>";
        let text = format!("<domain><cpu mode='host-model'>{topology}</cpu></domain>");
        assert_eq!(line(&text).unwrap(), "-cpu host -smp sockets=1,dies=2,cores=4,threads=1");
    }

    #[test]
    fn processor_scsi_and_plugged_cpus_are_those_of_the_definition() {
        let text = "<domain><vcpu current='2'>4</vcpu><features><acpi/><hyperv/><pmu state='off'/>
            <kvm><hint-dedicated state='on'/><pv-ipi state='on'/></kvm></features>
            <cpu mode='host-passthrough' migratable='off'><topology sockets='1' cores='4' threads='1'/>
            <feature policy='require' name='invtsc'/><feature policy='disable' name='osxsave'/></cpu>
            <clock><timer name='rtc' tickpolicy='catchup'/><timer name='hpet' present='no'/></clock>
            <devices><controller type='scsi' model='virtio-scsi'/>
            <disk device='disk'><source file='/b/a'/><target dev='sda' bus='scsi'/></disk>
            <disk device='cdrom'><source file='/b/c'/><target dev='sdb' bus='scsi'/></disk>
            <disk device='disk'><source file='/b/u'/><target dev='sdc' bus='usb'/></disk></devices></domain>";
        assert_eq!(
            line(text).unwrap(),
            "-smp 2,maxcpus=4,sockets=1,cores=4,threads=1 \
             -cpu host,migratable=off,invtsc=on,pmu=off,kvm-hint-dedicated=on \
             -drive file=/b/a,format=raw,if=none,id=scsi-disk0 -device virtio-scsi-pci,id=scsi0 \
             -device scsi-hd,drive=scsi-disk0,bus=scsi0.0 \
             -drive file=/b/c,format=raw,if=none,id=scsi-disk1,media=cdrom \
             -device scsi-cd,drive=scsi-disk1,bus=scsi0.0 -drive file=/b/u,format=raw,if=ide,index=2"
        );
        assert_eq!(
            options(text).unwrap().left_out.as_deref(),
            Some(
                "left out of the definition: <features><hyperv>, <features><kvm><pv-ipi>, \
                 <timer name='hpet'>, <target bus='usb'> (ide instead)"
            )
        );
    }

    #[test]
    fn what_cannot_be_run_is_one_sentence_with_its_line() {
        let refused = |text: &str| line(text).unwrap_err().to_string();
        assert_eq!(refused("<network/>"), "<network> is not a libvirt domain");
        let memory = refused("<domain>\n<memory>much</memory></domain>");
        assert_eq!(memory, "line 2: <memory> is \"much\", not a number");
        let unit = refused("<domain><memory unit='GBit'>1</memory></domain>");
        assert_eq!(
            unit,
            "line 1: unit='GBit' of <memory> is not one of libvirt's; write KiB, MiB or GiB"
        );
        let arm = refused("<domain><os><type arch='aarch64'>hvm</type></os></domain>");
        assert_eq!(arm, "line 1: its processor is aarch64; guests of x86-64 are run");
        let disk = "<domain><devices><disk type='network'><source protocol='rbd'/></disk></devices></domain>";
        assert!(refused(disk).contains("a disk of type \"network\" is not run"));
        assert!(refused("<domain>").starts_with("not an XML file"));
    }

    #[test]
    fn memory_has_libvirts_units() {
        let kib = |text: &str| {
            let document = Document::parse(text).unwrap();
            memory_kib(document.root_element()).unwrap()
        };
        assert_eq!(kib("<memory>1048576</memory>"), 1 << 20);
        assert_eq!(kib("<memory unit='GiB'>2</memory>"), 2 << 20);
        assert_eq!(kib("<memory unit='MB'>1024</memory>"), 1_000_000);
        assert_eq!(kib("<memory unit='TB'>1</memory>"), 976_562_500);
        assert_eq!(kib("<memory unit='mib'>2</memory>"), 2 << 10);
    }
}
