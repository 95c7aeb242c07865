"""``--help`` with the most common options, and ``--help all`` with every one in groups."""

import re

import click
import pytest

from conftest import Run
from placer.cli import COMMANDS, FORMS, cli
from placer.cli.screen.option_groups import COMMON, NAMED, SHARED, LargeCommand, group_of
from placer.problem.words.wishes import WISHES

ORDER = ["Goal", "Where", "Machines", "Model", "Exchange", "Data", "Risk", "Solver", "Output"]
"""Groups of the main command; that of a simulation stands before the solver."""


def sections(text: str) -> list[str]:
    """Return the headings of a help text in order."""
    return [name.removesuffix(" options") for name in re.findall(r"^(\w.*):$", text, re.MULTILINE)]


def test_the_main_command_has_the_nine_groups(run: Run) -> None:
    """All its options are shared ones, so it has none of its own."""
    shown = run("recommend", "--help", "all").stdout
    assert [name for name in sections(shown) if name in ORDER] == ORDER
    assert "Options" not in sections(shown)
    assert all(len(line) <= 80 for line in shown.split("Examples:")[0].splitlines())


@pytest.mark.parametrize(
    ("verb", "own"),
    [("explain", "--why-not"), ("whatif --over", "--over"), ("robust", "--box")],
)
def test_options_of_a_command_come_first(run: Run, verb: str, own: str) -> None:
    """Before those that many commands share."""
    shown = run(*verb.split(), "--help", "all").stdout
    assert sections(shown)[0] == "Options"
    assert shown.index(own) < shown.index("Goal options:")


@pytest.mark.parametrize("name", COMMON)
def test_ten_common_options_come_first(run: Run, name: str) -> None:
    """In a flat list that has what must be given, and says how to see the others."""
    words = {"sweep": ("whatif", "--over")}.get(name, (name,))
    words = ("capacity", name) if name in ("replay", "watch") else words
    context, command = click.Context(cli), cli
    for word in words:
        form = FORMS.get(words[0], {}).get(word)
        found = cli.loaded(form) if form else command.get_command(context, word)
        command = found  # type: ignore[assignment]
    assert isinstance(command, LargeCommand)
    options = [p for p in command.params if isinstance(p, click.Option)]
    names = {*COMMON[name].split()}
    assert len(names) == 10
    assert {p.name for p in options if p.required} <= names <= {p.name for p in options}
    shown = run(*words, "--help").stdout
    common = shown.partition("Common options:")[2].partition("more options")[0]
    assert len(re.findall(r"^  (?:-\w, )?--[a-z0-9-]+", common, re.MULTILINE)) == 10
    assert f"{len(options) - 10} more options: placer {' '.join(words)} --help all" in shown


def test_every_option_is_shown_once(run: Run) -> None:
    """Also those of the table of wishes, each in a group."""
    context = click.Context(cli)
    for verb in ("recommend", "pareto", "portfolio", "estimate", "whatif"):
        command = cli.get_command(context, verb)
        assert command is not None
        shown = run(verb, "--help", "all").stdout
        rows = re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", shown, re.MULTILINE)
        options = [p for p in command.params if isinstance(p, click.Option)]
        assert len(rows) == len(options) + 1
        assert len(set(rows)) == len(rows)
    assert all(group_of(click.Option([wish.flag, name])) in ORDER for name, wish in WISHES.items())


def test_few_options_need_no_groups(run: Run) -> None:
    """One list."""
    assert "Options" in sections(run("config", "check", "--help").stdout)
    assert [title for title in SHARED if title != "Simulation"] == ORDER
    assert set(NAMED.values()) <= set(SHARED)
    assert "recommend" in COMMANDS
