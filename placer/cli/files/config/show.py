"""``placer config show``: the defaults that hold."""

from __future__ import annotations

from typing import Any

from placer.cli.command import Json, as_command
from placer.cli.output import console, print_json
from placer.cli.screen.show import show_blocks
from placer.documents.schemas import CONFIG_SCHEMA


@as_command("show", "Example: placer config show --origin")
def command(*, origin: bool = False, as_json: Json) -> None:
    """List the defaults that hold here, in the order in which flags, environment, the project's
    placer.toml and the user's win.

    Parameters
    ----------
    origin
        Say where each default comes from.
    """
    from placer.interface.settings import PREFIX, every_setting, project_file, user_file
    from placer.report.blocks import table

    found = every_setting()
    project = project_file()
    if as_json:
        rows: list[dict[str, Any]] = [
            {"option": s.option, "value": s.value, "origin": s.origin, "command": s.command or None}
            for s in found
        ]
        files = {"project": None if project is None else str(project), "user": str(user_file())}
        print_json({"schema": CONFIG_SCHEMA, "files": files, "settings": rows})
        return
    if not found:
        console(stderr=True).print(
            f"no defaults: neither {PREFIX}... in the environment, nor a placer.toml from here "
            f"upward, nor {user_file()}; placer config init writes one"
        )
        return
    tables = any(setting.command for setting in found)
    heads = ("option", "value", *(("command",) * tables), *(("origin",) * origin))
    shown = [
        (
            setting.option,
            _said(setting.value),
            *((setting.command or "all",) if tables else ()),
            *((setting.origin,) if origin else ()),
        )
        for setting in found
    ]
    show_blocks(table("Defaults", heads, shown))


def _said(value: Any) -> str:
    """Write a value as it stands on a command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
