"""Plant faults in the source, one at a time, and see whether the tests nearest to them notice.

Run ``python tests/planted_faults.py --count 100`` for faults in all rooms, or with ``--room
placer/report`` in one folder. The same seed plants the same faults. They are planted in copies of
the checkout. One that lives asks for a test, unless it changes no answer, as the order of a search.
"""

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import cycle, islice
from pathlib import Path
from queue import SimpleQueue
from random import Random
from textwrap import shorten
from typing import Any

import networkx as nx

from structure import SOURCES, imports_of, module_of, read_structure

TIME_LIMIT_S, TEST_TIME_LIMIT_S = 120, 60
"""Of all tests, and of one: a fault that never ends is found by it."""
NO_TESTS, LATE = 5, -1
"""Exit codes: of pytest that finds no test, and of one that was ended for its time."""
MOST_MODULES = 4
SCREENS, DOCUMENTS = "cli/test_frozen_screens.py", "documents/test_frozen_documents.py"
CONTRACTS = {
    "placer/__main__.py": ["cli/test_progress.py"],
    "solvers": ["solvers/test_against_enumeration.py", "solvers/test_frozen.py"],
    "placer/advice": ["advice/test_every_verb.py", DOCUMENTS, SCREENS],
    "placer/cli": [DOCUMENTS, SCREENS],
    "placer/cost_model": ["documents/test_certificate.py", DOCUMENTS, SCREENS],
    "placer/documents": [DOCUMENTS, SCREENS],
    "placer/interface": ["interface/test_verbs.py", DOCUMENTS, SCREENS],
    "placer/market": ["market/test_book_contract.py", DOCUMENTS, SCREENS],
    "placer/problem": ["solvers/test_against_enumeration.py", DOCUMENTS, SCREENS],
    "placer/profiler": [SCREENS],
    "placer/reproduction": [DOCUMENTS],
    "placer/report": ["report/test_frozen_pages.py", SCREENS],
    "placer/service": ["service/test_service_limits.py", "service/test_service_questions.py"],
    "placer/solving": ["solvers/test_against_enumeration.py", DOCUMENTS],
    "placer/validation": [DOCUMENTS, SCREENS],
    "placer/workload": ["workload/test_islands.py", DOCUMENTS, SCREENS],
}
"""Tests of a whole room, which are asked after the nearest ones."""
FARTHEST = 4
"""Imports between a test and a module from which on the names of both tell as much."""
LEFT_OUT = ("build", "dist", ".git", ".venv", ".hypothesis", ".*_cache", "__pycache__")
UNSEEN = (ast.arguments, ast.Raise, ast.Assert)
"""Defaults and messages: what no plain run depends on."""
UNSEEN_FIELDS = ("annotation", "returns", "decorator_list", "format_spec")
PAIRS = ["Lt Gt", "LtE GtE", "Eq NotEq", "Is IsNot", "In NotIn", "Add Sub", "Mult Div", "And Or"]
BOTH_WAYS = [pair.split()[::way] for pair in PAIRS for way in (1, -1)]
SWAPS = {getattr(ast, one): getattr(ast, other) for one, other in BOTH_WAYS}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
JOINED = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
"""What is joined by a plus, so that a minus would fail at once."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One change of one module: ``text`` is the whole module with it."""

    path: Path
    line: int
    function: str
    change: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.change}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What the tests say: ``found``, ``lived``, ``no test``, or ``late``: nothing in time."""

    fault: Fault
    word: str
    tests: str

    def __str__(self) -> str:
        return f"{self.word:8}{self.fault}  ({self.tests})"


def places(tree: ast.AST, function: Function | None = None) -> Iterator[tuple[ast.AST, Function]]:
    """Yield the nodes that run inside functions, with the function around each."""
    for name, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            hidden = isinstance(node, UNSEEN) or name in UNSEEN_FIELDS
            if hidden or not isinstance(node, ast.AST) or getattr(node, "arg", "") == "help":
                continue
            if isinstance(node, Function):
                if node.name not in {"__repr__", "__str__"}:
                    yield from places(node, node)
                continue
            if function is not None:
                yield node, function
            yield from places(node, function)


def changed(node: ast.AST, function: Function) -> dict[str, Any] | None:
    """Return the fields of a node that make it faulty; None if this node is left as it is."""
    match node:
        case ast.Compare(ops=[op]):
            return {"ops": [SWAPS[type(op)]()]}
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            joins = any(_joined(child) for child in ast.iter_child_nodes(node))
            return None if joins else {"op": SWAPS[type(op)]()}
        case ast.UnaryOp(op=ast.Not() as op, operand=operand):
            return {"operand": ast.UnaryOp(op=op, operand=operand)}
        case ast.UnaryOp(op=ast.USub()):
            return {"op": ast.UAdd()}
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return {"value": value + 1}
        case ast.Name(id=name) if name in NAMES:
            return {"id": NAMES[name]}
        case ast.Attribute(attr=name) if name in NAMES:
            return {"attr": NAMES[name]}
        case ast.Return(value=ast.expr() as value):
            names = [a.arg for a in function.args.args if a.arg not in {"self", "cls"}][:1]
            if names and ast.unparse(value) != names[0]:
                return {"value": ast.Name(id=names[0])}
    return None


def _joined(node: ast.AST) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, JOINED)


def planted(path: Path, text: str, number: int) -> Fault:
    """Make the node of a number faulty."""
    tree = ast.parse(text)
    node, function = next(islice(places(tree), number, None))
    before = ast.unparse(node)
    for name, value in (changed(node, function) or {}).items():
        setattr(node, name, value)
    return Fault(
        path=path,
        line=getattr(node, "lineno", 0),
        function=function.name,
        change=f"{shorten(before, 60)} -> {shorten(ast.unparse(node), 60)}",
        text=ast.unparse(tree) + "\n",
    )


def choose(root: Path, seed: int, count: int, room: str = "") -> list[Fault]:
    """Draw faults in turn from all rooms whose path begins with ``room``: first a module, more
    often a long one, then a kind of change, then its place.
    """
    draw, rooms = Random(seed), dict[tuple[str, ...], list[Path]]()
    for path in sorted(path for name in SOURCES for path in (root / name).rglob("*.py")):
        parts = path.relative_to(root).parts
        if path.is_relative_to(root / room):
            rooms.setdefault(parts[: min(2, len(parts) - 1)], []).append(path)
    faults: dict[str, Fault] = {}
    order = draw.sample(sorted(rooms), len(rooms))
    # Few rooms have nothing left to draw, so a bounded number of turns is enough.
    for name in islice(cycle(order), 20 * count):
        path = draw.choices(rooms[name], [p.stat().st_size for p in rooms[name]])[0]
        text, kinds = path.read_text(encoding="utf-8"), dict[str, list[int]]()
        for number, (node, function) in enumerate(places(ast.parse(text))):
            if changed(node, function):
                kinds.setdefault(type(node).__name__, []).append(number)
        if kinds:
            number = draw.choice(kinds[draw.choice(sorted(kinds))])
            fault = planted(path.relative_to(root), text, number)
            faults.setdefault(str(fault), fault)
        if len(faults) == count:
            break
    return list(faults.values())


class Nearest:
    """The tests nearest to a module: those from which the fewest imports lead to it, where the
    folder of its room counts one less; of these, those that most often say its name. Then those of
    its whole room.
    """

    def __init__(self, root: Path) -> None:
        self.root, structure = root, read_structure(root)
        tests = [*(root / "tests").glob("*.py"), *(root / "tests").rglob("test_*.py")]
        # Tests of the whole project name many modules and run few.
        unfit = {"conftest", *(path.stem for path in (root / "tests" / "project").glob("*.py"))}
        self.tests = {path.stem: path for path in tests if path.stem not in unfit}
        files = {**structure.files, **self.tests}
        self.texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
        rows = [row for name, path in self.tests.items() for row in imports_of(name, path, files)]
        # Solvers, commands and targets are loaded by their name, which stands in a string, at
        # times apart from its folder.
        commands = {name.split(".")[-1]: name for name in files if name.startswith("placer.cli.")}
        named = (
            (target, name)
            for name, text in self.texts.items()
            for room in {"", "placer.solvers.", *re.findall(r'f"(placer\.[\w.]+)\{', text)}
            for word in re.findall(r'"([\w.]+)"', text)
            for target in (room + word, commands.get(word))
            if target in files
        )
        imported = ((row.target, row.source) for row in (*structure.imports, *rows))
        self.imported_by = nx.DiGraph([*imported, *named])

    def __call__(self, path: Path) -> list[str]:
        """Return the files of tests for a module, its own doctests included."""
        module = module_of(self.root / path, self.root)
        far: dict[str, int] = {}
        if module in self.imported_by:  # else it is run as a program
            far = nx.single_source_shortest_path_length(self.imported_by, module, FARTHEST)
        ranked = []
        for name in (name for name in self.tests if name.startswith("test_")):
            home = self.tests[name].parent.name in path.parts[:-1]
            if name in far or home:
                said = len(re.findall(rf"\b{path.stem}\b", self.texts[name]))
                alike = SequenceMatcher(None, name, path.stem).ratio()
                ranked.append((far.get(name, FARTHEST) - home, -said, -alike, name))
        tests = [self.tests[name] for *_, name in sorted(ranked)[:MOST_MODULES]]
        doctests = [self.root / path] if ">>> " in self.texts[module] else []
        room = [self.root / "tests" / name for name in CONTRACTS.get(_room(path), [])]
        every = dict.fromkeys([*doctests, *tests, *room])
        return [str(test.relative_to(self.root)) for test in every]


def _room(path: Path) -> str:
    return "/".join(path.parts[: 2 if path.parts[0] == "placer" else 1])


def copied(root: Path, folder: Path) -> Path:
    """Copy a checkout."""
    return Path(shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT)))


def judged(fault: Fault, copy: Path, tests: Sequence[str]) -> Outcome:
    """Plant a fault in a copy, run tests, and take it out again."""
    path = copy / fault.path
    whole, unfit = path.read_text(encoding="utf-8"), list[str]()
    while tests:
        _write(path, fault.text)
        try:
            code, failed = _run(copy, [*tests, *(f"--deselect={test}" for test in unfit)])
        finally:
            _write(path, whole)
        # A test that fails anyway, for want of a program or of time, has found nothing.
        if failed and _run(copy, [failed])[0] != 0 and failed not in unfit:
            unfit.append(failed)
            continue
        word = {0: "lived", NO_TESTS: "no test", LATE: "late"}.get(code, "found")
        return Outcome(fault=fault, word=word, tests=failed or " ".join(tests))
    return Outcome(fault=fault, word="no test", tests="")


def _write(path: Path, text: str) -> None:
    """Write a module without what Python compiled of it: it compares whole seconds only."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _run(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests up to the first that fails: the exit code, and its name."""
    options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    limit = f"--timeout={TEST_TIME_LIMIT_S}"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, limit, *tests],
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return LATE, ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
    return process.returncode, failed[1] if failed else ""


def main() -> None:
    """Plant faults, print each outcome as it comes, then the counts and the faults that lived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what chooses the faults")
    parser.add_argument("--count", type=int, default=100, help="how many")
    parser.add_argument("--room", default="", help="a folder: placer/report or solvers/exact/tree")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    words = parser.parse_args()
    root = Path(__file__).parents[1]
    nearest, copies = Nearest(root), SimpleQueue[Path]()

    def one(fault: Fault) -> Outcome:
        copy = copies.get()
        outcome = judged(fault, copy, nearest(fault.path))
        copies.put(copy)
        print(outcome, flush=True)
        return outcome

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(words.jobs) as pool:
        for job in range(words.jobs):
            copies.put(copied(root, Path(folder) / str(job)))
        outcomes = list(pool.map(one, choose(root, words.seed, words.count, words.room)))
    counts = Counter(outcome.word for outcome in outcomes)
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    for outcome in outcomes:
        if outcome.word in {"lived", "no test"}:
            print(outcome)


if __name__ == "__main__":
    main()
