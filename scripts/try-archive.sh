#!/bin/sh
# Runs inside a root without a package manager that knows onbeat, started by test-dist.sh: the archive's static program.
set -eu

cd /try
# shellcheck source=scripts/try-verdict.sh
. /try/try-verdict.sh

tar -xzf ./onbeat-*-linux.tar.gz
./onbeat-*-linux/onbeat --version
verdict ./onbeat-*-linux/onbeat
