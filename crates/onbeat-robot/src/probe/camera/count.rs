//! Which pictures were due, and what each one waited: a pure function of what a reader saw.

/// Silence after which pictures count as missing although nothing says that they were dropped: a second,
/// or three periods of a slow camera.
const SILENCE_NS: u64 = 1_000_000_000;
const SILENT_PERIODS: f64 = 3.0;
/// Distances of pictures after which the camera's period counts as known.
const KNOWN_AFTER: u64 = 5;
/// Missing pictures of one gap that are counted one by one; an hour of 60 pictures a second.
const MOST_MISSING: u64 = 216_000;

/// A picture as a reader saw it. Times are of `CLOCK_MONOTONIC`, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenPicture {
    /// When it was captured.
    pub capture_ns: u64,
    /// When it was published.
    pub published_ns: u64,
    /// When the reader had it.
    pub seen_ns: u64,
    /// Pictures dropped before it by source, network or decoder.
    pub dropped_before: u64,
    /// Published pictures before it that were overwritten before they were read.
    pub passed_over: u64,
}

/// What a picture that was due waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It was read.
    Seen {
        /// From capture to reader, in ns.
        waited_ns: u64,
        /// Of it, up to publication.
        published_ns: u64,
        /// The rest.
        read_ns: u64,
    },
    /// It was never read.
    Missing {
        /// From the time at which it was due to the next picture's reader, or to the end.
        waited_ns: u64,
    },
}

/// The account of the pictures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameAccount {
    /// Pictures read.
    pub seen: u64,
    /// Dropped before publication.
    pub dropped: u64,
    /// Overwritten before they were read.
    pub overwritten: u64,
    /// Due by the camera's period, and never heard of.
    pub silent: u64,
    /// Pictures captured before the one that was published before them.
    pub out_of_order: u64,
}

impl FrameAccount {
    /// Returns the number of pictures that were due.
    #[must_use]
    pub const fn due(&self) -> u64 {
        self.seen + self.dropped + self.overwritten + self.silent
    }

    /// Returns the account as a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { seen, dropped, overwritten, silent, out_of_order } = self;
        format!(
            "{} pictures were due: {seen} read, {dropped} dropped before publication, {overwritten} overwritten before \
             they were read, {silent} missing while the camera was silent; {out_of_order} out of order",
            self.due()
        )
    }
}

/// Counts pictures, block by block.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameCount {
    account: FrameAccount,
    /// Capture time of the last picture; 0 before a block.
    last_ns: u64,
    /// Sum and number of the distances of pictures that were due, without silences.
    distances: (u64, u64),
}

impl FrameCount {
    /// Begins a block: pictures captured after this time are due.
    pub const fn begin(&mut self, capture_ns: u64) {
        self.last_ns = capture_ns;
    }

    /// Returns the account so far.
    #[must_use]
    pub const fn account(&self) -> FrameAccount {
        self.account
    }

    /// The camera's period, once it is known.
    fn period_ns(&self) -> Option<f64> {
        let (sum_ns, count) = self.distances;
        (count >= KNOWN_AFTER).then(|| sum_ns as f64 / count as f64)
    }

    /// Pictures that a distance has room for, the one at its end among them; `None` if it is no silence.
    fn room_of_silence(&self, distance_ns: u64) -> Option<u64> {
        let period_ns = self.period_ns()?.max(1.0);
        let silence_ns = (SILENT_PERIODS * period_ns).max(SILENCE_NS as f64);
        (distance_ns as f64 > silence_ns).then(|| (distance_ns as f64 / period_ns).round() as u64)
    }

    /// Counts a picture, after those that are missing before it.
    pub fn picture(&mut self, picture: SeenPicture, mut count: impl FnMut(Counted)) {
        let SeenPicture { capture_ns, published_ns, seen_ns, dropped_before, passed_over } =
            picture;
        let distance_ns = capture_ns.saturating_sub(self.last_ns);
        if self.last_ns > 0 {
            let known = dropped_before.saturating_add(passed_over);
            let room = self.room_of_silence(distance_ns);
            let silent = room.map_or(0, |room| room.saturating_sub(1).saturating_sub(known));
            self.account.silent += silent;
            self.account.dropped += dropped_before;
            self.account.overwritten += passed_over;
            self.account.out_of_order += u64::from(capture_ns < self.last_ns);
            self.missing(known.saturating_add(silent), (distance_ns, seen_ns), &mut count);
            if room.is_none() {
                self.distances.0 += distance_ns;
                self.distances.1 += known.saturating_add(1);
            }
        }
        self.last_ns = self.last_ns.max(capture_ns);
        self.account.seen += 1;
        count(Counted::Seen {
            waited_ns: seen_ns.saturating_sub(capture_ns),
            published_ns: published_ns.saturating_sub(capture_ns),
            read_ns: seen_ns.saturating_sub(published_ns.max(capture_ns)),
        });
    }

    /// Counts pictures that were due at equal distances after the last one, and waited until `until_ns`.
    fn missing(
        &self,
        pictures: u64,
        (distance_ns, until_ns): (u64, u64),
        count: &mut impl FnMut(Counted),
    ) {
        let every_ns = distance_ns as f64 / (pictures.saturating_add(1)) as f64;
        for place in 1..=pictures.min(MOST_MISSING) {
            let due_ns = self.last_ns + (place as f64 * every_ns) as u64;
            count(Counted::Missing { waited_ns: until_ns.saturating_sub(due_ns) });
        }
    }

    /// Ends a block: after a silence, the pictures that were due until now are missing.
    pub fn end(&mut self, now_ns: u64, mut count: impl FnMut(Counted)) {
        let distance_ns = now_ns.saturating_sub(self.last_ns);
        if self.last_ns > 0
            && let (Some(_), Some(period_ns)) =
                (self.room_of_silence(distance_ns), self.period_ns())
        {
            // The latest one may be on its way.
            let pictures = ((distance_ns as f64 / period_ns).floor() as u64).saturating_sub(1);
            self.account.silent += pictures;
            let until_last_ns = ((pictures + 1) as f64 * period_ns) as u64;
            self.missing(pictures, (until_last_ns, now_ns), &mut count);
        }
        self.last_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Pictures of a camera of 10 ms, captured at these times in ms, read 2 ms later.
    fn run(captured_ms: &[u64], dropped: &[u64], end_ms: u64) -> (FrameAccount, Vec<u64>) {
        let mut count = FrameCount::default();
        let mut waited = Vec::new();
        let mut add = |counted| match counted {
            Counted::Seen { waited_ns, published_ns, read_ns } => {
                assert_eq!(waited_ns, published_ns + read_ns);
                waited.push(waited_ns / MS);
            }
            Counted::Missing { waited_ns } => waited.push(waited_ns / MS),
        };
        count.begin(1000 * MS);
        for (at, ms) in captured_ms.iter().enumerate() {
            let capture_ns = ms * MS;
            let picture = SeenPicture {
                capture_ns,
                published_ns: capture_ns + MS,
                seen_ns: capture_ns + 2 * MS,
                dropped_before: dropped.get(at).copied().unwrap_or(0),
                passed_over: 0,
            };
            count.picture(picture, &mut add);
        }
        count.end(end_ms * MS, &mut add);
        (count.account(), waited)
    }

    #[test]
    fn a_dropped_picture_waited_until_the_next_one_was_read() {
        let (account, waited) = run(&[1010, 1020, 1050], &[0, 0, 2], 1055);
        assert_eq!((account.due(), account.seen, account.dropped), (5, 3, 2));
        assert_eq!(waited, [2, 2, 22, 12, 2]);
    }

    #[test]
    fn pictures_due_during_a_silence_are_missing_whether_it_ends_or_not() {
        let regular: Vec<u64> = (1..=10).map(|place| 1000 + 10 * place).collect();
        let again = [&regular[..], &[3100]].concat();
        let (account, waited) = run(&again, &[], 3105);
        assert_eq!((account.due(), account.silent), (10 + 200, 199));
        assert_eq!(waited.len(), 210);
        assert_eq!(waited.iter().max(), Some(&1992), "the first one that was missing");

        let (account, waited) = run(&regular, &[], 2605);
        assert_eq!((account.seen, account.silent), (10, 149));
        assert_eq!(waited.iter().max(), Some(&1495));
    }

    #[test]
    fn a_short_gap_and_a_slow_camera_are_no_silence() {
        let regular: Vec<u64> = (1..=10).map(|place| 1000 + 10 * place).collect();
        assert_eq!(run(&[&regular[..], &[1900]].concat(), &[], 1905).0.silent, 0);
        let slow: Vec<u64> = (1..=10).map(|place| 1000 + 2000 * place).collect();
        assert_eq!(run(&slow, &[], 21_000 + 4000).0.silent, 0);
    }

    #[test]
    fn order_is_that_of_the_captures() {
        let (account, _) = run(&[1010, 1030, 1020, 1040], &[], 1045);
        assert_eq!((account.out_of_order, account.due()), (1, 4));
    }

    #[test]
    fn every_picture_is_counted_once_whatever_is_seen() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let (mut count, mut counted) = (FrameCount::default(), 0);
            count.begin(random.u64(1..1 << 40));
            let mut at_ns = 1 << 40;
            for _ in 0..random.usize(..200) {
                at_ns += random.u64(..50 * MS) + if random.u8(..) == 0 { 5_000 * MS } else { 0 };
                let picture = SeenPicture {
                    capture_ns: at_ns - random.u64(..60 * MS),
                    published_ns: at_ns,
                    seen_ns: at_ns + random.u64(..MS),
                    dropped_before: random.u64(..3),
                    passed_over: random.u64(..2),
                };
                count.picture(picture, |_| counted += 1);
            }
            count.end(at_ns + random.u64(..10_000 * MS), |_| counted += 1);
            // The first distance may be as long as the machine runs; such a silence is bounded.
            assert!(counted == count.account().due(), "{counted}: {:?}", count.account());
        }
    }
}
