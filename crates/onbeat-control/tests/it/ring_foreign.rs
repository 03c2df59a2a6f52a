//! Files that are not rings, or no longer: whatever a header holds, a reader returns an error or
//! records and never ends its process; a truncated ring ends neither its writer nor its readers.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use onbeat_control::{
    Channel, FoundChannels, Reading, RecordType, RingError, RingReader, RingSettings, RingWriter,
    Start, truncation,
};

/// Directory of a process's rings.
const VARIABLE: &str = "ONBEAT_RUNTIME_DIR";
const ROLE: &str = "ONBEAT_TEST_ROLE";
const HEADER_BYTES: usize = 384;
const HEADERS: usize = 100_000;

fn channel() -> Channel {
    Channel::new("walker", "pattern").unwrap()
}

fn settings() -> RingSettings {
    let record_type = RecordType { name: "test/Pattern".to_owned(), ..RecordType::default() };
    RingSettings { records: 64, record_bytes: 40, record_type, description: "{}".to_owned() }
}

/// Plays a role in a process and a directory of its own: this test binary, started again.
fn in_own_process(role: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "ring_foreign::in_another_process", "--nocapture"]);
    command.env(VARIABLE, directory.path()).env(ROLE, role).output().unwrap()
}

#[test]
fn in_another_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };
    match role.as_str() {
        "random_headers" => random_headers(),
        "truncated_under_both" => truncated_under_both(),
        "lengthened_again" => lengthened_again(),
        "sends_itself_a_bus_error" => sends_itself_a_bus_error(),
        "sparse_ring" => sparse_ring(),
        other => panic!("unknown role {other}"),
    }
}

/// Plays a role that must succeed.
fn alone(role: &str) {
    let output = in_own_process(role);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.contains("1 passed"), "{said}");
}

/// The ring's file in the directory of this process.
fn path() -> std::path::PathBuf {
    Path::new(&std::env::var_os(VARIABLE).expect("started by another test")).join("walker:pattern")
}

struct Random(u64);

impl Random {
    /// xorshift64 (Marsaglia, 2003).
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Any number, or one near those that a header may hold.
    fn word(&mut self) -> u64 {
        let near = self.next() % 5;
        match self.next() % 6 {
            0 => self.next(),
            1 => 1 << (self.next() % 64),
            2 => u64::MAX - near,
            3 => near,
            4 => (1 << (self.next() % 64)) - near.min(1),
            _ => self.next() % 10_000 * 64,
        }
    }
}

#[test]
fn a_hundred_thousand_random_headers_are_errors_or_valid_rings() {
    alone("random_headers");
}

fn random_headers() {
    let writer = RingWriter::create(&channel(), &settings()).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path()).unwrap();
    let mut valid = [0; HEADER_BYTES];
    file.read_exact_at(&mut valid, 0).unwrap();
    let mut random = Random(0x5eed);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..HEADERS {
        let mut header = valid;
        for _ in 0..=random.next() % 4 {
            // The magic number stays: without it the file is not a ring at all.
            let at = 8 + (random.next() as usize % (HEADER_BYTES / 8 - 1)) * 8;
            header[at..at + 8].copy_from_slice(&random.word().to_ne_bytes());
        }
        file.write_all_at(&header, 0).unwrap();

        let found = FoundChannels::look().unwrap();
        assert_eq!(found.rings.len() + found.ignored.len(), 1);
        match RingReader::open(&channel(), Start::Oldest) {
            Err(why) => {
                refused += 1;
                assert!(!why.to_string().is_empty());
            }
            Ok(mut reader) => {
                opened += 1;
                let _ = (reader.record_type(), reader.description(), reader.writer());
                let _ = (reader.pending(), reader.newest(), reader.generation());
                for _ in 0..4 {
                    let is_record = matches!(reader.next(), Reading::Record { .. });
                    assert!(!is_record, "no record was published");
                }
                let _ = reader.check_alive();
            }
        }
    }

    println!("{opened} opened, {refused} refused");
    assert!(opened > HEADERS / 10 && refused > HEADERS / 10, "{opened} opened, {refused} refused");
    drop(writer);
}

#[test]
fn a_truncated_ring_ends_neither_its_writer_nor_its_reader_and_both_report_it() {
    alone("truncated_under_both");
}

fn truncated_under_both() {
    truncation::install().unwrap();
    for left in [0, 200, 4096, 4500] {
        let mut writer = RingWriter::create(&channel(), &settings()).unwrap();
        let mut reader = RingReader::open(&channel(), Start::Oldest).unwrap();
        let mut late = RingReader::open(&channel(), Start::Oldest).unwrap();
        let watch = writer.watch().unwrap();
        writer.publish(1, b"whole");
        assert!(matches!(reader.next(), Reading::Record { bytes: b"whole", .. }));
        assert!(watch.check().is_ok() && writer.check().is_ok() && reader.check_alive().is_ok());

        File::options().write(true).open(path()).unwrap().set_len(left).unwrap();
        // Around the whole ring, so that each page is met.
        for number in 0..200 {
            writer.publish(number, b"into nothing");
        }
        writer.prepare();
        for reader in [&mut reader, &mut late] {
            for _ in 0..200 {
                // Those of pages that are left are whole.
                if let Reading::Record { bytes, .. } = reader.next() {
                    assert!([&b"whole"[..], b"into nothing"].contains(&bytes), "{bytes:?}");
                }
            }
            let why = reader.check_alive().unwrap_err();
            assert!(matches!(why, RingError::Truncated { .. }), "{why}");
        }
        for why in [watch.check(), writer.check()] {
            let why = why.unwrap_err().to_string();
            assert!(why.starts_with("the ring of walker/pattern was truncated: "), "{why}");
        }
        assert!(matches!(
            RingReader::open(&channel(), Start::Oldest),
            Err(RingError::Incomplete { .. } | RingError::Unfinished { .. })
        ));

        // The next writer of the channel begins with a complete ring.
        drop(writer);
        let writer = RingWriter::create(&channel(), &settings()).unwrap();
        assert!(RingReader::open(&channel(), Start::Oldest).is_ok());
        drop(writer);
    }
}

#[test]
fn a_ring_that_was_lengthened_again_is_still_a_truncated_one() {
    alone("lengthened_again");
}

fn lengthened_again() {
    truncation::install().unwrap();
    let mut writer = RingWriter::create(&channel(), &settings()).unwrap();
    let reader = RingReader::open(&channel(), Start::Oldest).unwrap();
    let file = File::options().write(true).open(path()).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(0).unwrap();
    writer.publish(1, b"into nothing");
    file.set_len(length).unwrap();

    assert!(matches!(writer.check(), Err(RingError::Truncated { .. })));
    assert!(matches!(reader.check_alive(), Err(RingError::Truncated { .. })));
}

/// The handler is for rings: any other signal has the effect that it had before.
#[test]
fn a_bus_error_that_is_not_of_a_ring_is_passed_on() {
    use std::os::unix::process::ExitStatusExt;

    let status = in_own_process("sends_itself_a_bus_error").status;
    assert_eq!(status.signal(), Some(rustix::process::Signal::BUS.as_raw()), "{status}");
}

fn sends_itself_a_bus_error() {
    truncation::install().unwrap();
    let own = rustix::process::getpid();
    // The first one goes to the handler of Rust's runtime, which restores the default action. Another
    // thread takes it, and until then a second one is the same to the kernel.
    for _ in 0..600 {
        rustix::process::kill_process(own, rustix::process::Signal::BUS).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_sparse_file_with_the_header_of_a_ring_is_refused_before_it_is_mapped() {
    alone("sparse_ring");
}

fn sparse_ring() {
    let large = RingSettings { records: 1 << 18, record_bytes: 1_000, ..settings() };
    let writer = RingWriter::create(&channel(), &RingSettings { records: 2, ..large.clone() });
    let mut header = [0; HEADER_BYTES];
    let file = OpenOptions::new().read(true).write(true).open(path()).unwrap();
    file.read_exact_at(&mut header, 0).unwrap();
    drop(writer);

    // As of a ring with 2^18 slots.
    let slot_bytes = u64::from_ne_bytes(header[56..64].try_into().unwrap());
    let slots_at = u64::from_ne_bytes(header[64..72].try_into().unwrap());
    let total = slots_at + large.records as u64 * slot_bytes;
    header[16..24].copy_from_slice(&total.to_ne_bytes());
    header[48..56].copy_from_slice(&(large.records as u64).to_ne_bytes());
    let file = File::create_new(path()).unwrap();
    file.set_len(total).unwrap();
    file.write_all_at(&header, 0).unwrap();

    let why = RingReader::open(&channel(), Start::Oldest).unwrap_err();
    assert!(
        matches!(why, RingError::Incomplete { bytes, held, .. } if bytes == total && held < 10_000),
        "{why}"
    );
    let found = FoundChannels::look().unwrap();
    assert!(found.rings.is_empty() && found.ignored.len() == 1, "{found:?}");

    file.set_len(4 << 30).unwrap();
    let why = RingReader::open(&channel(), Start::Oldest).unwrap_err().to_string();
    assert!(why.ends_with("it has 4096 MiB, and at most 1536 MiB are read"), "{why}");
}
