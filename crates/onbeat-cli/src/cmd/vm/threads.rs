//! `onbeat vm xml` and `onbeat vm pin`: a real-time guest as libvirt and QEMU describe it, and the
//! threads of one that runs.

use onbeat_lab::vm::{
    OwnGuest, PlaceError, QemuSocket, RealTimeMachine, ThreadPlan, housekeeping, place_threads,
    qemu_threads,
};
use onbeat_tune::{CpuList, HostFiles, Journal, LiveHost, Purpose};

use super::study_options::{VmPinOptions, VmXmlOptions};
use crate::cmd::looping::check_cpu;
use crate::cmd::repair::repair_first;
use crate::cmd::{ExitVerdict, Failure, typed};
use crate::state::journal_directory;
use crate::term::{Tone, advise, columns, say, wrapped};

pub(super) fn xml(options: &VmXmlOptions) -> Result<ExitVerdict, Failure> {
    let VmXmlOptions { cpus, others, guest, name, qemu, .. } = options;
    let own = guest.as_deref().map(OwnGuest::from_script).transpose()?;
    let of_guest = own.as_ref().map(|own| (own.machine.cpus, own.machine.memory_mib));
    let (vcpus, memory) = of_guest.unwrap_or((2, 2048));
    let (vcpus, memory) = (options.vcpus.unwrap_or(vcpus), options.memory.unwrap_or(memory));
    let others = others.clone().unwrap_or_else(|| housekeeping(cpus));
    let machine = RealTimeMachine {
        name: name.clone(),
        ..RealTimeMachine::tuned(vcpus, memory, cpus, &others)?
    };

    if *qemu {
        let line = format!("-m {memory}M -smp {vcpus} {}", machine.qemu_arguments().join(" "));
        say(Tone::Plain, &line);
        machine.commands_after_start().iter().for_each(|command| {
            say(Tone::Plain, &format!("# after the start: {command}"));
        });
    } else {
        if let Some(own) = own.as_ref().filter(|own| !own.undefined.is_empty()) {
            let words = format!("left out of the definition: {}", own.undefined.join("; "));
            advise(Tone::Careful, &wrapped(&words, columns()));
        }
        say(Tone::Plain, machine.to_libvirt_xml(own.as_ref()).trim_end());
    }
    Ok(ExitVerdict::Pass)
}

pub(super) fn pin(options: &VmPinOptions) -> Result<ExitVerdict, Failure> {
    let host = LiveHost::new();
    if !host.is_root() {
        return Err(PlaceError::NeedsRoot { command: typed().join(" ") }.into());
    }
    let others = options.others.iter().flat_map(CpuList::iter);
    options.cpus.iter().chain(others).try_for_each(|cpu| check_cpu(Some(cpu)))?;
    repair_first()?;

    let QemuSocket { pid, vcpus } = QemuSocket::ask(&options.socket)?;
    let count = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
    let others = options.others.clone().unwrap_or_else(|| housekeeping(&options.cpus));
    let priority = Some(options.priority).filter(|priority| *priority > 0);
    let plan = ThreadPlan::new(count, &options.cpus, &others, priority)?;

    let purpose = Purpose::new("vm pin", typed().join(" "));
    let mut journal = Journal::begin(&journal_directory(), &host, &purpose)?;
    let placed = place_threads(&host, &mut journal, pid, &vcpus, &plan);
    match &placed {
        Ok(changes) if !changes.is_empty() => drop(journal.keep()?),
        _ => journal.close()?,
    }
    let changes = placed?.len();

    for thread in qemu_threads(&host, pid, &vcpus) {
        let runs = match thread.vcpus.as_slice() {
            [] => String::new(),
            vcpus => {
                let numbers: Vec<String> = vcpus.iter().map(ToString::to_string).collect();
                format!("  virtual CPU {}", numbers.join(", "))
            }
        };
        let line = format!(
            "{:<8}{:<16} CPUs {:<6} {}{runs}",
            thread.tid,
            thread.name,
            thread.cpus.to_string(),
            thread.policy
        );
        say(Tone::Plain, &line);
    }
    say(Tone::Plain, &wrapped(&format!("{changes} changes, read back from /proc"), columns()));
    if changes > 0 {
        say(Tone::Plain, "undo     sudo onbeat tune undo");
    }
    Ok(ExitVerdict::Pass)
}
