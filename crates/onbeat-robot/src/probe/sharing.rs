//! The sharing probe: waiting time of a real-time task for a process image that others read.
//!
//! In the paper's ECCI, ordinary tasks read the buffer that the Motion Controller exchanges once
//! per cycle, behind an RT-mutex, so the controller waits for one of them at most (its Figure 3).
//! Here an image of the same size, 1,312 bytes, is shared in three ways ([`Sharing`]), or behind a
//! lock that readers take only when they can leave it before the next release ([`DelayedLock`]). Readers read
//! it continuously and can hold it, and a hog of medium priority can keep them from releasing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use onbeat_rt::delayed_lock::{DelayedLock, Refusal};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Sample, Task};

use super::error::BusProbeError;
use onbeat::host;
use onbeat::probe::Setting;
use onbeat::probe::description::{
    Companion, Defaults, Description, OnGrid, OptionKind, Parts, ProbeError, ProbeOption,
};
use onbeat::probe::timer::work;
use onbeat::record::{Figures, Series};
use onbeat::thread::{ThreadRequest, run_as_ordinary};
use onbeat_control::{BusSide, Client, ControlError, Image, ImageSettings, Sharing, Snapshot};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::BusCycle;

/// Bytes of inputs and of outputs: 1,312 together, as in the paper.
const PART_BYTES: usize = 656;
/// Longest wait for the lock: longer than the priority inversion to be shown.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Pause between two reads of a reader.
const PAUSE: Duration = Duration::from_micros(100);
/// The hog leaves a fifth of its CPU to others, so the machine stays responsive.
// 8 of 10 ms: enough to keep a reader off its CPU for many cycles, and not so much that the kernel
// throttles real-time threads.
const HOG_BUSY_NS: u64 = 8_000_000;
const HOG_PAUSE: Duration = Duration::from_millis(2);

/// The kind of sharing that only threads of one process have.
const DELAYED: &str = "delayed";

const SHARING: ProbeOption = ProbeOption {
    name: "sharing",
    help: "Protection of the shared process image\n\
           wait-free: no process waits; pi: a mutex with priority inheritance, as in the paper; plain: a mutex \
           without it; delayed: a lock that readers take only when they can leave it before the next release.",
    default: Some("wait-free"),
    kind: OptionKind::Word(&["wait-free", "pi", "plain", DELAYED]),
};
const READERS: ProbeOption = ProbeOption {
    name: "readers",
    help: "Ordinary threads that read the image, 10,000 times a second each",
    default: Some("3"),
    kind: OptionKind::Count,
};
const HOLD: ProbeOption = ProbeOption {
    name: "hold",
    help: "Time a reader stays in each reading, polling the clock\n\
           Matters where there is a lock.",
    default: Some("0"),
    kind: OptionKind::Time,
};
const HOG: ProbeOption = ProbeOption {
    name: "hog",
    help: "Add a thread that takes most of the loop's CPU\n\
           It has half the loop's priority and takes four fifths of the CPU; one reader runs there too. Without \
           priority inheritance the loop waits for it. Without --cpu, the last CPU is taken.",
    default: None,
    kind: OptionKind::Switch,
};

/// The sharing probe.
pub const SHARING_PROBE: Description = Description {
    name: "sharing",
    sentence: "From requesting the exchange of a process image that others read to its completion",
    examples: "  sudo onbeat measure sharing --hog
      wait-free: no process waits
  sudo onbeat measure sharing --sharing pi --hog --hold 200us
      as in the paper: the loop waits for at most one reader
  sudo onbeat measure sharing --sharing plain --hog --hold 200us
      priority inversion, which the paper avoids: the loop waits for the hog too
  sudo onbeat measure sharing --sharing delayed --hog --hold 200us
      the loop never waits; cycles in which a reader overstayed are counted",
    series: &[Series::Exchange],
    defaults: Defaults::LOOP,
    choices: &[SHARING, READERS, HOLD, HOG],
    line_a_second: false,
    open: |setting, given| {
        let readers = u32::try_from(given.count(READERS.name)).unwrap_or(u32::MAX);
        if readers > MOST_READERS {
            // Each reader is a thread that polls. More than this measure the scheduler and not the
            // sharing.
            return Err(BusProbeError::TooManyReaders { readers, most: MOST_READERS }.into());
        }

        let hog = given.is_set(HOG.name).then(|| SharingHog::beside(setting));
        let (exchange, image) = match given.word(SHARING.name) {
            Some(DELAYED) => {
                let image = Arc::new(DelayedImage::new());
                (Exchange::Delayed(Arc::clone(&image)), ReadImage::Delayed(image))
            }
            // The word was checked against the list above.
            word => {
                let sharing = word.and_then(|word| word.parse().ok()).unwrap_or_default();
                let (bus, name) = image(sharing).map_err(BusProbeError::from)?;
                (Exchange::Image(bus), ReadImage::Named(name))
            }
        };
        let readers = Readers {
            image,
            count: readers,
            hold_ns: given.time_ns(HOLD.name),
            cpu: hog.map(|hog| hog.cpu),
        };
        let beside = BackgroundThreads::new(readers, hog);
        let inputs = vec![0; PART_BYTES];
        let outputs = vec![0; PART_BYTES];
        let task = Exchanging { exchange, inputs, outputs, work_ns: setting.work_ns };
        Ok(Parts {
            body: Box::new(OnGrid { task, has_ports: false }),
            figures: Box::new(SharingFigures),
            companion: Box::new(beside),
        })
    },
};

const MOST_READERS: u32 = 64;

/// Creates an image of this process; returns its name too.
fn image(sharing: Sharing) -> Result<(BusSide, String), ControlError> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = format!("measure-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let layout = Layout { input_bytes: PART_BYTES, output_bytes: PART_BYTES, ..Layout::default() };
    let settings = ImageSettings { lock_wait: LONGEST_WAIT, ..sharing.into() };
    Ok((Image::create(&name, &layout, settings)?, name))
}

/// How the loop exchanges the image.
enum Exchange {
    Image(BusSide),
    Delayed(Arc<DelayedImage>),
}

/// Exchanges the image once per cycle, and notes the duration.
struct Exchanging {
    exchange: Exchange,
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    work_ns: u64,
}

impl Task for Exchanging {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        // All bytes are equal, so a reader can detect a torn image.
        // A reader that finds two values has seen half of one cycle and half of the next.
        self.inputs.fill(cycle.index as u8);
        let of = BusCycle { cycle: cycle.index, ..BusCycle::default() };
        let asked = Monotonic.now();
        match &mut self.exchange {
            Exchange::Image(bus) => _ = bus.exchange(&of, &self.inputs, &mut self.outputs),
            Exchange::Delayed(image) => image.exchange(&self.inputs),
        }
        let took_ns = Monotonic.now().ns_since(asked);
        // In the sample itself, so that the exchange and the cycle's lateness are of one record. 0
        // would mean "none".
        cycle.note(u32::try_from(took_ns).unwrap_or(u32::MAX).max(1));
        match &mut self.exchange {
            // As a bus does after sending its frame.
            Exchange::Image(bus) => bus.prepare(),
            Exchange::Delayed(image) => image.lock.publish(cycle.release.plus_ns(cycle.period_ns)),
        }
        work(cycle.start, self.work_ns);

        Flow::Continue
    }
}

/// Figures: duration of each exchange.
#[derive(Clone, Copy, Debug)]
pub struct SharingFigures;

impl Figures for SharingFigures {
    fn series(&self) -> &'static [Series] {
        SHARING_PROBE.series
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        count(Series::Exchange, u64::from(sample.note));
    }
}

/// Time that a reader needs for the copy, beside the time it stays on purpose.
const COPY_NS: u64 = 20_000;

/// An image of the same size behind a lock that gives way to releases.
#[derive(Debug)]
struct DelayedImage {
    lock: DelayedLock,
    /// Inputs, then outputs.
    words: Vec<AtomicU64>,
    /// Cycles of the loop, and those that found a reader inside and went without the image.
    cycles: AtomicU64,
    missed: AtomicU64,
    /// Readings that could not have ended before the next release.
    refused: AtomicU64,
}

impl DelayedImage {
    fn new() -> Self {
        let words = (0..2 * PART_BYTES.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let [cycles, missed, refused] = [(); 3].map(|()| AtomicU64::new(0));
        Self { lock: DelayedLock::new(), words, cycles, missed, refused }
    }

    /// Writes the inputs and reads the outputs, unless a reader is inside.
    fn exchange(&self, inputs: &[u8]) {
        self.cycles.fetch_add(1, Ordering::Relaxed);
        let Some(_inside) = self.lock.enter_loop() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let (of_inputs, of_outputs) = self.words.split_at(self.words.len() / 2);
        for (word, bytes) in of_inputs.iter().zip(inputs.as_chunks::<8>().0) {
            // The lock orders them: readers enter only when they can leave before the next release.
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        for word in of_outputs {
            std::hint::black_box(word.load(Ordering::Relaxed));
        }
    }

    /// Reads the inputs, staying for `hold_ns`; whether they were torn. `None` where the reader was
    /// refused, behind the release that it had to give way to.
    fn read(&self, hold_ns: u64) -> Option<bool> {
        match self.lock.enter(&Monotonic, hold_ns.saturating_add(COPY_NS)) {
            Ok(_inside) => {
                let of_inputs = &self.words[..self.words.len() / 2];
                let first = of_inputs[0].load(Ordering::Relaxed);
                let until = Monotonic.now().plus_ns(hold_ns);
                while Monotonic.now() < until {
                    std::hint::spin_loop();
                }
                Some(of_inputs.iter().any(|word| word.load(Ordering::Relaxed) != first))
            }
            Err(Refusal::TooNear { release }) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                // A signal only ends the pause early.
                _ = Monotonic.sleep_until(release);
                None
            }
            Err(Refusal::Held) => None,
        }
    }

    fn sentence(&self) -> String {
        let figure = |of: &AtomicU64| of.load(Ordering::Relaxed);
        format!(
            "the loop waited for no reader: in {} of {} cycles one was still inside, and the loop went without the \
             image; {} readings were put off until after a release",
            figure(&self.missed),
            figure(&self.cycles),
            figure(&self.refused)
        )
    }
}

/// Where readers find the image.
#[derive(Clone, Debug)]
enum ReadImage {
    /// Of another process, as it seems to them, by its name.
    Named(String),
    Delayed(Arc<DelayedImage>),
}

/// Configuration of the readers.
#[derive(Clone, Debug)]
struct Readers {
    image: ReadImage,
    count: u32,
    hold_ns: u64,
    /// CPU of the first reader, if fixed.
    cpu: Option<u32>,
}

/// Counters of all readers.
#[derive(Debug, Default)]
struct Readings {
    all: AtomicU64,
    torn: AtomicU64,
    retries: AtomicU64,
    failed: AtomicU64,
}

impl Readers {
    fn run(&self, place: u32, readings: &Readings, stop: &AtomicBool) {
        match self.cpu.filter(|_| place == 0) {
            Some(cpu) => {
                // On the loop's CPU: only there can the hog keep a reader from leaving the lock.
                _ = ThreadRequest { cpu: Some(cpu), ..ThreadRequest::default() }.prepare_thread();
            }
            None => run_as_ordinary(),
        }

        match &self.image {
            ReadImage::Named(name) => self.run_named(name, readings, stop),
            ReadImage::Delayed(image) => {
                while !stop.load(Ordering::Relaxed) {
                    if let Some(is_torn) = image.read(self.hold_ns) {
                        readings.all.fetch_add(1, Ordering::Relaxed);
                        readings.torn.fetch_add(u64::from(is_torn), Ordering::Relaxed);
                    }
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn run_named(&self, name: &str, readings: &Readings, stop: &AtomicBool) {
        let Ok(mut client) = Client::open(name) else {
            readings.failed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut seen = client.snapshot();
        let mut retries = 0;
        while !stop.load(Ordering::Relaxed) {
            match client.read_slowly(&mut seen, Duration::from_nanos(self.hold_ns)) {
                Ok(()) => {
                    readings.all.fetch_add(1, Ordering::Relaxed);
                    readings.torn.fetch_add(u64::from(is_torn(&seen)), Ordering::Relaxed);
                    // A seqlock reader repeats what a cycle has overtaken. Its retries are the
                    // price of a loop that never waits.
                    readings.retries.fetch_add(seen.retries - retries, Ordering::Relaxed);
                    retries = seen.retries;
                }
                // Before the first cycle, and after the last.
                Err(ControlError::NoCycleYet { .. } | ControlError::BusEnded { .. }) => {}
                Err(_) => _ = readings.failed.fetch_add(1, Ordering::Relaxed),
            }
            thread::sleep(PAUSE);
        }
    }
}

fn is_torn(seen: &Snapshot) -> bool {
    seen.inputs.iter().any(|byte| *byte != seen.cycle.cycle as u8)
}

/// A thread that keeps the loop's CPU busy.
#[derive(Clone, Copy, Debug)]
struct SharingHog {
    cpu: u32,
    fifo: Option<u32>,
}

impl SharingHog {
    fn beside(setting: &mut Setting) -> Self {
        let cpu = setting.thread.cpu.or_else(|| host::online_cpus().last().copied()).unwrap_or(0);
        // The loop is bound as well: a loop that could move away would not be disturbed.
        setting.thread.cpu = Some(cpu);
        Self { cpu, fifo: setting.thread.fifo.map(|priority| (priority / 2).max(1)) }
    }

    fn run(self, refused: &AtomicBool, stop: &AtomicBool) {
        let wanted =
            ThreadRequest { cpu: Some(self.cpu), fifo: self.fifo, ..ThreadRequest::default() };
        let all_granted = wanted.prepare_thread().iter().all(|grant| grant.granted);
        // Said in the result: without a priority between reader and loop nothing is inverted.
        refused.store(self.fifo.is_none() || !all_granted, Ordering::Relaxed);
        while !stop.load(Ordering::Relaxed) {
            let until = Monotonic.now().plus_ns(HOG_BUSY_NS);
            while Monotonic.now() < until {
                std::hint::spin_loop();
            }
            thread::sleep(HOG_PAUSE);
        }
    }
}

/// Readers and hog, running beside the loop.
#[derive(Debug)]
struct BackgroundThreads {
    readers: Readers,
    hog: Option<SharingHog>,
    readings: Arc<Readings>,
    hog_refused: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BackgroundThreads {
    fn new(readers: Readers, hog: Option<SharingHog>) -> Self {
        let (readings, hog_refused, stop) = Default::default();
        Self { readers, hog, readings, hog_refused, stop, threads: Vec::new() }
    }

    fn spawn(
        &mut self,
        what: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), ProbeError> {
        let spawned = thread::Builder::new().name(what.to_owned()).spawn(body);
        self.threads.push(spawned.map_err(|source| ProbeError::Thread { what, source })?);
        Ok(())
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

impl Companion for BackgroundThreads {
    fn start(&mut self) -> Result<(), ProbeError> {
        for place in 0..self.readers.count {
            let readers = self.readers.clone();
            let readings = Arc::clone(&self.readings);
            let stop = Arc::clone(&self.stop);
            self.spawn("onbeat-reader", move || readers.run(place, &readings, &stop))?;
        }

        if let Some(hog) = self.hog {
            let refused = Arc::clone(&self.hog_refused);
            let stop = Arc::clone(&self.stop);
            self.spawn("onbeat-hog", move || hog.run(&refused, &stop))?;
        }

        Ok(())
    }

    fn end(&mut self) -> Vec<String> {
        self.join();
        let figure = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let Readings { all, torn, retries, failed } = self.readings.as_ref();
        let mut sentences = vec![format!(
            "{} readers read the image {} times; {} images were torn, {} reads were repeated after being overtaken",
            self.readers.count,
            figure(all),
            figure(torn),
            figure(retries)
        )];
        if let ReadImage::Delayed(image) = &self.readers.image {
            sentences.push(image.sentence());
        }
        if figure(failed) > 0 {
            sentences.push(format!("{} reads failed", figure(failed)));
        }

        if self.hog_refused.load(Ordering::Relaxed) {
            sentences.push(
                "the hog was an ordinary thread: it needs a real-time priority below the loop's"
                    .to_owned(),
            );
        }

        sentences
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        self.join();
    }
}
