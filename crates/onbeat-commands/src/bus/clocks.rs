//! `onbeat bus clocks`: how far the clocks of the devices are from the reference, over time.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use onbeat_control::{Client, RegisterAction, RegisterRequest};
use onbeat_figures::units::{Letters, count, time_ns};
use serde_json::json;

use super::options::ClocksOptions;
use super::words::places_of;
use crate::byte_words::number;
use crate::failure::bus::BusFailure;
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, columns, is_read, letters, print_json, say, wrapped};
use crate::{ExitVerdict, Failure};

/// Features of a controller, with the bit that says that it has a distributed clock.
const FEATURES: (u16, u16) = (0x0008, 1 << 2);
/// System time difference: sign and magnitude.
const DIFFERENCE: u16 = 0x092c;
/// Longest wait for one answer of the bus.
const WITHIN: Duration = Duration::from_secs(2);
/// Upper ends of the steps of a plot, in ns; the last one is the limit of `clock_unlocked`.
const STEPS_NS: [u32; 7] = [30, 100, 300, 1_000, 3_000, 10_000, 20_000];
/// Marks of the steps, and of what is beyond.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MARKS: [char; 8] = ['_', '.', '-', '=', '+', 'x', 'X', '#'];
/// Narrowest plot, and width of what stands beside it.
const NARROWEST: usize = 10;
const BESIDE: usize = 46;

/// The clock of one device.
struct Clock {
    place: usize,
    name: String,
    /// Differences in ns; `None` where the device did not answer.
    seen: Vec<Option<i64>>,
}

pub(crate) fn clocks(options: &ClocksOptions) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&options.named.name)?;
    let mut clocks = with_clocks(&client, options)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let began = Instant::now();
    let mut took = Duration::ZERO;
    let mut round = 0u32;
    while began.elapsed() < Duration::from_nanos(options.duration) || round == 0 {
        if interruptions.stop.load(Ordering::Relaxed) || !is_read() {
            break;
        }
        let at = Instant::now();
        for clock in &mut clocks {
            let difference = read(&client, clock.place, DIFFERENCE, 4)?.map(signed);
            clock.seen.push(difference);
            if options.named.json {
                print_json(&json!({
                    "t_s": at.duration_since(began).as_secs_f64(), "device": clock.name, "difference_ns": difference,
                }))?;
            }
        }
        took = took.max(at.elapsed());
        round += 1;
        let next = Duration::from_nanos(options.every).saturating_mul(round);
        signals::pause(next.saturating_sub(began.elapsed()), &interruptions.stop);
    }

    if !options.named.json {
        print(&clocks, began.elapsed());
        let every = Duration::from_nanos(options.every);
        if took > every {
            let sentence = format!(
                "reading {} clocks took up to {}, longer than --every; values are further apart",
                clocks.len(),
                time_ns(took.as_nanos() as u64, letters())
            );
            advise(Tone::Careful, &wrapped(&sentence, 80));
        }
    }
    Ok(ExitVerdict::Pass)
}

/// Returns the devices of the options that have a clock.
fn with_clocks(client: &Client, options: &ClocksOptions) -> Result<Vec<Clock>, Failure> {
    let layout = client.layout();
    let mut clocks = Vec::new();
    let mut without = Vec::new();
    for place in places_of(&layout.devices, &options.devices)? {
        let name = layout.devices[place].name.clone();
        let features = read(client, place, FEATURES.0, 2)?;
        // A device that does not answer now may answer later.
        if features.is_none_or(|bytes| bytes as u16 & FEATURES.1 != 0) {
            clocks.push(Clock { place, name, seen: Vec::new() });
        } else {
            without.push(name);
        }
    }
    if clocks.is_empty() {
        return Err(BusFailure::NoClocks { devices: without.join(", ") }.into());
    }
    if !without.is_empty() && !options.named.json {
        let sentence = format!("without a distributed clock: {}", without.join(", "));
        advise(Tone::Plain, &wrapped(&sentence, 80));
    }
    Ok(clocks)
}

/// Reads a register; `None` if the device does not answer.
fn read(client: &Client, place: usize, address: u16, bytes: usize) -> Result<Option<u32>, Failure> {
    let action = RegisterAction::Read(bytes);
    let request = RegisterRequest { device: place as u16, address, action };
    let answer = client.request(request, WITHIN)?;
    Ok(answer.ok().and_then(|bytes| number(&bytes)).map(|number| number as u32))
}

/// Returns a difference in ns from sign and magnitude; negative: the device is behind.
fn signed(word: u32) -> i64 {
    let magnitude = i64::from(word & 0x7fff_ffff);
    if word >> 31 == 0 { -magnitude } else { magnitude }
}

fn print(clocks: &[Clock], span: Duration) {
    let letters = letters();
    let widest = clocks.iter().map(|clock| clock.name.chars().count()).max().unwrap_or(0).min(20);
    let width = columns().saturating_sub(BESIDE + widest).clamp(NARROWEST, 80);
    for clock in clocks {
        let known: Vec<u32> =
            clock.seen.iter().flatten().map(|ns| ns.unsigned_abs() as u32).collect();
        let silent = clock.seen.len() - known.len();
        let worst = known.iter().max().map_or("no answer".to_owned(), |ns| {
            format!("worst {}", time_ns(u64::from(*ns), letters))
        });
        let last =
            clock.seen.last().copied().flatten().map_or(String::new(), |ns| {
                format!(", last {}", time_ns(ns.unsigned_abs(), letters))
            });
        let silent = if silent > 0 {
            format!(", {} without an answer", count(silent as u64))
        } else {
            String::new()
        };
        let line = plot(&clock.seen, width, letters);
        say(Tone::Plain, &format!("{:<widest$}  {line}  {worst}{last}{silent}", clock.name));
    }
    let marks = if letters == Letters::Unicode { BLOCKS } else { MARKS };
    let ends = STEPS_NS
        .iter()
        .zip(marks)
        .map(|(ns, mark)| format!("{mark} to {}", time_ns(u64::from(*ns), letters)));
    let legend: Vec<String> = ends.collect();
    let legend = format!(
        "{:.1} s from left to right; distance from the reference clock, worst of each column: {}, {} beyond, ? no answer",
        span.as_secs_f64(),
        legend.join(", "),
        marks[marks.len() - 1]
    );
    say(Tone::Faint, &wrapped(&legend, 80));
}

/// Plots differences over time; each column shows the worst of its part.
fn plot(seen: &[Option<i64>], width: usize, letters: Letters) -> String {
    let marks = if letters == Letters::Unicode { BLOCKS } else { MARKS };
    let width = width.min(seen.len()).max(1);
    (0..width)
        .map(|column| {
            let part = &seen[column * seen.len() / width..(column + 1) * seen.len() / width];
            if part.iter().any(Option::is_none) {
                return '?';
            }
            let worst = part.iter().flatten().map(|ns| ns.unsigned_abs()).max().unwrap_or(0);
            let step = STEPS_NS.iter().position(|end| worst <= u64::from(*end));
            marks[step.unwrap_or(STEPS_NS.len())]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_sign_in_bit_31() {
        assert_eq!(signed(300), -300, "behind the reference");
        assert_eq!(signed(300 | 1 << 31), 300);
    }

    #[test]
    fn each_column_shows_the_worst_of_its_part_and_missing_answers() {
        let seen: Vec<Option<i64>> = [5, -5, 20, -150, 900, 0, 50_000, 1]
            .map(Some)
            .into_iter()
            .chain([None, Some(1)])
            .collect();
        assert_eq!(plot(&seen, 5, Letters::Unicode), "▁▃▄█?");
        assert_eq!(plot(&seen, 5, Letters::Ascii), "_-=#?");
        assert_eq!(plot(&seen[..2], 40, Letters::Ascii), "__", "no wider than the values");
    }
}
