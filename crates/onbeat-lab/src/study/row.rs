//! The rows of a study: which settings are made at once, and in which order rows are measured.

use std::collections::BTreeSet;

use super::setting::{MachineSetting, Means, StageSetting};

/// A stage with its settings on this machine.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stage {
    pub name: String,
    pub settings: Vec<StageSetting>,
}

impl Stage {
    /// The ids that are made, in order.
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().filter(|one| one.means().is_some()).map(|one| one.id.as_str())
    }

    fn takes_reboot(&self) -> bool {
        self.settings.iter().any(|one| one.means() == Some(Means::Boot))
    }
}

/// What is measured with one set of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyRow {
    /// Its name in tables and directories: `untuned`, `kernel`, `kernel+host`, `all - host`.
    pub name: String,
    /// The ids of its settings, in the order of the stages.
    pub settings: Vec<String>,
    /// Whether some of them are on the kernel command line.
    pub takes_reboot: bool,
}

/// Rows that are read together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageLadder {
    /// Labels and names of rows: stage after stage, as in the published tables.
    pub cumulative: Vec<(String, String)>,
    /// Everything less one stage or one setting: what is left out, and the row without it.
    pub without: Vec<(String, String)>,
    /// The row with everything.
    pub all: String,
}

/// The rows of a study, without duplicates, and what each is for.
///
/// Rows without a reboot come first, so that a machine is restarted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// In the order of measuring.
    pub rows: Vec<StudyRow>,
    /// All stages.
    pub complete: StageLadder,
    /// The stages that take no reboot, where others do.
    pub before_reboot: Option<StageLadder>,
}

impl Rows {
    /// The rows of these stages; with `price_settings` each setting that takes no reboot is left
    /// out of all as well.
    #[must_use]
    pub fn new(stages: &[Stage], price_settings: bool) -> Self {
        let used: Vec<&Stage> =
            stages.iter().filter(|stage| stage.ids().next().is_some()).collect();
        let now: Vec<&Stage> = used.iter().filter(|stage| !stage.takes_reboot()).copied().collect();

        let mut this = Self::default();
        if now.len() < used.len() {
            this.before_reboot = Some(this.ladder(&now));
        }
        let mut complete = this.ladder(&used);
        if price_settings {
            complete.without.extend(this.without_settings(&used));
        }

        this.rows.sort_by_key(|row| row.takes_reboot);
        Self { complete, ..this }
    }

    fn ladder(&mut self, stages: &[&Stage]) -> StageLadder {
        let mut cumulative = vec![("untuned".to_owned(), self.add(&[]))];
        for (nth, stage) in stages.iter().enumerate() {
            cumulative.push((format!("after {}", stage.name), self.add(&stages[..=nth])));
        }

        let mut without = Vec::new();
        // Of a single stage the rest is the untuned row.
        for stage in stages.iter().filter(|_| stages.len() > 1) {
            let rest: Vec<&Stage> =
                stages.iter().filter(|one| one.name != stage.name).copied().collect();
            without.push((format!("stage {}", stage.name), self.add(&rest)));
        }
        StageLadder { cumulative, without, all: name_of(stages) }
    }

    /// Adds the row of these stages, unless it is there; returns its name.
    fn add(&mut self, stages: &[&Stage]) -> String {
        let name = name_of(stages);
        self.push(StudyRow {
            name: name.clone(),
            settings: stages.iter().flat_map(|stage| stage.ids()).map(str::to_owned).collect(),
            takes_reboot: stages.iter().any(|stage| stage.takes_reboot()),
        });
        name
    }

    /// Each setting that takes no reboot, left out of all. A stage of one setting has that price
    /// already.
    fn without_settings(&mut self, used: &[&Stage]) -> Vec<(String, String)> {
        let all: Vec<String> = used.iter().flat_map(|one| one.ids()).map(str::to_owned).collect();
        let takes_reboot = used.iter().any(|stage| stage.takes_reboot());
        let mut without = Vec::new();
        for stage in used.iter().filter(|stage| stage.ids().count() > 1) {
            let now = stage
                .settings
                .iter()
                .filter(|one| one.means().is_some_and(|means| means != Means::Boot));
            for StageSetting { id, .. } in now {
                let name = format!("all - {id}");
                let settings = all.iter().filter(|one| *one != id).cloned().collect();
                self.push(StudyRow { name: name.clone(), settings, takes_reboot });
                without.push((id.clone(), name));
            }
        }

        without
    }

    fn push(&mut self, row: StudyRow) {
        if !self.rows.iter().any(|one| one.name == row.name) {
            self.rows.push(row);
        }
    }

    #[must_use]
    pub fn row(&self, name: &str) -> Option<&StudyRow> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Names that are rows of the host alone as well: with the settings of the host only, several
    /// rows are one. Returns the name of the row whose measurement outside of a guest stands for
    /// `row`.
    #[must_use]
    pub fn outside(&self, row: &StudyRow) -> &str {
        let of_host = |row: &StudyRow| -> BTreeSet<String> {
            let host = |id: &&String| MachineSetting::from_id(id).is_none();
            row.settings.iter().filter(host).cloned().collect()
        };
        let own = of_host(row);
        self.rows.iter().find(|one| of_host(one) == own).map_or("", |one| one.name.as_str())
    }
}

fn name_of(stages: &[&Stage]) -> String {
    if stages.is_empty() {
        return "untuned".to_owned();
    }
    stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::super::setting::SettingState;
    use super::*;

    fn setting(id: &str, means: Means) -> StageSetting {
        StageSetting { id: id.to_owned(), state: SettingState::Priced(means) }
    }

    fn stages() -> Vec<Stage> {
        let stage =
            |name: &str, settings: Vec<StageSetting>| Stage { name: name.to_owned(), settings };
        let good = StageSetting {
            id: "timer.migration".to_owned(),
            state: SettingState::AsWanted { current: "0".to_owned() },
        };
        vec![
            stage("kernel", vec![setting("shield.isolcpus", Means::Boot)]),
            stage(
                "host",
                vec![setting("wq.unbound", Means::Host), setting("rcu.stall", Means::Host), good],
            ),
            stage("qemu", vec![setting("vmm.mem", Means::Machine(MachineSetting::Memory))]),
        ]
    }

    fn names(rows: &Rows) -> Vec<&str> {
        rows.rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn rows_that_take_a_reboot_are_measured_last_and_none_twice() {
        let rows = Rows::new(&stages(), false);
        let all = names(&rows);
        let (now, later) = all.split_at(4);
        assert_eq!(now, ["untuned", "host", "host+qemu", "qemu"]);
        assert_eq!(later, ["kernel", "kernel+host", "kernel+host+qemu", "kernel+qemu"]);

        let labels = |ladder: &StageLadder| -> Vec<String> {
            ladder.cumulative.iter().map(|(label, _)| label.clone()).collect()
        };
        assert_eq!(labels(&rows.complete), ["untuned", "after kernel", "after host", "after qemu"]);
        assert_eq!(rows.complete.all, "kernel+host+qemu");
        let without = &rows.complete.without[0];
        assert_eq!(*without, ("stage kernel".to_owned(), "host+qemu".to_owned()));

        let before = rows.before_reboot.expect("a stage takes a reboot");
        assert_eq!(labels(&before), ["untuned", "after host", "after qemu"]);
        assert_eq!((before.all.as_str(), before.without.len()), ("host+qemu", 2));
    }

    #[test]
    fn each_setting_that_takes_no_reboot_has_a_row_without_it() {
        let rows = Rows::new(&stages(), true);
        let without = rows.row("all - wq.unbound").expect("a row");
        assert_eq!(without.settings, ["shield.isolcpus", "rcu.stall", "vmm.mem"]);
        assert!(without.takes_reboot, "the rest of all is on the command line");
        let labels: Vec<&str> =
            rows.complete.without.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["stage kernel", "stage host", "stage qemu", "wq.unbound", "rcu.stall"]);
    }

    #[test]
    fn settings_that_are_as_wanted_are_in_no_row() {
        let rows = Rows::new(&stages(), true);
        assert!(rows.rows.iter().all(|row| !row.settings.contains(&"timer.migration".to_owned())));
        let none = Rows::new(&[], false);
        assert_eq!((names(&none), none.complete.all.as_str()), (vec!["untuned"], "untuned"));
    }

    #[test]
    fn outside_of_a_guest_rows_that_differ_in_qemu_alone_are_one() {
        let rows = Rows::new(&stages(), false);
        let outside = |name: &str| rows.outside(rows.row(name).expect("a row"));
        assert_eq!(outside("host+qemu"), "host");
        assert_eq!(outside("kernel+host+qemu"), "kernel+host");
        assert_eq!(outside("untuned"), "untuned");
    }
}
