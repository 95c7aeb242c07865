"""``placer catalog refresh aws``: EC2 by moto; price list and spot history in front of it."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from botocore import loaders
from price_servers import (
    ACCESS,
    SECRET,
    Answer,
    Call,
    Request,
    Server,
    as_json,
    aws_entry,
    log_in,
    machines_of,
    said,
    serving,
)

from conftest import Run, home_with_book
from placer.market.sources.prices import aws_account as account
from placer.market.sources.prices.aws import quantile, spot_prices
from placer.market.sources.prices.scope import FIGURES

Spot = list[tuple[str, str, str, datetime]]
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """Address of moto's own server on a free port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True, scope="module")
def models_read_once() -> Iterator[None]:
    """Keep the models of services, which botocore reads anew in each session."""
    load = cache(loaders.JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaders.JSONFileLoader, "load_file", lambda _, path: load(path))
        yield


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Run) -> Call:
    """Run a refresh in this process with canaries as credentials; exit code, stdout and stderr."""
    log_in(monkeypatch)
    monkeypatch.setenv("PLACER_HOME", str(home_with_book(tmp_path)))

    def refresh(server: Server, *options: str) -> tuple[int, str, str]:
        return said(command("catalog", "refresh", "aws", *options, AWS_ENDPOINT_URL=server.url))

    return refresh


def spot_xml(rows: Spot) -> bytes:
    """DescribeSpotPriceHistory as EC2 answers it."""
    items = "".join(
        f"<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>{price}</spotPrice>"
        f"<timestamp>{moment:%Y-%m-%dT%H:%M:%S}.000Z</timestamp><availabilityZone>{zone}</availabilityZone></item>"
        for name, zone, price, moment in rows
    )
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><DescribeSpotPriceHistoryResponse '
        f'xmlns="{space}"><requestId>59dbff89</requestId>'
        f"<spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>"
    ).encode()


def region_of(request: Request) -> str:
    """The region that a request was signed for."""
    found = re.search(r"Credential=[^/]+/\d+/([^/]+)/", request.headers["authorization"])
    assert found
    return found[1]


def aws(
    moto: str, entries: list[str], spot: Spot | None = None, page: int = 100
) -> Callable[[Request], Answer]:
    """Answer the price list here, and the spot history if it is given; the rest by moto."""

    def answer(request: Request) -> Answer:
        if request.headers.get("x-amz-target") == "AWSPriceListService.GetProducts":
            question = json.loads(request.body)
            wanted = {f["Field"]: f["Value"] for f in question["Filters"]}
            found = [
                e
                for e in entries
                if json.loads(e)["product"]["attributes"]["regionCode"] == wanted["regionCode"]
            ]
            start = int(question.get("NextToken", "0"))
            token = {"NextToken": str(start + page)} if start + page < len(found) else {}
            return as_json(
                {"FormatVersion": "aws_v1", "PriceList": found[start : start + page], **token}
            )
        if spot is not None and parse_qs(request.body.decode()).get("Action") == [
            "DescribeSpotPriceHistory"
        ]:
            return Answer(spot_xml([row for row in spot if row[1].startswith(region_of(request))]))
        passed = {
            k: v
            for k, v in request.headers.items()
            if k not in ("host", "content-length", "connection", "accept-encoding")
        }
        done = httpx2.post(moto, content=request.body, headers=passed, timeout=60, verify=False)
        return Answer(
            done.content, done.status_code, {"Content-Type": done.headers["content-type"]}
        )

    return answer


OREGON = [
    aws_entry("g4dn.xlarge", "us-west-2", "0.5260000000"),
    aws_entry("p4d.24xlarge", "us-west-2", "21.9576460000", gpu="8"),
    aws_entry("m5.large", "us-west-2", "0.0960000000", gpu=None),
    aws_entry("m5.xlarge", "us-west-2", "0.1920000000", gpu=None),
    aws_entry("g6f.large", "us-west-2", "0.2023000000", gpu="1"),
    aws_entry("g9.xlarge", "us-west-2", "1.0000000000"),
    aws_entry("g4dn.xlarge", "us-west-2", "0.7100000000", operatingSystem="Windows"),
    aws_entry("g4dn.xlarge", "us-west-2", "0.0000000000", tenancy="Host"),
    aws_entry("p4d.24xlarge", "us-west-2", "12.0000000000", gpu="8", marketoption="CapacityBlock"),
    aws_entry("g4dn.xlarge", "us-west-2", "0.6310000000", locationType="AWS Local Zone"),
]
"""List prices of 2025 and 2026; g6f has an eighth of an L4 and g9 does not exist."""
IRELAND = [aws_entry("g4dn.xlarge", "eu-west-1", "0.5870000000")]
HISTORY: Spot = [
    ("g4dn.xlarge", "us-west-2a", "0.200000", NOW - timedelta(days=40)),
    ("g4dn.xlarge", "us-west-2a", "0.300000", NOW - timedelta(days=15)),
    ("g4dn.xlarge", "us-west-2a", "0.250000", NOW - timedelta(days=2)),
    ("g4dn.xlarge", "us-west-2b", "0.270000", NOW - timedelta(days=60)),
    ("g4dn.xlarge", "eu-west-1a", "0.310000", NOW - timedelta(days=1)),
]


def test_prices_of_two_regions_become_a_book(call: Call, moto: str, tmp_path: Path) -> None:
    """On-demand and spot prices with the shapes that EC2 gives; what is no known GPU, not offered
    or no plain Linux is left out.

    In Oregon zone a asks least now. Of the last 30 days it asked 0.20 for 15, 0.30 for 13 and 0.25
    for 2, so low is 0.20 and high 0.30. moto's EC2 says 5 Gb/s for g4dn.xlarge and four cards of
    100 Gb/s for p4d.24xlarge.
    """
    with serving(aws(moto, OREGON + IRELAND, HISTORY, page=4)) as server:
        code, out, err = call(server, "--in", "us-west-2,eu-west-1")
    assert (code, err) == (0, "")
    found = machines_of(tmp_path, "aws")
    assert sorted(found) == [
        ("eu-west-1", "g4dn.xlarge", "on_demand"),
        ("eu-west-1", "g4dn.xlarge", "spot"),
        ("us-west-2", "g4dn.xlarge", "on_demand"),
        ("us-west-2", "g4dn.xlarge", "spot"),
        ("us-west-2", "m5.large", "on_demand"),
        ("us-west-2", "m5.xlarge", "on_demand"),
        ("us-west-2", "p4d.24xlarge", "on_demand"),
    ]
    spot = found["us-west-2", "g4dn.xlarge", "spot"]
    assert (spot["usd_per_hour"], spot["usd_per_hour_low"], spot["usd_per_hour_high"]) == (
        "0.25",
        "0.2",
        "0.3",
    )
    assert "cheapest of 2 zones: us-west-2a" in spot["source"]
    assert spot["network_gbps"] == "5.0"
    p4d = found["us-west-2", "p4d.24xlarge", "on_demand"]
    shape = [p4d[column] for column in ("gpu", "gpu_count", "vcpus", "memory_gib", "network_gbps")]
    assert shape == ["A100-40", "8", "96.0", "1152.0", "400.0"]
    assert (spot["fabric"], p4d["fabric"]) == ("ethernet", "efa")
    assert found["us-west-2", "m5.large", "on_demand"]["gpu"] == "CPU-2"
    assert "left out: 1 x type whose GPU gpus.csv does not know: g6f" in out
    assert "left out: 1 x type that its region does not offer: g9" in out


def test_the_price_list_is_asked_for_plain_linux(call: Call, moto: str) -> None:
    """Filters of GetProducts; spot history for Linux, the types wanted, over 30 days."""
    with serving(aws(moto, OREGON, HISTORY)) as server:
        assert call(server, "--in", "us-west-2", "--gpu", "T4", "--dry-run")[0] == 0
    question = json.loads(next(r.body for r in server.requests if "x-amz-target" in r.headers))
    assert {f["Field"]: f["Value"] for f in question["Filters"]} == {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
        "regionCode": "us-west-2",
    }
    form = next(
        parse_qs(r.body.decode()) for r in server.requests if b"DescribeSpotPriceHistory" in r.body
    )
    assert (form["InstanceType.1"], form["ProductDescription.1"]) == (
        ["g4dn.xlarge"],
        ["Linux/UNIX"],
    )
    assert "InstanceType.2" not in form
    begun, ended = (datetime.fromisoformat(form[key][0]) for key in ("StartTime", "EndTime"))
    assert (ended - begun).days == 30


@pytest.mark.parametrize(
    ("price", "age_days", "reason"),
    [
        ("0.00001", 1, "spot price is 1,000 times below the median of its device"),
        ("0.250000", 91, "spot price is older than 90 days"),
        ("0.250000", -3, "spot price takes effect only in the future"),
        ("-0.25", 1, "spot price is zero or less"),
        ("nan", 1, "spot price is not a number"),
    ],
)
def test_a_zone_whose_price_cannot_be_is_passed_over(
    call: Call, moto: str, tmp_path: Path, price: str, age_days: int, reason: str
) -> None:
    """Zone c seems to be the cheapest or is broken; zone b counts instead."""
    rows: Spot = [("g4dn.xlarge", "us-west-2c", price, NOW - timedelta(days=age_days)), HISTORY[3]]
    with serving(aws(moto, OREGON, rows)) as server:
        _, out, _ = call(server, "--in", "us-west-2", "--json")
    assert json.loads(out)["left_out"][reason] == 1
    assert (
        machines_of(tmp_path, "aws")["us-west-2", "g4dn.xlarge", "spot"]["usd_per_hour"] == "0.27"
    )


def test_regions_that_are_off_or_unknown_are_counted(call: Call, moto: str) -> None:
    """Moto's account has ap-east-1 switched off and lists China, which no book knows."""
    with serving(aws(moto, OREGON + IRELAND, HISTORY)) as server:
        code, out, _ = call(server, "--in", "us-west-2,ap-east-1", "--json")
        assert call(server, "--in", "ap-east-1")[0] == 7
    assert code == 0
    assert "not switched on in this account: ap-east-1" in json.loads(out)["notes"]
    assert json.loads(out)["left_out"]["region that the shipped book does not know"] >= 2


def broken_in(
    region: str, works: Callable[[Request], Answer], answer: Answer
) -> Callable[[Request], Answer]:
    """Answer EC2 in one region with something else."""
    return lambda request: (
        answer if region_of(request) == region and b"Offerings" in request.body else works(request)
    )


ERROR = (
    "<Response><Errors><Error><Code>{}</Code><Message>{}</Message></Error></Errors>"
    "<RequestID>1</RequestID></Response>"
)


def denied(code: str, status: int = 403) -> Answer:
    """An error of EC2 that repeats the name of the key."""
    return Answer(ERROR.format(code, f"The key {ACCESS} is not authorized").encode(), status)


def test_one_region_that_fails_fails_the_refresh(call: Call, moto: str, tmp_path: Path) -> None:
    """Exit code 7, the old book as it was; the tip names --partial."""
    works = aws(moto, OREGON + IRELAND, HISTORY)
    with serving(works) as server:
        call(server, "--in", "us-west-2,eu-west-1")
    before = machines_of(tmp_path, "aws")
    with serving(broken_in("eu-west-1", works, denied("UnauthorizedOperation"))) as server:
        code, _, err = call(server, "--in", "us-west-2,eu-west-1")
    assert code == 7
    assert (
        "aws/eu-west-1: AWS refused describe instance type offerings: UnauthorizedOperation" in err
    )
    assert "--partial keeps the old prices of regions that fail" in err
    assert machines_of(tmp_path, "aws") == before


def test_without_credentials_one_line_says_what_to_do(
    call: Call, moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2: nothing is wrong with the source; moto is never asked."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with serving(aws(moto, OREGON)) as server:
        code, _, err = call(server)
        assert server.requests == []
    assert code == 2
    assert err.startswith("error: no usable credentials for AWS\n  tip: run 'aws configure'")


BROKEN = {
    "no right": (
        denied("UnauthorizedOperation"),
        "UnauthorizedOperation",
        "allow pricing:GetProducts",
    ),
    "wrong key": (denied("AuthFailure", 401), "AuthFailure", "check the credentials"),
    "slow down": (
        denied("RequestLimitExceeded", 503),
        "RequestLimitExceeded",
        "run this again later",
    ),
    "web page": (Answer(b"<html>sign in</html>"), "", ""),
    "no XML": (Answer(b"sign in"), "cannot be read", "proxy"),
    "cut connection": (Answer(spot_xml([])[:80], length=4000), "", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_fails_keeps_the_old_book(
    call: Call, moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Exit code 7, one line and a tip, the old book as it was, and no key in any of it."""
    works = aws(moto, OREGON, HISTORY)
    with serving(works) as server:
        call(server, "--in", "us-west-2")
    before = machines_of(tmp_path, "aws")
    monkeypatch.setattr(account, "ATTEMPTS", 1)
    answer, words, tip = BROKEN[name]
    with serving(broken_in("us-west-2", works, answer)) as server:
        code, out, err = call(server, "--in", "us-west-2")
    assert (code, out) == (7, "")
    assert words in err
    assert tip in err
    assert len(err.splitlines()) == 2
    assert machines_of(tmp_path, "aws") == before
    assert ACCESS not in err


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b'{"FormatVersion": "aws_v1", "PriceList": ["{'),
        as_json({"FormatVersion": "aws_v1"}),
        as_json({"FormatVersion": "aws_v1", "PriceList": []}),
        as_json({"PriceList": ["{}"]}),
        as_json({"PriceList": ["<html>"]}),
        as_json({"PriceList": [OREGON[0]], "NextToken": "same"}),
        as_json({"__type": "AccessDeniedException", "Message": f"{ACCESS} may not"}, 400),
        Answer(b"<html>sign in</html>"),
    ],
    ids=[
        "cut off",
        "no list",
        "empty list",
        "empty entry",
        "no JSON inside",
        "same token",
        "denied",
        "web page",
    ],
)
def test_a_broken_price_list_is_refused(
    call: Call, moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    """Exit code 7 and no book."""
    monkeypatch.setattr(account, "ATTEMPTS", 1)
    works = aws(moto, OREGON)
    with serving(
        lambda request: answer if "x-amz-target" in request.headers else works(request)
    ) as server:
        code, _, err = call(server, "--in", "us-west-2")
    assert code == 7
    assert len(err.splitlines()) == 2
    assert ACCESS not in err
    assert not (tmp_path / "catalogs" / "aws").exists()


def test_keys_are_in_no_output_and_no_file(call: Call, moto: str, tmp_path: Path) -> None:
    """Neither the name of the key nor the secret, in a refresh that works."""
    with serving(aws(moto, OREGON, HISTORY)) as server:
        _, out, err = call(server, "--in", "us-west-2", "--json")
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (ACCESS, SECRET):
        assert secret not in out + err
        assert secret.encode() not in files


def row(zone: str, price: str, days_ago: float) -> dict[str, Any]:
    """One row of a spot history."""
    return {
        "InstanceType": "g4dn.xlarge",
        "AvailabilityZone": zone,
        "SpotPrice": price,
        "Timestamp": NOW - timedelta(days=days_ago),
    }


def test_quantiles_are_weighted_by_time() -> None:
    """0.9 USD/h for one hour of 30 days is no high price; the rows may come in any order."""
    rows = [row("a", "0.9", 10), row("a", "0.3", 31), row("a", "0.3", 10 - 1 / 24)]
    (found,) = spot_prices(rows, NOW - timedelta(days=30), NOW).values()
    assert [found[name] for name in FIGURES] == [0.3, 0.3, 0.3]


def test_the_price_of_now_lies_between_low_and_high() -> None:
    """It fell an hour ago: the 10 % quantile is 0.5, but 0.2 is what is asked now."""
    rows = [row("a", "0.5", 31), row("a", "0.2", 1 / 24)]
    (found,) = spot_prices(rows, NOW - timedelta(days=30), NOW).values()
    assert [found[name] for name in FIGURES] == [0.2, 0.2, 0.5]


def test_a_quantile_of_nothing_is_the_price_itself() -> None:
    """A price that has held for no time."""
    assert quantile([(0.5, 0.0)], 0.1, 0.4) == 0.4
