"""The input of an exporter: a checked manifest, its text, and what the machines are to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from keyword import iskeyword

from placer.documents.manifest import Manifest
from placer.errors import PlacerError
from placer.launch.mesh import Mesh, mesh_of

TRAIN = "train.py"
IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
"""Image with PyTorch and torchrun; the newest at hand when this was written."""
_PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")
_LABEL = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
"""The grammar of references (github.com/distribution/reference), with digests of SHA-256."""


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """A manifest to be exported.

    ``text`` is the manifest's file, copied into each export. ``train`` is the path of the training
    script on the machines, or ``module:function``: then placer's own runtime trains what the
    function returns. ``image`` is the container image of targets that run containers. ``edited``:
    the manifest was changed by hand. ``fallbacks``, in order, are for when its machines are not to
    be had.
    """

    manifest: Manifest
    text: str
    train: str = TRAIN
    image: str = IMAGE
    edited: bool = False
    fallbacks: tuple[ExportPlan, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that are no path, function or image."""
        if ":" in self.train and (
            not _FUNCTION.fullmatch(self.train)
            or self.module.endswith(".py")
            or any(map(iskeyword, re.split("[.:]", self.train)))  # no module is called so
        ):
            raise PlacerError(
                f"'{self.train}' is not a module:function",
                "as in mymodel.train:workload; or a script, such as src/train.py",
            )
        if ":" not in self.train and not _PATH.fullmatch(self.train):
            raise PlacerError(
                f"'{self.train}' is not a valid path of a training script",
                "use letters, digits, _ . - and /, such as src/train.py",
            )
        if not _IMAGE.fullmatch(self.image):
            raise PlacerError(
                f"'{self.image}' is not a valid name of a container image",
                "write it as docker pull does, such as ghcr.io/me/train:1",
            )

    @cached_property
    def mesh(self) -> Mesh:
        """Return the worlds that it starts."""
        return mesh_of(self.manifest)

    @property
    def uses_runtime(self) -> bool:
        """Return whether the machines start ``placer run``, not a script of the user's."""
        return ":" in self.train

    @property
    def module(self) -> str:
        """Return the module of the function."""
        return self.train.partition(":")[0]
