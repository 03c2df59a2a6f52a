//! What `/proc` says of the loop's process when a spike is explained: what its memory is, what its
//! descriptors are, and which thread a number in its PID namespace means.

use std::collections::BTreeMap;
use std::fs;

use onbeat_host::foreign::printable;
use onbeat_host::process::text;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::inside::{FutexUse, Inside, InsideEvent};

/// A process, as far as spikes needed to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessView {
    /// Mappings in order of their addresses.
    mappings: Vec<Mapping>,
    /// Descriptors that were asked for.
    descriptors: BTreeMap<u64, String>,
    /// Threads by their numbers in the process's own PID namespace.
    threads: BTreeMap<u32, u32>,
}

/// A mapping of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    /// A path, or the kernel's name in brackets, or nothing.
    name: String,
}

/// What the memory at an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemoryAt {
    Heap,
    Stack,
    /// Memory without a file: large blocks of malloc, stacks of threads, heaps of threads.
    Anonymous,
    /// The file's name.
    File(String),
    /// Nothing is mapped there any more.
    Gone,
}

impl MemoryAt {
    /// Returns it in words: `heap`, `libm.so.6`.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Anonymous => "anonymous mapping",
            Self::File(name) => name,
            Self::Gone => "memory unmapped since",
        }
    }
}

impl ProcessView {
    /// Returns a view from the text of `/proc/PID/maps`, the words of descriptors, and numbers of
    /// threads: in the process's PID namespace, then here.
    #[must_use]
    pub fn new(maps: &str, descriptors: &[(u64, &str)], threads: &[(u32, u32)]) -> Self {
        Self {
            mappings: maps.lines().filter_map(mapping).collect(),
            descriptors: descriptors.iter().map(|(fd, name)| (*fd, (*name).to_owned())).collect(),
            threads: threads.iter().copied().collect(),
        }
    }

    /// Returns what is at an address.
    pub(crate) fn memory_at(&self, address: u64) -> MemoryAt {
        let after = self.mappings.partition_point(|mapping| mapping.from <= address);
        let found = self.mappings[..after].last().filter(|mapping| address < mapping.to);
        let Some(mapping) = found else { return MemoryAt::Gone };
        match mapping.name.as_str() {
            "[heap]" => MemoryAt::Heap,
            name if name.starts_with("[stack") => MemoryAt::Stack,
            name if name.is_empty() || name.starts_with("[anon") => MemoryAt::Anonymous,
            path => MemoryAt::File(path.rsplit('/').next().unwrap_or(path).to_owned()),
        }
    }

    /// Returns what a descriptor is: a path, `pipe`, `socket`.
    pub(crate) fn descriptor(&self, number: u64) -> Option<&str> {
        self.descriptors.get(&number).map(String::as_str)
    }

    /// Returns the thread that has this number in the process's PID namespace.
    pub(crate) fn thread(&self, number: u32) -> Option<u32> {
        self.threads.get(&number).copied()
    }
}

/// From a line such as `7f00-7f21 r-xp 00000000 fe:00 131 /usr/lib/libm.so.6`.
fn mapping(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |hex| u64::from_str_radix(hex, 16).ok();
    // Permissions, offset, device and inode, each followed by one blank or more; a name may have
    // blanks of its own.
    let mut name = rest;
    for _ in 0..4 {
        name = name.split_once(' ').map_or("", |(_, tail)| tail).trim_start();
    }
    let name = name.trim_end().trim_end_matches(" (deleted)").to_owned();
    Some(Mapping { from: number(from)?, to: number(to)?, name })
}

/// A descriptor in words, from where its link in `/proc/PID/fd` leads.
fn in_words(target: &str) -> String {
    let (kind, _) = target.split_once(":[").unwrap_or((target, ""));
    match kind {
        "pipe" | "socket" => format!("a {kind}"),
        _ if target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") => {
            format!("the terminal {target}")
        }
        _ => target.trim_end_matches(" (deleted)").to_owned(),
    }
}

/// What was read is good for this long, in nanoseconds: programs map memory and start threads.
const FRESH_NS: u64 = 250_000_000;

/// Reads `/proc` for spikes, and no more often than they need.
#[derive(Debug)]
pub(crate) struct ProcessReader {
    tid: u32,
    view: ProcessView,
    read_at: Option<Instant>,
}

impl ProcessReader {
    pub(crate) fn for_thread(tid: u32) -> Self {
        Self { tid, view: ProcessView::default(), read_at: None }
    }

    /// Returns what is to be known for these events; `None` if nothing is.
    ///
    /// `has_faults`: page faults among the other events.
    pub(crate) fn view_for(
        &mut self,
        inside: &[InsideEvent],
        has_faults: bool,
    ) -> Option<ProcessView> {
        let tid = self.tid;
        let own = || inside.iter().filter(move |event| event.tid == tid);
        let descriptors: Vec<u64> = own().filter_map(descriptor_in).collect();
        if descriptors.is_empty() && !has_faults && !own().any(needs_process) {
            return None;
        }

        let now = Monotonic.now();
        if self.read_at.is_none_or(|at| now.ns_since(at) > FRESH_NS) {
            self.read_at = Some(now);
            self.read();
        }
        descriptors.into_iter().for_each(|number| self.learn_descriptor(number));
        Some(self.view.clone())
    }

    /// What a descriptor is does not change between two spikes, as a rule; it is asked again with
    /// the rest.
    fn learn_descriptor(&mut self, number: u64) {
        if !self.view.descriptors.contains_key(&number)
            && let Ok(target) = fs::read_link(format!("/proc/{}/fd/{number}", self.tid))
        {
            self.view.descriptors.insert(number, in_words(&printable(&target.to_string_lossy())));
        }
    }

    fn read(&mut self) {
        let maps = text(self.tid, "maps").unwrap_or_default();
        self.view.mappings = maps.lines().filter_map(mapping).collect();
        self.view.descriptors.clear();
        let tasks = fs::read_dir(format!("/proc/{}/task", self.tid)).into_iter().flatten();
        let numbers = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        self.view.threads = numbers
            .take(MOST_THREADS)
            .filter_map(|tid: u32| Some((number_in_namespace(tid)?, tid)))
            .collect();
    }
}

fn needs_process(event: &InsideEvent) -> bool {
    match event.what {
        Inside::LeftIn(call) => matches!(call.futex_use(), FutexUse::Lock { .. }),
        Inside::Fault { .. } => true,
        _ => false,
    }
}

/// Returns the first argument of a call in which the thread left its CPU, if it is a descriptor.
fn descriptor_in(event: &InsideEvent) -> Option<u64> {
    match event.what {
        Inside::LeftIn(call) if call.takes_descriptor() => {
            Some(call.first).filter(|number| *number < MOST_DESCRIPTORS)
        }
        _ => None,
    }
}

/// Larger first arguments are addresses.
const MOST_DESCRIPTORS: u64 = 1 << 16;
/// Threads of a process that are looked up.
const MOST_THREADS: usize = 256;

/// Returns the number of a thread in its own PID namespace, the innermost.
fn number_in_namespace(tid: u32) -> Option<u32> {
    let status = text(tid, "status").ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0                          [heap]
7f1200000000-7f1200021000 rw-p 00000000 00:00 0 \n\
7f1210000000-7f1210028000 r-xp 00028000 fe:00 1187                       /usr/lib/x86_64-linux-gnu/libm.so.6
7f1220000000-7f1220001000 rw-s 00000000 00:01 12                         /dev/shm/my map (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn memory_is_named_by_its_mapping() {
        let view = ProcessView::new(MAPS, &[], &[]);
        assert_eq!(view.memory_at(0x55d0_c0a0_0010), MemoryAt::Heap);
        assert_eq!(view.memory_at(0x7f12_0000_0fff), MemoryAt::Anonymous);
        assert_eq!(view.memory_at(0x7f12_1000_0000), MemoryAt::File("libm.so.6".to_owned()));
        assert_eq!(view.memory_at(0x7f12_1002_8000), MemoryAt::Gone, "its end is outside");
        assert_eq!(view.memory_at(0x7f12_2000_0000).words(), "my map");
        assert_eq!(view.memory_at(0x7ffd_0000_0000), MemoryAt::Stack);
        assert_eq!(view.memory_at(0), MemoryAt::Gone);
    }

    #[test]
    fn descriptors_are_told_in_words() {
        assert_eq!(in_words("pipe:[3411]"), "a pipe");
        assert_eq!(in_words("/dev/pts/3"), "the terminal /dev/pts/3");
        assert_eq!(in_words("/var/log/robot.log"), "/var/log/robot.log");
    }

    #[test]
    fn this_thread_is_known_by_its_own_number() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mut reader = ProcessReader::for_thread(own);
        let fault = InsideEvent {
            at: Instant::default(),
            cpu: 0,
            tid: own,
            what: Inside::Fault { address: 1, ns: 1, is_major: false },
        };
        assert_eq!(reader.view_for(&[], false), None, "nothing is read without a need");
        let view = reader.view_for(&[fault], false).unwrap();
        let number = number_in_namespace(own).unwrap();
        assert_eq!(view.thread(number), Some(own));
        let on_stack = std::ptr::from_ref(&number) as u64;
        assert_ne!(view.memory_at(on_stack), MemoryAt::Gone);
    }
}
