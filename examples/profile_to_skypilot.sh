#!/bin/sh
# From a model to a launch: profile it here, estimate it for every GPU, recommend within a budget,
# export for SkyPilot.
#
# Shows: the four commands between your own model and `sky jobs launch`; nothing is launched and
# no account is needed.
# Prints: what was measured on this CPU, what is estimated for GPUs with intervals, the
# recommendation, the files, and how to launch.
# Needs: pip install 'placer-advisor[profile]' (PyTorch). Takes about a minute, half of it measuring.
# Usage: sh profile_to_skypilot.sh [FOLDER for what is written
#   [MODULE:FUNCTION [options of placer profile]]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
mkdir -p "$out" && out=$(cd "$out" && pwd)
model=${2:-train_tiny:ten_million}
if [ $# -ge 2 ]; then shift 2; else set -- --quick; fi
show() { printf '\n$ %s\n' "$*"; "$@"; }
cd "$here" # placer finds train_tiny.py in the current folder

show placer profile "$model" "$@" --out "$out/model.json"             # this CPU, measured
show placer profile "$model" --estimate --out "$out/model.json"        # and every GPU of the catalog, worked out
show placer recommend --model "$out/model.json" --budget 2/h --exchange all-reduce --top 4 --manifest "$out/plan.json"
show placer export "$out/plan.json" --to skypilot --dir "$out/launch" --train own_loop.py
cp own_loop.py train_tiny.py "$out/launch" # SkyPilot copies the folder to every machine

printf '\n$ cat %s\n' "$out/launch/README.md"
cat "$out/launch/README.md"
