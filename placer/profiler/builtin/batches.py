"""Synthetic batches: the same every time, made on the device that takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placer.profiler.torch_import import load_torch

if TYPE_CHECKING:
    import torch

HIDDEN_SHARE = 0.15
"""Share of tokens that a masked language model predicts (Devlin et al., NAACL 2019)."""
IGNORED = -100
"""Label that PyTorch's cross entropy leaves out."""


def generator(device: torch.device) -> Any:
    """Return random numbers apart from the program's; None on the meta device."""
    return None if device.type == "meta" else load_torch().Generator(device=device).manual_seed(0)


def images(samples: int, size: int, classes: int, device: torch.device) -> Any:
    """Draw pictures, ``[samples, 3, size, size]``, and classes, ``[samples]``."""
    torch, numbers = load_torch(), generator(device)
    pictures = torch.randn(samples, 3, size, size, device=device, generator=numbers)
    return pictures, torch.randint(classes, (samples,), device=device, generator=numbers)


def masked_text(samples: int, tokens: int, vocabulary: int, device: torch.device) -> Any:
    """Draw text in which 15 % of the tokens are hidden. Tokens and labels, both
    ``[samples, tokens]``; labels are -100 where nothing is hidden. The first token is always
    hidden, so that no batch is without a loss.
    """
    torch, numbers = load_torch(), generator(device)
    text = torch.randint(1, vocabulary, (samples, tokens), device=device, generator=numbers)
    hidden = torch.rand(samples, tokens, device=device, generator=numbers) < HIDDEN_SHARE
    hidden[:, 0] = True
    return text.masked_fill(hidden, 0), text.masked_fill(~hidden, IGNORED)


def running_text(samples: int, tokens: int, vocabulary: int, device: torch.device) -> Any:
    """Draw text and the word after each word, both ``[samples, tokens]``."""
    text = load_torch().randint(
        vocabulary, (samples, tokens + 1), device=device, generator=generator(device)
    )
    return text[:, :-1], text[:, 1:]
