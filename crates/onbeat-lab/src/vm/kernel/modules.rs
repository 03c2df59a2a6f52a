//! Modules of a kernel, and the order to load them in.
//!
//! Packages come without `modules.dep`, which `depmod` makes when a package is installed. Where it
//! is missing, the dependencies are read from the modules themselves (section `.modinfo`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{compression, image};

/// Why a module cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The kernel has no such module, neither as a file nor built in.
    #[error("no module {module}{}", needed_by.as_ref().map(|by| format!(", which {by} needs")).unwrap_or_default())]
    Missing {
        /// Its name, with underscores.
        module: String,
        /// The module that depends on it.
        needed_by: Option<String>,
    },
    /// A module's file cannot be read.
    #[error("cannot read module {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Modules depend on each other in a circle.
    #[error("modules depend on each other: {}", modules.join(" -> "))]
    Circle {
        /// The circle, with its first member again at the end.
        modules: Vec<String>,
    },
}

/// A module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Its file, uncompressed.
    pub content: Vec<u8>,
}

/// The modules of a kernel, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Modules {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    /// From `modules.dep`, when there is one.
    dependencies: Option<BTreeMap<String, Vec<String>>>,
}

impl Modules {
    /// Lists what is below `directory`, such as `lib/modules/6.12.117+deb12-rt-amd64`. A directory
    /// that does not exist has no modules.
    pub(super) fn list(directory: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        if !directory.is_dir() {
            return Ok(found);
        }

        collect(directory, &mut found.files)?;
        if let Some(text) = read_if_there(&directory.join("modules.builtin"))? {
            found.built_in = text.lines().map(name_of).collect();
        }
        found.dependencies =
            read_if_there(&directory.join("modules.dep"))?.map(|text| parse_dependencies(&text));
        Ok(found)
    }

    /// Whether `name` is a module or built into the kernel.
    pub(super) fn has(&self, name: &str) -> bool {
        let name = name_of(name);
        self.built_in.contains(&name) || self.files.contains_key(&name)
    }

    /// Returns the modules of these names and those they depend on, each after what it depends on,
    /// without those that are built in.
    pub(super) fn in_load_order(&self, names: &[&str]) -> Result<Vec<Module>, ModuleError> {
        let mut order = LoadOrder { modules: self, done: Vec::new(), path: Vec::new() };
        for name in names {
            order.add(&name_of(name))?;
        }

        Ok(order.done)
    }
}

struct LoadOrder<'m> {
    modules: &'m Modules,
    done: Vec<Module>,
    /// The modules on the way to the present one.
    path: Vec<String>,
}

impl LoadOrder<'_> {
    fn add(&mut self, name: &str) -> Result<(), ModuleError> {
        if self.modules.built_in.contains(name)
            || self.done.iter().any(|module| module.name == name)
        {
            return Ok(());
        }
        if let Some(first) = self.path.iter().position(|one| one == name) {
            let mut modules = self.path[first..].to_vec();
            modules.push(name.to_owned());
            return Err(ModuleError::Circle { modules });
        }

        let file = self.modules.files.get(name).ok_or_else(|| ModuleError::Missing {
            module: name.to_owned(),
            needed_by: self.path.last().cloned(),
        })?;
        let content = fs::read(file).and_then(|bytes| compression::decompress(&bytes));
        let content = content.map_err(|source| ModuleError::Read { path: file.clone(), source })?;

        let dependencies = match &self.modules.dependencies {
            Some(listed) => listed.get(name).cloned().unwrap_or_default(),
            None => stated_dependencies(&content),
        };
        self.path.push(name.to_owned());
        for dependency in dependencies {
            self.add(&dependency)?;
        }
        self.path.pop();

        self.done.push(Module { name: name.to_owned(), content });
        Ok(())
    }
}

/// The dependencies that a module states in its section `.modinfo`, as in
/// `depends=virtio_ring,virtio`.
fn stated_dependencies(module: &[u8]) -> Vec<String> {
    let information = image::section(module, ".modinfo").unwrap_or_default();
    let stated =
        information.split(|byte| *byte == 0).filter_map(|field| field.strip_prefix(b"depends="));
    let names = stated.flat_map(|list| list.split(|byte| *byte == b','));
    names
        .filter(|name| !name.is_empty())
        .map(|name| name_of(&String::from_utf8_lossy(name)))
        .collect()
}

/// Lines such as `kernel/a/b.ko: kernel/c.ko kernel/d.ko.xz`.
fn parse_dependencies(text: &str) -> BTreeMap<String, Vec<String>> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(module, needs)| (name_of(module), needs.split_whitespace().map(name_of).collect()))
        .collect()
}

/// The name of a module from its file's: without directories and endings, with underscores.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split_once(".ko").map_or(file, |(stem, _)| stem);
    stem.replace('-', "_")
}

fn collect(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() && name.contains(".ko") {
            files.insert(name_of(&name), entry.path());
        }
    }

    Ok(())
}

fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Writes the modules of this `modules.dep`, each with its name as content.
    pub(in super::super) fn write_modules(directory: &Path, listed: &str, built_in: &str) {
        let below = directory.join("kernel/drivers");
        fs::create_dir_all(&below).expect("directories");
        for (name, _) in parse_dependencies(listed) {
            fs::write(below.join(format!("{}.ko", name.replace('_', "-"))), name)
                .expect("a module");
        }
        fs::write(directory.join("modules.dep"), listed).expect("modules.dep");
        fs::write(directory.join("modules.builtin"), built_in).expect("modules.builtin");
    }

    fn modules(listed: &str, built_in: &str) -> (tempfile::TempDir, Modules) {
        let directory = tempfile::tempdir().expect("a directory");
        write_modules(directory.path(), listed, built_in);
        let modules = Modules::list(directory.path()).expect("a list");
        (directory, modules)
    }

    fn names(found: &[Module]) -> Vec<&str> {
        found.iter().map(|module| module.name.as_str()).collect()
    }

    const VIRTIO: &str = "kernel/virtio.ko:\n\
        kernel/virtio-ring.ko: kernel/virtio.ko\n\
        kernel/virtio_pci.ko.xz: kernel/virtio-ring.ko kernel/virtio.ko\n\
        kernel/virtio_console.ko: kernel/virtio.ko kernel/virtio-ring.ko\n";

    #[test]
    fn a_module_comes_after_what_it_depends_on_and_once() {
        let (_directory, modules) = modules(VIRTIO, "");
        let order = modules.in_load_order(&["virtio-pci", "virtio_console"]).expect("an order");
        assert_eq!(names(&order), ["virtio", "virtio_ring", "virtio_pci", "virtio_console"]);
        assert_eq!(order[0].content, b"virtio");
    }

    #[test]
    fn what_is_built_in_is_left_out() {
        let (_directory, modules) =
            modules(VIRTIO, "kernel/drivers/virtio/virtio-ring.ko\nkernel/virtio.ko\n");
        let order = modules.in_load_order(&["virtio_pci"]).expect("an order");
        assert_eq!(names(&order), ["virtio_pci"]);
        assert!(modules.has("virtio-ring"));
        assert!(!modules.has("virtio_rng"));
    }

    #[test]
    fn a_missing_module_is_named_with_the_one_that_needs_it() {
        let (_directory, modules) = modules("a.ko: b.ko\n", "");
        let missing = modules.in_load_order(&["a"]).expect_err("b is missing");
        assert_eq!(missing.to_string(), "no module b, which a needs");
        assert_eq!(
            modules.in_load_order(&["c"]).expect_err("c is missing").to_string(),
            "no module c"
        );
    }

    #[test]
    fn a_circle_is_reported_with_its_members() {
        let (_directory, modules) = modules("a.ko: b.ko\nb.ko: c.ko\nc.ko: b.ko\n", "");
        let circle = modules.in_load_order(&["a"]).expect_err("a circle");
        assert_eq!(circle.to_string(), "modules depend on each other: b -> c -> b");
    }

    #[test]
    fn a_kernel_without_a_directory_has_no_modules() {
        let modules = Modules::list(Path::new("/nonexistent")).expect("an empty list");
        assert!(!modules.has("virtio"));
    }
}
