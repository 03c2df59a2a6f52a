//! What of each file is kept: the parts that a probe looks at.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::asked::AskedNames;
use super::interrupts::{self, RenamedInterfaces};
use crate::capture_archive::accesses::{AccessFailure, Accesses};
use crate::catalogue::known_facts;
use crate::catalogue::probes::unit::{UNIT_DIRECTORIES, is_wants};
use crate::tasks::KERNEL_FLAG;

/// The name of a thread whose name no record asks for.
const SOME_PROGRAM: &str = "program";
/// Lines of `/proc/cpuinfo` without serial numbers.
const PROCESSOR_LINES: [&str; 4] = ["vendor_id", "flags", "Features", "CPU architecture"];
const RELEASE: &str = "/proc/sys/kernel/osrelease";
const MOST_CONFIG_BYTES: u64 = 4 << 20;

/// Takes out of the answers what names a host, a person or a program.
pub(super) fn clean(accesses: &mut Accesses, asked: &AskedNames, is_live: bool) {
    if is_live {
        leave_out_own_process(accesses);
    }

    for (directory, names) in &mut accesses.lists {
        if let Ok(names) = names {
            names.retain(|name| keeps_entry(directory, name, asked));
        }
    }
    leave_out_empty_wants(accesses);

    for (path, text) in &mut accesses.reads {
        if let Ok(bytes) = text {
            *bytes = cleaned(path, bytes, asked);
        }
    }
    write_affinities(accesses);

    let interfaces = RenamedInterfaces::from_accesses(accesses);
    interfaces.rename_handlers(accesses);
    let new = new_names(accesses, &interfaces);
    rename(accesses, &new);
}

/// The check leaves its own process out, and finds another one elsewhere.
fn leave_out_own_process(accesses: &mut Accesses) {
    let own = std::process::id().to_string();
    let below = format!("/proc/{own}/");
    let is_own = |path: &String| path.starts_with(&below);

    accesses.reads.retain(|path, _| !is_own(path));
    accesses.lists.retain(|path, _| !is_own(path));
    if let Some(Ok(names)) = accesses.lists.get_mut("/proc") {
        names.retain(|name| *name != own);
    }
}

fn keeps_entry(directory: &str, name: &str, asked: &AskedNames) -> bool {
    let is_number = || name.parse::<u32>().is_ok();
    match directory {
        "/proc" => is_number(),
        "/proc/irq" => is_number() || name == "default_smp_affinity",
        _ if UNIT_DIRECTORIES.contains(&directory) => asked.keeps_unit(name) || is_wants(name),
        _ if is_wants(directory) || directory.ends_with("/system.slice") => asked.keeps_unit(name),
        _ => true,
    }
}

/// A target's name may say what the machine is for.
fn leave_out_empty_wants(accesses: &mut Accesses) {
    let is_empty =
        |names: &Result<Vec<String>, AccessFailure>| matches!(names, Ok(names) if names.is_empty());
    let empty: Vec<String> = accesses
        .lists
        .iter()
        .filter(|(path, names)| is_wants(path) && is_empty(names))
        .map(|(p, _)| p.clone())
        .collect();

    for path in empty {
        accesses.lists.remove(&path);
        let Some((directory, name)) = path.rsplit_once('/') else { continue };
        if let Some(Ok(names)) = accesses.lists.get_mut(directory) {
            names.retain(|other| other != name);
        }
    }
}

fn cleaned(path: &str, bytes: &[u8], asked: &AskedNames) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    match path {
        "/proc/cmdline" => parameters(&text, asked),
        _ if known_facts::is_boot_file(path) => boot_parameters(&text, asked),
        _ if known_facts::is_of_irqbalance(path) => lines_with(&text, "IRQBALANCE_BANNED_CPU"),
        "/proc/version" => version(&text),
        "/proc/cpuinfo" => processor(&text),
        "/proc/swaps" => swaps(&text),
        "/proc/interrupts" => interrupts::counts(&text),
        RELEASE => format!("{}\n", number_of_release(&text)),
        // Of a unit whether it is masked.
        _ if path.rsplit_once('/').is_some_and(|(above, _)| UNIT_DIRECTORIES.contains(&above)) => {
            text.lines().take(1).map(|_| "\n").collect()
        }
        _ if path.ends_with("/mountinfo") => mounts(&text),
        _ if path.ends_with("config.gz") => return packed_config(bytes),
        _ if path.starts_with("/boot/config-") || path.ends_with("/config") => config(&text),
        _ if path.starts_with("/proc/") && path.ends_with("/stat") => stat(&text, asked),
        _ if path.starts_with("/proc/") && path.ends_with("/status") => {
            lines_with(&text, "Cpus_allowed_list:")
        }
        _ => match asked.lines.get(path) {
            Some(lines) => {
                let first =
                    lines.iter().filter_map(|asked| text.lines().find(|line| asked.fits(line)));
                first.map(|line| format!("{line}\n")).collect()
            }
            None => return bytes.to_vec(),
        },
    }
    .into_bytes()
}

/// The kernel's own parameters that records ask for, in their order.
fn parameters(text: &str, asked: &AskedNames) -> String {
    let own = text.split_whitespace().take_while(|piece| *piece != "--");
    let kept: Vec<_> = own.filter(|piece| asked.keeps_parameter(piece)).collect();
    format!("{}\n", kept.join(" "))
}

/// Of a boot loader's file, line by line, what the command line keeps: names of devices, addresses
/// and titles stay out.
fn boot_parameters(text: &str, asked: &AskedNames) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let kept = |line: &str| {
        let words = line.split([' ', '\t', '"', '\'', ')']);
        // The first word of a value without quotes is joined to the variable.
        let kept = words.filter_map(|word| {
            let value = word.split_once('=').map_or("", |(_, value)| value);
            [word, value].into_iter().find(|word| asked.keeps_parameter(word))
        });
        kept.collect::<Vec<_>>().join(" ")
    };
    lines.map(kept).filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

/// The lines that begin with this.
fn lines_with(text: &str, beginning: &str) -> String {
    let begins = |line: &&str| line.trim_start().starts_with(beginning);
    text.lines().filter(begins).map(|line| format!("{line}\n")).collect()
}

/// Without the names of who built the kernel and where.
fn version(text: &str) -> String {
    let release = text.split_whitespace().nth(2).unwrap_or_default();
    let rest = text.find('#').map_or("", |at| &text[at..]);
    format!("Linux version {} {}\n", number_of_release(release), rest.trim_end())
}

/// The numbers of `6.12.5-robot`.
fn number_of_release(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// The lines of the first processor.
fn processor(text: &str) -> String {
    let mut kept = String::new();
    for wanted in PROCESSOR_LINES {
        let is_wanted =
            |line: &&str| line.split(':').next().is_some_and(|name| name.trim() == wanted);
        kept.extend(text.lines().find(is_wanted).map(|line| format!("{line}\n")));
    }

    kept
}

fn swaps(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let heading = lines.next().map(|line| format!("{line}\n"));
    heading.into_iter().chain(lines.map(|_| "swap\n".to_owned())).collect()
}

/// The mounts of control groups and of the root, without devices.
fn mounts(text: &str) -> String {
    let kept = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let mut fields = tail.split(' ');
        let kind = fields.next()?;
        let options = fields.nth(1)?;
        match kind {
            "cgroup" | "cgroup2" => Some(format!("{head} - {kind} {kind} {options}\n")),
            _ if head.contains(" / / ") => Some(format!("{head} - {kind} device rw\n")),
            _ => None,
        }
    };
    text.lines().filter_map(kept).collect()
}

/// Options with a text may name a host.
fn config(text: &str) -> String {
    let cleaned = |line: &str| match line.split_once("=\"") {
        Some((name, _)) => format!("{name}=\"\"\n"),
        None if line.contains('=') && !line.starts_with('#') => format!("{line}\n"),
        None => String::new(),
    };
    text.lines().map(cleaned).collect()
}

fn packed_config(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(bytes).take(MOST_CONFIG_BYTES).read_to_string(&mut text);
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // What cannot be unpacked here is as unreadable there: it becomes an empty file.
    unpacked
        .and_then(|_| packer.write_all(config(&text).as_bytes()))
        .and_then(|()| packer.finish())
        .unwrap_or_default()
}

/// Number, name, state, flags, priority and policy; zeros for times, sizes and addresses.
fn stat(text: &str, asked: &AskedNames) -> String {
    let pieces = text.rsplit_once(')').and_then(|(head, tail)| Some((head.split_once('(')?, tail)));
    let Some(((tid, name), tail)) = pieces else { return text.to_owned() };
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let is_kernel = fields
        .get(6)
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|f| f & KERNEL_FLAG != 0);

    let name = if is_kernel || asked.keeps_thread(name) { name } else { SOME_PROGRAM };
    // Fields are counted from 3, the state: 9 are the flags, 40 the priority, 41 the policy
    // (proc_pid_stat(5)).
    let kept = |(place, field): (usize, &&str)| {
        if matches!(place + 3, 3 | 9 | 40 | 41) { (*field).to_owned() } else { "0".to_owned() }
    };
    let fields: Vec<_> = fields.iter().enumerate().map(kept).collect();
    format!("{}({name}) {}\n", tid, fields.join(" "))
}

/// On the machine itself a system call returns the CPUs of a thread; a capture has them where the
/// kernel shows them.
fn write_affinities(accesses: &mut Accesses) {
    let own = std::process::id().cast_signed();
    for (tid, cpus) in std::mem::take(&mut accesses.affinities) {
        if tid != own {
            let line = format!("Cpus_allowed_list:\t{cpus}\n").into_bytes();
            accesses.reads.insert(format!("/proc/{tid}/status"), Ok(line));
            // A thread beside the first of its process: its number is not a process, although it
            // has a directory here.
            accesses
                .lists
                .entry(format!("/proc/{tid}/task"))
                .or_insert_with(|| Err(AccessFailure::absent()));
        }
    }
}

/// Beginnings of paths that change, with what they become: names of interfaces that a person chose,
/// the kernel's own suffix.
fn new_names(accesses: &Accesses, interfaces: &RenamedInterfaces) -> BTreeMap<String, String> {
    let mut new = interfaces.paths(accesses);
    for path in accesses.reads.keys() {
        for (start, end) in [("/boot/config-", ""), ("/lib/modules/", "/config")] {
            let release = path.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            if let Some(release) = release {
                let renamed = format!("{start}{}", number_of_release(release));
                new.insert(format!("{start}{release}"), renamed);
            }
        }
    }

    new
}

fn rename(accesses: &mut Accesses, new: &BTreeMap<String, String>) {
    let renamed = |path: &str| {
        let fits = |old: &str| {
            path.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = new.iter().find_map(|(old, new)| Some(format!("{new}{}", fits(old)?)));
        found.unwrap_or_else(|| path.to_owned())
    };
    fn with_names<T>(map: &mut BTreeMap<String, T>, renamed: impl Fn(&str) -> String) {
        *map =
            std::mem::take(map).into_iter().map(|(path, value)| (renamed(&path), value)).collect();
    }

    with_names(&mut accesses.reads, renamed);
    with_names(&mut accesses.lists, renamed);
    with_names(&mut accesses.lookups, renamed);
    for (directory, names) in &mut accesses.lists {
        for name in names.iter_mut().flatten() {
            let path = renamed(&format!("{directory}/{name}"));
            *name = path.rsplit('/').next().unwrap_or_default().to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::catalogue;

    fn asked() -> AskedNames {
        AskedNames::from_catalogue(catalogue())
    }

    #[test]
    fn names_of_programs_stay_out_unless_a_record_asks_for_them() {
        let line = |name: &str, flags: u64| {
            format!("7 ({name}) S 1 7 7 0 -1 {flags} 5 6{} 0 0\n", " 9".repeat(30))
        };
        let name = |name: &str, flags| {
            let stat = stat(&line(name, flags), &asked());
            stat[stat.find('(').unwrap() + 1..stat.rfind(')').unwrap()].to_owned()
        };
        assert_eq!(name("secret plan", 0x0040_0000), "program");
        assert_eq!(name("irqbalance", 0x0040_0000), "irqbalance");
        assert_eq!(name("CPU 0/KVM", 0x0040_0000), "CPU 0/KVM");
        assert_eq!(name("ksoftirqd/3", 0x0020_0000), "ksoftirqd/3");
    }

    #[test]
    fn a_boot_file_keeps_the_first_word_of_a_value_without_quotes() {
        let text = "rootdev=UUID=1234\nextraargs=isolcpus=3 robot=1 nosmt\n";
        assert_eq!(boot_parameters(text, &asked()), "isolcpus=3 nosmt\n");
    }

    #[test]
    fn the_command_line_keeps_what_records_ask_for() {
        let line = "root=UUID=1234 ip=robot.example nohz-full=1 isolcpus=2-3 intel_idle.max_cstate=0 quiet -- skew_tick=1";
        let kept = parameters(line, &asked());
        assert!(kept.contains("isolcpus=2-3") && kept.contains("nohz-full=1"), "{kept}");
        assert!(
            !kept.contains("1234") && !kept.contains("robot") && !kept.contains("skew_tick"),
            "{kept}"
        );
    }

    #[test]
    fn of_boot_files_and_of_irqbalance_nothing_else_is_kept() {
        let grub = "# isolcpus=9\nGRUB_TITLE=\"walker of acme\"\nGRUB_CMDLINE_LINUX=\"root=/dev/acme isolcpus=2-3 splash\"\n";
        assert_eq!(boot_parameters(grub, &asked()), "isolcpus=2-3\n");
        let irqbalance = "# who\nIRQBALANCE_ARGS=--pid=/acme\nIRQBALANCE_BANNED_CPULIST=\"3\"\n";
        assert_eq!(
            lines_with(irqbalance, "IRQBALANCE_BANNED_CPU"),
            "IRQBALANCE_BANNED_CPULIST=\"3\"\n"
        );
    }

    #[test]
    fn hosts_devices_and_serial_numbers_stay_out() {
        let version =
            version("Linux version 6.12.5-robot (me@home) (gcc 14) #1 SMP PREEMPT_RT now\n");
        assert_eq!(version, "Linux version 6.12.5 #1 SMP PREEMPT_RT now\n");
        assert_eq!(
            processor("processor : 0\nSerial : 1000\nFeatures : fp asimd\nFeatures : fp\n"),
            "Features : fp asimd\n"
        );

        assert_eq!(swaps("Filename Type\n/data/my swap file 1\n"), "Filename Type\nswap\n");
        assert_eq!(
            mounts(
                "1 0 8:1 / / rw,relatime - ext4 /dev/mapper/me rw,x=y\n2 1 8:2 / /data/mine rw - ext4 /dev/sda rw\n"
            ),
            "1 0 8:1 / / rw,relatime - ext4 device rw\n"
        );

        assert_eq!(
            config("# c\nCONFIG_DEFAULT_HOSTNAME=\"me\"\nCONFIG_HZ=250\n"),
            "CONFIG_DEFAULT_HOSTNAME=\"\"\nCONFIG_HZ=250\n"
        );
    }

    #[test]
    fn interfaces_named_by_people_or_addresses_get_other_names() {
        let mut accesses = Accesses::default();
        let names = ["enp3s0", "enx0123456789ab", "lo", "vpn-acme"].map(str::to_owned).to_vec();
        accesses.lists.insert("/sys/class/net".to_owned(), Ok(names));
        accesses.reads.insert("/sys/class/net/vpn-acme/threaded".to_owned(), Ok(b"0\n".to_vec()));
        let actions = b"igb-vpn-acme-rx,enp3s0\n".to_vec();
        accesses.reads.insert("/sys/kernel/irq/24/actions".to_owned(), Ok(actions));
        let handlers = vec!["enp3s0".to_owned(), "igb-vpn-acme-rx".to_owned()];
        accesses.lists.insert("/proc/irq/24".to_owned(), Ok(handlers));
        accesses.lists.insert("/proc/irq/24/igb-vpn-acme-rx".to_owned(), Ok(Vec::new()));
        clean(&mut accesses, &asked(), false);

        let names = |directory: &str| accesses.lists[directory].clone().unwrap();
        assert_eq!(names("/sys/class/net"), ["enp3s0", "other0", "lo", "other1"]);
        assert!(accesses.reads.contains_key("/sys/class/net/other1/threaded"));
        let actions = accesses.reads["/sys/kernel/irq/24/actions"].clone().unwrap();
        assert_eq!(actions, b"igb-other1-rx,enp3s0\n");
        assert_eq!(names("/proc/irq/24"), ["enp3s0", "igb-other1-rx"]);
        assert!(accesses.lists.contains_key("/proc/irq/24/igb-other1-rx"));
    }
}
