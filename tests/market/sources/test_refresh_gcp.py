"""``placer catalog refresh gcp`` against a server that speaks the Cloud Billing Catalog API."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from price_servers import Answer, Request, Server, as_json, gcp_sku, machines_of, serving

from conftest import Run, home_with_book
from placer.errors import PlacerError
from placer.market.sources.harvest import Cell, Tally
from placer.market.sources.prices.pages import address
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import parsed_records
from placer.market.sources.refresh import refresh as refresh_book

KEY = "AIzaSyCANARY-0123456789abcdefghijklmnopq"
"""In the format of Google's keys; must never come back."""
AMERICAS, IOWA = ["us-central1", "us-east1", "us-west1"], ["us-central1"]
N1 = [
    gcp_sku("N1 Predefined Instance Core running in Americas", 0.031611, AMERICAS),
    gcp_sku("N1 Predefined Instance Ram running in Americas", 0.004237, AMERICAS, unit="GiBy.h"),
    gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.35, AMERICAS),
    gcp_sku("Spot Preemptible N1 Predefined Instance Core running in Americas", 0.00698, AMERICAS),
    gcp_sku(
        "Spot Preemptible N1 Predefined Instance Ram running in Americas",
        0.00094,
        AMERICAS,
        unit="GiBy.h",
    ),
    gcp_sku(
        "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", 0.2, AMERICAS
    ),
]
A2 = [
    gcp_sku("A2 Instance Core running in Americas", 0.031611, AMERICAS),
    gcp_sku("A2 Instance Ram running in Americas", 0.004237, AMERICAS, unit="GiBy.h"),
    gcp_sku("Nvidia Tesla A100 GPU running in Americas", 2.933908, AMERICAS),
    gcp_sku("Nvidia Tesla A100 80GB GPU running in Americas", 3.92808, AMERICAS),
    gcp_sku("SSD backed Local Storage", 0.08, AMERICAS, unit="GiBy.mo"),
]
"""List prices of Google in us-central1, as in the shipped book of 2026."""
NOISE = [
    gcp_sku("N1 Predefined Instance Core running in Mars", 0.03, ["mars-north1"]),
    gcp_sku("Commitment v1: Cpu in Americas for 1 Year", 0.019915, AMERICAS, usage="Commit1Yr"),
    gcp_sku("Custom Instance Core running in Americas", 0.033174, AMERICAS),
    gcp_sku(
        "N1 Predefined Instance Core running in Americas for Sole Tenancy",
        99.0,
        AMERICAS,
        usage="Commit1Yr",
    ),
    gcp_sku(
        "Nvidia Tesla A100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
        1.846,
        AMERICAS,
    ),
    gcp_sku("Nvidia Tesla T4 Virtual Workstation GPU running in Americas", 0.55, AMERICAS),
    {"description": "without a category"},
]


def pages_of(skus: list[dict[str, Any]], size: int = 1000) -> Callable[[Request], Answer]:
    """Answer in pages, each with the token of the next; the last token is empty, as Google's is."""

    def answer(request: Request) -> Answer:
        start = int(request.query.get("pageToken", "0"))
        token = str(start + size) if start + size < len(skus) else ""
        return as_json({"skus": skus[start : start + size], "nextPageToken": token})

    return answer


@pytest.fixture
def refresh(run: Run, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Refresh in a process of its own, with the canary as key."""

    def call(server: Server, *options: str, **extra: str) -> subprocess.CompletedProcess[str]:
        given = {
            "PLACER_HOME": str(home_with_book(tmp_path)),
            "PLACER_GCP_BILLING_URL": f"{server.url}/v1",
            "PLACER_GCP_API_KEY": KEY,
            "GOOGLE_API_KEY": "",
        }
        return run("catalog", "refresh", "gcp", *options, **(given | extra))

    return call


def prices(home: Path) -> dict[tuple[str, str, str], float]:
    """Prices of the book by region, machine and market."""
    return {key: float(row["usd_per_hour"]) for key, row in machines_of(home, "gcp").items()}


def test_machines_are_added_up_from_their_parts(refresh: Run, tmp_path: Path) -> None:
    """Cores, memory, GPUs and the disk that a2-ultragpu always has give Google's own prices of
    whole machines.

    n1-standard-4 with a T4: 4 x 0.031611 + 15 x 0.004237 + 0.35 = 0.54 (spot 4 x 0.00698 + 15 x
    0.00094 + 0.2 = 0.242); a2-highgpu-1g: 3.673385; a2-ultragpu-1g: 12 x 0.031611 + 170 x 0.004237
    + 3.92808 + 375 x 0.08 / 730 = 5.0688.
    """
    with serving(pages_of(N1 + A2 + NOISE, 4)) as server:
        done = refresh(server, "--in", "us-central1")
    assert (done.returncode, done.stderr) == (0, "")
    found = prices(tmp_path)
    assert found["us-central1", "n1-standard-4+1xT4", "on_demand"] == pytest.approx(0.54, abs=1e-5)
    assert found["us-central1", "n1-standard-4+1xT4", "spot"] == pytest.approx(0.24202, abs=1e-5)
    assert found["us-central1", "n1-standard-8+4xT4", "on_demand"] == pytest.approx(
        8 * 0.031611 + 30 * 0.004237 + 4 * 0.35, abs=1e-5
    )
    assert found["us-central1", "a2-highgpu-1g", "on_demand"] == pytest.approx(3.67339, abs=2e-5)
    assert found["us-central1", "a2-ultragpu-1g", "on_demand"] == pytest.approx(5.0688, abs=2e-5)
    assert {region for region, _, _ in found} == {"us-central1"}
    spot = sum(market == "spot" for _, _, market in found)
    assert f"offers in 1 region: {len(found) - spot} on-demand, {spot} spot\n" in done.stdout
    assert len(server.requests) == 5


def test_h200_machines_have_cores_and_disks_of_their_own(refresh: Run, tmp_path: Path) -> None:
    """Not the cores of A3 at 0.02: 224 x 0.03 + 2952 x 0.003 + 8 x 8 + 12,000 GiB x 0.08 / 730 =
    80.8911.
    """
    skus = [
        gcp_sku("A3 Instance Core running in Americas", 0.02, AMERICAS),
        gcp_sku("A3Ultra Instance Core running in Americas", 0.03, AMERICAS),
        gcp_sku("A3Ultra Instance Ram running in Americas", 0.003, AMERICAS, unit="GiBy.h"),
        gcp_sku("Nvidia H200 141GB GPU running in Americas", 8.0, AMERICAS),
        gcp_sku("SSD backed Local Storage", 0.08, AMERICAS, unit="GiBy.mo"),
    ]
    with serving(pages_of(skus)) as server:
        assert refresh(server, "--in", "us-central1", "--gpu", "H200").returncode == 0
    assert prices(tmp_path) == {
        ("us-central1", "a3-ultragpu-8g", "on_demand"): pytest.approx(80.8911, abs=1e-3)
    }


def test_a_machine_without_the_price_of_a_part_is_left_out(refresh: Run) -> None:
    """Without the disk a2-ultragpu would be too cheap; a GPU needs its host's spot price."""
    some = [
        sku for sku in N1 + A2 if not sku["description"].startswith(("SSD", "Spot Preemptible N1"))
    ]
    with serving(pages_of(some)) as server:
        document = json.loads(refresh(server, "--in", "us-central1", "--json").stdout)
    left_out = document["left_out"]
    words = "machine without a price of a part"
    # a2-ultragpu-1g, -2g, -4g and -8g on demand; four n1 machines with T4 as spot
    assert [left_out[f"{words}: {parts}"] for parts in ("SSD", "N1 Core, N1 Ram")] == [4, 4]


def test_only_pairs_that_the_shipped_book_has_are_priced(refresh: Run, tmp_path: Path) -> None:
    """Google lists A100 parts for all of the Americas, but us-east1 has no a2-ultragpu."""
    with serving(pages_of(N1 + A2)) as server:
        refresh(server)
    assert ("us-east1", "n1-standard-4+1xT4", "on_demand") in prices(tmp_path)
    assert ("us-east1", "a2-ultragpu-1g", "on_demand") not in prices(tmp_path)


def test_the_key_travels_in_a_header_and_comes_back_nowhere(refresh: Run, tmp_path: Path) -> None:
    """Not in the URL, not in any output or file, also when the server repeats it in an error."""
    with serving(pages_of(N1)) as server:
        done = refresh(server)
        assert server.requests[0].headers["x-goog-api-key"] == KEY
        assert "key" not in server.requests[0].query
    said = done.stdout + done.stderr
    error = {
        "error": {"code": 400, "message": f"API key not valid: {KEY}", "status": "INVALID_ARGUMENT"}
    }
    with serving(lambda request: as_json(error, 400)) as server:
        refused = refresh(server)
    assert refused.returncode == 7
    assert "answered 400 INVALID_ARGUMENT" in refused.stderr
    assert "tip: check the key" in refused.stderr
    said += refused.stdout + refused.stderr
    with serving(
        lambda request: Answer(KEY.encode(), 302, {"Location": f"http://127.0.0.1:1/{KEY}"})
    ) as server:
        moved = refresh(server, PLACER_DEBUG="1")
    assert moved.returncode == 7
    said += moved.stdout + moved.stderr
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "CANARY" not in said
    assert b"CANARY" not in files


def test_a_key_that_could_split_a_header_is_refused(refresh: Run) -> None:
    """A line break in the key: exit code 2 without repeating it."""
    with serving(pages_of(N1)) as server:
        done = refresh(server, PLACER_GCP_API_KEY=f"{KEY}\r\nX-Evil: 1")
        assert server.requests == []
    assert done.returncode == 2
    assert "CANARY" not in done.stderr


def test_the_key_is_not_sent_over_plain_http() -> None:
    """Another machine without TLS would see it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACER_GCP_BILLING_URL", "http://proxy.example.com/v1")
        with pytest.raises(PlacerError, match="plain HTTP"):
            address("PLACER_GCP_BILLING_URL", "")


FREE = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.0, IOWA)
EUR = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.35, IOWA)
EUR["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]["currencyCode"] = "EUR"
BARE = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.35, IOWA, pricingInfo=[])
ODD = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.35, IOWA, unit="count")
OLD = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.35, IOWA)
OLD["pricingInfo"][0]["effectiveTime"] = "2099-06-01T00:00:00Z"


REFUSED = "price of a part that cannot be: GPU T4 on-demand"
ABSURD = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 3500.0, IOWA)


@pytest.mark.parametrize(
    ("sku", "reason", "count"),
    [
        *((sku, REFUSED, 1) for sku in (FREE, EUR, BARE, ODD)),
        (OLD, "on-demand price takes effect only in the future", 4),
        (ABSURD, "on-demand price is 1,000 times above the median of its device", 4),
    ],
    ids=["free", "euro", "no price", "unit", "future", "absurd"],
)
def test_a_part_that_cannot_be_never_makes_a_machine_cheaper(
    refresh: Run, sku: dict[str, Any], reason: str, count: int
) -> None:
    """The part is refused, or what it is in: all four n1 machines with T4 on demand are left out;
    spot stays.
    """
    with serving(pages_of([*N1[:2], sku, *N1[3:]])) as server:
        document = json.loads(refresh(server, "--in", "us-central1", "--json").stdout)
    assert document["left_out"] == {reason: count}
    assert document["offers"] == 4


def test_a_slip_in_one_region_does_not_hide_in_a_sum(refresh: Run, tmp_path: Path) -> None:
    """A T4 for 0.0001 USD/h in one of three regions: its machines are left out there alone."""
    slip = gcp_sku("Nvidia Tesla T4 GPU running in Iowa", 0.0001, IOWA)
    fair = gcp_sku("Nvidia Tesla T4 GPU running in Americas", 0.35, AMERICAS[1:])
    with serving(pages_of([*N1[:2], slip, fair])) as server:
        done = refresh(server)
    assert {region for region, _, _ in prices(tmp_path)} == set(AMERICAS[1:])
    assert "1 x price of a part that cannot be: GPU T4 on-demand" in done.stdout


@pytest.mark.parametrize(
    "path",
    [
        ("description",),
        ("category",),
        ("category", "usageType"),
        ("serviceRegions",),
        ("serviceRegions", 0),
        ("pricingInfo",),
        ("pricingInfo", 0),
        ("pricingInfo", 0, "effectiveTime"),
        ("pricingInfo", 0, "pricingExpression"),
        ("pricingInfo", 0, "pricingExpression", "usageUnit"),
        ("pricingInfo", 0, "pricingExpression", "tieredRates"),
        ("pricingInfo", 0, "pricingExpression", "tieredRates", 0),
        ("pricingInfo", 0, "pricingExpression", "tieredRates", 0, "unitPrice"),
        ("pricingInfo", 0, "pricingExpression", "tieredRates", 0, "unitPrice", "units"),
        ("pricingInfo", 0, "pricingExpression", "tieredRates", 0, "unitPrice", "nanos"),
    ],
)
def test_no_field_of_a_sku_can_break_a_refresh(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: tuple[Any, ...]
) -> None:
    """Whatever one field of the format holds, the parts that can be read are."""
    odd = []
    values: list[Any] = [None, 7, "", "x", [], {}, ["a"], [[]], True, 1e300]
    for value in values:
        sku = json.loads(json.dumps(N1[2]))
        inner = sku
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        odd.append(sku)
    monkeypatch.setenv("PLACER_HOME", str(home_with_book(tmp_path)))
    monkeypatch.setenv("PLACER_GCP_API_KEY", KEY)
    with serving(pages_of([*odd, *N1[:2], *N1[3:]])) as server:
        monkeypatch.setenv("PLACER_GCP_BILLING_URL", server.url)
        _, rows = refresh_book("gcp", places="us-central1", dry_run=True)
    assert {row["market"] for row in rows} >= {"spot"}


def parts_in(words: str) -> list[tuple[Cell, Cell]]:
    """Parts and markets that a description tells."""
    unit = "GiBy.h" if "Ram" in words else "GiBy.mo" if "SSD" in words else "h"
    sku = gcp_sku(words, 1.0, IOWA, unit=unit, usage="OnDemand")
    mapping, tally = shipped_mapping("gcp"), Tally(skip_bad=False)
    rows = mapped_rows(parsed_records({"skus": [sku]}, mapping, "skus"), mapping, tally, {}, None)
    return [(one.row["part"], one.row["market"]) for one in rows]


def test_saved_pages_of_skus_are_a_book_too(run: Run, tmp_path: Path) -> None:
    """8 cores at 0.031611, 30 GiB at 0.004237 and a T4 at 0.35 make 0.729998 USD/h, over two pages;
    what is no list is refused.
    """
    pages = [tmp_path / "one.json", tmp_path / "two.json"]
    for path, skus in zip(pages, (N1[:2], [*N1[2:], *NOISE]), strict=True):
        path.write_text(json.dumps({"skus": skus, "nextPageToken": ""}), encoding="utf-8")
    done = run("catalog", "import", "gcp", *map(str, pages), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows["rows"]["offers.csv"] > 0
    done = run("catalog", "import", "gcp", *map(str, pages), "--as", "skus")
    assert done.returncode == 0, done.stderr
    words = ("--catalog", "default", "--catalog", "skus", "--gpu", "T4", "--in", "gcp/us-central1")
    shown = run("offers", *words, "--market", "on-demand", "--json")
    offers = {row["instance_type"]: row for row in json.loads(shown.stdout)["offers"]}
    assert offers["n1-standard-8+1xT4"]["usd_per_hour"] == pytest.approx(0.729998)
    assert run("catalog", "import", "gcp", str(tmp_path / "none.json")).returncode == 2
    pages[0].write_text("[]", encoding="utf-8")
    done = run("catalog", "import", "gcp", str(pages[0]))
    assert done.returncode == 2
    assert "is no list of Google's SKUs" in done.stderr
