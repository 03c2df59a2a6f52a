//! Divides a spike's lateness among its causes: a pure function from facts, events and counters to
//! an explanation.
//!
//! ```text
//!   programmed expiry                                     s_k           e_k
//!     |-- timer late --|-- woken, waiting --|-- way out --|---- work ----|
//!     |<----------------- explained --------------------->|  <- unplanned ->
//! ```
//!
//! Every nanosecond between the programmed expiry and the first instruction gets exactly one cause,
//! so causes and unexplained time add up to the lateness. Work beyond the plan is explained when it
//! is a large part of the spike.

use std::ops::Range;

use onbeat_rt::Instant;

use super::counters::Counters;
use super::facts::SpikeFacts;
use super::judge::Judge;
use super::kind::{Cause, CauseKind, Explanation};
use super::settle::{add_up, settle};
use super::window::Window;

/// Returns the explanation of a spike: its lateness, divided among its causes.
#[must_use]
pub fn explain(facts: &SpikeFacts, window: &Window, counters: &Counters) -> Explanation {
    // Switches that a full buffer dropped are filled in where the events on both sides allow only
    // one.
    let window = &window.completed();
    let judge = Judge::new(facts, window, counters);
    let pieces: Vec<_> =
        facts.parts().iter().flat_map(|part| settle(part, &judge, counters)).collect();
    // Pieces tile the lateness without gap or overlap, so that the causes' times add up to it.
    let mut causes = add_up(&pieces);
    let lateness_ns = causes.iter().map(|cause| cause.ns).sum();
    let named = causes.iter().filter(|cause| cause.kind != CauseKind::Unexplained);
    let accounted_ns = named.map(|cause| cause.ns).sum();
    say_what_was_lost(&mut causes, facts, window);

    Explanation { lateness_ns, accounted_ns, causes }
}

fn say_what_was_lost(causes: &mut [Cause], facts: &SpikeFacts, window: &Window) {
    let span = facts.span();
    if let Some(lost) = window.lost_between(span.start, span.end)
        && let Some(unexplained) =
            causes.iter_mut().find(|cause| cause.kind == CauseKind::Unexplained)
    {
        let us = lost.to.ns_since(lost.from) as f64 / 1000.0;
        unexplained
            .evidence
            .push_str(&format!("; events of {us:.1} us were lost on CPU {}", lost.cpu));
    }
}

/// Groups spikes into stalls: a cycle whose release passed before the previous cycle ended is late
/// because of that cycle. `spikes` must be in order of release. Returns index ranges, in order.
#[must_use]
pub fn stalls(spikes: &[SpikeFacts]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut ended = Instant::default();
    for (index, spike) in spikes.iter().enumerate() {
        match groups.last_mut() {
            // The cycle was due while the one before still ran. One stop of 5 ms at 1 ms makes five
            // late cycles and one stall.
            Some(group) if spike.expiry <= ended => group.end = index + 1,
            _ => groups.push(index..index + 1),
        }
        // A short cycle inside a long stall must not end it.
        ended = ended.max(spike.end);
    }

    groups
}
