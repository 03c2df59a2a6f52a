//! A bus on a network interface that is set down, loses its link, gets a small MTU, and is deleted
//! and created again. Needs permission to create a network namespace; prints if it is missing.
#![allow(unsafe_code)]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use onbeat_control::{Client, Image, Outage, Presence, Sharing};
use onbeat_ethercat::carrier::{CarrierError, Interface, Role, Trouble, WireMethod};
use onbeat_ethercat::event::{Event, EventKind, no_answer_words};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::Controller;
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, Packets};
use onbeat_robot::image_service::{self, CycleService, CycleTimes};
use onbeat_robot::probe::bus::NoMotion;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use onbeat_segment::Link;
use onbeat_segment::serving::{ServeOptions, serve};

const FILE: &str = "[segment]\nname = \"two\"\n[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"hip\", \"knee\"]\n";
const PERIOD_NS: u64 = 2_000_000;
/// A loaded machine may stop for seconds; this limit is never reached otherwise.
const MOST_CYCLES: u64 = 60_000;

/// Runs `work` in a network namespace of its own, including threads and programs it starts.
fn in_a_namespace(work: impl FnOnce() + Send + 'static) {
    let done = thread::spawn(move || {
        let network = rustix::thread::UnshareFlags::NEWNET;
        // SAFETY: only this thread's network changes, and it has no socket yet.
        let own = unsafe { rustix::thread::unshare_unsafe(network) };
        if let Err(why) = own {
            println!("skipped: no network namespace can be made here: {why}");
            return;
        }

        if ip("link add name probe type veth peer name probe-seg").is_err() {
            println!("skipped: `ip` cannot make a veth pair here");
            return;
        }

        ip("link del probe").unwrap();
        work();
    });
    done.join().unwrap();
}

/// A child holds copies of all descriptors until its execve: no test starts one while another
/// checks what a descriptor was the last to hold.
static CHILDREN: RwLock<()> = RwLock::new(());

fn ip(words: &str) -> Result<String, String> {
    let _child = CHILDREN.read().unwrap_or_else(PoisonError::into_inner);
    let done = Command::new("ip").args(words.split(' ')).output().map_err(|why| why.to_string())?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(said(&done.stdout)) } else { Err(said(&done.stderr)) }
}

/// Waits until an interface has its link: the kernel reports it with a delay.
fn await_link(name: &str) {
    while !ip(&format!("-o link show {name}")).unwrap().contains("state UP") {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Creates a pair of interfaces and waits for its link.
fn make_pair() {
    ip("link add name o0 type veth peer name o0-seg").unwrap();
    for end in ["o0", "o0-seg"] {
        ip(&format!("link set {end} up")).unwrap();
    }

    await_link("o0");
}

/// Devices that answer on `o0-seg`.
struct Devices {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Link>,
}

impl Devices {
    fn start(mut link: Link) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let interface = Interface::open_as("o0-seg", Role::Devices).unwrap();
        let run = move || {
            let _ =
                serve(&[interface], &mut link, ServeOptions::<std::io::Sink>::default(), &until);
            link
        };

        Self { stop, thread: thread::spawn(run) }
    }

    fn end(self) -> Link {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

struct Run {
    bus: Bus<Packets>,
    controller: Box<dyn Controller + Send>,
    serving: CycleService,
    events: Vec<Event>,
}

impl Run {
    fn new(image: &str) -> Self {
        let layout = Layout::from_toml(FILE).unwrap();
        let options =
            BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: false };
        let packets = Packets::open("o0").unwrap().spinning_ns(0);
        let bus = Bus::bring_up(packets, Some(&layout), options, "o0").unwrap();
        let image = Image::create(image, &layout, Sharing::WaitFree).unwrap();
        let (controller, serving, _) = image_service::serve(image, None, None);
        Self { bus, controller, serving, events: Vec::new() }
    }

    /// Runs cycles until a condition holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..MOST_CYCLES {
            let release = Monotonic.now();
            let seen = self.bus.cycle(release, PERIOD_NS, self.controller.as_mut());
            let Self { bus, serving, events, .. } = self;
            serving.after_cycle(
                bus,
                &seen,
                CycleTimes { wakeup_latency_ns: 1, execution_time_ns: 1 },
                |event| {
                    events.push(event);
                },
            );
            if holds(self) {
                return;
            }

            thread::sleep(Duration::from_nanos(PERIOD_NS));
        }
        panic!("{what}: {:?}", self.events);
    }

    /// Changes the interface, checks that the trouble is named and no state is known, then reverts
    /// it and checks that all devices are back.
    fn goes_and_comes(&mut self, client: &Client, trouble: Trouble, go: &[&str], come: &[&str]) {
        self.events.clear();
        go.iter().for_each(|words| drop(ip(words).unwrap()));
        let code = trouble as u32;
        self.until(no_answer_words(code).as_str(), |run| {
            run.events.iter().any(|event| event.kind == EventKind::NoAnswer && event.code == code)
        });

        assert!(
            !self.bus.is_up() && self.bus.al_status(0).is_none() && self.bus.silent_ns().is_some()
        );
        self.until("the image says so", |_| matches!(client.state().outage, Outage::NoAnswer(_)));
        assert_eq!(client.state().in_op, 0);
        assert!(client.devices().iter().all(|device| device.state.presence == Presence::Lost));
        come.iter().for_each(|words| drop(ip(words).unwrap()));
        self.until("all are back", |run| {
            run.bus.is_up() && run.events.iter().any(|it| it.kind == EventKind::AnswerBack)
        });
        self.until("the image says so", |_| {
            client.state().outage == Outage::None && client.state().in_op == 2
        });
    }
}

#[test]
fn trouble_of_an_interface_is_named_and_the_bus_recovers_after_it() {
    in_a_namespace(|| {
        make_pair();
        let mut devices = Devices::start(Link::from_toml(FILE).unwrap());
        let name = format!("test-interface-{}", std::process::id());
        let mut run = Run::new(&name);
        run.until("all are in OP", |run| run.bus.is_up());
        let client = Client::open(&name).unwrap();
        run.goes_and_comes(
            &client,
            Trouble::NoLink,
            &["link set o0-seg down"],
            &["link set o0-seg up"],
        );
        run.goes_and_comes(&client, Trouble::Down, &["link set o0 down"], &["link set o0 up"]);
        run.goes_and_comes(
            &client,
            Trouble::Mtu,
            &["link set o0 mtu 68"],
            &["link set o0 mtu 1500"],
        );

        run.events.clear();
        ip("link del o0").unwrap();
        run.until("it is gone", |run| {
            run.events.iter().any(|event| {
                event.kind == EventKind::NoAnswer && event.code == Trouble::Gone as u32
            })
        });
        let link = devices.end();
        make_pair();
        devices = Devices::start(link);
        run.until("all are back", |run| run.bus.is_up());

        // On its way, the interface is down before it is gone, and has no link before the other end
        // is up: a busy machine may stop the thread that watches it there. Where it stops the
        // devices for ten cycles, they do not answer either, for no reason that is known.
        let on_the_way = [Trouble::Down as u32, Trouble::NoLink as u32];
        let is_reason = |code: &u32| Trouble::from_number(*code).is_some();
        let no_answers = run.events.iter().filter(|event| event.kind == EventKind::NoAnswer);
        let reasons: Vec<u32> = no_answers
            .map(|event| event.code)
            .filter(|code| is_reason(code) && !on_the_way.contains(code))
            .collect();
        assert_eq!(reasons, [Trouble::Gone as u32], "{:?}", run.events);
        drop(run);
        devices.end();
    });
}

const SIX: &str = "[segment]\nname = \"six\"\n[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]\n";

/// Runs cycles until all devices are in OP.
fn until_up(bus: &mut Bus<Packets>) {
    for _ in 0..MOST_CYCLES {
        let seen = bus.cycle(Monotonic.now(), PERIOD_NS, &mut NoMotion);
        if seen.fresh && bus.is_up() {
            return;
        }

        thread::sleep(Duration::from_nanos(PERIOD_NS));
    }
    panic!("not all devices reached OP");
}

#[test]
fn six_devices_reach_op_by_each_wire_and_again_on_a_new_interface() {
    in_a_namespace(|| {
        for method in [WireMethod::Ring, WireMethod::Xdp] {
            make_pair();
            let devices = Devices::start(Link::from_toml(SIX).unwrap());
            let packets = Packets::open_by("o0", method).unwrap().spinning_ns(0);
            if packets.is_fallback() {
                println!("{method} is left out: frames pass {}", packets.words());
            }

            let used = packets.method();
            let layout = Layout::from_toml(SIX).unwrap();
            let mode = ExchangeMode::SameCycle { reply_within_ns: PERIOD_NS };
            let options = BusOptions { mode, period_ns: PERIOD_NS, follow_clock: false };
            let mut bus = Bus::bring_up(packets, Some(&layout), options, "o0").unwrap();
            until_up(&mut bus);

            ip("link del o0").unwrap();
            let link = devices.end();
            make_pair();
            let devices = Devices::start(link);
            // The interface that was there is gone, so a reply came through the new one.
            until_up(&mut bus);
            assert_eq!(bus.wire().method(), used, "on the new one too: {}", bus.wire().words());
            drop(bus);
            devices.end();
            ip("link del o0").unwrap();
        }
    });
}

#[test]
fn an_interface_is_opened_by_one_main_device_and_only_if_it_can_send() {
    in_a_namespace(|| {
        make_pair();
        let first = Packets::open("o0").unwrap();
        let refused = Packets::open("o0").unwrap_err();
        let own = std::process::id();

        assert!(
            matches!(&refused, CarrierError::InUse { user, .. } if user.pid == own),
            "{refused}"
        );
        assert!(
            refused
                .to_string()
                .starts_with("a MainDevice of onbeat is running on \"o0\" already: process ")
        );
        assert_eq!(
            Interface::open("o0").unwrap().user(Role::MainDevice).map(|user| user.pid),
            Some(own)
        );
        let no_child = CHILDREN.write().unwrap_or_else(PoisonError::into_inner);
        drop(first);
        assert_eq!(
            Interface::open("o0").unwrap().user(Role::MainDevice),
            None,
            "free with the socket"
        );
        drop(no_child);

        ip("link set o0-seg down").unwrap();
        // A child would keep the interface in use after an attempt.
        let no_child = CHILDREN.write().unwrap_or_else(PoisonError::into_inner);
        let refused = loop {
            match Packets::open("o0") {
                // The kernel updates the carrier with a delay.
                Ok(_) => thread::sleep(Duration::from_millis(2)),
                Err(why) => break why,
            }
        };
        drop(no_child);

        assert_eq!(
            refused.to_string(),
            "the network interface \"o0\" has no link: check the cable, and that the first SubDevice has power"
        );
        ip("link set o0 down").unwrap();
        let refused = Packets::open("o0").unwrap_err().to_string();

        assert_eq!(
            refused,
            "the network interface \"o0\" is down: switch it on with `ip link set o0 up`"
        );
    });
}

#[test]
fn a_bus_whose_frames_are_longer_than_the_mtu_is_refused_with_both_numbers() {
    in_a_namespace(|| {
        make_pair();
        ip("link set o0 mtu 100").unwrap();
        let devices = Devices::start(Link::from_toml(FILE).unwrap());
        let layout = Layout::from_toml(FILE).unwrap();
        let options =
            BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: false };
        let refused = Bus::bring_up(Packets::open("o0").unwrap(), Some(&layout), options, "o0")
            .unwrap_err()
            .to_string();

        assert!(
            refused.contains("MTU") && refused.contains("ip link set o0 mtu 1500"),
            "{refused}"
        );
        devices.end();
    });
}

/// A MainDevice on a VLAN of the interface: its frames are tagged on the cable, and so must be the
/// replies.
#[test]
fn devices_answer_on_a_vlan_with_the_tag_that_came() {
    in_a_namespace(|| {
        make_pair();
        if let Err(why) = ip("link add link o0 name o0.5 type vlan id 5") {
            println!("skipped: this kernel has no VLAN: {why}");
            return;
        }

        ip("link set o0.5 up").unwrap();
        await_link("o0.5");
        let devices = Devices::start(Link::from_toml(FILE).unwrap());
        let layout = Layout::from_toml(FILE).unwrap();
        let options =
            BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: false };
        let bus = Bus::bring_up(Packets::open("o0.5").unwrap(), Some(&layout), options, "o0.5");

        assert!(bus.is_ok(), "{:?}", bus.err());
        devices.end();
    });
}
