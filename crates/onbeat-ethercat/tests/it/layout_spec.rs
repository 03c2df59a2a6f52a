//! Positions of values in the process image.

use onbeat_ethercat::description::Description;
use onbeat_ethercat::layout::{DeviceKind, Layout};

#[test]
fn the_humanoid_has_392_bytes_of_outputs_and_its_drives_have_words_at_known_offsets() {
    let layout = Layout::from_toml(Description::HUMANOID).unwrap();
    assert_eq!(layout.devices.len(), 59);
    let count = |kind| layout.devices.iter().filter(|device| device.kind == kind).count();
    assert_eq!(
        [count(DeviceKind::Drive), count(DeviceKind::Digital), count(DeviceKind::Imu)],
        [48, 8, 3]
    );
    // A drive has 2 + 4 + 2 bytes of outputs and 2 + 4 + 4 + 2 of inputs, an I/O device 1 and 1, an
    // inertial unit 6 inputs of 4 bytes.
    assert_eq!(layout.output_bytes, 48 * 8 + 8);
    let drive = &layout.devices[layout.find("waist roll").unwrap()];

    assert_eq!(drive.output_at(0x6040, 0), Some(drive.outputs.start));
    assert_eq!(drive.output_at(0x607a, 0), Some(drive.outputs.start + 2));
    assert_eq!(drive.input_at(0x6064, 0), Some(drive.inputs.start + 2));
    assert_eq!(drive.increments, 131_072);
    assert_eq!(drive.output_at(0x6064, 0), None, "an input is not among the outputs");
    let parts: usize = layout.devices.iter().map(|device| device.inputs.len()).sum();

    assert_eq!(parts, layout.input_bytes, "device parts follow each other without gaps");
}

#[test]
fn devices_are_in_cable_order_in_any_file_order() {
    let tree = r#"
        [types.fork]
        kind = "digital"
        ports = 4
        [types.end]
        kind = "digital"
        [[devices]]
        type = "fork"
        name = "fork"
        [[devices]]
        type = "end"
        name = "on port 1"
        [[devices]]
        type = "end"
        name = "on port 3"
        after = "fork"
        port = 3
    "#;
    let layout = Layout::from_toml(tree).unwrap();
    let names: Vec<&str> = layout.devices.iter().map(|device| device.name.as_str()).collect();

    assert_eq!(names, ["fork", "on port 3", "on port 1"], "a frame passes port 3 before port 1");
}
