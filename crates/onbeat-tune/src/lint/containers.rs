//! Containers: `docker run` and compose files.

use std::collections::BTreeSet;
use std::ops::Range;

use super::LintError;
use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::kernel_cpus;
use super::settings::{self, PlacedSetting};
use super::shell_words::{self, ShellWord};
use super::yaml::{self, YamlValue};

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

/// Where `docker run` or `podman run` begins in a text: the words behind each.
fn run_words(text: &str) -> Result<Vec<Vec<ShellWord>>, LintError> {
    // A recipe of make has a sign in front of its command.
    let is_engine = |word: &ShellWord| {
        let name = word.text.trim_start_matches(['@', '-']).rsplit('/').next();
        matches!(name, Some("docker" | "podman" | "nerdctl"))
    };
    // A line of PowerShell or of cmd.exe continues behind another sign.
    let text = [" `", " ^"].iter().fold(text.to_owned(), |text, sign| {
        text.replace(&format!("{sign}\r\n"), " \\\r\n").replace(&format!("{sign}\n"), " \\\n")
    });
    let commands = shell_words::commands(&text)?;
    let behind_run = |(at, command): (usize, &Vec<ShellWord>)| {
        let before = &commands[..at];
        let engine = command.iter().position(is_engine)?;
        // `docker container run`, `docker --context a run`, but not `docker network create`.
        let is_verb = |word: &ShellWord| matches!(word.text.as_str(), "run" | "create");
        let mut may_be_value = false;
        let own = command[engine + 1..].iter().take_while(|word| {
            let is_option = word.text.starts_with('-');
            let is_value = std::mem::replace(&mut may_be_value, is_option) && !is_verb(word);
            is_option || is_value || word.text == "container"
        });
        let verb = engine + 1 + own.count();
        let is_start = command.get(verb).is_some_and(is_verb);
        is_start.then(|| shell_words::spliced(&command[verb + 1..], before))
    };
    Ok(commands.iter().enumerate().filter_map(behind_run).collect())
}

/// Whether a text has a command that starts a container.
pub(super) fn is_run_command(text: &str) -> bool {
    run_words(text).is_ok_and(|commands| !commands.is_empty())
}

/// Judges the commands that start containers.
pub(super) fn judge_run(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let text = draft.text();
    let commands = run_words(text)?;
    if commands.is_empty() {
        return Err(LintError::NoContainer { lines: text.lines().count() });
    }
    commands.iter().for_each(|words| judge_words(draft, words));
    Ok(())
}

/// Judges options alone, which begin at a byte of the text.
pub(super) fn judge_options(draft: &mut Draft<'_>, options: &str, at: usize) {
    let Ok(mut words) = shell_words::arguments(options) else {
        variable(draft, at..at + options.len());
        return;
    };
    for word in &mut words {
        word.bytes = at + word.bytes.start..at + word.bytes.end;
        word.offsets.iter_mut().for_each(|offset| *offset += at);
    }
    judge_words(draft, &words);
}

/// Judges the options of one command, up to its image.
fn judge_words(draft: &mut Draft<'_>, words: &[ShellWord]) {
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next_if(|word| word.text.starts_with(['-', '$'])) {
        // More options perhaps; as the last word it is the image.
        if word.text.starts_with('$') && rest.peek().is_some() {
            variable(draft, word.bytes.clone());
            continue;
        }
        if word.text.starts_with('$') {
            plain(draft, word.bytes.clone());
            return;
        }
        let dashes = if word.text.starts_with("--") { 2 } else { 1 };
        let body = &word.text[dashes..];
        let is_cluster = dashes == 1 && body.len() > 1 && body.chars().all(|c| "dit".contains(c));
        if is_cluster {
            plain(draft, word.bytes.clone());
            continue;
        }
        let (name, inline) = name_of(body, dashes == 1);
        let name = long_name(name);
        let (value, value_bytes, bytes) = match inline {
            Some(value) => {
                let at = word.offsets[word.text.len() - value.len()];
                (value.to_owned(), at..*word.offsets.last().unwrap_or(&at), word.bytes.clone())
            }
            None if settings::is_flag("docker", name) => {
                (String::new(), word.bytes.end..word.bytes.end, word.bytes.clone())
            }
            // What is not known here may take no argument.
            None => match rest.next_if(|next| !is_option(&next.text)) {
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
}

/// Name and value of an option: of one letter they may be joined (`-v/dev:/dev`), behind letters
/// without a value (`-dp 80:80`).
fn name_of(body: &str, is_short: bool) -> (&str, Option<&str>) {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let last = body.trim_start_matches(['d', 'i', 't', 'P']);
    let body = if is_short && last.starts_with(is_letter) { last } else { body };
    match body.split_once('=') {
        _ if is_short && body.len() > 1 && body.starts_with(is_letter) => {
            let value = &body[1..];
            (&body[..1], Some(value.strip_prefix('=').unwrap_or(value)))
        }
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    }
}

/// Whether a word is an option; a number below zero is a value.
fn is_option(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn plain(draft: &mut Draft<'_>, bytes: Range<usize>) {
    draft.remark(bytes, LintRemark::plain());
}

/// Whether a shell, compose or, by a specifier, systemd fills in a value on which the verdict
/// depends.
fn is_variable(name: &str, value: &str) -> bool {
    value.contains(['$', '%'])
        && (matches!(name, "cpuset" | "cap_add") || name.starts_with("ulimit."))
}

fn variable(draft: &mut Draft<'_>, bytes: Range<usize>) {
    let message = "Holds a variable; it is not judged.";
    draft.pass_over(bytes, LintVerdict::Unknown, message);
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
    if is_variable(&name, value) {
        variable(draft, bytes);
    } else if name == "cpuset" {
        judge_cpuset(draft, value, bytes);
    } else if name == "cap_add" && value.contains(',') {
        // Podman's list: what is worst of its names.
        let remarks = value.split(',').map(|name| settings::remark("container", "cap_add", name));
        if let Some(remark) = remarks.min_by_key(|remark| remark.verdict) {
            draft.remark(bytes, remark);
        }
    } else if let Some(remark) = refused_limit(&name, value) {
        draft.remark(bytes, remark);
    } else if name == "sysctl" {
        draft.remark(bytes, sysctl(value));
    } else if settings::is_plain("docker", &dashed) {
        plain(draft, bytes);
    } else if settings::is_listed("docker", &dashed)
        || settings::is_flag("docker", &dashed) && !settings::is_known("container", &name)
        || (name.starts_with("ulimit.") && !settings::is_known("container", &name))
    {
        let message = "A known option. Its effect on latency is not judged.";
        draft.pass_over(bytes, LintVerdict::Known, message);
    } else {
        settings::judge(
            draft,
            "container",
            &PlacedSetting { name, value, bytes, value_bytes },
            None,
        );
    }
}

/// What is said of a limit that docker and podman do not read (`ParseUlimit` of go-units).
pub(super) fn refused_limit(name: &str, value: &str) -> Option<LintRemark> {
    const NAMES: &str = "core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, \
                         rtprio, rttime, sigpending, stack";
    let limit = name.strip_prefix("ulimit.")?;
    // The newer ones read `infinity` too.
    let number = |text: &str| match text {
        "infinity" => Some(i64::MAX),
        _ => text.parse::<i64>().ok().map(|of| if of < 0 { i64::MAX } else { of }),
    };
    let (soft, hard) = value.split_once(':').unwrap_or((value, value));
    let is_read = number(soft).zip(number(hard)).is_some_and(|(soft, hard)| soft <= hard);
    // A word of other files has its correction.
    let remark = || settings::remark("container", name, value);
    let takes = if !NAMES.split(", ").any(|known| known == limit) {
        format!("the limits are {NAMES}")
    } else if !is_read && remark().verdict != LintVerdict::InvalidValue {
        "a limit takes a number, -1 for none, or soft:hard in this order".to_owned()
    } else {
        return None;
    };
    let message = format!("Refused, and the container does not start: {takes}.");
    Some(LintRemark::new("proc.limits", LintVerdict::InvalidValue, message))
}

/// What is said of a sysctl: runc and crun set those of the container's own namespaces.
pub(super) fn sysctl(name: &str) -> LintRemark {
    const OWN: [&str; 6] =
        ["net.", "fs.mqueue.", "kernel.msg", "kernel.shm", "kernel.sem", "kernel.domainname"];
    if name.contains(['$', '%']) || OWN.iter().any(|own| name.starts_with(own)) {
        let message =
            "A sysctl of the container's namespaces. Its effect on latency is not judged.";
        return LintRemark::unjudged(LintVerdict::Known, message);
    }
    let message = "Refused, and the container does not start: it is not a sysctl of its namespaces (net., fs.mqueue., kernel.msg, \
                   kernel.shm, kernel.sem). It is set on the host, in /etc/sysctl.d.";
    LintRemark::new("env.container", LintVerdict::InvalidValue, message)
}

fn judge_cpuset(draft: &mut Draft<'_>, value: &str, bytes: Range<usize>) {
    let remark = match kernel_cpus::parse(value) {
        Ok(cpus) if cpus.known().is_some() && !value.contains(char::is_whitespace) => {
            settings::remark("container", "cpuset", value)
        }
        _ => {
            let message = "Not a list of CPUs: numbers and ranges by comma, such as 2-3.";
            LintRemark::new("shield.plan", LintVerdict::InvalidValue, message)
        }
    };
    draft.remark(bytes, remark);
}

/// Judges a compose file.
pub(super) fn judge_compose(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let values = yaml::values(draft.text()).map_err(|what| LintError::Yaml { what })?;
    // What services share by an alias stands in the text once.
    let mut judged = BTreeSet::new();
    for of in values {
        let keys = of.keys();
        let Some(key) = keys.get(2).filter(|_| keys[0] == "services") else {
            // Headings, and networks, volumes and the like.
            let is_heading =
                keys.first() == Some(&"services") || keys == ["version"] || keys == ["name"];
            draft.add_others(usize::from(!is_heading));
            continue;
        };
        let name = match (*key, keys.get(3)) {
            // The engine has this one; only its command line does not.
            ("ulimits", Some(&"as")) => "ulimits".to_owned(),
            ("ulimits", Some(limit)) => format!("ulimit.{limit}"),
            // A list of texts, or a map.
            ("sysctls", name) => format!("sysctls.{}", name.copied().unwrap_or(of.value.as_str())),
            // The same quota.
            ("deploy", _) if keys.ends_with(&["resources", "limits", "cpus"]) => "cpus".to_owned(),
            (key, _) => key.to_owned(),
        };
        if of.value.is_empty() && name != "cpuset" {
            continue;
        }
        if judged.insert((of.bytes.start, of.bytes.end, name.clone())) {
            judge_key(draft, name, &of, settings::is_plain("compose", key));
        }
    }
    Ok(())
}

fn judge_key(draft: &mut Draft<'_>, name: String, of: &YamlValue, is_plain: bool) {
    let bytes = of.bytes.clone();
    let before = draft.text().get(bytes.start..of.value_bytes.start).unwrap_or_default();
    // Without a quote, an anchor, a tag or the sign of a block in front.
    let is_bare = before.trim_end().ends_with(':')
        && draft.text().get(of.value_bytes.clone()) == Some(of.value.as_str());
    if is_variable(&name, &of.value) {
        variable(draft, bytes);
    } else if name == "cpuset" && of.value.parse::<u32>().is_ok() && is_bare {
        let message =
            "docker compose refuses a number, and starts nothing: a list of CPUs is a text.";
        let remark = LintRemark::new("shield.plan", LintVerdict::InvalidValue, message);
        let instead = format!("{before}\"{}\"", of.value);
        draft.correct(bytes, remark, Some(instead));
    } else if name == "cpuset" {
        judge_cpuset(draft, &of.value, bytes);
    } else if let Some(remark) = refused_limit(&name, &of.value) {
        draft.remark(bytes, remark);
    } else if let Some(name) = name.strip_prefix("sysctls.") {
        draft.remark(bytes, sysctl(name));
    } else if settings::is_known("container", &name) {
        let value_bytes = of.value_bytes.clone();
        let placed = PlacedSetting { name, value: &of.value, bytes, value_bytes };
        settings::judge(draft, "container", &placed, None);
    } else if is_plain {
        plain(draft, bytes);
    } else {
        let message = "A key of a service. Its effect on latency is not judged.";
        draft.pass_over(bytes, LintVerdict::Known, message);
    }
}
