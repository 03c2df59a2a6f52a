//! `cpu_quota` and `cgroup_freezer`: a cgroup of the injector that throttles or freezes the loop.
//!
//! The cgroup is a child of the one that the loop's thread is in, and is created under the journal
//! of [`onbeat_tune`]. When the injector ends, or when `onbeat repair` runs after it was killed,
//! the threads move back and the cgroup is removed.
//!
//! A quota applies to all threads of a cgroup, so a thread of the injector uses it up on the loop's
//! CPU. When the kernel has throttled the cgroup, neither thread runs until the period ends.

use std::io;
use std::path::Path;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::actor::{Disturb, shortest_ns, sleep_until};
use super::error::Error;
use super::injector_thread::above_the_loop;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::thread::ThreadRequest;
use onbeat_tune::change::{CgroupVersion, Kind};
use onbeat_tune::journal::own_directory;
use onbeat_tune::shield::refuse_existing;
use onbeat_tune::{HostFiles, Intent, Journal, Key, LiveHost, Purpose, TuneError, UndoMode, tasks};

const ID: &str = "inject.cgroup";
const NAME: &str = "onbeat-inject";
/// CPU time that the quota leaves in each period, in nanoseconds: one slice of the kernel
/// (`sched_cfs_bandwidth_slice_us`).
const QUOTA_NS: u64 = 5_000_000;
/// Interval between two reads of a freezer's state, in nanoseconds.
const LOOK_NS: u64 = 20_000;
/// The interval is at least this multiple of what a read takes.
const RESTS: u64 = 2;
/// Freezing begins at least this many reads before the loop's wake-up.
const LOOKS_AHEAD: u64 = 8;

/// The cgroup of a thread in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadCgroup {
    /// The directory of its cgroup.
    directory: String,
    version: CgroupVersion,
}

/// Returns the cgroup of a thread in the hierarchy of `controller`: the controller's own (v1), or
/// the unified one (v2).
fn thread_cgroup(host: &dyn HostFiles, controller: &str, tid: i32) -> Result<ThreadCgroup, String> {
    let mounts =
        host.read("/proc/self/mountinfo").map_err(|why| format!("/proc/self/mountinfo: {why}"))?;
    let of_version = |version: CgroupVersion| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let mut right = right.split(' ');
            let root = left.next()?;
            let mount = left.next()?;
            let kind = right.next()?;
            let is_it = match version {
                CgroupVersion::V1 => {
                    kind == "cgroup" && right.nth(1)?.split(',').any(|option| option == controller)
                }
                _ => kind == "cgroup2",
            };

            let name = if version == CgroupVersion::V1 { controller } else { "" };
            let path = is_it.then(|| tasks::cgroup_of(host, tid, name)).flatten()?;
            let below = path.strip_prefix(root.trim_end_matches('/'))?.trim_end_matches('/');
            Some(ThreadCgroup { directory: format!("{mount}{below}"), version })
        })
    };

    let has_controller = |home: &ThreadCgroup| {
        let file = format!("{}/cgroup.controllers", home.directory);
        controller == "freezer"
            || host
                .read(&file)
                .is_ok_and(|text| text.split_whitespace().any(|one| one == controller))
    };

    of_version(CgroupVersion::V1)
        .or_else(|| of_version(CgroupVersion::V2Threads).filter(has_controller))
        .ok_or_else(|| {
            format!("no cgroup controller \"{controller}\" is mounted here (cgroups(7))")
        })
}

/// The injector's cgroup, which contains the loop's thread.
struct InjectionCgroup<H: HostFiles> {
    host: H,
    journal: Option<Journal>,
    home: ThreadCgroup,
    directory: String,
}

impl InjectionCgroup<LiveHost> {
    fn prepare(plan: &InjectionPlan, controller: &str) -> Result<Self, Error> {
        let impossible = |why: String| plan.impossible(why);
        let host = LiveHost::new();
        let home = thread_cgroup(&host, controller, plan.target.tid).map_err(impossible)?;
        Self::create(host, &own_directory(), home, controller)
            .map_err(|why| plan.impossible(why.to_string()))
    }
}

impl<H: HostFiles> InjectionCgroup<H> {
    fn create(
        host: H,
        journal: &Path,
        home: ThreadCgroup,
        controller: &str,
    ) -> Result<Self, TuneError> {
        let directory = format!("{}/{NAME}", home.directory);
        refuse_existing(&host, &directory, home.version)?;

        let purpose = Purpose::new("inject", format!("onbeat inject ({NAME})"));
        let mut cgroup = Self {
            journal: Some(Journal::begin(journal, &host, &purpose)?),
            host,
            home,
            directory,
        };
        let ThreadCgroup { directory: above, version } = cgroup.home.clone();
        let made = Key::CgroupDir { path: cgroup.directory.clone(), home: above.clone(), version };
        cgroup.change(&Intent::new(ID, made, "absent", "present"))?;
        if version != CgroupVersion::V1 {
            cgroup.set("cgroup.type", "threaded")?;
            let switch = Key::Controller {
                path: format!("{above}/cgroup.subtree_control"),
                name: controller.to_owned(),
            };
            if controller != "freezer"
                && switch.current(&cgroup.host).ok().flatten().as_deref() == Some("off")
            {
                cgroup.change(&Intent::new(ID, switch, "off", "on"))?;
            }
        }

        Ok(cgroup)
    }

    fn change(&mut self, intent: &Intent) -> Result<(), TuneError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.change(&self.host, intent).map(|_| ())
    }

    /// Records in the journal that a file of the cgroup will change repeatedly.
    fn will_change(
        &mut self,
        file: &str,
        (old, new): (&str, &str),
        also: &[&str],
    ) -> Result<(), TuneError> {
        let key = Key::File { path: self.path(file), kind: Kind::Text, shown_in: None };
        let intent = Intent::new(ID, key, old, new).also(also.iter().map(|&text| text.to_owned()));
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.intend(intent).map(|_| ())
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.directory)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), TuneError> {
        let path = self.path(file);
        let written = self.host.write(&path, value);
        written.map_err(|source| TuneError::Write { path, value: value.to_owned(), source })
    }

    fn read(&self, file: &str) -> io::Result<String> {
        self.host.read(&self.path(file))
    }

    /// Moves a thread into the cgroup. Removing the cgroup moves it back.
    fn move_in(&self, tid: i32) -> Result<(), TuneError> {
        self.set(self.home.version.members(), &tid.to_string())
    }
}

impl<H: HostFiles> Drop for InjectionCgroup<H> {
    fn drop(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        // What could not be undone stays in the journal for `onbeat repair`.
        let _ = journal.undo_all(&self.host, UndoMode::Careful);
        let _ = journal.close();
    }
}

/// The disturber of `cgroup_freezer`.
#[derive(Default)]
pub(super) struct FreezerDisturber {
    cgroup: Option<InjectionCgroup<LiveHost>>,
    /// What a read of the cgroup's state takes, in nanoseconds.
    look_ns: u64,
}

/// Files and values of a freezer, depending on the cgroup version.
struct FreezerFiles {
    file: &'static str,
    thaw: &'static str,
    freeze: &'static str,
    shown_in: &'static str,
    frozen: &'static str,
}

const fn freezer_files(version: CgroupVersion) -> FreezerFiles {
    match version {
        CgroupVersion::V1 => FreezerFiles {
            file: "freezer.state",
            thaw: "THAWED",
            freeze: "FROZEN",
            shown_in: "freezer.state",
            frozen: "FROZEN",
        },
        _ => FreezerFiles {
            file: "cgroup.freeze",
            thaw: "0",
            freeze: "1",
            shown_in: "cgroup.events",
            frozen: "frozen 1",
        },
    }
}

impl<H: HostFiles> InjectionCgroup<H> {
    fn is_frozen(&self, files: &FreezerFiles) -> bool {
        self.read(files.shown_in)
            .is_ok_and(|text| text.lines().any(|line| line.trim() == files.frozen))
    }

    /// Freezes the cgroup. Returns the instant from which on all threads are frozen; `None` if they
    /// are not by `until`.
    fn freeze(&self, files: &FreezerFiles, until: Instant) -> Option<Instant> {
        self.set(files.file, files.freeze).ok()?;
        loop {
            let looked = Monotonic.now();
            if self.is_frozen(files) {
                return Some(Monotonic.now());
            }

            // On a machine with one CPU the threads are frozen between two looks.
            let now = Monotonic.now();
            let next = now.plus_ns(LOOK_NS.max(RESTS * now.ns_since(looked)));
            if next >= until {
                return None;
            }
            sleep_until(next);
        }
    }
}

impl Disturb for FreezerDisturber {
    /// Where reading the cgroup's state takes long, freezing it does too.
    fn lead_ns(&self, plan: &InjectionPlan) -> u64 {
        let longest_ns = plan.grid.period_ns / 4 * 3;
        plan.lead_ns().max((LOOKS_AHEAD * self.look_ns).min(longest_ns))
    }

    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        above_the_loop(plan)
    }

    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let mut cgroup = InjectionCgroup::prepare(plan, "freezer")?;
        let FreezerFiles { file, thaw, freeze, .. } = freezer_files(cgroup.home.version);
        let noted = cgroup.will_change(file, (thaw, freeze), &["FREEZING"]);
        let ready = noted.and_then(|()| cgroup.move_in(plan.target.tid));
        ready.map_err(|why| plan.impossible(why.to_string()))?;
        let files = freezer_files(cgroup.home.version);
        self.look_ns = shortest_ns(3, || {
            let _ = cgroup.is_frozen(&files);
        });
        self.cgroup = Some(cgroup);

        Ok(())
    }

    fn disturb(&mut self, plan: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let cgroup = self.cgroup.as_ref()?;
        if Monotonic.now() >= aim.wake_up {
            return None;
        }

        let files = freezer_files(cgroup.home.version);
        let at = cgroup.freeze(&files, aim.wake_up);
        if at.is_some() {
            sleep_until(aim.until);
        }

        let stood = cgroup.is_frozen(&files);
        let is_back = cgroup.set(files.file, files.thaw).is_ok();
        let at = at.filter(|_| stood && is_back)?;
        let tid = u64::from(plan.target.tid.unsigned_abs());
        Some(DisturbanceRecord { at, ns: Monotonic.now().ns_since(at), figures: [tid, 0] })
    }
}

/// The disturber of `cpu_quota`.
#[derive(Default)]
pub(super) struct QuotaDisturber {
    cgroup: Option<InjectionCgroup<LiveHost>>,
}

impl<H: HostFiles> InjectionCgroup<H> {
    /// Sets the quota, in microseconds of each period; `None` removes the quota.
    fn limit(&self, quota_us: Option<u64>, period_us: u64) -> Result<(), TuneError> {
        if self.home.version == CgroupVersion::V1 {
            self.set("cpu.cfs_period_us", &period_us.to_string())?;
            let quota = quota_us.map_or("-1".to_owned(), |us| us.to_string());
            self.set("cpu.cfs_quota_us", &quota)
        } else {
            let quota = quota_us.map_or("max".to_owned(), |us| us.to_string());
            self.set("cpu.max", &format!("{quota} {period_us}"))
        }
    }

    /// Returns the accumulated throttled time of the cgroup, in nanoseconds.
    fn throttled_ns(&self) -> u64 {
        let text = self.read("cpu.stat").unwrap_or_default();
        let found = text.lines().find_map(|line| match line.split_once(' ')? {
            ("throttled_usec", us) => Some(us.trim().parse::<u64>().ok()? * 1_000),
            ("throttled_time", ns) => ns.trim().parse().ok(),
            _ => None,
        });

        found.unwrap_or(0)
    }
}

impl Disturb for QuotaDisturber {
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        ThreadRequest { cpu: Some(plan.target.cpu), ..ThreadRequest::default() }
    }

    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        if plan.target.priority > 0 {
            return Err(plan.impossible(format!(
                "the loop has the real-time priority {}, which no CPU quota holds back",
                plan.target.priority
            )));
        }

        let cgroup = InjectionCgroup::prepare(plan, "cpu")?;
        let ready = cgroup.move_in(plan.target.tid);
        ready.map_err(|why| plan.impossible(why.to_string()))?;
        self.cgroup = Some(cgroup);
        Ok(())
    }

    fn prepare_in_place(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let taken = self.cgroup.as_ref().map_or(Ok(()), |cgroup| cgroup.move_in(own));
        taken.map_err(|why| plan.impossible(why.to_string()))
    }

    fn disturb(&mut self, plan: &InjectionPlan, _: &AimedRelease) -> Option<DisturbanceRecord> {
        let cgroup = self.cgroup.as_ref()?;
        let period_ns = QUOTA_NS + plan.for_ns;
        cgroup.limit(Some(QUOTA_NS / 1000), period_ns / 1000).ok()?;
        let done = use_up(cgroup, plan.for_ns / 2, Monotonic.now().plus_ns(3 * period_ns));
        cgroup.limit(None, period_ns / 1000).ok()?;
        done
    }
}

/// Keeps the CPU busy until the kernel has throttled the cgroup for at least `least_ns`, according
/// to the clock and to the kernel's counter.
fn use_up<H: HostFiles>(
    cgroup: &InjectionCgroup<H>,
    least_ns: u64,
    give_up: Instant,
) -> Option<DisturbanceRecord> {
    let mut before_ns = cgroup.throttled_ns();
    let mut last = Monotonic.now();
    while last < give_up {
        let now = Monotonic.now();
        let ns = now.ns_since(last);
        if ns >= least_ns {
            let after_ns = cgroup.throttled_ns();
            let counted_ns = after_ns.saturating_sub(before_ns);
            if counted_ns >= ns / 4 * 3 {
                return Some(DisturbanceRecord { at: last, ns, figures: [counted_ns, 0] });
            }
            before_ns = after_ns;
        }

        last = now;
    }

    None
}

#[cfg(test)]
mod tests;
