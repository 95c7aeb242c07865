"""Values that a shell completes: models, places, GPUs, markets, solvers, targets and catalogs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from placer.cli.screen.formats import FORMATS
from placer.errors import PlacerError
from placer.problem.exchange import STRATEGIES

Names = Callable[[click.Context], Iterable[str]]


def _there(module: str, name: str) -> Names:
    """Return the names that a function or a table of a module has; it is imported when asked."""

    def names(ctx: click.Context) -> Iterable[str]:
        found: Any = getattr(importlib.import_module(f"placer.{module}"), name)
        return [*(found() if callable(found) else found)]

    return names


def _catalogs(ctx: click.Context) -> Iterable[str]:
    from placer.market.books.folders import own_book_names
    from placer.market.books.layers import catalog_names

    return [*catalog_names(), *own_book_names()]


def _catalog(ctx: click.Context) -> Any:
    """Return the book of the books that were given so far."""
    from placer.market.books.book_reader import load_catalog

    return load_catalog(tuple(ctx.params.get("catalog") or ()))


def _regions(ctx: click.Context) -> Iterable[str]:
    return sorted(_catalog(ctx).regions)


def _places(ctx: click.Context) -> Iterable[str]:
    names = [*_regions(ctx)]
    return [*dict.fromkeys(f"{name.split('/', 1)[0]}/*" for name in names), *names]


def _fixed(*names: str) -> Names:
    """Return names that are the same in each context."""
    return lambda ctx: names


_models = _there("workload.profile", "profile_names")
VALUES: dict[str, Names] = {
    "model": _models,
    "catalog": _catalogs,
    "places": _places,
    "place": _places,
    "not_places": _places,
    "gpu": lambda ctx: sorted({offer.gpu for offer in _catalog(ctx).offers}),
    "market": _fixed("any", "spot", "on-demand", "community"),
    "solver": _fixed("exact", "greedy", "local_search", "exhaustive", "milp", "cpsat"),
    "verify": _fixed("milp", "cpsat"),
    "exchange": lambda ctx: ["auto", *(name for name in STRATEGIES if name != "none")],
    "objective": _fixed("throughput", "cost", "cost-per-sample", "time", "carbon", "expected"),
    "storage": _regions,
    "aggregator": _regions,
    "format": _fixed(*FORMATS),
    "target": _there("launch.export", "TARGETS"),
}
"""Names of the values by the name of an option."""
ARGUMENTS: dict[tuple[str, str], Names] = {
    ("models", "name"): _models,
    ("show", "names"): _catalogs,
    ("validate", "names"): _catalogs,
    ("pin", "names"): _catalogs,
    ("diff", "old"): _catalogs,
    ("diff", "new"): _catalogs,
    ("schema", "name"): _there("documents.schemas", "SCHEMA_NAMES"),
    ("reproduce", "paper"): _fixed("erben", "phalak", "cloudless", "intellect-1"),
}
"""The same of arguments, by the names of the command and of the argument."""


def add_completion(command: click.Command) -> None:
    """Let the options and arguments of a command complete their values."""
    for param in command.params:
        name = param.name or ""
        names = (
            ARGUMENTS.get((command.name or "", name))
            if isinstance(param, click.Argument)
            else VALUES.get(name)
        )
        if names is not None and not getattr(param, "is_flag", False):
            param.shell_complete = partial(_complete, names)  # type: ignore[method-assign]


def _complete(names: Names, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete the last part of a value with commas; files where no name begins so."""
    before, comma, last = incomplete.rpartition(",")
    try:
        found = [name for name in names(ctx) if name.startswith(last)]
    except (PlacerError, OSError):
        found = []
    if not found:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(f"{before}{comma}{name}") for name in found]
