//! Counters that complement the flight recorder: readings by BPF, or of `/proc/stat` if BPF does
//! not read steal time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::counters::{CounterReading, CounterSource, Counters, ProcfsSteal};
use super::freezer::FreezerAccounts;
use super::quota::QuotaAccounts;
use super::thread_stat::ThreadAccounts;
use onbeat_host::machine;

/// `MSR_SMI_COUNT` of Intel processors (Software Developer's Manual, volume 4): since reset, in the
/// low 32 bits.
// MSR_SMI_COUNT of Intel's processors since Nehalem (SDM volume 4); others refuse to read it.
const SMI_COUNT: u64 = 0x34;

#[derive(Debug)]
pub(super) struct Meter {
    source: CounterSource,
    procfs: ProcfsSteal,
    smi: Option<(File, u64)>,
    /// When that was read.
    smi_at: Instant,
    quota: QuotaAccounts,
    freezer: FreezerAccounts,
    thread: ThreadAccounts,
    is_guest: bool,
    deepest_idle_ns: Option<u64>,
    has_fair_server: bool,
}

impl Meter {
    /// Opens the counters; `source` is the source of steal time.
    pub(super) fn open(tid: u32, cpu: Option<u32>, source: CounterSource) -> Self {
        let now = Monotonic.now();
        Self {
            source,
            procfs: ProcfsSteal::default(),
            // Opened once: opening /dev/cpu/N/msr later could need a right that a thread has given
            // up by then.
            smi: smi_counter(cpu),
            smi_at: now,
            quota: QuotaAccounts::for_thread(tid, now),
            freezer: FreezerAccounts::for_thread(tid, now),
            thread: ThreadAccounts::for_thread(tid, now),
            is_guest: machine::is_guest(),
            deepest_idle_ns: machine::deepest_idle(cpu.unwrap_or(0)).map(|state| state.exit_ns),
            has_fair_server: machine::has_fair_server(),
        }
    }

    pub(super) fn follow(&mut self, tid: u32) {
        let now = Monotonic.now();
        self.quota = QuotaAccounts::for_thread(tid, now);
        self.freezer = FreezerAccounts::for_thread(tid, now);
        self.thread = ThreadAccounts::for_thread(tid, now);
    }

    pub(super) const fn source(&self) -> CounterSource {
        self.source
    }

    pub(super) fn keep_watch(&mut self, now: Instant) {
        if self.source == CounterSource::Procfs {
            self.procfs.keep_watch(now);
        }
    }

    /// Notices that the loop's thread was moved to another cgroup.
    pub(super) fn follow_cgroups(&mut self, now: Instant) {
        self.quota.keep_watch(now);
    }

    /// Returns the counters between two instants; `readings` are those of BPF.
    pub(super) fn counters(
        &mut self,
        mut readings: Vec<CounterReading>,
        from: Instant,
        to: Instant,
    ) -> Counters {
        if self.source == CounterSource::Procfs {
            readings.extend(self.procfs.around(from, to));
            // Readings of two sources: the counters of the switches, and those taken on request.
            readings.sort_by_key(|reading| reading.at);
        }

        let smi = self.smi.as_mut().and_then(|(file, before)| {
            // The register has 32 bits and wraps.
            let now = read_smi(file)?;
            Some(now.wrapping_sub(std::mem::replace(before, now)) & u64::from(u32::MAX))
        });
        let now = Monotonic.now();
        let smi_ns = now.ns_since(std::mem::replace(&mut self.smi_at, now));

        let Self { source, is_guest, deepest_idle_ns, has_fair_server, .. } = *self;
        Counters {
            source,
            readings,
            is_guest,
            deepest_idle_ns,
            smi,
            smi_ns,
            has_fair_server,
            ..Counters::default()
        }
    }

    /// Returns what the kernel's files say of the loop's thread and its cgroups at this moment,
    /// compared with the last reading before `from`: throttling by a CPU quota, the freezer, the
    /// policy, page faults that had to wait.
    pub(super) fn of_thread(&mut self, from: Instant) -> Counters {
        let now = Monotonic.now();
        Counters {
            throttled_ns: self.quota.throttled_ns(from, now),
            freezer: self.freezer.reading(from, now),
            thread: self.thread.reading(from, now),
            ..Counters::default()
        }
    }
}

/// Opens the counter of system management interrupts, if the processor has one and the kernel
/// exposes it (`/dev/cpu/N/msr`). Reading it interrupts that CPU, so it is read only for a spike.
pub(super) fn smi_counter(cpu: Option<u32>) -> Option<(File, u64)> {
    let file = File::open(format!("/dev/cpu/{}/msr", cpu?)).ok()?;
    let count = read_smi(&file)?;
    Some((file, count))
}

pub(super) fn read_smi(file: &File) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, SMI_COUNT).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
