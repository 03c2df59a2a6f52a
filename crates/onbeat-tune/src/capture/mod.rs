//! A machine's files in an archive, to be checked elsewhere.
//!
//! | file | contents |
//! |---|---|
//! | `asked` | the names that the catalogue asks for |
//! | `privacy` | what of each file is kept |
//! | `interrupts` | their counts and the names of their handlers |
//!
//! [`capture`] runs every probe of the catalogue for every CPU, makes the steps of every record, and
//! keeps what they read, so that check and plan find in the capture what they find on the machine.
//! An archive holds no names of hosts, people, files or programs: names of threads are kept for
//! kernel threads and where a record asks for them, and of a file only the lines that a probe looks
//! at. Interfaces with a name of their own get another one, and so do interrupts that are named
//! after them: a plan from a capture leaves those alone on the machine.
//!
//! ```
//! use onbeat_tune::capture::capture;
//! use onbeat_tune::catalogue::{HostTree, LoopSetup};
//!
//! let mut archive = Vec::new();
//! capture(&HostTree::live(), "the machine of this example", &mut archive)?;
//! let elsewhere = HostTree::from_capture(archive.as_slice())?;
//! assert!(!onbeat_tune::check(&elsewhere, &LoopSetup::default()).is_empty());
//! # Ok::<(), onbeat_tune::capture::CaptureError>(())
//! ```
//!
//! Absent on purpose: the program with the loop. Numbers of threads mean nothing on another
//! machine.

mod asked;
mod interrupts;
mod privacy;

use std::io::Write;

use crate::capture_archive::archive;
use crate::catalogue::known_facts;
use crate::catalogue::loop_setup::CpuSetVariable;
use crate::catalogue::probes::ProbeSpec;
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::WantedValue;
use crate::catalogue::{Catalogue, HostTree, LoopSetup, catalogue};
use crate::cpu_list::CpuList;
use crate::plan::{CpuChoice, cpus, steps};

pub use crate::capture_archive::{CaptureError, CaptureManifest, CaptureSummary};

/// Writes what check and plan read on a machine as a tar archive; `about` says in a line which
/// machine it is.
///
/// The same state of a machine gives the same bytes. Takes some hundred milliseconds and about 1
/// KiB for each thread and 10 KiB for each CPU; archives compress to a fiftieth.
///
/// # Errors
/// [`CaptureError::Archive`] where the archive cannot be written. Files that cannot be read are
/// part of the capture.
pub fn capture(
    host: &HostTree,
    about: &str,
    archive: impl Write,
) -> Result<CaptureSummary, CaptureError> {
    let recording = host.recording();
    read_everything(catalogue(), &recording);

    let mut accesses = recording.into_accesses();
    privacy::clean(&mut accesses, &asked::AskedNames::from_catalogue(catalogue()), host.is_live());
    archive::write(&accesses, about, archive)
}

/// Asks all that any check or plan could ask, for whatever CPUs and interfaces.
fn read_everything(catalogue: &Catalogue, host: &HostTree) {
    let blank = LoopSetup::default();
    let online = Survey::new(host, &blank).online().unwrap_or_default();
    let interfaces = host.names("/sys/class/net").unwrap_or_default();

    let setup = LoopSetup { interfaces: interfaces.clone(), ..LoopSetup::on(online.clone()) };
    let survey = Survey::new(host, &setup);
    // Readings serve here only to be recorded; a check of the archive judges them.
    let _ = (survey.is_guest(), survey.numa_nodes(), survey.container(), survey.kernel_version());
    for record in &catalogue.records {
        for need in &record.needs {
            let _ = need.holds(&survey);
        }
        for spec in &record.probe {
            let _ = spec.probe().read(&survey);
        }
    }

    known_facts::read_all(&survey);
    read_by_interface(host, interfaces);
    read_by_cpu(catalogue, host, &online);
    read_for_plans(catalogue, host, &setup);
}

/// What the choice of CPUs and the steps of a plan read beside the probes: counts of interrupts,
/// where each may be sent, its handlers.
fn read_for_plans(catalogue: &Catalogue, host: &HostTree, setup: &LoopSetup) {
    let _ = cpus::choose(&Survey::new(host, setup), &CpuChoice::Auto);

    // A plan leaves a CPU for everything else: here the first, then all others.
    let first: CpuList = setup.cpus.iter().take(1).collect();
    for cpus in [setup.cpus.minus(&first), first] {
        let setup = LoopSetup { cpus, ..setup.clone() };
        let survey = Survey::new(host, &setup);
        for record in &catalogue.records {
            let _ = steps::of(record, &survey);
        }
    }
}

fn read_by_interface(host: &HostTree, interfaces: Vec<String>) {
    for interface in interfaces {
        let setup = LoopSetup { interfaces: vec![interface], ..LoopSetup::default() };
        let _ =
            WantedValue::Within(CpuSetVariable::InterfaceNode).in_words(&Survey::new(host, &setup));
    }
}

/// A group of resctrl is read to its end only for a loop inside it, and the siblings of several
/// CPUs only until one is unknown.
fn read_by_cpu(catalogue: &Catalogue, host: &HostTree, online: &CpuList) {
    let is_by_cpu = |spec: &&ProbeSpec| matches!(spec, ProbeSpec::Resctrl(_) | ProbeSpec::Cpus(_));
    let probes: Vec<_> =
        catalogue.records.iter().flat_map(|record| &record.probe).filter(is_by_cpu).collect();
    for cpu in online.iter() {
        let setup = LoopSetup::on([cpu].into_iter().collect());
        let survey = Survey::new(host, &setup);
        for spec in &probes {
            let _ = spec.probe().read(&survey);
        }
    }
}
