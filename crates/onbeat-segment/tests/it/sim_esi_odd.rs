//! Devices of ESI files as vendors write them: odd, and legal. Each reaches OP with the lengths of
//! process data that its file says, or names what keeps it from there.
#![allow(clippy::panic)]

use crate::sim_wire;
use crate::sim_world;

use std::fmt::Write;

use onbeat_ethercat::layout::Layout;
use onbeat_segment::{Command, Description, Segment};
use proptest::prelude::*;
use sim_wire::{Wire, main_device};
use sim_world::World;

const MAILBOXES: &str = "<Sm DefaultSize='128' StartAddress='#x1000' ControlByte='#x26' Enable='1'>MBoxOut</Sm>\
    <Sm DefaultSize='128' StartAddress='#x1080' ControlByte='#x22' Enable='1'>MBoxIn</Sm>";
const COE: &str = "<Mailbox><CoE SdoInfo='1' PdoAssign='1' PdoConfig='1'/></Mailbox>";

fn file(devices: &str, modules: &str) -> String {
    format!(
        "<EtherCATInfo><Vendor><Id>#x0E51</Id></Vendor><Descriptions><Devices>\n{devices}\n</Devices>{modules}</Descriptions></EtherCATInfo>"
    )
}

fn entry(index: &str, subindex: u32, bits: u32) -> String {
    format!(
        "<Entry><Index>{index}</Index><SubIndex>{subindex}</SubIndex><BitLen>{bits}</BitLen><Name>v{subindex}</Name></Entry>"
    )
}

/// A device with two mailboxes, SyncManagers 2 and 3, and these PDOs.
fn with_mailboxes(order: &str, pdos: &str) -> String {
    format!(
        "<Device Physics='YY'><Type ProductCode='7' RevisionNo='1'>{order}</Type><Name>{order}</Name>{MAILBOXES}\
         <Sm StartAddress='#x1100' ControlByte='#x64' Enable='1'>Outputs</Sm><Sm StartAddress='#x1800' ControlByte='#x20' Enable='1'>Inputs</Sm>\
         {pdos}{COE}</Device>"
    )
}

fn described(keys: &str, esi: &[u8]) -> Result<Description, onbeat_segment::DescriptionError> {
    let text =
        format!("[types.t]\nesi = \"a.xml\"\n{keys}\n[[devices]]\ntype = \"t\"\nname = \"one\"\n");
    Description::from_toml_with(&text, |_| Ok(esi.to_vec()))
}

/// Bytes of outputs and inputs in the layout; an independent MainDevice finds the same ones and
/// exchanges them.
fn lengths_in_op(description: &Description) -> (usize, usize) {
    let layout = Layout::from_description(description).unwrap();
    let mut segment = Segment::from_description(description).unwrap_or_else(|why| panic!("{why}"));
    let (mut tx, mut rx, main_device) = main_device();
    let wire = Wire::new(&mut segment);
    let startup: Vec<_> =
        layout.devices.iter().map(|device| device.setup.startup.clone()).collect();
    let up = async {
        let group = main_device.init_single_group::<8, 4096>(|| wire.now_ns.get()).await?;
        for (device, values) in group.iter(&main_device).zip(&startup) {
            for value in values {
                match value.bytes[..] {
                    [one] => device.sdo_write(value.index, value.entry, one).await?,
                    [low, high] => {
                        device
                            .sdo_write(value.index, value.entry, u16::from_le_bytes([low, high]))
                            .await?;
                    }
                    [a, b, c, d] => {
                        let long = u32::from_le_bytes([a, b, c, d]);
                        device.sdo_write(value.index, value.entry, long).await?;
                    }
                    _ => unreachable!("start-up values of these tests have one, two or four bytes"),
                }
            }
        }
        let group = group.into_safe_op(&main_device).await?;
        group.into_op(&main_device).await
    };
    let group = wire.run(&mut tx, &mut rx, up).expect("the device reaches OP");
    let (outputs, inputs) = group
        .iter(&main_device)
        .map(|device| (device.outputs_raw().len(), device.inputs_raw().len()))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let expected = 2 * u16::from(outputs > 0) + u16::from(inputs > 0);
    for _ in 0..3 {
        wire.now_ns.set(wire.now_ns.get() + 900_000);
        let seen = wire.run(&mut tx, &mut rx, group.tx_rx(&main_device)).expect("a cycle");
        assert_eq!(seen.working_counter, expected, "{outputs} bytes out, {inputs} in");
    }
    assert_eq!((layout.output_bytes, layout.input_bytes), (outputs, inputs), "layout and device");
    (outputs, inputs)
}

fn lengths(keys: &str, esi: &str) -> (usize, usize) {
    lengths_in_op(&described(keys, esi.as_bytes()).unwrap_or_else(|why| panic!("{why}")))
}

#[test]
fn a_passive_device_without_product_code_is_passed_over() {
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let passive = "<Device Physics='K'><Type>COVER</Type><Name>bus cover</Name></Device>";
    let esi = file(&format!("{passive}{}", with_mailboxes("IN", &pdo)), "");
    assert_eq!(lengths("", &esi), (0, 1));
    let named = described("device = \"COVER\"", esi.as_bytes()).unwrap_err().to_string();
    assert!(named.contains("it has no device \"COVER\"; it has \"IN\""), "{named}");
    let alone = described("", file(passive, "").as_bytes()).unwrap_err().to_string();
    assert!(alone.contains("no <Device> with a ProductCode"), "{alone}");
}

#[test]
fn a_number_that_is_left_empty_is_none() {
    let pdo = entry("#x6000", 0, 8).replace("<SubIndex>0</SubIndex>", "<SubIndex/>");
    let pdos = format!(
        "<TxPdo Sm='3'><Index>#x1a00</Index>{pdo}</TxPdo><TxPdo Sm=''><Index>#x1a01</Index>{pdo}</TxPdo>"
    );
    let device = with_mailboxes("EMPTY", &pdos).replace("'#x1800'", "'#x1800' DefaultSize=''");
    assert_eq!(lengths("", &file(&device, "")), (0, 1));
    let unnumbered = file(&device.replace("ProductCode='7'", "ProductCode=''"), "");
    let said = described("", unnumbered.as_bytes()).unwrap_err().to_string();
    assert!(said.contains("<Type> lacks the number of its ProductCode"), "{said}");
}

#[test]
fn mailboxes_without_a_word_about_their_protocols_have_coe() {
    // As `ethercat xml` of IgH writes a device: SyncManagers without text, no <Mailbox>.
    let pdo = entry("#x6000", 1, 8);
    let pdo = format!("<TxPdo Sm='3' Fixed='1' Mandatory='1'><Index>#x1a00</Index>{pdo}</TxPdo>");
    let mut device = with_mailboxes("IN", &pdo).replace(COE, "");
    for usage in ["MBoxOut", "MBoxIn", "Outputs", "Inputs"] {
        device = device.replace(&format!(">{usage}<"), "><");
    }
    let keys = "[[types.t.startup]]\nobject = \"2000:1\"\nvalue = \"7u8\"";
    assert_eq!(lengths(keys, &file(&device, "")), (0, 1), "the start-up value is taken");
}

#[test]
fn further_axes_of_a_drive_are_a_warning() {
    let axis = |shift: u32| {
        let object = |index: u32, bits| entry(&format!("#x{:x}", index + shift), 0, bits);
        let outputs = object(0x6040, 16) + &object(0x607a, 32);
        let inputs = object(0x6041, 16) + &object(0x6064, 32);
        let (out, input) = (0x1600 + shift / 128, 0x1a00 + shift / 128);
        format!(
            "<RxPdo Sm='2'><Index>#x{out:x}</Index>{outputs}</RxPdo><TxPdo Sm='3'><Index>#x{input:x}</Index>{inputs}</TxPdo>"
        )
    };
    let warnings = |pdos: &str| {
        described("", file(&with_mailboxes("SV", pdos), "").as_bytes()).unwrap().warnings()
    };
    assert_eq!(warnings(&axis(0)), [] as [String; 0]);
    let said = warnings(&(axis(0) + &axis(0x800)));
    let wanted = "device \"SV\" has 2 axes (controlwords 0x6040, 0x6840); a robot moves the first, the others get no power";
    assert_eq!(said, [wanted]);
}

#[test]
fn increments_that_no_file_has_are_a_warning_for_real_drives() {
    let pdos = format!(
        "<RxPdo Sm='2'><Index>#x1600</Index>{}</RxPdo><TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>",
        entry("#x6040", 0, 16),
        entry("#x6041", 0, 16)
    );
    let esi = file(&with_mailboxes("SV", &pdos), "");
    let assumed = |keys: &str| described(keys, esi.as_bytes()).unwrap().assumed_increments();
    let said = assumed("").into_iter().collect::<String>();
    assert!(said.starts_with("type \"t\": 65536 increments per turn are assumed"), "{said}");
    assert!(assumed("[types.t.drive]\nincrements = 131072").is_empty());
}

#[test]
fn further_parts_of_a_device_are_a_note() {
    let esi = file(
        "<Device Physics='YY'><Type ProductCode='5' RevisionNo='0'>JN</Type><SubDevice ProductCode='5' RevisionNo='1'/><Name>j</Name></Device>",
        "",
    );
    let said = described("", esi.as_bytes()).unwrap().warnings();
    assert_eq!(said.len(), 1, "{said:?}");
    let part =
        "on the cable it is 2 devices (SubDevice): list those of product 5 revision 1 as well";
    assert!(said[0].contains(part), "{said:?}");
}

#[test]
fn a_junction_without_its_second_port_keeps_the_numbers_of_the_others() {
    let esi = file(
        "<Device Physics='Y YY'><Type ProductCode='5'>JN</Type><Name>junction</Name></Device>",
        "",
    );
    let behind = |port: u8| {
        format!("[[devices]]\ntype = \"io\"\nname = \"x{port}\"\nafter = \"j\"\nport = {port}\n")
    };
    let layout = |first: u8, second: u8| {
        let text = format!(
            "[types.jn]\nesi = \"a.xml\"\n[types.io]\nkind = \"digital\"\n[[devices]]\ntype = \"jn\"\nname = \"j\"\n{}{}",
            behind(first),
            behind(second)
        );
        let described = Description::from_toml_with(&text, |_| Ok(esi.clone().into_bytes()));
        described.and_then(|description| Layout::from_description(&description))
    };
    let names: Vec<String> =
        layout(2, 3).unwrap().devices.into_iter().map(|device| device.name).collect();
    assert_eq!(names, ["j", "x3", "x2"], "a frame passes port 3 first");
    let said = layout(1, 2).unwrap_err().to_string();
    assert!(said.contains("no free port at \"j\", which has 3 ports"), "{said}");
}

#[test]
fn every_sync_manager_of_a_direction_has_its_own_bytes() {
    let pdo = |sm: u32| {
        let entry = entry(&format!("#x{:x}", 0x7000 + 16 * sm), 1, 8);
        format!("<RxPdo Sm='{sm}' Fixed='1'><Index>#x{:x}</Index>{entry}</RxPdo>", 0x1600 + sm)
    };
    let esi = file(
        &format!(
            "<Device Physics='KK'><Type ProductCode='2'>OUT</Type><Name>o</Name><Fmmu>Outputs</Fmmu><Fmmu>Outputs</Fmmu>\
             <Sm StartAddress='#xf00' ControlByte='#x44' Enable='1'>Outputs</Sm><Sm StartAddress='#xf01' ControlByte='#x44' Enable='1'>Outputs</Sm>{}{}</Device>",
            pdo(0),
            pdo(1)
        ),
        "",
    );
    assert_eq!(lengths("", &esi), (2, 0));

    // Each byte is the value of the PDO of its own SyncManager.
    let mut world =
        World::new(Segment::from_description(&described("", esi.as_bytes()).unwrap()).unwrap());
    world.address_all();
    for (number, start) in [(0, 0x0f00), (1, 0x0f01)] {
        world.sync_manager(0x1001, number, (start, 1, 0x44));
        world.fmmu(0x1001, number, u32::from(number), (1, start, 2));
    }
    for state in [2, 4, 8] {
        assert_eq!(world.ask_state(0x1001, state), (state, 0));
    }
    for _ in 0..2 {
        world.wait_ns(10_000_000);
        world.logical(Command::Lwr, 0, &[0x5a, 0xc3]);
    }
    world.wait_ns(10_000_000);
    assert_eq!(world.segment.value(0, 0x7000, 1), Some(&[0x5a][..]));
    assert_eq!(world.segment.value(0, 0x7010, 1), Some(&[0xc3][..]));
}

#[test]
fn a_sync_manager_of_the_second_area_that_is_not_set_up_keeps_the_device_from_safeop() {
    let pdo = |sm: u32| {
        let entry = entry(&format!("#x{:x}", 0x6000 + 16 * sm), 1, 8);
        format!("<TxPdo Sm='{sm}'><Index>#x{:x}</Index>{entry}</TxPdo>", 0x1a00 + sm)
    };
    let esi = file(
        &format!(
            "<Device Physics='KK'><Type ProductCode='2'>IN</Type><Name>i</Name>\
             <Sm StartAddress='#x1000' ControlByte='0' Enable='1'>Inputs</Sm><Sm StartAddress='#x1100' ControlByte='0' Enable='1'>Inputs</Sm>{}{}</Device>",
            pdo(0),
            pdo(1)
        ),
        "",
    );
    let mut world =
        World::new(Segment::from_description(&described("", esi.as_bytes()).unwrap()).unwrap());
    world.address_all();
    world.sync_manager(0x1001, 0, (0x1000, 1, 0));
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.ask_state(0x1001, 4), (0x12, 0x001e));
}

#[test]
fn a_pdo_that_is_not_assigned_may_map_a_part_of_a_value_and_cannot_be_assigned() {
    let pdos = format!(
        "<TxPdo Fixed='1'><Index>#x1a00</Index><Exclude>#x1a01</Exclude><Name>short</Name>{}</TxPdo>\
         <TxPdo Sm='3' Fixed='1'><Index>#x1a01</Index><Exclude>#x1a00</Exclude><Name>long</Name>{}</TxPdo>",
        entry("#x6010", 17, 16),
        entry("#x6010", 17, 32)
    );
    let esi = file(&with_mailboxes("COUNTER", &pdos), "");
    assert_eq!(lengths("", &esi), (0, 4));
    let both = described("pdos = [\"1a00\", \"1a01\"]", esi.as_bytes()).unwrap();
    let why = Layout::from_description(&both).unwrap_err().to_string();
    assert!(why.contains("PDOs 0x1a00 and 0x1a01 exclude each other (line 2"), "{why}");
}

#[test]
fn a_disabled_sync_manager_takes_no_part() {
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    for disabled in [
        "<Sm DefaultSize='0' StartAddress='#x0' ControlByte='#x4' Enable='0'>Outputs</Sm>",
        "<Sm StartAddress='#x990' ControlByte='#x0' Enable='0'>Outputs</Sm>",
        "<Sm StartAddress='#x9ae' ControlByte='#x0' Enable='0'></Sm>",
    ] {
        let device = with_mailboxes("SAFE", &pdo).replace(
            "<Sm StartAddress='#x1100' ControlByte='#x64' Enable='1'>Outputs</Sm>",
            disabled,
        );
        assert_eq!(lengths("", &file(&device, "")), (0, 1), "{disabled}");
    }
    let none = MAILBOXES.replace("'128'", "'0'").replace("Enable='1'", "Enable='0'");
    let device = with_mailboxes("NONE", &pdo).replace(MAILBOXES, &none).replace(COE, "");
    assert_eq!(lengths("", &file(&device, "")), (0, 1), "a mailbox without a length");
}

#[test]
fn process_data_without_room_for_three_buffers_are_a_warning() {
    let with = |count: u32| {
        let entries: String = (1..=count).map(|sub| entry("#x7000", sub, 32)).collect();
        let pdos = format!("<RxPdo Sm='2'><Index>#x1600</Index>{entries}</RxPdo>");
        let input = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
        let esi = file(&with_mailboxes("FULL", &format!("{pdos}{input}")), "");
        described("", esi.as_bytes()).unwrap().warnings()
    };
    assert_eq!(with(149), Vec::<String>::new());
    let wanted = "\"one\": the 600 bytes of SyncManager 2, in three buffers, reach to 0x1808, and SyncManager 3 begins at 0x1800: assign fewer PDOs";
    assert_eq!(with(150), [wanted]);
}

#[test]
fn a_virtual_sync_manager_and_a_virtual_pdo_exchange_nothing() {
    let device = with_mailboxes("VIRTUAL", "").replace(
        "<Mailbox>",
        &format!(
            "<Sm Virtual='1'>Inputs</Sm><TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>\
             <TxPdo Sm='4'><Index>#x1a01</Index>{}</TxPdo><TxPdo Sm='3' Virtual='true'><Index>#x1a02</Index>{}</TxPdo><Mailbox>",
            entry("#x6000", 1, 8),
            entry("#x6010", 1, 32),
            entry("#x6020", 1, 16)
        ),
    );
    let esi = file(&device, "");
    assert_eq!(lengths("", &esi), (0, 1));
    let warnings = described("", esi.as_bytes()).unwrap().warnings();
    for pdo in ["0x1a01", "0x1a02"] {
        let left_out = format!("PDO {pdo} is virtual; the device does not exchange it");
        assert!(warnings.iter().any(|warning| warning.contains(&left_out)), "{warnings:?}");
    }
}

#[test]
fn comments_before_a_text_and_values_of_any_type_are_read() {
    let object = |index: u32, kind: &str, bits: u32, value: &str| {
        format!(
            "<Object><Index><!-- own -->#x{index:x}</Index><Name>n</Name><Type>{kind}</Type><BitSize>{bits}</BitSize>\
             <Info><DefaultValue>{value}</DefaultValue></Info><Flags><Access>RW</Access></Flags></Object>"
        )
    };
    let objects = [
        object(0x2000, "REAL", 32, "0.5"),
        object(0x2001, "LREAL", 64, "-2"),
        object(0x2002, "BOOL", 1, "TRUE"),
    ];
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let profile = format!(
        "<Profile><Dictionary><Objects>{}</Objects></Dictionary></Profile>{pdo}",
        objects.concat()
    );
    let esi = file(&with_mailboxes("VALUES", &profile), "");
    let description = described("", esi.as_bytes()).unwrap();
    assert_eq!(description.warnings(), Vec::<String>::new());
    let segment = Segment::from_description(&description).unwrap();
    assert_eq!(segment.value(0, 0x2000, 0), Some(&0.5f32.to_le_bytes()[..]));
    assert_eq!(segment.value(0, 0x2001, 0), Some(&(-2f64).to_le_bytes()[..]));
    assert_eq!(segment.value(0, 0x2002, 0), Some(&[1][..]));
}

#[test]
fn values_of_one_name_are_those_of_their_subindices_in_every_dictionary() {
    let item = |number: u32, name: &str| {
        format!(
            "<SubItem><SubIdx>{number}</SubIdx><Name>{name}</Name><Type>UINT</Type><BitSize>16</BitSize></SubItem>"
        )
    };
    let default = |name: &str, data: &str| {
        format!(
            "<SubItem><Name>{name}</Name><Info><DefaultData>{data}</DefaultData></Info></SubItem>"
        )
    };
    let dictionary = |index: &str| {
        format!(
            "<Profile><Dictionary><DataTypes><DataType><Name>DT</Name><BitSize>64</BitSize>{}{}{}</DataType></DataTypes>\
             <Objects><Object><Index>{index}</Index><Name>o</Name><Type>DT</Type><Info>{}{}{}</Info></Object></Objects>\
             </Dictionary></Profile>",
            item(1, "Reserved"),
            item(2, "Reserved"),
            item(3, "Gain"),
            default("Reserved", "1100"),
            default("Reserved", "2200"),
            default("Gain", "3300")
        )
    };
    let elsewhere = "<Profile><DictionaryFile>AX5xxx/AX5101 Dict.xml</DictionaryFile></Profile>";
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let profiles = format!("{}{elsewhere}{}{pdo}", dictionary("#x2000"), dictionary("#x2800"));
    let esi = file(&with_mailboxes("NAMES", &profiles), "");
    let description = described("", esi.as_bytes()).unwrap();
    let segment = Segment::from_description(&description).unwrap();
    for index in [0x2000, 0x2800] {
        let values = [1, 2, 3].map(|number| segment.value(0, index, number));
        let low = [[0x11, 0], [0x22, 0], [0x33, 0]];
        assert_eq!(values, low.each_ref().map(|bytes| Some(&bytes[..])), "{index:#x}");
    }
    let warnings = description.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let part = "line 2: the objects in \"AX5xxx/AX5101 Dict.xml\" (DictionaryFile) are not read";
    assert!(warnings[0].contains(part), "{warnings:?}");
}

#[test]
fn complete_access_has_the_bits_of_a_record_where_the_file_places_them() {
    // As the settings of analogue terminals: flags, a gap, and a value.
    let item = |number: u32, kind: &str, bits: u32, at: u32| {
        let access = if number == 2 { "ro" } else { "rw" };
        format!(
            "<SubItem><SubIdx>{number}</SubIdx><Name>i{number}</Name><Type>{kind}</Type><BitSize>{bits}</BitSize>\
             <BitOffs>{at}</BitOffs><Flags><Access>{access}</Access></Flags></SubItem>"
        )
    };
    let items = [
        item(1, "BOOL", 1, 16),
        item(2, "BOOL", 1, 17),
        item(5, "BIT3", 3, 18),
        item(17, "INT", 16, 32),
    ]
    .concat();
    let profile = format!(
        "<Profile><Dictionary><DataTypes><DataType><Name>DT</Name><BitSize>48</BitSize>{items}</DataType></DataTypes>\
         <Objects><Object><Index>#x8000</Index><Name>o</Name><Type>DT</Type></Object></Objects></Dictionary></Profile>\
         <TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>",
        entry("#x6000", 1, 8)
    );
    let device = with_mailboxes("BITS", &profile).replace("<CoE ", "<CoE CompleteAccess='1' ");
    let description = described("", file(&device, "").as_bytes()).unwrap();
    let mut world = World::new(Segment::from_description(&description).unwrap());
    world.address_all();
    world.set_up(0x1001, 128, 0);
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));

    let mut write = vec![0x31, 0x00, 0x80, 0, 6, 0, 0, 0];
    write.extend_from_slice(&[17, 0, 0b1_0111, 0, 0x34, 0x12]);
    assert_eq!(world.sdo(0x1001, &write)[0], 0x60, "what is read-only is ignored");
    for (entry, value) in [(1, &[1][..]), (2, &[0][..]), (5, &[5][..]), (17, &[0x34, 0x12][..])] {
        assert_eq!(world.segment.value(0, 0x8000, entry), Some(value), "{entry}");
    }
    let read = world.sdo(0x1001, &[0x50, 0x00, 0x80, 0, 0, 0, 0, 0]);
    assert_eq!(read[4..], [6, 0, 0, 0, 17, 0, 0b1_0101, 0, 0x34, 0x12]);
    let read = world.sdo(0x1001, &[0x50, 0x00, 0x80, 1, 0, 0, 0, 0]);
    assert_eq!(read[..8], [0x53, 0x00, 0x80, 1, 0b1_0101, 0, 0x34, 0x12]);
}

#[test]
fn a_name_longer_than_a_mail_is_cut_in_the_description_of_its_object() {
    let pdo = format!(
        "<TxPdo Sm='3'><Index>#x1a00</Index><Name>{}</Name>{}</TxPdo>",
        "n".repeat(200),
        entry("#x6000", 1, 8)
    );
    let description = described("", file(&with_mailboxes("NAME", &pdo), "").as_bytes()).unwrap();
    let mut world = World::new(Segment::from_description(&description).unwrap());
    world.address_all();
    world.set_up(0x1001, 128, 0);
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert!(world.mail(0x1001, &[0x00, 0x80, 3, 0, 0, 0, 0x00, 0x1a]));
    let mail = world.fetch(0x1001).unwrap();
    assert_eq!((mail.len(), &mail[12..14]), (122, &b"nn"[..]), "all of a mailbox of 128 bytes");
}

#[test]
fn samples_within_a_cycle_and_swapped_bytes_are_notes() {
    let swapped = entry("#x6000", 1, 16)
        .replace("</Entry>", "<DataType SwapData='1'>UINT</DataType></Entry>");
    let pdos = format!(
        "<TxPdo Sm='3' OSFac='20' OSMax='100' OSIndexInc='16'><Index>#x1a00</Index>{swapped}</TxPdo>\
         <TxPdo OSFac='4'><Index>#x1a01</Index>{e}</TxPdo><TxPdo Sm='3' OSFac='1'><Index>#x1a02</Index>{e}</TxPdo>",
        e = entry("#x6001", 1, 16)
    );
    let esi = file(&with_mailboxes("SAMPLES", &pdos), "");
    assert_eq!(lengths("", &esi), (0, 4));
    let said = described("", esi.as_bytes()).unwrap().warnings().concat();
    assert!(said.contains("the bytes of \"v1\" are not swapped (SwapData)"), "{said}");
    assert!(said.contains("PDO 0x1a00 has 20 samples in a cycle (OSFac)"), "{said}");
    assert!(!said.contains("0x1a01") && !said.contains("0x1a02"), "{said}");
}

#[test]
fn start_up_commands_of_protocols_that_are_not_spoken_are_a_note() {
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let soe = "<Mailbox><SoE><InitCmd><Transition>PS</Transition><IDN>15</IDN><Data>0700</Data></InitCmd></SoE>";
    let device = with_mailboxes("SERCOS", &pdo).replace("<Mailbox>", soe);
    let warnings = described("", file(&device, "").as_bytes()).unwrap().warnings();
    assert!(warnings[0].contains("line 2: start-up commands by SoE are not sent"), "{warnings:?}");
}

#[test]
fn a_file_of_references_names_the_file_that_has_the_devices() {
    let esi = "<EtherCATInfo><InfoReference>drives.xml</InfoReference><Vendor><Id>2</Id></Vendor></EtherCATInfo>";
    let said = described("", esi.as_bytes()).unwrap_err().to_string();
    assert!(said.contains("refers to \"drives.xml\" (InfoReference); use that file"), "{said}");
}

#[test]
fn what_is_not_a_file_of_devices_is_named() {
    let page = b"<!DOCTYPE html><html><body>404 Not Found</body></html>";
    let cases = [
        (&b""[..], "it is empty"),
        (&b"\xef\xbb\xbf\r\n"[..], "it is empty"),
        (&page[..], "as a web page"),
        (&b"PK\x03\x04\x14\0\0\0"[..], "it is an archive"),
        (&b"[FileInfo]\r\nFileName=drive.eds\r\n"[..], "it is an EDS file"),
    ];
    for (bytes, part) in cases {
        let said = described("", bytes).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn names_in_windows_1252_are_read_without_control_characters() {
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let text = file(&with_mailboxes("K?HLER ?", &pdo), "");
    let mut letters = [0xdc, 0x80].into_iter();
    let bytes: Vec<u8> = text
        .bytes()
        .map(|byte| if byte == b'?' { letters.next().unwrap_or(byte) } else { byte })
        .collect();
    let layout = described("", &bytes).unwrap();
    let said = described("device = \"X\"", &bytes).unwrap_err().to_string();
    assert!(said.contains("\"KÜHLER €\""), "{said}");
    assert_eq!(lengths_in_op(&layout), (0, 1));

    let declared = |encoding: &str| {
        let declaration = format!("<?xml version='1.0' encoding='{encoding}' standalone='yes'?>");
        [declaration.as_bytes(), &bytes].concat()
    };
    for encoding in ["ISO8859-1", "iso_8859-15", "Latin-1", "ASCII"] {
        assert_eq!(lengths_in_op(&described("", &declared(encoding)).unwrap()), (0, 1));
    }

    // Letters of two bytes: read as windows-1252 they would be other names.
    for (encoding, from) in [("gb2312", "GB18030"), ("Shift_JIS", "CP932"), ("EUC-KR", "EUC-KR")] {
        let said = described("", &declared(encoding)).unwrap_err().to_string();
        let expected =
            format!("it is text in {encoding}, which is not read; convert it: iconv -f {from} ");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn entries_that_name_their_own_pdo_an_unknown_subindex_or_have_two_prefixes_are_process_data() {
    let own = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x1a00", 1, 32));
    assert_eq!(lengths("", &file(&with_mailboxes("OWN", &own), "")), (0, 4));
    let itself = format!(
        "<TxPdo Sm='3'><Index>#x1a00</Index><Exclude>#x1a00</Exclude>{}</TxPdo>",
        entry("#x0x6041", 0, 16)
    );
    let esi = file(&with_mailboxes("ITSELF", &itself), "");
    assert_eq!(lengths("", &esi), (0, 2));
    let layout = Layout::from_description(&described("", esi.as_bytes()).unwrap()).unwrap();
    assert_eq!(layout.devices[0].input_values[0].index, 0x6041);
    let drive = format!(
        "<RxPdo Sm='2'><Index>#x1600</Index>{}{}</RxPdo><TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>",
        entry("#x6040", 0, 16),
        entry("#x607A", 4, 32),
        entry("#x6041", 0, 16)
    );
    assert_eq!(lengths("", &file(&with_mailboxes("DRIVE", &drive), "")), (6, 2));
}

#[test]
fn a_value_has_the_data_type_of_its_entry_or_of_its_object() {
    let typed = |index: &str, kind: &str| {
        let kind = format!("<DataType>{kind}</DataType></Entry>");
        entry(index, 0, 16).replace("</Entry>", &kind)
    };
    let dictionary = "<Profile><Dictionary><DataTypes><DataType><Name>DT2000EN16</Name><BaseType>INT</BaseType>\
        <BitSize>16</BitSize></DataType></DataTypes><Objects><Object><Index>#x2000</Index><Name>o</Name>\
        <Type>DT2000EN16</Type><BitSize>16</BitSize></Object></Objects></Dictionary></Profile>";
    let entries = [("#x6000", "INT"), ("#x6001", "UINT"), ("#x2000", "DT2000EN16")];
    let entries = entries.map(|(index, kind)| typed(index, kind)).concat();
    // Without a data type: of the dictionary, and not known.
    let entries = [entries, entry("#x2000", 0, 16), entry("#x6002", 0, 16)].concat();
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{entries}</TxPdo>");
    let esi = file(&with_mailboxes("TYPES", &format!("{dictionary}{pdo}")), "");
    let layout = Layout::from_description(&described("", esi.as_bytes()).unwrap()).unwrap();
    let types = layout.devices[0].input_values.iter().map(|value| value.data_type);
    assert_eq!(types.collect::<Vec<_>>(), [3, 6, 3, 3, 0]);
}

/// A servo with a fixed and a free PDO of outputs.
fn servo() -> String {
    let pdos = format!(
        "<RxPdo Sm='2' Fixed='1'><Index>#x1701</Index><Exclude>#x1600</Exclude><Name>fixed</Name>{a}{b}{c}</RxPdo>\
         <RxPdo><Index>#x1600</Index><Exclude>#x1701</Exclude><Name>free</Name>{a}{b}{d}</RxPdo>\
         <TxPdo Sm='3'><Index>#x1a00</Index><Name>state</Name>{e}{f}</TxPdo>",
        a = entry("#x6040", 0, 16),
        b = entry("#x607A", 0, 32),
        c = entry("#x60FE", 1, 32),
        d = entry("#x6060", 0, 8),
        e = entry("#x6041", 0, 16),
        f = entry("#x6064", 0, 32),
    );
    file(&with_mailboxes("SERVO", &pdos), "")
}

#[test]
fn pdos_are_chosen_by_index_or_name_or_by_start_up_values() {
    assert_eq!(lengths("", &servo()), (10, 6));
    for keys in [
        "pdos = [\"1600\", \"1a00\"]",
        "pdos = [\"#x1600\", \"state\"]",
        "pdos = [\"free\"]",
        "startup = [{ object = \"1c12\", value = \"0u8\" }, { object = \"1c12:1\", value = \"0x1600u16\" }, { object = \"1c12\", value = \"1u8\" }]",
    ] {
        assert_eq!(lengths(keys, &servo()), (7, 6), "{keys}");
    }
    // As another MainDevice writes it: a PDO that is not assigned by default is mapped, then assigned.
    let mapped = "startup = [{ object = \"1c12\", value = \"0u8\" }, { object = \"1600\", value = \"0u8\" }, \
        { object = \"1600:1\", value = \"0x60400010u32\" }, { object = \"1600:2\", value = \"0x607a0020u32\" }, { object = \"1600\", value = \"2u8\" }, \
        { object = \"1c12:1\", value = \"0x1600u16\" }, { object = \"1c12\", value = \"1u8\" }]";
    assert_eq!(lengths(mapped, &servo()), (6, 6));
    // A choice replaces the start-up commands of the file for its SyncManager.
    let command = |object: &str, entry: u8, data: &str| {
        format!(
            "<InitCmd><Transition>PS</Transition><Index>#x{object}</Index><SubIndex>{entry}</SubIndex><Data>{data}</Data></InitCmd>"
        )
    };
    let with = |commands: &[String]| {
        let commands = commands.concat();
        servo().replace("PdoConfig='1'/>", &format!("PdoConfig='1'>{commands}</CoE>"))
    };
    let assigns = [command("1c12", 0, "00"), command("1c12", 1, "0117"), command("1c12", 0, "01")];
    assert_eq!(lengths("", &with(&assigns)), (10, 6));
    assert_eq!(lengths("pdos = [\"1600\"]", &with(&assigns)), (7, 6));
    // What they map is mapped before it is assigned: real devices refuse it afterwards.
    let maps = [(0, "00"), (1, "10004060"), (2, "20007a60"), (0, "02")];
    let maps = maps.map(|(entry, data)| command("1600", entry, data));
    let both = with(&[&maps[..], &assigns[..]].concat());
    assert_eq!(lengths("pdos = [\"1600\"]", &both), (6, 6));
    let description = described("pdos = [\"1600\"]", both.as_bytes()).unwrap();
    let layout = Layout::from_description(&description).unwrap();
    let written = layout.devices[0].setup.startup.iter();
    let written: Vec<_> = written.map(|value| (value.index, value.entry, value.bytes[0])).collect();
    let place = |wanted| written.iter().position(|value| *value == wanted).unwrap();
    let order = [(0x1c12, 0, 0), (0x1600, 0, 0), (0x1600, 0, 2), (0x1c12, 1, 0), (0x1c12, 0, 1)];
    assert!(order.map(place).is_sorted(), "{written:x?}");
    for (keys, why) in [
        (
            "pdos = [\"1601\"]",
            "the device has no PDO \"1601\"; it has 1701 \"fixed\", 1600 \"free\", 1a00 \"state\"",
        ),
        ("pdos = [\"1600\", \"1701\"]", "exclude each other"),
        ("pdos = [\"1600\", \"1600\"]", "lists \"1600\" twice"),
        ("startup = [{ object = \"1c12:1\", value = \"0x1655u16\" }]", "assigns PDO 0x1655"),
        ("startup = [{ object = \"1701:1\", value = \"0x60600008u32\" }]", "which is fixed"),
    ] {
        let description = described(keys, servo().as_bytes()).unwrap();
        let said = Layout::from_description(&description).unwrap_err().to_string();
        assert!(said.contains(why), "{keys}: {said}");
    }
}

#[test]
fn synchronization_types_of_a_clock_mode_are_a_warning_without_start_up_values() {
    let mode = "<Dc><OpMode><Name>DC</Name><AssignActivate>#x300</AssignActivate><Sm No='2'><SyncType>2</SyncType></Sm>\
        <Sm No='3'><SyncType>#x2</SyncType></Sm><Sm No='4'/></OpMode></Dc>";
    let pdo = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let esi = file(&with_mailboxes("SYNC", &format!("{pdo}{mode}")), "");
    let said = |keys: &str| described(keys, esi.as_bytes()).unwrap().warnings().concat();
    let of_mode = said("dc = \"DC\"");
    assert!(of_mode.contains("SyncType (line 2) is not written"), "{of_mode}");
    let written = "dc = \"DC\"\nstartup = [{ object = \"1c32:1\", value = \"2u16\" }]";
    assert!([said(written), said("")].iter().all(|said| !said.contains("SyncType")));
}

#[test]
fn of_mandatory_pdos_that_exclude_each_other_one_is_enough() {
    let pdo = |sm: &str, index: u32, other: u32, bits: u32| {
        let entry = entry("#x7000", index, bits);
        format!(
            "<RxPdo{sm} Fixed='1' Mandatory='1'><Index>#x160{index}</Index><Exclude>#x160{other}</Exclude>{entry}</RxPdo>"
        )
    };
    let pdos = format!("{}{}", pdo(" Sm='2'", 0, 1, 16), pdo("", 1, 0, 32));
    let esi = file(&with_mailboxes("EITHER", &pdos), "");
    assert_eq!(lengths("", &esi), (2, 0));
    assert_eq!(lengths("pdos = [\"1601\"]", &esi), (4, 0));
    let none = described("pdos = []", esi.as_bytes()).unwrap();
    let why = Layout::from_description(&none).unwrap_err().to_string();
    assert!(why.contains("is mandatory"), "{why}");
}

/// A device with two slots for axes; a module has a controlword.
fn modular() -> String {
    let device = format!(
        "<Device Physics='YY'><Type ProductCode='5'>TWO</Type><Name>two axes</Name>{MAILBOXES}\
         <Sm StartAddress='#x1800' ControlByte='#x64' Enable='1'>Outputs</Sm><Sm StartAddress='#x1c00' ControlByte='#x20' Enable='1'>Inputs</Sm>{COE}\
         <Slots MaxSlotCount='2' SlotPdoIncrement='16' SlotIndexIncrement='2048'><Slot MinInstances='1' MaxInstances='2'><Name>Axis</Name>\
         <ModuleIdent Default='1'>#x98</ModuleIdent><ModuleIdent>#x99</ModuleIdent></Slot></Slots></Device>"
    );
    let entry = "<Entry><Index DependOnSlot='1'>#x6040</Index><SubIndex>0</SubIndex><BitLen>16</BitLen></Entry>";
    let module = |ident: &str, name: &str, entries: &str| {
        format!(
            "<Module><Type ModuleIdent='{ident}'>{name}</Type><Name>{name}</Name><RxPdo Sm='2' Fixed='1'><Index DependOnSlot='1'>#x1600</Index>{entries}</RxPdo></Module>"
        )
    };
    let modules = [
        module("#x98", "csp", entry),
        module(
            "#x99",
            "csv",
            &format!(
                "{entry}<Entry><Index DependOnSlot='1'>#x60ff</Index><BitLen>32</BitLen></Entry>"
            ),
        ),
        module("#x9a", "brake", entry),
    ];
    file(&device, &format!("<Modules>{}</Modules>", modules.concat()))
}

#[test]
fn empty_slots_are_a_warning_and_filled_ones_shift_their_pdos_and_objects() {
    let empty = described("", modular().as_bytes()).unwrap();
    let warnings = empty.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("device \"TWO\": 2 slots are empty and exchange no data: \"Axis\" (csp, csv), \"Axis\" (csp, csv)"),
        "{warnings:?}"
    );

    let filled = described("slots = [\"csp\", \"#x99\"]", modular().as_bytes()).unwrap();
    let axes = "device \"TWO\" has 2 axes (controlwords 0x6040, 0x6840); a robot moves the first, the others get no power";
    assert_eq!(filled.warnings(), [axes]);
    assert_eq!(lengths_in_op(&filled), (8, 0));
    let layout = Layout::from_description(&filled).unwrap();
    let mapped: Vec<(u16, usize)> =
        layout.devices[0].output_values.iter().map(|value| (value.index, value.bit_at)).collect();
    assert_eq!(mapped, [(0x6040, 0), (0x6840, 16), (0x68ff, 32)]);

    let coupler = modular().replace("MaxSlotCount='2' ", "").replace(" Default='1'", "");
    let coupler = coupler.replace("MaxInstances='2'", "MaxInstances='254'");
    let listed = onbeat_ethercat::esi::list(coupler.as_bytes(), &[]).unwrap();
    let slots = &listed[0].device.as_ref().unwrap().slots;
    let filled = slots.iter().filter(|slot| slot.module.is_some()).count();
    assert_eq!((slots.len(), filled), (254, 1), "as many as it needs");

    let wrong =
        described("slots = [\"csp\", \"brake\"]", modular().as_bytes()).unwrap_err().to_string();
    assert!(wrong.contains("does not take the module \"brake\"; it takes csp, csv"), "{wrong}");
    let elsewhere = modular().replace("Modules>", "Groups>");
    let warnings = described("", elsewhere.as_bytes()).unwrap().warnings();
    assert!(
        warnings[0].contains("save the files that it refers to (InfoReference) beside it"),
        "{warnings:?}"
    );
    let refers = "<EtherCATInfo><InfoReference>Modules\\axes.xml</InfoReference>";
    let elsewhere = elsewhere.replacen("<EtherCATInfo>", refers, 1);
    let text = "[types.t]\nesi = \"vendor/a.xml\"\nslots = [\"csp\", \"csv\"]\n[[devices]]\ntype = \"t\"\nname = \"one\"\n";
    let beside = Description::from_toml_with(text, |name| match name {
        "vendor/a.xml" => Ok(elsewhere.clone().into_bytes()),
        "vendor/axes.xml" => Ok(modular().into_bytes()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    });
    assert_eq!(lengths_in_op(&beside.unwrap()), (8, 0));
    // As Beckhoff ships them: modules alone, in a folder beside the file.
    let modules = modular();
    let (_, modules) = modules.split_once("</Devices>").unwrap();
    let (modules, _) = modules.split_once("</Descriptions>").unwrap();
    let modules = format!("<EtherCATModule><Vendor><Id>2</Id></Vendor>{modules}</EtherCATModule>");
    let below = Description::from_toml_with(text, |name| match name {
        "vendor/a.xml" => Ok(elsewhere.clone().into_bytes()),
        "vendor/Modules/axes.xml" => Ok(modules.clone().into_bytes()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    });
    assert_eq!(lengths_in_op(&below.unwrap()), (8, 0));
    let said = onbeat_ethercat::esi::devices(modules.as_bytes(), &[]).unwrap_err().to_string();
    assert!(said.contains("use the ESI file that refers to it"), "{said}");
    let many = described("slots = [\"csp\", \"csp\", \"csp\"]", modular().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(many.contains("are 2, and `slots` names 3 modules"), "{many}");
}

#[test]
fn a_pdo_of_a_slot_excludes_pdos_of_its_own_slot_only() {
    // As in the CiA 402 sample of Beckhoff's tool: only the index of the PDO depends on the slot.
    let index = "<Name>csv</Name><RxPdo Sm='2' Fixed='1'><Index DependOnSlot='1'>";
    let esi = modular().replace(
        &format!("{index}#x1600</Index>"),
        &format!("{index}#x1601</Index><Exclude>#x1600</Exclude>"),
    );
    assert_eq!(lengths("slots = [\"csp\", \"csv\"]", &esi), (8, 0));
}

#[test]
fn modules_fit_by_the_class_of_a_slot_and_replace_pdos_that_are_left_to_them() {
    let by_class = modular()
        .replace(
            "<ModuleIdent Default='1'>#x98</ModuleIdent>",
            "<ModuleClass><Class>axis</Class><Name>Axes</Name></ModuleClass>",
        )
        .replace("ModuleIdent='#x98'", "ModuleIdent='#x98' ModuleClass='axis'");
    assert_eq!(lengths("slots = [\"csp\", \"csv\"]", &by_class), (8, 0));

    let own = format!(
        "{COE}<RxPdo Sm='2' OverwrittenByModule='1'><Index>#x1600</Index>{}</RxPdo>",
        entry("#x6040", 0, 16)
    );
    let by_group =
        modular().replace("</Slot>", "</Slot><ModulePdoGroup Alignment='8' RxPdo='#x1600'/>");
    let grouped = described("slots = [\"csp\", \"csp\"]", by_group.as_bytes()).unwrap();
    let said = grouped.warnings().concat();
    assert!(
        said.contains("<ModulePdoGroup> of <Slots> is not read; the PDOs of modules"),
        "{said}"
    );
    let by_group = modular().replace("DependOnSlot=", "DependOnSlotGroup=");
    let said = described("slots = [\"csp\"]", by_group.as_bytes()).unwrap_err().to_string();
    assert!(said.contains("<Index> depends on a slot group, which is not supported"), "{said}");
    let gap =
        modular().replace("<Index DependOnSlot='1'>#x60ff<", "<Index DependOnSlotGroup='1'>0<");
    assert_eq!(lengths("slots = [\"csp\", \"csv\"]", &gap), (8, 0));

    let left = modular().replace(COE, &own);
    assert_eq!(lengths("slots = [\"csv\"]", &left), (6, 0));
    assert_eq!(lengths("slots = [\"\", \"csv\"]", &left), (8, 0), "another index");
}

#[test]
fn an_error_names_device_element_and_line_and_only_when_the_device_is_used() {
    let good = format!("<TxPdo Sm='3'><Index>#x1a00</Index>{}</TxPdo>", entry("#x6000", 1, 8));
    let bad = with_mailboxes("BAD", "<TxPdo Sm='3'><Index>#xz</Index></TxPdo>")
        .replace("ProductCode='7'", "ProductCode='8'");
    let esi = file(&format!("{}\n{bad}", with_mailboxes("GOOD", &good)), "");
    assert_eq!(lengths("device = \"GOOD\"", &esi), (0, 1));
    let said = described("device = \"BAD\"", esi.as_bytes()).unwrap_err().to_string();
    assert!(said.contains("device \"BAD\": line 3: <Index> is \"#xz\""), "{said}");
}

#[test]
fn utf_16_files_and_thousands_of_entries_are_read() {
    let mut pdos = String::new();
    for number in 0..192 {
        let entries: String =
            (1..=12).map(|sub| entry(&format!("#x{:x}", 0x6000 + number), sub, 8)).collect();
        write!(pdos, "<TxPdo Sm='3'><Index>#x{:x}</Index>{entries}</TxPdo>", 0x1a00 + number)
            .unwrap();
    }
    let large = file(&with_mailboxes("LARGE", &pdos), "");
    let description = described("", large.as_bytes()).unwrap();
    let layout = Layout::from_description(&description).unwrap();
    assert_eq!((layout.input_bytes, layout.devices[0].input_values.len()), (2304, 2304));
    Segment::from_description(&description).unwrap_or_else(|why| panic!("{why}"));

    let wide: Vec<u16> = servo().encode_utf16().collect();
    let little = [0xff, 0xfe]
        .into_iter()
        .chain(wide.iter().flat_map(|unit| unit.to_le_bytes()))
        .collect::<Vec<u8>>();
    let big = [0xfe, 0xff]
        .into_iter()
        .chain(wide.iter().flat_map(|unit| unit.to_be_bytes()))
        .collect::<Vec<u8>>();
    for bytes in [&little[..], &big, &little[2..], &big[2..]] {
        assert_eq!(lengths_in_op(&described("", bytes).unwrap()), (10, 6));
    }
    let with_line_break = [&little[..], b"\n"].concat();
    assert_eq!(lengths_in_op(&described("", &with_line_break).unwrap()), (10, 6));
    let cut = described("", &little[..little.len() - 1]).unwrap_err().to_string();
    assert!(cut.contains("it is not valid XML"), "{cut}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// PDOs with any entries, gaps, exclusions and prefixes, a passive device before it, disabled
    /// SyncManagers after it: the lengths are the sums of the assigned entries, and the device
    /// reaches OP with them.
    #[test]
    fn any_legal_file_gives_the_lengths_of_its_assigned_pdos(
        inputs in prop::collection::vec((any::<bool>(), prop::collection::vec((0u8..4, 1u32..=32), 1..8)), 0..6),
        outputs in prop::collection::vec((any::<bool>(), prop::collection::vec((0u8..4, 1u32..=32), 1..8)), 0..4),
        passive: bool,
        trailing: bool,
        excludes_itself: bool,
    ) {
        let mut text = String::new();
        let mut bytes = [0, 0];
        for (direction, (pdos, tag, sm, base, object)) in
            [(&outputs, "RxPdo", 2, 0x1600, 0x7000), (&inputs, "TxPdo", 3, 0x1a00, 0x6000)].into_iter().enumerate()
        {
            let mut bits = 0;
            for (number, (assigned, entries)) in (0u32..).zip(pdos) {
                let sm = if *assigned { format!(" Sm='{sm}'") } else { String::new() };
                let index = base + number;
                let exclude = if excludes_itself { format!("<Exclude>#x{index:x}</Exclude>") } else { String::new() };
                let mut body = String::new();
                for (sub, (form, length)) in (1u32..).zip(entries) {
                    let value = object + number * 16;
                    let name = match form {
                        0 => "0".to_owned(),
                        1 => format!("#x{value:X}"),
                        2 => format!("#x0x{value:x}"),
                        _ => format!("{value}"),
                    };
                    body += &entry(&name, sub, *length);
                    if *assigned { bits += length; }
                }
                write!(text, "<{tag}{sm}><Index>#x{index:x}</Index>{exclude}{body}</{tag}>").unwrap();
            }
            bytes[direction] = bits.div_ceil(8) as usize;
        }
        let mut devices = String::new();
        if passive { devices += "<Device><Type>PASSIVE</Type><Name>p</Name></Device>"; }
        let mut device = with_mailboxes("ANY", &text);
        if trailing {
            device = device.replace("<Mailbox>", "<Sm StartAddress='0' ControlByte='4' Enable='0'>Outputs</Sm><Mailbox>");
        }
        devices += &device;
        prop_assert_eq!(lengths("", &file(&devices, "")), (bytes[0], bytes[1]));
    }
}

#[test]
fn keys_that_have_no_effect_are_refused_or_a_warning() {
    let with = |keys: &str| {
        let devices = "[[devices]]\ntype = \"t\"\nname = \"a\"\n";
        Description::from_toml(&format!("[types.t]\n{keys}\n{devices}"))
    };
    let esi = with("kind = \"drive\"\ndevice = \"SV-2\"").unwrap_err().to_string();
    assert!(esi.contains("has `device`, which needs an ESI file"), "{esi}");
    let drive = with("kind = \"digital\"\ndrive = { increments = 4096 }").unwrap().warnings();
    assert!(drive[0].contains("have no [types.t.drive]"), "{drive:?}");
    let far = with("kind = \"digital\"\ninputs = [\"6000:101\"]").unwrap();
    assert!(Segment::from_description(&far).is_err());
}

#[test]
fn devices_with_the_same_alias_are_a_warning_that_names_both() {
    let text = |first: u16, second: u16| {
        format!(
            "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"a\", \"b\"]\nalias = {first}\n\
             [[devices]]\ntype = \"j\"\nname = \"c\"\nalias = {second}\n"
        )
    };
    // Aliases of a table are consecutive: b has 6.
    let same = Description::from_toml(&text(5, 6)).unwrap().warnings();
    assert_eq!(same.len(), 1, "{same:?}");
    assert!(same[0].contains("devices \"b\" and \"c\" have the same alias 6"), "{same:?}");
    assert_eq!(Description::from_toml(&text(5, 7)).unwrap().warnings(), Vec::<String>::new());
    assert_eq!(Description::from_toml(&text(0, 0)).unwrap().warnings(), Vec::<String>::new());
}

#[test]
fn numbers_that_do_not_suffice_for_all_names_and_names_that_cannot_be_printed_are_refused() {
    let said = |keys: &str| {
        let text = format!("[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\n{keys}\n");
        Layout::from_toml(&text).unwrap_err().to_string()
    };
    // b would have 0: no alias, and no check of who it is.
    for keys in ["alias = 65535", "device_id = 65535", "serial = 4294967295"] {
        let why = said(&format!("names = [\"a\", \"b\"]\n{keys}"));
        let what = format!("type \"j\" has {keys}, which must be small enough for all names");
        assert!(why.contains(&what), "{why}");
    }
    let why = said("name = \"a\\u001b[2J\"");
    assert!(why.contains("has name = \"a\\u{1b}[2J\", which must be 1 to 64 bytes long"), "{why}");
}
