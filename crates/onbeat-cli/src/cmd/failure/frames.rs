//! Why a page has no pictures of a log.

use std::path::PathBuf;

/// Why a page has no pictures of a log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramesFailure {
    #[error(
        "{dir} has {robots} recordings with a robot; --camera adds pictures to the one of an `onbeat robot run`"
    )]
    NotOneRobot { dir: PathBuf, robots: usize },
    #[error(
        "{log} has no pictures of the time of the run; its channels are: {channels}; pictures are sensor_msgs/Image, \
         sensor_msgs/CompressedImage or foxglove_msgs/CompressedVideo in CDR"
    )]
    NoPictures { log: PathBuf, channels: String },
    #[error("no pictures of {log}: {why}")]
    NoAnswer { log: PathBuf, why: String },
}
