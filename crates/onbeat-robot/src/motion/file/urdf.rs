//! Travel and velocity of joints from a URDF file (Unified Robot Description Format).

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

/// Limits of a joint, as far as the file has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct UrdfJoint {
    /// Lower end of the travel, in rad.
    pub(super) low: Option<f64>,
    /// Upper end of the travel, in rad.
    pub(super) high: Option<f64>,
    /// Maximum velocity, in rad/s.
    pub(super) velocity: Option<f64>,
    /// It slides: its limits are in m.
    pub(super) is_prismatic: bool,
}

/// The joints of a file that move, by name.
#[derive(Debug)]
pub(super) struct UrdfJoints(BTreeMap<String, UrdfJoint>);

impl UrdfJoints {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is not valid, in words.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let document =
            Document::parse(text).map_err(|why| format!("it is not valid XML: {why}"))?;
        let root = document.root_element();
        if root.tag_name().name() != "robot" {
            return Err(format!("its root is <{}>, not <robot>", root.tag_name().name()));
        }

        let mut joints = BTreeMap::new();
        for node in root.children().filter(|node| node.has_tag_name("joint")) {
            let name = node.attribute("name").unwrap_or_default();
            let read = joint(node).map_err(|why| format!("joint \"{name}\": {why}"))?;
            if let Some(joint) = read
                && joints.insert(with_blanks(name), joint).is_some()
            {
                return Err(format!("it has two joints \"{name}\"; give each its own name"));
            }
        }
        Ok(Self(joints))
    }

    /// Returns the joint with this name, in which a blank stands for an underscore.
    pub(super) fn find(&self, name: &str) -> Option<UrdfJoint> {
        self.0.get(&with_blanks(name)).copied()
    }
}

fn with_blanks(name: &str) -> String {
    name.trim().replace('_', " ")
}

/// Returns the limits of a joint; `None` if it does not move, or in several directions.
fn joint(node: Node<'_, '_>) -> Result<Option<UrdfJoint>, String> {
    let kind = node.attribute("type").unwrap_or_default();
    if !matches!(kind, "revolute" | "continuous" | "prismatic") {
        return Ok(None);
    }

    let number = |tag: &str, key: &str| {
        let element = node.children().find(|child| child.has_tag_name(tag));
        element.and_then(|element| element.attribute(key)).map_or(Ok(None), |text| {
            let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
            number.map(Some).ok_or_else(|| {
                format!("{key} = \"{text}\" is not a number; expand it by xacro FILE > robot.urdf")
            })
        })
    };
    let has_travel = kind != "continuous";
    if has_travel && !node.children().any(|child| child.has_tag_name("limit")) {
        return Err(format!("it is {kind} and has no <limit>; add one with lower and upper"));
    }
    // An end that is left out is 0.
    let end = |key: &str| Ok::<_, String>(number("limit", key)?.or(has_travel.then_some(0.0)));
    let [low, high] = if has_travel { [end("lower")?, end("upper")?] } else { [None, None] };
    let [soft_low, soft_high] = [
        number("safety_controller", "soft_lower_limit")?,
        number("safety_controller", "soft_upper_limit")?,
    ];
    let narrower = |hard: Option<f64>, soft: Option<f64>, of: fn(f64, f64) -> f64| {
        hard.map(|hard| soft.map_or(hard, |soft| of(hard, soft)))
    };
    Ok(Some(UrdfJoint {
        low: narrower(low, soft_low, f64::max),
        high: narrower(high, soft_high, f64::min),
        velocity: number("limit", "velocity")?.filter(|velocity| *velocity > 0.0),
        is_prismatic: kind == "prismatic",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: &str = r#"<?xml version="1.0"?>
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <link name="base"/>
  <joint name="base_joint" type="fixed"><parent link="world"/><child link="base"/></joint>
  <joint name="left_elbow" type="revolute">
    <axis xyz="0 0 1"/>
    <limit effort="87.0" lower="-2.9" upper="1.5" velocity="2.175"/>
    <safety_controller k_position="100" k_velocity="40" soft_lower_limit="-2.8" soft_upper_limit="2.8"/>
  </joint>
  <joint name="wrist" type="continuous"><limit effort="1" velocity="3"/></joint>
  <joint name="knee" type="revolute"><limit effort="1" upper="2" velocity="0"/></joint>
  <joint name="lift" type="prismatic"><limit effort="1" lower="0" upper="0.4" velocity="0.1"/></joint>
  <transmission name="t"><joint name="left_elbow"/></transmission>
</robot>"#;

    #[test]
    fn travel_and_velocity_are_those_of_the_file_and_the_narrower_of_soft_and_hard_limits() {
        let joints = UrdfJoints::read(ARM).unwrap();
        let of = |low, high, velocity| UrdfJoint { low, high, velocity, is_prismatic: false };
        let elbow = of(Some(-2.8), Some(1.5), Some(2.175));
        assert_eq!(joints.find("left elbow"), Some(elbow), "a blank is an underscore");
        assert_eq!(joints.find("left_elbow"), Some(elbow));
        assert_eq!(joints.find("wrist"), Some(of(None, None, Some(3.0))));
        assert_eq!(joints.find("knee"), Some(of(Some(0.0), Some(2.0), None)), "0 if left out");
        assert_eq!(joints.find("base_joint"), None, "it does not move");
        assert!(joints.find("lift").unwrap().is_prismatic);
    }

    #[test]
    fn a_file_that_is_not_a_urdf_file_says_why() {
        let said = |text: &str| UrdfJoints::read(text).unwrap_err();
        assert!(said("<robot>").starts_with("it is not valid XML"), "{}", said("<robot>"));
        assert_eq!(said("<sdf/>"), "its root is <sdf>, not <robot>");
        let xacro = ARM.replace("\"-2.9\"", "\"${-pi}\"");
        assert_eq!(
            said(&xacro),
            "joint \"left_elbow\": lower = \"${-pi}\" is not a number; expand it by xacro FILE > robot.urdf"
        );
        let twice = ARM.replace("\"wrist\"", "\"left elbow\"");
        assert_eq!(said(&twice), "it has two joints \"left elbow\"; give each its own name");
        let without = ARM.replace("<limit effort=\"1\" upper=\"2\" velocity=\"0\"/>", "");
        assert_eq!(
            said(&without),
            "joint \"knee\": it is revolute and has no <limit>; add one with lower and upper"
        );
    }
}
