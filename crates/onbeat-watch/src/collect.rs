//! From the kernel's events to waits, continuously.

use std::collections::HashMap;

use onbeat::cause::decode::TracePoint;
use onbeat::cause::{EventStream, PathStream, StreamSetting, TraceError};
use onbeat_rt::Instant;

use crate::event::{ClockOffsets, KnownTimer, ThreadEvent, translate, translate_path};
use crate::waits::{Wait, WaitAssembler};

/// The trace points that tell of waits; wakings only where something else than a timer ends them.
const POINTS: [TracePoint; 4] =
    [TracePoint::Switch, TracePoint::TimerStart, TracePoint::TimerExpireEntry, TracePoint::Waking];
/// Kernel buffer of each CPU, in KiB: half a second of 40 threads at 1 kHz.
const BUFFER_KIB: u32 = 2_048;
/// Rings of BPF for each CPU, in KiB: all switches of a second on a very busy CPU.
const PATH_KIB: u32 = 2_048;
/// Most bytes of a CPU between two looks, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// What one look brought.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Everything up to here is known.
    pub until: Instant,
    /// Events lost in the kernel's buffers, as far as they were counted; gaps without a count are 1.
    pub lost: u64,
    /// Events per thread.
    pub events: HashMap<u32, u64>,
    /// Whether there was more than one look takes.
    pub is_flooded: bool,
}

/// Collects the waits of threads by tracefs.
#[derive(Debug)]
pub struct Collector {
    stream: EventStream,
    /// BPF in its place, once the loop is known.
    path: Option<(PathStream, KnownTimer)>,
    assembler: WaitAssembler,
    offsets: ClockOffsets,
    translated: Vec<ThreadEvent>,
}

impl Collector {
    /// Creates a tracefs instance, which records nothing before [`Self::follow`].
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn open() -> Result<Self, TraceError> {
        let setting = StreamSetting {
            points: POINTS.to_vec(),
            buffer_kib: BUFFER_KIB,
            most_bytes: MOST_BYTES,
        };
        Ok(Self {
            stream: EventStream::open(&setting)?,
            path: None,
            assembler: WaitAssembler::default(),
            offsets: ClockOffsets::now(),
            translated: Vec::new(),
        })
    }

    /// Follows these threads, and threads that they start, from now on.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn follow(&self, tids: &[u32]) -> Result<(), TraceError> {
        self.stream.follow(tids)
    }

    /// Forgets the threads so far, and follows one thread from now on.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn follow_only(&mut self, tid: u32) -> Result<(), TraceError> {
        self.stream.stop()?;
        self.look(&mut |_, _| {})?;
        // What the thread did meanwhile is not known, and must not look like a wait without an end.
        self.assembler = WaitAssembler::default();
        self.stream.follow(&[tid])
    }

    /// Follows one thread whose releases come from `timer` by BPF from now on, which costs the thread
    /// a fraction of what tracefs does.
    ///
    /// # Errors
    /// Why BPF cannot record, in a sentence; tracefs can take its place.
    pub fn follow_by_bpf(&mut self, tid: u32, timer: KnownTimer) -> Result<(), String> {
        let path = PathStream::open(tid, PATH_KIB)?;
        self.stream.close_down().map_err(|why| why.to_string())?;
        self.assembler = WaitAssembler::default();
        self.path = Some((path, timer));
        Ok(())
    }

    /// Stops recording who wakes whom: loops that timers wake need it for nothing.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn leave_wakings_out(&mut self) -> Result<(), TraceError> {
        self.stream.disable(TracePoint::Waking)
    }

    /// Returns whether timers can be told apart: the kernel shows the addresses of its functions.
    #[must_use]
    pub fn knows_timers(&self) -> bool {
        self.stream.knows_functions()
    }

    /// Returns what is known of the threads so far.
    #[must_use]
    pub const fn assembler(&self) -> &WaitAssembler {
        &self.assembler
    }

    /// Reads what has happened since the last look, and hands on each wait that has ended.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn look(
        &mut self,
        each: &mut dyn FnMut(&Wait, &WaitAssembler),
    ) -> Result<Look, TraceError> {
        // CLOCK_REALTIME may be set at any time.
        self.offsets = ClockOffsets::now();
        let batch = match &mut self.path {
            Some((path, _)) => path.read(),
            None => self.stream.read()?,
        };
        let mut look = Look {
            until: batch.until,
            lost: batch.lost.iter().map(|lost| lost.count.unwrap_or(1)).sum(),
            is_flooded: !batch.flooded_cpus.is_empty(),
            ..Look::default()
        };

        let mut waits = Vec::new();
        for event in &batch.events {
            self.translated.clear();
            match &self.path {
                Some((_, known)) => {
                    translate_path(*known, &self.offsets, event, &mut self.translated);
                }
                None => translate(&self.stream, &self.offsets, event, &mut self.translated),
            }
            for event in &self.translated {
                *look.events.entry(event.tid).or_default() += 1;
                self.assembler.take(event, &mut waits);
                waits.drain(..).for_each(|wait| each(&wait, &self.assembler));
            }
        }

        Ok(look)
    }
}
