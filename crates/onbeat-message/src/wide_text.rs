//! Wide texts: UTF-16 in messages, UTF-8 in values.
//!
//! A unit of UTF-16 without its other half has no UTF-8. It is kept in the three bytes that it would have there (WTF-8), so
//! that whatever was received is sent again as it was.

/// Returns the units of a text. Bytes that are not UTF-8 become U+FFFD.
pub(super) fn units(text: &[u8]) -> Vec<u16> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (valid, skipped) = match std::str::from_utf8(rest) {
            Ok(_) => (rest.len(), 0),
            Err(why) => (why.valid_up_to(), why.error_len().unwrap_or(rest.len())),
        };
        let (whole, behind) = rest.split_at(valid);
        units.extend(std::str::from_utf8(whole).unwrap_or_default().encode_utf16());
        rest = match behind {
            [] => return units,
            [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, behind @ ..] => {
                units.push(0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f));
                behind
            }
            _ => {
                units.push(0xfffd);
                &behind[skipped.clamp(1, behind.len())..]
            }
        };
    }
}

/// Returns the text of units.
pub(super) fn text(units: impl Iterator<Item = u16>) -> Vec<u8> {
    let mut text = Vec::new();
    for letter in char::decode_utf16(units) {
        match letter {
            Ok(letter) => text.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            Err(half) => {
                let unit = half.unpaired_surrogate();
                let low = |shift: u32| 0x80 | (unit >> shift & 0x3f) as u8;
                text.extend([0xed, low(6), low(0)]);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn letters_beyond_16_bits_are_two_units() {
        assert_eq!(units("aä漢🤖".as_bytes()), [0x61, 0xe4, 0x6f22, 0xd83e, 0xdd16]);
        assert_eq!(units(b"a\xffb\xc3"), [0x61, 0xfffd, 0x62, 0xfffd]);
    }

    proptest! {
        /// Halves of pairs too.
        #[test]
        fn whatever_units_arrive_are_sent_again(received: Vec<u16>, halves in proptest::collection::vec(0xd7fe_u16..0xe002, 0..9)) {
            for of in [received, halves] {
                prop_assert_eq!(units(&text(of.iter().copied())), of);
            }
        }

        #[test]
        fn any_bytes_have_units(bytes: Vec<u8>) {
            prop_assert!(units(&bytes).len() <= bytes.len());
        }
    }
}
