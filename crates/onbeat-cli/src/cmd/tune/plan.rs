//! `onbeat tune plan`: what would be changed on a machine for a loop, without changes.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use onbeat_tune::plan::{Plan, PlanProfile, Tunings};

use super::options::{QueryOptions, TunePlanOptions};
use super::plan_text;
use super::running::{self, Looked};
use super::selection;
use crate::cmd::failure::spike::pasted;
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::findings::machine;
use crate::cmd::{Common, ExitVerdict, Failure};
use crate::term::{Tone, say, say_folded};

pub(super) fn run(options: &TunePlanOptions) -> Result<ExitVerdict, Failure> {
    let tunings = if options.ids.is_empty() {
        Tunings::Profile(options.profile.unwrap_or(PlanProfile::Robot1k))
    } else {
        Tunings::Ids(options.ids.clone())
    };
    let tree = machine::tree(options.query.from.as_deref())?;
    let QueryOptions { from, json, checked } = &options.query;
    let checked = running::resolved(checked, Looked { from: from.as_deref(), json: *json })?;
    let plan = selection::planned(&tree, tunings, &checked)?;
    if let Some(path) = &options.out {
        write_new(path, plan.to_text().as_bytes(), options.force)?;
    }

    if options.query.json {
        say(Tone::Plain, &serde_json::to_string(&plan)?);
        return Ok(ExitVerdict::Pass);
    }

    plan_text::print(&plan, options.full);
    say_folded(Tone::Plain, &next_step(&plan, options));
    Ok(ExitVerdict::Pass)
}

fn next_step(plan: &Plan, options: &TunePlanOptions) -> String {
    match &options.out {
        _ if plan.steps.is_empty() => "nothing to change".to_owned(),
        Some(path) => {
            let path = pasted(path);
            format!(
                "apply    sudo onbeat tune apply {path}\npersist  sudo onbeat tune persist {path}"
            )
        }
        None => "nothing was changed; --out FILE writes the plan for onbeat tune apply".to_owned(),
    }
}

/// Writes a file that must not exist, unless it may be replaced.
pub(super) fn write_new(path: &Path, bytes: &[u8], may_replace: bool) -> Result<(), Failure> {
    let mut how = OpenOptions::new();
    how.write(true);
    if may_replace {
        how.create(true).truncate(true);
    } else {
        how.create_new(true);
    }

    let written = how.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TuneFailure::Exists { path: path.to_owned() }.into(),
        _ => Common::file("write", path)(source).into(),
    })
}
