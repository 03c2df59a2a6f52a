//! The text of KVM's events (`arch/x86/kvm/trace.h`, `arch/arm64/kvm/trace_arm.h`,
//! `include/trace/events/kvm.h`): written as Linux 6.1 prints them, read as all of 4.19 and later do.

use std::fmt::{self, Write as _};

use super::event_text::{address, hexadecimal, number, value};
use crate::event::KernelEvent::{self, VmEntry, VmExit, VmHaltPoll, VmInterrupt, VmMessage};
use crate::kvm::ExitReason;

/// Delivery modes, by their number in the data of a message.
const MODES: [&str; 8] = ["Fixed", "LowPrio", "SMI", "Res3", "NMI", "INIT", "SIPI", "ExtINT"];
/// Where x86 takes messages.
const MESSAGES_AT: u64 = 0xfee0_0000;
const LOGICAL: u64 = 1 << 2;
const REDIRECTED: u64 = 1 << 3;
const LEVEL: u64 = 1 << 15;

/// Appends the text of an event of KVM; of any other none.
pub(super) fn write(text: &mut String, what: KernelEvent) -> fmt::Result {
    match what {
        VmEntry { vcpu: Some(vcpu), pc } => write!(text, "kvm_entry: vcpu {vcpu}, rip 0x{pc:x}"),
        VmEntry { vcpu: None, pc } => write!(text, "kvm_entry: PC: 0x{pc:016x}"),
        VmExit { reason: ExitReason::Arm { exception, class }, pc, .. } => {
            let [exception, name] = ExitReason::arm_names(exception, class);
            write!(text, "kvm_exit: {exception}: HSR_EC: 0x{class:04x} ({name}), PC: 0x{pc:016x}")
        }
        VmExit { vcpu, reason, pc, info } => {
            let vcpu = vcpu.map(|vcpu| format!("vcpu {vcpu} ")).unwrap_or_default();
            write!(
                text,
                "kvm_exit: {vcpu}reason {reason} rip 0x{pc:x} info1 0x{info:016x} info2 \
                 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000"
            )
        }
        VmInterrupt { vector } => write!(text, "kvm_inj_virq: IRQ 0x{vector:x}"),
        VmMessage { address, data } => {
            let to = address >> 12 & 0xff | address >> 32 & 0xffff_ff00;
            let mode = MODES[(data >> 8 & 7) as usize];
            let way = if address & LOGICAL == 0 { "physical" } else { "logical" };
            let trigger = if data & LEVEL == 0 { "edge" } else { "level" };
            let hint = if address & REDIRECTED == 0 { "" } else { "|rh" };
            let vector = data & 0xff;
            write!(text, "kvm_msi_set_irq: dst {to:x} vec {vector} ({mode}|{way}|{trigger}{hint})")
        }
        VmHaltPoll { vcpu, from_ns, to_ns } => {
            let way = if to_ns > from_ns { "grow" } else { "shrink" };
            write!(text, "kvm_halt_poll_ns: vcpu {vcpu}: halt_poll_ns {to_ns} ({way} {from_ns})")
        }
        _ => Ok(()),
    }
}

/// Reads an event of KVM; `None` if it is unknown or incomplete.
pub(super) fn read(name: &str, fields: &str) -> Option<KernelEvent> {
    let vcpu = || value(fields, "vcpu ", " ")?.trim_end_matches([',', ':']).parse().ok();
    Some(match name {
        "kvm_entry" => {
            let pc = address(fields, "rip ").or_else(|| address(fields, "PC: "));
            VmEntry { vcpu: vcpu(), pc: pc.unwrap_or_default() }
        }
        "kvm_exit" => exit_on_arm(fields).or_else(|| {
            let reason = value(fields, "reason ", " rip ")?;
            // A failed entry is a flag behind the name.
            let first = || ExitReason::named_on_x86(reason.split(' ').next()?);
            Some(VmExit {
                vcpu: vcpu(),
                reason: ExitReason::named_on_x86(reason).or_else(first)?,
                pc: address(fields, "rip ")?,
                info: address(fields, "info1 ").or_else(|| address(fields, "info "))?,
            })
        })?,
        "kvm_inj_virq" => {
            let (_, vector) = fields.split_once(' ')?;
            let vector = vector.split(' ').next()?;
            // "IRQ 0xec", before Linux 6.1 "irq 236".
            let number = vector.strip_prefix("0x").and_then(hexadecimal);
            VmInterrupt { vector: number.map_or_else(|| vector.parse().ok(), |n| Some(n as u32))? }
        }
        "kvm_msi_set_irq" => message(fields)?,
        "kvm_halt_poll_ns" => VmHaltPoll {
            vcpu: vcpu()?,
            to_ns: number(fields, "halt_poll_ns ")?,
            from_ns: fields.rsplit(' ').next()?.strip_suffix(')')?.parse().ok()?,
        },
        _ => return None,
    })
}

/// `TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x0000ffff80001000`.
fn exit_on_arm(fields: &str) -> Option<KernelEvent> {
    let (exception, rest) =
        fields.split_once(": HSR_EC: ").or_else(|| fields.split_once(": ESR_EC: "))?;
    let class = hexadecimal(rest.split(' ').next()?)?;
    let reason = ExitReason::on_arm(exception, class as u32)?;
    Some(VmExit { vcpu: None, reason, pc: address(fields, "PC: ")?, info: 0 })
}

/// `dst 1 vec 37 (Fixed|physical|edge)`.
fn message(fields: &str) -> Option<KernelEvent> {
    let to = address(fields, "dst ")?;
    let vector: u64 = number(fields, "vec ")?;
    let (_, words) = fields.split_once('(')?;
    let words: Vec<&str> = words.strip_suffix(')')?.split('|').collect();
    let mode = MODES.iter().position(|mode| words.first() == Some(mode))? as u64;
    let bit = |word, bit| if words.contains(&word) { bit } else { 0 };
    let address = MESSAGES_AT
        | (to & 0xff) << 12
        | (to & 0xffff_ff00) << 32
        | bit("logical", LOGICAL)
        | bit("rh", REDIRECTED);
    Some(VmMessage { address, data: vector | mode << 8 | bit("level", LEVEL) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> KernelEvent {
        let (name, fields) = line.split_once(": ").unwrap();
        read(name, fields).unwrap_or_else(|| panic!("{line}"))
    }

    /// Lines in the print formats of Linux 4.19 to 6.12; the last column is how they are written.
    #[test]
    fn each_version_and_architecture_is_read() {
        let hlt = "kvm_exit: vcpu 0 reason HLT rip 0xffffffff81a0 info1 0x0000000000000000 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000";
        let io = "kvm_exit: vcpu 1 reason io rip 0x40 info1 0x0000000000800210 info2 0x0000000000000042 intr_info 0x00000000 error_code 0x00000000";
        for (line, expected) in [
            (
                hlt,
                VmExit {
                    vcpu: Some(0),
                    reason: ExitReason::Vmx(12),
                    pc: 0xffff_ffff_81a0,
                    info: 0,
                },
            ),
            (
                io,
                VmExit { vcpu: Some(1), reason: ExitReason::Svm(0x7b), pc: 0x40, info: 0x80_0210 },
            ),
            (
                "kvm_exit: reason MSR_WRITE rip 0x10 info 0 0",
                VmExit { vcpu: None, reason: ExitReason::Vmx(32), pc: 0x10, info: 0 },
            ),
            (
                "kvm_exit: vcpu 0 reason GP excp rip 0x10 info1 0x0000000000000003 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000",
                VmExit { vcpu: Some(0), reason: ExitReason::Svm(0x4d), pc: 0x10, info: 3 },
            ),
            (
                "kvm_exit: vcpu 0 reason INVALID_STATE FAILED_VMENTRY rip 0x10 info1 0x0000000000000000 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000",
                VmExit { vcpu: Some(0), reason: ExitReason::Vmx(33), pc: 0x10, info: 0 },
            ),
            (
                "kvm_exit: TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x0000ffff80001000",
                VmExit {
                    vcpu: None,
                    reason: ExitReason::Arm { exception: 2, class: 0x24 },
                    pc: 0xffff_8000_1000,
                    info: 0,
                },
            ),
            ("kvm_entry: vcpu 3, rip 0x1f", VmEntry { vcpu: Some(3), pc: 0x1f }),
            (
                "kvm_entry: vcpu 3, rip 0x1f intr_info 0x800000ec error_code 0x00000000",
                VmEntry { vcpu: Some(3), pc: 0x1f },
            ),
            ("kvm_entry: vcpu 3", VmEntry { vcpu: Some(3), pc: 0 }),
            ("kvm_entry: PC: 0x0000ffff80001000", VmEntry { vcpu: None, pc: 0xffff_8000_1000 }),
            ("kvm_inj_virq: irq 236", VmInterrupt { vector: 236 }),
            ("kvm_inj_virq: IRQ 0xec", VmInterrupt { vector: 236 }),
            ("kvm_inj_virq: IRQ 0xec [reinjected]", VmInterrupt { vector: 236 }),
            (
                "kvm_msi_set_irq: dst 1 vec 37 (Fixed|physical|edge)",
                VmMessage { address: 0xfee0_1000, data: 0x25 },
            ),
            (
                "kvm_msi_set_irq: dst 102 vec 37 (LowPrio|logical|level|rh)",
                VmMessage { address: 0x100_fee0_200c, data: 0x8125 },
            ),
            (
                "kvm_halt_poll_ns: vcpu 0: halt_poll_ns 20000 (grow 10000)",
                VmHaltPoll { vcpu: 0, from_ns: 10_000, to_ns: 20_000 },
            ),
            (
                "kvm_halt_poll_ns: vcpu 0: halt_poll_ns 0 (shrink 20000)",
                VmHaltPoll { vcpu: 0, from_ns: 20_000, to_ns: 0 },
            ),
        ] {
            assert_eq!(read_line(line), expected, "{line}");
            let mut written = String::new();
            write(&mut written, expected).unwrap();
            assert_eq!(read_line(&written), expected, "{written}");
        }

        let mut written = String::new();
        write(&mut written, read_line(io)).unwrap();
        assert_eq!(written, io.replace("0042", "0000"), "what is not kept is written as 0");
    }

    #[test]
    fn an_incomplete_or_unknown_event_is_none() {
        for line in [
            "kvm_exit: reason NO_SUCH_REASON rip 0x10 info 0 0",
            "kvm_exit: vcpu 0 reason HLT",
            "kvm_inj_virq: IRQ",
            "kvm_msi_set_irq: dst 1 vec 37",
            "kvm_halt_poll_ns: vcpu 0: halt_poll_ns",
            "kvm_fpu: load",
        ] {
            let (name, fields) = line.split_once(": ").unwrap();
            assert_eq!(read(name, fields), None, "{line}");
        }
    }
}
