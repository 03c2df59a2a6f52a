"""Client of onbeat: cycles of a running robot, run files, measurements.

- `onbeat.ring.open("walker/cycle")`: every cycle of a running robot, as numpy arrays
- `onbeat.robot.Commander("walker")`: commands joints of a running robot
- `onbeat.Run("onbeat-runs/latest")`: the figures of a run
- `onbeat.bench()`, `onbeat.measure()`: start the program, return its summary
"""

from . import ring, robot
from .errors import OnbeatError
from .program import ProgramError, bench, measure
from .run import Run
from .summary import Summary

__all__ = ["OnbeatError", "ProgramError", "Run", "Summary", "bench", "measure", "ring", "robot"]
