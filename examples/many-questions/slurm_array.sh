#!/bin/sh
#SBATCH --job-name=placer-sweep
#SBATCH --array=1-4
#SBATCH --cpus-per-task=1
#SBATCH --mem=3G
#SBATCH --requeue
# A sweep as a Slurm array: sbatch examples/many-questions/slurm_array.sh
# Task number i solves every fourth point, from the i-th on. A task that is requeued goes on where
# its file ends. Then: placer whatif --merge shard-*.jsonl -o all.jsonl
set -eu
exec placer whatif --model roberta-xlm --catalog "${CATALOG:-default}" \
  --over "${OVER:-budget=1/h..50/h:64}" \
  --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" -o "shard-$SLURM_ARRAY_TASK_ID.jsonl"
