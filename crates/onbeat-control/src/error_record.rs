//! Record of the errors that a device has counted, in words of the image.

use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_ethercat::link_errors::{ERROR_BYTES, LinkErrors};

use super::abi::{ERROR_IS_READ, ERROR_WORDS};

/// Publishes the errors of a device. A position outside the layout is ignored.
pub(super) fn store(records: &[AtomicU64], device: usize, errors: &LinkErrors) {
    let Some(record) = records.chunks_exact(ERROR_WORDS).nth(device) else { return };
    for (word, counts) in record.iter().zip(errors.to_words().chunks_exact(4)) {
        let mut bytes = [0; 8];
        for (place, count) in bytes.chunks_exact_mut(2).zip(counts) {
            place.copy_from_slice(&count.to_ne_bytes());
        }
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }

    record[ERROR_IS_READ].store(1, Ordering::Release);
}

/// Returns the errors of each device; `None` where none were read yet. Counts of one port are
/// consistent, those of different ports may be of successive readings.
pub(super) fn load(records: &[AtomicU64]) -> impl Iterator<Item = Option<LinkErrors>> {
    records.chunks_exact(ERROR_WORDS).map(|record| {
        let mut counts = [0; ERROR_BYTES];
        let is_read = record[ERROR_IS_READ].load(Ordering::Acquire) > 0;
        for (word, counts) in record.iter().zip(counts.chunks_exact_mut(4)) {
            let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            for (count, bytes) in counts.iter_mut().zip(bytes.chunks_exact(2)) {
                *count = u16::from_ne_bytes([bytes[0], bytes[1]]);
            }
        }

        is_read.then(|| LinkErrors::from_words(counts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::link_errors::{ErrorCount, ErrorCounter};

    #[test]
    fn errors_of_one_device_survive_encoding_and_decoding() {
        let records: Vec<AtomicU64> = (0..2 * ERROR_WORDS).map(|_| AtomicU64::new(0)).collect();
        let mut errors = LinkErrors::default();
        for (number, counter) in (1..).zip(ErrorCounter::all()) {
            errors.set(counter, ErrorCount::exactly(number).plus(0, number % 2 == 0));
        }
        store(&records, 1, &errors);
        store(&records, 7, &errors);
        assert_eq!(load(&records).collect::<Vec<_>>(), [None, Some(errors)]);
    }
}
