"""What `catalog validate`, `diff`, `show` and grouped offers say of a book."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.market.books.book_reader import devices, load_catalog, located_rows
from placer.market.books.partial_books import over_default
from placer.market.catalog import Catalog
from placer.market.checks.differences import differences
from placer.market.checks.doubts import Finding, audit
from placer.market.checks.groups import grouped

OFFERS = (
    "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,"
    "usd_per_hour,price_basis,available,source,as_of\n"
)
LINKS = "src,dst,gbps_one_stream,gbps_low,gbps_high,rtt_ms,basis,source,as_of\n"
TODAY = date(2026, 11, 21)


def findings(path: Path, text: str) -> tuple[Finding, ...]:
    """Doubts about one file over the default book."""
    path.write_text(text, encoding="utf-8")
    book, layers = over_default([str(path)])
    return audit(located_rows([devices(), *layers]), book, TODAY)


def test_a_spot_price_whose_source_says_that_it_is_above_on_demand_is_no_doubt(
    tmp_path: Path,
) -> None:
    """0.9 on spot beside 0.526 on demand is a warning, unless the source has the words for it."""
    row = f"{OFFERS}aws,us-east-1,g4dn.xlarge,T4,1,4,16,spot,0.9,list,,q{{}},2026-11-01\n"
    assert [finding.level for finding in findings(tmp_path / "q.csv", row.format(""))] == [
        "warning"
    ]
    assert findings(tmp_path / "q.csv", row.format("; spot above on-demand")) == ()


@pytest.mark.parametrize(
    ("row", "level", "says"),
    [
        (
            "aws,us-east-1,x,T4,1,4,16,spot,9000,list,,q,2026-11-01",
            "error",
            "costs 9000 USD/h for each T4; the median of the catalog is",
        ),
        ("aws,us-east-1,x,T4,1,4,16,spot,0.00001,list,,q,2026-11-01", "error", "costs 1e-05 USD/h"),
        (
            "aws,us-east-1,x,T4,1,4,16,spot,0.2,list,,q,2026-12-24",
            "error",
            "as_of 2026-12-24 is in the future",
        ),
        (
            "aws,us-east-1,x,T4,1,4,16,spot,0.2,list,,q,2006-08-24",
            "error",
            "as_of 2006-08-24 is before 2015",
        ),
        (
            "aws,us-east-1,g4dn.xlarge,T4,1,4,16,spot,0.9,list,,q,2026-11-01",
            "warning",
            "costs 0.9 USD/h on spot and 0.526 on demand",
        ),
    ],
)
def test_a_doubtful_price_is_named_with_its_file_and_line(
    tmp_path: Path, row: str, level: str, says: str
) -> None:
    """A slip of the decimal point, a date from the future or of 2006, a spot machine above its
    on-demand price.
    """
    found = [f for f in findings(tmp_path / "quote.csv", OFFERS + row + "\n") if says in f.message]
    assert [(f.level, f.where) for f in found] == [(level, f"{tmp_path / 'quote.csv'}:2")]


def test_a_link_faster_than_light_in_fibre_is_an_error(tmp_path: Path) -> None:
    """Virginia to Frankfurt is 6,500 km: 65 ms at least, not 20."""
    row = "aws/us-east-1,aws/eu-central-1,0.3,0.2,0.4,20,measured,q,2026-11-01\n"
    (found,) = (f for f in findings(tmp_path / "l.csv", LINKS + row) if f.level == "error")
    assert "light in fibre takes 65" in found.message
    assert found.where.endswith("l.csv:2")


def test_validate_exits_with_two_on_errors_and_zero_on_warnings(tmp_path: Path, run: Run) -> None:
    """For people and for programs; the offending row is in the message."""
    path = tmp_path / "quote.csv"
    path.write_text(
        OFFERS + "aws,us-east-1,x,T4,1,4,16,spot,9000,list,,q,2026-11-01\n", encoding="utf-8"
    )
    done = run("catalog", "validate", str(path), columns=200)
    assert done.returncode == 2
    assert f"error: {path}:2: x (T4) in aws/us-east-1 costs 9000 USD/h" in done.stdout
    document = json.loads(run("catalog", "validate", str(path), "--json").stdout)
    assert (document["valid"], document["findings"][0]["level"]) == (False, "error")
    path.write_text(
        OFFERS + "aws,us-east-1,g4dn.xlarge,T4,1,4,16,spot,0.9,list,,q,2026-11-01\n",
        encoding="utf-8",
    )
    assert run("catalog", "validate", str(path)).returncode == 0


def test_diff_says_what_changed_by_how_much(tmp_path: Path, run: Run) -> None:
    """One machine twice as dear, one new: the rest of the book agrees."""
    path = tmp_path / "quote.csv"
    dearer, added = (
        "aws,us-east-1,g4dn.xlarge,T4,1,4,16,on_demand,1.052",
        "aws,us-east-1,new,T4,1,4,16,spot,0.2",
    )
    path.write_text(
        f"{OFFERS}{dearer},list,,q,2026-11-01\n{added},list,,q,2026-11-01\n", encoding="utf-8"
    )
    old, new = load_catalog("default"), load_catalog(["default", str(path)])
    prices = [c for c in differences(old, new) if c.kind == "new" or c.field == "usd_per_hour"]
    assert [(c.kind, c.key[2], c.before, c.after, c.ratio) for c in prices] == [
        ("changed", "g4dn.xlarge", 0.526, 1.052, 2.0),
        ("new", "new", None, None, 1.0),
    ]
    assert [c.kind for c in differences(new, old) if c.kind != "changed"] == ["gone"]
    assert differences(old, old) == ()
    shown = run("catalog", "diff", "default", str(path), columns=160).stdout
    assert "+100.0%" in shown
    assert (
        run("catalog", "diff", "default", "default").stdout
        == "default and default agree in every figure\n"
    )


def test_groups_have_the_cheapest_offer_of_their_kind(default: Catalog) -> None:
    """Grouped by device and market, the low end is the least price for each device in the book."""
    for group in grouped(default.offers, default, ("gpu", "market")):
        gpu, market = group.group
        prices = [
            o.usd_per_hour / o.gpu_count
            for o in default.offers
            if (o.gpu, o.market.replace("_", "-")) == (gpu, market)
        ]
        assert (group.usd_per_gpu_hour_low, group.offers) == (min(prices), len(prices))


def test_group_by_takes_several_keys_and_refuses_others(run: Run) -> None:
    """The nearest key is named."""
    document = json.loads(
        run("offers", "--gpu", "T4", "--group-by", "continent,market", "--json").stdout
    )
    assert document["by"] == ["continent", "market"]
    assert all(len(group["group"]) == 2 for group in document["groups"])
    done = run("offers", "--group-by", "continnent")
    assert (done.returncode, "a similar group key exists: 'continent'" in done.stderr) == (2, True)


@pytest.mark.parametrize("multiplier", ["0", "-1", "NaN", "1e-300", "1e9", ""])
def test_a_discount_is_from_a_hundredth_to_a_hundred_times(tmp_path: Path, multiplier: str) -> None:
    """Less would make machines free, more would make them vanish: both are slips."""
    path = tmp_path / "discounts.csv"
    path.write_text(
        f"provider,region,instance_type,gpu,market,multiplier,source,as_of\naws,*,*,*,*,{multiplier},c,2026-11-01\n"
    )
    with pytest.raises(PlacerError, match=rf"discounts\.csv:2: multiplier '{multiplier}'"):
        load_catalog(["default", str(path)])


CONTRACT = "provider,region,instance_type,gpu,market,multiplier,source,as_of\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("google,*,*,*,*,0.85", "no machine has this discount"),
        ("gcp,europ-*,*,*,*,0.85", "no machine has this discount"),
        ("gcp,*,*,*,*,15", "15 raises prices; 0.85 is 15 % off"),
        ("gcp,*,*,*,*,0.15", "0.15 is 85 % off; is 0.85 meant?"),
    ],
)
def test_a_doubtful_line_of_a_contract_is_named(tmp_path: Path, line: str, says: str) -> None:
    """A name that fits nothing, a percentage, and what is taken off instead of what is paid."""
    found = [
        f
        for f in findings(tmp_path / "contract.csv", f"{CONTRACT}{line},ours,2026-11-01\n")
        if says in f.message
    ]
    assert [(f.level, f.where) for f in found] == [("warning", f"{tmp_path / 'contract.csv'}:2")]
