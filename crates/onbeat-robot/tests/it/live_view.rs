//! The live view, from the ring to a browser's socket: what is answered, what is refused, and that
//! no cycle is left out.

use crate::view_world;

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_robot::live_view::ViewLimits;
use serde_json::Value;
use view_world::{KNEE, PAGE, PATIENCE, Shown, next_event};

#[test]
fn the_page_is_answered_on_both_addresses_and_under_no_other_name() {
    let shown = Shown::open("names", 0).unwrap();
    let page = shown.ask("GET / HTTP/1.1\nHost: localhost:PORT\n\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with(PAGE), "{page}");
    assert!(!page.to_ascii_lowercase().contains("access-control-allow-origin"), "{page}");

    for (request, status) in [
        ("GET / HTTP/1.1\nHost: robot.example:PORT\n\n", "403"),
        ("GET /events HTTP/1.1\nHost: robot.example\n\n", "403"),
        ("GET /events HTTP/1.1\nHost: localhost:PORT\nSec-Fetch-Site: cross-site\n\n", "403"),
        ("POST / HTTP/1.1\nHost: localhost:PORT\nContent-Length: 0\n\n", "405"),
        ("PUT /events HTTP/1.1\nHost: localhost:PORT\n\n", "405"),
        ("GET /run HTTP/1.1\nHost: localhost:PORT\n\n", "404"),
        ("hello\n\n", "400"),
    ] {
        let answer = shown.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }

    match TcpStream::connect((Ipv6Addr::LOCALHOST, shown.port)) {
        Ok(_) => {}
        Err(why) if why.kind() == ErrorKind::AddrNotAvailable => eprintln!("no IPv6 here: {why}"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn it_listens_on_the_loopback_alone() {
    let shown = Shown::open("loopback", 0).unwrap();
    // The address that this machine would send from; nothing is sent.
    let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let others = ["127.0.0.2".parse().unwrap()].into_iter().chain(route.ok().map(|own| own.ip()));
    for other in others {
        let refused =
            TcpStream::connect_timeout(&(other, shown.port).into(), Duration::from_secs(2));
        assert!(refused.is_err(), "{other} answers");
    }
}

#[test]
fn a_port_in_use_is_refused_with_its_number() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let Err(why) = Shown::open("taken", port) else { panic!("port {port} was taken twice") };
    assert!(
        why.to_string().starts_with(&format!("port {port} of this machine is in use")),
        "{why}"
    );
}

#[test]
fn every_cycle_since_the_start_is_in_the_events_of_a_browser() {
    let mut shown = Shown::open("whole", 0).unwrap();
    // Before the browser: they are in the greeting.
    (0..100).for_each(|_| shown.publish(0.25, 1_000));
    let mut events = shown.follow(None);
    let (name, hello) = next_event(&mut events).unwrap();
    assert_eq!((name.as_str(), &hello["robot"]["name"]), ("hello", &"humanoid".into()));
    assert_eq!(hello["robot"]["devices"].as_array().unwrap().len(), 59);
    let mut last = hello["total"]["last"].as_u64().unwrap();
    let mut cycles = hello["total"]["cycles"].as_u64().unwrap();

    // It reads all the while, and has read all rounds but the last when the view ends: at its end
    // the view waits for no browser, so that what it has not read must fit into a socket.
    let (on_event, seen) = channel();
    let reading = std::thread::spawn(move || {
        cycles_until_end(events, |last| {
            let _ = on_event.send(last);
        })
    });
    for round in 0..20 {
        if round == 19 {
            until_seen(&seen, shown.next - 1);
        }
        (0..50).for_each(|_| shown.publish(0.25, 1_000 + round));
        sleep(Duration::from_millis(5));
    }
    let account = shown.view.server.finish();
    for event in reading.join().unwrap() {
        assert_eq!(event["first"], last + 1, "no cycle is left out");
        last = event["last"].as_u64().unwrap();
        cycles += event["cycles"].as_u64().unwrap();
    }
    assert_eq!((last, cycles, account.lost), (1_100, 1_100, 0));
}

#[test]
fn one_browser_more_than_are_served_is_refused_until_another_leaves() {
    let limits = ViewLimits { browsers: 8, ..ViewLimits::default() };
    let shown = Shown::open_with("many", 0, limits).unwrap();
    let mut following: Vec<_> = (0..8).map(|_| shown.follow(None)).collect();
    for events in &mut following {
        assert_eq!(next_event(events).unwrap().0, "hello");
    }

    let refused = shown.ask("GET /events HTTP/1.1\nHost: localhost:PORT\n\n");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");

    // A place is free again when a browser leaves; the view notices at its next look.
    drop(following.pop());
    let mut attempts = 0;
    loop {
        let mut events = shown.follow(None);
        let mut first = String::new();
        events.read_line(&mut first).unwrap();
        if first.starts_with("HTTP/1.1 200") {
            break;
        }
        attempts += 1;
        assert!(attempts < 100, "{first}");
        sleep(Duration::from_millis(20));
    }
}

/// Reads events of cycles until the run ends; `on_event` gets the last cycle of each.
fn cycles_until_end(mut events: BufReader<TcpStream>, mut on_event: impl FnMut(u64)) -> Vec<Value> {
    let mut cycles = Vec::new();
    while let Some((name, event)) = next_event(&mut events) {
        match name.as_str() {
            "cycles" => {
                on_event(event["last"].as_u64().unwrap());
                cycles.push(event);
            }
            "end" => break,
            _ => {}
        }
    }
    cycles
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort();
    durations[durations.len() / 2]
}

/// Waits until a browser has seen this cycle.
fn until_seen(seen: &Receiver<u64>, last: u64) {
    while seen.recv_timeout(PATIENCE).expect("the view shows what is published") < last {}
}

/// Publishes 25 cycles as often as this, with the knee at `actual_rad` in the last one, and returns
/// what publishing took. A browser that reads has `seen` each round before the next, so each is an
/// event at least, however slow the view is.
fn publish_rounds(
    shown: &mut Shown,
    seen: &Receiver<u64>,
    rounds: usize,
    actual_rad: f64,
) -> Vec<Duration> {
    let mut took = Vec::new();
    for round in 1..=rounds {
        for cycle in 1..=25 {
            let is_last = round == rounds && cycle == 25;
            let began = Instant::now();
            shown.publish(if is_last { actual_rad } else { 0.25 }, 1_000);
            took.push(began.elapsed());
        }

        until_seen(seen, shown.next - 1);
    }
    took
}

#[test]
fn a_browser_that_stops_reading_gets_longer_events_and_slows_nobody() {
    let mut shown = Shown::open("stalled", 0).unwrap();
    let mut reading = shown.follow(None);
    let mut stalled = shown.follow(Some(4_096));
    stalled.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    shown.publish(0.25, 1_000);
    for events in [&mut reading, &mut stalled] {
        assert_eq!(next_event(events).unwrap().0, "hello");
    }
    let (on_event, seen) = channel();
    let reading = std::thread::spawn(move || {
        cycles_until_end(reading, |last| {
            let _ = on_event.send(last);
        })
    });

    // Nobody reads what is sent to the stalled one: sixty events are more than a socket holds.
    // Then an extreme value, then it reads again.
    let before = publish_rounds(&mut shown, &seen, 20, 0.25);
    let meanwhile = publish_rounds(&mut shown, &seen, 40, 9.5);
    let mut late = Vec::new();
    while late.iter().all(|event: &Value| event["merged"] == 0) {
        let (name, event) = next_event(&mut stalled).unwrap();
        late.extend((name == "cycles").then_some(event));
    }
    let (on_late_event, seen_late) = channel();
    let stalled = std::thread::spawn(move || {
        cycles_until_end(stalled, |last| {
            let _ = on_late_event.send(last);
        })
    });
    publish_rounds(&mut shown, &seen, 5, 0.25);
    let last = shown.next - 1;
    // At its end the view waits for nobody: what a browser has not read by then may be lost.
    until_seen(&seen_late, last);
    let account = shown.view.server.finish();
    let reading = reading.join().unwrap();
    late.extend(stalled.join().unwrap());
    let stalled = late;

    for events in [&reading, &stalled] {
        for pair in events.windows(2) {
            let end = pair[0]["last"].as_u64().unwrap();
            assert_eq!(pair[1]["first"], end + 1, "no cycle is left out");
        }
        assert_eq!(events.last().unwrap()["last"], last);
        let highest = events.iter().map(|event| event["joints"][KNEE][5].as_f64().unwrap());
        assert!(highest.fold(0.0, f64::max) >= 9.5, "an extreme in a merged event is not lost");
    }

    let merged: u64 = stalled.iter().map(|event| event["merged"].as_u64().unwrap()).sum();
    assert!(merged > 0, "{} events", stalled.len());
    assert!(stalled.len() < reading.len(), "{} and {}", stalled.len(), reading.len());
    assert!(account.merged >= merged, "{account:?}");
    assert_eq!((account.cycles, account.lost), (last, 0), "the view itself went on reading");

    // The loop's part, publishing, does not know of browsers.
    let (before, meanwhile) = (median(before), median(meanwhile));
    assert!(meanwhile < 5 * before, "{meanwhile:?} while a browser stalls, {before:?} before");
}
