//! A stream of the events of certain threads, read continuously.
//!
//! The flight recorder keeps events of all threads and is read after a spike; a stream has the
//! events of a few threads, each of which is read. The kernel filters by thread
//! (`set_event_pid`): other threads cost a test of a flag. A tracefs instance of its own, as that of
//! the flight recorder: removed at the end, or by the next start after a kill.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::decode::{EventContext, EventDecoder, TracePoint};
use super::event::{KernelEvent, LostEvents, TraceEvent};
use super::flight::addresses_of;
use super::format::{EventFormat, PageLayout};
use super::inside::InsideEvent;
use super::page::RingPage;
pub use super::path::FunctionPlace;
use super::path::{PathMemory, PathRecorder, PathSetting};
use super::tracefs::{Instance, TraceError, Tracefs, read_page};
use onbeat_host::machine;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSetting {
    pub points: Vec<TracePoint>,
    /// Kernel buffer per CPU, in KiB.
    pub buffer_kib: u32,
    /// Most bytes that one call of [`EventStream::read`] takes from a CPU; the rest is left to the
    /// next call, or overwritten and counted.
    pub most_bytes: usize,
}

/// An event with what only a stream asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    pub event: TraceEvent,
    /// What ran when it was recorded.
    pub context: EventContext,
    /// Of `hrtimer_start`: whether the time counts from the start of the timer, if recorded.
    pub relative: Option<bool>,
}

/// The events of one read, in order of time.
#[derive(Clone, Debug, Default)]
pub struct StreamBatch {
    /// Events up to [`Self::until`].
    pub events: Vec<StreamEvent>,
    /// Calls of a function each of which is a cycle, in order of time.
    pub calls: Vec<InsideEvent>,
    /// Gaps in them.
    pub lost: Vec<LostEvents>,
    /// Every event up to here was read.
    pub until: Instant,
    /// CPUs whose buffer held more than was to be read at once.
    pub flooded_cpus: Vec<u32>,
}

#[derive(Debug)]
struct StreamReader {
    cpu: u32,
    pipe: File,
    /// Time of the last event read.
    last: Instant,
}

/// A running stream.
#[derive(Debug)]
pub struct EventStream {
    // Fields are dropped in this order: readers must be closed before the instance is removed.
    readers: Vec<StreamReader>,
    instance: Instance,
    _tracefs: Tracefs,
    layout: PageLayout,
    decoder: EventDecoder,
    functions: BTreeMap<u64, String>,
    points: Vec<TracePoint>,
    most_bytes: usize,
    /// Read, but later than the last batch ended.
    waiting: Vec<StreamEvent>,
    page: Vec<u8>,
}

/// Timer functions that wake a thread of a program, with those of them that belong to the
/// scheduler left out.
const TIMER_FUNCTIONS: [&str; 5] =
    ["hrtimer_wakeup", "timerfd_tmrproc", "posix_timer_fn", "it_real_fn", "alarmtimer_fired"];

impl EventStream {
    /// Removes instances of killed processes and creates an instance, which records nothing before
    /// [`Self::follow`].
    ///
    /// # Errors
    /// [`TraceError`]; its remedy is the command that grants what is missing.
    pub fn open(setting: &StreamSetting) -> Result<Self, TraceError> {
        let tracefs = Tracefs::open()?;
        tracefs.remove_leftovers()?;
        let layout = PageLayout::parse(&tracefs.read("events/header_page")?)?;
        let instance = tracefs.create_instance()?;
        super::flight::prepare(&instance, setting.buffer_kib)?;

        let mut decoder = EventDecoder::new();
        for point in &setting.points {
            let format = instance.read(&point.file("format"))?;
            decoder.learn(*point, &EventFormat::parse(&format)?)?;
        }
        // Children of followed threads are followed too.
        instance.write("options/event-fork", "1")?;

        let last = Instant::from_ns(0);
        let open = |cpu| instance.open_pages(cpu).map(|pipe| StreamReader { cpu, pipe, last });
        let readers = machine::online_cpus().into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self {
            readers,
            instance,
            _tracefs: tracefs,
            layout,
            decoder,
            functions: addresses_of(&TIMER_FUNCTIONS),
            points: setting.points.clone(),
            most_bytes: setting.most_bytes,
            waiting: Vec::new(),
            page: Vec::new(),
        })
    }

    /// Follows these threads and no others, and records from now on.
    ///
    /// # Errors
    /// [`TraceError::File`] if the kernel refuses the list.
    pub fn follow(&self, tids: &[u32]) -> Result<(), TraceError> {
        self.instance.write("tracing_on", "0")?;
        if tids.is_empty() {
            // An empty list means every thread.
            return Ok(());
        }

        let list: Vec<String> = tids.iter().map(ToString::to_string).collect();
        self.instance.write("set_event_pid", &list.join(" "))?;
        for point in &self.points {
            self.instance.write(&point.file("enable"), "1")?;
        }

        self.instance.write("tracing_on", "1")
    }

    /// Stops recording a trace point.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn disable(&mut self, point: TracePoint) -> Result<(), TraceError> {
        self.points.retain(|one| *one != point);
        self.instance.write(&point.file("enable"), "0")
    }

    /// Stops recording; what was recorded can still be read.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn stop(&self) -> Result<(), TraceError> {
        self.instance.write("tracing_on", "0")
    }

    /// Stops recording and frees the kernel's buffers.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn close_down(&self) -> Result<(), TraceError> {
        self.stop()?;
        for point in &self.points {
            self.instance.write(&point.file("enable"), "0")?;
        }
        // The filter by thread is a program of its own at every switch and wake-up, whether events
        // are enabled or not.
        self.instance.write("set_event_pid", "")?;
        self.instance.write("options/event-fork", "0")?;
        self.instance.write("buffer_size_kb", "4")
    }

    /// Returns the name of the timer function at `address`, if it is one that wakes threads of
    /// programs.
    #[must_use]
    pub fn timer_function(&self, address: u64) -> Option<&str> {
        self.functions.get(&address).map(String::as_str)
    }

    /// Returns whether the kernel shows the addresses of functions to this process.
    #[must_use]
    pub fn knows_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Reads what was recorded until now.
    ///
    /// # Errors
    /// [`TraceError::File`] if a buffer cannot be read.
    pub fn read(&mut self) -> Result<StreamBatch, TraceError> {
        let mut batch = StreamBatch { until: Monotonic.now(), ..StreamBatch::default() };
        let mut readers = std::mem::take(&mut self.readers);
        let read = readers.iter_mut().try_for_each(|reader| self.drain(reader, &mut batch));
        self.readers = readers;
        read?;

        self.waiting.sort_by_key(|event| event.event.at);
        let until = batch.until;
        let ready = self.waiting.partition_point(|event| event.event.at <= until);
        batch.events = self.waiting.drain(..ready).collect();
        Ok(batch)
    }

    fn drain(
        &mut self,
        reader: &mut StreamReader,
        batch: &mut StreamBatch,
    ) -> Result<(), TraceError> {
        let mut bytes = 0;
        // Reading causes events of its own only where this process is followed.
        while reader.last <= batch.until {
            if bytes >= self.most_bytes {
                // What the other CPUs have of later times waits for this one.
                batch.until = batch.until.min(reader.last);
                batch.flooded_cpus.push(reader.cpu);
                break;
            }

            self.page.resize(self.layout.page_size(), 0);
            let Some(length) = read_page(&reader.pipe, &mut self.page, reader.cpu)? else { break };
            bytes += length;
            self.keep(reader, length, batch);
        }

        Ok(())
    }

    fn keep(&mut self, reader: &mut StreamReader, length: usize, batch: &mut StreamBatch) {
        let from = reader.last;
        let cpu = reader.cpu;
        let Ok(page) = RingPage::parse(&self.page[..length], &self.layout) else {
            // What it held is a gap, which ends at the next page.
            batch.lost.push(LostEvents { cpu, from, to: batch.until, count: None });
            return;
        };

        if let Some(missed) = page.missed {
            let to = Instant::from_ns(page.timestamp_ns);
            batch.lost.push(LostEvents { cpu, from, to, count: missed.count });
        }

        reader.last = reader.last.max(Instant::from_ns(page.timestamp_ns));
        for record in page.records().filter_map(Result::ok) {
            reader.last = reader.last.max(Instant::from_ns(record.at_ns));
            let Some(event) = self.decoder.decode(cpu, &record) else { continue };
            let is_timer = matches!(event.what, KernelEvent::TimerStart { .. });
            self.waiting.push(StreamEvent {
                event,
                context: self.decoder.context(&record),
                relative: self.decoder.is_relative_timer(&record).filter(|_| is_timer),
            });
        }
    }
}

/// Records are complete this long after their time at the latest, in nanoseconds: a program may be
/// kept from writing one to its end by an interrupt, or by the host.
pub(super) const COMPLETE_AFTER_NS: u64 = 2_000_000;

/// The same events of one thread, recorded by BPF: a fraction of tracefs' cost for the thread.
///
/// Absent: the functions of timers, and whether a timer's time counts from its start.
#[derive(Clone, Debug)]
pub struct PathStream {
    path: Arc<PathMemory>,
    tids: Vec<u32>,
    cpus: Vec<u32>,
    /// Everything before this was read.
    from: Instant,
}

impl PathStream {
    /// Records threads from now on, in rings of `kib` KiB per CPU.
    ///
    /// # Errors
    /// Why BPF cannot record, in a sentence.
    pub fn open(tids: &[u32], kib: u32) -> Result<Self, String> {
        Self::open_with(tids, kib, None)
    }

    /// Records threads, and calls of a function each of which is a cycle; without threads calls by
    /// all threads of its process, and nothing else.
    ///
    /// # Errors
    /// Why BPF cannot record, in a sentence.
    pub fn open_with(
        tids: &[u32],
        kib: u32,
        function: Option<&FunctionPlace>,
    ) -> Result<Self, String> {
        let setting = PathSetting { tids, kib, function, ..PathSetting::default() };
        let path = PathRecorder::open(&setting).map_err(|why| why.to_string())?;
        Ok(Self::of(path.memory(), tids))
    }

    /// Returns the same of one of the threads, from now on.
    #[must_use]
    pub fn for_thread(&self, tid: u32) -> Self {
        Self::of(Arc::clone(&self.path), &[tid])
    }

    /// Reads what another recorder has of these threads, from now on.
    pub(super) fn of(path: Arc<PathMemory>, tids: &[u32]) -> Self {
        Self { path, tids: tids.to_vec(), cpus: machine::online_cpus(), from: Monotonic.now() }
    }

    /// Reads what was recorded until two milliseconds ago.
    pub fn read(&mut self) -> StreamBatch {
        let to = Monotonic.now().minus_ns(COMPLETE_AFTER_NS);
        let mut batch = StreamBatch { until: to, ..StreamBatch::default() };
        if to <= self.from {
            return StreamBatch { until: self.from, ..batch };
        }

        let mut events = Vec::new();
        for cpu in &self.cpus {
            let of_cpu = self.path.events_of(&self.tids, *cpu, self.from, to);
            events.extend(of_cpu.events);
            batch.calls.extend(of_cpu.inside);
            batch.lost.extend(of_cpu.lost);
        }
        events.sort_by_key(|event| event.at);
        batch.calls.sort_by_key(|call| call.at);
        self.from = to.plus_ns(1);
        let plain = |event| StreamEvent { event, context: EventContext::Task, relative: None };
        batch.events = events.into_iter().map(plain).collect();
        batch
    }
}
