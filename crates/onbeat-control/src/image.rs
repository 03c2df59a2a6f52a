//! Creation, opening, takeover and removal of named shared memory.
//!
//! The bus process holds a lock (`flock`) on the object as long as it lives; the kernel releases it
//! when the process dies. So only one of two processes that start concurrently gets the name, and a
//! process that obtains the lock of an existing object knows that its creator is gone.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use onbeat_rt::latest::Latest;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::abi::{
    ABI, EVENT_BYTES, EVENTS, ImageHeader, ImageOffsets, ImageSize, JOINT_BYTES, LiveWords, MAGIC,
    REQUESTS, RequestRecord, SLOTS, state,
};
use super::bus_side::BusSide;
use super::error::ControlError;
use super::goals::{self, Joint};
use super::lock::{ImageGuard, ImageLock, LockProtocol};
use super::map::{Map, SharedMemory};
use super::process::Process;
use super::stats::StatsBlock;
use super::{Sharing, device_table};
use onbeat_ethercat::layout::Layout;

const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "onbeat-";
const LONGEST_NAME: usize = 64;
/// Read and write permission for user and group.
const MODE: u32 = 0o660;
/// Maximum number of attempts, as another process may take or remove the object between two steps.
const MOST_TRIES: u32 = 20;
/// Maximum number of polls for an image being created, and their interval.
const MAKING: (u32, Duration) = (100, Duration::from_millis(5));

/// Whether the exchange wakes processes that wait for the next cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waking {
    /// Never: waiting processes poll every 50 µs, and the exchange makes no system call.
    #[default]
    Never,
    /// If a process waits, with one system call in that cycle.
    WhenWaiting,
}

/// Settings of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSettings {
    /// How processes are kept from interfering with each other.
    pub sharing: Sharing,
    /// Number of cycles for which the owner's outputs are sent after a refresh; then the safe
    /// outputs are.
    pub stale_after_cycles: u32,
    /// Outputs without an owner; empty for zeros.
    pub safe_outputs: Vec<u8>,
    /// Whether waiting readers are woken.
    pub waking: Waking,
    /// Joints that follow goals; empty if none do.
    pub joints: Vec<Joint>,
    /// Maximum age of a goal in ns, published to the commander.
    pub goal_age_ns: u64,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self {
            sharing: Sharing::default(),
            stale_after_cycles: 10,
            safe_outputs: Vec::new(),
            waking: Waking::default(),
            joints: Vec::new(),
            goal_age_ns: 100_000_000,
        }
    }
}

impl From<Sharing> for ImageSettings {
    fn from(sharing: Sharing) -> Self {
        Self { sharing, ..Self::default() }
    }
}

/// A named process image in shared memory.
///
/// ```
/// use onbeat_control::{ControlError, Image, Sharing, names};
/// use onbeat_ethercat::layout::Layout;
///
/// let name = format!("example-image-{}", std::process::id());
/// let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
/// let bus = Image::create(&name, &layout, Sharing::WaitFree)?;
/// assert!(names().contains(&name));
/// assert!(matches!(
///     Image::create(&name, &layout, Sharing::WaitFree),
///     Err(ControlError::Taken { .. })
/// ));
///
/// drop(bus);
/// assert!(!names().contains(&name));
/// # Ok::<(), ControlError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Image;

impl Image {
    /// Creates the image of a bus in this process. The object of a dead bus process with the same
    /// name is taken over; its readers must open it again.
    ///
    /// # Errors
    /// [`ControlError`]: [`Taken`](ControlError::Taken) if a living process uses the name.
    pub fn create(
        name: &str,
        layout: &Layout,
        settings: impl Into<ImageSettings>,
    ) -> Result<BusSide, ControlError> {
        let settings = settings.into();
        let given = settings.safe_outputs.len();
        let wanted = layout.output_bytes;
        if given != 0 && given != wanted {
            return Err(ControlError::SafeOutputs { given, wanted });
        }

        let path = path_of(name)?;
        let (file, generation) = new_object(name, &path)?;
        let shared = MappedImage::make(name, (file, &path), layout, &settings).and_then(|shared| {
            shared.fill(layout, &settings, generation).map_err(at("prepare the lock of", &path))?;
            Ok(shared)
        });

        let shared = shared.inspect_err(|_| _ = fs::remove_file(&path))?;
        Ok(BusSide::new(Arc::new(shared), settings))
    }
}

/// Returns the names of all images, including those of killed bus processes.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(PREFIX).map(str::to_owned))
        .collect()
}

/// Removes the images of killed bus processes; returns their names. Images of living processes are
/// not changed.
#[must_use]
pub fn remove_leftovers() -> Vec<String> {
    names()
        .into_iter()
        .filter(|name| {
            path_of(name).is_ok_and(|path| {
                is_leftover(&path) && retire(&path).is_ok_and(|gone| gone.is_some())
            })
        })
        .collect()
}

/// Checks that the object is an image: other programs may use such names.
fn is_leftover(path: &Path) -> bool {
    let Ok(file) = open_object(path) else { return false };
    header_of(&file).is_ok_and(|map| {
        map.one::<ImageHeader>(0)
            .is_some_and(|header| header.magic.load(Ordering::Acquire) == MAGIC)
    })
}

fn path_of(name: &str) -> Result<PathBuf, ControlError> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty()
        || name.len() > LONGEST_NAME
        || name.starts_with('.')
        || !name.chars().all(fits)
    {
        return Err(ControlError::BadName { name: name.to_owned(), most: LONGEST_NAME });
    }
    Ok(Path::new(DIRECTORY).join(format!("{PREFIX}{name}")))
}

fn at<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> ControlError + 'p {
    move |source| ControlError::System { what, path: path.to_owned(), source }
}

fn open_object(path: &Path) -> io::Result<File> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(no_link).open(path)
}

/// Creates an object and locks it; returns its generation too.
fn new_object(name: &str, path: &Path) -> Result<(File, u64), ControlError> {
    let mut generation = 1;
    for _ in 0..MOST_TRIES {
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => {
                // Another process may have taken the object for abandoned before it was locked;
                // create it again then.
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                    && is_at(&file, path)
                {
                    file.set_permissions(Permissions::from_mode(MODE))
                        .map_err(at("set the permissions of", path))?;
                    return Ok((file, generation));
                }
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                match retire(path).map_err(at("take over", path))? {
                    Some(last) => generation = generation.max(last + 1),
                    None => return Err(taken(name, path)),
                }
            }
            Err(why) => return Err(at("create", path)(why)),
        }
    }

    Err(taken(name, path))
}

fn taken(name: &str, path: &Path) -> ControlError {
    let map = open_object(path).and_then(|file| header_of(&file));
    let bus = map
        .ok()
        .and_then(|map| Process::from_word(map.one::<ImageHeader>(0)?.bus.load(Ordering::Relaxed)));
    let (pid, process) = bus.map_or((0, String::new()), |bus| (bus.pid(), bus.name()));
    ControlError::Taken { name: name.to_owned(), pid, process }
}

/// Marks the object of a dead bus process as replaced, removes it, and returns its generation; 0 if
/// it is gone, `None` if its process is alive.
fn retire(path: &Path) -> io::Result<Option<u64>> {
    let file = match open_object(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
        opened => opened?,
    };

    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }

    if !may_be_image(&file)? {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it is not an image of a bus; remove it, or use another --name",
        ));
    }

    let map = header_of(&file).ok();
    let header = map.as_ref().and_then(|map| map.one::<ImageHeader>(0));
    if let Some(header) = header {
        header.state.store(state::REPLACED, Ordering::Release);
    }
    if is_at(&file, path) {
        fs::remove_file(path)?;
    }

    Ok(Some(header.map_or(0, |header| header.generation.load(Ordering::Relaxed))))
}

/// Checks that the file is an image, possibly incomplete.
fn may_be_image(file: &File) -> io::Result<bool> {
    let mut first = [0; 8];
    let length = file.read_at(&mut first, 0)?;
    Ok(length == 0 || u64::from_ne_bytes(first) == 0 || u64::from_ne_bytes(first) == MAGIC)
}

fn header_of(file: &File) -> io::Result<Map> {
    if file.metadata()?.len() < size_of::<ImageHeader>() as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Map::new(file, size_of::<ImageHeader>())
}

/// Checks that the path still refers to the opened object.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: fs::Metadata, there: fs::Metadata| {
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    };
    file.metadata().and_then(|own| Ok(same(own, fs::symlink_metadata(path)?))).unwrap_or(false)
}

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

        let joints = goals::table(&settings.joints);
        device_table::store(self.map.all(self.offsets.joints, joints.len() / 8), &joints);
        let header = self.header();
        device_table::store(&header.segment, &device_table::name_bytes(&layout.name));
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
        (at, slot_words, slots): (usize, usize, usize),
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
        self.slots(&self.live().image.0, (self.offsets.image, self.offsets.image_slot_words, SLOTS))
    }

    pub(super) fn outputs(&self) -> Latest<'_> {
        self.slots(
            &self.live().outputs.0,
            (self.offsets.outputs, self.offsets.output_slot_words, SLOTS),
        )
    }

    pub(super) fn events(&self) -> Latest<'_> {
        self.slots(&self.live().events.0, (self.offsets.events, 1 + EVENT_BYTES / 8, EVENTS))
    }

    /// Returns the slots of goals, if joints follow them.
    pub(super) fn goals(&self) -> Option<Latest<'_>> {
        let slots = (self.offsets.goals, self.offsets.goal_slot_words, SLOTS);
        (self.size.joints > 0).then(|| self.slots(&self.live().goals.0, slots))
    }

    /// Returns the records of the joints that follow goals.
    pub(super) fn joints(&self) -> &[AtomicU64] {
        self.map.all(self.offsets.joints, self.size.joints * JOINT_BYTES / 8)
    }

    /// Returns the device states, one word each.
    pub(super) fn states(&self) -> &[AtomicU64] {
        self.map.all(self.offsets.states, self.size.devices)
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
