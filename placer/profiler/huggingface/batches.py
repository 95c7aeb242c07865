"""What models of Hugging Face take: tasks, and synthetic batches for each; and models of diffusers,
of which the part that is trained is made, on latent pictures.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from placer.errors import PlacerError, installed, printable
from placer.profiler.builtin import generator, images, masked_text
from placer.profiler.torch_import import torch
from placer.profiler.workload import Workload
from placer.workload.models.configuration import DIFFUSION, Configuration


class Asked(NamedTuple):
    """Which batch is wanted: of a module with its configuration, in samples of so many tokens."""

    module: Any
    config: Any
    samples: int
    tokens: int
    device: torch.device


Batch = Callable[[Asked], dict[str, Any]]
"""Makes what the model takes."""


@dataclass(frozen=True)
class Task:
    """How models of one kind are made and what they take; ``endings`` are of class names."""

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


def _text(asked: Asked) -> Any:
    """Draw tokens: ``[samples, tokens]``."""
    vocabulary = int(asked.config.get_text_config().vocab_size)
    shape, numbers = (asked.samples, asked.tokens), generator(asked.device)
    return torch.randint(1, vocabulary, shape, device=asked.device, generator=numbers)


def _hidden(asked: Asked) -> dict[str, Any]:
    vocabulary = int(asked.config.get_text_config().vocab_size)
    text, labels = masked_text(asked.samples, asked.tokens, vocabulary, asked.device)
    order = {"next_sentence_label", "sentence_order_label"} & set(_keywords(asked.module))
    follows = dict.fromkeys(order, labels[:, 0] % 2)  # of BERT's and ALBERT's pre-training
    return {"input_ids": text, "labels": labels, **follows}


def _text_with(wanted: Callable[[Asked, Any], dict[str, Any]]) -> Batch:
    """Make a function that draws tokens and what a model shall find in them."""

    def batch(asked: Asked) -> dict[str, Any]:
        text = _text(asked)
        return {"input_ids": text, **wanted(asked, text)}

    return batch


_next = _text_with(lambda _, text: {"labels": text})
_classes = _text_with(lambda asked, text: {"labels": text[:, 0] % asked.config.num_labels})
_tags = _text_with(lambda asked, text: {"labels": text % asked.config.num_labels})
ENDS = ("start_positions", "end_positions")
_answers = _text_with(lambda asked, text: dict.fromkeys(ENDS, text[:, 0] % asked.tokens))


def _pictures(asked: Asked) -> dict[str, Any]:
    size, classes = image_size(asked.config), asked.config.num_labels
    pictures, labels = images(asked.samples, size, classes, asked.device)
    return {"pixel_values": pictures, "labels": labels}


def _speech(asked: Asked) -> dict[str, Any]:
    """Draw mel spectra, two frames for each position of the encoder (Whisper), and their text."""
    shape = (asked.samples, asked.config.num_mel_bins, 2 * asked.config.max_source_positions)
    numbers = generator(asked.device)
    spectra = torch.randn(shape, device=asked.device, generator=numbers)
    return {"input_features": spectra, "labels": _text(asked)}


def _any(asked: Asked) -> dict[str, Any]:
    """Draw texts, pictures or both for a model without a task, such as CLIP."""
    known, batch = _keywords(asked.module), {}
    if "input_ids" in known:
        batch["input_ids"] = _text(asked)
    if "pixel_values" in known:
        size = image_size(asked.config)
        batch["pixel_values"] = images(asked.samples, size, 2, asked.device)[0]
    if "return_loss" in known:
        batch["return_loss"] = True
    if "decoder_input_ids" in known and "input_ids" in batch:
        batch["decoder_input_ids"] = batch["input_ids"]
    if not batch:
        raise PlacerError(
            f"{type(asked.module).__name__} takes neither texts nor pictures",
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


LATENT = 128
"""Width of a latent picture where the configuration does not say: 1,024 pixels, eight to one."""
PROMPT = {"UNet2DConditionModel": 77, "SD3Transformer2DModel": 333, "FluxTransformer2DModel": 512}
"""Tokens of a prompt: of CLIP; of CLIP and T5 together; of T5. Keys are the classes that get
batches."""


@contextmanager
def making(file: Path, library: str, logging: Any) -> Iterator[None]:
    """Say errors of a library in one line, and keep warnings about configurations off the
    terminal.
    """
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    except PlacerError:
        raise
    except Exception as error:
        reason = printable(" ".join(str(error).split()))[:200] or type(error).__name__
        raise PlacerError(
            f"{library} cannot make a model of '{file}': {reason}", "correct the configuration"
        ) from None
    finally:
        logging.set_verbosity(before)


def diffusion_model(asked: Configuration) -> Workload:
    """Make a workload of the class that the configuration names. Raises `PlacerError` if diffusers
    is missing, has no such class, or cannot make it; or if nobody says what the class takes.
    """
    name = str(asked.values[DIFFUSION])
    said = name[:60]
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when it is imported
    need = f"'{asked.file}' needs Hugging Face diffusers for {said}"
    diffusers = installed("diffusers", need, "hf")
    made = getattr(diffusers, name, None)
    if not (isinstance(made, type) and issubclass(made, diffusers.ModelMixin)):
        raise PlacerError(
            f"diffusers {diffusers.__version__} has no model {said}", "correct _class_name"
        )
    with making(asked.file, "diffusers", diffusers.utils.logging):
        module: Any = made.from_config(dict(asked.values))  # type: ignore[attr-defined]
    if name not in PROMPT:
        count = sum(p.numel() for p in module.parameters())
        raise PlacerError(
            f"'{asked.file}': {said} of diffusers has {count:,} parameters, and inputs that "
            "are not known",
            "profile package.module:function instead",
        )
    config = dict(module.config)
    return Workload(
        name=asked.name,
        title=f"{name}, latent pictures of {_width(config)} x {_width(config)}",
        family="transformer" if "Transformer" in name else "cnn",
        module=module.float(),
        batch=lambda samples, device: _batch(name, config, samples, device),
        loss=lambda trained, batch: trained(**batch)[0].float().pow(2).mean(),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        source=f"hf {asked.file.name}",
    )


def _width(config: Mapping[str, Any]) -> int:
    size = config.get("sample_size") or LATENT
    return int(size if isinstance(size, int) else size[0])


def _batch(
    name: str, config: Mapping[str, Any], samples: int, device: torch.device
) -> dict[str, Any]:
    """Draw noisy latent pictures, times, and prompts as their encoders would give them."""
    draw: Callable[..., Any] = lambda *shape: torch.randn(*shape, device=device)  # noqa: E731
    width, tokens = _width(config), PROMPT[name]
    prompt = config.get("cross_attention_dim") or config.get("joint_attention_dim")
    prompt = prompt if isinstance(prompt, int) else 768 if prompt is None else prompt[0]
    others: dict[str, Any] = {
        "timestep": torch.ones(samples, device=device),
        "encoder_hidden_states": draw(samples, tokens, prompt),
    }
    pictures = draw(samples, config["in_channels"], width, width)
    if name == "UNet2DConditionModel":
        if config.get("addition_embed_type") == "text_time":
            times = 6 * config["addition_time_embed_dim"]
            pooled = config["projection_class_embeddings_input_dim"] - times
            said = {"text_embeds": draw(samples, pooled), "time_ids": draw(samples, 6)}
            others["added_cond_kwargs"] = said
        return {"sample": pictures, **others}
    others["pooled_projections"] = draw(samples, config["pooled_projection_dim"])
    if name == "SD3Transformer2DModel":
        return {"hidden_states": pictures, **others}
    patches = width**2 // 4  # Flux packs two by two latents in its channels
    others |= {"img_ids": draw(patches, 3), "txt_ids": draw(tokens, 3)}
    if config.get("guidance_embeds"):
        others["guidance"] = others["timestep"]
    return {"hidden_states": draw(samples, patches, config["in_channels"]), **others}
