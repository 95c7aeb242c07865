#!/bin/sh
# Rehearse a plan: its geography on this machine, before anything is rented.
#
# Shows: a plan over two continents, then `placer run --rehearse`: the scripts of the plan run on
# machines with networks of their own, links have the plan's round-trip time, bytes are scaled down.
# Then the same with a worker that is killed.
# Prints: the exchange and the bytes by link, predicted beside measured; what the death of the worker
# cost.
# Needs: Linux and root (or user namespaces), pip install 'placer-advisor[rehearse]'. Takes about
# 40 s.
# Usage: sh rehearse_plan.sh [FOLDER for what is written]
set -eu
out=${1:-$(mktemp -d)}
mkdir -p "$out" && cd "$out"
show() { printf '\n$ placer %s\n' "$*"; placer "$@"; }
rehearse() { show run --rehearse "$@" || { code=$?; test $code -eq 6 || exit $code; }; } # 6: not confirmed

show estimate --model resnet50 --catalog erben-2023 --exchange all-reduce --tbs 4096 \
  --workers gcp/us-central1=1xT4:spot,gcp/europe-west1=1xT4:spot --manifest plan.json
rehearse plan.json --scale 1/10 --rounds 3 -o rehearsal.json
rehearse plan.json --scale 1/10 --rounds 3 --kill 1@2 -o killed.json
