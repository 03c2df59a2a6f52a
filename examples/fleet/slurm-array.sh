#!/bin/sh
#SBATCH --job-name=onbeat-fleet
#SBATCH --array=1-200
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --time=00:10:00
# Measures 200 nodes, one array task each, into one data set: sbatch examples/fleet/slurm-array.sh /shared/fleet
# Without Slurm it measures this machine alone.
set -eu
fleet=${1:?usage: slurm-array.sh DIR}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
# FAIL (1) and INCONCLUSIVE (3) are results.
onbeat bench --for "${ONBEAT_FOR:-2m}" --tunings none,PMC --loads idle,paper --out "$runs" --quiet || [ $? -ne 2 ]
onbeat fleet add "$runs/latest" --to "$fleet" --host "${SLURMD_NODENAME:-$(hostname)}"
