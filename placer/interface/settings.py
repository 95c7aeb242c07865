"""Defaults of the options: from the environment, a project's ``placer.toml`` and the user's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError
from placer.files.bounded_file import line_of, read_file, read_toml
from placer.market.books.folders import own_folder
from placer.problem.words.meanings import unknown_word
from placer.problem.words.values import check_words
from placer.problem.words.wishes import WISHES
from placer.records import replace

FILE = "placer.toml"
PREFIX = "PLACER_DEFAULT_"
"""Before the name of an option in the environment: ``PLACER_DEFAULT_BUDGET``. Other variables that
begin with ``PLACER_`` belong to the jobs that placer starts.
"""
GIVE = 'write options without their dashes, such as budget = "5/h"; see placer config init'
NAMES: Mapping[str, str] = {
    **{wish.word: wish.name for wish in WISHES.values()},
    **{word: word.replace("-", "_") for word in ("model", "solver", "gap", "time-limit")},
    "catalog": "catalog",
    "memory-limit": "memory_limit",
    "seed": "seed",
}
"""Options that may have a default, by what is written, with their names in Python."""
PATHS = ("catalog", "quota", "calibration", "model")
"""Options whose value may be a path, which in a file is meant beside the file."""
GIVES_WAY: Mapping[str, tuple[str, ...]] = {
    "spot": ("market",),
    "market": ("spot",),
    "samples": ("tokens",),
    "tokens": ("samples",),
    "lora": ("qlora",),
    "qlora": ("lora",),
    "data_size": ("data",),
}
"""Names of defaults that a flag of another option replaces, because both cannot hold."""
COMMANDS = (
    *("recommend", "try", "pareto", "estimate", "explain", "whatif", "robust", "portfolio"),
)
"""Commands that take defaults, and may have a table of their own in a file."""
NOT_BY_HAND = ("workers",)
"""Options that mean something else where a placement is given by hand."""


class Setting(Struct, frozen=True, kw_only=True):
    """A default of one option: its name on the command line and in Python, its value as the command
    line takes it, and where it was found; ``command`` is empty where it is for every command.
    """

    option: str
    name: str
    value: Any
    origin: str
    command: str = ""


def settings(command: str = "") -> dict[str, Setting]:
    """Read the defaults of all options: those of the environment win over those of the project, and
    these over the user's. In a file, the table of a command wins over what stands above it.

    ``command``: whose table counts; empty: no table does. Raise a `PlacerError` that names file and
    line, or variable, of an option that does not exist or of a value of the wrong kind.
    """
    found: dict[str, Setting] = {}
    for setting in _written():
        if setting.command in ("", command):
            found.pop(setting.name, None)  # what wins over more stands later
            found[setting.name] = setting
    return found


def every_setting() -> list[Setting]:
    """List the defaults that hold: those of every command by option, then those of tables by
    command.

    Raise `PlacerError`: as `settings`.
    """
    names = ("", *COMMANDS)
    rows = [each for name in names for each in settings(name).values() if each.command == name]
    return sorted(rows, key=lambda setting: (setting.command, setting.option))


def _written() -> Iterator[Setting]:
    """Yield all defaults, those that win last."""
    for path in (user_file(), project_file()):
        if path is not None and path.is_file():
            yield from _of_file(path)
    yield from _of_environment()


def defaults_for(names: Iterable[str], flags: Iterable[str], command: str = "") -> list[Setting]:
    """Return the defaults of some options beside the flags that were given.

    ``names``: options of a command, by their names in Python. ``flags``: names in Python of the
    options that the user gave. ``command``: its name, for its table in a file. Raise `PlacerError`:
    as `settings`, and for an option in the table of a command that does not take it.
    """
    known, given = {*names}, {*flags}
    if "budget" not in known:  # a placement by hand: nothing is searched that could be limited
        known -= {*NOT_BY_HAND}
    found = [*settings(command=command).values()]
    for setting in found:
        if setting.command and setting.name not in known:
            raise PlacerError(
                f"{setting.origin}: placer {command} takes no default of '{setting.option}'",
                f"remove it from [{command}]",
            )
    return [
        setting
        for setting in found
        if setting.name in known
        and setting.name not in given
        and not (given | _winning(setting, found)) & {*GIVES_WAY.get(setting.name, ())}
    ]


def _winning(setting: Setting, found: list[Setting]) -> set[str]:
    """Return the names of the defaults that win over one because of where they stand."""

    def where(each: Setting) -> tuple[str, str]:
        return each.command, each.origin.rpartition(":")[0]

    later = found[found.index(setting) + 1 :]
    return {each.name for each in later if where(each) != where(setting)}


def user_file() -> Path:
    """Return where the user's file is looked for: ``$PLACER_HOME``, else the usual folder."""
    return own_folder("config") / FILE


def project_file() -> Path | None:
    """Find the nearest ``placer.toml`` from the working directory upward; None if there is none."""
    try:
        start = Path.cwd().resolve()
    except OSError:  # the working directory is gone
        return None
    own = user_file()
    candidates = (place / FILE for place in (start, *start.parents))
    return next((path for path in candidates if path != own and path.is_file()), None)


def template() -> str:
    """Write a file of defaults in which every option stands as a comment, with an example."""
    lines = [
        "# Defaults of the options of placer. Flags win over the environment "
        f"({PREFIX}BUDGET=5/h),",
        "# the environment over this file, and this file over the user's. Keep no secrets here.",
        "# Remove the # before a line to use it; placer config show --origin lists what holds.",
        "",
        '# model = "roberta-xlm"',
        '# catalog = ["default"]',
    ]
    for wish in WISHES.values():
        value = "true" if wish.is_flag else f'"{wish.example}"'
        lines.append(f"# {wish.word} = {value}  # {wish.help}")
    lines += ['# gap = "0.1%"', '# time-limit = "30s"', '# memory-limit = "2GB"', ""]
    lines += ["# For one command alone, also as a table [recommend] at the end of the file:"]
    lines += ['# recommend.time-limit = "60s"']
    return "\n".join(lines) + "\n"


def _of_file(path: Path) -> Iterator[Setting]:
    said = _short(path)
    text = read_file(str(path), GIVE).decode("utf-8-sig", errors="replace").splitlines()
    rows = read_toml(str(path), GIVE)
    tables = {name: rows.pop(name) for name in COMMANDS if isinstance(rows.get(name), dict)}
    for command, table in {"": rows, **tables}.items():
        begin = line_of(command, text, range(len(text))) if command else 0
        for option, value in table.items():
            where = f"{said}:{line_of(option, text, range(begin, len(text))) + 1}"
            setting = _setting(option, value, where, command)
            yield _beside(setting, path.parent) if setting.name in PATHS else setting


def _of_environment() -> Iterator[Setting]:
    for variable, value in sorted(os.environ.items()):
        if variable.startswith(PREFIX):
            option = variable.removeprefix(PREFIX).lower().replace("_", "-")
            yield _setting(option, _flag_of(option, value), f"${variable}")


def _flag_of(option: str, value: str) -> str | bool:
    """Read yes and no of an option that takes no value."""
    wish = WISHES.get(NAMES.get(option, ""))
    if wish is None or not wish.is_flag:
        return value
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
        value.lower(), value
    )


def _setting(option: str, value: Any, origin: str, command: str = "") -> Setting:
    """Check the name of an option and the kind of its value."""
    written = option.replace("_", "-")
    name = NAMES.get(written)
    if name is None:
        kind, names = ("table", COMMANDS) if isinstance(value, dict) else ("option", NAMES)
        error = unknown_word(kind, option, names, GIVE)
        raise PlacerError(f"{origin}: {error.message}", error.hint)
    try:
        checked = _checked(name, value)
        return Setting(option=written, name=name, value=checked, origin=origin, command=command)
    except PlacerError as error:
        raise PlacerError(f"{origin}: {error.message}", error.hint) from None


def _checked(name: str, value: Any) -> Any:
    """Write a value as the option takes it: text, a list of it, or a truth value."""
    wish = WISHES.get(name)
    if wish is not None:
        written = check_words({name: value})[name]
        if wish.repeatable and isinstance(written, str):
            return [written]
        return ",".join(written) if isinstance(written, list) and not wish.repeatable else written
    if name == "catalog":
        if isinstance(value, str):
            return [value]
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return value
        raise PlacerError(f"{name} {value!r} is no name", "give text, or a list of it")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PlacerError(f"{name} {value!r} is of type {type(value).__name__}", "give text")
    if name == "seed":
        return value
    return f"{value}s" if name == "time_limit" and not isinstance(value, str) else str(value)


def _beside(setting: Setting, folder: Path) -> Setting:
    """Put the folder of a file before paths that stand in it."""

    def there(value: Any) -> Any:
        if isinstance(value, list):
            return [there(part) for part in value]
        is_path = isinstance(value, str) and (
            value.startswith(("./", "../")) or value.endswith((".csv", ".json", ".toml"))
        )
        return str(folder / value) if is_path else value

    return replace(setting, value=there(setting.value))


def _short(path: Path) -> str:
    """Name a file relative to the working directory where that is shorter."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return str(path)
    return relative if len(relative) < len(str(path)) else str(path)
