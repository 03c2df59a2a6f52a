#!/bin/sh
# `onbeat fleet` at full size: the commands of docs/fleet.md in a fresh clone, 10,000 runs whose truth is planted from their files to the
# answers, what they take, the questions on DuckDB and on Apache Spark, whose rows must be equal; an object store and its faults; alert
# rules by promtool. Packages of Python are installed below target/. Half an hour, and 4 GB of disk meanwhile.
#
# usage: [DATA=DIR] test-fleet.sh [clone|planted|speed|spark|objects|rules]...   without a word: all of them
# DIR keeps the data sets for the next call: `speed` alone asks them again.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
place=$root/target/fleet-spark-venv
built=${CARGO_TARGET_DIR:-$root/target}
if [ -n "${DATA:-}" ]; then
    mkdir -p "$DATA"
    data=$(cd "$DATA" && pwd)
else
    data=$(mktemp -d)
    trap 'rm -rf "$data"' EXIT
fi
cargo=${CARGO:-cargo}
parts=${*:-clone planted speed spark objects rules}

wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
python() { PYTHONPATH="$root/python/src" "$place/bin/python" "$@"; }
megabytes() { du -sm --apparent-size "$1" | cut -f1; }
# Wall-clock seconds, and those of all CPUs with what was waited for.
took() { # LABEL COMMAND...
    label=$1
    shift
    /usr/bin/env python3 -c '
import resource, subprocess, sys, time
before = time.monotonic()
status = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{sys.argv[1]}: {time.monotonic() - before:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss // 1024} MB", flush=True)
sys.exit(status)' "$label" "$@"
}

# The first block of commands of the page, as it stands, in a fresh clone, with a fresh environment of Python and a home of its own for programs. Only
# the place of the data set and the time of the bench are others.
as_documented() {
    rm -rf "$data/clone" "$data/own" "$data/own-runs" "$data/programs" "$data/venv" # of a call that was killed
    git clone -q "$root" "$data/clone"
    python3 -m venv "$data/venv"
    sed -n '/^```sh$/,/^```$/p' docs/fleet.md | sed '1d; /^```$/,$d' |
        sed "s#/srv/fleet#$data/own#g; s/--for 2m/--for 40s/" >"$data/commands"
    grep -q 'cargo install' "$data/commands" && grep -q 'pip install' "$data/commands" && grep -q 'fleet worst' "$data/commands"
    (
        cd "$data/clone"
        export CARGO_INSTALL_ROOT="$data/programs" CARGO_TARGET_DIR="$built" ONBEAT_STATE_DIR="$data/state" VIRTUAL_ENV="$data/venv"
        export PATH="$data/venv/bin:$data/programs/bin:$PATH"
        unset PYTHONPATH ONBEAT_PYTHON
        while read -r line; do
            [ -n "${line%%#*}" ] || continue
            status=0
            sh -c "$line" </dev/null || status=$?
            # FAIL and INCONCLUSIVE of the bench are results.
            case $line:$status in *:0 | "onbeat bench"*:[13]) ;; *) echo "status $status: $line" >&2; exit 1 ;; esac
        done <"$data/commands"
        onbeat fleet worst "$data/own" --json >"$data/worst"
    )
    python3 -c 'import json, sys; rows = json.load(open(sys.argv[1]))["rows"]; assert len(rows) == 1 and rows[0]["runs"] == 1, rows' "$data/worst"
    echo "as documented: a bench of this machine was added from a fresh clone, and asked"
    mv "$data/clone/onbeat-runs" "$data/own-runs"
    rm -rf "$data/clone" "$data/programs"
}

# 10,000 runs of 400 machines, from run files. A batch at a time: all of them together would take 20 GB. The answers count the real run of `as_documented` too.
planted() {
    fleet=$data/10000
    [ -f "$data/10000.packed" ] || add_planted
    python tests/fleet/planted.py holds "$fleet" "$data/truth"
    python tests/fleet/planted.py draws 100
    python tests/fleet/planted.py ties 100
}

add_planted() {
    rm -rf "$fleet" "$data/runs"
    python tests/fleet/planted.py plan "$data/plan" 400 25 1 >"$data/truth"
    : >"$data/added"
    for batch in 0 1 2 3 4 5 6 7 8 9; do
        mkdir "$data/runs"
        "$built/release/examples/synthetic_runs" "$data/runs" --plan "$data/plan" 500 $((batch * 1000)) &
        "$built/release/examples/synthetic_runs" "$data/runs" --plan "$data/plan" 500 $((batch * 1000 + 500))
        wait $!
        took "runs $((batch * 1000)) to $((batch * 1000 + 999)) added" "$built/release/onbeat-fleet" add "$data"/runs/* --to "$fleet" >"$data/batch"
        tee -a "$data/added" <"$data/batch"
        rm -r "$data/runs"
    done
    awk '{wall += $(NF - 7); cpu += $(NF - 5)} END {printf "10,000 runs of 18 cells added: %.0f s, %.0f s of CPU\n", wall, cpu}' "$data/added"
    echo "landed: $(megabytes "$fleet") MB"
    took "packed" "$built/release/onbeat-fleet" pack "$fleet"
    size=$(megabytes "$fleet")
    echo "packed: $size MB"
    [ "$size" -le 2000 ]
    if [ -d "$data/own-runs" ]; then "$built/release/onbeat-fleet" add "$data/own-runs/latest" --to "$fleet"; fi
    : >"$fleet.packed"
}

# As tables without run files, where there are none yet. The marker of a data set is written last.
made() { # NAME HOSTS NIGHTS
    [ ! -f "$data/$1/onbeat-fleet.json" ] || return 0
    rm -rf "${data:?}/$1"
    python tests/fleet/planted.py make "$data/$1" "$2" "$3" >/dev/null
}

speed() {
    if [ -f "$data/10000.packed" ]; then echo "10,000 runs: $(python tests/fleet/planted.py time "$data/10000")"; fi
    made 100000 4000 25
    echo "100,000 runs: $(python tests/fleet/planted.py time "$data/100000")"
    made hosts 10000 10
    took "page of 10,000 machines" env PYTHONPATH="$root/python/src" "$place/bin/python" -m onbeat.fleet report "$data/hosts" -o "$data/page.html"
    size=$(wc -c <"$data/page.html")
    echo "page of 10,000 machines: $size bytes"
    [ "$size" -le 5000000 ]
}

spark() {
    command -v java >/dev/null 2>&1 || { echo "skipped: Apache Spark needs java (package default-jre-headless)"; return; }
    "$place/bin/pip" install -q "pyspark>=4,<5"
    rm -rf "$data/few" "$data/fleet"
    "$built/release/examples/synthetic_runs" "$data/few" 200 40
    "$built/release/onbeat-fleet" add "$data"/few/* --to "$data/fleet"
    "$built/release/onbeat-fleet" pack "$data/fleet"
    large=$data/10000
    [ -f "$large.packed" ] || { made large 400 25; large=$data/large; }
    for fleet in "$data/fleet" "$large"; do
        (export SPARK_LOCAL_IP=127.0.0.1; python tests/fleet/spark_equal.py "$fleet" 2>"$data/spark") || { tail -n 20 "$data/spark"; exit 1; }
    done
}

# Not AWS: moto imitates it.
objects() {
    objects=$root/target/fleet-objects-venv
    python3 -m venv "$objects"
    "$objects/bin/pip" install -q -r tests/fleet/object_store.txt
    rm -rf "$data/objects"
    "$built/release/examples/synthetic_runs" "$data/objects" 12
    PYTHONPATH="$root/python/src" "$objects/bin/python" tests/fleet/object_store.py "$built/release/onbeat-fleet" "$data"/objects/*
}

if wants clone; then as_documented; fi
if wants planted || wants spark || wants objects; then
    "$cargo" build --release --locked -p onbeat-fleet --features s3 --bins --example synthetic_runs
fi
if wants planted || wants speed || wants spark; then
    python3 -m venv "$place"
    "$place/bin/pip" install -q -r tests/fleet/requirements.txt
fi
if wants planted; then planted; fi
if wants speed; then speed; fi
if wants spark; then spark; fi
if wants objects; then objects; fi
if wants rules; then
    promtool=$(command -v promtool || echo "$root/target/prometheus/usr/bin/promtool")
    if [ -x "$promtool" ]; then
        "$promtool" test rules packaging/prometheus/onbeat.rules.test.yml
    else
        echo "skipped: promtool is not installed (package prometheus)"
    fi
fi
