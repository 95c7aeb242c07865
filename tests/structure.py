"""Measure the structure of the source: rooms, floors, circles, upward imports and lines.

Run ``python tests/structure.py`` for this checkout, or ``python tests/structure.py DIR`` for
another one, such as an older version in ``git worktree add /tmp/old REVISION``. Every import
counts: at the top of a module, inside a function, and under ``TYPE_CHECKING``. Modules that are
reached by name at run time (solvers, commands, export targets) are not imports.
"""

import ast
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx as nx

FLOORS = (
    ("__main__",),
    ("cli",),
    ("service",),
    ("__init__",),
    ("interface",),
    ("advice", "launch", "reproduction"),
    ("validation", "profiler", "solvers"),
    ("solving",),
    ("report",),
    ("documents",),
    ("cost_model",),
    ("problem",),
    ("workload",),
    ("market",),
    ("units",),
    ("files",),
    ("errors", "records"),
    ("version",),
)
"""Rooms of placer from the top: a room imports only from floors below its own."""
SOURCES = ("placer", "solvers")
"""Folders that hold source; ``solvers`` installs as ``placer.solvers``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """One module that imports another, with the line that says so."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Modules of a checkout, with the imports between them."""

    files: Mapping[str, Path]
    imports: tuple[Import, ...]

    def circles(self) -> list[list[str]]:
        """List the sets of modules that import each other, directly or through others."""
        graph = nx.DiGraph((i.source, i.target) for i in self.imports)
        return sorted(
            sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1
        )

    def floors(self) -> int:
        """Count how high imports stand on each other, where the modules of a circle share one
        floor.
        """
        graph = nx.condensation(nx.DiGraph((i.source, i.target) for i in self.imports))
        return int(nx.dag_longest_path_length(graph)) + 1

    def upward(self, floors: Iterable[Iterable[str]] = FLOORS) -> list[Import]:
        """List imports of another room that is not on a lower floor, and modules of rooms that no
        floor names.
        """
        height = {room: -depth for depth, rooms in enumerate(floors) for room in rooms}
        wrong = []
        for row in self.imports:
            source, target = room_of(row.source), room_of(row.target)
            known = source in height and target in height
            if source != target and not (known and height[target] < height[source]):
                wrong.append(row)
        return wrong


def read_structure(root: Path) -> Structure:
    """Read the imports of all source files of a checkout, without running any."""
    files = {
        module_of(path, root): path
        for name in SOURCES
        for path in sorted((root / name).rglob("*.py"))
    }
    return Structure(
        files=files,
        imports=tuple(i for name, path in files.items() for i in imports_of(name, path, files)),
    )


def module_of(path: Path, root: Path) -> str:
    """Name the module of a file: ``solvers/exact`` is ``placer.solvers.exact``."""
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts if parts[0] == "placer" else ("placer", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """Name the room of a module: the level below ``placer``, or ``__init__`` for the top."""
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(name: str, path: Path, known: Iterable[str]) -> list[Import]:
    """List the modules of placer that a file imports, wherever the import stands."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names, imports = set(known), []
    for home, level, members, line in _statements(path.read_text(encoding="utf-8")):
        module = _absolute(package, home, level)
        longer = {f"{module}.{member}" for member in members}
        targets = longer & names | ({module} if not members or longer - names else set())
        imports += [
            Import(source=name, target=target, line=line)
            for target in sorted(targets & names - {name})
        ]
    return imports


@cache
def _statements(text: str) -> tuple[tuple[str, int, tuple[str, ...], int], ...]:
    """List the import statements of a source text as (module, dots, names, line)."""
    rows: list[tuple[str, int, tuple[str, ...], int]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            rows += [(alias.name, 0, (), node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            members = tuple(alias.name for alias in node.names)
            rows.append((node.module or "", node.level, members, node.lineno))
    return tuple(rows)


def _absolute(package: str, module: str, level: int) -> str:
    """Return the full name of a module that may be named relative to a package."""
    if not level:
        return module
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])


def rooms_by_level(root: Path) -> dict[str, int]:
    """Count the rooms (folders and modules) of every source folder."""
    folders = [
        path
        for name in SOURCES
        for path in [root / name, *sorted((root / name).rglob("*"))]
        if path.is_dir()
    ]
    return {
        str(folder.relative_to(root)): sum(
            1
            for p in folder.iterdir()
            if (p.suffix == ".py" and p.stem != "__init__") or (p.is_dir() and any(p.glob("*.py")))
        )
        for folder in folders
        if any(folder.glob("*.py"))
    }


def main(root: Path) -> None:
    """Print the figures of a checkout."""
    structure, rooms = read_structure(root), rooms_by_level(root)
    circles, upward = structure.circles(), structure.upward()
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in structure.files.values()
    )
    print(
        f"{len(structure.files)} modules, {lines:,} lines, {len(structure.imports):,} imports, "
        f"{structure.floors()} floors of imports"
    )
    widest = sorted(rooms.items(), key=lambda item: -item[1])[:5]
    print("most rooms at one level: " + ", ".join(f"{name} {count}" for name, count in widest))
    print(f"{len(circles)} circles")
    for circle in circles:
        print("  " + ", ".join(circle))
    if (root / "placer" / "cost_model").is_dir():
        print(f"{len(upward)} imports that do not go down")
        for found in upward:
            print(
                f"  {structure.files[found.source].relative_to(root)}:{found.line} imports "
                f"{found.target}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve())
