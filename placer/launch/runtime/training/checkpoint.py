"""Checkpoints: torch.distributed.checkpoint in a folder or a bucket, one for each world and step,
each with its identity, which is written last: without it a checkpoint is not there. They are read
without executing what is in them: metadata and single values are pickles, in which anyone who
writes to the folder could hide code.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from fsspec.core import url_to_fs
from torch.distributed.checkpoint import DefaultLoadPlanner, load, save
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.planner import ReadItem

from placer.errors import PlacerError
from placer.launch.runtime.wire import PeerLostError, is_peer_loss

SCHEMA = "placer.checkpoint/v1"
IDENTITY = "identity.json"
KEPT, KEPT_OF_GOSSIP = 2, 10
"""Newest steps whose checkpoints are kept: another world may not have the last yet. Regions of
asgd-ga do not wait for each other, and drift apart.
"""
STEP = "step-"
REMOVE = "remove that folder: an older one is used then"


class Checkpoints:
    """The checkpoints of one world, in a folder or at an address that fsspec knows, such as
    ``s3://bucket/run``: one place that all its machines reach.

    ``identity`` is what a resumed checkpoint must agree in: plan, strategy, seed and processes.
    """

    def __init__(self, place: str, world: int, identity: Mapping[str, Any]) -> None:
        self.place, self.world, self.identity = place, world, dict(identity)
        try:
            self.files, self.root = url_to_fs(place)
        except (ImportError, ValueError) as error:
            raise PlacerError(
                f"cannot keep checkpoints in '{place}': {error}",
                "install what fsspec needs for it (s3fs for s3://), or give a folder",
            ) from None

    def steps(self) -> set[int]:
        """Return the steps before which this world has a checkpoint."""
        self.files.invalidate_cache()
        found = self.files.glob(f"{self.root}/{STEP}*/world-{self.world}/{IDENTITY}")
        return {int(name.split("/")[-3].removeprefix(STEP)) for name in found}

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state before a step, by all processes of the world; then remove old ones."""
        folder = self._folder(step)
        leads, number = dist.get_rank() == 0, dist.get_rank()
        try:
            if leads:
                with suppress(FileNotFoundError):  # half of one, of a run that was killed
                    self.files.rm(folder, recursive=True)
                self.files.makedirs(folder, exist_ok=True)
            dist.barrier()
            save(state, storage_writer=FsspecWriter(self._address(step)))
            self.files.invalidate_cache()
            names = [name.rsplit("/", 1)[-1] for name in self.files.ls(folder, detail=False)]
            own = [name for name in names if name.startswith(f"__{number}_")]
            own += [".metadata"] if leads else []
            digests = gathered({name: self._digest(folder, name) for name in own})
            if leads:
                content = {name: digest for part in digests for name, digest in part.items()}
                whole = {"schema": SCHEMA, **self.identity, "step": step, "content": content}
                path = f"{folder}/{IDENTITY}"
                self.files.pipe_file(f"{path}.new", json.dumps(whole, indent=1).encode())
                self.files.mv(f"{path}.new", path)
                self._tidy()
        except (Exception, CheckpointException) as error:
            raise _loss(error) or PlacerError(
                f"cannot write the checkpoint {self._address(step)}: {_cause(error)}",
                "free some space or choose another --out",
                exit_code=1,
            ) from None

    def load(self, step: int, state: dict[str, Any]) -> None:
        """Fill a state with that before a step, by all processes of the world.

        One that is damaged, or of another plan, seed, model or number of processes, is refused.
        """
        folder, address = self._folder(step), self._address(step)
        if not all(gathered(self.files.exists(f"{folder}/{IDENTITY}"))):
            raise PlacerError(
                f"the checkpoint {address} is not on every machine of its world",
                "give all machines one place for it: --checkpoints",
            )
        content = self.check(step)
        own = sorted(content)[dist.get_rank() :: dist.get_world_size()]
        damaged = [name for name in own if self._digest(folder, name) != content[name]]
        for name in chain.from_iterable(gathered(damaged)):
            raise PlacerError(f"the checkpoint {address} is damaged: {name}", REMOVE)
        try:
            reader = PlainReader(address)
            reader.read_metadata()  # torch would look for other files if it were refused there
            load(state, storage_reader=reader, planner=PlainPlanner())
        except (Exception, CheckpointException) as error:
            raise _loss(error) or PlacerError(
                f"the checkpoint {address} is not of this model: {_cause(error)}",
                "choose another --out, or run without --resume",
            ) from None

    def check(self, step: int) -> dict[str, str]:
        """Refuse the checkpoint of another run; return the digest of each of its files."""
        address = self._address(step)
        try:
            known = json.loads(self.files.cat_file(f"{self._folder(step)}/{IDENTITY}"))
            content = {str(name): str(digest) for name, digest in known["content"].items()}
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            raise PlacerError(f"the checkpoint {address} has no identity", REMOVE) from None
        for name, value in {"schema": SCHEMA, **self.identity, "step": step}.items():
            if known.get(name) != value:
                raise PlacerError(
                    f"the checkpoint {address} has another {name} than this run: "
                    f"{str(known.get(name))[:80]}",
                    "choose another --out, or run without --resume",
                )
        return content

    def abandon_later(self, start: int, last: int) -> None:
        """Remove what only this world has after a resumed step; a longer run's stays."""
        for step in self.steps():
            if start < step <= last:
                self.files.rm(self._folder(step), recursive=True)

    def _tidy(self) -> None:
        kept = KEPT_OF_GOSSIP if self.identity.get("strategy") == "asgd-ga" else KEPT
        for old in sorted(self.steps())[:-kept]:
            self.files.rm(self._folder(old), recursive=True)
            with suppress(OSError):  # other worlds have folders there
                self.files.rmdir(self._folder(old).rsplit("/", 1)[0])

    def _folder(self, step: int) -> str:
        return f"{self.root}/{STEP}{step:08d}/world-{self.world}"

    def _address(self, step: int) -> str:
        return f"{self.place}/{STEP}{step:08d}/world-{self.world}"

    def _digest(self, folder: str, name: str) -> str:
        try:
            with self.files.open(f"{folder}/{name}", "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""


def gathered(own: Any) -> list[Any]:
    """Gather an object of each process of the world, in all of them."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    return every


def _loss(error: BaseException) -> PeerLostError | None:
    """Return the error of a process that has lost another meanwhile; None: it has not."""
    words = _cause(error)
    return PeerLostError(None, words) if is_peer_loss(RuntimeError(words)) else None


def _cause(error: BaseException) -> str:
    """Return the system's message: torch puts its own over that of a full disk."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, pickle.UnpicklingError):
            return str(inner)
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        failures = getattr(inner, "failures", None)  # of a CheckpointException, by rank
        first = next(iter(failures.values()), None) if failures else None
        own = first[0] if isinstance(first, tuple) else first
        inner = own if isinstance(own, BaseException) else inner.__cause__ or inner.__context__
    return " ".join(str(error).split())[:160]


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
