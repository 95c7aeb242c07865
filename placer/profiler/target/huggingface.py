"""Models of Hugging Face transformers from a configuration file: random weights, synthetic batches,
nothing downloaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.builtin.batches import generator, images, masked_text
from placer.profiler.target.torch_import import load_torch
from placer.profiler.workload import Workload

if TYPE_CHECKING:
    import torch

TOKENS = 128
"""Tokens of a text, unless the model takes fewer."""
RESERVED_POSITIONS = 2
"""RoBERTa counts positions from 2."""
CONVOLUTIONAL = frozenset(
    {
        "bit",
        "convnext",
        "convnextv2",
        "cvt",
        "efficientnet",
        "mobilenet_v1",
        "mobilenet_v2",
        "regnet",
        "resnet",
    }
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


def from_config(path: str | Path, tokens: int = TOKENS) -> Workload:
    """Make a workload from a local ``config.json``.

    Parameters
    ----------
    path
        The file, or a folder with a ``config.json``.
    tokens
        Length of texts.

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
    load_torch()
    file = _file(path)
    _refuse_foreign_code(file, _document(file))
    transformers = _load_transformers()
    with _one_line(file, transformers):
        config = transformers.AutoConfig.from_pretrained(
            str(file), local_files_only=True, trust_remote_code=False
        )
        _prepare_for_training(config)
        task, module = _make(transformers, config)
    return _workload(file, config, task, module, tokens)


def _workload(file: Path, config: Any, task: _Task, module: Any, tokens: int) -> Workload:
    torch = load_torch()
    positions = getattr(config, "max_position_embeddings", None) or getattr(
        config, "max_target_positions", None
    )
    length = min(tokens, positions - RESERVED_POSITIONS) if positions else tokens
    return Workload(
        name=file.parent.resolve().name if file.name == "config.json" else file.stem,
        title=f"{type(module).__name__}, "
        f"{task.words.format(tokens=length, size=_image_size(config))}",
        family="cnn" if config.model_type in CONVOLUTIONAL else "transformer",
        # A configuration may name FP16; training keeps weights in FP32 and uses autocast.
        module=module.float(),
        batch=lambda samples, device: task.batch(config, samples, length, device),
        loss=lambda module, batch: module(**batch).loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        source=f"hf {file.name}",
    )


def _file(path: str | Path) -> Path:
    """Find the configuration; a name without a file is never looked up on the network."""
    file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise PlacerError(
            f"no configuration at '{path}'",
            "give a local config.json or its folder; nothing is downloaded",
        )
    return file


def _document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PlacerError(
            f"'{file}' is not JSON: {str(error)[:120]}", "give the config.json of a model"
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("model_type"), str):
        raise PlacerError(
            f"'{file}' names no model_type", "give the config.json of a transformers model"
        )
    return document


def _refuse_foreign_code(file: Path, document: dict[str, Any]) -> None:
    """Refuse classes (auto_map) and attention kernels that transformers would fetch from a
    repository and run.
    """
    for key, value in document.items():
        if key == "auto_map" or ("attn_implementation" in key and "/" in str(value)):
            raise PlacerError(
                f"'{file}' needs code of its own ({key})",
                "placer runs none: remove it, or profile package.module:function",
            )
        if isinstance(value, dict):
            _refuse_foreign_code(file, value)


def _load_transformers() -> ModuleType:
    # Read when it is imported: even a model that asks for pretrained parts then finds no network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError:
        raise PlacerError(
            "hf: needs Hugging Face transformers, which is not installed",
            "install it: pip install transformers",
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


def _hidden(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    text, labels = masked_text(samples, tokens, _vocabulary(config), device)
    return {"input_ids": text, "labels": labels}


def _next(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": text}


def _classes(config: Any, samples: int, tokens: int, device: torch.device) -> dict[str, Any]:
    labels = load_torch().randint(
        config.num_labels, (samples,), device=device, generator=generator(device)
    )
    return {"input_ids": _text(config, samples, tokens, device), "labels": labels}


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


SPEECH = "AutoModelForSpeechSeq2Seq"
TASKS = (
    _Task(
        ("ForMaskedLM", "ForPreTraining"),
        "AutoModelForMaskedLM",
        "masked language model, {tokens} tokens",
        _hidden,
    ),
    _Task(("ForConditionalGeneration",), SPEECH, "speech to {tokens} tokens", _speech),
    _Task(
        ("ForConditionalGeneration",),
        "AutoModelForSeq2SeqLM",
        "{tokens} tokens to {tokens} tokens",
        _next,
    ),
    _Task(
        ("ForCausalLM", "LMHeadModel"),
        "AutoModelForCausalLM",
        "language model, {tokens} tokens",
        _next,
    ),
    _Task(
        ("ForImageClassification",),
        "AutoModelForImageClassification",
        "pictures of {size} x {size}",
        _pictures,
    ),
    _Task(
        ("ForSequenceClassification",),
        "AutoModelForSequenceClassification",
        "classes of texts of {tokens} tokens",
        _classes,
    ),
    _Task(
        ("ForTokenClassification",),
        "AutoModelForTokenClassification",
        "classes of {tokens} tokens",
        _tags,
    ),
)
"""In the order in which they are tried for a configuration that names none."""
