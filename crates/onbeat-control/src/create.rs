//! Creation of an image, which gives the bus side: the process that creates it is the bus.

use std::sync::Arc;

use onbeat_ethercat::layout::Layout;

use super::bus_side::BusSide;
use super::error::ControlError;
use super::image::MappedImage;
use super::place::Listener;
use super::service::{Service, ServiceThread};
use super::settings::ImageSettings;

/// A named process image that other processes see.
///
/// ```
/// use onbeat_control::{ControlError, Image, Sharing, names};
/// use onbeat_ethercat::layout::Layout;
///
/// let name = format!("example-image-{}", std::process::id());
/// let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
/// let bus = Image::create(&name, &layout, Sharing::WaitFree)?;
/// assert!(names().contains(&name));
/// assert!(matches!(
///     Image::create(&name, &layout, Sharing::WaitFree),
///     Err(ControlError::Taken { .. })
/// ));
///
/// drop(bus);
/// assert!(!names().contains(&name));
/// # Ok::<(), ControlError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Image;

impl Image {
    /// Creates the image of a bus in this process, and a thread that serves its socket. The name of
    /// a dead bus process is taken over; its readers must open it again.
    ///
    /// # Errors
    /// [`ControlError`]: [`Taken`](ControlError::Taken) if a living process uses the name.
    pub fn create(
        name: &str,
        layout: &Layout,
        settings: impl Into<ImageSettings>,
    ) -> Result<BusSide, ControlError> {
        let settings = settings.into();
        let given = settings.safe_outputs.len();
        let wanted = layout.output_bytes;
        if given != 0 && given != wanted {
            return Err(ControlError::SafeOutputs { given, wanted });
        }

        let listener = Listener::bind(name, settings.group)?;
        let image = MappedImage::create(name, layout, &settings)?;
        let service = Arc::new(Service::new(image, listener, settings.group.is_some())?);
        let thread = ServiceThread::start(&service)?;
        Ok(BusSide::new(service, thread, settings))
    }
}
