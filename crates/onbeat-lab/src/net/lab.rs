//! The laboratory: namespaces, bridges and cables of a plan, and the thread of its devices.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use onbeat_figures::units::counted;
use onbeat_net::address::AddressRange;
use onbeat_net::device::Devices;
use onbeat_net::packet::PORT;
use onbeat_net::plan::Network;

use super::cabling::{self, Cable, Cabling, NETWORK_BITS, Socket, hardware_address};
use super::error::NetworkLabError;
use super::namespace::Namespace;
use super::netlink::{HardwareAddress, VethEnd};

/// Numbers of interfaces in a namespace: bridges, then ends of cables.
const FIRST_BRIDGE: u32 = 10;
const FIRST_END: u32 = 10_000;
/// Hardware addresses: whose.
const OF_CONTROLLER: u8 = 1;
const OF_DEVICE: u8 = 2;
const OF_BRIDGE: u8 = 3;

/// Whether links carry no more than the plan says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRates {
    /// As fast as this machine copies packets.
    Unlimited,
    /// At the rates of the plan, by a token bucket at each end.
    Planned,
}

/// A network in namespaces. It is removed when the last descriptor of it is closed: when this, the
/// thread of its devices and all sockets opened in it are dropped, or when the process ends.
#[derive(Debug)]
pub struct NetworkLab {
    controller: Namespace,
    _switches: Namespace,
    /// The devices, which answer from their namespaces once they are started.
    pub devices: Arc<Devices>,
    /// The addresses of the devices, in the order of their numbers.
    pub addresses: Vec<SocketAddr>,
    /// Number of switches, those in the members of chains among them.
    pub switches: usize,
    /// How long it took to build.
    pub built_in: Duration,
    /// What of the plan is not reproduced, as sentences.
    pub left_out: Vec<String>,
}

/// The namespaces of a laboratory while it is built.
struct Site {
    controller: Namespace,
    switches: Namespace,
    devices: Vec<(Namespace, UdpSocket)>,
}

impl NetworkLab {
    /// Builds the network of a plan.
    ///
    /// # Errors
    /// [`NetworkLabError`]; then nothing is left of it.
    pub fn build(network: &Network, rates: LinkRates) -> Result<Self, NetworkLabError> {
        let begun = Instant::now();
        let cabling = Cabling::from_plan(network)?;
        let site = Site::create(cabling.devices.len())?;
        site.add_bridges(&cabling)?;
        for (number, cable) in (0..).zip(&cabling.cables) {
            site.plug(number, cable, rates)?;
        }
        site.address(&cabling)?;

        let addresses = cabling.devices.iter().map(|of| SocketAddr::new(of.device.into(), PORT));
        let left_out = left_out(network, &cabling, rates);
        let Site { controller, switches, devices } = site;
        let sockets = devices.into_iter().map(|(_, socket)| socket).collect();
        // Nobody else can reach these namespaces.
        let devices = Devices::from_sockets(sockets, vec![AddressRange::ANY_IPV4])
            .map_err(|source| request("prepare the sockets of", "the devices", source))?;
        Ok(Self {
            controller,
            _switches: switches,
            devices: Arc::new(devices),
            addresses: addresses.collect(),
            switches: cabling.bridges.len(),
            built_in: begun.elapsed(),
            left_out,
        })
    }

    /// Does `work` in the controller's namespace. Sockets that it opens, threads and processes that
    /// it starts are there and stay there.
    ///
    /// # Errors
    /// [`NetworkLabError::Enter`].
    pub fn within_controller<T>(&self, work: impl FnOnce() -> T) -> Result<T, NetworkLabError> {
        self.controller.within(work).map_err(NetworkLabError::Enter)
    }
}

/// What of a plan a laboratory does not reproduce.
fn left_out(network: &Network, cabling: &Cabling, rates: LinkRates) -> Vec<String> {
    let mut sentences = Vec::new();
    if cabling.hosts > 0 || network.background_streams() > 0 {
        let hosts = counted(cabling.hosts as u64, "other host");
        let streams = counted(network.background_streams() as u64, "stream");
        sentences
            .push(format!("left out of the plan: {hosts} and {streams} of background traffic"));
    }
    if network.has_larger_headers() {
        sentences.push("packets are plain IPv4: without the plan's IPv6 or VLAN tag".to_owned());
    }
    if rates == LinkRates::Planned {
        sentences.push(
            "links let two packets, or those of 20 us, pass at once, then keep the plan's rate: \
             a packet by itself takes no time on the wire"
                .to_owned(),
        );
    }
    if rates == LinkRates::Planned && cabling.has_overheads {
        sentences.push(
            "switches forward without the plan's overhead: bridges have their own".to_owned(),
        );
    }
    sentences
}

fn request(what: &'static str, name: &str, source: io::Error) -> NetworkLabError {
    let missing = |kind, what, module| NetworkLabError::NoSuchPart { kind, what, module };
    match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => NetworkLabError::NotPermitted,
        Some(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOENT) => match what {
            "create cable" => missing("veth", "cables", "veth"),
            "create bridge" => missing("bridge", "switches", "bridge"),
            "limit" => missing("tbf", "the rates of links", "sch_tbf"),
            _ => NetworkLabError::Request { what, name: name.to_owned(), source },
        },
        _ => NetworkLabError::Request { what, name: name.to_owned(), source },
    }
}

impl Site {
    /// Creates the namespaces, and in each device's one its socket.
    fn create(devices: usize) -> Result<Self, NetworkLabError> {
        // A namespace belongs to a thread. This one goes from each to the next and ends; the others
        // of the process stay where they are.
        let builder = thread::Builder::new().name("onbeat-lab".to_owned());
        let creating = builder.spawn(move || Self::create_here(devices));
        let thread = creating.map_err(NetworkLabError::Thread)?;
        thread.join().unwrap_or_else(|_| {
            Err(NetworkLabError::Thread(io::Error::other("the thread panicked")))
        })
    }

    fn create_here(devices: usize) -> Result<Self, NetworkLabError> {
        let all = devices + 2;
        let create = |number: usize| {
            Namespace::create_and_enter().map_err(|source| match source.kind() {
                io::ErrorKind::PermissionDenied => NetworkLabError::NotPermitted,
                _ => NetworkLabError::Namespace { number, all, source },
            })
        };
        let controller = create(1)?;
        let switches = create(2)?;

        let device = |number: usize| {
            let namespace = create(number + 3)?;
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT));
            let socket = socket
                .map_err(|source| request("open a socket for", &device_name(number), source))?;
            Ok((namespace, socket))
        };
        let devices = (0..devices).map(device).collect::<Result<_, NetworkLabError>>()?;
        Ok(Self { controller, switches, devices })
    }

    fn namespace(&self, socket: Socket) -> &Namespace {
        match socket {
            Socket::Controller { .. } => &self.controller,
            Socket::Bridge { .. } => &self.switches,
            Socket::Device { device } => &self.devices[device].0,
        }
    }

    fn add_bridges(&self, cabling: &Cabling) -> Result<(), NetworkLabError> {
        for (name, index) in cabling.bridges.iter().zip(FIRST_BRIDGE..) {
            let created = self.switches.netlink.add_bridge(&format!("switch{index}"), index);
            created.map_err(|source| request("create bridge", name, source))?;
            let up = self.switches.netlink.bring_up(index, None);
            up.map_err(|source| request("bring up", name, source))?;
        }
        Ok(())
    }

    /// Plugs a cable in at both ends, and brings them up.
    fn plug(&self, number: u32, cable: &Cable, rates: LinkRates) -> Result<(), NetworkLabError> {
        let sockets = [cable.upper, cable.lower];
        let indices = [FIRST_END + 2 * number, FIRST_END + 2 * number + 1];
        let names = [0, 1].map(|end| end_name(sockets[end], indices[end]));
        let end = |end: usize| VethEnd {
            name: &names[end],
            index: indices[end],
            hardware: hardware(sockets[end], indices[end]),
        };
        let [upper, lower] = sockets.map(|socket| self.namespace(socket));
        let failed = |what| move |source| request(what, &device_or_switch(cable.lower), source);
        upper.netlink.add_cable(end(0), end(1), lower.as_fd()).map_err(failed("create cable"))?;

        for (place, namespace) in [upper, lower].into_iter().enumerate() {
            let bridge = match sockets[place] {
                Socket::Bridge { bridge } => Some(FIRST_BRIDGE + bridge as u32),
                _ => None,
            };
            if let (LinkRates::Planned, Some(limits)) = (rates, cable.limits) {
                let limited = namespace.netlink.limit(indices[place], limits[place]);
                limited.map_err(failed("limit"))?;
            }
            let up = namespace.netlink.bring_up(indices[place], bridge);
            up.map_err(failed("bring up"))?;
        }
        Ok(())
    }

    /// Gives controller and devices their addresses, and makes them neighbours for good.
    fn address(&self, cabling: &Cabling) -> Result<(), NetworkLabError> {
        let index_at = |wanted: Socket| {
            let ends = (FIRST_END..).step_by(2).zip(&cabling.cables);
            let mut ends =
                ends.flat_map(|(index, cable)| [(index, cable.upper), (index + 1, cable.lower)]);
            ends.find(|(_, socket)| *socket == wanted).map_or(0, |(index, _)| index)
        };
        let port_of = |port| {
            let index = index_at(Socket::Controller { port });
            (&self.controller.netlink, index, hardware(Socket::Controller { port }, index))
        };
        for of in (0..cabling.ports).map(|port| cabling::address(port, 0)) {
            let (netlink, index, _) = port_of(of.port);
            let name = device_or_switch(Socket::Controller { port: of.port });
            let given = netlink.add_address(index, of.controller, NETWORK_BITS);
            given.map_err(|source| request("give an address to", &name, source))?;
        }

        for (number, of) in cabling.devices.iter().enumerate() {
            let failed = |source| request("give an address to", &device_name(number), source);
            let socket = Socket::Device { device: number };
            let netlink = &self.devices[number].0.netlink;
            let index = index_at(socket);
            let (port, port_index, port_hardware) = port_of(of.port);
            netlink.add_address(index, of.device, NETWORK_BITS).map_err(failed)?;
            netlink.add_neighbour(index, of.controller, port_hardware).map_err(failed)?;
            port.add_neighbour(port_index, of.device, hardware(socket, index)).map_err(failed)?;
        }
        Ok(())
    }
}

fn device_name(number: usize) -> String {
    format!("device {number}")
}

fn device_or_switch(socket: Socket) -> String {
    match socket {
        Socket::Controller { port } => format!("port {port} of the controller"),
        Socket::Bridge { bridge } => format!("switch {bridge}"),
        Socket::Device { device } => device_name(device),
    }
}

/// The name of an interface in its namespace.
fn end_name(socket: Socket, index: u32) -> String {
    match socket {
        Socket::Controller { port } => format!("port{port}"),
        Socket::Bridge { .. } => format!("p{index}"),
        Socket::Device { .. } => "eth0".to_owned(),
    }
}

fn hardware(socket: Socket, index: u32) -> HardwareAddress {
    match socket {
        Socket::Controller { port } => hardware_address(OF_CONTROLLER, port.into()),
        Socket::Bridge { .. } => hardware_address(OF_BRIDGE, (index - FIRST_END) as u16),
        Socket::Device { device } => hardware_address(OF_DEVICE, device as u16),
    }
}
