//! Containers: `docker run`, compose files, and pods of Kubernetes.

use std::ops::Range;

use super::LintError;
use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::kernel_cpus;
use super::kernel_text::numbered_lines;
use super::settings::{self, PlacedSetting};
use super::shell_words::{self, ShellWord};

/// Options of `docker run` that take no argument.
const FLAGS: [&str; 12] = [
    "detach",
    "init",
    "interactive",
    "privileged",
    "publish-all",
    "read-only",
    "rm",
    "tty",
    "no-healthcheck",
    "oom-kill-disable",
    "quiet",
    "sig-proxy",
];

/// Options of `docker run` without effect on latency.
const PLAIN: [&str; 34] = [
    "detach",
    "init",
    "interactive",
    "tty",
    "rm",
    "name",
    "env",
    "env-file",
    "volume",
    "mount",
    "workdir",
    "user",
    "hostname",
    "publish",
    "publish-all",
    "expose",
    "label",
    "entrypoint",
    "restart",
    "pull",
    "platform",
    "group-add",
    "add-host",
    "dns",
    "tmpfs",
    "device",
    "log-driver",
    "log-opt",
    "stop-timeout",
    "stop-signal",
    "quiet",
    "annotation",
    "cidfile",
    "domainname",
];

/// Options of `docker run` whose effect is not judged.
const KNOWN: [&str; 22] = [
    "network",
    "net",
    "ipc",
    "pid",
    "shm-size",
    "security-opt",
    "cap-drop",
    "cpu-shares",
    "cpu-period",
    "cpu-count",
    "cpuset-mems",
    "memory",
    "memory-swap",
    "memory-swappiness",
    "memory-reservation",
    "oom-score-adj",
    "oom-kill-disable",
    "pids-limit",
    "blkio-weight",
    "runtime",
    "gpus",
    "cgroup-parent",
];

fn long_name(name: &str) -> &str {
    match name {
        "d" => "detach",
        "i" => "interactive",
        "t" => "tty",
        "e" => "env",
        "v" => "volume",
        "w" => "workdir",
        "u" => "user",
        "h" => "hostname",
        "p" => "publish",
        "P" => "publish-all",
        "l" => "label",
        "m" => "memory",
        "c" => "cpu-shares",
        name => name,
    }
}

/// Where `docker run` or `podman run` begins in a text: the words behind it.
fn run_words(text: &str) -> Result<Option<Vec<ShellWord>>, LintError> {
    for command in shell_words::commands(text)? {
        let is_engine = |word: &ShellWord| {
            matches!(word.text.rsplit('/').next(), Some("docker" | "podman" | "nerdctl"))
        };
        let Some(engine) = command.iter().position(is_engine) else { continue };
        let verb =
            command[engine + 1..].iter().position(|w| matches!(w.text.as_str(), "run" | "create"));
        if let Some(verb) = verb.filter(|verb| *verb <= 1) {
            return Ok(Some(command[engine + verb + 2..].to_vec()));
        }
    }
    Ok(None)
}

/// Whether a text has a command that starts a container.
pub(super) fn is_run_command(text: &str) -> bool {
    matches!(run_words(text), Ok(Some(_)))
}

/// Judges a command that starts a container.
pub(super) fn judge_run(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let text = draft.text();
    let Some(words) = run_words(text)? else {
        return Err(LintError::NoContainer { lines: text.lines().count() });
    };
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next_if(|word| word.text.starts_with('-')) {
        let dashes = if word.text.starts_with("--") { 2 } else { 1 };
        let body = &word.text[dashes..];
        let is_cluster = dashes == 1 && body.len() > 1 && body.chars().all(|c| "dit".contains(c));
        if is_cluster {
            plain(draft, word.bytes.clone());
            continue;
        }
        let (name, inline) = body.split_once('=').map_or((body, None), |(n, v)| (n, Some(v)));
        let name = long_name(name);
        let (value, value_bytes, bytes) = match inline {
            Some(value) => {
                let at = word.offsets[word.text.len() - value.len()];
                (value.to_owned(), at..*word.offsets.last().unwrap_or(&at), word.bytes.clone())
            }
            None if FLAGS.contains(&name) => {
                (String::new(), word.bytes.end..word.bytes.end, word.bytes.clone())
            }
            None => match rest.next() {
                Some(next) => (
                    next.text.clone(),
                    next.offsets[0]..*next.offsets.last().unwrap_or(&next.bytes.end),
                    word.bytes.start..next.bytes.end,
                ),
                None => (String::new(), word.bytes.end..word.bytes.end, word.bytes.clone()),
            },
        };
        judge_option(draft, name, &value, bytes, value_bytes);
    }
    // The image, and the program's own words behind it.
    if let Some(image) = rest.next() {
        plain(draft, image.bytes.clone());
    }
    Ok(())
}

fn plain(draft: &mut Draft<'_>, bytes: Range<usize>) {
    draft.remark(bytes, LintRemark::unjudged(LintVerdict::Valid, "No effect on latency."));
}

fn judge_option(
    draft: &mut Draft<'_>,
    name: &str,
    value: &str,
    bytes: Range<usize>,
    value_bytes: Range<usize>,
) {
    let (name, value, value_bytes) = match (name, value.split_once('=')) {
        ("ulimit", Some((limit, of))) => {
            let start = value_bytes.end - of.len().min(value_bytes.len());
            (format!("ulimit.{limit}"), of, start..value_bytes.end)
        }
        ("cpuset-cpus", _) => ("cpuset".to_owned(), value, value_bytes),
        _ => (name.replace('-', "_"), value, value_bytes),
    };
    let dashed = name.replace('_', "-");
    if name == "cpuset" {
        judge_cpuset(draft, value, bytes);
    } else if PLAIN.contains(&dashed.as_str()) {
        plain(draft, bytes);
    } else if KNOWN.contains(&dashed.as_str())
        || (name.starts_with("ulimit.") && !settings::is_known("container", &name))
    {
        let message = "A known option. Its effect on latency is not judged.";
        draft.remark(bytes, LintRemark::unjudged(LintVerdict::Known, message));
    } else {
        settings::judge(
            draft,
            "container",
            &PlacedSetting { name, value, bytes, value_bytes },
            None,
        );
    }
}

fn judge_cpuset(draft: &mut Draft<'_>, value: &str, bytes: Range<usize>) {
    let remark = match kernel_cpus::parse(value) {
        Ok(cpus) if cpus.known().is_some() => settings::remark("container", "cpuset", value),
        _ => {
            let message = "Not a list of CPUs: numbers and ranges by comma, such as 2-3.";
            LintRemark::new("shield.plan", LintVerdict::InvalidValue, message)
        }
    };
    draft.remark(bytes, remark);
}

/// A `key: value`, or an item of a list, of a YAML file.
struct YamlLine<'t> {
    /// The keys above it and its own.
    path: Vec<String>,
    /// Without quotes; empty where deeper lines follow.
    value: &'t str,
    bytes: Range<usize>,
    value_bytes: Range<usize>,
}

/// Reads the subset of YAML that people write such files in; the error is what is not read.
fn yaml_lines(text: &str) -> Result<Vec<YamlLine<'_>>, String> {
    let mut stack: Vec<(usize, String)> = Vec::new();
    let mut lines = Vec::new();
    for (number, (at, line)) in numbered_lines(text).enumerate() {
        let content = line.find(" #").map_or(line, |end| &line[..end]).trim_end();
        let trimmed = content.trim_start();
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed == "---" {
            continue;
        }
        let strange = |what: &str| Err(format!("line {} has {what}", number + 1));
        if content.contains('\t') {
            return strange("a tab in its indentation");
        }
        let mut indent = content.len() - trimmed.len();
        let mut rest = trimmed;
        let mut is_item = false;
        while let Some(inner) = rest.strip_prefix("- ").or_else(|| (rest == "-").then_some("")) {
            stack.retain(|(known, _)| *known < indent + usize::from(!is_item));
            stack.push((indent, "-".to_owned()));
            let inner = inner.trim_start();
            indent += rest.len() - inner.len();
            rest = inner;
            is_item = true;
        }
        stack.retain(|(known, _)| *known < indent);
        let key_end = rest.find(": ").or_else(|| rest.ends_with(':').then(|| rest.len() - 1));
        let (key, value) = match key_end {
            Some(end) if !rest.starts_with(['"', '\'', '[', '{']) => {
                (Some(&rest[..end]), rest[end + 1..].trim_start())
            }
            _ => (None, rest),
        };
        if value.starts_with(['&', '*', '|', '>']) || rest.starts_with("<<") {
            return strange("an anchor, an alias or a text block");
        }
        let end = at + content.len();
        let start = end - rest.len();
        let quotes = usize::from(
            value.len() > 1 && value.starts_with(['"', '\'']) && value.ends_with(&value[..1]),
        );
        let value_bytes = end - value.len() + quotes..end - quotes;
        if let Some(key) = key {
            stack.push((indent, key.to_owned()));
        }
        let path = stack.iter().map(|(_, key)| key.clone()).collect();
        lines.push(YamlLine {
            path,
            value: &text[value_bytes.clone()],
            bytes: start..end,
            value_bytes,
        });
    }
    Ok(lines)
}

/// Keys of a service that have no effect on latency.
const PLAIN_KEYS: [&str; 22] = [
    "image",
    "build",
    "container_name",
    "command",
    "entrypoint",
    "environment",
    "env_file",
    "volumes",
    "ports",
    "restart",
    "depends_on",
    "working_dir",
    "user",
    "hostname",
    "labels",
    "version",
    "services",
    "name",
    "stdin_open",
    "tty",
    "devices",
    "profiles",
];

/// Judges a compose file.
pub(super) fn judge_compose(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let lines = yaml_lines(draft.text()).map_err(|what| LintError::Yaml { what })?;
    for YamlLine { path, value, bytes, value_bytes } in lines {
        let keys: Vec<&str> = path.iter().map(String::as_str).filter(|key| *key != "-").collect();
        let Some(key) = keys.get(2).filter(|_| keys[0] == "services") else {
            // Headings, and networks, volumes and the like.
            let is_heading =
                keys.first() == Some(&"services") || keys == ["version"] || keys == ["name"];
            draft.add_others(usize::from(!is_heading));
            continue;
        };
        let name = match (*key, keys.get(3)) {
            ("ulimits", Some(limit)) => format!("ulimit.{limit}"),
            (key, _) => key.to_owned(),
        };
        if value.is_empty() && !matches!(name.as_str(), "cpuset") {
            continue;
        }
        if name == "cpuset" {
            judge_cpuset(draft, value, bytes);
        } else if settings::is_known("container", &name) {
            if value.starts_with(['[', '{']) {
                draft.refuse_correction("a value is in brackets");
                let message = "In brackets; it is not judged.";
                draft.remark(bytes, LintRemark::unjudged(LintVerdict::Unknown, message));
                continue;
            }
            settings::judge(
                draft,
                "container",
                &PlacedSetting { name, value, bytes, value_bytes },
                None,
            );
        } else if PLAIN_KEYS.contains(key) {
            plain(draft, bytes);
        } else {
            let message = "A key of a service. Its effect on latency is not judged.";
            draft.remark(bytes, LintRemark::unjudged(LintVerdict::Known, message));
        }
    }
    Ok(())
}

/// Judges the resources of a pod of Kubernetes: whole CPUs of its own need equal requests and limits.
pub(super) fn judge_pod(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let lines = yaml_lines(draft.text()).map_err(|what| LintError::Yaml { what })?;
    let mut requested: Option<&str> = None;
    let is_at = |path: &[String], end: &[&str]| {
        let keys: Vec<&str> = path.iter().map(String::as_str).filter(|key| *key != "-").collect();
        keys.ends_with(end)
    };
    for line in &lines {
        if is_at(&line.path, &["resources", "requests", "cpu"]) {
            requested = Some(line.value);
        }
    }
    for YamlLine { path, value, bytes, .. } in &lines {
        let (path, bytes) = (path.as_slice(), bytes.clone());
        if is_at(path, &["resources", "limits", "cpu"])
            || is_at(path, &["resources", "requests", "cpu"])
        {
            let is_whole = value.parse::<u32>().is_ok_and(|cpus| cpus > 0);
            let is_limit = is_at(path, &["limits", "cpu"]);
            let message = match is_whole {
                false => Some(
                    "Not a whole number of CPUs: the static CPU manager gives the container no CPU of its own, and a quota stops it.",
                ),
                true if is_limit && requested.is_some_and(|request| request != *value) => Some(
                    "Requests and limits differ: the pod is not Guaranteed, and the static CPU manager gives it no CPU of its own.",
                ),
                true => None,
            };
            let remark = match message {
                Some(message) => LintRemark::new("shield.plan", LintVerdict::Incomplete, message),
                None => LintRemark::new(
                    "shield.plan",
                    LintVerdict::Valid,
                    "Valid; CPUs of its own where the kubelet has cpuManagerPolicy static, and all containers of the pod have equal requests and limits.",
                ),
            };
            draft.remark(bytes, remark);
        } else if path.iter().any(|key| key == "capabilities")
            && !value.is_empty()
            && path.iter().any(|key| key == "add")
        {
            let values = value.trim_matches(['[', ']']);
            for value in values.split(',').map(|value| value.trim().trim_matches('"')) {
                draft.remark(bytes.clone(), settings::remark("container", "cap_add", value));
            }
        } else if is_at(path, &["securityContext", "privileged"]) && *value == "true" {
            draft.remark(bytes, settings::remark("container", "privileged", "true"));
        } else if !value.is_empty() {
            draft.add_others(1);
        }
    }
    draft.refuse_correction("the resources of a pod are a choice of whoever plans the machine");
    Ok(())
}
