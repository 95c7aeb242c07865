"""What is said where no machine is admitted for a language model: the plan that comes nearest, what
it lacks, and what would fit.
"""

from typing import Any

import pytest

from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.solving.solve import require_pools

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
