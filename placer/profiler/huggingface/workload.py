"""Models from a configuration of Hugging Face transformers: random weights, synthetic batches,
nothing downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from placer.errors import PlacerError, installed
from placer.profiler.huggingface.batches import (
    ANY,
    CAUSAL,
    TASKS,
    Asked,
    Task,
    diffusion_model,
    image_size,
    making,
    task_of,
)
from placer.profiler.torch_import import load_torch, torch
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.architecture import LONGEST_SEQUENCE, Architecture
from placer.workload.models.configuration import DIFFUSION, Configuration, read_configuration
from placer.workload.models.configured_decoder import USUAL_TOKENS, configured_decoder

TIED = "tie_word_embeddings"
TOKENS = 128
"""Tokens of a text of models that do not write the next token, as BERT's first 90 % of steps."""
UNSEEN: Mapping[str, Any] = {
    "find_packed_sequence_indices": lambda positions: None,
    "fast_all": lambda mask: True,
}
"""Functions of transformers.masking_utils that look at values, since 4.53, and what they would find
in batches with one whole text in each sequence.
"""
RESERVED_POSITIONS = 2
OFFSET_POSITIONS = frozenset(
    {"camembert", "longformer", "roberta", "xlm-roberta", "xlm-roberta-xl"}
)
"""RoBERTa and its kin count positions from 2."""
CONVOLUTIONAL = frozenset(
    {"bit", "convnext", "convnextv2", "cvt", "efficientnet", "regnet", "resnet"}
    | {"mobilenet_v1", "mobilenet_v2"}
)
"""Model types whose family is ``cnn``; the others are transformers."""


def from_config(path: str | Path, tokens: int | None = None) -> Workload:
    """Make a workload from a local ``config.json``. Weights are random and in FP32, on the CPU or
    where ``with torch.device("meta"):`` around the call says. Raises `PlacerError` if transformers
    or PyTorch is missing, or the configuration is not one that it can make without code of others.

    tokens: Length of texts; None: `sequence_length` for models that write the next token, else
        `TOKENS`, or fewer if the model takes fewer.
    """
    asked = read_configuration(path)
    load_torch()
    if DIFFUSION in asked.values:
        return diffusion_model(asked)
    # Read when it is imported: even a model that asks for pretrained parts then finds no network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = installed("transformers", "hf: needs Hugging Face transformers", "hf")
    with making(asked.file, "transformers", transformers.logging):
        config = _config(transformers, asked.values)
        _prepare_for_training(config)
        task, module = _make(transformers, asked, config)
        _untie(asked, config, module)
    length = _length(asked, config, task, tokens)
    return Workload(
        name=asked.name,
        title=f"{type(module).__name__}, "
        f"{task.words.format(tokens=length, size=image_size(config))}",
        family="cnn" if config.model_type in CONVOLUTIONAL else "transformer",
        # A configuration may name FP16; training keeps weights in FP32 and uses autocast.
        module=module.float(),
        batch=lambda samples, device: task.batch(Asked(module, config, samples, length, device)),
        loss=_loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        source=f"hf {asked.file.name}",
        architecture=_architecture(asked, config, module, length) if task is CAUSAL else None,
    )


def _config(transformers: ModuleType, values: Mapping[str, Any]) -> Any:
    """Build the configuration of a model type, with the type's defaults."""
    kind = str(values["model_type"])
    if kind not in transformers.CONFIG_MAPPING:
        raise PlacerError(
            f"transformers {transformers.__version__} knows no model type '{kind[:40]}'",
            "install a newer release, or correct the configuration",
        )
    return transformers.CONFIG_MAPPING[kind].from_dict(_with_flags(transformers, values))


def _with_flags(transformers: ModuleType, values: Mapping[str, Any]) -> dict[str, Any]:
    """Write numbers as truth values where the model type has such: releases since 5 refuse the 4
    that published files of Llama 4 give for a flag.
    """
    kind = values.get("model_type")
    known = isinstance(kind, str) and kind in transformers.CONFIG_MAPPING
    fields = getattr(transformers.CONFIG_MAPPING[kind], "__dataclass_fields__", {}) if known else {}
    flags = {name for name, field in fields.items() if isinstance(field.default, bool)}

    def read(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return _with_flags(transformers, value)
        return bool(value) if name in flags and type(value) is int else value

    return {name: read(name, value) for name, value in values.items()}


def _length(asked: Configuration, config: Any, task: Task, tokens: int | None) -> int:
    """Return the tokens of a text: those asked for, if the model takes them, else the usual."""
    names = ("max_position_embeddings", "max_target_positions")
    parts = (config, config.get_text_config())
    positions = [getattr(part, name, None) for part in parts for name in names]
    reserved = RESERVED_POSITIONS if config.model_type in OFFSET_POSITIONS else 0
    most = next((count - reserved for count in positions if count), LONGEST_SEQUENCE)
    if tokens is None:
        return min(USUAL_TOKENS if task is CAUSAL else TOKENS, most)
    if not 1 <= tokens <= most:
        raise PlacerError(
            f"'{asked.file}': sequences of {tokens:,} tokens", f"the model takes 1 to {most:,}"
        )
    return tokens


def _architecture(
    asked: Configuration, config: Any, module: Any, length: int
) -> Architecture | None:
    """Return a decoder's dimensions, read or counted; None if the file lacks them."""
    text = config.get_text_config()
    total = sum(p.numel() for p in module.parameters())
    try:  # with the defaults of the model type, and with what is beside the text
        decoder = configured_decoder(Configuration(file=asked.file, values=text.to_dict()))
    except PlacerError:
        decoder = None
    if decoder is not None:
        beside = total - decoder.parameters
        return replace(decoder, rest=decoder.rest + beside).architecture(length)
    layers, width = (getattr(text, key, None) for key in ("num_hidden_layers", "hidden_size"))
    heads = getattr(text, "num_attention_heads", None)
    if not (layers and width and heads):
        return None
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    head = getattr(text, "head_dim", None) or width // heads
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    experts = getattr(text, "num_experts", None) or getattr(text, "n_routed_experts", None) or 1
    idle = 1 - (getattr(text, "num_experts_per_tok", None) or 1) / experts
    active = total - round(idle * sum(n for name, n in sizes.items() if ".experts." in name))
    head_weight = getattr(module.get_output_embeddings(), "weight", None)
    tied = any(p is head_weight for p in module.get_input_embeddings().parameters())
    embedding = torch.nn.Embedding
    looked_up = sum(
        m.weight.numel()
        for m in module.modules()
        if isinstance(m, embedding) and m.weight is not head_weight
    )
    return Architecture(
        layers=layers,
        width=width,
        kv_width=kv_heads * head,
        mlp_width=getattr(text, "intermediate_size", None) or 4 * width,
        mlp_matrices=3 if any("gate" in name for name in sizes) else 2,
        vocabulary=text.vocab_size,
        tied=tied,
        sequence_length=length,
        parameters=total,
        active_parameters=active,
        computed_parameters=active - looked_up,
        trainable_parameters=total,
    )


def _loss(module: Any, batch: dict[str, Any]) -> Any:
    with _unpacked(next(iter(batch.values())).device):
        result = module(**batch)
    loss = getattr(result, "loss", None)
    return result[0].float().mean() if loss is None else loss


@contextmanager
def _unpacked(device: torch.device) -> Iterator[None]:
    """Keep transformers from looking at values, which the meta device does not have."""
    try:
        masking = import_module("transformers.masking_utils")
    except ImportError:  # a release that does not look
        masking = None
    found = {name: getattr(masking, name) for name in UNSEEN if hasattr(masking, name)}
    if device.type == "meta":
        for name in found:
            setattr(masking, name, UNSEEN[name])
    try:
        yield
    finally:
        for name, function in found.items():
            setattr(masking, name, function)


def _prepare_for_training(config: Any) -> None:
    """Set what a configuration may leave to generation and that changes no size."""
    if getattr(config, "use_cache", False):
        config.use_cache = False  # keys of earlier tokens are kept for generation alone
    for token in ("pad_token_id", "decoder_start_token_id"):
        if getattr(config, "is_encoder_decoder", False) and getattr(config, token, None) is None:
            setattr(config, token, 0)  # labels are shifted by these; any token does


def _make(transformers: ModuleType, asked: Configuration, config: Any) -> tuple[Task, Any]:
    """Make the class that ``architectures`` names, else the first task of the type."""
    named = asked.named_class
    made = getattr(transformers, named, None) if named else None
    if isinstance(made, type) and issubclass(made, transformers.PreTrainedModel):
        return task_of(named, config), made(config)
    ending = task_of(named, config)
    for task in (ending,) if named and ending is not ANY else () if named else TASKS:
        try:
            module = getattr(transformers, task.auto).from_config(config, trust_remote_code=False)
        except ValueError as error:
            if "Unrecognized configuration class" not in str(error):
                raise
        else:
            # LLaMAForCausalLM is the old spelling of a class; any other name is another model.
            if not named or type(module).__name__.lower() == named.lower():
                return task, module
    if named:
        raise PlacerError(
            f"'{asked.file}' names the class {named[:60]}, which transformers "
            f"{transformers.__version__} does not have",
            "correct architectures, or profile package.module:function",
        )
    known = ", ".join(task.auto.removeprefix("AutoModelFor") for task in TASKS)
    raise PlacerError(
        f"model type '{config.model_type}' has none of the tasks {known}",
        "name its class in architectures, or profile package.module:function",
    )


def _untie(asked: Configuration, config: Any, module: Any) -> None:
    """Give the output layer weights of its own where the file or the default of its text part says
    so, and a release of transformers shares them all the same, as 5 does for T5 and Mistral 3.
    """
    parts = (asked.values, asked.text_part.values, config.get_text_config().to_dict())
    said = [part[TIED] for part in parts if part.get(TIED) is not None]
    if not said or said[0]:
        return
    head: Any = module.get_output_embeddings()
    table: Any = module.get_input_embeddings()
    is_shared = head is not None and head.weight is getattr(table, "weight", None)
    if is_shared:
        head.weight = type(head.weight)(head.weight.detach().clone())
