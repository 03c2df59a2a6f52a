//! Network interfaces that a run has made, and their removal.
//!
//! A name does not identify an interface: another program may have made one of the same name since.
//! A run gives its interface a hardware address drawn at random, which goes on record before the
//! interface is made; kind and address together are the interface. They are looked up in the network
//! namespace that the run was in, from wherever the undo runs; an interface ends with its namespace.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onbeat_host::process;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

const OWN_NAMESPACE: &str = "/proc/self/ns/net";
/// Where `ip netns` keeps namespaces without a process.
const NAMED_NAMESPACES: &str = "/run/netns";
const UUID: &str = "/proc/sys/kernel/random/uuid";

/// An interface of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeInterface {
    pub name: String,
    /// Its kind, such as `veth`.
    pub link: String,
    /// Its hardware address, as `ip link` writes it.
    pub address: String,
    /// The network namespace: the number of its file.
    pub namespace: u64,
}

/// A line of `ip -json -details link`.
#[derive(Deserialize)]
struct ShownLink {
    ifname: Option<String>,
    address: Option<String>,
    linkinfo: Option<ShownKind>,
}

#[derive(Deserialize)]
struct ShownKind {
    info_kind: Option<String>,
}

impl MadeInterface {
    /// An interface that is about to be made in this namespace, with a fresh address.
    ///
    /// # Errors
    /// The kernel's, where `/proc` is not mounted.
    pub fn fresh(name: &str, link: &str) -> io::Result<Self> {
        let drawn: String =
            fs::read_to_string(UUID)?.chars().filter(char::is_ascii_hexdigit).take(10).collect();
        let pairs = [0, 2, 4, 6, 8].map(|at| drawn.get(at..at + 2).unwrap_or("00"));
        Ok(Self {
            name: name.to_owned(),
            link: link.to_owned(),
            // 02: assigned locally, of one station.
            address: format!("02:{}", pairs.join(":")),
            namespace: fs::metadata(OWN_NAMESPACE)?.ino(),
        })
    }

    /// Whether it exists and is still the one that was made.
    pub(crate) fn exists(&self) -> io::Result<bool> {
        let Some(place) = namespace(self.namespace)? else { return Ok(false) };
        let shown = ip(&place, &["-json", "-details", "link", "show", "dev", &self.name])?;
        let Some(shown) = shown else { return Ok(false) };
        let links: Vec<ShownLink> = serde_json::from_str(&shown).map_err(io::Error::other)?;
        Ok(links.into_iter().any(|link| {
            link.ifname.as_ref() == Some(&self.name)
                && link.address.as_ref() == Some(&self.address)
                && link.linkinfo.and_then(|it| it.info_kind).as_ref() == Some(&self.link)
        }))
    }

    /// Removes it, if it is still the one that was made.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let place = namespace(self.namespace)?.ok_or(Errno::NOENT)?;
        if !self.exists()? {
            return Err(Errno::NOENT.into());
        }
        ip(&place, &["link", "delete", "dev", &self.name])?
            .map_or(Err(Errno::NOENT.into()), |_| Ok(()))
    }
}

/// A path to a network namespace; `None` when it has ended.
///
/// # Errors
/// The kernel's, where the processes cannot be listed: one of them may keep it.
fn namespace(number: u64) -> io::Result<Option<PathBuf>> {
    let is_it = |path: &Path| fs::metadata(path).is_ok_and(|found| found.ino() == number);
    let own = PathBuf::from(OWN_NAMESPACE);
    if is_it(&own) {
        return Ok(Some(own));
    }

    let named = fs::read_dir(NAMED_NAMESPACES).into_iter().flatten().flatten().map(|it| it.path());
    let processes = process::all()?.into_iter();
    let of_processes = processes.map(|it| PathBuf::from(format!("/proc/{}/ns/net", it.pid)));
    Ok(named.chain(of_processes).find(|path| is_it(path)))
}

/// Runs `ip` of iproute2 in a namespace; `None` where it finds no such interface.
fn ip(place: &Path, words: &[&str]) -> io::Result<Option<String>> {
    let mut command = if place == Path::new(OWN_NAMESPACE) {
        Command::new("ip")
    } else {
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--net={}", place.display())).arg("ip");
        entered
    };

    let done = command.args(words).env("LC_ALL", "C").stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.success() {
        true => Ok(Some(String::from_utf8_lossy(&done.stdout).into_owned())),
        false if said.contains("does not exist") || said.contains("Cannot find device") => Ok(None),
        false => Err(io::Error::other(format!("ip {}: {}", words.join(" "), said.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_address_is_local_and_of_one_station_and_drawn() {
        let [one, other] = [0; 2].map(|_| MadeInterface::fresh("x", "veth").unwrap());
        assert!(one.address.starts_with("02:") && one.address.len() == 17, "{}", one.address);
        assert_ne!(one.address, other.address);
        assert_eq!(namespace(one.namespace).unwrap(), Some(PathBuf::from(OWN_NAMESPACE)));
        assert_eq!(namespace(1).unwrap(), None, "no namespace has this number");
    }

    #[test]
    fn an_interface_of_this_name_that_another_program_made_does_not_count() {
        let loopback = MadeInterface::fresh("lo", "veth").unwrap();
        if ip(Path::new(OWN_NAMESPACE), &["-V"]).is_err() {
            println!("skipped: there is no `ip` here");
            return;
        }
        assert!(!loopback.exists().unwrap());
        assert_eq!(loopback.remove().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
