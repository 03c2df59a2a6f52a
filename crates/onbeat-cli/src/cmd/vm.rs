//! `onbeat vm`: guests of a laboratory, by the commands of `cli_vm`.

use super::vm_stock::Stock;
use super::{
    ExitVerdict, Failure, vm_lab, vm_lint, vm_list, vm_replay, vm_run, vm_study, vm_threads,
    vm_trace,
};
use crate::cli_vm::{Vm, VmBuildOptions};
use crate::term::{Tone, say};

pub(crate) fn run(command: &Vm) -> Result<ExitVerdict, Failure> {
    match command {
        Vm::List(options) => vm_list::list(options),
        Vm::Build(options) => build(options),
        Vm::Run(options) => vm_run::run(options),
        Vm::Lab(options) => vm_lab::run(options),
        Vm::Replay(options) => vm_replay::run(options),
        Vm::Trace(options) => vm_trace::run(options),
        Vm::Study { options, stock } => vm_study::run(options, stock),
        Vm::Lint(options) => vm_lint::run(options),
        Vm::Xml(options) => vm_threads::xml(options),
        Vm::Pin(options) => vm_threads::pin(options),
        Vm::Answer(options) => vm_study::answer(options),
    }
}

fn build(options: &VmBuildOptions) -> Result<ExitVerdict, Failure> {
    let stock = Stock::open(&options.stock)?;
    let kernel = stock.kernel(&options.kernel)?;
    let boot = stock.boot_with(&kernel, &options.kernel)?;

    let job = if boot.takes_job_file { "a file of QEMU (fw_cfg)" } else { "the command line" };
    let results = if boot.has_port { "a virtio-serial port" } else { "the console" };
    let lines = [
        ("release", boot.release.clone()),
        ("kernel", boot.vmlinux.display().to_string()),
        ("initramfs", boot.initramfs.display().to_string()),
        ("job by", job.to_owned()),
        ("results by", results.to_owned()),
    ];
    for (name, value) in lines {
        say(Tone::Plain, &format!("{name:<11} {value}"));
    }

    Ok(ExitVerdict::Holds)
}
