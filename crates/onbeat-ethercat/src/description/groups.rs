//! Optional groups: which devices belong together, and whether they can come and go.

use super::DescriptionError;
use super::resolved::{CableEnd, ResolvedDescription, ResolvedDevice};

/// Returns the optional groups in the order in which a frame reaches them, with the file positions
/// of their devices.
///
/// # Errors
/// [`DescriptionError::Group`] for a group that other devices need, that has no alias, or that is
/// not in one piece.
pub(super) fn optional_groups(
    resolved: &ResolvedDescription<'_>,
    is_ring: bool,
) -> Result<Vec<(String, Vec<usize>)>, DescriptionError> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut before = None;
    for position in resolved.order_on_cable() {
        let name = resolved.devices[position].table.group.as_deref();
        if let Some(name) = name {
            let is_known = groups.iter().any(|(known, _)| known == name);
            match groups.last_mut() {
                Some((_, members)) if before == Some(name) => members.push(position),
                _ if is_known => {
                    return refuse(name, "is not in one piece: other devices are between its devices on the cable; connect them one after the other".to_owned());
                }
                _ => groups.push((name.to_owned(), vec![position])),
            }
        }
        before = name;
    }

    check_cables(resolved)?;
    check_aliases(resolved, &groups)?;
    match groups.first() {
        Some((name, _)) if is_ring => {
            refuse(name, "is in a ring: a cable of the ring would be open while it is away; remove `ring`, or the key `group`".to_owned())
        }
        Some((name, _)) if resolved.devices.iter().all(|device| device.table.group.is_some()) => {
            refuse(name, "leaves no device that is always there; at least one has no `group`".to_owned())
        }
        _ => Ok(groups),
    }
}

fn refuse<T>(group: &str, why: String) -> Result<T, DescriptionError> {
    Err(DescriptionError::Group { group: group.to_owned(), why })
}

/// Refuses devices that lose their connection when a group goes.
fn check_cables(resolved: &ResolvedDescription<'_>) -> Result<(), DescriptionError> {
    for cable in &resolved.cables {
        let [CableEnd::Port { device: near, .. }, CableEnd::Port { device: far, .. }] = cable.ends
        else {
            continue;
        };
        let [near, far] = [near, far].map(|position| &resolved.devices[position]);
        if let Some(group) =
            near.table.group.as_ref().filter(|_| near.table.group != far.table.group)
        {
            let why = format!(
                "has device \"{}\", which is not in it, behind its device \"{}\": it would leave with the group; connect it elsewhere (`after`, `port`), or give it the same `group`",
                far.name, near.name
            );
            return refuse(group, why);
        }
    }
    Ok(())
}

/// Refuses groups whose first device cannot be told from others.
fn check_aliases(
    resolved: &ResolvedDescription<'_>,
    groups: &[(String, Vec<usize>)],
) -> Result<(), DescriptionError> {
    for (name, members) in groups {
        let Some(head) = members.first().map(|position| &resolved.devices[*position]) else {
            continue;
        };
        let id = head.setup.device_id;
        if head.alias == 0 && id == 0 {
            let why = format!(
                "has no alias: its first device \"{}\" is identified by it; add `alias`, and write it to the device: onbeat bus alias; or \
                 add `device_id`, if the device has a switch for it",
                head.name
            );
            return refuse(name, why);
        }
        for (what, number) in [("alias", head.alias), ("device ID", id)] {
            let of = |other: &ResolvedDevice<'_>| match what {
                "alias" => other.alias,
                _ => other.setup.device_id,
            };
            let mut others = resolved.devices.iter().filter(|other| other.name != head.name);
            if let Some(twin) = others.find(|other| number != 0 && of(other) == number) {
                let why = format!(
                    "has {what} {number}, which device \"{}\" has too; give each its own",
                    twin.name
                );
                return refuse(name, why);
            }
        }
    }
    Ok(())
}
