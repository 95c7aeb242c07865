#!/bin/sh
# Start a training loop of your own by exported scripts: own_loop.py on two "machines", which here
# are two processes.
#
# Shows: a plan over two regions, exported as one torchrun script a region, and how each machine
# starts its script.
# Prints: the plan, the names of the files, and the output of the loop: loss and samples/s of both
# workers together. That is another model on another device than the plan's, so its samples/s say
# nothing about the plan.
# Needs: pip install 'placer-advisor[profile]' (PyTorch with torchrun). Takes about 15 s.
# Usage: sh launch_torchrun.sh [FOLDER for what is written]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
mkdir -p "$out" && out=$(cd "$out" && pwd)
show() { printf '\n$ %s\n' "$*"; "$@"; }
command -v torchrun >/dev/null || { echo "error: torchrun is not installed; pip install 'placer-advisor[profile]'" >&2; exit 2; }

show placer recommend --model roberta-xlm --catalog erben-2023 --gpu T4 --in gcp --regions 2 --workers 2 --top 1 \
  --exchange all-reduce --manifest "$out/plan.json"
show placer export "$out/plan.json" --to torchrun --dir "$out/launch" --train own_loop.py
cp "$here/own_loop.py" "$here/train_tiny.py" "$out/launch"

cd "$out/launch"
PLACER_PORT=$(python3 -c 'import random; print(random.randrange(20000, 32000))') # below the ports that the system gives out to others
export PLACER_PORT # the plan's own may be taken on a machine that does other things as well
export PLACER_RENDEZVOUS_ADDRESS=127.0.0.1 OMP_NUM_THREADS=1 # on real machines: an address of the first one
export GLOO_SOCKET_IFNAME=lo # on real machines: the interface of a network that joins both regions
printf '\n$ bash workers-1.sh & bash workers-0.sh    (on real machines: one line on each)\n'
bash workers-1.sh --tbs 64 --microbatch 16 &
trap 'kill $! 2>/dev/null || true' EXIT
bash workers-0.sh --tbs 64 --microbatch 16
wait $!
