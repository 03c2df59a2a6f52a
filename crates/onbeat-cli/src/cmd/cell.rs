//! `onbeat cell`: the process of one cell; the bench talks to it over its standard input and output.

use onbeat::bench::cell::Served;
use onbeat::probe::timer::Timer;
use onbeat::probe::{self, Destination, Run};
use onbeat::record::Cell;
use onbeat_rt::Instant;

use super::{Failure, ThreadChoice, Verdict, setting};
use crate::cli::CellOptions;
use crate::signals;

pub(crate) fn run(options: CellOptions) -> Result<Verdict, Failure> {
    let interruptions = signals::watch()?;
    let cell = Cell { tuning: options.tuning, load: options.load.clone() };
    let mut header = probe::header(&super::typed(), "timer", options.started);
    header.cell = Some(cell);
    let thread = ThreadChoice {
        cpu: options.cpu,
        priority: options.priority,
        lock_memory: options.lock_memory,
        wait: options.wait,
        causes: false,
    };
    // Blocks are short: an interval of its own for each.
    let setting = setting(&options.looping, thread, 0);
    let task = Timer { work_ns: setting.work_ns };
    let destination = Destination { path: &options.file, header, origin: Instant::from_ns(options.origin_ns) };
    let run = match Run::open(destination, setting) {
        Ok(run) => run,
        Err(why) => {
            let failed = onbeat::bench::cell::Answer::Failed(why.to_string());
            println_answer(&failed)?;
            return Ok(Verdict::CannotTell);
        }
    };
    let served = Served { run, task, load: options.load, interruptions, causes: options.causes };
    served.serve(std::io::stdin(), std::io::stdout())?;
    Ok(Verdict::Holds)
}

fn println_answer(answer: &onbeat::bench::cell::Answer) -> Result<(), Failure> {
    use std::io::Write;
    let line = serde_json::to_string(answer)? + "\n";
    // The bench that does not listen any more knows already.
    let _ = std::io::stdout().write_all(line.as_bytes());
    Ok(())
}
