"""Run files: figures by `onbeat report`, buckets by `onbeat export`."""

import io
import os
import subprocess
from typing import TYPE_CHECKING

from .program import ProgramError, call, program, reason
from .summary import Summary

if TYPE_CHECKING:
    import pandas


class Run(Summary):
    """A run directory or a run file. The summary's keys are attributes: `run.cells`, `run.verdict`."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        super().__init__(call(["report", self.path, "--json"]))

    def buckets(self) -> "pandas.DataFrame":
        """Returns every bucket of every interval as a table, with units in the names of its columns. Needs pandas."""
        import pandas

        words = [program(), "export", self.path, "--csv", "-"]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode != 0:
            raise ProgramError(f"onbeat export: {reason(done.stderr, f'exit status {done.returncode}')}")
        return pandas.read_csv(io.BytesIO(done.stdout))
