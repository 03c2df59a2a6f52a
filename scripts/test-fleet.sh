#!/bin/sh
# The questions of `onbeat fleet` on DuckDB and on Apache Spark, whose rows must be equal, and what they take over 10,000 and 100,000 runs; alert
# rules by promtool. Packages of Python are installed below target/. Minutes.
set -eu

cd "$(dirname "$0")/.."
place=$PWD/target/fleet-spark-venv
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
cargo=${CARGO:-cargo}

"$cargo" build --release --locked -p onbeat-fleet --bins --example synthetic_runs
built=${CARGO_TARGET_DIR:-target}/release
python3 -m venv "$place"
"$place/bin/pip" install -q -r tests/fleet/requirements.txt
export PYTHONPATH="$PWD/python/src"

"$built/examples/synthetic_runs" "$data/runs" 200 40
"$built/onbeat-fleet" add "$data"/runs/* --to "$data/fleet"
"$built/onbeat-fleet" pack "$data/fleet"
"$place/bin/python" tests/fleet/planted.py make "$data/10000" 400 25 >/dev/null
echo "10,000 runs:  $("$place/bin/python" tests/fleet/planted.py time "$data/10000")"
"$place/bin/python" tests/fleet/planted.py make "$data/100000" 4000 25 >/dev/null
echo "100,000 runs: $("$place/bin/python" tests/fleet/planted.py time "$data/100000")"

if command -v java >/dev/null 2>&1; then
    "$place/bin/pip" install -q "pyspark>=4,<5"
    for fleet in "$data/fleet" "$data/10000"; do
        SPARK_LOCAL_IP=127.0.0.1 "$place/bin/python" tests/fleet/spark_equal.py "$fleet" 2>"$data/spark" || { tail -n 20 "$data/spark"; exit 1; }
    done
else
    echo "skipped: Apache Spark needs java (package default-jre-headless)"
fi

if command -v promtool >/dev/null 2>&1; then
    promtool test rules packaging/prometheus/onbeat.rules.test.yml
else
    echo "skipped: promtool is not installed (package prometheus)"
fi
