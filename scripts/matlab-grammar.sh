#!/bin/sh
# Checks the .m files against MATLAB's grammar by MISS_HIT, a program of its own (GPL), in a virtual environment below target/.
set -eu

version=0.9.44
tools=target/matlab-venv
if ! "$tools/bin/mh_lint" --version 2>/dev/null | grep -q "$version"; then
    python3 -m venv "$tools" || { echo "matlab: ignored: python3 with venv is not installed (package python3-venv)"; exit 0; }
    "$tools/bin/pip" install -q "miss_hit==$version" || { echo "matlab: ignored: MISS_HIT cannot be installed: no network"; exit 0; }
fi
# An error of grammar is status 1; remarks on style are not.
"$tools/bin/mh_lint" --matlab 2021a --brief octave examples tests/clients tests/interop
