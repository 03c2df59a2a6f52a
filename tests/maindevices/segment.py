"""The simulated devices beside a MainDevice, on a pair of interfaces."""

import contextlib
import json
import os
import signal
import subprocess
import sys

INTERFACE, FAR_END = "ecat0", "ecat0b"


def result_alone():
    """Keeps standard output for the result, a line of JSON; gives the function that writes it.

    What a library in C prints goes to standard error from here on. It prints into a buffer of its own, which may be written at any
    moment until the process has ended: in the middle of the result or behind it, where both share a stream.
    """
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(result):
        print(json.dumps(result), file=stream, flush=True)

    return write


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
