"""``placer capacity import``: answers of providers from files and servers; logs of launches."""

import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from price_servers import SECRET, Answer, Call, Request, as_json, log_in, rows_of, said, serving

from conftest import ROOT, Run, home_with_book
from placer.errors import SourceError
from placer.market.books.book_reader import load_catalog
from placer.market.launch_log import LaunchLog
from placer.market.sources.capacity.answers import (
    Asked,
    answer_harvest,
    block_offers,
    figure,
    machine_of,
)
from placer.market.sources.capacity.own_launches import survival_of, times_left
from placer.market.sources.harvest import Harvest, Origin
from placer.records import replace

TOKEN = "ya29.CANARY-0123456789"  # noqa: S105 - a canary
ZONE = "https://www.googleapis.com/compute/beta/projects/p/zones/us-central1-a"
SCORED: dict[str, Any] = {
    "scores": {"obtainability": 0.9, "estimatedUptime": "600s"},
    "shards": [{"machineType": "a3-highgpu-8g", "provisioningModel": "SPOT", "zone": ZONE}],
}
ADVICE = {"recommendations": [SCORED]}
"""As Google documents it."""
SCORES = {
    "SpotPlacementScores": [
        {"Region": "us-east-1", "AvailabilityZoneId": "use1-az1", "Score": 8},
        {"Region": "us-moon-1", "AvailabilityZoneId": "usm1-az1", "Score": 9},
    ]
}
BLOCK = {
    "CapacityBlockOfferingId": "cb-0123",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1a",
    "InstanceCount": 4,
    "StartDate": "2026-12-01T11:30:00+00:00",
    "CapacityBlockDurationHours": 24,
    "UpfrontFee": "3024.00",
    "CurrencyCode": "USD",
}
BLOCKS = {"CapacityBlockOfferings": [BLOCK]}
RESERVED = {
    "InstanceType": "ml.p5.48xlarge",
    "InstanceCount": 4,
    "AvailabilityZone": "us-east-1a",
    "StartTime": "2026-12-01T11:30:00+00:00",
}
PLAN = {
    "TrainingPlanOfferingId": "tpo-1",
    "DurationHours": 48,
    "DurationMinutes": 30,
    "UpfrontFee": "9700",
    "CurrencyCode": "USD",
    "ReservedCapacityOfferings": [RESERVED],
}
PLANS = {"TrainingPlanOfferings": [PLAN]}
QUOTAS = {
    "Quotas": [
        {"QuotaName": "All P5 Spot Instance Requests", "Value": 400.0},
        {"QuotaName": "All P4, P3 and P2 Spot Instance Requests", "Value": 96.0},
        {"QuotaName": "Running On-Demand P instances", "Value": 192.0},
        {"QuotaName": "EC2-VPC Elastic IPs", "Value": 5.0},
    ]
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf and credentials of each test's own."""
    log_in(monkeypatch)
    monkeypatch.setenv("PLACER_HOME", str(home_with_book(tmp_path / "home")))
    monkeypatch.setenv("PLACER_GCP_ACCESS_TOKEN", TOKEN)
    return tmp_path / "home"


@pytest.fixture
def call(command: Run) -> Call:
    """Run an import in this process; exit code, output and errors."""
    return lambda *words: said(command("capacity", "import", *words))


def saved(tmp_path: Path, document: object) -> str:
    """Save an answer; returns its path."""
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


H100X8 = ("--machine", "a3-highgpu-8g", "--machines", "8")
P5 = ("--machine", "p5.48xlarge", "--machines", "8")


def test_advice_of_google_is_a_row_of_its_zone(call: Call, tmp_path: Path, home: Path) -> None:
    """A score of 0.9 is high: 0.7 to 1. Ten minutes are the median, in the shape of the class:
    (1/6 h) / (2 ^ (1 / 0.38) - 1).
    """
    code, out, err = call("gcp-advice", "--from", saved(tmp_path, ADVICE), *H100X8)
    assert code == 0, err
    (row,) = rows_of(home, "capacity", "capacity.csv")
    assert (row["zone"], row["device"], row["machines"]) == ("us-central1-a", "H100", "8")
    assert [float(row[name]) for name in ("share", "share_low", "share_high")] == [0.9, 0.7, 1.0]
    assert float(row["survival_a"]) == 0.38
    assert float(row["survival_b_h"]) == pytest.approx(1 / 6 / (2 ** (1 / 0.38) - 1))
    assert row["basis"] == "published"
    assert "next: placer capacity show --catalog default --catalog capacity" in out
    assert load_catalog(["default", "capacity"]).capacity[-1].zone == "us-central1-a"


def harvested(kind: str, machine: str, document: dict[str, Any]) -> Harvest:
    """Rows of an answer about eight machines."""
    book, origin = load_catalog("default"), Origin(place="answer", sha256="", size_bytes=0)
    offer = machine_of(book, kind[:3], machine)
    asked = Asked(offer=offer, machines=8, as_of=date(2026, 11, 1))
    return answer_harvest(kind, document, asked, book, origin)


@pytest.mark.parametrize(
    ("machine", "score", "uptime", "low", "high", "stay"),
    [
        ("a3-highgpu-8g", 0.9, "3599s", 0.7, 1.0, (0.38, 3599 / 3600)),  # that of the most machines
        ("g2-standard-4", 0.7, "360s", 0.7, 1.0, (1.0, 0.1)),  # of L4 nobody knows another
        ("a3-highgpu-8g", 0.5, "3600s", 0.4, 0.7, None),
        ("a3-highgpu-8g", 0.3, None, 0.0, 0.4, None),
    ],
)
def test_uptimes_are_medians_below_an_hour(
    machine: str,
    score: float,
    uptime: str | None,
    low: float,
    high: float,
    stay: tuple[float, float] | None,
) -> None:
    """An hour is the longest that Google says, and bounds nothing; nor does silence. Advice about
    several zones is about none.
    """
    scores = {"obtainability": score, **({"estimatedUptime": uptime} if uptime else {})}
    other = {"scores": scores, "shards": [{"zone": "zones/a-1"}, {"zone": "zones/a-2"}]}
    both = {"recommendations": [{**SCORED, "scores": scores}, other]}
    harvest = harvested("gcp-advice", machine, both)
    assert harvest.left_out == {"advice about several zones together: a row is about one": 1}
    (row,) = harvest.rows["capacity.csv"]
    assert (row["share"], row["share_low"], row["share_high"]) == (score, low, high)
    if stay is None:
        assert not {"survival_a", "survival_b_h"} & row.keys()
    else:
        shape, median = stay
        assert row["survival_a"] == shape
        assert row["survival_b_h"] == pytest.approx(median / (2 ** (1 / shape) - 1))


def test_scores_of_ec2_are_estimates() -> None:
    """8 of 10 is taken as 80 %, give or take 30 points; a region that no book knows is left out."""
    harvest = harvested("aws-scores", "p5.48xlarge", SCORES)
    (row,) = harvest.rows["capacity.csv"]
    assert (row["region"], row["zone"], row["device"]) == ("us-east-1", "use1-az1", "H100")
    assert row["basis"] == "estimated"
    assert (row["share"], row["share_low"], row["share_high"]) == (0.8, 0.5, 1.0)
    assert harvest.left_out == {"region that no book knows: aws/us-moon-1": 1}


def test_the_cheapest_hour_of_a_machine_stands_first() -> None:
    """31.50 USD for an hour of each of four; 30 for twice the machines and for twice the hours;
    of equal ones the first to start. A place that no book knows is left out.
    """
    wide = {**BLOCK, "CapacityBlockOfferingId": "wide", "InstanceCount": 8, "UpfrontFee": "5760"}
    long = {**BLOCK, "CapacityBlockOfferingId": "long", "CapacityBlockDurationHours": 48}
    long |= {"UpfrontFee": "5760", "StartDate": "2026-12-01T11:00:00+00:00"}
    far = {**BLOCK, "AvailabilityZone": "us-moon-1a"}
    book = load_catalog("default")
    document = {"CapacityBlockOfferings": [BLOCK, wide, long, far]}
    found, left_out = block_offers("aws-blocks", document, book, "answer")
    assert [block.name for block in found] == ["long", "wide", "cb-0123"]
    assert left_out == {"region that no book knows: aws/us-moon-1": 1}
    document = {"CapacityBlockOfferings": [{**BLOCK, "StartDate": "soon"}]}
    with pytest.raises(SourceError, match="'soon' is not a time"):
        block_offers("aws-blocks", document, book, "answer")


@pytest.mark.parametrize("value", [-1.01, 10.5, "ten", "nan", True, None, [1]])
def test_a_figure_out_of_its_limits_is_refused(value: object) -> None:
    """Both ends are inside, and numbers may be text."""
    assert [figure({"Value": ok}, "Value", -1, 10, "answer") for ok in (-1, "10")] == [-1, 10]
    with pytest.raises(SourceError, match=r"answer: Value '.*' is not from -1 to 10"):
        figure({"Value": value}, "Value", -1, 10, "answer")


@pytest.mark.parametrize(
    ("kind", "answer", "hours", "usd"),
    [("aws-blocks", BLOCKS, 24.0, 31.5), ("aws-plans", PLANS, 48.5, 50.0)],
)
def test_blocks_and_plans_are_a_list_of_what_can_be_bought(
    call: Call, tmp_path: Path, kind: str, answer: object, hours: float, usd: float
) -> None:
    """Four machines for 24 h and 3,024 USD: 31.50 for an hour of each; 9,700 for 48.5 h: 50."""
    path = tmp_path / "blocks.csv"
    words = (kind, "--from", saved(tmp_path, answer), *P5, "-o", str(path), "--json")
    code, out, err = call(*words)
    assert code == 0, err
    (block,) = json.loads(out)["blocks"]
    assert (block["place"], block["gpu"], block["machines"]) == ("aws/us-east-1", "H100", 4)
    assert block["start"] == "2026-12-01T11:30:00+00:00"
    assert block["hours"] == hours
    assert block["usd"] / block["hours"] / block["machines"] == pytest.approx(usd)
    assert path.read_text(encoding="utf-8").splitlines()[0].startswith("name,place,instance_type")
    assert "p5.48xlarge" in call(kind, "--from", saved(tmp_path, answer), *P5)[1]


def quota_rows(call: Call, path: Path, *words: str) -> list[dict[str, str]]:
    """Rows of the quota file that an import writes."""
    code, _, err = call(*words, "-o", str(path))
    assert code == 0, err
    with path.open(encoding="utf-8", newline="") as stream:
        return [*csv.DictReader(stream)]


def test_quotas_of_aws_stay_vcpus_of_families(call: Call, tmp_path: Path) -> None:
    """400 of P5 and 96 of P4, P3 and P2 on spot, 192 of all P on demand; addresses are listed."""
    path, words = tmp_path / "quota.csv", ("aws-quotas", "--from", saved(tmp_path, QUOTAS))
    read = quota_rows(call, path, *words, "--in", "ap-northeast-1")
    assert [(row["machine"], row["market"], row["vcpus"], row["gpus"]) for row in read] == [
        ("p5[!0-9]*", "spot", "400", ""),
        ("p4[!0-9]*|p3[!0-9]*|p2[!0-9]*", "spot", "96", ""),
        ("p[0-9]*", "on_demand", "192", ""),
    ]
    assert "EC2-VPC Elastic IPs" in call(*words, "--in", "ap-northeast-1")[1]
    from placer.interface.advisor import Advisor

    wish = Advisor("default").problem("roberta-xlm", quota=str(path)).requirements
    assert [(quota.vcpus, quota.scope) for quota in wish.quotas] == [
        (400, "together"),
        (96, "together"),
        (192, "together"),
    ]


REGION = {
    "name": "us-central1",
    "kind": "compute#region",
    "quotas": [
        {"limit": 16.0, "metric": "NVIDIA_L4_GPUS", "usage": 0.0},
        {"limit": 8.0, "metric": "PREEMPTIBLE_NVIDIA_L4_GPUS", "usage": 4.0},
        {"limit": 0.0, "metric": "NVIDIA_A100_80GB_GPUS", "usage": 0.0},
        {"limit": 128.0, "metric": "PREEMPTIBLE_NVIDIA_H100_GPUS", "usage": 0.0},
        {"limit": 72.0, "metric": "CPUS", "usage": 0.0},
    ],
}
"""As ``gcloud compute regions describe`` prints it, in short."""
PROJECT = {
    "name": "p",
    "kind": "compute#project",
    "quotas": [{"limit": 12.0, "metric": "GPUS_ALL_REGIONS", "usage": 4.0}],
}


def test_quotas_of_google_cloud_are_gpus_of_metrics(call: Call, tmp_path: Path) -> None:
    """L4 16 on demand and 8 - 4 on spot, no A100-80 in either market, 128 H100 on spot, which are
    those of a3-highgpu; of the project 12 - 4 in all regions together. CPUs are listed.
    """
    words = ("gcp-quotas", "--from", saved(tmp_path, [REGION, PROJECT]))
    read = quota_rows(call, tmp_path / "quota.csv", *words)
    assert [(r["place"], r["gpu"], r["market"], r["gpus"], r["scope"]) for r in read] == [
        ("gcp/us-central1", "L4", "on_demand", "16", "each"),
        ("gcp/us-central1", "L4", "spot", "4", "each"),
        ("gcp/us-central1", "A100-80", "*", "0", "together"),
        ("gcp/us-central1", "H100", "spot", "128", "together"),
        ("gcp/*", "*", "*", "8", "together"),
    ]
    assert read[3]["machine"] == "a3-highgpu-*|a3-edgegpu-*"
    assert "metric of no GPU that the book has: CPUS" in call(*words)[1]


def test_a_log_is_shares_with_ranges_and_survival(call: Call, home: Path) -> None:
    """Rows for 1, 2, 4, 8 and 16 of 16 machines in each of three zones, measured."""
    code, _, err = call(
        "log", "--from", str(ROOT / "examples" / "launches.csv"), "--machine", "a3-highgpu-8g"
    )
    assert code == 0, err
    found = rows_of(home, "capacity", "capacity.csv")
    assert len(found) == 15
    assert {row["basis"] for row in found} == {"measured"}
    for row in found:
        low, share, high = (float(row[f"share{end}"]) for end in ("_low", "", "_high"))
        assert low <= share <= high
        assert high - low > 0.0999


def log_of(counts: list[int]) -> LaunchLog:
    """One zone, a look every hour."""
    from datetime import UTC, datetime, timedelta

    first = datetime(2026, 11, 1, tzinfo=UTC)
    return LaunchLog(
        zones=("us-central1-a",),
        hours=np.arange(len(counts), dtype=float),
        launched=np.array(counts)[:, None],
        most=max(counts),
        first=first,
        last=first + timedelta(hours=len(counts) - 1),
    )


def test_machines_that_nobody_got_are_counted_too() -> None:
    """Of four looks at three machines two found none and two found two; all three nobody."""
    log = replace(log_of([2, 0, -1, 0, 2]), most=3)
    assert log.usual.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_time_is_left_from_each_look_until_a_failed_launch() -> None:
    """4 4 0: two hours and one. 4 at 3 h, nobody at 4 h, 0 at 5 h: two hours. 4 4 4 at the end: two
    hours and one, not ended.
    """
    hours, ended, losses = times_left(log_of([4, 4, 0, 4, -1, 0, 4, 4, 4]), 0, 4)
    assert hours.tolist() == [2.0, 1.0, 2.0, 2.0, 1.0]
    assert ended.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert losses == 2


def test_survival_of_drawn_spells_is_found_again() -> None:
    """Spells drawn from (1 + t / 2 h)^-2.5 by looks every minute. What is left of one that is met
    at any moment is (1 + t / 2 h)^-1.5: median 2 (2^(2/3) - 1) = 1.17 h, within 15 %.
    """
    rng = np.random.default_rng(3)
    counts: list[int] = []
    for draw in rng.random(1500):
        hours = 2.0 * ((1 - draw) ** (-1 / 2.5) - 1)
        counts += [4] * max(1, round(60 * hours)) + [0]
    log = log_of(counts)
    found = survival_of(replace(log, hours=log.hours / 60), 0, 4)
    median = found["survival_b_h"] * (2 ** (1 / found["survival_a"]) - 1)
    assert median == pytest.approx(2 * (2 ** (2 / 3) - 1), rel=0.15)


def test_google_is_asked_with_the_token_and_it_never_comes_back(
    call: Call, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """One question by POST, about one zone, for spot machines."""
    with serving(lambda _: as_json(ADVICE)) as server:
        monkeypatch.setenv("PLACER_GCP_COMPUTE_URL", server.url)
        code, out, err = call(
            "gcp-advice", *H100X8, "--zone", "us-central1-a", "--project", "my-project"
        )
    assert code == 0, err
    (request,) = server.requests
    assert request.path == "/projects/my-project/regions/us-central1/advice/capacity"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    question = json.loads(request.body)
    assert question["size"] == 8
    assert question["distributionPolicy"]["zones"] == [{"zone": "zones/us-central1-a"}]
    assert question["instanceProperties"]["scheduling"] == {"provisioningModel": "SPOT"}
    assert TOKEN not in out + err + (home / "catalogs/capacity/origin.json").read_text("utf-8")


def ec2(action: str, key: str, items: str) -> Answer:
    """An answer of EC2 in its XML."""
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    body = (
        f'<?xml version="1.0"?><{action}Response xmlns="{space}"><requestId>1</requestId>'
        f"<{key}>{items}</{key}></{action}Response>"
    )
    return Answer(body.encode(), 200, {"Content-Type": "text/xml"})


def amazon_json(document: object) -> Answer:
    """An answer of the services that speak JSON."""
    body = json.dumps(document).encode()
    return Answer(body, 200, {"Content-Type": "application/x-amz-json-1.1"})


def aws(request: Request) -> Answer:
    """Answer as EC2, SageMaker and Service Quotas do."""
    target = request.headers.get("x-amz-target", "")
    if target.endswith("ListServiceQuotas"):
        return amazon_json(QUOTAS)
    if target.endswith("SearchTrainingPlanOfferings"):
        reserved = {**RESERVED, "StartTime": 1_796_124_600}
        plan = {**PLAN, "ReservedCapacityOfferings": [reserved]}
        return amazon_json({"TrainingPlanOfferings": [plan]})
    if b"GetSpotPlacementScores" in request.body:
        item = "<item><region>us-east-1</region><availabilityZoneId>use1-az1</availabilityZoneId>"
        return ec2(
            "GetSpotPlacementScores", "spotPlacementScoreSet", f"{item}<score>8</score></item>"
        )
    names = {key: f"{key[0].lower()}{key[1:]}" for key in BLOCK}
    fields = "".join(f"<{names[key]}>{cell}</{names[key]}>" for key, cell in BLOCK.items())
    item = f"<item>{fields}</item>"
    return ec2("DescribeCapacityBlockOfferings", "capacityBlockOfferingSet", item)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("aws-scores", *P5), "1 rows of capacity.csv"),
        (("aws-blocks", *P5), "31.50"),
        (("aws-plans", *P5), "50.00"),
        (("aws-quotas",), "aws/us-east-1: at most 96 vCPUs of p4[!0-9]*"),
    ],
)
def test_aws_is_asked_with_boto3(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """Over HTTP in the formats of its services; the secret never comes back."""
    with serving(aws) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        code, out, err = call(*words, "--in", "us-east-1")
    assert code == 0, err
    assert said in out
    assert SECRET not in out + err
