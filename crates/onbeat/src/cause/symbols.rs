//! Names of kernel functions by address, looked up in `/proc/kallsyms` when a spike needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use onbeat_rt::Instant;

use super::event::KernelEvent;
use super::window::Window;

/// Names that were looked up. Reading all symbols takes about 70 ms, so each address is looked up
/// once, even if it has no name.
#[derive(Debug)]
pub(super) struct Symbols {
    path: PathBuf,
    known: BTreeMap<u64, Option<String>>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self { path: PathBuf::from("/proc/kallsyms"), known: BTreeMap::new() }
    }
}

impl Symbols {
    /// Adds the names of the timer functions that ran between two instants to the window.
    pub(super) fn name(&mut self, window: &mut Window, from: Instant, to: Instant) {
        let ran =
            window.cpus.iter().flat_map(|cpu| &cpu.events).filter_map(|event| match event.what {
                KernelEvent::TimerExpireEntry { function, .. }
                    if event.at >= from && event.at <= to =>
                {
                    Some(function)
                }
                _ => None,
            });

        let ran: BTreeSet<u64> =
            ran.filter(|address| !window.functions.contains_key(address)).collect();
        let new: BTreeSet<u64> =
            ran.iter().copied().filter(|address| !self.known.contains_key(address)).collect();
        if !new.is_empty() {
            self.look_up(&new);
        }

        let named = ran
            .into_iter()
            .filter_map(|address| Some((address, self.known.get(&address)?.clone()?)));
        window.functions.extend(named);
    }

    fn look_up(&mut self, addresses: &BTreeSet<u64>) {
        self.known.extend(addresses.iter().map(|address| (*address, None)));
        // Without the privilege to see addresses, all of them read as 0.
        let symbols = fs::read_to_string(&self.path).unwrap_or_default();
        for line in symbols.lines() {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let Some((address, name)) =
                address.filter(|address| addresses.contains(address)).zip(words.nth(1))
            else {
                continue;
            };
            // An address may have several names; the name of a padding is useless.
            if !name.starts_with("__pfx_") {
                self.known.entry(address).or_default().get_or_insert_with(|| name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::event::TraceEvent;
    use crate::cause::window::CpuWindow;

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
    fn a_function_is_looked_up_once_and_only_if_the_spike_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        let text = "ffffffff81000000 T _text\nffffffff81000010 t __pfx_posix_timer_fn\n\
                    ffffffff81000010 t posix_timer_fn\nffffffff81000020 t timerfd_tmrproc\t[mod]\n";
        fs::write(&path, text).unwrap();
        let mut symbols = Symbols { path: path.clone(), known: BTreeMap::new() };
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
        assert_eq!(again.functions, window.functions, "known without looking again");
        symbols.name(&mut again, Instant::from_ns(0), Instant::from_ns(20));

        assert_eq!(again.functions, window.functions, "a file that cannot be read names nothing");
    }
}
