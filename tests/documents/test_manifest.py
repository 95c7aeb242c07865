"""The launch manifest: what is in it, what is refused, and islands."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conforming import validate
from rehearsed import by_hand, manifest_of
from run_plans import document as plain_workers
from run_plans import islands
from second_opinions import fresh, signed

import placer
from conftest import Run
from placer.cost_model.estimate import estimate
from placer.documents.manifest import read_manifest
from placer.documents.manifest.manifest_reader import STEPS, bucket_name
from placer.documents.manifest.types import question_of
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.problem.exchange import crossings


def made(exchange: str, **words: Any) -> dict[str, Any]:
    """Manifest of a small plan over two cities of AWS."""
    asked = {"catalog": "phalak-2023", "workers": "2..4", "regions": "2", "budget": "3/h", **words}
    return placer.recommend("niser", exchange=exchange, alternatives=False, **asked).to_manifest()


@pytest.fixture(scope="module")
def hierarchical() -> dict[str, Any]:
    """A serverless plan with a store in each region."""
    return made("hierarchical")


@pytest.mark.parametrize(
    "exchange", ["all-reduce", "hierarchical", "parameter-server", "local-sgd"]
)
def test_a_plan_can_be_priced_again_from_its_manifest_alone(exchange: str) -> None:
    """The question that it carries gives the figures that it expects, and speeds of machines that
    add up to its throughput.
    """
    document = (
        made(exchange, workers="2", local_steps="4") if exchange == "local-sgd" else made(exchange)
    )
    problem, placement = question_of(read_manifest(document, "plan.json"), "plan.json")
    again, expected = estimate(placement, problem), document["expected"]
    assert again.samples_per_second.value == expected["samples_per_second"]["value"]
    assert (again.step.total, again.usd_per_hour.total) == (
        expected["step_seconds"]["total"],
        expected["usd_per_hour"]["total"],
    )
    assert placement.workers == document["world_size"]
    speed = sum(group["count"] * group["samples_per_second"] for group in document["groups"])
    if exchange == "all-reduce":  # fast machines do more: B over the sum of all speeds
        assert again.step.calculation == pytest.approx(problem.batch / speed)


def test_serverless_plans_meet_in_buckets(hierarchical: dict[str, Any]) -> None:
    """One bucket where the function reads, one in each of two cities; the store is polled each
    second, as it is priced.
    """
    assert hierarchical["rendezvous"]["method"] == "buckets"
    roles = [bucket["role"] for bucket in hierarchical["buckets"]]
    assert roles == ["exchange", "workers", "workers"]
    assert hierarchical["buckets"][0]["name"] == hierarchical["storage"]["bucket"]
    assert len({bucket["name"] for bucket in hierarchical["buckets"]}) == 3
    assert hierarchical["exchange"]["timeouts"]["poll_s"] == 1.0
    validate(hierarchical, "manifest")


def test_others_meet_at_an_address_and_one_worker_nowhere() -> None:
    """A parameter server has a machine more than the world has workers; one worker meets nobody."""
    server = made("parameter-server")
    assert server["rendezvous"]["machines"] == server["world_size"] + 1
    assert (server["rendezvous"]["method"], server["buckets"]) == ("address", [])
    one = placer.recommend("niser", catalog="phalak-2023", workers="1..1").to_manifest()
    assert (one["rendezvous"]["method"], one["rendezvous"]["machines"]) == ("none", 1)
    assert read_manifest(one, "m.json").exchange.strategy == "none"


def test_data_with_places_give_each_group_its_share() -> None:
    """Two places with half of the data each: the groups say what their place computes, 1 in all."""
    result = placer.recommend(
        "roberta-xlm",
        catalog="erben-2023",
        budget="20/h",
        regions="2",
        exchange="all-reduce",
        data="gcp/us-central1=1M:stay,gcp/europe-west1=1M:stay",
    )
    groups = read_manifest(result.to_manifest(), "m.json").groups
    shares = {group.place: group.data.place_share or 0.0 for group in groups}
    assert sum(shares.values()) == pytest.approx(1.0)


def test_versions(hierarchical: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer version is refused in one line; an older one goes through its step."""
    with pytest.raises(
        PlacerError, match="manifest version 3 is newer than this placer, which reads 2"
    ):
        check_document({**hierarchical, "schema": "placer.manifest/v3"}, "m.json")
    zero = signed({**hierarchical, "schema": "placer.manifest/v0"})
    with pytest.raises(PlacerError, match="there is no manifest version 0"):
        check_document(zero, "m.json")
    monkeypatch.setitem(
        STEPS, 0, lambda document: {**document, "schema": "placer.manifest/v1", "name": "raised"}
    )
    assert read_manifest(zero, "m.json").name == "raised"
    with pytest.raises(PlacerError, match="is not a manifest"):
        check_document({**hierarchical, "schema": "placer.manifest/vX"}, "m.json")


def test_edits_are_refused_unless_allowed(hierarchical: dict[str, Any]) -> None:
    """A digest that differs is said; with allow_edits everything else is still checked."""
    changed = {**hierarchical, "name": "mine"}
    with pytest.raises(PlacerError, match="edited by hand"):
        read_manifest(changed, "m.json")
    assert read_manifest(changed, "m.json", allow_edits=True).name == "mine"


def test_buckets_have_names_of_their_own(hierarchical: dict[str, Any]) -> None:
    """A renamed bucket is fine, one that has another's name is not: what regions put there would be
    mixed up.
    """
    document = fresh(hierarchical)
    document["buckets"][1]["name"] = "mine"
    assert read_manifest(document, "m.json", allow_edits=True).buckets[1].name == "mine"
    document["buckets"][0]["name"] = "mine"
    with pytest.raises(PlacerError, match="two buckets have one name"):
        read_manifest(document, "m.json", allow_edits=True)
    document["buckets"].append({**document["buckets"][1], "name": "more", "place": "aws/us-east-9"})
    with pytest.raises(
        PlacerError, match=r"the exchange hierarchical has no bucket of the .* in aws/us-east-9"
    ):
        read_manifest(document, "m.json", allow_edits=True)


def test_the_command_says_it_in_one_line(
    run: Run, tmp_path: Path, hierarchical: dict[str, Any]
) -> None:
    """Exit code 2, one line and a tip, no traceback."""
    path = tmp_path / "m.json"
    for document, words in (
        ({**hierarchical, "schema": "placer.manifest/v12"}, "newer"),
        ({**hierarchical, "world_size": 3}, "edited by hand"),
        ({"schema": "placer.manifest/v1"}, "digest differs"),
    ):
        path.write_text(json.dumps(document), encoding="utf-8")
        done = run("validate", str(path))
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 2), done.stderr
        assert words in done.stderr


def test_groups_form_beside_the_calculation() -> None:
    """A peer of hivemind waits for its group forming even where the calculation is over: half of
    it, but 5 s at least, 15 s at most.
    """
    found = set()
    for batch in ("64", "4K", "1M"):
        document = made("all-reduce", tbs=batch)
        calculation = document["expected"]["step_seconds"]["calculation"]
        waits = document["exchange"]["timeouts"]
        assert waits["matchmaking_s"] == min(15.0, max(5.0, round(calculation / 2, 1)))
        assert (
            waits["averaging_s"]
            >= waits["matchmaking_s"] + document["expected"]["step_seconds"]["communication"]
        )
        found.add(waits["matchmaking_s"])
    assert min(found) == 5.0
    assert max(found) == 15.0


def test_names_of_buckets_are_those_of_one_plan(hierarchical: dict[str, Any]) -> None:
    """Names of buckets are global: another plan of the same model in the same regions has others,
    the same plan the same. Google Cloud refuses names that hold google.
    """
    names = [bucket["name"] for bucket in hierarchical["buckets"]]
    assert names == [bucket["name"] for bucket in made("hierarchical")["buckets"]]
    assert all(re.fullmatch(r"placer-niser-[a-z0-9-]+-[0-9a-f]{10}", name) for name in names)
    other = made("hierarchical", workers="2..2")["buckets"]
    assert not {bucket["name"] for bucket in other} & set(names)
    shared = {**hierarchical, "model": {**hierarchical["model"], "name": "google/t5"}}
    assert bucket_name(shared, "us-west1").startswith("placer-t5-us-west1-")


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
    validate(planned, "manifest-v2")
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


def test_a_plan_of_two_workers_averages_by_the_software_of_its_question() -> None:
    """NCCL in the default book; an exchange that nothing is said of would be hivemind's."""
    words: dict[str, Any] = {"workers": "2", "regions": "..1", "gpu": "T4", "alternatives": False}
    document = placer.recommend("roberta-xlm", budget="5/h", **words).to_manifest()
    problem, placement = question_of(read_manifest(document, "plan.json"), "plan.json")
    assert (placement.workers, placement.exchange.transport, problem.transport) == (
        2,
        "nccl",
        "nccl",
    )


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
    validate(told, "manifest-v2")
    _, placement = question_of(read_manifest(told, "m.json"), "m.json")
    (group,) = placement.groups
    assert group.spec.split("=", 1)[1] == "2x2xT4:spot+zero-3+ckpt=full+mb=4"
    assert (placement.workers, placement.machines) == (2, 4)


def test_ranks_follow_each_other_as_the_ring_that_is_priced() -> None:
    """A ring over three regions is priced in the order of their names, in which gloo and NCCL pass
    the ranks; so is a plan whose groups were written in another order.
    """
    places = ["gcp/us-central1", "gcp/asia-east1", "gcp/europe-west1"]
    workers = ",".join(f"{place}=2xT4:spot" for place in places)
    problem, placement = by_hand(workers=workers, transport="nccl")
    document = manifest_of(problem, placement)
    assert [group["place"] for group in document["groups"]] == sorted(places)
    assert [group["rank_offset"] for group in document["groups"]] == [0, 2, 4]
    assert placement.exchange.in_ring


@pytest.mark.parametrize("transport", ["nccl", "gloo"])
def test_ranks_without_gpus_are_passed_the_way_that_is_priced(transport: str) -> None:
    """Processors average by gloo, which passes the ranks backwards: what was priced with NCCL, the
    default, has them in the opposite order.
    """
    places = ["aws/us-west-2", "aws/eu-west-2", "aws/ap-south-1"]
    workers = ",".join(f"{place}=1xCPU-2:on-demand" for place in places)
    problem, placement = by_hand("niser", "phalak-2023", workers, transport=transport)
    assert placement.exchange.in_ring
    ranks = [group["place"] for group in manifest_of(problem, placement)["groups"]]
    passed = set(crossings(ranks, "gloo"))
    assert passed == set(crossings(sorted(places), placement.exchange.transport))
    opposite = {"nccl": "gloo", "gloo": "nccl"}[transport]
    assert passed != set(crossings(sorted(places), opposite))
