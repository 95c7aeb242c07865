{# Number the world of this machine, and the machine in it. #}
PLACER_WORLD=$((PLACER_WORLD_OFFSET + PLACER_NODE / PLACER_WORLD_STEP))
first=$((PLACER_WORLD_FIRST + PLACER_NODE / PLACER_WORLD_STEP * PLACER_WORLD_STEP))
PLACER_WORLD_RANK=$((PLACER_RANK - first))
export PLACER_WORLD PLACER_WORLD_RANK
{% if not all_alone %}
{% if one_world %}
PLACER_WORLD_ADDRESS="$PLACER_RENDEZVOUS_ADDRESS"
PLACER_WORLD_PORT="$port"
{% else %}
{# Each world meets at its first machine, beside the port at which the worlds find each other. #}
PLACER_WORLD_PORT="${PLACER_WORLD_PORT:-$((port + 1 + PLACER_WORLD))}"
if [ "$PLACER_WORLD_MACHINES" = 1 ]; then
  PLACER_WORLD_ADDRESS=127.0.0.1
elif [ "$first" = 0 ]; then
  PLACER_WORLD_ADDRESS="${PLACER_WORLD_ADDRESS:-${PLACER_RENDEZVOUS_ADDRESS:-}}"
fi
{% if meet %}
if [ -n "${PLACER_MEETING:-}" ] &&
  { [ "$PLACER_WORLD_RANK" = 0 ] || [ -z "${PLACER_WORLD_ADDRESS:-}" ]; }; then
  PLACER_WORLD_ADDRESS="$({{ meet }} "world-$PLACER_WORLD" "$PLACER_WORLD_RANK" "$PLACER_WORLD_PORT" "${PLACER_WORLD_ADDRESS:-}")" || exit 1
  export PLACER_WORLD_ADDRESS
fi
{% endif %}
if [ -z "${PLACER_WORLD_ADDRESS:-}" ]; then echo "PLACER_WORLD_ADDRESS: set it to an address of the first machine of this world that its others reach" >&2; exit 2; fi
{% endif %}
export PLACER_WORLD_ADDRESS PLACER_WORLD_PORT
{% endif %}
{% if torchft %}
{# The first machine of all serves torchft's lighthouse, by which the worlds find each other. #}
TORCHFT_LIGHTHOUSE="http://$PLACER_RENDEZVOUS_ADDRESS:$port"
export TORCHFT_LIGHTHOUSE
if [ "$PLACER_RANK" = 0 ]; then
  torchft_lighthouse --min_replicas "$PLACER_QUORUM" --bind "[::]:$port" \
    --join_timeout_ms "$PLACER_GRACE_MS" &
  lighthouse=$!
  trap 'kill "$lighthouse"' EXIT
fi
{% endif %}
{{ trainer }}
{% if all_alone %}
{# A world of one machine: torchrun takes a free port. #}
{{ exec }}torchrun --standalone --nproc-per-node="$PLACER_PROCESSES" "$@"
{% else %}
{{ exec }}torchrun --nnodes="$PLACER_WORLD_MACHINES" --node-rank="$PLACER_WORLD_RANK" \
  --nproc-per-node="$PLACER_PROCESSES" --master-addr="$PLACER_WORLD_ADDRESS" \
  --master-port="$PLACER_WORLD_PORT" "$@"
{% endif %}
