//! Orders to a segment that is running: faults, healing, and how it is. By a Unix socket, a line of JSON each way.
//!
//! The thread that serves frames never waits for an order. It looks into a queue of fixed length between two frames, and its answers
//! go into room that is kept for them; a connection's lines are read and written by a thread of their own.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use onbeat_rt::time::Instant;
use serde::{Deserialize, Serialize};

use crate::{FaultWords, Happening, Link, LinkCounts};

/// Orders that wait at most; more are told to come again.
const QUEUE: usize = 16;
/// Longest line of an order, and of an answer.
const LONGEST_ORDER: u64 = 16 * 1024;
const LONGEST_ANSWER: u64 = 4 * 1024 * 1024;
/// A connection that says nothing for so long is closed, and a segment that gives no answer is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// An order by which the loop is asked once it has had its time to look.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// What a running segment can be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Let this go wrong.
    Fault(FaultWords),
    /// End all faults, and forget those still to come.
    Heal,
    /// Tell how devices and frames are.
    Status,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done; so many faults are there or still to come.
    Done {
        /// How many.
        faults: usize,
    },
    /// How it is.
    Status(Box<SegmentStatus>),
    /// Not done.
    Refused {
        /// Why not, in a sentence.
        why: String,
    },
}

/// How a running segment is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentStatus {
    /// Name from the file.
    pub segment: String,
    /// Seed from the file.
    pub seed: u64,
    /// Devices in the order of the file.
    pub devices: Vec<DeviceLine>,
    /// Frames, counted.
    pub counts: LinkCounts,
    /// Faults that are there.
    pub faults: Vec<FaultWords>,
    /// Faults that are still to come.
    pub planned: Vec<FaultWords>,
}

/// How one device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLine {
    /// From the file.
    pub name: String,
    /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
    pub al_state: u8,
    /// 0 without an error.
    pub al_status_code: u16,
    /// Configured station address, 0 for none.
    pub station: u16,
    /// Whether it has power.
    pub powered: bool,
}

impl Order {
    /// Carries the order out at `now`.
    pub fn obeyed(&self, link: &mut Link, now: Instant) -> Answer {
        match self {
            Self::Fault(words) => {
                if let Err(why) = link.order(words, now) {
                    return Answer::Refused { why: why.to_string() };
                }

                link.advance(now);
                let last = link.log().last().filter(|line| line.at == now && line.what == Happening::Impossible);
                if last.is_some() {
                    let of = words.device.as_deref().unwrap_or_default();
                    let why = format!("\"{of}\" cannot have the fault \"{}\": it has nothing of the kind", words.kind);
                    return Answer::Refused { why };
                }
            }
            Self::Heal => link.heal(now),
            Self::Status => return Answer::Status(Box::new(status(link))),
        }
        Answer::Done { faults: link.faults().count() }
    }
}

fn status(link: &Link) -> SegmentStatus {
    let segment = link.segment();
    let devices = (0..segment.len()).filter_map(|device| segment.status(device)).map(|status| DeviceLine {
        name: status.name.to_owned(),
        al_state: status.al_state,
        al_status_code: status.al_status_code,
        station: status.station,
        powered: status.powered,
    });

    let told = |wanted: bool| {
        link.faults().filter(|(_, begun)| *begun == wanted).map(|(fault, _)| segment.told(&fault)).collect()
    };
    SegmentStatus {
        segment: segment.name().to_owned(),
        seed: segment.seed(),
        devices: devices.collect(),
        counts: link.counts(),
        faults: told(true),
        planned: told(false),
    }
}

struct Asked {
    order: Order,
    answer: SyncSender<Answer>,
}

/// The end of the queue that the serving loop looks into.
#[derive(Debug)]
pub struct Orders(Receiver<Asked>);

impl Orders {
    /// Carries out what has come, and never waits.
    pub fn obey(&self, link: &mut Link, now: Instant) {
        // One at a time: frames come first.
        match self.0.try_recv() {
            Ok(asked) => {
                let _ = asked.answer.try_send(asked.order.obeyed(link, now));
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => (),
        }
    }
}

/// Where orders come in. The socket is removed when this is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
}

impl Control {
    /// Opens a socket at `path`, for its owner only, with a thread that listens there. One that a killed segment has left is taken
    /// over.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when another segment answers there; else what the system says, as for a path that is too long.
    pub fn open(path: &Path) -> io::Result<(Self, Orders)> {
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
        let (to_loop, orders) = sync_channel(QUEUE);
        std::thread::Builder::new().name("onbeat-orders".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever hangs up early gets no answer, and needs none.
                let _ = serve_one(&stream, &to_loop);
            }
        })?;

        Ok((Self { path: path.to_owned() }, Orders(orders)))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn serve_one(stream: &UnixStream, to_loop: &SyncSender<Asked>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST_ORDER).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Err(why) => Answer::Refused { why: format!("this is no order of this version of onbeat: {why}") },
        Ok(order) => {
            let (answer, answered) = sync_channel(1);
            match to_loop.try_send(Asked { order, answer }) {
                Err(_) => Answer::Refused { why: format!("{QUEUE} orders wait already; try again") },
                Ok(()) => answered.recv_timeout(ANSWERED_WITHIN).unwrap_or_else(|_| Answer::Refused {
                    why: "the segment serves frames and did not come to the order within a second; try again"
                        .to_owned(),
                }),
            }
        }
    };

    let mut bytes = serde_json::to_vec(&answer)?;
    bytes.push(b'\n');
    (&*stream).write_all(&bytes)
}

/// Gives an order to the segment that listens at `path`.
///
/// # Errors
/// What the system says: [`io::ErrorKind::NotFound`] and [`io::ErrorKind::ConnectionRefused`] when none listens there.
pub fn ask(path: &Path, order: &Order) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE + ANSWERED_WITHIN))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = serde_json::to_vec(order)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = String::new();
    BufReader::new(&stream).take(LONGEST_ANSWER).read_line(&mut line)?;

    serde_json::from_str(&line).map_err(Into::into)
}
