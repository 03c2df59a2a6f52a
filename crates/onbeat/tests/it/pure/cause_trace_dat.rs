//! Windows as `trace.dat` files: the pages are the kernel's, and trace-cmd reads the whole file.

use std::process::Command;

use crate::cause_world::{LOOP, World, thread};
use onbeat::cause::event::KernelEvent;
use onbeat::cause::format::PageLayout;
use onbeat::cause::page::RingPage;
use onbeat::cause::trace_dat;

const PAGE: usize = 4096;
const LAYOUT: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                      \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                      \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                      \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

fn world() -> World {
    let dd = thread(7, 120, "dd");
    let mut world = World::asleep_beside(dd);
    world.on(1, 150, 7, KernelEvent::SyscallEnter { number: 1 });
    world.timer_interrupt(1001, 5).loop_runs(1906, dd);
    // Far enough behind for a page of its own, and enough for several.
    for at in (180_000..199_000).step_by(50) {
        world.on(1, at, 7, KernelEvent::IdleExit);
    }
    world
}

fn number(bytes: &[u8]) -> usize {
    usize::try_from(u64::from_le_bytes(bytes.try_into().unwrap())).unwrap()
}

/// Offset and length of the pages of each CPU.
fn rows(file: &[u8]) -> Vec<(usize, usize)> {
    let mark = b"flyrecord\0";
    let at = file.windows(mark.len()).position(|bytes| bytes == mark).unwrap();
    let count = u32::from_le_bytes(file[at - 4..at].try_into().unwrap()) as usize;
    let table = &file[at + mark.len()..];
    (0..count)
        .map(|row| &table[row * 16..row * 16 + 16])
        .map(|row| (number(&row[..8]), number(&row[8..])))
        .collect()
}

#[test]
fn pages_hold_each_event_at_its_nanosecond() {
    let World { window, .. } = world();
    let file = trace_dat::write(&window);
    let layout = PageLayout::parse(LAYOUT).unwrap();
    let rows = rows(&file);
    assert_eq!(rows.len(), 2);

    for (cpu, (offset, length)) in rows.into_iter().enumerate() {
        assert_eq!((offset % PAGE, length % PAGE), (0, 0));
        let pages = file[offset..offset + length].chunks(PAGE);
        let instants: Vec<u64> = pages
            .flat_map(|page| RingPage::parse(page, &layout).unwrap().records())
            .map(|record| record.unwrap().at_ns)
            .collect();
        let expected: Vec<u64> =
            window.cpus[cpu].events.iter().map(|event| event.at.as_ns()).collect();
        assert_eq!(instants, expected, "CPU {cpu}");
    }
}

#[test]
fn trace_cmd_reports_the_events_by_their_names() {
    let World { window, .. } = world();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("host.dat");
    std::fs::write(&path, trace_dat::write(&window)).unwrap();
    let report = Command::new("trace-cmd").args(["report", "-t", "-i"]).arg(&path).output();
    let Ok(report) = report else {
        println!("skipped: trace-cmd is not installed (apt-get install trace-cmd)");
        return;
    };

    let text = String::from_utf8_lossy(&report.stdout);
    let errors = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success(), "{errors}");
    let events = window.in_order().len();
    let lines = text.lines().filter(|line| line.contains("[00")).count();
    assert_eq!(lines, events, "{text}{errors}");
    let switches = text.lines().filter(|line| line.contains("sched_switch")).count();
    let is_switch = |event: &&&onbeat::cause::event::TraceEvent| {
        matches!(event.what, KernelEvent::Switch { .. })
    };
    assert_eq!(switches, window.in_order().iter().filter(is_switch).count());
    assert!(text.contains("hrtimer_wakeup"), "functions have names: {text}");
    assert!(text.contains(&format!(":{LOOP} ")) && text.contains("dd:7"), "{text}");
    assert!(text.contains("0.001906000"), "nanoseconds: {text}");
}
