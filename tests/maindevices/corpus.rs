//! Generated devices of ESI files, with chosen PDOs and filled slots, for every MainDevice.

use std::path::Path;

use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess};
use onbeat_rt::time::{Clock, Instant, MockClock};
use onbeat_segment::{Description, Link};
use serde_json::{Value, json};

/// A device of the corpus: its name, the keys of its type, its ESI file, and its bytes of outputs
/// and inputs.
struct Case {
    name: &'static str,
    keys: &'static str,
    esi: String,
    bytes: (usize, usize),
}

const MAILBOXES: &str = "<Sm DefaultSize='128' StartAddress='#x1000' ControlByte='#x26' Enable='1'>MBoxOut</Sm>\
    <Sm DefaultSize='128' StartAddress='#x1080' ControlByte='#x22' Enable='1'>MBoxIn</Sm>\
    <Sm StartAddress='#x1100' ControlByte='#x64' Enable='1'>Outputs</Sm><Sm StartAddress='#x1800' ControlByte='#x20' Enable='1'>Inputs</Sm>";
const COE: &str = "<Mailbox><CoE SdoInfo='1' PdoAssign='1' PdoConfig='1'/></Mailbox>";

fn device(order: &str, body: &str) -> String {
    format!(
        "<Device Physics='YY'><Type ProductCode='#x51' RevisionNo='#x1'>{order}</Type><Name>{order}</Name>{body}</Device>"
    )
}

fn file(devices: &str, modules: &str) -> String {
    format!(
        "<EtherCATInfo><Vendor><Id>#x0e51</Id></Vendor><Descriptions><Devices>{devices}</Devices>{modules}</Descriptions></EtherCATInfo>"
    )
}

fn entry(index: &str, subindex: u32, bits: u32) -> String {
    format!(
        "<Entry><Index>{index}</Index><SubIndex>{subindex}</SubIndex><BitLen>{bits}</BitLen><Name>v{subindex}</Name></Entry>"
    )
}

fn pdo(word: &str, attributes: &str, index: &str, inner: &str) -> String {
    format!("<{word} {attributes}><Index>{index}</Index><Name>{index}</Name>{inner}</{word}>")
}

/// Devices without a mailbox.
fn plain() -> Vec<Case> {
    let outputs = |sm: u8, index: &str, object: &str, bits: u32| {
        pdo("RxPdo", &format!("Fixed='1' Sm='{sm}'"), index, &entry(object, 1, bits))
    };
    let inputs = |sm: u8, index: &str, object: &str, bits: u32| {
        pdo("TxPdo", &format!("Fixed='1' Sm='{sm}'"), index, &entry(object, 1, bits))
    };
    let sm = |at: &str, control: &str, word: &str| {
        format!("<Sm StartAddress='{at}' ControlByte='{control}' Enable='1'>{word}</Sm>")
    };
    let io = sm("#x1000", "#x44", "Outputs")
        + &sm("#x1100", "#x20", "Inputs")
        + &outputs(0, "#x1600", "#x7000", 8)
        + &inputs(1, "#x1a00", "#x6000", 24);
    let passive = "<Device Physics='YY'><Type>passive</Type><Name>terminal</Name></Device>";
    let two_areas = sm("#x1000", "#x44", "Outputs")
        + &sm("#x1001", "#x44", "Outputs")
        + &outputs(0, "#x1600", "#x7000", 8)
        + &outputs(1, "#x1601", "#x7010", 8);
    let odd_numbers = sm("#x1000", "#x20", "Inputs") + &inputs(0, "#x1a00", "#x0x6041", 16);
    let disabled = sm("#x1000", "#x20", "Inputs")
        + "<Sm StartAddress='#x0' ControlByte='#x0' Enable='0'>Outputs</Sm>"
        + &inputs(0, "#x1a00", "#x6000", 40);
    vec![
        Case {
            name: "beside a passive device",
            keys: "device = \"IO\"",
            esi: file(&(passive.to_owned() + &device("IO", &io)), ""),
            bytes: (1, 3),
        },
        Case {
            name: "two areas of outputs",
            keys: "",
            esi: file(&device("OUT", &two_areas), ""),
            bytes: (2, 0),
        },
        Case {
            name: "both prefixes of a number",
            keys: "",
            esi: file(&device("IN", &odd_numbers), ""),
            bytes: (0, 2),
        },
        Case {
            name: "a disabled SyncManager at 0",
            keys: "",
            esi: file(&device("IN", &disabled), ""),
            bytes: (0, 5),
        },
    ]
}

/// Devices with CoE, whose PDOs can be chosen.
fn with_coe() -> Vec<Case> {
    let pdos =
        pdo("RxPdo", "Sm='2'", "#x1600", &(entry("#x7000", 1, 16) + &entry("#x7000", 2, 32)))
            + &pdo(
                "RxPdo",
                "",
                "#x1601",
                &("<Exclude>#x1600</Exclude>".to_owned() + &entry("#x7000", 3, 8)),
            )
            + &pdo("RxPdo", "", "#x1602", &entry("#x7000", 4, 16))
            + &pdo("TxPdo", "Sm='3'", "#x1a00", &entry("#x6000", 1, 16))
            + &pdo(
                "TxPdo",
                "",
                "#x1a01",
                &(entry("#x6000", 2, 32) + &entry("#x6000", 3, 1) + &entry("0", 0, 7)),
            );
    let own = pdo("TxPdo", "Sm='3'", "#x1a00", &(entry("#x1a00", 1, 8) + &entry("#x6000", 1, 24)));
    let many: String = (0..190)
        .map(|number| {
            let sm = if number < 40 { "Sm='3' Fixed='1'" } else { "Fixed='1'" };
            pdo(
                "TxPdo",
                sm,
                &format!("#x{:x}", 0x1a00 + number),
                &entry(&format!("#x{:x}", 0x6000 + number), 1, 16),
            )
        })
        .collect();
    let servo = || file(&device("SV", &format!("{MAILBOXES}{pdos}{COE}")), "");
    vec![
        Case { name: "PDOs of the file", keys: "", esi: servo(), bytes: (6, 2) },
        Case {
            name: "chosen PDOs",
            keys: "pdos = [\"1601\", \"1602\", \"1a01\"]",
            esi: servo(),
            bytes: (3, 5),
        },
        Case {
            name: "no outputs chosen",
            keys: "pdos = [\"1a00\", \"1a01\"]",
            esi: servo(),
            bytes: (6, 7),
        },
        Case {
            name: "an entry that names its PDO",
            keys: "",
            esi: file(&device("IN", &format!("{MAILBOXES}{own}{COE}")), ""),
            bytes: (0, 4),
        },
        Case {
            name: "190 PDOs",
            keys: "",
            esi: file(&device("BIG", &format!("{MAILBOXES}{many}{COE}")), ""),
            bytes: (0, 80),
        },
    ]
}

/// Devices with CoE that are odd in one way each.
fn odd() -> Vec<Case> {
    let outputs = pdo("RxPdo", "Sm='2'", "#x1600", &entry("#x7000", 1, 16));
    let inputs = pdo("TxPdo", "Sm='3'", "#x1a00", &entry("#x6000", 1, 16));
    let body = |sync_managers: &str, pdos: &str, coe: &str| {
        file(&device("ODD", &format!("{MAILBOXES}{sync_managers}{pdos}{coe}")), "")
    };
    let third = "<Sm StartAddress='#x1900' ControlByte='#x20' Enable='1'>Inputs</Sm>";
    let second_inputs = pdo("TxPdo", "Sm='4'", "#x1a01", &entry("#x6010", 1, 24));
    let at_registers = "<Sm StartAddress='#x990' ControlByte='#x0' Enable='0'></Sm>\
        <Sm StartAddress='#x9ae' ControlByte='#x0' Enable='0'>Inputs</Sm>";
    let other_length = pdo("TxPdo", "Fixed='1'", "#x1a01", &entry("#x6000", 1, 8));
    let excludes_itself = "<Exclude>#x1a00</Exclude>".to_owned() + &entry("#x6000", 1, 32);
    let fourth_target = entry("#x6040", 0, 16) + &entry("#x607A", 4, 32) + &entry("#x6060", 0, 8);
    let command = COE.replace(
        "/></Mailbox>",
        "><InitCmd><Transition>PS</Transition><Index>#x7000</Index><SubIndex>1</SubIndex><Data>3412</Data></InitCmd></CoE></Mailbox>",
    );
    vec![
        Case {
            name: "two areas of inputs that do not follow each other",
            keys: "",
            esi: body(third, &format!("{inputs}{second_inputs}"), COE),
            bytes: (0, 5),
        },
        Case {
            name: "disabled SyncManagers on registers",
            keys: "",
            esi: body(at_registers, &format!("{outputs}{inputs}"), COE),
            bytes: (2, 2),
        },
        Case {
            name: "a virtual SyncManager and its PDO",
            keys: "",
            esi: body(
                "<Sm Virtual='1'>Inputs</Sm>",
                &format!("{inputs}{}", second_inputs.replace("<TxPdo ", "<TxPdo Virtual='1' ")),
                COE,
            ),
            bytes: (0, 2),
        },
        Case {
            name: "an unassigned PDO with another length of a value",
            keys: "",
            esi: body("", &format!("{outputs}{inputs}{other_length}"), COE),
            bytes: (2, 2),
        },
        Case {
            name: "a PDO that excludes itself",
            keys: "",
            esi: body("", &pdo("TxPdo", "Sm='3'", "#x1a00", &excludes_itself), COE),
            bytes: (0, 4),
        },
        Case {
            name: "a drive with a subindex that its profile does not have",
            keys: "",
            esi: body(
                "",
                &(pdo("RxPdo", "Sm='2'", "#x1600", &fourth_target)
                    + &pdo("TxPdo", "Sm='3'", "#x1a00", &entry("#x6041", 0, 16))),
                COE,
            ),
            bytes: (7, 2),
        },
        Case {
            name: "a start-up command of the file",
            keys: "",
            esi: body("", &format!("{outputs}{inputs}"), &command),
            bytes: (2, 2),
        },
    ]
}

/// Devices with slots for modules.
fn with_slots() -> Vec<Case> {
    let module = |ident: u32, name: &str, bits: u32| {
        let inner = format!(
            "<Index DependOnSlot='1'>#x1600</Index><Name>{name}</Name><Entry><Index DependOnSlot='1'>#x7000</Index><SubIndex>1</SubIndex><BitLen>{bits}</BitLen><Name>v</Name></Entry>"
        );
        format!(
            "<Module><Type ModuleIdent='{ident}'>{name}</Type><Name>{name}</Name><RxPdo Sm='2' Fixed='1'>{inner}</RxPdo></Module>"
        )
    };
    let slots = "<Slots MaxSlotCount='3' SlotPdoIncrement='1' SlotIndexIncrement='16'><Slot MinInstances='0' MaxInstances='3'><Name>Slot</Name>\
        <ModuleIdent>1</ModuleIdent><ModuleIdent>2</ModuleIdent></Slot></Slots>";
    let modular = file(
        &device("MDP", &format!("{MAILBOXES}{COE}{slots}")),
        &format!("<Modules>{}{}</Modules>", module(1, "small", 16), module(2, "large", 64)),
    );
    vec![
        Case {
            name: "filled slots",
            keys: "slots = [\"small\", \"large\", \"small\"]",
            esi: modular.clone(),
            bytes: (12, 0),
        },
        Case {
            name: "an empty slot",
            keys: "slots = [\"large\", \"\", \"large\"]",
            esi: modular,
            bytes: (16, 0),
        },
    ]
}

/// Writes the files of the corpus to a folder, brings each device to OP by onbeat's MainDevice, and
/// returns what another MainDevice needs to do the same.
pub(crate) fn written_to(folder: &Path) -> Vec<Value> {
    let mut listed = Vec::new();
    let cases = plain().into_iter().chain(with_coe()).chain(odd()).chain(with_slots());
    for (number, case) in cases.enumerate() {
        let esi = format!("{number}.xml");
        // Every third in UTF-16, as some tools write it.
        let bytes: Vec<u8> = if number % 3 == 2 {
            std::iter::once(0xfeff)
                .chain(case.esi.encode_utf16())
                .flat_map(u16::to_le_bytes)
                .collect()
        } else {
            case.esi.clone().into_bytes()
        };
        std::fs::write(folder.join(&esi), bytes).unwrap();
        let text = format!(
            "[types.t]\nesi = \"{esi}\"\n{}\n[[devices]]\ntype = \"t\"\nnames = [\"one\", \"two\"]\n",
            case.keys
        );
        let path = folder.join(format!("{number}.toml"));
        std::fs::write(&path, text).unwrap();
        let description =
            Description::from_file(&path).unwrap_or_else(|why| panic!("{}: {why}", case.name));
        let layout = Layout::from_description(&description)
            .unwrap_or_else(|why| panic!("{}: {why}", case.name));
        let first = &layout.devices[0];
        assert_eq!((first.outputs.len(), first.inputs.len()), case.bytes, "{}", case.name);
        let counter = 2 * (2 * u64::from(case.bytes.0 > 0) + u64::from(case.bytes.1 > 0));
        assert_eq!(u64::from(reached_by_onbeat(case.name, &description, &layout)), counter);

        let startup = first.setup.startup.iter().map(|value| {
            let hex: String = value.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!([value.index, value.entry, value.complete, hex])
        });
        listed.push(json!({
            "name": case.name, "file": path, "startup": startup.collect::<Vec<_>>(),
            "counter": counter, "outputs": case.bytes.0, "inputs": case.bytes.1,
        }));
    }
    listed
}

/// Returns the working counter of 50 cycles in OP, each of which has it.
fn reached_by_onbeat(name: &str, description: &Description, layout: &Layout) -> u16 {
    const MS: u64 = 1_000_000;
    let clock = MockClock::starting_at(Instant::from_ns(MS), |_| 0);
    let wire = InProcess::on_virtual_clock(Link::from_description(description).unwrap(), &clock);
    let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns: MS, follow_clock: false };
    let mut bus = Bus::bring_up(wire, Some(layout), options, "the segment")
        .unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
    let mut seen = Vec::new();
    for cycle in 0..250 {
        let _ = clock.sleep_until(next);
        let answer = bus.cycle(next, MS, &mut Nothing);
        next = next.plus_ns(MS);
        if cycle >= 200 {
            assert!(bus.is_up() && answer.fresh, "{name}: {answer:?}");
            seen.push(answer.working_counter);
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{name}: {seen:?}");
    seen[0]
}

struct Nothing;

impl onbeat_ethercat::step::Controller for Nothing {
    fn step(&mut self, _: &onbeat_ethercat::step::BusCycle, _: &[u8], _: &mut [u8]) {}
}
