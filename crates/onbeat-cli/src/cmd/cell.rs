//! `onbeat cell`: the process of one cell; the bench talks to it over its standard input and output.

use onbeat::bench::cell::{Answer, Served};
use onbeat::probe::description::{Alone, OnGrid, Parts};
use onbeat::probe::timer::Timer;
use onbeat::probe::{self, Destination, Run};
use onbeat::record::{Cell, NoFigures};
use onbeat_ethercat::layout::Layout;
use onbeat_robot::motion::{MotionController, Robot, Trajectory};
use onbeat_robot::probe::bus::{self, MakeController, NoMotion};
use onbeat_rt::Instant;
use onbeat_segment::Segment;

use super::{Failure, ThreadChoice, Verdict, setting};
use crate::cli::{CellOptions, With};
use crate::probes;
use crate::signals::{self, OnUsr1};

/// What goes wrong is reported to the bench alone, which reports it to people once.
pub(crate) fn run(options: CellOptions) -> Result<Verdict, Failure> {
    match serve(options) {
        Err(why) => failed(&why.to_string()),
        served => served,
    }
}

fn serve(options: CellOptions) -> Result<Verdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let cell = Cell { tuning: options.tuning, load: options.load.clone() };
    let mut header = probe::header(&super::typed(), "timer", probes::series_of("timer"), options.started);
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
    let parts = match options.with {
        Some(With::Bus) => match bus::parts_of_cell(&setting, walking(setting.period_ns)?) {
            Ok((parts, said)) => {
                header.grants.push(said);
                parts
            }
            Err(why) => return failed(&why.to_string()),
        },
        None => Parts {
            body: Box::new(OnGrid { task: Timer { work_ns: setting.work_ns }, has_ports: false }),
            figures: Box::new(NoFigures),
            beside: Box::new(Alone),
        },
    };

    let destination = Destination { path: &options.file, header, origin: Instant::from_ns(options.origin_ns) };
    let run = Run::open(destination, setting)?;
    let served = Served { run, parts, load: options.load, interruptions, causes: options.causes };
    // It tells the bench itself how that ended.
    Ok(served.serve(std::io::stdin(), std::io::stdout()).map_or(Verdict::CannotTell, |()| Verdict::Holds))
}

/// MakeController controllers that walk the robot that ships.
fn walking(period_ns: u64) -> Result<MakeController, Failure> {
    let layout = Layout::from_toml(Segment::HUMANOID)?;
    let robot = Robot::from_toml(Segment::HUMANOID, &layout, period_ns)?;
    // Whether there is a gait for it is known before the first block.
    Trajectory::gait(&robot)?;
    Ok(Box::new(move || match Trajectory::gait(&robot) {
        Ok(gait) => Box::new(MotionController::new(&robot, gait)),
        Err(_) => Box::new(NoMotion),
    }))
}

fn failed(why: &str) -> Result<Verdict, Failure> {
    println_answer(&Answer::Failed(why.to_owned()))?;
    Ok(Verdict::CannotTell)
}

fn println_answer(answer: &Answer) -> Result<(), Failure> {
    use std::io::Write;
    let line = serde_json::to_string(answer)? + "\n";
    // The bench that does not listen any more knows already.
    let _ = std::io::stdout().write_all(line.as_bytes());
    Ok(())
}
