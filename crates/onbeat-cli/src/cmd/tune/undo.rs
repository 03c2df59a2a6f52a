//! `onbeat tune undo`: undoes what is on record, and says what others have changed since.

use std::collections::BTreeMap;

use clap::Args;
use onbeat_tune::apply::status::ChangeState;
use onbeat_tune::apply::{self, AppliedChange, AppliedJournal};
use onbeat_tune::journal::Undone;
use onbeat_tune::repair::Ending;
use onbeat_tune::{ChangeOutcome, LiveHost, Repaired};
use serde::Serialize;

use super::plan_text::{arrow, counted, value};
use super::record;
use crate::cmd::repair::undo_mode;
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, letters, say, say_folded};

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct TuneUndoOptions {
    /// Print what would be undone, without changes
    #[arg(long, conflicts_with_all = ["force", "forget"])]
    pub(crate) dry_run: bool,
    /// Restore also settings that another program has changed since
    #[arg(long, conflicts_with = "forget")]
    pub(crate) force: bool,
    /// Drop changes that cannot be undone from the record
    #[arg(long)]
    pub(crate) forget: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// Names the fields of what `tune undo --json` prints.
const UNDO_SCHEMA: &str = "onbeat.tune-undo/1";

pub(super) fn run(options: TuneUndoOptions) -> Result<ExitVerdict, Failure> {
    let host = LiveHost::new();
    let directory = record::directory(&host)?;
    if options.dry_run {
        return would_undo(&record::applied(&host, &directory)?, options.json);
    }

    let repaired = apply::undo(&directory, &host, undo_mode(options.force, options.forget))?;
    let is_settled = repaired.iter().all(Repaired::is_settled);
    if options.json {
        say(Tone::Plain, &serde_json::to_string(&PrintedUndo::new(&repaired, is_settled))?);
    } else {
        print(&repaired);
    }
    Ok(if is_settled { ExitVerdict::Pass } else { ExitVerdict::CouldNotRun })
}

fn print(repaired: &[Repaired]) {
    let sentences: Vec<(Tone, String)> = repaired.iter().flat_map(sentences).collect();
    if sentences.is_empty() {
        say_folded(Tone::Plain, "nothing to undo: no change is on record");
    }
    for (tone, sentence) in &sentences {
        say_folded(*tone, sentence);
    }
}

fn sentences(repaired: &Repaired) -> Vec<(Tone, String)> {
    let who = repaired.head.as_ref().map(record::command_and_time);
    let who = who.unwrap_or_else(|| "an unknown command".to_owned());
    let mut sentences = match &repaired.ending {
        Ending::Undone(undone) => sentences_of_undone(&who, undone),
        Ending::EarlierBoot => vec![(
            Tone::Plain,
            format!("dropped the record of {who}: the machine has rebooted since, which undid it"),
        )],
        Ending::Empty => Vec::new(),
        Ending::InUse { pid } => {
            vec![(Tone::Careful, format!("left alone: {who}; it is running (pid {pid})"))]
        }
    };

    sentences.extend(repaired.damage("onbeat tune undo").map(|sentence| (Tone::Careful, sentence)));
    sentences
}

fn sentences_of_undone(who: &str, undone: &[Undone]) -> Vec<(Tone, String)> {
    let is_restored = |one: &&Undone| {
        matches!(one.outcome, ChangeOutcome::Restored | ChangeOutcome::Narrowed { .. })
    };
    let restored: Vec<&Undone> = undone.iter().filter(is_restored).collect();
    let already = undone.iter().filter(|one| one.outcome == ChangeOutcome::Already).count();
    let gone = undone.iter().filter(|one| one.outcome == ChangeOutcome::Gone).count();

    let mut parts = vec![format!(
        "{} of {} restored{}",
        restored.len(),
        counted(undone.len(), "change"),
        by_noun(&restored)
    )];
    if already > 0 {
        parts.push(format!("{already} had the old value already"));
    }
    if gone > 0 {
        parts.push(format!("{gone} of a setting that no longer exists"));
    }
    let mut sentences = vec![(Tone::Plain, format!("undo of {who}: {}", parts.join(", ")))];
    sentences.extend(undone.iter().filter_map(particular));
    sentences
}

/// What is not as before, and what to do about it.
fn particular(Undone { intent, outcome }: &Undone) -> Option<(Tone, String)> {
    let name = intent.key.name();
    let old = intent.old.trim();
    let sentence = match outcome {
        ChangeOutcome::Changed { now } => {
            let now = now.trim();
            format!(
                "{name} not restored: it is now \"{now}\", which onbeat did not write; before it was \"{old}\". \
                 `onbeat tune undo --force` restores that, `onbeat tune undo --forget` drops it from the record"
            )
        }
        ChangeOutcome::Failed { reason } => format!(
            "cannot restore {name} to \"{old}\": {reason}. It stays on record: `onbeat tune undo` tries again, \
             `onbeat tune undo --forget` drops it"
        ),
        ChangeOutcome::Narrowed { given, offline } => format!(
            "restored {name} to \"{given}\": before it was \"{old}\", and CPU {offline} is now offline"
        ),
        ChangeOutcome::Forgotten { why } => {
            format!("dropped {name} from the record: {why}; before it was \"{old}\"")
        }
        ChangeOutcome::Restored | ChangeOutcome::Already | ChangeOutcome::Gone => return None,
    };

    Some((Tone::Careful, sentence))
}

/// ` (2 files, 1 interrupt)`
fn by_noun(undone: &[&Undone]) -> String {
    let mut counts = BTreeMap::new();
    for one in undone {
        *counts.entry(one.intent.key.noun()).or_insert(0_usize) += 1;
    }
    let words = counts.iter().map(|((one, many), count)| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    });
    let listed = words.collect::<Vec<_>>().join(", ");
    if listed.is_empty() { listed } else { format!(" ({listed})") }
}

/// What an undo would do, from the values now.
fn would_undo(journals: &[AppliedJournal], is_json: bool) -> Result<ExitVerdict, Failure> {
    if is_json {
        say(Tone::Plain, &serde_json::to_string(&PrintedUndo::planned(journals))?);
        return Ok(ExitVerdict::Pass);
    }

    if journals.is_empty() {
        say_folded(Tone::Plain, "nothing to undo: no change is on record");
    }
    for journal in journals {
        if journal.is_running && !journal.is_kept {
            let who = record::command_and_time(&journal.head);
            let pid = journal.head.owner.tid;
            say_folded(
                Tone::Careful,
                &format!("would leave alone: {who}; it is running (pid {pid})"),
            );
            continue;
        }

        say_folded(Tone::Head, &format!("would undo {}", record::command_and_time(&journal.head)));
        for change in journal.changes.iter().rev() {
            say_folded(Tone::Plain, &format!("  {}", would(change)));
        }
        if journal.damaged_lines > 0 {
            let lines = counted(journal.damaged_lines, "line");
            let path = journal.path.display();
            say_folded(
                Tone::Careful,
                &format!("  {lines} of {path} cannot be read: it would stay"),
            );
        }
    }
    Ok(ExitVerdict::Pass)
}

fn would(change: &AppliedChange) -> String {
    let arrow = arrow(letters());
    let AppliedChange { setting, old, new, state, .. } = change;
    let old = value(old);
    let new = value(new);
    match state {
        ChangeState::InEffect => format!("{setting}: {new} {arrow} {old}"),
        ChangeState::Restored => format!("{setting}: {old} already"),
        ChangeState::ChangedSince { now } => {
            let now = value(now);
            format!("{setting}: stays {now}, which onbeat did not write; before it was {old}")
        }
        ChangeState::Gone => format!("{setting}: no longer exists"),
        ChangeState::Unknown { why } => format!("{setting}: cannot be read: {why}"),
    }
}

#[derive(Serialize)]
struct PrintedUndo<'u> {
    schema: &'static str,
    /// Whether the machine was changed.
    dry_run: bool,
    /// Whether nothing is left on record.
    settled: bool,
    changes: Vec<PrintedUndone<'u>>,
    /// Lines of the record that cannot be read, if any: changes in them are not among `changes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged_lines: Option<usize>,
}

#[derive(Serialize)]
struct PrintedUndone<'u> {
    command: &'u str,
    id: &'u str,
    setting: String,
    old: &'u str,
    new: &'u str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'u str>,
}

impl<'u> PrintedUndo<'u> {
    fn new(repaired: &'u [Repaired], settled: bool) -> Self {
        let changes = repaired.iter().flat_map(|one| {
            let command = one.head.as_ref().map_or("", |head| head.command.as_str());
            let undone: &[Undone] =
                if let Ending::Undone(undone) = &one.ending { undone } else { &[] };
            undone.iter().map(move |undone| PrintedUndone::new(command, undone))
        });
        let changes = changes.collect();
        let damaged = repaired.iter().filter(|one| matches!(one.ending, Ending::Undone(_)));
        let damaged_lines = damaged.map(|one| one.damaged_lines).sum::<usize>();
        let damaged_lines = Some(damaged_lines).filter(|&all| all > 0);
        Self { schema: UNDO_SCHEMA, dry_run: false, settled, changes, damaged_lines }
    }

    fn planned(journals: &'u [AppliedJournal]) -> Self {
        let open = journals.iter().filter(|journal| journal.is_kept || !journal.is_running);
        let changes = open.flat_map(|journal| {
            let command = journal.head.command.as_str();
            journal.changes.iter().rev().map(move |change| PrintedUndone::planned(command, change))
        });
        let settled = journals.is_empty();
        let changes = changes.collect();
        let damaged_lines = journals.iter().map(|journal| journal.damaged_lines).sum::<usize>();
        let damaged_lines = Some(damaged_lines).filter(|&all| all > 0);
        Self { schema: UNDO_SCHEMA, dry_run: true, settled, changes, damaged_lines }
    }
}

impl<'u> PrintedUndone<'u> {
    fn new(command: &'u str, Undone { intent, outcome }: &'u Undone) -> Self {
        let (word, why) = match outcome {
            ChangeOutcome::Restored => ("restored", None),
            ChangeOutcome::Already => ("already", None),
            ChangeOutcome::Changed { now } => ("changed_since", Some(now.as_str())),
            ChangeOutcome::Gone => ("gone", None),
            ChangeOutcome::Narrowed { given, .. } => ("narrowed", Some(given.as_str())),
            ChangeOutcome::Forgotten { why } => ("forgotten", Some(why.as_str())),
            ChangeOutcome::Failed { reason } => ("failed", Some(reason.as_str())),
        };
        let id = &intent.id;
        let old = &intent.old;
        let new = &intent.new;
        Self { command, id, setting: intent.key.name(), old, new, outcome: word, why }
    }

    fn planned(command: &'u str, change: &'u AppliedChange) -> Self {
        let AppliedChange { id, setting, old, new, state } = change;
        let (outcome, why) = match state {
            ChangeState::InEffect => ("would_restore", None),
            ChangeState::Restored => ("already", None),
            ChangeState::ChangedSince { now } => ("changed_since", Some(now.as_str())),
            ChangeState::Gone => ("gone", None),
            ChangeState::Unknown { why } => ("unknown", Some(why.as_str())),
        };
        Self { command, id, setting: setting.clone(), old, new, outcome, why }
    }
}
