"""``placer catalog validate``: whether a price book is whole and plausible."""

from __future__ import annotations

import click

from placer.cli.command import Table, as_command
from placer.cli.output import console, print_json


@as_command("validate", "Example: placer catalog validate my-quote.csv")
def command(
    ctx: click.Context, names: tuple[str, ...] = (), *, limit: int = 30, as_json: Table
) -> None:
    """Check every cell of a catalog, then its prices, dates, links and egress.

    A partial book is put on top of the default one. The exit code is 2 if there is an error;
    warnings alone are no failure.

    Parameters
    ----------
    names : NAME|DIR|CSV...
    limit : 1..
        Most doubts that are printed.
    """
    import msgspec

    from placer.market.books.book_reader import devices, located_rows
    from placer.market.books.partial_books import over_default
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
        out = console()
        for finding in findings[:limit]:
            out.print(
                f"{finding.level}: {finding.where}: {finding.message}",
                style="red" if finding.level == "error" else "yellow",
            )
        if len(findings) > limit:
            out.print(
                f"{limit} of {len(findings):,} doubts; --limit or --json shows more", style="dim"
            )
        counts = (
            f"{len(book.offers):,} offers, {len(book.regions)} regions, {len(book.egress):,} "
            f"egress prices, {len(book.links):,} links"
        )
        if own:
            out.print(
                f"note: {own:,} {'row names' if own == 1 else 'rows name'} a source of the user's "
                f"own"
            )
        verdict = f"{errors} errors" if errors else "valid"
        out.print(f"{verdict}: catalog {book.name}: {counts}; {len(findings) - errors} warnings")
    ctx.exit(2 if errors else 0)
