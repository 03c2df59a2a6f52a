//! Exchanges between host and guest by the shared page: the guest's clock is read between two
//! readings of the host's.
//!
//! ```text
//! host   sent ──▶ request                          reply ──▶ received
//! guest                  ──▶ stamp of its clock ──▶
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::page::{PageWord, SharedPage};

/// The request that ends a program that answers.
pub(super) const LAST: u64 = u64::MAX;
/// Longest wait for one answer, in nanoseconds: a guest whose virtual CPU is kept off its CPU.
const ANSWER_WITHIN_NS: u64 = 10_000_000_000;
/// Exchanges in a row after which the host pauses: not all of them meet the same disturbance.
const ROW: u64 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// One exchange: the guest has read its clock after `sent` and before `received`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageExchange {
    /// The host's clock before the request.
    pub sent: Instant,
    /// The guest's clock.
    pub stamp: Instant,
    /// The host's clock after the reply.
    pub received: Instant,
}

impl PageExchange {
    /// Returns the time from request to reply, in nanoseconds.
    #[must_use]
    pub const fn delay_ns(&self) -> u64 {
        self.received.ns_since(self.sent)
    }
}

/// Answers exchanges in a guest until the host ends them. Keeps the CPU busy.
///
/// # Errors
/// Without the device, or without root.
pub fn answer_exchanges() -> io::Result<()> {
    let page = SharedPage::of_this_guest()?;
    answer_on(&page);
    Ok(())
}

/// Answers exchanges on a page until the host ends them.
pub(crate) fn answer_on(page: &SharedPage) {
    let request = page.word(PageWord::Request);
    let reply = page.word(PageWord::Reply);
    // A request that was answered by an earlier program is none.
    let mut answered = request.load(Ordering::Acquire);
    page.word(PageWord::Begun).fetch_add(1, Ordering::AcqRel);
    loop {
        let asked = request.load(Ordering::Acquire);
        if asked == answered {
            std::hint::spin_loop();
            continue;
        }
        if asked == LAST {
            reply.store(LAST, Ordering::Release);
            return;
        }

        page.word(PageWord::Stamp).store(Monotonic.now().as_ns(), Ordering::Release);
        reply.store(asked, Ordering::Release);
        answered = asked;
    }
}

/// The host's end.
#[derive(Debug)]
pub(crate) struct ExchangeHost {
    page: SharedPage,
    /// Programs in the guest that have answered.
    begun: u64,
    number: u64,
}

impl ExchangeHost {
    pub(crate) const fn new(page: SharedPage) -> Self {
        Self { page, begun: 0, number: 0 }
    }

    /// Whether the next program in the guest answers.
    pub(crate) fn is_guest_there(&self) -> bool {
        self.page.word(PageWord::Begun).load(Ordering::Acquire) > self.begun
    }

    /// Makes `count` exchanges, and ends the program in the guest.
    pub(crate) fn exchange(
        &mut self,
        count: u64,
        stop: &AtomicBool,
    ) -> Result<Vec<PageExchange>, io::ErrorKind> {
        let once = |number: u64| {
            if number % ROW == ROW - 1 {
                std::thread::sleep(PAUSE);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted);
            }
            self.exchange_once()
        };
        let exchanged = (0..count).map(once).collect();
        self.begun += 1;
        self.page.word(PageWord::Request).store(LAST, Ordering::Release);
        exchanged
    }

    fn exchange_once(&mut self) -> Result<PageExchange, io::ErrorKind> {
        self.number += 1;
        let sent = Monotonic.now();
        self.page.word(PageWord::Request).store(self.number, Ordering::Release);
        while self.page.word(PageWord::Reply).load(Ordering::Acquire) != self.number {
            if Monotonic.now().ns_since(sent) > ANSWER_WITHIN_NS {
                return Err(io::ErrorKind::TimedOut);
            }
            std::hint::spin_loop();
        }
        let received = Monotonic.now();

        let stamp = self.page.word(PageWord::Stamp).load(Ordering::Acquire);
        Ok(PageExchange { sent, stamp: Instant::from_ns(stamp), received })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_stamp_lies_between_the_two_readings_of_the_host() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page");
        fs::write(&path, [0; 4096]).expect("a file");
        let page = SharedPage::open(&path).expect("a page");
        let guest = SharedPage::open(&path).expect("the same page");

        // Two programs, one after the other, as in a guest.
        let answering = std::thread::spawn(move || (0..2).for_each(|_| answer_on(&guest)));
        let mut host = ExchangeHost::new(page);
        for _ in 0..2 {
            while !host.is_guest_there() {
                std::thread::yield_now();
            }
            let exchanges = host.exchange(120, &AtomicBool::new(false)).expect("exchanges");
            assert_eq!(exchanges.len(), 120);
            for one in exchanges {
                assert!(one.sent <= one.stamp && one.stamp <= one.received, "{one:?}");
            }
        }
        answering.join().expect("both programs end");
    }
}
