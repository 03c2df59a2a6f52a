//! [`supervise`]: starts the parts of a load, watches them, and ends them all.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::builtin::{RunningThreads, ThreadMessage};
use super::error::Error;
use super::event::{LoadNotice, LoadNoticeKind, LoadReport, LoadStopReason, PartReport, PartWork};
use super::external::{ExternalProgram, RunEnd};
use super::leader::Leader;
use super::options::Options;
use super::ordinary::{become_ordinary, raise_priority};
use super::plan::{Implementation, PlannedPart, built_in, planned_parts};
use super::reap::reap_next;
use super::spec::Load;
use onbeat_host::process::{KILL_TIME, descendants, mark};

/// Interval at which the ends of starter and threads are noticed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Time for programs to end gracefully.
const GRACE: Duration = Duration::from_secs(1);

/// Carries `load` in this process, as [`serve`](super::serve) says, until the other end of
/// `starter` is closed, a signal requests the end, or the starter is gone. `notify` is called for
/// each event.
///
/// # Errors
/// [`Error`] if the load cannot start; nothing of it is left then.
pub(super) fn supervise(
    load: &Load,
    options: &Options,
    starter: OwnedFd,
    notify: &mut dyn FnMut(LoadNotice),
) -> Result<LoadReport, Error> {
    let leader = Leader::take()?;
    let limits = become_ordinary();
    let (message_sender, messages) = channel();
    let mut supervision = Supervision {
        load: load.to_string(),
        options,
        starter,
        mark: mark(leader.own.pid, leader.own.start_ticks),
        leader,
        asked: Instant::now(),
        message_sender,
        messages,
        members: Vec::new(),
        notify,
    };

    raise_priority();
    for planned in planned_parts(load, options) {
        if let Err(error) = supervision.start(planned) {
            supervision.end_all();
            return Err(error);
        }
    }

    let started = Instant::now();
    let parts = supervision.members.iter().map(RunningPart::plan).collect();
    supervision.say(LoadNoticeKind::Started { parts, limits });
    let why = supervision.watch();
    let seconds = started.elapsed();
    let alive: Vec<bool> = supervision.members.iter().map(RunningPart::is_alive).collect();
    let survivors = supervision.end_all();
    let parts = supervision
        .members
        .iter()
        .zip(alive)
        .map(|(member, alive)| member.report(alive, seconds))
        .collect();
    supervision.say(LoadNoticeKind::Stopped { why });

    Ok(LoadReport { why, parts, survivors })
}

/// A planned part, and its current implementation.
struct RunningPart {
    planned: PlannedPart,
    by: String,
    state: PartState,
}

enum PartState {
    BuiltIn(RunningThreads),
    Program(Box<ExternalProgram>),
    Nobody,
}

impl RunningPart {
    fn plan(&self) -> String {
        match &self.state {
            PartState::BuiltIn(threads) => threads.part.plan(),
            PartState::Program(program) => format!("{}: {}", self.planned.name, program.plan()),
            PartState::Nobody => format!("{}: nothing", self.planned.name),
        }
    }

    fn is_alive(&self) -> bool {
        match &self.state {
            PartState::BuiltIn(threads) => threads.is_alive(),
            PartState::Program(program) => program.is_alive(),
            PartState::Nobody => false,
        }
    }

    fn report(&self, alive: bool, elapsed: Duration) -> PartReport {
        let did = match &self.state {
            PartState::BuiltIn(threads) => threads.part.did(elapsed),
            PartState::Program(program) => program.did(),
            PartState::Nobody => PartWork::Nothing,
        };
        PartReport { part: self.planned.name.to_owned(), by: self.by.clone(), alive, did }
    }
}

struct Supervision<'a> {
    load: String,
    options: &'a Options,
    /// The pipe from the starter; data in it is ignored, only its end counts.
    starter: OwnedFd,
    mark: String,
    leader: Leader,
    asked: Instant,
    message_sender: Sender<(usize, ThreadMessage)>,
    messages: Receiver<(usize, ThreadMessage)>,
    members: Vec<RunningPart>,
    notify: &'a mut dyn FnMut(LoadNotice),
}

impl Supervision<'_> {
    fn say(&mut self, what: LoadNoticeKind) {
        (self.notify)(LoadNotice {
            t: self.asked.elapsed().as_secs_f64(),
            load: self.load.clone(),
            what,
        });
    }

    fn start(&mut self, planned: PlannedPart) -> Result<(), Error> {
        self.members.push(RunningPart { planned, by: String::new(), state: PartState::Nobody });
        self.start_next(self.members.len() - 1, None)
    }

    fn died(&mut self, index: usize, status: String) {
        let part = self.members[index].planned.name.to_owned();
        self.say(LoadNoticeKind::PartDied { part, status });
    }

    /// Tries the remaining implementations until one starts. `failed` is the reason why the
    /// previous one is not possible, with the missing package.
    fn start_next(
        &mut self,
        index: usize,
        mut failed: Option<(String, Option<String>)>,
    ) -> Result<(), Error> {
        while let Some(implementation) = self.members[index].planned.implementations.pop_front() {
            match self.started(index, &implementation) {
                Ok((by, state)) => {
                    let member = &mut self.members[index];
                    (member.by, member.state) = (by, state);
                    if let Some((why, package)) = failed {
                        let (part, by) = (member.planned.name.to_owned(), member.plan());
                        self.say(LoadNoticeKind::PartSubstituted { part, by, package, why });
                    }
                    return Ok(());
                }
                Err(error) if self.members[index].planned.dispensable => {
                    let why = error.to_string();
                    let package = match error {
                        Error::Missing { package, .. } => Some(package),
                        _ => None,
                    };
                    failed = Some((why, package));
                }
                Err(error) => return Err(error),
            }
        }

        if let Some((status, _)) = failed {
            self.died(index, status);
        }

        Ok(())
    }

    /// Starts an implementation of a part; returns what it is called, and itself.
    fn started(
        &self,
        index: usize,
        implementation: &Implementation,
    ) -> Result<(String, PartState), Error> {
        let part = || self.members[index].planned.name.to_owned();
        Ok(match implementation {
            Implementation::BuiltIn(kind) => {
                let threads = built_in(kind, self.options)
                    .map_err(|why| Error::Part { part: part(), why })?;
                (
                    "built in".to_owned(),
                    PartState::BuiltIn(RunningThreads::start(threads, index, &self.message_sender)),
                )
            }
            Implementation::Program(recipe) => {
                let program = ExternalProgram::start(recipe.clone(), &self.mark).map_err(
                    |error| match error.kind() {
                        std::io::ErrorKind::NotFound
                            if recipe.directory.as_ref().is_none_or(|place| place.is_dir()) =>
                        {
                            Error::Missing {
                                program: recipe.words[0].clone(),
                                package: recipe.package.to_owned(),
                            }
                        }
                        _ => Error::Part {
                            part: part(),
                            why: format!("{}: {error}", recipe.words[0]),
                        },
                    },
                )?;
                (program.command_line(), PartState::Program(Box::new(program)))
            }
        })
    }

    fn watch(&mut self) -> LoadStopReason {
        loop {
            let is_closed = self.is_pipe_closed();
            if self.leader.is_orphan() {
                return LoadStopReason::ParentGone;
            }
            if is_closed {
                // What has died since the last look has done so by itself.
                self.look();
                return LoadStopReason::Asked;
            }

            if Leader::is_asked() {
                return LoadStopReason::Signal;
            }

            self.wait();
            self.look();
            for member in &mut self.members {
                if let PartState::Program(program) = &mut member.state {
                    program.listen();
                    program.kill_if_due();
                }
            }
        }
    }

    /// Reports what has happened to the parts, and runs repeated programs again.
    fn look(&mut self) {
        self.reap(true);
        self.read_thread_messages();
    }

    /// Waits for an event of a program or of the starter, at most for [`LOOK`].
    fn wait(&self) {
        let programs = self.members.iter().filter_map(|member| match &member.state {
            PartState::Program(program) => Some(program.descriptors()),
            _ => None,
        });

        let all: Vec<_> = std::iter::once(self.starter.as_fd()).chain(programs.flatten()).collect();
        let mut polled: Vec<PollFd<'_>> =
            all.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
        // A signal ends the wait early, as intended.
        let _ = poll(&mut polled, Some(&LOOK));
    }

    fn is_pipe_closed(&self) -> bool {
        let mut polled = [PollFd::new(&self.starter, PollFlags::IN)];
        if !matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..)) {
            return false;
        }

        let mut ignored = [0_u8; 256];
        matches!(rustix::io::read(&self.starter, &mut ignored), Ok(0))
    }

    /// Reaps all ended processes. With `go_on`, repeated programs are run again and deaths are
    /// reported.
    fn reap(&mut self, go_on: bool) {
        let foreign: Vec<i32> = self.leader.foreign.iter().map(|stat| stat.pid).collect();
        while let Some(child) = reap_next(|pid| foreign.contains(&pid)) {
            let owner = self.members.iter_mut().enumerate().find_map(|(index, member)| {
                match &mut member.state {
                    PartState::Program(program) if program.owns(&child) => Some((index, program)),
                    _ => None,
                }
            });

            if let Some((index, program)) = owner
                && let Some(ended) = program.reap(&child)
                && go_on
            {
                self.ended(index, ended);
            }
        }
    }

    fn ended(&mut self, index: usize, ended: RunEnd) {
        let again = match ended {
            RunEnd::AsMeant => true,
            RunEnd::Died { status, at_once: true, .. }
                if !self.members[index].planned.implementations.is_empty() =>
            {
                let by = self.members[index].by.clone();
                // Only dispensable parts have a substitute, and for them a failure is not an error.
                let _ = self.start_next(index, Some((format!("{by} ended with {status}"), None)));
                return;
            }
            RunEnd::Died { status, restart, .. } => {
                let status = if restart { format!("{status} (restarted)") } else { status };
                self.died(index, status);
                restart
            }
        };

        if again
            && let PartState::Program(program) = &mut self.members[index].state
            && let Err(error) = program.run()
        {
            self.died(index, format!("cannot be restarted: {error}"));
        }
    }

    fn read_thread_messages(&mut self) {
        while let Ok((index, word)) = self.messages.try_recv() {
            match word {
                ThreadMessage::Failed(error) => self.died(index, error.to_string()),
                ThreadMessage::Smaller { by, why } => {
                    let part = self.members[index].planned.name.to_owned();
                    self.say(LoadNoticeKind::PartSubstituted { part, by, package: None, why });
                }
            }
        }
    }

    /// Ends threads and processes, first gracefully, then by force. Returns the number of processes
    /// that could not be ended.
    fn end_all(&mut self) -> u32 {
        for member in &self.members {
            match &member.state {
                PartState::BuiltIn(threads) => threads.end(),
                PartState::Program(program) => program.request_end(),
                PartState::Nobody => {}
            }
        }

        let until = Instant::now() + GRACE;
        while Instant::now() < until
            && self
                .members
                .iter()
                .any(|m| matches!(&m.state, PartState::Program(p) if !p.is_over()))
        {
            std::thread::sleep(Duration::from_millis(2));
            self.reap(false);
        }

        let survivors = self.kill_all();
        for member in &mut self.members {
            if let PartState::BuiltIn(threads) = &mut member.state {
                threads.join();
            }
        }

        survivors
    }

    fn kill_all(&mut self) -> u32 {
        let until = Instant::now() + KILL_TIME;
        loop {
            self.reap(false);
            // It was listed when the load began.
            let left = descendants(self.leader.own, &self.leader.foreign).unwrap_or_default();
            if left.is_empty() || Instant::now() > until {
                return u32::try_from(left.len()).unwrap_or(u32::MAX);
            }

            for stat in left {
                stat.kill();
            }

            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
