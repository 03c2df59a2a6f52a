//! Commands to a running segment (inject faults, heal, status) over a Unix socket, one line of JSON
//! in each direction.
//!
//! The thread that serves frames never waits for a command: between two frames it polls a queue of
//! fixed length, and its replies go to reserved slots. Another thread reads and writes the
//! connections.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use onbeat_ethercat::description::FaultTable;
use onbeat_rt::time::Instant;
use serde::{Deserialize, Serialize};

use crate::link::{FaultChange, Link, LinkCounts};

/// Most waiting commands; further ones are refused.
const QUEUE: usize = 16;
/// Longest command and reply, in bytes.
const LONGEST_COMMAND: u64 = 16 * 1024;
const LONGEST_REPLY: u64 = 4 * 1024 * 1024;
/// Read and write timeout of a connection.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time within which the serving loop must reply to a command: a busy machine may stop it for a
/// while.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// A command to a running segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentCommand {
    /// Inject a fault.
    Fault(FaultTable),
    /// End all faults and remove the planned ones.
    Heal,
    /// Return the status of the segment.
    Status,
}

/// Reply to a [`SegmentCommand`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentReply {
    /// The command was executed.
    Done {
        /// Number of active and planned faults.
        faults: usize,
    },
    Status(Box<SegmentStatus>),
    /// The command was refused.
    Refused {
        /// Reason, as a sentence.
        why: String,
    },
}

/// Status of a running segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentStatus {
    /// Name in the file.
    pub segment: String,
    /// Seed in the file.
    pub seed: u64,
    /// Devices in file order.
    pub devices: Vec<DeviceLine>,
    /// Counters of frames.
    pub counts: LinkCounts,
    /// Active faults.
    pub faults: Vec<FaultTable>,
    pub planned: Vec<FaultTable>,
}

/// Status of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLine {
    /// Name in the file.
    pub name: String,
    /// AL state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
    pub al_state: u8,
    /// AL status code, 0 without an error.
    pub al_status_code: u16,
    /// Configured station address, 0 for none.
    pub station: u16,
    /// Whether it has power.
    pub powered: bool,
}

impl SegmentCommand {
    /// Executes the command at `now`.
    pub fn execute(&self, link: &mut Link, now: Instant) -> SegmentReply {
        match self {
            Self::Fault(table) => {
                if let Err(why) = link.inject_table(table, now) {
                    return SegmentReply::Refused { why: why.to_string() };
                }

                link.advance(now);
                let last = link.log().last();
                if last.is_some_and(|it| it.at == now && it.what == FaultChange::Impossible) {
                    let device = table.device.as_deref().unwrap_or_default();
                    let why =
                        format!("device \"{device}\" cannot have the fault \"{}\"", table.kind);
                    return SegmentReply::Refused { why };
                }
            }
            Self::Heal => link.heal(now),
            Self::Status => return SegmentReply::Status(Box::new(status(link))),
        }
        SegmentReply::Done { faults: link.faults().count() }
    }
}

fn status(link: &Link) -> SegmentStatus {
    let segment = link.segment();
    let devices =
        (0..segment.len()).filter_map(|device| segment.status(device)).map(|status| DeviceLine {
            name: status.name.to_owned(),
            al_state: status.al_state,
            al_status_code: status.al_status_code,
            station: status.station,
            powered: status.powered,
        });

    let faults = |is_active: bool| {
        link.faults()
            .filter(|(_, begun)| *begun == is_active)
            .map(|(fault, _)| segment.fault_table(&fault))
            .collect()
    };
    SegmentStatus {
        segment: segment.name().to_owned(),
        seed: segment.seed(),
        devices: devices.collect(),
        counts: link.counts(),
        faults: faults(true),
        planned: faults(false),
    }
}

struct PendingCommand {
    command: SegmentCommand,
    reply: SyncSender<SegmentReply>,
}

/// Receiving end of the command queue, for the serving loop.
#[derive(Debug)]
pub struct CommandQueue(Receiver<PendingCommand>);

impl CommandQueue {
    /// Executes one waiting command. Never blocks.
    pub fn execute_pending(&self, link: &mut Link, now: Instant) {
        // One at a time: frames come first.
        if let Ok(pending) = self.0.try_recv() {
            let _ = pending.reply.try_send(pending.command.execute(link, now));
        }
    }
}

/// The Unix socket that receives commands. Removed when dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
}

impl ControlSocket {
    /// Creates a socket at `path`, accessible to its owner only, and starts a thread that serves
    /// it. Replaces the socket of a segment that was killed.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when another segment serves the socket; otherwise the error of
    /// the system, for example for a path that is too long.
    pub fn open(path: &Path) -> io::Result<(Self, CommandQueue)> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }

        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }

        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let (to_loop, commands) = sync_channel(QUEUE);
        std::thread::Builder::new().name("onbeat-orders".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that disconnects early needs no reply.
                let _ = serve_one(&stream, &to_loop);
            }
        })?;

        Ok((Self { path: path.to_owned() }, CommandQueue(commands)))
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn serve_one(stream: &UnixStream, to_loop: &SyncSender<PendingCommand>) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST_COMMAND).read_line(&mut line)?;
    let reply = match serde_json::from_str(&line) {
        Err(why) => SegmentReply::Refused {
            why: format!("not a valid command of this version of onbeat: {why}"),
        },
        Ok(command) => {
            let (reply, replies) = sync_channel(1);
            match to_loop.try_send(PendingCommand { command, reply }) {
                Ok(()) => replies.recv_timeout(REPLY_TIMEOUT).unwrap_or_else(|_| busy()),
                Err(_) => {
                    let why = format!("{QUEUE} commands are waiting; try again");
                    SegmentReply::Refused { why }
                }
            }
        }
    };

    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    (&*stream).write_all(&bytes)
}

fn busy() -> SegmentReply {
    let why = format!(
        "the segment is busy with frames and did not execute the command within {} s; try again",
        REPLY_TIMEOUT.as_secs()
    );
    SegmentReply::Refused { why }
}

/// Sends a command to the segment with the socket at `path` and waits for the reply.
///
/// # Errors
/// The error of the system: [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`]
/// when no segment serves the socket.
pub fn send_command(path: &Path, command: &SegmentCommand) -> io::Result<SegmentReply> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT + REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut bytes = serde_json::to_vec(command)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = String::new();
    BufReader::new(&stream).take(LONGEST_REPLY).read_line(&mut line)?;

    serde_json::from_str(&line).map_err(Into::into)
}
