"""Shell scripts. Values stand only in quoted assignments, which are read back at once; the rest is
fixed text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from placer.errors import PlacerError
from placer.launch.export.texts.heading import comments

BASH = "#!/usr/bin/env bash\n"


def exports(environment: Mapping[str, str]) -> list[str]:
    """Write the lines that set and export variables, whatever their values contain."""
    return [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]


def script(
    heading: Iterable[str],
    environment: Mapping[str, str],
    tail: Iterable[str] = (),
    *,
    sourced: bool = False,
    directives: Iterable[str] = (),
) -> str:
    """Write a script of bash.

    Parameters
    ----------
    heading
        Lines of comment.
    environment
        Variables to export.
    tail
        Fixed lines after them; values stand in the variables only.
    sourced
        For ``source``: no options of the shell are changed.
    directives
        Options of sbatch, before the first command.

    Raises
    ------
    PlacerError
        If the assignments do not read back as what was meant: a defect, said instead of being
        written.
    """
    start = "" if sourced else BASH + "".join(f"#SBATCH {line}\n" for line in directives)
    options = [] if sourced else ["set -euo pipefail"]
    text = start + comments(heading) + "\n".join([*options, *exports(environment), *tail]) + "\n"
    if assignments(text) != dict(environment):
        raise PlacerError(
            "the shell script does not read back as what was meant",
            "report it with the manifest",
            exit_code=1,
        )
    return text


def require(name: str, words: str) -> str:
    """Write a line that ends the script with exit code 2 unless a variable is set.

    ``${NAME:?WORDS}`` would end it with 1, or 127, which a launcher takes for a failed training.
    """
    return f'if [ -z "${{{name}:-}}" ]; then echo "{name}: {words}" >&2; exit 2; fi'


def returning(lines: Iterable[str]) -> list[str]:
    """Turn lines that end a script into lines of a file that is sourced: the shell goes on."""
    return [line.replace("exit 2", "return 2") for line in lines]


def assignments(text: str) -> dict[str, str]:
    """Read the variables that ``export NAME=value`` lines of a script set, as a shell does."""
    words = shlex.split(text, comments=True)
    pairs = (
        words[i + 1].partition("=")
        for i, word in enumerate(words[:-1])
        if word == "export" and "=" in words[i + 1]
    )
    return {name: value for name, _, value in pairs if "$" not in name}
