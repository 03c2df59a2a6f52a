//! `onbeat segment check`: a table of the devices of ESI files.

use std::fs;
use std::process::Command;

#[test]
fn every_device_has_a_line_with_its_lengths_or_the_reason_why_it_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let device = |order: &str, code: u32, index: &str| {
        format!(
            "<Device><Type ProductCode='{code}'>{order}</Type><Name>n</Name><Sm StartAddress='#x1000' ControlByte='0' Enable='1'>Inputs</Sm>\
             <TxPdo Sm='0'><Index>{index}</Index><Entry><Index>#x6000</Index><SubIndex>1</SubIndex><BitLen>24</BitLen></Entry></TxPdo></Device>\n"
        )
    };
    let esi = format!(
        "<EtherCATInfo><Vendor><Id>1</Id></Vendor><Descriptions><Devices>\n{}{}</Devices></Descriptions></EtherCATInfo>",
        device("THREE", 3, "#x1a00"),
        device("ODD", 4, "#xzz")
    );
    fs::write(folder.path().join("a.xml"), esi).unwrap();
    fs::write(folder.path().join("b.XML"), "<Robot/>").unwrap();
    fs::write(folder.path().join("readme.txt"), "no device").unwrap();

    let output = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["segment", "check"])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = |word: &str| said.lines().find(|line| line.contains(word)).unwrap_or_default();
    assert!(line("THREE").ends_with("      0      3  0: 3 in"), "{said}");
    assert!(line("ODD").contains("device \"ODD\": line 3: <Index> is \"#xzz\""), "{said}");
    assert!(line("<Robot>").contains("not read: the root element is <Robot>"), "{said}");
    assert!(said.ends_with("2 devices in 2 files, 2 not usable\n"), "{said}");
}
