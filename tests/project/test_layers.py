"""The structure: imports go down only, in no circle; nothing heavy is loaded early; names say what
they hold.
"""

import shutil
from pathlib import Path

import pytest

from conftest import ROOT, in_fresh_python
from structure import FLOORS, SOURCES, read_structure, rooms_by_level

HEAVY = {
    "numpy",
    "pandas",
    "networkx",
    "ortools",
    "highspy",
    "pulp",
    "rich",
    "torch",
    "boto3",
    "msgspec",
    "yaml",
    "httpx2",
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source, to plant faults in."""
    root = tmp_path_factory.mktemp("copy")
    for name in SOURCES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def planted(root: Path, file: str, code: str) -> tuple[list[list[str]], list[str]]:
    """List the circles and upward imports that some code at the end of a file adds."""
    path, before = root / file, read_structure(root)
    text = path.read_text(encoding="utf-8")
    path.write_text(text + code, encoding="utf-8")
    after = read_structure(root)
    path.write_text(text, encoding="utf-8")
    circles, upward = before.circles(), set(before.upward())
    new = [f"{i.source} -> {i.target}" for i in after.upward() if i not in upward]
    return [circle for circle in after.circles() if circle not in circles], new


def test_imports_go_down_only() -> None:
    """Every import of another room is of a lower floor, wherever the import stands."""
    assert [f"{i.source}:{i.line} imports {i.target}" for i in read_structure(ROOT).upward()] == []


def test_no_modules_import_each_other() -> None:
    """No circle, not even by imports inside functions or under TYPE_CHECKING."""
    assert read_structure(ROOT).circles() == []


def test_every_room_has_a_floor_and_every_floor_a_room() -> None:
    """The list of floors names what is there, nothing else."""
    there = {
        p.stem
        for p in (ROOT / "placer").iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert {room for floor in FLOORS for room in floor} == there | {"solvers"}


def test_a_planted_circle_is_found(copy: Path) -> None:
    """Two modules of one room that import each other: `budget` needs `units`, which must not need
    it.
    """
    circles, upward = planted(
        copy,
        "placer/market/carbon.py",
        "\nfrom placer.market.catalog import Catalog\nimport placer.market.words.selection\n",
    )
    assert (circles, upward) == ([], [])  # imports within a room are no fault by themselves
    circles, _ = planted(
        copy,
        "placer/market/catalog.py",
        "\nfrom placer.market.words.selection import match_places\n",
    )
    assert len(circles) == 1
    assert {"placer.market.catalog", "placer.market.words.selection"} <= set(circles[0])


def test_a_planted_upward_import_inside_a_function_is_found(copy: Path) -> None:
    """The price book may not ask a solver, however late it imports it."""
    _, upward = planted(
        copy,
        "placer/market/carbon.py",
        "\ndef late() -> None:\n    from placer.solving.solve import solve\n",
    )
    assert upward == ["placer.market.carbon -> placer.solving.solve"]


def test_a_level_holds_about_a_dozen_rooms() -> None:
    """A newcomer reads a level at one glance: 16 packages and 5 files at the top, at most 13
    below. The fifth file is `records.py`, which knows both kinds of records, so that nobody else
    has to.
    """
    rooms = rooms_by_level(ROOT)
    assert rooms.pop("placer") <= 21
    assert max(rooms.values()) <= 13, rooms


def test_nothing_is_called_utils() -> None:
    """A name says what is in a file."""
    stems = {path.stem for name in SOURCES for path in (ROOT / name).rglob("*.py")}
    assert not stems & {"utils", "core", "common", "base", "helpers", "manager"}


def loaded_by(code: str) -> set[str]:
    """Modules in sys.modules after some code, in a fresh process."""
    script = f"import sys\n{code}\nprint(' '.join(sorted(sys.modules)), file=sys.stderr)"
    done = in_fresh_python(script)
    return set(done.stderr.split())


def test_import_placer_loads_nothing_heavy() -> None:
    """No numpy, pandas, solver or terminal library before they are needed."""
    assert not loaded_by("import placer; dir(placer)") & HEAVY


def test_help_loads_nothing_heavy() -> None:
    """`placer --help` needs click alone."""
    assert (
        not loaded_by(
            "from placer.cli import run\ntry:\n    run(['--help'])\nexcept SystemExit:\n    pass"
        )
        & HEAVY
    )


def test_recommend_loads_no_solver_package_pandas_or_networkx() -> None:
    """The main job runs on NumPy. Rooms of other verbs and other questions, and the masked arrays
    that `np.unique` and `np.median` load, would be a quarter of its imports. What it prints of the
    risk is part of it.
    """
    code = (
        "import placer\nfrom placer.cost_model.outlook.outlook import spot_outlook\n"
        "r = placer.recommend('roberta-xlm', budget='5/h')\n"
        "spot_outlook(r.placement, r.estimate, r.problem)"
    )
    assert not loaded_by(code) & {
        "placer.advice.confidence",
        "placer.advice.explanation",
        "placer.advice.frontier",
        "placer.documents.manifest",
        "placer.launch",
        "placer.profiler",
        "placer.reproduction",
        "placer.solvers._drafts.zones",
        "placer.solving.batches.search",
        "placer.solving.by_hand",
        "placer.solving.cross_check",
        "placer.solving.nearest_plan",
        "placer.solving.shares",
        "placer.validation",
        "pandas",
        "networkx",
        "ortools",
        "highspy",
        "pulp",
        "scipy",
        "torch",
        "boto3",
        "numpy.ma",
    }


def test_the_short_answer_loads_neither_gossip_nor_folders_of_the_system() -> None:
    """Only local steps may have gossip, and nobody asks the system for folders that are given."""
    code = (
        "import os, tempfile\n"
        "os.environ['PLACER_HOME'] = tempfile.gettempdir()\n"
        "from placer.cli import run\n"
        "try:\n    run(['recommend', '--model', 'roberta-xlm', '--budget', '5/h'])\n"
        "except SystemExit:\n    pass"
    )
    assert not loaded_by(code) & {
        "html",
        "importlib.resources",
        "placer.solvers.exact.gossip_search",
        "platformdirs",
    }


def test_recommend_makes_few_dataclasses() -> None:
    """A dataclass compiles six functions when its module is imported, 0.6 ms each: 158 of them were
    a tenth of the main job. What is left has fields that must stay out of `repr` or of comparisons,
    which `msgspec.Struct` does not know.
    """
    code = (
        "import dataclasses, placer\n"
        "placer.recommend('roberta-xlm', budget='5/h')\n"
        "made = {f'{kind.__module__}.{kind.__qualname__}' for module in list(sys.modules.values())"
        " if module.__name__.startswith('placer') for kind in list(vars(module).values())"
        " if isinstance(kind, type) and dataclasses.is_dataclass(kind)}\n"
        "print(' '.join(made), file=sys.stderr)"
    )
    made = {name for name in loaded_by(code) if name.rpartition(".")[2][:1].isupper()}
    assert {name for name in made if name.startswith("placer.")} == {
        "placer.market.catalog.Catalog",
        "placer.solvers._market.market.Market",
        "placer.solvers._target.Target",
        "placer.solving.allowance.Allowance",
        "placer.solving.allowance.Closing",
        "placer.solving.result.Result",
    }
