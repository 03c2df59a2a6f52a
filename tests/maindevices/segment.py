"""The simulated devices beside a MainDevice, on a pair of interfaces."""

import contextlib
import signal
import subprocess
import sys

INTERFACE, FAR_END = "ecat0", "ecat0b"


@contextlib.contextmanager
def running(onbeat, file):
    """A segment whose devices answer; yields a function that ends it and gives what it said."""
    command = [onbeat, "segment", "run", file, "--veth", INTERFACE]
    segment = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end():
        segment.send_signal(signal.SIGINT)
        return segment.communicate(timeout=10)[0].strip()

    try:
        for line in segment.stderr:
            if "answer on" in line:
                break
            print(line, end="", file=sys.stderr)
        else:
            sys.exit("the segment does not start")
        yield end
    finally:
        if segment.poll() is None:
            end()
