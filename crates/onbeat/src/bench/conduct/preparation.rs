//! What happens before the first block: the cells' processes start, what is not permitted is found,
//! the shield is prepared, and the plan is recorded.

use super::{BENCH_FILE, BenchConductor, CellSlot, is_part_of_tuning};
use crate::bench::cell::CellProcess;
use crate::bench::cell_start::CellStart;
use crate::bench::cell_tuning::CellTuning;
use crate::bench::error::BenchError;
use crate::bench::plan::pace;
use crate::bench::schedule::Schedule;
use crate::campaign::CampaignEvent;
use crate::load::Load;
use crate::probe::Setting;
use crate::probe::resume::OtherRun;
use onbeat_host::thread::Grant;
use onbeat_record::{Bench, Cell, CellNotPermitted, Note};

impl BenchConductor<'_> {
    /// Starts the processes of the cells, checks what is permitted, prepares the shield, and
    /// records all of it.
    pub(super) fn prepare(&mut self, schedule: Schedule) -> Result<Schedule, BenchError> {
        if self.plan.tunings.iter().any(|tuning| self.plan.options(tuning).letters.shield) {
            self.shielding.refuse_second()?;
        }

        let has_blocks = |load: usize, tuning: usize| {
            schedule.turns.iter().any(|turn| turn.load == load && turn.blocks.contains(&tuning))
        };
        for load in 0..self.plan.loads.len() {
            for (at, tuning) in self.plan.tunings.iter().enumerate() {
                for cell in self.plan.cells(load, tuning) {
                    let slot = self.slot(cell, tuning, has_blocks(load, at))?;
                    self.slots.push(slot);
                }
            }
        }

        self.prepare_shield()?;
        self.refuse_settings_without_root()?;
        let not_permitted: Vec<CellNotPermitted> =
            self.slots.iter().filter_map(CellSlot::not_permitted).collect();
        let running = self.slots.iter().filter(|slot| slot.process.is_some()).count();
        if running == 0 && self.resumed.is_none() {
            return Err(BenchError::NonePermitted(reasons(&not_permitted)));
        }
        let schedule = match &self.resumed {
            None => self.begun(schedule, &not_permitted)?,
            Some(_) => {
                self.file.note_resume()?;
                schedule
            }
        };

        // What the cells record from here on is of no use without the plan.
        self.file.writer.sync()?;
        let not_permitted = &not_permitted;
        (self.conditions.report)(CampaignEvent::Prepared { running, not_permitted });
        Ok(schedule)
    }

    /// Notes the plan of a bench that begins, and returns the schedule of the cells that are permitted,
    /// in the time that is left.
    fn begun(
        &mut self,
        schedule: Schedule,
        not_permitted: &[CellNotPermitted],
    ) -> Result<Schedule, BenchError> {
        let runs = |load: usize, tuning: usize| {
            let mut slots = self.slots[self.plan.places(load, tuning)].iter();
            slots.any(|slot| slot.why_not.is_none())
        };
        let mut schedule = schedule.retain_cells(runs);
        let left_s = self.plan.duration.as_secs_f64() - self.file.elapsed_s();
        schedule.block_s = pace(self.plan).block_s(&schedule.turns, left_s);
        self.file.writer.note(&Note::Bench(Box::new(Bench {
            tunings: self.plan.tunings.iter().map(CellTuning::to_string).collect(),
            loads: self.plan.loads.iter().map(Load::to_string).collect(),
            order: self.plan.order.note(),
            blocks: schedule.blocks_per_cell,
            block_s: schedule.block_s,
            limit: self.plan.limit,
            looks: self.plan.looks,
            most_alarms: self.plan.most_alarms,
            not_permitted: not_permitted.to_vec(),
            ladder: self.ladder.clone(),
            shield: self.shielding.words().to_vec(),
            robot_command: self.plan.robot_command.clone(),
            cpus: self.plan.cpus.clone(),
            ..Bench::default()
        })))?;
        let Schedule { estimate_s, blocks_per_cell, block_s, .. } = schedule;
        (self.conditions.report)(CampaignEvent::Planned { estimate_s, blocks_per_cell, block_s });
        Ok(schedule)
    }

    /// Returns the slot of a cell, with its process unless the cell is not permitted or complete.
    fn slot(
        &mut self,
        cell: Cell,
        tuning: &CellTuning,
        has_blocks: bool,
    ) -> Result<CellSlot, BenchError> {
        let resumed = self.resumed.as_ref();
        let measured = resumed.and_then(|resumed| resumed.cells.get(&cell));
        let refused = || resumed.and_then(|resumed| resumed.why_not_permitted(&cell));
        let why_not = self.plan.why_no_loop(&cell, tuning).or_else(refused);
        let is_open = has_blocks || measured.is_some_and(|of| !of.has_closing_line);
        let is_left = why_not.is_none() && is_open;
        let blocks = measured.map_or(0, |of| of.blocks);
        let slot = CellSlot { cell, tuning: tuning.clone(), process: None, why_not, blocks };

        if is_left { self.start_cell(slot) } else { Ok(slot) }
    }

    fn start_cell(&mut self, mut slot: CellSlot) -> Result<CellSlot, BenchError> {
        let CellSlot { cell, tuning, .. } = &slot;
        let has_file =
            self.resumed.as_ref().is_some_and(|measured| measured.cells.contains_key(cell));
        let start = CellStart {
            onbeat: CellStart::version(),
            command: self.plan.command.clone(),
            file: self.dir.join(cell.file_name()),
            cell: cell.clone(),
            started_unix_s: self.file.origin.unix_s,
            origin_ns: self.file.origin.at.as_ns(),
            task: self.plan.task.clone(),
            setting: Setting { limit: self.plan.limit, ..self.plan.tuned_on(cell.cpu, tuning) },
            options: self.plan.options(tuning),
            explain: self.explainer.is_some(),
            resume: self.file.point().filter(|_| has_file).cloned(),
        };

        let process = CellProcess::start((self.cell)(), &start)?;
        let refusal = process
            .grants
            .iter()
            .find(|grant| !grant.granted && is_part_of_tuning(grant))
            .map(Grant::refusal);
        for grant in &process.grants {
            self.list_grant(grant.clone());
        }

        slot.process = Some(process);
        if let Some(why) = refusal {
            self.refuse(&mut slot, why)?;
        }

        Ok(slot)
    }

    /// Lists a grant once, however many cells requested it.
    fn list_grant(&mut self, grant: Grant) {
        if !self.ladder.iter().any(|rung| rung.what == grant.what && rung.wanted == grant.wanted) {
            self.ladder.push(grant);
        }
    }

    fn prepare_shield(&mut self) -> Result<(), BenchError> {
        let plan = self.plan;
        let is_shielded = |tuning: &CellTuning| plan.options(tuning).letters.shield;
        let shielded = self.slots.iter().filter(|slot| is_shielded(&slot.tuning));
        let pids: Vec<u32> =
            shielded.filter_map(|slot| Some(slot.process.as_ref()?.pid())).collect();
        // Nothing of the machine is touched for cells that do not run.
        if pids.is_empty() {
            return Ok(());
        }

        let grant = self.shielding.prepare(&self.plan.shield(), &pids)?;
        if !grant.granted {
            self.refuse_where(is_shielded, &grant.refusal())?;
        }

        for line in self.shielding.words() {
            (self.conditions.report)(CampaignEvent::Said(line));
        }

        self.list_grant(grant);
        Ok(())
    }

    /// Marks the cells that change the host as not permitted where that is refused.
    fn refuse_settings_without_root(&mut self) -> Result<(), BenchError> {
        if self.shielding.can_change() {
            return Ok(());
        }

        let plan = self.plan;
        let changes = |tuning: &CellTuning| {
            plan.settings_of(tuning).any(|setting| !setting.plan.steps.is_empty())
        };
        self.refuse_where(changes, "changing settings of the host needs root")
    }

    /// Marks the cells of these tunings as not permitted.
    fn refuse_where(
        &mut self,
        is_refused: impl Fn(&CellTuning) -> bool,
        why: &str,
    ) -> Result<(), BenchError> {
        let mut slots = std::mem::take(&mut self.slots);
        let refused = slots
            .iter_mut()
            .filter(|slot| slot.why_not.is_none() && is_refused(&slot.tuning))
            .try_for_each(|slot| self.refuse(slot, why.to_owned()));
        self.slots = slots;
        refused
    }

    /// Marks a cell as not permitted: its process ends, and its run file, without samples, is
    /// removed. A cell of a bench that is resumed has been permitted before; that is another bench.
    fn refuse(&self, slot: &mut CellSlot, why: String) -> Result<(), BenchError> {
        if self.resumed.is_some() {
            let difference = format!("cell {} was permitted and is not ({why})", slot.cell);
            let path = self.dir.join(BENCH_FILE).display().to_string();
            return Err(OtherRun { path, differences: vec![difference] }.into());
        }

        slot.why_not = Some(why);
        if let Some(process) = slot.process.take() {
            process.close()?;
        }
        // A file without samples is read as a cell that never ran, so a failure here loses nothing.
        let _ = std::fs::remove_file(self.dir.join(slot.cell.file_name()));
        Ok(())
    }
}

/// `P, PM: real-time priority (SCHED_FIFO 98): ...`, each reason once.
fn reasons(refused: &[CellNotPermitted]) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for CellNotPermitted { cell, why_not } in refused {
        let tuning = cell.tuning.as_str();
        match by_reason.iter_mut().find(|(reason, _)| *reason == why_not.as_str()) {
            Some((_, tunings)) if tunings.contains(&tuning) => {}
            Some((_, tunings)) => tunings.push(tuning),
            None => by_reason.push((why_not.as_str(), vec![tuning])),
        }
    }

    let words = |(reason, tunings): (&str, Vec<&str>)| format!("{}: {reason}", tunings.join(", "));
    by_reason.into_iter().map(words).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_several_cells_have_is_named_once() {
        let refused =
            [("P", "idle", "no right"), ("P", "disk", "no right"), ("PM", "idle", "no right")];
        let refused = refused.into_iter().chain([("M", "idle", "a limit")]);
        let refused: Vec<CellNotPermitted> = refused
            .map(|(tuning, load, why)| CellNotPermitted {
                cell: Cell::new(tuning, load),
                why_not: why.to_owned(),
            })
            .collect();
        assert_eq!(reasons(&refused), "P, PM: no right; M: a limit");
    }
}
