//! `onbeat tune status`: what is applied, since when, what others have changed since, and what is
//! persisted.

use std::collections::BTreeMap;
use std::path::Path;

use onbeat_tune::LiveHost;
use onbeat_tune::apply::status::ChangeState;
use onbeat_tune::apply::{AppliedChange, AppliedJournal};
use onbeat_tune::persist::{ConfirmedState, PersistedValue, confirm};
use serde::Serialize;

use super::options::TuneStatusOptions;
use super::plan_text::{MOST_LISTED, arrow, counted, value};
use super::record;
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, letters, say, say_folded};

/// Names the fields of what `tune status --json` prints.
const STATUS_SCHEMA: &str = "onbeat.tune-status/1";

pub(super) fn run(options: TuneStatusOptions) -> Result<ExitVerdict, Failure> {
    let host = LiveHost::new();
    let journals = record::applied(&host, &record::directory(&host)?)?;
    let persisted = confirm(Path::new("/"))?;
    if options.json {
        let printed = PrintedStatus::new(&journals, &persisted);
        say(Tone::Plain, &serde_json::to_string(&printed)?);
        return Ok(ExitVerdict::Pass);
    }

    if journals.is_empty() && persisted.is_empty() {
        say(Tone::Plain, "nothing is applied and nothing is persisted");
    }
    for journal in &journals {
        print_journal(journal, options.full);
    }
    if !journals.is_empty() {
        say(Tone::Plain, "undo  sudo onbeat tune undo");
    }
    print_persisted(&persisted, options.full);
    Ok(ExitVerdict::Pass)
}

fn print_journal(journal: &AppliedJournal, is_full: bool) {
    say_folded(Tone::Head, &heading(journal));
    let mut tunings: BTreeMap<&str, Vec<&AppliedChange>> = BTreeMap::new();
    for change in &journal.changes {
        tunings.entry(&change.id).or_default().push(change);
    }

    for (id, changes) in &tunings {
        let (as_made, others): (Vec<_>, Vec<_>) =
            changes.iter().copied().partition(|change| change.state == ChangeState::InEffect);
        say_folded(Tone::Plain, &format!("  {id}"));
        // Those that others have changed are listed in any case.
        let most = if is_full { usize::MAX } else { MOST_LISTED };
        for change in as_made.iter().take(most) {
            say_folded(Tone::Plain, &format!("    {}", words(change)));
        }
        if as_made.len() > most {
            let more = as_made.len() - most;
            say_folded(Tone::Plain, &format!("    and {more} more in effect; --full lists them"));
        }
        for change in others {
            say_folded(Tone::Careful, &format!("    {}", words(change)));
        }
    }

    let in_effect = journal.changes.iter().filter(|c| c.state == ChangeState::InEffect).count();
    let all = counted(journal.changes.len(), "change");
    say_folded(
        Tone::Plain,
        &format!("{all} of {}, {in_effect} in effect", counted(tunings.len(), "tuning")),
    );
    if journal.damaged_lines > 0 {
        let lines = counted(journal.damaged_lines, "line");
        let path = journal.path.display();
        say_folded(
            Tone::Careful,
            &format!("{lines} of {path} cannot be read: more may be changed than is listed"),
        );
    }
    say(Tone::Plain, "");
}

fn heading(journal: &AppliedJournal) -> String {
    let state = match (journal.is_kept, journal.is_running) {
        (true, _) => "applied by",
        (false, true) => "in progress:",
        (false, false) => "left by the interrupted",
    };
    format!("{state} {}", record::command_and_time(&journal.head))
}

/// `/proc/sys/vm/swappiness: 60 → 10`, and what became of it.
fn words(change: &AppliedChange) -> String {
    let arrow = arrow(letters());
    let AppliedChange { setting, old, new, state, .. } = change;
    let old = value(old);
    let new = value(new);
    match state {
        ChangeState::InEffect => format!("{setting}: {old} {arrow} {new}"),
        ChangeState::Restored => {
            format!("{setting}: has its old value {old}; {new} was refused or is undone")
        }
        ChangeState::ChangedSince { now } => {
            let now = value(now);
            format!("{setting}: changed since to {now}; onbeat had set {new}, before it was {old}")
        }
        ChangeState::Gone => format!("{setting}: no longer exists"),
        ChangeState::Unknown { why } => format!("{setting}: cannot be read: {why}"),
    }
}

fn print_persisted(persisted: &[PersistedValue], is_full: bool) {
    if persisted.is_empty() {
        return;
    }
    let holds = persisted.iter().filter(|value| value.state == ConfirmedState::Holds).count();
    let all = counted(persisted.len(), "setting");
    say_folded(Tone::Head, &format!("persisted: {all}, {holds} in effect"));
    for value in persisted {
        if is_full || value.state != ConfirmedState::Holds {
            say_folded(Tone::Plain, &format!("  {}", persisted_words(value)));
        }
    }
    say(Tone::Plain, "remove  sudo onbeat tune persist --remove");
}

/// `vm.swappiness: 10, in effect`
pub(super) fn persisted_words(one: &PersistedValue) -> String {
    let PersistedValue { name, wanted, found, state } = one;
    let found = found.as_deref().map_or_else(|| "absent".to_owned(), value);
    let wanted = value(wanted);
    match state {
        ConfirmedState::Holds => format!("{name}: {wanted}, in effect"),
        ConfirmedState::AwaitsReboot => {
            format!("{name}: {wanted} from the next boot on; now {found}")
        }
        ConfirmedState::Differs => format!(
            "{name}: {found} instead of {wanted}, though the machine was rebooted: another file or program sets it, or the boot entries are old"
        ),
        ConfirmedState::Unknown => {
            format!("{name}: {wanted} is persisted; its value cannot be read")
        }
    }
}

#[derive(Serialize)]
struct PrintedStatus<'s> {
    schema: &'static str,
    applied: Vec<PrintedJournal<'s>>,
    persisted: Vec<PrintedValue<'s>>,
}

#[derive(Serialize)]
struct PrintedJournal<'s> {
    command: &'s str,
    started_unix_s: u64,
    version: &'s str,
    pid: i32,
    journal: &'s Path,
    state: &'static str,
    changes: Vec<PrintedChange<'s>>,
    damaged_lines: usize,
}

#[derive(Serialize)]
struct PrintedChange<'s> {
    id: &'s str,
    setting: &'s str,
    old: &'s str,
    new: &'s str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'s str>,
}

/// A persisted setting as `status` and `persist` print it.
#[derive(Serialize)]
pub(super) struct PrintedValue<'s> {
    name: &'s str,
    wanted: &'s str,
    found: Option<&'s str>,
    state: &'static str,
}

impl<'s> PrintedStatus<'s> {
    fn new(journals: &'s [AppliedJournal], persisted: &'s [PersistedValue]) -> Self {
        let journal = |journal: &'s AppliedJournal| PrintedJournal {
            command: &journal.head.command,
            started_unix_s: journal.head.started_unix_s,
            version: &journal.head.version,
            pid: journal.head.owner.tid,
            journal: &journal.path,
            state: match (journal.is_kept, journal.is_running) {
                (true, _) => "applied",
                (false, true) => "in_progress",
                (false, false) => "interrupted",
            },
            changes: journal.changes.iter().map(PrintedChange::new).collect(),
            damaged_lines: journal.damaged_lines,
        };

        Self {
            schema: STATUS_SCHEMA,
            applied: journals.iter().map(journal).collect(),
            persisted: persisted.iter().map(PrintedValue::new).collect(),
        }
    }
}

impl<'s> PrintedChange<'s> {
    fn new(change: &'s AppliedChange) -> Self {
        let AppliedChange { id, setting, old, new, state } = change;
        let (word, now, why) = match state {
            ChangeState::InEffect => ("in_effect", None, None),
            ChangeState::Restored => ("restored", None, None),
            ChangeState::ChangedSince { now } => ("changed_since", Some(now.as_str()), None),
            ChangeState::Gone => ("gone", None, None),
            ChangeState::Unknown { why } => ("unknown", None, Some(why.as_str())),
        };
        Self { id, setting, old, new, state: word, now, why }
    }
}

impl<'s> PrintedValue<'s> {
    pub(super) fn new(one: &'s PersistedValue) -> Self {
        let state = match one.state {
            ConfirmedState::Holds => "in_effect",
            ConfirmedState::AwaitsReboot => "awaits_reboot",
            ConfirmedState::Differs => "differs",
            ConfirmedState::Unknown => "unknown",
        };
        Self { name: &one.name, wanted: &one.wanted, found: one.found.as_deref(), state }
    }
}
