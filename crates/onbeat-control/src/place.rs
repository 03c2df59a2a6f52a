//! Where buses are found: a socket `NAME.sock` in the directory of shared objects.
//!
//! A socket that accepts connections belongs to a living bus; one that refuses them was left by a
//! killed one, and the next bus of the name replaces it. Whoever makes or removes a name holds a
//! lock on the directory's file `.lock`, which only its user can open, so one of two processes that
//! start concurrently gets the name.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_host::peer::Peer;
use onbeat_host::runtime_dir::RuntimeDir;
use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::error::ControlError;

const SUFFIX: &str = ".sock";
const LOCK: &str = ".lock";
pub(super) const LONGEST_NAME: usize = 64;
/// The user; and with a group its members.
const MODE: Mode = Mode::from_raw_mode(0o600);
const MODE_WITH_GROUP: Mode = Mode::from_raw_mode(0o660);
/// Connections that the kernel keeps until the bus accepts them.
const BACKLOG: i32 = 64;
/// Maximum time for a bus to accept a connection or to answer, and for another starting bus to end
/// its start. The thread that does so is an ordinary one, which a busy machine stops for seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Returns the names of all buses that this user finds, including killed ones that left theirs.
#[must_use]
pub fn names() -> Vec<String> {
    let directories = RuntimeDir::existing().unwrap_or_default();
    let mut names: Vec<String> = directories.iter().flat_map(names_in).collect();
    names.sort();
    names.dedup();
    names
}

fn names_in(directory: &RuntimeDir) -> impl Iterator<Item = String> + use<> {
    let files = directory.names().unwrap_or_default().into_iter();
    let names = files.filter_map(|file| file.strip_suffix(SUFFIX).map(str::to_owned));
    names.filter(|name| check_name(name).is_ok())
}

/// Removes the sockets of killed buses; returns their names. Those of living ones, and of other
/// users, are not changed.
pub(super) fn remove_leftover_images() -> Vec<String> {
    let directories = RuntimeDir::existing().unwrap_or_default();
    directories.iter().flat_map(remove_leftovers_of).collect()
}

fn remove_leftovers_of(directory: &RuntimeDir) -> Vec<String> {
    // Root's directory is not an ordinary user's to clean up.
    let Ok(_lock) = lock(directory) else { return Vec::new() };
    let is_removed = |name: &String| {
        is_dead(directory, &file_of(name)) && directory.remove(&file_of(name)).is_ok()
    };
    names_in(directory).filter(is_removed).collect()
}

/// Returns whether a text can be a part of the name of a file.
pub(super) fn is_word(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(fits)
}

pub(super) fn check_name(name: &str) -> Result<(), ControlError> {
    if is_word(name) && !name.starts_with('.') {
        return Ok(());
    }
    Err(ControlError::BadName { name: name.to_owned(), most: LONGEST_NAME })
}

fn file_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

fn at<E: Into<io::Error>>(
    what: &'static str,
    directory: &RuntimeDir,
    file: &str,
) -> impl Fn(E) -> ControlError {
    let path = directory.path().join(file);
    move |why| ControlError::System { what, path: path.clone(), source: why.into() }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn connect_to(directory: &RuntimeDir, file: &str) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    let address = SocketAddrUnix::new(directory.short_path(file))?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// Returns whether it is a socket on which nobody listens. One with a full backlog is alive.
fn is_dead(directory: &RuntimeDir, file: &str) -> bool {
    is_socket(directory, file) && connect_to(directory, file).err() == Some(Errno::CONNREFUSED)
}

fn is_socket(directory: &RuntimeDir, file: &str) -> bool {
    rustix::fs::statat(directory, file, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

/// Takes the lock of a directory, which is held until the file is closed.
fn lock(directory: &RuntimeDir) -> Result<File, ControlError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let began = Instant::now();
    loop {
        let opened = rustix::fs::openat(directory, LOCK, flags, Mode::from_raw_mode(0o600));
        let file = File::from(opened.map_err(at("open", directory, LOCK))?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Somebody may have removed the file in between, and another process made a new one.
            Ok(()) if directory.leads_to(LOCK, &file) => return Ok(file),
            Err(why) if began.elapsed() > PATIENCE => {
                return Err(at("lock", directory, LOCK)(why));
            }
            _ => sleep(LOOK_EVERY),
        }
    }
}

/// The socket of a bus, under its name.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    directory: RuntimeDir,
    file: String,
    /// Device and inode of the socket's file.
    made: (u64, u64),
}

impl Listener {
    /// Takes a name. The socket of a killed bus is replaced.
    pub(super) fn bind(name: &str, group: Option<u32>) -> Result<Self, ControlError> {
        check_name(name)?;
        let directory = RuntimeDir::own()?;
        let _lock = lock(&directory)?;
        let file = file_of(name);
        match connect_to(&directory, &file) {
            Err(Errno::NOENT) => {}
            Err(Errno::CONNREFUSED) if is_socket(&directory, &file) => {}
            Err(Errno::CONNREFUSED) => {
                return Err(ControlError::NotSocket { path: directory.path().join(&file) });
            }
            found => {
                let pid =
                    found.ok().and_then(|socket| Peer::of(socket).ok()).map_or(0, |it| it.pid);
                let process = onbeat_host::process::name(pid);
                return Err(ControlError::Taken { name: name.to_owned(), pid, process });
            }
        }

        // Under another name until it listens: a client never finds a socket that is not ready.
        let new = format!(".{name}.new");
        let _ = directory.remove(&new);
        let socket = new_socket().map_err(at("make", &directory, &file))?;
        let made = make(&directory, &new, &socket, group).and_then(|made| {
            rustix::fs::renameat(&directory, &new, &directory, &file).map(|()| made)
        });
        match made {
            Ok(made) => Ok(Self { socket, directory, file, made }),
            Err(why) => {
                let _ = directory.remove(&new);
                let is_of_group = group.is_some() && why == Errno::PERM;
                let what = if is_of_group { "change the group of" } else { "create" };
                Err(at(what, &directory, &file)(why))
            }
        }
    }
}

impl Drop for Listener {
    /// Frees the name, if it still is this bus's.
    fn drop(&mut self) {
        if identity(&self.directory, &self.file) == Ok(self.made) {
            // If it cannot be removed, the next bus of this name replaces it.
            let _ = self.directory.remove(&self.file);
        }
    }
}

fn identity(directory: &RuntimeDir, file: &str) -> Result<(u64, u64), Errno> {
    let found = rustix::fs::statat(directory, file, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino))
}

fn make(
    directory: &RuntimeDir,
    file: &str,
    socket: &OwnedFd,
    group: Option<u32>,
) -> Result<(u64, u64), Errno> {
    bind(socket, &SocketAddrUnix::new(directory.short_path(file))?)?;
    if let Some(group) = group {
        let group = Some(Gid::from_raw(group));
        rustix::fs::chownat(directory, file, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let mode = if group.is_some() { MODE_WITH_GROUP } else { MODE };
    rustix::fs::chmodat(directory, file, mode, AtFlags::empty())?;
    listen(socket, BACKLOG)?;
    identity(directory, file)
}

/// Connects to a bus of this user or of root.
pub(super) fn connect_to_bus(name: &str) -> Result<(OwnedFd, Peer), ControlError> {
    check_name(name)?;
    let file = file_of(name);
    for directory in RuntimeDir::existing()? {
        let began = Instant::now();
        let connected = loop {
            match connect_to(&directory, &file) {
                // More processes connect at once than the bus has accepted yet.
                Err(Errno::AGAIN) if began.elapsed() < PATIENCE => sleep(LOOK_EVERY),
                connected => break connected,
            }
        };
        match connected {
            Ok(socket) => {
                let what = "identify the process at the other end of";
                let peer = Peer::of(&socket).map_err(at(what, &directory, &file))?;
                if !peer.is_own_or_root() {
                    let path = directory.path().join(&file);
                    return Err(ControlError::ForeignBus { path, uid: peer.uid });
                }
                return Ok((socket, peer));
            }
            Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            Err(Errno::AGAIN) => return Err(ControlError::NotReady { name: name.to_owned() }),
            Err(why) => return Err(at("connect to", &directory, &file)(why)),
        }
    }

    Err(ControlError::NoBus { name: name.to_owned() })
}

/// Returns the id of a group: a number, or a name in `/etc/group`.
///
/// # Errors
/// [`ControlError::NoGroup`], [`ControlError::System`].
pub fn group_id(group: &str) -> Result<u32, ControlError> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let path = PathBuf::from("/etc/group");
    let text = std::fs::read_to_string(&path).map_err(|source| ControlError::System {
        what: "read",
        path,
        source,
    })?;
    let id = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    text.lines().find_map(id).ok_or_else(|| ControlError::NoGroup { group: group.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_number_or_a_name_of_the_system() {
        assert_eq!((group_id("0").unwrap(), group_id("root").unwrap()), (0, 0));
        let why = group_id("no such group").unwrap_err().to_string();
        assert_eq!(
            why,
            "no group \"no such group\" in /etc/group; use one of its names, or a number"
        );
    }
}
