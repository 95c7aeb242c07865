"""Models of Hugging Face transformers from a configuration file: random weights, synthetic batches,
nothing downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.profiler.builtin.batches import generator, images, masked_text
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload
from placer.version import install_line
from placer.workload.architecture import LONGEST_SEQUENCE, Architecture
from placer.workload.models.configuration import Configuration, read_configuration
from placer.workload.models.configured_decoder import (
    USUAL_TOKENS,
    configured_decoder,
    configured_model,
)
from placer.workload.profile import ModelProfile

if TYPE_CHECKING:
    import torch

TOKENS = 128
"""Tokens of a text of models that do not write the next token, as BERT's first 90 % of steps."""
PACKED = "find_packed_sequence_indices"
"""Function of transformers.masking_utils, since 4.53."""
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
Batch = Callable[[Any, int, int, "torch.device"], dict[str, Any]]
"""From configuration, samples, tokens and device to what the model takes."""


@dataclass(frozen=True)
class _Task:
    """How models of one kind are made and what they take; ``endings`` are those of their class
    names.
    """

    endings: tuple[str, ...]
    auto: str
    words: str
    batch: Batch


def from_config(path: str | Path, tokens: int | None = None) -> Workload:
    """Make a workload from a local ``config.json``.

    Parameters
    ----------
    path
        The file, or a folder with a ``config.json``.
    tokens
        Length of texts; None: `sequence_length` for models that write the next token, else
        `TOKENS`, or fewer if the model takes fewer.

    Returns
    -------
    Workload
        Weights are random and in FP32, on the CPU or where ``with torch.device("meta"):`` around
        the call says.

    Raises
    ------
    PlacerError
        If transformers or PyTorch is missing, or the configuration is not one that it can make
        without code of others.
    """
    asked = read_configuration(path)
    load_torch()
    transformers = _load_transformers()
    with _one_line(asked.file, transformers):
        config = transformers.AutoConfig.from_pretrained(
            str(asked.file), local_files_only=True, trust_remote_code=False
        )
        _prepare_for_training(config)
        task, module = _make(transformers, config)
    return _workload(asked, config, task, module, tokens)


def counted_profile(asked: Configuration, catalog: Catalog) -> ModelProfile:
    """Count a model whose dimensions the configuration does not give in a known way.

    Parameters
    ----------
    asked
        Of any model that transformers can make without code of others.
    catalog
        Whose GPUs get estimated rates; language models need none.

    Raises
    ------
    PlacerError
        If PyTorch or transformers is missing, or cannot make the model.
    """
    from placer.profiler.estimate.estimate import estimate

    with load_torch().device("meta"):  # no memory for weights
        workload = from_config(asked.file)
    if workload.architecture is not None:
        return configured_model(asked, workload.architecture)
    return estimate(workload, catalog).to_profile()


def _workload(
    asked: Configuration, config: Any, task: _Task, module: Any, tokens: int | None
) -> Workload:
    torch = load_torch()
    length = _length(asked, config, task, tokens)
    return Workload(
        name=asked.name,
        title=f"{type(module).__name__}, "
        f"{task.words.format(tokens=length, size=_image_size(config))}",
        family="cnn" if config.model_type in CONVOLUTIONAL else "transformer",
        # A configuration may name FP16; training keeps weights in FP32 and uses autocast.
        module=module.float(),
        batch=lambda samples, device: task.batch(config, samples, length, device),
        loss=_loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        source=f"hf {asked.file.name}",
        architecture=_architecture(asked, config, module, length) if task.auto == CAUSAL else None,
    )


def _length(asked: Configuration, config: Any, task: _Task, tokens: int | None) -> int:
    """Return the tokens of a text: those asked for, else the usual number.

    Raises
    ------
    PlacerError
        If the model takes fewer than are asked for.
    """
    names = ("max_position_embeddings", "max_target_positions")
    positions = [getattr(config, name, None) for name in names]
    reserved = RESERVED_POSITIONS if config.model_type in OFFSET_POSITIONS else 0
    most = next((count - reserved for count in positions if count), LONGEST_SEQUENCE)
    if tokens is None:
        return min(USUAL_TOKENS if task.auto == CAUSAL else TOKENS, most)
    if not 1 <= tokens <= most:
        raise PlacerError(
            f"'{asked.file}': sequences of {tokens:,} tokens", f"the model takes 1 to {most:,}"
        )
    return tokens


def _architecture(
    asked: Configuration, config: Any, module: Any, length: int
) -> Architecture | None:
    """Return the dimensions of a decoder: read from the file, else counted in the module; None if
    the configuration does not give them.
    """
    decoder = configured_decoder(asked)
    if decoder is not None:
        return decoder.architecture(length)
    text = config.get_text_config()
    layers, width = (getattr(text, key, None) for key in ("num_hidden_layers", "hidden_size"))
    heads = getattr(text, "num_attention_heads", None)
    if not (layers and width and heads):
        return None
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    head = getattr(text, "head_dim", None) or width // heads
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    total = sum(sizes.values())
    experts = getattr(text, "num_experts", None) or getattr(text, "n_routed_experts", None) or 1
    idle = 1 - (getattr(text, "num_experts_per_tok", None) or 1) / experts
    active = total - round(idle * sum(n for name, n in sizes.items() if ".experts." in name))
    head_weight = getattr(module.get_output_embeddings(), "weight", None)
    tied = any(p is head_weight for p in module.get_input_embeddings().parameters())
    embedding = load_torch().nn.Embedding
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
        return module(**batch).loss


@contextmanager
def _unpacked(device: torch.device) -> Iterator[None]:
    """Keep transformers from looking for several texts in one sequence on the meta device.

    Notes
    -----
    Decoders look at the values of positions where they are given no mask, and the meta device has
    none. The batches of this module have one text in each sequence.
    """
    try:
        masking = import_module("transformers.masking_utils")
    except ImportError:  # a release that does not look
        masking = None
    looked_up = getattr(masking, PACKED, None)
    if device.type != "meta" or looked_up is None:
        yield
        return
    setattr(masking, PACKED, lambda positions: None)
    try:
        yield
    finally:
        setattr(masking, PACKED, looked_up)


def _load_transformers() -> ModuleType:
    # Read when it is imported: even a model that asks for pretrained parts then finds no network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError:
        raise PlacerError(
            "hf: needs Hugging Face transformers, which is not installed",
            f"install it: {install_line('hf')}",
        ) from None
    loaded: ModuleType = transformers
    return loaded


@contextmanager
def _one_line(file: Path, transformers: ModuleType) -> Iterator[None]:
    """Say errors in one line, and keep warnings about configurations off the terminal."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    except PlacerError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise PlacerError(
            f"transformers cannot make a model of '{file}': {reason}", "correct the configuration"
        ) from None
    finally:
        transformers.logging.set_verbosity(before)


def _prepare_for_training(config: Any) -> None:
    """Set what a configuration may leave to generation and that changes no size."""
    if getattr(config, "use_cache", False):
        config.use_cache = False  # keys of earlier tokens are kept for generation alone
    for token in ("pad_token_id", "decoder_start_token_id"):
        if getattr(config, "is_encoder_decoder", False) and getattr(config, token, None) is None:
            setattr(config, token, 0)  # labels are shifted by these; any token does


def _make(transformers: ModuleType, config: Any) -> tuple[_Task, Any]:
    """Make the model for the task that the configuration names (``architectures``), else for
    the first that its type can do.
    """
    named = (getattr(config, "architectures", None) or [""])[0]
    speech = hasattr(config, "num_mel_bins")
    fitting = [
        task for task in TASKS if named.endswith(task.endings) and (task.auto != SPEECH or speech)
    ]
    for task in fitting or TASKS:
        try:
            return task, getattr(transformers, task.auto).from_config(
                config, trust_remote_code=False
            )
        except ValueError as error:
            if "Unrecognized configuration class" not in str(error):
                raise
    known = ", ".join(task.auto.removeprefix("AutoModelFor") for task in TASKS)
    raise PlacerError(
        f"model type '{config.model_type}' has none of the tasks {known}",
        "profile package.module:function instead",
    )


def _vocabulary(config: Any) -> int:
    return int(config.get_text_config().vocab_size)


def _image_size(config: Any) -> int:
    size = getattr(config, "image_size", None) or 224
    return int(size if isinstance(size, int) else size[0])


def _text(config: Any, samples: int, tokens: int, device: torch.device) -> Any:
    return load_torch().randint(
        1, _vocabulary(config), (samples, tokens), device=device, generator=generator(device)
    )


def _labels(config: Any, samples: int, device: torch.device) -> Any:
    return load_torch().randint(
        config.num_labels, (samples,), device=device, generator=generator(device)
    )


def _hidden(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    text, labels = masked_text(samples, tokens, _vocabulary(config), device)
    return {"input_ids": text, "labels": labels}


def _next(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": text}


def _classes(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": _labels(config, samples, device)}


def _tags(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": text % config.num_labels}


def _pictures(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    pictures, labels = images(samples, _image_size(config), config.num_labels, device)
    return {"pixel_values": pictures, "labels": labels}


def _speech(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    """Draw mel spectra, two frames for each position of the encoder (Whisper), and their text."""
    shape = (samples, config.num_mel_bins, 2 * config.max_source_positions)
    spectra = load_torch().randn(shape, device=device, generator=generator(device))
    return {"input_features": spectra, "labels": _text(config, samples, tokens, device)}


CAUSAL, SPEECH = "AutoModelForCausalLM", "AutoModelForSpeechSeq2Seq"
_GENERATING, _MASKED = ("ForConditionalGeneration",), ("ForMaskedLM", "ForPreTraining")
TASKS = (
    _Task(_MASKED, "AutoModelForMaskedLM", "masked language model, {tokens} tokens", _hidden),
    _Task(_GENERATING, SPEECH, "speech to {tokens} tokens", _speech),
    _Task(_GENERATING, "AutoModelForSeq2SeqLM", "{tokens} tokens to {tokens} tokens", _next),
    _Task(("ForCausalLM", "LMHeadModel"), CAUSAL, "language model, {tokens} tokens", _next),
    *(
        _Task((f"For{kind}",), f"AutoModelFor{kind}", words, batch)
        for kind, words, batch in (
            ("ImageClassification", "pictures of {size} x {size}", _pictures),
            ("SequenceClassification", "classes of texts of {tokens} tokens", _classes),
            ("TokenClassification", "classes of {tokens} tokens", _tags),
        )
    ),
)
"""In the order in which they are tried for a configuration that names none."""
