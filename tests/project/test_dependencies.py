"""Declared ranges, pinned versions and what is installed agree."""

import importlib.metadata
import importlib.util
import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOLDER = ROOT / "constraints"
COMMAND = re.compile(r"^#    make constraints DATE=(\d{4}-\d{2}-\d{2})$", re.MULTILINE)


def declared(extra: str | None) -> Iterator[Requirement]:
    """Requirements that an extra adds to those of placer itself, where they hold here."""
    for text in [*PROJECT["dependencies"], *(EXTRAS[extra] if extra else [])]:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            yield requirement


def pinned(name: str) -> dict[str, Requirement]:
    """Packages of a constraints file, for this Python and system."""
    rows = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found = [
        Requirement(row.rstrip("\\")) for row in rows if not row.lstrip().startswith(("#", "--"))
    ]
    return {
        canonicalize_name(row.name): row
        for row in found
        if row.marker is None or row.marker.evaluate()
    }


@pytest.mark.parametrize("extra", [None, *EXTRAS])
def test_every_extra_has_a_dated_file_that_pins_what_it_declares(extra: str | None) -> None:
    """A requirement added to pyproject.toml without `make constraints` fails here."""
    name = extra or "placer"
    assert COMMAND.search((FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    pins = pinned(name)
    for requirement in declared(extra):
        (pin,) = pins[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version), requirement


def test_files_pin_one_version_of_each_package_and_one_date() -> None:
    """Two extras can then be installed together."""
    every = pinned("all")
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.txt")]
    assert {path.stem for path in FOLDER.glob("*.txt")} == {"all", "placer", *EXTRAS}
    assert len({date for text in texts for date in COMMAND.findall(text)}) == 1
    for name in ("placer", *EXTRAS):
        assert {key: str(row.specifier) for key, row in pinned(name).items()}.items() <= {
            key: str(row.specifier) for key, row in every.items()
        }.items()


def test_what_is_installed_is_in_the_declared_ranges() -> None:
    """CI installs the pinned, newest releases; other environments may lack what an extra adds."""
    for requirement in [row for extra in (None, *EXTRAS) for row in declared(extra)]:
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        assert requirement.specifier.contains(version, prereleases=True), requirement


@pytest.mark.parametrize("name", ["placer", "torch-cpu"])
def test_what_a_release_is_installed_with_has_hashes_and_a_licence(name: str) -> None:
    """Of each package the version of `all.txt`, a hash, and a row in the list of licences."""
    text = (FOLDER / "hashed" / f"{name}.txt").read_text(encoding="utf-8")
    assert COMMAND.search(text)
    for package in re.split(r"\n(?=[a-z])", text, flags=re.IGNORECASE)[1:]:
        assert re.search(r" --hash=sha256:[0-9a-f]{64}", package), package
    every, rows = pinned("all"), set()
    for line in (FOLDER / "hashed" / "licences.md").read_text(encoding="utf-8").splitlines()[4:]:
        package, version, words = (cell.strip() for cell in line.strip("|").split("|"))
        rows.add((canonicalize_name(package), version))
        assert words, package
    for package, pin in pinned(f"hashed/{name}").items():
        (version,) = (row.version for row in pin.specifier)
        assert every[package].specifier.contains(version)
        assert (package, version) in rows
