//! Where kernel parameters go on a machine.

use serde::{Deserialize, Serialize};

use super::FollowUp;
use super::etc_files::EtcFiles;
use crate::catalogue::survey::name_of;

/// What starts the kernel, as far as its command line is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootLoader {
    /// GRUB with drop-ins in `/etc/default/grub.d`: Debian and Ubuntu.
    GrubDropIn,
    /// GRUB without drop-ins and without grubby: Arch and others. Edited by hand.
    GrubFile,
    /// Entries that grubby edits: Fedora, RHEL.
    Grubby,
    /// An image whose parameters rpm-ostree keeps.
    Ostree,
    /// systemd-boot with `/etc/kernel/cmdline`.
    KernelInstall,
    /// Images that mkinitcpio builds with `/etc/kernel/cmdline` in them: Arch.
    Mkinitcpio,
    /// systemd-boot with entries that kernelstub writes: Pop!_OS.
    Kernelstub,
    /// The firmware of a Raspberry Pi: a file with one line.
    RaspberryPi {
        /// The file.
        path: String,
    },
    /// A file that a person edits, such as the extlinux.conf of a Jetson, or a directory of entries.
    ByHand {
        /// The file or directory.
        path: String,
    },
    /// None of these.
    Unknown,
}

/// Files with parameters that a person edits, with what they are added to and how the sentence ends.
const BY_HAND: [(&str, &str, &str); 6] = [
    (
        "/etc/NIXOS",
        "boot.kernelParams of the configuration of NixOS, each in quotes",
        ". Then run: nixos-rebuild boot",
    ),
    (
        "/etc/default/u-boot",
        "U_BOOT_PARAMETERS in /etc/default/u-boot",
        ". Then run: u-boot-update",
    ),
    ("/boot/armbianEnv.txt", "extraargs in /boot/armbianEnv.txt", ""),
    ("/boot/orangepiEnv.txt", "extraargs in /boot/orangepiEnv.txt", ""),
    ("/boot/uEnv.txt", "cmdline in /boot/uEnv.txt", ""),
    (
        "/boot/extlinux/extlinux.conf",
        "the APPEND line of the label in use in /boot/extlinux/extlinux.conf",
        "",
    ),
];

/// Where Raspberry Pi OS and its derivatives keep the line.
const CMDLINE_TXT: [(&str, &str); 2] = [
    ("/boot/firmware/cmdline.txt", "/boot/firmware/config.txt"),
    ("/boot/cmdline.txt", "/boot/config.txt"),
];

/// Where entries of systemd-boot are.
const ENTRIES: [&str; 3] =
    ["/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"];

/// The texts of the files in a directory.
fn texts(files: &EtcFiles, directory: &str) -> Vec<String> {
    let read = |name: String| files.read(&format!("{directory}/{name}")).ok().flatten();
    files.names(directory).into_iter().filter_map(read).collect()
}

/// Whether a person wrote the entries in a directory, as on Arch: kernel-install, which would add
/// others beside them, writes the machine's number or the name of its plugin into each.
fn are_by_hand(files: &EtcFiles, directory: &str) -> bool {
    let is_its = |line: &str| line.starts_with("machine-id") || line.contains("kernel/install.d/");
    let texts = texts(files, directory);
    !texts.is_empty() && !texts.iter().any(|text| text.lines().any(is_its))
}

/// Whether mkinitcpio builds images with the kernel's command line in them. A machine whose entries
/// kernel-install writes has presets too.
fn has_unified_images(files: &EtcFiles) -> bool {
    let names_one = |line: &str| {
        let is_comment = line.trim_start().starts_with('#');
        !is_comment && ["_uki=", "_efi_image=", "--uki"].iter().any(|word| line.contains(word))
    };
    texts(files, "/etc/mkinitcpio.d").iter().any(|text| text.lines().any(names_one))
}

/// The options in the entry of the running kernel; `None` where they are in a variable of GRUB's.
fn words_of_entry(files: &EtcFiles) -> Option<Vec<String>> {
    let release = files.read("/proc/sys/kernel/osrelease").ok().flatten()?;
    let ending = format!("-{}.conf", release.trim());
    let name = files.names(ENTRIES[0]).into_iter().find(|name| name.ends_with(&ending))?;
    let text = files.read(&format!("{}/{name}", ENTRIES[0])).ok().flatten()?;
    let options = text.lines().find_map(|line| line.strip_prefix("options "))?;
    // Others, as that of TuneD, are not grubby's to change.
    let words = options.split_whitespace().filter(|word| !word.starts_with("$tuned_"));
    let words: Vec<String> = words.map(str::to_owned).collect();
    (!words.iter().any(|word| word.starts_with('$'))).then_some(words)
}

/// The options that kernelstub writes into its entries.
fn words_of_kernelstub(files: &EtcFiles) -> Option<Vec<String>> {
    let text = files.read("/etc/kernelstub/configuration").ok().flatten()?;
    let configuration: serde_json::Value = serde_json::from_str(&text).ok()?;
    let words = configuration.pointer("/user/kernel_options")?.as_array()?;
    Some(words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect())
}

impl BootLoader {
    /// Finds out what starts the kernel, from files.
    pub(super) fn detect(files: &EtcFiles) -> Self {
        let has = |path: &str| files.exists(path);
        if let Some((path, _)) = CMDLINE_TXT.iter().find(|(line, config)| has(line) && has(config))
        {
            return Self::RaspberryPi { path: (*path).to_owned() };
        }
        if has("/run/ostree-booted") {
            return Self::Ostree;
        }
        // NixOS writes the entries of every boot loader itself; GRUB may have left-overs of others.
        let is_grub = has("/etc/default/grub") || has("/boot/grub") || has("/boot/grub2");
        let is_edited = |path: &str| has(path) && (path == "/etc/NIXOS" || !is_grub);
        if let Some((path, ..)) = BY_HAND.iter().find(|(path, ..)| is_edited(path)) {
            return Self::ByHand { path: (*path).to_owned() };
        }

        if has("/etc/kernelstub/configuration") && !has("/etc/default/grub") {
            return Self::Kernelstub;
        }

        let entries = ENTRIES.iter().find(|path| has(path));
        let has_grubby = has("/usr/sbin/grubby") || has("/sbin/grubby") || has("/usr/bin/grubby");
        match (has("/etc/default/grub"), entries) {
            (true, _) if has("/etc/debian_version") => Self::GrubDropIn,
            // Its GRUB reads no drop-ins.
            (true, _) if has_grubby => Self::Grubby,
            (true, _) if has("/etc/default/grub.d") => Self::GrubDropIn,
            (true, _) if has("/boot/grub") || has("/boot/grub2") => Self::GrubFile,
            _ if has("/etc/kernel/cmdline") && has_unified_images(files) => Self::Mkinitcpio,
            _ if has("/etc/kernel/cmdline") => Self::KernelInstall,
            (_, Some(path)) if are_by_hand(files, path) => {
                Self::ByHand { path: (*path).to_owned() }
            }
            (_, Some(_)) => Self::KernelInstall,
            (true, None) => Self::GrubFile,
            (false, None) => Self::Unknown,
        }
    }

    /// The file with one kernel command line that is merged by key.
    pub(super) fn line_file(&self) -> Option<&str> {
        match self {
            Self::KernelInstall | Self::Mkinitcpio => Some("/etc/kernel/cmdline"),
            Self::RaspberryPi { path } => Some(path),
            _ => None,
        }
    }

    /// Whether parameters are in no file that onbeat writes: commands replace those of others.
    pub(super) const fn is_edited_by_commands(&self) -> bool {
        matches!(self, Self::Grubby | Self::Ostree | Self::Kernelstub)
    }

    /// The parameters of the next boot where a file has them, otherwise the running kernel's.
    pub(super) fn words(&self, files: &EtcFiles) -> Vec<String> {
        let found = match self {
            Self::Grubby => words_of_entry(files),
            Self::Kernelstub => words_of_kernelstub(files),
            _ => None,
        };
        let running = || {
            let line = files.read("/proc/cmdline").ok().flatten().unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let words = found.unwrap_or_else(running).into_iter();
        // What follows belongs to init.
        words.take_while(|word| word != "--").collect()
    }

    /// Commands that bring parameters into effect at the next boot, in place of others of the same
    /// names; or the others in their place.
    pub(super) fn commands(
        &self,
        parameters: &[String],
        others: &[String],
        direction: ParameterEdit,
    ) -> Vec<FollowUp> {
        let why = "writes the boot entries; the next boot uses them";
        let without = |words: &[String], known: &[String]| -> Vec<String> {
            words.iter().filter(|word| !known.contains(word)).cloned().collect()
        };
        let displaced = without(others, parameters);
        let (added, removed) = match direction {
            ParameterEdit::In => (parameters.to_vec(), displaced),
            ParameterEdit::Out => (displaced, without(parameters, others)),
        };
        let edit = |program: &[&str], options: Vec<String>| -> Vec<FollowUp> {
            let mut command = FollowUp::new(program, why);
            let is_edit = !options.is_empty();
            command.command.extend(options);
            is_edit.then_some(command).into_iter().collect()
        };
        let joined = |option: &str, words: &[String]| {
            (!words.is_empty()).then(|| format!("{option}={}", words.join(" ")))
        };
        match self {
            _ if parameters.is_empty() => Vec::new(),
            Self::GrubDropIn => vec![FollowUp::new(&["update-grub"], why)],
            Self::KernelInstall => {
                let older = "before systemd 256: kernel-install add VERSION IMAGE for each kernel";
                let why = format!("{why}; {older}");
                vec![FollowUp::new(&["kernel-install", "add-all"], &why)]
            }
            Self::Mkinitcpio => {
                let why = "builds the images with the line in them; the next boot uses them";
                vec![FollowUp::new(&["mkinitcpio", "-P"], why)]
            }
            Self::Grubby => {
                let options = [joined("--remove-args", &removed), joined("--args", &added)];
                edit(&["grubby", "--update-kernel=ALL"], options.into_iter().flatten().collect())
            }
            Self::Kernelstub => {
                let options =
                    [joined("--delete-options", &removed), joined("--add-options", &added)];
                edit(&["kernelstub"], options.into_iter().flatten().collect())
            }
            Self::Ostree => {
                let removed = removed.iter().map(|word| format!("--delete-if-present={word}"));
                let added = added.iter().map(|word| format!("--append-if-missing={word}"));
                edit(&["rpm-ostree", "kargs"], removed.chain(added).collect())
            }
            Self::GrubFile | Self::RaspberryPi { .. } | Self::ByHand { .. } | Self::Unknown => {
                Vec::new()
            }
        }
    }

    /// Returns how to boot without the persisted parameters, should the machine not start with
    /// them.
    #[must_use]
    pub const fn fallback(&self) -> Option<&'static str> {
        match self {
            Self::GrubDropIn => Some(
                "In GRUB's menu, choose an entry with (recovery mode): it boots without these parameters.",
            ),
            Self::Grubby | Self::GrubFile => Some(
                "In GRUB's menu, press e and delete these parameters from the line that begins with linux.",
            ),
            Self::Ostree => Some("In the boot menu, choose the previous deployment."),
            Self::KernelInstall | Self::Mkinitcpio => Some(
                "In the menu of systemd-boot, press e and delete what is between onbeat.begin and onbeat.end.",
            ),
            Self::Kernelstub => {
                Some("In the menu of systemd-boot, press e and delete these parameters.")
            }
            Self::RaspberryPi { .. } => Some(
                "Read the card in another computer and delete what is between onbeat.begin and onbeat.end in cmdline.txt.",
            ),
            Self::ByHand { .. } | Self::Unknown => None,
        }
    }

    /// What a person takes out again, of parameters that a person has added.
    pub(super) fn by_hand_out(&self, parameters: &[&str]) -> Option<String> {
        let is_by_hand = matches!(self, Self::GrubFile | Self::ByHand { .. } | Self::Unknown);
        let line = parameters.join(" ");
        (is_by_hand && !line.is_empty())
            .then(|| format!("Delete these kernel parameters where you added them by hand: {line}"))
    }

    /// What a person does where nothing else can be done.
    pub(super) fn by_hand(&self, parameters: &[String]) -> Option<String> {
        let line = parameters.join(" ");
        match self {
            _ if parameters.is_empty() => None,
            Self::GrubFile => Some(format!(
                "Add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {line}. Then run: grub-mkconfig -o /boot/grub/grub.cfg \
                 (openSUSE: grub2-mkconfig -o /boot/grub2/grub.cfg)"
            )),
            Self::ByHand { path } if ENTRIES.contains(&path.as_str()) => {
                Some(format!("Add to the options line of the entry in use in {path}: {line}"))
            }
            Self::ByHand { path } => {
                let (_, place, then) = BY_HAND.iter().find(|(known, ..)| known == path)?;
                Some(format!("Add to {place}: {line}{then}"))
            }
            Self::Unknown => Some(format!(
                "The boot loader was not recognised. Add to the kernel command line where yours keeps it: {line}"
            )),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum ParameterEdit {
    In,
    Out,
}

/// The drop-in for GRUB: a piece of shell that `grub-mkconfig` reads.
///
/// Parameters of the same names are taken out of the user's lines while GRUB's entries are written;
/// the user's files stay as they are.
pub(super) fn grub_drop_in(parameters: &[String]) -> String {
    // The kernel reads `-` and `_` alike.
    let pattern = |parameter: &String| {
        let name = name_of(parameter).replace('_', "[-_]");
        format!("{name}|{name}=*")
    };
    let names: Vec<String> = parameters.iter().map(pattern).collect();

    format!(
        "{head}
onbeat_without_own() {{
    set -f
    for onbeat_word in $1; do
        case \"$onbeat_word\" in
            {names}) ;;
            *) printf '%s ' \"$onbeat_word\" ;;
        esac
    done
}}
GRUB_CMDLINE_LINUX=\"$(onbeat_without_own \"$GRUB_CMDLINE_LINUX\")\"
GRUB_CMDLINE_LINUX_DEFAULT=\"$(onbeat_without_own \"$GRUB_CMDLINE_LINUX_DEFAULT\"){line}\"
unset -f onbeat_without_own
",
        head = super::drop_ins::HEAD,
        names = names.join("|"),
        line = parameters.join(" "),
    )
}
