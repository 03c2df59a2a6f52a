//! Judges what people configure, from its text alone: kernel command lines in all files that hold
//! them, sysctl and limits, systemd units, containers, QEMU and libvirt, TuneD, udev and modprobe.
//!
//! | file | contents |
//! |---|---|
//! | `kernel_parameters.toml` | the kernel parameters that are judged, and how they depend on each other |
//! | `kernel_parameter_names.txt` | the names of all others, to recognise misspelt ones |
//! | `dictionary` | the reader of both |
//! | [`finding`] | [`LintFinding`], [`LintVerdict`], [`LintReport`] |
//! | `correction` | replacements in the text, and the corrected text |
//! | [`LintSubject`] | what a text is, and how it is recognised |
//! | `kernel_line` | kernel command lines |
//! | `kernel_text` | where they stand in the files that hold them |
//! | `kernel_cpus` | lists of CPUs as the kernel reads them |
//! | `settings.toml`, `settings` | the settings of all other files that are judged |
//! | `config_files`, `containers`, `kubernetes` | files of lines; `docker run` and compose files; pods and nodes |
//! | `systemd_values` | values that systemd does not read |
//! | `modprobe` | options of modules |
//! | `ros` | parameters and launch files of ROS 2 |
//! | `shell_words` | words of a shell script with their positions |
//! | `qemu`, `qemu_command`, `qemu_memory` | command lines of QEMU |
//! | [`qemu_line`] | the options that a script would start QEMU with |
//! | `by_option` | the findings by option of QEMU |
//! | `libvirt`, `libvirt_cpus` | domain definitions of libvirt |
//!
//! The corrected text keeps what the author wrote as far as it has an effect. What does nothing is
//! removed, what is misspelt or removed from the programs is replaced, and what is missing is
//! added. A setting that works and is only discouraged stays, with its finding; so does what
//! depends on facts that the text does not hold. Every byte that is not judged stays, and where the
//! structure is not fully understood nothing is corrected ([`LintReport::refusal`]).
//!
//! Each piece is judged, known without a judgement, or unknown; [`LintReport::counts`] has all three.
//!
//! ```
//! use onbeat_tune::lint::{LintSubject, LintVerdict, lint};
//!
//! let report = lint("isolcpus=managed_irq,domain,4 rcu_nocbs=4 nohz_full=4", LintSubject::KernelLine)?;
//! let redundant = report.with_verdict(LintVerdict::Redundant).next().expect("a finding");
//! assert_eq!((redundant.text.as_str(), redundant.column), ("rcu_nocbs=4", 31));
//! assert_eq!(report.corrected, "isolcpus=managed_irq,domain,4 nohz_full=4");
//! # Ok::<(), onbeat_tune::lint::LintError>(())
//! ```
//!
//! Absent on purpose: reading files, running anything, and any judgement that the text does not
//! prove.

mod by_option;
mod config_files;
mod containers;
mod correction;
mod dictionary;
pub mod finding;
pub(crate) mod kernel_cpus;
mod kernel_line;
mod kernel_text;
mod kubernetes;
mod libvirt;
mod libvirt_cpus;
mod modprobe;
mod qemu;
mod qemu_command;
pub mod qemu_line;
mod qemu_memory;
mod ros;
mod settings;
mod shell_words;
mod subject;
mod systemd_values;
mod vocabulary;
mod yaml;

pub use by_option::{OptionVerdict, verdicts_by_option};
pub use finding::{LintCounts, LintFinding, LintReport, LintVerdict};
pub use vocabulary::LintSubject;

use correction::Draft;

/// Why a text cannot be judged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LintError {
    /// There is nothing in it.
    #[error(
        "nothing is in the text, or comments only. Give a kernel command line, a unit, a script that starts QEMU, or another file that configures a machine"
    )]
    Empty,
    /// It is larger than anything that a person writes.
    #[error("the text has more than {MOST_BYTES} bytes, which is the most that is judged")]
    TooLong,
    /// A program, a text in UTF-16, or a file that was damaged when the power failed.
    #[error(
        "line {line} has NUL bytes: it is a program, a text in UTF-16, or damaged. The command line of a UKI is \
         shown by ukify inspect"
    )]
    NotText {
        /// The first line with one, from 1.
        line: usize,
    },
    /// Nothing that is known here.
    #[error(
        "it is not clear what the text is: it begins with \"{begins}\". Read are kernel command lines (also of GRUB, extlinux, \
         systemd-boot, rEFInd, Limine, bootc, NixOS and Yocto), sysctl.d, limits.d, systemd units, docker run, compose files, pods, libvirt XML, QEMU \
         commands, TuneD profiles, udev rules, modprobe.d and the file of irqbalance; --as says which of them it is"
    )]
    NotRecognised {
        /// Its first words.
        begins: String,
    },
    /// A kind of file that is known and not judged.
    #[error("{kind} is not judged. {instead}")]
    NotJudged {
        /// What it is.
        kind: &'static str,
        /// What to give instead.
        instead: &'static str,
    },
    /// A boot loader's file without a kernel command line.
    #[error(
        "no kernel command line is in the {lines} lines; those of a boot loader may be in files of their own, \
         such as /boot/loader/entries"
    )]
    NoLine {
        /// Lines of the text.
        lines: usize,
    },
    /// A text without a command that starts a container.
    #[error("no command in the {lines} lines is docker run or podman run")]
    NoContainer {
        /// Lines of the text.
        lines: usize,
    },
    /// YAML beyond what is read.
    #[error("the YAML cannot be read: {what}")]
    Yaml {
        /// What is not read, and where.
        what: String,
    },
    /// A script without a command that starts QEMU.
    #[error(
        "no command in the {lines} lines starts QEMU. A command is recognised by a name such as qemu-system-x86_64"
    )]
    NoQemu {
        /// Lines of the script.
        lines: usize,
    },
    /// A quote that is not closed.
    #[error("line {line}, column {column}: the quote {quote} is not closed")]
    OpenQuote { line: usize, column: usize, quote: char },
    /// Not XML.
    #[error("not valid XML: {0}")]
    Xml(String),
    /// XML of another kind.
    #[error("the root element is <{found}>; a libvirt definition begins with <domain>")]
    NoDomain {
        /// The root element's name.
        found: String,
    },
}

/// The highest priority of a user's thread: above are only the kernel's own guards.
const HIGHEST_PRIORITY: u32 = 95;

/// The longest text that is judged, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// Only the kernel's form of arguments has NUL bytes.
fn check_nul(text: &str) -> Result<(), LintError> {
    let line = |at: usize| 1 + text[..at].matches('\n').count();
    text.find('\0').map_or(Ok(()), |at| Err(LintError::NotText { line: line(at) }))
}

/// Judges a text and corrects it.
///
/// # Errors
/// [`LintError`] for a text that is not what `subject` says.
///
/// ```
/// use onbeat_tune::lint::{LintSubject, lint};
///
/// let report = lint("isolcpus=2-3 nohz_ful=2-3", LintSubject::KernelLine)?;
/// let misspelt = report.findings.iter().find(|finding| finding.text == "nohz_ful=2-3");
/// assert!(misspelt.is_some());
/// # Ok::<(), onbeat_tune::lint::LintError>(())
/// ```
pub fn lint(text: &str, subject: LintSubject) -> Result<LintReport, LintError> {
    if text.trim().is_empty() {
        return Err(LintError::Empty);
    }
    if text.len() > MOST_BYTES {
        return Err(LintError::TooLong);
    }
    if subject != LintSubject::QemuArguments {
        check_nul(text)?;
    }

    let mut report = judge(text, subject)?;
    if report.corrected == text {
        if report.problems().next().is_some() {
            let why = "the text alone decides none of these changes";
            report.refusal.get_or_insert_with(|| why.to_owned());
        }
        return Ok(report);
    }

    // A correction has to pass its own judgement: nothing left to correct, and no problem that the
    // text did not have. What two corrections make equal takes a second round.
    let mut corrected = report.corrected.clone();
    for _ in 0..MOST_ROUNDS {
        let Ok(again) = judge(&corrected, subject) else { break };
        if again.corrected != corrected {
            corrected = again.corrected;
            continue;
        }
        if report.covers(&again) {
            return Ok(LintReport { corrected, ..report });
        }
        break;
    }
    let refusal = "the corrected text would not pass its own check".to_owned();
    Ok(LintReport { corrected: text.to_owned(), refusal: Some(refusal), ..report })
}

/// Rounds after which a correction has to be stable.
const MOST_ROUNDS: usize = 4;

/// Judges a text once.
fn judge(text: &str, subject: LintSubject) -> Result<LintReport, LintError> {
    let mut draft = Draft::new(text);
    match subject {
        LintSubject::KernelLine
        | LintSubject::KernelLines
        | LintSubject::GrubFile
        | LintSubject::GrubMenu
        | LintSubject::Extlinux
        | LintSubject::SystemdBootEntry
        | LintSubject::NixOptions
        | LintSubject::BuildVariables => kernel_line::judge(&mut draft, subject)?,
        LintSubject::Sysctl => config_files::judge_sysctl(&mut draft),
        LintSubject::Limits => config_files::judge_limits(&mut draft),
        LintSubject::SystemdUnit => config_files::judge_unit(&mut draft),
        LintSubject::TunedProfile => config_files::judge_tuned(&mut draft),
        LintSubject::UdevRules => config_files::judge_udev(&mut draft),
        LintSubject::ModprobeFile => modprobe::judge(&mut draft),
        LintSubject::NetworkFile => config_files::judge_network(&mut draft),
        LintSubject::Irqbalance => config_files::judge_irqbalance(&mut draft),
        LintSubject::RosParameters => ros::judge(&mut draft)?,
        LintSubject::ContainerCommand => containers::judge_run(&mut draft)?,
        LintSubject::ComposeFile => containers::judge_compose(&mut draft)?,
        LintSubject::KubernetesPod => kubernetes::judge(&mut draft)?,
        LintSubject::QemuScript => qemu::judge_script(&mut draft)?,
        LintSubject::QemuArguments => qemu::judge_arguments(&mut draft)?,
        LintSubject::LibvirtXml => libvirt::judge(&mut draft)?,
    }

    Ok(draft.into_report(subject))
}
