//! Two guests as two boards: a cable between them, each with a clock of its own, and the host's
//! readings of both clocks, so that what one board says of the other's clock can be checked.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::record::ClockReading;
use onbeat_rt::Instant;

use super::error::JoinError;
use super::exchange::ExchangeHost;
use super::page::SharedPage;
use super::relation::ClockRelation;
use super::session::{ANSWERING, PAGE, exchange, page_arguments};
use crate::vm::{Guest, GuestResult, Job, RunningGuest, VmClock, WorkDirectory};

/// The socket of the cable in the second guest's directory.
const CABLE: &str = "cable";
/// Connects the first guest, and the second one.
const FIRST_INTERFACE: &str = "ip link set eth0 up && ip address add 10.78.0.1/24 dev eth0";
/// The second guest: its clock is made to run faster by `$1` (65,536 are 1 ppm); the board answers
/// before its clock is read, and until it has been read again.
const SECOND_BOARD: &str = r#"ip link set eth0 up && ip address add 10.78.0.2/24 dev eth0 || exit
adjtimex -f "$1" > /dev/null || exit
onbeat net board --bind 10.78.0.2 --allow 10.78.0.0/24 --priority 80 2> /tmp/said &
board=$!
until grep -q Ctrl-C /tmp/said; do
    [ -e /proc/$board ] || { cat /tmp/said >&2; exit 1; }
    usleep 10000
done
onbeat agent answer --clock && onbeat agent answer --clock
status=$?
kill $board
exit $status"#;

/// Two guests, the first measuring `--via` the second one.
#[derive(Clone, Debug)]
pub struct GuestPair<'p, C: VmClock> {
    /// The guests; both need the module `virtio_net`.
    pub guests: [&'p Guest<C>; 2],
    /// Work directory of guests.
    pub work: &'p WorkDirectory,
    /// Words of `onbeat` in the first guest; [`Self::VIA`] is the second board.
    pub words: Vec<String>,
    /// By how much the second guest's clock is made to run faster, in ppm, at most 500 of either sign.
    pub faster_ppm: i32,
    /// Exchanges of the host with each guest, before and after the measurement.
    pub exchanges: u64,
}

/// Both guests' clocks, and what the guests sent.
#[derive(Clone, Debug)]
pub struct PairedClocks<C: VmClock> {
    /// Of each guest to the host's clock.
    pub relations: [ClockRelation; 2],
    /// Of each guest.
    pub results: [GuestResult<C>; 2],
}

/// A stated offset of the second clock, held against the host's readings of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedReading {
    /// How far the stated instant of the second clock is from the true one, in nanoseconds.
    pub error_ns: u64,
    /// What the error itself is uncertain by: half the widths of both relations.
    pub uncertain_ns: u64,
}

impl<C: VmClock> GuestPair<'_, C> {
    /// The second board, as `--via` names it.
    pub const VIA: &'static str = "udp:10.78.0.2:7471";

    /// Runs both guests to their ends. Blocks; `stop` ends them.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn run(&self, stop: &AtomicBool) -> Result<PairedClocks<C>, JoinError> {
        let second = self.start(1, &self.second_job(), "server=on", Path::new(CABLE))?;
        let cable = second.directory().join(CABLE);
        let mut first_job = Job::recorded(self.words.iter().cloned()).between(&[], &ANSWERING);
        first_job.prepare(["sh", "-c", FIRST_INTERFACE]);
        let first = self.start(0, &first_job, "server=off", &cable)?;
        let mut running = [first, second];
        let mut clocks = Vec::new();
        for guest in &running {
            let page = SharedPage::open(&guest.directory().join(PAGE)).map_err(JoinError::Page)?;
            clocks.push(ExchangeHost::new(page));
        }

        // The second board answers from its first exchange on; the first one measures after its own.
        let mut exchanges = [Vec::new(), Vec::new()];
        for guest in [1, 0, 0, 1] {
            let (clock, running) = (&mut clocks[guest], &mut running[guest]);
            let exchanged = exchange(clock, running, self.exchanges, stop, &mut || Ok(()))?;
            exchanges[guest].extend(exchanged);
        }
        let [of_first, of_second] = &exchanges;
        let relations = [ClockRelation::fit(of_first)?, ClockRelation::fit(of_second)?];

        let [first, second] = running;
        let results = [first.wait(stop)?, second.wait(stop)?];
        results.iter().try_for_each(GuestResult::succeeded)?;
        Ok(PairedClocks { relations, results })
    }

    fn second_job(&self) -> Job {
        let mut job = Job::new();
        let units = (self.faster_ppm * 65_536).to_string();
        job.command(["sh", "-c", SECOND_BOARD, "board", &units]);
        job
    }

    fn start(
        &self,
        place: usize,
        job: &Job,
        end: &str,
        cable: &Path,
    ) -> Result<RunningGuest<C>, JoinError> {
        let mut guest = self.guests[place].clone();
        guest.qemu_arguments.extend(page_arguments());
        guest.qemu_arguments.extend([
            "-netdev".to_owned(),
            format!("stream,id=cable,{end},addr.type=unix,addr.path={}", cable.display()),
            "-device".to_owned(),
            format!("virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0{}", place + 1),
        ]);
        Ok(guest.start(self.work, job)?)
    }
}

impl<C: VmClock> PairedClocks<C> {
    /// Holds an offset that the first board stated for the second one's clock against the host's
    /// readings of both.
    #[must_use]
    pub fn check(&self, reading: &ClockReading) -> CheckedReading {
        let stated_ns = reading.at_ns.wrapping_add_signed(reading.offset_ns);
        let [own, other] = [reading.at_ns, stated_ns].map(Instant::from_ns);
        let [first, second] = &self.relations;
        let on_host = [first.to_host(own), second.to_host(other)].map(Instant::as_ns);
        CheckedReading {
            error_ns: on_host[0].abs_diff(on_host[1]),
            uncertain_ns: (first.width_ns() + second.width_ns()).div_ceil(2),
        }
    }
}
