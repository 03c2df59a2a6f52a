//! From the findings of a check to a plan.

use std::collections::{BTreeMap, BTreeSet};

use super::cpus::{self, ChosenCpus};
use super::partition;
use super::steps::{self, StepError};
use super::{LeftOut, PLAN_SCHEMA, Plan, PlanError, PlanRequest, PlanStep, StepTarget, Tunings};
use crate::catalogue::known_facts;
use crate::catalogue::survey::Survey;
use crate::catalogue::{
    CheckVerdict, Finding, HostTree, LoopSetup, TuningRecord, catalogue, check, load,
};

/// Plans what would be changed on a machine. Opens files for reading only.
///
/// A plan holds what is not as wanted; what cannot be changed now is among [`Plan::left_out`], with
/// what a person does instead.
///
/// # Errors
/// [`PlanError`] where no CPU can be given to the loop, or the machine does not say which CPUs it
/// has.
pub fn plan(host: &HostTree, request: &PlanRequest) -> Result<Plan, PlanError> {
    let setup = match &request.tunings {
        Tunings::Profile(profile) => profile.fit(&request.setup),
        Tunings::Ids(_) => request.setup.clone(),
    };
    let chosen = cpus::choose(&Survey::new(host, &setup), &request.cpus)?;
    let setup = LoopSetup { cpus: chosen.cpus.clone(), ..setup };

    let survey = Survey::new(host, &setup);
    let findings =
        check(host, &setup).into_iter().map(|finding| (finding.id.clone(), finding)).collect();
    let mut draft = PlanDraft {
        survey: &survey,
        findings,
        names_ids: false,
        steps: Vec::new(),
        left_out: Vec::new(),
    };
    let selected = selected(&request.tunings, &mut draft.names_ids)?;
    for record in &selected {
        draft.add(record);
    }
    if let Tunings::Profile(profile) = &request.tunings {
        draft.leave_out_the_rest(&selected, *profile);
    }

    let ChosenCpus { cpus, because } = chosen;
    Ok(Plan {
        schema: PLAN_SCHEMA.to_owned(),
        profile: match &request.tunings {
            Tunings::Profile(profile) => Some(profile.to_string()),
            Tunings::Ids(_) => None,
        },
        cpus: cpus.to_string(),
        cpus_because: because,
        task: setup.task,
        task_start_ticks: setup.task.and_then(|tid| Some(survey.task(tid).ok()?.id.start_ticks)),
        steps: draft.steps,
        left_out: draft.left_out,
    })
}

/// The records, in the order in which they are changed.
fn selected(
    tunings: &Tunings,
    names_ids: &mut bool,
) -> Result<Vec<&'static TuningRecord>, PlanError> {
    let catalogue = catalogue();
    let mut wanted = BTreeSet::new();
    match tunings {
        Tunings::Profile(profile) => {
            wanted
                .extend(catalogue.profile(profile.name()).iter().map(|record| record.id.as_str()));
        }
        Tunings::Ids(ids) => {
            *names_ids = true;
            for id in ids {
                let records = catalogue.resolve(id);
                if records.is_empty() {
                    return Err(PlanError::UnknownId { id: id.clone() });
                }
                wanted.extend(records.iter().map(|record| record.id.as_str()));
            }
        }
    }

    // The records are loaded only where their edges have an order.
    let order =
        load::order(catalogue).map_err(|error| PlanError::Machine { why: error.to_string() })?;
    Ok(order
        .into_iter()
        .filter(|id| wanted.contains(id))
        .filter_map(|id| catalogue.get(id))
        .collect())
}

/// Why a record that is only checked has no step, and what a person does.
fn without_step(record: &TuningRecord, finding: &Finding) -> String {
    match finding.fix.as_str() {
        "" => format!("only checked: {}", record.why),
        fix => format!("by hand: {fix}"),
    }
}

/// A plan in the making.
struct PlanDraft<'s> {
    survey: &'s Survey<'s>,
    findings: BTreeMap<String, Finding>,
    /// What was named by its id gets a reason where there is nothing to do.
    names_ids: bool,
    steps: Vec<PlanStep>,
    left_out: Vec<LeftOut>,
}

impl PlanDraft<'_> {
    fn leave_out(&mut self, id: &str, because: impl Into<String>) {
        self.left_out.push(LeftOut { id: id.to_owned(), because: because.into() });
    }

    /// Names what a check finds and the profile does not change.
    fn leave_out_the_rest(&mut self, selected: &[&TuningRecord], profile: super::PlanProfile) {
        for record in &catalogue().records {
            let is_planned = selected.iter().any(|known| known.id == record.id);
            let Some(finding) = self.findings.get(&record.id).filter(|_| !is_planned) else {
                continue;
            };
            if finding.verdict != CheckVerdict::Bad {
                continue;
            }
            let because = match record.is_check_only() {
                true => without_step(record, finding),
                false => format!(
                    "not in the profile {profile}; to plan it alone: onbeat tune plan {}",
                    record.id
                ),
            };
            self.leave_out(&record.id, because);
        }
    }

    fn add(&mut self, record: &TuningRecord) {
        let Some(finding) = self.findings.get(&record.id) else { return };
        // A finding that nobody can change by a step has its sentence all the same.
        if record.is_check_only() && finding.verdict == CheckVerdict::Bad {
            return self.leave_out(&record.id, without_step(record, finding));
        }
        let nothing_to_do = match &finding.verdict {
            _ if record.is_check_only() => {
                Some("is only checked: there is nothing to change".to_owned())
            }
            // What may arrive at the loop's CPU is moved, even where it does not arrive there now.
            CheckVerdict::Good if !steps::has_interrupts(record) => Some("is as wanted".to_owned()),
            CheckVerdict::NotApplicable(reason) => Some(format!("does not apply: {reason}")),
            CheckVerdict::Good | CheckVerdict::Bad | CheckVerdict::Unknown(_) => None,
        };
        if let Some(reason) = nothing_to_do {
            if self.names_ids {
                self.leave_out(&record.id, reason);
            }
            return;
        }

        let verdict = finding.verdict.clone();
        let by_hand = finding.fix.clone();
        let made = match &verdict {
            CheckVerdict::Unknown(reason) => Err(StepError(format!("not known: {reason}"))),
            _ => match partition::refusal(&record.id, &self.steps, self.survey) {
                Some(reason) => Err(StepError(reason)),
                None => steps::of(record, self.survey),
            },
        };
        if steps::has_interrupts(record)
            && let Some(reason) = steps::interrupts_that_stay(self.survey)
        {
            self.leave_out(&record.id, reason);
        }
        match made {
            Ok(made) if !made.is_empty() => self.take(record, made),
            Ok(_) if verdict == CheckVerdict::Good => {}
            Ok(_) => self.take_later(record, &by_hand),
            Err(StepError(reason)) => self.leave_out(&record.id, reason),
        }
    }

    /// A record with something that can be changed now.
    fn take(&mut self, record: &TuningRecord, made: Vec<PlanStep>) {
        if let Some(other) = self.conflicting(record) {
            let reason =
                format!("cannot be in effect together with {other}, which is in this plan");
            return self.leave_out(&record.id, reason);
        }

        for step in made {
            let same = self
                .steps
                .iter()
                .find(|known| known.target == step.target && known.target != StepTarget::Boot {});
            match same {
                None => self.steps.push(step),
                Some(known) if known.new == step.new => {
                    let reason = format!("done by {}, which sets {} too", known.id, known.target);
                    self.leave_out(&record.id, reason);
                }
                Some(known) => {
                    let reason =
                        format!("{} already sets {} to {}", known.id, known.target, known.new);
                    self.leave_out(&record.id, reason);
                }
            }
        }
    }

    /// A record that takes a reboot, a person, or another machine.
    fn take_later(&mut self, record: &TuningRecord, by_hand: &str) {
        let boot = steps::boot(record, self.survey);
        // Written down already: another line of the same does not help.
        if let Some(sentence) = known_facts::waits_for_restart(&record.id, self.survey)
            && boot.is_some()
        {
            return self.leave_out(&record.id, sentence);
        }
        match boot {
            Some(step) => self.take(record, vec![step]),
            None => {
                let takes: Vec<_> = record.takes_effect.iter().map(ToString::to_string).collect();
                self.leave_out(&record.id, format!("by hand ({}): {by_hand}", takes.join(", ")));
            }
        }
    }

    fn conflicting(&self, record: &TuningRecord) -> Option<String> {
        let is_against = |step: &&PlanStep| {
            let other = catalogue().get(&step.id);
            record.conflicts.contains(&step.id)
                || other.is_some_and(|other| other.conflicts.contains(&record.id))
        };
        self.steps.iter().find(is_against).map(|step| step.id.clone())
    }
}
