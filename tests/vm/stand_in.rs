//! QEMU as far as onbeat sees it: a control socket, a saved state, a stream.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a guest sends whose job has written nothing.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// How long a guest boots or runs its job. Tests kill at fractions of the whole, whatever it is.
const WORKS_FOR: Duration = Duration::from_millis(60);
/// The ELF note of kernels that are booted directly: its entry point.
const PVH_NOTE: u32 = 18;

/// The smallest file that passes for a kernel: an ELF file with one note.
pub(crate) fn kernel() -> Vec<u8> {
    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (at, value) in [(16, 2), (18, 62), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1)] {
        elf[at] = value;
    }
    let mut segment = [0; 56];
    for (at, value) in [(0, 4), (8, 120), (32, 20), (40, 20), (48, 4)] {
        segment[at] = value;
    }

    elf.extend_from_slice(&segment);
    for word in [4, 4, PVH_NOTE] {
        elf.extend_from_slice(&word.to_le_bytes());
    }
    elf.extend_from_slice(b"Xen\0\x10\0\0\x01");
    elf
}

/// The word by which this program is a QEMU whose threads are to be placed.
pub(crate) const WITH_THREADS: &str = "with-threads";

/// Behaves as a QEMU with a thread for a virtual CPU and another one, until it is killed.
pub(crate) fn run_with_threads() -> ExitCode {
    let (sender, threads) = std::sync::mpsc::channel();
    for name in ["CPU 0/TCG", "worker"] {
        let sender = sender.clone();
        let body = move || {
            sender.send(rustix::thread::gettid()).unwrap();
            loop {
                std::thread::park();
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
    }

    let threads: Vec<_> = threads.iter().take(2).collect();
    let thread = threads[0].as_raw_nonzero();
    let listener = UnixListener::bind("qmp").unwrap();
    for connection in listener.incoming() {
        // A client that is killed closes its end.
        let _ = answer_with(connection.unwrap(), &format!("[{{\"thread-id\": {thread}}}]"));
    }
    ExitCode::SUCCESS
}

/// Answers `query-cpus-fast` with `cpus`, and all else with nothing.
fn answer_with(mut connection: UnixStream, cpus: &str) -> std::io::Result<()> {
    let lines = BufReader::new(connection.try_clone()?).lines();
    writeln!(connection, "{{\"QMP\": {{}}}}")?;
    for line in lines {
        let asks_for_cpus = line?.contains("query-cpus-fast");
        let answer = if asks_for_cpus { cpus } else { "{}" };
        writeln!(connection, "{{\"return\": {answer}}}")?;
    }
    Ok(())
}

/// Behaves as QEMU in the guest's directory, which is the working directory.
pub(crate) fn run() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "--version") {
        println!("QEMU emulator version 7.2 (stand-in)");
        return ExitCode::SUCCESS;
    }

    let restored = words.iter().any(|word| word == "-incoming");
    let listener = UnixListener::bind("qmp").unwrap();
    let (connection, _) = listener.accept().unwrap();
    if restored {
        answer(connection, "paused", true);
    } else {
        answer(connection, "guest-panicked", false);
    }
    ExitCode::SUCCESS
}

/// Answers commands: the state is `after` once the guest has worked; at `cont` it runs its job.
fn answer(mut connection: UnixStream, after: &str, runs: bool) {
    let since = Instant::now();
    let lines = BufReader::new(connection.try_clone().unwrap()).lines();
    writeln!(connection, "{{\"QMP\": {{}}}}").unwrap();
    for line in lines.map_while(Result::ok) {
        let asked: serde_json::Value = serde_json::from_str(&line).unwrap();
        let state = if since.elapsed() < WORKS_FOR { "inmigrate" } else { after };
        let answer = match asked["execute"].as_str().unwrap_or_default() {
            "query-status" => format!("{{\"status\": \"{state}\"}}"),
            "query-migrate" => "{\"status\": \"completed\"}".to_owned(),
            "migrate" => {
                fs::write("snapshot", "half").unwrap();
                std::thread::sleep(WORKS_FOR);
                fs::write("snapshot", "the whole state").unwrap();
                "{}".to_owned()
            }
            _ => "{}".to_owned(),
        };
        writeln!(connection, "{{\"return\": {answer}}}").unwrap();

        if runs && asked["execute"] == "cont" {
            std::thread::sleep(WORKS_FOR);
            let file = |name| format!("onbeat file 0 {NOTHING} {name}\n\n");
            let files = [file("errors"), file("output")].concat();
            fs::write("stream", format!("onbeat ready 6.1\n{files}onbeat end 0 2\n")).unwrap();
            return;
        }
    }
}
