//! Plan files: TOML, with unknown fields refused.
//!
//! A plan that is written, read and written again gives the same bytes, so that version control
//! shows only what changed.

use std::fmt::Write as _;

use super::{PLAN_SCHEMA, Plan, PlanError, PlanStep};

impl Plan {
    /// Reads a plan file.
    ///
    /// # Errors
    /// [`PlanError::Text`] with line and column, [`PlanError::Schema`], [`PlanError::Cpus`].
    pub fn from_text(text: &str) -> Result<Self, PlanError> {
        let plan: Self =
            toml::from_str(text).map_err(|error| PlanError::Text { problem: error.to_string() })?;
        if plan.schema != PLAN_SCHEMA {
            return Err(PlanError::Schema { found: plan.schema });
        }

        plan.loop_cpus()?;
        Ok(plan)
    }

    /// Writes the plan as a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        line(&mut text, "schema", &self.schema);
        if let Some(profile) = &self.profile {
            line(&mut text, "profile", profile);
        }
        line(&mut text, "cpus", &self.cpus);
        line(&mut text, "cpus_because", &self.cpus_because);
        if let Some(task) = &self.task {
            let _ = writeln!(text, "task = {task}");
        }
        if let Some(ticks) = &self.task_start_ticks {
            let _ = writeln!(text, "task_start_ticks = {ticks}");
        }

        for step in &self.steps {
            write_step(&mut text, step);
        }
        for left in &self.left_out {
            text.push_str("\n[[left_out]]\n");
            line(&mut text, "id", &left.id);
            line(&mut text, "because", &left.because);
        }

        text
    }
}

fn write_step(text: &mut String, step: &PlanStep) {
    text.push_str("\n[[step]]\n");
    line(text, "id", &step.id);
    let target = serde_json::to_value(&step.target).unwrap_or_default();
    let _ = writeln!(text, "target = {}", inline(&target));
    for (key, value) in [
        ("old", &step.old),
        ("new", &step.new),
        ("shell", &step.shell),
        ("takes", &step.takes),
        ("risk", &step.risk),
    ] {
        line(text, key, value);
    }
}

fn line(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {}", quoted(value));
}

/// A basic string of TOML: as in JSON, but for the character 127.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn inline(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        serde_json::Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
            // Another crate of the program may switch on serde_json's order of insertion.
            fields.sort();
            format!("{{ {} }}", fields.join(", "))
        }
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LeftOut, StepTarget, ThreadGroup};
    use super::*;
    use crate::change::Kind;
    use crate::task_setting::TaskSetting;

    fn example() -> Plan {
        let targets = [
            StepTarget::File { path: "/proc/sys/kernel/printk".to_owned(), compare: Kind::Words },
            StepTarget::Interrupt {
                number: 24,
                handlers: vec!["eth0".to_owned(), "a \"b\"\u{7f}".to_owned()],
            },
            StepTarget::Affinity { threads: ThreadGroup::UnboundKernel },
            StepTarget::Threads {
                threads: ThreadGroup::Kernel(vec!["ksoftirqd/*".to_owned()]),
                setting: TaskSetting::Scheduling,
            },
            StepTarget::Shield {},
            StepTarget::Unit { name: "irqbalance.service".to_owned() },
            StepTarget::Held { path: "/dev/cpu_dma_latency".to_owned() },
            StepTarget::Register { cpu: 1, register: 0x1a4, high: 1, low: 0 },
            StepTarget::Boot {},
        ];
        let step = |target| PlanStep {
            id: "a.b".to_owned(),
            target,
            old: "1\t2".to_owned(),
            new: "2".to_owned(),
            shell: "echo 'ä'\n".to_owned(),
            takes: "now".to_owned(),
            risk: "low: none".to_owned(),
        };
        Plan {
            schema: PLAN_SCHEMA.to_owned(),
            profile: Some("robot-1k".to_owned()),
            cpus: "1".to_owned(),
            cpus_because: "it is free".to_owned(),
            task: Some(7),
            task_start_ticks: Some(4_711),
            steps: targets.map(step).to_vec(),
            left_out: vec![LeftOut { id: "fw.smi".to_owned(), because: "by hand".to_owned() }],
        }
    }

    #[test]
    fn a_plan_survives_its_file_exactly() {
        let plan = example();
        let text = plan.to_text();
        let read = Plan::from_text(&text).unwrap();
        assert_eq!(read, plan);
        assert_eq!(read.to_text(), text);
    }

    #[test]
    fn unknown_fields_other_schemas_and_wrong_cpus_are_refused_with_their_place() {
        let text = example().to_text();
        let refusal = |from: &str, to: &str| {
            Plan::from_text(&text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        assert!(refusal("takes =", "tokes =").contains("unknown field `tokes`"));
        assert!(refusal("compare =", "kompare =").contains("line"));
        assert!(refusal("shield = {}", "shield = { cpu = 1 }").contains("cpu"));
        assert!(
            refusal("onbeat.plan/1", "onbeat.plan/9")
                .contains("this onbeat reads \"onbeat.plan/1\"")
        );
        assert!(
            refusal("cpus = \"1\"", "cpus = \"one\"").contains("\"one\" is not a list of CPUs")
        );
    }
}
