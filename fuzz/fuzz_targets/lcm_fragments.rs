//! Takes any datagrams as those of LCM: what is held stays within the limits, and every message is counted.
#![no_main]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use onbeat_gateway::{LcmAssembler, LcmLimits};

fuzz_target!(|bytes: &[u8]| {
    let limits = LcmLimits {
        most_memory: 8 << 10,
        most_message: 4 << 10,
        most_senders: 4,
        most_age: Duration::from_millis(100),
    };
    let mut assembler = LcmAssembler::new(limits);
    let mut now = Instant::now();
    let mut rest = bytes;
    let mut received = 0;
    while let [length, sender, ms, more @ ..] = rest {
        let (datagram, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        now += Duration::from_millis(u64::from(*ms));
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, sender >> 5), u16::from(sender & 31));
        received += u64::from(assembler.take(from, datagram, now).is_some());

        let (senders, partial) = assembler.held();
        assert!(assembler.held_bytes() <= limits.most_memory && senders <= limits.most_senders);
        assert!(partial <= senders && (partial > 0) == (assembler.held_bytes() > 0));
        assert_eq!(assembler.account().received, received);
    }
    assembler.expire(now + Duration::from_secs(1));
    assert_eq!((assembler.held_bytes(), assembler.held().1), (0, 0));
    assert!(assembler.account().most_held_bytes <= limits.most_memory);
});
