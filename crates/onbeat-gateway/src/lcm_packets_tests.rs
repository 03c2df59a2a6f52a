//! Examples of [`LcmAssembler`]: what arrives, what is lost, and what is held.

use super::*;

const FROM: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);

fn taken(assembler: &mut LcmAssembler, datagrams: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let now = Instant::now();
    datagrams.iter().filter_map(|datagram| assembler.take(FROM, datagram, now)).collect()
}

fn long(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

#[test]
fn messages_of_any_length_arrive_in_any_order_of_their_parts() {
    let mut assembler = LcmAssembler::default();
    for (sequence, bytes) in [0, 1, 65_492, 65_493, 65_494, 200_000].into_iter().enumerate() {
        let mut parts = datagrams("robot", sequence as u32, &long(bytes));
        assert!(parts.iter().all(|part| part.len() <= 65_507), "UDP carries no more");
        parts.reverse();
        assert_eq!(taken(&mut assembler, &parts), [("robot".to_owned(), long(bytes))]);
    }
    assert_eq!(counts(&assembler), [6, 0, 0]);
    assert_eq!((assembler.held_bytes(), assembler.held()), (0, (1, 0)));
}

#[test]
fn gaps_and_incomplete_messages_are_lost_and_late_ones_are_not() {
    let mut assembler = LcmAssembler::default();
    let one = |sequence: u32| datagrams("a", sequence, b"x").remove(0);
    taken(&mut assembler, &[one(u32::MAX), one(0), one(4), one(2)]);
    assert_eq!(assembler.account().lost, 2, "1 and 3");

    let parts = datagrams("a", 5, &long(100_000));
    taken(&mut assembler, &parts[..1]);
    taken(&mut assembler, &datagrams("a", 6, &long(100_000)));
    assert_eq!(counts(&assembler), [5, 3, 0]);
    // A sender that starts again.
    taken(&mut assembler, &[one(500_000), one(3)]);
    assert_eq!(assembler.account().lost, 3 + 499_993);
}

#[test]
fn any_bytes_are_taken_or_counted_as_strange() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut assembler = LcmAssembler::default();
    let valid = datagrams("a", 1, &long(70_000));
    for _ in 0..20_000 {
        let mut datagram = random.choice(&valid).unwrap()[..random.usize(0..60)].to_vec();
        for _ in 0..random.usize(0..4) {
            if let Some(place) = datagram.len().checked_sub(1) {
                datagram[random.usize(0..=place)] = random.u8(..);
            }
        }
        let _ = assembler.take(FROM, &datagram, Instant::now());
        assert_eq!(assembler.held_bytes(), recounted(&assembler));
    }
    assert!(assembler.account().strange > 0);
}

fn counts(assembler: &LcmAssembler) -> [u64; 3] {
    let LcmAccount { received, lost, strange, .. } = assembler.account();
    [received, lost, strange]
}

fn recounted(assembler: &LcmAssembler) -> usize {
    let partial = assembler.senders.values().filter_map(|of| of.partial.as_ref());
    let of_parts = |of: &PartialMessage| {
        let parts = of.parts.values().map(|(_, bytes)| OF_A_PART + bytes.len());
        OF_A_MESSAGE + parts.sum::<usize>()
    };
    let all: usize = partial.map(of_parts).sum();
    let of_hosts: usize = assembler.hosts.values().map(|share| share.bytes).sum();
    assert_eq!(all, of_hosts, "the hosts' shares add up");
    all
}

fn host(number: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, number), port)
}

#[test]
fn thirty_thousand_senders_of_first_parts_take_no_more_than_the_limit() {
    let limits = LcmLimits { most_memory: 2 << 20, most_senders: 100, ..LcmLimits::default() };
    let mut assembler = LcmAssembler::new(limits);
    let first = datagrams("a", 0, &long(1 << 24)).remove(0);
    let now = Instant::now();
    let mut most = 0;
    for port in 1..=30_000 {
        assert_eq!(assembler.take(host(1, port), &first, now), None);
        most = most.max(assembler.held_bytes());
        assert!(assembler.held_bytes() <= 2 << 20 && assembler.held().0 <= 100);
    }
    // A message of 16 MiB is not put together in 2 MiB: nothing of it is kept.
    assert_eq!((most, assembler.account().strange), (0, 30_000));

    let first = datagrams("a", 0, &long(1 << 20)).remove(0);
    for port in 1..=30_000 {
        assembler.take(host(1, port), &first, now);
        assert!(assembler.held_bytes() <= 2 << 20 && assembler.held().0 <= 100);
        assert_eq!(assembler.held_bytes(), recounted(&assembler));
    }
    let account = assembler.account();
    let held = assembler.held().1 as u64;
    assert_eq!(account.lost + held, 30_000, "each message is held or counted as lost");
    assert!(account.dropped_for_memory > 0 && account.most_held_bytes <= 2 << 20);
    assert_eq!(account.forgotten_senders, 29_900);
}

#[test]
fn one_host_does_not_displace_the_message_of_another() {
    let limits = LcmLimits { most_memory: 2 << 20, most_senders: 50, ..LcmLimits::default() };
    let mut assembler = LcmAssembler::new(limits);
    let began = Instant::now();
    let payload = long(900_000);
    let of_hostile = &datagrams("x", 0, &long(1 << 20))[1];
    let (mut taken, mut arrived) = (0, 0);
    for sequence in 0..20 {
        for part in datagrams("robot", sequence, &payload) {
            for _ in 0..40 {
                taken += 1;
                let now = began + Duration::from_nanos(taken);
                assembler.take(host(1, taken as u16), of_hostile, now);
            }
            let now = began + Duration::from_nanos(taken);
            let complete = assembler.take(host(2, 7), &part, now);
            arrived += u64::from(complete == Some(("robot".to_owned(), payload.clone())));
        }
    }
    assert_eq!(arrived, 20, "of a proper sender, every message is complete");
    let account = assembler.account();
    let held = assembler.held().1 as u64;
    assert_eq!(account.lost + held, taken, "of the others, each is held or counted as lost");
    assert!(account.dropped_for_memory > taken / 2, "{account:?}");
}

#[test]
fn a_message_that_is_not_complete_in_time_is_dropped_and_counted() {
    let mut assembler = LcmAssembler::default();
    let parts = datagrams("a", 0, &long(100_000));
    let now = Instant::now();
    assembler.take(FROM, &parts[0], now);
    assembler.expire(now + Duration::from_millis(900));
    assert_eq!(assembler.held(), (1, 1));
    assembler.expire(now + Duration::from_secs(1));
    assert_eq!((assembler.held(), assembler.held_bytes()), ((1, 0), 0));
    let account = assembler.account();
    assert_eq!((account.lost, account.dropped_for_age), (1, 1));
    // The other part comes too late, and is of the same message.
    assembler.take(FROM, &parts[1], now + Duration::from_secs(2));
    assembler.expire(now + Duration::from_secs(4));
    assert_eq!(assembler.account().lost, 1);
}

#[test]
fn parts_that_do_not_join_are_no_message() {
    let mut parts = datagrams("a", 0, &long(200_000));
    let before = u32::from_be_bytes(parts[1][12..16].try_into().unwrap());
    parts[1][12..16].copy_from_slice(&(before - 1).to_be_bytes());
    let mut assembler = LcmAssembler::default();
    assert_eq!(taken(&mut assembler, &parts), []);
    assert_eq!((counts(&assembler), assembler.held_bytes()), ([0, 1, 1], 0));
}
