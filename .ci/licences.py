"""List the licences of the packages that a release is installed with, as they name them.

`make constraints` writes the list to constraints/hashed/licences.md. Packages of other systems,
which are not installed here, are left out.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HASHED = Path(__file__).resolve().parent.parent / "constraints" / "hashed"
PIN = re.compile(r"^([a-zA-Z0-9._-]+)==([^ ;]+)", re.MULTILINE)


def pins() -> Iterator[tuple[str, str]]:
    """Yield names and versions of all packages that are installed with hashes."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(HASHED.glob("*.txt"))]
    return iter(sorted({pin for text in texts for pin in PIN.findall(text)}))


def licence(name: str) -> str:
    """Return the SPDX expression of a package, or what it has in its place."""
    about = importlib.metadata.metadata(name)
    classifiers = [row for row in about.get_all("Classifier", []) if row.startswith("License ::")]
    words = "; ".join(row.rpartition(" :: ")[2] for row in classifiers if row.count("::") > 1)
    first = (about.get("License") or "").partition("\n")[0]
    return about.get("License-Expression") or words or first


def main() -> None:
    """Print the list as Markdown."""
    rows = ["# Licences of the packages that a release is installed with\n"]
    rows += ["| package | version | licence |", "|---|---|---|"]
    for name, version in pins():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            rows.append(f"| {name} | {version} | {licence(name)} |")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
