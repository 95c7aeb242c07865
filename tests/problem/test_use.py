"""Machines that must be used, and joint quotas: words, proofs against plain enumeration, drafts."""

from pathlib import Path

import pytest

from conftest import Run
from instances import question, wishing
from placer.advice.recommendation.recommend import recommend
from placer.cost_model.limits import violations
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.contradictions import unusable
from placer.problem.requirements import Quota, Requirements, Used
from placer.problem.words.machines import parse_used, read_quotas
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import solve
from proofs import PROOF, proved

SITE = "onprem/erben-eu"


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("aws/us-west-2", Used(place="aws/us-west-2")),
        ("gcp", Used(place="gcp/*")),
        ("onprem/erben-eu=1xRTX8000", Used(place=SITE, device="RTX8000")),
        ("gcp/*=2xt4:spot", Used(place="gcp/*", device="T4", market="spot", count=2)),
        ("*=1xV100:8:on-demand", Used(place="*", device="V100:8", market="on_demand")),
        ("gcp/us-central1=3xT4*", Used(place="gcp/us-central1", device="T4*", count=3)),
    ],
)
def test_words_become_rules(erben: Catalog, word: str, rule: Used) -> None:
    """The grammar of placements by hand; names are spelt as in the book, and a rule writes itself
    as it was read.
    """
    assert parse_used([word], erben) == (rule,)
    assert parse_used([rule.spec], erben) == (rule,)


@pytest.mark.parametrize(
    ("place", "device", "scope"), [("gcp/us-central1", "T4*", "each"), ("gcp/*", "T4", "together")]
)
def test_offers_of_a_rule_share_its_quota(
    erben: Catalog, place: str, device: str, scope: str
) -> None:
    """Eight GPUs are eight machines, not eight of each size, and not eight in each region."""
    quota = Quota(place="gcp/*", gpu="*", market="*", gpus=8, scope=scope)
    asked = Advisor(erben).problem("convnext-large", places=place, market="spot")
    for count, says in ((8, []), (9, ["the quota allows only 8 of them"])):
        rule = Used(place=place, device=device, count=count)
        found = unusable(wishing(asked, quotas=(quota,), used=(rule,)))
        assert [text.removeprefix(f"--use {rule.spec}: ") for text in found] == says


def test_owned_machines_come_with_their_site(erben: Catalog) -> None:
    """Naming the site in --use admits all that is owned there, as --in does; another question does
    not see them.
    """
    advisor = Advisor(erben)
    assert {
        p.offer.gpu
        for p in advisor.problem("roberta-xlm", use=f"{SITE}=1xRTX8000").pools
        if p.offer.provider == "onprem"
    } == {"RTX8000", "V100"}
    assert not any(
        p.offer.provider == "onprem" for p in advisor.problem("roberta-xlm", use="gcp=1xT4").pools
    )


def test_infeasible_says_what_leaving_a_rule_out_would_give(run: Run) -> None:
    """A DGX-2 in the cloud costs 6.30 USD/h spot: with 5 USD/h nothing fits, with more budget or
    without the rule something does.
    """
    ask = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "5/h")
    done = run(*ask, "--use", "gcp/us-central1=1xV100:8", columns=300)
    assert done.returncode == 3
    assert "--budget 6.3" in done.stderr
    assert "no --use gcp/us-central1=1xV100:8" in done.stderr


def test_of_two_rules_the_one_in_the_way_is_named(erben: Catalog) -> None:
    """Without the DGX-2 five dollars suffice; without the T4 they do not."""
    wish = Requirements(
        budget_usd_per_hour=5.0,
        used=(Used(place="gcp/*", device="T4"), Used(place="gcp/*", device="V100:8")),
    )
    found = recommend(replace(Advisor(erben).problem("roberta-xlm"), requirements=wish))
    assert [option.note for option in found.nearest if option.label == "use"] == [
        "no --use gcp/*=1xV100:8"
    ]


def together(gpus: int, place: str = "*", gpu: str = "*", market: str = "*") -> Quota:
    """A joint quota."""
    return Quota(place=place, gpu=gpu, market=market, gpus=gpus, scope="together")


def test_rows_count_apart_or_together(erben: Catalog) -> None:
    """4 T4 in each of two regions keep a quota of 4 for each place, and break one of 7 for both."""
    groups = "gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot"

    def broken(*rows: Quota) -> list[str]:
        problem = question("roberta-xlm", erben, quotas=rows)
        return [v.message for v in violations(place_by_hand(groups, problem), problem)]

    assert broken(Quota(place="*", gpu="*", market="*", gpus=4)) == []
    assert broken(together(8, place="gcp/*", gpu="T4")) == []
    assert broken(together(7, place="gcp/*", gpu="T4")) == [
        "8 GPUs exceed the joint quota of 7 GPUs of T4 in gcp/*"
    ]
    assert broken(together(3, place="aws/*")) == []


def test_quota_file_with_a_scope(run: Run, tmp_path: Path) -> None:
    """A fifth column; without it, or where it is empty, a row holds for each."""
    path = tmp_path / "quota.csv"
    path.write_text(
        "place,gpu,market,gpus,scope\n*,*,*,16,\ngcp,T4,spot,6,together\n", encoding="utf-8"
    )
    assert [(row.place, row.gpus, row.scope) for row in read_quotas(path)] == [
        ("*", 16, "each"),
        ("gcp/*", 6, "together"),
    ]
    asked = "--model resnet50 --catalog erben-2023 --gpu T4 --in gcp --market spot --workers 2.."
    words = asked.split()
    done = run("recommend", *words, "--quota", str(path), columns=200)
    assert done.returncode == 0, done.stderr
    assert run("recommend", *words, "--workers", "7..", "--quota", str(path)).returncode == 3


def vcpus(most: int, place: str = "*", market: str = "*", machine: str = "*") -> Quota:
    """A quota of vCPUs."""
    return Quota(place=place, gpu="*", market=market, vcpus=most, scope="together", machine=machine)


def test_rows_of_vcpus_change_answers_and_never_for_the_better() -> None:
    """Of 40 drawn markets with one to three rows of vCPUs at least 3 have another answer without
    them, which is never a worse one.
    """
    changed = 0
    for seed in range(40):
        answer = proved("vcpus", seed)
        wish = answer.problem.requirements
        each = tuple(row for row in wish.quotas if row.vcpus is None)
        open_wish = replace(wish, quotas=each)
        free = solve(replace(answer.problem, requirements=open_wish), "exact", PROOF)
        changed += free.placement != answer.placement
        if answer.value is not None:
            assert free.value is not None
            assert not answer.objective.better(answer.value, free.value, 1e-8), seed
    assert changed >= 3


def test_rows_of_vcpus_count_machines(erben: Catalog) -> None:
    """4 T4 on machines of 8 vCPUs in each of two regions take 64 together: a row of 64 holds them,
    one of 63 does not. Rows of other places, markets or machine types count none of them.
    """
    groups = "gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot"

    def broken(row: Quota) -> list[str]:
        problem = question("roberta-xlm", erben, quotas=(row,))
        return [v.message for v in violations(place_by_hand(groups, problem), problem)]

    size = {o.vcpus for o in erben.offers if (o.gpu, o.gpu_count, o.provider) == ("T4", 1, "gcp")}
    assert size == {8}
    assert broken(vcpus(64, "gcp/*")) == []
    assert broken(vcpus(63, "gcp/*")) == ["64 vCPUs exceed the joint quota of 63 vCPUs in gcp/*"]
    for row in (vcpus(0, "aws/*"), vcpus(0, market="on_demand"), vcpus(0, machine="g[0-9]*")):
        assert broken(row) == []


def test_machines_of_unknown_vcpus_are_refused(erben: Catalog) -> None:
    """The vCPUs of own machines are assumed: a row that matches them admits none, and says why; a
    row of a cloud leaves them alone.
    """
    machines = {row.instance_type for row in erben.offers if row.price_basis == "owned"}
    assert machines
    for row, admitted in ((vcpus(10**6), False), (vcpus(10**6, "gcp/*"), True)):
        problem = question(
            "roberta-xlm", erben, quotas=(row,), places_in=("onprem/erben-eu", "gcp/*")
        )
        owned = [pool for pool in problem.pools if pool.offer.price_basis == "owned"]
        assert bool(owned) == admitted
        by_hand = violations(place_by_hand("onprem/erben-eu=1xRTX8000", problem), problem)
        assert (not by_hand) == admitted
        assert admitted or "whose vCPUs nobody knows" in by_hand[0].message
        offer = next(o for o in erben.offers if o.place == "onprem/erben-eu")
        assert ("whose vCPUs nobody knows" in problem.quota_problem(offer)) != admitted
