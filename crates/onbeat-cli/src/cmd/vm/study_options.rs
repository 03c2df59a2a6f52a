//! Options of `onbeat vm study`, `lint`, `xml`, `pin` and `answer`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use onbeat::import::Format;
use onbeat_lab::study::StudyClock;
use onbeat_tune::CpuList;

use super::options::OwnGuestOptions;
use crate::options::one_of;

pub(crate) const STUDY_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat vm study --quick
      all stages in minutes; the comparison stays inconclusive
  sudo onbeat vm study study.toml
      three runs of ten minutes each; run again, it resumes
  sudo onbeat vm study --qemu start-guest.sh
      with a guest of your own: kernel, disks and cards of the script
\x1b[1mFile\x1b[0m
  kernel = \"linux-image-rt-amd64\"
  host_cpus = \"3\"
  loads = [{ name = \"idle\" },
           { name = \"busy\", host = \"cpu=80%\", guest = \"cpu=50%\" }]
  [[stage]]
  name = \"host\"
  settings = [\"wq.unbound\", \"timer.migration\"]";

pub(crate) const STUDY_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  all measurements have results
  2  could not run
  3  INCONCLUSIVE: a measurement failed, waits for a reboot, or was stopped by Ctrl-C";

pub(crate) const LINT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat vm lint start-guest.sh
      verdicts on each option, and a corrected script
  virsh dumpxml robot | onbeat vm lint -
  onbeat vm lint /proc/4711/cmdline";

pub(crate) const LINT_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  nothing to correct
  1  an option should be changed, or one is missing
  2  could not run
  3  nothing to correct, but not everything was judged";

pub(crate) const PIN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat vm pin /run/guest/qmp --cpus 2-3
      the last two virtual CPUs on CPUs 2 and 3 at priority 1, all else off them
  sudo onbeat tune undo
      undoes it";

#[derive(Debug, Args)]
pub(crate) struct VmStudyOptions {
    #[command(flatten)]
    pub(crate) own: OwnGuestOptions,
    /// File of the study (TOML) [default: the published study]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Measure each row once, for 2 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Clock of the guests [default: that of the file, or auto]
    ///
    /// `auto`: real where a guest has run under KVM, else virtual.
    #[arg(long, value_parser = one_of(&StudyClock::ALL, |one| (one.word(), "")), value_name = "CLOCK")]
    pub(crate) clock: Option<StudyClock>,
    /// Program that measures in place of onbeat, with its options
    ///
    /// A line for the shell: in a guest of your own with that guest's programs, outside where this
    /// machine has it too.
    #[arg(long, requires = "format", value_name = "LINE")]
    pub(crate) probe: Option<String>,
    /// Format of its output, as `onbeat import --from`
    #[arg(long = "as", requires = "probe", value_parser = one_of(&Format::ALL, |one| (one.word(), one.help())), value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Directory for results [default: onbeat-study/ and the file's name]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VmLintOptions {
    /// Script, arguments of QEMU, or libvirt definition; `-`: standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print the corrected version alone
    #[arg(long, conflicts_with = "json")]
    pub(crate) corrected: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// A guest for a real-time loop.
#[derive(Debug, Args)]
pub(crate) struct VmXmlOptions {
    /// Host CPUs of virtual CPUs, such as 2-3
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) cpus: CpuList,
    /// Host CPUs of everything else [default: all others]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) others: Option<CpuList>,
    /// Script that starts QEMU: the guest's kernel, disks, cards, CPUs and memory [default: a skeleton]
    #[arg(long, value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    pub(crate) guest: Option<PathBuf>,
    /// Number of virtual CPUs [default: that of --guest, or 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) vcpus: Option<u32>,
    /// Memory of the guest in MiB [default: that of --guest, or 2048]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..))]
    pub(crate) memory: Option<u32>,
    /// Name of the guest
    #[arg(long, default_value = "real-time-guest", value_name = "NAME")]
    pub(crate) name: String,
    /// Print the same as arguments of QEMU
    #[arg(long)]
    pub(crate) qemu: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VmPinOptions {
    /// Control socket of QEMU (-qmp unix:SOCKET)
    #[arg(value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub(crate) socket: PathBuf,
    /// Host CPUs of virtual CPUs, such as 2-3
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) cpus: CpuList,
    /// Host CPUs of everything else [default: all others]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) others: Option<CpuList>,
    /// Priority of virtual CPUs, 1 to 95; 0: unchanged
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) priority: u32,
}

fn cpus(text: &str) -> Result<CpuList, String> {
    let cpus = CpuList::parse_list(text).ok().filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| format!("\"{text}\" is not a list of CPUs; write for example 2-3"))
}
