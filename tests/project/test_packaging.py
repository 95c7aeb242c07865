"""The wheel and the sdist: complete, and the wheel runs in an empty environment."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, completed, made_once
from placer.version import DISTRIBUTION, __version__
from structure import SOURCES

SHIPPED = [
    "placer/catalogs/default/offers.csv",
    "placer/catalogs/columns.csv",
    "placer/catalogs/erben-2023/runs.csv",
    "placer/catalogs/phalak-2023/claims.csv",
    "placer/market/sources/mappings/skypilot.toml",
    "placer/market/words/price_words.toml",
    "placer/profiles/roberta-xlm.json",
    "placer/profiler/devices.csv",
    "placer/profiler/estimate/constants.json",
    "placer/py.typed",
    "placer/report/land/land-110m.json",
    "placer/report/templates/page.html",
]
QUIETLY = ("--no-compile", "--quiet", "--disable-pip-version-check")
SOURCE_WORDS = re.compile(r"placer\[[a-z]")


def module_path(path: Path) -> str:
    """Where a source file lies in the wheel: ``solvers/`` installs as ``placer/solvers/``."""
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith("placer/") else f"placer/{name}"


def build(folder: Path) -> Path:
    """Build from a copy of this checkout, and return the folder of what was built."""
    source, out = folder / "source", folder / "dist"
    caches = (".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__")
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", *caches)
    shutil.copytree(ROOT, source, ignore=ignored, copy_function=shutil.copyfile)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
    done = completed([*command, str(source)], env={**os.environ, "SOURCE_DATE_EPOCH": "1764288000"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


def listed_files(*patterns: str) -> list[str]:
    """List the files of this checkout that git knows, those not committed yet included."""
    words = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", *patterns]
    done = completed(words, check=True)
    return [name for name in done.stdout.split() if (ROOT / name).exists()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and the wheel made from it, once for all workers."""
    return made_once(tmp_path_factory, "built", build) / "dist"


def test_wheel_and_sdist_hold_the_data(built: Path) -> None:
    """Books, profiles, the licence and every module of placer and its solvers are inside the wheel,
    all that git knows inside the sdist.
    """
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    modules = {module_path(path) for name in SOURCES for path in (ROOT / name).rglob("*.py")}
    assert {*SHIPPED, *modules} <= set(names)
    assert [n for n in names if n.endswith(".dist-info/licenses/LICENSE")]
    assert not [n for n in names if n.startswith(("tests/", "solvers/", "catalogs/"))]
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {"/".join(n.split("/")[1:]) for n in archive.getnames()}
    assert set(listed_files()) <= inside


@pytest.mark.nightly
def test_two_builds_are_equal(built: Path, tmp_path: Path) -> None:
    """Byte by byte, though the files of the second copy are younger. Each run builds once, with the
    same date, and reads what the archives hold.
    """
    again = build(tmp_path)
    for path in built.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_twine_accepts_wheel_and_sdist(built: Path) -> None:
    """Names, metadata and the description are what PyPI takes; the name there is free."""
    files = [*map(str, built.glob("*"))]
    assert sorted(Path(name).name for name in files) == [
        f"placer_advisor-{__version__}-py3-none-any.whl",
        f"placer_advisor-{__version__}.tar.gz",
    ]
    done = completed([sys.executable, "-m", "twine", "check", "--strict", *files])
    assert done.returncode == 0, done.stdout + done.stderr


def test_version_and_name_stand_once() -> None:
    """pyproject.toml repeats what placer/version.py says; no other text installs another package;
    the changelog promises what a version means.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["name"], project["version"]) == (DISTRIBUTION, __version__)
    listed = listed_files("*.py", "*.md", "*.sh", "*.ipynb", "*.toml")
    wrong = [
        name
        for name in listed
        if SOURCE_WORDS.search((ROOT / name).read_text(encoding="utf-8"))
        and name != "tests/project/test_packaging.py"
    ]
    assert wrong == []
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_wheel_runs_from_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """Installed with its dependencies into a fresh venv, the main job and two examples run from /
    on shipped data.
    """
    programs = tmp_path / "venv" / "bin"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    made = [sys.executable, "-m", "venv", "--without-pip", str(programs.parent)]
    subprocess.run(made, check=True, timeout=PROCESS_TIMEOUT_S, env=clean)
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", *QUIETLY]
    pip += ["-c", str(ROOT / "constraints" / "placer.txt"), str(next(built.glob("*.whl")))]
    subprocess.run(pip, check=True, timeout=PROCESS_TIMEOUT_S, env=clean)
    main_job = ["recommend", "--model", "roberta-xlm", "--budget", "5/h"]
    done = completed([programs / "placer", *main_job], cwd="/", env=clean)
    assert done.returncode == 0, done.stderr
    assert "samples/s" in done.stdout
    examples = shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("first_recommendation.py", "own_prices.py"):
        done = completed([programs / "python", examples / name], cwd="/", env=clean)
        assert done.returncode == 0, done.stderr
        assert "USD/h" in done.stdout
