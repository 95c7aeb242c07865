"""What is said where no machine is admitted for a language model: the plan that comes nearest, what
it lacks, and what would fit.
"""

from typing import Any

import pytest

from instances import gpu_of, offer, two_places
from placer.cost_model.estimate import evaluate
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import require_pools
from placer.workload.inner_plan import InnerPlan

advisor = Advisor()


def refusal(model: str = "llama-3.1-70b", **words: Any) -> PlacerError:
    """The error of a question that admits no machine."""
    with pytest.raises(PlacerError) as raised:
        require_pools(advisor.problem(model, "default", **({"figures": "book"} | words)))
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    return raised.value


def test_a_small_quota_is_named_with_the_plan_that_comes_nearest() -> None:
    """8 x A10G share 70.6 B x 16 bytes: more than 131 GiB on each of them, however they are
    divided. A quota of 64 would do, or larger devices.
    """
    error = refusal(gpu="A10G", quota=8)
    assert "needs 140.7 GiB on each of 8 x A10G, which have 22.5 GiB" in error.message
    assert "zero-3+tp=4+ckpt=full+mb=1" in error.message
    assert "8xA10G:8 for $" in error.hint
    assert "with a quota of 64 GPUs; or B200:8 for $" in error.hint
    assert "with --gpu B200" in error.hint


def test_the_nearest_is_the_plan_that_lacks_least_not_the_smallest_device() -> None:
    """With four GPUs each, those with most memory come nearest; the T4 of the book is not named."""
    error = refusal(quota=4)
    assert "on each of 4 x GB200, which have 184 GiB" in error.message
    assert "T4" not in str(error)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ({"gpu": "A10G", "sharding": "none"}, "8xA10G:8 for $17.21/h fits with the plan zero-3"),
        ({"gpu": "L4", "machines_per_island": 1}, "with 8 machines to an island in one zone"),
        ({"gpu": "A10G", "zones": "spread"}, "8xA10G:8 for $17.21/h fits with 8 machines"),
        ({"gpu": "T4", "quota": 1, "tp": 1}, "fits without wishes about quota, GPUs and plan"),
    ],
)
def test_each_wish_that_stands_in_the_way_is_named(words: dict[str, Any], remedy: str) -> None:
    """Sharding, the size of islands, zones; more than one of them at once."""
    assert remedy in refusal(**words).hint


def test_an_offer_names_its_largest_island_where_that_comes_nearest() -> None:
    """One T4 lacks 1,186 GiB, 128 of them 26 each: an explanation of the offer names these."""
    problem = advisor.problem("llama-3.1-70b", "default", gpu="T4")
    offer = next(o for o in problem.catalog.offers if o.device == "T4" and o.network_gbps)
    ((code, message),) = problem.offer_problems(offer)
    assert code == "device-memory"
    assert "on each of 128 x T4" in message


def placed(workers: str, model: str = "llama-3.1-405b", **words: Any) -> InnerPlan:
    """The plan of workers in one region that are written by hand."""
    problem = advisor.problem(model, "default", figures="book", **words)
    inner = place_by_hand(f"aws/us-east-1={workers}", problem).groups[0].inner
    assert inner is not None
    return inner


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("+zero-1+tp=8+pp=8", {"sharding": "zero-1", "tensor_parallel": 8, "pipeline": 8}),
        ("+tp=4", {"tensor_parallel": 4}),
        ("+ckpt=full", {"checkpointing": "full"}),
        ("+nvidia-te", {"software": "nvidia-te"}),
    ],
)
def test_what_a_written_plan_leaves_open_is_chosen(written: str, kept: dict[str, Any]) -> None:
    """16 x 8 H100 train 405B by many plans. The written parts stay, the plan in full is another
    spelling of the same, and no written part makes it faster.
    """
    machines = "1x(64xH100:8):spot"
    inner = placed(machines + written)
    assert {name: getattr(inner, name) for name in kept} == kept
    assert placed(machines + inner.spec) == inner

    problem = advisor.problem("llama-3.1-405b", "default", figures="book")
    speeds = [
        evaluate(place_by_hand(f"aws/us-east-1={machines}{plan}", problem), problem)
        for plan in (inner.spec, written, "")
    ]
    whole, part, free = (each.samples_per_second for each in speeds)
    assert whole == part
    # Nobody tries stages on fast networks, and a software that is not named is the slower.
    assert part <= free or {"pipeline", "software"} & kept.keys()


def test_a_plan_with_a_microbatch_is_whole() -> None:
    """What it leaves out is off, as in each plan that placer prints: 405B keeps all activations."""
    with pytest.raises(PlacerError) as raised:
        placed("1x(1024xH100:8):spot+zero-1+tp=8+pp=16+mb=1", tbs=2048)
    assert "zero-1+tp=8+pp=16+mb=1 needs 114.1 GiB on each of 8192 x H100" in raised.value.message
    near = raised.value.hint.removeprefix("write ").partition(",")[0]
    assert placed(f"1x(1024xH100:8):spot{near}", tbs=2048).checkpointing == "full"


def test_stages_are_named_where_ranks_have_no_sequence() -> None:
    """16,384 GPUs in tensor groups of 8 are 2,048 ranks for 1,953 sequences: stages leave fewer."""
    with pytest.raises(PlacerError, match="leave data-parallel ranks") as raised:
        placed("1x(2048xH100:8):spot", tbs=1953)
    near = raised.value.hint.removeprefix("write ").partition(",")[0]
    assert placed(f"1x(2048xH100:8):spot{near}", tbs=1953).pipeline > 1


def test_the_reason_that_removes_most_offers_is_named() -> None:
    """Two offers of a T4 and one of a V100, where an A10 is wanted, in either order."""
    problem = two_places(gpus=("A10",))
    rows = (
        offer("aws", "a", "V100", 2.0),
        offer("gcp", "b", "T4", 1.0),
        offer("aws", "a", "T4", 1),
    )
    for offers in (rows, rows[::-1]):
        gpus = {name: gpu_of(name) for name in ("T4", "V100")}
        book = replace(problem.catalog, offers=offers, gpus=gpus)
        with pytest.raises(PlacerError, match="removed by GPU: 3") as refused:
            require_pools(replace(problem, catalog=book))
        assert refused.value.hint == "widen the request; most often: T4 is not among --gpu A10"
