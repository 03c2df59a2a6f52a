//! Where this kernel drops packets: at sockets, in the backlog of the CPUs, in queue disciplines, at
//! interfaces.
//!
//! Sources: proc(5) `net/udp`, `net/snmp`, `net/snmp6`, `net/dev`; `softnet_stat` of
//! net/core/net-procfs.c; `RTM_GETQDISC` of linux/rtnetlink.h and `gnet_stats_queue` of
//! linux/gen_stats.h.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::socket_drops::socket_drops;
use onbeat_record::{InterfaceDrops, KernelDrops};

/// Numbers of linux/rtnetlink.h, linux/netlink.h, linux/pkt_sched.h and linux/gen_stats.h.
mod number {
    pub(super) const NEW_QDISC: u16 = 36;
    pub(super) const GET_QDISC: u16 = 38;
    pub(super) const REQUEST_AND_DUMP: u16 = 1 | 0x300;
    pub(super) const ERROR: u16 = 2;
    pub(super) const DONE: u16 = 3;
    pub(super) const ROOT: u32 = u32::MAX;
    pub(super) const INGRESS: u32 = 0xffff_fff1;
    /// The part of a handle that a discipline shares with its classes.
    pub(super) const MAJOR: u32 = 0xffff_0000;
    pub(super) const KIND: u16 = 1;
    pub(super) const STATISTICS: u16 = 7;
    pub(super) const QUEUE_STATISTICS: u16 = 3;
}

const MESSAGE_HEADER_BYTES: usize = 16;
/// `struct tcmsg`: family, interface, handle, parent, info.
const QDISC_HEADER_BYTES: usize = 20;
/// The kernel packs a dump into messages of at most this size.
const DUMP_BYTES: usize = 32 << 10;

/// Returns what the kernel has dropped so far at a UDP socket and elsewhere in the calling thread's
/// network namespace; places whose counters cannot be read have 0. `None` where the kernel has no
/// table of UDP sockets.
#[must_use]
pub fn drop_counters(socket: &impl AsFd) -> Option<KernelDrops> {
    let own = socket_drops(socket)?;
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
    };

    let udp = udp_counters(&read("snmp"), &read("snmp6"));
    let mut interfaces = interface_counters(&read("dev"));
    for (name, dropped) in queue_counters().unwrap_or_default() {
        interfaces.entry(name).or_default().queue += dropped;
    }
    let named = |(name, counters): (String, InterfaceDrops)| InterfaceDrops { name, ..counters };
    Some(KernelDrops {
        socket: own,
        other_sockets: udp.full_buffers.saturating_sub(own),
        closed_ports: udp.closed_ports,
        backlog: backlog_drops(&read("softnet_stat")),
        interfaces: interfaces.into_iter().map(named).collect(),
    })
}

/// Counters of all UDP sockets of a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UdpCounters {
    full_buffers: u64,
    closed_ports: u64,
}

fn udp_counters(snmp: &str, snmp6: &str) -> UdpCounters {
    // A line of names and one of values for each protocol.
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    let of_ipv4: BTreeMap<&str, &str> = names.zip(values).collect();
    let of_ipv6: BTreeMap<&str, &str> =
        snmp6.lines().filter_map(|line| line.split_once(char::is_whitespace)).collect();

    let number = |text: Option<&&str>| text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let both = |name: &str| -> u64 {
        number(of_ipv4.get(name)) + number(of_ipv6.get(format!("Udp6{name}").as_str()))
    };
    UdpCounters { full_buffers: both("RcvbufErrors"), closed_ports: both("NoPorts") }
}

/// The second column of each CPU's line, which is hexadecimal.
fn backlog_drops(softnet: &str) -> u64 {
    let second = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().filter_map(second).sum()
}

fn interface_counters(dev: &str) -> BTreeMap<String, InterfaceDrops> {
    let interface = |line: &str| {
        let (name, figures) = line.split_once(':')?;
        let figures: Vec<u64> =
            figures.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        // Errors and drops are the third and fourth of eight columns for each direction.
        let [_, _, receive_errors, receive_drops, _, _, _, _, _, _, errors, drops, ..] =
            figures[..]
        else {
            return None;
        };

        let counters = InterfaceDrops {
            receive: receive_errors + receive_drops,
            transmit: errors + drops,
            ..InterfaceDrops::default()
        };
        Some((name.trim().to_owned(), counters))
    };

    dev.lines().filter_map(interface).collect()
}

/// Drops of queue disciplines by interface.
fn queue_counters() -> io::Result<Vec<(String, u64)>> {
    // Without a protocol, that is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::send(&socket, &qdisc_request(), SendFlags::empty())?;

    let mut found = Vec::new();
    let mut buffer = vec![0; DUMP_BYTES];
    loop {
        let (length, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let part = QdiscDump::parse(&buffer[..length]);
        found.extend(part.queues);
        if part.is_last {
            break;
        }
    }
    let named = |(index, drops): (u32, u64)| Some((index_to_name(&socket, index).ok()?, drops));
    Ok(outermost(&found).into_iter().filter_map(named).collect())
}

fn qdisc_request() -> Vec<u8> {
    let length = (MESSAGE_HEADER_BYTES + QDISC_HEADER_BYTES) as u32;
    let mut request = Vec::with_capacity(length as usize);
    request.extend(length.to_ne_bytes());
    request.extend(number::GET_QDISC.to_ne_bytes());
    request.extend(number::REQUEST_AND_DUMP.to_ne_bytes());
    request.resize(length as usize, 0);
    request
}

/// A queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    interface: u32,
    handle: u32,
    parent: u32,
    is_taprio: bool,
    dropped: u64,
}

/// The interfaces' numbers and what their outermost disciplines dropped. Those inside them are left out, as an outer one counts
/// what an inner one drops. But with a schedule in hardware, frames pass by `taprio` into those inside it, such as `etf`.
fn outermost(queues: &[Queue]) -> Vec<(u32, u64)> {
    let is_outer = |queue: &&Queue| [number::ROOT, number::INGRESS].contains(&queue.parent);
    let dropped = |outer: &Queue| {
        let inner = queues.iter().filter(|queue| {
            let is_inside = queue.parent & number::MAJOR == outer.handle & number::MAJOR;
            outer.is_taprio && is_inside && queue.interface == outer.interface
        });
        let inner: u64 = inner.map(|queue| queue.dropped).sum();
        (outer.interface, outer.dropped.max(inner))
    };
    queues.iter().filter(is_outer).map(dropped).collect()
}

/// One message of a dump.
#[derive(Debug, Default, PartialEq, Eq)]
struct QdiscDump {
    queues: Vec<Queue>,
    is_last: bool,
}

impl QdiscDump {
    fn parse(mut bytes: &[u8]) -> Self {
        let mut dump = Self { is_last: bytes.is_empty(), ..Self::default() };
        while let Some(message) = framed(bytes, MESSAGE_HEADER_BYTES, |head| u32_at(head, 0)) {
            match u16_at(message, 4) {
                Some(number::NEW_QDISC) => dump.queues.extend(queue_of(message)),
                Some(number::DONE | number::ERROR) => dump.is_last = true,
                _ => {}
            }
            bytes = bytes.get(message.len().next_multiple_of(4)..).unwrap_or_default();
        }
        // Bytes that are not a message end the dump, which would else be waited for without end.
        dump.is_last |= !bytes.is_empty();
        dump
    }
}

fn queue_of(message: &[u8]) -> Option<Queue> {
    let attributes = message.get(MESSAGE_HEADER_BYTES + QDISC_HEADER_BYTES..)?;
    let kind = attribute(attributes, number::KIND);
    let queue = attribute(attribute(attributes, number::STATISTICS)?, number::QUEUE_STATISTICS)?;
    Some(Queue {
        interface: u32_at(message, MESSAGE_HEADER_BYTES + 4)?,
        handle: u32_at(message, MESSAGE_HEADER_BYTES + 8)?,
        parent: u32_at(message, MESSAGE_HEADER_BYTES + 12)?,
        is_taprio: kind.is_some_and(|kind| kind.starts_with(b"taprio\0")),
        // After the packets and the bytes that wait.
        dropped: u64::from(u32_at(queue, 8)?),
    })
}

/// The content of the first attribute of a type.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    // The upper two bits are flags.
    const TYPE_MASK: u16 = 0x3fff;
    loop {
        let whole = framed(bytes, 4, |head| u16_at(head, 0).map(u32::from))?;
        if u16_at(whole, 2)? & TYPE_MASK == wanted {
            return whole.get(4..);
        }
        bytes = bytes.get(whole.len().next_multiple_of(4)..)?;
    }
}

/// The first item of `bytes`, whose header states its length.
fn framed(bytes: &[u8], header: usize, length: impl Fn(&[u8]) -> Option<u32>) -> Option<&[u8]> {
    let length = length(bytes)? as usize;
    bytes.get(..length).filter(|item| item.len() >= header)
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(place..place + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::socket_drops::tests::{SENT, received_of};
    use super::*;

    #[test]
    fn counters_of_both_protocols_are_summed() {
        let snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
            Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
            Udp: 100 7 5 90 1979 0\nUdpLite: InDatagrams NoPorts\nUdpLite: 9 9\n";
        let snmp6 = "Udp6InDatagrams                 \t3\nUdp6NoPorts                     \t1\n\
            Udp6RcvbufErrors                \t2\n";
        let found = udp_counters(snmp, snmp6);
        assert_eq!(found, UdpCounters { full_buffers: 1981, closed_ports: 8 });
        assert_eq!(udp_counters("", ""), UdpCounters::default());
    }

    #[test]
    fn the_backlogs_of_all_cpus_are_summed() {
        let softnet = "00011f2a 0000000a 00000000 00000000\n0000c0de 00000010 00000001 00000000\n";
        assert_eq!(backlog_drops(softnet), 10 + 16);
    }

    #[test]
    fn errors_and_drops_of_an_interface_are_found_by_direction() {
        let dev = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n  \
            eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n";
        let found = interface_counters(dev);
        let eth0 = &found["eth0"];
        assert_eq!((found.len(), eth0.receive, eth0.transmit, eth0.queue), (1, 3, 7, 0));
    }

    /// A message about a discipline of interface 5.
    fn qdisc(parent: u32, drops: u32) -> Vec<u8> {
        qdisc_of(b"tbf\0", parent, drops)
    }

    fn qdisc_of(kind: &[u8], parent: u32, drops: u32) -> Vec<u8> {
        let queue = [0, 0, drops, 0, 0].map(u32::to_ne_bytes).concat();
        let attribute = |kind: u16, content: &[u8]| {
            [&(content.len() as u16 + 4).to_ne_bytes()[..], &kind.to_ne_bytes(), content].concat()
        };
        let kind = attribute(number::KIND, kind);
        let statistics =
            attribute(number::STATISTICS, &attribute(number::QUEUE_STATISTICS, &queue));
        let head = [0_u32, 5, 0x8001_0000, parent, 0].map(u32::to_ne_bytes).concat();
        let content = [head, kind, statistics].concat();
        let mut message = ((content.len() + 16) as u32).to_ne_bytes().to_vec();
        message.extend(number::NEW_QDISC.to_ne_bytes());
        message.resize(16, 0);
        message.extend(content);
        message
    }

    #[test]
    fn an_inner_discipline_is_not_counted_twice() {
        let dump = [qdisc(number::ROOT, 30), qdisc(0x8001_0001, 30), qdisc(number::INGRESS, 4)];
        let found = QdiscDump::parse(&dump.concat());
        assert_eq!((outermost(&found.queues), found.is_last), (vec![(5, 30), (5, 4)], false));
        // Cut anywhere, it is read as far as it is whole.
        let bytes = dump.concat();
        for length in 0..bytes.len() {
            assert!(QdiscDump::parse(&bytes[..length]).queues.len() <= 1 + length / 80);
        }
    }

    #[test]
    fn frames_that_pass_by_a_schedule_in_hardware_are_counted_inside_it() {
        // 8001: taprio with two queues, etf and pfifo; in software it counts what they drop.
        for (own, inner, all) in [(0, [7, 2], 9), (9, [7, 2], 9), (11, [7, 2], 11)] {
            let dump = [
                qdisc_of(b"taprio\0\0", number::ROOT, own),
                qdisc_of(b"etf\0", 0x8001_0001, inner[0]),
                qdisc_of(b"pfifo\0\0\0", 0x8001_0002, inner[1]),
                qdisc_of(b"pfifo\0\0\0", 0x8002_0001, 100),
            ];
            let found = QdiscDump::parse(&dump.concat());
            assert_eq!(outermost(&found.queues), [(5, all)], "{own}");
        }
    }

    #[test]
    fn a_socket_without_a_reader_is_the_place_of_its_losses() {
        let _alone = crate::LOOPBACK.lock();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let Some(before) = drop_counters(&socket) else {
            println!("skipped: this kernel has no table of UDP sockets");
            return;
        };
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        (0..SENT).for_each(|_| assert_eq!(sender.send_to(&[0; 1000], to).unwrap(), 1000));

        let drops = || drop_counters(&socket).unwrap().since(&before);
        let received = received_of(&socket, || drops().socket);
        let drops = drops();
        assert_eq!(drops.socket, SENT - received);
        assert!(drops.interfaces.iter().any(|one| one.name == "lo"), "{drops:?}");
    }
}
