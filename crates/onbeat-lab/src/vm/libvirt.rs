//! A [`RealTimeMachine`] as a domain definition of libvirt.

use std::fmt::Write;

use super::machine::{GuestMemory, RealTimeMachine};
use super::own::OwnGuest;

impl RealTimeMachine {
    /// Writes the domain definition: with kernel, disks and cards of `guest`, which boots as its
    /// script does; without one a skeleton, to be completed in `virsh edit`.
    ///
    /// Loading modules, huge pages and everything else of the host stays with `onbeat tune`.
    #[must_use]
    pub fn to_libvirt_xml(&self, guest: Option<&OwnGuest>) -> String {
        let mut xml = String::new();
        let mut line = |depth: usize, text: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(xml, "{:width$}{text}", "", width = 2 * depth);
        };
        line(0, "<domain type='kvm'>");
        line(1, &format!("<name>{}</name>", escaped(&self.name)));
        line(1, &format!("<memory unit='MiB'>{}</memory>", self.memory_mib));
        self.memory_lines().iter().for_each(|text| line(1, text));
        line(1, &format!("<vcpu placement='static'>{}</vcpu>", self.cpus));
        self.thread_lines().iter().for_each(|text| line(1, text));

        line(1, "<os>");
        line(2, "<type arch='x86_64' machine='q35'>hvm</type>");
        guest.map(OwnGuest::boot_lines).iter().flatten().for_each(|text| line(2, text));
        line(1, "</os>");
        self.processor_lines().iter().for_each(|text| line(1, text));

        line(1, "<devices>");
        guest.map(OwnGuest::device_lines).iter().flatten().for_each(|text| line(2, text));
        if guest.is_some() {
            line(2, "<console type='pty'/>");
            line(2, "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>");
        }
        line(2, "<controller type='usb' model='none'/>");
        line(2, "<memballoon model='none'/>");
        line(1, "</devices>");
        line(0, "</domain>");
        xml
    }

    fn memory_lines(&self) -> Vec<String> {
        let pages = match self.memory {
            GuestMemory::OnDemand => return Vec::new(),
            GuestMemory::Prefaulted => Vec::new(),
            GuestMemory::HugePages { page_kib } => vec![
                "  <hugepages>".to_owned(),
                format!("    <page size='{page_kib}' unit='KiB'/>"),
                "  </hugepages>".to_owned(),
            ],
        };
        let open = ["<memoryBacking>".to_owned()];
        let rest = [
            "  <nosharepages/>",
            "  <locked/>",
            "  <source type='memfd'/>",
            "  <allocation mode='immediate'/>",
            "</memoryBacking>",
        ];
        open.into_iter().chain(pages).chain(rest.map(str::to_owned)).collect()
    }

    fn thread_lines(&self) -> Vec<String> {
        let Some(plan) = &self.threads else { return Vec::new() };
        let mut lines = vec!["<cputune>".to_owned()];
        for (vcpu, place) in plan.vcpus.iter().enumerate() {
            lines.push(format!("  <vcpupin vcpu='{vcpu}' cpuset='{}'/>", place.cpus));
        }
        lines.push(format!("  <emulatorpin cpuset='{}'/>", plan.others));
        for (vcpu, place) in plan.vcpus.iter().enumerate() {
            lines.extend(place.priority.map(|priority| {
                format!("  <vcpusched vcpus='{vcpu}' scheduler='fifo' priority='{priority}'/>")
            }));
        }
        lines.push("</cputune>".to_owned());
        lines
    }

    fn processor_lines(&self) -> Vec<String> {
        if !self.host_processor {
            return Vec::new();
        }
        let lines = [
            "<features>",
            "  <acpi/>",
            "  <apic/>",
            "  <pmu state='off'/>",
            "  <kvm>",
            "    <hint-dedicated state='on'/>",
            "  </kvm>",
            "</features>",
            "<cpu mode='host-passthrough' migratable='off'>",
            "  <feature policy='require' name='invtsc'/>",
            "  <feature policy='require' name='tsc-deadline'/>",
            "</cpu>",
        ];
        lines.map(str::to_owned).to_vec()
    }
}

/// A text between tags, or in single quotes.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use onbeat_tune::lint::{LintSubject, LintVerdict, lint};

    use super::*;

    fn machine(cpus: u32) -> RealTimeMachine {
        let own = "2-3".parse().expect("a list");
        let housekeeping = "0-1".parse().expect("a list");
        let tuned = RealTimeMachine::tuned(cpus, 2048, &own, &housekeeping).expect("a machine");
        RealTimeMachine { memory: GuestMemory::HugePages { page_kib: 1024 * 1024 }, ..tuned }
    }

    #[test]
    fn the_lint_finds_nothing_to_correct() {
        let report = lint(&machine(2).to_libvirt_xml(None), LintSubject::LibvirtXml).expect("XML");
        let problems: Vec<_> = report.problems().collect();
        assert!(problems.is_empty(), "{report}");
        assert!(report.with_verdict(LintVerdict::Valid).next().is_some());
    }

    #[test]
    fn threads_are_placed_one_by_one() {
        let xml = machine(3).to_libvirt_xml(None);
        let tune = xml.split("<cputune>").nth(1).and_then(|rest| rest.split("</cputune>").next());
        let lines: Vec<&str> = tune.expect("a section").lines().map(str::trim).collect();
        assert_eq!(
            lines[1..7],
            [
                "<vcpupin vcpu='0' cpuset='0-1'/>",
                "<vcpupin vcpu='1' cpuset='2'/>",
                "<vcpupin vcpu='2' cpuset='3'/>",
                "<emulatorpin cpuset='0-1'/>",
                "<vcpusched vcpus='1' scheduler='fifo' priority='1'/>",
                "<vcpusched vcpus='2' scheduler='fifo' priority='1'/>",
            ]
        );
    }

    #[test]
    fn what_is_not_wanted_is_not_written_and_names_are_escaped() {
        let plain = RealTimeMachine {
            name: "a<b&c".to_owned(),
            memory: GuestMemory::OnDemand,
            host_processor: false,
            threads: None,
            ..machine(2)
        };
        let xml = plain.to_libvirt_xml(None);
        assert!(xml.contains("<name>a&lt;b&amp;c</name>"), "{xml}");
        for absent in ["memoryBacking", "cputune", "<cpu "] {
            assert!(!xml.contains(absent), "{absent}");
        }
    }
}
