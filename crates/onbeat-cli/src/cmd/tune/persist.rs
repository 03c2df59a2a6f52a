//! `onbeat tune persist`: settings that hold after each boot, and their removal.

use std::collections::BTreeMap;
use std::path::Path;

use onbeat_commands::question::ask;
use onbeat_tune::persist::{
    ConfirmedState, FollowUp, NotPersisted, Persisted, RemovalOutcome, Removed, confirm, remove,
};
use onbeat_tune::plan::PlanStep;
use onbeat_tune::{HostFiles, LiveHost};
use serde::Serialize;

use super::boot_settings::{self, PersistPlan};
use super::options::TunePersistOptions;
use super::plan_text::{MOST_LISTED, change, counted};
use super::running::{self, Looked};
use super::selection::{self, Selection, selection};
use super::status::{PrintedValue, persisted_words};
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::findings::machine;
use crate::cmd::repair::undo_mode;
use crate::cmd::{ExitVerdict, Failure, typed};
use crate::term::{Tone, say, say_folded};

/// Names the fields of what `tune persist PLAN --json` prints.
const PERSIST_SCHEMA: &str = "onbeat.tune-persist/1";
/// Names the fields of what `tune persist --remove --json` prints.
const REMOVAL_SCHEMA: &str = "onbeat.tune-persist-removal/1";
/// Names the fields of what `tune persist --json` prints.
const PERSISTED_SCHEMA: &str = "onbeat.tune-persisted/1";

pub(super) fn run(options: &TunePersistOptions) -> Result<ExitVerdict, Failure> {
    let is_named = !options.selected.what.is_empty() || options.selected.profile.is_some();
    match (options.remove, is_named) {
        (true, _) => remove_all(options),
        (false, false) => show(options),
        (false, true) => write(options),
    }
}

/// The machine's own root directory can be changed by root alone.
fn admit(root: &Path) -> Result<(), TuneFailure> {
    if root != Path::new("/") || LiveHost::new().is_root() {
        return Ok(());
    }
    Err(TuneFailure::PersistNeedsRoot { root: root.to_owned(), command: typed().join(" ") })
}

fn write(options: &TunePersistOptions) -> Result<ExitVerdict, Failure> {
    let selected = selection(&options.selected, &options.checked, "persist")?;
    admit(&options.root)?;
    let is_elsewhere = options.root != Path::new("/");
    let from = is_elsewhere.then_some(options.root.as_path());
    let checked = running::resolved(&options.checked, Looked { from, json: options.json })?;
    let made = match selected {
        Selection::File(plan) => {
            boot_settings::of_plan(&selection::for_task(plan, &checked), &options.root)?
        }
        Selection::Catalogue(tunings) => {
            let tree = machine::tree(from)?;
            boot_settings::of_tunings(&tree, &tunings, &checked, &options.root)?
        }
    };
    made.settings.validate()?;

    if !options.json {
        print_settings(&made);
    }
    if !options.yes {
        let question = format!("Write them below {}?", options.root.display());
        if !ask(&question, "persist", "changed")? {
            say_folded(Tone::Plain, "nothing was changed");
            return Ok(ExitVerdict::CouldNotRun);
        }
    }

    let written = onbeat_tune::persist(&options.root, &made.settings)?;
    if options.json {
        let printed = PrintedPersist::new(&written, &made.not_persisted);
        say(Tone::Plain, &serde_json::to_string(&printed)?);
    } else {
        print_written(&written);
        print_removal(&options.root);
    }
    Ok(ExitVerdict::Pass)
}

fn print_settings(made: &PersistPlan) {
    let settings = &made.settings;

    if !settings.kernel_parameters.is_empty() {
        say_folded(Tone::Head, "kernel parameters");
        say_folded(Tone::Plain, &format!("  {}", settings.kernel_parameters.join(" ")));
    }
    if let Some(cpus) = &settings.service_cpus {
        say_folded(Tone::Head, "services");
        say_folded(Tone::Plain, &format!("  start on CPU {cpus}"));
    }
    if !settings.sysctls.is_empty() || !settings.sysfs.is_empty() {
        say_folded(Tone::Head, "values written at boot");
        for (name, value) in settings.sysctls.iter().chain(&settings.sysfs) {
            say_folded(Tone::Plain, &format!("  {name} = {value}"));
        }
    }

    if !made.at_boot.is_empty() {
        say_folded(Tone::Head, "applied at boot by onbeat-apply.service");
        print_at_boot(&made.at_boot);
    }
    if !made.not_persisted.is_empty() {
        say_folded(Tone::Head, "not persisted");
        for NotPersisted { id, why } in &made.not_persisted {
            say_folded(Tone::Plain, &format!("  {id}  {why}"));
        }
    }

    say(Tone::Plain, "");
}

/// The first steps of each tuning; the plan file has all of them.
fn print_at_boot(steps: &[PlanStep]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps {
        let count = counts.entry(&step.id).or_insert(0);
        *count += 1;
        if *count <= MOST_LISTED {
            say_folded(Tone::Plain, &format!("  {}  {}", step.id, change(step)));
        }
    }
    for (id, count) in counts.into_iter().filter(|(_, count)| *count > MOST_LISTED) {
        say_folded(Tone::Plain, &format!("  {id}  and {} more", count - MOST_LISTED));
    }
}

/// `remove  sudo onbeat tune persist --remove`
fn print_removal(root: &Path) {
    let below = match root.to_str() {
        Some("/") | None => String::new(),
        Some(root) => format!(" --root {root}"),
    };
    say_folded(Tone::Plain, &format!("remove  sudo onbeat tune persist --remove{below}"));
}

fn print_written(written: &Persisted) {
    say_folded(Tone::Plain, &format!("wrote {}", counted(written.files.len(), "file")));
    for file in &written.files {
        say(Tone::Plain, &format!("  {file}"));
    }
    print_follow_ups(&written.follow_ups);
    if let Some(sentence) = &written.by_hand {
        say_folded(Tone::Careful, sentence);
    }
    for other in &written.overridden {
        say_folded(Tone::Careful, &format!("{other} sets the same values later in the boot"));
    }
    if let Some(sentence) = written.fallback {
        say_folded(Tone::Plain, &format!("fallback  {sentence}"));
    }
}

fn print_follow_ups(follow_ups: &[FollowUp]) {
    if follow_ups.is_empty() {
        return;
    }
    say_folded(Tone::Head, "run these commands; onbeat does not");
    for command in follow_ups {
        say(Tone::Plain, &format!("  {}", command.line()));
        say_folded(Tone::Plain, &format!("      {}", command.why));
    }
}

fn remove_all(options: &TunePersistOptions) -> Result<ExitVerdict, Failure> {
    admit(&options.root)?;
    let removed = remove(&options.root, undo_mode(options.force, false))?;
    let is_left = |outcome: RemovalOutcome| outcome == RemovalOutcome::ChangedSince;
    let left = removed.files.iter().any(|(_, outcome)| is_left(*outcome));
    if options.json {
        say(Tone::Plain, &serde_json::to_string(&PrintedRemoval::new(&removed))?);
    } else if removed.files.is_empty() && removed.follow_ups.is_empty() && removed.by_hand.is_none()
    {
        say_folded(Tone::Plain, "nothing to remove: nothing is persisted");
    } else {
        for (path, outcome) in &removed.files {
            let tone = if is_left(*outcome) { Tone::Careful } else { Tone::Plain };
            say_folded(tone, &format!("{path}  {}", outcome_words(*outcome)));
        }
        print_follow_ups(&removed.follow_ups);
        if let Some(sentence) = &removed.by_hand {
            say_folded(Tone::Careful, sentence);
        }
    }
    Ok(if left { ExitVerdict::CouldNotRun } else { ExitVerdict::Pass })
}

const fn outcome_words(outcome: RemovalOutcome) -> &'static str {
    match outcome {
        RemovalOutcome::Removed => "removed",
        RemovalOutcome::Restored => "as before",
        RemovalOutcome::PartRemoved => {
            "only onbeat's part removed: others have changed the rest since"
        }
        RemovalOutcome::Absent => "was gone already",
        RemovalOutcome::ChangedSince => {
            "left as it is: others have changed it since; inspect it, then add --force"
        }
    }
}

fn show(options: &TunePersistOptions) -> Result<ExitVerdict, Failure> {
    admit(&options.root)?;
    let values = confirm(&options.root)?;
    if options.json {
        let printed = PrintedPersisted {
            schema: PERSISTED_SCHEMA,
            persisted: values.iter().map(PrintedValue::new).collect(),
        };
        say(Tone::Plain, &serde_json::to_string(&printed)?);
        return Ok(ExitVerdict::Pass);
    }

    if values.is_empty() {
        say_folded(Tone::Plain, "nothing is persisted; name a plan file or tunings to persist");
        return Ok(ExitVerdict::Pass);
    }
    for value in &values {
        let tone = if value.state == ConfirmedState::Differs { Tone::Careful } else { Tone::Plain };
        say_folded(tone, &persisted_words(value));
    }
    print_removal(&options.root);
    Ok(ExitVerdict::Pass)
}

#[derive(Serialize)]
struct PrintedPersisted<'p> {
    schema: &'static str,
    persisted: Vec<PrintedValue<'p>>,
}

#[derive(Serialize)]
struct PrintedPersist<'p> {
    schema: &'static str,
    files: &'p [String],
    /// Commands that remain to be run.
    follow_ups: &'p [FollowUp],
    by_hand: Option<&'p str>,
    fallback: Option<&'p str>,
    overridden: &'p [String],
    not_persisted: Vec<PrintedNotPersisted<'p>>,
}

#[derive(Serialize)]
struct PrintedNotPersisted<'p> {
    id: &'p str,
    why: &'p str,
}

impl<'p> PrintedPersist<'p> {
    fn new(written: &'p Persisted, not_persisted: &'p [NotPersisted]) -> Self {
        let left = |one: &'p NotPersisted| PrintedNotPersisted { id: &one.id, why: &one.why };
        Self {
            schema: PERSIST_SCHEMA,
            files: &written.files,
            follow_ups: &written.follow_ups,
            by_hand: written.by_hand.as_deref(),
            fallback: written.fallback,
            overridden: &written.overridden,
            not_persisted: not_persisted.iter().map(left).collect(),
        }
    }
}

#[derive(Serialize)]
struct PrintedRemoval<'p> {
    schema: &'static str,
    files: Vec<PrintedRemovedFile<'p>>,
    follow_ups: &'p [FollowUp],
    #[serde(skip_serializing_if = "Option::is_none")]
    by_hand: Option<&'p str>,
}

#[derive(Serialize)]
struct PrintedRemovedFile<'p> {
    path: &'p str,
    outcome: &'static str,
}

impl<'p> PrintedRemoval<'p> {
    fn new(removed: &'p Removed) -> Self {
        let file = |(path, outcome): &'p (String, RemovalOutcome)| PrintedRemovedFile {
            path,
            outcome: match outcome {
                RemovalOutcome::Removed => "removed",
                RemovalOutcome::Restored => "restored",
                RemovalOutcome::PartRemoved => "part_removed",
                RemovalOutcome::Absent => "absent",
                RemovalOutcome::ChangedSince => "changed_since",
            },
        };
        Self {
            schema: REMOVAL_SCHEMA,
            files: removed.files.iter().map(file).collect(),
            follow_ups: &removed.follow_ups,
            by_hand: removed.by_hand.as_deref(),
        }
    }
}
