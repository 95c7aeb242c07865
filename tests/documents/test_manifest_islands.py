"""Islands in the manifest: version 2, ranks that count machines, and what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from run_plans import islands, plain_workers
from second_opinions import edited, signed

import placer
from placer.documents.manifest import read_manifest
from placer.documents.manifest.question import question_of
from placer.documents.schemas import schema_text
from placer.documents.validate import check_document
from placer.errors import PlacerError

INNER = {
    "sharding": "zero-3",
    "tensor_parallel": 2,
    "checkpointing": "full",
    "microbatch": 4,
    "precision": "bf16",
}


@pytest.fixture(scope="module")
def planned() -> dict[str, Any]:
    """Two islands of two machines with two GPUs, and one of one machine."""
    return islands("all-reduce", ("aws/a", 2, 2), ("gcp/b", 1, 1), gpu_count=2, inner=INNER)


def test_a_manifest_of_islands_is_version_2_and_follows_its_schema(planned: dict[str, Any]) -> None:
    """2 islands x 2 machines + 1 = 5 machines, in 3 workers."""
    jsonschema.validate(planned, json.loads(schema_text("manifest-v2")))
    manifest = read_manifest(planned, "m.json")
    assert (manifest.world_size, manifest.workers) == (5, 3)
    assert [group.rank_offset for group in manifest.groups] == [0, 4]
    assert manifest.rendezvous.machines == 5
    assert check_document(planned, "m.json") == "manifest of 3 workers of 5 machines in 2 groups"


def test_version_1_reads_as_workers_of_one_machine() -> None:
    """Nothing changes for it: ranks of workers are ranks of machines."""
    manifest = read_manifest(plain_workers("all-reduce", ("aws/a", 2), ("gcp/b", 1)), "m.json")
    assert [(g.machines, g.inner, g.rank_offset) for g in manifest.groups] == [
        (1, None, 0),
        (1, None, 2),
    ]
    assert not manifest.has_islands
    assert manifest.workers == manifest.world_size == 3


def test_version_1_does_not_know_islands() -> None:
    """A version 1 with machines would be run as something else by an older placer."""
    document = plain_workers("all-reduce", ("aws/a", 2))
    document["groups"][0]["machines"] = 2
    with pytest.raises(PlacerError, match="'machines', which version 1 does not know"):
        read_manifest(signed(document), "m.json")


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        ("groups/0/machines", 0, r"groups\[0\].machines is 0: expected"),
        (
            "groups/0/machines",
            10**9,
            "1000000000: expected `int` <= 4096",
        ),
        ("groups/0/machines", "two", "machines is .two.: expected `int`"),
        ("groups/0/machines", 1, "group workers-1 starts at rank 4, but 2 machines stand"),
        ("groups/1/rank_offset", 2, "starts at rank 2, but 4 machines stand before it"),
        ("world_size", 3, "5 machines in groups, world_size 3"),
        ("rendezvous/machines", 3, "the rendezvous is for 3 machines"),
        ("groups/0/region", "b", "an island is in one zone|are in aws/a and aws/b"),
        ("groups/0/inner/sharding", "zero-4", "unknown sharding 'zero-4'"),
        ("groups/0/inner/checkpointing", "some", "unknown checkpointing 'some'"),
        ("groups/0/inner/precision", "fp4", "unknown precision 'fp4'"),
        ("groups/0/inner/tensor_parallel", 3, "tensor parallel degree 3"),
        ("groups/0/inner/tensor_parallel", 8, "8 GPUs of group workers-0 share each"),
        ("groups/0/inner/microbatch", 0, "inner.microbatch is 0"),
        ("groups/0/inner/microbatch", 10**9, "microbatch 1000000000"),
        ("groups/0/inner/microbatch", 1.5, "inner.microbatch is 1.5: expected `int`"),
        ("groups/0/inner", "zero-3", "expected `object | null`, got `str`"),
        (
            "groups/0/inner",
            {"shardings": "none"},
            "inner: .* unknown field `shardings`",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    planned: dict[str, Any], at: str, value: Any, words: str
) -> None:
    """Each in one line, whatever the digest says."""
    document = edited(planned, at, value)
    with pytest.raises(PlacerError, match=words) as caught:
        read_manifest(document, "m.json", allow_edits=True)
    assert str(caught.value).count("\n") == 0


def test_a_group_without_its_machines_is_no_version_2(planned: dict[str, Any]) -> None:
    """Both keys of an island are said, also where they are 1 and null."""
    for key in ("machines", "inner"):
        document = copy.deepcopy(planned)
        del document["groups"][1][key]
        with pytest.raises(PlacerError, match=f"missing required field `{key}`"):
            read_manifest(document, "m.json", allow_edits=True)


def test_a_plan_of_islands_comes_back_from_its_manifest() -> None:
    """The placement that a manifest holds is the one that it was made of: two islands of two
    machines where the plan had two machines.
    """
    asked: dict[str, Any] = {"catalog": "erben-2023", "workers": "2", "regions": "1", "gpu": "T4"}
    document = placer.recommend("roberta-xlm", exchange="all-reduce", **asked).to_manifest()
    inner = {**INNER, "tensor_parallel": 1}
    groups = [{**group, "machines": 2, "inner": inner} for group in document["groups"]]
    meeting = {**document["rendezvous"], "machines": 4}
    parts = {"groups": groups, "world_size": 4, "rendezvous": meeting}
    told = signed({**document, **parts, "schema": "placer.manifest/v2"})
    jsonschema.validate(told, json.loads(schema_text("manifest-v2")))
    _, placement = question_of(read_manifest(told, "m.json"), "m.json")
    (group,) = placement.groups
    assert group.spec.split("=", 1)[1] == "2x2xT4:spot+zero-3+ckpt=full+mb=4"
    assert (placement.workers, placement.machines) == (2, 4)
