//! Three programs for guests, assembled by hand: they need no compiler for the guest, and their
//! instructions are known to the last one.

/// Where the programs are loaded.
const BASE: u64 = 0x40_0000;
/// Length of an ELF header with one program header.
const HEADERS: usize = 120;
/// Instructions of the spinning loop before its jump. QEMU translates them to a single block, so a
/// guest with nothing else to do costs next to nothing.
const NOPS: usize = 400;

/// A program that stops the virtual machine at a fixed instruction: it writes to the port of QEMU's
/// device `pvpanic`, which pauses the guest by `-action panic=pause`. It ends with status 0 once
/// the guest goes on, and with another one where the kernel refuses the port.
pub(super) fn pause() -> Vec<u8> {
    elf(&[
        0xb8, 0xad, 0, 0, 0, // mov eax, 173: ioperm
        0xbf, 0x05, 0x05, 0, 0, // mov edi, 0x505: the port
        0xbe, 1, 0, 0, 0, // mov esi, 1: one port
        0xba, 1, 0, 0, 0, // mov edx, 1: permitted
        0x0f, 0x05, // syscall
        0x89, 0xc7, // mov edi, eax: the exit status
        0x85, 0xc0, // test eax, eax
        0x75, 0x07, // jnz to the end
        0x66, 0xba, 0x05, 0x05, // mov dx, 0x505
        0xb0, 0x01, // mov al, 1: the guest has panicked, which it has not
        0xee, // out dx, al
        0xb8, 0x3c, 0, 0, 0, // mov eax, 60: exit
        0x0f, 0x05, // syscall
    ])
}

/// A program that spins for ever in the class `SCHED_IDLE`, below everything else. With it the
/// virtual CPU always has instructions to count: QEMU would jump over idle time in a thread of its
/// own, and the kernel's polling leaves the translated code once per turn.
pub(super) fn spin() -> Vec<u8> {
    let mut code = vec![
        0xb8, 0x90, 0, 0, 0, // mov eax, 144: sched_setscheduler
        0x31, 0xff, // xor edi, edi: this process
        0xbe, 5, 0, 0, 0, // mov esi, 5: SCHED_IDLE
        0x6a, 0, // push 0: its priority
        0x48, 0x89, 0xe2, // mov rdx, rsp
        0x0f, 0x05, // syscall
    ];
    code.extend([0x90; NOPS]);
    let back = -(NOPS as i32 + 5);
    code.push(0xe9); // jmp to the first nop
    code.extend(back.to_le_bytes());
    elf(&code)
}

/// Returns a program that delays whatever runs in the guest below priority 99, by port I/O: it
/// writes to port 0x80, which leaves the guest under KVM, for 12 ms, and sleeps for 108 ms, until
/// it is killed. It prints each burst as two `timespec` of `CLOCK_MONOTONIC`, begin and end, and
/// ends with status 1 where the kernel refuses the priority or the port.
#[must_use]
pub fn port_storm() -> Vec<u8> {
    elf(&[
        0xb8, 0x90, 0, 0, 0, // mov eax, 144: sched_setscheduler
        0x31, 0xff, // xor edi, edi: this process
        0xbe, 1, 0, 0, 0, // mov esi, 1: SCHED_FIFO
        0x6a, 99, // push 99: its priority
        0x48, 0x89, 0xe2, // mov rdx, rsp
        0x0f, 0x05, // syscall
        0x85, 0xc0, // test eax, eax
        0x0f, 0x85, 0x97, 0, 0, 0, // jnz to the end
        0xb8, 0xad, 0, 0, 0, // mov eax, 173: ioperm
        0xbf, 0x80, 0, 0, 0, // mov edi, 0x80: the port
        0xbe, 1, 0, 0, 0, // mov esi, 1: one port
        0xba, 1, 0, 0, 0, // mov edx, 1: permitted
        0x0f, 0x05, // syscall
        0x85, 0xc0, // test eax, eax
        0x75, 0x7d, // jnz to the end
        0x48, 0x83, 0xec, 0x20, // sub rsp, 32: begin and end of a burst
        0x48, 0x89, 0xe6, // burst: mov rsi, rsp
        0xe8, 0x64, 0, 0, 0, // call clock
        0xb9, 100, 0, 0, 0, // storm: mov ecx, 100
        0xe6, 0x80, // out 0x80, al
        0xff, 0xc9, // dec ecx
        0x75, 0xfa, // jnz to the out
        0x48, 0x8d, 0x74, 0x24, 0x10, // lea rsi, [rsp + 16]
        0xe8, 0x4f, 0, 0, 0, // call clock
        0x48, 0x8b, 0x44, 0x24, 0x10, // mov rax, [rsp + 16]: the seconds
        0x48, 0x2b, 0x04, 0x24, // sub rax, [rsp]
        0x48, 0x69, 0xc0, 0x00, 0xca, 0x9a, 0x3b, // imul rax, rax, 1,000,000,000
        0x48, 0x03, 0x44, 0x24, 0x18, // add rax, [rsp + 24]: the nanoseconds
        0x48, 0x2b, 0x44, 0x24, 0x08, // sub rax, [rsp + 8]
        0x48, 0x3d, 0x00, 0x1b, 0xb7, 0x00, // cmp rax, 12,000,000
        0x7c, 0xc9, // jl storm
        0xb8, 1, 0, 0, 0, // mov eax, 1: write
        0xbf, 1, 0, 0, 0, // mov edi, 1: standard output
        0x48, 0x89, 0xe6, // mov rsi, rsp
        0xba, 32, 0, 0, 0, // mov edx, 32
        0x0f, 0x05, // syscall
        0x68, 0x00, 0xf3, 0x6f, 0x06, // push 108,000,000 nanoseconds
        0x6a, 0, // push 0 seconds
        0xb8, 0x23, 0, 0, 0, // mov eax, 35: nanosleep
        0x48, 0x89, 0xe7, // mov rdi, rsp
        0x31, 0xf6, // xor esi, esi
        0x0f, 0x05, // syscall
        0x48, 0x83, 0xc4, 0x10, // add rsp, 16
        0xeb, 0x94, // jmp burst
        0xb8, 0xe4, 0, 0, 0, // clock: mov eax, 228: clock_gettime
        0xbf, 1, 0, 0, 0, // mov edi, 1: CLOCK_MONOTONIC
        0x0f, 0x05, // syscall
        0xc3, // ret
        0xbf, 1, 0, 0, 0, // end: mov edi, 1: the exit status
        0xb8, 0x3c, 0, 0, 0, // mov eax, 60: exit
        0x0f, 0x05, // syscall
    ])
}

/// A static ELF file for x86-64 with this code.
fn elf(code: &[u8]) -> Vec<u8> {
    let length = (HEADERS + code.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [2_u16, 62] {
        file.extend(half.to_le_bytes()); // an executable for x86-64
    }
    file.extend(1_u32.to_le_bytes());
    for word in [BASE + HEADERS as u64, 64, 0] {
        file.extend(word.to_le_bytes()); // entry, program header, no sections
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }

    for word in [1_u32, 5] {
        file.extend(word.to_le_bytes()); // one segment, loaded, to read and execute
    }
    for word in [0, BASE, BASE, length, length, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    file
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use onbeat_host::process::StatLine;

    use super::*;

    fn written(name: &str, program: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(name);
        fs::write(&path, program).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its rights");
        (directory, path)
    }

    /// Starts a program that was just written. A process that another test is starting meanwhile
    /// has a copy of the descriptor that was open for writing, until execve closes it: the file is
    /// busy.
    #[cfg(target_arch = "x86_64")]
    fn started(path: &std::path::Path) -> std::process::Child {
        let since = std::time::Instant::now();
        loop {
            match Command::new(path).spawn() {
                Err(error)
                    if error.kind() == std::io::ErrorKind::ExecutableFileBusy
                        && since.elapsed() < std::time::Duration::from_secs(30) =>
                {
                    std::thread::yield_now();
                }
                started => return started.expect("a program"),
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_spinning_program_is_in_the_idle_class() {
        let (_directory, path) = written("spin", &spin());
        let mut child = started(&path);
        let policy = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("stat");
            StatLine::parse(&stat).expect("a line").field(41).map(str::to_owned)
        };
        while policy().as_deref() != Some("5") {
            std::thread::yield_now();
        }
        child.kill().expect("a signal");
        child.wait().expect("its end");
    }

    #[test]
    fn the_programs_have_the_lengths_that_their_headers_state() {
        for program in [pause(), spin(), port_storm()] {
            let stated = u64::from_le_bytes(program[96..104].try_into().expect("8 bytes"));
            assert_eq!(stated, program.len() as u64);
            assert_eq!(&program[..4], b"\x7fELF");
        }
    }
}
