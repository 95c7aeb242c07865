"""Islands: the plan of some machines for a model, its time, and why there is none."""

import pytest
from island_models import device, mpt

from placer.workload.island import Island, PlanWishes, Refusal, island, machine_counts

ROCE = (1600.0, "roce")
"""Network of MosaicML's A100 machines."""


def test_70b_does_not_fit_16_small_devices() -> None:
    """States alone are 65 B x 16 bytes / 16 = 60 GiB; the sentence names plan, need and memory."""
    answer = island(mpt("mpt-70b"), device("A100-40"), 8, *ROCE, 2, PlanWishes(), 512)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.plan is not None) == ("memory", True)
    assert "of 16 x A100-40, which have 39.5 GiB" in answer.reason


def test_70b_fits_64_small_devices() -> None:
    """The same on 64 devices runs: MosaicML did so."""
    answer = island(mpt("mpt-70b"), device("A100-40"), 8, *ROCE, 8, PlanWishes(), 512)
    assert isinstance(answer, Island)
    assert answer.memory.total < 39.5 * 2**30


@pytest.mark.parametrize("network", [(None, "efa"), (100.0, "")])
def test_an_unknown_network_joins_no_machines(network: tuple[float | None, str]) -> None:
    """Without bandwidth or fabric one machine is all that is offered."""
    answer = island(mpt("mpt-1b"), device("H100"), 8, *network, 2, PlanWishes(), 512)
    assert isinstance(answer, Refusal)
    assert answer.code == "network"
    assert machine_counts(mpt("mpt-1b"), device("H100"), 8, *network, PlanWishes(), 512) == (1,)


def test_a_tensor_parallel_group_stays_in_its_machine() -> None:
    """Degree 8 does not fit machines of 4."""
    wishes = PlanWishes(tensor_parallel=8)
    answer = island(mpt("mpt-1b"), device("H100"), 4, *ROCE, 4, wishes, 512)
    assert isinstance(answer, Refusal)
    assert "never leaves a machine" in answer.reason


def test_a_batch_below_one_sequence_a_rank_is_refused() -> None:
    """Four sequences for eight ranks, where tensor parallelism is ruled out."""
    wishes = PlanWishes(tensor_parallel=1)
    answer = island(mpt("mpt-1b"), device("H100"), 8, *ROCE, 1, wishes, 4)
    assert isinstance(answer, Refusal)
    assert answer.code == "batch"


def test_a_small_share_shrinks_the_microbatch() -> None:
    """Two sequences a rank cannot be taken four at a time."""
    wishes = PlanWishes(microbatch=4)
    answer = island(mpt("mpt-1b"), device("H100"), 8, *ROCE, 1, wishes, 16)
    assert isinstance(answer, Island)
    assert answer.plan.microbatch == 2
