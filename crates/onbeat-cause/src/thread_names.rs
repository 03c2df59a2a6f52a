//! Names of threads whose numbers were recorded. They are looked up after a spike, when the lookup
//! delays nothing.

use std::collections::HashMap;
use std::fs;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::event::{KernelEvent, Label, Thread, TraceEvent};

/// A name stays valid for this time, in nanoseconds.
const FRESH_NS: u64 = 1_000_000_000;
/// Maximum number of names; when it is reached, all are dropped.
const MOST: usize = 8192;
/// Name of a thread that ended before its name was looked up.
const ENDED: &str = "(ended)";

#[derive(Clone, Debug, Default)]
pub(super) struct ThreadNames {
    known: HashMap<u32, (Label, Instant)>,
}

impl ThreadNames {
    /// Records the name of a thread that has ended.
    pub(super) fn ended(&mut self, tid: u32, name: Label) {
        self.remember(tid, name);
    }

    /// Fills in the names of the threads in `event`.
    pub(super) fn give(&mut self, event: &mut TraceEvent) {
        let cpu = event.cpu;
        match &mut event.what {
            KernelEvent::Switch { prev, next, .. } => {
                [prev, next].into_iter().for_each(|thread| self.name(thread, cpu));
            }
            KernelEvent::Waking { thread, .. } => self.name(thread, cpu),
            _ => {}
        }
    }

    fn name(&mut self, thread: &mut Thread, cpu: u32) {
        thread.name = if thread.is_idle() { idle_name(cpu) } else { self.of(thread.tid) };
    }

    fn of(&mut self, tid: u32) -> Label {
        let now = Monotonic.now();
        let known = self.known.get(&tid).copied();
        if let Some((name, _)) = known.filter(|(_, asked)| now.ns_since(*asked) < FRESH_NS) {
            return name;
        }

        let asked = fs::read(format!("/proc/{tid}/comm")).ok();
        let asked = asked.map(|bytes| Label::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes)));
        // An outdated name is better than none.
        let name = asked.or(known.map(|(name, _)| name)).unwrap_or_else(|| Label::from(ENDED));
        self.remember(tid, name);
        name
    }

    fn remember(&mut self, tid: u32, name: Label) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(tid, (name, Monotonic.now()));
    }
}

fn idle_name(cpu: u32) -> Label {
    Label::from(format!("swapper/{cpu}").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(prev: u32, next: u32) -> TraceEvent {
        let thread = |tid| Thread { tid, prio: 120, name: Label::default() };
        let what = KernelEvent::Switch {
            prev: thread(prev),
            prev_state: Default::default(),
            next: thread(next),
        };
        TraceEvent { at: Instant::from_ns(1), cpu: 3, tid: prev, what }
    }

    fn names_in(names: &mut ThreadNames, mut event: TraceEvent) -> [String; 2] {
        names.give(&mut event);
        let KernelEvent::Switch { prev, next, .. } = event.what else { return Default::default() };
        [prev, next].map(|thread| thread.name.text().into_owned())
    }

    #[test]
    fn threads_are_named_by_the_kernel_or_by_their_exit_record() {
        let mut names = ThreadNames::default();
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let comm = fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert_eq!(names_in(&mut names, switch(0, own)), ["swapper/3", comm.trim_end()]);
        // No thread can have these numbers.
        names.ended(4_194_305, Label::from("rustc"));

        assert_eq!(names_in(&mut names, switch(4_194_305, 4_194_306)), ["rustc", ENDED]);
    }
}
