"""The profile that `placer profile` writes or adds to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from placer.cli.output import check_targets
from placer.records import replace

if TYPE_CHECKING:
    from placer.workload.profile import ModelProfile


@dataclass(frozen=True, kw_only=True, slots=True)
class OutFile:
    """The profile's file: as typed (empty: not yet named), and its folder before a target could
    change the current one.
    """

    typed: str
    folder: Path

    @classmethod
    def of(cls, typed: str | None) -> OutFile:
        """Check what was typed, before the target is loaded."""
        check_targets(typed)
        made = cls(typed=typed or "", folder=Path.cwd())
        if typed is not None:
            made.old()
        return made

    def named(self, model: str) -> OutFile:
        """Give the file the name of the model, if it has none yet."""
        if self.typed:
            return self
        made = replace(
            self, typed=(re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.") or "model") + ".json"
        )
        check_targets(made.path)
        return made

    @property
    def path(self) -> str:
        """Where it is, whatever the current folder is now."""
        return str(self.folder / self.typed)

    def old(self) -> ModelProfile | None:
        """Read the profile if the file exists."""
        from placer.workload.profile import load_profile

        return load_profile(str(Path(self.path).resolve())) if Path(self.path).exists() else None


def model_word(path: str) -> str:
    """Write a file as --model takes it: with a folder or .json, else it would be a name."""
    return path if "/" in path or path.endswith(".json") else f"./{path}"
