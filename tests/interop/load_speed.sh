#!/bin/sh
# Times onbeat.load on a log of a million messages of /imu. usage: load_speed.sh [COUNT]
set -eu

cd "$(dirname "$0")/../.."
python=target/interop-venv/bin/python
if ! "$python" -c "import numpy, lz4.frame, zstandard, mcap, rosbags" 2>/dev/null; then
    python3 -m venv target/interop-venv
    "$python" -m pip install -q -r tests/interop/requirements.txt
fi
mkdir -p target/interop-java
javac --release 8 -Xlint:-options -d target/interop-java java/src/main/java/onbeat/*.java
jar=target/interop-jars/aircompressor-0.27.jar
[ -f "$jar" ] || mvn -q -B -f java/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/target/interop-jars"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PYTHONPATH=python/src "$python" tests/interop/load_speed.py "$folder" "$PWD/$jar:$PWD/target/interop-java" "$@"
