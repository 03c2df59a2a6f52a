//! Vectors of bytes as the conversion uses them, one type for each instruction set.
//!
//! A vector has one or two lanes of 16 bytes. Operations work within lanes, so that the transposition of
//! 16 × 16 bytes is the same code for all: with two lanes, the second one holds the rows 16 further down,
//! and a stored vector is 32 bytes of one column. All operations are defined bit by bit, which is why
//! every instruction set gives the same pictures.
#![allow(unsafe_code)]

/// One or two lanes of 16 bytes.
///
/// # Safety
/// All functions need the instruction set of the type; loads and stores need valid memory for every lane.
pub(super) trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;

    /// Loads 16 bytes into each lane; those of lane k are `k * apart` bytes further on.
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load(from: *const u8, apart: usize) -> Self;
    /// Loads 8 bytes into the lower half of each lane.
    unsafe fn load_half(from: *const u8, apart: usize) -> Self;
    /// Stores all lanes side by side.
    unsafe fn store(self, to: *mut u8);
    /// A word of 16 bits in all places.
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn splat(word: i16) -> Self;
    /// Interleaves the lower halves of each lane, byte by byte.
    unsafe fn low(self, other: Self) -> Self;
    /// Interleaves the upper halves of each lane.
    unsafe fn high(self, other: Self) -> Self;
    /// Exclusive or.
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn xor(self, other: Self) -> Self;
    /// Words: (a · b + 2^14) >> 15, signed.
    unsafe fn mul_high(self, other: Self) -> Self;
    /// Words: the lower half of a · b.
    unsafe fn mul_low(self, other: Self) -> Self;
    /// Words: a + b, saturated, signed.
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn add(self, other: Self) -> Self;
    /// Words: a + b, wrapped.
    unsafe fn add_wrapped(self, other: Self) -> Self;
    /// Words: a << 7.
    unsafe fn left_7(self) -> Self;
    /// Words: a >> 6, signed.
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn right_6(self) -> Self;
    /// Words: a >> 8, unsigned.
    unsafe fn right_8(self) -> Self;
    /// The words of both as bytes, saturated to 0 to 255, lane by lane.
    unsafe fn pack(self, other: Self) -> Self;
    /// Splits 16 pixels of three bytes, given as three consecutive vectors, into their channels.
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn split(of: [Self; 3]) -> [Self; 3];
}

/// 16 bytes without vector instructions: the definition of the operations.
#[derive(Clone, Copy)]
pub(super) struct Plain([u8; 16]);

impl Plain {
    fn words(self) -> [i16; 8] {
        let (words, _) = self.0.as_chunks::<2>();
        let mut all = [0; 8];
        all.iter_mut().zip(words).for_each(|(to, word)| *to = i16::from_le_bytes(*word));
        all
    }

    fn of_words(words: [i16; 8]) -> Self {
        let mut bytes = [0; 16];
        let (chunks, _) = bytes.as_chunks_mut::<2>();
        chunks.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        Self(bytes)
    }

    fn each(self, other: Self, f: impl Fn(i16, i16) -> i16) -> Self {
        let (a, b) = (self.words(), other.words());
        Self::of_words(std::array::from_fn(|i| f(a[i], b[i])))
    }
}

/// The multiplication of [`Vector::mul_high`].
pub(super) const fn mul_high(a: i16, b: i16) -> i16 {
    ((a as i32 * b as i32 + (1 << 14)) >> 15) as i16
}

impl Vector for Plain {
    const LANES: usize = 1;

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load(from: *const u8, _: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { from.cast::<[u8; 16]>().read_unaligned() })
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load_half(from: *const u8, _: usize) -> Self {
        let mut bytes = [0; 16];
        // SAFETY: the caller's.
        bytes[..8].copy_from_slice(&unsafe { from.cast::<[u8; 8]>().read_unaligned() });
        Self(bytes)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { to.cast::<[u8; 16]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn splat(word: i16) -> Self {
        Self::of_words([word; 8])
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn low(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if i % 2 == 0 { self.0[i / 2] } else { other.0[i / 2] }))
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn high(self, other: Self) -> Self {
        Self(std::array::from_fn(
            |i| if i % 2 == 0 { self.0[8 + i / 2] } else { other.0[8 + i / 2] },
        ))
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn xor(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] ^ other.0[i]))
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn mul_high(self, other: Self) -> Self {
        self.each(other, mul_high)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn mul_low(self, other: Self) -> Self {
        self.each(other, i16::wrapping_mul)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn add(self, other: Self) -> Self {
        self.each(other, i16::saturating_add)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn add_wrapped(self, other: Self) -> Self {
        self.each(other, i16::wrapping_add)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn left_7(self) -> Self {
        self.each(self, |a, _| a << 7)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn right_6(self) -> Self {
        self.each(self, |a, _| a >> 6)
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn right_8(self) -> Self {
        self.each(self, |a, _| (a.cast_unsigned() >> 8).cast_signed())
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn pack(self, other: Self) -> Self {
        let (a, b) = (self.words(), other.words());
        Self(std::array::from_fn(|i| (if i < 8 { a[i] } else { b[i - 8] }).clamp(0, 255) as u8))
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn split(of: [Self; 3]) -> [Self; 3] {
        let byte = |at: usize| of[at / 16].0[at % 16];
        std::array::from_fn(|channel| Self(std::array::from_fn(|i| byte(3 * i + channel))))
    }
}

/// Masks that take channel `c` of 16 interleaved pixels out of the three vectors that hold them; 0x80
/// gives 0.
const fn split_masks() -> [[[u8; 16]; 3]; 3] {
    let mut masks = [[[0x80; 16]; 3]; 3];
    let mut at = 0;
    while at < 48 {
        let (channel, pixel) = (at % 3, at / 3);
        masks[channel][at / 16][pixel] = (at % 16) as u8;
        at += 1;
    }
    masks
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    //! SSSE3 and AVX2.
    use std::arch::x86_64::*;

    use super::{Vector, split_masks};

    static MASKS: [[[u8; 16]; 3]; 3] = split_masks();

    /// Operations of two vectors, each by its instruction.
    macro_rules! of_two {
        ($($operation:ident $instruction:ident,)*) => {
            $(
                #[inline(always)]
                // SAFETY: memory and instructions are the caller's to know; see the trait.
                unsafe fn $operation(self, other: Self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $instruction(self.0, other.0) })
                }
            )*
        };
    }

    macro_rules! vector {
        ($name:ident, $register:ty, $lanes:literal, $load:expr, $load_half:expr, $store:ident, $splat:ident, $low:ident,
         $high:ident, $xor:ident, $mul_high:ident, $mul_low:ident, $add:ident, $add_wrapped:ident, $left:ident, $right:ident,
         $right_unsigned:ident, $pack:ident, $shuffle:ident, $or:ident) => {
            #[derive(Clone, Copy)]
            pub(in crate::convert) struct $name($register);

            // SAFETY of all blocks: the caller's, for memory and instruction set; masks have 16 bytes.
            impl Vector for $name {
                const LANES: usize = $lanes;

                #[inline(always)]
                // SAFETY: memory and instructions are the caller's to know; see the trait.
                unsafe fn load(from: *const u8, apart: usize) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $load(from, apart) })
                }
                #[inline(always)]
                unsafe fn load_half(from: *const u8, apart: usize) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $load_half(from, apart) })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut u8) {
                    // SAFETY: as above.
                    unsafe { $store(to.cast(), self.0) };
                }
                #[inline(always)]
                unsafe fn splat(word: i16) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $splat(word) })
                }
                of_two! {
                    low $low, high $high, xor $xor, mul_high $mul_high, mul_low $mul_low, add $add,
                    add_wrapped $add_wrapped, pack $pack,
                }
                #[inline(always)]
                // SAFETY: memory and instructions are the caller's to know; see the trait.
                unsafe fn left_7(self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $left::<7>(self.0) })
                }
                #[inline(always)]
                unsafe fn right_6(self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $right::<6>(self.0) })
                }
                #[inline(always)]
                unsafe fn right_8(self) -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $right_unsigned::<8>(self.0) })
                }
                #[inline(always)]
                unsafe fn split(of: [Self; 3]) -> [Self; 3] {
                    let mut to = of;
                    for (channel, masks) in MASKS.iter().enumerate() {
                        // SAFETY: as above; a distance of 0 loads the mask into every lane.
                        unsafe {
                            let first = $shuffle(of[0].0, Self::load(masks[0].as_ptr(), 0).0);
                            let second = $shuffle(of[1].0, Self::load(masks[1].as_ptr(), 0).0);
                            let third = $shuffle(of[2].0, Self::load(masks[2].as_ptr(), 0).0);
                            to[channel] = Self($or($or(first, second), third));
                        }
                    }
                    to
                }
            }
        };
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load_16(from: *const u8, _: usize) -> __m128i {
        // SAFETY: the caller's.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load_8(from: *const u8, _: usize) -> __m128i {
        // SAFETY: the caller's.
        unsafe { _mm_loadl_epi64(from.cast()) }
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load_2_16(from: *const u8, apart: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let (one, other) = (load_16(from, 0), load_16(from.add(apart), 0));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(one), other)
        }
    }

    #[inline(always)]
    // SAFETY: memory and instructions are the caller's to know; see the trait.
    unsafe fn load_2_8(from: *const u8, apart: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let (one, other) = (load_8(from, 0), load_8(from.add(apart), 0));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(one), other)
        }
    }

    vector!(
        Ssse3,
        __m128i,
        1,
        load_16,
        load_8,
        _mm_storeu_si128,
        _mm_set1_epi16,
        _mm_unpacklo_epi8,
        _mm_unpackhi_epi8,
        _mm_xor_si128,
        _mm_mulhrs_epi16,
        _mm_mullo_epi16,
        _mm_adds_epi16,
        _mm_add_epi16,
        _mm_slli_epi16,
        _mm_srai_epi16,
        _mm_srli_epi16,
        _mm_packus_epi16,
        _mm_shuffle_epi8,
        _mm_or_si128
    );
    vector!(
        Avx2,
        __m256i,
        2,
        load_2_16,
        load_2_8,
        _mm256_storeu_si256,
        _mm256_set1_epi16,
        _mm256_unpacklo_epi8,
        _mm256_unpackhi_epi8,
        _mm256_xor_si256,
        _mm256_mulhrs_epi16,
        _mm256_mullo_epi16,
        _mm256_adds_epi16,
        _mm256_add_epi16,
        _mm256_slli_epi16,
        _mm256_srai_epi16,
        _mm256_srli_epi16,
        _mm256_packus_epi16,
        _mm256_shuffle_epi8,
        _mm256_or_si256
    );
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    //! NEON, which every 64-bit ARM processor has.
    use std::arch::aarch64::*;

    use super::{Vector, split_masks};

    static MASKS: [[[u8; 16]; 3]; 3] = split_masks();

    #[derive(Clone, Copy)]
    pub(in crate::convert) struct Neon(uint8x16_t);

    impl Neon {
        #[inline(always)]
        // SAFETY: memory and instructions are the caller's to know; see the trait.
        unsafe fn words(self) -> int16x8_t {
            // SAFETY: registers of the same size.
            unsafe { vreinterpretq_s16_u8(self.0) }
        }

        #[inline(always)]
        // SAFETY: memory and instructions are the caller's to know; see the trait.
        unsafe fn of_words(words: int16x8_t) -> Self {
            // SAFETY: as above.
            Self(unsafe { vreinterpretq_u8_s16(words) })
        }
    }

    // SAFETY of all blocks: the caller's, for memory; NEON is part of the target.
    impl Vector for Neon {
        const LANES: usize = 1;

        #[inline(always)]
        // SAFETY: memory and instructions are the caller's to know; see the trait.
        unsafe fn load(from: *const u8, _: usize) -> Self {
            // SAFETY: as above.
            Self(unsafe { vld1q_u8(from) })
        }
        #[inline(always)]
        unsafe fn load_half(from: *const u8, _: usize) -> Self {
            // SAFETY: as above.
            Self(unsafe { vcombine_u8(vld1_u8(from), vdup_n_u8(0)) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: as above.
            unsafe { vst1q_u8(to, self.0) };
        }
        #[inline(always)]
        unsafe fn splat(word: i16) -> Self {
            // SAFETY: as above.
            unsafe { Self::of_words(vdupq_n_s16(word)) }
        }
        #[inline(always)]
        unsafe fn low(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { vzip1q_u8(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn high(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { vzip2q_u8(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { veorq_u8(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul_high(self, other: Self) -> Self {
            // SAFETY: as above. (2·a·b + 2^15) >> 16 is (a·b + 2^14) >> 15.
            unsafe { Self::of_words(vqrdmulhq_s16(self.words(), other.words())) }
        }
        #[inline(always)]
        unsafe fn mul_low(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self::of_words(vmulq_s16(self.words(), other.words())) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self::of_words(vqaddq_s16(self.words(), other.words())) }
        }
        #[inline(always)]
        unsafe fn add_wrapped(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self::of_words(vaddq_s16(self.words(), other.words())) }
        }
        #[inline(always)]
        unsafe fn left_7(self) -> Self {
            // SAFETY: as above.
            unsafe { Self::of_words(vshlq_n_s16::<7>(self.words())) }
        }
        #[inline(always)]
        unsafe fn right_6(self) -> Self {
            // SAFETY: as above.
            unsafe { Self::of_words(vshrq_n_s16::<6>(self.words())) }
        }
        #[inline(always)]
        unsafe fn right_8(self) -> Self {
            // SAFETY: as above.
            Self(unsafe { vreinterpretq_u8_u16(vshrq_n_u16::<8>(vreinterpretq_u16_u8(self.0))) })
        }
        #[inline(always)]
        unsafe fn pack(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { vcombine_u8(vqmovun_s16(self.words()), vqmovun_s16(other.words())) })
        }
        #[inline(always)]
        unsafe fn split(of: [Self; 3]) -> [Self; 3] {
            std::array::from_fn(|channel| {
                let [first, second, third] = &MASKS[channel];
                // SAFETY: as above; an index beyond 15 gives 0.
                unsafe {
                    let taken =
                        |from: Self, mask: &[u8; 16]| vqtbl1q_u8(from.0, vld1q_u8(mask.as_ptr()));
                    let two = vorrq_u8(taken(of[0], first), taken(of[1], second));
                    Self(vorrq_u8(two, taken(of[2], third)))
                }
            })
        }
    }
}
