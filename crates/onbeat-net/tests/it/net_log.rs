//! Run files over UDP: the same bytes when nothing is lost, and exact counts when something is.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_net::address::AddressRange;
use onbeat_net::packet::PacketError;
use onbeat_net::run_log::assembly::{MOST_EARLY, RunAssembly};
use onbeat_net::run_log::wire::{self, LogMessage, LogPart, LogReceipt};
use onbeat_net::run_log::{LogServer, LogServerOptions, LogShipment, LogShipper, ShippedRun};
use proptest::prelude::*;

const NAME: &str = "2026-11-23T12-00-00/rtt.onbeat.hlog";

fn part<'m>(number: u64, line: u64, begins_line: bool, bytes: &'m [u8]) -> LogPart<'m> {
    LogPart {
        session: 7,
        number,
        line,
        begins_line,
        is_last: false,
        wants_receipt: false,
        name: NAME,
        bytes,
    }
}

/// Cuts lines into parts of at most `room` bytes: whole lines, or pieces of one; the last part ends
/// them.
fn parts(lines: &[Vec<u8>], room: usize) -> Vec<LogPart<'_>> {
    let mut all = Vec::new();
    for (line, bytes) in lines.iter().enumerate() {
        for (place, piece) in bytes.chunks(room).enumerate() {
            all.push(part(all.len() as u64, line as u64, place == 0, piece));
        }
    }
    let last = part(all.len() as u64, lines.len() as u64, true, &[]);
    all.push(LogPart { is_last: true, ..last });
    all
}

fn without_remarks(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"#[onbeat: {\"remark\"")).flatten().copied().collect()
}

proptest! {
    /// Each line of which a part is missing is left out, every other one is there, in order.
    #[test]
    fn lines_are_whole_and_what_is_missing_is_counted(
        sizes in proptest::collection::vec(1_usize..60, 1..80),
        lost in proptest::collection::btree_set(0_usize..300, 0..20),
        swapped in proptest::collection::btree_set(0_usize..300, 0..20),
        twice in proptest::collection::btree_set(0_usize..300, 0..20),
    ) {
        let line = |(place, size): (usize, &usize)| {
            let mut line = vec![b'a' + (place % 26) as u8; *size];
            line.push(b'\n');
            line
        };
        let lines: Vec<Vec<u8>> = sizes.iter().enumerate().map(line).collect();
        let parts = parts(&lines, 16);
        let last = parts.len() - 1;
        let mut order: Vec<usize> = (0..parts.len()).collect();
        for place in swapped.iter().filter(|place| **place + 1 < last) {
            order.swap(*place, place + 1);
        }

        let mut assembly = RunAssembly::default();
        let mut out = Vec::new();
        let is_lost = |number: usize| number != last && lost.contains(&number);
        let mut repeated = 0;
        for number in order.into_iter().filter(|number| !is_lost(*number)) {
            assembly.take(&parts[number], &mut out);
            if twice.contains(&number) {
                assembly.take(&parts[number], &mut out);
                repeated += 1;
            }
        }
        assembly.give_up(&mut out);

        let torn: BTreeSet<u64> = (0..last)
            .filter(|number| is_lost(*number))
            .map(|number| parts[number].line)
            .collect();
        let whole: Vec<u8> = lines
            .iter()
            .enumerate()
            .filter(|(line, _)| !torn.contains(&(*line as u64)))
            .flat_map(|(_, bytes)| bytes.clone())
            .collect();
        prop_assert_eq!(without_remarks(&out), whole);
        let counts = assembly.counts();
        prop_assert_eq!(counts.lost_lines, torn.len() as u64);
        prop_assert_eq!(counts.lines + counts.lost_lines, lines.len() as u64);
        let lost_parts = (0..last).filter(|number| is_lost(*number)).count() as u64;
        prop_assert_eq!(counts.lost_parts, lost_parts);
        prop_assert_eq!(counts.parts + counts.lost_parts, parts.len() as u64);
        prop_assert_eq!(counts.duplicates, repeated);
        prop_assert!(assembly.is_over());
    }

    #[test]
    fn any_bytes_are_decoded_or_rejected(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), whole in any::<bool>()) {
        let _ = wire::decode(&bytes);
        // The same with a valid beginning, so that names are reached.
        if bytes.len() >= wire::LOG_HEADER_BYTES && whole {
            bytes[..4].copy_from_slice(&wire::LOG_MAGIC);
            bytes[4] = wire::LOG_VERSION;
            bytes[5] = 1 + bytes[5] % 2;
            let length = (bytes.len() as u32).to_le_bytes();
            bytes[12..16].copy_from_slice(&length);
            let _ = wire::decode(&bytes);
        }
    }
}

#[test]
fn a_part_that_never_comes_is_given_up_when_too_many_wait_for_it() {
    let mut assembly = RunAssembly::default();
    let mut out = Vec::new();
    for number in 1..=MOST_EARLY as u64 {
        assembly.take(&part(number, number, true, b"line\n"), &mut out);
    }
    assert_eq!((assembly.counts().parts, out.len()), (0, 0), "all wait for part 0");
    let next = MOST_EARLY as u64 + 1;
    assembly.take(&part(next, next, true, b"line\n"), &mut out);
    let counts = assembly.counts();
    assert_eq!((counts.lost_parts, counts.lost_lines, counts.lines), (1, 1, next));
    assembly.take(&part(0, 0, true, b"late\n"), &mut out);
    assert_eq!(assembly.counts().duplicates, 1, "too late");
}

#[test]
fn every_field_comes_back_and_names_lead_nowhere_else() {
    let mut message = Vec::new();
    let sent = LogPart { is_last: true, wants_receipt: true, ..part(3, 9, true, b"a line\n") };
    sent.write(&mut message);
    assert_eq!(wire::decode(&message), Ok(LogMessage::Part(sent)));
    let receipt = LogReceipt { session: 7, number: 3, received: 4, without_room: 1 };
    let mut answer = Vec::new();
    receipt.write(&mut answer);
    assert_eq!(wire::decode(&answer), Ok(LogMessage::Receipt(receipt)));

    for name in [
        "../x.onbeat.hlog",
        "a/../x.onbeat.hlog",
        "a/b/x.onbeat.hlog",
        "a/x.txt",
        "/x.onbeat.hlog",
        "a/.onbeat.hlog",
        "",
    ] {
        let mut message = Vec::new();
        LogPart { name, ..sent }.write(&mut message);
        let bytes = name.len() as u8;
        assert_eq!(wire::decode(&message), Err(PacketError::Name { bytes }), "{name}");
    }
}

fn options(out: &Path) -> LogServerOptions {
    LogServerOptions {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        allow: AddressRange::LOOPBACK.into(),
        out: out.to_owned(),
        writer_pause: Duration::ZERO,
    }
}

/// Stops a server also when what is tried with it panics, so that nobody waits for it.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `body` with a server's address; returns the server and the runs that it received.
fn with_server(
    options: LogServerOptions,
    body: impl FnOnce(&LogServer, SocketAddr),
) -> (LogServer, Vec<ShippedRun>) {
    let server = LogServer::open(options).expect("a port");
    let stop = AtomicBool::new(false);
    let mut runs = Vec::new();
    thread::scope(|threads| {
        let mut ended = |run| runs.push(run);
        let (server, stop) = (&server, &stop);
        let serving = threads.spawn(move || server.serve(stop, &mut ended));
        {
            let _stop = StopAtEnd(stop);
            body(server, server.address().expect("bound"));
        }
        serving.join().expect("no panic").expect("served");
    });
    (server, runs)
}

/// Waits until something that only grows has reached a number.
fn wait_until(mut reached: impl FnMut() -> u64, number: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while reached() < number {
        assert!(Instant::now() < until, "{} of {number} after a minute", reached());
        thread::sleep(Duration::from_millis(1));
    }
}

/// A file with the header's five lines, short ones and one longer than many packets.
fn content() -> String {
    let mut text: String = (0..5).map(|line| format!("#[header line {line}]\n")).collect();
    (0..400).for_each(|line| text += &format!("0.{line},1.000,0.069,HISTF{}\n", "A".repeat(line)));
    text += &format!("#[long {}]\n", "b".repeat(100_000));
    (0..400).for_each(|line| text += &format!("1.{line},1.000,0.069,HISTFend\n"));
    text
}

/// Sends a file that grows in pieces.
fn shipped(to: SocketAddr, folder: &Path, content: &str) -> LogShipment {
    let path = folder.join("2026-run").join("rtt.onbeat.hlog");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let shipper = LogShipper::start(&to.to_string(), &path, None).expect("a server");
    for end in [content.len() / 3, content.len() / 2, content.len()] {
        fs::write(&path, &content[..end]).unwrap();
        thread::sleep(Duration::from_millis(60));
    }
    shipper.finish()
}

#[test]
fn a_growing_run_file_arrives_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let text = content();
    let mut shipment = LogShipment::default();
    let (server, runs) = with_server(options(&folder.path().join("out")), |_, address| {
        shipment = shipped(address, folder.path(), &text);
    });

    assert_eq!((shipment.lost(), shipment.lines), (Some(0), text.lines().count() as u64));
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert!(run.is_complete && run.failed.is_none(), "{run:?}");
    assert_eq!((run.counts.lost_parts, run.counts.lines), (0, shipment.lines));
    assert_eq!(fs::read_to_string(&run.path).unwrap(), text);
    assert_eq!(server.counts.without_room.load(Ordering::Relaxed), 0);
    assert_eq!(server.counts.invalid.load(Ordering::Relaxed), 0);
}

/// Passes datagrams on to the server, but for parts of these numbers, and receipts back, however
/// late they come.
fn lossy(front: &UdpSocket, server: SocketAddr, lost: &[u64], stop: &AtomicBool) {
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(server).unwrap();
    for socket in [front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }

    let client = OnceLock::new();
    thread::scope(|threads| {
        threads.spawn(|| pass_receipts(&back, front, &client, stop));
        let mut bytes = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = front.recv_from(&mut bytes) else { continue };
            client.get_or_init(|| from);
            let Ok(LogMessage::Part(part)) = wire::decode(&bytes[..length]) else {
                panic!("a part")
            };
            if !lost.contains(&part.number) {
                back.send(&bytes[..length]).unwrap();
            }
        }
    });
}

fn pass_receipts(
    back: &UdpSocket,
    front: &UdpSocket,
    client: &OnceLock<SocketAddr>,
    stop: &AtomicBool,
) {
    let mut bytes = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        // The server answers nothing but what a client has sent.
        if let (Ok(length), Some(client)) = (back.recv(&mut bytes), client.get()) {
            front.send_to(&bytes[..length], client).unwrap();
        }
    }
}

#[test]
fn what_is_lost_on_the_way_is_counted_at_both_ends_and_said_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = content();
    let lost = [20, 21, 22, 60, 80];
    let stop = AtomicBool::new(false);
    let mut shipment = LogShipment::default();
    let (_, runs) = with_server(options(&folder.path().join("out")), |_, server| {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        // As much as the kernel allows, which is more than the whole file: nothing else is lost.
        rustix::net::sockopt::set_socket_recv_buffer_size(&front, 8 << 20).unwrap();
        let address = front.local_addr().unwrap();
        thread::scope(|threads| {
            threads.spawn(|| lossy(&front, server, &lost, &stop));
            let _stop = StopAtEnd(&stop);
            shipment = shipped(address, folder.path(), &text);
        });
    });

    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!((run.counts.lost_parts, shipment.lost()), (5, Some(5)));
    assert!(run.is_complete && run.counts.lost_lines > 0);
    assert_eq!(run.counts.lines + run.counts.lost_lines, shipment.lines);
    let written = fs::read_to_string(&run.path).unwrap();
    assert!(written.contains("were lost on their way to the logging server"), "{written}");
    let all: Vec<&str> = text.lines().collect();
    let kept: Vec<&str> = written.lines().filter(|line| !line.contains("\"remark\"")).collect();
    assert_eq!(kept.len() as u64, run.counts.lines);
    let mut rest = all.iter();
    assert!(kept.iter().all(|line| rest.any(|other| other == line)), "whole lines, in order");
}

#[test]
fn the_socket_thread_does_not_wait_for_the_disk_and_counts_what_finds_no_room() {
    const SENT: u64 = 8_000;
    const MOST_UNREAD: u64 = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let writer_pause = Duration::from_millis(1500);
    let slow = LogServerOptions { writer_pause, ..options(folder.path()) };
    let mut drops = None;
    let (server, runs) = with_server(slow, |server, address| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        for number in 0..SENT {
            let mut message = Vec::new();
            part(number, number, true, &line).write(&mut message);
            socket.send_to(&message, address).unwrap();
            // What the kernel has no room for is another account.
            let unread = || (number + 1) - server.counts.received.load(Ordering::Relaxed);
            while unread() > MOST_UNREAD && server.kernel_drops() == Some(0) {
                thread::yield_now();
            }
        }
        // The socket is empty before the server is stopped.
        let taken = || {
            drops = server.kernel_drops();
            server.counts.received.load(Ordering::Relaxed) + drops.unwrap_or(0)
        };
        wait_until(taken, SENT);
    });

    let drops = drops.unwrap_or(0);
    let [received, without_room] = [&server.counts.received, &server.counts.without_room]
        .map(|count| count.load(Ordering::Relaxed));
    assert_eq!(received + drops, SENT, "all were taken while the writer slept");
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(run.counts.parts, received - without_room);
    assert_eq!(run.counts.lines, run.counts.parts);
    println!("{without_room} of {SENT} datagrams without room, {drops} dropped by the kernel");
}

#[test]
fn a_run_that_cannot_be_written_is_reported_once_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir_all(&out).unwrap();
    // Where the run's directory would be is a file.
    fs::write(out.join("2026-11-23T12-00-00-00000007"), "in the way").unwrap();
    let (server, runs) = with_server(options(&out), |server, address| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in 0..50 {
            for session in [7, 8] {
                let mut message = Vec::new();
                let mut part = LogPart { session, ..part(number, number, true, b"line\n") };
                part.is_last = number == 49;
                part.write(&mut message);
                socket.send_to(&message, address).unwrap();
            }
            wait_until(|| server.counts.received.load(Ordering::Relaxed), 2 * (number + 1));
        }
    });

    assert_eq!(server.counts.received.load(Ordering::Relaxed), 100);
    let failed: Vec<_> = runs.iter().filter(|run| run.failed.is_some()).collect();
    let [one] = failed[..] else { panic!("{runs:?}") };
    assert!(one.path.starts_with(out.join("2026-11-23T12-00-00-00000007")), "{one:?}");
    let [whole] = runs.iter().filter(|run| run.failed.is_none()).collect::<Vec<_>>()[..] else {
        panic!("{runs:?}")
    };
    assert!(whole.is_complete && whole.counts.lost_parts == 0, "{whole:?}");
    assert_eq!(fs::read_to_string(&whole.path).unwrap(), "line\n".repeat(50));
}

#[test]
fn nobody_but_those_who_are_allowed_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let allow = vec!["10.0.0.0/8".parse().unwrap()];
    let (server, runs) =
        with_server(LogServerOptions { allow, ..options(folder.path()) }, |_, address| {
            let path = folder.path().join("run/rtt.onbeat.hlog");
            let why = LogShipper::start(&address.to_string(), &path, None).expect_err("no answer");
            assert!(why.to_string().contains("no logging server answers"), "{why}");
        });
    assert!(runs.is_empty());
    assert!(server.counts.refused.load(Ordering::Relaxed) > 0);
}
