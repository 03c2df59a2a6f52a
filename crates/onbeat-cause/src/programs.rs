//! The BPF programs of this crate's folder `bpf`, and their loading.
//!
//! They are written in C for clang and checked in compiled, so that building and running onbeat
//! takes no clang. Where the members lie that they read of the kernel's structures is not compiled
//! into them: aya, a loader without a C library, takes it from the running kernel's BTF (CO-RE).

use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::{fmt, io};

use aya::maps::{Array, Map, MapData, MapError};
use aya::programs::uprobe::UProbeScope;
use aya::programs::{BtfTracePoint, FEntry, FExit, ProgramError, RawTracePoint, UProbe, Xdp};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader, Pod, include_bytes_aligned};

use onbeat_host::bpf::attach_to_interface;

use super::bpf::SharedArray;

/// A compiled file of programs.
#[derive(Clone, Copy)]
pub struct Object {
    bytes: &'static [u8],
    /// Whether its programs read members of the kernel's structures.
    reads_structures: bool,
}

/// Delays of `onbeat inject` at trace points: `bpf/delay.bpf.c`.
pub const DELAY: Object =
    Object { bytes: include_bytes_aligned!("../bpf/delay.bpf.o"), reads_structures: true };
/// Answers to echo requests at an interface: `bpf/echo.bpf.c`.
pub const ECHO: Object =
    Object { bytes: include_bytes_aligned!("../bpf/echo.bpf.o"), reads_structures: false };

/// Recording of the loop's path: `bpf/path.bpf.c`.
pub(super) const PATH: Object =
    Object { bytes: include_bytes_aligned!("../bpf/path.bpf.o"), reads_structures: true };

/// Programs cannot be loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The kernel does not describe its structures.
    #[error("no BTF in /sys/kernel/btf/vmlinux: {0}; the kernel needs CONFIG_DEBUG_INFO_BTF")]
    NoBtf(BtfError),
    /// A structure of this kernel lacks what a program reads, or a map is refused.
    #[error("the BPF programs do not fit this kernel: {0}")]
    Load(#[from] EbpfError),
    /// The verifier refuses a program.
    #[error("the kernel refuses the BPF program {name}: {why}")]
    Program {
        /// The program.
        name: &'static str,
        /// The system's answer.
        why: io::Error,
    },
    /// A map cannot be read or written.
    #[error("the BPF map {name}: {why}")]
    Map {
        /// The map.
        name: &'static str,
        /// What failed.
        why: MapError,
    },
    /// The kernel lacks the trace point.
    #[error("this kernel has no trace point {0}")]
    NoTracePoint(String),
    /// The file has no such program, or it is one for another place.
    #[error("no BPF program {0} for this place")]
    NoProgram(&'static str),
}

/// What is set in a file of programs before the kernel sees it.
#[derive(Default)]
pub struct ObjectSetting<'s> {
    /// Values of constants. The kernel drops branches that a constant excludes.
    pub constants: &'s [(&'static str, u32)],
    /// Numbers of entries of arrays.
    pub entries: &'s [(&'static str, u32)],
}

/// Maps and programs of a file; dropping it, or the end of the process, detaches the programs.
pub struct LoadedObject {
    maps_and_programs: Ebpf,
    /// Types of the running kernel, where programs need them.
    btf: Option<Btf>,
    interfaces: Vec<OwnedFd>,
}

impl fmt::Debug for LoadedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = self.maps_and_programs.programs().map(|(name, _)| name);
        f.debug_list().entries(programs).finish()
    }
}

impl LoadedObject {
    /// Creates the maps, and fits the programs to the running kernel.
    ///
    /// # Errors
    /// [`ObjectError::NoBtf`], [`ObjectError::Load`].
    pub fn load(object: Object, setting: &ObjectSetting<'_>) -> Result<Self, ObjectError> {
        // A new loader has parsed the kernel's types already (9 MB), for itself alone: they are
        // dropped before they are parsed for the attachments as well.
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let btf = object.reads_structures.then(Btf::from_sys_fs).transpose();
        let btf = btf.map_err(ObjectError::NoBtf)?;
        loader.btf(btf.as_ref());
        for (name, value) in setting.constants {
            loader.override_global(name, value, true);
        }
        for (name, count) in setting.entries {
            loader.map_max_entries(name, *count);
        }
        let maps_and_programs = loader.load(object.bytes)?;
        Ok(Self { maps_and_programs, btf, interfaces: Vec::new() })
    }

    /// Attaches a program to the trace point of this name.
    ///
    /// # Errors
    /// [`ObjectError::Program`], [`ObjectError::NoProgram`].
    pub fn attach_raw(&mut self, name: &'static str, point: &str) -> Result<(), ObjectError> {
        let program: &mut RawTracePoint = self.program(name)?;
        let attached = program.load().and_then(|()| program.attach(point));
        attached.map(drop).map_err(|why| ObjectError::Program { name, why: answer(why) })
    }

    /// Attaches a program to the trace point of this name, with the kernel's types.
    ///
    /// # Errors
    /// [`ObjectError::NoTracePoint`], [`ObjectError::Program`], [`ObjectError::NoProgram`].
    pub(super) fn attach_typed(
        &mut self,
        name: &'static str,
        point: &str,
    ) -> Result<(), ObjectError> {
        let Some(btf) = self.btf.take() else {
            return Err(ObjectError::NoProgram(name));
        };
        let attached = self.program::<BtfTracePoint>(name).and_then(|program| {
            program.load(point, &btf).and_then(|()| program.attach()).map(drop).map_err(|why| {
                match why {
                    ProgramError::Btf(_) => ObjectError::NoTracePoint(point.to_owned()),
                    why => ObjectError::Program { name, why: answer(why) },
                }
            })
        });
        self.btf = Some(btf);
        attached
    }

    /// Attaches a program to the beginning and one to the end of the kernel's function of this name.
    ///
    /// # Errors
    /// [`ObjectError::NoTracePoint`] where the kernel has no such function,
    /// [`ObjectError::Program`], [`ObjectError::NoProgram`].
    pub(super) fn attach_to_function(
        &mut self,
        begins: &'static str,
        ends: &'static str,
        function: &str,
    ) -> Result<(), ObjectError> {
        let Some(btf) = self.btf.take() else {
            return Err(ObjectError::NoProgram(begins));
        };
        let refused = |name, why| match why {
            ProgramError::Btf(_) => ObjectError::NoTracePoint(function.to_owned()),
            why => ObjectError::Program { name, why: answer(why) },
        };
        let at_end = self.program::<FExit>(ends).and_then(|program| {
            let attached = program.load(function, &btf).and_then(|()| program.attach());
            attached.map(drop).map_err(|why| refused(ends, why))
        });
        // The end ignores what it did not see begin.
        let attached = at_end.and_then(|()| {
            let program = self.program::<FEntry>(begins)?;
            let attached = program.load(function, &btf).and_then(|()| program.attach());
            attached.map(drop).map_err(|why| refused(begins, why))
        });
        self.btf = Some(btf);
        attached
    }

    /// Attaches the programs at the beginning and the return of a function of process `pid`, which is
    /// `offset` bytes into `file`.
    ///
    /// # Errors
    /// [`ObjectError::Program`], [`ObjectError::NoProgram`].
    pub(super) fn attach_to_program(
        &mut self,
        (begins, ends): (&'static str, &'static str),
        file: &Path,
        offset: u64,
        pid: NonZeroU32,
    ) -> Result<(), ObjectError> {
        for name in [begins, ends] {
            let program: &mut UProbe = self.program(name)?;
            let attached = program.load().and_then(|()| {
                program.attach(offset, file, UProbeScope::OneProcess(pid)).map(drop)
            });
            attached.map_err(|why| ObjectError::Program { name, why: answer(why) })?;
        }
        Ok(())
    }

    /// Drops the kernel's types, 9 MB, once all programs that need them are attached.
    pub(super) fn forget_types(&mut self) {
        self.btf = None;
    }

    /// Maps the array of this name, which its file of programs marks as mappable. The map itself
    /// stays: programs that are loaded later refer to it by the number of its descriptor.
    pub(super) fn shared_array(&self, name: &'static str) -> Result<SharedArray, ObjectError> {
        let refused = |why| ObjectError::Map { name, why };
        let Some(Map::Array(map)) = self.maps_and_programs.map(name) else {
            return Err(refused(MapError::KeyNotFound));
        };
        let shared = |why| refused(MapError::IoError(why));
        let info = map.info().map_err(refused)?;
        let descriptor = map.fd().as_fd().try_clone_to_owned().map_err(shared)?;
        SharedArray::map(descriptor, info.value_size() / 8, info.max_entries()).map_err(shared)
    }

    /// Attaches a program to the frames that arrive at the interface with this index of the
    /// caller's network namespace: in its driver, or in the kernel's network stack.
    ///
    /// aya would fall back to an attachment that outlives the process where the kernel is too old
    /// for one that does not (before Linux 5.9), so the link is made here.
    ///
    /// # Errors
    /// [`ObjectError::Program`], [`ObjectError::NoProgram`].
    pub fn attach_to_frames(
        &mut self,
        name: &'static str,
        interface: u32,
        in_driver: bool,
    ) -> Result<(), ObjectError> {
        let program: &mut Xdp = self.program(name)?;
        let refused = |why| ObjectError::Program { name, why };
        // Loaded already when the driver refused it.
        if program.fd().is_err() {
            program.load().map_err(|why| refused(answer(why)))?;
        }
        let number = program.fd().map_err(|why| refused(answer(why)))?.as_fd().as_raw_fd();
        let link = attach_to_interface(number, interface, in_driver).map_err(refused)?;
        self.interfaces.push(link);
        Ok(())
    }

    fn program<'p, P>(&'p mut self, name: &'static str) -> Result<&'p mut P, ObjectError>
    where
        &'p mut P: TryFrom<&'p mut aya::programs::Program>,
    {
        let program = self.maps_and_programs.program_mut(name);
        program.and_then(|program| program.try_into().ok()).ok_or(ObjectError::NoProgram(name))
    }

    /// Writes the values of an array, from its first entry on.
    ///
    /// # Errors
    /// [`ObjectError::Map`].
    pub fn fill<V: Pod>(&mut self, name: &'static str, values: &[V]) -> Result<(), ObjectError> {
        let refused = |why| ObjectError::Map { name, why };
        let map = self.maps_and_programs.map_mut(name).ok_or(MapError::KeyNotFound);
        let mut array = map.and_then(Array::<_, V>::try_from).map_err(refused)?;
        for (at, value) in values.iter().enumerate() {
            array.set(at as u32, value, 0).map_err(refused)?;
        }
        Ok(())
    }

    /// Takes the array of this name, once every program that is used is loaded.
    ///
    /// # Errors
    /// [`ObjectError::Map`].
    pub fn array<V: Pod>(&mut self, name: &'static str) -> Result<Array<MapData, V>, ObjectError> {
        let refused = |why| ObjectError::Map { name, why };
        let map = self.maps_and_programs.take_map(name);
        map.ok_or(MapError::KeyNotFound).and_then(Array::try_from).map_err(refused)
    }
}

/// Returns the system's answer in an error of the loader, whose own text has the verifier's log of
/// many lines: the last of them is its reason.
fn answer(why: ProgramError) -> io::Error {
    match why {
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            let reason = log.lines().rfind(|line| {
                !line.trim().is_empty()
                    && !line.starts_with("processed ")
                    && !line.starts_with("verification time")
            });
            match reason {
                Some(reason) => io::Error::new(io_error.kind(), format!("{io_error} ({reason})")),
                None => io_error,
            }
        }
        ProgramError::SyscallError(call) => call.io_error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_record::{FAULTS, MEMORY_CALLS, MEMORY_LOCKS};

    /// Whether this process may load programs, and the kernel describes its structures.
    fn refusal() -> Option<String> {
        let object = LoadedObject::load(PATH, &ObjectSetting::default());
        object.err().map(|why| why.to_string())
    }

    #[test]
    fn each_program_of_each_file_passes_this_kernels_verifier() {
        if let Some(why) = refusal() {
            println!("skipped: {why}");
            return;
        }
        let mut path = LoadedObject::load(PATH, &ObjectSetting::default()).unwrap();
        // As the recorder does: its memory is mapped before a program is loaded.
        let arrays =
            ["heads", "records", "stacks", "measured"].map(|name| path.shared_array(name).unwrap());
        assert!(arrays.iter().all(|array| array.bytes_held() > 0));
        let at_points = [
            ("sched_switch", "sched_switch"),
            ("switch_old", "sched_switch"),
            ("sched_waking", "sched_waking"),
            ("waking_stack", "sched_waking"),
            ("hrtimer_start", "hrtimer_start"),
            ("start_stack", "hrtimer_start"),
            ("hrtimer_expire", "hrtimer_expire_entry"),
            ("cpu_idle", "cpu_idle"),
            ("timer_entry", "local_timer_entry"),
            ("timer_exit", "local_timer_exit"),
            ("process_exit", "sched_process_exit"),
            ("pi_setprio", "sched_pi_setprio"),
            ("own_switch", "sched_switch"),
            ("own_switch_old", "sched_switch"),
            ("own_start", "hrtimer_start"),
            ("own_expire", "hrtimer_expire_entry"),
        ];
        for (program, point) in at_points.into_iter().chain(MEMORY_LOCKS) {
            match path.attach_typed(program, point) {
                Ok(()) => {}
                Err(ObjectError::NoTracePoint(point)) => println!("skipped: no {point} here"),
                Err(why) => panic!("{program}: {why}"),
            }
        }

        for (begins, ends, function) in MEMORY_CALLS.into_iter().chain([FAULTS]) {
            match path.attach_to_function(begins, ends, function) {
                Ok(()) => {}
                Err(ObjectError::NoTracePoint(function)) => println!("skipped: no {function} here"),
                // A kernel may have no trampolines for the ends of functions; the recorder says so.
                Err(ObjectError::Program { why, .. })
                    if why.kind() == io::ErrorKind::PermissionDenied =>
                {
                    println!("skipped: this kernel refuses programs at {function}: {why}");
                }
                Err(why) => panic!("{begins}, {ends}: {why}"),
            }
        }

        for (program, point) in [
            ("interrupts_off", "sched_waking"),
            ("timer_interrupt", "hrtimer_expire_entry"),
            ("slow_softirq", "softirq_entry"),
            ("slow_ipi", "call_function_single_entry"),
        ] {
            let constants = [("most_readings", 60_000)];
            let setting = ObjectSetting { constants: &constants, ..ObjectSetting::default() };
            let mut delay = LoadedObject::load(DELAY, &setting).unwrap();
            delay.attach_raw(program, point).unwrap_or_else(|why| panic!("{program}: {why}"));
        }

        let constants = [("range_count", 100), ("silence_count", 100)];
        let setting = ObjectSetting { constants: &constants, ..ObjectSetting::default() };
        let mut echo = LoadedObject::load(ECHO, &setting).unwrap();
        let program: &mut Xdp = echo.program("echo").unwrap();
        program.load().unwrap_or_else(|why| panic!("echo: {}", answer(why)));
    }

    #[test]
    fn a_missing_trace_point_and_program_are_named() {
        if let Some(why) = refusal() {
            println!("skipped: {why}");
            return;
        }
        let mut path = LoadedObject::load(PATH, &ObjectSetting::default()).unwrap();
        let why = path.attach_typed("cpu_idle", "cpu_idles").unwrap_err().to_string();
        assert_eq!(why, "this kernel has no trace point cpu_idles");
        let why = path.attach_typed("cpu_idles", "cpu_idle").unwrap_err().to_string();
        assert_eq!(why, "no BPF program cpu_idles for this place");
    }
}
