//! The memory that a bus shows its clients: written by the bus process, mapped read-only by every
//! other one.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onbeat_ethercat::layout::Layout;
use onbeat_rt::Clock;
use onbeat_rt::latest::Latest;
use onbeat_rt::sys::Monotonic;

use super::abi::{
    ABI, ERROR_WORDS, EVENT_BYTES, EVENTS, ImageHeader, ImageOffsets, ImageSize, JOINT_BYTES,
    LiveWords, MAGIC, NAME_BYTES, SLOTS, state,
};
use super::area;
use super::device_table;
use super::error::ControlError;
use super::joint::{self, Joint};
use super::lock::{ImageGuard, ImageLock};
use super::map::{self, Map, SharedMemory};
use super::settings::ImageSettings;
use super::sharing::Sharing;
use super::stats::StatsBlock;

/// Maximum time for which a client waits for the lock; then it reads without it.
const CLIENT_WAIT: Duration = Duration::from_secs(1);

/// The memory of an image.
#[derive(Debug)]
pub(super) struct MappedImage {
    pub(super) name: String,
    pub(super) size: ImageSize,
    pub(super) offsets: ImageOffsets,
    pub(super) sharing: Sharing,
    pub(super) lock: Option<ImageLock>,
    map: Map,
}

/// Names the image in an error of the system.
pub(super) fn system(
    what: &'static str,
    name: &str,
) -> impl Fn(std::io::Error) -> ControlError + use<> {
    let path = Path::new("image of bus").join(name);
    move |source| ControlError::System { what, path: path.clone(), source }
}

/// Names of the memory of an image and of its lock, in the bus process.
pub(super) fn memory_of(name: &str) -> String {
    format!("onbeat-image:{name}")
}

pub(super) fn lock_of(name: &str) -> String {
    format!("onbeat-lock:{name}")
}

impl MappedImage {
    /// Creates and fills an image; returns the descriptor for clients too.
    pub(super) fn create(
        name: &str,
        layout: &Layout,
        settings: &ImageSettings,
    ) -> Result<(Self, OwnedFd), ControlError> {
        let size = ImageSize { joints: settings.joints.len(), ..device_table::size(layout) };
        let offsets = ImageOffsets::new(size);
        let file = area::create(offsets.total, &memory_of(name));
        let file = file.map_err(system("find memory for the", name))?;
        let map = Map::new(&file, offsets.total).map_err(system("map the", name))?;
        let lock = || ImageLock::create(settings.sharing, &lock_of(name));
        let lock = (settings.sharing != Sharing::WaitFree).then(lock).transpose();
        let lock = lock.map_err(system("make the lock of the", name))?;
        let name = name.to_owned();
        let shared = Self { name, size, offsets, sharing: settings.sharing, lock, map };
        shared.fill(layout, settings);
        let readers = area::seal_for_readers(&file).map_err(system("seal the", &shared.name))?;
        Ok((shared, readers))
    }

    fn fill(&self, layout: &Layout, settings: &ImageSettings) {
        let table = device_table::bytes(layout);
        map::store(self.map.all(self.offsets.table, table.len().div_ceil(8)), &table);
        let joints = joint::table(&settings.joints);
        map::store(self.map.all(self.offsets.joints, joints.len() / 8), &joints);
        let header = self.header();
        map::store(&header.segment, &device_table::name_bytes::<NAME_BYTES>(&layout.name));
        for (word, place) in header.places.iter().zip(self.offsets.published()) {
            word.store(place as u64, Ordering::Relaxed);
        }

        let small = [
            (&header.abi, ABI),
            (&header.sharing, self.sharing.number()),
            (&header.state, state::RUNNING),
            (&header.bus, std::process::id()),
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
        header.total_bytes.store(self.offsets.total as u64, Ordering::Relaxed);
        header.layout_hash.store(device_table::hash(&table, &layout.name), Ordering::Relaxed);
        // Of two images of one name, one is later.
        header.instance.store(Monotonic.now().as_ns(), Ordering::Relaxed);
        // A process that sees the magic number sees all of the above.
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Maps the image of a running bus, from the descriptors that it has sent.
    pub(super) fn open(
        name: &str,
        memory: OwnedFd,
        lock: Option<OwnedFd>,
    ) -> Result<Self, ControlError> {
        let length = area::fixed_length(&memory).map_err(system("look at the", name))?;
        let spoilt = |why| ControlError::Spoilt { name: name.to_owned(), why };
        if length < size_of::<ImageHeader>() {
            return Err(spoilt("it is shorter than its header"));
        }
        let map = Map::read_only(&File::from(memory), length).map_err(system("map the", name))?;
        let header = map.one::<ImageHeader>(0);
        let header = header.ok_or_else(|| spoilt("it is shorter than its header"))?;
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(spoilt("it does not begin as an image"));
        }

        let number = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
        let theirs = number(&header.abi);
        if theirs != ABI {
            let name = name.to_owned();
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
        if header.total_bytes.load(Ordering::Relaxed) != total || (length as u64) < total {
            return Err(spoilt("its length is not what its header says"));
        }

        let sharing = Sharing::from_number(number(&header.sharing));
        let sharing = sharing.ok_or_else(|| spoilt("its kind of sharing is unknown"))?;
        let opened = || {
            let memory = lock.ok_or_else(|| spoilt("its lock is missing"))?;
            ImageLock::open(memory, sharing).map_err(system("map the lock of the", name))
        };
        let lock = (sharing != Sharing::WaitFree).then(opened).transpose()?;

        Ok(Self { name: name.to_owned(), size, offsets, sharing, lock, map })
    }

    /// Returns a part at a constant offset.
    #[allow(clippy::expect_used)] // `ImageOffsets` was computed for this length in `create`, and checked against it in `open`.
    fn one<T: SharedMemory>(&self, at: usize) -> &T {
        debug_assert!(self.map.bytes() >= self.offsets.total);
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

    /// Acquires the lock, if there is one. Data are consistent without it too.
    #[inline]
    pub(super) fn hold(&self) -> Option<ImageGuard<'_>> {
        self.lock.as_ref()?.hold(CLIENT_WAIT)
    }

    pub(super) fn image(&self) -> Latest<'_> {
        self.slots(&self.live().image.0, self.offsets.image, self.offsets.image_slot_words, SLOTS)
    }

    pub(super) fn events(&self) -> Latest<'_> {
        self.slots(&self.live().events.0, self.offsets.events, 1 + EVENT_BYTES / 8, EVENTS)
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

    pub(super) fn layout(&self) -> Layout {
        let words = (self.offsets.states - self.offsets.table) / 8;
        let segment = map::padded_text(&map::load(&self.header().segment));
        let table = map::load(self.map.all(self.offsets.table, words));
        device_table::layout(segment, self.size, &table)
    }

    /// Checks that the bus reports to be running; no system call.
    #[inline]
    pub(super) fn check(&self) -> Result<(), ControlError> {
        match self.header().state.load(Ordering::Acquire) {
            state::RUNNING => Ok(()),
            _ => Err(ControlError::BusEnded { name: self.name.clone() }),
        }
    }

    /// Returns the error for a bus whose socket is closed.
    pub(super) fn gone(&self) -> ControlError {
        let died = || ControlError::BusDied { name: self.name.clone(), pid: self.bus_pid() };
        self.check().err().unwrap_or_else(died)
    }

    pub(super) fn bus_pid(&self) -> u32 {
        self.header().bus.load(Ordering::Relaxed)
    }

    pub(super) fn instance(&self) -> u64 {
        self.header().instance.load(Ordering::Relaxed)
    }

    /// Reports the end of the bus.
    pub(super) fn retire(&self) {
        self.header().state.store(state::ENDED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::pwrite;

    #[test]
    fn an_inconsistent_image_is_refused() {
        let settings = ImageSettings::default();
        let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
        let (image, memory) = MappedImage::create("x", &layout, &settings).unwrap();
        let whole = map::load(image.map.all(0, image.offsets.total / 8));
        assert!(MappedImage::open("x", memory, None).is_ok());

        let opened = |bytes: &[u8]| {
            let file = area::create(bytes.len(), "test").unwrap();
            pwrite(&file, bytes, 0).unwrap();
            area::seal_length(&file).unwrap();
            MappedImage::open("x", file.into(), None).map(|_| ())
        };
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            opened(&bytes)
        };
        assert!(opened(&whole).is_ok());
        // Layout version, kinds of sharing, number of devices, first byte.
        assert!(matches!(spoilt(8, 99), Err(ControlError::OtherVersion { theirs: 99, .. })));
        for (at, byte) in [(12, 77), (12, 1), (48, 200), (0, 0)] {
            assert!(matches!(spoilt(at, byte), Err(ControlError::Spoilt { .. })), "{at}: {byte}");
        }
        for length in [8, 256, whole.len() - 64] {
            assert!(
                matches!(opened(&whole[..length]), Err(ControlError::Spoilt { .. })),
                "{length}"
            );
        }
        let unsealed = File::open("/proc/self/exe").unwrap().into();
        assert!(MappedImage::open("x", unsealed, None).is_err(), "its length can change");
    }
}
