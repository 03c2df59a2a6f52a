//! Tables of a study, from its results: those of the published study, and the price of each stage
//! and setting. Figures of two clocks are in no table together.

use onbeat_figures::Statistics;
use onbeat_figures::statistics::Share;
use onbeat_figures::table::{Column, Entry, Row, Table};
use onbeat_figures::units::{count, fixed};

use super::conduct::StudyResults;
use super::error::StudyError;
use super::file::LEAST_RUNS;
use super::row::StageLadder;
use super::setting::SettingState;
use super::store::{Answers, Measured, StudySide, statistics_of};
use crate::vm::{Measures, Virtual, supported};

const REAL: &str = "real";
const FREE: &str = "free";
const BOTH: [StudySide; 2] = [StudySide::Outside, StudySide::Inside];

const BY_TIMER: &str = "By the guest's ACPI timer, which stood still while a command was sent: the way through this machine is not in it.";
const NO_TIMES: &str =
    "No times: the guest has no ACPI timer that it may read; only its answers are counted.";
const OF_EMULATOR: &str = "Times of the software emulation on this machine: they show that the way works, and say nothing about a guest under KVM.";
const NO_HOST: &str = "Settings of this machine do not reach virtual time: rows differ by the instants of the commands.";
const NO_LATENCIES: &str = "No latencies: by the free clock every kernel has the emulator's, milliseconds that differ each time. \
     clock = \"virtual\" ranks kernels and settings.";

/// The rows of one state of the machine: before its reboot, or of the complete study; with words for
/// titles, which are empty for the complete study.
type DatedLadder<'l> = (&'static str, &'l StageLadder);

impl StudyResults {
    /// Rows that are read together: before the reboot only what was measured by then.
    fn ladders(&self) -> Vec<DatedLadder<'_>> {
        let has_results =
            |ladder: &StageLadder| self.measured.iter().any(|one| one.slot.row == ladder.all);
        let before = self.rows.before_reboot.as_ref().map(|ladder| ("before the reboot", ladder));
        let complete = Some(("", &self.rows.complete))
            .filter(|dated| before.is_none() || has_results(dated.1));
        before.into_iter().chain(complete).collect()
    }

    /// The measurements of one row, side and load.
    fn of(&self, row: &str, side: StudySide, load: &str) -> Vec<&Measured> {
        let row = match (side, self.rows.row(row)) {
            // Outside of a guest rows that differ in QEMU alone are one.
            (StudySide::Outside, Some(found)) => self.rows.outside(found),
            _ => row,
        };
        let is_meant = |one: &&Measured| {
            (one.slot.row.as_str(), one.slot.side, one.slot.load.as_str()) == (row, side, load)
        };
        self.measured.iter().filter(is_meant).collect()
    }

    /// Names of the loads with results, in order of their appearance.
    #[must_use]
    pub fn loads(&self) -> Vec<String> {
        let mut loads: Vec<String> = Vec::new();
        for one in &self.measured {
            if !loads.contains(&one.slot.load) {
                loads.push(one.slot.load.clone());
            }
        }
        loads
    }

    fn clock_of(&self, side: StudySide) -> &str {
        if side == StudySide::Outside { REAL } else { &self.baseline.clock }
    }

    /// All tables that have a row, in the order of reading.
    ///
    /// # Errors
    /// When a stored run file cannot be read.
    pub fn tables(&self) -> Result<Vec<Table>, StudyError> {
        let mut tables = vec![self.firmware(), self.left_out()];
        for load in self.loads() {
            for dated in self.ladders() {
                // Figures of two clocks are in two tables; by the free clock a guest has none.
                let (latencies, prices): (&[&[StudySide]], &[StudySide]) =
                    match self.clock_of(StudySide::Inside) {
                        REAL => (&[&BOTH], &[StudySide::Inside]),
                        _ => (&[&[StudySide::Outside], &[StudySide::Inside]], &BOTH),
                    };
                for sides in latencies {
                    tables.push(self.latency(dated, &load, sides)?);
                }
                if self.baseline.clock == FREE {
                    tables.push(self.jobs(dated, &load));
                }
                tables.extend(self.application(dated, &load));
                for side in prices {
                    tables.push(self.prices(dated, &load, *side)?);
                }
            }
        }

        tables.extend(self.threads());
        tables.retain(|table| !table.rows.is_empty());
        Ok(tables)
    }

    /// The firmware's options, as far as the machine shows them.
    fn firmware(&self) -> Table {
        let rows = self.baseline.firmware.iter().map(|option| {
            let title = onbeat_tune::catalogue::catalogue()
                .get(&option.id)
                .map_or_else(String::new, |record| record.title.clone());
            let state = match &option.state {
                SettingState::AsWanted { current } => format!("as wanted: {current}"),
                SettingState::LeftOut { because } => because.clone(),
                SettingState::Priced(_) => "not as wanted".to_owned(),
            };
            Row::new([title, option.id.clone(), state])
        });
        Table {
            title: "Firmware, as this machine shows it".to_owned(),
            columns: ["option", "tuning", "state"].map(Column::words).to_vec(),
            rows: rows.collect(),
            legend: Vec::new(),
        }
    }

    /// Settings of the stages that no row has.
    fn left_out(&self) -> Table {
        let mut rows = Vec::new();
        for stage in &self.baseline.stages {
            for setting in &stage.settings {
                let why = match &setting.state {
                    SettingState::Priced(_) => continue,
                    SettingState::AsWanted { current } => format!("as wanted already ({current})"),
                    SettingState::LeftOut { because } => because.clone(),
                };
                rows.push(Row::new([stage.name.clone(), setting.id.clone(), why]));
            }
        }

        Table {
            title: "Settings that are in no row".to_owned(),
            columns: ["stage", "setting", "because"].map(Column::words).to_vec(),
            rows,
            legend: Vec::new(),
        }
    }

    /// The rows of a ladder that have been measured, with their labels. Outside of a guest several
    /// are one, and stand once.
    fn rungs(
        &self,
        ladder: &StageLadder,
        sides: &[StudySide],
        load: &str,
    ) -> Vec<(String, Vec<&Measured>)> {
        let mut rungs: Vec<(String, Vec<&Measured>)> = Vec::new();
        for side in sides {
            for (label, name) in &ladder.cumulative {
                let measured = self.of(name, *side, load);
                let is_known = rungs.iter().any(|(_, known)| *known == measured);
                if !measured.is_empty() && !is_known {
                    rungs.push((format!("{}, {label}", side.place()), measured));
                }
            }
        }
        rungs
    }

    /// Latency by stage; the caller names sides of one clock.
    fn latency(
        &self,
        (when, ladder): DatedLadder<'_>,
        load: &str,
        sides: &[StudySide],
    ) -> Result<Table, StudyError> {
        let (mut rows, mut lost) = (Vec::new(), Vec::new());
        for (label, measured) in self.rungs(ladder, sides, load) {
            if let Some(found) = self.store.statistics(&measured)? {
                let samples = self.store.lost(&measured)?;
                lost.extend((samples > 0).then(|| format!("{label}: {}", count(samples))));
                rows.push(figures(label, &found, &measured));
            }
        }

        let clock = self.clock_of(sides[0]);
        let (unit, mut legend) = match clock {
            REAL => ("us", Vec::new()),
            _ => (Virtual::UNIT, vec![Virtual::LEGEND.join(" "), NO_HOST.to_owned()]),
        };
        if !lost.is_empty() {
            legend.push(format!(
                "Samples lost before they were recorded, of any latency: {}",
                lost.join("; ")
            ));
        }
        let names = ["min", "avg", "max", "p99", "p99.9", "overruns", "skipped", "samples", "runs"];
        Ok(Table {
            title: title(&format!("Latency in {unit} ({clock} clock)"), load, when),
            columns: Column::all(&["version"], &names),
            rows,
            legend,
        })
    }

    /// Guests by the free clock, which has no latencies.
    fn jobs(&self, (when, ladder): DatedLadder<'_>, load: &str) -> Table {
        let rungs = self.rungs(ladder, &[StudySide::Inside], load).into_iter();
        let row = |(label, measured): (_, Vec<_>)| Row::new([label, measured.len().to_string()]);
        Table {
            title: title("Guests that ended their measurement (free clock)", load, when),
            columns: Column::all(&["version"], &["guests"]),
            rows: rungs.map(row).collect(),
            legend: vec![NO_LATENCIES.to_owned()],
        }
    }

    /// From a command to its edge: bare metal and guest, those of an emulated guest by themselves.
    fn application(&self, (when, ladder): DatedLadder<'_>, load: &str) -> Vec<Table> {
        let of = |sides: &[StudySide], clock: &str, legend: &[&str]| {
            let rungs = self.rungs(ladder, sides, load).into_iter();
            let rows = rungs.filter_map(|(label, measured)| edges(label, &measured));
            let what = format!("Application: from a command to its edge at the servo, in {clock}");
            let figures = ["min", "avg", "max", "std dev", "within", "edges"];
            Table {
                title: title(&what, load, when),
                columns: Column::all(&["version"], &figures),
                rows: rows.collect(),
                legend: legend.iter().map(|line| (*line).to_owned()).collect(),
            }
        };
        let (outside, inside) = BOTH.split_at(1);
        let mut guests = self.measured.iter().filter(|one| one.slot.side == StudySide::Inside);
        let has_times = guests
            .any(|one| one.answers.as_ref().is_some_and(|answers| !answers.edges_ns.is_empty()));
        let by_timer = if has_times { BY_TIMER } else { NO_TIMES };
        let of_guest = match self.baseline.clock.as_str() {
            REAL => return vec![of(&BOTH, "us (real clock)", &[])],
            FREE => of(inside, "us (free clock)", &[OF_EMULATOR]),
            _ => of(inside, "virtual us (virtual clock)", &[by_timer, NO_HOST]),
        };
        vec![of(outside, "us (real clock)", &[]), of_guest]
    }

    /// What the tail is without a stage or setting, as a multiple of that with everything.
    fn prices(
        &self,
        (when, ladder): DatedLadder<'_>,
        load: &str,
        side: StudySide,
    ) -> Result<Table, StudyError> {
        let with = self.of(&ladder.all, side, load);
        let mut rows = Vec::new();
        if let Some(all) = self.store.statistics(&with)? {
            for (label, name) in &ladder.without {
                let measured = self.of(name, side, load);
                // Outside of a guest a setting of QEMU has no price.
                let found = self.store.statistics(&measured)?.filter(|_| measured != with);
                if let Some(without) = found {
                    let maxima = self.maxima(&measured)?;
                    rows.push(price(label, &without, maxima, &all));
                }
            }
        }

        let place = side.place();
        let clock = self.clock_of(side);
        let what = format!(
            "Price of each part: latency without it over latency with all ({place}, {clock} clock)"
        );
        let runs = with.len();
        let few = format!(
            "Runs: {runs}. With fewer than {LEAST_RUNS}, chance makes such differences as well."
        );
        Ok(Table {
            title: title(&what, load, when),
            columns: Column::all(
                &["left out"],
                &["max", "max of each run", "max ratio", "p99 ratio", "p99.9 ratio"],
            ),
            rows,
            legend: Some(few).filter(|_| runs < LEAST_RUNS as usize).into_iter().collect(),
        })
    }

    /// The smallest and the largest of the maxima of runs, in nanoseconds.
    fn maxima(&self, measured: &[&Measured]) -> Result<(u64, u64), StudyError> {
        let mut least = u64::MAX;
        let mut most = 0;
        for one in measured {
            let (_, moments) = self.store.samples(one)?;
            (least, most) = (least.min(moments.max_ns), most.max(moments.max_ns));
        }
        Ok((least, most))
    }

    /// The threads of QEMU with everything set, as `/proc` showed them.
    fn threads(&self) -> Option<Table> {
        let ladders = self.ladders();
        let all = ladders.iter().rev().map(|dated| &dated.1.all);
        let mut found = all.filter_map(|all| {
            self.measured.iter().find(|one| one.slot.row == *all && !one.threads.is_empty())
        });
        let measured = found.next()?;
        let rows = measured.threads.iter().map(|thread| {
            let vcpus: Vec<String> = thread.vcpus.iter().map(ToString::to_string).collect();
            Row::new([&thread.name, &vcpus.join(", "), &thread.cpus, &thread.policy])
        });
        Some(Table {
            title: format!("Threads of QEMU in row {}, read back from /proc", measured.slot.row),
            columns: ["thread", "vCPU", "host CPUs", "policy"].map(Column::words).to_vec(),
            rows: rows.collect(),
            legend: Vec::new(),
        })
    }
}

/// A row of edges; none without an application test.
fn edges(label: String, measured: &[&Measured]) -> Option<Row> {
    let answers: Vec<&Answers> = measured.iter().filter_map(|one| one.answers.as_ref()).collect();
    let times: Vec<u64> = answers.iter().flat_map(|one| one.edges_ns.iter().copied()).collect();
    let bound_ns = answers.iter().filter_map(|one| one.bound_ns).max();
    let bound = bound_ns.map_or_else(|| "-".to_owned(), us);
    let in_us = |ns: f64| fixed(ns / 1000.0, 1);
    let figures = statistics_of(&times).map_or_else(
        || vec!["-".to_owned(); 4],
        |found| vec![us(found.min_ns), in_us(found.mean_ns), us(found.max_ns), in_us(found.sd_ns)],
    );

    let sum = |of: fn(&Answers) -> u32| answers.iter().map(|one| of(one)).sum::<u32>();
    let made = [sum(|one| one.pulses), sum(|one| one.sent)].map(|number| count(number.into()));
    let made = made.join("/");
    let entries = [label].into_iter().chain(figures).chain([bound, made]);
    (!answers.is_empty()).then(|| Row::new(entries))
}

fn price(label: &str, without: &Statistics, maxima: (u64, u64), all: &Statistics) -> Row {
    let ratio = |of: fn(&Statistics) -> Option<u64>| match (of(without), of(all)) {
        (Some(without), Some(all)) => format!("{:.2}", without as f64 / all.max(1) as f64),
        _ => "-".to_owned(),
    };
    Row::new([
        label.to_owned(),
        us(without.max_ns),
        format!("{} to {}", us(maxima.0), us(maxima.1)),
        ratio(|of| Some(of.max_ns)),
        ratio(|of| supported(of, Share::P99)),
        ratio(|of| supported(of, Share::P99_9)),
    ])
}

fn title(what: &str, load: &str, when: &str) -> String {
    match when {
        "" => format!("{what}, {load}"),
        when => format!("{what}, {load}, {when}"),
    }
}

/// A row of latencies.
fn figures(label: String, found: &Statistics, measured: &[&Measured]) -> Row {
    let of = |share| match found.percentile(share) {
        Some(one) => Entry::estimate(us(one.value_ns), one.supported),
        None => Entry::from("-"),
    };
    let sum = |of: fn(&Measured) -> Option<u64>| {
        let all: Option<Vec<u64>> = measured.iter().map(|one| of(one)).collect();
        all.map_or("-".to_owned(), |all| count(all.iter().sum::<u64>()))
    };
    let mean = fixed(found.mean_ns / 1000.0, 1);
    let mut entries = [label, us(found.min_ns), mean, us(found.max_ns)].map(Entry::from).to_vec();
    entries.extend([Share::P99, Share::P99_9].map(of));
    let samples = count(found.count);
    let runs = measured.len().to_string();
    let counts = [sum(|one| one.overruns), sum(|one| one.skipped), samples, runs];
    entries.extend(counts.map(Entry::from));
    Row::new(entries)
}

/// Microseconds with one decimal place.
fn us(ns: u64) -> String {
    fixed(ns as f64 / 1000.0, 1)
}

#[cfg(test)]
mod tests {

    use super::super::row::{Rows, Stage};
    use super::super::setting::{MachineSetting, Means, StageSetting};
    use super::super::store::{Answers, RowSlot, SeenThread, StudyBaseline, StudyStore};
    use super::*;

    /// A run of `measure latency` that was recorded once.
    const RECORDED: &[u8] =
        include_bytes!("../../../../tests/golden/runs/latency/latency.onbeat.hlog");

    fn setting(id: &str, means: Means) -> StageSetting {
        StageSetting { id: id.to_owned(), state: SettingState::Priced(means) }
    }

    fn baseline(clock: &str) -> StudyBaseline {
        let stage = |name: &str, settings| Stage { name: name.to_owned(), settings };
        let good = StageSetting {
            id: "fw.smt".to_owned(),
            state: SettingState::AsWanted { current: "off".to_owned() },
        };
        StudyBaseline {
            key: "k".to_owned(),
            machine: None,
            clock: clock.to_owned(),
            because: String::new(),
            host_cpus: "1".to_owned(),
            stages: vec![
                stage("host", vec![setting("wq.unbound", Means::Host)]),
                stage("qemu", vec![setting("vmm.mem", Means::Machine(MachineSetting::Memory))]),
            ],
            firmware: vec![good],
        }
    }

    /// A study of which every row has been measured, each with the recorded run.
    fn results(directory: &std::path::Path, clock: &str) -> StudyResults {
        let store = StudyStore::open(directory).expect("a store");
        let baseline = baseline(clock);
        let rows = Rows::new(&baseline.stages, false);
        let mut measured = Vec::new();
        for row in &rows.rows {
            for side in [StudySide::Outside, StudySide::Inside] {
                if side == StudySide::Outside && rows.outside(row) != row.name {
                    continue;
                }
                let by = if side == StudySide::Outside { "real" } else { clock };
                let times = if by == "virtual" { Vec::new() } else { vec![1_000, 3_000] };
                let file = std::path::PathBuf::from("latency.onbeat.hlog");
                let one = Measured {
                    key: "k".to_owned(),
                    slot: RowSlot { row: row.name.clone(), side, load: "idle".to_owned(), run: 1 },
                    clock: by.to_owned(),
                    run_files: if by == "free" { Vec::new() } else { vec![file.clone()] },
                    overruns: (by != "free").then_some(2),
                    skipped: (by != "free").then_some(0),
                    answers: Some(Answers {
                        sent: 2,
                        bound_ns: (by != "virtual").then_some(500),
                        edges_ns: times,
                        pulses: 2,
                        answered: 2,
                        round_trips_ns: Vec::new(),
                        failure: None,
                    }),
                    refused: Vec::new(),
                    threads: vec![SeenThread {
                        name: "CPU 0/KVM".to_owned(),
                        vcpus: vec![0],
                        cpus: "1".to_owned(),
                        policy: "fifo 1".to_owned(),
                    }],
                    elapsed_s: 1.0,
                };
                store.keep(&one, &[RECORDED.into()]).expect("a measurement");
                measured.push(one);
            }
        }
        let (waiting, failed, missing, outstanding) = (0, Vec::new(), 0, Vec::new());
        StudyResults { baseline, rows, measured, waiting, failed, missing, outstanding, store }
    }

    fn tables(clock: &str) -> Vec<Table> {
        let directory = tempfile::tempdir().expect("a directory");
        results(directory.path(), clock).tables().expect("tables")
    }

    fn titled<'t>(tables: &'t [Table], start: &str) -> &'t Table {
        let found = tables.iter().find(|table| table.title.starts_with(start));
        found.unwrap_or_else(|| panic!("{start} is not among {tables:?}"))
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row.entries[0].text.as_str()).collect()
    }

    #[test]
    fn under_kvm_bare_metal_and_guest_are_in_one_table_stage_by_stage() {
        let tables = tables("real");
        let latency = titled(&tables, "Latency in us (real clock)");
        assert_eq!(
            names(latency),
            [
                "bare metal, untuned",
                "bare metal, after host",
                "guest, untuned",
                "guest, after host",
                "guest, after qemu"
            ]
        );
        let application = titled(&tables, "Application");
        let entries: Vec<&str> =
            application.rows[0].entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(entries, ["bare metal, untuned", "1.0", "2.0", "3.0", "1.0", "0.5", "2/2"]);
        assert_eq!(titled(&tables, "Threads of QEMU").rows.len(), 1);
    }

    #[test]
    fn figures_of_two_clocks_are_in_two_tables() {
        let tables = tables("virtual");
        let outside = titled(&tables, "Latency in us (real clock)");
        assert!(names(outside).iter().all(|name| name.starts_with("bare metal")));
        let inside = titled(&tables, "Latency in virtual us (virtual clock)");
        assert!(names(inside).iter().all(|name| name.starts_with("guest")));
        assert!(inside.legend[0].contains("predicts no hardware"));

        let application = titled(
            &tables,
            "Application: from a command to its edge at the servo, in virtual us (virtual clock)",
        );
        assert!(application.legend[0].starts_with("No times"), "{:?}", application.legend);
        let guest = application.rows.iter().find(|row| row.entries[0].text == "guest, untuned");
        let entries: Vec<&str> =
            guest.expect("a row").entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(entries[1..], ["-", "-", "-", "-", "-", "2/2"]);
    }

    #[test]
    fn by_the_free_clock_no_latency_of_a_guest_is_printed() {
        let tables = tables("free");
        let jobs = titled(&tables, "Guests that ended their measurement (free clock)");
        assert!(jobs.legend[0].starts_with("No latencies"));
        assert_eq!(jobs.columns.len(), 2);
        let of_machine =
            titled(&tables, "Application: from a command to its edge at the servo, in us (real");
        assert!(names(of_machine).iter().all(|name| name.starts_with("bare metal")));
        let emulated =
            titled(&tables, "Application: from a command to its edge at the servo, in us (free");
        assert!(names(emulated).iter().all(|name| name.starts_with("guest")));
        assert!(emulated.legend[0].contains("say nothing about a guest under KVM"));
        let prices = titled(&tables, "Price of each part");
        assert!(prices.title.contains("bare metal, real clock"), "{}", prices.title);
        assert_eq!(names(prices), ["stage host"], "QEMU has no price outside of a guest");
    }

    #[test]
    fn each_stage_has_its_price_and_one_run_is_said_to_be_few() {
        let tables = tables("real");
        let prices = titled(&tables, "Price of each part");
        assert_eq!(names(prices), ["stage host", "stage qemu"]);
        assert_eq!(prices.rows[0].entries[3].text, "1.00", "the same run on both sides");
        assert!(prices.legend[0].starts_with("Runs: 1."), "{:?}", prices.legend);
    }
}
