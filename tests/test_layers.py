"""The structure: imports go down only, nothing heavy is loaded early, files stay small and well named."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

LAYERS = [
    {"cli", "__main__"},
    {"worlds", "profiler", "runtime", "rehearsal"},
    {"explainer"},
    {"advisor", "saved", "reopened", "certificate_check", "certificate", "again"},
    {
        "recommender",
        "explanation",
        "python_words",
        "frontier",
        "frontier_search",
        "frontier_trace",
        "verify",
        "request",
        "market_words",
        "audit",
        "coverage",
        "network_check",
        "book_diff",
        "offer_groups",
        "layered",
        "budget_words",
        "data_words",
        "nearest",
        "use_words",
        "contradictions",
        "quotas",
        "scenario",
        "scenario_book",
        "scenario_model",
        "scenario_wishes",
        "reaction",
        "replanning",
        "sweeping",
        "sweep_axes",
        "sweep_file",
        "sweep_workers",
        "robustness",
        "rivals",
        "uncertainty",
        "candidates",
        "information",
        "by_hand",
        "advice",
        "promised_network",
        "report",
        "manifest",
        "used_problem",
        "export",
        "reproduce",
        "fitting",
        "simulation",
        "sources",
    },
    {"solve", "batch_range"},
    {"solvers"},
    {"result"},
    {"violations"},
    {"residency", "outlook", "totals", "used_machines"},
    {"estimator"},
    {"data_usd"},
    {"steps"},
    {"round", "convergence", "exchanges"},
    {"timing", "cost", "volume", "spot", "interruption"},
    {"problem"},
    {"requirements"},
    {"exchange", "elastic"},
    {"placement", "proof"},
    {"overlay"},
    {"scaled_market"},
    {
        "network",
        "carbon",
        "link_model",
        "link_fit",
        "geography",
        "profile",
        "profile_rows",
        "measurement",
        "book",
        "book_checks",
        "catalog",
        "calibration",
        "pin",
        "layers",
        "compiled",
        "discounts",
        "csv_rows",
        "provenance",
    },
    {"units", "errors", "shipped", "shelf", "interval", "recent", "checker"},
]
"""A module imports only from its own line or lines below; `placer/__init__` names lazily and is exempt."""
LAZY = {("result", "report"), ("result", "manifest"), ("result", "saved")}
"""Conveniences of Result, imported inside a method."""
FILES = sorted([*(ROOT / "placer").rglob("*.py"), *(ROOT / "solvers").glob("*.py")])
HEAVY = {"numpy", "pandas", "networkx", "ortools", "pulp", "rich", "torch", "boto3", "msgspec", "yaml", "httpx"}


def unit_of(path: Path) -> str:
    """Top-level unit of a file: a module or a package of placer."""
    relative = path.relative_to(ROOT)
    if relative.parts[0] == "solvers":
        return "solvers"
    return relative.parts[1].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Units of placer that a file imports, outside of `if TYPE_CHECKING`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0 and node.module.split(".")[0] == "placer":
            parts = node.module.split(".")[1:]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path: Path) -> None:
    """Each imported unit stands on the same line of the table or below."""
    unit = unit_of(path)
    if unit == "__init__":
        return
    rank = {name: level for level, names in enumerate(LAYERS) for name in names}
    for imported in imports_of(path) - {unit}:
        if (unit, imported) not in LAZY:
            assert rank[imported] >= rank[unit], f"{path} imports placer.{imported}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    """About 300 lines a module, 50 a function (its docstring apart)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 320
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                assert (node.end_lineno or 0) - body[0].lineno < 50, node.name


def test_nothing_is_called_utils() -> None:
    """A name says what is in a file."""
    assert not {p.stem for p in FILES} & {"utils", "core", "common", "base", "helpers", "manager"}


def loaded_by(code: str) -> set[str]:
    """Top-level packages in sys.modules after some code, in a fresh process."""
    script = f"import sys\n{code}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, timeout=600)
    return set(done.stderr.split())


def test_import_placer_loads_nothing_heavy() -> None:
    """No numpy, pandas, solver or terminal library before they are needed."""
    assert not loaded_by("import placer; dir(placer)") & HEAVY


def test_help_loads_nothing_heavy() -> None:
    """`placer --help` needs click alone."""
    assert not loaded_by("from placer.cli import run\ntry:\n    run(['--help'])\nexcept SystemExit:\n    pass") & HEAVY


def test_recommend_loads_no_solver_package_pandas_or_networkx() -> None:
    """The main job runs on NumPy."""
    code = "import placer; placer.recommend('roberta-xlm', budget='5/h', catalog='erben-2023')"
    assert not loaded_by(code) & {"pandas", "networkx", "ortools", "pulp", "torch", "boto3"}
