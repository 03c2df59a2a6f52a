//! Events of a bus and the robot on it: counts, incidents in sentences, and the verdict on a limit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::{count, listed};
use super::verdict::Outcome;
use onbeat_ethercat::event::EventKind;
use onbeat_record::{EventNote, EventsLeftOut, RunFile};

/// Incidents that are listed one by one.
const INCIDENTS: usize = 5;
/// Events that a summary lists of a cell: the first. All that were kept stand in the run file.
const LISTED: usize = 200;

/// Events of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusEvents {
    /// Alarms by kind, those without a note included.
    pub alarms: BTreeMap<EventKind, u64>,
    /// Other events by kind.
    pub others: BTreeMap<EventKind, u64>,
    /// Events dropped on their way from the loop; their kinds are unknown.
    pub lost: u64,
    /// Alarms without a note.
    pub left_out: u64,
    /// Incidents, as sentences.
    pub incidents: Vec<String>,
    /// The first 200 events.
    pub listed: Vec<EventNote>,
}

impl BusEvents {
    /// Those of a run; `None` when there is none.
    pub(super) fn from_run(run: &RunFile) -> Option<Box<Self>> {
        let EventsLeftOut { alarms, others, lost } = run.events_left_out.clone();
        let left_out = alarms.values().sum();
        let mut all = Self { alarms, others, lost, left_out, ..Self::default() };
        for event in &run.events {
            let counts = if event.alarm { &mut all.alarms } else { &mut all.others };
            *counts.entry(event.kind).or_insert(0) += 1;
            let unreported = event.kind.unreported(event.old);
            if unreported > 0 {
                *all.alarms.entry(event.kind).or_insert(0) += unreported;
            }
        }

        all.incidents = in_words(&run.events, &run.events_left_out);
        all.listed = run.events.iter().take(LISTED).cloned().collect();
        (!all.alarms.is_empty() || !all.others.is_empty() || lost > 0).then(|| Box::new(all))
    }

    /// Returns the number of alarms.
    #[must_use]
    pub fn alarm_count(&self) -> u64 {
        self.alarms.values().sum()
    }
}

/// The verdict on a limit on alarms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmVerdict {
    /// The outcome.
    pub outcome: Outcome,
    /// Number of alarms.
    pub alarms: u64,
    /// Number of alarms allowed.
    pub most: u64,
    /// The result as a sentence.
    pub sentence: String,
}

/// Judges events by how many of them may say that something is wrong. Events that were lost may
/// have been alarms.
#[must_use]
pub fn judge(events: Option<&BusEvents>, most: u64) -> AlarmVerdict {
    let (alarms, lost) = events.map_or((0, 0), |events| (events.alarm_count(), events.lost));
    let outcome = match () {
        () if alarms > most => Outcome::Fail,
        () if alarms + lost > most => Outcome::Inconclusive,
        () => Outcome::Pass,
    };

    let lost =
        if lost > 0 { format!(", and {} events were lost", count(lost)) } else { String::new() };
    let first = events
        .and_then(|events| events.incidents.first())
        .map_or(String::new(), |what| format!(": {what}"));
    let sentence = format!("{}{lost}, {} allowed{first}", alarms_in_words(alarms), count(most));
    AlarmVerdict { outcome, alarms, most, sentence }
}

/// How many, as the subject of a sentence.
pub(super) fn alarms_in_words(alarms: u64) -> String {
    match alarms {
        0 => "no bus or robot alarms".to_owned(),
        1 => "1 bus or robot alarm".to_owned(),
        n => format!("{} bus and robot alarms", count(n)),
    }
}

/// What was wrong: the first incidents a sentence each, those of devices and of the robot's stop
/// before all others, then the rest by kind.
fn in_words(notes: &[EventNote], left_out: &EventsLeftOut) -> Vec<String> {
    let mut incidents: Vec<(u8, String, EventKind)> = Vec::new();
    for (place, event) in notes.iter().enumerate().filter(|(_, event)| event.alarm) {
        incidents.push((rank(event.kind), incident(event, &notes[place + 1..]), event.kind));
    }

    incidents.sort_by_key(|(rank, ..)| *rank);
    let rest = incidents.split_off(incidents.len().min(INCIDENTS));
    let mut more = left_out.alarms.clone();
    rest.iter().for_each(|(.., kind)| *more.entry(*kind).or_insert(0) += 1);
    let mut sentences: Vec<String> =
        incidents.into_iter().map(|(_, sentence, _)| sentence).collect();
    if !more.is_empty() {
        let kinds: Vec<String> =
            more.iter().map(|(kind, n)| format!("{} {}", count(*n), kind.words())).collect();
        sentences.push(format!("further alarms: {}", listed(&kinds)));
    }

    if left_out.lost > 0 {
        sentences
            .push(format!("{} events were lost between loop and recorder", count(left_out.lost)));
    }

    sentences
}

/// The order in which incidents are listed.
const fn rank(kind: EventKind) -> u8 {
    match kind {
        EventKind::DeviceLost | EventKind::WrongDevice | EventKind::SafeStop => 0,
        EventKind::StateChanged
        | EventKind::DevicesLeftOp
        | EventKind::MailboxMute
        | EventKind::GroupTwice
        | EventKind::StateRefused
        | EventKind::Emergency
        | EventKind::SdoRefused
        | EventKind::JointDown
        | EventKind::CommanderLost
        | EventKind::CommanderDied
        | EventKind::OwnerDied
        | EventKind::Frozen
        | EventKind::LinkErrors => 1,
        _ => 2,
    }
}

/// An alarm and when, with the end of what it began, where that is among the events `after` it.
fn incident(event: &EventNote, after: &[EventNote]) -> String {
    let ended_by = match event.kind {
        EventKind::DeviceLost => EventKind::DeviceBack,
        EventKind::WorkingCounterOff => EventKind::WorkingCounterBack,
        _ => return format!("{} at {:.3} s", event.sentence, event.t),
    };

    let begins_again =
        |other: &&EventNote| other.kind == event.kind && other.device == event.device;
    let until = after.iter().position(|other| begins_again(&other)).unwrap_or(after.len());
    let end =
        after[..until].iter().find(|other| other.kind == ended_by && other.device == event.device);
    let device = event.device.as_deref().unwrap_or_default();
    match (event.kind, end) {
        (EventKind::DeviceLost, Some(end)) => {
            format!(
                "{device} stopped answering at {:.3} s, back in OP after {:.3} s",
                event.t,
                f64::from(end.code) / 1e6
            )
        }
        (EventKind::DeviceLost, None) => format!("{device} stopped answering at {:.3} s", event.t),
        (_, Some(end)) => {
            format!(
                "{} at {:.3} s, correct again after {} cycles",
                event.sentence,
                event.t,
                count(end.code.into())
            )
        }
        (_, None) => format!("{} since {:.3} s", event.sentence, event.t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(t: f64, kind: EventKind, device: Option<&str>, code: u32) -> EventNote {
        let event = onbeat_ethercat::event::Event {
            at_ns: 0,
            cycle: 1,
            kind,
            device: 0,
            old: 3,
            new: 2,
            code,
        };
        EventNote {
            t,
            cycle: 1,
            kind,
            device: device.map(str::to_owned),
            old: 3,
            new: 2,
            code,
            alarm: event.is_alarm(),
            sentence: event.sentence(device.unwrap_or_default()),
        }
    }

    #[test]
    fn a_device_that_came_back_is_one_incident_and_comes_first() {
        let notes = [
            note(3.001, EventKind::WorkingCounterOff, None, 0),
            note(3.002, EventKind::DeviceLost, Some("left knee"), 0),
            note(3.5, EventKind::DeviceFound, Some("left knee"), 0),
            note(3.522, EventKind::DeviceBack, Some("left knee"), 520_000),
            note(3.523, EventKind::WorkingCounterBack, None, 522),
            note(4.0, EventKind::DeviceLost, Some("left knee"), 0),
        ];
        let sentences = in_words(&notes, &EventsLeftOut::default());

        assert_eq!(
            sentences,
            [
                "left knee stopped answering at 3.002 s, back in OP after 0.520 s",
                "left knee stopped answering at 4.000 s",
                "working counter 2 where 3 is expected at 3.001 s, correct again after 522 cycles",
            ]
        );
    }

    #[test]
    fn five_incidents_are_listed_and_the_rest_is_counted_with_what_was_left_out() {
        let notes = vec![note(1.0, EventKind::FrameLate, None, 0); 7];
        let left_out = EventsLeftOut {
            alarms: BTreeMap::from([(EventKind::FrameLate, 1_000)]),
            lost: 3,
            ..Default::default()
        };
        let sentences = in_words(&notes, &left_out);

        assert_eq!(sentences.len(), 7);
        assert_eq!(sentences[5], "further alarms: 1,002 frame late");
        assert_eq!(sentences[6], "3 events were lost between loop and recorder");
    }

    #[test]
    fn those_of_a_series_that_were_not_reported_are_counted() {
        let mut run = RunFile::default();
        run.events.push(note(1.0, EventKind::Emergency, Some("knee"), 0x7305));
        assert_eq!(BusEvents::from_run(&run).unwrap().alarm_count(), 4);
    }

    #[test]
    fn a_limit_counts_what_is_wrong_and_what_was_lost_decides_nothing() {
        let events = |alarms: u64, lost| BusEvents {
            alarms: BTreeMap::from([(EventKind::DeviceLost, alarms)]),
            others: BTreeMap::from([(EventKind::BusUp, 1)]),
            lost,
            ..BusEvents::default()
        };

        let outcome = |alarms, lost, most| judge(Some(&events(alarms, lost)), most).outcome;
        assert_eq!(judge(None, 0).outcome, Outcome::Pass);
        assert_eq!(
            (outcome(0, 0, 0), outcome(1, 0, 0), outcome(1, 0, 1)),
            (Outcome::Pass, Outcome::Fail, Outcome::Pass)
        );
        assert_eq!((outcome(0, 1, 0), outcome(1, 1, 0)), (Outcome::Inconclusive, Outcome::Fail));
        assert_eq!(judge(Some(&events(2, 0)), 0).sentence, "2 bus and robot alarms, 0 allowed");
    }
}
