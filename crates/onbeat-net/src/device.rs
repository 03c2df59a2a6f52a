//! Devices that answer: the other end of a round trip, on any machine.
//!
//! [`Devices::open`] binds a socket for each device, [`Devices::serve`] answers in the caller's
//! thread until it is stopped, [`Devices::start`] in one of its own. A device answers only addresses on its allow list, only valid
//! requests, and an echo with as many bytes as it received, so that it is of no use to those who
//! forge addresses. Each device is an echo, an actuator and an I/O board at the same time: the kind
//! of a request decides.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use onbeat_host::thread::{ThreadRequest, stay_off_cpu};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::event::epoll;

use super::actuator::Actuator;
use super::address::AddressRange;
use super::background::BackgroundThread;
use super::io_board::IoBoard;
use super::packet::{self, HEADER_BYTES, PacketBody, PacketKind, WireHeader};
use super::udp::{self, BindError};

/// Largest number of devices of one process.
pub const MOST_DEVICES: u16 = 1024;
/// Real-time priority of devices beside a loop that has one.
const PRIORITY: u32 = 50;
/// How often a waiting thread polls the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Which devices there are, and how they behave.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Local address.
    pub bind: IpAddr,
    /// Port of the first device, the others follow; 0: any free port for each.
    pub first_port: u16,
    /// Number of devices.
    pub count: u16,
    /// Who is answered.
    pub allow: Vec<AddressRange>,
    /// Packets that are not answered, as if the device were dead.
    pub silences: Vec<Silence>,
}

impl Default for DeviceOptions {
    /// One device for this machine, at any free port.
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            first_port: 0,
            count: 1,
            allow: AddressRange::LOOPBACK.into(),
            silences: Vec::new(),
        }
    }
}

/// A device that does not answer for some time, by sequence numbers: repeatable to the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Number of the device, from 0.
    pub device: u16,
    /// First sequence that it does not answer.
    pub from: u64,
    /// First sequence that it answers again.
    pub to: u64,
}

/// Why devices cannot be opened or served.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The number of devices is outside its range.
    #[error(
        "{count} devices from port {first_port} on; 1 to {MOST_DEVICES} are possible, up to port 65535"
    )]
    Count {
        /// As requested.
        count: u16,
        /// As requested.
        first_port: u16,
    },
    /// A silence is that of a device that there is not.
    #[error("device {device} cannot be silent: the devices are 0 to {}", count.saturating_sub(1))]
    Silence {
        /// Its number.
        device: u16,
        /// Number of devices.
        count: u16,
    },
    /// A socket cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system refuses to wait for packets.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
}

/// What devices did, all together.
#[derive(Debug, Default)]
pub struct DeviceCounts {
    /// Requests answered.
    pub answered: AtomicU64,
    /// Packets from addresses that are not allowed.
    pub refused: AtomicU64,
    /// Packets that are not requests of this version.
    pub invalid: AtomicU64,
    /// Requests within a [`Silence`].
    pub silent: AtomicU64,
    /// Answers that the system did not send.
    pub unsent: AtomicU64,
}

/// What a device plays.
#[derive(Clone, Copy, Debug, Default)]
struct Roles {
    actuator: Actuator,
    io_board: IoBoard,
}

/// Open devices.
#[derive(Debug)]
pub struct Devices {
    sockets: Vec<UdpSocket>,
    allow: Vec<AddressRange>,
    silences: Vec<Silence>,
    /// What the devices have done so far.
    pub counts: DeviceCounts,
}

impl Devices {
    /// Opens a socket for each device.
    ///
    /// # Errors
    /// [`DeviceError::Count`], [`DeviceError::Silence`], [`DeviceError::Bind`].
    pub fn open(options: &DeviceOptions) -> Result<Self, DeviceError> {
        let DeviceOptions { bind, first_port, count, .. } = *options;
        let last_port = u32::from(first_port) + u32::from(count) - u32::from(count > 0);
        if !(1..=MOST_DEVICES).contains(&count) || last_port > u32::from(u16::MAX) {
            return Err(DeviceError::Count { count, first_port });
        }
        if let Some(&Silence { device, .. }) = options.silences.iter().find(|of| of.device >= count)
        {
            return Err(DeviceError::Silence { device, count });
        }

        let socket = |number: u16| {
            let port = if first_port == 0 { 0 } else { first_port + number };
            udp::open(SocketAddr::new(bind, port))
        };
        Ok(Self {
            sockets: (0..count).map(socket).collect::<Result<_, _>>()?,
            allow: options.allow.clone(),
            silences: options.silences.clone(),
            counts: DeviceCounts::default(),
        })
    }

    /// Takes bound sockets as devices, in the order of their numbers: such as one in each namespace of
    /// a laboratory.
    ///
    /// # Errors
    /// The system's.
    pub fn from_sockets(sockets: Vec<UdpSocket>, allow: Vec<AddressRange>) -> io::Result<Self> {
        sockets.iter().try_for_each(|socket| udp::prepare(socket, udp::BURST_BYTES))?;
        Ok(Self { sockets, allow, silences: Vec::new(), counts: DeviceCounts::default() })
    }

    /// Returns the address of each device.
    ///
    /// # Errors
    /// The system's.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(UdpSocket::local_addr).collect()
    }

    /// Answers until `stop` is set.
    ///
    /// # Errors
    /// [`DeviceError::Wait`].
    pub fn serve(&self, stop: &AtomicBool) -> Result<(), DeviceError> {
        let wait = |why: rustix::io::Errno| DeviceError::Wait(why.into());
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(wait)?;
        for (number, socket) in self.sockets.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&poll, socket, data, epoll::EventFlags::IN).map_err(wait)?;
        }

        let mut roles = vec![Roles::default(); self.sockets.len()];
        let mut ready = Vec::with_capacity(64);
        let at_most = rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
        while !stop.load(Ordering::Relaxed) {
            ready.clear();
            let spare = rustix::buffer::spare_capacity(&mut ready);
            match epoll::wait(&poll, spare, Some(&at_most)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(wait(why)),
            }
            for event in &ready {
                let device = event.data.u64() as usize;
                self.answer_all(device, &mut roles[device]);
            }
        }
        Ok(())
    }

    /// Starts a thread that answers until it is dropped: beside a loop with a real-time priority it has
    /// one too, and stays off the loop's CPU where that is given.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        self: Arc<Self>,
        is_real_time: bool,
        loop_cpu: Option<u32>,
    ) -> io::Result<BackgroundThread> {
        BackgroundThread::start("onbeat-devices", move |stop| {
            let fifo = is_real_time.then_some(PRIORITY);
            let _ = ThreadRequest { fifo, ..ThreadRequest::default() }.prepare_thread();
            loop_cpu.into_iter().for_each(stay_off_cpu);
            // Without them every packet is lost, and counted as such.
            let _ = self.serve(stop);
        })
    }

    /// Answers what has arrived at one device.
    fn answer_all(&self, device: usize, roles: &mut Roles) {
        let mut message = [0; packet::MOST_BYTES + 1];
        while let Ok((length, from)) = self.sockets[device].recv_from(&mut message) {
            let received_ns = Monotonic.now().as_ns();
            let counted = match self.admit(device, from, &message[..length]) {
                Err(counted) => counted,
                Ok(request) => {
                    let bytes = roles.answer(&request, &mut message, length, received_ns);
                    match self.sockets[device].send_to(&message[..bytes], from) {
                        Ok(_) => &self.counts.answered,
                        Err(_) => &self.counts.unsent,
                    }
                }
            };
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a request that is answered, otherwise where the packet is counted.
    fn admit(
        &self,
        device: usize,
        from: SocketAddr,
        message: &[u8],
    ) -> Result<WireHeader, &AtomicU64> {
        let counts = &self.counts;
        if !self.allow.iter().any(|range| range.contains(from.ip())) {
            return Err(&counts.refused);
        }
        let request = packet::decode(message).ok().map(|(header, _)| header);
        // An edge is for a board with an output.
        let is_request =
            |kind: PacketKind| kind.answer().is_some() && kind != PacketKind::EdgeCommand;
        let Some(request) = request.filter(|request| is_request(request.kind)) else {
            return Err(&counts.invalid);
        };
        let is_silent = |silence: &Silence| {
            usize::from(silence.device) == device
                && (silence.from..silence.to).contains(&request.sequence)
        };
        if self.silences.iter().any(is_silent) { Err(&counts.silent) } else { Ok(request) }
    }
}

impl Roles {
    /// Writes the answer over the request; returns its length.
    fn answer(
        &mut self,
        request: &WireHeader,
        message: &mut [u8],
        length: usize,
        received_ns: u64,
    ) -> usize {
        let kind = request.kind.answer().unwrap_or(request.kind);
        let body = match packet::decode(&message[..length]).map(|(_, body)| body) {
            Ok(PacketBody::ActuatorCommand(command)) => {
                self.actuator.take(request, command, received_ns);
                Some(PacketBody::ActuatorFeedback(self.actuator.feedback(received_ns)))
            }
            Ok(PacketBody::IoCommand(command)) => {
                self.io_board.take(request, &command, received_ns);
                Some(PacketBody::IoFeedback(self.io_board.feedback(received_ns)))
            }
            // An echo comes back as it is.
            _ => None,
        };
        let bytes = kind.body_bytes().map_or(length, |bytes| HEADER_BYTES + bytes);
        let answer = &mut message[..bytes];
        if let Some(body) = body {
            body.write(&mut answer[HEADER_BYTES..]);
        }

        let answered_ns = Monotonic.now().as_ns();
        WireHeader { kind, received_ns, answered_ns, ..*request }.write(answer);
        bytes
    }
}
