//! Publishes numbered messages at a rate, for measuring readers: `make peers ARGS=messages`.
//!
//! `cargo run --release -p onbeat-control --example ring_flood -- NAME/TOPIC RATE SECONDS [STEP_US]`
//!
//! It sleeps until each step (1,000 µs unless given) and publishes what is due, at once. A line
//! `ready` begins; at its standard input's first line it starts; a line of JSON ends: what it
//! published, and its durations in ns.
#![allow(clippy::print_stdout)]

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;

use onbeat_control::{Channel, RecordType, RingError, RingSettings, RingWriter};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

/// A message of 128 bytes with its header: number, time, joints.
const DEFINITION: &str = "uint64 n\nfloat64[14] joints\nuint32 last\n";
const MESSAGE_BYTES: usize = 128;
/// Messages that a reader may be behind.
const RECORDS: usize = 1 << 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|word| word.parse::<u64>().ok());
    let (Some(channel), Some(rate), Some(seconds)) = (arguments.first(), number(1), number(2))
    else {
        return ExitCode::from(2);
    };
    match flood(channel, rate, seconds, number(3).unwrap_or(1_000)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{{\"error\": \"{why}\"}}");
            ExitCode::from(2)
        }
    }
}

fn flood(channel: &str, rate: u64, seconds: u64, step_us: u64) -> Result<(), RingError> {
    let channel: Channel = channel.parse()?;
    let record_type = RecordType {
        name: "demo_msgs/msg/State".to_owned(),
        schema: DEFINITION.to_owned(),
        ..RecordType::default()
    };
    let settings = RingSettings {
        records: RECORDS,
        record_bytes: MESSAGE_BYTES,
        record_type,
        ..RingSettings::default()
    };
    let mut writer = RingWriter::create(&channel, &settings)?;
    println!("ready");
    let _ = stdout().flush();
    let _ = stdin().lock().read_line(&mut String::new());

    let steps = seconds * 1_000_000 / step_us;
    let mut wakeups_ns = Vec::with_capacity(steps as usize);
    let mut durations_ns = Vec::with_capacity(steps as usize);
    let mut message = [0; MESSAGE_BYTES];
    message[1] = 1;
    let start = Monotonic.now();
    let mut published = 0;
    for step in 1..=steps {
        let release = start.plus_ns(step * step_us * 1_000);
        let _ = Monotonic.sleep_until(release);
        wakeups_ns.push(Monotonic.now().ns_since(release));

        // The last one of a step is timed: at 1 kHz each of them.
        let due = step * step_us * rate / 1_000_000;
        while published < due {
            published += 1;
            message[4..12].copy_from_slice(&published.to_le_bytes());
            let before = Monotonic.now();
            writer.publish(before.as_ns(), &message);
            if published == due {
                durations_ns.push(Monotonic.now().ns_since(before));
            }
            writer.prepare();
        }
    }

    let took_ns = Monotonic.now().ns_since(start);
    println!(
        "{{\"published\": {published}, \"took_ns\": {took_ns}, \"wakeup_ns\": {}, \"publish_ns\": {}}}",
        quantiles(wakeups_ns),
        quantiles(durations_ns)
    );
    // Readers take the rest before the writer is gone.
    let _ = stdin().lock().read_line(&mut String::new());
    Ok(())
}

/// p50, p99, p99.9 and the largest.
fn quantiles(mut durations: Vec<u64>) -> String {
    durations.sort_unstable();
    let last = durations.len().saturating_sub(1) as f64;
    let at = |share: f64| durations.get((last * share) as usize).copied().unwrap_or(0);
    format!("[{}, {}, {}, {}]", at(0.5), at(0.99), at(0.999), at(1.0))
}
