//! The address of another computer, as people type it.

use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Finds a host and its port, such as `board1`, `10.0.0.2:7000`, `[fd00::1]:7470` or `fe80::1%eth0`.
/// `usual` is the port of one without. An IPv4 address written as IPv6 is an IPv4 address, and of a
/// name's addresses the first of IPv4 is taken: `localhost` is where devices listen by default.
///
/// # Errors
/// Why it is not found.
///
/// ```
/// use onbeat::probe::ports::host_and_port;
///
/// let board = host_and_port("[::ffff:10.0.0.2]:7000", None)?;
/// assert_eq!(board.to_string(), "10.0.0.2:7000");
/// # Ok::<(), String>(())
/// ```
pub fn host_and_port(name: &str, usual: Option<u16>) -> Result<SocketAddr, String> {
    // One of IPv6 without brackets has no port, and may have an interface behind it.
    let is_ipv6 = name.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    let without_port = || usual.map(|port| (name, port)).ok_or_else(|| "no port".to_owned());
    let (host, port) = match name.rsplit_once(':').filter(|_| !is_ipv6) {
        Some((_, bracket)) if bracket.ends_with(']') => without_port()?,
        Some((host, typed)) => match typed.parse::<u16>() {
            Ok(port @ 1..) => (host, port),
            _ => return Err(format!("`{typed}` is not a port")),
        },
        None => without_port()?,
    };
    // The system finds the interface of a link-local address, and takes no brackets.
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let found = (host, port).to_socket_addrs().map_err(|why| why.to_string())?;
    let found: Vec<SocketAddr> = found.collect();
    match found.iter().find(|address| address.is_ipv4()).or(found.first()).copied() {
        Some(SocketAddr::V6(v6)) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            Err("a link-local address needs its interface, such as fe80::1%eth0".to_owned())
        }
        Some(SocketAddr::V6(v6)) if v6.ip().to_ipv4_mapped().is_some() => {
            Ok(SocketAddr::new(v6.ip().to_canonical(), port))
        }
        other => other.ok_or_else(|| "it has no address".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_port_that_is_typed_or_the_usual_one() {
        for (name, usual, address) in [
            ("127.0.0.1:9", None, "127.0.0.1:9"),
            ("127.0.0.1", Some(7470), "127.0.0.1:7470"),
            ("localhost:9", None, "127.0.0.1:9"),
            ("[::1]:9", Some(7470), "[::1]:9"),
            ("[::1]", Some(7470), "[::1]:7470"),
            ("::1", Some(7470), "[::1]:7470"),
            ("fe80::1%1", Some(7470), "[fe80::1%1]:7470"),
            ("[fe80::1%1]:9", None, "[fe80::1%1]:9"),
            ("::ffff:127.0.0.1", Some(7470), "127.0.0.1:7470"),
            ("[::ffff:127.0.0.1]:9", None, "127.0.0.1:9"),
        ] {
            let found = host_and_port(name, usual).map(|at| at.to_string());
            assert_eq!(found.as_deref(), Ok(address), "{name}");
        }
    }

    #[test]
    fn what_is_not_a_port_is_said_before_a_name_is_looked_up() {
        for (name, usual, why) in [
            ("127.0.0.1:99999", Some(7470), "`99999` is not a port"),
            ("127.0.0.1:7470-7472", Some(7470), "`7470-7472` is not a port"),
            ("127.0.0.1:0", Some(7470), "`0` is not a port"),
            ("127.0.0.1:", None, "`` is not a port"),
            ("[::1]:x", None, "`x` is not a port"),
            ("[::1]", None, "no port"),
            ("::1:7000", None, "no port"),
            ("nowhere", None, "no port"),
        ] {
            assert_eq!(host_and_port(name, usual), Err(why.to_owned()), "{name}");
        }
    }
}
