//! Deltas as sentences.

use super::{CounterDelta, CounterGroup};

/// Sentences of one finding; the rest is counted.
const MOST_SENTENCES: usize = 3;
/// Length of a unit of steal, in milliseconds: the kernel shows hundredths of a second.
const STEAL_UNIT_MS: u64 = 10;

/// Returns a sentence for each of the first deltas, and how many more there are.
pub(super) fn sentences(moved: &[CounterDelta]) -> Vec<String> {
    let mut sentences: Vec<String> = moved.iter().take(MOST_SENTENCES).map(sentence).collect();
    match moved.len().saturating_sub(MOST_SENTENCES) {
        0 => {}
        1 => sentences.push("1 more counter moved".to_owned()),
        more => sentences.push(format!("{more} more counters moved")),
    }
    sentences
}

fn sentence(delta: &CounterDelta) -> String {
    let CounterDelta { counter, count } = delta;
    let number = grouped(*count);
    let times = if *count == 1 { "once".to_owned() } else { format!("{number} times") };
    let name = &counter.name;
    let cpu = counter.cpu.map(|cpu| format!("CPU {cpu}"));
    let on = cpu.as_ref().map_or_else(String::new, |cpu| format!(" on {cpu}"));
    let who = cpu.unwrap_or_else(|| "the machine".to_owned());

    match counter.group {
        CounterGroup::DeviceInterrupts => match &counter.device {
            Some(device) => format!("interrupt {name} ({device}) fired {times}{on}"),
            None => format!("interrupt {name} fired {times}{on}"),
        },
        CounterGroup::LocalInterrupts => format!("interrupt {name} fired {times}{on}"),
        CounterGroup::Softirqs => format!("softirq {name} ran {times}{on}"),
        CounterGroup::Steal => {
            let ms = grouped(count * STEAL_UNIT_MS);
            format!("the hypervisor took {ms} ms from {who}")
        }
        CounterGroup::ContextSwitches => format!("{who} switched threads {times}"),
        CounterGroup::Memory => format!("{name} rose by {number}"),
        CounterGroup::FrequencyChanges => format!("{who} changed its frequency {times}"),
        CounterGroup::Throttling => format!("{who} was slowed down {times} by its temperature"),
        CounterGroup::LoopThread => {
            format!("{} of the loop's thread: {number}", name.replace('_', " "))
        }
        CounterGroup::MemoryErrors => format!("{name} corrected {number} memory errors"),
    }
}

/// Digits in groups of three: `1,204`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::CounterName;
    use super::*;

    fn delta(group: CounterGroup, name: &str, cpu: Option<u32>, count: u64) -> CounterDelta {
        let counter = CounterName { group, name: name.to_owned(), cpu, device: None };
        CounterDelta { counter, count }
    }

    #[test]
    fn a_sentence_has_the_counter_its_number_and_its_cpu() {
        let mut device = delta(CounterGroup::DeviceInterrupts, "24", Some(1), 1204);
        device.counter.device = Some("virtio-net".to_owned());
        assert_eq!(sentence(&device), "interrupt 24 (virtio-net) fired 1,204 times on CPU 1");
        let steal = delta(CounterGroup::Steal, "", Some(1), 123);
        assert_eq!(sentence(&steal), "the hypervisor took 1,230 ms from CPU 1");
        let all = delta(CounterGroup::ContextSwitches, "", None, 1);
        assert_eq!(sentence(&all), "the machine switched threads once");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let five: Vec<_> =
            (0..5).map(|n| delta(CounterGroup::Memory, &format!("m{n}"), None, 9)).collect();
        assert_eq!(sentences(&five)[2..], ["m2 rose by 9", "2 more counters moved"]);
        assert_eq!(sentences(&five[..4]).last().map(String::as_str), Some("1 more counter moved"));
    }
}
