//! The table of a check, and all that is known of one tuning.

use std::path::Path;

use onbeat_host::power;
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::{Letters, count, counted, listed, percent, time, time_ns};
use onbeat_tune::catalogue::record::TakesEffect;
use onbeat_tune::catalogue::{CheckVerdict, LoopSetup};
use onbeat_tune::evidence::RecordEvidence;

use super::plan_text::arrow;
use crate::cmd::findings::checked::{
    self, CheckedTuning, EffectEvidence, ExplainedSpikes, mended, takes_word,
};
use crate::cmd::findings::evidence::WatchedMachine;

/// A longer word would make its column wider than the terminal; details and JSON have it in full.
const LONGEST_WORD: usize = 20;

/// Returns the table of findings, in their order.
pub(crate) fn table(setup: &LoopSetup, tunings: &[CheckedTuning], letters: Letters) -> Table {
    let by_run = tunings.iter().any(|tuning| tuning.explained.is_some());
    let arrow = arrow(letters);
    let columns = ["verdict", "effect", "tuning", &format!("current {arrow} wanted"), "takes"]
        .map(Column::words);
    let mut rows: Vec<Row> = tunings.iter().map(|tuning| row(tuning, arrow)).collect();
    for (place, pair) in tunings.windows(2).enumerate() {
        rows[place + 1].begins_group = group(&pair[0]) != group(&pair[1]);
    }

    let title = format!("other tunings for a loop {}", loop_words(setup, letters));
    Table { title, columns: columns.into(), rows, legend: legend(by_run) }
}

fn row(tuning: &CheckedTuning, arrow: &str) -> Row {
    // In one column with the effect: the ids, which cannot be broken, leave no room for another
    // one.
    let whole = |share: f64| percent((share * 100.0).round() / 100.0);
    let share = tuning.explained.map(|of| format!(" {}", whole(of.lateness_share)));
    let share = share.unwrap_or_default();
    let worth = tuning.worth.as_ref().map_or_else(String::new, |it| format!("; gain here: {it}"));
    Row::new([
        verdict_word(&tuning.finding.verdict).to_owned(),
        format!("{} {}{share}", tuning.record.effect, tuning.effect_evidence().word()),
        tuning.record.id.clone(),
        state(tuning, arrow) + &worth,
        takes(tuning),
    ])
}

/// Rows of one group have the same verdict and the same expected effect; with a run, the same
/// verdict.
fn group(tuning: &CheckedTuning) -> (&'static str, u8) {
    let is_sorted_by_effect = tuning.explained.is_none() && tuning.evidence.is_none();
    let effect = if is_sorted_by_effect { tuning.record.effect } else { 0 };
    (verdict_word(&tuning.finding.verdict), effect)
}

fn legend(by_run: bool) -> Vec<String> {
    let effect = "effect: expected on the latency tail of a 1 kHz loop; 3 up to milliseconds, 2 tens to hundreds of us, 1 some \
                  us or rare, 0 hygiene; here: measured here, or seen in the run or while watching; known: by its sources, on \
                  other machines";
    let share = "%: share of the run's lateness with a cause that the tuning removes or reduces; sorted by share and effect, of \
                 which each step counts tenfold";
    let mut lines = vec![effect.to_owned()];
    lines.extend(by_run.then(|| share.to_owned()));
    lines
}

/// `with a period of 1 ms on CPU 3`.
fn loop_words(setup: &LoopSetup, letters: Letters) -> String {
    let period = time_ns(u64::try_from(setup.period_us).unwrap_or(0).saturating_mul(1000), letters);
    let on = if setup.cpus.is_empty() { String::new() } else { format!(" on CPU {}", setup.cpus) };
    format!("with a period of {period}{on}")
}

const fn verdict_word(verdict: &CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::NotApplicable(_) => "n/a",
        other => checked::verdict_word(other),
    }
}

/// What a change takes; nothing to change is a dash.
fn takes(tuning: &CheckedTuning) -> String {
    let takes = tuning.record.takes_effect.iter().filter(|takes| **takes != TakesEffect::Check);
    let words: Vec<&str> = takes.map(|takes| takes_word(*takes)).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// `60 → at most 10` of a bad finding, the value of a good one, the reason of any other.
fn state(tuning: &CheckedTuning, arrow: &str) -> String {
    let finding = &tuning.finding;
    let text = match &finding.verdict {
        CheckVerdict::Bad => {
            format!("{} {arrow} {}", without_places(&finding.current), finding.wanted)
        }
        CheckVerdict::Good => without_places(&finding.current),
        CheckVerdict::Unknown(reason) | CheckVerdict::NotApplicable(reason) => reason.clone(),
    };
    text.split(' ').map(shortened).collect::<Vec<_>>().join(" ")
}

fn shortened(word: &str) -> String {
    if word.chars().count() <= LONGEST_WORD {
        return word.to_owned();
    }
    let kept: String = word.chars().take(LONGEST_WORD - 3).collect();
    format!("{kept}...")
}

/// The values of a finding without their places: `CPUs 0-1 in 94 places`.
fn without_places(current: &str) -> String {
    let mut values: Vec<&str> = Vec::new();
    let mut places = 0;
    for part in current.split("; ") {
        let more = part.strip_prefix("and ").and_then(|rest| rest.strip_suffix(" more"));
        if let Some(more) = more.and_then(|n| n.parse::<usize>().ok()) {
            places += more;
            continue;
        }

        places += 1;
        let value = part.split_once(": ").map_or(part, |(_, value)| value);
        if !values.contains(&value) {
            values.push(value);
        }
    }

    let joined = values.join("; ");
    if places > values.len() { format!("{joined} in {places} places") } else { joined }
}

/// Returns the title of a tuning and, line by line, what is known of it.
pub(crate) fn details(tuning: &CheckedTuning) -> String {
    let CheckedTuning { record, finding, explained, evidence, worth } = tuning;
    let reason = finding.verdict.reason().map(str::to_owned);
    let causes: Vec<String> = mended(record).iter().map(|kind| kind.words().to_owned()).collect();
    let takes: Vec<String> = record.takes_effect.iter().map(ToString::to_string).collect();

    let lines = [
        ("what", Some(record.what.clone())),
        ("why", Some(record.why.clone())),
        ("reason", reason),
        ("current", some(&finding.current)),
        ("wanted", some(&finding.wanted)),
        ("fix", some(&finding.fix)),
        ("takes", Some(takes.join(", "))),
        ("risk", record.risk.as_ref().map(|risk| format!("{}: {}", risk.level, risk.text))),
        ("effect", expected_effect(tuning)),
        ("gain", worth.as_ref().map(|worth| format!("here: {worth}"))),
        ("causes", (!causes.is_empty()).then(|| listed(&causes))),
        ("seen", evidence.as_ref().map(seen)),
        ("explains", explained.map(|explained| explains(&explained))),
        ("sources", Some(record.sources.join(", "))),
    ];
    let title = format!("{}: {} ({})", record.id, record.title, verdict_word(&finding.verdict));
    title + &named_lines(lines)
}

/// `up to milliseconds; known from the sources below, not measured here`.
fn expected_effect(tuning: &CheckedTuning) -> Option<String> {
    const EFFECTS: [&str; 4] = [
        "no effect on latency",
        "some us, or rare",
        "tens to hundreds of us",
        "up to milliseconds",
    ];
    let effect = EFFECTS.get(usize::from(tuning.record.effect))?;
    Some(format!("{effect}; {}", tuning.effect_evidence().words()))
}

fn named_lines<const N: usize>(lines: [(&str, Option<String>); N]) -> String {
    let line = |(name, text): (&str, Option<String>)| Some(format!("\n  {name:8} {}", text?));
    lines.into_iter().filter_map(line).collect()
}

/// Returns the first sentence of a check: how many settings are not as wanted, and how much the
/// worst of them may cost.
pub(crate) fn verdict(setup: &LoopSetup, tunings: &[CheckedTuning], letters: Letters) -> String {
    let of = loop_words(setup, letters);
    let bad = || tunings.iter().filter(|tuning| tuning.finding.verdict == CheckVerdict::Bad);
    let most = bad().filter(|tuning| tuning.record.effect == MOST_EFFECT).count();
    let is_measured =
        |tuning: &&CheckedTuning| tuning.effect_evidence() == EffectEvidence::MeasuredHere;
    let known_from = match bad().filter(is_measured).count() {
        0 => "known from other machines, not measured here".to_owned(),
        here => format!("{} measured here, the others known from elsewhere", count(here as u64)),
    };
    let settings = |number: usize| counted(number as u64, "setting");

    match bad().count() {
        0 => format!("no setting that could be judged delays a loop {of}"),
        all if most == 0 => format!("{} may delay a loop {of} ({known_from})", settings(all)),
        all => format!(
            "{} may delay a loop {of}, {} of them by up to milliseconds ({known_from})",
            settings(all),
            count(most as u64)
        ),
    }
}

/// Returns what the machine does not let this program see or change, a sentence each.
pub(crate) fn surroundings(tunings: &[CheckedTuning]) -> Vec<String> {
    let fact = |id: &str| {
        let tuning = tunings.iter().find(|tuning| tuning.record.id == id)?;
        Some(tuning.finding.current.as_str()).filter(|text| !text.is_empty())
    };
    let mut sentences = Vec::new();
    if fact("env.virt") == Some("guest") {
        sentences.push(
            "a guest: idle states, frequency and firmware of the hardware are set on its host"
                .to_owned(),
        );
    }
    if fact("env.container").is_some_and(|mark| !mark.starts_with("no mark")) {
        sentences.push(
            "in a container: settings of the kernel are changed outside of it, and threads outside \
             of it are not visible"
                .to_owned(),
        );
    }
    if let Some(mode) = fact("env.lockdown").filter(|mode| *mode != "none") {
        sentences.push(format!(
            "kernel lockdown ({mode}): debugfs and model-specific registers cannot be written, \
             even by root"
        ));
    }

    sentences
}

/// Returns what keeps this machine awake and what lets it sleep, a sentence each.
pub(crate) fn kept_awake() -> Vec<String> {
    let limit = power::latency_limit().filter(|limit| !limit.holders.is_empty());
    let limit = limit.map(|limit| format!("the limit of idle exit latency is {limit}"));
    let names: Vec<String> =
        power::suspendable(Path::new("/")).iter().map(ToString::to_string).collect();
    let suspendable = (!names.is_empty())
        .then(|| format!("the kernel may suspend {} while the machine runs", names.join(", ")));
    limit.into_iter().chain(suspendable).collect()
}

/// The largest step of the expected effect.
const MOST_EFFECT: u8 = 3;

/// Returns a finding by its place in the order: what, why, state, fix, what it takes and may break.
pub(crate) fn in_short(place: usize, tuning: &CheckedTuning, letters: Letters) -> String {
    let CheckedTuning { record, explained, evidence, .. } = tuning;
    let arrow = arrow(letters);
    let takes: Vec<String> = record.takes_effect.iter().map(ToString::to_string).collect();
    let lines = [
        ("what", Some(record.what.clone())),
        ("why", Some(record.why.clone())),
        ("state", Some(state(tuning, arrow))),
        ("seen", evidence.as_ref().map(seen)),
        ("explains", explained.map(|explained| explains(&explained))),
        (
            "effect",
            expected_effect(tuning).map(|effect| effect.replace(" from the sources below", "")),
        ),
        ("fix", some(&tuning.finding.fix)),
        ("takes", Some(takes.join(", "))),
        ("risk", record.risk.as_ref().map(|risk| format!("{}: {}", risk.level, risk.text))),
    ];
    format!("{place}. {}: {}", record.id, record.title) + &named_lines(lines)
}

fn seen(evidence: &RecordEvidence) -> String {
    match evidence {
        RecordEvidence::Moved(sentences) => sentences.join("; "),
        RecordEvidence::Still => "nothing while it was watched".to_owned(),
        RecordEvidence::Unread(reason) => reason.clone(),
    }
}

fn explains(explained: &ExplainedSpikes) -> String {
    let ExplainedSpikes { spikes, of, lateness_share, advised } = explained;
    let advised = if *advised { "; advised for this run" } else { "" };
    format!(
        "{} of {} spikes, {} of their lateness{advised}",
        count(*spikes),
        count(*of),
        percent(*lateness_share)
    )
}

/// Returns the lines on the watched time: wake-up latency, and the counters that were not read.
pub(crate) fn watched(watched: &WatchedMachine, letters: Letters) -> Vec<String> {
    let WatchedMachine { evidence, probe, .. } = watched;
    let as_whom = match probe.priority {
        0 => "as an ordinary thread, since real-time priority is not permitted".to_owned(),
        priority => format!("with SCHED_FIFO {priority}"),
    };
    let latency = probe.wakeup_latency.as_ref().map_or_else(
        || "no sample".to_owned(),
        |of| {
            let wakeups = count(of.count);
            let mean = time(of.mean_ns, letters);
            let worst = time_ns(of.max_ns, letters);
            format!(
                "{wakeups} wake-ups, mean {mean}, worst {worst}, {} spikes",
                count(probe.spikes)
            )
        },
    );

    let mut lines =
        vec![format!("watched  {} s on CPU {} {as_whom}: {latency}", evidence.seconds, probe.cpu)];
    lines.extend(evidence.timer_slack_ns.filter(|_| probe.priority == 0).map(|slack| {
        format!("slack    sleeps of ordinary threads end up to {} late", time_ns(slack, letters))
    }));
    for unread in &evidence.unread {
        lines.push(format!("unread   {}: {}", unread.group, unread.reason));
    }
    lines
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_values_without_their_places() {
        assert_eq!(without_places("/proc/sys/vm/swappiness: 60"), "60");
        assert_eq!(without_places("/a: 10; /b: 20"), "10; 20");
        assert_eq!(
            without_places("init (1): CPUs 0-1; sh (2): CPUs 0-1; and 91 more"),
            "CPUs 0-1 in 93 places"
        );
        assert_eq!(without_places("no"), "no");
    }

    #[test]
    fn a_word_that_would_widen_its_column_is_cut() {
        assert_eq!(shortened("watchdog_cpumask"), "watchdog_cpumask");
        assert_eq!(shortened("hyperv_clocksource_tsc_page"), "hyperv_clocksourc...");
    }
}
