"""Bands of interruptions from the file of AWS's Spot Instance Advisor."""

import json
from pathlib import Path
from typing import Any

from conftest import Run
from placer.market.sources.prices.spot_advisor import read_advice

LABELS = ("<5%", "5-10%", "10-15%", "15-20%", ">20%")


def advice(**machines: int) -> dict[str, Any]:
    """Write what AWS publishes, with bands of machines of us-east-1."""
    linux = {name.replace("_", "."): {"r": band, "s": 70} for name, band in machines.items()}
    ranges = [{"index": n, "label": label, "dots": n, "max": 5} for n, label in enumerate(LABELS)]
    return {"ranges": ranges, "spot_advisor": {"us-east-1": {"Linux": linux, "Windows": {}}}}


def test_spot_machines_get_the_bands_and_keep_their_prices(run: Run, tmp_path: Path) -> None:
    """The band 15 to 20 % of g5.xlarge in us-east-1; what the file does not name is counted, and a
    machine that the book does not have is not there.
    """
    path = tmp_path / "spot-advisor-data.json"
    path.write_text(json.dumps(advice(g5_xlarge=3, x99_huge=0)), encoding="utf-8")
    harvest = read_advice(str(path), 20.0)
    (row,) = harvest.rows["offers.csv"]
    assert (row["region"], row["instance_type"], row["market"]) == (
        "us-east-1",
        "g5.xlarge",
        "spot",
    )
    assert (row["interruption_low"], row["interruption_high"]) == (0.15, 0.2)
    assert sum(harvest.left_out.values()) > 100
    done = run("catalog", "import", "aws-advisor", str(path), "--as", "advice")
    assert done.returncode == 0, done.stderr
    words = ("offers", "--gpu", "A10G", "--in", "aws/us-east-1", "--market", "spot", "--json")
    before, after = (
        {row["instance_type"]: row for row in json.loads(run(*words, *more).stdout)["offers"]}
        for more in ((), ("--catalog", "default", "--catalog", "advice"))
    )
    assert before.keys() == after.keys()
    assert before["g5.xlarge"]["usd_per_hour"] == after["g5.xlarge"]["usd_per_hour"]
