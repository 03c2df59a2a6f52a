//! Devices from ESI files behave like those of a segment file, and an independent MainDevice runs
//! them.

use crate::sim_wire;
use crate::sim_world;

use std::path::{Path, PathBuf};

use onbeat_ethercat::layout::{DeviceKind, Layout};
use onbeat_ethercat::sii::{Sii, SiiPdo};
use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Description, Segment};
use sim_wire::{Wire, main_device};
use sim_world::World;

const SERVO: &str = include_str!("../esi_files/servo.xml");
const TERMINALS: &str = include_str!("../esi_files/terminals.xml");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/esi_files")
}

fn described(text: &str) -> Description {
    Description::from_toml_with(text, |name| std::fs::read(folder().join(name)))
        .unwrap_or_else(|why| panic!("{why}"))
}

/// One device, with the keys of its type.
fn one(keys: &str) -> Description {
    described(&format!("[types.t]\n{keys}\n[[devices]]\ntype = \"t\"\nname = \"a\"\n"))
}

fn world(description: &Description) -> World {
    let mut world = World::new(Segment::from_description(description).unwrap());
    world.address_all();
    world
}

fn eeprom(world: &mut World) -> Vec<u8> {
    let mut bytes = Vec::new();
    for address in (0..1024u16).step_by(4) {
        let [low, high] = address.to_le_bytes();
        assert_eq!(world.write(0x1001, 0x0502, &[0, 1, low, high, 0, 0]), 1);
        bytes.extend(world.read(0x1001, 0x0508, 8).data);
    }

    bytes
}

/// Returns the error of an ESI file.
fn error_of(esi: &str) -> String {
    Description::from_esi(esi.as_bytes(), "a.xml", &[])
        .and_then(|one| Segment::from_description(&one))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_drive_from_an_esi_file_has_the_same_eeprom_as_the_same_drive_in_toml() {
    let from_toml = described(
        "[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\nname = \"knee\"\n",
    );
    let from_toml = eeprom(&mut world(&from_toml));
    let from_esi = eeprom(&mut world(&one("esi = \"servo.xml\"")));
    let [first, second] = [&from_toml, &from_esi].map(|bytes| Sii::decode(bytes).unwrap());
    assert_eq!(first, second);
    assert_eq!(from_toml, from_esi, "byte by byte");
    assert_eq!((second.vendor, second.product, second.revision), (0xf1c7_1005, 0x1003, 1));
    assert_eq!((second.order.as_str(), second.name.as_str()), ("joint", "knee"));
    let bits = |pdos: &[SiiPdo]| {
        pdos.iter().flat_map(|pdo| &pdo.entries).map(|entry| u32::from(entry.bits)).sum::<u32>()
    };

    assert_eq!((bits(&second.outputs), bits(&second.inputs)), (64, 96));
    assert_eq!(
        second.sync_managers.iter().map(|one| (one.usage, one.length)).collect::<Vec<_>>(),
        [(1, 128), (2, 128), (3, 8), (4, 12)]
    );
    assert_eq!(second.clock[1].pulses.activation, 0x0300);
}

#[test]
fn the_eeprom_of_every_kind_of_device_decodes_to_its_properties() {
    let kinds = ["coupler", "digital", "analogue", "drive", "imu", "force-torque"]
        .map(|kind| format!("kind = \"{kind}\""));
    let files = ["joint", "four-in-four-out", "gauge"].map(|device| {
        let file = if device == "joint" { "servo.xml" } else { "terminals.xml" };
        format!("esi = \"{file}\"\ndevice = \"{device}\"")
    });

    for keys in kinds.iter().chain(&files) {
        let description = one(keys);
        let bytes = eeprom(&mut world(&description));
        let sii = Sii::decode(&bytes).unwrap_or_else(|why| panic!("{keys}: {why}"));
        let device = &Layout::from_description(&description).unwrap().devices[0];

        assert_eq!(
            (sii.vendor, sii.product, sii.revision),
            (device.vendor, device.product, device.revision),
            "{keys}"
        );
        let values = |pdos: &[SiiPdo]| {
            let assigned =
                pdos.iter().filter(|pdo| pdo.sync_manager.is_some()).flat_map(|pdo| &pdo.entries);
            assigned
                .filter(|entry| entry.index != 0)
                .map(|entry| (entry.index, entry.entry, u16::from(entry.bits)))
                .collect()
        };

        let decoded: [Vec<(u16, u8, u16)>; 2] = [values(&sii.outputs), values(&sii.inputs)];
        let mapped = [&device.output_values, &device.input_values].map(|values| {
            values.iter().map(|value| (value.index, value.entry, value.bits)).collect::<Vec<_>>()
        });
        assert_eq!(decoded, mapped, "{keys}");
        let length = |usage| {
            sii.sync_managers
                .iter()
                .filter(|one| one.usage == usage)
                .map(|one| usize::from(one.length))
                .sum::<usize>()
        };

        assert_eq!((length(3), length(4)), (device.outputs.len(), device.inputs.len()), "{keys}");
        // CoE; the drives and sensors of onbeat, and files that list it, have FoE too.
        assert_eq!(sii.protocols & 0x04 != 0, length(1) > 0, "{keys}");
        assert_eq!(sii.protocols & !0x0c, 0, "{keys}");
        // FoE details, in the category General after the strings.
        let general = 0x88 + 2 * usize::from(u16::from_le_bytes([bytes[0x82], bytes[0x83]]));
        assert_eq!(bytes[general + 6] != 0, sii.protocols & 0x08 != 0, "{keys}");
    }
}

#[test]
fn ethercrab_brings_devices_of_esi_files_to_op_with_the_right_lengths_of_process_data() {
    let description = described(
        "[types.joint]\nesi = \"servo.xml\"\n[types.gauge]\nesi = \"terminals.xml\"\ndevice = \"gauge\"\n\
         [types.contacts]\nesi = \"terminals.xml\"\nproduct = 0x20\n\
         [[devices]]\ntype = \"joint\"\nnames = [\"hip\", \"knee\"]\n[[devices]]\ntype = \"contacts\"\nname = \"foot\"\n\
         [[devices]]\ntype = \"gauge\"\nname = \"sole\"\n",
    );
    let mut segment = Segment::from_description(&description).unwrap();
    let (mut tx, mut rx, main_device) = main_device();
    let wire = Wire::new(&mut segment);
    let up = async {
        let group = main_device.init_single_group::<8, 256>(|| wire.now_ns.get()).await?;
        let group = group.into_safe_op(&main_device).await?;
        group.into_op(&main_device).await
    };

    let group = wire.run(&mut tx, &mut rx, up).expect("all devices reach OP");
    let lengths: Vec<(usize, usize)> = group
        .iter(&main_device)
        .map(|device| (device.outputs_raw().len(), device.inputs_raw().len()))
        .collect();
    // The gauge has one bit, a gap of seven, and 16 bits of force; its long PDO is not assigned.
    assert_eq!(lengths, [(8, 12), (8, 12), (1, 1), (0, 3)]);
    for cycle in 0..1_000 {
        wire.now_ns.set(wire.now_ns.get() + 900_000);
        let seen = wire.run(&mut tx, &mut rx, group.tx_rx(&main_device)).expect("a cycle");
        assert_eq!((cycle, seen.working_counter), (cycle, 3 + 3 + 3 + 1));
    }

    let layout = Layout::from_description(&description).unwrap();
    let kinds: Vec<DeviceKind> = layout.devices.iter().map(|device| device.kind).collect();
    assert_eq!(
        kinds,
        [DeviceKind::Drive, DeviceKind::Drive, DeviceKind::Digital, DeviceKind::Analogue]
    );
    assert_eq!((layout.output_bytes, layout.input_bytes), (17, 28));
    assert_eq!(layout.devices[3].input_at(0x6000, 1), Some(26));
}

#[test]
fn a_drive_from_an_esi_file_can_be_enabled_and_follows_its_target() {
    let mut world = world(&one("esi = \"servo.xml\""));
    world.bring_up(0x1001, 128, 0);
    let mut image = [0u8; 12];
    for controlword in [6u16, 7, 15] {
        image[..2].copy_from_slice(&controlword.to_le_bytes());
        for _ in 0..3 {
            world.wait_ns(1_000_000);
            world.logical(Command::Lrw, 0, &image);
        }
    }

    let mut seen = Vec::new();
    for step in 1..=1_000i32 {
        image[2..6].copy_from_slice(&(step * 4).to_le_bytes());
        world.wait_ns(990_000);
        seen = world.logical(Command::Lrw, 0, &image).data;
    }

    assert_eq!(u16::from_le_bytes([seen[0], seen[1]]) & 0x6f, 0x27, "operation enabled");
    let position = i32::from_le_bytes([seen[2], seen[3], seen[4], seen[5]]);
    assert!((position - 4_000).abs() < 400, "{position}");
}

#[test]
fn objects_of_the_dictionary_have_their_types_access_rights_and_values() {
    let mut world = world(&one("esi = \"servo.xml\""));
    world.set_up(0x1001, 128, 0);
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.upload(0x1001, 0x2000, 0), Ok(vec![3]));
    assert_eq!(world.upload(0x1001, 0x2000, 2), Ok(0x1122_3344u32.to_le_bytes().to_vec()));
    assert_eq!(world.upload(0x1001, 0x2000, 3), Ok(vec![0; 4]));
    assert_eq!(world.upload(0x1001, 0x2001, 1), Ok(vec![7, 0]));
    assert_eq!(world.upload(0x1001, 0x2001, 5), Ok(b"A-017".to_vec()));
    assert_eq!(
        world.upload(0x1001, 0x2001, 2),
        Err(0x0609_0011),
        "subindexes in between do not exist"
    );
    assert_eq!(world.download(0x1001, 0x2001, 1, &[9, 0]), Ok(()));
    assert_eq!(world.download(0x1001, 0x2001, 5, b"B"), Err(0x0601_0002));
    assert_eq!(world.download(0x1001, 0x2000, 1, &[1, 0, 0, 0]), Ok(()));

    for state in [4, 8] {
        assert_eq!(world.ask_state(0x1001, state), (state, 0));
    }

    assert_eq!(
        world.download(0x1001, 0x2000, 1, &[1, 0, 0, 0]),
        Err(0x0800_0022),
        "writable only in PREOP"
    );
}

#[test]
fn other_devices_have_the_inputs_that_were_set_and_the_outputs_that_were_sent() {
    let mut world = world(&one("esi = \"terminals.xml\"\ndevice = \"four-in-four-out\""));
    // The outputs of this device are below process memory, and it has no mailbox.
    world.sync_manager(0x1001, 0, (0x0f00, 1, 0x44));
    world.sync_manager(0x1001, 1, (0x1000, 1, 0x00));
    world.fmmu(0x1001, 0, 0, (1, 0x0f00, 2));
    world.fmmu(0x1001, 1, 0, (1, 0x1000, 1));

    for state in [2, 4, 8] {
        assert_eq!(world.ask_state(0x1001, state), (state, 0));
    }

    assert!(
        world.segment.set_value(0, 0x6000, 2, &[1]) && world.segment.set_value(0, 0x6000, 17, &[1])
    );
    for _ in 0..2 {
        world.wait_ns(1_000_000);
        let answer = world.logical(Command::Lrw, 0, &[0b1010]);
        assert_eq!(answer.count, 3);
    }

    world.wait_ns(1_000_000);
    assert_eq!(world.logical(Command::Lrw, 0, &[0b1010]).data, [0b1_0010]);
    let outputs: Vec<&[u8]> =
        (1..=4).map(|entry| world.segment.value(0, 0x7000, entry).unwrap()).collect();
    assert_eq!(outputs, [[0], [1], [0], [1]]);
}

#[test]
fn the_newest_of_several_revisions_is_used_unless_one_is_selected() {
    let revision = |keys: &str| {
        let keys = format!("esi = \"terminals.xml\"\n{keys}");
        Layout::from_description(&one(&keys)).unwrap().devices[0].revision
    };

    assert_eq!(revision("device = \"gauge\""), 2);
    assert_eq!(revision("device = \"gauge\"\nrevision = 1"), 1);
    assert_eq!(revision("device = \"Gauge, first revision\""), 1);
    assert_eq!(revision("product = 0x21"), 2);
    let all = Description::from_esi(TERMINALS.as_bytes(), "terminals.xml", &[]).unwrap();
    let names: Vec<String> = Layout::from_description(&all)
        .unwrap()
        .devices
        .iter()
        .map(|one| one.name.clone())
        .collect();

    assert_eq!(names, ["four-in-four-out", "gauge"]);
    let twice =
        Description::from_esi(TERMINALS.as_bytes(), "t", &["gauge".to_owned(), "gauge".to_owned()])
            .unwrap();
    assert_eq!(Segment::from_description(&twice).unwrap().len(), 2);
}

#[test]
fn excluded_pdos_or_a_missing_mandatory_one_keep_a_device_from_safeop() {
    // Assigned: 1A00, which is mandatory, and the long force instead of the short one.
    for (assigned, bytes, fits) in [
        (&[0x1a00u16, 0x1a02][..], 9, true),
        (&[0x1a00, 0x1a01], 3, true),
        (&[0x1a01, 0x1a02, 0x1a00], 11, false),
        (&[0x1a01], 2, false),
    ] {
        let mut world = world(&one("esi = \"terminals.xml\"\ndevice = \"gauge\""));
        world.sync_manager(0x1001, 0, (0x1000, 256, 0x26));
        world.sync_manager(0x1001, 1, (0x1200, 192, 0x22));
        assert_eq!(world.ask_state(0x1001, 2), (2, 0));
        let mut counter = 0;
        let mut download = |world: &mut World, subindex: u8, value: u16, size: usize| {
            counter = counter % 7 + 1;
            let mut mail = vec![10, 0, 0, 0, 0, 3 | counter << 4, 0x00, 0x20];
            mail.extend_from_slice(&[
                0x23 | (4 - size as u8) << 2,
                0x13,
                0x1c,
                subindex,
                value as u8,
                (value >> 8) as u8,
                0,
                0,
            ]);
            mail.resize(256, 0);

            assert_eq!(world.write(0x1001, 0x1000, &mail), 1);
            assert_eq!(world.read(0x1001, 0x1200, 192).data[8], 0x60);
        };
        download(&mut world, 0, 0, 1);
        for (subindex, pdo) in (1..).zip(assigned) {
            download(&mut world, subindex, *pdo, 2);
        }
        download(&mut world, 0, assigned.len() as u16, 1);
        world.sync_manager(0x1001, 3, (0x1c00, bytes, 0x20));
        let expected = if fits { (4, 0) } else { (2 | 0x10, 0x001e) };
        assert_eq!(world.ask_state(0x1001, 4), expected, "{assigned:x?}");
    }
}

#[test]
fn an_invalid_esi_file_gives_a_sentence_with_the_line() {
    let cases = [
        (
            "<Id>#xF1C71005</Id>",
            "<Id>nobody</Id>",
            "line 5: <Id> is \"nobody\", expected a number up to 4294967295",
        ),
        ("ProductCode=\"#x00001003\"", "", "it has no <Device> with a ProductCode"),
        ("<Index>#x1600</Index>", "", "<RxPdo> lacks <Index>"),
        (
            "RxPdo Sm=\"2\"",
            "RxPdo Sm=\"1\"",
            "is assigned to SyncManager 1, which is not for outputs",
        ),
        (
            "<BitLen>32</BitLen><Name>Target position",
            "<BitLen>16</BitLen><Name>Target position",
            "maps 0x607a:0 with 16 bits, the object has 32",
        ),
        (
            "DefaultSize=\"128\" StartAddress=\"#x1000\"",
            "StartAddress=\"#x1000\"",
            "<Sm> lacks the attribute DefaultSize",
        ),
        (
            "DefaultSize=\"128\" StartAddress=\"#x1080\"",
            "DefaultSize=\"9000\" StartAddress=\"#x1080\"",
            "is a mailbox of 9000 bytes",
        ),
        ("<EtherCATInfo Version=\"1.6\">", "<EtherCATInfo><", "it is not valid XML"),
        ("EtherCATInfo", "EtherCATConfig", "this is an ENI file, of a network: onbeat bus import"),
    ];
    for (original, replacement, expected) in cases {
        let changed = SERVO.replace(original, replacement);
        assert_ne!(changed, SERVO, "{original}");
        let said = error_of(&changed);
        assert!(said.contains(expected), "{said}");
        assert!(said.starts_with("the ESI file a.xml cannot be used: "), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn an_object_of_the_dictionary_that_cannot_be_read_is_left_out_with_a_note() {
    let changed =
        SERVO.replace("<DefaultData>92010200</DefaultData>", "<DefaultData>9201x</DefaultData>");
    let description = Description::from_esi(changed.as_bytes(), "a.xml", &[]).unwrap();
    let warnings = description.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("<DefaultData> is \"9201x\", expected pairs of hexadecimal digits; the object is left out"),
        "{warnings:?}"
    );
    assert_eq!(Layout::from_description(&description).unwrap().input_bytes, 12);
}

#[test]
fn a_selector_that_matches_no_device_or_several_lists_the_devices() {
    let why = |keys: &str| {
        let text = format!("[types.t]\n{keys}\n[[devices]]\ntype = \"t\"\nname = \"a\"\n");
        Description::from_toml_with(&text, |_| Ok(TERMINALS.into())).unwrap_err().to_string()
    };

    let none = why("esi = \"t.xml\"\ndevice = \"pump\"");
    assert!(
        none.contains("it has no device \"pump\"; it has \"four-in-four-out\" (product 0x20, revision 0x10000)"),
        "{none}"
    );
    let several = why("esi = \"t.xml\"");

    assert!(
        several.contains("the file matches several devices; add device (a type or name), product"),
        "{several}"
    );
    let second = TERMINALS.replace("\"#x2\">gauge", "\"#x1\">gauge");
    assert_ne!(second, TERMINALS);
    let text =
        "[types.t]\nesi = \"t.xml\"\ndevice = \"gauge\"\n[[devices]]\ntype = \"t\"\nname = \"a\"\n";
    let alike = Description::from_toml_with(text, |_| Ok(second.clone().into_bytes()))
        .unwrap_err()
        .to_string();
    assert!(alike.matches("\" in line ").count() == 2, "{alike}");
    let twice = why("esi = \"t.xml\"\nports = 3");
    assert!(twice.contains("comes from an ESI file, which defines its ports"), "{twice}");
    let text = "[types.t]\nesi = \"t.xml\"\n[[devices]]\ntype = \"t\"\nname = \"a\"\n";
    let alone = Segment::from_toml(text).unwrap_err().to_string();

    assert!(
        alone.contains(
            "cannot read t.xml: the segment's text was given without the files that it refers to"
        ),
        "{alone}"
    );
    let neither = Segment::from_toml("[types.t]\n[[devices]]\ntype = \"t\"\nname = \"a\"\n")
        .unwrap_err()
        .to_string();
    assert!(neither.contains("type \"t\" has neither `kind` nor `esi`"), "{neither}");
}

#[test]
fn files_in_an_older_encoding_and_files_that_name_esi_files_are_read() {
    let latin = SERVO.replace("knee", "Gelenk \u{fc}ber").replace("utf-8", "ISO-8859-1");
    let bytes: Vec<u8> = latin.chars().map(|letter| letter as u8).collect();
    let mut segment =
        Segment::from_description(&Description::from_esi(&bytes, "a.xml", &[]).unwrap()).unwrap();
    segment.advance(Instant::from_ns(1));
    let sii = Sii::decode(&eeprom(&mut {
        let mut world = World::new(segment);
        world.address_all();
        world
    }))
    .unwrap();

    assert_eq!(sii.name, "Gelenk \u{fc}ber");
    let file = folder().join("line.toml");
    let layout = Layout::from_description(&Description::from_file(&file).unwrap()).unwrap();
    assert_eq!(
        layout.devices.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["hip", "sole"]
    );
    assert_eq!(
        Layout::from_description(&Description::from_file(&folder().join("servo.xml")).unwrap())
            .unwrap()
            .devices
            .len(),
        1
    );
}
