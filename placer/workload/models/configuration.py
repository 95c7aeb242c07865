"""Configurations of Hugging Face transformers as files: read and checked, nothing executed."""

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


class Configuration(Struct, frozen=True, kw_only=True):
    """A ``config.json`` that asks for no code of its own."""

    file: Path
    values: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        """Return the kind of model, as transformers names it."""
        return str(self.values["model_type"])

    @property
    def name(self) -> str:
        """Return the name of the model: the folder's, or the file's if it has one of its own."""
        if self.file.name == "config.json":
            return self.file.resolve().parent.name or "config"
        return self.file.stem

    def whole(
        self, *names: str, default: int | None = None, least: int = 1, most: int = 2**24
    ) -> int:
        """Read a whole number under the first of some names that is there.

        Raises
        ------
        PlacerError
            If it is missing and has no default, or is not a whole number from ``least`` to
            ``most``.
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
            raise PlacerError(
                f"'{self.file}': {names[0]} is missing", "give the whole config.json of the model"
            )
        return default

    def flag(self, name: str, default: bool) -> bool:
        """Read a truth value.

        Raises
        ------
        PlacerError
            If it is of another type.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise PlacerError(f"'{self.file}': {name} is {str(value)[:40]}", "give true or false")
        return value


def read_configuration(path: str | Path) -> Configuration:
    """Read a local ``config.json``, or that of a folder.

    Raises
    ------
    PlacerError
        If there is no such file, it is no configuration, or it asks for code of its own.
    """
    file = configuration_file(path)
    if file is None:
        raise PlacerError(
            f"no configuration at '{str(path)[:200]}'",
            "give a local config.json or its folder; nothing is downloaded",
        )
    values = _object(file)
    if not isinstance(values.get("model_type"), str):
        raise PlacerError(
            f"'{file}' names no model_type", "give the config.json of a transformers model"
        )
    return Configuration(file=file, values=values)


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
    """Refuse classes (auto_map) and attention kernels that transformers would fetch from a
    repository and run.
    """
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
