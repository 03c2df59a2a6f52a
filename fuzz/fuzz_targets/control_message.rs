//! Bytes as messages on the socket of a bus, and as the content of the memory that it grants. The
//! bus goes on: the next cycle is published, and the outputs it sends are the owner's or safe.
#![no_main]

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use libfuzzer_sys::fuzz_target;
use onbeat_control::{BusSide, Client, ColdSide, GoalSide, Image, ImageSettings, Joint};
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout};
use onbeat_ethercat::setup::DeviceSetup;
use onbeat_ethercat::step::BusCycle;
use onbeat_host::runtime_dir::RuntimeDir;
use rustix::io::pwrite;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};

const BYTES: usize = 24;

struct World {
    name: String,
    bus: BusSide,
    cold: ColdSide,
    goals: GoalSide,
    reader: Client,
    cycle: u64,
}

thread_local!(static WORLD: RefCell<World> = RefCell::new(World::new()));

impl World {
    fn new() -> Self {
        let name = format!("fuzz-{}", std::process::id());
        let mut layout = Layout::default();
        layout.add(DeviceLayout {
            name: "left knee".to_owned(),
            kind: DeviceKind::Drive,
            alias: 0,
            vendor: 0,
            product: 0,
            revision: 0,
            serial: 0,
            outputs: 0..BYTES,
            inputs: 0..BYTES,
            output_values: Vec::new(),
            input_values: Vec::new(),
            increments: 0,
            travel: [0, 0],
            setup: DeviceSetup::default(),
        });
        let joint = Joint {
            device: 0,
            low_rad: -1.0,
            high_rad: 1.0,
            velocity_rad_s: 1.0,
            increments_per_rad: 1.0,
            zero_rad: 0.0,
        };
        let settings = ImageSettings { joints: vec![joint], ..ImageSettings::default() };
        let bus = Image::create(&name, &layout, settings).unwrap();
        let (cold, goals) = (bus.cold_side(), bus.goals().unwrap());
        let reader = Client::open(&name).unwrap();
        Self { name, bus, cold, goals, reader, cycle: 0 }
    }

    fn run(&mut self, memory: &[OwnedFd], bytes: &[u8]) {
        self.cold.tend();
        for descriptor in memory {
            let _ = pwrite(descriptor, bytes, 0);
        }
        self.cycle += 1;
        let cycle = BusCycle { cycle: self.cycle, ..BusCycle::default() };
        self.bus.exchange(&cycle, &[7; BYTES], &mut [0; BYTES]);
        self.goals.latest();
        assert!(self.goals.positions().all(|(joint, _)| joint == 0));
        while let Some(job) = self.cold.take_request() {
            self.cold.answer(&job, &Ok(vec![1]));
        }

        let mut seen = self.reader.snapshot();
        self.reader.read(&mut seen).unwrap();
        assert_eq!((seen.cycle.cycle, seen.inputs.as_slice()), (self.cycle, &[7; BYTES][..]));
    }
}

fn connected(name: &str) -> OwnedFd {
    let directory = RuntimeDir::own().unwrap();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let path = directory.short_path(&format!("{name}.sock"));
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn received(socket: &OwnedFd) -> Vec<OwnedFd> {
    let mut bytes = [0; 2048];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut found = Vec::new();
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let part = &mut [IoSliceMut::new(&mut bytes)];
        let length = recvmsg(socket, part, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                found.extend(some);
            }
        }
        if length.map_or(0, |received| received.bytes) == 0 {
            return found;
        }
    }
}

// Each message: a byte with its length, then its bytes. The last one is the content of memory too.
fuzz_target!(|data: &[u8]| {
    WORLD.with_borrow_mut(|world| {
        let socket = connected(&world.name);
        let mut memory = Vec::new();
        let mut rest = data;
        while let Some((length, others)) = rest.split_first() {
            let (message, others) = others.split_at(usize::from(*length).min(others.len()));
            rest = others;
            let mut none = SendAncillaryBuffer::default();
            let _ = sendmsg(&socket, &[IoSlice::new(message)], &mut none, SendFlags::NOSIGNAL);
            world.cold.tend();
            memory.extend(received(&socket));
            world.run(&memory, message);
        }
        drop(socket);
        world.run(&memory, data);
    });
});
