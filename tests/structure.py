"""Measure the structure of the source: rooms, floors, circles, upward imports and lines.

Run ``python tests/structure.py`` for this checkout, or ``python tests/structure.py DIR`` for
another one, such as an older version in ``git worktree add /tmp/old REVISION``. Every import
counts: at the top of a module, inside a function, and under ``TYPE_CHECKING``. Modules that are
reached by name at run time (solvers, commands, export targets) are not imports.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

FLOORS = (
    ("cli", "__main__"),
    ("__init__",),
    ("interface",),
    ("advice", "launch"),
    ("validation", "profiler", "solvers"),
    ("solving",),
    ("documents",),
    ("cost_model",),
    ("problem",),
    ("workload",),
    ("market",),
    ("units",),
    ("errors", "version"),
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
        for found in self.imports:
            source, target = room_of(found.source), room_of(found.target)
            known = source in height and target in height
            if source != target and not (known and height[target] < height[source]):
                wrong.append(found)
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
    """Name the room of a module: the first level below ``placer``; ``__init__`` for the package
    itself.
    """
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(name: str, path: Path, known: Iterable[str]) -> list[Import]:
    """List the modules of placer that a file imports, wherever the import stands."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names, found = set(known), []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = _home(package, node)
            targets = {
                f"{home}.{alias.name}" if f"{home}.{alias.name}" in names else home
                for alias in node.names
            }
        else:
            continue
        found += [
            Import(source=name, target=t, line=node.lineno)
            for t in sorted(targets & names - {name})
        ]
    return found


def _home(package: str, node: ast.ImportFrom) -> str:
    """Name the module of ``from HOME import ...``, which may be relative."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join(
        [*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])]
    )


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
