//! Decodes any bytes as the image of an EEPROM. An image with a wrong checksum is decoded again
//! with the correct one, to reach the rest of the decoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_ethercat::sii::{Sii, SiiError};

fuzz_target!(|bytes: &[u8]| {
    let first = Sii::decode(bytes);
    if let Err(SiiError::Checksum { should, .. }) = first {
        let mut corrected = bytes.to_vec();
        corrected[14] = should;
        assert!(!matches!(Sii::decode(&corrected), Err(SiiError::Checksum { .. })), "the corrected checksum is valid");
    }
    if let Ok(sii) = first {
        let entries: usize = sii.outputs.iter().chain(&sii.inputs).map(|pdo| pdo.entries.len()).sum();
        assert!(8 * entries <= bytes.len(), "no more entries than bytes");
        assert!(8 * sii.sync_managers.len() <= bytes.len());
    }
});
