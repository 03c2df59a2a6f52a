//! The sentence about strangers.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::remote_frames::NotValid;

/// Interval between two sentences: a hostile host is refused many times a second.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Makes a sentence of the connections that were refused since the last one.
#[derive(Debug, Default)]
pub(super) struct StrangerNotice {
    said: Option<Instant>,
    refused: u64,
    ended: u64,
    last: Option<(IpAddr, Option<NotValid>)>,
}

impl StrangerNotice {
    pub(super) fn refused(&mut self, host: IpAddr) {
        self.refused += 1;
        self.last = Some((host, None));
    }

    pub(super) fn forged(&mut self, host: IpAddr, why: NotValid) {
        self.ended += 1;
        self.last = Some((host, Some(why)));
    }

    /// Returns a sentence if there is something new and the last one is old enough.
    pub(super) fn sentence(&mut self, now: Instant) -> Option<String> {
        let is_quiet = self.said.is_some_and(|said| now.duration_since(said) < SAY_EVERY);
        let (host, why) = self.last.filter(|_| !is_quiet)?;
        self.said = Some(now);
        self.last = None;
        let (ended, refused) = (std::mem::take(&mut self.ended), std::mem::take(&mut self.refused));
        let why = why.map_or_else(
            || "an address that may not connect (--peers), or too many connections".to_owned(),
            |why| why.to_string(),
        );
        Some(format!(
            "{ended} connections ended as not valid, {refused} refused; the last one from {host}: {why}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_named_once_in_ten_seconds_with_their_number() {
        let mut notice = StrangerNotice::default();
        let now = Instant::now();
        let host = IpAddr::from([10, 0, 0, 9]);
        assert_eq!(notice.sentence(now), None);
        notice.forged(host, NotValid::Forged);
        let first = "1 connections ended as not valid, 0 refused; the last one from 10.0.0.9: a forged frame: its tag is not that of this key and connection";
        assert_eq!(notice.sentence(now).as_deref(), Some(first));
        notice.forged(host, NotValid::Greeting);
        notice.refused(host);
        assert_eq!(notice.sentence(now + Duration::from_secs(9)), None);
        let later = notice.sentence(now + Duration::from_secs(10)).unwrap();
        assert!(later.starts_with("1 connections ended as not valid, 1 refused; "), "{later}");
        assert_eq!(notice.sentence(now + Duration::from_secs(60)), None);
    }
}
