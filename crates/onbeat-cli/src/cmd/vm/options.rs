//! Options of `onbeat vm`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use onbeat::import::Format;

use super::study_options::{
    LINT_EXAMPLES, LINT_STATUSES, PIN_EXAMPLES, STUDY_EXAMPLES, STUDY_STATUSES, VmLintOptions,
    VmPinOptions, VmStudyOptions, VmXmlOptions,
};
use crate::options::one_of;
use crate::units::time_ns;

const BUILD_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat vm build linux-image-rt-amd64 --download
      Debian's kernel with PREEMPT_RT, downloaded and unpacked into --work
  onbeat vm build /boot/vmlinuz-6.12.0 --modules /lib/modules/6.12.0
      a kernel of this machine";

const RUN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat vm run linux-image-rt-amd64
      wake-up latency for 2 s of virtual time, the same figures each time
  onbeat vm run linux-image-rt-amd64 -- measure latency --for 10s --load cpu=50%
      another measurement
  onbeat vm run linux-image-cloud-amd64 --append preempt=full -- bench --tunings none,PM --loads idle --for 4s
      a bench, with a word on the guest's kernel command line
  onbeat vm run linux-image-rt-amd64 --gpio -- measure read-write --stimulus gpio:gpiochip0/0 --input gpio:gpiochip0/1 --output gpio:gpiochip0/2
      from edge to edge, through the kernel's GPIO character device
  onbeat vm run linux-image-rt-amd64 --clock free --cpus 2 -- cat /proc/cpuinfo
      any command of the guest's busybox
  onbeat vm run --qemu start-guest.sh --clock real -- measure timer --for 60s
      a guest of your own: kernel, disks and cards of the script
  onbeat vm run --qemu start-guest.sh --clock real --as xenomai -- latency -p 100 -T 60
      a program of that guest measures";

const LAB_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat vm lab kernels.toml
      runs all experiments, one per CPU at a time; run again, it resumes
  onbeat vm lab kernels.toml --verify
      runs each again and compares the bytes; --verify=40 forty times
\x1b[1mFile\x1b[0m
  kernels = [\"linux-image-rt-amd64\",
             { name = \"stock\", package = \"linux-image-cloud-amd64\" }]
  command_lines = [{ name = \"plain\", words = \"\" }, \"preempt=full\"]
  tunings = [\"none\", \"PM\", \"PM+kern.preempt_mode\"]
  loads = [\"idle\", \"cpu=50%\"]
  seeds = 10";

const TRACE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat vm trace linux-image-rt-amd64 --cpu 1
      a loop of 5 ms in a guest on CPU 1; what the host did at each spike
  sudo onbeat vm trace linux-image-rt-amd64 -- measure latency --for 20s --spikes-over 2ms
      another measurement
  sudo onbeat vm trace --qemu start-guest.sh --clock real --events all
      a guest of your own, under KVM; all events of the guest, not those around its spikes only";

const REPLAY_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat vm replay kernels.toml
      after `onbeat vm lab kernels.toml`: the largest latency of all
  onbeat vm replay kernels.toml --kernel rt
      of one kernel";

const REPLAY_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  the traced guest sent the bytes that are stored
  1  it sent other bytes
  2  could not run";

const LAB_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  all experiments have results; with --verify, the same bytes
  1  with --verify: an experiment sent other bytes
  2  could not run, an experiment failed, or stopped by Ctrl-C";

#[derive(Debug, Subcommand)]
pub(crate) enum Vm {
    /// List kernels for guests, and accelerators that work
    ///
    /// Boots a canary guest where /dev/kvm can be opened: a virtual machine may offer the device
    /// and run no guest.
    List(VmListOptions),
    /// Write a guest's boot image: kernel, modules, initramfs
    #[command(before_help = BUILD_EXAMPLES)]
    Build(VmBuildOptions),
    /// Run a measurement or a command in a guest
    ///
    /// The guest has no network and no disk, unless it is one of your own. Ctrl-C stops it.
    #[command(before_help = RUN_EXAMPLES)]
    Run(Box<VmRunOptions>),
    /// Measure kernels, settings and loads in a matrix of guests
    ///
    /// Experiments that have results in --out are not run again.
    #[command(before_help = LAB_EXAMPLES, after_help = LAB_STATUSES)]
    Lab(VmLabOptions),
    /// Trace the largest latency of a laboratory from outside the guest
    ///
    /// Runs that experiment again with a plugin of QEMU, which changes nothing in the guest, and
    /// prints the functions of its kernel between the timer's interrupt and the loop.
    /// Experimental: tried on two guests.
    #[command(before_help = REPLAY_EXAMPLES, after_help = REPLAY_STATUSES)]
    Replay(VmReplayOptions),
    /// Trace a guest and this machine on one clock
    ///
    /// The guest measures and records its spikes; this machine records the thread of its virtual
    /// CPU. Each spike gets the causes of both. Writes files for ui.perfetto.dev, trace-cmd and
    /// KernelShark.
    #[command(before_help = TRACE_EXAMPLES)]
    Trace(Box<VmTraceOptions>),
    /// Measure what each tuning of this machine does to a guest
    ///
    /// Stages are the kernel command line, settings of this machine, and QEMU; the firmware is
    /// checked only. Each is measured in the guest and on this machine, idle and loaded, and then undone.
    #[command(before_help = STUDY_EXAMPLES, after_help = STUDY_STATUSES)]
    Study {
        #[command(flatten)]
        options: VmStudyOptions,
        #[command(flatten)]
        stock: StockOptions,
    },
    /// Check a script that starts QEMU, or a libvirt definition
    #[command(before_help = LINT_EXAMPLES, after_help = LINT_STATUSES)]
    Lint(VmLintOptions),
    /// Write a libvirt definition of a real-time guest
    Xml(VmXmlOptions),
    /// Apply CPUs and priorities to the threads of a running QEMU
    ///
    /// Its control socket names the threads of the virtual CPUs. All changes are on record.
    #[command(before_help = PIN_EXAMPLES)]
    Pin(VmPinOptions),
}

/// Where kernels come from and what guests are made of.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kernels and programs")]
pub(crate) struct StockOptions {
    /// Directory for kernels, boot images and guests [default: ~/.cache/onbeat/vm]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) work: Option<PathBuf>,
    /// Directory of kernel packages [default: `packages` in --work]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) packages: Option<PathBuf>,
    /// Download missing kernel packages by apt-get
    #[arg(long, conflicts_with = "packages")]
    pub(crate) download: bool,
    /// Statically linked onbeat for the guest [default: this program]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) onbeat: Option<PathBuf>,
    /// Statically linked busybox for the guest
    #[arg(long, default_value = "/usr/bin/busybox", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) busybox: PathBuf,
}

/// The kernel of a guest.
#[derive(Clone, Debug, Args)]
pub(crate) struct KernelOptions {
    /// Debian package, or path of a kernel image
    #[arg(value_name = "KERNEL", value_hint = ValueHint::FilePath)]
    pub(crate) kernel: String,
    #[command(flatten)]
    pub(crate) parts: KernelParts,
}

/// What a guest's kernel is given.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KernelParts {
    /// Directory of the modules of a kernel image
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) modules: Option<PathBuf>,
    /// Module to load before the job; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Add two chips of eight GPIO lines, wired in pairs
    ///
    /// 0 to 1, 2 to 3, 4 to 5, 6 to 7, at /dev/gpiochip0 and /dev/gpiochip1 of the guest. The kernel module is built on
    /// first use, by make and gcc against the package linux-headers-RELEASE.
    #[arg(long)]
    pub(crate) gpio: bool,
}

/// A guest of the user's: kernel, disks and cards as its script or definition has them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "A guest of your own")]
pub(crate) struct OwnGuestOptions {
    /// Script that starts QEMU: its kernel, disks and cards
    ///
    /// The script is read, not run. Disks are used with -snapshot, shared directories read-only: the guest changes
    /// neither. The job runs when the guest has booted.
    #[arg(long, value_name = "SCRIPT", conflicts_with = "domain", value_hint = ValueHint::FilePath)]
    pub(crate) qemu: Option<PathBuf>,
    /// The same from a libvirt definition (virsh dumpxml)
    #[arg(long, value_name = "XML", value_hint = ValueHint::FilePath)]
    pub(crate) domain: Option<PathBuf>,
    /// Log in as this user, for a guest that boots from its disk
    ///
    /// onbeat logs in at the guest's serial console and starts there; the script need not name a kernel. The user needs the
    /// rights of root, the guest console=ttyS0, a getty or a shell there, mount and tar.
    #[arg(long, value_name = "USER")]
    pub(crate) login: Option<String>,
    /// File whose first line is that user's password in the guest
    #[arg(long, value_name = "FILE", requires = "login", value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
}

/// The guest of a run: a kernel for one of onbeat's own, or the user's.
#[derive(Clone, Debug, Args)]
pub(crate) struct GuestOptions {
    /// Debian package, or path of a kernel image
    #[arg(value_name = "KERNEL", required_unless_present_any = ["qemu", "domain"], conflicts_with_all = ["qemu", "domain"], value_hint = ValueHint::FilePath)]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) parts: KernelParts,
    #[command(flatten)]
    pub(crate) own: OwnGuestOptions,
}

#[derive(Debug, Args)]
pub(crate) struct VmListOptions {
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}

#[derive(Debug, Args)]
pub(crate) struct VmBuildOptions {
    #[command(flatten)]
    pub(crate) kernel: KernelOptions,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}

/// What a guest's machine and kernel are given, and its time.
#[derive(Debug, Args)]
pub(crate) struct MachineOptions {
    /// Memory of the guest in MiB
    #[arg(long, default_value_t = 512, value_name = "MIB", conflicts_with_all = ["qemu", "domain"], value_parser = clap::value_parser!(u32).range(64..))]
    pub(crate) memory: u32,
    /// Words for the guest's kernel command line
    #[arg(long, default_value = "", value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) append: String,
    /// Time limit of the guest, by this machine's clock
    #[arg(long, default_value = "5m", value_parser = time_ns, value_name = "TIME")]
    pub(crate) limit: u64,
}

/// The clock that a guest runs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestClock {
    Virtual,
    Real,
    Free,
}

#[derive(Debug, Args)]
pub(crate) struct VmRunOptions {
    #[command(flatten)]
    pub(crate) guest: GuestOptions,
    /// Clock of the guest
    ///
    /// `virtual` counts instructions: exact and repeatable, ranks kernels and settings, predicts no
    /// hardware. `real` is KVM: latency of this machine. `free` is plain emulation: tests functions
    /// and prints no latency.
    #[arg(long, value_enum, default_value_t = GuestClock::Virtual, value_name = "CLOCK")]
    pub(crate) clock: GuestClock,
    /// Virtual clock: an instruction takes 2^N ns
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub(crate) shift: u8,
    /// Virtual clock: seed of QEMU's random numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u32,
    /// Number of CPUs; 1 with the virtual clock
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with_all = ["qemu", "domain"], value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) cpus: u32,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Read the job's output as that of another tool
    ///
    /// As `onbeat import --from`: figures and run files of a program that measures. In a guest of your
    /// own the job is a program of that guest.
    #[arg(long = "as", requires = "job", value_parser = one_of(&Format::ALL, |one| (one.word(), one.help())), value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Directory for what guests send, a directory each
    #[arg(long, default_value = "onbeat-vm", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Job: measure, bench, or a command [default: measure latency]
    ///
    /// Words of `onbeat measure` or `onbeat bench` with their options, or any command of busybox.
    #[arg(last = true, value_name = "JOB")]
    pub(crate) job: Vec<String>,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}

#[derive(Debug, Args)]
pub(crate) struct VmLabOptions {
    /// File with kernels, command lines, tunings, loads, seeds (TOML)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Directory for results [default: onbeat-lab/ and the file's name]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Guests at a time [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Run a part of the experiments: the third of 200 by 3/200
    ///
    /// For a laboratory over many machines, such as `--shard $SLURM_ARRAY_TASK_ID/200`. The same file gives each
    /// experiment to exactly one shard.
    #[arg(long, value_name = "N/M")]
    pub(crate) shard: Option<onbeat_lab::vm::Shard>,
    /// Run every experiment N times more and compare the bytes
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) verify: Option<u16>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}

#[derive(Debug, Args)]
pub(crate) struct VmReplayOptions {
    /// File of the laboratory (TOML), with clock = "virtual"
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Kernel of the experiment, by its name in the file
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel: Option<String>,
    /// Directory of the results [default: onbeat-lab/ and the file's name]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}

/// The clock of a guest whose host is traced too: it runs while the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceClock {
    Real,
    Free,
}

/// Which of a guest's events are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TracedEvents {
    Spikes,
    All,
}

#[derive(Debug, Args)]
pub(crate) struct VmTraceOptions {
    #[command(flatten)]
    pub(crate) guest: GuestOptions,
    /// Clock of the guest: KVM, or software emulation
    #[arg(long, value_enum, default_value_t = TraceClock::Free, value_name = "CLOCK")]
    pub(crate) clock: TraceClock,
    /// Host CPU for the virtual CPU [default: any]
    ///
    /// QEMU's other threads run on the other CPUs then.
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Which events of the guest to record: around its spikes, or all
    ///
    /// Recording all of them takes CPU time of the guest and some 6 bytes of its memory each. Events of this machine are always
    /// recorded throughout.
    #[arg(long, value_enum, default_value_t = TracedEvents::Spikes, value_name = "WHICH")]
    pub(crate) events: TracedEvents,
    /// Exchanges of clocks before and after the measurement
    #[arg(long, default_value_t = onbeat_lab::joined::EXCHANGES, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub(crate) exchanges: u64,
    /// Directory for traces, a directory each
    #[arg(long, default_value = "onbeat-vm", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Job: a measurement with its options [default: measure latency]
    #[arg(last = true, value_name = "JOB")]
    pub(crate) job: Vec<String>,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}
