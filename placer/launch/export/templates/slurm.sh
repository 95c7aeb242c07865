cd -- "$SLURM_SUBMIT_DIR"
{# The first node of a job has the first machine of its world. #}
head="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"
if [ "${SLURM_ARRAY_TASK_ID:-0}" = 0 ] && [ "$PLACER_RANK_OFFSET" = 0 ]; then
  PLACER_RENDEZVOUS_ADDRESS="$head"
  export PLACER_RENDEZVOUS_ADDRESS
fi
PLACER_WORLD_ADDRESS="$head"
export PLACER_WORLD_ADDRESS
{% if shares %}
{# The jobs of one cluster share the folder from which they were submitted. #}
PLACER_MEETING="${PLACER_MEETING:-$PWD/meeting}"
export PLACER_MEETING
{% endif %}
read -r -d '' start << 'END' || true
{{ start }}
END
exec srun --kill-on-bad-exit=1 bash -euo pipefail -c "$start" bash "$@"
