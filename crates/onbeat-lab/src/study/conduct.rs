//! A whole study: rows in turns, each measured outside and inside, kept as they come.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use onbeat::campaign::{Campaign, CampaignEvent};
use onbeat_tune::{CpuList, TuneError};

use super::baseline::{baseline, loop_setup};
use super::error::StudyError;
use super::file::{StudyFile, StudyLoad};
use super::host::StudyHost;
use super::measure::StudyBench;
use super::row::{Rows, StudyRow};
use super::setting::MachineSetting;
use super::store::{Measured, RowSlot, StudyBaseline, StudySide, StudyStore};
use crate::vm::work_directory::key_of;
use crate::vm::{BootImage, ForeignProbe, OwnMachine, VmClock, WorkDirectory, qemu_version};

/// What a study runs with.
#[derive(Clone, Copy, Debug)]
pub struct StudyRequest<'r> {
    /// What is measured.
    pub study: &'r StudyFile,
    /// Directory of the results, created if need be.
    pub out: &'r Path,
    /// Directory of the journal of changes.
    pub journals: &'r Path,
    /// Where kernels are kept and guests run.
    pub work: &'r WorkDirectory,
    /// What the guest boots.
    pub boot: &'r BootImage,
    /// This program: it measures outside of the guest and carries loads.
    pub onbeat: &'r Path,
    /// The command line, for the journal.
    pub command: &'r str,
    /// Why guests do not run by the real clock; empty where they do.
    pub because: &'r str,
}

#[derive(Clone, Debug)]
pub struct StudyResults {
    /// What was found out before the first measurement.
    pub baseline: StudyBaseline,
    pub rows: Rows,
    /// All stored measurements.
    pub measured: Vec<Measured>,
    /// Measurements that wait for a reboot.
    pub waiting: usize,
    /// Measurements that failed, with the reason.
    pub failed: Vec<(String, String)>,
    /// Measurements that were not made, because the study was stopped.
    pub missing: usize,
    /// Parameters of the kernel command line that are not in effect in this boot.
    pub outstanding: Vec<String>,
    /// Where run files are.
    pub store: StudyStore,
}

/// Runs what has no result yet, by the clock that `clock` returns for a run. Blocks until the last measurement. After `stop`
/// the current one ends, its settings are undone, and the next call resumes.
///
/// # Errors
/// [`StudyError`]. A measurement that fails is not an error: see [`StudyResults::failed`].
pub fn conduct<C: VmClock>(
    request: &StudyRequest<'_>,
    clock: impl Fn(u32) -> C,
    stop: &AtomicBool,
    report: &mut dyn FnMut(CampaignEvent<'_>),
) -> Result<StudyResults, StudyError> {
    let store = StudyStore::open(request.out)?;
    let baseline = baseline(request.study, C::NAME, request.because, &store)?;
    let own = CpuList::parse_list(&baseline.host_cpus).map_err(TuneError::from)?;
    let setup = loop_setup(&own, request.study, C::NAME);
    let mut host = StudyHost::open(request, setup)?;

    let rows = Rows::new(&baseline.stages, request.study.price_settings);
    let outstanding = host.outstanding(&baseline.stages)?;
    let found = look_for(request, &rows, outstanding.is_empty(), &store, C::NAME)?;
    let Found { due, stored: mut measured, waiting } = found;
    say_where(&baseline, request.study.probe.as_ref(), report);
    report(CampaignEvent::Begun { due: due.len(), stored: measured.len(), waiting });

    let StudyRequest { study, work, boot: image, onbeat, .. } = *request;
    let bench = StudyBench { study, onbeat, work, boot: image, own: &own, store: &store, stop };
    let mut campaign = Campaign::new(stop, report);
    let new = measure_all(&bench, &clock, &due, &mut host, &mut campaign);
    let closed = host.close();
    let new = new?;
    closed?;

    let failed = campaign.into_failed();
    let missing = due.len() - new.len() - failed.len();
    measured.extend(new);
    Ok(StudyResults { baseline, rows, measured, waiting, failed, missing, outstanding, store })
}

/// Says where guests run, and by which clock.
fn say_where(
    baseline: &StudyBaseline,
    probe: Option<&ForeignProbe>,
    report: &mut dyn FnMut(CampaignEvent<'_>),
) {
    if let Some(probe) = probe.filter(|probe| !probe.is_on_this_machine()) {
        let words = format!(
            "bare metal is not measured: this machine has no program of `{}`",
            probe.words.last().map_or("", String::as_str)
        );
        report(CampaignEvent::Warned(&words));
    }
    let StudyBaseline { host_cpus, clock, because, .. } = baseline;
    let cpus = format!("the guest's CPUs on this machine: {host_cpus}");
    report(CampaignEvent::Said(&cpus));
    match clock.as_str() {
        "real" => report(CampaignEvent::Said("guests run under KVM, by the real clock")),
        clock => {
            let words = format!("guests run by the {clock} clock: {because}");
            report(CampaignEvent::Warned(&words));
        }
    }
}

/// A measurement that is due.
struct Due<'d> {
    slot: RowSlot,
    key: String,
    row: &'d StudyRow,
    load: &'d StudyLoad,
}

/// What is to be measured, and what has been.
#[derive(Default)]
struct Found<'d> {
    due: Vec<Due<'d>>,
    stored: Vec<Measured>,
    waiting: usize,
}

/// Run by run, so that all rows see the same background; within a run the rows in their order,
/// those that take a reboot last: `is_booted` says that all parameters are in effect.
fn look_for<'d>(
    request: &StudyRequest<'d>,
    rows: &'d Rows,
    is_booted: bool,
    store: &StudyStore,
    clock: &str,
) -> Result<Found<'d>, StudyError> {
    let has_boot_rows = rows.rows.iter().any(|row| row.takes_reboot);
    let guest = guest_key(request, clock)?;
    let mut found = Found::default();
    for run in 1..=request.study.runs {
        for row in &rows.rows {
            let is_of_this_boot = !has_boot_rows || row.takes_reboot == is_booted;
            for (load, side) in cells(request.study, rows, row) {
                let slot = RowSlot { row: row.name.clone(), side, load: load.name.clone(), run };
                let guest = if side == StudySide::Inside { &*guest } else { "" };
                let key = key(request.study, row, load, guest);
                match store.find(&slot, &key)? {
                    Some(measured) => found.stored.push(measured),
                    None if !is_of_this_boot => found.waiting += 1,
                    None => found.due.push(Due { slot, key, row, load }),
                }
            }
        }
    }

    Ok(found)
}

/// The measurements of a row in one run: each load, outside where the host differs and has the program
/// that measures, and inside.
fn cells<'s>(
    study: &'s StudyFile,
    rows: &Rows,
    row: &StudyRow,
) -> impl Iterator<Item = (&'s StudyLoad, StudySide)> {
    let is_own = rows.outside(row) == row.name
        && study.probe.as_ref().is_none_or(ForeignProbe::is_on_this_machine);
    let sides = [StudySide::Outside, StudySide::Inside];
    study
        .loads
        .iter()
        .flat_map(move |load| sides.map(|side| (load, side)))
        .filter(move |(_, side)| is_own || *side == StudySide::Inside)
}

/// Everything that decides a result; `guest` is what decides those of guests alone.
fn key(study: &StudyFile, row: &StudyRow, load: &StudyLoad, guest: &str) -> String {
    let StudyFile { duration, period, priority, commands, .. } = study;
    let servo = study.servo.as_ref().map(|servo| format!(" {servo}")).unwrap_or_default();
    let probe = study.probe.as_ref().map(|probe| format!(" {probe:?}")).unwrap_or_default();
    let measured = format!(
        "{:?} {load:?} {duration:?} {period:?} {priority} {commands} edges{servo}{probe}",
        row.settings
    );
    key_of(format!("{measured} {guest}").as_bytes())
}

fn guest_key(request: &StudyRequest<'_>, clock: &str) -> Result<String, StudyError> {
    let StudyFile { cpus, memory_mib, guest_arguments, .. } = request.study;
    let BootImage { release, initramfs, own, .. } = request.boot;
    let (qemu, image) = (qemu_version()?, initramfs.file_name());
    let own = own.as_ref().map(OwnMachine::identity).unwrap_or_default();
    Ok(format!("{clock} {qemu} {release} {image:?} {cpus} {memory_mib} {guest_arguments:?}{own}"))
}

/// Measures what is due and returns the results; consecutive measurements of one row share its
/// settings.
fn measure_all<C: VmClock>(
    bench: &StudyBench<'_>,
    clock: &impl Fn(u32) -> C,
    due: &[Due<'_>],
    host: &mut StudyHost,
    campaign: &mut Campaign<'_>,
) -> Result<Vec<Measured>, StudyError> {
    let mut all = Vec::new();
    for group in due.chunk_by(|a, b| (&a.slot.row, a.slot.run) == (&b.slot.row, b.slot.run)) {
        if campaign.is_stopped() {
            break;
        }
        let row = group[0].row;
        let ids = row.settings.iter().map(String::as_str);
        // QEMU's own are made with each guest.
        let of_host: Vec<&str> = ids.filter(|id| MachineSetting::from_id(id).is_none()).collect();
        let made = host.make(&of_host)?;
        let refused = &made.refused;
        campaign.report(CampaignEvent::Made { row: &row.name, settings: made.settings, refused });

        let measured: Result<(), StudyError> = group.iter().try_for_each(|one| {
            if campaign.is_stopped() {
                return Ok(());
            }
            let cell = one.slot.to_string();
            let kept = measure_one(bench, clock, one, refused, host);
            let Some(measured) = campaign.outcome(&cell, kept)? else { return Ok(()) };
            if let Some(why) = measured.answers.as_ref().and_then(|of| of.failure.as_ref()) {
                let words = format!("{cell}: the application test ended early: {why}");
                campaign.report(CampaignEvent::Warned(&words));
            }
            campaign.report(CampaignEvent::Stored { cell: &cell, elapsed_s: measured.elapsed_s });
            all.push(measured);
            Ok(())
        });

        host.undo(&made.changes)?;
        measured?;
    }

    Ok(all)
}

/// Makes a measurement, of whose row the kernel has refused some settings, and keeps it.
fn measure_one<C: VmClock>(
    bench: &StudyBench<'_>,
    clock: &impl Fn(u32) -> C,
    one: &Due<'_>,
    refused: &[String],
    host: &mut StudyHost,
) -> Result<Measured, StudyError> {
    let Due { slot, key, row, load } = one;
    let begun = Instant::now();
    let (outcome, clock) = match slot.side {
        StudySide::Outside => (bench.outside(load)?, "real"),
        StudySide::Inside => (bench.inside(clock(slot.run), &row.settings, load, host)?, C::NAME),
    };
    let measured = Measured {
        key: key.clone(),
        slot: slot.clone(),
        clock: clock.to_owned(),
        run_files: (0..outcome.files.len()).map(|nth| slot.run_file(nth)).collect(),
        overruns: outcome.overruns,
        skipped: outcome.skipped,
        answers: outcome.answers,
        refused: refused.iter().cloned().chain(outcome.refused).collect(),
        threads: outcome.threads,
        elapsed_s: begun.elapsed().as_secs_f64(),
    };

    bench.store.keep(&measured, &outcome.files)?;
    Ok(measured)
}
