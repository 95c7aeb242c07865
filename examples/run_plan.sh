#!/bin/sh
# Run a plan for real: placer's own runtime trains train_tiny.py with the plan's strategy, all
# workers on this machine; then learn from the log.
#
# Shows: from a model of one's own to training and back: estimate its speed, write the manifest, run
# it, calibrate on the run and ask whether to go on with the plan. The plan, chosen by hand, has
# four workers in two regions of Google Cloud that add up their gradients (all-reduce); here each is
# a process. What is sent is counted: in all as much as is predicted, but PyTorch sends it in a ring,
# each worker to the next, and the plan's hivemind from each to all. Seconds cannot agree: no GPU, no
# wide-area links. `run`, `profile runs` and `whatif` say so.
# Prints: the plan, predicted beside measured, a loss that falls from about 3.5 (guessing) to below
# 1, what the log tells of this machine, and whether another plan would be better.
# Needs: pip install 'placer-advisor[profile,calibrate]' (PyTorch, SciPy). Takes about 20 s.
# Usage: sh run_plan.sh [FOLDER for what is written]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
mkdir -p "$out" && out=$(cd "$out" && pwd)
show() { printf '\n$ placer %s\n' "$*"; placer "$@"; }
cd "$here" # placer finds train_tiny.py in the current folder

show profile train_tiny:workload --estimate --out "$out/model.json"
show estimate --model "$out/model.json" --catalog erben-2023 --exchange all-reduce \
  --workers gcp/us-central1=2xT4:spot,gcp/us-west1=2xT4:spot --manifest "$out/plan.json"
show run "$out/plan.json" --train train_tiny:workload --local --steps 30 --tbs 64 --microbatch 16 --out "$out/run"
show profile runs "$out/run/run.jsonl" --output "$out/calibration.json"
show whatif "$out/plan.json" --observed "$out/run/run.jsonl"
