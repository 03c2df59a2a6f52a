//! The limits of the project that no lint holds, checked on the tracked files.
//!
//! Each check is a function from files to findings (`path:line: what`), a test that the repository
//! has none, and a test that a planted violation is found, because a check that cannot fail is
//! useless.

mod direction;
mod source;

use source::{Source, code, code_without_tests, line_of, paths, tracked, words};

type Check = fn(&[Source]) -> Vec<String>;

/// Asserts that the repository has no finding.
fn holds(check: Check) {
    let found = check(&tracked());
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}

/// Asserts a finding at `line` of a planted file, and none in its correct counterpart.
fn catches(check: Check, path: &str, wrong: &str, line: usize, right: &str) {
    let found = check(&[Source::planted(path, wrong)]);
    let place = format!("{path}:{line}:");
    assert!(
        found.iter().any(|finding| finding.starts_with(&place)),
        "{place} is not among {found:?}"
    );
    let found = check(&[Source::planted(path, right)]);
    assert!(found.is_empty(), "{found:?}");
}

fn rust_below<'s>(sources: &'s [Source], folder: &'s str) -> impl Iterator<Item = &'s Source> {
    sources
        .iter()
        .filter(move |source| source.path.starts_with(folder) && source.has_extension(&["rs"]))
}

// ---- unsafe

/// Largest distance from an `unsafe` up to its reason, in lines without a blank line between.
const REASON_WITHIN: usize = 6;

/// Files that may contain `unsafe`, with its purpose: what neither the standard library nor rustix
/// offers safely.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/onbeat-host/src/bpf.rs", "bpf(2), which no library wraps plainly"),
    ("crates/onbeat-host/src/rights.rs", "the database of users, and the switch to another user"),
    ("crates/onbeat-c/src/delayed_lock.rs", "pointers that C hands over"),
    ("crates/onbeat-c/src/last_error.rs", "names of functions that C calls"),
    ("crates/onbeat-robot/tests/robot_memory.rs", "an allocator that counts"),
    ("crates/onbeat-c/src/ring.rs", "pointers that C hands over"),
    ("crates/onbeat-c/src/run_loop.rs", "pointers that C hands over"),
    ("crates/onbeat-c/tests/c_library.rs", "reads the sentence that C reads"),
    ("crates/onbeat-cause/src/bpf.rs", "arrays that programs and this process share"),
    (
        "crates/onbeat-cause/src/probe_price.rs",
        "a function of known instructions, mapped and called to measure what probes of it cost",
    ),
    ("crates/onbeat-ethercat/src/carrier/socket_option.rs", "options of sockets that rustix lacks"),
    (
        "crates/onbeat-ethercat/src/carrier/interface.rs",
        "the address of a raw socket, the request of a TAP device",
    ),
    (
        "crates/onbeat-ethercat/src/carrier/packet_ring.rs",
        "frames in memory that the kernel shares",
    ),
    (
        "crates/onbeat-ethercat/src/carrier/private_cable.rs",
        "a network namespace of a thread of its own",
    ),
    (
        "crates/onbeat-ethercat/src/carrier/link_watch.rs",
        "state, MTU and number of an interface by ioctl",
    ),
    (
        "crates/onbeat-ethercat/src/carrier/xdp/frame_memory.rs",
        "frames in memory that the kernel shares",
    ),
    ("crates/onbeat-ethercat/src/carrier/xdp/ring.rs", "entries in memory that the kernel shares"),
    (
        "crates/onbeat-ethercat/src/carrier/xdp/queues.rs",
        "the number of an interface's queues by ioctl",
    ),
    ("crates/onbeat-ethercat/src/carrier/xdp/socket.rs", "options and address of an AF_XDP socket"),
    (
        "crates/onbeat-ethercat/tests/it/xdp_beside_others.rs",
        "a network namespace of a thread's own",
    ),
    ("crates/onbeat-control/src/abi.rs", "what may lie in shared memory"),
    ("crates/onbeat-control/src/frames/memory.rs", "pixels in memory that processes share"),
    (
        "crates/onbeat-camera/src/convert/vector.rs",
        "vector instructions, and their loads and stores",
    ),
    ("crates/onbeat-camera/src/convert/blocks.rs", "blocks of pixels by vector instructions"),
    ("crates/onbeat-camera/src/convert/streaming.rs", "stores past the caches, and hints"),
    ("crates/onbeat-control/src/lock.rs", "what may lie in shared memory"),
    ("crates/onbeat-control/src/map.rs", "memory that processes share"),
    ("crates/onbeat-host/src/peer.rs", "process and user behind a socket, which may be no process"),
    ("crates/onbeat-control/src/truncation.rs", "a signal handler that replaces mapped memory"),
    ("crates/onbeat-control/src/stats.rs", "what may lie in shared memory"),
    ("crates/onbeat/src/inject/file_locks.rs", "locks of an open file, by fcntl"),
    ("crates/onbeat/src/inject/in_loop_files.rs", "a mapped file whose pages are not in memory"),
    ("crates/onbeat/src/inject/in_loop.rs", "pages taken and given back in a cycle"),
    ("crates/onbeat/src/inject/outside.rs", "a process that shares memory with the injector"),
    ("crates/onbeat/src/inject/softirq.rs", "a socket option that only libc has"),
    ("crates/onbeat/src/probe/ports/stamped.rs", "the kernel's time stamps of datagrams"),
    ("crates/onbeat-rt/src/ring.rs", "slots shared by two threads"),
    ("crates/onbeat-rt/src/sys.rs", "clock reads and the sleep, without std"),
    ("crates/onbeat-rt/src/sys/datagram.rs", "packets with the kernel's time stamps, without std"),
    ("crates/onbeat/src/load/leader.rs", "handlers of the signals that end a load"),
    ("crates/onbeat/src/load/memory.rs", "pages mapped and unmapped as a load"),
    ("crates/onbeat/src/load/ordinary.rs", "the policy of a load's threads"),
    (
        "crates/onbeat/src/load/reap.rs",
        "what happens between fork and exec; the CPU time of dead children",
    ),
    ("crates/onbeat-host/src/policy.rs", "policy of any thread"),
    ("crates/onbeat-host/src/syscall_filter.rs", "the seccomp system call"),
    ("crates/onbeat-host/src/thread/memory.rs", "the allocator's parameters"),
    ("crates/onbeat-host/src/thread/scheduling.rs", "policy and signal mask of the loop's thread"),
    ("crates/onbeat-host/src/thread/usage.rs", "the kernel's counters of one thread"),
    (
        "crates/onbeat-tune/src/guard.rs",
        "signals to ignore, descriptors to close and pages to give back in a process of one thread",
    ),
    ("crates/onbeat-rt/tests/it/interleavings/ring.rs", "the broken twin of the ring"),
    ("crates/onbeat-lab/src/joined/page.rs", "a page of memory that host and guest share"),
    ("crates/onbeat-lab/src/net/namespace.rs", "a network namespace of a thread of its own"),
    ("crates/onbeat-lab/src/vm/pm_timer.rs", "an I/O port of a guest's"),
    ("crates/onbeat-lab/src/vm/process.rs", "what happens between fork and exec"),
    ("crates/onbeat-robot/tests/it/bus_interface.rs", "a network namespace of a thread's own"),
    ("crates/onbeat-cli/tests/it/network_namespace.rs", "a network namespace of a thread's own"),
    ("crates/onbeat/tests/it/inject_stop.rs", "a thread that waits for a child by vfork"),
    ("crates/onbeat/tests/it/load_ends.rs", "the policy of a starter"),
];

fn unsafe_lines(source: &Source) -> Vec<usize> {
    let code = code(&source.text);
    words(&code, "unsafe").map(|place| line_of(&code, place.start)).collect()
}

fn unsafe_without_a_reason(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension(&["rs"])) {
        let lines: Vec<&str> = source.text.lines().collect();
        for line in unsafe_lines(source) {
            let above = lines[..line]
                .iter()
                .rev()
                .take(1 + REASON_WITHIN)
                .take_while(|line| !line.trim().is_empty());
            if !above.clone().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                found.push(source.at(line, "unsafe without a `SAFETY:` reason just above"));
            }
        }
    }

    found
}

fn unsafe_elsewhere(sources: &[Source]) -> Vec<String> {
    let listed = |source: &Source| UNSAFE_FILES.iter().any(|(path, _)| *path == source.path);
    let found = sources.iter().filter(|source| source.has_extension(&["rs"]) && !listed(source));
    found
        .flat_map(|source| {
            unsafe_lines(source)
                .into_iter()
                .map(|line| source.at(line, "unsafe in a file not listed"))
        })
        .collect()
}

#[test]
fn every_unsafe_gives_its_reason() {
    holds(unsafe_without_a_reason);
}

#[test]
fn an_unsafe_impl_without_a_reason_is_found() {
    let wrong = "struct A;\n\n// It is fine.\nunsafe impl Send for A {}\n";
    let right = "// SAFETY: one thread at a time.\nunsafe impl Send for A {}\nconst WORD: &str = \"unsafe\"; // unsafe\n";
    catches(unsafe_without_a_reason, "crates/onbeat-rt/src/ring.rs", wrong, 4, right);
}

#[test]
fn unsafe_stands_only_in_the_files_that_are_listed() {
    holds(unsafe_elsewhere);
}

#[test]
fn unsafe_in_a_file_not_listed_is_found() {
    let wrong = "fn f() {\n    // SAFETY: planted.\n    unsafe { g() }\n}\n";
    catches(
        unsafe_elsewhere,
        "crates/onbeat-figures/src/table.rs",
        wrong,
        3,
        "#![allow(unsafe_code)]\n",
    );
}

#[test]
fn every_file_listed_for_unsafe_exists_and_needs_it() {
    let sources = tracked();
    for (path, _) in UNSAFE_FILES {
        let needs =
            sources.iter().any(|source| source.path == *path && !unsafe_lines(source).is_empty());
        assert!(needs, "{path} holds no unsafe any more; take it off the list");
    }
}

// ---- direction

fn what_the_hot_crate_may_not_name(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in rust_below(sources, "crates/onbeat-rt/src/") {
        let code = code_without_tests(&source.text);
        for name in ["std", "alloc", "onbeat"] {
            let named = paths(&code, name).into_iter();
            found.extend(
                named.map(|(line, path)| source.at(line, &format!("the hot crate names {path}"))),
            );
        }

        found.extend(words(&code, "extern crate").map(|place| {
            source.at(line_of(&code, place.start), "the hot crate links a crate by hand")
        }));
    }

    let manifest = sources.iter().filter(|source| source.path == "crates/onbeat-rt/Cargo.toml");
    found.extend(manifest.flat_map(|source| {
        let of_all_builds = |(_, line): &(usize, &str)| !line.starts_with('[');
        let from = source.lines().skip_while(|(_, line)| *line != "[dependencies]").skip(1);
        let foreign =
            |line: &str| !line.is_empty() && !line.starts_with('#') && !line.starts_with("libc ");
        from.take_while(of_all_builds)
            .filter(|(_, line)| foreign(line))
            .map(|(number, _)| source.at(number, "the hot crate depends on libc only"))
            .collect::<Vec<_>>()
    }));

    found
}

#[test]
fn the_hot_crate_names_neither_the_cold_one_nor_std() {
    holds(what_the_hot_crate_may_not_name);
}

#[test]
fn the_hot_crate_naming_std_is_found() {
    let path = "crates/onbeat-rt/src/cycle.rs";
    let right = "//! See `onbeat::thread`.\nuse core::cell::Cell;\n#[cfg(all(test, not(loom)))]\nmod tests {\n    use std::vec::Vec;\n}\n";
    catches(
        what_the_hot_crate_may_not_name,
        path,
        "use core::cell::Cell;\nuse std::vec::Vec;\n",
        2,
        right,
    );

    catches(
        what_the_hot_crate_may_not_name,
        path,
        "fn f() {\n    onbeat::thread::lockdown();\n}\n",
        2,
        right,
    );

    let manifest = |line| {
        format!(
            "[dependencies]\nlibc = {{ workspace = true }}\n{line}\n[dev-dependencies]\nproptest = \"1\"\n"
        )
    };

    let path = "crates/onbeat-rt/Cargo.toml";
    catches(
        what_the_hot_crate_may_not_name,
        path,
        &manifest("rtrb = \"0.4\""),
        3,
        &manifest("# nothing else"),
    );
}

// ---- reports

fn forbidden_uses_in_reports(sources: &[Source]) -> Vec<String> {
    const FORBIDDEN: [&str; 7] = [
        "std::fs",
        "std::env",
        "std::time::Instant",
        "std::time::SystemTime",
        "std::net",
        "std::process",
        "std::thread",
    ];
    let mut found = Vec::new();
    let pure = ["crates/onbeat-figures/src/", "crates/onbeat-report/src/"];
    for source in pure.into_iter().flat_map(|folder| rust_below(sources, folder)) {
        let code = code_without_tests(&source.text);
        for (line, path) in paths(&code, "std")
            .into_iter()
            .chain(paths(&code, "onbeat_rt"))
            .chain(paths(&code, "rustix"))
        {
            let clock = path.starts_with("onbeat_rt::") || path.starts_with("rustix::");
            if clock || FORBIDDEN.iter().any(|forbidden| path.starts_with(forbidden)) {
                found.push(
                    source.at(line, &format!("reports are pure functions, and this uses {path}")),
                );
            }
        }
    }

    found
}

#[test]
fn reports_ask_no_clock_no_file_and_no_environment() {
    holds(forbidden_uses_in_reports);
}

#[test]
fn a_report_that_reads_a_clock_is_found() {
    let right = "use std::time::Duration;\nuse std::{collections::BTreeMap, fmt};\n";
    let path = "crates/onbeat-report/src/page.rs";
    catches(
        forbidden_uses_in_reports,
        path,
        "use std::{\n    fmt, time::{Duration, Instant},\n};\n",
        1,
        right,
    );
    catches(
        forbidden_uses_in_reports,
        path,
        "\nfn f() -> u64 {\n    std::fs::metadata(\"x\").len()\n}\n",
        3,
        right,
    );
}

/// Crates that never print, exit or read the command line.
const LIBRARIES: [&str; 16] = [
    "crates/onbeat-rt/src/",
    "crates/onbeat-host/src/",
    "crates/onbeat-tune/src/",
    "crates/onbeat-ethercat/src/",
    "crates/onbeat-segment/src/",
    "crates/onbeat-control/src/",
    "crates/onbeat-cause/src/",
    "crates/onbeat-record/src/",
    "crates/onbeat-figures/src/",
    "crates/onbeat-report/src/",
    "crates/onbeat/src/",
    "crates/onbeat-net/src/",
    "crates/onbeat-robot/src/",
    "crates/onbeat-lab/src/",
    "crates/onbeat-watch/src/",
    "crates/onbeat-c/src/",
];

fn forbidden_uses_in_libraries(sources: &[Source]) -> Vec<String> {
    const MACROS: [&str; 5] = ["println", "eprintln", "print", "eprint", "dbg"];
    const CALLS: [&str; 4] = ["process::exit", "process::abort", "env::args", "env::args_os"];
    let libraries = LIBRARIES;
    let mut found = Vec::new();
    for source in libraries.iter().flat_map(|folder| rust_below(sources, folder)) {
        let code = code_without_tests(&source.text);
        for name in MACROS {
            let used = words(&code, name).filter(|place| code[place.end..].starts_with('!'));
            found.extend(used.map(|place| {
                source.at(line_of(&code, place.start), &format!("the library uses {name}!"))
            }));
        }

        for name in CALLS {
            let used = words(&code, name);
            found.extend(used.map(|place| {
                source.at(line_of(&code, place.start), &format!("the library uses {name}"))
            }));
        }
    }

    found
}

#[test]
fn the_library_never_prints_never_exits_and_never_reads_its_arguments() {
    holds(forbidden_uses_in_libraries);
}

#[test]
fn a_library_that_prints_or_exits_is_found() {
    let right =
        "//! It does not `println!`.\nconst WORD: &str = \"println!\";\nfn print_nothing() {}\n";
    let path = "crates/onbeat-host/src/machine.rs";
    catches(forbidden_uses_in_libraries, path, "fn f() {\n    println!(\"now\");\n}\n", 2, right);
    catches(
        forbidden_uses_in_libraries,
        path,
        "fn f() {\n    std::process::exit(1);\n}\n",
        2,
        right,
    );

    catches(
        forbidden_uses_in_libraries,
        path,
        "fn f() -> usize {\n    std::env::args().count()\n}\n",
        2,
        right,
    );
}

#[path = "product.rs"]
mod product;

#[path = "words_used.rs"]
mod words_used;
