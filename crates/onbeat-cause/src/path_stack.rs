//! The kernel's stack at a late wake-up of the loop: what the interrupt of its timer found.
//!
//! A BPF program copies the stack when it wakes the loop. Interrupts that were off are on again at
//! that moment, so the code is the one that switched them on, called by the one that had switched
//! them off. The kernel unwinds the stack, which takes it 10 to 20 us for ten to fifteen frames:
//! the late wake-up becomes as much later, so stacks are copied on request only.

use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_rt::Instant;

/// Number of stacks kept, a power of two.
pub(super) const STACKS: u32 = 64;
/// Maximum number of frames copied of a stack. The interrupt itself takes ten.
const FRAMES: u32 = 20;
/// Words before the frames: the time (0 while the stack is written), and the number of bytes copied
/// or a negative error.
const STACK_HEAD_WORDS: u32 = 2;

/// The kernel's stack at a late wake-up of the loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStack {
    /// When it was copied, just after the wake-up.
    pub at: Instant,
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
}

/// Returns the stacks in shared memory that were copied between two instants, in order of time.
pub(super) fn stacks_between(words: &[AtomicU64], from: Instant, to: Instant) -> Vec<KernelStack> {
    let slots = words.chunks_exact((STACK_HEAD_WORDS + FRAMES) as usize);
    let mut stacks: Vec<KernelStack> = slots.filter_map(stack).collect();
    stacks.retain(|stack| stack.at >= from && stack.at <= to);
    stacks.sort_by_key(|stack| stack.at);
    stacks
}

/// Reads one slot; `None` if it is empty or was written meanwhile.
fn stack(slot: &[AtomicU64]) -> Option<KernelStack> {
    let (head, frames) = slot.split_at(STACK_HEAD_WORDS as usize);
    let at = head[0].load(Ordering::Acquire);
    let bytes = usize::try_from(head[1].load(Ordering::Acquire).cast_signed()).ok()?;
    let frames: Vec<u64> =
        frames.iter().take(bytes / 8).map(|frame| frame.load(Ordering::Acquire)).collect();

    let is_whole = at != 0 && head[0].load(Ordering::Acquire) == at;
    is_whole.then(|| KernelStack { at: Instant::from_ns(at), frames })
}

/// Beginnings of the names of functions at which an interrupt enters the kernel, on x86 and arm64:
/// the next frame is the interrupted code.
const INTERRUPT_ENTRIES: [&str; 4] =
    ["asm_sysvec_", "asm_common_interrupt", "el1h_64_irq", "el1_irq"];
/// Maximum number of functions that a sentence names.
const NAMED: usize = 5;

impl KernelStack {
    /// Returns the kernel functions that the interrupt found, innermost first, as
    /// `console_flush_all ← vprintk_emit`; `None` if it found user code, or if the stack is not
    /// that of an interrupt.
    pub(super) fn interrupted<'n>(&self, name: impl Fn(u64) -> Option<&'n str>) -> Option<String> {
        let names: Vec<Option<&str>> = self.frames.iter().map(|frame| name(*frame)).collect();
        let is_entry = |name: &Option<&str>| {
            name.is_some_and(|name| INTERRUPT_ENTRIES.iter().any(|entry| name.starts_with(entry)))
        };
        let entry = names.iter().position(is_entry)?;

        let found: Vec<&str> =
            names[entry + 1..].iter().map_while(|name| *name).take(NAMED).collect();
        (!found.is_empty()).then(|| found.join(" ← "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at: u64, bytes: u64) -> Vec<AtomicU64> {
        let frames = (0..u64::from(FRAMES)).map(|frame| 0x100 + frame);
        [at, bytes].into_iter().chain(frames).map(AtomicU64::new).collect()
    }

    #[test]
    fn stacks_of_a_time_range_are_in_order_and_have_as_many_frames_as_were_copied() {
        let refused = (-14_i64).cast_unsigned();
        let slots = [(30, 16), (10, 8), (0, 8), (20, refused), (99, 8)];
        let words: Vec<AtomicU64> =
            slots.into_iter().flat_map(|(at, bytes)| slot(at, bytes)).collect();
        let stacks = stacks_between(&words, Instant::from_ns(1), Instant::from_ns(50));

        let seen: Vec<(u64, usize)> =
            stacks.iter().map(|stack| (stack.at.as_ns(), stack.frames.len())).collect();
        assert_eq!(seen, [(10, 1), (30, 2)], "one is being written, one failed, one is later");
    }

    #[test]
    fn the_interrupted_functions_are_those_below_the_interrupts_entry() {
        let names = [
            "hrtimer_wakeup",
            "asm_sysvec_apic_timer_interrupt",
            "_raw_spin_unlock_irqrestore",
            "console_flush_all",
            "vprintk_emit",
        ];
        let words = |count: u64| {
            let stack = KernelStack { frames: (0..count).collect(), ..KernelStack::default() };
            stack.interrupted(|frame| names.get(usize::try_from(frame).ok()?).copied())
        };

        let all = Some("_raw_spin_unlock_irqrestore ← console_flush_all ← vprintk_emit");
        assert_eq!(words(5).as_deref(), all);
        assert_eq!(words(7).as_deref(), all, "frames without a name end the list");
        assert_eq!(words(2), None, "user code");
        assert_eq!(words(1), None, "no interrupt");
    }
}
