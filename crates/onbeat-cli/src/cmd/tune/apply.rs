//! `onbeat tune apply`: makes the changes of a plan, after a question, and says how to undo them.

use std::path::Path;
use std::sync::atomic::Ordering;

use onbeat_commands::question::ask;
use onbeat_tune::apply::{
    self, Applied, AppliedStep, ApplyError, ApplyRequest, OnRefusal, OwnerRule, StepOutcome, owners,
};
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::Plan;
use onbeat_tune::{HostFiles, LiveHost, UndoMode};
use serde::Serialize;

use super::options::TuneApplyOptions;
use super::plan_text::{self, counted};
use super::running::{self, Looked};
use super::selection::{self, Selection, selection};
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::repair::repair_first;
use crate::cmd::{ExitVerdict, Failure, typed};
use crate::signals::{EndOf, OnUsr1, watch};
use crate::state::journal_directory;
use crate::term::{Tone, advise, say, say_folded};

/// Names the fields of what `tune apply --json` prints.
const APPLY_SCHEMA: &str = "onbeat.tune-apply/1";

pub(super) fn run(options: &TuneApplyOptions) -> Result<ExitVerdict, Failure> {
    let host = LiveHost::new();
    let selected = selection(&options.selected, &options.checked, "apply")?;
    if !host.is_root() {
        return Err(ApplyError::NeedsRoot { command: typed().join(" ") }.into());
    }

    // What an interrupted onbeat left would be taken for the machine's own values.
    repair_first()?;
    let checked = running::resolved(&options.checked, Looked { from: None, json: options.json })?;
    let plan = match selected {
        Selection::File(plan) => selection::for_task(plan, &checked),
        Selection::Catalogue(tunings) => selection::planned(&HostTree::live(), tunings, &checked)?,
    };
    if !options.ignore_owners
        && let Some(owner) = owners::find(&host, &plan)?
    {
        return Err(TuneFailure::Owned(owner).into());
    }

    if !options.json {
        plan_text::print(&plan, options.full);
    }
    let steps = plan_text::now(&plan).count();
    let question = format!("Make these changes ({})?", counted(steps, "step"));
    if steps > 0 && !options.yes && !ask(&question, "apply", "changed")? {
        say(Tone::Plain, "nothing was changed");
        return Ok(ExitVerdict::CouldNotRun);
    }

    apply_now(&host, &plan, options)
}

/// Applies a plan. Ctrl-C is answered when the change in progress has been made: see
/// [`interrupted`].
fn apply_now(
    host: &LiveHost,
    plan: &Plan,
    options: &TuneApplyOptions,
) -> Result<ExitVerdict, Failure> {
    let directory = journal_directory();
    let interruptions = watch(OnUsr1::Refuse)?;
    let _undoing = EndOf::orderly("the change in progress and its undoing");
    let request = ApplyRequest {
        on_refusal: if options.keep_going { OnRefusal::LeaveOut } else { OnRefusal::RollBack },
        owners: if options.ignore_owners { OwnerRule::Allow } else { OwnerRule::Refuse },
        ..ApplyRequest::new(typed().join(" "))
    };

    let applied = apply::apply(host, &directory, plan, &request)?;
    if interruptions.stop.load(Ordering::Relaxed)
        && let Some(journal) = &applied.journal
    {
        return interrupted(host, journal);
    }

    if options.json {
        say(Tone::Plain, &serde_json::to_string(&PrintedApply::new(&applied))?);
    } else {
        say_folded(Tone::Plain, &words(&applied));
    }
    Ok(ExitVerdict::Pass)
}

/// After Ctrl-C: undoes the changes of this command, and leaves those of earlier ones.
fn interrupted(host: &LiveHost, journal: &Path) -> Result<ExitVerdict, Failure> {
    let undone = apply::undo_one(journal, host, UndoMode::Careful)?;
    let sentence = if undone.is_none_or(|undone| undone.is_settled()) {
        "interrupted: all changes of this command were undone"
    } else {
        "interrupted: not all changes could be undone; `sudo onbeat tune undo` tries again and prints why"
    };
    advise(Tone::Careful, sentence);
    Ok(ExitVerdict::CouldNotRun)
}

/// What was done, what was refused, and how to undo it.
fn words(applied: &Applied) -> String {
    let mut lines = Vec::new();
    let mut settings = 0;
    let mut steps = 0;
    let mut unneeded = 0;
    for AppliedStep { id, target, outcome } in &applied.steps {
        match outcome {
            StepOutcome::Changed { settings: changed, refused } => {
                steps += 1;
                settings += changed;
                lines.extend(refused.iter().map(|why| format!("  {id}  not changed: {why}")));
            }
            // A refused interrupt is named in the reason.
            StepOutcome::Refused { why } if why.starts_with(target.as_str()) => {
                lines.push(format!("  {id}  not changed: {why}"));
            }
            StepOutcome::Refused { why } => {
                lines.push(format!("  {id}  {target} not changed: {why}"));
            }
            StepOutcome::Nothing => unneeded += 1,
            StepOutcome::Later => {}
        }
    }

    if applied.journal.is_none() {
        lines.insert(0, "nothing was changed".to_owned());
        return lines.join("\n");
    }
    let as_wanted = match unneeded {
        0 => String::new(),
        _ => format!("; {unneeded} had the value already"),
    };
    let settings = counted(settings, "setting");
    let steps = counted(steps, "step");
    lines.insert(0, format!("applied {steps}: {settings} changed and read back{as_wanted}"));
    lines.push("status   sudo onbeat tune status".to_owned());
    lines.push("undo     sudo onbeat tune undo; a reboot undoes everything too".to_owned());
    lines.join("\n")
}

#[derive(Serialize)]
struct PrintedApply<'a> {
    schema: &'static str,
    /// `null`: nothing was changed.
    journal: Option<&'a Path>,
    steps: Vec<PrintedStep<'a>>,
}

#[derive(Serialize)]
struct PrintedStep<'a> {
    id: &'a str,
    target: &'a str,
    outcome: &'static str,
    settings: usize,
    /// What the kernel refused, with the reasons.
    refused: Vec<&'a str>,
}

impl<'a> PrintedApply<'a> {
    fn new(applied: &'a Applied) -> Self {
        let steps = applied.steps.iter().map(PrintedStep::new).collect();
        Self { schema: APPLY_SCHEMA, journal: applied.journal.as_deref(), steps }
    }
}

impl<'a> PrintedStep<'a> {
    fn new(AppliedStep { id, target, outcome }: &'a AppliedStep) -> Self {
        let (outcome, settings, refused) = match outcome {
            StepOutcome::Changed { settings, refused } => {
                ("changed", *settings, refused.iter().map(String::as_str).collect())
            }
            StepOutcome::Nothing => ("nothing", 0, Vec::new()),
            StepOutcome::Later => ("after_reboot", 0, Vec::new()),
            StepOutcome::Refused { why } => ("refused", 0, vec![why.as_str()]),
        };
        Self { id, target, outcome, settings, refused }
    }
}
