//! The memory of an image: created by the bus process, mapped by every other one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use onbeat_ethercat::layout::Layout;
use onbeat_rt::latest::Latest;
use rustix::fs::{FallocateFlags, fallocate};

use super::abi::{
    ABI, ERROR_WORDS, EVENT_BYTES, EVENTS, ImageHeader, ImageOffsets, ImageSize, JOINT_BYTES,
    LiveWords, MAGIC, NAME_BYTES, REQUESTS, RequestRecord, SLOTS, state,
};
use super::device_table;
use super::error::ControlError;
use super::joint::{self, Joint};
use super::lock::{ImageGuard, ImageLock, LockProtocol};
use super::map::{Map, SharedMemory};
use super::object::{at, header_of, is_at, new_object, open_object, path_of};
use super::process::Process;
use super::settings::ImageSettings;
use super::sharing::Sharing;
use super::stats::StatsBlock;

/// Maximum number of polls for an image being created, and their interval.
const MAKING: (u32, Duration) = (100, Duration::from_millis(5));

/// The shared memory of an image.
#[derive(Debug)]
pub(super) struct MappedImage {
    pub(super) name: String,
    pub(super) size: ImageSize,
    pub(super) offsets: ImageOffsets,
    pub(super) sharing: Sharing,
    pub(super) me: Process,
    map: Map,
    /// The locked object, in the bus process.
    object: Option<(File, PathBuf)>,
}

impl MappedImage {
    /// Creates the object of this name, or takes over that of a dead bus process, and fills it.
    pub(super) fn create(
        name: &str,
        layout: &Layout,
        settings: &ImageSettings,
    ) -> Result<Self, ControlError> {
        let path = path_of(name)?;
        let (file, generation) = new_object(name, &path)?;
        let shared = Self::make(name, (file, &path), layout, settings).and_then(|shared| {
            shared.fill(layout, settings, generation).map_err(at("prepare the lock of", &path))?;
            Ok(shared)
        });

        shared.inspect_err(|_| _ = fs::remove_file(&path))
    }

    fn make(
        name: &str,
        (file, path): (File, &Path),
        layout: &Layout,
        settings: &ImageSettings,
    ) -> Result<Self, ControlError> {
        let size = ImageSize { joints: settings.joints.len(), ..device_table::size(layout) };
        let offsets = ImageOffsets::new(size);
        // Allocated completely: access to a sparse object without free memory ends the process with
        // SIGBUS.
        fallocate(&file, FallocateFlags::empty(), 0, offsets.total as u64)
            .map_err(|why| at("find memory for", path)(why.into()))?;
        let map = Map::new(&file, offsets.total).map_err(at("map", path))?;
        let object = Some((file, path.to_owned()));

        Ok(Self {
            name: name.to_owned(),
            size,
            offsets,
            sharing: settings.sharing,
            me: Process::this(),
            map,
            object,
        })
    }

    fn fill(&self, layout: &Layout, settings: &ImageSettings, generation: u64) -> io::Result<()> {
        let table = device_table::bytes(layout);
        device_table::store(self.map.all(self.offsets.table, table.len().div_ceil(8)), &table);
        match self.sharing {
            Sharing::WaitFree => {}
            Sharing::Pi => self.one::<ImageLock>(self.offsets.lock).make(LockProtocol::Priority)?,
            Sharing::Plain => {
                self.one::<ImageLock>(self.offsets.lock).make(LockProtocol::Nothing)?;
            }
        }

        let joints = joint::table(&settings.joints);
        device_table::store(self.map.all(self.offsets.joints, joints.len() / 8), &joints);
        let header = self.header();
        device_table::store(&header.segment, &device_table::name_bytes::<NAME_BYTES>(&layout.name));
        for (word, place) in header.places.iter().zip(self.offsets.published()) {
            word.store(place as u64, Ordering::Relaxed);
        }

        let small = [
            (&header.abi, ABI),
            (&header.sharing, self.sharing.number()),
            (&header.state, state::RUNNING),
            (&header.waking, settings.waking as u32),
            (&header.devices, self.size.devices as u32),
            (&header.values, self.size.values as u32),
            (&header.input_bytes, self.size.inputs as u32),
            (&header.output_bytes, self.size.outputs as u32),
            (&header.stale_after, settings.stale_after_cycles),
            (&header.events, EVENTS as u32),
            (&header.joints, self.size.joints as u32),
            (&header.goal_age_us, u32::try_from(settings.goal_age_ns / 1000).unwrap_or(u32::MAX)),
        ];
        small.into_iter().for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        header.joints_at.store(self.offsets.joints as u64, Ordering::Relaxed);
        header.goals_at.store(self.offsets.goals as u64, Ordering::Relaxed);
        header.link_errors_at.store(self.offsets.link_errors as u64, Ordering::Relaxed);
        header.total_bytes.store(self.offsets.total as u64, Ordering::Relaxed);
        header.layout_hash.store(device_table::hash(&table, &layout.name), Ordering::Relaxed);
        header.generation.store(generation, Ordering::Relaxed);
        header.bus.store(self.me.word(), Ordering::Relaxed);
        // A process that sees the magic number sees all of the above.
        header.magic.store(MAGIC, Ordering::Release);

        Ok(())
    }

    /// Maps the image of a running bus.
    pub(super) fn open(name: &str) -> Result<Self, ControlError> {
        let path = path_of(name)?;
        for _ in 0..MAKING.0 {
            let file = match open_object(&path) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => {
                    return Err(ControlError::NoBus { name: name.to_owned() });
                }
                opened => opened.map_err(at("open", &path))?,
            };

            let header = header_of(&file).ok();
            match header.as_ref().and_then(|map| map.one::<ImageHeader>(0)) {
                Some(header) if header.magic.load(Ordering::Acquire) == MAGIC => {
                    return Self::from_header(name, (&file, &path), header);
                }
                _ => sleep(MAKING.1),
            }
        }

        Err(ControlError::NotReady { name: name.to_owned() })
    }

    fn from_header(
        name: &str,
        (file, path): (&File, &Path),
        header: &ImageHeader,
    ) -> Result<Self, ControlError> {
        let name = name.to_owned();
        let number = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
        let theirs = number(&header.abi);
        if theirs != ABI {
            return Err(ControlError::OtherVersion { name, theirs, ours: ABI });
        }

        let count = |word| number(word) as usize;
        let size = ImageSize {
            devices: count(&header.devices),
            values: count(&header.values),
            inputs: count(&header.input_bytes),
            outputs: count(&header.output_bytes),
            joints: count(&header.joints),
        };

        let offsets = ImageOffsets::new(size);
        let total = offsets.total as u64;
        let length = file.metadata().map_err(at("look at", path))?.len();
        if header.total_bytes.load(Ordering::Relaxed) != total || length < total {
            return Err(ControlError::Spoilt {
                name,
                why: "its length is not what its header says",
            });
        }

        let Some(sharing) = Sharing::from_number(number(&header.sharing)) else {
            return Err(ControlError::Spoilt { name, why: "its kind of sharing is unknown" });
        };
        let map = Map::new(file, offsets.total).map_err(at("map", path))?;
        let opened = Self { name, size, offsets, sharing, me: Process::this(), map, object: None };
        opened.check_alive()?;
        Ok(opened)
    }

    /// Returns a part at a constant offset.
    #[allow(clippy::expect_used)] // `ImageOffsets` was computed for this length in `make`, and checked against it in `from_header`.
    fn one<T: SharedMemory>(&self, at: usize) -> &T {
        debug_assert!(self.map.bytes() == self.offsets.total);
        self.map.one(at).expect("places lie within the map")
    }

    #[allow(clippy::expect_used)] // As above.
    fn slots<'m>(
        &'m self,
        newest: &'m AtomicU64,
        at: usize,
        slot_words: usize,
        slots: usize,
    ) -> Latest<'m> {
        Latest::over(newest, self.map.all(at, slots * slot_words), slots)
            .expect("slots lie within the map")
    }

    pub(super) fn header(&self) -> &ImageHeader {
        self.one(0)
    }

    pub(super) fn live(&self) -> &LiveWords {
        self.one(self.offsets.live)
    }

    pub(super) fn stats(&self) -> &StatsBlock {
        self.one(self.offsets.stats)
    }

    pub(super) fn lock(&self) -> Option<&ImageLock> {
        (self.sharing != Sharing::WaitFree).then(|| self.one(self.offsets.lock))
    }

    /// Acquires the lock, if there is one.
    #[inline]
    pub(super) fn hold(&self) -> Option<ImageGuard<'_>> {
        self.lock()?.hold(self.me)
    }

    pub(super) fn image(&self) -> Latest<'_> {
        self.slots(&self.live().image.0, self.offsets.image, self.offsets.image_slot_words, SLOTS)
    }

    pub(super) fn outputs(&self) -> Latest<'_> {
        self.slots(
            &self.live().outputs.0,
            self.offsets.outputs,
            self.offsets.output_slot_words,
            SLOTS,
        )
    }

    pub(super) fn events(&self) -> Latest<'_> {
        self.slots(&self.live().events.0, self.offsets.events, 1 + EVENT_BYTES / 8, EVENTS)
    }

    /// Returns the slots of goals, if joints follow them.
    pub(super) fn goals(&self) -> Option<Latest<'_>> {
        (self.size.joints > 0).then(|| {
            self.slots(
                &self.live().goals.0,
                self.offsets.goals,
                self.offsets.goal_slot_words,
                SLOTS,
            )
        })
    }

    /// Returns the joints that follow goals, with their names.
    pub(super) fn named_joints(&self) -> Vec<(String, Joint)> {
        let records = self.map.all(self.offsets.joints, self.size.joints * JOINT_BYTES / 8);
        joint::from_records(records, &self.layout().devices)
    }

    /// Returns the device states, one word each.
    pub(super) fn states(&self) -> &[AtomicU64] {
        self.map.all(self.offsets.states, self.size.devices)
    }

    /// Returns the errors that the devices have counted, one record each.
    pub(super) fn link_errors(&self) -> &[AtomicU64] {
        self.map.all(self.offsets.link_errors, self.size.devices * ERROR_WORDS)
    }

    pub(super) fn requests(&self) -> &[RequestRecord] {
        self.map.all(self.offsets.requests, REQUESTS)
    }

    pub(super) fn layout(&self) -> Layout {
        let words = (self.offsets.states - self.offsets.table) / 8;
        let segment = device_table::name_of(&device_table::load(&self.header().segment));
        device_table::layout(
            segment,
            self.size,
            &device_table::load(self.map.all(self.offsets.table, words)),
        )
    }

    /// Checks that the bus reports to be running; no system call.
    pub(super) fn check(&self) -> Result<(), ControlError> {
        let name = || self.name.clone();
        match self.header().state.load(Ordering::Acquire) {
            state::RUNNING => Ok(()),
            state::ENDED => Err(ControlError::BusEnded { name: name() }),
            _ => Err(ControlError::BusReplaced { name: name() }),
        }
    }

    /// Checks the same, and that its process is alive.
    pub(super) fn check_alive(&self) -> Result<(), ControlError> {
        self.check()?;
        let bus = Process::from_word(self.header().bus.load(Ordering::Relaxed));
        match bus {
            Some(bus) if bus.is_alive() => Ok(()),
            // The image may have been taken over in between.
            _ => self.check().and(Err(ControlError::BusDied {
                name: self.name.clone(),
                pid: bus.map_or(0, Process::pid),
            })),
        }
    }

    /// Ends the bus in order: informs readers and frees the name.
    pub(super) fn retire(&self) {
        self.header().state.store(state::ENDED, Ordering::Release);
        if let Some((file, path)) = &self.object
            && is_at(file, path)
        {
            // If it cannot be removed, the next bus of this name takes it over.
            let _ = fs::remove_file(path);
        }
    }
}
