//! Names of kernel functions by address, looked up in `/proc/kallsyms` when a spike needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use onbeat_rt::Instant;

use super::event::KernelEvent;
use super::window::Window;

/// The kernel's functions. They are read, which takes about 70 ms, when the first one is needed, and
/// take some 6 MiB from then on.
#[derive(Debug)]
pub(super) struct Symbols {
    path: PathBuf,
    functions: Option<FunctionTable>,
}

/// A function that begins farther than this before an address does not contain it, in bytes.
const LONGEST_FUNCTION: u64 = 1 << 16;

impl Default for Symbols {
    fn default() -> Self {
        Self { path: PathBuf::from("/proc/kallsyms"), functions: None }
    }
}

impl Symbols {
    /// Adds the names of the functions that an explanation of the time between two instants may
    /// name to the window: of timers, of work items, and on the stacks of late wake-ups.
    pub(super) fn name(&mut self, window: &mut Window, from: Instant, to: Instant) {
        let mut begun = functions_between(window, from, to);
        let stacks = window.stacks.iter().filter(|stack| stack.at >= from && stack.at <= to);
        let mut found: BTreeSet<u64> = stacks.flat_map(|stack| &stack.frames).copied().collect();
        begun.retain(|address| !window.functions.contains_key(address));
        found.retain(|address| !window.functions.contains_key(address));
        if begun.is_empty() && found.is_empty() {
            return;
        }

        let functions = self.functions();
        let begins = begun.iter().filter_map(|address| {
            let (begin, name) = functions.around(*address)?;
            (begin == *address).then(|| (*address, name.to_owned()))
        });
        // A return address is never that of a function's first instruction.
        let inside = found.iter().filter_map(|address| {
            let (begin, name) = functions.around(*address)?;
            (begin < *address).then(|| (*address, name.to_owned()))
        });

        let named: Vec<(u64, String)> = begins.chain(inside).collect();
        window.functions.extend(named);
    }

    /// Returns the kernel's functions, which are read now unless they were.
    pub(super) fn functions(&mut self) -> &FunctionTable {
        self.functions.get_or_insert_with(|| FunctionTable::read(&self.path))
    }
}

/// The functions of `/proc/kallsyms`, in order of their addresses.
#[derive(Debug, Default)]
pub(super) struct FunctionTable {
    /// Address, and the name's place in the text.
    begins: Vec<(u64, Range<u32>)>,
    names: String,
}

impl FunctionTable {
    /// Without the privilege to see addresses, all of them read as 0, and the table is empty.
    fn read(path: &Path) -> Self {
        let symbols = fs::read_to_string(path).unwrap_or_default();
        let mut table = Self::default();
        for (begin, name) in symbols.lines().filter_map(function) {
            let at = table.names.len() as u32;
            table.names.push_str(name);
            table.begins.push((begin, at..table.names.len() as u32));
        }

        // An address may have several names: the first one counts.
        table.begins.sort_by_key(|(begin, _)| *begin);
        table.begins.dedup_by_key(|(begin, _)| *begin);
        table
    }

    /// Returns begin and name of the function that contains `address`.
    fn around(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.begins.partition_point(|(begin, _)| *begin <= address);
        let (begin, name) = self.begins.get(after.checked_sub(1)?)?;
        let name = self.names.get(name.start as usize..name.end as usize)?;
        (address - begin < LONGEST_FUNCTION).then_some((*begin, name))
    }
}

/// Returns address and name of a line of `/proc/kallsyms` that is a function. The name of a padding
/// is useless. Without the privilege to see addresses, all of them read as 0.
pub(super) fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let begin = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    (is_code && begin != 0 && !name.starts_with("__pfx_")).then_some((begin, name))
}

/// Returns the functions of the timers that ran between two instants, and of the work items that
/// were executed then, those that began before included.
fn functions_between(window: &Window, from: Instant, to: Instant) -> BTreeSet<u64> {
    let mut wanted = BTreeSet::new();
    let mut begun: BTreeMap<u32, u64> = BTreeMap::new();
    for event in window.in_order().into_iter().take_while(|event| event.at <= to) {
        match event.what {
            KernelEvent::TimerExpireEntry { function, .. } if event.at >= from => {
                wanted.insert(function);
            }
            KernelEvent::WorkStart { function, .. } if event.at >= from => {
                wanted.insert(function);
            }
            KernelEvent::WorkStart { function, .. } => {
                begun.insert(event.tid, function);
            }
            KernelEvent::WorkEnd { .. } if event.at < from => {
                begun.remove(&event.tid);
            }
            KernelEvent::WorkEnd { function, .. } if function != 0 => {
                wanted.insert(function);
            }
            _ => {}
        }
    }

    wanted.extend(begun.into_values());
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TraceEvent;
    use crate::window::CpuWindow;

    fn ran(functions: &[(u64, u64)]) -> Window {
        let event = |(at, function): &(u64, u64)| TraceEvent {
            at: Instant::from_ns(*at),
            cpu: 0,
            tid: 0,
            what: KernelEvent::TimerExpireEntry {
                timer: 1,
                function: *function,
                now: Instant::from_ns(*at),
            },
        };

        let cpus = vec![CpuWindow { cpu: 0, events: functions.iter().map(event).collect() }];
        Window { cpus, ..Window::default() }
    }

    #[test]
    fn functions_are_read_once_and_only_if_the_spike_needs_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        let text = "ffffffff81000000 T _text\nffffffff81000010 t __pfx_posix_timer_fn\n\
                    ffffffff81000010 t posix_timer_fn\nffffffff81000020 t timerfd_tmrproc\t[mod]\n";
        fs::write(&path, text).unwrap();
        let mut symbols = Symbols { path: path.clone(), functions: None };
        let all = [(5, 0xffff_ffff_8100_0020), (10, 0xffff_ffff_8100_0010), (11, 0x1234)];
        let mut window = ran(&all);
        symbols.name(&mut window, Instant::from_ns(8), Instant::from_ns(20));
        let names: Vec<&str> = window.functions.values().map(String::as_str).collect();

        assert_eq!(
            names,
            ["posix_timer_fn"],
            "the one at 5 ns was before the spike, 1234 has no name"
        );

        fs::remove_file(&path).unwrap();
        let mut again = ran(&all);
        symbols.name(&mut again, Instant::from_ns(8), Instant::from_ns(20));
        assert_eq!(again.functions, window.functions, "known without reading again");
        let mut unread = Symbols { path, functions: None };
        unread.name(&mut again, Instant::from_ns(9), Instant::from_ns(10));
        assert!(unread.functions.is_none(), "all names are known, so that nothing is read");
        unread.name(&mut again, Instant::from_ns(0), Instant::from_ns(20));
        assert_eq!(again.functions, window.functions, "a file that cannot be read names nothing");
    }
}
