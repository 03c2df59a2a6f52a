//! Parameters of ROS 2: what they say of the thread that updates the controllers of ros2_control.

use super::LintError;
use super::correction::Draft;
use super::settings::{self, PlacedSetting};
use super::yaml::{self, YamlValue};

/// Judges a file of parameters.
pub(super) fn judge(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let values = yaml::values(draft.text()).map_err(|what| LintError::Yaml { what })?;
    for of in &values {
        let Some(name) = of_manager(of).filter(|name| settings::is_known("ros", name)) else {
            draft.add_others(1);
            continue;
        };
        let (bytes, value_bytes) = (of.bytes.clone(), of.value_bytes.clone());
        let placed = PlacedSetting { name, value: &of.value, bytes, value_bytes };
        settings::judge(draft, "ros", &placed, None);
    }
    Ok(())
}

/// The name of a parameter of the controller manager itself, or of all nodes.
fn of_manager(of: &YamlValue) -> Option<String> {
    match of.keys()[..] {
        [.., node, "ros__parameters", name]
            if node.contains("controller_manager") || node == "/**" =>
        {
            Some(name.to_owned())
        }
        _ => None,
    }
}
