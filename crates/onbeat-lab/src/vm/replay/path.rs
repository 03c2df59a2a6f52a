//! From a trace of executed functions to the critical path of a wake-up. Pure: no file, no clock.

use std::collections::BTreeMap;

/// The index that the plugin writes in user mode.
const USER: u32 = u32::MAX;
/// The interrupt of a CPU's timer begins here (x86).
const TIMER_INTERRUPT: &str = "asm_sysvec_apic_timer_interrupt";
/// A sleeping thread is woken here.
const WAKE: &str = "hrtimer_wakeup";
/// The thread that was woken goes on here, coming from `SCHEDULE`.
const SLEEPER: &str = "do_nanosleep";
const SCHEDULE: &str = "schedule";
/// From here on the CPU is on its way to another thread, unless a function that it calls returns.
const SWITCH: &str = "__schedule";
/// Functions that call it, in part.
const SWITCHERS: [&str; 3] = ["schedule", "preempt_schedule", "cond_resched"];
/// Threads that wait for the CPU at a time.
const MOST_WOKEN: usize = 8;
/// Functions of system calls begin with one of these (x86).
const SYSTEM_CALLS: [&str; 2] = ["__x64_sys_", "__ia32_sys_"];

/// Functions of a kernel, by ascending address.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelSymbols {
    addresses: Vec<u64>,
    names: Vec<String>,
}

impl KernelSymbols {
    /// Functions of the text of `/proc/kallsyms`; of several names of an address the first.
    pub(super) fn from_kallsyms(text: &str) -> Self {
        let mut all: Vec<(u64, &str)> = text.lines().filter_map(function).collect();
        all.sort_by_key(|(address, _)| *address);
        all.dedup_by_key(|(address, _)| *address);

        let (addresses, names) =
            all.into_iter().map(|(address, name)| (address, name.to_owned())).unzip();
        Self { addresses, names }
    }

    /// Whether there is none: the kernel hides them, or was built without.
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.iter().all(|address| *address == 0)
    }

    /// The addresses as the plugin reads them.
    pub(super) fn to_plugin(&self) -> String {
        self.addresses.iter().map(|address| format!("{address:x}\n")).collect()
    }

    fn name(&self, index: u32) -> &str {
        match index {
            USER => "user mode",
            index => self.names.get(index as usize).map_or("?", String::as_str),
        }
    }

    fn index(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|known| known == name).and_then(|at| u32::try_from(at).ok())
    }
}

/// A function of a line such as `ffffffff81000000 T _stext`.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let letter = words.next()?;
    let name = words.next()?;
    "tTwW".contains(letter).then_some((address, name))
}

/// Instructions executed in one function, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    function: u32,
    instructions: u32,
}

/// Reads the pairs that the plugin has written.
pub(super) fn stretches(bytes: &[u8]) -> impl Iterator<Item = Stretch> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    bytes
        .chunks_exact(8)
        .map(move |pair| Stretch { function: number(&pair[..4]), instructions: number(&pair[4..]) })
}

/// The time that a wake-up spent in one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// Name of the function, or `user mode`.
    pub function: String,
    /// Virtual time in nanoseconds, without the functions that it calls.
    pub ns: u64,
}

impl PathPart {
    /// Percentage of a longer time.
    #[must_use]
    pub fn percent_of(&self, whole_ns: u64) -> f64 {
        100.0 * self.ns as f64 / whole_ns.max(1) as f64
    }
}

/// What a CPU did from a timer's interrupt until the thread that it woke was back in user mode, in
/// virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    /// From the interrupt's first instruction to user mode, in nanoseconds.
    pub length_ns: u64,
    /// The interrupt's part, until the thread was runnable.
    pub interrupt_ns: u64,
    /// From then until the scheduler ran: what was in the way.
    pub blocked_ns: u64,
    /// From the scheduler to user mode.
    pub switch_ns: u64,
    /// The system call that was interrupted; none where the thread was in user mode, belongs to the
    /// kernel, or had been preempted within its call before.
    pub system_call: Option<String>,
    /// Functions of the blocked part, the longest first.
    pub blocked: Vec<PathPart>,
    /// Functions of the whole path, the longest first.
    pub functions: Vec<PathPart>,
}

/// A wake-up within a trace, by positions.
#[derive(Clone, Copy, Debug)]
struct TracedWakeUp {
    interrupt: usize,
    wake: usize,
    end: usize,
}

/// Finds the wake-up whose length is nearest to `latency_ns`, at 2^`shift` nanoseconds per
/// instruction. None where the trace has no wake-up from a sleep.
pub(super) fn critical_path(
    trace: &[Stretch],
    symbols: &KernelSymbols,
    shift: u8,
    latency_ns: u64,
) -> Option<CriticalPath> {
    let length = |one: &TracedWakeUp| instructions(&trace[one.interrupt..one.end]) << shift;
    let all = wake_ups(trace, symbols);
    let worst = all.into_iter().min_by_key(|one| length(one).abs_diff(latency_ns))?;

    let woken = &trace[worst.wake..worst.end];
    let (blocked, switched) = woken.split_at(last_switch(woken, symbols));
    let ns = |part: &[Stretch]| instructions(part) << shift;
    Some(CriticalPath {
        length_ns: length(&worst),
        interrupt_ns: ns(&trace[worst.interrupt..worst.wake]),
        blocked_ns: ns(blocked),
        switch_ns: ns(switched),
        system_call: system_call(&trace[..worst.interrupt], symbols),
        blocked: parts(blocked, symbols, shift),
        functions: parts(&trace[worst.interrupt..worst.end], symbols, shift),
    })
}

/// Where the scheduler is entered for the last time.
fn last_switch(woken: &[Stretch], symbols: &KernelSymbols) -> usize {
    let switch = symbols.index(SWITCH);
    let enters = |pair: &[Stretch]| {
        let caller = symbols.name(pair[0].function);
        let is_call = caller != SWITCH && SWITCHERS.iter().any(|part| caller.contains(part));
        is_call && Some(pair[1].function) == switch
    };
    woken.windows(2).rposition(enters).map_or(0, |at| at + 1)
}

fn instructions(part: &[Stretch]) -> u64 {
    part.iter().map(|one| u64::from(one.instructions)).sum()
}

/// Every wake-up of a thread that slept until a time: interrupt, wake-up, user mode.
fn wake_ups(trace: &[Stretch], symbols: &KernelSymbols) -> Vec<TracedWakeUp> {
    let [interrupt, wake, sleeper, schedule] =
        [TIMER_INTERRUPT, WAKE, SLEEPER, SCHEDULE].map(|name| symbols.index(name));
    let mut begun = None;
    let (mut woken, mut is_resumed): (Vec<(usize, usize)>, bool) = (Vec::new(), false);
    let mut all = Vec::new();
    for (at, pair) in trace.windows(2).enumerate() {
        let before = pair[0].function;
        let now = pair[1].function;
        let at = at + 1;
        if Some(now) == interrupt {
            begun = Some(at);
        } else if Some(now) == wake {
            // The function is there again when what it calls has returned.
            woken.retain(|(earlier, _)| Some(*earlier) != begun);
            woken.extend(begun.map(|begun| (begun, at)));
            woken.drain(..woken.len().saturating_sub(MOST_WOKEN));
        } else if Some(now) == sleeper && Some(before) == schedule {
            is_resumed = true;
        } else if now == USER && is_resumed {
            is_resumed = false;
            // Which of the threads it was is not in the trace; its latency decides.
            let wake_up =
                |&(interrupt, wake): &(usize, usize)| TracedWakeUp { interrupt, wake, end: at };
            all.extend(woken.iter().map(wake_up));
            woken.clear();
        } else if now == USER {
            // A loop that can run precedes all programs: it was not among the woken threads.
            woken.clear();
        }
    }

    all
}

/// The system call that was being served: the last one that was entered since user mode.
fn system_call(before: &[Stretch], symbols: &KernelSymbols) -> Option<String> {
    let switch = symbols.index(SWITCH);
    let is_same_thread = |one: &&Stretch| one.function != USER && Some(one.function) != switch;
    let since_user = before.iter().rev().take_while(is_same_thread);
    let names = since_user.map(|one| symbols.name(one.function));
    let call = |name: &str| {
        let call = SYSTEM_CALLS.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        Some(call.to_owned())
    };
    names.into_iter().find_map(call)
}

/// Time by function, the longest first.
fn parts(part: &[Stretch], symbols: &KernelSymbols, shift: u8) -> Vec<PathPart> {
    let mut by_function: BTreeMap<u32, u64> = BTreeMap::new();
    for one in part {
        *by_function.entry(one.function).or_default() += u64::from(one.instructions);
    }

    let part = |(function, count): (u32, u64)| PathPart {
        function: symbols.name(function).to_owned(),
        ns: count << shift,
    };
    let mut parts: Vec<PathPart> = by_function.into_iter().map(part).collect();
    parts.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
        ffffffff81000100 T __x64_sys_write\n\
        ffffffff81000200 t shmem_write\n\
        ffffffff81000300 T asm_sysvec_apic_timer_interrupt\n\
        ffffffff81000400 t hrtimer_wakeup\n\
        ffffffff81000500 T __schedule\n\
        ffffffff81000580 T preempt_schedule_irq\n\
        ffffffff81000600 T schedule\n\
        ffffffff81000700 t do_nanosleep\n\
        ffffffff81000700 t alias_of_it\n\
        ffffffff81000800 D data\n";

    fn trace(symbols: &KernelSymbols, names: &[(&str, u32)]) -> Vec<Stretch> {
        let stretch = |(name, instructions): &(&str, u32)| Stretch {
            function: if *name == "user" { USER } else { symbols.index(name).expect(name) },
            instructions: *instructions,
        };
        names.iter().map(stretch).collect()
    }

    fn wake_up(blocked: u32) -> Vec<(&'static str, u32)> {
        vec![
            ("user", 50),
            ("__x64_sys_write", 10),
            ("shmem_write", 5),
            (TIMER_INTERRUPT, 20),
            (WAKE, 4),
            ("shmem_write", blocked),
            ("preempt_schedule_irq", 1),
            (SWITCH, 30),
            (SCHEDULE, 2),
            (SLEEPER, 6),
            ("user", 1000),
        ]
    }

    #[test]
    fn the_path_is_that_of_the_wake_up_with_the_recorded_latency_and_names_what_was_in_the_way() {
        let symbols = KernelSymbols::from_kallsyms(SYMBOLS);
        let mut names = wake_up(10);
        names.extend(wake_up(500));
        names.extend(wake_up(40));
        let path = critical_path(&trace(&symbols, &names), &symbols, 3, 4600).expect("a path");
        assert_eq!(path.length_ns, (20 + 4 + 500 + 1 + 30 + 2 + 6) * 8);
        assert_eq!((path.interrupt_ns, path.blocked_ns, path.switch_ns), (160, 505 * 8, 38 * 8));
        assert_eq!(path.system_call.as_deref(), Some("write"));
        assert_eq!(path.blocked[0], PathPart { function: "shmem_write".to_owned(), ns: 4000 });
        assert_eq!(path.functions.iter().map(|part| part.ns).sum::<u64>(), path.length_ns);
    }

    #[test]
    fn a_thread_that_lets_programs_run_first_is_not_the_loop() {
        let symbols = KernelSymbols::from_kallsyms(SYMBOLS);
        let mut names = vec![(TIMER_INTERRUPT, 20), (WAKE, 4), ("user", 500)];
        names.extend([(SWITCH, 30), (SCHEDULE, 2), (SLEEPER, 6), ("user", 9)]);
        assert_eq!(critical_path(&trace(&symbols, &names), &symbols, 3, 4500), None);
    }

    #[test]
    fn a_thread_that_goes_to_sleep_is_not_one_that_was_woken() {
        let symbols = KernelSymbols::from_kallsyms(SYMBOLS);
        let names = [("user", 5), (SLEEPER, 5), (SCHEDULE, 5), ("user", 5)];
        assert_eq!(critical_path(&trace(&symbols, &names), &symbols, 3, 40), None);
        assert!(KernelSymbols::from_kallsyms("0000000000000000 T hidden\n").is_empty());
    }

    #[test]
    fn pairs_are_read_as_the_plugin_writes_them() {
        let bytes = [7_u32, 100, USER, 3].map(u32::to_le_bytes).concat();
        let read: Vec<Stretch> = stretches(&bytes).collect();
        assert_eq!(
            read,
            [
                Stretch { function: 7, instructions: 100 },
                Stretch { function: USER, instructions: 3 }
            ]
        );
    }
}
