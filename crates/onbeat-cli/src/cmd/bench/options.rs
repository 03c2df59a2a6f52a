//! Options of `onbeat bench`.

use std::path::{Path, PathBuf};

use clap::builder::ArgPredicate;
use clap::{Args, Command, FromArgMatches, ValueEnum, ValueHint};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat::bench::schedule::CellOrder;
use onbeat::load::Load;
use onbeat_robot::session::TrajectoryWord;

use crate::cmd::cpu_choice::CpuChoice;
use crate::cmd::view::options::BesideOptions;
use crate::complete;
use crate::options::{LimitOptions, LoopArguments, OutputOptions, ScreenOptions, Until, one_of};
use crate::units::time_ns;

pub(crate) const BENCH_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bench
      all nine tunings; real-time priority and shielding need rights
  onbeat bench --tunings none,S --loads idle,cpu=50%
      needs no rights
  sudo onbeat bench --tunings none,PMCS,PM+plan --plan plan.toml
      before and after a whole plan, in turns
  sudo onbeat bench --with bus my-robot.toml --limit 200us
      your own robot in each cell; the last line runs it under the best tuning
  sudo onbeat bench --with rtt --to 192.168.7.2,192.168.7.3
      a packet to each of two boards in every cycle; round trips by tuning and load
  sudo onbeat bench --command './controller --rate 1000'
      your own program, restarted for each block, tuned from outside and watched
  onbeat bench --for 12m --limit 100us --at 99.99
      exit status 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 could not run";

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Add the run to this data set of `onbeat fleet` when it has ended
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) add_to: Option<PathBuf>,
    /// File of options [default: onbeat.toml in this directory, where there is one]
    ///
    /// A key is an option without its dashes, such as `tunings = ["none", "PMC"]` or `limit = "100us"`. The command line
    /// overrides it, and the run records what both make together.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Total time, including start and stop of loads
    #[arg(long = "for", default_value = "2m", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// When to end: once the verdict is PASS or FAIL, or after --for [default: decided]
    ///
    /// The verdict is computed after 10, 14, 20, 28, 40 ... s. Its 5 % error probability is shared
    /// by these tests, so that ending early does not weaken it. --order sequential measures to its
    /// end.
    #[arg(long, value_enum, requires = "limit", value_name = "WHEN")]
    pub(crate) until: Option<Until>,
    /// Tunings: letters of P, M, C, S, ids after +, or none
    ///
    /// P sets real-time priority, M locks memory, C shields a CPU, S sleeps, then spins. Ids of
    /// `onbeat tune check` follow after +, such as P+irq.affinity, and so does `plan` for the plan
    /// of --plan. A setting of the host is made before each block of its cell and undone after it.
    #[arg(
        long,
        default_value = "none,M,C,MC,P,PM,PC,PMC,PMCS",
        default_value_if("command", ArgPredicate::IsPresent, "none,P,C,PC"),
        value_delimiter = ',',
        value_name = "LIST"
    )]
    #[arg(add = ArgValueCandidates::new(complete::tunings))]
    pub(crate) tunings: Vec<onbeat::bench::CellTuning>,
    /// Plan file for the tuning `plan`
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Background loads; see `onbeat load --help`
    #[arg(long, default_value = "idle,paper", value_delimiter = ',', value_name = "LIST")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) loads: Vec<Load>,
    /// Directory for the loads' disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Order of the cells: short blocks in turn, or one after another
    #[arg(long, value_parser = one_of(&ORDERS, order_word), default_value = "interleaved", value_name = "ORDER")]
    pub(crate) order: CellOrder,
    /// CPU that C shields [default: the one that `tune plan` chooses]
    #[arg(long, value_name = "N")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// A loop on each of these CPUs at once, such as 1-3 or all
    ///
    /// In every cell each loop is bound to its CPU, and C shields all of them; of all CPUs of the
    /// machine it leaves CPU 0 to other programs, without a loop. A tuning is judged by its worst
    /// CPU. Causes of spikes are not recorded.
    #[arg(long, value_name = "LIST", conflicts_with_all = ["cpu", "with", "command"])]
    pub(crate) cpus: Option<CpuChoice>,
    /// Real-time priority that P sets
    ///
    /// 98 is one below the maximum: 99 belongs to the kernel's migration and watchdog threads.
    #[arg(long, default_value_t = 98, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: u32,
    /// Addition to the loop: EtherCAT bus, chain, or UDP round trips
    ///
    /// bus: a moving robot, that of FILE, with real or simulated devices; chain: from an input of a
    /// simulated sensor through the motion controller to a drive, in cycles, as `onbeat measure chain
    /// --with bus`; rtt: a packet of 200 bytes to each device of a network in each cycle, as `onbeat
    /// measure rtt` sends.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) with: Option<With>,
    /// Devices of --with rtt: HOST[:PORT],... [default: in this machine]
    #[arg(long, value_name = "LIST", requires = "with")]
    pub(crate) to: Option<String>,
    /// Number of devices of --with rtt, at consecutive ports
    #[arg(long, default_value_t = 1, value_name = "N", requires = "with")]
    pub(crate) devices: u64,
    /// Robot file for --with bus or chain (docs/robot.md) [default: humanoid]
    #[arg(value_name = "FILE", requires = "with", value_parser = robot_file)]
    #[arg(add = ArgValueCompleter::new(complete::robot_files))]
    pub(crate) file: Option<String>,
    /// Network interface with the devices [default: simulated devices]
    ///
    /// The robot is brought to rest after each block.
    #[arg(long, value_name = "NAME", requires = "with")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interface: Option<String>,
    /// Transport of frames: ring, xdp or busy-poll [default: ring]
    ///
    /// ring: a packet socket and its receive ring; xdp: AF_XDP, past the kernel's network stack,
    /// else ring; busy-poll: AF_XDP that polls the card's queue, else xdp.
    #[arg(long, value_name = "WIRE", requires = "with")]
    #[arg(add = ArgValueCandidates::new(complete::wires))]
    pub(crate) wire: Option<onbeat_ethercat::carrier::WireMethod>,
    /// When replies are read: pipelined or same-cycle
    #[arg(long, value_enum, default_value_t = BusExchange::Pipelined, value_name = "MODE", requires = "with")]
    pub(crate) exchange: BusExchange,
    /// Trajectory: hold, sine, gait or csv:FILE [default: the file's]
    #[arg(long, value_name = "WORD", requires = "with")]
    #[arg(add = ArgValueCandidates::new(complete::trajectories))]
    pub(crate) trajectory: Option<TrajectoryWord>,
    /// Processing time of simulated devices [default: the file's]
    #[arg(long, value_parser = time_ns, value_name = "TIME", requires = "with")]
    pub(crate) device_delay: Option<u64>,
    /// Program whose loop is measured instead of onbeat's own, with its arguments
    ///
    /// It is tried once: its loop is found as by `onbeat watch`, and gives the period. Each block
    /// starts it again and ends it with SIGTERM. none is the program as it sets itself; P sets the
    /// priority of the loop's thread from outside, C gives that thread a CPU of its own. M and S
    /// are the program's own. Without --tunings: none,P,C,PC.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["with", "period", "work", "deadline", "on_overrun", "phase", "lockdown", "spin"])]
    pub(crate) command: Option<String>,
    /// Thread of --command with the loop [default: the most regular real-time one]
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) thread: Option<String>,
    /// Time that S polls the clock before a release
    #[arg(long, default_value = "50us", value_parser = time_ns, value_name = "TIME")]
    pub(crate) spin: u64,
    /// Do not record the causes of spikes
    #[arg(long)]
    pub(crate) no_causes: bool,
    /// Refused, with the command that splits the wake-ups of one cell
    #[arg(long, hide = true)]
    pub(crate) split: bool,
    /// Seed for the order of the cells
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Resume the latest unfinished bench in --out
    ///
    /// A bench is unfinished when it was killed, the machine went down, or a signal ended it. It
    /// continues in the same files with the options that it began with; without one in --out a new
    /// bench begins.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Wait until another bench on this machine has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) looping: LoopArguments,
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(flatten)]
    pub(crate) beside_view: BesideOptions,
    #[command(flatten)]
    pub(crate) screen: ScreenOptions,
}

impl BenchOptions {
    /// Returns the options of a bench that is typed without any, for other commands that conduct
    /// one.
    pub(crate) fn usual() -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new("bench"));
        Self::from_arg_matches(&command.try_get_matches_from(["bench"])?)
    }
}

/// A robot's file, or the name of the one that ships with onbeat; a time that was meant for `--for` is neither.
fn robot_file(text: &str) -> Result<String, String> {
    let is_time = time_ns(text).is_ok_and(|ns| ns > 0);
    if is_time && !Path::new(text).exists() {
        return Err(format!("expected a robot file; a time is typed as --for {text}"));
    }
    Ok(text.to_owned())
}

/// The orders that can be typed.
const ORDERS: [CellOrder; 2] = [CellOrder::Interleaved, CellOrder::Sequential];

fn order_word(order: CellOrder) -> (&'static str, &'static str) {
    (if order == CellOrder::Sequential { "sequential" } else { "interleaved" }, "")
}

/// When a cycle reads the replies of the devices. Plans of benches that are resumed hold its variants
/// by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BusExchange {
    Pipelined,
    SameCycle,
}

impl BusExchange {
    /// Returns the word as typed.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::SameCycle => "same-cycle",
        }
    }
}

/// Addition to the loop of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum With {
    Bus,
    Chain,
    Rtt,
}
