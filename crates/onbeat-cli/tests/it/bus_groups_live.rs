//! An optional group on a veth pair: away at the start, plugged in and unplugged while a bus runs.
//! Needs root and network namespaces; prints a reason where they are missing.

use serde_json::Value;

use crate::bus_ring_live::LiveSegment;
use crate::network_namespace::in_a_namespace;

const FILE: &str = "[segment]\nwatchdog_ms = 6000\n[types.fork]\nkind = \"coupler\"\nports = 4\n\
    [types.io]\nkind = \"digital\"\n[types.servo]\nkind = \"drive\"\n\
    [[devices]]\ntype = \"fork\"\nname = \"fork\"\n\
    [[devices]]\ntype = \"io\"\nname = \"gripper\"\ngroup = \"tool\"\nalias = 1001\nport = 3\n\
    [[devices]]\ntype = \"servo\"\nname = \"gripper drive\"\ngroup = \"tool\"\n\
    [[devices]]\ntype = \"io\"\nnames = [\"a\", \"b\"]\nafter = \"fork\"\n";
const ROUNDS: usize = 5;

/// Returns the presence of each device of the group.
fn presence(live: &LiveSegment) -> Vec<String> {
    let said = live.ask(&["bus", "info", "--json", "--name", live.name()]).stdout;
    let devices: Vec<Value> = serde_json::from_slice(&said).unwrap_or_default();
    let of_group = devices
        .iter()
        .filter(|device| device["name"].as_str().is_some_and(|name| name.starts_with("gripper")));
    of_group.map(|device| device["presence"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until both devices of the group are so. While the bus itself stands still, all of its
/// devices are lost.
fn until_both_are(live: &LiveSegment, wanted: &str) {
    let began = std::time::Instant::now();
    while presence(live) != [wanted, wanted] {
        assert!(began.elapsed().as_secs() < 60, "{wanted}: {:?}", presence(live));
    }
}

#[test]
fn a_group_comes_and_goes_while_the_others_stay_in_op_live() {
    in_a_namespace(|| {
        let mut live = LiveSegment::of("groups", FILE, "r0");
        let unplug = ["segment", "fault", "unplug", "--device", "tool", "--on", "r0"];
        assert!(live.ask(&unplug).status.success());
        live.run_bus();
        live.until("bus_up", 1);
        until_both_are(&live, "away");

        for round in 1..=ROUNDS {
            assert!(live.ask(&["segment", "heal", "--on", "r0"]).status.success());
            live.until("group_came", round);
            until_both_are(&live, "present");
            assert!(live.ask(&unplug).status.success());
            live.until("group_left", round);
        }

        for kind in ["device_lost", "wrong_device", "surplus_device", "place_in_doubt"] {
            assert_eq!(live.count(kind), 0, "{kind}: {:#?}", live.events());
        }
        let came = live.events();
        let came = came.iter().find(|event| event["event"]["kind"] == "group_came").unwrap();
        let sentence = came.to_string();
        assert!(
            sentence
                .contains("the optional group of gripper came, at place 1 of the cable: 2 devices"),
            "{sentence}"
        );
    });
}
