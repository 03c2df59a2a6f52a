//! Pages of a real kernel's buffers decode to what the kernel prints for them.
//!
//! `cause_pages/` was captured on Linux 6.18 (x86-64, two CPUs): an instance with three-page
//! buffers was stopped, its `per_cpu/cpuN/trace` read as text, then its
//! `per_cpu/cpuN/trace_pipe_raw` as pages. `timers` ran cyclictest beside a build, `syscalls` ran
//! hackbench with all system calls recorded.

use std::fs;
use std::path::PathBuf;

use onbeat::cause::decode::{EventDecoder, TracePoint};
use onbeat::cause::event::{KernelEvent, TraceEvent};
use onbeat::cause::format::{EventFormat, PageLayout};
use onbeat::cause::ftrace;
use onbeat::cause::page::RingPage;
use onbeat_rt::Instant;

struct Capture(PathBuf);

impl Capture {
    fn named(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cause_pages").join(name))
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }

    fn layout(&self) -> PageLayout {
        PageLayout::parse(&self.text("header_page")).unwrap()
    }

    fn decoder(&self) -> EventDecoder {
        let mut decoder = EventDecoder::new();
        let text = self.text("formats");
        for description in text.split("name: ").skip(1) {
            let format = EventFormat::parse(&format!("name: {description}")).unwrap();
            if let Some(kind) =
                TracePoint::all().into_iter().find(|kind| kind.name() == format.name)
            {
                decoder.learn(kind, &format).unwrap();
            }
        }

        decoder
    }

    fn pages(&self, cpu: u32) -> Vec<Vec<u8>> {
        let bytes = fs::read(self.0.join(format!("cpu{cpu}.raw"))).unwrap();
        bytes.chunks(self.layout().page_size()).map(<[u8]>::to_vec).collect()
    }

    fn events(&self, cpu: u32) -> Vec<TraceEvent> {
        let (layout, decoder) = (self.layout(), self.decoder());
        let mut events = Vec::new();
        for bytes in self.pages(cpu) {
            let page = RingPage::parse(&bytes, &layout).unwrap();
            events.extend(
                page.records().map(|record| decoder.decode(cpu, &record.unwrap()).unwrap()),
            );
        }

        events
    }
}

/// Removes what the kernel's text lacks: it rounds times to microseconds and hides addresses.
fn as_far_as_printed(event: &TraceEvent) -> TraceEvent {
    let at = Instant::from_ns((event.at.as_ns() + 500) / 1000 * 1000);
    let what = match event.what {
        KernelEvent::TimerStart { expires, softexpires, .. } => {
            KernelEvent::TimerStart { timer: 0, function: 0, expires, softexpires }
        }
        KernelEvent::TimerExpireEntry { now, .. } => {
            KernelEvent::TimerExpireEntry { timer: 0, function: 0, now }
        }
        KernelEvent::TimerExpireExit { .. } => KernelEvent::TimerExpireExit { timer: 0 },
        KernelEvent::TimerCancel { .. } => KernelEvent::TimerCancel { timer: 0 },
        other => other,
    };

    TraceEvent { at, what, ..*event }
}

fn agree(name: &str, expected: [usize; 2]) {
    let capture = Capture::named(name);
    for (cpu, expected) in (0_u32..).zip(expected) {
        let printed = ftrace::read(&capture.text(&format!("cpu{cpu}.txt"))).unwrap();
        let printed = printed.cpu(cpu).unwrap();
        let events = capture.events(cpu);
        assert_eq!(events.len(), expected, "{name}, CPU {cpu}");
        assert_eq!(printed.events.len(), expected, "{name}, CPU {cpu}: the kernel's text");
        for (ours, kernels) in events.iter().zip(&printed.events) {
            assert_eq!(as_far_as_printed(ours), as_far_as_printed(kernels));
        }
    }
}

#[test]
fn every_record_of_the_timer_pages_is_what_the_kernel_prints() {
    agree("timers", [326, 419]);
}

#[test]
fn every_record_of_the_syscall_pages_is_what_the_kernel_prints() {
    agree("syscalls", [257, 302]);
}

#[test]
fn pages_that_overwrote_older_ones_report_missing_events() {
    for name in ["timers", "syscalls"] {
        let capture = Capture::named(name);
        for cpu in 0..2 {
            let pages = capture.pages(cpu);
            let missed = |bytes: &Vec<u8>| {
                RingPage::parse(bytes, &capture.layout()).unwrap().missed.is_some()
            };
            let missed: Vec<bool> = pages.iter().map(missed).collect();
            assert_eq!(missed, [true, false, false, false], "{name}, CPU {cpu}");
        }
    }
}

#[test]
fn a_window_survives_conversion_to_text() {
    let capture = Capture::named("timers");
    let mut window = ftrace::read(&capture.text("cpu0.txt")).unwrap();
    window.cpus[0].events = capture.events(0);
    let read = ftrace::read(&ftrace::write(&window)).unwrap();

    assert_eq!(read, window);
    let packed = ftrace::pack(&window);
    assert_eq!(ftrace::unpack(&packed).unwrap(), window);
    assert!(packed.len() < window.cpus[0].events.len() * 30, "{} bytes", packed.len());
    assert!(ftrace::unpack("no base64").is_err());
}

#[test]
fn an_invalid_line_is_reported_with_its_number() {
    let error = ftrace::read("# tracer: nop\n\nnonsense\n").unwrap_err();
    assert_eq!((error.number, error.line.as_str()), (3, "nonsense"));
}
