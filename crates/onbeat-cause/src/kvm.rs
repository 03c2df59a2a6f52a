//! Exits of a virtual machine under KVM: their reasons by name, and the stretches that the host
//! spent in them.
//!
//! Names are those that the kernel prints (`VMX_EXIT_REASONS`, `SVM_EXIT_REASONS`, arm64's
//! `kvm_arm_exception_type` and `kvm_arm_exception_class`). Where versions differ, the newer name is
//! written and both are read.

use std::fmt;

use onbeat_rt::Instant;

use super::event::KernelEvent;
use super::window::Window;

/// Why a virtual CPU left the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitReason {
    /// Intel: the basic exit reason.
    Vmx(u16),
    /// AMD: the exit code.
    Svm(u32),
    /// arm64.
    Arm {
        /// What was taken: 0 an interrupt, 1 a system error, 2 a trap.
        exception: u32,
        /// Exception class of a trap.
        class: u32,
    },
}

impl ExitReason {
    /// Intel's and AMD's numbers in the field `isa` of `kvm_exit`.
    pub(super) const VMX: u64 = 1;
    pub(super) const SVM: u64 = 2;
    const TRAP: u32 = 2;

    /// Returns the kernel's name; `None` for a number without one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Vmx(reason) => name_of(VMX, reason.into()),
            Self::Svm(code) => name_of(SVM, code),
            Self::Arm { exception: Self::TRAP, class } => name_of(ARM_CLASSES, class),
            Self::Arm { exception, .. } => name_of(ARM_EXCEPTIONS, exception),
        }
    }

    /// Returns the reason that x86 kernels print by this name, or as a number where it has none.
    pub(super) fn named_on_x86(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("0x") {
            return Some(Self::Vmx(u16::from_str_radix(number, 16).ok()?));
        }
        // No name is in both tables.
        let vmx = number_of(VMX, name).and_then(|number| u16::try_from(number).ok());
        vmx.map(Self::Vmx).or_else(|| number_of(SVM, name).map(Self::Svm))
    }

    /// Returns the reason on arm64 by the name of the exception.
    pub(super) fn on_arm(exception: &str, class: u32) -> Option<Self> {
        Some(Self::Arm { exception: number_of(ARM_EXCEPTIONS, exception)?, class })
    }

    /// Returns the name of an exception of arm64 and of the class of a trap, as the kernel prints them.
    pub(super) fn arm_names(exception: u32, class: u32) -> [String; 2] {
        let or_number = |name: Option<&str>, number: u32| {
            name.map_or_else(|| format!("0x{number:x}"), str::to_owned)
        };
        [
            or_number(name_of(ARM_EXCEPTIONS, exception), exception),
            or_number(name_of(ARM_CLASSES, class), class),
        ]
    }

    /// Whether the guest halted its CPU: it waits for an interrupt.
    #[must_use]
    pub const fn is_halt(self) -> bool {
        // WFx is WFI, which waits for an interrupt, or WFE, which waits for an event; the class does
        // not distinguish them, and a kernel that is idle uses WFI.
        matches!(
            self,
            Self::Vmx(12) | Self::Svm(0x78) | Self::Arm { exception: Self::TRAP, class: 1 }
        )
    }

    /// Returns the port of an exit by port I/O, from the exit's first word of information.
    #[must_use]
    pub const fn port(self, info: u64) -> Option<u16> {
        match self {
            // Bits 31 to 16 of Intel's exit qualification (SDM volume 3, "Exit Qualification for I/O
            // Instructions") and of AMD's EXITINFO1 (APM volume 2, "IOIO Intercept Information").
            Self::Vmx(30) | Self::Svm(0x7b) => Some((info >> 16) as u16),
            _ => None,
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), *self) {
            (Some(name), _) => out.write_str(name),
            (None, Self::Vmx(number)) => write!(out, "0x{number:x}"),
            (None, Self::Svm(number) | Self::Arm { exception: Self::TRAP, class: number }) => {
                write!(out, "0x{number:x}")
            }
            (None, Self::Arm { exception, .. }) => write!(out, "0x{exception:x}"),
        }
    }
}

/// Numbers and names; of a number that is there twice, the first name is written.
type Names = &'static [(u32, &'static str)];

fn name_of(names: Names, number: u32) -> Option<&'static str> {
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

fn number_of(names: Names, name: &str) -> Option<u32> {
    names.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

const VMX: Names = &[
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (2, "TRIPLE_FAULT"),
    (3, "INIT_SIGNAL"),
    (4, "SIPI_SIGNAL"),
    (7, "INTERRUPT_WINDOW"),
    (7, "PENDING_INTERRUPT"),
    (8, "NMI_WINDOW"),
    (9, "TASK_SWITCH"),
    (10, "CPUID"),
    (12, "HLT"),
    (13, "INVD"),
    (14, "INVLPG"),
    (15, "RDPMC"),
    (16, "RDTSC"),
    (18, "VMCALL"),
    (19, "VMCLEAR"),
    (20, "VMLAUNCH"),
    (21, "VMPTRLD"),
    (22, "VMPTRST"),
    (23, "VMREAD"),
    (24, "VMRESUME"),
    (25, "VMWRITE"),
    (26, "VMOFF"),
    (27, "VMON"),
    (28, "CR_ACCESS"),
    (29, "DR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (33, "INVALID_STATE"),
    (34, "MSR_LOAD_FAIL"),
    (36, "MWAIT_INSTRUCTION"),
    (37, "MONITOR_TRAP_FLAG"),
    (39, "MONITOR_INSTRUCTION"),
    (40, "PAUSE_INSTRUCTION"),
    (41, "MCE_DURING_VMENTRY"),
    (43, "TPR_BELOW_THRESHOLD"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (46, "GDTR_IDTR"),
    (47, "LDTR_TR"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (50, "INVEPT"),
    (51, "RDTSCP"),
    (52, "PREEMPTION_TIMER"),
    (53, "INVVPID"),
    (54, "WBINVD"),
    (55, "XSETBV"),
    (56, "APIC_WRITE"),
    (57, "RDRAND"),
    (58, "INVPCID"),
    (59, "VMFUNC"),
    (60, "ENCLS"),
    (61, "RDSEED"),
    (62, "PML_FULL"),
    (63, "XSAVES"),
    (64, "XRSTORS"),
    (67, "UMWAIT"),
    (68, "TPAUSE"),
    (74, "BUS_LOCK"),
    (75, "NOTIFY"),
];

const SVM: Names = &[
    (0x00, "read_cr0"),
    (0x02, "read_cr2"),
    (0x03, "read_cr3"),
    (0x04, "read_cr4"),
    (0x08, "read_cr8"),
    (0x10, "write_cr0"),
    (0x12, "write_cr2"),
    (0x13, "write_cr3"),
    (0x14, "write_cr4"),
    (0x18, "write_cr8"),
    (0x20, "read_dr0"),
    (0x27, "read_dr7"),
    (0x30, "write_dr0"),
    (0x37, "write_dr7"),
    (0x41, "DB excp"),
    (0x43, "BP excp"),
    (0x46, "UD excp"),
    (0x47, "NM excp"),
    (0x4d, "GP excp"),
    (0x4e, "PF excp"),
    (0x51, "AC excp"),
    (0x52, "MC excp"),
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x62, "smi"),
    (0x63, "init"),
    (0x64, "vintr"),
    (0x65, "cr0_sel_write"),
    (0x66, "read_idtr"),
    (0x67, "read_gdtr"),
    (0x68, "read_ldtr"),
    (0x69, "read_rt"),
    (0x6a, "write_idtr"),
    (0x6b, "write_gdtr"),
    (0x6c, "write_ldtr"),
    (0x6d, "write_rt"),
    (0x6e, "rdtsc"),
    (0x6f, "rdpmc"),
    (0x70, "pushf"),
    (0x71, "popf"),
    (0x72, "cpuid"),
    (0x73, "rsm"),
    (0x74, "iret"),
    (0x75, "swint"),
    (0x76, "invd"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x79, "invlpg"),
    (0x7a, "invlpga"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x7d, "task_switch"),
    (0x7e, "ferr_freeze"),
    (0x7f, "shutdown"),
    (0x80, "vmrun"),
    (0x81, "hypercall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x85, "clgi"),
    (0x86, "skinit"),
    (0x87, "rdtscp"),
    (0x88, "icebp"),
    (0x89, "wbinvd"),
    (0x8a, "monitor"),
    (0x8b, "mwait"),
    (0x8d, "xsetbv"),
    (0x8f, "write_efer_trap"),
    (0xa2, "invpcid"),
    (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"),
    (0x402, "avic_unaccelerated_access"),
    (0x403, "vmgexit"),
    (0xffff_ffff, "invalid_guest_state"),
];

const ARM_EXCEPTIONS: Names =
    &[(0, "IRQ"), (1, "SERROR"), (2, "TRAP"), (3, "ILLEGAL"), (0x0bad_ca11, "HYP_GONE")];

const ARM_CLASSES: Names = &[
    (0x00, "UNKNOWN"),
    (0x01, "WFx"),
    (0x03, "CP15_32"),
    (0x04, "CP15_64"),
    (0x05, "CP14_MR"),
    (0x06, "CP14_LS"),
    (0x07, "FP_ASIMD"),
    (0x08, "CP10_ID"),
    (0x09, "PAC"),
    (0x0c, "CP14_64"),
    (0x12, "HVC32"),
    (0x13, "SMC32"),
    (0x15, "SVC64"),
    (0x16, "HVC64"),
    (0x17, "SMC64"),
    (0x18, "SYS64"),
    (0x19, "SVE"),
    (0x1a, "ERET"),
    (0x1f, "IMP_DEF"),
    (0x20, "IABT_LOW"),
    (0x21, "IABT_CUR"),
    (0x22, "PC_ALIGN"),
    (0x24, "DABT_LOW"),
    (0x25, "DABT_CUR"),
    (0x26, "SP_ALIGN"),
    (0x28, "FP_EXC32"),
    (0x2c, "FP_EXC64"),
    (0x2f, "SERROR"),
    (0x30, "BREAKPT_LOW"),
    (0x32, "SOFTSTP_LOW"),
    (0x34, "WATCHPT_LOW"),
    (0x38, "BKPT32"),
    (0x3a, "VECTOR32"),
    (0x3c, "BRK64"),
];

/// A stretch that a virtual CPU spent outside the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmExitSpan {
    /// Of `kvm_exit`.
    pub from: Instant,
    /// Of the next `kvm_entry`.
    pub to: Instant,
    /// Why it left the guest.
    pub reason: ExitReason,
    /// The exit's first word of information.
    pub info: u64,
}

/// Returns the exits of the virtual CPU whose thread is `tid`, in order. One whose entry, or some
/// event in between, is not in the window is left out.
#[must_use]
pub fn exits(host: &Window, tid: u32) -> Vec<VmExitSpan> {
    let mut left = None;
    let mut found = Vec::new();
    for event in host.in_order().into_iter().filter(|event| event.tid == tid) {
        match event.what {
            // A second exit replaces one whose entry was lost.
            KernelEvent::VmExit { reason, info, .. } => left = Some((event.at, reason, info)),
            KernelEvent::VmEntry { .. } => {
                let span = left.take().map(|(from, reason, info)| VmExitSpan {
                    from,
                    to: event.at,
                    reason,
                    info,
                });
                found.extend(span.filter(|span| host.lost_between(span.from, span.to).is_none()));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_belongs_to_one_reason_on_one_kind_of_cpu() {
        for (number, name) in VMX {
            let reason = ExitReason::Vmx(u16::try_from(*number).unwrap());
            assert_eq!(ExitReason::named_on_x86(name), Some(reason));
        }
        for (number, name) in SVM {
            assert_eq!(ExitReason::named_on_x86(name), Some(ExitReason::Svm(*number)));
        }
        assert_eq!(ExitReason::Vmx(7).to_string(), "INTERRUPT_WINDOW", "the newer of two names");
        assert_eq!(ExitReason::named_on_x86("0x51"), Some(ExitReason::Vmx(0x51)));
        assert_eq!(ExitReason::Vmx(0x51).to_string(), "0x51");
    }

    #[test]
    fn a_halt_and_a_port_are_known_on_each_kind_of_cpu() {
        let halts = ["HLT", "hlt"].map(|name| ExitReason::named_on_x86(name).unwrap());
        assert!(halts.iter().all(|reason| reason.is_halt()));
        assert!(ExitReason::on_arm("TRAP", 1).unwrap().is_halt());
        assert!(!ExitReason::on_arm("IRQ", 1).unwrap().is_halt());

        for name in ["IO_INSTRUCTION", "io"] {
            let reason = ExitReason::named_on_x86(name).unwrap();
            assert_eq!(reason.port(0x0080_0008), Some(0x80));
        }
        assert_eq!(halts[0].port(0x0080_0008), None);
    }
}
