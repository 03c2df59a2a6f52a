//! Messages travel over LCM and ZeroMQ: from a ring to the Python packages `lcm` and `pyzmq`, which
//! send back what they receive, and from there to another ring, the same bytes.
#![allow(clippy::unwrap_used)]

use crate::equipment;
use crate::random_messages;
use crate::way;

use std::process::Command;
use std::time::{Duration, Instant};

use equipment::{Python, trial};
use libtest_mimic::Trial;
use onbeat_control::Reading;
use serde_json::{Value, json};
use way::{Network, Way, equip};

/// Messages on the way at a time: they fit into the kernel's smallest receive buffer, so none is lost.
const BATCH: usize = 50;
/// How long the last message is awaited before another one is sent.
const MARK_AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "messages_arrive::lcm_sends_random_messages_back_with_the_same_bytes",
            equip,
            |python| {
                bytes_come_back(python, Network::Lcm);
            },
        ),
        trial(
            "messages_arrive::pyzmq_sends_random_messages_back_with_the_same_bytes",
            equip,
            |python| {
                bytes_come_back(python, Network::Zmq);
            },
        ),
        trial("messages_arrive::long_messages_come_back", equip, long_messages_come_back),
        trial(
            "messages_arrive::a_receiver_that_is_stopped_counts_what_it_lost",
            equip,
            losses_are_counted,
        ),
    ];
    Vec::from(tests)
}

fn bytes_come_back(python: &Python, network: Network) {
    let types = random_messages::types();
    let name = if network == Network::Lcm { "random-lcm" } else { "random-zmq" };
    let mut way = Way::new(python, network, name, 1 << 14);
    for name in types.names() {
        for batch in random_messages::encoded(&types, name, random_messages::count()).chunks(BATCH)
        {
            way.exchange(batch);
        }
    }

    let Way { writer, echo, sent, .. } = way;
    drop(writer);
    let end = echo.end();
    assert_eq!(end[1]["channels"][0]["received"], sent, "{end:?}");
    assert_eq!((&end[0]["lost"], &end[0]["strange"]), (&json!(0), &json!(0)), "{end:?}");
    assert_eq!((&end[0]["published"], &end[1]["dropped"]), (&end[2], &json!(0)), "{end:?}");
}

fn long_messages_come_back(python: &Python) {
    let mut random = fastrand::Rng::with_seed(3);
    for (network, name) in [(Network::Lcm, "long-lcm"), (Network::Zmq, "long-zmq")] {
        let mut way = Way::new(python, network, name, 1 << 18);
        for bytes in [0, 255, 256, 65_000, 65_470, 65_480, 65_490, 131_000, 200_000] {
            let message: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
            way.exchange(&[message]);
        }
        assert_eq!(way.echo.end()[0]["lost"], 0);
    }
}

/// Publishes a last message, which shows that those before it are missing, and waits for it. It is lost
/// itself where a buffer is still full: then another one is the last.
fn await_last(way: &mut Way) {
    let began = Instant::now();
    let mut marked = began;
    let mut mark = 0;

    loop {
        match way.reader.next() {
            Reading::Record { bytes, .. } if mark > 0 && bytes == [2, mark] => return,
            Reading::Record { .. } | Reading::Lost(_) => {}
            Reading::Nothing if mark > 0 && marked.elapsed() < MARK_AGAIN_AFTER => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Reading::Nothing => {
                mark += 1;
                way.publish(&[2, mark]);
                marked = Instant::now();
            }
        }

        assert!(began.elapsed() < Duration::from_secs(60), "the last message does not come");
    }
}

/// Until the receiver continues, its buffer overflows; every message is received or counted.
fn losses_are_counted(python: &Python) {
    let mut way = Way::new(python, Network::Lcm, "lost", 1 << 14);
    let receiver = way.reader.writer().0.to_string();
    let signal = |name: &str| equipment::done(Command::new("kill").args([name, &receiver]));
    signal("-STOP");
    let message = vec![7; 1 << 14];
    for _ in 0..200 {
        for _ in 0..10 {
            way.publish(&message);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    way::await_drops(&receiver);
    signal("-CONT");

    await_last(&mut way);
    let end = way.echo.end();
    let number = |of: &Value| of.as_u64().unwrap();
    let received = number(&end[0]["received"]);
    let lost = number(&end[0]["lost"]);
    assert!(lost > 0, "{end:?}");
    // Those of Python count as well: both directions are in one group.
    let sent = number(&end[1]["channels"][0]["received"]) + number(&end[2]);
    assert_eq!(received + lost, sent, "{end:?}");
}
