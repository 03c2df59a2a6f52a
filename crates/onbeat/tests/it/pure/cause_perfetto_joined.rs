//! A guest beside its host as one Perfetto trace: tracks and names of both. Perfetto's own engine
//! is asked in `tests/perfetto/` for the traces of single spikes, which are made by the same code.

use crate::cause_world::{World, thread};
use onbeat::cause::perfetto::{GuestBesideHost, GuestSpike, write_joined};

#[test]
fn both_sides_are_named_on_tracks_of_their_own() {
    let mut host = World::asleep_beside(thread(7, 120, "hog"));
    host.timer_interrupt(1001, 5).loop_runs(1906, thread(7, 120, "hog"));
    let mut guest = World::asleep_beside(thread(9, 120, "guest-dd"));
    guest.timer_interrupt(1001, 5).loop_runs(1906, thread(9, 120, "guest-dd"));
    let explained = [guest.explained(), host.explained()];

    let spike = GuestSpike { facts: &guest.facts, guest: &explained[0], host: &explained[1] };
    let trace = write_joined(&GuestBesideHost {
        host: &host.window,
        kernel: "6.18.3",
        vcpu: crate::cause_world::LOOP,
        guest: std::slice::from_ref(&guest.window),
        spikes: &[spike],
    });

    let has = |text: &str| trace.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    for text in [
        "virtual CPU 0 on the host",
        "runs",
        "halted",
        "guest: CPU 1: threads",
        "guest: CPU 1: interrupts",
        "guest-dd [9]",
        "guest: the loop",
        "host: cause of the guest's latency",
        "hog",
        "6.18.3",
    ] {
        assert!(has(text), "{text}");
    }
}
