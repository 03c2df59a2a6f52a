//! Round trips between two network namespaces: lost packets are located, the kernel answers as a device.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const DEVICES: u64 = 20;

/// A cable between two network namespaces with devices at its far end. `$1` is `queue` to limit the
/// way there to half of what is sent, or `silence` for a device that leaves 20 packets unanswered, or `kernel` for
/// the same and the kernel as device; `$2` is the
/// directory for runs.
const ENDS: &str = r#"
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
unshare --net sleep 300 &
other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
ip link add near address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02 netns $other
ip address add 10.79.0.1/24 dev near
ip link set near up
far="nsenter --net=/proc/$other/ns/net"
$far ip address add 10.79.0.2/24 dev far
$far ip link set far up
# Five seconds after its first answer, the far end would ask who the near one is, and the queue
# could drop the reply.
ip neighbour replace 10.79.0.2 lladdr 02:00:00:00:00:02 dev near nud permanent
$far ip neighbour replace 10.79.0.1 lladdr 02:00:00:00:00:01 dev far nud permanent
more=
[ "$1" != queue ] && more='--silent 3=20..40'
[ "$1" = kernel ] && more="$more --in-kernel far"
$far "$0" net device --bind 10.79.0.2 --allow 10.79.0.0/24 --count 20 --for 300s $more >"$2/device" 2>&1 &
device=$!
until grep -q answer "$2/device" || ! kill -0 $device; do sleep 0.02; done
if [ "$1" = queue ]; then
    tc qdisc add dev near root tbf rate 1mbit burst 600 limit 1200 || exit 77
fi
"$0" measure rtt --to 10.79.0.2 --devices 20 --period 20ms --lost-after 2s --for 3s --priority 0 --no-causes \
    --on-overrun catch-up=1000 \
    --json --out "$2" || exit
[ "$1" = kernel ] || exit 0
# Everything else still passes, and the program goes away with its process.
ping -c 2 -i 0.2 10.79.0.2 >&2 || exit 78
$far ip -details link show far | grep -q xdp || exit 79
kill -INT $device
wait $device
tail -n 1 "$2/device" >"$2/outcome"
$far ip -details link show far | grep -q xdp && exit 80
$far "$0" net device --bind 10.79.0.2 --allow 10.79.0.0/24 --in-kernel far --for 300s >"$2/device" 2>&1 &
device=$!
until grep -q answers "$2/device" || ! kill -0 $device; do sleep 0.02; done
kill -KILL $device
wait $device
for n in $(seq 300); do $far ip -details link show far | grep -q xdp || exit 0; sleep 0.1; done
exit 81
"#;

/// The account of packets, and all text of the report; `None`, with a printed reason, where such
/// namespaces cannot be made.
fn run(which: &str) -> Option<(Value, String)> {
    run_in(tempfile::tempdir().unwrap().path(), which)
}

fn run_in(dir: &Path, which: &str) -> Option<(Value, String)> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "-c", ENDS]);
    command.args([env!("CARGO_BIN_EXE_onbeat"), which]).arg(dir);
    let output = command.env("ONBEAT_STATE_DIR", dir.join("state")).output();
    let Ok(output) = output else {
        println!("skipped: unshare cannot be run");
        return None;
    };

    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let Ok(summary) = serde_json::from_str::<Value>(&said) else {
        let is_refused =
            errors.contains("Operation not permitted") || output.status.code() == Some(77);
        let device = std::fs::read_to_string(dir.join("device")).unwrap_or_default();
        assert!(is_refused, "{said}{errors}{device}");
        println!("skipped: no network namespaces or no queue discipline tbf here: {errors}");
        return None;
    };

    assert!(output.status.success(), "{}: {errors}", output.status);
    Some((summary["cells"][0]["packets"].clone(), said))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// Packets whose answer never came: those of a device that a busy machine delays come after they
/// were given up.
fn unanswered(packets: &Value) -> u64 {
    sum(packets, "lost") - sum(packets, "strays")
}

fn sum(packets: &Value, fate: &str) -> u64 {
    packets["devices"].as_array().unwrap().iter().map(|one| number(&one[fate])).sum()
}

fn interface(packets: &Value, name: &str, counter: &str) -> u64 {
    let all = packets["drops"]["interfaces"].as_array().unwrap();
    let own = all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{packets}"));
    number(&own[counter])
}

#[test]
fn packets_that_a_queue_of_this_machine_drops_are_located_in_it() {
    let Some((packets, said)) = run("queue") else { return };
    let [unanswered, refused] = [unanswered(&packets), sum(&packets, "refused")];
    assert!(unanswered + refused > 0, "half of {DEVICES} packets a cycle have no room: {packets}");
    assert_eq!(interface(&packets, "near", "queue"), unanswered + refused, "{packets}");
    assert_eq!(packets["drops"]["socket"], 0, "{packets}");
    if unanswered > 0 {
        assert!(said.contains("in the queue discipline of near"), "{said}");
    }
}

#[test]
fn packets_that_a_device_leaves_unanswered_were_not_dropped_here() {
    let Some((packets, said)) = run("silence") else { return };
    assert!(number(&packets["devices"][3]["lost"]) >= 20, "{packets}");
    assert_eq!(unanswered(&packets), 20, "{packets}");
    assert_eq!(interface(&packets, "near", "queue"), 0, "{packets}");
    let lost = sum(&packets, "lost");
    let sentence = format!("none of the {lost} lost packets was dropped by this machine's kernel");
    assert!(said.contains(&sentence), "{said}");
}

#[test]
fn the_kernel_answers_as_a_device_and_leaves_the_rest_to_the_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let Some((packets, said)) = run_in(dir.path(), "kernel") else { return };
    // The silence is the sockets' own.
    assert!(number(&packets["devices"][3]["lost"]) >= 20, "{packets}");
    assert_eq!((unanswered(&packets), sum(&packets, "duplicates")), (20, 0), "{packets}");

    // The packets before the run are answered too.
    let outcome = std::fs::read_to_string(dir.path().join("outcome")).unwrap().replace(',', "");
    let numbers: Vec<u64> =
        outcome.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [answered, by_kernel, silent] = numbers[..] else { panic!("{outcome}") };
    assert_eq!((answered, silent), (by_kernel, 20), "no thread answered: {outcome}");
    let of_run = ["answered", "late", "strays"].iter().map(|fate| sum(&packets, fate)).sum::<u64>();
    // Five times each at most.
    assert!((of_run..=of_run + 5 * DEVICES).contains(&by_kernel), "{outcome}{packets}");
    let device_time = said.find("device ").map(|at| &said[at..at + 20]);
    assert!(device_time.is_some(), "the parts of a round trip: {said}");
}
