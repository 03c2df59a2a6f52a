//! A plan as text: old and new values, the line that a person would type, what it may break.

use onbeat_report::units::Letters;
use onbeat_tune::catalogue::catalogue;
use onbeat_tune::plan::{LeftOut, Plan, PlanStep, StepTarget};

use crate::term::{Tone, letters, say, say_folded};

/// How many steps of a tuning are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListExtent {
    /// The first four.
    Short,
    /// All of them.
    Full,
}

impl ListExtent {
    const fn most_steps(self) -> usize {
        match self {
            Self::Short => 4,
            Self::Full => usize::MAX,
        }
    }
}

/// Longer values are cut; plan file and JSON have them in full.
const LONGEST_VALUE: usize = 60;

/// Prints a plan: its steps by tuning, what takes a reboot, what is left out, and the counts.
pub(super) fn print(plan: &Plan, extent: ListExtent) {
    say_folded(Tone::Head, &heading(plan));
    say(Tone::Plain, "");
    for steps in by_tuning(plan, EffectTime::Now) {
        print_tuning(&steps, extent);
        say(Tone::Plain, "");
    }

    let later = by_tuning(plan, EffectTime::AfterReboot);
    if !later.is_empty() {
        say_folded(Tone::Head, "kernel parameters: onbeat tune persist; after a reboot");
        for step in later.into_iter().flatten() {
            say_folded(Tone::Plain, &format!("  {}  {}", step.id, step.new));
            say_folded(Tone::Plain, &format!("      risk  {}", step.risk));
        }
        say(Tone::Plain, "");
    }

    if lists_left_out(plan, extent) && !plan.left_out.is_empty() {
        say_folded(Tone::Head, "left out");
        for LeftOut { id, because } in &plan.left_out {
            say_folded(Tone::Plain, &format!("  {id}  {because}"));
        }
        say(Tone::Plain, "");
    }
    say_folded(Tone::Plain, &counts(plan, extent));
}

/// What is left out of a profile is of less interest than what is left out of ids that were typed.
fn lists_left_out(plan: &Plan, extent: ListExtent) -> bool {
    plan.profile.is_none() || extent == ListExtent::Full
}

fn heading(plan: &Plan) -> String {
    let profile = plan.profile.as_ref().map(|name| format!("profile {name}, ")).unwrap_or_default();
    format!("{profile}loop on CPU {}: {}", plan.cpus, plan.cpus_because)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EffectTime {
    Now,
    AfterReboot,
}

fn effect(step: &PlanStep) -> EffectTime {
    if step.target == (StepTarget::Boot {}) { EffectTime::AfterReboot } else { EffectTime::Now }
}

/// Returns the steps that can be applied now.
pub(super) fn now(plan: &Plan) -> impl Iterator<Item = &PlanStep> {
    plan.steps.iter().filter(|step| effect(step) == EffectTime::Now)
}

/// Successive steps of one tuning, in order.
fn by_tuning(plan: &Plan, wanted: EffectTime) -> Vec<Vec<&PlanStep>> {
    let mut groups: Vec<Vec<&PlanStep>> = Vec::new();
    for step in plan.steps.iter().filter(|step| effect(step) == wanted) {
        match groups.last_mut().filter(|group| group[0].id == step.id) {
            Some(group) => group.push(step),
            None => groups.push(vec![step]),
        }
    }
    groups
}

fn print_tuning(steps: &[&PlanStep], extent: ListExtent) {
    let Some(first) = steps.first() else { return };
    let title = catalogue().get(&first.id).map_or("", |record| &record.title);
    say_folded(Tone::Head, &format!("{}: {title}", first.id));

    let listed = steps.len().min(extent.most_steps());
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

fn counts(plan: &Plan, extent: ListExtent) -> String {
    let steps = now(plan).count();
    let tunings = by_tuning(plan, EffectTime::Now).len();
    let later = plan.boot_parameters().count();
    let left = plan.left_out.len();
    let mut parts = vec![format!("{} of {}", counted(steps, "step"), counted(tunings, "tuning"))];
    if later > 0 {
        parts.push(format!("{later} after a reboot"));
    }
    if left > 0 {
        let more = if lists_left_out(plan, extent) { "" } else { "; --full lists them" };
        parts.push(format!("{left} left out{more}"));
    }
    parts.join(", ")
}

pub(super) use crate::term::counted;
