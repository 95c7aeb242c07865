"""Words of neighbouring tools and of everyday speech, with the words that placer has for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placer.errors import PlacerError, unknown

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "aggregator": ("server", "parameter-server", "coordinator"),
    "budget": (
        *("cost", "max-cost", "price", "max-price", "max-spend", "spend", "max-budget", "money"),
        *("max-hourly-cost", "hourly-budget", "max-bid", "bid"),
    ),
    "catalog": ("prices", "book", "price-book", "offers", "pricing"),
    "checkpointing": ("gradient-checkpointing", "activation-checkpointing", "remat"),
    "compression": ("compress", "quantize", "quantization"),
    "data": ("dataset", "data-dir", "bucket", "data-path", "dataset-size", "input"),
    "deadline": ("within", "max-time", "finish-by", "by", "time-budget", "max-hours", "duration"),
    "exchange": ("strategy", "algorithm", "sync", "backend", "communication", "optimizer"),
    "gpu": (
        *("gpus", "accelerator", "accelerators", "gpu-type", "gpu-types", "device", "devices"),
        *("instance", "instance-type", "instance-types", "machine-type", "vm", "vm-type"),
        *("hardware", "num-gpus", "gpu-count", "node-type", "sku"),
    ),
    "in": (
        *("region", "zone", "location", "locations", "place", "places", "where", "cloud"),
        *("clouds", "provider", "providers", "infra", "country", "continent", "near", "az"),
    ),
    "json": ("as-json", "json-output"),
    "lora": ("lora-rank", "peft", "adapter", "adapters"),
    "market": ("on-demand", "ondemand", "purchase-option", "pricing-model", "tier"),
    "max-carbon": ("carbon", "co2", "emissions", "max-emissions", "max-co2"),
    "microbatch": ("micro-batch", "micro-batch-size", "per-device-batch-size", "mbs"),
    "min-throughput": ("throughput", "speed", "min-speed", "rate", "samples-per-second", "floor"),
    "model": ("params", "parameters", "model-size", "model-name", "model-id", "checkpoint"),
    "not-in": ("exclude", "avoid", "not", "exclude-region", "exclude-regions", "except"),
    "objective": ("goal", "minimize", "maximize", "optimize", "optimize-target", "best"),
    "output": ("out", "save", "to", "output-file"),
    "own": ("onprem", "on-prem", "on-premise", "own-machines", "local", "my-machines", "mine"),
    "passes": ("epochs", "num-epochs"),
    "precision": ("dtype", "bf16", "fp16", "amp", "mixed-precision"),
    "quota": ("quotas", "limit", "limits", "max-gpus"),
    "samples": ("steps", "max-steps", "num-samples", "examples", "images", "dataset-rows"),
    "seq-len": ("seq-length", "max-seq-len", "context", "context-length", "sequence-length"),
    "sharding": ("fsdp", "zero", "deepspeed", "zero-stage", "shard-parameters"),
    "software": ("framework", "trainer", "stack"),
    "spot": ("use-spot", "preemptible", "interruptible", "spot-only", "use-spot-instances"),
    "supply": ("max-spot", "spot-limit", "availability", "stock"),
    "tbs": ("batch-size", "batch", "global-batch-size", "gbs", "train-batch-size"),
    "time-limit": ("timeout", "max-seconds", "time", "solver-time"),
    "tokens": ("num-tokens", "train-tokens", "max-tokens"),
    "tp": ("tensor-parallel", "tensor-parallel-size", "tensor-model-parallel-size"),
    "workers": ("nodes", "num-nodes", "replicas", "world-size", "num-workers", "count", "n"),
}
"""Other words by the option, or the word in Python and in files, that says the same."""
MEANT: Mapping[str, str] = {other: own for own, others in OPTIONS.items() for other in others}
"""What each of the other words means."""


def meant(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that means the same as one of another tool, with or without dashes.

    >>> meant("--max-price", ["--budget", "--in"]), meant("batch_size", ["tbs"])
    ('--budget', 'tbs')
    """
    own = MEANT.get(_plain(word))
    if own is None:
        return None
    return next((name for name in known if _plain(name) in (own, PYTHON.get(own))), None)


PYTHON = {"in": "places", "not-in": "not-places"}
"""Names in Python that differ from the option."""


def unknown_word(kind: str, word: str, known: Iterable[str], hint: str = "") -> PlacerError:
    """Build the error for an unknown word, with one that means or is written the same."""
    names = list(known)
    same = meant(word, names)
    if same is None:
        return unknown(kind, word, names, hint)
    return PlacerError(f"unknown {kind} '{word}'", f"the {kind} for it is '{same}'")


def _plain(word: str) -> str:
    return word.lower().lstrip("-").replace("_", "-")
