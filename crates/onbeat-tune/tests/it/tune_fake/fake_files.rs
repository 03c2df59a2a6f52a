//! Access to the fake host. It can fail at any one change, to test errors, or be copied before each
//! change, to test crashes.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;

use onbeat_tune::{CpuList, HostFiles};
use rustix::io::Errno;

use super::{Cgroups, FakeTask, Group, OWN, World};

/// The moment before a change: the host, and the journal as it is on disk then.
pub struct Moment {
    pub world: World,
    pub journal: Vec<u8>,
}

pub struct Fake {
    pub world: RefCell<World>,
    pub changes: Cell<usize>,
    /// This change, counted from 0, fails with EIO, once.
    pub fails_at: Cell<Option<usize>>,
    /// The journal to copy before each change.
    pub watched: RefCell<Option<PathBuf>>,
    pub moments: RefCell<Vec<Moment>>,
    pub killed_sessions: RefCell<Vec<(i32, u64)>>,
}

impl Fake {
    pub fn new(world: World) -> Self {
        Self {
            world: RefCell::new(world),
            changes: Cell::new(0),
            fails_at: Cell::new(None),
            watched: RefCell::new(None),
            moments: RefCell::new(Vec::new()),
            killed_sessions: RefCell::new(Vec::new()),
        }
    }

    pub fn settings(&self) -> Vec<String> {
        self.world.borrow().settings()
    }

    pub fn mask(&self, tid: i32) -> String {
        self.world.borrow().tasks[&tid].mask.to_string()
    }

    /// Names of tasks that may run on `cpu`.
    pub fn on_cpu(&self, cpu: u32) -> Vec<String> {
        let world = self.world.borrow();
        world
            .tasks
            .values()
            .filter(|task| task.mask.contains(cpu))
            .map(|task| task.comm.clone())
            .collect()
    }

    fn before_a_change(&self) -> Result<(), Errno> {
        if let Some(journal) = &*self.watched.borrow() {
            let journal = std::fs::read(journal).unwrap_or_default();
            self.moments.borrow_mut().push(Moment { world: self.world.borrow().clone(), journal });
        }
        let change = self.changes.replace(self.changes.get() + 1);
        if self.fails_at.get() == Some(change) { Err(Errno::IO) } else { Ok(()) }
    }
}

impl HostFiles for Fake {
    fn read(&self, path: &str) -> io::Result<String> {
        let world = self.world.borrow();
        let group = world.group_file(path).and_then(|(group, file)| world.read_group(group, file));
        let text = world.files.get(path).cloned().or(group).or_else(|| world.read_proc(path));
        text.ok_or_else(|| Errno::NOENT.into())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.before_a_change()?;
        let mut world = self.world.borrow_mut();
        let group = world.group_file(path).map(|(group, file)| (group.to_owned(), file.to_owned()));
        if let Some((group, file)) = group {
            return Ok(world.write_group((&group, &file), text)?);
        }
        if let Some(file) = world.files.get_mut(path) {
            *file = format!("{}\n", text.trim());
            return Ok(());
        }
        let number =
            path.strip_prefix("/proc/irq/").and_then(|rest| rest.split('/').next()?.parse().ok());
        Ok(number.map_or(Err(Errno::NOENT), |number| world.write_irq(number, text))?)
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        let world = self.world.borrow();
        if world.groups.contains_key(path) {
            let below =
                world.groups.keys().filter_map(|at| at.strip_prefix(path)?.strip_prefix('/'));
            return Ok(below.filter(|name| !name.contains('/')).map(str::to_owned).collect());
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        Ok(match *parts {
            ["proc"] => world.tasks.values().map(|task| task.pid.to_string()).collect(),
            ["proc", "irq"] => world.irqs.keys().map(ToString::to_string).collect(),
            ["proc", "irq", number] => {
                let irq = number.parse().ok().and_then(|number: u32| world.irqs.get(&number));
                irq.ok_or(Errno::NOENT)?.actions.clone()
            }
            ["proc", pid, "task"] => {
                let of = |task: &FakeTask| task.pid.to_string() == pid;
                world
                    .tasks
                    .iter()
                    .filter(|(_, task)| of(task))
                    .map(|(tid, _)| tid.to_string())
                    .collect()
            }
            _ => return Err(Errno::NOENT.into()),
        })
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.before_a_change()?;
        let mut world = self.world.borrow_mut();
        if world.read_only_cgroups {
            return Err(Errno::ROFS.into());
        }
        let partition = if world.cgroups == Cgroups::V2 { "member" } else { "" }.to_owned();
        world.groups.insert(path.to_owned(), Group { partition, ..Group::default() });
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.before_a_change()?;
        let mut world = self.world.borrow_mut();
        if world.tasks.values().any(|task| task.group == path) {
            return Err(Errno::BUSY.into());
        }
        world.regroup(|world| {
            world.groups.remove(path);
        });
        Ok(())
    }

    fn set_affinity(&self, tid: i32, list: &CpuList) -> io::Result<()> {
        self.before_a_change()?;
        let mut world = self.world.borrow_mut();
        let group = world.tasks.get(&tid).ok_or(Errno::SRCH)?.group.clone();
        let granted = world.granted(&group).and(list);
        let online = world.online();
        let task = world.tasks.get_mut(&tid).unwrap();
        if !granted.meets(&online) || task.flags & 0x0400_0000 != 0 {
            return Err(Errno::INVAL.into());
        }
        (task.mask, task.user) = (granted, Some(list.clone()));
        Ok(())
    }

    fn kill_session(&self, sid: i32, start_ticks: u64) -> io::Result<usize> {
        self.before_a_change()?;
        self.killed_sessions.borrow_mut().push((sid, start_ticks));
        Ok(self.world.borrow_mut().tasks.remove(&sid).map_or(0, |_| 1))
    }

    fn is_root(&self) -> bool {
        self.world.borrow().root
    }

    fn own_pid(&self) -> i32 {
        OWN
    }

    fn unix_seconds(&self) -> u64 {
        1_795_248_602
    }

    fn pause(&self) {}
}
