//! Manifests of Kubernetes: the resources of pods, the kubelet's policy for CPUs, and kernel parameters
//! that an operator passes on to the nodes.

use std::collections::BTreeSet;

use super::LintError;
use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::kernel_line;
use super::settings::{self, PlacedSetting};
use super::yaml::{self, YamlValue};

/// The values below one key.
struct Section<'v> {
    values: &'v [YamlValue],
    path: &'v [String],
}

impl<'v> Section<'v> {
    fn get(&self, of: &[&str]) -> Option<&'v str> {
        let is_it =
            |value: &&YamlValue| value.path.strip_prefix(self.path).is_some_and(|rest| rest == of);
        self.values.iter().find(is_it).map(|found| found.value.as_str())
    }

    /// Whether a resource of a container has a limit and the same request.
    fn is_same(&self, what: &str) -> bool {
        let limit = self.get(&["resources", "limits", what]).and_then(quantity);
        // A request that is left out is the limit.
        let request = self.get(&["resources", "requests", what]).map_or(limit, quantity);
        limit.is_some() && request == limit
    }

    /// Why a container with these resources gets no CPU of its own from the static CPU manager, seen from
    /// one of the two values for the CPU (kubelet: pkg/apis/core/v1/helper/qos, cpumanager).
    fn refusal(&self, cpu: &str, is_limit: bool) -> Option<&'static str> {
        match quantity(cpu) {
            None => Some("Not a quantity: a number of CPUs, such as 2 or 2000m."),
            Some(cpus) if cpus <= 0.0 || cpus.fract() != 0.0 => Some(
                "Not a whole number of CPUs: the static CPU manager gives the container no CPU of its own, and a quota stops it.",
            ),
            _ if !is_limit && self.get(&["resources", "limits", "cpu"]).is_none() => Some(
                "Without an equal limit the pod is not Guaranteed, and the static CPU manager gives it no CPU of its own.",
            ),
            _ if is_limit && !self.is_same("cpu") => Some(
                "Requests and limits differ: the pod is not Guaranteed, and the static CPU manager gives it no CPU of its own.",
            ),
            _ if is_limit && !self.is_same("memory") => Some(
                "Requests and limits of memory are missing or differ: the pod is not Guaranteed, and the static CPU manager gives it no CPU of its own.",
            ),
            _ => None,
        }
    }

    /// The name of another container of the pod whose requests and limits are not equal.
    fn other_refusal(&self) -> Option<&'v str> {
        let (pod, own) = (self.path.get(..self.path.len().checked_sub(2)?)?, self.path);
        let container = |value: &'v YamlValue| {
            let list = value.path.strip_prefix(pod)?.first()?.as_str();
            let is_container = matches!(list, "containers" | "initContainers");
            value.path.get(..pod.len() + 2).filter(|_| is_container)
        };
        let containers: BTreeSet<&[String]> = self.values.iter().filter_map(container).collect();
        containers.into_iter().filter(|path| *path != own).find_map(|path| {
            let other = Section { values: self.values, path };
            let is_equal = other.is_same("cpu") && other.is_same("memory");
            (!is_equal).then(|| other.get(&["name"]).unwrap_or("another one"))
        })
    }
}

/// The value of a quantity of Kubernetes, such as 1500m or 1Gi.
fn quantity(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_alphabetic() && c != 'e').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match &text[end..] {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    // Thousandths are not exact as fractions of two.
    Some(if factor < 1.0 { number / 1e3 } else { number * factor })
}

/// Keys with words of the kernel command line: of OpenShift's operators, and of Talos.
const KERNEL_WORDS: [&str; 3] = ["kernelArguments", "additionalKernelArgs", "extraKernelArgs"];

/// Judges a manifest of Kubernetes, or a machine's configuration of Talos: whole CPUs of its own need
/// equal requests and limits.
pub(super) fn judge(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let values = yaml::values(draft.text()).map_err(|what| LintError::Yaml { what })?;
    let mut done = None;
    for of in &values {
        let keys = of.keys();
        let bytes = of.bytes.clone();
        if keys.ends_with(&["resources", "limits", "cpu"])
            || keys.ends_with(&["resources", "requests", "cpu"])
        {
            judge_cpus(draft, &values, of);
        } else if is_item(of) && keys.last().is_some_and(|key| KERNEL_WORDS.contains(key)) {
            let list = &of.path[..of.path.len() - 1];
            if done != Some(list) {
                judge_kernel_words(draft, &values, list);
            }
            done = Some(list);
        } else if keys.ends_with(&["cpuManagerPolicy"]) {
            let path = &of.path[..of.path.len() - 1];
            let kubelet = Section { values: &values, path };
            // An operator adds its own settings to those in a manifest of another kind.
            let is_whole = keys.len() == 1;
            draft.remark(bytes, cpu_manager(&kubelet, &of.value, is_whole));
        } else if let ["machine", "sysctls", name] = keys[..] {
            let (name, value_bytes) = (name.to_owned(), of.value_bytes.clone());
            let placed = PlacedSetting { name, value: &of.value, bytes, value_bytes };
            settings::judge(draft, "sysctl", &placed, None);
        } else if keys.ends_with(&["capabilities", "add"]) && !of.value.is_empty() {
            draft.remark(bytes, settings::remark("container", "cap_add", &of.value));
        } else if keys.ends_with(&["securityContext", "privileged"]) && of.value == "true" {
            draft.remark(bytes, settings::remark("container", "privileged", "true"));
        } else if !of.value.is_empty() {
            draft.add_others(1);
        }
    }
    draft.refuse_correction("what is right depends on the nodes of the cluster");
    Ok(())
}

fn is_item(of: &YamlValue) -> bool {
    of.path.last().is_some_and(|last| last.starts_with('-'))
}

/// Judges a request or a limit of CPUs.
fn judge_cpus(draft: &mut Draft<'_>, values: &[YamlValue], of: &YamlValue) {
    let container = Section { values, path: &of.path[..of.path.len() - 3] };
    let is_limit = of.path.iter().nth_back(1).is_some_and(|key| key == "limits");
    let incomplete =
        |message: String| LintRemark::new("shield.plan", LintVerdict::Incomplete, message);
    let remark = match (container.refusal(&of.value, is_limit), container.other_refusal()) {
        (Some(message), _) => incomplete(message.to_owned()),
        (None, Some(other)) => incomplete(format!(
            "Container {other} of the pod lacks equal requests and limits of CPU and memory: the pod is not Guaranteed, and the \
             static CPU manager gives none of its containers a CPU of its own."
        )),
        (None, None) => LintRemark::new(
            "shield.plan",
            LintVerdict::Valid,
            "Valid; CPUs of its own where the kubelet has cpuManagerPolicy static.",
        ),
    };
    draft.remark(of.bytes.clone(), remark);
}

/// Judges the items of a list as one kernel command line.
fn judge_kernel_words(draft: &mut Draft<'_>, values: &[YamlValue], list: &[String]) {
    let (mut line, mut offsets) = (String::new(), Vec::new());
    let is_of_list = |of: &&YamlValue| of.path.len() == list.len() + 1 && of.path.starts_with(list);
    for of in values.iter().filter(is_of_list) {
        let is_of_talos = list.last().is_some_and(|key| key == "extraKernelArgs");
        if is_of_talos && of.value.starts_with('-') {
            let message = "Talos takes this word out of its own line.";
            draft.pass_over(of.bytes.clone(), LintVerdict::Known, message);
            continue;
        }
        // What the quotes of YAML change has no place of its own.
        if of.value.is_empty() || draft.text()[of.value_bytes.clone()] != of.value {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
            offsets.push(of.value_bytes.start);
        }
        line.push_str(&of.value);
        offsets.extend(of.value_bytes.clone());
    }
    let end = offsets.last().map(|last| last + 1);
    offsets.extend(end);
    if !line.is_empty() {
        kernel_line::judge_part(draft, &line, &offsets);
    }
}

/// The kubelet's policy (pkg/kubelet/cm/cpumanager/policy_static.go).
fn cpu_manager(kubelet: &Section<'_>, policy: &str, is_whole: bool) -> LintRemark {
    let reserved: [&[&str]; 3] =
        [&["reservedSystemCPUs"], &["systemReserved", "cpu"], &["kubeReserved", "cpu"]];
    // Of an amount 0 reserves nothing; in a list of CPUs it is the first one.
    let is_given = |key: &&[&str]| {
        let value = kubelet.get(key).unwrap_or_default();
        !value.is_empty() && (key.len() == 1 || !matches!(value, "0" | "0m"))
    };
    let (verdict, message) = match policy {
        "static" if !is_whole || reserved.iter().any(is_given) => {
            (LintVerdict::Valid, "Valid; Guaranteed pods with whole CPUs get CPUs of their own.")
        }
        "static" => (
            LintVerdict::Incomplete,
            "The kubelet does not start without reserved CPUs: add reservedSystemCPUs, such as \"0-1\".",
        ),
        "none" => (
            LintVerdict::Incomplete,
            "No container gets a CPU of its own: static, with reservedSystemCPUs.",
        ),
        _ => {
            (LintVerdict::InvalidValue, "The kubelet refuses it. The policies are none and static.")
        }
    };
    LintRemark::new("shield.plan", verdict, message)
}
