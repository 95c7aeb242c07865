"""``placer catalog refresh``: today's prices from a provider's own interface."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from placer.cli.harvest import say_next, say_rest
from placer.cli.options import json_option
from placer.cli.output import console, print_json
from placer.units import format_plain

if TYPE_CHECKING:
    from placer.market.sources.changes import Changes
    from placer.market.sources.refresh import Refreshed


@click.command(
    "refresh", epilog="Example: placer catalog refresh aws --in us-west-2,eu-west-1 --gpu T4,A10G"
)
@click.argument("provider", metavar="aws|azure|gcp")
@click.option("--in", "places", metavar="REGION,..", help="Only these regions; wildcards allowed.")
@click.option("--gpu", metavar="A,B", help="Only these devices; default: all, and CPU hosts.")
@click.option("--as", "name", metavar="NAME", help="Name of the book; default: the provider's.")
@click.option(
    "--partial",
    is_flag=True,
    help="aws: keep the old prices of regions that fail instead of failing.",
)
@click.option("--dry-run", is_flag=True, help="Read and compare, write nothing.")
@json_option
def command(
    provider: str,
    places: str | None,
    gpu: str | None,
    name: str | None,
    partial: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write today's prices of a provider as a book of your own.

    aws asks with boto3 and your own AWS credentials, gcp with an API key in PLACER_GCP_API_KEY,
    azure without an account. The new book replaces the one of the same name at once, or not at all.
    """
    from placer.market.sources.refresh import refresh

    with _telling() as tell:
        done = refresh(
            provider, places=places, gpu=gpu, name=name, partial=partial, dry_run=dry_run, tell=tell
        )
    if as_json:
        print_json(_document(done))
    else:
        _print(done)


@contextmanager
def _telling() -> Iterator[Callable[[str], None]]:
    """Show what is being read on a terminal; elsewhere show nothing."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    with console(stderr=True).status("reading ...", spinner="line") as status:
        yield lambda words: status.update(f"{words} ...")


def _document(done: Refreshed) -> dict[str, Any]:
    import msgspec

    return {
        "schema": "placer.refresh/v1",
        "catalog": done.name,
        "provider": done.provider,
        "written": None if done.folder is None else str(done.folder),
        "offers": len(done.rows),
        "regions": sorted({str(row["region"]) for row in done.rows}),
        "changes": None if done.changes is None else msgspec.to_builtins(done.changes),
        "left_out": dict(done.left_out),
        "failed": dict(done.failed),
        "kept": dict(done.kept),
        "notes": list(done.notes),
    }


def _print(done: Refreshed) -> None:
    out = console()
    regions = {row["region"] for row in done.rows}
    spot = sum(row["market"] == "spot" for row in done.rows)
    verb = "would have" if done.folder is None else "has"
    out.print(
        f"{done.name} {verb} {len(done.rows):,} offers in {len(regions)} regions: "
        f"{len(done.rows) - spot:,} on-demand, {spot:,} spot"
    )
    out.print(_changes(done.changes, done.name), soft_wrap=True)
    say_rest(done.left_out, done.notes)
    say_next(done.name, dry_run=done.folder is None)


def _changes(changes: Changes | None, name: str) -> str:
    if changes is None:
        return f"no book '{name}' to compare with"
    counts = {
        "dearer": changes.up,
        "cheaper": changes.down,
        "as before": changes.same,
        "new": changes.new,
        "gone": changes.gone,
    }
    text = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    if changes.not_asked:
        text += f", {changes.not_asked:,} dropped because they were not asked for this time"
    move = changes.largest
    if move is None:
        return text
    return (
        f"{text}; largest change {move.share:+.1%}: {move.place} {move.instance_type} "
        f"{move.market.replace('_', '-')}"
        f" {format_plain(move.before_usd_per_hour, 4)} -> "
        f"{format_plain(move.after_usd_per_hour, 4)} USD/h"
    )
