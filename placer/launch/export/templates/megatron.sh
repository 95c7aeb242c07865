if [ -n "${PLACER_CHECKPOINTS:-}" ]; then
  set -- checkpoint.save="$PLACER_CHECKPOINTS" checkpoint.load="$PLACER_CHECKPOINTS" "$@"
fi
set -- "$(dirname -- "${BASH_SOURCE[0]}")/recipe.py" \
{% if job %}
  train.train_iters="$PLACER_STEPS" \
{% endif %}
  "$@"
