//! The staged study: what firmware, kernel command line, host and QEMU each do to the latency of a
//! guest, measured outside and inside, idle and loaded.
//!
//! | file | contents |
//! |---|---|
//! | `file` | [`StudyFile`]: what is measured, as TOML with defaults |
//! | `setting` | ids of the catalogue: by which means each is made, or why it is not |
//! | `row` | [`Rows`]: sets of settings, cumulative and less one, reboots last |
//! | `baseline` | what is as wanted, and cannot be made, before the first measurement |
//! | `host` | settings of a row, made and undone by the journal of `onbeat-tune` |
//! | `application`, `servo` | a command from the host, the edge of a servo in the guest, its answer |
//! | `measure` | one measurement, outside or inside |
//! | `store` | [`StudyStore`]: results on disk, by which a study resumes |
//! | `conduct` | [`fn@conduct`]: everything in turns |
//! | `tables` | the published tables, and the price of each stage and setting |
//!
//! Absent on purpose: changes of the firmware and of the boot loader. The first is probed and listed;
//! parameters of the kernel are listed as outstanding until `/proc/cmdline` shows them, and the same
//! command resumes after the reboot.

mod application;
mod baseline;
mod conduct;
mod error;
mod file;
mod host;
mod measure;
mod row;
mod servo;
mod setting;
mod store;
mod tables;

pub use application::{AnsweringSide, answer, open_port};
pub use conduct::{StudyRequest, StudyResults, conduct};
pub use error::StudyError;
pub use file::{LEAST_RUNS, StudyClock, StudyFile, StudyLoad, StudyStage};
pub use row::{Rows, Stage, StageLadder, StudyRow};
pub use servo::Servo;
pub use setting::{FIRMWARE, MachineSetting, Means, SettingState, StageSetting};
pub use store::{
    Answers, Measured, RowSlot, SeenThread, StudyBaseline, StudySide, StudyStore, statistics_of,
};
