# Functions of the scripts that run inside a bare root; they read this file.

fail() {
    echo "failed: $1" >&2
    exit 1
}

# A short bench, which must end in a verdict and a report.
verdict() { # PROGRAM...
    # A bare machine may hold the limit, break it, or leave it undecided in ten seconds: 0, 1 and 3 are verdicts. No cell shields a CPU: this is somebody's machine.
    status=0
    "$@" bench --for 10s --tunings none,P --loads idle,cpu=50% --limit 5ms --at 90 --out /try/runs >/try/out 2>&1 || status=$?
    grep -qE '(PASS|FAIL|INCONCLUSIVE)' /try/out && [ "$status" -le 3 ] && [ "$status" != 2 ] || { cat /try/out; fail "$* bench gave no verdict"; }
    grep -E '^verdict  ' /try/out | head -n 1
    [ -s /try/runs/latest/report.html ] || fail "no report"
    rm -rf /try/runs
}
