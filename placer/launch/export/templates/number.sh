case "$PLACER_NODE" in
  "" | *[!0-9]* | 0?* | ??????????*) echo "PLACER_NODE is not a number from 0: $PLACER_NODE" >&2; exit 2 ;;
esac
if [ "$PLACER_NODE" -ge "$PLACER_GROUP_SIZE" ]; then
  echo "PLACER_NODE is $PLACER_NODE, but $PLACER_GROUP has only $PLACER_GROUP_SIZE, counted from 0" >&2
  exit 2
fi
PLACER_RANK=$((PLACER_RANK_OFFSET + PLACER_NODE))
export PLACER_NODE PLACER_RANK
