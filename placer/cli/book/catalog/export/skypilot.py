"""``placer catalog export skypilot``: a book's offers as SkyPilot's vms.csv files."""

from __future__ import annotations

from placer.cli.command import Catalog, Json, as_command
from placer.cli.output import console, print_json
from placer.errors import PlacerError
from placer.units import counted


@as_command("skypilot", "Example: placer catalog export skypilot my-catalogs --catalog default")
def command(folder: str, *, catalog: Catalog, force: bool = False, as_json: Json) -> None:
    """Write DIR/aws/vms.csv and so on, in the format of SkyPilot's catalogs v8.

    Importing them gives the same offers again, with their dates, from the file beside: SkyPilot's
    format does not say how old a price is, what it rests on and how fast the network is, so
    DIR/aws/placer-sources.csv does. SkyPilot ignores it.

    Owned and reserved machines are left out. A book has no zones: lines of Google Cloud name the
    region's first one, others none.

    Parameters
    ----------
    folder : DIR
    force
        Replace existing files.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.sources.prices.skypilot.export import skypilot_lines, write_lines
    from placer.market.sources.prices.skypilot.price_sources import SOURCES, source_rows
    from placer.market.sources.reading.tally import Tally

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
        print_json(
            {
                "schema": "placer.catalog-export/v1",
                "catalog": book.name,
                "files": files,
                "left_out": tally.reasons(),
            }
        )
        return
    for path, rows in zip(paths, lines.values(), strict=True):
        console().print(f"wrote     {path}: {counted(len(rows), 'row')}")
    console().print(
        f"beside    {SOURCES}: date, basis and source of each price, for 'placer catalog "
        f"import skypilot'"
    )
    for reason, count in tally.reasons().items():
        console().print(f"left out  {count:,} x {reason}")
