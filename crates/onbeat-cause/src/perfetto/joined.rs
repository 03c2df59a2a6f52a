//! A guest and its host in one trace, on the host's clock.
//!
//! The host's threads are on the viewer's own CPU tracks. The guest's CPUs, threads and interrupts
//! are on tracks of their own, because both number theirs from 0; a track of the virtual CPU says
//! whether it ran, was kept off its CPU, or was halted.

use super::{Trace, TrackSlice};
use crate::event::{KernelEvent, TraceEvent};
use crate::facts::SpikeFacts;
use crate::kind::Explanation;
use crate::kvm;
use crate::timeline::{LoopState, loop_spans};
use crate::window::Window;

/// Tracks: of the virtual CPU, of the guest's loop, of causes.
const VCPU: u64 = 10;
const GUEST_LOOP: u64 = 11;
const BY_GUEST: u64 = 12;
const BY_HOST: u64 = 13;
const EXITS: u64 = 14;
/// Tracks of the guest's CPU 0: threads, interrupts.
const GUEST_THREADS: u64 = 0x10_0000;
const GUEST_INTERRUPTS: u64 = 0x20_0000;

/// A spike of the guest's loop; all instants on the host's clock.
#[derive(Clone, Copy, Debug)]
pub struct GuestSpike<'s> {
    /// What is known of the cycle.
    pub facts: &'s SpikeFacts,
    /// What the guest says.
    pub guest: &'s Explanation,
    /// What the host did meanwhile.
    pub host: &'s Explanation,
}

/// A guest beside its host; all instants on the host's clock.
#[derive(Clone, Copy, Debug)]
pub struct GuestBesideHost<'t> {
    /// The host's events.
    pub host: &'t Window,
    /// The host's kernel release.
    pub kernel: &'t str,
    /// The thread of the virtual CPU on the host.
    pub vcpu: u32,
    /// The guest's events: windows in order of time that do not overlap.
    pub guest: &'t [Window],
    /// The guest's spikes.
    pub spikes: &'t [GuestSpike<'t>],
}

/// Returns the bytes of a trace file with both, which ui.perfetto.dev opens.
#[must_use]
pub fn write_joined(both: &GuestBesideHost<'_>) -> Vec<u8> {
    let mut trace = Trace::of_kernel(both.kernel);
    // The viewer takes a switch from a thread that did not run for an error.
    let host = both.host.completed();
    trace.cpus(&host);
    trace.track(VCPU, "virtual CPU 0 on the host");
    trace.virtual_cpu(&host, both.vcpu);
    trace.exits(&host, both.vcpu);
    trace.track(GUEST_LOOP, "guest: the loop");
    trace.track(BY_GUEST, "guest: cause of latency");
    trace.track(BY_HOST, "host: cause of the guest's latency");
    both.spikes.iter().for_each(|spike| trace.guest_spike(spike));
    trace.guest_cpus(both.guest);
    trace.packets.finish()
}

impl Trace {
    fn virtual_cpu(&mut self, host: &Window, vcpu: u32) {
        for span in loop_spans(host, vcpu, None) {
            let name = match span.state {
                LoopState::Running => "runs",
                LoopState::Ready => "kept off its CPU",
                LoopState::Asleep | LoopState::Blocked => "halted",
                LoopState::Stopped => "stopped",
                LoopState::Unknown => continue,
            };
            if span.from < span.to {
                self.slice(VCPU, (span.from, span.to), &TrackSlice::plain("vcpu", name));
            }
        }
    }

    fn exits(&mut self, host: &Window, vcpu: u32) {
        let exits = kvm::exits(host, vcpu);
        if !exits.is_empty() {
            self.track(EXITS, "virtual CPU 0: exits");
        }
        for exit in exits {
            let name = exit.reason.to_string();
            self.slice(EXITS, (exit.from, exit.to), &TrackSlice::plain("vcpu", &name));
        }
    }

    fn guest_spike(&mut self, spike: &GuestSpike<'_>) {
        let facts = spike.facts;
        self.cycle(GUEST_LOOP, facts);
        let span = (facts.expiry.min(facts.start), facts.start);
        for (track, explanation) in [(BY_GUEST, spike.guest), (BY_HOST, spike.host)] {
            let Some(main) = explanation.main() else { continue };
            self.causes(track, span, &main.words(), explanation);
        }
    }

    fn guest_cpus(&mut self, windows: &[Window]) {
        let mut named: Vec<u32> = Vec::new();
        for window in windows {
            for cpu in &window.cpus {
                let [threads, interrupts] =
                    [GUEST_THREADS, GUEST_INTERRUPTS].map(|track| track + u64::from(cpu.cpu));
                if !named.contains(&cpu.cpu) {
                    self.track(threads, &format!("guest: CPU {}: threads", cpu.cpu));
                    self.track(interrupts, &format!("guest: CPU {}: interrupts", cpu.cpu));
                    named.push(cpu.cpu);
                }
                self.guest_threads(threads, &cpu.events, window);
                self.interrupts_on(interrupts, &cpu.events, window);
            }
        }
    }

    /// Adds a slice for each stretch in which a thread had the guest's CPU.
    fn guest_threads(&mut self, track: u64, events: &[TraceEvent], window: &Window) {
        let mut runs = false;
        for event in events {
            let KernelEvent::Switch { next, .. } = event.what else { continue };
            if runs {
                self.end(track, event.at);
            }
            runs = !next.is_idle();
            if runs {
                self.begin(track, event.at, &TrackSlice::plain("thread", &next.to_string()));
            }
        }
        if runs {
            self.end(track, window.to);
        }
    }
}
