//! What a connection of the live view can take from the others: programs that never stop sending, never
//! ask, never read, send anything, or close half of their connection. And what its thread may still do.

use crate::view_world;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use onbeat_robot::live_view::{ViewLimits, ViewNotice};
use view_world::{PATIENCE, Shown, next_event};

/// The tests count descriptors and threads of their process, so they take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Descriptors of this process that are sockets: both ends of each connection.
fn sockets() -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let is_socket = |path: std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    all.filter(|entry| is_socket(entry.as_ref().unwrap().path())).count()
}

/// Waits until the view has closed what it is to close.
fn until_sockets_are(expected: usize) {
    let until = Instant::now() + PATIENCE;
    while sockets() != expected {
        assert!(Instant::now() < until, "{} sockets, {expected} expected", sockets());
        sleep(Duration::from_millis(10));
    }
}

/// Publishes cycles until it is asked to stop.
fn publishing(shown: &mut Shown, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        shown.publish(0.25, 1_000);
        sleep(Duration::from_millis(1));
    }
}

/// Connections that never stop sending, each at once replaced by another, while `is_on`.
fn flood(port: u16, is_on: &AtomicBool, stop: &AtomicBool) -> u64 {
    let (mut sent, mut socket) = (0, None);
    while !stop.load(Ordering::Relaxed) {
        if !is_on.load(Ordering::Relaxed) {
            socket = None;
            sleep(Duration::from_millis(1));
            continue;
        }
        let sending = socket.get_or_insert_with(|| {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let _ = write!(socket, "GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
            socket.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            socket
        });
        match sending.write(&[b'x'; 4096]) {
            Ok(count) => sent += count as u64,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => socket = None,
        }
    }
    sent
}

/// Ends threads also where an assertion fails beside them: a scope waits for its threads.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn connections_that_never_stop_sending_take_no_events_from_others() {
    /// Turns with the attackers and turns without, each this long.
    const TURNS: usize = 8;
    const TURN: Duration = Duration::from_millis(750);
    let _alone = alone();
    let mut shown = Shown::open("flood", 0).unwrap();
    let port = shown.port;
    let following: Vec<_> = (0..4).map(|_| shown.follow(None)).collect();
    let seen: Vec<AtomicU64> = following.iter().map(|_| AtomicU64::new(0)).collect();
    let (is_on, stop, is_done) =
        (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));

    let (with, without, sent) = thread::scope(|threads| {
        let _ends = [&stop, &is_done].map(Ends);
        threads.spawn(|| publishing(&mut shown, &is_done));
        let mut browsers = Vec::new();
        for (mut events, seen) in following.into_iter().zip(&seen) {
            let stop = &stop;
            browsers.push(threads.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let (name, _) = next_event(&mut events).unwrap();
                    seen.fetch_add(u64::from(name == "cycles"), Ordering::Relaxed);
                }
            }));
        }
        let floods: Vec<_> = (0..3).map(|_| threads.spawn(|| flood(port, &is_on, &stop))).collect();

        let mut counts = [vec![Vec::new(); 4], vec![Vec::new(); 4]];
        for turn in 0..2 * TURNS {
            is_on.store(turn % 2 == 1, Ordering::Relaxed);
            let before: Vec<u64> = seen.iter().map(|seen| seen.load(Ordering::Relaxed)).collect();
            sleep(TURN);
            for (place, seen) in seen.iter().enumerate() {
                counts[turn % 2][place].push(seen.load(Ordering::Relaxed) - before[place]);
            }
        }
        stop.store(true, Ordering::Relaxed);
        let sent: u64 = floods.into_iter().map(|flood| flood.join().unwrap()).sum();
        // Events come until the last browser has seen the end.
        let ended: Vec<bool> = browsers.into_iter().map(|one| one.join().is_ok()).collect();
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(ended, [true; 4], "no browser was closed");
        let [without, with] = counts;
        (with, without, sent)
    });

    assert!(sent > 16 * 1024, "{sent} bytes");
    // Of the usual turn: one in which this machine stood still has few events, flooded or not.
    let usual = |turns: &[u64]| {
        let mut turns = turns.to_vec();
        turns.sort_unstable();
        turns[TURNS / 2]
    };
    for (all_with, all_without) in with.iter().zip(&without) {
        let (with, without) = (usual(all_with), usual(all_without));
        assert!(without > 0 && with * 2 >= without, "{all_with:?} with, {all_without:?} without");
    }
    let notices = shown.view.server.take_notices();
    assert_eq!(notices, [ViewNotice::Flood { most: 16 * 1024 }]);
    let account = shown.view.server.finish();
    assert!(account.floods > 0, "{account:?}");
}

#[test]
fn a_browser_gets_in_beside_a_hundred_connections_that_do_not_ask() {
    let _alone = alone();
    // Their time does not end here.
    let limits = ViewLimits { connections: 32, request_within: PATIENCE, ..ViewLimits::default() };
    let mut shown = Shown::open_with("idle", 0, limits).unwrap();
    shown.publish(0.25, 1_000);
    let idle: Vec<TcpStream> = (0..100).map(|_| connect(shown.port)).collect();
    let mut events = shown.follow(None);
    assert_eq!(next_event(&mut events).unwrap().0, "hello");

    // More of them do not take its place.
    let more: Vec<TcpStream> = (0..100).map(|_| connect(shown.port)).collect();
    for _ in 0..3 {
        shown.publish(0.25, 1_000);
        while next_event(&mut events).unwrap().0 != "cycles" {}
    }
    let page = shown.ask("GET / HTTP/1.1\nHost: localhost:PORT\n\n");
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    drop((idle, more));
    let account = shown.view.server.finish();
    assert!(account.gave_way >= 100 && account.refused == 0, "{account:?}");
}

#[test]
fn a_browser_gets_the_place_of_one_that_follows_and_does_not_read() {
    let _alone = alone();
    let limits = ViewLimits { browsers: 8, ..ViewLimits::default() };
    let mut shown = Shown::open_with("stalled", 0, limits).unwrap();
    shown.publish(0.25, 1_000);
    let deaf: Vec<BufReader<TcpStream>> = (0..8).map(|_| shown.follow(Some(4_096))).collect();
    let until = Instant::now() + PATIENCE;
    loop {
        // Until what is sent to them does not fit any more.
        (0..25).for_each(|_| shown.publish(0.25, 1_000));
        sleep(Duration::from_millis(30));
        let mut events = shown.follow(None);
        let mut first = String::new();
        events.read_line(&mut first).unwrap();
        if first.starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(first.starts_with("HTTP/1.1 503 ") && Instant::now() < until, "{first}");
    }
    drop(deaf);
    let account = shown.view.server.finish();
    assert!(account.gave_way >= 1 && account.refused >= 1, "{account:?}");
}

#[test]
fn a_request_that_comes_byte_by_byte_ends_with_its_time() {
    let _alone = alone();
    let within = Duration::from_millis(400);
    let limits = ViewLimits { request_within: within, ..ViewLimits::default() };
    let shown = Shown::open_with("slow", 0, limits).unwrap();
    let before = sockets();
    // Before the view can know of any of them: their time must not seem shorter than it was.
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..20).map(|_| connect(shown.port)).collect();
    let mut open = slow.len();
    while open > 0 {
        assert!(began.elapsed() < PATIENCE, "{open} are open");
        // A head without an end.
        open = slow.iter_mut().filter_map(|socket| socket.write(b"a").ok()).count();
        sleep(Duration::from_millis(20));
    }
    assert!(began.elapsed() >= within, "{:?}", began.elapsed());
    drop(slow);
    until_sockets_are(before);
    assert_eq!(shown.view.server.take_notices(), [ViewNotice::NoRequest { within }]);
    assert_eq!(shown.view.server.finish().no_request, 20);
}

/// Repeatable random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_and_half_closed_connections_leave_nothing_behind() {
    let _alone = alone();
    let mut shown = Shown::open("random", 0).unwrap();
    shown.publish(0.25, 1_000);
    let before = sockets();
    let mut random = Random(0x5eed);
    let mut sent = 0;
    for round in 0.. {
        let mut socket = connect(shown.port);
        let length = random.next() % 3_000;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if round % 3 == 0 {
            let at = random.next() as usize % (bytes.len() + 1);
            bytes.splice(at..at, *b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        }
        sent += bytes.len();
        // The view may have closed it already.
        let _ = socket.write_all(&bytes);
        if round % 2 == 0 {
            let _ = socket.shutdown(Shutdown::Write);
        }
        if sent >= 100_000 && round >= 200 {
            break;
        }
    }

    // Half of a connection is closed: the answer to a whole request still comes, and then its end.
    let mut half = connect(shown.port);
    write!(half, "GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", shown.port).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut page = String::new();
    half.read_to_string(&mut page).unwrap();
    assert!(page.ends_with(view_world::PAGE), "{page}");
    drop(half);

    until_sockets_are(before);
    let mut events = shown.follow(None);
    assert_eq!(next_event(&mut events).unwrap().0, "hello", "it answers as before");
}

/// A field of a thread's status; `None` for a thread that has ended.
fn status_of_living(task: &str, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/self/task/{task}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim_start_matches(':').trim().to_owned())
}

fn status(task: &str, field: &str) -> String {
    status_of_living(task, field).unwrap()
}

#[test]
fn the_thread_of_the_view_has_no_capability_and_runs_no_program_and_others_keep_theirs() {
    let _alone = alone();
    let own = fs::read_link("/proc/thread-self").unwrap();
    let own = own.file_name().unwrap().to_str().unwrap().to_owned();
    let before = ["CapEff", "CapPrm", "Seccomp"].map(|field| status(&own, field));
    let shown = Shown::open("rights", 0).unwrap();
    let page = shown.ask("GET / HTTP/1.1\nHost: localhost:PORT\n\n");
    assert!(page.starts_with("HTTP/1.1 200 "), "it serves: {page}");

    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    // Threads of tests before may end meanwhile.
    let is_view =
        |task: &String| status_of_living(task, "Name").is_some_and(|it| it == "onbeat-view");
    let view = names.into_iter().find(is_view).unwrap();
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(status(&view, set), "0000000000000000", "{set}");
    }
    // A filter is in force: its list is tested where it is made, `onbeat_host::rights`.
    assert_eq!([status(&view, "Seccomp"), status(&view, "NoNewPrivs")], ["2", "1"]);

    assert_eq!(["CapEff", "CapPrm", "Seccomp"].map(|field| status(&own, field)), before);
    assert!(std::process::Command::new("true").status().unwrap().success(), "others run programs");
    assert_eq!(shown.view.server.take_notices(), []);
}
