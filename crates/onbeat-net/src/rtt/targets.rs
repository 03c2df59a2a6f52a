//! The devices of a run: their addresses, and whether packets may be sent there.

use std::net::SocketAddr;

use onbeat::probe::ports::host_and_port;

use super::RttError;
use crate::address::is_local;
use crate::packet::PORT;

/// Largest number of devices of a run.
pub const MOST_TARGETS: u64 = 128;

/// Reads a list of devices as typed, such as `board1,10.0.0.2:7000,[fd00::1]:7470`. A port that is
/// left out is [`PORT`]. With `count`, one address stands for that many ports from its own on.
///
/// # Errors
/// [`RttError`]: a name that is unknown, several addresses with a count, both families, or an
/// address outside the local network without `anywhere`.
pub fn targets(list: &str, count: u64, anywhere: bool) -> Result<Vec<SocketAddr>, RttError> {
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let address = |name: &&str| {
        let unknown = |why| RttError::Name { name: (*name).to_owned(), why };
        host_and_port(name, Some(PORT)).map_err(unknown)
    };
    if count > MOST_TARGETS {
        return Err(RttError::TooManyTargets { devices: count });
    }
    let mut addresses = names.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    if let (&[mut first], 2..) = (addresses.as_slice(), count) {
        let port = |number: u64| u16::try_from(u64::from(first.port()) + number).ok();
        let ports: Option<Vec<u16>> = (0..count).map(port).collect();
        let ports = ports.ok_or(RttError::Ports { first: first.port(), count })?;
        let at = |port| {
            // The interface of a link-local address stays.
            first.set_port(port);
            first
        };
        addresses = ports.into_iter().map(at).collect();
    } else if count > 1 && count != addresses.len() as u64 {
        return Err(RttError::TwoCounts { listed: addresses.len(), count });
    }

    let devices = addresses.len() as u64;
    if !(1..=MOST_TARGETS).contains(&devices) {
        return Err(RttError::TooManyTargets { devices });
    }
    if addresses.iter().any(|address| address.is_ipv4() != addresses[0].is_ipv4()) {
        return Err(RttError::TwoFamilies);
    }
    match addresses.iter().find(|address| !is_local(address.ip())) {
        Some(outside) if !anywhere => Err(RttError::Outside { address: outside.ip() }),
        _ => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &str, count: u64) -> String {
        match targets(list, count, false) {
            Ok(addresses) => {
                addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn a_list_or_a_count_gives_the_addresses() {
        assert_eq!(words("10.0.0.1", 1), "10.0.0.1:7470");
        assert_eq!(words("10.0.0.1, 10.0.0.2:9", 1), "10.0.0.1:7470 10.0.0.2:9");
        assert_eq!(words("127.0.0.1:8000", 3), "127.0.0.1:8000 127.0.0.1:8001 127.0.0.1:8002");
        assert_eq!(words("::1,[::1],[fd00::1]:9", 3), "[::1]:7470 [::1]:7470 [fd00::1]:9");
        assert_eq!(words("::ffff:10.0.0.1,10.0.0.2", 1), "10.0.0.1:7470 10.0.0.2:7470");
        let own = "[fe80::1%1]:9 [fe80::1%1]:10";
        assert_eq!(
            (words("[fe80::1%1]:9", 2).as_str(), words("fe80::1%1", 1).as_str()),
            (own, "[fe80::1%1]:7470")
        );
    }

    #[test]
    fn what_cannot_be_sent_to_has_its_reason() {
        for (list, count, part) in [
            ("", 1, "0 devices"),
            ("127.0.0.1", 200, "200 devices"),
            ("127.0.0.1:65535", 2, "65535"),
            ("127.0.0.1:7470-7472", 1, "--devices N"),
            ("10.0.0.1,10.0.0.2", 3, "2 addresses"),
            ("127.0.0.1,::1", 1, "IPv4 and IPv6"),
            ("8.8.8.8", 1, "--yes-really"),
            ("fe80::1", 1, "needs its interface"),
        ] {
            assert!(words(list, count).contains(part), "{list}: {}", words(list, count));
        }
        assert!(targets("8.8.8.8", 1, true).is_ok());
    }
}
