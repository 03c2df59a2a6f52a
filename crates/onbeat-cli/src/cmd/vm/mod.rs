//! `onbeat vm`: guests of a laboratory, by the commands of its options.

pub(super) mod lab;
mod lint;
mod list;
pub(crate) mod options;
mod replay;
mod run;
pub(super) mod stock;
mod study;
pub(crate) mod study_options;
mod threads;
mod trace;

use super::{ExitVerdict, Failure};
use crate::term::{Tone, say};
use options::{Vm, VmBuildOptions};
use stock::Stock;

pub(crate) fn run(command: &Vm) -> Result<ExitVerdict, Failure> {
    match command {
        Vm::List(options) => list::list(options),
        Vm::Build(options) => build(options),
        Vm::Run(options) => run::run(options),
        Vm::Lab(options) => lab::run(options),
        Vm::Replay(options) => replay::run(options),
        Vm::Trace(options) => trace::run(options),
        Vm::Study { options, stock } => study::run(options, stock),
        Vm::Lint(options) => lint::run(options),
        Vm::Xml(options) => threads::xml(options),
        Vm::Pin(options) => threads::pin(options),
    }
}

fn build(options: &VmBuildOptions) -> Result<ExitVerdict, Failure> {
    let stock = Stock::open(&options.stock)?;
    let boot = stock.boot_of(&options.kernel)?;
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

    Ok(ExitVerdict::Pass)
}
