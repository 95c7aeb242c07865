"""What a plan inside a worker gains over the next simpler one, and plans beside each other."""

import pytest

import placer
from placer.interface.advisor import compare

H100 = "aws/us-east-1=1x(8xH100:8)"


def gain(plan: str) -> str:
    """What is said of a plan of 64 H100 for Llama 3.1 70B."""
    document = placer.estimate("llama-3.1-70b", workers=f"{H100}{plan}").to_dict()
    return "".join(n["message"] for n in document["notes"] if n["code"] == "plan")


def test_a_plan_is_held_against_the_one_without_its_first_degree() -> None:
    """Stages go first; without them tensor parallelism stays open."""
    words = gain("+zero-1+tp=8+pp=4+vp=5+mb=1")
    assert words.startswith("pp=4 carries ")
    assert "pp=" not in words.partition(" carries ")[2]


def test_a_sharding_without_which_nothing_fits_is_needed() -> None:
    """16 bytes of 70 billion parameters are 1,130 GB; with ZeRO-2 each GPU keeps the weights, 4 of
    these bytes, whole: 282 GB.
    """
    words = gain("+zero-3+ckpt=full+mb=1")
    assert words.startswith("zero-3 is needed: without it zero-2")


def test_nothing_is_said_of_a_plan_without_parts() -> None:
    """A model on one GPU shards nothing."""
    note = placer.estimate("gpt2", workers="aws/us-east-1=1xA10G+none").to_dict()["notes"]
    assert not [one for one in note if one["code"] == "plan"]


def test_parts_of_a_step_stand_beside_each_other() -> None:
    """They are all of the step of a worker that exchanges with nobody; plans are told by number."""
    plans = [f"{H100}+zero-3+ckpt=full+mb=1", f"{H100}+zero-1+tp=8+pp=4+vp=5+mb=1"]
    beside = compare("llama-3.1-70b", plans)
    assert [option.label for option in beside.options] == ["1", "2"]
    rows = beside.to_dict()["placements"]
    for row in rows:
        total = row["estimate"]["step_seconds"]["total"]
        assert sum(row["inside_seconds"].values()) == pytest.approx(total)
    assert rows[0]["inside_seconds"]["waiting for other stages"] == 0
    assert rows[1]["inside_seconds"]["waiting for other stages"] > 0


def test_the_parts_are_those_of_the_slowest_worker() -> None:
    """With equal parts, a worker of A100 takes longer than one of H100 with the same plan."""
    plan = "+zero-3+ckpt=full+mb=1"
    mixed = f"{H100}{plan},aws/us-east-1=1x(8xA100-80:8){plan}"
    alike = f"aws/us-east-1=2x(8xH100:8){plan}"
    rows = compare("llama-3.1-8b", [mixed, alike]).to_dict()["placements"]
    slow, fast = (sum(row["inside_seconds"].values()) for row in rows)
    assert slow > 1.5 * fast
