"""Configurations of Hugging Face transformers and diffusers as files: read and checked, nothing
executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json

MOST_BYTES = 2**22
"""Configurations are a few kB; those with many label names reach some MB."""
DIFFUSION = "_class_name"
"""Key under which diffusers writes the class of a model."""
QUANTIZED_BYTES = {"awq": 0.5, "bitsandbytes": 1.0, "eetq": 1.0, "gptq": 0.5, "hqq": 0.5}
"""Bytes of a weight by ``quant_method``, where ``bits`` does not say: formats of integers, which no
optimizer changes. Those in which models are published and trained further (FP8 of DeepSeek-V3,
MXFP4 of gpt-oss) are not among them: training software takes them apart into BF16.
"""


class MissingKeyError(PlacerError):
    """A key that the file leaves to the defaults of its model type, or lacks."""


class Configuration(Struct, frozen=True, kw_only=True):
    """A ``config.json`` that asks for no code of its own."""

    file: Path
    values: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        """Return the kind of model as transformers names it, or the class of a diffusion model."""
        return str(self.values.get("model_type") or self.values[DIFFUSION])

    @property
    def named_class(self) -> str:
        """Return the class that ``architectures`` names; empty where it names none."""
        named = self.values.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else ""

    @property
    def text_part(self) -> Configuration:
        """Return the part that is about text where there are several, else all."""
        text = self.values.get("text_config")
        if not isinstance(text, Mapping) or not isinstance(text.get("model_type"), str):
            return self
        return Configuration(file=self.file, values=text)

    @property
    def weight_bytes(self) -> float | None:
        """Return the bytes of a weight that is quantized to integers; None where none is."""
        asked = self.values.get("quantization_config")
        if not isinstance(asked, Mapping):
            return None
        method = str(asked.get("quant_method") or "bitsandbytes").lower()
        if method not in QUANTIZED_BYTES:
            return None
        inner = Configuration(file=self.file, values=asked)
        if method == "bitsandbytes":
            return 0.5 if inner.flag("load_in_4bit", False) else QUANTIZED_BYTES[method]
        return (
            inner.whole("bits", "w_bit", "nbits", default=0, least=0, most=8) / 8
            or (QUANTIZED_BYTES[method])
        )

    @property
    def name(self) -> str:
        """Return the name of the model: the folder's, or the file's if it has one of its own.

        >>> files = Path("/models/own/config.json"), Path("/models/bert.json")
        >>> [Configuration(file=file, values={}).name for file in files]
        ['own', 'bert']
        """
        if self.file.name in ("config.json", "params.json"):
            return self.file.resolve().parent.name or "config"
        return self.file.stem

    def whole(
        self, *names: str, default: int | None = None, least: int = 1, most: int = 2**24
    ) -> int:
        """Read a whole number under the first of some names that is there. Raises `PlacerError` if
        it is missing and has no default, or is not a whole number from ``least`` to ``most``.
        """
        for name in names:
            value = self.values.get(name)
            if value is not None:
                if type(value) is not int or not least <= value <= most:
                    raise PlacerError(
                        f"'{self.file}': {name} is {str(value)[:40]}",
                        f"give a whole number from {least} to {most:,}",
                    )
                return value
        if default is None:
            raise MissingKeyError(
                f"'{self.file}': {names[0]} is missing", "give the whole config.json of the model"
            )
        return default

    def flag(self, name: str, default: bool) -> bool:
        """Read a truth value. Raises `PlacerError` if it is of another type."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise PlacerError(f"'{self.file}': {name} is {str(value)[:40]}", "give true or false")
        return value


def read_configuration(path: str | Path) -> Configuration:
    """Read a local ``config.json``, or that of a folder. Raises `PlacerError` if there is no such
    file, it is no configuration of a model (an adapter's, a pipeline's), or it asks for code of its
    own.
    """
    file = configuration_file(path)
    if file is None:
        raise PlacerError(
            f"no configuration at '{str(path)[:200]}'",
            "give a local config.json or its folder; nothing is downloaded",
        )
    values = _object(file)
    if isinstance(values.get("model_type"), str):
        return Configuration(file=file, values=values)
    if "n_layers" in values and "dim" in values:
        return Configuration(file=file, values=_of_params(Configuration(file=file, values=values)))
    named = values.get(DIFFUSION)
    if isinstance(named, str) and not named.endswith("Pipeline"):
        return Configuration(file=file, values=values)
    raise _no_model(file, values)


BESIDE = {
    "tokenizer_class": "the configuration of a tokenizer",
    "image_processor_type": "the configuration of a preprocessor",
    "feature_extractor_type": "the configuration of a preprocessor",
    "weight_map": "the index of files of weights",
    "eos_token_id": "the configuration of generation",
}
"""Keys of files that lie beside a ``config.json``, and what such a file is."""


def _no_model(file: Path, values: Mapping[str, Any]) -> PlacerError:
    """Say what a file is that is no configuration of a model, and which to give."""
    if "peft_type" in values:
        base = str(values.get("base_model_name_or_path") or "a model that it does not name")[:80]
        rank, kind = values.get("r"), str(values["peft_type"])[:20]
        if kind == "LORA" and type(rank) is int:
            return PlacerError(
                f"'{file}' is an adapter (LoRA of rank {rank}) of {base}",
                f"give --model {base} --lora {rank}, or --qlora {rank} over 4-bit weights",
            )
        return PlacerError(
            f"'{file}' is an adapter ({kind}) of {base}", f"give --model {base} and --lora RANK"
        )
    if DIFFUSION in values:
        return PlacerError(
            f"'{file}' lists the parts of a {str(values[DIFFUSION])[:60]}",
            "give the config.json in its folder unet or transformer",
        )
    kind = next((words for key, words in BESIDE.items() if key in values), "")
    what = f"is {kind}, which says nothing of sizes" if kind else "names no model_type"
    return PlacerError(f"'{file}' {what}", "give the config.json of a transformers model")


def _of_params(asked: Configuration) -> dict[str, Any]:
    """Write what Meta and Mistral publish as ``params.json`` in the words of transformers. The
    hidden width of Llama is two thirds of four widths, times a factor, rounded up to a multiple
    (meta-llama/llama-models, ``FeedForward``). Llama 1 and 2 leave the vocabulary to the tokenizer.
    """
    values = asked.values
    if others := [key for key in values if key.startswith(("moe_args", "vision"))]:
        raise PlacerError(
            f"'{asked.file}' has parts beside a plain decoder ({others[0]})",
            "give the config.json of the same model on Hugging Face",
        )
    width, multiple = asked.whole("dim", most=2**20), asked.whole("multiple_of", default=256)
    factor = values.get("ffn_dim_multiplier") or 1.0
    if not isinstance(factor, int | float) or not 0 < factor < 100:
        raise PlacerError(
            f"'{asked.file}': ffn_dim_multiplier is {str(factor)[:40]}", "give a factor above 0"
        )
    hidden = int(factor * int(8 * width / 3))
    experts = values.get("moe")
    return {
        "model_type": "mixtral" if isinstance(experts, Mapping) else "llama",
        "hidden_size": width,
        "num_hidden_layers": values["n_layers"],
        "num_attention_heads": values.get("n_heads"),
        "num_key_value_heads": values.get("n_kv_heads"),
        "head_dim": values.get("head_dim"),
        "intermediate_size": values.get("hidden_dim") or -(-hidden // multiple) * multiple,
        "vocab_size": 32_000 if values.get("vocab_size", -1) == -1 else values["vocab_size"],
        **(experts if isinstance(experts, Mapping) else {}),
    }


def configuration_file(path: str | Path) -> Path | None:
    """Find the configuration; a name without a file is never looked up on the network."""
    try:
        file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
        return file if file.is_file() else None
    except (OSError, ValueError):  # too long, or with a NUL
        return None


def _object(file: Path) -> dict[str, Any]:
    try:
        data = bounded(file, "give the config.json of a model, not its weights", MOST_BYTES)
        values = parse_json(data.decode("utf-8"))
        if not isinstance(values, dict):
            raise PlacerError(f"'{file}' is not a JSON object", "give the config.json of a model")
        _refuse_foreign_code(file, values)
    except (OSError, ValueError, RecursionError) as error:
        raise PlacerError(
            f"'{file}' is not JSON: {str(error)[:120]}", "give the config.json of a model"
        ) from None
    return values


def _refuse_foreign_code(file: Path, value: Any) -> None:
    """Refuse classes and attention kernels that transformers would fetch and run."""
    if isinstance(value, list):
        for part in value:
            _refuse_foreign_code(file, part)
    if not isinstance(value, dict):
        return
    for key, part in value.items():
        if key == "auto_map" or ("attn_implementation" in key and "/" in str(part)):
            raise PlacerError(
                f"'{file}' needs code of its own ({key[:40]})",
                "placer runs none: remove it, or profile package.module:function",
            )
        _refuse_foreign_code(file, part)
