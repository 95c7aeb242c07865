"""``placer catalog``: price books, what they hold, and which are used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli.book.harvest import print_findings
from placer.cli.command import Catalog, Json, Table, as_command
from placer.cli.output import print_json, say, write_json
from placer.cli.screen.show import show
from placer.errors import PlacerError
from placer.units import counted

if TYPE_CHECKING:
    from placer.market.books.layers import Layer


@as_command("list", "Example: placer catalog list --json")
def list_command(*, as_json: Table) -> None:
    """List the shipped price books and your own: what they hold and how old it is."""
    from placer.interface.listings import catalogs_document

    show(catalogs_document(), as_json=as_json)


@as_command("show", "Example: placer catalog show default")
def show_command(names: tuple[str, ...] = (), *, as_json: Table) -> None:
    """Show a catalog: offers by provider and device, regions, ages, sources and origin.

    Of several NAMEs, later books replace rows of earlier ones. Rows with figures not checked,
    assumed or estimated figures are counted.

    names (NAME|DIR|CSV...):
    """
    import msgspec

    from placer.market.books.book_reader import over_default
    from placer.market.checks.coverage import ages, cited, coverage, regions_by_provider, unsure

    book, layers = over_default(names)
    sources, own = cited(book)
    document = {
        "schema": "placer.coverage/v1",
        "catalog": book.name,
        "digest": book.digest,
        "coverage": msgspec.to_builtins(coverage(book)),
        "regions": regions_by_provider(book),
        "ages": msgspec.to_builtins(ages(book)),
        "unsure": msgspec.to_builtins(unsure(book)),
        "sources": msgspec.to_builtins(sources),
        "own_sources": own,
        "layers": [
            {"name": layer.name, "digest": layer.digest, "origin": _origin(layer)}
            for layer in layers
        ],
    }
    show(document, as_json=as_json)


def _origin(layer: Layer) -> Any:
    """Read what the command that wrote a book recorded; None for other books."""
    import msgspec

    from placer.files.bounded_file import bounded
    from placer.market.sources.harvest import BookOrigin
    from placer.market.sources.save import ORIGIN

    path: Path = next(iter(layer.files.values())).path.parent / ORIGIN
    try:
        return (
            msgspec.to_builtins(msgspec.json.decode(bounded(path, "remove it"), type=BookOrigin))
            if path.is_file()
            else None
        )
    except (OSError, ValueError, RecursionError, PlacerError):
        return None


@as_command("diff", "Example: placer catalog diff default my-quote.csv")
def diff_command(old: str, new: str, *, limit: int = 30, as_json: Table) -> None:
    """List the rows that are new, gone or different in NEW, compared with OLD.

    A partial book is put on top of the default one.

    limit (1..): Most rows of the table.
    """
    import msgspec

    from placer.market.books.book_reader import over_default
    from placer.market.checks.coverage import differences

    (before, _), (after, _) = over_default([old]), over_default([new])
    changes = differences(before, after)
    counts: dict[str, dict[str, int]] = {}
    for change in changes:
        kinds = counts.setdefault(change.file, {"changed": 0, "new": 0, "gone": 0})
        kinds[change.kind] += 1
    document = {
        "schema": "placer.catalog-diff/v1",
        "old": {"catalog": before.name, "digest": before.digest},
        "new": {"catalog": after.name, "digest": after.digest},
        "counts": counts,
        "changes": msgspec.to_builtins(changes),
    }
    show(document, as_json=as_json, changes=document["changes"][:limit])


@as_command("validate", "Example: placer catalog validate my-quote.csv")
def validate_command(
    ctx: click.Context, names: tuple[str, ...] = (), *, limit: int = 30, as_json: Table
) -> None:
    """Check every cell of a catalog, then its prices, dates, links and egress.

    A partial book is put on top of the default one. The exit code is 2 if there is an error;
    warnings alone are no failure.

    names (NAME|DIR|CSV...):
    limit (1..): Most doubts that are printed.
    """
    import msgspec

    from placer.market.books.book_reader import devices, located_rows, over_default
    from placer.market.checks.coverage import cited
    from placer.market.checks.doubts import audit, far_prices

    book, layers = over_default(names)
    named = located_rows(layers[-len(names) :] if names else layers)["offers.csv"]
    findings = (*audit(located_rows([devices(), *layers]), book), *far_prices(named, book))
    _, own = cited(book)
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        document = {
            "schema": "placer.catalog-validation/v1",
            "catalog": book.name,
            "valid": not errors,
            "own_sources": own,
        }
        print_json({**document, "findings": msgspec.to_builtins(findings)})
    else:
        print_findings(findings, limit, "--limit or --json shows more")
        counts = (
            f"{len(book.offers):,} offers, {len(book.regions)} regions, {len(book.egress):,} "
            f"egress prices, {len(book.links):,} links"
        )
        if own:
            name = "row names" if own == 1 else "rows name"
            say(f"note: {own:,} {name} a source of the user's own")
        verdict = f"{errors} errors" if errors else "valid"
        say(f"{verdict}: catalog {book.name}: {counts}; {len(findings) - errors} warnings")
    ctx.exit(2 if errors else 0)


@as_command("pin", "Example: placer catalog pin default aws")
def pin_command(names: tuple[str, ...] = (), *, clear: bool = False, as_json: Json) -> None:
    """Use these books, as they are now, wherever no --catalog is given.

    Without NAMEs, show the pinned books. A pinned book that has changed is an error until it is
    pinned again, so that the same request keeps its answer.

    names (NAME|DIR|CSV...):
    clear: Use the default book again.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.layers import PIN_SCHEMA, pin_document, pin_file, pinned

    if names and clear:
        raise PlacerError(
            f"--clear together with {', '.join(names)}", "name books, or clear the pin"
        )
    document = None
    if names:
        load_catalog(names)
        document = pin_document(names)
    try:
        if clear:
            pin_file().unlink(missing_ok=True)
        if document is not None:
            pin_file().parent.mkdir(parents=True, exist_ok=True)
            write_json(str(pin_file()), document)
    except OSError as error:
        raise PlacerError(
            f"cannot write '{pin_file()}': {error.strerror or error}",
            "set PLACER_HOME to a folder of yours",
        ) from None
    pins = pinned()
    if as_json:
        catalogs = [{"name": name, "digest": digest} for name, digest in pins]
        print_json({"schema": PIN_SCHEMA, "catalogs": catalogs})
        return
    click.echo(
        "pinned: " + ", ".join(f"{name} ({digest})" for name, digest in pins)
        if pins
        else "nothing is pinned: requests use default"
    )


@as_command("skypilot", "Example: placer catalog export skypilot my-catalogs --catalog default")
def skypilot_command(folder: str, *, catalog: Catalog, force: bool = False, as_json: Json) -> None:
    """Write DIR/aws/vms.csv and so on, in the format of SkyPilot's catalogs v8.

    Importing them gives the same offers again, with their dates, from the file beside: SkyPilot's
    format does not say how old a price is, what it rests on and how fast the network is, so
    DIR/aws/placer-sources.csv does. SkyPilot ignores it.

    Owned and reserved machines are left out. A book has no zones: lines of Google Cloud name the
    region's first one, others none.

    folder (DIR):
    force: Replace existing files.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.sources.harvest import Tally
    from placer.market.sources.prices.skypilot.catalogs import SOURCES, source_rows
    from placer.market.sources.prices.skypilot.export import skypilot_lines, write_lines

    if not folder.strip() or "\0" in folder:
        raise PlacerError(
            f"'{folder}' is not the name of a folder", "give a folder, such as my-catalogs"
        )
    tally = Tally(skip_bad=True)
    book = load_catalog(catalog)
    lines = skypilot_lines(book, tally)
    if not lines:
        raise PlacerError(
            f"catalog '{book.name}' has no machine that SkyPilot could rent", "choose another book"
        )
    paths = write_lines(folder, lines, source_rows(book, lines), force=force)
    if as_json:
        files = [
            {"path": str(path), "rows": len(rows), "sources": str(path.with_name(SOURCES))}
            for path, rows in zip(paths, lines.values(), strict=True)
        ]
        document = {"schema": "placer.catalog-export/v1", "catalog": book.name, "files": files}
        print_json({**document, "left_out": tally.reasons()})
        return
    for path, rows in zip(paths, lines.values(), strict=True):
        say(f"wrote     {path}: {counted(len(rows), 'row')}")
    say(
        f"beside    {SOURCES}: date, basis and source of each price, for 'placer catalog "
        f"import skypilot'"
    )
    for reason, count in tally.reasons().items():
        say(f"left out  {count:,} x {reason}")
