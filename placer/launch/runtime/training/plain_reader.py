"""Reads checkpoints of torch.distributed.checkpoint without executing what is in them: metadata and
single values are pickles, in which anyone who writes to the folder could hide code.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader
from torch.distributed.checkpoint.planner import ReadItem

METADATA = "torch.distributed.checkpoint."
"""Where the types of the metadata are."""
CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)
PLAIN = {("collections", "OrderedDict"), ("torch", "Size"), ("torch.serialization", "_get_layout")}


class PlainReader(FsspecReader):  # type: ignore[misc,unused-ignore]
    """A reader that refuses metadata of other types than torch writes."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        """Look the metadata through, then read it."""
        path = self._get_metadata_path(kwargs.get("rank"))
        with self.fs.create_stream(path, "rb") as file:
            _Plain(file).load()
        return super().read_metadata(*args, **kwargs)


class PlainPlanner(DefaultLoadPlanner):  # type: ignore[misc,unused-ignore]
    """A planner that takes tensors and plain values alone."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Look a value through, then read it."""
        torch.load(value, weights_only=True)
        value.seek(0)
        super().load_bytes(read_item, value)


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Find a type of the metadata; functions and all other types are refused."""
        constant = module == "torch" and isinstance(getattr(torch, name, None), CONSTANTS)
        if module.startswith(METADATA) or constant or (module, name) in PLAIN:
            found = super().find_class(module, name)
            if isinstance(found, type) or not module.startswith(METADATA):
                return found
        raise pickle.UnpicklingError(f"its metadata names {module}.{name}")
