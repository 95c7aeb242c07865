"""A graph network on molecules (Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019; GIN
of Hu et al., OGB, NeurIPS 2020).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placer.profiler.builtin.batches import generator
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload

if TYPE_CHECKING:
    import torch

WIDTH, LAYERS, DROPOUT = 300, 5, 0.5
ATOM_FEATURES = (119, 4, 12, 12, 10, 6, 6, 2, 2)
"""Values of each feature of an atom, and below of a bond, in ogbg-molhiv."""
BOND_FEATURES = (5, 6, 2)
ATOMS, BONDS = 26, 28
"""Of one molecule, rounded from the means 25.5 and 27.5 of ogbg-molhiv; a bond is two directed
edges.
"""


def molecule_network() -> Workload:
    """Build GIN with five layers of 300: 1,885,206 parameters in 71 tensors (OGB's table)."""
    torch = load_torch()
    nn: Any = torch.nn

    class MoleculeNetwork(nn.Module):  # type: ignore[misc]
        """Atoms, edges and bonds to one logit for each molecule."""

        def __init__(self) -> None:
            super().__init__()
            self.atoms = nn.ModuleList(nn.Embedding(rows, WIDTH) for rows in ATOM_FEATURES)
            self.layers = nn.ModuleList(_message_passing() for _ in range(LAYERS))
            self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(LAYERS))
            self.dropout, self.out = nn.Dropout(DROPOUT), nn.Linear(WIDTH, 1)

        def forward(self, atoms: Any, edges: Any, bonds: Any) -> Any:
            x = sum(table(atoms[:, i]) for i, table in enumerate(self.atoms))
            for layer, norm in zip(self.layers, self.norms, strict=True):
                x = norm(layer(x, edges, bonds))
                x = self.dropout(x if layer is self.layers[-1] else x.relu())
            return self.out(x.view(-1, ATOMS, WIDTH).mean(1)).squeeze(1)

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
    torch = load_torch()
    nn: Any = torch.nn

    class MessagePassing(nn.Module):  # type: ignore[misc]
        """GINE convolution."""

        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Parameter(torch.zeros(1))
            self.bonds = nn.ModuleList(nn.Embedding(rows, WIDTH) for rows in BOND_FEATURES)
            self.mix = nn.Sequential(
                nn.Linear(WIDTH, 2 * WIDTH),
                nn.BatchNorm1d(2 * WIDTH),
                nn.ReLU(),
                nn.Linear(2 * WIDTH, WIDTH),
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
    torch, numbers = load_torch(), generator(device)

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
