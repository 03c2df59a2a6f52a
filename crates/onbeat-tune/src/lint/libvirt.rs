//! Domain definitions of libvirt.

use roxmltree::{Document, Node};

use super::LintError;
use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::qemu::EMULATED_INTERFACES;
use super::{kernel_line, libvirt_cpus, settings};

/// Judges a definition.
pub(super) fn judge(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let document =
        Document::parse(draft.text()).map_err(|error| LintError::Xml(error.to_string()))?;
    let domain = document.root_element();
    if domain.tag_name().name() != "domain" {
        return Err(LintError::NoDomain { found: domain.tag_name().name().to_owned() });
    }

    judge_accelerator(draft, domain);
    judge_processor(draft, domain);
    libvirt_cpus::judge(draft, domain);
    judge_memory(draft, domain);
    if let Some(devices) = child(domain, "devices") {
        judge_interfaces(draft, devices, is_x86(domain));
        judge_devices(draft, devices);
        judge_balloon(draft, devices);
    }
    judge_timers(draft, domain);
    judge_guest_line(draft, domain);
    judge_the_rest(draft, domain);
    Ok(())
}

/// Says of each element that nothing was said about whether it is known.
fn judge_the_rest(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    let devices = child(domain, "devices");
    let inside = devices.into_iter().flat_map(|devices| devices.children());
    for node in domain.children().chain(inside).filter(Node::is_element) {
        let name = node.tag_name().name();
        let start = node.range().start;
        if draft.is_judged(&(start..start + 1)) {
            continue;
        }
        let finding = if settings::is_plain("libvirt", name) {
            let message = "No effect on latency, or judged by what is in it.";
            LintRemark::unjudged(LintVerdict::Valid, message)
        } else if settings::is_listed("libvirt", name) {
            let message = "An element of libvirt. Its effect on latency is not judged.";
            LintRemark::unjudged(LintVerdict::Known, message)
        } else {
            LintRemark::unknown()
        };
        remark(draft, node, finding);
    }
}

/// The first child element of this name.
pub(super) fn child<'d, 'i>(node: Node<'d, 'i>, name: &str) -> Option<Node<'d, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// The child elements of this name.
pub(super) fn children<'d: 'i, 'i>(
    node: Node<'d, 'i>,
    name: &'i str,
) -> impl Iterator<Item = Node<'d, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// Records a judgement of an element's opening tag.
pub(super) fn remark(draft: &mut Draft<'_>, node: Node<'_, '_>, remark: LintRemark) {
    let range = node.range();
    let text = &draft.text()[range.clone()];
    let tag_end = text.find('>').map_or(text.len(), |end| end + 1);
    draft.remark(range.start..range.start + tag_end, remark);
}

/// The same without a replacement.
pub(super) fn judge_node(
    draft: &mut Draft<'_>,
    node: Node<'_, '_>,
    id: &str,
    verdict: LintVerdict,
    message: impl Into<String>,
) {
    remark(draft, node, LintRemark::new(id, verdict, message));
}

/// Replaces the value of an attribute in the corrected text.
pub(super) fn replace_attribute(
    draft: &mut Draft<'_>,
    node: Node<'_, '_>,
    name: &str,
    value: &str,
) {
    if let Some(attribute) = node.attribute_node(name) {
        draft.replace(attribute.range_value(), value);
    }
}

/// Adds an element as the last child in the corrected text.
fn insert_child(draft: &mut Draft<'_>, parent: Node<'_, '_>, xml: &str) {
    let text = draft.text();
    let range = parent.range();
    let name = parent.tag_name().name();
    let line_start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent: String = text[line_start..].chars().take_while(|c| *c == ' ').collect();

    if text[range.clone()].ends_with("/>") {
        // The rest of the tag may be corrected as well.
        let opened = format!(">\n{indent}  {xml}\n{indent}</{name}>");
        draft.replace(range.end - "/>".len()..range.end, opened);
        return;
    }
    // In front of the line with the closing tag.
    let closing = range.start + text[range.clone()].rfind("</").unwrap_or_default();
    let before = text[..closing].trim_end_matches(' ').len();
    draft.insert(before, format!("{indent}  {xml}\n"));
}

/// Adds elements that are missing, in their section or in a new one.
fn insert_in(draft: &mut Draft<'_>, domain: Node<'_, '_>, section: &str, xml: &str) {
    if xml.is_empty() {
        return;
    }
    match child(domain, section) {
        Some(node) => insert_child(draft, node, xml),
        None => insert_child(draft, domain, &format!("<{section}>{xml}</{section}>")),
    }
}

/// Records that an element is missing, where it belongs.
pub(super) fn missing(
    draft: &mut Draft<'_>,
    at: Node<'_, '_>,
    text: &str,
    id: &str,
    message: &str,
) {
    let remark = LintRemark::new(id, LintVerdict::Missing, message).instead(text);
    let name = text.trim_start_matches('<').split([' ', '>', '/']).next().unwrap_or_default();
    draft.remark_as(at.range().start, format!("<{name}>"), remark);
}

fn judge_accelerator(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    let kind = domain.attribute("type").unwrap_or_default();
    if kind == "kvm" {
        let message = "Valid; the guest runs on the processor itself.";
        return judge_node(draft, domain, "vmm.accel", LintVerdict::Valid, message);
    }

    let message =
        "Not run by KVM: an emulated processor takes milliseconds where KVM takes microseconds.";
    let finding = LintRemark::new("vmm.accel", LintVerdict::Harmful, message);
    remark(draft, domain, finding.instead("<domain type='kvm'>"));
    replace_attribute(draft, domain, "type", "kvm");
}

/// Whether the guest's processor is one of x86, as where the definition does not say.
fn is_x86(domain: Node<'_, '_>) -> bool {
    let kind = child(domain, "os").and_then(|os| child(os, "type"));
    let processor = kind.and_then(|kind| kind.attribute("arch"));
    processor.is_none_or(|processor| ["x86_64", "i686"].contains(&processor))
}

fn judge_processor(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    const INVARIANT: &str = "<feature policy='require' name='invtsc'/>";
    const NO_INVARIANT: &str = "The guest does not trust its TSC and uses a slower clock.";
    // libvirt refuses what the processor does not have.
    let is_x86 = is_x86(domain);
    match child(domain, "cpu") {
        None if !is_x86 => {
            let xml = "<cpu mode='host-passthrough'/>";
            missing(draft, domain, xml, "vmm.cpu", "The guest gets a generic model.");
            insert_child(draft, domain, xml);
        }
        None => {
            let message =
                "The guest gets a generic model: no invariant TSC, no TSC deadline timer.";
            let xml = format!("<cpu mode='host-passthrough' migratable='off'>{INVARIANT}</cpu>");
            missing(draft, domain, &xml, "vmm.cpu", message);
            insert_child(draft, domain, &xml);
        }
        Some(cpu) => {
            if cpu.attribute("mode") != Some("host-passthrough") {
                let message = "A model without all features of the host's processor.";
                let instead = if is_x86 {
                    "<cpu mode='host-passthrough' migratable='off'>"
                } else {
                    "<cpu mode='host-passthrough'>"
                };
                let finding = LintRemark::new("vmm.cpu", LintVerdict::Discouraged, message);
                remark(draft, cpu, finding.instead(instead));
                replace_attribute(draft, cpu, "mode", "host-passthrough");
            }
            let invariant = children(cpu, "feature")
                .find(|feature| feature.attribute("name") == Some("invtsc"));
            match invariant {
                None if is_x86 => {
                    missing(draft, cpu, INVARIANT, "vmm.cpu", NO_INVARIANT);
                    insert_child(draft, cpu, INVARIANT);
                }
                Some(feature)
                    if matches!(feature.attribute("policy"), Some("disable" | "forbid")) =>
                {
                    let finding =
                        LintRemark::new("vmm.cpu", LintVerdict::Discouraged, NO_INVARIANT);
                    remark(draft, feature, finding.instead(INVARIANT));
                    replace_attribute(draft, feature, "policy", "require");
                }
                _ => {}
            }
        }
    }

    judge_features(draft, domain, is_x86);
}

fn judge_features(draft: &mut Draft<'_>, domain: Node<'_, '_>, is_x86: bool) {
    let features = child(domain, "features");
    let found = |path: [&str; 2]| {
        let mut names = path.iter().filter(|name| !name.is_empty());
        names.try_fold(features?, |node, name| child(node, name))
    };
    let state = |path: [&str; 2]| found(path).and_then(|node| node.attribute("state"));
    let wanted = [
        (
            ["kvm", "hint-dedicated"],
            "on",
            "<kvm><hint-dedicated state='on'/></kvm>",
            "The guest uses locks for shared CPUs.",
        ),
        (
            ["pmu", ""],
            "off",
            "<pmu state='off'/>",
            "The virtual counters of the processor cost time at each entry.",
        ),
    ];
    let is_meant = |path: &[&str; 2]| is_x86 || path[0] == "pmu";
    let lacking: Vec<_> = wanted
        .iter()
        .filter(|(path, value, ..)| is_meant(path) && state(*path) != Some(*value))
        .collect();
    let mut added = String::new();
    for (path, value, xml, message) in lacking {
        missing(draft, features.unwrap_or(domain), xml, "vmm.cpu", message);
        // Each element stands once: what is there with another state or other children is kept.
        match (found(*path), found([path[0], ""])) {
            (Some(node), _) => replace_attribute(draft, node, "state", value),
            (None, Some(parent)) => {
                insert_child(draft, parent, &format!("<{} state='{value}'/>", path[1]));
            }
            (None, None) => added.push_str(xml),
        }
    }
    insert_in(draft, domain, "features", &added);
}

fn judge_memory(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    const SECTION: &str = "memoryBacking";
    let backing = child(domain, SECTION);
    let has = |name: &str| backing.is_some_and(|backing| child(backing, name).is_some());
    let wanted = [
        (
            "hugepages",
            "<hugepages/>",
            "The guest's memory is in small pages, which the host provides at their first use.",
        ),
        ("locked", "<locked/>", "The host may take pages of the guest away."),
        (
            "nosharepages",
            "<nosharepages/>",
            "The host may merge pages of the guest, which fault at the next write.",
        ),
    ];
    let lacking: Vec<_> = wanted.iter().filter(|(name, ..)| !has(name)).collect();
    for (_, xml, message) in &lacking {
        missing(draft, backing.unwrap_or(domain), xml, "vmm.mem", message);
    }

    insert_in(draft, domain, SECTION, &lacking.iter().map(|(_, xml, _)| *xml).collect::<String>());
}

/// Kinds of interfaces for which libvirt chooses a model where none is given.
const WITH_A_MODEL: [&str; 5] = ["network", "bridge", "direct", "ethernet", "user"];

fn judge_interfaces(draft: &mut Draft<'_>, devices: Node<'_, '_>, is_x86: bool) {
    for interface in children(devices, "interface") {
        let kind = interface.attribute("type").unwrap_or_default();
        let Some(model) = child(interface, "model") else {
            // Other processors get virtio (qemuDomainDefaultNetModel).
            if is_x86 && WITH_A_MODEL.contains(&kind) {
                const VIRTIO: &str = "<model type='virtio'/>";
                let message = "Without a model libvirt takes rtl8139, which is emulated register by register.";
                missing(draft, interface, VIRTIO, "vmm.nic", message);
                insert_child(draft, interface, VIRTIO);
            }
            continue;
        };
        if model.attribute("type").is_some_and(|kind| EMULATED_INTERFACES.contains(&kind)) {
            let message = "Emulated register by register: several exits for each frame.";
            let finding = LintRemark::new("vmm.nic", LintVerdict::Discouraged, message);
            remark(draft, model, finding.instead("<model type='virtio'/>"));
            replace_attribute(draft, model, "type", "virtio");
        }
    }
}

/// Clocks of the guest that leave it at each use.
fn judge_timers(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    for timer in child(domain, "clock").iter().flat_map(|clock| children(*clock, "timer")) {
        let is = |name: &str, value: &str| timer.attribute(name) == Some(value);
        let (id, verdict, message) = if is("name", "tsc") && is("mode", "emulate") {
            let message = "Each reading of the TSC leaves the guest: microseconds where it takes nanoseconds.";
            ("vmm.cpu", LintVerdict::Harmful, message)
        } else if is("name", "hpet") && is("present", "yes") {
            let message = "A clock in QEMU, each reading of which leaves the guest: present='no'.";
            ("vmm.minimal", LintVerdict::Discouraged, message)
        } else {
            continue;
        };
        judge_node(draft, timer, id, verdict, message);
    }
}

fn judge_devices(draft: &mut Draft<'_>, devices: Node<'_, '_>) {
    children(devices, "disk").for_each(|disk| judge_disk(draft, disk));

    for node in children(devices, "hostdev") {
        let message = "Valid; the guest has the device itself. Its IOMMU group must hold no other device that the host needs.";
        judge_node(draft, node, "vmm.vfio", LintVerdict::Valid, message);
    }
    for node in devices.children().filter(|node| is_needless(*node)) {
        let message = "A device that a control system does not need.";
        judge_node(draft, node, "vmm.minimal", LintVerdict::Discouraged, message);
    }

    let blocking = children(devices, "serial").chain(children(devices, "console"));
    for node in
        blocking.filter(|node| matches!(node.attribute("type"), Some("pipe" | "file" | "stdio")))
    {
        let message = "Where the reader of the guest's console stops, the vCPU that prints stops.";
        judge_node(draft, node, "vmm.serial_log", LintVerdict::Discouraged, message);
    }
}

/// Screens, sound and USB.
fn is_needless(node: Node<'_, '_>) -> bool {
    let model = child(node, "model").and_then(|model| model.attribute("type"));
    match node.tag_name().name() {
        "graphics" | "sound" | "audio" => node.attribute("type") != Some("none"),
        "video" => model != Some("none"),
        "controller" => {
            node.attribute("type") == Some("usb") && node.attribute("model") != Some("none")
        }
        _ => false,
    }
}

/// Modes in which a disk's file is opened without the host's cache.
const UNCACHED: [&str; 2] = ["none", "directsync"];

fn judge_disk(draft: &mut Draft<'_>, disk: Node<'_, '_>) {
    // Removable media are not written in operation.
    if matches!(disk.attribute("device"), Some("cdrom" | "floppy")) {
        return;
    }
    let bus = child(disk, "target").and_then(|target| target.attribute("bus"));
    if matches!(bus, Some("ide" | "sata")) {
        let message = "An emulated controller: several exits for each access. bus='virtio' has fewer; the guest's disks change their names.";
        judge_node(draft, disk, "vmm.disk", LintVerdict::Discouraged, message);
    }
    let Some(driver) = child(disk, "driver") else {
        let message = "Writes go through the host's page cache and its worker threads.";
        missing(draft, disk, "<driver cache='none' io='native'/>", "vmm.disk", message);
        return;
    };
    if driver.attribute("type") == Some("qcow2") {
        let message =
            "The image allocates blocks while the guest writes: a raw image or a volume does not.";
        judge_node(draft, driver, "vmm.disk", LintVerdict::Discouraged, message);
    }

    // Native I/O needs a file that is opened without the host's cache: QEMU refuses it with another
    // mode.
    let is_good = |name: &str, value: &str| name != "cache" || UNCACHED.contains(&value);
    let wanted = [("cache", "cache='none'"), ("io", "io='native'")];
    let lacking: Vec<_> = wanted
        .iter()
        .filter(|(name, _)| driver.attribute(*name).is_none_or(|value| !is_good(name, value)))
        .collect();
    let Some(last) = driver.attributes().next_back().filter(|_| !lacking.is_empty()) else {
        return;
    };
    let words: Vec<_> = lacking.iter().map(|(_, xml)| *xml).collect();
    let message = format!(
        "Writes go through the host's page cache and its worker threads: set {}.",
        words.join(" ")
    );
    for (name, xml) in lacking {
        if driver.has_attribute(*name) {
            replace_attribute(draft, driver, name, "none");
        } else {
            draft.insert(last.range().end, format!(" {xml}"));
        }
    }
    judge_node(draft, driver, "vmm.disk", LintVerdict::Incomplete, message);
}

/// libvirt adds a balloon where the definition has none.
fn judge_balloon(draft: &mut Draft<'_>, devices: Node<'_, '_>) {
    const NONE: &str = "<memballoon model='none'/>";
    let message = "A balloon takes pages from the guest, which fault again when they are used; libvirt adds one by itself.";
    match child(devices, "memballoon") {
        None => {
            missing(draft, devices, NONE, "vmm.minimal", message);
            insert_child(draft, devices, NONE);
        }
        Some(balloon) if balloon.attribute("model") != Some("none") => {
            let finding = LintRemark::new("vmm.minimal", LintVerdict::Discouraged, message);
            remark(draft, balloon, finding.instead(NONE));
            draft.replace(balloon.range(), NONE);
        }
        Some(_) => {}
    }
}

/// The guest's kernel command line.
fn judge_guest_line(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    let Some(text) =
        child(domain, "os").and_then(|os| child(os, "cmdline")).and_then(|line| line.first_child())
    else {
        return;
    };
    let range = text.range();
    let line = text.text().unwrap_or_default();
    // A line with entities has other places than its text.
    if draft.text()[range.clone()] == *line {
        let offsets: Vec<usize> = (range.start..=range.end).collect();
        kernel_line::judge_inside(draft, line, &offsets);
    }
}
