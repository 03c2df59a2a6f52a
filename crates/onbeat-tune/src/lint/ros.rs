//! Parameters and launch files of ROS 2, and descriptions of robots: what they say of the threads of
//! ros2_control, and of programs that chrt starts.

use roxmltree::{Document, Node};

use super::LintError;
use super::config_files::started_by_chrt;
use super::correction::Draft;
use super::finding::LintVerdict;
use super::libvirt;
use super::settings::{self, PlacedSetting};
use super::yaml::{self, YamlValue};

/// Judges a parameter, unless `$(var NAME)` or xacro fills it in.
fn judge_parameter(draft: &mut Draft<'_>, placed: &PlacedSetting<'_>) {
    if placed.value.contains('$') {
        let message = "Holds a variable; it is not judged.";
        draft.pass_over(placed.bytes.clone(), LintVerdict::Unknown, message);
    } else {
        settings::judge(draft, "ros", placed, None);
    }
}

/// Judges a launch file in XML, or the description of a robot.
fn judge_launch(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let text = draft.text();
    let document = Document::parse(text).map_err(|error| LintError::Xml(error.to_string()))?;
    for node in document.descendants().filter(Node::is_element) {
        let prefix = node.attribute("launch-prefix").and_then(started_by_chrt);
        match (prefix, parameter(text, node)) {
            (Some(remark), _) => libvirt::remark(draft, node, remark),
            (None, Some(placed)) => judge_parameter(draft, &placed),
            (None, None) => draft.add_others(1),
        }
    }
    Ok(())
}

/// A parameter that a launch file gives to the controller manager, or the priority of a thread of
/// hardware.
fn parameter<'d>(text: &str, node: Node<'d, '_>) -> Option<PlacedSetting<'d>> {
    if let Some(priority) = node.attribute_node("thread_priority") {
        return Some(PlacedSetting {
            name: "thread_priority".to_owned(),
            value: priority.value(),
            bytes: priority.range(),
            value_bytes: priority.range_value(),
        });
    }
    let manager = node.parent().filter(|_| node.has_tag_name("param"))?;
    let is_manager = manager.attribute("exec") == Some("ros2_control_node");
    let name = node.attribute("name").filter(|name| is_manager && settings::is_known("ros", name));
    let value = node.attribute_node("value")?;
    let value_bytes = value.range_value();
    // An attribute in front of it may have this sign.
    let end = value_bytes.end + text[value_bytes.end..].find('>').map_or(0, |end| end + 1);
    Some(PlacedSetting {
        name: name?.to_owned(),
        value: value.value(),
        bytes: node.range().start..end,
        value_bytes,
    })
}

/// Judges a file of parameters, or a launch file.
pub(super) fn judge(draft: &mut Draft<'_>) -> Result<(), LintError> {
    if draft.text().trim_start().starts_with('<') {
        return judge_launch(draft);
    }
    let values = yaml::values(draft.text()).map_err(|what| LintError::Yaml { what })?;
    for of in &values {
        let is_prefix = of.keys().last() == Some(&"launch-prefix");
        if let Some(remark) = started_by_chrt(&of.value).filter(|_| is_prefix) {
            draft.remark(of.bytes.clone(), remark);
            continue;
        }
        let Some(name) = of_manager(of).filter(|name| settings::is_known("ros", name)) else {
            draft.add_others(1);
            continue;
        };
        let (bytes, value_bytes) = (of.bytes.clone(), of.value_bytes.clone());
        let placed = PlacedSetting { name, value: &of.value, bytes, value_bytes };
        judge_parameter(draft, &placed);
    }
    Ok(())
}

/// The name of a parameter of the controller manager itself, of all nodes, or of the thread that a
/// controller has of its own.
fn of_manager(of: &YamlValue) -> Option<String> {
    match of.keys()[..] {
        [.., "async_parameters", name] => Some(name.to_owned()),
        [.., name] if name.starts_with("async_parameters.") => {
            name.split_once('.').map(|(_, name)| name.to_owned())
        }
        [.., node, "ros__parameters", name]
            if node.contains("controller_manager") || node == "/**" =>
        {
            Some(name.to_owned())
        }
        _ => None,
    }
}
