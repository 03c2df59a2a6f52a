//! The kernel's time stamps of datagrams, so that a late observer does not change a figure.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, SystemTime};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

/// Oldest valid stamp: for an older one, the wall clock, by which the kernel stamps, was set in the
/// meantime.
const LONGEST_BACK: Duration = Duration::from_secs(10);
/// How long the kernel may take to switch its stamps on: a kernel thread of ordinary priority does
/// it, which waits while real-time threads have its CPU.
const SWITCHED_ON_WITHIN: Duration = Duration::from_secs(10);
/// How long each datagram of the trial waits for its reading.
const PAUSE: Duration = Duration::from_millis(2);
/// A stamp earlier than its reading by this much was taken before it.
const OLD: Duration = Duration::from_millis(1);

/// Requests the kernel's time stamps for what a socket receives (`SO_TIMESTAMPNS`, socket(7)), and
/// returns whether they are there.
///
/// The kernel switches its stamps on some time after it was asked, and until then gives the instant
/// of the reading instead. So datagrams are sent here until one is older than its reading. None of
/// them is left behind: a later reader would take it for an edge.
pub(super) fn enable(socket: &UdpSocket) -> bool {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option takes an int, which lives across the call; the descriptor is open as long
    // as the socket is borrowed.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            length,
        )
    };

    answer == 0 && becomes_stamped(socket).unwrap_or(false)
}

fn becomes_stamped(socket: &UdpSocket) -> io::Result<bool> {
    let address = socket.local_addr()?;
    let any: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let sender = UdpSocket::bind(any)?;

    let end = Monotonic.now().plus_ns(SWITCHED_ON_WITHIN.as_nanos() as u64);
    let mut is_stamped = false;
    let mut under_way: u32 = 0;
    while (!is_stamped || under_way > 0) && Monotonic.now() < end {
        // One at a time: a datagram can wait for the softirq that delivers it.
        if under_way == 0 {
            sender.send_to(&[0], address)?;
            under_way = 1;
        }

        thread::sleep(PAUSE);
        let read_at = Monotonic.now();
        while let Some((_, at)) = receive(socket.as_fd()) {
            under_way = under_way.saturating_sub(1);
            is_stamped |= at.is_some_and(|at| read_at.ns_since(at) >= OLD.as_nanos() as u64);
        }
    }

    Ok(is_stamped)
}

/// Takes a datagram of one byte, with the instant at which the kernel received it; `None` when
/// there is none.
pub(super) fn receive(socket: BorrowedFd<'_>) -> Option<(u8, Option<Instant>)> {
    let mut byte = 0_u8;
    // Whole words, so that the kernel's headers are aligned in it.
    let mut control = [0_u64; 16];
    let mut into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut into;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: buffer and control data live across the call, with the lengths that are given.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };

    (length == 1).then(|| (byte, stamp(&message).and_then(on_the_loops_clock)))
}

/// The stamp, by the wall clock.
fn stamp(message: &libc::msghdr) -> Option<SystemTime> {
    // SAFETY: the kernel has just filled `message`, whose control data are still there.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the kernel's macros give headers within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: behind a header of this kind stands a timespec; it need not be aligned.
            let at: libc::timespec =
                unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let seconds = u64::try_from(at.tv_sec).ok()?;
            let ns = u32::try_from(at.tv_nsec).ok()?;
            return Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, ns));
        }

        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }

    None
}

/// The same instant by `CLOCK_MONOTONIC`, from how long ago it was; early by what came between the
/// readings of two clocks.
fn on_the_loops_clock(stamp: SystemTime) -> Option<Instant> {
    let pairs = (0..3).map(|_| {
        let before = Monotonic.now();
        let wall = SystemTime::now();
        (Monotonic.now().ns_since(before), before, wall)
    });

    let (_, now, wall) = pairs.min_by_key(|(apart_ns, ..)| *apart_ns)?;
    let ago = wall.duration_since(stamp).ok().filter(|ago| *ago < LONGEST_BACK)?;
    Some(now.minus_ns(ago.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_carries_the_instant_at_which_it_came_however_late_it_is_looked_at() {
        let observer = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert!(enable(&observer), "this kernel stamps");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let before = Monotonic.now();
        sender.send_to(&[42], observer.local_addr().expect("bound")).expect("sent");
        // On the loopback it has been received when it was sent, but for softirqs that wait for a
        // CPU.
        let after = Monotonic.now();
        let look_later = |_| {
            std::thread::sleep(Duration::from_millis(20));
            receive(observer.as_fd())
        };
        let (byte, at) = (0..1500).find_map(look_later).expect("a datagram");
        let at = at.expect("a stamp");

        assert_eq!(byte, 42);
        // Two clocks are read one after the other on each side, and whatever came between them is
        // in the difference.
        assert!(Monotonic.now().ns_since(at) >= 20_000_000, "it came before it was waited for");
        assert!(
            at.as_ns() + 10_000_000_000 > before.as_ns() && at <= Monotonic.now(),
            "{before:?} {at:?} {after:?}"
        );
        assert_eq!(receive(observer.as_fd()), None, "there was one");
    }
}
