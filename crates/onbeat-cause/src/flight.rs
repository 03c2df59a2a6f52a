//! The flight recorder: a tracefs instance that overwrites its oldest events and is read only after
//! a spike.
//!
//! Between spikes nothing is read or copied: the kernel's buffers hold the last seconds. Each call
//! of [`FlightRecorder::window`] reads the events since the previous call. Reading does not stop
//! the recording (`trace_pipe_raw`).
//!
//! Absent on purpose: interpretation of events ([`super::classify`]).

mod cpu_reader;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use self::cpu_reader::CpuReader;
use super::decode::{EventDecoder, TracePoint};
use super::format::{EventFormat, PageLayout};
pub use super::path::NoLengths;
use super::path::{PathMemory, PathRecorder, PathSetting};
use super::path_record::{PathKind, PathScope};
use super::symbols::function;
use super::tracefs::{Instance, TraceError, Tracefs};
use super::window::Window;
use onbeat_host::machine;

/// Settings of the flight recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSetting {
    /// Kernel buffer per CPU, in KiB. 4 MiB hold about 2.6 s of a busy CPU.
    pub buffer_kib: u32,
    /// Pages kept in this process per CPU, in KiB. Pages of the requested window and of the last
    /// second are kept beyond this limit, up to `buffer_kib` more, the most that one read can
    /// return.
    pub kept_kib: u32,
    /// The thread whose wake-ups, timers and page faults are recorded; `None` for all threads.
    pub tid: Option<u32>,
    /// Whether system calls of all threads are recorded. This identifies kernel sections where BPF
    /// is not available, but a busy machine makes millions of calls per second: each one costs
    /// time, and the buffers then hold about 50 ms.
    pub syscalls: bool,
    /// Whether the kernel's stack at late wake-ups is copied, which shows the code that had switched
    /// interrupts off, and makes each of them 10 to 20 us later. It takes BPF.
    pub stacks: bool,
    /// Whether page faults of the loop and its calls that change memory are recorded with their
    /// lengths. Every process pays some 0.05 us at each of its own. It takes BPF.
    pub inside: bool,
    /// Whether entries and exits of the virtual CPU whose thread is followed are recorded, with the
    /// interrupts of guests, where this kernel runs guests by KVM.
    pub kvm: bool,
    /// Source of switches, wake-ups, timers and idle states.
    pub path: PathSource,
}

/// Source of the events on the loop's wake-up path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathSource {
    /// BPF programs if the kernel allows them and a thread is followed, otherwise tracefs.
    #[default]
    BpfIfAllowed,
    /// Tracefs: each of these events costs the loop 0.2 to 0.5 µs.
    Tracefs,
}

impl Default for FlightSetting {
    fn default() -> Self {
        Self {
            buffer_kib: 4096,
            kept_kib: 1024,
            tid: None,
            syscalls: false,
            stacks: false,
            inside: false,
            kvm: false,
            path: PathSource::default(),
        }
    }
}

/// Events that every explanation needs.
const NEEDED: [TracePoint; 2] = [TracePoint::Switch, TracePoint::Waking];

/// Events that are not recorded, because each costs the loop time and adds nothing: a timer that
/// expires is cancelled first, and its function ends with the next timer function or with the
/// interrupt around it.
const LEFT_OFF: [TracePoint; 4] = [
    TracePoint::Wakeup,
    TracePoint::TickStop,
    TracePoint::TimerCancel,
    TracePoint::TimerExpireExit,
];
/// Pages younger than this, in nanoseconds, are kept: the next spike may begin in them.
const RECENT_NS: u64 = 1_000_000_000;
/// An idle state with at most this exit latency does not cause a spike, in nanoseconds.
pub(super) const SHALLOW_NS: u64 = 10_000;
/// Divisors of `buffer_kib`: for the kernel's buffers when they hold rare events only, and for the
/// rings of the path.
const RARE: u32 = 4;
const RINGS: u32 = 2;

/// A running flight recorder.
///
/// ```no_run
/// use onbeat_cause::{FlightRecorder, FlightSetting};
/// use onbeat_rt::Clock;
/// use onbeat_rt::sys::Monotonic;
///
/// let mut recorder = FlightRecorder::open(&FlightSetting::default())?;
/// let now = Monotonic.now();
/// let window = recorder.window(now.minus_ns(10_000_000), now)?;
/// println!("{} events in the last 10 ms", window.in_order().len());
/// # Ok::<(), onbeat_cause::TraceError>(())
/// ```
#[derive(Debug)]
pub struct FlightRecorder {
    // Fields are dropped in this order: readers must be closed before the instance is removed.
    cpus: Vec<CpuReader>,
    instance: Instance,
    _tracefs: Tracefs,
    layout: PageLayout,
    decoder: EventDecoder,
    functions: BTreeMap<u64, String>,
    missing: Vec<String>,
    recorded: Vec<TracePoint>,
    kernel_bytes: u64,
    path: Option<PathRecorder>,
    /// Reason why BPF does not record the path.
    no_path: Option<String>,
}

impl FlightRecorder {
    /// Removes instances of killed processes, creates an instance and starts recording.
    ///
    /// # Errors
    /// [`TraceError`]; its remedy is the command that grants what is missing.
    pub fn open(setting: &FlightSetting) -> Result<Self, TraceError> {
        let tracefs = Tracefs::open()?;
        // An instance of a recorder that was killed goes on recording, and its buffers are memory
        // of the kernel.
        tracefs.remove_leftovers()?;
        let layout = PageLayout::parse(&tracefs.read("events/header_page")?)?;
        let instance = tracefs.create_instance()?;
        let (path, no_path) = open_path(setting);
        // With BPF the tracefs buffers do not hold the events of the path.
        // The frequent events are in BPF's own rings then; what is left to tracefs is rare.
        let parts = if path.is_some() { RARE } else { 1 };
        let setting =
            &FlightSetting { buffer_kib: (setting.buffer_kib / parts).max(16), ..setting.clone() };
        prepare(&instance, setting.buffer_kib)?;
        let mut recorder = Self {
            cpus: Vec::new(),
            instance,
            _tracefs: tracefs,
            layout,
            decoder: EventDecoder::new(),
            functions: timer_functions(),
            missing: Vec::new(),
            recorded: Vec::new(),
            kernel_bytes: 0,
            path,
            no_path,
        };

        recorder.choose_events(setting)?;
        if let Some(tid) = setting.tid {
            recorder.follow(tid)?;
        }

        recorder.open_readers(setting)?;
        // Enabled last, when readers and filters stand: an unfiltered second of a busy machine
        // overwrites everything.
        for kind in recorder.recorded.clone() {
            recorder.instance.write(&kind.file("enable"), "1")?;
        }

        recorder.instance.write("tracing_on", "1")?;
        Ok(recorder)
    }

    /// Records wake-ups, timers and page faults of thread `tid` from now on.
    ///
    /// # Errors
    /// [`TraceError::File`] if the kernel refuses a filter.
    pub fn follow(&self, tid: u32) -> Result<(), TraceError> {
        if let Some(path) = &self.path {
            // The thread of a probe is known only after it has started, and recording before it
            // starts would record the wrong one.
            path.follow(tid).map_err(|why| TraceError::at(Path::new("bpf"), why))?;
        }

        for kind in &self.recorded {
            let Some(filter) = filter_of(*kind, tid) else { continue };
            self.instance.write(&kind.file("filter"), &filter)?;
        }

        Ok(())
    }

    /// Returns the names of events that this kernel lacks or that could not be read.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns the reason why tracefs records switches, wake-ups and timers, which costs the loop
    /// more; `None` if BPF records them.
    #[must_use]
    pub fn no_path(&self) -> Option<&str> {
        self.no_path.as_deref()
    }

    /// Returns which lengths of page faults and of calls that change memory are missing, where they
    /// were asked for.
    #[must_use]
    pub fn no_lengths(&self) -> Option<&NoLengths> {
        self.path.as_ref().and_then(PathRecorder::no_lengths)
    }

    /// Returns the reason why steal time is known only in ticks of `/proc/stat`; `None` if BPF
    /// reads it in nanoseconds.
    #[must_use]
    pub fn no_steal(&self) -> Option<&str> {
        match &self.path {
            Some(path) if path.reads_steal() => None,
            Some(_) => {
                Some("this kernel has no rq.prev_steal_time_rq (CONFIG_PARAVIRT_TIME_ACCOUNTING)")
            }
            None => Some(self.no_path.as_deref().unwrap_or("tracefs records the loop's path")),
        }
    }

    /// Returns the memory of the path, for another reader.
    pub(super) fn path_memory(&self) -> Option<Arc<PathMemory>> {
        self.path.as_ref().map(PathRecorder::memory)
    }

    /// Returns the name of the recorder's instance below `instances/`.
    #[must_use]
    pub fn instance_name(&self) -> String {
        self.instance.name()
    }

    /// Returns the memory in use, in bytes: kernel buffers, and pages kept in this process.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        let kept: usize = self.cpus.iter().map(CpuReader::bytes_held).sum();
        self.kernel_bytes + kept as u64 + self.path.as_ref().map_or(0, PathRecorder::bytes_held)
    }

    /// Returns the events between `from` and `to` that are still available. Reads the events since
    /// the previous call.
    ///
    /// # Errors
    /// [`TraceError::File`] if a buffer cannot be read.
    pub fn window(&mut self, from: Instant, to: Instant) -> Result<Window, TraceError> {
        self.window_of(None, from, to)
    }

    /// The same of one CPU; `None` for all.
    ///
    /// # Errors
    /// As [`Self::window`].
    pub fn window_of(
        &mut self,
        cpu: Option<u32>,
        from: Instant,
        to: Instant,
    ) -> Result<Window, TraceError> {
        let mut window =
            Window { from, to, functions: self.functions.clone(), ..Window::default() };
        // Reading moves pages out of the kernel's ring, where new events would overwrite them.
        self.drain(from)?;
        let wanted = self.cpus.iter().filter(|reader| cpu.is_none_or(|cpu| reader.cpu == cpu));
        for reader in wanted {
            let mut cpu = reader.events_between(from, to, &self.layout, &self.decoder);
            window.lost.extend(reader.lost_between(from, to));
            if let Some(path) = &mut self.path {
                let extract = path.extract(reader.cpu, from, to);
                cpu.events.extend(extract.events);
                // Stable: events of one instant keep the order of their source.
                cpu.events.sort_by_key(|event| event.at);
                window.readings.extend(extract.readings);
                window.inside.extend(extract.inside);
                window.lost.extend(extract.lost);
            }

            window.cpus.push(cpu);
        }

        if let Some(path) = &self.path {
            window.stacks = path.stacks(from, to);
        }
        window.readings.sort_by_key(|reading| reading.at);
        window.inside.sort_by_key(|met| met.at);
        Ok(window)
    }

    /// Reads the kernel's buffers before they are overwritten. Needed when many cycles are late in
    /// a row and events would otherwise be overwritten before their explanation.
    ///
    /// # Errors
    /// [`TraceError::File`] if a buffer cannot be read.
    pub fn keep_watch(&mut self) -> Result<(), TraceError> {
        self.drain(Monotonic.now())
    }

    /// Reads all CPUs; keeps the pages from `needed` on and those of the last second.
    fn drain(&mut self, needed: Instant) -> Result<(), TraceError> {
        // A window that is asked for now may be asked for again, for the next late cycle of the
        // same stall.
        let needed = needed.min(Monotonic.now().minus_ns(RECENT_NS));
        self.cpus.iter_mut().try_for_each(|reader| reader.drain(&self.layout, needed))
    }

    /// Stops recording and removes the instance.
    pub fn close(self) {
        drop(self);
    }

    fn choose_events(&mut self, setting: &FlightSetting) -> Result<(), TraceError> {
        for kind in TracePoint::all() {
            let is_syscall = matches!(kind, TracePoint::SyscallEnter | TracePoint::SyscallExit);
            let is_on_path =
                self.path.as_ref().is_some_and(|path| path.kinds().iter().any(|one| one.is(kind)));
            // Those of all threads cost all of them.
            let is_fault = matches!(kind, TracePoint::PageFaultUser | TracePoint::PageFaultKernel);
            let has_faults = self.path.as_ref().is_some_and(PathRecorder::has_faults);
            if LEFT_OFF.contains(&kind)
                || is_syscall && !setting.syscalls
                || kind.system() == "kvm" && !setting.kvm
                || is_on_path
                || is_fault && has_faults
            {
                continue;
            }

            let known = self.learn(kind);
            match known {
                Ok(()) => self.recorded.push(kind),
                // Without switches and wake-ups there is no explanation. Of the others the absence
                // is said in the grant.
                Err(why) if NEEDED.contains(&kind) => return Err(why),
                Err(_) => self.missing.push(format!("{}:{}", kind.system(), kind.name())),
            }
        }
        Ok(())
    }

    fn learn(&mut self, kind: TracePoint) -> Result<(), TraceError> {
        let text = self.instance.read(&kind.file("format"))?;
        Ok(self.decoder.learn(kind, &EventFormat::parse(&text)?)?)
    }

    fn open_readers(&mut self, setting: &FlightSetting) -> Result<(), TraceError> {
        for cpu in machine::online_cpus() {
            let pipe = self.instance.open_pages(cpu)?;
            let pages = |kib: u32| (kib as usize * 1024 / self.layout.page_size()).max(2);
            let usual = pages(setting.kept_kib);
            let most = pages(setting.kept_kib) + pages(setting.buffer_kib);
            self.cpus.push(CpuReader::new(cpu, pipe, usual..=most));
            self.kernel_bytes += u64::from(setting.buffer_kib) * 1024;
        }
        Ok(())
    }
}

/// Returns the filter of an event when thread `tid` is the loop; `None` for events of all threads.
fn filter_of(kind: TracePoint, tid: u32) -> Option<String> {
    match kind {
        // Filtered in the kernel, before the event takes a place in the ring: wake-ups of all
        // threads are the most frequent event.
        TracePoint::Waking => Some(format!("pid == {tid}")),
        // A real-time thread that moved to another CPU no longer waits for this one.
        TracePoint::Migrate => Some(format!("pid == {tid} || prio < 100")),
        TracePoint::TimerStart
        | TracePoint::TimerCancel
        | TracePoint::PageFaultUser
        | TracePoint::PageFaultKernel
        | TracePoint::VmEntry
        | TracePoint::VmExit
        | TracePoint::VmInterrupt
        | TracePoint::VmHaltPoll => Some(format!("common_pid == {tid}")),
        _ => None,
    }
}

/// Whether all idle states of all CPUs have a short exit latency. Then the idle state explains
/// nothing, and recording every entry and exit would cost the loop 0.1 µs.
#[must_use]
pub fn all_idle_states_are_shallow() -> bool {
    let is_shallow =
        |cpu: &u32| machine::deepest_idle(*cpu).is_some_and(|state| state.exit_ns <= SHALLOW_NS);
    machine::online_cpus().iter().all(is_shallow)
}

/// Opens the recorder of the path, or returns the reason why there is none.
fn open_path(setting: &FlightSetting) -> (Option<PathRecorder>, Option<String>) {
    let Some(tid) = setting.tid.filter(|_| setting.path == PathSource::BpfIfAllowed) else {
        return (None, None);
    };
    let left_off: &[PathKind] = if all_idle_states_are_shallow() { &[PathKind::Idle] } else { &[] };
    let setting = PathSetting {
        tids: &[tid],
        kib: setting.buffer_kib / RINGS,
        left_off,
        scope: if setting.stacks { PathScope::WithStacks } else { PathScope::Explained },
        inside: setting.inside,
        ..PathSetting::default()
    };
    match PathRecorder::open(&setting) {
        Ok(path) => (Some(path), None),
        Err(why) => (None, Some(why.to_string())),
    }
}

/// Prepares an instance that does not record yet: its clock and its buffers.
pub(super) fn prepare(instance: &Instance, buffer_kib: u32) -> Result<(), TraceError> {
    instance.write("tracing_on", "0")?;
    // The loop's clock. The default one is per CPU and neither comparable with it nor between CPUs.
    instance.write("trace_clock", "mono").map_err(|why| {
        instance
            .read("trace_clock")
            .map_or(why, |clocks| TraceError::NoMonotonicClock { clocks: clocks.trim().into() })
    })?;
    instance.write("buffer_size_kb", &buffer_kib.to_string())?;
    instance.write("options/overwrite", "1")
}

/// Returns the addresses of the timer functions that distinguish causes.
fn timer_functions() -> BTreeMap<u64, String> {
    addresses_of(&[
        "hrtimer_wakeup",
        "tick_nohz_handler",
        "tick_sched_timer",
        "sched_rt_period_timer",
        "dl_task_timer",
        "watchdog_timer_fn",
    ])
}

/// Returns the addresses of these kernel functions with their names; none without the privilege to
/// see addresses.
pub(super) fn addresses_of(names: &[&str]) -> BTreeMap<u64, String> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let functions = symbols.lines().filter_map(function);
    let named = functions.filter(|(_, name)| names.contains(name));
    named.map(|(address, name)| (address, name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_of_all_real_time_threads_are_recorded_and_wake_ups_of_the_loop_only() {
        assert_eq!(filter_of(TracePoint::Migrate, 7).as_deref(), Some("pid == 7 || prio < 100"));
        assert_eq!(filter_of(TracePoint::Waking, 7).as_deref(), Some("pid == 7"));
        assert_eq!(filter_of(TracePoint::Switch, 7), None);
    }
}
