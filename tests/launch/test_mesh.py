"""The mesh of a launch: worlds, ranks, degrees and shares of the batch, by hand for small plans."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_plans import A, B, document, islands

import placer
from conftest import in_fresh_python
from placer.documents.manifest import read_manifest
from placer.errors import PlacerError
from placer.launch.mesh import Machines, Mesh, mesh_of

SHARDED = {"sharding": "zero-3"}


def mesh(told: dict[str, Any]) -> Mesh:
    """The mesh of a manifest."""
    return mesh_of(read_manifest(told, "m.json"))


def degrees(found: Mesh) -> list[tuple[int, int, int, int]]:
    """Size, copies, shards and tensor degree of each world."""
    return [(w.size, w.dp_replicate, w.dp_shard, w.tp) for w in found.worlds]


def test_gradients_averaged_each_step_make_one_world_of_all_islands() -> None:
    """Two islands of two machines of two GPUs, sharded: 8 ranks, two copies over 4 ranks each; they
    meet at machine 0. 24 samples are 3 a rank.
    """
    found = mesh(islands("all-reduce", (A, 2, 2), inner=SHARDED, gpu_count=2))
    (world,) = found.worlds
    assert degrees(found) == [(8, 2, 4, 1)]
    assert world.machines == (Machines(group="workers-0", rank=0, count=4, processes=2),)
    assert (world.first, world.samples, found.between) == (0, (3,) * 8, "")


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ("none", (16, 8, 1, 2)),
        ("zero-1", (16, 8, 1, 2)),
        ("zero-2", (16, 2, 4, 2)),
        ("zero-3", (16, 2, 4, 2)),
        ("hybrid", (16, 4, 2, 2)),
    ],
)
def test_degrees_follow_the_inner_plan(sharding: str, expected: tuple[int, ...]) -> None:
    """Two islands of two machines of 4 GPUs, two of which share each matrix: 16 ranks, 8 of them
    data-parallel. Hybrid shards inside a machine, over two ranks.
    """
    inner = {"sharding": sharding, "tensor_parallel": 2}
    assert degrees(mesh(islands("all-reduce", (A, 2, 2), inner=inner, gpu_count=4))) == [expected]


@pytest.mark.parametrize(
    ("strategy", "compression", "between"),
    [
        ("local-sgd", "none", "torchft"),
        ("diloco", "none", "torchft"),
        ("streaming-diloco", "none", "torchft"),
        ("diloco", "int4", "placer"),
        ("all-reduce", "int8", "placer"),
        ("parameter-server", "none", "placer"),
        ("central", "none", "placer"),
        ("hierarchical", "none", "placer"),
    ],
)
def test_other_exchanges_have_a_world_for_each_worker(
    strategy: str, compression: str, between: str
) -> None:
    """Three islands of two machines each: worlds that meet at machines 0, 2 and 4."""
    overlap = strategy == "streaming-diloco"
    found = mesh(islands(strategy, (A, 2, 2), (B, 1, 2), compression=compression, overlap=overlap))
    assert [(w.workers, w.first, w.size) for w in found.worlds] == [
        ((0,), 0, 2),
        ((1,), 2, 2),
        ((2,), 4, 2),
    ]
    assert (found.between, bool(found.why)) == (between, True)


@pytest.mark.parametrize("strategy", ["hierarchical-all-reduce", "asgd-ga", "model-averaging"])
def test_exchanges_that_average_inside_a_region_have_a_world_for_each(strategy: str) -> None:
    """Two workers in A and one in B: A's average inside after each step, by PyTorch."""
    found = mesh(document(strategy, (A, 2), (B, 1)))
    assert [(w.workers, w.machine_count) for w in found.worlds] == [((0, 1), 2), ((2,), 1)]
    assert found.between == "placer"


def test_fp16_gradients_are_pytorchs_own() -> None:
    """DDP's hook and FSDP2's reduce_dtype send two bytes: still one world."""
    assert len(mesh(document("all-reduce", (A, 2), (B, 1), compression="fp16")).worlds) == 1


def test_islands_of_unequal_shape_are_worlds_that_placer_averages() -> None:
    """Two machines shard the model in A, one holds it whole in B: no device mesh, and the mesh says
    so. Without sharding every GPU has its copy, and with hybrid sharding every machine: they are
    one world of three ranks.
    """
    apart = mesh(islands("all-reduce", (A, 1, 2), (B, 1, 1), inner=SHARDED))
    assert (len(apart.worlds), apart.between) == (2, "placer")
    assert apart.why == "islands of unequal shape are no device mesh"
    for sharding in ("none", "hybrid"):
        told = islands("all-reduce", (A, 1, 2), (B, 1, 1), inner={"sharding": sharding})
        assert degrees(mesh(told)) == [(3, 3, 1, 1)]


def test_a_parameter_server_is_in_no_world() -> None:
    """Machine 2 is the server: it joins neither worker."""
    found = mesh(document("parameter-server", (A, 2)))
    assert [found.world_of(machine) for machine in range(3)] == [*found.worlds, None]


def test_one_machine_of_several_gpus_is_one_world() -> None:
    """Eight GPUs of one machine: eight copies, 24 samples, 3 each; nothing between."""
    found = mesh(islands("none", (A, 1, 1), gpu_count=8))
    assert (degrees(found), found.between) == ([(8, 8, 1, 1)], "")
    assert found.worlds[0].samples == (3,) * 8


@given(
    batch=st.integers(1, 3000),
    counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    gpus=st.sampled_from([1, 2, 8]),
    strategy=st.sampled_from(["all-reduce", "diloco", "parameter-server", "asgd-ga"]),
)
def test_shares_are_whole_and_add_up_to_the_batch(
    batch: int, counts: tuple[int, int], gpus: int, strategy: str
) -> None:
    """Nothing is cut off: 512 sequences over nine islands are 56 or 57 each, and ranks of one
    island differ by one at most; every machine is in one world, in order.
    """
    told = islands(
        strategy, (A, counts[0], 1), (B, counts[1], 1), gpu_count=gpus, target_batch_size=batch
    )
    found = mesh(told)
    assert found.samples == batch
    assert all(len(w.samples) * w.tp == w.size for w in found.worlds)
    assert all(w.dp_replicate * w.dp_shard * w.tp == w.size for w in found.worlds)
    if len(found.worlds) == sum(counts):
        assert all(max(w.samples) - min(w.samples) <= 1 for w in found.worlds)
    machines = [
        row.rank + number for w in found.worlds for row in w.machines for number in range(row.count)
    ]
    assert machines == list(range(sum(counts)))


def test_what_was_priced_with_hivemind_and_pytorch_lacks_is_hiveminds() -> None:
    """The book of Erben et al. (2024) prices hivemind, whose Uniform8BitQuantization PyTorch lacks;
    in two bytes PyTorch does the same all-reduce.
    """
    words: dict[str, Any] = {
        "catalog": "erben-2023",
        "budget": "5/h",
        "exchange": "all-reduce",
        "workers": 4,
        "alternatives": False,
    }
    coarse, fine = (
        mesh(placer.recommend("roberta-xlm", compression=name, **words).to_manifest())
        for name in ("int8", "fp16")
    )
    assert (len(coarse.worlds), coarse.between) == (4, "hivemind")
    assert (len(fine.worlds), fine.between) == (1, "")


def test_the_mesh_needs_no_torch() -> None:
    """Launchers read it on machines where only placer is installed."""
    code = "import sys, placer.launch.mesh; print({'torch', 'pandas'} & set(sys.modules))"
    assert in_fresh_python(code).stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ({"pipeline": 2}, (32, 2, 16, 1, 1, 1)),
        ({"pipeline": 4, "tensor_parallel": 2, "context_parallel": 2}, (32, 4, 2, 1, 2, 2)),
        ({"sharding": "hybrid", "pipeline": 8}, (32, 8, 1, 4, 1, 1)),
        ({"sharding": "hybrid", "tensor_parallel": 2, "context_parallel": 2}, (32, 1, 4, 2, 2, 2)),
        ({"sharding": "zero-3", "expert_parallel": 8}, (32, 1, 1, 32, 1, 1)),
    ],
)
def test_degrees_of_divided_models(inner: dict[str, Any], expected: tuple[int, ...]) -> None:
    """One island of four machines of 8 GPUs, outermost first. Eight stages have half a machine
    each, and hybrid shards over its four ranks, or over two where four share the rest;
    experts are divided among ranks that are there.
    """
    told = islands("none", (A, 1, 4), inner={"sharding": "zero-1", **inner}, gpu_count=8)
    (world,) = mesh(told).worlds
    assert (
        world.size, world.pp, world.dp_replicate, world.dp_shard, world.cp, world.tp
    ) == expected  # fmt: skip
    assert len(world.samples) == world.dp_replicate * world.dp_shard


@pytest.mark.parametrize(
    ("groups", "stages", "fits"),
    [(((A, 2, 2),), 2, True), (((A, 2, 2),), 4, False), (((A, 1, 2), (B, 1, 2)), 2, False)],
)
def test_stages_of_several_islands_are_whole_machines_in_one_place(
    groups: tuple[tuple[str, int, int], ...], stages: int, fits: bool
) -> None:
    """Stages are outermost, so that the first half of the machines has the first stage of both
    islands. Half a machine, or another region, would be another plan than what was priced.
    """
    inner = {"sharding": "zero-1", "pipeline": stages}
    told = islands("all-reduce", *groups, inner=inner, gpu_count=8)
    if fits:
        assert [(w.pp, w.dp_replicate) for w in mesh(told).worlds] == [(2, 16)]
        return
    with pytest.raises(PlacerError, match="stages of whole machines in one place"):
        mesh(told)
