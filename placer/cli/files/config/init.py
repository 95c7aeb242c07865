"""``placer config init``: a file of defaults."""

from __future__ import annotations

from pathlib import Path

from placer.cli.command import as_command
from placer.cli.output import console
from placer.errors import PlacerError, writing_hint


@as_command("init", "Example: placer config init --user")
def command(*, user: bool = False, force: bool = False) -> None:
    """Write placer.toml, a file of defaults.

    Every option stands in it as a comment with an example. The nearest file from the working
    directory upward is used, and flags win over it.

    Parameters
    ----------
    user
        Write the user's file instead of ./placer.toml.
    force
        Replace an existing file.
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
