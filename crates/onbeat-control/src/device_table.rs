//! Device table: a layout encoded as bytes, written once.

use super::abi::{DEVICE_BYTES, ImageSize, NAME_BYTES, VALUE_BYTES, VALUE_NAME_BYTES};
use super::map::padded_text;
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout, MappedValue};
use onbeat_ethercat::setup::DeviceSetup;

/// Returns the sizes of a layout.
pub(super) fn size(layout: &Layout) -> ImageSize {
    let values = layout
        .devices
        .iter()
        .map(|device| device.output_values.len() + device.input_values.len())
        .sum();
    ImageSize {
        devices: layout.devices.len(),
        values,
        inputs: layout.input_bytes,
        outputs: layout.output_bytes,
        joints: 0,
    }
}

/// Encodes the records of all devices, then of all values.
pub(super) fn bytes(layout: &Layout) -> Vec<u8> {
    let mut devices = Vec::new();
    let mut values = Vec::new();
    for device in &layout.devices {
        let first_value = (values.len() / VALUE_BYTES) as u32;
        for value in device.output_values.iter().chain(&device.input_values) {
            let object = u32::from(value.index) | u32::from(value.entry) << 16;
            let length = u32::from(value.bits) | u32::from(value.data_type) << 16;
            put(&mut values, &[object, length, value.bit_at as u32, 0]);
            values.extend_from_slice(&name_bytes::<VALUE_NAME_BYTES>(&value.name));
        }

        devices.extend_from_slice(&name_bytes::<NAME_BYTES>(&device.name));
        put(&mut devices, &[device.kind as u32, device.alias.into()]);
        put(&mut devices, &[device.vendor, device.product, device.revision]);
        put(&mut devices, &[device.outputs.start as u32, device.outputs.len() as u32]);
        put(&mut devices, &[device.inputs.start as u32, device.inputs.len() as u32, first_value]);
        let counts = [&device.output_values, &device.input_values].map(|all| all.len() as u32);
        put(&mut devices, &counts);
        put(&mut devices, &[device.increments]);
        put(&mut devices, &device.travel.map(i32::cast_unsigned));
        devices.resize(devices.len().next_multiple_of(DEVICE_BYTES), 0);
    }

    devices.extend(values);
    devices
}

/// Decodes a table. Inconsistent parts are left out.
pub(super) fn layout(segment: String, size: ImageSize, bytes: &[u8]) -> Layout {
    let (devices, values) = bytes.split_at((size.devices * DEVICE_BYTES).min(bytes.len()));
    let values: Vec<MappedValue> = values.chunks_exact(VALUE_BYTES).map(value).collect();
    let devices =
        devices.chunks_exact(DEVICE_BYTES).map(|record| device(record, &values)).collect();
    let output_bytes = size.outputs;
    let input_bytes = size.inputs;
    Layout { name: segment, devices, output_bytes, input_bytes, ..Layout::default() }
}

fn device(record: &[u8], values: &[MappedValue]) -> DeviceLayout {
    let word = |place: usize| at(record, NAME_BYTES + 4 * place);
    let count = |place: usize| word(place) as usize;
    let first = count(9);
    let between =
        |from: usize, n: usize| values.get(from..from + n).map(<[_]>::to_vec).unwrap_or_default();

    DeviceLayout {
        name: padded_text(&record[..NAME_BYTES]),
        kind: DeviceKind::ALL.get(count(0)).copied().unwrap_or(DeviceKind::Coupler),
        alias: word(1) as u16,
        vendor: word(2),
        product: word(3),
        revision: word(4),
        serial: 0,
        outputs: count(5)..count(5) + count(6),
        inputs: count(7)..count(7) + count(8),
        output_values: between(first, count(10)),
        input_values: between(first + count(10), count(11)),
        increments: word(12),
        travel: [word(13).cast_signed(), word(14).cast_signed()],
        setup: DeviceSetup::default(),
    }
}

fn value(record: &[u8]) -> MappedValue {
    let [object, length] = [at(record, 0), at(record, 4)];
    MappedValue {
        index: object as u16,
        entry: (object >> 16) as u8,
        bits: length as u16,
        data_type: (length >> 16) as u16,
        bit_at: at(record, 8) as usize,
        name: padded_text(&record[VALUE_BYTES - VALUE_NAME_BYTES..]),
    }
}

fn at(record: &[u8], place: usize) -> u32 {
    record
        .get(place..place + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

fn put(into: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| into.extend_from_slice(&word.to_ne_bytes()));
}

/// Encodes a name, padded with zeros; a longer one is cut at a character boundary, leaving at least
/// one zero.
pub(super) fn name_bytes<const N: usize>(name: &str) -> [u8; N] {
    let mut end = name.len().min(N - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }

    let mut bytes = [0; N];
    bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
    bytes
}

/// Hashes the table (FNV-1a, 64 bits): images with the same hash have the same layout.
pub(super) fn hash(table: &[u8], segment: &str) -> u64 {
    let all = table.iter().chain(segment.as_bytes());
    all.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::description::Description;

    #[test]
    fn a_layout_survives_encoding_and_decoding() {
        let made = Layout::from_toml(Description::HUMANOID).unwrap();
        let table = bytes(&made);
        let size = size(&made);
        assert_eq!(table.len(), size.devices * DEVICE_BYTES + size.values * VALUE_BYTES);
        assert_eq!(layout(made.name.clone(), size, &table), made);
    }

    #[test]
    fn a_name_too_long_for_its_record_is_cut_between_characters() {
        let long = "ä".repeat(40);
        assert_eq!(padded_text(&name_bytes::<64>(&long)), "ä".repeat(31));
        assert_eq!(padded_text(&name_bytes::<64>("left knee")), "left knee");
        assert_eq!(padded_text(b"knee\x1b[2J\xff\0rest"), "knee?[2J\u{fffd}");
    }

    #[test]
    fn another_mapping_has_another_hash() {
        let mut made = Layout::from_toml(Description::HUMANOID).unwrap();
        let before = hash(&bytes(&made), &made.name);
        assert_eq!(hash(&bytes(&made), &made.name), before);
        made.devices[0].output_values[0].bits += 8;
        assert_ne!(hash(&bytes(&made), &made.name), before);
    }
}
