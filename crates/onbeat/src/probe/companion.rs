//! What runs beside the loop of a probe.

use onbeat_rt::Flow;

use super::error::ProbeError;
use onbeat_record::Recorder;

/// What runs beside the loop of a probe, in measurements and in cells of a bench alike: a generator
/// of its edges, a reader of its output, the devices on its bus.
///
/// [`Run`](super::Run) calls `start` once, `look` while a block runs, `after_block` after each
/// block, and `end` once.
pub trait Companion {
    /// Starts, before the first block.
    ///
    /// # Errors
    /// [`ProbeError`].
    fn start(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Looks at the running loop, about every 20 ms; [`Flow::Stop`] ends the block.
    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        let _ = recorder;
        Flow::Continue
    }

    /// Writes down what is left of a block, after its loop has ended.
    fn after_block(&mut self, recorder: &mut Recorder) {
        let _ = recorder;
    }

    /// Ends, after the last block. Returns remarks for the run file, as sentences.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The companion of a loop that runs alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Companion for Alone {}
