//! A guest that controls something in real time, described once: as arguments of QEMU, and as a
//! domain of libvirt ([`RealTimeMachine::to_libvirt_xml`]).

use std::fs;
use std::path::Path;

use onbeat_tune::CpuList;

use super::threads::{PlaceError, ThreadPlan};

/// Sizes of huge pages, the larger first, in KiB.
const PAGE_SIZES_KIB: [u64; 2] = [1024 * 1024, 2048];
/// Where the kernel counts huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// How a guest's memory is provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestMemory {
    /// Page by page at the first use, as QEMU does by default.
    OnDemand,
    /// Before the guest starts, and locked.
    Prefaulted,
    /// As [`Self::Prefaulted`], in huge pages of this size.
    HugePages {
        /// Size of a page in KiB: 2,048 or 1,048,576.
        page_kib: u64,
    },
}

impl GuestMemory {
    /// Prefaulted memory, in the largest huge pages of which enough are free: see
    /// [`free_huge_pages`].
    #[must_use]
    pub fn prefaulted(memory_mib: u32, free_pages: impl Fn(u64) -> u64) -> Self {
        let memory_kib = u64::from(memory_mib) * 1024;
        let fits = |page_kib: &u64| {
            memory_kib.is_multiple_of(*page_kib) && free_pages(*page_kib) >= memory_kib / page_kib
        };
        match PAGE_SIZES_KIB.into_iter().find(fits) {
            Some(page_kib) => Self::HugePages { page_kib },
            None => Self::Prefaulted,
        }
    }
}

/// Returns the number of free huge pages of a size on this machine; 0 for a size that it does not
/// have.
#[must_use]
pub fn free_huge_pages(page_kib: u64) -> u64 {
    let path = Path::new(HUGE_PAGES).join(format!("hugepages-{page_kib}kB/free_hugepages"));
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// A guest for a real-time loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealTimeMachine {
    pub name: String,
    pub memory_mib: u32,
    /// How its memory is provided.
    pub memory: GuestMemory,
    /// Whether it gets the host's processor with an invariant TSC, without performance counters, and
    /// with the hint that its CPUs are its own.
    pub host_processor: bool,
    /// Whether it halts its CPU without leaving to the host.
    pub idles_itself: bool,
    /// Number of its CPUs, and where the threads of QEMU run; `None` leaves the threads to the
    /// scheduler.
    pub threads: Option<ThreadPlan>,
    /// Number of its CPUs.
    pub cpus: u32,
}

impl RealTimeMachine {
    /// All settings at once: memory prefaulted and locked, the host's processor, each virtual CPU on
    /// a CPU of `own`, everything else on `housekeeping`.
    ///
    /// # Errors
    /// As [`ThreadPlan::new`].
    pub fn tuned(
        cpus: u32,
        memory_mib: u32,
        own: &CpuList,
        housekeeping: &CpuList,
    ) -> Result<Self, PlaceError> {
        Ok(Self {
            name: "real-time-guest".to_owned(),
            memory_mib,
            memory: GuestMemory::prefaulted(memory_mib, free_huge_pages),
            host_processor: true,
            idles_itself: true,
            threads: Some(ThreadPlan::new(cpus, own, housekeeping, Some(1))?),
            cpus,
        })
    }

    /// What QEMU gets besides the arguments of a [`Guest`](super::Guest), whose number of CPUs and
    /// memory are the same. The processor is one of KVM's.
    #[must_use]
    pub fn qemu_arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |line: String| words.extend(line.split(' ').map(str::to_owned));
        let size = format!("{}M", self.memory_mib);
        match self.memory {
            GuestMemory::OnDemand => {}
            GuestMemory::Prefaulted => {
                add(format!("-object memory-backend-memfd,id=ram0,size={size},prealloc=on"));
            }
            GuestMemory::HugePages { page_kib } => add(format!(
                "-object memory-backend-memfd,id=ram0,size={size},hugetlb=on,hugetlbsize={}M,prealloc=on",
                page_kib / 1024
            )),
        }
        if self.memory != GuestMemory::OnDemand {
            // A backend that the machine does not name is allocated beside the guest's memory.
            add("-machine memory-backend=ram0 -overcommit mem-lock=on".to_owned());
        }

        if self.host_processor {
            add("-cpu host,migratable=off,+invtsc,+tsc-deadline,pmu=off,kvm-hint-dedicated=on"
                .to_owned());
        }
        if self.idles_itself {
            add("-overcommit cpu-pm=on".to_owned());
        }
        words
    }

    /// How a person places the threads of a QEMU that runs already.
    #[must_use]
    pub fn commands_after_start(&self) -> Vec<String> {
        let Some(plan) = &self.threads else { return Vec::new() };
        let mut commands = Vec::new();
        for (vcpu, place) in plan.vcpus.iter().enumerate() {
            let tid = format!("TID-OF-CPU-{vcpu}");
            commands.push(format!("taskset -cp {} {tid}", place.cpus));
            commands.extend(place.priority.map(|priority| format!("chrt -f -p {priority} {tid}")));
        }
        commands.push(format!("taskset -cp {} TID-OF-EACH-OTHER-THREAD", plan.others));
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(memory: GuestMemory) -> RealTimeMachine {
        let own = "2".parse().expect("a list");
        let housekeeping = "0-1".parse().expect("a list");
        let tuned = RealTimeMachine::tuned(1, 512, &own, &housekeeping).expect("a machine");
        RealTimeMachine { memory, ..tuned }
    }

    #[test]
    fn the_largest_pages_of_which_enough_are_free_are_taken() {
        let free = |page_kib: u64| if page_kib == 2048 { 1024 } else { 1 };
        assert_eq!(GuestMemory::prefaulted(2048, free), GuestMemory::HugePages { page_kib: 2048 });
        assert_eq!(
            GuestMemory::prefaulted(1024, free),
            GuestMemory::HugePages { page_kib: 1024 * 1024 }
        );
        assert_eq!(GuestMemory::prefaulted(4096, free), GuestMemory::Prefaulted);
        assert_eq!(GuestMemory::prefaulted(513, free), GuestMemory::Prefaulted, "no whole pages");
    }

    #[test]
    fn the_backend_has_the_guests_size_and_is_attached() {
        let words = machine(GuestMemory::HugePages { page_kib: 2048 }).qemu_arguments().join(" ");
        assert_eq!(
            words,
            "-object memory-backend-memfd,id=ram0,size=512M,hugetlb=on,hugetlbsize=2M,prealloc=on \
             -machine memory-backend=ram0 -overcommit mem-lock=on \
             -cpu host,migratable=off,+invtsc,+tsc-deadline,pmu=off,kvm-hint-dedicated=on -overcommit cpu-pm=on"
        );
        let plain = RealTimeMachine {
            host_processor: false,
            idles_itself: false,
            ..machine(GuestMemory::OnDemand)
        };
        assert_eq!(plain.qemu_arguments(), [] as [&str; 0]);
    }

    #[test]
    fn each_thread_is_placed_by_a_command_of_its_own() {
        let commands = machine(GuestMemory::OnDemand).commands_after_start();
        assert_eq!(
            commands,
            [
                "taskset -cp 2 TID-OF-CPU-0",
                "chrt -f -p 1 TID-OF-CPU-0",
                "taskset -cp 0-1 TID-OF-EACH-OTHER-THREAD"
            ]
        );
    }
}
