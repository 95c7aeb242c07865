"""Where the figures come from: every source of the shipped files is known, and users see which
figures nobody read.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from conftest import Run
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import Catalog
from placer.market.checks.coverage import cited, rows_by_kind
from placer.market.checks.provenance import resolve, trail

FILES = sorted(
    path
    for path in shipped_catalogs().rglob("*.csv")
    if path.name not in ("columns.csv", "sources.csv")
)
QUOTE = (
    "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,usd_per_hour,price_basis,available,source,as_of\n"
    "gcp,us-west1,mine,T4,1,8,30,spot,0.2,negotiated,,quote 4711,2026-11-01\n"
)


def texts(path: Path) -> set[str]:
    """Every text of a file that names a source."""
    with path.open(encoding="utf-8", newline="") as handle:
        return {
            row[column]
            for row in csv.DictReader(handle)
            for column in ("source", "carbon_source", "matmul_source")
            if row.get(column)
        }


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(shipped_catalogs())))
def test_every_source_of_a_shipped_file_is_known(path: Path) -> None:
    """Books and what lies beside them: devices, convergence, cables, runs and claims of papers;
    mirrors as well.
    """
    assert [text for text in sorted(texts(path)) if not all(trail(text))] == []
    assert texts(path)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (
            "Google Cloud Compute Engine Spot price list (via karpenter-provider-gcp)",
            "Google Cloud Compute Engine Spot price list",
        ),
        (
            "estimate: 0.40 x on-demand (Azure has a spot price)",
            "estimate: 0.40 x on-demand (Azure",
        ),
        ("AWS EC2 price list (via tsaol/aws-gpu); x 0.8: contract 47", "AWS EC2 price list"),
        ("AWS EC2 price listing", None),
        ("my AWS EC2 price list", None),
        ("", None),
    ],
)
def test_leading_words_name_the_source(text: str, source: str | None) -> None:
    """Whole words at the beginning; what follows them does not matter."""
    found = resolve(text)
    assert (found.source if found else None) == source


def test_an_unknown_mirror_is_seen() -> None:
    """The list is known, where it was copied from is not."""
    listed, mirror = trail("AWS EC2 price list (via nobody/knows)")
    assert (listed is not None, mirror) == (True, None)


def test_sources_are_counted_by_the_rows_that_name_them(default: Catalog) -> None:
    """629 prices of AWS came by one mirror and 93 by another; no row of the default book names an
    unknown source.
    """
    sources, own = cited(default)
    rows = {found.source: found.rows for found in sources}
    assert own == 0
    assert (
        rows["AWS EC2 price list"]
        == rows["tsaol/aws-gpu"] + rows["apache-libcloud 3.9.1"]
        == 629 + 93
    )
    named = sum(len(found) for found in rows_by_kind(default).values()) + sum(
        bool(r.carbon_source) for r in default.regions.values()
    )
    assert sum(found.rows for found in sources if found.kind != "mirror") == named


def test_a_source_of_the_users_own_is_a_note(run: Run, tmp_path: Path) -> None:
    """Not an error, not a warning: the exit code is 0."""
    path = tmp_path / "quote.csv"
    path.write_text(QUOTE, encoding="utf-8")
    done = run("catalog", "validate", str(path))
    assert done.returncode == 0, done.stderr
    assert "note: 1 row names a source of the user's own" in done.stdout
    assert json.loads(run("catalog", "validate", str(path), "--json").stdout)["own_sources"] == 1
    assert "note:" not in run("catalog", "validate", "default").stdout
