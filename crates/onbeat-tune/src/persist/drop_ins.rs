//! The texts of the files that persist settings.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::boot_loader::{BootLoader, grub_drop_in};
use super::etc_files::EtcFiles;
use super::settings::{ApplyAtBoot, BootSettings};
use super::{PersistError, kernel_line};

/// The first line of each file.
pub(super) const HEAD: &str =
    "# Written by onbeat tune persist. Remove it by: onbeat tune persist --remove";

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// Its path on the machine.
    pub path: String,
    /// Its whole text; empty for a link.
    pub text: String,
    /// What it held before; `None` for a file of onbeat's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_to: Option<String>,
    /// Kernel parameters of others that are not in the text, because onbeat's have their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub displaced: Vec<String>,
}

impl PlannedFile {
    fn own(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), text, before: None, link_to: None, displaced: Vec::new() }
    }
}

const GRUB: &str = "/etc/default/grub.d/90-onbeat.cfg";
const SYSCTL: &str = "/etc/sysctl.d/90-onbeat.conf";
const TMPFILES: &str = "/etc/tmpfiles.d/90-onbeat.conf";
const SYSTEM_CONF: &str = "/etc/systemd/system.conf.d/90-onbeat.conf";
const PLAN: &str = "/etc/onbeat/boot-plan.toml";
const UNIT: &str = "/etc/systemd/system/onbeat-apply.service";
const WANTED: &str = "/etc/systemd/system/multi-user.target.wants/onbeat-apply.service";

/// Returns all files that the settings need, in the order of their writing.
pub(super) fn plan(
    files: &EtcFiles,
    settings: &BootSettings,
    loader: &BootLoader,
) -> Result<Vec<PlannedFile>, PersistError> {
    let mut planned = Vec::new();
    if !settings.kernel_parameters.is_empty() {
        planned.extend(kernel_parameters(files, &settings.kernel_parameters, loader)?);
    }
    if !settings.sysctls.is_empty() {
        let lines = settings.sysctls.iter().map(|(name, value)| format!("{name} = {value}\n"));
        planned.push(PlannedFile::own(SYSCTL, with_head(lines)));
    }
    if !settings.sysfs.is_empty() {
        // tmpfiles.d reads % as a specifier.
        let line = |(path, value): (&String, &String)| {
            format!("w {path} - - - - {}\n", value.replace('%', "%%"))
        };
        planned.push(PlannedFile::own(TMPFILES, with_head(settings.sysfs.iter().map(line))));
    }
    if let Some(cpus) = &settings.service_cpus {
        // systemd separates ranges by blanks or commas.
        let lines = ["[Manager]\n".to_owned(), format!("CPUAffinity={cpus}\n")];
        planned.push(PlannedFile::own(SYSTEM_CONF, with_head(lines.into_iter())));
    }
    if let Some(apply) = &settings.apply {
        planned.push(PlannedFile::own(PLAN, apply.plan.clone()));
        planned.push(PlannedFile::own(UNIT, unit(apply)));
        let link = PlannedFile::own(WANTED, String::new());
        planned.push(PlannedFile { link_to: Some(UNIT.to_owned()), ..link });
    }

    Ok(planned)
}

fn with_head(lines: impl Iterator<Item = String>) -> String {
    std::iter::once(format!("{HEAD}\n")).chain(lines).collect()
}

fn kernel_parameters(
    files: &EtcFiles,
    parameters: &[String],
    loader: &BootLoader,
) -> Result<Option<PlannedFile>, PersistError> {
    if *loader == BootLoader::GrubDropIn {
        return Ok(Some(PlannedFile::own(GRUB, grub_drop_in(parameters))));
    }
    let Some(path) = loader.line_file() else { return Ok(None) };

    let before = files.read(path)?;
    // kernel-install falls back to the line of the running kernel in the same way.
    let text = before.clone().or_else(|| running_line(files));
    let no_line = || PersistError::NoKernelLine { path: files.place(path) };
    let is_joined = matches!(loader, BootLoader::KernelInstall | BootLoader::Mkinitcpio);
    let merged = text
        .as_deref()
        .and_then(|text| kernel_line::merge(text, parameters, is_joined))
        .ok_or_else(no_line)?;
    Ok(Some(PlannedFile {
        path: path.to_owned(),
        text: merged.text,
        before,
        link_to: None,
        displaced: merged.displaced,
    }))
}

/// `/proc/cmdline` without what the boot loader adds.
fn running_line(files: &EtcFiles) -> Option<String> {
    let line = files
        .read("/usr/lib/kernel/cmdline")
        .ok()
        .flatten()
        .or_else(|| files.read("/proc/cmdline").ok()?)?;
    let is_own = |piece: &&str| !piece.starts_with("BOOT_IMAGE=") && !piece.starts_with("initrd=");
    Some(line.split_whitespace().filter(is_own).collect::<Vec<_>>().join(" ") + "\n")
}

/// A unit that applies the plan before services start, and undoes it at shutdown.
fn unit(apply: &ApplyAtBoot) -> String {
    let mut text = format!("{HEAD}\n");
    // systemd reads % as a specifier, and a blank as the end of a word.
    let path = apply.program.replace('%', "%%");
    let program = if path.contains(' ') { format!("\"{path}\"") } else { path.clone() };
    let _ = write!(
        text,
        "[Unit]
Description=Tunings of onbeat
After=local-fs.target systemd-modules-load.service systemd-sysctl.service systemd-tmpfiles-setup.service
After=systemd-udev-settle.service tuned.service irqbalance.service network-pre.target
ConditionPathExists={PLAN}
ConditionFileIsExecutable={path}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} tune apply --yes {PLAN}
ExecStop={program} tune undo

[Install]
WantedBy=multi-user.target
"
    );
    text
}

/// Directories of sysctl.d; a file in an earlier one hides one of the same name in a later one.
const SYSCTL_DIRECTORIES: [&str; 4] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

/// Files that set the same sysctls after onbeat's.
pub(super) fn overridden(files: &EtcFiles, settings: &BootSettings) -> Vec<String> {
    let mut paths = BTreeMap::new();
    for directory in SYSCTL_DIRECTORIES {
        for name in files.names(directory) {
            let path = format!("{directory}/{name}");
            paths.entry(name).or_insert(path);
        }
    }
    paths.retain(|name, _| name.as_str() > "90-onbeat.conf" && name.ends_with(".conf"));

    let mut found = Vec::new();
    for path in paths.into_values() {
        let text = files.read(&path).ok().flatten().unwrap_or_default();
        found.extend(same_names(&text, settings).map(|line| format!("{path}: {line}")));
    }
    found
}

fn same_names<'s>(text: &'s str, settings: &'s BootSettings) -> impl Iterator<Item = &'s str> {
    let sets = |line: &&str| {
        let name = line
            .split('=')
            .next()
            .unwrap_or_default()
            .trim()
            .trim_start_matches('-')
            .replace('/', ".");
        settings.sysctls.contains_key(&name)
    };
    text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])).filter(sets)
}
