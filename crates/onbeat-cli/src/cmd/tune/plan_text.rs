//! A plan as text: old and new values, the line that a person would type, what it may break.

use onbeat_report::units::Letters;
use onbeat_tune::catalogue::catalogue;
use onbeat_tune::plan::{LeftOut, Plan, PlanStep, StepTarget};

use crate::term::{Tone, letters, say, say_folded};

/// Steps, or changes, of one tuning that are listed without `--full`.
pub(super) const MOST_LISTED: usize = 4;
/// Longer values are cut; plan file and JSON have them in full.
const LONGEST_VALUE: usize = 60;

/// Prints a plan: its steps by tuning, what takes a reboot, what is left out, and the counts.
pub(super) fn print(plan: &Plan, is_full: bool) {
    say_folded(Tone::Head, &heading(plan));
    say(Tone::Plain, "");
    for steps in by_tuning(plan) {
        print_tuning(&steps, is_full);
        say(Tone::Plain, "");
    }

    let mut later = plan.steps.iter().filter(|step| is_later(step)).peekable();
    if later.peek().is_some() {
        say_folded(Tone::Head, "kernel parameters: onbeat tune persist; after a reboot");
        for step in later {
            say_folded(Tone::Plain, &format!("  {}  {}", step.id, step.new));
            say_folded(Tone::Plain, &format!("      risk  {}", step.risk));
        }
        say(Tone::Plain, "");
    }

    if lists_left_out(plan, is_full) && !plan.left_out.is_empty() {
        say_folded(Tone::Head, "left out");
        for LeftOut { id, because } in &plan.left_out {
            say_folded(Tone::Plain, &format!("  {id}  {because}"));
        }
        say(Tone::Plain, "");
    }
    say_folded(Tone::Plain, &counts(plan, is_full));
}

/// What is left out of a profile is of less interest than what is left out of ids that were typed.
const fn lists_left_out(plan: &Plan, is_full: bool) -> bool {
    plan.profile.is_none() || is_full
}

fn heading(plan: &Plan) -> String {
    let profile = plan.profile.as_ref().map(|name| format!("profile {name}, ")).unwrap_or_default();
    format!("{profile}loop on CPU {}: {}", plan.cpus, plan.cpus_because)
}

/// Whether a step takes effect after a reboot.
fn is_later(step: &PlanStep) -> bool {
    step.target == StepTarget::Boot {}
}

/// Returns the steps that can be applied now.
pub(super) fn now(plan: &Plan) -> impl Iterator<Item = &PlanStep> {
    plan.steps.iter().filter(|step| !is_later(step))
}

/// Successive steps of one tuning that can be applied now, in order.
fn by_tuning(plan: &Plan) -> Vec<Vec<&PlanStep>> {
    let mut groups: Vec<Vec<&PlanStep>> = Vec::new();
    for step in now(plan) {
        match groups.last_mut().filter(|group| group[0].id == step.id) {
            Some(group) => group.push(step),
            None => groups.push(vec![step]),
        }
    }
    groups
}

fn print_tuning(steps: &[&PlanStep], is_full: bool) {
    let Some(first) = steps.first() else { return };
    let title = catalogue().get(&first.id).map_or("", |record| &record.title);
    say_folded(Tone::Head, &format!("{}: {title}", first.id));

    let listed = steps.len().min(if is_full { usize::MAX } else { MOST_LISTED });
    for step in &steps[..listed] {
        say_folded(Tone::Plain, &format!("  {}", change(step)));
        // Not folded: it is pasted.
        say(Tone::Faint, &format!("      # {}", step.shell));
    }
    if steps.len() > listed {
        let more = steps.len() - listed;
        say_folded(Tone::Plain, &format!("  and {more} more; --full lists them"));
    }
    if !first.risk.is_empty() {
        say_folded(Tone::Plain, &format!("  risk  {}", first.risk));
    }
}

/// `/proc/sys/vm/swappiness: 60 → 10`
pub(super) fn change(step: &PlanStep) -> String {
    let arrow = arrow(letters());
    format!("{}: {} {arrow} {}", step.target, value(&step.old), value(&step.new))
}

/// From one value to another.
pub(super) fn arrow(letters: Letters) -> &'static str {
    if letters == Letters::Unicode { "→" } else { "->" }
}

/// A value on one line, cut where it is long.
pub(super) fn value(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    if text.chars().count() <= LONGEST_VALUE {
        return text;
    }
    let kept: String = text.chars().take(LONGEST_VALUE - 3).collect();
    format!("{kept}...")
}

fn counts(plan: &Plan, is_full: bool) -> String {
    let steps = now(plan).count();
    let tunings = by_tuning(plan).len();
    let later = plan.boot_parameters().count();
    let left = plan.left_out.len();
    let mut parts = vec![format!("{} of {}", counted(steps, "step"), counted(tunings, "tuning"))];
    if later > 0 {
        parts.push(format!("{later} after a reboot"));
    }
    if left > 0 {
        let more = if lists_left_out(plan, is_full) { "" } else { "; --full lists them" };
        parts.push(format!("{left} left out{more}"));
    }
    parts.join(", ")
}

pub(super) use crate::term::counted;
