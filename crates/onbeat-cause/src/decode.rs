//! Decodes records into [`TraceEvent`]s, using the format files of the kernel that wrote them.

use std::collections::HashMap;

use onbeat_rt::Instant;

use super::event::{KernelEvent, Label, Softirq, Thread, ThreadState, TraceEvent, Vector};
use super::format::{EventFormat, FieldStorage, FormatError, FormatField};
use super::kvm::ExitReason;
use super::page::{Record, number};

/// A trace point that onbeat decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePoint {
    /// `sched:sched_switch`.
    Switch,
    /// `sched:sched_waking`.
    Waking,
    /// `sched:sched_wakeup`.
    Wakeup,
    /// `sched:sched_migrate_task`.
    Migrate,
    /// `irq:irq_handler_entry`.
    IrqEntry,
    /// `irq:irq_handler_exit`.
    IrqExit,
    /// The entry of a [`Vector`].
    VectorEntry(Vector),
    /// Exit of such an interrupt.
    VectorExit(Vector),
    /// `irq:softirq_entry`.
    SoftirqEntry,
    /// `irq:softirq_exit`.
    SoftirqExit,
    /// `timer:hrtimer_start`.
    TimerStart,
    /// `timer:hrtimer_expire_entry`.
    TimerExpireEntry,
    /// `timer:hrtimer_expire_exit`.
    TimerExpireExit,
    /// `timer:hrtimer_cancel`.
    TimerCancel,
    /// `power:cpu_idle`.
    Idle,
    /// `power:cpu_frequency`.
    Frequency,
    /// `exceptions:page_fault_user`.
    PageFaultUser,
    /// `exceptions:page_fault_kernel`.
    PageFaultKernel,
    /// `raw_syscalls:sys_enter`.
    SyscallEnter,
    /// `raw_syscalls:sys_exit`.
    SyscallExit,
    /// `signal:signal_generate`.
    SignalGenerate,
    /// `signal:signal_deliver`.
    SignalDeliver,
    /// `timer:tick_stop`.
    TickStop,
    /// `workqueue:workqueue_execute_start`.
    WorkStart,
    /// `workqueue:workqueue_execute_end`.
    WorkEnd,
    /// `kvm:kvm_entry`.
    VmEntry,
    /// `kvm:kvm_exit`.
    VmExit,
    /// `kvm:kvm_inj_virq`.
    VmInterrupt,
    /// `kvm:kvm_msi_set_irq`.
    VmMessage,
    /// `kvm:kvm_halt_poll_ns`.
    VmHaltPoll,
}

/// A trace point, the directory below `events/`, the name of the event, and the decoded fields, in the
/// order of the indices of [`RecordFields`]. Architectures and versions name some of them differently
/// (`a|b`) or lack them (`?a`).
type PointRow = (TracePoint, &'static str, &'static str, &'static [&'static str]);

/// All trace points but those of a [`Vector`].
const POINTS: [PointRow; 28] = [
    (
        TracePoint::Switch,
        "sched",
        "sched_switch",
        &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
    ),
    (TracePoint::Waking, "sched", "sched_waking", &["comm", "pid", "prio", "target_cpu"]),
    (TracePoint::Wakeup, "sched", "sched_wakeup", &["comm", "pid", "prio", "target_cpu"]),
    (
        TracePoint::Migrate,
        "sched",
        "sched_migrate_task",
        &["comm", "pid", "prio", "orig_cpu", "dest_cpu"],
    ),
    (TracePoint::IrqEntry, "irq", "irq_handler_entry", &["irq", "name"]),
    (TracePoint::IrqExit, "irq", "irq_handler_exit", &["irq"]),
    (TracePoint::SoftirqEntry, "irq", "softirq_entry", &["vec"]),
    (TracePoint::SoftirqExit, "irq", "softirq_exit", &["vec"]),
    (
        TracePoint::TimerStart,
        "timer",
        "hrtimer_start",
        &["hrtimer", "function", "expires", "softexpires"],
    ),
    (
        TracePoint::TimerExpireEntry,
        "timer",
        "hrtimer_expire_entry",
        &["hrtimer", "function", "now"],
    ),
    (TracePoint::TimerExpireExit, "timer", "hrtimer_expire_exit", &["hrtimer"]),
    (TracePoint::TimerCancel, "timer", "hrtimer_cancel", &["hrtimer"]),
    (TracePoint::Idle, "power", "cpu_idle", &["state", "cpu_id"]),
    (TracePoint::Frequency, "power", "cpu_frequency", &["state", "cpu_id"]),
    (TracePoint::PageFaultUser, "exceptions", "page_fault_user", &["address"]),
    (TracePoint::PageFaultKernel, "exceptions", "page_fault_kernel", &["address"]),
    (TracePoint::SyscallEnter, "raw_syscalls", "sys_enter", &["id"]),
    (TracePoint::SyscallExit, "raw_syscalls", "sys_exit", &["id", "ret"]),
    (TracePoint::SignalGenerate, "signal", "signal_generate", &["sig", "pid", "comm"]),
    (TracePoint::SignalDeliver, "signal", "signal_deliver", &["sig"]),
    (TracePoint::TickStop, "timer", "tick_stop", &["success"]),
    (TracePoint::WorkStart, "workqueue", "workqueue_execute_start", &["work", "function"]),
    // Before Linux 5.6 without the function.
    (TracePoint::WorkEnd, "workqueue", "workqueue_execute_end", &["work", "?function"]),
    (TracePoint::VmEntry, "kvm", "kvm_entry", &["?rip|vcpu_pc", "?vcpu_id"]),
    (
        TracePoint::VmExit,
        "kvm",
        "kvm_exit",
        &["exit_reason|ret", "guest_rip|vcpu_pc", "?isa", "?esr_ec", "?info1", "?vcpu_id"],
    ),
    (TracePoint::VmInterrupt, "kvm", "kvm_inj_virq", &["vector|irq"]),
    (TracePoint::VmMessage, "kvm", "kvm_msi_set_irq", &["address", "data"]),
    (TracePoint::VmHaltPoll, "kvm", "kvm_halt_poll_ns", &["vcpu_id", "old", "new"]),
];
/// The rows before the vectors: those of threads and of devices' interrupts.
const BEFORE_VECTORS: usize = 6;

impl TracePoint {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let vectors =
            Vector::ALL.iter().flat_map(|of| [Self::VectorEntry(*of), Self::VectorExit(*of)]);
        let (before, behind) = POINTS.split_at(BEFORE_VECTORS);
        let point = |row: &PointRow| row.0;
        before.iter().map(point).chain(vectors).chain(behind.iter().map(point)).collect()
    }

    /// The row in [`POINTS`]; what is said of a vector there is the directory, and that it has no fields.
    fn row(self) -> PointRow {
        let row = POINTS.iter().find(|row| row.0 == self);
        row.copied().unwrap_or((self, "irq_vectors", "", &[]))
    }

    /// Returns the directory below `events/`.
    #[must_use]
    pub fn system(self) -> &'static str {
        match self {
            Self::VectorEntry(Vector::Ipi) | Self::VectorExit(Vector::Ipi) => "ipi",
            _ => self.row().1,
        }
    }

    /// The name of the event.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::VectorEntry(vector) => format!("{}_entry", vector.name()),
            Self::VectorExit(vector) => format!("{}_exit", vector.name()),
            _ => self.row().2.to_owned(),
        }
    }

    /// Returns the path of one of its files, from the root of an instance on.
    pub(super) fn file(self, file: &str) -> String {
        format!("events/{}/{}/{file}", self.system(), self.name())
    }
}

/// State in `cpu_idle` when the CPU leaves idle (`PWR_EVENT_EXIT`).
const IDLE_EXIT: u64 = u32::MAX as u64;
/// Maximum number of decoded fields of an event.
const MOST_FIELDS: usize = 7;

#[derive(Clone, Copy, Debug)]
struct KnownFormat {
    kind: TracePoint,
    fields: [Option<FormatField>; MOST_FIELDS],
}

/// A decoder for the records of one kernel.
#[derive(Clone, Debug, Default)]
pub struct EventDecoder {
    id: Option<FormatField>,
    tid: Option<FormatField>,
    flags: Option<FormatField>,
    timer_mode: Option<FormatField>,
    known: HashMap<u16, KnownFormat>,
}

/// What ran when an event was recorded (`TRACE_FLAG_*` in include/linux/trace_events.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventContext {
    /// The thread in [`TraceEvent::tid`].
    #[default]
    Task,
    /// A softirq, in the time of that thread.
    Softirq,
    /// An interrupt or NMI, in the time of that thread.
    Interrupt,
}

const IN_INTERRUPT: u64 = 0x08 | 0x40;
const IN_SOFTIRQ: u64 = 0x10;
/// The mode bit of a timer whose time counts from its start (`HRTIMER_MODE_REL`).
const RELATIVE: u64 = 1;

impl EventDecoder {
    /// Returns a decoder without any trace point.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the format of a trace point.
    ///
    /// # Errors
    /// [`FormatError::NoField`] if the event lacks a decoded field.
    pub fn learn(&mut self, kind: TracePoint, format: &EventFormat) -> Result<(), FormatError> {
        let mut fields = [None; MOST_FIELDS];
        for (place, name) in fields.iter_mut().zip(kind.row().3) {
            let found = field_of(format, name.trim_start_matches('?'));
            *place = if name.starts_with('?') { found.ok() } else { Some(found?) };
        }

        // Of whichever event was learned last: a kernel has the common fields of all events at the
        // same offsets.
        self.id = Some(format.field("common_type")?);
        self.tid = Some(format.field("common_pid")?);
        self.flags = format.field("common_flags").ok();
        if kind == TracePoint::TimerStart {
            self.timer_mode = format.field("mode").ok();
        }
        self.known.insert(format.id, KnownFormat { kind, fields });
        Ok(())
    }

    /// Decodes `record`; `None` if its type is unknown or it is too short.
    #[must_use]
    pub fn decode(&self, cpu: u32, record: &Record<'_>) -> Option<TraceEvent> {
        let id = number(record.bytes, self.id?)?;
        let tid = number(record.bytes, self.tid?)? as u32;
        let known = self.known.get(&u16::try_from(id).ok()?)?;
        let what = what(known.kind, &RecordFields { bytes: record.bytes, places: &known.fields })?;
        Some(TraceEvent { at: Instant::from_ns(record.at_ns), cpu, tid, what })
    }

    /// Returns what ran when `record` was written; [`EventContext::Task`] where the kernel does not
    /// say.
    #[must_use]
    pub fn context(&self, record: &Record<'_>) -> EventContext {
        match self.flags.and_then(|field| number(record.bytes, field)).unwrap_or(0) {
            // First: in an interrupt that came in a softirq both are set, and the handler is what ran.
            flags if flags & IN_INTERRUPT != 0 => EventContext::Interrupt,
            flags if flags & IN_SOFTIRQ != 0 => EventContext::Softirq,
            _ => EventContext::Task,
        }
    }

    /// Returns whether the timer of an `hrtimer_start` counts from its start; `None` before Linux
    /// 4.16, which does not record it.
    #[must_use]
    pub fn is_relative_timer(&self, record: &Record<'_>) -> Option<bool> {
        Some(number(record.bytes, self.timer_mode?)? & RELATIVE != 0)
    }
}

/// Returns the first field of a format that has one of these names.
fn field_of(format: &EventFormat, names: &'static str) -> Result<FormatField, FormatError> {
    let known = names.split('|').find_map(|name| format.field(name).ok());
    known.map_or_else(|| format.field(names), Ok)
}

struct RecordFields<'r> {
    bytes: &'r [u8],
    places: &'r [Option<FormatField>; MOST_FIELDS],
}

impl RecordFields<'_> {
    fn number(&self, index: usize) -> Option<u64> {
        number(self.bytes, (*self.places.get(index)?)?)
    }

    fn label(&self, index: usize) -> Option<Label> {
        let field = (*self.places.get(index)?)?;
        let end = field.offset.checked_add(field.size)?;
        let (from, length) = match field.holds {
            FieldStorage::InPlace => (field.offset, field.size),
            FieldStorage::Location | FieldStorage::RelativeLocation => {
                // `__data_loc`: offset in the low half, length in the high half. The offset of
                // `__rel_loc` counts from behind its own field.
                let place = number(self.bytes, FormatField { signed: false, ..field })?;
                let base = if field.holds == FieldStorage::RelativeLocation { end } else { 0 };
                (base.checked_add((place & 0xffff) as usize)?, (place >> 16 & 0xffff) as usize)
            }
        };

        Some(Label::new(self.bytes.get(from..from.checked_add(length)?)?))
    }

    /// Reads name, number and priority from the fields at `first`, `first + 1` and `first + 2`.
    fn thread(&self, first: usize) -> Option<Thread> {
        let tid = self.number(first + 1)? as u32;
        let prio = self.number(first + 2)? as i32;
        Some(Thread { tid, prio, name: self.label(first)? })
    }

    fn instant(&self, index: usize) -> Option<Instant> {
        self.number(index).map(Instant::from_ns)
    }
}

fn what(kind: TracePoint, fields: &RecordFields<'_>) -> Option<KernelEvent> {
    let number = |index| fields.number(index);
    Some(match kind {
        TracePoint::Switch => KernelEvent::Switch {
            prev: fields.thread(0)?,
            prev_state: ThreadState(number(3)? as u32),
            next: fields.thread(4)?,
        },
        TracePoint::Waking => {
            KernelEvent::Waking { thread: fields.thread(0)?, target_cpu: number(3)? as u32 }
        }
        TracePoint::Wakeup => {
            KernelEvent::Wakeup { thread: fields.thread(0)?, target_cpu: number(3)? as u32 }
        }
        TracePoint::Migrate => KernelEvent::Migrate {
            thread: fields.thread(0)?,
            from_cpu: number(3)? as u32,
            to_cpu: number(4)? as u32,
        },
        TracePoint::IrqEntry => {
            KernelEvent::IrqEntry { irq: number(0)? as u32, name: fields.label(1)? }
        }
        TracePoint::IrqExit => KernelEvent::IrqExit { irq: number(0)? as u32 },
        TracePoint::VectorEntry(vector) => KernelEvent::VectorEntry(vector),
        TracePoint::VectorExit(vector) => KernelEvent::VectorExit(vector),
        TracePoint::SoftirqEntry => KernelEvent::SoftirqEntry(Softirq(number(0)? as u8)),
        TracePoint::SoftirqExit => KernelEvent::SoftirqExit(Softirq(number(0)? as u8)),
        TracePoint::TimerStart => KernelEvent::TimerStart {
            timer: number(0)?,
            function: number(1)?,
            expires: fields.instant(2)?,
            softexpires: fields.instant(3)?,
        },
        TracePoint::TimerExpireEntry => KernelEvent::TimerExpireEntry {
            timer: number(0)?,
            function: number(1)?,
            now: fields.instant(2)?,
        },
        TracePoint::TimerExpireExit => KernelEvent::TimerExpireExit { timer: number(0)? },
        TracePoint::TimerCancel => KernelEvent::TimerCancel { timer: number(0)? },
        // One event for both: leaving is a state of -1 in an unsigned field.
        TracePoint::Idle if number(0)? & IDLE_EXIT == IDLE_EXIT => KernelEvent::IdleExit,
        TracePoint::Idle => KernelEvent::IdleEntry { state: number(0)? as u32 },
        TracePoint::Frequency => {
            KernelEvent::Frequency { cpu: number(1)? as u32, khz: number(0)? as u32 }
        }
        TracePoint::PageFaultUser => KernelEvent::PageFault { address: number(0)?, user: true },
        TracePoint::PageFaultKernel => KernelEvent::PageFault { address: number(0)?, user: false },
        TracePoint::SyscallEnter => KernelEvent::SyscallEnter { number: number(0)? as i64 },
        TracePoint::SyscallExit => {
            KernelEvent::SyscallExit { number: number(0)? as i64, result: number(1)? as i64 }
        }
        TracePoint::SignalGenerate => KernelEvent::SignalGenerate {
            signal: number(0)? as i32,
            target: number(1)? as u32,
            name: fields.label(2)?,
        },
        TracePoint::SignalDeliver => KernelEvent::SignalDeliver { signal: number(0)? as i32 },
        TracePoint::TickStop => KernelEvent::TickStop { success: number(0)? != 0 },
        TracePoint::WorkStart => KernelEvent::WorkStart { work: number(0)?, function: number(1)? },
        TracePoint::WorkEnd => {
            KernelEvent::WorkEnd { work: number(0)?, function: number(1).unwrap_or_default() }
        }
        _ => return kvm_event(kind, fields),
    })
}

/// The same of KVM's trace points.
fn kvm_event(kind: TracePoint, fields: &RecordFields<'_>) -> Option<KernelEvent> {
    let number = |index| fields.number(index);
    Some(match kind {
        TracePoint::VmEntry => KernelEvent::VmEntry {
            vcpu: number(1).map(|vcpu| vcpu as u32),
            pc: number(0).unwrap_or_default(),
        },
        TracePoint::VmExit => KernelEvent::VmExit {
            reason: exit_reason(number(0)?, number(2), number(3))?,
            pc: number(1)?,
            info: number(4).unwrap_or_default(),
            vcpu: number(5).map(|vcpu| vcpu as u32),
        },
        TracePoint::VmInterrupt => KernelEvent::VmInterrupt { vector: number(0)? as u32 },
        TracePoint::VmMessage => KernelEvent::VmMessage { address: number(0)?, data: number(1)? },
        TracePoint::VmHaltPoll => KernelEvent::VmHaltPoll {
            vcpu: number(0)? as u32,
            from_ns: number(1)? as u32,
            to_ns: number(2)? as u32,
        },
        _ => return None,
    })
}

/// Returns the reason of an exit, on x86 by the kind of CPU (`isa`), on arm64 by the class of the
/// exception.
fn exit_reason(number: u64, isa: Option<u64>, class: Option<u64>) -> Option<ExitReason> {
    match (isa, class) {
        (Some(ExitReason::VMX), _) => Some(ExitReason::Vmx(number as u16)),
        (Some(ExitReason::SVM), _) => Some(ExitReason::Svm(number as u32)),
        (None, Some(class)) => {
            Some(ExitReason::Arm { exception: number as u32, class: class as u32 })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_work_item_is_known_without_its_function() {
        // Of Linux 4.19 and 5.4.
        let format = "name: workqueue_execute_end\nID: 7\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:void * work;\toffset:8;\tsize:8;\tsigned:0;\n\n\
            print fmt: \"work struct %p\", REC->work\n";
        let mut decoder = EventDecoder::new();
        decoder.learn(TracePoint::WorkEnd, &EventFormat::parse(format).unwrap()).unwrap();
        let mut bytes = [7_u16, 0].map(u16::to_ne_bytes).concat();
        bytes.extend(812_u32.to_ne_bytes());
        bytes.extend(0x55_u64.to_ne_bytes());
        let event = decoder.decode(0, &Record { at_ns: 5, bytes: &bytes }).unwrap();
        assert_eq!(event.what, KernelEvent::WorkEnd { work: 0x55, function: 0 });
    }
}
