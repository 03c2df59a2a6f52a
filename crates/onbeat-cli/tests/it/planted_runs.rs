//! Root in the directory of another user who has prepared `onbeat-runs`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// An ordinary user.
const USER: u32 = 65_534;

fn import(in_directory: &Path, more: &[&str]) -> Output {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../onbeat/tests/import_files/cyclictest.json");
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .arg("import")
        .arg(file)
        .args(more)
        .current_dir(in_directory)
        .env_remove("SUDO_UID")
        .output()
        .unwrap()
}

#[test]
fn root_follows_no_link_that_a_user_has_planted_and_writes_into_no_directory_of_a_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root has more rights than the user who plants the link");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (of_root, of_user) = (scratch.path().join("root"), scratch.path().join("user"));
    fs::create_dir(&of_root).unwrap();
    fs::create_dir(&of_user).unwrap();
    chown(&of_user, Some(USER), Some(USER)).unwrap();
    let usual = of_user.join("onbeat-runs");
    symlink(&of_root, &usual).unwrap();
    std::os::unix::fs::lchown(&usual, Some(USER), Some(USER)).unwrap();

    let refused = |more: &[&str], because: &str| {
        let ran = import(&of_user, more);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(because) && said.contains("--out"), "{said}");
        assert_eq!(fs::read_dir(&of_root).unwrap().count(), 0, "nothing was written");
    };
    refused(&[], "is a link");
    let by_its_path = usual.display().to_string();
    refused(&["--out", &by_its_path], "belongs to user 65534");

    fs::remove_file(&usual).unwrap();
    fs::create_dir(&usual).unwrap();
    chown(&usual, Some(USER), Some(USER)).unwrap();
    refused(&[], "belongs to user 65534");

    let named = of_root.display().to_string();
    let ran = import(&of_user, &["--out", &named]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(of_root.join("latest").is_symlink());
}
