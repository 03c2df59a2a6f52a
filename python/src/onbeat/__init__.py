"""Client of onbeat: cycles of a running robot, run files, measurements.

- `onbeat.ring.open("walker/cycle")`: every cycle of a running robot, as numpy arrays
- `onbeat.camera.open("left")`: pictures of a running camera, as numpy arrays without a copy
- `onbeat.robot.Commander("walker")`: commands joints of a running robot
- `onbeat.connect("robot.local", key="robot.key")`: a robot of another computer, or of this one
- `onbeat.subscribe("udpm://…", "PLAN", type=…)`, `onbeat.publish("planner/plan", {…}, type=…)`: LCM, ZeroMQ, ROS 2
- `onbeat.load("walk.mcap")`: a log, as numpy arrays
- `onbeat.Run("onbeat-runs/latest")`: the figures of a run
- `onbeat.bench()`, `onbeat.measure()`: start the program, return its summary
"""

from . import camera, log, network, remote, ring, robot
from .errors import OnbeatError
from .log import Log, load
from .network import publish, subscribe
from .program import ProgramError, bench, measure
from .remote import connect
from .run import Run
from .summary import Summary

__all__ = [
    "Log",
    "OnbeatError",
    "ProgramError",
    "Run",
    "Summary",
    "bench",
    "camera",
    "connect",
    "load",
    "log",
    "measure",
    "network",
    "publish",
    "remote",
    "ring",
    "robot",
    "subscribe",
]
