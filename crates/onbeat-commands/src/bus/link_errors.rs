//! Errors of the links of a running bus, as words and as JSON.

use onbeat_control::{Client, DeviceInfo};
use onbeat_ethercat::link_errors::LinkErrors;
use serde_json::{Value, json};

/// Returns the devices whose ports have counted errors that arose there, with their names.
pub(crate) fn devices_with_errors(client: &Client) -> impl Iterator<Item = (String, LinkErrors)> {
    let has_errors = |errors: &LinkErrors| errors.counted().any(|(counter, _)| counter.is_origin());
    let errors = move |device: DeviceInfo| {
        Some((device.layout.name, device.link_errors.filter(has_errors)?))
    };
    client.devices().into_iter().filter_map(errors)
}

/// Returns what the ports of all devices have counted, in a line.
pub(crate) fn errors_text(client: &Client) -> String {
    let errors: Vec<String> =
        devices_with_errors(client).map(|(name, errors)| format!("{name}, {errors}")).collect();
    if !errors.is_empty() {
        return format!("errors since the bus came up: {}", errors.join("; "));
    }

    let unread = client.devices().iter().filter(|device| device.link_errors.is_none()).count();
    match unread {
        0 => "no errors on the links since the bus came up".to_owned(),
        1 => "error counters of 1 device not read yet".to_owned(),
        _ => format!("error counters of {unread} devices not read yet"),
    }
}

/// Returns the counters that are not 0, with the number that a full counter of 8 bits may exceed
/// marked.
pub(crate) fn errors_json(errors: &LinkErrors) -> Value {
    let counters = errors.counted().map(|(counter, count)| {
        json!({
            "counter": counter.word(), "port": counter.port(), "count": count.count(),
            "at_least": count.is_at_least(),
        })
    });
    counters.collect()
}
