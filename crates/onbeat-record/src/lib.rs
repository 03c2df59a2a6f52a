//! Run files: their only writer and their only reader.
//!
//! The cold thread of a run takes samples from the ring ([`Recorder`]), counts them into one
//! interval histogram per series, and appends a line per series and interval to the run file
//! ([`RunWriter`]). Later, [`RunFile::read`] gives back what was written. The format is specified
//! in `docs/format.md`.
//!
//! Memory is fixed: one interval histogram per series, whatever the length of the run.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use onbeat_record::{RunFile, Series};
//!
//! let run = RunFile::read(Path::new("P-idle.onbeat.hlog"))?;
//! let latency = run.moments(Series::ReleaseLatency);
//! assert_eq!(run.account().slots, run.account().cycles + run.account().skipped + run.account().lost);
//! assert!(latency.max_ns >= latency.min_ns);
//! # Ok::<(), onbeat_record::RunFileError>(())
//! ```
//!
//! Absent on purpose: anything that knows of HTML, of the command line, or of what a figure means
//! (that is `onbeat-report`).

pub mod import;

mod boards;
mod chain;
mod distribution;
mod encoder;
mod events;
mod exclusion;
mod figures;
mod histogram;
mod imported;
mod joint_steps;
mod moments;
mod motion;
mod noise;
mod note;
mod note_numbers;
mod outages;
mod packets;
mod past;
pub mod payload;
mod recorder;
mod recording;
mod resolution;
mod robot;
pub mod run_dir;
mod run_file;
mod run_writer;
mod second_maxima;
mod seconds;
mod series;
mod tally;
mod timing;
mod trend;
mod tuning;
mod validity;
mod vocabulary;
mod window;
mod words;
mod writer_lock;

pub use boards::{BoardAccount, ClockAccount, ClockReading, PtpAccount};
pub use chain::{ChainNote, PredictedChain};
pub use distribution::Distribution;
pub use events::{EventNote, EventsLeftOut, MOST_OF_A_KIND};
pub use exclusion::{Exclusion, ExclusionNote, Surrounding};
pub use figures::{Figures, NoFigures};
pub use histogram::{Bucket, Counts, LONGEST_NS, empty_counts};
pub use imported::{Early, Import};
pub use joint_steps::{
    CycleSpan, JOINT_FIGURES, JointStep, JointSteps, JointTally, JointWindow, STEPS, ValueRange,
};
pub use moments::Moments;
pub use motion::{JointMotion, MotionNote};
pub use noise::{NoiseAccount, NoiseCount};
pub use note::{
    Account, Bench, Block, CauseCount, Cell, CellNotPermitted, CulpritCount, EndReason,
    FindingNote, Header, Interval, LimitNote, LoadEvent, Maxima, Note, PowerNote, Remark, Resume,
    SpikeNote, StepNote, SweepNote, TaskNote, fingerprint, plain_name,
};
pub use note_numbers::EVERY_SECONDS;
pub use outages::{Joining, LateNote, OutageSums, PARTS, Watch, gap};
pub use packets::{
    AnswerTimes, AnsweredCycle, CycleAnswers, CycleTally, DevicePackets, InterfaceDrops,
    KernelDrops, PacketAccount, PredictedAnswers, PredictedDevice, RoundTripTally,
};
pub use past::{DroppedBlock, Past};
pub use recorder::Recorder;
pub use recording::{Progress, Recording, SpikeLimit, interval_ns_for};
pub use resolution::{Beyond, Resolution};
pub use robot::{CountedErrors, DeviceNote, DevicesNote, RobotDevice, RobotJoint, RobotNote};
pub use run_file::{Entry, RunFile, RunFileError};
pub use run_writer::{RunWriter, WriteError};
pub use seconds::{Second, Seconds};
pub use series::Series;
pub use tally::{PARTS_OF_WAKE_UP, Why};
pub use timing::{Timing, WaitKind};
pub use trend::{StepFigures, Trend, TrendStep};
pub use tuning::{Tuning, TuningError};
pub use validity::Invalidity;
pub use vocabulary::{Stall, TUNING_LETTERS};
pub use window::{WindowFate, WindowNote};
pub use words::{LoadEventKind, RunOrder};
