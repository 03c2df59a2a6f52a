//! vCPUs in a libvirt definition: where each thread runs, and under which policy.

use std::collections::BTreeMap;

use roxmltree::Node;

use super::HIGHEST_PRIORITY;
use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::libvirt::{child, children, judge_node, missing, remark, replace_attribute};
use crate::cpu_list::CpuList;

/// Judges `<vcpu>` and `<cputune>`.
pub(super) fn judge(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    let vcpu = child(domain, "vcpu");
    let number = vcpu
        .and_then(|node| node.text())
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(1);
    if number < 2 {
        let message =
            "The guest has one vCPU: its loop shares it with everything else in the guest.";
        let finding = LintRemark::new("vmm.smp", LintVerdict::Discouraged, message)
            .instead("<vcpu placement='static'>2</vcpu>");
        remark(draft, vcpu.unwrap_or(domain), finding);
    }

    judge_sets(draft, domain);
    let tune = child(domain, "cputune");
    let pins = vcpu_pins(draft, tune);
    judge_pins(draft, tune.unwrap_or(domain), number, &pins);
    judge_emulator(draft, domain, tune, &pins);
    judge_policies(draft, domain, tune, number, &pins);
    tune.into_iter().for_each(|tune| judge_quotas(draft, tune));
}

/// Quotas stop threads that are not real-time ones; zero and less is none.
fn judge_quotas(draft: &mut Draft<'_>, tune: Node<'_, '_>) {
    let is_quota = |node: &Node<'_, '_>| {
        let number = node.text().and_then(|text| text.trim().parse::<i64>().ok());
        node.tag_name().name().ends_with("quota") && number.is_some_and(|number| number > 0)
    };
    for quota in tune.children().filter(is_quota) {
        let message = "Stops these threads once they have had their share of a period, with the locks they hold; those of a \
                       real-time policy are not bounded by it.";
        let finding = LintRemark::new("host.vcpu_prio", LintVerdict::Harmful, message);
        remark(draft, quota, finding.instead(""));
        draft.remove(quota.range());
    }
}

/// The host CPUs of each vCPU that is bound; sets that are too large are judged on the way.
fn vcpu_pins(draft: &mut Draft<'_>, tune: Option<Node<'_, '_>>) -> BTreeMap<u32, CpuList> {
    let mut pins: BTreeMap<u32, CpuList> = BTreeMap::new();
    for pin in tune.iter().flat_map(|tune| children(*tune, "vcpupin")) {
        let (Some(vcpu), Some(cpus)) = (number_of(pin, "vcpu"), cpus_of(pin)) else { continue };
        if cpus.iter().count() > 1 {
            let message = "The vCPU moves between several host CPUs: give it one.";
            judge_node(draft, pin, "host.vcpu_pin", LintVerdict::Incomplete, message);
        }
        if let Some((other, _)) = pins.iter().find(|(_, known)| known.meets(&cpus)) {
            let message =
                format!("vCPU {other} has this host CPU too: each stops while the other runs.");
            judge_node(draft, pin, "host.vcpu_pin", LintVerdict::Contradiction, message);
        }
        pins.insert(vcpu, cpus);
    }

    pins
}

fn number_of(node: Node<'_, '_>, name: &str) -> Option<u32> {
    node.attribute(name)?.parse().ok()
}

fn cpus_of(node: Node<'_, '_>) -> Option<CpuList> {
    cpu_set(node.attribute("cpuset")?)
}

/// A set as libvirt writes it: numbers and ranges by comma, of which `^3` takes one out.
fn cpu_set(text: &str) -> Option<CpuList> {
    let mut cpus = CpuList::default();
    for piece in text.split(',').map(str::trim) {
        match piece.strip_prefix('^') {
            Some(out) => cpus = cpus.minus(&CpuList::parse_list(out).ok()?),
            None => {
                let more = CpuList::parse_list(piece).ok()?;
                cpus = cpus.iter().chain(more.iter()).collect();
            }
        }
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Says of each set that cannot be read that it is not judged.
fn judge_sets(draft: &mut Draft<'_>, domain: Node<'_, '_>) {
    for node in domain.descendants() {
        for name in ["cpuset", "vcpus"] {
            let is_read = node.attribute(name).is_none_or(|text| cpu_set(text).is_some());
            if !is_read && node.is_element() {
                let message = format!(
                    "\"{}\" is not a set of CPUs: libvirt refuses the definition.",
                    node.attribute(name).unwrap_or_default()
                );
                judge_node(draft, node, "host.vcpu_pin", LintVerdict::InvalidValue, message);
            }
        }
    }
}

fn judge_pins(draft: &mut Draft<'_>, at: Node<'_, '_>, number: u32, pins: &BTreeMap<u32, CpuList>) {
    // Definitions with thousands of vCPUs are not written by people.
    for vcpu in (0..number.min(512)).filter(|vcpu| !pins.contains_key(vcpu)) {
        let xml = format!("<vcpupin vcpu='{vcpu}' cpuset='CPU'/>");
        missing(
            draft,
            at,
            &xml,
            "host.vcpu_pin",
            &format!("vCPU {vcpu} has no host CPU of its own."),
        );
    }
}

fn judge_emulator(
    draft: &mut Draft<'_>,
    domain: Node<'_, '_>,
    tune: Option<Node<'_, '_>>,
    pins: &BTreeMap<u32, CpuList>,
) {
    let elements: Vec<_> = ["emulatorpin", "iothreadpin"]
        .into_iter()
        .flat_map(|name| tune.iter().flat_map(move |tune| children(*tune, name)))
        .collect();
    for element in &elements {
        let cpus = cpus_of(*element).unwrap_or_default();
        if let Some((vcpu, _)) = pins.iter().find(|(_, pinned)| pinned.meets(&cpus)) {
            let message = format!(
                "Shares the host CPU of vCPU {vcpu}, which stops while QEMU's other threads run."
            );
            judge_node(draft, *element, "host.emulator_pin", LintVerdict::Harmful, message);
        }
    }

    let shared = child(domain, "vcpu").filter(|_| pins.is_empty()).and_then(cpus_of);
    if let (Some(cpus), Some(vcpu)) = (&shared, child(domain, "vcpu")) {
        let message = format!(
            "Host CPUs {cpus} for all vCPUs together and for QEMU's other threads: vCPU 0's CPU is one of theirs. Give each vCPU \
             a vcpupin, and QEMU's other threads an emulatorpin elsewhere."
        );
        judge_node(draft, vcpu, "host.emulator_pin", LintVerdict::Harmful, message);
    }
    if !elements.iter().any(|element| element.has_tag_name("emulatorpin")) {
        let message = "QEMU's main loop and its workers may run on the host CPUs of the vCPUs.";
        let xml = "<emulatorpin cpuset='HOUSEKEEPING'/>";
        missing(draft, tune.unwrap_or(domain), xml, "host.emulator_pin", message);
    }
}

fn judge_policies(
    draft: &mut Draft<'_>,
    domain: Node<'_, '_>,
    tune: Option<Node<'_, '_>>,
    number: u32,
    pins: &BTreeMap<u32, CpuList>,
) {
    let is_real_time =
        |node: &Node<'_, '_>| matches!(node.attribute("scheduler"), Some("fifo" | "rr"));
    let mut is_any = false;
    for policy in tune.iter().flat_map(|tune| children(*tune, "vcpusched")).filter(is_real_time) {
        is_any = true;
        judge_priority(draft, policy);

        let vcpus = policy.attribute("vcpus").and_then(cpu_set).unwrap_or_default();
        if let Some(vcpu) = vcpus.iter().find(|vcpu| !pins.contains_key(vcpu) && *vcpu < number) {
            let message = format!(
                "vCPU {vcpu} has this policy but no host CPU of its own: it starves everything else on its CPU."
            );
            judge_node(draft, policy, "host.vcpu_prio", LintVerdict::Incomplete, message);
        }
    }

    let of_io = tune.iter().flat_map(|tune| children(*tune, "iothreadsched")).filter(is_real_time);
    of_io.for_each(|policy| judge_priority(draft, policy));
    for policy in tune.iter().flat_map(|tune| children(*tune, "emulatorsched")).filter(is_real_time)
    {
        let message = "QEMU's main loop and its workers then precede the host's kernel threads.";
        let finding = LintRemark::new("host.emulator_pin", LintVerdict::Harmful, message);
        remark(draft, policy, finding.instead(""));
        draft.remove(policy.range());
    }
    if !is_any {
        let vcpus = if number > 1 { format!("1-{}", number - 1) } else { "0".to_owned() };
        let xml = format!("<vcpusched vcpus='{vcpus}' scheduler='fifo' priority='1'/>");
        let message = "Any thread of the host delays the guest's loop.";
        missing(draft, tune.unwrap_or(domain), &xml, "host.vcpu_prio", message);
    }
}

fn judge_priority(draft: &mut Draft<'_>, policy: Node<'_, '_>) {
    if number_of(policy, "priority").is_some_and(|priority| priority > HIGHEST_PRIORITY) {
        let message = "Too close to the kernel's own migration and watchdog threads at 99: at most 95, and 1 for a thread of a guest.";
        let finding = LintRemark::new("kthread.migration", LintVerdict::Harmful, message);
        remark(draft, policy, finding.instead("priority='1'"));
        replace_attribute(draft, policy, "priority", "1");
    }
}
