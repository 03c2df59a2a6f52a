"""Reads files of examples/fleet as their programs do: what is wrong with them, a sentence each, as JSON.

usage: examples.py DIR

Kubernetes' objects by the schema of their version, strictly; Ansible's playbook by ansible-playbook; the CI matrix by the schema of workflows; shell scripts,
those within YAML too, by bash. Every command of onbeat in them runs with --help, which checks its options: ONBEAT is the program.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

KUBERNETES = "1.30"
BIN = Path(sys.executable).parent
# In the place of onbeat: what would be run is checked.
STUB = """#!/bin/sh
"$ONBEAT" "$@" --help >"$0.help" 2>&1 || { echo "refused: onbeat $*" >&2; cat "$0.help" >&2; echo x >>"$0.faults"; exit 2; }
for word; do
    case $word in --*) grep -q -- "$word" "$0.help" || { echo "onbeat $* has no $word" >&2; echo x >>"$0.faults"; exit 2; } ;; esac
done
echo x >>"$0.runs"
"""


class Strict(yaml.SafeLoader):
    """A key that is there twice is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(map(str, keys))):
            raise yaml.constructor.ConstructorError(None, None, f"a key is there twice: {sorted(map(str, keys))}", node.start_mark)
        return super().construct_mapping(node, deep)


def ran(*command, **more) -> list[str]:
    """What a program says against a file."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **more)
    return [] if done.returncode == 0 else [f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"]


def script(text: str, place: Path, *words: str) -> list[str]:
    """A script is read by bash, and its commands of onbeat are checked."""
    file = place / "script.sh"
    file.write_text(text, encoding="utf-8")
    stub = place / "onbeat"
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    faults = ran("bash", "-n", file)
    if faults or "onbeat " not in text:
        return faults
    names = {"PATH": f"{place}:{os.environ['PATH']}", "NODE": "node-1"}
    faults = ran("sh", "-e", file, *words, env=os.environ | names, cwd=place)
    if Path(f"{stub}.faults").exists() and not faults:
        faults = ["a command of onbeat is refused"]
    if not Path(f"{stub}.runs").exists():
        faults.append("it runs no command of onbeat")
    return faults


def kubernetes(text: str, place: Path) -> list[str]:
    faults = []
    for found in yaml.load_all(text, Strict):
        try:
            kubernetes_validate.validate(found, KUBERNETES, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as why:
            faults.append(f"{type(why).__name__}: {getattr(why, 'message', why)}")
            continue
        for container in found["spec"]["template"]["spec"]["containers"]:
            lines = "\n".join(container["args"])
            # A day of sleep is not waited for: bash reads it alone.
            faults += script(lines if "while :" not in lines else lines.replace("onbeat ", "onbeat-"), place)
    return faults


def workflow(text: str, place: Path) -> list[str]:
    file = place / "workflow.yml"
    file.write_text(text, encoding="utf-8")
    faults = ran(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", file)
    if not faults:
        for job in yaml.load(text, Strict)["jobs"].values():
            for step in job["steps"]:
                faults += script(step["run"], place)
    return faults


def ansible(text: str, place: Path) -> list[str]:
    yaml.load(text, Strict)
    file = place / "playbook.yml"
    file.write_text(text, encoding="utf-8")
    names = {"ANSIBLE_LOCAL_TEMP": str(place), "ANSIBLE_HOME": str(place), "LC_ALL": "C.UTF-8"}
    command = [BIN / "ansible-playbook", "--syntax-check", "-i", "robots,", file]
    return ran(*command, env=os.environ | names)


def faults_of(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        try:
            if file.suffix == ".sh":
                return script(text, place, "/shared/fleet")
            if file.name.startswith("kubernetes-"):
                return kubernetes(text, place)
            if file.name.startswith("ansible"):
                return ansible(text, place)
            if file.name.startswith("ci-"):
                return workflow(text, place)
        except yaml.YAMLError as why:
            return [re.sub(r"\s+", " ", str(why))]
    return ["no program reads files of this kind; add one to tests/fleet/examples.py"]


print(json.dumps({file.name: faults_of(file) for file in sorted(Path(sys.argv[1]).iterdir())}))
