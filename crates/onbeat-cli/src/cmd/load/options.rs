//! Options of `onbeat load`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use onbeat::load::Load;

use crate::complete;
use crate::units::time_ns;

pub(crate) const LOAD_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat load paper
      the load of the bench, while another program is measured
  onbeat load cpu=50%+disk --for 1m
      two loads at once, for a minute
  onbeat load 'run:make -j4'
      a command as load: as soon as it ends, the load has failed";

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// Load, or several joined by +
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) load: Load,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Directory for the disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Serve a bench: events on standard output, end with standard input
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

/// The loads, for the help.
pub(crate) fn loads() -> String {
    let lines = onbeat::load::CATALOGUE
        .iter()
        .map(|entry| format!("  {}\n      {}", entry.typed, entry.does));
    format!("\x1b[1mLoads\x1b[0m\n{}", lines.collect::<Vec<_>>().join("\n"))
}
