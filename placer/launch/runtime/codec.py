"""The encoding of a vector of 32-bit floats for the wire: as it is, as FP16, as INT8 or INT4 with
scales, or the places and signs of its largest values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from placer.errors import unknown
from placer.launch.serverless.protocol import int8_scale
from placer.workload.profile import COMPRESSION_BYTES, SPARSE_BITS, SPARSE_CHUNK, SPARSE_KEPT

SCALE_BYTES = 4
"""Bytes of a scale, a 32-bit float."""
INT4_CHUNK = 4_096
"""Values with one scale in INT4."""
LARGEST_HALF = 65504.0
"""Largest finite FP16 number."""
LEVELS = 2
"""Magnitudes that a sparse message tells apart; with the sign, two bits a value."""


class Codec:
    """The encoding of one compression: ``none``, ``fp16`` (clamped to its range), ``int8`` (127
    steps on each side of 0, one scale a message), ``int4`` (seven steps, one scale for `INT4_CHUNK`
    values) or ``sparse`` (of each chunk of 4,096 the 64 values of the largest magnitude: place,
    sign, and which of two magnitudes a message has).
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
        if self.compression == "int4":
            return SCALE_BYTES * -(-elements // INT4_CHUNK) + -(-elements // 2)
        if self.compression == "sparse":
            return LEVELS * SCALE_BYTES + -(-_kept(elements) * SPARSE_BITS // 8)
        return self.payload(elements) + (SCALE_BYTES if self.compression == "int8" else 0)

    def encode(self, vector: Any) -> Any:
        """Build the message of a vector, a tensor of bytes."""
        if self.compression == "none":
            return vector.contiguous().view(torch.uint8)
        if self.compression == "fp16":
            return vector.clamp(-LARGEST_HALF, LARGEST_HALF).half().view(torch.uint8)
        if self.compression == "int4":
            return _encode_int4(vector)
        if self.compression == "sparse":
            return _encode_sparse(vector)
        largest = torch.stack(vector.aminmax()).abs().max() if len(vector) else torch.zeros(())
        scale = torch.tensor([int8_scale(float(largest))], device=vector.device)
        # In place: fresh memory of a large message takes longer than the arithmetic.
        steps = (vector / scale.clamp(min=torch.finfo(torch.float32).tiny)).round_().to(torch.int8)
        return torch.cat([scale.float().view(torch.uint8), steps.view(torch.uint8)])

    def empty(self, elements: int) -> Any:
        """Allocate room for a message of some elements."""
        return torch.empty(self.size(elements), dtype=torch.uint8)

    def decode(self, message: Any, elements: int | None = None) -> Any:
        """Read a message back: 32-bit floats, as many as INT4 and sparse messages do not tell."""
        if self.compression == "none":
            return message.view(torch.float32)
        if self.compression == "fp16":
            return message.view(torch.float16).float()
        if self.compression == "int8":
            scale = message[:SCALE_BYTES].clone().view(torch.float32)
            return message[SCALE_BYTES:].view(torch.int8).float().mul_(scale)
        assert elements is not None
        decode = _decode_int4 if self.compression == "int4" else _decode_sparse
        return decode(message, elements)


def _chunks(vector: Any, size: int) -> Any:
    rows = -(-len(vector) // size)
    return torch.nn.functional.pad(vector, (0, rows * size - len(vector))).view(rows, size)


def _encode_int4(vector: Any) -> Any:
    rows = _chunks(vector, INT4_CHUNK)
    scales = rows.abs().amax(1, keepdim=True) / 7 if len(vector) else torch.zeros(0, 1)
    steps = (rows / scales.clamp(min=torch.finfo(torch.float32).tiny)).round()
    nibbles = (steps.view(-1)[: len(vector) + len(vector) % 2] + 8).to(torch.uint8)
    packed = nibbles[::2] * 16 + nibbles[1::2]
    return torch.cat([scales.float().view(-1).view(torch.uint8), packed])


def _decode_int4(message: Any, elements: int) -> Any:
    head = SCALE_BYTES * -(-elements // INT4_CHUNK)
    scales = message[:head].clone().view(torch.float32)
    packed = message[head:]
    nibbles = torch.stack([packed // 16, packed % 16], 1).view(-1)[:elements].float() - 8
    return (_chunks(nibbles, INT4_CHUNK) * scales[:, None]).view(-1)[:elements]


def _kept(elements: int) -> int:
    whole, rest = divmod(elements, SPARSE_CHUNK)
    return whole * SPARSE_KEPT + -(-rest * SPARSE_KEPT // SPARSE_CHUNK)


def _encode_sparse(vector: Any) -> Any:
    """Build a sparse message: the two magnitudes, then place, sign and magnitude of each value."""
    whole = len(vector) // SPARSE_CHUNK * SPARSE_CHUNK
    rows, rest = vector[:whole].view(-1, SPARSE_CHUNK), vector[whole:]
    places = rows.abs().topk(SPARSE_KEPT, dim=1).indices
    last = rest.abs().topk(_kept(len(rest))).indices
    place = torch.cat([places.reshape(-1), last])
    value = torch.cat([rows.gather(1, places).reshape(-1), rest[last]])
    size = value.abs()
    large = size > size.mean() if len(size) else size.bool()
    levels = torch.stack(
        [size[which].mean() if which.any() else size.new_zeros(()) for which in (~large, large)]
    )
    words = (place << 2 | (value < 0).long() << 1 | large.long()).numpy().astype(">u2")
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 16)[:, 16 - SPARSE_BITS :]
    packed = torch.from_numpy(np.packbits(bits.reshape(-1)))
    return torch.cat([levels.float().view(torch.uint8), packed])


def _decode_sparse(message: Any, elements: int) -> Any:
    head, count = LEVELS * SCALE_BYTES, _kept(elements)
    levels = message[:head].clone().view(torch.float32)
    bits = np.unpackbits(message[head:].numpy(), count=count * SPARSE_BITS).reshape(-1, SPARSE_BITS)
    words = torch.from_numpy(bits.astype(np.int64) @ (1 << np.arange(SPARSE_BITS)[::-1]))
    chunk = torch.arange(count) // SPARSE_KEPT
    sign = 1.0 - 2.0 * (words >> 1 & 1)
    vector = torch.zeros(elements)
    vector[chunk * SPARSE_CHUNK + (words >> 2)] = sign * levels[words & 1]
    return vector
