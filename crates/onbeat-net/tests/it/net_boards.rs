//! Two boards, the second one played by the test: its clock is ahead and fast by known amounts, it
//! loses and repeats reports, and its clock is set in the middle of a run.
//!
//! Every clock is computed from the machine's one clock, so the truth of each figure is known. What
//! is lost or repeated is decided by number, and the loop serves every edge (catch-up): no figure
//! asserted here depends on the scheduler.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::probe::ports::PortAddress;
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Origin, Run, Setting};
use onbeat::record::{BoardAccount, RunFile, Series};
use onbeat_net::address::AddressRange;
use onbeat_net::boards::output_board::{BoardOptions, OutputBoard};
use onbeat_net::boards::{self, EdgeRoute};
use onbeat_net::packet::{self, EdgeReport, PacketBody, PacketKind, WireHeader};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, OnOverrun};
use rustix::net::sockopt;

/// More than two seconds of them: each second of exchanges has a fit of its own, and the first may
/// be sent late.
const EDGES: u64 = 700;
const LAST: u64 = EDGES - 1;
const PERIOD_NS: u64 = 3_000_000;
const DELAY_NS: u64 = 200_000;
const LOST_AFTER_NS: u64 = 1_000_000_000;
/// Edges at which a clock that is set goes forward and back.
const SET_EDGES: u64 = 20;

/// The second board's clock.
#[derive(Clone, Copy)]
struct OtherClock {
    /// When the test began, by the machine's clock.
    begun_ns: u64,
    ahead_ns: i64,
    drift: f64,
    /// From this edge on the clock is ahead by ten seconds more. At first ([`SET_EDGES`]) it is set
    /// at each edge, so that one fit sees both, wherever a busy machine lets one fit end.
    is_set_at: u64,
}

impl OtherClock {
    fn ahead_ns(self, own_ns: u64) -> i64 {
        self.ahead_ns + (self.drift * (own_ns - self.begun_ns) as f64).round() as i64
    }

    fn at(self, own_ns: u64, edge: u64) -> u64 {
        let is_set = edge >= self.is_set_at
            && (edge.is_multiple_of(2) || edge >= self.is_set_at.saturating_add(SET_EDGES));
        let set_ns = if is_set { 10_000_000_000 } else { 0 };
        own_ns.wrapping_add_signed(self.ahead_ns(own_ns) + set_ns)
    }
}

/// How many reports there are of an edge.
type Copies = fn(u64) -> usize;

/// The truth about the edges of a run, by the machine's clock.
struct TrueTimes {
    /// From each edge to its output.
    ways_ns: Vec<u64>,
    /// From the taking of edges to their outputs, all together.
    held_ns: u64,
    /// When the last report was sent.
    last_ns: u64,
    /// When the run was over: all reports had come back.
    ended_ns: u64,
}

/// Answers edges until `stop`.
fn play(socket: &UdpSocket, clock: OtherClock, copies: Copies, stop: &AtomicBool) -> TrueTimes {
    let now_ns = || Monotonic.now().as_ns();
    let mut truth = TrueTimes { ways_ns: Vec::new(), held_ns: 0, last_ns: 0, ended_ns: 0 };
    let mut message = [0; 2048];

    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut message) else { continue };
        let taken_ns = now_ns();
        let (request, body) = packet::decode(&message[..length]).expect("a message");
        let edge = request.sequence;
        let mut answer = message[..length].to_vec();

        let times = if let PacketBody::EdgeCommand(command) = body {
            // Not by a sleep: on a busy machine one lasts longer than a period, and edges would
            // wait for it until no more find room.
            while now_ns() < taken_ns + u64::from(command.delay_ns) {
                std::hint::spin_loop();
            }

            let written_ns = now_ns();
            truth.ways_ns.push(written_ns - command.edge_ns);
            truth.held_ns += written_ns - taken_ns;

            let report = EdgeReport {
                edge: command,
                state: 0,
                taken_ns: clock.at(taken_ns, edge),
                written_ns: clock.at(written_ns, edge),
            };
            answer = vec![0; packet::HEADER_BYTES + 48];
            PacketBody::EdgeReport(report).write(&mut answer[packet::HEADER_BYTES..]);
            copies(edge)
        } else {
            assert_eq!(request.kind, PacketKind::EchoRequest);
            1
        };

        let header = WireHeader {
            kind: request.kind.answer().expect("a request"),
            received_ns: clock.at(taken_ns, edge),
            answered_ns: clock.at(now_ns(), edge),
            ..request
        };
        header.write(&mut answer);
        truth.last_ns = now_ns();
        for _ in 0..times {
            socket.send_to(&answer, from).expect("sent");
        }
    }
    truth
}

fn measure(board: SocketAddr, path: &Path) {
    let mut setting = Setting {
        on_overrun: OnOverrun::CatchUp { at_most: u32::MAX },
        warmup: 0,
        ..Setting::new(PERIOD_NS)
    };
    let route = EdgeRoute {
        input: &PortAddress::Generator,
        stimulus: None,
        via: &PortAddress::Udp(board),
        delay_ns: DELAY_NS,
        count: EDGES,
        ptp: None,
        one_clock: false,
    };

    let mut parts = boards::open(&mut setting, &route).expect("opened");
    let origin = Origin::now();
    let header = probe::header(&["test".to_owned()], "chain", &[Series::Chain], origin.unix_s);
    let mut run = Run::open(Destination { path, header, origin: origin.at }, setting).expect("run");
    let block = BlockPlan { index: 0, load: "idle", releases: u64::MAX };
    run.single_block(&block, &mut parts, &Interruptions::default(), &mut |_| {}).expect("ran");
    run.close().expect("closed");
}

/// Runs over two boards; returns the run file, its account, and the true times.
fn run(clock: OtherClock, copies: Copies) -> (RunFile, BoardAccount, TrueTimes) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chain.onbeat.hlog");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
    // As a board has it: after a stall the edges of a second come at once, and it takes 200 us for
    // each.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, 1 << 20)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, 1 << 20));
    let board = socket.local_addr().expect("bound");
    let stop = AtomicBool::new(false);

    let truth = thread::scope(|threads| {
        let played = threads.spawn(|| play(&socket, clock, copies, &stop));
        measure(board, &path);
        let ended_ns = Monotonic.now().as_ns();
        stop.store(true, Ordering::Relaxed);
        TrueTimes { ended_ns, ..played.join().expect("no panic") }
    });
    let file = RunFile::read(&path).expect("a run file");
    let account = file.boards.clone().expect("an account of the boards");
    assert_eq!((account.sent, truth.ways_ns.len() as u64), (EDGES, EDGES));
    assert_eq!(account.sent, account.returned + account.lost, "{account:?}");
    (file, account, truth)
}

fn clock(ahead_ns: i64, drift: f64) -> OtherClock {
    OtherClock { begun_ns: Monotonic.now().as_ns(), ahead_ns, drift, is_set_at: u64::MAX }
}

#[test]
fn the_stated_bound_holds_for_clocks_of_known_offset_and_drift() {
    for (ahead_ns, drift) in [(3_600_000_000_000, 80e-6), (-7_000_000, -300e-6), (0, 0.0)] {
        let other = clock(ahead_ns, drift);
        let (file, account, played) = run(other, |_| 1);
        let ways_ns = &played.ways_ns;
        let fit = account.clock.as_ref().expect("a fit");

        assert!(fit.fits >= 1 && account.unfitted == 0, "{account:?}");
        // The offset is that at the last answer's return, between its sending and the run's end.
        let return_ns = played.ended_ns.saturating_sub(played.last_ns);
        let on_the_way_ns = (drift.abs() * return_ns as f64).ceil() as u64;
        let error_ns = (fit.offset_ns - other.ahead_ns(played.last_ns)).unsigned_abs();
        assert!(error_ns <= fit.most_bound_ns + on_the_way_ns, "{error_ns}: {fit:?}");

        // Mean, least and largest time from edge to output, against the truth.
        let found = file.moments(Series::Chain);
        let mean_ns = ways_ns.iter().sum::<u64>() as f64 / ways_ns.len() as f64;
        let within =
            |found: f64, truth: f64| (found - truth).abs() <= fit.most_bound_ns as f64 + 1.0;
        assert!(within(found.mean_ns, mean_ns), "{found:?} {mean_ns} {fit:?}");
        let (least, most) = (ways_ns.iter().min().unwrap(), ways_ns.iter().max().unwrap());
        assert!(within(found.min_ns as f64, *least as f64), "{found:?} {least}");
        assert!(within(found.max_ns as f64, *most as f64), "{found:?} {most}");

        // t_rwn = t_r + t_n + t_w, of the same edges. The time for which the other board holds an
        // edge is taken by its own clock; a busy machine makes it longer than the planned delay.
        let sum_ns: f64 = [Series::ReadLatency, Series::NetworkLatency, Series::OutputLatency]
            .map(|one| file.moments(one).mean_ns)
            .iter()
            .sum();
        let whole_ns = found.mean_ns - 2.0 * DELAY_NS as f64;
        let held_ns = played.held_ns as f64 / ways_ns.len() as f64;
        let by_drift_ns = 1e-3 * held_ns.max(2.0 * DELAY_NS as f64);
        assert!((whole_ns - sum_ns).abs() <= 2.0 + by_drift_ns, "{whole_ns} {sum_ns} {held_ns}");
    }
}

#[test]
fn lost_and_repeated_reports_are_counted_exactly_and_the_lost_are_in_the_series() {
    let copies: Copies = |edge| match edge {
        10 | 11 | LAST => 0,
        20 => 3,
        30 => 2,
        _ => 1,
    };
    let (file, account, _) = run(clock(1_000_000, 10e-6), copies);
    assert_eq!((account.returned, account.lost, account.duplicates), (EDGES - 3, 3, 3));
    let chain = file.distribution(Series::Chain);
    assert_eq!(chain.count(), EDGES);
    assert!(chain.count_above(LOST_AFTER_NS - LOST_AFTER_NS / 500) >= 3);
    assert_eq!(file.distribution(Series::NetworkLatency).count(), EDGES - 3);
}

#[test]
fn a_clock_that_is_set_in_the_middle_has_no_one_way_figures_there() {
    // In the middle: a fit is of the edges sent in a second or so.
    let set = OtherClock { is_set_at: 280, ..clock(5_000_000, 20e-6) };
    let (file, account, played) = run(set, |_| 1);
    assert!(account.unfitted > 0, "{account:?}");
    assert_eq!(account.clock.is_some(), account.unfitted < EDGES, "{account:?}");
    let one_way = file.distribution(Series::NetworkLatency).count();
    assert_eq!(one_way + account.unfitted, EDGES, "each edge has figures or is said to have none");
    assert_eq!(file.distribution(Series::Chain).count(), EDGES);

    // Nothing wrong by the step is in the series.
    let most_ns = file.moments(Series::Chain).max_ns;
    let truth_ns = played.ways_ns.iter().max().unwrap();
    let bound_ns = account.clock.map_or(0, |clock| clock.most_bound_ns);
    assert!(most_ns < truth_ns + bound_ns + 5_000_000_000, "{most_ns} {truth_ns}");
}

#[test]
fn a_datagram_longer_than_any_message_is_counted_and_the_board_serves_on() {
    let options = BoardOptions {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        output: PortAddress::Pipe,
        allow: AddressRange::LOOPBACK.into(),
    };
    let board = OutputBoard::open(&options).expect("a board");
    let (to, stop) = (board.address().expect("bound"), AtomicBool::new(false));
    thread::scope(|threads| {
        threads.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
            let header = WireHeader::echo(0, 1, 5);
            // It states as many bytes as the board has room for.
            let mut message = vec![0; 2000];
            header.write(&mut message[..=packet::MOST_BYTES]);
            socket.send_to(&message, to).expect("sent");
            header.write(&mut message[..200]);
            socket.send_to(&message[..200], to).expect("sent");
            let answer = socket.recv_from(&mut message);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(answer.expect("an answer"), (200, to));
        });
        board.serve(&stop).expect("served");
    });
    assert_eq!(board.counts.invalid.load(Ordering::Relaxed), 1);
}
