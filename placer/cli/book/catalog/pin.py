"""``placer catalog pin``: which books a request uses that names none."""

from __future__ import annotations

import click

from placer.cli.command import Json, as_command
from placer.cli.output import print_json, write_json


@as_command("pin", "Example: placer catalog pin default aws")
def command(names: tuple[str, ...] = (), *, clear: bool = False, as_json: Json) -> None:
    """Use these books, as they are now, wherever no --catalog is given.

    Without NAMEs, show the pinned books. A pinned book that has changed is an error until it is
    pinned again, so that the same request keeps its answer.

    Parameters
    ----------
    names : NAME|DIR|CSV...
    clear
        Use the default book again.
    """
    from placer.errors import PlacerError
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.pin import pin_document, pin_file, pinned

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
        print_json(
            {
                "schema": "placer.pin/v1",
                "catalogs": [{"name": name, "digest": digest} for name, digest in pins],
            }
        )
        return
    click.echo(
        "pinned: " + ", ".join(f"{name} ({digest})" for name, digest in pins)
        if pins
        else "nothing is pinned: requests use default"
    )
