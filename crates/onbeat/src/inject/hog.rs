//! `equal_priority_hog`: a thread of the loop's priority that is already running when the loop wakes.
//!
//! Among threads of one priority `SCHED_FIFO` never preempts (sched(7)), so the loop waits until the other one sleeps.

use super::Error;
use super::actor::{Disturb, busy_until, thread_cpu_ns};
use super::log::Done;
use super::plan::{Aim, Plan};
use crate::thread::Wanted;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

/// The disturber.
pub(super) struct Hog;

impl Disturb for Hog {
    fn wanted(&self, plan: &Plan) -> Wanted {
        Wanted { fifo: Some(plan.target.priority.max(1)), cpu: Some(plan.target.cpu), ..Wanted::default() }
    }

    fn prepare(&mut self, _: &Plan) -> Result<(), Error> {
        Ok(())
    }

    fn disturb(&mut self, _: &Plan, aim: &Aim) -> Option<Done> {
        let cpu_ns = thread_cpu_ns();
        let at = Monotonic.now();
        if at >= aim.wake_up {
            return None;
        }
        let end = busy_until(aim.until);
        Some(Done { at, ns: end.ns_since(at), figures: [thread_cpu_ns() - cpu_ns, 0] })
    }
}
