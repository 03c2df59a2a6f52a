//! The files of examples/fleet, read by the programs they are for. No scheduler runs them here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Python, equipped, root, said};

/// What is wrong with each file of a folder.
type Faults = BTreeMap<String, Vec<String>>;

/// Python with the schemas and Ansible, put in place once.
fn checker() -> Result<&'static PathBuf, String> {
    static CHECKER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let imports = "import yaml, kubernetes_validate, check_jsonschema, ansible";
    let checker = CHECKER.get_or_init(|| equipped("fleet-examples-venv", "examples.txt", imports));
    checker.as_ref().map_err(Clone::clone)
}

fn checked(python: &Python, folder: &Path) -> Result<Faults, String> {
    let onbeat = Path::new(env!("CARGO_BIN_EXE_onbeat-fleet")).with_file_name("onbeat");
    if !onbeat.is_file() {
        return Err(format!(
            "{} is not built; cargo build -p onbeat-cli builds it",
            onbeat.display()
        ));
    }
    let mut check = Command::new(checker()?);
    // Questions are asked of the environment that has DuckDB.
    let check = python.set(&mut check).env("ONBEAT", onbeat);
    let output = check.arg(root().join("tests/fleet/examples.py")).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

pub(super) fn are_valid(python: &Python) -> Result<(), String> {
    let found = checked(python, &root().join("examples/fleet"))?;
    assert!(found.len() >= 5, "{found:?}");
    assert!(found.values().all(Vec::is_empty), "{found:#?}");
    Ok(())
}

pub(super) fn mistakes_are_found(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for (number, (file, right, wrong, why)) in [
        ("slurm-array.sh", "set -eu", "if set -eu", "bash ended with 2"),
        ("slurm-array.sh", "fleet add", "fleet adds", "refused: onbeat fleet adds"),
        ("kubernetes-job.yaml", "parallelism: 20", "parallelism: many", "ValidationError"),
        ("kubernetes-job.yaml", "completions: 20", "completion: 20", "ValidationError"),
        ("kubernetes-job.yaml", "--tunings", "--tuning-set", "refused: onbeat bench"),
        (
            "kubernetes-daemonset.yaml",
            "kind: DaemonSet",
            "kind: DaemonSet\nkind: Job",
            "a key is there twice",
        ),
        ("kubernetes-daemonset.yaml", "done", "don", "bash ended with 2"),
        ("ansible.yml", "become: true", "becomes: true", "ansible-playbook ended with"),
        (
            "ansible.yml",
            "ansible.builtin.apt",
            "ansible.builtin.apd",
            "ansible-playbook ended with",
        ),
        ("ci-matrix.yml", "needs: measure", "need: measure", "check-jsonschema ended with"),
        ("ci-matrix.yml", "--limit 100us", "--limit 100", "refused: onbeat fleet gate"),
        ("ci-matrix.yml", "--at 99.9", "--as 99.9", "has no --as"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = fs::read_to_string(root().join("examples/fleet").join(file)).unwrap();
        assert!(text.contains(right), "{file}: {right}");
        // Its kind is told by how its name begins and ends.
        let (stem, ending) = file.split_once('.').unwrap();
        let name = format!("{stem}-{number}.{ending}");
        fs::write(dir.path().join(&name), text.replacen(right, wrong, 1)).unwrap();
        expected.push((name, why));
    }
    fs::write(dir.path().join("nomad.hcl"), "").unwrap();
    expected.push(("nomad.hcl".to_owned(), "no program reads files of this kind"));
    let found = checked(python, dir.path())?;
    for (name, why) in expected {
        assert!(found[&name].iter().any(|fault| fault.contains(why)), "{name}: {:?}", found[&name]);
    }
    Ok(())
}
