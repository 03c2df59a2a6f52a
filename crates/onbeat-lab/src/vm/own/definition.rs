//! A user's guest as elements of a libvirt definition: what it boots, its disks and its cards.

use std::path::Path;

use super::super::libvirt::escaped;
use super::{OwnCard, OwnDisk, OwnGuest};

impl OwnGuest {
    /// The lines inside of `<os>`.
    pub(in crate::vm) fn boot_lines(&self) -> Vec<String> {
        let path = |path: &Path| escaped(&path.display().to_string());
        let mut lines = self.loader.clone();
        let Some(kernel) = &self.kernel else {
            lines.push("<boot dev='hd'/>".to_owned());
            return lines;
        };
        lines.push(format!("<kernel>{}</kernel>", path(kernel)));
        lines.extend(
            self.initrd.as_deref().map(|initrd| format!("<initrd>{}</initrd>", path(initrd))),
        );
        lines.push(format!("<cmdline>{}</cmdline>", escaped(&self.machine.append)));
        lines
    }

    /// The lines inside of `<devices>`: disks with the controller of SCSI, and cards.
    pub(in crate::vm) fn device_lines(&self) -> Vec<String> {
        let mut letters = (b'a'..=b'z').map(char::from);
        let disks = self.disks.iter().filter_map(|disk| Some(disk_lines(disk, letters.next()?)));
        // libvirt's default is an LSI controller of 2000, for which a guest may have no driver.
        let has_scsi = self.disks.iter().any(|disk| disk.interface == "scsi");
        let controller = "<controller type='scsi' index='0' model='virtio-scsi'/>".to_owned();
        let rest = disks.chain(self.cards.iter().map(card_lines)).flatten();
        has_scsi.then_some(controller).into_iter().chain(rest).collect()
    }
}

fn disk_lines(disk: &OwnDisk, letter: char) -> Vec<String> {
    let OwnDisk { file, format, interface, is_cdrom, .. } = disk;
    let (prefix, bus) = match interface.as_str() {
        "virtio" => ("vd", "virtio"),
        "scsi" => ("sd", "scsi"),
        "floppy" => ("fd", "fdc"),
        _ => ("sd", "sata"),
    };
    let device = if *is_cdrom { "cdrom" } else { "disk" };
    let is_block = file.starts_with("/dev");
    let (kind, key) = if is_block { ("block", "dev") } else { ("file", "file") };
    let file = escaped(&file.display().to_string());
    vec![
        format!("<disk type='{kind}' device='{device}'>"),
        format!("  <driver name='qemu' type='{}' cache='none' io='threads'/>", escaped(format)),
        format!("  <source {key}='{file}'/>"),
        format!("  <target dev='{prefix}{letter}' bus='{bus}'/>"),
        "</disk>".to_owned(),
    ]
}

fn card_lines(card: &OwnCard) -> Vec<String> {
    let model = if card.model.starts_with("virtio-net") { "virtio" } else { card.model.as_str() };
    let model = format!("  <model type='{}'/>", escaped(model));
    let (kind, source) = match &card.bridge {
        Some(bridge) => ("bridge", Some(format!("  <source bridge='{}'/>", escaped(bridge)))),
        None => ("user", None),
    };
    let open = format!("<interface type='{kind}'>");
    [Some(open), source, Some(model), Some("</interface>".to_owned())]
        .into_iter()
        .flatten()
        .collect()
}
