//! Why several CPUs cannot be measured at once.

/// Why several CPUs cannot be measured at once.
#[derive(Debug, thiserror::Error)]
pub enum CpusFailure {
    #[error("this machine has no CPU {cpus}; it has CPUs {present}")]
    NotThere { cpus: String, present: String },
    #[error(
        "CPU {cpus} is offline; CPUs online: {online} (echo 1 | sudo tee /sys/devices/system/cpu/cpuN/online brings one back)"
    )]
    Offline { cpus: String, online: String },
    #[error(
        "this process may not use CPU {cpus}: its cpuset allows {allowed}; choose among those, or start onbeat outside of that cpuset (/proc/self/cgroup)"
    )]
    NotAllowed { cpus: String, allowed: String },
    #[error(
        "this process may use none of the CPUs that are online; see Cpus_allowed_list in /proc/self/status"
    )]
    NoneAllowed,
    #[error(
        "--cpus runs a loop per CPU, of the probes timer, hiccup, latency and noise; `{probe}` has one loop: use --cpu N"
    )]
    OneLoop { probe: &'static str },
}
