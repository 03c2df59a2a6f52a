//! Options of `onbeat robot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use onbeat_robot::session::TrajectoryWord;

use crate::complete;
use crate::options::{LimitOptions, LoopArguments, OutputOptions, wait_on_the_grid};
use crate::units::time_ns;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

pub(crate) const ROBOT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat robot run humanoid --trajectory gait --for 30s
      the 48 joints of the simulated humanoid walk; no rights, no hardware
  sudo onbeat robot run arm.toml --interface eth1 --cpu 3 --trajectory csv:reach.csv
      the devices of arm.toml behind a network card follow the positions in reach.csv
  planner | sudo onbeat robot run arm.toml --interface eth1 --trajectory goal
      the planner prints goals as lines such as: elbow=0.4, wrist=-0.1
  onbeat robot run humanoid --trajectory commander --name walker
      other processes command the joints, one process at a time, such as the next line
  onbeat robot goal walker \"left knee=0.3\" neck=-0.1";

#[derive(Debug, Subcommand)]
pub(crate) enum Robot {
    /// Move the joints of a robot along a trajectory, until Ctrl-C
    #[command(before_help = ROBOT_EXAMPLES, after_help = ENDS)]
    Run(Box<RobotRunOptions>),
    /// Send a goal to joints of a running robot
    ///
    /// The robot was started by `onbeat robot run FILE --name NAME --trajectory commander`.
    #[command(before_help = GOAL_EXAMPLES, after_help = GOAL_STATUSES)]
    Goal(GoalOptions),
}

const GOAL_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat robot goal walker \"left knee=0.3\" neck=-0.1
      both joints move there and stay; all others keep their position
  onbeat robot goal walker \"left knee=0.3\" --for 2s
      no other process may command for two seconds";

const GOAL_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  the robot follows the goal
  2  it does not, or the goal could not be sent";

#[derive(Debug, Args)]
pub(crate) struct GoalOptions {
    /// Name of the robot, as given to `onbeat robot run --name`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Joints and positions in rad; a joint is named after its device
    #[arg(value_name = "JOINT=RAD", required = true)]
    pub(crate) goals: Vec<String>,
    /// Time to keep commanding; 0: send the goal once
    ///
    /// The joints stay there afterwards.
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

const ENDS: &str = "\x1b[1mSignals\x1b[0m
  SIGINT (Ctrl-C), SIGTERM
           bring all joints to rest and switch their power off; a second one
           ends the process at once, and the devices' watchdogs stop them
  SIGUSR1  reset after a safe stop

\x1b[1mExit status\x1b[0m
  0  ended at rest; with --limit: PASS
  1  safe stop, joint down, or FAIL
  2  could not run
  3  ended at rest, INCONCLUSIVE";

#[derive(Debug, Args)]
pub(crate) struct RobotRunOptions {
    /// Robot file (docs/robot.md), or `humanoid`, which ships with onbeat
    #[arg(value_name = "FILE")]
    #[arg(add = ArgValueCompleter::new(complete::robot_files))]
    pub(crate) file: PathBuf,
    /// Trajectory [default: the file's, else hold]
    ///
    /// hold, sine, gait, or csv:FILE; `goal` follows lines of standard input, `commander` follows
    /// goals of other processes through the image (--name).
    #[arg(long, value_name = "WORD")]
    #[arg(add = ArgValueCandidates::new(complete::trajectories))]
    pub(crate) trajectory: Option<TrajectoryWord>,
    /// Network interface with the devices [default: simulated devices]
    #[arg(long, value_name = "NAME", conflicts_with = "simulate")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interface: Option<String>,
    /// Transport of frames: ring, xdp or busy-poll [default: ring]
    ///
    /// ring: a packet socket and its receive ring; xdp: AF_XDP, past the kernel's network stack,
    /// else ring; busy-poll: AF_XDP that polls the card's queue, else xdp.
    #[arg(long, value_name = "WIRE", requires = "interface")]
    #[arg(add = ArgValueCandidates::new(complete::wires))]
    pub(crate) wire: Option<onbeat_ethercat::carrier::WireMethod>,
    /// Simulate the devices in this process (default without --interface)
    #[arg(long)]
    pub(crate) simulate: bool,
    /// Wait for the reply of the same cycle
    ///
    /// Otherwise uses the previous reply: one cycle older, no waiting.
    #[arg(long)]
    pub(crate) same_cycle: bool,
    /// Share the process image under this name
    ///
    /// For `onbeat bus state --name NAME`, `onbeat robot goal NAME` and other readers.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Let the members of this group use the process image
    ///
    /// They read it and command joints, like the user who runs it. Default: that user and root
    /// only.
    #[arg(long, value_name = "GROUP", requires = "name")]
    pub(crate) group: Option<String>,
    /// Record every cycle into this MCAP log
    ///
    /// Needs --name. Written by a process of its own; `onbeat.load` in Python and Octave reads it.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) log: Option<PathBuf>,
    /// Show the robot in a browser of this machine
    ///
    /// Prints the address. PORT is a port of 127.0.0.1 and ::1; without it, a free one.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub(crate) view: Option<u16>,
    /// Maximum number of browsers that follow the view at the same time
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) view_browsers: u16,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Tuning for the run, such as PMC or PM+irq.affinity
    ///
    /// P sets --priority, M locks memory, C shields --cpu or the CPU that `tune plan` chooses, S
    /// sleeps, then spins; a letter that is left out is off. Further settings are
    /// ids of the catalogue or files of plans. What changes the host is undone at the end.
    /// Without --tuning: PM.
    #[arg(long, value_name = "TUNING", conflicts_with = "wait")]
    #[arg(add = ArgValueCandidates::new(complete::tunings))]
    pub(crate) tuning: Option<onbeat::bench::CellTuning>,
    /// Background load; see `onbeat load --help`
    #[arg(long, default_value = "idle", value_name = "LOAD")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) load: onbeat::load::Load,
    /// Directory for the load's disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Real-time priority of the loop, 1 to 99; 0: none
    #[arg(long, default_value_t = 90, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) priority: u32,
    /// CPU for the loop
    #[arg(long, value_name = "CPU")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// How to wait for a release: sleep, spin=TIME, adaptive=TIME
    #[arg(long, default_value = "sleep", value_parser = wait_on_the_grid, value_name = "WAIT")]
    #[arg(add = ArgValueCandidates::new(complete::waits_on_the_grid))]
    pub(crate) wait: onbeat_rt::Wait,
    /// Do not record the causes of spikes
    #[arg(long)]
    pub(crate) no_causes: bool,
    #[command(flatten)]
    pub(crate) looping: LoopArguments,
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}
