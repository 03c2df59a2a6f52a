//! `onbeat-camera thumbnails`, which `onbeat report --camera` starts behind the gateway that reads the log.

use std::io::{BufReader, stdin};

use clap::Args;
use onbeat_camera::thumbnails::{ThumbnailLimits, read};

use crate::{Failure, say};

#[derive(Debug, Args)]
pub(crate) struct ThumbnailOptions {
    /// Small pictures of each channel
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=2000))]
    pictures: u16,
    /// Columns or rows, whichever are more
    #[arg(long, value_parser = clap::value_parser!(u16).range(16..=1024))]
    side: u16,
    /// Bytes of one at most
    #[arg(long)]
    bytes: usize,
    /// Time from one to the next at least, ns
    #[arg(long)]
    apart_ns: u64,
}

/// Reads standard input to its end and prints all pictures as JSON.
pub(crate) fn thumbnails(options: &ThumbnailOptions) -> Result<(), Failure> {
    let limits = ThumbnailLimits {
        pictures: options.pictures.into(),
        side: options.side.into(),
        bytes: options.bytes,
        apart_ns: options.apart_ns,
    };
    let pictures = read(BufReader::new(stdin().lock()), limits)
        .map_err(|why| Failure::Words(why.to_string()))?;
    let text = serde_json::to_string(&pictures).map_err(|why| Failure::Words(why.to_string()))?;
    say(&text);
    Ok(())
}
