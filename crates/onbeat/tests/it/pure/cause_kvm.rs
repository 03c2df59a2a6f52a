//! Events of KVM: records by the formats of x86 and arm64, text as the kernel prints it, and a host's
//! and a guest's `trace.dat`, which trace-cmd opens together.
//!
//! Written by the kernel's sources (Linux 6.1): no host with KVM has recorded them.

use std::process::Command;

use onbeat::cause::decode::{EventDecoder, TracePoint};
use onbeat::cause::event::{KernelEvent, TraceEvent};
use onbeat::cause::format::EventFormat;
use onbeat::cause::kvm::{ExitReason, exits};
use onbeat::cause::page::Record;
use onbeat::cause::trace_dat::{self, TraceOf};
use onbeat::cause::{Window, ftrace};
use onbeat_rt::Instant;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const EXIT_ON_X86: &str = "\tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned long guest_rip;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:u32 isa;\toffset:24;\tsize:4;\tsigned:0;\n\
    \tfield:u64 info1;\toffset:32;\tsize:8;\tsigned:0;\n\
    \tfield:u64 info2;\toffset:40;\tsize:8;\tsigned:0;\n\
    \tfield:u32 intr_info;\toffset:48;\tsize:4;\tsigned:0;\n\
    \tfield:u32 error_code;\toffset:52;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned int vcpu_id;\toffset:56;\tsize:4;\tsigned:0;\n";
const EXIT_ON_ARM: &str = "\tfield:int ret;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:unsigned int esr_ec;\toffset:12;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned long vcpu_pc;\toffset:16;\tsize:8;\tsigned:0;\n";
const INJECTED_BEFORE_6_1: &str = "\tfield:unsigned int irq;\toffset:8;\tsize:4;\tsigned:0;\n";

fn decoded(kind: TracePoint, fields: &str, words: &[u32]) -> Option<KernelEvent> {
    let text =
        format!("name: {}\nID: 7\nformat:\n{COMMON}{fields}\nprint fmt: \"\"\n", kind.name());
    let mut decoder = EventDecoder::new();
    decoder.learn(kind, &EventFormat::parse(&text).unwrap()).unwrap();
    let mut bytes = [7_u16.to_ne_bytes(), [0, 0]].concat();
    bytes.extend(500_u32.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let event = decoder.decode(1, &Record { at_ns: 9, bytes: &bytes })?;
    assert_eq!((event.at, event.cpu, event.tid), (Instant::from_ns(9), 1, 500));
    Some(event.what)
}

#[test]
fn a_record_is_read_by_the_format_of_its_kernel() {
    let words = [30, 0, 0x40, 0, 1, 0, 0x80_0000, 0, 0, 0, 0, 0, 3];
    let io = KernelEvent::VmExit {
        vcpu: Some(3),
        reason: ExitReason::Vmx(30),
        pc: 0x40,
        info: 0x80_0000,
    };
    assert_eq!(decoded(TracePoint::VmExit, EXIT_ON_X86, &words), Some(io));
    let on_amd = [0x78, 0, 0x40, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3];
    assert!(matches!(
        decoded(TracePoint::VmExit, EXIT_ON_X86, &on_amd),
        Some(KernelEvent::VmExit { reason: ExitReason::Svm(0x78), .. })
    ));
    let of_no_cpu = [0x78, 0, 0x40, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3];
    assert_eq!(decoded(TracePoint::VmExit, EXIT_ON_X86, &of_no_cpu), None);

    let wait = ExitReason::Arm { exception: 2, class: 1 };
    assert_eq!(
        decoded(TracePoint::VmExit, EXIT_ON_ARM, &[2, 1, 0x1000, 0]),
        Some(KernelEvent::VmExit { vcpu: None, reason: wait, pc: 0x1000, info: 0 })
    );
    assert_eq!(
        decoded(TracePoint::VmInterrupt, INJECTED_BEFORE_6_1, &[0xec]),
        Some(KernelEvent::VmInterrupt { vector: 0xec })
    );
}

/// What a host's `trace` file shows while its guest writes to a port, halts, and gets its timer.
const PRINTED: &str = "\
       CPU 0/KVM-500     [001] d....    10.000100: kvm_exit: vcpu 0 reason IO_INSTRUCTION rip 0xffffffff81000010 info1 0x0000000000800000 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000
       CPU 0/KVM-500     [001] d....    10.000140: kvm_entry: vcpu 0, rip 0xffffffff81000011
       CPU 0/KVM-500     [001] d....    10.000200: kvm_exit: vcpu 0 reason HLT rip 0xffffffff81000020 info1 0x0000000000000000 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000
       CPU 0/KVM-500     [001] .....    10.000210: kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)
            qemu-480     [000] .....    10.000900: kvm_msi_set_irq: dst 0 vec 37 (Fixed|physical|edge)
       CPU 0/KVM-500     [001] d....    10.000910: kvm_inj_virq: IRQ 0xec
       CPU 0/KVM-500     [001] d....    10.000912: kvm_entry: vcpu 0, rip 0xffffffff81000021
";

fn host() -> Window {
    ftrace::read(PRINTED).unwrap()
}

#[test]
fn text_of_the_kernel_is_read_and_written_back() {
    let window = host();
    assert_eq!(window.in_order().len(), PRINTED.lines().count());
    let lengths: Vec<(String, u64)> = exits(&window, 500)
        .iter()
        .map(|exit| (exit.reason.to_string(), exit.to.ns_since(exit.from)))
        .collect();
    assert_eq!(lengths, [("IO_INSTRUCTION".to_owned(), 40_000), ("HLT".to_owned(), 712_000)]);

    let written = ftrace::write_as_kernel(&window);
    for line in PRINTED.lines() {
        let (_, event) = line.split_once(": ").unwrap();
        assert!(written.contains(event), "{event}\n{written}");
    }
}

fn guest() -> Window {
    let event =
        |us: u64, what| TraceEvent { at: Instant::from_ns(us * 1_000), cpu: 0, tid: 0, what };
    let events = vec![
        event(10_000_150, KernelEvent::IdleEntry { state: 1 }),
        event(10_000_920, KernelEvent::IdleExit),
    ];
    let cpus = vec![onbeat::cause::window::CpuWindow { cpu: 0, events }];
    Window {
        from: Instant::from_ns(10_000_100_000),
        to: Instant::from_ns(11_000_000_000),
        cpus,
        ..Window::default()
    }
}

/// Output of trace-cmd; `None` where it is not installed.
fn trace_cmd(words: &[&str]) -> Option<String> {
    let output = Command::new("trace-cmd").args(words).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{words:?}: {text}");
    Some(text)
}

#[test]
fn trace_cmd_opens_host_and_guest_together_and_names_the_exits() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let of_host = TraceOf::Host { id: 0x10, guest: 0x11, name: "debian", vcpus: &[500] };
    std::fs::write(path("host.dat"), trace_dat::write_of(&host(), of_host)).unwrap();
    let of_guest = TraceOf::Guest { id: 0x11 };
    std::fs::write(path("guest.dat"), trace_dat::write_of(&guest(), of_guest)).unwrap();

    let (host, guest) = (path("host.dat"), path("guest.dat"));
    let Some(text) = trace_cmd(&["report", "-t", "-i", &host, "-i", &guest]) else {
        println!("skipped: trace-cmd is not installed (apt-get install trace-cmd)");
        return;
    };
    let events: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("10.000").map(|(_, event)| event)).collect();
    let begins = |line: &str, text: &str| line.starts_with(text);
    assert_eq!(events.len(), 9, "{text}");
    assert!(begins(events[2], "150000: cpu_idle"), "the guest's beside the host's: {text}");
    assert!(begins(events[8], "920000: cpu_idle"), "{text}");
    for words in ["reason IO_INSTRUCTION", "reason HLT", "kvm_inj_virq", "kvm_halt_poll_ns"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("FAILED TO PARSE"), "{text}");

    let options = trace_cmd(&["dump", "--options", "-i", &host]).unwrap();
    for words in ["TRACEID", "GUEST", "debian"] {
        assert!(options.contains(words), "{words}: {options}");
    }
}
