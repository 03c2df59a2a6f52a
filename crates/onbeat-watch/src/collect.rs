//! From the kernel's events to waits, continuously.

use std::collections::HashMap;

use onbeat::cause::decode::TracePoint;
use onbeat::cause::stream::StreamBatch;
use onbeat::cause::{EventStream, PathStream, StreamSetting, TraceError};
use onbeat_rt::Instant;

use crate::event::{
    ClockOffsets, KnownTimer, ThreadEvent, translate, translate_call, translate_path,
};
use crate::waits::{Wait, WaitAssembler};

/// The trace points that tell of waits; wakings only where something else than a timer ends them.
const POINTS: [TracePoint; 4] =
    [TracePoint::Switch, TracePoint::TimerStart, TracePoint::TimerExpireEntry, TracePoint::Waking];
/// Kernel buffer of each CPU, in KiB: half a second of 40 threads at 1 kHz.
const BUFFER_KIB: u32 = 2_048;
/// Rings of BPF for each CPU, in KiB: a second of 40 threads at 1 kHz.
pub(crate) const PATH_KIB: u32 = 2_048;
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
    /// `None` where a stream by BPF was there from the beginning.
    stream: Option<EventStream>,
    /// BPF in its place, once the loop is known.
    path: Option<(PathStream, Option<KnownTimer>)>,
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
            stream: Some(EventStream::open(&setting)?),
            path: None,
            assembler: WaitAssembler::default(),
            offsets: ClockOffsets::now(),
            translated: Vec::new(),
        })
    }

    /// Collects the waits of a thread that is recorded by BPF already.
    #[must_use]
    pub fn of(path: PathStream, timer: Option<KnownTimer>) -> Self {
        Self {
            stream: None,
            path: Some((path, timer)),
            assembler: WaitAssembler::of_calls(timer.is_some()),
            offsets: ClockOffsets::now(),
            translated: Vec::new(),
        }
    }

    /// Follows these threads, and threads that they start, from now on.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn follow(&self, tids: &[u32]) -> Result<(), TraceError> {
        self.stream.as_ref().map_or(Ok(()), |stream| stream.follow(tids))
    }

    /// Forgets the threads so far, and follows these from now on.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn follow_only(&mut self, tids: &[u32]) -> Result<(), TraceError> {
        if let Some(stream) = &self.stream {
            stream.stop()?;
        }
        self.look(&mut |_, _| {})?;
        // What the thread did meanwhile is not known, and must not look like a wait without an end.
        self.assembler = WaitAssembler::default();
        self.follow(tids)
    }

    /// Follows one thread whose releases come from `timer` by BPF from now on, which costs the thread
    /// a fraction of what tracefs does.
    ///
    /// # Errors
    /// Why BPF cannot record, in a sentence; tracefs can take its place.
    pub fn follow_by_bpf(&mut self, tid: u32, timer: KnownTimer) -> Result<(), String> {
        self.follow_by(PathStream::open(&[tid], PATH_KIB)?, timer)
    }

    /// Follows the thread of a stream that is recorded already.
    ///
    /// # Errors
    /// Why tracefs cannot be stopped, in a sentence.
    pub fn follow_by(&mut self, path: PathStream, timer: KnownTimer) -> Result<(), String> {
        if let Some(stream) = &self.stream {
            stream.close_down().map_err(|why| why.to_string())?;
        }
        self.assembler = WaitAssembler::default();
        self.path = Some((path, Some(timer)));
        Ok(())
    }

    /// Whether BPF records the thread.
    pub(crate) const fn has_path(&self) -> bool {
        self.path.is_some()
    }

    /// Stops recording who wakes whom: loops that timers wake need it for nothing.
    ///
    /// # Errors
    /// [`TraceError::File`].
    pub fn leave_wakings_out(&mut self) -> Result<(), TraceError> {
        self.stream.as_mut().map_or(Ok(()), |stream| stream.disable(TracePoint::Waking))
    }

    /// Returns whether timers can be told apart: the kernel shows the addresses of its functions.
    #[must_use]
    pub fn knows_timers(&self) -> bool {
        self.stream.as_ref().is_none_or(EventStream::knows_functions)
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
        self.offsets = self.offsets.unless_set(ClockOffsets::now());
        let batch = match (&mut self.path, &mut self.stream) {
            (Some((path, _)), _) => path.read(),
            (None, Some(stream)) => stream.read()?,
            (None, None) => StreamBatch::default(),
        };
        let mut look = Look {
            until: batch.until,
            lost: batch.lost.iter().map(|lost| lost.count.unwrap_or(1)).sum(),
            is_flooded: !batch.flooded_cpus.is_empty(),
            ..Look::default()
        };

        self.translated.clear();
        for event in &batch.events {
            match (&self.path, &self.stream) {
                (Some((_, known)), _) => {
                    translate_path(*known, &self.offsets, event, &mut self.translated);
                }
                (None, Some(stream)) => {
                    translate(stream, &self.offsets, event, &mut self.translated);
                }
                (None, None) => {}
            }
        }
        if !batch.calls.is_empty() {
            self.translated.extend(batch.calls.iter().filter_map(translate_call));
            self.translated.sort_by_key(|event| event.at);
        }

        let mut waits = Vec::new();
        for event in &self.translated {
            *look.events.entry(event.tid).or_default() += 1;
            self.assembler.take(event, &mut waits);
            waits.drain(..).for_each(|wait| each(&wait, &self.assembler));
        }

        Ok(look)
    }
}
