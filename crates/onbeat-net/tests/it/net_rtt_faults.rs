//! Loss, reordering, duplicates, delays, dead and revived devices: made by a proxy between loop and
//! devices, and counted exactly, device by device.
//!
//! The proxy decides by sequence number, the loop serves every release (catch-up), and no answer
//! can be late but where the deadline makes each of them late or the proxy holds it until it is:
//! two and a half seconds, which no other answer of a run of one second waits.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat::probe::{
    self, BlockPlan, Destination, Given, Interruptions, Origin, Run, Setting, SettingValue,
};
use onbeat::record::{DevicePackets, RunFile, Series};
use onbeat_net::device::{DeviceOptions, Devices};
use onbeat_net::packet::{self, WireHeader};
use onbeat_net::rtt::RTT;
use onbeat_rt::OnOverrun;

const RELEASES: u64 = 200;
const PERIOD_NS: u64 = 5_000_000;
/// Longer than the whole run in sequence numbers, so that only packets that are never answered are
/// lost.
const LOST_AFTER_NS: u64 = 5_000_000_000;
/// Of the run whose proxy delays answers until then.
const DEADLINE_NS: u64 = 2_500_000_000;

/// What the proxy does to the answer of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Passes it on.
    None,
    /// Never passes the request on.
    DropRequest,
    /// Does not pass the answer on.
    DropAnswer,
    /// Passes it on three times.
    Triple,
    /// Passes it on after those of this number of later packets.
    HoldBehind(u64),
    /// Passes it on when the deadline is over.
    Delay,
    /// Passes it on with a sequence that was never sent, and then as it is.
    Forge,
    /// Sends bytes that are not a packet, and then the answer.
    Garbage,
}

type Script = fn(u64) -> Fault;

/// Between the loop and one device.
struct Proxy {
    front: UdpSocket,
    back: UdpSocket,
    script: Script,
    /// Answers that are held, with the sequence behind which they are passed on.
    held: Vec<(u64, Vec<u8>)>,
    /// Answers that are delayed, with the instant from which on they are passed on.
    delayed: Vec<(Instant, SocketAddr, Vec<u8>)>,
}

impl Proxy {
    fn before(device: SocketAddr, script: Script) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port");
        front.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
        let back = UdpSocket::bind("127.0.0.1:0").expect("a port");
        back.connect(device).expect("a device");
        Self { front, back, script, held: Vec::new(), delayed: Vec::new() }
    }

    fn until(mut self, stop: &AtomicBool) {
        let mut bytes = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            self.pass_delayed();
            let Ok((length, client)) = self.front.recv_from(&mut bytes) else { continue };
            let header = packet::decode(&bytes[..length]).expect("a request").0;
            self.pass(&bytes[..length], &header, client);
        }
    }

    fn pass_delayed(&mut self) {
        let now = Instant::now();
        for (_, client, answer) in
            self.delayed.extract_if(.., |(until, ..)| *until <= now).collect::<Vec<_>>()
        {
            self.answer(&answer, client);
        }
    }

    fn pass(&mut self, request: &[u8], header: &WireHeader, client: SocketAddr) {
        // The first packets, before the run, have session 0.
        let fault = if header.session == 0 { Fault::None } else { (self.script)(header.sequence) };
        if fault == Fault::DropRequest {
            return;
        }
        self.back.send(request).expect("sent");
        let mut answer = vec![0; 2048];
        let length = self.back.recv(&mut answer).expect("an answer");
        answer.truncate(length);

        match fault {
            Fault::DropRequest | Fault::DropAnswer => {}
            Fault::None => self.answer(&answer, client),
            Fault::Triple => (0..3).for_each(|_| self.answer(&answer, client)),
            Fault::HoldBehind(later) => self.held.push((header.sequence + later, answer)),
            Fault::Delay => {
                let until = Instant::now() + Duration::from_nanos(DEADLINE_NS);
                self.delayed.push((until, client, answer));
            }
            Fault::Forge => {
                let mut forged = answer.clone();
                forged[8..16].copy_from_slice(&(header.sequence + 1_000_000).to_le_bytes());
                self.answer(&forged, client);
                self.answer(&answer, client);
            }
            Fault::Garbage => {
                self.answer(b"not a packet", client);
                self.answer(&answer, client);
            }
        }

        let due = |(behind, _): &mut (u64, Vec<u8>)| *behind <= header.sequence;
        for (_, answer) in self.held.extract_if(.., due).collect::<Vec<_>>() {
            self.answer(&answer, client);
        }
    }

    fn answer(&self, bytes: &[u8], client: SocketAddr) {
        self.front.send_to(bytes, client).expect("sent");
    }
}

/// Runs the probe through a proxy before each of several devices, and reads the run file.
fn run(scripts: &[Script], deadline_ns: u64, path: &Path) -> RunFile {
    let count = scripts.len() as u16;
    let devices = Devices::open(&DeviceOptions { count, ..DeviceOptions::default() });
    let devices = devices.expect("free ports");
    let addresses = devices.addresses().expect("bound");
    let proxies: Vec<Proxy> = addresses
        .iter()
        .zip(scripts)
        .map(|(address, script)| Proxy::before(*address, *script))
        .collect();
    let fronts: Vec<String> =
        proxies.iter().map(|proxy| proxy.front.local_addr().expect("bound").to_string()).collect();

    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| devices.serve(&stop).expect("served"));
        for proxy in proxies {
            threads.spawn(|| proxy.until(&stop));
        }
        measure(&fronts.join(","), deadline_ns, path);
        stop.store(true, Ordering::Relaxed);
    });
    RunFile::read(path).expect("a run file")
}

fn measure(to: &str, deadline_ns: u64, path: &Path) {
    let mut setting = Setting {
        deadline_ns,
        on_overrun: OnOverrun::CatchUp { at_most: u32::MAX },
        ..Setting::new(PERIOD_NS)
    };
    let given = Given(vec![
        ("to", SettingValue::Name(to.to_owned())),
        ("devices", SettingValue::Count(1)),
        ("size", SettingValue::Count(200)),
        ("lost-after", SettingValue::Time(LOST_AFTER_NS)),
        ("receive", SettingValue::Word("block".to_owned())),
        ("dscp", SettingValue::Count(0)),
    ]);
    let mut parts = (RTT.open)(&mut setting, &given).expect("opened");
    let origin = Origin::now();
    let header = probe::header(&["test".to_owned()], RTT.name, RTT.series, origin.unix_s);
    let mut run = Run::open(Destination { path, header, origin: origin.at }, setting).expect("run");
    let block = BlockPlan { index: 0, load: "idle", releases: RELEASES };
    run.single_block(&block, &mut parts, &Interruptions::default(), &mut |_| {}).expect("ran");
    run.close().expect("closed");
}

fn counts(device: &DevicePackets) -> [u64; 7] {
    assert!(device.adds_up(), "{device:?}");
    let DevicePackets { answered, late, lost, unsent, duplicates, reordered, strays, .. } = *device;
    [answered, late, lost, unsent, duplicates, reordered, strays]
}

const WELL: Script = |_| Fault::None;
const LOSSY: Script = |sequence| match sequence {
    10 | 11 => Fault::DropRequest,
    20 => Fault::DropAnswer,
    30 => Fault::Triple,
    40 => Fault::HoldBehind(1),
    50 => Fault::HoldBehind(5),
    60 => Fault::Forge,
    70 => Fault::Garbage,
    _ => Fault::None,
};
/// Dead from 100 on, alive again at 150.
const DIES: Script =
    |sequence| if (100..150).contains(&sequence) { Fault::DropRequest } else { Fault::None };
/// Every tenth packet is answered after the next one.
const SWAPS: Script =
    |sequence| if sequence % 10 == 5 { Fault::HoldBehind(1) } else { Fault::None };
/// Three answers that come when the deadline is over, and after those of later packets.
const SLOW: Script =
    |sequence| if [20, 90, 160].contains(&sequence) { Fault::Delay } else { Fault::None };

#[test]
fn every_fault_is_counted_exactly_at_its_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let scripts = [WELL, LOSSY, DIES, SWAPS, SLOW];
    let file = run(&scripts, DEADLINE_NS, &folder.path().join("rtt.onbeat.hlog"));
    let packets = file.packets.as_ref().expect("the account of packets");

    let found: Vec<[u64; 7]> = packets.devices.iter().map(counts).collect();
    // Answered, late, lost, unsent, duplicates, reordered, strays.
    assert_eq!(found[0], [200, 0, 0, 0, 0, 0, 0]);
    assert_eq!(found[1], [197, 0, 3, 0, 2, 2, 1]);
    assert_eq!(found[2], [150, 0, 50, 0, 0, 0, 0]);
    assert_eq!(found[3], [200, 0, 0, 0, 0, 20, 0]);
    assert_eq!(found[4], [197, 3, 0, 0, 0, 3, 0]);
    assert!((DEADLINE_NS..LOST_AFTER_NS).contains(&packets.devices[4].max_ns));
    assert!(packets.devices.iter().all(|device| device.scheduled == RELEASES));
    assert_eq!((packets.foreign, packets.unrecorded), (1, 0));

    // Each packet of the schedule is in both series, the lost ones with the age at which they were
    // given up.
    let round_trips = file.distribution(Series::RoundTrip);
    assert_eq!(round_trips.count(), 5 * RELEASES);
    assert_eq!(round_trips.count_above(LOST_AFTER_NS - LOST_AFTER_NS / 500), 53);
    assert_eq!(file.distribution(Series::PacketResponse).count(), 5 * RELEASES);
    assert_eq!(file.account().slots, RELEASES);
}

#[test]
fn an_answer_after_the_deadline_is_late_and_keeps_its_age() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = run(&[WELL], 1, &folder.path().join("rtt.onbeat.hlog"));
    let packets = file.packets.as_ref().expect("the account of packets");
    assert_eq!(counts(&packets.devices[0]), [0, 200, 0, 0, 0, 0, 0]);
    assert_eq!(file.distribution(Series::RoundTrip).count(), RELEASES);
    assert!(packets.devices[0].max_ns < LOST_AFTER_NS);

    // Where the kernel stamped every packet, the parts sum to the whole.
    let parts = [Series::SendPath, Series::NetworkTime, Series::DeviceTime, Series::ReceivePath];
    let of_parts = parts.map(|series| file.moments(series));
    assert!(of_parts.iter().all(|moments| moments.n == of_parts[0].n));
    if of_parts[0].n < RELEASES {
        println!("skipped: the kernel stamped {} of {RELEASES} round trips", of_parts[0].n);
        return;
    }
    let sum: f64 = of_parts.iter().map(|moments| moments.mean_ns).sum();
    let whole = file.moments(Series::RoundTrip).mean_ns;
    assert!((sum - whole).abs() < 1.0, "{sum} and {whole}");
}
