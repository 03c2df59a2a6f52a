//! The text of one event, `event: fields`, as the kernel prints it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use onbeat_rt::Instant;

use super::kvm_text;
use crate::event::KernelEvent::{
    self, Frequency, IdleEntry, IdleExit, IrqEntry, IrqExit, Migrate, PageFault, SignalDeliver,
    SignalGenerate, SoftirqEntry, SoftirqExit, Switch, SyscallEnter, SyscallExit, TickStop,
    TimerCancel, TimerExpireEntry, TimerExpireExit, TimerStart, VectorEntry, VectorExit, VmEntry,
    VmExit, VmHaltPoll, VmInterrupt, VmMessage, Wakeup, Waking, WorkEnd, WorkStart,
};
use crate::event::{Label, Softirq, Thread, ThreadState, TraceEvent, Vector};
use crate::window::Window;

/// Appends the text of an event.
pub(super) fn write_what(text: &mut String, event: &TraceEvent, window: &Window) {
    let function = |address: u64| {
        window.function(address).map_or_else(|| format!("0x{address:x}"), str::to_owned)
    };

    // Writing to a string cannot fail.
    let _ = match event.what {
        Switch { prev, prev_state, next } => {
            let prev = ThreadFields("prev_", &prev);
            let next = ThreadFields("next_", &next);
            write!(text, "sched_switch: {prev} prev_state={prev_state} ==> {next}")
        }
        Waking { thread, target_cpu } => {
            write!(text, "sched_waking: {} target_cpu={target_cpu:03}", ThreadFields("", &thread))
        }
        Wakeup { thread, target_cpu } => {
            write!(text, "sched_wakeup: {} target_cpu={target_cpu:03}", ThreadFields("", &thread))
        }
        Migrate { thread, from_cpu, to_cpu } => {
            let thread = ThreadFields("", &thread);
            write!(text, "sched_migrate_task: {thread} orig_cpu={from_cpu} dest_cpu={to_cpu}")
        }
        IrqEntry { irq, name } => {
            write!(text, "irq_handler_entry: irq={irq} name={name}")
        }
        IrqExit { irq } => write!(text, "irq_handler_exit: irq={irq} ret=handled"),
        VectorEntry(vector) => write!(text, "{}_entry: vector={}", vector.name(), vector.number()),
        VectorExit(vector) => write!(text, "{}_exit: vector={}", vector.name(), vector.number()),
        SoftirqEntry(softirq) => write!(text, "softirq_entry: {}", SoftirqFields(softirq)),
        SoftirqExit(softirq) => write!(text, "softirq_exit: {}", SoftirqFields(softirq)),
        TimerStart { timer, function: address, expires, softexpires } => {
            let (function, [expires, soft]) =
                (function(address), [expires, softexpires].map(Instant::as_ns));
            write!(
                text,
                "hrtimer_start: hrtimer={timer:016x} function={function} expires={expires} \
                 softexpires={soft} mode=ABS was_armed=0"
            )
        }
        TimerExpireEntry { timer, function: address, now } => {
            let function = function(address);
            let now = now.as_ns();
            write!(text, "hrtimer_expire_entry: hrtimer={timer:016x} function={function} now={now}")
        }
        TimerExpireExit { timer } => write!(text, "hrtimer_expire_exit: hrtimer={timer:016x}"),
        TimerCancel { timer } => write!(text, "hrtimer_cancel: hrtimer={timer:016x}"),
        IdleEntry { state } => write!(text, "cpu_idle: state={state} cpu_id={}", event.cpu),
        IdleExit => write!(text, "cpu_idle: state={} cpu_id={}", u32::MAX, event.cpu),
        Frequency { cpu, khz } => write!(text, "cpu_frequency: state={khz} cpu_id={cpu}"),
        PageFault { address, user } => {
            let (name, code) = if user { ("page_fault_user", 4) } else { ("page_fault_kernel", 0) };
            write!(text, "{name}: address=0x{address:x} ip=0x0 error_code=0x{code:x}")
        }
        SyscallEnter { number } => write!(text, "sys_enter: NR {number} (0, 0, 0, 0, 0, 0)"),
        SyscallExit { number, result } => write!(text, "sys_exit: NR {number} = {result}"),
        SignalGenerate { signal, target, name } => {
            write!(
                text,
                "signal_generate: sig={signal} errno=0 code=0 comm={name} pid={target} grp=0 res=0"
            )
        }
        SignalDeliver { signal } => {
            write!(text, "signal_deliver: sig={signal} errno=0 code=0 sa_handler=0 sa_flags=0")
        }
        TickStop { success } => {
            write!(text, "tick_stop: success={} dependency=NONE", i32::from(success))
        }
        WorkStart { work, function: f } => write_work(text, "start", work, &function(f)),
        WorkEnd { work, function: f } => write_work(text, "end", work, &function(f)),
        VmEntry { .. }
        | VmExit { .. }
        | VmInterrupt { .. }
        | VmMessage { .. }
        | VmHaltPoll { .. } => kvm_text::write(text, event.what),
    };
}

/// The fields of a thread, each with a prefix.
struct ThreadFields<'t>(&'static str, &'t Thread);

impl fmt::Display for ThreadFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(prefix, Thread { tid, prio, name }) = self;
        write!(f, "{prefix}comm={name} {prefix}pid={tid} {prefix}prio={prio}")
    }
}

struct SoftirqFields(Softirq);

impl fmt::Display for SoftirqFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vec={} [action={}]", self.0.0, self.0.name())
    }
}

/// Appends the start or the end of a work item: its address, and the name of its function.
fn write_work(text: &mut String, edge: &str, work: u64, function: &str) -> fmt::Result {
    write!(text, "workqueue_execute_{edge}: work struct {work:016x}: function {function}")
}

/// Reads an event from its name and its fields; `None` if it is unknown or incomplete.
pub(super) fn read_what(
    name: &str,
    fields: &str,
    functions: &mut BTreeMap<String, u64>,
) -> Option<KernelEvent> {
    let instant = |key| number::<u64>(fields, key).map(Instant::from_ns);
    let timer = || address(fields, "hrtimer=");
    Some(match name {
        "sched_switch" => {
            let prev_state = ThreadState::from_letters(value(fields, "prev_state=", " ")?);
            Switch { prev: thread(fields, "prev_")?, prev_state, next: thread(fields, "next_")? }
        }
        "sched_waking" => {
            Waking { thread: thread(fields, "")?, target_cpu: number(fields, "target_cpu=")? }
        }
        "sched_wakeup" => {
            Wakeup { thread: thread(fields, "")?, target_cpu: number(fields, "target_cpu=")? }
        }
        "sched_migrate_task" => Migrate {
            thread: thread(fields, "")?,
            from_cpu: number(fields, "orig_cpu=")?,
            to_cpu: number(fields, "dest_cpu=")?,
        },
        "irq_handler_entry" => IrqEntry {
            irq: number(fields, "irq=")?,
            name: Label::from(value(fields, "name=", "")?),
        },
        "irq_handler_exit" => IrqExit { irq: number(fields, "irq=")? },
        "softirq_entry" => SoftirqEntry(Softirq(number(fields, "vec=")?)),
        "softirq_exit" => SoftirqExit(Softirq(number(fields, "vec=")?)),
        "hrtimer_start" => TimerStart {
            timer: timer()?,
            function: function(value(fields, "function=", " ")?, functions)?,
            expires: instant("expires=")?,
            softexpires: instant("softexpires=")?,
        },
        "hrtimer_expire_entry" => TimerExpireEntry {
            timer: timer()?,
            function: function(value(fields, "function=", " ")?, functions)?,
            now: instant("now=")?,
        },
        "hrtimer_expire_exit" => TimerExpireExit { timer: timer()? },
        "hrtimer_cancel" => TimerCancel { timer: timer()? },
        "cpu_idle" if number::<u32>(fields, "state=")? == u32::MAX => IdleExit,
        "cpu_idle" => IdleEntry { state: number(fields, "state=")? },
        "cpu_frequency" => {
            Frequency { cpu: number(fields, "cpu_id=")?, khz: number(fields, "state=")? }
        }
        "page_fault_user" => PageFault { address: address(fields, "address=")?, user: true },
        "page_fault_kernel" => PageFault { address: address(fields, "address=")?, user: false },
        "sys_enter" => SyscallEnter { number: fields.split(' ').nth(1)?.parse().ok()? },
        "sys_exit" => {
            let mut words = fields.split(' ').skip(1);
            SyscallExit { number: words.next()?.parse().ok()?, result: words.nth(1)?.parse().ok()? }
        }
        "signal_generate" => SignalGenerate {
            signal: number(fields, "sig=")?,
            target: number(fields, "pid=")?,
            name: Label::from(value(fields, "comm=", " pid=")?),
        },
        "signal_deliver" => SignalDeliver { signal: number(fields, "sig=")? },
        "tick_stop" => TickStop { success: number::<u32>(fields, "success=")? != 0 },
        "workqueue_execute_start" | "workqueue_execute_end" => {
            let (work, executed) =
                fields.strip_prefix("work struct ")?.split_once(": function ")?;
            let work = hexadecimal(work)?;
            let function = function(executed, functions)?;
            match name {
                "workqueue_execute_start" => WorkStart { work, function },
                _ => WorkEnd { work, function },
            }
        }
        kvm if kvm.starts_with("kvm_") => kvm_text::read(kvm, fields)?,
        other => vector(other)?,
    })
}

/// Returns the value between `key=` and the next `until`, or the end.
pub(super) fn value<'t>(fields: &'t str, key: &str, until: &str) -> Option<&'t str> {
    let start = if fields.starts_with(key) {
        key.len()
    } else {
        fields.find(&format!(" {key}"))? + 1 + key.len()
    };
    let rest = &fields[start..];
    Some(if until.is_empty() { rest } else { rest.split(until).next()? })
}

pub(super) fn number<T: std::str::FromStr>(fields: &str, key: &str) -> Option<T> {
    value(fields, key, " ")?.parse().ok()
}

pub(super) fn address(fields: &str, key: &str) -> Option<u64> {
    hexadecimal(value(fields, key, " ")?)
}

pub(super) fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

fn thread(fields: &str, prefix: &str) -> Option<Thread> {
    let key = |name: &str| format!("{prefix}{name}=");
    let name = value(fields, &key("comm"), &format!(" {prefix}pid="))?;
    Some(Thread {
        tid: number(fields, &key("pid"))?,
        prio: number(fields, &key("prio"))?,
        name: Label::from(name),
    })
}

/// Returns the address of a function; a name without a known address gets a made-up one.
fn function(word: &str, functions: &mut BTreeMap<String, u64>) -> Option<u64> {
    if word.starts_with("0x") {
        return hexadecimal(word);
    }

    let next = functions.len() as u64 + 1;
    Some(*functions.entry(word.to_owned()).or_insert(next))
}

fn vector(name: &str) -> Option<KernelEvent> {
    let of = |name: &str| Vector::ALL.into_iter().find(|vector| vector.name() == name);
    match name.strip_suffix("_entry") {
        Some(entered) => of(entered).map(KernelEvent::VectorEntry),
        None => of(name.strip_suffix("_exit")?).map(KernelEvent::VectorExit),
    }
}
