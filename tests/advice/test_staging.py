"""Data that is copied once to a store beside the workers."""

import pytest

from placer.advice.recommendation.beside.staging import copy_usd
from placer.interface.advisor import Advisor
from placer.solving.result import Result
from placer.units import GIB

BUDGET = "150/h"


def asked(**words: object) -> Result:
    """157 GB of images in Backblaze's store in California, for one kind of machine."""
    return Advisor("default").recommend(
        "resnet50",
        data="backblaze/us-west",
        data_size="157GB",
        samples="115M",
        budget=BUDGET,
        gpu="H200:8",
        figures="book",
        **words,  # type: ignore[arg-type]
    )


def test_a_copy_in_the_region_of_the_workers_is_named_with_its_price() -> None:
    """146.2 GiB leave Backblaze for 0.01 USD/GiB and stay in S3 in Mumbai for a month for 0.025:
    5.12 USD. The machines there then read at the speed of their cards.
    """
    result = asked()
    (note,) = [note for note in result.notes if note.code == "staged"]
    assert "157 GB copied once to s3@aws/ap-south-1 for $5.12" in note.message
    store = result.problem.catalog.store("s3@aws/ap-south-1")
    assert copy_usd(store, result.problem) == pytest.approx(157e9 / GIB * (0.01 + 0.025), rel=1e-3)


def test_nothing_is_said_where_a_copy_buys_nothing() -> None:
    """Machines beside their data read it fast enough; and without a size nobody knows what a copy
    costs.
    """
    slow = Advisor("default").recommend(
        "resnet50",
        data="s3://us-east-1",
        data_size="157GB",
        samples="115M",
        budget="5/h",
        gpu="T4",
        places="aws/us-east-1",
    )
    assert all(note.code != "staged" for note in slow.notes)
    unsized = Advisor("default").recommend(
        "resnet50", data="backblaze/us-west", budget="20/h", gpu="H200:8"
    )
    assert all(note.code != "staged" for note in unsized.notes)
