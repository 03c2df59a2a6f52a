//! The steps of one record: each place that is not as wanted.

use std::collections::BTreeSet;

use onbeat_host::thread::shell_word;

use super::recipes::{Recipe, recipe};
use super::{PlanStep, StepTarget, ThreadGroup};
use crate::catalogue::TuningRecord;
use crate::catalogue::probes::file::{EqualFilesProbe, ValueFormat};
use crate::catalogue::probes::irq::{IrqSelection, handler_directories, is_bound, is_managed};
use crate::catalogue::probes::{NoValue, Probe, ProbeReading, ProbeSpec, expand};
use crate::catalogue::record::ProbeCombination;
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::ProbeValue;
use crate::change::Kind;
use crate::cpu_list::CpuList;
use crate::task_setting::TaskSetting;

/// Values or interrupts that are named one by one.
const MOST_NAMED: usize = 4;

/// Why a record has no step, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError(pub String);

impl From<NoValue> for StepError {
    fn from(why: NoValue) -> Self {
        Self(why.to_string())
    }
}

/// Whether a record is about where interrupts arrive.
#[must_use]
pub fn has_interrupts(record: &TuningRecord) -> bool {
    record.probe.iter().any(|spec| matches!(spec, ProbeSpec::Irqs(probe) if probe.set.is_some()))
}

/// Returns which interrupts on the loop's CPUs stay there, because the kernel places them itself;
/// `None` where there are none.
#[must_use]
pub fn interrupts_that_stay(survey: &Survey<'_>) -> Option<String> {
    let cpus = survey.loop_cpus().ok()?;
    let readings = IrqSelection::Managed.readings(survey).ok()?;
    let is_on_loop = |reading: &ProbeReading| match &reading.value {
        Ok(ProbeValue::Cpus(at)) => at.meets(&cpus),
        _ => false,
    };

    let places: Vec<String> =
        readings.into_iter().filter(is_on_loop).map(|reading| reading.place).collect();
    let named = places.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match places.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!places.is_empty()).then(|| {
        format!("{named}{more}: placed by the kernel, which refuses to move them; see irq.managed")
    })
}

/// Returns what can be changed now to make a record good; nothing where it takes a reboot or a
/// person.
///
/// # Errors
/// [`StepError`] with the reason, where a step would be possible in other circumstances.
pub fn of(record: &TuningRecord, survey: &Survey<'_>) -> Result<Vec<PlanStep>, StepError> {
    let maker = StepPlanner { record, survey };
    if let Some(recipe) = recipe(&record.id) {
        return maker.by_recipe(recipe);
    }

    let mut steps = Vec::new();
    for spec in &record.probe {
        let Some(value) = spec.probe().set() else { continue };
        let made = maker.by_value(spec, &maker.filled(value)?)?;
        let is_enough = record.combine == ProbeCombination::Any && !made.is_empty();
        steps.extend(made);
        if is_enough {
            break;
        }
    }

    Ok(steps)
}

/// Returns the kernel parameters of a record as a step.
#[must_use]
pub fn boot(record: &TuningRecord, survey: &Survey<'_>) -> Option<PlanStep> {
    let new = survey.fill(record.boot.as_deref()?);
    // What a person must fill in is not a step.
    if new.contains("=N") || new.contains('{') {
        return None;
    }

    let maker = StepPlanner { record, survey };
    let shell = "onbeat tune persist".to_owned();
    Some(PlanStep {
        takes: "reboot".to_owned(),
        ..maker.step(StepTarget::Boot {}, "", &new, shell)
    })
}

struct StepPlanner<'r, 's> {
    record: &'r TuningRecord,
    survey: &'s Survey<'s>,
}

impl StepPlanner<'_, '_> {
    fn step(&self, target: StepTarget, old: &str, new: &str, shell: String) -> PlanStep {
        let risk = self.record.risk.as_ref();
        PlanStep {
            id: self.record.id.clone(),
            target,
            old: old.to_owned(),
            new: new.to_owned(),
            shell,
            takes: "now".to_owned(),
            risk: risk.map_or_else(String::new, |risk| format!("{}: {}", risk.level, risk.text)),
        }
    }

    fn filled(&self, value: &str) -> Result<String, StepError> {
        let filled = self.survey.fill(value);
        if filled.contains('{') {
            Err(StepError(format!("no value for \"{filled}\" here")))
        } else {
            Ok(filled)
        }
    }

    /// The readings that are not as wanted.
    fn bad(&self, probe: &dyn Probe) -> Vec<(String, ProbeValue)> {
        let is_bad = |value: &ProbeValue| {
            probe.wanted().is_some_and(|want| want.holds(value, self.survey) == Ok(false))
        };
        let bad = |reading: ProbeReading| Some((reading.place, reading.value.ok().filter(is_bad)?));
        probe.read(self.survey).into_iter().filter_map(bad).collect()
    }

    /// The same of all probes of the record.
    fn all_bad(&self) -> Vec<(String, ProbeValue)> {
        self.record.probe.iter().flat_map(|spec| self.bad(spec.probe())).collect()
    }

    // ---- records with a value to write

    fn by_value(&self, spec: &ProbeSpec, value: &str) -> Result<Vec<PlanStep>, StepError> {
        let files = |format, column| {
            let bad = self.bad(spec.probe()).into_iter();
            bad.map(|(path, _)| self.file(&path, format, (column, value))).collect()
        };
        match spec {
            ProbeSpec::File(probe) if probe.line.is_none() && probe.line_with.is_none() => {
                files(probe.format, probe.column)
            }
            ProbeSpec::Sysctl(probe) => files(probe.format, None),
            ProbeSpec::Cgroup(probe) => files(probe.format, None),
            ProbeSpec::Irqs(_) => self.interrupts(value),
            ProbeSpec::IdleStates(_) => self.idle_states(value),
            _ => Ok(Vec::new()),
        }
    }

    fn file(
        &self,
        path: &str,
        format: ValueFormat,
        (column, value): (Option<usize>, &str),
    ) -> Result<PlanStep, StepError> {
        let text = self
            .survey
            .host()
            .read(path)
            .map_err(|error| StepError(format!("cannot read {path}: {error}")))?;
        let kind = match format {
            _ if column.is_some() => Kind::Words,
            ValueFormat::Bracket | ValueFormat::Paren => Kind::Marked,
            ValueFormat::Mask => Kind::Mask,
            ValueFormat::List => Kind::List,
            ValueFormat::Word => Kind::FirstWord,
            ValueFormat::Integer
            | ValueFormat::Boolean
            | ValueFormat::Text
            | ValueFormat::ResumeLatency => Kind::Text,
        };

        let old = kind.value_in(&text);
        let new = match (column, old.as_str(), value) {
            (Some(column), ..) => with_column(&old, column, value),
            // The kernel shows booleans in the notation of the driver.
            (None, "Y" | "N", "1") => "Y".to_owned(),
            (None, "Y" | "N", "0") => "N".to_owned(),
            _ => value.to_owned(),
        };
        let target = StepTarget::File { path: path.to_owned(), compare: kind };
        Ok(self.step(target, &old, &new, format!("echo {} > {path}", shell_word(&new))))
    }

    /// Every interrupt that may be sent to a CPU of the loop, and that can be moved.
    fn interrupts(&self, value: &str) -> Result<Vec<PlanStep>, StepError> {
        let unreadable = |why: std::io::Error| StepError(format!("cannot read /proc/irq: {why}"));
        let cpus = self.survey.loop_cpus()?;
        let names = self.survey.host().names("/proc/irq").map_err(unreadable)?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();

        let mut steps = Vec::new();
        for number in numbers {
            let path = format!("/proc/irq/{number}/smp_affinity_list");
            let Ok(text) = self.survey.host().read(&path) else { continue };
            // By the directories, which are what a journal identifies an interrupt by.
            let handlers = handler_directories(number, self.survey).unwrap_or_default();
            let stays = |name: &String| is_managed(name) || is_bound(name);
            let is_movable = !handlers.is_empty() && !handlers.iter().any(stays);
            if !is_movable || !CpuList::parse_list(&text).is_ok_and(|allowed| allowed.meets(&cpus))
            {
                continue;
            }

            let shell = format!("echo {} > {path}", shell_word(value));
            steps.push(self.step(
                StepTarget::Interrupt { number, handlers },
                text.trim(),
                value,
                shell,
            ));
        }

        Ok(steps)
    }

    /// `disable` of each state that takes longer to leave than the loop bears.
    fn idle_states(&self, value: &str) -> Result<Vec<PlanStep>, StepError> {
        let paths = |file: &str| {
            let pattern = format!("/sys/devices/system/cpu/cpu{{loop_cpu}}/cpuidle/state*/{file}");
            expand(&pattern, self.survey)
        };

        let mut steps = Vec::new();
        for (latency, disable) in paths("latency")?.iter().zip(paths("disable")?) {
            let text = self.survey.host().read(latency).unwrap_or_default();
            let bound_us = self.survey.setup().idle_exit_us;
            if text.trim().parse::<i64>().is_ok_and(|us| us > bound_us) {
                steps.push(self.file(&disable, ValueFormat::Integer, (None, value))?);
            }
        }
        steps.retain(|step| step.old != step.new);
        Ok(steps)
    }

    // ---- records with a recipe

    fn by_recipe(&self, recipe: &Recipe) -> Result<Vec<PlanStep>, StepError> {
        match recipe {
            Recipe::Shield => self.shield(),
            Recipe::Affinity(threads, cpus) => self.affinity(threads, cpus),
            Recipe::Threads(threads, setting, value) => {
                let value = self.filled(value)?;
                let bad = self.all_bad();
                let threads = narrowed(threads, &bad);
                let shell = shell_of_threads(&threads, *setting, &value);
                let target = StepTarget::Threads { threads, setting: *setting };
                Ok(vec![self.step(target, &distinct(&bad), &value, shell)])
            }
            Recipe::File(path, value, format) => {
                Ok(vec![self.file(path, *format, (None, *value))?])
            }
            Recipe::EqualFiles => {
                self.record.probe.iter().try_fold(Vec::new(), |mut steps, spec| {
                    if let ProbeSpec::EqualFiles(probe) = spec {
                        steps.extend(self.equal_files(probe)?);
                    }
                    Ok(steps)
                })
            }
            Recipe::StopUnits => self.units(),
            Recipe::Register(value) => Ok(self.registers(*value)),
            Recipe::HeldIdleLimit => Ok(self.held()),
        }
    }

    fn shield(&self) -> Result<Vec<PlanStep>, StepError> {
        let Some(task) = self.survey.setup().task else {
            let reason = "needs the loop's thread, which the shield lets through: start the loop, then plan with its \
                          thread. Until then threads are kept off by their affinity";
            return Err(StepError(reason.to_owned()));
        };

        let cpus = self.survey.setup().cpus.to_string();
        let shell = format!("onbeat tune apply {} --cpus {cpus} --task {task}", self.record.id);
        Ok(vec![self.step(StepTarget::Shield {}, "absent", &cpus, shell)])
    }

    fn affinity(&self, threads: &ThreadGroup, cpus: &str) -> Result<Vec<PlanStep>, StepError> {
        let is_shielded = matches!(threads, ThreadGroup::User | ThreadGroup::UnboundKernel);
        if self.survey.setup().task.is_some() && is_shielded {
            return Err(StepError("the shield moves these threads".to_owned()));
        }

        let new = self.filled(cpus)?;
        let shell = match threads {
            ThreadGroup::Loop => format!("taskset -cp {new} {}", self.survey.fill("{task}")),
            _ => format!("taskset -cp {new} TID   # for each of the {threads}"),
        };
        let target = StepTarget::Affinity { threads: threads.clone() };
        Ok(vec![self.step(target, &distinct(&self.all_bad()), &new, shell)])
    }

    fn equal_files(&self, probe: &EqualFilesProbe) -> Result<Vec<PlanStep>, StepError> {
        let first = expand(&probe.first, self.survey)?;
        let second = expand(&probe.second, self.survey)?;
        let mut steps = Vec::new();
        for (low, high) in first.into_iter().zip(second) {
            let Ok(wanted) = self.survey.host().read(&high) else { continue };
            steps.push(self.file(&low, ValueFormat::Text, (None, wanted.trim()))?);
        }
        steps.retain(|step| step.old != step.new);
        Ok(steps)
    }

    fn units(&self) -> Result<Vec<PlanStep>, StepError> {
        let bad = self.all_bad();
        let units: Vec<_> = bad.iter().filter(|(place, _)| place.contains('.')).collect();
        if let (true, Some((process, _))) = (units.is_empty(), bad.first()) {
            return Err(StepError(format!(
                "{process} runs without a unit of systemd: stop it by hand"
            )));
        }

        let step = |(unit, state): &&(String, ProbeValue)| {
            let target = StepTarget::Unit { name: unit.clone() };
            self.step(target, &state.to_string(), "inactive", format!("systemctl stop {unit}"))
        };
        Ok(units.iter().map(step).collect())
    }

    fn registers(&self, value: u64) -> Vec<PlanStep> {
        let mut steps = Vec::new();
        for spec in &self.record.probe {
            let ProbeSpec::Msr(probe) = spec else { continue };
            let Some((high, low)) = probe.bit_range() else { continue };
            // Its readings are those of the loop's CPUs, in order.
            let readings = self.survey.setup().cpus.iter().zip(probe.read(self.survey));
            for (cpu, reading) in readings {
                let Ok(old) = reading.value else { continue };
                let register = probe.register;
                let target = StepTarget::Register { cpu, register, high, low };
                let shell = format!(
                    "wrmsr -p {cpu} {register:#x} VALUE   # with bits {high}-{low} = {value}"
                );
                steps.push(self.step(target, &old.to_string(), &value.to_string(), shell));
            }
        }

        steps.retain(|step| step.old != step.new);
        steps
    }

    fn held(&self) -> Vec<PlanStep> {
        let mut steps = Vec::new();
        for spec in &self.record.probe {
            let ProbeSpec::DeviceValue(probe) = spec else { continue };
            for (path, old) in self.bad(probe) {
                let new = self.survey.setup().idle_exit_us.to_string();
                let shell =
                    format!("exec 9<> {path}; printf %08x {new} >&9   # until this shell ends");
                steps.push(self.step(StepTarget::Held { path }, &old.to_string(), &new, shell));
            }
        }
        steps
    }
}

/// Kernel threads by name: only those that are not as wanted.
fn narrowed(threads: &ThreadGroup, bad: &[(String, ProbeValue)]) -> ThreadGroup {
    if !matches!(threads, ThreadGroup::Kernel(_)) {
        return threads.clone();
    }
    let name = |(place, _): &(String, ProbeValue)| Some(place.rsplit_once(" (")?.0.to_owned());
    let names: BTreeSet<String> = bad.iter().filter_map(name).collect();
    ThreadGroup::Kernel(names.into_iter().collect())
}

fn shell_of_threads(threads: &ThreadGroup, setting: TaskSetting, value: &str) -> String {
    // `SOFT:` leaves the hard limit as it is.
    let limits = match value.split_once(' ') {
        Some((soft, hard)) => format!("{soft}:{hard}"),
        None => format!("{value}:"),
    };
    let line = match setting {
        TaskSetting::Scheduling => format!("chrt -f -p {} TID", value.trim_start_matches("fifo ")),
        TaskSetting::TimerSlack => format!("echo {value} > /proc/TID/timerslack_ns"),
        TaskSetting::OomScore => format!("echo {value} > /proc/TID/oom_score_adj"),
        TaskSetting::PriorityLimit => format!("prlimit --pid PID --rtprio={limits}"),
        TaskSetting::LockedMemoryLimit => format!("prlimit --pid PID --memlock={limits}"),
        TaskSetting::RealTimeLimit => format!("prlimit --pid PID --rttime={limits}"),
        TaskSetting::CoreLimit => format!("prlimit --pid PID --core={limits}"),
    };
    format!("{line}   # for {threads}")
}

/// The values without repetition, at most [`MOST_NAMED`].
fn distinct(readings: &[(String, ProbeValue)]) -> String {
    let mut values: Vec<String> = readings.iter().map(|(_, value)| value.to_string()).collect();
    values.sort();
    values.dedup();
    let more = values.len().saturating_sub(MOST_NAMED);
    values.truncate(MOST_NAMED);
    let named = values.join("; ");
    if more == 0 { named } else { format!("{named}; and {more} more") }
}

fn with_column(text: &str, column: usize, value: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if let Some(word) = words.get_mut(column.saturating_sub(1)) {
        *word = value;
    }
    words.join(" ")
}
