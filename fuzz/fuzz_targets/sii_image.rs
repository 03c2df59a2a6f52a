//! Any bytes as the image of an EEPROM. The checksum is made right for one half of them, so that what is behind it is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_ethercat::sii::{Sii, SiiError};

fuzz_target!(|bytes: &[u8]| {
    let first = Sii::decode(bytes);
    if let Err(SiiError::Checksum { should, .. }) = first {
        let mut right = bytes.to_vec();
        right[14] = should;
        assert!(!matches!(Sii::decode(&right), Err(SiiError::Checksum { .. })), "a right checksum is right");
    }
    if let Ok(sii) = first {
        let entries: usize = sii.outputs.iter().chain(&sii.inputs).map(|pdo| pdo.entries.len()).sum();
        assert!(8 * entries <= bytes.len(), "no more values than there are bytes");
        assert!(8 * sii.sync_managers.len() <= bytes.len());
    }
});
