//! The bus's socket and the thread that serves it: connections, roles and requests of clients.
//!
//! A role belongs to a connection, so it ends with it, whatever becomes of its process. No call
//! waits for a client: one that does not read its answers loses its connection.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use onbeat_ethercat::event::EventKind;
use onbeat_host::peer::Peer;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{SocketFlags, accept_with};

use super::abi::{ABI, REQUESTS};
use super::area::Inward;
use super::error::ControlError;
use super::handover::{Handover, RoleChange, RoleChanges};
use super::image::{MappedImage, system};
use super::message::{Message, ask, refusal, tell};
use super::place::Listener;
use super::request::RequestAnswer;
use super::requests::{self, RequestJob};
use super::sharing::Sharing;
use super::socket::{self, Received};

/// Maximum number of connections of the bus's user, and of root.
const MOST_OF_OWN: usize = 128;
/// Maximum number of connections of another user, and of all others together.
const MOST_OF_OTHER: usize = 16;
const MOST_OF_OTHERS: usize = 64;
/// Messages of a connection, and rounds over all of them, in one go.
const MESSAGES_AT_ONCE: usize = 8;
const ROUNDS_AT_ONCE: usize = 16;
const STACK_BYTES: usize = 256 << 10;
/// Pause after an error, such as no free descriptor.
const AFTER_ERROR: Duration = Duration::from_millis(20);
/// Keys of the socket and of the wake-up in the epoll set; connections follow.
const LISTENER: u64 = 0;
const WAKE_UP: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// A role that one connection at a time holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoleName {
    Owner,
    Commander,
}

impl RoleName {
    const ALL: [Self; 2] = [Self::Owner, Self::Commander];

    const fn events(self) -> [EventKind; 3] {
        match self {
            Self::Owner => [EventKind::OwnerTaken, EventKind::OwnerLeft, EventKind::OwnerDied],
            Self::Commander => {
                [EventKind::CommanderTaken, EventKind::CommanderLeft, EventKind::CommanderDied]
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Nobody,
    /// The bus process itself.
    Bus,
    Connection(u64),
}

#[derive(Debug)]
struct Role {
    holder: Holder,
    /// Slots of the present or last holder.
    slots: Option<Arc<Inward>>,
}

/// Numbers of publications go on with the next holder; a number that makes no sense does not.
const MOST_PUBLICATIONS: u64 = 1 << 40;

impl Role {
    const NEW: Self = Self { holder: Holder::Nobody, slots: None };

    fn newest(&self) -> u64 {
        let Some(slots) = &self.slots else { return 0 };
        let newest = slots.slots().newest();
        let is_sensible = newest.wrapping_sub(slots.began) < MOST_PUBLICATIONS;
        if is_sensible { newest } else { slots.began }
    }
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    peer: Peer,
    /// Its request: the number it gave, and the one in the order of all.
    request: Option<(u32, u64)>,
}

/// What the thread and the bus process's other threads share.
#[derive(Debug)]
struct Desk {
    /// `None` once the bus has ended.
    listener: Option<Listener>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    roles: [Role; 2],
    waiting: VecDeque<RequestJob>,
    /// Number of requests that the bus has taken and not answered.
    taken: usize,
    order: u64,
}

/// The served image.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) image: Arc<MappedImage>,
    /// The image's memory, for clients.
    memory: OwnedFd,
    has_group: bool,
    pub(super) outputs: Handover,
    pub(super) goals: Handover,
    pub(super) changes: RoleChanges,
    /// Incremented after each change of a role: the one word that the loop looks at per cycle.
    pub(super) bell: AtomicU32,
    /// Number of messages that were none, and of connections lost for other reasons.
    pub(super) dropped: AtomicU64,
    epoll: OwnedFd,
    wake_up: OwnedFd,
    is_over: AtomicBool,
    desk: Mutex<Desk>,
}

/// Serves an image until dropped.
#[derive(Debug)]
pub(super) struct ServiceThread {
    service: Arc<Service>,
    thread: Option<JoinHandle<()>>,
}

impl ServiceThread {
    pub(super) fn start(service: &Arc<Service>) -> Result<Self, ControlError> {
        let served = Arc::clone(service);
        let builder = thread::Builder::new().name("onbeat-control".to_owned());
        let thread = builder
            .stack_size(STACK_BYTES)
            .spawn(move || served.run())
            .map_err(system("start the thread that serves the", &service.image.name))?;
        Ok(Self { service: Arc::clone(service), thread: Some(thread) })
    }
}

impl Drop for ServiceThread {
    fn drop(&mut self) {
        self.service.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Service {
    pub(super) fn new(
        (image, memory): (MappedImage, OwnedFd),
        listener: Listener,
        has_group: bool,
    ) -> Result<Self, ControlError> {
        let failed = system("serve the", &image.name);
        let prepared = epoll::create(epoll::CreateFlags::CLOEXEC).and_then(|epoll| {
            let wake_up = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            epoll::add(&epoll, &listener.socket, EventData::new_u64(LISTENER), EventFlags::IN)?;
            epoll::add(&epoll, &wake_up, EventData::new_u64(WAKE_UP), EventFlags::IN)?;
            Ok((epoll, wake_up))
        });
        let (epoll, wake_up) = prepared.map_err(|why| failed(why.into()))?;
        let desk = Desk {
            listener: Some(listener),
            connections: BTreeMap::new(),
            next_connection: FIRST_CONNECTION,
            roles: [Role::NEW; 2],
            waiting: VecDeque::new(),
            taken: 0,
            order: 0,
        };

        Ok(Self {
            image: Arc::new(image),
            memory,
            has_group,
            outputs: Handover::default(),
            goals: Handover::default(),
            changes: RoleChanges::default(),
            bell: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
            epoll,
            wake_up,
            is_over: AtomicBool::new(false),
            desk: Mutex::new(desk),
        })
    }

    fn run(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let mut wanted = [PollFd::new(&self.epoll, PollFlags::IN)];
            let waited = poll(&mut wanted, None);
            if waited.is_err() || self.serve().is_err() {
                thread::sleep(AFTER_ERROR);
            }
        }
    }

    /// Ends the service: no new clients, and no roles.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake_up, &1_u64.to_ne_bytes());
        let mut desk = self.desk();
        desk.listener = None;
        desk.connections.clear();
        desk.waiting.clear();
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles what clients have sent until now.
    pub(super) fn serve(&self) -> io::Result<()> {
        self.serve_at(&mut self.desk())
    }

    fn serve_at(&self, desk: &mut Desk) -> io::Result<()> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        for _ in 0..ROUNDS_AT_ONCE {
            let nothing = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
            let mut events = [nothing; 32];
            let count = epoll::wait(&self.epoll, &mut events[..], Some(&NOW))?;
            // The wake-up is left as it is: it ends the thread.
            let keys = events[..count].iter().map(|event| event.data.u64());
            let mut is_idle = true;
            for key in keys.filter(|key| *key != WAKE_UP) {
                is_idle = false;
                if key == LISTENER { self.accept(desk)? } else { self.hear(desk, key) }
            }
            if is_idle {
                break;
            }
        }
        Ok(())
    }

    fn accept(&self, desk: &mut Desk) -> io::Result<()> {
        let Some(listener) = &desk.listener else { return Ok(()) };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&listener.socket, flags) {
            Ok(socket) => socket,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => return Ok(()),
            Err(why) => return Err(why.into()),
        };
        let peer = Peer::of(&socket)?;
        if let Some((reason, limit)) = self.refusal(desk, peer) {
            let refused = Message { a: reason, b: limit as u64, ..Message::new(tell::REFUSED, 0) };
            self.note(socket::send(&socket, &refused, &[]).is_ok());
            return Ok(());
        }

        let sharing = u64::from(self.image.sharing.number());
        let welcome = Message {
            a: u64::from(ABI) | sharing << 32,
            b: self.image.instance(),
            ..Message::new(tell::WELCOME, 0)
        };
        let lock = self.image.lock.as_ref().and_then(|lock| lock.file.as_ref());
        let mut descriptors = vec![self.memory.as_fd()];
        descriptors.extend(lock.map(AsFd::as_fd));
        let key = desk.next_connection;
        let data = EventData::new_u64(key);
        let is_welcome = socket::send(&socket, &welcome, &descriptors)
            .and_then(|()| epoll::add(&self.epoll, &socket, data, EventFlags::IN))
            .is_ok();
        if is_welcome {
            desk.next_connection += 1;
            desk.connections.insert(key, Connection { socket, peer, request: None });
        }
        self.note(is_welcome);
        Ok(())
    }

    /// Returns why a client gets no connection, with the limit.
    fn refusal(&self, desk: &Desk, peer: Peer) -> Option<(u64, usize)> {
        let of = |is_counted: &dyn Fn(&Peer) -> bool| {
            desk.connections.values().filter(|connection| is_counted(&connection.peer)).count()
        };
        let of_user = of(&|other| other.uid == peer.uid);
        if peer.is_own_or_root() {
            return (of_user >= MOST_OF_OWN).then_some((refusal::OF_USER, MOST_OF_OWN));
        }
        if !self.has_group {
            return Some((refusal::OTHER_USER, 0));
        }
        if self.image.sharing != Sharing::WaitFree {
            return Some((refusal::LOCK, 0));
        }
        if of_user >= MOST_OF_OTHER {
            return Some((refusal::OF_USER, MOST_OF_OTHER));
        }
        let are_many = of(&|other| !other.is_own_or_root()) >= MOST_OF_OTHERS;
        are_many.then_some((refusal::IN_ALL, MOST_OF_OTHERS))
    }

    fn note(&self, is_fine: bool) {
        if !is_fine {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Handles messages of a connection, and its end.
    fn hear(&self, desk: &mut Desk, key: u64) {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(connection) = desk.connections.get(&key) else { return };
            match socket::receive_from_client(&connection.socket) {
                Received::Nothing => return,
                Received::Message(message, _) => {
                    // It makes no sense, or the client does not read its answers.
                    if !self.handle(desk, key, message) {
                        self.note(false);
                        return self.drop_connection(desk, key);
                    }
                }
                Received::Ended => return self.drop_connection(desk, key),
            }
        }
    }

    /// Handles a message. `false` ends the connection.
    fn handle(&self, desk: &mut Desk, key: u64, message: Message) -> bool {
        match message.kind {
            ask::CLAIM_OUTPUTS => self.claim(desk, key, RoleName::Owner, message.id),
            ask::CLAIM_JOINTS => self.claim(desk, key, RoleName::Commander, message.id),
            ask::LEAVE_OUTPUTS => self.leave(desk, key, RoleName::Owner, message.id),
            ask::LEAVE_JOINTS => self.leave(desk, key, RoleName::Commander, message.id),
            ask::REQUEST => self.request(desk, key, message),
            ask::GIVE_UP => {
                forget_request(desk, key);
                true
            }
            _ => false,
        }
    }

    fn reply(
        &self,
        desk: &Desk,
        key: u64,
        message: &Message,
        memory: Option<&std::fs::File>,
    ) -> bool {
        let descriptors: Vec<_> = memory.map(AsFd::as_fd).into_iter().collect();
        desk.connections.get(&key).is_some_and(|connection| {
            socket::send(&connection.socket, message, &descriptors).is_ok()
        })
    }

    /// Grants a role, with slots that nobody else can write.
    fn claim(&self, desk: &mut Desk, key: u64, role: RoleName, id: u32) -> bool {
        let size = self.image.size;
        if role == RoleName::Commander && size.joints == 0 {
            return self.reply(desk, key, &Message::new(tell::NO_GOALS, id), None);
        }
        // A dead holder may not have been noticed yet.
        if let Holder::Connection(other) = desk.roles[role as usize].holder
            && other != key
        {
            self.hear(desk, other);
        }
        let holder = match desk.roles[role as usize].holder {
            Holder::Nobody => None,
            Holder::Bus => Some(std::process::id()),
            Holder::Connection(other) => {
                Some(desk.connections.get(&other).map_or(0, |it| it.peer.pid))
            }
        };
        if let Some(pid) = holder {
            let held = Message { a: pid.into(), ..Message::new(tell::HELD, id) };
            return self.reply(desk, key, &held, None);
        }

        let words = match role {
            RoleName::Owner => size.output_slot_words(),
            RoleName::Commander => size.goal_slot_words(),
        };
        let newest = desk.roles[role as usize].newest();
        let Ok((slots, file)) = Inward::create(words, newest) else { return false };
        let slots = Arc::new(slots);
        let Some(connection) = desk.connections.get(&key) else { return false };
        let pid = connection.peer.pid;
        desk.roles[role as usize] =
            Role { holder: Holder::Connection(key), slots: Some(Arc::clone(&slots)) };
        self.publish_holder(role, pid);
        let [taken, ..] = role.events();
        self.changes.push(RoleChange { kind: taken, pid });
        self.handover(role).give(slots);
        self.bell.fetch_add(1, Ordering::Release);
        self.reply(desk, key, &Message::new(tell::GRANTED, id), Some(&file))
    }

    const fn handover(&self, role: RoleName) -> &Handover {
        match role {
            RoleName::Owner => &self.outputs,
            RoleName::Commander => &self.goals,
        }
    }

    fn publish_holder(&self, role: RoleName, pid: u32) {
        let live = self.image.live();
        let word = if role == RoleName::Owner { &live.owner } else { &live.commander };
        word.0.store(pid.into(), Ordering::Release);
    }

    fn leave(&self, desk: &mut Desk, key: u64, role: RoleName, id: u32) -> bool {
        let [_, left, _] = role.events();
        self.revoke(desk, key, role, left);
        self.reply(desk, key, &Message::new(tell::LEFT, id), None)
    }

    /// Ends a role, if the connection has it.
    fn revoke(&self, desk: &mut Desk, key: u64, role: RoleName, kind: EventKind) {
        if desk.roles[role as usize].holder != Holder::Connection(key) {
            return;
        }
        desk.roles[role as usize].holder = Holder::Nobody;
        let pid = desk.connections.get(&key).map_or(0, |connection| connection.peer.pid);
        self.publish_holder(role, 0);
        self.changes.push(RoleChange { kind, pid });
        if let Some(slots) = &desk.roles[role as usize].slots {
            slots.close();
        }
        self.bell.fetch_add(1, Ordering::Release);
    }

    fn drop_connection(&self, desk: &mut Desk, key: u64) {
        for role in RoleName::ALL {
            let [.., died] = role.events();
            self.revoke(desk, key, role, died);
        }
        forget_request(desk, key);
        if let Some(connection) = desk.connections.remove(&key) {
            let _ = epoll::delete(&self.epoll, &connection.socket);
        }
    }

    fn request(&self, desk: &mut Desk, key: u64, message: Message) -> bool {
        let id = message.id;
        let has_one = desk.connections.get(&key).is_none_or(|it| it.request.is_some());
        if has_one || desk.waiting.len() + desk.taken >= REQUESTS {
            let busy = Message { a: REQUESTS as u64, ..Message::new(tell::BUSY, id) };
            return self.reply(desk, key, &busy, None);
        }
        let Some(request) = requests::from_message(message) else { return false };
        if request.check(&self.image.name, self.image.size.devices).is_err() {
            return false;
        }

        desk.order += 1;
        let order = desk.order;
        desk.waiting.push_back(RequestJob { request, connection: key, order });
        if let Some(connection) = desk.connections.get_mut(&key) {
            connection.request = Some((id, order));
        }
        true
    }

    // ---- the bus process

    /// Claims the outputs for the bus process.
    pub(super) fn keep_outputs(&self) -> Result<(), ControlError> {
        let mut desk = self.desk();
        // What other processes have asked before comes before.
        let _ = self.serve_at(&mut desk);
        if let Holder::Connection(key) = desk.roles[RoleName::Owner as usize].holder {
            let pid = desk.connections.get(&key).map_or(0, |connection| connection.peer.pid);
            let process = onbeat_host::process::name(pid);
            return Err(ControlError::Owned { name: self.image.name.clone(), pid, process });
        }
        desk.roles[RoleName::Owner as usize].holder = Holder::Bus;
        self.publish_holder(RoleName::Owner, std::process::id());
        Ok(())
    }

    pub(super) fn take_request(&self) -> Option<RequestJob> {
        let mut desk = self.desk();
        let _ = self.serve_at(&mut desk);
        let job = desk.waiting.pop_front()?;
        desk.taken += 1;
        Some(job)
    }

    pub(super) fn answer(&self, job: &RequestJob, answer: &RequestAnswer) {
        let mut desk = self.desk();
        desk.taken = desk.taken.saturating_sub(1);
        let Some(connection) = desk.connections.get_mut(&job.connection) else { return };
        let Some((id, _)) = connection.request.take_if(|(_, order)| *order == job.order) else {
            return;
        };
        let message = requests::to_message(id, answer);
        if !self.reply(&desk, job.connection, &message, None) {
            self.note(false);
            self.drop_connection(&mut desk, job.connection);
        }
    }
}

/// Drops the request of a connection; one that the bus has taken is carried to its end.
fn forget_request(desk: &mut Desk, key: u64) {
    let request = desk.connections.get_mut(&key).and_then(|connection| connection.request.take());
    if let Some((_, order)) = request {
        desk.waiting.retain(|job| job.order != order);
    }
}
