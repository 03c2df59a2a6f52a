//! Addresses, topics and types as ROS 2 names them in DDS (ROS 2 design, "Topic and Service name
//! mapping to DDS").

use std::net::Ipv4Addr;
use std::str::FromStr;

use super::error::GatewayError;

/// Last domain whose ports are below 65,536 (DDSI-RTPS 2.5, 9.6.2).
const LAST_DOMAIN: u16 = 232;
/// Longest name of a topic of DDS, with its prefix.
const MOST_TOPIC: usize = 255;
/// What ROS 2 puts before the name of a topic; services have others.
const TOPIC_PREFIX: &str = "rt/";

/// Address of a ROS 2 network, such as `ros2://0?interface=127.0.0.1&reliability=best_effort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ros2Url {
    /// Domain, 0 to 232: `ROS_DOMAIN_ID` of the peers.
    pub domain: u16,
    /// Address of the network interface that is announced and multicasts; 127.0.0.1 unless given.
    pub interface: Ipv4Addr,
    /// Whether lost messages are sent again.
    pub reliability: Ros2Reliability,
}

/// The policy RELIABILITY of DDS. A reliable reader takes nothing from a best-effort writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ros2Reliability {
    /// Lost messages are sent again: the default of ROS 2.
    #[default]
    Reliable,
    /// Each message is sent once: ROS 2's profile for sensor data.
    BestEffort,
}

impl FromStr for Ros2Url {
    type Err = GatewayError;

    fn from_str(text: &str) -> Result<Self, GatewayError> {
        let wrong = || GatewayError::Ros2Url { url: text.to_owned() };
        let rest = text.strip_prefix("ros2://").ok_or_else(wrong)?;
        let (domain, options) = rest.split_once('?').unwrap_or((rest, ""));
        let domain = domain.parse().ok().filter(|domain| *domain <= LAST_DOMAIN);
        let mut url = Self {
            domain: domain.ok_or_else(wrong)?,
            interface: Ipv4Addr::LOCALHOST,
            reliability: Ros2Reliability::default(),
        };

        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("interface", address)) => {
                    url.interface = address.parse().map_err(|_| wrong())?;
                }
                Some(("reliability", "reliable")) => url.reliability = Ros2Reliability::Reliable,
                Some(("reliability", "best_effort")) => {
                    url.reliability = Ros2Reliability::BestEffort;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(url)
    }
}

/// Returns the topic of DDS for a topic of ROS 2: `rt/walker/cycle` for `walker/cycle`, with or
/// without a slash before it.
///
/// # Errors
/// [`GatewayError::Ros2Topic`] for a name that ROS 2 refuses.
pub fn dds_topic(name: &str) -> Result<String, GatewayError> {
    let topic = name.strip_prefix('/').unwrap_or(name);
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let fits = topic.len() + TOPIC_PREFIX.len() <= MOST_TOPIC;
    match fits && topic.split('/').all(is_word) && !topic.contains("__") {
        true => Ok(format!("{TOPIC_PREFIX}{topic}")),
        false => Err(GatewayError::Ros2Topic { name: name.to_owned() }),
    }
}

/// Returns the type of DDS for a type of ROS 2: `sensor_msgs::msg::dds_::JointState_` for
/// `sensor_msgs/msg/JointState`.
///
/// # Errors
/// [`GatewayError::Ros2Type`] without a type, or for a name of another form.
pub fn dds_type(name: &str, topic: &str) -> Result<String, GatewayError> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [package, message] | [package, "msg", message]
            if !package.is_empty() && !message.is_empty() =>
        {
            Ok(format!("{package}::msg::dds_::{message}_"))
        }
        _ => Err(GatewayError::Ros2Type { name: name.to_owned(), topic: topic.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_domain_an_interface_and_a_reliability() {
        let url: Ros2Url = "ros2://0".parse().unwrap();
        assert_eq!((url.domain, url.interface), (0, Ipv4Addr::LOCALHOST));
        assert_eq!(url.reliability, Ros2Reliability::Reliable);

        let url: Ros2Url = "ros2://232?interface=10.0.0.7&reliability=best_effort".parse().unwrap();
        assert_eq!((url.domain, url.interface), (232, Ipv4Addr::new(10, 0, 0, 7)));
        assert_eq!(url.reliability, Ros2Reliability::BestEffort);
    }

    #[test]
    fn a_wrong_address_is_named_with_a_right_one() {
        for wrong in ["ros2://", "ros2://233", "ros2://0?interface=lo", "ros2://0?reliability=no"] {
            let why = wrong.parse::<Ros2Url>().unwrap_err().to_string();
            assert!(why.contains(wrong) && why.contains("ros2://0?interface="), "{why}");
        }
    }

    #[test]
    fn topics_and_types_are_named_as_ros_2_names_them() {
        assert_eq!(dds_topic("joint_states").unwrap(), "rt/joint_states");
        assert_eq!(dds_topic("/walker/cycle").unwrap(), "rt/walker/cycle");
        let joints = "sensor_msgs::msg::dds_::JointState_";
        assert_eq!(dds_type("sensor_msgs/msg/JointState", "t").unwrap(), joints);
        assert_eq!(dds_type("sensor_msgs/JointState", "t").unwrap(), joints);

        let long = "a".repeat(253);
        for wrong in ["", "/", "a//b", "a/", "2d/scan", "my-robot/cycle", "a__b", &long] {
            assert!(dds_topic(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "JointState", "a/srv/B", "a/msg/"] {
            assert!(dds_type(wrong, "t").is_err(), "{wrong}");
        }
    }
}
