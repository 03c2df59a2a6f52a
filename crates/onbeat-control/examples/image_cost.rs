//! Prints what an exchange of an image costs its bus, and a reading its client, in ns: medians of
//! batches, for an image of the paper's size whose outputs are refreshed in each cycle.
//!
//! With an argument it keeps a bus of that name running instead, for a client in another language.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use onbeat_control::{Client, ControlError, Image, Sharing};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::BusCycle;

const BYTES: usize = 656;
const BATCH: u32 = 1000;
const BATCHES: usize = 500;

fn main() -> Result<(), ControlError> {
    let named = std::env::args().nth(1);
    let name = named.clone().unwrap_or_else(|| format!("cost-{}", std::process::id()));
    let layout = Layout { input_bytes: BYTES, output_bytes: BYTES, ..Layout::default() };
    let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
    let (inputs, mut outputs) = (vec![7; BYTES], vec![0; BYTES]);
    let mut exchange = |number| {
        let cycle = BusCycle { cycle: number, ..BusCycle::default() };
        bus.exchange(&cycle, &inputs, &mut outputs)
    };
    if named.is_some() {
        for number in 0.. {
            exchange(number);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    let mut client = Client::open(&name)?;
    let mut owner = client.claim()?;
    let mut seen = client.snapshot();
    let [mut exchanging, mut reading, mut writing] = [const { Vec::new() }; 3];
    for number in 0..BATCHES as u64 {
        let began = Instant::now();
        (0..BATCH).for_each(|_| _ = std::hint::black_box(exchange(number)));
        exchanging.push(began.elapsed());

        let began = Instant::now();
        for _ in 0..BATCH {
            client.read(&mut seen)?;
        }
        reading.push(began.elapsed());

        let began = Instant::now();
        for _ in 0..BATCH {
            owner.write(&seen.inputs)?;
        }
        writing.push(began.elapsed());
    }

    let median = |mut of: Vec<Duration>| {
        of.sort();
        of[of.len() / 2].as_nanos() as f64 / f64::from(BATCH)
    };
    println!(
        "exchange {:.1} read {:.1} write {:.1}",
        median(exchanging),
        median(reading),
        median(writing)
    );
    Ok(())
}
