//! The kernel: its version, its command line and how it was built.

use std::collections::BTreeMap;
use std::io::Read;

use super::{Fact, Survey};
use crate::catalogue::host_tree::is_absent;
use crate::catalogue::no_value::NoValue;
use crate::lint::kernel_cpus::keeps_first;

/// The largest configuration that is unpacked; a kernel's has some 300 KiB.
const MOST_CONFIG_BYTES: u64 = 4 << 20;

/// One parameter of the kernel command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    /// The name, with `_` for `-`: the kernel treats both alike.
    pub name: String,
    /// What stands behind `=`; `None` without one.
    pub value: Option<String>,
}

impl KernelParameter {
    /// Splits a command line as the kernel does: at blanks outside quotes, up to `--`.
    #[must_use]
    pub fn parse_line(line: &str) -> Vec<Self> {
        let mut in_quotes = false;
        let pieces = line.trim().split(|c: char| {
            in_quotes ^= c == '"';
            c.is_whitespace() && !in_quotes
        });

        let before_init =
            pieces.filter(|piece| !piece.is_empty()).take_while(|piece| *piece != "--");
        before_init.map(|piece| Self::parse(&piece.replace('"', ""))).collect()
    }

    fn parse(piece: &str) -> Self {
        let (name, value) = match piece.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (piece, None),
        };
        Self { name: name_of(name), value }
    }
}

/// The name of a kernel parameter; the kernel reads `-` and `_` alike.
pub(crate) fn name_of(parameter: &str) -> String {
    parameter.split('=').next().unwrap_or(parameter).replace('-', "_")
}

impl Survey<'_> {
    /// Returns the kernel's version, such as (6, 12).
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where it cannot be read.
    pub fn kernel_version(&self) -> Fact<(u32, u32)> {
        let release = self.text("/proc/sys/kernel/osrelease")?;
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
            _ => Err(NoValue::Unknown(format!(
                "\"{}\" is not a version of a kernel",
                release.trim()
            ))),
        }
    }

    /// Whether the kernel is fully preemptible.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where the version cannot be read.
    pub fn is_preempt_rt(&self) -> Fact<bool> {
        if self.host.read("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
            return Ok(true);
        }

        let version = self.text("/proc/version")?;
        Ok(version.contains("PREEMPT_RT") || version.contains("PREEMPT RT"))
    }

    /// Returns the kernel command line.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where it cannot be read.
    pub fn parameters(&self) -> Fact<&[KernelParameter]> {
        let read = || self.text("/proc/cmdline").map(|line| KernelParameter::parse_line(&line));
        self.parameters.get_or_init(read).as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns the parameter of this name that counts: the last one, and the first list of CPUs where
    /// the kernel keeps that.
    ///
    /// # Errors
    /// As [`Self::parameters`].
    pub fn parameter(&self, name: &str) -> Fact<Option<&KernelParameter>> {
        let name = name_of(name);
        let mut named = self.parameters()?.iter().filter(|parameter| parameter.name == name);
        Ok(if keeps_first(&name) { named.next() } else { named.next_back() })
    }

    /// Returns the options that the kernel was built with and their values; options that are not
    /// set are absent.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where no file with the configuration can be read.
    pub fn config(&self) -> Fact<&BTreeMap<String, String>> {
        self.config.get_or_init(|| self.read_config()).as_ref().map_err(Clone::clone)
    }

    fn read_config(&self) -> Fact<BTreeMap<String, String>> {
        let release = self.text("/proc/sys/kernel/osrelease")?;
        let release = release.trim();
        for path in self.config_paths(release) {
            let text = match self.host.read_bytes(&path) {
                Ok(bytes) if path.ends_with(".gz") => unpack(&bytes, &path)?,
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(NoValue::from_error(&path, &error)),
            };

            let options = text.lines().filter_map(|line| line.split_once('='));
            let options: BTreeMap<_, _> = options
                .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
                .collect();
            // An empty or cut file would make every option look as if it was not set.
            if options.len() < FEWEST_OPTIONS {
                return Err(NoValue::Unknown(format!(
                    "{path} holds only {} options of a kernel",
                    options.len()
                )));
            }
            return Ok(options);
        }

        Err(NoValue::Unknown(
            "the kernel's build configuration is in none of the usual files".to_owned(),
        ))
    }

    /// The files that may hold the configuration, in the order in which they are tried.
    #[must_use]
    pub fn config_paths(&self, release: &str) -> [String; 3] {
        [
            "/proc/config.gz".to_owned(),
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
        ]
    }
}

/// The smallest kernel has hundreds of options.
const FEWEST_OPTIONS: usize = 100;

fn unpack(bytes: &[u8], path: &str) -> Fact<String> {
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(bytes).take(MOST_CONFIG_BYTES);
    match unpacked.read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(NoValue::from_error(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_as_the_kernel_does() {
        let parameters = KernelParameter::parse_line(
            "quiet isolcpus=managed_irq,2-3 a-b=\"x y\" rcu_nocbs=1 -- nosmt\n",
        );
        let pairs: Vec<_> =
            parameters.iter().map(|p| (p.name.as_str(), p.value.as_deref())).collect();
        assert_eq!(
            pairs,
            [
                ("quiet", None),
                ("isolcpus", Some("managed_irq,2-3")),
                ("a_b", Some("x y")),
                ("rcu_nocbs", Some("1"))
            ]
        );
    }
}
