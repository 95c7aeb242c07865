"""Models that need no download: plain PyTorch, random weights, synthetic batches. Encoders with a
masked language model on top (Devlin et al., BERT, NAACL 2019; Liu et al., RoBERTa, 2019), an LSTM
(Zaremba et al., Recurrent Neural Network Regularization, 2014), residual networks for pictures (He
et al., CVPR 2016), and a graph network on molecules (Xu et al., How Powerful are Graph Neural
Networks?, ICLR 2019; GIN of Hu et al., OGB, NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from placer.errors import unknown
from placer.profiler.torch_import import nn, torch
from placer.profiler.workload import Workload

INITIAL_DEVIATION = 0.02
"""Standard deviation of the first embeddings (BERT)."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Shape of an encoder.

    layers, width, heads: Blocks, numbers of a token, and heads of the attention; the feed-forward
        part is 4 widths wide.
    vocabulary, positions, kinds: Rows of the embeddings of words, places and segments.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int
    kinds: int
    dropout: float = 0.1


BERT_BASE = Encoder(layers=12, width=768, heads=12, vocabulary=30522, positions=512, kinds=2)
"""109,514,298 parameters in 202 tensors, word embeddings tied to the output."""
BERT_MINI = Encoder(layers=4, width=256, heads=4, vocabulary=30522, positions=512, kinds=2)
"""11,201,594 parameters in 74 tensors. Turc et al., Well-Read Students Learn Better, 2019."""
XLM_R_LARGE = Encoder(layers=24, width=1024, heads=16, vocabulary=250002, positions=514, kinds=1)
"""560,142,482 parameters in 394 tensors, of which 256 M are the embeddings of 250,002 words.
Conneau et al., Unsupervised Cross-lingual Representation Learning at Scale, ACL 2020.
"""


def masked_language_model(shape: Encoder) -> torch.nn.Module:
    """Build a module from tokens ``[samples, tokens]`` to logits ``[samples, tokens, vocabulary]``.
    The output layer multiplies by the embedding of words (tied: one tensor) and adds a bias. Logits
    are made for every token, as Hugging Face transformers does, not for the hidden ones alone, as
    the first BERT did.
    """

    class MaskedLanguageModel(nn.Module):  # type: ignore[misc]
        """Embeddings, layers, and the head of a masked language model."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places, self.kinds = (
                nn.Embedding(n, shape.width)
                for n in (shape.vocabulary, shape.positions, shape.kinds)
            )
            for table in (self.words, self.places, self.kinds):
                nn.init.normal_(table.weight, std=INITIAL_DEVIATION)
            self.start = nn.Sequential(nn.LayerNorm(shape.width), nn.Dropout(shape.dropout))
            self.layers = nn.Sequential(
                *(block for _ in range(shape.layers) for block in _layer(shape))
            )
            self.head = nn.Sequential(
                nn.Linear(shape.width, shape.width), nn.GELU(), nn.LayerNorm(shape.width)
            )
            self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.words(tokens) + self.places(places) + self.kinds(torch.zeros_like(tokens))
            return nn.functional.linear(
                self.head(self.layers(self.start(x))), self.words.weight, self.bias
            )

    return MaskedLanguageModel()


def _layer(shape: Encoder) -> list[Any]:
    """Build attention and the feed-forward part, each with a shortcut and a layer norm after
    it: 16 tensors.
    """
    wide = [
        nn.Linear(shape.width, 4 * shape.width),
        nn.GELU(),
        nn.Linear(4 * shape.width, shape.width),
        nn.Dropout(shape.dropout),
    ]
    mixing = nn.Sequential(_attention(shape), nn.Dropout(shape.dropout))
    return [
        residual(body, nn.Identity(), nn.LayerNorm(shape.width))
        for body in (mixing, nn.Sequential(*wide))
    ]


def _attention(shape: Encoder) -> Any:

    class Attention(nn.Module):  # type: ignore[misc]
        """Attention of every token to all tokens of its text."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (
                nn.Linear(shape.width, shape.width) for _ in range(4)
            )

        def forward(self, x: Any) -> Any:
            samples, tokens, width = x.shape
            split = (samples, tokens, shape.heads, width // shape.heads)
            query, key, value = (
                part(x).view(split).transpose(1, 2) for part in (self.query, self.key, self.value)
            )
            dropout = shape.dropout if self.training else 0.0
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
            return self.out(mixed.transpose(1, 2).reshape(samples, tokens, width))

    return Attention()


def _of_text(name: str, title: str, shape: Encoder, tokens: int) -> Workload:
    """Build a masked language model on texts of some tokens."""
    return Workload(
        name=name,
        title=f"{title}, masked language model, {tokens} tokens",
        family="transformer",
        module=masked_language_model(shape),
        batch=lambda samples, device: masked_text(samples, tokens, shape.vocabulary, device),
        loss=cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        source=f"builtin {name}",
    )


WORDS, TOKENS = 10_000, 35
"""Words of the Penn Treebank, and words of a sample."""


def word_language_model() -> Workload:
    """Build an LSTM of two layers of 650: 19,780,400 parameters in 11 tensors, 35 words a
    sample.
    """
    width, dropout = 650, 0.5

    class LanguageModel(nn.Module):  # type: ignore[misc]
        """Words ``[samples, tokens]`` to logits ``[samples, tokens, words]`` of the next word."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.dropout = nn.Embedding(WORDS, width), nn.Dropout(dropout)
            self.lstm = nn.LSTM(width, width, 2, batch_first=True, dropout=dropout)
            self.out = nn.Linear(width, WORDS)

        def forward(self, tokens: Any) -> Any:
            states, _ = self.lstm(self.dropout(self.words(tokens)))
            return self.out(self.dropout(states))

    return Workload(
        name="lstm",
        title="LSTM language model, 2 layers of 650, 35 words",
        family="rnn",
        module=LanguageModel(),
        batch=lambda samples, device: running_text(samples, TOKENS, WORDS, device),
        loss=cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        source="builtin lstm",
    )


MOLECULE_WIDTH, MOLECULE_LAYERS, MOLECULE_DROPOUT = 300, 5, 0.5
ATOM_FEATURES = (119, 4, 12, 12, 10, 6, 6, 2, 2)
"""Values of each feature of an atom, and below of a bond, in ogbg-molhiv."""
BOND_FEATURES = (5, 6, 2)
ATOMS, BONDS = 26, 28
"""Of one molecule, rounded from the means 25.5 and 27.5 of ogbg-molhiv; a bond is two directed
edges.
"""


def molecule_network() -> Workload:
    """Build GIN with five layers of 300: 1,885,206 parameters in 71 tensors (OGB's table)."""

    class MoleculeNetwork(nn.Module):  # type: ignore[misc]
        """Atoms, edges and bonds to one logit for each molecule."""

        def __init__(self) -> None:
            super().__init__()
            self.atoms = nn.ModuleList(nn.Embedding(rows, MOLECULE_WIDTH) for rows in ATOM_FEATURES)
            self.layers = nn.ModuleList(_message_passing() for _ in range(MOLECULE_LAYERS))
            self.norms = nn.ModuleList(
                nn.BatchNorm1d(MOLECULE_WIDTH) for _ in range(MOLECULE_LAYERS)
            )
            self.dropout, self.out = nn.Dropout(MOLECULE_DROPOUT), nn.Linear(MOLECULE_WIDTH, 1)

        def forward(self, atoms: Any, edges: Any, bonds: Any) -> Any:
            x = sum(table(atoms[:, i]) for i, table in enumerate(self.atoms))
            for layer, norm in zip(self.layers, self.norms, strict=True):
                x = norm(layer(x, edges, bonds))
                x = self.dropout(x if layer is self.layers[-1] else x.relu())
            return self.out(x.view(-1, ATOMS, MOLECULE_WIDTH).mean(1)).squeeze(1)

    return Workload(
        name="gnn",
        title="GIN on molecules of 26 atoms, 5 layers of 300",
        family="gnn",
        module=MoleculeNetwork(),
        batch=molecules,
        loss=lambda module, batch: nn.functional.binary_cross_entropy_with_logits(
            module(*batch[:3]), batch[3]
        ),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
        source="builtin gnn",
    )


def _message_passing() -> Any:
    """Build one layer: each atom sums what its bonds bring, then a network of two layers."""

    class MessagePassing(nn.Module):  # type: ignore[misc]
        """GINE convolution."""

        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Parameter(torch.zeros(1))
            self.bonds = nn.ModuleList(nn.Embedding(rows, MOLECULE_WIDTH) for rows in BOND_FEATURES)
            self.mix = nn.Sequential(
                nn.Linear(MOLECULE_WIDTH, 2 * MOLECULE_WIDTH),
                nn.BatchNorm1d(2 * MOLECULE_WIDTH),
                nn.ReLU(),
                nn.Linear(2 * MOLECULE_WIDTH, MOLECULE_WIDTH),
            )

        def forward(self, x: Any, edges: Any, bonds: Any) -> Any:
            bond = sum(table(bonds[:, i]) for i, table in enumerate(self.bonds))
            messages = (x[edges[0]] + bond).relu()
            # New zeros take the messages' type, which autocast makes another than that of x.
            arrived = messages.new_zeros(x.shape).index_add(0, edges[1], messages)
            return self.mix((1 + self.own) * x + arrived)

    return MessagePassing()


def molecules(samples: int, device: torch.device) -> Any:
    """Draw molecules with random bonds, side by side in one graph. Features of atoms
    ``[26 samples, 9]``, edges ``[2, 56 samples]``, features of bonds ``[56 samples, 3]``, and the
    label ``[samples]`` of each molecule.
    """
    numbers = generator(device)

    def features(rows: int, values: tuple[int, ...]) -> Any:
        columns = [
            torch.randint(most, (rows,), device=device, generator=numbers) for most in values
        ]
        return torch.stack(columns, dim=1)

    ends = torch.randint(ATOMS, (2, samples, BONDS), device=device, generator=numbers)
    ends = ends + (torch.arange(samples, device=device) * ATOMS)[:, None]
    edges = torch.cat([ends, ends.flip(0)], dim=2).flatten(1)
    labels = torch.randint(2, (samples,), device=device, generator=numbers).float()
    return (
        features(samples * ATOMS, ATOM_FEATURES),
        edges,
        features(samples * 2 * BONDS, BOND_FEATURES),
        labels,
    )


def resnet50_like() -> Workload:
    """Build ResNet-50 with the stride in the 3 x 3 convolution, as torchvision and NVIDIA do.
    25,557,032 parameters in 161 tensors, 4.09 G multiply-adds for a picture of 224 x 224.
    """
    title, module = "ResNet-50, pictures of 224 x 224, 1,000 classes", resnet((3, 4, 6, 3))
    return _of_pictures("resnet50-like", title, module, 224, 1000)


def cnn_small() -> Workload:
    """Build ResNet-20 for 32 x 32: 272,474 parameters in 65 tensors, 41 M multiply-adds."""
    stem = [*convolution(3, 16, 3), nn.ReLU(inplace=True)]
    module = nn.Sequential(
        *stem, *_stages((3, 3, 3), 16, (16, 32, 64), _plain_body), *_head(64, 10)
    )
    return _of_pictures("cnn-small", "ResNet-20, pictures of 32 x 32, 10 classes", module, 32, 10)


def resnet(blocks: Sequence[int], bottleneck: bool = True, widening: int = 1) -> torch.nn.Module:
    """Build a residual network for pictures of 224 x 224 and 1,000 classes.

    blocks: Blocks of each of the four stages: (3, 4, 6, 3) for ResNet-50.
    bottleneck: Blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions, else of two 3 x 3 ones.
    widening: Factor for the inner width of bottlenecks: 2 in Wide ResNet-101-2 (Zagoruyko and
        Komodakis, BMVC 2016).
    """
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
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(after)]


def _plain_body(before: int, width: int, stride: int) -> list[Any]:
    relu = nn.ReLU(inplace=True)
    return [*convolution(before, width, 3, stride), relu, *convolution(width, width, 3)]


def _stages(blocks: Sequence[int], before: int, widths: Sequence[int], body: Any) -> list[Any]:
    """Build the residual blocks; the first of each stage but the first halves the picture."""
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
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


def _of_pictures(
    name: str, title: str, module: torch.nn.Module, size: int, classes: int
) -> Workload:
    return Workload(
        name=name,
        title=title,
        family="cnn",
        module=module,
        batch=lambda samples, device: images(samples, size, classes, device),
        loss=cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=0.1, momentum=0.9, weight_decay=1e-4
        ),
        source=f"builtin {name}",
    )


def residual(body: Any, shortcut: Any, after: Any) -> torch.nn.Module:
    """Build a module that computes ``after(shortcut(x) + body(x))``."""

    class Residual(nn.Module):  # type: ignore[misc]
        """A body beside a shortcut, and what follows their sum."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.shortcut, self.after = body, shortcut, after

        def forward(self, x: Any) -> Any:
            return self.after(self.shortcut(x) + self.body(x))

    return Residual()


def cross_entropy(module: Any, batch: Any) -> Any:
    """Compute the loss of a model that finds classes: of pictures, or of each token. Those labelled
    -100 do not count.
    """
    logits, labels = module(batch[0]), batch[1]
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


HIDDEN_SHARE = 0.15
"""Share of tokens that a masked language model predicts (Devlin et al., NAACL 2019)."""
IGNORED = -100
"""Label that PyTorch's cross entropy leaves out."""


def generator(device: torch.device) -> Any:
    """Return random numbers apart from the program's; None on the meta device."""
    return None if device.type == "meta" else torch.Generator(device=device).manual_seed(0)


def images(samples: int, size: int, classes: int, device: torch.device) -> Any:
    """Draw pictures, ``[samples, 3, size, size]``, and classes, ``[samples]``."""
    numbers = generator(device)
    pictures = torch.randn(samples, 3, size, size, device=device, generator=numbers)
    return pictures, torch.randint(classes, (samples,), device=device, generator=numbers)


def masked_text(samples: int, tokens: int, vocabulary: int, device: torch.device) -> Any:
    """Draw text in which 15 % of the tokens are hidden. Tokens and labels, both
    ``[samples, tokens]``; labels are -100 where nothing is hidden. The first token is always
    hidden, so that no batch is without a loss.
    """
    numbers = generator(device)
    text = torch.randint(1, vocabulary, (samples, tokens), device=device, generator=numbers)
    hidden = torch.rand(samples, tokens, device=device, generator=numbers) < HIDDEN_SHARE
    hidden[:, 0] = True
    return text.masked_fill(hidden, 0), text.masked_fill(~hidden, IGNORED)


def running_text(samples: int, tokens: int, vocabulary: int, device: torch.device) -> Any:
    """Draw text and the word after each word, both ``[samples, tokens]``."""
    text = torch.randint(
        vocabulary, (samples, tokens + 1), device=device, generator=generator(device)
    )
    return text[:, :-1], text[:, 1:]


BUILTINS: Mapping[str, Callable[[], Workload]] = MappingProxyType(
    {
        "resnet50-like": resnet50_like,
        "bert-base-like": lambda: _of_text("bert-base-like", "BERT base", BERT_BASE, 128),
        "transformer-560m": lambda: _of_text(
            "transformer-560m", "encoder as XLM-R large", XLM_R_LARGE, 128
        ),
        "lstm": word_language_model,
        "gnn": molecule_network,
        "cnn-small": cnn_small,
        "transformer-small": lambda: _of_text("transformer-small", "BERT mini", BERT_MINI, 64),
    }
)
"""Makers of workloads by name, the last two small enough for tests and slow machines."""


def builtin(name: str) -> Workload:
    """Make a built-in workload. Its module is on the CPU, or where ``with torch.device("meta"):``
    around the call says. Raises `PlacerError` if there is no such name, or PyTorch is not
    installed.
    """
    if name not in BUILTINS:
        raise unknown("built-in model", name, BUILTINS)
    return BUILTINS[name]()
