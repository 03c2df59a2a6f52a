//! Boards in lockstep, played by threads: order, arrival and the end of a board.

use std::io::{Read, Write, pipe};
use std::thread;
use std::time::Duration;

use onbeat_lab::net::lockstep::{ConductedBoard, Lockstep, LockstepError, LockstepEvent};
use onbeat_net::plan::Network;

const HELLO: u32 = 1;
const FRAME: u32 = 2;
const WAIT: u32 = 3;
const INSTANT: u32 = 4;
const LEVEL: u32 = 5;

/// A board's end of the protocol.
struct Firmware<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Firmware<R, W> {
    fn say(&mut self, at_ns: u64, value: u64, kind: u32, bytes: &[u8]) {
        let mut message = [at_ns.to_le_bytes(), value.to_le_bytes()].concat();
        message.extend(kind.to_le_bytes());
        message.extend((bytes.len() as u32).to_le_bytes());
        message.extend(bytes);
        // The conductor may have ended.
        let _ = self.to.write_all(&message);
    }

    /// When, what, and its bytes; `None` at the end.
    fn hear(&mut self) -> Option<(u64, u32, Vec<u8>)> {
        let mut head = [0; 24];
        self.from.read_exact(&mut head).ok()?;
        let at_ns = u64::from_le_bytes(head[..8].try_into().unwrap());
        let [kind, length] =
            [16, 20].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()));
        let mut bytes = vec![0; length as usize];
        self.from.read_exact(&mut bytes).ok()?;
        Some((at_ns, kind, bytes))
    }
}

type PipedFirmware = Firmware<std::io::PipeReader, std::io::PipeWriter>;

fn board(play: impl FnOnce(&mut PipedFirmware) + Send + 'static) -> ConductedBoard {
    let (from_conductor, to_firmware) = pipe().unwrap();
    let (from_firmware, to_conductor) = pipe().unwrap();
    thread::spawn(move || {
        let mut firmware = Firmware { from: from_conductor, to: to_conductor };
        firmware.say(0, 0, HELLO, &[]);
        firmware.hear();
        play(&mut firmware);
    });
    ConductedBoard::new(from_firmware, to_firmware, Duration::from_secs(60))
}

/// A frame of 254 bytes on the wire from one end to another, as their addresses say.
fn frame(from: u8, to: u8, number: u8) -> Vec<u8> {
    let mut frame = vec![0; 242];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to + 1, 2, 0, 0, 0, 0, from + 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame[20] = number;
    frame
}

/// Sends a frame every 100 us, and takes 5 us for each.
fn sender(firmware: &mut PipedFirmware) {
    let mut now_ns = 0;
    for number in 0..20 {
        let release_ns = u64::from(number + 1) * 100_000;
        while now_ns < release_ns {
            firmware.say(now_ns, release_ns, WAIT, &[]);
            let Some((at_ns, ..)) = firmware.hear() else { return };
            now_ns = at_ns.max(now_ns);
        }
        firmware.say(now_ns + 5_000, 0, FRAME, &frame(0, 1, number));
        now_ns += 5_000;
    }
    firmware.say(now_ns, u64::MAX, WAIT, &[]);
    while firmware.hear().is_some() {
        firmware.say(now_ns, u64::MAX, WAIT, &[]);
    }
}

/// Answers each frame 30 us after it came; sets its output to an edge at once.
fn echo(firmware: &mut PipedFirmware) {
    let mut now_ns = 0;
    loop {
        firmware.say(now_ns, u64::MAX, WAIT, &[]);
        let Some((at_ns, kind, bytes)) = firmware.hear() else { return };
        now_ns = at_ns.max(now_ns);
        match kind {
            FRAME => {
                firmware.say(now_ns + 30_000, 0, FRAME, &frame(1, 0, bytes[20]));
                now_ns += 30_000;
            }
            LEVEL => firmware.say(now_ns + 1_000, 1, LEVEL, &[]),
            _ => assert_eq!(kind, INSTANT),
        }
    }
}

fn network() -> Network {
    let plan = "[[switches]]\nname = \"s\"\nlink = \"100M\"\n\
                [[devices]]\nname = \"echo\"\nto = \"s\"\nlink = \"100M\"\n";
    Network::parse(plan).unwrap()
}

/// When, at which end, what: `s` and `a` for a frame sent or arrived, with its number, `i`, `o`.
fn events(boards: Vec<ConductedBoard>) -> Result<Vec<(u64, usize, char, u8)>, LockstepError> {
    let network = network();
    let mut events = Vec::new();
    Lockstep::new(&network, boards)?.run(3_000_000, &mut |at_ns, end, event| {
        let (what, number) = match event {
            LockstepEvent::Sent(frame) => ('s', frame[20]),
            LockstepEvent::Arrived(frame) => ('a', frame[20]),
            LockstepEvent::Input(level) => ('i', level.into()),
            LockstepEvent::Output(level) => ('o', level.into()),
        };
        events.push((at_ns, end, what, number));
    })?;
    Ok(events)
}

#[test]
fn a_frame_takes_its_time_on_the_wire_and_in_the_board() {
    let found = events(vec![board(sender), board(echo)]).unwrap();
    // Released at 100 us, sent after 5 us, 2 x 20.32 us to the echo, 30 us in it, and back.
    let first =
        [(105_000, 0, 's', 0), (145_640, 1, 'a', 0), (175_640, 1, 's', 0), (216_280, 0, 'a', 0)];
    let of_first: Vec<_> = found.iter().copied().filter(|event| event.3 == 0).collect();
    assert_eq!(of_first, first);
    for (end, what) in [(0, 's'), (1, 'a'), (1, 's'), (0, 'a')] {
        let numbers = found.iter().filter(|event| (event.1, event.2) == (end, what));
        let numbers: Vec<u8> = numbers.map(|event| event.3).collect();
        assert_eq!(numbers, (0..20).collect::<Vec<u8>>(), "{what} at end {end}");
    }
}

#[test]
fn every_run_gives_the_same_events() {
    let first = events(vec![board(sender), board(echo)]).unwrap();
    for _ in 0..20 {
        assert_eq!(events(vec![board(sender), board(echo)]).unwrap(), first);
    }
}

#[test]
fn an_edge_reaches_its_board_at_its_instant() {
    let mut second = board(echo);
    second.set_edges([(1_234_567, true)]);
    let found = events(vec![board(sender), second]).unwrap();
    let of_edge: Vec<_> = found.into_iter().filter(|event| "io".contains(event.2)).collect();
    // The board is idle: a frame of the same period has left it.
    assert_eq!(of_edge, [(1_234_567, 1, 'i', 1), (1_235_567, 1, 'o', 1)]);
}

#[test]
fn a_board_that_ends_is_named() {
    let ended = events(vec![board(sender), board(|_| ())]).unwrap_err();
    assert!(matches!(ended, LockstepError::Ended { end: 1, .. }), "{ended}");
    let odd = events(vec![board(|firmware| firmware.say(0, 0, 9, &[]))]).unwrap_err();
    assert!(matches!(odd, LockstepError::Message { end: 0, kind: 9, .. }), "{odd}");
    let many = events((0..3).map(|_| board(echo)).collect()).unwrap_err();
    assert!(matches!(many, LockstepError::TooMany { firmware: 3, ends: 2 }), "{many}");
}

#[test]
fn a_board_that_says_nothing_is_named() {
    let (from_firmware, _held) = pipe().unwrap();
    let silent = ConductedBoard::new(from_firmware, std::io::sink(), Duration::from_millis(50));
    let silent = events(vec![board(echo), silent]).unwrap_err();
    assert!(matches!(silent, LockstepError::Silent { end: 1, .. }), "{silent}");
}

#[test]
fn a_file_that_is_no_firmware_starts_no_emulator() {
    let folder = tempfile::tempdir().unwrap();
    let started = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        ConductedBoard::start(&path).err().unwrap().to_string()
    };
    let own = std::fs::read("/proc/self/exe").unwrap();
    let mut sparc = [0; 52];
    sparc[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    sparc[18] = 2;
    let mut big_endian = sparc;
    big_endian[5] = 2;
    for (bytes, found) in [
        (&b"a text\n"[..], "not an ELF file"),
        (b"", "an empty file"),
        (&own, "an ELF file of another word size"),
        (&sparc, "a program for ELF machine 2"),
        (&big_endian, "a program in big-endian byte order"),
    ] {
        let said = started("firmware", bytes);
        assert!(said.contains(&format!("lockstep: {found}, where")), "{said}");
    }
    let gone = ConductedBoard::start(&folder.path().join("gone")).err().unwrap();
    assert!(matches!(gone, LockstepError::Read { .. }), "{gone}");
}
