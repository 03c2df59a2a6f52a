//! Writes a window as a `trace.dat` file, version 6, which trace-cmd and KernelShark open.
//!
//! The file begins with the formats of its events and ends with pages of the kernel's ring buffer,
//! one row per CPU (trace-cmd.dat.v6(5)). Formats and pages are made here from decoded events, so
//! windows of other machines, on other clocks and out of run files are written too: each format
//! describes just the fields that are known.

use std::collections::BTreeMap;

use super::event::{KernelEvent, Label, Thread, TraceEvent, Vector};
use super::kvm::ExitReason;
use super::window::Window;

const MAGIC: &[u8] = b"\x17\x08\x44tracing6\0";
const PAGE: usize = 4096;
/// A page's time stamp and byte count.
const PAGE_HEADER: usize = 16;
/// Bits of the time since the record before.
const TIME_BITS: u32 = 27;
/// Fields that each event begins with: type, flags, preemption count, thread.
const COMMON_BYTES: usize = 8;
/// Of a thread's name, with the null byte.
const NAME_BYTES: usize = 16;
/// Of an interrupt's name.
const LONG_NAME_BYTES: usize = 24;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const COMMON_FIELDS: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// The value of a field, with its type.
#[derive(Clone, Copy)]
enum FieldValue {
    Int(i64),
    Long(i64),
    Address(u64),
    Function(u64),
    Name(Label),
    LongName(Label),
}

impl FieldValue {
    const fn size(self) -> usize {
        match self {
            Self::Int(_) => 4,
            Self::Long(_) | Self::Address(_) | Self::Function(_) => 8,
            Self::Name(_) => NAME_BYTES,
            Self::LongName(_) => LONG_NAME_BYTES,
        }
    }

    const fn alignment(self) -> usize {
        match self {
            Self::Name(_) | Self::LongName(_) => 1,
            other => other.size(),
        }
    }

    /// Type, conversion in the print format, whether it is signed.
    const fn words(self) -> (&'static str, &'static str, u8) {
        match self {
            Self::Int(_) => ("int", "%d", 1),
            Self::Long(_) => ("long", "%ld", 1),
            Self::Address(_) => ("unsigned long", "0x%lx", 0),
            Self::Function(_) => ("void *", "%ps", 0),
            Self::Name(_) | Self::LongName(_) => ("char", "%s", 0),
        }
    }

    fn put(self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + self.size();
        match self {
            Self::Int(value) => bytes.extend((value as i32).to_le_bytes()),
            Self::Long(value) => bytes.extend(value.to_le_bytes()),
            Self::Address(value) | Self::Function(value) => bytes.extend(value.to_le_bytes()),
            Self::Name(label) | Self::LongName(label) => {
                let text = label.text();
                bytes.extend(text.bytes().take(self.size() - 1));
            }
        }
        bytes.resize(end, 0);
    }
}

/// An event as a record: system, name, fields in order.
struct EventRecord {
    system: &'static str,
    name: String,
    fields: Vec<NamedValue>,
}

type NamedValue = (&'static str, FieldValue);

fn record(system: &'static str, name: &str, fields: &[NamedValue]) -> Option<EventRecord> {
    Some(EventRecord { system, name: name.to_owned(), fields: fields.to_vec() })
}

impl EventRecord {
    /// The record of an event; those that no viewer shows have none.
    fn new(event: &TraceEvent) -> Option<Self> {
        use FieldValue::{Address, Function, Int, Long, LongName};
        let cpu = |cpu: u32| Int(i64::from(cpu));
        let of_vector = |vector: Vector, side: &str| {
            let number = Int(vector.number().into());
            record("irq_vectors", &format!("{}_{side}", vector.name()), &[("vector", number)])
        };
        match event.what {
            KernelEvent::Switch { prev, prev_state, next } => {
                let state = ("prev_state", Long(i64::from(prev_state.0 & 0x1ff)));
                let [a, b, c] = thread_fields(&prev, ["prev_comm", "prev_pid", "prev_prio"]);
                let [d, e, f] = thread_fields(&next, ["next_comm", "next_pid", "next_prio"]);
                record("sched", "sched_switch", &[a, b, c, state, d, e, f])
            }
            KernelEvent::Waking { thread, target_cpu } => {
                record("sched", "sched_waking", &woken(&thread, target_cpu))
            }
            KernelEvent::Wakeup { thread, target_cpu } => {
                record("sched", "sched_wakeup", &woken(&thread, target_cpu))
            }
            KernelEvent::Migrate { thread, from_cpu, to_cpu } => {
                let [a, b, c] = thread_fields(&thread, ["comm", "pid", "prio"]);
                let places = [("orig_cpu", cpu(from_cpu)), ("dest_cpu", cpu(to_cpu))];
                record("sched", "sched_migrate_task", &[a, b, c, places[0], places[1]])
            }
            KernelEvent::IrqEntry { irq, name } => {
                record("irq", "irq_handler_entry", &[("irq", cpu(irq)), ("name", LongName(name))])
            }
            KernelEvent::IrqExit { irq } => record("irq", "irq_handler_exit", &[("irq", cpu(irq))]),
            KernelEvent::SoftirqEntry(softirq) => {
                record("irq", "softirq_entry", &[("vec", Int(softirq.0.into()))])
            }
            KernelEvent::SoftirqExit(softirq) => {
                record("irq", "softirq_exit", &[("vec", Int(softirq.0.into()))])
            }
            KernelEvent::VectorEntry(vector) => of_vector(vector, "entry"),
            KernelEvent::VectorExit(vector) => of_vector(vector, "exit"),
            KernelEvent::TimerStart { timer, function, expires, softexpires } => record(
                "timer",
                "hrtimer_start",
                &[
                    ("hrtimer", Address(timer)),
                    ("function", Function(function)),
                    ("expires", Long(expires.as_ns().cast_signed())),
                    ("softexpires", Long(softexpires.as_ns().cast_signed())),
                ],
            ),
            KernelEvent::TimerExpireEntry { timer, function, now } => record(
                "timer",
                "hrtimer_expire_entry",
                &[
                    ("hrtimer", Address(timer)),
                    ("now", Long(now.as_ns().cast_signed())),
                    ("function", Function(function)),
                ],
            ),
            KernelEvent::TimerExpireExit { timer } => {
                record("timer", "hrtimer_expire_exit", &[("hrtimer", Address(timer))])
            }
            _ => Self::of_other(event),
        }
    }

    /// Of idle states, system calls, page faults and work items.
    fn of_other(event: &TraceEvent) -> Option<Self> {
        use FieldValue::{Address, Function, Int, Long};
        let of_work = |work: u64, of: u64| [("work", Address(work)), ("function", Function(of))];
        let idle = |state: i64| [("state", Int(state)), ("cpu_id", Int(event.cpu.into()))];
        match event.what {
            KernelEvent::IdleEntry { state } => {
                record("power", "cpu_idle", &idle(i64::from(state)))
            }
            KernelEvent::IdleExit => record("power", "cpu_idle", &idle(-1)),
            KernelEvent::PageFault { address, user } => {
                let name = if user { "page_fault_user" } else { "page_fault_kernel" };
                record("exceptions", name, &[("address", Address(address))])
            }
            KernelEvent::SyscallEnter { number } => {
                record("raw_syscalls", "sys_enter", &[("id", Long(number))])
            }
            KernelEvent::SyscallExit { number, result } => {
                record("raw_syscalls", "sys_exit", &[("id", Long(number)), ("ret", Long(result))])
            }
            KernelEvent::WorkStart { work, function } => {
                record("workqueue", "workqueue_execute_start", &of_work(work, function))
            }
            KernelEvent::WorkEnd { work, function } => {
                record("workqueue", "workqueue_execute_end", &of_work(work, function))
            }
            _ => Self::of_kvm(event),
        }
    }

    /// Of KVM, with the fields by which trace-cmd's and KernelShark's plugins for it print names and
    /// pair entries with exits.
    fn of_kvm(event: &TraceEvent) -> Option<Self> {
        use FieldValue::{Address, Int};
        let record = |name, fields: &[NamedValue]| record("kvm", name, fields);
        let number = |vcpu: Option<u32>| ("vcpu_id", Int(vcpu.unwrap_or_default().into()));
        match event.what {
            KernelEvent::VmEntry { vcpu, pc } => {
                record("kvm_entry", &[number(vcpu), ("rip", Address(pc))])
            }
            KernelEvent::VmExit { vcpu, reason, pc, info } => {
                let named = match reason {
                    ExitReason::Vmx(number) => [("exit_reason", number.into()), ("isa", 1)],
                    ExitReason::Svm(number) => [("exit_reason", number.into()), ("isa", 2)],
                    ExitReason::Arm { exception, class } => {
                        [("ret", exception.into()), ("esr_ec", class.into())]
                    }
                };
                let [(name, reason), (kind, of)] = named;
                let words = [("guest_rip", Address(pc)), ("info1", Address(info))];
                let [rip, info] = words;
                let none = ("info2", Address(0));
                record(
                    "kvm_exit",
                    &[(name, Int(reason)), rip, (kind, Int(of)), info, none, number(vcpu)],
                )
            }
            KernelEvent::VmInterrupt { vector } => {
                record("kvm_inj_virq", &[("vector", Int(vector.into()))])
            }
            KernelEvent::VmMessage { address, data } => {
                record("kvm_msi_set_irq", &[("address", Address(address)), ("data", Address(data))])
            }
            KernelEvent::VmHaltPoll { vcpu, from_ns, to_ns } => record(
                "kvm_halt_poll_ns",
                &[number(Some(vcpu)), ("new", Int(to_ns.into())), ("old", Int(from_ns.into()))],
            ),
            _ => None,
        }
    }

    /// The bytes of an event with this number, whole words.
    fn bytes(&self, id: u16, tid: u32) -> Vec<u8> {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(tid.to_le_bytes());
        for (_, value) in &self.fields {
            bytes.resize(bytes.len().next_multiple_of(value.alignment()), 0);
            value.put(&mut bytes);
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// The format as the kernel describes one.
    fn format(&self, id: u16) -> String {
        let mut at = COMMON_BYTES;
        let mut fields = String::new();
        let mut conversions = Vec::new();
        let mut arguments = String::new();
        for (name, value) in &self.fields {
            at = at.next_multiple_of(value.alignment());
            let (kind, conversion, signed) = value.words();
            let size = value.size();
            let length = if kind == "char" { format!("[{size}]") } else { String::new() };
            fields += &format!(
                "\tfield:{kind} {name}{length};\toffset:{at};\tsize:{size};\tsigned:{signed};\n"
            );
            conversions.push(format!("{name}={conversion}"));
            arguments += &format!(", REC->{name}");
            at += size;
        }

        let print = conversions.join(" ");
        format!(
            "name: {}\nID: {id}\nformat:\n{COMMON_FIELDS}{fields}\nprint fmt: \"{print}\"{arguments}\n",
            self.name
        )
    }
}

fn thread_fields(thread: &Thread, [comm, pid, prio]: [&'static str; 3]) -> [NamedValue; 3] {
    [
        (comm, FieldValue::Name(thread.name)),
        (pid, FieldValue::Int(thread.tid.into())),
        (prio, FieldValue::Int(thread.prio.into())),
    ]
}

fn woken(thread: &Thread, target_cpu: u32) -> [NamedValue; 4] {
    let [comm, pid, prio] = thread_fields(thread, ["comm", "pid", "prio"]);
    [comm, pid, prio, ("target_cpu", FieldValue::Int(target_cpu.into()))]
}

/// The formats of a file, numbered as they appear.
#[derive(Default)]
struct EventFormats {
    ids: BTreeMap<String, u16>,
    /// Formats by system.
    texts: BTreeMap<&'static str, Vec<String>>,
}

/// The number of the first format; those below are ftrace's own.
const FIRST_ID: u16 = 100;

impl EventFormats {
    fn id(&mut self, record: &EventRecord) -> u16 {
        let next = FIRST_ID + self.ids.len() as u16;
        if let Some(id) = self.ids.get(&record.name) {
            return *id;
        }
        self.ids.insert(record.name.clone(), next);
        self.texts.entry(record.system).or_default().push(record.format(next));
        next
    }
}

/// Pages of one CPU's ring buffer.
#[derive(Default)]
struct CpuPages {
    bytes: Vec<u8>,
    /// Bytes of records in the last page.
    filled: usize,
    last_ns: u64,
}

impl CpuPages {
    fn push(&mut self, at_ns: u64, event: &[u8]) {
        let words = event.len() / 4;
        let delta = at_ns.saturating_sub(self.last_ns);
        let is_full = PAGE_HEADER + self.filled + 4 + event.len() > PAGE;
        let begins_page = self.bytes.is_empty() || is_full || delta >> TIME_BITS != 0;
        if begins_page {
            self.begin_page(at_ns);
        }
        let delta = if begins_page { 0 } else { delta };

        let header = words as u32 | (delta as u32) << (32 - TIME_BITS);
        let start = self.bytes.len() - PAGE;
        let at = start + PAGE_HEADER + self.filled;
        self.bytes[at..at + 4].copy_from_slice(&header.to_le_bytes());
        self.bytes[at + 4..at + 4 + event.len()].copy_from_slice(event);
        self.filled += 4 + event.len();
        let filled = (self.filled as u64).to_le_bytes();
        self.bytes[start + 8..start + PAGE_HEADER].copy_from_slice(&filled);
        self.last_ns = at_ns.max(self.last_ns);
    }

    fn begin_page(&mut self, at_ns: u64) {
        let at_ns = at_ns.max(self.last_ns);
        let start = self.bytes.len();
        self.bytes.resize(start + PAGE, 0);
        self.bytes[start..start + 8].copy_from_slice(&at_ns.to_le_bytes());
        self.filled = 0;
        self.last_ns = at_ns;
    }
}

/// Of which machine the events of a file are. By these identities KernelShark draws a host and its
/// guest above each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceOf<'t> {
    /// Of one machine alone.
    #[default]
    Machine,
    /// Of a guest.
    Guest {
        /// Identity of the guest's file.
        id: u64,
    },
    /// Of the host of a guest.
    Host {
        /// Identity of the host's file.
        id: u64,
        /// Identity of the guest's file.
        guest: u64,
        /// Name of the guest.
        name: &'t str,
        /// Threads on the host of the guest's CPUs, from 0.
        vcpus: &'t [u32],
    },
}

/// Numbers of the options of a file: its identity, and a guest's.
const OPTION_TRACE_ID: u16 = 11;
const OPTION_GUEST: u16 = 13;

impl TraceOf<'_> {
    /// The section of options; a machine alone has none.
    fn options(self) -> Vec<u8> {
        let mut bytes = b"options  \0".to_vec();
        let mut add = |number: u16, value: &[u8]| {
            bytes.extend(number.to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
            bytes.extend(value);
        };
        match self {
            Self::Machine => return Vec::new(),
            Self::Guest { id } => add(OPTION_TRACE_ID, &id.to_le_bytes()),
            Self::Host { id, guest, name, vcpus } => {
                add(OPTION_TRACE_ID, &id.to_le_bytes());
                let mut value: Vec<u8> =
                    name.bytes().filter(|byte| *byte != 0).chain([0]).collect();
                value.extend(guest.to_le_bytes());
                value.extend((vcpus.len() as u32).to_le_bytes());
                for (cpu, tid) in (0_u32..).zip(vcpus) {
                    value.extend(cpu.to_le_bytes());
                    value.extend(tid.to_le_bytes());
                }
                add(OPTION_GUEST, &value);
            }
        }
        bytes.extend([0, 0]);
        bytes
    }
}

/// Returns the bytes of a `trace.dat` file of one machine. Event times are those of the window's
/// clock.
#[must_use]
pub fn write(window: &Window) -> Vec<u8> {
    write_of(window, TraceOf::Machine)
}

/// Returns the bytes of a `trace.dat` file of a host or of its guest. The times of both are those of
/// one clock.
#[must_use]
pub fn write_of(window: &Window, of: TraceOf<'_>) -> Vec<u8> {
    let mut formats = EventFormats::default();
    let mut cpus: BTreeMap<u32, CpuPages> = BTreeMap::new();
    let mut names: BTreeMap<u32, Label> = BTreeMap::new();
    for cpu in &window.cpus {
        let pages = cpus.entry(cpu.cpu).or_default();
        for event in &cpu.events {
            if let KernelEvent::Switch { prev, next, .. } = event.what {
                names.extend([prev, next].map(|thread| (thread.tid, thread.name)));
            }
            let Some(record) = EventRecord::new(event) else { continue };
            let id = formats.id(&record);
            pages.push(event.at.as_ns(), &record.bytes(id, event.tid));
        }
    }

    let count = cpus.keys().last().map_or(1, |last| last + 1);
    let rows: Vec<CpuPages> = (0..count).map(|cpu| cpus.remove(&cpu).unwrap_or_default()).collect();
    let mut file = header(&formats, window, &names);
    add_rows(&mut file, &rows, of);
    file
}

/// Everything before the pages.
fn header(formats: &EventFormats, window: &Window, names: &BTreeMap<u32, Label>) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    // Little-endian, longs of 8 bytes.
    file.extend([0, 8]);
    file.extend((PAGE as u32).to_le_bytes());
    file.extend(b"header_page\0");
    add_long_text(&mut file, HEADER_PAGE);
    file.extend(b"header_event\0");
    add_long_text(&mut file, HEADER_EVENT);

    // No formats of ftrace's own.
    file.extend(0_u32.to_le_bytes());
    file.extend((formats.texts.len() as u32).to_le_bytes());
    for (system, texts) in &formats.texts {
        file.extend(system.bytes().chain([0]));
        file.extend((texts.len() as u32).to_le_bytes());
        texts.iter().for_each(|text| add_long_text(&mut file, text));
    }

    let mut symbols = String::new();
    for (address, name) in &window.functions {
        symbols += &format!("{address:016x} t {name}\n");
    }
    file.extend((symbols.len() as u32).to_le_bytes());
    file.extend(symbols.bytes());
    // No formats of trace_printk.
    file.extend(0_u32.to_le_bytes());

    let threads = names.iter().filter(|(tid, _)| **tid != 0);
    let lines = threads.map(|(tid, name)| format!("{tid} {name}\n"));
    add_long_text(&mut file, &lines.collect::<String>());
    file
}

fn add_long_text(file: &mut Vec<u8>, text: &str) {
    file.extend((text.len() as u64).to_le_bytes());
    file.extend(text.bytes());
}

/// Adds the table of the CPUs' pages, and the pages.
fn add_rows(file: &mut Vec<u8>, rows: &[CpuPages], of: TraceOf<'_>) {
    file.extend((rows.len() as u32).to_le_bytes());
    file.extend(of.options());
    file.extend(b"flyrecord\0");
    let table = file.len();
    let mut at = (table + rows.len() * 16).next_multiple_of(PAGE);
    for row in rows {
        file.extend((at as u64).to_le_bytes());
        file.extend((row.bytes.len() as u64).to_le_bytes());
        at += row.bytes.len();
    }
    file.resize(file.len().next_multiple_of(PAGE), 0);
    rows.iter().for_each(|row| file.extend(&row.bytes));
}
