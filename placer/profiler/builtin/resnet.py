"""Residual networks for pictures (He et al., Deep Residual Learning for Image Recognition, CVPR
2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from placer.profiler.builtin.batches import images
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload

if TYPE_CHECKING:
    import torch


def resnet50_like() -> Workload:
    """Build ResNet-50 with the stride in the 3 x 3 convolution, as torchvision and NVIDIA do.
    25,557,032 parameters in 161 tensors, 4.09 G multiply-adds for a picture of 224 x 224.
    """
    title, module = "ResNet-50, pictures of 224 x 224, 1,000 classes", resnet((3, 4, 6, 3))
    return _workload("resnet50-like", title, module, 224, 1000)


def cnn_small() -> Workload:
    """Build ResNet-20 for 32 x 32: 272,474 parameters in 65 tensors, 41 M multiply-adds."""
    nn: Any = load_torch().nn
    stem = [*convolution(3, 16, 3), nn.ReLU(inplace=True)]
    module = nn.Sequential(
        *stem, *_stages((3, 3, 3), 16, (16, 32, 64), _plain_body), *_head(64, 10)
    )
    return _workload("cnn-small", "ResNet-20, pictures of 32 x 32, 10 classes", module, 32, 10)


def resnet(blocks: Sequence[int], bottleneck: bool = True, widening: int = 1) -> torch.nn.Module:
    """Build a residual network for pictures of 224 x 224 and 1,000 classes.

    blocks: Blocks of each of the four stages: (3, 4, 6, 3) for ResNet-50.
    bottleneck: Blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions, else of two 3 x 3 ones.
    widening: Factor for the inner width of bottlenecks: 2 in Wide ResNet-101-2 (Zagoruyko and
        Komodakis, BMVC 2016).
    """
    nn: Any = load_torch().nn
    stem = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    widths = [64 * 2**stage * (4 if bottleneck else 1) for stage in range(4)]

    def bottleneck_body(before: int, width: int, stride: int) -> list[Any]:
        inner, relu = width // 4 * widening, nn.ReLU(inplace=True)
        first, second = convolution(before, inner, 1), convolution(inner, inner, 3, stride)
        return [*first, relu, *second, relu, *convolution(inner, width, 1)]

    body = bottleneck_body if bottleneck else _plain_body
    module: torch.nn.Module = nn.Sequential(
        *stem, *_stages(blocks, 64, widths, body), *_head(widths[-1], 1000)
    )
    return module


def convolution(before: int, after: int, kernel: int, stride: int = 1) -> list[Any]:
    """Build a convolution without bias and its batch norm: three tensors."""
    nn: Any = load_torch().nn
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(after)]


def _plain_body(before: int, width: int, stride: int) -> list[Any]:
    relu = load_torch().nn.ReLU(inplace=True)
    return [*convolution(before, width, 3, stride), relu, *convolution(width, width, 3)]


def _stages(blocks: Sequence[int], before: int, widths: Sequence[int], body: Any) -> list[Any]:
    """Build the residual blocks; the first of each stage but the first halves the picture."""
    nn: Any = load_torch().nn
    layers = []
    for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            same = before == width and stride == 1
            shortcut = (
                nn.Identity() if same else nn.Sequential(*convolution(before, width, 1, stride))
            )
            inner = nn.Sequential(*body(before, width, stride))
            layers.append(residual(inner, shortcut, nn.ReLU(inplace=True)))
            before = width
    return layers


def _head(width: int, classes: int) -> list[Any]:
    nn: Any = load_torch().nn
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


def _workload(name: str, title: str, module: torch.nn.Module, size: int, classes: int) -> Workload:
    torch = load_torch()
    return Workload(
        name=name,
        title=title,
        family="cnn",
        module=module,
        batch=lambda samples, device: images(samples, size, classes, device),
        loss=lambda module, batch: torch.nn.functional.cross_entropy(module(batch[0]), batch[1]),
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=0.1, momentum=0.9, weight_decay=1e-4
        ),
        source=f"builtin {name}",
    )


def residual(body: Any, shortcut: Any, after: Any) -> torch.nn.Module:
    """Build a module that computes ``after(shortcut(x) + body(x))``."""
    nn: Any = load_torch().nn

    class Residual(nn.Module):  # type: ignore[misc]
        """A body beside a shortcut, and what follows their sum."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.shortcut, self.after = body, shortcut, after

        def forward(self, x: Any) -> Any:
            return self.after(self.shortcut(x) + self.body(x))

    return Residual()
