"""What `catalog validate`, `diff`, `show` and grouped offers say of a book."""

import json
from datetime import date
from pathlib import Path

import pytest

from conftest import Run
from placer.market.books.book_reader import devices, load_catalog, located_rows, over_default
from placer.market.catalog import Catalog
from placer.market.checks.coverage import differences, grouped
from placer.market.checks.doubts import Finding, audit, far_prices

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


T4 = f"{OFFERS}aws,us-east-1,x,T4,1,4,16,spot,{{}},list,,q,{{}}\n"
DEAR_SPOT = T4.replace("x,T4", "g4dn.xlarge,T4").format(0.9, "2026-11-01")
CONTRACT = "provider,region,instance_type,gpu,market,multiplier,source,as_of\n{},ours,2026-11-01\n"


def test_validate_exits_with_two_on_errors_and_zero_on_warnings(tmp_path: Path, run: Run) -> None:
    """For people and for programs; the offending row is in the message."""
    path = tmp_path / "quote.csv"
    path.write_text(T4.format(9000, "2026-11-01"), encoding="utf-8")
    done = run("catalog", "validate", str(path), columns=200)
    assert done.returncode == 2
    assert f"error: {path}:2: x (T4) in aws/us-east-1 costs 9000 USD/h" in done.stdout
    document = json.loads(run("catalog", "validate", str(path), "--json").stdout)
    assert (document["valid"], document["findings"][0]["level"]) == (False, "error")
    path.write_text(DEAR_SPOT, encoding="utf-8")
    assert run("catalog", "validate", str(path)).returncode == 0


def test_errors_stand_before_warnings(tmp_path: Path) -> None:
    """A price of 9,000 USD/h and one of tomorrow, behind a spot price above on-demand."""
    rows = [T4.format(9000, TODAY), T4.replace(",x,", ",y,").format(0.2, "2026-11-22")]
    found = findings(
        tmp_path / "q.csv", DEAR_SPOT + "".join(row.removeprefix(OFFERS) for row in rows)
    )
    assert [(doubt.level, doubt.where[-1]) for doubt in found] == [
        *(("error", "3"), ("error", "4")),
        ("warning", "2"),
    ]


def test_far_spot_prices_of_a_device_are_one_doubt_of_its_region(tmp_path: Path) -> None:
    """0.02 beside 0.526 on demand is 0.04 of it, and a second machine as far; what is dearer than
    on demand has a doubt of its own.
    """
    sizes = (
        ("us-east-1,g4dn.xlarge", 4, 16, 0.02),
        ("us-east-1,g4dn.2xlarge", 8, 32, 0.03),
        ("us-west-2,g4dn.xlarge", 4, 16, 0.9),
    )
    rows = (
        f"aws,{name},T4,1,{v},{gib},spot,{usd},list,,q,2026-11-01" for name, v, gib, usd in sizes
    )
    (tmp_path / "q.csv").write_text("\n".join((OFFERS.strip(), *rows)), encoding="utf-8")
    book, layers = over_default([str(tmp_path / "q.csv")])
    located = located_rows(layers[1:])["offers.csv"]
    (found,) = far_prices(located, book)
    start = "T4 in aws/us-east-1 (g4dn.xlarge and 1 more) on spot for 0.04 x on-demand; the median"
    assert (found.where, found.message[: len(start)]) == (f"{tmp_path / 'q.csv'}:2", start)
    (alone,) = far_prices(located[:1], book)
    assert alone.message.startswith("T4 in aws/us-east-1 (g4dn.xlarge) on spot")


NO_MACHINE = (
    "no machine has this discount: it applies to the layers below, and of its lines that fit the "
    "last counts"
)
DEAR = "0.9 USD/h on spot and 0.526 on demand"
OLD = " is before 2015: no price of today"
FAST = (
    "aws/us-east-1 to gcp/us-west1: 36 ms there and back over 3,611 km; light in fibre takes "
    "36.1 ms"
)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (
            CONTRACT.format(
                "gcp,*,*,*,spot,1.2,ours,2026-11-01\naws,*,*,*,spot,0.15,ours,2026-11-01\n"
                "oci,*,*,*,on_demand,0.4,ours,2026-11-01\ngcp,us-west1,*,T4,community,0.9"
            ),
            {
                "gcp/* * * spot: 1.2 raises prices; 0.85 is 15 % off": "warning",
                "aws/* * * spot: 0.15 is 85 % off; is 0.85 meant?": "warning",
                f"gcp/us-west1 * T4 community: {NO_MACHINE}": "warning",
            },
        ),
        (
            T4.format(0.2, "2014-12-31"),
            {"as_of 2014-12-31 is before 2015: no price of today": "error"},
        ),
        (T4.format(0.2, "2015-01-01"), {}),
        (T4.format(0.2, "2026-11-22"), {"as_of 2026-11-22 is in the future": "error"}),
        (T4.format(0.2, TODAY), {}),
        (f"{LINKS}aws/us-east-1,gcp/us-west1,1,1,1,36,measured,q,2026-11-01\n", {FAST: "error"}),
        (f"{LINKS}aws/us-east-1,gcp/us-west1,1,1,1,37,measured,q,2026-11-01\n", {}),
    ],
)
def test_each_doubt_has_its_words(tmp_path: Path, text: str, levels: dict[str, str]) -> None:
    """Contracts like slips, dear spot prices of which no source knows, dates out of time, and round
    trips faster than light in fibre.
    """
    found = {doubt.message: doubt.level for doubt in findings(tmp_path / "q.csv", text)}
    assert found == levels


def test_diff_says_what_changed_by_how_much(tmp_path: Path, run: Run) -> None:
    """One machine twice as dear, one new: the rest of the book agrees."""
    path = tmp_path / "quote.csv"
    dearer = "aws,us-east-1,g4dn.xlarge,T4,1,4,16,on_demand,1.052,list,,q,2026-11-01\n"
    added = "aws,us-east-1,new,T4,1,4,16,spot,0.2,list,,q,2026-11-01\n"
    path.write_text(OFFERS + dearer + added, encoding="utf-8")
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
