"""The encoding of a vector of 32-bit floats for the wire: as it is, as FP16, or as INT8 with one
scale.
"""

from __future__ import annotations

from typing import Any

from placer.errors import unknown
from placer.workload.profile import COMPRESSION_BYTES

SCALE_BYTES = 4
"""Bytes before an INT8 message: its scale, a 32-bit float."""
LARGEST_HALF = 65504.0
"""Largest finite FP16 number."""


class Codec:
    """The encoding of one compression.

    Parameters
    ----------
    compression
        ``none``, ``fp16`` (clamped to its range) or ``int8`` (127 steps on each side of 0, one
        scale a message).
    """

    def __init__(self, compression: str) -> None:
        if compression not in COMPRESSION_BYTES:
            raise unknown("compression", compression, COMPRESSION_BYTES)
        self.compression = compression

    def payload(self, elements: int) -> int:
        """Return the bytes of some elements without a header."""
        return int(elements * COMPRESSION_BYTES[self.compression])

    def size(self, elements: int) -> int:
        """Return the bytes of a message of some elements."""
        return self.payload(elements) + (SCALE_BYTES if self.compression == "int8" else 0)

    def encode(self, vector: Any) -> Any:
        """Build the message of a vector, a tensor of bytes."""
        import torch

        if self.compression == "none":
            return vector.contiguous().view(torch.uint8)
        if self.compression == "fp16":
            return vector.clamp(-LARGEST_HALF, LARGEST_HALF).half().view(torch.uint8)
        scale = vector.abs().max().reshape(1) / 127 if len(vector) else torch.zeros(1)
        steps = (vector / scale.clamp(min=torch.finfo(torch.float32).tiny)).round().to(torch.int8)
        return torch.cat([scale.float().view(torch.uint8), steps.view(torch.uint8)])

    def empty(self, elements: int) -> Any:
        """Allocate room for a message of some elements."""
        import torch

        return torch.empty(self.size(elements), dtype=torch.uint8)

    def decode(self, message: Any) -> Any:
        """Read a message back: a vector of 32-bit floats."""
        import torch

        if self.compression == "none":
            return message.view(torch.float32)
        if self.compression == "fp16":
            return message.view(torch.float16).float()
        scale = message[:SCALE_BYTES].clone().view(torch.float32)
        return message[SCALE_BYTES:].view(torch.int8).float() * scale
