"""An answer beside the bill for it: what is matched, what is not, and for how many hours."""

import csv
import io
import json
from math import fsum
from pathlib import Path
from typing import Any

import httpx2
import pytest
from conforming import validate

import placer
from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.words.money import exchange_rates

FOCUS = ROOT / "examples" / "focus.csv"
GROUPS = "aws/us-west-2=7xCPU-2:on-demand,aws/eu-west-2=1xCPU-2:on-demand"
PLACES = ("aws/us-west-2", "aws/eu-west-2")
HOURS = 5.5


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    """Seven machines in Oregon and one in London, with S3 and Lambda in Oregon."""
    words: dict[str, Any] = {
        "catalog": "phalak-2023",
        "exchange": "central",
        "aggregator": PLACES[0],
    }
    placed = placer.estimate("niser", workers=GROUPS, **words)
    document: dict[str, Any] = json.loads(json.dumps(placed.to_dict()))
    return document


def rows() -> list[dict[str, str]]:
    """The charges of the example."""
    return [*csv.DictReader(io.StringIO(FOCUS.read_text(encoding="utf-8")))]


def written(path: Path, charges: list[dict[str, str]]) -> str:
    """A bill of some charges."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [*charges[0]])
        writer.writeheader()
        writer.writerows(charges)
    return str(path)


def billed(plan: Any, path: Path, charges: list[dict[str, str]], **words: Any) -> dict[str, Any]:
    """A plan beside a bill of some charges."""
    return placer.bill(plan, written(path / "focus.csv", charges), **words).to_dict()


def line(document: Any, component: str, place: str) -> Any:
    """The line of a component in a place."""
    keys = (component, place)
    (found,) = [one for one in document["lines"] if (one["component"], one["place"]) == keys]
    return found


def test_each_component_stands_beside_its_charges(plan: dict[str, Any]) -> None:
    """38.5 + 5.5 hours of machines are 5.5 hours of eight. Machines cost 0.096 and 0.111 USD an
    hour, as planned; requests of both tiers are of the store.
    """
    document = placer.bill(plan, FOCUS).to_dict()
    assert document["hours"] == pytest.approx(HOURS)
    assert not document["hours_given"]
    usd = plan["estimate"]["usd_per_hour"]
    for place, hours, price in zip(PLACES, (38.5, 5.5), (0.096, 0.111), strict=True):
        machines = line(document, "compute", place)
        assert machines["machine_hours"] == hours
        assert machines["charged_usd"] == pytest.approx(hours * price)
        assert machines["relative_difference"] == pytest.approx(0, abs=1e-9)
    by_component = {
        name: fsum(one["predicted_usd"] for one in document["lines"] if one["component"] == name)
        for name in ("compute", "egress", "storage", "functions")
    }
    assert by_component == pytest.approx({name: HOURS * usd[name] for name in by_component})
    assert line(document, "egress", "aws/us-west-2")["charged_usd"] == 0.802
    assert line(document, "storage", "aws/us-west-2")["charged_usd"] == pytest.approx(0.2379)
    assert line(document, "functions", "aws/us-west-2")["charges"] == 1
    assert document["warnings"] == []
    assert document["uncharged_usd"] == 0


def test_what_matches_nothing_and_what_is_no_use_are_told_apart(plan: dict[str, Any]) -> None:
    """A machine of another type, and a disk of the plan's machines; tax and credit. Every charge is
    in one of the sums.
    """
    document = placer.bill(plan, FOCUS).to_dict()
    assert [(row["component"], row["what"], row["usd"]) for row in document["unmatched"]] == [
        ("compute", "c7i.large on-demand", 2.142),
        ("other", "USW2-EBS:VolumeUsage.gp3", 0.12),
    ]
    assert [(row["kind"], row["usd"]) for row in document["apart"]] == [
        ("Credit", -2.0),
        ("Tax", 1.18),
    ]
    whole = fsum(float(row["BilledCost"]) for row in rows())
    sums = [document[f"{name}_usd"] for name in ("charged", "unmatched", "apart")]
    assert fsum(sums) == pytest.approx(whole)


def test_what_has_no_charge_is_no_zero(plan: dict[str, Any], tmp_path: Path) -> None:
    """Without charges for egress its lines have no difference, and the sums leave them out."""
    kept = [row for row in rows() if row["ServiceCategory"] != "Networking"]
    document = billed(plan, tmp_path, kept)
    egress = line(document, "egress", "aws/us-west-2")
    assert (egress["charged_usd"], egress["difference_usd"]) == (None, None)
    assert document["uncharged_usd"] == pytest.approx(
        HOURS * plan["estimate"]["usd_per_hour"]["egress"]
    )
    assert document["predicted_usd"] == pytest.approx(
        HOURS * plan["estimate"]["usd_per_hour"]["total"] - document["uncharged_usd"]
    )


def test_hours_that_are_given_count(plan: dict[str, Any], tmp_path: Path) -> None:
    """Twice the hours are twice the prediction; without an hour of a machine they must be given."""
    once, twice = (placer.bill(plan, FOCUS, hours=h).to_dict() for h in (HOURS, 2 * HOURS))
    assert twice["predicted_usd"] == pytest.approx(2 * once["predicted_usd"])
    taxes = [row for row in rows() if row["ChargeCategory"] == "Tax"]
    with pytest.raises(PlacerError, match=r"has no hour of a machine of the plan .*m5\.large"):
        billed(plan, tmp_path, taxes)
    assert not any(row["charges"] for row in billed(plan, tmp_path, taxes, hours=1)["lines"])


T4_AND_SERVER = "gcp/us-central1=2xT4:spot,gcp/us-central1=1xT4:on-demand,gcp/us-west1=1xT4:spot"
ISLANDS = "aws/us-east-1=2x(2xH100:8):spot,aws/us-west-2=1x(2xH100:8):spot"
MOVED = "gcp/us-central1=1M:move,gcp/europe-west1=3M:move"


@pytest.mark.parametrize(
    ("model", "workers", "words", "machines", "egress"),
    [
        ("resnet152", "gcp/us-west1=2xT4:spot", {"data": MOVED}, [2], [1 / 25, 24 / 25]),
        ("resnet152", "gcp/us-west1=2xT4:spot", {"data": "1TB@backblaze/us-west"}, [2], [1]),
        ("llama-3.2-1b", ISLANDS, {"catalog": "default"}, [4, 2], [0.5, 0.5]),
        ("roberta-xlm", T4_AND_SERVER, {"exchange": "parameter-server"}, [2, 2, 1], [0.5, 0.5]),
    ],
)
def test_lines_of_a_plan_sum_to_its_price(
    model: str, workers: str, words: dict[str, Any], machines: list[int], egress: list[float]
) -> None:
    """Each machine of an island, a server beside workers of its kind, and what leaves a place: as
    much each way between two; three quarters of the data that moves leave Europe, at eight times
    the price; of a store all leaves there.
    """
    placed = placer.estimate(model, workers, **{"catalog": "erben-2023", **words}).to_dict()
    usd = {name: 2 * price for name, price in placed["estimate"]["usd_per_hour"].items()}
    parts: dict[str, list[float]] = {"compute": [], "egress": []}
    for one in (lines := placer.bill(placed, FOCUS, hours=2).to_dict()["lines"]):
        parts[one["component"]].append(one["predicted_usd"])
    assert [int(one["what"].split(" x ")[0]) for one in lines[: len(machines)]] == machines
    assert fsum(parts["compute"]) == pytest.approx(usd["compute"])
    leaves = usd["egress"] + usd["data"]
    assert parts["egress"] == pytest.approx([share * leaves for share in egress])
    assert fsum(fsum(each) for each in parts.values()) == pytest.approx(usd["total"])


def test_only_charges_with_a_tag(plan: dict[str, Any]) -> None:
    """The other machine has no tag, nor have tax and credit."""
    tagged = placer.bill(plan, FOCUS, tag="run=4711").to_dict()
    assert [row["what"] for row in tagged["unmatched"]] == ["USW2-EBS:VolumeUsage.gp3"]
    assert tagged["left_out"] == [
        {"kind": "without the tag run=4711", "charges": 3, "usd": pytest.approx(1.322)}
    ]


@pytest.mark.parametrize(
    ("starts", "ends", "reason"),
    [
        (3, 5, ""),
        (3, None, ""),
        (4, None, ""),
        (5, None, "outside the period"),
        (2, None, "outside the period"),
        (2, 3, "outside the period"),
        (5, 6, "outside the period"),
        (2, 4, "reaches beyond the period"),
        (4, 6, "reaches beyond the period"),
    ],
)
def test_the_end_of_a_period_is_not_in_it(
    plan: dict[str, Any], tmp_path: Path, starts: int, ends: int | None, reason: str
) -> None:
    """From the third day to the fifth; a charge may have no end. What is left out is in no sum."""
    row = dict(rows()[0], ChargePeriodStart=f"2026-10-{starts:02}T00:00:00Z")
    row["ChargePeriodEnd"] = "" if ends is None else f"2026-10-{ends:02}T00:00:00Z"
    document = billed(plan, tmp_path, [row], period="2026-10-03/2026-10-05", hours=1)
    assert [one["kind"] for one in document["left_out"]] == ([reason] if reason else [])
    assert document["charged_usd"] == (0 if reason else 3.696)


def test_another_market_is_the_same_machine_with_a_warning(
    plan: dict[str, Any], tmp_path: Path
) -> None:
    """Spot in place of on demand is charged for the plan, and said."""
    charges = rows()
    charges[0]["ChargeDescription"] = "USW2-SpotUsage:m5.large"
    document = billed(plan, tmp_path, charges)
    assert line(document, "compute", "aws/us-west-2")["charged_usd"] == 3.696
    (warning,) = document["warnings"]
    assert "m5.large in aws/us-west-2 is spot; the plan has on-demand" in warning


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (6, []),
        (
            11,
            [
                "machines ran for unequal times: 5.5 h for m5.large, 11 h for m5.large; the others "
                "are predicted for the mean"
            ],
        ),
    ],
)
def test_machines_that_ran_for_unequal_times_are_said(
    plan: dict[str, Any], tmp_path: Path, hours: int, words: list[str]
) -> None:
    """38.5 h / 7 = 5.5 h, and so many of the one in London: (38.5 + 11) / 8 h on average. A tenth
    more is not worth a word. The bill is from the first charge of the plan to its last.
    """
    charges = rows()
    day = {"ChargePeriodStart": "2026-10-04T12:00:00Z", "ChargePeriodEnd": "2026-10-05T00:00:00Z"}
    charges[1] |= {"ConsumedQuantity": str(hours), **day}
    document = billed(plan, tmp_path, charges)
    assert document["hours"] == pytest.approx((38.5 + hours) / 8)
    assert document["warnings"] == words
    assert (document["first"], document["last"]) == (
        "2026-10-03T00:00:00+00:00",
        "2026-10-05T00:00:00+00:00",
    )


def test_cores_and_devices_belong_to_the_only_machines_of_a_place(tmp_path: Path) -> None:
    """Google bills cores, memory and devices, and names no type of machine. Their hours are no
    hours of machines, so the time must be given. Of machines of one place in two markets each has
    the charges of its own.
    """
    spot = "gcp/us-central1=4xT4:spot"
    placed = placer.estimate("roberta-xlm", spot, catalog="erben-2023").to_dict()
    charges = [
        {
            **dict.fromkeys(rows()[0], ""),
            "ChargePeriodStart": "2026-10-03T00:00:00Z",
            "ChargeCategory": "Usage",
            "ChargeDescription": words,
            "ServiceCategory": "Compute",
            "ServiceName": "Compute Engine",
            "ProviderName": "Google Cloud",
            "RegionId": "us-central1",
            "ConsumedQuantity": "40",
            "ConsumedUnit": unit,
            "BillingCurrency": "USD",
            "BilledCost": "1.5",
        }
        for words, unit in (
            ("Spot Preemptible N1 Predefined Instance Core running in Americas", "hour"),
            ("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", "hour"),
            ("Network Internet Data Transfer In to Americas", "gibibyte"),
        )
    ]
    with pytest.raises(PlacerError, match="has no hour of a machine"):
        billed(placed, tmp_path, charges)
    document = billed(placed, tmp_path, charges, hours=10)
    (machines,) = document["lines"]
    assert (machines["charged_usd"], machines["machine_hours"]) == (3.0, None)
    assert [row["component"] for row in document["unmatched"]] == ["other"]
    both = f"{spot},gcp/us-central1=1xT4:on-demand"
    placed = placer.estimate("roberta-xlm", both, catalog="erben-2023").to_dict()
    charges[1]["ChargeDescription"] = "Nvidia Tesla T4 GPU running in Americas"
    document = billed(placed, tmp_path, charges, hours=10)
    assert [one["charged_usd"] for one in document["lines"][:2]] == [1.5, 1.5]


def test_other_money_is_exchanged_at_a_dated_rate(plan: dict[str, Any], tmp_path: Path) -> None:
    """Euros as budgets in euros are; a currency without a rate is refused by name."""
    euros = [{**row, "BillingCurrency": "EUR"} for row in rows()]
    rate = exchange_rates()["EUR"]
    document = billed(plan, tmp_path, euros)
    assert document["rates"] == [rate.words]
    charged = placer.bill(plan, FOCUS).to_dict()["charged_usd"]
    assert document["charged_usd"] == pytest.approx(rate.usd * charged)
    with pytest.raises(PlacerError, match=r"focus\.csv:2: no rate of BRL is known"):
        billed(plan, tmp_path, [{**row, "BillingCurrency": "BRL"} for row in rows()])


def test_commitments_and_other_costs(plan: dict[str, Any], tmp_path: Path) -> None:
    """Hours of a commitment are billed with 0, and the effective cost has its share; a warning says
    so. Effective costs of the credit are 0.
    """
    charges = [{**row, "CommitmentDiscountId": ""} for row in rows()]
    charges[0] |= {"CommitmentDiscountId": "sp-1", "BilledCost": "0"}
    document = billed(plan, tmp_path, charges)
    assert line(document, "compute", "aws/us-west-2")["charged_usd"] == 0
    assert document["warnings"] == [
        "1 charges are paid by a commitment, which is billed apart; the effective cost has their "
        "share"
    ]
    spread = billed(plan, tmp_path, charges, cost="effective")
    assert line(spread, "compute", "aws/us-west-2")["charged_usd"] == 3.696
    assert spread["warnings"] == []


def test_command_line_python_and_service_agree(
    plan: dict[str, Any], tmp_path: Path, run: Run, client: httpx2.Client
) -> None:
    """One document, which follows its schema; the screen has every component and the sum."""
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    words = ("bill", str(tmp_path / "plan.json"), str(FOCUS), "--tag", "run=4711")
    printed = json.loads(run(*words, "--json").stdout)
    validate(printed, "bill")
    assert printed == placer.bill(plan, FOCUS, tag=["run=4711"], name="plan.json").to_dict()
    text = FOCUS.read_text(encoding="utf-8")
    answer = client.post("/v1/bill", json={"result": plan, "charges": text, "tag": ["run=4711"]})
    assert answer.status_code == 200, answer.text
    assert {**answer.json(), "plan": "plan.json", "bill": "focus.csv"} == printed
    shown = run(*words).stdout
    assert "$6.44 were charged for what was predicted at $6.44 in 5 h 30 min" in shown
    assert [word in shown for word in ("compute", "egress", "storage", "functions", "total")]
