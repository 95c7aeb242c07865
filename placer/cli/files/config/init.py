"""``placer config init``: a file of defaults."""

from __future__ import annotations

from pathlib import Path

import click

from placer.cli.output import console
from placer.errors import PlacerError, writing_hint


@click.command("init", epilog="Example: placer config init --user")
@click.option("--user", is_flag=True, help="Write the user's file instead of ./placer.toml.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(user: bool, force: bool) -> None:
    """Write placer.toml, a file of defaults.

    Every option stands in it as a comment with an example. The nearest file from the working
    directory upward is used, and flags win over it.
    """
    from placer.interface.settings import FILE, template, user_file

    path = user_file() if user else Path(FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as handle:
            handle.write(template())
    except FileExistsError:
        raise PlacerError(f"'{path}' already exists", "add --force to replace it") from None
    except OSError as error:
        words = f"cannot write '{path}': {error.strerror or error}"
        raise PlacerError(
            words, writing_hint(error, "choose another folder"), exit_code=1
        ) from None
    console(stderr=True).print(f"wrote {path}; placer config show --origin lists what holds")
