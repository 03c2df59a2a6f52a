#!/bin/sh
# Times onbeat.load on a log of a million messages of 128 bytes. usage: load_speed.sh
set -eu

cd "$(dirname "$0")/../.."
python=target/interop-venv/bin/python
if ! "$python" -c "import numpy, lz4.frame, mcap" 2>/dev/null; then
    python3 -m venv target/interop-venv
    "$python" -m pip install -q -r tests/interop/requirements.txt
fi
mkdir -p target/interop-java
javac --release 8 -Xlint:-options -d target/interop-java java/src/main/java/onbeat/*.java

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${CARGO:-cargo}" run --release --locked -q -p onbeat-gateway --example many_messages -- "$folder/million.mcap" 1000000
PYTHONPATH=python/src "$python" tests/interop/load_speed.py "$folder/million.mcap" "$PWD/target/interop-java"
