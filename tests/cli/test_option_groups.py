"""``--help`` with the most common options, and ``--help all`` with every one in groups."""

import re
from pathlib import Path

import click
import pytest

from conftest import Run
from placer.cli import FORMS, cli
from placer.cli.group import loaded
from placer.cli.screen.option_groups import COMMON, LargeCommand, group_of
from placer.problem.words.wishes import WISHES

ORDER = ["Goal", "Where", "Machines", "Model", "Exchange", "Data", "Risk", "Solver", "Output"]
"""Groups of the main command; that of a simulation stands before the solver."""


@pytest.mark.parametrize("name", COMMON)
def test_ten_common_options_come_first(run: Run, name: str) -> None:
    """In a flat list that has what must be given, and says how to see the others."""
    words = {"sweep": ("whatif", "--over")}.get(name, (name,))
    words = ("capacity", name) if name in ("replay", "watch") else words
    context, command = click.Context(cli), cli
    for word in words:
        form = FORMS.get(words[0], {}).get(word)
        found = loaded(form) if form else command.get_command(context, word)
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


def test_own_machines_are_read_from_what_a_cluster_manager_prints(run: Run, tmp_path: Path) -> None:
    """Two idle nodes of a file, beside one that is written by hand; what was read is said."""
    path = tmp_path / "nodes.txt"
    path.write_text(
        "NODELIST NODES STATE CPUS MEMORY GRES\nn[1-2] 2 idle 8 60000 gpu:t4:1\n", encoding="utf-8"
    )
    given = ("--own", f"{path}@Berlin", "--own", "mine=1xT4@Berlin", "--in", "onprem/*")
    done = run("recommend", "--model", "resnet50", *given, columns=400)
    assert done.returncode == 0, done.stderr
    assert f"read {path} as --own n=2xt4:1@Berlin:ram=60000MiB:cpus=8" in done.stderr
    assert "2 x T4 in onprem/n" in done.stdout
