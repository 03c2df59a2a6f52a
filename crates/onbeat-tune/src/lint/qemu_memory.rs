//! The memory of a guest in a command line of QEMU.

use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::qemu::{Additions, missing};
use super::qemu_command::{QemuCommand, QemuOption, mebibytes};

/// Memory of a guest where `-m` does not say, in MiB.
const DEFAULT_MIB: u64 = 128;
const ID: &str = "vmm.mem";

/// Judges memory backends, the options that they replaced, and locking.
pub(super) fn judge(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    let memory = command.last(&["m"]).map(|option| option.key("size").unwrap_or(option.head()));
    let guest_mib = memory.map_or(Some(DEFAULT_MIB), mebibytes);
    let backends: Vec<_> = command
        .all(&["object"])
        .filter(|option| option.head().starts_with("memory-backend-"))
        .collect();
    let unattached: Vec<_> =
        backends.iter().filter(|option| !is_attached(command, option)).collect();

    for backend in &unattached {
        judge_unattached(draft, backend, guest_mib);
    }
    for option in command.all(&["mem-prealloc", "mem-path"]) {
        let message = "The older spelling of a memory backend with prealloc=on.";
        let remark = LintRemark::new(ID, LintVerdict::Deprecated, message);
        draft.remark(option.bytes.clone(), remark.instead(""));
        draft.remove(option.bytes.clone());
    }

    let is_attached_huge =
        |backend: &&&QemuOption| is_attached(command, backend) && is_huge(backend);
    match (unattached.first(), backends.iter().find(is_attached_huge)) {
        // The backend that was meant.
        (Some(backend), _) => attach(draft, command, backend, guest_mib, additions),
        (None, Some(backend)) => judge_size(draft, backend, guest_mib),
        (None, None) => add_backend(draft, command, guest_mib, additions),
    }
    judge_locking(draft, command, additions);
}

/// Whether the machine, a NUMA node or a device uses a backend.
fn is_attached(command: &QemuCommand, backend: &QemuOption) -> bool {
    let Some(id) = backend.key("id") else { return false };
    let by_machine =
        command.all(&["M", "machine"]).any(|option| option.key("memory-backend") == Some(id));
    by_machine || command.all(&["numa", "device"]).any(|option| option.key("memdev") == Some(id))
}

fn is_huge(backend: &QemuOption) -> bool {
    backend.key("hugetlb") == Some("on")
        || backend.key("mem-path").is_some_and(|path| path.contains("huge"))
}

/// The size of a backend, which is in bytes where it has no unit.
fn size_mib(backend: &QemuOption) -> Option<u64> {
    let text = backend.key("size")?;
    text.parse::<u64>().map_or_else(|_| mebibytes(text), |bytes| Some(bytes >> 20))
}

/// A size that QEMU reads back as the same number.
fn size_text(mib: Option<u64>) -> String {
    match mib {
        Some(mib) if mib % 1024 == 0 => format!("{}G", mib / 1024),
        Some(mib) => format!("{mib}M"),
        None => "SIZE".to_owned(),
    }
}

fn backend_argument(id: &str, mib: Option<u64>) -> String {
    // Pages of 1 GiB do not divide any other size.
    let page = if mib.is_some_and(|mib| mib % 1024 == 0) { "1G" } else { "2M" };
    format!(
        "memory-backend-memfd,id={id},size={},hugetlb=on,hugetlbsize={page},prealloc=on",
        size_text(mib)
    )
}

fn judge_unattached(draft: &mut Draft<'_>, backend: &QemuOption, guest_mib: Option<u64>) {
    let id = backend.key("id").unwrap_or("ram0");
    let size = size_mib(backend);
    let message = format!(
        "Attached to nothing: {} are allocated beside the {} of the guest, which do not use them. -machine memory-backend={id} attaches \
         it; -m and the backend must have the same size.",
        size_text(size).replace('G', " GiB").replace('M', " MiB"),
        size_text(guest_mib).replace('G', " GiB").replace('M', " MiB"),
    );
    let instead =
        format!("-object {} -machine memory-backend={id}", backend_argument(id, guest_mib));
    let remark = LintRemark::new(ID, LintVerdict::NoEffect, message);
    draft.remark(backend.bytes.clone(), remark.instead(instead));
}

fn attach(
    draft: &mut Draft<'_>,
    command: &QemuCommand,
    backend: &QemuOption,
    guest_mib: Option<u64>,
    additions: &mut Additions,
) {
    let id = backend.key("id").unwrap_or("ram0");
    if let Some(word) = &backend.argument {
        draft.replace(word.bytes.clone(), backend_argument(id, guest_mib));
    }
    name_backend(draft, command, id, additions);
}

/// Names a backend in the machine's option.
fn name_backend(draft: &mut Draft<'_>, command: &QemuCommand, id: &str, additions: &mut Additions) {
    match command.last(&["M", "machine"]).and_then(|option| option.argument.as_ref()) {
        Some(word) => draft.insert(word.bytes.end, format!(",memory-backend={id}")),
        None => additions.option(format!("-machine memory-backend={id}")),
    }
}

fn add_backend(
    draft: &mut Draft<'_>,
    command: &QemuCommand,
    guest_mib: Option<u64>,
    additions: &mut Additions,
) {
    let message =
        "The host provides each page of the guest at its first use, and the vCPU waits for it.";
    let option = format!("-object {}", backend_argument("ram0", guest_mib));
    missing(draft, command, &option, (ID, message), additions);
    if command.unset.is_empty() {
        name_backend(draft, command, "ram0", additions);
    }
}

fn judge_size(draft: &mut Draft<'_>, backend: &QemuOption, guest_mib: Option<u64>) {
    let size = size_mib(backend);
    if let (Some(size), Some(guest)) = (size, guest_mib)
        && size != guest
    {
        let message =
            format!("The backend has {size} MiB and -m {guest} MiB: QEMU refuses to start.");
        draft.judge(backend.bytes.clone(), ID, LintVerdict::Contradiction, message);
    }
    if backend.key("prealloc") != Some("on") {
        let message = "Pages are provided at their first use, and the vCPU waits for them.";
        let remark = LintRemark::new(ID, LintVerdict::Incomplete, message)
            .instead(format!("{},prealloc=on", backend.value()));
        draft.remark(backend.bytes.clone(), remark);
        if !backend.is_json() {
            draft.insert(backend.bytes.end, ",prealloc=on");
        }
    }
}

fn judge_locking(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    let is_locked = command.all(&["overcommit"]).any(|option| option.key("mem-lock") == Some("on"));
    // Its replacement is added where the old option is judged.
    if !is_locked && command.last(&["realtime"]).is_none() {
        let message = "The host may take pages of QEMU itself away.";
        missing(draft, command, "-overcommit mem-lock=on", (ID, message), additions);
    }
}
