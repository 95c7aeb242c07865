"""``placer catalog refresh``: today's prices from a provider's own interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placer.cli.book.harvest import say_next, say_rest
from placer.cli.command import Json, as_command
from placer.cli.output import console, print_json
from placer.cli.screen.progress import telling
from placer.units import format_plain

if TYPE_CHECKING:
    from placer.market.sources.changes import Changes
    from placer.market.sources.refresh import Refreshed


@as_command("refresh", "Example: placer catalog refresh aws --in us-west-2,eu-west-1 --gpu T4,A10G")
def command(
    provider: str,
    *,
    places: str | None = None,
    gpu: str | None = None,
    name: str | None = None,
    partial: bool = False,
    dry_run: bool = False,
    as_json: Json,
) -> None:
    """Write today's prices of a provider as a book of your own.

    aws asks with boto3 and your own AWS credentials, gcp with an API key in PLACER_GCP_API_KEY,
    azure without an account. The new book replaces the one of the same name at once, or not at all.

    Parameters
    ----------
    provider : aws|azure|gcp
    places : REGION,.., --in
        Only these regions; wildcards allowed.
    gpu : A,B
        Only these devices; default: all, and CPU hosts.
    name : NAME, --as
        Name of the book; default: the provider's.
    partial
        aws: keep the old prices of regions that fail instead of failing.
    dry_run
        Read and compare, write nothing.
    """
    from placer.market.sources.refresh import refresh

    with telling("reading ...") as tell:
        done = refresh(
            provider,
            places=places,
            gpu=gpu,
            name=name,
            partial=partial,
            dry_run=dry_run,
            tell=lambda words: tell(f"{words} ..."),
        )
    if as_json:
        print_json(_document(done))
    else:
        _print(done)


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
