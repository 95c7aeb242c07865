"""Devices in cells of price lists: ``8x NVIDIA H100 80GB SXM5``."""

from __future__ import annotations

import re
from typing import NamedTuple

from placer.market.accelerators import accelerator_figures
from placer.market.catalog import Catalog
from placer.market.words.selection import gpus_named

MOST_COUNT = 64
"""Most devices of one machine; a larger number is something else."""
_COUNT = re.compile(
    r"(?:^|[\s(/,+-])([0-9]{1,2})\s*(?:x|×|\*)\s*(?=[A-Za-z]|$)|[A-Za-z0-9)]\s*(?:x|×)\s*([0-9]{1,2})\b"
)
_MEMORY = re.compile(r"\b([0-9]{2,3})\s*(?:gb|gib|g)\b", re.IGNORECASE)
_ALONE = re.compile(r"^(?:pcie|sxm[0-9]?|gpu|gb|[0-9]+)$", re.IGNORECASE)
_LONGEST = 4  # Words of a device's name


class Device(NamedTuple):
    """A device of a cell, how many there are (None: not said), and what was assumed of it."""

    gpu: str
    number: int | None
    assumed: str = ""


def device_in(text: str, book: Catalog, memory_gb: float | None = None) -> Device | None:
    """Return the device that a cell names; None without one.

    ``memory_gb``: of one device, where another cell says it. Of several devices of a name the one
    with the least memory counts, which is never too good.
    """
    count = _COUNT.search(text)
    number = None if count is None else int(count[1] or count[2])
    rest = text if count is None else text.replace(count[0], " ", 1) if count[1] else text
    if number is not None and not 1 <= number <= MOST_COUNT:
        return None
    parts = re.split(r"\s[+&]\s", text)
    if len(parts) > 1 and all(device_in(part, book) for part in parts):
        return None  # devices of several kinds
    words = re.findall(r"[A-Za-z0-9.]+", rest)
    found = _longest(words, book)
    if not found:
        return None
    stated = _MEMORY.search(text)
    size = float(stated[1]) if stated else memory_gb
    fit = [gpu for gpu in found if size and 0.85 * size <= book.gpus[gpu].memory_gib <= 1.05 * size]
    if len(fit or found) == 1:
        gpu = (fit or found)[0]
        return Device(gpu, number, _of_cards(text, gpu))
    least = min(
        fit or found, key=lambda gpu: (book.gpus[gpu].memory_gib, book.gpus[gpu].fp16_tflops)
    )
    others = ", ".join(gpu for gpu in fit or found if gpu != least)
    return Device(least, number, f"'{text}' may be {least} or {others}: {least} is assumed")


def _of_cards(text: str, gpu: str) -> str:
    """Say that cards are taken for devices with NVLink, where no row of the book is theirs."""
    said = re.search(r"(?i)\bpcie\b", text) and not gpu.endswith("PCIe")
    linked = accelerator_figures(gpu).get("nvlink_gb_per_s") if said else None
    return f"'{text}' is taken for {gpu} with NVLink: several cards may be slower" * bool(linked)


def _longest(words: list[str], book: Catalog) -> list[str]:
    """Return the devices that the longest run of words names."""
    for length in range(min(_LONGEST, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if all(_ALONE.match(word) for word in run):
                continue
            if found := [
                gpu for gpu in gpus_named(" ".join(run), book) if book.gpus[gpu].kind == "gpu"
            ]:
                return found
    return []
