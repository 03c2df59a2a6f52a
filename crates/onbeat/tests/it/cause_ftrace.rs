//! An export in the kernel's text format is what the kernel would have printed: header, lines and
//! fields.
//!
//! Fields are compared with `print fmt` of the kernel's format descriptions captured in
//! `cause_pages/`, and lines with those that the kernel printed there.

use crate::cause_world;

use std::collections::BTreeMap;

use cause_world::{World, idle, looper, thread};
use onbeat::cause::event::{KernelEvent, Label, Softirq, Vector};
use onbeat::cause::{Window, ftrace};
use onbeat_rt::Instant;

const FORMATS: [&str; 3] = [
    include_str!("../cause_pages/timers/formats"),
    include_str!("../cause_pages/syscalls/formats"),
    include_str!("../cause_pages/workqueue/formats"),
];
const PRINTED: &str = include_str!("../cause_pages/timers/cpu0.txt");

/// Whether printf can produce `text` from `format`: numbers for number conversions, any text for
/// text conversions.
fn fits(text: &str, format: &str) -> bool {
    let Some(at) = format.find('%') else { return text == format };
    let Some(text) = text.strip_prefix(&format[..at]) else { return false };
    let conversion = format[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit() || c == 'l');
    let (kind, rest) = conversion.split_at(1);
    // %ps prints a function's name, or its address if it has none.
    let rest = if kind == "p" { rest.strip_prefix('s').unwrap_or(rest) } else { rest };
    let is_one = |c: char| match kind {
        "d" | "u" => c.is_ascii_digit() || c == '-',
        "x" => c.is_ascii_hexdigit(),
        _ => true,
    };

    let most = text.find(|c| !is_one(c)).unwrap_or(text.len());
    let ends = (0..=most).filter(|end| text.is_char_boundary(*end) && (*end > 0 || kind == "s"));
    ends.clone().any(|end| fits(&text[end..], rest))
}

/// Returns the print format of each event.
fn formats() -> BTreeMap<&'static str, &'static str> {
    let all = FORMATS.iter().flat_map(|text| text.split("name: ").skip(1));
    let of = |description: &'static str| {
        let (name, rest) = description.split_once('\n').unwrap();
        let print = rest.split("print fmt: \"").nth(1).unwrap();
        (name, print.split("\",").next().unwrap().trim_end_matches('"'))
    };

    all.map(of).collect()
}

/// ` name-pid [cpu] flags seconds.micros: event: fields`, column by column as in
/// `trace_print_context`.
fn is_kernels_line(line: &str) -> Result<(), String> {
    let (head, rest) = line.split_at(line.find(" [").ok_or("no CPU")?);
    let (name, tid) = head.rsplit_once('-').ok_or("no thread")?;
    let named =
        name.chars().count() >= 16 && tid.trim_end().parse::<u32>().is_ok() && tid.len() >= 7;
    let rest = rest.strip_prefix(" [").ok_or("no CPU")?;
    let (cpu, rest) = rest.split_once("] ").ok_or("no CPU")?;
    let on_cpu = cpu.len() == 3 && cpu.parse::<u32>().is_ok();
    let (flags, rest) = rest.split_once(' ').ok_or("no flags")?;
    let (time, rest) = rest.split_once(": ").ok_or("no time")?;
    let (seconds, micros) = time.split_once('.').ok_or("no fraction")?;
    let timed =
        seconds.len() >= 5 && seconds.trim_start().parse::<u64>().is_ok() && micros.len() == 6;
    let (event, fields) = rest.split_once(": ").ok_or("no event")?;

    if !(named && on_cpu && flags.len() == 5 && timed && micros.parse::<u32>().is_ok()) {
        return Err("not the kernel's columns".to_owned());
    }

    let format = formats()
        .get(event)
        .copied()
        .ok_or_else(|| format!("an event unknown to the kernel: {event}"))?;
    if fits(fields, format) { Ok(()) } else { Err(format!("the kernel prints {format:?}")) }
}

/// A window with every kind of event that the recorder records.
fn everything() -> Window {
    let dd = thread(7, 120, "d d]-1");
    let mut world = World::asleep_beside(dd);
    let timer = 0xffff_8880_1234_5678;
    let at = Instant::from_ns(1_000_000_000);
    let events = [
        KernelEvent::Waking { thread: looper(), target_cpu: 1 },
        KernelEvent::Wakeup { thread: dd, target_cpu: 0 },
        KernelEvent::Migrate { thread: dd, from_cpu: 0, to_cpu: 1 },
        KernelEvent::IrqEntry { irq: 36, name: Label::from("virtio1-req.0") },
        KernelEvent::IrqExit { irq: 36 },
        KernelEvent::SoftirqEntry(Softirq(3)),
        KernelEvent::SoftirqExit(Softirq(3)),
        KernelEvent::TimerStart {
            timer,
            function: 0xffff_ffff_8123_4567,
            expires: at,
            softexpires: at,
        },
        KernelEvent::TimerExpireEntry { timer, function: cause_world::TICK, now: at },
        KernelEvent::TimerExpireExit { timer },
        KernelEvent::TimerCancel { timer },
        KernelEvent::IdleEntry { state: 1 },
        KernelEvent::IdleExit,
        KernelEvent::PageFault { address: 0x7f00_1234, user: true },
        KernelEvent::PageFault { address: 0xffff_8880_0000_0000, user: false },
        KernelEvent::SyscallEnter { number: 1 },
        KernelEvent::SyscallExit { number: 1, result: -11 },
        KernelEvent::SignalGenerate { signal: 19, target: 100, name: Label::from("onbeat") },
        KernelEvent::SignalDeliver { signal: 19 },
        KernelEvent::TickStop { success: true },
        KernelEvent::WorkStart { work: 0xffff_8880_0123_4560, function: cause_world::WORK },
        KernelEvent::WorkEnd { work: 0xffff_8880_0123_4560, function: 0xffff_ffff_8111_0000 },
    ];

    for (us, what) in (2000..).zip(events) {
        world.on(1, us, 7, what);
    }

    for (us, vector) in (3000..).step_by(10).zip([
        Vector::LocalTimer,
        Vector::Reschedule,
        Vector::CallFunctionSingle,
    ]) {
        world.on(1, us, 0, KernelEvent::VectorEntry(vector)).on(
            1,
            us + 1,
            0,
            KernelEvent::VectorExit(vector),
        );
    }

    world.switch(4000, dd, 0x100, idle()).lost(1500, 1900);
    world.window
}

#[test]
fn every_line_is_one_that_the_kernel_could_have_printed() {
    let text = ftrace::write_as_kernel(&everything());
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("CPU:")).collect();
    assert_eq!(lines.len(), everything().in_order().len());
    for line in lines {
        assert_eq!(is_kernels_line(line), Ok(()), "{line}");
    }
}

#[test]
fn the_check_accepts_the_kernels_own_text_and_rejects_deviations() {
    let own: Vec<&str> = PRINTED
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("CPU:"))
        .collect();
    assert!(own.len() > 300);
    for line in &own {
        assert_eq!(is_kernels_line(line), Ok(()), "{line}");
    }

    let wrong = [
        ("5560.86", "5560.86123"),
        ("] d", "] "),
        ("prev_prio=120", "prev_prio=low"),
        ("sched_switch", "switch"),
    ];
    for (right, wrong) in wrong {
        assert!(is_kernels_line(&own[0].replacen(right, wrong, 1)).is_err(), "{wrong}");
    }
}

#[test]
fn the_header_is_the_kernels_except_for_its_counts() {
    let header = |text: &str| -> Vec<String> {
        let lines = text.lines().take_while(|line| line.starts_with('#'));
        lines.map(|line| line.chars().filter(|c| !c.is_ascii_digit()).collect()).collect()
    };
    assert_eq!(header(&ftrace::write_as_kernel(&everything())), header(PRINTED));
}

#[test]
fn lost_events_are_reported_where_the_kernel_does() {
    let text = ftrace::write_as_kernel(&everything());
    let lines: Vec<&str> = text.lines().collect();
    let place = lines.iter().position(|line| *line == "CPU:1 [LOST EVENTS]").unwrap();
    assert!(lines[place + 1].contains("0.002000: sched_waking"), "{}", lines[place + 1]);
}
