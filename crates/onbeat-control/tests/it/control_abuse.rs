//! What a client may do to its descriptors, its socket and its memory; and the bus goes on.

use crate::control_world;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use control_world::{
    BYTES, PATIENCE, client, exchange, kinds, layout, number_of, pattern, print_line, role,
    unique_name, until,
};
use onbeat_control::{
    BusSide, Client, ControlError, Counter, Image, ImageSettings, Refusal, Sharing,
};
use onbeat_ethercat::event::EventKind;
use onbeat_host::runtime_dir::RuntimeDir;
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::{Errno, pwrite};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};

const CLAIM_OUTPUTS: u32 = 1;
const GRANTED: u32 = 2;

#[test]
fn in_another_process() {
    let Some(words) = role() else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };
    assert_eq!(words[0], "open");
    match Client::open(&words[1]) {
        Ok(client) => print_line(&format!("open, claims: {}", client.claim().is_ok())),
        Err(ControlError::Refused { why, .. }) => print_line(&format!("{why:?}")),
        Err(other) => print_line(&other.to_string()),
    }
}

/// A sequence of numbers without a pattern (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next().to_ne_bytes()).take(count).collect()
    }
}

/// A client that does what it likes.
struct Raw(OwnedFd);

impl Raw {
    fn connect(name: &str) -> Self {
        let directory = RuntimeDir::own().unwrap();
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let path = directory.short_path(&format!("{name}.sock"));
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Self(socket)
    }

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut SendAncillaryBuffer::default(), flags)
    }

    /// Returns the kind of the next message, 0 at the end, and its descriptors.
    fn receive(&self) -> (u32, Vec<OwnedFd>) {
        let mut bytes = [0; 2048];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        let length = received.map_or(0, |received| received.bytes);
        let kind = bytes.first_chunk().filter(|_| length >= 4);
        (kind.map_or(0, |kind| u32::from_ne_bytes(*kind)), descriptors)
    }

    fn ask(kind: u32) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }
}

fn bus(settings: impl Into<ImageSettings>) -> (String, BusSide) {
    let name = unique_name();
    let mut bus = Image::create(&name, &layout(), settings).unwrap();
    exchange(&mut bus, 1);
    (name, bus)
}

/// Ends a thread also where an assertion fails beside it: a scope waits for its threads.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs cycles in another thread while `abuse` runs; then a client must see the newest one.
fn while_the_bus_runs(bus: &mut BusSide, name: &str, abuse: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let last = AtomicU64::new(0);
    thread::scope(|threads| {
        let runs = threads.spawn(|| {
            for number in 2.. {
                let sent = exchange(bus, number);
                assert_eq!(sent.len(), BYTES);
                last.store(number, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let ends = Ends(&is_over);
        abuse();
        let before = last.load(Ordering::Relaxed);
        until("cycles go on", || last.load(Ordering::Relaxed) > before);
        drop(ends);
        runs.join().unwrap();
    });
    exchange(bus, 7);
    let mut client = client(name);
    let mut seen = client.snapshot();
    client.read(&mut seen).unwrap();
    assert_eq!(number_of(&seen.inputs), Some(7));
}

#[test]
fn no_descriptor_of_a_client_can_be_truncated_and_only_its_own_slots_written() {
    let (name, mut bus) = bus(Sharing::Pi);
    let raw = Raw::connect(&name);
    let (_, welcome) = raw.receive();
    raw.send(&Raw::ask(CLAIM_OUTPUTS)).unwrap();
    let (kind, granted) = raw.receive();
    assert_eq!((kind, welcome.len(), granted.len()), (GRANTED, 2, 1));

    for (place, memory) in welcome.iter().chain(&granted).enumerate() {
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let again = rustix::fs::open(path, OFlags::RDWR, Mode::empty()).unwrap();
        let length = u64::try_from(rustix::fs::fstat(memory).unwrap().st_size).unwrap();
        for length in [0, 1, length - 1, length + 1, 1 << 30] {
            assert_eq!(ftruncate(&again, length), Err(Errno::PERM), "{place}: {length}");
        }
        assert!(fallocate(&again, FallocateFlags::empty(), 0, length + 4096).is_err());
        for seals in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
            assert_eq!(fcntl_add_seals(&again, seals), Err(Errno::PERM), "{place}");
        }
        let is_image = place == 0;
        assert_eq!(pwrite(&again, &[0], 8) == Err(Errno::PERM), is_image, "{place}");
        if is_image {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            assert_eq!(fallocate(&again, hole, 0, 4096), Err(Errno::PERM));
            assert!(pwrite(memory, &[0], 8).is_err());
        }
    }
    exchange(&mut bus, 2);
    assert!(client(&name).check().is_ok());
}

#[test]
fn ten_million_random_words_in_the_owners_slots_do_not_disturb_the_bus() {
    let (name, mut bus) = bus(Sharing::WaitFree);
    let raw = Raw::connect(&name);
    raw.receive();
    raw.send(&Raw::ask(CLAIM_OUTPUTS)).unwrap();
    let (_, granted) = raw.receive();
    let length = usize::try_from(rustix::fs::fstat(&granted[0]).unwrap().st_size).unwrap();
    let mut numbers = Numbers(1);
    let mut written = 0;
    while_the_bus_runs(&mut bus, &name, || {
        while written < 10_000_000 {
            // Small numbers of publications too, which lead to slots that look right.
            let mut words = numbers.bytes(length);
            words[..8].copy_from_slice(&(numbers.next() >> (numbers.next() % 64)).to_ne_bytes());
            assert_eq!(pwrite(&granted[0], &words, 0), Ok(length));
            written += length / 8;
        }
    });
    drop(raw);
    until("its outputs end", || number_of(&exchange(&mut bus, 8)) == Some(0));
}

#[test]
fn a_former_owner_writes_to_nothing_that_is_read() {
    let (name, mut bus) = bus(Sharing::WaitFree);
    let raw = Raw::connect(&name);
    raw.receive();
    raw.send(&Raw::ask(CLAIM_OUTPUTS)).unwrap();
    let (_, granted) = raw.receive();
    // Only its connection ends; it keeps the memory.
    drop(raw);
    let mut owner = None;
    until("the role is free", || {
        owner = client(&name).claim().ok();
        owner.is_some()
    });
    let mut owner = owner.unwrap();
    owner.write(&pattern(5)).unwrap();
    for number in 1..100_u64 {
        let mut words = vec![0x5A; 64 + 4 * 8 * 88];
        words[..8].copy_from_slice(&number.to_ne_bytes());
        pwrite(&granted[0], &words, 0).unwrap();
        owner.write(&pattern(5)).unwrap();
        assert_eq!(exchange(&mut bus, number), pattern(5));
    }
    let events = kinds(&client(&name).events(1));
    assert_eq!(events, [EventKind::OwnerTaken, EventKind::OwnerDied, EventKind::OwnerTaken]);
}

#[test]
fn random_words_in_a_lock_cost_the_bus_bounded_time() {
    for sharing in [Sharing::Pi, Sharing::Plain] {
        let lock_wait = Duration::from_micros(20);
        let (name, mut bus) = bus(ImageSettings { lock_wait, ..sharing.into() });
        let raw = Raw::connect(&name);
        let (_, welcome) = raw.receive();
        let mut numbers = Numbers(2);
        let own = u64::from(std::process::id());
        while_the_bus_runs(&mut bus, &name, || {
            for round in 0..200_000_u64 {
                // Also the ids of living threads, and no thread.
                let word = match round % 4 {
                    0 => own | numbers.next() << 32,
                    1 => own | 1 << 31,
                    _ => numbers.next(),
                };
                pwrite(&welcome[1], &word.to_ne_bytes(), 0).unwrap();
            }
            pwrite(&welcome[1], &[0; 8], 0).unwrap();
        });
        let counted = client(&name).stats().counter(Counter::LockTimeouts);
        let events = kinds(&client(&name).events(1));
        assert_eq!(counted > 0, events.contains(&EventKind::LockTimeout), "{sharing}: {counted}");
    }
}

#[test]
fn a_hundred_thousand_messages_that_make_no_sense_end_their_connections_only() {
    let (name, mut bus) = bus(Sharing::WaitFree);
    let cold = bus.cold_side();
    let mut numbers = Numbers(3);
    let mut ended = 0;
    while_the_bus_runs(&mut bus, &name, || {
        let mut raw = Raw::connect(&name);
        for _ in 0..100_000 {
            let length = numbers.next() % 1100;
            let mut bytes = numbers.bytes(usize::try_from(length).unwrap().max(1));
            // Often a kind that exists.
            bytes[0] = (numbers.next() % 9) as u8;
            if !numbers.next().is_multiple_of(4) {
                bytes.iter_mut().skip(1).take(3).for_each(|byte| *byte = 0);
            }
            match raw.send(&bytes) {
                Ok(_) => {}
                Err(Errno::AGAIN) => thread::yield_now(),
                Err(_) => {
                    raw = Raw::connect(&name);
                    ended += 1;
                }
            }
            cold.take_request().iter().for_each(|job| cold.answer(job, &Ok(vec![1])));
        }
    });
    assert!(ended > 1000, "{ended} connections were ended");
    assert!(cold.dropped() > 0);
    // Roles and requests of ended connections are free.
    until("the outputs are free", || client(&name).claim().is_ok());
}

#[test]
fn silent_clients_and_a_thousand_connections_are_bounded_and_cost_nobody_anything() {
    let (name, mut bus) = bus(Sharing::WaitFree);
    let mut silent: Vec<Raw> = Vec::new();
    let mut refused = 0;
    while_the_bus_runs(&mut bus, &name, || {
        for _ in 0..1000 {
            let raw = Raw::connect(&name);
            // 1 welcome, 8 refused.
            match raw.receive() {
                (1, memory) if memory.len() == 1 => silent.push(raw),
                (8, _) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        // A bus that does not answer for half a second can be looked at without its consent.
        let mut refused_for = None;
        until("a client is refused", || {
            refused_for = Client::open(&name).err();
            refused_for.is_some()
        });
        let why = refused_for.unwrap();
        assert!(matches!(why, ControlError::Refused { why: Refusal::OfUser(128), .. }), "{why}");
        assert!(why.to_string().ends_with("as many as a user may have; close some"), "{why}");
        let (welcome, refused) = (silent.len(), refused);
        silent.clear();
        assert_eq!((welcome, refused), (128, 872));
        until("there is room again", || Client::open(&name).is_ok());
    });
}

#[test]
fn a_client_that_does_not_read_its_answers_is_dropped_and_nobody_waits_for_it() {
    let (name, mut bus) = bus(Sharing::WaitFree);
    let cold = bus.cold_side();
    let raw = Raw::connect(&name);
    while_the_bus_runs(&mut bus, &name, || {
        until("it is dropped", || {
            while raw.send(&Raw::ask(CLAIM_OUTPUTS)).is_ok() {}
            raw.send(&Raw::ask(CLAIM_OUTPUTS)) == Err(Errno::PIPE)
        });
    });
    assert!(cold.dropped() > 0);
    assert!(client(&name).claim().is_ok());
}

/// What `Client::open` says in a process of another user, in a directory of this one.
fn said_by_another_user(settings: ImageSettings, groups: u32) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let (name, _bus) = bus(settings);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "control_abuse::in_another_process", "--nocapture"])
        .env("ONBEAT_TEST_ROLE", format!("open {name}"))
        .env_remove("XDG_RUNTIME_DIR")
        .uid(65_534)
        .gid(groups)
        .stdout(Stdio::piped());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().find_map(|line| line.strip_prefix("> ")).unwrap_or_default().to_owned())
}

#[test]
fn another_user_gets_in_by_the_group_of_the_bus_only() {
    let with = |group, sharing| ImageSettings { group, sharing, ..ImageSettings::default() };
    let free = Sharing::WaitFree;
    let Some(said) = said_by_another_user(with(None, free), 65_534) else { return };
    assert!(said.contains("Permission denied"), "{said}");
    let said = |settings, group| said_by_another_user(settings, group).unwrap();
    assert!(said(with(Some(65_533), free), 65_534).contains("Permission denied"));
    assert_eq!(said(with(Some(65_534), free), 65_534), "open, claims: true");
    assert_eq!(said(with(Some(65_534), Sharing::Pi), 65_534), "Lock");
}

#[test]
fn a_claim_is_answered_within_the_patience_of_its_client() {
    let (name, mut bus) = bus(Sharing::WaitFree);
    let client = client(&name);
    for number in 1..=100 {
        let began = Instant::now();
        let mut owner = client.claim().unwrap();
        assert!(began.elapsed() < PATIENCE);
        owner.write(&pattern(number)).unwrap();
        assert_eq!(exchange(&mut bus, number), pattern(number));
    }
}
