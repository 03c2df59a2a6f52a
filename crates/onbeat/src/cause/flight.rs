//! The flight recorder: a tracefs instance that overwrites its oldest events, read only when something happened.
//!
//! Between two questions nothing is read and nothing is copied: the kernel's buffers hold the last seconds, and a
//! question reads what has come since the one before. Reading does not stop the recording (`trace_pipe_raw`).
//!
//! Absent on purpose: interpretation. What the events mean for a loop is [`super::classify`].

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::decode::{Decoder, Kind};
use super::event::{Event, Lost};
use super::format::{EventFormat, PageLayout};
use super::page::Page;
use super::tracefs::{Instance, TraceError, Tracefs};
use super::window::{CpuWindow, Window};
use crate::host;

/// How the recorder is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSetting {
    /// Kernel buffer per CPU, in KiB. 4 MiB hold some 2.6 s of a busy CPU.
    pub buffer_kib: u32,
    /// Pages read and kept in this process, per CPU, in KiB at most.
    pub kept_kib: u32,
    /// The thread to record wake-ups, timers and page faults of; those of other threads are left out. `None` records all.
    pub tid: Option<u32>,
    /// Whether system calls of all threads are recorded. Names what a kernel section was doing where BPF cannot, but a
    /// busy machine makes millions of them per second: each costs, and the buffers hold some 50 ms.
    pub syscalls: bool,
}

impl Default for FlightSetting {
    fn default() -> Self {
        Self { buffer_kib: 4096, kept_kib: 1024, tid: None, syscalls: false }
    }
}

/// Events without which nothing can be explained.
const NEEDED: [Kind; 2] = [Kind::Switch, Kind::Waking];

/// Events left off: they would tell nothing that the others do not.
const LEFT_OFF: [Kind; 2] = [Kind::Wakeup, Kind::TickStop];

/// A recorder that runs.
#[derive(Debug)]
pub struct FlightRecorder {
    // Readers are closed before the instance is removed: fields are dropped in this order.
    cpus: Vec<CpuReader>,
    instance: Instance,
    _tracefs: Tracefs,
    layout: PageLayout,
    decoder: Decoder,
    functions: BTreeMap<u64, String>,
    missing: Vec<String>,
    recorded: Vec<Kind>,
    kernel_bytes: u64,
}

impl FlightRecorder {
    /// Removes what killed processes left, sets an instance up and starts it.
    ///
    /// # Errors
    /// [`TraceError`], with the line that would give what is missing.
    pub fn open(setting: &FlightSetting) -> Result<Self, TraceError> {
        let tracefs = Tracefs::open()?;
        tracefs.remove_leftovers()?;
        let layout = PageLayout::parse(&tracefs.read("events/header_page")?)?;
        let instance = tracefs.create_instance()?;
        prepare(&instance, setting)?;
        let mut recorder = Self {
            cpus: Vec::new(),
            instance,
            _tracefs: tracefs,
            layout,
            decoder: Decoder::new(),
            functions: timer_functions(),
            missing: Vec::new(),
            recorded: Vec::new(),
            kernel_bytes: 0,
        };
        recorder.choose_events(setting)?;
        if let Some(tid) = setting.tid {
            recorder.follow(tid)?;
        }
        recorder.open_readers(setting)?;
        for kind in recorder.recorded.clone() {
            recorder.instance.write(&format!("events/{}/{}/enable", kind.system(), kind.name()), "1")?;
        }
        recorder.instance.write("tracing_on", "1")?;
        Ok(recorder)
    }

    /// Records wake-ups, timers and page faults of thread `tid` from now on.
    ///
    /// # Errors
    /// [`TraceError::File`] when the kernel refuses a filter.
    pub fn follow(&self, tid: u32) -> Result<(), TraceError> {
        for kind in &self.recorded {
            let Some(filter) = filter_of(*kind, tid) else { continue };
            self.instance.write(&format!("events/{}/{}/filter", kind.system(), kind.name()), &filter)?;
        }
        Ok(())
    }

    /// Events that this kernel does not have or that could not be read, by name.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The name of the recorder's instance below `instances/`.
    #[must_use]
    pub fn instance_name(&self) -> String {
        self.instance.name()
    }

    /// Bytes held: the kernel's buffers and the pages kept here.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        let kept: usize = self.cpus.iter().map(CpuReader::bytes_held).sum();
        self.kernel_bytes + kept as u64
    }

    /// Everything between `from` and `to` that is still there. Reads what came since the question before.
    ///
    /// # Errors
    /// [`TraceError::File`] when a buffer cannot be read.
    pub fn window(&mut self, from: Instant, to: Instant) -> Result<Window, TraceError> {
        let mut window = Window { from, to, functions: self.functions.clone(), ..Window::default() };
        for reader in &mut self.cpus {
            reader.drain(&self.layout)?;
            window.cpus.push(reader.events_between(from, to, &self.layout, &self.decoder));
            window.lost.extend(reader.lost.iter().filter(|lost| lost.from < to && lost.to > from));
        }
        Ok(window)
    }

    /// Stops recording and removes the instance.
    pub fn close(self) {
        drop(self);
    }

    fn choose_events(&mut self, setting: &FlightSetting) -> Result<(), TraceError> {
        for kind in Kind::all() {
            let is_syscall = matches!(kind, Kind::SyscallEnter | Kind::SyscallExit);
            if LEFT_OFF.contains(&kind) || is_syscall && !setting.syscalls {
                continue;
            }
            let known = self.learn(kind);
            match known {
                Ok(()) => self.recorded.push(kind),
                Err(why) if NEEDED.contains(&kind) => return Err(why),
                Err(_) => self.missing.push(format!("{}:{}", kind.system(), kind.name())),
            }
        }
        Ok(())
    }

    fn learn(&mut self, kind: Kind) -> Result<(), TraceError> {
        let text = self.instance.read(&format!("events/{}/{}/format", kind.system(), kind.name()))?;
        Ok(self.decoder.learn(kind, &EventFormat::parse(&text)?)?)
    }

    fn open_readers(&mut self, setting: &FlightSetting) -> Result<(), TraceError> {
        for cpu in host::online_cpus() {
            let path = self.instance.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let pipe = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            let pipe = pipe.map_err(|why| TraceError::at(&path, why))?;
            let most = (setting.kept_kib as usize * 1024 / self.layout.page_size()).max(2);
            self.cpus.push(CpuReader::new(cpu, pipe, most));
            self.kernel_bytes += u64::from(setting.buffer_kib) * 1024;
        }
        Ok(())
    }
}

/// What is recorded of an event when thread `tid` is the loop; `None` for events of all threads.
fn filter_of(kind: Kind, tid: u32) -> Option<String> {
    match kind {
        Kind::Waking => Some(format!("pid == {tid}")),
        // A real-time thread that went to another CPU no longer waits for this one.
        Kind::Migrate => Some(format!("pid == {tid} || prio < 100")),
        Kind::TimerStart | Kind::TimerCancel | Kind::PageFaultUser | Kind::PageFaultKernel => {
            Some(format!("common_pid == {tid}"))
        }
        _ => None,
    }
}

fn prepare(instance: &Instance, setting: &FlightSetting) -> Result<(), TraceError> {
    instance.write("tracing_on", "0")?;
    instance.write("trace_clock", "mono").map_err(|why| {
        instance.read("trace_clock").map_or(why, |clocks| TraceError::NoMonotonicClock { clocks: clocks.trim().into() })
    })?;
    instance.write("buffer_size_kb", &setting.buffer_kib.to_string())?;
    instance.write("options/overwrite", "1")
}

/// Addresses of the timer functions that tell one cause from another.
fn timer_functions() -> BTreeMap<u64, String> {
    const NAMES: [&str; 6] = [
        "hrtimer_wakeup",
        "tick_nohz_handler",
        "tick_sched_timer",
        "sched_rt_period_timer",
        "dl_task_timer",
        "watchdog_timer_fn",
    ];
    // Without the right to see addresses they all read 0.
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let named = symbols.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (address, name) = (words.next()?, words.nth(1)?);
        let address = NAMES.contains(&name).then(|| u64::from_str_radix(address, 16).ok()).flatten()?;
        (address != 0).then(|| (address, name.to_owned()))
    });
    named.collect()
}

/// One CPU's buffer.
#[derive(Debug)]
struct CpuReader {
    cpu: u32,
    pipe: File,
    pages: VecDeque<Kept>,
    lost: VecDeque<Lost>,
    /// How many pages are kept.
    most: usize,
    /// Beginning of the newest page read.
    newest: Instant,
    /// Memory of a page that is no longer kept.
    spare: Vec<u8>,
}

#[derive(Debug)]
struct Kept {
    begins: Instant,
    bytes: Vec<u8>,
}

/// Stretches of loss that are remembered per CPU.
const LOST_KEPT: usize = 64;

impl CpuReader {
    const fn new(cpu: u32, pipe: File, most: usize) -> Self {
        let newest = Instant::from_ns(0);
        Self { cpu, pipe, pages: VecDeque::new(), lost: VecDeque::new(), most, newest, spare: Vec::new() }
    }

    fn bytes_held(&self) -> usize {
        self.pages.iter().map(|page| page.bytes.capacity()).sum()
    }

    /// Reads what was recorded up to now. What comes while reading is left for the next time: the reading itself leaves
    /// events, and would never end.
    fn drain(&mut self, layout: &PageLayout) -> Result<(), TraceError> {
        let now = Monotonic.now();
        while self.newest <= now {
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.resize(layout.page_size(), 0);
            match self.pipe.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => {
                    bytes.truncate(length);
                    self.keep(bytes, layout);
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => {
                    return Err(TraceError::at(format!("per_cpu/cpu{}/trace_pipe_raw", self.cpu).as_ref(), why));
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: Vec<u8>, layout: &PageLayout) {
        // A page that cannot be read is a loss like any other; the next page ends it.
        let Ok(page) = Page::parse(&bytes, layout) else { return };
        let begins = Instant::from_ns(page.timestamp_ns);
        if let Some(missed) = page.missed {
            let from = self.last_instant(layout).unwrap_or_default();
            self.lost.push_back(Lost { cpu: self.cpu, from, to: begins, count: missed.count });
            if self.lost.len() > LOST_KEPT {
                self.lost.pop_front();
            }
        }
        self.pages.push_back(Kept { begins, bytes });
        self.newest = begins;
        if self.pages.len() > self.most {
            self.spare = self.pages.pop_front().map(|page| page.bytes).unwrap_or_default();
        }
    }

    fn last_instant(&self, layout: &PageLayout) -> Option<Instant> {
        let page = Page::parse(&self.pages.back()?.bytes, layout).ok()?;
        let last = page.records().filter_map(Result::ok).last();
        Some(Instant::from_ns(last.map_or(page.timestamp_ns, |record| record.at_ns)))
    }

    fn events_between(&self, from: Instant, to: Instant, layout: &PageLayout, decoder: &Decoder) -> CpuWindow {
        let after = self.pages.partition_point(|page| page.begins <= from);
        let mut events: Vec<Event> = Vec::new();
        for kept in self.pages.iter().skip(after.saturating_sub(1)).take_while(|page| page.begins <= to) {
            let Ok(page) = Page::parse(&kept.bytes, layout) else { continue };
            let records = page.records().filter_map(Result::ok);
            let decoded = records.filter_map(|record| decoder.decode(self.cpu, &record));
            events.extend(decoded.filter(|event| event.at >= from && event.at <= to));
        }
        CpuWindow { cpu: self.cpu, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_of_all_real_time_threads_are_recorded_and_wake_ups_of_the_loop_only() {
        assert_eq!(filter_of(Kind::Migrate, 7).as_deref(), Some("pid == 7 || prio < 100"));
        assert_eq!(filter_of(Kind::Waking, 7).as_deref(), Some("pid == 7"));
        assert_eq!(filter_of(Kind::Switch, 7), None);
    }
}
