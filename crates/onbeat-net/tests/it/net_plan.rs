//! The wire-time model: published measurements, closed forms, queues and buffers.

use onbeat_net::plan::{NetPlanError, NetPrediction, Network, picture, simulate};
use proptest::prelude::*;

fn predict(text: &str) -> NetPrediction {
    simulate(&Network::parse(text).expect("a valid plan")).expect("simulated")
}

/// A board behind switches in a line: rate of each link from the controller on, overhead of each
/// switch.
fn behind(links: &[&str], overheads_us: &[f64]) -> NetPrediction {
    let mut text = "[traffic]\ncycles = 10\n".to_owned();
    let mut to = "controller".to_owned();
    for (place, (link, overhead_us)) in links.iter().zip(overheads_us).enumerate() {
        text += &format!(
            "[[switches]]\nname = \"s{place}\"\nto = \"{to}\"\nlink = \"{link}\"\noverhead_us = {overhead_us}\n"
        );
        to = format!("s{place}");
    }
    let last = links[links.len() - 1];
    text += &format!(
        "[[devices]]\nname = \"board\"\nto = \"{to}\"\nlink = \"{last}\"\noff_wire_us = 112.6\n"
    );
    predict(&text)
}

fn assert_near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found} is not {expected} ± {within}");
}

/// The article's table: 200 bytes of payload, one switch between two links of 100 Mbit/s, then a
/// second switch added to that.
#[test]
fn the_published_table_of_switches_is_predicted_within_150_ns() {
    let baseline = behind(&["100M", "100M"], &[0.0]);
    let round_trip = baseline.devices[0].round_trip;
    assert_near(round_trip.max_us, 193.8, 0.15);
    assert_near(round_trip.max_us - baseline.devices[0].on_wire_us, 112.6, 0.001);
    assert_eq!(round_trip.min_us, round_trip.max_us, "nothing else is on the wire");

    let table = [
        ("KSZ8863", "100M", 2.9, 43.5, 40.6),
        ("GS105", "1G", 47.0, 51.0, 4.06),
        ("RB750Gr2", "1G", 3.6, 7.7, 4.06),
    ];
    for (name, link, overhead_us, added_us, on_wire_us) in table {
        let with = behind(&["100M", link, "100M"], &[0.0, overhead_us / 2.0]);
        let added = with.devices[0].round_trip.max_us - round_trip.max_us;
        assert_near(added, added_us, 0.15);
        let wire = with.devices[0].on_wire_us - baseline.devices[0].on_wire_us;
        assert_near(wire, on_wire_us, 0.05);
        println!("{name}: +{added:.2} us, of which {wire:.2} us on the wire");
    }
}

/// The same table from the plan of the documentation.
#[test]
fn the_plan_of_three_switches_has_the_published_round_trips() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plans/switches.toml");
    let network = Network::read(std::path::Path::new(path)).expect("a plan");
    let plan = simulate(&network).expect("simulated");
    let published = [193.8, 193.8 + 43.5, 193.8 + 51.0, 193.8 + 7.7];
    assert_eq!(plan.devices.len(), published.len());
    for (device, published_us) in plan.devices.iter().zip(published) {
        assert_near(device.round_trip.max_us, published_us, 0.15);
        assert_eq!(device.round_trip.min_us, device.round_trip.max_us, "{}", device.name);
    }
}

#[test]
fn a_frame_takes_20_3_and_2_03_microseconds() {
    let of = |link: &str| {
        let text = format!("[[devices]]\nname = \"board\"\nlink = \"{link}\"\n");
        predict(&text).devices[0].round_trip.max_us / 2.0
    };
    assert_near(of("100M"), 20.3, 0.05);
    for link in ["1G", "1 Gbit/s", "1000Mb/s", "1Gbps", "1000Mbit", "1gbit"] {
        assert_near(of(link), 2.03, 0.005);
    }
}

fn forty(controller: &str, rate_hz: u32) -> NetPrediction {
    predict(&format!(
        "[traffic]\nrate_hz = {rate_hz}\ncycles = 20\n\
         [[switches]]\nname = \"GS748T\"\nlink = \"{controller}\"\noverhead_us = 1.45\nbuffer_kb = 1600\n\
         [[devices]]\nname = \"board\"\ncount = 40\nto = \"GS748T\"\nlink = \"100M\"\noff_wire_us = 135\n"
    ))
}

/// The article's column of forty boards, by the plan of the documentation: from about 180 to about
/// 280 µs. What the boards and the receiver's stack take is fitted to it; the order, the spacing on
/// the wire and the queue are not.
#[test]
fn forty_boards_answer_as_published() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plans/forty-boards.toml");
    let network = Network::read(std::path::Path::new(path)).expect("a plan");
    let plan = simulate(&network).expect("simulated");
    assert_eq!(plan.devices.len(), 40);
    assert_near(plan.first_answer.min_us, 180.0, 5.0);
    assert_near(plan.first_answer.max_us, 180.0, 5.0);
    assert_near(plan.last_answer.min_us, 280.0, 5.0);
    assert_near(plan.last_answer.max_us, 280.0, 5.0);
}

/// The wire alone: an answer every 2.128 µs, at any rate.
#[test]
fn forty_answers_leave_a_gigabit_port_one_every_two_microseconds() {
    let plan = forty("1G", 100);
    assert_near(plan.first_answer.max_us, 182.6, 0.1);
    assert_near(plan.last_answer.max_us, 265.6, 0.1);
    let every_us = (plan.last_answer.max_us - plan.first_answer.max_us) / 39.0;
    assert_near(every_us, 2.128, 0.001);
    assert_eq!(plan.round_trip.p50_us, forty("1G", 1000).round_trip.p50_us, "at any rate");
}

#[test]
fn a_microburst_fits_the_buffer_and_is_lost_where_it_does_not() {
    let plan = forty("1G", 100);
    let switch = &plan.switches[0];
    assert_eq!(switch.buffered_bytes, 40 * 254);
    assert_eq!((switch.buffer_bytes, switch.dropped), (Some(1_600_000), 0));
    let towards_controller =
        plan.links.iter().find(|link| link.from == "GS748T" && link.to == "controller").unwrap();
    assert_eq!(towards_controller.most_queued, 39);

    let small = predict(
        "[traffic]\ncycles = 5\nanswer = 400\n\
         [[switches]]\nname = \"s\"\nlink = \"100M\"\nbuffer_kb = 3\n\
         [[devices]]\nname = \"d\"\ncount = 10\nto = \"s\"\nlink = \"100M\"\n",
    );
    let dropped = small.switches[0].dropped;
    let lost: u64 = small.devices.iter().map(|device| device.lost).sum();
    // Six answers of 454 bytes fit 3,000 bytes.
    assert_eq!((dropped, lost), (4 * 5, 4 * 5));
    assert!(small.switches[0].buffered_bytes <= 3000);
}

/// Predictions of their own: a slow controller link, chains.
#[test]
fn how_many_devices_answer_within_a_millisecond() {
    let slow = forty("100M", 1000);
    assert_near(slow.first_answer.max_us, 219.2, 0.1);
    assert_near(slow.last_answer.max_us, 219.2 + 39.0 * 21.28, 0.1);
    let towards_controller =
        slow.links.iter().find(|link| link.from == "GS748T" && link.to == "controller").unwrap();
    assert_near(towards_controller.busy_percent, 85.1, 0.1);

    let chain = |count: u32, rate_hz: u32| {
        predict(&format!(
            "[traffic]\nrate_hz = {rate_hz}\n\
             [[chains]]\nname = \"joint\"\ncount = {count}\nlink = \"100M\"\noverhead_us = 1.45\noff_wire_us = 112.6\n"
        ))
    };
    // RTT_k = 2k·w + 2(k − 1)·o + P; no queue builds.
    for count in [1, 6, 12, 40] {
        let plan = chain(count, 100);
        for (place, device) in plan.devices.iter().enumerate() {
            let links = place as f64 + 1.0;
            let expected = 2.0 * links * 20.32 + 2.0 * (links - 1.0) * 1.45 + 112.6;
            assert_near(device.round_trip.max_us, expected, 0.001);
        }
        assert!(plan.links.iter().all(|link| link.most_queued == 0));
    }
    assert_eq!(chain(40, 1000).in_time, 20);
}

/// A device on its own port of the k-th switch of a line: RTT_k = 2(k + 1)·w + 2k·o + P.
#[test]
fn a_line_of_switches_follows_its_closed_form() {
    let text = "[traffic]\ncycles = 3\nsend = \"each\"\npayload = 0\n\
                [[switches]]\nname = \"s\"\ncount = 5\nlink = \"1G\"\noverhead_us = 2\n\
                [[devices]]\nname = \"d\"\nto = \"s-5\"\nlink = \"1G\"\noff_wire_us = 10\n";
    let plan = predict(text);
    // The smallest frame: 72 bytes with its preamble.
    assert_near(
        plan.devices[0].round_trip.max_us,
        2.0 * 6.0 * 0.576 + 2.0 * 5.0 * 2.0 + 10.0,
        0.001,
    );
}

#[test]
fn a_cut_through_switch_waits_for_the_header_only() {
    let with = |forwarding: &str, link: &str| {
        let plan = predict(&format!(
            "[[switches]]\nname = \"s\"\nlink = \"100M\"\nforwarding = \"{forwarding}\"\n\
             [[devices]]\nname = \"d\"\nto = \"s\"\nlink = \"{link}\"\n"
        ));
        let round_trip_us = plan.devices[0].round_trip.max_us;
        assert_near(plan.devices[0].on_wire_us, round_trip_us, 0.001);
        round_trip_us
    };
    let header_us = 22.0 * 8.0 / 100.0;
    assert_near(with("store-and-forward", "100M"), 4.0 * 20.32, 0.001);
    assert_near(with("cut-through", "100M"), 2.0 * (header_us + 20.32), 0.001);
    assert_near(with("cut-through", "1G"), 2.0 * (20.32 + 2.032), 0.001);
}

/// A full frame is 1,538 bytes of time on the wire, its gap among them: 123 µs at 100 Mbit/s.
#[test]
fn background_traffic_delays_by_at_most_one_frame_where_the_robot_has_priority() {
    let with = |priority: bool, every_us: f64| {
        predict(&format!(
            "[traffic]\nrate_hz = 997\ncycles = 500\npriority = {priority}\n\
             [[switches]]\nname = \"s\"\nlink = \"100M\"\n\
             [[devices]]\nname = \"d\"\nto = \"s\"\nlink = \"100M\"\noff_wire_us = 50\n\
             [[hosts]]\nname = \"camera\"\nto = \"s\"\nlink = \"1G\"\n\
             [[background]]\nfrom = \"camera\"\nto = \"controller\"\nevery_us = {every_us}\narrivals = \"random\"\n"
        ))
    };
    let free_us = 4.0 * 20.32 + 50.0;
    let first = with(true, 140.0);
    assert!(first.round_trip.max_us <= free_us + 1538.0 * 0.08, "{:?}", first.round_trip);
    assert!(first.round_trip.max_us > free_us + 60.0, "{:?}", first.round_trip);
    assert_near(first.round_trip.min_us, free_us, 0.001);
    assert!(with(false, 140.0).round_trip.max_us > free_us + 1538.0 * 0.08);
    assert_eq!(first, with(true, 140.0), "the same file gives the same figures");
}

#[test]
fn the_picture_has_every_link_and_its_times() {
    let network = Network::parse(
        "[[switches]]\nname = \"GS748T\"\nlink = \"1G\"\noverhead_us = 1.45\nbuffer_kb = 1600\n\
         [[devices]]\nname = \"board\"\ncount = 40\nto = \"GS748T\"\nlink = \"100M\"\noff_wire_us = 135\n\
         [[hosts]]\nname = \"camera\"\nto = \"GS748T\"\nlink = \"1G\"\n",
    )
    .unwrap();
    let text = picture(&network, &simulate(&network).unwrap()).unwrap();
    assert_eq!(
        text,
        "controller\n\
         └─ 1 Gbit/s ─ GS748T [store-and-forward +1.45 µs, buffer 10.4 of 1600.0 kB]\n   \
         ├─ 100 Mbit/s ─ board-1 to board-40  182.6 to 265.6 µs\n   \
         └─ 1 Gbit/s ─ camera (background)\n"
    );
}

#[test]
fn a_plan_that_is_not_valid_names_the_key_and_the_numbers() {
    let device = "[[devices]]\nname = \"d\"\nlink = \"100M\"\n";
    let cases = [
        ("", "no device"),
        ("[traffic]\nrate = 3\n", "unknown field `rate`"),
        ("[[devices]]\nname = \"d\"\nlink = \"fast\"\n", "link = \"fast\" is not a rate"),
        ("[[devices]]\nname = \"d\"\nlink = \"100MB/s\"\n", "link = \"100MB/s\" is not a rate"),
        ("[[devices]]\nname = \"d\"\nlink = \"1G\"\nto = \"x\"\n", "d is connected to x"),
        (
            "[[devices]]\nname = \"controller\"\nlink = \"1G\"\n",
            "the name controller is used twice",
        ),
        ("[traffic]\npayload = 1473\n", "payload = 1473 is outside 0 to 1472"),
        ("[traffic]\nipv6 = true\npayload = 1453\n", "outside 0 to 1452"),
        ("[[devices]]\nname = \"e\"\nlink = \"1G\"\ncount = 5000\n", "outside 1 to 4096"),
        ("[[background]]\nfrom = \"d\"\nto = \"controller\"\nevery_us = 100\n", "comes from d"),
        (
            "[[hosts]]\nname = \"h\"\nlink = \"1G\"\n\
             [[background]]\nfrom = \"h\"\nto = \"h\"\nevery_us = 100\n",
            "comes from h and goes to h",
        ),
        (
            "[traffic]\ncycles = 10000000\n[[devices]]\nname = \"e\"\nlink = \"1G\"\ncount = 9\n",
            "packets",
        ),
        ("[traffic]\nrate_hz = 0.1\ncycles = 10000000\n", "100000000, at most 1000000"),
        ("[traffic]\ncycles = 20000\n[controller]\nper_answer_us = 1e9\n", "seconds to simulate"),
        ("[[devices]]\nname = \"\"\nlink = \"1G\"\n", "the name \"\" is empty"),
        ("[[devices]]\nname = \"left\\nleg\"\nlink = \"1G\"\n", r#""left\nleg" is empty or has"#),
    ];
    for (text, part) in cases {
        let whole = if text.is_empty() { String::new() } else { format!("{text}{device}") };
        let why = Network::parse(&whole).expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
    assert!(matches!(Network::parse("["), Err(NetPlanError::Toml(_))));
}

#[test]
fn a_plan_whose_frames_would_take_hours_is_refused() {
    let plan = "[traffic]\ncycles = 10000\n\
                [[chains]]\nname = \"c\"\ncount = 1000\nlink = \"1G\"\n";
    let why = simulate(&Network::parse(plan).unwrap()).unwrap_err().to_string();
    assert!(why.contains("frames on links (fewer cycles take less): 5015010000, at"), "{why}");

    // Far from the controller, and two links from each other.
    let near = "[[switches]]\nname = \"s\"\ncount = 1000\nlink = \"1G\"\n\
                [[switches]]\nname = \"e\"\nto = \"s\"\nlink = \"1G\"\n\
                [[devices]]\nname = \"d\"\nto = \"e\"\nlink = \"1G\"\n\
                [[hosts]]\nname = \"a\"\nto = \"e\"\nlink = \"1G\"\n\
                [[hosts]]\nname = \"b\"\nto = \"e\"\nlink = \"1G\"\n\
                [[background]]\nfrom = \"a\"\nto = \"b\"\nframe = 64\nevery_us = 0.4\n";
    assert!(simulate(&Network::parse(near).unwrap()).is_ok());
}

/// A run has its own period, payload and version of IP.
#[test]
fn a_plan_for_a_run_is_checked_with_what_the_run_sends() {
    let plan = "[[devices]]\nname = \"d\"\nlink = \"100M\"\n\
                [[hosts]]\nname = \"h\"\nlink = \"1G\"\n\
                [[background]]\nfrom = \"h\"\nto = \"controller\"\nevery_us = 1\n";
    let of = |payload, ipv6, period_ns| {
        Network::parse(plan).unwrap().with_round_trips(payload, ipv6, period_ns)
    };
    let bytes = |ipv6| simulate(&of(200, ipv6, 1_000_000).unwrap()).unwrap().command_bytes;
    assert_eq!((bytes(false), bytes(true)), (254, 274));
    let refused = [
        (of(200, false, 1_000_000_000), "packets: 100000100, at most"),
        (of(1472, true, 1_000_000), "payload = 1472 is outside 0 to 1452"),
    ];
    for (network, part) in refused {
        let why = network.expect_err(part).to_string();
        assert!(why.contains(part), "{why}");
    }
}

proptest! {
    /// Whatever the star: every answer arrives, none earlier than its wire time, and the last one
    /// no later than a queue of all others.
    #[test]
    fn a_star_without_losses_keeps_its_bounds(
        count in 1_u64..60,
        payload in 0_u64..1400,
        fast in any::<bool>(),
        overhead_ns in 0_u64..5000,
    ) {
        let link = if fast { "1G" } else { "100M" };
        let overhead_us = overhead_ns as f64 / 1e3;
        let plan = predict(&format!(
            "[traffic]\nrate_hz = 5\ncycles = 2\npayload = {payload}\n\
             [[switches]]\nname = \"s\"\nlink = \"{link}\"\noverhead_us = {overhead_us}\n\
             [[devices]]\nname = \"d\"\ncount = {count}\nto = \"s\"\nlink = \"100M\"\n"
        ));
        let first = &plan.devices[0];
        let least = first.on_wire_us + 2.0 * overhead_us;
        let gap_us = 12.0 * if fast { 0.008 } else { 0.08 };
        let frame_us = plan.answer_bytes as f64 * if fast { 0.008 } else { 0.08 } + gap_us;
        prop_assert!((plan.first_answer.min_us - least).abs() < 0.002);
        let expected = least + (count - 1) as f64 * frame_us;
        prop_assert!((plan.last_answer.max_us - expected).abs() < 0.002 + count as f64 * 0.0005);
        prop_assert!(plan.devices.iter().all(|device| device.lost == 0 && device.answered == 2));
    }
}

#[test]
fn the_plans_of_the_documentation_answer_in_time() {
    for (name, devices) in [("forty-boards", 40), ("arm", 6), ("line", 100)] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plans");
        let path = std::path::Path::new(path).join(name).with_extension("toml");
        let network = Network::read(&path).expect(name);
        let plan = simulate(&network).expect(name);
        assert_eq!((plan.devices.len(), plan.in_time), (devices, devices as u64), "{name}");
        println!("{}", picture(&network, &plan).expect(name));
    }
}
