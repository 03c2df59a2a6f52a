//! A guest that measures while the host records: exchanges before, the measurement, exchanges
//! after.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat::cause::flight::PathSource;
use onbeat::cause::perfetto::{self, GuestBesideHost, GuestSpike};
use onbeat::cause::trace_dat::{self, TraceOf};
use onbeat::cause::{Explanation, FlightRecorder, FlightSetting, Window};
use onbeat::record::RunFile;
use onbeat_tune::{CpuList, Journal, LiveHost, Purpose, UndoMode};

use super::error::JoinError;
use super::exchange::{ExchangeHost, PageExchange};
use super::page::SharedPage;
use super::record;
use super::relation::ClockRelation;
use super::spike::{self, EventCheck, JoinedSpike};
use super::vcpu::{VcpuThread, off_cpu};
use crate::vm::{
    CONSOLE, Guest, GuestResult, Job, RunningGuest, ThreadPlan, VmClock, WorkDirectory,
    housekeeping, place_threads,
};

/// The shared page in the guest's directory, which is QEMU's working directory.
pub(crate) const PAGE: &str = "clock";
/// The words of `onbeat` that answer exchanges in the guest.
pub(super) const ANSWERING: [&str; 3] = ["agent", "answer", "--clock"];
/// Exchanges before and after the measurement, unless others are asked for.
pub const EXCHANGES: u64 = 1_000;
/// Kernel buffer per CPU, in KiB, and what of it is kept here: some minutes of a busy host.
const BUFFER_KIB: u32 = 8 << 10;
const KEPT_KIB: u32 = 48 << 10;
/// How often the host's buffers are read meanwhile.
const READ_EVERY: Duration = Duration::from_millis(50);

/// Where the virtual CPU runs on the host.
#[derive(Clone, Debug)]
pub struct VcpuPin {
    /// CPU of the host for it; QEMU's other threads run on the others.
    pub cpu: u32,
    /// Directory of journals.
    pub journals: PathBuf,
    /// The command as typed, for the journal.
    pub command: String,
}

/// A measurement in a guest, traced on both sides.
#[derive(Clone, Debug)]
pub struct GuestTrace<'t, C: VmClock> {
    /// The guest; its first CPU is traced.
    pub guest: &'t Guest<C>,
    /// Work directory of guests.
    pub work: &'t WorkDirectory,
    /// The measurement in the guest.
    pub job: Job,
    /// Exchanges before and after the measurement; at least 1.
    pub exchanges: u64,
    /// Whether all events of the guest are recorded, not those around its spikes only.
    pub all_events: bool,
    /// Where its virtual CPU runs; `None` leaves it to the scheduler.
    pub pin: Option<VcpuPin>,
}

/// How far a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// The guest boots.
    Booting,
    /// The first exchanges are done, and the guest begins to measure on this thread.
    Measuring(VcpuThread),
    /// The measurement is over, also where the guest has not answered after it.
    Measured,
}

/// Host and guest on one clock, the host's.
#[derive(Clone, Debug)]
pub struct JoinedTrace<C: VmClock> {
    pub relation: ClockRelation,
    /// Exchanges that contradict the relation; 0 unless the fit is wrong.
    pub violated_exchanges: usize,
    /// The guest's events beside the host's.
    pub check: EventCheck,
    /// The thread of the guest's first CPU.
    pub thread: VcpuThread,
    /// All events of the guest during its measurement, on the host's clock, where they were recorded.
    pub guest: Option<Window>,
    /// The guest's spikes whose events are kept, in order.
    pub spikes: Vec<JoinedSpike>,
    /// All spikes of the guest's run.
    pub all_spikes: usize,
    /// The host's events from the first to the last exchange.
    pub host: Window,
    /// Events that the host's kernel does not have.
    pub missing: Vec<String>,
    /// What the guest sent.
    pub result: GuestResult<C>,
}

impl<C: VmClock> GuestTrace<'_, C> {
    /// Runs the guest and joins both traces. Blocks; `stop` ends the guest.
    ///
    /// # Errors
    /// [`JoinError`]; the guest has ended then, and its virtual CPU is bound no more.
    pub fn run(
        &self,
        stop: &AtomicBool,
        mut step: impl FnMut(TraceStep),
    ) -> Result<JoinedTrace<C>, JoinError> {
        step(TraceStep::Booting);
        let mut guest = self.guest.clone();
        guest.qemu_arguments.extend(page_arguments());
        let by: &[&str] = if self.all_events { &record::BESIDE } else { &[] };
        let job = self.job.clone().between(by, &ANSWERING);
        let mut running = guest.start(self.work, &job)?;
        let vcpus = running.cpu_threads()?;
        let pid = running.pid().cast_signed();
        let tid = vcpus.first().copied().unwrap_or(pid).cast_unsigned();
        let thread = VcpuThread { pid, tid, cpu: self.pin.as_ref().map(|pin| pin.cpu) };

        let journal = self.pin.as_ref().map(|pin| bind(pin, (pid, &vcpus))).transpose()?;
        let traced = self.trace(running, thread, stop, &mut step);
        if let Some(mut journal) = journal {
            // QEMU has ended, and its threads with it; this closes the record.
            journal.undo_all(&LiveHost::new(), UndoMode::Careful)?;
            journal.close()?;
        }
        traced
    }

    fn trace(
        &self,
        mut running: RunningGuest<C>,
        thread: VcpuThread,
        stop: &AtomicBool,
        step: &mut dyn FnMut(TraceStep),
    ) -> Result<JoinedTrace<C>, JoinError> {
        let page = SharedPage::open(&running.directory().join(PAGE)).map_err(JoinError::Page)?;
        let setting = FlightSetting {
            buffer_kib: BUFFER_KIB,
            kept_kib: KEPT_KIB,
            tid: Some(thread.tid),
            kvm: true,
            path: PathSource::Tracefs,
            ..FlightSetting::default()
        };
        let mut recorder = FlightRecorder::open(&setting)?;
        let mut clock = ExchangeHost::new(page);

        let mut exchanges: Vec<PageExchange> = Vec::new();
        for done in [TraceStep::Measuring(thread), TraceStep::Measured] {
            let watch = &mut || recorder.keep_watch().map_err(JoinError::Host);
            let exchanged = exchange(&mut clock, &mut running, self.exchanges, stop, watch);
            // What was begun beside a measurement is to end before its guest does.
            if exchanged.is_ok() || done == TraceStep::Measured {
                step(done);
            }
            match exchanged {
                Ok(exchanged) => exchanges.extend(exchanged),
                Err(why) => return Err(unanswered(running, stop, why)),
            }
        }

        let relation = ClockRelation::fit(&exchanges)?;
        let from = exchanges.first().map(|first| first.sent).unwrap_or_default();
        let to = exchanges.last().map(|last| last.received).unwrap_or_default();
        let host = recorder.window(from, to)?;
        let missing = recorder.missing().to_vec();
        recorder.close();
        let result = running.wait(stop)?;
        result.succeeded()?;
        Ok(JoinedTrace { missing, ..joined(result, relation, (&exchanges, host), thread)? })
    }
}

impl<C: VmClock> JoinedTrace<C> {
    /// Returns a trace of both that ui.perfetto.dev opens.
    #[must_use]
    pub fn to_perfetto(&self) -> Vec<u8> {
        let explained: Vec<(Explanation, Explanation)> = self
            .spikes
            .iter()
            .map(|spike| {
                [spike.guest.clone(), [&spike.host.causes[..], &spike.host.exits].concat()]
            })
            .map(|both| both.map(Explanation::from_causes).into())
            .collect();
        let both = self.spikes.iter().zip(&explained);
        let spikes: Vec<GuestSpike<'_>> = both
            .map(|(spike, (guest, host))| GuestSpike { facts: &spike.facts, guest, host })
            .collect();
        perfetto::write_joined(&GuestBesideHost {
            host: &self.host,
            kernel: &rustix::system::uname().release().to_string_lossy(),
            vcpu: self.thread.tid,
            guest: &self.guest_windows(),
            spikes: &spikes,
        })
    }

    /// Returns the host's events as a `trace.dat` file, which trace-cmd and KernelShark open, alone
    /// and with the guest's.
    #[must_use]
    pub fn host_trace_dat(&self) -> Vec<u8> {
        let [id, guest] = self.trace_ids();
        let vcpus = &[self.thread.tid];
        trace_dat::write_of(
            &self.host,
            TraceOf::Host { id, guest, name: &self.result.release, vcpus },
        )
    }

    /// Identities of the host's and of the guest's file: as unlike others as the instant of the first
    /// exchange.
    fn trace_ids(&self) -> [u64; 2] {
        let first = self.host.from.as_ns() << 1;
        [first, first | 1]
    }

    /// Returns the guest's events as such a file, on the host's clock: all, or those around its spikes.
    #[must_use]
    pub fn guest_trace_dat(&self) -> Vec<u8> {
        let mut windows = self.guest_windows().into_iter();
        let first = windows.next().unwrap_or_default();
        let [_, id] = self.trace_ids();
        trace_dat::write_of(&windows.fold(first, spike::merged), TraceOf::Guest { id })
    }

    /// All events of the guest, or the windows of its spikes, those that overlap as one.
    fn guest_windows(&self) -> Vec<Window> {
        if let Some(guest) = &self.guest {
            return vec![guest.clone()];
        }
        let mut sorted: Vec<&Window> = self.spikes.iter().map(|spike| &spike.window).collect();
        sorted.sort_by_key(|window| window.from);
        let mut windows: Vec<Window> = Vec::new();
        for window in sorted {
            match windows.pop_if(|last| last.to >= window.from) {
                Some(last) => windows.push(spike::merged(last, window.clone())),
                None => windows.push(window.clone()),
            }
        }
        windows
    }
}

/// Waits until a guest answers, with `meanwhile` between two looks, and exchanges clocks with it.
pub(super) fn exchange<C: VmClock>(
    clock: &mut ExchangeHost,
    running: &mut RunningGuest<C>,
    count: u64,
    stop: &AtomicBool,
    meanwhile: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<Vec<PageExchange>, JoinError> {
    let console = running.directory().join(CONSOLE).display().to_string();
    let no_answer = |reason| match reason {
        _ if stop.load(Ordering::Relaxed) => JoinError::Stopped,
        reason => JoinError::NoAnswer { reason, console: console.clone() },
    };
    while !clock.is_guest_there() {
        if stop.load(Ordering::Relaxed) || running.is_over()? {
            return Err(no_answer(io::ErrorKind::BrokenPipe));
        }
        meanwhile()?;
        std::thread::sleep(READ_EVERY);
    }
    clock.exchange(count, stop).map_err(no_answer)
}

/// Why the exchanges ended early: a guest that is over has sent what its job said.
fn unanswered<C: VmClock>(
    mut running: RunningGuest<C>,
    stop: &AtomicBool,
    why: JoinError,
) -> JoinError {
    match running.is_over() {
        Ok(true) => {}
        Ok(false) => return why,
        Err(error) => return error.into(),
    }
    let ended = running.wait(stop).and_then(|result| result.succeeded());
    ended.map_or_else(JoinError::from, |()| why)
}

/// QEMU's arguments for the shared page.
pub(crate) fn page_arguments() -> Vec<String> {
    let line = format!(
        "-object memory-backend-file,id=clock,mem-path={PAGE},size=4096,share=on -device ivshmem-plain,memdev=clock"
    );
    line.split(' ').map(str::to_owned).collect()
}

/// Binds the virtual CPUs and the other threads of QEMU, on record.
fn bind(pin: &VcpuPin, (pid, vcpus): (i32, &[i32])) -> Result<Journal, JoinError> {
    let own: CpuList = [pin.cpu].into_iter().collect();
    let count = u32::try_from(vcpus.len()).unwrap_or(u32::MAX);
    let plan = ThreadPlan::new(count, &own, &housekeeping(&own), None)?;

    let host = LiveHost::new();
    let purpose = Purpose::new("vm trace", &pin.command);
    let mut journal = Journal::begin(&pin.journals, &host, &purpose)?;
    match place_threads(&host, &mut journal, pid, vcpus, &plan) {
        Ok(_) => Ok(journal),
        Err(error) => {
            journal.close()?;
            Err(error.into())
        }
    }
}

fn joined<C: VmClock>(
    result: GuestResult<C>,
    relation: ClockRelation,
    (exchanges, host): (&[PageExchange], Window),
    thread: VcpuThread,
) -> Result<JoinedTrace<C>, JoinError> {
    let files: Vec<_> = result.run_files().collect();
    let [file] = files.as_slice() else {
        return Err(JoinError::Runs { files: files.len() });
    };
    let run = RunFile::parse(Path::new(&file.path), &file.content)?;

    let spikes = spike::join(&run, &host, thread, &relation)?;
    let guest = match result.file(record::SENT) {
        Some(file) => Some(record::recorded_on_host(file, &relation).map_err(JoinError::Recorded)?),
        None => None,
    };
    let around_spikes = spikes.iter().map(|spike| &spike.window);
    let windows: Vec<&Window> =
        guest.as_ref().map_or_else(|| around_spikes.collect(), |guest| vec![guest]);
    let check = EventCheck::new(&windows, &off_cpu(&host, thread.tid), relation.width_ns());
    Ok(JoinedTrace {
        violated_exchanges: relation.violations(exchanges),
        relation,
        check,
        thread,
        guest,
        spikes,
        all_spikes: run.spikes.len(),
        host,
        missing: Vec::new(),
        result,
    })
}
