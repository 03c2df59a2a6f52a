//! Plans of everything that applies to this machine.
//!
//! A tuning that is as wanted already has nothing to change, so it gets another valid value here:
//! apply and undo do not distinguish better from worse.

use std::collections::BTreeMap;

use onbeat_tune::CpuList;
use onbeat_tune::catalogue::probes::file::ValueFormat;
use onbeat_tune::catalogue::probes::{Probe, ProbeSpec};
use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{CheckVerdict, HostTree, LoopSetup, catalogue};
use onbeat_tune::change::Kind;
use onbeat_tune::plan::recipes::{Recipe, appliable, recipe};
use onbeat_tune::plan::{Plan, PlanRequest, PlanStep, StepTarget, plan};

/// Tunings that a test must not change on the machine of others, with the reason.
pub const KEPT_OUT: [(&str, &str); 2] = [
    ("clock.source", "another clock source would change the time of all programs"),
    ("mem.ksm", "merged pages are separated at once; undo restores the setting, not the merging"),
];

/// Plans to be applied one after the other, and the ids without a step, with the reason.
pub struct LivePlans {
    pub plans: Vec<Plan>,
    pub left_out: BTreeMap<String, String>,
}

/// Plans everything that applies, for the loop of each set-up. What one plan changes is as wanted
/// for the next.
pub fn of_everything(setups: &[LoopSetup]) -> LivePlans {
    let mut left_out = BTreeMap::new();
    let mut plans: Vec<Plan> = Vec::new();
    for setup in setups {
        let mut request = PlanRequest::ids(appliable()).unwrap();
        request.setup = setup.clone();
        let mut made = plan(&HostTree::live(), &request).unwrap();
        let is_planned = |step: &PlanStep| {
            let mut before = plans.iter().flat_map(|plan| &plan.steps);
            before.any(|known| known.target == step.target)
        };
        made.steps
            .retain(|step| !KEPT_OUT.iter().any(|(id, _)| *id == step.id) && !is_planned(step));
        for left in &made.left_out {
            // What applies to one of the loops only has the reason of that one.
            let known = left_out.entry(left.id.clone()).or_insert_with(|| left.because.clone());
            if known.starts_with("does not apply") {
                known.clone_from(&left.because);
            }
        }
        plans.push(made);
    }

    for setup in setups {
        plans.push(of_other_values(setup, &plans));
    }
    left_out.extend(KEPT_OUT.map(|(id, because)| (id.to_owned(), because.to_owned())));
    for step in plans.iter().flat_map(|plan| &plan.steps) {
        left_out.remove(&step.id);
    }
    LivePlans { plans, left_out }
}

/// Gives another value to each file that is as wanted.
fn of_other_values(setup: &LoopSetup, plans: &[Plan]) -> Plan {
    let tree = HostTree::live();
    let setup = LoopSetup { cpus: plans[0].loop_cpus().unwrap(), ..setup.clone() };
    let survey = Survey::new(&tree, &setup);
    let findings = onbeat_tune::check(&tree, &setup);
    let is_good = |id: &str| {
        findings.iter().any(|finding| finding.id == id && finding.verdict == CheckVerdict::Good)
    };

    let mut steps: Vec<PlanStep> = Vec::new();
    for id in appliable().into_iter().filter(|id| is_good(id)) {
        if KEPT_OUT.iter().any(|(known, _)| *known == id) {
            continue;
        }
        let of_probes = catalogue().get(id).unwrap().probe.iter();
        let of_probes = of_probes.map(|spec| other_values(spec, &survey));
        for others in of_probes.chain([of_recipe(id, &tree)]) {
            let targets = plans.iter().flat_map(|plan| &plan.steps).map(|step| &step.target);
            let taken: Vec<_> =
                targets.chain(steps.iter().map(|step| &step.target)).cloned().collect();
            let new = others.into_iter().filter(|(target, ..)| !taken.contains(target));
            steps.extend(
                new.map(|(target, old, new)| step(id, target, &old, &new)).collect::<Vec<_>>(),
            );
        }
    }

    Plan {
        steps,
        profile: None,
        task: None,
        task_start_ticks: None,
        left_out: Vec::new(),
        ..plans[0].clone()
    }
}

fn step(id: &str, target: StepTarget, old: &str, new: &str) -> PlanStep {
    PlanStep {
        id: id.to_owned(),
        target,
        old: old.to_owned(),
        new: new.to_owned(),
        shell: String::new(),
        takes: "now".to_owned(),
        risk: String::new(),
    }
}

/// The files of a probe, with the value of each and another one that the kernel takes.
fn other_values(spec: &ProbeSpec, survey: &Survey<'_>) -> Vec<(StepTarget, String, String)> {
    let (probe, format, column): (&dyn Probe, _, _) = match spec {
        ProbeSpec::File(probe) if probe.line.is_none() && probe.line_with.is_none() => {
            (probe, probe.format, probe.column)
        }
        ProbeSpec::Sysctl(probe) => (probe, probe.format, None),
        _ => return Vec::new(),
    };
    if probe.set().is_none() {
        return Vec::new();
    }

    let readings = probe.read(survey).into_iter().filter(|reading| reading.value.is_ok());
    let other = |path: String| {
        let text = survey.host().read(&path).ok()?;
        let (old, new, compare) = other_value(text.trim(), format, column)?;
        Some((StepTarget::File { path, compare }, old, new))
    };
    readings.filter_map(|reading| other(reading.place)).collect()
}

/// The number in the file of a recipe, and another one.
fn of_recipe(id: &str, tree: &HostTree) -> Vec<(StepTarget, String, String)> {
    let Some(Recipe::File(path, _, ValueFormat::Text)) = recipe(id) else { return Vec::new() };
    let other = || {
        let text = tree.read(path).ok()?;
        let (old, new, compare) = other_value(text.trim(), ValueFormat::Integer, None)?;
        Some((StepTarget::File { path: (*path).to_owned(), compare }, old, new))
    };
    other().into_iter().collect()
}

fn other_value(
    text: &str,
    format: ValueFormat,
    column: Option<usize>,
) -> Option<(String, String, Kind)> {
    if let Some(column) = column {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let word = words.get_mut(column - 1)?;
        *word = other_number(word)?;
        return Some((text.to_owned(), words.join(" "), Kind::Words));
    }

    let (new, kind) = match format {
        ValueFormat::Integer | ValueFormat::Boolean => (other_number(text)?, Kind::Text),
        ValueFormat::Bracket | ValueFormat::Paren => {
            let words = text.split_whitespace().map(|word| word.trim_matches(['[', ']', '(', ')']));
            let old = Kind::Marked.value_in(text);
            (words.rev().find(|word| *word != old)?.to_owned(), Kind::Marked)
        }
        ValueFormat::Mask => (other_cpus(&CpuList::parse_mask(text).ok()?)?.to_mask(), Kind::Mask),
        ValueFormat::List => {
            (other_cpus(&CpuList::parse_list(text).ok()?)?.to_string(), Kind::List)
        }
        ValueFormat::Word | ValueFormat::Text | ValueFormat::ResumeLatency => return None,
    };
    Some((kind.value_in(text), new, kind))
}

/// One that is near: switches change, other numbers become smaller by one.
fn other_number(text: &str) -> Option<String> {
    match text {
        "Y" => Some("N".to_owned()),
        "N" => Some("Y".to_owned()),
        "0" => Some("1".to_owned()),
        _ => text.parse::<u64>().ok().map(|number| (number - 1).to_string()),
    }
}

/// All but the last; the first two where there is only one.
fn other_cpus(cpus: &CpuList) -> Option<CpuList> {
    let last = cpus.iter().last()?;
    let without: CpuList = cpus.iter().filter(|cpu| *cpu != last).collect();
    Some(if without.is_empty() { [0, 1].into_iter().collect() } else { without })
}
