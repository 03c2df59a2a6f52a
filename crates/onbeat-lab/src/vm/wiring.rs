//! What a guest is wired with: nothing, GPIO lines, or a second board.

use super::initramfs::Initramfs;
use super::kernel::PackageSource;
use super::{VmError, WorkDirectory};

/// The module of cables between network namespaces.
const CABLES: &str = "veth";

/// Lines and cables of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuestWiring {
    #[default]
    None,
    /// Two GPIO chips of eight lines, wired in pairs: see [`Kernel::gpio_wires`](super::Kernel::gpio_wires).
    Gpio,
    /// The same, and virtual cables: [`Job::second_board`](super::Job::second_board) has a second
    /// board at the other end of one.
    TwoBoards,
}

impl Initramfs<'_> {
    /// Has the guest load the modules of a wiring. That of the GPIO chips is built on first use.
    ///
    /// # Errors
    /// As [`Kernel::gpio_wires`](super::Kernel::gpio_wires).
    pub fn wire(
        &mut self,
        wiring: GuestWiring,
        work: &WorkDirectory,
        source: &PackageSource,
    ) -> Result<(), VmError> {
        if wiring == GuestWiring::TwoBoards {
            self.module(CABLES);
        }
        if wiring != GuestWiring::None {
            self.foreign_module(self.kernel.gpio_wires(work, source)?);
        }
        Ok(())
    }
}
