//! `onbeat vm list`: kernels for guests, and accelerators that work.

use std::sync::atomic::AtomicBool;

use onbeat_lab::vm::{
    CANARY_LIMIT, Kernel, KernelState, ListedKernel, choose_accelerator, downloadable_kernels,
    list_kernels, open_kvm, qemu_version,
};
use onbeat_report::table::{Column, Row, Table};
use serde_json::{Value, json};

use super::options::VmListOptions;
use super::stock::Stock;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals;
use crate::signals::OnUsr1;
use crate::term::print_json;
use crate::term::{Tone, advise, columns, counted, say, wrapped};

/// What is known of KVM.
enum Kvm {
    Works,
    Refused(String),
    Untested,
}

const UNTESTED: &str = "not tested: a canary guest needs an unpacked kernel; `onbeat vm build linux-image-cloud-amd64 --download` unpacks one";

pub(super) fn list(options: &VmListOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let stock = Stock::open(&options.stock)?;
    let kernels = list_kernels(&stock.work)?;
    let has = |name: &String| kernels.iter().any(|kernel| kernel.name == *name);
    let offered: Vec<String> =
        downloadable_kernels().into_iter().filter(|name| !has(name)).collect();
    let qemu = qemu_version();
    let kvm = match &qemu {
        Ok(_) => test_kvm(&stock, &kernels, &interruptions.stop)?,
        Err(error) => Kvm::Refused(error.to_string()),
    };

    let emulation = qemu.map_err(|error| error.to_string());
    if options.json {
        print_json(&as_json(&kernels, &offered, &emulation, &kvm))?;
        return Ok(ExitVerdict::Pass);
    }

    say(Tone::Plain, kernel_table(&kernels).to_text(columns()).trim_end());
    if !offered.is_empty() {
        say(Tone::Plain, &format!("\n{}", wrapped(&offer(&offered), columns())));
    }
    say(Tone::Plain, &format!("\n{}", accelerator_table(&emulation, &kvm).to_text(columns())));
    Ok(ExitVerdict::Pass)
}

/// Boots a canary guest with the first kernel that is unpacked.
fn test_kvm(stock: &Stock, kernels: &[ListedKernel], stop: &AtomicBool) -> Result<Kvm, Failure> {
    if let Err(refusal) = open_kvm() {
        return Ok(Kvm::Refused(refusal.to_string()));
    }
    let is_ready =
        |kernel: &&ListedKernel| kernel.state == KernelState::Unpacked && kernel.release.is_some();
    let Some(ready) = kernels.iter().find(is_ready) else { return Ok(Kvm::Untested) };

    let limit_s = CANARY_LIMIT.as_secs();
    advise(Tone::Faint, &format!("testing KVM by a canary guest, at most {limit_s} s"));
    let kernel = Kernel::from_package(&stock.work, &ready.name, &stock.source)?;
    let boot = stock.canary(&kernel)?;
    match choose_accelerator(&stock.work, &boot, CANARY_LIMIT, stop)? {
        Ok(_) => Ok(Kvm::Works),
        Err(reason) => Ok(Kvm::Refused(reason.to_string())),
    }
}

/// The offered kernels in a sentence: meta-packages by name, those of one release by their number.
fn offer(offered: &[String]) -> String {
    // Such as linux-image-6.1.0-56-rt-amd64, beside linux-image-6.12-rt-amd64.
    let is_meta = |name: &&String| name.matches('.').count() < 2;
    let meta: Vec<&str> = offered.iter().filter(is_meta).map(String::as_str).collect();
    let others = match offered.len() - meta.len() {
        0 => String::new(),
        others => format!("; {others} more by release, which --json lists"),
    };
    format!("With --download: {}{others}", meta.join(", "))
}

const fn state(kernel: &ListedKernel) -> &'static str {
    match kernel.state {
        KernelState::Unpacked => "unpacked",
        KernelState::Package => "package, unpacked on first use",
    }
}

fn kernel_table(kernels: &[ListedKernel]) -> Table {
    let rows = kernels.iter().map(|kernel| {
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        Row::new([
            kernel.name.clone(),
            word(&kernel.version),
            word(&kernel.release),
            state(kernel).to_owned(),
        ])
    });

    let legend = if kernels.is_empty() {
        vec!["None yet: `onbeat vm build PACKAGE --download` downloads and unpacks one.".to_owned()]
    } else {
        Vec::new()
    };

    Table {
        title: counted(kernels.len(), "kernel"),
        columns: ["kernel", "version", "release", "state"].map(Column::words).into(),
        rows: rows.collect(),
        legend,
    }
}

fn accelerator_table(emulation: &Result<String, String>, kvm: &Kvm) -> Table {
    let emulation = match emulation {
        Ok(version) => format!("works: {version}"),
        Err(why) => why.clone(),
    };
    let kvm = match kvm {
        Kvm::Works => "works: a canary guest has run".to_owned(),
        Kvm::Refused(why) => why.clone(),
        Kvm::Untested => UNTESTED.to_owned(),
    };

    Table {
        title: "Accelerators".to_owned(),
        columns: ["accelerator", "clocks", "state"].map(Column::words).into(),
        rows: vec![
            Row::new(["emulation", "virtual, free", &emulation]),
            Row::new(["KVM", "real", &kvm]),
        ],
        legend: Vec::new(),
    }
}

fn as_json(
    kernels: &[ListedKernel],
    offered: &[String],
    emulation: &Result<String, String>,
    kvm: &Kvm,
) -> Value {
    let kernel = |kernel: &ListedKernel| {
        json!({
            "name": kernel.name, "version": kernel.version, "release": kernel.release,
            "unpacked": kernel.state == KernelState::Unpacked,
        })
    };
    let (works, why) = match kvm {
        Kvm::Works => (Some(true), None),
        Kvm::Refused(why) => (Some(false), Some(why.as_str())),
        Kvm::Untested => (None, Some(UNTESTED)),
    };
    json!({
        "kernels": kernels.iter().map(kernel).collect::<Vec<_>>(),
        "offered": offered,
        "emulation": { "works": emulation.is_ok(), "qemu": emulation.as_ref().ok(), "why_not": emulation.as_ref().err() },
        "kvm": { "works": works, "why_not": why },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_one_release_are_counted() {
        let names =
            ["linux-image-6.1.0-56-rt-amd64", "linux-image-6.12-rt-amd64", "linux-image-rt-amd64"];
        assert_eq!(
            offer(&names.map(str::to_owned)),
            "With --download: linux-image-6.12-rt-amd64, linux-image-rt-amd64; 1 more by release, which --json lists"
        );
    }

    #[test]
    fn what_is_missing_is_named_with_the_way_on() {
        let empty = kernel_table(&[]).to_text(100);
        assert!(empty.contains("0 kernels") && empty.contains("--download"), "{empty}");
        let without =
            Err("qemu-system-x86_64 is not installed: apt-get install qemu-system-x86".to_owned());
        let text = accelerator_table(&without, &Kvm::Untested).to_text(200);
        assert!(text.contains("apt-get install qemu-system-x86"), "{text}");
        assert!(text.contains("onbeat vm build linux-image-cloud-amd64 --download"), "{text}");

        let json = as_json(&[], &[], &without, &Kvm::Refused("no device".to_owned()));
        assert_eq!(json["kvm"]["works"], false);
        assert_eq!(json["emulation"]["works"], false);
    }
}
