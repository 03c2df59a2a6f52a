//! A function of a running program by its name: in which file, where in it, and how its first
//! instruction is probed.
//!
//! Symbols come from the files that the process has mapped for execution, by the `object` crate;
//! names of C++ and Rust are demangled. A function that the compiler has put into its callers has no
//! symbol, and one whose file was stripped has none left.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use onbeat_host::foreign;

/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Names that are listed where one is not found, or is not enough.
const MOST_NAMES: usize = 6;

/// A function of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFound {
    /// Its name, demangled.
    pub name: String,
    /// The file, as seen from here.
    pub file: PathBuf,
    /// Where its probed instruction is in the file, in bytes.
    pub offset: u64,
    /// How that instruction is probed.
    pub first: FirstInstruction,
}

/// What the kernel does with a probed instruction (`arch/x86/kernel/uprobes.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstInstruction {
    /// `push`, or a `nop`: emulated.
    Emulated,
    /// Executed elsewhere with a single step, which raises another exception.
    SingleStepped,
}

/// Why a function is not found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SymbolError {
    #[error(
        "no function {name} in {files} files that the process executes{unread}: the compiler may have put it into its callers (mark it __attribute__((noinline))), or its file may be stripped{}", names_like(.near)
    )]
    Unknown { name: String, files: usize, unread: String, near: Vec<String> },
    #[error("{name} may be {} functions; name one in full: {}", .found.len(), .found.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", "))]
    Several { name: String, found: Vec<String> },
    #[error("the files of process {pid} are not known: {why}")]
    NoFiles { pid: i32, why: String },
}

fn names_like(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; names like it: {}", names.join(", ")) }
}

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    mangled: String,
    name: String,
    /// Its first bytes, at least those of one instruction.
    code: Vec<u8>,
    offset: u64,
}

/// Returns the function that `name` means: a mangled name, a demangled one with or without its
/// arguments, or the end of one from a `::` on, if only one function has it.
///
/// # Errors
/// [`SymbolError`].
pub fn find(pid: i32, name: &str) -> Result<FunctionFound, SymbolError> {
    let no_files = |why| SymbolError::NoFiles { pid, why };
    let files = executed_files(pid).map_err(|why| {
        no_files(match why.kind() {
            io::ErrorKind::NotFound => "it has ended".to_owned(),
            io::ErrorKind::PermissionDenied => format!("{why}; it takes CAP_SYS_PTRACE"),
            _ => why.to_string(),
        })
    })?;
    if files.is_empty() {
        return Err(no_files("none is mapped for execution".to_owned()));
    }
    let mut all = Vec::new();
    let mut unread = Vec::new();
    for file in &files {
        match foreign::read(file, MOST_BYTES).map(|bytes| functions_of(&bytes)) {
            Ok(functions) => all.extend(functions.into_iter().map(|function| (file, function))),
            Err(why) => unread.push(format!("{}: {why}", file.display())),
        }
    }
    let names: Vec<(&str, &str)> =
        all.iter().map(|(_, one)| (one.mangled.as_str(), one.name.as_str())).collect();
    let mut matches = matching(&names, name);
    // Libraries have functions of any name; the program's own is meant.
    let program = program_file(pid);
    if matches.len() > 1 && matches.iter().any(|at| Some(all[*at].0) == program.as_ref()) {
        matches.retain(|at| Some(all[*at].0) == program.as_ref());
    }
    let (file, function) = match matches.as_slice() {
        [] => {
            let near = near_names(&names, name);
            let unread = match unread.as_slice() {
                [] => String::new(),
                [first, ..] => format!(" ({} cannot be read, such as {first})", unread.len()),
            };
            let (name, files) = (name.to_owned(), files.len());
            return Err(SymbolError::Unknown { name, files, unread, near });
        }
        [one] => &all[*one],
        several => {
            let mut found: Vec<String> = several.iter().map(|at| all[*at].1.name.clone()).collect();
            found.sort();
            found.dedup();
            if found.len() == 1 {
                let place = |at: &usize| {
                    let (file, function) = &all[*at];
                    format!("{} at {:#x} of {}", function.name, function.offset, file.display())
                };
                found = several.iter().map(place).collect();
            }
            return Err(SymbolError::Several { name: name.to_owned(), found });
        }
    };
    let (skipped, first) = probed(&function.code);
    Ok(FunctionFound {
        name: function.name.clone(),
        file: (*file).clone(),
        offset: function.offset + skipped,
        first,
    })
}

/// The file of the program that a process executes.
fn program_file(pid: i32) -> Option<PathBuf> {
    let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let path = link.to_str()?.trim_end_matches(" (deleted)").trim_start_matches('/');
    Some(Path::new("/proc").join(pid.to_string()).join("root").join(path))
}

/// The files that a process has mapped for execution, by the paths of its own root directory.
fn executed_files(pid: i32) -> io::Result<Vec<PathBuf>> {
    let maps = onbeat_host::process::text(pid, "maps")?;
    let mut files = Vec::new();
    for line in maps.lines() {
        let Some(at) = line.find('/') else { continue };
        let is_executed = line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
        let path = line[at..].trim_end().trim_end_matches(" (deleted)");
        let path = Path::new("/proc").join(pid.to_string()).join("root").join(&path[1..]);
        if is_executed && !files.contains(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

fn functions_of(bytes: &[u8]) -> Vec<Function> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let mut by_address = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_function = symbol.kind() == SymbolKind::Text && symbol.address() != 0;
        if let (true, Ok(name)) = (is_function && symbol.is_definition(), symbol.name()) {
            by_address.entry(symbol.address()).or_insert_with(|| name.to_owned());
        }
    }
    let sections: Vec<_> = file.sections().collect();
    let function = |(address, mangled): (u64, String)| {
        let section = sections.iter().find(|section| {
            section.address() <= address && address < section.address() + section.size()
        })?;
        let (start, _) = section.file_range()?;
        let offset = address - section.address() + start;
        let at = usize::try_from(offset).ok()?;
        let code = bytes.get(at..(at + 16).min(bytes.len()))?.to_vec();
        let name = demangled(&mangled);
        Some(Function { mangled, name, code, offset })
    };
    by_address.into_iter().filter_map(function).collect()
}

/// Returns a name as its source has it.
fn demangled(name: &str) -> String {
    // `_ZN` may be C++, or Rust in its old form, whose hash at the end tells.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    // Its demangler takes a name of C for the code of a type: `h` is `unsigned char`.
    let mangled = name.starts_with("_Z").then_some(name);
    mangled
        .and_then(|name| cpp_demangle::Symbol::new(name).ok())
        .and_then(|symbol| symbol.demangle().ok())
        .unwrap_or_else(|| name.to_owned())
}

/// The name without its arguments: `ns::Loop::update(int) const` is `ns::Loop::update`.
fn without_arguments(name: &str) -> &str {
    let mut depth = 0_i32;
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            // `operator()` has brackets of its own.
            b'(' if depth == 0 && !name[..at].ends_with("operator") => return &name[..at],
            _ => {}
        }
    }
    name
}

/// Whether a name, mangled and as written, is the one that is meant.
type IsMeant<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Returns the places of the names that are meant: by the most exact of the ways that finds any.
fn matching(names: &[(&str, &str)], asked: &str) -> Vec<usize> {
    let ends = format!("::{asked}");
    let ways: [IsMeant<'_>; 4] = [
        &|mangled, _| mangled == asked,
        &|_, name| name == asked,
        &|_, name| without_arguments(name) == asked,
        &|_, name| name.ends_with(&ends) || without_arguments(name).ends_with(&ends),
    ];
    ways.iter()
        .map(|way| {
            let found = names.iter().enumerate();
            found.filter(|(_, (mangled, name))| way(mangled, name)).map(|(at, _)| at).collect()
        })
        .find(|found: &Vec<usize>| !found.is_empty())
        .unwrap_or_default()
}

/// Returns names that contain the last part of what was asked for, or are contained in it.
fn near_names(names: &[(&str, &str)], asked: &str) -> Vec<String> {
    let last = |name: &str| {
        let plain = without_arguments(name);
        plain.rsplit("::").next().unwrap_or(plain).to_lowercase()
    };
    let wanted = last(asked);
    let mut near: Vec<(usize, String)> = names
        .iter()
        .filter_map(|(_, name)| {
            let found = last(name);
            let is_near = found.len() > 2 && (found.contains(&wanted) || wanted.contains(&found));
            is_near.then(|| (found.len().abs_diff(wanted.len()), (*name).to_owned()))
        })
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(MOST_NAMES).map(|(_, name)| name).collect()
}

/// Returns how many bytes of a function's beginning are passed over, and how the instruction there is
/// probed: the marker of an indirect branch, `endbr64`, does nothing and is followed by the usual
/// `push`.
fn probed(code: &[u8]) -> (u64, FirstInstruction) {
    if !cfg!(target_arch = "x86_64") {
        return (0, FirstInstruction::SingleStepped);
    }
    let skipped = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    let first = match code.get(skipped..).unwrap_or_default() {
        // push, push of r8 to r15, nop, and nops of several bytes
        [0x50..=0x57 | 0x90, ..] | [0x41, 0x50..=0x57, ..] | [0x0f, 0x1f, ..] => {
            FirstInstruction::Emulated
        }
        [0x66, 0x90, ..] | [0x66, 0x0f, 0x1f, ..] => FirstInstruction::Emulated,
        _ => FirstInstruction::SingleStepped,
    };
    (skipped as u64, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(&str, &str); 5] = [
        ("main", "main"),
        ("_ZN3arm4Loop6updateEi", "arm::Loop::update(int)"),
        ("_ZN3arm4Loop6updateEd", "arm::Loop::update(double)"),
        ("_ZN4hand4Loop4readEv", "hand::Loop::read()"),
        ("_ZNK4hand4LoopclEv", "hand::Loop::operator()() const"),
    ];

    #[test]
    fn a_function_is_found_by_any_unambiguous_part_of_its_name() {
        assert_eq!(matching(&NAMES, "main"), [0]);
        assert_eq!(matching(&NAMES, "_ZN3arm4Loop6updateEi"), [1]);
        assert_eq!(matching(&NAMES, "arm::Loop::update(double)"), [2]);
        assert_eq!(matching(&NAMES, "arm::Loop::update"), [1, 2], "it is overloaded");
        assert_eq!(matching(&NAMES, "update(int)"), [1]);
        assert_eq!(matching(&NAMES, "Loop::read"), [3]);
        assert_eq!(matching(&NAMES, "hand::Loop::operator()"), [4]);
        assert_eq!(matching(&NAMES, "write"), Vec::<usize>::new());
    }

    #[test]
    fn names_like_it_are_told() {
        assert_eq!(near_names(&NAMES, "Loop::rea"), ["hand::Loop::read()"]);
        assert_eq!(near_names(&NAMES, "updated").len(), 2);
        let near = vec!["hand::Loop::read()".to_owned()];
        let (name, unread) = ("rea".to_owned(), " (1 cannot be read, such as /x: gone)".to_owned());
        let why = SymbolError::Unknown { name, files: 3, unread, near }.to_string();
        assert!(why.contains("executes (1 cannot be read, such as /x: gone): the"), "{why}");
        assert!(why.ends_with("names like it: hand::Loop::read()"), "{why}");
    }

    #[test]
    fn names_are_demangled_by_their_language() {
        assert_eq!(demangled("_ZN3arm4Loop6updateEi"), "arm::Loop::update(int)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(["main", "h", "i", "loop"].map(demangled), ["main", "h", "i", "loop"]);
    }

    #[test]
    fn the_marker_of_an_indirect_branch_is_passed_over() {
        use FirstInstruction::{Emulated, SingleStepped};
        if !cfg!(target_arch = "x86_64") {
            return println!("skipped: instructions of x86-64");
        }
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa];
        assert_eq!(probed(&[&endbr[..], &[0x55]].concat()), (4, Emulated));
        assert_eq!(probed(&[0x41, 0x57, 0x41]), (0, Emulated));
        assert_eq!(probed(&[0x48, 0x83, 0xec, 0x08]), (0, SingleStepped), "sub rsp, 8");
        assert_eq!(probed(&[&endbr[..], &[0xf2, 0x0f]].concat()), (4, SingleStepped));
        assert_eq!(probed(&[]), (0, SingleStepped));
    }

    #[test]
    fn this_program_has_its_own_functions() {
        let own = std::process::id().cast_signed();
        let found = find(own, "rust_eh_personality").unwrap();
        assert!(found.offset > 0 && found.file.exists());
        let why = find(own, "no_function_of_this_name").unwrap_err();
        assert!(matches!(why, SymbolError::Unknown { files: 1.., .. }), "{why}");
        let why = find(-5, "main").unwrap_err();
        assert!(matches!(why, SymbolError::NoFiles { pid: -5, .. }), "{why}");
    }
}
