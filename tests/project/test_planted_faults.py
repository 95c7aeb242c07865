"""Planted faults: what is changed, and that the nearest tests find one."""

import ast
from pathlib import Path

from conftest import ROOT
from planted_faults import Nearest, changed, choose, copied, judged, places, planted

TEXT = '''
RATE = 2 * 3

def share(part: float, whole: float = 1 + 1) -> float:
    """Say 1 + 1."""
    if not whole or part < 0:
        raise ValueError(f"{part + 1}")
    return max(part, -whole) * 100
'''


def faults_of(text: str) -> list[str]:
    """Every change of a text that can be planted."""
    nodes = enumerate(places(ast.parse(text)))
    numbers = [number for number, pair in nodes if changed(*pair)]
    return [planted(Path("a.py"), text, number).change for number in numbers]


def test_what_runs_is_changed() -> None:
    """Operators, signs, constants, names and what is returned; no default, message, docstring or
    constant outside of functions.
    """
    assert sorted(faults_of(TEXT)) == sorted(
        [
            "not whole or part < 0 -> not whole and part < 0",
            "not whole -> not not whole",
            "part < 0 -> part > 0",
            "0 -> 1",
            "return max(part, -whole) * 100 -> return part",
            "max(part, -whole) * 100 -> max(part, -whole) / 100",
            "max -> min",
            "-whole -> +whole",
            "100 -> 101",
        ]
    )


def test_a_seed_names_faults_in_all_rooms() -> None:
    """The same ones each time; thirty faults lie in more than fifteen rooms."""
    faults = choose(ROOT, 5, 30)
    assert list(map(str, faults)) == list(map(str, choose(ROOT, 5, 30)))
    assert len({fault.path.parts[:2] for fault in faults}) > 15
    assert {fault.path.parent for fault in choose(ROOT, 5, 3, "solvers/_drafts")} == {
        Path("solvers/_drafts")
    }


def test_modules_named_by_their_folder_have_near_tests() -> None:
    """The searches by zones load `fleet` as a part of ``f"placer.solvers._drafts.{name}"``."""
    assert "tests/solvers/test_zones.py" in Nearest(ROOT)(Path("solvers/_drafts/fleet.py"))


def test_a_fault_in_a_unit_is_found(tmp_path: Path) -> None:
    """The first fault in how a budget is read; afterwards the copy is as it was."""
    copy, path = copied(ROOT, tmp_path / "copy"), Path("placer/units.py")
    text = (copy / path).read_text()
    tests = Nearest(copy)(path)
    assert "tests/test_units.py" in tests
    found = [
        planted(path, text, number)
        for number, pair in enumerate(places(ast.parse(text)))
        if pair[1].name == "parse_budget" and changed(*pair)
    ]
    assert judged(found[0], copy, ["tests/test_units.py"]).word == "found"
    assert (copy / path).read_text() == text
