//! Facts of a machine that several probes need, each read once.
//!
//! | file | facts |
//! |---|---|
//! | `kernel` | version, command line, build configuration |
//! | `processor` | architecture, vendor, flags, whether it is a guest's |
//! | `mounts` | control group hierarchies |
//! | `task_table` | the tasks that run |

mod kernel;
mod mounts;
mod processor;
mod task_table;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;

use super::host_tree::{HostTree, is_absent};
use super::loop_setup::{CpuSetVariable, LoopSetup};
use super::no_value::NoValue;
use crate::cpu_list::CpuList;
use crate::tasks::Task;

pub use kernel::KernelParameter;
pub(crate) use kernel::name_of;
pub use mounts::CgroupMount;
pub use processor::{Architecture, Processor};

/// A fact, or why it is not known.
pub type Fact<T> = Result<T, NoValue>;

/// The facts of one machine for one loop.
#[derive(Debug)]
pub struct Survey<'h> {
    host: &'h HostTree,
    setup: &'h LoopSetup,
    online: OnceCell<Fact<CpuList>>,
    parameters: OnceCell<Fact<Vec<KernelParameter>>>,
    config: OnceCell<Fact<BTreeMap<String, String>>>,
    processor: OnceCell<Fact<Processor>>,
    tasks: OnceCell<Fact<Vec<Task>>>,
    mounts: OnceCell<Fact<Vec<CgroupMount>>>,
}

impl<'h> Survey<'h> {
    /// Begins a survey; nothing is read before it is asked for.
    #[must_use]
    pub const fn new(host: &'h HostTree, setup: &'h LoopSetup) -> Self {
        Self {
            host,
            setup,
            online: OnceCell::new(),
            parameters: OnceCell::new(),
            config: OnceCell::new(),
            processor: OnceCell::new(),
            tasks: OnceCell::new(),
            mounts: OnceCell::new(),
        }
    }

    /// The files of the machine.
    #[must_use]
    pub const fn host(&self) -> &HostTree {
        self.host
    }

    /// The loop that is checked for.
    #[must_use]
    pub const fn setup(&self) -> &LoopSetup {
        self.setup
    }

    /// Returns the text of a file that every kernel has.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] with the path and the kernel's error.
    pub fn text(&self, path: &str) -> Fact<String> {
        self.host.read(path).map_err(|error| NoValue::from_error(path, &error))
    }

    /// Returns the names in a directory.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] with the path and the kernel's error.
    pub fn names(&self, path: &str) -> Fact<Vec<String>> {
        self.host.names(path).map_err(|error| NoValue::from_error(path, &error))
    }

    /// As [`Self::text`]; `None` where there is no such file.
    pub(crate) fn text_if_there(&self, path: &str) -> Fact<Option<String>> {
        if_there(self.host.read(path), path)
    }

    /// As [`Self::names`]; `None` where there is no such directory.
    pub(crate) fn names_if_there(&self, path: &str) -> Fact<Option<Vec<String>>> {
        if_there(self.host.names(path), path)
    }

    /// Whether a file exists.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where that cannot be found out: the tree lacks all of `/proc`, `/sys`
    /// or what the path begins with.
    pub fn exists(&self, path: &str) -> Fact<bool> {
        let exists = self.host.exists(path).map_err(|error| NoValue::from_error(path, &error))?;
        if !exists {
            self.require_anchor(path)?;
        }

        Ok(exists)
    }

    /// Returns normally where the directory is there in which `path` would be: `/proc/sys` for a
    /// sysctl, `/sys/module` for a module. What is absent below an absent directory may only be
    /// missing from a captured tree.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] with the directory that is missing.
    pub fn require_anchor(&self, path: &str) -> Fact<()> {
        let mut pieces = path.trim_start_matches('/').split('/');
        let first = pieces.next().unwrap_or_default();
        let second =
            pieces.next().filter(|second| pieces.next().is_some() && !second.contains('*'));
        let anchor = match (first, second) {
            ("proc" | "sys", Some(second)) if !second.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("/{first}/{second}")
            }
            _ => format!("/{first}"),
        };

        match self.host.exists(&anchor) {
            Ok(true) => Ok(()),
            Ok(false) => Err(NoValue::Unknown(format!("{anchor} does not exist in this tree"))),
            Err(error) => Err(NoValue::from_error(&anchor, &error)),
        }
    }

    /// Returns the online CPUs.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where the list cannot be read.
    pub fn online(&self) -> Fact<CpuList> {
        const PATH: &str = "/sys/devices/system/cpu/online";
        let parse = |text: String| {
            CpuList::parse_list(&text).map_err(|error| NoValue::Unknown(format!("{PATH}: {error}")))
        };
        self.online.get_or_init(|| self.text(PATH).and_then(parse)).clone()
    }

    /// Returns the loop's thread.
    ///
    /// # Errors
    /// [`NoValue::NotApplicable`] where none was named.
    pub fn loop_task(&self) -> Fact<i32> {
        let none = || NoValue::NotApplicable("no thread of a loop was named".to_owned());
        self.setup.task.ok_or_else(none)
    }

    /// Returns the loop's CPUs.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where none was chosen, or one of them is not online.
    pub fn loop_cpus(&self) -> Fact<CpuList> {
        if self.setup.cpus.is_empty() {
            return Err(NoValue::Unknown("no CPU was chosen for the loop".to_owned()));
        }

        let offline = self.setup.cpus.minus(&self.online()?);
        if offline.is_empty() {
            Ok(self.setup.cpus.clone())
        } else {
            Err(NoValue::Unknown(format!("CPU {offline} of the loop is not online")))
        }
    }

    /// Returns a set of CPUs that expressions name.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where it cannot be determined; also where no housekeeping CPU would
    /// remain.
    pub fn cpu_set(&self, variable: CpuSetVariable) -> Fact<CpuList> {
        match variable {
            CpuSetVariable::Loop => self.loop_cpus(),
            CpuSetVariable::Online => self.online(),
            CpuSetVariable::Boot => Ok([0].into_iter().collect()),
            CpuSetVariable::InterfaceNode => self.interface_node(),
            CpuSetVariable::Housekeeping => {
                let rest = self.online()?.minus(&self.loop_cpus()?);
                let none =
                    || NoValue::Unknown("the loop's CPUs leave no housekeeping CPU".to_owned());
                if rest.is_empty() { Err(none()) } else { Ok(rest) }
            }
        }
    }

    /// The CPUs on the NUMA nodes of all of the loop's interfaces.
    fn interface_node(&self) -> Fact<CpuList> {
        let mut common = self.online()?;
        for interface in &self.setup.interfaces {
            let node = self.text(&format!("/sys/class/net/{interface}/device/numa_node"))?;
            // The kernel writes -1 where the firmware does not name a node.
            let Ok(node) = node.trim().parse::<u32>() else {
                return Err(NoValue::Unknown(format!(
                    "the firmware names no NUMA node for {interface}"
                )));
            };
            let path = format!("/sys/devices/system/node/node{node}/cpulist");
            let cpus = CpuList::parse_list(&self.text(&path)?)
                .map_err(|error| NoValue::Unknown(format!("{path}: {error}")))?;
            common = common.and(&cpus);
        }

        Ok(common)
    }

    /// Returns a text with its variables replaced; those without a value here stay in braces.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let list = |variable| self.cpu_set(variable).ok().map(|cpus| cpus.to_string());
        let mask = self.cpu_set(CpuSetVariable::Housekeeping).ok().map(|cpus| cpus.to_mask());
        let single = self
            .loop_cpus()
            .ok()
            .map(|cpus| if cpus.iter().count() == 1 { cpus.to_string() } else { "N".to_owned() });

        let values = [
            ("{loop_cpu}", single),
            ("{loop}", list(CpuSetVariable::Loop)),
            ("{housekeeping}", list(CpuSetVariable::Housekeeping)),
            ("{housekeeping_mask}", mask),
            ("{task}", self.setup.task.map(|task| task.to_string())),
            ("{interface}", self.setup.interfaces.first().cloned()),
            ("{period_us}", Some(self.setup.period_us.to_string())),
            ("{idle_exit_us}", Some(self.setup.idle_exit_us.to_string())),
            ("{loop_priority}", Some(self.setup.loop_priority.to_string())),
        ];

        let replaced = |text: String, (name, value): &(&str, Option<String>)| match value {
            Some(value) => text.replace(name, value),
            None => text,
        };

        values.iter().fold(text.to_owned(), replaced)
    }

    /// Returns the number of NUMA nodes; 1 on a kernel without NUMA.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where `/sys/devices/system` cannot be listed.
    pub fn numa_nodes(&self) -> Fact<usize> {
        const PATH: &str = "/sys/devices/system/node";
        if !self.exists(PATH)? {
            return Ok(1);
        }

        let names = self.names(PATH)?;
        let is_node = |name: &&String| {
            name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
        };
        Ok(names.iter().filter(is_node).count())
    }

    /// Returns the mark of a container that this process or tree is in, if any.
    #[must_use]
    pub fn container(&self) -> Option<String> {
        let marks = ["/run/systemd/container", "/.dockerenv", "/run/.containerenv"];
        marks
            .iter()
            .find(|mark| self.host.exists(mark).unwrap_or(false))
            .map(|mark| format!("{mark} exists"))
    }
}

fn if_there<T>(read: io::Result<T>, path: &str) -> Fact<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(NoValue::from_error(path, &error)),
    }
}
