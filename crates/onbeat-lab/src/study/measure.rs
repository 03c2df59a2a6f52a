//! One measurement: on this machine, or in a guest whose threads are placed.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onbeat::bench::background_load::BackgroundLoad;
use onbeat::campaign::{PARTIAL, StoreError, new_directory};
use onbeat::load::Load;
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat_tune::CpuList;
use rustix::process::{Pid, Signal, kill_process};

use super::application::{self, AnsweringClock};
use super::error::StudyError;
use super::file::{StudyFile, StudyLoad};
use super::host::StudyHost;
use super::setting::MachineSetting;
use super::store::{Answers, SeenThread, StudyStore};
use crate::joined;
use crate::vm::error::reason_line;
use crate::vm::pm_timer::HeldGuest;
use crate::vm::{
    BootImage, ForeignProbe, Guest, GuestMemory, GuestPlan, GuestResult, Job, PrintedRun,
    RealTimeMachine, ThreadPlan, VmClock, VmError, WorkDirectory, free_huge_pages, housekeeping,
    place_threads, process, qemu_threads,
};

/// How often the end of a process is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Priority of a virtual CPU's thread: 1 precedes all ordinary threads and no thread of the kernel.
const VCPU_PRIORITY: u32 = 1;
/// Time beyond its duration that a measurement on this machine may take.
const OUTSIDE_BEYOND: Duration = Duration::from_secs(60);

/// What measurements need of their surroundings.
pub(super) struct StudyBench<'b> {
    pub(super) study: &'b StudyFile,
    /// This program, for measurements and loads on this machine.
    pub(super) onbeat: &'b Path,
    pub(super) work: &'b WorkDirectory,
    pub(super) boot: &'b BootImage,
    /// Host CPUs of the guest.
    pub(super) own: &'b CpuList,
    pub(super) store: &'b StudyStore,
    pub(super) stop: &'b AtomicBool,
}

/// The result of a measurement, before it is stored.
#[derive(Debug, Default)]
pub(super) struct StageOutcome {
    /// The content of run files.
    pub(super) files: Vec<Vec<u8>>,
    pub(super) overruns: Option<u64>,
    pub(super) skipped: Option<u64>,
    pub(super) answers: Option<Answers>,
    pub(super) refused: Vec<String>,
    pub(super) threads: Vec<SeenThread>,
}

impl StudyBench<'_> {
    /// The measurement of the loop, the same in a guest and outside.
    fn plan(&self, load: &Load) -> GuestPlan {
        let StudyFile { duration, period, priority, .. } = *self.study;
        GuestPlan::latency(duration, period, priority, load.clone())
    }

    /// The host CPU of the measured loop.
    pub(super) fn loop_cpu(&self) -> u32 {
        self.own.iter().last().unwrap_or(0)
    }

    /// Measures on this machine, without a guest: the loop, then the application.
    pub(super) fn outside(&self, load: &StudyLoad) -> Result<StageOutcome, StudyError> {
        let scratch = new_directory(&self.work.path, PARTIAL)?;
        let measured = self.outside_in(&scratch, load);
        let removed = fs::remove_dir_all(&scratch).map_err(StoreError::writing(&scratch));
        let outcome = measured?;
        removed?;
        Ok(outcome)
    }

    fn outside_in(&self, scratch: &Path, load: &StudyLoad) -> Result<StageOutcome, StudyError> {
        let measured = match &self.study.probe {
            Some(probe) => self.foreign_outside(probe, scratch, load)?,
            None => self.latency_outside(scratch, load)?,
        };
        let carried = self.host_load(load)?;
        let answers = application::command_outside(self);
        drop(carried);
        // A failure of the application test is in its result.
        if self.stop.load(Ordering::Relaxed) {
            return Err(StudyError::Stopped);
        }
        let answers = answers.map_err(|error| StudyError::Outside {
            program: self.onbeat.display().to_string(),
            what: "agent answer",
            status: "an error".to_owned(),
            message: error.to_string(),
        })?;
        Ok(StageOutcome { answers: Some(answers), ..measured })
    }

    /// Runs another tool's program on the CPU of the loop.
    fn foreign_outside(
        &self,
        probe: &ForeignProbe,
        scratch: &Path,
        load: &StudyLoad,
    ) -> Result<StageOutcome, StudyError> {
        let output = scratch.join("output");
        let carried = self.host_load(load)?;
        let mut command = Command::new("taskset");
        command.args(["-c", &self.loop_cpu().to_string()]).args(&probe.words);
        let limit = self.study.duration + self.study.limit;
        self.finish(&mut command, ("taskset", "another tool's program"), scratch, limit)?;
        drop(carried);
        let printed = fs::read(&output).map_err(StoreError::reading(&output))?;
        let files = probe.run_files(&printed, scratch)?;
        Ok(StageOutcome {
            files: files.into_iter().map(|file| file.content).collect(),
            ..StageOutcome::default()
        })
    }

    fn latency_outside(
        &self,
        scratch: &Path,
        load: &StudyLoad,
    ) -> Result<StageOutcome, StudyError> {
        let output = scratch.join("output");
        let mut plan = self.plan(&load.host);
        plan.setting.thread.cpu = Some(self.loop_cpu());
        plan.command.extend(["--cpu".to_owned(), self.loop_cpu().to_string()]);
        let runs = scratch.join("runs");
        let file = runs.join(format!("{}{RUN_FILE_ENDING}", plan.probe));
        let mut command = Command::new(self.onbeat);
        command.args(["agent", "measure"]).arg(runs).arg(plan.to_word());
        let program = self.onbeat.display().to_string();
        let limit = self.study.duration + OUTSIDE_BEYOND;
        self.finish(&mut command, (&program, "measure latency"), scratch, limit)?;

        let text = fs::read_to_string(&output).map_err(StoreError::reading(&output))?;
        let printed: PrintedRun =
            serde_json::from_str(&text).map_err(|error| StudyError::damaged(&output, &error))?;
        let (overruns, skipped) = counts(&printed);
        Ok(StageOutcome {
            files: vec![fs::read(&file).map_err(StoreError::reading(&file))?],
            overruns,
            skipped,
            refused: refused_rights(&printed),
            ..StageOutcome::default()
        })
    }

    /// Starts the host's part of a load, in a process of its own. Dropping it ends it.
    fn host_load(&self, load: &StudyLoad) -> Result<BackgroundLoad, StudyError> {
        let carrier = |load: &Load| {
            let mut carrier = Command::new(self.onbeat);
            carrier.args(["load", "--supervised", &load.to_string()]).stderr(Stdio::null());
            carrier
        };
        Ok(BackgroundLoad::start(&load.host, carrier)?)
    }

    /// Runs a program to its end, with its output in `scratch/output`.
    fn finish(
        &self,
        command: &mut Command,
        (program, what): (&str, &'static str),
        scratch: &Path,
        limit: Duration,
    ) -> Result<(), StudyError> {
        let create = |name: &str| {
            let path = scratch.join(name);
            File::create(&path).map_err(StoreError::writing(&path))
        };
        command.stdin(Stdio::null()).stdout(create("output")?).stderr(create("errors")?);
        let failed = |status: String, message: String| StudyError::Outside {
            program: program.to_owned(),
            what,
            status,
            message,
        };

        let refused = |error: io::Error| failed("an error".to_owned(), error.to_string());
        let mut child = process::spawn(command, 0).map_err(refused)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(refused)? {
                let errors = fs::read(scratch.join("errors")).unwrap_or_default();
                // Statuses 1 and 3 are verdicts as well; without output it has failed.
                let has_output =
                    fs::metadata(scratch.join("output")).is_ok_and(|one| one.len() > 0);
                return if has_output {
                    Ok(())
                } else {
                    Err(failed(status.to_string(), reason_line(&errors)))
                };
            }
            if self.stop.load(Ordering::Relaxed) {
                end(&mut child);
                return Err(StudyError::Stopped);
            }
            if begun.elapsed() > limit {
                end(&mut child);
                return Err(failed("no end".to_owned(), format!("stopped after {limit:?}")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Measures in a guest by `clock`, with the settings of QEMU among `ids`.
    pub(super) fn inside<C: VmClock>(
        &self,
        clock: C,
        ids: &[String],
        load: &StudyLoad,
        host: &mut StudyHost,
    ) -> Result<StageOutcome, StudyError> {
        let settings: Vec<MachineSetting> =
            ids.iter().filter_map(|id| MachineSetting::from_id(id)).collect();
        let machine = self.machine(&settings)?;
        let has_clock = C::NAME != "free";
        let guest = self.guest(clock, &machine);

        let carried = self.host_load(load)?;
        let ran = self.run_guest(
            &guest,
            &self.job(load, C::NAME == "virtual"),
            machine.threads.as_ref(),
            host,
        );
        drop(carried);
        let GuestRun { mut result, threads, answers } = ran?;
        result.succeeded()?;

        let (counted, refused) = match &self.study.probe {
            Some(probe) => {
                result.import(probe)?;
                ((None, None), Vec::new())
            }
            None => {
                let printed = result.printed()?;
                (counts(&printed), refused_rights(&printed))
            }
        };
        let (overruns, skipped) = if has_clock { counted } else { (None, None) };
        let kept = result.run_files().filter(|_| has_clock);
        let files = kept.map(|file| file.content.clone()).collect();
        result.remove_directory()?;
        Ok(StageOutcome { files, overruns, skipped, answers, refused, threads })
    }

    /// The measurement, and then the answers: what the host sends would move the guest's virtual time.
    fn job(&self, load: &StudyLoad, by_timer: bool) -> Job {
        let mut job = Job::new();
        if let Some(probe) = &self.study.probe {
            let load = (!load.guest.is_idle()).then(|| load.guest.to_string());
            probe.add_to(&mut job, load.as_deref(), self.boot.own.is_some());
        } else {
            job.measurement(&self.plan(&load.guest));
        }
        if self.has_application() {
            let answering = application::answering_script(self.study.servo.as_deref(), by_timer);
            // A user's guest without a driver for the port is measured all the same.
            let or_not = if self.boot.own.is_some() { " || :" } else { "" };
            job.command(["sh", "-c", &format!("{answering}{or_not}")]);
        }
        job
    }

    /// Whether the guest may answer commands.
    const fn has_application(&self) -> bool {
        self.boot.has_port || self.boot.own.is_some()
    }

    fn guest<C: VmClock>(&self, clock: C, machine: &RealTimeMachine) -> Guest<C> {
        let mut guest = Guest::new(self.boot.clone(), clock);
        guest.cpus = machine.cpus;
        guest.memory_mib = machine.memory_mib;
        guest.kernel_arguments.clone_from(&self.study.guest_arguments);
        guest.limit = self.study.limit + self.study.duration;
        guest.qemu_arguments = machine.qemu_arguments();
        if self.boot.own.is_some() {
            let bus = ["-device", "virtio-serial-pci,ioeventfd=off"];
            guest.qemu_arguments.extend(bus.map(str::to_owned));
        }
        if self.has_application() {
            guest.qemu_arguments.extend(application::port_arguments());
            if C::NAME == "virtual" {
                // It is held for each command.
                guest.qemu_arguments.extend(HeldGuest::arguments());
            } else {
                guest.qemu_arguments.extend(joined::page_arguments());
            }
        }
        guest
    }

    /// QEMU with these settings and no others.
    fn machine(&self, settings: &[MachineSetting]) -> Result<RealTimeMachine, StudyError> {
        let has = |setting| settings.contains(&setting);
        let StudyFile { cpus, memory_mib, .. } = *self.study;
        let others = housekeeping(self.own);
        let pins =
            [MachineSetting::VcpuPin, MachineSetting::EmulatorPin, MachineSetting::VcpuPriority];
        let threads = if pins.into_iter().any(has) {
            let priority = has(MachineSetting::VcpuPriority).then_some(VCPU_PRIORITY);
            let mut plan = ThreadPlan::new(cpus, self.own, &others, priority)?;
            let anywhere: CpuList = self.own.iter().chain(others.iter()).collect();
            if !has(MachineSetting::VcpuPin) {
                plan.vcpus.iter_mut().for_each(|vcpu| vcpu.cpus = anywhere.clone());
            }
            if !has(MachineSetting::EmulatorPin) {
                plan.others = anywhere;
            }
            Some(plan)
        } else {
            None
        };

        let prefaulted = || GuestMemory::prefaulted(memory_mib, free_huge_pages);
        Ok(RealTimeMachine {
            name: "study".to_owned(),
            memory_mib,
            memory: if has(MachineSetting::Memory) { prefaulted() } else { GuestMemory::OnDemand },
            host_processor: has(MachineSetting::Processor),
            idles_itself: has(MachineSetting::IdlesItself),
            threads,
            cpus,
        })
    }

    /// Starts the guest, places its threads, reads them back, and runs both tests.
    fn run_guest<C: VmClock>(
        &self,
        guest: &Guest<C>,
        job: &Job,
        plan: Option<&ThreadPlan>,
        host: &mut StudyHost,
    ) -> Result<GuestRun<C>, StudyError> {
        let mut running = guest.start(self.work, job)?;
        let pid = running.pid().cast_signed();
        let vcpus = running.cpu_threads()?;
        let placed = match plan {
            Some(plan) => place_threads(&host.host, &mut host.journal, pid, &vcpus, plan)?,
            None => Vec::new(),
        };
        let seen = |thread: crate::vm::QemuThread| SeenThread {
            name: thread.name,
            vcpus: thread.vcpus,
            cpus: thread.cpus.to_string(),
            policy: thread.policy,
        };
        let threads = qemu_threads(&host.host, pid, &vcpus).into_iter().map(seen).collect();

        let clock =
            if C::NAME == "virtual" { AnsweringClock::Held } else { AnsweringClock::Joined };
        let directory = running.directory().to_owned();
        let (has_port, commands) = (self.has_application(), self.study.commands);
        let over = AtomicBool::new(false);
        let answered = || match application::connect(&directory, &over) {
            Ok(port) => application::command_guest(port, &directory, commands, (clock, &over)),
            Err(error) => Answers { failure: Some(error.to_string()), ..Answers::default() },
        };
        let (ran, answers) = std::thread::scope(|scope| {
            let sending = scope.spawn(|| has_port.then(answered));
            let ran = running.wait(self.stop);
            over.store(true, Ordering::Relaxed);
            (ran, sending.join().unwrap_or_default())
        });

        // Its threads have ended with it: what is on record about them is settled.
        host.undo(&placed)?;
        let result = match ran {
            Err(VmError::Stopped) => return Err(StudyError::Stopped),
            ran => ran?,
        };
        Ok(GuestRun { result, threads, answers })
    }
}

/// What came of a guest.
struct GuestRun<C: VmClock> {
    result: GuestResult<C>,
    threads: Vec<SeenThread>,
    /// Absent where the guest has no port.
    answers: Option<Answers>,
}

/// Ends a process as Ctrl-C does, so that it removes what it made, and waits for it.
fn end(child: &mut Child) {
    const ENDS_WITHIN: Duration = Duration::from_secs(5);
    if let Ok(None) = child.try_wait()
        && let Some(pid) = Pid::from_raw(child.id().cast_signed())
    {
        // It fails only when the process has ended.
        let _ = kill_process(pid, Signal::INT);
    }

    let begun = Instant::now();
    while begun.elapsed() < ENDS_WITHIN {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Overruns and skipped releases of a measurement.
fn counts(printed: &PrintedRun) -> (Option<u64>, Option<u64>) {
    let cell = printed.cells.first();
    (cell.and_then(|cell| cell.overruns), cell.and_then(|cell| cell.skipped))
}

/// Privileges that the measurement did not get.
fn refused_rights(printed: &PrintedRun) -> Vec<String> {
    let refused = printed.ladder.iter().filter(|grant| !grant.granted);
    refused
        .map(|grant| format!("{}: {}", grant.what, grant.why_not.as_deref().unwrap_or("refused")))
        .collect()
}
