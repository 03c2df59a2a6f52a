//! What a robot is, for those who look at it: joints with their limits, devices as a tree.

use std::collections::HashMap;

use onbeat::record::{RobotDevice, RobotJoint, RobotNote};
use onbeat_ethercat::description::{CableEnd, Description, DescriptionError, ResolvedDescription};
use onbeat_ethercat::layout::{DeviceLayout, Layout};

use super::file::{JointSetting, Robot};

/// Returns the device before each device of a description, in cable order: the position of the one
/// that its cable comes from and the port there; `None` for a cable of the MainDevice.
///
/// # Errors
/// [`DescriptionError`] when the description is inconsistent.
pub fn devices_before(
    description: &Description,
) -> Result<Vec<Option<(usize, usize)>>, DescriptionError> {
    let resolved = ResolvedDescription::new(description)?;
    let order = resolved.layout_order();
    let position: HashMap<usize, usize> =
        order.iter().enumerate().map(|(position, device)| (*device, position)).collect();

    let mut before = vec![None; order.len()];
    for cable in &resolved.cables {
        if let [CableEnd::Port { device, port }, CableEnd::Port { device: far, .. }] = cable.ends
            && let (Some(near), Some(far)) = (position.get(&device), position.get(&far))
        {
            before[*far] = Some((*near, port));
        }
    }

    Ok(before)
}

/// Returns the description of a robot for run files and for the live view.
#[must_use]
pub fn robot_note(robot: &Robot, layout: &Layout, before: &[Option<(usize, usize)>]) -> RobotNote {
    let joint = |joint: &JointSetting| RobotJoint {
        name: joint.name.clone(),
        device: joint.device,
        low_rad: joint.limits.low,
        high_rad: joint.limits.high,
        velocity_rad_s: joint.limits.velocity,
        following_rad: joint.following_rad,
    };
    let device = |(place, device): (usize, &DeviceLayout)| {
        let (after, port) = before.get(place).copied().flatten().unzip();
        let kind = device.kind.word().to_owned();
        RobotDevice { name: device.name.clone(), kind, after, port }
    };

    RobotNote {
        name: robot.name.clone(),
        period_ns: robot.settings.period_ns,
        joints: robot.joints.iter().map(joint).collect(),
        devices: layout.devices.iter().enumerate().map(device).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_segment::Segment;

    #[test]
    fn a_branch_hangs_from_the_device_and_port_that_the_file_names() {
        let description = Description::from_toml(Segment::HUMANOID).unwrap();
        let layout = Layout::from_description(&description).unwrap();
        let before = devices_before(&description).unwrap();

        assert_eq!(before.len(), layout.devices.len());
        assert_eq!(before.iter().filter(|before| before.is_none()).count(), 1);
        let name_before = |name: &str| {
            let (place, _) = before[layout.find(name).unwrap()].unwrap();
            layout.devices[place].name.as_str()
        };
        let branches = layout.devices.iter().filter(|device| {
            before
                .iter()
                .flatten()
                .filter(|(place, _)| layout.devices[*place].name == device.name)
                .count()
                > 1
        });
        assert!(branches.count() >= 3, "the humanoid has legs, arms and a head");
        // A frame passes a device after the one before it.
        for (place, before) in before.iter().enumerate().skip(1) {
            assert!(before.unwrap().0 < place, "{place}");
        }
        assert_ne!(name_before(&layout.devices[1].name), "");
    }
}
