"""Defaults of the options: files, environment, who wins, what is refused."""

import json
import re
from pathlib import Path

import pytest
from conforming import validator

from conftest import Run
from placer.cli import PATHS
from placer.errors import PlacerError
from placer.interface.settings import (
    COMMANDS,
    NAMES,
    PREFIX,
    defaults_for,
    project_file,
    settings,
    template,
    user_file,
)
from placer.problem.words.wishes import WISHES


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below a project, with an empty folder for the user's file."""
    folder = tmp_path / "project" / "below"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PLACER_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_the_environment_wins_over_the_project_and_this_over_the_user(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option by itself; its origin says where it stands."""
    user_file().write_text('budget = "1/h"\ngpu = "T4"\nin = "us"\n', encoding="utf-8")
    (place.parent / "placer.toml").write_text('# ours\nbudget = "2/h"\nin = "eu"\n', "utf-8")
    monkeypatch.setenv(f"{PREFIX}BUDGET", "3/h")
    found = settings()
    assert {name: s.value for name, s in found.items()} == {
        "budget": "3/h",
        "places": "eu",
        "gpu": "T4",
    }
    assert found["budget"].origin == f"${PREFIX}BUDGET"
    assert found["places"].origin == "../placer.toml:3"
    assert found["gpu"].origin.endswith("placer.toml:2")


def test_the_nearest_file_upward_is_the_project(place: Path) -> None:
    """One below hides one above."""
    assert project_file() is None or place not in project_file().parents  # type: ignore[union-attr]
    above, below = place.parent / "placer.toml", place / "placer.toml"
    above.write_text('budget = "1/h"\n', "utf-8")
    assert project_file() == above
    below.write_text('gpu = "T4"\n', "utf-8")
    assert project_file() == below
    assert {*settings()} == {"gpu"}


def test_values_are_those_of_the_table(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, lists and truth values, as in Python; paths are meant beside the file."""
    (place / "placer.toml").write_text(
        'workers = 4\ngpu = ["T4", "A10"]\nspot = true\nown = "office=2xT4@Berlin"\n'
        'catalog = ["default", "own.csv"]\nquota = "quota.csv"\ngap = 0.01\ntime-limit = 5\n',
        "utf-8",
    )
    monkeypatch.setenv(f"{PREFIX}OVERLAP", "yes")
    values = {name: setting.value for name, setting in settings().items()}
    assert values == {
        "workers": "4",
        "gpu": "T4,A10",
        "spot": True,
        "own": ["office=2xT4@Berlin"],
        "catalog": ["default", str(place / "own.csv")],
        "quota": str(place / "quota.csv"),
        "gap": "0.01",
        "time_limit": "5s",
        "overlap": True,
    }


def test_an_unknown_variable_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only with the prefix of defaults: other variables belong to the jobs that placer starts."""
    monkeypatch.setenv("PLACER_MODEL", "whatever")
    assert settings() == {}
    monkeypatch.setenv(f"{PREFIX}MAX_PRICE", "5/h")
    with pytest.raises(PlacerError, match="unknown option 'max-price'") as refused:
        settings()
    assert "'budget'" in refused.value.hint


def test_flags_win_over_what_contradicts_them(place: Path) -> None:
    """Also where the option has another name; by hand, workers are the placement."""
    (place / "placer.toml").write_text('spot = true\nsamples = "10M"\nworkers = 4\n', "utf-8")
    every = [*NAMES.values()]
    assert {s.name for s in defaults_for(every, [])} == {"spot", "samples", "workers"}
    assert {s.name for s in defaults_for(every, ["market", "workers"])} == {"samples"}
    assert {s.name for s in defaults_for(every, ["tokens"])} == {"spot", "workers"}
    assert defaults_for(["workers", "model"], []) == []


def test_a_table_of_a_command_wins_over_what_stands_above_it(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For that command alone; environment and flags win over it, and it replaces what contradicts
    it.
    """
    (place / "placer.toml").write_text(
        'budget = "1/h"\nspot = true\n\n[recommend]\nbudget = "5/h"\nmarket = "any"\n'
        'catalog = "own.csv"\n\n[estimate]\nbudget = "5/h"\n',
        "utf-8",
    )
    every = [*NAMES.values()]
    assert settings(command="recommend")["budget"].origin == "placer.toml:5"
    assert {s.name: s.value for s in defaults_for(every, [], "recommend")} == {
        "budget": "5/h",
        "market": "any",
        "catalog": [str(place / "own.csv")],
    }
    assert [s.value for s in defaults_for(every, [], "pareto")] == ["1/h", True]
    with pytest.raises(PlacerError, match=r":10: placer estimate takes no default of 'budget'"):
        defaults_for(["model"], [], "estimate")
    shown = run("config", "show", "--origin", cwd=place, PLACER_HOME=str(place))
    assert re.search(r"budget +5/h +recommend +placer.toml:5", shown.stdout)
    assert re.search(r"budget +1/h +all +placer.toml:1", shown.stdout)
    monkeypatch.setenv(f"{PREFIX}BUDGET", "3/h")
    assert [s.value for s in defaults_for(["budget"], ["market", "catalog"], "pareto")] == ["3/h"]
    assert settings(command="recommend")["budget"].value == "3/h"
    monkeypatch.setenv(f"{PREFIX}SPOT", "yes")
    names = {s.name for s in defaults_for(every, [], "recommend")}
    assert names == {"budget", "spot", "catalog"}


def test_every_command_that_asks_may_have_a_table() -> None:
    """Their names stand in two rooms, as the interface knows no command line."""
    assert {*COMMANDS} == {name for name, path in PATHS.items() if path.startswith("ask.")}


def test_the_template_has_every_option_and_asks_for_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line without its # is a default that is read."""
    path = place / "placer.toml"
    path.write_text(template(), "utf-8")
    assert settings() == {}
    lines = [line.removeprefix("# ") for line in template().splitlines()]
    path.write_text("\n".join(line for line in lines if " = " in line), "utf-8")
    assert {*settings()} >= {*WISHES}


def test_commands_use_and_show_them(run: Run, tmp_path: Path) -> None:
    """`config init` writes the file, `config show` lists it, and a flag wins over it."""
    home = {"PLACER_HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    done = run("config", "init", cwd=tmp_path, **home)
    assert (done.returncode, "placer.toml" in done.stderr) == (0, True)
    again = run("config", "init", cwd=tmp_path, **home)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert run("config", "init", "--force", cwd=tmp_path, **home).returncode == 0
    assert run("config", "init", "--user", cwd=tmp_path, **home).returncode == 0
    assert "no defaults" in run("config", "show", cwd=tmp_path, **home).stderr
    text = 'budget = "2/h"\ncatalog = "erben-2023"\ngpu = "T4"\nspot = true\n'
    (tmp_path / "placer.toml").write_text(text, "utf-8")
    shown = run("config", "show", "--origin", cwd=tmp_path, **home)
    assert "placer.toml:1" in shown.stdout
    document = json.loads(run("config", "show", "--json", cwd=tmp_path, **home).stdout)
    validator("config").validate(document)
    assert {row["command"] for row in document["settings"]} == {None}  # they hold for all
    asked = run("recommend", "--model", "resnet50", "--json", cwd=tmp_path, **home)
    assert asked.returncode == 0, asked.stderr
    request = json.loads(asked.stdout)["request"]
    assert (request["budget_usd_per_hour"], request["gpus"]) == (2.0, ["T4"])
    assert "defaults: budget (placer.toml:1)" in asked.stderr
    words = ("recommend", "--model", "resnet50", "--budget", "1/h", "--market", "any", "--json")
    other = json.loads(run(*words, cwd=tmp_path, **home).stdout)["request"]
    assert (other["budget_usd_per_hour"], other["market"]) == (1.0, "any")
    (tmp_path / "placer.toml").write_text('budgt = "5/h"\n', "utf-8")
    wrong = run("recommend", "--model", "resnet50", cwd=tmp_path, **home)
    assert (wrong.returncode, "'budget'" in wrong.stderr) == (2, True)
