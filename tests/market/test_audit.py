"""What `catalog validate`, `diff`, `show` and grouped offers say of a book."""

import json
from datetime import date
from pathlib import Path

from conftest import Run
from placer.market.books.book_reader import devices, load_catalog, located_rows, over_default
from placer.market.catalog import Catalog
from placer.market.checks.coverage import differences, grouped
from placer.market.checks.doubts import Finding, audit

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
