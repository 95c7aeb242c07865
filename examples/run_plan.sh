#!/bin/sh
# Run a plan for real: placer's own runtime trains train_tiny.py with the plan's strategy, all
# workers on this machine.
#
# Shows: two commands from question to training: write the manifest, run it. The plan, chosen by
# hand, has four workers in two regions of Google Cloud that add up their gradients (all-reduce);
# here each is a process. What the model sends from region to region is counted and agrees with
# what is predicted for it. Seconds and the plan's figures cannot: another model, no GPU, no
# wide-area links. `placer run` says so.
# Prints: the plan, then predicted beside measured, and a loss that falls from about 3.5
# (guessing) to below 1.
# Needs: pip install 'placer[profile]' (PyTorch). Takes about 10 s.
# Usage: sh run_plan.sh [FOLDER for what is written]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
mkdir -p "$out" && out=$(cd "$out" && pwd)
show() { printf '\n$ placer %s\n' "$*"; placer "$@"; }
cd "$here" # placer finds train_tiny.py in the current folder

show estimate --model roberta-xlm --catalog erben-2023 --exchange all-reduce \
  --workers gcp/us-central1=2xT4:spot,gcp/us-west1=2xT4:spot --manifest "$out/plan.json"
show run "$out/plan.json" --train train_tiny:workload --local --steps 30 --tbs 64 --microbatch 16 --out "$out/run"
