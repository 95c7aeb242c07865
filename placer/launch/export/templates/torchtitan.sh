if [ -n "${PLACER_CHECKPOINTS:-}" ]; then
  set -- --checkpoint.enable --checkpoint.folder "$PLACER_CHECKPOINTS" "$@"
fi
{% if stages %}
read -r -a parts <<< "$PLACER_TITAN_PARTS"
{% endif %}
set -- -m torchtitan.train \
  --module "$PLACER_TITAN_MODULE" --config "$PLACER_TITAN_CONFIG" \
  --parallelism.data-parallel-replicate-degree "$PLACER_DP_REPLICATE" \
  --parallelism.data-parallel-shard-degree "$PLACER_DP_SHARD" \
  --parallelism.fsdp-reshard-after-forward "$PLACER_TITAN_RESHARD" \
  --parallelism.tensor-parallel-degree "$PLACER_TENSOR_PARALLEL" \
  --training.local-batch-size "$PLACER_TITAN_LOCAL_BATCH" \
  --training.global-batch-size "$PLACER_TARGET_BATCH_SIZE" \
  --training.seq-len "$PLACER_TITAN_TOKENS" \
  --training.mixed-precision-param "$PLACER_TITAN_PRECISION" \
{% if divides_more %}
{# There are no CUDA graphs of stages, nor of most exchanges of experts. #}
  --training.disable-cuda-graphs \
  --parallelism.context-parallel-degree "$PLACER_CONTEXT_PARALLEL" \
  --parallelism.expert-parallel-degree "$PLACER_EXPERT_PARALLEL" \
{% endif %}
{% if stages %}
  --parallelism.pipeline-parallel-degree "$PLACER_PIPELINE_PARALLEL" \
  --parallelism.pipeline-parallel-schedule "$PLACER_TITAN_SCHEDULE" \
  --parallelism.pipeline-parallel-microbatch-size "$PLACER_MICROBATCH" \
  --parallelism.module-fqns-per-model-part "${parts[@]}" \
{% endif %}
{% if job %}
  --training.steps "$PLACER_STEPS" \
{% endif %}
{% if several %}
  --fault-tolerance.enable --fault-tolerance.replica-id "$PLACER_WORLD" \
  --fault-tolerance.group-size "$PLACER_WORLDS" \
  --fault-tolerance.min-replica-size "$PLACER_QUORUM" \
  --fault-tolerance.process-group "$PLACER_BACKEND" \
  --fault-tolerance.process-group-timeout-ms "$PLACER_TITAN_TIMEOUT_MS" \
  --fault-tolerance.semi-sync-method "$PLACER_TITAN_METHOD" \
  --fault-tolerance.sync-steps "$PLACER_LOCAL_STEPS" \
  --fault-tolerance.num-fragments "$PLACER_TITAN_FRAGMENTS" \
  --fault-tolerance.fragment-sync-delay "$PLACER_TITAN_DELAY" \
{% endif %}
  "$@" "activation-checkpoint:$PLACER_CHECKPOINTING"
