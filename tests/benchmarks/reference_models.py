"""The models of Erben et al. (PVLDB 17(6), 2024), to be counted.

Their parameters equal those of torchvision and of the paper's artifact.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from placer.profiler.builtin import resnet
from placer.profiler.torch_import import load_torch
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


def roberta(layers: int, width: int, vocabulary: int) -> Any:
    """Build RoBERTa as it was trained in 2019 to 2022, with attention by separate kernels and heads
    64 wide: a module from tokens ``[samples, tokens]`` to logits ``[tokens, words]``.
    """
    torch = load_torch()
    nn: Any = torch.nn
    functional = torch.nn.functional

    class Layer(nn.Module):  # type: ignore[misc]
        """Attention of every token to all, then two linear layers."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.drop = nn.Dropout(0.1)

        def forward(self, x: Any, mask: Any) -> Any:
            samples, tokens, _ = x.shape
            query, key, value = (
                part(x).view(samples, tokens, -1, 64).transpose(1, 2)
                for part in (self.query, self.key, self.value)
            )
            scores = torch.matmul(query, key.transpose(-1, -2)) / 8 + mask
            shares = self.drop(functional.softmax(scores, -1))
            mixed = torch.matmul(shares, value).transpose(1, 2).reshape(samples, tokens, width)
            x = self.first(self.drop(self.out(mixed)) + x)
            return self.second(self.drop(self.down(functional.gelu(self.up(x)))) + x)

    class Model(nn.Module):  # type: ignore[misc]
        """Embeddings, layers and a head."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places, self.kinds = (
                nn.Embedding(n, width) for n in (vocabulary, TOKENS + 2, 1)
            )
            self.start = nn.Sequential(nn.LayerNorm(width), nn.Dropout(0.1))
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
            self.bias = nn.Parameter(torch.zeros(vocabulary))

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.words(tokens) + self.places(places) + self.kinds(torch.zeros_like(tokens))
            x = self.start(x)
            mask = x.new_zeros(tokens.shape[0], 1, 1, tokens.shape[1])
            for layer in self.layers:
                x = layer(x, mask)
            return functional.linear(self.head(x), self.words.weight, self.bias).flatten(0, 1)

    return Model()


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


REFERENCE: dict[str, tuple[Callable[[], Any], str, int]] = {
    "resnet18": (partial(resnet, (2, 2, 2, 2), bottleneck=False), "cnn", 11_689_512),
    "resnet50": (partial(resnet, (3, 4, 6, 3)), "cnn", 25_557_032),
    "resnet152": (partial(resnet, (3, 8, 36, 3)), "cnn", 60_192_808),
    "wide-resnet101": (partial(resnet, (3, 4, 23, 3), widening=2), "cnn", 126_886_696),
    "convnext-large": (convnext_large, "cnn", 197_767_336),
    "roberta-base": (partial(roberta, 12, 768, 50_265), "transformer", 124_697_433),
    "roberta-large": (partial(roberta, 24, 1024, 50_265), "transformer", 355_412_057),
    "roberta-xlm": (partial(roberta, 24, 1024, 250_002), "transformer", 560_142_482),
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
