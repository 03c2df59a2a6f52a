//! Completion in the shells themselves: each reads its script and completes a line.
//!
//! A missing shell is reported with its skipped trial, which the built-in harness cannot do.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::Trial;

/// Command lines whose last word is completed, words that must be offered, and words that must not.
const COMPLETIONS: [(&str, &[&str], &[&str]); 16] = [
    ("onbeat ", &["bench", "measure", "help"], &["cell", "generate"]),
    ("onbeat help meas", &["measure"], &["bench"]),
    ("onbeat load --", &["--for", "--dir"], &["--supervised"]),
    ("onbeat inject --", &["--placebo"], &["--carried"]),
    ("onbeat bench --loads idle,pa", &["idle,paper"], &["idle,cpu"]),
    ("onbeat bench --tunings none,PM", &["none,PM", "none,PMCS"], &["none,C"]),
    ("onbeat bench --on-overrun s", &["skip", "stop"], &["catch-up="]),
    ("onbeat inject page", &["page-faults"], &["stop-signal"]),
    ("onbeat measure timer --wait ad", &["adaptive"], &["sleep"]),
    ("onbeat robot run humanoid --trajectory ", &["gait", "commander"], &["walk"]),
    ("onbeat segment fault po", &["power-off"], &["lose"]),
    ("onbeat tune check irq.", &["irq.affinity", "irq.managed"], &["idle.pm_qos"]),
    ("onbeat tune apply mem.sw", &["mem.swappiness"], &["irq.affinity"]),
    ("onbeat tune plan --profile ", &["robot-1k", "vm-guest"], &["walk"]),
    (
        "onbeat report ",
        &["onbeat-runs/latest", "onbeat-runs/2026-11-22T09-56-27Z"],
        &["onbeat-runs/empty"],
    ),
    ("onbeat gate onbeat-runs/2", &["onbeat-runs/2026-11-22T09-56-27Z"], &["onbeat-runs/latest"]),
];

/// Calls the function that the script registers as bash would, with `$1` the script and `$2` the
/// line.
const BASH: &str = r#"
source "$1"
[[ "$(complete -p onbeat)" == *"-F _clap_complete_onbeat onbeat" ]] || exit 1
read -ra COMP_WORDS <<<"$2"
[[ "$2" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_TYPE=9
_clap_complete_onbeat onbeat "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// The same for zsh, which loads the script as a function from a directory of functions, with
/// stand-ins for what its own completion system defines.
const ZSH: &str = r#"
compdef() { : }
_describe() { print -rl -- ${(P)3} }
fpath=("${1:h}" $fpath)
autoload -Uz _onbeat
words=(${(z)2})
[[ "$2" == *" " ]] && words+=("")
CURRENT=${#words}
_onbeat
print -- again
_onbeat
"#;

const FISH: &str = "source $argv[1]; complete -C $argv[2]";

struct Shell {
    program: &'static str,
    options: &'static [&'static str],
    script: &'static str,
    file: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        program: "bash",
        options: &["--norc", "--noprofile", "-c"],
        script: BASH,
        file: "onbeat.bash",
    },
    Shell { program: "zsh", options: &["-f", "-c"], script: ZSH, file: "_onbeat" },
    Shell { program: "fish", options: &["--no-config", "-c"], script: FISH, file: "onbeat.fish" },
];

pub(crate) fn trials() -> Vec<Trial> {
    let trials = SHELLS.iter().map(|shell| {
        let name = format!("completion::{}_completes_words_and_runs", shell.program);
        if is_installed(shell.program) {
            return Trial::test(name, move || completes(shell).map_err(Into::into));
        }
        let reason = format!("skipped: {} is not installed", shell.program);
        Trial::test(name, || Ok(())).with_kind(reason).with_ignored_flag(true)
    });
    trials.collect()
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn completes(shell: &Shell) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let scripts = generated(dir.path());
    let work = dir.path().join("work");
    runs(&work);

    for (line, offered, not_offered) in COMPLETIONS {
        let answer = ask(shell, &scripts.join(shell.file), line, &work);
        // Descriptions stand behind a tab or a colon.
        let words: Vec<&str> =
            answer.lines().map(|line| line.split(['\t', ':']).next().unwrap_or(line)).collect();
        for word in offered {
            let found = words
                .iter()
                .filter(|found| *found == word || found.strip_suffix('/') == Some(word))
                .count();
            if found == 0 {
                return Err(format!("`{line}` does not offer {word}: {words:?}"));
            }
        }

        if let Some(word) = not_offered.iter().find(|word| words.contains(word)) {
            return Err(format!("`{line}` offers {word}: {words:?}"));
        }
    }

    Ok(())
}

fn generated(dir: &Path) -> PathBuf {
    let status =
        Command::new(env!("CARGO_BIN_EXE_onbeat")).arg("generate").arg(dir).status().unwrap();
    assert!(status.success());
    dir.join("completions")
}

/// Creates a working directory with a run, `latest`, and a directory without one.
fn runs(work: &Path) {
    let run = work.join("onbeat-runs/2026-11-22T09-56-27Z");
    fs::create_dir_all(&run).unwrap();
    fs::create_dir_all(work.join("onbeat-runs/empty")).unwrap();
    fs::write(run.join("bench.onbeat.hlog"), "").unwrap();
    symlink("2026-11-22T09-56-27Z", work.join("onbeat-runs/latest")).unwrap();
}

fn ask(shell: &Shell, script: &Path, line: &str, work: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_onbeat")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell.program);
    command.args(shell.options).arg(shell.script);
    // To bash and zsh the word behind a script is its name.
    if shell.program != "fish" {
        command.arg(shell.program);
    }

    let output = command
        .arg(script)
        .arg(line)
        .current_dir(work)
        .env("PATH", path)
        .env("HOME", work)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} on `{line}`: {} {said}", shell.program, output.status);
    String::from_utf8(output.stdout).unwrap()
}
