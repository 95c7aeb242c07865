"""``placer network show``: links between places."""

from __future__ import annotations

from placer.cli.command import Catalog, Table, as_command
from placer.cli.screen.show import show
from placer.errors import PlacerError


@as_command(
    "show", "Example: placer network show gcp/us-central1 aws/us-west-2 --catalog erben-2023"
)
def command(places: tuple[str, ...], *, catalog: Catalog, as_json: Table) -> None:
    """Show bandwidth of one stream, round-trip time and egress price of each pair of PLACEs.

    Every ordered pair is shown; wildcards are allowed.

    Parameters
    ----------
    places : PLACE...
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.network.graph import network_of
    from placer.market.words.selection import match_places

    book = load_catalog(catalog)
    places_of_book = match_places(places, book)
    if len(places_of_book) > 40:
        raise PlacerError(
            f"{len(places_of_book)} places are {len(places_of_book) ** 2:,} links",
            "name at most 40 places",
        )
    network = network_of(book)
    graph = network.graph(places_of_book)
    edges = sorted(graph.edges(data=True), key=lambda e: (e[0], e[1]))
    links = [
        {
            "from": a,
            "to": b,
            "bytes_per_second": d["bytes_per_second"],
            "rtt_seconds": d["rtt_s"],
            "usd_per_gib": d["usd_per_gib"],
            "egress_tiers": [
                {
                    "above_gib_per_month": tier.above_gib_per_month,
                    "usd_per_gib": tier.usd_per_gib,
                    "source": tier.source,
                    "as_of": tier.as_of,
                }
                for tier in network.egress_tiers(a, b)
            ],
            "basis": d["basis"],
            "source": d["source"],
        }
        for a, b, d in edges
    ]
    document = {"schema": "placer.network/v1", "catalog": book.name, "links": links}
    show(document, as_json=as_json)
