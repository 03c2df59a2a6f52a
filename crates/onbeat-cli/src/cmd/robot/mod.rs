//! `onbeat robot`: moves a robot, and gives goals to one that moves.

pub(super) mod goal;
pub(crate) mod options;
mod run;
mod screen;
pub(super) mod typed_goals;
mod view;

pub(super) use view::sentence as view_sentence;

use super::{ExitVerdict, Failure};
use options::Robot;

pub(crate) fn run(command: &Robot) -> Result<ExitVerdict, Failure> {
    match command {
        Robot::Run(options) => run::run(options),
        Robot::Goal(options) => goal::give(options),
    }
}
