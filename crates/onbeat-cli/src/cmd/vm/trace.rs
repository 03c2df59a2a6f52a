//! `onbeat vm trace`: a guest and this machine on one clock.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::campaign::create_workplace;
use onbeat::cause::event::KernelEvent;
use onbeat::cause::kvm::{self, VmExitSpan};
use onbeat_lab::joined::{GuestTrace, JoinedCause, JoinedSpike, JoinedTrace, TraceStep, VcpuPin};
use onbeat_lab::vm::{Free, Guest, Job, PlaceError, VmClock};
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::{count, counted, time_ns};
use onbeat_tune::{HostFiles, LiveHost};
use serde_json::{Value, json};

use super::options::{TraceClock, TracedEvents, VmTraceOptions};
use super::run::{GuestMeasurement, new_directory};
use super::stock::{Stock, guest};
use crate::cmd::Common;
use crate::cmd::failure::vm::VmFailure;
use crate::cmd::looping::check_cpu;
use crate::cmd::repair::repair_first;
use crate::cmd::{ExitVerdict, Failure, typed};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::state::journal_directory;
use crate::term::letters;
use crate::term::print_json;
use crate::term::{Tone, advise, columns, say, wrapped};

/// The job without one on the command line. By the free clock an emulator is milliseconds late.
const USUAL_JOB: [&str; 8] =
    ["measure", "latency", "--period", "5ms", "--for", "5s", "--spikes-over", "5ms"];
/// Spikes in the table, worst first.
const MOST_LISTED: usize = 20;
const NO_EXITS: &str = "VM entries and exits: software emulation has none";

pub(super) fn run(options: &VmTraceOptions) -> Result<ExitVerdict, Failure> {
    if !LiveHost::new().is_root() {
        return Err(PlaceError::NeedsRoot { command: typed().join(" ") }.into());
    }
    if let Some(word) = options.job.first().filter(|word| *word != "measure") {
        return Err(VmFailure::NotAMeasurement { word: word.clone() }.into());
    }
    check_cpu(options.cpu)?;
    repair_first()?;

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("its guest");
    let stop = &interruptions.stop;
    let usual = || USUAL_JOB.map(str::to_owned).to_vec();
    let words = if options.job.is_empty() { usual() } else { options.job.clone() };
    let measurement = GuestMeasurement::read(words)?;
    let stock = Stock::open(&options.stock)?;
    let stock = if measurement.plan.is_some() { stock.with_agent() } else { stock };
    let job = measurement.job(stock.has_agent());
    let boot = stock.guest(&options.guest)?;
    let machine = &options.machine;
    match options.clock {
        TraceClock::Free => traced(options, job, &stock, &guest(machine, 1, boot, Free), stop),
        TraceClock::Real => {
            let clock = stock.real_clock(&boot, stop)?;
            traced(options, job, &stock, &guest(machine, 1, boot, clock), stop)
        }
    }
}

fn traced<C: VmClock>(
    options: &VmTraceOptions,
    job: Job,
    stock: &Stock,
    guest: &Guest<C>,
    stop: &AtomicBool,
) -> Result<ExitVerdict, Failure> {
    let pin = |cpu| VcpuPin { cpu, journals: journal_directory(), command: typed().join(" ") };
    let trace = GuestTrace {
        guest,
        work: &stock.work,
        job,
        exchanges: options.exchanges,
        all_events: options.events == TracedEvents::All,
        pin: options.cpu.map(pin),
    };

    // What is refused there is refused before the guest has run, not behind it.
    create_workplace(&options.out)?;
    let joined = trace.run(stop, |step| {
        if let (TraceStep::Measuring(thread), false) = (step, options.json) {
            advise(Tone::Faint, &format!("the guest measures, on thread {} here", thread.tid));
        }
    })?;
    let directory = new_directory(&options.out, &format!("{}-trace", joined.result.release))?;
    joined.result.copy_log_to(&directory)?;
    let object = as_json(&joined);
    write(&directory.join("trace.json"), format!("{object:#}\n").as_bytes())?;
    write(&directory.join("joined.perfetto-trace"), &joined.to_perfetto())?;
    write(&directory.join("host.dat"), &joined.host_trace_dat())?;
    write(&directory.join("guest.dat"), &joined.guest_trace_dat())?;
    joined.result.remove_directory()?;

    if options.json {
        print_json(&object)?;
    } else {
        print(&joined, &directory);
    }
    Ok(ExitVerdict::Pass)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |source| Common::File { what: "write", path: path.to_owned(), source };
    Ok(fs::write(path, bytes).map_err(failed)?)
}

fn cause_words(cause: &JoinedCause) -> String {
    match cause {
        JoinedCause::Host(cause) => format!("host: {}", cause.words()),
        JoinedCause::Halted => "host: QEMU had not woken the virtual CPU".to_owned(),
        JoinedCause::Guest(Some(cause)) => format!("guest: {}", cause.words()),
        JoinedCause::Guest(None) => "guest: not analysed".to_owned(),
    }
}

fn print<C: VmClock>(joined: &JoinedTrace<C>, directory: &Path) {
    for line in sentences(joined) {
        say(Tone::Plain, &wrapped(&line, columns()));
    }
    if !joined.spikes.is_empty() {
        say(Tone::Plain, "");
        say(Tone::Plain, table(&joined.spikes).to_text(columns()).trim_end());
    }

    let shown = directory.display();
    advise(
        Tone::Faint,
        &format!(
            "both are in {shown}: joined.perfetto-trace for ui.perfetto.dev, host.dat and guest.dat for KernelShark and trace-cmd report"
        ),
    );
}

/// What was traced, how well the clocks are joined, and what is missing.
fn sentences<C: VmClock>(joined: &JoinedTrace<C>) -> [String; 4] {
    let time = |ns| time_ns(ns, letters());
    let number = |count_of: usize| count(count_of as u64);
    let relation = &joined.relation;
    let run = format!(
        "{}: {} spikes, {} of them with events ({} clock: no latencies are printed)",
        joined.result.release,
        number(joined.all_spikes),
        number(joined.spikes.len()),
        C::NAME
    );

    let clocks = format!(
        "Clocks: the guest's instants are known within {}, from {} exchanges of at least {}; {} of them contradict",
        time(relation.width_ns()),
        number(relation.exchanges),
        time(relation.least_delay_ns),
        number(joined.violated_exchanges),
    );
    let lost = match joined.guest.as_ref().map_or(0, |guest| guest.lost.len()) {
        0 => String::new(),
        gaps => format!("; {} where the guest lost events", counted(gaps as u64, "gap")),
    };
    let check = format!(
        "Check: of {} events of the guest, {} happened while its virtual CPU had no CPU here{lost}",
        number(joined.check.events),
        number(joined.check.violations)
    );

    let exits = if C::NAME == "real" { exits(joined) } else { NO_EXITS.to_owned() };
    [run, clocks, check, exits]
}

/// The exits of the virtual CPU: how many, the longest, and the reason that took most of the time.
fn exits<C: VmClock>(joined: &JoinedTrace<C>) -> String {
    // Of the others, arm64 has no injected interrupts and no messages.
    let is_needed = |event: &&String| ["kvm:kvm_entry", "kvm:kvm_exit"].contains(&event.as_str());
    if let Some(event) = joined.missing.iter().find(is_needed) {
        return format!("VM entries and exits: this machine's kernel has no event {event}");
    }
    let exits = kvm::exits(&joined.host, joined.thread.tid);
    let time = |ns| time_ns(ns, letters());
    let length = |exit: &&VmExitSpan| exit.to.ns_since(exit.from);
    let awake = || exits.iter().filter(|exit| !exit.reason.is_halt());
    let longest = awake().max_by_key(length).map_or_else(String::new, |exit| {
        format!(", the longest {} for {}", time(length(&exit)), exit.reason)
    });
    let polled = halt_poll_ns(joined).map_or_else(String::new, |ns| {
        format!("; the host polls a halted virtual CPU for up to {}", time(ns))
    });
    let number = |count_of: usize| count(count_of as u64);
    format!(
        "VM exits: {}, {} of them halts{longest}{polled}",
        number(exits.len()),
        number(exits.len() - awake().count())
    )
}

/// The longest time for which the host polled when the virtual CPU halted.
fn halt_poll_ns<C: VmClock>(joined: &JoinedTrace<C>) -> Option<u64> {
    let events = joined.host.in_order();
    let polls = events.iter().filter_map(|event| match event.what {
        KernelEvent::VmHaltPoll { from_ns, to_ns, .. } => Some(u64::from(from_ns.max(to_ns))),
        _ => None,
    });
    polls.max()
}

fn table(spikes: &[JoinedSpike]) -> Table {
    let mut worst: Vec<&JoinedSpike> = spikes.iter().collect();
    worst.sort_by_key(|spike| std::cmp::Reverse(spike.lateness_ns()));
    let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
    let row = |spike: &JoinedSpike| {
        Row::new([
            spike.number.to_string(),
            ms(spike.host.ran_ns),
            ms(spike.host.halted_ns),
            ms(spike.host.exits_ns()),
            ms(spike.host.taken_ns()),
            cause_words(&spike.cause()),
        ])
    };

    let columns = vec![
        Column::figures("spike"),
        Column::figures("ran"),
        Column::figures("halted"),
        Column::figures("exits"),
        Column::figures("kept off"),
        Column::words("cause"),
    ];
    Table {
        title: "Virtual CPU during the guest's spikes, ms of this machine".to_owned(),
        columns,
        rows: worst.into_iter().take(MOST_LISTED).map(row).collect(),
        legend: Vec::new(),
    }
}

fn as_json<C: VmClock>(joined: &JoinedTrace<C>) -> Value {
    let relation = &joined.relation;
    json!({
        "release": joined.result.release, "clock": C::NAME,
        "offset_ns": relation.offset_ns().to_string(), "drift_ppm": relation.drift_ppm(),
        "width_ns": relation.width_ns(), "exchanges": relation.exchanges,
        "least_delay_ns": relation.least_delay_ns,
        "contradicted_exchanges": joined.violated_exchanges,
        "guest_events": joined.check.events, "events_off_cpu": joined.check.violations,
        "guest_events_lost_in": joined.guest.as_ref().map(|guest| guest.lost.len()),
        "vcpu_thread": joined.thread.tid, "vcpu_cpu": joined.thread.cpu,
        "spikes": joined.spikes.iter().map(spike_json).collect::<Vec<_>>(),
    })
}

fn spike_json(spike: &JoinedSpike) -> Value {
    json!({
        "number": spike.number,
        "release_ns": spike.facts.release.as_ns(), "expiry_ns": spike.facts.expiry.as_ns(),
        "start_ns": spike.facts.start.as_ns(), "end_ns": spike.facts.end.as_ns(),
        "within_ns": spike.within_ns,
        "ran_ns": spike.host.ran_ns, "halted_ns": spike.host.halted_ns,
        "kept_off_ns": spike.host.taken_ns(), "exits_ns": spike.host.exits_ns(),
        "injected_ns": spike.host.injected.map(|one| one.at.as_ns()),
        "injected_vector": spike.host.injected.map(|one| one.vector),
        "cause": cause_words(&spike.cause()),
        "guest_causes": spike.guest, "host_causes": spike.host.causes, "host_exits": spike.host.exits,
    })
}
