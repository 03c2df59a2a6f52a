//! ENI files as other tools export them become device files, with which segment and bus reach OP.

use crate::bus_world;

use std::fmt::Write as _;

use bus_world::{Idle, OPTIONS, VirtualClock, World, clock};
use onbeat_ethercat::eni::{DeviceFiles, NetworkError, NetworkInformation};
use onbeat_ethercat::layout::Layout;
use onbeat_segment::Description;

/// Kinds of devices of the files.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Coupler,
    DigitalOut,
    DigitalIn,
    Drive,
    /// A drive with SYNC0 and SYNC1.
    ClockedDrive,
    /// Lengths and registers of SyncManagers only, without PDOs.
    Bare,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Coupler,
        Self::DigitalOut,
        Self::DigitalIn,
        Self::Drive,
        Self::ClockedDrive,
        Self::Bare,
    ];

    /// Bytes of outputs and inputs.
    const fn bytes(self) -> (usize, usize) {
        match self {
            Self::Coupler => (0, 0),
            Self::DigitalOut => (1, 0),
            Self::DigitalIn => (0, 2),
            Self::Drive | Self::ClockedDrive => (6, 6),
            Self::Bare => (4, 3),
        }
    }
}

/// Writes an ENI file in the manner of TwinCAT.
#[derive(Default)]
struct File {
    slaves: String,
    variables: [String; 2],
    bits: [usize; 2],
    count: usize,
    /// Elements to add to each device.
    more: String,
}

impl File {
    fn add(&mut self, kind: Kind, before: Option<(usize, char)>) {
        let place = self.count;
        self.count += 1;
        let (out, input) = kind.bytes();
        let order = ["EK1", "DO8", "DI16", "SV1", "SV2", "GW"][kind as usize];
        let product = 0x100 + kind as u32;
        let station = 1001 + place;
        let auto = (65_536 - place) % 65_536;
        let _ = write!(
            self.slaves,
            "<Slave><Info><Name><![CDATA[Term {} ({order})]]></Name><PhysAddr>{station}</PhysAddr><AutoIncAddr>{auto}</AutoIncAddr>\
             <Physics>YYYY</Physics><VendorId>{}</VendorId><ProductCode>{product}</ProductCode><RevisionNo>65536</RevisionNo><SerialNo>0</SerialNo></Info>",
            place + 1,
            0x00f1_c700
        );
        self.process_data(kind, place);
        if matches!(kind, Kind::Drive | Kind::ClockedDrive) {
            self.slaves.push_str(
                "<Mailbox><Send><Start>4096</Start><Length>128</Length></Send><Recv><Start>4224</Start><Length>128</Length><PollTime>20</PollTime></Recv>\
                 <Protocol>CoE</Protocol><CoE><InitCmds>\
                 <InitCmd Fixed=\"1\" CompleteAccess=\"1\"><Transition>PS</Transition><Comment><![CDATA[download pdo 0x1C12]]></Comment><Timeout>0</Timeout>\
                 <Ccs>1</Ccs><Index>7186</Index><SubIndex>0</SubIndex><Data>01000016</Data></InitCmd>\
                 <InitCmd><Transition>PS</Transition><Comment><![CDATA[Op mode]]></Comment><Ccs>1</Ccs><Index>24672</Index><SubIndex>0</SubIndex><Data>08</Data></InitCmd>\
                 </InitCmds></CoE></Mailbox>",
            );
        }
        self.slaves.push_str("<InitCmds><InitCmd><Transition>IP</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>288</Ado><Data>0200</Data></InitCmd>");
        if kind == Kind::Bare {
            // SyncManagers 0 and 1: outputs at 0x1000, inputs at 0x1100.
            self.slaves.push_str("<InitCmd><Transition>PS</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>2048</Ado><Data>0010040064000100</Data></InitCmd>\
                <InitCmd><Transition>PS</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>2056</Ado><Data>0011030020000100</Data></InitCmd>");
        }
        if kind == Kind::ClockedDrive {
            self.slaves.push_str("<InitCmd><Transition>PS</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>2464</Ado><Data>40420f0030750000</Data></InitCmd>\
                <InitCmd><Transition>PS</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>2432</Ado><Data>0007</Data></InitCmd>");
        }
        self.slaves.push_str("</InitCmds>");
        if kind == Kind::ClockedDrive {
            self.slaves.push_str("<DC><PotentialReferenceClock>1</PotentialReferenceClock><CycleTime0>1000000</CycleTime0><CycleTime1>0</CycleTime1><ShiftTime>250000</ShiftTime></DC>");
        }
        if let Some((before, port)) = before {
            let _ = write!(
                self.slaves,
                "<PreviousPort Selected=\"1\"><Port>{port}</Port><PhysAddr>{}</PhysAddr></PreviousPort>",
                1001 + before
            );
        }
        self.slaves.push_str(&self.more);
        self.slaves.push_str("</Slave>");
        self.bits[0] += 8 * out;
        self.bits[1] += 8 * input;
    }

    fn process_data(&mut self, kind: Kind, place: usize) {
        let (out, input) = kind.bytes();
        let text = &mut self.slaves;
        if (out, input) == (0, 0) {
            return;
        }
        text.push_str("<ProcessData>");
        for (direction, (word, bytes)) in [("Send", out), ("Recv", input)].into_iter().enumerate() {
            if bytes > 0 {
                let at = self.bits[direction];
                let _ = write!(
                    text,
                    "<{word}><BitStart>{at}</BitStart><BitLength>{}</BitLength></{word}>",
                    8 * bytes
                );
                let _ = write!(
                    self.variables[direction],
                    "<Variable><Name>Term {}.Value</Name><DataType>UINT</DataType><BitSize>16</BitSize><BitOffs>{at}</BitOffs></Variable>",
                    place + 1
                );
            }
        }
        let sm = |number: u8, kind: &str, at: u16, control: u8, pdo: u16| {
            format!(
                "<Sm{number}><Type>{kind}</Type><StartAddress>{at}</StartAddress><ControlByte>{control}</ControlByte><Enable>1</Enable><Pdo>{pdo}</Pdo></Sm{number}>"
            )
        };
        let entry = |index: u16, sub: u8, bits: u8, kind: &str| {
            format!(
                "<Entry><Index>#x{index:x}</Index><SubIndex>{sub}</SubIndex><BitLen>{bits}</BitLen><Name>v{sub}</Name><DataType>{kind}</DataType></Entry>"
            )
        };
        match kind {
            Kind::DigitalOut => {
                let bits: String = (1..=8).map(|sub| entry(0x7000, sub, 1, "BOOL")).collect();
                text.push_str(&sm(0, "Outputs", 0x0f00, 0x44, 0x1600));
                let _ = write!(
                    text,
                    "<RxPdo Fixed=\"1\" Sm=\"0\"><Index>#x1600</Index><Name>Channels</Name>{bits}</RxPdo>"
                );
            }
            Kind::DigitalIn => {
                let bits: String = (1..=16).map(|sub| entry(0x6000, sub, 1, "BOOL")).collect();
                text.push_str(&sm(0, "Inputs", 0x1000, 0x20, 0x1a00));
                let _ = write!(
                    text,
                    "<TxPdo Fixed=\"1\" Sm=\"0\"><Index>#x1A00</Index><Name>Channels</Name>{bits}</TxPdo>"
                );
            }
            Kind::Drive | Kind::ClockedDrive => {
                text.push_str(&sm(2, "Outputs", 0x1800, 0x64, 0x1600));
                text.push_str(&sm(3, "Inputs", 0x1c00, 0x20, 0x1a00));
                let outputs = entry(0x6040, 0, 16, "UINT") + &entry(0x607a, 0, 32, "DINT");
                let inputs = entry(0x6041, 0, 16, "UINT") + &entry(0x6064, 0, 32, "DINT");
                let other = entry(0x60ff, 0, 32, "DINT");
                let _ = write!(
                    text,
                    "<RxPdo Sm=\"2\"><Index>#x1600</Index><Name>csp</Name><Exclude>#x1601</Exclude>{outputs}</RxPdo>\
                     <RxPdo><Index>#x1601</Index><Name>csv</Name><Exclude>#x1600</Exclude>{other}</RxPdo>\
                     <TxPdo Sm=\"3\"><Index>#x1A00</Index><Name>in</Name>{inputs}</TxPdo>"
                );
            }
            Kind::Coupler | Kind::Bare => {}
        }
        text.push_str("</ProcessData>");
    }

    fn text(&self) -> String {
        let [outputs, inputs] = &self.variables;
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<EtherCATConfig xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:noNamespaceSchemaLocation=\"EtherCATConfig.xsd\" Version=\"1.3\">\
             <Config><Master><Info><Name><![CDATA[Device 1 (EtherCAT)]]></Name><Destination>ffffffffffff</Destination><Source>001b21000000</Source><EtherType>a488</EtherType></Info>\
             <MailboxStates><StartAddr>150994944</StartAddr><Count>2</Count></MailboxStates>\
             <InitCmds><InitCmd><Transition>IP</Transition><Comment>read slave count</Comment><Cmd>7</Cmd><Adp>0</Adp><Ado>304</Ado><Data>0000</Data></InitCmd></InitCmds></Master>\
             {}<Cyclic><CycleTime>1000</CycleTime><Priority>1</Priority><TaskId>Task 1</TaskId><Frame><Cmd><State>OP</State><Cmd>12</Cmd><Addr>16777216</Addr><DataLength>4</DataLength><Cnt>3</Cnt></Cmd></Frame></Cyclic>\
             <ProcessImage><Inputs><ByteSize>1536</ByteSize>{inputs}</Inputs><Outputs><ByteSize>1536</ByteSize>{outputs}</Outputs></ProcessImage></Config></EtherCATConfig>\r\n",
            self.slaves
        )
    }
}

fn described(bytes: &[u8]) -> (NetworkInformation, DeviceFiles, Description) {
    let mut network = NetworkInformation::read(bytes).unwrap_or_else(|why| panic!("{why}"));
    let files =
        DeviceFiles::from_network(&mut network, "types.xml").unwrap_or_else(|why| panic!("{why}"));
    let description =
        Description::from_toml_with(&files.devices, |_| Ok(files.types.clone().into_bytes()))
            .unwrap_or_else(|why| panic!("{why}\n{}", files.devices));
    (network, files, description)
}

/// Runs the devices to OP, and 20 cycles with the exact working counter of those that are always there.
fn up(description: &Description) -> World<'static> {
    let clock: &'static VirtualClock = Box::leak(Box::new(clock()));
    let mut world = World::described(description, clock, OPTIONS);
    world.until_up(&mut Idle);
    let layout = Layout::from_description(description).unwrap();
    let counter = |device: &onbeat_ethercat::layout::DeviceLayout| {
        2 * u16::from(!device.outputs.is_empty()) + u16::from(!device.inputs.is_empty())
    };
    let expected: u16 = layout.devices[..layout.always_there()].iter().map(counter).sum();
    for _ in 0..20 {
        let cycle = world.cycle(&mut Idle);
        assert_eq!((cycle.working_counter, cycle.fresh), (expected, true), "{:?}", world.events);
    }
    // Optional groups come when the others are in OP.
    let missing = |world: &World<'_>| world.in_op() < layout.devices.len();
    for _ in (0..2_000).take_while(|_| !layout.groups.is_empty()) {
        if missing(&world) {
            world.cycle(&mut Idle);
        }
    }
    assert_eq!(world.in_op(), layout.devices.len());
    world
}

fn line(kinds: &[Kind]) -> File {
    let mut file = File::default();
    for (place, kind) in kinds.iter().enumerate() {
        file.add(*kind, place.checked_sub(1).map(|before| (before, 'B')));
    }
    file
}

#[test]
fn an_eni_file_with_every_kind_of_device_becomes_a_device_file_that_reaches_op() {
    let (network, files, description) = described(line(&Kind::ALL).text().as_bytes());
    assert_eq!(network.left_out, [], "{}", files.devices);
    assert_eq!((network.name.as_str(), network.cycle_ns), ("Device 1 (EtherCAT)", Some(1_000_000)));
    let layout = Layout::from_description(&description).unwrap();
    for (device, kind) in layout.devices.iter().zip(Kind::ALL) {
        assert_eq!((device.outputs.len(), device.inputs.len()), kind.bytes(), "{}", device.name);
    }
    assert_eq!(layout.devices[3].name, "Term 4 (SV1)");

    let mut world = up(&description);
    // Mode of operation by the start-up command, and the pulses of the clocked drive.
    assert_eq!(world.segment().value(3, 0x6060, 0).unwrap(), [8]);
    assert_eq!(world.registers(4, 0x0980, 2), [0x00, 0x07]);
    assert_eq!(world.registers(4, 0x09a0, 8), [0x40, 0x42, 0x0f, 0, 0x30, 0x75, 0, 0]);
    let next = world.registers(4, 0x0990, 8);
    let next = next.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    assert_eq!(next % 1_000_000, 250_000, "the shift of the file");
    assert_eq!(world.registers(3, 0x0980, 2), [0, 0], "the other drive has no pulses");
}

#[test]
fn encodings_byte_order_marks_and_namespaces_make_no_difference() {
    let text = line(&Kind::ALL).text();
    let expected = described(text.as_bytes()).1;
    let wide = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect()
    };
    let in_namespace = text.replace("<EtherCATConfig ", "<EtherCATConfig xmlns=\"urn:any\" ");
    let prefixed = text
        .replace("<EtherCATConfig ", "<e:EtherCATConfig xmlns:e=\"urn:any\" ")
        .replace("</EtherCATConfig>", "</e:EtherCATConfig>");
    let with_mark = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    for bytes in [
        with_mark,
        wide(u16::to_le_bytes),
        wide(u16::to_be_bytes),
        in_namespace.into_bytes(),
        prefixed.into_bytes(),
    ] {
        assert_eq!(described(&bytes).1, expected);
    }
}

#[test]
fn nothing_that_is_not_understood_passes_in_silence() {
    let mut file = line(&[Kind::Drive]);
    file.more = "<HotConnect><GroupName>tool</GroupName><GroupMemberCnt>1</GroupMemberCnt>\
        <IdentifyCmd><Cmd>1</Cmd><Adp>0</Adp><Ado>18</Ado><Data>e903</Data></IdentifyCmd></HotConnect>\
        <Gadget>7</Gadget>"
        .to_owned();
    file.add(Kind::DigitalOut, Some((0, 'B')));
    let text = file
        .text()
        .replace(
            "<Protocol>CoE</Protocol>",
            "<Protocol>CoE</Protocol><Protocol>EoE</Protocol><EoE><InitCmds/></EoE>",
        )
        .replace(
            "</InitCmds></CoE>",
            "<InitCmd><Transition>SO</Transition><Ccs>1</Ccs><Index>24831</Index><Data>00000000</Data></InitCmd>\
             <InitCmd><Transition>PS</Transition><Ccs>2</Ccs><Index>4120</Index><SubIndex>1</SubIndex><Data>00000000</Data></InitCmd>\
             </InitCmds></CoE>",
        )
        .replace(
            "<Cmd>5</Cmd><Adp>0</Adp><Ado>288</Ado><Data>0200</Data>",
            "<Cmd>5</Cmd><Adp>0</Adp><Ado>3968</Ado><Data>0200</Data></InitCmd>\
             <InitCmd><Transition>PS</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>1056</Ado><Data>0000</Data>",
        );
    let (network, files, description) = described(text.as_bytes());
    let account: Vec<String> = network.left_out.iter().map(ToString::to_string).collect();
    let object = "0x60ff:0 is written at SO";
    for wanted in ["EoE", object, "0x1018:1 is read", "0x0f80", "<Gadget>", "switched off"] {
        assert!(account.iter().any(|line| line.contains(wanted)), "{wanted}: {account:#?}");
    }
    assert!(files.devices.contains("group = \"tool\"\n"), "{}", files.devices);
    assert!(files.devices.contains("alias = 1001\n"), "{}", files.devices);
    up(&description);
}

#[test]
fn pdos_that_are_named_without_entries_keep_their_indices() {
    // Sm2 and Sm3 name their PDOs, entries are those of the process image only; CoE assigns 0x1601.
    let text = line(&[Kind::Drive]).text();
    let begin = text.find("<RxPdo").unwrap();
    let end = text.rfind("</TxPdo>").unwrap() + "</TxPdo>".len();
    let text = format!("{}{}", &text[..begin], &text[end..])
        .replace("<Pdo>5632</Pdo>", "<Pdo>5633</Pdo>")
        .replace("<Data>01000016</Data>", "<Data>01000116</Data>")
        .replace("Recv><Start>4224", "Receive><Start>4224")
        .replace("<PollTime>20</PollTime></Recv>", "<PollTime>20</PollTime></Receive>");
    let (network, files, description) = described(text.as_bytes());
    assert_eq!(network.left_out, [], "{}", files.devices);
    let pdo = "<RxPdo Sm=\"2\" Fixed=\"1\" Mandatory=\"0\"><Index>#x1601</Index>";
    assert!(files.types.contains(pdo), "{}", files.types);
    let layout = Layout::from_description(&description).unwrap();
    assert_eq!((layout.output_bytes, layout.input_bytes), (6, 6));
    assert_eq!(layout.devices[0].output_values[0].name, "Term 1.Value");
    up(&description);
    // Named by the start-up command alone.
    let (_, files, _) = described(text.replace("<Pdo>5633</Pdo>", "").as_bytes());
    assert!(files.types.contains("<Index>#x1601</Index>"), "{}", files.types);
}

#[test]
fn commands_of_other_transitions_neither_end_the_sync_pulses_nor_move_the_mailboxes() {
    // As TwinCAT lists them: after the command that starts the pulses at PS.
    let clear = "<Ado>2432</Ado><Data>0000</Data></InitCmd>";
    let others = format!(
        "<Data>0007</Data></InitCmd>\
         <InitCmd><Transition>IP</Transition><Transition>PP</Transition><Cmd>5</Cmd><Adp>0</Adp>{clear}\
         <InitCmd><Transition>IB</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>2048</Ado><Data>0030140226000100</Data></InitCmd>\
         <InitCmd><Transition>SP</Transition><Transition>OP</Transition><Cmd>5</Cmd><Adp>0</Adp>{clear}"
    );
    let text = line(&[Kind::ClockedDrive]).text();
    let (_, files, _) = described(text.as_bytes());
    assert!(files.devices.contains("activate = 0x0700"), "{}", files.devices);
    let text = text.replace("<Data>0007</Data></InitCmd>", &others);
    let (_, with_others, description) = described(text.as_bytes());
    assert_eq!(with_others, files);
    up(&description);
}

#[test]
fn simulated_devices_have_the_objects_that_start_up_commands_write() {
    let text = line(&[Kind::Drive]).text().replace(
        "</InitCmds></CoE>",
        "<InitCmd><Transition>PS</Transition><Ccs>1</Ccs><Index>32768</Index><SubIndex>21</SubIndex><Data>0300</Data></InitCmd>\
         <InitCmd CompleteAccess=\"1\"><Transition>PS</Transition><Ccs>1</Ccs><Index>32784</Index><SubIndex>0</SubIndex><Data>020001000500</Data></InitCmd>\
         </InitCmds></CoE>",
    );
    let (_, _, description) = described(text.as_bytes());
    let world = up(&description);
    let value = |index, entry| world.segment().value(0, index, entry);
    assert_eq!(value(0x8000, 0x15), Some(&[3, 0][..]));
    assert_eq!((value(0x8010, 1), value(0x8010, 2)), (Some(&[1, 0][..]), Some(&[5, 0][..])));
}

#[test]
fn a_device_that_the_file_identifies_by_a_switch_or_an_alias_is_identified_so() {
    let text = line(&[Kind::Coupler, Kind::Drive]).text();
    let at = text.rfind("</Info>").unwrap();
    let files = |identification: &str| {
        let text = format!("{}{identification}{}", &text[..at], &text[at..]);
        let (network, files, _) = described(text.as_bytes());
        (files.devices, format!("{:?}", network.left_out))
    };
    let (devices, _) = files("<Identification Value=\"#x7\"><Ado>308</Ado></Identification>");
    assert!(devices.contains("device_id = 7\n"), "{devices}");
    let (devices, _) = files("<Identification Value=\"9\"><Ado>18</Ado></Identification>");
    assert!(devices.contains("alias = 9\n"), "{devices}");
    let (devices, left) = files("<Identification Value=\"9\"><Ado>4096</Ado></Identification>");
    assert!(!devices.contains("alias") && left.contains("identified by register 0x1000"), "{left}");
    let (devices, left) = files("<Identification Value=\"0\"><Ado>308</Ado></Identification>");
    assert!(!devices.contains("device_id") && left == "[]", "{left}");
}

#[test]
fn a_sync1_before_sync0_is_left_out_and_said() {
    let text = line(&[Kind::ClockedDrive]).text();
    let registers =
        text.find("<InitCmd><Transition>PS</Transition><Cmd>5</Cmd><Adp>0</Adp><Ado>2464").unwrap();
    let rest = registers + text[registers..].find("</InitCmds>").unwrap();
    let text = format!("{}{}", &text[..registers], &text[rest..])
        .replace("<CycleTime1>0<", "<CycleTime1>-500000<");
    let (network, ..) = described(text.as_bytes());
    let clock = network.devices[0].clock.unwrap();
    assert_eq!((clock.activation, clock.sync0_ns, clock.sync1_ns), (0x0300, 1_000_000, 0));
    let left = format!("{:?}", network.left_out);
    assert!(left.contains("SYNC1 comes before SYNC0 (-500000 ns)"), "{left}");
}

#[test]
fn a_name_in_two_lines_is_one_line_of_the_device_file() {
    let text = line(&[Kind::Coupler, Kind::Drive]).text();
    let at = text.rfind("]]></Name>").unwrap();
    let text = format!("{}\n      left{}", &text[..at], &text[at..]);
    let (_, files, _) = described(text.as_bytes());
    assert!(files.devices.contains(" left\"\n"), "{}", files.devices);
}

#[test]
fn a_hot_connect_group_is_an_optional_group_with_all_its_devices() {
    let mut file = line(&[Kind::Coupler]);
    file.add(Kind::Drive, Some((0, 'B')));
    let head = file.text().matches("<Slave>").count();
    assert_eq!(head, 2);
    let group = |count: usize| {
        format!(
            "<HotConnect><GroupName>tool</GroupName><GroupMemberCnt>{count}</GroupMemberCnt>\
             <IdentifyCmd><Cmd>1</Cmd><Adp>0</Adp><Ado>18</Ado><Data>e903</Data></IdentifyCmd></HotConnect>"
        )
    };
    let text = file.text();
    let at = text.rfind("</Slave>").unwrap();
    let with_group = format!("{}{}{}", &text[..at], group(1), &text[at..]);
    let (network, files, description) = described(with_group.as_bytes());
    assert!(files.devices.contains("alias = 1001\n"), "{}", files.devices);
    assert!(files.devices.contains("group = \"tool\"\n"), "{}", files.devices);
    // By the switch of its first device: the ID is requested, read, and compared.
    let by_switch = with_group.replace(
        "<IdentifyCmd><Cmd>1</Cmd><Adp>0</Adp><Ado>18</Ado><Data>e903</Data></IdentifyCmd>",
        "<IdentifyCmd><Cmd>2</Cmd><Ado>288</Ado><Data>2100</Data></IdentifyCmd>\
         <IdentifyCmd><Cmd>1</Cmd><Ado>308</Ado><Data>0000</Data><Validate><Data>0700</Data></Validate></IdentifyCmd>",
    );
    let (with_switch, switch_files, _) = described(by_switch.as_bytes());
    assert!(switch_files.devices.contains("device_id = 7\n"), "{}", switch_files.devices);
    assert!(!switch_files.devices.contains("alias"), "{}", switch_files.devices);
    assert_eq!(with_switch.left_out, network.left_out);
    assert!(
        !network.left_out.iter().any(|one| one.what.contains("hot connect")),
        "{:?}",
        network.left_out
    );
    let layout = Layout::from_description(&description).unwrap();
    assert_eq!((layout.groups.len(), layout.always_there()), (1, 1));
    assert!(!files.devices.contains("\n[robot]\n"), "its only drive comes and goes");

    let (_, files, _) = described(text.as_bytes());
    assert!(files.devices.ends_with("[robot]\n"), "{}", files.devices);

    // A group with a device behind it that is always there cannot come and go.
    let at = text.find("</Slave>").unwrap();
    let first = format!("{}{}{}", &text[..at], group(1), &text[at..]);
    let (network, files, _) = described(first.as_bytes());
    let account = format!("{:?}", network.left_out);
    assert!(account.contains("behind its device") && account.contains("always there"), "{account}");
    assert!(!files.devices.contains("group ="), "{}", files.devices);
}

#[test]
fn a_file_of_another_kind_or_without_what_is_needed_is_refused_with_its_line() {
    let refused = |text: &str| {
        let read = NetworkInformation::read(text.as_bytes());
        let made = read.and_then(|mut network| DeviceFiles::from_network(&mut network, "t.xml"));
        made.map(|files| files.devices).unwrap_err()
    };
    let is_esi = refused("<EtherCATInfo/>");
    assert!(is_esi.to_string().contains("vendor's ESI file"), "{is_esi}");
    assert!(matches!(
        refused("<EtherCATConfig><Config/></EtherCATConfig>"),
        NetworkError::NoDevice
    ));
    let text = line(&[Kind::Coupler, Kind::Bare]).text();
    let without_identity = refused(&text.replacen("<VendorId>15845120</VendorId>", "", 1));
    assert!(without_identity.to_string().contains("lacks <VendorId>"), "{without_identity}");
    let without_channels = refused(&text.replace("<Ado>2048</Ado>", "<Ado>2816</Ado>"));
    assert!(
        without_channels.to_string().contains("the SyncManager of its 4 bytes of outputs"),
        "{without_channels}"
    );
    assert!(refused("<EtherCATConfig><Config>").to_string().contains("not valid XML"));
}

#[test]
fn a_damaged_file_is_refused_or_read_and_never_a_panic() {
    let text = line(&Kind::ALL).text();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..3_000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            let end = (at + random.usize(1..60)).min(bytes.len());
            match random.u8(0..4) {
                0 => drop(bytes.drain(at..end)),
                1 => bytes[at] = random.u8(b'0'..=b'9'),
                2 => {
                    let digits = bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
                    let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
                    let at = digits[random.usize(0..digits.len())];
                    bytes.splice(at..=at, b"4294967295".iter().copied());
                }
                _ => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        let made = NetworkInformation::read(&bytes)
            .and_then(|mut network| DeviceFiles::from_network(&mut network, "types.xml"));
        *if made.is_ok() { &mut read } else { &mut refused } += 1;
    }
    println!("{refused} refused, {read} read");
    assert!(refused > 100 && read > 100, "{refused} refused, {read} read");
}

#[test]
fn random_networks_with_branches_reach_op() {
    let mut random = fastrand::Rng::with_seed(2100);
    for round in 0..40 {
        let mut file = File::default();
        // Free ports of the devices so far, the cable order being that of a depth-first walk: port 3
        // (D), then 1 (B), then 2 (C).
        let mut open: Vec<(usize, char)> = Vec::new();
        let count = random.usize(1..12);
        for place in 0..count {
            let before = if place == 0 {
                None
            } else {
                // Behind the device before, or at a port of an earlier one that comes later.
                let at = random.usize(open.len().saturating_sub(2)..open.len());
                let (device, port) = open[at];
                open.truncate(at);
                Some((device, port))
            };
            file.add(Kind::ALL[random.usize(0..Kind::ALL.len())], before);
            open.extend([(place, 'C'), (place, 'B'), (place, 'D')]);
        }
        let (network, files, description) = described(file.text().as_bytes());
        assert_eq!(network.left_out, [], "round {round}: {}", files.devices);
        up(&description);
    }
}
