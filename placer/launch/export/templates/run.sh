{% if alone %}
PLACER_RENDEZVOUS_ADDRESS="${PLACER_RENDEZVOUS_ADDRESS:-127.0.0.1}"
{% endif %}
{% if enter %}
{{ enter }}
{% endif %}
if ! command -v placer > /dev/null; then
  echo "placer is not installed on this machine: README.md of the export says how" >&2
  exit 2
fi
{# A cluster may have counted the world for one group alone. #}
unset WORLD_SIZE
MASTER_ADDR="$PLACER_RENDEZVOUS_ADDRESS"
MASTER_PORT="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"
export MASTER_ADDR MASTER_PORT
case "${PLACER_RESUME:-0}" in
  1) set -- --resume "$@" ;;
  auto) set -- --resume-if-any "$@" ;;
  0) ;;
  *) echo "PLACER_RESUME is $PLACER_RESUME: give 0, 1 or auto" >&2; exit 2 ;;
esac
PLACER_OUT="${PLACER_OUT:-$PLACER_RUN-run}"
{% if stays %}
exec placer run {{ manifest }} --train "$PLACER_TRAIN" --rank {{ rank }} \
  --steps "${PLACER_STEPS:-{{ steps }}}" --out "$PLACER_OUT" "$@"
{% else %}
code=0
placer run {{ manifest }} --train "$PLACER_TRAIN" --rank {{ rank }} \
  --steps "${PLACER_STEPS:-{{ steps }}}" --out "$PLACER_OUT" "$@" || code=$?
{# Rank 0 has the records of all after a whole run; after one that stopped each machine has its #}
{# own, in a folder that they may share. #}
if [ "$PLACER_RANK" = 0 ]; then log=run.jsonl; else log="run-rank-$PLACER_RANK.jsonl"; fi
if [ "$PLACER_RANK" = 0 ] || [ "$code" != 0 ]; then
  sed "s/^/placer-log /" "$PLACER_OUT/$log" || true
fi
exit "$code"
{% endif %}
