//! What publishing a record costs a loop: duration of `publish` in a loop of 1 kHz, with and
//! without readers, in turns. `cargo run --release -p onbeat-control --example ring_cost`
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat_control::{Channel, Reading, RingError, RingReader, RingSettings, RingWriter, Start};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

/// A cycle of 59 devices and 48 joints has about this many bytes.
const RECORD_BYTES: usize = 2_500;
const READERS: usize = 8;
const PERIOD_NS: u64 = 1_000_000;
/// Cycles of a turn, and turns.
const CYCLES: u64 = 2_000;
const TURNS: u64 = 10;

fn main() -> Result<(), RingError> {
    let channel = Channel::new(&format!("ring-cost-{}", std::process::id()), "cycle")?;
    let settings =
        RingSettings { records: 8192, record_bytes: RECORD_BYTES, ..RingSettings::default() };
    let mut writer = RingWriter::create(&channel, &settings)?;
    // The clock's own cost, then without readers, then with them.
    let mut durations: [Vec<u64>; 3] = Default::default();
    for _ in 0..TURNS {
        turn(&mut writer, &mut durations[..2]);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..READERS {
                let mut reader = RingReader::open(&channel, Start::Newest).unwrap();
                let is_over = &is_over;
                threads.spawn(move || follow(&mut reader, is_over));
            }
            let (clock, with_readers) = durations.split_at_mut(2);
            let mut both = [std::mem::take(&mut clock[0]), std::mem::take(&mut with_readers[0])];
            turn(&mut writer, &mut both);
            [clock[0], with_readers[0]] = both;
            is_over.store(true, Ordering::Relaxed);
        });
    }

    for (what, durations) in ["clock alone", "no reader", "8 readers"].iter().zip(&mut durations) {
        durations.sort_unstable();
        let at = |share: f64| durations[((durations.len() - 1) as f64 * share) as usize];
        println!(
            "{what:12} {} samples, ns: p50 {} p99 {} p99.9 {} max {}",
            durations.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
    Ok(())
}

/// Runs a loop and adds the durations of two clock readings, and of a publication between two.
fn turn(writer: &mut RingWriter, durations: &mut [Vec<u64>]) {
    let payload = [7; RECORD_BYTES];
    let mut release = Monotonic.now();
    for _ in 0..CYCLES {
        release = release.plus_ns(PERIOD_NS);
        let _ = Monotonic.sleep_until(release);
        let start = Monotonic.now();
        let between = Monotonic.now();
        writer.publish(release.as_ns(), &payload);
        let end = Monotonic.now();
        writer.prepare();
        durations[0].push(between.ns_since(start));
        durations[1].push(end.ns_since(between));
    }
}

fn follow(reader: &mut RingReader, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        match reader.next() {
            Reading::Nothing => std::thread::sleep(Duration::from_micros(500)),
            Reading::Lost(records) => println!("{records} records lost"),
            Reading::Record { .. } => {}
        }
    }
}
