//! `onbeat bench --cpus 1-3`: a loop on each of several CPUs at the same time, in every cell.

use onbeat::bench::conduct::BenchPlan;
use onbeat_tune::CpuList;
use onbeat_tune::plan::cpus::shieldable;

use crate::cmd::cpu_choice::{CpuChoice, MachineCpus};
use crate::cmd::{Failure, findings};

/// Plans a loop on each of the CPUs that were chosen; of one CPU a bench as without the option.
pub(super) fn choose(plan: &mut BenchPlan, choice: &CpuChoice) -> Result<(), Failure> {
    let machine = MachineCpus::read();
    let chosen = machine.chosen(choice)?;
    let loops: CpuList = chosen.iter().copied().collect();
    if chosen.len() > 1 {
        plan.shielded = shieldable(&loops, &machine.usable()).iter().collect();
        plan.cpus.clone_from(&chosen);
        plan.causes = false;
    }

    plan.cpu = plan.shielded.first().copied().unwrap_or(chosen[0]);
    plan.findings = findings::findings(Some(plan.cpu), plan.setting.period_ns);
    Ok(())
}

/// Describes the loops of a bench on several CPUs, and what of them C shields.
pub(super) fn words(plan: &BenchPlan) -> String {
    let list = |cpus: &[u32]| cpus.iter().copied().collect::<CpuList>().to_string();
    let (loops, shield) = (list(&plan.cpus), list(&plan.shielded));
    let is_shielded = plan.tunings.iter().any(|tuning| plan.options(tuning).letters.shield);
    let of_shield = if is_shielded && loops == shield {
        format!("; C shields CPU {shield}")
    } else if is_shielded {
        let is_left = |cpu: &u32| !plan.shielded.contains(cpu);
        let left: Vec<u32> = plan.cpus.iter().copied().filter(is_left).collect();
        let left = list(&left);
        format!(
            "; C shields CPU {shield} and leaves CPU {left} to all other programs, without a loop"
        )
    } else {
        String::new()
    };
    format!(
        "a loop on each of CPU {loops} at the same time, bound to it in every cell{of_shield}. Causes are not recorded: the flight recorder follows one loop"
    )
}
