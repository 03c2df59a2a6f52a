//! A captured machine that can be changed: its files, unpacked into a directory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use onbeat_tune::{CpuList, HostFiles};
use rustix::io::Errno;
use tempfile::TempDir;

/// The process that applies, which a capture does not have.
const OWN: i32 = 4_000_000;

/// A machine below a directory. What is written is written there.
pub(crate) struct CapturedHost {
    directory: TempDir,
    policies: RefCell<BTreeMap<i32, String>>,
    units: RefCell<BTreeMap<String, String>>,
}

impl CapturedHost {
    /// Unpacks an archive, and adds what only an apply reads: the boot, processes of threads,
    /// handlers of interrupts, and this process.
    pub(crate) fn unpack(archive: &Path) -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        tar::Archive::new(GzDecoder::new(File::open(archive)?)).unpack(directory.path())?;
        let host = Self { directory, policies: RefCell::default(), units: RefCell::default() };

        host.put("/proc/sys/kernel/random/boot_id", "00000000-0000-0000-0000-000000000001\n")?;
        host.put("/proc/uptime", "1000.00 0.00\n")?;
        let stat = format!("{OWN} (onbeat) S 1{} 20 0 1 0 100 0 0\n", " 0".repeat(13));
        host.put(&format!("/proc/{OWN}/task/{OWN}/stat"), &stat)?;
        host.put(&format!("/proc/{OWN}/status"), "Cpus_allowed_list:\t0\n")?;
        host.complete_processes()?;
        host.complete_interrupts()?;
        Ok(host)
    }

    /// The directory that stands for the root.
    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    fn complete_processes(&self) -> io::Result<()> {
        for pid in self.directories("/proc")?.iter().filter(|name| is_number(name)) {
            let stat = self.read(&format!("/proc/{pid}/task/{pid}/stat"));
            let Ok(stat) = stat else { continue };
            self.put(&format!("/proc/{pid}/stat"), &stat)?;
            let cpus = self.read(&format!("/proc/{pid}/status"))?;
            self.put(&format!("/proc/{pid}/status"), &format!("Tgid:\t{pid}\n{cpus}"))?;
        }
        Ok(())
    }

    fn complete_interrupts(&self) -> io::Result<()> {
        for number in self.directories("/proc/irq")?.iter().filter(|name| is_number(name)) {
            let allowed = format!("/proc/irq/{number}/smp_affinity_list");
            if self.read(&allowed).is_err() {
                let effective =
                    self.read(&format!("/proc/irq/{number}/effective_affinity_list"))?;
                self.put(&allowed, &effective)?;
            }
            let actions = self.read(&format!("/sys/kernel/irq/{number}/actions"))?;
            for handler in actions.trim().split(',').filter(|name| !name.is_empty()) {
                fs::create_dir_all(self.place(&format!("/proc/irq/{number}/{handler}")))?;
            }
        }
        Ok(())
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let place = self.place(path);
        place.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(place, text)
    }
}

fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

impl HostFiles for CapturedHost {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.place(path))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let place = self.place(path);
        if place.exists() { fs::write(place, text) } else { Err(Errno::NOENT.into()) }
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.place(path))?.flatten();
        let directories = entries.filter(|entry| entry.path().is_dir());
        Ok(directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.place(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.place(path))
    }

    fn set_affinity(&self, tid: i32, cpus: &CpuList) -> io::Result<()> {
        let status = format!("Tgid:\t{tid}\nCpus_allowed_list:\t{cpus}\n");
        self.write(&format!("/proc/{tid}/status"), &status)
    }

    fn kill_session(&self, _sid: i32, _start_ticks: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn scheduling(&self, tid: i32) -> io::Result<String> {
        let set = self.policies.borrow().get(&tid).cloned();
        Ok(set.unwrap_or_else(|| "other nice 0".to_owned()))
    }

    fn set_scheduling(&self, tid: i32, text: &str) -> io::Result<()> {
        self.policies.borrow_mut().insert(tid, text.to_owned());
        Ok(())
    }

    fn unit_state(&self, unit: &str) -> io::Result<String> {
        Ok(self.units.borrow().get(unit).cloned().unwrap_or_else(|| "active".to_owned()))
    }

    fn set_unit_state(&self, unit: &str, state: &str) -> io::Result<()> {
        self.units.borrow_mut().insert(unit.to_owned(), state.to_owned());
        Ok(())
    }

    fn is_root(&self) -> bool {
        true
    }

    fn own_pid(&self) -> i32 {
        OWN
    }

    fn unix_seconds(&self) -> u64 {
        1_795_248_602
    }

    fn pause(&self) {}
}
