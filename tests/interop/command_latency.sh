#!/bin/sh
# Times commands to a robot over the loopback, beside local ones in turns. usage: command_latency.sh ONBEAT [TURNS]
set -eu

cd "$(dirname "$0")/../.."
python=target/clients-venv/bin/python
if ! "$python" -c "import numpy" 2>/dev/null; then
    python3 -m venv target/clients-venv
    "$python" -m pip install -q numpy
fi
PYTHONPATH=python/src "$python" tests/interop/command_latency.py "$@"
