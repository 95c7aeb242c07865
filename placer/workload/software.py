"""The software that trains: what its kernels and its loss do to speed and memory."""

from __future__ import annotations

from msgspec import Struct

from placer.records import replace

FLASH_2, HOPPER_KERNELS = 335.0, 550.0
"""Rates of fused attention on H100; TFLOP/s: FlashAttention-2 (Dao, 2023), and kernels of cuDNN or
FlashAttention-3, forward and backward together. The latter fits NVIDIA's runs of 4,096 to 65,536
tokens (NeMo, performance summaries of 2024 and 2025).
"""
FASTEST_ATTENTION = 740.0
"""FlashAttention-3 on H100, forward (Shah et al., 2024): the end of the interval."""


class Adapters(Struct, frozen=True, kw_only=True):
    """What low-rank adapters beside each matrix do to a step.

    times: Multiple of the calculation: products of small rank, their additions and copies.
    dequantized: A further multiple where frozen weights are quantized.
    launch_s: Seconds in which the kernels of one layer are launched, forward and backward.
    low, high: Multiples of the rate between which 90 % of the runs lie that had no part in a fit.
    """

    times: float
    dequantized: float
    launch_s: float
    low: float
    high: float


EAGER = Adapters(times=1.1, dequantized=1.2, launch_s=7e-3, low=0.64, high=1.5)
"""Fitted to 25 runs: Qwen-7B on A100 (QwenLM/Qwen, README), Qwen3-1.7B and 4B under Unsloth on
RTX5090, H100, H200 and B200 (invergent-ai/surogate, docs). Each device left out: factor 1.28 in the
median, 1.49 for nine of ten, 1.83 at most.
"""
TUNED = Adapters(times=1.2, dequantized=1.2, launch_s=2.5e-3, low=0.75, high=1.3)
"""Fitted to 24 runs of Surogate on the same devices and on B300; left out 1.11, 1.26 and 1.36. No
run has quantized weights: that multiple is the one of `EAGER`.
"""
LAUNCH_S = 0.5e-3
"""About 50 kernels of a layer, 10 us each under PyTorch."""


class Software(Struct, frozen=True, kw_only=True):
    """One kind of software.

    title: What runs, in a few words.
    attention_tflops: Rate of fused attention on H100; other late devices have it in proportion to
        their products.
    loss: A key of `placer.workload.island.memory.LOGIT_BYTES`.
    launch_s: Seconds in which the kernels of one layer are launched, forward and backward, where
        all weights are trained; assumed. A microbatch takes at least that.
    adapters: What adapters cost.
    tensor_overlap: Part of the all-reduces of tensor parallel groups that products hide; assumed.
    fp8_activations: Bytes of activations in FP8 over those in BF16; assumed.
    shards_masters: Whether zero-1 and zero-2 divide the weights in FP32 too, as Megatron's
        optimizer does.
    expert_overlap: Part of the exchanges of experts that is hidden; fitted to 16 runs of four
        models on B200 to GB300, between 0.3 and 0.7 alike.
    sends_once: Whether a token goes to each machine with some of its experts once, not to each
        expert.
    optimizer_bytes, gradient_bytes, master_bytes: Bytes of each trained parameter: AdamW has two
        moments of 4, and changes weights of 4.
    """

    title: str
    loss: str
    attention_tflops: float = FLASH_2
    launch_s: float = LAUNCH_S
    adapters: Adapters = EAGER
    tensor_overlap: float = 0.0
    fp8_activations: float = 1.0
    shards_masters: bool = False
    expert_overlap: float = 0.0
    sends_once: bool = False
    optimizer_bytes: float = 8.0
    gradient_bytes: float = 4.0
    master_bytes: float = 4.0


EIGHT_BIT, EIGHT_BIT_BYTES = "-8bit", 2 * (1 + 4 / 256)
"""Ends the name of software whose AdamW keeps moments of 8 bits, and their bytes: a scale of 4 for
each 256 (bitsandbytes since 0.45 and torchao; Dettmers et al., arXiv 2110.02861).
"""
NAMED = {
    "torch-2023": Software(title="PyTorch with FlashAttention-2, as in llm-foundry", loss="plain"),
    "torch-compiled": Software(
        title="torch.compile with FlashAttention-2, as in torchtitan", loss="fused", adapters=TUNED
    ),
    "nvidia-te": Software(
        title="Megatron or NeMo with Transformer Engine",
        attention_tflops=HOPPER_KERNELS,
        loss="fused",
        adapters=Adapters(times=1.0, dequantized=1.2, launch_s=2 * LAUNCH_S, low=0.8, high=1.35),
        tensor_overlap=0.6,
        fp8_activations=0.65,
        shards_masters=True,
        expert_overlap=0.5,
        sends_once=True,
        gradient_bytes=2.0,  # NVIDIA's recipes for speed reduce gradients in BF16
    ),
    "hf-eager": Software(
        title="Hugging Face Transformers without compilation", loss="plain", launch_s=4 * LAUNCH_S
    ),
    "torchtune": Software(
        title="torchtune, whose recipes train in BF16 alone",
        loss="fused",
        optimizer_bytes=4.0,
        gradient_bytes=2.0,
        master_bytes=2.0,
    ),
}
SOFTWARE = NAMED | {
    f"{name}{EIGHT_BIT}": replace(
        row, title=f"{row.title}; AdamW of 8 bits", optimizer_bytes=EIGHT_BIT_BYTES
    )
    for name, row in NAMED.items()
    if name != "nvidia-te"  # Transformer Engine has an optimizer of its own
}
"""By the word of ``--software``."""
UNNAMED, UNNAMED_ADAPTERS = "torch-2023", "hf-eager"
"""What is timed where nobody names it: the slower, so that no answer rests on a guess."""


def software(name: object, *, has_adapters: bool = False) -> Software:
    """Return the software of a plan; without a name the one that is assumed."""
    return SOFTWARE[str(name or (UNNAMED_ADAPTERS if has_adapters else UNNAMED))]
