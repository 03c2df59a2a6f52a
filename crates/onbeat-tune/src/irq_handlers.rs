//! The handlers of an interrupt.

use super::host_files::HostFiles;

/// The handlers of an interrupt: the directories of `/proc/irq/N`.
pub(super) fn actions(host: &dyn HostFiles, number: u32) -> Vec<String> {
    let mut names = host.directories(&format!("/proc/irq/{number}")).unwrap_or_default();
    names.sort();
    names
}
