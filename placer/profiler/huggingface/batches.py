"""What models of Hugging Face take: tasks, and synthetic batches for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.builtin.batches import generator, images, masked_text
from placer.profiler.torch_import import load_torch

if TYPE_CHECKING:
    import torch

Batch = Callable[[Any, Any, int, int, "torch.device"], dict[str, Any]]
"""From module, configuration, samples, tokens and device to what the model takes."""


@dataclass(frozen=True)
class Task:
    """How models of one kind are made and what they take; ``endings`` are those of their class
    names.
    """

    endings: tuple[str, ...]
    auto: str
    words: str
    batch: Batch


def task_of(named: str, config: Any) -> Task:
    """Find what a class that ``architectures`` names does."""
    speech, both = hasattr(config, "num_mel_bins"), getattr(config, "is_encoder_decoder", False)
    for task in TASKS:
        if named.endswith(task.endings) and (task.auto != SPEECH or speech):
            return CAUSAL if task.auto == SEQUENCES and not both else task
    return ANY


def image_size(config: Any) -> int:
    """Return the width of the pictures that a model takes; 224 where nobody says."""
    seen = getattr(config, "vision_config", None) or config
    size = getattr(seen, "image_size", None) or 224
    return int(size if isinstance(size, int) else size[0])


def _vocabulary(config: Any) -> int:
    return int(config.get_text_config().vocab_size)


def _text(config: Any, samples: int, tokens: int, device: torch.device) -> Any:
    return load_torch().randint(
        1, _vocabulary(config), (samples, tokens), device=device, generator=generator(device)
    )


def _labels(config: Any, samples: int, device: torch.device) -> Any:
    return load_torch().randint(
        config.num_labels, (samples,), device=device, generator=generator(device)
    )


def _hidden(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    text, labels = masked_text(samples, tokens, _vocabulary(config), device)
    order = {"next_sentence_label", "sentence_order_label"} & set(_keywords(module))
    follows = dict.fromkeys(order, labels[:, 0] % 2)  # of BERT's and ALBERT's pre-training
    return {"input_ids": text, "labels": labels, **follows}


def _next(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": text}


def _classes(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": _labels(config, samples, device)}


def _tags(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    return {"input_ids": text, "labels": text % config.num_labels}


def _answers(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    text = _text(config, samples, tokens, device)
    ends = dict.fromkeys(("start_positions", "end_positions"), text[:, 0] % tokens)
    return {"input_ids": text, **ends}


def _pictures(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    pictures, labels = images(samples, image_size(config), config.num_labels, device)
    return {"pixel_values": pictures, "labels": labels}


def _speech(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    """Draw mel spectra, two frames for each position of the encoder (Whisper), and their text."""
    shape = (samples, config.num_mel_bins, 2 * config.max_source_positions)
    spectra = load_torch().randn(shape, device=device, generator=generator(device))
    return {"input_features": spectra, "labels": _text(config, samples, tokens, device)}


def _any(
    module: Any, config: Any, samples: int, tokens: int, device: torch.device
) -> dict[str, Any]:
    """Draw texts, pictures or both for a model without a task, such as CLIP or an encoder alone.

    Raises
    ------
    PlacerError
        If it takes neither.
    """
    known, batch = _keywords(module), {}
    if "input_ids" in known:
        batch["input_ids"] = _text(config, samples, tokens, device)
    if "pixel_values" in known:
        batch["pixel_values"] = images(samples, image_size(config), 2, device)[0]
    if "return_loss" in known:
        batch["return_loss"] = True
    if "decoder_input_ids" in known and "input_ids" in batch:
        batch["decoder_input_ids"] = batch["input_ids"]
    if not batch:
        raise PlacerError(
            f"{type(module).__name__} takes neither texts nor pictures",
            "profile package.module:function instead",
        )
    return batch


def _keywords(module: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(module.forward).parameters)


SPEECH, SEQUENCES = "AutoModelForSpeechSeq2Seq", "AutoModelForSeq2SeqLM"
_GENERATING = ("ForConditionalGeneration",)
CAUSAL = Task(
    ("ForCausalLM", "LMHeadModel"), "AutoModelForCausalLM", "language model, {tokens} tokens", _next
)
ANY = Task((), "AutoModel", "without a task", _any)
TASKS = (
    Task(
        ("ForMaskedLM", "ForPreTraining"),
        "AutoModelForMaskedLM",
        "masked language model, {tokens} tokens",
        _hidden,
    ),
    Task(_GENERATING, SPEECH, "speech to {tokens} tokens", _speech),
    Task(_GENERATING, SEQUENCES, "{tokens} tokens to {tokens} tokens", _next),
    CAUSAL,
    *(
        Task((f"For{kind}",), f"AutoModelFor{kind}", words, batch)
        for kind, words, batch in (
            ("ImageClassification", "pictures of {size} x {size}", _pictures),
            ("SequenceClassification", "classes of texts of {tokens} tokens", _classes),
            ("TokenClassification", "classes of {tokens} tokens", _tags),
            ("QuestionAnswering", "answers in texts of {tokens} tokens", _answers),
        )
    ),
)
"""In the order in which they are tried for a configuration that names none."""
