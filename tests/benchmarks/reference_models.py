"""The models of Erben et al. (PVLDB 17(6), 2024), to be counted.

Their parameters equal those of torchvision and of the paper's artifact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from placer.profiler.builtin.resnet import resnet
from placer.profiler.builtin.transformer import Encoder, masked_language_model
from placer.profiler.target.torch_import import load_torch
from placer.profiler.workload import Workload

WIDTHS, DEPTHS = (192, 384, 768, 1536), (3, 3, 27, 3)
"""Of the stages of ConvNeXt Large."""
TOKENS = 512


def convnext_large() -> Any:
    """ConvNeXt Large (Liu et al., A ConvNet for the 2020s, CVPR 2022) for 1,000 classes, as
    torchvision builds it.
    """
    torch = load_torch()
    nn: Any = torch.nn

    class ChannelNorm(nn.LayerNorm):  # type: ignore[misc]
        """Layer normalisation over the channels of an image."""

        def forward(self, x: Any) -> Any:
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):  # type: ignore[misc]
        """Depthwise 7 x 7 convolution, two linear layers, a scale for each channel."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.body = nn.Sequential(
                nn.LayerNorm(width, eps=1e-6),
                nn.Linear(width, 4 * width),
                nn.GELU(),
                nn.Linear(4 * width, width),
            )
            self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))

        def forward(self, x: Any) -> Any:
            return x + self.scale * self.body(self.depthwise(x).permute(0, 2, 3, 1)).permute(
                0, 3, 1, 2
            )

    layers: list[Any] = [nn.Conv2d(3, WIDTHS[0], 4, 4), ChannelNorm(WIDTHS[0], eps=1e-6)]
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True)):
        if stage:
            layers += [
                ChannelNorm(WIDTHS[stage - 1], eps=1e-6),
                nn.Conv2d(WIDTHS[stage - 1], width, 2, 2),
            ]
        layers += [Block(width) for _ in range(depth)]
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(1),
        ChannelNorm(WIDTHS[-1], eps=1e-6),
        nn.Flatten(),
        nn.Linear(WIDTHS[-1], 1000),
    )


def _images(samples: int, device: Any) -> Any:
    torch = load_torch()
    return torch.zeros(samples, 3, 224, 224, device=device), torch.zeros(
        samples, dtype=torch.long, device=device
    )


def _tokens(samples: int, device: Any) -> Any:
    torch = load_torch()
    tokens = torch.zeros(samples, TOKENS, dtype=torch.long, device=device)
    return tokens, tokens


def _loss(module: Any, batch: Any) -> Any:
    return load_torch().nn.functional.cross_entropy(
        module(batch[0]).flatten(0, -2), batch[1].flatten()
    )


BASE = Encoder(layers=12, width=768, heads=12, vocabulary=50265, positions=514, kinds=1)
LARGE = Encoder(layers=24, width=1024, heads=16, vocabulary=50265, positions=514, kinds=1)
XLM = Encoder(layers=24, width=1024, heads=16, vocabulary=250002, positions=514, kinds=1)
REFERENCE: dict[str, tuple[Callable[[], Any], str, int]] = {
    "resnet18": (partial(resnet, (2, 2, 2, 2), bottleneck=False), "cnn", 11_689_512),
    "resnet50": (partial(resnet, (3, 4, 6, 3)), "cnn", 25_557_032),
    "resnet152": (partial(resnet, (3, 8, 36, 3)), "cnn", 60_192_808),
    "wide-resnet101": (partial(resnet, (3, 4, 23, 3), widening=2), "cnn", 126_886_696),
    "convnext-large": (convnext_large, "cnn", 197_767_336),
    "roberta-base": (partial(masked_language_model, BASE), "transformer", 124_697_433),
    "roberta-large": (partial(masked_language_model, LARGE), "transformer", 355_412_057),
    "roberta-xlm": (partial(masked_language_model, XLM), "transformer", 560_142_482),
}
"""Builder, family, and parameters as torchvision and the artifact of Erben et al. count them."""


def reference(name: str) -> Workload:
    """One of the published models, on the meta device; images of 224 x 224, sequences of 512
    tokens.
    """
    torch = load_torch()
    build, family, _ = REFERENCE[name]
    with torch.device("meta"):
        module = build()
    return Workload(
        name=name,
        title=name,
        family=family,
        module=module,
        batch=_images if family == "cnn" else _tokens,
        loss=_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        source="tests/benchmarks/reference_models.py",
    )
