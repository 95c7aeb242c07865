{{ node }}
{% include number.sh %}
if [ -z "${PLACER_INITIAL_PEERS:-}" ]; then echo "PLACER_INITIAL_PEERS: set it to the address that bootstrap.sh prints: /ip4/.../p2p/..." >&2; exit 2; fi
read -r -a peers <<< "$PLACER_INITIAL_PEERS"
port=$((PLACER_RENDEZVOUS_PORT + 1 + PLACER_RANK))
{% include hivemind-listen.sh %}
PLACER_OPTIMIZER="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/optimizer.json"
export PLACER_OPTIMIZER
if [ -n "${PLACER_PEER_ADDRESS:-}" ]; then
  set -- --announce_maddrs "/$(kind "$PLACER_PEER_ADDRESS")/$PLACER_PEER_ADDRESS/tcp/$port" "$@"
fi
{# Options as in hivemind's own examples; a peer's identity is a key that stays on its machine. #}
exec python3 "$PLACER_TRAIN" --run_id "$PLACER_RUN" --initial_peers "${peers[@]}" \
  --identity_path "$PLACER_KEYS/rank-$PLACER_RANK.key" --host_maddrs "$listen/$port" \
  --target_batch_size "$PLACER_EPOCH_SAMPLES" --batch_size_per_step "$PLACER_BATCH_SIZE_PER_STEP" \
  --matchmaking_time "$PLACER_MATCHMAKING_S" --averaging_timeout "$PLACER_AVERAGING_TIMEOUT_S" "$@"
