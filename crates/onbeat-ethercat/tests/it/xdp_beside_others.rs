//! AF_XDP on an interface that others use too: only frames of EtherCAT are taken, what cannot be
//! used is named, and nothing stays attached after kill -9. Needs permission to create network
//! namespaces; prints if it is missing.
#![allow(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use onbeat_ethercat::carrier::{Interface, WireMethod, private_cable};
use onbeat_ethercat::wire::{Packets, Wire};
use onbeat_rt::time::{Instant, SECOND_NS};

/// Set for the process that is killed while a program is attached.
const HOLDER: &str = "ONBEAT_TEST_XDP_HOLDER";

/// Moves this thread to a network namespace of its own. Returns whether that is permitted.
fn enter_a_namespace() -> bool {
    // SAFETY: only this thread's network changes, and it has no socket yet.
    let own = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
    own.inspect_err(|why| println!("skipped: no network namespace can be made here: {why}")).is_ok()
}

fn ip(words: &str) -> String {
    let done = Command::new("ip").args(words.split(' ')).output().expect("ip of iproute2");
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn up(name: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    ip(&format!("link set {name} up"));
}

/// Waits for the link of `o0`.
fn wait_for_link() {
    while !ip("-o link show o0").contains("state UP") {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Opens the interface by AF_XDP, or prints why that is not possible.
fn opened(name: &str) -> Option<Packets> {
    let packets = Packets::open_by(name, WireMethod::Xdp).unwrap();
    if packets.method() == WireMethod::Xdp {
        return Some(packets);
    }

    println!("skipped: frames pass {}", packets.words());
    None
}

fn frame(ethertype: u16, number: u8) -> Vec<u8> {
    let mut bytes = vec![number; 60];
    bytes[..6].fill(0xff);
    bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    // As the first device marks a frame that comes back.
    bytes[6] |= 2;
    bytes
}

#[test]
fn frames_of_ethercat_are_taken_and_ip_goes_on_as_before() {
    if !enter_a_namespace() {
        return;
    }

    ip("link add name o0 type veth peer name o1");
    let (to_far, from_near) = channel::<()>();
    let (to_near, from_far) = channel::<Option<i32>>();
    let far = thread::spawn(move || {
        let own = enter_a_namespace().then(|| rustix::thread::gettid().as_raw_nonzero().get());
        to_near.send(own).unwrap();
        if from_near.recv().is_err() {
            return;
        }
        let interface = Interface::open("o1").unwrap();
        let socket = UdpSocket::bind("10.77.0.2:7001").unwrap();
        to_near.send(None).unwrap();

        let mut buffer = [0; 64];
        for number in 0..20 {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            interface.send(&frame(0x88a4, number));
            socket.send_to(&buffer[..length], from).unwrap();
        }
    });
    let Some(tid) = from_far.recv().unwrap() else { return };

    ip(&format!("link set o1 netns {tid}"));
    ip("addr add 10.77.0.1/24 dev o0");
    up("o0");
    let in_far = |words: &str| {
        let namespace = format!("--net=/proc/{}/task/{tid}/ns/net", std::process::id());
        let done = Command::new("nsenter").arg(namespace).arg("ip").args(words.split(' ')).status();
        assert!(done.unwrap().success(), "{words}");
    };
    in_far("addr add 10.77.0.2/24 dev o1");
    in_far("link set o1 up");
    wait_for_link();

    let Some(mut packets) = opened("o0") else { return };
    to_far.send(()).unwrap();
    from_far.recv().unwrap();
    let socket = UdpSocket::bind("10.77.0.1:7002").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut buffer = [0; 1515];
    for number in 0..20 {
        socket.send_to(&[number; 8], "10.77.0.2:7001").unwrap();
        assert_eq!(socket.recv(&mut buffer).expect("IP passes the program"), 8);
        assert_eq!(buffer[..8], [number; 8]);

        let until = packets.now().plus_ns(60 * SECOND_NS);
        let length = packets.receive(&mut buffer, until).expect("a frame of EtherCAT");
        assert_eq!(buffer[..length], frame(0x88a4, number), "and no other");
    }
    assert_eq!(packets.receive(&mut buffer, packets.now()), None, "nothing else is taken");
    far.join().unwrap();
}

#[test]
fn a_second_program_is_refused_with_a_reason_and_the_ring_is_used() {
    if !enter_a_namespace() {
        return;
    }

    ip("link add name o0 type veth peer name o1");
    ["o0", "o1"].into_iter().for_each(up);
    wait_for_link();
    let Some(_first) = opened("o0") else { return };
    let second = Packets::new(Interface::open("o0").unwrap().by(WireMethod::Xdp));
    assert_eq!((second.method(), second.is_fallback()), (WireMethod::Ring, true));
    assert_eq!(
        second.words(),
        "the ring of a packet socket, because AF_XDP cannot be used on o0: another program has its \
         XDP program; `ip link show o0` shows XDP programs"
    );
}

#[test]
fn busy_polling_without_a_queue_to_poll_is_refused_with_a_reason_and_af_xdp_is_used() {
    let (bus, devices) = match private_cable(WireMethod::BusyPoll) {
        Ok(ends) => ends,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut packets = Packets::new(bus);
    let words = packets.words();
    match packets.method() {
        WireMethod::Ring => println!("skipped: frames pass {words}"),
        WireMethod::Xdp => assert!(words.contains(") without busy polling: "), "{words}"),
        WireMethod::BusyPoll => assert!(words.ends_with(", busy polling)"), "{words}"),
    }

    devices.send(&frame(0x88a4, 1));
    let until = packets.now().plus_ns(60 * SECOND_NS);
    assert_eq!(packets.receive(&mut [0; 1515], until), Some(60));
}

#[test]
fn several_receive_queues_are_refused_with_a_command() {
    if !enter_a_namespace() {
        return;
    }

    ip(
        "link add name o0 numrxqueues 2 numtxqueues 2 type veth peer name o1 numrxqueues 2 numtxqueues 2",
    );
    ["o0", "o1"].into_iter().for_each(up);
    wait_for_link();
    let packets = Packets::open_by("o0", WireMethod::Xdp).unwrap();
    assert!(packets.words().contains("`ethtool -L o0 combined 1`"), "{}", packets.words());
}

#[test]
fn an_interface_in_this_process_has_no_af_xdp() {
    let (one, _other) = Interface::pair().unwrap();
    let words = one.by(WireMethod::Xdp).words();
    assert!(words.ends_with("it is not a network interface"), "{words}");
}

#[test]
fn kill_9_leaves_no_program_attached() {
    const HERE: &str = "xdp_beside_others::kill_9_leaves_no_program_attached";
    if std::env::var_os(HOLDER).is_some() {
        let _held = opened("o0");
        println!("opened");
        thread::sleep(Duration::from_secs(600));
        return;
    }
    if !enter_a_namespace() {
        return;
    }

    ip("link add name o0 type veth peer name o1");
    ["o0", "o1"].into_iter().for_each(up);
    wait_for_link();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", HERE, "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take_while(|line| !line.contains("opened")).collect();
    let shown = ip("-d link show o0");
    let is_refused = said.iter().any(|line| line.contains("skipped"));
    assert!(is_refused || shown.contains("prog/xdp"), "{said:?} {shown}");

    holder.kill().unwrap();
    holder.wait().unwrap();
    // The kernel releases the files of a killed process after its end was reported.
    while ip("-d link show o0").contains("prog/xdp") {
        thread::sleep(Duration::from_millis(1));
    }
    if is_refused {
        println!("skipped: {said:?}");
    }
}

#[test]
fn a_frame_is_stamped_by_the_program_when_it_arrives() {
    let (bus, devices) = match private_cable(WireMethod::Xdp) {
        Ok(ends) => ends,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut packets = Packets::new(bus);
    if packets.method() != WireMethod::Xdp {
        return println!("skipped: frames pass {}", packets.words());
    }

    let mut stamps: Vec<(Instant, Instant)> = Vec::new();
    // A frame that the kernel has left for later when it is sent arrives later.
    while stamps.last().is_none_or(|(after, arrived)| arrived > after) {
        assert!(stamps.len() < 20, "sent and stamped: {stamps:?}");
        let before = packets.now();
        devices.send(&frame(0x88a4, 1));
        let after = packets.now();
        thread::sleep(Duration::from_millis(5));
        let until = packets.now().plus_ns(60 * SECOND_NS);
        assert_eq!(packets.receive(&mut [0; 1515], until), Some(60));
        let arrived = packets.received_at(packets.now());
        assert!(before <= arrived, "{before:?} {arrived:?}");
        stamps.push((after, arrived));
    }
}
