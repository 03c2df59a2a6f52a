//! The Java side of the tests: built by Maven where it is not up to date.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Maven writes it last.
const CLASS_PATH: &str = "target/classpath";

/// Why the Java side is absent.
pub(crate) enum Missing {
    /// Not installed: nothing is tested.
    Tool(String),
    /// Installed, and the Java side cannot be built.
    Build(String),
}

/// Returns the class path of the Java side, built at most once per run of the tests.
pub(crate) fn class_path() -> Result<&'static str, &'static Missing> {
    static BUILT: OnceLock<Result<String, Missing>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Result<String, Missing> {
    installed("java", "default-jdk-headless")?;
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/java");
    if !is_up_to_date(&project) {
        installed("mvn", "maven")?;
        let offline = maven(&project, &["--offline"]);
        let built = if offline.status.success() { offline } else { maven(&project, &[]) };
        if !built.status.success() {
            return Err(Missing::Build(format!(
                "Maven cannot build {}:\n{}",
                project.display(),
                String::from_utf8_lossy(&built.stdout)
            )));
        }
    }

    let dependencies = std::fs::read_to_string(project.join(CLASS_PATH)).unwrap();
    Ok(format!("{}:{}", project.join("target/classes").display(), dependencies.trim()))
}

fn installed(tool: &str, package: &str) -> Result<(), Missing> {
    match Command::new(tool).arg("-version").output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Missing::Tool(format!("{tool} is not installed (package {package})"))),
    }
}

/// Whether the Java side was built after the last change of its sources, and its dependencies still
/// exist.
fn is_up_to_date(project: &Path) -> bool {
    let written = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let dependencies = std::fs::read_to_string(project.join(CLASS_PATH)).unwrap_or_default();
    let built = written(&project.join(CLASS_PATH));
    let sources = std::fs::read_dir(project.join("src/main/java/onbeat")).unwrap();
    let sources = sources.map(|entry| entry.unwrap().path());

    dependencies.trim().split(':').all(|jar| Path::new(jar).is_file())
        && sources.chain([project.join("pom.xml")]).all(|source: PathBuf| written(&source) < built)
}

/// Compiles and writes down where the dependency lies; no life cycle, and so no plug-ins but two.
fn maven(project: &Path, options: &[&str]) -> Output {
    let goals = [
        "compiler:compile",
        "dependency:build-classpath",
        &format!("-Dmdep.outputFile={CLASS_PATH}"),
    ];
    Command::new("mvn")
        .args(["-q", "-B"])
        .args(options)
        .args(goals)
        .current_dir(project)
        .output()
        .unwrap()
}
