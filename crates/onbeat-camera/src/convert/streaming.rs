//! What a processor can be told about memory: what will be read soon, and what will not be.
//!
//! All of it belongs to SSE2, which every 64-bit x86 processor has; elsewhere these are an ordinary copy, and nothing.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128};

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Copies past the caches; [`complete`] must follow before another thread reads.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    let first = to.as_ptr().align_offset(LINE).min(to.len());
    let (from_head, from_rest) = from.split_at(first);
    let (head, rest) = to.split_at_mut(first);
    head.copy_from_slice(from_head);
    let (lines, tail) = rest.as_chunks_mut::<LINE>();
    let (from_lines, from_tail) = from_rest.as_chunks::<LINE>();
    for (line, from) in lines.iter_mut().zip(from_lines) {
        let (line, from) = (line.as_mut_ptr(), from.as_ptr());
        for at in (0..LINE).step_by(16) {
            // SAFETY: both have LINE bytes, and the lines begin at multiples of LINE.
            unsafe {
                _mm_stream_si128(line.add(at).cast(), _mm_loadu_si128(from.add(at).cast()));
            }
        }
    }
    tail.copy_from_slice(from_tail);
}

/// Copies; no other way is known here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Orders what [`copy`] has written before whatever is written next.
pub(super) fn complete() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the target.
    unsafe {
        _mm_sfence();
    }
}

/// Has the processor read a line ahead. The place may be anywhere: a hint reads nothing, and faults are not taken.
#[inline(always)]
pub(super) fn read_ahead(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the target.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_past_the_caches_is_a_copy_at_every_alignment_and_length() {
        let from: Vec<u8> = (0..700).map(|at| (at * 7) as u8).collect();
        for begin in 0..70 {
            for length in [0, 1, 15, 63, 64, 65, 128, 300, 512] {
                let mut to = vec![0xaa; 700];
                copy(&from[begin..begin + length], &mut to[70..70 + length]);
                complete();
                assert_eq!(to[70..70 + length], from[begin..begin + length]);
                let mut shifted = vec![0xaa; 700];
                copy(&from[..length], &mut shifted[begin..begin + length]);
                complete();
                assert_eq!(shifted[begin..begin + length], from[..length]);
                assert!(shifted[begin + length..].iter().all(|it| *it == 0xaa));
                assert!(shifted[..begin].iter().all(|it| *it == 0xaa));
            }
        }
    }
}
