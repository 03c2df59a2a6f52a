//! Types of `.lcm` files are LCM's: the classes of its own `lcm-gen`, in Python, encode random
//! messages; this decodes them, encodes them in CDR and back, and then in LCM's encoding to the same
//! bytes.
#![allow(clippy::unwrap_used)]

use crate::equipment;
use crate::random_messages;
use crate::way;

use std::path::{Path, PathBuf};
use std::process::Command;

use equipment::{Python, done, root, trial};
use libtest_mimic::Trial;
use onbeat_message::{LcmCodec, LcmTypes, generate};
use serde_json::{Value as Json, json};
use way::{Carried, Network, Way};

const FILE: &str = "tests/messages/lcm/demo.lcm";
const TYPES: [&str; 3] = ["inner_t", "empty_t", "all_t"];

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "lcm_types_match::random_messages_of_lcm_are_encoded_to_the_same_bytes",
            Python::equip,
            bytes_match,
        ),
        trial("lcm_types_match::messages_travel_in_the_encoding_of_lcm", way::equip, they_travel),
        trial(
            "lcm_types_match::a_changed_member_changes_the_fingerprint",
            || Ok(()),
            |()| a_change_is_found(),
        ),
        trial(
            "lcm_types_match::a_log_of_150_structs_becomes_mcap_with_its_values",
            python_and_onbeat,
            logs_convert,
        ),
        trial(
            "lcm_types_match::code_of_every_type_compiles_in_five_languages",
            python_and_onbeat,
            all_compile,
        ),
        trial(
            "lcm_types_match::every_generator_takes_types_of_lcm",
            || Ok(()),
            |()| generators_take_them(),
        ),
    ];
    Vec::from(tests)
}

fn lcm_types(change: impl Fn(String) -> String) -> LcmTypes {
    let mut types = LcmTypes::default();
    types.add(FILE, &change(std::fs::read_to_string(root().join(FILE)).unwrap())).unwrap();
    types
}

/// Random messages by Python; returns the fingerprints too.
fn by_python(python: &Python, count: usize) -> (tempfile::TempDir, Json) {
    let folder = tempfile::tempdir().unwrap();
    let mut script = python.script("lcm_types.py");
    let output = done(script.arg(root().join(FILE)).arg(folder.path()).arg(count.to_string()));
    let fingerprints = serde_json::from_slice(&output.stdout).unwrap();
    (folder, fingerprints)
}

/// The messages of a type in a folder.
fn messages(folder: &Path, short: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(folder.join(short)).unwrap();
    let mut rest = bytes.as_slice();
    let mut all = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (message, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        all.push(message.to_vec());
        rest = behind;
    }
    all
}

fn bytes_match(python: &Python) {
    let count = random_messages::count();
    let (folder, fingerprints) = by_python(python, count);
    let types = lcm_types(|text| text);
    let same = types.types().unwrap();
    for short in TYPES {
        let name = format!("demo_lcm/msg/{short}");
        let codec = LcmCodec::new(&types, &name).unwrap();
        assert_eq!(fingerprints[short], format!("{:016x}", codec.fingerprint()), "{short}");

        let all = messages(folder.path(), short);
        assert_eq!(all.len(), count, "{short}");
        for (number, message) in all.iter().enumerate() {
            let value = codec.decode(message).unwrap();
            let cdr = same.encode(&name, &value).unwrap();
            let back = codec.encode(&same.value(&name, &cdr).unwrap()).unwrap();
            assert!(back == *message, "{short} {number}: {value:?}");

            // A message that ends early is refused, wherever it ends.
            let cut = number % message.len();
            assert!(codec.decode(&message[..cut]).is_err(), "{short}: {cut} bytes");
        }
    }
}

/// From a ring with CDR to Python in LCM's encoding, and back.
fn they_travel(python: &Python) {
    let (folder, _) = by_python(python, 200);
    let types = lcm_types(|text| text);
    let same = types.types().unwrap();
    let name = "demo_lcm/msg/all_t";
    let text = std::fs::read_to_string(root().join(FILE)).unwrap();
    let carried =
        Carried { type_name: name.to_owned(), schema: same.text(name).unwrap(), lcm: vec![text] };
    let codec = LcmCodec::new(&types, name).unwrap();
    let to_cdr = |message: &Vec<u8>| same.encode(name, &codec.decode(message).unwrap()).unwrap();
    let all: Vec<_> = messages(folder.path(), "all_t").iter().map(to_cdr).collect();

    let mut way = Way::with_type(python, Network::Lcm, "own-encoding", 1 << 14, &carried);
    way.connect(&all[0], &all[1]);
    all.chunks(50).for_each(|batch| way.exchange(batch));
    // What is not of the type is counted, and not sent.
    way.publish(&[0, 1, 0, 0, 7]);
    // Once the next one is back, the sender has looked at it: it ends without what is still pending.
    way.exchange(&all[..1]);

    let Way { writer, echo, .. } = way;
    drop(writer);
    let end = echo.end();
    assert_eq!((&end[0]["strange"], &end[0]["lost"]), (&json!(0), &json!(0)), "{end:?}");
    assert_eq!(end[1]["not_encoded"], 1, "{end:?}");
}

fn a_change_is_found() {
    let fingerprint =
        |types: &LcmTypes| LcmCodec::new(types, "demo_lcm/msg/all_t").unwrap().fingerprint();
    let own = fingerprint(&lcm_types(|text| text));
    for (from, to) in [("octet", "octets"), ("[2][3]", "[3][2]"), ("int8_t low", "byte low")] {
        let changed = lcm_types(|text| text.replacen(from, to, 1));
        assert_ne!(fingerprint(&changed), own, "{from} to {to}");
    }

    let types = lcm_types(|text| text);
    let codec = LcmCodec::new(&types, "demo_lcm/msg/empty_t").unwrap();
    let why = codec.decode(&own.to_be_bytes()).unwrap_err().to_string();
    assert!(why.contains(&format!("{own:016x}")) && why.contains(".lcm"), "{why}");
}

fn python_and_onbeat() -> Result<(Python, PathBuf), String> {
    Ok((Python::equip()?, equipment::onbeat()?))
}

/// Runs a script that prints JSON.
fn said(command: &mut Command) -> Json {
    serde_json::from_slice(&done(command).stdout).unwrap()
}

/// Random messages by the classes of lcm-gen, in a log of LCM, are those that `onbeat.load` finds in the converted one.
fn logs_convert((python, onbeat): &(Python, PathBuf)) {
    let folder = tempfile::tempdir().unwrap();
    let found = said(python.script("lcm_logs.py").arg(onbeat).arg(folder.path()));
    assert_eq!(
        (&found["types"], &found["records"], &found["refused"]),
        (&150.into(), &600.into(), &0.into())
    );
    assert_eq!(found["compared"], 600);
    assert!(found["recursive"].as_u64() > Some(0), "{found}");
}

/// All types of ROS 2 that rosbags has, those of LCM, and names that shadow the languages' own: warnings are errors.
fn all_compile((python, onbeat): &(Python, PathBuf)) {
    let folder = tempfile::tempdir().unwrap();
    let found = said(python.script("../messages/all_compile.py").arg(onbeat).arg(folder.path()));
    assert!(found["types"].as_u64() > Some(300), "{found}");
    // Those of common_interfaces, in each language with the bytes of rosbags.
    assert!(found["round_trips"].as_u64() > Some(120), "{found}");
}

fn generators_take_them() {
    let types = lcm_types(|text| text).types().unwrap();
    for generator in [generate::c, generate::java, generate::python, generate::rust] {
        let code = generator(&types, "demo_lcm/msg/all_t").unwrap();
        assert!(code.contains("utime") && code.contains("RIHS01_"));
    }
}
