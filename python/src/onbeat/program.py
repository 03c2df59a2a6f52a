"""Starts the program onbeat and returns its summary."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence

from .errors import OnbeatError
from .summary import Summary


class ProgramError(OnbeatError):
    """The program is missing, or could not do what was asked. The text is its own."""

    code = "onbeat:program"


def program() -> str:
    """Returns the path of the program: the variable ONBEAT, else the one installed with this package, else the one in PATH."""
    found = os.environ.get("ONBEAT") or shutil.which("onbeat", path=sysconfig.get_path("scripts")) or shutil.which("onbeat")
    if found is None:
        raise ProgramError("the program onbeat is not in PATH; install it, or set the variable ONBEAT to its path")
    return found


def reason(said: bytes, otherwise: str) -> str:
    """Returns the sentence with which the program ended, from its standard error; what follows it is how to ask for help."""
    # Colours: CLICOLOR_FORCE of a CI asks for them.
    text = re.sub("\x1b\\[[0-9;]*m", "", said.decode(errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()] or [otherwise]
    sentences = [line for line in lines if re.match("(onbeat|error): ", line)] or lines
    return re.sub("^(onbeat|error): ", "", sentences[-1].strip())


def call(words: Sequence[str]) -> dict:
    """Runs a command that prints one JSON object. Its exit statuses 1 (FAIL) and 3 (INCONCLUSIVE) are results, not errors."""
    done = subprocess.run([program(), *words], capture_output=True, check=False)
    if not done.stdout.strip():
        raise ProgramError(f"onbeat {words[0]}: {reason(done.stderr, f'exit status {done.returncode}')}")
    return json.loads(done.stdout)


def _options(options: dict[str, object]) -> list[str]:
    """Options of the command line from named arguments: `limit_on="events=0"` is --limit-on events=0."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def bench(
    duration: str = "2m",
    tunings: Sequence[str] | None = None,
    loads: Sequence[str] | None = None,
    **options: object,
) -> Summary:
    """Runs `onbeat bench` and returns its summary.

    `duration` is the total time, such as "12m". Further options are those of the command line with underscores:
    `bench(limit="100us", at=99.99)`.
    """
    words = ["bench", "--json", "--for", duration]
    words += ["--tunings", ",".join(tunings)] if tunings else []
    words += ["--loads", ",".join(loads)] if loads else []
    return Summary(call(words + _options(options)))


def measure(probe: str = "timer", duration: str = "10s", **options: object) -> Summary:
    """Runs `onbeat measure PROBE` and returns its summary. Further options are those of the command line."""
    return Summary(call(["measure", probe, "--json", "--for", duration, *_options(options)]))
