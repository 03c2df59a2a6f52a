//! Ownership of the outputs.

use std::sync::Arc;
use std::time::Duration;

use super::area::Inward;
use super::error::ControlError;
use super::image::MappedImage;
use super::link::{self, Link};
use super::snapshot::{CycleWaiter, Snapshot};

/// Owner of a bus's outputs, until it is dropped. Outputs are sent for
/// [`ImageSettings::stale_after_cycles`](super::ImageSettings::stale_after_cycles) after a refresh;
/// an owner refreshes them in each cycle.
///
/// ```
/// use onbeat_control::{Client, Image, Sharing};
/// # use onbeat_ethercat::layout::Layout;
/// # use onbeat_ethercat::step::BusCycle;
/// # let name = format!("owner-{}", std::process::id());
/// # let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
/// # let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
/// let mut owner = Client::open(&name)?.claim()?;
/// owner.write(&[1, 2, 3, 4])?;
///
/// // In the bus process:
/// let mut outputs = [0; 4];
/// bus.exchange(&BusCycle { cycle: 1, ..BusCycle::default() }, &[0; 4], &mut outputs);
/// assert_eq!(outputs, [1, 2, 3, 4]);
/// # Ok::<(), onbeat_control::ControlError>(())
/// ```
#[derive(Debug)]
pub struct Owner {
    shared: Arc<MappedImage>,
    link: Link,
    slots: Inward,
    waiter: CycleWaiter,
    outputs: Vec<u8>,
}

impl Owner {
    pub(super) fn new(shared: Arc<MappedImage>) -> Result<Self, ControlError> {
        let link = Link::again(&shared)?;
        let slots = link.claim(&shared, link::OWNER, shared.size.output_slot_words())?;
        let outputs = vec![0; shared.size.outputs];
        Ok(Self { waiter: CycleWaiter::new(), shared, link, slots, outputs })
    }

    /// Sets all outputs; the bus sends them in its next cycle, completely or not at all, even if
    /// this process dies during the call. Never waits with wait-free sharing.
    ///
    /// # Errors
    /// [`ControlError::OutputLength`]; [`ControlError::BusEnded`] if the bus has ended.
    pub fn write(&mut self, outputs: &[u8]) -> Result<(), ControlError> {
        if outputs.len() != self.outputs.len() {
            return Err(ControlError::OutputLength {
                given: outputs.len(),
                wanted: self.outputs.len(),
            });
        }
        self.outputs.copy_from_slice(outputs);
        self.publish()
    }

    /// Modifies the outputs: `change` receives the last ones (initially zeros).
    ///
    /// # Errors
    /// As [`Owner::write`].
    pub fn write_with(&mut self, change: impl FnOnce(&mut [u8])) -> Result<(), ControlError> {
        change(&mut self.outputs);
        self.publish()
    }

    /// Waits up to `timeout` for the next cycle and reads it. Returns `false` if there was none.
    /// The loop of an owner is: wait, compute, write.
    ///
    /// # Errors
    /// As [`Client::read`](super::Client::read).
    pub fn wait_cycle(
        &mut self,
        into: &mut Snapshot,
        timeout: Duration,
    ) -> Result<bool, ControlError> {
        if !self.waiter.wait_beyond((&self.shared, &self.link), into.number, timeout)? {
            return Ok(false);
        }
        self.waiter.read((&self.shared, &self.link), into)?;
        Ok(true)
    }

    /// Creates a buffer for [`Owner::wait_cycle`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::for_image(&self.shared)
    }

    fn publish(&self) -> Result<(), ControlError> {
        self.shared.check()?;
        let _held = self.shared.hold();
        self.slots.slots().publish(&[&self.outputs]);
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.link.leave(link::OWNER);
    }
}
