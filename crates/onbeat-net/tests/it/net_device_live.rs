//! Devices on the loopback: they answer whom they may, and what is valid.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onbeat_net::device::{DeviceError, DeviceOptions, Devices, Silence};
use onbeat_net::packet::{
    self, ActuatorCommand, ActuatorMode, IoCommand, PacketBody, PacketKind, WireHeader,
};

fn options(count: u16) -> DeviceOptions {
    DeviceOptions { count, ..DeviceOptions::default() }
}

/// Runs `body` with the addresses of devices that answer; returns them after their end.
fn with_devices(options: &DeviceOptions, body: impl FnOnce(&Devices, &[SocketAddr])) -> Devices {
    let devices = Devices::open(options).expect("free ports");
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        let served = threads.spawn(|| devices.serve(&stop));
        body(&devices, &devices.addresses().expect("bound"));
        stop.store(true, Ordering::Relaxed);
        served.join().expect("no panic").expect("served");
    });
    devices
}

fn request(device: u16, sequence: u64, bytes: usize) -> Vec<u8> {
    let mut message = vec![0xA5; bytes];
    let header = WireHeader { sent_ns: 77, ..WireHeader::echo(device, sequence, 5) };
    header.write(&mut message);
    message
}

#[test]
fn an_echo_returns_every_byte_and_says_when() {
    with_devices(&options(3), |_, addresses| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut answer = [0; 2048];
        for (device, size) in [(0, 56), (1, 200), (2, packet::MOST_BYTES)] {
            let asked = request(device, 9, size);
            socket.send_to(&asked, addresses[usize::from(device)]).expect("sent");
            let (length, from) = socket.recv_from(&mut answer).expect("an answer");
            assert_eq!((length, from), (size, addresses[usize::from(device)]));
            let (header, body) = packet::decode(&answer[..length]).expect("valid");
            assert_eq!(header.kind, PacketKind::EchoAnswer);
            assert_eq!((header.device, header.sequence, header.sent_ns), (device, 9, 77));
            assert!(header.received_ns > 0 && header.answered_ns >= header.received_ns);
            assert_eq!(body, PacketBody::Echo(&asked[packet::HEADER_BYTES..]));
        }
    });
}

/// Sends a command and returns the body of its answer.
fn commanded(
    socket: &UdpSocket,
    to: SocketAddr,
    kind: PacketKind,
    body: &PacketBody<'_>,
) -> Vec<u8> {
    let mut message = request(0, 1, packet::HEADER_BYTES + kind.body_bytes().expect("fixed"));
    let (header, _) = packet::decode(&message).expect("an echo request");
    WireHeader { kind, lifetime_us: 50_000, ..header }.write(&mut message);
    body.write(&mut message[packet::HEADER_BYTES..]);
    socket.send_to(&message, to).expect("sent");
    let mut answer = vec![0; 2048];
    let length = socket.recv(&mut answer).expect("an answer");
    answer.truncate(length);
    answer
}

#[test]
fn a_device_is_an_actuator_and_an_io_board_as_well() {
    with_devices(&options(1), |_, addresses| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let position = ActuatorCommand {
            mode: ActuatorMode::Position,
            position_rad: 0.5,
            ..ActuatorCommand::default()
        };
        let command = PacketBody::ActuatorCommand(position);
        let answer = commanded(&socket, addresses[0], PacketKind::ActuatorCommand, &command);
        assert_eq!(answer.len(), 200);
        let Ok((_, PacketBody::ActuatorFeedback(feedback))) = packet::decode(&answer) else {
            panic!("not a feedback: {answer:02x?}");
        };
        assert_eq!((feedback.mode, feedback.target_rad), (ActuatorMode::Position, 0.5));

        let outputs = IoCommand { digital_mask: 5, digital: 5, ..IoCommand::default() };
        let command = PacketBody::IoCommand(outputs);
        let answer = commanded(&socket, addresses[0], PacketKind::IoCommand, &command);
        let Ok((_, PacketBody::IoFeedback(inputs))) = packet::decode(&answer) else {
            panic!("not a feedback: {answer:02x?}");
        };
        assert_eq!(inputs.digital_in, 5);
    });
}

#[test]
fn what_is_not_answered_is_counted_with_its_reason() {
    let silences = vec![Silence { device: 0, from: 10, to: 20 }];
    let devices = with_devices(&DeviceOptions { silences, ..options(1) }, |_, addresses| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut wrong_version = request(0, 1, 60);
        wrong_version[4] = 9;
        let mut an_answer = request(0, 1, 60);
        an_answer[5] = PacketKind::EchoAnswer as u8;
        let too_long = request(0, 1, packet::MOST_BYTES + 100);
        for message in [b"?".to_vec(), wrong_version, an_answer, too_long] {
            socket.send_to(&message, addresses[0]).expect("sent");
        }
        for sequence in [9, 10, 19, 20] {
            socket.send_to(&request(0, sequence, 60), addresses[0]).expect("sent");
        }

        let mut answer = [0; 2048];
        for sequence in [9, 20] {
            let (length, _) = socket.recv_from(&mut answer).expect("an answer");
            assert_eq!(packet::decode(&answer[..length]).expect("valid").0.sequence, sequence);
        }
    });
    let counts = &devices.counts;
    let read = [&counts.answered, &counts.invalid, &counts.silent, &counts.refused]
        .map(|count| count.load(Ordering::Relaxed));
    assert_eq!(read, [2, 4, 2, 0]);
}

#[test]
fn an_address_that_is_not_allowed_gets_no_answer() {
    let allow = vec!["10.0.0.0/8".parse().expect("a range")];
    let devices = with_devices(&DeviceOptions { allow, ..options(1) }, |devices, addresses| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.send_to(&request(0, 1, 60), addresses[0]).expect("sent");
        while devices.counts.refused.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
    });
    assert_eq!(devices.counts.refused.load(Ordering::Relaxed), 1);
    assert_eq!(devices.counts.answered.load(Ordering::Relaxed), 0);
}

#[test]
fn a_port_in_use_is_named() {
    let first = Devices::open(&options(1)).expect("a free port");
    let port = first.addresses().expect("bound")[0].port();
    let why = Devices::open(&DeviceOptions { first_port: port, ..options(1) }).expect_err("in use");
    assert!(why.to_string().contains(&format!("127.0.0.1:{port}")), "{why}");
    assert!(matches!(Devices::open(&options(0)), Err(DeviceError::Count { .. })));
    let silences = vec![Silence { device: 3, from: 10, to: 20 }];
    let why = Devices::open(&DeviceOptions { silences, ..options(3) }).expect_err("no device 3");
    assert_eq!(why.to_string(), "device 3 cannot be silent: the devices are 0 to 2");
    let beyond = DeviceOptions { first_port: 65_000, ..options(1000) };
    assert!(matches!(Devices::open(&beyond), Err(DeviceError::Count { .. })));
}
